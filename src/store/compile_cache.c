/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "pjrtfs/cache.h"
#include "pjrtfs/executable.h"
#include "pjrtfs/json.h"

/* Compiled programs as entries of the cache and as files. */

enum {
	ASK_S = 1,        /* for a read; a later one gets an answer that takes longer */
	SERIALIZE_S = 60, /* for the cache: no user waits for it */
	MAX_OPTIONS = 1 << 20, /* bytes, as of options.pb */
};

int pf_compile_facts(const char *text, uint64_t len, struct json_object **ret,
		     struct pf_err *err)
{
	/* json-c's own parser aborts without memory. */
	if (pf_json_parse(text, len, ret, NULL) != -ENOMEM)
		return 0;
	return pf_err_set(err, -ENOMEM, "no memory for the program's facts");
}

/* --- from the cache ----------------------------------------------------------------------- */

/* The number under KEY of O, or MISSING. */
static int64_t number(struct json_object *o, const char *key, int64_t missing)
{
	struct json_object *value;

	return json_object_object_get_ex(o, key, &value) ? json_object_get_int64(value)
							 : missing;
}

/* Did the plugin load the program that was compiled? */
static bool matches(struct json_object *info, const struct pf_rep_load *rep)
{
	return number(info, "num_outputs", -1) == (int64_t)rep->n_results &&
	       number(info, "num_replicas", -1) == (int64_t)rep->num_replicas &&
	       number(info, "num_partitions", -1) == (int64_t)rep->num_partitions;
}

/* Name L's inputs as META does, because the source that named them is not in the entry. */
static int name_inputs(struct pf_loaded *l, struct json_object *meta, struct pf_err *err)
{
	struct json_object *names = NULL, *named = NULL, *name;
	int r = 0;

	json_object_object_get_ex(meta, "inputs", &names);
	json_object_object_get_ex(meta, "inputs_named", &named);
	if (!json_object_is_type(names, json_type_array) ||
	    json_object_array_length(names) != l->signature->n_inputs)
		return 0;
	for (size_t i = 0; r == 0 && i < l->signature->n_inputs; i++) {
		struct pf_param *input = &l->signature->inputs[i];

		name = json_object_array_get_idx(names, i);
		if (!json_object_is_type(name, json_type_string))
			continue;
		r = pf_param_name(input, json_object_get_string(name),
				  (size_t)json_object_get_string_len(name));
		if (!input->named)
			input->named = input->in_text = json_object_get_boolean(named);
	}
	return r < 0 ? pf_err_set(err, r, "no memory for the program's signature") : 0;
}

/* A plugin's answer to a load. */
struct load_reply {
	struct pf_rep_load rep;
	int64_t ids[PF_WIRE_MAX_DEVICES];
};

/* INFO is of a program that was compiled for a topology or by another process, and has the devices of
 * REPLY now. */
static void place(struct json_object *info, const struct load_reply *reply)
{
	struct json_object *list = json_object_new_array();

	for (uint32_t i = 0; i < reply->rep.n_devices; i++)
		pf_json_append(list, json_object_new_int64(reply->ids[i]));
	pf_json_add(info, "devices", list);
}

/*
 * Describe L from META and the other parts of the entry, which lie at AT of BODY.  REPLY: what the plugin
 * loaded; NULL: nothing.
 */
