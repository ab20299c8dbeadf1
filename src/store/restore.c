/* SPDX-License-Identifier: Apache-2.0 */
/* The store of an earlier life. */
#include "pjrtfs/restore.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { EXECUTABLE_TEXTS = 5 }; /* behind its record: the options, then three errors */

/* Read RANK extents at DIMS, where *LEN bytes are left; then *LEN is what follows them.  False: they
 * are cut, or too many. */
static bool read_shape(unsigned rank, const int64_t *dims, size_t *len,
		       struct pf_shape *ret)
{
	size_t size = rank * sizeof(*dims);

	if (rank > PF_MAX_RANK || *len < size)
		return false;
	*ret = (struct pf_shape){ .rank = rank };
	memcpy(ret->dims, dims, size);
	*len -= size;
	return true;
}

/* --- values ------------------------------------------------------------------------------- */

/* V is what lies at v->bytes_off of BYTES, which are copied to ARENA, that of its worker, if they
 * lie in another one. */
static int take_bytes(struct pf_value *v, struct pf_bytes *bytes, struct pf_arena *arena)
{
	if (bytes->arena != arena)
		return pf_bytes_in(bytes, arena, NULL, &v->bytes_off, v->len, &v->bytes,
				   NULL);
	v->bytes = pf_bytes_ref(bytes);
	return 0;
}

/* False: such bytes are missing. */
static bool find_in_arena(struct pf_restore *restore, struct pf_value *v,
			  const struct pf_value_record *r, struct pf_arena *arena)
{
	PF_CLEANUP(pf_bytes_unrefp)
	struct pf_bytes *bytes = pf_restore_find_bytes(restore, r->id);
	uint64_t end;

	v->bytes_off = r->off;
	return bytes && !__builtin_add_overflow(r->off, v->len, &end) &&
	       end <= bytes->extent.len - bytes->start &&
	       take_bytes(v, bytes, arena) == 0;
}

/* Give V its host copy.  False: it is not there, or no memory is left. */
static bool find_host(struct pf_restore *restore, struct pf_value *v,
		      const struct pf_value_record *r, struct pf_arena *arena)
{
	struct pf_instance *pool;

	switch (r->where) {
	case PF_KEPT_IN_ARENA:
		return find_in_arena(restore, v, r, arena);
	case PF_KEPT_IN_POOL:
		pool = pf_map_get(&restore->pools, r->id);
		if (!pool || !pf_instance_array(pool, r->off, v->len))
			return false;
		pf_value_set_pool_locked(v, pool, r->off, false);
		return true;
	case PF_KEPT_INLINE:
		v->small = malloc(v->len ? v->len : 1);
		if (v->small)
			memcpy(v->small, (const char *)r + PF_RECORD_LEN(*r), v->len);
		return v->small != NULL;
	default:
		return v->blank;
	}
}

/* The memory with the index of an earlier life: another build of the plugin may have fewer. */
static unsigned memory_of(const struct pf_location *location, uint32_t memory)
{
	const struct pf_description *d;

	if (memory == PF_DEFAULT_MEMORY)
		return memory;
	d = pf_worker_description(location->worker);
	return memory < d->devices[location->device].n_memories ? memory
								: PF_DEFAULT_MEMORY;
}

/* The record of value ID, and its shape.  NULL: -ENOENT, -EPROTO. */
static const struct pf_value_record *read_value(uint64_t id, struct pf_shape *shape,
						struct pf_err *err)
{
	size_t len;
	const struct pf_value_record *r =
		pf_state_load(PF_STATE_VALUE, id, offsetof(struct pf_value_record, dims),
			      &len, err);
	uint64_t bytes;

	if (!r)
		return NULL;
	if (!read_shape(r->rank, r->dims, &len, shape) ||
	    len != (r->where == PF_KEPT_INLINE ? r->len : 0) ||
	    !pf_dtype_valid((int)r->dtype) ||
	    pf_shape_bytes(shape, r->dtype, &bytes, NULL) < 0 || bytes != r->len ||
	    !pf_layout_is_valid(&r->layout, r->rank) ||
	    (r->state != PF_VALUE_READY && r->state != PF_VALUE_DONATED &&
	     r->state != PF_VALUE_LOST))
		return pf_state_damaged(PF_STATE_VALUE, id, err);
	return r;
}

