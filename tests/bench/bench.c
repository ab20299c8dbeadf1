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
enum { SKIP = 77, START_S = 120, STOP_S = 20, RUN_S = 60 };

struct bench bench;
unsigned bench_which;
static pid_t mounted_by; /* the process that undoes it */
FILE *bench_json;

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

static void take_options(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;
		const char **text = !strcmp(argv[i], "--json")     ? &bench.json
				    : !strcmp(argv[i], "--plugin") ? &bench.plugin
				    : !strcmp(argv[i], "--daemon") ? &bench.daemon
								   : NULL;

		if (!strcmp(argv[i], "--quick"))
			bench.quick = true;
		else if (!strcmp(argv[i], "--full"))
			bench.full = true;
		else if (!strcmp(argv[i], "--rounds") && value)
			bench.rounds = (unsigned)strtoul(argv[++i], NULL, 10);
		else if (text && value)
			*text = argv[++i];
		else
			bench_die(
				"usage: %s [--quick | --full] [--rounds N] [--json FILE] "
				"[--plugin PATH] [--daemon PATH]",
				argv[0]);
	}
}

void bench_begin(int argc, char **argv)
{
	bench.plugin = getenv("PJRTFS_BENCH_PLUGIN");
	bench.daemon = "./pjrtfs";
	take_options(argc, argv);
	if (!bench.plugin || access(bench.plugin, R_OK))
		skip("no plugin: scripts/fetch-plugins fetches some");
	if (access("/dev/fuse", R_OK | W_OK))
		skip("/dev/fuse is missing or may not be opened");
	if (access(bench.daemon, X_OK))
		bench_die("%s is not built", bench.daemon);
	setvbuf(stdout, NULL, _IOLBF, 0);
	bench_json = bench.json ? fopen(bench.json, "ae") : NULL;
	if (bench.json && !bench_json)
		bench_die("%s: %s", bench.json, strerror(errno));
	if (bench_json)
		setvbuf(bench_json, NULL, _IOLBF, 0);
	/* Daemons are children of this process, which need not wait for the slow init of some
	 * containers. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

pid_t bench_fork(void)
{
	pid_t pid = fork();

	if (pid < 0)
		bench_die("fork: %s", strerror(errno));
	return pid;
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

/* Become a program, with FILE in place of the descriptor FD. */
static void __attribute__((__noreturn__))
become(const char *const argv[], int file, int fd)
{
	if (file >= 0)
		dup2(file, fd);
	execvp(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

static int run(const char *const argv[], bool quiet, unsigned seconds)
{
	pid_t pid = bench_fork();

	if (pid == 0)
		become(argv, quiet ? open("/dev/null", O_WRONLY) : -1, 2);
	return reap(pid, seconds);
}

double bench_run(const char *const argv[], char *text, size_t size)
{
	int fds[2] = { -1, -1 }, status;
	double t = bench_now();
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	if (text && pipe2(fds, O_CLOEXEC))
		bench_die("no pipe");
	pid = bench_fork();
	if (pid == 0) {
		alarm(RUN_S);
		become(argv, fds[1], 1);
	}
	if (text) {
		close(fds[1]);
		while (len + 1 < size &&
		       (n = read(fds[0], text + len, size - len - 1)) > 0)
			len += (size_t)n;
		text[len] = '\0';
		close(fds[0]);
	}
	waitpid(pid, &status, 0);
	t = bench_now() - t;
	if (status)
		bench_die("%s ended with status %d", argv[0], status);
	return t;
}

void bench_in_child(void (*fn)(void), unsigned seconds)
{
	pid_t pid = bench_fork();

	if (pid == 0) {
		fn();
		fflush(stdout);
		_exit(0); /* without the plugin's destructors */
	}
	if (reap(pid, seconds))
		exit(1);
}

static pid_t crowd[BENCH_CROWD];
static int crowd_go; /* the pipe whose end they wait for */

double bench_gather(unsigned n, void (*prepare)(void), void (*work)(unsigned number))
{
	double t = bench_now();
	int ready[2], go[2];
	char byte = 0;

	if (n > BENCH_CROWD || pipe(ready) || pipe(go))
		bench_die("%u processes: %s", n, strerror(errno));
	for (unsigned i = 0; i < n; i++) {
		crowd[i] = bench_fork();
		if (crowd[i])
			continue;
		close(go[1]);
		close(ready[0]);
		prepare();
		if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 0)
			bench_die("a client lost its parent");
		work(i);
		_exit(0);
	}
	close(go[0]);
	close(ready[1]);
	for (unsigned i = 0; i < n; i++)
		if (read(ready[0], &byte, 1) != 1)
			bench_die("a client did not start");
	close(ready[0]);
	crowd_go = go[1];
	return bench_now() - t;
}

double bench_release(unsigned n)
{
	double t = bench_now();
	int status;

	close(crowd_go);
	for (unsigned i = 0; i < n; i++)
		if (waitpid(crowd[i], &status, 0) != crowd[i] || status)
			bench_die("client %u failed", i);
	return bench_now() - t;
}

void bench_start_daemon(void)
{
	char plugin[512];
	const char *argv[14] = { bench.daemon, "--plugin", plugin, "--no-cache",
				 bench.mnt };
	int n = 5;

	snprintf(plugin, sizeof(plugin), BENCH_PLUGIN "=%s", bench.plugin);
	if (bench.sandbox) {
		argv[n++] = "--sandbox";
		argv[n++] = bench.sandbox;
	}
	if (bench.shared) {
		argv[n++] = "-o";
		argv[n++] = "allow_other,mode=1777";
	}
	if (bench.isolated)
		argv[n++] = "--isolate=user";
	if (run(argv, false, START_S))
		bench_die("%s did not mount", bench.daemon);
}

pid_t bench_pid(const char *name)
{
	char text[32] = "";
	int fd = open(bench_path(name), O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	if (fd >= 0)
		close(fd);
	return atoi(text);
}

void bench_unmount(const char *path)
{
	const char *argv[] = { "fusermount3", "-u", path, NULL };

	if (run(argv, true, STOP_S) && umount2(path, MNT_DETACH))
		fprintf(stderr, "bench: %s stays mounted: %s\n", path, strerror(errno));
}

void bench_stop_daemon(void)
{
	struct timespec pause = { .tv_nsec = 1000000 };
	double end = bench_now() + STOP_S;
	pid_t pid = bench_pid("pid");

	bench_unmount(bench.mnt);
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

void bench_end(void)
{
	if (mounted_by == getpid())
		mounted_by = 0; /* until it mounts again */
	bench_stop_daemon();
	bench_remove(bench.dir);
}

static void undo(void)
{
	if (getpid() == mounted_by)
		bench_end();
}

static void on_signal(int sig)
{
	(void)sig;
	exit(1); /* unmounts; only the parent, which mostly waits, gets here */
}

void bench_mount(void)
{
	static bool before;

	strcpy(bench.dir, "/tmp/pjrtfs-bench.XXXXXX");
	if (!mkdtemp(bench.dir))
		bench_die("%s: %s", bench.dir, strerror(errno));
	snprintf(bench.mnt, sizeof(bench.mnt), "%s/mnt", bench.dir);
	if (mkdir(bench.mnt, 0700))
		bench_die("%s: %s", bench.mnt, strerror(errno));
	if (!before)
		atexit(undo);
	before = true;
	mounted_by = getpid();
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	bench_start_daemon();
}

void *bench_memory(size_t len, bool shared)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_ANONYMOUS | (shared ? MAP_SHARED : MAP_PRIVATE | MAP_POPULATE),
		       -1, 0);

	if (p == MAP_FAILED)
		bench_die("no memory: %zu bytes", len);
	return p;
}

int bench_memfd(char path[64])
{
	int fd = memfd_create("bench", 0);

	if (fd < 0)
		bench_die("memfd_create: %s", strerror(errno));
	snprintf(path, 64, "/proc/%d/fd/%d", (int)getpid(), fd);
	return fd;
}

/* --- files ----------------------------------------------------------------------------- */

const char *bench_path(const char *name)
{
	static char paths[4][160];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", bench.mnt, name);
	return path;
}

int bench_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		bench_die("open %s: %s", path, strerror(errno));
	return fd;
}

void bench_write(int fd, const void *data, size_t len)
{
	const char *at = data;

	while (len) {
		ssize_t n = write(fd, at, len < BENCH_STEP ? len : BENCH_STEP);

		if (n <= 0)
			bench_die("write: %s", strerror(errno));
		at += n;
		len -= (size_t)n;
	}
}

double bench_put(const char *path, const void *data, size_t len)
{
	double t = bench_now();
	int fd = bench_open(path, O_WRONLY | O_CREAT | O_TRUNC);

	bench_write(fd, data, len);
	if (close(fd))
		bench_die("%s was refused: %s", path, strerror(errno));
	return bench_now() - t;
}

double bench_get(const char *path, void *data, size_t len)
{
	double t = bench_now();
	int fd = bench_open(path, O_RDONLY);
	char *at = data;

	while (len) {
		ssize_t n = read(fd, at, len < BENCH_STEP ? len : BENCH_STEP);

		if (n <= 0)
			bench_die("read %s: %s", path, n ? strerror(errno) : "too short");
		at += n;
		len -= (size_t)n;
	}
	close(fd);
	return bench_now() - t;
}

void bench_unlink(const char *path)
{
	if (unlink(path))
		bench_die("unlink %s: %s", path, strerror(errno));
}

void bench_call(int fd, const void *in, size_t in_len, void *out, size_t out_len)
{
	if (pwrite(fd, in, in_len, 0) != (ssize_t)in_len ||
	    pread(fd, out, out_len, 0) != (ssize_t)out_len)
		bench_die("a call failed: %s", strerror(errno));
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

void bench_npy_shape(char dst[BENCH_NPY], const char *shape)
{
	static const char magic[10] = "\x93NUMPY\x01\x00\x76"; /* 118 bytes follow */
	int len = (int)sizeof(magic);

	memcpy(dst, magic, sizeof(magic));
	len += snprintf(dst + len, BENCH_NPY - sizeof(magic),
			"{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }",
			shape);
	memset(dst + len, ' ', (size_t)(BENCH_NPY - len));
	dst[BENCH_NPY - 1] = '\n';
}

void bench_npy_header(char dst[BENCH_NPY], uint64_t n)
{
	char shape[32] = "";

	if (n)
		snprintf(shape, sizeof(shape), "%llu,", (unsigned long long)n);
	bench_npy_shape(dst, shape);
}

struct bench_scalar bench_scalar(float value)
{
	struct bench_scalar npy = { .value = value };

	bench_npy_header(npy.header, 0);
	return npy;
}

void bench_put_scalar(const char *name, float value)
{
	struct bench_scalar npy = bench_scalar(value);

	bench_put(bench_path(name), &npy, sizeof(npy));
}

/* --- the addition ---------------------------------------------------------------------- */

const char bench_add[] =
	"module @add {\n"
	"  func.func public @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {\n"
	"    %0 = stablehlo.add %a, %b : tensor<f32>\n"
	"    return %0 : tensor<f32>\n"
	"  }\n"
	"}\n";

void bench_put_program(const char *name, const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), "programs/%s.mlir", name);
	bench_put(bench_path(path), text, strlen(text));
}

