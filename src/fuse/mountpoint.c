/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inspect the mount at a path without waiting for its daemon, which may be stopped, slow or gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"

enum {
	PROBE_MS = 5000, /* a daemon that has not answered by then counts as alive */
	PROBE_STEP_MS = 5
};

dev_t pf_mountpoint_dev(const char *path)
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

static int clear_dead(const char *path, struct pf_err *err)
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

int pf_mountpoint_check(const char *path, struct pf_err *err)
{
	struct stat st;
	int r = clear_dead(path, err);

	if (r < 0)
		return r;
	if (stat(path, &st) == 0)
		return S_ISDIR(st.st_mode)
			       ? 0
			       : pf_err_set(err, -ENOTDIR, "%s is not a directory", path);
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
