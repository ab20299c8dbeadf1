/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/NAME/: facts about each plugin and its worker. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"
#include "pjrtfs/json.h"

static struct pf_worker *worker_of(struct pf_node *node)
{
	return node->object;
}

static const struct pf_description *desc_of(struct pf_node *node)
{
	return pf_worker_description(worker_of(node));
}

static int pid_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	unsigned restarts;
	pid_t pid;

	(void)err;
	pf_worker_pid(worker_of(node), &pid, &restarts);
	/* 0 would mean the caller's process group to kill(1). */
	if (pid)
		pf_buf_printf(out, "%d", (int)pid);
	pf_buf_puts(out, "\n");
	return 0;
}

static unsigned restarts_of(struct pf_node *node)
{
	unsigned restarts;
	pid_t pid;

	pf_worker_pid(worker_of(node), &pid, &restarts);
	return restarts;
}

static int extensions_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	struct json_object *list = desc_of(node)->extensions;

	(void)err;
	for (size_t i = 0; list && i < json_object_array_length(list); i++)
		pf_buf_printf(out, "%s\n",
			      json_object_get_string(json_object_array_get_idx(list, i)));
	return 0;
}

/* The sandbox of the worker, as the worker described it. */
static int sandbox_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	struct json_object *o = json_object_object_get(desc_of(node)->json, "sandbox");
	struct json_object *mode = json_object_object_get(o, "mode");
	struct json_object *seccomp = json_object_object_get(o, "seccomp");

	(void)err;
	pf_buf_printf(out, "%s\nlandlock %d\nseccomp %s\n",
		      mode ? json_object_get_string(mode) : "off",
		      json_object_get_int(json_object_object_get(o, "landlock")),
		      json_object_get_boolean(seccomp) ? "yes" : "no");
	return 0;
}

static int error_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)err;
	pf_worker_error(worker_of(node), out);
	return 0;
}

/* How many are on DEVICE of W. */
static void add_alive(struct json_object *o, struct pf_worker *w, unsigned device)
{
	pf_json_add_int(o, "executables",
			pf_worker_alive(w, PF_ALIVE_EXECUTABLES, device));
	pf_json_add_int(o, "buffers", pf_worker_alive(w, PF_ALIVE_BUFFERS, device));
}

static struct json_object *alive_of(struct pf_node *node)
{
	struct pf_fs *fs = fs_of(node);
	struct pf_worker *w = worker_of(node);
	struct json_object *o = json_object_new_object();
	struct json_object *devices = json_object_new_object();
	int64_t buffers = 0;

	for (unsigned i = 0; i < fs->n_devices; i++) {
		const struct device *d = &fs->devices[i];
		struct json_object *one;

		if (d->worker != w)
			continue;
		one = json_object_new_object();
		add_alive(one, w, d->index);
		buffers += pf_worker_alive(w, PF_ALIVE_BUFFERS, d->index);
		pf_json_add(devices, d->name, one);
	}
	pf_json_add_int(o, "executables",
			pf_worker_alive(w, PF_ALIVE_EXECUTABLES, PF_NO_DEVICE));
	pf_json_add_int(o, "buffers", buffers);
	pf_json_add(o, "devices", devices);
	return o;
}

/* --- topology.json, topology.pb: each open fetches it from the plugin --------------- */

static const struct pf_kind topology_json, topology_pb;

static int topology_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	bool text = node->kind == &topology_json;
	int r = pf_topology_of(worker_of(node),
			       text ? PF_TOPOLOGY_TEXT : PF_TOPOLOGY_BYTES, out, err);

	if (text && r == 0)
		pf_buf_puts(out, "\n");
	return r;
}

static const struct pf_kind topology_json = { .name = "topology.json",
					      .mode = S_IFREG | 0444,
					      .show = topology_show,
					      .blocks = true };
static const struct pf_kind topology_pb = { .name = "topology.pb",
					    .mode = S_IFREG | 0444,
					    .show = topology_show,
					    .blocks = true };

/* --- processes.json: the members of the plugin's group, as its worker sees them ------- */

static int processes_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	int r = pf_worker_ask(worker_of(node), PF_OP_GROUP, 0, 1, out, err);

	if (r == 0)
		pf_buf_puts(out, "\n");
	return r;
}

static const struct pf_kind processes_json = { .mode = S_IFREG | 0444,
					       .show = processes_show,
					       .blocks = true };

/* --- the directory ------------------------------------------------------------------ */

PF_FIELD(path, "path", "%s", pf_worker_path(worker_of(node)));
PF_FIELD(api_version, "api_version", "%d.%d", desc_of(node)->api_major,
	 desc_of(node)->api_minor);
PF_FIELD(platform, "platform", "%s", desc_of(node)->platform);
PF_FIELD(platform_version, "platform_version", "%s", desc_of(node)->platform_version);
PF_FIELD(state, "state", "%s", pf_worker_state_name(pf_worker_state(worker_of(node))));
PF_FIELD(restarts, "restarts", "%u", restarts_of(node));
FILES_TEXT(pid, "pid", pid_show, NULL);
FILES_TEXT(extensions, "extensions", extensions_show, NULL);
PF_FIELD_JSON(attributes, "attributes.json", attributes_of(desc_of(node)->attributes));
/* A plugin's output names programs of all users. */
static const struct pf_kind error = { .name = "error",
				      .mode = S_IFREG | 0440,
				      .show = error_show };
FILES_TEXT(sandbox, "sandbox", sandbox_show, NULL);
PF_FIELD_JSON(alive, "alive.json", alive_of(node));

