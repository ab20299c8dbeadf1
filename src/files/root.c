/* SPDX-License-Identifier: Apache-2.0 */
/* The files at the root: README, version, pid, health. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "files/buffers/buffers.h"
#include "files/commands/command.h"
#include "internal.h"
#include "pjrtfs/vfs.h"

enum { METRICS_USERS = 64 }; /* with a series of their own */

/* --- metrics.prom, for Prometheus.  It sends nothing to a plugin -------------------- */

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
				  pf_worker_state(fs->workers[i]) == PF_WORKER_READY);
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

/* Append a line for each trouble that CRED may see, what loses most first.  -ENOMEM. */
static int troubles(struct pf_fs *fs, const struct pf_cred *cred, struct pf_buf *out)
{
	struct pf_err why = PF_ERR_INIT;
	int r;

	if (fs->state_dir)
		pf_state_dir_health(fs->state_dir, out);
	for (unsigned i = 0; i < fs->n_workers; i++) {
		enum pf_worker_state state = pf_worker_state(fs->workers[i]);

		if (state != PF_WORKER_READY)
			pf_buf_printf(out, "plugin %s %s %s\n",
				      pf_worker_name(fs->workers[i]),
				      state == PF_WORKER_FAILED ? "has" : "is",
				      pf_worker_state_name(state));
	}
	for (unsigned i = 0; i < fs->config.n_failed; i++)
		pf_buf_printf(out, "plugin %s has failed\n", fs->config.failed[i].name);
	r = files_print_left(fs, cred, out);
	if (fs->config.cache && pf_cache_failing(fs->config.cache, &why) < 0)
		pf_buf_printf(out, "cache %s: %s; programs are compiled but not kept\n",
			      pf_cache_dir(fs->config.cache), why.text);
	return r < 0 ? r : 0;
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
	r = troubles(fs, cred, &text);
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

static const struct pf_kind kind_metrics = { .name = "metrics.prom",
					     .mode = S_IFREG | 0444,
					     .show_as = metrics_show };

static int health_show(struct pf_node *node, const struct pf_cred *cred,
		       struct pf_buf *out, struct pf_err *err)
{
	int r = troubles(fs_of(node), cred, out);

	if (r < 0)
		return pf_err_set(err, r, "no memory for the text");
	if (!out->len)
		pf_buf_puts(out, "ok\n");
	return 0;
}

static const struct pf_kind kind_health = { .name = "health",
					    .mode = S_IFREG | 0444,
					    .show_as = health_show };

static void print_devices(const struct pf_fs *fs, const char *m, struct pf_buf *out)
{
	pf_buf_printf(
		out,
		"Devices (the first is the default, whose buffers/ is %s/buffers):\n", m);
	for (unsigned i = 0; i < fs->n_devices; i++) {
		const struct device *d = &fs->devices[i];

		pf_buf_printf(out, "  %s  %s\n", d->name,
			      pf_worker_description(d->worker)->devices[d->index].kind);
	}
	for (unsigned i = 0; i < fs->config.n_failed; i++)
		pf_buf_printf(out, "Plugin %s did not start; why: %s/plugins/%s/error\n",
			      fs->config.failed[i].name, m, fs->config.failed[i].name);
}

static int readme_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	struct pf_fs *fs = fs_of(node);
	const char *m = fs->config.mountpoint ? fs->config.mountpoint : "MOUNTPOINT";

	(void)err;
	pf_buf_puts(out, "This is pjrtfs: accelerators as files.\n\n");
	print_devices(fs, m, out);
	pf_buf_printf(
		out,
		"\nTry it; these lines work when pasted:\n\n"
		"  cat > %s/programs/add.mlir <<'END'\n"
		"  func.func @main(%%x: tensor<3xf32>, %%y: tensor<3xf32>) -> tensor<3xf32> {\n"
		"    %%z = stablehlo.add %%x, %%y : tensor<3xf32>\n"
		"    return %%z : tensor<3xf32>\n"
		"  }\n"
		"  END\n"
		"  echo 1 2 3 > %s/buffers/x.txt\n"
		"  echo 10 20 30 > %s/buffers/y.txt\n"
		"  echo 'x y -> z' > %s/executables/add/run\n"
		"  cat %s/buffers/z.txt\n\n",
		m, m, m, m, m);
	pf_buf_printf(
		out,
		"Write a program into programs/ as NAME.mlir, .mlirbc, .hlo.pb or .jax_exported:\n"
		"closing the file compiles it, but none that is called otherwise.  Write an array\n"
		"into buffers/ (.npy, .txt, .raw or .safetensors): closing the file puts it on\n"
		"the device.  Every array can be read as x.npy, x.txt, x.raw, x.safetensors, and\n"
		"x.json describes it.\n"
		"control takes JSON commands, one object each; its reply is read back:\n\n"
		"  exec 3<>%s/control\n"
		"  echo '{\"op\":\"execute\",\"executable\":\"add\",\"inputs\":[\"x\",\"y\"],"
		"\"outputs\":[\"z\"]}' >&3\n"
		"  cat <&3\n\n"
		"Several commands in one: {\"op\":\"batch\",\"steps\":[...]}; \"async\":true makes a\n"
		"job in jobs/.  From a program of yours executables/NAME/call is the fastest way:\n"
		"write the inputs as .npy, read the outputs as .npy, on one descriptor.\n\n"
		"When a command fails, this says why:\n\n"
		"  cat %s/error\n\n"
		"Older failures are in:\n"
		"  executables/NAME/error      a program that did not compile\n"
		"  cat executables/NAME/run    the reply to your last run\n"
		"  buffers/NAME.json           an array, or a NAME, that was refused\n"
		"  plugins/NAME/log            what the plugin printed\n"
		"  tail -f events              all of these, and all other events\n"
		"  trace.json                  the same on a time line (ui.perfetto.dev)\n\n"
		"These lines convert files of other formats:\n\n",
		m, m);
	files_print_conversions(out);
	pf_buf_puts(out, "\nThe manual: man 1 pjrtfs, man 5 pjrtfs.\n");
	return 0;
}

