/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the benchmarks: options, a mount of their own, and tables of figures.
 *
 * Speed here moves by half from one minute to the next, and with the processor that the
 * kernel picks for a process.  So every figure has baselines that were measured
 * between its own samples, and what counts is the ratio: the median over all rounds of the
 * ratio within one round, with the tenth and the ninetieth percentile.  Where placement
 * matters (execute), rounds are spread over several processes.
 *
 * Any failure ends the program: bench_die.  Results are checked everywhere.
 */
#ifndef PJRTFS_TESTS_BENCH_BENCH_H
#define PJRTFS_TESTS_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { BENCH_ROWS = 24, BENCH_BASES = 3 };
#define BENCH_PLUGIN "plugin" /* its name in the mount */

/* The command line's options. */
struct bench {
	const char *sandbox; /* the workers'; NULL: the default */
	bool cached;         /* whether the daemon has a cache, in DIR/cache */
	bool shared;         /* whether all users may use the mount, */
	bool isolated;       /* each in processes of their own */
	bool quick;          /* only see that all works: little data, few rounds */
	bool full;           /* large steps that take many minutes, too: scale.c */
	unsigned rounds;     /* 0: the benchmark's own number */
	const char *plugin;  /* path of pjrt_plugin.so */
	const char *daemon;  /* path of pjrtfs */
	const char *json; /* bench_print appends a line a row to this file; NULL: none */
	char dir[64];     /* a temporary folder; the mount is DIR/mnt */
	char mnt[80];
};

/* One way of doing something.  Returns the seconds it took. */
typedef double bench_fn(void *arg);

struct bench_row {
	const char *what;
	bench_fn *run;  /* NULL: another row fills it in */
	uint64_t bytes; /* moved by one run: shown as GB/s; 0: shown as time */
	unsigned group;
	double *sample; /* seconds, one a round; NAN: none */
};

/* Rows, compared with some of them.  Only rows of one group are compared. */
struct bench_table {
	const char *title;
	unsigned rounds;
	unsigned n_rows;
	struct bench_row rows[BENCH_ROWS];
	unsigned group; /* of rows that are added */
	unsigned n_bases;
	unsigned bases[BENCH_BASES]; /* indexes of rows */
	const char *base_names[BENCH_BASES];
};

/* End with a sentence and status 1. */
void __attribute__((__noreturn__, __format__(__printf__, 1, 2)))
bench_die(const char *fmt, ...);

/*
 * Read the options --quick, --full, --rounds N, --json FILE, --plugin PATH, --daemon PATH; defaults of
 * the last two are $PJRTFS_BENCH_PLUGIN and ./pjrtfs.  Ends with status 77 without a plugin or
 * without /dev/fuse.
 */
void bench_begin(struct bench *b, int argc, char **argv);

/* Make the temporary folder and mount.  Undone when the calling process ends. */
void bench_mount(struct bench *b);

/* Unmount and remove the temporary folder now, for callers that use _exit. */
void bench_end(const struct bench *b);

/* Start pjrtfs and return when it has mounted; the folders must be there. */
void bench_start_daemon(const struct bench *b);

/* Unmount and wait until the daemon has exited. */
void bench_stop_daemon(const struct bench *b);

/* Unmount PATH; a sentence on stderr if that fails. */
void bench_unmount(const char *path);

/* Remove FOLDER and all in it, but nothing in a mount. */
void bench_remove(const char *folder);

/* Run FN(ARG) in a process of its own; end if it fails or takes more than SECONDS. */
void bench_in_child(void (*fn)(void *arg), void *arg, unsigned seconds);

/* Add a row; its index. */
unsigned bench_add(struct bench_table *t, const char *what, bench_fn *run,
		   uint64_t bytes);

/* Compare every row of its group with row BASE, under NAME. */
void bench_compare(struct bench_table *t, unsigned base, const char *name);

/* Memory for the samples, which processes share.  After the last bench_add. */
void bench_prepare(struct bench_table *t);

/* Run rounds [FROM, TO): in each, every row once, starting with another one each time. */
void bench_rounds(struct bench_table *t, unsigned from, unsigned to, void *arg);

/* Print the table; with --json also append an object for each row to the file. */
void bench_print(const struct bench_table *t);

double bench_now(void);
double bench_median(double *v, size_t n);

/* The process id in the file NAME of the mount; 0: there is none. */
pid_t bench_pid(const struct bench *b, const char *name);

/* /MNT/NAME for open(2); in a buffer that the fourth call from now overwrites. */
const char *bench_path(const struct bench *b, const char *name);

/* Open or end; write all LEN bytes in pieces of STEP and close, or end. */
int bench_open(const char *path, int flags);
void bench_write(int fd, const void *data, size_t len, size_t step);

/* Write the line LINE to a control file's descriptor; the reply must begin with WANT. */
void bench_ask(int fd, const char *line, const char *want);

/* The same for an empty line, which has no reply: what any question costs. */
void bench_null(int fd);

/* Put the text in file PATH. */
void bench_put(const char *path, const char *text);

/*
 * Write the header of a .npy of N floats (0: a scalar) to DST, which has room for
 * BENCH_NPY bytes, its length.
 */
enum { BENCH_NPY = 128 };
void bench_npy_header(char dst[BENCH_NPY], uint64_t n);

/* Put a scalar float in the file NAME of the mount. */
void bench_put_scalar(const struct bench *b, const char *name, float value);

#endif
