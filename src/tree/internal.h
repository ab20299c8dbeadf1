/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/tree. */
#ifndef PJRTFS_TREE_INTERNAL_H
#define PJRTFS_TREE_INTERNAL_H

#include <sys/queue.h>

#include "pjrtfs/base.h"
#include "pjrtfs/json.h"
#include "pjrtfs/kind.h"
#include "pjrtfs/stream.h"
#include "pjrtfs/tree.h"
#include "pjrtfs/vfs.h"

/* A reply, or a refusal, that last_reply.c keeps for a user and login session. */
struct pf_last_reply {
	struct pf_last_reply *next;
	uid_t uid;
	pid_t sid;
	struct timespec when; /* of CLOCK_MONOTONIC */
	struct timespec made; /* the same, of CLOCK_REALTIME */
	size_t len;
	char line[]; /* LEN bytes, with their newline */
};

LIST_HEAD(pf_bucket, pf_node);

/* The children of a directory: a hash by name, and a list in the order of linking. */
struct pf_table {
	struct pf_bucket *buckets; /* owned; a power of two of them, or none */
	size_t cap;
	size_t n;
	size_t loose; /* of these, those that are not listed in their kind */
	size_t dirs;
	TAILQ_HEAD(, pf_node) children;
};

enum { PF_N_ASKERS = 4 };

/*
 * The tree's part of a node.  The tree's lock protects it, but for atomic fields.
 *
 * The nodes that a kind lists as children live as long as the node that they were made for,
 * their holder, which counts references to them, so that their shared object does too.  Other
 * nodes are their own holders.  References are held by the link, by the kernel as long as
 * lookups is not 0, by open files, and by callers of pf_node_ref.
 */
struct pf_node_priv {
	_Atomic unsigned refs;
	_Atomic bool mapped;  /* a mapping wrote since the last commit */
	_Atomic bool polled;  /* pf_node_ready has a caller of poll(2) to wake */
	_Atomic bool bounded; /* the last size that stat(2) returned may be too large */
	bool fixed;           /* a holder's: linked until the tree is freed */
	bool cached;    /* a front end may cache the attributes: changes are announced */
	bool gone;      /* was linked and no longer is */
	bool hidden;    /* the same, but its directory's lookup finds it */
	bool unwritten; /* in the tree's list of that name */
	bool earlier;   /* the kernel may know it from an earlier life of the daemon */
	uint8_t next_asker;
	struct pf_node *holder;
	struct pf_node *listed;   /* next of the nodes that the holder keeps */
	struct pf_node *dead;     /* next of the nodes to be freed */
	_Atomic uint64_t lookups; /* changed with the lock */

	struct pf_node *parent; /* borrowed; NULL: not linked */
	uint64_t position; /* among its siblings: ascends, and is never given again */
	TAILQ_ENTRY(pf_node) sibling;
	LIST_ENTRY(pf_node) chain; /* in its bucket */
	char *name;                /* owned; NULL: not linked */
	TAILQ_ENTRY(pf_node) next_unwritten;

	union {
		struct {                /* of a stream: */
			uint64_t alias; /* the number that pf_vfs_alias gives now, */
			unsigned alias_opens; /* its opens, */
			pid_t alias_asker;    /* and the thread about to open it, or 0 */
		};
		struct { /* of a kind with size_bound, which is not a stream: */
			/* Threads that have looked its name up, once or more often, and
			 * not opened it since. */
			struct pf_asker {
				pid_t pid : 31;
				bool again : 1;
			} askers[PF_N_ASKERS];
		};
	};
	LIST_HEAD(, pf_open)
	opens; /* of others than streams: their opens, the newest first; borrowed */

	struct pf_attr attr;
	uint64_t changed, written; /* the tree's count at the last change; of bytes */
	struct pf_table *table;    /* a directory's; other nodes share an empty one */
	struct pf_last_reply *last_replies; /* owned: a list */
};

