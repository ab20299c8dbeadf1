/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fuse.h>
#include <mntent.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/state.h"
#include "pjrtfs/base.h"

/* --- the mount point: inspected without waiting for a daemon there ------------------ */

enum {
	PROBE_MS = 5000, /* a daemon that has not answered by then counts as alive */
	PROBE_STEP_MS = 5
};

/* The device number of the mount at PATH; 0: unknown.  Sends no request to its daemon. */
static dev_t mountpoint_dev(const char *path)
{
	struct statx st;

	/* Without attributes the kernel sends no request and checks no owner. */
	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &st))
		return 0;
	return makedev(st.stx_dev_major, st.stx_dev_minor);
}

/* Is the topmost mount at PATH, an absolute path without links, a pjrtfs? */
static bool is_pjrtfs(const char *path)
{
	char buffer[4 * PATH_MAX];
	struct mntent entry;
	bool found = false;
	FILE *mounts = setmntent("/proc/self/mounts", "re");

	/* The kernel lists a mount after those that it covers. */
	while (mounts && getmntent_r(mounts, &entry, buffer, sizeof(buffer)))
		if (!strcmp(entry.mnt_dir, path))
			found = !strcmp(entry.mnt_type, "fuse.pjrtfs");
	if (mounts)
		endmntent(mounts);
	return found;
}

/* The exit status of CHILD; -1: it was killed after PROBE_MS. */
static int wait_for(pid_t child)
{
	int status;

	for (int ms = 0; ms < PROBE_MS; ms += PROBE_STEP_MS) {
		if (waitpid(child, &status, WNOHANG) == child)
			return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
		poll(NULL, 0, PROBE_STEP_MS);
	}
	/* A daemon that has read the child's request keeps it from ending: do not wait. */
	kill(child, SIGKILL);
	waitpid(child, &status, WNOHANG);
	return -1;
}

/*
 * Is the daemon of the mount at PATH gone?  The kernel then fails every request at once.  A
 * stopped daemon never answers, so a child process makes the request.
 */
static bool is_dead(const char *path)
{
	pid_t child = fork();

	if (child == 0) {
		close_range(3, ~0U, 0);
		_exit(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) < 0 &&
		      errno == ENOTCONN);
	}
	return child > 0 && wait_for(child) == 1;
}

/* Detach the mount at PATH.  Users other than root need fusermount3 for that. */
static int detach(const char *path)
{
	char *const argv[] = { "fusermount3",           "-u", "-z", "-q", "--",
			       (char *)(uintptr_t)path, NULL };
	int r = umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) ? -errno : 0;
	pid_t child;

	if (r != -EPERM || posix_spawnp(&child, argv[0], NULL, NULL, argv, environ))
		return r;
	return wait_for(child) == 0 ? 0 : r;
}

int pf_mount_clear(const char *path, struct pf_err *err)
{
	int r;

	while (is_pjrtfs(path)) {
		if (!is_dead(path))
			return pf_err_set(
				err, -EBUSY,
				"%s is a pjrtfs mount already (fusermount3 -u %s)", path,
				path);
		r = detach(path);
		if (r < 0)
			return pf_err_set(err, -ENOTCONN,
					  "%s is a pjrtfs mount whose process is gone, "
					  "and it cannot be unmounted: %s "
					  "(fusermount3 -u -z %s)",
					  path, strerror(-r), path);
		pf_log(PF_LOG_WARNING,
		       "%s: unmounted a pjrtfs mount whose process is gone", path);
	}
	return 0;
}

/* The mount hides what is in the directory: maybe a program wrote it there, as if there were the mount. */
static void warn_of_hidden(const char *path)
{
	char first[NAME_MAX + 1] = "";
	struct dirent *entry;
	DIR *dir = opendir(path);

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (*first)
			break;
		snprintf(first, sizeof(first), "%s", entry->d_name);
	}
	if (*first)
		pf_log(PF_LOG_WARNING,
		       "%s is not empty: what is in it (%s%s) is hidden until "
		       "fusermount3 -u %s",
		       path, first, entry ? ", ..." : "", path);
	closedir(dir);
}

