/* SPDX-License-Identifier: Apache-2.0 */
/* One life of a worker: its channel, its pool, its calls.  Private to the engine. */
#ifndef PJRTFS_ENGINE_LIFE_H
#define PJRTFS_ENGINE_LIFE_H

#include "pjrtfs/engine/worker.h"
#include "tail.h"

/*
 * Wrap a channel (mapped from CHANNEL_FD) and a pool (mapped read-only from POOL_FD; both
 * descriptors stay the caller's) and start the thread that takes replies.
 * BROKEN_FD, an eventfd that stays the caller's, is written to if the worker leaves nonsense
 * in a ring or closes one (the life takes no calls from then on), or if a page of the pool is
 * lost (pf_life_damaged): the caller must end the process and the life.
 * tail  what its process prints; borrowed until pf_life_end has returned
 * ret   on success, one reference; pf_life_end must be called before the last unref
 */
int pf_life_new(const char *name, int channel_fd, int pool_fd, uint64_t pool_size,
		int broken_fd, struct pf_tail *tail, struct pf_life **ret,
		struct pf_err *err);

/* Why it must be ended though its process lives: a line for its log (static); NULL: nothing. */
const char *pf_life_unfit(const struct pf_life *life);

/* It has N devices, before anybody else has the life.  -ENOMEM. */
int pf_life_set_devices(struct pf_life *life, unsigned n);

/* The daemon ends its process on purpose: what is under way is no culprit. */
void pf_life_stop(struct pf_life *life);

/* Its worker damaged the rings: it takes no more calls, and its process is about to be ended.
 * Does not block, takes no lock. */
bool pf_life_is_broken(const struct pf_life *life);

/* How many are alive on DEVICE, or PF_NO_DEVICE. */
unsigned pf_life_alive_on(const struct pf_life *life, enum pf_alive what,
			  unsigned device);

/* Note the plugin's file, before anybody else has the life. */
void pf_life_set_plugin(struct pf_life *life, const struct stat *st);

/* Give it the environment that its process gets, as environ(7), likewise. */
void pf_life_set_environ(struct pf_life *life, char **env);

/*
 * Add to WHY, the sentence of its process's death, what that printed last: since the oldest call
 * under way began.  If none is under way, since the latest began, and only what reports a
 * fatal check or an uncaught exception: that call ended, and what it printed besides explains
 * nothing.
 */
void pf_life_quote(struct pf_life *life, struct pf_err *why);

/*
 * The process is dead, as WHY says: fail every call under way with it and with what was printed
 * since that call began.  Later calls fail as QUOTED says.  Waits for the reply thread.  Calls
 * after the first have no effect.
 */
void pf_life_end(struct pf_life *life, const struct pf_err *why,
		 const struct pf_err *quoted);

#endif
