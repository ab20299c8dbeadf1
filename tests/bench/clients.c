/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many clients of one mount: processes that call the addition of two numbers in a loop, for
 * the same time; then one of them beside a process that writes and reads a large array.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum {
	MAX_CLIENTS = 64,
	COUNTS = 5,
	SAMPLES = 1 << 14,
	STEP = 1 << 20,
	LARGE = 64 << 20
};

static const char add[] =
	"func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {\n"
	"  %0 = stablehlo.add %a, %b : tensor<f32>\n"
	"  return %0 : tensor<f32>\n"
	"}\n";

static const unsigned counts[COUNTS] = { 1, 2, 4, 16, 64 };

struct scalar {
	char header[BENCH_NPY];
	float value;
} __attribute__((__packed__));

/* Memory that the processes share. */
struct shared {
	volatile int go;
	volatile unsigned ready;
	unsigned calls[MAX_CLIENTS];
	float seconds[MAX_CLIENTS][SAMPLES]; /* of each call; the last SAMPLES are kept */
};

struct load {
	struct bench bench;
	struct shared *shared;
	double seconds; /* of a sample */
	unsigned round;
	struct bench_table rate, median, tail, beside;
	char *large; /* a .npy of LARGE bytes, and room for another */
};

/* --- a client ---------------------------------------------------------------------------- */

static void call_once(int fd, struct scalar in[2], float x)
{
	struct scalar out;

	in[0].value = x;
	if (pwrite(fd, in, 2 * sizeof(*in), 0) != 2 * sizeof(*in) ||
	    pread(fd, &out, sizeof(out), 0) != sizeof(out))
		bench_die("a call failed: %s", strerror(errno));
	if (out.value != x + 1)
		bench_die("%g + 1 gave %g", (double)x, (double)out.value);
}

/* Call until the time is over. */
static void client(struct load *l, unsigned self)
{
	int fd = bench_open(bench_path(&l->bench, "executables/add/call"), O_RDWR);
	struct scalar in[2] = { { .value = 0 }, { .value = 1 } };
	struct shared *s = l->shared;
	double end, t, now;
	unsigned n = 0;

	bench_npy_header(in[0].header, 0);
	bench_npy_header(in[1].header, 0);
	call_once(fd, in, 0);
	__atomic_add_fetch(&s->ready, 1, __ATOMIC_SEQ_CST);
	while (!s->go)
		usleep(200);
	now = bench_now();
	for (end = now + l->seconds; now < end; n++) {
		t = now;
		call_once(fd, in, (float)(self + n % 1000));
		now = bench_now();
		s->seconds[self][n % SAMPLES] = (float)(now - t);
	}
	s->calls[self] = n;
}

static void start_clients(struct load *l, unsigned n, pid_t pids[MAX_CLIENTS])
{
	l->shared->go = 0;
	l->shared->ready = 0;
	for (unsigned i = 0; i < n; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			bench_die("fork: %s", strerror(errno));
		if (pids[i] == 0) {
			client(l, i);
			_exit(0);
		}
	}
	for (double end = bench_now() + 60; l->shared->ready < n; usleep(1000))
		if (bench_now() > end)
			bench_die("clients did not start");
	l->shared->go = 1;
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

static struct result collect(const struct load *l, unsigned n)
{
	float *all = malloc((size_t)n * SAMPLES * sizeof(*all));
	size_t total = 0, kept = 0;
	struct result r;

	if (!all)
		bench_die("no memory");
	for (unsigned i = 0; i < n; i++) {
		unsigned calls = l->shared->calls[i];
		unsigned keep = calls < SAMPLES ? calls : SAMPLES;

		memcpy(all + kept, l->shared->seconds[i], keep * sizeof(*all));
		kept += keep;
		total += calls;
	}
	qsort(all, kept, sizeof(*all), by_value);
	r = (struct result){ l->seconds / (double)total, (double)all[kept / 2],
			     (double)all[kept * 99 / 100] };
	free(all);
	return r;
}

static struct result run_clients(struct load *l, unsigned n)
{
	pid_t pids[MAX_CLIENTS];
	int status;

	start_clients(l, n, pids);
	for (unsigned i = 0; i < n; i++)
		if (waitpid(pids[i], &status, 0) != pids[i] || status)
			bench_die("client %u failed", i);
	return collect(l, n);
}

/* --- the neighbour ----------------------------------------------------------------------- */

/* Write and read a large array, until killed. */
static void move_large(struct load *l)
{
	const char *path = bench_path(&l->bench, "buffers/large.npy");
	size_t size = BENCH_NPY + LARGE;

	for (;;) {
		int fd = bench_open(path, O_WRONLY | O_CREAT | O_TRUNC);

		bench_write(fd, l->large, size, STEP);
		if (close(fd))
			bench_die("%s was refused", path);
		fd = bench_open(path, O_RDONLY);
		for (size_t at = 0; at < size;) {
			ssize_t n = read(fd, l->large + size + at, STEP);

			if (n <= 0)
				bench_die("%s is too short", path);
			at += (size_t)n;
		}
		close(fd);
		if (memcmp(l->large, l->large + size, size) != 0)
			bench_die("%s holds other bytes than were written", path);
	}
}

static struct result run_beside(struct load *l)
{
	struct result r;
	pid_t pid = fork();
	int status;

	if (pid < 0)
		bench_die("fork: %s", strerror(errno));
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* lest the mount stays busy */
		move_large(l);
		_exit(0);
	}
	r = run_clients(l, 1);
	if (waitpid(pid, &status, WNOHANG) != 0)
		bench_die("the neighbour failed");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return r;
}

