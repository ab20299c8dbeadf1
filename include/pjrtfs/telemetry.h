/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_TELEMETRY_H
#define PJRTFS_TELEMETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "pjrtfs/base.h"
#include "pjrtfs/json.h"

struct pf_executable_meter;
struct pf_lines_chunk;
struct pf_telemetry;

/*
 * A bounded log of lines, read by offset as a file is.
 *
 * Offsets count all bytes that were ever appended, so they keep their meaning: the log
 * grows, and is a hole at its front once lines were dropped there.  A reader that
 * continues in order and reaches the hole gets a line that says how many lines it missed,
 * and then the oldest that are kept; a reader that seeks into it (as tail(1) does,
 * backwards) reads NULs.
 *
 * Not safe for use by two threads: the lock is the caller's.
 */

enum {
	PF_LINE_MAX = 8 << 10,     /* bytes of a line, with its newline */
	PF_LINES_CHUNK = 64 << 10, /* bytes that are taken, and dropped, together */
};

struct pf_lines {
	struct pf_lines_chunk **chunks; /* owned: a ring of max */
	unsigned max, first, n;
	uint64_t end;   /* bytes appended so far */
	uint64_t count; /* lines appended so far */
	uint64_t lost;  /* lines that were dropped for lack of memory */
};

/* One reader's place.  All zeros is the start; pf_lines_reader_release frees it. */
struct pf_lines_reader {
	uint64_t next; /* where its last read ended, as it counts */
	uint64_t pos;  /* where in the log it continues after rest */
	uint64_t line; /* lines of the log before pos */
	char *rest;    /* owned: of a line whose beginning it has read */
	size_t rest_at, rest_len;
};

/* Prepare a log of at most BYTES, at least two chunks.  -ENOMEM. */
int pf_lines_init(struct pf_lines *lines, size_t bytes);
void pf_lines_release(struct pf_lines *lines); /* all zeros is allowed */

/* Append TEXT, a line of LEN bytes (at most PF_LINE_MAX) with its newline; the oldest
 * lines are dropped to make room.  Without memory the line is lost, and counted. */
void pf_lines_append(struct pf_lines *lines, const char *text, size_t len);

/* Where the first line begins that is kept, and how many lines were before it. */
uint64_t pf_lines_start(const struct pf_lines *lines, uint64_t *ret_line);

/* The line at *POS, or the first one after it that is kept, of *RET_LEN bytes with its newline;
 * borrowed.  *POS becomes that of the next line.  NULL: the end. */
const char *pf_lines_next(const struct pf_lines *lines, uint64_t *pos, size_t *ret_len);

/*
 * Read up to LEN bytes at OFF into DST; 0: the end.  Copies at most PF_LINES_CHUNK bytes, so
 * that a lock around it is held for microseconds.  NOTICE(arg, n, dst) prints a line (at most
 * PF_LINE_MAX bytes; returns its length) that says that N lines were dropped.
 */
size_t pf_lines_read(const struct pf_lines *lines, struct pf_lines_reader *reader,
		     uint64_t off, char *dst, size_t len,
		     size_t (*notice)(void *arg, uint64_t n, char *dst), void *arg);

/* Does READER, if it continues where it was, get anything? */
bool pf_lines_ready(const struct pf_lines *lines, const struct pf_lines_reader *reader);

/* The file's size as this reader counts: where its end is. */
uint64_t pf_lines_size(const struct pf_lines *lines,
		       const struct pf_lines_reader *reader);

void pf_lines_reader_release(struct pf_lines_reader *reader);

/*
 * Telemetry of a mount: events, each a line of JSON, and metrics.
 *
 * The store and the engine know their objects by numbers, subjects, which the files above
 * give them; only the files know names.  All functions but pf_telemetry_attach take a
 * NULL telemetry and then record nothing.  None of them blocks; those that look a name up
 * take the tree's lock (rank 2), so their callers hold no other lock than that of names.
 */

/* Callbacks of the files. */
struct pf_telemetry_names {
	/* Append the path of SUBJECT under the mount, and return its user.  False: it has no
	 * name (any more).  Called on any thread. */
	bool (*name)(void *arg, uint64_t subject, struct pf_buf *path, uid_t *ret_user);
	/* An event was added, by a thread that may hold any lock.  May be NULL. */
	void (*added)(void *arg);
	void (*free)(void *arg); /* by pf_telemetry_free */
	void *arg;
};

