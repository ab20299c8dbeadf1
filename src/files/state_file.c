/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file of a state directory, and its node.
 *
 * A file has the bytes that a reader of the node gets.  What a file system has no place for is in
 * extended attributes: an array's dtype, shape and memory under the names that they have in the
 * mount, and in user.pjrtfs.node the owner and mode, and the options of a program.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "files/buffers/buffers.h"
#include "files/programs/programs.h"
#include "pjrtfs/json.h"
#include "pjrtfs/vfs.h"
#include "pjrtfs/wait.h"
#include "state_dir.h"

enum {
	PIECE = 4 << 20,     /* bytes that are read or written at once */
	MAX_ATTR = 64 << 10, /* bytes of an extended attribute: the kernel's limit */
};

#define NODE_ATTR "user.pjrtfs.node"

static const char *const array_attrs[] = { "user.pjrtfs.dtype", "user.pjrtfs.shape",
					   "user.pjrtfs.memory", NULL };

/* The state directory may read and write all files.  No failure of it is a user's. */
static const struct pf_cred everything = { .sid = PF_SID_UNKNOWN };

static bool is_program(const struct pf_node *node)
{
	return node->kind->write && !node->kind->get_xattr;
}

/* --- requests that this thread waits for -------------------------------------------- */

struct request {
	struct pf_reply reply;
	struct pf_sleeper sleeper; /* woken once it is over */
	int fd;                    /* where the bytes of a read go, from AT on; or -1 */
	off_t at;
	ssize_t result; /* bytes, or -errno: */
	bool disk;      /* a failure of FD */
	struct pf_err why;
};

static void request_send(struct pf_reply *reply, int code, const void *data, size_t len)
{
	struct request *q = pf_container_of(reply, struct request, reply);

	q->result = code < 0 ? code : (ssize_t)len;
	if (code < 0 && reply->why && reply->why->code)
		q->why = *reply->why;
	if (code >= 0 && q->fd >= 0 && len) {
		int r = pf_write_at(q->fd, data, len, (uint64_t)q->at);

		q->disk = r < 0;
		q->result = r < 0 ? r : (ssize_t)len;
	}
}

static void request_free(struct pf_reply *reply)
{
	struct request *q = pf_container_of(reply, struct request, reply);

	pf_sleeper_wake(&q->sleeper.waiter);
}

static const struct pf_reply_ops request_ops = { .send = request_send,
						 .free = request_free };

static struct pf_reply *request_begin(struct request *q, int fd, off_t at)
{
	*q = (struct request){ .fd = fd, .at = at, .why = PF_ERR_INIT };
	pf_sleeper_init(&q->sleeper);
	pf_reply_init(&q->reply, &request_ops);
	return &q->reply;
}

static ssize_t request_wait(struct request *q, struct pf_err *err)
{
	pf_sleeper_wait(&q->sleeper);
	pf_sleeper_release(&q->sleeper);
	if (q->result < 0)
		pf_err_set(err, (int)q->result, "%s",
			   q->why.code ? q->why.text : strerror((int)-q->result));
	return q->result;
}

static int open_node(struct pf_node *node, int flags, struct pf_open **ret,
		     struct pf_err *err)
{
	struct request q;

	pf_vfs_open(node->tree, node->ino, flags, &everything, ret,
		    request_begin(&q, -1, 0));
	return (int)request_wait(&q, err);
}

/* --- saving ------------------------------------------------------------------------- */

bool state_file_is_lost(struct pf_node *node)
{
	return node->kind->get_xattr && !strcmp(files_buffer_state(node), "lost");
}

/* Is the node's present content to be kept, now? */
static enum state_saved may_save(struct pf_node *node, struct pf_node_changes *ret)
{
	const char *state;

	pf_node_changes(node, ret);
	if (!ret->linked)
		return STATE_NEVER;
	if (ret->writers)
		return STATE_LATER;
	if (!node->kind->get_xattr)
		return STATE_SAVED;
	state = files_buffer_state(node);
	if (!strcmp(state, "error") || !strcmp(state, "lost") ||
	    !strcmp(state, "donated"))
		return STATE_NEVER;
	/* Incomplete: a commit is under way, or its writer was killed. */
	return !strcmp(state, "incomplete") ? STATE_LATER : STATE_SAVED;
}

