/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/telemetry.h"

/* --- whose telemetry, and the names of its subjects ---------------------------------- */

void pf_telemetry_attach(struct pf_telemetry *t, const struct pf_telemetry_names *names)
{
	t->names = *names;
	atomic_store(&t->named, true);
}

uid_t pf_telemetry_owner(const struct pf_telemetry *t)
{
	return t ? t->owner : 0;
}

bool pf_telemetry_name(struct pf_telemetry *t, uint64_t subject, struct pf_buf *path,
		       uid_t *ret_user)
{
	*ret_user = pf_telemetry_owner(t);
	return t && subject && atomic_load(&t->named) &&
	       t->names.name(t->names.arg, subject, path, ret_user);
}

/* --- counting ------------------------------------------------------------------------- */

const double pf_bucket_bounds[PF_BUCKETS] = { 1e-5, 3e-5, 1e-4, 3e-4, 1e-3,
					      3e-3, 1e-2, 3e-2, 1e-1, 3e-1,
					      1e0,  3e0,  1e1,  3e1,  1e2 };

static void count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void pf_histogram_add(struct pf_histogram *h, uint64_t n, double seconds)
{
	unsigned i = 0;

	if (!(seconds > 0))
		seconds = 0;
	while (i < PF_BUCKETS && seconds > pf_bucket_bounds[i])
		i++;
	count(&h->buckets[i], n);
	count(&h->ns, (uint64_t)((double)n * seconds * 1e9 + 0.5));
}

enum pf_outcome pf_outcome_of(int code)
{
	if (code == 0)
		return PF_OUTCOME_OK;
	return code == -ECANCELED || code == -EINTR ? PF_OUTCOME_CANCELLED
						    : PF_OUTCOME_FAILED;
}

void pf_metrics_release(struct pf_telemetry *t)
{
	struct pf_plugin_meter *p;

	while ((p = t->plugins)) {
		t->plugins = p->next;
		free(p);
	}
}

struct pf_plugin_meter *pf_metrics_plugin(struct pf_telemetry *t, const char *name,
					  unsigned n, const int64_t *ids)
{
	struct pf_plugin_meter *p, *last;

	p = t ? calloc(1, sizeof(*p) + n * sizeof(p->devices[0])) : NULL;
	if (!p)
		return NULL;
	snprintf(p->name, sizeof(p->name), "%s", name);
	p->n_devices = n;
	for (unsigned i = 0; i < n; i++)
		snprintf(p->devices[i].name, sizeof(p->devices[i].name), "%.200s:%lld",
			 name, (long long)ids[i]);
	PF_LOCK_SCOPE(&t->lock);
	for (last = t->plugins; last && last->next;)
		last = last->next;
	if (last)
		last->next = p;
	else
		t->plugins = p;
	return p;
}

struct pf_device_meter *pf_meter_device(struct pf_plugin_meter *p, unsigned index)
{
	return p && index < p->n_devices ? &p->devices[index] : NULL;
}

/* --- executables -------------------------------------------------------------------- */

struct pf_executable_meter *pf_metrics_executable(struct pf_telemetry *t,
						  uint64_t subject)
{
	struct pf_executable_meter *x;

	if (!t)
		return NULL;
	x = calloc(1, sizeof(*x));
	PF_LOCK_SCOPE(&t->lock);
	if (!x || t->n_executables >= PF_METRICS_EXECUTABLES) {
		t->refused++;
		free(x);
		return NULL;
	}
	x->telemetry = t;
	x->subject = subject;
	x->at = t->n_executables;
	t->executables[t->n_executables++] = x;
	return x;
}

void pf_executable_meter_free(struct pf_executable_meter *x)
{
	struct pf_telemetry *t;

	if (!x)
		return;
	t = x->telemetry;
	pf_lock(&t->lock);
	t->executables[x->at] = t->executables[--t->n_executables];
	t->executables[x->at]->at = x->at;
	pf_unlock(&t->lock);
	free(x);
}

void pf_executable_meter_name(struct pf_executable_meter *x, uint64_t subject)
{
	if (!x)
		return;
	PF_LOCK_SCOPE(&x->telemetry->lock);
	x->subject = subject;
}

/* --- adding ------------------------------------------------------------------------- */

void pf_meter_compile(struct pf_plugin_meter *p, enum pf_outcome result, double seconds)
{
	if (!p)
		return;
	count(&p->compiles[result], 1);
	if (result != PF_OUTCOME_CANCELLED)
		pf_histogram_add(&p->compile_seconds, 1, seconds);
}