static const struct pf_kind kind_plugin = {
	.mode = S_IFDIR | 0555,
	.children =
		(const struct pf_kind *const[]){
			&path, &api_version, &platform, &platform_version, &state, &error,
			&restarts, &pid, &extensions, &attributes, &kind_plugin_options,
			&alive, &sandbox, &kind_custom_calls, &topology_json,
			&topology_pb, &kind_log, &kind_compiles, NULL },
};

/* --- a plugin that could not be started --------------------------------------------- */

static const struct pf_failed_plugin *failed_of(struct pf_node *node)
{
	return node->object;
}

PF_FIELD(failed_path, "path", "%s", failed_of(node)->path);
PF_FIELD(failed_state, "state", "%s", pf_worker_state_name(PF_WORKER_FAILED));
PF_FIELD(failed_error, "error", "%s", failed_of(node)->why.text);
PF_FIELD(failed_options, "options.json", "%s", failed_of(node)->options);

static int failed_log_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	const struct pf_buf *printed = &failed_of(node)->printed;

	(void)err;
	if (printed->len)
		pf_buf_append(out, printed->data, printed->len);
	return 0;
}

static const struct pf_kind failed_log = { .name = "log",
					   .mode = S_IFREG | 0440,
					   .show = failed_log_show };

static const struct pf_kind kind_failed_plugin = {
	.mode = S_IFDIR | 0555,
	.children = (const struct pf_kind *const[]){ &failed_path, &failed_state,
						     &failed_error, &failed_options,
						     &failed_log, NULL },
};

/* --- the workers of isolated users --------------------------------------------------- */

static const struct pf_kind kind_users = { .mode = S_IFDIR | 0555 };

static void own_worker_free(struct pf_node *node)
{
	pf_worker_unref(node->object);
}

static const struct pf_kind kind_own_worker = {
	.mode = S_IFDIR | 0555,
	.free = own_worker_free,
	.children = (const struct pf_kind *const[]){ &state, &error, &restarts, &pid,
						     &kind_log, NULL },
};

/* NODE and the files in it belong to USER, so that the user can read what the programs print. */
static void give(struct pf_node *node, uid_t user)
{
	struct pf_node **list = S_ISDIR(node->kind->mode) ? pf_dir_list(node) : NULL;
	struct pf_attr attr;

	pf_node_attr(node, &attr);
	attr.uid = user;
	pf_node_set_attr(node, &attr);
	for (struct pf_node **p = list; p && *p; p++) {
		give(*p, user);
		pf_node_unref(*p);
	}
	free(list);
}

/* The worker has a reference; its nodes are not linked yet.  NULL: no memory. */
static struct pf_node *own_worker_new(struct pf_tree *tree, struct pf_worker *worker,
				      uid_t user)
{
	struct pf_node *dir = pf_node_new(tree, &kind_own_worker, pf_worker_ref(worker),
					  (mode_t)-1, NULL);

	if (dir)
		give(dir, user);
	else
		pf_worker_unref(worker);
	return dir;
}

struct pf_node *files_add_own_worker(struct pf_fs *fs, struct pf_worker *worker,
				     uid_t user)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *plugins = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *plugin = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *users = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *log = NULL;
	char name[16];

	snprintf(name, sizeof(name), "%u", (unsigned)user);
	plugins = pf_dir_lookup(pf_tree_root(fs->tree), "plugins");
	plugin = plugins ? pf_dir_lookup(plugins, pf_worker_name(worker)) : NULL;
	users = plugin ? pf_dir_lookup(plugin, "users") : NULL;
	dir = users ? own_worker_new(fs->tree, worker, user) : NULL;
	/* The kernel may not keep its name. */
	if (!dir || pf_dir_link(users, name, dir, true) < 0)
		return NULL;
	log = pf_dir_lookup(dir, "log");
	pf_plugin_log_on_add(pf_worker_plugin_log(worker), files_ready, log);
	return pf_steal(&dir);
}

void files_remove_own_worker(struct pf_worker *worker, struct pf_node *node)
{
	if (!node)
		return;
	pf_plugin_log_on_add(pf_worker_plugin_log(worker), NULL, NULL);
	pf_dir_unlink(node);
	pf_node_unref(node);
}

static int add_plugin(struct pf_node *plugins, struct pf_worker *worker)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *log = NULL;
	int r = files_link_plugin(plugins, pf_worker_name(worker), &kind_plugin, worker,
				  &dir);

	/* The directory keeps it until the file system ends. */
	if (r == 0 && (log = pf_dir_lookup(dir, "log")))
		pf_plugin_log_on_add(pf_worker_plugin_log(worker), files_ready, log);
	if (r == 0 && pf_worker_in_group(worker))
		r = files_link(dir, "processes.json", &processes_json, worker, NULL);
	if (r == 0 && fs_of(plugins)->config.isolate)
		r = files_link(dir, "users", &kind_users, NULL, NULL);
	return r;
}

int files_add_plugins(struct pf_fs *fs)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *plugins = NULL;
	const struct pf_failed_plugin *failed = fs->config.failed;
	int r = files_link(pf_tree_root(fs->tree), "plugins", &kind_plugins, NULL,
			   &plugins);

	for (unsigned i = 0; i < fs->n_workers && r == 0; i++)
		r = add_plugin(plugins, fs->workers[i]);
	for (unsigned i = 0; i < fs->config.n_failed && r == 0; i++)
		r = files_link_plugin(plugins, failed[i].name, &kind_failed_plugin,
				      (void *)(uintptr_t)&failed[i], NULL);
	return r;
}

void files_remove_plugins(struct pf_fs *fs)
{
	for (unsigned i = 0; i < fs->n_workers; i++)
		pf_plugin_log_on_add(pf_worker_plugin_log(fs->workers[i]), NULL, NULL);
}
