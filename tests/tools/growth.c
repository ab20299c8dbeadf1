/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Very many commands of all sorts, and the memory that they leave in use.
 *
 *     growth MOUNTPOINT COMMANDS [MAX-GROWTH]
 *
 * The executable add, of two F32[], and the buffers x and y must be there, 2 and 3.  Every
 * reply is checked.  The memory of the daemon and of its worker (GROWTH_WORKER: the file
 * with its pid) is printed ten times.  At the end it may be MAX-GROWTH KiB (default: any) above the
 * most of the first half, in which the histories that are kept become full and malloc may give
 * memory back and take it again.  Otherwise the exit status is 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 128, NPY = HEAD + 4, REPLY = 65536 };

static const char *mnt;
static int control, call;

static void __attribute__((__noreturn__, __format__(__printf__, 1, 2)))
die(const char *fmt, ...)
{
	va_list ap;

	fputs("growth: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

static int open_file(const char *name, int flags)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", mnt, name);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	return fd;
}

/* Write TEXT to FD; the reply must contain WANT. */
static void ask(int fd, const char *text, const char *want)
{
	char reply[REPLY];
	ssize_t n = write(fd, text, strlen(text));

	if (n != (ssize_t)strlen(text))
		die("'%s': %s", text, n < 0 ? strerror(errno) : "not taken whole");
	n = read(fd, reply, sizeof(reply) - 1);
	if (n < 0)
		die("the reply to '%s': %s", text, strerror(errno));
	reply[n] = '\0';
	if (!strstr(reply, want))
		die("'%s' gave '%s'", text, reply);
}

/* --- the commands -------------------------------------------------------------------------- */

#define EXECUTE "\"op\":\"execute\",\"executable\":\"add\",\"inputs\":[\"x\",\"y\"],"

static void do_execute(unsigned long i)
{
	char text[256];

	/* names that are new, and names that are taken over */
	snprintf(text, sizeof(text), "{" EXECUTE "\"outputs\":[\"z%lu\"],\"id\":%lu}\n",
		 i % 64, i);
	ask(control, text, "\"ok\":true");
}

static void do_call(unsigned long i)
{
	char in[2 * NPY], out[NPY];
	float x = (float)(i % 1000), y = 1, z;

	for (int k = 0; k < 2; k++) {
		char *npy = in + k * NPY;

		memset(npy, ' ', HEAD);
		memcpy(npy, "\x93NUMPY\x01\x00\x76\x00", 10);
		memcpy(npy + 10,
		       "{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 55);
		npy[HEAD - 1] = '\n';
		memcpy(npy + HEAD, k ? &y : &x, 4);
	}
	if (write(call, in, sizeof(in)) != (ssize_t)sizeof(in) ||
	    read(call, out, sizeof(out)) != (ssize_t)sizeof(out))
		die("call: %s", strerror(errno));
	memcpy(&z, out + HEAD, 4);
	if (z != x + y)
		die("call: %g + %g = %g", (double)x, (double)y, (double)z);
}

static void do_refused(unsigned long i)
{
	(void)i;
	ask(control,
	    "{\"op\":\"execute\",\"executable\":\"add\",\"inputs\":[\"x\",\"none\"],"
	    "\"outputs\":[\"z\"]}\n",
	    "ENOENT");
}

static void do_batch(unsigned long i)
{
	(void)i;
	ask(control,
	    "{\"op\":\"batch\",\"steps\":[{" EXECUTE "\"outputs\":[\"b\"]},"
	    "{\"op\":\"execute\",\"executable\":\"add\",\"inputs\":[\"b\",\"b\"],"
	    "\"outputs\":[\"b\"],\"repeat\":3},{\"op\":\"delete\",\"buffer\":\"b\"}]}\n",
	    "\"ok\":true");
}

static void do_job(unsigned long i)
{
	char reply[REPLY], wait[64];
	const char *text = "{" EXECUTE "\"outputs\":[\"j\"],\"async\":true}\n";
	const char *at;
	ssize_t n;

	(void)i;
	if (write(control, text, strlen(text)) < 0 ||
	    (n = read(control, reply, sizeof(reply) - 1)) < 0)
		die("a job: %s", strerror(errno));
	reply[n] = '\0';
	at = strstr(reply, "\"job\":");
	if (!at)
		die("a job: %s", reply);
	snprintf(wait, sizeof(wait), "{\"op\":\"wait\",\"job\":%lu}\n",
		 strtoul(at + 6, NULL, 10));
	ask(control, wait, "\"state\":\"done\"");
}

static void do_session(unsigned long i)
{
	int fd = open_file("executables/add/run", O_RDWR);

	(void)i;
	ask(fd, "x y -> r\n", "ok: r F32[]");
	close(fd);
}

static void do_create(unsigned long i)
{
	(void)i;
	ask(control,
	    "{\"op\":\"create\",\"buffer\":\"c\",\"dtype\":\"S8\",\"shape\":[7],\"fill\":1}\n",
	    "\"ok\":true");
	ask(control, "{\"op\":\"delete\",\"buffer\":\"c\"}\n", "\"ok\":true");
}

/* --- memory ------------------------------------------------------------------------------ */

/* KiB that process PID has for itself, in pages of its own and in shared ones. */
static unsigned long taken_by(unsigned long pid)
{
	char path[64], line[256];
	unsigned long sum = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%lu/status", pid);
	f = fopen(path, "re");
	if (!f)
		die("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, "RssAnon:", 8) || !strncmp(line, "RssShmem:", 9))
			sum += strtoul(strchr(line, ':') + 1, NULL, 10);
	fclose(f);
	return sum;
}

static unsigned long number_in(const char *name)
{
	char text[32] = "";
	int fd = open_file(name, O_RDONLY);

	if (read(fd, text, sizeof(text) - 1) <= 0)
		die("%s cannot be read", name);
	close(fd);
	return strtoul(text, NULL, 10);
}

int main(int argc, char **argv)
{
	static void (*const mix[])(unsigned long) = {
		do_call, do_execute, do_call,    do_execute, do_refused,
		do_call, do_execute, do_session, do_execute, do_batch,
		do_call, do_execute, do_job,     do_execute, do_create,
	};
	unsigned long n = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	unsigned long most = argc > 3 ? strtoul(argv[3], NULL, 10) : ~0UL;
	unsigned long daemon, worker, peak = 0, now = 0;
	time_t began = time(NULL);

	if (n < 10)
		die("usage: growth MOUNTPOINT COMMANDS [MAX-GROWTH]");
	mnt = argv[1];
	control = open_file("control", O_RDWR);
	call = open_file("executables/add/call", O_RDWR);
	daemon = number_in("pid");
	worker = number_in(getenv("GROWTH_WORKER") ? getenv("GROWTH_WORKER")
						   : "plugins/cpu/pid");
	printf("commands  daemon KiB  worker KiB  seconds\n");
	for (unsigned long i = 1; i <= n; i++) {
		unsigned long d, w;

		mix[i % (sizeof(mix) / sizeof(mix[0]))](i);
		if (i % (n / 10))
			continue;
		d = taken_by(daemon);
		w = taken_by(worker);
		printf("%8lu  %10lu  %10lu  %7ld\n", i, d, w, (long)(time(NULL) - began));
		fflush(stdout);
		now = d + w;
		if (i <= n / 2 && now > peak)
			peak = now;
	}
	if (now > peak && now - peak > most)
		die("memory grew by %lu KiB, more than %lu", now - peak, most);
	return 0;
}
