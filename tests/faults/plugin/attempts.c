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
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "plugin.h"

/* The test's own: files "victim" (to be read) and "target" (to be changed), and a directory. */
static char victim[256], target[256], made[256];
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

/* --- files ---------------------------------------------------------------------------------- */

static bool control_cpuinfo(void)
{
	return opens("/proc/cpuinfo", O_RDONLY);
}
static bool control_thread(void)
{
	pthread_t t;

	return pthread_create(&t, NULL, idle, NULL) == 0 && pthread_join(t, NULL) == 0;
}
static bool file_stat(void)
{
	struct stat st;

	return stat(victim, &st) == 0;
}
static bool file_read(void)
{
	return opens(victim, O_RDONLY);
}
static bool file_open_path(void)
{
	return opens(victim, O_PATH);
}
static bool file_passwd(void)
{
	return opens("/etc/passwd", O_RDONLY);
}
static bool file_directory(void)
{
	return opens("/", O_RDONLY | O_DIRECTORY);
}
static bool file_write(void)
{
	return opens(target, O_WRONLY);
}
static bool file_append(void)
{
	return opens(target, O_WRONLY | O_APPEND);
}
static bool file_open_truncate(void)
{
	return opens(target, O_RDONLY | O_TRUNC);
}
static bool file_create(void)
{
	return opens(made, O_CREAT | O_WRONLY);
}
static bool file_tmp(void)
{
	return opens("/tmp", O_TMPFILE | O_RDWR);
}
static bool file_truncate(void)
{
	return truncate(target, 1) == 0;
}
static bool file_chmod(void)
{
	return chmod(target, 0644) == 0;
}
static bool file_chown(void)
{
	return chown(target, getuid(), getgid()) == 0;
}
static bool file_utimes(void)
{
	return utimes(target, NULL) == 0;
}
static bool file_setxattr(void)
{
	return setxattr(target, "user.x", "x", 1, 0) == 0;
}
static bool file_getxattr(void)
{
	return getxattr(target, "user.x", NULL, 0) >= 0 || errno == ENODATA;
}
static bool file_rename(void)
{
	return rename(target, made) == 0 && rename(made, target) == 0;
}
static bool file_link(void)
{
	return link(target, made) == 0 && unlink(made) == 0;
}
static bool file_symlink(void)
{
	return symlink("x", made) == 0 && unlink(made) == 0;
}
static bool file_unlink(void)
{
	char path[300];

	snprintf(path, sizeof(path), "%s.spare", target);
	return unlink(path) == 0;
}
static bool file_mkdir(void)
{
	return mkdir(made, 0700) == 0 && rmdir(made) == 0;
}
static bool file_mkfifo(void)
{
	return mkfifo(made, 0600) == 0 && unlink(made) == 0;
}
static bool file_inotify(void)
{
	return closes(inotify_init1(IN_CLOEXEC));
}
static bool file_statfs(void)
{
	char out[256];

	return syscall(SYS_statfs, "/", out) == 0;
}

/* --- the daemon, and other processes ---------------------------------------------------------- */

