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
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
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

/* Bytes of memory that no other process shares: heap and stacks. */
struct memory {
	double daemon, worker;
};

/* A row: what one of the things of a step takes, in seconds and bytes. */
struct step {
	uint64_t n; /* things, of all steps so far; 0: not measured */
	double make, visit, again;
	struct memory memory;
};

/* One table. */
struct scale {
	const char *title;
	const char *what[3]; /* the columns of make, visit and again; NULL: none */
	struct {
		uint64_t first, factor;     /* of a step to the one before */
		uint64_t last, quick, full; /* the last one: usual, --quick, --full */
	} n;
	/* Add the things from FROM to TO->n, and fill TO in. */
	void (*run)(uint64_t from, struct step *to);
	/* Why a step of N things cannot be measured here; NULL: it can. */
	const char *(*lacks)(uint64_t n);
	bool bytes;      /* the things are the bytes of an array */
	bool own_memory; /* run fills in the memory, too */
};

static const struct scale *scale; /* the one that is measured now */

/* Its figures, shared with the process that measures. */
static struct {
	struct step steps[STEPS];
	char why[96]; /* of the step after the last, which was left out, or "" */
} * figures;

/* The number, in KiB, that a file like /proc/meminfo has at NAME; 0: it has none. */
static double kib_of(const char *path, const char *name)
{
	size_t len = strlen(name);
	FILE *f = fopen(path, "re");
	double kib = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, len))
			kib = strtod(line + len, NULL);
	if (f)
		fclose(f);
	return kib;
}

static double memory_of(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)bench_pid(name));
	return kib_of(path, "RssAnon:") * 1024;
}

static struct memory memory_now(void)
{
	return (struct memory){ memory_of("pid"),
				memory_of("plugins/" BENCH_PLUGIN "/pid") };
}

/* What one of N things takes of the memory that has been taken since BEFORE. */
static struct memory memory_since(const struct memory *before, uint64_t n)
{
	struct memory now = memory_now();

	return (struct memory){ (now.daemon - before->daemon) / (double)n,
				(now.worker - before->worker) / (double)n };
}

/* The time that each of N calls of FN takes, on things of which there are ALL: another one each
 * time, by a number without a factor in common with the powers of ten. */
static double visit(void (*fn)(uint64_t i), uint64_t n, uint64_t all)
{
	double t = bench_now();

	for (uint64_t i = 0; i < n; i++)
		fn(i * 7919 % all);
	return (bench_now() - t) / (double)n;
}

static double make(void (*fn)(uint64_t i), uint64_t from, uint64_t to)
{
	double t = bench_now();

	for (uint64_t i = from; i < to; i++)
		fn(i);
	return (bench_now() - t) / (double)(to - from);
}

/* --- buffers ----------------------------------------------------------------------------- */

static const char *buffer_path(uint64_t i)
{
	char name[80];

	snprintf(name, sizeof(name), "buffers/d%llu/b%llu.npy",
		 (unsigned long long)(i / IN_DIRECTORY), (unsigned long long)i);
	return bench_path(name);
}

static void write_buffer(uint64_t i)
{
	struct bench_scalar in = bench_scalar((float)i);
	const char *path = buffer_path(i);
	char folder[160];

	if (i % IN_DIRECTORY == 0) {
		snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path),
			 path);
		if (mkdir(folder, 0700) && errno != EEXIST)
			bench_die("mkdir %s: %s", folder, strerror(errno));
	}
	bench_put(path, &in, sizeof(in));
}

static void read_buffer(uint64_t i)
{
	struct bench_scalar out;

	bench_get(buffer_path(i), &out, sizeof(out));
	if (out.value != (float)i)
		bench_die("buffer %llu holds another number", (unsigned long long)i);
}

static void stat_buffer(uint64_t i)
{
	const char *path = buffer_path(i);
	struct stat st;

	if (stat(path, &st) || st.st_size != sizeof(struct bench_scalar))
		bench_die("%s has another size than was written", path);
}

static void step_buffers(uint64_t from, struct step *to)
{
	to->make = make(write_buffer, from, to->n);
	to->visit = visit(stat_buffer, VISITS, to->n);
	to->again = visit(read_buffer, VISITS, to->n);
}

/* --- programs ---------------------------------------------------------------------------- */

