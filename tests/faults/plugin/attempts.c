/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks by code in a plugin that a program has taken over: a thread that is created
 * with the client tries them at each compile, and prints which ones the system allowed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <linux/prctl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "plugin.h"

/* The test's own: files "victim" (to be read) and "target" (to be changed), a directory, and a
 * socket to which a process listens. */
static char victim[256], target[256], made[256], service[100];
static pid_t parent;

static bool opens(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0600);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool opens_of(pid_t pid, const char *what, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	return opens(path, flags);
}

static bool closes(int fd)
{
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* A child, if there is one, ends at once. */
static bool is_child(pid_t pid)
{
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return pid > 0;
}

static void *idle(void *arg)
{
	return arg;
}

static unsigned n_attempts;

static void attempt(const char *name, bool succeeded)
{
	fprintf(stderr, "attempt %s %s\n", name, succeeded ? "succeeded" : "failed");
	n_attempts++;
}

/* --- files ---------------------------------------------------------------------------------- */

static bool control_thread(void)
{
	pthread_t t;

	return pthread_create(&t, NULL, idle, NULL) == 0 && pthread_join(t, NULL) == 0;
}

static void try_files(void)
{
	char spare[300], root[256];
	struct stat st;

	snprintf(spare, sizeof(spare), "%s.spare", target);
	attempt("control_cpuinfo", opens("/proc/cpuinfo", O_RDONLY));
	attempt("control_urandom", opens("/dev/urandom", O_RDONLY));
	attempt("control_thread", control_thread());
	attempt("file_stat", stat(victim, &st) == 0);
	attempt("file_read", opens(victim, O_RDONLY));
	attempt("file_open_path", opens(victim, O_PATH));
	attempt("file_passwd", opens("/etc/passwd", O_RDONLY));
	attempt("file_directory", opens("/", O_RDONLY | O_DIRECTORY));
	attempt("file_write", opens(target, O_WRONLY));
	attempt("file_append", opens(target, O_WRONLY | O_APPEND));
	attempt("file_open_truncate", opens(target, O_RDONLY | O_TRUNC));
	attempt("file_create", opens(made, O_CREAT | O_WRONLY));
	attempt("file_tmp", opens("/tmp", O_TMPFILE | O_RDWR));
	attempt("file_truncate", truncate(target, 1) == 0);
	attempt("file_chmod", chmod(target, 0644) == 0);
	attempt("file_chown", chown(target, getuid(), getgid()) == 0);
	attempt("file_utimes", utimes(target, NULL) == 0);
	attempt("file_setxattr", setxattr(target, "user.x", "x", 1, 0) == 0);
	attempt("file_getxattr",
		getxattr(target, "user.x", NULL, 0) >= 0 || errno == ENODATA);
	attempt("file_rename", rename(target, made) == 0 && rename(made, target) == 0);
	attempt("file_link", link(target, made) == 0 && unlink(made) == 0);
	attempt("file_symlink", symlink("x", made) == 0 && unlink(made) == 0);
	attempt("file_unlink", unlink(spare) == 0);
	attempt("file_mkdir", mkdir(made, 0700) == 0 && rmdir(made) == 0);
	attempt("file_mkfifo", mkfifo(made, 0600) == 0 && unlink(made) == 0);
	attempt("file_inotify", closes(inotify_init1(IN_CLOEXEC)));
	attempt("file_statfs", syscall(SYS_statfs, "/", root) == 0);
}

/* Does the program PATH run?  It exits with 7. */
static bool runs(const char *path)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		execl(path, path, NULL);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7;
}

static bool makes_file_in(const char *dir)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/made", dir);
	return opens(path, O_CREAT | O_WRONLY) && unlink(path) == 0;
}

static void try_path(const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		fprintf(stderr, "%s:%s%s\n", path,
			opens(path, O_RDONLY | O_DIRECTORY) ? " list" : "",
			makes_file_in(path) ? " make" : "");
		return;
	}
	fprintf(stderr, "%s:%s%s%s\n", path, opens(path, O_RDONLY) ? " read" : "",
		opens(path, O_WRONLY) ? " write" : "", runs(path) ? " run" : "");
}

void attempts_at(const char *file)
{
	FILE *paths = fopen(file, "re");
	char path[400];

	while (paths && fscanf(paths, "%399s", path) == 1)
		try_path(path);
	if (paths)
		fclose(paths);
	fprintf(stderr, "paths: %s\n", paths ? "all" : "none");
}

/* The call got past the sandbox, whatever the kernel said to its arguments. */
static bool arrives(long r)
{
	return r >= 0 || (errno != EPERM && errno != EACCES && errno != ENOSYS);
}

/* --- the daemon, and other processes ---------------------------------------------------------- */

static bool daemon_ptrace(void)
{
	if (ptrace(PTRACE_SEIZE, parent, NULL, NULL))
		return false;
	ptrace(PTRACE_DETACH, parent, NULL, NULL);
	return true;
}

