/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that are split over devices. */
#ifndef PJRTFS_FILES_BUFFERS_SHARDING_H
#define PJRTFS_FILES_BUFFERS_SHARDING_H

#include "buffers.h"
#include "pjrtfs/formats/sharding.h"

/* What NAME.sharding.json tells of the buffers NAME of several devices. */
struct sharded {
	enum pf_dtype dtype;
	struct pf_shape shard; /* of each device's buffer */
	/* Devices are always there; the rest only if it is known. */
	struct pf_sharding s;
	bool known;
	struct pf_shape whole;
};

void sharded_release(struct sharded *sharded); /* all zeros is allowed */

/*
 * What NAME ("ws", "ns/ws") is, for CRED.  1: *RET, valid while the caller keeps its reference
 * to *NODE.  0: it is nothing, or the name of a buffer on one device.  -EACCES; -ENOENT,
 * -ENODEV: there is no such directory.
 */
int files_find_sharding(struct pf_fs *fs, const char *name, const struct pf_cred *cred,
			struct pf_node **node, const struct sharded **ret,
			struct pf_err *err);

/* May CRED make, or replace, the sharding file of NAME?  0; -EINVAL: NAME says which device;
 * -ENAMETOOLONG, -ENOENT, -EACCES. */
int files_check_sharding(struct pf_fs *fs, const char *name, const struct pf_cred *cred,
			 struct pf_err *err);

/*
 * Make or replace it; what SHARDED holds is taken.  The name lock is held; the shards come
 * next, under the same hold of it: so it goes with the last of them, not before, and is
 * listed before them, for those who remove what a directory lists.  As above, and -ENOMEM.
 */
int files_put_sharding_locked(struct pf_fs *fs, const char *name,
			      const struct pf_cred *cred, struct sharded *sharded,
			      struct pf_err *err);

/* Fill S's devices, the first of DEVICE's plugin, if they are not named.  -EINVAL: it has
 * fewer; -ENODEV: there is none of such a name; -ENOMEM. */
int files_sharding_devices(struct pf_fs *fs, const struct device *device,
			   struct pf_sharding *s, struct pf_err *err);

#endif
