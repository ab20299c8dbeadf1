/* SPDX-License-Identifier: Apache-2.0 */
/* Caching by a front end, and when it is notified; poll(2); attributes that depend on the user. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "pjrtfs/kind.h"
#include "pjrtfs/stream.h"
#include "pjrtfs/tree.h"
#include "vfs_driver.h"

static int names_make(struct pf_node *dir, const char *name, mode_t mode,
		      const struct pf_cred *cred, struct pf_node **ret,
		      struct pf_err *err);

static int names_remove(struct pf_node *dir, struct pf_node *node, struct pf_err *err)
{
	(void)dir;
	(void)err;
	pf_dir_unlink(node);
	return 0;
}

static void run(struct pf_command *command)
{
	pf_command_done(command, NULL, "", 0);
}

static const struct pf_dir_ops ops = { .mkdir = names_make, .rmdir = names_remove };
static const struct pf_kind file = { .name = "file", .mode = S_IFREG | 0644 };
static const struct pf_kind control = {
	.name = "control", .mode = S_IFREG | 0666, PF_CONTROL, .command = run
};
static const struct pf_kind names = {
	.name = "names",
	.mode = S_IFDIR | 0755,
	.dir = &ops,
	.children = (const struct pf_kind *const[]){ &file, NULL },
};
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
	.children = (const struct pf_kind *const[]){ &file, &control, &names, &state,
						     &plain, &own, NULL },
};

static int names_make(struct pf_node *dir, const char *name, mode_t mode,
		      const struct pf_cred *cred, struct pf_node **ret,
		      struct pf_err *err)
{
	(void)err;
	*ret = pf_node_new(dir->tree, &names, NULL, mode, cred);
	return pf_dir_link(dir, name, *ret, false);
}

static struct pf_tree *tree;
static struct pf_node *dir;    /* names/ */
static struct pf_node *opened; /* by open_as */
static struct pf_open *of;
static unsigned told[PF_CHANGED_GONE + 1];
static const struct pf_cred one = { .uid = 1 }, two = { .uid = 2 };
static char gone[16];
static uint64_t told_of;

static void on_change(void *arg, uint64_t ino, enum pf_change change, const char *name)
{
	ck_assert_ptr_eq(arg, told);
	ck_assert_int_eq(change == PF_CHANGED_GONE, name != NULL);
	snprintf(gone, sizeof(gone), "%s", name ? name : "");
	told[change]++;
	told_of = ino;
}

static void setup(void)
{
	done = failing = false;
	opened = NULL;
	of = NULL;
	memset(told, 0, sizeof(told));
	tree = pf_tree_new(&root, NULL, 0, 0);
	dir = pf_dir_lookup(pf_tree_root(tree), "names");
	pf_tree_set_notify(tree, on_change, told);
}

static void teardown(void)
{
	pf_tree_set_notify(tree, NULL, NULL);
	if (of)
		pf_vfs_release(of);
	pf_node_unref(opened);
	pf_node_unref(dir);
	pf_tree_free(tree);
}

/* A node of KIND in DIR, without a reference. */
static struct pf_node *linked(struct pf_node *in, const char *name,
			      const struct pf_kind *kind, bool fixed)
{
	struct pf_node *node = pf_node_new(tree, kind, NULL, (mode_t)-1, NULL);

	ck_assert_int_eq(fixed ? pf_dir_link_fixed(in, name, node)
			       : pf_dir_link(in, name, node, false),
			 0);
	pf_node_unref(node);
	return node;
}

static unsigned keeps(struct pf_node *in, const char *name)
{
	struct pf_node *node = pf_dir_lookup(in, name);
	unsigned mask = pf_vfs_keeps(tree, node->ino);

	pf_node_unref(node);
	return mask;
}

static void look_at(const struct pf_node *node)
{
	struct stat st;

	ck_assert_int_eq(pf_vfs_getattr(tree, node->ino, &god, NULL, &st), 0);
}

static void expect_told(unsigned n)
{
	ck_assert_uint_eq(told[PF_CHANGED_NAMES], n);
	ck_assert_uint_eq(told[PF_CHANGED_ATTR] + told[PF_CHANGED_DATA], 0);
	if (n)
		ck_assert_uint_eq(told_of, dir->ino);
}

TEST(the_fixed_part_is_kept)
{
	struct pf_node *top = pf_tree_root(tree), *more, *loose;

	ck_assert_uint_eq(pf_vfs_keeps(tree, 1), PF_KEEP_NAME | PF_KEEP_ATTR);
	ck_assert_uint_eq(pf_vfs_keeps(tree, 99), 0);
	ck_assert_uint_eq(keeps(top, "file"), PF_KEEP_NAME);
	ck_assert_uint_eq(keeps(top, "control"), PF_ATTR_VARIES | PF_STREAM);
	ck_assert_uint_eq(keeps(top, "names"), PF_KEEP_NAME | PF_KEEP_ATTR);
	ck_assert_uint_eq(keeps(dir, "file"), PF_KEEP_NAME);
	more = linked(dir, "more", &names, true);
	ck_assert_uint_eq(keeps(dir, "more"), PF_KEEP_NAME | PF_KEEP_ATTR);
	ck_assert_uint_eq(keeps(more, "file"), PF_KEEP_NAME);
	loose = linked(more, "loose", &names, false);
	ck_assert_uint_eq(keeps(more, "loose"), 0);
	ck_assert_uint_eq(keeps(loose, "file"), 0);
}

