/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NAME.sharding.json: how one array is split over the buffers NAME of several devices.
 *
 * The file is in the default device's buffers/, wherever the shards are.  Its content never
 * changes: another sharding is another file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffers.h"
#include "internal.h"
#include "pjrtfs/json.h"
#include "pjrtfs/state.h"

static const char extension[] = ".sharding.json";

void sharded_release(struct sharded *sh)
{
	pf_sharding_release(&sh->s);
	memset(sh, 0, sizeof(*sh));
}

/* --- the file ----------------------------------------------------------------------- */

static int sharding_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	const struct sharded *sh = node->object;
	struct json_object *o = json_object_new_object(), *devices;

	(void)err;
	pf_json_add_string(o, "dtype", pf_dtype_name(sh->dtype));
	if (sh->known) {
		pf_json_add(o, "shape", pf_shape_json(&sh->whole));
		pf_sharding_print(&sh->s, o);
	} else {
		pf_json_add_string(o, "unavailable",
				   "the program does not tell how it splits its results");
		devices = json_object_new_array();
		for (unsigned i = 0; i < sh->s.n; i++)
			pf_json_append(devices, json_object_new_string(sh->s.devices[i]));
		pf_json_add(o, "devices", devices);
	}
	pf_json_add(o, "shard_shape", pf_shape_json(&sh->shard));
	pf_json_print_line(o, out);
	json_object_put(o);
	return 0;
}

static void sharding_free(struct pf_node *node)
{
	atomic_fetch_sub(&fs_of(node)->n_shardings, 1);
	sharded_release(node->object);
	free(node->object);
}

const struct pf_kind kind_sharding = { .mode = S_IFREG | 0444,
				       .show = sharding_show,
				       .restored_as = RESTORED_SHARDING,
				       .free = sharding_free };

/* --- after a restart of the daemon --------------------------------------------------- */

/* The journal has the text of the file. */
static void sharding_save(struct pf_node *node)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;

	if (pf_state_on() && sharding_show(node, &text, NULL) == 0 && !text.failed)
		pf_state_put(PF_STATE_OBJECT, node->ino, text.data, text.len, NULL, 0);
}

/* Read the names of devices of a sharding that is not known. */
static int parse_devices(struct json_object *list, struct pf_sharding *s)
{
	size_t n = json_object_array_length(list);

	s->devices = calloc(n + 1, sizeof(*s->devices));
	for (; s->devices && s->n < n; s->n++) {
		struct json_object *name = json_object_array_get_idx(list, s->n);

		s->devices[s->n] = strdup(json_object_get_string(name));
		if (!s->devices[s->n])
			return -ENOMEM;
	}
	return s->devices ? 0 : -ENOMEM;
}

static int sharding_parse(struct json_object *o, struct sharded *ret, struct pf_err *err)
{
	const char *dtype = pf_json_get_string(o, "dtype");
	struct json_object *devices = json_object_object_get(o, "devices");
	struct json_object *shape = json_object_object_get(o, "shape");
	int r = files_parse_shape(json_object_object_get(o, "shard_shape"), &ret->shard,
				  err);

	ret->dtype = pf_dtype_parse(dtype, strlen(dtype));
	ret->known = shape != NULL;
	if (r == 0 && ret->known)
		r = files_parse_shape(shape, &ret->whole, err);
	if (r < 0 || !ret->known)
		return r < 0 ? r : parse_devices(devices, &ret->s);
	return pf_sharding_parse(json_object_object_get(o, "mesh"),
				 json_object_object_get(o, "spec"), devices,
				 ret->whole.rank, &ret->s, err);
}

int buffers_restore_sharding(struct restoring *restoring, struct pf_node *dir,
			     const struct pf_restored *old, struct pf_node **ret,
			     struct pf_err *err)
{
	struct pf_tree *tree = restoring->fs->tree;
	struct sharded *own = calloc(1, sizeof(*own));
	struct json_object *o = NULL;
	size_t len = 0;
	const char *text = pf_state_get(PF_STATE_OBJECT, old->ino, &len);
	int r = own ? pf_json_parse(text, len, &o, err) : -ENOMEM;

	if (r == 0)
		r = sharding_parse(o, own, err);
	json_object_put(o);
	if (r == 0) {
		pf_tree_adopt(tree, old->ino);
		*ret = pf_node_new(tree, &kind_sharding, own, (mode_t)-1, NULL);
		r = *ret ? 0 : -ENOMEM;
	}
	if (r < 0) {
		if (own)
			sharded_release(own);
		free(own);
		return r;
	}
	(void)dir;
	atomic_fetch_add(&restoring->fs->n_shardings, 1);
	sharding_save(*ret);
	return 0;
}

/* --- its name ----------------------------------------------------------------------- */

static bool names_device(const char *name)
{
	const char *slash = strchr(name, '/');

	return slash && memchr(name, ':', (size_t)(slash - name));
}

/* The name of the sharding file of the buffer NAME, which may have an extension. */
static int file_name(const char *name, char ret[PF_NAME_MAX + 1], struct pf_err *err)
{
	size_t len;

	pf_format_of(name, &len);
	if (len + sizeof(extension) - 1 > PF_NAME_MAX)
		return pf_err_set(err, -ENAMETOOLONG,
				  "%.32s... is too long a name for the shards of an "
				  "array: at most %zu bytes",
				  name, PF_NAME_MAX - sizeof(extension) + 1);
	snprintf(ret, PF_NAME_MAX + 1, "%.*s%s", (int)len, name, extension);
	return 0;
}

