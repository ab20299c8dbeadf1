/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of files: mappings, copies, fallocate, set-user-ID. */
#include "sleeping.h"
#include "vfs_toys.h"

static struct pf_node *node_a, *node_b; /* linked in dir */
static struct bytes *a, *b;             /* theirs */

static struct pf_node *link_file(const char *name)
{
	struct pf_open *of = create(name, O_WRONLY);
	struct pf_node *node = of->node;

	pf_vfs_release(of);
	return node;
}

static void setup_two(void)
{
	setup();
	node_a = link_file("a");
	node_b = link_file("b");
	a = node_a->object;
	b = node_b->object;
}

static struct pf_open *open_file(const struct pf_node *node, int flags)
{
	return open_as(node->ino, flags, &god);
}

static ssize_t put_mapped(struct pf_open *of, const char *data, uint64_t off)
{
	return write_by(pf_vfs_write_mapped, of, data, strlen(data), off);
}

static void expect_pages(struct pf_open *of, const char *want)
{
	expect_read_by(pf_vfs_read_mapped, of, 60, 0, want);
}

TEST(release_commits_what_a_mapping_wrote)
{
	struct pf_open *of = open_file(node_a, O_RDWR);

	ck_assert_int_eq(put_mapped(of, "page", 0), 4);
	ck_assert_int_eq(put_mapped(of, "!", 0), -EINVAL);
	pf_vfs_release(of);
	ck_assert_int_eq(a->flushes, 1);
	ck_assert_mem_eq(a->data, "page", 4);
	/* Bytes of write(2) are committed by FLUSH only. */
	of = open_file(node_a, O_RDWR);
	ck_assert_int_eq(put(of, "x", 0), 1);
	pf_vfs_release(of);
	ck_assert_int_eq(a->flushes, 1);
}

TEST(flush_commits_what_a_mapping_wrote)
{
	struct pf_open *of = open_file(node_a, O_RDWR), *reader, *other;

	reader = open_file(node_a, O_RDONLY);
	other = open_file(node_a, O_WRONLY);
	ck_assert_int_eq(flush(of), 0);
	ck_assert_int_eq(a->flushes, 0);
	ck_assert_int_eq(put_mapped(of, "page", 0), 4);
	ck_assert_int_eq(sync_file(of), 0);
	ck_assert_int_eq(a->fsyncs, 1);
	ck_assert_int_eq(flush(reader), 0);
	ck_assert_int_eq(a->flushes, 0);
	/* The kernel writes through any open that has the file mapped. */
	ck_assert_int_eq(flush(other), 0);
	ck_assert_int_eq(a->flushes, 1);
	ck_assert_int_eq(put_mapped(of, "bad", 0), 3);
	ck_assert_int_eq(flush(of), -EINVAL);
	ck_assert_int_eq(a->flushes, 2);
	pf_vfs_release(of);
	pf_vfs_release(other);
	pf_vfs_release(reader);
	ck_assert_int_eq(a->flushes, 2);
}

TEST(a_commit_at_release_keeps_the_file_open)
{
	struct pf_open *of = open_file(node_a, O_RDWR);

	ck_assert_int_eq(put_mapped(of, "later", 0), 5);
	pf_vfs_release(of);
	ck_assert_int_eq(a->flushes, 1);
	ck_assert_int_eq(alive, 3);   /* two files, one open */
	pf_reply_code(waiting, -EIO); /* no caller gets the error */
	ck_assert_int_eq(alive, 2);
}

TEST(a_dying_writers_mapping_is_not_committed)
{
	struct pf_open *of = open_file(node_a, O_RDWR);

	ck_assert_int_eq(put_mapped(of, "half", 0), 4);
	ck_assert_int_eq(flush_dying(of), 0);
	pf_vfs_release(of);
	ck_assert_int_eq(a->flushes, 0);
	/* The next close(2) does. */
	of = open_file(node_a, O_WRONLY);
	ck_assert_int_eq(flush(of), 0);
	ck_assert_int_eq(a->flushes, 1);
	pf_vfs_release(of);
}