static int describe(struct compile *c, struct pf_loaded *l, struct json_object *meta,
		    const struct pf_cache_header *h, const struct pf_bytes *body,
		    uint64_t at, const struct load_reply *reply, struct pf_err *err)
{
	struct pf_shared_bytes hlo = PF_SHARED_NONE;
	struct json_object *info = NULL, *with = NULL, *any = NULL;
	int r;

	if (h->len[PF_CACHE_HLO])
		hlo = pf_shared_of(pf_bytes_at(body, at + h->len[PF_CACHE_META]),
				   h->len[PF_CACHE_HLO]);
	json_object_object_get_ex(meta, "info", &info);
	json_object_object_get_ex(meta, "hlo_with_config", &with);
	json_object_object_get_ex(meta, "for_topology", &any);
	if (reply && (json_object_get_boolean(any) || c->from_group) &&
	    json_object_is_type(info, json_type_object))
		place(info, reply);
	if (!json_object_is_type(info, json_type_object) ||
	    (reply && !matches(info, &reply->rep)))
		r = pf_err_set(err, -EPROTO, "the plugin loaded another program");
	else
		r = pf_loaded_describe(c, l, json_object_get(info), hlo,
				       json_object_get_boolean(with)
					       ? PF_OPTIMIZED_HLO_WITH_CONFIG
					       : PF_OPTIMIZED_HLO,
				       err);
	if (r == 0 && c->from_group && !l->wide)
		r = pf_err_set(err, -EPROTO,
			       "the plugin loaded a program for this process alone");
	if (r == 0)
		r = name_inputs(l, meta, err);
	return r;
}

/* The loaded program L has an optimized program of its own, which REP names. */
static void take_optimized(const struct compile *c, struct pf_loaded *l,
			   const struct pf_rep_load *rep)
{
	struct pf_shared_bytes module =
		pf_instance_pool(c->instance, rep->hlo_off, rep->hlo_len);
	const bool with_config = rep->hlo_format == PF_OPTIMIZED_HLO_WITH_CONFIG;

	l->optimized = (enum pf_optimized_format)rep->hlo_format;
	if (pf_is_hlo(l->optimized) &&
	    (!module.shared || pf_hlo_unwrap(module, with_config, &module, NULL) < 0))
		module.len = 0;
	l->optimized_len = module.len;
}

/* L was loaded from a file, and REP has the options that it was compiled with, if the plugin has kept
 * them: else they stay unknown. */
static void take_options(struct compile *c, struct pf_loaded *l,
			 const struct pf_rep_load *rep)
{
	struct pf_shared_bytes bytes =
		pf_instance_pool(c->instance, rep->options_off, rep->options_len);

	if (rep->options_off == PF_NO_OFFSET)
		return;
	if (l)
		(void)pf_shared_copy(bytes, "the program's options", MAX_OPTIONS,
				     &l->options, NULL);
	pf_instance_free_block(c->instance, rep->options_off);
}

/*
 * Have the worker load the parts that H lists, which lie at AT of BODY, as C's program: 1
 * and *RET; 0: it cannot, as ERR says; -errno: the worker died.  Blocks.
 */
static int load_parts(struct compile *c, const struct pf_cache_header *h,
		      struct pf_bytes *body, uint64_t at, struct pf_loaded **ret,
		      struct pf_err *err)
{
	struct pf_req_load req = { .head.op = PF_OP_LOAD };
	struct pf_sync_call q = { .instance = c->instance,
				  .request = &req,
				  .len = sizeof(req),
				  .tail = c->abi.data,
				  .tail_len = c->abi.len,
				  .kept = pf_bytes_ref(body),
				  .drop = pf_bytes_drop,
				  .timeout_s = c->x->compiler->timeout_s,
				  .reply_more = sizeof(int64_t) * PF_WIRE_MAX_DEVICES };
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *l = NULL;
	struct json_object *meta = NULL;
	struct load_reply reply;
	struct pf_rep_load rep;
	int r;

	req.id = c->id = pf_worker_id(c->plan.worker);
	req.platform = c->plan.platform;
	req.wants_options = c->native;
	req.len = h->len[PF_CACHE_CODE];
	req.off =
		pf_bytes_offset(body, at + h->len[PF_CACHE_META] + h->len[PF_CACHE_HLO]);
	r = pf_sync_call(&q, &reply, sizeof(reply.rep), err);
	c->sent = q.sent;
	if (r < 0) {
		pf_stage_blame(PF_STAGE_LOADING, err);
		return pf_instance_alive(c->instance) ? 0 : r;
	}
	rep = reply.rep;
	if (q.reply_len != sizeof(rep) + sizeof(int64_t) * rep.n_devices)
		reply.rep.n_devices = 0; /* the worker lies */
	l = pf_loaded_new(c);
	if (l) {
		r = pf_compile_facts(pf_bytes_at(body, at), h->len[PF_CACHE_META], &meta,
				     err);
		if (r == 0)
			r = describe(c, l, meta, h, body, at, &reply, err);
		json_object_put(meta);
	} else {
		pf_instance_free_id(c->instance, PF_OP_EXECUTABLE_FREE, c->id);
		pf_err_set(err, -ENOMEM, "no memory for an executable");
	}
	take_options(c, l, &rep);
	if (l && r == 0) {
		take_optimized(c, l, &rep);
		*ret = pf_steal(&l);
		r = 1;
	} else {
		r = 0;
	}
	if (rep.hlo_off != PF_NO_OFFSET)
		pf_instance_free_block(c->instance, rep.hlo_off);
	return r;
}