static struct pf_value *restore_value(struct pf_restore *restore, uint64_t id,
				      const struct pf_location *location,
				      struct pf_err *err)
{
	struct pf_value *v = pf_map_get(&restore->values, id);
	const struct pf_value_record *r;
	struct pf_shape shape;

	if (v)
		return pf_value_ref(v);
	r = read_value(id, &shape, err);
	if (!r)
		return NULL;
	v = pf_value_new(&(struct pf_array_type){ r->dtype, &shape, r->len },
			 pf_location_place(location, memory_of(location, r->memory)));
	if (!v || pf_map_put(&restore->values, id, v) < 0) {
		pf_value_unref(v);
		pf_err_set(err, -ENOMEM, "no memory for a value");
		return NULL;
	}
	v->state_id = id;
	pf_value_set_layout(v, &r->layout);
	v->on_device_bytes = r->on_device_bytes;
	v->blank = r->blank;
	v->state = r->state;
	v->consumed = r->state == PF_VALUE_DONATED;
	if (r->state == PF_VALUE_READY && !find_host(restore, v, r, location->arena))
		v->state = PF_VALUE_LOST;
	pf_value_recharge_locked(v);
	return pf_value_ref(v);
}

/* --- buffers ------------------------------------------------------------------------------ */

static bool is_dtype(uint32_t dtype)
{
	return dtype == PF_DTYPE_INVALID || pf_dtype_valid((int)dtype);
}

/* The record of buffer ID, its declared shape, and in *ERROR the buffer's error.  NULL: -ENOENT,
 * -EPROTO. */
static const struct pf_buffer_record *read_buffer(uint64_t id, struct pf_shape *shape,
						  struct pf_err *error,
						  struct pf_err *err)
{
	size_t len;
	const struct pf_buffer_record *r =
		pf_state_load(PF_STATE_BUFFER, id,
			      offsetof(struct pf_buffer_record, dims), &len, err);

	if (!r)
		return NULL;
	if (!read_shape(r->rank, r->dims, &len, shape) || r->format >= PF_FORMAT_JSON ||
	    r->state > PF_BUFFER_ERROR || !is_dtype(r->declared) ||
	    !is_dtype(r->former) || r->device[sizeof(r->device) - 1] ||
	    r->made_by[sizeof(r->made_by) - 1])
		return pf_state_damaged(PF_STATE_BUFFER, id, err);
	if (len >= sizeof(error->text))
		len = sizeof(error->text) - 1;
	*error = (struct pf_err){ .code = r->err_code, .pjrt_code = r->err_pjrt_code };
	memcpy(error->text, (const char *)r + PF_RECORD_LEN(*r), len);
	return r;
}

/* -ENOMEM. */
static int set_facts(struct pf_buffer *b, const struct pf_buffer_record *r,
		     const struct pf_shape *shape, const struct pf_err *error,
		     struct pf_err *err)
{
	b->size = r->size;
	b->made = (struct timespec){ r->made_s, r->made_ns };
	b->memory = r->memory;
	b->declared = r->declared;
	b->former = r->former;
	b->format = r->format;
	b->state = r->state;
	b->refused = r->refused;
	b->line_refused = r->line_refused;
	if (strcmp(r->made_by, "upload") != 0)
		b->made_by = strndup(r->made_by, sizeof(r->made_by));
	if (strcmp(r->made_by, "upload") != 0 && !b->made_by)
		return pf_err_set(err, -ENOMEM, "no memory for a buffer");
	pf_err_keep(&b->err, error);
	return r->shaped ? pf_buffer_declare_locked(b, r->declared, shape, err) : 0;
}

