/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many clients of one mount: processes that call the addition of two numbers in a loop, for
 * the same time; then one of them beside a process that writes and reads a large array.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { MAX_CLIENTS = 64, COUNTS = 5, SAMPLES = 1 << 14 };
enum { LARGE = 64 << 20, LARGE_NPY = BENCH_NPY + LARGE };

static const unsigned counts[COUNTS] = { 1, 2, 4, 16, 64 };

/* Memory that the processes share. */
static struct shared {
	unsigned calls[MAX_CLIENTS];
	float seconds[MAX_CLIENTS][SAMPLES]; /* of each call; the last SAMPLES are kept */
} * shared;

static double seconds; /* of a sample */
static char *large;    /* a .npy of LARGE bytes, and room for another */

/* --- a client ---------------------------------------------------------------------------- */

static int call;
static struct bench_scalar in[2]; /* the arguments */

static void call_once(float x)
{
	struct bench_scalar out;

	in[0].value = x;
	bench_call(call, in, sizeof(in), &out, sizeof(out));
	if (out.value != x + 1)
		bench_die("%g + 1 gave %g", (double)x, (double)out.value);
}

static void open_call(void)
{
	call = bench_open(bench_path("executables/add/call"), O_RDWR);
	in[0] = bench_scalar(0);
	in[1] = bench_scalar(1);
	call_once(0);
}

/* Call until the time is over. */
static void call_all(unsigned self)
{
	double t, now = bench_now(), end = now + seconds;
	unsigned n = 0;

	for (; now < end; n++) {
		t = now;
		call_once((float)(self + n % 1000));
		now = bench_now();
		shared->seconds[self][n % SAMPLES] = (float)(now - t);
	}
	shared->calls[self] = n;
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* What N clients measured: seconds for each call of all, the median and p99 of a call. */
struct result {
	double each, median, p99;
};

static struct result collect(unsigned n)
{
	float *all = malloc((size_t)n * SAMPLES * sizeof(*all));
	size_t total = 0, kept = 0;
	struct result r;

	if (!all)
		bench_die("no memory");
	for (unsigned i = 0; i < n; i++) {
		unsigned calls = shared->calls[i],
			 keep = calls < SAMPLES ? calls : SAMPLES;

		memcpy(all + kept, shared->seconds[i], keep * sizeof(*all));
		kept += keep;
		total += calls;
	}
	qsort(all, kept, sizeof(*all), by_value);
	r = (struct result){ seconds / (double)total, (double)all[kept / 2],
			     (double)all[kept * 99 / 100] };
	free(all);
	return r;
}

static struct result run_clients(unsigned n)
{
	bench_gather(n, open_call, call_all);
	bench_release(n);
	return collect(n);
}

/* --- the neighbour ----------------------------------------------------------------------- */

/* Write and read a large array, until killed. */
static void __attribute__((__noreturn__)) move_large(void)
{
	const char *path = bench_path("buffers/large.npy");

	for (;;) {
		bench_put(path, large, LARGE_NPY);
		bench_get(path, large + LARGE_NPY, LARGE_NPY);
		if (memcmp(large, large + LARGE_NPY, LARGE_NPY) != 0)
			bench_die("%s holds other bytes than were written", path);
	}
}

static struct result run_beside(void)
{
	struct result r;
	pid_t pid = bench_fork();
	int status;

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* lest the mount stays busy */
		move_large();
	}
	r = run_clients(1);
	if (waitpid(pid, &status, WNOHANG) != 0)
		bench_die("the neighbour failed");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return r;
}

/* ----------------------------------------------------------------------------------------- */

/* The rows of two tables, one for each count. */
#define COUNT_ROWS                                                                       \
	{                                                                                \
		{ "1 client", .base = "to 1 client" }, { "2 clients" }, { "4 clients" }, \
			{ "16 clients" },                                                \
		{                                                                        \
			"64 clients"                                                     \
		}                                                                        \
	}
static struct bench_table rate = {
	.title = "Clients: time for each call of all clients together",
	.rows = COUNT_ROWS,
}, median = {
	.title = "Clients: median time of a call",
	.rows = COUNT_ROWS,
}, beside = {
	.title = "Clients: a call beside a client that moves 64 MiB",
	.rows = {
		{ "alone, median", .base = "to alone" },
		{ "beside, median" },
		{ "alone, p99", .base = "to alone, p99", .apart = true },
		{ "beside, p99" },
	},
};

static void measure(unsigned round)
{
	struct result r;

	for (unsigned k = 0; k < COUNTS; k++) {
		unsigned i = (k + round) % COUNTS;

		r = run_clients(counts[i]);
		rate.rows[i].sample[round] = r.each;
		median.rows[i].sample[round] = r.median;
	}
	for (unsigned i = 0; i < 2; i++) {
		r = i ? run_beside() : run_clients(1);
		beside.rows[i].sample[round] = r.median;
		beside.rows[2 + i].sample[round] = r.p99;
	}
}

int main(int argc, char **argv)
{
	struct bench_table *const tables[] = { &rate, &median, &beside };

	bench_begin(argc, argv);
	seconds = bench.quick ? 0.2 : 2;
	shared = bench_memory(sizeof(*shared), true);
	large = bench_memory(2 * (size_t)LARGE_NPY, true);
	bench_npy_header(large, LARGE / sizeof(float));
	for (size_t i = 0; i < LARGE; i++)
		large[BENCH_NPY + i] = (char)(i % 63);
	for (unsigned i = 0; i < 3; i++)
		bench_prepare(tables[i], 2, 9);
	bench_mount();
	bench_put_program("add", bench_add);
	for (unsigned r = 0; r < rate.rounds; r++)
		measure(r);
	for (unsigned i = 0; i < 3; i++) {
		bench_print(tables[i]);
		for (unsigned k = 0; i == 0 && k < COUNTS; k++)
			printf("%-44s %9.0f calls a second\n", rate.rows[k].what,
			       1 / bench_median(rate.rows[k].sample, rate.rounds));
	}
	return 0;
}
