/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plugins at run time: plugins/available.json, directories that users make in plugins/, and changes of
 * plugins/NAME/options.json.
 *
 * A change is tried in a worker of its own first.  If that starts, the daemon notes the change, and
 * another daemon takes over, which has the plugin; the request is answered when this one reads no
 * more requests, so that the next call of its client meets the other one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/programs/programs.h"
#include "internal.h"
#include "pjrtfs/json.h"

enum {
	MAX_PATH = 4096,       /* bytes of path */
	MAX_OPTIONS = 1 << 20, /* of options.json */
	MAX_PLUGINS = 16,      /* directories in plugins/ */
};

/* A plugin that has not started: the object of its directory and of the files in it. */
struct new_plugin {
	/* Under the name lock: */
	struct pf_buf path, options; /* as written last */
	bool starting;
	struct pf_err why; /* it has not */
};

/* May UID load native code into the mount? */
static int may_load(const struct pf_fs *fs, uid_t uid, struct pf_err *err)
{
	if (!files_owns_mount(fs, uid))
		return pf_err_set(err, -EPERM,
				  "a plugin is native code: only the mount's owner may "
				  "add, change or remove one");
	if (!fs->config.plugins || !fs->config.plugins->can_change)
		return pf_err_set(err, -EOPNOTSUPP,
				  "plugins change only in a mount that outlives its "
				  "daemon: start pjrtfs in the background, or with "
				  "--keep");
	return 0;
}

/* --- a request that changes a plugin ---------------------------------------------------- */

struct change {
	struct pf_fs *fs;
	struct pf_reply
		*reply; /* owned; holds the open file, whose node has one of these: */
	struct new_plugin *made;  /* or NULL: the plugin runs */
	struct pf_worker *worker; /* then */
	char name[PF_NAME_MAX + 1];
	char *path;
	struct json_object *options;
};

static void change_free(struct change *c)
{
	free(c->path);
	json_object_put(c->options);
	free(c);
}

/* Is a device with number ID in LIST, of a description? */
static bool has_device(struct json_object *list, int64_t id)
{
	bool there = false;
	int64_t n;

	for (size_t i = 0; !there && i < json_object_array_length(list); i++)
		there = pf_json_get_int(json_object_object_get(
						json_object_array_get_idx(list, i), "id"),
					&n) &&
			n == id;
	return there;
}

/* Has the plugin that FOUND describes all devices of WORKER on which there are arrays? */
static int keeps_devices(struct pf_fs *fs, struct pf_worker *worker,
			 struct json_object *found, struct pf_err *err)
{
	struct json_object *list = json_object_object_get(found, "devices");
	const struct pf_device_desc *devices = pf_worker_description(worker)->devices;
	bool is_list = json_object_is_type(list, json_type_array);

	for (unsigned i = 0; i < fs->n_devices; i++) {
		const struct device *d = &fs->devices[i];

		if (d->worker == worker && pf_dir_count(d->buffers) &&
		    !(is_list && has_device(list, devices[d->index].id)))
			return pf_err_set(err, -EBUSY,
					  "device %s would be gone, and has arrays",
					  d->name);
	}
	return 0;
}

static int try(struct change *c, struct pf_err *err)
{
	const struct pf_plugin_ops *ops = c->fs->config.plugins;
	struct json_object *found = NULL;
	pf_autofree char *path = NULL;
	int r = ops->try(ops->arg, c->name, c->path, c->options, &path, &found, err);

	if (r == 0 && c->worker)
		r = keeps_devices(c->fs, c->worker, found, err);
	json_object_put(found);
	if (r == 0)
		r = ops->note(c->name, c->made || ops->is_added(c->name) ? path : NULL,
			      c->options, err);
	return r;
}

