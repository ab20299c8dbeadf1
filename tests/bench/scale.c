/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How time and memory grow with the number of buffers, programs and clients, and with the
 * length of an array: each step is ten times the step before, and its row is what one of the
 * things that it added takes.  A mount of its own for each table.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum {
	IN_DIRECTORY = 10000, /* names */
	VISITS = 1000,        /* stats of a step, and reads */
	CALLS = 20000,        /* of all clients of a step */
	CHILD_S = 3600,
	STEPS = 10,
	STEP_S = 300, /* a step that would take more seconds is left out */
};

static const char add[] =
	"func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {\n"
	"  %0 = stablehlo.add %a, %b : tensor<f32>\n"
	"  return %0 : tensor<f32>\n"
	"}\n";

struct scalar {
	char header[BENCH_NPY];
	float value;
} __attribute__((__packed__));

/* Bytes of memory that no other process shares: heap and stacks. */
struct memory {
	double daemon, worker;
};

/* A row: what one of the things of a step takes, in seconds and bytes. */
struct step {
	uint64_t n; /* things, of all steps so far */
	double make, visit, again;
	struct memory memory;
};

struct figures {
	struct step steps[STEPS]; /* n 0: not measured */
	char why[96]; /* of the step after the last, which was left out, or "" */
};

/* One table. */
struct scale {
	const char *title,
		*what[3]; /* the columns of make, visit and again; NULL: none */
	uint64_t first,
		factor; /* n of the first step, and what each step multiplies it by */
	uint64_t last, last_quick,
		last_full; /* and of the last one, as --quick and --full say */
	bool bytes;        /* the things are the bytes of an array */
	/* Add the things from FROM to TO->n, and fill TO in. */
	void (*run)(struct scale *s, uint64_t from, struct step *to);
	/* Why a step of N things cannot be measured here; NULL: it can. */
	const char *(*lacks)(const struct scale *s, uint64_t n);
	bool own_memory; /* run fills in the memory, too */
	const struct bench *bench;
	struct scalar in[2];
	struct figures *figures; /* shared with the child */
};

static double memory_of(const struct bench *b, const char *name)
{
	char path[64], line[128];
	double kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)bench_pid(b, name));
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "RssAnon:", 8))
			kib = strtod(line + 8, NULL);
	if (f)
		fclose(f);
	return kib * 1024;
}

static struct memory memory_now(const struct bench *b)
{
	return (struct memory){ memory_of(b, "pid"),
				memory_of(b, "plugins/" BENCH_PLUGIN "/pid") };
}

/* --- buffers ----------------------------------------------------------------------------- */

static void buffer_path(const struct scale *s, char dst[160], uint64_t i)
{
	snprintf(dst, 160, "%s/buffers/d%llu/b%llu.npy", s->bench->mnt,
		 (unsigned long long)(i / IN_DIRECTORY), (unsigned long long)i);
}

static void write_buffer(struct scale *s, uint64_t i)
{
	char path[160];
	int fd;

	buffer_path(s, path, i);
	if (i % IN_DIRECTORY == 0) {
		*strrchr(path, '/') = '\0';
		if (mkdir(path, 0700) && errno != EEXIST)
			bench_die("mkdir %s: %s", path, strerror(errno));
		buffer_path(s, path, i);
	}
	s->in[0].value = (float)i;
	fd = bench_open(path, O_WRONLY | O_CREAT | O_TRUNC);
	bench_write(fd, &s->in[0], sizeof(s->in[0]), sizeof(s->in[0]));
	if (close(fd))
		bench_die("%s was refused: %s", path, strerror(errno));
}

static void read_buffer(const struct scale *s, uint64_t i)
{
	struct scalar out;
	char path[160];
	int fd;

	buffer_path(s, path, i);
	fd = bench_open(path, O_RDONLY);
	if (read(fd, &out, sizeof(out)) != sizeof(out) || out.value != (float)i)
		bench_die("%s holds another number than %llu", path,
			  (unsigned long long)i);
	close(fd);
}

static void stat_buffer(const struct scale *s, uint64_t i)
{
	char path[160];
	struct stat st;

	buffer_path(s, path, i);
	if (stat(path, &st) || st.st_size != sizeof(struct scalar))
		bench_die("%s has another size than was written", path);
}

/* Another one each time: a number without a factor in common with the powers of ten. */
static uint64_t nth_visit(uint64_t i, uint64_t n)
{
	return i * 7919 % n;
}

