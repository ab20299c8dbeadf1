/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of toys behind a real mount.  Static: each test has its own. */
#ifndef PJRTFS_TESTS_UNIT_MOUNT_FIXTURE_H
#define PJRTFS_TESTS_UNIT_MOUNT_FIXTURE_H

#include <pthread.h>
#include <unistd.h>

#include "pjrtfs/fuse.h"
#include "pjrtfs/kind.h"
#include "unit.h"

static char point[] = "/tmp/pjrtfs-check-XXXXXX"; /* the mount point; main makes it */
static struct pf_tree *tree;
static struct pf_mount *mount;
static pthread_t server;

static void *serve(void *arg)
{
	(void)arg;
	pf_mount_run(mount, NULL);
	return NULL;
}

/* Mount a tree whose root is of KIND, not served yet.  pf_mount_new's result. */
static int mount_begin(const struct pf_kind *kind)
{
	struct pf_mount_config config = { .mountpoint = point, .source = "toys" };

	tree = pf_tree_new(kind, NULL, getuid(), getgid());
	config.tree = tree;
	return pf_mount_new(&config, &mount, NULL);
}

static void mount_end(void)
{
	pf_mount_free(mount);
	pf_tree_free(tree);
}

static void mount_setup(const struct pf_kind *kind)
{
	ck_assert_int_eq(mount_begin(kind), 0);
	ck_assert_int_eq(pthread_create(&server, NULL, serve, NULL), 0);
}

static void mount_teardown(void)
{
	pf_mount_stop(mount);
	pthread_join(server, NULL);
	mount_end();
}

#endif
