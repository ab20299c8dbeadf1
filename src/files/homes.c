/* SPDX-License-Identifier: Apache-2.0 */
/* Homes: where the arrays and programs of each user live. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Each has an arena, and a thread for it and for each plugin, until the daemon ends: objects, nodes and
 * walks hold a home without counting.  The next daemon makes one for each user who has files. */
enum { MAX_HOMES = 256 };

static void home_free(struct pf_fs *fs, struct home *home)
{
	for (unsigned i = 0; home->workers && i < fs->n_workers; i++)
		pf_worker_free(home->workers[i]);
	pf_arena_free(home->arena);
	free(home->workers);
	free(home->devices);
	free(home);
}

/* The devices of HOME, which are those of the mount, with HOME's arena and workers. */
static void take_devices(const struct pf_fs *fs, struct home *home)
{
	for (unsigned i = 0; i < fs->n_devices; i++) {
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
	home->devices = calloc(fs->n_devices, sizeof(*home->devices));
	r = home->workers && home->devices
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

/* A home is made once, so the tree has its files from then on. */
static void link_workers(struct pf_fs *fs, const struct home *home)
{
	for (unsigned i = 0; i < fs->n_workers; i++)
		files_add_own_worker(fs, home->workers[i], home->user);
}

/* 0: USER's home in *RET; 1: it was made. */
static int find_or_make(struct pf_fs *fs, uid_t user, struct home **ret,
			struct pf_err *err)
{
	struct home *home;
	unsigned n = 0;
	int r;

	PF_LOCK_SCOPE(&fs->homes_lock);
	for (home = fs->homes; home && home->user != user; home = home->next)
		n++;
	*ret = home;
	if (home)
		return 0;
	if (n >= MAX_HOMES)
		return pf_err_set(
			err, -EUSERS,
			"%d users have had arrays or programs since the daemon "
			"started, the most that --isolate=user allows: when "
			"one of them has no files any more, `kill -USR2` of the "
			"mount's pid file makes room, and nobody's files go",
			MAX_HOMES);
	r = home_new(fs, user, &home, err);
	if (r < 0)
		return r;
	home->next = fs->homes;
	fs->homes = *ret = home;
	return 1;
}

int files_home(struct pf_fs *fs, uid_t user, const struct home **ret, struct pf_err *err)
{
	struct home *home = &fs->home;
	int r = 0;

	if (fs->config.isolate && user != fs->config.uid)
		r = find_or_make(fs, user, &home, err);
	if (r > 0)
		link_workers(fs, home);
	*ret = home;
	return r < 0 ? r : 0;
}

void pf_fs_stop(struct pf_fs *fs)
{
	if (!fs)
		return;
	for (struct home *home = fs->homes; home; home = home->next)
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
