/* SPDX-License-Identifier: Apache-2.0 */
/*
 * patient SECONDS COMMAND...: run the command, as timeout -k 5 does: after the seconds it gets
 * SIGTERM, and 5 s later SIGKILL, and the exit status is 124.  Seconds for which the test's
 * control group waited for a processor do not count, up to four times as many; the file
 * $PJRTFS_TEST_PRESSURE (cpu.pressure, Documentation/accounting/psi.rst) tells them.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ENDED = 124, CANNOT = 126, NOT_FOUND = 127, GRACE = 5 };

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Seconds, of all time, for which the group waited. */
static double waited(void)
{
	const char *path = getenv("PJRTFS_TEST_PRESSURE");
	FILE *f = path ? fopen(path, "re") : NULL;
	char line[256];
	const char *total = NULL;
	double s = 0;

	if (f && fgets(line, sizeof(line), f) && (total = strstr(line, "total=")))
		s = strtod(total + strlen("total="), NULL) / 1e6;
	if (f)
		fclose(f);
	return s;
}

/* Wait at most a second for a signal of the set; returns it, or 0. */
static int await(const sigset_t *set)
{
	struct timespec second = { .tv_sec = 1 };
	int sig = sigtimedwait(set, NULL, &second);

	return sig < 0 ? 0 : sig;
}

static int status_of(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The command does not end: end it, and what it started in its group. */
static int end(pid_t child, const sigset_t *set, const char *name)
{
	double kill_at = now() + GRACE;
	int status;

	fprintf(stderr, "patient: %s did not end in time\n", name);
	signal(SIGTERM, SIG_IGN);
	kill(child, SIGTERM);
	kill(0, SIGTERM);
	while (waitpid(child, &status, WNOHANG) != child) {
		if (now() > kill_at)
			kill(child, SIGKILL);
		await(set);
	}
	return ENDED;
}

int main(int argc, char **argv)
{
	static const int forwarded[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };
	double limit, begun = now(), before = waited();
	sigset_t set, old;
	pid_t child;
	int status;

	if (argc < 3 || (limit = strtod(argv[1], NULL)) <= 0) {
		fprintf(stderr, "usage: patient SECONDS COMMAND...\n");
		return CANNOT;
	}
	setpgid(0, 0);
	signal(SIGTTIN, SIG_IGN);
	signal(SIGTTOU, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < sizeof(forwarded) / sizeof(*forwarded); i++)
		sigaddset(&set, forwarded[i]);
	sigprocmask(SIG_BLOCK, &set, &old);
	child = fork();
	if (child < 0) {
		perror("patient: fork");
		return CANNOT;
	}
	if (child == 0) {
		signal(SIGTTIN, SIG_DFL);
		signal(SIGTTOU, SIG_DFL);
		sigprocmask(SIG_SETMASK, &old, NULL);
		execvp(argv[2], argv + 2);
		fprintf(stderr, "patient: %s: %s\n", argv[2], strerror(errno));
		_exit(errno == ENOENT ? NOT_FOUND : CANNOT);
	}
	while (waitpid(child, &status, WNOHANG) != child) {
		double delay, lasted = now() - begun;
		int sig;

		if (lasted > limit) {
			delay = waited() - before;
			if (lasted - (delay < 4 * limit ? delay : 4 * limit) > limit)
				return end(child, &set, argv[2]);
		}
		sig = await(&set);
		if (sig && sig != SIGCHLD)
			kill(child, sig);
	}
	return status_of(status);
}
