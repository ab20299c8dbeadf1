/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control files: commands in, replies out.
 *
 * An open file is a session.  Writes carry commands, whole, in parts or several; they run
 * one after another, in order; each gives one reply of one line, which reads of the same
 * open return in order (offsets are ignored; a read waits while a command runs, and is at
 * end of file when there is nothing to come).
 *
 *   read-write  a failed command fails no write: its reply tells
 *   write-only  the failed command fails the write, the commands after it are not run, and
 *               later writes fail alike (buffered writers repeat refused writes, and nothing
 *               may run twice)
 *   read-only   the last reply given on this file to the same user and login session
 *
 * A newline resynchronises after a syntax error.  A part of a command at FLUSH: for JSON
 * EINVAL, but the part is kept; a line without its newline runs.  At release it is dropped.
 */
#ifndef PJRTFS_TREE_CTL_H
#define PJRTFS_TREE_CTL_H

#include <stdatomic.h>

#include "pjrtfs/tree/open.h"

enum {
	PF_CTL_MAX_COMMAND = 1 << 20, /* bytes in one command: more is E2BIG */
	PF_CTL_LAST_REPLIES = 64,     /* users and sessions remembered per file */
	PF_CTL_MAX_UNREAD = 8 << 20,  /* bytes of replies unread: writes are ENOBUFS */
};

/* One command.  Lives until pf_command_done. */
struct pf_command {
	struct pf_open *of; /* borrowed; node, cred */
	char *text;         /* the command, NUL-terminated, without its newline */
	size_t len;
	struct pf_session *session; /* the tree's */
	void *priv;                 /* the tree's */
	_Atomic(void *) user;       /* the kind's own; NULL at first */
};

/*
 * Answer COMMAND, once: CODE is 0 or -errno, LINE (LEN bytes, no newline) the reply.  May be
 * called from within kind->command or later, from any thread.  COMMAND is gone after.
 */
void pf_command_done(struct pf_command *command, int code, const char *line, size_t len);

/* Was the waiting writer interrupted?  Then what has not begun should not begin. */
bool pf_command_cancelled(struct pf_command *command);

/*
 * Turn a failure into the reply line of KIND's taste.  For JSON kinds:
 * {"ok":false,"error":{"errno":"EINVAL","code":"INVALID_ARGUMENT","message":"..."}};
 * the tree uses it for syntax errors that it finds itself.  Appends to OUT.
 */
void pf_ctl_error_line(struct pf_buf *out, const struct pf_err *err);

#endif
