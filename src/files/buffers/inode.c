/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/state.h"

/* --- events ------------------------------------------------------------------------- */

/* Add BUFFER's device, type and size to E. */
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
	pf_event_send(&e);
}

void files_report_transfer(struct pf_buffer *buffer, const char *event,
			   const struct pf_err *err, double seconds)
{
	struct pf_telemetry *telemetry =
		pf_worker_telemetry(pf_buffer_location(buffer)->worker);
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct pf_event e;
	uid_t user;

	if (!pf_telemetry_name(telemetry, atomic_load(&buffer->subject), &path, &user))
		return;
	pf_event_begin(&e, telemetry, event, user, "%s", path.data);
	describe(&e, buffer);
	pf_event_seconds(&e, "seconds", seconds);
	pf_event_error(&e, err);
	pf_event_send(&e);
}

/* --- when a buffer's data is freed -------------------------------------------------- */

static void inode_free(struct buffer_inode *inode)
{
	pf_buffer_unref(inode->buffer);
	free(inode);
}

PF_DEFINE_REF(struct buffer_inode, inode, inode_free)

/* Either this function sees the open file, or buffer_open sees that the inode is dead. */
static void inode_free_data(struct pf_fs *fs, struct buffer_inode *inode)
{
	atomic_store(&inode->dead, true);
	if (atomic_load(&inode->opens))
		return;
	pf_tree_write(fs->tree);
	pf_buffer_discard(inode->buffer);
}

/*
 * Buffers that lost their names while a process was about to open them.
 *
 * open(2) looks up a name first, and opens the inode that it found a moment later.  If the name
 * was given to another buffer meanwhile, and the memory of the first one is free, the answer is
 * ESTALE, on which the kernel looks the name up again: but only once.  So after such an answer
 * buffers that lose their names are freed a little later, for two seconds: the buffer that the
 * second lookup finds is still there.  They take a small part of the memory limit at most, and
 * nothing is deferred while no process races.
 */

enum {
	RACE_MS = 2000, /* after one late open more are likely */
	KEEP_MS = 200,  /* between a lookup and its open */
	PART = 8,       /* of the memory limit: an eighth */
};

void deferred_free_alarm(struct pf_fs *fs)
{
	atomic_store(&fs->deferred_frees.race_until, pf_now_ms() + RACE_MS);
}

/* Free the first inodes: those whose time has come by NOW, and until the rest takes ROOM bytes. */
static void free_first_locked(struct pf_fs *fs, int64_t now, uint64_t room)
{
	struct deferred_frees *d = &fs->deferred_frees;

	while (d->first && (d->first->free_at <= now || d->bytes > room)) {
		struct buffer_inode *inode = d->first;

		d->first = inode->next_deferred;
		d->bytes -= inode->deferred_bytes;
		inode_free_data(fs, inode);
		pf_turn_end(inode->deferred);
		inode_unref(inode);
	}
}

static void on_timer(struct pf_timer *timer);

/* False: the timer thread could not be created, which only the first timer tries. */
static bool arm(struct pf_fs *fs, uint64_t ms)
{
	fs->deferred_frees.timer.fire = on_timer;
	return pf_timer_arm(fs->timers, &fs->deferred_frees.timer, ms) == 0;
}

static void on_timer(struct pf_timer *timer)
{
	struct pf_fs *fs = pf_container_of(timer, struct pf_fs, deferred_frees.timer);
	struct deferred_frees *d = &fs->deferred_frees;
	int64_t now = pf_now_ms();

	pf_tree_lock_names(fs->tree);
	free_first_locked(fs, now, UINT64_MAX);
	if (d->first)
		(void)arm(fs, (uint64_t)(d->first->free_at - now));
	pf_tree_unlock_names(fs->tree);
}

