/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that never change: their types and the copies of their bytes. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/value.h"

enum {
	SMALL = 4096, /* bytes; a device copy of as many or more takes whole pages */
};

/*
 * Host copies that can be made again, the one that was used longest ago first.
 *
 * They are copies of results which the device still has, never bytes that a user wrote.  The
 * arena drops them when the memory limit is reached; a reader fetches them again.
 */

pthread_mutex_t pf_store_lock = PTHREAD_MUTEX_INITIALIZER;

/* Protected by pf_store_lock, as are the values' places in it. */
static TAILQ_HEAD(, pf_value) reclaimable = TAILQ_HEAD_INITIALIZER(reclaimable);

static void unlist_locked(struct pf_value *v)
{
	if (v->listed)
		TAILQ_REMOVE(&reclaimable, v, reclaimable);
	v->listed = false;
}

void pf_reclaimable_touch(struct pf_value *v)
{
	PF_LOCK_SCOPE(&pf_store_lock);
	unlist_locked(v);
	TAILQ_INSERT_TAIL(&reclaimable, v, reclaimable);
	v->listed = true;
}

/* Tests of buffers have no worker. */
static struct pf_arena *arena_of(const struct pf_worker *worker)
{
	return worker ? pf_worker_arena(worker) : NULL;
}

struct pf_value *pf_value_new(const struct pf_array_type *type, struct pf_place place)
{
	struct pf_value *v =
		calloc(1, offsetof(struct pf_value, shape.dims[type->shape->rank]) +
				  type->shape->rank);

	if (!v)
		return NULL;
	atomic_init(&v->refs, 1);
	if (pthread_mutex_init(&v->lock, NULL))
		abort();
	v->dtype = type->dtype;
	pf_shape_copy(&v->shape, type->shape);
	v->len = type->len;
	pf_arena_hold(arena_of(place.worker));
	v->worker = place.worker;
	v->device = place.device;
	v->memory = place.memory == PF_ANY_MEMORY ? PF_DEFAULT_MEMORY : place.memory;
	v->alias_off = PF_NO_OFFSET;
	return v;
}

struct pf_array_type pf_value_type(const struct pf_value *v)
{
	return (struct pf_array_type){ v->dtype, &v->shape, v->len };
}

struct pf_place pf_value_place(const struct pf_value *v)
{
	return (struct pf_place){ v->worker, v->device, v->memory };
}

void pf_value_set_layout(struct pf_value *v, const struct pf_layout *layout)
{
	memcpy(pf_value_minor_to_major(v), layout->minor_to_major, v->shape.rank);
}

struct pf_value *pf_value_of_bytes(const struct pf_array_type *type,
				   struct pf_bytes *bytes, uint64_t off,
				   struct pf_place place)
{
	struct pf_value *v = pf_value_new(type, place);
	struct pf_arena *arena = place.worker ? arena_of(place.worker) : bytes->arena;

	if (!v)
		return NULL;
	v->account = bytes->account;
	if (pf_bytes_in(bytes, arena, v->account, &off, v->len, &v->bytes, NULL) < 0) {
		pf_value_unref(v);
		return NULL;
	}
	v->bytes_off = off;
	return v;
}

struct pf_value *pf_value_of_backing(const struct pf_array_type *type,
				     struct pf_backing *backing, struct pf_place place)
{
	struct pf_value *v = pf_value_new(type, place);

	if (!v)
		return NULL;
	v->backing = pf_backing_ref(backing);
	return v;
}

static void backing_free(struct pf_backing *backing)
{
	backing->free(backing);
}

PF_DEFINE_REF(struct pf_backing, pf_backing, backing_free)

uint64_t pf_pool_bytes(uint64_t len)
{
	uint64_t unit = len >= UINT64_C(1) << 20 ? UINT64_C(2) << 20 : 4096;

	return (len + unit - 1) / unit * unit;
}

