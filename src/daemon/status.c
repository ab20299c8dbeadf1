/* SPDX-License-Identifier: Apache-2.0 */
/* --status: how a mount is, by its files alone. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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
	MAX_SHOWN = 8,   /* devices of a plugin */
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

static const char *bytes_text(uint64_t bytes, char dst[32])
{
	double n = (double)bytes;
	unsigned at = 0;

	for (; n >= 1024 && at < 4; at++)
		n /= 1024;
	snprintf(dst, 32, at ? "%.1f%c" : "%.0f%c", n, "BKMGT"[at]);
	return dst;
}

/* Append to OUT how many lines of QUEUE, DEVICE's, run, and wait; and to RUNS the first one that runs. */
static void print_queue(char *queue, const char *device, struct pf_buf *out,
			struct pf_buf *runs)
{
	unsigned running = 0, waiting = 0;
	char *save = NULL;

	for (char *line = strtok_r(queue, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char user[16], state[16], seconds[24], done[48];
		int name = 0;

		sscanf(line, "%15s %15s %23s %*s %47s %n", user, state, seconds, done,
		       &name);
		if (!name)
			continue;
		if (strcmp(state, "running") != 0)
			waiting++;
		else if (!running++)
			pf_buf_printf(runs, "runs    %s: %s, user %s, %s s, %s\n", device,
				      line + name, user, seconds, done);
	}
	pf_buf_printf(out, ", running %u, waiting %u", running, waiting);
}

static void print_devices(int dir, const char *plugin, struct json_object *alive,
			  struct pf_buf *out, struct pf_buf *runs)
{
	struct json_object *devices = NULL, *counts;
	unsigned n = 0;

	json_object_object_get_ex(alive, "devices", &devices);
	if (!devices)
		return;
	json_object_object_foreach(devices, name, value) {
		pf_autobuf struct pf_buf kind = PF_BUF_INIT, queue = PF_BUF_INIT;
		const char *number = strrchr(name, ':');

		if (n++ >= MAX_SHOWN || !number)
			continue;
		take(dir, &kind, "devices/%s/%s/kind", plugin, number + 1);
		pf_buf_printf(out, "device  %s: %s", name, kind.data ? kind.data : "");
		json_object_object_get_ex(value, "buffers", &counts);
		pf_buf_printf(out, ", arrays %d", json_object_get_int(counts));
		json_object_object_get_ex(value, "executables", &counts);
		pf_buf_printf(out, ", programs %d", json_object_get_int(counts));
		if (take(dir, &queue, "devices/%s/%s/queue", plugin, number + 1) == 0)
			print_queue(queue.data, name, out, runs);
		pf_buf_puts(out, "\n");
	}
	if (n > MAX_SHOWN)
		pf_buf_printf(out, "device  and %u more\n", n - MAX_SHOWN);
}

static void print_plugin(int dir, const char *name, struct pf_buf *out,
			 struct pf_buf *runs)
{
	static const char *const fields[] = { "state", "error", "restarts", "pid",
					      "alive.json" };
	enum { STATE, ERROR, RESTARTS, PID, ALIVE, FIELDS };
	struct pf_buf at[FIELDS] = { PF_BUF_INIT };
	struct json_object *alive = NULL;

