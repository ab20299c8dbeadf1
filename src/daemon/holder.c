/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The holder: a process that keeps the daemon's descriptors and starts the daemon again when it
 * dies.  It speaks the part of systemd's protocol that the daemon uses (descriptors.c).  A service
 * manager with a file descriptor store gets the same messages, so that the holder may be replaced,
 * too.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/fuse.h"

enum {
	FIRST_FD = 3,
	MAX_QUICK = 10,  /* lives in a row that do not serve, after which it gives up */
	MAX_CRASHES = 5, /* in a row within a second: then the next life begins anew */
	QUICK_MS = 1000,
	FIRST_PAUSE_MS = 5,
	TEXT = 4096,
	HOW = 64,        /* bytes that say how a process ended */
	CHECK_MS = 1000, /* how often an idle holder looks for a daemon that cannot end */
};

struct holder {
	char program[PATH_MAX];
	char *const *argv; /* borrowed */
	const char *mountpoint;
	char *directory; /* owned: where the user gave the command, or NULL */
	bool background;
	bool outer; /* a service manager holds the same descriptors for this process */
	int sock, signals; /* owned */
	struct sockaddr_un address;
	socklen_t address_len;
	int log;  /* borrowed: as holder_leave_terminal takes it */
	int told; /* owned: written to when the first life serves, or -1 */

	pid_t child;
	int64_t began, served; /* CLOCK_MONOTONIC, ms; served 0: not yet */
	bool has_served;       /* one of the lives has */
	bool stopping;
	bool suspended;          /* … and the service manager starts the next holder */
	unsigned quick, crashes; /* lives in a row */
	unsigned deaths;         /* lives that ended and should not have */
	bool has_died;           /* the last one that served has died */
	time_t death;            /* the last of these: when, and how */
	char how[HOW];
	unsigned n;
	struct {
		char name[DESCRIPTOR_NAME];
		int fd; /* owned */
	} held[MAX_DESCRIPTORS];
};

void holder_leave_terminal(int log)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null >= 0) {
		dup2(null, 0);
		dup2(null, 1);
		dup2(log < 0 ? null : log, 2);
		if (null > 2)
			close(null);
	}
	pf_log_setup(PF_LOG_INFO, log < 0);
	if (log >= 0)
		pf_log_to_file();
	if (chdir("/"))
		pf_log(PF_LOG_WARNING, "cannot leave the directory: %s", strerror(errno));
}

/* --- descriptors -------------------------------------------------------------------- */

static void let_go(struct holder *h, const char *name)
{
	for (unsigned i = 0; i < h->n; i++)
		if (!strcmp(h->held[i].name, name)) {
			pf_closep(&h->held[i].fd);
			h->held[i--] = h->held[--h->n];
		}
	descriptors_remove(name);
}

static bool holds(const struct holder *h, const char *name)
{
	for (unsigned i = 0; i < h->n; i++)
		if (!strcmp(h->held[i].name, name))
			return true;
	return false;
}

static bool is_pool(const char *name)
{
	return !strncmp(name, "pool.", 5);
}

/*
 * Without an arena the next daemon has to mount anew, without a pool it lacks some results: pools, of
 * which users cause as many as they end processes, leave room for the arenas of all users.
 */
static bool has_room(const struct holder *h, const char *name)
{
	unsigned pools = 0;

	for (unsigned i = 0; i < h->n; i++)
		pools += is_pool(h->held[i].name);
	return h->n < MAX_DESCRIPTORS && !(is_pool(name) && pools >= MAX_POOLS);
}

/* Take FD.  False: the table is full. */
static bool hold(struct holder *h, const char *name, int fd)
{
	if (!has_room(h, name)) {
		pf_log(PF_LOG_WARNING,
		       "%s: the holder has %u descriptors, and not %s: when the daemon ends, %s",
		       h->mountpoint, h->n, name,
		       is_pool(name) ? "the results of that process are lost"
				     : "the mount may begin anew, without its files");
		pf_closep(&fd);
		return false;
	}
	snprintf(h->held[h->n].name, sizeof(h->held[h->n].name), "%s", name);
	h->held[h->n++].fd = fd;
	return true;
}