static void try_processes(void)
{
	char byte;
	struct iovec here = { &byte, 1 }, there = { (void *)(uintptr_t)victim, 1 };
	siginfo_t info = { .si_signo = 0, .si_code = SI_QUEUE };
	struct rlimit limit;
	cpu_set_t set = { 0 };

	attempt("daemon_memory", opens_of(parent, "mem", O_RDWR));
	attempt("daemon_environ", opens_of(parent, "environ", O_RDONLY));
	attempt("daemon_fd", opens_of(parent, "fd/0", O_RDONLY));
	attempt("daemon_ptrace", daemon_ptrace());
	attempt("daemon_vm_read",
		process_vm_readv(parent, &here, 1, &there, 1, 0) >= 0 || errno == EFAULT);
	attempt("daemon_kill", kill(parent, 0) == 0);
	attempt("daemon_tgkill", syscall(SYS_tgkill, parent, parent, 0) == 0);
	attempt("daemon_tkill", syscall(SYS_tkill, parent, 0) == 0);
	attempt("daemon_sigqueue", syscall(SYS_rt_sigqueueinfo, parent, 0, &info) == 0);
	attempt("daemon_pidfd", closes((int)syscall(SYS_pidfd_open, parent, 0)));
	attempt("daemon_prlimit",
		prlimit(parent, RLIMIT_NOFILE, NULL, &limit) == 0 &&
			prlimit(parent, RLIMIT_NOFILE, &limit, NULL) == 0);
	attempt("daemon_priority", setpriority(PRIO_PROCESS, (id_t)parent, 0) == 0);
	/* Of a process that there is not: for the daemon's the kernel gives root's worker the sandbox's answer. */
	attempt("other_affinity",
		arrives(sched_setaffinity(INT32_MAX, sizeof(set), &set)));
	attempt("other_scheduler",
		arrives(sched_setscheduler(INT32_MAX, SCHED_OTHER,
					   &(struct sched_param){ 0 })));
	attempt("other_sched_param",
		arrives(sched_setparam(INT32_MAX, &(struct sched_param){ 0 })));
	attempt("other_sched_attr",
		arrives(syscall(SYS_sched_setattr, INT32_MAX,
				(uint32_t[12]){ 48, SCHED_OTHER }, 0)));
	attempt("other_io_priority",
		arrives(syscall(SYS_ioprio_set, 1 /* a process */, INT32_MAX, 0)));
	attempt("own_memory", opens("/proc/self/mem", O_RDWR));
	attempt("own_thread_name",
		opens("/proc/thread-self/comm", O_WRONLY | O_CREAT | O_TRUNC));
	attempt("own_environ", opens("/proc/self/environ", O_RDONLY));
	attempt("own_fork", is_child((pid_t)syscall(SYS_fork)));
	attempt("own_clone",
		is_child((pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL)));
	attempt("own_vfork_exec", system("exit 7") == 7 << 8 /* as wait(2) has it */);
	attempt("own_dumpable", prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
	attempt("own_deathsig", prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0);
	attempt("own_limits", getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
				      setrlimit(RLIMIT_NOFILE, &limit) == 0);
	attempt("own_setuid", syscall(SYS_setuid, getuid()) == 0);
	attempt("own_owner", fcntl(2, F_SETOWN, parent) == 0);
	attempt("own_signal", fcntl(2, F_SETSIG, 0) == 0);
}

/* --- sockets, shared memory -------------------------------------------------------------------- */

/* The socket of another process, as of a service that trusts its callers by their user. */
static bool socket_service(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	bool ok;

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", service);
	ok = connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0;
	closes(fd);
	return ok;
}

/* A socket whose signals go to the daemon. */
static bool gives_to_parent(unsigned long request)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	bool ok = ioctl(fd, request, &parent) == 0;

	closes(fd);
	return ok;
}

static void try_sockets(void)
{
	int fds[2], id;

	attempt("socket_inet", closes(socket(AF_INET, SOCK_STREAM, 0)));
	attempt("socket_inet6", closes(socket(AF_INET6, SOCK_DGRAM, 0)));
	attempt("socket_packet", closes(socket(AF_PACKET, SOCK_RAW, 0)));
	attempt("socket_unix", closes(socket(AF_UNIX, SOCK_STREAM, 0)));
	attempt("socket_pair", socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0 &&
				       closes(fds[0]) && closes(fds[1]));
	attempt("socket_service", socket_service());
	attempt("socket_owner", gives_to_parent(FIOSETOWN));
	attempt("socket_group", gives_to_parent(SIOCSPGRP));
	attempt("ipc_shm", (id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600)) >= 0 &&
				   shmctl(id, IPC_RMID, NULL) == 0);
	attempt("ipc_message", (id = msgget(IPC_PRIVATE, IPC_CREAT | 0600)) >= 0 &&
				       msgctl(id, IPC_RMID, NULL) == 0);
	attempt("ipc_semaphore", (id = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600)) >= 0 &&
					 semctl(id, 0, IPC_RMID) == 0);
	attempt("memory_file", closes(memfd_create("x", MFD_CLOEXEC)));
}

