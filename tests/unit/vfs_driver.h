/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a tree, written and closed by who waits for it.  Static functions: each test has its own. */
#ifndef PJRTFS_TESTS_UNIT_VFS_DRIVER_H
#define PJRTFS_TESTS_UNIT_VFS_DRIVER_H

#include <unistd.h>

#include "answer.h"
#include "pjrtfs/vfs.h"

static inline ssize_t write_by(void (*fn)(struct pf_open *, const void *, size_t,
					  uint64_t, struct pf_reply *),
			       struct pf_open *of, const void *data, size_t len,
			       uint64_t off)
{
	struct answer a;
	ssize_t n;

	fn(of, data, len, off, answer_begin(&a));
	n = answer_wait(&a);
	answer_end(&a);
	return n;
}

static inline int flush(struct pf_open *of)
{
	struct answer a;
	int r;

	pf_vfs_flush(of, getpid(), answer_begin(&a));
	r = (int)answer_wait(&a);
	answer_end(&a);
	return r;
}

static inline int sync_file(struct pf_open *of)
{
	struct answer a;
	int r;

	pf_vfs_fsync(of, answer_begin(&a));
	r = (int)answer_wait(&a);
	answer_end(&a);
	return r;
}

#endif
