/* SPDX-License-Identifier: Apache-2.0 */
/* Samples as text and as JSON. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>

#include "top.h"

const char *const sort_names[SORTS] = { "busy", "runs", "mean", "name" };

/* An executable's rates between two samples. */
struct hot {
	const struct executable *executable;
	double runs, failed, busy; /* per second */
	double mean;               /* seconds of an execution */
};

/* A device's rates between two samples, per second. */
struct rates {
	double runs, busy, uploaded, downloaded;
};

/* A counter that is less than before began anew, with its daemon. */
static double rate(double now, double before, double seconds)
{
	return seconds > 0 && now >= before ? (now - before) / seconds : 0;
}

static double seconds_between(const struct sample *now, const struct sample *before)
{
	return before ? (double)(now->ns - before->ns) / 1e9 : 0;
}

static struct rates rates_of(const struct device *d, const struct sample *before,
			     double seconds)
{
	for (unsigned i = 0; before && i < before->n_devices; i++) {
		const struct device *old = &before->devices[i];

		if (!strcmp(old->name, d->name))
			return (struct rates){ rate(d->runs, old->runs, seconds),
					       rate(d->busy, old->busy, seconds),
					       rate(d->uploaded, old->uploaded, seconds),
					       rate(d->downloaded, old->downloaded,
						    seconds) };
	}
	return (struct rates){ 0 };
}

static int compare_hot(const void *a, const void *b, void *arg)
{
	const struct hot *x = a, *y = b;
	const enum sort *sort = arg;
	double p = *sort == SORT_RUNS ? x->runs : *sort == SORT_MEAN ? x->mean : x->busy;
	double q = *sort == SORT_RUNS ? y->runs : *sort == SORT_MEAN ? y->mean : y->busy;

	if (*sort != SORT_NAME && p != q)
		return p < q ? 1 : -1;
	return strcmp(x->executable->name, y->executable->name);
}

/* The executables, sorted; the caller frees them. */
static struct hot *make_hot(const struct sample *now, const struct sample *before,
			    enum sort sort)
{
	double seconds = seconds_between(now, before);
	struct hot *list = NULL;
	unsigned n = 0;

	for (unsigned i = 0; i < now->n_executables; i++) {
		const struct executable *e = &now->executables[i];
		struct executable old = { .runs = 0 };
		struct hot *h = tool_append(&list, &n, sizeof(*h));

		for (unsigned k = 0; before && k < before->n_executables; k++)
			if (!strcmp(before->executables[k].name, e->name))
				old = before->executables[k];
		h->executable = e;
		h->runs = rate(e->runs, old.runs, seconds);
		h->failed = rate(e->failed, old.failed, seconds);
		h->busy = rate(e->seconds, old.seconds, seconds);
		h->mean = h->runs > 0   ? h->busy / h->runs
			  : e->runs > 0 ? e->seconds / e->runs
					: 0;
	}
	if (n)
		qsort_r(list, n, sizeof(*list), compare_hot, &sort);
	return list;
}

/* --- text -------------------------------------------------------------------------------- */

static void put(struct page *page, enum style style, const char *fmt, ...)
	__attribute__((__format__(__printf__, 3, 4)));

static void put(struct page *page, enum style style, const char *fmt, ...)
{
	struct line *line = tool_append(&page->lines, &page->n, sizeof(*line));
	va_list words;

	line->style = style;
	va_start(words, fmt);
	vsnprintf(line->text, sizeof(line->text), fmt, words);
	va_end(words);
}

/* The rows of a table that are shown: from FROM to before TO, of N. */
struct rows {
	unsigned from, to, n;
};

static struct rows rows_shown(const struct view *view, enum table table, unsigned n)
{
	unsigned most = view->rows[table], from = view->from[table];

	if (!most || most >= n)
		return (struct rows){ 0, n, n };
	from = MIN(from, n - most);
	return (struct rows){ from, from + most, n };
}

/* Say how many rows are not shown. */
static void put_rest(struct page *page, struct rows rows)
{
	unsigned below = rows.n - rows.to;

	if (rows.from && below)
		put(page, PLAIN, "... and %u above, %u below", rows.from, below);
	else if (rows.from)
		put(page, PLAIN, "... and %u above", rows.from);
	else if (below)
		put(page, PLAIN, "... and %u more", below);
}

static enum style heading(const struct view *view, enum table table)
{
	return view->active == table ? ACTIVE : HEADING;
}

unsigned page_rows(const struct sample *now, enum table table)
{
	const unsigned rows[TABLES] = { [DEVICES] = now->n_devices,
					[USERS] = now->n_users,
					[QUEUE] = now->n_queue,
					[JOBS] = now->n_jobs,
					[EXECUTABLES] = now->n_executables };

	return rows[table];
}