/*
 * Can PATH, which is absolute, be mounted on?  Unmounts a pjrtfs mount there whose daemon is gone,
 * with a line in the log.  Blocks for up to 5 s if another daemon does not answer.
 */
static int check_mountpoint(const char *path, struct pf_err *err)
{
	struct stat st;
	int r = pf_mount_clear(path, err);

	if (r < 0)
		return r;
	if (stat(path, &st) == 0) {
		if (!S_ISDIR(st.st_mode))
			return pf_err_set(err, -ENOTDIR, "%s is not a directory", path);
		warn_of_hidden(path);
		return 0;
	}
	switch (errno) {
	case ENOENT:
		return pf_err_set(err, -ENOENT, "%s does not exist (mkdir -p %s)", path,
				  path);
	case ENOTCONN:
		return pf_err_set(
			err, -ENOTCONN,
			"%s is a mount of another file system whose process is gone "
			"(fusermount3 -u %s)",
			path, path);
	default:
		return pf_err_set(err, -errno, "%s: %s", path, strerror(errno));
	}
}

/* --- mounting, serving, unmounting ---------------------------------------------------- */

enum { MAX_INTERRUPTS = 16 }; /* that libfuse may have kept when the mount ends */

/* libfuse's last complaint, for the sentence that says why a mount failed. */
static __thread char complaint[256];
static __thread char line[256]; /* the next one so far: libfuse prints it in pieces */

static void on_log(enum fuse_log_level level, const char *fmt, va_list ap)
{
	size_t len = strlen(line);

	vsnprintf(line + len, sizeof(line) - len, fmt, ap);
	len = strlen(line);
	if (len + 1 < sizeof(line) && (!len || line[len - 1] != '\n'))
		return;
	line[strcspn(line, "\n")] = '\0';
	snprintf(complaint, sizeof(complaint), "%s", line);
	(void)level; /* the callers make errors of complaints */
	pf_log(PF_LOG_DEBUG, "libfuse: %s", line);
	line[0] = '\0';
}

