/* File operations, on a tree of toys. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pjrtfs/tree/ctl.h"
#include "pjrtfs/tree/vfs.h"
#include "unit.h"
#include "vfs_driver.h"

/* A file of bytes.  Content that starts with "bad" cannot be committed. */
struct bytes {
	pthread_mutex_t lock;
	char data[64];
	size_t len;
	int flushes, fsyncs;
};

static int alive;                /* files and open files */
static char word[9];             /* what the text file shows */
static struct pf_reply *waiting; /* what the test answers */

static int text_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	if (!word[0])
		return pf_err_set(err, -ENODATA, "%s has no word", node->kind->name);
	pf_buf_puts(out, word);
	return 0;
}

static void text_prepare(struct pf_open *of, struct pf_reply *reply)
{
	(void)of;
	waiting = reply;
}

static ssize_t option_write(struct pf_open *of, const void *src, size_t len, uint64_t off,
			    struct pf_err *err)
{
	(void)of;
	if (off + len >= sizeof(word))
		return pf_err_set(err, -EFBIG, "too long a word");
	memcpy(word + off, src, len);
	word[off + len] = '\0';
	return (ssize_t)len;
}

static int link_read(struct pf_node *node, struct pf_buf *out)
{
	(void)node;
	pf_buf_puts(out, "text");
	return 0;
}

static int bytes_open(struct pf_open *of, struct pf_err *err)
{
	(void)of;
	(void)err;
	__atomic_add_fetch(&alive, 1, __ATOMIC_SEQ_CST);
	return 0;
}

static void bytes_release(struct pf_open *of)
{
	(void)of;
	__atomic_sub_fetch(&alive, 1, __ATOMIC_SEQ_CST);
}

static void bytes_read(struct pf_open *of, size_t len, uint64_t off,
		       struct pf_reply *reply)
{
	struct bytes *b = of->node->object;
	char copy[sizeof(b->data)];
	size_t n = 0;

	pf_lock(&b->lock);
	if (off < b->len) {
		n = b->len - off < len ? b->len - off : len;
		memcpy(copy, b->data + off, n);
	}
	pf_unlock(&b->lock);
	pf_reply_data(reply, copy, n);
}

static ssize_t bytes_write(struct pf_open *of, const void *src, size_t len, uint64_t off,
			   struct pf_err *err)
{
	struct bytes *b = of->node->object;

	PF_LOCK_SCOPE(&b->lock);
	if (memchr(src, '!', len))
		return pf_err_set(err, -EINVAL, "no exclamations");
	memcpy(b->data + off, src, len);
	if (off + len > b->len)
		b->len = off + len;
	return (ssize_t)len;
}

static int bytes_truncate(struct pf_node *node, struct pf_open *of, uint64_t size,
			  struct pf_err *err)
{
	struct bytes *b = node->object;

	(void)of;
	PF_LOCK_SCOPE(&b->lock);
	if (size > sizeof(b->data))
		return pf_err_set(err, -EFBIG, "too large");
	if (size > b->len)
		memset(b->data + b->len, 0, size - b->len);
	b->len = size;
	return 0;
}

static void bytes_commit(struct pf_open *of, enum pf_commit why, struct pf_reply *reply)
{
	struct bytes *b = of->node->object;
	bool bad, later;

	pf_lock(&b->lock);
	if (why == PF_COMMIT_FLUSH)
		b->flushes++;
	else
		b->fsyncs++;
	bad = why == PF_COMMIT_FLUSH && !memcmp(b->data, "bad", 3);
	later = !memcmp(b->data, "later", 5);
	pf_unlock(&b->lock);
	if (later)
		waiting = reply;
	else
		pf_reply_code(reply, bad ? -EINVAL : 0);
}

static void bytes_getattr(struct pf_node *node, struct stat *st)
{
	struct bytes *b = node->object;

	PF_LOCK_SCOPE(&b->lock);
	st->st_size = (off_t)b->len;
}

static void bytes_free(struct pf_node *node)
{
	struct bytes *b = node->object;

	pthread_mutex_destroy(&b->lock);
	free(b);
	__atomic_sub_fetch(&alive, 1, __ATOMIC_SEQ_CST);
}

