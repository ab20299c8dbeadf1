/* SPDX-License-Identifier: Apache-2.0 */
/* Which faults there are now, and what they do to a call. */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "plugin.h"

enum { SPEC_LEN = 4096 };

static const char *const op_names[N_OPS] = {
	"init", "client",  "compile", "execute", "upload",    "download", "pointer",
	"copy", "stats",   "event",   "api",     "serialize", "load",     "open",
	"send", "receive", "destroy", "abi",     "memory",    "pin",      "unpin",
};
static atomic_long calls[N_OPS];

/* The PJRT_Program that a thread compiles.  No _Thread_local: the leak checker falls over
 * those of libraries that were opened. */
static pthread_key_t compiling;

static void __attribute__((__constructor__)) make_key(void)
{
	if (pthread_key_create(&compiling, NULL))
		abort();
}

/* FAULT, or what of it is left after an "nth:N:"; NULL: it is not about this call. */
static const char *nth(const char *fault, long call)
{
	char *end;

	if (strncmp(fault, "nth:", strlen("nth:")))
		return fault;
	if (strtol(fault + strlen("nth:"), &end, 10) != call)
		return NULL;
	return end + (*end == ':');
}

/* FAULT, or what of it is left after a "when:WORD:"; NULL: it is not about this program. */
static const char *when(const char *fault)
{
	const char *word = fault + strlen("when:"), *end;
	const PJRT_Program *program = pthread_getspecific(compiling);

	if (strncmp(fault, "when:", strlen("when:")))
		return fault;
	end = strchr(word, ':');
	if (!end || !program ||
	    !memmem(program->code, program->code_size, word, (size_t)(end - word)))
		return NULL;
	return end + 1;
}

/* Read the list of faults that is in force. */
static void read_spec(char spec[static SPEC_LEN])
{
	const char *path = getenv("PJRTFS_FAULTY_FILE");
	const char *env = getenv("PJRTFS_FAULTY");
	FILE *f = path ? fopen(path, "re") : NULL;

	if (f) {
		spec[fread(spec, 1, SPEC_LEN - 1, f)] = '\0';
		fclose(f);
	} else {
		snprintf(spec, SPEC_LEN, "%s", env ? env : "");
	}
}

/* The first fault of NAME, or, unless CALL is negative, the first that is about this call. */
static bool search(const char *name, long call, char fault[static TEXT_LEN])
{
	size_t len = strlen(name);
	char spec[SPEC_LEN], *save = NULL;

	read_spec(spec);
	for (char *s = strtok_r(spec, ",\n", &save); s;
	     s = strtok_r(NULL, ",\n", &save)) {
		const char *found;

		s += strspn(s, " \t");
		if (strncmp(s, name, len) || s[len] != '=')
			continue;
		found = s + len + 1;
		if (call >= 0)
			found = nth(found, call);
		if (call >= 0 && found)
			found = when(found);
		if (!found)
			continue;
		snprintf(fault, TEXT_LEN, "%s", found);
		return strcmp(fault, "none") != 0;
	}
	return false;
}

bool find_named(const char *name, char fault[static TEXT_LEN])
{
	return search(name, -1, fault);
}

static bool find_fault_of(enum op op, long call, char fault[static TEXT_LEN])
{
	return search(op_names[op], call, fault);
}

long last_call(enum op op)
{
	return atomic_load(&calls[op]);
}

bool find_fault(enum op op, char fault[static TEXT_LEN])
{
	return find_fault_of(op, last_call(op), fault);
}

const char *fault_arg(const char *fault, const char *name)
{
	size_t len = strlen(name);

	if (strncmp(fault, name, len) || (fault[len] && fault[len] != ':'))
		return NULL;
	return fault[len] ? fault + len + 1 : fault + len;
}

void sleep_ms(long ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	/* real time: faults that take a time, for tests of time */
	while (nanosleep(&t, &t))
		;
}

void tell_reached(const char *word)
{
	const char *path = getenv("PJRTFS_FAULTY_FILE");
	char reached[PATH_MAX];
	int fd;

	if (!*word)
		return;
	snprintf(reached, sizeof(reached), "%s.reached", path ? path : "");
	fd = open(reached, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || dprintf(fd, "%s\n", word) < 0)
		perror(reached);
	if (fd >= 0)
		close(fd);
}

bool hold(enum op op, long call, char fault[static TEXT_LEN])
{
	char held[TEXT_LEN];
	bool has_fault;

	memcpy(held, fault, TEXT_LEN);
	tell_reached(strchr(held, ':') ? strchr(held, ':') + 1 : "");
	do {
		sleep_ms(10);
		has_fault = find_fault_of(op, call, fault);
	} while (has_fault && !strcmp(fault, held));
	return has_fault && !fault_arg(fault, "held") && !fault_arg(fault, "held-event");
}

