/* SPDX-License-Identifier: Apache-2.0 */
/* Stages: where an execution, a compile or a transfer stands, as `queue` and messages tell it. */
#ifndef PJRTFS_STAGE_H
#define PJRTFS_STAGE_H

#include "pjrtfs/base.h"

enum pf_stage {
	PF_STAGE_NONE,      /* it has not begun, or nobody tells */
	PF_STAGE_UPLOADING, /* an array is on its way to its device; its execution waits */
	PF_STAGE_WAITING,   /* for a slot */
	PF_STAGE_RUNNING,   /* it has its slots: the plugin executes, or is about to */
	PF_STAGE_LOADING,   /* a program is looked for in the cache, and loaded */
	PF_STAGE_COMPILING, /* the plugin compiles it */
	PF_STAGE_SAVING,    /* it is ready, and is put into the cache */
};

/* The word for STAGE; of PF_STAGE_NONE, the empty one. */
const char *pf_stage_word(enum pf_stage stage);

/*
 * Work that stood at STAGE has failed, as ERR says.  If it was ended there, by a death, a time limit
 * or a cancel, prefix the text: "while running: <text>"; a plugin's own refusal stays as it is.
 */
void pf_stage_blame(enum pf_stage stage, struct pf_err *err);

#endif
