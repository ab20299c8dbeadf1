/* SPDX-License-Identifier: Apache-2.0 */
/* Files to which lines are appended: events, plugins/NAME/log. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "internal.h"

/* bytes at most in one read, each of which allocates as many */
enum { AT_ONCE = 256 << 10 };

/* The log whose lines NODE shows; NULL: the events, of the user that opened the file. */
static struct pf_plugin_log *log_of(struct pf_node *node)
{
	return node->object ? pf_worker_plugin_log(node->object) : NULL;
}

static int lines_open(struct pf_open *of, struct pf_err *err)
{
	of->state = calloc(1, sizeof(struct pf_lines_reader));
	return of->state ? 0 : pf_err_set(err, -ENOMEM, "no memory");
}

static void lines_release(struct pf_open *of)
{
	pf_lines_reader_release(of->state);
	free(of->state);
}

static void lines_read(struct pf_open *of, size_t len, uint64_t off,
		       struct pf_reply *reply)
{
	struct pf_telemetry *telemetry = fs_of(of->node)->config.telemetry;
	struct pf_plugin_log *log = log_of(of->node);
	struct pf_lines_reader *reader = of->state;
	size_t max = len < AT_ONCE ? len : AT_ONCE;
	pf_autofree char *text = malloc(max + 1);

	/* It continues with the lines of this life, whatever it had read before. */
	if (of->reopened && !reader->next)
		reader->next = off;
	if (!text)
		pf_reply_code(reply, -ENOMEM);
	else if (log)
		pf_reply_data(reply, text,
			      pf_plugin_log_read(log, reader, off, text, max));
	else
		pf_reply_data(reply, text,
			      pf_events_read(telemetry, of->cred.uid, reader, off, text,
					     max));
}

static short lines_poll(struct pf_open *of)
{
	struct pf_plugin_log *log = log_of(of->node);
	bool ready = log ? pf_plugin_log_ready(log, of->state)
			 : pf_events_ready(fs_of(of->node)->config.telemetry,
					   of->cred.uid, of->state);

	return ready ? POLLIN : 0;
}

static void lines_getattr_as(struct pf_node *node, const struct pf_cred *cred,
			     struct pf_open *of, struct stat *st)
{
	struct pf_plugin_log *log = log_of(node);
	const struct pf_lines_reader *reader = of ? of->state : NULL;
	uid_t uid = of ? of->cred.uid : cred->uid;
	struct timespec last; /* when the last line was written; tv_sec 0: never */

	st->st_size = (off_t)(log ? pf_plugin_log_size(log, reader, &last)
				  : pf_events_size(fs_of(node)->config.telemetry, uid,
						   reader, &last));
	if (last.tv_sec)
		st->st_mtim = st->st_ctim = last;
}

#define LINES                                                                            \
	.open = lines_open, .release = lines_release, .read = lines_read,                \
	.poll = lines_poll, .getattr_as = lines_getattr_as

static const struct pf_kind kind_events = { .mode = S_IFREG | 0444, LINES };
const struct pf_kind kind_log = { .name = "log", .mode = S_IFREG | 0440, LINES };

/* The path and the owner of the node SUBJECT.  The telemetry has a reference on the node of
 * events, which keeps the tree. */
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

void files_ready(void *node)
{
	pf_node_ready(node);
}

static void let_go(void *arg)
{
	pf_node_unref(arg);
}

int files_add_events(struct pf_fs *fs)
{
	struct pf_telemetry_names names = { .name = name_of,
					    .added = files_ready,
					    .free = let_go };
	struct pf_node *node = NULL;
	int r = files_link(pf_tree_root(fs->tree), "events", &kind_events, NULL, &node);

	if (r < 0)
		return r;
	names.arg = node;
	pf_telemetry_attach(fs->config.telemetry, &names);
	return 0;
}