TEST(a_mapping_writes_only_files_opened_for_writing)
{
	struct pf_open *of = open_file(node_a, O_RDONLY);

	ck_assert_int_eq(put_mapped(of, "x", 0), -EBADF);
	pf_vfs_release(of);
	of = open_as(look(1, "text").st_ino, O_RDONLY, &god);
	ck_assert_int_eq(put_mapped(of, "x", 0), -EBADF);
	expect_pages(of, "hello");
	pf_vfs_release(of);
	ck_assert_int_eq(a->flushes, 0);
}

TEST(pages_come_from_the_newest_open)
{
	struct pf_open *first, *second, *writer;

	strcpy(a->data, "one");
	a->len = 3;
	first = open_file(node_a, O_RDONLY);
	strcpy(a->data, "two");
	expect_pages(first, "one");
	second = open_file(node_a, O_RDONLY);
	expect_pages(first, "two");
	expect_pages(second, "two");
	/* An open that writes reads its own bytes. */
	writer = open_file(node_a, O_WRONLY);
	ck_assert_int_eq(put(writer, "six", 0), 3);
	expect_pages(first, "two");
	pf_vfs_release(writer);
	writer = open_file(node_a, O_RDWR);
	ck_assert_int_eq(put_mapped(writer, "ten", 0), 3);
	pf_vfs_release(second);
	second = open_file(node_a, O_RDONLY);
	ck_assert_int_eq(put_mapped(writer, "tee", 0), 3);
	expect_pages(second, "tee");
	pf_vfs_release(writer);
	expect_pages(first, "ten");
	pf_vfs_release(second);
	expect_pages(first, "one");
	pf_vfs_release(first);
}

TEST(copies)
{
	struct pf_open *from = open_file(node_a, O_RDWR);
	struct pf_open *to = open_file(node_b, O_WRONLY);
	struct pf_open *of;

	ck_assert_int_eq(put(from, "abcdef", 0), 6);
	ck_assert_int_eq(flush(from), 0);
	ck_assert_int_eq(pf_vfs_copy(to, 1, from, 2, 99), 4);
	ck_assert_mem_eq(b->data, "\0cdef", 5);
	ck_assert_int_eq(flush(to), 0);
	ck_assert_int_eq(b->flushes, 1);
	ck_assert_int_eq(pf_vfs_copy(to, 0, from, 6, 99), 0);
	ck_assert_int_eq(pf_vfs_copy(to, 0, from, 0, 0), 0);
	ck_assert_int_eq(pf_vfs_copy(from, 6, from, 0, 2), 2);
	ck_assert_mem_eq(a->data, "abcdefab", 8);
	ck_assert_int_eq(pf_vfs_copy(to, 58, from, 0, 8), 2); /* what fits */
	ck_assert_int_eq(pf_vfs_copy(to, 60, from, 0, 8), -EFBIG);
	ck_assert_int_eq(pf_vfs_copy(from, 0, to, 0, 1), -EBADF);
	of = open_file(node_a, O_RDONLY);
	ck_assert_int_eq(pf_vfs_copy(of, 0, from, 0, 1), -EBADF);
	ck_assert_int_eq(pf_vfs_copy(to, 0, of, 0, 1), 1);
	pf_vfs_release(of);
	of = open_as(look(1, "text").st_ino, O_RDONLY, &god);
	ck_assert_int_eq(pf_vfs_copy(to, 0, of, 0, 1), -EXDEV);
	pf_vfs_release(of);
	pf_vfs_release(from);
	pf_vfs_release(to);
}

/* One after another, on the same file. */
static const struct {
	int mode;
	uint64_t off, len;
	int want;
	int flushes; /* by then: only what changed the file is committed */
} allocations[] = {
	{ FALLOC_FL_KEEP_SIZE, 0, 50, 0, 0 },
	{ 0, 0, 8, 0, 1 },
	{ 0, 0, 8, 0, 1 },
	{ FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2, 2, 0, 2 },
	{ FALLOC_FL_ZERO_RANGE, 0, 8, -EOPNOTSUPP, 2 },
	{ 0, 0, 0, -EINVAL, 2 },
	{ 0, 0, 61, -EFBIG, 2 },
	{ 0, INT64_MAX, 1, -EFBIG, 2 },
	{ 0, (uint64_t)1 << 63, 1, -EINVAL, 2 },
};