static void report(const struct compile *c, enum pf_report_cache what, uint64_t bytes)
{
	char key[PF_CACHE_KEY_TEXT];

	pf_cache_key_text(&c->key, key);
	pf_report_cache(pf_worker_telemetry(c->plan.worker), what, c->x->user, key,
			bytes);
}

/* FOUND as a file: *RET, of *LEN bytes, charged to ACCOUNT.  -errno. */
static int read_file(struct pf_cache *cache, struct pf_cache_found *found,
		     struct pf_arena *arena, struct pf_account *account,
		     struct pf_bytes **ret, uint64_t *len, struct pf_err *err)
{
	int r;

	found->header.uses = 0;
	*len = PF_CACHE_HEADER + pf_cache_body_len(&found->header);
	r = pf_bytes_new(arena, account, *len, ret, err);
	if (r < 0)
		return r;
	r = pf_cache_read(cache, found, pf_bytes_at(*ret, PF_CACHE_HEADER), err);
	if (r == 0)
		r = pf_cache_header_write(&found->header, pf_bytes_at(*ret, 0), err);
	if (r < 0)
		pf_bytes_unref(pf_steal(ret));
	return r;
}

/* Have the worker load FOUND as C's program, as load_parts. */
static int load_entry(struct compile *c, const struct pf_cache_found *found,
		      struct pf_loaded **ret, struct pf_err *err)
{
	struct pf_cache *cache = c->x->compiler->cache;
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *body = NULL;
	int r;

	/* Even if the entry does not fit into memory, the compile may. */
	if (pf_bytes_new(c->x->arena, NULL, pf_cache_body_len(&found->header), &body,
			 NULL) < 0 ||
	    pf_cache_read(cache, found, pf_bytes_at(body, 0), NULL) < 0)
		return 0;
	r = load_parts(c, &found->header, body, 0, ret, err);
	if (r <= 0 && err->code != -ENOMEM && !pf_compile_lacks_handler(err)) {
		pf_cache_reject(cache, found);
		report(c, PF_REPORT_CACHE_DAMAGED, (uint64_t)found->st.st_size);
	}
	return r;
}

/*
 * META is of a program for a topology: would it be the same if this host compiled it?  The module of one
 * whose plugin gives no HLO is not what the plugin compiled, and cannot stand for that.
 */
static bool can_stand(struct compile *c, struct json_object *meta)
{
	struct json_object *has_hlo = NULL;
	struct pf_origin origin;

	json_object_object_get_ex(meta, "has_hlo", &has_hlo);
	return json_object_get_boolean(has_hlo) &&
	       pf_compile_origin(c->x->compiler, c->plan.worker, c->instance,
				 pf_json_get_string(meta, "platform"), &origin,
				 NULL) == 0 &&
	       !strcmp(pf_json_get_string(meta, "host"), origin.host);
}

/* C is for a topology, and no plugin can load it here: FOUND's file stands for it.  1: it is in *RET;
 * 0: it cannot. */
static int take_entry(struct compile *c, struct pf_cache_found *found,
		      struct pf_loaded **ret, struct pf_err *err)
{
	struct pf_cache *cache = c->x->compiler->cache;
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *l = pf_loaded_new(c);
	const struct pf_cache_header *h = &found->header;
	struct json_object *meta = NULL;
	int r;