void pf_value_set_pool_locked(struct pf_value *v, struct pf_instance *instance,
			      uint64_t off, bool block)
{
	v->pool_instance = pf_instance_ref(instance);
	v->pool_off = off;
	v->pool_block = block;
	pf_instance_hold(instance, off);
}

uint64_t pf_value_space(struct pf_place place, uint64_t len)
{
	if (!pf_description_is_host(pf_worker_description(place.worker), place.device,
				    place.memory))
		return 0;
	return len < SMALL ? (len + PF_ALIGNMENT - 1) / PF_ALIGNMENT * PF_ALIGNMENT
			   : pf_pool_bytes(len);
}

void pf_value_charged_locked(struct pf_value *v, uint64_t own, uint64_t charged)
{
	v->own = own;
	v->charged += charged;
}

void pf_value_recharge_locked(struct pf_value *v)
{
	uint64_t owed = v->pool_instance ? pf_pool_bytes(v->len) : 0;

	/* If the plugin put its buffer into the pool, both copies are the same bytes. */
	if (v->instance && (v->pool_instance != v->instance || v->pool_block))
		owed += v->own;
	if (owed < v->charged)
		pf_memory_discharge(pf_worker_arena(v->worker), v->account,
				    v->charged - owed);
	else if (owed > v->charged)
		pf_memory_force(pf_worker_arena(v->worker), v->account,
				owed - v->charged);
	v->charged = owed;
}

void pf_value_charge_to(struct pf_value *v, struct pf_account *to)
{
	struct pf_account *from;

	PF_LOCK_SCOPE(&v->lock);
	from = v->account;
	pf_bytes_charge_to(v->bytes, to);
	pf_account_move(from, to, PF_MEMORY, v->charged);
	if (v->instance && from)
		pf_account_discharge(from, pf_value_device_memory(v), v->len);
	v->account = to;
	if (v->instance)
		pf_account_force(to, pf_value_device_memory(v), v->len);
}

uint64_t pf_value_own(struct pf_value *v)
{
	PF_LOCK_SCOPE(&v->lock);
	return v->own;
}

uint64_t pf_value_take_charge(struct pf_value *from, struct pf_account *to)
{
	uint64_t own;

	PF_LOCK_SCOPE(&from->lock);
	own = from->own;
	from->own = 0;
	from->charged -= own;
	pf_account_move(from->account, to, PF_MEMORY, own);
	return own;
}

unsigned pf_value_device_memory(const struct pf_value *v)
{
	return pf_account_device(v->account, v->worker, v->device, PF_DEVICE_MEMORY);
}

void pf_value_set_device_locked(struct pf_value *v, struct pf_instance *instance,
				uint64_t id)
{
	pf_account_force(v->account, pf_value_device_memory(v), v->len);
	v->instance = pf_instance_ref(instance);
	v->id = id;
	pf_instance_count(instance, PF_ALIVE_BUFFERS, v->device, 1);
}

struct pf_value *pf_value_of_result(const struct pf_shape *shape,
				    struct pf_worker *worker, unsigned device,
				    struct pf_instance *instance, uint64_t id,
				    struct pf_account *account, uint64_t own,
				    const struct pf_out *out, const void *message)
{
	const struct pf_device_desc *d = &pf_worker_description(worker)->devices[device];
	bool other = out->memory < d->n_memories && out->memory != d->default_memory;
	const struct pf_array_type type = { out->dtype, shape, out->len };
	const struct pf_place place = { worker, device,
					other ? out->memory : PF_DEFAULT_MEMORY };
	struct pf_value *v = pf_value_new(&type, place);

	if (v && out->where == PF_WHERE_INLINE) {
		v->small = malloc(out->len ? out->len : 1);
		if (!v->small) {
			pf_value_unref(v);
			return NULL;
		}
		memcpy(v->small, (const char *)message + out->off, out->len);
	}
	if (!v)
		return NULL;
	PF_LOCK_SCOPE(&v->lock);
	v->account = account;
	pf_value_charged_locked(v, own, own);
	pf_value_set_device_locked(v, instance, id);
	if (out->where == PF_WHERE_POOL || out->where == PF_WHERE_BLOCK)
		pf_value_set_pool_locked(v, instance, out->off,
					 out->where == PF_WHERE_BLOCK);
	if (v->pool_block)
		pf_reclaimable_touch(v);
	pf_value_recharge_locked(v);
	v->on_device_bytes = out->on_device_bytes;
	return v;
}