enum {
	PF_EVENTS_BYTES = 4 << 20,      /* of events kept for the owner */
	PF_EVENTS_USER_BYTES = 1 << 20, /* kept for each other user */
	PF_EVENTS_USERS = 64,   /* logs of other users: the one used last is kept */
	PF_EVENT_ID_MAX = 1024, /* bytes of a command's "id" that an event has */
};

/* For the mount of OWNER, with logs of BYTES for the owner and USER_BYTES for each other user (0:
 * the sizes above).  NULL: no memory. */
struct pf_telemetry *pf_telemetry_new(uid_t owner, size_t bytes, size_t user_bytes);

/* Free TELEMETRY, which no thread uses any more. */
void pf_telemetry_free(struct pf_telemetry *telemetry);

/* Names can be looked up from now on; once. */
void pf_telemetry_attach(struct pf_telemetry *telemetry,
			 const struct pf_telemetry_names *names);

uid_t pf_telemetry_owner(const struct pf_telemetry *telemetry); /* of NULL: 0 */

/* The path of SUBJECT, appended, and its user; the owner, and false, if it has no name. */
bool pf_telemetry_name(struct pf_telemetry *telemetry, uint64_t subject,
		       struct pf_buf *path, uid_t *ret_user);

/*
 * Events: what happened, when, to what, by whom.
 *
 * The owner of the mount and uid 0 see all of them, other users see their own.  Each has
 * a log of its own, so that one user's events do not drop another's; what one log keeps
 * is bounded, and so is the number of logs.  To add an event costs some hundred
 * nanoseconds, even while others read.
 */

/* An event while it is written.  What does not fit in a line is cut, strings at the end of a
 * character. */
struct pf_event {
	struct pf_telemetry *to; /* borrowed */
	uid_t user;
	struct pf_json_out out;
	char text[PF_LINE_MAX];
};

/* Begin the event NAME ("program.finished"), of USER, about an object whose path under the mount
 * FMT makes. */
void pf_event_begin(struct pf_event *event, struct pf_telemetry *telemetry,
		    const char *name, uid_t user, const char *fmt, ...)
	__attribute__((__format__(__printf__, 5, 6)));

/* Add a field.  A NULL string adds nothing. */
void pf_event_str(struct pf_event *event, const char *key, const char *value);
void pf_event_int(struct pf_event *event, const char *key, int64_t value);
void pf_event_seconds(struct pf_event *event, const char *key, double seconds);

/* Add TEXT, which is JSON on one line, unless it is longer than PF_EVENT_ID_MAX bytes. */
void pf_event_json(struct pf_event *event, const char *key, const char *text);

/* Add "error": its errno's name, its code and its sentence.  No error adds nothing. */
void pf_event_error(struct pf_event *event, const struct pf_err *err);

/* Give it its time and add it to the logs. */
void pf_event_send(struct pf_event *event);

/* --- reading: as UID, from any thread ----------------------------------------------- */

/* Read as pf_lines_read does, but more than a chunk at once; READER is the caller's alone. */
size_t pf_events_read(struct pf_telemetry *telemetry, uid_t uid,
		      struct pf_lines_reader *reader, uint64_t off, char *dst,
		      size_t len);

/* Does READER, if it continues where it was, get anything? */
bool pf_events_ready(struct pf_telemetry *telemetry, uid_t uid,
		     const struct pf_lines_reader *reader);

/* The size of what UID sees (of READER's file, if not NULL), and the last event's time. */
uint64_t pf_events_size(struct pf_telemetry *telemetry, uid_t uid,
			const struct pf_lines_reader *reader, struct timespec *ret_time);

/* How many events were added, and how many of them the owner's log no longer keeps. */
void pf_events_count(struct pf_telemetry *telemetry, uint64_t *ret_added,
		     uint64_t *ret_dropped);

/*
 * Metrics: how often, how many bytes, how many seconds; for Prometheus.
 *
 * Counters are in meters, which their users get beforehand: to count takes some nanoseconds and no
 * lock.  All functions that count take a NULL meter and then do nothing.
 *
 * https://prometheus.io/docs/instrumenting/exposition_formats/ (text format 0.0.4)
 */

enum {
	PF_BUCKETS = 15,              /* bounds of a histogram, without +Inf */
	PF_METRICS_EXECUTABLES = 200, /* executables that are measured one by one */
	PF_METRICS_LABEL = 256, /* bytes of a label's value, with a NUL: more is cut */
};

/* The bounds: 10, 30 microseconds and so on up to 100 s.  In seconds. */
extern const double pf_bucket_bounds[PF_BUCKETS];

