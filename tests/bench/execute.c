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
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "direct.h"

static const char add[] =
	"module @add {\n"
	"  func.func public @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {\n"
	"    %0 = stablehlo.add %a, %b : tensor<f32>\n"
	"    return %0 : tensor<f32>\n"
	"  }\n"
	"}\n";

enum { BATCH = 100, REPEAT = 100 };
enum { INNER = 400, PROCESSES = 9, PER_PROCESS = 5, CHILD_S = 120 };

/* One process that measures. */
struct client {
	struct bench *bench;
	struct bench_table *table;
	unsigned from, to; /* rounds */
	unsigned inner;
	int run, control, z; /* descriptors */
	char *batch;         /* owned: a line */
	int ping[2], pong[2];
	PJRT_LoadedExecutable *program;
	PJRT_Buffer *arguments[2];
};

typedef void op_fn(struct client *c);

/* The median time of one OP. */
static double time_of(struct client *c, op_fn *op)
{
	static double v[INNER];

	for (unsigned i = 0; i < c->inner; i++) {
		double t = bench_now();

		op(c);
		v[i] = bench_now() - t;
	}
	return bench_median(v, c->inner);
}

static void expect_five(float value, const char *what)
{
	if (value != 5)
		bench_die("%s: 2 + 3 = %g", what, (double)value);
}

/* --- without a mount --------------------------------------------------------------------- */

static void op_direct(struct client *c)
{
	PJRT_Buffer *z = direct_execute(c->program, c->arguments, 2);

	expect_five(*direct_pointer(z), "direct");
	direct_free(z);
}

static void op_direct_copies(struct client *c)
{
	const float x = 2, y = 3;
	PJRT_Buffer *arguments[2] = { direct_upload(&x, 0, true),
				      direct_upload(&y, 0, true) };
	PJRT_Buffer *z = direct_execute(c->program, arguments, 2);
	float value;

	direct_read(z, &value, sizeof(value));
	expect_five(value, "direct with copies");
	direct_free(z);
	direct_free(arguments[0]);
	direct_free(arguments[1]);
}

/* Two questions to another process and their answers: what no pair of requests can beat. */
static void op_pipe(struct client *c)
{
	char byte = 0;

	for (int i = 0; i < 2; i++)
		if (write(c->ping[1], &byte, 1) != 1 || read(c->pong[0], &byte, 1) != 1)
			bench_die("the other end of a pipe is gone");
}

static void echo(struct client *c)
{
	char byte;

	if (fork())
		return;
	close(c->ping[1]);
	while (read(c->ping[0], &byte, 1) == 1)
		if (write(c->pong[1], &byte, 1) != 1)
			break;
	_exit(0);
}

/* --- through the mount ------------------------------------------------------------------- */

static void op_null(struct client *c)
{
	bench_null(c->control);
}

static void op_run(struct client *c)
{
	bench_ask(c->run, "x y -> z\n", "ok: z F32[]");
}

static void op_control(struct client *c)
{
	bench_ask(c->control,
		  "{\"op\":\"execute\",\"executable\":\"add\",\"inputs\":[\"x\",\"y\"],"
		  "\"outputs\":[\"z\"]}\n",
		  "{\"ok\":true,\"outputs\":[{\"name\":\"z\",");
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

static void op_batch(struct client *c)
{
	bench_ask(c->control, c->batch, "{\"ok\":true,\"replies\":[{\"ok\":true,");
}

static void op_repeat(struct client *c)
{
	bench_ask(c->run, "s y -> s repeat=100\n", "ok: s F32[]");
}

static void read_z(struct client *c)
{
	const char *path = bench_path(c->bench, "buffers/z.raw");
	int fd = bench_open(path, O_RDONLY);
	float value = 0;

	if (pread(fd, &value, sizeof(value), 0) != sizeof(value))
		bench_die("z.raw cannot be read");
	close(fd);
	expect_five(value, "z.raw");
}

static void op_run_read(struct client *c)
{
	op_run(c);
	read_z(c);
}

#define ROW(name)                                                                        \
	static double row_##name(void *arg)                                              \
	{                                                                                \
		return time_of(arg, op_##name);                                          \
	}
ROW(direct)
ROW(direct_copies)
ROW(pipe)
ROW(null)
ROW(run)
ROW(control)
ROW(run_read)

static double row_step(void *arg)
{
	return time_of(arg, op_batch) / BATCH;
}

static double row_repetition(void *arg)
{
	return time_of(arg, op_repeat) / REPEAT;
}

static void measure(void *arg)
{
	struct client *c = arg;
	const float x = 2, y = 3;

	if (pipe2(c->ping, O_CLOEXEC) || pipe2(c->pong, O_CLOEXEC))
		bench_die("no pipe");
	echo(c);
	close(c->ping[0]);
	direct_open(c->bench->plugin);
	c->program = direct_compile(add);
	c->arguments[0] = direct_upload(&x, 0, true);
	c->arguments[1] = direct_upload(&y, 0, true);
	c->run = bench_open(bench_path(c->bench, "executables/add/run"), O_RDWR);
	c->control = bench_open(bench_path(c->bench, "control"), O_RDWR);
	c->batch = batch_line();
	for (unsigned i = 0; i < c->inner; i++) { /* warm */
		op_direct(c);
		op_run(c);
	}
	bench_rounds(c->table, c->from, c->to, c);
	read_z(c);
	free(c->batch);
}

int main(int argc, char **argv)
{
	struct bench_table t = {
		.title = "Execute: scalar f32 addition, arguments in place"
	};
	struct bench b;
	struct client c = { .bench = &b, .table = &t };
	unsigned processes, direct, null;

	bench_begin(&b, argc, argv);
	processes = b.quick ? 1 : PROCESSES;
	c.inner = b.quick ? 20 : INNER;
	t.rounds = b.rounds ? b.rounds : b.quick ? 2 : processes * PER_PROCESS;
	direct = bench_add(&t, "direct: execute, await, read the pointer", row_direct, 0);
	bench_add(&t, "direct: upload x 2, execute, ToHostBuffer", row_direct_copies, 0);
	bench_add(&t, "two round trips through a pipe", row_pipe, 0);
	null = bench_add(&t, "control: empty line, read", row_null, 0);
	bench_add(&t, "run: 'x y -> z', read the reply", row_run, 0);
	bench_add(&t, "control: {\"op\":\"execute\"}, read the reply", row_control, 0);
	bench_add(&t, "run, read reply; open, read, close z.raw", row_run_read, 0);
	bench_add(&t, "a step of a batch of 100, each fed the last", row_step, 0);
	bench_add(&t, "a repetition of 100: 's y -> s repeat=100'", row_repetition, 0);
	bench_compare(&t, direct, "to direct");
	bench_compare(&t, null, "to empty line");
	bench_prepare(&t);

	bench_mount(&b);
	bench_put(bench_path(&b, "programs/add.mlir"), add);
	bench_put_scalar(&b, "buffers/x.npy", 2);
	bench_put_scalar(&b, "buffers/y.npy", 3);
	bench_put_scalar(&b, "buffers/s.npy", 0);
	for (unsigned p = 0; p < processes; p++) {
		c.from = t.rounds * p / processes;
		c.to = t.rounds * (p + 1) / processes;
		bench_in_child(measure, &c, CHILD_S);
	}
	bench_print(&t);
	return 0;
}