/* Note in V, for the journal, where the bytes of its source FROM are, while they stay there. */
static void note_source_locked(struct pf_value *v, struct pf_value *from)
{
	struct pf_source_place *place = v->source_place;

	if (from->bytes)
		*place = (struct pf_source_place){ .bytes = pf_bytes_save(from->bytes),
						   .off = from->bytes_off };
	else if (from->pool_instance)
		*place = (struct pf_source_place){ .pool = pf_instance_number(
							   from->pool_instance),
						   .off = from->pool_off };
	else if (from->source_place)
		*place = *from->source_place;
}

/* A copy of VALUE, of SHAPE and of ACCOUNT, that the transfer makes.  SHARES: it has VALUE's bytes. */
static struct pf_value *copy_of(struct pf_value *value, const struct pf_shape *shape,
				struct pf_place place, struct pf_account *account,
				bool shares)
{
	const struct pf_array_type type = { value->dtype, shape, value->len };
	const struct pf_layout layout = pf_value_layout(value);
	struct pf_value *v = pf_value_new(&type, place);

	if (!v)
		return NULL;
	v->source_place = calloc(1, sizeof(*v->source_place));
	if (!v->source_place) {
		pf_value_unref(v);
		return NULL;
	}
	if (shape->rank == value->shape.rank)
		pf_value_set_layout(v, &layout);
	pf_value_pin(value);
	v->source = pf_value_ref(value);
	v->account = account;
	PF_LOCK_SCOPE(&value->lock);
	/* Another user's worker does not see them: its transfer copies them. */
	if (value->bytes && shares &&
	    value->bytes->arena == pf_worker_arena(place.worker)) {
		v->bytes = pf_bytes_ref(value->bytes);
		v->bytes_off = value->bytes_off;
	}
	note_source_locked(v, value);
	/* At most 4 KiB, so the bytes are copied; if memory is short, only the device has
	 * them. */
	v->small = value->small && value->len ? malloc(value->len) : NULL;
	if (v->small)
		memcpy(v->small, value->small, value->len);
	return v;
}

static bool is_on(const struct pf_value *v, struct pf_place place)
{
	return v->worker == place.worker && v->device == place.device;
}

struct pf_value *pf_value_at(struct pf_value *value, struct pf_place place,
			     struct pf_account *account)
{
	if (is_on(value, place) &&
	    (place.memory == PF_ANY_MEMORY || place.memory == value->memory))
		return pf_value_ref(value);
	return copy_of(value, &value->shape, place, account, true);
}

struct pf_value *pf_value_for(struct pf_value *value, struct pf_place place,
			      struct pf_account *account)
{
	if (value->account == account)
		return pf_value_at(value, place, account);
	if (place.memory == PF_ANY_MEMORY && is_on(value, place))
		place.memory = value->memory;
	return copy_of(value, &value->shape, place, account, false);
}

struct pf_value *pf_value_laid_out(struct pf_value *value, const struct pf_shape *shape,
				   const struct pf_layout *layout)
{
	struct pf_value *v =
		copy_of(value, shape, pf_value_place(value), value->account, true);

	if (v)
		pf_value_set_layout(v, layout);
	return v;
}

struct pf_value *pf_value_in_layout(struct pf_value *v, const struct pf_layout *layout)
{
	const struct pf_layout own = pf_value_layout(v);

