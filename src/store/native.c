/* SPDX-License-Identifier: Apache-2.0 */
#include "pjrtfs/store/native.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ask.h"
#include "compile.h"
#include "quarantine.h"
#include "pjrtfs/base/json.h"

/* A program of some GiB takes seconds to be serialized. */
enum { ASK_S = 10 };

/* --- from a file -------------------------------------------------------------------------- */

static const char *text_of(struct json_object *o, const char *key)
{
	struct json_object *v;

	if (json_object_object_get_ex(o, key, &v) &&
	    json_object_is_type(v, json_type_string))
		return json_object_get_string(v);
	return "unknown";
}

/* Is the code, which META tells of, for C's plugin? */
static int check_identity(struct compile *c, struct json_object *meta, struct pf_err *err)
{
	const struct pf_description *d = pf_worker_description(c->plan.worker);
	char identity[PF_CACHE_KEY_TEXT];
	int r = pf_native_identity(c->x->compiler, c->plan.worker, c->life, identity,
				   err);

	if (r < 0)
		return r;
	if (!strcmp(text_of(meta, "identity"), identity))
		return 0;
	return pf_err_set(
		err, -EINVAL,
		"it was compiled by plugin %.64s (%.64s, %.128s) on its host and "
		"devices, and runs nowhere else; this is plugin %s (%.64s, "
		"%.128s): compile the program here",
		text_of(meta, "plugin"), text_of(meta, "platform"),
		text_of(meta, "platform_version"), pf_worker_name(c->plan.worker),
		d->platform, d->platform_version);
}

/* The number of the platform, which the worker passes to the program; mostly there is none. */
static int read_platform(struct json_object *meta, uint32_t *ret, struct pf_err *err)
{
	struct json_object *v;
	int64_t n = 0;

	if (json_object_object_get_ex(meta, "platform_number", &v))
		n = json_object_get_int64(v);
	if (n < 0 || n > PF_WIRE_MAX_PLATFORMS)
		return pf_err_set(err, -EINVAL,
				  "the compiled program is damaged: it is for platform "
				  "number %" PRId64,
				  n);
	*ret = (uint32_t)n;
	return 0;
}

static int check_file(struct compile *c, struct pf_cache_header *h, struct pf_err *err)
{
	const uint8_t *src = pf_bytes_at(c->program, 0);
	struct json_tokener *tok = json_tokener_new();
	struct json_object *meta = NULL;
	int r = pf_cache_header_read(src, c->len, c->len, h, err);

	if (r == 0)
		r = pf_cache_body_check(h, src + PF_CACHE_HEADER, err);
	if (r == 0 && tok)
		meta = json_tokener_parse_ex(tok, (const char *)src + PF_CACHE_HEADER,
					     (int)h->len[PF_CACHE_META]);
	json_tokener_free(tok);
	if (r == 0)
		r = check_identity(c, meta, err);
	if (r == 0)
		r = read_platform(meta, &c->plan.platform, err);
	json_object_put(meta);
	if (r == -EBADMSG)
		r = pf_err_wrap(err, -EINVAL, "the compiled program is damaged");
	return r;
}

int pf_compile_native(struct compile *c, struct pf_loaded **ret, struct pf_err *err)
{
	struct pf_cache_header h;
	int r = check_file(c, &h, err);

	if (r < 0)
		return r;
	memcpy(&c->key, h.sha, sizeof(c->key)); /* the worker runs nothing else of it */
	r = pf_quarantine_check(pf_compiler_quarantine(c->x->compiler),
				PF_SUSPECT_COMPILE, &c->key, c->x->user, err);
	if (r < 0)
		return r;
	r = pf_compile_load(c, &h, c->program, PF_CACHE_HEADER, ret, err);
	if (r > 0)
		return 0;
	if (!err->code)
		return pf_err_set(err, -EIO, "the plugin did not load it");
	return err->code;
}

/* --- to a file ---------------------------------------------------------------------------- */

/* A file for the parts that H tells of; they are to be put behind its header. */
static int file_new(struct pf_arena *arena, const struct pf_cache_header *h,
		    struct pf_bytes **ret, uint64_t *len, struct pf_err *err)
{
	*len = PF_CACHE_HEADER + pf_cache_body_len(h);
	return pf_bytes_new(arena, *len, ret, err);
}

/* 1: the cache had it. */
static int from_cache(struct pf_executable *x, const struct pf_loaded *l,
		      struct pf_bytes **ret, uint64_t *len, struct pf_err *err)
{
	struct pf_cache *cache = pf_compiler_cache(x->compiler);
	struct pf_cache_found found;
	int r;

