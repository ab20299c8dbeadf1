/* SPDX-License-Identifier: Apache-2.0 */
/* --status: how a mount is, by its files alone, as text and as JSON. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"

enum {
	STATUS_S = 5,
	MAX_SHOWN = 8,   /* devices of a plugin, or all that work */
	MAX_JOBS = 2000, /* whose states are read: some 0.2 ms each */
};
enum { ALL_OK, DEGRADED, NO_ANSWER };

/* --- the mount's files; all this is in a process that may block for ever -------------------- */

/* Append the text of the file that the words of FMT name in DIR, without its last newline.  -errno, and
 * "" is appended. */
__attribute__((__format__(__printf__, 3, 4))) static int take(int dir, struct pf_buf *out,
							      const char *fmt, ...)
{
	pf_autoclose int fd = -1;
	char path[PATH_MAX];
	va_list words;
	int r;

	va_start(words, fmt);
	vsnprintf(path, sizeof(path), fmt, words);
	va_end(words);
	fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	r = fd < 0 ? -errno : pf_read_all(fd, SIZE_MAX, out);
	while (out->len && out->data[out->len - 1] == '\n')
		out->len--;
	pf_buf_append(out, "", 0);
	return r;
}

/* The names in PATH of DIR as scandir(3) has them; 0 if it cannot be read. */
static int names_in(int dir, const char *path, struct dirent ***ret)
{
	int n = scandirat(dir, path, ret, NULL, versionsort), kept = 0;

	for (int i = 0; i < n; i++)
		if (*(*ret)[i]->d_name == '.')
			free((*ret)[i]);
		else
			(*ret)[kept++] = (*ret)[i];
	return kept;
}

static void names_free(struct dirent **names, int n)
{
	while (n > 0)
		free(names[--n]);
	free(names);
}