static void step_buffers(struct scale *s, uint64_t from, struct step *to)
{
	double t = bench_now();

	for (uint64_t i = from; i < to->n; i++)
		write_buffer(s, i);
	to->make = (bench_now() - t) / (double)(to->n - from);
	t = bench_now();
	for (uint64_t i = 0; i < VISITS; i++)
		stat_buffer(s, nth_visit(i, to->n));
	to->visit = (bench_now() - t) / VISITS;
	t = bench_now();
	for (uint64_t i = 0; i < VISITS; i++)
		read_buffer(s, nth_visit(i, to->n));
	to->again = (bench_now() - t) / VISITS;
}

/* --- programs ---------------------------------------------------------------------------- */

static void run_program(const struct scale *s, uint64_t i)
{
	struct scalar in[2] = { s->in[0], s->in[1] }, out;
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "executables/p%llu/call", (unsigned long long)i);
	in[0].value = 1;
	in[1].value = 2;
	fd = bench_open(bench_path(s->bench, name), O_RDWR);
	if (pwrite(fd, in, sizeof(in), 0) != sizeof(in) ||
	    pread(fd, &out, sizeof(out), 0) != sizeof(out) || out.value != 3 + (float)i)
		bench_die("%s gives another number than %llu", name,
			  (unsigned long long)(3 + i));
	close(fd);
}

/* Each has a text of its own, so that each is compiled. */
static void put_program(const struct scale *s, uint64_t i)
{
	char name[64], text[512];

	snprintf(name, sizeof(name), "programs/p%llu.mlir", (unsigned long long)i);
	snprintf(text, sizeof(text),
		 "func.func @main(%%a: tensor<f32>, %%b: tensor<f32>) -> tensor<f32> {\n"
		 "  %%c = stablehlo.constant dense<%llu.0> : tensor<f32>\n"
		 "  %%0 = stablehlo.add %%a, %%b : tensor<f32>\n"
		 "  %%1 = stablehlo.add %%0, %%c : tensor<f32>\n"
		 "  return %%1 : tensor<f32>\n"
		 "}\n",
		 (unsigned long long)i);
	bench_put(bench_path(s->bench, name), text);
}

static void step_programs(struct scale *s, uint64_t from, struct step *to)
{
	uint64_t visits = to->n < VISITS ? to->n : VISITS;
	double t = bench_now();

	for (uint64_t i = from; i < to->n; i++)
		put_program(s, i);
	to->make = (bench_now() - t) / (double)(to->n - from);
	t = bench_now();
	for (uint64_t i = 0; i < visits; i++)
		run_program(s, nth_visit(i, to->n));
	to->visit = (bench_now() - t) / (double)visits;
	t = bench_now();
	for (uint64_t i = 0; i < VISITS; i++)
		run_program(s, nth_visit(to->n - 1, to->n));
	to->again = (bench_now() - t) / VISITS;
}

/* --- clients ----------------------------------------------------------------------------- */

/* Make N calls once the pipe GO is closed; a byte to READY before that. */
static void client(const struct scale *s, unsigned n, int ready, int go)
{
	int fd = bench_open(bench_path(s->bench, "executables/add/call"), O_RDWR);
	struct scalar in[2] = { s->in[0], s->in[1] }, out;
	char byte = 0;

	in[1].value = 1;
	if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 0)
		bench_die("a client lost its parent");
	for (unsigned i = 0; i < n; i++) {
		in[0].value = (float)i;
		if (pwrite(fd, in, sizeof(in), 0) != sizeof(in) ||
		    pread(fd, &out, sizeof(out), 0) != sizeof(out) ||
		    out.value != (float)i + 1)
			bench_die("call %u of a client failed", i);
	}
}

static void start_client(const struct scale *s, unsigned calls, const int ready[2],
			 const int go[2])
{
	pid_t pid = fork();

	if (pid < 0)
		bench_die("fork: %s", strerror(errno));
	if (pid)
		return;
	close(go[1]);
	close(ready[0]);
	client(s, calls, ready[1], go[0]);
	_exit(0);
}

static void step_clients(struct scale *s, uint64_t from, struct step *to)
{
	unsigned calls = (unsigned)(CALLS / to->n) + 1;
	int ready[2], go[2], status;
	struct memory before, with;
	char byte;
	double t;

	if (!from)
		bench_put(bench_path(s->bench, "programs/add.mlir"), add);
	before = memory_now(s->bench);
	if (pipe(ready) || pipe(go))
		bench_die("pipe: %s", strerror(errno));
	t = bench_now();
	for (uint64_t i = 0; i < to->n; i++)
		start_client(s, calls, ready, go);
	for (uint64_t i = 0; i < to->n; i++)
		if (read(ready[0], &byte, 1) != 1)
			bench_die("a client did not start");
	to->make = (bench_now() - t) / (double)to->n;
	with = memory_now(s->bench);
	t = bench_now();
	close(go[1]);
	for (uint64_t i = 0; i < to->n; i++)
		if (wait(&status) < 0 || status)
			bench_die("a client failed");
	to->visit = (bench_now() - t) / ((double)to->n * calls);
	to->memory.daemon = (with.daemon - before.daemon) / (double)to->n;
	to->memory.worker = (with.worker - before.worker) / (double)to->n;
	close(go[0]);
	close(ready[0]);
	close(ready[1]);
}