	for (unsigned i = 0; i < FIELDS; i++)
		take(dir, &at[i], "plugins/%s/%s", name, fields[i]);
	pf_buf_printf(out, "plugin  %s: %s", name, at[STATE].data);
	if (at[PID].len)
		pf_buf_printf(out, ", process %s, restarts %s", at[PID].data,
			      at[RESTARTS].data);
	if (at[ERROR].len)
		pf_buf_printf(out, ", %.*s", (int)strcspn(at[ERROR].data, "\n"),
			      at[ERROR].data);
	pf_buf_puts(out, "\n");
	if (at[ALIVE].len &&
	    pf_json_parse(at[ALIVE].data, at[ALIVE].len, &alive, NULL) == 0)
		print_devices(dir, name, alive, out, runs);
	json_object_put(alive);
	for (unsigned i = 0; i < FIELDS; i++)
		pf_buf_release(&at[i]);
}

static void print_plugins(int dir, struct pf_buf *out)
{
	pf_autobuf struct pf_buf runs = PF_BUF_INIT;
	struct dirent **names = NULL;
	int n = names_in(dir, "plugins", &names);

	for (int i = 0; i < n; i++)
		if (strcmp(names[i]->d_name, "available.json") != 0)
			print_plugin(dir, names[i]->d_name, out, &runs);
	names_free(names, n);
	if (runs.len)
		pf_buf_puts(out, runs.data);
}

static void print_jobs(int dir, struct pf_buf *out)
{
	struct dirent **names = NULL;
	int n = names_in(dir, "jobs", &names);
	unsigned running = 0, queued = 0, ended = 0;

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
	pf_buf_printf(out, "jobs    %u running, %u queued, %u ended%s\n", running, queued,
		      ended, n > MAX_JOBS ? ", of the last 2000" : "");
}

static void print_deaths(int dir, struct pf_buf *out)
{
	pf_autobuf struct pf_buf restarts = PF_BUF_INIT, last = PF_BUF_INIT;

	if (take(dir, &last, "last_death") < 0 || take(dir, &restarts, "restarts") < 0 ||
	    !last.len)
		return;
	pf_buf_printf(out, "daemon  restarts %s, last death %s\n", restarts.data,
		      last.data);
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

/* Print the status of the mount M.  The exit status. */
static int look(const char *m)
{
	pf_autobuf struct pf_buf out = PF_BUF_INIT, version = PF_BUF_INIT,
				 pid = PF_BUF_INIT, health = PF_BUF_INIT;
	pf_autoclose int dir = open(m, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statvfs fs = { 0 };
	char used[32], limit[32];
	int r = dir < 0 ? -errno : take(dir, &version, "version");

	if (r == 0)
		r = take(dir, &pid, "pid");
	if (r == 0)
		r = take(dir, &health, "health");
	if (r == 0 && fstatvfs(dir, &fs))
		r = -errno;
	if (r == -ENOTCONN)
		pf_log(PF_LOG_ERROR, "%s: its daemon has ended", m);
	else if (r == -ENOENT && dir >= 0)
		pf_log(PF_LOG_ERROR, "%s: expected a pjrtfs mount, found no file %s", m,
		       !version.len ? "version"
		       : !pid.len   ? "pid"
				    : "health");
	else if (r < 0)
		pf_log(PF_LOG_ERROR, "%s: %s", m, strerror(-r));
	if (r < 0)
		return NO_ANSWER;
	pf_buf_printf(&out, "%s: pjrtfs %s, process %s\n", m, version.data, pid.data);
	print_health(health.data, &out);
	print_deaths(dir, &out);
	pf_buf_printf(&out, "memory  %s of %s\n",
		      bytes_text((fs.f_blocks - fs.f_bfree) * fs.f_frsize, used),
		      bytes_text(fs.f_blocks * fs.f_frsize, limit));
	print_plugins(dir, &out);
	print_jobs(dir, &out);
	if (out.failed || fwrite(out.data, 1, out.len, stdout) != out.len ||
	    fflush(stdout)) {
		pf_log(PF_LOG_ERROR, "standard output cannot be written to");
		return NO_ANSWER;
	}
	return strcmp(health.data, "ok") != 0 ? DEGRADED : ALL_OK;
}

/* --- the time limit ------------------------------------------------------------------------- */

int status_show(const char *mountpoint, unsigned timeout_s)
{
	unsigned limit_s = timeout_s ? timeout_s : STATUS_S;
	int fds[2], status;
	pid_t pid = pipe2(fds, O_CLOEXEC) ? -1 : fork();
	struct pollfd ends;

	if (pid < 0) {
		pf_log(PF_LOG_ERROR, "no process to look at %s: %s", mountpoint,
		       strerror(errno));
		return NO_ANSWER;
	}
	if (pid == 0) {
		/* Its own copy: the pipe ends with this process. */
		close(fds[0]);
		_exit(look(mountpoint));
	}
	close(fds[1]);
	ends = (struct pollfd){ .fd = fds[0], .events = POLLIN };
	if (poll(&ends, 1, (int)limit_s * 1000) == 0) {
		/* It may outlive SIGKILL in a request that the daemon has read: nobody
		 * waits for it. */
		kill(pid, SIGKILL);
		pf_log(PF_LOG_ERROR, "%s: pjrtfs does not answer within %u s", mountpoint,
		       limit_s);
		return NO_ANSWER;
	}
	close(fds[0]);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return NO_ANSWER;
	return WEXITSTATUS(status);
}
