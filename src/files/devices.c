/* SPDX-License-Identifier: Apache-2.0 */
/* devices/NAME/N/: facts about each device, and its buffers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/buffers/buffers.h"
#include "files/programs/programs.h"
#include "internal.h"
#include "pjrtfs/json.h"

static const struct pf_description *plugin_of(struct pf_node *node)
{
	const struct device *d = node->object;

	return pf_worker_description(d->worker);
}

static const struct pf_device_desc *desc_of_device(const struct device *d)
{
	return &pf_worker_description(d->worker)->devices[d->index];
}

static const struct pf_device_desc *desc_of(struct pf_node *node)
{
	return desc_of_device(node->object);
}

/* --- by name ------------------------------------------------------------------------ */

static void no_device(const struct pf_fs *fs, const char *name, size_t len,
		      struct pf_err *err)
{
	enum { SHOWN = 8 };
	pf_autobuf struct pf_buf list = PF_BUF_INIT;
	unsigned n = fs->n_devices;

	if (n == 0) {
		pf_err_set(err, -ENODEV,
			   "there is no device %.*s, and no other: plugins/NAME/error "
			   "says why",
			   len < 64 ? (int)len : 64, name);
		return;
	}
	for (unsigned i = 0; i < n && i < SHOWN; i++) {
		const char *before = i + 1 == n ? " and " : ", ";

		pf_buf_printf(&list, "%s%s", i ? before : "", fs->devices[i].name);
	}
	if (n > SHOWN)
		pf_buf_printf(&list, " and %u more in devices/", n - SHOWN);
	pf_err_set(err, -ENODEV, "there is no device %.*s; there %s %s",
		   len < 64 ? (int)len : 64, name, n == 1 ? "is" : "are",
		   list.data ? list.data : "");
}

int files_check_device(const struct device *device, struct pf_err *err)
{
	return device->fs->n_devices ? 0 : pf_worker_has_client(device->worker, err);
}

int files_refuse_remote(const struct device *device, struct pf_err *err)
{
	const struct pf_description *d = pf_worker_description(device->worker);

	return pf_err_set(err, -EREMOTE,
			  "device %s belongs to process %lld of the group: only that "
			  "one can use it",
			  device->name,
			  (long long)d->devices[device->index].process_index);
}

struct device *files_find_device(struct pf_fs *fs, const char *name, size_t len,
				 struct pf_err *err)
{
	for (unsigned i = 0; i < fs->n_devices; i++)
		if (strlen(fs->devices[i].name) == len &&
		    !memcmp(fs->devices[i].name, name, len))
			return &fs->devices[i];
	for (unsigned i = 0; i < fs->n_remote; i++)
		if (strlen(fs->remote[i].name) == len &&
		    !memcmp(fs->remote[i].name, name, len)) {
			files_refuse_remote(&fs->remote[i], err);
			return NULL;
		}
	no_device(fs, name, len, err);
	return NULL;
}

/* --- memory_stats.json: each open fetches it from the plugin, each write clears it -- */

enum { STATS_S = 1 };

static void print_unavailable(const char *why, struct pf_buf *out)
{
	struct json_object *o = json_object_new_object();

	pf_json_add_string(o, "unavailable", why);
	pf_json_print_line(o, out);
	json_object_put(o);
}

/* Append D's statistics as its worker has them.  Blocks for a second at most. */
static void print_stats(struct device *d, struct pf_buf *out)
{
	struct pf_err err = PF_ERR_INIT;

	if (pf_worker_ask(d->worker, PF_OP_MEMORY_STATS, d->index, STATS_S, out, &err) <
	    0)
		print_unavailable(err.text, out);
	else
		pf_buf_puts(out, "\n");
	atomic_store(&d->stats_len, out->len);
}

static int stats_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)err;
	print_stats(node->object, out);
	return 0;
}

/* The next text is as long, or nearly so. */
static void stats_getattr(struct pf_node *node, struct stat *st)
{
	const struct device *d = node->object;

	st->st_size = (off_t)atomic_load(&d->stats_len);
}

/* A write that clears the figures. */
struct clearing {
	struct pf_worker *worker; /* borrowed: lives as long as the mount */
	unsigned index;
	struct pf_reply *reply; /* owned */
	size_t len;
};

