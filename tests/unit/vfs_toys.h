/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of toys: files of text, files of bytes, directories.  Static: each test has its own. */
#ifndef PJRTFS_TESTS_UNIT_VFS_TOYS_H
#define PJRTFS_TESTS_UNIT_VFS_TOYS_H

#include <fcntl.h>
#include <linux/falloc.h>
#include <semaphore.h>
#include <stdio.h>

#include "pjrtfs/kind.h"
#include "pjrtfs/tree.h"
#include "pjrtfs/vfs.h"
#include "pjrtfs/wait.h"
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

static inline int text_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	if (!word[0])
		return pf_err_set(err, -ENODATA, "%s has no word", node->kind->name);
	pf_buf_puts(out, word);
	return 0;
}

/* Each user's word has their number behind it. */
static inline int word_of(struct pf_node *node, const struct pf_cred *cred,
			  struct pf_buf *out, struct pf_err *err)
{
	int r = text_show(node, out, err);

	pf_buf_printf(out, " %u", cred->uid);
	return r;
}

/* The same, when the test posts this. */
static sem_t may_show;

static inline int word_later(struct pf_node *node, const struct pf_cred *cred,
			     struct pf_buf *out, struct pf_err *err)
{
	sem_wait(&may_show);
	return word_of(node, cred, out, err);
}

static inline void word_read(struct pf_open *of, size_t len, uint64_t off,
			     struct pf_reply *reply)
{
	(void)of;
	(void)len;
	(void)off;
	pf_reply_data(reply, word, strlen(word));
}

static inline void text_prepare(struct pf_open *of, struct pf_reply *reply)
{
	(void)of;
	waiting = reply;
}

static inline ssize_t option_write(struct pf_open *of, const void *src, size_t len,
				   uint64_t off, struct pf_err *err)
{
	(void)of;
	if (off + len >= sizeof(word))
		return pf_err_set(err, -EFBIG, "too long a word");
	memcpy(word + off, src, len);
	word[off + len] = '\0';
	return (ssize_t)len;
}

static inline int link_read(struct pf_node *node, struct pf_buf *out)
{
	(void)node;
	pf_buf_puts(out, "text");
	return 0;
}

/* A reader sees the bytes of when it opened the file, a writer those of now. */
static inline int bytes_open(struct pf_open *of, struct pf_err *err)
{
	struct bytes *b = of->node->object, *seen;

	if (of->flags & O_SYNC)
		return pf_err_set(err, -EINVAL, "it is written later");
	seen = malloc(sizeof(*seen));
	PF_LOCK_SCOPE(&b->lock);
	*seen = *b;
	of->state = seen;
	__atomic_add_fetch(&alive, 1, __ATOMIC_SEQ_CST);
	return 0;
}

static inline void bytes_release(struct pf_open *of)
{
	free(of->state);
	__atomic_sub_fetch(&alive, 1, __ATOMIC_SEQ_CST);
}

static inline void bytes_read(struct pf_open *of, size_t len, uint64_t off,
			      struct pf_reply *reply)
{
	struct bytes *b = of->node->object, *seen = pf_open_writes(of) ? b : of->state;
	char copy[sizeof(b->data)];
	size_t n = 0;

	pf_lock(&b->lock);
	if (off < seen->len) {
		n = seen->len - off < len ? seen->len - off : len;
		memcpy(copy, seen->data + off, n);
	}
	pf_unlock(&b->lock);
	pf_reply_data(reply, copy, n);
}

static inline ssize_t bytes_write(struct pf_open *of, const void *src, size_t len,
				  uint64_t off, struct pf_err *err)
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

static inline int bytes_truncate(struct pf_node *node, struct pf_open *of, uint64_t size,
				 const struct pf_cred *cred, struct pf_err *err)
{
	struct bytes *b = node->object;

	(void)of;
	(void)cred;
	PF_LOCK_SCOPE(&b->lock);
	if (size > sizeof(b->data))
		return pf_err_set(err, -EFBIG, "too large");
	if (size > b->len)
		memset(b->data + b->len, 0, size - b->len);
	b->len = size;
	return 0;
}

static inline void bytes_commit(struct pf_open *of, enum pf_commit why,
				struct pf_reply *reply)
{
	struct bytes *b = of->node->object;
	bool bad, later;

