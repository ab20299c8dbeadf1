/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of the clients: what they count, which failures are explained, files. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "soak.h"

enum {
	SAID = 2,         /* failures of one kind that a client prints */
	SLOW_SECONDS = 10 /* operations that last longer are printed */
};

static uint64_t state_of_random;
static uint64_t since;
static bool armed;

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void pause_ms(unsigned ms)
{
	struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };

	/* real time: clients pause for so long */
	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

void seed_random(uint64_t seed)
{
	state_of_random = seed * 0x9e3779b97f4a7c15u + 1;
}

uint32_t below(uint32_t n)
{
	state_of_random ^= state_of_random << 13;
	state_of_random ^= state_of_random >> 7;
	state_of_random ^= state_of_random << 17;
	return (uint32_t)((state_of_random >> 32) % n);
}

bool one_in(uint32_t n)
{
	return below(n) == 0;
}

/* --- what is counted ---------------------------------------------------------------- */

/* Which process speaks, for the lines that it prints. */
static const char *speaker(void)
{
	static char text[64];

	if (!me)
		return "main";
	snprintf(text, sizeof(text), "%s %u, life %u", kinds[me->kind].name, me->index,
		 me->lives);
	return text;
}

void say(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	dprintf(1, "%9.3f s: %s\n", (double)(now_ns() - all->begun) / 1e9, text);
}

void wrong(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say("WRONG %s: %s: %s", speaker(), me ? me->doing : "", text);
	if (++all->n_wrong >= WRONG_AT_MOST)
		all->stop = true;
}

void op_begin(enum op op, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(me->doing, sizeof(me->doing), fmt, ap);
	va_end(ap);
	me->op = op;
	since = now_ns();
	me->began = since;
}

void op_since(uint64_t when)
{
	since = when;
}

static void op_end(void)
{
	uint64_t took = now_ns() - me->began;

	if (me->began && took > me->slowest[me->op])
		me->slowest[me->op] = took;
	if (me->began && took > SLOW_SECONDS * 1000000000ull)
		say("%s: %s: took %.1f s", speaker(), me->doing, (double)took / 1e9);
	me->began = 0;
	if (armed)
		interrupt_in(0);
}

void op_ok(void)
{
	op_end();
	me->done[me->op]++;
}

bool was_there(enum cause cause, uint64_t when)
{
	return all->causes[cause].active || all->causes[cause].ended >= when;
}

static bool explains(enum cause cause)
{
	return was_there(cause, since);
}

static bool explained(int err, const char *sentence)
{
	switch (err) {
	case EIO:
		/* A program that was alone when the worker died is refused for a while. */
		if (strstr(sentence, "is refused for another")) {
			me->quarantined++;
			return true;
		}
		/* The fault may have been long ago. */
		if (strstr(sentence, "was lost when the worker") ||
		    strstr(sentence, "did not compile: the worker"))
			return was_there(WORKER, 1) || was_there(DAEMON, 1);
		return explains(WORKER) || explains(DAEMON);
	case EBUSY:
		/* The client before this one was killed while an execution consumed it. */
		return me->lives > 1 && strstr(sentence, "donated to an execution");
	case ENOSPC:
		return explains(MEMORY);
	case EINTR:
		return armed;
	case ETIMEDOUT:
		return explains(STOPPED) || explains(WORKER);
	case ENOTCONN:
	case ECONNABORTED:
		return explains(DAEMON);
	default:
		return false;
	}
}

bool op_lacks(const char *sentence)
{
	return !*sentence && !explains(DAEMON);
}

void op_failed(int err, const char *sentence)
{
	char text[LINE] = "";

	if (!sentence && err != EINTR) {
		read_file("error", text, sizeof(text));
		sentence = text;
	}
	sentence = sentence ? sentence : "";
	me->failed[me->op]++;
	me->refused[err < ERRNOS ? err : 0]++;
	if (err == EINTR)
		me->interrupted++;
	if (!explained(err, sentence))
		wrong("%s, which no fault explains: %s", strerror(err), sentence);
	else if (err != EINTR && op_lacks(sentence))
		wrong("%s without a sentence", strerror(err));
	else if (me->failed[me->op] <= SAID)
		say("%s: %s: %s: %.*s", speaker(), me->doing, strerror(err),
		    (int)strcspn(sentence, "\n"), sentence);
	op_end();
}