static int check_device(struct pf_err *err)
{
	static const char device[] = "/dev/fuse";
	pf_autoclose int fd = open(device, O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		return 0;
	switch (errno) {
	case ENOENT:
	case ENODEV:
	case ENXIO:
		return pf_err_set(
			err, -ENOENT,
			"%s is missing: load the kernel module (modprobe fuse), or "
			"give the container the device (--device %s)",
			device, device);
	case EPERM: /* of the device control group: the mode is not checked yet */
		return pf_err_set(
			err, -EACCES,
			"%s: this container may not use it: start the container "
			"with --device %s",
			device, device);
	case EACCES:
		return pf_err_set(
			err, -EACCES,
			"%s: not permitted; it should be readable and writable for "
			"everybody (chmod 666 %s)",
			device, device);
	default:
		return pf_err_set(err, -errno, "%s: %s", device, strerror(errno));
	}
}

static bool has_fusermount(void)
{
	const char *path = getenv("PATH");
	char file[PATH_MAX];

	if (access("/usr/bin/fusermount3", X_OK) == 0 ||
	    access("/bin/fusermount3", X_OK) == 0)
		return true;
	while (path && *path) {
		size_t len = strcspn(path, ":");

		snprintf(file, sizeof(file), "%.*s/fusermount3", (int)len, path);
		if (len && access(file, X_OK) == 0)
			return true;
		path += len + (path[len] == ':');
	}
	return false;
}

static int explain_mount(const char *path, struct pf_err *err)
{
	if (geteuid() != 0 && !has_fusermount())
		return pf_err_set(
			err, -EPERM,
			"%s: cannot mount: fusermount3 is missing (install fuse3)", path);
	return pf_err_set(err, -EPERM, "%s: cannot mount%s%s%s", path,
			  complaint[0] ? ": " : " (fusermount3 said why)", complaint,
			  geteuid() == 0 ? "; in a container: start it with --cap-add "
					   "SYS_ADMIN, or mount in a user namespace"
					 : "");
}

static int make_args(const struct pf_mount_config *config, struct fuse_args *args)
{
	pf_autofree char *options = NULL;
	pf_autobuf struct pf_buf source = PF_BUF_INIT;
	int r = fuse_opt_add_opt(&options, "default_permissions,subtype=pjrtfs");

	for (const char *const *o = config->options; !r && o && *o; o++)
		r = fuse_opt_add_opt(&options, *o);
	if (!r && config->source) {
		pf_buf_printf(&source, "fsname=%s", config->source);
		r = source.failed || fuse_opt_add_opt_escaped(&options, source.data);
	}
	if (!r && config->debug)
		r = fuse_opt_add_opt(&options, "debug");
	r = r || fuse_opt_add_arg(args, "pjrtfs") || fuse_opt_add_arg(args, "-o") ||
	    fuse_opt_add_arg(args, options);
	return r ? -ENOMEM : 0;
}

/* *RET: a session that is not mounted yet. */
static int new_session(const struct pf_mount_config *config, struct pf_mount *mount,
		       struct fuse_session **ret, struct pf_err *err)
{
	PF_CLEANUP(fuse_opt_free_args) struct fuse_args args = FUSE_ARGS_INIT(0, NULL);

	if (make_args(config, &args) < 0)
		return pf_err_set(err, -ENOMEM, "no memory");
	fuse_set_log_func(on_log);
	complaint[0] = '\0';
	*ret = fuse_session_new(&args, &pf_fuse_ops, sizeof(pf_fuse_ops), mount);
	return *ret ? 0
		    : pf_err_set(err, -EINVAL, "%s",
				 complaint[0] ? complaint
					      : "libfuse refuses the options");
}

static bool has_option(const struct pf_mount_config *config, const char *option)
{
	for (const char *const *o = config->options; o && *o; o++)
		if (!strcmp(*o, option))
			return true;
	return false;
}

/* The mount of a descriptor has options that its mounter chose: check that they are safe. */
static int check_descriptor(const struct pf_mount_config *config, int fd,
			    struct pf_err *err)
{
	struct stat st;

	if (fstat(fd, &st) || fcntl(fd, F_SETFD, FD_CLOEXEC))
		return pf_err_set(err, -EINVAL,
				  "mount point %s: expected an open descriptor: %s",
				  config->mountpoint, strerror(errno));
	if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(10, 229))
		return pf_err_set(err, -EINVAL,
				  "mount point %s: expected an open /dev/fuse, found "
				  "another file",
				  config->mountpoint);
	if ((has_option(config, "allow_other") || has_option(config, "allow_root")) &&
	    !has_option(config, "default_permissions"))
		return pf_err_set(err, -EPERM,
				  "mount point %s: allow_other without "
				  "default_permissions lets everybody change everything: "
				  "mount with both",
				  config->mountpoint);
	return 0;
}

int pf_mount_check(const struct pf_mount_config *config, struct pf_err *err)
{
	int fd = pf_mount_fd(config->mountpoint), r;
	struct fuse_session *session;

	r = new_session(config, NULL, &session, err);
	if (r < 0)
		return r;
	fuse_session_destroy(session);
	return fd < 0 ? 0 : check_descriptor(config, fd, err);
}

/* Is FD libfuse's end of a pair of sockets?  All others of this process are closed on exec. */
static bool is_libfuse_socket(int fd)
{
	int type = 0, flags = fcntl(fd, F_GETFD);
	socklen_t len = sizeof(type);

	return flags >= 0 && !(flags & FD_CLOEXEC) &&
	       !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_STREAM;
}

/*
 * With auto_unmount, fusermount3 waits until a socket that libfuse keeps open is closed, and then
 * unmounts if the mount is dead.  The kernel releases the files of a process that dies from the
 * highest descriptor down: give that socket the number LOW, below the device's, so that the mount
 * is dead by then.  Another thread may have freed the number below LOW that the device has: then it gets a
 * higher one.  Returns the device's.
 */
static int close_device_first(int device, int low)
{
	int high = low < device ? device : fcntl(device, F_DUPFD_CLOEXEC, low + 1);

	for (int fd = device + 1; high > low && fd < device + 8; fd++)
		if (is_libfuse_socket(fd) && dup3(fd, low, O_CLOEXEC) == low) {
			close(fd);
			low = -1;
			break;
		}
	if (high > device)
		close(device);
	pf_closep(&low);
	return high > device ? high : device;
}

