/* SPDX-License-Identifier: Apache-2.0 */
/* What the rooms of src/files tell of in events. */
#ifndef PJRTFS_FILES_COMMON_TELL_H
#define PJRTFS_FILES_COMMON_TELL_H

#include "files.h"

/* Begin EVENT about NODE, of its owner.  The name lock may be held in all of these. */
void files_tell_begin(struct pf_event *e, const char *event, struct pf_node *node);

/* Add EVENT about NODE, which is linked still. */
void files_tell(struct pf_node *node, const char *event);

/* NODE has another name than FROM, a path. */
void files_tell_moved(struct pf_node *node, const char *event, const char *from);

/* A command of UID with ID (JSON text, or NULL) at FILE ("control") failed. */
void files_tell_failed(struct pf_fs *fs, const char *file, uid_t uid, const char *id,
		       const struct pf_err *err);

#endif
