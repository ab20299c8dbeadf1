/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers, for the other rooms: look names up, and give names to buffers. */
#ifndef PJRTFS_FILES_BUFFERS_BUFFERS_H
#define PJRTFS_FILES_BUFFERS_BUFFERS_H

#include "files/internal.h"
#include "pjrtfs/sharding.h"

/* Make DEVICE's buffers/ in PARENT, which is fixed; DEVICE->buffers gets a reference.  0 or
 * -ENOMEM. */
int files_add_buffers(struct pf_node *parent, struct device *device);

/* Find the buffer that NAME means ("x", "x.npy", "ns/x", "cpu:1/x") for CRED, relative to
 * DEVICE's directory, with a reference.  WANT: R_OK or W_OK.  -ENOENT, -EACCES, -EINVAL. */
int files_find_buffer(const struct device *device, const char *name,
		      const struct pf_cred *cred, int want, struct pf_buffer **ret,
		      struct pf_err *err);

/* Walk NAME's directories from DEVICE's buffers ("cpu:1/ns/x": from cpu:1's).  *DIR gets a
 * reference, *LAST the last part of NAME.  -ENODEV, -ENOENT, -EACCES. */
int files_walk(const struct device *device, const char *name, const struct pf_cred *cred,
	       struct pf_node **dir, const char **last, struct pf_err *err);

/* Find a buffer and its value (pf_buffer_value), with references, both of the buffer that has
 * NAME last.  *BUFFER, if it is not NULL, was found by NAME: its reference is taken. */
int files_find_value(const struct device *device, const char *name,
		     const struct pf_cred *cred, int want, struct pf_buffer **buffer,
		     struct pf_value **value, struct pf_err *err);

/* The length of NAME without slashes at its end. */
size_t files_path_len(const char *name);

/* The device of the arrays in DIR, a directory in buffers/; borrowed. */
struct device *files_device_of(struct pf_node *dir);

/* BUFFER's current device; borrowed. */
static inline struct device *files_buffer_device(const struct pf_buffer *buffer)
{
	return pf_container_of(pf_buffer_location(buffer), struct device, location);
}

/* The name for a result or a new buffer. */
struct target {
	struct pf_node *dir; /* owned reference */
	char stem[PF_NAME_MAX + 1];
	char *name;    /* owned: as the user wrote it */
	mode_t perm;   /* of a new file, before the umask; 0: 0644 */
	bool numbered; /* the name of a new buffer is the number of a result */
};

/* The permission bits of the buffer NAME, for copies of it; 0: no such buffer. */
mode_t files_mode_of_buffer(const struct device *device, const char *name,
			    const struct pf_cred *cred);

/*
 * Find the directory and the stem of NAME, for CRED to make or replace a buffer there; the caller
 * releases *RET.  -ENOENT, -ENODEV: no such directory; -EINVAL, -ENAMETOOLONG, -EILSEQ: no buffer
 * can have that name; -EEXIST: a directory has it; -EACCES: no W_OK on the buffer there, or, for a
 * new one, on the directory; -ENOMEM.
 */
int files_find_target(const struct device *device, const char *name,
		      const struct pf_cred *cred, struct target *ret, struct pf_err *err);
void files_target_release(struct target *target); /* all zeros is allowed */

/* The buffer that has the name TARGET now, with a reference, or NULL. */
struct pf_buffer *files_target_buffer(const struct target *target);

/*
 * Give BUFFER (a reference is taken) the name TARGET: a new inode, with the owner and mode of
 * the buffer that it replaces, or else CRED's.  With EXCL -EEXIST if there is one; -ENOENT: the
 * directory is gone; -ENAMETOOLONG, -ENOMEM.  Takes the name lock; or, for several names that
 * appear at once, the caller holds it, and has checked each target before.
 */
int files_put_buffer(struct target *target, struct pf_buffer *buffer,
		     enum pf_format format, const struct pf_cred *cred, bool excl,
		     struct pf_err *err);
int files_check_target_locked(struct target *target, struct pf_err *err);
int files_put_buffer_locked(struct target *target, struct pf_buffer *buffer,
			    enum pf_format format, const struct pf_cred *cred, bool excl,
			    struct pf_err *err);

/* The names that a name in a command stands for. */
enum files_expansion {
	FILES_ITSELF,
	FILES_LEAVES,  /* the buffers below a directory, whose names may be parameters' */
	FILES_RESULTS, /* the same, of results that a command numbered, in their order */
};

