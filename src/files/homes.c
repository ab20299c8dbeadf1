/* SPDX-License-Identifier: Apache-2.0 */
/* Homes: where the arrays and programs of each user live. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Each has an arena, and a thread for it and for each plugin.  The next daemon makes one for each user
 * who has files. */
enum { MAX_HOMES = 256 };

/* --- its files ------------------------------------------------------------------------- */

static void link_workers(struct pf_fs *fs, struct home *home)
{
	for (unsigned i = 0; i < fs->n_workers; i++)
		home->nodes[i] = files_add_own_worker(fs, home->workers[i], home->user);
}

static void unlink_workers(struct pf_fs *fs, struct home *home)
{
	for (unsigned i = 0; home->nodes && i < fs->n_workers; i++)
		files_remove_own_worker(home->workers[i], pf_steal(&home->nodes[i]));
}

void files_unlink_homes(struct pf_fs *fs)
{
	for (struct home *home = fs->homes; home; home = home->next)
		unlink_workers(fs, home);
}

/* --- making and freeing ---------------------------------------------------------------- */

static void home_free(struct pf_fs *fs, struct home *home)
{
	unlink_workers(fs, home);
	for (unsigned i = 0; home->workers && i < fs->n_workers; i++)
		pf_worker_free(home->workers[i]);
	pf_arena_free(home->arena);
	free(home->workers);
	free(home->devices);
	free(home->nodes);
	free(home);
}

/* The devices of HOME, which are those of the mount, with HOME's arena and workers. */
static void take_devices(const struct pf_fs *fs, struct home *home)
{
	for (unsigned i = 0; i < files_n_places(fs); i++) {
		struct device *d = &home->devices[i];

		*d = fs->devices[i];
		d->home = home;
		for (unsigned w = 0; w < fs->n_workers; w++)
			if (fs->workers[w] == fs->devices[i].worker)
				d->worker = home->workers[w];
		d->location.arena = home->arena;
		d->location.worker = d->worker;
	}
}

static int home_new(struct pf_fs *fs, uid_t user, struct home **ret, struct pf_err *err)
{
	struct home *home = calloc(1, sizeof(*home));
	int r;

	if (!home)
		return pf_err_set(err, -ENOMEM, "no memory for a home");
	home->user = user;
	home->workers = calloc(fs->n_workers, sizeof(struct pf_worker *));
	home->devices = calloc(files_n_places(fs), sizeof(*home->devices));
	home->nodes = calloc(fs->n_workers, sizeof(struct pf_node *));
	r = home->workers && home->devices && home->nodes
		    ? pf_arena_new_for(fs->config.arena, user, &home->arena, err)
		    : pf_err_set(err, -ENOMEM, "no memory for a home");
	for (unsigned i = 0; i < fs->n_workers && r == 0; i++)
		r = pf_worker_new_own(fs->workers[i], user, home->arena,
				      &home->workers[i], err);
	if (r < 0) {
		home_free(fs, home);
		return r;
	}
	take_devices(fs, home);
	*ret = home;
	return 0;
}

/* --- a place for another user ---------------------------------------------------------- */

/*
 * Threads find a home under homes_lock, and hold it then; all else that refers to it holds it, too, or
 * belongs to what does.  So one that is not held while that lock is, is known to no other thread.
 */
static bool is_unused_locked(const struct pf_fs *fs, const struct home *home)
{
	if (pf_arena_is_held(home->arena))
		return false;
	for (unsigned i = 0; i < fs->n_workers; i++) {
		enum pf_worker_state state = pf_worker_state(home->workers[i]);

		/* The end of a process may take long. */
		if (state != PF_WORKER_IDLE && state != PF_WORKER_FAILED)
			return false;
	}
	return true;
}

/* Take the oldest home that nothing uses off the list; NULL: there is none.  Its user may get another
 * one before it is freed. */
static struct home *take_unused_locked(struct pf_fs *fs)
{
	struct home **found = NULL, *home;

	for (struct home **at = &fs->homes; *at; at = &(*at)->next)
		if (is_unused_locked(fs, *at))
			found = at;
	if (!found)
		return NULL;
	home = *found;
	*found = home->next;
	pf_arena_keep_no_more(home->arena);
	return home;
}

/* 0: USER's home in *RET, held; 1: it was made, and *UNUSED, unless that is NULL, was taken off the
 * list for it. */
static int find_or_make(struct pf_fs *fs, uid_t user, struct home **ret,
			struct home **unused, struct pf_err *err)
{
	struct home *home;
	unsigned n = 0;
	int r = 0;

	PF_LOCK_SCOPE(&fs->homes_lock);
	for (home = fs->homes; home && home->user != user; home = home->next)
		n++;
	if (!home && n >= MAX_HOMES && !(*unused = take_unused_locked(fs)))
		return pf_err_set(
			err, -EUSERS,
			"%d users have arrays or programs, the most that "
			"--isolate=user allows: there is room when one of them has "
			"none any more, and no process (--isolate-idle)",
			MAX_HOMES);
	if (!home) {
		r = home_new(fs, user, &home, err);
		if (r < 0)
			return r;
		home->next = fs->homes;
		fs->homes = home;
		r = 1;
	}
	pf_arena_hold(home->arena);
	*ret = home;
	return r;
}

int files_home(struct pf_fs *fs, uid_t user, const struct home **ret, struct pf_err *err)
{
	struct home *home = &fs->home, *unused = NULL;
	int r = 0;

	if (fs->config.isolate && user != fs->config.uid)
		r = find_or_make(fs, user, &home, &unused, err);
	if (unused)
		home_free(fs, unused);
	if (r < 0)
		return r;
	if (r > 0)
		link_workers(fs, home);
	*ret = home;
	return 0;
}

const struct home *files_next_home(struct pf_fs *fs, const struct home *home)
{
	const struct home *next;

	pf_lock(&fs->homes_lock);
	next = home ? home->next : fs->homes;
	if (next)
		pf_arena_hold(next->arena);
	pf_unlock(&fs->homes_lock);
	files_leave_home(home);
	return next;
}

void pf_fs_stop(struct pf_fs *fs)
{
	if (!fs)
		return;
	for (const struct home *home = files_next_home(fs, NULL); home;
	     home = files_next_home(fs, home))
		for (unsigned i = 0; i < fs->n_workers; i++)
			pf_worker_stop(home->workers[i]);
	files_end_settling(fs);
}

void files_free_homes(struct pf_fs *fs)
{
	while (fs->homes) {
		struct home *home = fs->homes;

		fs->homes = home->next;
		home_free(fs, home);
	}
	pthread_cond_destroy(&fs->settling.changed);
	pthread_mutex_destroy(&fs->settling.lock);
	pthread_mutex_destroy(&fs->homes_lock);
}