TEST(a_change_invalidates_attributes_the_kernel_has)
{
	struct pf_node *node, *other;
	struct pf_attr attr;
	struct stat st;

	node = linked(dir, "a", &file, false);
	expect_told(0); /* the kernel did not ask */
	look_at(dir);
	pf_dir_unlink(node);
	expect_told(1);
	other = linked(dir, "b", &names, false);
	expect_told(1); /* invalidated already */
	look_at(dir);
	look_at(other);
	linked(other, "c", &file, false);
	expect_told(1); /* the kernel has no attributes to invalidate */
	ck_assert_int_eq(pf_dir_move(other, dir, "d"), 0);
	expect_told(2);
	ck_assert_int_eq(pf_vfs_lookup(tree, 1, "names", &st), 0);
	pf_node_attr(dir, &attr);
	pf_node_set_attr(dir, &attr);
	expect_told(3);
	pf_vfs_forget(tree, dir->ino, 1);
	/* Changes by requests invalidate too: another request's answer may be on its way. */
	look_at(dir);
	ck_assert_int_eq(pf_vfs_mkdir(tree, dir->ino, "e", 0755, &god, &st), 0);
	pf_vfs_forget(tree, st.st_ino, 1);
	expect_told(4);
	pf_tree_set_notify(tree, NULL, NULL);
	look_at(dir);
	ck_assert_int_eq(pf_vfs_remove(tree, dir->ino, "e", true, &god), 0);
	expect_told(4);
}

TEST(kinds_invalidate_attributes_the_kernel_has)
{
	struct pf_node *node = linked(dir, "a", &file, false);
	struct stat st;

	pf_node_changed(node, true);
	ck_assert_uint_eq(told[PF_CHANGED_DATA], 0); /* the kernel did not look it up */
	ck_assert_int_eq(pf_vfs_lookup(tree, dir->ino, "a", &st), 0);
	pf_node_changed(node, true);
	ck_assert_uint_eq(told[PF_CHANGED_DATA], 1);
	ck_assert_uint_eq(told_of, st.st_ino);
	pf_node_changed(node, false);
	ck_assert_uint_eq(told[PF_CHANGED_ATTR], 1);
	pf_vfs_forget(tree, st.st_ino, 1);
	pf_node_changed(node, false);
	ck_assert_uint_eq(told[PF_CHANGED_ATTR], 1);
}

/* The kernel keeps what it looked up: it must know that the name is gone. */
TEST(names_that_the_kernel_looked_up_are_gone)
{
	struct pf_node *a = linked(dir, "a", &file, false);
	struct pf_node *b = linked(dir, "b", &file, false);
	struct stat st;

	ck_assert_int_eq(pf_vfs_lookup(tree, dir->ino, "b", &st), 0);
	pf_dir_unlink(a);
	ck_assert_uint_eq(told[PF_CHANGED_GONE], 0);
	pf_node_ref(b);
	pf_dir_unlink(b);
	ck_assert_uint_eq(told[PF_CHANGED_GONE], 1);
	ck_assert_uint_eq(told_of, dir->ino);
	pf_dir_unlink(b); /* has no name any more */
	ck_assert_uint_eq(told[PF_CHANGED_GONE], 1);
	pf_node_unref(b);
	pf_vfs_forget(tree, st.st_ino, 1);
}

static void open_as(const char *name, const struct pf_cred *cred)
{
	opened = pf_dir_lookup(pf_tree_root(tree), name);
	ck_assert_int_eq(open_by(tree, opened->ino, O_RDONLY, cred, &of), 0);
}

static void reads(uint64_t off, const char *want)
{
	expect_read_by(pf_vfs_read, of, 100, off, want);
}

TEST(a_poller_is_woken_once)
{
	open_as("state", &one);
	pf_node_ready(opened);
	ck_assert_uint_eq(told[PF_CHANGED_READY], 0); /* no poll is waiting */
	ck_assert_int_eq(pf_vfs_poll(of), 0);
	done = true;
	pf_node_ready(opened);
	pf_node_ready(opened);
	ck_assert_uint_eq(told[PF_CHANGED_READY], 1);
	ck_assert_uint_eq(told_of, opened->ino);
	ck_assert_int_eq(pf_vfs_poll(of), POLLIN);
	pf_node_ready(opened);
	ck_assert_uint_eq(told[PF_CHANGED_READY], 2);
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
	pf_node_ready(opened);
	ck_assert_uint_eq(told[PF_CHANGED_READY], 0);
}

TEST(attributes_depend_on_the_user)
{
	struct stat st;

	open_as("own", &two);
	ck_assert_int_eq(pf_vfs_getattr(tree, opened->ino, &one, NULL, &st), 0);
	ck_assert_int_eq(st.st_size, 1);
	ck_assert_int_eq(pf_vfs_getattr(tree, opened->ino, &two, NULL, &st), 0);
	ck_assert_int_eq(st.st_size, 2);
	ck_assert_int_eq(pf_vfs_getattr(tree, opened->ino, &one, of, &st), 0);
	ck_assert_int_eq(st.st_size, 2000);
	ck_assert_int_eq(st.st_mode, S_IFREG | 0444);
	ck_assert_int_eq(pf_vfs_getattr(tree, 12345, &one, NULL, &st), -ESTALE);
	ck_assert_uint_eq(pf_vfs_keeps(tree, opened->ino) & PF_ATTR_VARIES,
			  PF_ATTR_VARIES);
	pf_node_unref(opened);
	opened = pf_dir_lookup(pf_tree_root(tree), "plain");
	ck_assert_uint_eq(pf_vfs_keeps(tree, opened->ino) & PF_ATTR_VARIES, 0);
	ck_assert_int_eq(pf_vfs_getattr(tree, opened->ino, &one, NULL, &st), 0);
	ck_assert_int_eq(st.st_size, 8);
}

UNIT_FIXTURE(setup, teardown)
