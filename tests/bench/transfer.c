/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large arrays in and out: writes and reads through the mount, compared with tmpfs,
 * memcpy and the copies that the C API itself makes.
 *
 * tmpfs is a memfd: the same code of the kernel, and no mount that must be large enough.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "direct.h"

enum { STEP = 1 << 20, CHILD_S = 300 };

struct client {
	struct bench *bench;
	struct bench_table *up, *small, *middle, *down;
	uint64_t n; /* floats of a large array */
	char *file; /* a whole .npy of N floats */
	char *dst;  /* room for the same */
	char *program;
	int memfd;        /* overwritten */
	unsigned fresh;   /* counts names */
	uint64_t small_n; /* floats of the small array that is measured now */
	PJRT_LoadedExecutable *twice;
	PJRT_Buffer *x;
	float check; /* the element that is changed each round */
};

static float *data_of(struct client *c)
{
	return (float *)(void *)(c->file + BENCH_NPY);
}

static size_t size_of(const struct client *c)
{
	return BENCH_NPY + c->n * sizeof(float);
}

/* Anonymous memory of LEN bytes, faulted in, whose data after a header are aligned. */
static char *memory(size_t len)
{
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		bench_die("no memory: %zu bytes", len);
	return p;
}

static int new_memfd(void)
{
	int fd = memfd_create("bench", MFD_CLOEXEC);

	if (fd < 0)
		bench_die("memfd_create: %s", strerror(errno));
	return fd;
}

/* --- in ---------------------------------------------------------------------------------- */

static double up_tmpfs_fresh(void *arg)
{
	struct client *c = arg;
	int fd = new_memfd();
	double t = bench_now();

	bench_write(fd, c->file, size_of(c), STEP);
	t = bench_now() - t;
	close(fd);
	return t;
}

static double up_tmpfs_again(void *arg)
{
	struct client *c = arg;
	double t;

	lseek(c->memfd, 0, SEEK_SET);
	t = bench_now();
	bench_write(c->memfd, c->file, size_of(c), STEP);
	return bench_now() - t;
}

static double up_direct(void *arg)
{
	struct client *c = arg;
	double t = bench_now();
	PJRT_Buffer *b = direct_upload(data_of(c), c->n, true);

	t = bench_now() - t;
	direct_free(b);
	return t;
}

static double write_file(struct client *c, const char *path, size_t len)
{
	double t = bench_now();
	int fd = bench_open(path, O_WRONLY | O_CREAT | O_TRUNC);

	bench_write(fd, c->file, len, STEP);
	if (close(fd))
		bench_die("%s was refused: %s", path, strerror(errno));
	return bench_now() - t;
}

static double up_over(void *arg)
{
	struct client *c = arg;

	return write_file(c, bench_path(c->bench, "buffers/over.npy"), size_of(c));
}

/* A new name; the former one is removed outside the timed section. */
static double up_new(void *arg)
{
	struct client *c = arg;
	const char *path;
	char name[64];
	double t;

	snprintf(name, sizeof(name), "buffers/new%u.npy", c->fresh++);
	path = bench_path(c->bench, name);
	t = write_file(c, path, size_of(c));
	if (unlink(path))
		bench_die("unlink %s: %s", path, strerror(errno));
	return t;
}

/* --- small ------------------------------------------------------------------------------- */

enum { SMALL_INNER = 100 };

static double small_direct(void *arg)
{
	struct client *c = arg;
	double v[SMALL_INNER];

	for (int i = 0; i < SMALL_INNER; i++) {
		double t = bench_now();

		direct_free(direct_upload(data_of(c), c->small_n, true));
		v[i] = bench_now() - t;
	}
	return bench_median(v, SMALL_INNER);
}

static double small_files(struct client *c, const char *path)
{
	double v[SMALL_INNER];

	bench_npy_header(c->file, c->small_n);
	for (int i = 0; i < SMALL_INNER; i++)
		v[i] = write_file(c, path, BENCH_NPY + c->small_n * sizeof(float));
	bench_npy_header(c->file, c->n);
	return bench_median(v, SMALL_INNER);
}

static double small_tmpfs(void *arg)
{
	struct client *c = arg;
	char path[96];
	double t;

	snprintf(path, sizeof(path), "/dev/shm/pjrtfs-bench-%d", (int)getpid());
	t = small_files(c, path);
	unlink(path);
	return t;
}

