/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, and control files, which are streams: for the kinds of such files. */
#ifndef PJRTFS_STREAM_H
#define PJRTFS_STREAM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct json_object;
struct pf_buf;
struct pf_cred;
struct pf_err;
struct pf_node;
struct pf_open;
struct pf_reply;

/*
 * Streams: files whose opens are conversations.  A read that has nothing to return yet, or a write
 * that takes long, is parked.  If its caller is interrupted, the stream frees it; else the kind
 * answers it later.  A struct pf_stream is embedded in the kind's own struct of an open file,
 * whose fields its lock protects too.
 */

/* A request that waits at a stream. */
struct pf_parked {
	struct pf_parked *next;   /* the stream's */
	struct pf_stream *stream; /* borrowed: the reply holds the open file */
	struct pf_reply *reply;   /* one reference */
	size_t len;               /* bytes that a read wants, or that a write brings */
	bool writes;
};

/* The functions of a kind of stream; all are called with the stream's lock held. */
struct pf_stream_ops {
	/* Can the next read be answered, also with a failure or the end of file? */
	bool (*ready)(struct pf_stream *stream);
	/* Answer REPLY, a read of at most LEN bytes, which is claimed, by pf_reply_send. */
	void (*answer)(struct pf_stream *stream, size_t len, struct pf_reply *reply);
	/* The caller of WRITE is interrupted: drop the part of it that has not begun.  Returns how
	 * many bytes are done (0: the answer is EINTR).  NULL: none ever are. */
	size_t (*halt)(struct pf_stream *stream, struct pf_parked *write);
	/* The interrupt is about to be answered: drop pointers to WRITE, which the stream then frees. */
	void (*interrupted)(struct pf_stream *stream, struct pf_parked *write);
};

struct pf_stream {
	const struct pf_stream_ops *ops;
	pthread_mutex_t lock; /* rank 0, within pf_open.lock; protects the field below */
	struct pf_parked *reads; /* parked, in the order in which they came */
};

void pf_stream_init(struct pf_stream *stream, const struct pf_stream_ops *ops);
void pf_stream_release(struct pf_stream *stream); /* nothing is parked */

/* Answer a read of LEN bytes, or park it if it must wait (with O_NONBLOCK in OF's flags: EAGAIN).
 * The caller holds a reference on OF, and no lock. */
void pf_stream_read(struct pf_stream *stream, const struct pf_open *of, size_t len,
		    struct pf_reply *reply);

/*
 * Park a write of LEN bytes.  Returns SIZE bytes, zeros but for the struct pf_parked at their
 * begin.  To answer it, the caller claims its reply, sends the answer and frees the bytes; if the
 * claim fails, the stream frees them after the interrupt.  NULL: no memory, or REPLY was
 * interrupted before; pf_reply_code(REPLY, -ENOMEM) is right for both.  The lock is held.
 */
struct pf_parked *pf_stream_park_write(struct pf_stream *stream, size_t size, size_t len,
				       struct pf_reply *reply);

/* Answer the parked reads that are ready.  The lock is held, and the caller holds a reference on
 * the open file, which may be released after any answer. */
void pf_stream_serve_locked(struct pf_stream *stream);

/*
 * Control files: streams of commands, and of their replies.
 *
 * A write carries one command, several, or a part of one.  Commands run one after another, in
 * order; each gives one reply of one line, which reads of the same open return in order.  A read
 * waits while a command runs or is queued, and is at the end of file when none is.
 *
 *   read-write  a command that fails fails no write: its reply has the failure
 *   write-only  a command that fails fails its write, the commands after it do not run, and
 *               later writes fail with the same errno (buffered writers repeat writes that
 *               fail, and no command may run twice)
 *   read-only   reads return the last reply of this file to the same user and login session
 *
 * A write that is interrupted has done the commands that have ended.  One that runs goes on; if the
 * same thread writes it again next, that write waits for it, and it does not run twice.
 *
 * A newline resynchronises after a syntax error.  At a FLUSH that follows a part of a command, a
 * line without its newline runs; for JSON the answer is EINVAL, and the part is kept.  When the
 * file is closed, a part is dropped.
 */

enum {
	PF_CONTROL_MAX_COMMAND = 1 << 20, /* bytes of a command; more: E2BIG */
	PF_CONTROL_LAST_REPLIES = 64,    /* users and sessions whose last reply is kept */
	PF_CONTROL_MAX_UNREAD = 8 << 20, /* bytes of unread replies; with more: ENOBUFS */
};

/* One command.  Lives until pf_command_done. */
struct pf_command {
	struct pf_open *of; /* borrowed; node, cred */
	char *text;         /* the command, NUL-terminated, without its newline */
	size_t len;
	struct json_object *json; /* owned: of a kind with json, what TEXT says */
	/* The tree's: its writer was interrupted, and the file closed.  Then work that has not
	 * begun should not begin. */
	_Atomic bool cancelled;
	_Atomic(void *) user; /* the kind's own; NULL at first */
};

/*
 * Answer COMMAND, once, with the reply LINE (LEN bytes, no newline), which says the same as ERR if it
 * failed; NULL: it did not.  May be called by kind->command or later, on any thread, without locks.
 * Frees COMMAND.
 */
void pf_command_done(struct pf_command *command, const struct pf_err *err,
		     const char *line, size_t len);

/* As pf_command_done, with the failure ERR, for a kind with json. */
void pf_command_fail(struct pf_command *command, const struct pf_err *err);

/*
 * Append the reply to a command that failed, a line without its newline:
 * {"ok":false,"error":{"errno":"EINVAL","code":"INVALID_ARGUMENT","message":"..."}}
 */
void pf_control_error_line(struct pf_buf *out, const struct pf_err *err);

/* The same if there is not even memory for this. */
#define PF_NO_MEMORY_LINE                                                                \
	"{\"ok\":false,\"error\":{\"errno\":\"ENOMEM\",\"code\":\"RESOURCE_EXHAUSTED\"," \
	"\"message\":\"no memory for the reply\"}}"

/* The functions of a stream that the kind of a control file has. */
#define PF_CONTROL                                                                       \
	.open = pf_control_open, .release = pf_control_release, .read = pf_control_read, \
	.send = pf_control_write, .flush = pf_control_flush,                             \
	.closed = pf_control_closed, .getattr_as = pf_control_getattr_as

int pf_control_open(struct pf_open *of, struct pf_err *err);
void pf_control_release(struct pf_open *of);
void pf_control_read(struct pf_open *of, size_t len, uint64_t off,
		     struct pf_reply *reply);
void pf_control_write(struct pf_open *of, const void *src, size_t len,
		      struct pf_reply *reply);
void pf_control_flush(struct pf_open *of, pid_t pid, struct pf_reply *reply);
void pf_control_closed(struct pf_open *of);
void pf_control_getattr_as(struct pf_node *node, const struct pf_cred *cred,
			   struct pf_open *of, struct stat *st);

#endif