/* One message of the daemon: its lines, and a descriptor or -1. */
static void take_lines(struct holder *h, char *text, int fd)
{
	char name[DESCRIPTOR_NAME] = "stored";
	bool store = false, removes = false, ready = false;

	for (char *save, *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		if (!strncmp(line, "STATUS=", 7) || !strcmp(line, "WATCHDOG=1") ||
		    !strcmp(line, "STOPPING=1"))
			descriptors_notify(line);
		store = store || !strcmp(line, "FDSTORE=1");
		removes = removes || !strcmp(line, "FDSTOREREMOVE=1");
		if (!strcmp(line, "READY=1")) {
			h->served = pf_now_ms();
			h->has_served = ready = true;
		}
		if (!strncmp(line, "FDNAME=", 7))
			snprintf(name, sizeof(name), "%s", line + 7);
	}
	if (removes)
		let_go(h, name);
	if (store && fd >= 0) {
		if (hold(h, name, fd))
			descriptors_store(name, fd);
	} else {
		pf_closep(&fd); /* a barrier's sender waits for that */
	}
	if (ready)
		descriptors_ready();
	if (h->served && h->told >= 0) {
		if (write(h->told, "1", 1) != 1)
			pf_log(PF_LOG_WARNING, "nobody waits for the mount");
		pf_closep(&h->told);
		holder_leave_terminal(h->log);
		setsid();
	}
}

/* Only the daemon's messages count: any process may send some. */
static bool is_child(const struct holder *h, struct msghdr *message, int *fd)
{
	bool is = false;

	*fd = -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		struct ucred sender;

		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_CREDENTIALS) {
			memcpy(&sender, CMSG_DATA(c), sizeof(sender));
			is = sender.pid == h->child;
		} else if (c->cmsg_type == SCM_RIGHTS &&
			   c->cmsg_len == CMSG_LEN(sizeof(*fd))) {
			memcpy(fd, CMSG_DATA(c), sizeof(*fd));
		}
	}
	return is;
}