static const struct pf_kind bytes = {
	.mode = S_IFREG | 0644,
	.max_write = 60,
	.open = bytes_open,
	.release = bytes_release,
	.read = bytes_read,
	.write = bytes_write,
	.truncate = bytes_truncate,
	.commit = bytes_commit,
	.getattr = bytes_getattr,
	.free = bytes_free,
};

static int dir_create(struct pf_node *dir, const char *name, mode_t mode,
		      const struct pf_cred *cred, struct pf_node **ret,
		      struct pf_err *err)
{
	struct bytes *b = calloc(1, sizeof(*b));
	int r;

	(void)err;
	pthread_mutex_init(&b->lock, NULL);
	__atomic_add_fetch(&alive, 1, __ATOMIC_SEQ_CST);
	*ret = pf_node_new(dir->tree, &bytes, b, mode, cred);
	r = pf_dir_link(dir, name, *ret, false);
	if (r < 0) {
		pf_node_unref(*ret);
		*ret = NULL;
	}
	return r;
}

static const struct pf_kind view;

/* NAME.view is there for every NAME, unlisted. */
static int dir_lookup(struct pf_node *dir, const char *name, struct pf_node **ret,
		      struct pf_err *err)
{
	size_t len = strlen(name);

	if (len < 5 || strcmp(name + len - 5, ".view"))
		return pf_err_set(err, -ENOENT, "no %s", name);
	*ret = pf_node_new(dir->tree, &view, NULL, (mode_t)-1, NULL);
	return 0;
}

static int dir_mkdir(struct pf_node *, const char *, mode_t, const struct pf_cred *,
		     struct pf_node **, struct pf_err *);

static int dir_unlink(struct pf_node *dir, struct pf_node *node, struct pf_err *err)
{
	(void)dir;
	if (node->kind == &view)
		return pf_err_set(err, -EPERM, "a view");
	pf_dir_unlink(node);
	return 0;
}

static int dir_rename(struct pf_node *dir, struct pf_node *node, struct pf_node *to,
		      const char *name, unsigned flags, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *other = NULL;

	(void)dir;
	(void)err;
	if (!(flags & RENAME_EXCHANGE))
		return pf_dir_move(node, to, name);
	other = pf_dir_lookup(to, name);
	return pf_dir_exchange(node, other);
}

static const struct pf_dir_ops dir_ops = {
	.lookup = dir_lookup,
	.create = dir_create,
	.mkdir = dir_mkdir,
	.unlink = dir_unlink,
	.rmdir = dir_unlink,
	.rename = dir_rename,
};

static const struct pf_kind text = { .name = "text",
				     .mode = S_IFREG | 0444,
				     .show = text_show };
static const struct pf_kind prepared = {
	.name = "prepared",
	.mode = S_IFREG | 0444,
	.show = text_show,
	.prepare = text_prepare,
};
static const struct pf_kind option = {
	.name = "option",
	.mode = S_IFREG | 0644,
	.show = text_show,
	.write = option_write,
};
static const struct pf_kind dumb = { .name = "dumb", .mode = S_IFREG | 0666 };
static const struct pf_kind view = { .mode = S_IFREG | 0444, .show = text_show };
static const struct pf_kind to_text = { .name = "link",
					.mode = S_IFLNK | 0777,
					.readlink = link_read };
static const struct pf_kind dir = {
	.name = "dir",
	.mode = S_IFDIR | 0777,
	.dir = &dir_ops,
};
static const struct pf_kind whole = {
	.mode = S_IFDIR | 0755,
	.children = (const struct pf_kind *const[]){ &text, NULL },
};
static const struct pf_kind root = {
	.mode = S_IFDIR | 0755,
	.children = (const struct pf_kind *const[]){ &text, &prepared, &option, &dumb,
						     &to_text, &dir, NULL },
};

static int dir_mkdir(struct pf_node *in, const char *name, mode_t mode,
		     const struct pf_cred *cred, struct pf_node **ret, struct pf_err *err)
{
	(void)err;
	*ret = pf_node_new(in->tree, !strcmp(name, "whole") ? &whole : &dir, NULL, mode,
			   cred);
	return pf_dir_link(in, name, *ret, false);
}

