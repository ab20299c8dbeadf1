/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, writes and closes files of a tree, and waits for the answers.  Static: each test has its own. */
#ifndef PJRTFS_TESTS_UNIT_VFS_DRIVER_H
#define PJRTFS_TESTS_UNIT_VFS_DRIVER_H

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "answer.h"
#include "pjrtfs/vfs.h"
#include "unit.h"

static const struct pf_cred god __attribute__((unused)) = { .uid = 0 };

/* The attributes of NAME in directory IN. */
static inline struct stat look_in(struct pf_tree *tree, uint64_t in, const char *name)
{
	struct stat st;

	ck_assert_msg(pf_vfs_lookup(tree, in, name, &st) == 0, "%s", name);
	pf_vfs_forget(tree, st.st_ino, 1);
	return st;
}

static inline int open_by(struct pf_tree *tree, uint64_t ino, int flags,
			  const struct pf_cred *cred, struct pf_open **ret)
{
	struct answer a;

	pf_vfs_open(tree, ino, flags, cred, ret, answer_begin(&a));
	return (int)answer_take(&a);
}

static inline void expect_read_by(void (*fn)(struct pf_open *, size_t, uint64_t,
					     struct pf_reply *),
				  struct pf_open *of, size_t len, uint64_t off,
				  const char *want)
{
	struct answer a;

	fn(of, len, off, answer_begin(&a));
	ck_assert_int_eq(answer_wait(&a), (ssize_t)strlen(want));
	ck_assert_str_eq(a.data.data ? a.data.data : "", want);
	answer_end(&a);
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
