/* events: what happened, a line each; and the names of what it happened to. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "buffer_entry.h"
#include "lines.h"

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

/* --- what happens to buffers --------------------------------------------------------------- */

void files_tell_begin(struct pf_event *e, const char *event, struct pf_node *node)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct pf_attr attr;

	pf_node_path(node, NULL, &path);
	pf_node_attr(node, &attr);
	pf_event_begin(e, event, attr.uid, path.data ? path.data : "");
}

void files_tell(struct pf_node *node, const char *event)
{
	struct pf_event e;

	files_tell_begin(&e, event, node);
	pf_event_add(events_of(node), &e);
}

void files_tell_moved(struct pf_node *node, const char *event, const char *from)
{
	struct pf_event e;

	files_tell_begin(&e, event, node);
	pf_event_str(&e, "from", from);
	pf_event_add(events_of(node), &e);
}

/* What it is as an array, and where. */
static void describe(struct pf_event *e, struct pf_buffer *buffer)
{
	enum pf_dtype dtype;
	struct pf_shape shape;
	uint64_t bytes;
	char text[128];

	pf_event_str(e, "device", pf_buffer_place(buffer)->device_name);
	if (!pf_buffer_type(buffer, &dtype, &shape))
		return;
	pf_event_str(e, "type", pf_shape_str(text, sizeof(text), dtype, &shape));
	if (pf_shape_bytes(&shape, dtype, &bytes, NULL) == 0)
		pf_event_int(e, "bytes", (int64_t)bytes);
}

void files_tell_result(struct pf_node *node, const char *by, bool replaced)
{
	struct pf_event e;

	files_tell_begin(&e, "buffer.ready", node);
	describe(&e, buffer_of(node));
	pf_event_str(&e, "by", by);
	if (replaced)
		pf_event_json(&e, "replaced", "true");
	pf_event_add(events_of(node), &e);
}

void files_tell_committed(struct pf_buffer *buffer, const struct pf_err *err,
			  double seconds)
{
	struct pf_watch *watch = pf_worker_watch(pf_buffer_place(buffer)->worker);
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct pf_event e;
	uid_t user;

	if (!pf_watch_name(watch, atomic_load(&buffer->subject), &path, &user))
		return;
	pf_event_begin(&e, err ? "buffer.refused" : "buffer.ready", user, path.data);
	describe(&e, buffer);
	pf_event_seconds(&e, "seconds", seconds);
	pf_event_error(&e, err);
	pf_event_add(pf_watch_events(watch), &e);
}

void files_tell_failed(struct pf_fs *fs, const char *file, uid_t uid, const char *id,
		       const struct pf_err *err)
{
	struct pf_event e;

	pf_event_begin(&e, "command.failed", uid, file);
	pf_event_json(&e, "id", id);
	pf_event_error(&e, err);
	pf_event_add(pf_watch_events(fs->watch), &e);
}
