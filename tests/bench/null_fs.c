/* SPDX-License-Identifier: Apache-2.0 */
#include "null_fs.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

/* Inode numbers are positions in files, from 2; they are not used again. */
enum { MAX_FILES = 1 << 20, BUCKETS = 1 << 14 };

struct file {
	char name[64];
	char *data; /* owned */
	size_t size;
	fuse_ino_t ino;
	bool linked;
	struct file *next; /* in its bucket */
};

static struct file *files[MAX_FILES], *buckets[BUCKETS];
static fuse_ino_t n_files = FUSE_ROOT_ID + 1;
static char mount_path[96];
static pid_t server, mounted_by;

static struct file **find(const char *name)
{
	unsigned h = 5381;
	struct file **p;

	for (const char *c = name; *c; c++)
		h = h * 33 + (unsigned char)*c;
	for (p = &buckets[h % BUCKETS]; *p && strcmp((*p)->name, name) != 0;)
		p = &(*p)->next;
	return p;
}

static struct stat attr_of(fuse_ino_t ino)
{
	bool root = ino == FUSE_ROOT_ID;

	return (struct stat){ .st_ino = ino,
			      .st_mode = root ? S_IFDIR | 0755 : S_IFREG | 0644,
			      .st_nlink = root ? 2 : 1,
			      .st_uid = getuid(),
			      .st_size = root ? 0 : (off_t)files[ino]->size };
}

/* The kernel keeps neither this nor the name. */
static struct fuse_entry_param entry_of(fuse_ino_t ino)
{
	return (struct fuse_entry_param){ .ino = ino, .attr = attr_of(ino) };
}

static void null_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct file *f = *find(name);
	struct fuse_entry_param e;

	(void)parent;
	if (!f) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	e = entry_of(f->ino);
	fuse_reply_entry(req, &e);
}

static void null_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st = attr_of(ino);

	(void)fi;
	fuse_reply_attr(req, &st, 0);
}

static void null_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int set,
			 struct fuse_file_info *fi)
{
	if (ino != FUSE_ROOT_ID && set & FUSE_SET_ATTR_SIZE &&
	    (size_t)attr->st_size < files[ino]->size)
		files[ino]->size = (size_t)attr->st_size;
	null_getattr(req, ino, fi);
}

static void null_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if (fi->flags & O_TRUNC)
		files[ino]->size = 0;
	fi->direct_io = 1;
	fuse_reply_open(req, fi);
}

static void null_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
			struct fuse_file_info *fi)
{
	struct file **p = find(name), *f = *p;
	struct fuse_entry_param e;

	(void)parent;
	(void)mode;
	if (!f) {
		f = n_files < MAX_FILES ? calloc(1, sizeof(*f)) : NULL;
		if (!f || strlen(name) >= sizeof(f->name)) {
			free(f);
			fuse_reply_err(req, ENOSPC);
			return;
		}
		strcpy(f->name, name);
		f->ino = n_files++;
		f->linked = true;
		files[f->ino] = f;
		*p = f;
	}
	fi->direct_io = 1;
	e = entry_of(f->ino);
	fuse_reply_create(req, &e, fi);
}

static void null_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct file **p = find(name), *f = *p;

	(void)parent;
	if (f) {
		*p = f->next;
		f->linked = false;
		free(f->data);
		f->data = NULL;
		f->size = 0;
	}
	fuse_reply_err(req, f ? 0 : ENOENT);
}

static void null_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size,
		       off_t off, struct fuse_file_info *fi)
{
	struct file *f = files[ino];
	size_t end = (size_t)off + size;
	char *grown = end > f->size ? realloc(f->data, end) : f->data;

	(void)fi;
	if (!grown) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	f->data = grown;
	f->size = end > f->size ? end : f->size;
	memcpy(f->data + off, data, size);
	fuse_reply_write(req, size);
}

static void null_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		      struct fuse_file_info *fi)
{
	struct file *f = files[ino];
	size_t left = (size_t)off < f->size ? f->size - (size_t)off : 0;

	(void)fi;
	fuse_reply_buf(req, left ? f->data + off : NULL, left < size ? left : size);
}

static void null_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
			 struct fuse_file_info *fi)
{
	char *buf = malloc(size);
	size_t used = 0;

	(void)ino;
	(void)fi;
	for (fuse_ino_t i = off ? (fuse_ino_t)off : FUSE_ROOT_ID + 1; buf && i < n_files;
	     i++) {
		struct stat st = attr_of(i);
		size_t n;

		if (!files[i]->linked)
			continue;
		n = fuse_add_direntry(req, buf + used, size - used, files[i]->name, &st,
				      (off_t)i + 1);
		if (n > size - used)
			break;
		used += n;
	}
	fuse_reply_buf(req, buf, used);
	free(buf);
}

static const struct fuse_lowlevel_ops ops = {
	.lookup = null_lookup,
	.getattr = null_getattr,
	.setattr = null_setattr,
	.open = null_open,
	.create = null_create,
	.unlink = null_unlink,
	.write = null_write,
	.read = null_read,
	.readdir = null_readdir,
};

/* Serve until unmounted; close READY when mounted. */
static void serve(int ready)
{
	char *argv[] = { (char *)(uintptr_t) "null_fs", NULL };
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	struct fuse_session *s = fuse_session_new(&args, &ops, sizeof(ops), NULL);

	if (!s || fuse_session_mount(s, mount_path) || write(ready, "", 1) != 1)
		_exit(1);
	close(ready);
	fuse_session_loop(s);
	_exit(0);
}

static void undo(void)
{
	if (getpid() != mounted_by)
		return;
	bench_unmount(mount_path);
	waitpid(server, NULL, 0);
}

void null_fs_mount(const char *path)
{
	int ready[2];
	char byte;

	snprintf(mount_path, sizeof(mount_path), "%s", path);
	if (pipe(ready))
		bench_die("pipe: %s", strerror(errno));
	server = bench_fork();
	if (server == 0) {
		close(ready[0]);
		serve(ready[1]);
	}
	close(ready[1]);
	mounted_by = getpid();
	atexit(undo);
	if (read(ready[0], &byte, 1) != 1)
		bench_die("%s: the null file system did not mount", path);
	close(ready[0]);
}

void null_fs_follow(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	if (sched_setaffinity(server, sizeof(set), &set))
		bench_die("sched_setaffinity: %s", strerror(errno));
}
