/* buffers/ and its namespaces: which names there may be, and what they stand for. */
#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffer_entry.h"

static const struct pf_place *place_of(struct pf_node *dir)
{
	return dir->object;
}

/* --- names ---------------------------------------------------------------------------- */

static bool ends_in(const char *name, size_t len, const char *ext)
{
	size_t n = strlen(ext);

	return len >= n && !memcmp(name + len - n, ext, n);
}

/* A stem that looks like a file of its own would be ambiguous in commands. */
static int check_stem(const char *name, size_t len, struct pf_err *err)
{
	static const char *const never[] = { ".npy",  ".raw",         ".txt",
					     ".json", ".safetensors", ".sharding" };

	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		if (ends_in(name, len, never[i]))
			return pf_err_set(err, -EINVAL,
					  "%s: the name before the extension must "
					  "not end in %s",
					  name, never[i]);
	return 0;
}

/* Files of formats that others have, with the line that converts them. */
static int refuse_foreign(const char *name, struct pf_err *err)
{
	static const struct {
		const char *ext, *how;
	} foreign[] = {
		{ ".npz", "python3 -c 'import numpy,sys; [numpy.save(k, v) for k, v in "
			  "numpy.load(sys.argv[1]).items()]' FILE" },
		{ ".pt",
		  "python3 -c 'import torch,numpy,sys; [numpy.save(k, v) for k, v in "
		  "torch.load(sys.argv[1]).items()]' FILE" },
		{ ".gguf", "convert it to .npy files with the gguf Python package" },
		{ ".onnx", "convert it to StableHLO with the onnx-mlir or jax tools" },
		{ ".safetensors",
		  "python3 -c 'import safetensors.numpy,numpy,sys; "
		  "[numpy.save(k, v) for k, v in "
		  "safetensors.numpy.load_file(sys.argv[1]).items()]' FILE" },
	};

	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		if (ends_in(name, strlen(name), foreign[i].ext))
			return pf_err_set(err, -EINVAL, "%s: %s files are not read: %s",
					  name, foreign[i].ext, foreign[i].how);
	return 0;
}

/* The linked node of the buffer called STEM in DIR, in whatever format; NULL if none. */
static struct pf_node *find_stem(struct pf_node *dir, const char *stem, size_t len)
{
	char name[PF_NAME_MAX + 1];

	for (unsigned f = PF_FORMAT_NPY; f < PF_FORMAT_JSON; f++) {
		struct pf_node *node;

		if (snprintf(name, sizeof(name), "%.*s%s", (int)len, stem,
			     pf_format_extension(f)) >= (int)sizeof(name))
			continue;
		node = pf_dir_lookup(dir, name);
		if (node && !S_ISDIR(node->kind->mode))
			return node;
		pf_node_unref(node);
	}
	return NULL;
}

/* Is the stem free of directories (for a buffer), or of buffers (for a directory)? */
static int check_free(struct pf_node *dir, const char *name, size_t stem_len,
		      struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *taken = NULL;
	char stem[PF_NAME_MAX + 1];

	snprintf(stem, sizeof(stem), "%.*s", (int)stem_len, name);
	taken = pf_dir_lookup(dir, stem);
	if (taken)
		return pf_err_set(err, -EEXIST, "%s: there is a directory %s", name,
				  stem);
	return 0;
}

/* May a buffer or scratch file be called NAME? */
static int check_name(struct pf_node *dir, const char *name, enum pf_format *ret,
		      struct pf_err *err)
{
	size_t len;
	int r = refuse_foreign(name, err);

	if (r < 0)
		return r;
	*ret = pf_format_of(name, &len);
	if (*ret == PF_FORMAT_NONE)
		return 0;
	if (*ret == PF_FORMAT_JSON)
		return pf_err_set(err, -EINVAL,
				  "%s: .json is what is known of a buffer, not a "
				  "format",
				  name);
	r = check_stem(name, len, err);
	return r < 0 ? r : check_free(dir, name, len, err);
}

/* --- the directory's operations ---------------------------------------------------------- */

static int buffers_lookup(struct pf_node *dir, const char *name, struct pf_node **ret,
			  struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *listed = NULL;
	size_t len;
	enum pf_format format = pf_format_of(name, &len);

	if (format != PF_FORMAT_NONE)
		listed = find_stem(dir, name, len);
	if (!listed)
		return pf_err_set(err, -ENOENT, "there is no %s", name);
	*ret = entry_view(facet_of(listed)->entry, format);
	return *ret ? 0 : -ENOMEM;
}

