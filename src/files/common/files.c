/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

int files_link(struct pf_node *dir, const char *name, const struct pf_kind *kind,
	       void *object, struct pf_node **ret)
{
	struct pf_node *node = pf_node_new(dir->tree, kind, object, (mode_t)-1, NULL);
	int r;

	if (!node)
		return -ENOMEM;
	r = pf_dir_link_fixed(dir, name, node);
	if (r == 0 && ret)
		*ret = node;
	else
		pf_node_unref(node);
	return r;
}

struct device *files_find_device(struct pf_fs *fs, const char *name, size_t len)
{
	for (unsigned i = 0; i < fs->n_devices; i++)
		if (strlen(fs->devices[i].name) == len &&
		    !memcmp(fs->devices[i].name, name, len))
			return &fs->devices[i];
	return NULL;
}

int files_no_device(const struct pf_fs *fs, const char *name, size_t len,
		    struct pf_err *err)
{
	enum { SHOWN = 8 };
	pf_autobuf struct pf_buf list = PF_BUF_INIT;
	unsigned n = fs->n_devices;

	for (unsigned i = 0; i < n && i < SHOWN; i++)
		pf_buf_printf(&list, "%s%s",
			      i == 0       ? ""
			      : i + 1 == n ? " and "
					   : ", ",
			      fs->devices[i].name);
	if (n > SHOWN)
		pf_buf_printf(&list, " and %u more in devices/", n - SHOWN);
	return pf_err_set(err, -ENODEV, "there is no device %.*s; there %s %s",
			  len < 64 ? (int)len : 64, name, n == 1 ? "is" : "are",
			  list.data ? list.data : "");
}

bool files_may_abandon(const struct pf_fs *fs, uid_t user)
{
	return fs->abandoned_ms && user != pf_watch_owner(fs->watch);
}

void files_abandon(const struct pf_fs *fs, struct pf_worker *worker,
		   const char *executable, uid_t user, const char *id)
{
	struct pf_err why = PF_ERR_INIT;

	pf_err_set(&why, -ECANCELED,
		   "nobody has waited for it for %" PRIu64
		   " s: the worker of plugin %s is ended",
		   fs->abandoned_ms / 1000, pf_worker_name(worker));
	pf_tell_abandoned(fs->watch, executable, user, id, &why);
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

bool files_on_thread(void *(*fn)(void *arg), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	bool ok;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	ok = pthread_create(&thread, &attr, fn, arg) == 0;
	pthread_attr_destroy(&attr);
	return ok;
}