	pf_lock(&b->lock);
	*(why == PF_COMMIT_FLUSH ? &b->flushes : &b->fsyncs) += 1;
	bad = why == PF_COMMIT_FLUSH && !memcmp(b->data, "bad", 3);
	later = !memcmp(b->data, "later", 5);
	pf_unlock(&b->lock);
	if (later)
		waiting = reply;
	else
		pf_reply_code(reply, bad ? -EINVAL : 0);
}

static inline ssize_t bytes_copy(struct pf_open *of, uint64_t off, struct pf_open *from,
				 uint64_t from_off, size_t len, struct pf_err *err)
{
	struct bytes *b = from->node->object;
	char copy[sizeof(b->data)];

	if (from->node->kind != of->node->kind)
		return -EXDEV;
	ck_assert_int_ne(pthread_mutex_trylock(&of->lock), 0);
	ck_assert_int_ne(pthread_mutex_trylock(&from->lock), 0);
	pf_lock(&b->lock);
	len = from_off >= b->len ? 0 : len > b->len - from_off ? b->len - from_off : len;
	memcpy(copy, b->data + from_off, len);
	pf_unlock(&b->lock);
	return len ? bytes_write(of, copy, len, off, err) : 0;
}

static inline int bytes_allocate(struct pf_open *of, int mode, uint64_t off, uint64_t len,
				 struct pf_err *err)
{
	struct bytes *b = of->node->object;

	(void)err;
	if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE))
		return -EOPNOTSUPP;
	PF_LOCK_SCOPE(&b->lock);
	if (mode & FALLOC_FL_PUNCH_HOLE)
		memset(b->data + off, 0, len);
	else if (!(mode & FALLOC_FL_KEEP_SIZE) && off + len > b->len)
		b->len = off + len;
	return 0;
}

static inline void bytes_getattr(struct pf_node *node, struct stat *st)
{
	struct bytes *b = node->object;

	PF_LOCK_SCOPE(&b->lock);
	st->st_size = (off_t)b->len;
}

static inline void bytes_free(struct pf_node *node)
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
	.copy = bytes_copy,
	.allocate = bytes_allocate,
	.getattr = bytes_getattr,
	.free = bytes_free,
};

static inline int dir_create(struct pf_node *in, const char *name, mode_t mode,
			     const struct pf_cred *cred, struct pf_node **ret,
			     struct pf_err *err)
{
	struct bytes *b = calloc(1, sizeof(*b));
	int r;

	(void)err;
	pthread_mutex_init(&b->lock, NULL);
	__atomic_add_fetch(&alive, 1, __ATOMIC_SEQ_CST);
	*ret = pf_node_new(in->tree, &bytes, b, mode, cred);
	r = pf_dir_link(in, name, *ret, false);
	if (r < 0)
		pf_node_unref(pf_steal(ret));
	return r;
}

static const struct pf_kind view, dir, whole;

/* NAME.view is there for every NAME, unlisted. */
static inline int dir_lookup(struct pf_node *in, const char *name, struct pf_node **ret,
			     struct pf_err *err)
{
	size_t len = strlen(name);

	if (len < 5 || strcmp(name + len - 5, ".view"))
		return pf_err_set(err, -ENOENT, "no %s", name);
	*ret = pf_node_new(in->tree, &view, NULL, (mode_t)-1, NULL);
	return 0;
}

static inline int dir_unlink(struct pf_node *in, struct pf_node *node, struct pf_err *err)
{
	(void)in;
	if (node->kind == &view)
		return pf_err_set(err, -EPERM, "a view");
	pf_dir_unlink(node);
	return 0;
}

static inline int dir_rename(struct pf_node *in, struct pf_node *node, struct pf_node *to,
			     const char *name, unsigned flags, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *other = NULL;

	(void)in;
	(void)err;
	if (!(flags & RENAME_EXCHANGE))
		return pf_dir_move(node, to, name);
	other = pf_dir_lookup(to, name);
	return pf_dir_exchange(node, other);
}

