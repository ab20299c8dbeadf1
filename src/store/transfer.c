/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"

/* Bringing values from their devices to host memory. */

struct download {
	struct pf_call call;
	struct pf_value *value;       /* owned reference */
	struct pf_instance *instance; /* owned reference */
	uint64_t charged;             /* for the block */
	struct timespec start;
};

static void download_end(struct download *d, int code, const struct pf_err *err,
			 const struct pf_rep_block *rep)
{
	struct pf_value *v = d->value;
	struct pf_err wrong = PF_ERR_INIT;
	struct pf_device_meter *device =
		pf_meter_device(pf_worker_meter(v->worker), v->device);
	struct pf_wait *waiters;

	if (code == 0 &&
	    (rep->len != v->len || !pf_instance_pool(d->instance, rep->off, rep->len))) {
		code = pf_err_set(&wrong, -EPROTO,
				  "the worker sent %llu bytes, expected %llu",
				  (unsigned long long)rep->len,
				  (unsigned long long)v->len);
		err = &wrong;
	}
	if (device)
		pf_meter_transfer(&device->from, pf_outcome_of(code), v->len,
				  pf_seconds_since(CLOCK_MONOTONIC, &d->start));
	pf_lock(&v->lock);
	v->fetching = false;
	if (code < 0) {
		v->err = *err;
	} else {
		/* Whoever asked had no host copy, and fetching kept others from making one. */
		pf_value_set_pool_locked(v, d->instance, rep->off, true);
		pf_reclaimable_touch(v);
	}
	pf_value_charged_locked(v, v->own, d->charged);
	pf_value_settle_charge_locked(v);
	waiters = pf_wait_take(&v->waiters);
	pf_unlock(&v->lock);
	pf_wake_all(waiters);
	pf_instance_unref(d->instance);
	pf_value_unref(v);
	free(d);
}

static void download_done(struct pf_call *call, int code, const struct pf_err *err,
			  const void *reply, size_t len)
{
	(void)len;
	download_end(pf_container_of(call, struct download, call), code, err, reply);
}

/* Whose host copy is V's: with a reference, or NULL for V's own. */
static struct pf_value *source_of(struct pf_value *v)
{
	PF_LOCK_SCOPE(&v->lock);
	return v->source && !pf_value_host_locked(v) ? pf_value_ref(v->source) : NULL;
}

int pf_value_fetch(struct pf_value *v, struct pf_wait *waiter, struct pf_err *err)
{
	struct pf_req_id req = { .head.op = PF_OP_BUFFER_READ };
	struct pf_err why = PF_ERR_INIT;
	struct pf_value *source;
	struct download *d;
	int r;

	source = source_of(v);
	if (source) {
		r = pf_value_fetch(source, waiter, err);
		pf_value_unref(source);
		return r;
	}
	pf_lock(&v->lock);
	pf_value_forget_dead_locked(v);
	/* Readers may still see bytes that the device has refused. */
	r = v->state != PF_VALUE_DONATED && pf_value_host_locked(v)
		    ? 1
		    : pf_value_unusable_locked(v, err);
	if (r == 0)
		pf_wait_add(&v->waiters, waiter);
	if (r != 0 || v->fetching || v->placing) {
		pf_unlock(&v->lock);
		return r;
	}
	d = calloc(1, sizeof(*d));
	if (!d) {
		v->waiters = waiter->next;
		pf_unlock(&v->lock);
		return pf_err_set(err, -ENOMEM, "no memory for a download");
	}
	clock_gettime(CLOCK_MONOTONIC, &d->start);
	v->fetching = true;
	d->value = pf_value_ref(v);
	d->instance = pf_instance_ref(v->instance);
	d->call.done = download_done;
	d->call.reply_min = sizeof(struct pf_rep_block);
	req.id = v->id;
	pf_unlock(&v->lock);
	r = pf_arena_charge(pf_worker_arena(v->worker), pf_pool_bytes(v->len), &why);
	if (r == 0) {
		d->charged = pf_pool_bytes(v->len);
		r = pf_instance_call(d->instance, &d->call, &req, sizeof(req), NULL, 0,
				     &why);
	}
	if (r < 0)
		download_end(d, r, &why, NULL);
	return 0;
}

