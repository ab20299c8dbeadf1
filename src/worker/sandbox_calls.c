/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's system calls: seccomp.  The filter is written by hand: libseccomp would be one more
 * library in the process that should have fewest, and code that uses it is as long.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pjrtfs/base.h"
#include "sandbox.h"

/* Exactly what pthread_create(3) passes: no process can be made with these. */
#define THREAD_FLAGS                                                                     \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |              \
	 CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

enum {
	X32 = 0x40000000, /* the bit in a call's number that selects the x32 ABI */
	UNKNOWN = 450,    /* the first call that is newer than these lists */
	TERMINAL = 0x5401 /* TCGETS, isatty(3)'s */
};

#define ALLOW SECCOMP_RET_ALLOW
#define REFUSE(code) (SECCOMP_RET_ERRNO | (code))

struct program {
	struct sock_filter code[512];
	unsigned short n;
};

static void emit(struct program *p, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
	if (p->n < PF_ARRAY_SIZE(p->code))
		p->code[p->n++] = (struct sock_filter){ code, jt, jf, k };
}

static void load(struct program *p, size_t off)
{
	emit(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)off, 0, 0);
}

static void answer(struct program *p, uint32_t what)
{
	emit(p, BPF_RET | BPF_K, what, 0, 0);
}

/* Skip YES instructions if the loaded word is K, else NO. */
static void if_equal(struct program *p, uint32_t k, uint8_t yes, uint8_t no)
{
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, k, yes, no);
}

/* The offset of half of argument ARG: 0 its low, 4 its high one. */
static size_t argument(unsigned arg, size_t half)
{
	return offsetof(struct seccomp_data, args) + 8 * (size_t)arg + half;
}

/* Load the call's number.  Another ABI, whose numbers mean other calls, kills the process. */
static void begin(struct program *p)
{
	p->n = 0;
	load(p, offsetof(struct seccomp_data, arch));
#if defined(__x86_64__)
	if_equal(p, AUDIT_ARCH_X86_64, 1, 0);
#elif defined(__aarch64__)
	if_equal(p, AUDIT_ARCH_AARCH64, 1, 0);
#else
#error "which architecture is this?"
#endif
	answer(p, SECCOMP_RET_KILL_PROCESS);
	load(p, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
	emit(p, BPF_JMP | BPF_JGE | BPF_K, X32, 0, 1);
	answer(p, SECCOMP_RET_KILL_PROCESS);
#endif
}

static void one(struct program *p, long nr, uint32_t what)
{
	if_equal(p, (uint32_t)nr, 0, 1);
	answer(p, what);
}

static void each(struct program *p, const int *calls, size_t n, uint32_t what)
{
	for (size_t i = 0; i < n; i++)
		one(p, calls[i], what);
}

/*
 * For the call NR: answer FOUND if the low half of its argument ARG, of which the kernel takes an
 * int, is one of the N VALUES, else OTHER.
 */
static void by_argument(struct program *p, long nr, unsigned arg, const uint32_t *values,
			uint8_t n, uint32_t found, uint32_t other)
{
	if_equal(p, (uint32_t)nr, 0, (uint8_t)(n + 3));
	load(p, argument(arg, 0));
	for (uint8_t i = 0; i < n; i++)
		if_equal(p, values[i], (uint8_t)(n - i), 0);
	answer(p, other);
	answer(p, found);
}

#define VALUES(...)                                                                      \
	(const uint32_t[]){ __VA_ARGS__ },                                               \
		sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t)
#define ALLOW_IF(p, nr, arg, ...)                                                        \
	by_argument(p, nr, arg, VALUES(__VA_ARGS__), ALLOW, REFUSE(EPERM))
#define REFUSE_IF(p, nr, arg, ...)                                                       \
	by_argument(p, nr, arg, VALUES(__VA_ARGS__), REFUSE(EPERM), ALLOW)