static struct pf_tree *tree;
static uint64_t d; /* the directory's number */
static const struct pf_cred god = { .uid = 0 }, me = { .uid = 7, .gid = 7 };

static struct stat look(uint64_t in, const char *name)
{
	struct stat st;

	ck_assert_int_eq(pf_vfs_lookup(tree, in, name, &st), 0);
	pf_vfs_forget(tree, st.st_ino, 1);
	return st;
}

static int miss(uint64_t in, const char *name)
{
	struct stat st;

	return pf_vfs_lookup(tree, in, name, &st);
}

static void setup(void)
{
	alive = 0;
	strcpy(word, "hello");
	tree = pf_tree_new(&root, NULL, 0, 0);
	ck_assert_ptr_nonnull(tree);
	d = look(1, "dir").st_ino;
}

static void teardown(void)
{
	pf_tree_free(tree);
	ck_assert_int_eq(alive, 0);
}

static int try_open(uint64_t ino, int flags, const struct pf_cred *cred,
		    struct pf_open **ret)
{
	struct answer a;
	int r;

	pf_vfs_open(tree, ino, flags, cred, ret, answer_begin(&a));
	r = (int)answer_wait(&a);
	answer_end(&a);
	ck_assert_int_eq(r == 0, *ret != NULL);
	return r;
}

static struct pf_open *create_as(const char *name, int flags, const struct pf_cred *cred)
{
	struct pf_open *of = NULL;
	struct stat st;

	ck_assert_int_eq(pf_vfs_create(tree, d, name, 0644, O_CREAT | flags, cred, &st,
				       &of),
			 0);
	pf_vfs_forget(tree, st.st_ino, 1);
	return of;
}

static struct pf_open *create(const char *name, int flags)
{
	return create_as(name, flags, &god);
}

static void touch(const char *name)
{
	pf_vfs_release(create(name, O_WRONLY));
}

static ssize_t put(struct pf_open *of, const char *data, uint64_t off)
{
	return write_by(pf_vfs_write, of, data, strlen(data), off);
}

static void expect_read(struct pf_open *of, size_t len, uint64_t off, const char *want)
{
	struct answer a;

	pf_vfs_read(of, len, off, answer_begin(&a));
	ck_assert_int_eq(answer_wait(&a), (ssize_t)strlen(want));
	ck_assert_str_eq(a.data.data ? a.data.data : "", want);
	answer_end(&a);
}

START_TEST(lookups)
{
	struct stat st;

	ck_assert_uint_eq(look(1, ".").st_ino, 1);
	ck_assert_uint_eq(look(1, "..").st_ino, 1);
	ck_assert_uint_eq(look(d, "..").st_ino, 1);
	ck_assert_int_eq(miss(1, "nothing"), -ENOENT);
	ck_assert_int_eq(miss(99, "nothing"), -ENOENT);
	ck_assert_int_eq(miss(look(1, "text").st_ino, "x"), -ENOTDIR);
	ck_assert_int_eq(pf_vfs_getattr(tree, 99, &st), -ENOENT);
	st = look(1, "dir");
	ck_assert_uint_eq(st.st_nlink, 2);
	ck_assert_uint_eq(look(1, ".").st_nlink, 3);
}
END_TEST

START_TEST(the_kernels_lookups_keep_a_node)
{
	struct stat st, again;

	touch("a");
	ck_assert_int_eq(pf_vfs_lookup(tree, d, "a", &st), 0);
	ck_assert_int_eq(pf_vfs_lookup(tree, d, "a", &st), 0);
	ck_assert_int_eq(pf_vfs_unlink(tree, d, "a", &god), 0);
	ck_assert_int_eq(alive, 1);
	ck_assert_int_eq(pf_vfs_getattr(tree, st.st_ino, &again), 0);
	ck_assert_uint_eq(again.st_nlink, 0);
	pf_vfs_forget(tree, st.st_ino, 1);
	ck_assert_int_eq(alive, 1);
	pf_vfs_forget(tree, st.st_ino, 1);
	ck_assert_int_eq(alive, 0);
	ck_assert_int_eq(pf_vfs_getattr(tree, st.st_ino, &again), -ENOENT);
}
END_TEST

