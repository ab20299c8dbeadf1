/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker, for the thread that starts and watches it and for those who ask.  Private to the
 * layer.
 */
#ifndef PJRTFS_ENGINE_WATCHER_H
#define PJRTFS_ENGINE_WATCHER_H

#include <pthread.h>

#include "life.h"
#include "pjrtfs/engine/worker.h"
#include "process.h"
#include "tail.h"

struct pf_worker {
	char *name, *path; /* owned */
	struct pf_process_start start;
	struct pf_arena *arena; /* borrowed */
	uint64_t pool_size;
	int start_timeout_ms;
	struct pf_description description; /* of the first life */
	struct pf_watch *watch;            /* borrowed, or NULL */
	struct pf_plugin_meter *meter;     /* the watch's; set with the description */
	struct pf_turns *turns;            /* owned; set with the description */
	struct pf_tail tail;
	struct pf_printed printed; /* the same, for users and the daemon's log */
	_Atomic uint64_t last_id;
	int stop_fd;   /* owned; an eventfd: the watcher shall end */
	int broken_fd; /* owned; an eventfd: the process damaged the rings and must go */

	/* Of the present life; the watcher's own. */
	int sock, err_fd; /* owned, or -1 */
	pthread_t watcher;
	bool stopped; /* the owner's own: pf_worker_stop was called */

	pthread_mutex_t lock;   /* rank 8; protects the fields below */
	pthread_cond_t started; /* the first start succeeded or failed */
	struct pf_life *life;   /* owned reference, or NULL */
	enum pf_worker_state state;
	bool first_done;
	struct pf_err first; /* code 0: the first start succeeded */
	pid_t pid;
	unsigned restarts;
	struct pf_err why;         /* of the last death or failed start */
	struct pf_waiter *waiters; /* for the next life, or word that there is none */
};

/* The watcher's thread, of a struct pf_worker: ends when stop_fd tells it to, or when there is no
 * use in another start. */
void *pf_watcher_main(void *arg);

/* Close the pipes to the present life's process; the watcher's own, or nobody's. */
void pf_watcher_close(struct pf_worker *w);

#endif