static void *change_main(void *arg)
{
	struct change *c = arg;
	const struct pf_plugin_ops *ops = c->fs->config.plugins;
	struct pf_reply *reply = c->reply;
	struct pf_err err = PF_ERR_INIT;
	int r = try(c, &err);

	if (c->made) {
		pf_tree_lock_names(c->fs->tree);
		c->made->starting = false;
		c->made->why = err;
		pf_tree_unlock_names(c->fs->tree);
	}
	if (r < 0)
		pf_reply_fail(reply, r, &err);
	change_free(c);
	if (r == 0)
		ops->restart(ops->arg, reply);
	files_changed();
	return NULL;
}

/* Change OF's plugin, which is PATH with OPTIONS (text; NULL: those of the mount), and answer REPLY at
 * the end. */
static void change(struct pf_open *of, struct new_plugin *made, struct pf_worker *worker,
		   const char *path, const struct pf_buf *options, struct pf_reply *reply)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = pf_node_parent(of->node);
	struct change *c = calloc(1, sizeof(*c));
	struct pf_err err = PF_ERR_INIT;
	int r = may_load(fs_of(of->node), of->cred.uid, &err);

	if (r == 0 && (!c || !dir || !(c->path = strdup(path))))
		r = pf_err_set(&err, -ENOMEM, "no memory");
	if (r == 0 && options && options->len)
		r = pf_json_parse(options->data, options->len, &c->options, &err);
	if (r == 0 && c->options && !json_object_is_type(c->options, json_type_object))
		r = pf_err_set(&err, -EINVAL, "expected create options as a JSON object");
	if (r == 0) {
		c->fs = fs_of(of->node);
		c->reply = reply;
		c->made = made;
		c->worker = worker;
		pf_node_name(dir, c->name);
		if (files_change(change_main, c))
			return;
		r = pf_err_set(&err, -EAGAIN, "no thread could be created");
	}
	if (c)
		change_free(c);
	pf_reply_fail(reply, r, &err);
}

static ssize_t text_write(struct pf_open *of, const void *src, size_t len, uint64_t off,
			  struct pf_err *err)
{
	int r = may_load(fs_of(of->node), of->cred.uid, err);

	if (r == 0)
		r = files_written_add(of, src, len, off, err);
	return r < 0 ? r : (ssize_t)len;
}

/* --- the directory of a plugin that has not started ------------------------------------- */

static struct new_plugin *new_of(struct pf_node *node)
{
	return node->object;
}

/* The kind ID's show, which prints the plugin P into OUT with PRINT. */
#define NEW_SHOW(id, print)                                                              \
	static int id##_show(struct pf_node *node, struct pf_buf *out,                   \
			     struct pf_err *err)                                         \
	{                                                                                \
		const struct new_plugin *p = new_of(node);                               \
                                                                                         \
		(void)err;                                                               \
		pf_tree_lock_names(node->tree);                                          \
		print;                                                                   \
		pf_tree_unlock_names(node->tree);                                        \
		return 0;                                                                \
	}

NEW_SHOW(new_path, pf_buf_append(out, p->path.data, p->path.len))
NEW_SHOW(new_options, pf_buf_append(out, p->options.data, p->options.len))
NEW_SHOW(new_state, pf_buf_puts(out, p->starting   ? "starting\n"
				     : p->why.code ? "failed\n"
						   : "new\n"))
NEW_SHOW(new_error, pf_buf_printf(out, "%s%s", p->why.text, p->why.code ? "\n" : ""))

/* OF's bytes become those of TEXT.  False: there are none. */
static bool take_text(struct pf_open *of, struct pf_buf *text)
{
	struct pf_buf *written = of->state;

	if (!written || !written->len)
		return false;
	pf_buf_release(text);
	*text = *written;
	*written = (struct pf_buf)PF_BUF_INIT;
	return true;
}

static void new_options_commit(struct pf_open *of, enum pf_commit why,
			       struct pf_reply *reply)
{
	const struct pf_buf *text = why == PF_COMMIT_FSYNC ? NULL : of->state;
	struct json_object *o = NULL;
	struct pf_err err = PF_ERR_INIT;
	int r = text ? pf_json_parse(text->data, text->len, &o, &err) : 0;