START_TEST(unlisted_names_open_but_do_not_list)
{
	struct pf_listing *listing;
	struct pf_open *of = NULL;
	struct stat st;

	ck_assert_int_eq(pf_vfs_lookup(tree, d, "x.view", &st), 0);
	ck_assert_int_eq(try_open(st.st_ino, O_RDONLY, &me, &of), 0);
	pf_vfs_forget(tree, st.st_ino, 1);
	expect_read(of, 9, 0, "hello");
	pf_vfs_release(of);
	ck_assert_int_eq(pf_vfs_unlink(tree, d, "x.view", &god), -EPERM);
	ck_assert_int_eq(pf_vfs_mkdir(tree, d, "x.view", 0755, &god, &st), -EEXIST);
	ck_assert_int_eq(pf_vfs_list(tree, d, &listing), 0);
	ck_assert_uint_eq(listing->n, 2);
	pf_listing_free(listing);
}
END_TEST

START_TEST(lists)
{
	struct pf_listing *listing;

	ck_assert_int_eq(pf_vfs_list(tree, 1, &listing), 0);
	ck_assert_uint_eq(listing->n, 8);
	ck_assert_str_eq(listing->entries[0].name, ".");
	ck_assert_str_eq(listing->entries[1].name, "..");
	ck_assert_str_eq(listing->entries[2].name, "text");
	ck_assert_str_eq(listing->entries[7].name, "dir");
	ck_assert_uint_eq(listing->entries[7].ino, d);
	ck_assert(S_ISDIR(listing->entries[7].mode));
	pf_listing_free(listing);
	ck_assert_int_eq(pf_vfs_list(tree, look(1, "text").st_ino, &listing), -ENOTDIR);
}
END_TEST

START_TEST(a_text_is_printed_at_open)
{
	uint64_t ino = look(1, "text").st_ino;
	struct pf_open *of = NULL;

	ck_assert_int_eq(look(1, "text").st_size, 5);
	ck_assert_int_eq(look(1, "text").st_blocks, 1);
	ck_assert_int_eq(try_open(ino, O_RDONLY, &me, &of), 0);
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
END_TEST

START_TEST(a_text_may_be_written)
{
	uint64_t ino = look(1, "option").st_ino;
	struct pf_open *of = NULL;

	ck_assert_int_eq(try_open(ino, O_WRONLY | O_TRUNC, &god, &of), 0);
	ck_assert_int_eq(put(of, "new", 0), 3);
	ck_assert_int_eq(put(of, "much too long", 0), -EFBIG);
	ck_assert_int_eq(flush(of), 0);
	pf_vfs_release(of);
	ck_assert_str_eq(word, "new");
	ck_assert_int_eq(try_open(ino, O_WRONLY, &me, &of), -EACCES);
	ck_assert_int_eq(try_open(ino, O_RDWR, &god, &of), 0);
	expect_read(of, 9, 0, "new");
	pf_vfs_release(of);
}
END_TEST

START_TEST(a_prepared_text_waits)
{
	uint64_t ino = look(1, "prepared").st_ino;
	struct pf_open *of = NULL;
	struct answer a;
	struct stat st;

	ck_assert_uint_eq((size_t)look(1, "prepared").st_size, strlen(word));
	pf_vfs_open(tree, ino, O_RDONLY, &me, &of, answer_begin(&a));
	ck_assert(!answer_is_sent(&a));
	strcpy(word, "ready");
	pf_reply_code(waiting, 0);
	ck_assert_int_eq(answer_wait(&a), 0);
	answer_end(&a);
	expect_read(of, 9, 0, "ready");
	pf_vfs_release(of);

	pf_vfs_open(tree, ino, O_RDONLY, &me, &of, answer_begin(&a));
	pf_reply_code(waiting, -EIO);
	ck_assert_int_eq(answer_wait(&a), -EIO);
	ck_assert_ptr_null(of);
	answer_end(&a);
	ck_assert_int_eq(pf_vfs_create(tree, 1, "prepared", 0, O_RDONLY, &god, &st, &of),
			 -ESTALE);
}
END_TEST

START_TEST(an_interrupted_open_is_not_open)
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
	ck_assert_int_eq(answer_wait(&a), -EINTR);
	ck_assert_ptr_null(of);
	pf_reply_code(waiting, 0);
	answer_end(&a);
}
END_TEST