static const char *clients_lack(const struct scale *s, uint64_t n)
{
	struct rlimit limit;

	(void)s;
	if (getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur < n + 100)
		return "the user may not have that many processes";
	return NULL;
}

/* --- the length of an array -------------------------------------------------------------- */

enum { PIECE = 1 << 20 };

static void move_array(uint64_t len, bool in, const char *path)
{
	static char piece[PIECE];
	int fd = bench_open(path, in ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY);

	for (uint64_t done = 0; done < len;) {
		size_t n = len - done < PIECE ? (size_t)(len - done) : PIECE;
		ssize_t r;

		memcpy(piece, &done, sizeof(done));
		r = in ? write(fd, piece, n) : read(fd, piece, n);
		if (r <= 0 || (!in && memcmp(piece, &done, n < 8 ? n : 8) != 0))
			bench_die("%s: byte %llu: %s", path, (unsigned long long)done,
				  r < 0 ? strerror(errno) : "other bytes");
		done += (uint64_t)r;
	}
	if (close(fd))
		bench_die("close %s: %s", path, strerror(errno));
}

static void step_array(struct scale *s, uint64_t from, struct step *to)
{
	unsigned again = to->n < (1 << 24) ? 10 : 1;
	char path[160];
	struct memory before = memory_now(s->bench), with;
	double t = bench_now();

	(void)from;
	snprintf(path, sizeof(path), "%s/buffers/x.raw", s->bench->mnt);
	for (unsigned i = 0; i < again; i++)
		move_array(to->n, true, path);
	to->make = (bench_now() - t) / again / (double)to->n;
	with = memory_now(s->bench);
	t = bench_now();
	for (unsigned i = 0; i < again; i++)
		move_array(to->n, false, path);
	to->visit = (bench_now() - t) / again / (double)to->n;
	to->memory.daemon = (with.daemon - before.daemon) / (double)to->n;
	to->memory.worker = (with.worker - before.worker) / (double)to->n;
	if (unlink(path))
		bench_die("unlink %s: %s", path, strerror(errno));
}

static uint64_t available(void)
{
	char line[128];
	uint64_t kib = 0;
	FILE *f = fopen("/proc/meminfo", "re");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "MemAvailable:", 13))
			kib = strtoull(line + 13, NULL, 10);
	if (f)
		fclose(f);
	return kib << 10;
}

static const char *array_lacks(const struct scale *s, uint64_t n)
{
	struct statvfs st;

	if (statvfs(s->bench->mnt, &st) || st.f_bavail * st.f_frsize < n)
		return "it is beyond the mount's memory limit";
	/* The array, a plugin's copy of it, and room for others. */
	return available() < n * 5 / 2 ? "the machine lacks the memory" : NULL;
}

/* --- tables ------------------------------------------------------------------------------ */

/* Would a step of N things, after LAST (NULL: the first), take too much of this machine?  The answer
 * is in WHY. */
static bool is_too_much(const struct scale *s, const struct step *last, uint64_t n,
			char why[96])
{
	double more = last ? (double)(n - last->n) : 0;
	double seconds = last ? last->make * more : 0;
	double bytes = last ? (last->memory.daemon + last->memory.worker) * more : 0;
	const char *lacks = s->lacks ? s->lacks(s, n) : NULL;

	if (lacks)
		snprintf(why, 96, "%s", lacks);
	else if (seconds > STEP_S && !s->bytes)
		snprintf(why, 96, "it would take %.0f minutes", seconds / 60);
	else if (bytes > (double)available() / 2)
		snprintf(why, 96, "it would take %.1f GiB of memory", bytes / (1 << 30));
	return why[0];
}

static uint64_t last_of(const struct scale *s)
{
	return s->bench->full ? s->last_full : s->bench->quick ? s->last_quick : s->last;
}

