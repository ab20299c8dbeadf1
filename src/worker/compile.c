/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about programs: compile, describe, serialize, load; and a device's statistics. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/json.h"

/* A block of the pool with a copy of the LEN bytes at BYTES.  -ENOSPC. */
static int new_block(const void *bytes, uint64_t len, uint64_t *off, struct pf_err *err)
{
	int r = pf_pool_block(len, off, err);

	if (r == 0 && len)
		memcpy(pf_pool_at(*off), bytes, len);
	return r;
}

/* The same with the text of JSON, which is given; NULL: -ENOMEM. */
static int json_block(struct json_object *json, uint64_t *off, uint64_t *len,
		      struct pf_err *err)
{
	const char *text = json ? pf_json_text(json) : NULL;
	int r = text ? new_block(text, *len = strlen(text), off, err)
		     : pf_err_set(err, -ENOMEM, "no memory for a description");

	json_object_put(json);
	return r;
}

_Static_assert((int)PF_OPTIMIZED_HLO == (int)PJ_FORMAT_HLO, "formats");
_Static_assert((int)PF_OPTIMIZED_HLO_WITH_CONFIG == (int)PJ_FORMAT_HLO_WITH_CONFIG,
	       "formats");
_Static_assert((int)PF_OPTIMIZED_MLIR == (int)PJ_FORMAT_MLIR, "formats");

/*
 * EXECUTABLE's optimized program as a block of the pool: its offset, its length and its format.  On
 * failure (the plugin's, or -ENOSPC) offset and length stay as they are; the format is
 * PF_OPTIMIZED_NONE if the plugin gives none, and else stays, too.
 */
static int optimized_block(const struct pj_executable *executable, uint64_t *ret_off,
			   uint64_t *ret_len, uint32_t *ret_format, struct pf_err *err)
{
	enum pj_format format = PJ_FORMAT_HLO;
	size_t len = 0;
	uint64_t off = PF_NO_OFFSET;
	int r = pj_executable_optimized_size(executable, &len, &format, err);

	if (r == -EOPNOTSUPP)
		*ret_format = PF_OPTIMIZED_NONE;
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
	*ret_format = (uint32_t)format;
	return 0;
}

static int add_blocks(const struct pj_executable *executable,
		      struct pf_rep_compile *reply, struct pf_err *err)
{
	struct json_object *info = pf_describe_executable(executable);
	struct pf_err why = PF_ERR_INIT;
	int r;

	reply->hlo_off = PF_NO_OFFSET;
	if (optimized_block(executable, &reply->hlo_off, &reply->hlo_len,
			    &reply->hlo_format, &why) < 0 &&
	    info)
		json_object_object_add(info, "optimized_program",
				       pf_describe_unavailable(&why));
	r = json_block(info, &reply->info_off, &reply->info_len, err);
	if (r < 0 && reply->hlo_off != PF_NO_OFFSET)
		pf_pool_block_free(reply->hlo_off);
	return r;
}

/* Check the fields that compile and load share, before the plugin works for minutes. */
static int check_new(uint64_t id, uint32_t platform, struct pf_err *err)
{
	if (!id)
		return pf_err_set(err, -EPROTO, "a program has no id");
	if (platform > PF_WIRE_MAX_PLATFORMS)
		return pf_err_set(err, -EPROTO, "there is no platform %u", platform);
	return 0;
}

static int check_compile(const struct pf_work *work, struct pf_err *err)
{
	const struct pf_req_compile *q = work->message;

	if (!q->options_len ||
	    work->len - sizeof(*q) != (uint64_t)q->options_len + q->topology_len)
		return pf_err_set(err, -EPROTO,
				  "compile: %u bytes of options and %u of a topology in "
				  "%zu",
				  q->options_len, q->topology_len, work->len);
	if (!q->format[0] || !memchr(q->format, '\0', sizeof(q->format)))
		return pf_err_set(err, -EPROTO, "compile: a format without an end");
	if (!pf_server_arena(work->server, q->program_off, q->program_len))
		return pf_err_set(err, -EPROTO, "compile: a program outside the arena");
	return check_new(q->id, q->platform, err);
}

/*
 * Make an object of EXECUTABLE, which is given, and put it into the table under ID.  PLATFORM is
 * the request's: if it is not 0, executions begin with that argument.
 */
static int publish(struct pf_work *work, uint64_t id, struct pj_executable *executable,
		   uint32_t platform, struct pf_err *err)
{
	int r = 0;

	work->made = pf_object_new(&(struct pf_object){ .kind = PF_OBJECT_EXECUTABLE,
							.plugin = work->server->plugin,
							.executable = executable });
	if (!work->made)
		return pf_err_set(err, -ENOMEM, "no memory for an executable");
	if (platform)
		r = pj_executable_set_first(executable, (int32_t)platform - 1, err);
	return r < 0 ? r
		     : pf_objects_put(&work->server->objects, &id, &work->made, 1, err);
}