/* Mount; the descriptor of the device is mount->io_fd. */
static int mount_session(struct pf_mount *mount, const struct pf_mount_config *config)
{
	bool unmounts = !mount->resumed && has_option(config, "auto_unmount");
	int low = unmounts ? open("/", O_PATH | O_CLOEXEC) : -1;
	char device[32];
	int r;

	snprintf(device, sizeof(device), "/dev/fd/%d", config->device);
	r = fuse_session_mount(mount->session, mount->resumed ? device : mount->path);
	mount->io_fd = fuse_session_fd(mount->session);
	if (r == 0 && low >= 0)
		mount->io_fd = close_device_first(mount->io_fd, low);
	else
		pf_closep(&low);
	return r;
}

/* A mount that is resumed is not looked at: its requests wait for this process. */
static int begin(struct pf_mount *mount, const struct pf_mount_config *config,
		 struct pf_err *err)
{
	bool is_fd = pf_mount_fd(config->mountpoint) >= 0;
	char *path = is_fd || mount->resumed ? strdup(config->mountpoint)
					     : realpath(config->mountpoint, NULL);
	int r;

	/* Absolute, as the daemon may change its working directory. */
	mount->path = path;
	if (!path)
		return pf_err_set(err, -errno, "%s: %s", config->mountpoint,
				  strerror(errno));
	r = new_session(config, mount, &mount->session, err);
	if (r < 0)
		return r;
	complaint[0] = '\0';
	if (mount_session(mount, config) != 0)
		return explain_mount(path, err);
	if (!is_fd && !mount->resumed)
		mount->dev = mountpoint_dev(path);
	r = fuse_session_custom_io(mount->session, &pf_device_io, mount->io_fd);
	/* From 3.18.3 on, unless it is built with -Denable-custom-io=true. */
	if (r == -ENOTSUP)
		return pf_err_set(err, r,
				  "%s: libfuse %s is built without custom I/O: use the "
				  "portable archive, which has its own",
				  path, fuse_pkgversion());
	if (r < 0)
		return pf_err_set(err, r, "%s: libfuse: %s", path, strerror(-r));
	return mount->resumed ? pf_device_resume(mount, err) : 0;
}

enum { MANY_GONE = 256 }; /* names at a time cost the kernel little */

int pf_mount_new(const struct pf_mount_config *config, struct pf_mount **ret,
		 struct pf_err *err)
{
	struct pf_mount *mount;
	int r = 0;

	if (pf_mount_fd(config->mountpoint) < 0 && config->device < 0) {
		r = check_mountpoint(config->mountpoint, err);
		if (r == 0)
			r = check_device(err);
	}
	if (r < 0)
		return r;
	mount = malloc(sizeof(*mount));
	if (!mount)
		return pf_err_set(err, -ENOMEM, "no memory");
	*mount = (struct pf_mount){
		.tree = config->tree,
		.many_gone = config->drops_names ? 1 : MANY_GONE,
		.usage = config->usage,
		.suspended = config->suspended,
		.arg = config->arg,
		.resumed = config->device >= 0,
		.death = config->death ? config->death : "",
		.io_fd = -1,
		.cloned = -1,
		.lead = PTHREAD_MUTEX_INITIALIZER,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.ended = PTHREAD_COND_INITIALIZER,
		.wake = PTHREAD_COND_INITIALIZER,
		.timers = pf_timers_new(),
	};
	r = mount->timers ? begin(mount, config, err)
			  : pf_err_set(err, -ENOMEM, "no memory");
	if (r < 0) {
		/* Another process may resume it, or unmount it. */
		mount->dev = mount->resumed ? 0 : mount->dev;
		pf_mount_free(mount);
		return r;
	}
	*ret = mount;
	return 0;
}

/* May the request copy many bytes, print a text, or start work? */
static bool is_heavy(const struct fuse_buf *buf)
{
	const struct fuse_in_header *in = buf->mem;

	switch (in->opcode) {
	case FUSE_READ:
		return ((const struct fuse_read_in *)(in + 1))->size >= HEAVY;
	case FUSE_WRITE:
		return buf->size >= HEAVY;
	default:
		/* OPEN prints texts, GETATTR and LOOKUP print them for their sizes, FLUSH
		 * parses. */
		return in->opcode != FUSE_FORGET && in->opcode != FUSE_RELEASE;
	}
}