static double small_mount(void *arg)
{
	struct client *c = arg;

	return small_files(c, bench_path(c->bench, "buffers/small.npy"));
}

/* --- out --------------------------------------------------------------------------------- */

static void expect(struct client *c, const float *z, const char *what)
{
	const float *x = data_of(c);

	for (uint64_t i = 0; i < c->n; i++)
		if (z[i] != x[i] + x[i])
			bench_die("%s: element %llu is %g, expected %g", what,
				  (unsigned long long)i, (double)z[i],
				  (double)(x[i] + x[i]));
}

static double down_execute_direct(void *arg)
{
	struct client *c = arg;
	double t = bench_now();
	PJRT_Buffer *z = direct_execute(c->twice, &c->x, 1);

	t = bench_now() - t;
	direct_free(z);
	return t;
}

static double execute(struct client *c)
{
	static const char line[] = "x -> z\n";
	int fd = bench_open(bench_path(c->bench, "executables/twice/run"), O_RDWR);
	char reply[256] = "";
	double t = bench_now();

	if (write(fd, line, sizeof(line) - 1) < 0 ||
	    read(fd, reply, sizeof(reply) - 1) < 0)
		bench_die("run: %s", strerror(errno));
	t = bench_now() - t;
	close(fd);
	if (strncmp(reply, "ok", 2))
		bench_die("run: %s", reply);
	return t;
}

static double down_execute(void *arg)
{
	return execute(arg);
}

/* Read all of FD to dst. */
static double read_file(struct client *c, int fd)
{
	size_t at = 0, size = size_of(c);
	double t = bench_now();

	while (at < size) {
		ssize_t n = read(fd, c->dst + at, size - at < STEP ? size - at : STEP);

		if (n <= 0)
			bench_die("read: %s", n ? strerror(errno) : "too short");
		at += (size_t)n;
	}
	return bench_now() - t;
}

static double read_z(struct client *c)
{
	double t = bench_now();
	int fd = bench_open(bench_path(c->bench, "buffers/z.npy"), O_RDONLY);

	t = bench_now() - t + read_file(c, fd);
	close(fd);
	return t;
}

/* The first read of a new result, checked to the last element. */
static double down_first(void *arg)
{
	struct client *c = arg;
	double t;

	data_of(c)[c->n - 1] = ++c->check;
	write_file(c, bench_path(c->bench, "buffers/x.npy"), size_of(c));
	execute(c);
	memset(c->dst, 0, size_of(c));
	t = read_z(c);
	expect(c, (float *)(void *)(c->dst + BENCH_NPY), "z.npy");
	return t;
}

static double down_again(void *arg)
{
	return read_z(arg);
}

static double down_memcpy(void *arg)
{
	struct client *c = arg;
	double t = bench_now();

	memcpy(c->dst, c->file, size_of(c));
	__asm__ volatile("" : : "r"(c->dst) : "memory");
	return bench_now() - t;
}

static double down_direct(void *arg)
{
	struct client *c = arg;
	double t = bench_now();

	direct_read(c->x, c->dst, c->n * sizeof(float));
	return bench_now() - t;
}

static double down_tmpfs(void *arg)
{
	struct client *c = arg;

	lseek(c->memfd, 0, SEEK_SET);
	return read_file(c, c->memfd);
}

/* ----------------------------------------------------------------------------------------- */

static void prepare(struct client *c)
{
	c->file = memory(size_of(c));
	c->dst = memory(size_of(c));
	bench_npy_header(c->file, c->n);
	for (uint64_t i = 0; i < c->n; i++)
		data_of(c)[i] = (float)(i % 1021);
	c->memfd = new_memfd();
	bench_write(c->memfd, c->file, size_of(c), STEP);
	direct_open(c->bench->plugin);
	c->twice = direct_compile(c->program);
	c->x = direct_upload(data_of(c), c->n, true);
}