void pf_meter_execution(struct pf_plugin_meter *p, struct pf_executable_meter *of,
			enum pf_outcome result, uint64_t runs, double seconds,
			const unsigned *devices, size_t n)
{
	double each = runs ? seconds / (double)runs : 0;

	if (of)
		count(&of->results[result], runs);
	if (of && result == PF_OUTCOME_OK)
		pf_histogram_add(&of->seconds, runs, each);
	if (p)
		count(&p->executions[result], runs);
	for (size_t i = 0; result == PF_OUTCOME_OK && i < n; i++) {
		struct pf_device_meter *d = pf_meter_device(p, devices[i]);

		if (d)
			pf_histogram_add(&d->executions, runs, each);
	}
}

void pf_meter_transfer(struct pf_transfers *t, enum pf_outcome result, uint64_t bytes,
		       double seconds)
{
	if (!t)
		return;
	count(&t->results[result], 1);
	if (result != PF_OUTCOME_OK)
		return;
	count(&t->bytes, bytes);
	pf_histogram_add(&t->seconds, 1, seconds);
}

/* Metrics as Prometheus' text. */

/* Samples of one metric are adjacent, so each metric iterates over all of its meters. */
struct printer {
	struct pf_buf *out;
	const char *labels[4]; /* pairs; the last pair is the sample's own */
	size_t n;
};

static uint64_t value_of(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)counter,
				    memory_order_relaxed);
}

static void put_value(struct pf_buf *out, const char *text)
{
	size_t left = strlen(text);

	while (left) {
		uint32_t point;
		size_t n = pf_utf8_char(text, left, &point);

		if (!n)
			pf_buf_puts(out, "?");
		else if (*text == '\n')
			pf_buf_puts(out, "\\n");
		else if (*text == '"' || *text == '\\')
			pf_buf_append(out, (char[]){ '\\', *text }, 2);
		else
			pf_buf_append(out, text, n);
		text += n ? n : 1;
		left -= n ? n : 1;
	}
}

static void put_labels(struct pf_buf *out, const char *const *labels, size_t n)
{
	for (size_t i = 0; i + 1 < n; i += 2) {
		pf_buf_printf(out, "%s%s=\"", i ? "," : "{", labels[i]);
		put_value(out, labels[i + 1]);
		pf_buf_puts(out, "\"");
	}
	pf_buf_puts(out, n ? "} " : " ");
}

