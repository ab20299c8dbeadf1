/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large arrays in and out: writes and reads through the mount, compared with tmpfs,
 * memcpy and the copies that the C API itself makes.
 *
 * tmpfs is a memfd: the same code of the kernel, and no mount that must be large enough.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "direct.h"

enum { CHILD_S = 300 };

static uint64_t n;        /* floats of a large array */
static size_t size;       /* bytes of its .npy */
static char *file, *dst;  /* the .npy, and room for another */
static float *data;       /* its numbers */
static char tmpfs[64];    /* the path of a memfd of the same bytes, */
static int memfd;         /* which is overwritten */
static char program[512]; /* adds the array to itself */
static PJRT_LoadedExecutable *twice;
static PJRT_Buffer *x;

/* --- in ---------------------------------------------------------------------------------- */

static double up_tmpfs_fresh(void)
{
	char path[64];
	int fd = bench_memfd(path);
	double t = bench_now();

	bench_write(fd, file, size);
	t = bench_now() - t;
	close(fd);
	return t;
}

static double up_tmpfs_again(void)
{
	double t;

	lseek(memfd, 0, SEEK_SET);
	t = bench_now();
	bench_write(memfd, file, size);
	return bench_now() - t;
}

static double up_direct(void)
{
	double t = bench_now();
	PJRT_Buffer *b = direct_upload(data, n);

	t = bench_now() - t;
	direct_free(b);
	return t;
}

static double up_over(void)
{
	return bench_put(bench_path("buffers/over.npy"), file, size);
}

/* A new name; it is removed outside the timed section. */
static double up_new(void)
{
	static unsigned names;
	char name[64];
	double t;

	snprintf(name, sizeof(name), "buffers/new%u.npy", names++);
	t = bench_put(bench_path(name), file, size);
	bench_unlink(bench_path(name));
	return t;
}

/* --- out --------------------------------------------------------------------------------- */

static void expect(const float *z, const char *what)
{
	for (uint64_t i = 0; i < n; i++)
		if (z[i] != data[i] + data[i])
			bench_die("%s: element %llu is %g, expected %g", what,
				  (unsigned long long)i, (double)z[i],
				  (double)(data[i] + data[i]));
}

static double down_execute_direct(void)
{
	double t = bench_now();
	PJRT_Buffer *z = direct_execute(twice, &x, 1);

	t = bench_now() - t;
	direct_free(z);
	return t;
}

static double down_execute(void)
{
	int fd = bench_open(bench_path("executables/twice/run"), O_RDWR);
	double t = bench_now();

	bench_ask(fd, "x -> z\n", "ok");
	t = bench_now() - t;
	close(fd);
	return t;
}

static double down_again(void)
{
	return bench_get(bench_path("buffers/z.npy"), dst, size);
}

/* The first read of a new result, checked to the last element. */
static double down_first(void)
{
	static float check;
	double t;

	data[n - 1] = ++check;
	bench_put(bench_path("buffers/x.npy"), file, size);
	down_execute();
	memset(dst, 0, size);
	t = down_again();
	expect((float *)(void *)(dst + BENCH_NPY), "z.npy");
	return t;
}

static double down_memcpy(void)
{
	double t = bench_now();

	memcpy(dst, file, size);
	__asm__ volatile("" : : "r"(dst) : "memory");
	return bench_now() - t;
}

static double down_direct(void)
{
	double t = bench_now();

	direct_read(x, dst, n * sizeof(float));
	return bench_now() - t;
}

static double down_tmpfs(void)
{
	return bench_get(tmpfs, dst, size);
}

/* ----------------------------------------------------------------------------------------- */

static char title_up[80], title_down[80];
static struct bench_table up = {
	.title = title_up,
	.rows = {
		{ "tmpfs, new file", up_tmpfs_fresh, .base = "to tmpfs new", .rate = true },
		{ "tmpfs, over the same file", up_tmpfs_again, .base = "to tmpfs over",
		  .rate = true },
		{ "direct: BufferFromHostBuffer, copy", up_direct, .base = "to direct",
		  .rate = true },
		{ "mount, new name", up_new, .rate = true },
		{ "mount, over the same name", up_over, .rate = true },
	},
}, down = {
	.title = title_down,
	.rows = {
		{ "direct: execute", down_execute_direct, .base = "to direct execute" },
		{ "mount: execute", down_execute },
		{ "memcpy", down_memcpy, .base = "to memcpy", .rate = true, .apart = true },
		{ "tmpfs read", down_tmpfs, .base = "to tmpfs read", .rate = true },
		{ "direct: ToHostBuffer", down_direct, .rate = true },
		{ "mount: first read of z.npy", down_first, .rate = true },
		{ "mount: second read", down_again, .rate = true },
	},
};

static void measure(void)
{
	double first[3];
	PJRT_Buffer *z;

	file = bench_memory(size, false);
	dst = bench_memory(size, false);
	data = (float *)(void *)(file + BENCH_NPY);
	bench_npy_header(file, n);
	for (uint64_t i = 0; i < n; i++)
		data[i] = (float)(i % 1021);
	memfd = bench_memfd(tmpfs);
	bench_write(memfd, file, size);
	direct_open(bench.plugin);
	twice = direct_compile(program);
	x = direct_upload(data, n);
	z = direct_execute(twice, &x, 1);
	expect(direct_pointer(z), "direct");
	direct_free(z);
	bench_put_program("twice", program);

	first[0] = up_new();
	bench_put(bench_path("buffers/x.npy"), file, size);
	first[1] = down_execute();
	first[2] = down_again();
	printf("\nThe first of all: write %.1f ms, execute %.1f ms, read %.1f ms\n",
	       first[0] * 1e3, first[1] * 1e3, first[2] * 1e3);

	bench_rounds(&up, 0, up.rounds);
	bench_rounds(&down, 0, down.rounds);
}

int main(int argc, char **argv)
{
	unsigned mib;

	bench_begin(argc, argv);
	mib = bench.quick ? 16 : 256;
	up.bytes = down.bytes = (uint64_t)mib << 20;
	n = up.bytes / sizeof(float);
	size = BENCH_NPY + up.bytes;
	snprintf(
		program, sizeof(program),
		"module @twice {\n"
		"  func.func public @main(%%x: tensor<%1$lluxf32>) -> tensor<%1$lluxf32> {\n"
		"    %%0 = stablehlo.add %%x, %%x : tensor<%1$lluxf32>\n"
		"    return %%0 : tensor<%1$lluxf32>\n"
		"  }\n"
		"}\n",
		(unsigned long long)n);
	snprintf(title_up, sizeof(title_up),
		 "In: a .npy of %u MiB, written in 1 MiB pieces", mib);
	snprintf(title_down, sizeof(title_down), "Out: the result of x + x, %u MiB", mib);
	bench_prepare(&up, 2, 9);
	bench_prepare(&down, 2, 9);
	bench_mount();
	bench_in_child(measure, CHILD_S);
	bench_print(&up);
	bench_print(&down);
	return 0;
}
