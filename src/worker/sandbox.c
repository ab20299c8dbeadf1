/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock decides which files, seccomp which calls.  Neither suffices alone: Landlock knows
 * no chmod(2), no sockets, no signals, and truncate(2) only since Linux 6.2; seccomp does not
 * see what a path names.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"

/* --- files: Landlock ---------------------------------------------------------------- */

/* Rights and scopes that came after the headers which this may be built with. */
#define ABI_1 ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)
#define REFER (1ULL << 13)     /* ABI 2 */
#define TRUNCATE (1ULL << 14)  /* ABI 3 */
#define IOCTL_DEV (1ULL << 15) /* ABI 5 */

#define READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define EXECUTE LANDLOCK_ACCESS_FS_EXECUTE
#define WRITE                                                                            \
	(READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |            \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |                  \
	 LANDLOCK_ACCESS_FS_REMOVE_DIR | REFER | TRUNCATE)
#define OF_FILES                                                                         \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | EXECUTE |        \
	 TRUNCATE | IOCTL_DEV)

/* A process can have several sets of rules; all of them must allow. */
struct rules {
	int fd;
	uint64_t handled; /* LANDLOCK_ACCESS_FS_… that the kernel knows */
};

/* A set that forbids all that the kernel can forbid.  0 or -errno. */
static int begin_rules(struct rules *r, int abi, bool network, struct pf_err *err)
{
	struct {
		uint64_t fs, net, scoped;
	} attr = { .fs = ABI_1 };
	size_t len = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;

	if (abi >= 2)
		attr.fs |= REFER;
	if (abi >= 3)
		attr.fs |= TRUNCATE;
	if (abi >= 4 && !network)
		attr.net = 3; /* bind and connect of TCP */
	if (abi >= 5)
		attr.fs |= IOCTL_DEV;
	if (abi >= 6)
		attr.scoped = 3; /* abstract sockets, and signals to other processes */
	r->handled = attr.fs;
	r->fd = (int)syscall(SYS_landlock_create_ruleset, &attr, len, 0);
	if (r->fd < 0)
		return pf_err_set(err, -errno, "Landlock: %s", strerror(errno));
	return 0;
}

/* Allow ACCESS to PATH and what is beneath.  0, or -errno: it cannot be opened. */
static int allow(const struct rules *r, const char *path, uint64_t access)
{
	struct landlock_path_beneath_attr rule = { .allowed_access =
							   access & r->handled };
	pf_autoclose int fd = open(path, O_PATH | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode))
		rule.allowed_access &= OF_FILES;
	rule.parent_fd = fd;
	if (syscall(SYS_landlock_add_rule, r->fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0))
		return -errno;
	return 0;
}

/* The same for those of N PATHS that exist. */
static void allow_present(const struct rules *r, const char *const *paths, size_t n,
			  uint64_t access)
{
	for (size_t i = 0; i < n; i++)
		(void)allow(r, paths[i], access);
}

/* The same for each path of LIST, the setting KEY; a path that does not exist is an error. */
static int allow_list(const struct rules *r, const char *key, struct json_object *list,
		      uint64_t access, struct pf_err *err)
{
	size_t n = list ? json_object_array_length(list) : 0;

	for (size_t i = 0; i < n; i++) {
		const char *path =
			json_object_get_string(json_object_array_get_idx(list, i));
		int code = allow(r, path, access);

		if (code < 0)
			return pf_err_set(err, code, "%s %s: %s", key, path,
					  strerror(-code));
	}
	return 0;
}

/*
 * Add the rules for the settings' paths, READ for those of sandbox_read, and enforce R, which is
 * closed, on this thread and on those that it will start.
 */
static int enforce(struct rules *r, const struct pf_sandbox *s, uint64_t read,
		   struct pf_err *err)
{
	int code = allow_list(r, "sandbox_read", s->read, read, err);

	if (code == 0)
		code = allow_list(r, "sandbox_write", s->write, WRITE, err);
	if (code == 0 && syscall(SYS_landlock_restrict_self, r->fd, 0))
		code = pf_err_set(err, -errno, "Landlock: %s", strerror(errno));
	close(r->fd);
	return code;
}

static const char *const driver_files[] = {
	"/usr",        "/lib",        "/lib64",           "/bin",           "/opt",
	"/proc",       "/sys",        "/etc/ld.so.cache", "/etc/localtime", "/etc/OpenCL",
	"/etc/vulkan", "/etc/nvidia", "/dev/urandom",
};
static const char *const driver_devices[] = {
	"/dev/nvidiactl",   "/dev/nvidia-uvm",     "/dev/nvidia-uvm-tools",
	"/dev/nvidia-caps", "/dev/nvidia-modeset", "/dev/kfd",
	"/dev/dri",         "/dev/accel",          "/dev/vfio",
	"/dev/tenstorrent", "/dev/null",
};