/* Allow the call NR only if its argument ARG, a pointer, is NULL. */
static void allow_null(struct program *p, long nr, unsigned arg)
{
	if_equal(p, (uint32_t)nr, 0, 6);
	load(p, argument(arg, 0));
	if_equal(p, 0, 0, 2);
	load(p, argument(arg, 4));
	if_equal(p, 0, 1, 0);
	answer(p, REFUSE(EPERM));
	answer(p, ALLOW);
}

/* Allow openat(2) only to read a file that exists: no O_CREAT, O_TRUNC, O_PATH. */
static void allow_reading(struct program *p)
{
	const uint32_t harmless = O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW |
				  O_DIRECTORY | 0100000 /* O_LARGEFILE */;

	if_equal(p, SYS_openat, 0, 5);
	load(p, argument(2, 0));
	emit(p, BPF_ALU | BPF_AND | BPF_K, ~harmless, 0, 0);
	if_equal(p, O_RDONLY, 1, 0);
	answer(p, REFUSE(EACCES));
	answer(p, ALLOW);
}

/* Install P in all threads.  *FILTERED: false if the kernel has no seccomp. */
static int install(struct program *p, bool *filtered, struct pf_err *err)
{
	struct sock_fprog prog = { p->n, p->code };
	long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			 SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW,
			 &prog);

	*filtered = r == 0;
	if (r == 0 || (r < 0 && errno == ENOSYS))
		return 0;
	if (r > 0)
		return pf_err_set(err, -EBUSY, "seccomp: thread %ld has other rules", r);
	return pf_err_set(err, -errno, "seccomp: %s", strerror(errno));
}

/* --- strict: a list of what is allowed ---------------------------------------------- */

/* The calls that CPU plugins make, and that other versions of the C library make instead. */
static const int strict_calls[] = {
	/* memory */
	SYS_brk, SYS_madvise, SYS_mmap, SYS_mprotect, SYS_mremap, SYS_munmap, SYS_mincore,
	SYS_membarrier, SYS_get_mempolicy,
	/* threads and time */
	SYS_exit, SYS_exit_group, SYS_futex, SYS_gettid, SYS_getpid, SYS_getppid,
	SYS_rseq, SYS_set_robust_list, SYS_get_robust_list, SYS_set_tid_address,
	SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_getparam,
	SYS_sched_getscheduler, SYS_sched_get_priority_max, SYS_sched_get_priority_min,
	SYS_getcpu, SYS_nanosleep, SYS_clock_nanosleep, SYS_clock_gettime,
	SYS_clock_getres, SYS_gettimeofday, SYS_restart_syscall, SYS_getrusage, SYS_times,
	SYS_sysinfo, SYS_uname, SYS_getrandom, SYS_getuid, SYS_geteuid, SYS_getgid,
	SYS_getegid,
	/* signals of its own */
	SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending,
	SYS_sigaltstack,
	/* descriptors that it has */
	SYS_read, SYS_readv, SYS_pread64, SYS_write, SYS_writev, SYS_close, SYS_lseek,
	SYS_fstat, SYS_ppoll, SYS_recvfrom, SYS_recvmsg, SYS_sendmsg,
	/* files: Landlock decides which; XLA repeats a stat(2) that is refused for ever */
	SYS_openat, SYS_newfstatat, SYS_statx, SYS_faccessat, SYS_faccessat2, SYS_chdir,
	SYS_readlinkat, SYS_getdents64, SYS_getcwd, SYS_fstatfs,
	/* for the next steps, which only take away */
	SYS_seccomp, SYS_landlock_create_ruleset, SYS_landlock_add_rule,
	SYS_landlock_restrict_self, SYS_capget, SYS_capset,
#if defined(__x86_64__)
	/* the same in older ways */
	SYS_open, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_poll, SYS_arch_prctl,
	SYS_pause, SYS_time
#endif
};

/* To write files, if the mount's owner names directories for that. */
static const int writing_calls[] = {
	/* Landlock decides where */
	SYS_mkdirat,   SYS_unlinkat, SYS_renameat2, SYS_renameat,
	SYS_ftruncate, SYS_pwrite64, SYS_fsync,     SYS_fdatasync,
#if defined(__x86_64__)
	SYS_mkdir,     SYS_rmdir,    SYS_unlink,    SYS_rename
#endif
};

