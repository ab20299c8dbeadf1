/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time that the cache saves: compiling a program by closing its file, loading the
 * same program from the cache in the next daemon, and the plugin's own compile.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "direct.h"

enum { SIZE = 64 << 10, PROGRAMS = 2 };

static char texts[PROGRAMS][SIZE]; /* a small and a large one */

/* Programs that differ in each round: the module's name has the round's number. */
static void make_programs(unsigned round)
{
	FILE *f = fmemopen(texts[0], SIZE, "w");

	fprintf(f,
		"module @add_%d_%u {\n"
		"func.func public @main(%%a: tensor<f32>, %%b: tensor<f32>) -> tensor<f32> {\n"
		"%%0 = stablehlo.add %%a, %%b : tensor<f32>\n"
		"return %%0 : tensor<f32>\n}\n}\n",
		(int)getpid(), round);
	fclose(f);
	f = fmemopen(texts[1], SIZE, "w");
	fprintf(f,
		"module @layers_%d_%u {\nfunc.func public @main(%%v0: tensor<64x128xf32>, "
		"%%w: tensor<128x128xf32>) -> tensor<64x128xf32> {\n",
		(int)getpid(), round);
	for (int i = 0; i < 12; i++)
		fprintf(f,
			"%%d%d = stablehlo.dot_general %%v%d, %%w, contracting_dims = [1] x [0] "
			": (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>\n"
			"%%e%d = stablehlo.tanh %%d%d : tensor<64x128xf32>\n"
			"%%v%d = stablehlo.exponential %%e%d : tensor<64x128xf32>\n",
			i, i, i, i, i + 1, i);
	fprintf(f, "return %%v12 : tensor<64x128xf32>\n}\n}\n");
	fclose(f);
}

static double direct(const char *text)
{
	double t = bench_now();

	direct_compile(text);
	return bench_now() - t;
}

/* Put TEXT into programs/; the cache must have said WANT. */
static double put(const char *text, const char *want)
{
	char info[65536] = "";
	double t = bench_now();
	int fd;

	bench_put_program("p", text);
	t = bench_now() - t;
	fd = bench_open(bench_path("executables/p/info.json"), O_RDONLY);
	if (read(fd, info, sizeof(info) - 1) < 0 || !strstr(info, want))
		bench_die("expected %s in info.json: %s", want, info);
	close(fd);
	bench_unlink(bench_path("programs/p.mlir"));
	return t;
}

enum { DIRECT, COMPILED, CACHED, ROWS };
static struct bench_table table = {
	.title = "A program, compiled and from the cache",
	.rows = {
		{ "add: PJRT_Client_Compile in this process", .base = "to direct add" },
		{ "add: cp to programs/, compiled" },
		{ "add: cp to programs/, from the cache" },
		{ "12 layers: PJRT_Client_Compile in this process",
		  .base = "to direct layers", .apart = true },
		{ "12 layers: cp to programs/, compiled" },
		{ "12 layers: cp to programs/, from the cache" },
	},
};

static void set(unsigned program, unsigned row, unsigned round, double seconds)
{
	table.rows[ROWS * program + row].sample[round] = seconds;
}

int main(int argc, char **argv)
{
	bench_begin(argc, argv);
	bench.cached = true;
	bench_prepare(&table, 2, 15);
	bench_mount();
	direct_open(bench.plugin);
	for (unsigned r = 0; r < table.rounds; r++) {
		make_programs(r);
		for (unsigned i = 0; i < PROGRAMS; i++)
			set(i, DIRECT, r, direct(texts[i]));
		for (unsigned i = 0; i < PROGRAMS; i++)
			set(i, COMPILED, r, put(texts[i], "\"cache\":\"miss\""));
		/* Another daemon: it has the cache alone. */
		bench_stop_daemon();
		bench_start_daemon();
		for (unsigned i = 0; i < PROGRAMS; i++)
			set(i, CACHED, r, put(texts[i], "\"cache\":\"hit\""));
	}
	bench_print(&table);
	bench_end();
	_exit(0); /* without the plugin's destructors */
}