	if (!l)
		return 0;
	atomic_store(&l->unloaded, true);
	pf_instance_unref(pf_steal(&l->instance));
	if (read_file(cache, found, c->x->arena, c->x->account, &l->file, &l->file_len,
		      err) < 0)
		return 0;
	r = pf_compile_facts(pf_bytes_at(l->file, PF_CACHE_HEADER), h->len[PF_CACHE_META],
			     &meta, err);
	if (r < 0 || (meta && !can_stand(c, meta))) {
		json_object_put(meta);
		return 0;
	}
	r = describe(c, l, meta, h, l->file, PF_CACHE_HEADER, NULL, err);
	json_object_put(meta);
	if (r == 0) {
		*ret = pf_steal(&l);
		return 1;
	}
	if (r != -ENOMEM) {
		pf_cache_reject(cache, found);
		report(c, PF_REPORT_CACHE_DAMAGED, (uint64_t)found->st.st_size);
	}
	return 0;
}

int pf_compile_from_cache(struct compile *c, struct pf_loaded **ret, struct pf_err *err)
{
	struct pf_cache *cache = c->x->compiler->cache;
	struct pf_cache_found found;
	int r;

	if (!cache || !c->can_be_kept || c->not_from_cache)
		return 0;
	if (!pf_cache_find(cache, &c->key, &found)) {
		pf_cache_miss(cache);
		report(c, PF_REPORT_CACHE_MISS, 0);
		return 0;
	}
	r = c->plan.topology_len ? take_entry(c, &found, ret, err)
				 : load_entry(c, &found, ret, err);
	if (r == 1)
		pf_cache_hit(cache, &found);
	else
		pf_cache_miss(cache);
	report(c, r == 1 ? PF_REPORT_CACHE_HIT : PF_REPORT_CACHE_MISS,
	       r == 1 ? (uint64_t)found.st.st_size : 0);
	pf_cache_found_release(&found);
	c->not_from_cache = r != 1;
	return r;
}

/* --- to the cache ------------------------------------------------------------------------- */

/* Add to O the platform and the identity of L, which runs on devices of its worker's plugin. */
static void describe_home(struct pf_compiler *compiler, const struct pf_loaded *l,
			  struct json_object *o)
{
	const struct pf_description *d = pf_worker_description(l->worker);
	char identity[PF_CACHE_KEY_TEXT];

	pf_json_add_string(o, "platform", d->platform);
	pf_json_add_string(o, "platform_version", d->platform_version);
	if (pf_compile_identity(compiler, l->worker, l->instance, false, identity,
				NULL) == 0)
		pf_json_add_string(o, "identity", identity);
	if (*pf_json_get_string(l->info, "abi_version") &&
	    pf_compile_identity(compiler, l->worker, l->instance, true, identity, NULL) ==
		    0)
		pf_json_add_string(o, "identity_of_any_build", identity);
}

/* Add to O the platform of the topology that L was compiled for, and the origin of L. */
static void describe_topology(struct pf_compiler *compiler, const struct pf_loaded *l,
			      struct json_object *o)
{
	struct json_object *topology = NULL;
	const char *platform = pf_loaded_platform(l);
	struct pf_origin origin;

	json_object_object_get_ex(l->info, "topology", &topology);
	pf_json_add(o, "for_topology", json_object_new_boolean(true));
	pf_json_add(o, "has_hlo", json_object_new_boolean(pf_is_hlo(l->optimized)));
	pf_json_add_string(o, "platform", platform);
	pf_json_add_string(o, "platform_version",
			   pf_json_get_string(topology, "platform_version"));
	if (pf_compile_origin(compiler, l->worker, l->instance, platform, &origin, NULL) <
	    0)
		return;
	pf_json_add_string(o, "build", origin.build);
	pf_json_add_string(o, "host", origin.host);
}

