#include "pjrtfs/store/value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct pf_value *new_value(enum pf_dtype dtype, const struct pf_shape *shape,
				  uint64_t len, struct pf_worker *worker, unsigned device,
				  unsigned memory)
{
	struct pf_value *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	atomic_init(&v->refs, 1);
	if (pthread_mutex_init(&v->lock, NULL))
		abort();
	v->dtype = dtype;
	v->shape = *shape;
	v->len = len;
	v->worker = worker;
	v->device = device;
	v->memory = memory;
	v->alias_off = PF_NO_OFFSET;
	return v;
}

struct pf_value *pf_value_of_bytes(enum pf_dtype dtype, const struct pf_shape *shape,
				   uint64_t len, struct pf_bytes *bytes, uint64_t off,
				   struct pf_worker *worker, unsigned device,
				   unsigned memory)
{
	struct pf_value *v = new_value(dtype, shape, len, worker, device, memory);

	if (!v)
		return NULL;
	v->bytes = pf_bytes_ref(bytes);
	v->bytes_off = off;
	return v;
}

struct pf_value *pf_value_of_output(enum pf_dtype dtype, const struct pf_shape *shape,
				    const struct pf_out *out, const void *message,
				    struct pf_worker *worker, unsigned device,
				    struct pf_life *life, uint64_t id)
{
	struct pf_value *v =
		new_value(dtype, shape, out->len, worker, device, UINT32_MAX);

	if (!v)
		return NULL;
	if (out->where == PF_WHERE_INLINE) {
		v->small = malloc(out->len ? out->len : 1);
		if (!v->small) {
			pthread_mutex_destroy(&v->lock);
			free(v);
			return NULL;
		}
		memcpy(v->small, (const char *)message + out->off, out->len);
	} else if (out->where == PF_WHERE_POOL) {
		v->pool_life = pf_life_ref(life);
		v->pool_off = out->off;
	}
	v->life = pf_life_ref(life);
	v->id = id;
	v->on_device_bytes = out->on_device_bytes;
	return v;
}

struct pf_value *pf_value_ref(struct pf_value *value)
{
	atomic_fetch_add(&value->refs, 1);
	return value;
}

static void drop_device(struct pf_value *v)
{
	if (!v->life)
		return;
	pf_life_free_id(v->life, PF_OP_BUFFER_FREE, v->id);
	pf_life_unref(pf_steal(&v->life));
	v->id = 0;
}

static void drop_host(struct pf_value *v)
{
	if (v->pool_life && v->pool_block)
		pf_life_free_block(v->pool_life, v->pool_off);
	pf_life_unref(pf_steal(&v->pool_life));
	v->pool_block = false;
	pf_bytes_unref(pf_steal(&v->bytes));
	free(pf_steal(&v->small));
}

void pf_value_unref(struct pf_value *v)
{
	if (!v || atomic_fetch_sub(&v->refs, 1) != 1)
		return;
	drop_host(v);
	drop_device(v);
	pthread_mutex_destroy(&v->lock);
	free(v);
}

static const void *host_locked(const struct pf_value *v)
{
	if (v->bytes)
		return pf_bytes_at(v->bytes, v->bytes_off);
	if (v->small)
		return v->small;
	if (v->pool_life)
		return pf_life_pool(v->pool_life, v->pool_off, v->len);
	return NULL;
}

const void *pf_value_host(struct pf_value *v)
{
	PF_LOCK_SCOPE(&v->lock);
	return host_locked(v);
}

/* Why a value cannot be used at all; 0 if it can. */
static int unusable_locked(const struct pf_value *v, struct pf_err *err)
{
	switch (v->state) {
	case PF_VALUE_DONATED:
		return pf_err_set(err, -EINVAL,
				  "its value was donated to an execution and is "
				  "gone");
	case PF_VALUE_LOST:
		return pf_err_set(err, -EIO,
				  "its only copy was lost when the worker of plugin "
				  "%s died",
				  pf_worker_name(v->worker));
	case PF_VALUE_ERROR:
		if (err)
			*err = v->err;
		return v->err.code;
	default:
		return 0;
	}
}

/* A copy that died with its worker is none. */
static void forget_dead_locked(struct pf_value *v)
{
	if (v->life && !pf_life_alive(v->life))
		drop_device(v);
	if (!v->life && !host_locked(v) && v->state == PF_VALUE_READY)
		v->state = PF_VALUE_LOST;
}

/* --- to the device ------------------------------------------------------------------- */

struct upload {
	struct pf_call call;
	struct pf_waiter waiter; /* for the worker's next life */
	struct pf_value *value;  /* owned reference */
	struct pf_life *life;    /* owned reference */
	uint64_t id;
	unsigned tries;
};

