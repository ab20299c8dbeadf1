/* SPDX-License-Identifier: Apache-2.0 */
/* Build the file system, and free it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/buffers/buffers.h"
#include "files/jobs/jobs.h"
#include "files/programs/programs.h"
#include "internal.h"
#include "pjrtfs/files.h"
#include "pjrtfs/value.h"
#include "pjrtfs/wait.h"

/* Append those devices of WORKER that are ADDRESSABLE, or are not, to the N at AT. */
static void add_devices(struct pf_fs *fs, struct pf_worker *worker, bool addressable,
			struct device *at, unsigned *n)
{
	const struct pf_description *d = pf_worker_description(worker);

	for (unsigned i = 0; i < d->n_devices; i++) {
		struct device *dev = &at[*n];

		if (d->devices[i].addressable != addressable)
			continue;
		dev->fs = fs;
		dev->home = &fs->home;
		dev->number = *n;
		dev->worker = worker;
		dev->index = i;
		snprintf(dev->name, sizeof(dev->name), "%s:%lld", pf_worker_name(worker),
			 (long long)d->devices[i].id);
		dev->location =
			(struct pf_location){ fs->config.arena, worker, i, dev->name };
		++*n;
	}
}

/* No plugin has a device, as all only compile: programs are for the first one, and buffers/ is of a place
 * that has no device. */
static int no_devices(struct pf_fs *fs, struct pf_err *err)
{
	struct device *place = &fs->devices[0];
	struct pf_worker *worker = fs->workers[0];

	for (unsigned w = 0; w < fs->n_workers; w++)
		if (pf_worker_has_client(fs->workers[w], NULL) == 0)
			return pf_err_set(err, -ENODEV,
					  "no plugin has a device that it can address");
	place->fs = fs;
	place->home = &fs->home;
	place->worker = worker;
	place->location =
		(struct pf_location){ fs->config.arena, worker, 0, place->name };
	return 0;
}

/* Those of each worker that it can address, then those of other processes of a group. */
static int find_devices(struct pf_fs *fs, struct pf_err *err)
{
	unsigned n = 0;

	for (unsigned w = 0; w < fs->n_workers; w++)
		n += pf_worker_description(fs->workers[w])->n_devices;
	fs->devices = calloc(n ? n : 1, sizeof(*fs->devices));
	if (!fs->devices)
		return pf_err_set(err, -ENOMEM, "no memory for %u devices", n);
	for (unsigned w = 0; w < fs->n_workers; w++)
		add_devices(fs, fs->workers[w], true, fs->devices, &fs->n_devices);
	fs->remote = &fs->devices[fs->n_devices];
	for (unsigned w = 0; w < fs->n_workers; w++)
		add_devices(fs, fs->workers[w], false, fs->remote, &fs->n_remote);
	if (!fs->n_devices)
		return no_devices(fs, err);
	/* Programs are for the default device's plugin, unless they name another. */
	for (unsigned w = 0; w < fs->n_workers; w++)
		if (fs->workers[w] == fs->devices[0].worker) {
			fs->workers[w] = fs->workers[0];
			fs->workers[0] = fs->devices[0].worker;
		}
	return 0;
}

/* Users with the rights make files in DIR. */
static void share(struct pf_node *dir, const struct pf_fs_config *config)
{
	struct pf_attr attr;

	pf_node_attr(dir, &attr);
	attr.mode = S_IFDIR | config->shared_mode;
	attr.gid = config->shared_gid;
	pf_node_set_attr(dir, &attr);
}

static int link_all(struct pf_fs *fs)
{
	struct pf_node *root = pf_tree_root(fs->tree);
	int r = files_add_events(fs);

	if (r == 0)
		r = files_add_plugins(fs);
	if (r == 0)
		r = files_add_ffi(fs);
	if (r == 0)
		r = files_link(root, "programs", &kind_programs, NULL, &fs->programs);
	if (r == 0)
		r = files_link(root, "executables", &kind_executables, NULL,
			       &fs->executables);
	if (r == 0)
		r = files_link(root, "topologies", &kind_topologies, NULL,
			       &fs->topologies);
	if (r == 0)
		r = files_add_buffers(root, &fs->devices[0]);
	if (r == 0)
		r = files_add_devices(fs);
	if (r == 0 && fs->config.cache)
		r = files_link(root, "cache", &kind_cache, NULL, NULL);
	if (r == 0)
		r = files_add_users(fs);
	return r == 0 ? files_add_jobs(fs) : r;
}

