/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small array in and out: the time of a call, of the same through buffers, of the same
 * through control with the arguments in place, and without a mount.
 *
 * Where the kernel places client, daemon and worker decides about these times, and it does so anew
 * for each process.  So each mount is used by some processes, and there are many mounts.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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

enum { INNER = 2000, FIRST = 200, MOUNTS = 20, PER_MOUNT = 5, CHILD_S = 120, N = 6 };
enum { QUICK_INNER = 20, QUICK_PROCESSES = 2 };

struct matrix {
	char header[BENCH_NPY];
	float data[N];
};

/* One process that measures. */
struct client {
	struct bench *bench;
	struct bench_table *table;
	unsigned round;
	unsigned first_direct, first_call; /* rows: a program's first operations */
	unsigned inner;
	int call, control, run; /* descriptors */
	struct matrix in[2];
	PJRT_LoadedExecutable *program;
	PJRT_Buffer *arguments[2];
	float next; /* so that no result is that of the call before */
};

typedef void op_fn(struct client *c);

/* The mean time of one of N operations. */
static double time_of(struct client *c, op_fn *op, unsigned n)
{
	double t = bench_now();

	for (unsigned i = 0; i < n; i++)
		op(c);
	return (bench_now() - t) / n;
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
		struct client *c = arg;                                                  \
                                                                                         \
		return time_of(c, op_##name, c->inner);                                  \
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
	c->table->rows[c->first_call].sample[c->round] = time_of(c, op_call, FIRST);
	c->table->rows[c->first_direct].sample[c->round] = time_of(c, op_direct, FIRST);
	bench_rounds(c->table, c->round, c->round + 1, c);
}

/* Calls in a second: the whole loop, not its median. */
static void count(void *arg)
{
	struct client *c = arg;
	static const struct {
		const char *what;
		op_fn *op;
	} loops[] = { { "call", op_call }, { "control, execute", op_control } };
	unsigned n = c->inner * 5;

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

/* The processor time of the process whose id is in the file NAME, in seconds. */
static double used(const struct bench *b, const char *name)
{
	pid_t pid = bench_pid(b, name);
	struct timespec t;
	clockid_t clock;

	if (!pid || clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
		bench_die("%s: no processor time", name);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void print_idle(const struct bench *b)
{
	static const char *const names[] = { "pid", "plugins/" BENCH_PLUGIN "/pid" };

	for (unsigned i = 0; i < 2; i++) {
		double before = used(b, names[i]), t = bench_now();

		sleep(b->quick ? 1 : 5); /* real time: it is measured */
		printf("%-44s %9.3f %% of a processor\n",
		       i ? "the worker, without clients" : "the daemon, without clients",
		       100 * (used(b, names[i]) - before) / (bench_now() - t));
	}
}

/* A new mount, with the program and its arguments. */
static void prepare(struct client *c)
{
	bench_put(bench_path(c->bench, "programs/add.mlir"), add);
	put_matrix(c->bench, "buffers/x.npy", &c->in[0]);
	put_matrix(c->bench, "buffers/y.npy", &c->in[1]);
}

int main(int argc, char **argv)
{
	struct bench_table t = {
		.title = "Call: F32[2,3] addition, arrays in and out; 5 processes a mount"
	};
	struct bench b;
	struct client c = { .bench = &b, .table = &t };
	unsigned direct, null;

	bench_begin(&b, argc, argv);
	c.inner = b.quick ? QUICK_INNER : INNER;
	t.rounds = b.rounds ? b.rounds : b.quick ? QUICK_PROCESSES : MOUNTS * PER_MOUNT;
	direct =
		bench_add(&t, "direct: upload x 2, execute, ToHostBuffer", row_direct, 0);
	null = bench_add(&t, "control: empty line, read", row_null, 0);
	bench_add(&t, "call: write x and y, read z", row_call, 0);
	bench_add(&t, "control: execute with x, y in place, reply", row_control, 0);
	bench_add(&t, "write x.npy, y.npy; run; read z.raw", row_buffers, 0);
	t.group++;
	c.first_direct = bench_add(&t, "direct: a program's first 200", NULL, 0);
	c.first_call = bench_add(&t, "call: a program's first 200", NULL, 0);
	bench_compare(&t, direct, "to direct");
	bench_compare(&t, null, "to empty line");
	bench_compare(&t, c.first_direct, "to direct's first");
	bench_prepare(&t);

	set_matrix(&c.in[0], 0);
	set_matrix(&c.in[1], 100);
	bench_mount(&b);
	for (c.round = 0; c.round < t.rounds; c.round++) {
		if (c.round && c.round % PER_MOUNT == 0) {
			bench_stop_daemon(&b);
			bench_start_daemon(&b);
		}
		if (c.round % PER_MOUNT == 0)
			prepare(&c);
		bench_in_child(measure, &c, CHILD_S);
	}
	bench_print(&t);
	bench_in_child(count, &c, CHILD_S);
	print_idle(&b);
	return 0;
}
