/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers' entries: the nodes by which one buffer is seen, and how long it lives. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"

void entry_unref(struct entry *entry)
{
	if (!entry || atomic_fetch_sub(&entry->refs, 1) != 1)
		return;
	pf_buffer_unref(entry->buffer);
	free(entry);
}

static struct pf_node *facet_new(struct pf_tree *tree, struct entry *entry,
				 enum pf_format format, mode_t mode,
				 const struct pf_cred *cred)
{
	struct facet *facet = calloc(1, sizeof(*facet));
	struct pf_node *node = NULL;

	if (facet) {
		atomic_fetch_add(&entry->refs, 1);
		facet->entry = entry;
		atomic_init(&facet->format, format);
		node = pf_node_new(tree, &kind_buffer, facet, mode, cred);
	}
	if (!node && facet) {
		entry_unref(entry);
		free(facet);
	}
	return node;
}

struct pf_node *entry_new(struct pf_tree *tree, struct pf_buffer *buffer,
			  enum pf_format format, mode_t mode, const struct pf_cred *cred)
{
	static _Atomic uint64_t ids;
	struct entry *entry = calloc(1, sizeof(*entry));
	struct pf_node *node;

	if (!entry)
		return NULL;
	entry->id = atomic_fetch_add(&ids, 1) + 1;
	atomic_init(&entry->refs, 1);
	entry->buffer = pf_buffer_ref(buffer);
	node = facet_new(tree, entry, format, mode, cred);
	entry->listed = node;
	buffer->subject = node ? node->ino : 0;
	entry_unref(entry);
	return node;
}

struct pf_node *entry_view(struct entry *entry, enum pf_format format)
{
	struct pf_node *listed = entry->listed;
	struct pf_attr attr;

	if (!entry->views[format]) {
		pf_node_attr(listed, &attr);
		entry->views[format] =
			facet_new(listed->tree, entry, format, attr.mode & 07777, NULL);
		if (!entry->views[format])
			return NULL;
	}
	/* A view belongs to whom the buffer belongs, whatever was changed meanwhile. */
	pf_node_attr(listed, &attr);
	if (format == PF_FORMAT_JSON)
		attr.mode &= ~(mode_t)0222;
	pf_node_set_attr(entry->views[format], &attr);
	return pf_node_ref(entry->views[format]);
}

/* Either this sees the file open, or who opens it sees that it is dead. */
void entry_bury(struct entry *entry)
{
	atomic_store(&entry->dead, true);
	if (!atomic_load(&entry->opens))
		pf_buffer_discard(entry->buffer);
}

static void bury_or_keep(struct pf_fs *fs, struct entry *entry)
{
	uint64_t used, limit;

	pf_arena_usage(fs->arena, &used, &limit);
	if (!graves_keep(&fs->graves, entry, limit))
		entry_bury(entry);
}

void entry_unlinked(struct entry *entry)
{
	struct pf_fs *fs = fs_of(entry->listed);

	atomic_fetch_add(&entry->refs, 1); /* the last view may hold the last reference */
	entry->listed = NULL;
	for (unsigned f = 0; f < PF_FORMAT_COUNT; f++)
		pf_node_unref(pf_steal(&entry->views[f]));
	atomic_store(&entry->gone, true);
	if (!atomic_load(&entry->opens))
		bury_or_keep(fs, entry);
	entry_unref(entry);
}

void entry_changed(struct pf_node *node)
{
	struct entry *entry = facet_of(node)->entry;

	pf_tree_lock_names(node->tree);
	if (entry->listed && entry->listed != node)
		pf_node_changed(entry->listed, true);
	for (unsigned f = 0; f < PF_FORMAT_COUNT; f++)
		if (entry->views[f] && entry->views[f] != node)
			pf_node_changed(entry->views[f], true);
	pf_tree_unlock_names(node->tree);
}

int entry_list(struct pf_node *node)
{
	struct entry *entry = facet_of(node)->entry;
	enum pf_format format = facet_of(node)->format;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	struct pf_node *old = entry->listed;
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
	entry->views[facet_of(old)->format] = pf_node_ref(old);
	pf_dir_hide(old);
	r = pf_dir_link(dir, name, node, false);
	if (r == 0) {
		pf_node_unref(pf_steal(&entry->views[format]));
		entry->listed = node;
		entry->buffer->subject = node->ino;
	}
	return r;
}

void buffer_node_free(struct pf_node *node)
{
	struct facet *facet = node->object;

	entry_unref(facet->entry);
	free(facet);
}

void entry_leave(struct pf_node *node)
{
	struct entry *entry = facet_of(node)->entry;

	if (atomic_fetch_sub(&entry->opens, 1) == 1 && atomic_load(&entry->gone))
		bury_or_keep(fs_of(node), entry);
}