/* --- the kernel ---------------------------------------------------------------------------------- */

/* Calls by the numbers that all architectures have, newer ones than the headers'. */
enum {
	PROCESS_MADVISE = 440,
	MOUNT_SETATTR = 442,
	QUOTACTL_FD = 443,
	PROCESS_MRELEASE = 448,
	FCHMODAT2 = 452,
	SETXATTRAT = 463,
};

static void try_newer_calls(void)
{
	uint64_t args[11] = { CLONE_NEWUSER, 0, 0, 0, SIGCHLD };

	attempt("own_clone_user",
		is_child((pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNET | SIGCHLD,
					NULL, NULL, NULL, NULL)));
	attempt("own_clone3", is_child((pid_t)syscall(SYS_clone3, args, sizeof(args))));
	attempt("file_fchmodat2", syscall(FCHMODAT2, AT_FDCWD, target, 0644, 0) == 0);
	attempt("file_setxattrat", arrives(syscall(SETXATTRAT, -1, "", 0, "", NULL, 0)));
	attempt("kernel_mount_setattr",
		arrives(syscall(MOUNT_SETATTR, -1, "", 0, NULL, 0)));
	attempt("kernel_quotactl_fd", arrives(syscall(QUOTACTL_FD, -1, 0, 0, NULL)));
	attempt("daemon_madvise", arrives(syscall(PROCESS_MADVISE, -1, NULL, 0, 0, 0)));
	attempt("daemon_mrelease", arrives(syscall(PROCESS_MRELEASE, -1, 0)));
}

static void try_kernel(void)
{
	union bpf_attr map = { .map_type = BPF_MAP_TYPE_ARRAY,
			       .key_size = 4,
			       .value_size = 4,
			       .max_entries = 1 };
	struct perf_event_attr event = { .type = PERF_TYPE_SOFTWARE,
					 .size = sizeof(event) };
	char params[256] = { 0 }, name[65];
	struct {
		struct file_handle head;
		char bytes[128];
	} h = { .head.handle_bytes = 128 };
	int mount_id;

	attempt("kernel_mount",
		mount("none", "/tmp", "tmpfs", MS_REMOUNT | MS_BIND, NULL) == 0 ||
			errno == EINVAL);
	attempt("kernel_chroot", chroot("/") == 0);
	attempt("kernel_bpf",
		closes((int)syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map))));
	attempt("kernel_perf",
		closes((int)syscall(SYS_perf_event_open, &event, 0, -1, -1, 0)));
	attempt("kernel_io_uring", closes((int)syscall(SYS_io_uring_setup, 1, params)));
	attempt("kernel_userfaultfd",
		closes((int)syscall(SYS_userfaultfd,
				    O_CLOEXEC | 1 /* user mode only */)));
	attempt("kernel_key", syscall(SYS_add_key, "user", "pjrtfs-test", "x", 1,
				      -2 /* process's */) >= 0);
	attempt("kernel_log", syscall(SYS_syslog, 10, NULL, 0) >= 0);
	attempt("kernel_hostname", gethostname(name, sizeof(name)) == 0 &&
					   sethostname(name, strlen(name)) == 0);
	attempt("kernel_personality", syscall(SYS_personality, 0xffffffff) >= 0);
	attempt("kernel_handle",
		name_to_handle_at(AT_FDCWD, victim, &h.head, &mount_id, 0) == 0);
	attempt("kernel_filter", syscall(SYS_seccomp, 2 /* get an action */, 0,
					 &(uint32_t){ 0x7fff0000 }) == 0);
	attempt("kernel_landlock", syscall(SYS_landlock_create_ruleset, NULL, 0, 1) > 0);
	attempt("kernel_unshare", unshare(CLONE_NEWUTS) == 0);
}

/* --- when ------------------------------------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the rest */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static enum { NOT_THERE, WAITING, TRYING, DONE } state;

static void *try_all(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	while (state != TRYING)
		pthread_cond_wait(&changed, &lock);
	try_files();
	try_processes();
	try_sockets();
	try_kernel();
	try_newer_calls();
	fprintf(stderr, "attempts: %u\n", n_attempts);
	state = DONE;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return NULL;
}

void attempts_prepare(const char *dir)
{
	pthread_t thread;

	snprintf(victim, sizeof(victim), "%s/victim", dir);
	snprintf(target, sizeof(target), "%s/target", dir);
	snprintf(made, sizeof(made), "%s/made", dir);
	snprintf(service, sizeof(service), "%s/service", dir);
	parent = getppid();
	state = WAITING;
	if (pthread_create(&thread, NULL, try_all, NULL) == 0)
		pthread_detach(thread);
}

void attempts_make(void)
{
	pthread_mutex_lock(&lock);
	if (state == WAITING) {
		state = TRYING;
		pthread_cond_broadcast(&changed);
	}
	while (state == TRYING)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}
