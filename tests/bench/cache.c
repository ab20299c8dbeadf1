/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time that the cache saves: compiling a program by closing its file, loading the
 * same program from the cache in the next daemon, and the plugin's own compile.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "direct.h"

enum { SIZE = 64 << 10 };

static struct bench b;
static char small[SIZE], large[SIZE];
static unsigned now; /* the round */

static void add_text(char *text, const char *more)
{
	strncat(text, more, SIZE - strlen(text) - 1);
}

/* Programs that differ in each round: the module's name has the round's number. */
static void make_programs(void)
{
	char line[512];

	snprintf(
		small, SIZE,
		"module @add_%d_%u {\n"
		"func.func public @main(%%a: tensor<f32>, %%b: tensor<f32>) -> tensor<f32> {\n"
		"%%0 = stablehlo.add %%a, %%b : tensor<f32>\n"
		"return %%0 : tensor<f32>\n}\n}\n",
		(int)getpid(), now);
	snprintf(
		large, SIZE,
		"module @layers_%d_%u {\nfunc.func public @main(%%v0: tensor<64x128xf32>, "
		"%%w: tensor<128x128xf32>) -> tensor<64x128xf32> {\n",
		(int)getpid(), now);
	for (int i = 0; i < 12; i++) {
		snprintf(
			line, sizeof(line),
			"%%d%d = stablehlo.dot_general %%v%d, %%w, contracting_dims = [1] x [0] "
			": (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>\n"
			"%%e%d = stablehlo.tanh %%d%d : tensor<64x128xf32>\n"
			"%%v%d = stablehlo.exponential %%e%d : tensor<64x128xf32>\n",
			i, i, i, i, i + 1, i);
		add_text(large, line);
	}
	add_text(large, "return %v12 : tensor<64x128xf32>\n}\n}\n");
}

static double direct(void *arg)
{
	double t = bench_now();

	direct_compile(arg);
	return bench_now() - t;
}

/* Put TEXT into programs/; the cache must have said WANT. */
static double put(const char *text, const char *want)
{
	char info[65536] = "";
	double t = bench_now();
	ssize_t n;
	int fd;

	bench_put(bench_path(&b, "programs/p.mlir"), text);
	t = bench_now() - t;
	fd = bench_open(bench_path(&b, "executables/p/info.json"), O_RDONLY);
	n = read(fd, info, sizeof(info) - 1);
	close(fd);
	if (n < 0 || !strstr(info, want))
		bench_die("expected %s in info.json: %s", want, info);
	if (unlink(bench_path(&b, "programs/p.mlir")))
		bench_die("programs/p.mlir stays");
	return t;
}

static double compiled(void *arg)
{
	return put(arg, "\"cache\":\"miss\"");
}

static double cached(void *arg)
{
	return put(arg, "\"cache\":\"hit\"");
}

int main(int argc, char **argv)
{
	struct bench_table t = { .title = "A program, compiled and from the cache" };
	char *const texts[] = { small, large };
	static const char *const names[2][3] = {
		{ "add: PJRT_Client_Compile in this process",
		  "add: cp to programs/, compiled",
		  "add: cp to programs/, from the cache" },
		{ "12 layers: PJRT_Client_Compile in this process",
		  "12 layers: cp to programs/, compiled",
		  "12 layers: cp to programs/, from the cache" },
	};

	bench_begin(&b, argc, argv);
	b.cached = true;
	t.rounds = b.rounds ? b.rounds : b.quick ? 2 : 15;
	for (int i = 0; i < 2; i++, t.group++) {
		unsigned one = bench_add(&t, names[i][0], direct, 0);

		bench_add(&t, names[i][1], compiled, 0);
		bench_add(&t, names[i][2], cached, 0);
		bench_compare(&t, one, i ? "to direct layers" : "to direct add");
	}
	bench_prepare(&t);
	bench_mount(&b);
	direct_open(b.plugin);
	for (now = 0; now < t.rounds; now++) {
		make_programs();
		for (unsigned row = 0; row < 2; row++)
			for (unsigned i = 0; i < 2; i++)
				t.rows[3 * i + row].sample[now] =
					t.rows[3 * i + row].run(texts[i]);
		/* Another daemon: it has the cache alone. */
		bench_stop_daemon(&b);
		bench_start_daemon(&b);
		for (unsigned i = 0; i < 2; i++)
			t.rows[3 * i + 2].sample[now] = t.rows[3 * i + 2].run(texts[i]);
	}
	bench_print(&t);
	bench_end(&b);
	_exit(0); /* without the plugin's destructors */
}