int pf_value_fetched(struct pf_value *v, struct pf_err *err)
{
	struct pf_value *source = source_of(v);
	int r;

	if (source) {
		r = pf_value_fetched(source, err);
		pf_value_unref(source);
		return r;
	}
	PF_LOCK_SCOPE(&v->lock);
	if (v->state != PF_VALUE_DONATED && pf_value_host_locked(v))
		return 1;
	r = pf_value_unusable_locked(v, err);
	if (r < 0)
		return r;
	if (err)
		*err = v->err;
	return v->err.code ? v->err.code
			   : pf_err_set(err, -EIO, "its bytes did not come");
}

/*
 * Bringing values to their devices.
 *
 * A value with host bytes is uploaded, in place where the plugin can use them there.  One
 * that is a copy of another is copied on the device if the other's device memory is its own;
 * else it shares the other's host bytes, which may have to be fetched first.
 */

struct upload {
	struct pf_call call;
	struct pf_wait waiter;  /* for the worker's next life, or the source's bytes */
	struct pf_value *value; /* owned reference */
	struct pf_instance *instance; /* owned reference */
	uint64_t id;
	unsigned tries;
	struct timespec start;
	uint64_t charged; /* for the device's copy */
	bool by_host;     /* the plugin cannot copy on the device */
	bool refused;     /* by the memory limit, before the device heard of it */
};

enum {
	UPLOAD_TRIES = 2,
	IN_PLACE = 64,  /* bytes: plugins use arrays at such addresses where they lie */
	MUCH = 4 << 20, /* bytes whose copying would keep others waiting */
};

static void upload_start(struct upload *u);

static void upload_wake(struct pf_wait *waiter)
{
	upload_start(pf_container_of(waiter, struct upload, waiter));
}

/* The worker died, perhaps of something else: once more in its next life. */
static bool upload_again(struct upload *u, int code, const struct pf_err *err)
{
	struct pf_worker *w = u->value->worker;

	if (code != -EIO || err->pjrt_code >= 0 ||
	    (u->instance && ++u->tries >= UPLOAD_TRIES))
		return false;
	pf_instance_unref(pf_steal(&u->instance));
	u->waiter.wake = upload_wake;
	if (pf_worker_wait(w, &u->waiter))
		return true;
	if (pf_worker_state(w) == PF_WORKER_FAILED)
		return false;
	upload_start(u);
	return true;
}

/* What the device has now. */
struct placed {
	uint64_t alias_off, on_device_bytes;
	bool in_pool;
	uint64_t pool_off;
};

static void upload_end(struct upload *u, int code, const struct pf_err *err,
		       const struct placed *p)
{
	struct pf_value *v = u->value, *source;
	struct pf_device_meter *device =
		pf_meter_device(pf_worker_meter(v->worker), v->device);
	struct pf_wait *waiters;

	if (code < 0 && upload_again(u, code, err))
		return;
	if (device)
		pf_meter_transfer(&device->to, pf_outcome_of(code), v->len,
				  pf_seconds_since(CLOCK_MONOTONIC, &u->start));
	pf_lock(&v->lock);
	v->placing = false;
	if (code < 0) {
		v->err = *err;
		/* When there is room again it can be placed. */
		v->state = u->refused ? PF_VALUE_READY : PF_VALUE_ERROR;
	} else {
		pf_value_drop_device_locked(v);
		pf_value_set_device_locked(v, u->instance, u->id);
		v->blank = false;
		v->alias_off = p->alias_off;
		v->on_device_bytes = p->on_device_bytes;
		v->state = PF_VALUE_READY;
		v->err = (struct pf_err)PF_ERR_INIT;
		if (p->in_pool)
			pf_value_set_pool_locked(v, u->instance, p->pool_off, false);
		v->own = p->alias_off == PF_NO_OFFSET
				 ? pf_value_room(v->worker, v->device, v->memory, v->len)
				 : 0;
	}
	pf_value_charged_locked(v, v->own, u->charged);
	pf_value_settle_charge_locked(v);
	source = pf_value_take_source_locked(v);
	waiters = pf_wait_take(&v->waiters);
	pf_unlock(&v->lock);
	pf_value_release_source(source);
	pf_wake_all(waiters);
	pf_instance_unref(u->instance);
	pf_value_unref(v);
	free(u);
}

