/* SPDX-License-Identifier: Apache-2.0 */
/* The report of pjrtfs-bench. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

enum { ROWS = 12, BAR = 50 /* of the histogram */ };

static const char *const names[PHASES] = { "total",   "upload", "queue",
					   "execute", "wait",   "download" };

struct figures {
	double min, mean, p50, p90, p99, max;
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The least value that P percent of the N sorted VALUES do not exceed. */
static double percentile(const double *values, long n, long p)
{
	long rank = (n * p + 99) / 100;

	return values[rank > 0 ? rank - 1 : 0];
}

/* VALUES are those of one phase, sorted; false: the phase is not known. */
static bool figures_of(const struct result *r, enum phase phase, double *values,
		       struct figures *f)
{
	double sum = 0;

	for (long i = 0; i < r->n; i++) {
		values[i] = r->runs[i].of[phase];
		sum += values[i];
	}
	qsort(values, (size_t)r->n, sizeof(*values), by_value);
	*f = (struct figures){ values[0],
			       sum / (double)r->n,
			       percentile(values, r->n, 50),
			       percentile(values, r->n, 90),
			       percentile(values, r->n, 99),
			       values[r->n - 1] };
	return f->min >= 0;
}

/* Count the sorted VALUES: steps of the same width up to the 90th percentile, a step up to the 99th,
 * and the rest. */
static void count(const double *values, long n, double ends[ROWS], long counts[ROWS])
{
	double min = values[0], to = percentile(values, n, 90);
	long at = 0;

	for (int row = 0; row < ROWS - 2; row++)
		ends[row] = min + (to - min) * (row + 1) / (ROWS - 2);
	ends[ROWS - 3] = to;
	ends[ROWS - 2] = percentile(values, n, 99);
	ends[ROWS - 1] = values[n - 1];
	for (int row = 0; row < ROWS; row++)
		for (counts[row] = 0; at < n && values[at] <= ends[row]; at++)
			counts[row]++;
}

static void print_histogram(const double *values, long n, double unit,
			    const char *unit_name)
{
	double ends[ROWS];
	long counts[ROWS], most = 1;

	count(values, n, ends, counts);
	for (int row = 0; row < ROWS; row++)
		most = counts[row] > most ? counts[row] : most;
	printf("\n%12s %8s\n", unit_name, "runs");
	for (int row = 0; row < ROWS; row++) {
		int bar = (int)((counts[row] * BAR + most - 1) / most);

		if (row && ends[row] <= ends[row - 1])
			continue;
		printf("<= %9.1f %8ld %.*s\n", ends[row] * unit, counts[row], bar,
		       "##################################################");
	}
}

/* "F32[2,3] F32[2,3]" */
static void print_types(struct json_object *signature, const char *key)
{
	struct json_object *list, *shape;

	if (!json_object_object_get_ex(signature, key, &list))
		return;
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *o = json_object_array_get_idx(list, i);

		printf(" %s", pf_json_get_string(o, "dtype"));
		if (i == 7 && json_object_array_length(list) > 8) {
			printf(" ... (%zu)", json_object_array_length(list));
			break;
		}
		if (json_object_object_get_ex(o, "shape", &shape))
			printf("%s", pf_json_text(shape));
	}
}

static void print_head(const struct bench *b, const struct result *r)
{
	printf("%s:", b->program);
	print_types(b->signature, "inputs");
	printf(" ->");
	print_types(b->signature, "outputs");
	if (b->n_inputs)
		printf("\ncontrol, %zu bytes out", b->bytes_out);
	else
		printf("\ncall.raw, %zu bytes in, %zu bytes out", b->bytes_in,
		       b->bytes_out);
	printf("; %ld client%s, %ld runs\n\n", b->clients, b->clients == 1 ? "" : "s",
	       r->n);
}

