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

static struct matrix {
	char header[BENCH_NPY];
	float data[N];
} in[2];
static unsigned now;           /* the round */
static int call, control, run; /* descriptors */
static PJRT_LoadedExecutable *program;

static void set_matrix(struct matrix *m, float first)
{
	bench_npy_shape(m->header, "2, 3");
	for (int i = 0; i < N; i++)
		m->data[i] = first + (float)i;
}

static void expect_sum(const float *sum, const char *what)
{
	for (int i = 0; i < N; i++)
		if (sum[i] != in[0].data[i] + in[1].data[i])
			bench_die("%s: number %d is %g", what, i, (double)sum[i]);
}

/* No result is that of the operation before. */
static void change(void)
{
	float next = in[0].data[0] < 1000 ? in[0].data[0] + 1 : 0;

	for (int i = 0; i < N; i++)
		in[0].data[i] = next + (float)i;
}

/* --- without a mount --------------------------------------------------------------------- */

static void op_direct(void)
{
	PJRT_Buffer *arguments[2], *z;
	float sum[N];

	change();
	arguments[0] = direct_upload(in[0].data, N);
	arguments[1] = direct_upload(in[1].data, N);
	z = direct_execute(program, arguments, 2);
	direct_read(z, sum, sizeof(sum));
	expect_sum(sum, "direct");
	direct_free(z);
	direct_free(arguments[0]);
	direct_free(arguments[1]);
}

/* --- through the mount ------------------------------------------------------------------- */

static void op_call(void)
{
	struct matrix z;

	change();
	bench_call(call, in, sizeof(in), &z, sizeof(z));
	expect_sum(z.data, "call");
}

static void op_control(void)
{
	bench_execute_add(control);
}

static void put_matrices(void)
{
	bench_put(bench_path("buffers/x.npy"), &in[0], sizeof(in[0]));
	bench_put(bench_path("buffers/y.npy"), &in[1], sizeof(in[1]));
}

static void op_buffers(void)
{
	float sum[N];

	change();
	put_matrices();
	bench_run_add(run);
	bench_get(bench_path("buffers/z.raw"), sum, sizeof(sum));
	expect_sum(sum, "buffers");
}

enum { FIRST_DIRECT = 4, FIRST_CALL }; /* rows: a program's first operations */
static struct bench_table table = {
	.title = "Call: F32[2,3] addition, arrays in and out; 5 processes a mount",
	.mean = true,
	.rows = {
		{ "direct: upload x 2, execute, ToHostBuffer", .operation = op_direct,
		  .base = "to direct" },
		{ "call: write x and y, read z", .operation = op_call },
		{ "control: execute with x, y in place, reply", .operation = op_control },
		{ "write x.npy, y.npy; run; read z.raw", .operation = op_buffers },
		[FIRST_DIRECT] = { "direct: a program's first 200",
				   .base = "to direct's first", .apart = true },
		[FIRST_CALL] = { "call: a program's first 200" },
	},
};

static void open_files(void)
{
	call = bench_open(bench_path("executables/add/call"), O_RDWR);
	run = bench_open(bench_path("executables/add/run"), O_RDWR);
	control = bench_open(bench_path("control"), O_RDWR);
}

static void measure(void)
{
	direct_open(bench.plugin);
	program = direct_compile(add);
	open_files();
	table.rows[FIRST_CALL].sample[now] = bench_mean(op_call, FIRST);
	table.rows[FIRST_DIRECT].sample[now] = bench_mean(op_direct, FIRST);
	bench_rounds(&table, now, now + 1);
}

/* The processor time of the process whose id is in the file NAME, in seconds. */
static double used(const char *name)
{
	pid_t pid = bench_pid(name);
	struct timespec t;
	clockid_t clock;

	if (!pid || clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
		bench_die("%s: no processor time", name);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void print_idle(const char *what, const char *name)
{
	double before = used(name), t = bench_now();

	sleep(bench.quick ? 1 : 5); /* real time: it is measured */
	printf("%-44s %9.3f %% of a processor\n", what,
	       100 * (used(name) - before) / (bench_now() - t));
}

int main(int argc, char **argv)
{
	bench_begin(argc, argv);
	table.inner = bench.quick ? QUICK_INNER : INNER;
	bench_prepare(&table, QUICK_PROCESSES, MOUNTS * PER_MOUNT);
	set_matrix(&in[0], 0);
	set_matrix(&in[1], 100);
	bench_mount();
	for (now = 0; now < table.rounds; now++) {
		if (now && now % PER_MOUNT == 0) {
			bench_stop_daemon();
			bench_start_daemon();
		}
		if (now % PER_MOUNT == 0) {
			bench_put_program("add", add);
			put_matrices();
		}
		bench_in_child(measure, CHILD_S);
	}
	bench_print(&table);
	print_idle("the daemon, without clients", "pid");
	print_idle("the worker, without clients", "plugins/" BENCH_PLUGIN "/pid");
	return 0;
}