/* Compile SOURCE for the LEN bytes at TOPOLOGY. */
static int compile_for(struct pf_server *server, const char *topology, size_t len,
		       const struct pj_source *source, struct pj_executable **ret,
		       struct pf_err *err)
{
	struct pj_topology t;
	int r = pj_topology_read(server->plugin, topology, len, &t, err);

	if (r < 0)
		return pf_err_wrap(err, r, "read the topology");
	r = pj_executable_compile_for(server->client, &t, source, ret, err);
	pj_topology_release(&t);
	return r;
}

int pf_handle_compile(struct pf_work *work, struct pf_err *err)
{
	const struct pf_req_compile *q = work->message;
	struct pf_server *server = work->server;
	struct pj_executable *executable = NULL;
	const char *topology = (const char *)(q + 1) + q->options_len;
	struct pj_source source;
	uint32_t platform;
	int r = check_compile(work, err);

	if (r < 0)
		return r;
	source = (struct pj_source){
		.code = pf_server_arena(server, q->program_off, q->program_len),
		.len = q->program_len,
		.format = q->format,
		.options = q + 1,
		.options_len = q->options_len,
	};
	r = q->topology_len
		    ? compile_for(server, topology, q->topology_len, &source, &executable,
				  err)
		    : pj_executable_compile(server->client, &source, &executable, err);
	platform = q->topology_len ? 0 : q->platform; /* the load passes it */
	if (r == 0)
		r = publish(work, q->id, executable, platform, err);
	if (r < 0)
		return r;
	r = add_blocks(executable, (struct pf_rep_compile *)work->reply, err);
	if (r < 0)
		pf_objects_remove(&server->objects, q->id, PF_OBJECT_EXECUTABLE);
	return r;
}

int pf_handle_optimized(struct pf_work *work, struct pf_err *err)
{
	struct pf_rep_optimized *reply = (struct pf_rep_optimized *)work->reply;

	return optimized_block(work->named->executable, &reply->off, &reply->len,
			       &reply->format, err);
}

/* The device whose statistics WORK's request names; NULL: there is none. */
static const struct pj_device *device_of(const struct pf_work *work, struct pf_err *err)
{
	const struct pf_req_id *q = work->message;
	const struct pj_client *client = work->server->client;

	if (q->id < client->n_devices)
		return &client->devices[q->id];
	pf_err_set(err, -EPROTO, "memory stats: there is no device %" PRIu64, q->id);
	return NULL;
}

int pf_handle_memory_stats(struct pf_work *work, struct pf_err *err)
{
	struct pf_rep_block *reply = (struct pf_rep_block *)work->reply;
	const struct pj_device *device = device_of(work, err);
	struct json_object *stats = NULL;
	int r;

	if (!device)
		return -EPROTO;
	r = pj_device_memory_stats(work->server->plugin, device, &stats, err);
	return r < 0 ? r : json_block(stats, &reply->off, &reply->len, err);
}

int pf_handle_clear_stats(struct pf_work *work, struct pf_err *err)
{
	const struct pj_device *device = device_of(work, err);

	return device ? pj_device_clear_memory_stats(work->server->plugin, device, err)
		      : -EPROTO;
}

int pf_handle_group(struct pf_work *work, struct pf_err *err)
{
	struct pf_rep_block *reply = (struct pf_rep_block *)work->reply;

	return json_block(pf_group_json(), &reply->off, &reply->len, err);
}

/* Make the topology that the LEN bytes of TEXT name. */
static int create_topology(const struct pf_server *server, const char *text, size_t len,
			   struct pj_topology *ret, struct pf_err *err)
{
	struct json_object *json, *options;
	int r = pf_json_parse(text, len, &json, err);

	*ret = (struct pj_topology){ 0 };
	if (r < 0)
		return pf_err_wrap(err, r, "topology");
	options = pf_json_get(json, "options", json_type_object);
	r = pj_topology_create(server->plugin, pf_json_get_string(json, "name"), options,
			       ret, err);
	json_object_put(json);
	return r;
}

/* The topology that WORK's request is about: *RET, to be released, also after a failure. */
static int topology_of(const struct pf_work *work, struct pj_topology *ret,
		       struct pf_err *err)
{
	const struct pf_req_id *q = work->message;
	const struct pf_server *server = work->server;
	size_t len = work->len - sizeof(*q);