enum { UPLOAD_TRIES = 2 };

static void upload_start(struct upload *u);

/* The worker died, perhaps of something else: once more in its next life. */
static bool upload_again(struct upload *u, int code, const struct pf_err *err)
{
	struct pf_worker *w = u->value->worker;

	if (code != -EIO || err->pjrt_code >= 0 ||
	    (u->life && ++u->tries >= UPLOAD_TRIES))
		return false;
	pf_life_unref(pf_steal(&u->life));
	if (pf_worker_wait(w, &u->waiter))
		return true;
	if (pf_worker_state(w) == PF_WORKER_FAILED)
		return false;
	upload_start(u);
	return true;
}

static void upload_end(struct upload *u, int code, const struct pf_err *err,
		       const struct pf_rep_buffer *rep)
{
	struct pf_value *v = u->value;
	struct pf_waiter *waiters;

	if (code < 0 && upload_again(u, code, err))
		return;
	pf_lock(&v->lock);
	v->placing = false;
	if (code < 0) {
		v->err = *err;
		v->state = PF_VALUE_ERROR;
	} else {
		drop_device(v);
		v->life = pf_life_ref(u->life);
		v->id = u->id;
		v->alias_off = rep->alias_off;
		v->on_device_bytes = rep->on_device_bytes;
		v->state = PF_VALUE_READY;
		v->err = (struct pf_err)PF_ERR_INIT;
	}
	waiters = pf_wait_take(&v->waiters);
	pf_unlock(&v->lock);
	pf_wake_all(waiters);
	pf_life_unref(u->life);
	pf_value_unref(v);
	free(u);
}

static void upload_done(struct pf_call *call, int code, const struct pf_err *err,
			const void *reply, size_t len)
{
	(void)len;
	upload_end(pf_container_of(call, struct upload, call), code, err, reply);
}

/* The device reads from the arena: bring bytes that are elsewhere there. */
static int into_arena(struct pf_value *v, struct pf_err *err)
{
	struct pf_arena *arena;
	struct pf_bytes *bytes;
	const void *src;
	int r;

	pf_lock(&v->lock);
	src = host_locked(v);
	r = v->bytes ? 1 : 0;
	pf_unlock(&v->lock);
	if (r)
		return 0;
	arena = pf_worker_arena(v->worker);
	r = pf_bytes_new(arena, v->len, &bytes, err);
	if (r < 0)
		return r;
	/* placing keeps everyone else from dropping src. */
	memcpy(pf_bytes_at(bytes, 0), src, v->len);
	pf_lock(&v->lock);
	v->bytes = bytes;
	v->bytes_off = 0;
	pf_unlock(&v->lock);
	return 0;
}

static void upload_start(struct upload *u)
{
	struct pf_value *v = u->value;
	struct pf_req_buffer req = { .head.op = PF_OP_BUFFER_CREATE };
	struct pf_err err = PF_ERR_INIT;
	int r;

	u->life = pf_worker_life(v->worker, &err);
	if (!u->life) {
		upload_end(u, err.code, &err, NULL);
		return;
	}
	r = into_arena(v, &err);
	if (r == 0) {
		u->id = req.id = pf_worker_id(v->worker);
		req.off = v->bytes->extent.off + v->bytes_off;
		req.len = v->len;
		req.dtype = v->dtype;
		req.device = v->device;
		req.memory = v->memory;
		req.rank = v->shape.rank;
		memcpy(req.dims, v->shape.dims, v->shape.rank * sizeof(req.dims[0]));
		u->call.done = upload_done;
		u->call.reply_min = sizeof(struct pf_rep_buffer);
		r = pf_life_call(u->life, &u->call, &req, sizeof(req), NULL, 0, &err);
	}
	if (r < 0)
		upload_end(u, r, &err, NULL);
}

static void upload_wake(struct pf_waiter *waiter)
{
	upload_start(pf_container_of(waiter, struct upload, waiter));
}

int pf_value_place(struct pf_value *v, struct pf_waiter *waiter, struct pf_err *err)
{
	struct upload *u;
	int r;

	pf_lock(&v->lock);
	forget_dead_locked(v);
	r = unusable_locked(v, err);
	if (r == 0 && v->life && !v->placing)
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
	u->waiter.wake = upload_wake;
	if (!pf_worker_wait(v->worker, &u->waiter))
		upload_start(u);
	return 0;
}

