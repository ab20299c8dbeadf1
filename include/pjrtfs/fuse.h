/* SPDX-License-Identifier: Apache-2.0 */
/* The mount: a tree served to the kernel through FUSE. */
#ifndef PJRTFS_FUSE_H
#define PJRTFS_FUSE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "pjrtfs/base.h"

struct pf_mount;
struct pf_tree;

/* The numbers that df(1) shows. */
struct pf_usage {
	uint64_t used;  /* bytes */
	uint64_t limit; /* bytes */
	uint64_t files;
};

/* Everything is borrowed until pf_mount_new returns, tree and arg until pf_mount_free. */
struct pf_mount_config {
	struct pf_tree *tree;
	const char *mountpoint; /* absolute; or /dev/fd/N, see pf_mount_fd */
	const char *source;     /* the device that mount(8) and df(1) show */
	const char *const
		*options; /* -o's, one each, NULL-terminated, or NULL: allow_other,
				     * auto_unmount, ro, ...; mount(8)'s own are not known */
	/* The open /dev/fuse of a mount at mountpoint that an earlier life of the daemon has served
	 * (state.h), or -1; taken on success.  The tree is restored already. */
	int device;
	bool debug; /* log every request */
	/* Have the kernel drop names that are gone at once, not many at a time: it keeps their nodes, and
	 * these the places of users. */
	bool drops_names;
	/* How an earlier life ended: "signal 11 (Segmentation fault)"; borrowed.  "": none did. */
	const char *death;
	/* Fill RET, without blocking; called on the serving threads.  May be NULL. */
	void (*usage)(void *arg, struct pf_usage *ret);
	/* Called after pf_mount_suspend, when no request is read any more and answers still are
	 * sent.  May be NULL. */
	void (*suspended)(void *arg);
	void *arg;
};

/* The name of the kernel's OPCODE: "create".  Static. */
const char *pf_fuse_operation(uint32_t opcode);

/*
 * MOUNTPOINT may be /dev/fd/N, as in libfuse: descriptor N is an open /dev/fuse, which the
 * caller of this process has mounted and unmounts.  Returns N, or -1 for a directory's path.
 */
static inline int pf_mount_fd(const char *mountpoint)
{
	int fd = -1, len = 0;

	return sscanf(mountpoint, "/dev/fd/%d%n", &fd, &len) == 1 && !mountpoint[len]
		       ? fd
		       : -1;
}

/*
 * Call before other processes start.  Checks CONFIG's options and, if its mountpoint is a
 * descriptor, that this is an open /dev/fuse, which other processes do not inherit from now
 * on.  0; -EINVAL: libfuse does not know an option, or the descriptor is another file;
 * -EPERM: others are allowed in, but the kernel does not check permissions; -ENOMEM.
 */
int pf_mount_check(const struct pf_mount_config *config, struct pf_err *err);

/*
 * Mount, or take over the mount of a descriptor.  Starts no thread, so that the caller may still
 * fork; requests wait for pf_mount_run.  The caller ends and frees the mount with pf_mount_free.
 *
 * Unmounts a pjrtfs mount at the same place whose daemon is gone first, with a line in the log.
 *
 * With a device, resume a mount instead: the descriptors that are open there are those of the
 * journal.  -ENOTCONN: it was unmounted meanwhile; -EPROTO: it cannot be resumed.
 *
 * Errors: ENOENT, ENOTDIR, EACCES of the mount point or of /dev/fuse; EBUSY: a pjrtfs is
 * mounted there; ENOTCONN: a dead mount is there that cannot be unmounted; EINVAL: an option
 * that is not known; EPERM; ENOMEM; EIO: libfuse gave no reason.
 */
int pf_mount_new(const struct pf_mount_config *config, struct pf_mount **ret,
		 struct pf_err *err);

/*
 * Serve requests until the mount is gone (fusermount3 -u, umount) or pf_mount_stop is called.  Then
 * answers waiting requests with ENOTCONN and unmounts, but not another mount that has taken the
 * place.  Returns 0 (1: pf_mount_suspend), or -errno if the kernel's requests could not be read.
 * Uses SIGURG to wake its own threads.
 */
int pf_mount_run(struct pf_mount *mount, struct pf_err *err);

/* Make pf_mount_run return, also if it has not begun.  May be called on any thread, but not in a
 * signal handler.  Does not wait. */
void pf_mount_stop(struct pf_mount *mount);

/*
 * Let conversations that are under way end before pf_mount_suspend, for up to MS; no other one begins.
 * Returns at once if the kernel cannot send requests again (before 6.9).  Blocks.
 */
void pf_mount_settle(struct pf_mount *mount, unsigned ms);

/*
 * Make pf_mount_run return, with 1, when the requests that threads work on have been answered, and
 * without unmounting: waiting requests stay, and so do the open files in the journal.  No thread
 * answers a request from then on: the process must end (_exit(2)), and another one resume the
 * mount.  As pf_mount_stop.
 */
void pf_mount_suspend(struct pf_mount *mount);

/* The mount's /dev/fuse, borrowed. */
int pf_mount_device(const struct pf_mount *mount);

/*
 * Unmount the pjrtfs mounts at PATH whose daemons are gone, with a line in the log.  Blocks for up
 * to 5 s if another daemon does not answer.  -EBUSY: one serves; -ENOTCONN: it cannot be unmounted.
 */
int pf_mount_clear(const char *path, struct pf_err *err);

/* Unmount if that has not happened.  MOUNT may be NULL. */
void pf_mount_free(struct pf_mount *mount);

#endif