/* The facts for listings, and those that a plugin does not know of a loaded program. */
static struct json_object *describe_loaded(struct pf_compiler *compiler,
					   const struct pf_loaded *l, bool with_config)
{
	struct json_object *o = json_object_new_object();
	struct json_object *inputs = json_object_new_array();
	bool named = true;

	pf_json_add_string(o, "program", pf_json_get_string(l->info, "name"));
	pf_json_add_string(o, "plugin", pf_worker_name(l->worker));
	if (l->for_topology)
		describe_topology(compiler, l, o);
	else
		describe_home(compiler, l, o);
	pf_json_add_int(o, "program_bytes", (int64_t)l->program_len);
	pf_json_add_seconds(o, "compile_seconds", l->compile_seconds);
	pf_json_add(o, "hlo_with_config", json_object_new_boolean(with_config));
	if (l->platform)
		pf_json_add_int(o, "platform_number", l->platform);
	pf_json_add_copy(o, "info", l->info);
	for (size_t i = 0; i < l->signature->n_inputs; i++) {
		const struct pf_param *input = &l->signature->inputs[i];

		pf_json_append(inputs, json_object_new_string(input->name));
		named = named && input->named;
	}
	/* The names of one user are not the next one's. */
	if (l->signature->names_given) {
		json_object_put(inputs);
	} else {
		pf_json_add(o, "inputs", inputs);
		pf_json_add(o, "inputs_named", json_object_new_boolean(named));
	}
	return o;
}

/* The parts of L's entry: the CODE that the plugin serialized, the module HLO, or another one of the
 * same signature in MODULE, if the plugin gives none, and the facts, as the object that is returned:
 * PARTS borrow from all of these. */
static struct json_object *make_parts(struct pf_compiler *compiler,
				      const struct pf_loaded *l,
				      const struct pf_rep_block *code,
				      const struct pf_rep_optimized *hlo,
				      struct pf_buf *module,
				      struct pf_cache_piece parts[PF_CACHE_PARTS])
{
	struct json_object *meta =
		describe_loaded(compiler, l, hlo->format == PF_OPTIMIZED_HLO_WITH_CONFIG);
	const char *text = meta ? pf_json_text(meta) : NULL;

	memset(parts, 0, PF_CACHE_PARTS * sizeof(*parts));
	if (pf_is_hlo(l->optimized)) {
		parts[PF_CACHE_HLO].data =
			pf_instance_pool(l->instance, hlo->off, hlo->len).shared;
		parts[PF_CACHE_HLO].len = hlo->len;
	} else {
		pf_signature_module(l->signature, l->platform, module);
		parts[PF_CACHE_HLO].data = module->data;
		parts[PF_CACHE_HLO].len = module->len;
	}
	if (module->failed)
		text = NULL; /* as without memory for the facts */
	parts[PF_CACHE_META].data = text;
	parts[PF_CACHE_META].len = text ? strlen(text) : 0;
	parts[PF_CACHE_CODE].data =
		pf_instance_pool(l->instance, code->off, code->len).shared;
	parts[PF_CACHE_CODE].len = code->len;
	return meta;
}

int pf_loaded_ask(const struct pf_loaded *l, enum pf_op op, unsigned timeout_s,
		  bool keeps, void *reply, size_t len, struct pf_err *err)
{
	struct pf_req_id req = { .head.op = op, .id = l->id };
	struct pf_sync_call call = { .instance = l->instance,
				     .request = &req,
				     .len = sizeof(req),
				     .timeout_s = timeout_s,
				     .brief = !keeps,
				     .keeps = keeps };

	return pf_sync_call(&call, reply, len, err);
}

void pf_compile_to_cache(struct compile *c, struct pf_loaded *l,
			 const struct pf_rep_compile *rep)
{
	struct pf_rep_optimized hlo = { .off = rep->hlo_off,
					.len = rep->hlo_len,
					.format = rep->hlo_format };
	pf_autobuf struct pf_buf module = PF_BUF_INIT;
	struct pf_cache_piece parts[PF_CACHE_PARTS];
	struct json_object *meta;
	struct pf_rep_block code;

	if (!c->x->compiler->cache || !c->can_be_kept ||
	    pf_cache_is_read_only(c->x->compiler->cache))
		return;
	if (l->wide && !pf_worker_leads_group(l->worker))
		return;
	pf_compiler_set_stage(&c->job, PF_STAGE_SAVING);
	/* A plugin that cannot serialize compiles each time; that is not an error. */
	if (pf_loaded_ask(l, PF_OP_SERIALIZE, SERIALIZE_S, false, &code, sizeof(code),
			  NULL) < 0)
		return;
	meta = make_parts(c->x->compiler, l, &code, &hlo, &module, parts);
	/* Without memory for its facts no entry is written: one without them would stay. */
	if (parts[PF_CACHE_META].data && parts[PF_CACHE_CODE].data && code.len)
		(void)pf_cache_put(c->x->compiler->cache, &l->key, parts);
	json_object_put(meta);
	pf_instance_free_block(c->instance, code.off);
}

