/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_FILES_INTERNAL_H
#define PJRTFS_FILES_INTERNAL_H

#include <json-c/json.h>
#include <stddef.h>
#include <sys/queue.h>

#include "pjrtfs/buffer.h"
#include "pjrtfs/engine.h"
#include "pjrtfs/executable.h"
#include "pjrtfs/execution.h"
#include "pjrtfs/files.h"
#include "pjrtfs/json.h"
#include "pjrtfs/kind.h"
#include "pjrtfs/tree.h"
#include "pjrtfs/telemetry.h"
#include "pjrtfs/wait.h"

/* Shared declarations of the rooms of src/files. */

struct home;

/* A device that has a directory in devices/, as the programs and arrays of HOME see it. */
struct device {
	struct pf_fs *fs;            /* borrowed */
	struct home *home;           /* borrowed */
	unsigned number;             /* its place in HOME's devices, and in all others' */
	struct pf_worker *worker;    /* borrowed */
	unsigned index;              /* into the worker's description */
	char name[64];               /* "cpu:0" */
	struct pf_location location; /* of its buffers/ */
	struct pf_node *buffers;     /* owned reference: its buffers/, or /buffers */
	_Atomic size_t stats_len;    /* bytes of memory_stats.json as it came last */
};

/*
 * A home: where arrays and programs live, those of one isolated user, or the mount's own, in which
 * those of all other users live.  The mount's lasts until the mount ends, that of a user until another
 * user needs the place and nothing holds its arena (arena.h).
 */
struct home {
	uid_t user;
	struct pf_arena *arena; /* owned; the mount's: borrowed, as the next two */
	struct pf_worker *
		*workers;       /* owned: the user's own, in the order of the mount's */
	struct device *devices; /* owned: those of the mount, in their order */
	/* Owned references of a user's: plugins/NAME/users/UID of each worker, or NULL. */
	struct pf_node **nodes;
	struct home *next;
};

/* Buffers without a name whose memory is freed a moment later: buffers/deferred.c. */
struct deferred_frees {
	_Atomic int64_t
		race_until;    /* CLOCK_MONOTONIC, ms: open(2) may meet dead inodes */
	struct pf_timer timer; /* for the oldest: armed as long as there is one */
	/* Under the name lock: */
	STAILQ_HEAD(, deferred_free) inodes; /* owned; the oldest first */
	uint64_t bytes;
};

struct settle;

/* The commands "settle" that wait, and the thread that answers them: commands/settle.c. */
struct settling {
	pthread_mutex_t lock; /* rank 5; protects the fields below */
	pthread_cond_t changed;
	struct settle *next, *present; /* those of the next round, and of this one */
	pthread_t thread;
	bool runs, stops;
};

enum { FILES_REFUSALS = 64 };

/* How the nodes that users make come back in a restarted daemon: the restored_as of their kinds.  The
 * numbers are the journal's. */
enum restored_as {
	RESTORED_BUFFERS = 1, /* a directory in a buffers/ */
	RESTORED_BUFFER,      /* a file of a buffer, listed or a view */
	RESTORED_SHARDING,
	RESTORED_PROGRAMS, /* a directory in programs/, with its mirror */
	RESTORED_PROGRAM,  /* with its executable */
	RESTORED_AS,       /* an executable that has no program */
	RESTORED_JOB,
	RESTORED_TOPOLOGY,
};

struct buffer_inode;
struct pf_restore;

/* While nodes come back. */
struct restoring {
	struct pf_fs *fs;
	struct pf_restore *store;
	struct pf_map inodes; /* struct buffer_inode, by id: one reference each */
	struct pf_map
		written; /* RESTORING itself for each of those that was open for writing */
	struct pf_map
		files; /* directories of tensors, borrowed, by their files' numbers */
};

/* Make the node of OLD, in DIR or, if that is NULL, without a name: the function of pf_tree_restore
 * for one of the above. */
typedef int restore_fn(struct restoring *r, struct pf_node *dir,
		       const struct pf_restored *old, struct pf_node **ret,
		       struct pf_err *err);