int files_find_sharding(struct pf_fs *fs, const char *name, const struct pf_cred *cred,
			struct pf_node **node, const struct sharded **ret,
			struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	char file[PF_NAME_MAX + 1];
	const char *last;
	int r;

	*node = NULL;
	if (!atomic_load(&fs->n_shardings) || names_device(name))
		return 0;
	r = files_walk(&fs->devices[0], name, cred, &dir, &last, err);
	if (r < 0)
		return r;
	if (file_name(last, file, NULL) < 0)
		return 0;
	*node = pf_dir_lookup(dir, file);
	if (!*node || (*node)->kind != &kind_sharding) {
		pf_node_unref(pf_steal(node));
		return 0;
	}
	if (!pf_node_may(*node, cred, R_OK)) {
		pf_node_unref(pf_steal(node));
		return pf_err_set(err, -EACCES, "%s: permission denied", file);
	}
	*ret = (*node)->object;
	return 1;
}

/* --- making it ---------------------------------------------------------------------- */

/* Find *DIR, with a reference, and the name of the sharding file of NAME, if CRED may make it
 * there.  The owner of an old file may replace it, as may a user with W_OK on the directory. */
static int find_place(struct pf_fs *fs, const char *name, const struct pf_cred *cred,
		      struct pf_node **dir, char file[PF_NAME_MAX + 1],
		      struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *old = NULL;
	const char *last;
	struct pf_attr attr;
	int r;
	bool may;

	if (names_device(name))
		return pf_err_set(
			err, -EINVAL,
			"%s: the buffers of an array on several devices have one "
			"name, without a device",
			name);
	r = files_walk(&fs->devices[0], name, cred, dir, &last, err);
	if (r == 0)
		r = file_name(last, file, err);
	if (r < 0)
		return r;
	old = pf_dir_lookup(*dir, file);
	if (old)
		pf_node_attr(old, &attr);
	may = old ? cred->uid == attr.uid || pf_node_may_remove(*dir, old, cred)
		  : pf_node_may(*dir, cred, W_OK | X_OK);
	return may ? 0 : pf_err_set(err, -EACCES, "%s: permission denied", file);
}

int files_check_sharding(struct pf_fs *fs, const char *name, const struct pf_cred *cred,
			 struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	char file[PF_NAME_MAX + 1];

	return find_place(fs, name, cred, &dir, file, err);
}

int files_put_sharding_locked(struct pf_fs *fs, const char *name,
			      const struct pf_cred *cred, struct sharded *sharded,
			      struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	char file[PF_NAME_MAX + 1];
	int r = find_place(fs, name, cred, &dir, file, err);
	struct sharded *own;

	if (r < 0)
		return r;
	own = malloc(sizeof(*own));
	if (own)
		node = pf_node_new(dir->tree, &kind_sharding, own, 0444 & ~cred->umask,
				   cred);
	if (!node) {
		free(own);
		return pf_err_set(err, -ENOMEM, "no memory for %s", file);
	}
	*own = *sharded;
	memset(sharded, 0, sizeof(*sharded));
	atomic_fetch_add(&fs->n_shardings, 1);
	sharding_save(node);
	r = pf_dir_link(dir, file, node, true);
	return r < 0 ? pf_err_set(err, r, "%s: its directory is gone", file) : 0;
}

/* --- removing it --------------------------------------------------------------------- */

static const struct pf_cred all_rights; /* of uid 0 */

/* Has a device of SH a buffer NAME? */
static bool any_left(struct pf_fs *fs, const struct sharded *sh, const char *name)
{
	for (unsigned i = 0; i < sh->s.n; i++) {
		const char *on = sh->s.devices[i];
		const struct device *device = files_find_device(fs, on, strlen(on), NULL);
		PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *shard = NULL;

		if (device &&
		    files_find_buffer(device, name, &all_rights, R_OK, &shard, NULL) == 0)
			return true;
	}
	return false;
}

void files_shard_gone(struct pf_node *dir, const char *name)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	pf_autobuf struct pf_buf whole = PF_BUF_INIT; /* the array's name */
	struct pf_fs *fs = fs_of(dir);
	const struct sharded *about;
	size_t len;

	if (!atomic_load(&fs->n_shardings) ||
	    buffers_format_of(name, &len) == PF_FORMAT_NONE)
		return;
	pf_node_path(dir, files_device_of(dir)->buffers, &whole);
	pf_buf_printf(&whole, "%s%.*s", whole.len ? "/" : "", (int)len, name);
	if (!whole.failed &&
	    files_find_sharding(fs, whole.data, &all_rights, &node, &about, NULL) > 0 &&
	    !any_left(fs, about, whole.data))
		pf_dir_unlink(node);
}

/* --- devices ------------------------------------------------------------------------ */

int files_sharding_devices(struct pf_fs *fs, const struct device *device,
			   struct json_object *list, struct pf_device_names *ret,
			   struct pf_err *err)
{
	int r = list ? pf_device_names_parse(list, ret, err) : 0;

	if (r < 0)
		return pf_err_wrap(err, r, "\"devices\"");
	for (unsigned i = 0; list && i < ret->n; i++)
		if (!files_find_device(fs, ret->at[i], strlen(ret->at[i]), err))
			return pf_err_wrap(err, -ENODEV, "\"devices\"");
	if (list)
		return 0;
	ret->at = calloc(fs->n_devices, sizeof(*ret->at));
	for (unsigned i = 0; ret->at && i < fs->n_devices; i++) {
		if (fs->devices[i].worker != pf_worker_shared(device->worker))
			continue;
		ret->at[ret->n] = strdup(fs->devices[i].name);
		if (!ret->at[ret->n++])
			return pf_err_set(err, -ENOMEM, "no memory for a mesh");
	}
	return ret->at ? 0 : pf_err_set(err, -ENOMEM, "no memory for a mesh");
}