static void print_text(const struct bench *b, const struct result *r, double *values)
{
	struct figures f;
	const char *unit_name = "us";
	double unit = 1e6;

	figures_of(r, TOTAL, values, &f);
	if (f.p50 >= 0.01) {
		unit_name = f.p50 < 10 ? "ms" : "s";
		unit = f.p50 < 10 ? 1e3 : 1;
	}
	print_head(b, r);
	printf("%-9s%10s%10s%10s%10s%10s%10s\n", unit_name, "min", "mean", "p50", "p90",
	       "p99", "max");
	for (enum phase p = TOTAL; p < PHASES; p++) {
		if (figures_of(r, p, values, &f))
			printf("%-9s%10.1f%10.1f%10.1f%10.1f%10.1f%10.1f\n", names[p],
			       f.min * unit, f.mean * unit, f.p50 * unit, f.p90 * unit,
			       f.p99 * unit, f.max * unit);
		else if (p == EXECUTE && r->execute >= 0)
			printf("%-9s%10s%10.1f\n", names[p], "", r->execute * unit);
	}
	printf("\n%.1f runs/s\n", (double)r->n / r->seconds);
	figures_of(r, TOTAL, values, &f);
	print_histogram(values, r->n, unit, unit_name);
}

static void add_figures(struct json_object *o, const char *key, const struct figures *f)
{
	struct json_object *to = json_object_new_object();

	pf_json_add_seconds(to, "min", f->min);
	pf_json_add_seconds(to, "mean", f->mean);
	pf_json_add_seconds(to, "p50", f->p50);
	pf_json_add_seconds(to, "p90", f->p90);
	pf_json_add_seconds(to, "p99", f->p99);
	pf_json_add_seconds(to, "max", f->max);
	pf_json_add(o, key, to);
}

static struct json_object *to_json(const struct bench *b, const struct result *r,
				   double *values)
{
	struct json_object *o = json_object_new_object(),
			   *phases = json_object_new_object(),
			   *list = json_object_new_array();
	struct figures f;
	double ends[ROWS];
	long counts[ROWS];

	pf_json_add_string(o, "program", b->program);
	pf_json_add_string(o, "mount", b->mount);
	pf_json_add_string(o, "file", b->n_inputs ? "control" : "call.raw");
	pf_json_add_int(o, "clients", b->clients);
	pf_json_add_int(o, "runs", r->n);
	pf_json_add_int(o, "bytes_in", (int64_t)b->bytes_in);
	pf_json_add_int(o, "bytes_out", (int64_t)b->bytes_out);
	pf_json_add_seconds(o, "seconds", r->seconds);
	pf_json_add(o, "runs_per_second",
		    json_object_new_double((double)r->n / r->seconds));
	for (enum phase p = TOTAL; p < PHASES; p++)
		if (figures_of(r, p, values, &f))
			add_figures(phases, names[p], &f);
	pf_json_add(o, "phases", phases);
	if (r->execute >= 0)
		pf_json_add_seconds(o, "execute_mean", r->execute);
	figures_of(r, TOTAL, values, &f);
	count(values, r->n, ends, counts);
	for (int row = 0; row < ROWS; row++) {
		struct json_object *step = json_object_new_object();

		pf_json_add_seconds(step, "le", ends[row]);
		pf_json_add_int(step, "runs", counts[row]);
		pf_json_append(list, step);
	}
	pf_json_add(o, "histogram", list);
	return o;
}

int report(const struct bench *b, const struct result *r, struct pf_err *err)
{
	pf_autofree double *values = calloc((size_t)r->n, sizeof(*values));
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct json_object *o;

	if (!values)
		return pf_err_set(err, -ENOMEM, "no memory for the report");
	if (!b->json) {
		print_text(b, r, values);
		return 0;
	}
	o = to_json(b, r, values);
	pf_json_print_line(o, &text);
	json_object_put(o);
	if (text.failed)
		return pf_err_set(err, -ENOMEM, "no memory for the report");
	fputs(text.data, stdout);
	return 0;
}
