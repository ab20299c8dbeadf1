/* SPDX-License-Identifier: Apache-2.0 */
/* poll(2), and attributes that depend on the user, in the tree. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "pjrtfs/vfs.h"
#include "unit.h"
#include "vfs_driver.h"

static _Atomic bool done;
static bool failing;

static int state_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)node;
	if (failing)
		return pf_err_set(err, -EIO, "poll is not supported");
	pf_buf_puts(out, done ? "done\n" : "running\n");
	return 0;
}

static short state_poll(struct pf_open *of)
{
	(void)of;
	return done ? POLLIN : 0;
}

/* Each sees a file as long as their uid. */
static void own_getattr(struct pf_node *node, const struct pf_cred *cred,
			struct pf_open *of, struct stat *st)
{
	(void)node;
	st->st_size = (off_t)(of ? of->cred.uid * 1000 : cred->uid);
}

static const struct pf_kind state = {
	.name = "state", .mode = S_IFREG | 0444, .show = state_show, .poll = state_poll
};
static const struct pf_kind plain = { .name = "plain",
				      .mode = S_IFREG | 0444,
				      .show = state_show };
static const struct pf_kind own = { .name = "own",
				    .mode = S_IFREG | 0444,
				    .show = state_show,
				    .getattr_as = own_getattr };
static const struct pf_kind root = {
	.mode = S_IFDIR | 0755,
	.children = (const struct pf_kind *const[]){ &state, &plain, &own, NULL },
};

static struct pf_tree *tree;
static struct pf_node *node;
static struct pf_open *of;
static unsigned told;
static const struct pf_cred one = { .uid = 1 }, two = { .uid = 2 };

static void on_change(void *arg, uint64_t ino, enum pf_change change, const char *name)
{
	ck_assert_ptr_null(name);
	ck_assert_ptr_eq(arg, &told);
	ck_assert_uint_eq(ino, node->ino);
	ck_assert_int_eq(change, PF_CHANGED_READY);
	told++;
}

static void open_as(const char *name, const struct pf_cred *cred)
{
	node = pf_dir_lookup(pf_tree_root(tree), name);
	ck_assert_int_eq(open_by(tree, node->ino, O_RDONLY, cred, &of), 0);
}

static void setup(void)
{
	done = failing = false;
	told = 0;
	tree = pf_tree_new(&root, NULL, 0, 0);
	pf_tree_set_notify(tree, on_change, &told);
}

static void teardown(void)
{
	pf_tree_set_notify(tree, NULL, NULL);
	pf_vfs_release(of);
	pf_node_unref(node);
	pf_tree_free(tree);
}

static void reads(uint64_t off, const char *want)
{
	expect_read_by(pf_vfs_read, of, 100, off, want);
}

TEST(a_poller_is_woken_once)
{
	open_as("state", &one);
	pf_node_ready(node);
	ck_assert_uint_eq(told, 0); /* no poll is waiting */
	ck_assert_int_eq(pf_vfs_poll(of), 0);
	done = true;
	pf_node_ready(node);
	pf_node_ready(node);
	ck_assert_uint_eq(told, 1);
	ck_assert_int_eq(pf_vfs_poll(of), POLLIN);
	pf_node_ready(node);
	ck_assert_uint_eq(told, 2);
}

TEST(a_read_at_offset_0_renders_a_polled_text_again)
{
	open_as("state", &one);
	reads(0, "running\n");
	done = true;
	reads(4, "ing\n"); /* the same reading continues */
	reads(0, "done\n");
	reads(2, "ne\n");
	failing = true;
	reads(0, "done\n");
}

TEST(other_files_are_always_ready_and_unchanged)
{
	open_as("plain", &one);
	ck_assert_int_eq(pf_vfs_poll(of), POLLIN | POLLOUT);
	reads(0, "running\n");
	done = true;
	reads(0, "running\n");
	pf_node_ready(node);
	ck_assert_uint_eq(told, 0);
}

TEST(attributes_depend_on_the_user)
{
	struct stat st;

	open_as("own", &two);
	ck_assert_int_eq(pf_vfs_getattr(tree, node->ino, &one, NULL, &st), 0);
	ck_assert_int_eq(st.st_size, 1);
	ck_assert_int_eq(pf_vfs_getattr(tree, node->ino, &two, NULL, &st), 0);
	ck_assert_int_eq(st.st_size, 2);
	ck_assert_int_eq(pf_vfs_getattr(tree, node->ino, &one, of, &st), 0);
	ck_assert_int_eq(st.st_size, 2000);
	ck_assert_int_eq(st.st_mode, S_IFREG | 0444);
	ck_assert_int_eq(pf_vfs_getattr(tree, 12345, &one, NULL, &st), -ESTALE);
	ck_assert_uint_eq(pf_vfs_keeps(tree, node->ino) & PF_ATTR_VARIES, PF_ATTR_VARIES);
	pf_node_unref(node);
	node = pf_dir_lookup(pf_tree_root(tree), "plain");
	ck_assert_uint_eq(pf_vfs_keeps(tree, node->ino) & PF_ATTR_VARIES, 0);
	ck_assert_int_eq(pf_vfs_getattr(tree, node->ino, &one, NULL, &st), 0);
	ck_assert_int_eq(st.st_size, 8);
}

UNIT_FIXTURE(setup, teardown)
