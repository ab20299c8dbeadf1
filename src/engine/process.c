#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pjrtfs/wire/channel.h"

extern char **environ;

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

int pf_process_spawn(char *program, char *name, int sock, int err_fd, pid_t *ret,
		     struct pf_err *err)
{
	char parent[16];
	char *argv[] = { program, name, parent, NULL };
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int r;

	snprintf(parent, sizeof(parent), "%d", (int)getpid());
	posix_spawn_file_actions_init(&fa);
	posix_spawnattr_init(&attr);
	sigemptyset(&none);
	sigfillset(&all);
	/* The daemon blocks and ignores signals that a worker must not. */
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	/* Its own group: Ctrl-C at a foreground daemon is the daemon's to handle. */
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
						POSIX_SPAWN_SETPGROUP);
	posix_spawn_file_actions_adddup2(&fa, err_fd, 1);
	posix_spawn_file_actions_adddup2(&fa, err_fd, 2);
	posix_spawn_file_actions_adddup2(&fa, sock, PF_CHANNEL_FD);
	posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	r = posix_spawn(ret, program, &fa, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&fa);
	if (r)
		return pf_err_set(err, -r, "start %s: %s", program, strerror(r));
	return 0;
}

int pf_process_fds(int fds[4], struct pf_err *err)
{
	for (int i = 0; i < 4; i++)
		fds[i] = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) ||
	    pipe2(fds + 2, O_CLOEXEC))
		return pf_err_set(err, -errno, "sockets for a worker: %s",
				  strerror(errno));
	if (fds[1] <= PF_CHANNEL_FD) {
		int high = fcntl(fds[1], F_DUPFD_CLOEXEC, PF_CHANNEL_FD + 1);

		if (high < 0)
			return pf_err_set(err, -errno, "sockets for a worker: %s",
					  strerror(errno));
		close(fds[1]);
		fds[1] = high;
	}
	fcntl(fds[2], F_SETFL, O_NONBLOCK);
	return 0;
}

size_t pf_process_drain(int err_fd, struct pf_tail *tail)
{
	char text[32 << 10];
	size_t done = 0;
	ssize_t n = 1;

	while (err_fd >= 0 && done < PF_PROCESS_AT_ONCE && n > 0) {
		n = read(err_fd, text, sizeof(text));
		if (n > 0)
			pf_tail_add(tail, text, (size_t)n);
		done += n > 0 ? (size_t)n : 0;
	}
	return done;
}

int pf_process_await(int sock, int err_fd, int timeout_ms, struct pf_tail *tail,
		     struct pf_err *err)
{
	struct pollfd p[2] = { { .fd = sock, .events = POLLIN },
			       { .fd = err_fd, .events = POLLIN } };
	int64_t end = now_ms() + timeout_ms, left;

	for (;;) {
		left = end - now_ms();
		if (left <= 0)
			return 0; /* who receives now tells that nothing came */
		p[0].revents = p[1].revents = 0;
		if (poll(p, 2, (int)left) < 0 && errno != EINTR)
			return pf_err_set(err, -errno, "wait for a worker: %s",
					  strerror(errno));
		if (p[1].revents)
			pf_process_drain(err_fd, tail);
		if (p[1].revents & (POLLHUP | POLLERR))
			p[1].fd = -1;
		if (p[0].revents)
			return (int)left;
	}
}

void pf_process_reap(pid_t pid, const char *name, int err_fd, struct pf_tail *tail,
		     struct pf_err *why)
{
	pf_autobuf struct pf_buf words = PF_BUF_INIT;
	const char *last;
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	pf_process_drain(err_fd, tail);
	if (tail->printed)
		pf_printed_end(tail->printed);
	pf_tail_last_words(tail, &words);
	last = words.data ? words.data : "nothing";
	if (WIFSIGNALED(status))
		pf_err_set(why, -EIO,
			   "the worker of plugin %s died of signal %d (%s); it "
			   "printed last: %s",
			   name, WTERMSIG(status), strsignal(WTERMSIG(status)), last);
	else
		pf_err_set(why, -EIO,
			   "the worker of plugin %s exited with status %d; it "
			   "printed last: %s",
			   name, WEXITSTATUS(status), last);
}

char *pf_process_setup(const struct pf_worker_config *c)
{
	struct json_object *o = json_object_new_object();
	char *text;

	json_object_object_add(o, "version", json_object_new_int(PF_WIRE_VERSION));
	json_object_object_add(o, "plugin", json_object_new_string(c->path));
	json_object_object_add(o, "options",
			       c->options ? json_object_get(c->options)
					  : json_object_new_object());
	json_object_object_add(o, "arena_size",
			       json_object_new_int64((int64_t)pf_arena_size(c->arena)));
	json_object_object_add(o, "pool_size",
			       json_object_new_int64((int64_t)c->pool_size));
	json_object_object_add(o, "interpose", json_object_new_boolean(true));
	text = strdup(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	json_object_put(o);
	return text;
}

int pf_process_pool(uint64_t size, struct pf_err *err)
{
	int fd = memfd_create("pjrtfs-pool", MFD_CLOEXEC);

	if (fd >= 0 && !ftruncate(fd, (off_t)size))
		return fd;
	pf_err_set(err, -errno, "make the pool: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return err->code;
}

void pf_worker_program(char *dst, size_t len)
{
	char self[PATH_MAX - 32];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n > 0) {
		self[n] = '\0';
		slash = strrchr(self, '/');
		if (slash) {
			*slash = '\0';
			snprintf(dst, len, "%s/pjrtfs-worker", self);
			if (access(dst, X_OK) == 0)
				return;
		}
	}
	snprintf(dst, len, "%s/pjrtfs-worker", PKGLIBEXECDIR);
}