void pf_metrics_family(struct pf_buf *out, const char *name, const char *type,
		       const char *help)
{
	pf_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void pf_metrics_sample(struct pf_buf *out, const char *name, const char *const *labels,
		       size_t n, uint64_t value)
{
	pf_buf_puts(out, name);
	put_labels(out, labels, n);
	pf_buf_printf(out, "%llu\n", (unsigned long long)value);
}

/* Each bucket is read once, so that the count equals the last bucket. */
static void put_histogram(const struct printer *p, const char *name,
			  const struct pf_histogram *h)
{
	char full[128], bound[32];
	const char *labels[6];
	uint64_t sum = 0, ns;

	memcpy(labels, p->labels, p->n * sizeof(labels[0]));
	labels[p->n] = "le";
	labels[p->n + 1] = bound;
	snprintf(full, sizeof(full), "%s_bucket", name);
	for (unsigned i = 0; i <= PF_BUCKETS; i++) {
		sum += value_of(&h->buckets[i]);
		if (i < PF_BUCKETS)
			snprintf(bound, sizeof(bound), "%g", pf_bucket_bounds[i]);
		else
			strcpy(bound, "+Inf");
		pf_metrics_sample(p->out, full, labels, p->n + 2, sum);
	}
	snprintf(full, sizeof(full), "%s_sum", name);
	pf_buf_puts(p->out, full);
	put_labels(p->out, p->labels, p->n);
	ns = value_of(&h->ns);
	pf_buf_printf(p->out, "%llu.%09llu\n", (unsigned long long)(ns / 1000000000),
		      (unsigned long long)(ns % 1000000000));
	snprintf(full, sizeof(full), "%s_count", name);
	pf_metrics_sample(p->out, full, p->labels, p->n, sum);
}

static void put_results(const struct printer *p, const char *name,
			const _Atomic uint64_t *results)
{
	static const char *const names[] = { [PF_OUTCOME_OK] = "ok",
					     [PF_OUTCOME_FAILED] = "failed",
					     [PF_OUTCOME_CANCELLED] = "cancelled" };
	const char *labels[6];

	memcpy(labels, p->labels, p->n * sizeof(labels[0]));
	labels[p->n] = "result";
	for (unsigned i = 0; i < PF_OUTCOMES; i++) {
		labels[p->n + 1] = names[i];
		pf_metrics_sample(p->out, name, labels, p->n + 2, value_of(&results[i]));
	}
}

/* --- plugins and devices ------------------------------------------------------------ */

/* The field of a meter that a metric shows, and its form. */
struct family {
	const char *name, *help;
	enum { RESULTS, COUNTER, HISTOGRAM } form;
	size_t off;
};

static const struct family of_plugin[] = {
	{ "pjrtfs_compiles_total", "Compiles, by how they ended.", RESULTS,
	  offsetof(struct pf_plugin_meter, compiles) },
	{ "pjrtfs_program_updates_failed_total",
	  "Programs that did not compile where an earlier one goes on.", COUNTER,
	  offsetof(struct pf_plugin_meter, updates_failed) },
	{ "pjrtfs_compile_seconds", "Time that compiles took.", HISTOGRAM,
	  offsetof(struct pf_plugin_meter, compile_seconds) },
	{ "pjrtfs_executions_total", "Executions, by how they ended.", RESULTS,
	  offsetof(struct pf_plugin_meter, executions) },
	{ "pjrtfs_worker_deaths_total", "Times that the plugin's process died.", COUNTER,
	  offsetof(struct pf_plugin_meter, deaths) },
};

static const struct family of_device[] = {
	{ "pjrtfs_device_execution_seconds",
	  "Time from an execution's start to its results.", HISTOGRAM,
	  offsetof(struct pf_device_meter, executions) },
	{ "pjrtfs_uploads_total", "Arrays brought to the device, by how that ended.",
	  RESULTS, offsetof(struct pf_device_meter, to.results) },
	{ "pjrtfs_upload_bytes_total", "Bytes brought to the device.", COUNTER,
	  offsetof(struct pf_device_meter, to.bytes) },
	{ "pjrtfs_upload_seconds", "Time that it took to bring an array to the device.",
	  HISTOGRAM, offsetof(struct pf_device_meter, to.seconds) },
	{ "pjrtfs_downloads_total", "Arrays fetched from the device, by how that ended.",
	  RESULTS, offsetof(struct pf_device_meter, from.results) },
	{ "pjrtfs_download_bytes_total", "Bytes fetched from the device.", COUNTER,
	  offsetof(struct pf_device_meter, from.bytes) },
	{ "pjrtfs_download_seconds", "Time that it took to fetch an array.", HISTOGRAM,
	  offsetof(struct pf_device_meter, from.seconds) },
};

static void put_head(const struct family *f, struct pf_buf *out)
{
	pf_metrics_family(out, f->name, f->form == HISTOGRAM ? "histogram" : "counter",
			  f->help);
}

static void put_field(const struct printer *p, const struct family *f, const void *meter)
{
	const void *field = (const char *)meter + f->off;

	if (f->form == HISTOGRAM)
		put_histogram(p, f->name, field);
	else if (f->form == RESULTS)
		put_results(p, f->name, field);
	else
		pf_metrics_sample(p->out, f->name, p->labels, p->n, value_of(field));
}

/* Plugins are added at the end and never removed: the list may be walked without the lock. */
static void put_plugins(const struct pf_plugin_meter *first, struct pf_buf *out)
{
	struct printer p = { .out = out, .labels = { "plugin", "", "device", "" } };

	p.n = 2;
	for (size_t i = 0; i < PF_ARRAY_SIZE(of_plugin); i++) {
		put_head(&of_plugin[i], out);
		for (const struct pf_plugin_meter *m = first; m; m = m->next) {
			p.labels[1] = m->name;
			put_field(&p, &of_plugin[i], m);
		}
	}
	p.n = 4;
	for (size_t i = 0; i < PF_ARRAY_SIZE(of_device); i++) {
		put_head(&of_device[i], out);
		for (const struct pf_plugin_meter *m = first; m; m = m->next)
			for (unsigned d = 0; d < m->n_devices; d++) {
				p.labels[1] = m->name;
				p.labels[3] = m->devices[d].name;
				put_field(&p, &of_device[i], &m->devices[d]);
			}
	}
}

/* --- executables -------------------------------------------------------------------- */

struct shown {
	char name[PF_METRICS_LABEL];
	uint64_t subject;
	_Atomic uint64_t results[PF_OUTCOMES];
	struct pf_histogram seconds;
};

/* Copies of the meters: names are looked up under the tree's lock, which is of a lower rank. */
static struct shown *copy(struct pf_telemetry *t, unsigned *ret_n, uint64_t *ret_refused)
{
	struct shown *shown = calloc(PF_METRICS_EXECUTABLES, sizeof(*shown));

	PF_LOCK_SCOPE(&t->lock);
	*ret_refused = t->refused;
	*ret_n = 0;
	for (unsigned i = 0; shown && i < t->n_executables; i++) {
		const struct pf_executable_meter *x = t->executables[i];
		struct shown *s = &shown[(*ret_n)++];

		s->subject = x->subject;
		for (unsigned r = 0; r < PF_OUTCOMES; r++)
			s->results[r] = value_of(&x->results[r]);
		for (unsigned b = 0; b <= PF_BUCKETS; b++)
			s->seconds.buckets[b] = value_of(&x->seconds.buckets[b]);
		s->seconds.ns = value_of(&x->seconds.ns);
	}
	return shown;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct shown *)a)->name, ((const struct shown *)b)->name);
}