TEST(fallocate_extends_a_file)
{
	struct pf_open *of = open_file(node_a, O_RDWR), *reader;

	for (size_t i = 0; i < ARRAY_SIZE(allocations); i++) {
		int r = pf_vfs_allocate(of, allocations[i].mode, allocations[i].off,
					allocations[i].len);

		ck_assert_msg(r == allocations[i].want, "row %zu: %d", i, r);
		ck_assert_int_eq(flush(of), 0);
		ck_assert_msg(a->flushes == allocations[i].flushes, "row %zu: %d", i,
			      a->flushes);
	}
	ck_assert_uint_eq(a->len, 8);
	reader = open_file(node_a, O_RDONLY);
	ck_assert_int_eq(pf_vfs_allocate(reader, 0, 0, 1), -EBADF);
	pf_vfs_release(reader);
	pf_vfs_release(of);
}

static void set_mode(mode_t mode)
{
	const struct stat to = { .st_mode = mode };

	ck_assert_int_eq(set_attr(node_a->ino, &to, PF_SET_MODE, NULL, &god), 0);
}

static void expect_mode(mode_t mode)
{
	struct stat st;

	ck_assert_int_eq(pf_vfs_getattr(tree, node_a->ino, &god, NULL, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, mode);
}

TEST(writing_clears_the_set_uid_bit)
{
	struct stat to = { .st_size = 1, .st_uid = 7, .st_gid = 7 };
	struct pf_open *of = open_as(node_a->ino, O_RDWR, &me), *from;

	set_mode(06777);
	ck_assert_int_eq(put_mapped(of, "x", 0), 1);
	expect_mode(06777);
	ck_assert_int_eq(put(of, "x", 0), 1);
	expect_mode(0777);
	set_mode(06767); /* mandatory locking's, not a group's */
	ck_assert_int_eq(set_attr(node_a->ino, &to, PF_SET_SIZE, of, &me), 0);
	ck_assert_uint_eq(now.st_mode & 07777, 02767);
	set_mode(04777);
	ck_assert_int_eq(pf_vfs_allocate(of, 0, 0, 20), 0);
	expect_mode(0777);
	set_mode(04777);
	from = open_file(node_a, O_RDONLY);
	ck_assert_int_eq(pf_vfs_copy(of, 0, from, 0, 1), 1);
	expect_mode(0777);
	pf_vfs_release(from);
	set_mode(04777);
	pf_vfs_release(open_as(node_a->ino, O_WRONLY | O_TRUNC, &me));
	expect_mode(0777);
	pf_vfs_release(of);

	set_mode(06777);
	pf_vfs_release(open_as(node_a->ino, O_WRONLY | O_TRUNC, &god));
	expect_mode(06777);
	ck_assert_int_eq(set_attr(node_a->ino, &to, PF_SET_UID | PF_SET_GID, NULL, &god),
			 0);
	expect_mode(0777); /* chown(2): root is treated as others */
	set_mode(06777);
	ck_assert_int_eq(set_attr(node_a->ino, &to, PF_SET_GID, NULL, &me), 0);
	expect_mode(0777);
}

struct copying {
	struct pf_open *to, *from;
	_Atomic pid_t thread;
};

static void *copy_once(void *arg)
{
	struct copying *c = arg;

	c->thread = gettid();
	pf_vfs_copy(c->to, 0, c->from, 0, 4);
	return NULL;
}

/* In either direction the open at the lower address comes first, so two copies never wait for
 * each other. */
TEST_TIMES(a_copy_that_waits_for_one_open_does_not_hold_the_other, 2)
{
	struct pf_open *x = open_file(node_a, O_RDWR), *y = open_file(node_b, O_RDWR);
	struct pf_open *low = x < y ? x : y, *high = x < y ? y : x;
	struct copying c = { .to = _i ? low : high, .from = _i ? high : low };
	pthread_t thread;

	ck_assert_int_eq(put(c.from, "same", 0), 4);
	pf_lock(&low->lock);
	ck_assert_int_eq(pthread_create(&thread, NULL, copy_once, &c), 0);
	await_asleep(&c.thread);
	ck_assert_int_eq(pthread_mutex_trylock(&high->lock), 0);
	pf_unlock(&high->lock);
	pf_unlock(&low->lock);
	pthread_join(thread, NULL);
	ck_assert_mem_eq(_i ? (x < y ? a : b)->data : (x < y ? b : a)->data, "same", 4);
	pf_vfs_release(x);
	pf_vfs_release(y);
}

UNIT_FIXTURE(setup_two, teardown)
