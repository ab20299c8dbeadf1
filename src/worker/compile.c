/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about programs: compile, and say what was made. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Put TEXT into a block of the pool. */
static int text_block(const char *text, uint64_t *off, uint64_t *len, struct pf_err *err)
{
	int r;

	*len = strlen(text);
	r = pf_pool_block(*len, off, err);
	if (r == 0)
		memcpy(pf_pool_at(*off), text, *len);
	return r;
}

/* JSON as a block; JSON is given. */
static int json_block(struct json_object *json, uint64_t *off, uint64_t *len,
		      struct pf_err *err)
{
	const char *text =
		json ? json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN)
		     : NULL;
	int r = text ? text_block(text, off, len, err)
		     : pf_err_set(err, -ENOMEM, "no memory for a description");

	json_object_put(json);
	return r;
}

/*
 * EXECUTABLE's optimized program as a block of the pool: its offset, its length, and whether
 * it is a HloModuleProtoWithConfig.  On failure (the plugin's, or -ENOSPC) there is none and
 * the three stay as they are.
 */
static int pf_optimized_block(const struct pj_executable *executable, uint64_t *ret_off,
			      uint64_t *ret_len, uint32_t *ret_with_config,
			      struct pf_err *err)
{
	bool with_config = false;
	size_t len = 0;
	uint64_t off = PF_NO_OFFSET;
	int r = pj_executable_optimized_size(executable, &len, &with_config, err);

	if (r == 0)
		r = pf_pool_block(len, &off, err);
	if (r < 0)
		return r;
	r = pj_executable_optimized(executable, pf_pool_at(off), len, err);
	if (r < 0) {
		pf_pool_block_free(off);
		return r;
	}
	*ret_off = off;
	*ret_len = len;
	*ret_with_config = with_config;
	return 0;
}

static int add_blocks(const struct pj_executable *executable,
		      struct pf_rep_compile *reply, struct pf_err *err)
{
	struct json_object *info = pf_describe_executable(executable);
	struct pf_err why = PF_ERR_INIT;
	int r;

	reply->hlo_off = PF_NO_OFFSET;
	if (pf_optimized_block(executable, &reply->hlo_off, &reply->hlo_len,
			       &reply->hlo_with_config, &why) < 0 &&
	    info)
		json_object_object_add(info, "optimized_program",
				       pf_describe_unavailable(&why));
	r = json_block(info, &reply->info_off, &reply->info_len, err);
	if (r < 0 && reply->hlo_off != PF_NO_OFFSET)
		pf_pool_block_free(reply->hlo_off);
	return r;
}

static int check_compile(const struct pf_work *request, struct pf_err *err)
{
	const struct pf_req_compile *q = request->message;

	if (request->len < sizeof(*q) || request->len - sizeof(*q) != q->options_len)
		return pf_err_set(err, -EPROTO, "compile: a message of %zu bytes",
				  request->len);
	if (!q->format[0] || !memchr(q->format, '\0', sizeof(q->format)))
		return pf_err_set(err, -EPROTO, "compile: a format without an end");
	if (!q->id || !q->options_len)
		return pf_err_set(err, -EPROTO, "compile: no %s",
				  q->id ? "options" : "id");
	if (q->platform > PF_WIRE_MAX_PLATFORMS)
		return pf_err_set(err, -EPROTO, "compile: there is no platform %u",
				  q->platform);
	if (!pf_worker_arena(request->worker, q->program_off, q->program_len))
		return pf_err_set(err, -EPROTO, "compile: a program outside the arena");
	return 0;
}

/*
 * Make the object of EXECUTABLE, which becomes *RET's; PLATFORM is a request's: where it is not 0,
 * executions begin with that argument.
 */
static int adopt(struct pf_worker *worker, struct pj_executable *executable,
		 uint32_t platform, struct pf_object **ret, struct pf_err *err)
{
	*ret = pf_object_executable(worker->plugin, executable);
	if (!*ret)
		return pf_err_set(err, -ENOMEM, "no memory for an executable");
	return platform ? pj_executable_set_first(executable, (int32_t)platform - 1, err)
			: 0;
}

int pf_handle_compile(struct pf_work *request, struct pf_err *err)
{
	const struct pf_req_compile *q = request->message;
	struct pf_rep_compile *reply = (struct pf_rep_compile *)request->reply;
	struct pf_worker *worker = request->worker;
	PF_CLEANUP(pf_object_unrefp) struct pf_object *object = NULL;
	struct pj_executable *executable = NULL;
	struct pj_source source;
	int r = check_compile(request, err);

	if (r < 0)
		return r;
	source = (struct pj_source){
		.code = pf_worker_arena(worker, q->program_off, q->program_len),
		.len = q->program_len,
		.format = q->format,
		.options = q + 1,
		.options_len = q->options_len,
	};
	r = pj_executable_compile(worker->client, &source, &executable, err);
	if (r < 0)
		return r;
	r = adopt(worker, executable, q->platform, &object, err);
	if (r < 0)
		return r;
	memset(reply, 0, sizeof(*reply));
	r = add_blocks(executable, reply, err);
	if (r < 0)
		return r;
	r = pf_objects_put(&worker->objects, &q->id, &object, 1, err);
	if (r < 0) {
		pf_pool_block_free(reply->info_off);
		if (reply->hlo_off != PF_NO_OFFSET)
			pf_pool_block_free(reply->hlo_off);
		return r;
	}
	request->reply_len = sizeof(*reply);
	return 0;
}

int pf_handle_optimized(struct pf_work *request, struct pf_err *err)
{
	const struct pf_req_id *q = request->message;
	struct pf_rep_optimized *reply = (struct pf_rep_optimized *)request->reply;
	PF_CLEANUP(pf_object_unrefp) struct pf_object *object = NULL;
	int r;

	if (request->len != sizeof(*q))
		return pf_err_set(err, -EPROTO,
				  "optimized program: a message of %zu bytes",
				  request->len);
	r = pf_objects_get(&request->worker->objects, &q->id, 1, PF_OBJECT_EXECUTABLE,
			   &object, err);
	if (r < 0)
		return r;
	memset(reply, 0, sizeof(*reply));
	r = pf_optimized_block(object->executable, &reply->off, &reply->len,
			       &reply->with_config, err);
	if (r == 0)
		request->reply_len = sizeof(*reply);
	return r;
}

int pf_handle_memory_stats(struct pf_work *request, struct pf_err *err)
{
	const struct pf_req_id *q = request->message;
	struct pf_rep_block *reply = (struct pf_rep_block *)request->reply;
	const struct pj_client *client = request->worker->client;
	struct json_object *stats = NULL;
	int r;

	if (request->len != sizeof(*q) || q->id >= client->n_devices)
		return pf_err_set(err, -EPROTO, "memory stats: a message of %zu bytes",
				  request->len);
	r = pj_device_memory_stats(client->plugin, &client->devices[q->id], &stats, err);
	if (r == 0)
		r = json_block(stats, &reply->off, &reply->len, err);
	if (r == 0)
		request->reply_len = sizeof(*reply);
	return r;
}

/* Requests about compiled programs as bytes, for the daemon's cache. */

int pf_handle_serialize(struct pf_work *request, struct pf_err *err)
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

int pf_handle_load(struct pf_work *request, struct pf_err *err)
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
	r = adopt(worker, executable, q->platform, &object, err);
	if (r < 0)
		return r;
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
