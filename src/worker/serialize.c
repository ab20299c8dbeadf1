/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about compiled programs as bytes, for the daemon's cache. */
#include <errno.h>
#include <string.h>

#include "pjrtfs/worker/pool.h"
#include "pjrtfs/worker/worker.h"

int pf_handle_serialize(struct pf_request *request, struct pf_err *err)
{
	const struct pf_req_id *q = request->message;
	struct pf_rep_block *reply = (struct pf_rep_block *)request->reply;
	PF_CLEANUP(pf_object_unrefp) struct pf_object *object = NULL;
	PF_CLEANUP(pj_serialized_release) struct pj_serialized bytes = { 0 };
	int r;

	if (request->len != sizeof(*q))
		return pf_err_set(err, -EPROTO, "serialize: a message of %zu bytes",
				  request->len);
	r = pf_objects_get(&request->worker->objects, &q->id, 1, PF_OBJECT_EXECUTABLE,
			   &object, err);
	if (r == 0)
		r = pj_executable_serialize(object->executable, &bytes, err);
	if (r < 0)
		return r;
	memset(reply, 0, sizeof(*reply));
	r = pf_pool_block(bytes.len, &reply->off, err);
	if (r < 0)
		return r;
	memcpy(pf_pool_at(reply->off), bytes.bytes, bytes.len);
	reply->len = bytes.len;
	request->reply_len = sizeof(*reply);
	return 0;
}

int pf_handle_load(struct pf_request *request, struct pf_err *err)
{
	const struct pf_req_load *q = request->message;
	struct pf_rep_load *reply = (struct pf_rep_load *)request->reply;
	struct pf_worker *worker = request->worker;
	PF_CLEANUP(pf_object_unrefp) struct pf_object *object = NULL;
	struct pj_executable *executable = NULL;
	int r;

	if (request->len != sizeof(*q))
		return pf_err_set(err, -EPROTO, "load: a message of %zu bytes",
				  request->len);
	if (!q->id || !q->len || !pf_worker_arena(worker, q->off, q->len))
		return pf_err_set(err, -EPROTO, "load: %s",
				  q->id ? "a program outside the arena" : "no id");
	if (q->platform > PF_WIRE_MAX_PLATFORMS)
		return pf_err_set(err, -EPROTO, "load: there is no platform %u",
				  q->platform);
	r = pj_executable_load(worker->client, pf_worker_arena(worker, q->off, q->len),
			       q->len, &executable, err);
	if (r < 0)
		return r;
	object = pf_object_executable(worker->plugin, executable);
	if (!object)
		return pf_err_set(err, -ENOMEM, "no memory for an executable");
	if (q->platform) {
		r = pj_executable_set_first(executable, (int32_t)q->platform - 1, err);
		if (r < 0)
			return r;
	}
	memset(reply, 0, sizeof(*reply));
	reply->n_results = executable->n_results;
	reply->num_replicas = executable->num_replicas;
	reply->num_partitions = executable->num_partitions;
	reply->hlo_off = PF_NO_OFFSET;
	(void)pf_optimized_block(executable, &reply->hlo_off, &reply->hlo_len,
				 &reply->hlo_with_config, NULL);
	r = pf_objects_put(&worker->objects, &q->id, &object, 1, err);
	if (r == 0)
		request->reply_len = sizeof(*reply);
	else if (reply->hlo_off != PF_NO_OFFSET)
		pf_pool_block_free(reply->hlo_off);
	return r;
}
