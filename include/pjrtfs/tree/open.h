/* SPDX-License-Identifier: Apache-2.0 */
/* Open files. */
#ifndef PJRTFS_TREE_OPEN_H
#define PJRTFS_TREE_OPEN_H

#include <fcntl.h>
#include <pthread.h>

#include "pjrtfs/tree/node.h"

struct pf_session;

/* An open file.  Kinds' functions may read everything and own state. */
struct pf_open {
	struct pf_node *node; /* one reference */
	int flags;            /* open(2)'s */
	struct pf_cred cred;  /* the opener's */
	void *state;          /* the kind's; kind->release drops it */
	bool goes_by_size;    /* the opener may have asked for its size before that */
	_Atomic bool unsized; /* the kind's: only reading to its end tells its size */

	/* The tree's. */
	unsigned refs;        /* atomic */
	pthread_mutex_t lock; /* rank 0: one op at a time, which may take any other lock;
			       * copying takes two opens', the lower address first;
			       * protects the fields below */
	bool dirty;           /* written since the last commit */
	bool killed;          /* the last FLUSH was that of a dying process */
	int failed;           /* atomic: -errno of the commit that a FLUSH since the last
			       * write made, which the next ones repeat */
	uint64_t written;     /* bytes taken so far */
	bool shown;           /* text holds the snapshot */
	struct pf_buf text;
	uint64_t alias;                /* pf_vfs_alias: what it was opened by */
	struct pf_session *session;    /* control files */
	struct pf_open *newer, *older; /* of those open at the node; by the tree's lock */
};

static inline bool pf_open_reads(const struct pf_open *of)
{
	return (of->flags & O_ACCMODE) != O_WRONLY;
}

static inline bool pf_open_writes(const struct pf_open *of)
{
	return (of->flags & O_ACCMODE) != O_RDONLY;
}

#endif