static void allow_devices(const struct rules *r)
{
	uint64_t access = READ | LANDLOCK_ACCESS_FS_WRITE_FILE | IOCTL_DEV;
	static const char *const numbered[] = { "nvidia", "accel", "neuron" };
	char path[32];

	allow_present(r, driver_devices, PF_ARRAY_SIZE(driver_devices), access);
	for (size_t k = 0; k < PF_ARRAY_SIZE(numbered); k++)
		for (int i = 0; i < 64; i++) {
			snprintf(path, sizeof(path), "/dev/%s%d", numbered[k], i);
			(void)allow(r, path, access);
		}
	/* libtpu finds its devices in the list of names. */
	(void)allow(r, "/dev", LANDLOCK_ACCESS_FS_READ_DIR);
	(void)allow(r, "/dev/shm", WRITE | LANDLOCK_ACCESS_FS_MAKE_SOCK);
}

/*
 * CUDA gives its threads names, through /proc, and does not start if it cannot.  Landlock knows a
 * directory by its inode, and /proc keeps that one only while a descriptor is open: it is not closed.
 */
static void allow_thread_names(const struct rules *r)
{
	static int kept = -1;

	if (kept < 0)
		kept = open("/proc/self/task", O_PATH | O_CLOEXEC);
	(void)allow(r, "/proc/self/task",
		    READ | LANDLOCK_ACCESS_FS_WRITE_FILE | TRUNCATE);
}

/* Cut the path of a plugin in a Python package to the directory of all packages, where pip has put the
 * libraries that it needs; another plugin's to its own directory.  False: that is the root. */
static bool cut_to_libraries(char *path)
{
	static const char *const sites[] = { "/site-packages/", "/dist-packages/" };
	char *end = strrchr(path, '/');

	for (size_t i = 0; i < PF_ARRAY_SIZE(sites); i++) {
		char *site = strstr(path, sites[i]);

		if (site)
			end = site + strlen(sites[i]) - 1;
	}
	*end = '\0';
	return *path;
}

/* The directories of LD_LIBRARY_PATH, and those that PLUGIN's libraries lie in. */
static void allow_libraries(const struct rules *r, const char *plugin)
{
	const char *list = getenv("LD_LIBRARY_PATH");
	pf_autofree char *copy = list ? strdup(list) : NULL;
	char real[PATH_MAX], *rest = copy, *path;

	while (rest && (path = strsep(&rest, ":")))
		if (*path)
			(void)allow(r, path, READ | EXECUTE);
	if (realpath(plugin, real) && cut_to_libraries(real))
		(void)allow(r, real, READ | EXECUTE);
}

static const char *const strict_files[] = {
	"/dev/urandom", /* without it XLA's compiler aborts */
	"/proc/cpuinfo",
	"/proc/meminfo",
	"/proc/sys/vm/overcommit_memory",
	"/sys/devices/system/cpu",
	"/sys/devices/system/node",
};

/*
 * The rules while PLUGIN is loaded: no file can be written.  With PLUGIN NULL those once it is: in
 * a strict sandbox few files can be read.
 */
static int restrict_files(const struct pf_sandbox *s, const char *plugin,
			  struct pf_err *err)
{
	bool is_device = s->mode == PF_SANDBOX_DEVICE;
	struct rules r;
	int code;

	if (!s->landlock || (is_device && !plugin))
		return 0;
	code = begin_rules(&r, s->landlock, s->network, err);
	if (code < 0)
		return code;
	if (is_device) {
		/* A compiler may start programs (ptxas). */
		allow_present(&r, driver_files, PF_ARRAY_SIZE(driver_files),
			      READ | EXECUTE);
		allow_libraries(&r, plugin);
		allow_devices(&r);
		allow_thread_names(&r);
	} else if (plugin) {
		/* Libraries may lie anywhere. */
		(void)allow(&r, "/", READ);
	} else {
		allow_present(&r, strict_files, PF_ARRAY_SIZE(strict_files), READ);
	}
	return enforce(&r, s, plugin ? READ | EXECUTE : READ, err);
}

/*
 * --- calls: seccomp ----------------------------------------------------------------------
 *
 * The filter is written by hand: libseccomp would be one more library in the process that should
 * have fewest, and code that uses it is as long.
 */

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

static int revoke_calls(const struct pf_sandbox *s, struct pf_err *err)
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

static int restrict_calls(const struct pf_sandbox *s, bool *filtered, struct pf_err *err)
{
	struct program p;

	begin(&p);
	if (s->mode == PF_SANDBOX_STRICT)
		strict(&p, s);
	else
		device(&p, s);
	return install(&p, filtered, err);
}

static const char *const mode_names[] = {
	[PF_SANDBOX_STRICT] = "strict",
	[PF_SANDBOX_DEVICE] = "device",
	[PF_SANDBOX_OFF] = "off",
};

enum { N_MODES = PF_ARRAY_SIZE(mode_names) };

static struct json_object *list_of(struct json_object *settings, const char *key)
{
	struct json_object *list = pf_json_get(settings, key, json_type_array);

	return list && json_object_array_length(list) ? list : NULL;
}

int pf_sandbox_parse(struct json_object *settings, struct pf_sandbox *ret,
		     struct pf_err *err)
{
	struct json_object *mode = NULL, *uid = NULL;
	unsigned i = PF_SANDBOX_STRICT;