static void run_program(uint64_t i)
{
	struct bench_scalar in[2] = { bench_scalar(1), bench_scalar(2) }, out;
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "executables/p%llu/call", (unsigned long long)i);
	fd = bench_open(bench_path(name), O_RDWR);
	bench_call(fd, in, sizeof(in), &out, sizeof(out));
	if (out.value != 3 + (float)i)
		bench_die("%s gives another number than %llu", name,
			  (unsigned long long)(3 + i));
	close(fd);
}

/* Each has a text of its own, so that each is compiled. */
static void put_program(uint64_t i)
{
	char name[64], text[512];

	snprintf(name, sizeof(name), "p%llu", (unsigned long long)i);
	snprintf(text, sizeof(text),
		 "func.func @main(%%a: tensor<f32>, %%b: tensor<f32>) -> tensor<f32> {\n"
		 "  %%c = stablehlo.constant dense<%llu.0> : tensor<f32>\n"
		 "  %%0 = stablehlo.add %%a, %%b : tensor<f32>\n"
		 "  %%1 = stablehlo.add %%0, %%c : tensor<f32>\n"
		 "  return %%1 : tensor<f32>\n"
		 "}\n",
		 (unsigned long long)i);
	bench_put_program(name, text);
}

static void step_programs(uint64_t from, struct step *to)
{
	to->make = make(put_program, from, to->n);
	to->visit = visit(run_program, to->n < VISITS ? to->n : VISITS, to->n);
	to->again = visit(run_program, VISITS, 1);
}

/* --- clients ----------------------------------------------------------------------------- */

static int call;
static unsigned calls; /* of each client */

static void open_call(void)
{
	call = bench_open(bench_path("executables/add/call"), O_RDWR);
}

static void call_all(unsigned client)
{
	struct bench_scalar in[2] = { bench_scalar(0), bench_scalar(1) }, out;

	for (unsigned i = 0; i < calls; i++) {
		in[0].value = (float)i;
		bench_call(call, in, sizeof(in), &out, sizeof(out));
		if (out.value != (float)i + 1)
			bench_die("call %u of client %u gave %g", i, client,
				  (double)out.value);
	}
}

static void step_clients(uint64_t from, struct step *to)
{
	unsigned n = (unsigned)to->n;
	struct memory before;

	if (!from)
		bench_put_program("add", bench_add);
	calls = CALLS / n + 1;
	before = memory_now();
	to->make = bench_gather(n, open_call, call_all) / n;
	to->memory = memory_since(&before, n);
	to->visit = bench_release(n) / ((double)n * calls);
}

static const char *clients_lack(uint64_t n)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur < n + 100)
		return "the user may not have that many processes";
	return NULL;
}

/* --- the length of an array -------------------------------------------------------------- */

