/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "pjrtfs/base.h"

/* What events tell of buffers that became arrays, or were refused. */

/* What it is as an array, and where. */
static void describe(struct pf_event *e, struct pf_buffer *buffer)
{
	enum pf_dtype dtype;
	struct pf_shape shape;
	uint64_t bytes;
	char text[128];

	pf_event_str(e, "device", pf_buffer_location(buffer)->device_name);
	if (!pf_buffer_type(buffer, &dtype, &shape))
		return;
	pf_event_str(e, "type", pf_shape_str(text, sizeof(text), dtype, &shape));
	if (pf_shape_bytes(&shape, dtype, &bytes, NULL) == 0)
		pf_event_int(e, "bytes", (int64_t)bytes);
}

void files_report_result(struct pf_node *node, const char *by, bool replaced)
{
	struct pf_event e;

	files_event_begin(&e, "buffer.ready", node);
	describe(&e, buffer_of(node));
	pf_event_str(&e, "by", by);
	if (replaced)
		pf_event_json(&e, "replaced", "true");
	pf_event_add(pf_telemetry_events(fs_of(node)->telemetry), &e);
}

void files_report_committed(struct pf_buffer *buffer, const struct pf_err *err,
			    double seconds)
{
	struct pf_telemetry *telemetry =
		pf_worker_telemetry(pf_buffer_location(buffer)->worker);
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct pf_event e;
	uid_t user;

	if (!pf_telemetry_name(telemetry, atomic_load(&buffer->subject), &path, &user))
		return;
	pf_event_begin(&e, err ? "buffer.refused" : "buffer.ready", user, path.data);
	describe(&e, buffer);
	pf_event_seconds(&e, "seconds", seconds);
	pf_event_error(&e, err);
	pf_event_add(pf_telemetry_events(telemetry), &e);
}

/*
 * Buffers that lost their names while somebody was about to open them.
 *
 * Who opens a path looks its name up first, and opens what that was a moment later.  If the
 * name was given to another buffer meanwhile, and the first one's memory is free, the answer
 * is ESTALE, on which the kernel looks the name up again: but only once.  So after such an
 * answer buffers that lose their names, for as long as that may go on, are kept a little: the
 * second lookup's will be there.  They take a small part of the memory limit at most, and
 * nothing is kept while nobody races.
 */

enum {
	RACE_MS = 2000, /* after who came too late others may */
	KEEP_MS = 200,  /* between a lookup and its open */
	PART = 8,       /* so much of the memory limit */
};

void deferred_free_alarm(struct deferred_frees *g)
{
	atomic_store(&g->race_until, pf_now_ms() + RACE_MS);
}

static struct buffer_inode *pop_locked(struct deferred_frees *g)
{
	struct buffer_inode *inode = g->first;

	g->first = inode->next_deferred_free;
	if (!g->first)
		g->last = NULL;
	g->bytes -= inode->deferred_free_bytes;
	inode->kept = false;
	return inode;
}

static void close_deferred_free(struct buffer_inode *inode)
{
	inode_free_data(inode);
	inode_unref(inode);
}

/* So many of the oldest as are due go to *DUE; the timer is set for the next one. */
static void take_due_locked(struct deferred_frees *g, struct buffer_inode **due)
{
	int64_t now = pf_now_ms();

	while (g->first && g->first->keep_until <= now) {
		struct buffer_inode *inode = pop_locked(g);

		inode->next_deferred_free = *due;
		*due = inode;
	}
	/* Without a timer the next one that is kept looks after them. */
	if (g->first)
		(void)pf_timer_arm(g->timers, &g->timer,
				   (uint64_t)(g->first->keep_until - now));
}

static void close_all(struct buffer_inode *inode)
{
	while (inode) {
		struct buffer_inode *next = inode->next_deferred_free;

		close_deferred_free(inode);
		inode = next;
	}
}

static void on_timer(struct pf_timer *timer)
{
	struct deferred_frees *g = pf_container_of(timer, struct deferred_frees, timer);
	struct buffer_inode *due = NULL;

	pf_lock(&g->lock);
	take_due_locked(g, &due);
	pf_unlock(&g->lock);
	close_all(due);
}