	if (!cache || !l->kept || !pf_cache_find(cache, &l->key, &found))
		return 0;
	found.header.uses = 0;
	r = file_new(x->arena, &found.header, ret, len, err);
	if (r == 0)
		r = pf_cache_read(cache, &found, pf_bytes_at(*ret, PF_CACHE_HEADER), err);
	if (r == 0)
		r = pf_cache_header_write(&found.header, pf_bytes_at(*ret, 0), err);
	pf_cache_found_release(&found);
	if (r == 0)
		return 1;
	pf_bytes_unref(pf_steal(ret));
	return r == -EBADMSG ? 0 : r;
}

static int ask(const struct pf_loaded *l, enum pf_op op, void *reply, size_t len,
	       struct pf_err *err)
{
	struct pf_req_id req = { .head.op = op, .id = l->id };
	struct pf_question_to_worker q = {
		.life = l->life, .request = &req, .len = sizeof(req), .timeout_s = ASK_S
	};
	int r;

	/* Somebody waits for it who only reads a file. */
	if (pf_life_silent(l->life))
		return pf_err_set(err, -ETIMEDOUT, "the worker does not answer");
	r = pf_ask(&q, reply, len, err);
	if (r == -ETIMEDOUT)
		pf_life_set_silent(l->life);
	return r;
}

/* Put the parts together; those from the pool are read once. */
static int compose(struct pf_executable *x, const struct pf_loaded *l,
		   const struct pf_rep_block *code, const struct pf_rep_optimized *hlo,
		   struct pf_bytes **ret, uint64_t *len, struct pf_err *err)
{
	const void *code_at = pf_life_pool(l->life, code->off, code->len);
	const void *hlo_at = pf_life_pool(l->life, hlo->off, hlo->len);
	struct json_object *meta = pf_native_describe(x->compiler, l, hlo->with_config);
	struct pf_cache_header h = { .key = l->key };
	struct timespec now;
	char *body;
	int r;

	clock_gettime(CLOCK_REALTIME, &now);
	h.made_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	h.len[PF_CACHE_META] = strlen(pf_json_text(meta));
	h.len[PF_CACHE_HLO] = hlo->len;
	h.len[PF_CACHE_CODE] = code->len;
	if (!code_at || !hlo_at)
		r = pf_err_set(err, -EPROTO, "the worker's answer lies outside its pool");
	else
		r = file_new(x->arena, &h, ret, len, err);
	if (r == 0) {
		body = pf_bytes_at(*ret, PF_CACHE_HEADER);
		memcpy(body, pf_json_text(meta), h.len[PF_CACHE_META]);
		memcpy(body + h.len[PF_CACHE_META], hlo_at, hlo->len);
		memcpy(body + h.len[PF_CACHE_META] + hlo->len, code_at, code->len);
		r = pf_cache_body_sign(&h, body, err);
	}
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
	struct pf_rep_optimized hlo;
	struct pf_rep_block code;
	int r = ask(l, PF_OP_SERIALIZE, &code, sizeof(code), err);

	if (r < 0)
		return r;
	r = ask(l, PF_OP_OPTIMIZED, &hlo, sizeof(hlo), err);
	if (r == 0) {
		r = compose(x, l, &code, &hlo, ret, len, err);
		pf_life_free_block(l->life, hlo.off);
	}
	pf_life_free_block(l->life, code.off);
	return r;
}

int pf_executable_serialize(struct pf_executable *x, struct pf_bytes **ret, uint64_t *len,
			    struct pf_err *err)
{
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *l = pf_executable_known(x);
	int r;

	*ret = NULL;
	*len = 0;
	if (!l)
		return 0;
	if (l->native) {
		*ret = pf_bytes_ref(l->program);
		*len = l->program_len;
		return 0;
	}
	r = from_cache(x, l, ret, len, err);
	if (r == 0 && pf_loaded_use(l))
		r = from_plugin(x, l, ret, len, err);
	return r < 0 ? r : 0;
}

uint64_t pf_executable_serialized_len(struct pf_executable *x)
{
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *l = pf_executable_loaded(x);
	struct pf_cache *cache = pf_compiler_cache(x->compiler);
	struct stat st;

	if (!l)
		return 0;
	if (l->native)
		return l->program_len;
	return cache && l->kept && pf_cache_has(cache, &l->key, &st)
		       ? (uint64_t)st.st_size
		       : 0;
}
