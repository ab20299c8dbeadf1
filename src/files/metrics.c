/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.prom, for Prometheus.  It sends nothing to a plugin. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"

enum { METRICS_USERS = 64 }; /* with a series of their own */

/* A family of one sample, of TYPE "gauge" or "counter". */
static void single(struct pf_buf *out, const char *name, const char *type,
		   const char *help, uint64_t value)
{
	pf_metrics_family(out, name, type, help);
	pf_metrics_sample(out, name, NULL, 0, value);
}

static void workers(struct pf_fs *fs, struct pf_buf *out)
{
	const char *labels[] = { "plugin", NULL };
	unsigned restarts;
	pid_t worker_pid;

	pf_metrics_family(out, "pjrtfs_worker_up", "gauge",
			  "Is the plugin's process ready?");
	for (unsigned i = 0; i < fs->n_workers; i++) {
		labels[1] = pf_worker_name(fs->workers[i]);
		pf_metrics_sample(out, "pjrtfs_worker_up", labels, 2,
				  pf_worker_state_is_well(
					  pf_worker_state(fs->workers[i])));
	}
	pf_metrics_family(out, "pjrtfs_worker_silent_seconds", "gauge",
			  "Seconds since the last heartbeat of the plugin's process.");
	for (unsigned i = 0; i < fs->n_workers; i++) {
		labels[1] = pf_worker_name(fs->workers[i]);
		pf_metrics_sample(out, "pjrtfs_worker_silent_seconds", labels, 2,
				  pf_worker_silent_s(fs->workers[i]));
	}
	pf_metrics_family(out, "pjrtfs_worker_restarts_total", "counter",
			  "Times that the plugin's process was started again.");
	for (unsigned i = 0; i < fs->n_workers; i++) {
		labels[1] = pf_worker_name(fs->workers[i]);
		pf_worker_pid(fs->workers[i], &worker_pid, &restarts);
		pf_metrics_sample(out, "pjrtfs_worker_restarts_total", labels, 2,
				  restarts);
	}
}

static void alive(struct pf_fs *fs, enum pf_alive what, const char *name,
		  const char *help, struct pf_buf *out)
{
	const char *labels[] = { "plugin", NULL, "device", NULL };

	pf_metrics_family(out, name, "gauge", help);
	for (unsigned i = 0; i < fs->n_devices; i++) {
		const struct device *d = &fs->devices[i];

		labels[1] = pf_worker_name(d->worker);
		labels[3] = d->name;
		pf_metrics_sample(out, name, labels, 4,
				  pf_worker_alive(d->worker, what, d->index));
	}
}

static void executions(struct pf_fs *fs, bool queued, const char *name, const char *help,
		       struct pf_buf *out)
{
	const char *labels[] = { "plugin", NULL, "device", NULL };

	pf_metrics_family(out, name, "gauge", help);
	for (unsigned i = 0; i < fs->n_devices; i++) {
		const struct device *d = &fs->devices[i];
		unsigned n[2];

		files_count_executions(d, &n[0], &n[1]);
		labels[1] = pf_worker_name(d->worker);
		labels[3] = d->name;
		pf_metrics_sample(out, name, labels, 4, n[queued]);
	}
}

/* Memory by user. */
struct usage {
	uid_t user;
	uint64_t bytes;
};

static int by_bytes(const void *a, const void *b)
{
	const struct usage *x = a, *y = b;

	return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

/* Append the memory of the users that have most; of others than CRED only for the mount's owner. */
static int users(struct pf_fs *fs, const struct pf_cred *cred, struct pf_buf *out)
{
	pf_autofree struct pf_account **accounts = NULL;
	pf_autofree struct usage *usage = NULL;
	char user[16];
	const char *labels[] = { "user", user };
	size_t n, kept = 0;

	accounts = pf_accounts(fs->quotas, &n);
	usage = accounts ? calloc(n + 1, sizeof(*usage)) : NULL;
	if (!usage)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct pf_account *a = accounts[i];
		uint64_t bytes = pf_limit_current(&a->limits[PF_MEMORY]);

		if (bytes && (a->uid == cred->uid || files_owns_mount(fs, cred->uid)))
			usage[kept++] = (struct usage){ a->uid, bytes };
	}
	qsort(usage, kept, sizeof(*usage), by_bytes);
	pf_metrics_family(out, "pjrtfs_user_memory_bytes", "gauge",
			  "Host memory that is charged to a user.");
	for (size_t i = 0; i < kept && i < METRICS_USERS; i++) {
		snprintf(user, sizeof(user), "%u", usage[i].user);
		pf_metrics_sample(out, "pjrtfs_user_memory_bytes", labels, 2,
				  usage[i].bytes);
	}
	return 0;
}

