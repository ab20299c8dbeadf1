/* What the tables of src/files share.  Private to the layer. */
#ifndef PJRTFS_FILES_FILES_H
#define PJRTFS_FILES_FILES_H

#include <json-c/json.h>

#include "pjrtfs/base/timer.h"
#include "pjrtfs/files/fs.h"
#include "pjrtfs/store/buffer.h"
#include "pjrtfs/store/executable.h"
#include "pjrtfs/store/execution.h"
#include "pjrtfs/tree/ctl.h"
#include "pjrtfs/watch/watch.h"

/* A device that has a directory in devices/. */
struct device {
	struct pf_fs *fs;         /* borrowed */
	struct pf_worker *worker; /* borrowed */
	unsigned index;           /* into the worker's description */
	char name[64];            /* "cpu:0" */
	struct pf_place place;    /* of its buffers/ */
	struct pf_node *buffers;  /* owned reference: its buffers/, or /buffers */
	pthread_mutex_t lock;     /* rank 3; protects stats */
	struct pf_buf stats;      /* memory_stats.json as last asked for */
};

/* Buffers that have lost their names and are kept for a moment: src/files/buffer_graves.c. */
struct graves {
	/* CLOCK_MONOTONIC, ms: till then somebody may come late. */
	_Atomic int64_t race_until;
	struct pf_timers *timers; /* borrowed */
	struct pf_timer timer;    /* for the oldest: armed as long as there is one */
	pthread_mutex_t lock;     /* rank 5; protects the fields below */
	bool stopped;
	struct entry *first, *last; /* one reference each; the oldest first */
	uint64_t bytes;
};

void graves_init(struct graves *graves, struct pf_timers *timers);
void graves_stop(struct graves *graves); /* bury them all, and keep no more */
void graves_release(struct graves *graves);

enum { FILES_REFUSALS = 64 };

struct pf_fs {
	struct pf_tree *tree;
	struct pf_arena *arena;
	struct pf_probe *probe;       /* borrowed; may be NULL */
	struct pf_compiler *compiler; /* borrowed */
	struct pf_cache *cache;       /* borrowed; may be NULL */
	struct pf_watch *watch;       /* borrowed */
	struct pf_worker **workers;   /* owned array of borrowed pointers */
	unsigned n_workers;
	const struct pf_failed_plugin *failed; /* borrowed */
	unsigned n_failed;
	struct device *devices; /* owned; the first is the default */
	unsigned n_devices;
	bool allow_native;           /* anybody may load compiled programs */
	struct pf_timers *timers;    /* owned */
	struct jobs *jobs;           /* owned: jobs.c's */
	struct pf_node *programs;    /* owned reference */
	struct pf_node *executables; /* owned reference */
	char *mountpoint;            /* owned */
	struct graves graves;
	/* Nodes that tell why a name in buffers/ was refused, and where the next one goes:
	 * owned references, under the name lock. */
	struct pf_node *refusals[FILES_REFUSALS];
	unsigned next_refusal;
	_Atomic unsigned n_shardings; /* NAME.sharding.json files that there are */
};

static inline struct pf_fs *fs_of(struct pf_node *node)
{
	return pf_tree_context(node->tree);
}

/* --- kinds of the fixed part of the tree ---------------------------------------------- */

extern const struct pf_kind kind_root;
extern const struct pf_kind kind_plugins;
extern const struct pf_kind kind_devices;
extern const struct pf_kind kind_programs;
extern const struct pf_kind kind_program;
extern const struct pf_kind kind_executables;
extern const struct pf_kind kind_buffers;
extern const struct pf_kind kind_control;
extern const struct pf_kind kind_cache;
extern const struct pf_kind kind_jobs;

/* Make what jobs/ needs; link_jobs is told its directory.  0 or -ENOMEM. */
int files_add_jobs(struct pf_fs *fs, struct pf_node *dir);
void files_free_jobs(struct pf_fs *fs);
extern const struct pf_kind kind_call; /* its object: a counted struct unit */
extern const struct pf_kind kind_run;  /* likewise */
extern const struct pf_kind kind_metrics;

/* Fill plugins/ and devices/.  0 or -ENOMEM. */
int files_add_plugins(struct pf_fs *fs, struct pf_node *plugins);
void files_remove_plugins(
	struct pf_fs *fs); /* workers tell their nodes nothing any more */
int files_add_devices(struct pf_fs *fs, struct pf_node *devices);

/* Link events, and tell the watch what things are called.  0 or -ENOMEM. */
int files_add_events(struct pf_fs *fs);