/* Freed when it is closed and its last node is freed. */
struct pf_tree {
	pthread_mutex_t
		names; /* rank 1; held during compound changes of names; protects: */
	struct pf_wait *later;      /* woken when it is given back */
	pthread_mutex_t lock;       /* rank 2; protects the fields below and the nodes' */
	struct pf_map nodes;        /* by inode number; borrowed */
	struct pf_map held;         /* by user: bytes that open files hold (held.c) */
	_Atomic uint64_t *last_ino; /* borrowed: the journal's counter, or own_ino */
	_Atomic uint64_t own_ino;
	uint64_t last_position;
	/* Nodes whose records are written when the name lock is given back. */
	TAILQ_HEAD(, pf_node) unwritten;
	struct pf_restoration *restoring; /* until pf_tree_restore ends */
	uint64_t adopt;                   /* the number of the next node, or 0 */
	_Atomic uint64_t changes;         /* changed with the lock */
	_Atomic bool settles; /* pf_vfs_settle: no conversation begins any more */
	bool closed;
	struct pf_node *dead; /* nodes to be freed after the lock is given back */
	struct pf_node *root; /* one reference */
	uint64_t slow
		[PF_SLOW_NODES]; /* numbers of nodes of slow kinds; set before the mount */
	unsigned n_slow;
	void *object; /* the root's */

	pthread_mutex_t
		notify; /* rank 9; held during on_change; protects the fields below */
	void (*on_change)(void *arg, uint64_t ino, enum pf_change change,
			  const char *name);
	void *on_change_arg;
};

/*
 * last_reply.c: keep LINE, of LEN bytes without a newline, as the last reply of NODE, a control
 * file, to user UID in login session SID (PF_SID_UNKNOWN: none is kept); append it, with a
 * newline, to OUT.  Both take the tree's lock.
 */
void pf_last_reply_save(struct pf_node *node, uid_t uid, pid_t sid, const char *line,
			size_t len);
void pf_last_reply_get(struct pf_node *node, uid_t uid, pid_t sid, struct pf_buf *out);

/* node.c: callers of functions named _locked hold the tree's lock. */

/* Add 1 to the kernel's lookup count of NODE. */
void pf_node_looked_up(struct pf_node *node);

struct timespec pf_now(void);

/* NODE's attributes are about to change: notify the front end that caches them. */
void pf_node_invalidate_locked(struct pf_node *node);

/* --- record.c ------------------------------------------------------------------------ */

/* The payload of PF_STATE_NODE; the name follows, with its NUL. */
struct pf_node_record {
	uint64_t parent; /* 0: it has no name */
	uint64_t position;
	uint32_t as;
	uint32_t gone, hidden, mapped; /* as in struct pf_node_priv */
	struct pf_attr attr;
};

/* A node of an earlier life. */
struct pf_entry {
	uint64_t ino;
	struct pf_node_record record;
	char *name;            /* owned */
	struct pf_entry *next; /* with the same hash of parent and name */
	bool open, written;    /* it was open; and written since the last commit */
};

/* All of them, until pf_tree_restore ends. */
struct pf_restoration {
	struct pf_entry *entries; /* owned; by parent, then by position */
	size_t n;
	struct pf_err why;     /* a record cannot be read; no code: all could */
	struct pf_map by_name; /* by hash of parent and name: struct pf_entry */
	int (*make)(void *arg, struct pf_node *dir, const struct pf_restored *old,
		    struct pf_node **ret, struct pf_err *err);
	void *arg;
};

/* NODE's name or attributes have changed: write its record, or do so when this thread
 * gives back the name lock. */
void pf_node_write_locked(struct pf_node *node);

/* NODE is being freed: it has no record any more. */
void pf_node_forget_locked(struct pf_node *node);

/* Write NODE's record at once. */
void pf_node_write_now(const struct pf_node *node);

/* Find the records of earlier lives: *RET, with why set if one cannot be read; NULL: there are none.
 * *LAST: the greatest position.  -ENOMEM. */
int pf_restoration_new(struct pf_restoration **ret, uint64_t *last);
void pf_restoration_free(struct pf_restoration *restoration);