/* "1.5G", in BUF. */
static const char *size(char buf[16], double bytes)
{
	const char *unit = "BKMGTPE";

	while (bytes >= 1024 && unit[1]) {
		bytes /= 1024;
		unit++;
	}
	snprintf(buf, 16, *unit == 'B' ? "%.0f" : "%.1f%c", bytes, *unit);
	return buf;
}

/* A device with its rates. */
struct rated {
	const struct device *device;
	struct rates rates;
};

static bool works(const struct rated *r)
{
	return r->device->running || r->device->waiting || r->rates.runs > 0 ||
	       r->rates.busy > 0;
}

/* Those that work first, else in the order of the sample. */
static int compare_rated(const void *a, const void *b)
{
	const struct rated *x = a, *y = b;

	if (works(x) != works(y))
		return works(x) ? -1 : 1;
	return x->device < y->device ? -1 : x->device > y->device;
}

/* The devices, sorted; the caller frees them. */
static struct rated *make_rated(const struct sample *now, const struct sample *before)
{
	double seconds = seconds_between(now, before);
	struct rated *list = NULL;
	unsigned n = 0;

	for (unsigned i = 0; i < now->n_devices; i++) {
		struct rated *r = tool_append(&list, &n, sizeof(*r));

		r->device = &now->devices[i];
		r->rates = rates_of(r->device, before, seconds);
	}
	if (n)
		qsort(list, n, sizeof(*list), compare_rated);
	return list;
}

static void put_devices(struct page *page, const struct sample *now,
			const struct sample *before, const struct view *view)
{
	struct rows rows = rows_shown(view, DEVICES, now->n_devices);
	pf_autofree struct rated *list = make_rated(now, before);
	char up[16], down[16], memory[16];

	put(page, heading(view, DEVICES), "%-10s%5s%5s%10s%7s%8s%8s%8s%8s%9s  %s",
	    "DEVICE", "RUN", "WAIT", "RUNS/S", "BUSY", "UP/S", "DOWN/S", "MEMORY",
	    "BUFFERS", "PROGRAMS", "KIND");
	for (unsigned i = rows.from; i < rows.to; i++) {
		const struct device *d = list[i].device;
		const struct rates *r = &list[i].rates;

		put(page, PLAIN, "%-10s%5u%5u%10.1f%7.2f%8s%8s%8s%8.0f%9.0f  %s", d->name,
		    d->running, d->waiting, r->runs, r->busy, size(up, r->uploaded),
		    size(down, r->downloaded), size(memory, d->memory), d->buffers,
		    d->programs, d->kind);
	}
	put_rest(page, rows);
}

static void put_users(struct page *page, const struct sample *now,
		      const struct view *view)
{
	struct rows rows = rows_shown(view, USERS, now->n_users);
	char name[PF_USER_NAME], memory[16];

	put(page, PLAIN, "%s", "");
	put(page, heading(view, USERS), "%-12s%10s%12s%8s%10s%10s", "USER", "MEMORY",
	    "EXECUTIONS", "JOBS", "BUFFERS", "PROGRAMS");
	for (unsigned i = rows.from; i < rows.to; i++) {
		const struct user *u = &now->users[i];

		put(page, PLAIN, "%-12s%10s%12.0f%8.0f%10.0f%10.0f",
		    pf_user_name(u->id, name), size(memory, u->memory), u->executions,
		    u->jobs, u->buffers, u->programs);
	}
	put_rest(page, rows);
}

/* "37/100" as "37.0%", in BUF; "-" if one execution is all. */
static const char *percent(char buf[16], const char *progress)
{
	double done = 0, of = 1;

	if (sscanf(progress, "%lf/%lf", &done, &of) != 2 || of <= 1)
		return "-";
	snprintf(buf, 16, "%.1f%%", done * 100 / of);
	return buf;
}

static void put_queue(struct page *page, const struct sample *now,
		      const struct view *view)
{
	struct rows rows = rows_shown(view, QUEUE, now->n_queue);
	char name[PF_USER_NAME], done[16];

	put(page, PLAIN, "%s", "");
	put(page, heading(view, QUEUE), "%-10s%-12s%-10s%9s%6s%7s  %s", "QUEUE", "USER",
	    "STATE", "SECONDS", "PLACE", "DONE", "EXECUTABLE");
	for (unsigned i = rows.from; i < rows.to; i++) {
		const struct entry *e = &now->queue[i];

		put(page, PLAIN, "%-10s%-12s%-10s%9.1f%6ld%7s  %s", e->where,
		    pf_user_name(e->user, name), e->state, e->seconds, e->position,
		    percent(done, e->progress), e->executable);
	}
	put_rest(page, rows);
}