static void upload_done(struct pf_call *call, int code, const struct pf_err *err,
			const void *reply, size_t len)
{
	struct upload *u = pf_container_of(call, struct upload, call);
	const struct pf_rep_buffer *rep = reply;
	struct placed p = { .alias_off = PF_NO_OFFSET };

	(void)len;
	if (code == 0) {
		p.alias_off = rep->alias_off;
		p.on_device_bytes = rep->on_device_bytes;
	}
	upload_end(u, code, err, &p);
}

/* The bytes were made on the device: of another value there, or of nothing. */
static void made_done(struct pf_call *call, int code, const struct pf_err *err,
		      const void *reply, size_t len)
{
	struct upload *u = pf_container_of(call, struct upload, call);
	const struct pf_rep_array *rep = reply;
	struct placed p = { .alias_off = PF_NO_OFFSET };
	struct pf_value *v = u->value;
	struct pf_err wrong = PF_ERR_INIT;
	bool has_host;

	(void)len;
	if (code == -EOPNOTSUPP && !u->by_host && v->source) {
		u->by_host = true;
		pf_instance_unref(pf_steal(&u->instance));
		upload_start(u);
		return;
	}
	if (code == 0 &&
	    (rep->out.len != v->len || rep->out.dtype != (uint32_t)v->dtype ||
	     (rep->out.where == PF_WHERE_POOL &&
	      !pf_instance_pool(u->instance, rep->out.off, v->len)))) {
		pf_instance_free_id(u->instance, PF_OP_BUFFER_FREE, u->id);
		code = pf_err_set(
			&wrong, -EPROTO,
			"the worker made %llu bytes of type %u, expected %llu of %s",
			(unsigned long long)rep->out.len, rep->out.dtype,
			(unsigned long long)v->len, pf_dtype_name(v->dtype));
		err = &wrong;
	}
	if (code == 0) {
		pf_lock(&v->lock);
		has_host = pf_value_host_locked(v);
		pf_unlock(&v->lock);
		p.on_device_bytes = rep->out.on_device_bytes;
		p.in_pool = rep->out.where == PF_WHERE_POOL && v->len && !has_host;
		p.pool_off = rep->out.off;
	}
	upload_end(u, code, err, &p);
}

/* The device reads from the arena: bring bytes that are elsewhere there. */
static int into_arena(struct pf_value *v, struct pf_err *err)
{
	struct pf_bytes *bytes = NULL;
	struct pf_value *source;
	const void *src;
	uint64_t off = 0;
	bool there, shared;
	int r;

	pf_lock(&v->lock);
	there = v->bytes != NULL;
	source = v->source; /* stays: V is being placed */
	pf_unlock(&v->lock);
	if (there)
		return 0;
	/* placing, and the pin on the source, keep everyone else from dropping it. */
	if (source) {
		PF_LOCK_SCOPE(&source->lock);
		if (source->bytes) {
			bytes = pf_bytes_ref(source->bytes);
			off = source->bytes_off;
		}
	}
	shared = bytes != NULL;
	if (!shared) {
		src = pf_value_host(v);
		if (!src)
			return pf_err_set(err, -EIO, "its bytes are gone");
		r = pf_bytes_new(pf_worker_arena(v->worker), v->len, &bytes, err);
		if (r < 0)
			return r;
		memcpy(pf_bytes_at(bytes, 0), src, v->len);
	}
	pf_lock(&v->lock);
	v->bytes = bytes;
	v->bytes_off = off;
	v->bytes_again = !shared; /* a user's bytes are never dropped */
	pf_unlock(&v->lock);
	return 0;
}