static void measure(void *arg)
{
	struct scale *s = arg;
	uint64_t from = 0, n = s->first;

	for (unsigned i = 0; i < STEPS && n <= last_of(s); i++, n *= s->factor) {
		struct step *to = &s->figures->steps[i];
		struct memory before = memory_now(s->bench), now;
		double added = (double)(n - from);

		if (is_too_much(s, i ? to - 1 : NULL, n, s->figures->why))
			break;
		to->n = n;
		s->run(s, from, to);
		from = n;
		if (s->own_memory)
			continue;
		now = memory_now(s->bench);
		to->memory.daemon = (now.daemon - before.daemon) / added;
		to->memory.worker = (now.worker - before.worker) / added;
	}
}

static void print_step(const struct scale *s, const struct step *step, FILE *json)
{
	const double seconds[3] = { step->make, step->visit, step->again };
	double unit = s->bytes ? 1e-9 : 1e-6;

	printf("%12llu", (unsigned long long)step->n);
	for (unsigned i = 0; i < 3; i++)
		if (s->what[i])
			printf(" %14.*f %s", s->bytes ? 3 : 1, seconds[i] / unit,
			       s->bytes ? "ns" : "us");
	printf(" %14.*f %14.*f\n", s->bytes ? 3 : 0, step->memory.daemon,
	       s->bytes ? 3 : 0, step->memory.worker);
	if (!json)
		return;
	fprintf(json,
		"{\"program\":\"scale\",\"bench\":\"%s\",\"row\":\"%llu\",\"n\":%llu",
		s->title, (unsigned long long)step->n, (unsigned long long)step->n);
	for (unsigned i = 0; i < 3; i++)
		if (s->what[i])
			fprintf(json, ",\"%s\":%.6g", s->what[i], seconds[i]);
	fprintf(json, ",\"daemon_bytes\":%.6g,\"worker_bytes\":%.6g,\"ratio\":{",
		step->memory.daemon, step->memory.worker);
	if (step > s->figures->steps)
		fprintf(json,
			"\"to the step before\":{\"lowest\":%.6g},"
			"\"heap to 1 KiB\":{\"lowest\":%.6g}",
			step->make / step[-1].make, step->memory.daemon / 1024);
	fprintf(json, "}}\n");
}

static void print(const struct scale *s)
{
	FILE *json = s->bench->json ? fopen(s->bench->json, "ae") : NULL;
	uint64_t n = s->first;
	unsigned i = 0;

	printf("\n%s\n%12s", s->title, "number");
	for (unsigned k = 0; k < 3; k++)
		if (s->what[k])
			printf(" %17s", s->what[k]);
	printf(" %14s %14s\n", "daemon, bytes", "worker, bytes");
	for (; i < STEPS && s->figures->steps[i].n; i++, n *= s->factor)
		print_step(s, &s->figures->steps[i], json);
	if (s->figures->why[0])
		printf("%12llu left out: %s\n", (unsigned long long)n, s->figures->why);
	if (json)
		fclose(json);
}

/* Each table has a mount of its own. */
static void run(struct scale *s, const struct bench *options)
{
	struct bench b = *options;

	bench_mount(&b);
	s->bench = &b;
	bench_npy_header(s->in[0].header, 0);
	bench_npy_header(s->in[1].header, 0);
	s->figures = mmap(NULL, sizeof(*s->figures), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s->figures == MAP_FAILED)
		bench_die("no memory for figures");
	bench_in_child(measure, s, CHILD_S);
	print(s);
	bench_end(&b);
}

int main(int argc, char **argv)
{
	static struct scale tables[] = {
		{ .title = "Scale: buffers of one number, in directories of 10,000",
		  .what = { "write", "stat", "read" },
		  .first = 1,
		  .factor = 10,
		  .last = 10000,
		  .last_quick = 1000,
		  .last_full = 1000000,
		  .run = step_buffers },
		{ .title = "Scale: programs",
		  .what = { "compile", "first call", "call" },
		  .first = 1,
		  .factor = 10,
		  .last = 1000,
		  .last_quick = 10,
		  .last_full = 100000,
		  .run = step_programs },
		{ .title = "Scale: clients that call",
		  .what = { "start", "call" },
		  .first = 1,
		  .factor = 10,
		  .last = 100,
		  .last_quick = 10,
		  .last_full = 1000,
		  .run = step_clients,
		  .lacks = clients_lack,
		  .own_memory = true },
		{ .title = "Scale: bytes of an array",
		  .what = { "write", "read" },
		  .first = 4096,
		  .factor = 8,
		  .bytes = true,
		  .last = UINT64_C(4096) << 12,
		  .last_quick = UINT64_C(4096) << 6,
		  .last_full = UINT64_C(4096) << 21,
		  .run = step_array,
		  .lacks = array_lacks,
		  .own_memory = true },
	};
	struct bench b;

	bench_begin(&b, argc, argv);
	for (unsigned i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		run(&tables[i], &b);
	return 0;
}