/* How long something took.  All zeros is an empty one. */
struct pf_histogram {
	_Atomic uint64_t buckets[PF_BUCKETS + 1]; /* each without those below */
	_Atomic uint64_t ns;                      /* the sum */
};

/* N times that took SECONDS each. */
void pf_histogram_add(struct pf_histogram *histogram, uint64_t n, double seconds);

/* How something ended. */
enum pf_outcome { PF_OUTCOME_OK, PF_OUTCOME_FAILED, PF_OUTCOME_CANCELLED, PF_OUTCOMES };

/* Of a code: 0, -ECANCELED and -EINTR, or another -errno. */
enum pf_outcome pf_outcome_of(int code);

/* Transfers of one direction. */
struct pf_transfers {
	_Atomic uint64_t results[PF_OUTCOMES];
	_Atomic uint64_t bytes;
	struct pf_histogram seconds;
};

struct pf_device_meter {
	char name[PF_METRICS_LABEL]; /* "cpu:0" */
	struct pf_histogram executions;
	struct pf_transfers to, from;
};

struct pf_plugin_meter {
	char name[PF_METRICS_LABEL];
	struct pf_plugin_meter *_Atomic next;
	_Atomic uint64_t executions[PF_OUTCOMES], compiles[PF_OUTCOMES];
	struct pf_histogram compile_seconds;
	_Atomic uint64_t deaths;
	_Atomic uint64_t
		updates_failed; /* compiles that left an earlier program in place */
	unsigned n_devices;
	struct pf_device_meter devices[];
};

enum pf_report_cache {
	PF_REPORT_CACHE_HIT,
	PF_REPORT_CACHE_MISS,
	PF_REPORT_CACHE_EVICTED,
	PF_REPORT_CACHE_DAMAGED,
	PF_REPORT_CACHE_EVENTS
};

/* Begin to measure a plugin and its N devices, whose numbers are IDS: a meter that lives as
 * long as TELEMETRY, or NULL. */
struct pf_plugin_meter *pf_metrics_plugin(struct pf_telemetry *telemetry,
					  const char *name, unsigned n,
					  const int64_t *ids);

/* Device INDEX of METER, or NULL. */
struct pf_device_meter *pf_meter_device(struct pf_plugin_meter *meter, unsigned index);

/* Begin to measure an executable; its name is SUBJECT's.  NULL: there are too
 * many already, or no memory. */
struct pf_executable_meter *pf_metrics_executable(struct pf_telemetry *telemetry,
						  uint64_t subject);
void pf_executable_meter_free(struct pf_executable_meter *meter);

/* The executable is SUBJECT from now on; 0: it has no name, and is not shown. */
void pf_executable_meter_name(struct pf_executable_meter *meter, uint64_t subject);

void pf_meter_compile(struct pf_plugin_meter *meter, enum pf_outcome result,
		      double seconds);
/* RUNS executions, one after the other in SECONDS all together, on N of the plugin's devices,
 * whose indexes are DEVICES. */
void pf_meter_execution(struct pf_plugin_meter *meter, struct pf_executable_meter *of,
			enum pf_outcome result, uint64_t runs, double seconds,
			const unsigned *devices, size_t n);
void pf_meter_transfer(struct pf_transfers *transfers, enum pf_outcome result,
		       uint64_t bytes, double seconds);

/* --- printing ----------------------------------------------------------------------- */

/* Append what comes before a metric's samples. */
void pf_metrics_family(struct pf_buf *out, const char *name, const char *type,
		       const char *help);

/* Append a sample: labels are pairs of a name and a value, N in all; values are escaped,
 * and invalid UTF-8 becomes '?'. */
void pf_metrics_sample(struct pf_buf *out, const char *name, const char *const *labels,
		       size_t n, uint64_t value);

/* Append everything that was measured.  Waits for no thread that counts. */
void pf_metrics_print(struct pf_telemetry *telemetry, struct pf_buf *out);

/* --- reports: what happened becomes an event, and is counted ------------------------ */

/* EVENT ("buffer.donated") happened to SUBJECT. */
void pf_report(struct pf_telemetry *telemetry, uint64_t subject, const char *event);

/* An instance of plugin NAME's worker has started as process PID; the first if RESTARTS is 0. */
void pf_report_worker_started(struct pf_telemetry *telemetry, const char *name, int pid,
			      unsigned restarts);
/* Process PID has given no heartbeat for PF_SILENT_S, or, SILENT false, gives them again. */
void pf_report_worker_silent(struct pf_telemetry *telemetry, const char *name, int pid,
			     bool silent);