	return pf_layout_equal(&own, layout) ? pf_value_ref(v)
					     : pf_value_laid_out(v, &v->shape, layout);
}

struct pf_value *pf_value_blank(const struct pf_array_type *type, struct pf_place place)
{
	struct pf_value *v = pf_value_new(type, place);

	if (v)
		v->blank = true;
	return v;
}

void pf_value_drop_device_locked(struct pf_value *v)
{
	if (!v->instance)
		return;
	pf_account_discharge(v->account, pf_value_device_memory(v), v->len);
	pf_instance_count(v->instance, PF_ALIVE_BUFFERS, v->device, -1);
	pf_instance_free_id(v->instance, PF_OP_BUFFER_FREE, v->id);
	pf_instance_unref(pf_steal(&v->instance));
	v->id = 0;
	pf_value_recharge_locked(v);
}

static void drop_host_locked(struct pf_value *v)
{
	struct pf_instance *pool = pf_steal(&v->pool_instance);
	struct pf_bytes *bytes = pf_steal(&v->bytes);
	bool block = v->pool_block;

	free(pf_steal(&v->small));
	pf_backing_unref(pf_steal(&v->backing));
	v->pool_block = v->bytes_again = false;
	/* Before the memory has another owner. */
	pf_value_save_locked(v);
	if (pool && block)
		pf_instance_free_block(pool, v->pool_off);
	if (pool)
		pf_instance_drop(pool, v->pool_off, v->len);
	pf_instance_unref(pool);
	pf_value_recharge_locked(v);
	pf_bytes_unref(bytes);
}

void pf_value_hold(struct pf_value *v)
{
	PF_LOCK_SCOPE(&v->lock);
	if (atomic_fetch_add(&v->holders, 1) == 0)
		pf_value_save_locked(v);
}

void pf_value_let_go(struct pf_value *v)
{
	PF_LOCK_SCOPE(&v->lock);
	if (atomic_fetch_sub(&v->holders, 1) == 1 && v->state_id)
		pf_state_drop(PF_STATE_VALUE, v->state_id);
}

static void value_free(struct pf_value *v)
{
	pf_lock(&pf_store_lock);
	unlist_locked(v);
	pf_unlock(&pf_store_lock);
	pf_value_release_source(v->source);
	drop_host_locked(v);
	pf_value_drop_device_locked(v);
	pf_err_keep(&v->err, NULL);
	pthread_mutex_destroy(&v->lock);
	pf_arena_let_go(arena_of(v->worker));
	free(v->from);
	free(v->source_place);
	free(v);
}

PF_DEFINE_REF(struct pf_value, pf_value, value_free)

const void *pf_value_host_locked(const struct pf_value *v)
{
	if (v->bytes)
		return pf_bytes_at(v->bytes, v->bytes_off);
	if (v->small)
		return v->small;
	if (v->pool_instance)
		return pf_instance_array(v->pool_instance, v->pool_off, v->len);
	return NULL;
}

const void *pf_value_host(struct pf_value *v)
{
	struct pf_value *source;
	const void *host;

	pf_lock(&v->lock);
	host = pf_value_host_locked(v);
	source = v->source; /* stays while V is pinned, or being transferred */
	pf_unlock(&v->lock);
	return host || !source ? host : pf_value_host(source);
}

int pf_value_unusable_locked(const struct pf_value *v, struct pf_err *err)
{
	switch (v->state) {
	case PF_VALUE_DONATED:
		return v->consumed && !v->replaced
			       ? pf_err_set(err, -EINVAL,
					    "its value was donated to an execution and "
					    "is gone")
			       : pf_err_set(err, -EBUSY,
					    "its value is donated to an execution that "
					    "has not ended");
	case PF_VALUE_LOST:
		return pf_err_set(err, -EIO,
				  "its only copy was lost when the worker of plugin "
				  "%s died",
				  pf_worker_name(v->worker));
	case PF_VALUE_ERROR:
		return pf_err_recall(&v->err, err);
	default:
		return 0;
	}
}

