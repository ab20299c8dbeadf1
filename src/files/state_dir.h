/* SPDX-License-Identifier: Apache-2.0 */
/* Private to state_dir.c, the state directory, state_kept.c, what is in it, and state_file.c, one
 * file. */
#ifndef PJRTFS_FILES_STATE_DIR_H
#define PJRTFS_FILES_STATE_DIR_H

#include <sys/stat.h>

#include "internal.h"
#include "pjrtfs/state.h"

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
	struct kept tmp; /* what waits there for its place */
	struct pf_map
		known; /* while the directory is read: nodes by their files' numbers */
	unsigned scan; /* number of the comparison */
	uint64_t compared; /* the tree's count when that began */
	double walk_s;     /* CPU time of the walk through the tree */
	unsigned n_failed, n_later;
	unsigned n_behind; /* files for which this comparison had no time */
	struct pf_err why; /* of the first failure of this comparison */

	pthread_mutex_t lock; /* rank 10; protects the fields below */
	pthread_cond_t cond;
	bool stopping;
	uint64_t asked, passed; /* comparisons: how many were asked for, and are over */
	struct pf_err failing;  /* the last comparison's first failure */
	unsigned n_failing, n_waiting;
	int64_t behind_since; /* CLOCK_MONOTONIC, ms: files wait in each comparison; 0: none do */
	uint64_t write_errors;
	struct names unread; /* files that could not be read at the start */
};

/* Append the path of NAME in PARENT (NULL: a root), or of K, below the state directory. */
void state_put_path(const struct kept *parent, const char *name, struct pf_buf *out);
void state_path_of(const struct kept *k, struct pf_buf *out);

/* Open K's file or directory to read it, with FLAGS.  The descriptor, or -errno. */
int state_open(const struct pf_state_dir *d, const struct kept *k, int flags);

/* The node INO is kept as NAME in PARENT (NULL: a root, NAME is a path).  NULL: no memory. */
struct kept *state_kept_new(struct pf_state_dir *d, struct kept *parent, const char *name,
			    uint64_t ino, bool directory);

/* The journal notes that K is the file or directory with ST's inode number.  The next daemon finds it
 * by that if this one dies, whatever happened to names meanwhile. */
void state_kept_note(const struct kept *k, const struct stat *st);

/* The file or directory that is kept as NAME in PARENT, or NULL. */
struct kept *state_kept_at(const struct pf_state_dir *d, const struct kept *parent,
			   const char *name);

/* K leaves its place: its name, which the caller owns. */
char *state_leave(struct pf_state_dir *d, struct kept *k);

/* K gets the place NAME, which is taken, in PARENT.  The caller has reserved a slot of by_place. */
void state_take(struct pf_state_dir *d, struct kept *k, struct kept *parent, char *name);

/* K, which has no children, is not kept any more: free it. */
void state_forget(struct pf_state_dir *d, struct kept *k);

/* Make nodes in DIR, of which PARENT is kept, of what is in the state directory; after the daemon's death
 * find the files of the nodes that have come back.  What cannot be read is noted, and left alone. */
void state_load(struct pf_state_dir *d, struct kept *parent, struct pf_node *dir);

/* Before state_load of the first root, which finds files by what the journal says, and after the last. */
int state_load_begin(struct pf_state_dir *d);
void state_load_end(struct pf_state_dir *d);

/* A file to be written when all directories and names are there. */
struct todo {
	struct kept *parent; /* lives until the removals */
	char *name;          /* owned */
	uint64_t ino;
	uid_t owner;
	size_t turn; /* how many of its owner's come before it */
};

/* The outcome of a comparison. */
struct todos {
	struct todo *at; /* owned */
	size_t n, cap;
};

/* Order the files so that each owner's first come first, then each one's second, and so on: an owner of
 * many files delays those of others by one each. */
void state_todos_order(struct todos *todos);

enum state_saved {
	STATE_SAVED,
	STATE_LATER, /* a process writes to it, or memory is short: try again */
	STATE_NEVER, /* nothing to keep: it was refused, or lost, or removed */
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
 * that are read now, at most MOST.  *RET gets a reference.  -errno: it cannot be made.
 */
int state_file_load(struct pf_node *dir, const char *name, int fd,
		    struct pf_backing *backing, uint64_t *skip, uint64_t most,
		    struct pf_node **ret, struct pf_err *err);

/* The same for a directory. */
int state_file_load_dir(struct pf_node *dir, const char *name, int fd,
			struct pf_node **ret, struct pf_err *err);

/* Is NODE an array whose bytes are nowhere in memory any more? */
bool state_file_is_lost(struct pf_node *node);

/* 0, or -EOPNOTSUPP: the file system of FD, an empty file, has no extended attributes. */
int state_file_check(int fd, struct pf_err *err);

#endif