START_TEST(kinds_without_functions_do_not_open)
{
	struct pf_open *of = NULL;
	struct pf_buf target = PF_BUF_INIT;

	ck_assert_int_eq(try_open(look(1, "dumb").st_ino, O_RDONLY, &god, &of), -EACCES);
	ck_assert_int_eq(try_open(look(1, "dumb").st_ino, O_WRONLY, &god, &of), -EACCES);
	ck_assert_int_eq(try_open(d, O_RDONLY, &god, &of), -EISDIR);
	ck_assert_int_eq(try_open(look(1, "link").st_ino, O_RDONLY, &god, &of), -ELOOP);
	ck_assert_int_eq(try_open(99, O_RDONLY, &god, &of), -ENOENT);
	ck_assert_int_eq(look(1, "link").st_size, 4);
	ck_assert_int_eq(pf_vfs_readlink(tree, look(1, "link").st_ino, &target), 0);
	ck_assert_str_eq(target.data, "text");
	pf_buf_release(&target);
	ck_assert_int_eq(pf_vfs_readlink(tree, d, &target), -EINVAL);
}
END_TEST

START_TEST(bytes_are_committed_once_when_dirty)
{
	struct pf_open *of = create("a", O_RDWR);
	struct bytes *b = of->node->object;

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
	ck_assert_int_eq(flush(of), 0);
	ck_assert_int_eq(sync_file(of), 0);
	ck_assert_int_eq(b->flushes, 2);
	ck_assert_int_eq(put(of, "!", 0), -EINVAL); /* refused: not dirty */
	ck_assert_int_eq(flush(of), 0);
	ck_assert_int_eq(put(of, "gad", 0), 3);
	ck_assert_int_eq(flush(of), 0);
	ck_assert_int_eq(b->flushes, 3);
	pf_vfs_release(of);
}
END_TEST

START_TEST(a_dying_writer_commits_nothing)
{
	struct pf_open *of = create("a", O_RDWR);
	struct bytes *b = of->node->object;
	struct answer a;
	pid_t pid;

	ck_assert_int_eq(put(of, "half", 0), 4);
	pid = fork();
	if (pid == 0) {
		raise(SIGKILL);
		_exit(0);
	}
	/* Not reaped yet: it is as one that closes its files. */
	waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
	pf_vfs_flush(of, pid, answer_begin(&a));
	ck_assert_int_eq(answer_wait(&a), 0);
	answer_end(&a);
	ck_assert_int_eq(b->flushes, 0);
	waitpid(pid, NULL, 0);
	ck_assert_int_eq(flush(of), 0); /* by somebody who lives */
	ck_assert_int_eq(b->flushes, 1);
	pf_vfs_release(of);
}
END_TEST

START_TEST(a_commit_outlives_its_interrupted_caller)
{
	struct pf_open *of = create("a", O_RDWR);
	struct pf_reply *reply;
	struct answer a;

	ck_assert_int_eq(put(of, "later", 0), 5);
	reply = pf_reply_ref(answer_begin(&a));
	pf_vfs_flush(of, getpid(), reply);
	ck_assert(!pf_reply_gone(reply));
	ck_assert_int_eq(put(of, "more", 5), 4); /* nobody waits for it */
	pf_reply_interrupt(reply);
	pf_reply_unref(reply);
	ck_assert_int_eq(a.code, -EINTR);
	pf_vfs_release(of);
	ck_assert_int_eq(alive, 2); /* the kind still has both the open and the file */
	pf_reply_code(waiting, 0);
	answer_wait(&a);
	ck_assert_int_eq(alive, 1);
	answer_end(&a);
}
END_TEST

