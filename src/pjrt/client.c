/* SPDX-License-Identifier: Apache-2.0 */
/* Creating a client and getting to know its devices. */
#include "pjrtfs/pjrt/client.h"

#include <errno.h>
#include <stdlib.h>

#include "pjrtfs/pjrt/api.h"

static int create(struct pj_client *client, struct json_object *options,
		  struct pf_err *err)
{
	PJRT_Client_Create_Args args = { PJ_SIZE(PJRT_Client_Create_Args) };
	struct pj_values values;
	int r = pj_values_init(&values, options, err);

	if (r < 0)
		return r;
	args.create_options = values.items;
	args.num_options = values.n;
	r = PJ_CALL(client->plugin, err, PJRT_Client_Create, &args);
	pj_values_release(&values);
	if (r == 0)
		client->handle = args.client;
	return r;
}

static int add_names(struct pj_client *client, struct pf_err *err)
{
	PJRT_Client_PlatformName_Args name = { PJ_SIZE(PJRT_Client_PlatformName_Args),
					       .client = client->handle };
	PJRT_Client_PlatformVersion_Args version = {
		PJ_SIZE(PJRT_Client_PlatformVersion_Args), .client = client->handle
	};
	PJRT_Client_ProcessIndex_Args index = { PJ_SIZE(PJRT_Client_ProcessIndex_Args),
						.client = client->handle };
	int r = PJ_CALL(client->plugin, err, PJRT_Client_PlatformName, &name);

	if (r < 0)
		return r;
	if (PJ_CALL(client->plugin, NULL, PJRT_Client_PlatformVersion, &version) < 0)
		version.platform_version_size = 0;
	if (PJ_CALL(client->plugin, NULL, PJRT_Client_ProcessIndex, &index) == 0)
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
	PJRT_Client_Devices_Args args = { PJ_SIZE(PJRT_Client_Devices_Args),
					  .client = client->handle };
	int r = PJ_CALL(client->plugin, err, PJRT_Client_Devices, &args);

	if (r < 0)
		return r;
	client->devices = calloc(args.num_devices + 1, sizeof(*client->devices));
	if (!client->devices)
		return pf_err_set(err, -ENOMEM, "no memory for %zu devices",
				  args.num_devices);
	for (size_t i = 0; i < args.num_devices; i++) {
		r = pj_device_init(&client->devices[i], client->plugin, args.devices[i],
				   err);
		if (r < 0)
			return pf_err_wrap(err, r, "device %zu", i);
		client->n_devices++;
	}
	return 0;
}

int pj_client_new(const struct pj_plugin *plugin, struct json_object *options,
		  struct pj_client **ret, struct pf_err *err)
{
	PF_CLEANUP(pj_client_freep) struct pj_client *client = calloc(1, sizeof(*client));
	int r;

	if (!client)
		return pf_err_set(err, -ENOMEM, "no memory for a client");
	client->plugin = plugin;
	r = create(client, options, err);
	if (r == 0)
		r = add_names(client, err);
	if (r == 0)
		r = add_devices(client, err);
	if (r < 0)
		return r;
	*ret = pf_steal(&client);
	return 0;
}

void pj_client_free(struct pj_client *client)
{
	PJRT_Client_Destroy_Args args = { PJ_SIZE(PJRT_Client_Destroy_Args) };

	if (!client)
		return;
	args.client = client->handle;
	if (client->handle)
		(void)PJ_CALL(client->plugin, NULL, PJRT_Client_Destroy, &args);
	for (size_t i = 0; i < client->n_devices; i++)
		pj_device_release(&client->devices[i]);
	free(client->devices);
	free(client->platform);
	free(client->platform_version);
	free(client);
}