static int buffers_create(struct pf_node *dir, const char *name, mode_t mode,
			  const struct pf_cred *cred, struct pf_node **ret,
			  struct pf_err *err)
{
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	enum pf_format format;
	int r = check_name(dir, name, &format, err);

	if (r < 0)
		return r;
	buffer = pf_buffer_new(place_of(dir), format);
	if (buffer)
		node = entry_new(dir->tree, buffer, format, mode, cred);
	if (!node)
		return pf_err_set(err, -ENOMEM, "no memory for %s", name);
	r = pf_dir_link(dir, name, node, false);
	if (r == 0)
		*ret = pf_steal(&node);
	return r;
}

static int buffers_mkdir(struct pf_node *dir, const char *name, mode_t mode,
			 const struct pf_cred *cred, struct pf_node **ret,
			 struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *taken = NULL;
	int r = check_stem(name, strlen(name), err);

	if (r < 0)
		return r;
	taken = find_stem(dir, name, strlen(name));
	if (taken)
		return pf_err_set(err, -EEXIST, "%s: there is a buffer of that name",
				  name);
	node = pf_node_new(dir->tree, &kind_buffers, dir->object, mode, cred);
	if (!node)
		return -ENOMEM;
	r = pf_dir_link(dir, name, node, false);
	if (r == 0)
		*ret = pf_steal(&node);
	return r;
}

static int buffers_unlink(struct pf_node *dir, struct pf_node *node, struct pf_err *err)
{
	struct entry *entry = facet_of(node)->entry;

	(void)dir;
	if (entry->listed != node)
		return pf_err_set(err, -EPERM,
				  "it is a view: remove the file it is a view of");
	pf_dir_unlink(node);
	entry_unlinked(entry);
	return 0;
}

static int buffers_rmdir(struct pf_node *dir, struct pf_node *node, struct pf_err *err)
{
	(void)dir;
	if (pf_dir_count(node))
		return pf_err_set(err, -ENOTEMPTY, "the directory is not empty");
	pf_dir_unlink(node);
	return 0;
}

/* --- renames ------------------------------------------------------------------------------ */

static bool is_directory(const struct pf_node *node)
{
	return S_ISDIR(node->kind->mode);
}

/* What NAME in DIR is now, listed or as the view of something; NULL: nothing. */
static struct pf_node *find_target(struct pf_node *dir, const char *name)
{
	struct pf_node *node = pf_dir_lookup(dir, name);
	size_t len;

	if (!node && pf_format_of(name, &len) != PF_FORMAT_NONE)
		node = find_stem(dir, name, len);
	return node;
}

static int rename_directory(struct pf_node *node, struct pf_node *to, const char *name,
			    struct pf_node *target, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *taken = NULL;
	int r = check_stem(name, strlen(name), err);

	if (r < 0)
		return r;
	if (target && !is_directory(target))
		return pf_err_set(err, -ENOTDIR, "%s is a file", name);
	if (target && pf_dir_count(target))
		return pf_err_set(err, -ENOTEMPTY, "%s is not empty", name);
	taken = find_stem(to, name, strlen(name));
	if (taken)
		return pf_err_set(err, -EEXIST, "%s: there is a buffer of that name",
				  name);
	return pf_dir_move(node, to, name);
}

/* A listed file that becomes a scratch file keeps its bytes, also if a program made them. */
static int keep_bytes(struct pf_node *node, struct pf_err *err)
{
	struct pf_buffer *b = buffer_of(node);
	bool need;

	pf_lock(&b->lock);
	need = b->value && !b->content;
	pf_unlock(&b->lock);
	return need ? pf_buffer_adopt(b, facet_of(node)->format, true, err) : 0;
}

static int rename_buffer(struct pf_node *node, struct pf_node *to, const char *name,
			 struct pf_node *target, struct pf_err *err)
{
	struct entry *entry = facet_of(node)->entry;
	enum pf_format from = facet_of(node)->format, format;
	bool commit = false;
	int r = check_name(to, name, &format, err);

	if (r < 0)
		return r;
	if (target && is_directory(target))
		return pf_err_set(err, -EISDIR, "%s is a directory", name);
	if (from != format && from != PF_FORMAT_NONE && format != PF_FORMAT_NONE)
		return pf_err_set(err, -EINVAL,
				  "a rename does not convert: read the %s view "
				  "instead",
				  pf_format_extension(format));
	if (from != format && format == PF_FORMAT_NONE) {
		r = keep_bytes(node, err);
	} else if (from == PF_FORMAT_NONE && format != PF_FORMAT_NONE) {
		r = pf_buffer_check(entry->buffer, format, err);
		commit = r == 0;
	}
	if (r < 0)
		return r;
	if (target && facet_of(target)->entry != entry) {
		pf_dir_unlink(target);
		entry_unlinked(facet_of(target)->entry);
	}
	r = pf_dir_move(node, to, name);
	if (r < 0)
		return r;
	if (from != format) {
		facet_of(node)->format = format;
		pf_buffer_set_format(entry->buffer, format);
	}
	if (commit)
		files_commit_behind(entry->buffer);
	return 0;
}

