/* SPDX-License-Identifier: Apache-2.0 */
/* What x.json says of a buffer, and the files in executables/x of an executable. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/array.h"
#include "pjrtfs/json.h"

/* --- buffers --------------------------------------------------------------------------- */

static const char *state_name_locked(const struct pf_buffer *b)
{
	static const char *const names[] = {
		[PF_BUFFER_EMPTY] = "empty",     [PF_BUFFER_INCOMPLETE] = "incomplete",
		[PF_BUFFER_SCRATCH] = "scratch", [PF_BUFFER_ERROR] = "error",
		[PF_BUFFER_DONATED] = "donated", [PF_BUFFER_TENSORS] = "ready",
	};

	return b->state == PF_BUFFER_VALUE
		       ? pf_value_state_name(pf_value_state(b->value, NULL))
		       : names[b->state];
}

const char *pf_buffer_state_name(struct pf_buffer *b)
{
	PF_LOCK_SCOPE(&b->lock);
	return state_name_locked(b);
}

static void add_bool(struct json_object *o, const char *key, bool value)
{
	pf_json_add(o, key, json_object_new_boolean(value));
}

static void describe_type(struct json_object *o, enum pf_dtype dtype,
			  const struct pf_shape *shape)
{
	pf_json_add_string(o, "dtype", pf_dtype_name(dtype));
	pf_json_add(o, "shape", pf_shape_json(shape));
}

/* Describe a buffer without a value: its declared type, the bytes that were written. */
static void describe_content(struct json_object *o, const struct pf_buffer *b)
{
	uint64_t bytes;

	pf_json_add_string(o, "device", pf_buffer_location(b)->device_name);
	if (b->declared_shape)
		describe_type(o, b->declared, b->declared_shape);
	if (b->declared_shape &&
	    pf_shape_bytes(b->declared_shape, b->declared, &bytes, NULL) == 0)
		pf_json_add_int(o, "bytes", (int64_t)bytes);
	pf_json_add_int(o, "written", (int64_t)b->size);
	if (b->state == PF_BUFFER_TENSORS)
		pf_json_add_int(o, "tensors", (int64_t)b->tensors);
}

static void describe_value(struct json_object *o, const struct pf_buffer *b)
{
	struct pf_value *v = b->value;
	const struct pf_device_desc *d =
		&pf_worker_description(v->worker)->devices[v->device];
	unsigned memory = v->memory == PF_DEFAULT_MEMORY ? d->default_memory : v->memory;
	const struct pf_layout layout = pf_value_layout(v);

	describe_type(o, v->dtype, &v->shape);
	if (pf_layout_is_row_major(&layout))
		pf_json_add_string(o, "layout", "row-major");
	else
		pf_json_add(o, "layout", pf_layout_json(&layout, v->shape.rank));
	pf_json_add_string(o, "device", pf_buffer_location(b)->device_name);
	pf_json_add_string(o, "memory",
			   memory < d->n_memories ? d->memories[memory].kind : "device");
	pf_json_add_int(o, "bytes", (int64_t)v->len);
	PF_LOCK_SCOPE(&v->lock);
	pf_json_add_int(o, "on_device_bytes", (int64_t)v->on_device_bytes);
	add_bool(o, "host_copy", v->bytes || v->small || v->pool_instance);
	add_bool(o, "zero_copy",
		 v->alias_off != PF_NO_OFFSET || (v->pool_instance && !v->pool_block));
}

/* Why it is not an array; the code is 0 if it is one, or nothing was written. */
static struct pf_err why_not(const struct pf_buffer *b)
{
	struct pf_err err = PF_ERR_INIT;

	if (b->value && pf_value_state(b->value, NULL) == PF_VALUE_ERROR)
		pf_value_state(b->value, &err);
	if (b->state == PF_BUFFER_ERROR || b->state == PF_BUFFER_INCOMPLETE)
		pf_err_recall(&b->err, &err);
	if (!err.code && b->state == PF_BUFFER_INCOMPLETE)
		pf_err_set(&err, -EINVAL,
			   "%" PRIu64 " bytes were written, and it was not closed: its "
			   "writer is at it still, or was killed",
			   b->size);
	return err;
}

/* The memory that it takes; buffers that share a segment show the same id. */
static void describe_segments(struct json_object *o, const struct pf_buffer *b)
{
	struct json_object *list = json_object_new_array();
	struct pf_segment all[4] = { { .bytes = 0 } };
	unsigned n = 0;

	if (b->content)
		pf_bytes_segment(b->content, &all[n++]);
	if (b->value)
		n += pf_value_segments(b->value, &all[n]);
	if (b->file.account) {
		snprintf(all[n].id, sizeof(all[n].id), "file %" PRIu64, b->subject);
		all[n++].bytes = b->file.heap;
	}
	for (unsigned i = 0; i < n; i++) {
		struct json_object *segment;

		if (i && !strcmp(all[i].id, all[0].id))
			continue;
		segment = json_object_new_object();
		pf_json_add_string(segment, "id", all[i].id);
		pf_json_add_int(segment, "bytes", (int64_t)all[i].bytes);
		pf_json_append(list, segment);
	}
	pf_json_add(o, "segments", list);
}