/* INODE has lost its name, and no process has it open: free its data, or defer that, once. */
static void free_or_defer_locked(struct pf_fs *fs, struct buffer_inode *inode)
{
	struct deferred_frees *d = &fs->deferred_frees;
	uint64_t bytes = pf_buffer_bytes(inode->buffer), used, limit;
	int64_t now = pf_now_ms();

	if (inode->free_at && !atomic_load(&inode->dead))
		return; /* it is among them */
	pf_arena_usage(fs->config.arena, &used, &limit);
	if (inode->free_at || bytes > limit / PART || atomic_load(&d->race_until) < now ||
	    (!d->first && !arm(fs, KEEP_MS))) {
		inode_free_data(fs, inode);
		return;
	}
	free_first_locked(fs, now, limit / PART - bytes);
	inode_ref(inode);
	inode->next_deferred = NULL;
	inode->deferred = pf_turn_begin();
	inode->deferred_bytes = bytes;
	inode->free_at = now + KEEP_MS;
	*(d->first ? &d->last->next_deferred : &d->first) = inode;
	d->last = inode;
	d->bytes += bytes;
}

void files_end_deferred_frees(struct pf_fs *fs)
{
	if (!fs->tree)
		return;
	atomic_store(&fs->deferred_frees.race_until, 0);
	pf_tree_lock_names(fs->tree);
	free_first_locked(fs, INT64_MAX, 0);
	pf_tree_unlock_names(fs->tree);
}

/* --- the nodes of one buffer --------------------------------------------------------- */

void view_save(const struct pf_node *node)
{
	const struct buffer_view *view = node->object;
	const struct buffer_inode *inode = view->inode;
	const struct view_record r = { .inode = inode->id,
				       .buffer = inode->buffer->id,
				       .part_of = inode->part_of,
				       .format = view->format,
				       .numbered = inode->numbered };

	pf_state_put(PF_STATE_OBJECT, node->ino, &r, sizeof(r), NULL, 0);
}

struct pf_node *view_new(struct pf_tree *tree, const struct pf_kind *kind,
			 struct buffer_inode *inode, enum pf_format format, mode_t mode,
			 const struct pf_cred *cred)
{
	struct buffer_view *view = calloc(1, sizeof(*view));
	struct pf_node *node = NULL;

	if (view) {
		view->inode = inode_ref(inode);
		atomic_init(&view->format, format);
		node = pf_node_new(tree, kind, view, mode, cred);
	}
	if (!node && view) {
		inode_unref(inode);
		free(view);
	}
	if (node) {
		inode->id = inode->id ? inode->id : node->ino;
		view_save(node);
	}
	return node;
}

struct pf_node *buffer_dir_new(struct pf_tree *tree, const struct pf_kind *kind,
			       struct device *device, mode_t perm,
			       const struct pf_cred *cred)
{
	struct buffer_dir *object = calloc(1, sizeof(*object));
	struct pf_node *dir = NULL;

	if (object) {
		object->device = device;
		dir = pf_node_new(tree, kind, object, perm, cred);
	}
	if (!dir)
		free(object);
	return dir;
}

enum { DIRECTORY_HEAP = 1024 }; /* bytes that a directory takes */

int buffer_dir_charge(struct pf_node *dir, uid_t uid, bool forced, struct pf_err *err)
{
	const struct pf_fs *fs = fs_of(dir);

	return pf_file_charge(&dir_of(dir)->charge, fs->config.arena,
			      files_account(fs, uid), PF_RESOURCES, DIRECTORY_HEAP,
			      forced, err);
}

void buffer_charge_owner(struct pf_node *node)
{
	struct pf_account *account;
	struct pf_attr attr;

	pf_node_attr(node, &attr);
	account = files_account(fs_of(node), attr.uid);
	if (buffers_is_directory(node))
		pf_file_charge_move(&dir_of(node)->charge, account);
	else
		pf_buffer_charge_to(buffer_of(node), account);
}

void buffer_dir_save(const struct pf_node *dir)
{
	const struct buffer_dir *object = dir->object;
	const struct dir_record r = { .file = object->file ? object->file->ino : 0 };

	pf_state_put(PF_STATE_OBJECT, dir->ino, &r, sizeof(r), NULL, 0);
}

void buffer_dir_free(struct pf_node *dir)
{
	pf_file_discharge(&dir_of(dir)->charge);
	pf_node_unref(dir_of(dir)->file);
	free(dir->object);
}

struct buffer_inode *inode_of(struct pf_buffer *buffer, uint64_t id)
{
	struct buffer_inode *inode = calloc(1, sizeof(*inode));

	if (!inode)
		return NULL;
	inode->id = id;
	atomic_init(&inode->refs, 1);
	inode->buffer = pf_buffer_ref(buffer);
	return inode;
}

