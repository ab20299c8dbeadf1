/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling the kernel that what it remembers is past.
 *
 * That the names in a directory changed is told on the spot, before anybody can learn of it
 * from elsewhere: the kernel only marks the attributes and waits for nothing.  So is that a
 * polled file is ready.  To drop pages
 * it waits for those that are being read or written, by requests that this daemon has to
 * answer; so a thread that answers none does it.
 */
#include "internal.h"
#include "pjrtfs/base.h"

/* In the queue: the number, and what is to be told. */
static void *encode(uint64_t ino, bool data)
{
	return (void *)(uintptr_t)(ino << 1 | data);
}

static void invalidate(struct pf_mount *mount, uint64_t ino, bool data)
{
	/* A number that the kernel has forgotten meanwhile is no failure. */
	fuse_lowlevel_notify_inval_inode(mount->session, ino, data ? 0 : -1, 0);
}

static void on_change(void *arg, uint64_t ino, enum pf_change change)
{
	struct pf_mount *mount = arg;
	struct pf_notes *notes = &mount->notes;
	bool data = change == PF_CHANGED_DATA;

	if (change == PF_CHANGED_READY) {
		pf_polled_wake(mount, ino);
		return;
	}
	if (change == PF_CHANGED_NAMES) {
		invalidate(mount, ino, false);
		return;
	}
	PF_LOCK_SCOPE(&notes->lock);
	if (!data && pf_map_get(&notes->queue, ino))
		return;
	/* Without memory for it the kernel finds out when the file is next opened. */
	if (pf_map_put(&notes->queue, ino, encode(ino, data)) == 0)
		pthread_cond_signal(&notes->wake);
}

static void tell_all(struct pf_mount *mount, struct pf_map *queue)
{
	size_t pos = 0;
	void *note;

	while ((note = pf_map_next(queue, &pos)))
		invalidate(mount, (uintptr_t)note >> 1, (uintptr_t)note & 1);
	pf_map_release(queue);
}

static void *run(void *arg)
{
	struct pf_mount *mount = arg;
	struct pf_notes *notes = &mount->notes;

	pf_lock(&notes->lock);
	while (!notes->stopping) {
		struct pf_map queue = notes->queue;

		if (!queue.used) {
			pthread_cond_wait(&notes->wake, &notes->lock);
			continue;
		}
		notes->queue = (struct pf_map){ 0 };
		pf_unlock(&notes->lock);
		tell_all(mount, &queue);
		pf_lock(&notes->lock);
	}
	pf_unlock(&notes->lock);
	return NULL;
}

void pf_notes_init(struct pf_mount *mount)
{
	if (pthread_mutex_init(&mount->notes.lock, NULL) ||
	    pthread_cond_init(&mount->notes.wake, NULL))
		abort();
}

int pf_notes_start(struct pf_mount *mount)
{
	int r = pthread_create(&mount->notes.thread, NULL, run, mount);

	if (r)
		return -r;
	mount->notes.started = true;
	pf_tree_set_notify(mount->tree, on_change, mount);
	return 0;
}

/* The page that the thread may wait for is somebody's read, which may wait for long. */
void pf_notes_stop(struct pf_mount *mount)
{
	struct pf_notes *notes = &mount->notes;
	struct timespec until;

	pf_tree_set_notify(mount->tree, NULL, NULL);
	if (!notes->started)
		return;
	pf_lock(&notes->lock);
	notes->stopping = true;
	pthread_cond_signal(&notes->wake);
	pf_unlock(&notes->lock);
	do {
		pf_fuse_requests_disconnect(mount);
		until = pf_time_in(CLOCK_REALTIME, 10);
	} while (pthread_timedjoin_np(notes->thread, NULL, &until));
	notes->started = false;
}

void pf_notes_release(struct pf_mount *mount)
{
	pf_map_release(&mount->notes.queue);
	pthread_cond_destroy(&mount->notes.wake);
	pthread_mutex_destroy(&mount->notes.lock);
}