static void *clear_stats(void *arg)
{
	struct clearing *c = arg;
	struct pf_err err = PF_ERR_INIT;
	int r = pf_worker_tell(c->worker, PF_OP_CLEAR_STATS, c->index, STATS_S, &err);

	if (r < 0)
		pf_reply_fail(c->reply, r, &err);
	else
		pf_reply_count(c->reply, c->len);
	free(c);
	return NULL;
}

/* Whatever is written. */
static void stats_send(struct pf_open *of, const void *src, size_t len,
		       struct pf_reply *reply)
{
	const struct device *d = of->node->object;
	struct clearing *c = malloc(sizeof(*c));

	(void)src;
	if (c)
		*c = (struct clearing){ d->worker, d->index, reply, len };
	if (!c || pf_thread_start(NULL, clear_stats, c)) {
		free(c);
		pf_reply_code(reply, -ENOMEM);
	}
}

/* --- memories/KIND/ ----------------------------------------------------------------- */

static const struct pf_memory_desc *memory_of(struct pf_node *node)
{
	return node->object;
}

static bool is_default(struct pf_node *node)
{
	const struct pf_fs *fs = fs_of(node);

	for (unsigned i = 0; i < fs->n_devices; i++) {
		const struct pf_device_desc *d = desc_of_device(&fs->devices[i]);

		if (memory_of(node) == &d->memories[d->default_memory])
			return true;
	}
	return false;
}

PF_FIELD(memory_id, "id", "%lld", (long long)memory_of(node)->id);
PF_FIELD(memory_kind, "kind", "%s", memory_of(node)->kind);
PF_FIELD(memory_description, "description", "%s", memory_of(node)->description);
PF_FIELD(memory_default, "default", "%s", is_default(node) ? "true" : "false");

static const struct pf_kind kind_memory = {
	.mode = S_IFDIR | 0555,
	.children = (const struct pf_kind *const[]){ &memory_id, &memory_kind,
						     &memory_description, &memory_default,
						     NULL },
};

/* --- executables: the names of those that are loaded there -------------------------- */

static bool runs_on(struct pf_executable *x, const struct device *d)
{
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *loaded = pf_executable_loaded(x);
	const struct pf_loaded_facts l = pf_loaded_facts(loaded);

	if (!loaded || pf_worker_shared(l.worker) != d->worker)
		return false;
	for (unsigned i = 0; i < l.n_devices; i++)
		if (l.devices[i] == d->index)
			return true;
	return l.n_devices == 0; /* one for any device */
}

struct listing {
	const struct device *device;
	struct pf_buf *out;
};

static void list_executable(void *arg, struct pf_node *node, struct program *program)
{
	const struct listing *l = arg;

	if (!runs_on(program->x, l->device))
		return;
	pf_node_path(node, l->device->fs->executables, l->out);
	pf_buf_puts(l->out, "\n");
}

static int executables_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	struct listing l = { node->object, out };

	(void)err;
	files_each_executable(l.device->fs, list_executable, &l);
	return 0;
}

/* --- the directory ------------------------------------------------------------------ */

/* To plugins/NAME, and, for the default device's buffers, to /buffers. */
static int plugin_readlink(struct pf_node *node, struct pf_buf *out)
{
	const struct device *d = node->object;

	pf_buf_printf(out, "../../../plugins/%s", pf_worker_name(d->worker));
	return 0;
}

static int buffers_readlink(struct pf_node *node, struct pf_buf *out)
{
	(void)node;
	pf_buf_puts(out, "../../../buffers");
	return 0;
}

PF_FIELD(id, "id", "%lld", (long long)desc_of(node)->id);
PF_FIELD(kind, "kind", "%s", desc_of(node)->kind);
PF_FIELD(platform, "platform", "%s", plugin_of(node)->platform);
PF_FIELD(local_hardware_id, "local_hardware_id", "%lld",
	 (long long)desc_of(node)->local_hardware_id);
