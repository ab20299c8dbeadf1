/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on names and attributes, in a tree of toys. */
#include "vfs_toys.h"

static int miss(uint64_t in, const char *name)
{
	struct stat st;

	return pf_vfs_lookup(tree, in, name, &st);
}

static void touch(const char *name)
{
	pf_vfs_release(create(name, O_WRONLY));
}

TEST(lookups)
{
	struct stat st;

	ck_assert_uint_eq(look(1, ".").st_ino, 1);
	ck_assert_uint_eq(look(1, "..").st_ino, 1);
	ck_assert_uint_eq(look(d, "..").st_ino, 1);
	ck_assert_int_eq(miss(1, "nothing"), -ENOENT);
	ck_assert_int_eq(miss(99, "nothing"), -ESTALE);
	ck_assert_int_eq(miss(look(1, "text").st_ino, "x"), -ENOTDIR);
	ck_assert_int_eq(pf_vfs_getattr(tree, 99, &god, NULL, &st), -ESTALE);
	st = look(1, "dir");
	ck_assert_uint_eq(st.st_nlink, 2);
	ck_assert_uint_eq(look(1, ".").st_nlink, 3);
}

TEST(a_lookup_count_keeps_a_node)
{
	struct stat st, again;

	touch("a");
	ck_assert_int_eq(pf_vfs_lookup(tree, d, "a", &st), 0);
	ck_assert_int_eq(pf_vfs_lookup(tree, d, "a", &st), 0);
	ck_assert_int_eq(remove_name("a", false), 0);
	ck_assert_int_eq(alive, 1);
	ck_assert_int_eq(pf_vfs_getattr(tree, st.st_ino, &god, NULL, &again), 0);
	ck_assert_uint_eq(again.st_nlink, 0);
	pf_vfs_forget(tree, st.st_ino, 1);
	ck_assert_int_eq(alive, 1);
	pf_vfs_forget(tree, st.st_ino, 1);
	ck_assert_int_eq(alive, 0);
	ck_assert_int_eq(pf_vfs_getattr(tree, st.st_ino, &god, NULL, &again), -ESTALE);
}

TEST(unlisted_names_open_but_do_not_list)
{
	struct pf_listing *listing;
	struct pf_open *of = NULL;
	struct stat st;

	ck_assert_int_eq(pf_vfs_lookup(tree, d, "x.view", &st), 0);
	of = open_as(st.st_ino, O_RDONLY, &me);
	pf_vfs_forget(tree, st.st_ino, 1);
	expect_read(of, 9, 0, "hello");
	pf_vfs_release(of);
	ck_assert_int_eq(remove_name("x.view", false), -EPERM);
	ck_assert_int_eq(make_dir(d, "x.view"), -EEXIST);
	ck_assert_int_eq(pf_vfs_list(tree, d, &listing), 0);
	ck_assert_uint_eq(listing->n, 2);
	pf_listing_free(listing);
}

TEST(lists)
{
	struct pf_listing *listing;

	ck_assert_int_eq(pf_vfs_list(tree, 1, &listing), 0);
	ck_assert_uint_eq(listing->n, 10);
	ck_assert_str_eq(listing->entries[0].name, ".");
	ck_assert_str_eq(listing->entries[1].name, "..");
	ck_assert_str_eq(listing->entries[2].name, "text");
	ck_assert_str_eq(listing->entries[9].name, "dir");
	ck_assert_uint_eq(listing->entries[9].ino, d);
	ck_assert(S_ISDIR(listing->entries[9].mode));
	pf_listing_free(listing);
	ck_assert_int_eq(pf_vfs_list(tree, look(1, "text").st_ino, &listing), -ENOTDIR);
}

TEST(attributes)
{
	struct pf_open *of = create_as("a", O_RDWR, &me);
	struct stat to = { .st_mode = 0600, .st_uid = 9, .st_gid = 9 };
	uint64_t ino = of->node->ino;

	pf_vfs_release(of);
	ck_assert_uint_eq(look(d, "a").st_uid, 7);
	ck_assert_int_eq(set_attr(ino, &to, PF_SET_MODE, NULL, &me), 0);
	ck_assert_uint_eq(now.st_mode, S_IFREG | 0600);
	to.st_mtim.tv_sec = 1000;
	to.st_atim.tv_nsec = UTIME_NOW;
	ck_assert_int_eq(set_attr(ino, &to, PF_SET_MTIME | PF_SET_ATIME, NULL, &me), 0);
	ck_assert_int_eq(now.st_mtim.tv_sec, 1000);
	ck_assert_int_gt(now.st_atim.tv_sec, 1000);
	ck_assert_int_eq(set_attr(ino, &to, PF_SET_UID | PF_SET_GID, NULL, &god), 0);
	ck_assert_uint_eq(now.st_uid, 9);
	ck_assert_uint_eq(now.st_gid, 9);
}

TEST(creating)
{
	struct pf_open *of = NULL;
	struct stat st;

	touch("a");
	ck_assert_int_eq(refuse_create(d, "a", O_EXCL), -EEXIST);
	of = create("a", O_RDWR); /* opens it */
	pf_vfs_release(of);
	ck_assert_int_eq(refuse_create(d, "b\n", 0), -EINVAL);
	ck_assert_int_eq(refuse_create(1, "b", 0), -EPERM);
	/* The mode of a new file does not restrict its creator. */
	ck_assert_int_eq(pf_vfs_create(tree, d, "ro", 0400, O_CREAT | O_WRONLY | O_TRUNC,
				       &me, &st, &of),
			 0);
	ck_assert_int_eq(put(of, "x", 0), 1);
	pf_vfs_release(of);
	pf_vfs_forget(tree, st.st_ino, 1);
}

