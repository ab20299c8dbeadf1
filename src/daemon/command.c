/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --run: a command with a mount of its own.
 *
 * Three processes: this one, which starts the two others, and waits; the command; and the daemon.
 * This one has a single thread and no plugin, so it outlives whatever the daemon or the command do,
 * and cleans up after each of them.  As the parent of both it reaps both, also where the system's
 * first process reaps nothing; where it is the first process itself, it reaps all others, too, and
 * takes no worker from the daemon that way.
 *
 * The command's process waits for a byte, which the daemon sends when it has mounted.  Its process
 * group is its own, so that a signal reaches what the command has started.  The daemon's is, too:
 * SIGKILL for the group of this process spares the daemon, which then cleans up.
 *
 * Launchers signal every process of a job.  The daemon must serve until the command has ended, and
 * so ignores their signals: this process ends it with SIGRTMIN.  The daemon sends SIGRTMIN to this
 * process if its plugins have failed, and serves on, so that the command and its user can see why.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/fuse.h"

enum {
	NOT_FOUND = 127,
	NOT_EXECUTABLE = 126,
	MOUNT_LOST = 124,
	GRACE_MS = 10000, /* from SIGTERM to SIGKILL for a command without a mount */
};

static const int forwarded[] = { SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
				 SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU };

struct run {
	const struct options *options;
	pid_t self, command, daemon; /* 0: has ended */
	pid_t group;                 /* the command's */
	int before; /* owned: the mount namespace that the program was started in, or -1 */
	int tty;    /* owned: the terminal, if the command may have it; or -1 */
	int status; /* the exit status of this process */
	bool lost;  /* the mount, or all of its plugins, failed while the command ran */
	int64_t kill_at; /* CLOCK_MONOTONIC, ms; if lost */
};

static struct run run = { .before = -1, .tty = -1 };

/* --- the namespaces ------------------------------------------------------------------------- */

static int write_file(const char *path, const char *text)
{
	pf_autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) >= 0 ? 0 : -errno;
}

/*
 * Enter a mount namespace in which mounts of this process are not seen elsewhere; the kernel
 * unmounts them with its last process.  Without the right to that a user namespace gives it, in
 * which user and group keep their numbers.
 */
static int enter_namespaces(void)
{
	unsigned user = geteuid(), group = getegid();
	char map[64];
	int r = 0;

	if (unshare(CLONE_NEWNS)) {
		if (errno != EPERM || unshare(CLONE_NEWUSER | CLONE_NEWNS))
			return -errno;
		r = write_file("/proc/self/setgroups", "deny");
		snprintf(map, sizeof(map), "%u %u 1", user, user);
		r = r < 0 ? r : write_file("/proc/self/uid_map", map);
		snprintf(map, sizeof(map), "%u %u 1", group, group);
		r = r < 0 ? r : write_file("/proc/self/gid_map", map);
	}
	if (r == 0 && mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL))
		r = -errno;
	return r;
}

/* Some systems grant a user namespace, but no right in it, and nothing leads back: a child tries. */
static int try_namespaces(void)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0)
		_exit(-enter_namespaces());
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EPERM;
}

static int make_mountpoint(struct options *o, struct pf_err *err)
{
	const char *base = getenv("TMPDIR");
	int r = try_namespaces();

	/* It stays as long as this one has a descriptor: else /proc/self/exe, in which the daemon
	 * finds its worker, would no longer have the whole path. */
	run.before = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (r == 0)
		r = enter_namespaces();
	if (r == 0)
		/* The kernel unmounts; fusermount3 has no right here. */
		words_remove(&o->fuse, "auto_unmount");
	else
		pf_log(PF_LOG_WARNING,
		       "--run: no mount namespace for the command: %s; the mount is "
		       "visible outside of it, and stays if pjrtfs is killed",
		       strerror(-r));
	if (asprintf(&o->mountpoint, "%s/pjrtfs.XXXXXX", base && *base ? base : "/tmp") <
	    0) {
		o->mountpoint = NULL;
		return no_memory(err);
	}
	if (!mkdtemp(o->mountpoint))
		return pf_err_set(err, -errno,
				  "--run: make a directory for the mount, %s: %s",
				  o->mountpoint, strerror(errno));
	return 0;
}

/* --- the command ---------------------------------------------------------------------------- */

/* In the child: wait for the daemon's byte, and become the command. */
_Noreturn static void become_command(int ready, const sigset_t *mask)
{
	char *const *argv = run.options->run;
	char byte;

	setpgid(0, 0);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != run.self)
		_exit(EXIT_NOT_MOUNTED);
	sigprocmask(SIG_SETMASK, mask, NULL);
	if (read(ready, &byte, 1) != 1)
		_exit(EXIT_NOT_MOUNTED);
	setenv("PJRTFS_MOUNT", run.options->mountpoint, 1);
	execvp(argv[0], argv);
	pf_log(PF_LOG_ERROR, "--run %s: %s", argv[0], strerror(errno));
	_exit(errno == ENOENT ? NOT_FOUND : NOT_EXECUTABLE);
}

/* In the child that is the daemon. */
static void become_daemon(const sigset_t *mask)
{
	setpgid(0, 0);
	for (size_t i = 0; i < PF_ARRAY_SIZE(forwarded); i++)
		signal(forwarded[i], SIG_IGN);
	signal(SIGTTOU, SIG_IGN); /* its messages are for the terminal, too */
	sigprocmask(SIG_SETMASK, mask, NULL);
	pf_closep(&run.tty);
	if (prctl(PR_SET_PDEATHSIG, SIGRTMIN) || getppid() != run.self)
		_exit(EXIT_NOT_MOUNTED);
}

