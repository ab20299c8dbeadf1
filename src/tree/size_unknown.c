/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes that only a reader learns.
 *
 * The text of a large array takes seconds to print, and its length is not known before.  stat(2) cannot
 * wait for that: ls(1) of a directory would take minutes.  But some programs go by the size that they
 * see: tar(1) and rsync(1) copy that many bytes.  So, for a kind with size_bound:
 *
 *   stat(2), by name   shows an upper bound: a program that relies on it fails, rather than truncate the
 *                      text
 *   fstat(2)           shows 0, as files in /proc do: a program that has the file open then reads up to
 *                      the end.  It would seek beyond the end if it saw a larger size, and stop early at
 *                      a smaller one
 *   open(2)            waits for the exact size if its caller may have called stat(2) before
 *                      (pf_open.goes_by_size)
 *
 * FUSE does not say whether a GETATTR is of stat(2) or of fstat(2), nor what a process has done before.
 * But the kernel looks a name up each time that it is used: to open a file takes one lookup, stat(2)
 * takes one, and fstat(2) none.  So a node remembers which threads (askers) have looked it up, once or
 * more often, since they last opened it.  There are few; a thread that is forgotten gets what is right
 * for most programs.
 */
#include "internal.h"

/* The entry of PID among the threads that have looked NODE up; the tree's lock is held. */
static struct pf_asker *find_asker(struct pf_node *node, pid_t pid)
{
	for (unsigned i = 0; i < PF_N_ASKERS; i++)
		if (node->priv->askers[i].pid == pid)
			return &node->priv->askers[i];
	return NULL;
}

void pf_node_note_asker(struct pf_node *node, pid_t pid)
{
	struct pf_node_priv *priv = node->priv;
	struct pf_asker *asker;

	PF_LOCK_SCOPE(&node->tree->lock);
	asker = find_asker(node, pid);
	if (asker)
		asker->again = true;
	else
		priv->askers[priv->next_asker++ % PF_N_ASKERS] =
			(struct pf_asker){ .pid = pid };
}

/* Does PID call stat(2), which looks the name up first, and not fstat(2)?  Or does no open of NODE
 * have a size that is not known? */
static bool shows_size(struct pf_node *node, pid_t pid)
{
	struct pf_open *of;

	PF_LOCK_SCOPE(&node->tree->lock);
	if (find_asker(node, pid))
		return true;
	for (of = LIST_FIRST(&node->priv->opens); of; of = LIST_NEXT(of, sibling))
		if (of->unsized)
			return false;
	return true;
}

bool pf_node_goes_by_size(struct pf_node *node, pid_t pid)
{
	struct pf_asker *asker;
	bool ret;

	PF_LOCK_SCOPE(&node->tree->lock);
	asker = find_asker(node, pid);
	/* To open the file takes one lookup: it was looked up before that, too. */
	ret = !pid || (asker && asker->again);
	if (asker)
		*asker = (struct pf_asker){ .pid = -1 };
	return ret;
}

void pf_node_bound_size(struct pf_node *node, pid_t pid, struct stat *st)
{
	uint64_t bound = node->kind->size_bound(node);

	node->priv->bounded = bound != 0;
	if (bound)
		st->st_size = shows_size(node, pid) ? (off_t)bound : 0;
}