TEST(removing)
{
	uint64_t sub = (uint64_t)make_dir(d, "sub");

	touch("a");
	ck_assert_int_eq(make_dir(d, "sub"), -EEXIST);
	ck_assert_int_eq(make_dir(d, ".."), -EINVAL);
	ck_assert_int_eq(remove_name("sub", false), -EISDIR);
	ck_assert_int_eq(remove_name("a", true), -ENOTDIR);
	ck_assert_int_eq(remove_name("nothing", true), -ENOENT);
	ck_assert_int_eq(pf_vfs_rename(tree, d, "a", sub, "b", 0, &god), 0);
	ck_assert_int_eq(remove_name("sub", true), -ENOTEMPTY);
	ck_assert_int_eq(pf_vfs_remove(tree, sub, "b", false, &god), 0);
	ck_assert_int_eq(remove_name("sub", true), 0);
	/* A directory with its kind's children only is empty. */
	ck_assert_int_gt(make_dir(d, "whole"), 0);
	ck_assert_int_eq(remove_name("whole", true), 0);
	ck_assert_int_eq(pf_vfs_remove(tree, 1, "text", false, &god), -EPERM);
	ck_assert_int_eq(pf_vfs_remove(tree, 1, "dir", true, &god), -EPERM);
}

TEST(sticky_directories)
{
	struct pf_cred other = { .uid = 8, .gid = 8 };
	PF_CLEANUP(pf_node_unrefp) struct pf_node *in = pf_tree_by_ino(tree, d);
	PF_CLEANUP(pf_node_unrefp) struct pf_node *a = NULL;
	struct stat to = { .st_mode = 01777 };

	pf_vfs_release(create_as("a", O_WRONLY, &me));
	a = pf_dir_lookup(in, "a");
	ck_assert(pf_node_may_remove(in, a, &other));
	ck_assert_int_eq(set_attr(d, &to, PF_SET_MODE, NULL, &god), 0);
	ck_assert(!pf_node_may_remove(in, a, &other));
	ck_assert(pf_node_may_remove(in, a, &me));
	ck_assert(pf_node_may_remove(in, a, &god));
}

TEST(renaming)
{
	uint64_t a, sub = (uint64_t)make_dir(d, "s");

	touch("a");
	touch("b");
	a = look(d, "a").st_ino;
	ck_assert_int_eq(move("a", "b", RENAME_NOREPLACE), -EEXIST);
	ck_assert_int_eq(move("a", "c", RENAME_EXCHANGE), -ENOENT);
	ck_assert_int_eq(move("a", "b", RENAME_WHITEOUT), -EINVAL);
	ck_assert_int_eq(move("a", "b", RENAME_EXCHANGE), 0);
	ck_assert_uint_eq(look(d, "b").st_ino, a);
	ck_assert_int_eq(move("b", "a", 0), 0);
	ck_assert_uint_eq(look(d, "a").st_ino, a);
	ck_assert_int_eq(alive, 1);
	ck_assert_int_eq(move("a", "s", 0), -EISDIR);
	ck_assert_int_eq(move("s", "a", 0), -ENOTDIR);
	ck_assert_int_eq(pf_vfs_rename(tree, d, "s", sub, "t", 0, &god), -EINVAL);
	ck_assert_int_eq(pf_vfs_rename(tree, d, "a", sub, "in", 0, &god), 0);
	ck_assert_int_gt(make_dir(d, "other"), 0);
	ck_assert_int_eq(move("other", "s", 0), -ENOTEMPTY);
	ck_assert_int_eq(pf_vfs_rename(tree, sub, "in", d, "a", 0, &god), 0);
	ck_assert_int_eq(move("other", "s", 0), 0);
	ck_assert_int_eq(move("a", "x/y", 0), -EINVAL);
	ck_assert_int_eq(move("a", "a", 0), 0);
	ck_assert_int_eq(pf_vfs_rename(tree, 1, "text", d, "a", 0, &god), -EPERM);
}

static void write_some(const char *name, uint64_t off)
{
	struct pf_open *of = NULL;
	struct stat st;

	if (pf_vfs_create(tree, d, name, 0644, O_CREAT | O_RDWR, &god, &st, &of) < 0)
		return;
	put(of, "some", off);
	flush(of);
	pf_vfs_release(of);
	pf_vfs_forget(tree, st.st_ino, 1);
}

static void open_some(const char *name)
{
	struct pf_open *of = NULL;
	struct stat st;

	if (pf_vfs_lookup(tree, d, name, &st) < 0)
		return;
	if (try_open(st.st_ino, O_RDONLY, &god, &of) == 0)
		pf_vfs_release(of);
	pf_vfs_forget(tree, st.st_ino, 1);
}

static void list_all(void)
{
	struct pf_listing *listing;

	if (pf_vfs_list(tree, d, &listing) == 0)
		pf_listing_free(listing);
}

/* Several threads use the same few names at once. */
static void *stress(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < 3000; i++) {
		char from[2] = { (char)('a' + rand_r(&seed) % 4) };
		char to[2] = { (char)('a' + rand_r(&seed) % 4) };

		switch (rand_r(&seed) % 6) {
		case 0:
			write_some(from, (uint64_t)(rand_r(&seed) % 40));
			break;
		case 1:
			remove_name(from, false);
			break;
		case 2:
			move(from, to, 0);
			break;
		case 3:
			list_all();
			break;
		case 4:
			move(from, to, RENAME_EXCHANGE);
			break;
		default:
			open_some(from);
			break;
		}
	}
	return NULL;
}

TEST(many_at_once)
{
	pthread_t threads[4];

	for (uintptr_t i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, stress,
						(void *)(i + 1)),
				 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

UNIT_FIXTURE(setup, teardown)
