/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cp(1) of a large array within the mount, compared with cp of a file as large on tmpfs.
 *
 * tmpfs is a pair of memfds, of which cp is given the paths in /proc: the same code of the
 * kernel, and no mount that must be large enough.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { STEP = 1 << 20, CHILD_S = 300 };

struct client {
	struct bench *bench;
	struct bench_table *table;
	uint64_t n;                      /* floats */
	char *step;                      /* STEP bytes of the file */
	int from, to;                    /* memfds */
	char from_path[64], to_path[64]; /* theirs, for cp */
	char tiny_path[64], big[128];    /* a file of one byte; the array in the mount */
	char copy[128], there[128];      /* where to: the same device, and another */
};

static size_t size_of(const struct client *c)
{
	return BENCH_NPY + c->n * sizeof(float);
}

/* Run a program; the seconds from fork to its end. */
static double run(const char *program, const char *a, const char *b)
{
	double t = bench_now();
	pid_t pid = fork();
	int status;

	if (pid < 0)
		bench_die("fork: %s", strerror(errno));
	if (pid == 0) {
		execlp(program, program, a, b, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	t = bench_now() - t;
	if (status)
		bench_die("%s %s %s ended with status %d", program, a, b, status);
	return t;
}

static int new_memfd(char path[64])
{
	int fd = memfd_create("bench", 0);

	if (fd < 0)
		bench_die("memfd_create: %s", strerror(errno));
	snprintf(path, 64, "/proc/%d/fd/%d", (int)getpid(), fd);
	return fd;
}

/* --- what is measured ---------------------------------------------------------------------- */

/* To pages that are there already; to fresh ones it takes longer. */
static double cp_tmpfs(void *arg)
{
	struct client *c = arg;

	return run("cp", c->from_path, c->to_path);
}

static double cp_tiny(void *arg)
{
	struct client *c = arg;

	return run("cp", c->tiny_path, "/dev/null");
}

static double cp_to(struct client *c, const char *path)
{
	double t = run("cp", c->big, path);

	if (unlink(path))
		bench_die("unlink %s: %s", path, strerror(errno));
	return t;
}

static double cp_shared(void *arg)
{
	struct client *c = arg;

	return cp_to(c, c->copy);
}

static double cp_device(void *arg)
{
	struct client *c = arg;

	return cp_to(c, c->there);
}

/* ------------------------------------------------------------------------------------------- */

static void fill(struct client *c, int fd)
{
	size_t left = size_of(c);
	char header[BENCH_NPY];

	bench_npy_header(header, c->n);
	bench_write(fd, header, BENCH_NPY, STEP);
	for (left -= BENCH_NPY; left; left -= left < STEP ? left : STEP)
		bench_write(fd, c->step, left < STEP ? left : STEP, STEP);
}

static void measure(void *arg)
{
	struct client *c = arg;
	int fd, tiny;

	c->step = malloc(STEP);
	if (!c->step)
		bench_die("no memory");
	for (size_t i = 0; i < STEP; i++)
		c->step[i] = (char)(i * 31 % 97);
	c->from = new_memfd(c->from_path);
	c->to = new_memfd(c->to_path);
	tiny = new_memfd(c->tiny_path);
	bench_write(tiny, "x", 1, 1);
	fill(c, c->from);
	snprintf(c->big, sizeof(c->big), "%s", bench_path(c->bench, "buffers/big.npy"));
	snprintf(c->copy, sizeof(c->copy), "%s",
		 bench_path(c->bench, "buffers/copy.npy"));
	snprintf(c->there, sizeof(c->there),
		 "%s/devices/" BENCH_PLUGIN "/1/buffers/copy.npy", c->bench->mnt);
	fd = bench_open(c->big, O_WRONLY | O_CREAT);
	fill(c, fd);
	if (close(fd))
		bench_die("%s was refused: %s", c->big, strerror(errno));

	run("cp", c->from_path, c->to_path); /* its pages are there from now on */
	bench_rounds(c->table, 0, c->table->rounds, c);
	run("cp", c->big, c->copy);
	run("cmp", c->copy, c->from_path);
	run("cp", c->big, c->there);
	run("cmp", c->there, c->from_path);
}

int main(int argc, char **argv)
{
	struct bench_table table = { 0 };
	struct client c = { .table = &table };
	char title[80];
	struct bench b;
	uint64_t bytes;

	bench_begin(&b, argc, argv);
	c.bench = &b;
	bytes = b.quick ? 16u << 20 : 1u << 30;
	c.n = bytes / sizeof(float);
	snprintf(title, sizeof(title), "cp of a .npy of %llu MiB",
		 (unsigned long long)(bytes >> 20));
	table.title = title;
	table.rounds = b.rounds ? b.rounds : b.quick ? 2 : 9;
	bench_compare(&table, bench_add(&table, "tmpfs, over the same file", cp_tmpfs, 0),
		      "to tmpfs");
	bench_compare(&table, bench_add(&table, "cp of one byte", cp_tiny, 0),
		      "to one byte");
	bench_compare(&table,
		      bench_add(&table, "mount, within a directory", cp_shared, 0),
		      "to mount");
	bench_add(&table, "mount, to another device", cp_device, 0);
	bench_prepare(&table);
	bench_mount(&b);
	bench_in_child(measure, &c, CHILD_S);
	bench_print(&table);
	return 0;
}
