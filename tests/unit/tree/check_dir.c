/* SPDX-License-Identifier: Apache-2.0 */
/* The directories that nodes are linked in. */
#include <pthread.h>

#include "node_fixture.h"

TEST(linking_replaces_only_with_the_flag)
{
	struct pf_node *top = pf_tree_root(tree);
	struct pf_node *other;

	linked(top, "a", &file);
	other = pf_node_new(tree, &file, NULL, (mode_t)-1, NULL);
	ck_assert_int_eq(pf_dir_link(top, "a", other, false), -EEXIST);
	ck_assert_int_eq(pf_dir_link(top, "a", other, true), 0);
	ck_assert_int_eq(freed, 1);
	ck_assert(has(top, "a", other));
	ck_assert_uint_eq(pf_dir_count(top), 2);
	pf_node_unref(other);
}

TEST(a_removed_directory_accepts_no_names)
{
	struct pf_node *top = pf_tree_root(tree);
	struct pf_node *d = pf_node_ref(linked(top, "d", &dir));
	struct pf_node *node = pf_node_new(tree, &file, NULL, (mode_t)-1, NULL);

	pf_dir_unlink(d);
	ck_assert_int_eq(pf_dir_link(d, "a", node, false), -ENOENT);
	pf_node_unref(node);
	pf_node_unref(d);
	ck_assert_int_eq(freed, 2);
}

TEST(removing_a_directory_removes_its_children)
{
	struct pf_node *top = pf_tree_root(tree), *d = linked(top, "d", &dir), *kept;

	for (int i = 0; i < PF_DEPTH_MAX - 1; i++)
		d = linked(d, "d", &dir);
	kept = pf_node_ref(linked(d, "kept", &file));
	d = pf_dir_lookup(top, "d");
	pf_dir_unlink(d);
	pf_node_unref(d);
	ck_assert_int_eq(freed, PF_DEPTH_MAX);
	ck_assert_ptr_null(pf_node_parent(kept));
	pf_node_unref(kept);
	ck_assert_int_eq(freed, PF_DEPTH_MAX + 1);
}

TEST(moves)
{
	struct pf_node *top = pf_tree_root(tree), *a, *d, *e, *parent;
	struct pf_buf path = PF_BUF_INIT;
	char name[PF_NAME_MAX + 1];

	a = linked(top, "a", &file);
	d = linked(top, "d", &dir);
	e = linked(d, "e", &dir);
	linked(e, "old", &file);
	ck_assert_int_eq(pf_dir_move(d, e, "x"), -EINVAL);
	ck_assert_int_eq(pf_dir_move(d, d, "x"), -EINVAL);
	ck_assert_int_eq(pf_dir_move(a, e, "old"), 0);
	ck_assert_int_eq(freed, 1);
	ck_assert(has(top, "a", NULL) && has(e, "old", a));
	parent = pf_node_parent(a);
	ck_assert_ptr_eq(parent, e);
	pf_node_unref(parent);
	pf_node_name(a, name);
	ck_assert_str_eq(name, "old");
	pf_node_path(a, top, &path);
	ck_assert_str_eq(path.data, "d/e/old");
	path.len = 0;
	pf_node_path(a, d, &path);
	ck_assert_str_eq(path.data, "e/old");
	pf_buf_release(&path);
	ck_assert_int_eq(pf_dir_move(a, e, "old"), 0);
	ck_assert(has(e, "old", a));
}

TEST(exchanges)
{
	struct pf_node *top = pf_tree_root(tree), *a, *b, *d;

	a = linked(top, "a", &file);
	d = linked(top, "d", &dir);
	b = linked(d, "b", &file);
	ck_assert_int_eq(pf_dir_exchange(a, b), 0);
	ck_assert(has(top, "a", b) && has(d, "b", a));
	ck_assert_int_eq(pf_dir_exchange(a, a), 0);
	ck_assert_int_eq(pf_dir_exchange(d, a), -EINVAL);
	ck_assert_int_eq(pf_dir_exchange(b, d), 0);
	ck_assert(has(top, "d", b) && has(top, "a", d) && has(d, "b", a));
	ck_assert_int_eq(freed, 0);
}

TEST(a_listing_has_the_order_of_linking)
{
	struct pf_node *top = pf_tree_root(tree), **list;
	char name[PF_NAME_MAX + 1], want[32];
	size_t n = 0;

	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		linked(top, name, &file);
	}
	list = pf_dir_list(top);
	ck_assert_ptr_nonnull(list);
	for (; list[n]; n++) {
		snprintf(want, sizeof(want), "f%d", (int)n - 1);
		pf_node_name(list[n], name);
		ck_assert_str_eq(name, n ? want : "sub");
		pf_node_unref(list[n]);
	}
	ck_assert_uint_eq(n, 101);
	free(list);
}

static struct pf_node *by_stem(const char *stem, size_t len)
{
	static const char *const extensions[] = { ".npy", "", ".txt", NULL };
	struct pf_node *node =
		pf_dir_lookup_stem(pf_tree_root(tree), stem, len, extensions);

	pf_node_unref(node);
	return node;
}

