/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: what happened, when, to what, by whom; one JSON line each.
 *
 * The owner of the mount and uid 0 see all of them, others those that are their own.  Each
 * has a log of its own, so that one user's events do not drop another's; what one log keeps
 * is bounded, and so is the number of logs.  To add an event waits for nobody and costs
 * some hundred nanoseconds, whoever reads.
 */
#ifndef PJRTFS_WATCH_EVENTS_H
#define PJRTFS_WATCH_EVENTS_H

#include <sys/types.h>
#include <time.h>

#include "pjrtfs/base/err.h"
#include "pjrtfs/watch/lines.h"

enum {
	PF_EVENTS_BYTES = 4 << 20,      /* kept for the owner */
	PF_EVENTS_USER_BYTES = 1 << 20, /* kept for each other user */
	PF_EVENTS_USERS = 64,   /* logs of other users: the one used last is kept */
	PF_EVENT_ID_MAX = 1024, /* bytes of a command's "id" that an event tells */
};

struct pf_events;

/* Logs that keep BYTES for OWNER, who sees everything, and USER_BYTES for others (0: the
 * sizes above).  NULL: no memory. */
struct pf_events *pf_events_new(uid_t owner, size_t bytes, size_t user_bytes);
void pf_events_free(struct pf_events *events); /* NULL is allowed */

/* Have FN(ARG) called after each event that is added, with whatever locks the one who adds it
 * holds.  Set once; ARG lives as long as EVENTS. */
void pf_events_on_add(struct pf_events *events, void (*fn)(void *arg), void *arg);

/*
 * An event while it is written: on the stack.  What does not fit in a line is cut, strings at
 * the end of a character.
 */
struct pf_event {
	uid_t user;
	size_t len;
	char text[PF_LINE_MAX];
};

/* Begin the event NAME ("program.finished"), of USER, about OBJECT, a path under the mount. */
void pf_event_begin(struct pf_event *event, const char *name, uid_t user,
		    const char *object);

/* Add a field.  A NULL string adds nothing. */
void pf_event_str(struct pf_event *event, const char *key, const char *value);
void pf_event_int(struct pf_event *event, const char *key, int64_t value);
void pf_event_seconds(struct pf_event *event, const char *key, double seconds);

/* Add TEXT, which is JSON on one line, unless it is longer than PF_EVENT_ID_MAX bytes. */
void pf_event_json(struct pf_event *event, const char *key, const char *text);

/* Add "error": its errno's name, its code and its sentence.  No error adds nothing. */
void pf_event_error(struct pf_event *event, const struct pf_err *err);

/* Give it its time and add it.  EVENTS may be NULL: nobody keeps it. */
void pf_event_add(struct pf_events *events, struct pf_event *event);

/* --- reading: as UID, from any thread ---------------------------------------------------- */

/* Read as pf_lines_read does, but more than a chunk at once; READER is the caller's alone. */
size_t pf_events_read(struct pf_events *events, uid_t uid, struct pf_lines_reader *reader,
		      uint64_t off, char *dst, size_t len);

/* Is there something to read for READER, who goes on where it was? */
bool pf_events_ready(struct pf_events *events, uid_t uid,
		     const struct pf_lines_reader *reader);

/* The size of what UID sees (of READER's file, if not NULL), and the last event's time. */
uint64_t pf_events_size(struct pf_events *events, uid_t uid,
			const struct pf_lines_reader *reader, struct timespec *ret_time);

/* How many events were added, and how many of them the owner's log no longer keeps. */
void pf_events_count(struct pf_events *events, uint64_t *ret_added,
		     uint64_t *ret_dropped);

#endif