void pf_value_forget_dead_locked(struct pf_value *v)
{
	bool whole;

	if (v->instance && !pf_instance_alive(v->instance))
		pf_value_drop_device_locked(v);
	/* A damaged pool stays mapped, for readers who have it pinned. */
	whole = pf_value_host_locked(v) &&
		(v->bytes || v->small || !pf_instance_damaged(v->pool_instance));
	if (!v->instance && !v->source && !v->blank && !v->backing && !whole &&
	    v->state == PF_VALUE_READY)
		v->state = PF_VALUE_LOST;
}

/* --- readers and executions --------------------------------------------------------- */

uint64_t pf_value_use(struct pf_value *v, struct pf_instance *instance)
{
	PF_LOCK_SCOPE(&v->lock);
	if (v->instance != instance || v->state != PF_VALUE_READY)
		return 0;
	v->pins++;
	return v->id;
}

void pf_value_pin(struct pf_value *v)
{
	PF_LOCK_SCOPE(&v->lock);
	v->pins++;
}

struct pf_value *pf_value_take_source_locked(struct pf_value *v)
{
	struct pf_value *source;

	if (!v->source || !v->instance || v->pins || v->state == PF_VALUE_TRANSFERRING)
		return NULL;
	source = pf_steal(&v->source);
	free(pf_steal(&v->source_place));
	pf_value_save_locked(v);
	return source;
}

void pf_value_release_source(struct pf_value *source)
{
	if (source)
		pf_value_unpin(source);
	pf_value_unref(source);
}

/* Can the host copy be made again?  Not if the device reads from it. */
static bool is_reclaimable_locked(const struct pf_value *v)
{
	return v->instance && v->state == PF_VALUE_READY &&
	       ((v->pool_instance && v->pool_block) ||
		(v->bytes_again && v->alias_off == PF_NO_OFFSET));
}

/* Drop VALUE's host copy if it can be made again; returns the bytes that this freed. */
static uint64_t drop_reclaimable(struct pf_value *v)
{
	uint64_t given;

	PF_LOCK_SCOPE(&v->lock);
	if (!is_reclaimable_locked(v) || v->pins || v->fetching ||
	    !pf_instance_alive(v->instance))
		return 0;
	given = v->charged + (v->bytes ? v->bytes->extent.len : 0);
	drop_host_locked(v);
	return given - v->charged;
}

static void consume_locked(struct pf_value *v)
{
	if (v->pins || !v->consumed)
		return;
	drop_host_locked(v);
	pf_value_drop_device_locked(v);
}

void pf_value_unpin(struct pf_value *v)
{
	struct pf_value *source = NULL;

	pf_lock(&v->lock);
	if (--v->pins == 0) {
		consume_locked(v);
		source = pf_value_take_source_locked(v);
		if (is_reclaimable_locked(v))
			pf_reclaimable_touch(v);
	}
	pf_unlock(&v->lock);
	pf_value_release_source(source);
}

enum pf_donation pf_value_donate(struct pf_value *v)
{
	PF_LOCK_SCOPE(&v->lock);
	if (v->state != PF_VALUE_READY)
		return PF_DONATION_REFUSED;
	if (atomic_load(&v->holders) > 1)
		return PF_DONATION_SHARED;
	v->state = PF_VALUE_DONATED;
	v->taken = v->pins == 1;
	pf_value_save_locked(v);
	return v->taken ? PF_DONATION_TAKEN : PF_DONATION_COPIED;
}

void pf_value_replaces(struct pf_value *v, bool replaced)
{
	PF_CHANGE_SCOPE(value, v);
	v->replaced = replaced;
}