static void fill_request(const struct upload *u, struct pf_req_buffer *req)
{
	const struct pf_value *v = u->value;

	req->id = u->id;
	req->len = v->len;
	req->dtype = v->dtype;
	req->device = v->device;
	req->memory = v->memory;
	req->rank = v->shape.rank;
	memcpy(req->dims, v->shape.dims, v->shape.rank * sizeof(req->dims[0]));
}

/* Charge for the device's copy before it is made. */
static int charge(struct upload *u, struct pf_err *err)
{
	struct pf_value *v = u->value;
	uint64_t room = pf_value_room(v->worker, v->device, v->memory, v->len);
	int r;

	if (u->charged || !room)
		return 0;
	r = pf_arena_charge(pf_worker_arena(v->worker), room, err);
	u->refused = r < 0;
	u->charged = r < 0 ? 0 : room;
	return r;
}

static int send_bytes(struct upload *u, struct pf_err *err)
{
	struct pf_req_buffer req = { .head.op = PF_OP_BUFFER_CREATE };
	struct pf_value *v = u->value;
	int r = into_arena(v, err);

	if (r < 0)
		return r;
	fill_request(u, &req);
	req.off = pf_bytes_offset(v->bytes, v->bytes_off);
	/* Elsewhere, or packed, the plugin cannot use them where they lie. */
	if (req.off % IN_PLACE || pf_dtype_bits(v->dtype) < 8) {
		r = charge(u, err);
		if (r < 0)
			return r;
	}
	u->call.done = upload_done;
	u->call.reply_min = sizeof(struct pf_rep_buffer);
	return pf_instance_call(u->instance, &u->call, &req, sizeof(req), NULL, 0, err);
}

static int send_blank(struct upload *u, struct pf_err *err)
{
	struct pf_req_buffer req = { .head.op = PF_OP_BUFFER_MAKE };
	int r = charge(u, err);

	if (r < 0)
		return r;
	fill_request(u, &req);
	u->call.done = made_done;
	u->call.reply_min = sizeof(struct pf_rep_array);
	return pf_instance_call(u->instance, &u->call, &req, sizeof(req), NULL, 0, err);
}

/* --- much to copy: on a thread of its own ------------------------------------------------- */

static pthread_mutex_t copiers_lock = PTHREAD_MUTEX_INITIALIZER; /* rank 5; protects: */
static pthread_cond_t no_copier = PTHREAD_COND_INITIALIZER;
static unsigned copiers;

static void count_copiers(int change)
{
	PF_LOCK_SCOPE(&copiers_lock);
	copiers += (unsigned)change;
	if (!copiers)
		pthread_cond_broadcast(&no_copier);
}

void pf_values_settle(void)
{
	PF_LOCK_SCOPE(&copiers_lock);
	while (copiers)
		pthread_cond_wait(&no_copier, &copiers_lock);
}

static bool copies_much(struct pf_value *v)
{
	struct pf_value *source;
	bool has_bytes;

	pf_lock(&v->lock);
	source = v->source; /* stays: V is being placed */
	has_bytes = v->bytes != NULL;
	pf_unlock(&v->lock);
	if (!has_bytes && source) {
		PF_LOCK_SCOPE(&source->lock);
		has_bytes = source->bytes != NULL;
	}
	return !has_bytes && v->len >= MUCH;
}

static void *copier_main(void *arg)
{
	struct upload *u = arg;
	struct pf_err err = PF_ERR_INIT;
	int r = send_bytes(u, &err);

	if (r < 0)
		upload_end(u, r, &err, NULL);
	count_copiers(-1);
	return NULL;
}

/* The thread at hand may be one that takes answers, or requests of others. */
static int send_host_bytes(struct upload *u, struct pf_err *err)
{
	pthread_attr_t attr;
	pthread_t thread;
	bool behind;

	if (!copies_much(u->value))
		return send_bytes(u, err);
	count_copiers(1);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	behind = pthread_create(&thread, &attr, copier_main, u) == 0;
	pthread_attr_destroy(&attr);
	if (behind)
		return 0;
	count_copiers(-1);
	return send_bytes(u, err);
}

/* --- what to send ------------------------------------------------------------------------ */