void deferred_free_init(struct deferred_frees *g, struct pf_timers *timers)
{
	if (pthread_mutex_init(&g->lock, NULL))
		abort();
	g->timers = timers;
	g->timer.fire = on_timer;
}

/* Shall INODE, of BYTES, be kept?  There must be a timer that ends that. */
static bool is_wanted_locked(struct deferred_frees *g, const struct buffer_inode *inode,
			     uint64_t bytes, uint64_t most)
{
	if (inode->was_kept || g->stopped || bytes > most ||
	    atomic_load(&g->race_until) < pf_now_ms())
		return false;
	return g->first || pf_timer_arm(g->timers, &g->timer, KEEP_MS) == 0;
}

static void push_locked(struct deferred_frees *g, struct buffer_inode *inode,
			uint64_t bytes)
{
	atomic_fetch_add(&inode->refs, 1);
	inode->kept = inode->was_kept = true;
	inode->next_deferred_free = NULL;
	inode->deferred_free_bytes = bytes;
	inode->keep_until = pf_now_ms() + KEEP_MS;
	if (g->last)
		g->last->next_deferred_free = inode;
	else
		g->first = inode;
	g->last = inode;
	g->bytes += bytes;
}

/* INODE has lost its name, and nobody has it open: keep it a while if somebody may be about
 * to open it, and it is small beside LIMIT, in bytes.  False: bury it now. */
static bool deferred_free_keep(struct deferred_frees *g, struct buffer_inode *inode,
			       uint64_t limit)
{
	uint64_t bytes = pf_buffer_bytes(inode->buffer), most = limit / PART;
	struct buffer_inode *over = NULL;
	bool kept;

	pf_lock(&g->lock);
	if (!inode->kept && is_wanted_locked(g, inode, bytes, most)) {
		while (g->first && g->bytes + bytes > most) {
			struct buffer_inode *oldest = pop_locked(g);

			oldest->next_deferred_free = over;
			over = oldest;
		}
		push_locked(g, inode, bytes);
	}
	kept = inode->kept;
	pf_unlock(&g->lock);
	close_all(over);
	return kept;
}

void deferred_free_stop(struct deferred_frees *g)
{
	struct buffer_inode *left;

	pf_lock(&g->lock);
	g->stopped = true;
	left = g->first;
	for (struct buffer_inode *e = left; e; e = e->next_deferred_free)
		e->kept = false;
	g->first = g->last = NULL;
	pf_unlock(&g->lock);
	close_all(left);
}

void deferred_free_release(struct deferred_frees *g)
{
	pthread_mutex_destroy(&g->lock);
}

/* Buffers' entries: the nodes by which one buffer is seen, and how long it lives. */

void inode_unref(struct buffer_inode *inode)
{
	if (!inode || atomic_fetch_sub(&inode->refs, 1) != 1)
		return;
	pf_buffer_unref(inode->buffer);
	free(inode);
}

static struct pf_node *view_new(struct pf_tree *tree, struct buffer_inode *inode,
				enum pf_format format, mode_t mode,
				const struct pf_cred *cred)
{
	struct buffer_view *view = calloc(1, sizeof(*view));
	struct pf_node *node = NULL;

	if (view) {
		atomic_fetch_add(&inode->refs, 1);
		view->inode = inode;
		atomic_init(&view->format, format);
		node = pf_node_new(tree, &kind_buffer, view, mode, cred);
	}
	if (!node && view) {
		inode_unref(inode);
		free(view);
	}
	return node;
}

struct pf_node *inode_new(struct pf_tree *tree, struct pf_buffer *buffer,
			  enum pf_format format, mode_t mode, const struct pf_cred *cred)
{
	static _Atomic uint64_t ids;
	struct buffer_inode *inode = calloc(1, sizeof(*inode));
	struct pf_node *node;

