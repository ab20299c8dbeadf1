/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers, for the other rooms: what their names mean, and giving them names. */
#ifndef PJRTFS_FILES_BUFFERS_BUFFERS_H
#define PJRTFS_FILES_BUFFERS_BUFFERS_H

#include "files/internal.h"
#include "pjrtfs/sharding.h"

/* Make DEVICE's buffers/ in PARENT, which is fixed; DEVICE->buffers gets a reference.  0 or
 * -ENOMEM. */
int files_add_buffers(struct pf_node *parent, struct device *device);

/*
 * Find the buffer that NAME means ("x", "x.npy", "ns/x", "cpu:1/x") for CRED, relative to
 * DEVICE's directory, with a reference.  WANT: R_OK or W_OK.  -ENOENT, -EACCES, -EINVAL.
 */
int files_find_buffer(struct pf_fs *fs, const struct device *device, const char *name,
		      const struct pf_cred *cred, int want, struct pf_buffer **ret,
		      struct pf_err *err);

/*
 * Walk NAME's directories from DEVICE's buffers ("cpu:1/ns/x": from cpu:1's).  On success
 * *DIR has a reference and *LAST points to the last part of NAME.  -ENODEV, -ENOENT, -EACCES.
 */
int files_walk(struct pf_fs *fs, const struct device *device, const char *name,
	       const struct pf_cred *cred, struct pf_node **dir, const char **last,
	       struct pf_err *err);

/*
 * The value of such a buffer, too, with a reference in *VALUE, as pf_buffer_value: if the
 * buffer loses its name to another one meanwhile, that one's.  *BUFFER, if it is not NULL, is
 * what a look-up gave already, and may become the other (the reference goes with it).
 */
int files_find_value(struct pf_fs *fs, const struct device *device, const char *name,
		     const struct pf_cred *cred, int want, struct pf_buffer **buffer,
		     struct pf_value **value, struct pf_err *err);

/* The device on which the arrays of DIR, a directory in buffers/, are; borrowed. */
struct device *files_device_of(struct pf_node *dir);

/* The device on which BUFFER lives at this moment; borrowed. */
static inline struct device *files_buffer_device(const struct pf_buffer *buffer)
{
	return pf_container_of(pf_buffer_location(buffer), struct device, location);
}

/* Where an output or a new buffer goes. */
struct target {
	struct pf_node *dir; /* owned reference */
	char stem[PF_NAME_MAX + 1];
	char *name;    /* owned: as the user wrote it */
	mode_t perm;   /* of a new one, less the umask; 0: 0644 */
	bool numbered; /* a new one's name is the number of a result */
};

/* The mode of the buffer NAME, for copies of it; 0: there is none. */
mode_t files_mode_of_buffer(struct pf_fs *fs, const struct device *device,
			    const char *name, const struct pf_cred *cred);

/*
 * Find where the name NAME leads, for CRED to make or replace a buffer there: the
 * directories exist, W_OK on what is there, or on the directory for a new one.
 */
int files_find_target(struct pf_fs *fs, const struct device *device, const char *name,
		      const struct pf_cred *cred, struct target *ret, struct pf_err *err);
void files_target_release(struct target *target);

/* The buffer that has that name now, with a reference, or NULL. */
struct pf_buffer *files_target_buffer(const struct target *target);

/*
 * Give the name TARGET a new buffer (a reference is taken): a new inode, which keeps owner
 * and mode of what was there, or is CRED's.  EXCL: -EEXIST.
 */
int files_put_buffer(struct target *target, struct pf_buffer *buffer,
		     enum pf_format format, const struct pf_cred *cred, bool excl,
		     struct pf_err *err);

/* The same, the name lock held: several appear at once. */
int files_check_target_locked(struct target *target, struct pf_err *err);
int files_put_buffer_locked(struct target *target, struct pf_buffer *buffer,
			    enum pf_format format, const struct pf_cred *cred, bool excl,
			    struct pf_err *err);

/* What a name in a command stands for. */
enum files_expansion {
	FILES_ITSELF,
	FILES_LEAVES, /* the buffers below a directory, whose names may be parameters' */
	FILES_RESULTS, /* of a directory, which all have a number for a name, given by commands to
			* results: their order is all that these names tell */
};

/*
 * Append to RET the names that NAME stands for: itself, or, for a directory ("weights",
 * "ns/"), all buffers below it: by stem, in a directory whose stems are all decimal by
 * number, depth first; each begins with the directory's name and one slash.  Returns an enum
 * files_expansion, or -ENOENT, -EACCES, -E2BIG, -ENOMEM.
 */
int files_expand(struct pf_fs *fs, const struct device *device, const char *name,
		 const struct pf_cred *cred, struct names *ret, struct pf_err *err);

/* Is NAME a directory of buffers? */
bool files_is_directory(struct pf_fs *fs, const struct device *device, const char *name,
			const struct pf_cred *cred);

/* Make the directory NAME, as mkdir does; it may be there already. */
int files_make_directory(struct pf_fs *fs, const struct device *device, const char *name,
			 const struct pf_cred *cred, struct pf_err *err);

/* Unlink the buffer NAME, as rm does.  -ENOENT, -EACCES. */
int files_remove_buffer(struct pf_fs *fs, const struct device *device, const char *name,
			const struct pf_cred *cred, struct pf_err *err);

/* Append the lines of Python that convert files of other formats. */
void buffers_print_foreign(struct pf_buf *out);

/* Free the buffers whose frees are deferred, and defer no more.  Takes the name lock. */
void files_end_deferred_frees(struct pf_fs *fs);

/* Arrays that are split over devices. */

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
