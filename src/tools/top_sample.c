/* SPDX-License-Identifier: Apache-2.0 */
/* A sample: what the files of a mount say now. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "top.h"

enum { MAX_QUEUE = 10000 /* lines of all queues */ };

/* Plugins' and users' words move no cursor of a terminal. */
static void clean(char *text)
{
	text[pf_err_clean(text, strlen(text))] = '\0';
}

/* Read the first line of a file into TO; "" if it cannot be read. */
static void read_line(char *to, size_t size, const char *mount, const char *path)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;

	*to = '\0';
	if (tool_read(&text, NULL, mount, "%s", path) == 0)
		snprintf(to, size, "%.*s", (int)strcspn(text.data, "\n"), text.data);
	clean(to);
}

static double read_number(const char *mount, const char *path)
{
	char text[64];

	read_line(text, sizeof(text), mount, path);
	return strtod(text, NULL);
}

/* --- directories ------------------------------------------------------------------------- */

static int no_dots(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* Call EACH with the path below the mount, and the name, of what is in the directory DIR. */
static void each_name(struct sample *s, const char *mount, const char *dir,
		      void (*each)(struct sample *s, const char *mount, const char *path,
				   const char *name))
{
	struct dirent **names;
	char path[PATH_MAX];
	int n;

	if (snprintf(path, sizeof(path), "%s/%s", mount, dir) >= (int)sizeof(path))
		return;
	n = scandir(path, &names, no_dots, versionsort);
	for (int i = 0; i < n; i++) {
		if (snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name) <
		    (int)sizeof(path))
			each(s, mount, path, names[i]->d_name);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
}

/* PATH/NAME, in BUF. */
static const char *below(char buf[PATH_MAX], const char *path, const char *name)
{
	snprintf(buf, PATH_MAX, "%.*s/%s", PATH_MAX - 300, path, name);
	return buf;
}

/* Add the lines of the queue in PATH, the directory of WHERE; D counts them, if it is one. */
static void add_queue(struct sample *s, const char *mount, const char *path,
		      const char *where, struct device *d)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	char *lines, *line;

	if (tool_read(&text, NULL, mount, "%s/queue", path) < 0)
		return;
	lines = text.data;
	while ((line = strsep(&lines, "\n"))) {
		struct entry e = { 0 };

		if (sscanf(line, "%u %15s %lf %ld %47s %255[^\n]", &e.user, e.state,
			   &e.seconds, &e.position, e.progress, e.executable) != 6)
			continue;
		snprintf(e.where, sizeof(e.where), "%s", where);
		if (d && !strcmp(e.state, "running"))
			d->running++;
		else if (d)
			d->waiting++;
		if (s->n_queue < MAX_QUEUE)
			*(struct entry *)tool_append(&s->queue, &s->n_queue, sizeof(e)) =
				e;
	}
}

static void add_plugin(struct sample *s, const char *mount, const char *path,
		       const char *name)
{
	struct plugin *p;
	char buf[PATH_MAX];

	if (!strcmp(name, "available.json"))
		return;
	p = tool_append(&s->plugins, &s->n_plugins, sizeof(*p));
	snprintf(p->name, sizeof(p->name), "%s", name);
	read_line(p->state, sizeof(p->state), mount, below(buf, path, "state"));
	read_line(p->pid, sizeof(p->pid), mount, below(buf, path, "pid"));
	p->restarts = (long)read_number(mount, below(buf, path, "restarts"));
	add_queue(s, mount, path, name, NULL);
}

static void add_device(struct sample *s, const char *mount, const char *path,
		       const char *name)
{
	struct device *d = tool_append(&s->devices, &s->n_devices, sizeof(*d));
	const char *plugin = strchr(path, '/') + 1;
	char buf[PATH_MAX];

	snprintf(d->name, sizeof(d->name), "%.*s:%s", (int)strcspn(plugin, "/"), plugin,
		 name);
	read_line(d->kind, sizeof(d->kind), mount, below(buf, path, "kind"));
	add_queue(s, mount, path, d->name, d);
}