PF_FIELD(process_index, "process_index", "%lld", (long long)desc_of(node)->process_index);
PF_FIELD(addressable, "addressable", "%s", desc_of(node)->addressable ? "true" : "false");
PF_FIELD(description, "description", "%s", desc_of(node)->description);
PF_FIELD(debug, "debug", "%s", desc_of(node)->debug);
PF_FIELD_JSON(attributes, "attributes.json", attributes_of(desc_of(node)->attributes));
FILES_TEXT(executables, "executables", executables_show, NULL);
/* The figures are everybody's: the mount's owner decides who may clear them. */
static const struct pf_kind stats = { .name = "memory_stats.json",
				      .mode = S_IFREG | 0644,
				      .show = stats_show,
				      .send = stats_send,
				      .blocks = true,
				      .getattr = stats_getattr };
static const struct pf_kind plugin = { .name = "plugin",
				       .mode = S_IFLNK | 0777,
				       .readlink = plugin_readlink };
static const struct pf_kind default_buffers = { .mode = S_IFLNK | 0777,
						.readlink = buffers_readlink };
static const struct pf_kind kind_memories = { .mode = S_IFDIR | 0555 };

static const struct pf_kind kind_device = {
	.mode = S_IFDIR | 0555,
	.children = (const struct pf_kind *const[]){ &id, &kind, &platform,
						     &local_hardware_id, &process_index,
						     &addressable, &description, &debug,
						     &attributes, &stats, &executables,
						     &kind_queue, &plugin, NULL },
};

/* --- a device of another process of the group ----------------------------------------- */

static int remote_create(struct pf_node *dir, const char *name, mode_t mode,
			 const struct pf_cred *cred, struct pf_node **ret,
			 struct pf_err *err)
{
	(void)name;
	(void)mode;
	(void)cred;
	(void)ret;
	return files_refuse_remote(dir->object, err);
}

/* Arrays on it belong to the other process's mount. */
static const struct pf_kind remote_buffers = {
	.name = "buffers",
	.mode = S_IFDIR | 0755,
	.dir = &(const struct pf_dir_ops){ .create = remote_create },
};

static const struct pf_kind kind_remote_device = {
	.mode = S_IFDIR | 0555,
	.children = (const struct pf_kind *const[]){ &id, &kind, &platform,
						     &process_index, &addressable,
						     &description, &debug, &attributes,
						     &plugin, &remote_buffers, NULL },
};

/* devices/ and devices/PLUGIN/ */
static const struct pf_kind kind_devices = { .mode = S_IFDIR | 0555 };

static int add_memories(struct pf_node *dir, const struct pf_device_desc *desc)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *memories = NULL;
	int r = files_link(dir, "memories", &kind_memories, NULL, &memories);

	for (unsigned i = 0; i < desc->n_memories && r == 0; i++)
		r = files_link(memories, desc->memories[i].kind, &kind_memory,
			       &desc->memories[i], NULL);
	return r;
}

static int add_device(struct pf_node *parent, struct device *d, bool first)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	const struct pf_device_desc *desc = desc_of_device(d);
	pf_autobuf struct pf_buf stats_now = PF_BUF_INIT;
	char name[32];
	int r;

	snprintf(name, sizeof(name), "%lld", (long long)desc->id);
	if (!desc->addressable)
		return files_link(parent, name, &kind_remote_device, d, NULL);
	r = files_link(parent, name, &kind_device, d, &dir);
	if (r == 0)
		r = add_memories(dir, desc);
	print_stats(d, &stats_now); /* so that stat(2) has a size before the first open */
	if (r == 0 && first)
		r = files_link(dir, "buffers", &default_buffers, d, NULL);
	else if (r == 0)
		r = files_add_buffers(dir, d);
	return r;
}

int files_add_devices(struct pf_fs *fs)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *devices = NULL;
	int r = files_link(pf_tree_root(fs->tree), "devices", &kind_devices, NULL,
			   &devices);

	for (unsigned i = 0; i < fs->n_devices + fs->n_remote && r == 0; i++) {
		struct device *d = &fs->devices[i]; /* remote ones follow */
		PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;

		dir = pf_dir_lookup(devices, pf_worker_name(d->worker));
		if (!dir)
			r = files_link_plugin(devices, pf_worker_name(d->worker),
					      &kind_devices, NULL, &dir);
		if (r == 0)
			r = add_device(dir, d, i == 0);
	}
	return r;
}
