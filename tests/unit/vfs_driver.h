/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, writes and closes files of a tree, and waits for the answers.  Static: each test has its own. */
#ifndef PJRTFS_TESTS_UNIT_VFS_DRIVER_H
#define PJRTFS_TESTS_UNIT_VFS_DRIVER_H

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "answer.h"
#include "pjrtfs/vfs.h"

static inline int open_by(struct pf_tree *tree, uint64_t ino, int flags,
			  const struct pf_cred *cred, struct pf_open **ret)
{
	struct answer a;

	pf_vfs_open(tree, ino, flags, cred, ret, answer_begin(&a));
	return (int)answer_take(&a);
}

static inline ssize_t write_by(void (*fn)(struct pf_open *, const void *, size_t,
					  uint64_t, struct pf_reply *),
			       struct pf_open *of, const void *data, size_t len,
			       uint64_t off)
{
	struct answer a;

	fn(of, data, len, off, answer_begin(&a));
	return answer_take(&a);
}

static inline int flush_by(struct pf_open *of, pid_t pid)
{
	struct answer a;

	pf_vfs_flush(of, pid, answer_begin(&a));
	return (int)answer_take(&a);
}

static inline int flush(struct pf_open *of)
{
	return flush_by(of, getpid());
}

/* FLUSH by a process that a signal kills. */
static inline int flush_dying(struct pf_open *of)
{
	pid_t pid = fork();
	int r;

	if (pid == 0) {
		raise(SIGKILL);
		_exit(0);
	}
	/* Before it is reaped its state is that of a process that closes its files. */
	waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
	r = flush_by(of, pid);
	waitpid(pid, NULL, 0);
	return r;
}

static inline int sync_file(struct pf_open *of)
{
	struct answer a;

	pf_vfs_fsync(of, answer_begin(&a));
	return (int)answer_take(&a);
}

#endif
