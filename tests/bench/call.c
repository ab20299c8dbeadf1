/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small array in and out: the time of a call, of the same through buffers, of the same
 * through control with the arguments in place, and without a mount.
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
	"  func.func public @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>)\n"
	"      -> tensor<2x3xf32> {\n"
	"    %0 = stablehlo.add %a, %b : tensor<2x3xf32>\n"
	"    return %0 : tensor<2x3xf32>\n"
	"  }\n"
	"}\n";

enum { INNER = 400, PROCESSES = 9, PER_PROCESS = 5, CHILD_S = 120, N = 6 };

struct matrix {
	char header[BENCH_NPY];
	float data[N];
};

/* One process that measures. */
struct client {
	struct bench *bench;
	struct bench_table *table;
	unsigned from, to; /* rounds */
	unsigned inner;
	int call, control, run; /* descriptors */
	struct matrix in[2];
	PJRT_LoadedExecutable *program;
	PJRT_Buffer *arguments[2];
	float next; /* so that no result is that of the call before */
};

typedef void op_fn(struct client *c);

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

static void set_matrix(struct matrix *m, float first)
{
	static const char dict[] =
		"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";

	bench_npy_header(m->header, 0);
	memset(m->header + 10, ' ', BENCH_NPY - 11);
	memcpy(m->header + 10, dict, strlen(dict));
	for (int i = 0; i < N; i++)
		m->data[i] = first + (float)i;
}

static void expect_sum(const float *sum, float a, float b, const char *what)
{
	for (int i = 0; i < N; i++)
		if (sum[i] != a + b + 2 * (float)i)
			bench_die("%s: number %d is %g", what, i, (double)sum[i]);
}

static void change(struct client *c)
{
	c->next = c->next < 1000 ? c->next + 1 : 0;
	c->in[0].data[0] = c->next;
	for (int i = 1; i < N; i++)
		c->in[0].data[i] = c->next + (float)i;
}

/* --- without a mount --------------------------------------------------------------------- */

static void op_direct(struct client *c)
{
	PJRT_Buffer *arguments[2], *z;
	float sum[N];

	change(c);
	arguments[0] = direct_upload(c->in[0].data, N, true);
	arguments[1] = direct_upload(c->in[1].data, N, true);
	z = direct_execute(c->program, arguments, 2);
	direct_read(z, sum, sizeof(sum));
	expect_sum(sum, c->next, 100, "direct");
	direct_free(z);
	direct_free(arguments[0]);
	direct_free(arguments[1]);
}

/* --- through the mount ------------------------------------------------------------------- */

static void op_null(struct client *c)
{
	bench_null(c->control);
}

static void op_call(struct client *c)
{
	struct matrix z;

	change(c);
	if (pwrite(c->call, c->in, sizeof(c->in), 0) != sizeof(c->in) ||
	    pread(c->call, &z, sizeof(z), 0) != sizeof(z))
		bench_die("a call failed");
	expect_sum(z.data, c->next, 100, "call");
}

static void op_control(struct client *c)
{
	bench_ask(c->control,
		  "{\"op\":\"execute\",\"executable\":\"add\",\"inputs\":[\"x\",\"y\"],"
		  "\"outputs\":[\"z\"]}\n",
		  "{\"ok\":true,\"outputs\":[{\"name\":\"z\",");
}

static void put_matrix(struct bench *b, const char *name, const struct matrix *m)
{
	int fd = bench_open(bench_path(b, name), O_WRONLY | O_CREAT | O_TRUNC);

	bench_write(fd, m, sizeof(*m), sizeof(*m));
	if (close(fd))
		bench_die("%s was refused", name);
}

static void op_buffers(struct client *c)
{
	float sum[N];
	int fd;

	change(c);
	put_matrix(c->bench, "buffers/x.npy", &c->in[0]);
	put_matrix(c->bench, "buffers/y.npy", &c->in[1]);
	bench_ask(c->run, "x y -> z\n", "ok: z F32[2,3]");
	fd = bench_open(bench_path(c->bench, "buffers/z.raw"), O_RDONLY);
	if (pread(fd, sum, sizeof(sum), 0) != sizeof(sum))
		bench_die("z.raw cannot be read");
	close(fd);
	expect_sum(sum, c->next, 100, "buffers");
}

#define ROW(name)                                                                        \
	static double row_##name(void *arg)                                              \
	{                                                                                \
		return time_of(arg, op_##name);                                          \
	}
ROW(direct)
ROW(null)
ROW(call)
ROW(control)
ROW(buffers)

static void measure(void *arg)
{
	struct client *c = arg;

	direct_open(c->bench->plugin);
	c->program = direct_compile(add);
	c->call = bench_open(bench_path(c->bench, "executables/add/call"), O_RDWR);
	c->run = bench_open(bench_path(c->bench, "executables/add/run"), O_RDWR);
	c->control = bench_open(bench_path(c->bench, "control"), O_RDWR);
	for (unsigned i = 0; i < c->inner; i++) { /* warm */
		op_direct(c);
		op_call(c);
	}
	bench_rounds(c->table, c->from, c->to, c);
}

/* Calls in a second: the whole loop, not its median. */
static void count(void *arg)
{
	struct client *c = arg;
	static const struct {
		const char *what;
		op_fn *op;
	} loops[] = { { "call", op_call }, { "control, execute", op_control } };
	unsigned n = c->inner * 25;

	c->call = bench_open(bench_path(c->bench, "executables/add/call"), O_RDWR);
	c->control = bench_open(bench_path(c->bench, "control"), O_RDWR);
	for (unsigned round = 0; round < 3; round++)
		for (unsigned l = 0; l < 2; l++) {
			double t = bench_now();

			for (unsigned i = 0; i < n; i++)
				loops[l].op(c);
			printf("%-44s %9.0f a second\n", loops[l].what,
			       n / (bench_now() - t));
		}
}

int main(int argc, char **argv)
{
	struct bench_table t = { .title = "Call: F32[2,3] addition, arrays in and out" };
	struct bench b;
	struct client c = { .bench = &b, .table = &t };
	unsigned processes, direct, null, control;

	bench_begin(&b, argc, argv);
	processes = b.quick ? 1 : PROCESSES;
	c.inner = b.quick ? 20 : INNER;
	t.rounds = b.rounds ? b.rounds : b.quick ? 2 : processes * PER_PROCESS;
	direct =
		bench_add(&t, "direct: upload x 2, execute, ToHostBuffer", row_direct, 0);
	null = bench_add(&t, "control: empty line, read", row_null, 0);
	bench_add(&t, "call: write x and y, read z", row_call, 0);
	control = bench_add(&t, "control: execute with x, y in place, reply", row_control,
			    0);
	bench_add(&t, "write x.npy, y.npy; run; read z.raw", row_buffers, 0);
	bench_compare(&t, direct, "to direct");
	bench_compare(&t, null, "to empty line");
	bench_compare(&t, control, "to control");
	bench_prepare(&t);

	set_matrix(&c.in[0], 0);
	set_matrix(&c.in[1], 100);
	bench_mount(&b);
	bench_put(bench_path(&b, "programs/add.mlir"), add);
	put_matrix(&b, "buffers/x.npy", &c.in[0]);
	put_matrix(&b, "buffers/y.npy", &c.in[1]);
	for (unsigned p = 0; p < processes; p++) {
		c.from = t.rounds * p / processes;
		c.to = t.rounds * (p + 1) / processes;
		bench_in_child(measure, &c, CHILD_S);
	}
	bench_print(&t);
	bench_in_child(count, &c, CHILD_S);
	return 0;
}