struct pf_node *inode_new(struct pf_tree *tree, const struct pf_kind *kind,
			  struct pf_buffer *buffer, enum pf_format format, mode_t mode,
			  const struct pf_cred *cred)
{
	struct buffer_inode *inode = inode_of(buffer, 0);
	struct pf_node *node;

	if (!inode)
		return NULL;
	node = view_new(tree, kind, inode, format, mode, cred);
	inode->listed = node;
	buffer->subject = node ? node->ino : 0;
	inode_unref(inode);
	return node;
}

int inode_house(struct pf_node *node, struct pf_err *err)
{
	struct pf_buffer *b = buffer_of(node);
	const struct home *home;
	struct pf_attr attr;
	int r;

	pf_node_attr(node, &attr);
	r = files_home(fs_of(node), attr.uid, &home, err);
	if (r < 0)
		return r;
	b->location = &files_device_in(home, files_buffer_device(b))->location;
	return 0;
}

struct pf_node *inode_view(struct buffer_inode *inode, enum pf_format format)
{
	struct pf_node *listed = inode->listed;
	struct pf_attr attr;

	if (!inode->views[format])
		inode->views[format] = view_new(listed->tree, listed->kind, inode, format,
						(mode_t)-1, NULL);
	if (!inode->views[format])
		return NULL;
	/* The owner and mode of the listed node may have changed since the view was made. */
	pf_node_attr(listed, &attr);
	if (format == PF_FORMAT_JSON)
		attr.mode &= ~(mode_t)0222;
	pf_node_set_attr(inode->views[format], &attr);
	return pf_node_ref(inode->views[format]);
}

void inode_views_gone(struct buffer_inode *inode, struct pf_node *dir, const char *name)
{
	char view[PF_NAME_MAX + 1];
	size_t stem;

	buffers_format_of(name, &stem);
	memcpy(view, name, stem);
	for (unsigned f = 0; f < PF_FORMAT_COUNT; f++) {
		const char *ext = pf_format_extension(f);

		if (!inode->views[f] || stem + strlen(ext) > PF_NAME_MAX)
			continue;
		strcpy(view + stem, ext);
		pf_node_gone(inode->views[f], dir, view);
	}
}

void inode_unlinked(struct buffer_inode *inode)
{
	struct pf_fs *fs = fs_of(inode->listed);

	inode_ref(inode); /* the last view may hold the last reference */
	inode->listed = NULL;
	for (unsigned f = 0; f < PF_FORMAT_COUNT; f++) {
		if (inode->views[f])
			pf_dir_unlink(inode->views[f]);
		pf_node_unref(pf_steal(&inode->views[f]));
	}
	atomic_store(&inode->gone, true);
	if (!atomic_load(&inode->opens))
		free_or_defer_locked(fs, inode);
	inode_unref(inode);
}

void inode_stem(struct pf_node *node, char name[PF_NAME_MAX + 1])
{
	struct buffer_inode *inode = view_of(node)->inode;
	struct pf_node *named;
	size_t len;

	name[0] = '\0';
	pf_tree_lock_names(node->tree);
	named = inode->directory ? inode->directory : inode->listed;
	if (named)
		pf_node_name(named, name);
	pf_tree_unlock_names(node->tree);
	buffers_format_of(name, &len);
	name[len] = '\0';
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
	buffers_format_of(name, &stem);
	if (stem + strlen(pf_format_extension(format)) > PF_NAME_MAX)
		return -ENAMETOOLONG;
	strcpy(name + stem, pf_format_extension(format));
	/* Only what cannot fail follows: else the file would have no name. */
	r = pf_dir_link(dir, name, node, false);
	if (r < 0)
		return r;
	inode->views[view_of(old)->format] = pf_node_ref(old);
	pf_dir_hide(old);
	pf_node_unref(pf_steal(&inode->views[format]));
	inode->listed = node;
	inode->buffer->subject = node->ino;
	return 0;
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

	if (atomic_fetch_sub(&inode->opens, 1) != 1 || !atomic_load(&inode->gone))
		return;
	pf_tree_lock_names(node->tree);
	free_or_defer_locked(fs_of(node), inode);
	pf_tree_unlock_names(node->tree);
}