/* The source's handle if its device memory is its own; bytes in place are shared instead. */
static uint64_t handle_to_copy(const struct upload *u)
{
	struct pf_value *source = u->value->source;

	if (!source || u->by_host || source->worker != u->value->worker)
		return 0;
	PF_LOCK_SCOPE(&source->lock);
	return source->instance == u->instance && source->alias_off == PF_NO_OFFSET
		       ? source->id
		       : 0;
}

static int send_copy(struct upload *u, uint64_t from, struct pf_err *err)
{
	struct pf_req_copy req = {
		.head.op = PF_OP_BUFFER_COPY,
		.source = from,
		.id = u->id,
		.device = u->value->device,
		.memory = u->value->memory,
	};
	int r = charge(u, err);

	if (r < 0)
		return r;
	u->call.done = made_done;
	u->call.reply_min = sizeof(struct pf_rep_array);
	return pf_instance_call(u->instance, &u->call, &req, sizeof(req), NULL, 0, err);
}

/* The bytes of what it is a copy of have come, or not. */
static void source_wake(struct pf_wait *waiter)
{
	struct upload *u = pf_container_of(waiter, struct upload, waiter);
	struct pf_err err = PF_ERR_INIT;
	int r = pf_value_fetched(u->value->source, &err);

	if (r > 0)
		r = send_host_bytes(u, &err);
	if (r < 0)
		upload_end(u, r, &err, NULL);
}

/* Bytes from its own host copy, or from its source's, when they are there. */
static int send_host(struct upload *u, struct pf_err *err)
{
	struct pf_value *v = u->value;
	bool own;

	pf_lock(&v->lock);
	own = pf_value_host_locked(v);
	pf_unlock(&v->lock);
	if (!own && v->source) {
		int r;

		u->waiter.wake = source_wake;
		r = pf_value_fetch(v->source, &u->waiter, err);
		if (r <= 0)
			return r;
	}
	return send_host_bytes(u, err);
}

static void upload_start(struct upload *u)
{
	struct pf_value *v = u->value;
	struct pf_err err = PF_ERR_INIT;
	uint64_t from;
	int r;

	u->instance = pf_worker_instance(v->worker, &err);
	if (!u->instance) {
		upload_end(u, err.code, &err, NULL);
		return;
	}
	u->id = pf_worker_id(v->worker);
	from = handle_to_copy(u);
	if (v->blank)
		r = send_blank(u, &err);
	else
		r = from ? send_copy(u, from, &err) : send_host(u, &err);
	if (r < 0)
		upload_end(u, r, &err, NULL);
}

int pf_value_transfer(struct pf_value *v, struct pf_wait *waiter, struct pf_err *err)
{
	struct upload *u;
	int r;

	pf_lock(&v->lock);
	pf_value_forget_dead_locked(v);
	r = pf_value_unusable_locked(v, err);
	if (r == 0 && v->instance && !v->placing)
		r = 1;
	if (r == 0)
		pf_wait_add(&v->waiters, waiter);
	if (r != 0 || v->placing) {
		pf_unlock(&v->lock);
		return r;
	}
	u = calloc(1, sizeof(*u));
	if (!u) {
		v->waiters = waiter->next;
		pf_unlock(&v->lock);
		return pf_err_set(err, -ENOMEM, "no memory for an upload");
	}
	v->placing = true;
	v->state = PF_VALUE_TRANSFERRING;
	pf_unlock(&v->lock);
	u->value = pf_value_ref(v);
	clock_gettime(CLOCK_MONOTONIC, &u->start);
	u->waiter.wake = upload_wake;
	if (!pf_worker_wait(v->worker, &u->waiter))
		upload_start(u);
	return 0;
}

int pf_value_placed(struct pf_value *v, struct pf_err *err)
{
	int r;

	PF_LOCK_SCOPE(&v->lock);
	r = pf_value_unusable_locked(v, err);
	if (r < 0)
		return r;
	if (v->instance)
		return 1;
	if (err)
		*err = v->err;
	return v->err.code ? v->err.code
			   : pf_err_set(err, -EIO, "the device's copy is gone again");
}