bool op_ended(int err, const char *sentence)
{
	if (err)
		op_failed(err, sentence);
	else
		op_ok();
	return !err;
}

void cause_begins(enum cause cause)
{
	all->causes[cause].active++;
}

void cause_ends(enum cause cause)
{
	all->causes[cause].ended = now_ns();
	all->causes[cause].active--;
}

void interrupt_in(unsigned us)
{
	struct itimerval t = { .it_value = { us / 1000000, us % 1000000 } };

	armed = us != 0;
	setitimer(ITIMER_REAL, &t, NULL);
}

/* --- files -------------------------------------------------------------------------- */

const char *path_of(const char *fmt, ...)
{
	static char paths[8][128];
	static unsigned next;
	char *path = paths[next++ % 8];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(paths[0]), fmt, ap);
	va_end(ap);
	return path;
}

ssize_t read_file(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n;
	int err;

	if (fd < 0)
		return -errno;
	while ((n = read(fd, buf + len, size - 1 - len)) > 0)
		len += (size_t)n;
	err = errno;
	close(fd);
	buf[len] = '\0';
	return n < 0 ? -err : (ssize_t)len;
}

int write_file(const char *path, int flags, const void *bytes, size_t len, size_t piece)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0644);
	int err = 0;

	if (fd < 0)
		return errno;
	for (size_t at = 0; at < len && !err;) {
		size_t most = len - at < piece ? len - at : piece;
		ssize_t n = write(fd, (const char *)bytes + at, most);

		if (n < 0)
			err = errno;
		else
			at += (size_t)n;
	}
	if (close(fd) && !err)
		err = errno;
	return err;
}

int write_text(const char *path, const char *text)
{
	return write_file(path, 0, text, strlen(text), strlen(text));
}

long file_number(const char *path)
{
	char text[64];

	return read_file(path, text, sizeof(text)) > 0 ? strtol(text, NULL, 10) : -1;
}

/* --- commands and replies ----------------------------------------------------------- */

int talk_open(const char *path)
{
	return open(path, O_RDWR | O_CLOEXEC);
}

void talk_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int control = -1;
char reply[LINE];

void open_control(void)
{
	control = talk_open("control");
	if (control < 0)
		wrong("control: %s", strerror(errno));
}

static int errno_of_name(const char *name)
{
	for (int i = 1; i < ERRNOS; i++) {
		const char *known = strerrorname_np(i);

		if (known && !strncmp(name, known, strlen(known)) &&
		    (name[strlen(known)] == '"' || name[strlen(known)] == ':'))
			return i;
	}
	return EPROTO;
}

int reply_errno(void)
{
	const char *at = strstr(reply, "\"errno\":\"");

	if (at)
		return errno_of_name(at + 9);
	return strncmp(reply, "error: ", 7) ? EPROTO : errno_of_name(reply + 7);
}

int talk(int fd, const char *fmt, ...)
{
	char text[LINE];
	size_t len;
	ssize_t n;
	va_list ap;

	va_start(ap, fmt);
	len = (size_t)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	reply[0] = '\0';
	/* A command that is written again is waited for, and does not run twice. */
	while ((n = write(fd, text, len)) < 0 && errno == EINTR)
		me->interrupted++;
	if (n < 0)
		return errno;
	if ((size_t)n != len) {
		wrong("%zd of %zu bytes of one command were written", n, len);
		return EIO;
	}
	/* The command runs, whatever interrupts the wait. */
	while ((n = read(fd, reply, LINE - 1)) < 0 && errno == EINTR)
		me->interrupted++;
	if (n < 0)
		return errno;
	reply[n] = '\0';
	if (!strncmp(reply, "{\"ok\":true", 10) || !strncmp(reply, "ok:", 3))
		return 0;
	return reply_errno();
}

long reply_number(const char *key)
{
	const char *text = path_of("\"%s\":", key), *at = strstr(reply, text);

	return at ? strtol(at + strlen(text), NULL, 10) : -1;
}
