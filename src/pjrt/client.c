/* SPDX-License-Identifier: Apache-2.0 */
/* Creating a client, with the store of its group. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* --- the store that the processes of a group share ------------------------------------- */

static PJRT_Error *store_error(PJRT_CallbackError *make, const struct pf_err *err)
{
	PJRT_Error_Code code = err->code == -ETIMEDOUT ? PJRT_Error_Code_DEADLINE_EXCEEDED
			       : err->code == -ENOENT  ? PJRT_Error_Code_NOT_FOUND
			       : err->code == -EEXIST  ? PJRT_Error_Code_ALREADY_EXISTS
			       : err->code == -EACCES  ? PJRT_Error_Code_PERMISSION_DENIED
						       : PJRT_Error_Code_UNAVAILABLE;

	return (*make)(code, err->text, strlen(err->text));
}

static void delete_value(char *value)
{
	free(value);
}

/* *VALUE, of *SIZE bytes, becomes what the store has for KEY; the plugin gives it to delete_value. */
static int store_get(const struct pj_store *store, const char *key, size_t len, int ms,
		     char **value, size_t *size, struct pf_err *err)
{
	struct pf_buf bytes = PF_BUF_INIT;
	int r = store->get(store->arg, key, len, ms, &bytes, err);

	if (r == 0 && (bytes.failed || !pf_buf_reserve(&bytes, 1)))
		r = pf_err_set(err, -ENOMEM, "no memory for a value of the store");
	if (r < 0) {
		pf_buf_release(&bytes);
		return r;
	}
	*value = bytes.data;
	*size = bytes.len;
	return 0;
}

static PJRT_Error *kv_get(PJRT_KeyValueGetCallback_Args *args)
{
	struct pf_err err = PF_ERR_INIT;

	args->value_deleter_callback = delete_value;
	if (store_get(args->user_arg, args->key, args->key_size,
		      args->timeout_in_ms > 0 ? args->timeout_in_ms : 1, &args->value,
		      &args->value_size, &err) < 0)
		return store_error(args->callback_error, &err);
	return NULL;
}

static PJRT_Error *kv_try_get(PJRT_KeyValueTryGetCallback_Args *args)
{
	struct pf_err err = PF_ERR_INIT;

	args->value_deleter_callback = delete_value;
	if (store_get(args->user_arg, args->key, args->key_size, 0, &args->value,
		      &args->value_size, &err) < 0)
		return store_error(args->callback_error, &err);
	return NULL;
}

static PJRT_Error *kv_put(PJRT_KeyValuePutCallback_Args *args)
{
	const struct pj_store *store = args->user_arg;
	struct pf_err err = PF_ERR_INIT;

	if (store->put(store->arg, args->key, args->key_size, args->value,
		       args->value_size, &err) < 0)
		return store_error(args->callback_error, &err);
	return NULL;
}

int pj_client_update_processes(const struct pj_client *client,
			       const struct pj_process *processes, size_t n,
			       struct pf_err *err)
{
	PJ_ARGS(Client_UpdateGlobalProcessInfo, args, .client = client->handle,
		.num_process_infos = n);
	pf_autofree PJRT_ProcessInfo *infos = calloc(n + 1, sizeof(*infos));

	if (!infos)
		return pf_err_set(err, -ENOMEM, "no memory for %zu processes", n);
	for (size_t i = 0; i < n; i++) {
		const struct pj_process *p = &processes[i];

		infos[i] = (PJRT_ProcessInfo){
			.struct_size = PJRT_ProcessInfo_STRUCT_SIZE,
			.task_id = p->number,
			.incarnation_id = p->incarnation,
			.state = p->error ? PJRT_ProcessState_kError
					  : PJRT_ProcessState_kConnected,
			.error_code = p->error ? (int)PJRT_Error_Code_UNAVAILABLE : 0,
			.error_message = p->error,
			.error_message_size = p->error ? strlen(p->error) : 0,
		};
	}
	args.process_infos = infos;
	return PJ_CALL(client->plugin, err, Client_UpdateGlobalProcessInfo, &args);
}

static int create(struct pj_client *client, struct json_object *options,
		  const struct pj_store *store, struct pf_err *err)
{
	PJ_ARGS(Client_Create, args);
	struct pj_values values;
	int r = pj_values_init(&values, options, err);

	if (r < 0)
		return r;
	if (store) {
		args.kv_get_callback = kv_get;
		args.kv_try_get_callback = kv_try_get;
		args.kv_put_callback = kv_put;
		args.kv_get_user_arg = args.kv_try_get_user_arg = args.kv_put_user_arg =
			(void *)(uintptr_t)store;
	}
	args.create_options = values.items;
	args.num_options = values.n;
	r = PJ_CALL(client->plugin, err, Client_Create, &args);
	if (r < 0 && err)
		pf_err_explain(err, err->text, strlen(err->text));
	pj_values_release(&values);
	if (r == 0)
		r = pj_given(args.client, "PJRT_Client_Create", err);
	if (r == 0)
		client->handle = args.client;
	return r;
}

