/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of an earlier life of the daemon: names, numbers, attributes, nodes without a name. */
#include "vfs_driver.h"

#include "node_fixture.h"
#include "pjrtfs/state.h"
#include "pjrtfs/wait.h"

enum { FILE_AGAIN = 1, DIR_AGAIN, SLOW_AGAIN };

static void no_read(struct pf_open *of, size_t len, uint64_t off, struct pf_reply *reply)
{
	(void)of;
	(void)len;
	(void)off;
	pf_reply_data(reply, NULL, 0);
}

static ssize_t take(struct pf_open *of, const void *src, size_t len, uint64_t off,
		    struct pf_err *err)
{
	(void)of;
	(void)src;
	(void)off;
	(void)err;
	return (ssize_t)len;
}

static unsigned commits;

static void count_commit(struct pf_open *of, enum pf_commit why, struct pf_reply *reply)
{
	(void)of;
	(void)why;
	commits++;
	pf_reply_code(reply, 0);
}

static const struct pf_kind again = { .mode = S_IFREG | 0644,
				      .read = no_read,
				      .write = take,
				      .commit = count_commit,
				      .restored_as = FILE_AGAIN };
static const struct pf_kind dir_again = { .mode = S_IFDIR | 0755,
					  .restored_as = DIR_AGAIN };

static unsigned printed; /* how often slow was */

static int slow_show(struct pf_node *node, const struct pf_cred *cred, struct pf_buf *out,
		     struct pf_err *err)
{
	(void)node;
	(void)err;
	pf_buf_printf(out, "%u, for user %u", ++printed, cred->uid);
	return 0;
}

static const struct pf_kind slow = { .mode = S_IFREG | 0444,
				     .show_as = slow_show,
				     .blocks = true,
				     .restored_as = SLOW_AGAIN };

static void begin(void)
{
	ck_assert_int_eq(pf_state_open(-1, NULL), 0);
	setup();
}

static void end(void)
{
	teardown();
	pf_state_close();
}

static int make(void *arg, struct pf_node *in, const struct pf_restored *old,
		struct pf_node **ret, struct pf_err *err)
{
	static const struct pf_kind *const kinds[] = {
		[FILE_AGAIN] = &again, [DIR_AGAIN] = &dir_again, [SLOW_AGAIN] = &slow
	};

	(void)arg;
	(void)in;
	(void)err;
	pf_tree_adopt(tree, old->ino);
	*ret = pf_node_new(tree, kinds[old->as], NULL, (mode_t)-1, NULL);
	return *ret ? 0 : -ENOMEM;
}

static struct pf_open *still_open; /* of a life that dies */

/* The daemon dies, and another one begins: the nodes of this life are freed without a trace. */
static void die(void)
{
	int fd = dup(pf_state_fd());

	/* A thread that has answered may still hold a node. */
	ck_assert(pf_turns_await(60000));
	pf_state_close();
	if (still_open)
		pf_vfs_release(pf_steal(&still_open));
	teardown();
	ck_assert_int_eq(pf_state_open(fd, NULL), 0);
	setup();
}

static void restart(void)
{
	die();
	ck_assert_int_eq(pf_tree_restore(tree, make, NULL, NULL), 0);
}

static bool has_record(uint64_t ino)
{
	size_t len;

	return pf_state_get(PF_STATE_NODE, ino, &len);
}

/* Does the journal have node INO under NAME? */
static bool is_named(uint64_t ino, const char *name)
{
	size_t len, n = strlen(name) + 1;
	const char *record = pf_state_get(PF_STATE_NODE, ino, &len);

	return record && len > n && !memcmp(record + len - n, name, n);
}

TEST(names_numbers_and_attributes_come_back)
{
	struct pf_node *d = linked(pf_tree_root(tree), "d", &dir_again), *a;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *d2 = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *a2 = NULL;
	uint64_t d_ino = d->ino, a_ino;
	struct pf_attr attr, now;

	a = linked(d, "a", &again);
	a_ino = a->ino;
	pf_node_attr(a, &attr);
	attr.mode = S_IFREG | 0604;
	attr.uid = 77;
	attr.mtime.tv_sec = 1000;
	pf_node_set_attr(a, &attr);
	for (int life = 0; life < 3; life++) {
		restart();
		d2 = pf_dir_lookup(pf_tree_root(tree), "d");
		a2 = pf_dir_lookup(d2, "a");
		ck_assert_uint_eq(d2->ino, d_ino);
		ck_assert_uint_eq(a2->ino, a_ino);
		pf_node_attr(a2, &now);
		ck_assert_uint_eq(now.mode, attr.mode);
		ck_assert_uint_eq(now.uid, 77);
		ck_assert_int_eq(now.mtime.tv_sec, 1000);
		pf_node_unref(pf_steal(&a2));
		pf_node_unref(pf_steal(&d2));
	}
}