/* An enum state_saved, or -errno of the disk. */
static int copy_out(struct pf_open *of, int fd)
{
	struct request q;
	ssize_t n = 1;
	off_t at = 0;

	while (n > 0) {
		pf_vfs_read(of, PIECE, (uint64_t)at, request_begin(&q, fd, at));
		n = request_wait(&q, NULL);
		at += n > 0 ? n : 0;
	}
	return n == 0 ? STATE_SAVED : q.disk ? (int)n : STATE_LATER;
}

int state_file_save(struct pf_node *node, int fd)
{
	struct pf_node_changes before, after;
	struct pf_open *of = NULL;
	int r = may_save(node, &before);

	if (r != STATE_SAVED)
		return r;
	r = open_node(node, O_RDONLY, &of, NULL);
	if (r < 0)
		return r == -ENOENT || r == -EIO || r == -ENODATA ? STATE_NEVER
								  : STATE_LATER;
	r = copy_out(of, fd);
	pf_vfs_release(of);
	if (r != STATE_SAVED)
		return r;
	pf_node_changes(node, &after);
	if (after.bytes != before.bytes || after.writers)
		return STATE_LATER;
	return state_file_save_attr(node, fd);
}

static int set_attr(int fd, const char *name, const struct pf_buf *value)
{
	if (value->failed)
		return -ENOMEM;
	return fsetxattr(fd, name, value->data, value->len, 0) ? -errno : 0;
}

/* Owner, mode and options of NODE. */
static int set_node_attr(struct pf_node *node, const struct pf_attr *attr, int fd)
{
	pf_autofree char *options =
		is_program(node) ? program_options(node->object) : NULL;
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct json_object *o = json_object_new_object();
	char mode[16];

	snprintf(mode, sizeof(mode), "%04o", attr->mode & 07777);
	pf_json_add_int(o, "uid", attr->uid);
	pf_json_add_int(o, "gid", attr->gid);
	pf_json_add_string(o, "mode", mode);
	if (options)
		pf_json_add_string(o, "options", options);
	pf_buf_puts(&text, pf_json_text(o));
	json_object_put(o);
	return set_attr(fd, NODE_ATTR, &text);
}

int state_file_save_attr(struct pf_node *node, int fd)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };
	mode_t least = S_ISDIR(node->kind->mode) ? 0700 : 0600;
	struct pf_attr attr;
	int r;

	pf_node_attr(node, &attr);
	r = set_node_attr(node, &attr, fd);
	for (const char *const *name = array_attrs; *name && r == 0; name++) {
		pf_autobuf struct pf_buf value = PF_BUF_INIT;

		if (node->kind->get_xattr &&
		    node->kind->get_xattr(node, *name, &value, NULL) == 0 && value.len)
			r = set_attr(fd, *name, &value);
	}
	if (r < 0)
		return r;
	/* For users who look at the directory; the next mount reads user.pjrtfs.node. */
	times[1] = attr.mtime;
	if (fchmod(fd, (attr.mode & 0777) | least) || futimens(fd, times) ||
	    (geteuid() == 0 && fchown(fd, attr.uid, attr.gid)))
		return -errno;
	return 0;
}

struct version state_file_version(struct pf_node *node)
{
	pf_autofree char *options =
		is_program(node) ? program_options(node->object) : NULL;
	struct pf_node_changes changes;

	pf_node_changes(node, &changes);
	return (struct version){ changes.any, changes.bytes,
				 options ? pf_hash(options, strlen(options)) : 0 };
}

/* --- loading ------------------------------------------------------------------------ */

int state_file_check(int fd, struct pf_err *err)
{
	if (fsetxattr(fd, NODE_ATTR, "{}", 2, 0) == 0)
		return 0;
	return pf_err_set(err, -errno,
			  "expected a file system with extended attributes (user.*), "
			  "found one without: %s",
			  strerror(errno));
}

/* The extended attribute NAME of FD in TEXT; false: it has none. */
static bool get_attr(int fd, const char *name, struct pf_buf *text)
{
	char *at = pf_buf_reserve(text, MAX_ATTR + 1);
	ssize_t n = at ? fgetxattr(fd, name, at, MAX_ATTR) : -1;

	if (n < 0)
		return false;
	text->len = (size_t)n;
	at[n] = '\0';
	return true;
}

/* The description of a node in its file. */
struct kept_node {
	struct pf_attr attr;
	struct pf_cred owner;
	struct json_object *o; /* owned: user.pjrtfs.node, or NULL */
};