/* The table of jobs begins so that the chosen one is in it. */
static void put_jobs(struct page *page, const struct sample *now, const struct view *view)
{
	struct rows rows = rows_shown(view, JOBS, now->n_jobs);
	char name[PF_USER_NAME];

	for (unsigned i = rows.to; i < now->n_jobs; i++)
		if (now->jobs[i].number == view->job)
			rows = (struct rows){ i + 1 - (rows.to - rows.from), i + 1,
					      rows.n };
	put(page, PLAIN, "%s", "");
	put(page, heading(view, JOBS), "%-10s%-12s%-10s%s", "JOB", "USER", "STATE",
	    "COMMAND");
	for (unsigned i = rows.from; i < rows.to; i++) {
		const struct job *j = &now->jobs[i];

		put(page, j->number == view->job ? CHOSEN : PLAIN, "%-10lu%-12s%-10s%s",
		    j->number, pf_user_name(j->user, name), j->state, j->command);
	}
	put_rest(page, rows);
}

static void put_executables(struct page *page, const struct sample *now,
			    const struct sample *before, const struct view *view)
{
	struct rows rows = rows_shown(view, EXECUTABLES, now->n_executables);
	pf_autofree struct hot *hot = make_hot(now, before, view->sort);

	put(page, PLAIN, "%s", "");
	put(page, heading(view, EXECUTABLES), "%10s%8s%12s%10s  %s", "RUNS/S", "BUSY",
	    "MEAN/MS", "FAILED/S", "EXECUTABLE");
	for (unsigned i = rows.from; i < rows.to; i++)
		put(page, PLAIN, "%10.1f%8.2f%12.3f%10.1f  %s", hot[i].runs, hot[i].busy,
		    hot[i].mean * 1e3, hot[i].failed, hot[i].executable->name);
	put_rest(page, rows);
}

void page_make(struct page *page, const struct sample *now, const struct sample *before,
	       const struct view *view)
{
	char used[16], limit[16];

	*page = (struct page){ NULL, 0 };
	put(page, PLAIN, "%s  pjrtfs %s  memory %s of %s", view->mount, now->version,
	    size(used, now->used), size(limit, now->limit));
	put(page, PLAIN, "health: %s", now->health);
	for (unsigned i = 0; i < now->n_plugins; i++) {
		const struct plugin *p = &now->plugins[i];

		put(page, PLAIN, "%s: %s, process %s, %ld restarts", p->name, p->state,
		    *p->pid ? p->pid : "none", p->restarts);
	}
	put(page, PLAIN, "%s", "");
	put_devices(page, now, before, view);
	put_users(page, now, view);
	put_queue(page, now, view);
	put_jobs(page, now, view);
	put_executables(page, now, before, view);
}

void page_help(struct page *page)
{
	static const char *const lines[] = {
		"q               quit",
		"tab, shift-tab  choose a table, whose heading is reversed",
		"up, down        a row, also k and j; in JOB they choose a job",
		"page up, down, home, end",
		"                in that table, or the first one with rows that are not shown",
		"c, C            cancel the chosen job; by force, after a question",
		"s               sort the executables: busy, runs, mean, name",
		"?, h            this text; any key ends it",
		"",
		"RUN, WAIT       executions that run, and that wait for a slot of the device",
		"RUNS/S, UP/S, DOWN/S",
		"                executions, bytes to and from the device, a second",
		"BUSY            seconds of executions that ended, a second: 2.00 are two at once",
		"MEMORY          of arrays on the device; of a user, on the host",
		"BUFFERS, PROGRAMS",
		"                arrays, and programs, that are there",
		"PLACE           in the queue; 0 does not wait",
		"DONE            of the repetitions of an execution",
		"MEAN/MS         of an execution, in milliseconds",
	};

	*page = (struct page){ NULL, 0 };
	for (size_t i = 0; i < PF_ARRAY_SIZE(lines); i++)
		put(page, PLAIN, "%s", lines[i]);
}

/* --- JSON -------------------------------------------------------------------------------- */

static struct json_object *append(struct json_object *list)
{
	struct json_object *o = json_object_new_object();

	pf_json_append(list, o);
	return o;
}

static void add_number(struct json_object *o, const char *key, double value)
{
	pf_json_add(o, key, json_object_new_double(value));
}

