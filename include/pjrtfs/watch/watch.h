/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a mount tells of what happens in it: events (events.h) and metrics (metrics.h).
 *
 * The store and the engine know their objects by numbers, subjects, which the files above
 * give them; only the files know names.  All functions take a NULL watch: nothing is told.
 * None of them blocks; those that ask for a name take the tree's lock (rank 2), so the
 * caller holds none but the name lock.
 */
#ifndef PJRTFS_WATCH_WATCH_H
#define PJRTFS_WATCH_WATCH_H

#include "pjrtfs/watch/events.h"
#include "pjrtfs/watch/metrics.h"

struct pf_watch;

/* Who knows names. */
struct pf_watch_names {
	/* Append the path of SUBJECT under the mount, and say whose it is.  False: it has no
	 * name (any more).  Called on any thread. */
	bool (*name)(void *arg, uint64_t subject, struct pf_buf *path, uid_t *ret_user);
	void (*free)(void *arg); /* with the watch */
	void *arg;
};

/* For the mount of OWNER.  NULL: no memory. */
struct pf_watch *pf_watch_new(uid_t owner);

/* Nobody tells anything any more.  NULL is allowed. */
void pf_watch_free(struct pf_watch *watch);

/* Names can be asked for from now on; once. */
void pf_watch_attach(struct pf_watch *watch, const struct pf_watch_names *names);

/* Its parts, borrowed; NULL for a NULL watch. */
struct pf_events *pf_watch_events(struct pf_watch *watch);
struct pf_metrics *pf_watch_metrics(struct pf_watch *watch);
uid_t pf_watch_owner(const struct pf_watch *watch);

/* The path of SUBJECT, appended, and its user; the owner, and false, if it has no name. */
bool pf_watch_name(struct pf_watch *watch, uint64_t subject, struct pf_buf *path,
		   uid_t *ret_user);

/* --- what happens; each is an event and is counted ----------------------------------------- */

/* EVENT ("buffer.donated") happened to SUBJECT. */
void pf_tell(struct pf_watch *watch, uint64_t subject, const char *event);

/* A life of plugin NAME's worker has begun as process PID; it is the first if RESTARTS is 0. */
void pf_tell_worker_started(struct pf_watch *watch, const char *name, int pid,
			    unsigned restarts);
/* It died: WHY holds what it printed last. */
void pf_tell_worker_died(struct pf_watch *watch, struct pf_plugin_meter *meter,
			 const char *name, int pid, const struct pf_err *why);

/* A compile, from its start to its end: what is told of it at its end is as it began. */
struct pf_told_compile {
	char *object; /* owned: "executables/add", or NULL */
	uid_t user;
};

/* SUBJECT's program of BYTES is to be compiled: *RET is released by pf_tell_compiled. */
void pf_tell_queued(struct pf_watch *watch, uint64_t subject, uint64_t bytes,
		    const char *plugin, struct pf_told_compile *ret);

/* The plugin's turn has come. */
void pf_tell_compiling(struct pf_watch *watch, const struct pf_told_compile *told);

/* It ended with ERR's code after SECONDS; -ECANCELED: a newer source took its place.  CACHE is
 * "hit", "miss", or NULL. */
void pf_tell_compiled(struct pf_watch *watch, struct pf_plugin_meter *meter,
		      struct pf_told_compile *told, const struct pf_err *err,
		      double seconds, const char *cache);

/* An execution as its end tells of it. */
struct pf_told_execution {
	const char *executable; /* its name; borrowed, as all of these */
	uid_t user;
	const char *id; /* the command's, JSON text, or NULL */
	double seconds, device_seconds;
	const unsigned
		*devices; /* indexes of the plugin's devices, or NULL: it had none yet */
	size_t n_devices;
	const struct pf_err *err; /* NULL: it succeeded */
	/* Repetitions of a command: all are counted, the last one is an event, of all. */
	bool goes_on;
	uint64_t repeated; /* times before */
	double repeated_seconds, repeated_device_seconds;
};

void pf_tell_executed(struct pf_watch *watch, struct pf_plugin_meter *meter,
		      struct pf_executable_meter *of,
		      const struct pf_told_execution *told);

/*
 * N calls of TOLD's executable ended well since this was told of last, in TOLD's seconds all
 * together: "calls.finished".  Or the last one failed, if TOLD has an error: "execution.failed".
 * They were counted before.
 */
void pf_tell_calls(struct pf_watch *watch, struct pf_plugin_meter *meter, uint64_t n,
		   const struct pf_told_execution *told);

/* An execution of EXECUTABLE for USER, whose command had ID (JSON text, or NULL), is ended with
 * its worker, as WHY tells: "execution.abandoned". */
void pf_tell_abandoned(struct pf_watch *watch, const char *executable, uid_t user,
		       const char *id, const struct pf_err *why);

/*
 * Something happened to the entry KEY (hexadecimal) of BYTES in the cache: "cache.hit" and so
 * on, the event of USER, who asked for the program; pf_watch_owner where nobody did.
 */
void pf_tell_cache(struct pf_watch *watch, enum pf_told_cache what, uid_t user,
		   const char *key, uint64_t bytes);

/* What becomes of a job. */
enum pf_told_job {
	PF_TOLD_JOB_QUEUED,
	PF_TOLD_JOB_STARTED,
	PF_TOLD_JOB_FINISHED,
	PF_TOLD_JOB_FAILED,
	PF_TOLD_JOB_CANCELLED
};

/*
 * Job NUMBER of USER, which executes EXECUTABLE (NULL: something else), whose command had ID
 * (JSON text, or NULL).  SECONDS counts at its end; ERR: why it failed, else NULL.
 */
void pf_tell_job(struct pf_watch *watch, enum pf_told_job what, uint64_t number,
		 uid_t user, const char *executable, const char *id, double seconds,
		 const struct pf_err *err);

#endif
