/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's process: its start and its end.  Private to the engine. */
#ifndef PJRTFS_ENGINE_PROCESS_H
#define PJRTFS_ENGINE_PROCESS_H

#include <sys/types.h>

#include "pjrtfs/base/err.h"
#include "pjrtfs/engine/worker.h"
#include "tail.h"

/*
 * A socket pair (0 ours, 1 the worker's, above PF_CHANNEL_FD so that dup2 clears
 * close-on-exec) and a pipe for what the worker prints (2 ours, not blocking; 3 the
 * worker's).  The caller closes all that are not -1, also on failure.
 */
int pf_process_fds(int fds[4], struct pf_err *err);

/* What every life of a worker is started with.  All is owned and never changes. */
struct pf_process_start {
	char *program;           /* path of pjrtfs-worker */
	char *setup;             /* the text for it */
	char *looser;            /* another, if it does not start with that; NULL: none */
	char *options;           /* create options: JSON with sorted keys */
	struct json_object *env; /* variables that are not the daemon's */
};

/* Fill it in as CONFIG says.  -ENOMEM; released in any case. */
int pf_process_start_init(struct pf_process_start *start,
			  const struct pf_worker_config *config);
void pf_process_start_release(struct pf_process_start *start);

/* The environment of a life that begins now, as environ(7), the caller's; NULL: no memory.
 * Free with pf_process_environ_free. */
char **pf_process_environ(const struct pf_process_start *start);
void pf_process_environ_free(char **env); /* NULL is allowed */

/* A memfd of SIZE bytes for a worker's results; the caller closes it. */
int pf_process_pool(uint64_t size, struct pf_err *err);

/*
 * Run START's program in the environment ENV, called NAME in ps(1), with SOCK at PF_CHANNEL_FD
 * and ERR_FD as its standard output and error, in a process group of its own.
 */
int pf_process_spawn(const struct pf_process_start *start, char *const *env, char *name,
		     int sock, int err_fd, pid_t *ret, struct pf_err *err);

enum {
	PF_PROCESS_AT_ONCE = 1 << 20
}; /* bytes that are drained at once, or little more */

/*
 * Keep what it has printed, ERR_FD's unread bytes (-1: none), in TAIL: how many these were.
 * There may be more after PF_PROCESS_AT_ONCE.  Does not block.
 */
size_t pf_process_drain(int err_fd, struct pf_tail *tail);

/*
 * Wait until there is something to be received at SOCK, and keep meanwhile what the process
 * prints, which would stop it else.  Milliseconds that are left of TIMEOUT_MS, 0: none;
 * -errno.
 */
int pf_process_await(int sock, int err_fd, int timeout_ms, struct pf_tail *tail,
		     struct pf_err *err);

/*
 * Wait for the end of process PID of plugin NAME, keep the rest of what it printed, and say in
 * *WHY (EIO) how it ended; pf_tail_quote adds what it printed last.  Blocks.
 */
void pf_process_reap(pid_t pid, const char *name, int err_fd, struct pf_tail *tail,
		     struct pf_err *why);

#endif