static bool daemon_memory(void)
{
	return opens_of(parent, "mem", O_RDWR);
}
static bool daemon_environ(void)
{
	return opens_of(parent, "environ", O_RDONLY);
}
static bool daemon_fd(void)
{
	return opens_of(parent, "fd/0", O_RDONLY);
}
static bool own_memory(void)
{
	return opens("/proc/self/mem", O_RDWR);
}
static bool own_environ(void)
{
	return opens("/proc/self/environ", O_RDONLY);
}
static bool daemon_ptrace(void)
{
	if (ptrace(PTRACE_SEIZE, parent, NULL, NULL))
		return false;
	ptrace(PTRACE_DETACH, parent, NULL, NULL);
	return true;
}
static bool daemon_vm_read(void)
{
	char byte;
	struct iovec here = { &byte, 1 }, there = { (void *)(uintptr_t)victim, 1 };

	return process_vm_readv(parent, &here, 1, &there, 1, 0) >= 0 || errno == EFAULT;
}
static bool daemon_kill(void)
{
	return kill(parent, 0) == 0;
}
static bool daemon_tgkill(void)
{
	return syscall(SYS_tgkill, parent, parent, 0) == 0;
}
static bool daemon_tkill(void)
{
	return syscall(SYS_tkill, parent, 0) == 0;
}
static bool daemon_sigqueue(void)
{
	siginfo_t info = { .si_signo = 0, .si_code = SI_QUEUE };

	return syscall(SYS_rt_sigqueueinfo, parent, 0, &info) == 0;
}
static bool daemon_pidfd(void)
{
	return closes((int)syscall(SYS_pidfd_open, parent, 0));
}
static bool daemon_prlimit(void)
{
	struct rlimit old;

	return prlimit(parent, RLIMIT_NOFILE, NULL, &old) == 0 &&
	       prlimit(parent, RLIMIT_NOFILE, &old, NULL) == 0;
}
static bool daemon_priority(void)
{
	return setpriority(PRIO_PROCESS, (id_t)parent, 0) == 0;
}
static bool daemon_affinity(void)
{
	cpu_set_t set;

	return sched_getaffinity(parent, sizeof(set), &set) == 0 &&
	       sched_setaffinity(parent, sizeof(set), &set) == 0;
}
static bool own_fork(void)
{
	return is_child((pid_t)syscall(SYS_fork));
}
static bool own_clone(void)
{
	return is_child((pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL));
}
static bool own_vfork_exec(void)
{
	int status = system("exit 7");

	return WIFEXITED(status) && WEXITSTATUS(status) == 7;
}
static bool own_dumpable(void)
{
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;
}
static bool own_deathsig(void)
{
	return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0;
}
static bool own_limits(void)
{
	struct rlimit l;

	return getrlimit(RLIMIT_NOFILE, &l) == 0 && setrlimit(RLIMIT_NOFILE, &l) == 0;
}
static bool own_setuid(void)
{
	return syscall(SYS_setuid, getuid()) == 0;
}
static bool own_owner(void)
{
	return fcntl(2, F_SETOWN, parent) == 0;
}

/* --- sockets, shared memory -------------------------------------------------------------------- */

static bool socket_inet(void)
{
	return closes(socket(AF_INET, SOCK_STREAM, 0));
}
static bool socket_inet6(void)
{
	return closes(socket(AF_INET6, SOCK_DGRAM, 0));
}
static bool socket_packet(void)
{
	return closes(socket(AF_PACKET, SOCK_RAW, 0));
}
static bool socket_unix(void)
{
	return closes(socket(AF_UNIX, SOCK_STREAM, 0));
}
static bool socket_pair(void)
{
	int fds[2];

	return socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0 && closes(fds[0]) &&
	       closes(fds[1]);
}
static bool ipc_shm(void)
{
	int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);

	return id >= 0 && shmctl(id, IPC_RMID, NULL) == 0;
}
static bool ipc_message(void)
{
	int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);

	return id >= 0 && msgctl(id, IPC_RMID, NULL) == 0;
}
static bool ipc_semaphore(void)
{
	int id = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);

	return id >= 0 && semctl(id, 0, IPC_RMID) == 0;
}
static bool memory_file(void)
{
	return closes(memfd_create("x", MFD_CLOEXEC));
}

/* --- the kernel ---------------------------------------------------------------------------------- */

