/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: every open is a conversation, writes and reads may wait and be interrupted. */
#include <fcntl.h>
#include <unistd.h>

#include "pjrtfs/vfs.h"
#include "unit.h"
#include "vfs_driver.h"

/* The last bytes written to one open. */
struct talk {
	char said[64];
	size_t len;
	struct pf_reply *writer, *reader; /* requests that wait */
};

static int talks; /* open ones */

static int talk_open(struct pf_open *of, struct pf_err *err)
{
	(void)err;
	if (!pf_open_reads(of))
		return -EINVAL;
	of->state = calloc(1, sizeof(struct talk));
	talks++;
	return 0;
}

static void talk_release(struct pf_open *of)
{
	free(of->state);
	talks--;
}

static void talk_send(struct pf_open *of, const void *src, size_t len,
		      struct pf_reply *reply)
{
	struct talk *t = of->state;

	/* No lock is held, so that a read can run meanwhile. */
	ck_assert_int_eq(pthread_mutex_trylock(&of->lock), 0);
	pthread_mutex_unlock(&of->lock);
	ck_assert_uint_le(len, sizeof(t->said));
	memcpy(t->said, src, len);
	t->len = len;
	if (memchr(src, '?', len))
		t->writer = reply;
	else
		pf_reply_count(reply, len);
}

static void talk_read(struct pf_open *of, size_t len, uint64_t off,
		      struct pf_reply *reply)
{
	struct talk *t = of->state;

	(void)off;
	ck_assert_int_eq(pthread_mutex_trylock(&of->lock), 0);
	pthread_mutex_unlock(&of->lock);
	if (!t->len)
		t->reader = reply;
	else
		pf_reply_data(reply, t->said, len < t->len ? len : t->len);
}

static const struct pf_kind talk = {
	.name = "talk",
	.mode = S_IFREG | 0666,
	.open = talk_open,
	.release = talk_release,
	.send = talk_send,
	.read = talk_read,
};
static const struct pf_kind root = {
	.mode = S_IFDIR | 0755,
	.children = (const struct pf_kind *const[]){ &talk, NULL },
};

static struct pf_tree *tree;
static const struct pf_cred god = { .uid = 0 };

static void setup(void)
{
	talks = 0;
	tree = pf_tree_new(&root, NULL, 0, 0);
}

static void teardown(void)
{
	ck_assert_int_eq(talks, 0);
	pf_tree_free(tree);
}

static uint64_t look_up(void)
{
	struct stat st;

	ck_assert_int_eq(pf_vfs_lookup(tree, 1, "talk", &st), 0);
	pf_vfs_forget(tree, st.st_ino, 1);
	return st.st_ino;
}

static struct pf_open *open_talk(uint64_t ino, int flags, int want)
{
	struct pf_open *of = NULL;

	ck_assert_int_eq(open_by(tree, ino, flags, &god, &of), want);
	return of;
}

static ssize_t send(struct pf_open *of, const char *text)
{
	return write_by(pf_vfs_write, of, text, strlen(text), 99);
}

TEST(each_open_is_a_stream)
{
	const uint64_t ino = look_up();
	uint64_t numbers[2];
	struct pf_open *of[2];
	struct answer ans;

	for (int i = 0; i < 2; i++) {
		numbers[i] = pf_vfs_alias(tree, ino, 1);
		of[i] = open_talk(numbers[i], O_RDWR | O_TRUNC, 0);
	}
	ck_assert_uint_ne(numbers[0], numbers[1]);
	ck_assert_uint_eq(pf_vfs_keeps(tree, ino) & PF_KEEP_NAME, 0);
	ck_assert_int_eq(send(of[0], "one"), 3);
	ck_assert_int_eq(send(of[1], "other"), 5);
	pf_vfs_read(of[0], 100, 5, answer_begin(&ans));
	ck_assert_int_eq(answer_wait(&ans), 3);
	ck_assert_str_eq(ans.data.data, "one");
	answer_end(&ans);
	pf_vfs_release(of[0]);
	pf_vfs_release(of[1]);
	open_talk(ino, O_WRONLY, -EINVAL);
}

TEST(writes_and_reads_wait)
{
	struct pf_open *of = open_talk(look_up(), O_RDWR, 0);
	struct talk *t = of->state;
	struct answer w, r;

	pf_vfs_read(of, 100, 0, answer_begin(&r));
	ck_assert(!answer_is_sent(&r));
	pf_vfs_write(of, "how?", 4, 0, answer_begin(&w));
	ck_assert(!answer_is_sent(&w));
	pf_reply_count(t->writer, 2);
	ck_assert_int_eq(answer_take(&w), 2);
	/* It is released while the read waits, which holds it. */
	pf_vfs_release(of);
	ck_assert_int_eq(talks, 1);
	pf_reply_data(t->reader, "so", 2);
	ck_assert_int_eq(answer_take(&r), 2);
	ck_assert_int_eq(talks, 0);
}

TEST(a_write_is_interrupted)
{
	struct pf_open *of = open_talk(look_up(), O_RDWR, 0);
	struct talk *t = of->state;
	struct answer w;

	pf_vfs_write(of, "how?", 4, 0, answer_begin(&w));
	pf_reply_interrupt(&w.reply);
	ck_assert(answer_is_sent(&w));
	ck_assert(!pf_reply_claim(t->writer));
	pf_reply_unref(t->writer);
	ck_assert_int_eq(answer_take(&w), -EINTR);
	pf_vfs_release(of);
}

/* It has no size, so nothing can be mapped; closing commits nothing. */
TEST(a_stream_has_no_size_and_no_pages)
{
	uint64_t ino = look_up();
	struct pf_open *of = open_talk(ino, O_RDWR, 0);
	struct stat st = { .st_size = 100 }, got;

	ck_assert_int_eq(pf_vfs_setattr(tree, ino, &st, PF_SET_SIZE, of, &god, &got), 0);
	ck_assert_int_eq(got.st_size, 0);
	ck_assert_int_eq(write_by(pf_vfs_write_mapped, of, "x", 1, 0), -EIO);
	ck_assert_int_eq(pf_vfs_copy(of, 0, of, 0, 10), -EXDEV);
	ck_assert_int_eq(pf_vfs_allocate(of, 0, 0, 10), -EOPNOTSUPP);
	ck_assert_int_eq(flush(of), 0);
	pf_vfs_release(of);
}

UNIT_FIXTURE(setup, teardown)
