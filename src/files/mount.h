/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the fixed part of the tree share. */
#ifndef PJRTFS_FILES_MOUNT_H
#define PJRTFS_FILES_MOUNT_H

#include "files/common/files.h"
#include "pjrtfs/files/fs.h"

extern const struct pf_kind kind_root;
extern const struct pf_kind kind_plugins;
extern const struct pf_kind kind_devices;
extern const struct pf_kind kind_cache;
extern const struct pf_kind kind_metrics;

/* Fill plugins/ and devices/.  0 or -ENOMEM. */
int files_add_plugins(struct pf_fs *fs, struct pf_node *plugins);
void files_remove_plugins(
	struct pf_fs *fs); /* workers tell their nodes nothing any more */
int files_add_devices(struct pf_fs *fs, struct pf_node *devices);

/* Link events, and tell the watch what things are called.  0 or -ENOMEM. */
int files_add_events(struct pf_fs *fs);

#endif
