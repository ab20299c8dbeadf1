/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a tree of toys: opened, read, written, committed. */
#include <unistd.h>

#include "vfs_toys.h"

TEST(a_text_is_rendered_at_open)
{
	uint64_t ino = look(1, "text").st_ino;
	struct pf_open *of = NULL;

	ck_assert_int_eq(look(1, "text").st_size, 5);
	ck_assert_int_eq(look(1, "text").st_blocks, 1);
	of = open_as(ino, O_RDONLY, &me);
	strcpy(word, "changed");
	ck_assert_int_eq(look(1, "text").st_size, 7);
	expect_read(of, 3, 0, "hel");
	expect_read(of, 30, 3, "lo");
	expect_read(of, 30, 5, "");
	expect_read(of, 30, 500, "");
	pf_vfs_release(of);
	ck_assert_int_eq(try_open(ino, O_WRONLY, &god, &of), -EACCES);
	word[0] = '\0';
	ck_assert_int_eq(try_open(ino, O_RDONLY, &me, &of), -ENODATA);
}

TEST(a_text_may_be_written)
{
	uint64_t ino = look(1, "option").st_ino;
	struct pf_open *of = NULL;

	of = open_as(ino, O_WRONLY | O_TRUNC, &god);
	ck_assert_int_eq(put(of, "new", 0), 3);
	ck_assert_int_eq(put(of, "much too long", 0), -EFBIG);
	ck_assert_int_eq(flush(of), 0);
	pf_vfs_release(of);
	ck_assert_str_eq(word, "new");
	of = open_as(ino, O_RDWR, &god);
	expect_read(of, 9, 0, "new");
	pf_vfs_release(of);
}

TEST(a_text_may_differ_between_users)
{
	uint64_t ino = look(1, "own").st_ino;
	struct pf_open *of = open_as(ino, O_RDONLY, &me);
	struct stat st;

	ck_assert(pf_vfs_keeps(tree, ino) & PF_ATTR_VARIES);
	strcpy(word, "changed");
	expect_read(of, 99, 0, "hello 7");
	ck_assert_int_eq(pf_vfs_getattr(tree, ino, &god, of, &st), 0);
	ck_assert_int_eq(st.st_size, strlen("hello 7"));
	ck_assert_int_eq(pf_vfs_getattr(tree, ino, &god, NULL, &st), 0);
	ck_assert_int_eq(st.st_size, strlen("changed 0"));
	ck_assert_int_eq(st.st_blocks, 1);
	pf_vfs_release(of);
	word[0] = '\0';
	ck_assert_int_eq(try_open(ino, O_RDONLY, &me, &of), -ENODATA);
	ck_assert_int_eq(pf_vfs_getattr(tree, ino, &god, NULL, &st), 0);
	ck_assert_int_eq(st.st_size, 0);
}

TEST(a_text_that_blocks_is_shown_later)
{
	uint64_t ino = look(1, "slow").st_ino;
	struct pf_open *of = NULL;
	struct pf_reply *reply;
	struct answer a;
	struct stat st;

	ck_assert_int_eq(pf_vfs_getattr(tree, ino, &me, NULL, &st), 0);
	ck_assert_int_eq(st.st_size, 0);
	pf_vfs_open(tree, ino, O_RDONLY, &me, &of, answer_begin(&a));
	ck_assert(!answer_is_sent(&a));
	sem_post(&may_show);
	ck_assert_int_eq(answer_take(&a), 0);
	expect_read(of, 99, 0, "hello 7");
	pf_vfs_release(of);
	ck_assert_int_eq(pf_vfs_create(tree, 1, "slow", 0, O_RDONLY, &god, &st, &of),
			 -ESTALE);

	/* A caller that is interrupted has not opened it, and the thread goes on. */
	reply = pf_reply_ref(answer_begin(&a));
	pf_vfs_open(tree, ino, O_RDONLY, &me, &of, reply);
	pf_reply_interrupt(reply);
	pf_reply_unref(reply);
	ck_assert(answer_is_sent(&a));
	sem_post(&may_show);
	ck_assert_int_eq(answer_take(&a), -EINTR);
	ck_assert_ptr_null(of);

	word[0] = '\0';
	sem_post(&may_show);
	ck_assert_int_eq(try_open(ino, O_RDONLY, &me, &of), -ENODATA);
}

