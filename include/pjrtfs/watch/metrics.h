/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics: how often, how many bytes, how many seconds; for Prometheus.
 *
 * Whoever measures adds to counters of a meter that it got beforehand: some nanoseconds, no
 * lock.  All functions that add take NULL for a meter that there is none of.
 *
 * https://prometheus.io/docs/instrumenting/exposition_formats/ (text format 0.0.4)
 */
#ifndef PJRTFS_WATCH_METRICS_H
#define PJRTFS_WATCH_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "pjrtfs/base/buf.h"

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

void pf_histogram_add(struct pf_histogram *histogram, double seconds);

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
	unsigned n_devices;
	struct pf_device_meter devices[];
};

/* Of an executable that has a name; its maker's, who frees it. */
struct pf_executable_meter;

enum pf_told_cache {
	PF_TOLD_CACHE_HIT,
	PF_TOLD_CACHE_MISS,
	PF_TOLD_CACHE_EVICTED,
	PF_TOLD_CACHE_DAMAGED,
	PF_TOLD_CACHE_EVENTS
};

struct pf_metrics;

struct pf_metrics *pf_metrics_new(void); /* NULL: no memory */
void pf_metrics_free(struct pf_metrics *metrics);

/* Begin to measure a plugin and its N devices, whose numbers are IDS: a meter that lives as
 * long as METRICS, or NULL. */
struct pf_plugin_meter *pf_metrics_plugin(struct pf_metrics *metrics, const char *name,
					  unsigned n, const int64_t *ids);

/* Device INDEX of METER, or NULL. */
struct pf_device_meter *pf_meter_device(struct pf_plugin_meter *meter, unsigned index);

/* Begin to measure an executable; SUBJECT is what its name is asked by.  NULL: there are too
 * many already, or no memory. */
struct pf_executable_meter *pf_metrics_executable(struct pf_metrics *metrics,
						  uint64_t subject);
void pf_executable_meter_free(struct pf_executable_meter *meter);

/* It is SUBJECT from now on; 0: it has no name, and is not shown. */
void pf_executable_meter_name(struct pf_executable_meter *meter, uint64_t subject);

void pf_meter_compile(struct pf_plugin_meter *meter, enum pf_outcome result,
		      double seconds);
/* An execution on N of the plugin's devices, whose indexes are DEVICES. */
void pf_meter_execution(struct pf_plugin_meter *meter, struct pf_executable_meter *of,
			enum pf_outcome result, double seconds, const unsigned *devices,
			size_t n);
void pf_meter_transfer(struct pf_transfers *transfers, enum pf_outcome result,
		       uint64_t bytes, double seconds);
void pf_meter_cache(struct pf_metrics *metrics, enum pf_told_cache event);
void pf_meter_job(struct pf_metrics *metrics, enum pf_outcome result);

/* --- printing ---------------------------------------------------------------------------- */

/* Append what comes before a metric's samples. */
void pf_metrics_family(struct pf_buf *out, const char *name, const char *type,
		       const char *help);

/* Append a sample: labels are pairs of a name and a value, N in all; values are escaped, and
 * what is no UTF-8 becomes '?'. */
void pf_metrics_sample(struct pf_buf *out, const char *name, const char *const *labels,
		       size_t n, uint64_t value);

/*
 * Append everything that was measured.  NAME(arg, subject, out) appends an executable's name,
 * or returns false: it has none any more.  Waits for nobody who adds.
 */
void pf_metrics_print(struct pf_metrics *metrics, struct pf_buf *out,
		      bool (*name)(void *arg, uint64_t subject, struct pf_buf *out),
		      void *arg);

#endif
