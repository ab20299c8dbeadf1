/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays to and from devices of other processes of the client. */
#include "cross_host.h"

#include <errno.h>

#include "internal.h"

static int find_extension(const struct pj_plugin *plugin,
			  const struct pj_cross_host_extension **ret, struct pf_err *err)
{
	const struct pj_cross_host_extension *e =
		(const void *)pj_find_extension(plugin,
						PJRT_Extension_Type_CrossHostTransfers,
						sizeof(*e));

	*ret = e;
	return e && e->send && e->receive
		       ? 0
		       : pf_err_set(
				 err, -EOPNOTSUPP,
				 "the plugin moves no arrays between processes: it has "
				 "no CrossHostTransfers extension with "
				 "CrossHostSendBuffers");
}

int pj_cross_host_check(const struct pj_plugin *plugin, struct pf_err *err)
{
	const struct pj_cross_host_extension *e;

	return find_extension(plugin, &e, err);
}

int pj_cross_host_send(const struct pj_client *client, struct PJRT_Buffer *buffer,
		       int64_t to, int64_t key, struct pf_err *err)
{
	const struct pj_cross_host_extension *e;
	PJRT_Event *sent = NULL;
	struct pj_send_args args = { .struct_size = sizeof(args),
				     .client = client->handle,
				     .n = 1,
				     .buffers = &buffer,
				     .to = &to,
				     .keys = &key,
				     .events = &sent };
	int r = find_extension(client->plugin, &e, err);

	if (r == 0)
		r = pj_check(client->plugin, e->send(&args), err);
	return r < 0 ? r
		     : pj_event_await(client->plugin, sent, "CrossHostSendBuffers", err);
}

int pj_cross_host_receive(const struct pj_client *client, const struct pj_place *place,
			  int64_t from, int64_t key, uint64_t len, int dtype,
			  const struct pf_shape *shape, struct PJRT_Buffer **ret,
			  struct pf_err *err)
{
	const struct pj_cross_host_extension *e;
	PJRT_Buffer_MemoryLayout *layout = NULL;
	PJRT_Buffer_Type type = (PJRT_Buffer_Type)dtype;
	const int64_t *dims = shape->dims;
	size_t rank = shape->rank;
	PJRT_Buffer *buffer = NULL;
	struct pj_receive_args args = { .struct_size = sizeof(args),
					.client = client->handle,
					.n = 1,
					.ranks = &rank,
					.dims = &dims,
					.types = &type,
					.layouts = &layout,
					.device = place->device->handle,
					.from = &from,
					.keys = &key,
					.buffers = &buffer };
	int r = find_extension(client->plugin, &e, err);

	if (r == 0)
		r = pj_buffer_check(client, place, len, dtype, shape, err);
	if (r == 0)
		r = pj_check(client->plugin, e->receive(&args), err);
	if (r == 0)
		r = pj_given(buffer, "CrossHostReceiveBuffers", err);
	return r < 0 ? r : pj_buffer_made(client->plugin, buffer, ret, err);
}