/* --- from a file -------------------------------------------------------------------------- */

static const char *text_of(struct json_object *o, const char *key)
{
	const char *text = pf_json_get_string(o, key);

	return *text ? text : "unknown";
}

/* Append the version of the build that compiled META's program to RET, if META has one. */
static void read_abi(struct json_object *meta, struct pf_buf *ret)
{
	const char *text =
		pf_json_get_string(json_object_object_get(meta, "info"), "abi_version");
	size_t len = strlen(text) / 2;
	uint8_t bytes[PF_WIRE_MAX_ABI];

	if (len <= sizeof(bytes) && strlen(text) == 2 * len && pf_unhex(text, len, bytes))
		pf_buf_append(ret, bytes, len);
}

/* META is of a program for a topology: as check_identity.  The sentence names what differs. */
static int check_origin(struct compile *c, struct json_object *meta, struct pf_err *err)
{
	struct pf_worker *worker = c->plan.worker;
	const char *platform = pf_json_get_string(meta, "platform");
	const char *here = pf_worker_description(worker)->platform;
	struct pf_origin origin;
	int r = pf_compile_origin(c->x->compiler, worker, c->instance, platform, &origin,
				  err);

	if (r < 0)
		return r;
	if (strcmp(pf_json_get_string(meta, "host"), origin.host) != 0)
		return pf_err_set(err, -EINVAL,
				  "it was compiled for a topology (%.64s, %.128s) on "
				  "another kind of processor than this host's: compile "
				  "the program here",
				  text_of(meta, "platform"),
				  text_of(meta, "platform_version"));
	if (!strcmp(pf_json_get_string(meta, "build"), origin.build))
		return 0; /* all else is the plugin's to compare */
	if (strcmp(platform, here) != 0)
		return pf_err_set(err, -EINVAL,
				  "it was compiled by plugin %.64s for a topology "
				  "(%.64s, %.128s), and the platform of plugin %s is "
				  "%.64s",
				  text_of(meta, "plugin"), text_of(meta, "platform"),
				  text_of(meta, "platform_version"),
				  pf_worker_name(worker), here);
	read_abi(meta, &c->abi);
	return pf_err_set(err, -EINVAL,
			  "it was compiled for a topology (%.64s, %.128s) by a build of "
			  "plugin %.64s whose file has the SHA-256 %.16s..., and the "
			  "file of plugin %s here has %.16s...: compile the program "
			  "with the build that is to run it",
			  text_of(meta, "platform"), text_of(meta, "platform_version"),
			  text_of(meta, "plugin"), text_of(meta, "build"),
			  pf_worker_name(worker), origin.build);
}

/* Is the code, which META describes, for C's plugin?  -EINVAL: not for this build of it; with bytes in
 * C->ABI, the plugin may say otherwise. */