/* The daemon may have ended between two records: make the state that of what there is. */
static void match_state(struct pf_buffer *b)
{
	bool committed = b->state == PF_BUFFER_VALUE || b->state == PF_BUFFER_TENSORS;

	if (b->content && b->size > b->content->extent.len - b->content->start) {
		pf_bytes_unref(pf_steal(&b->content));
		committed = false;
	}
	if (!b->content)
		b->size = 0;
	if ((b->state == PF_BUFFER_VALUE && !b->value) ||
	    (!b->content &&
	     (b->state == PF_BUFFER_TENSORS || b->state == PF_BUFFER_INCOMPLETE)))
		b->state = b->content ? PF_BUFFER_INCOMPLETE : PF_BUFFER_EMPTY;
	(void)pf_content_head(b, b->format, committed, NULL);
}

int pf_buffer_restore(struct pf_restore *restore, uint64_t id, pf_location_find *find,
		      const void *arg, struct pf_buffer **ret, struct pf_err *err)
{
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *b = NULL;
	const struct pf_location *location;
	struct pf_err error, why = PF_ERR_INIT;
	const struct pf_buffer_record *r;
	struct pf_shape shape;
	int code;

	*ret = pf_map_get(&restore->buffers, id);
	if (*ret) {
		pf_buffer_ref(*ret);
		return 0;
	}
	r = read_buffer(id, &shape, &error, err);
	if (!r)
		return err->code;
	location = find(arg, r->device);
	if (!location)
		return pf_err_set(err, -ENODEV, "there is no device %s any more",
				  r->device);
	b = pf_buffer_without_record(location);
	if (!b)
		return pf_err_set(err, -ENOMEM, "no memory for a buffer");
	code = set_facts(b, r, &shape, &error, err);
	if (code < 0)
		return code;
	b->content = pf_restore_find_bytes(restore, r->content);
	if (r->value)
		b->value = restore_value(restore, r->value, location, &why);
	if (b->value)
		pf_value_hold(b->value);
	else if (why.code && why.code != -ENOENT)
		return pf_err_set(err, why.code, "%s", why.text);
	match_state(b);
	if (pf_map_put(&restore->buffers, id, b) < 0)
		return pf_err_set(err, -ENOMEM, "no memory for a buffer");
	b->id = id;
	*ret = pf_buffer_ref(pf_steal(&b));
	return 0;
}

/* --- executables -------------------------------------------------------------------------- */

/* The record of executable ID, and the TEXTS behind it, until pf_state_restored.  NULL: -ENOENT,
 * -EPROTO. */
static const struct pf_executable_record *read_executable(
	uint64_t id, const char *texts[EXECUTABLE_TEXTS], struct pf_err *err)
{
	size_t len;
	const struct pf_executable_record *r =
		pf_state_load(PF_STATE_EXECUTABLE, id, sizeof(*r), &len, err);

	if (!r || (pf_state_texts(r + 1, len, texts, EXECUTABLE_TEXTS) &&
		   r->format <= PF_PROGRAM_NATIVE && r->state <= PF_EXECUTABLE_FAILED))
		return r;
	return pf_state_damaged(PF_STATE_EXECUTABLE, id, err);
}

static void set_executable_err(struct pf_err *err, int code, const char *text)
{
	err->code = code;
	snprintf(err->text, sizeof(err->text), "%s", text);
}

/* The compiled program is gone with the workers: X is to be compiled again; if its source was not
 * compiled, or if a client was writing it, so that it may not be whole, of what ran. */
static void set_executable_state(struct pf_executable *x,
				 const struct pf_executable_record *r)
{
	x->state = r->state;
	if (r->state == PF_EXECUTABLE_READY)
		x->state = PF_EXECUTABLE_COMPILING;
	x->serves = x->served.program && (r->state == PF_EXECUTABLE_READY || r->changed);
	if (x->state == PF_EXECUTABLE_COMPILING && !x->serves &&
	    (r->changed || !x->program))
		x->state = PF_EXECUTABLE_EMPTY;
}

int pf_executable_restore(struct pf_restore *restore, uint64_t id,
			  const struct pf_executable_config *config,
			  struct pf_executable **ret, struct pf_err *err)
{
	const char *texts[EXECUTABLE_TEXTS];
	const struct pf_executable_record *r = read_executable(id, texts, err);
	struct pf_executable *x;

