/* SPDX-License-Identifier: Apache-2.0 */
/* Private to state_dir.c, the state directory, state_kept.c, what is in it, and state_file.c, one
 * file. */
#ifndef PJRTFS_FILES_STATE_DIR_H
#define PJRTFS_FILES_STATE_DIR_H

#include "internal.h"

/* The state of a node: the tree's counts, and a hash of what these do not count, the options of a
 * program. */
struct version {
	uint64_t any, bytes, extra;
};

/* A file or directory that is kept. */
struct kept {
	uint64_t ino; /* of its node */
	struct kept *parent;
	char *name;         /* owned; of a root: a path */
	struct kept *chain; /* next with the same hash of its place */
	unsigned children, scan;
	bool directory;
	bool touched; /* names in it, or its attributes, are newer than its last fsync */
	struct version version;  /* of the node, that is kept; zeros: none is */
	struct backing *backing; /* a reference, or NULL */
};

/* The bytes of an array that was not used yet. */
struct backing {
	struct pf_backing base;
	struct pf_state_dir *d;
	struct kept *kept; /* borrowed; NULL: fd has it */
	int fd;            /* or -1: by its name */
	uint64_t skip;
};

struct pf_state_dir {
	struct pf_fs *fs;
	char *path; /* owned */
	int fd, lock_fd;
	pthread_t thread;
	bool running;

	pthread_mutex_t names; /* rank 0; protects the places of kept, also during I/O */
	struct pf_map by_ino, by_place;
	struct kept tmp;   /* what waits there for its place */
	unsigned scan;     /* number of the comparison */
	uint64_t compared; /* the tree's count when that began */
	double walk_s;     /* CPU time of the walk through the tree */
	unsigned n_failed, n_later;
	struct pf_err why; /* of the first failure of this comparison */

	pthread_mutex_t lock; /* rank 10; protects the fields below */
	pthread_cond_t cond;
	bool stopping;
	uint64_t asked, passed; /* comparisons: how many were asked for, and are over */
	struct pf_err failing;  /* the last comparison's first failure */
	unsigned n_failing;
	struct names unread; /* files that could not be read at the start */
};

/* Append the path of NAME in PARENT (NULL: a root), or of K, below the state directory. */
void state_put_path(const struct kept *parent, const char *name, struct pf_buf *out);
void state_path_of(const struct kept *k, struct pf_buf *out);

/* Open K's file or directory to read it, with FLAGS.  The descriptor, or -errno. */
int state_open(const struct pf_state_dir *d, const struct kept *k, int flags);

/* NODE is kept as NAME in PARENT (NULL: a root, NAME is a path).  NULL: no memory. */
struct kept *state_kept_new(struct pf_state_dir *d, struct kept *parent, const char *name,
			    struct pf_node *node, bool directory);

/* The file or directory that is kept as NAME in PARENT, or NULL. */
struct kept *state_kept_at(const struct pf_state_dir *d, const struct kept *parent,
			   const char *name);

/* K leaves its place; it gets NAME (taken on success) in PARENT, or -ENOMEM. */
void state_leave(struct pf_state_dir *d, struct kept *k);
int state_take(struct pf_state_dir *d, struct kept *k, struct kept *parent, char *name);

/* K, which has no children, is not kept any more: free it. */
void state_forget(struct pf_state_dir *d, struct kept *k);

/* Make nodes in DIR of what is in PARENT.  What cannot be read is noted, and left alone. */
void state_load_dir(struct pf_state_dir *d, struct kept *parent, struct pf_node *dir);

enum state_saved {
	STATE_SAVED,
	STATE_LATER, /* a process writes to it, or memory is short: try again */
	STATE_NEVER, /* there is nothing to keep: it was refused, or lost, or removed */
};

/* Write NODE's bytes and attributes to FD, an empty file.  An enum state_saved; or -errno, a failure
 * of the disk.  Blocks. */
int state_file_save(struct pf_node *node, int fd);

/* Give FD, a file or directory, the attributes of NODE.  -errno: a failure of the disk. */
int state_file_save_attr(struct pf_node *node, int fd);

/* NODE's present state. */
struct version state_file_version(struct pf_node *node);

/*
 * Make the node NAME in DIR of the file FD: a program, which compiles later; an array whose bytes
 * BACKING, of which a reference is taken, reads from *SKIP on when they are used; or else of bytes
 * that are read now.  *RET gets a reference.  -errno: it cannot be made.
 */
int state_file_load(struct pf_node *dir, const char *name, int fd,
		    struct pf_backing *backing, uint64_t *skip, struct pf_node **ret,
		    struct pf_err *err);

/* The same for a directory. */
int state_file_load_dir(struct pf_node *dir, const char *name, int fd,
			struct pf_node **ret, struct pf_err *err);

/* Is NODE an array whose bytes are nowhere in memory any more? */
bool state_file_is_lost(struct pf_node *node);

/* 0, or -EOPNOTSUPP: the file system of FD, an empty file, has no extended attributes. */
int state_file_check(int fd, struct pf_err *err);

#endif