START_TEST(sizes)
{
	struct pf_open *of = create("a", O_RDWR);
	struct stat st, to = { .st_size = 3 };
	uint64_t ino = of->node->ino;

	ck_assert_int_eq(put(of, "abcdef", 0), 6);
	ck_assert_int_eq(put(of, "x", 60), -EFBIG);
	ck_assert_int_eq(put(of, "x", UINT64_MAX), -EFBIG);
	ck_assert_int_eq(pf_vfs_setattr(tree, ino, &to, PF_SET_SIZE, of, &me, &st), 0);
	ck_assert_int_eq(st.st_size, 3);
	to.st_size = 61;
	ck_assert_int_eq(pf_vfs_setattr(tree, ino, &to, PF_SET_SIZE, NULL, &god, &st),
			 -EFBIG);
	to.st_size = 10;
	ck_assert_int_eq(pf_vfs_setattr(tree, ino, &to, PF_SET_SIZE, NULL, &me, &st),
			 -EACCES);
	ck_assert_int_eq(pf_vfs_setattr(tree, ino, &to, PF_SET_SIZE, NULL, &god, &st), 0);
	ck_assert_int_eq(look(d, "a").st_size, 10);
	ck_assert_int_eq(pf_vfs_setattr(tree, d, &to, PF_SET_SIZE, NULL, &god, &st),
			 -EISDIR);
	pf_vfs_release(of);
	ck_assert_int_eq(try_open(ino, O_WRONLY | O_TRUNC, &god, &of), 0);
	ck_assert_int_eq(look(d, "a").st_size, 0);
	pf_vfs_release(of);
	ck_assert_int_eq(try_open(look(1, "text").st_ino, O_RDONLY, &god, &of), 0);
	ck_assert_int_eq(pf_vfs_setattr(tree, look(1, "text").st_ino, &to, PF_SET_SIZE,
					of, &god, &st),
			 -EBADF);
	pf_vfs_release(of);
}
END_TEST

START_TEST(attributes)
{
	struct pf_open *of = create_as("a", O_RDWR, &me);
	struct stat st, to = { .st_mode = 0600, .st_uid = 9, .st_gid = 9 };
	struct pf_cred other = { .uid = 8, .gid = 8 };
	uint64_t ino = of->node->ino;

	pf_vfs_release(of);
	ck_assert_uint_eq(look(d, "a").st_uid, 7);
	ck_assert_int_eq(pf_vfs_setattr(tree, ino, &to, PF_SET_MODE, NULL, &other, &st),
			 -EPERM);
	ck_assert_int_eq(pf_vfs_setattr(tree, ino, &to, PF_SET_MODE, NULL, &me, &st), 0);
	ck_assert_uint_eq(st.st_mode, S_IFREG | 0600);
	ck_assert_int_eq(pf_vfs_setattr(tree, ino, &to, PF_SET_UID, NULL, &me, &st),
			 -EPERM);
	ck_assert_int_eq(pf_vfs_setattr(tree, ino, &to, PF_SET_GID, NULL, &me, &st),
			 -EPERM);
	to.st_mtim.tv_sec = 1000;
	to.st_atim.tv_nsec = UTIME_NOW;
	ck_assert_int_eq(pf_vfs_setattr(tree, ino, &to, PF_SET_MTIME, NULL, &other, &st),
			 -EPERM);
	ck_assert_int_eq(pf_vfs_setattr(tree, ino, &to, PF_SET_ATIME, NULL, &other, &st),
			 -EACCES);
	ck_assert_int_eq(pf_vfs_setattr(tree, ino, &to, PF_SET_MTIME | PF_SET_ATIME, NULL,
					&me, &st),
			 0);
	ck_assert_int_eq(st.st_mtim.tv_sec, 1000);
	ck_assert_int_gt(st.st_atim.tv_sec, 1000);
	ck_assert_int_eq(pf_vfs_setattr(tree, ino, &to, PF_SET_UID | PF_SET_GID, NULL,
					&god, &st),
			 0);
	ck_assert_uint_eq(st.st_uid, 9);
	ck_assert_uint_eq(st.st_gid, 9);
}
END_TEST