	if (!r)
		return err->code;
	x = pf_executable_new(config, r->user);
	if (!x || pf_map_put(&restore->executables, id, restore) < 0) {
		pf_executable_unref(x);
		return pf_err_set(err, -ENOMEM, "no memory for an executable");
	}
	x->id = 0; /* nothing is written before all is set */
	x->program = pf_restore_find_bytes(restore, r->program);
	if (x->program && r->program_len <= x->program->extent.len - x->program->start)
		x->program_len = r->program_len;
	x->topology = pf_restore_find_bytes(restore, r->topology);
	if (x->topology &&
	    r->topology_len <= x->topology->extent.len - x->topology->start)
		x->topology_len = r->topology_len;
	x->served.program = pf_restore_find_bytes(restore, r->served);
	if (x->served.program &&
	    r->served_len <= x->served.program->extent.len - x->served.program->start)
		x->served.len = r->served_len;
	if (r->has_served_options)
		x->served.settings = strdup(texts[4]);
	x->resumed = true;
	x->format = r->format;
	x->changed = r->changed;
	/* Options that are not valid any more are refused by the compile. */
	if (r->has_options &&
	    pf_executable_set_options(x, texts[0], strlen(texts[0]), false, NULL) < 0)
		x->options = strdup(texts[0]);
	set_executable_state(x, r);
	x->resumed = x->state == PF_EXECUTABLE_COMPILING;
	if (r->state != PF_EXECUTABLE_COMPILING)
		set_executable_err(&x->err, r->err, texts[1]);
	x->err.pjrt_code = r->pjrt_code;
	set_executable_err(&x->write_err, r->write_err, texts[2]);
	set_executable_err(&x->options_err, r->options_err, texts[3]);
	x->id = id;
	pf_executable_save_locked(x);
	*ret = x;
	return 0;
}

/* --- begin and end ------------------------------------------------------------------------ */

int pf_restore_begin(const struct pf_kept *kept, size_t n, uint64_t limit,
		     struct pf_arena **arena, struct pf_restore **ret, struct pf_err *err)
{
	struct pf_restore *restore = calloc(1, sizeof(*restore));
	int r;

	*arena = NULL;
	if (!restore)
		return pf_err_set(err, -ENOMEM, "no memory for the arena");
	r = pf_restore_arenas(restore, kept, n, limit, arena, err);
	if (r == 0)
		r = pf_restore_pools(restore, kept, n, err);
	if (r < 0) {
		pf_restore_end(restore);
		pf_arena_free(pf_steal(arena));
		return r;
	}
	*ret = restore;
	return 0;
}

/* Drop the records of TYPE that MAP does not have. */
static void drop_others(enum pf_state_type type, const struct pf_map *map)
{
	size_t n;
	pf_autofree uint64_t *ids = pf_state_list(type, &n);

	for (size_t i = 0; i < n; i++)
		if (!pf_map_get(map, ids[i]))
			pf_state_drop(type, ids[i]);
}

void pf_restore_end(struct pf_restore *restore)
{
	size_t pos;
	void *p;

	if (!restore)
		return;
	drop_others(PF_STATE_BUFFER, &restore->buffers);
	drop_others(PF_STATE_VALUE, &restore->values);
	drop_others(PF_STATE_POOL, &restore->pools);
	drop_others(PF_STATE_EXECUTABLE, &restore->executables);
	/* An object is freed before those that it refers to. */
	for (pos = 0; (p = pf_map_next(&restore->buffers, &pos));)
		pf_buffer_unref(p);
	for (pos = 0; (p = pf_map_next(&restore->values, &pos));)
		pf_value_unref(p);
	for (pos = 0; (p = pf_map_next(&restore->pools, &pos));) {
		pf_instance_rest(p);
		pf_instance_unref(p);
	}
	for (pos = 0; (p = pf_map_next(&restore->bytes, &pos));)
		pf_bytes_unref(p);
	pf_map_release(&restore->buffers);
	pf_map_release(&restore->values);
	pf_map_release(&restore->pools);
	pf_map_release(&restore->bytes);
	pf_map_release(&restore->executables);
	free(restore);
}