static inline int dir_mkdir(struct pf_node *in, const char *name, mode_t mode,
			    const struct pf_cred *cred, struct pf_node **ret,
			    struct pf_err *err)
{
	(void)err;
	*ret = pf_node_new(in->tree, !strcmp(name, "whole") ? &whole : &dir, NULL, mode,
			   cred);
	return pf_dir_link(in, name, *ret, false);
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
	.read = word_read,
	.prepare = text_prepare,
};
static const struct pf_kind own = { .name = "own",
				    .mode = S_IFREG | 0444,
				    .show_as = word_of };
static const struct pf_kind slow = {
	.name = "slow", .mode = S_IFREG | 0444, .show_as = word_later, .blocks = true
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
	.children =
		(const struct pf_kind *const[]){ &text, &prepared, &own, &slow, &option,
						 &dumb, &to_text, &dir, NULL },
};

static struct pf_tree *tree;
static uint64_t d; /* the directory's number */
static const struct pf_cred me __attribute__((unused)) = { .uid = 7, .gid = 7 };

static inline struct stat look(uint64_t in, const char *name)
{
	return look_in(tree, in, name);
}

/* Rename FROM to TO, both in the directory. */
static inline int move(const char *from, const char *to, unsigned flags)
{
	return pf_vfs_rename(tree, d, from, d, to, flags, &god);
}

/* Make a directory in IN, and return its number, or -errno. */
static inline int64_t make_dir(uint64_t in, const char *name)
{
	struct stat st;
	int r = pf_vfs_mkdir(tree, in, name, 0755, &god, &st);

	if (r == 0)
		pf_vfs_forget(tree, st.st_ino, 1);
	return r < 0 ? r : (int64_t)st.st_ino;
}

static inline int remove_name(const char *name, bool directory)
{
	return pf_vfs_remove(tree, d, name, directory, &god);
}

/* Create NAME in IN with FLAGS, which must be refused. */
static inline int refuse_create(uint64_t in, const char *name, int flags)
{
	struct pf_open *of = NULL;
	struct stat st;
	int r = pf_vfs_create(tree, in, name, 0644, O_CREAT | flags, &god, &st, &of);

	ck_assert_ptr_null(of);
	return r;
}

static struct stat now; /* what the last set_attr returned */

static inline int set_attr(uint64_t ino, const struct stat *to, int mask,
			   struct pf_open *of, const struct pf_cred *cred)
{
	return pf_vfs_setattr(tree, ino, to, mask, of, cred, &now);
}

static inline void setup(void)
{
	alive = 0;
	strcpy(word, "hello");
	sem_init(&may_show, 0, 0);
	tree = pf_tree_new(&root, NULL, 0, 0);
	ck_assert_ptr_nonnull(tree);
	d = look(1, "dir").st_ino;
}

static inline void teardown(void)
{
	ck_assert(pf_turns_await(60000)); /* a thread that has answered may hold a node */
	pf_tree_free(tree);
	ck_assert_int_eq(alive, 0);
}

static inline int try_open(uint64_t ino, int flags, const struct pf_cred *cred,
			   struct pf_open **ret)
{
	int r = open_by(tree, ino, flags, cred, ret);

	ck_assert_int_eq(r == 0, *ret != NULL);
	return r;
}

static inline struct pf_open *open_as(uint64_t ino, int flags, const struct pf_cred *cred)
{
	struct pf_open *of = NULL;

	ck_assert_int_eq(try_open(ino, flags, cred, &of), 0);
	return of;
}

static inline struct pf_open *create_as(const char *name, int flags,
					const struct pf_cred *cred)
{
	struct pf_open *of = NULL;
	struct stat st;

	ck_assert_int_eq(pf_vfs_create(tree, d, name, 0644, O_CREAT | flags, cred, &st,
				       &of),
			 0);
	pf_vfs_forget(tree, st.st_ino, 1);
	return of;
}

static inline struct pf_open *create(const char *name, int flags)
{
	return create_as(name, flags, &god);
}

static inline ssize_t put(struct pf_open *of, const char *data, uint64_t off)
{
	return write_by(pf_vfs_write, of, data, strlen(data), off);
}

static inline void expect_read(struct pf_open *of, size_t len, uint64_t off,
			       const char *want)
{
	expect_read_by(pf_vfs_read, of, len, off, want);
}

#endif