/* All processes of the plugin's group are there: COMPLETE; or it has ended, for WHY. */
void pf_report_group(struct pf_telemetry *telemetry, const char *name, bool complete,
		     const struct pf_err *why);
/* It died: WHY holds its last output. */
void pf_report_worker_died(struct pf_telemetry *telemetry, struct pf_plugin_meter *meter,
			   const char *name, int pid, const struct pf_err *why);

/* A compile, from its start to its end: its path and user are those of its start. */
struct pf_report_compile {
	char *object; /* owned: "executables/add", or NULL */
	uid_t user;
};

/* SUBJECT's program of BYTES is to be compiled: *RET is released by pf_report_compiled. */
void pf_report_queued(struct pf_telemetry *telemetry, uint64_t subject, uint64_t bytes,
		      const char *plugin, struct pf_report_compile *ret);

/* The compile leaves the queue, or has gone on for SECONDS, if these are not 0. */
void pf_report_compiling(struct pf_telemetry *telemetry,
			 const struct pf_report_compile *report, double seconds);

/* It ended with ERR's code after SECONDS; -ECANCELED: a newer source took its place.  CACHE is
 * "hit", "miss", or NULL.  KEPT: it failed, and what was compiled before goes on. */
void pf_report_compiled(struct pf_telemetry *telemetry, struct pf_plugin_meter *meter,
			struct pf_report_compile *report, const struct pf_err *err,
			double seconds, const char *cache, bool kept);

/* An execution that has ended. */
struct pf_report_execution {
	const char *executable; /* its name; borrowed, as all pointers here */
	uid_t user;
	const char *id; /* the command's, JSON text, or NULL */
	uint64_t runs;  /* that were good */
	double seconds, device_seconds;
	double transfer_seconds, queue_seconds; /* of all runs; 0: not known */
	const unsigned
		*devices; /* indexes of the plugin's devices, or NULL: it had none yet */
	size_t n_devices;
	const struct pf_err *err; /* why the next run failed; NULL: none did */
	/* Parts of a command that repeats: all runs are counted, the last part is an event, of
	 * all of them. */
	bool goes_on;
	uint64_t repeated; /* runs of the parts before */
	double repeated_seconds, repeated_device_seconds;
};

void pf_report_executed(struct pf_telemetry *telemetry, struct pf_plugin_meter *meter,
			struct pf_executable_meter *of,
			const struct pf_report_execution *report);

/*
 * N calls of REPORT's executable ended well since the last report, in REPORT's seconds all
 * together: "calls.finished".  Or the last one failed, if REPORT has an error: "execution.failed".
 * The metrics have counted them already.
 */
void pf_report_calls(struct pf_telemetry *telemetry, struct pf_plugin_meter *meter,
		     uint64_t n, const struct pf_report_execution *report);

/* An execution of EXECUTABLE for USER, whose command had ID (JSON text, or NULL), is ended with
 * its worker for the reason WHY: "execution.abandoned". */
void pf_report_abandoned(struct pf_telemetry *telemetry, const char *executable,
			 uid_t user, const char *id, const struct pf_err *why);

/* The program SUBJECT, executed for USER, called callback INDEX with the arguments TEXT, which no host
 * answers: "callback". */
void pf_report_callback(struct pf_telemetry *telemetry, uint64_t subject, uid_t user,
			uint64_t index, const char *text);

/*
 * Something happened to the entry KEY (hexadecimal) of BYTES in the cache: "cache.hit" and so
 * on, the event of USER, who compiles the program; pf_telemetry_owner if no user does.
 */
void pf_report_cache(struct pf_telemetry *telemetry, enum pf_report_cache what,
		     uid_t user, const char *key, uint64_t bytes);

/* The states of a job that are events. */
enum pf_report_job {
	PF_REPORT_JOB_QUEUED,
	PF_REPORT_JOB_STARTED,
	PF_REPORT_JOB_FINISHED,
	PF_REPORT_JOB_FAILED,
	PF_REPORT_JOB_CANCELLED
};

/*
 * Job NUMBER of USER, which executes EXECUTABLE (NULL: something else), whose command had ID
 * (JSON text, or NULL).  SECONDS is used at its end; ERR: why it failed, else NULL.
 */
void pf_report_job(struct pf_telemetry *telemetry, enum pf_report_job what,
		   uint64_t number, uid_t user, const char *executable, const char *id,
		   double seconds, const struct pf_err *err);

#endif
