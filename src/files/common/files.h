/* SPDX-License-Identifier: Apache-2.0 */
/* What the rooms of src/files share. */
#ifndef PJRTFS_FILES_COMMON_FILES_H
#define PJRTFS_FILES_COMMON_FILES_H

#include <json-c/json.h>

#include "pjrtfs/base/timer.h"
#include "pjrtfs/engine/worker.h"
#include "pjrtfs/store/buffer.h"
#include "pjrtfs/store/compiler.h"
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

/* Buffers that have lost their names and are kept for a moment: buffers/graves.c. */
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

enum { FILES_REFUSALS = 64 };

struct pf_fs {
	struct pf_tree *tree;
	struct pf_arena *arena;
	struct pf_compiler *compiler; /* borrowed */
	struct pf_cache *cache;       /* borrowed; may be NULL */
	struct pf_watch *watch;       /* borrowed */
	struct pf_worker **workers;   /* owned array of borrowed pointers */
	unsigned n_workers;
	const struct pf_failed_plugin *failed; /* borrowed */
	unsigned n_failed;
	struct device *devices; /* owned; the first is the default */
	unsigned n_devices;
	bool allow_native;                /* anybody may load compiled programs */
	uint64_t abandoned_ms;            /* --abandoned-timeout; 0: never */
	const char *const *flags_for_all; /* borrowed; as in struct pf_fs_config */
	struct pf_timers *timers;         /* owned */
	struct jobs *jobs;                /* owned: jobs/jobs.c's */
	struct pf_node *programs;         /* owned reference */
	struct pf_node *executables;      /* owned reference */
	char *mountpoint;                 /* owned; NULL: not known */
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

/* The kind ID of a file that only prints: its name, its show and its free (or NULL). */
#define FILES_TEXT(id, file, show_fn, free_fn)                                           \
	static const struct pf_kind id = {                                               \
		.name = file, .mode = S_IFREG | 0444, .show = show_fn, .free = free_fn   \
	}

/* Make a node and link it for good; *RET (may be NULL) gets a reference.  0 or -ENOMEM. */
int files_link(struct pf_node *dir, const char *name, const struct pf_kind *kind,
	       void *object, struct pf_node **ret);

/* The device called NAME ("cpu:1"), or NULL. */
struct device *files_find_device(struct pf_fs *fs, const char *name, size_t len);

/* Say that there is no device called NAME, of LEN bytes, and which there are.  -ENODEV. */
int files_no_device(const struct pf_fs *fs, const char *name, size_t len,
		    struct pf_err *err);

/* May an execution that USER asked for, and nobody waits for any more, be ended with its worker
 * once fs->abandoned_ms are over?  The mount's owner's never. */
bool files_may_abandon(const struct pf_fs *fs, uid_t user);

/* It is executed still: end WORKER, and tell.  EXECUTABLE is its name, ID the command's, JSON
 * text, or NULL.  Does not block. */
void files_abandon(const struct pf_fs *fs, struct pf_worker *worker,
		   const char *executable, uid_t user, const char *id);

/* A JSON list of extents.  -EINVAL. */
int files_parse_shape(struct json_object *list, struct pf_shape *ret, struct pf_err *err);

/* Run FN(ARG) on a thread of its own; false if there is none. */
bool files_on_thread(void *(*fn)(void *arg), void *arg);

#endif
