/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invalidate what the kernel caches of a node that changed.
 *
 * A directory whose names changed is invalidated at once, before any process can see the
 * change elsewhere: the kernel only marks the attributes and waits for nothing.  Polled
 * files that become ready are notified at once, too.  To drop pages the kernel waits for
 * requests that read or write them, which this daemon has to answer; so a thread that
 * answers none does it.
 *
 * The kernel keeps what it looked up until it needs the memory, perhaps for ever, and a node
 * lives as long.  It drops a name that a process removes, but it does not know that another
 * view of a buffer, or the directory of an executable or a job, went away at the same time.
 * So these names are collected, and the kernel drops them, so many at a time that no request
 * waits for it.  While the thread is behind there are more of them: each takes less memory
 * than its node, which would stay.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"

/* A value in the map of changed nodes: the number, and whether the bytes changed too. */
static void *encode(uint64_t ino, bool data)
{
	return (void *)(uintptr_t)(ino << 1 | data);
}

static void invalidate(struct pf_mount *mount, uint64_t ino, bool data)
{
	/* Fails if the kernel has forgotten the inode meanwhile: then it caches nothing. */
	fuse_lowlevel_notify_inval_inode(mount->session, ino, data ? 0 : -1, 0);
}

void pf_gone_free(struct pf_buf *names)
{
	struct pf_gone *gone = (struct pf_gone *)(void *)names->data;

	for (size_t n = names->len / sizeof(*gone); n--;)
		free(gone[n].name);
	pf_buf_release(names);
}

/* Without memory the kernel keeps the name. */
static void collect(struct pf_mount *mount, uint64_t dir, const char *name)
{
	struct pf_gone gone = { .dir = dir };

	PF_LOCK_SCOPE(&mount->lock);
	gone.name = strdup(name);
	if (!gone.name)
		return;
	pf_buf_append(&mount->gone, &gone, sizeof(gone));
	if (mount->gone.failed) {
		mount->gone.failed = false;
		free(gone.name);
	}
	if (mount->gone.len >= mount->many_gone * sizeof(gone))
		pthread_cond_signal(&mount->wake);
}

/* Have the kernel drop the names, except those that there are again: a process may work in a
 * directory of that name. */
static void drop_gone(struct pf_mount *mount, const struct pf_buf *names)
{
	const struct pf_gone *gone = (const void *)names->data;

	for (size_t n = names->len / sizeof(*gone); n--; gone++) {
		PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL, *node = NULL;

		dir = pf_tree_by_ino(mount->tree, gone->dir);
		node = dir ? pf_dir_lookup(dir, gone->name) : NULL;
		if (dir && !node)
			fuse_lowlevel_notify_inval_entry(mount->session, gone->dir,
							 gone->name, strlen(gone->name));
	}
}

/* MOUNT->changed has its first or another node. */
static void begin_round_locked(struct pf_mount *mount)
{
	if (!mount->round_begun)
		mount->round = pf_turn_begin();
	mount->round_begun = true;
	pthread_cond_signal(&mount->wake);
}

static void on_change(void *arg, uint64_t ino, enum pf_change change, const char *name)
{
	struct pf_mount *mount = arg;
	bool data = change == PF_CHANGED_DATA;

	if (change == PF_CHANGED_GONE) {
		collect(mount, ino, name);
		return;
	}

	if (change == PF_CHANGED_READY) {
		pf_polled_wake(mount, ino);
		return;
	}
	if (change == PF_CHANGED_NAMES) {
		invalidate(mount, ino, false);
		return;
	}
	PF_LOCK_SCOPE(&mount->lock);
	if (!data && pf_map_get(&mount->changed, ino))
		return;
	/* Without memory for it the kernel learns of the change when the file is next opened. */
	if (pf_map_put(&mount->changed, ino, encode(ino, data)) == 0)
		begin_round_locked(mount);
}

static void *run(void *arg)
{
	struct pf_mount *mount = arg;

	pf_lock(&mount->lock);
	while (!mount->notifier_stops) {
		struct pf_map changed = mount->changed;
		bool round_begun = mount->round_begun;
		unsigned round = mount->round;
		struct pf_buf gone = PF_BUF_INIT;
		size_t pos = 0;
		void *value;

		if (mount->gone.len >= mount->many_gone * sizeof(struct pf_gone)) {
			gone = mount->gone;
			mount->gone = (struct pf_buf)PF_BUF_INIT;
		} else if (!changed.used) {
			pthread_cond_wait(&mount->wake, &mount->lock);
			continue;
		}
		mount->changed = (struct pf_map){ 0 };
		mount->round_begun = false;
		pf_unlock(&mount->lock);
		while ((value = pf_map_next(&changed, &pos)))
			invalidate(mount, (uintptr_t)value >> 1, (uintptr_t)value & 1);
		pf_map_release(&changed);
		drop_gone(mount, &gone);
		pf_gone_free(&gone);
		if (round_begun)
			pf_turn_end(round);
		pf_lock(&mount->lock);
	}
	pf_unlock(&mount->lock);
	return NULL;
}

int pf_notifier_start(struct pf_mount *mount)
{
	int r = pthread_create(&mount->notifier, NULL, run, mount);

	if (r)
		return -r;
	mount->notifies = true;
	pf_tree_set_notify(mount->tree, on_change, mount);
	return 0;
}

/* The thread may wait for a page that a parked request reads, so this answers parked
 * requests until the thread has ended. */
void pf_notifier_stop(struct pf_mount *mount)
{
	struct timespec until;

	pf_tree_set_notify(mount->tree, NULL, NULL);
	if (!mount->notifies)
		return;
	pf_lock(&mount->lock);
	mount->notifier_stops = true;
	pthread_cond_signal(&mount->wake);
	pf_unlock(&mount->lock);
	do {
		pf_fuse_requests_disconnect(mount);
		until = pf_time_in(CLOCK_REALTIME, 10);
	} while (pthread_timedjoin_np(mount->notifier, NULL, &until));
	if (mount->round_begun)
		pf_turn_end(mount->round);
	mount->round_begun = false;
	mount->notifies = false;
}