static int add_names(struct pj_client *client, struct pf_err *err)
{
	PJ_ARGS(Client_PlatformName, name, .client = client->handle);
	PJ_ARGS(Client_PlatformVersion, version, .client = client->handle);
	PJ_ARGS(Client_ProcessIndex, index, .client = client->handle);
	int r = PJ_CALL(client->plugin, err, Client_PlatformName, &name);

	if (r < 0)
		return r;
	(void)PJ_CALL(client->plugin, NULL, Client_PlatformVersion, &version);
	(void)PJ_CALL(client->plugin, NULL, Client_ProcessIndex, &index);
	client->process_index = index.process_index;
	client->platform = pj_string_copy(name.platform_name, name.platform_name_size);
	client->platform_version =
		pj_string_copy(version.platform_version, version.platform_version_size);
	if (!client->platform || !client->platform_version)
		return pf_err_set(err, -ENOMEM, "no memory for a client");
	return 0;
}

static int add_devices(struct pj_client *client, struct pf_err *err)
{
	PJ_ARGS(Client_Devices, args, .client = client->handle);
	int r = PJ_CALL(client->plugin, err, Client_Devices, &args);

	if (r == 0)
		r = pj_given_list(args.devices, args.num_devices, "PJRT_Client_Devices",
				  err);
	if (r < 0)
		return r;
	client->devices = calloc(args.num_devices + 1, sizeof(*client->devices));
	if (!client->devices)
		return pf_err_set(err, -ENOMEM, "no memory for %zu devices",
				  args.num_devices);
	for (size_t i = 0; i < args.num_devices; i++) {
		r = pj_given(args.devices[i], "PJRT_Client_Devices", err);
		if (r == 0)
			r = pj_device_init(&client->devices[i], client->plugin,
					   args.devices[i], err);
		if (r < 0)
			return pf_err_wrap(err, r, "device %zu", i);
		client->n_devices++;
	}
	return 0;
}

int pj_client_new(const struct pj_plugin *plugin, struct json_object *options,
		  const struct pj_store *store, struct pj_client **ret,
		  struct pf_err *err)
{
	PF_CLEANUP(pj_client_freep) struct pj_client *client = calloc(1, sizeof(*client));
	int r;

	if (!client)
		return pf_err_set(err, -ENOMEM, "no memory for a client");
	client->plugin = plugin;
	r = create(client, options, store, err);
	if (r == 0)
		r = add_names(client, err);
	if (r == 0)
		r = add_devices(client, err);
	if (r < 0)
		return r;
	*ret = pf_steal(&client);
	return 0;
}

int pj_client_none(const struct pj_plugin *plugin, const char *why,
		   struct pj_client **ret, struct pf_err *err)
{
	PF_CLEANUP(pj_client_freep) struct pj_client *client = calloc(1, sizeof(*client));

	if (client)
		client->why_none = strdup(why);
	if (!client || !client->why_none)
		return pf_err_set(err, -ENOMEM, "no memory for a client");
	client->plugin = plugin;
	*ret = pf_steal(&client);
	return 0;
}

int pj_client_pin(const struct pj_client *client, void *at, size_t len,
		  struct pf_err *err)
{
	PJ_ARGS(Client_DmaMap, args, .client = client->handle, .data = at, .size = len);

	return PJ_CALL(client->plugin, err, Client_DmaMap, &args);
}

int pj_client_unpin(const struct pj_client *client, void *at, struct pf_err *err)
{
	PJ_ARGS(Client_DmaUnmap, args, .client = client->handle, .data = at);

	return PJ_CALL(client->plugin, err, Client_DmaUnmap, &args);
}

void pj_client_free(struct pj_client *client)
{
	PJ_ARGS(Client_Destroy, args);

	if (!client)
		return;
	args.client = client->handle;
	if (client->handle)
		(void)PJ_CALL(client->plugin, NULL, Client_Destroy, &args);
	for (size_t i = 0; i < client->n_devices; i++)
		free(client->devices[i].shown);
	free(client->devices);
	free(client->platform);
	free(client->platform_version);
	free(client->why_none);
	free(client);
}