/* Append what health says, and how often the disk failed. */
static int health_metrics(struct pf_fs *fs, const struct pf_cred *cred,
			  struct pf_buf *out)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_state_dir_counts kept = { 0 };
	int r;

	single(out, "pjrtfs_daemon_deaths_total", "counter",
	       "Times that a process that served the mount died.", fs->config.deaths.n);
	single(out, "pjrtfs_daemon_last_death_seconds", "gauge",
	       "When the last one died, in seconds since 1970; 0: none did.",
	       (uint64_t)fs->config.deaths.last);
	r = files_troubles(fs, cred, &text);
	if (r < 0)
		return r;
	single(out, "pjrtfs_healthy", "gauge", "Does health say ok?", !text.len);
	single(out, "pjrtfs_cache_write_errors_total", "counter",
	       "Entries of the cache that could not be written.",
	       fs->config.cache ? pf_cache_write_errors(fs->config.cache) : 0);
	if (fs->state_dir)
		pf_state_dir_count(fs->state_dir, &kept);
	single(out, "pjrtfs_state_files_not_kept", "gauge",
	       "Files that the state directory lacks, as it cannot be written, or is behind.",
	       kept.not_kept);
	single(out, "pjrtfs_state_files_not_read", "gauge",
	       "Files of the state directory that could not be read.", kept.not_read);
	single(out, "pjrtfs_state_write_errors_total", "counter",
	       "Attempts to write a file to the state directory that failed.",
	       kept.write_errors);
	return 0;
}

static int metrics_show(struct pf_node *node, const struct pf_cred *cred,
			struct pf_buf *out, struct pf_err *err)
{
	static const char *const version_label[] = { "version", PACKAGE_VERSION };
	struct pf_fs *fs = fs_of(node);
	uint64_t used, limit, added, dropped;
	int r;

	pf_metrics_family(out, "pjrtfs_info", "gauge", "The version that runs.");
	pf_metrics_sample(out, "pjrtfs_info", version_label, 2, 1);
	pf_arena_usage(fs->config.arena, &used, &limit);
	single(out, "pjrtfs_memory_used_bytes", "gauge",
	       "What of the memory limit is in use.", used);
	single(out, "pjrtfs_memory_limit_bytes", "gauge", "The memory limit.", limit);
	r = health_metrics(fs, cred, out);
	if (r < 0)
		return pf_err_set(err, r, "no memory for the text");
	workers(fs, out);
	alive(fs, PF_ALIVE_BUFFERS, "pjrtfs_buffers_alive",
	      "Arrays that are on the device now.", out);
	alive(fs, PF_ALIVE_EXECUTABLES, "pjrtfs_executables_alive",
	      "Compiled programs that are loaded on the device now.", out);
	pf_metrics_print(fs->config.telemetry, out);
	pf_events_count(fs->config.telemetry, &added, &dropped);
	single(out, "pjrtfs_events_total", "counter", "Lines of events.", added);
	single(out, "pjrtfs_events_dropped_total", "counter",
	       "Lines that events no longer shows to the owner.", dropped);
	executions(fs, false, "pjrtfs_executions_running",
		   "Executions that have a slot of the device now.", out);
	executions(fs, true, "pjrtfs_executions_queued",
		   "Executions that wait for a slot of the device now.", out);
	r = users(fs, cred, out);
	return r < 0 ? pf_err_set(err, r, "no memory for the text") : 0;
}

const struct pf_kind kind_metrics = { .name = "metrics.prom",
				      .mode = S_IFREG | 0444,
				      .show_as = metrics_show };