static void kept_node_release(struct kept_node *kept)
{
	json_object_put(kept->o);
}

/* The user or group KEY of O in *RET, if it is there. */
static void get_id(struct json_object *o, const char *key, unsigned *ret)
{
	int64_t id;

	if (pf_json_get_int(json_object_object_get(o, key), &id) && id >= 0 &&
	    id < UINT32_MAX)
		*ret = (unsigned)id;
}

/* A file that was put there by hand has its own owner and mode. */
static int read_node_attr(int fd, struct kept_node *ret, struct pf_err *err)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	const char *mode;
	struct stat st;

	*ret = (struct kept_node){ .owner = everything };
	if (fstat(fd, &st))
		return pf_err_set(err, -errno, "%s", strerror(errno));
	ret->attr = (struct pf_attr){ .mode = st.st_mode,
				      .uid = st.st_uid,
				      .gid = st.st_gid,
				      .atime = st.st_mtim,
				      .mtime = st.st_mtim,
				      .ctime = st.st_mtim };
	if (get_attr(fd, NODE_ATTR, &text) &&
	    (pf_json_parse(text.data, text.len, &ret->o, NULL) < 0 ||
	     !json_object_is_type(ret->o, json_type_object)))
		return pf_err_set(err, -EINVAL, NODE_ATTR ": expected a JSON object");
	get_id(ret->o, "uid", &ret->attr.uid);
	get_id(ret->o, "gid", &ret->attr.gid);
	mode = pf_json_get_string(ret->o, "mode");
	if (*mode)
		ret->attr.mode = (mode_t)strtoul(mode, NULL, 8) & 07777;
	ret->owner.uid = ret->attr.uid;
	ret->owner.gid = ret->attr.gid;
	return 0;
}

/* Write the bytes of FD to OF, and close that. */
static int copy_in(struct pf_open *of, int fd, struct pf_err *err)
{
	pf_autofree char *piece = malloc(PIECE);
	struct request q;
	ssize_t n = piece ? 1 : -ENOMEM;
	off_t at = 0;

	while (n > 0) {
		ssize_t left = pread(fd, piece, PIECE, at);

		if (left < 0)
			return pf_err_set(err, -errno, "%s", strerror(errno));
		n = left;
		for (ssize_t done = 0; left > 0 && n > 0; done += n, left -= n) {
			pf_vfs_write(of, piece + done, (size_t)left, (uint64_t)at,
				     request_begin(&q, -1, 0));
			n = request_wait(&q, err);
			at += n > 0 ? n : 0;
		}
	}
	return (int)n;
}

/* Close OF: a program compiles later; an array is whole now, or refused. */
static int close_node(struct pf_open *of, struct pf_err *err)
{
	struct pf_reply *behind;
	struct request q;

	if (is_program(of->node)) {
		behind = pf_reply_behind();
		if (!behind)
			return pf_err_set(err, -ENOMEM, "no memory");
		pf_vfs_flush(of, 0, behind);
		return 0;
	}
	pf_vfs_flush(of, 0, request_begin(&q, -1, 0));
	return (int)request_wait(&q, err);
}

static int write_node(struct pf_node *node, int fd, struct json_object *o,
		      struct pf_err *err)
{
	const char *options = is_program(node) ? pf_json_get_string(o, "options") : "";
	const struct program *program = node->object;
	struct pf_open *of = NULL;
	int r = 0, last;

	if (*options)
		r = pf_executable_set_options(program->x, options, strlen(options), false,
					      err);
	for (const char *const *name = array_attrs; *name && r == 0; name++) {
		pf_autobuf struct pf_buf value = PF_BUF_INIT;

		if (node->kind->set_xattr && get_attr(fd, *name, &value))
			r = node->kind->set_xattr(node, *name, value.data, value.len, 0,
						  err);
	}
	if (r == 0)
		r = open_node(node, O_WRONLY, &of, err);
	if (r < 0)
		return r;
	r = copy_in(of, fd, err);
	last = close_node(of, r < 0 ? NULL : err);
	pf_vfs_release(of);
	return r < 0 ? r : last;
}

/* Is NAME in DIR a file, or a view of one? */
static bool is_taken(struct pf_node *dir, const char *name)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = pf_dir_lookup(dir, name);

	return node || (dir->kind->dir->lookup &&
			dir->kind->dir->lookup(dir, name, &node, NULL) == 0);
}