/* May the request take so long that no other request should wait for it? */
static bool is_long(const struct pf_mount *mount, const struct fuse_buf *buf)
{
	const struct fuse_in_header *in = buf->mem;

	return in->opcode == FUSE_COPY_FILE_RANGE || in->opcode == FUSE_FALLOCATE ||
	       pf_vfs_is_slow(mount->tree, in->nodeid);
}

static bool another_waits(struct fuse_session *session)
{
	struct pollfd p = { .fd = fuse_session_fd(session), .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

_Thread_local uint64_t pf_poll_handle;

static void refuse(struct pf_mount *mount, const struct fuse_in_header *in)
{
	const struct fuse_out_header out = { .len = sizeof(out),
					     .error = -EIO,
					     .unique = in->unique };

	const struct pf_cred cred = { .uid = in->uid,
				      .gid = in->gid,
				      .pid = (pid_t)in->pid,
				      .sid = PF_SID_UNKNOWN };
	struct pf_err err = PF_ERR_INIT;

	pf_err_set(&err, -EIO, "pjrtfs died of %s at this, twice: it is refused",
		   mount->death);
	pf_log(PF_LOG_WARNING, "%s of process %u: %s", pf_fuse_operation(in->opcode),
	       in->pid, err.text);
	pf_vfs_refuse(mount->tree, in->nodeid, pf_fuse_name_in(in), &cred,
		      pf_fuse_operation(in->opcode), &err);
	pf_send_raw(mount, &out, sizeof(out));
}

/* The next daemon can say what this one did, if it dies. */
static void describe(const struct fuse_in_header *in)
{
	struct pf_state_work work = {
		.ino = in->nodeid, .opcode = in->opcode, .user = in->uid, .pid = in->pid
	};
	const char *name = pf_fuse_name_in(in);

	if (!pf_state_on())
		return;
	if (*name) /* few requests have one */
		snprintf(work.name, sizeof(work.name), "%s", name);
	pf_state_describe(&work);
}

/* Have libfuse call the operation that BUF requests.  False: libfuse had no memory for it, and the
 * kernel does not repeat it: then nothing would ever free what an open file or a node holds. */
static bool process(struct pf_mount *mount, const struct fuse_buf *buf)
{
	const struct fuse_in_header *in = buf->mem;
	uint64_t unique = in->unique & ~FUSE_UNIQUE_RESEND;
	bool again = in->unique & FUSE_UNIQUE_RESEND;
	bool is_init = in->opcode == FUSE_INIT;

	pf_fuse_let_go = in->opcode != FUSE_FORGET && in->opcode != FUSE_BATCH_FORGET &&
			 in->opcode != FUSE_RELEASE && in->opcode != FUSE_RELEASEDIR;
	pf_device_note_init(mount, buf);
	if (in->opcode == FUSE_POLL)
		pf_poll_handle = ((const struct fuse_poll_in *)(in + 1))->kh;
	describe(in);
	pf_state_request(unique, again);
	/* A request that ended two lives of the daemon is not processed a third time. */
	if (again && pf_state_deaths(unique) >= 2) {
		pf_fuse_let_go = true;
		refuse(mount, in);
	} else {
		fuse_session_process_buf(mount->session, buf);
	}
	pf_state_request(0, false);
	if (is_init)
		pf_device_clone(mount);
	return pf_fuse_let_go;
}

enum { PAUSE_US = 5000, TRIES = 2000 };

/* Try again, until there is memory. */
static void insist(struct pf_mount *mount, const struct fuse_buf *buf)
{
	for (int i = 0; i < TRIES && !fuse_session_exited(mount->session); i++) {
		usleep(PAUSE_US);
		if (process(mount, buf))
			return;
	}
}

/* Read a request into BUF: as fuse_session_receive_buf, which drops one that it has read if the session
 * ends meanwhile.  The next daemon would get it again, and not know that no part of it has run. */
static int receive(struct fuse_session *session, struct fuse_buf *buf)
{
	struct fuse_in_header *in = buf->mem;
	int r;

	if (in)
		in->len = 0;
	r = fuse_session_receive_buf(session, buf);
	if (r == 0 && in && in == buf->mem && in->len) {
		buf->size = in->len;
		r = (int)in->len;
	}
	return r;
}

/*
 * One thread leads: it reads requests and answers them.  When it has read a heavy one and another
 * is waiting already, the next thread leads.  If all threads read, the kernel would wake them in
 * turn, and each request would find a thread with cold caches.  A signal only interrupts the
 * read.
 */
static void *serve(void *arg)
{
	struct pf_mount *mount = arg;
	struct fuse_session *session = mount->session;
	struct fuse_buf buf = { 0 };
	struct pf_follow follow = { .fd = -1 };
	int r = 0;

	pf_lock(&mount->lead);
	while (!fuse_session_exited(session)) {
		pf_follow_spin(&follow, mount->io_fd);
		r = receive(session, &buf);
		if (r == -EINTR)
			continue;
		if (r == -ENOMEM) { /* for its buffer: a thread that has one shall lead */
			pf_unlock(&mount->lead);
			usleep(PAUSE_US);
			pf_lock(&mount->lead);
			continue;
		}
		if (r <= 0)
			break;
		pf_follow(&follow, &buf);
		pf_turn_enter(); /* before another thread leads, and reads a later request */
		if (is_long(mount, &buf) || (is_heavy(&buf) && another_waits(session))) {
			pf_follow_none(&follow);
			pf_unlock(&mount->lead);
			if (!process(mount, &buf))
				insist(mount, &buf);
			pf_turn_leave();
			pf_lock(&mount->lead);
		} else if (!process(mount, &buf)) {
			pf_unlock(&mount->lead);
			insist(mount, &buf);
			pf_turn_leave();
			pf_lock(&mount->lead);
		} else {
			pf_turn_leave();
		}
	}
	fuse_session_exit(session);
	pf_unlock(&mount->lead);
	pf_follow_none(&follow);
	free(buf.mem);

	PF_LOCK_SCOPE(&mount->lock);
	mount->running--;
	if (r < 0 && r != -EINTR && !mount->failed)
		mount->failed = r;
	pthread_cond_broadcast(&mount->ended);
	return NULL;
}

static void ignore(int sig)
{
	(void)sig;
}

/*
 * Wait until all threads have ended, the notifier first, since it may wait for requests to be
 * served.  When the session is to end, threads may be blocked in a read of the device, which
 * only a signal interrupts (the mount may stay busy).  A signal that arrives just before the
 * read has no effect, so they are sent repeatedly.
 */
static void wait_for_threads(struct pf_mount *mount, const pthread_t *threads, unsigned n)
{
	pf_lock(&mount->lock);
	while (!mount->stopping && !fuse_session_exited(mount->session))
		pthread_cond_wait(&mount->ended, &mount->lock);
	pf_unlock(&mount->lock);
	if (!mount->suspending)
		pf_notifier_stop(mount);
	fuse_session_exit(mount->session);

	pf_lock(&mount->lock);
	while (mount->running) {
		struct timespec until = pf_time_in(CLOCK_REALTIME, 5);

		for (unsigned i = 0; i < n; i++)
			pthread_kill(threads[i], SIGURG);
		pthread_cond_timedwait(&mount->ended, &mount->lock, &until);
	}
	pf_unlock(&mount->lock);
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

/* Start the threads, which take no signal but SIGURG.  Returns how many were started. */
static unsigned start_threads(struct pf_mount *mount, pthread_t *threads,
			      struct pf_err *err)
{
	sigset_t all, old;
	unsigned n;
	int r;

	sigfillset(&all);
	sigdelset(&all, SIGURG);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	/* The kernel may cache attributes from the first request on. */
	r = -pf_notifier_start(mount);
	pf_lock(&mount->lock);
	for (n = 0; !r && n < PF_FUSE_THREADS; n++) {
		r = pthread_create(&threads[n], NULL, serve, mount);
		if (r)
			break;
		mount->running++;
	}
	if (r) {
		mount->failed =
			pf_err_set(err, -r, "cannot start a thread: %s", strerror(r));
		fuse_session_exit(mount->session);
	}
	pf_unlock(&mount->lock);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return n;
}

/*
 * libfuse keeps an interrupt that arrives after its request was answered until the next request,
 * and does not free it with the session: so send it some more requests, which are empty.
 */
static void drop_interrupts(struct pf_mount *mount)
{
	struct {
		struct fuse_in_header head;
		struct fuse_batch_forget_in forget;
	} none = { .head = { .len = sizeof(none),
			     .opcode = FUSE_BATCH_FORGET,
			     .unique = UINT64_MAX } };
	const struct fuse_buf buf = { .size = sizeof(none), .mem = &none };

	for (int i = 0; i < MAX_INTERRUPTS; i++)
		fuse_session_process_buf(mount->session, &buf);
}

/*
 * End the connection, and unmount.  libfuse unmounts by path, where another mount may be by now,
 * if this one was unmounted and another mount namespace still holds it.  libfuse does not
 * unmount if poll(2) says that its descriptor is disconnected, as a pipe without a reader is.
 */
static void unmount(struct pf_mount *mount)
{
	int fd = fuse_session_fd(mount->session), ends[2];

	/* libfuse does not know where a mount is that it has resumed. */
	if (fd >= 0 && mount->resumed && mount->dev &&
	    mountpoint_dev(mount->path) == mount->dev)
		(void)detach(mount->path);
	pf_closep(&mount->cloned);
	if (fd >= 0 && mount->dev && mountpoint_dev(mount->path) != mount->dev &&
	    pipe2(ends, O_CLOEXEC) == 0) {
		close(ends[0]);
		dup3(ends[1], fd, O_CLOEXEC);
		close(ends[1]);
	}
	fuse_session_unmount(mount->session);
}

int pf_mount_run(struct pf_mount *mount, struct pf_err *err)
{
	pthread_t threads[PF_FUSE_THREADS];
	struct sigaction wake = { .sa_handler = ignore }, before;
	unsigned n;

	pf_log_serve();
	if (mount->resumed) {
		if (pf_reopen_all(mount) < 0)
			return pf_err_set(err, -ENOMEM, "no memory for open files");
		pf_device_clone(mount);
		pf_device_ask_again(mount);
	}
	pf_state_restored();
	sigaction(SIGURG, &wake, &before);
	n = start_threads(mount, threads, err);
	wait_for_threads(mount, threads, n);
	sigaction(SIGURG, &before, NULL);
	if (mount->suspending && !mount->unmounted) {
		if (mount->suspended)
			mount->suspended(mount->arg);
		pf_device_freeze(mount);
		return 1;
	}
	pf_notifier_stop(mount);
	pf_fuse_requests_disconnect(mount);
	if (n)
		drop_interrupts(mount);
	unmount(mount);
	if (mount->failed < 0 && n == PF_FUSE_THREADS)
		pf_err_set(err, mount->failed, "reading from /dev/fuse: %s",
			   strerror(-mount->failed));
	return mount->failed;
}

void pf_mount_stop(struct pf_mount *mount)
{
	pf_lock(&mount->lock);
	mount->stopping = true;
	pthread_cond_broadcast(&mount->ended);
	pf_unlock(&mount->lock);
}

void pf_mount_settle(struct pf_mount *mount, unsigned ms)
{
	if (mount->offered & FUSE_HAS_RESEND)
		pf_vfs_settle(mount->tree, ms);
}

void pf_mount_suspend(struct pf_mount *mount)
{
	pf_lock(&mount->lock);
	mount->stopping = mount->suspending = true;
	pthread_cond_broadcast(&mount->ended);
	pf_unlock(&mount->lock);
}

int pf_mount_device(const struct pf_mount *mount)
{
	return fuse_session_fd(mount->session);
}

void pf_mount_free(struct pf_mount *mount)
{
	if (!mount)
		return;
	if (mount->session) {
		unmount(mount);
		fuse_session_destroy(mount->session);
	}
	pf_timers_free(mount->timers);
	pf_close_all(mount);
	pf_map_release(&mount->changed);
	pf_gone_free(&mount->gone);
	free(mount->init.mem);
	free(mount->path);
	pthread_cond_destroy(&mount->wake);
	pthread_cond_destroy(&mount->ended);
	pthread_mutex_destroy(&mount->lead);
	pthread_mutex_destroy(&mount->lock);
	free(mount);
}