/* Add to O, a device, how many lines of its QUEUE run, and wait, and the first one that runs. */
static void add_queue(struct json_object *o, char *queue)
{
	int64_t running = 0, waiting = 0;
	char *save = NULL;

	for (char *line = strtok_r(queue, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char state[16];
		struct json_object *runs;
		int64_t done, of;
		unsigned user;
		double seconds;
		int name = 0;

		sscanf(line, "%u %15s %lf %*s %" SCNd64 "/%" SCNd64 " %n", &user, state,
		       &seconds, &done, &of, &name);
		if (!name)
			continue;
		if (strcmp(state, "running") != 0) {
			waiting++;
			continue;
		}
		if (running++)
			continue;
		runs = json_object_new_object();
		if (strcmp(line + name, "-") != 0)
			pf_json_add_string(runs, "executable", line + name);
		pf_json_add_int(runs, "user", user);
		pf_json_add_seconds(runs, "seconds", seconds);
		pf_json_add_int(runs, "done", done);
		pf_json_add_int(runs, "of", of);
		pf_json_add(o, "runs", runs);
	}
	pf_json_add_int(o, "running", running);
	pf_json_add_int(o, "waiting", waiting);
}

/* The devices of a plugin, which its file alive.json, ALIVE, names. */
static struct json_object *read_devices(int dir, const char *plugin,
					struct json_object *alive)
{
	struct json_object *list = json_object_new_array();
	struct json_object *devices = pf_json_get(alive, "devices", json_type_object);

	if (!devices)
		return list;
	json_object_object_foreach(devices, name, counts) {
		pf_autobuf struct pf_buf kind = PF_BUF_INIT, queue = PF_BUF_INIT;
		const char *number = strrchr(name, ':');
		struct json_object *o;

		if (!number)
			continue;
		o = json_object_new_object();
		take(dir, &kind, "devices/%s/%s/kind", plugin, number + 1);
		pf_json_add_string(o, "device", name);
		pf_json_add_string(o, "kind", kind.data);
		pf_json_add_copy(o, "buffers", json_object_object_get(counts, "buffers"));
		pf_json_add_copy(o, "programs",
				 json_object_object_get(counts, "executables"));
		if (take(dir, &queue, "devices/%s/%s/queue", plugin, number + 1) == 0)
			add_queue(o, queue.data);
		pf_json_append(list, o);
	}
	return list;
}

static struct json_object *read_plugin(int dir, const char *name)
{
	static const char *const fields[] = { "state", "error", "restarts", "pid",
					      "alive.json" };
	enum { STATE, ERROR, RESTARTS, PID, ALIVE, FIELDS };
	struct pf_buf at[FIELDS] = { PF_BUF_INIT };
	struct json_object *o = json_object_new_object(), *alive = NULL;

	for (unsigned i = 0; i < FIELDS; i++)
		take(dir, &at[i], "plugins/%s/%s", name, fields[i]);
	pf_json_add_string(o, "plugin", name);
	pf_json_add_string(o, "state", at[STATE].data);
	if (at[PID].len)
		pf_json_add_int(o, "pid", strtoll(at[PID].data, NULL, 10));
	pf_json_add_int(o, "restarts", strtoll(at[RESTARTS].data, NULL, 10));
	if (at[ERROR].len)
		pf_json_add_string(o, "error", at[ERROR].data);
	if (at[ALIVE].len)
		pf_json_parse(at[ALIVE].data, at[ALIVE].len, &alive, NULL);
	pf_json_add(o, "devices", read_devices(dir, name, alive));
	json_object_put(alive);
	for (unsigned i = 0; i < FIELDS; i++)
		pf_buf_release(&at[i]);
	return o;
}

static struct json_object *read_plugins(int dir)
{
	struct json_object *list = json_object_new_array();
	struct dirent **names = NULL;
	int n = names_in(dir, "plugins", &names);

	for (int i = 0; i < n; i++)
		if (strcmp(names[i]->d_name, "available.json") != 0)
			pf_json_append(list, read_plugin(dir, names[i]->d_name));
	names_free(names, n);
	return list;
}

static struct json_object *read_jobs(int dir)
{
	struct json_object *o = json_object_new_object();
	struct dirent **names = NULL;
	int n = names_in(dir, "jobs", &names);
	int64_t running = 0, queued = 0, ended = 0;

	for (int i = n > MAX_JOBS ? n - MAX_JOBS : 0; i < n; i++) {
		pf_autobuf struct pf_buf state = PF_BUF_INIT;

		/* A job may be dropped meanwhile. */
		if (take(dir, &state, "jobs/%s/state", names[i]->d_name) < 0)
			continue;
		if (!strcmp(state.data, "running"))
			running++;
		else if (!strcmp(state.data, "queued"))
			queued++;
		else
			ended++;
	}
	names_free(names, n);
	pf_json_add_int(o, "running", running);
	pf_json_add_int(o, "queued", queued);
	pf_json_add_int(o, "ended", ended);
	if (n > MAX_JOBS)
		pf_json_add_int(o, "of_last", MAX_JOBS);
	return o;
}

static void add_deaths(struct json_object *o, int dir)
{
	pf_autobuf struct pf_buf restarts = PF_BUF_INIT, last = PF_BUF_INIT;

	if (take(dir, &restarts, "restarts") == 0)
		pf_json_add_int(o, "restarts", strtoll(restarts.data, NULL, 10));
	if (take(dir, &last, "last_death") == 0 && last.len)
		pf_json_add_string(o, "last_death", last.data);
}

/* Read what the files of the mount M say into *RET, the caller's.  -errno, with a sentence. */
static int read_mount(const char *m, struct json_object **ret, struct pf_err *err)
{
	pf_autobuf struct pf_buf version = PF_BUF_INIT, pid = PF_BUF_INIT,
				 health = PF_BUF_INIT;
	pf_autoclose int dir = open(m, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statvfs fs = { 0 };
	struct json_object *o;
	int r = dir < 0 ? -errno : take(dir, &version, "version");

	if (r == 0)
		r = take(dir, &pid, "pid");
	if (r == 0)
		r = take(dir, &health, "health");
	if (r == 0 && fstatvfs(dir, &fs))
		r = -errno;
	if (r == -ENOTCONN)
		return pf_err_set(err, r, "%s: its daemon has ended", m);
	if (r == -ENOENT && dir >= 0)
		return pf_err_set(err, r,
				  "%s: expected a pjrtfs mount, found no file %s; "
				  "\"findmnt -t fuse.pjrtfs\" lists the mounts",
				  m,
				  !version.len ? "version"
				  : !pid.len   ? "pid"
					       : "health");
	if (r < 0)
		return pf_err_set(err, r, "%s: %s", m, strerror(-r));
	*ret = o = json_object_new_object();
	pf_json_add_string(o, "mount", m);
	pf_json_add_string(o, "version", version.data);
	pf_json_add_int(o, "pid", strtoll(pid.data, NULL, 10));
	pf_json_add_string(o, "health", health.data);
	add_deaths(o, dir);
	pf_json_add_int(o, "memory_used",
			(int64_t)((fs.f_blocks - fs.f_bfree) * fs.f_frsize));
	pf_json_add_int(o, "memory_limit", (int64_t)(fs.f_blocks * fs.f_frsize));
	pf_json_add(o, "plugins", read_plugins(dir));
	pf_json_add(o, "jobs", read_jobs(dir));
	return 0;
}

/* --- as text -------------------------------------------------------------------------------- */

static int64_t number(struct json_object *o, const char *key)
{
	return json_object_get_int64(json_object_object_get(o, key));
}

static const char *bytes_text(int64_t bytes, char dst[32])
{
	double n = (double)bytes;
	unsigned at = 0;

	for (; n >= 1024 && at < 4; at++)
		n /= 1024;
	snprintf(dst, 32, at ? "%.1f%c" : "%.0f%c", n, "BKMGT"[at]);
	return dst;
}

static void print_device(struct json_object *o, struct pf_buf *out)
{
	pf_buf_printf(out, "device  %s: %s, arrays %" PRId64 ", programs %" PRId64,
		      pf_json_get_string(o, "device"), pf_json_get_string(o, "kind"),
		      number(o, "buffers"), number(o, "programs"));
	if (json_object_object_get(o, "running"))
		pf_buf_printf(out, ", running %" PRId64 ", waiting %" PRId64,
			      number(o, "running"), number(o, "waiting"));
	pf_buf_puts(out, "\n");
}

static void print_runs(struct json_object *device, struct pf_buf *out)
{
	struct json_object *runs = pf_json_get(device, "runs", json_type_object);
	double seconds = json_object_get_double(json_object_object_get(runs, "seconds"));
	const char *executable = pf_json_get_string(runs, "executable");
	char user[PF_USER_NAME];

	if (runs)
		pf_buf_printf(out,
			      "runs    %s: %s, user %s, %.3f s, %" PRId64 "/%" PRId64
			      "\n",
			      pf_json_get_string(device, "device"),
			      *executable ? executable : "-",
			      pf_user_name((unsigned)number(runs, "user"), user), seconds,
			      number(runs, "done"), number(runs, "of"));
}

static bool works(struct json_object *device)
{
	return number(device, "running") || number(device, "waiting");
}

/* Print all devices that work, and before MAX_SHOWN are printed, others. */
static void print_devices(struct json_object *devices, struct pf_buf *out,
			  struct pf_buf *runs)
{
	size_t n = json_object_array_length(devices), shown = 0;

	for (size_t i = 0; i < n; i++) {
		struct json_object *device = json_object_array_get_idx(devices, i);

		if (!works(device))
			continue;
		print_device(device, out);
		print_runs(device, runs);
		shown++;
	}
	for (size_t i = 0; i < n && shown < MAX_SHOWN; i++) {
		struct json_object *device = json_object_array_get_idx(devices, i);

		if (works(device))
			continue;
		print_device(device, out);
		shown++;
	}
	if (shown < n)
		pf_buf_printf(out, "device  and %zu more, idle\n", n - shown);
}

static void print_plugin(struct json_object *o, struct pf_buf *out, struct pf_buf *runs)
{
	const char *error = pf_json_get_string(o, "error");

	pf_buf_printf(out, "plugin  %s: %s", pf_json_get_string(o, "plugin"),
		      pf_json_get_string(o, "state"));
	if (json_object_object_get(o, "pid"))
		pf_buf_printf(out, ", process %" PRId64 ", restarts %" PRId64,
			      number(o, "pid"), number(o, "restarts"));
	if (*error)
		pf_buf_printf(out, ", %.*s", (int)strcspn(error, "\n"), error);
	pf_buf_puts(out, "\n");
	print_devices(json_object_object_get(o, "devices"), out, runs);
}

/* A line for each trouble. */
static void print_health(const char *text, struct pf_buf *out)
{
	size_t len;

	for (;; text += len + 1) {
		len = strcspn(text, "\n");
		pf_buf_printf(out, "health  %.*s\n", (int)len, text);
		if (!text[len])
			return;
	}
}

static void print_text(struct json_object *o, struct pf_buf *out)
{
	struct json_object *plugins = json_object_object_get(o, "plugins"),
			   *jobs = json_object_object_get(o, "jobs");
	const char *death = pf_json_get_string(o, "last_death");
	pf_autobuf struct pf_buf runs = PF_BUF_INIT;
	char used[32], limit[32];

	pf_buf_printf(out, "%s: pjrtfs %s, process %" PRId64 "\n",
		      pf_json_get_string(o, "mount"), pf_json_get_string(o, "version"),
		      number(o, "pid"));
	print_health(pf_json_get_string(o, "health"), out);
	if (*death)
		pf_buf_printf(out, "daemon  restarts %" PRId64 ", last death %s\n",
			      number(o, "restarts"), death);
	pf_buf_printf(out, "memory  %s of %s\n",
		      bytes_text(number(o, "memory_used"), used),
		      bytes_text(number(o, "memory_limit"), limit));
	for (size_t i = 0; i < json_object_array_length(plugins); i++)
		print_plugin(json_object_array_get_idx(plugins, i), out, &runs);
	if (runs.len)
		pf_buf_puts(out, runs.data);
	pf_buf_printf(out,
		      "jobs    %" PRId64 " running, %" PRId64 " queued, %" PRId64
		      " ended",
		      number(jobs, "running"), number(jobs, "queued"),
		      number(jobs, "ended"));
	if (json_object_object_get(jobs, "of_last"))
		pf_buf_printf(out, ", of the last %" PRId64, number(jobs, "of_last"));
	pf_buf_puts(out, "\n");
}

/* --- the answer ----------------------------------------------------------------------------- */

static int print(const struct pf_buf *out, int status)
{
	if (!out->failed && fwrite(out->data, 1, out->len, stdout) == out->len &&
	    fflush(stdout) == 0)
		return status;
	pf_log(PF_LOG_ERROR, "standard output cannot be written to");
	return NO_ANSWER;
}

/* The mount M has not answered, because of ERR.  The exit status. */
static int no_answer(const char *m, bool json, const struct pf_err *err)
{
	pf_autobuf struct pf_buf out = PF_BUF_INIT;
	struct json_object *o;

	pf_log(PF_LOG_ERROR, "%s", err->text);
	if (!json)
		return NO_ANSWER;
	o = json_object_new_object();
	pf_json_add_string(o, "mount", m);
	pf_json_add_string(o, "error", err->text);
	pf_json_print_line(o, &out);
	json_object_put(o);
	return print(&out, NO_ANSWER);
}

/* Print the status of the mount M.  The exit status. */
static int look(const char *m, bool json)
{
	pf_autobuf struct pf_buf out = PF_BUF_INIT;
	struct json_object *o = NULL;
	struct pf_err err = PF_ERR_INIT;
	bool ok;

	if (read_mount(m, &o, &err) < 0)
		return no_answer(m, json, &err);
	ok = strcmp(pf_json_get_string(o, "health"), "ok") == 0;
	if (json)
		pf_json_print_line(o, &out);
	else if (pf_json_complete(o))
		print_text(o, &out);
	else
		out.failed = true;
	json_object_put(o);
	return print(&out, ok ? ALL_OK : DEGRADED);
}

/* --- the time limit ------------------------------------------------------------------------- */

int status_show(const char *mountpoint, unsigned timeout_s, bool json)
{
	unsigned limit_s = timeout_s ? timeout_s : STATUS_S;
	struct pf_err err = PF_ERR_INIT;
	int fds[2], status;
	pid_t pid = pipe2(fds, O_CLOEXEC) ? -1 : fork();
	struct pollfd ends;

	if (pid < 0) {
		pf_err_set(&err, -errno, "no process to look at %s: %s", mountpoint,
			   strerror(errno));
		return no_answer(mountpoint, json, &err);
	}
	if (pid == 0) {
		/* Its own copy: the pipe ends with this process. */
		close(fds[0]);
		_exit(look(mountpoint, json));
	}
	close(fds[1]);
	ends = (struct pollfd){ .fd = fds[0], .events = POLLIN };
	if (poll(&ends, 1, (int)limit_s * 1000) == 0) {
		/* It may outlive SIGKILL in a request that the daemon has read: nobody
		 * waits for it. */
		kill(pid, SIGKILL);
		pf_err_set(&err, -ETIMEDOUT, "%s: pjrtfs does not answer within %u s",
			   mountpoint, limit_s);
		return no_answer(mountpoint, json, &err);
	}
	close(fds[0]);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return NO_ANSWER;
	return WEXITSTATUS(status);
}