TEST(prepared_bytes_wait)
{
	uint64_t ino = look(1, "prepared").st_ino;
	struct pf_open *of = NULL;
	struct answer a;
	struct stat st;

	pf_vfs_open(tree, ino, O_RDONLY, &me, &of, answer_begin(&a));
	ck_assert(!answer_is_sent(&a));
	strcpy(word, "ready");
	pf_reply_code(waiting, 0);
	ck_assert_int_eq(answer_take(&a), 0);
	expect_read(of, 9, 0, "ready");
	pf_vfs_release(of);

	pf_vfs_open(tree, ino, O_RDONLY, &me, &of, answer_begin(&a));
	pf_reply_code(waiting, -EIO);
	ck_assert_int_eq(answer_take(&a), -EIO);
	ck_assert_ptr_null(of);
	ck_assert_int_eq(pf_vfs_create(tree, 1, "prepared", 0, O_RDONLY, &god, &st, &of),
			 -ESTALE);
}

TEST(an_interrupted_open_is_not_open)
{
	uint64_t ino = look(1, "prepared").st_ino;
	struct pf_open *of = NULL;
	struct pf_reply *reply;
	struct answer a;

	reply = pf_reply_ref(answer_begin(&a));
	pf_vfs_open(tree, ino, O_RDONLY, &me, &of, reply);
	ck_assert(!pf_reply_gone(waiting));
	pf_reply_interrupt(reply);
	pf_reply_unref(reply);
	ck_assert(pf_reply_gone(waiting));
	ck_assert(answer_is_sent(&a));
	pf_reply_code(waiting, 0);
	ck_assert_int_eq(answer_take(&a), -EINTR);
	ck_assert_ptr_null(of);
}

TEST(kinds_without_functions_do_not_open)
{
	struct pf_open *of = NULL;
	struct pf_buf target = PF_BUF_INIT;

	ck_assert_int_eq(try_open(look(1, "dumb").st_ino, O_RDONLY, &god, &of), -EACCES);
	ck_assert_int_eq(try_open(look(1, "dumb").st_ino, O_WRONLY, &god, &of), -EACCES);
	ck_assert_int_eq(try_open(d, O_RDONLY, &god, &of), -EISDIR);
	ck_assert_int_eq(try_open(look(1, "link").st_ino, O_RDONLY, &god, &of), -ELOOP);
	ck_assert_int_eq(try_open(99, O_RDONLY, &god, &of), -ESTALE);
	ck_assert_int_eq(look(1, "link").st_size, 4);
	ck_assert_int_eq(pf_vfs_readlink(tree, look(1, "link").st_ino, &target), 0);
	ck_assert_str_eq(target.data, "text");
	pf_buf_release(&target);
	ck_assert_int_eq(pf_vfs_readlink(tree, d, &target), -EINVAL);
}

TEST(what_a_kind_does_not_open_is_not_released)
{
	struct pf_open *of = create("a", O_RDWR), *none = NULL;

	ck_assert_int_eq(try_open(of->node->ino, O_RDWR | O_SYNC, &god, &none), -EINVAL);
	pf_vfs_release(of);
}