static void add_int(struct json_object *o, const char *key, double value)
{
	pf_json_add_int(o, key, (int64_t)value);
}

static struct json_object *devices_json(const struct sample *now,
					const struct sample *before)
{
	struct json_object *list = json_object_new_array();
	double seconds = seconds_between(now, before);

	for (unsigned i = 0; i < now->n_devices; i++) {
		const struct device *d = &now->devices[i];
		struct rates r = rates_of(d, before, seconds);
		struct json_object *o = append(list);

		pf_json_add_string(o, "device", d->name);
		pf_json_add_string(o, "kind", d->kind);
		add_int(o, "running", d->running);
		add_int(o, "waiting", d->waiting);
		add_int(o, "memory", d->memory);
		add_int(o, "buffers", d->buffers);
		add_int(o, "programs", d->programs);
		add_number(o, "runs_per_second", r.runs);
		add_number(o, "busy", r.busy);
		add_number(o, "upload_bytes_per_second", r.uploaded);
		add_number(o, "download_bytes_per_second", r.downloaded);
	}
	return list;
}

static struct json_object *plugins_json(const struct sample *now)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < now->n_plugins; i++) {
		const struct plugin *p = &now->plugins[i];
		struct json_object *o = append(list);

		pf_json_add_string(o, "plugin", p->name);
		pf_json_add_string(o, "state", p->state);
		if (*p->pid)
			pf_json_add_int(o, "pid", strtol(p->pid, NULL, 10));
		pf_json_add_int(o, "restarts", p->restarts);
	}
	return list;
}

static struct json_object *users_json(const struct sample *now)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < now->n_users; i++) {
		const struct user *u = &now->users[i];
		struct json_object *o = append(list);

		pf_json_add_int(o, "user", u->id);
		add_int(o, "memory", u->memory);
		add_int(o, "executions", u->executions);
		add_int(o, "jobs", u->jobs);
		add_int(o, "buffers", u->buffers);
		add_int(o, "programs", u->programs);
	}
	return list;
}

static struct json_object *queue_json(const struct sample *now)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < now->n_queue; i++) {
		const struct entry *e = &now->queue[i];
		struct json_object *o = append(list);
		const char *of = strchr(e->progress, '/');

		pf_json_add_string(o, strchr(e->where, ':') ? "device" : "plugin",
				   e->where);
		pf_json_add_int(o, "user", e->user);
		pf_json_add_string(o, "state", e->state);
		add_number(o, "seconds", e->seconds);
		pf_json_add_int(o, "position", e->position);
		pf_json_add_int(o, "done", strtoll(e->progress, NULL, 10));
		pf_json_add_int(o, "of", of ? strtoll(of + 1, NULL, 10) : 1);
		if (strcmp(e->executable, "-") != 0)
			pf_json_add_string(o, "executable", e->executable);
	}
	return list;
}

static struct json_object *jobs_json(const struct sample *now)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < now->n_jobs; i++) {
		const struct job *j = &now->jobs[i];
		struct json_object *o = append(list);

		pf_json_add_int(o, "job", (int64_t)j->number);
		pf_json_add_int(o, "user", j->user);
		pf_json_add_string(o, "state", j->state);
		pf_json_add_string(o, "command", j->command);
	}
	return list;
}

static struct json_object *executables_json(const struct sample *now,
					    const struct sample *before, enum sort sort)
{
	pf_autofree struct hot *hot = make_hot(now, before, sort);
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < now->n_executables; i++) {
		struct json_object *o = append(list);

		pf_json_add_string(o, "executable", hot[i].executable->name);
		add_number(o, "runs_per_second", hot[i].runs);
		add_number(o, "busy", hot[i].busy);
		add_number(o, "mean_seconds", hot[i].mean);
		add_number(o, "failed_per_second", hot[i].failed);
	}
	return list;
}

void page_json(struct pf_buf *text, const struct sample *now, const struct sample *before,
	       const struct view *view)
{
	struct json_object *o = json_object_new_object();

	pf_json_add_string(o, "mount", view->mount);
	pf_json_add_string(o, "version", now->version);
	pf_json_add_string(o, "health", now->health);
	add_int(o, "memory_used", now->used);
	add_int(o, "memory_limit", now->limit);
	pf_json_add(o, "plugins", plugins_json(now));
	pf_json_add(o, "devices", devices_json(now, before));
	pf_json_add(o, "users", users_json(now));
	pf_json_add(o, "queue", queue_json(now));
	pf_json_add(o, "jobs", jobs_json(now));
	pf_json_add(o, "executables", executables_json(now, before, view->sort));
	pf_json_print_line(o, text);
	json_object_put(o);
}
