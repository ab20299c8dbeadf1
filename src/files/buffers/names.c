/* SPDX-License-Identifier: Apache-2.0 */
/* The names of buffers: which are valid, and what names in commands stand for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/json.h"

/* --- names that are refused, and why ------------------------------------------------ */

/*
 * cp(1) prints "Invalid argument", and the refused file does not exist.  So the last
 * reasons are kept: until a buffer NAME exists, NAME.json in that directory shows the
 * reason for NAME to the user that was refused.
 */

#define PROGRAM "it is called as a program: those go to programs/"
#define NUMBERS "lines of numbers, without a line of names, are called .txt"
#define IMAGE                                                                            \
	"decode it first: python3 -c 'import numpy,sys; from PIL import Image; "         \
	"numpy.save(sys.argv[2], numpy.asarray(Image.open(sys.argv[1])))' IMAGE X.npy"

/* Files of other formats: the program in Python that converts one, which the manual and the
 * mount's README show, too, and the extension of what it makes; or what to do instead. */
static const struct {
	const char *ext, *python, *to, *instead;
} foreign[] = {
	{ ".npz",
	  "import numpy,sys; [numpy.save(k, v) for k, v in "
	  "numpy.load(sys.argv[1]).items()]",
	  "", NULL },
	{ ".pt",
	  "import torch,sys; from safetensors.torch import save_file; "
	  "save_file(torch.load(sys.argv[1], map_location=lambda s, _: s), sys.argv[2])",
	  ".safetensors", NULL },
	{ ".gguf",
	  "import gguf,numpy,sys; [numpy.save(t.name, t.data) for t in "
	  "gguf.GGUFReader(sys.argv[1]).tensors]",
	  "", NULL },
	{ ".onnx",
	  "import onnx,numpy,sys; from onnx.numpy_helper import to_array; "
	  "[numpy.save(t.name, to_array(t)) for t in "
	  "onnx.load(sys.argv[1]).graph.initializer]",
	  "", NULL },
	{ ".mlir", NULL, "", PROGRAM },
	{ ".mlirbc", NULL, "", PROGRAM },
	{ ".hlo.pb", NULL, "", PROGRAM },
	{ ".jax_exported", NULL, "", PROGRAM },
	{ ".pjrtexe", NULL, "", PROGRAM },
	{ ".stablehlo", NULL, "", "StableHLO goes to programs/, as .mlir or .mlirbc" },
	{ ".csv", NULL, "", NUMBERS },
	{ ".tsv", NULL, "", NUMBERS },
	{ ".png", NULL, "", IMAGE },
	{ ".jpg", NULL, "", IMAGE },
	{ ".jpeg", NULL, "", IMAGE },
};

enum { N_FOREIGN = sizeof(foreign) / sizeof(foreign[0]) };

static bool ends_in(const char *name, size_t len, const char *ext)
{
	size_t n = strlen(ext);

	return len >= n && !memcmp(name + len - n, ext, n);
}

/* Append the line that converts the file called STEM (LEN bytes) and foreign[I].ext. */
static void print_conversion(int i, const char *stem, int len, struct pf_buf *out)
{
	pf_buf_printf(out, "python3 -c '%s' %.*s%s", foreign[i].python, len, stem,
		      foreign[i].ext);
	if (*foreign[i].to)
		pf_buf_printf(out, " %.*s%s", len, stem, foreign[i].to);
}

int buffers_check_foreign(const char *name, struct pf_err *err)
{
	pf_autobuf struct pf_buf line = PF_BUF_INIT;
	size_t len = strlen(name);
	int i = 0;

	while (i < N_FOREIGN && !ends_in(name, len, foreign[i].ext))
		i++;
	if (i == N_FOREIGN)
		return 0;
	if (foreign[i].instead)
		return pf_err_set(err, -EINVAL,
				  "%s: expected an array, which is called .npy, .txt, "
				  ".raw or .safetensors, found %s: %s",
				  name, foreign[i].ext, foreign[i].instead);
	print_conversion(i, name, (int)(len - strlen(foreign[i].ext)), &line);
	return pf_err_set(err, -EINVAL,
			  "%s files are not read; files of their arrays are made by: %s",
			  foreign[i].ext, line.data ? line.data : "python3");
}

void buffers_print_foreign(struct pf_buf *out)
{
	for (int i = 0; i < N_FOREIGN && foreign[i].python; i++) {
		pf_buf_puts(out, "  ");
		print_conversion(i, "NAME", 4, out);
		pf_buf_puts(out, "\n");
	}
}