/* The kind ID of a file that only prints: its name, its show and its free (or NULL). */
#define FILES_TEXT(id, file, show_fn, free_fn)                                           \
	static const struct pf_kind id = {                                               \
		.name = file, .mode = S_IFREG | 0444, .show = show_fn, .free = free_fn   \
	}

/* Make a node and link it for good; *RET (may be NULL) gets a reference.  0 or -ENOMEM. */
int files_link(struct pf_node *dir, const char *name, const struct pf_kind *kind,
	       void *object, struct pf_node **ret);

/* --- buffers --------------------------------------------------------------------------- */

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

/* A buffer lost the name NAME in DIR: was it the last shard of an array?  Then that is no
 * more.  The name lock is held. */
void files_shard_gone(struct pf_node *dir, const char *name);

/*
 * The value of such a buffer, too, with a reference in *VALUE, as pf_buffer_value: if the
 * buffer loses its name to another one meanwhile, that one's.  *BUFFER, if it is not NULL, is
 * what a look-up gave already, and may become the other (the reference goes with it).
 */
int files_find_value(struct pf_fs *fs, const struct device *device, const char *name,
		     const struct pf_cred *cred, int want, struct pf_buffer **buffer,
		     struct pf_value **value, struct pf_err *err);

/* Where the arrays of DIR, a directory in buffers/, live; borrowed. */
const struct pf_place *files_place_of(struct pf_node *dir);

/* Where an output or a new buffer goes. */
struct target {
	struct pf_node *dir; /* owned reference */
	char stem[PF_NAME_MAX + 1];
	char *name; /* owned: as the user wrote it */
};

/*
 * Find where the name NAME leads, for CRED to make or replace a buffer there: the
 * directories exist, W_OK on what is there, or on the directory for a new one.
 */
int files_find_target(struct pf_fs *fs, const struct device *device, const char *name,
		      const struct pf_cred *cred, struct target *ret, struct pf_err *err);
void files_target_release(struct target *target);

/* The buffer that has that name now, with a reference, or NULL. */
struct pf_buffer *files_target_buffer(const struct target *target);

/* The place that NAME means, a buffer's or not: *DIR (a reference) and the stem there. */
int files_find_place(struct pf_fs *fs, const struct device *device, const char *name,
		     const struct pf_cred *cred, struct pf_node **dir,
		     char stem[PF_NAME_MAX + 1], struct pf_err *err);

/*
 * Give the name TARGET a new buffer (a reference is taken): a new inode, which keeps owner
 * and mode of what was there, or is CRED's.  EXCL: -EEXIST.
 */
int files_put_buffer(struct target *target, struct pf_buffer *buffer,
		     enum pf_format format, const struct pf_cred *cred, bool excl,
		     struct pf_err *err);

/* The same, the name lock held: several appear at once. */
int files_put_buffer_locked(struct target *target, struct pf_buffer *buffer,
			    enum pf_format format, const struct pf_cred *cred, bool excl,
			    struct pf_err *err);

struct names; /* command.h */

/*
 * Append to RET the names that NAME stands for: itself, or, for a directory ("weights",
 * "ns/"), all buffers below it in JAX's order: by stem, in a directory whose stems are all
 * decimal by number, depth first.  -ENOENT, -EACCES.
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

/* The device called NAME ("cpu:1"), or NULL. */
struct device *files_find_device(struct pf_fs *fs, const char *name, size_t len);

/* A JSON list of extents.  -EINVAL. */
int files_parse_shape(struct json_object *list, struct pf_shape *ret, struct pf_err *err);

/* --- programs and executables ---------------------------------------------------------- */

/* A program and its executable: the object of both sides' nodes.  Counted. */
struct unit {
	_Atomic unsigned refs;
	struct pf_fs *fs;        /* borrowed */
	struct pf_executable *x; /* owned reference */
	struct pf_node
		*program; /* its file; NULL: weak, under the name lock; made by "as" */
	struct pf_node *executable; /* owned reference: its directory, or NULL */
};

struct unit *unit_new(struct pf_fs *fs);
struct unit *unit_ref(struct unit *unit);
void unit_unref(struct unit *unit);

/*
 * May CRED do WANT (R_OK, W_OK) with UNIT: with its program's file, or, where it has none,
 * with the executable's directory.  Takes the name lock.
 */
bool files_unit_may(struct unit *unit, const struct pf_cred *cred, int want);

/*
 * Link MADE, which was made of SOURCE's program, as the executable AS ("ns/add-2x"), for CRED
 * to own, readable for whom the program is.  -EEXIST: a program, an executable or a
 * directory has that name; -ENOENT, -EACCES, -EINVAL.  Takes the name lock.
 */