struct pf_fs {
	struct pf_fs_config config; /* but for workers */
	struct pf_tree *tree;
	struct pf_worker **workers; /* owned array of borrowed pointers */
	unsigned n_workers;
	struct device *devices; /* owned; the first is the default */
	unsigned n_devices;
	struct device *remote; /* behind them: those that only other processes address */
	unsigned n_remote;
	struct home home;            /* the mount's own: the workers and devices above */
	pthread_mutex_t homes_lock;  /* rank 3; protects homes */
	struct home *homes;          /* owned: those of isolated users */
	struct pf_timers *timers;    /* owned */
	struct pf_quotas *quotas;    /* owned */
	struct jobs *jobs;           /* owned: jobs/jobs.c's */
	struct pf_node *programs;    /* owned reference */
	struct pf_node *executables; /* owned reference */
	struct pf_node *topologies;  /* owned reference */
	struct pf_state_dir *state_dir; /* owned; NULL: none */
	struct settling settling;
	struct deferred_frees deferred_frees;
	/* Nodes with the reasons why names in buffers/ were refused, and the place of the next
	 * one: owned references, under the name lock. */
	struct pf_node *refusals[FILES_REFUSALS];
	unsigned next_refusal;
	_Atomic unsigned n_shardings; /* NAME.sharding.json files that there are */
};

/* --- the state directory: state_dir.c ----------------------------------------------- */

/* Open config.state_dir, make nodes of its files, and keep changes there from now on.  *RET is the
 * caller's, also after a failure: it cannot be read or locked, or not as it must be. */
int pf_state_dir_open(struct pf_fs *fs, struct pf_state_dir **ret, struct pf_err *err);

/* Wait until what has changed by now is written, at the next comparison; none is made for this more
 * often than else.  -EIO: a file could not be written.  Blocks.  NULL is allowed. */
int pf_state_dir_settle(struct pf_state_dir *d, struct pf_err *err);

/* Write what has changed, for at most MS milliseconds or so, and keep nothing more.  Blocks.  NULL
 * is allowed. */
void pf_state_dir_finish(struct pf_state_dir *d, uint64_t ms);

/* Free it; no value is read any more. */
void pf_state_dir_free(struct pf_state_dir *d);

/* Append a line for each thing that is wrong. */
void pf_state_dir_health(struct pf_state_dir *d, struct pf_buf *out);

struct pf_state_dir_counts {
	uint64_t not_kept, not_read; /* files, now */
	uint64_t write_errors;       /* since the mount began */
};
void pf_state_dir_count(struct pf_state_dir *d, struct pf_state_dir_counts *ret);

static inline struct pf_fs *fs_of(struct pf_node *node)
{
	return pf_tree_object(node->tree);
}

/* The kind ID of a file that only prints: its name, its show and its free (or NULL). */
#define FILES_TEXT(id, file, show_fn, free_fn)                                           \
	static const struct pf_kind id = {                                               \
		.name = file, .mode = S_IFREG | 0444, .show = show_fn, .free = free_fn   \
	}

/* A plugin's or a device's attributes, which may be NULL: none.  The caller's. */
static inline struct json_object *attributes_of(struct json_object *attributes)
{
	return attributes ? pf_json_copy(attributes) : json_object_new_object();
}

/* The kind ID of a file of one line: of printf(3)'s FORMAT and expressions with the variable node,
 * or of a JSON object that such an expression makes (json-c writes to what it prints: readers
 * cannot share an object).  The node holds no reference to its object, but with a FREE_FN that drops it. */