enum pf_format buffers_format_of(const char *name, size_t *stem_len)
{
	enum pf_format format = pf_format_of(name, stem_len);

	if (format != PF_FORMAT_JSON)
		return format;
	if (stem_len)
		*stem_len = strlen(name);
	return PF_FORMAT_NONE;
}

struct device *files_device_of(struct pf_node *dir)
{
	return dir_of(dir)->device;
}

int buffers_check_stem(const char *name, size_t len, struct pf_err *err)
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

struct pf_node *buffers_find_stem(struct pf_node *dir, const char *stem, size_t len)
{
	const char *extensions[PF_FORMAT_JSON - PF_FORMAT_NPY + 1];
	size_t n = 0;

	for (unsigned f = PF_FORMAT_NPY; f < PF_FORMAT_JSON; f++)
		extensions[n++] = pf_format_extension(f);
	extensions[n] = NULL;
	return pf_dir_lookup_stem(dir, stem, len, extensions);
}

struct pf_node *buffers_find_directory(struct pf_node *dir, const char *name, size_t len)
{
	char part[PF_NAME_MAX + 1];
	struct pf_node *node;

	if (!len || len > PF_NAME_MAX)
		return NULL;
	memcpy(part, name, len);
	part[len] = '\0';
	node = pf_dir_lookup(dir, part);
	if (node && !buffers_is_directory(node))
		pf_node_unref(pf_steal(&node));
	return node;
}

/* Is there a scratch file that is called like what is known of the buffer STEM (LEN bytes)? */
static bool has_json(struct pf_node *dir, const char *stem, size_t len)
{
	const char *const json[] = { pf_format_extension(PF_FORMAT_JSON), NULL };
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *node = pf_dir_lookup_stem(dir, stem, len, json);

	return node;
}

int buffers_check_free(struct pf_node *dir, const char *name, size_t stem_len,
		       struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *taken = buffers_find_directory(dir, name, stem_len);

	if (taken)
		return pf_err_set(err, -EEXIST, "%s: there is a directory %.*s", name,
				  (int)stem_len, name);
	return has_json(dir, name, stem_len)
		       ? pf_err_set(
				 err, -EEXIST,
				 "%s: there is a file %.*s.json, which is what is known "
				 "of a buffer",
				 name, (int)stem_len, name)
		       : 0;
}

/* The object of a refusal's node. */
struct refusal {
	uint64_t dir; /* the directory's inode number, which is never reused */
	char stem[PF_NAME_MAX + 1];
	char text[PF_ERR_TEXT];
};

static int refusal_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	const struct refusal *r = node->object;
	struct json_object *o = json_object_new_object();

	(void)err;
	pf_json_add_string(o, "name", r->stem);
	pf_json_add_string(o, "state", "error");
	pf_json_add_string(o, "error", r->text);
	pf_json_print_line(o, out);
	json_object_put(o);
	return 0;
}

static void refusal_free(struct pf_node *node)
{
	free(node->object);
}

static const struct pf_kind kind_refusal = { .mode = S_IFREG | 0400,
					     .show = refusal_show,
					     .free = refusal_free };

static struct pf_node **find(struct pf_fs *fs, struct pf_node *dir, const char *stem,
			     size_t len)
{
	for (unsigned i = 0; i < FILES_REFUSALS; i++) {
		const struct refusal *r =
			fs->refusals[i] ? fs->refusals[i]->object : NULL;

		if (r && r->dir == dir->ino && strlen(r->stem) == len &&
		    !memcmp(r->stem, stem, len))
			return &fs->refusals[i];
	}
	return NULL;
}

/* The length of NAME without its last extension, also one that is not ours. */
static size_t refused_stem_length(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && dot > name ? (size_t)(dot - name) : strlen(name);
}

static struct pf_node *refusal_new(struct pf_node *dir, const char *name, size_t len,
				   const struct pf_cred *cred, const struct pf_err *err)
{
	struct refusal *r = calloc(1, sizeof(*r));
	struct pf_node *node = NULL;

	if (r) {
		r->dir = dir->ino;
		memcpy(r->stem, name, len);
		memcpy(r->text, err->text, sizeof(r->text));
		node = pf_node_new(dir->tree, &kind_refusal, r, (mode_t)-1, cred);
	}
	if (!node)
		free(r);
	return node;
}

