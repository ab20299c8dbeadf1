/* What the tables of src/files share.  Private to the layer. */
#ifndef PJRTFS_FILES_FILES_H
#define PJRTFS_FILES_FILES_H

#include <json-c/json.h>

#include "pjrtfs/files/fs.h"
#include "pjrtfs/store/buffer.h"
#include "pjrtfs/store/executable.h"
#include "pjrtfs/store/execution.h"
#include "pjrtfs/tree/ctl.h"

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

struct pf_fs {
	struct pf_tree *tree;
	struct pf_arena *arena;
	struct pf_probe *probe;     /* borrowed; may be NULL */
	struct pf_worker **workers; /* owned array of borrowed pointers */
	unsigned n_workers;
	struct device *devices; /* owned; the first is the default */
	unsigned n_devices;
	struct pf_node *programs;    /* owned reference */
	struct pf_node *executables; /* owned reference */
	char *mountpoint;            /* owned */
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
extern const struct pf_kind kind_executables;
extern const struct pf_kind kind_buffers;
extern const struct pf_kind kind_control;
extern const struct pf_kind kind_call; /* its object: a counted struct unit */

/* Fill plugins/ and devices/.  0 or -ENOMEM. */
int files_add_plugins(struct pf_fs *fs, struct pf_node *plugins);
int files_add_devices(struct pf_fs *fs, struct pf_node *devices);

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

/*
 * Give the name TARGET a new buffer (a reference is taken): a new inode, which keeps owner
 * and mode of what was there, or is CRED's.  EXCL: -EEXIST.
 */
int files_put_buffer(struct target *target, struct pf_buffer *buffer,
		     enum pf_format format, const struct pf_cred *cred, bool excl,
		     struct pf_err *err);

/* Unlink the buffer NAME, as rm does.  -ENOENT, -EACCES. */
int files_remove_buffer(struct pf_fs *fs, const struct device *device, const char *name,
			const struct pf_cred *cred, struct pf_err *err);

/* The device called NAME ("cpu:1"), or NULL. */
struct device *files_find_device(struct pf_fs *fs, const char *name, size_t len);

/* A JSON list of extents.  -EINVAL. */
int files_parse_shape(struct json_object *list, struct pf_shape *ret, struct pf_err *err);

/* --- programs and executables ---------------------------------------------------------- */

/* A program and its executable: the object of both sides' nodes.  Counted. */
struct unit {
	_Atomic unsigned refs;
	struct pf_fs *fs;           /* borrowed */
	struct pf_executable *x;    /* owned reference */
	struct pf_node *program;    /* its file, or NULL: weak, under the name lock */
	struct pf_node *executable; /* owned reference: its directory, or NULL */
};

struct unit *unit_new(struct pf_fs *fs);
struct unit *unit_ref(struct unit *unit);
void unit_unref(struct unit *unit);

/* Link DIR/STEM/ for UNIT, replacing what is there.  The name lock is held. */
int files_add_executable(struct pf_node *dir, const char *stem, struct unit *unit,
			 const struct pf_cred *cred, struct pf_err *err);

/* Compile X's source and answer REPLY (taken) when that has ended. */
void files_compile(struct pf_executable *x, struct pf_reply *reply);

/* The directory in executables/ that mirrors DIR in programs/, borrowed. */
struct pf_node *files_mirror_of(struct pf_node *dir);
extern const struct pf_kind kind_executables_dir;

/* The executable called NAME, with a reference.  R_OK on its program is checked. */
int files_find_unit(struct pf_fs *fs, const char *name, const struct pf_cred *cred,
		    struct unit **ret, struct pf_err *err);

/* --- commands -------------------------------------------------------------------------- */

/* A list of words or names.  All zeros is an empty one. */
struct names {
	size_t n;
	char **at; /* owned strings in an owned array */
};

int names_add(struct names *names, const char *str, size_t len);
void names_release(struct names *names);

/* What an execution is asked to do. */
struct request {
	struct names inputs, outputs, donate;
	struct json_object *id; /* owned, or NULL */
	bool json;              /* the reply's form */
};

void request_release(struct request *request);

/*
 * Execute UNIT (called NAME) as REQUEST says, put the results under their names, and answer
 * COMMAND.  Takes REQUEST's contents.
 */
void files_execute(struct unit *unit, const char *name, struct request *request,
		   struct pf_command *command);

/* Answer COMMAND with CODE and the object O, which is put. */
void files_answer(struct pf_command *command, int code, struct json_object *o);

/* Answer COMMAND with a failure, in the form of REQUEST (NULL: JSON). */
void files_fail(struct pf_command *command, const struct request *request,
		const struct pf_err *err);

/* Split a run line "x y -> z donate=x" into REQUEST; -EINVAL. */
int files_parse_run(const char *line, struct request *request, struct pf_err *err);

/*
 * Read "inputs", "outputs", "donate", "id" of a JSON command into REQUEST.  Keys not in
 * ALLOWED (NULL-terminated) are refused.
 */
int files_parse_request(struct json_object *o, const char *const *allowed,
			struct request *request, struct pf_err *err);

#endif
