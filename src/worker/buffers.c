/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about buffers: make one of bytes, of another buffer or without contents, copy
 * out, free. */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "pins.h"

/* The place with these indexes, or -EPROTO. */
static int find_place(const struct pj_client *client, uint32_t device, uint32_t memory,
		      struct pj_place *ret, struct pf_err *err)
{
	if (device >= client->n_devices)
		return pf_err_set(err, -EPROTO, "there is no device %u", device);
	ret->device = &client->devices[device];
	ret->memory = NULL;
	if (memory == PF_DEFAULT_MEMORY)
		return 0;
	if (memory >= ret->device->n_memories)
		return pf_err_set(err, -EPROTO, "device %u has no memory %u", device,
				  memory);
	ret->memory = ret->device->memories[memory];
	return 0;
}

_Static_assert(sizeof(struct pf_layout) == PF_WIRE_MAX_RANK, "messages have room for it");

int pf_server_check_new(const struct pf_work *work, struct pj_place *place,
			struct pf_shape *shape, struct pf_layout *layout,
			struct pf_err *err)
{
	const struct pf_req_buffer *q = work->message;
	int r;

	if (q->rank > PF_WIRE_MAX_RANK)
		return pf_err_set(err, -EPROTO, "create: an array of rank %u", q->rank);
	r = find_place(work->server->client, q->device, q->memory, place, err);
	if (r < 0)
		return pf_err_wrap(err, r, "create");
	memcpy(layout, q->minor_to_major, sizeof(*layout));
	shape->rank = q->rank;
	memcpy(shape->dims, q->dims, sizeof(shape->dims));
	return 0;
}

/* Make an object of BUFFER, which is given, and put it into the table under ID. */
static int publish(struct pf_work *work, uint64_t id, struct PJRT_Buffer *buffer,
		   enum pf_dtype dtype, uint64_t len, const struct pf_layout *layout,
		   struct pf_err *err)
{
	work->made = pf_object_new(&(struct pf_object){ .kind = PF_OBJECT_BUFFER,
							.plugin = work->server->plugin,
							.buffer = buffer,
							.dtype = dtype,
							.len = len,
							.layout = *layout });
	if (!work->made)
		return pf_err_set(err, -ENOMEM, "no memory for a buffer");
	return pf_objects_put(&work->server->objects, &id, &work->made, 1, err);
}

int pf_handle_buffer_create(struct pf_work *work, struct pf_err *err)
{
	const struct pf_req_buffer *q = work->message;
	struct pf_rep_buffer *reply = (struct pf_rep_buffer *)work->reply;
	struct pf_server *server = work->server;
	struct PJRT_Buffer *buffer = NULL;
	const void *bytes, *alias = NULL;
	struct pf_layout layout;
	struct pf_shape shape;
	struct pj_place place;
	int r = pf_server_check_new(work, &place, &shape, &layout, err);

	if (r < 0)
		return r;
	bytes = pf_server_arena(server, q->off, q->len);
	if (!bytes)
		return pf_err_set(err, -EPROTO, "create: bytes outside the arena");
	if (pf_layout_is_row_major(&layout))
		r = pj_buffer_from_host(server->client, &place, bytes, q->len,
					(int)q->dtype, &shape, &buffer, &alias, err);
	else
		r = pj_buffer_lay_out(server->client, &place, bytes, q->len,
				      (int)q->dtype, &shape, &layout, &buffer, err);
	if (r == 0)
		r = publish(work, q->id, buffer, (enum pf_dtype)q->dtype, q->len, &layout,
			    err);
	if (r < 0)
		return r;
	reply->alias_off =
		alias ? (uint64_t)((const char *)alias - server->arena) : PF_NO_OFFSET;
	reply->on_device_bytes = pj_buffer_device_bytes(server->plugin, buffer);
	return 0;
}