int buffers_named(struct pf_node *dir, const char *name, const struct pf_cred *cred,
		  int r, const struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *buffer = NULL;
	size_t len = refused_stem_length(name);
	struct pf_fs *fs = fs_of(dir);
	struct pf_node **slot;

	if (r < 0 && r != -EINVAL && r != -EEXIST && r != -EOPNOTSUPP)
		return r;
	/* A refused write to NAME.json is not kept: that file is about a buffer. */
	if (strlen(name) > PF_NAME_MAX || pf_format_of(name, NULL) == PF_FORMAT_JSON)
		return r;
	slot = find(fs, dir, name, len);
	if (r == 0 && !slot)
		return 0;
	/* The .json of a buffer is about the buffer. */
	buffer = buffers_find_stem(dir, name, len);
	if (buffer && slot)
		pf_node_unref(pf_steal(slot));
	if (buffer || r == 0 || has_json(dir, name, len))
		return r;
	if (!slot)
		slot = &fs->refusals[fs->next_refusal++ % FILES_REFUSALS];
	pf_node_unref(*slot);
	*slot = refusal_new(dir, name, len, cred, err);
	return r;
}

struct pf_node *buffers_refusal(struct pf_node *dir, const char *stem, size_t len)
{
	struct pf_node **slot = find(fs_of(dir), dir, stem, len);

	return slot ? pf_node_ref(*slot) : NULL;
}

/*
 * NAME leads through a directory that does not exist, whose name is the first LEN bytes of PART.
 * Names in commands are relative to buffers/: for a path of the mount, or of the machine, the
 * error has the name to be used instead.
 */
static int no_directory(const char *name, const char *part, int len, struct pf_err *err)
{
	static const char home[] = "buffers/";
	const char *rest = NULL, *at;
	char plugin[64], id[24], device[96] = "";

	for (at = strstr(name, home); at; at = strstr(at + 1, home))
		if (at == name || at[-1] == '/')
			rest = at + strlen(home);
	at = strstr(name, "devices/");
	if (at && rest &&
	    sscanf(at, "devices/%63[^/]/%23[0-9]/buffers/", plugin, id) == 2)
		snprintf(device, sizeof(device), "%s:%s/", plugin, id);
	if (rest && *rest)
		return pf_err_set(err, -ENOENT,
				  "%s: expected a name below buffers/, found a path: "
				  "write %s%s",
				  name, device, rest);
	if (*name == '/')
		return pf_err_set(err, -ENOENT,
				  "%s: expected a name below buffers/, found a path",
				  name);
	return pf_err_set(err, -ENOENT, "there is no directory %.*s in buffers/", len,
			  part);
}

int files_walk(const struct device *device, const char *name, const struct pf_cred *cred,
	       struct pf_node **dir, const char **last, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *at = NULL;
	const char *slash = strchr(name, '/'), *whole = name;

	if (slash && memchr(name, ':', (size_t)(slash - name))) {
		device = files_find_device(device->fs, name, (size_t)(slash - name), err);
		if (!device)
			return pf_err_wrap(err, -ENODEV, "%s", name);
		name = slash + 1;
	}
	at = pf_node_ref(device->buffers);
	while ((slash = strchr(name, '/'))) {
		int len = (int)(slash - name);
		struct pf_node *next = buffers_find_directory(at, name, (size_t)len);

		pf_node_unref(at);
		at = next;
		if (!at)
			return no_directory(whole, name, len, err);
		if (!pf_node_may(at, cred, X_OK))
			return pf_err_set(err, -EACCES,
					  "directory %.*s may not be searched", len,
					  name);
		name = slash + 1;
	}
	*dir = pf_steal(&at);
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

/* NAME.json describes a buffer; it is not a buffer. */
static int check_no_json(const char *name, struct pf_err *err)
{
	size_t len;

	if (pf_format_of(name, &len) != PF_FORMAT_JSON)
		return 0;
	return pf_err_set(err, -EINVAL,
			  "%s is what is known of a buffer, whose name is %.*s", name,
			  (int)len, name);
}

int buffers_find_listed(const struct device *device, const char *name,
			const struct pf_cred *cred, struct pf_node **dir,
			struct pf_node **ret, struct pf_err *err)
{
	const char *last;
	int r = check_no_json(name, err);

	if (r == 0)
		r = files_walk(device, name, cred, dir, &last, err);
	if (r < 0)
		return r;
	*ret = buffers_find_stem(*dir, last, stem_length(last));
	if (*ret)
		return 0;
	*ret = pf_dir_lookup(*dir, last);
	if (*ret && buffers_is_directory(*ret))
		r = pf_err_set(err, -EISDIR, "%s is a directory, not a buffer", name);
	else if (strchr(name, ','))
		r = pf_err_set(
			err, -ENOENT,
			"there is no buffer \"%s\": names are separated by blanks, "
			"not by commas",
			name);
	else
		r = pf_err_set(err, -ENOENT, "there is no buffer %s", name);
	pf_node_unref(pf_steal(ret));
	return r;
}

int files_find_buffer(const struct device *device, const char *name,
		      const struct pf_cred *cred, int want, struct pf_buffer **ret,
		      struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	int r = buffers_find_listed(device, name, cred, &dir, &node, err);

	if (r < 0)
		return r;
	if (!pf_node_may(node, cred, want))
		return pf_err_set(err, -EACCES, "buffer %s: permission denied", name);
	*ret = pf_buffer_ref(buffer_of(node));
	return 0;
}

mode_t files_mode_of_buffer(const struct device *device, const char *name,
			    const struct pf_cred *cred)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	struct pf_attr attr;

	if (buffers_find_listed(device, name, cred, &dir, &node, NULL) < 0)
		return 0;
	pf_node_attr(node, &attr);
	return attr.mode & 0666;
}