/* The node that was NAME in directory PARENT, or NULL. */
struct pf_entry *pf_entry_find(const struct pf_restoration *r, uint64_t parent,
			       const char *name);

/* NODE is about to be linked as NAME into DIR: it gets the number that this name had, and so do
 * its children. */
void pf_node_renumber_locked(struct pf_node *dir, const char *name, struct pf_node *node);

/* The first number for the kernel (pf_vfs_alias) of a stream INO in this life. */
uint64_t pf_first_alias(uint64_t ino);

/* The commit of a FLUSH of OF ended with CODE. */
void pf_open_committed(struct pf_open *of, int code);

/* Write OF's record, if it has a handle; is it DIRTY? */
void pf_open_write(const struct pf_open *of, bool dirty);

/* Fill in *RET what the record of HANDLE says.  False: it has no record. */
bool pf_open_read(uint64_t handle, struct pf_open *ret);

/* open.c */
struct pf_open *pf_open_ref(struct pf_open *of);
void pf_open_unref(struct pf_open *of); /* NULL is allowed */
PF_DEFINE_CLEANUP(struct pf_open *, pf_open_unref)

/* attr.c: the bytes of NODE were written: set mtime and ctime.  KILL: a user other than uid 0 wrote
 * them, so the file loses S_ISUID and, with S_IXGRP, S_ISGID. */
void pf_node_modified(struct pf_node *node, bool kill);

/* 0, or -EFBIG: a file of KIND cannot hold LEN bytes at OFF. */
int pf_kind_holds(const struct pf_kind *kind, uint64_t len, uint64_t off,
		  struct pf_err *err);

/* The attributes of NODE as thread PID sees them (0: not known). */
void pf_node_stat(struct pf_node *node, pid_t pid, struct stat *st);

/* --- size_unknown.c, for nodes whose kind has size_bound ------------------------------ */

/* PID has looked up the name of NODE. */
void pf_node_note_asker(struct pf_node *node, pid_t pid);

/* PID opens NODE: may it have called stat(2) since it last opened it? */
bool pf_node_goes_by_size(struct pf_node *node, pid_t pid);

/* Set the size of NODE in ST, for PID, if only a reader learns it. */
void pf_node_bound_size(struct pf_node *node, pid_t pid, struct stat *st);

/* --------------------------------------------------------------------------------------- */

/* names.c: NAME of DIR, listed or not, with a reference.  NAMES_HELD: the caller holds the name
 * lock.  -ENOENT, -ENOTDIR, -ENAMETOOLONG, or the error of the directory's lookup. */
int pf_dir_find(struct pf_node *dir, const char *name, bool names_held,
		struct pf_node **ret);

/* names.c: *RET: the directory INO, with a reference; -ESTALE, -ENOTDIR.  *RET may be a file
 * then. */
int pf_dir_by_ino(struct pf_tree *tree, uint64_t ino, struct pf_node **ret);

/* names.c: the kind of DIR has no function for a change of names.  Returns -EPERM. */
int pf_dir_refuses(struct pf_node *dir, struct pf_err *err);

/* open.c: is the process (or thread) PID dying of a signal? */
bool pf_process_dying(pid_t pid);

/* last_reply.c: CRED's login session (getsid(2) of its process if it is not known yet). */
pid_t pf_cred_session(const struct pf_cred *cred);

/*
 * last_reply.c: a call of CRED, DOING ("rename"), of NODE, or of NAME in the directory NODE, ends
 * with CODE.  If that is a failure, keep the sentence of ERR (NULL or empty: the errno's words)
 * for pf_vfs_refusal.  Returns CODE.  The caller holds no lock of a rank above 1.
 */
int pf_refused(struct pf_node *node, const char *name, const struct pf_cred *cred,
	       const char *doing, int code, const struct pf_err *err);

/* The same for REPLY, which is about to be sent. */
void pf_reply_refused(struct pf_reply *reply, int code);

#endif