/* Make NAME with the bytes of FD, in memory. */
static int load_now(struct pf_node *dir, const char *name, int fd,
		    const struct kept_node *kept, uint64_t most, struct pf_node **ret,
		    struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	struct stat st;
	int r;

	if (fstat(fd, &st) == 0 && (uint64_t)st.st_size > most)
		return pf_err_set(err, -ENOSPC,
				  "expected at most %" PRIu64 " bytes, the memory limit, "
				  "found %jd",
				  most, (intmax_t)st.st_size);
	pf_tree_lock_names(dir->tree);
	r = pf_name_check(name, err);
	if (r == 0 && is_taken(dir, name))
		r = pf_err_set(err, -EEXIST, "there is another file of that name");
	if (r == 0)
		r = dir->kind->dir->create(dir, name, kept->attr.mode & 07777,
					   &kept->owner, &node, err);
	pf_tree_unlock_names(dir->tree);
	if (r < 0)
		return r;
	r = write_node(node, fd, kept->o, err);
	if (r < 0) {
		pf_tree_lock_names(dir->tree);
		(void)dir->kind->dir->unlink(dir, node, NULL);
		pf_tree_unlock_names(dir->tree);
		return r;
	}
	*ret = pf_steal(&node);
	return 0;
}

/* Make NAME an array whose bytes stay in the file: 0; -EINVAL: they must be read now. */
static int load_later(struct pf_node *dir, const char *name, int fd,
		      const struct kept_node *kept, struct pf_backing *backing,
		      uint64_t *skip, struct pf_node **ret, struct pf_err *err)
{
	pf_autobuf struct pf_buf dtype = PF_BUF_INIT, shape = PF_BUF_INIT,
				 memory = PF_BUF_INIT;
	struct backed b = { .fd = fd, .backing = backing };
	struct pf_json_reader rd;
	struct json_object *o;
	struct stat st;
	int r = -EINVAL;

	if (dir->kind == &kind_programs || !get_attr(fd, array_attrs[0], &dtype) ||
	    !get_attr(fd, array_attrs[1], &shape) || fstat(fd, &st))
		return r;
	b.dtype = pf_dtype_parse(dtype.data, dtype.len);
	b.size = (uint64_t)st.st_size;
	if (get_attr(fd, array_attrs[2], &memory))
		b.memory = memory.data;
	rd = (struct pf_json_reader){ shape.data, shape.data, shape.data + shape.len,
				      SIZE_MAX, NULL };
	(void)pf_json_value(&rd, &o); /* without one it is NULL, and no shape */
	if (b.dtype != PF_DTYPE_INVALID)
		r = files_parse_shape(o, &b.shape, NULL);
	json_object_put(o);
	if (r < 0)
		return r;
	pf_tree_lock_names(dir->tree);
	r = pf_name_check(name, err);
	if (r == 0)
		r = files_link_backed(dir, name, &b, kept->attr.mode & 07777,
				      &kept->owner, ret, err);
	pf_tree_unlock_names(dir->tree);
	*skip = b.skip;
	return r;
}

int state_file_load(struct pf_node *dir, const char *name, int fd,
		    struct pf_backing *backing, uint64_t *skip, uint64_t most,
		    struct pf_node **ret, struct pf_err *err)
{
	PF_CLEANUP(kept_node_release) struct kept_node kept = { .o = NULL };
	int r = read_node_attr(fd, &kept, err);

	if (r == 0)
		r = load_later(dir, name, fd, &kept, backing, skip, ret, NULL);
	if (r < 0 && r != -EEXIST)
		r = load_now(dir, name, fd, &kept, most, ret, err);
	if (r == 0)
		pf_node_set_attr(*ret, &kept.attr);
	return r;
}

int state_file_load_dir(struct pf_node *dir, const char *name, int fd,
			struct pf_node **ret, struct pf_err *err)
{
	PF_CLEANUP(kept_node_release) struct kept_node kept = { .o = NULL };
	int r = read_node_attr(fd, &kept, err);

	if (r < 0)
		return r;
	pf_tree_lock_names(dir->tree);
	r = pf_name_check(name, err);
	if (r == 0)
		r = pf_dir_check_depth(dir, NULL, err);
	if (r == 0)
		r = dir->kind->dir->mkdir(dir, name, kept.attr.mode & 07777, &kept.owner,
					  ret, err);
	pf_tree_unlock_names(dir->tree);
	if (r == 0)
		pf_node_set_attr(*ret, &kept.attr);
	return r;
}
