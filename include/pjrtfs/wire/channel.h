/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set-up connection between the daemon and one worker: a seqpacket socket that
 * carries file descriptors, and the shared memory with the two rings.
 *
 * The daemon makes three memfds: the channel (two rings), the arena (the users' bytes:
 * the daemon writes, workers map read-only) and the pool (the worker's outputs: the
 * worker writes, the daemon maps read-only), and sends them with the set-up text.
 */
#ifndef PJRTFS_WIRE_CHANNEL_H
#define PJRTFS_WIRE_CHANNEL_H

#include "pjrtfs/base/buf.h"
#include "pjrtfs/base/err.h"
#include "pjrtfs/wire/ring.h"

enum {
	PF_CHANNEL_FD = 3,             /* the worker finds the socket here */
	PF_CHANNEL_MAX_TEXT = 64 << 20 /* bytes; a longer text is refused */
};

/* The shared mapping with the rings, in either process. */
struct pf_channel {
	void *memory;           /* owned mapping, or NULL */
	struct pf_ring request; /* daemon to worker */
	struct pf_ring reply;   /* worker to daemon */
};

/* Make the channel's memfd (close-on-exec, sealed in size).  fd or -errno. */
int pf_channel_create(struct pf_err *err);

/* Map the channel behind FD (which stays the caller's).  0 or -errno. */
int pf_channel_map(struct pf_channel *channel, int fd, struct pf_err *err);

/* Unmap.  CHANNEL may be all zeros. */
void pf_channel_release(struct pf_channel *channel);

/*
 * Send a text of LEN bytes (in packets of at most 64 KiB) and, with the first packet, N
 * descriptors.  Blocks while the socket is full.  0 or -errno.
 */
int pf_channel_send(int sock, const char *text, size_t len, const int *fds, int n,
		    struct pf_err *err);

/*
 * Receive one text into TEXT and up to N descriptors into FDS (close-on-exec; -1 where
 * none came; the caller's).  Blocks; TIMEOUT_MS bounds the wait for each packet (-1: none).
 * 0; -EPIPE the other side has gone; -ETIMEDOUT; -EPROTO; -errno.
 */
int pf_channel_recv(int sock, struct pf_buf *text, int *fds, int n, int timeout_ms,
		    struct pf_err *err);

#endif