	json_object_put(o);
	if (r == 0 && text) {
		pf_tree_lock_names(of->node->tree);
		(void)take_text(of, &new_of(of->node)->options);
		pf_tree_unlock_names(of->node->tree);
	}
	pf_reply_fail(reply, r, &err);
}

static void new_path_commit(struct pf_open *of, enum pf_commit why,
			    struct pf_reply *reply)
{
	struct new_plugin *p = new_of(of->node);
	pf_autobuf struct pf_buf options = PF_BUF_INIT;
	char path[MAX_PATH + 1] = "";
	bool busy = false;

	if (why != PF_COMMIT_FSYNC) {
		pf_tree_lock_names(of->node->tree);
		busy = p->starting;
		if (!busy && take_text(of, &p->path)) {
			snprintf(path, sizeof(path), "%.*s",
				 (int)strcspn(p->path.data, "\n"), p->path.data);
			pf_buf_append(&options, p->options.data, p->options.len);
			p->starting = *path;
			p->why = (struct pf_err)PF_ERR_INIT;
		}
		pf_tree_unlock_names(of->node->tree);
	}
	if (busy || !*path)
		pf_reply_code(reply, busy ? -EBUSY : 0);
	else
		change(of, p, NULL, path, &options, reply);
}

static void new_free(struct pf_node *node)
{
	struct new_plugin *p = new_of(node);

	pf_buf_release(&p->path);
	pf_buf_release(&p->options);
	free(p);
}

static const struct pf_kind new_path = { .name = "path",
					 .mode = S_IFREG | 0644,
					 .max_write = MAX_PATH,
					 .show = new_path_show,
					 .write = text_write,
					 .commit = new_path_commit,
					 .release = files_written_release };
static const struct pf_kind new_options = { .name = "options.json",
					    .mode = S_IFREG | 0644,
					    .max_write = MAX_OPTIONS,
					    .show = new_options_show,
					    .write = text_write,
					    .commit = new_options_commit,
					    .release = files_written_release };
FILES_TEXT(new_state, "state", new_state_show, NULL);
FILES_TEXT(new_error, "error", new_error_show, NULL);

static const struct pf_kind kind_new = {
	.mode = S_IFDIR | 0755,
	.children = (const struct pf_kind *const[]){ &new_path, &new_options, &new_state,
						     &new_error, NULL },
	.free = new_free,
};

/* --- options.json of a plugin that runs -------------------------------------------------- */

static int options_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)err;
	pf_buf_printf(out, "%s\n", pf_worker_options(node->object));
	return 0;
}

static void options_commit(struct pf_open *of, enum pf_commit why, struct pf_reply *reply)
{
	struct pf_worker *worker = of->node->object;
	const struct pf_buf *text = of->state;

	if (why == PF_COMMIT_FSYNC || !text || !text->len)
		pf_reply_code(reply, 0);
	else
		change(of, NULL, worker, pf_worker_path(worker), text, reply);
}

const struct pf_kind kind_plugin_options = { .name = "options.json",
					     .mode = S_IFREG | 0644,
					     .max_write = MAX_OPTIONS,
					     .show = options_show,
					     .write = text_write,
					     .commit = options_commit,
					     .release = files_written_release };

/* --- the directory ----------------------------------------------------------------------- */

