/* SPDX-License-Identifier: Apache-2.0 */
/* Values, buffers and executables in the journal; restore.c reads these records. */
#include <string.h>

#include "internal.h"

static void locate(const struct pf_value *v, struct pf_value_record *r)
{
	const struct pf_source_place *place = v->source_place;

	if (v->bytes) {
		r->where = PF_KEPT_IN_ARENA;
		r->id = pf_bytes_save(v->bytes);
		r->off = v->bytes_off;
	} else if (v->small) {
		r->where = PF_KEPT_INLINE;
	} else if (v->pool_instance) {
		r->where = PF_KEPT_IN_POOL;
		r->id = pf_instance_number(v->pool_instance);
		r->off = v->pool_off;
	} else if (place && (place->bytes || place->pool)) {
		r->where = place->bytes ? PF_KEPT_IN_ARENA : PF_KEPT_IN_POOL;
		r->id = place->bytes ? place->bytes : place->pool;
		r->off = place->off;
	}
	/* An execution may be overwriting it, and its end is not known to a restarted daemon. */
	if (r->where == PF_KEPT_IN_POOL && v->taken)
		r->where = PF_KEPT_NOWHERE;
}

void pf_value_save_locked(struct pf_value *v)
{
	struct pf_value_record r;

	if (!pf_state_on() || !atomic_load(&v->holders))
		return;
	r = (struct pf_value_record){ .len = v->len,
				      .on_device_bytes = v->on_device_bytes,
				      .dtype = v->dtype,
				      .memory = v->memory,
				      .blank = v->blank,
				      .layout = pf_value_layout(v),
				      .rank = v->shape.rank };
	if (!v->state_id)
		v->state_id = pf_object_number();
	locate(v, &r);
	memcpy(r.dims, v->shape.dims, r.rank * sizeof(r.dims[0]));
	/* A transfer under way begins again when the value is used. */
	if (v->state == PF_VALUE_DONATED && v->consumed && !v->replaced)
		r.state = PF_VALUE_DONATED;
	else if (r.where == PF_KEPT_NOWHERE && !v->blank)
		r.state = PF_VALUE_LOST;
	pf_state_put(PF_STATE_VALUE, v->state_id, &r, PF_RECORD_LEN(r), v->small,
		     r.where == PF_KEPT_INLINE ? v->len : 0);
}

void pf_buffer_save_locked(struct pf_buffer *b)
{
	const char *device = b->location->device_name;
	unsigned rank = b->declared_shape ? b->declared_shape->rank : 0;
	struct pf_buffer_record r;

	if (!b->id)
		return;
	r = (struct pf_buffer_record){ .content = pf_bytes_save(b->content),
				       .value = b->value ? b->value->state_id : 0,
				       .size = b->size,
				       .made_s = b->made.tv_sec,
				       .made_ns = (int32_t)b->made.tv_nsec,
				       .memory = b->memory,
				       .declared = b->declared,
				       .former = b->former,
				       .err_code = b->err.code,
				       .err_pjrt_code = b->err.pjrt_code,
				       .format = (uint8_t)b->format,
				       .state = (uint8_t)b->state,
				       .shaped = b->declared_shape != NULL,
				       .refused = b->refused,
				       .line_refused = b->line_refused,
				       .rank = (uint8_t)rank };
	if (device)
		memccpy(r.device, device, 0, sizeof(r.device) - 1);
	memccpy(r.made_by, pf_buffer_made_by(b), 0, sizeof(r.made_by) - 1);
	if (rank)
		memcpy(r.dims, b->declared_shape->dims, rank * sizeof(r.dims[0]));
	pf_state_put(PF_STATE_BUFFER, b->id, &r, PF_RECORD_LEN(r), b->err.text,
		     b->err.text ? strlen(b->err.text) : 0);
}

/*
 * Append TEXT, or if THERE is false an empty one, with its NUL.  Where TEXT is NULL, GCC 14
 * calls strlen in "there ? strlen(text) : 0" before it looks at THERE.
 */
static void add_text(struct pf_buf *texts, const char *text, bool there)
{
	if (!there)
		text = "";
	pf_buf_append(texts, text, strlen(text) + 1);
}

/* What X runs in place of its source, borrowed. */
static struct pf_compiled_source served(const struct pf_executable *x)
{
	const struct pf_loaded *l = x->loaded;

	if (!l)
		return x->served;
	if (!x->changed && !x->err.code && x->state != PF_EXECUTABLE_COMPILING)
		return (struct pf_compiled_source){ 0 };
	return (struct pf_compiled_source){ l->program, l->program_len, l->settings };
}

void pf_executable_save_locked(struct pf_executable *x)
{
	const struct pf_compiled_source s = served(x);
	const struct pf_executable_record r = { .program = pf_bytes_save(x->program),
						.program_len = x->program_len,
						.topology = pf_bytes_save(x->topology),
						.topology_len = x->topology_len,
						.served = pf_bytes_save(s.program),
						.served_len = s.len,
						.has_served_options = s.settings != NULL,
						.user = x->user,
						.err = x->err.code,
						.write_err = x->write_err.code,
						.options_err = x->options_err.code,
						.pjrt_code = x->err.pjrt_code,
						.format = (uint8_t)x->format,
						.state = (uint8_t)x->state,
						.changed = x->changed,
						.has_options = x->options != NULL };
	pf_autobuf struct pf_buf texts = PF_BUF_INIT;

	if (!x->id)
		return;
	add_text(&texts, x->options, x->options != NULL);
	add_text(&texts, x->err.text, x->err.code);
	add_text(&texts, x->write_err.text, x->write_err.code);
	add_text(&texts, x->options_err.text, x->options_err.code);
	add_text(&texts, s.settings, s.settings != NULL);
	if (!texts.failed)
		pf_state_put(PF_STATE_EXECUTABLE, x->id, &r, sizeof(r), texts.data,
			     texts.len);
}

#define PF_DEFINE_END_CHANGE(type)                                                       \
	void pf_##type##_end_change(struct pf_##type **p)                                \
	{                                                                                \
		pf_##type##_save_locked(*p);                                             \
		pf_unlock(&(*p)->lock);                                                  \
	}

PF_DEFINE_END_CHANGE(value)
PF_DEFINE_END_CHANGE(buffer)
PF_DEFINE_END_CHANGE(executable)
