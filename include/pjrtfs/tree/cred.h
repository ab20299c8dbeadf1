/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks: the rights of the process behind a request. */
#ifndef PJRTFS_TREE_CRED_H
#define PJRTFS_TREE_CRED_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

enum { PF_CRED_GROUPS = 64 };
enum { PF_SID_UNKNOWN = -1 };

/* Plain data: copy with =. */
struct pf_cred {
	uid_t uid;
	gid_t gid;
	pid_t pid; /* 0: outside our PID namespace */
	pid_t sid; /* login session (getsid): 0 outside our PID namespace, PF_SID_UNKNOWN */
	mode_t umask;
	bool checked;      /* the front end compared permission bits: vfs.h need not */
	unsigned n_groups; /* supplementary groups known; 0 until they are asked for */
	gid_t groups[PF_CRED_GROUPS];
};

/*
 * May CRED do what WANT (a mask of R_OK, W_OK, X_OK) says with something of owner UID,
 * group GID and permission bits MODE?  As the kernel would decide; uid 0 may.
 */
bool pf_cred_may(const struct pf_cred *cred, uid_t uid, gid_t gid, mode_t mode, int want);

#endif
