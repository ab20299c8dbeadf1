/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the benchmarks: options, a mount of their own, files, and tables of figures.
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
#include <stdio.h>
#include <sys/types.h>

enum {
	BENCH_CROWD = 1000, /* processes that work at once, at most */
	BENCH_ROWS = 10,
	BENCH_INNER = 2000,   /* operations of a sample, at most */
	BENCH_NPY = 128,      /* bytes of the header of a .npy */
	BENCH_STEP = 1 << 20, /* bytes that are written or read at once */
};
#define BENCH_PLUGIN "plugin" /* its name in the mount */

/* The command line's options, and the mount. */
struct bench {
	const char *sandbox; /* the workers'; NULL: the default */
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
extern struct bench bench;
extern FILE *bench_json; /* the file of --json; NULL: none */

/* One way of doing something. */
struct bench_row {
	const char *what;
	double (*run)(void); /* does it; the seconds that it took */
	void (*operation)(
		void); /* or this is done INNER times; neither: the program sets the samples */
	const char *
		base; /* its group is compared with it, under this name; NULL: it is not */
	unsigned parts; /* of an operation, one of which counts; 0: it has none */
	unsigned which; /* bench_which while it runs */
	bool rate;      /* shown as GB/s of the table's bytes, else as a time */
	bool apart;     /* it begins a group: rows of one are compared */
	unsigned group;
	double *sample; /* seconds, one a round; NAN: none */
};

struct bench_table {
	const char *title;
	struct bench_row rows[BENCH_ROWS]; /* up to one that is nothing */
	uint64_t bytes;
	unsigned inner; /* operations of a sample, of whose times the median counts, */
	bool mean;      /* or the mean */
	bool in_order;  /* each round begins with the first row */
	unsigned rounds, n_rows;
};

/* The row's, so that one function serves several. */
extern unsigned bench_which;

/* End with a sentence and status 1. */
void __attribute__((__noreturn__, __format__(__printf__, 1, 2)))
bench_die(const char *fmt, ...);

/*
 * Read the options --quick, --full, --rounds N, --json FILE, --plugin PATH, --daemon PATH; defaults of
 * the last two are $PJRTFS_BENCH_PLUGIN and ./pjrtfs.  Ends with status 77 without a plugin or
 * without /dev/fuse.
 */
void bench_begin(int argc, char **argv);

/* --- the mount, processes -------------------------------------------------------------- */

/* Make the temporary folder and mount.  Undone when the calling process ends. */
void bench_mount(void);

/* Unmount and remove the temporary folder now, for callers that use _exit. */
void bench_end(void);

/* Start pjrtfs and return when it has mounted; the folders must be there. */
void bench_start_daemon(void);

/* Unmount and wait until the daemon has exited. */
void bench_stop_daemon(void);

/* Unmount PATH; a sentence on stderr if that fails. */
void bench_unmount(const char *path);

/* Remove FOLDER and all in it, but nothing in a mount. */
void bench_remove(const char *folder);

/* The process id in the file NAME of the mount; 0: there is none. */
pid_t bench_pid(const char *name);

/* fork(2), or end. */
pid_t bench_fork(void);

/* Run FN in a process of its own; end if it fails or takes more than SECONDS. */
void bench_in_child(void (*fn)(void), unsigned seconds);

/*
 * N processes that do work at once: each prepares, and waits; the seconds until all wait.  Then they work,
 * with their numbers; the seconds until all have ended.
 */
double bench_gather(unsigned n, void (*prepare)(void), void (*work)(unsigned number));
double bench_release(unsigned n);

/* Run a program, whose output goes to TEXT unless that is NULL; the seconds from fork to its end. */
double bench_run(const char *const argv[], char *text, size_t size);

double bench_now(void);

/* LEN bytes of memory, faulted in unless they are SHARED, with the processes that are forked later. */
void *bench_memory(size_t len, bool shared);

/* A file in tmpfs without a name, but for the one that PATH is set to. */
int bench_memfd(char path[64]);

/* --- tables ---------------------------------------------------------------------------- */

/* Memory for the samples, which processes share; the number of rounds, if no option says it. */
void bench_prepare(struct bench_table *t, unsigned quick, unsigned usual);

/* Run rounds [FROM, TO): in each, every row once, starting with another one each time. */
void bench_rounds(struct bench_table *t, unsigned from, unsigned to);

/* Print the table; with --json also append an object for each row to the file. */
void bench_print(const struct bench_table *t);

double bench_median(double *v, size_t n);

/* Of N times of the operation, the mean and the median. */
double bench_mean(void (*operation)(void), unsigned n);
double bench_typical(void (*operation)(void), unsigned n);

/* --- files: all of these end the program if they fail ------------------------------------ */

/* /MNT/NAME for open(2); in a buffer that the fourth call from now overwrites. */
const char *bench_path(const char *name);

int bench_open(const char *path, int flags);
void bench_write(int fd, const void *data, size_t len);

/* Open the file, write or read all LEN bytes, close it: the seconds that it took. */
double bench_put(const char *path, const void *data, size_t len);
double bench_get(const char *path, void *data, size_t len);

void bench_unlink(const char *path);

/* Write to a file for calls, and read what it answers. */
void bench_call(int fd, const void *in, size_t in_len, void *out, size_t out_len);

/* Write the line LINE to a control file's descriptor; the reply must begin with WANT. */
void bench_ask(int fd, const char *line, const char *want);

/* The same for an empty line, which has no reply: what any question costs. */
void bench_null(int fd);

/* Write the header of a .npy of floats: of a shape as "2, 3", or N (0: a scalar). */
void bench_npy_shape(char dst[BENCH_NPY], const char *shape);
void bench_npy_header(char dst[BENCH_NPY], uint64_t n);

/* A .npy of one float; and put it in the file NAME of the mount. */
struct bench_scalar {
	char header[BENCH_NPY];
	float value;
};
struct bench_scalar bench_scalar(float value);
void bench_put_scalar(const char *name, float value);

/* The addition of two floats; and put it in the mount, with the arguments x and y, 2 and 3. */
extern const char bench_add[];
void bench_put_program(const char *name, const char *text);
void bench_put_add(void);

/* The line that adds x and y, and its reply, in the file "run" or control of the program "add". */
void bench_run_add(int run);
void bench_execute_add(int control);

#endif