/* --- waiting -------------------------------------------------------------------------------- */

static void give_terminal(pid_t from, pid_t to)
{
	if (run.tty >= 0 && tcgetpgrp(run.tty) == from)
		tcsetpgrp(run.tty, to);
}

/* The command has been stopped by SIG: the shell that started this process sees a stopped job, and
 * continues it in the foreground or in the background. */
static void stop_with_command(int sig)
{
	if (run.tty < 0)
		return;
	if (tcgetpgrp(run.tty) != getpgrp()) {
		give_terminal(run.group, getpgrp());
		kill(0, sig == SIGTSTP ? SIGTSTP : SIGSTOP);
	}
	give_terminal(getpgrp(), run.group);
	kill(-run.group, SIGCONT);
}

static void command_ended(int status)
{
	run.command = 0;
	give_terminal(run.group, getpgrp());
	if (run.lost)
		kill(-run.group, SIGKILL);
	else
		run.status =
			WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (run.daemon)
		kill(run.daemon, SIGRTMIN);
}

/* Of no use any more, the command is to end. */
static void lose(void)
{
	run.lost = true;
	run.status = MOUNT_LOST;
	run.kill_at = pf_now_ms() + GRACE_MS;
	kill(-run.group, SIGTERM);
	kill(-run.group, SIGCONT);
}

static void daemon_ended(int status)
{
	run.daemon = 0;
	/* If it has not mounted, the command does not start; 0: it was unmounted. */
	if (!run.command || run.lost ||
	    (WIFEXITED(status) &&
	     (WEXITSTATUS(status) == EXIT_NOT_MOUNTED || WEXITSTATUS(status) == 0)))
		return;
	pf_log(PF_LOG_ERROR, "the mount failed (%s %d): %s gets SIGTERM",
	       WIFSIGNALED(status) ? "signal" : "status",
	       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
	       run.options->run[0]);
	lose();
}

/* command_fail has sent a signal. */
static void plugins_failed(void)
{
	if (!run.command || run.lost)
		return;
	pf_log(PF_LOG_ERROR, "the plugins have failed: %s gets SIGTERM",
	       run.options->run[0]);
	lose();
}

static void reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		if (WIFSTOPPED(status)) {
			if (pid == run.command)
				stop_with_command(WSTOPSIG(status));
		} else if (pid == run.command) {
			command_ended(status);
		} else if (pid == run.daemon) {
			daemon_ended(status);
		}
	}
}

static void wait_for_both(const sigset_t *signals)
{
	while (run.command || run.daemon) {
		const struct timespec second = { .tv_sec = 1 };
		siginfo_t info;
		int sig = run.lost ? sigtimedwait(signals, &info, &second)
				   : sigwaitinfo(signals, &info);

		if (run.lost && pf_now_ms() >= run.kill_at)
			kill(-run.group, SIGKILL);
		if (sig == SIGRTMIN) {
			if (info.si_pid == run.daemon)
				plugins_failed();
		} else if (sig > 0 && sig != SIGCHLD && run.command) {
			kill(-run.group, sig);
		}
		reap();
	}
}

/* --- all ------------------------------------------------------------------------------------ */

bool command_run(struct options *o, int *ready, int *status)
{
	struct pf_err err = PF_ERR_INIT;
	sigset_t signals, mask;
	int fds[2];

	*status = EXIT_NOT_MOUNTED;
	if (!o->foreground)
		pf_log_setup(PF_LOG_WARNING, false);
	if (make_mountpoint(o, &err) < 0) {
		pf_log(PF_LOG_ERROR, "%s", err.text);
		return true;
	}
	sigemptyset(&signals);
	for (size_t i = 0; i < PF_ARRAY_SIZE(forwarded); i++)
		sigaddset(&signals, forwarded[i]);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &signals, &mask);
	signal(SIGCHLD,
	       SIG_DFL); /* the caller may ignore it: then wait(2) finds nobody */

	run.options = o;
	run.self = getpid();
	run.tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	run.command = pipe2(fds, O_CLOEXEC) ? -1 : fork();
	if (run.command == 0) {
		close(fds[1]);
		become_command(fds[0], &mask);
	}
	run.group = run.command;
	run.daemon = run.command < 0 ? -1 : fork();
	if (run.daemon == 0) {
		close(fds[0]);
		*ready = fds[1];
		become_daemon(&mask);
		return false;
	}
	if (run.daemon < 0) {
		pf_log(PF_LOG_ERROR, "--run: start a process: %s", strerror(errno));
		if (run.command > 0)
			kill(run.command, SIGKILL);
		rmdir(o->mountpoint);
		return true;
	}
	close(fds[0]);
	close(fds[1]);
	setpgid(run.command, run.command);
	(void)prctl(PR_SET_NAME, "pjrtfs-run");
	sigaddset(&mask, SIGTTOU); /* which tcsetpgrp(3) causes in the background */
	sigprocmask(SIG_BLOCK, &mask, NULL);
	give_terminal(getpgrp(), run.group);
	wait_for_both(&signals);
	/* A daemon that was killed has left it. */
	if (pf_mount_clear(o->mountpoint, &err) < 0)
		pf_log(PF_LOG_ERROR, "%s", err.text);
	rmdir(o->mountpoint);
	pf_closep(&run.tty);
	pf_closep(&run.before);
	*status = run.status;
	return true;
}

void command_fail(void)
{
	if (getppid() == run.self)
		kill(run.self, SIGRTMIN);
}

void command_end(void)
{
	rmdir(run.options->mountpoint);
	if (getppid() != run.self)
		kill(-run.group, SIGKILL);
}