static void measure(void *arg)
{
	struct client *c = arg;
	double first[3];
	PJRT_Buffer *z;

	prepare(c);
	z = direct_execute(c->twice, &c->x, 1);
	expect(c, direct_pointer(z), "direct");
	direct_free(z);
	bench_put(bench_path(c->bench, "programs/twice.mlir"), c->program);

	first[0] = up_new(c);
	write_file(c, bench_path(c->bench, "buffers/x.npy"), size_of(c));
	first[1] = execute(c);
	first[2] = read_z(c);
	printf("\nThe first of all: write %.1f ms, execute %.1f ms, read %.1f ms\n",
	       first[0] * 1e3, first[1] * 1e3, first[2] * 1e3);

	bench_rounds(c->up, 0, c->up->rounds, c);
	c->small_n = 4096 / sizeof(float);
	bench_rounds(c->small, 0, c->small->rounds, c);
	c->small_n = (1 << 20) / sizeof(float);
	bench_rounds(c->middle, 0, c->middle->rounds, c);
	bench_rounds(c->down, 0, c->down->rounds, c);
}

static void make_tables(struct client *c)
{
	uint64_t bytes = c->n * sizeof(float);
	struct bench_table *smalls[] = { c->small, c->middle }, *t = c->up;

	bench_compare(t, bench_add(t, "tmpfs, new file", up_tmpfs_fresh, bytes),
		      "to tmpfs new");
	bench_compare(t, bench_add(t, "tmpfs, over the same file", up_tmpfs_again, bytes),
		      "to tmpfs over");
	bench_compare(t,
		      bench_add(t, "direct: BufferFromHostBuffer, copy", up_direct,
				bytes),
		      "to direct");
	bench_add(t, "mount, new name", up_new, bytes);
	bench_add(t, "mount, over the same name", up_over, bytes);

	for (int i = 0; i < 2; i++) {
		t = smalls[i];
		bench_compare(t,
			      bench_add(t, "direct: BufferFromHostBuffer, copy",
					small_direct, 0),
			      "to direct");
		bench_compare(t,
			      bench_add(t, "tmpfs: open, write, close", small_tmpfs, 0),
			      "to tmpfs");
		bench_add(t, "mount: open, write, close", small_mount, 0);
	}

	t = c->down;
	bench_compare(t, bench_add(t, "direct: execute", down_execute_direct, 0),
		      "to direct execute");
	bench_add(t, "mount: execute", down_execute, 0);
	t->group++;
	bench_compare(t, bench_add(t, "memcpy", down_memcpy, bytes), "to memcpy");
	bench_compare(t, bench_add(t, "tmpfs read", down_tmpfs, bytes), "to tmpfs read");
	bench_add(t, "direct: ToHostBuffer", down_direct, bytes);
	bench_add(t, "mount: first read of z.npy", down_first, bytes);
	bench_add(t, "mount: second read", down_again, bytes);
}

int main(int argc, char **argv)
{
	struct bench_table up = { 0 }, small = { 0 }, middle = { 0 }, down = { 0 };
	struct bench_table *tables[] = { &up, &small, &middle, &down };
	struct client c = {
		.up = &up, .small = &small, .middle = &middle, .down = &down
	};
	char program[512], titles[2][80];
	struct bench b;

	bench_begin(&b, argc, argv);
	c.bench = &b;
	c.n = (b.quick ? 16u << 20 : 256u << 20) / sizeof(float);
	snprintf(program, sizeof(program),
		 "module @twice {\n"
		 "  func.func public @main(%%x: tensor<%lluxf32>) -> tensor<%lluxf32> {\n"
		 "    %%0 = stablehlo.add %%x, %%x : tensor<%lluxf32>\n"
		 "    return %%0 : tensor<%lluxf32>\n"
		 "  }\n"
		 "}\n",
		 (unsigned long long)c.n, (unsigned long long)c.n,
		 (unsigned long long)c.n, (unsigned long long)c.n);
	c.program = program;
	snprintf(titles[0], sizeof(titles[0]),
		 "In: a .npy of %llu MiB, written in 1 MiB pieces",
		 (unsigned long long)(c.n * sizeof(float) >> 20));
	snprintf(titles[1], sizeof(titles[1]), "Out: the result of x + x, %llu MiB",
		 (unsigned long long)(c.n * sizeof(float) >> 20));
	up.title = titles[0];
	small.title = "In: a .npy of 4 KiB";
	middle.title = "In: a .npy of 1 MiB";
	down.title = titles[1];
	make_tables(&c);
	for (int i = 0; i < 4; i++) {
		tables[i]->rounds = b.rounds ? b.rounds : b.quick ? 2 : 9;
		bench_prepare(tables[i]);
	}
	bench_mount(&b);
	bench_in_child(measure, &c, CHILD_S);
	for (int i = 0; i < 4; i++)
		bench_print(tables[i]);
	return 0;
}