void pf_server_location(const struct pf_object *object, struct pf_out *out)
{
	const void *address;
	uint64_t off;

	*out = (struct pf_out){
		.where = object->len ? PF_WHERE_DEVICE : PF_WHERE_INLINE,
		.dtype = object->dtype,
		.len = object->len,
		.on_device_bytes = pj_buffer_device_bytes(object->plugin, object->buffer),
	};
	/* Sub-byte types are packed where they lie: only the plugin unpacks them. */
	if (!object->len || pf_dtype_bits(object->dtype) < 8 ||
	    out->on_device_bytes < object->len ||
	    !pf_layout_is_row_major(&object->layout))
		return;
	address = pj_buffer_address(object->plugin, object->buffer);
	if (address && pf_pool_holds(address, object->len, &off)) {
		out->where = PF_WHERE_POOL;
		out->off = off;
	}
}

int pf_server_answer_array(struct pf_work *work, uint64_t id, struct PJRT_Buffer *buffer,
			   enum pf_dtype dtype, uint64_t len,
			   const struct pf_layout *layout, struct pf_err *err)
{
	struct pf_rep_array *reply = (struct pf_rep_array *)work->reply;
	int r = publish(work, id, buffer, dtype, len, layout, err);

	if (r == 0)
		pf_server_location(work->made, &reply->out);
	return r;
}

int pf_handle_buffer_make(struct pf_work *work, struct pf_err *err)
{
	const struct pf_req_buffer *q = work->message;
	struct PJRT_Buffer *buffer = NULL;
	struct pf_layout layout;
	struct pf_shape shape;
	struct pj_place place;
	int r = pf_server_check_new(work, &place, &shape, &layout, err);

	if (r == 0)
		r = pj_buffer_uninitialized(work->server->client, &place, q->len,
					    (int)q->dtype, &shape, &buffer, err);
	if (r < 0)
		return r;
	return pf_server_answer_array(work, q->id, buffer, (enum pf_dtype)q->dtype,
				      q->len, &layout, err);
}

int pf_handle_buffer_copy(struct pf_work *work, struct pf_err *err)
{
	const struct pf_req_copy *q = work->message;
	const struct pj_client *client = work->server->client;
	const struct pf_object *source = work->named;
	struct PJRT_Buffer *buffer = NULL;
	struct pj_place place;
	int r = find_place(client, q->device, q->memory, &place, err);

	if (r < 0)
		return pf_err_wrap(err, r, "copy");
	r = pj_buffer_copy(client, &place, source->buffer, &buffer, err);
	if (r < 0)
		return r;
	return pf_server_answer_array(work, q->id, buffer, source->dtype, source->len,
				      &source->layout, err); /* row-major */
}

int pf_server_copy_out(const struct pf_object *object, void *dst, struct pf_err *err)
{
	if (pf_layout_is_row_major(&object->layout))
		return pj_buffer_read(object->plugin, object->buffer, object->dtype, dst,
				      object->len, err);
	return pj_buffer_read_row_major(object->plugin, object->buffer, object->dtype,
					&object->layout, dst, object->len, err);
}

static void free_block(uint64_t off)
{
	if (!pf_pins_give(off))
		(void)pf_pool_block_free(off);
}

int pf_server_read(const struct pf_object *object, uint64_t *off, struct pf_err *err)
{
	bool pinned = object->len >= PF_POOL_LARGE &&
		      pj_buffer_is_elsewhere(object->plugin, object->buffer);
	int r = pinned ? pf_pins_take(object->len, off, err)
		       : pf_pool_block(object->len, off, err);

	if (r < 0)
		return r;
	r = pf_server_copy_out(object, pf_pool_at(*off), err);
	if (r < 0)
		free_block(*off);
	return r;
}

int pf_handle_buffer_read(struct pf_work *work, struct pf_err *err)
{
	struct pf_rep_block *reply = (struct pf_rep_block *)work->reply;

	reply->len = work->named->len;
	return pf_server_read(work->named, &reply->off, err);
}

int pf_handle_free(struct pf_work *work, struct pf_err *err)
{
	const struct pf_req_id *q = work->message;
	struct pf_objects *objects = &work->server->objects;

	(void)err;
	/* An unknown id is not an error: the request that makes it may have failed. */
	if (q->head.op == PF_OP_BUFFER_FREE)
		pf_objects_remove(objects, q->id, PF_OBJECT_BUFFER);
	else if (q->head.op == PF_OP_EXECUTABLE_FREE)
		pf_objects_remove(objects, q->id, PF_OBJECT_EXECUTABLE);
	else
		free_block(q->id);
	return 0;
}
