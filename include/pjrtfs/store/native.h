/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled programs as files: a plugin's machine code, and for whom it is. */
#ifndef PJRTFS_STORE_NATIVE_H
#define PJRTFS_STORE_NATIVE_H

#include "pjrtfs/store/executable.h"

/*
 * EXECUTABLE as a file (.pjrtexe): an entry of the cache (cache/entry.h), which holds what the
 * plugin serialized, the optimized program, and the identity of plugin, host and devices.
 * *RET is the caller's reference to its LEN bytes; NULL: it is not ready.  It is taken from
 * the cache if it is there, else the plugin serializes it.
 * -EOPNOTSUPP, the plugin's refusal; -EINVAL: it was loaded, and is gone from the cache;
 * -ENOSPC: no room for the bytes.  Blocks.
 */
int pf_executable_serialize(struct pf_executable *executable, struct pf_bytes **ret,
			    uint64_t *len, struct pf_err *err);

/* The bytes that will have, as far as is known without asking the plugin; else 0. */
uint64_t pf_executable_serialized_len(struct pf_executable *executable);

#endif
