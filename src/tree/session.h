/* SPDX-License-Identifier: Apache-2.0 */
/* A control file's open session: shared by ctl.c (running, answering) and cut.c (parsing). */
#ifndef PJRTFS_TREE_SESSION_H
#define PJRTFS_TREE_SESSION_H

#include "internal.h"
#include "pjrtfs/base/scan.h"

enum {
	PF_CTL_BATCH = 1024,   /* commands taken from one write; more is a short write */
	PF_CTL_KEEP = 1 << 16, /* bytes of memory kept for the next command or reply */
};

/* One command in the queue, or running. */
struct pf_item {
	struct pf_command command;
	struct pf_item *next;
	struct pf_waiter *waiter; /* the write that brought it */
	size_t end;               /* where in that it ends */
	struct pf_buf text;
	int code; /* < 0: refused unseen, and text is the reply */
};

/*
 * A request that waits: a write (or FLUSH) for its commands, a read for a reply.  A write's
 * goes when no item points to it and it was answered or interrupted.
 */
struct pf_waiter {
	struct pf_session *session;
	struct pf_waiter *next; /* parked, or to be sent */
	struct pf_reply *reply; /* one reference */
	size_t len;             /* write: bytes taken; read: bytes wanted, then given */
	unsigned left;          /* write: commands not done */
	size_t begun;           /* write: its bytes up to the end of what runs, or ran */
	bool interrupted;
	int code;
	char *data; /* owned; what a read is given, or why a write fails */
};

struct pf_items {
	struct pf_item *first, **end;
	unsigned n;
};

struct pf_session {
	pthread_mutex_t lock; /* rank 4; protects the fields below */
	struct pf_open *of;   /* borrowed: it owns the session */
	bool json;
	bool reads;

	/* What was written and is no whole command yet. */
	struct pf_buf part;
	struct pf_scan scan;
	bool skipping; /* after an error, up to the next newline */

	struct pf_items queue;
	struct pf_item *running;
	bool looping;  /* a thread is in run_locked and will see what was queued */
	bool released; /* nobody has the file open any more */
	int failed;    /* write-only: the failure that all later writes get */
	struct pf_item *spare;

	/* Replies not read yet: out's bytes from out_head on. */
	struct pf_buf out;
	size_t out_head;
	bool lost; /* there was no memory for a reply */
	struct pf_waiter *parked;
};

/*
 * Cut SRC, which follows session->part, into commands.  Returns the bytes taken (all, or
 * up to the end of command PF_CTL_BATCH), or -ENOMEM; commands that are refused come as
 * items with a code.  The lock is held in all of these.
 */
ssize_t pf_cut(struct pf_session *session, const char *src, size_t len,
	       struct pf_items *items);

/* What is left is a command too: a line without its newline. */
int pf_cut_rest(struct pf_session *session, struct pf_items *items);

/* Forget what is no whole command. */
void pf_cut_reset(struct pf_session *session);

void pf_items_add(struct pf_items *items, struct pf_item *item);
struct pf_item *pf_items_pop(struct pf_items *items);
void pf_item_free(struct pf_session *session, struct pf_item *item);

#endif