int files_find_value(const struct device *device, const char *name,
		     const struct pf_cred *cred, int want, struct pf_buffer **buffer,
		     struct pf_value **value, struct pf_err *err)
{
	int r = *buffer ? 0 : files_find_buffer(device, name, cred, want, buffer, err);

	while (r == 0) {
		struct pf_buffer *now = NULL;

		r = pf_buffer_value(*buffer, value, err);
		/* Is it empty, or did it lose its name, and with that its bytes? */
		if (r == -ENODATA)
			files_find_buffer(device, name, cred, want, &now, NULL);
		if (!now || now == *buffer) {
			pf_buffer_unref(now);
			return r < 0 ? pf_err_wrap(err, r, "%s", name) : 0;
		}
		pf_buffer_unref(*buffer);
		*buffer = now;
		r = 0;
	}
	return r;
}

/* --- directories -------------------------------------------------------------------- */

/* The directory that NAME means, a trailing slash or not, with a reference, or NULL. */
static struct pf_node *find_directory(const struct device *device, const char *name,
				      const struct pf_cred *cred)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	pf_autofree char *path = strdup(name);
	size_t len = strlen(name);
	const char *last;

	while (path && len > 1 && path[len - 1] == '/' && path[len - 2] == '/')
		path[--len] = '\0';
	if (!path || files_walk(device, path, cred, &dir, &last, NULL) < 0)
		return NULL;
	if (!*last && *path) /* "ns/", or "cpu:1/" */
		return pf_steal(&dir);
	return buffers_find_directory(dir, last, strlen(last));
}

bool files_is_directory(const struct device *device, const char *name,
			const struct pf_cred *cred)
{
	struct pf_node *node = find_directory(device, name, cred);

	pf_node_unref(node);
	return node != NULL;
}

/* A buffer or directory in a directory. */
struct member {
	char stem[PF_NAME_MAX + 1];
	struct pf_node *node; /* owned reference */
};

static bool is_decimal(const char *stem)
{
	return *stem && !stem[strspn(stem, "0123456789")];
}

static int by_stem(const void *a, const void *b)
{
	return strcmp(((const struct member *)a)->stem, ((const struct member *)b)->stem);
}

/* Of any length: 2 is before 10, and 01 with 1. */
static int by_number(const void *a, const void *b)
{
	const char *x = ((const struct member *)a)->stem;
	const char *y = ((const struct member *)b)->stem;
	size_t n, m;

	x += strspn(x, "0");
	y += strspn(y, "0");
	n = strlen(x);
	m = strlen(y);
	return n != m ? (n < m ? -1 : 1) : strcmp(x, y);
}

/* The buffers and directories of DIR, sorted; NULL: no memory. */
static struct member *list_members(struct pf_node *dir, size_t *n)
{
	struct pf_node **list = pf_dir_list(dir);
	struct member *members;
	bool numbers = true;
	size_t all = 0;