/* For the members of a group: to reach the store, and each other. */
static const int network_calls[] = {
	SYS_bind,       SYS_listen,      SYS_accept4,     SYS_connect,
	SYS_getsockopt, SYS_setsockopt,  SYS_getsockname, SYS_getpeername,
	SYS_sendto,     SYS_shutdown,    SYS_epoll_ctl,   SYS_epoll_create1,
	SYS_eventfd2,   SYS_epoll_pwait,
#if defined(__x86_64__)
	SYS_epoll_wait, SYS_accept,
#endif
};

static void allow_network(struct program *p)
{
	each(p, network_calls, PF_ARRAY_SIZE(network_calls), ALLOW);
	ALLOW_IF(p, SYS_socket, 0, AF_INET, AF_INET6);
	ALLOW_IF(p, SYS_fcntl, 1, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC);
}

static void strict(struct program *p, const struct pf_sandbox *s)
{
	uint32_t self = (uint32_t)getpid();

	each(p, strict_calls, PF_ARRAY_SIZE(strict_calls), ALLOW);
	if (s->network)
		allow_network(p);
	if (s->write)
		each(p, writing_calls, PF_ARRAY_SIZE(writing_calls), ALLOW);
	/* Its flags lie in memory, where no filter sees them; glibc falls back to clone(2). */
	one(p, SYS_clone3, REFUSE(ENOSYS));
	ALLOW_IF(p, SYS_clone, 0, THREAD_FLAGS);
	ALLOW_IF(p, SYS_tgkill, 0, self); /* abort() */
	ALLOW_IF(p, SYS_kill, 0, self);
	ALLOW_IF(p, SYS_prctl, 0, PR_SET_NAME, PR_GET_NAME, PR_SET_VMA, PR_GET_DUMPABLE);
	/* Not F_SETOWN and O_ASYNC, with which the kernel would signal other processes. */
	ALLOW_IF(p, SYS_fcntl, 1, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC);
	ALLOW_IF(p, SYS_ioctl, 1, TERMINAL);
	ALLOW_IF(p, SYS_fallocate, 1, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
	allow_null(p, SYS_prlimit64, 2);
	/* Programs try newer calls and expect ENOSYS from an older kernel. */
	emit(p, BPF_JMP | BPF_JGE | BPF_K, UNKNOWN, 0, 1);
	answer(p, REFUSE(ENOSYS));
	answer(p, REFUSE(EPERM));
}

/* Only the set-up needs these, and sendmsg(2) and recvmsg(2) the members of a group. */
static const int revoked_calls[] = {
	/* open(2): allow_reading checks openat(2) only */
	SYS_seccomp,
	SYS_landlock_create_ruleset,
	SYS_landlock_add_rule,
	SYS_landlock_restrict_self,
	SYS_capset,
	SYS_chdir,
#if defined(__x86_64__)
	SYS_open
#endif
};

int pf_sandbox_revoke_calls(const struct pf_sandbox *s, struct pf_err *err)
{
	struct program p;
	bool filtered;

	begin(&p);
	each(&p, revoked_calls, PF_ARRAY_SIZE(revoked_calls), REFUSE(EACCES));
	if (!s->network) {
		one(&p, SYS_recvmsg, REFUSE(EACCES));
		one(&p, SYS_sendmsg, REFUSE(EACCES));
	}
	if (!s->landlock)
		one(&p, SYS_openat, REFUSE(EACCES));
	else if (!s->write)
		allow_reading(&p);
	answer(&p, ALLOW);
	return install(&p, &filtered, err);
}

/* --- device: a list of what is refused ---------------------------------------------- */

/* Calls that harm other processes; drivers make processes, sockets of their own and ioctls. */
static const int refused_calls[] = {
	/* other processes */
	SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_pidfd_open,
	SYS_pidfd_getfd, SYS_pidfd_send_signal, SYS_kcmp, SYS_tkill, SYS_rt_sigqueueinfo,
	SYS_rt_tgsigqueueinfo, SYS_setpriority, SYS_ioprio_set, SYS_migrate_pages,
	SYS_move_pages, SYS_process_madvise, SYS_process_mrelease,
	/* parts of the kernel in which bugs were found often */
	SYS_bpf, SYS_perf_event_open, SYS_keyctl, SYS_add_key, SYS_request_key,
	SYS_io_uring_setup, SYS_userfaultfd,
	/* mounts and namespaces */
	SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_setns, SYS_unshare,
	SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_move_mount, SYS_open_tree,
	SYS_mount_setattr, SYS_open_by_handle_at, SYS_name_to_handle_at,
	/* the machine */
	SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_reboot,
	SYS_swapon, SYS_swapoff, SYS_acct, SYS_quotactl, SYS_quotactl_fd,
	SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_sethostname,
	SYS_setdomainname, SYS_syslog, SYS_personality, SYS_vhangup,
	/* files' attributes, of which Landlock knows nothing */
	SYS_truncate, SYS_fchmod, SYS_fchmodat, SYS_fchown, SYS_fchownat, SYS_utimensat,
	SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr,
	SYS_fremovexattr,
#if defined(__x86_64__)
	/* the same in older ways, and hardware */
	SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat, SYS_iopl,
	SYS_ioperm, SYS_modify_ldt
#endif
};

/* Allow clone(2) but for new namespaces, in which a process has all capabilities. */
static void allow_clone(struct program *p)
{
	const uint32_t namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
				    CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
				    CLONE_NEWNET;

	if_equal(p, SYS_clone, 0, 4);
	load(p, argument(0, 0));
	emit(p, BPF_JMP | BPF_JSET | BPF_K, namespaces, 0, 1);
	answer(p, REFUSE(EPERM));
	answer(p, ALLOW);
	/* Its flags lie in memory, where no filter sees them; glibc falls back to clone(2). */
	one(p, SYS_clone3, REFUSE(ENOSYS));
}

static void device(struct program *p, const struct pf_sandbox *s)
{
	uint32_t self = (uint32_t)getpid();

	each(p, refused_calls, PF_ARRAY_SIZE(refused_calls), REFUSE(EPERM));
	allow_clone(p);
	ALLOW_IF(p, SYS_tgkill, 0, self);
	ALLOW_IF(p, SYS_kill, 0, self);
	if (!s->network)
		ALLOW_IF(p, SYS_socket, 0, AF_UNIX, AF_NETLINK /* hot plugging */);
	ALLOW_IF(p, SYS_prlimit64, 0, 0, self);
	/* Only of the calling thread: the kernel allows it for any process of the same user. */
	ALLOW_IF(p, SYS_sched_setaffinity, 0, 0);
	ALLOW_IF(p, SYS_sched_setscheduler, 0, 0);
	ALLOW_IF(p, SYS_sched_setparam, 0, 0);
	ALLOW_IF(p, SYS_sched_setattr, 0, 0);
	/* Signals of the kernel's to other processes, and input for a terminal's owner. */
	REFUSE_IF(p, SYS_fcntl, 1, F_SETOWN, F_SETSIG, F_SETOWN_EX);
	REFUSE_IF(p, SYS_ioctl, 1, FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX);
	REFUSE_IF(p, SYS_prctl, 0, PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_PTRACER);
	/* A newer kernel's calls do what these rules refuse in older ways (fchmodat2(2)). */
	emit(p, BPF_JMP | BPF_JGE | BPF_K, UNKNOWN, 0, 1);
	answer(p, REFUSE(ENOSYS));
	answer(p, ALLOW);
}

int pf_sandbox_restrict_calls(const struct pf_sandbox *s, bool *filtered,
			      struct pf_err *err)
{
	struct program p;

	begin(&p);
	if (s->mode == PF_SANDBOX_STRICT)
		strict(&p, s);
	else
		device(&p, s);
	return install(&p, filtered, err);
}
