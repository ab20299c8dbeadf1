/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that calls the addition of two numbers in a loop, alone and beside a process that writes
 * and reads a large array.  pjrtfs-bench measures many that call, and scale.c how their number counts.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { SAMPLES = 1 << 20 };
enum { LARGE = 64 << 20, LARGE_NPY = BENCH_NPY + LARGE };

static double seconds; /* of a sample */
static char *large;    /* a .npy of LARGE bytes, and room for another */

/* --- the client --------------------------------------------------------------------------- */

/* The seconds of a call. */
struct result {
	double median, p99;
};

/* Call until the time is over. */
static struct result call_all(void)
{
	static double each[SAMPLES];
	struct bench_scalar in[2] = { bench_scalar(0), bench_scalar(1) }, out;
	int call = bench_open(bench_path("executables/add/call"), O_RDWR);
	double t, now = bench_now(), end = now + seconds;
	unsigned n = 0;

	for (; now < end && n < SAMPLES; n++) {
		t = now;
		in[0].value = (float)(n % 1000);
		bench_call(call, in, sizeof(in), &out, sizeof(out));
		if (out.value != in[0].value + 1)
			bench_die("%g + 1 gave %g", (double)in[0].value,
				  (double)out.value);
		now = bench_now();
		each[n] = now - t;
	}
	close(call);
	t = bench_median(each, n); /* sorts them */
	return (struct result){ t, each[(size_t)n * 99 / 100] };
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
	r = call_all();
	if (waitpid(pid, &status, WNOHANG) != 0)
		bench_die("the neighbour failed");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return r;
}

/* ----------------------------------------------------------------------------------------- */

static struct bench_table beside = {
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
	for (unsigned i = 0; i < 2; i++) {
		struct result r = i ? run_beside() : call_all();

		beside.rows[i].sample[round] = r.median;
		beside.rows[2 + i].sample[round] = r.p99;
	}
}

int main(int argc, char **argv)
{
	bench_begin(argc, argv);
	seconds = bench.quick ? 0.2 : 2;
	large = bench_memory(2 * (size_t)LARGE_NPY, true);
	bench_npy_header(large, LARGE / sizeof(float));
	for (size_t i = 0; i < LARGE; i++)
		large[BENCH_NPY + i] = (char)(i % 63);
	bench_prepare(&beside, 2, 9);
	bench_mount();
	bench_put_program("add", bench_add);
	for (unsigned r = 0; r < beside.rounds; r++)
		measure(r);
	bench_print(&beside);
	return 0;
}
