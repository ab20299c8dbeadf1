/* SPDX-License-Identifier: Apache-2.0 */
/* events: what happened, a line each; and the names of what it happened to. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "lines.h"
#include "mount.h"

static struct pf_events *events_of(struct pf_node *node)
{
	return pf_watch_events(fs_of(node)->watch);
}

/* What is read is the opener's, whoever reads. */
static size_t events_lines(struct pf_open *of, uint64_t off, char *dst, size_t len)
{
	return pf_events_read(events_of(of->node), of->cred.uid, of->state, off, dst,
			      len);
}

static void events_read(struct pf_open *of, size_t len, uint64_t off,
			struct pf_reply *reply)
{
	lines_read(of, len, off, reply, events_lines);
}

static short events_poll(struct pf_open *of)
{
	return pf_events_ready(events_of(of->node), of->cred.uid, of->state) ? POLLIN : 0;
}

static void events_getattr_as(struct pf_node *node, const struct pf_cred *cred,
			      struct pf_open *of, struct stat *st)
{
	struct timespec time;
	uint64_t size = pf_events_size(events_of(node), of ? of->cred.uid : cred->uid,
				       of ? of->state : NULL, &time);

	lines_stat(st, size, &time);
}

static const struct pf_kind kind_events = {
	.mode = S_IFREG | 0444,
	.open = lines_open,
	.release = lines_release,
	.read = events_read,
	.poll = events_poll,
	.getattr_as = events_getattr_as,
};

/* --- names -------------------------------------------------------------------------------- */

/* The watch has a reference on the node of events, which keeps the tree. */
static bool name_of(void *arg, uint64_t subject, struct pf_buf *path, uid_t *ret_user)
{
	struct pf_tree *tree = ((struct pf_node *)arg)->tree;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = pf_tree_by_ino(tree, subject);
	struct pf_attr attr;

	if (!node)
		return false;
	pf_node_path(node, NULL, path);
	pf_node_attr(node, &attr);
	*ret_user = attr.uid;
	return path->len && !path->failed;
}

static void on_add(void *arg)
{
	pf_node_ready(arg);
}

static void let_go(void *arg)
{
	pf_node_unref(arg);
}

int files_add_events(struct pf_fs *fs)
{
	struct pf_watch_names names = { .name = name_of, .free = let_go };
	struct pf_node *node = NULL;
	int r = files_link(pf_tree_root(fs->tree), "events", &kind_events, NULL, &node);

	if (r < 0)
		return r;
	names.arg = node;
	pf_watch_attach(fs->watch, &names);
	pf_events_on_add(pf_watch_events(fs->watch), on_add, node);
	return 0;
}