TEST(a_stem_is_found_by_its_extensions)
{
	struct pf_node *top = pf_tree_root(tree), *npy, *txt, *plain;
	char longest[PF_NAME_MAX + 2];

	txt = linked(top, "x.txt", &file);
	linked(top, "y.npy", &dir);
	plain = linked(top, "z", &file);
	ck_assert_ptr_eq(by_stem("x", 1), txt);
	ck_assert_ptr_eq(by_stem("xyz", 1), txt); /* so many bytes of it */
	ck_assert_ptr_null(by_stem("y", 1));
	ck_assert_ptr_eq(by_stem("z", 1), plain);
	ck_assert_ptr_null(by_stem("", 0));
	npy = linked(top, "x.npy", &file);
	ck_assert_ptr_eq(by_stem("x", 1), npy);
	/* A name that is too long with an extension may exist without it. */
	memset(longest, 'l', sizeof(longest));
	longest[PF_NAME_MAX] = '\0';
	plain = linked(top, longest, &file);
	ck_assert_ptr_eq(by_stem(longest, PF_NAME_MAX), plain);
	longest[PF_NAME_MAX] = 'l';
	ck_assert_ptr_null(by_stem(longest, PF_NAME_MAX + 1));
}

static void *swap_extensions(void *stop)
{
	struct pf_node *top = pf_tree_root(tree);

	for (int i = 0; !atomic_load((_Atomic bool *)stop); i++) {
		struct pf_node *old = pf_dir_lookup(top, i % 2 ? "x.npy" : "x.txt");

		linked(top, i % 2 ? "x.txt" : "x.npy", &file);
		pf_dir_unlink(old);
		pf_node_unref(old);
	}
	return NULL;
}

/* The new one is linked before the old one is removed: the stem always exists. */
TEST(a_stem_that_changes_is_never_missed)
{
	_Atomic bool stop = false;
	pthread_t thread;

	linked(pf_tree_root(tree), "x.txt", &file);
	ck_assert_int_eq(pthread_create(&thread, NULL, swap_extensions, &stop), 0);
	for (int i = 0; i < 200000; i++)
		ck_assert_ptr_nonnull(by_stem("x", 1));
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
}

TEST(a_hundred_thousand_children)
{
	enum { N = 100000 };
	struct pf_node *top = pf_tree_root(tree), *node;
	char name[32];

	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "buffer-%d.npy", i);
		linked(top, name, &file);
	}
	ck_assert_uint_eq(pf_dir_count(top), N + 1);
	for (int i = N - 1; i >= 0; i--) {
		snprintf(name, sizeof(name), "buffer-%d.npy", i);
		node = pf_dir_lookup(top, name);
		ck_assert_ptr_nonnull(node);
		pf_dir_unlink(node);
		pf_node_unref(node);
	}
	ck_assert_int_eq(freed, N);
}

/* N directories called "d" one in another, the first in IN; returns the last. */
static struct pf_node *nested(struct pf_node *in, unsigned n)
{
	while (n--)
		in = linked(in, "d", &dir);
	return in;
}

/* The root is depth 0: a directory in it 1. */
TEST(directories_have_a_maximum_depth)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_node *top = pf_tree_root(tree);
	struct pf_node *last = nested(linked(top, "a", &dir), PF_DEPTH_MAX - 1);
	struct pf_node *b = linked(top, "b", &dir), *c = nested(b, 1);
	struct pf_node *file_there = linked(last, "file", &file);
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *loose = pf_node_new(tree, &dir, NULL, (mode_t)-1, NULL);
	PF_CLEANUP(pf_node_unrefp) struct pf_node *above = pf_node_parent(last);

	ck_assert_int_eq(pf_dir_check_depth(last, NULL, &err), -ENAMETOOLONG);
	ck_assert_ptr_nonnull(strstr(err.text, "more than 256 directories"));
	ck_assert_int_eq(pf_dir_link(last, "more", loose, false), -ENAMETOOLONG);
	ck_assert_int_eq(pf_dir_check_depth(last, file_there, NULL), 0);

	/* Directories in a directory count too. */
	ck_assert_int_eq(pf_dir_check_depth(above, NULL, NULL), 0);
	ck_assert_int_eq(pf_dir_check_depth(above, c, NULL), 0);
	ck_assert_int_eq(pf_dir_check_depth(above, b, NULL), -ENAMETOOLONG);
	ck_assert_int_eq(pf_dir_move(b, above, "b"), -ENAMETOOLONG);
	ck_assert_int_eq(pf_dir_exchange(b, last), -ENAMETOOLONG);
	ck_assert_int_eq(pf_dir_move(b, top, "still there"), 0);
	ck_assert_int_eq(pf_dir_move(c, above, "c"), 0);
	ck_assert_int_eq(pf_dir_exchange(b, last), 0);
	ck_assert_int_eq(pf_dir_link(b, "more", loose, false), -ENAMETOOLONG);
	ck_assert_int_eq(pf_dir_link(last, "more", loose, false), 0);
}

TEST(an_exchange_moves_both_or_neither)
{
	struct pf_node *top = pf_tree_root(tree), *a = linked(top, "a", &dir);
	struct pf_node *b = linked(top, "b", &dir), *to = linked(top, "to", &dir);
	struct pf_node *last = nested(linked(top, "deep", &dir), PF_DEPTH_MAX - 1);
	char name[PF_NAME_MAX + 1];

	ck_assert_int_eq(pf_dir_move_both(a, to, "x", b, last, "y"), -ENAMETOOLONG);
	ck_assert_int_eq(pf_dir_move_both(a, to, "x", b, b, "y"), -EINVAL);
	pf_node_name(a, name);
	ck_assert_str_eq(name, "a");
	ck_assert_uint_eq(pf_dir_count(to), 0);
	ck_assert_int_eq(pf_dir_move_both(a, to, "x", b, to, "y"), 0);
	pf_node_name(a, name);
	ck_assert_str_eq(name, "x");
	pf_node_name(b, name);
	ck_assert_str_eq(name, "y");
	ck_assert_uint_eq(pf_dir_count(to), 2);
}

UNIT_FIXTURE(setup, teardown)
