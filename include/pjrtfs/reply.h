/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the front end: who makes one, and how the tree and the kinds of files answer it. */
#ifndef PJRTFS_REPLY_H
#define PJRTFS_REPLY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct pf_err;
struct pf_open;
struct pf_parked;
struct pf_reply;

/* The rights of the process that makes a request. */

enum { PF_CRED_GROUPS = 64 };
enum { PF_SID_UNKNOWN = -1 };

/* Plain data: copy with =.  The journal has it (PF_STATE_OPEN). */
struct pf_cred {
	uid_t uid;
	gid_t gid;
	pid_t pid; /* 0: outside our PID namespace */
	pid_t sid; /* login session (getsid): 0 outside our PID namespace, PF_SID_UNKNOWN */
	mode_t umask;
	unsigned
		n_groups; /* of groups: those that are known of the supplementary groups */
	gid_t groups[PF_CRED_GROUPS];
};

/*
 * May a process with CRED do WANT (a mask of R_OK, W_OK, X_OK) with a file of owner UID, group
 * GID, and type and permission bits MODE?  The rules are the kernel's (path_resolution(7)).
 */
bool pf_cred_may(const struct pf_cred *cred, uid_t uid, gid_t gid, mode_t mode, int want);

/*
 * A request that waits for its answer.
 *
 * A function that is given a reply answers it exactly once, now or later, from any thread, with
 * one of the functions below, which also give up the reference.  If a signal interrupts the
 * caller of the system call first, the tree answers EINTR, or the count of the bytes that a write
 * has done, and drops the later answer: the kind's function need not know of the interrupt.
 */

/* How a front end sends answers; called at most once, with at most locks of rank 0 held. */
struct pf_reply_ops {
	/* CODE < 0: -errno.  Else DATA (LEN bytes, borrowed during the call) if it is not
	 * NULL, or the count LEN, or, with both 0, success. */
	void (*send)(struct pf_reply *reply, int code, const void *data, size_t len);
	/* The last reference to REPLY, which was sent, is gone: free it. */
	void (*free)(struct pf_reply *reply);
};

/* The front end embeds this, calls pf_reply_init, and sets uid and pid. */
struct pf_reply {
	const struct pf_reply_ops *ops;
	unsigned refs;            /* atomic */
	uid_t uid;                /* of the caller of the system call */
	pid_t pid;                /* its thread; 0: not known, and no failure is kept */
	const struct pf_err *why; /* borrowed until the answer is sent; pf_reply_why */

	/* The tree's. */
	struct pf_open *held;               /* one reference, or NULL; */
	void (*drop)(struct pf_open *held); /* drops it with the last one to the reply */
	const char *doing;       /* the call's name ("close"); NULL: no failure is kept */
	bool closing;            /* the answer is how the commit of held ended */
	struct pf_open **opened; /* where finish puts the open file */
	/* Called before a success is sent: 0, or -errno, which is sent instead. */
	int (*finish)(struct pf_reply *reply, struct pf_err *err);

	pthread_mutex_t lock; /* rank 6; protects the fields below */
	bool answered;
	struct pf_parked *parked; /* where it waits at a stream, or NULL */
};

/* Prepare REPLY with one reference, the caller's. */
void pf_reply_init(struct pf_reply *reply, const struct pf_reply_ops *ops);

/* A new reply, with one reference, for whose answer no caller waits.  NULL: no memory. */
struct pf_reply *pf_reply_behind(void);

/* Take a reference, which is returned; drop one (NULL is allowed). */
struct pf_reply *pf_reply_ref(struct pf_reply *reply);
void pf_reply_unref(struct pf_reply *reply);

/* Answer with success (CODE 0) or failure (-errno). */
void pf_reply_code(struct pf_reply *reply, int code);

/* Answer with the failure CODE and the sentence of ERR (NULL: the errno's words), which
 * pf_vfs_refusal shows to the caller's user. */
void pf_reply_fail(struct pf_reply *reply, int code, const struct pf_err *err);

/* If a failure is sent from now on, it has ERR's sentence; ERR is borrowed until then. */
void pf_reply_why(struct pf_reply *reply, const struct pf_err *err);

/* Answer a write of which LEN bytes were taken. */
void pf_reply_count(struct pf_reply *reply, size_t len);

/* Answer a read with LEN bytes (0: end of file), which are copied before this returns. */
void pf_reply_data(struct pf_reply *reply, const void *data, size_t len);

/* Was REPLY answered, or interrupted?  Then work that has not begun can be dropped. */
bool pf_reply_gone(struct pf_reply *reply);

/* An answer in two steps, so that no data are lost on an interrupted reader.  From now on only the
 * caller can answer REPLY; false: it was answered or interrupted. */
bool pf_reply_claim(struct pf_reply *reply);

/* Answer a claimed REPLY, with the arguments of pf_reply_ops.send, and give up the reference. */
void pf_reply_send(struct pf_reply *reply, int code, const void *data, size_t len);

/* For the front end: the request was interrupted; the mount ends, and the answer is ENOTCONN,
 * whatever has begun. */
void pf_reply_interrupt(struct pf_reply *reply);
void pf_reply_disconnect(struct pf_reply *reply);

/* Why bytes are committed. */
enum pf_commit {
	PF_COMMIT_FLUSH, /* close(2): its errno is the answer */
	PF_COMMIT_FSYNC, /* fsync(2): bytes that are not complete yet are accepted */
};

#endif