	if (json_object_object_get_ex(settings, "sandbox", &mode))
		for (i = 0; i < N_MODES; i++)
			if (!strcmp(json_object_get_string(mode), mode_names[i]))
				break;
	if (i == N_MODES)
		return pf_err_set(err, -EPROTO, "there is no sandbox %.80s",
				  json_object_get_string(mode));
	*ret = (struct pf_sandbox){ .mode = (enum pf_sandbox_mode)i,
				    .read = list_of(settings, "sandbox_read"),
				    .write = list_of(settings, "sandbox_write") };
	if (json_object_object_get_ex(settings, "sandbox_uid", &uid))
		ret->uid = (uid_t)json_object_get_int64(uid);
#ifdef PF_SANITIZE
	ret->mode = PF_SANDBOX_OFF;
#endif
	return 0;
}

struct json_object *pf_sandbox_json(const struct pf_sandbox *s)
{
	struct json_object *o = json_object_new_object();

	pf_json_add_string(o, "mode", mode_names[s->mode]);
	pf_json_add_int(o, "landlock", s->landlock);
	json_object_object_add(o, "seccomp", json_object_new_boolean(s->seccomp));
	return o;
}

/* --- user, capabilities, limits ----------------------------------------------------- */

/*
 * Become user UID, which owns no file: uid 0 without capabilities still owns root's.
 * Changing the user clears PR_SET_PDEATHSIG, so it is set again.
 */
static int leave_root(uid_t uid, struct pf_err *err)
{
	pid_t parent = getppid();

	if (geteuid() || !uid)
		return 0;
	if (syscall(SYS_setgroups, 0, NULL) || syscall(SYS_setresgid, uid, uid, uid) ||
	    syscall(SYS_setresuid, uid, uid, uid))
		return pf_err_set(err, -errno, "become user %u: %s", uid,
				  strerror(errno));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	return 0;
}

/*
 * Drop all capabilities, but CAP_DAC_READ_SEARCH if KEEP_READING: root's plugin and its libraries
 * may lie in directories of other users.
 */
static void drop_capabilities(bool keep_reading)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct have[2] = { { 0 } }, left[2] = { { 0 } };

	if (syscall(SYS_capget, &head, have) == 0 && keep_reading)
		left[0].effective = left[0].permitted =
			have[0].effective & (1U << CAP_DAC_READ_SEARCH);
	for (int i = 0; i < 64; i++)
		(void)prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	(void)syscall(SYS_capset, &head, left);
}

static void limit(int what, rlim_t most)
{
	struct rlimit l;

	if (getrlimit(what, &l) || l.rlim_max < most)
		return;
	l.rlim_cur = l.rlim_max = most;
	(void)setrlimit(what, &l);
}

static void set_limits(const struct pf_sandbox *s)
{
	limit(RLIMIT_CORE, 0);
	if (s->mode == PF_SANDBOX_STRICT) {
		/* Each thread of a plugin that waits for the group's store has a connection. */
		limit(RLIMIT_NOFILE, s->network ? 1024 : 64);
		limit(RLIMIT_MSGQUEUE, 0);
	}
	if (s->mode == PF_SANDBOX_STRICT && !s->write) {
		signal(SIGXFSZ, SIG_IGN); /* write(2) fails with EFBIG instead */
		limit(RLIMIT_FSIZE, 0);
	}
	umask(077);
	/* No ptrace(2) and no /proc/PID/mem for other processes of this user, no core dump. */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* --- the three steps ---------------------------------------------------------------- */

int pf_sandbox_enter(struct pf_sandbox *s, const char *plugin, struct pf_err *err)
{
	long abi;
	int r;

	pf_oom_score_add(1); /* before leave_root, after which /proc/self is root's */
	if (s->mode == PF_SANDBOX_OFF)
		return 0;
	abi = syscall(SYS_landlock_create_ruleset, NULL, 0,
		      LANDLOCK_CREATE_RULESET_VERSION);
	s->landlock = abi > 0 ? (int)abi : 0;
	if (!s->landlock && (s->read || s->write))
		return pf_err_set(
			err, -ENOSYS,
			"%s needs a kernel with Landlock, which this one is not",
			s->read ? "sandbox_read" : "sandbox_write");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return pf_err_set(err, -errno, "no_new_privs: %s", strerror(errno));
	r = leave_root(s->uid, err);
	if (r < 0)
		return r;
	drop_capabilities(true);
	set_limits(s);
	if (s->mode == PF_SANDBOX_DEVICE)
		setenv("TMPDIR", "/dev/shm", 0); /* where it may write */
	r = restrict_files(s, plugin, err);
	return r < 0 ? r : restrict_calls(s, &s->seccomp, err);
}

int pf_sandbox_loaded(const struct pf_sandbox *s, struct pf_err *err)
{
	if (s->mode == PF_SANDBOX_OFF)
		return 0;
	drop_capabilities(false);
	(void)!chdir("/"); /* a plugin's path may be relative, so not before */
	return restrict_files(s, NULL, err);
}

int pf_sandbox_tighten(const struct pf_sandbox *s, struct pf_err *err)
{
	return s->mode == PF_SANDBOX_STRICT ? revoke_calls(s, err) : 0;
}