START_TEST(creating)
{
	struct pf_open *of = NULL;
	struct stat st;

	touch("a");
	ck_assert_int_eq(pf_vfs_create(tree, d, "a", 0644, O_CREAT | O_EXCL, &god, &st,
				       &of),
			 -EEXIST);
	of = create("a", O_RDWR); /* opens it */
	pf_vfs_release(of);
	ck_assert_int_eq(pf_vfs_create(tree, d, "b\n", 0644, O_CREAT, &god, &st, &of),
			 -EINVAL);
	ck_assert_int_eq(pf_vfs_create(tree, 1, "b", 0644, O_CREAT, &me, &st, &of),
			 -EACCES);
	ck_assert_int_eq(pf_vfs_create(tree, 1, "b", 0644, O_CREAT, &god, &st, &of),
			 -EPERM);
	/* What it may do with it later is no matter when it is made. */
	ck_assert_int_eq(pf_vfs_create(tree, d, "ro", 0400, O_CREAT | O_WRONLY | O_TRUNC,
				       &me, &st, &of),
			 0);
	ck_assert_int_eq(put(of, "x", 0), 1);
	pf_vfs_release(of);
	pf_vfs_forget(tree, st.st_ino, 1);
	ck_assert_int_eq(try_open(st.st_ino, O_WRONLY, &me, &of), -EACCES);
}
END_TEST

START_TEST(removing)
{
	struct stat st;

	touch("a");
	ck_assert_int_eq(pf_vfs_mkdir(tree, d, "sub", 0755, &god, &st), 0);
	pf_vfs_forget(tree, st.st_ino, 1);
	ck_assert_int_eq(pf_vfs_mkdir(tree, d, "sub", 0755, &god, &st), -EEXIST);
	ck_assert_int_eq(pf_vfs_mkdir(tree, d, "..", 0755, &god, &st), -EINVAL);
	ck_assert_int_eq(pf_vfs_unlink(tree, d, "sub", &god), -EISDIR);
	ck_assert_int_eq(pf_vfs_rmdir(tree, d, "a", &god), -ENOTDIR);
	ck_assert_int_eq(pf_vfs_rmdir(tree, d, "nothing", &god), -ENOENT);
	ck_assert_int_eq(pf_vfs_rename(tree, d, "a", look(d, "sub").st_ino, "b", 0, &god),
			 0);
	ck_assert_int_eq(pf_vfs_rmdir(tree, d, "sub", &god), -ENOTEMPTY);
	ck_assert_int_eq(pf_vfs_unlink(tree, look(d, "sub").st_ino, "b", &god), 0);
	ck_assert_int_eq(pf_vfs_rmdir(tree, d, "sub", &god), 0);
	/* What the kind lists in it does not keep a directory. */
	ck_assert_int_eq(pf_vfs_mkdir(tree, d, "whole", 0755, &god, &st), 0);
	pf_vfs_forget(tree, st.st_ino, 1);
	ck_assert_int_eq(pf_vfs_rmdir(tree, d, "whole", &god), 0);
	ck_assert_int_eq(pf_vfs_unlink(tree, 1, "text", &god), -EPERM);
	ck_assert_int_eq(pf_vfs_rmdir(tree, 1, "dir", &god), -EPERM);
}
END_TEST

START_TEST(sticky_directories)
{
	struct pf_cred other = { .uid = 8, .gid = 8 };
	struct stat st, to = { .st_mode = 01777 };

	ck_assert_int_eq(pf_vfs_setattr(tree, d, &to, PF_SET_MODE, NULL, &god, &st), 0);
	pf_vfs_release(create_as("a", O_WRONLY, &me));
	ck_assert_int_eq(pf_vfs_unlink(tree, d, "a", &other), -EPERM);
	ck_assert_int_eq(pf_vfs_rename(tree, d, "a", d, "b", 0, &other), -EPERM);
	ck_assert_int_eq(pf_vfs_unlink(tree, d, "a", &me), 0);
}
END_TEST