/*
 * Append to RET the names that NAME stands for: itself, or, for a directory ("weights", "ns/"), all
 * buffers below it ("weights/b"), depth first, by stem, or by number where all stems are decimal.
 * *OTHERS (may be NULL) grows by the files there that are no buffers.
 * Returns an enum files_expansion, or -ENOENT, -EACCES, -E2BIG, -ENOMEM.
 */
int files_expand(const struct device *device, const char *name,
		 const struct pf_cred *cred, struct names *ret, size_t *others,
		 struct pf_err *err);

/* Is NAME a directory of buffers that CRED may search? */
bool files_is_directory(const struct device *device, const char *name,
			const struct pf_cred *cred);

/* Make the directory NAME, as mkdir(2) does; 0 too if it exists.  Takes the name lock. */
int files_make_directory(const struct device *device, const char *name,
			 const struct pf_cred *cred, struct pf_err *err);

/* Unlink the buffer NAME, as unlink(2) does.  -ENOENT, -EACCES.  Takes the name lock. */
int files_remove_buffer(const struct device *device, const char *name,
			const struct pf_cred *cred, struct pf_err *err);

/* An array in a file of SIZE bytes. */
struct backed {
	enum pf_dtype dtype;
	struct pf_shape shape;
	const char *memory; /* its kind; borrowed; NULL: the default */
	int fd;             /* borrowed */
	uint64_t size;
	struct pf_backing *backing; /* reads the array's bytes; a reference is taken */
	uint64_t skip;              /* out: the bytes before them */
};

/*
 * Link the array B as NAME in DIR, with CRED's owner and the permission bits PERM; *RET gets a
 * reference.  -EINVAL: a reader of NAME would not get the bytes of the file, or no buffer can have
 * that name; -EEXIST; -EOPNOTSUPP: the plugin has no such type; -ENOMEM.
 */
int files_link_backed(struct pf_node *dir, const char *name, struct backed *b,
		      mode_t perm, const struct pf_cred *cred, struct pf_node **ret,
		      struct pf_err *err);

/* Free the buffers whose frees are deferred, and defer no more.  Takes the name lock. */
void files_end_deferred_frees(struct pf_fs *fs);

/* --- after a restart of the daemon --------------------------------------------------- */

restore_fn buffers_restore_directory;
restore_fn buffers_restore_file;
restore_fn buffers_restore_sharding;

/* All nodes are back. */
void buffers_restored(struct restoring *r);

/* --- arrays on several devices ------------------------------------------------------ */

/* The content of NAME.sharding.json, about the buffers NAME of several devices. */
struct sharded {
	enum pf_dtype dtype;
	struct pf_shape shard; /* of each device's buffer */
	/* The devices are always known; the rest of S, and WHOLE, only with KNOWN. */
	struct pf_sharding s;
	bool known;
	struct pf_shape whole;
};

void sharded_release(struct sharded *sharded); /* all zeros is allowed */

/* The sharding of the array NAME ("ns/ws"), for CRED.  1: in *RET, which the caller's reference on
 * *NODE keeps.  0: NAME is a buffer on one device, or does not exist.  -EACCES; -ENOENT, -ENODEV:
 * no such directory. */
int files_find_sharding(struct pf_fs *fs, const char *name, const struct pf_cred *cred,
			struct pf_node **node, const struct sharded **ret,
			struct pf_err *err);

/* May CRED make, or replace, the sharding file of NAME?  0; -EINVAL: NAME has a device in it;
 * -ENAMETOOLONG, -ENOENT, -EACCES. */
int files_check_sharding(struct pf_fs *fs, const char *name, const struct pf_cred *cred,
			 struct pf_err *err);

/*
 * Make or replace it; the content of SHARDED is taken.  The last shard's end removes it.  The name
 * lock is held until the caller has named the shards: the file is listed before them, for programs
 * that remove files in order.  -errno of files_check_sharding; -ENOMEM.
 */
int files_put_sharding_locked(struct pf_fs *fs, const char *name,
			      const struct pf_cred *cred, struct sharded *sharded,
			      struct pf_err *err);

/* The devices that LIST names, or, if it is NULL, all of DEVICE's plugin, in *RET, all zeros before,
 * which the caller releases also after an error.  -EINVAL, -E2BIG of pf_device_names_parse;
 * -ENODEV: no device has such a name; -ENOMEM. */
int files_sharding_devices(struct pf_fs *fs, const struct device *device,
			   struct json_object *list, struct pf_device_names *ret,
			   struct pf_err *err);

/* The state of NODE, a file of an array: "ready".  Static. */
const char *files_buffer_state(struct pf_node *node);

#endif
