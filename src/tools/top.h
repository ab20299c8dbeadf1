/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of pjrtfs-top: samples of a mount, pages made of two samples, and the screen. */
#ifndef PJRTFS_TOOLS_TOP_H
#define PJRTFS_TOOLS_TOP_H

#include <stdint.h>

#include "internal.h"

/* --- samples ----------------------------------------------------------------------------- */

struct plugin {
	char name[64], state[16], pid[16];
	long restarts;
};

struct device {
	char name[80], kind[64]; /* "cpu:0" */
	unsigned running, waiting;
	double memory, buffers, programs; /* now */
	double runs, busy, uploaded,
		downloaded; /* counters: executions, seconds, bytes */
};

/* A line of a queue. */
struct entry {
	char where[80]; /* the device, or the plugin that compiles */
	unsigned user;
	char state[16], progress[48], executable[256];
	double seconds;
	long position;
};

struct user {
	unsigned id;
	double memory, executions, jobs, buffers, programs;
};

/* A job that has not ended. */
struct job {
	unsigned long number;
	unsigned user;
	char state[16], command[256];
};

struct executable {
	char name[1024];
	double runs, failed, seconds; /* counters */
};

/* The contents of a mount's files at one moment. */
struct sample {
	uint64_t ns; /* CLOCK_MONOTONIC */
	char version[32], health[512];
	double used, limit; /* host memory, bytes */
	struct plugin *plugins;
	struct device *devices;
	struct entry *queue;
	struct user *users;
	struct job *jobs;
	struct executable *executables;
	unsigned n_plugins, n_devices, n_queue, n_users, n_jobs, n_executables;
};

/* Read the files of MOUNT: *RET is the caller's.  0, or -errno with a sentence.  Files that
 * disappear meanwhile, and those that the user may not read, are left out.  Blocks as long as the
 * mount does. */
int sample_take(const char *mount, struct sample **ret, struct pf_err *err);

/* Add the figures of TEXT, a metrics.prom, which this changes. */
void sample_add_metrics(struct sample *s, char *text);

/* NULL is allowed. */
void sample_free(struct sample *s);

/* --- pages ------------------------------------------------------------------------------- */

enum sort { SORT_BUSY, SORT_RUNS, SORT_MEAN, SORT_NAME, SORTS };
extern const char *const sort_names[SORTS];

enum table { DEVICES, USERS, QUEUE, JOBS, EXECUTABLES, TABLES };

/* HEADING: of a table; ACTIVE: of the table that keys scroll. */
enum style { PLAIN, HEADING, ACTIVE, CHOSEN };

struct line {
	enum style style;
	char text[512];
};

struct page {
	struct line *lines; /* owned */
	unsigned n;
};

struct view {
	const char *mount;
	enum sort sort;
	unsigned long job; /* the chosen job; 0: none */
	enum table active; /* the table that keys scroll */
	unsigned from
		[TABLES]; /* the first row, if there are so many; not of JOBS: the chosen job is shown */
	unsigned rows[TABLES]; /* at most; 0: all */
};

/* How many rows the table of NOW has. */
unsigned page_rows(const struct sample *now, enum table table);

/* Make lines of the sample NOW, and rates of it and BEFORE, which may be NULL.  The caller
 * frees LINES. */
void page_make(struct page *page, const struct sample *now, const struct sample *before,
	       const struct view *view);

/* Make lines that explain the keys of the screen and the columns.  The caller frees LINES. */
void page_help(struct page *page);

/* The same as page_make, as a line of JSON, which is appended to TEXT. */
void page_json(struct pf_buf *text, const struct sample *now, const struct sample *before,
	       const struct view *view);

/* --- the screen -------------------------------------------------------------------------- */

/* Show MOUNT until the user quits, with a sample each DELAY_MS.  The exit status. */
int screen_run(struct view *view, int delay_ms);

#endif
