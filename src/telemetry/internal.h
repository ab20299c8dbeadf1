/* SPDX-License-Identifier: Apache-2.0 */
/* What the metrics' own files share; nobody else includes this. */
#ifndef PJRTFS_TELEMETRY_INTERNAL_H
#define PJRTFS_TELEMETRY_INTERNAL_H

#include "pjrtfs/telemetry.h"

struct pf_executable_meter {
	struct pf_metrics *metrics; /* borrowed */
	unsigned at;                /* in the table, by its lock */
	uint64_t subject;           /* by the lock, too */
	_Atomic uint64_t results[PF_OUTCOMES];
	struct pf_histogram seconds;
};

struct pf_metrics {
	pthread_mutex_t lock;            /* rank 9; protects the lists */
	struct pf_plugin_meter *plugins; /* owned */
	struct pf_executable_meter *executables[PF_METRICS_EXECUTABLES];
	unsigned n_executables;
	uint64_t refused; /* executables that there was no meter for */

	_Atomic uint64_t cache[PF_REPORT_CACHE_EVENTS], jobs[PF_OUTCOMES];
};

#endif