void bench_put_add(void)
{
	bench_put_program("add", bench_add);
	bench_put_scalar("buffers/x.npy", 2);
	bench_put_scalar("buffers/y.npy", 3);
}

void bench_run_add(int fd)
{
	bench_ask(fd, "x y -> z\n", "ok: z F32[");
}

void bench_execute_add(int control)
{
	bench_ask(control,
		  "{\"op\":\"execute\",\"executable\":\"add\",\"inputs\":[\"x\",\"y\"],"
		  "\"outputs\":[\"z\"]}\n",
		  "{\"ok\":true,\"outputs\":[{\"name\":\"z\",");
}

/* --- figures --------------------------------------------------------------------------- */

void bench_prepare(struct bench_table *t, unsigned quick, unsigned usual)
{
	unsigned group = 0;
	size_t n;
	double *all;

	t->rounds = bench.rounds ? bench.rounds : bench.quick ? quick : usual;
	for (t->n_rows = 0; t->n_rows < BENCH_ROWS && t->rows[t->n_rows].what;
	     t->n_rows++) {
		group += t->rows[t->n_rows].apart;
		t->rows[t->n_rows].group = group;
	}
	n = (size_t)t->n_rows * t->rounds;
	all = bench_memory(n * sizeof(*all), true);
	for (size_t i = 0; i < n; i++)
		all[i] = NAN;
	for (unsigned i = 0; i < t->n_rows; i++)
		t->rows[i].sample = all + (size_t)i * t->rounds;
}