void pf_value_donated(struct pf_value *v, bool consumed)
{
	PF_CHANGE_SCOPE(value, v);
	v->consumed = consumed;
	if (consumed) {
		consume_locked(v);
		return;
	}
	v->state = PF_VALUE_READY;
	v->taken = false;
	/* A plugin that died may have begun to overwrite what lies in its pool. */
	if (v->pool_instance && !v->bytes && !v->small && v->pins == 1 &&
	    !pf_instance_alive(v->pool_instance))
		drop_host_locked(v);
}

enum pf_value_state pf_value_state(struct pf_value *v, struct pf_err *ret_why)
{
	PF_LOCK_SCOPE(&v->lock);
	pf_value_forget_dead_locked(v);
	if (ret_why)
		pf_err_recall(&v->err, ret_why);
	return v->state;
}

const char *pf_value_state_name(enum pf_value_state state)
{
	static const char *const names[] = {
		[PF_VALUE_READY] = "ready",     [PF_VALUE_TRANSFERRING] = "transferring",
		[PF_VALUE_DONATED] = "donated", [PF_VALUE_LOST] = "lost",
		[PF_VALUE_ERROR] = "error",
	};

	return names[state];
}

/* --- the memory it takes ------------------------------------------------------------------ */

void pf_bytes_segment(const struct pf_bytes *bytes, struct pf_segment *ret)
{
	uint64_t number = pf_arena_number(bytes->arena);

	if (number)
		snprintf(ret->id, sizeof(ret->id), "arena %" PRIu64 ":%" PRIu64,
			 number - 1, bytes->extent.off);
	else
		snprintf(ret->id, sizeof(ret->id), "arena %" PRIu64, bytes->extent.off);
	ret->bytes = bytes->extent.len;
}

unsigned pf_value_segments(struct pf_value *v, struct pf_segment ret[2])
{
	unsigned n = 0;

	PF_LOCK_SCOPE(&v->lock);
	if (v->bytes)
		pf_bytes_segment(v->bytes, &ret[n++]);
	if (v->charged) {
		struct pf_instance *instance =
			v->pool_instance ? v->pool_instance : v->instance;

		snprintf(ret[n].id, sizeof(ret[n].id),
			 "%s %" PRIu64 " of %.16s, instance %" PRIu64,
			 v->pool_instance ? "pool" : "buffer",
			 v->pool_instance ? v->pool_off : v->id,
			 pf_worker_name(v->worker), pf_instance_number(instance));
		ret[n++].bytes = v->charged;
	}
	return n;
}

/* --- reclaiming host copies -------------------------------------------------------------- */

/* Add a reference, unless another thread is dropping the last one. */
static bool try_ref(struct pf_value *v)
{
	unsigned n = atomic_load(&v->refs);

	while (n)
		if (atomic_compare_exchange_weak(&v->refs, &n, n + 1))
			return true;
	return false;
}

/* Take the value of ARENA, or of ACCOUNT, that was used longest ago off the list; with a reference.
 * The account may change meanwhile: then another one is reclaimed. */
static struct pf_value *take_oldest(const struct pf_arena *arena,
				    const struct pf_account *account)
{
	struct pf_value *v;

	PF_LOCK_SCOPE(&pf_store_lock);
	TAILQ_FOREACH(v, &reclaimable, reclaimable) {
		if ((arena ? !pf_arena_share_limit(pf_worker_arena(v->worker), arena)
			   : v->account != account) ||
		    !try_ref(v))
			continue;
		unlist_locked(v);
		return v;
	}
	return NULL;
}

static uint64_t reclaim(const struct pf_arena *arena, const struct pf_account *account,
			uint64_t need)
{
	struct pf_value *v;
	uint64_t given = 0;

	while (given < need && (v = take_oldest(arena, account))) {
		given += drop_reclaimable(v);
		pf_value_unref(v);
	}
	return given;
}

static uint64_t reclaim_of_arena(void *arena, uint64_t need)
{
	return reclaim(arena, NULL, need);
}

