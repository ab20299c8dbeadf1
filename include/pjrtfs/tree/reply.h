/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that waits for its answer.
 *
 * Whoever got a reply answers it exactly once, now or later, from any thread, with one of
 * the functions below, which also give up the caller's reference.  If the caller's process is
 * interrupted (any signal) first, the request is answered with EINTR at once and the later
 * answer is dropped: the work behind it need not know.  A write of which something was done
 * already is answered with what was: who gets EINTR may write all of it again.
 */
#ifndef PJRTFS_TREE_REPLY_H
#define PJRTFS_TREE_REPLY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct pf_err;
struct pf_open;
struct pf_reply;

/* How a front end sends answers.  Called at most once, with no lock held. */
struct pf_reply_ops {
	/* code < 0: -errno.  Else data (len bytes, borrowed during the call) if data is
	 * not NULL, or the count len, or, with both 0, just success. */
	void (*send)(struct pf_reply *reply, int code, const void *data, size_t len);
	/* The last reference is gone and the reply was sent: free it. */
	void (*free)(struct pf_reply *reply);
};

/* The front end embeds this, calls pf_reply_init, and says who asks. */
struct pf_reply {
	const struct pf_reply_ops *ops;
	unsigned refs;        /* atomic */
	struct pf_open *held; /* the tree's: kept open until the last reference goes */
	uid_t uid;            /* the caller's; */
	pid_t pid;            /* its thread, or 0: nobody is told why a call failed */
	const char *
		doing; /* the tree's: the call's name ("close"), if its failure is kept */
	bool closing;  /* the tree's: how the commit of held ends is kept */
	const struct pf_err *why; /* borrowed until the answer is sent; pf_reply_why */
	pthread_mutex_t lock;     /* rank 6; protects the fields below */
	bool answered;
	bool interrupted;
	size_t (*halt)(void *arg); /* called once before the answer, without the lock */
	void (*on_interrupt)(void *arg); /* called once after it, without the lock */
	void *arg;
};

/* Prepare REPLY with one reference, the caller's. */
void pf_reply_init(struct pf_reply *reply, const struct pf_reply_ops *ops);

struct pf_reply *pf_reply_ref(struct pf_reply *reply);
void pf_reply_unref(struct pf_reply *reply); /* NULL is allowed */

/* Answer success (0) or failure (-errno). */
void pf_reply_code(struct pf_reply *reply, int code);

/*
 * The same with the sentence of ERR (NULL: the errno's words will do), which the caller's user
 * finds as pf_vfs_refusal tells.
 */
void pf_reply_fail(struct pf_reply *reply, int code, const struct pf_err *err);

/* A failure that is sent from now on has ERR's sentence, which stays until it is sent. */
void pf_reply_why(struct pf_reply *reply, const struct pf_err *err);

/* Answer a write: LEN bytes were taken. */
void pf_reply_count(struct pf_reply *reply, size_t len);

/* Answer a read with LEN bytes (0: end of file), which are copied before this returns. */
void pf_reply_data(struct pf_reply *reply, const void *data, size_t len);

/* Has it been answered (or interrupted)?  Work that has not begun can then be dropped. */
bool pf_reply_gone(struct pf_reply *reply);

/*
 * Call FN(ARG) when the request is interrupted, after EINTR was sent; at once, if it has
 * been.  FN may be called on any thread; NULL takes it back.  When taking it back returns
 * true, FN has not been and will not be called.
 */
bool pf_reply_on_interrupt(struct pf_reply *reply, void (*fn)(void *arg), void *arg);

/*
 * An answer in two steps, so that nothing is lost on an interrupted reader.
 *
 * pf_reply_claim: from now on only the caller can answer REPLY; false if it is too late.
 * pf_reply_send: answer a claimed REPLY, as pf_reply_ops.send, and give up the reference.
 * pf_reply_park: as pf_reply_on_interrupt, but false, and FN is not called, if it is too late.
 * pf_reply_park_write: the same; before the interrupt is answered HALT(ARG) drops what has not
 * begun, and tells how many bytes of the write are done or under way (0: EINTR).
 */
bool pf_reply_claim(struct pf_reply *reply);
void pf_reply_send(struct pf_reply *reply, int code, const void *data, size_t len);
bool pf_reply_park(struct pf_reply *reply, void (*fn)(void *arg), void *arg);
bool pf_reply_park_write(struct pf_reply *reply, size_t (*halt)(void *arg),
			 void (*fn)(void *arg), void *arg);

/* For the front end: the request was interrupted. */
void pf_reply_interrupt(struct pf_reply *reply);

/* For the front end: the mount ends.  As an interrupt, but the answer is ENOTCONN, whatever
 * had begun. */
void pf_reply_disconnect(struct pf_reply *reply);

#endif