double bench_mean(void (*operation)(void), unsigned n)
{
	double t = bench_now();

	for (unsigned i = 0; i < n; i++)
		operation();
	return (bench_now() - t) / n;
}

double bench_typical(void (*operation)(void), unsigned n)
{
	static double v[BENCH_INNER];

	for (unsigned i = 0; i < n; i++) {
		double t = bench_now();

		operation();
		v[i] = bench_now() - t;
	}
	return bench_median(v, n);
}

static double sample(const struct bench_table *t, const struct bench_row *row)
{
	double seconds = row->run  ? row->run()
			 : t->mean ? bench_mean(row->operation, t->inner)
				   : bench_typical(row->operation, t->inner);

	return row->parts ? seconds / row->parts : seconds;
}

void bench_rounds(struct bench_table *t, unsigned from, unsigned to)
{
	for (unsigned r = from; r < to; r++)
		for (unsigned k = 0; k < t->n_rows; k++) {
			unsigned first = t->in_order ? 0 : r;
			struct bench_row *row = &t->rows[(k + first) % t->n_rows];

			bench_which = row->which;
			if (row->run || row->operation)
				row->sample[r] = sample(t, row);
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
		fprintf(bench_json, ",\"%s\":null", name);
	else
		fprintf(bench_json, ",\"%s\":%.6g", name, value);
}

/* TEXT, which has no control characters. */
static void json_string(const char *text)
{
	fputc('"', bench_json);
	for (; *text; text++)
		fprintf(bench_json, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
	fputc('"', bench_json);
}

/* Is ROW compared with BASE? */
static bool has_base(const struct bench_row *row, const struct bench_row *base)
{
	return base->base && row != base && row->group == base->group;
}

static void json_quantiles(const double *v, size_t n)
{
	json_number("lowest", quantile(v, n, 0));
	json_number("p10", quantile(v, n, 0.1));
	json_number("median", quantile(v, n, 0.5));
	json_number("p90", quantile(v, n, 0.9));
}

/* Append a line for ROW; V has room for its samples. */
static void print_json(const struct bench_table *t, const struct bench_row *row,
		       double *v)
{
	size_t n = collect(t, row, NULL, v);
	const char *comma = "";

	fprintf(bench_json,
		"{\"program\":\"%s\",\"bench\":", program_invocation_short_name);
	json_string(t->title);
	fprintf(bench_json, ",\"row\":");
	json_string(row->what);
	fprintf(bench_json, ",\"unit\":\"s\"");
	json_quantiles(v, n);
	json_number("p99", quantile(v, n, 0.99));
	fprintf(bench_json, ",\"bytes\":%llu,\"rounds\":%zu,\"quantiles\":[",
		(unsigned long long)(row->rate ? t->bytes : 0), n);
	for (unsigned q = 0; n >= TAIL_ROUNDS && q <= 100; q += 5)
		fprintf(bench_json, "%s%.6g", q ? "," : "", quantile(v, n, q / 100.));
	fprintf(bench_json, "],\"ratio\":{");
	for (const struct bench_row *base = t->rows; base < t->rows + t->n_rows; base++) {
		if (!has_base(row, base))
			continue;
		n = collect(t, row, base, v);
		fprintf(bench_json, "%s", comma);
		json_string(base->base);
		fprintf(bench_json, ":{\"base\":");
		json_string(base->what);
		fprintf(bench_json, ",\"rounds\":%zu", n);
		json_quantiles(v, n);
		fprintf(bench_json, "}");
		comma = ",";
	}
	fprintf(bench_json, "}}\n");
}

static void print_row(const struct bench_table *t, const struct bench_row *row, double *v)
{
	static const double quantiles[] = { 0.5, 0.1, 0.9, 0.99 };
	size_t n = collect(t, row, NULL, v);
	char text[32];

	printf("%-44s", row->what);
	for (unsigned i = 0; i < (t->rounds < TAIL_ROUNDS ? 3 : 4); i++) {
		figure(text, sizeof(text), quantile(v, n, quantiles[i]),
		       row->rate ? t->bytes : 0);
		printf(" %11s", text);
	}
	for (const struct bench_row *base = t->rows; base < t->rows + t->n_rows; base++) {
		if (!base->base)
			continue;
		n = collect(t, row, base, v);
		if (has_base(row, base))
			printf("   %5.2f [%5.2f, %5.2f]", quantile(v, n, 0.5),
			       quantile(v, n, 0.1), quantile(v, n, 0.9));
		else
			printf("   %-20s", row == base ? "    1" : "");
	}
	printf("\n");
}

void bench_print(const struct bench_table *t)
{
	double *v = calloc(t->rounds, sizeof(*v));

	if (!v)
		bench_die("no memory");
	printf("\n%s (%u rounds)\n%-44s %11s %23s%s", t->title, t->rounds, "", "median",
	       "p10 to p90", t->rounds < TAIL_ROUNDS ? "" : "         p99");
	for (unsigned i = 0; i < t->n_rows; i++)
		if (t->rows[i].base)
			printf("   %-20s", t->rows[i].base);
	printf("\n");
	for (unsigned i = 0; i < t->n_rows; i++) {
		print_row(t, &t->rows[i], v);
		if (bench_json)
			print_json(t, &t->rows[i], v);
	}
	free(v);
}