TEST(a_damaged_record_is_not_taken_for_no_files)
{
	struct pf_err err = PF_ERR_INIT;

	pf_state_put(PF_STATE_NODE, 99, "short", 5, NULL, 0);
	die();
	ck_assert_int_eq(pf_tree_restore(tree, make, NULL, &err), -EPROTO);
	ck_assert_ptr_nonnull(strstr(err.text, "node 99"));
}

/* A sanitizer finds a node that is written after it was freed. */
TEST(a_directory_that_goes_with_its_files_is_not_written_any_more)
{
	struct pf_node *going = linked(pf_tree_root(tree), "going", &dir_again), *after;
	uint64_t ino = going->ino;

	linked(going, "file", &again);
	pf_tree_lock_names(tree);
	pf_dir_unlink(going);
	after = linked(pf_tree_root(tree), "after", &again);
	pf_tree_unlock_names(tree);
	ck_assert(!has_record(ino));
	ck_assert(has_record(after->ino));
}

TEST(a_change_of_two_names_is_one_in_the_journal)
{
	struct pf_node *top = pf_tree_root(tree);
	struct pf_node *a = pf_node_ref(linked(top, "a", &again));
	struct pf_node *b = linked(top, "b", &again);
	uint64_t old = a->ino;

	pf_tree_lock_names(tree);
	pf_dir_unlink(a);
	ck_assert(has_record(old));
	ck_assert_int_eq(pf_dir_move(b, top, "a"), 0);
	ck_assert(has_record(old) && is_named(b->ino, "b"));
	pf_node_unref(a); /* it is freed: now both changes are written */
	ck_assert(!has_record(old) && is_named(b->ino, "a"));
	pf_tree_unlock_names(tree);
	restart();
	b = pf_dir_lookup(pf_tree_root(tree), "b");
	ck_assert_ptr_null(b);
	a = pf_dir_lookup(pf_tree_root(tree), "a");
	ck_assert(a && a->ino != old);
	pf_node_unref(a);
}

TEST(a_hidden_node_comes_back_until_it_is_unlinked)
{
	struct pf_node *a = pf_node_ref(linked(pf_tree_root(tree), "a", &again));
	uint64_t ino = a->ino;

	pf_dir_hide(a);
	ck_assert(has_record(ino));
	pf_dir_unlink(a);
	ck_assert(!has_record(ino));
	pf_node_unref(a);
}

/* Open A by the handle 7 for good. */
static void open_for_good(const struct pf_node *a, int flags)
{
	static const struct pf_cred cred = { .uid = 10, .gid = 20 };

	ck_assert_int_eq(open_by(tree, a->ino, flags, &cred, &still_open), 0);
	still_open->handle = 7;
	pf_vfs_keep_open(still_open);
}

static uint64_t open_and_unlink(struct pf_node *a)
{
	uint64_t ino = a->ino;

	open_for_good(a, O_RDONLY);
	pf_dir_unlink(a);
	return ino;
}

TEST(what_a_mapping_wrote_is_committed_after_a_death)
{
	open_for_good(linked(pf_tree_root(tree), "a", &again), O_RDWR);
	ck_assert_int_eq(write_by(pf_vfs_write_mapped, still_open, "x", 1, 0), 1);
	restart();
	commits = 0;
	ck_assert_int_eq(pf_vfs_reopen(tree, 7, &still_open), 0);
	ck_assert_int_eq(flush(still_open), 0);
	ck_assert_uint_eq(commits, 1);
	pf_vfs_release(pf_steal(&still_open));
}

TEST(an_unlinked_file_that_is_open_comes_back_after_each_death)
{
	uint64_t ino = open_and_unlink(linked(pf_tree_root(tree), "a", &again));
	struct pf_open *of = NULL;
	struct stat st;

	for (int life = 0; life < 3; life++) {
		restart();
		ck_assert_int_eq(pf_vfs_reopen(tree, 7, &of), 0);
		ck_assert_uint_eq(of->node->ino, ino);
		ck_assert_int_eq(pf_vfs_getattr(tree, ino, &of->cred, of, &st), 0);
		ck_assert_uint_eq(st.st_nlink, 0);
		still_open = of;
	}
	pf_vfs_release(pf_steal(&still_open));
	ck_assert(!has_record(ino));
}

TEST(a_text_that_blocks_is_printed_when_it_is_read_again)
{
	static const struct pf_cred cred = { .uid = 10 };
	struct pf_node *node = linked(pf_tree_root(tree), "slow", &slow);
	struct pf_open *of;

	printed = 0;
	ck_assert_int_eq(open_by(tree, node->ino, O_RDONLY, &cred, &of), 0);
	of->handle = 7;
	pf_vfs_keep_open(of);
	expect_read_by(pf_vfs_read, of, 99, 0, "1, for user 10");
	still_open = of;
	restart();
	ck_assert_int_eq(pf_vfs_reopen(tree, 7, &of), 0);
	ck_assert_uint_eq(printed, 1);
	expect_read_by(pf_vfs_read, of, 99, 3, "for user 10");
	expect_read_by(pf_vfs_read, of, 99, 0, "2, for user 10");
	pf_vfs_release(of);
}

UNIT_FIXTURE(begin, end)
