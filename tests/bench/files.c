/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files: a buffer's .npy of 4 KiB is written, made, read, listed and asked for its
 * attributes, beside the same loops on a file system of FUSE that does nothing else
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
enum { BYTES = 4096, N = BYTES / sizeof(float), CHILD_S = 600 };

static struct {
	char header[BENCH_NPY];
	float data[N];
} in;
static unsigned inner;  /* operations in a sample */
static unsigned listed; /* files in each list */

/* The places are rows of each table: bench_which is one of them. */
enum { TMPFS, NULL_FS, MOUNT, PLACES };
static char folders[PLACES][96] = { [TMPFS] = "/dev/shm/pjrtfs-bench.XXXXXX" };

/* Name I, in one of two buffers. */
static const char *path_of(const char *prefix, unsigned i)
{
	static char paths[2][160];
	static unsigned next;
	char *path = paths[next++ % 2];

	snprintf(path, sizeof(paths[0]), "%s/%s%u.npy", folders[bench_which], prefix, i);
	return path;
}

static void write_file(const char *path)
{
	bench_put(path, &in, sizeof(in));
}

static void read_file(const char *path)
{
	char out[sizeof(in)];

	bench_get(path, out, sizeof(out));
	if (memcmp(out + BENCH_NPY, in.data, sizeof(in.data)) != 0)
		bench_die("%s holds other bytes than were written", path);
}

/* --- one sample: seconds of an operation ------------------------------------------------- */

static double over(void)
{
	const char *path = path_of("f", 0);
	double t = bench_now();

	for (unsigned i = 0; i < inner; i++) {
		in.data[0] = (float)i;
		write_file(path);
	}
	t = bench_now() - t;
	read_file(path);
	return t / inner;
}

static double new_names(void)
{
	double t = bench_now();

	for (unsigned i = 0; i < inner; i++)
		write_file(path_of("n", i));
	t = bench_now() - t;
	for (unsigned i = 0; i < inner; i++)
		if (unlink(path_of("n", i)))
			bench_die("%s: %s", path_of("n", i), strerror(errno));
	return t / inner;
}

static double read_again(void)
{
	const char *path = path_of("f", 0);
	double t;

	write_file(path);
	t = bench_now();
	for (unsigned i = 0; i < inner; i++)
		read_file(path);
	return (bench_now() - t) / inner;
}

static double stat_again(void)
{
	const char *path = path_of("f", 0);
	double t = bench_now();
	struct stat st;

	for (unsigned i = 0; i < inner; i++)
		if (stat(path, &st) || st.st_size != sizeof(in))
			bench_die("%s has another size than was written", path);
	return (bench_now() - t) / inner;
}

static double list(void)
{
	const char *folder = folders[bench_which];
	double t = bench_now();
	DIR *dir = opendir(folder);
	struct dirent *e;
	unsigned found = 0;
	struct stat st;

	if (!dir)
		bench_die("%s: %s", folder, strerror(errno));
	while ((e = readdir(dir)))
		if (e->d_name[0] == 'l') {
			if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
				bench_die("%s: %s", e->d_name, strerror(errno));
			found += st.st_size == sizeof(in);
		}
	closedir(dir);
	if (found != listed)
		bench_die("%s lists %u files, expected %u", folder, found, listed);
	return bench_now() - t;
}

static const struct {
	const char *title;
	double (*run)(void);
} operations[] = {
	{ "Files: open, write 4 KiB over the same name, close", over },
	{ "Files: open, write 4 KiB to a new name, close", new_names },
	{ "Files: open, read 4 KiB, close", read_again },
	{ "Files: stat", stat_again },
	{ "Files: list a directory, with the attributes of each file", list },
};
enum { OPERATIONS = sizeof(operations) / sizeof(operations[0]) };
static struct bench_table tables[OPERATIONS];
static unsigned operation; /* of the table that is measured */

static double run(void)
{
	if (bench_which == NULL_FS)
		null_fs_follow();
	return operations[operation].run();
}

static void measure(void)
{
	for (bench_which = 0; bench_which < PLACES; bench_which++) {
		for (unsigned i = 0; i < listed; i++)
			write_file(path_of("l", i));
		write_file(path_of("f", 0));
	}
	for (operation = 0; operation < OPERATIONS; operation++)
		bench_rounds(&tables[operation], 0, tables[operation].rounds);
}

static void make_table(struct bench_table *t, const char *title)
{
	*t = (struct bench_table){
		.title = title,
		.rows = { { "tmpfs", run, .base = "to tmpfs", .which = TMPFS },
			  { "null file system", run, .base = "to null file system",
			    .which = NULL_FS },
			  { "mount", run, .which = MOUNT } },
	};
	bench_prepare(t, 2, 21);
}

static void remove_tmpfs(void)
{
	bench_remove(folders[TMPFS]);
}

int main(int argc, char **argv)
{
	bench_begin(argc, argv);
	inner = bench.quick ? QUICK_INNER : INNER;
	listed = bench.quick ? QUICK_LISTED : LISTED;
	bench_npy_header(in.header, N);
	for (unsigned o = 0; o < OPERATIONS; o++)
		make_table(&tables[o], operations[o].title);
	bench_mount();
	if (!mkdtemp(folders[TMPFS]))
		bench_die("%s: %s", folders[TMPFS], strerror(errno));
	atexit(remove_tmpfs);
	snprintf(folders[NULL_FS], sizeof(folders[0]), "%s/null", bench.dir);
	if (mkdir(folders[NULL_FS], 0700))
		bench_die("%s: %s", folders[NULL_FS], strerror(errno));
	null_fs_mount(folders[NULL_FS]);
	snprintf(folders[MOUNT], sizeof(folders[0]), "%s/buffers", bench.mnt);
	bench_in_child(measure, CHILD_S);
	for (unsigned o = 0; o < OPERATIONS; o++)
		bench_print(&tables[o]);
	return 0;
}
