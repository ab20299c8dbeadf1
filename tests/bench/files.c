/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files: a buffer's .npy of 4 KiB is written, read, listed and asked for its
 * attributes, beside the same loops on a filesystem of FUSE that does nothing else
 * (null_fs.h) and on tmpfs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"
#include "null_fs.h"

enum { INNER = 200, QUICK_INNER = 20, LISTED = 10000, QUICK_LISTED = 1000 };
enum { BYTES = 4096, N = BYTES / sizeof(float), CHILD_S = 600, PLACES = 3, OPS = 5 };

struct npy {
	char header[BENCH_NPY];
	float data[N];
};

/* A folder of files, and one with the files that are listed. */
struct place {
	const char *name;
	char folder[96];
	char listed[96];
};

struct client {
	unsigned inner;  /* operations in a sample */
	unsigned listed; /* files in each list */
	unsigned fresh;  /* counts names */
	struct place places[PLACES];
	struct npy in;
	struct bench_table tables[OPS];
};

static void path_of(char dst[160], const char *folder, const char *prefix, unsigned i)
{
	snprintf(dst, 160, "%s/%s%u.npy", folder, prefix, i);
}

static void write_file(const struct client *c, const char *path)
{
	int fd = bench_open(path, O_WRONLY | O_CREAT | O_TRUNC);

	bench_write(fd, &c->in, sizeof(c->in), sizeof(c->in));
	if (close(fd))
		bench_die("%s was refused: %s", path, strerror(errno));
}

static void read_file(const struct client *c, const char *path)
{
	struct npy out;
	int fd = bench_open(path, O_RDONLY);

	if (read(fd, &out, sizeof(out)) != sizeof(out) ||
	    memcmp(out.data, c->in.data, sizeof(out.data)) != 0)
		bench_die("%s holds other bytes than were written", path);
	close(fd);
}

/* --- one sample: seconds of an operation ------------------------------------------------- */

static double over(struct client *c, const struct place *p)
{
	char path[160];
	double t;

	path_of(path, p->folder, "f", 0);
	t = bench_now();
	for (unsigned i = 0; i < c->inner; i++) {
		c->in.data[0] = (float)i;
		write_file(c, path);
	}
	t = bench_now() - t;
	read_file(c, path);
	return t / c->inner;
}

/* Write a new file; the removal counts, too, because memory is freed there. */
static double fresh(struct client *c, const struct place *p)
{
	double t = bench_now();
	char path[160];

	for (unsigned i = 0; i < c->inner; i++) {
		path_of(path, p->folder, "n", c->fresh++);
		write_file(c, path);
		if (unlink(path))
			bench_die("unlink %s: %s", path, strerror(errno));
	}
	return (bench_now() - t) / c->inner;
}

static double read_again(struct client *c, const struct place *p)
{
	char path[160];
	double t;

	path_of(path, p->folder, "f", 0);
	write_file(c, path);
	t = bench_now();
	for (unsigned i = 0; i < c->inner; i++)
		read_file(c, path);
	return (bench_now() - t) / c->inner;
}

static double stat_again(struct client *c, const struct place *p)
{
	double t = bench_now();
	struct stat st;
	char path[160];

	path_of(path, p->folder, "f", 0);
	for (unsigned i = 0; i < c->inner; i++)
		if (stat(path, &st) || st.st_size != sizeof(c->in))
			bench_die("%s has another size than was written", path);
	return (bench_now() - t) / c->inner;
}

static double list(struct client *c, const struct place *p)
{
	double t = bench_now();
	DIR *dir = opendir(p->listed);
	struct dirent *e;
	unsigned found = 0;
	struct stat st;

	if (!dir)
		bench_die("%s: %s", p->listed, strerror(errno));
	while ((e = readdir(dir)))
		if (e->d_name[0] == 'l') {
			if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
				bench_die("%s: %s", e->d_name, strerror(errno));
			found += st.st_size == sizeof(c->in);
		}
	closedir(dir);
	if (found != c->listed)
		bench_die("%s lists %u files, expected %u", p->listed, found, c->listed);
	return bench_now() - t;
}

