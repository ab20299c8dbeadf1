/* SPDX-License-Identifier: Apache-2.0 */
/* buffers/ of two devices, without a plugin.  Static: each test has its own. */
#ifndef PJRTFS_TESTS_UNIT_FILES_FIXTURE_H
#define PJRTFS_TESTS_UNIT_FILES_FIXTURE_H

#include "files/buffers/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "files/jobs/jobs.h"
#include "pjrtfs/shm.h"
#include "unit.h"

static const struct pf_kind kind_top = { .mode = S_IFDIR | 0755 };
static const struct pf_cred owner = { .uid = 1000, .gid = 1000 };
static const struct pf_cred other __attribute__((unused)) = { .uid = 1001, .gid = 1001 };

static struct pf_fs *fs;
static struct device *devices; /* of fs */

/* Make NAME in DIR, which is closed then.  0, or -errno and a sentence in ERR. */
static inline int make(struct pf_node *dir, const char *name, bool directory,
		       struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	const struct pf_dir_ops *ops = dir->kind->dir;
	int r;

	pf_tree_lock_names(fs->tree);
	r = (directory ? ops->mkdir : ops->create)(dir, name, directory ? 0755 : 0644,
						   &owner, &node, err);
	pf_tree_unlock_names(fs->tree);
	return r;
}

static inline void make_below(struct pf_node *dir, const char *name,
			      const char *const *files)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *sub = NULL;

	ck_assert_int_eq(make(dir, name, true, NULL), 0);
	sub = pf_dir_lookup(dir, name);
	for (; *files; files++)
		ck_assert_int_eq(make(sub, *files, false, NULL), 0);
}

/* buffers/ of two devices, with some files. */
static inline void set_up(void)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *second = NULL;

	fs = calloc(1, sizeof(*fs));
	devices = calloc(2, sizeof(*devices));
	ck_assert_int_eq(pf_arena_new(1 << 30, &fs->config.arena, NULL), 0);
	fs->config.uid = owner.uid;
	fs->config.telemetry = pf_telemetry_new(owner.uid, 0, 0);
	fs->timers = pf_timers_new();
	fs->tree = pf_tree_new(&kind_top, fs, owner.uid, owner.gid);
	ck_assert_int_eq(pf_quotas_new(owner.uid, NULL, 0, NULL, &fs->quotas, NULL), 0);
	fs->devices = fs->home.devices = devices;
	fs->n_devices = 2;
	for (unsigned i = 0; i < 2; i++) {
		struct device *d = &devices[i];

		d->fs = fs;
		d->home = &fs->home;
		d->number = i;
		snprintf(d->name, sizeof(d->name), "cpu:%u", i);
		d->location = (struct pf_location){ .arena = fs->config.arena,
						    .device = i,
						    .device_name = d->name };
	}
	ck_assert_int_eq(files_add_jobs(fs), 0);
	ck_assert_int_eq(files_add_buffers(pf_tree_root(fs->tree), &devices[0]), 0);
	ck_assert_int_eq(files_link(pf_tree_root(fs->tree), "1", &kind_top, NULL,
				    &second),
			 0);
	ck_assert_int_eq(files_add_buffers(second, &devices[1]), 0);
	ck_assert_int_eq(make(devices[0].buffers, "x.npy", false, NULL), 0);
	ck_assert_int_eq(make(devices[0].buffers, "scratch", false, NULL), 0);
	ck_assert_int_eq(make(devices[1].buffers, "z.raw", false, NULL), 0);
	make_below(devices[0].buffers, "ns",
		   (const char *const[]){ "y.txt", "b.npy", "tmp", NULL });
	make_below(devices[0].buffers, "rows",
		   (const char *const[]){ "10.npy", "9.npy", "01.npy", NULL });
}

static inline void tear_down(void)
{
	struct pf_telemetry *telemetry = fs->config.telemetry;
	struct pf_arena *arena = fs->config.arena;

	pf_fs_free(fs);
	pf_arena_free(arena);
	pf_telemetry_free(telemetry);
}

#endif
