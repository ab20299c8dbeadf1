/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker prints, line by line: a bounded log that is read like a file, and so many
 * lines of it in the daemon's own log.
 *
 * A plugin may print hundreds of kilobytes for one bad program, or for ever.  The bounded log
 * has every line; the daemon's has at most PF_PRINTED_BURST in PF_PRINTED_PERIOD_MS, then one
 * that says how many there were besides.
 */
#ifndef PJRTFS_ENGINE_PRINTED_H
#define PJRTFS_ENGINE_PRINTED_H

#include <pthread.h>

#include "pjrtfs/base/buf.h"
#include "pjrtfs/base/log.h"
#include "pjrtfs/watch/lines.h"

enum {
	PF_PRINTED_BYTES = 256 << 10, /* of the last lines that are kept */
	PF_PRINTED_BURST = 100,
	PF_PRINTED_PERIOD_MS = 10000,
};

struct pf_printed {
	const char *name; /* borrowed: the plugin's */
	/* The printer's own. */
	struct pf_buf line;   /* that has no end yet */
	struct pf_buf early;  /* lines from before the daemon serves */
	int64_t period_began; /* CLOCK_MONOTONIC, ms */
	unsigned told;        /* lines in this period */
	uint64_t untold;      /* lines that the daemon's log did not get */
	bool quiet;           /* it gets none at all */

	pthread_mutex_t lock; /* rank 8; protects the fields below */
	struct pf_lines lines;
	struct timespec time; /* of the last one */
	void (*on_add)(void *arg);
	void *arg;
};

/* Begin with nothing, printed by the plugin NAME (borrowed).  -ENOMEM. */
int pf_printed_init(struct pf_printed *printed, const char *name);
void pf_printed_release(struct pf_printed *printed); /* all zeros is allowed */

/* Have FN(ARG) called when lines have come, by who adds them; NULL: nobody is told any more.
 * FN must not block, and takes no lock below rank 9. */
void pf_printed_on_add(struct pf_printed *printed, void (*fn)(void *arg), void *arg);

/* --- for the one thread that takes what the worker prints ----------------------------------- */

/* LEN more bytes, in pieces as they come; control characters but tabs become spaces, and a line
 * that is longer than PF_LINE_MAX becomes several. */
void pf_printed_add(struct pf_printed *printed, const char *text, size_t len);

/* The process has ended: what has no end yet is a line, and the daemon's log is told how many it
 * did not get. */
void pf_printed_end(struct pf_printed *printed);

/* Milliseconds until pf_printed_tick has something to say; -1: nothing. */
int pf_printed_due_ms(const struct pf_printed *printed);
void pf_printed_tick(struct pf_printed *printed);

/* --- reading, from any thread: as struct pf_lines ------------------------------------------- */

size_t pf_printed_read(struct pf_printed *printed, struct pf_lines_reader *reader,
		       uint64_t off, char *dst, size_t len);
bool pf_printed_ready(struct pf_printed *printed, const struct pf_lines_reader *reader);
uint64_t pf_printed_size(struct pf_printed *printed, const struct pf_lines_reader *reader,
			 struct timespec *ret_time);

#endif