static void add_devices(struct sample *s, const char *mount, const char *path,
			const char *name)
{
	(void)name;
	each_name(s, mount, path, add_device);
}

static void add_user(struct sample *s, const char *mount, const char *path,
		     const char *name)
{
	struct user *u;
	char buf[PATH_MAX], device[128];

	/* Other users' accounts can be seen, but not read. */
	snprintf(buf, sizeof(buf), "%s/%s/memory.current", mount, path);
	if (access(buf, R_OK) < 0)
		return;
	u = tool_append(&s->users, &s->n_users, sizeof(*u));
	u->id = (unsigned)strtoul(name, NULL, 10);
	u->memory = read_number(mount, below(buf, path, "memory.current"));
	u->executions = read_number(mount, below(buf, path, "executions.current"));
	u->jobs = read_number(mount, below(buf, path, "jobs.current"));
	u->buffers = read_number(mount, below(buf, path, "buffers.current"));
	u->programs = read_number(mount, below(buf, path, "programs.current"));
	for (unsigned i = 0; i < s->n_devices; i++) {
		snprintf(device, sizeof(device), "%s/memory.current", s->devices[i].name);
		s->devices[i].memory += read_number(mount, below(buf, path, device));
	}
}

/* "execute add" of a request. */
static void describe(char *to, size_t size, const char *mount, const char *path)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct json_object *o = NULL;
	const char *name = "";

	snprintf(to, size, "-");
	if (tool_read(&text, NULL, mount, "%s/request.json", path) == 0 &&
	    pf_json_parse(text.data, text.len, &o, NULL) == 0) {
		static const char *const keys[] = { "executable", "program", "buffer",
						    "job" };

		for (size_t i = 0; !*name && i < PF_ARRAY_SIZE(keys); i++)
			name = pf_json_get_string(o, keys[i]);
		snprintf(to, size, "%s%s%s", pf_json_get_string(o, "op"),
			 *name ? " " : "", name);
	}
	json_object_put(o);
	clean(to);
}

static void add_job(struct sample *s, const char *mount, const char *path,
		    const char *name)
{
	struct job j = { .number = strtoul(name, NULL, 10) };
	char buf[PATH_MAX], file[PATH_MAX];
	struct stat st;

	read_line(j.state, sizeof(j.state), mount, below(buf, path, "state"));
	if (strcmp(j.state, "queued") != 0 && strcmp(j.state, "running") != 0)
		return;
	if (snprintf(file, sizeof(file), "%s/%s", mount, path) < (int)sizeof(file) &&
	    stat(file, &st) == 0)
		j.user = st.st_uid;
	describe(j.command, sizeof(j.command), mount, path);
	*(struct job *)tool_append(&s->jobs, &s->n_jobs, sizeof(j)) = j;
}

int sample_take(const char *mount, struct sample **ret, struct pf_err *err)
{
	pf_autobuf struct pf_buf metrics = PF_BUF_INIT, health = PF_BUF_INIT;
	struct sample *s;
	int r = tool_check_mount(mount, err);

	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	if (!s)
		return pf_err_set(err, -ENOMEM, "no memory");
	s->ns = pf_now_ns();
	read_line(s->version, sizeof(s->version), mount, "version");
	each_name(s, mount, "plugins", add_plugin);
	each_name(s, mount, "devices", add_devices);
	each_name(s, mount, "users", add_user);
	each_name(s, mount, "jobs", add_job);
	if (tool_read(&metrics, NULL, mount, "metrics.prom") == 0 && metrics.data)
		sample_add_metrics(s, metrics.data);
	/* Last: a mount that died meanwhile does not answer this one either. */
	r = tool_read(&health, err, mount, "health");
	if (r < 0) {
		sample_free(s);
		return r;
	}
	snprintf(s->health, sizeof(s->health), "%.*s", (int)strcspn(health.data, "\n"),
		 health.data);
	clean(s->health);
	*ret = s;
	return 0;
}

void sample_free(struct sample *s)
{
	if (!s)
		return;
	free(s->plugins);
	free(s->devices);
	free(s->queue);
	free(s->users);
	free(s->jobs);
	free(s->executables);
	free(s);
}