static int check_identity(struct compile *c, struct json_object *meta, struct pf_err *err)
{
	const struct pf_description *d = pf_worker_description(c->plan.worker);
	char identity[PF_CACHE_KEY_TEXT];
	struct json_object *topology = NULL;
	int r;

	json_object_object_get_ex(meta, "for_topology", &topology);
	if (json_object_get_boolean(topology))
		return check_origin(c, meta, err);
	r = pf_compile_identity(c->x->compiler, c->plan.worker, c->instance, false,
				identity, err);
	if (r < 0)
		return r;
	if (!strcmp(text_of(meta, "identity"), identity))
		return 0;
	r = pf_compile_identity(c->x->compiler, c->plan.worker, c->instance, true,
				identity, err);
	if (r < 0)
		return r;
	if (!strcmp(text_of(meta, "identity_of_any_build"), identity))
		read_abi(meta, &c->abi);
	return pf_err_set(
		err, -EINVAL,
		"it was compiled by plugin %.64s (%.64s, %.128s) on its host and "
		"devices, and runs nowhere else; this is plugin %s (%.64s, "
		"%.128s): compile the program here",
		text_of(meta, "plugin"), text_of(meta, "platform"),
		text_of(meta, "platform_version"), pf_worker_name(c->plan.worker),
		d->platform, d->platform_version);
}

/* The platform's number, which the worker passes to the program; 0 for most programs. */
static int read_platform(struct json_object *meta, uint32_t *ret, struct pf_err *err)
{
	int64_t n = number(meta, "platform_number", 0);

	if (n < 0 || n > PF_WIRE_MAX_PLATFORMS)
		return pf_err_set(err, -EINVAL,
				  "the compiled program is damaged: it is for platform "
				  "number %" PRId64,
				  n);
	*ret = (uint32_t)n;
	return 0;
}

/* With bytes in C->ABI, the plugin decides: FOREIGN is the refusal, if it refuses. */
static int check_file(struct compile *c, struct pf_cache_header *h,
		      struct pf_err *foreign, struct pf_err *err)
{
	const uint8_t *src = pf_bytes_at(c->program, 0);
	struct json_object *meta = NULL;
	int r = pf_cache_header_read(src, c->len, c->len, h, err);

	pf_buf_release(&c->abi);
	if (r == 0)
		r = pf_cache_body_check(h, src + PF_CACHE_HEADER, err);
	if (r == 0)
		r = pf_compile_facts((const char *)src + PF_CACHE_HEADER,
				     h->len[PF_CACHE_META], &meta, err);
	if (r == 0)
		r = check_identity(c, meta, err);
	if (r == -EINVAL && c->abi.len) {
		*foreign = *err;
		*err = (struct pf_err)PF_ERR_INIT;
		r = 0;
	}
	if (r == 0)
		r = read_platform(meta, &c->plan.platform, err);
	json_object_put(meta);
	if (r == -EBADMSG)
		r = pf_err_wrap(err, -EINVAL, "the compiled program is damaged");
	return r;
}

int pf_compile_native(struct compile *c, struct pf_loaded **ret, struct pf_err *err)
{
	struct pf_err foreign = PF_ERR_INIT;
	struct pf_cache_header h;
	int r = check_file(c, &h, &foreign, err);

	if (r < 0)
		return r;
	memcpy(&c->key, h.sha, sizeof(c->key)); /* the file is all that the worker runs */
	r = pf_quarantine_check(c->x->compiler->quarantine, PF_SUSPECT_COMPILE, &c->key,
				c->job.slot.user, err);
	if (r < 0)
		return r;
	r = load_parts(c, &h, c->program, PF_CACHE_HEADER, ret, err);
	if (r <= 0 && !err->code)
		pf_err_set(err, -EIO, "the plugin did not load it");
	if (r <= 0 && c->abi.len && err->code == -ENOEXEC)
		pf_err_wrap(err, -EINVAL, "%s", foreign.text);
	return r > 0 ? 1 : err->code;
}

/* --- to a file ---------------------------------------------------------------------------- */

/* 1: it was in the cache; *RET has it. */
static int from_cache(struct pf_executable *x, const struct pf_loaded *l,
		      struct pf_bytes **ret, uint64_t *len, struct pf_err *err)
{
	struct pf_cache *cache = x->compiler->cache;
	struct pf_cache_found found;
	int r;

	if (!cache || !l->kept || !pf_cache_find(cache, &l->key, &found))
		return 0;
	r = read_file(cache, &found, x->arena, NULL, ret, len, err);
	pf_cache_found_release(&found);
	if (r == 0)
		return 1;
	return r == -EBADMSG ? 0 : r;
}

