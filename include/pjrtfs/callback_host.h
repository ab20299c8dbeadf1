/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts: who answers the callbacks of a program.
 *
 * An executable has a queue of invocations (callback.h) for each callback of its program, known by
 * its index.  A host takes one invocation at a time and answers it; hosts of the same callback share
 * its invocations.
 *
 *   no host         the invocation fails after PF_CALLBACK_GRACE_MS; if it has neither results nor
 *                   an order, it is answered at once instead, and becomes an event
 *   the host leaves what it has begun fails; the rest waits for another host, as if it came now
 *   no answer       it fails after the seconds that an execution may take
 *   the execution is cancelled, or ends: all its invocations fail
 *
 * At most PF_CALLBACK_WAITING invocations of an executable wait at once; the bytes of their
 * arguments are charged to the account of the execution.
 */
#ifndef PJRTFS_CALLBACK_HOST_H
#define PJRTFS_CALLBACK_HOST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "pjrtfs/callback.h"

struct pf_asked;
struct pf_bytes;
struct pf_executable;

enum {
	PF_CALLBACK_GRACE_MS = 5000,
	PF_CALLBACK_WAITING = 1024,
};

struct pf_callback_host;

struct pf_callback_host_ops {
	/* HOST, which waited, has an invocation now.  On any thread, no lock held; must not block. */
	void (*given)(struct pf_callback_host *host);
	/* INVOCATION, which HOST had, has ended for the reason WHY; when this returns, it is freed.
	 * Called as given is. */
	void (*ended)(struct pf_callback_host *host,
		      const struct pf_invocation *invocation, const char *why);
	/* HOST may find an invocation to take.  Called with a lock of rank 4 held. */
	void (*ready)(struct pf_callback_host *host);
	/* The last reference to HOST is gone. */
	void (*free)(struct pf_callback_host *host);
};

/* A host, embedded in a struct of its user, who sets the first three fields. */
struct pf_callback_host {
	const struct pf_callback_host_ops *ops;
	struct pf_executable *executable; /* borrowed until free */
	uint64_t index;                   /* of its callback */

	/* The store's; the lock of the executable's callbacks protects those below. */
	_Atomic unsigned refs;
	TAILQ_ENTRY(pf_callback_host) entry;
	struct pf_asked *asked; /* borrowed: the invocation that it has, or NULL */
	bool begun;             /* its user has seen a part of that */
	bool waits;             /* for one */
};

/* HOST, whose first fields are set, is one of its executable's from now on.  One reference is the
 * caller's, one that of pf_callback_host_leave. */
void pf_callback_host_join(struct pf_callback_host *host);

/* It is none any more. */
void pf_callback_host_leave(struct pf_callback_host *host);

struct pf_callback_host *pf_callback_host_ref(struct pf_callback_host *host);
void pf_callback_host_unref(struct pf_callback_host *host); /* NULL is allowed */

/*
 * The invocation that HOST has, or takes now: the oldest one that waits.  NULL: none waits, and
 * HOST waits until given is called.  It stays readable until HOST ends it, or ended has returned.
 */
const struct pf_invocation *pf_callback_host_take(struct pf_callback_host *host);

/* Its user sees a part of the invocation now. */
void pf_callback_host_begin(struct pf_callback_host *host);

/*
 * HOST does not wait any more; if it has an invocation that has not begun, another host may take
 * that: the host that has it now, to be passed, without a lock, to pf_callback_host_notify; or NULL.
 */
__attribute__((__warn_unused_result__)) struct pf_callback_host *pf_callback_host_stop(
	struct pf_callback_host *host);
void pf_callback_host_notify(struct pf_callback_host *host);

/* Has it an invocation, or would it take one? */
bool pf_callback_host_ready(struct pf_callback_host *host);

/*
 * End the invocation that HOST has.  Result I lies at OFFS[I] of the executable's arena, in BYTES, of
 * which a reference is taken; both may be NULL if it has no results.  0; -EIO: it has ended before;
 * -ENOMEM: it has failed for lack of memory.
 */
int pf_callback_host_answer(struct pf_callback_host *host, const uint64_t *offs,
			    struct pf_bytes *bytes, struct pf_err *err);

/* The same with a failure: CODE (enum pf_pjrt_code) and TEXT.  0 or -EIO. */
int pf_callback_host_fail(struct pf_callback_host *host, int code, const char *text,
			  struct pf_err *err);

#endif
