/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cp(1) of a large array within the mount, compared with cp of a file as large on tmpfs.
 *
 * tmpfs is a pair of memfds, of which cp is given the paths in /proc: the same code of the
 * kernel, and no mount that must be large enough.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

enum { CHILD_S = 300 };

static char from[64], to[64], tiny[64]; /* in tmpfs; of one byte */
static char big[128], same[128],
	there[128]; /* in the mount: the array; where to: the same device, and another */

static double run(const char *program, const char *a, const char *b)
{
	return bench_run((const char *[]){ program, a, b, NULL }, NULL, 0);
}

/* To pages that are there already; to fresh ones it takes longer. */
static double cp_tmpfs(void)
{
	return run("cp", from, to);
}

static double cp_tiny(void)
{
	return run("cp", tiny, "/dev/null");
}

static double cp_to(const char *path)
{
	double t = run("cp", big, path);

	bench_unlink(path);
	return t;
}

static double cp_same(void)
{
	return cp_to(same);
}

static double cp_there(void)
{
	return cp_to(there);
}

static struct bench_table table = {
	.rows = {
		{ "tmpfs, over the same file", cp_tmpfs, .base = "to tmpfs" },
		{ "cp of one byte", cp_tiny, .base = "to one byte" },
		{ "mount, within a directory", cp_same, .base = "to mount" },
		{ "mount, to another device", cp_there },
	},
};

/* The array, in a file. */
static void fill(int fd)
{
	static char step[BENCH_STEP];
	char header[BENCH_NPY];

	for (size_t i = 0; i < sizeof(step); i++)
		step[i] = (char)(i * 31 % 97);
	bench_npy_header(header, table.bytes / sizeof(float));
	bench_write(fd, header, BENCH_NPY);
	for (uint64_t at = 0; at < table.bytes; at += sizeof(step))
		bench_write(fd, step, sizeof(step));
	if (lseek(fd, 0, SEEK_END) != (off_t)(BENCH_NPY + table.bytes))
		bench_die("the array has another length");
}

static void measure(void)
{
	int fd;

	fill(bench_memfd(from));
	bench_memfd(to);
	bench_write(bench_memfd(tiny), "x", 1);
	snprintf(big, sizeof(big), "%s", bench_path("buffers/big.npy"));
	snprintf(same, sizeof(same), "%s", bench_path("buffers/copy.npy"));
	snprintf(there, sizeof(there), "%s",
		 bench_path("devices/" BENCH_PLUGIN "/1/buffers/copy.npy"));
	fd = bench_open(big, O_WRONLY | O_CREAT);
	fill(fd);
	if (close(fd))
		bench_die("%s was refused", big);

	run("cp", from, to); /* its pages are there from now on */
	bench_rounds(&table, 0, table.rounds);
	run("cp", big, same);
	run("cmp", same, from);
	run("cp", big, there);
	run("cmp", there, from);
}

int main(int argc, char **argv)
{
	char title[80];

	bench_begin(argc, argv);
	table.bytes = bench.quick ? 16u << 20 : 1u << 30;
	snprintf(title, sizeof(title), "cp of a .npy of %llu MiB",
		 (unsigned long long)(table.bytes >> 20));
	table.title = title;
	bench_prepare(&table, 2, 9);
	bench_mount();
	bench_in_child(measure, CHILD_S);
	bench_print(&table);
	return 0;
}
