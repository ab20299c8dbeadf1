/* SPDX-License-Identifier: Apache-2.0 */
/* Bringing values from their devices to host memory. */
#include <errno.h>
#include <stdlib.h>

#include "pjrtfs/base/clock.h"
#include "value_internal.h"

struct download {
	struct pf_call call;
	struct pf_value *value; /* owned reference */
	struct pf_life *life;   /* owned reference */
	uint64_t charged;       /* for the block */
	struct timespec start;
};

static void download_end(struct download *d, int code, const struct pf_err *err,
			 const struct pf_rep_block *rep)
{
	struct pf_value *v = d->value;
	struct pf_err wrong = PF_ERR_INIT;
	struct pf_device_meter *device =
		pf_meter_device(pf_worker_meter(v->worker), v->device);
	struct pf_waiter *waiters;

	if (code == 0 &&
	    (rep->len != v->len || !pf_life_pool(d->life, rep->off, rep->len))) {
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
		pf_value_set_pool_locked(v, d->life, rep->off, true);
		pf_spare_touch(v);
	}
	pf_value_charged_locked(v, v->own, d->charged);
	pf_value_settle_charge_locked(v);
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

/* Whose host copy is V's: with a reference, or NULL for V's own. */
static struct pf_value *source_of(struct pf_value *v)
{
	PF_LOCK_SCOPE(&v->lock);
	return v->source && !pf_value_host_locked(v) ? pf_value_ref(v->source) : NULL;
}

int pf_value_fetch(struct pf_value *v, struct pf_waiter *waiter, struct pf_err *err)
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
	d->life = pf_life_ref(v->life);
	d->call.done = download_done;
	d->call.reply_min = sizeof(struct pf_rep_block);
	req.id = v->id;
	pf_unlock(&v->lock);
	r = pf_arena_charge(pf_worker_arena(v->worker), pf_pool_bytes(v->len), &why);
	if (r == 0) {
		d->charged = pf_pool_bytes(v->len);
		r = pf_life_call(d->life, &d->call, &req, sizeof(req), NULL, 0, &why);
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