TEST(bytes_are_committed_once_when_dirty)
{
	struct pf_open *of = create("a", O_RDWR);
	struct bytes *b = of->node->object;
	const struct stat st = { .st_size = 0 };

	ck_assert_int_eq(flush(of), 0); /* a shell's, before the first byte */
	ck_assert_int_eq(b->flushes, 0);
	ck_assert_int_eq(put(of, "good", 0), 4);
	expect_read(of, 99, 1, "ood");
	ck_assert_int_eq(sync_file(of), 0);
	ck_assert_int_eq(flush(of), 0);
	ck_assert_int_eq(flush(of), 0);
	ck_assert_int_eq(b->flushes, 1);
	ck_assert_int_eq(b->fsyncs, 1);

	ck_assert_int_eq(put(of, "bad", 0), 3);
	ck_assert_int_eq(sync_file(of), 0);
	ck_assert_int_eq(flush(of), -EINVAL);
	ck_assert_int_eq(flush(of), -EINVAL); /* it is repeated, and not tried again */
	ck_assert_int_eq(sync_file(of), 0);
	ck_assert_int_eq(b->flushes, 2);
	ck_assert_int_eq(put(of, "!", 0), -EINVAL); /* refused: not dirty */
	ck_assert_int_eq(flush(of), -EINVAL);
	ck_assert_int_eq(put(of, "gad", 0), 3);
	ck_assert_int_eq(flush(of), 0);
	ck_assert_int_eq(flush(of), 0);
	ck_assert_int_eq(b->flushes, 3);
	ck_assert_int_eq(put(of, "bad", 0), 3);
	ck_assert_int_eq(flush(of), -EINVAL);
	ck_assert_int_eq(set_attr(of->node->ino, &st, PF_SET_SIZE, of, &god), 0);
	ck_assert_int_eq(flush(of), 0);
	ck_assert_int_eq(b->flushes, 4);
	pf_vfs_release(of);
}

TEST(a_dying_writer_commits_nothing)
{
	struct pf_open *of = create("a", O_RDWR);
	struct bytes *b = of->node->object;

	ck_assert_int_eq(put(of, "half", 0), 4);
	ck_assert_int_eq(flush_dying(of), 0);
	ck_assert_int_eq(b->flushes, 0);
	ck_assert_int_eq(flush(of), 0); /* by a process that is not dying */
	ck_assert_int_eq(b->flushes, 1);
	pf_vfs_release(of);
}

TEST(a_commit_outlives_its_interrupted_caller)
{
	struct pf_open *of = create("a", O_RDWR);
	struct pf_reply *reply;
	struct answer a;

	ck_assert_int_eq(put(of, "later", 0), 5);
	reply = pf_reply_ref(answer_begin(&a));
	pf_vfs_flush(of, getpid(), reply);
	ck_assert(!pf_reply_gone(reply));
	ck_assert_int_eq(put(of, "more", 5), 4); /* no caller waits for it */
	pf_reply_interrupt(reply);
	pf_reply_unref(reply);
	ck_assert_int_eq(a.code, -EINTR);
	pf_vfs_release(of);
	ck_assert_int_eq(alive, 2); /* the kind still has both the open and the file */
	pf_reply_code(waiting, 0);
	answer_take(&a);
	ck_assert_int_eq(alive, 1);
}

TEST(sizes)
{
	struct pf_open *of = create("a", O_RDWR);
	struct stat to = { .st_size = 3 };
	uint64_t ino = of->node->ino;

	ck_assert_int_eq(put(of, "abcdef", 0), 6);
	ck_assert_int_eq(put(of, "x", 60), -EFBIG);
	ck_assert_int_eq(put(of, "x", UINT64_MAX), -EFBIG);
	ck_assert_int_eq(set_attr(ino, &to, PF_SET_SIZE, of, &me), 0);
	ck_assert_int_eq(now.st_size, 3);
	to.st_size = 61;
	ck_assert_int_eq(set_attr(ino, &to, PF_SET_SIZE, NULL, &god), -EFBIG);
	to.st_size = 10;
	ck_assert_int_eq(set_attr(ino, &to, PF_SET_SIZE, NULL, &god), 0);
	ck_assert_int_eq(look(d, "a").st_size, 10);
	ck_assert_int_eq(set_attr(d, &to, PF_SET_SIZE, NULL, &god), -EISDIR);
	pf_vfs_release(of);
	of = open_as(ino, O_WRONLY | O_TRUNC, &god);
	ck_assert_int_eq(look(d, "a").st_size, 0);
	pf_vfs_release(of);
	of = open_as(look(1, "text").st_ino, O_RDONLY, &god);
	ck_assert_int_eq(set_attr(look(1, "text").st_ino, &to, PF_SET_SIZE, of, &god),
			 -EBADF);
	pf_vfs_release(of);
}

UNIT_FIXTURE(setup, teardown)