PJRT_Error *error_from(const char *arg, enum op op)
{
	const char *colon = strchr(arg, ':');
	char text[TEXT_LEN], *newline;

	if (colon) {
		snprintf(text, sizeof(text), "%s", colon + 1);
		while ((newline = strstr(text, "\\n"))) {
			*newline = '\n';
			memmove(newline + 1, newline + 2, strlen(newline + 2) + 1);
		}
		return error_new(code_of(arg), "%s", text);
	}
	return error_new(code_of(arg), "faulty: %s fails as configured", op_names[op]);
}

void die(const char *fault)
{
	const char *arg;

	if ((arg = fault_arg(fault, "abort"))) {
		fprintf(stderr, "%s\n", *arg ? arg : "faulty: aborting as told");
		fflush(stderr);
		abort();
	}
	if (fault_arg(fault, "segv")) {
		signal(SIGSEGV, SIG_DFL);
		raise(SIGSEGV);
	}
	if ((arg = fault_arg(fault, "exit")))
		exit(*arg ? atoi(arg) : 1);
}

long count_call(enum op op)
{
	return atomic_fetch_add(&calls[op], 1) + 1;
}

static void print_lines(const char *arg)
{
	const char *colon = strchr(arg, ':');

	for (long i = 1; i <= strtol(arg, NULL, 10); i++)
		fprintf(stderr, "%s %ld\n", colon ? colon + 1 : "faulty: line", i);
}

static void *babble(void *arg)
{
	static const char text[] =
		"babble, babble, babble, babble, babble, babble, bab\n";
	char many[64 * (sizeof(text) - 1)];

	(void)arg;
	for (size_t i = 0; i < sizeof(many); i++)
		many[i] = text[i % (sizeof(text) - 1)];
	while (write(2, many, sizeof(many)) > 0)
		;
	return NULL;
}

/* As a wild pointer does, overwrite the second ring of the channel, and what follows it. */
static void damage(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uintptr_t from, to;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "pjrtfs-channel") &&
		    sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &from, &to) == 2)
			memset((char *)from + (to - from) / 2 - 2048, 0xff,
			       (to - from) / 2 + 2048);
	if (maps)
		fclose(maps);
}

/* The faults that only make a noise. */
static void make_noise(const char *fault)
{
	static atomic_flag babbles = ATOMIC_FLAG_INIT;
	pthread_t thread;
	const char *arg;

	if ((arg = fault_arg(fault, "attempts")) && *arg)
		attempts_prepare(arg);
	else if (arg)
		attempts_make();
	if ((arg = fault_arg(fault, "paths")))
		attempts_at(arg);
	if ((arg = fault_arg(fault, "print")))
		print_lines(arg);
	if ((arg = fault_arg(fault, "search")))
		search_memory((unsigned)atoi(arg));
	if (fault_arg(fault, "babble") && !atomic_flag_test_and_set(&babbles) &&
	    pthread_create(&thread, NULL, babble, NULL) == 0)
		pthread_detach(thread);
}

PJRT_Error *inject(enum op op)
{
	long call = count_call(op);
	char fault[TEXT_LEN];
	const char *arg;

	if (!find_fault_of(op, call, fault))
		return NULL;
	if ((arg = fault_arg(fault, "late"))) {
		sleep_ms(strtol(arg, NULL, 10));
		arg += strcspn(arg, ":");
		memmove(fault, arg + (*arg == ':'), strlen(arg + (*arg == ':')) + 1);
	}
	if (fault_arg(fault, "held") && !hold(op, call, fault))
		return NULL;
	die(fault);
	make_noise(fault);
	if (fault_arg(fault, "damage"))
		damage();
	arg = fault_arg(fault, "hang");
	if (arg || fault_arg(fault, "damage")) {
		if (arg && *arg)
			fprintf(stderr, "%s\n", arg);
		for (;;)
			pause();
	}
	if ((arg = fault_arg(fault, "slow")))
		sleep_ms(strtol(arg, NULL, 10));
	if ((arg = fault_arg(fault, "enospc-at")) && call == strtol(arg, NULL, 10))
		return error_new(PJRT_Error_Code_RESOURCE_EXHAUSTED,
				 "faulty: out of memory at call %ld of %s", call,
				 op_names[op]);
	if ((arg = fault_arg(fault, "error")))
		return error_from(arg, op);
	if (fault_arg(fault, "needs-socket")) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			return error_new(PJRT_Error_Code_UNAVAILABLE,
					 "faulty: no socket");
		close(fd);
	}
	return NULL;
}

PJRT_Error *inject_compile(const PJRT_Program *program)
{
	PJRT_Error *e;

	pthread_setspecific(compiling, program);
	e = inject(COMPILE);
	pthread_setspecific(compiling, NULL);
	return e;
}

static void __attribute__((__constructor__)) opened(void)
{
	free(inject(OPEN)); /* no caller would read an error */
}