	if (q->id == PF_TOPOLOGY_CREATE)
		return create_topology(server, (const char *)(q + 1), len, ret, err);
	if (len)
		return pj_topology_read(server->plugin, q + 1, len, ret, err);
	return pj_topology_of(server->client, ret, err);
}

int pf_handle_topology(struct pf_work *work, struct pf_err *err)
{
	const struct pf_req_id *q = work->message;
	struct pf_rep_block *reply = (struct pf_rep_block *)work->reply;
	pf_autobuf struct pf_buf bytes = PF_BUF_INIT;
	struct pj_topology t;
	int r = topology_of(work, &t, err);

	if (r == 0 && q->id == PF_TOPOLOGY_TEXT)
		r = json_block(pj_topology_json(&t), &reply->off, &reply->len, err);
	else if (r == 0)
		r = pj_topology_serialize(&t, &bytes, err);
	if (r == 0 && q->id != PF_TOPOLOGY_TEXT)
		r = new_block(bytes.data, reply->len = bytes.len, &reply->off, err);
	pj_topology_release(&t);
	return r;
}

int pf_handle_serialize(struct pf_work *work, struct pf_err *err)
{
	struct pf_rep_block *reply = (struct pf_rep_block *)work->reply;
	pf_autobuf struct pf_buf bytes = PF_BUF_INIT;
	int r = pj_executable_serialize(work->named->executable, &bytes, err);

	reply->len = bytes.len;
	return r < 0 ? r : new_block(bytes.data, bytes.len, &reply->off, err);
}

/* Append the ids of EXECUTABLE's devices to WORK's reply. */
static void add_devices(struct pf_work *work, const struct pj_executable *executable)
{
	struct pf_rep_load *reply = (struct pf_rep_load *)work->reply;
	struct json_object *list = pj_executable_devices(executable, NULL);
	size_t n = list ? json_object_array_length(list) : 0;
	int64_t *ids = (int64_t *)(reply + 1);

	for (size_t i = 0; n <= PF_WIRE_MAX_DEVICES && i < n; i++, reply->n_devices++)
		ids[i] = json_object_get_int64(json_object_array_get_idx(list, i));
	work->reply_len += reply->n_devices * sizeof(*ids);
	json_object_put(list);
}

/* Add EXECUTABLE's compile options to REPLY, if the plugin gives them and there is memory. */
static void add_options(struct pf_rep_load *reply, const struct pj_executable *executable)
{
	pf_autobuf struct pf_buf bytes = PF_BUF_INIT;

	if (pj_executable_options(executable, &bytes, NULL) < 0 || !bytes.len)
		return;
	if (new_block(bytes.data, bytes.len, &reply->options_off, NULL) == 0)
		reply->options_len = bytes.len;
}

_Static_assert((int)PF_WIRE_MAX_ABI == (int)PJ_MAX_ABI, "every version fits");

/* The request Q is for the program of another build of the plugin, if LEN bytes of a version follow it:
 * does the plugin run that?  -ENOEXEC: no. */
static int check_abi(const struct pf_server *server, const struct pf_req_load *q,
		     size_t len, struct pf_err *err)
{
	if (len > PF_WIRE_MAX_ABI)
		return pf_err_set(err, -EPROTO, "load: %zu bytes of a version", len);
	if (len == 0 || pj_abi_check(server->client, q + 1, len, err) == 0)
		return 0;
	err->code = -ENOEXEC;
	return -ENOEXEC;
}

int pf_handle_load(struct pf_work *work, struct pf_err *err)
{
	const struct pf_req_load *q = work->message;
	struct pf_rep_load *reply = (struct pf_rep_load *)work->reply;
	const void *bytes = pf_server_arena(work->server, q->off, q->len);
	struct pj_executable *executable = NULL;
	int r;

	if (!q->len || !bytes)
		return pf_err_set(err, -EPROTO, "load: a program outside the arena");
	r = check_new(q->id, q->platform, err);
	if (r == 0)
		r = check_abi(work->server, q, work->len - sizeof(*q), err);
	if (r == 0)
		r = pj_executable_load(work->server->client, bytes, q->len, &executable,
				       err);
	if (r == 0)
		r = publish(work, q->id, executable, q->platform, err);
	if (r < 0)
		return r;
	reply->n_results = executable->n_results;
	reply->num_replicas = executable->num_replicas;
	reply->num_partitions = executable->num_partitions;
	reply->hlo_off = PF_NO_OFFSET;
	(void)optimized_block(executable, &reply->hlo_off, &reply->hlo_len,
			      &reply->hlo_format, NULL);
	reply->options_off = PF_NO_OFFSET;
	if (q->wants_options)
		add_options(reply, executable);
	add_devices(work, executable);
	return 0;
}