	if (!inode)
		return NULL;
	inode->id = atomic_fetch_add(&ids, 1) + 1;
	atomic_init(&inode->refs, 1);
	inode->buffer = pf_buffer_ref(buffer);
	node = view_new(tree, inode, format, mode, cred);
	inode->listed = node;
	buffer->subject = node ? node->ino : 0;
	inode_unref(inode);
	return node;
}

struct pf_node *inode_view(struct buffer_inode *inode, enum pf_format format)
{
	struct pf_node *listed = inode->listed;
	struct pf_attr attr;

	if (!inode->views[format]) {
		pf_node_attr(listed, &attr);
		inode->views[format] =
			view_new(listed->tree, inode, format, attr.mode & 07777, NULL);
		if (!inode->views[format])
			return NULL;
	}
	/* A view belongs to whom the buffer belongs, whatever was changed meanwhile. */
	pf_node_attr(listed, &attr);
	if (format == PF_FORMAT_JSON)
		attr.mode &= ~(mode_t)0222;
	pf_node_set_attr(inode->views[format], &attr);
	return pf_node_ref(inode->views[format]);
}

/* Either this sees the file open, or who opens it sees that it is dead. */
void inode_free_data(struct buffer_inode *inode)
{
	atomic_store(&inode->dead, true);
	if (!atomic_load(&inode->opens))
		pf_buffer_discard(inode->buffer);
}

static void free_or_defer(struct pf_fs *fs, struct buffer_inode *inode)
{
	uint64_t used, limit;

	pf_arena_usage(fs->arena, &used, &limit);
	if (!deferred_free_keep(&fs->deferred_frees, inode, limit))
		inode_free_data(inode);
}

void inode_unlinked(struct buffer_inode *inode)
{
	struct pf_fs *fs = fs_of(inode->listed);

	atomic_fetch_add(&inode->refs, 1); /* the last view may hold the last reference */
	inode->listed = NULL;
	for (unsigned f = 0; f < PF_FORMAT_COUNT; f++)
		pf_node_unref(pf_steal(&inode->views[f]));
	atomic_store(&inode->gone, true);
	if (!atomic_load(&inode->opens))
		free_or_defer(fs, inode);
	inode_unref(inode);
}

void inode_changed(struct pf_node *node)
{
	struct buffer_inode *inode = view_of(node)->inode;

	pf_tree_lock_names(node->tree);
	if (inode->listed && inode->listed != node)
		pf_node_changed(inode->listed, true);
	for (unsigned f = 0; f < PF_FORMAT_COUNT; f++)
		if (inode->views[f] && inode->views[f] != node)
			pf_node_changed(inode->views[f], true);
	pf_tree_unlock_names(node->tree);
}

int inode_list(struct pf_node *node)
{
	struct buffer_inode *inode = view_of(node)->inode;
	enum pf_format format = view_of(node)->format;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	struct pf_node *old = inode->listed;
	char name[PF_NAME_MAX + 1];
	size_t stem;
	int r;

	if (!old || old == node)
		return 0;
	dir = pf_node_parent(old);
	if (!dir)
		return 0;
	pf_node_name(old, name);
	pf_format_of(name, &stem);
	if (stem + strlen(pf_format_extension(format)) > PF_NAME_MAX)
		return -ENAMETOOLONG;
	strcpy(name + stem, pf_format_extension(format));
	inode->views[view_of(old)->format] = pf_node_ref(old);
	pf_dir_hide(old);
	r = pf_dir_link(dir, name, node, false);
	if (r == 0) {
		pf_node_unref(pf_steal(&inode->views[format]));
		inode->listed = node;
		inode->buffer->subject = node->ino;
	}
	return r;
}

void buffer_node_free(struct pf_node *node)
{
	struct buffer_view *view = node->object;

	inode_unref(view->inode);
	free(view);
}

void inode_leave(struct pf_node *node)
{
	struct buffer_inode *inode = view_of(node)->inode;

	if (atomic_fetch_sub(&inode->opens, 1) == 1 && atomic_load(&inode->gone))
		free_or_defer(fs_of(node), inode);
}
