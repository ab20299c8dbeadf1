/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The round trip of a small execution: a scalar addition whose arguments are in place.
 *
 * Rounds are spread over processes, since how long two processes take to wake each other
 * depends on where the kernel put them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"
#include "direct.h"

enum { BATCH = 100, REPEAT = 100 };
enum { INNER = 400, PROCESSES = 9, PER_PROCESS = 5, CHILD_S = 120 };

static unsigned from, to; /* rounds of the process that measures */
static int run, control;  /* descriptors */
static char *batch;       /* a line */
static PJRT_LoadedExecutable *program;
static PJRT_Buffer *arguments[2];

static void expect_five(float value, const char *what)
{
	if (value != 5)
		bench_die("%s: 2 + 3 = %g", what, (double)value);
}

/* --- without a mount --------------------------------------------------------------------- */

static void op_direct(void)
{
	PJRT_Buffer *z = direct_execute(program, arguments, 2);

	expect_five(*direct_pointer(z), "direct");
	direct_free(z);
}

/* --- through the mount ------------------------------------------------------------------- */

static void op_null(void)
{
	bench_null(control);
}

static void op_run(void)
{
	bench_run_add(run);
}

static void op_control(void)
{
	bench_execute_add(control);
}

/* A batch of additions, of which each takes what the one before gave; the caller frees it. */
static char *batch_line(void)
{
	char *line = NULL;
	size_t len;
	FILE *f = open_memstream(&line, &len);

	if (!f)
		bench_die("no memory");
	for (int i = 0; i < BATCH; i++)
		fprintf(f,
			"%s{\"op\":\"execute\",\"executable\":\"add\",\"inputs\":"
			"[\"%s\",\"y\"],\"outputs\":[\"%s\"]}",
			i ? "," : "{\"op\":\"batch\",\"steps\":[", i ? "s" : "x",
			i + 1 < BATCH ? "s" : "t");
	fprintf(f, "]}\n");
	if (fclose(f))
		bench_die("no memory");
	return line;
}

static void op_batch(void)
{
	bench_ask(control, batch, "{\"ok\":true,\"replies\":[{\"ok\":true,");
}

static void op_repeat(void)
{
	bench_ask(run, "s y -> s repeat=100\n", "ok: s F32[]");
}

static struct bench_table table = {
	.title = "Execute: scalar f32 addition, arguments in place",
	.rows = {
		{ "direct: execute, await, read the pointer", .operation = op_direct,
		  .base = "to direct" },
		{ "control: empty line, read", .operation = op_null,
		  .base = "to empty line" },
		{ "run: 'x y -> z', read the reply", .operation = op_run },
		{ "control: {\"op\":\"execute\"}, read the reply",
		  .operation = op_control },
		{ "a step of a batch of 100, each fed the last", .operation = op_batch,
		  .parts = BATCH },
		{ "a repetition of 100: 's y -> s repeat=100'", .operation = op_repeat,
		  .parts = REPEAT },
	},
};

static void measure(void)
{
	const float x = 2, y = 3;

	direct_open(bench.plugin);
	program = direct_compile(bench_add);
	arguments[0] = direct_upload(&x, 0);
	arguments[1] = direct_upload(&y, 0);
	run = bench_open(bench_path("executables/add/run"), O_RDWR);
	control = bench_open(bench_path("control"), O_RDWR);
	batch = batch_line();
	for (unsigned i = 0; i < table.inner; i++) { /* warm */
		op_direct();
		op_run();
	}
	bench_rounds(&table, from, to);
	free(batch);
}

int main(int argc, char **argv)
{
	unsigned processes;

	bench_begin(argc, argv);
	processes = bench.quick ? 1 : PROCESSES;
	table.inner = bench.quick ? 20 : INNER;
	bench_prepare(&table, 2, PROCESSES * PER_PROCESS);
	bench_mount();
	bench_put_add();
	bench_put_scalar("buffers/s.npy", 0);
	for (unsigned p = 0; p < processes; p++) {
		from = table.rounds * p / processes;
		to = table.rounds * (p + 1) / processes;
		bench_in_child(measure, CHILD_S);
	}
	bench_print(&table);
	return 0;
}