/* Write or read so many bytes; each piece begins with its position. */
static void move_array(uint64_t len, bool in)
{
	static char piece[BENCH_STEP];
	const char *path = bench_path("buffers/x.raw");
	int fd = bench_open(path, in ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY);

	for (uint64_t done = 0; done < len;) {
		size_t n = len - done < BENCH_STEP ? (size_t)(len - done) : BENCH_STEP;
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

static void step_array(uint64_t from, struct step *to)
{
	unsigned again = to->n < (1 << 24) ? 10 : 1;
	struct memory before = memory_now();
	double t = bench_now();

	(void)from;
	for (unsigned i = 0; i < again; i++)
		move_array(to->n, true);
	to->make = (bench_now() - t) / again / (double)to->n;
	to->memory = memory_since(&before, to->n);
	t = bench_now();
	for (unsigned i = 0; i < again; i++)
		move_array(to->n, false);
	to->visit = (bench_now() - t) / again / (double)to->n;
	bench_unlink(bench_path("buffers/x.raw"));
}

static double available(void)
{
	return kib_of("/proc/meminfo", "MemAvailable:") * 1024;
}

static const char *array_lacks(uint64_t n)
{
	struct statvfs st;

	if (statvfs(bench.mnt, &st) || st.f_bavail * st.f_frsize < n)
		return "it is beyond the mount's memory limit";
	/* The array, a plugin's copy of it, and room for others. */
	return available() < (double)n * 2.5 ? "the machine lacks the memory" : NULL;
}

/* --- tables ------------------------------------------------------------------------------ */

/* Would a step of N things, after LAST (NULL: the first), take too much of this machine?  The
 * answer is in WHY. */
static bool is_too_much(const struct step *last, uint64_t n, char why[96])
{
	double more = last ? (double)(n - last->n) : 0;
	double seconds = last ? last->make * more : 0;
	double bytes = last ? (last->memory.daemon + last->memory.worker) * more : 0;
	const char *lacks = scale->lacks ? scale->lacks(n) : NULL;

	if (lacks)
		snprintf(why, 96, "%s", lacks);
	else if (seconds > STEP_S && !scale->bytes)
		snprintf(why, 96, "it would take %.0f minutes", seconds / 60);
	else if (bytes > available() / 2)
		snprintf(why, 96, "it would take %.1f GiB of memory", bytes / (1 << 30));
	return why[0];
}

static void measure(void)
{
	uint64_t last = bench.full    ? scale->n.full
			: bench.quick ? scale->n.quick
				      : scale->n.last;
	uint64_t from = 0, n = scale->n.first;

	for (unsigned i = 0; i < STEPS && n <= last; i++, n *= scale->n.factor) {
		struct step *to = &figures->steps[i];
		struct memory before = memory_now();

		if (is_too_much(i ? to - 1 : NULL, n, figures->why))
			break;
		to->n = n;
		scale->run(from, to);
		if (!scale->own_memory)
			to->memory = memory_since(&before, n - from);
		from = n;
	}
}

static void json_step(const struct step *step, const double seconds[3])
{
	fprintf(bench_json,
		"{\"program\":\"scale\",\"bench\":\"%s\",\"row\":\"%llu\",\"n\":%llu",
		scale->title, (unsigned long long)step->n, (unsigned long long)step->n);
	for (unsigned i = 0; i < 3; i++)
		if (scale->what[i])
			fprintf(bench_json, ",\"%s\":%.6g", scale->what[i], seconds[i]);
	fprintf(bench_json, ",\"daemon_bytes\":%.6g,\"worker_bytes\":%.6g,\"ratio\":{",
		step->memory.daemon, step->memory.worker);
	if (step > figures->steps)
		fprintf(bench_json,
			"\"to the step before\":{\"lowest\":%.6g},"
			"\"heap to 1 KiB\":{\"lowest\":%.6g}",
			step->make / step[-1].make, step->memory.daemon / 1024);
	fprintf(bench_json, "}}\n");
}

static void print_step(const struct step *step)
{
	const double seconds[3] = { step->make, step->visit, step->again };
	const char *unit = scale->bytes ? "ns" : "us";
	int digits = scale->bytes ? 3 : 0;

	printf("%12llu", (unsigned long long)step->n);
	for (unsigned i = 0; i < 3; i++)
		if (scale->what[i])
			printf(" %14.*f %s", digits ? digits : 1,
			       seconds[i] * (scale->bytes ? 1e9 : 1e6), unit);
	printf(" %14.*f %14.*f\n", digits, step->memory.daemon, digits,
	       step->memory.worker);
	if (bench_json)
		json_step(step, seconds);
}

static void print(void)
{
	uint64_t n = scale->n.first;

	printf("\n%s\n%12s", scale->title, "number");
	for (unsigned k = 0; k < 3; k++)
		if (scale->what[k])
			printf(" %17s", scale->what[k]);
	printf(" %14s %14s\n", "daemon, bytes", "worker, bytes");
	for (unsigned i = 0; i < STEPS && figures->steps[i].n; i++, n *= scale->n.factor)
		print_step(&figures->steps[i]);
	if (figures->why[0])
		printf("%12llu left out: %s\n", (unsigned long long)n, figures->why);
}

static const struct scale scales[] = {
	{ "Scale: buffers of one number, in directories of 10,000",
	  { "write", "stat", "read" },
	  { 1, 10, 10000, 1000, 1000000 },
	  .run = step_buffers },
	{ "Scale: programs",
	  { "compile", "first call", "call" },
	  { 1, 10, 1000, 10, 100000 },
	  .run = step_programs },
	{ "Scale: clients that call",
	  { "start", "call" },
	  { 1, 10, 100, 10, 1000 },
	  .run = step_clients,
	  .lacks = clients_lack,
	  .own_memory = true },
	{ "Scale: bytes of an array",
	  { "write", "read" },
	  { 4096, 8, 16 << 20, 256 << 10, UINT64_C(8) << 30 },
	  .run = step_array,
	  .lacks = array_lacks,
	  .own_memory = true,
	  .bytes = true },
};

int main(int argc, char **argv)
{
	bench_begin(argc, argv);
	for (scale = scales; scale < scales + sizeof(scales) / sizeof(*scales); scale++) {
		figures = bench_memory(sizeof(*figures), true);
		bench_mount();
		bench_in_child(measure, CHILD_S);
		print();
		bench_end();
	}
	return 0;
}
