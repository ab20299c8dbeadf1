/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TAIL_ROUNDS = 20 /* fewer have no p99 */ };
enum { SKIP = 77, START_S = 120, STOP_S = 20 };

static struct bench mounted; /* to be undone by process mounted_by */
static pid_t mounted_by;
static FILE *json; /* of --json; NULL: none */

void bench_die(const char *fmt, ...)
{
	va_list ap;

	fputs("bench: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* --- options, processes, the mount ----------------------------------------------------- */

static void __attribute__((__noreturn__)) skip(const char *why)
{
	printf("SKIP: %s\n", why);
	exit(SKIP);
}

void bench_begin(struct bench *b, int argc, char **argv)
{
	*b = (struct bench){ .plugin = getenv("PJRTFS_BENCH_PLUGIN"),
			     .daemon = "./pjrtfs" };
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--quick"))
			b->quick = true;
		else if (!strcmp(argv[i], "--full"))
			b->full = true;
		else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
			b->rounds = (unsigned)strtoul(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--json") && i + 1 < argc)
			b->json = argv[++i];
		else if (!strcmp(argv[i], "--plugin") && i + 1 < argc)
			b->plugin = argv[++i];
		else if (!strcmp(argv[i], "--daemon") && i + 1 < argc)
			b->daemon = argv[++i];
		else
			bench_die(
				"usage: %s [--quick | --full] [--rounds N] [--json FILE] "
				"[--plugin PATH] [--daemon PATH]",
				argv[0]);
	}
	if (!b->plugin || access(b->plugin, R_OK))
		skip("no plugin: scripts/fetch-plugins fetches some");
	if (access("/dev/fuse", R_OK | W_OK))
		skip("/dev/fuse is missing or may not be opened");
	if (access(b->daemon, X_OK))
		bench_die("%s is not built", b->daemon);
	setvbuf(stdout, NULL, _IOLBF, 0);
	json = b->json ? fopen(b->json, "ae") : NULL;
	if (b->json && !json)
		bench_die("%s: %s", b->json, strerror(errno));
	if (json)
		setvbuf(json, NULL, _IOLBF, 0);
	/* Daemons are children of this process, which need not wait for the slow init of some
	 * containers. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* The status of PID, which is killed when it takes more than SECONDS. */
static int reap(pid_t pid, unsigned seconds)
{
	double end = bench_now() + seconds;
	struct timespec pause = { .tv_nsec = 200000 };
	int status;
	pid_t r;

	while ((r = waitpid(pid, &status, WNOHANG)) == 0 && bench_now() < end)
		nanosleep(&pause, NULL); /* real time: in a loop that looks again */
	if (r == 0) {
		fprintf(stderr, "bench: still running after %u s, killed\n", seconds);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	return status;
}

static int run(char *const argv[], bool quiet, unsigned seconds)
{
	pid_t pid = fork();

	if (pid < 0)
		bench_die("fork: %s", strerror(errno));
	if (pid == 0) {
		int null = quiet ? open("/dev/null", O_WRONLY) : -1;

		if (null >= 0)
			dup2(null, 2);
		execvp(argv[0], argv);
		_exit(127);
	}
	return reap(pid, seconds);
}

void bench_in_child(void (*fn)(void *arg), void *arg, unsigned seconds)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		bench_die("fork: %s", strerror(errno));
	if (pid == 0) {
		fn(arg);
		fflush(stdout);
		_exit(0); /* without the plugin's destructors */
	}
	status = reap(pid, seconds);
	if (status)
		exit(1);
}

void bench_start_daemon(const struct bench *b)
{
	char cache[96], plugin[512];
	char *argv[14] = { (char *)(uintptr_t)b->daemon, "--plugin", plugin,
			   (char *)(uintptr_t)b->mnt };
	int n = 4;

	snprintf(plugin, sizeof(plugin), BENCH_PLUGIN "=%s", b->plugin);
	snprintf(cache, sizeof(cache), "%s/cache", b->dir);
	argv[n++] = b->cached ? "--cache-dir" : "--no-cache";
	if (b->cached)
		argv[n++] = cache;
	if (b->sandbox) {
		argv[n++] = "--sandbox";
		argv[n++] = (char *)(uintptr_t)b->sandbox;
	}
	if (b->shared) {
		argv[n++] = "-o";
		argv[n++] = "allow_other,mode=1777";
	}
	if (b->isolated)
		argv[n++] = "--isolate=user";
	if (run(argv, false, START_S))
		bench_die("%s did not mount", b->daemon);
}

pid_t bench_pid(const struct bench *b, const char *name)
{
	char text[32] = "";
	int fd = open(bench_path(b, name), O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	if (fd >= 0)
		close(fd);
	return atoi(text);
}

void bench_unmount(const char *path)
{
	char *argv[] = { "fusermount3", "-u", (char *)(uintptr_t)path, NULL };

	if (run(argv, true, STOP_S) && umount2(path, MNT_DETACH))
		fprintf(stderr, "bench: %s stays mounted: %s\n", path, strerror(errno));
}

void bench_stop_daemon(const struct bench *b)
{
	struct timespec pause = { .tv_nsec = 1000000 };
	double end = bench_now() + STOP_S;
	pid_t pid = bench_pid(b, "pid");

	bench_unmount(b->mnt);
	while (pid > 0 && waitpid(pid, NULL, WNOHANG) == 0 && bench_now() < end)
		nanosleep(&pause, NULL); /* real time: in a loop that looks again */
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

void bench_remove(const char *folder)
{
	nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

void bench_end(const struct bench *b)
{
	if (mounted_by == getpid())
		mounted_by = 0; /* until it mounts again */
	bench_stop_daemon(b);
	bench_remove(b->dir);
}

static void undo(void)
{
	if (getpid() != mounted_by)
		return;
	bench_end(&mounted);
}

static void on_signal(int sig)
{
	(void)sig;
	exit(1); /* unmounts; only the parent, which mostly waits, gets here */
}

void bench_mount(struct bench *b)
{
	strcpy(b->dir, "/tmp/pjrtfs-bench.XXXXXX");
	if (!mkdtemp(b->dir))
		bench_die("%s: %s", b->dir, strerror(errno));
	snprintf(b->mnt, sizeof(b->mnt), "%s/mnt", b->dir);
	if (mkdir(b->mnt, 0700))
		bench_die("%s: %s", b->mnt, strerror(errno));
	mounted = *b;
	if (!mounted_by)
		atexit(undo);
	mounted_by = getpid();
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	bench_start_daemon(b);
}

/* --- files ----------------------------------------------------------------------------- */

const char *bench_path(const struct bench *b, const char *name)
{
	static char paths[4][160];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", b->mnt, name);
	return path;
}

int bench_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		bench_die("open %s: %s", path, strerror(errno));
	return fd;
}

void bench_write(int fd, const void *data, size_t len, size_t step)
{
	const char *at = data;

	while (len) {
		ssize_t n = write(fd, at, len < step ? len : step);

		if (n <= 0)
			bench_die("write: %s", strerror(errno));
		at += n;
		len -= (size_t)n;
	}
}

void bench_ask(int fd, const char *line, const char *want)
{
	char reply[65536];
	ssize_t n;

	if (pwrite(fd, line, strlen(line), 0) != (ssize_t)strlen(line))
		bench_die("'%s' was not taken", line);
	n = pread(fd, reply, sizeof(reply) - 1, 0);
	reply[n < 0 ? 0 : n] = '\0';
	if (strncmp(reply, want, strlen(want)))
		bench_die("'%s' gave '%s'", line, reply);
}

void bench_null(int fd)
{
	char reply[4096];

	if (pwrite(fd, "\n", 1, 0) != 1 || pread(fd, reply, sizeof(reply), 0) != 0)
		bench_die("an empty line has an answer");
}

void bench_put(const char *path, const char *text)
{
	int fd = bench_open(path, O_WRONLY | O_CREAT | O_TRUNC);

	bench_write(fd, text, strlen(text), 1 << 20);
	if (close(fd))
		bench_die("close %s: %s", path, strerror(errno));
}

void bench_npy_header(char dst[BENCH_NPY], uint64_t n)
{
	static const char magic[10] = "\x93NUMPY\x01\x00\x76"; /* 118 bytes follow */
	char dict[BENCH_NPY], shape[32] = "";

	if (n)
		snprintf(shape, sizeof(shape), "%llu,", (unsigned long long)n);
	snprintf(dict, sizeof(dict),
		 "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", shape);
	memcpy(dst, magic, sizeof(magic));
	memset(dst + sizeof(magic), ' ', BENCH_NPY - sizeof(magic));
	memcpy(dst + sizeof(magic), dict, strlen(dict));
	dst[BENCH_NPY - 1] = '\n';
}

/* --- figures --------------------------------------------------------------------------- */

unsigned bench_add(struct bench_table *t, const char *what, bench_fn *fn, uint64_t bytes)
{
	if (t->n_rows == BENCH_ROWS)
		bench_die("too many rows");
	t->rows[t->n_rows] = (struct bench_row){
		.what = what, .run = fn, .bytes = bytes, .group = t->group
	};
	return t->n_rows++;
}

void bench_compare(struct bench_table *t, unsigned base, const char *name)
{
	if (t->n_bases == BENCH_BASES)
		bench_die("too many baselines");
	t->bases[t->n_bases] = base;
	t->base_names[t->n_bases++] = name;
}

void bench_prepare(struct bench_table *t)
{
	size_t n = (size_t)t->n_rows * t->rounds;
	double *all = mmap(NULL, n * sizeof(*all), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (all == MAP_FAILED)
		bench_die("no memory for samples");
	for (size_t i = 0; i < n; i++)
		all[i] = NAN;
	for (unsigned i = 0; i < t->n_rows; i++)
		t->rows[i].sample = all + (size_t)i * t->rounds;
}

void bench_rounds(struct bench_table *t, unsigned from, unsigned to, void *arg)
{
	for (unsigned r = from; r < to; r++)
		for (unsigned k = 0; k < t->n_rows; k++) {
			struct bench_row *row = &t->rows[(k + r) % t->n_rows];

			if (row->run)
				row->sample[r] = row->run(arg);
		}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare);
	return n ? v[n / 2] : NAN;
}

/* The samples of ROW, divided by those of BASE if there is one, sorted; how many. */
static size_t collect(const struct bench_table *t, const struct bench_row *row,
		      const struct bench_row *base, double *dst)
{
	size_t n = 0;

	for (unsigned r = 0; r < t->rounds; r++) {
		double v = row->sample[r] / (base ? base->sample[r] : 1);

		if (!isnan(v))
			dst[n++] = v;
	}
	qsort(dst, n, sizeof(*dst), compare);
	return n;
}

static double quantile(const double *sorted, size_t n, double q)
{
	return n ? sorted[(size_t)((double)(n - 1) * q + 0.5)] : NAN;
}

static void figure(char *dst, size_t size, double seconds, uint64_t bytes)
{
	if (isnan(seconds))
		snprintf(dst, size, "-");
	else if (bytes)
		snprintf(dst, size, "%.2f GB/s", (double)bytes / seconds / 1e9);
	else if (seconds < 1e-3)
		snprintf(dst, size, "%.1f us", seconds * 1e6);
	else
		snprintf(dst, size, "%.1f ms", seconds * 1e3);
}

/* The name and value of a member, after a comma; JSON has no NAN. */
static void json_number(const char *name, double value)
{
	if (isnan(value))
		fprintf(json, ",\"%s\":null", name);
	else
		fprintf(json, ",\"%s\":%.6g", name, value);
}

/* TEXT, which has no control characters. */
static void json_string(const char *text)
{
	fputc('"', json);
	for (; *text; text++)
		fprintf(json, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
	fputc('"', json);
}

/* Append a line for ROW; V has room for its samples. */
static void print_json(const struct bench_table *t, const struct bench_row *row,
		       double *v)
{
	size_t n = collect(t, row, NULL, v);
	const char *comma = "";

	fprintf(json, "{\"program\":\"%s\",\"bench\":", program_invocation_short_name);
	json_string(t->title);
	fprintf(json, ",\"row\":");
	json_string(row->what);
	fprintf(json, ",\"unit\":\"s\"");
	json_number("lowest", quantile(v, n, 0));
	json_number("p10", quantile(v, n, 0.1));
	json_number("median", quantile(v, n, 0.5));
	json_number("p90", quantile(v, n, 0.9));
	json_number("p99", quantile(v, n, 0.99));
	fprintf(json, ",\"bytes\":%llu,\"rounds\":%zu,\"quantiles\":[",
		(unsigned long long)row->bytes, n);
	for (unsigned q = 0; n >= TAIL_ROUNDS && q <= 100; q += 5)
		fprintf(json, "%s%.6g", q ? "," : "", quantile(v, n, q / 100.));
	fprintf(json, "],\"ratio\":{");
	for (unsigned b = 0; b < t->n_bases; b++) {
		const struct bench_row *base = &t->rows[t->bases[b]];

		if (row == base || row->group != base->group)
			continue;
		n = collect(t, row, base, v);
		fprintf(json, "%s", comma);
		json_string(t->base_names[b]);
		fprintf(json, ":{\"base\":");
		json_string(base->what);
		fprintf(json, ",\"rounds\":%zu", n);
		json_number("lowest", quantile(v, n, 0));
		json_number("p10", quantile(v, n, 0.1));
		json_number("median", quantile(v, n, 0.5));
		json_number("p90", quantile(v, n, 0.9));
		fprintf(json, "}");
		comma = ",";
	}
	fprintf(json, "}}\n");
}

void bench_print(const struct bench_table *t)
{
	double *v = calloc(t->rounds, sizeof(*v));
	bool tail = t->rounds >= TAIL_ROUNDS;
	char text[4][32];

	if (!v)
		bench_die("no memory");
	printf("\n%s (%u rounds)\n%-44s %11s %23s%s", t->title, t->rounds, "", "median",
	       "p10 to p90", tail ? "         p99" : "");
	for (unsigned b = 0; b < t->n_bases; b++)
		printf("   %-20s", t->base_names[b]);
	printf("\n");
	for (unsigned i = 0; i < t->n_rows; i++) {
		const struct bench_row *row = &t->rows[i];
		size_t n = collect(t, row, NULL, v);

		figure(text[0], sizeof(text[0]), quantile(v, n, 0.5), row->bytes);
		figure(text[1], sizeof(text[1]), quantile(v, n, 0.1), row->bytes);
		figure(text[2], sizeof(text[2]), quantile(v, n, 0.9), row->bytes);
		figure(text[3], sizeof(text[3]), quantile(v, n, 0.99), row->bytes);
		printf("%-44s %11s %11s %11s", row->what, text[0], text[1], text[2]);
		if (tail)
			printf(" %11s", text[3]);
		for (unsigned b = 0; b < t->n_bases; b++) {
			const struct bench_row *base = &t->rows[t->bases[b]];

			n = collect(t, row, base, v);
			if (row == base || row->group != base->group)
				printf("   %-20s", row == base ? "    1" : "");
			else
				printf("   %5.2f [%5.2f, %5.2f]", quantile(v, n, 0.5),
				       quantile(v, n, 0.1), quantile(v, n, 0.9));
		}
		printf("\n");
		if (json)
			print_json(t, row, v);
	}
	free(v);
}

void bench_put_scalar(const struct bench *b, const char *name, float value)
{
	struct {
		char header[BENCH_NPY];
		float value;
	} npy = { .value = value };
	int fd = bench_open(bench_path(b, name), O_WRONLY | O_CREAT | O_TRUNC);

	bench_npy_header(npy.header, 0);
	bench_write(fd, &npy, sizeof(npy), sizeof(npy));
	if (close(fd))
		bench_die("%s was refused", name);
}