static uint64_t reclaim_of_account(struct pf_account *account, uint64_t need)
{
	return reclaim(NULL, account, need);
}

void pf_reclaim_attach(struct pf_arena *arena, struct pf_quotas *quotas)
{
	pf_arena_set_reclaim(arena, reclaim_of_arena, arena);
	if (quotas)
		pf_quotas_set_reclaim(quotas, reclaim_of_account);
}

/* --- parts of values ---------------------------------------------------------------------- */

/* VALUE's bytes in the arena, with a reference, if ACCOUNT is charged for them, and plugins can use
 * the block in place at *OFF. */
static struct pf_bytes *shareable(struct pf_value *v, const struct pf_block *block,
				  const struct pf_account *account, uint64_t *off)
{
	uint64_t first;

	if (!pf_block_is_run(block, &first))
		return NULL;
	PF_LOCK_SCOPE(&v->lock);
	if (!v->bytes || v->bytes->account != account)
		return NULL;
	*off = v->bytes_off + first * pf_dtype_size(v->dtype);
	return pf_bytes_offset(v->bytes, *off) % PF_ALIGNMENT ? NULL
							      : pf_bytes_ref(v->bytes);
}

static uint64_t bytes_of(enum pf_dtype dtype, const struct pf_block *block)
{
	int64_t count = 0;

	/* Does not overflow: the whole was counted when the value was made. */
	(void)pf_shape_count(&block->part, &count, NULL);
	return (uint64_t)count * pf_dtype_size(dtype);
}

uint64_t pf_value_cut_copies(struct pf_value *v, const struct pf_block *block,
			     struct pf_account *account)
{
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *shared = NULL;
	uint64_t off;

	shared = shareable(v, block, account, &off);
	return shared ? 0 : bytes_of(v->dtype, block);
}

int pf_value_cut(struct pf_value *v, const struct pf_block *block, struct pf_place place,
		 struct pf_account *account, struct pf_value **ret, struct pf_err *err)
{
	const struct pf_array_type type = { v->dtype, &block->part,
					    bytes_of(v->dtype, block) };
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *bytes = NULL;
	uint64_t off = 0;
	const void *host;
	int r;

	bytes = shareable(v, block, account, &off);
	if (!bytes) {
		off = 0;
		host = pf_value_host(v);
		if (!host)
			return pf_err_set(err, -EIO, "its bytes are gone");
		r = pf_bytes_new(pf_worker_arena(place.worker), account, type.len, &bytes,
				 err);
		if (r < 0)
			return r;
		pf_block_cut(block, pf_dtype_size(v->dtype), host, pf_bytes_at(bytes, 0));
	}
	*ret = pf_value_of_bytes(&type, bytes, off, place);
	return *ret ? 0 : pf_err_set(err, -ENOMEM, "no memory for a value");
}

int pf_value_join(struct pf_value *const *parts, const struct pf_block *blocks,
		  unsigned n, const struct pf_block *into, struct pf_place place,
		  struct pf_account *account, struct pf_value **ret, struct pf_err *err)
{
	struct pf_array_type type = { .dtype = parts[0]->dtype, .shape = &into->part };
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *bytes = NULL;
	int r = pf_shape_bytes(type.shape, type.dtype, &type.len, err);

	if (r == 0)
		r = pf_bytes_new(pf_worker_arena(place.worker), account, type.len, &bytes,
				 err);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < n; i++) {
		const void *host = pf_value_host(parts[i]);

		if (!host)
			return pf_err_set(err, -EIO, "its bytes are gone");
		pf_block_copy(&blocks[i], host, into, pf_bytes_at(bytes, 0),
			      pf_dtype_size(type.dtype));
	}
	*ret = pf_value_of_bytes(&type, bytes, 0, place);
	return *ret ? 0 : pf_err_set(err, -ENOMEM, "no memory for a value");
}