/* The executable's path below executables/, as commands name it; false: it has none any more. */
static bool name_one(struct pf_telemetry *t, struct shown *shown)
{
	static const char above[] = "executables/";
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	size_t skip = sizeof(above) - 1;
	uid_t user;

	if (!pf_telemetry_name(t, shown->subject, &path, &user) || path.len <= skip)
		return false;
	snprintf(shown->name, sizeof(shown->name), "%s", path.data + skip);
	return true;
}

/* Names cut to the same beginning would be one series twice: the second is left out. */
static unsigned name_all(struct pf_telemetry *t, struct shown *shown, unsigned n)
{
	unsigned kept = 0, distinct = 0;

	for (unsigned i = 0; i < n; i++)
		if (name_one(t, &shown[i]))
			shown[kept++] = shown[i];
	qsort(shown, kept, sizeof(*shown), by_name);
	for (unsigned i = 0; i < kept; i++)
		if (!i || strcmp(shown[distinct - 1].name, shown[i].name))
			shown[distinct++] = shown[i];
	return distinct;
}

static const struct family of_executable[] = {
	{ "pjrtfs_executable_executions_total",
	  "Executions of a program, by how they ended.", RESULTS,
	  offsetof(struct shown, results) },
	{ "pjrtfs_executable_execution_seconds",
	  "Time from the start of a program's execution to its results.", HISTOGRAM,
	  offsetof(struct shown, seconds) },
};

static void put_executables(struct pf_telemetry *t, struct pf_buf *out)
{
	struct printer p = { .out = out, .labels = { "executable" }, .n = 2 };
	pf_autofree struct shown *shown = NULL;
	uint64_t refused;
	unsigned n;

	shown = copy(t, &n, &refused);
	n = shown ? name_all(t, shown, n) : 0;
	for (size_t i = 0; i < PF_ARRAY_SIZE(of_executable); i++) {
		put_head(&of_executable[i], out);
		for (unsigned k = 0; k < n; k++) {
			p.labels[1] = shown[k].name;
			put_field(&p, &of_executable[i], &shown[k]);
		}
	}
	pf_metrics_family(out, "pjrtfs_executables_not_measured_total", "counter",
			  "Programs that came when enough others were measured one by "
			  "one.");
	pf_metrics_sample(out, "pjrtfs_executables_not_measured_total", NULL, 0, refused);
}

/* --- the mount ---------------------------------------------------------------------- */

static const struct family of_mount[] = {
	{ "pjrtfs_cache_hits_total", "Compiles that the cache made unnecessary.", COUNTER,
	  offsetof(struct pf_telemetry, cache[PF_REPORT_CACHE_HIT]) },
	{ "pjrtfs_cache_misses_total", "Programs that were not in the cache.", COUNTER,
	  offsetof(struct pf_telemetry, cache[PF_REPORT_CACHE_MISS]) },
	{ "pjrtfs_cache_evictions_total", "Programs that made room for others.", COUNTER,
	  offsetof(struct pf_telemetry, cache[PF_REPORT_CACHE_EVICTED]) },
	{ "pjrtfs_cache_damaged_total", "Files of the cache that were not as written.",
	  COUNTER, offsetof(struct pf_telemetry, cache[PF_REPORT_CACHE_DAMAGED]) },
	{ "pjrtfs_jobs_total", "Asynchronous executions, by how they ended.", RESULTS,
	  offsetof(struct pf_telemetry, jobs) },
};

void pf_metrics_print(struct pf_telemetry *t, struct pf_buf *out)
{
	struct printer p = { .out = out };
	struct pf_plugin_meter *first;

	pf_lock(&t->lock);
	first = t->plugins;
	pf_unlock(&t->lock);
	put_plugins(first, out);
	put_executables(t, out);
	for (size_t i = 0; i < PF_ARRAY_SIZE(of_mount); i++) {
		put_head(&of_mount[i], out);
		put_field(&p, &of_mount[i], t);
	}
}