FILES_TEXT(readme, "README", readme_show, NULL);
PF_FIELD(version, "version", "%s", PACKAGE_VERSION);
PF_FIELD(pid, "pid", "%d", (int)getpid());

/* --- error: why the last call failed ------------------------------------------------ */

/* The last refusal, of this user and login session. */
static int error_show(struct pf_node *node, const struct pf_cred *cred,
		      struct pf_buf *out, struct pf_err *err)
{
	(void)err;
	pf_vfs_refusal(node->tree, cred, out);
	return 0;
}

static const struct pf_kind error = { .name = "error",
				      .mode = S_IFREG | 0444,
				      .show_as = error_show };

const struct pf_kind kind_root = {
	.mode = S_IFDIR | 0755,
	.children =
		(const struct pf_kind *const[]){ &readme, &version, &pid, &kind_health,
						 &kind_restarts, &kind_last_death, &error,
						 &kind_control, &kind_metrics,
						 &kind_trace, NULL },
	.instead = "programs go to programs/, arrays to buffers/; run and call are in "
		   "executables/NAME/",
};

/* --- files to which lines are appended: events, plugins/NAME/log --------------------- */

/* bytes at most in one read, each of which allocates as many */
enum { AT_ONCE = 256 << 10 };

/* The log whose lines NODE shows; NULL: the events, of the user that opened the file. */
static struct pf_plugin_log *log_of(struct pf_node *node)
{
	return node->object ? pf_worker_plugin_log(node->object) : NULL;
}

static int lines_open(struct pf_open *of, struct pf_err *err)
{
	of->state = calloc(1, sizeof(struct pf_lines_reader));
	return of->state ? 0 : pf_err_set(err, -ENOMEM, "no memory");
}

static void lines_release(struct pf_open *of)
{
	pf_lines_reader_release(of->state);
	free(of->state);
}

static void lines_read(struct pf_open *of, size_t len, uint64_t off,
		       struct pf_reply *reply)
{
	struct pf_telemetry *telemetry = fs_of(of->node)->config.telemetry;
	struct pf_plugin_log *log = log_of(of->node);
	struct pf_lines_reader *reader = of->state;
	size_t max = len < AT_ONCE ? len : AT_ONCE;
	pf_autofree char *text = malloc(max + 1);

	/* It continues with the lines of this life, whatever it had read before. */
	if (of->reopened && !reader->next)
		reader->next = off;
	if (!text)
		pf_reply_code(reply, -ENOMEM);
	else if (log)
		pf_reply_data(reply, text,
			      pf_plugin_log_read(log, reader, off, text, max));
	else
		pf_reply_data(reply, text,
			      pf_events_read(telemetry, of->cred.uid, reader, off, text,
					     max));
}

static short lines_poll(struct pf_open *of)
{
	struct pf_plugin_log *log = log_of(of->node);
	bool ready = log ? pf_plugin_log_ready(log, of->state)
			 : pf_events_ready(fs_of(of->node)->config.telemetry,
					   of->cred.uid, of->state);

	return ready ? POLLIN : 0;
}

static void lines_getattr_as(struct pf_node *node, const struct pf_cred *cred,
			     struct pf_open *of, struct stat *st)
{
	struct pf_plugin_log *log = log_of(node);
	const struct pf_lines_reader *reader = of ? of->state : NULL;
	uid_t uid = of ? of->cred.uid : cred->uid;
	struct timespec last; /* when the last line was written; tv_sec 0: never */

	st->st_size = (off_t)(log ? pf_plugin_log_size(log, reader, &last)
				  : pf_events_size(fs_of(node)->config.telemetry, uid,
						   reader, &last));
	if (last.tv_sec)
		st->st_mtim = st->st_ctim = last;
}

#define LINES                                                                            \
	.open = lines_open, .release = lines_release, .read = lines_read,                \
	.poll = lines_poll, .getattr_as = lines_getattr_as

static const struct pf_kind kind_events = { .mode = S_IFREG | 0444, LINES };
const struct pf_kind kind_log = { .name = "log", .mode = S_IFREG | 0440, LINES };

/* The path and the owner of the node SUBJECT.  The telemetry has a reference on the node of
 * events, which keeps the tree. */
static bool name_of(void *arg, uint64_t subject, struct pf_buf *path, uid_t *ret_user)
{
	struct pf_tree *tree = ((struct pf_node *)arg)->tree;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = pf_tree_by_ino(tree, subject);
	struct pf_attr attr;

	if (!node)
		return false;
	pf_node_path(node, NULL, path);
	pf_node_attr(node, &attr);
	*ret_user = attr.uid;
	return path->len && !path->failed;
}

void files_ready(void *node)
{
	pf_node_ready(node);
}

static void let_go(void *arg)
{
	pf_node_unref(arg);
}

int files_add_events(struct pf_fs *fs)
{
	struct pf_telemetry_names names = { .name = name_of,
					    .added = files_ready,
					    .free = let_go };
	struct pf_node *node = NULL;
	int r = files_link(pf_tree_root(fs->tree), "events", &kind_events, NULL, &node);

	if (r < 0)
		return r;
	names.arg = node;
	pf_telemetry_attach(fs->config.telemetry, &names);
	return 0;
}
