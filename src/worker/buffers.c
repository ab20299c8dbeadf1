/* Requests about buffers: make one of the user's bytes, copy one out, free. */
#include "pjrtfs/worker/worker.h"

#include <errno.h>
#include <string.h>

#include "pjrtfs/worker/pool.h"

/* The place that Q names, or -EPROTO. */
static int find_place(const struct pj_client *client, const struct pf_req_buffer *q,
		      struct pj_place *ret, struct pf_err *err)
{
	if (q->device >= client->n_devices)
		return pf_err_set(err, -EPROTO, "create: there is no device %u",
				  q->device);
	ret->device = &client->devices[q->device];
	ret->memory = NULL;
	if (q->memory == UINT32_MAX)
		return 0;
	if (q->memory >= ret->device->n_memories)
		return pf_err_set(err, -EPROTO, "create: device %u has no memory %u",
				  q->device, q->memory);
	ret->memory = &ret->device->memories[q->memory];
	return 0;
}

int pf_handle_buffer_create(struct pf_request *request, struct pf_err *err)
{
	const struct pf_req_buffer *q = request->message;
	struct pf_rep_buffer *reply = (struct pf_rep_buffer *)request->reply;
	struct pf_worker *worker = request->worker;
	PF_CLEANUP(pf_object_unrefp) struct pf_object *object = NULL;
	struct PJRT_Buffer *buffer = NULL;
	const void *bytes, *alias = NULL;
	struct pf_shape shape;
	struct pj_place place;
	int r;

	if (request->len != sizeof(*q) || !q->id || q->rank > PF_WIRE_MAX_RANK)
		return pf_err_set(err, -EPROTO, "create: a message of %zu bytes",
				  request->len);
	bytes = pf_worker_arena(worker, q->off, q->len);
	if (!bytes)
		return pf_err_set(err, -EPROTO, "create: bytes outside the arena");
	r = find_place(worker->client, q, &place, err);
	if (r < 0)
		return r;
	shape.rank = q->rank;
	memcpy(shape.dims, q->dims, sizeof(shape.dims));
	r = pj_buffer_from_host(worker->client, &place, bytes, q->len, (int)q->dtype,
				&shape, &buffer, &alias, err);
	if (r < 0)
		return r;
	object =
		pf_object_buffer(worker->plugin, buffer, (enum pf_dtype)q->dtype, q->len);
	if (!object)
		return pf_err_set(err, -ENOMEM, "no memory for a buffer");
	r = pf_objects_put(&worker->objects, &q->id, &object, 1, err);
	if (r < 0)
		return r;
	reply->alias_off =
		alias ? (uint64_t)((const char *)alias - worker->arena) : PF_NO_OFFSET;
	reply->on_device_bytes = pj_buffer_device_bytes(worker->plugin, buffer);
	request->reply_len = sizeof(*reply);
	return 0;
}

int pf_handle_buffer_read(struct pf_request *request, struct pf_err *err)
{
	const struct pf_req_id *q = request->message;
	struct pf_rep_block *reply = (struct pf_rep_block *)request->reply;
	PF_CLEANUP(pf_object_unrefp) struct pf_object *object = NULL;
	uint64_t off;
	int r;

	if (request->len != sizeof(*q))
		return pf_err_set(err, -EPROTO, "read: a message of %zu bytes",
				  request->len);
	r = pf_objects_get(&request->worker->objects, &q->id, 1, PF_OBJECT_BUFFER,
			   &object, err);
	if (r < 0)
		return r;
	r = pf_pool_block(object->len, &off, err);
	if (r < 0)
		return r;
	r = pj_buffer_read(request->worker->plugin, object->buffer, object->dtype,
			   pf_pool_at(off), object->len, err);
	if (r < 0) {
		pf_pool_block_free(off);
		return r;
	}
	reply->off = off;
	reply->len = object->len;
	request->reply_len = sizeof(*reply);
	return 0;
}

int pf_handle_free(struct pf_request *request, struct pf_err *err)
{
	const struct pf_req_id *q = request->message;
	struct pf_objects *objects = &request->worker->objects;

	if (request->len != sizeof(*q))
		return pf_err_set(err, -EPROTO, "free: a message of %zu bytes",
				  request->len);
	/* What is not there is no mistake: making it may have failed. */
	if (q->head.op == PF_OP_BUFFER_FREE)
		pf_objects_remove(objects, q->id, PF_OBJECT_BUFFER);
	else if (q->head.op == PF_OP_EXECUTABLE_FREE)
		pf_objects_remove(objects, q->id, PF_OBJECT_EXECUTABLE);
	else
		pf_pool_block_free(q->id);
	return 0;
}
