/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of the worker's sandbox: the start, a compile and the round trip of a small execution,
 * in mounts with the sandboxes off and strict by turns.
 */
#include <fcntl.h>
#include <unistd.h>

#include "bench.h"

enum { INNER = 2000, QUICK_INNER = 20, ROUNDS = 25 };
enum { OFF, STRICT, N_MODES };

static const char *const modes[N_MODES] = { [OFF] = "off", [STRICT] = "strict" };

/* A row for each mode. */
enum { START = 0 * N_MODES, COMPILE = 1 * N_MODES, EXECUTE = 2 * N_MODES };
static struct bench_table table = {
	.title = "The sandbox strict, compared with none",
	.rows = {
		{ "off: from the command to the mount", .base = "start, to off" },
		{ "strict: the same" },
		{ "off: compile add", .base = "compile, to off", .apart = true },
		{ "strict: the same" },
		{ "off: run: 'x y -> z', read the reply", .base = "run, to off", .apart = true },
		{ "strict: the same" },
	},
};

static int run;

static void execute(void)
{
	bench_run_add(run);
}

/* One round of one mode; its mount takes the place of the one before. */
static void sample(unsigned mode, unsigned round)
{
	struct bench_row *rows = &table.rows[mode];
	double begin;

	bench.sandbox = modes[mode];
	bench_stop_daemon();
	begin = bench_now();
	bench_start_daemon();
	rows[START].sample[round] = bench_now() - begin;
	begin = bench_now();
	bench_put_program("add", bench_add);
	rows[COMPILE].sample[round] = bench_now() - begin;
	bench_put_scalar("buffers/x.npy", 2);
	bench_put_scalar("buffers/y.npy", 3);
	run = bench_open(bench_path("executables/add/run"), O_RDWR);
	rows[EXECUTE].sample[round] =
		bench_typical(execute, bench.quick ? QUICK_INNER : INNER);
	close(run);
}

int main(int argc, char **argv)
{
	bench_begin(argc, argv);
	bench_prepare(&table, 1, ROUNDS);
	bench_mount();
	for (unsigned r = 0; r < table.rounds; r++)
		for (unsigned i = 0; i < N_MODES; i++)
			sample((i + r) % N_MODES, r);
	bench_print(&table);
	return 0;
}
