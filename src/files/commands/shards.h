/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands shard and gather share: all shards of one array. */
#ifndef PJRTFS_FILES_COMMANDS_SHARDS_H
#define PJRTFS_FILES_COMMANDS_SHARDS_H

#include "files/buffers/sharding.h"
#include "files/tasks/task.h"

struct shards;

struct shard {
	struct pf_waiter waiter;
	struct shards *all;          /* borrowed */
	const struct device *device; /* borrowed */
	struct pf_value *value;      /* owned reference, or NULL */
	struct target target;        /* owned: where it goes */
	bool pinned;                 /* value is, by this */
};

enum { SHARDS_SLOW = 1 << 20 }; /* bytes to copy: more are a thread's work */

/* A command under way. */
struct shards {
	struct task *task;
	const char *op;                   /* static */
	char *name;                       /* owned: what the shards are called */
	struct sharded about;             /* owned */
	struct shard *at;                 /* owned: n of them */
	unsigned n;                       /* about.s.n, once there are devices */
	_Atomic unsigned left;            /* those that are waited for, and one */
	void (*done)(struct shards *all); /* when none is left */

	struct pf_value *whole;  /* owned reference, or NULL */
	bool pinned;             /* whole is, by this */
	struct pf_waiter waiter; /* for its bytes */
	struct target
		target; /* owned: where it goes; of shards, only how they are made */
};

/* All zeros but for these; NULL: no memory. */
struct shards *shards_new(struct task *task, const char *op);
void shards_free(struct shards *all);

/* Make room for the shards, one on each of the sharding's devices.  -ENOMEM. */
int shards_alloc(struct shards *all, struct pf_err *err);

/* The command has failed: answer, and free. */
void shards_fail(struct shards *all, struct pf_err *err);

/*
 * Call START (which returns as pf_value_place does, and has the shard's waiter woken if that
 * is 0) for each shard that has a value, and then, once, DONE, on whatever thread is the last.
 */
void shards_each(struct shards *all, int (*start)(struct shard *shard),
		 void (*done)(struct shards *all));

/* Run FN(ALL): on a thread of its own if LEN bytes are to be copied and that takes long. */
void shards_copy(struct shards *all, uint64_t len, void (*fn)(struct shards *all));

/* VALUE itself if it lives on DEVICE, else a copy for there; with a reference, or NULL. */
struct pf_value *shards_value_on(struct pf_value *value, const struct device *device);

#endif