	while (list && list[all])
		all++;
	members = list ? calloc(all + 1, sizeof(*members)) : NULL;
	*n = 0;
	for (size_t i = 0; i < all; i++) {
		struct member *m = members ? &members[*n] : NULL;
		size_t len;

		if (!m || (!is_buffer(list[i]) && !buffers_is_directory(list[i])) ||
		    (is_buffer(list[i]) && view_of(list[i])->format == PF_FORMAT_NONE)) {
			pf_node_unref(list[i]);
			continue;
		}
		m->node = list[i];
		pf_node_name(m->node, m->stem);
		pf_format_of(m->stem, &len); /* no directory's name has an extension */
		m->stem[len] = '\0';
		numbers = numbers && is_decimal(m->stem);
		(*n)++;
	}
	free(list);
	if (members)
		qsort(members, *n, sizeof(*members), numbers ? by_number : by_stem);
	return members;
}

enum { MAX_NAMES = 100000 };

/* Append the names below DIR.  *RESULTS becomes false at a buffer that no command numbered. */
static int expand(struct pf_node *dir, const char *path, const struct pf_cred *cred,
		  struct names *ret, bool *results, struct pf_err *err)
{
	struct member *members;
	size_t n;
	int r = 0;

	if (!pf_node_may(dir, cred, R_OK | X_OK))
		return pf_err_set(err, -EACCES, "directory %s may not be listed", path);
	members = list_members(dir, &n);
	if (!members)
		return pf_err_set(err, -ENOMEM, "no memory for directory %s", path);
	for (size_t i = 0; i < n; i++) {
		pf_autobuf struct pf_buf name = PF_BUF_INIT;

		pf_buf_printf(&name, "%s/%s", path, members[i].stem);
		if (r == 0 && name.failed)
			r = -ENOMEM;
		else if (r == 0 && ret->n >= MAX_NAMES)
			r = pf_err_set(err, -E2BIG, "more than %d buffers", MAX_NAMES);
		else if (r == 0 && buffers_is_directory(members[i].node))
			r = expand(members[i].node, name.data, cred, ret, results, err);
		else if (r == 0) {
			r = names_add(ret, name.data, name.len);
			*results = *results && view_of(members[i].node)->inode->numbered;
		}
		pf_node_unref(members[i].node);
	}
	free(members);
	return r;
}

int files_expand(const struct device *device, const char *name,
		 const struct pf_cred *cred, struct names *ret, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *dir = find_directory(device, name, cred);
	pf_autofree char *path = NULL;
	size_t len = strlen(name);
	bool results = true;
	int r;

	if (!dir)
		return names_add(ret, name, len) < 0 ? -ENOMEM : FILES_ITSELF;
	while (len > 1 && name[len - 1] == '/')
		len--;
	path = strndup(name, len);
	r = path ? expand(dir, path, cred, ret, &results, err) : -ENOMEM;
	if (r < 0)
		return r;
	return results ? FILES_RESULTS : FILES_LEAVES;
}

/* --- targets of results ------------------------------------------------------------- */

int files_find_target(const struct device *device, const char *name,
		      const struct pf_cred *cred, struct target *ret, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	const char *last;
	size_t len;
	int r = files_walk(device, name, cred, &dir, &last, err);

	if (r == 0)
		r = pf_name_check(last, err);
	if (r == 0 && buffers_check_foreign(last, NULL) < 0)
		r = pf_err_set(err, -EINVAL,
			       "%s: files of that format are neither written nor read",
			       name);
	if (r == 0)
		r = check_no_json(name, err);
	if (r < 0)
		return r;
	len = stem_length(last);
	r = buffers_check_stem(last, len, err);
	if (r < 0)
		return r;
	/* Its file name has an extension, too. */
	if (len + strlen(".npy") > PF_NAME_MAX)
		return pf_err_set(err, -ENAMETOOLONG, "%s is too long a name", name);
	node = buffers_find_stem(dir, last, len);
	if (!pf_node_may(node ? node : dir, cred, W_OK))
		return pf_err_set(err, -EACCES, "%s: permission denied", name);
	if (!node)
		r = buffers_check_free(dir, last, len, err);
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

struct pf_buffer *files_target_buffer(const struct target *target)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *node =
		buffers_find_stem(target->dir, target->stem, strlen(target->stem));

	return node ? pf_buffer_ref(buffer_of(node)) : NULL;
}