struct json_object *pf_buffer_json(struct pf_buffer *b, const char *name)
{
	struct json_object *o = json_object_new_object();
	struct pf_err err;

	PF_LOCK_SCOPE(&b->lock);
	err = why_not(b);
	pf_json_add_string(o, "name", name);
	pf_json_add_string(o, "state", state_name_locked(b));
	if (b->value)
		describe_value(o, b);
	else
		describe_content(o, b);
	if (err.code)
		pf_json_add_string(o, "error", err.text);
	describe_segments(o, b);
	pf_json_add_string(o, "format",
			   b->format == PF_FORMAT_NONE
				   ? "scratch"
				   : pf_format_extension(b->format) + 1);
	pf_json_add_string(o, "made_by", pf_buffer_made_by(b));
	pf_json_add_time(o, "made", &b->made);
	return o;
}

/* --- executables ------------------------------------------------------------------------ */

/* Print O, which is put. */
static void print(struct json_object *o, struct pf_buf *out)
{
	pf_json_print_line(o, out);
	json_object_put(o);
}

/* The kind of a device's default memory, the same for all devices of a plugin. */
static const char *default_memory(const struct pf_description *d)
{
	const struct pf_device_desc *device = d->devices;

	if (!d->n_devices || device->default_memory >= device->n_memories)
		return "device";
	return device->memories[device->default_memory].kind;
}

void pf_executable_signature(struct pf_executable *x, struct pf_buf *out)
{
	const struct pf_description *d;
	const struct pf_loaded *l;
	struct json_object *o;

	PF_LOCK_SCOPE(&x->lock);
	l = pf_executable_serving(x);
	if (!l) {
		o = json_object_new_object();
	} else {
		d = pf_worker_description(l->worker);
		o = pf_signature_json(l->signature, pf_loaded_platform(l),
				      default_memory(d));
	}
	print(o, out);
}

void pf_executable_fact(struct pf_executable *x, const char *key, struct pf_buf *out)
{
	const struct pf_loaded *l;
	struct json_object *o = NULL;

	PF_LOCK_SCOPE(&x->lock);
	l = pf_executable_serving(x);
	if (l)
		json_object_object_get_ex(l->info, key, &o);
	print(o ? pf_json_copy(o) : json_object_new_object(), out);
}

void pf_executable_given(struct pf_executable *x, struct pf_buf *out)
{
	const struct pf_loaded *l;

	PF_LOCK_SCOPE(&x->lock);
	l = pf_executable_serving(x);
	if (l && l->options.failed)
		out->failed = true;
	else if (l)
		pf_buf_append(out, l->options.data, l->options.len);
}

struct json_object *pf_executable_json(struct pf_executable *x)
{
	struct json_object *o = json_object_new_object();
	const struct pf_loaded *l;
	char key[PF_CACHE_KEY_TEXT];

	PF_LOCK_SCOPE(&x->lock);
	l = pf_executable_serving(x);
	pf_json_add_string(o, "state",
			   pf_executable_state_name(pf_executable_state_locked(x)));
	pf_json_add_string(o, "plugin", pf_worker_name(l ? l->worker : x->worker));
	pf_json_add_int(o, "program_bytes", (int64_t)x->program_len);
	if (x->state == PF_EXECUTABLE_COMPILING) {
		unsigned at =
			x->job ? pf_sched_position(x->compiler->sched, &x->job->slot) : 0;

		pf_json_add_seconds(o, "compiling_seconds",
				    pf_seconds_since(CLOCK_REALTIME, &x->started));
		if (at)
			pf_json_add_int(o, "queue_position", at);
	}
	if (l) {
		if (x->cache_use)
			pf_json_add_string(o, "cache", x->cache_use);
		if (!l->native) { /* the name that the cache gives it, or would */
			pf_cache_key_text(&l->key, key);
			pf_json_add_string(o, "cache_key", key);
		}
		pf_json_add_seconds(o, "compile_seconds", l->compile_seconds);
		json_object_object_foreach(l->info, fact, value)
			pf_json_add_copy(o, fact, value);
	}
	if (x->calls && (l || !x->loaded)) {
		json_object_object_foreach(x->calls, fact, value)
			pf_json_add_copy(o, fact, value);
	}
	return o;
}