int files_add_as(struct pf_fs *fs, const char *as, struct unit *source, struct unit *made,
		 const struct pf_cred *cred, struct pf_err *err);

/*
 * Call FN(ARG, its directory, its unit) for each executable, in the order of their making.  FN
 * must not change names.
 */
void files_each_executable(struct pf_fs *fs,
			   void (*fn)(void *arg, struct pf_node *node, struct unit *unit),
			   void *arg);

/* Take UNIT's directory away; what runs finishes.  Takes the name lock. */
void files_drop_executable(struct unit *unit);

/* The same, the name lock held. */
void files_drop_executable_locked(struct unit *unit);

/* Is NODE the directory of an executable that has no program? */
bool files_is_as(const struct pf_node *node);

/*
 * Link DIR/STEM/ for UNIT, replacing what is there.  The name lock is held.  PERM: the
 * directory's mode; (mode_t)-1: 0555.
 */
int files_add_executable(struct pf_node *dir, const char *stem, struct unit *unit,
			 mode_t perm, const struct pf_cred *cred, struct pf_err *err);

/* Compile X's source and answer REPLY (taken) when that has ended. */
void files_compile(struct pf_executable *x, struct pf_reply *reply);

/* The directory in executables/ that mirrors DIR in programs/, borrowed. */
struct pf_node *files_mirror_of(struct pf_node *dir);
extern const struct pf_kind kind_executables_dir;

/* executables/NAME/optimized.hlo.pb, of a unit. */
extern const struct pf_kind kind_optimized;
extern const struct pf_kind kind_serialized;

/* Run FN(ARG) on a thread of its own; false if there is none. */
bool files_on_thread(void *(*fn)(void *arg), void *arg);

/* May CRED bring machine code into the mount?  -EPERM. */
int files_may_load(struct pf_fs *fs, uid_t uid, struct pf_err *err);

/* The linked program called STEM in DIR, in whatever format; NULL if none. */
struct pf_node *files_find_stem(struct pf_node *dir, const char *stem, size_t len);

/*
 * May a program be called NAME in DIR?  OTHER, if there is one, is being replaced or MOVED
 * moved, and does not count.  0, with the format and, in PF_NAME_MAX + 1 bytes, the STEM;
 * -EINVAL, -EEXIST.
 */
int files_check_name(struct pf_node *dir, const char *name, const struct pf_node *other,
		     const struct pf_node *moved, enum pf_program_format *ret, char *stem,
		     struct pf_err *err);

/* -EEXIST if an executable that has no program is called STEM beside DIR; else 0. */
int files_check_as(struct pf_node *dir, const char *stem, struct pf_err *err);

/* The executable called NAME, with a reference.  R_OK on its program is checked. */
int files_find_unit(struct pf_fs *fs, const char *name, const struct pf_cred *cred,
		    struct unit **ret, struct pf_err *err);

/*
 * The program called NAME, "add" or "add.mlir", as files_find_unit.  An executable that has
 * no program is none.
 */
int files_find_program(struct pf_fs *fs, const char *name, const struct pf_cred *cred,
		       struct unit **ret, struct pf_err *err);

/* Append the name of UNIT's executable, its directory's path below executables/, or
 * "(removed)".  Takes the name lock. */
void files_unit_name(struct unit *unit, struct pf_buf *out);

/* Put the name of UNIT's executable before the sentence.  Takes the name lock. */
void files_name_unit(struct unit *unit, struct pf_err *err);

/* NAME without a program's extension, the caller's; NULL: no memory. */
char *files_stem_of(const char *name);

/* --- events (events.c) ------------------------------------------------------------------ */

/* Begin EVENT about NODE, of its owner.  The name lock may be held in all of these. */
void files_tell_begin(struct pf_event *e, const char *event, struct pf_node *node);

/* Add EVENT about NODE, which is linked still. */
void files_tell(struct pf_node *node, const char *event);

/* NODE has another name than FROM, a path. */
void files_tell_moved(struct pf_node *node, const char *event, const char *from);

/* A command made the buffer NODE, perhaps in place of another. */
void files_tell_result(struct pf_node *node, const char *by, bool replaced);

/* BUFFER's bytes became an array on its device after SECONDS, or were refused: ERR, else
 * NULL.  The name lock may be held. */
void files_tell_committed(struct pf_buffer *buffer, const struct pf_err *err,
			  double seconds);

/* A command of UID with ID (JSON text, or NULL) at FILE ("control") failed. */
void files_tell_failed(struct pf_fs *fs, const char *file, uid_t uid, const char *id,
		       const struct pf_err *err);

#endif