int pf_answer_is_outside(struct pf_err *err)
{
	return pf_err_set(err, -EPROTO, "the worker's answer lies outside its pool");
}

/* Join the parts to a file; those in the pool are read once, as the worker may change them. */
static int compose(struct pf_executable *x, const struct pf_loaded *l,
		   const struct pf_rep_block *code, const struct pf_rep_optimized *hlo,
		   struct pf_bytes **ret, uint64_t *len, struct pf_err *err)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT;
	struct pf_cache_piece parts[PF_CACHE_PARTS];
	struct json_object *meta = make_parts(x->compiler, l, code, hlo, &module, parts);
	struct pf_cache_header h = { .key = l->key };
	uint64_t at = PF_CACHE_HEADER;
	struct timespec now;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &now);
	h.made_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	for (int i = 0; i < PF_CACHE_PARTS; i++)
		h.len[i] = parts[i].len;
	if (!parts[PF_CACHE_META].data)
		r = pf_err_set(err, -ENOMEM, "no memory for the program's facts");
	else if (!parts[PF_CACHE_HLO].data || !parts[PF_CACHE_CODE].data)
		r = pf_answer_is_outside(err);
	*len = PF_CACHE_HEADER + pf_cache_body_len(&h);
	if (r == 0)
		r = pf_bytes_new(x->arena, NULL, *len, ret, err);
	for (int i = 0; r == 0 && i < PF_CACHE_PARTS; at += parts[i++].len)
		memcpy(pf_bytes_at(*ret, at), parts[i].data, parts[i].len);
	if (r == 0)
		r = pf_cache_body_sign(&h, pf_bytes_at(*ret, PF_CACHE_HEADER), err);
	if (r == 0)
		r = pf_cache_header_write(&h, pf_bytes_at(*ret, 0), err);
	json_object_put(meta);
	if (r < 0)
		pf_bytes_unref(pf_steal(ret));
	return r;
}

static int from_plugin(struct pf_executable *x, const struct pf_loaded *l,
		       struct pf_bytes **ret, uint64_t *len, struct pf_err *err)
{
	struct pf_rep_optimized hlo = { .off = PF_NO_OFFSET };
	struct pf_rep_block code;
	bool has_hlo = false;
	int r = pf_loaded_ask(l, PF_OP_SERIALIZE, ASK_S, true, &code, sizeof(code), err);

	if (r < 0)
		return r;
	if (pf_is_hlo(l->optimized)) {
		r = pf_loaded_ask(l, PF_OP_OPTIMIZED, ASK_S, true, &hlo, sizeof(hlo),
				  err);
		has_hlo = r == 0;
	}
	if (r == 0)
		r = compose(x, l, &code, &hlo, ret, len, err);
	if (has_hlo)
		pf_instance_free_block(l->instance, hlo.off);
	pf_instance_free_block(l->instance, code.off);
	return r;
}

int pf_executable_serialize(struct pf_executable *x, struct pf_account *account,
			    struct pf_bytes **ret, uint64_t *len, struct pf_err *err)
{
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *l = pf_executable_known(x);
	int r;

	*ret = NULL;
	*len = 0;
	if (!l)
		return 0;
	if (l->native || l->file) {
		*ret = pf_bytes_ref(l->native ? l->program : l->file);
		*len = l->native ? l->program_len : l->file_len;
		return 0;
	}
	r = from_cache(x, l, ret, len, err);
	if (r == 0 && pf_loaded_use(l))
		r = from_plugin(x, l, ret, len, err);
	if (r >= 0 && *ret && (r = pf_bytes_charge(*ret, account, err)) < 0)
		pf_bytes_unref(pf_steal(ret));
	return r < 0 ? r : 0;
}

uint64_t pf_executable_serialized_len(struct pf_executable *x)
{
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *l = pf_executable_known(x);
	struct pf_cache *cache = x->compiler->cache;
	struct stat st;

	if (!l)
		return 0;
	if (l->native || l->file)
		return l->native ? l->program_len : l->file_len;
	return cache && l->kept && pf_cache_has(cache, &l->key, &st)
		       ? (uint64_t)st.st_size
		       : 0;
}