/* False: no message waits. */
static bool take_message(struct holder *h)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int))];
		struct cmsghdr head;
	} control;
	char text[TEXT];
	struct iovec part = { .iov_base = text, .iov_len = sizeof(text) - 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	ssize_t n = recvmsg(h->sock, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	int fd;

	if (n < 0)
		return false;
	text[n] = '\0';
	if (is_child(h, &message, &fd))
		take_lines(h, text, fd);
	else
		pf_closep(&fd);
	return true;
}

static int listen_for_daemon(struct holder *h)
{
	int on = 1;

	h->sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (h->sock < 0)
		return -errno;
	h->address.sun_family = AF_UNIX;
	/* The kernel chooses an abstract name (unix(7), autobind). */
	h->address_len = sizeof(h->address);
	if (setsockopt(h->sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ||
	    bind(h->sock, (struct sockaddr *)&h->address, sizeof(sa_family_t)) ||
	    getsockname(h->sock, (struct sockaddr *)&h->address, &h->address_len))
		return -errno;
	return 0;
}

/* --- lives -------------------------------------------------------------------------- */

/* In the child: the environment of a daemon that is held. */
static void set_environment(const struct holder *h)
{
	size_t len = h->address_len - offsetof(struct sockaddr_un, sun_path);
	char text[MAX_DESCRIPTORS * DESCRIPTOR_NAME], *at = text;

	*at = '\0';
	for (unsigned i = 0; i < h->n; i++)
		at += sprintf(at, "%s%s", i ? ":" : "", h->held[i].name);
	setenv("LISTEN_FDNAMES", text, 1);
	snprintf(text, sizeof(text), "%u", h->n);
	setenv("LISTEN_FDS", text, 1);
	snprintf(text, sizeof(text), "%d", (int)getpid());
	setenv("LISTEN_PID", text, 1);
	snprintf(text, sizeof(text), "@%.*s", (int)len - 1, h->address.sun_path + 1);
	setenv("NOTIFY_SOCKET", text, 1);
	if (descriptors_watchdog_ms()) {
		snprintf(text, sizeof(text), "%u000", descriptors_watchdog_ms());
		setenv("WATCHDOG_USEC", text, 1);
		snprintf(text, sizeof(text), "%d", (int)getpid());
		setenv("WATCHDOG_PID", text, 1);
	}
	snprintf(text, sizeof(text), "%u %lld %d %s", h->deaths, (long long)h->death,
		 h->has_died, h->how);
	if (h->deaths)
		setenv(DIED, text, 1);
	setenv(HELD, h->background ? "background" : "foreground", 1);
}

/* In the child: move the descriptors to the numbers from 3 on. */
static void place_descriptors(const struct holder *h)
{
	int high[MAX_DESCRIPTORS];

	for (unsigned i = 0; i < h->n; i++)
		high[i] =
			fcntl(h->held[i].fd, F_DUPFD_CLOEXEC, FIRST_FD + MAX_DESCRIPTORS);
	for (unsigned i = 0; i < h->n; i++)
		dup2(high[i], FIRST_FD + (int)i);
}

static int start_daemon(struct holder *h)
{
	pid_t holder = getpid();
	sigset_t none;

	h->served = 0;
	h->began = pf_now_ms();
	h->child = fork();
	if (h->child)
		return h->child < 0 ? -errno : 0;
	/* The next holder starts another one. */
	if (h->outer && (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != holder))
		_exit(1);
	pf_oom_score_add(1);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* Its arguments may have relative paths. */
	if (h->directory && chdir(h->directory))
		pf_log(PF_LOG_WARNING, "the directory of the command is gone");
	set_environment(h);
	place_descriptors(h);
	execv(h->program, h->argv);
	pf_log(PF_LOG_ERROR, "%s: %s; the mount goes on with the program as it was",
	       h->program, strerror(errno));
	/* The kernel keeps it for this process, though it has no name any more. */
	execv("/proc/self/exe", h->argv);
	_exit(127);
}

/* The child has ended with STATUS, which HOW says: was it a death? */
static void note_end(struct holder *h, int status, char how[HOW])
{
	if (WIFSIGNALED(status))
		snprintf(how, HOW, "signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else
		snprintf(how, HOW, "status %d", WEXITSTATUS(status));
	if (WIFSIGNALED(status) || WEXITSTATUS(status) != EXIT_AGAIN) {
		h->deaths++;
		h->death = time(NULL);
		h->has_died = true;
		strcpy(h->how, how);
	} else if (h->served) { /* else it could not take the place of one that died */
		h->has_died = false;
	}
}

/* The child has ended with STATUS.  Is another one to be started? */
static bool goes_on(struct holder *h, int status)
{
	char how[HOW];
	bool crashed = WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL;

	if (h->stopping || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
		return false;
	/* The first life says itself why it cannot begin; but one that has handed over the mount may have
	 * answered requests, though it had not said yet that it serves. */
	if (!h->has_served && !(WIFSIGNALED(status) && holds(h, "fuse")))
		return false;
	if (WIFEXITED(status) && h->served && WEXITSTATUS(status) != EXIT_AGAIN)
		return false;
	note_end(h, status, how);
	h->crashes = crashed && h->served && pf_now_ms() - h->served < QUICK_MS
			     ? h->crashes + 1
			     : 0;
	h->quick = h->served ? 0 : h->quick + 1;
	pf_log(PF_LOG_WARNING, "the daemon of %s ended (%s) after %lld ms: %s",
	       h->mountpoint, how, (long long)(pf_now_ms() - h->began),
	       h->quick > MAX_QUICK ? "it does not serve, and is not started again"
				    : "it is started again");
	if (h->quick > MAX_QUICK)
		return false;
	if (h->crashes >= MAX_CRASHES) {
		/* The journal may be damaged: the next daemon mounts anew. */
		let_go(h, "state");
		h->crashes = 0;
	}
	if (h->quick)
		poll(NULL, 0, FIRST_PAUSE_MS << h->quick); /* 20 s in all */
	return true;
}

/* Send the child the signals that end it (SIGTERM, SIGINT) or suspend it (SIGUSR2). */
static void pass_on(struct holder *h, int signal)
{
	h->suspended = h->suspended || (signal == SIGUSR2 && h->outer);
	if (signal == SIGTERM || signal == SIGINT || h->suspended)
		h->stopping = true;
	if (signal != SIGCHLD && h->child > 0)
		kill(h->child, signal);
}

/*
 * Is the child a process whose first thread has ended, and another one has not?  *STATUS is as for
 * waitpid(2).  A thread that drops a name from the kernel's cache waits for requests that use the
 * directory; if the daemon is killed meanwhile, the thread ends when the next daemon answers them.
 * proc_pid_stat(5): the state follows the name in parentheses, the exit status is the last field.
 */
static bool cannot_end(pid_t child, int *status)
{
	char path[32], text[1024];
	const char *state, *code;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)child);
	pf_read_start(path, text, sizeof(text));
	state = strrchr(text, ')');
	code = strrchr(text, ' ');
	if (!state || state > code || strncmp(state, ") Z", 3))
		return false;
	*status = (int)strtol(code, NULL, 10);
	return true;
}

/* Reap the child; IDLE: nothing happened for CHECK_MS.  False: it lives, or a new one does; else
 * *STATUS is the last one's. */
static bool has_ended(struct holder *h, bool idle, int *status)
{
	pid_t pid;

	/* Earlier ones, which could not end, are reaped, too. */
	while ((pid = waitpid(-1, status, WNOHANG)) > 0 ||
	       (idle && cannot_end(h->child, status))) {
		if (pid > 0 && pid != h->child)
			continue;
		idle = false;
		while (take_message(h)) /* what it sent before */
			;
		h->child = 0;
		if (!goes_on(h, *status) || start_daemon(h) < 0)
			return true;
	}
	return false;
}

static int watch(struct holder *h)
{
	struct pollfd fds[] = { { .fd = h->sock, .events = POLLIN },
				{ .fd = h->signals, .events = POLLIN } };
	struct signalfd_siginfo info;
	int status = 0, n = 1;

	while (!has_ended(h, n == 0, &status)) {
		/* A daemon that starts has time limits of its own. */
		if (!h->served)
			descriptors_notify("WATCHDOG=1");
		n = poll(fds, PF_ARRAY_SIZE(fds), CHECK_MS);
		if (n < 0 && errno != EINTR)
			break;
		while (take_message(h))
			;
		if (read(h->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
			pass_on(h, (int)info.ssi_signo);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Take what a service manager kept for an earlier holder. */
static void take_kept(struct holder *h)
{
	struct pf_kept kept[MAX_DESCRIPTORS];
	unsigned n = descriptors_list(kept);

	for (unsigned i = 0; i < n; i++)
		if (!hold(h, kept[i].name, descriptors_take(kept[i].name)))
			descriptors_remove(kept[i].name);
	h->has_served = n;
}

static int prepare(struct holder *h)
{
	sigset_t set;
	ssize_t n = readlink("/proc/self/exe", h->program, sizeof(h->program) - 1);

	if (n < 0)
		return -errno;
	h->program[n] = '\0';
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGHUP, SIG_IGN);
	h->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	(void)prctl(PR_SET_NAME, "pjrtfs-holder");
	pf_oom_score_add(-1); /* a holder without rights keeps what it has */
	return h->signals < 0 ? -errno : listen_for_daemon(h);
}

int holder_run(char *const *argv, const char *mountpoint, bool outer, int told, int log)
{
	struct holder h = { .argv = argv,
			    .mountpoint = mountpoint,
			    .directory = getcwd(NULL, 0),
			    .background = told >= 0,
			    .outer = outer,
			    .sock = -1,
			    .signals = -1,
			    .told = told,
			    .log = log };
	struct pf_err err = PF_ERR_INIT;
	int r = prepare(&h), status = 1;

	take_kept(&h);
	if (r == 0)
		r = start_daemon(&h);
	if (r == 0)
		status = watch(&h);
	else
		pf_log(PF_LOG_ERROR, "no process to hold the mount: %s", strerror(-r));
	if (!h.suspended) {
		unsigned n = h.n;

		/* Requests that still wait are answered: the connection ends with its last
		 * holder. */
		while (h.n)
			let_go(&h, h.held[0].name);
		if (n && status && pf_mount_clear(mountpoint, &err) < 0)
			pf_log(PF_LOG_ERROR, "%s", err.text);
	}
	descriptors_wait();
	free(h.directory);
	pf_closep(&h.sock);
	pf_closep(&h.signals);
	pf_closep(&h.told);
	return status;
}
