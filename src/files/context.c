/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

int names_add(struct names *names, const char *str, size_t len)
{
	char **at = realloc(names->at, (names->n + 1) * sizeof(*at));

	if (!at)
		return -ENOMEM;
	names->at = at;
	at[names->n] = strndup(str, len);
	if (!at[names->n])
		return -ENOMEM;
	names->n++;
	return 0;
}

void names_release(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->at[i]);
	free(names->at);
	memset(names, 0, sizeof(*names));
}

struct pf_account *files_account(const struct pf_fs *fs, uid_t uid)
{
	return pf_account_of(fs->quotas, uid);
}

static int link_as(bool fixed, struct pf_node *dir, const char *name,
		   const struct pf_kind *kind, void *object, struct pf_node **ret)
{
	struct pf_node *node = pf_node_new(dir->tree, kind, object, (mode_t)-1, NULL);
	int r;

	if (!node)
		return -ENOMEM;
	r = fixed ? pf_dir_link_fixed(dir, name, node)
		  : pf_dir_link(dir, name, node, false);
	if (r == 0 && ret)
		*ret = node;
	else
		pf_node_unref(node);
	return r;
}

int files_link(struct pf_node *dir, const char *name, const struct pf_kind *kind,
	       void *object, struct pf_node **ret)
{
	return link_as(true, dir, name, kind, object, ret);
}

int files_link_plugin(struct pf_node *dir, const char *name, const struct pf_kind *kind,
		      void *object, struct pf_node **ret)
{
	const struct pf_plugin_ops *ops = fs_of(dir)->config.plugins;
	bool may_go = ops && ops->can_change && ops->is_added(name);

	return link_as(!may_go, dir, name, kind, object, ret);
}

static void no_device(const struct pf_fs *fs, const char *name, size_t len,
		      struct pf_err *err)
{
	enum { SHOWN = 8 };
	pf_autobuf struct pf_buf list = PF_BUF_INIT;
	unsigned n = fs->n_devices;

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

void files_abandon(const struct pf_fs *fs, struct pf_worker *worker,
		   const char *executable, uid_t user, const char *id)
{
	struct pf_err why = PF_ERR_INIT;

	pf_err_set(&why, -ECANCELED,
		   "nobody has waited for it for %" PRIu64
		   " s: the worker of plugin %s is ended",
		   fs->config.abandoned_ms / 1000, pf_worker_name(worker));
	pf_report_abandoned(fs->config.telemetry, executable, user, id, &why);
	pf_worker_restart(worker);
}

int files_parse_shape(struct json_object *v, struct pf_shape *ret, struct pf_err *err)
{
	memset(ret, 0, sizeof(*ret));
	if (!json_object_is_type(v, json_type_array))
		return pf_err_set(err, -EINVAL, "expected a list of extents");
	if (json_object_array_length(v) > PF_MAX_RANK)
		return pf_err_set(err, -EINVAL, "more than %d extents", PF_MAX_RANK);
	for (size_t i = 0; i < json_object_array_length(v); i++) {
		struct json_object *d = json_object_array_get_idx(v, i);

		if (!json_object_is_type(d, json_type_int) ||
		    json_object_get_int64(d) < 0)
			return pf_err_set(err, -EINVAL,
					  "extent %zu: expected a number from 0 on, "
					  "found %s",
					  i, json_object_to_json_string(d));
		ret->dims[ret->rank++] = json_object_get_int64(d);
	}
	return 0;
}

void files_reply_part(struct pf_reply *reply, const void *data, uint64_t size, size_t len,
		      uint64_t off)
{
	uint64_t left = data && off < size ? size - off : 0;

	pf_reply_data(reply, left ? (const char *)data + off : NULL,
		      len < left ? len : left);
}

bool files_owns_mount(const struct pf_fs *fs, uid_t uid)
{
	return uid == 0 || uid == fs->config.uid;
}

/* Changes under way: their threads use the file system. */
static atomic_uint n_changes;

bool pf_fs_is_changing(void)
{
	return atomic_load(&n_changes);
}

bool files_change(void *(*fn)(void *arg), void *arg)
{
	atomic_fetch_add(&n_changes, 1);
	if (pf_thread_start(NULL, fn, arg) == 0)
		return true;
	files_changed();
	return false;
}

void files_changed(void)
{
	atomic_fetch_sub(&n_changes, 1);
}

struct slow_open {
	struct pf_open *of;     /* stays until REPLY is answered */
	struct pf_reply *reply; /* owned */
	int (*open)(struct pf_open *of, struct pf_err *err);
};

static void *open_on_thread(void *arg)
{
	struct slow_open *o = arg;
	struct pf_err err = PF_ERR_INIT;
	int r = o->open(o->of, &err);

	pf_reply_fail(o->reply, r, &err);
	free(o);
	return NULL;
}

void files_open_slowly(struct pf_open *of, struct pf_reply *reply,
		       int (*open)(struct pf_open *of, struct pf_err *err))
{
	struct pf_err err = PF_ERR_INIT;
	int r = pf_open_may_hold(of, &err);
	struct slow_open *o;

	if (r < 0) {
		pf_reply_fail(reply, r, &err);
		return;
	}
	o = malloc(sizeof(*o));
	if (o)
		*o = (struct slow_open){ .of = of, .reply = reply, .open = open };
	if (!o || pf_thread_start(NULL, open_on_thread, o)) {
		free(o);
		pf_reply_code(reply, -ENOMEM);
	}
}

void files_event_begin(struct pf_event *e, const char *event, struct pf_node *node)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct pf_attr attr;

	pf_node_path(node, NULL, &path);
	pf_node_attr(node, &attr);
	pf_event_begin(e, fs_of(node)->config.telemetry, event, attr.uid, "%s",
		       path.data ? path.data : "");
}

void files_report(struct pf_node *node, const char *event, const char *from)
{
	struct pf_event e;

	files_event_begin(&e, event, node);
	pf_event_str(&e, "from", from);
	pf_event_send(&e);
}

void files_report_failed(struct pf_fs *fs, const char *file, uid_t uid, const char *id,
			 const struct pf_err *err)
{
	struct pf_event e;

	pf_event_begin(&e, fs->config.telemetry, "command.failed", uid, "%s", file);
	pf_event_json(&e, "id", id);
	pf_event_error(&e, err);
	pf_event_send(&e);
}