static int exchange(struct pf_node *node, struct pf_node *target, struct pf_err *err)
{
	if (!target)
		return -ENOENT;
	if (is_directory(node) != is_directory(target) ||
	    (!is_directory(node) && facet_of(node)->format != facet_of(target)->format))
		return pf_err_set(err, -EINVAL,
				  "only two of one format can be exchanged");
	return pf_dir_exchange(node, target);
}

static int buffers_rename(struct pf_node *dir, struct pf_node *node, struct pf_node *to,
			  const char *name, unsigned flags, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *target = NULL;

	if (to->kind != &kind_buffers || place_of(dir) != place_of(to))
		return pf_err_set(err, -EOPNOTSUPP,
				  "%s: a buffer cannot be moved there: copy it", name);
	if (!is_directory(node) && facet_of(node)->entry->listed != node)
		return pf_err_set(err, -EPERM,
				  "it is a view: move the file it is a view of");
	target = find_target(to, name);
	if (flags & RENAME_EXCHANGE)
		return exchange(node, target, err);
	if (target && (flags & RENAME_NOREPLACE))
		return pf_err_set(err, -EEXIST, "%s exists", name);
	if (flags & ~(unsigned)RENAME_NOREPLACE)
		return -EINVAL;
	if (target == node) {
		/* Found by its stem: the same file, or the same array in another format. */
		char now[PF_NAME_MAX + 1];

		pf_node_name(node, now);
		if (dir == to && !strcmp(now, name))
			return 0;
	}
	return is_directory(node) ? rename_directory(node, to, name, target, err)
				  : rename_buffer(node, to, name, target, err);
}

static const struct pf_dir_ops buffers_ops = {
	.lookup = buffers_lookup,
	.create = buffers_create,
	.mkdir = buffers_mkdir,
	.unlink = buffers_unlink,
	.rmdir = buffers_rmdir,
	.rename = buffers_rename,
};

const struct pf_kind kind_buffers = { .mode = S_IFDIR | 0755, .dir = &buffers_ops };

/* --- names in commands -------------------------------------------------------------------- */

/*
 * Walk NAME's directories from DEVICE's buffers ("cpu:1/ns/x": from cpu:1's).  On success
 * *DIR has a reference and *LAST points to the last part.
 */
static int walk(struct pf_fs *fs, const struct device *device, const char *name,
		const struct pf_cred *cred, struct pf_node **dir, const char **last,
		struct pf_err *err)
{
	const char *slash = strchr(name, '/');
	struct pf_node *at;

	if (slash && memchr(name, ':', (size_t)(slash - name))) {
		device = files_find_device(fs, name, (size_t)(slash - name));
		if (!device)
			return pf_err_set(err, -ENODEV, "%s: there is no such device",
					  name);
		name = slash + 1;
	}
	at = pf_node_ref(device->buffers);
	while ((slash = strchr(name, '/'))) {
		char part[PF_NAME_MAX + 1];
		struct pf_node *next = NULL;
		size_t len = (size_t)(slash - name);

		if (len && len <= PF_NAME_MAX) {
			memcpy(part, name, len);
			part[len] = '\0';
			next = pf_dir_lookup(at, part);
		}
		pf_node_unref(at);
		if (!next || !is_directory(next)) {
			pf_node_unref(next);
			return pf_err_set(err, -ENOENT,
					  "there is no directory %.*s in buffers/",
					  (int)len, name);
		}
		at = next;
		name = slash + 1;
		if (!pf_node_may(at, cred, X_OK)) {
			pf_node_unref(at);
			return pf_err_set(err, -EACCES,
					  "directory %s may not be searched", part);
		}
	}
	*dir = at;
	*last = name;
	return 0;
}

/* The length of NAME's stem: without a listed extension, if it has one. */
static size_t stem_length(const char *name)
{
	size_t len;

	pf_format_of(name, &len);
	return len;
}

static int find_listed(struct pf_fs *fs, const struct device *device, const char *name,
		       const struct pf_cred *cred, struct pf_node **dir,
		       struct pf_node **ret, struct pf_err *err)
{
	const char *last;
	int r = walk(fs, device, name, cred, dir, &last, err);