static bool kernel_unshare(void)
{
	return unshare(CLONE_NEWUTS) == 0;
}
static bool kernel_mount(void)
{
	return mount("none", "/tmp", "tmpfs", MS_REMOUNT | MS_BIND, NULL) == 0 ||
	       errno == EINVAL;
}
static bool kernel_chroot(void)
{
	return chroot("/") == 0;
}
static bool kernel_bpf(void)
{
	union bpf_attr attr = { .map_type = BPF_MAP_TYPE_ARRAY,
				.key_size = 4,
				.value_size = 4,
				.max_entries = 1 };

	return closes((int)syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)));
}
static bool kernel_perf(void)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr) };

	return closes((int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
}
static bool kernel_io_uring(void)
{
	char params[256] = { 0 };

	return closes((int)syscall(SYS_io_uring_setup, 1, params));
}
static bool kernel_userfaultfd(void)
{
	return closes((int)syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* user mode only */));
}
static bool kernel_key(void)
{
	return syscall(SYS_add_key, "user", "pjrtfs-test", "x", 1, -2 /* process's */) >=
	       0;
}
static bool kernel_log(void)
{
	return syscall(SYS_syslog, 10, NULL, 0) >= 0;
}
static bool kernel_hostname(void)
{
	char name[65];

	return gethostname(name, sizeof(name)) == 0 &&
	       sethostname(name, strlen(name)) == 0;
}
static bool kernel_personality(void)
{
	return syscall(SYS_personality, 0xffffffff) >= 0;
}
static bool kernel_handle(void)
{
	struct {
		struct file_handle head;
		char bytes[128];
	} h = { .head.handle_bytes = 128 };
	int mount_id;

	return name_to_handle_at(AT_FDCWD, victim, &h.head, &mount_id, 0) == 0;
}
static bool kernel_filter(void)
{
	return syscall(SYS_seccomp, 2 /* get an action */, 0,
		       &(uint32_t){ 0x7fff0000 }) == 0;
}
static bool kernel_landlock(void)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, 1) > 0;
}

#define TRY(name)                                                                        \
	{                                                                                \
#name, name                                                              \
	}

static const struct {
	const char *name;
	bool (*attempt)(void);
} attempts[] = {
	TRY(control_cpuinfo), TRY(control_thread),
	TRY(file_stat),       TRY(file_read),
	TRY(file_open_path),  TRY(file_passwd),
	TRY(file_directory),  TRY(file_write),
	TRY(file_append),     TRY(file_open_truncate),
	TRY(file_create),     TRY(file_tmp),
	TRY(file_truncate),   TRY(file_chmod),
	TRY(file_chown),      TRY(file_utimes),
	TRY(file_setxattr),   TRY(file_getxattr),
	TRY(file_rename),     TRY(file_link),
	TRY(file_symlink),    TRY(file_unlink),
	TRY(file_mkdir),      TRY(file_mkfifo),
	TRY(file_inotify),    TRY(file_statfs),
	TRY(daemon_memory),   TRY(daemon_environ),
	TRY(daemon_fd),       TRY(daemon_ptrace),
	TRY(daemon_vm_read),  TRY(daemon_kill),
	TRY(daemon_tgkill),   TRY(daemon_tkill),
	TRY(daemon_sigqueue), TRY(daemon_pidfd),
	TRY(daemon_prlimit),  TRY(daemon_priority),
	TRY(daemon_affinity), TRY(own_memory),
	TRY(own_environ),     TRY(own_fork),
	TRY(own_clone),       TRY(own_vfork_exec),
	TRY(own_dumpable),    TRY(own_deathsig),
	TRY(own_limits),      TRY(own_setuid),
	TRY(own_owner),       TRY(socket_inet),
	TRY(socket_inet6),    TRY(socket_packet),
	TRY(socket_unix),     TRY(socket_pair),
	TRY(ipc_shm),         TRY(ipc_message),
	TRY(ipc_semaphore),   TRY(memory_file),
	TRY(kernel_mount),    TRY(kernel_chroot),
	TRY(kernel_bpf),      TRY(kernel_perf),
	TRY(kernel_io_uring), TRY(kernel_userfaultfd),
	TRY(kernel_key),      TRY(kernel_log),
	TRY(kernel_hostname), TRY(kernel_personality),
	TRY(kernel_handle),   TRY(kernel_filter),
	TRY(kernel_landlock), TRY(kernel_unshare),
};

enum { N_ATTEMPTS = sizeof(attempts) / sizeof(attempts[0]) };

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
	for (int i = 0; i < N_ATTEMPTS; i++)
		fprintf(stderr, "attempt %s %s\n", attempts[i].name,
			attempts[i].attempt() ? "succeeded" : "failed");
	fprintf(stderr, "attempts: %d\n", N_ATTEMPTS);
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
