/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded log of lines, read by offset as a file is.
 *
 * Offsets count all bytes that were ever appended, so they keep their meaning: the log grows,
 * and is a hole at its front once lines were dropped there.  Who reads in order and falls into
 * the hole gets a line instead that says how many lines it missed, and goes on with the
 * oldest that are kept; who seeks into it (as tail(1) does, backwards) reads NULs.
 *
 * Not safe for use by two threads: the lock is the caller's.
 */
#ifndef PJRTFS_WATCH_LINES_H
#define PJRTFS_WATCH_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PF_LINE_MAX = 8 << 10,     /* bytes of a line, with its newline */
	PF_LINES_CHUNK = 64 << 10, /* bytes that are taken, and dropped, together */
};

struct pf_lines_chunk;

struct pf_lines {
	struct pf_lines_chunk **chunks; /* owned: a ring of max */
	unsigned max, first, n;
	uint64_t end;   /* bytes appended so far */
	uint64_t count; /* lines appended so far */
	uint64_t lost;  /* lines that there was no memory for */
};

/*
 * One reader's place.  All zeros is the start; pf_lines_reader_release frees it.
 */
struct pf_lines_reader {
	uint64_t next; /* where its last read ended, as it counts */
	uint64_t pos;  /* where the log goes on once rest was read */
	uint64_t line; /* lines of the log before pos */
	char *rest;    /* owned: of a line it was given the beginning of */
	size_t rest_at, rest_len;
};

/* Prepare a log of at most BYTES, at least two chunks.  No memory is taken but a table's:
 * -ENOMEM. */
int pf_lines_init(struct pf_lines *lines, size_t bytes);
void pf_lines_release(struct pf_lines *lines); /* all zeros is allowed */

/* Append TEXT, a line of LEN bytes (at most PF_LINE_MAX) with its newline; the oldest lines
 * go if there is no room.  Without memory the line is lost, and counted. */
void pf_lines_append(struct pf_lines *lines, const char *text, size_t len);

/* Where the first line begins that is kept, and how many lines were before it. */
uint64_t pf_lines_start(const struct pf_lines *lines, uint64_t *ret_line);

/*
 * Read up to LEN bytes at OFF into DST; 0: the end.  Copies at most PF_LINES_CHUNK bytes, so
 * that a lock around it is held for microseconds.  NOTICE(arg, n, dst) prints a line (at most
 * PF_LINE_MAX bytes; returns its length) that says that N lines were dropped.
 */
size_t pf_lines_read(const struct pf_lines *lines, struct pf_lines_reader *reader,
		     uint64_t off, char *dst, size_t len,
		     size_t (*notice)(void *arg, uint64_t n, char *dst), void *arg);

/* Is there anything that a reader who goes on where it was would get? */
bool pf_lines_ready(const struct pf_lines *lines, const struct pf_lines_reader *reader);

/* The file's size as this reader counts: where its end is. */
uint64_t pf_lines_size(const struct pf_lines *lines,
		       const struct pf_lines_reader *reader);

void pf_lines_reader_release(struct pf_lines_reader *reader);

#endif
