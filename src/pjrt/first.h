/* SPDX-License-Identifier: Apache-2.0 */
/* The argument of pj_executable_set_first in executions; used by executable.c only. */
#ifndef PJRTFS_SRC_PJRT_FIRST_H
#define PJRTFS_SRC_PJRT_FIRST_H

#include "pjrtfs/pjrt/executable.h"

/* Destroy X's, if it has one. */
void pj_first_free(struct pj_executable *x);

/*
 * Put X's, which has one, before the arguments of RUN, which is on N_DEVICES.  RUN's lists are
 * *ROOM's from then on: the caller frees it, also after a failure, when the plugin has read them.
 * -EINVAL: a device that X is not for; -ENOMEM.
 */
int pj_first_add(const struct pj_executable *x, size_t n_devices, struct pj_run *run,
		 void **room, struct pf_err *err);

#endif
