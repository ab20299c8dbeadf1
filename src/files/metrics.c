/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.prom: what Prometheus reads.  It asks no plugin anything. */
#include "mount.h"

static void gauge(struct pf_buf *out, const char *name, const char *help, uint64_t value)
{
	pf_metrics_family(out, name, "gauge", help);
	pf_metrics_sample(out, name, NULL, 0, value);
}

static void workers(struct pf_fs *fs, struct pf_buf *out)
{
	const char *labels[] = { "plugin", NULL };
	unsigned restarts;
	pid_t pid;

	pf_metrics_family(out, "pjrtfs_worker_up", "gauge",
			  "Is the plugin's process ready?");
	for (unsigned i = 0; i < fs->n_workers; i++) {
		labels[1] = pf_worker_name(fs->workers[i]);
		pf_metrics_sample(out, "pjrtfs_worker_up", labels, 2,
				  pf_worker_state(fs->workers[i]) == PF_WORKER_READY);
	}
	pf_metrics_family(out, "pjrtfs_worker_restarts_total", "counter",
			  "Times that the plugin's process was started again.");
	for (unsigned i = 0; i < fs->n_workers; i++) {
		labels[1] = pf_worker_name(fs->workers[i]);
		pf_worker_pid(fs->workers[i], &pid, &restarts);
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

/* An executable is called as in commands: its path below executables/. */
static bool executable_name(void *arg, uint64_t subject, struct pf_buf *out)
{
	struct pf_fs *fs = arg;
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *node = pf_tree_by_ino(fs->tree, subject);

	if (!node)
		return false;
	pf_node_path(node, fs->executables, out);
	return out->len > 0;
}

static int metrics_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	static const char *const version[] = { "version", PACKAGE_VERSION };
	struct pf_fs *fs = fs_of(node);
	uint64_t used, limit, added, dropped;

	(void)err;
	pf_metrics_family(out, "pjrtfs_info", "gauge", "The version that runs.");
	pf_metrics_sample(out, "pjrtfs_info", version, 2, 1);
	pf_fs_usage(fs, &used, &limit);
	gauge(out, "pjrtfs_memory_used_bytes", "What of the memory limit is in use.",
	      used);
	gauge(out, "pjrtfs_memory_limit_bytes", "The memory limit.", limit);
	workers(fs, out);
	alive(fs, PF_ALIVE_BUFFERS, "pjrtfs_buffers_alive",
	      "Arrays that are on the device now.", out);
	alive(fs, PF_ALIVE_EXECUTABLES, "pjrtfs_executables_alive",
	      "Compiled programs that are loaded on the device now.", out);
	pf_metrics_print(pf_watch_metrics(fs->watch), out, executable_name, fs);
	pf_events_count(pf_watch_events(fs->watch), &added, &dropped);
	pf_metrics_family(out, "pjrtfs_events_total", "counter", "Lines of events.");
	pf_metrics_sample(out, "pjrtfs_events_total", NULL, 0, added);
	pf_metrics_family(out, "pjrtfs_events_dropped_total", "counter",
			  "Lines that events no longer shows to the owner.");
	pf_metrics_sample(out, "pjrtfs_events_dropped_total", NULL, 0, dropped);
	return 0;
}

const struct pf_kind kind_metrics = { .name = "metrics.prom",
				      .mode = S_IFREG | 0444,
				      .show = metrics_show };