static int build(struct pf_fs *fs, struct pf_err *err)
{
	int r = find_devices(fs, err);

	if (r == 0)
		r = pf_quotas_new(fs->config.uid, fs->workers, fs->n_workers,
				  fs->config.quotas, &fs->quotas, err);
	if (r < 0)
		return r;
	pf_reclaim_attach(fs->config.arena, fs->quotas);
	fs->home = (struct home){ .user = fs->config.uid,
				  .arena = fs->config.arena,
				  .workers = fs->workers,
				  .devices = fs->devices };
	fs->tree = pf_tree_new(&kind_root, fs, fs->config.uid, fs->config.gid);
	if (!fs->tree)
		return pf_err_set(err, -ENOMEM, "no memory for the tree");
	r = link_all(fs);
	if (r < 0)
		return pf_err_set(err, r, "no memory for the tree");
	share(fs->programs, &fs->config);
	share(fs->executables, &fs->config);
	share(fs->topologies, &fs->config);
	for (unsigned i = 0; i < files_n_places(fs); i++)
		share(fs->devices[i].buffers, &fs->config);
	return 0;
}

/* The mount's owner sees the event, whichever user's program needed the space. */
static void cache_gone(void *arg, const char *key, uint64_t bytes, bool damaged)
{
	struct pf_telemetry *telemetry = arg; /* outlives the cache */

	pf_report_cache(telemetry,
			damaged ? PF_REPORT_CACHE_DAMAGED : PF_REPORT_CACHE_EVICTED,
			pf_telemetry_owner(telemetry), key, bytes);
}

int pf_fs_new(const struct pf_fs_config *config, struct pf_fs **ret, struct pf_err *err)
{
	struct pf_fs *fs = calloc(1, sizeof(*fs));
	int r = -ENOMEM;

	if (!fs)
		return pf_err_set(err, r, "no memory for the file system");
	if (pthread_mutex_init(&fs->homes_lock, NULL) ||
	    pthread_mutex_init(&fs->settling.lock, NULL) ||
	    pthread_cond_init(&fs->settling.changed, NULL))
		abort();
	STAILQ_INIT(&fs->deferred_frees.inodes);
	fs->config = *config;
	if (config->cache && config->telemetry)
		pf_cache_on_gone(config->cache, cache_gone, config->telemetry);
	fs->n_workers = config->n_workers;
	fs->workers = calloc(config->n_workers + 1, sizeof(struct pf_worker *));
	fs->timers = pf_timers_new();
	if (fs->workers && fs->timers) {
		memcpy(fs->workers, config->workers,
		       config->n_workers * sizeof(struct pf_worker *));
		r = build(fs, err);
	}
	if (r < 0) {
		pf_fs_free(fs);
		return r;
	}
	*ret = fs;
	return 0;
}

int pf_fs_keep(struct pf_fs *fs, struct pf_err *err)
{
	return fs->config.state_dir ? pf_state_dir_open(fs, &fs->state_dir, err) : 0;
}

void pf_fs_finish(struct pf_fs *fs, uint64_t ms)
{
	if (fs)
		pf_state_dir_finish(fs->state_dir, ms);
}

/* Views and mirrored directories hold references on each other, which unlinking drops. */
static void unlink_all(struct pf_node *dir)
{
	struct pf_node **list = dir ? pf_dir_list(dir) : NULL;

	for (struct pf_node **p = list; p && *p; p++) {
		const struct pf_kind *kind = (*p)->kind;
		int (*remove)(struct pf_node * dir, struct pf_node * node,
			      struct pf_err * err) = S_ISDIR(kind->mode)
							     ? dir->kind->dir->rmdir
							     : dir->kind->dir->unlink;

		if (kind->dir)
			unlink_all(*p);
		if (remove)
			remove(dir, *p, NULL);
		pf_node_unref(*p);
	}
	free(list);
}

void pf_fs_free(struct pf_fs *fs)
{
	if (!fs)
		return;
	pf_state_dir_finish(fs->state_dir, 0);
	pf_values_finish();
	files_unlink_homes(fs);
	if (fs->workers)
		files_remove_plugins(fs);
	files_end_deferred_frees(fs);
	pf_timers_free(fs->timers);
	files_free_jobs(fs);
	if (fs->tree)
		pf_tree_lock_names(fs->tree);
	unlink_all(fs->executables);
	unlink_all(fs->programs);
	unlink_all(fs->topologies);
	for (unsigned i = 0; i < files_n_places(fs); i++)
		unlink_all(fs->devices[i].buffers);
	if (fs->tree)
		pf_tree_unlock_names(fs->tree);
	for (unsigned i = 0; i < FILES_REFUSALS; i++)
		pf_node_unref(fs->refusals[i]);
	for (unsigned i = 0; i < files_n_places(fs); i++)
		pf_node_unref(fs->devices[i].buffers);
	pf_node_unref(fs->programs);
	pf_node_unref(fs->executables);
	pf_node_unref(fs->topologies);
	if (fs->tree)
		pf_tree_free(fs->tree);
	files_free_homes(fs);
	pf_quotas_free(fs->quotas);
	pf_state_dir_free(fs->state_dir);
	free(fs->devices);
	free(fs->workers);
	free(fs);
}

struct pf_tree *pf_fs_tree(struct pf_fs *fs)
{
	return fs->tree;
}