#define PF_FIELD(id, file, format, ...)                                                  \
	static int id##_show(struct pf_node *node, struct pf_buf *out,                   \
			     struct pf_err *err)                                         \
	{                                                                                \
		(void)node;                                                              \
		(void)err;                                                               \
		pf_buf_printf(out, format "\n", __VA_ARGS__);                            \
		return 0;                                                                \
	}                                                                                \
	FILES_TEXT(id, file, id##_show, NULL)
#define PF_FIELD_JSON(id, file, object) PF_FIELD_JSON_OF(id, file, object, NULL)
#define PF_FIELD_JSON_OF(id, file, object, free_fn)                                      \
	static int id##_show(struct pf_node *node, struct pf_buf *out,                   \
			     struct pf_err *err)                                         \
	{                                                                                \
		struct json_object *o_ = (object);                                       \
                                                                                         \
		(void)err;                                                               \
		pf_json_print_line(o_, out);                                             \
		json_object_put(o_);                                                     \
		return 0;                                                                \
	}                                                                                \
	FILES_TEXT(id, file, id##_show, free_fn)

/* Make a node and link it for good; *RET (may be NULL) gets a reference.  0 or -ENOMEM. */
int files_link(struct pf_node *dir, const char *name, const struct pf_kind *kind,
	       void *object, struct pf_node **ret);

/* The home of USER's arrays and programs, which may be made by this: *RET, held until
 * files_leave_home.  -EUSERS: too many users have one; -ENOMEM. */
int files_home(struct pf_fs *fs, uid_t user, const struct home **ret, struct pf_err *err);

/* It may be another user's now, unless objects that live there hold it.  NULL is allowed. */
static inline void files_leave_home(const struct home *home)
{
	if (home)
		pf_arena_let_go(home->arena);
}
PF_DEFINE_CLEANUP(const struct home *, files_leave_home)

/* The home of an isolated user that comes after HOME, or the first if HOME is NULL; NULL: there is no
 * more.  It is held until files_leave_home, or until it is HOME in the next call. */
const struct home *files_next_home(struct pf_fs *fs, const struct home *home);

/* DEVICE in HOME; borrowed. */
static inline struct device *files_device_in(const struct home *home,
					     const struct device *device)
{
	return &home->devices[device->number];
}

/* The directories of buffers, each of one of FS's devices, and of HOME's; without any device, the one that
 * takes no arrays. */
static inline unsigned files_n_places(const struct pf_fs *fs)
{
	return !fs->devices ? 0 : fs->n_devices ? fs->n_devices : 1;
}

/* Take what shows the workers of isolated users out of the tree, for good. */
void files_unlink_homes(struct pf_fs *fs);

/* Free all homes but the mount's own; nothing refers to what lived there. */
void files_free_homes(struct pf_fs *fs);

/* -EREMOTE: DEVICE is one of fs->remote. */
int files_refuse_remote(const struct device *device, struct pf_err *err);

/* Can arrays be made on DEVICE?  -EOPNOTSUPP: it stands for none, as all plugins only compile. */
int files_check_device(const struct device *device, struct pf_err *err);

/* The device called NAME, of LEN bytes ("cpu:1"), borrowed.  NULL: no such device; *ERR is
 * -ENODEV, and lists the devices, or -EREMOTE: it is one of another process. */
struct device *files_find_device(struct pf_fs *fs, const char *name, size_t len,
				 struct pf_err *err);

/* An execution that no process has waited for during config.abandoned_ms still runs: end WORKER, and
 * report that.  EXECUTABLE: its name.  ID: the
 * command's, JSON text, or NULL.  Does not block. */
void files_abandon(const struct pf_fs *fs, struct pf_worker *worker,
		   const char *executable, uid_t user, const char *id);

/* Append a line for each trouble that CRED may see, what loses most first.  -ENOMEM. */
int files_troubles(struct pf_fs *fs, const struct pf_cred *cred, struct pf_buf *out);

/* Append a line on an execution that no process has waited for during a minute, or a sixtieth of
 * config.abandoned_ms, with its name if CRED may see it.  True: there is one; -ENOMEM. */
int files_print_left(struct pf_fs *fs, const struct pf_cred *cred, struct pf_buf *out);

/* May CRED read NODE, and reach it from its ancestor TOP? */
bool files_may_see(struct pf_node *node, struct pf_node *top, const struct pf_cred *cred);

/* Append a line on a transfer that takes longer than it should, with the buffer's name if CRED may see
 * it; nothing if there is none. */
void files_print_slow(struct pf_fs *fs, const struct pf_cred *cred, struct pf_buf *out);

/* The account of user UID, borrowed; NULL: no memory. */
struct pf_account *files_account(const struct pf_fs *fs, uid_t uid);

/* Read LIST, a JSON list of extents, into *RET.  -EINVAL. */
int files_parse_shape(struct json_object *list, struct pf_shape *ret, struct pf_err *err);

/* Answer a read of LEN bytes at OFF of the SIZE bytes at DATA (NULL: there are none). */
static inline void files_reply_part(struct pf_reply *reply, const void *data,
				    uint64_t size, size_t len, uint64_t off)
{
	uint64_t left = data && off < size ? size - off : 0;

	pf_reply_data(reply, left ? (const char *)data + off : NULL,
		      len < left ? len : left);
}

/* Is UID root, or config.uid, the user who started the mount and owns it?  A chown(2) of its root
 * directory makes no other owner. */
bool files_owns_mount(const struct pf_fs *fs, uid_t uid);

/* How many executions have a slot of DEVICE, and how many wait for one, of all users. */
void files_count_executions(const struct device *device, unsigned *ret_running,
			    unsigned *ret_queued);

/* Run FN(ARG), a change of plugins or libraries, which may take long, on a detached thread: when
 * the mount ends, it ends with the process (pf_fs_is_changing).  FN calls files_changed at its
 * end.  False: no thread could be created. */
bool files_change(void *(*fn)(void *arg), void *arg);
void files_changed(void);

/* For a kind's prepare that waits for a worker: answer REPLY with the result of OPEN (0 or -errno),
 * which runs on a thread of its own and may set OF->state. */
void files_open_slowly(struct pf_open *of, struct pf_reply *reply,
		       int (*open)(struct pf_open *of, struct pf_err *err));

/* End the thread that answers "settle"; the workers have ended. */
void files_end_settling(struct pf_fs *fs);

/* --- files whose bytes are collected until they are closed ------------------------------ */

/* Add what is written at OFF to OF->state, a struct pf_buf (NULL: nothing was written): a rewrite from
 * there on.  0; -EINVAL, -ENOBUFS, -ENOMEM. */
int files_written_add(struct pf_open *of, const void *src, size_t len, uint64_t off,
		      struct pf_err *err);

/* The release of such a kind. */
void files_written_release(struct pf_open *of);

/* --- events: the name lock may be held in all of these ------------------------------ */

/* Begin EVENT about NODE, which belongs to NODE's owner. */
void files_event_begin(struct pf_event *e, const char *event, struct pf_node *node);

/* Report EVENT about NODE, which is still linked; FROM: the path that it had until now, or NULL. */
void files_report(struct pf_node *node, const char *event, const char *from);

/* Report that a command of UID with ID (JSON text, or NULL) at FILE ("control") failed: ERR. */
void files_report_failed(struct pf_fs *fs, const char *file, uid_t uid, const char *id,
			 const struct pf_err *err);

/* --- lists of names ----------------------------------------------------------------- */

/* A list of words or names.  All zeros is an empty one. */
struct names {
	size_t n;
	char **at; /* owned strings in an owned array */
};

/* Append a copy of the LEN bytes at STR.  0 or -ENOMEM. */
int names_add(struct names *names, const char *str, size_t len);
void names_release(struct names *names);

/* --- files of other formats: foreign.c ---------------------------------------------- */

#define FILES_ARRAY_NAMES ".npy, .txt, .raw or .safetensors" /* for sentences */

/* 0; or -EINVAL, with what to do instead: NAME has the extension of files that buffers/, or programs/,
 * does not take. */
int files_foreign_to_buffers(const char *name, struct pf_err *err);
int files_foreign_to_programs(const char *name, struct pf_err *err);

/* The same of extensions that are known in small letters only: NAME would be a PROGRAM's, or else an
 * array's.  The two functions above call it. */
int files_check_case(const char *name, bool program, struct pf_err *err);

/* Append the lines of Python that convert files of other formats to buffers. */
void files_print_conversions(struct pf_buf *out);

/* --- the fixed part of the tree ----------------------------------------------------- */

extern const struct pf_kind kind_trace;

extern const struct pf_kind kind_readme;
extern const struct pf_kind kind_health;
extern const struct pf_kind kind_metrics;

/* deaths.c */
extern const struct pf_kind kind_restarts;
extern const struct pf_kind kind_last_death;
extern const struct pf_kind kind_root;
extern const struct pf_kind kind_cache;
extern const struct pf_kind kind_plugins;
extern const struct pf_kind kind_plugin_options; /* its object: a worker */
extern const struct pf_kind kind_log;            /* its object: a worker */
extern const struct pf_kind kind_custom_calls;   /* likewise */
extern const struct pf_kind kind_queue;          /* its object: a struct device */
extern const struct pf_kind kind_compiles;       /* its object: a worker */

/* Link users/.  0 or -ENOMEM. */
int files_add_users(struct pf_fs *fs);

/* Link ffi/; and the directory of LIBRARY (borrowed) in it.  0 or -ENOMEM. */
int files_add_ffi(struct pf_fs *fs);
int files_add_library(struct pf_fs *fs, const struct pf_library *library);

/* As files_link, for the directory of plugin NAME; if the plugin can be removed, so can the
 * directory. */
int files_link_plugin(struct pf_node *dir, const char *name, const struct pf_kind *kind,
		      void *object, struct pf_node **ret);

/* Link plugins/ and devices/.  0 or -ENOMEM. */
int files_add_plugins(struct pf_fs *fs);
int files_add_devices(struct pf_fs *fs);

/* Link plugins/NAME/users/UID of WORKER, USER's own, for files_remove_own_worker; in the place of one
 * that is about to be removed.  NULL: without memory, it is left out. */
struct pf_node *files_add_own_worker(struct pf_fs *fs, struct pf_worker *worker,
				     uid_t user);

/* Unlink NODE, whose reference is taken; or NULL.  Processes that have opened files in it see what
 * WORKER was, and nothing of later workers. */
void files_remove_own_worker(struct pf_worker *worker, struct pf_node *node);

/* Afterwards no worker calls a node of plugins/. */
void files_remove_plugins(struct pf_fs *fs);

/* pf_node_ready of NODE, as a callback. */
void files_ready(void *node);

/* Link events, and give the telemetry the names of nodes.  0 or -ENOMEM. */
int files_add_events(struct pf_fs *fs);

#endif
