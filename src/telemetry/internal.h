/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by events.c and metrics.c; other layers do not include this. */
#ifndef PJRTFS_TELEMETRY_INTERNAL_H
#define PJRTFS_TELEMETRY_INTERNAL_H

#include "pjrtfs/telemetry.h"

struct pf_executable_meter {
	struct pf_telemetry *telemetry; /* borrowed */
	unsigned at;                    /* in the table, by its lock */
	uint64_t subject;               /* by the lock, too */
	_Atomic uint64_t results[PF_OUTCOMES];
	struct pf_histogram seconds;
};

/* The events that one uid sees. */
struct pf_view {
	uid_t uid;
	uint64_t used; /* by telemetry->clock, when it was last added to */
	struct timespec time;
	struct pf_lines lines;
};

struct pf_telemetry {
	uid_t owner;
	size_t user_bytes;
	struct pf_telemetry_names names;
	_Atomic bool named; /* names is set */
	_Atomic uint64_t cache[PF_REPORT_CACHE_EVENTS], jobs[PF_OUTCOMES];

	pthread_mutex_t lock; /* rank 9; protects the fields below */
	struct pf_view all;
	struct pf_view *views[PF_EVENTS_USERS]; /* owned */
	unsigned n_views;
	uint64_t clock;
	struct pf_plugin_meter *plugins; /* owned */
	struct pf_executable_meter *executables[PF_METRICS_EXECUTABLES];
	unsigned n_executables;
	uint64_t refused; /* executables that got no meter */
};

/* Free the meters of plugins. */
void pf_metrics_release(struct pf_telemetry *telemetry);

#endif