/* The rows of an operation, one for each place. */
#define ROWS(op)                                                                         \
	static double op##_tmpfs(void *arg)                                              \
	{                                                                                \
		struct client *c = arg;                                                  \
		return op(c, &c->places[0]);                                             \
	}                                                                                \
	static double op##_null(void *arg)                                               \
	{                                                                                \
		struct client *c = arg;                                                  \
		null_fs_follow();                                                        \
		return op(c, &c->places[1]);                                             \
	}                                                                                \
	static double op##_mount(void *arg)                                              \
	{                                                                                \
		struct client *c = arg;                                                  \
		return op(c, &c->places[2]);                                             \
	}
ROWS(over)
ROWS(fresh)
ROWS(read_again)
ROWS(stat_again)
ROWS(list)

static const struct {
	const char *title;
	bench_fn *run[PLACES];
} ops[OPS] = {
	{ "Files: open, write 4 KiB over the same name, close",
	  { over_tmpfs, over_null, over_mount } },
	{ "Files: open, write 4 KiB to a new name, close, unlink",
	  { fresh_tmpfs, fresh_null, fresh_mount } },
	{ "Files: open, read 4 KiB, close",
	  { read_again_tmpfs, read_again_null, read_again_mount } },
	{ "Files: stat", { stat_again_tmpfs, stat_again_null, stat_again_mount } },
	{ "Files: list a directory, with the attributes of each file",
	  { list_tmpfs, list_null, list_mount } },
};

static void measure(void *arg)
{
	struct client *c = arg;
	char path[160];

	for (unsigned p = 0; p < PLACES; p++)
		for (unsigned i = 0; i < c->listed; i++) {
			path_of(path, c->places[p].listed, "l", i);
			write_file(c, path);
		}
	for (unsigned p = 0; p < PLACES; p++) {
		path_of(path, c->places[p].folder, "f", 0);
		write_file(c, path);
	}
	for (unsigned o = 0; o < OPS; o++)
		bench_rounds(&c->tables[o], 0, c->tables[o].rounds, c);
}

static void make_tables(struct client *c, unsigned rounds)
{
	for (unsigned o = 0; o < OPS; o++) {
		struct bench_table *t = &c->tables[o];

		t->title = ops[o].title;
		t->rounds = rounds;
		for (unsigned p = 0; p < PLACES; p++)
			bench_add(t, c->places[p].name, ops[o].run[p], 0);
		bench_compare(t, 1, "to null filesystem");
		bench_compare(t, 0, "to tmpfs");
		bench_prepare(t);
	}
}

static char tmpfs[] = "/dev/shm/pjrtfs-bench.XXXXXX";

static void remove_tmpfs(void)
{
	bench_remove(tmpfs);
}

/* The folders of files on tmpfs, on the null filesystem and in the mount. */
static void make_places(struct client *c, const struct bench *b)
{
	struct place *p = c->places;

	if (!mkdtemp(tmpfs))
		bench_die("%s: %s", tmpfs, strerror(errno));
	atexit(remove_tmpfs);
	strcpy(p[0].folder, tmpfs);
	snprintf(p[1].folder, sizeof(p[1].folder), "%s/null", b->dir);
	if (mkdir(p[1].folder, 0700))
		bench_die("%s: %s", p[1].folder, strerror(errno));
	null_fs_mount(p[1].folder);
	snprintf(p[2].folder, sizeof(p[2].folder), "%s/buffers", b->mnt);
	for (unsigned i = 0; i < PLACES; i++)
		strcpy(p[i].listed, p[i].folder);
}

int main(int argc, char **argv)
{
	static struct client c = { .places = { { .name = "tmpfs" },
					       { .name = "null filesystem" },
					       { .name = "mount" } } };
	struct bench b;

	bench_begin(&b, argc, argv);
	c.inner = b.quick ? QUICK_INNER : INNER;
	c.listed = b.quick ? QUICK_LISTED : LISTED;
	bench_npy_header(c.in.header, N);
	make_tables(&c, b.rounds ? b.rounds : b.quick ? 2 : 21);
	bench_mount(&b);
	make_places(&c, &b);
	bench_in_child(measure, &c, CHILD_S);
	for (unsigned o = 0; o < OPS; o++)
		bench_print(&c.tables[o]);
	return 0;
}