int pf_value_placed(struct pf_value *v, struct pf_err *err)
{
	int r;

	PF_LOCK_SCOPE(&v->lock);
	r = unusable_locked(v, err);
	if (r < 0)
		return r;
	if (v->life)
		return 1;
	if (err)
		*err = v->err;
	return v->err.code ? v->err.code
			   : pf_err_set(err, -EIO, "the device's copy is gone again");
}

/* --- from the device ----------------------------------------------------------------- */

struct download {
	struct pf_call call;
	struct pf_value *value; /* owned reference */
	struct pf_life *life;   /* owned reference */
};

static void download_end(struct download *d, int code, const struct pf_err *err,
			 const struct pf_rep_block *rep)
{
	struct pf_value *v = d->value;
	struct pf_err wrong = PF_ERR_INIT;
	struct pf_waiter *waiters;

	if (code == 0 &&
	    (rep->len != v->len || !pf_life_pool(d->life, rep->off, rep->len))) {
		code = pf_err_set(&wrong, -EPROTO,
				  "the worker sent %llu bytes, expected %llu",
				  (unsigned long long)rep->len,
				  (unsigned long long)v->len);
		err = &wrong;
	}
	pf_lock(&v->lock);
	v->fetching = false;
	if (code < 0) {
		v->err = *err;
	} else if (!v->pool_life) {
		v->pool_life = pf_life_ref(d->life);
		v->pool_off = rep->off;
		v->pool_block = true;
	}
	waiters = pf_wait_take(&v->waiters);
	pf_unlock(&v->lock);
	pf_wake_all(waiters);
	pf_life_unref(d->life);
	pf_value_unref(v);
	free(d);
}

static void download_done(struct pf_call *call, int code, const struct pf_err *err,
			  const void *reply, size_t len)
{
	(void)len;
	download_end(pf_container_of(call, struct download, call), code, err, reply);
}

int pf_value_fetch(struct pf_value *v, struct pf_waiter *waiter, struct pf_err *err)
{
	struct pf_req_id req = { .head.op = PF_OP_BUFFER_READ };
	struct pf_err why = PF_ERR_INIT;
	struct download *d;
	int r;

	pf_lock(&v->lock);
	forget_dead_locked(v);
	/* Readers may still see bytes that the device has refused. */
	r = v->state != PF_VALUE_DONATED && host_locked(v) ? 1 : unusable_locked(v, err);
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
	v->fetching = true;
	d->value = pf_value_ref(v);
	d->life = pf_life_ref(v->life);
	d->call.done = download_done;
	d->call.reply_min = sizeof(struct pf_rep_block);
	req.id = v->id;
	pf_unlock(&v->lock);
	r = pf_life_call(d->life, &d->call, &req, sizeof(req), NULL, 0, &why);
	if (r < 0)
		download_end(d, r, &why, NULL);
	return 0;
}

int pf_value_fetched(struct pf_value *v, struct pf_err *err)
{
	int r;

	PF_LOCK_SCOPE(&v->lock);
	if (v->state != PF_VALUE_DONATED && host_locked(v))
		return 1;
	r = unusable_locked(v, err);
	if (r < 0)
		return r;
	if (err)
		*err = v->err;
	return v->err.code ? v->err.code
			   : pf_err_set(err, -EIO, "its bytes did not come");
}

/* --- the rest ------------------------------------------------------------------------ */

uint64_t pf_value_id_on(struct pf_value *v, struct pf_life *life)
{
	PF_LOCK_SCOPE(&v->lock);
	return v->life == life && v->state == PF_VALUE_READY ? v->id : 0;
}

void pf_value_pin(struct pf_value *v)
{
	PF_LOCK_SCOPE(&v->lock);
	v->pins++;
}

static void consume_locked(struct pf_value *v)
{
	if (v->pins || !v->consumed)
		return;
	drop_device(v);
	drop_host(v);
}

void pf_value_unpin(struct pf_value *v)
{
	PF_LOCK_SCOPE(&v->lock);
	v->pins--;
	consume_locked(v);
}

bool pf_value_donate(struct pf_value *v)
{
	PF_LOCK_SCOPE(&v->lock);
	v->state = PF_VALUE_DONATED;
	return !v->pins;
}

void pf_value_donated(struct pf_value *v, bool consumed)
{
	PF_LOCK_SCOPE(&v->lock);
	v->consumed = consumed;
	if (consumed)
		consume_locked(v);
	else
		v->state = PF_VALUE_READY;
}

enum pf_value_state pf_value_state(struct pf_value *v, struct pf_err *ret_why)
{
	PF_LOCK_SCOPE(&v->lock);
	forget_dead_locked(v);
	if (ret_why)
		*ret_why = v->err;
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