static int plugins_mkdir(struct pf_node *dir, const char *name, mode_t mode,
			 const struct pf_cred *cred, struct pf_node **ret,
			 struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	const struct pf_plugin_ops *ops = fs_of(dir)->config.plugins;
	struct new_plugin *p;
	int r = may_load(fs_of(dir), cred->uid, err);

	if (r == 0)
		r = ops->check_name(name, err);
	if (r == 0 && pf_dir_count(dir) > MAX_PLUGINS) /* available.json counts, too */
		r = pf_err_set(err, -ENOSPC, "a mount has at most %d plugins",
			       MAX_PLUGINS);
	if (r < 0)
		return r;
	p = calloc(1, sizeof(*p));
	node = p ? pf_node_new(dir->tree, &kind_new, p, mode, cred) : NULL;
	if (!node) {
		free(p);
		return -ENOMEM;
	}
	r = pf_dir_link(dir, name, node, false);
	if (r == 0)
		*ret = pf_steal(&node);
	return r;
}

struct used {
	const struct pf_worker *worker;
	unsigned programs;
};

static void count_program(void *arg, struct pf_node *node, struct program *program)
{
	struct used *used = arg;

	(void)node;
	if (pf_worker_shared(pf_executable_worker(program->x)) == used->worker)
		used->programs++;
}

/* Is nothing of WORKER used by files?  -EBUSY: how much is. */
static int check_unused(struct pf_fs *fs, const struct pf_worker *worker,
			struct pf_err *err)
{
	struct used used = { .worker = worker };
	size_t buffers = 0;

	for (unsigned i = 0; i < fs->n_devices; i++)
		if (fs->devices[i].worker == worker)
			buffers += pf_dir_count(fs->devices[i].buffers);
	files_each_executable(fs, count_program, &used);
	if (!buffers && !used.programs)
		return 0;
	return pf_err_set(err, -EBUSY,
			  "plugin %s is used by %zu buffers and %u programs: remove them "
			  "first",
			  pf_worker_name(worker), buffers, used.programs);
}

static struct pf_worker *find_worker(const struct pf_fs *fs, const char *name)
{
	for (unsigned i = 0; i < fs->n_workers; i++)
		if (!strcmp(pf_worker_name(fs->workers[i]), name))
			return fs->workers[i];
	return NULL;
}

static int plugins_rmdir(struct pf_node *dir, struct pf_node *node, struct pf_err *err)
{
	struct pf_fs *fs = fs_of(dir);
	const struct pf_plugin_ops *ops = fs->config.plugins;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *devices = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *of_it = NULL;
	char name[PF_NAME_MAX + 1];
	struct pf_worker *worker;
	int r;

	pf_node_name(node, name);
	if (node->kind == &kind_new) {
		if (new_of(node)->starting)
			return pf_err_set(err, -EBUSY, "plugin %s is starting", name);
		pf_dir_unlink(node);
		return 0;
	}
	if (!ops || !ops->can_change || !ops->is_added(name))
		return pf_err_set(err, -EBUSY,
				  "plugin %s was given when pjrtfs was started: it stays "
				  "until the mount ends",
				  name);
	worker = find_worker(fs, name);
	r = worker ? check_unused(fs, worker, err) : 0;
	if (r < 0)
		return r;
	ops->forget(name);
	pf_dir_unlink(node);
	devices = pf_dir_lookup(pf_tree_root(fs->tree), "devices");
	of_it = devices ? pf_dir_lookup(devices, name) : NULL;
	if (of_it)
		pf_dir_unlink(of_it);
	if (worker)
		ops->restart(ops->arg, NULL);
	return 0;
}

static const struct pf_dir_ops plugins_ops = { .mkdir = plugins_mkdir,
					       .rmdir = plugins_rmdir };

static int available_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	const struct pf_plugin_ops *ops = fs_of(node)->config.plugins;

	return ops ? ops->available(ops->arg, out, err) : -ENOMEM;
}

/* The paths are the owner's files. */
static const struct pf_kind available = { .name = "available.json",
					  .mode = S_IFREG | 0400,
					  .show = available_show,
					  .blocks = true };

const struct pf_kind kind_plugins = {
	.mode = S_IFDIR | 0755,
	.children = (const struct pf_kind *const[]){ &available, NULL },
	.dir = &plugins_ops,
	.instead = "mkdir makes a plugin, and its file path says which",
};