/* ----------------------------------------------------------------------------------------- */

static void measure(struct load *l, unsigned round)
{
	struct result r;

	for (unsigned k = 0; k < COUNTS; k++) {
		unsigned i = (k + round) % COUNTS;

		r = run_clients(l, counts[i]);
		l->rate.rows[i].sample[round] = r.each;
		l->median.rows[i].sample[round] = r.median;
		l->tail.rows[i].sample[round] = r.p99;
	}
	r = run_clients(l, 1);
	l->beside.rows[0].sample[round] = r.median;
	l->beside.rows[2].sample[round] = r.p99;
	r = run_beside(l);
	l->beside.rows[1].sample[round] = r.median;
	l->beside.rows[3].sample[round] = r.p99;
}

static void make_tables(struct load *l, unsigned rounds)
{
	static const char *const names[COUNTS] = { "1 client", "2 clients", "4 clients",
						   "16 clients", "64 clients" };
	struct bench_table *tables[] = { &l->rate, &l->median, &l->tail, &l->beside };

	l->rate.title = "Clients: time for each call of all clients together";
	l->median.title = "Clients: median time of a call";
	l->tail.title = "Clients: p99 of the time of a call";
	l->beside.title = "Clients: a call beside a client that moves 64 MiB";
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned k = 0; k < COUNTS; k++)
			bench_add(tables[i], names[k], NULL, 0);
		bench_compare(tables[i], 0, "to 1 client");
	}
	bench_compare(&l->beside, bench_add(&l->beside, "alone, median", NULL, 0),
		      "to alone");
	bench_add(&l->beside, "beside, median", NULL, 0);
	l->beside.group++;
	bench_compare(&l->beside, bench_add(&l->beside, "alone, p99", NULL, 0),
		      "to alone, p99");
	bench_add(&l->beside, "beside, p99", NULL, 0);
	for (unsigned i = 0; i < 4; i++) {
		tables[i]->rounds = rounds;
		bench_prepare(tables[i]);
	}
}

static void *shared_memory(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		       0);

	if (p == MAP_FAILED)
		bench_die("no memory: %zu bytes", len);
	return p;
}

int main(int argc, char **argv)
{
	static struct load l;

	bench_begin(&l.bench, argc, argv);
	l.seconds = l.bench.quick ? 0.2 : 2;
	l.shared = shared_memory(sizeof(*l.shared));
	l.large = shared_memory(2 * (BENCH_NPY + (size_t)LARGE));
	bench_npy_header(l.large, LARGE / sizeof(float));
	for (size_t i = 0; i < LARGE; i++)
		l.large[BENCH_NPY + i] = (char)(i % 63);
	make_tables(&l, l.bench.rounds ? l.bench.rounds : l.bench.quick ? 2 : 9);
	bench_mount(&l.bench);
	bench_put(bench_path(&l.bench, "programs/add.mlir"), add);
	for (unsigned r = 0; r < l.rate.rounds; r++)
		measure(&l, r);
	bench_print(&l.rate);
	for (unsigned k = 0; k < COUNTS; k++)
		printf("%-44s %9.0f calls a second\n", l.rate.rows[k].what,
		       1 / bench_median(l.rate.rows[k].sample, l.rate.rounds));
	bench_print(&l.median);
	bench_print(&l.tail);
	bench_print(&l.beside);
	return 0;
}