	if (r < 0)
		return r;
	*ret = find_stem(*dir, last, stem_length(last));
	if (*ret)
		return 0;
	*ret = pf_dir_lookup(*dir, last);
	if (*ret && is_directory(*ret))
		r = pf_err_set(err, -EISDIR, "%s is a directory, not a buffer", name);
	else
		r = pf_err_set(err, -ENOENT, "there is no buffer %s", name);
	pf_node_unref(pf_steal(ret));
	return r;
}

int files_find_buffer(struct pf_fs *fs, const struct device *device, const char *name,
		      const struct pf_cred *cred, int want, struct pf_buffer **ret,
		      struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	int r = find_listed(fs, device, name, cred, &dir, &node, err);

	if (r < 0)
		return r;
	if (!pf_node_may(node, cred, want))
		return pf_err_set(err, -EACCES, "buffer %s: permission denied", name);
	*ret = pf_buffer_ref(buffer_of(node));
	return 0;
}

int files_remove_buffer(struct pf_fs *fs, const struct device *device, const char *name,
			const struct pf_cred *cred, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	int r;

	pf_tree_lock_names(fs->tree);
	r = find_listed(fs, device, name, cred, &dir, &node, err);
	if (r == 0 && !pf_node_may_remove(dir, node, cred))
		r = pf_err_set(err, -EACCES, "buffer %s: permission denied", name);
	if (r == 0)
		r = buffers_unlink(dir, node, err);
	pf_tree_unlock_names(fs->tree);
	return r;
}

int files_find_target(struct pf_fs *fs, const struct device *device, const char *name,
		      const struct pf_cred *cred, struct target *ret, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	const char *last;
	size_t len;
	int r = walk(fs, device, name, cred, &dir, &last, err);

	if (r == 0)
		r = pf_name_check(last, err);
	if (r < 0)
		return r;
	len = stem_length(last);
	r = check_stem(last, len, err);
	if (r < 0)
		return r;
	/* The longest name it can get is with its extension. */
	if (len + strlen(".npy") > PF_NAME_MAX)
		return pf_err_set(err, -ENAMETOOLONG, "%s is too long a name", name);
	node = find_stem(dir, last, len);
	if (!pf_node_may(node ? node : dir, cred, W_OK))
		return pf_err_set(err, -EACCES, "%s: permission denied", name);
	if (!node)
		r = check_free(dir, last, len, err);
	ret->name = r == 0 ? strdup(name) : NULL;
	if (r == 0 && !ret->name)
		r = -ENOMEM;
	if (r == 0) {
		ret->dir = pf_steal(&dir);
		snprintf(ret->stem, sizeof(ret->stem), "%.*s", (int)len, last);
	}
	return r;
}

void files_target_release(struct target *target)
{
	pf_node_unref(target->dir);
	free(target->name);
	memset(target, 0, sizeof(*target));
}

static int put_locked(struct target *t, struct pf_buffer *buffer, enum pf_format format,
		      const struct pf_cred *cred, bool excl, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *old = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	char name[PF_NAME_MAX + 1];
	int r;

	old = find_stem(t->dir, t->stem, strlen(t->stem));
	if (old && excl)
		return pf_err_set(err, -EEXIST, "there is a buffer %s already", t->name);
	if (!old) {
		r = check_free(t->dir, t->stem, strlen(t->stem), err);
		if (r < 0)
			return r;
	}
	node = entry_new(t->dir->tree, buffer, format, 0644 & ~cred->umask, cred);
	if (!node)
		return pf_err_set(err, -ENOMEM, "no memory for %s", t->name);
	if (old) {
		struct pf_attr was, attr;

		pf_node_attr(old, &was);
		pf_node_attr(node, &attr);
		attr.mode = was.mode;
		attr.uid = was.uid;
		attr.gid = was.gid;
		pf_node_set_attr(node, &attr);
		pf_dir_unlink(old);
		entry_unlinked(facet_of(old)->entry);
	}
	if (snprintf(name, sizeof(name), "%s%s", t->stem, pf_format_extension(format)) >=
	    (int)sizeof(name))
		return pf_err_set(err, -ENAMETOOLONG, "%s is too long a name", t->name);
	r = pf_dir_link(t->dir, name, node, false);
	return r < 0 ? pf_err_set(err, r, "%s: its directory is gone", t->name) : 0;
}

int files_put_buffer(struct target *target, struct pf_buffer *buffer,
		     enum pf_format format, const struct pf_cred *cred, bool excl,
		     struct pf_err *err)
{
	int r;

	pf_tree_lock_names(target->dir->tree);
	r = put_locked(target, buffer, format, cred, excl, err);
	pf_tree_unlock_names(target->dir->tree);
	return r;
}