START_TEST(renaming)
{
	struct stat st, a;

	touch("a");
	touch("b");
	a = look(d, "a");
	ck_assert_int_eq(pf_vfs_mkdir(tree, d, "s", 0755, &god, &st), 0);
	pf_vfs_forget(tree, st.st_ino, 1);
	ck_assert_int_eq(pf_vfs_rename(tree, d, "a", d, "b", RENAME_NOREPLACE, &god),
			 -EEXIST);
	ck_assert_int_eq(pf_vfs_rename(tree, d, "a", d, "c", RENAME_EXCHANGE, &god),
			 -ENOENT);
	ck_assert_int_eq(pf_vfs_rename(tree, d, "a", d, "b", RENAME_WHITEOUT, &god),
			 -EINVAL);
	ck_assert_int_eq(pf_vfs_rename(tree, d, "a", d, "b", RENAME_EXCHANGE, &god), 0);
	ck_assert_uint_eq(look(d, "b").st_ino, a.st_ino);
	ck_assert_int_eq(pf_vfs_rename(tree, d, "b", d, "a", 0, &god), 0);
	ck_assert_uint_eq(look(d, "a").st_ino, a.st_ino);
	ck_assert_int_eq(alive, 1);
	ck_assert_int_eq(pf_vfs_rename(tree, d, "a", d, "s", 0, &god), -EISDIR);
	ck_assert_int_eq(pf_vfs_rename(tree, d, "s", d, "a", 0, &god), -ENOTDIR);
	ck_assert_int_eq(pf_vfs_rename(tree, d, "s", st.st_ino, "t", 0, &god), -EINVAL);
	ck_assert_int_eq(pf_vfs_rename(tree, d, "a", d, "x/y", 0, &god), -EINVAL);
	ck_assert_int_eq(pf_vfs_rename(tree, d, "a", d, "a", 0, &god), 0);
	ck_assert_int_eq(pf_vfs_rename(tree, d, "a", 1, "a", 0, &me), -EACCES);
	ck_assert_int_eq(pf_vfs_rename(tree, 1, "text", d, "a", 0, &god), -EPERM);
}
END_TEST

/* Several threads use the same few names at once. */
static void *stress(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	struct pf_cred cred = { .uid = 0 };

	for (int i = 0; i < 3000; i++) {
		char from[2] = { (char)('a' + rand_r(&seed) % 4) };
		char to[2] = { (char)('a' + rand_r(&seed) % 4) };
		struct pf_listing *listing;
		struct pf_open *of = NULL;
		struct stat st;

		switch (rand_r(&seed) % 6) {
		case 0:
			if (pf_vfs_create(tree, d, from, 0644, O_CREAT | O_RDWR, &cred,
					  &st, &of) < 0)
				break;
			put(of, "some", (uint64_t)(rand_r(&seed) % 40));
			flush(of);
			pf_vfs_release(of);
			pf_vfs_forget(tree, st.st_ino, 1);
			break;
		case 1:
			pf_vfs_unlink(tree, d, from, &cred);
			break;
		case 2:
			pf_vfs_rename(tree, d, from, d, to, 0, &cred);
			break;
		case 3:
			if (pf_vfs_list(tree, d, &listing) == 0)
				pf_listing_free(listing);
			break;
		case 4:
			pf_vfs_rename(tree, d, from, d, to, RENAME_EXCHANGE, &cred);
			break;
		default:
			if (pf_vfs_lookup(tree, d, from, &st) < 0)
				break;
			if (try_open(st.st_ino, O_RDONLY, &cred, &of) == 0)
				pf_vfs_release(of);
			pf_vfs_forget(tree, st.st_ino, 1);
			break;
		}
	}
	return NULL;
}

START_TEST(many_at_once)
{
	pthread_t threads[4];

	for (uintptr_t i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, stress,
						(void *)(i + 1)),
				 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("vfs");
	TCase *tc = tcase_create("core");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, lookups);
	tcase_add_test(tc, the_kernels_lookups_keep_a_node);
	tcase_add_test(tc, unlisted_names_open_but_do_not_list);
	tcase_add_test(tc, lists);
	tcase_add_test(tc, a_text_is_printed_at_open);
	tcase_add_test(tc, a_text_may_be_written);
	tcase_add_test(tc, a_prepared_text_waits);
	tcase_add_test(tc, an_interrupted_open_is_not_open);
	tcase_add_test(tc, kinds_without_functions_do_not_open);
	tcase_add_test(tc, bytes_are_committed_once_when_dirty);
	tcase_add_test(tc, a_dying_writer_commits_nothing);
	tcase_add_test(tc, a_commit_outlives_its_interrupted_caller);
	tcase_add_test(tc, sizes);
	tcase_add_test(tc, attributes);
	tcase_add_test(tc, creating);
	tcase_add_test(tc, removing);
	tcase_add_test(tc, sticky_directories);
	tcase_add_test(tc, renaming);
	tcase_add_test(tc, many_at_once);
	suite_add_tcase(s, tc);
	return unit_run(s);
}
