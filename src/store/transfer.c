/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers of values to their devices, and back to host memory.
 *
 * A value with host bytes is uploaded, in place where the plugin can use them there.  One
 * that is a copy of another is copied on the device if the other's device memory is its
 * own; else it shares the other's host bytes, which may have to be fetched first.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum {
	TRIES = 2,      /* instances of the worker that an upload is tried on */
	MUCH = 4 << 20, /* bytes whose copying would delay others by milliseconds */
};

/*
 * What an upload does next:
 *
 *	INSTANCE -> RESERVE -> MAKE
 *	               |
 *	               +-> FETCH -> FETCHED -> THREAD -> SEND
 *
 * MAKE and SEND wait for the worker's answer, which is the end.  But if the plugin cannot copy on the
 * device, or the worker died, the upload begins again with INSTANCE.
 */
enum upload_stage {
	UPLOAD_INSTANCE, /* wait for the worker's instance */
	UPLOAD_RESERVE,  /* charge for the array; which way does it come? */
	UPLOAD_MAKE,  /* the device makes it: of another array there, or without bytes */
	UPLOAD_FETCH, /* wait for the host bytes of the value that it is a copy of */
	UPLOAD_FETCHED, /* did they come? */
	UPLOAD_THREAD, /* if bytes must be read, or many copied, go on on another thread */
	UPLOAD_SEND,   /* bring the bytes into the arena, and have the device take them */
};

struct transfer {
	struct pf_call call;
	struct pf_wait waiter; /* for the worker's next instance, or the source's bytes */
	struct pf_background copying;
	struct pf_value *value;       /* owned reference */
	struct pf_instance *instance; /* owned reference */
	uint64_t charged;             /* bytes, for the copy that it makes, */
	struct pf_account *account;   /* to this account; or NULL */
	bool reserved; /* the array's bytes, of the account's memory of the device */
	struct timespec start;
	/* Of an upload: */
	enum upload_stage stage;
	uint64_t id;     /* of the new buffer */
	uint64_t source; /* of the buffer on the device that it is a copy of; 0: none */
	unsigned tries;
	bool by_host; /* the plugin cannot copy on the device */
	bool later;   /* it has failed, but not for good: the next use tries again */
};

/* --- threads for large copies ------------------------------------------------------------ */

static pthread_cond_t no_background = PTHREAD_COND_INITIALIZER;
static unsigned n_background; /* protected by pf_store_lock */

static void count_background(int change)
{
	PF_LOCK_SCOPE(&pf_store_lock);
	n_background += (unsigned)change;
	if (!n_background)
		pthread_cond_broadcast(&no_background);
}

void pf_values_finish(void)
{
	PF_LOCK_SCOPE(&pf_store_lock);
	while (n_background)
		pthread_cond_wait(&no_background, &pf_store_lock);
}

static void *background_main(void *arg)
{
	struct pf_background *background = arg;

	background->run(background);
	count_background(-1);
	return NULL;
}

void pf_background_run(struct pf_background *background)
{
	count_background(1);
	if (pf_thread_start(NULL, background_main, background))
		background_main(background);
}

/* --- both ways --------------------------------------------------------------------------- */

/*
 * WAITER waits for V from now on: 0, and *RET is a new transfer, or NULL if there is one UNDER_WAY
 * already.  -ENOMEM.
 */
static int begin_locked(struct pf_value *v, bool under_way, struct pf_wait *waiter,
			struct transfer **ret, struct pf_err *err)
{
	struct transfer *t = under_way ? NULL : calloc(1, sizeof(*t));

	if (!t && !under_way)
		return pf_err_set(err, -ENOMEM, "no memory for a transfer");
	pf_wait_add(&v->waiters, waiter);
	*ret = t;
	if (t) {
		t->value = pf_value_ref(v);
		t->account = v->account;
		clock_gettime(CLOCK_MONOTONIC, &t->start);
	}
	return 0;
}

/* The value holds the outcome of T: free T and wake the waiters. */
static void end_unlock(struct transfer *t)
{
	struct pf_value *v = t->value, *source;
	struct pf_wait *waiters = NULL;

	if (t->reserved) /* for what the value is charged for now */
		pf_account_discharge(t->account, pf_value_device_memory(v), v->len);
	pf_account_move(t->account, v->account, PF_MEMORY, t->charged);
	pf_value_charged_locked(v, v->own, t->charged);
	pf_value_recharge_locked(v);
	pf_value_save_locked(v);
	source = pf_value_take_source_locked(v);
	/* Both ways at once, of bytes on disk: the last one to end wakes the waiters of both. */
	if (!v->fetching && v->state != PF_VALUE_TRANSFERRING)
		waiters = pf_steal(&v->waiters);
	pf_unlock(&v->lock);
	pf_value_release_source(source);
	pf_wake_all(waiters);
	pf_instance_unref(t->instance);
	pf_value_unref(v);
	free(t);
}

static struct pf_device_meter *meter_of(const struct pf_value *v)
{
	return pf_meter_device(pf_worker_meter(v->worker), v->device);
}

/* Why the copy that a transfer of V was to make is missing: V's error, else TEXT. */
static int missing_locked(const struct pf_value *v, const char *text, struct pf_err *err)
{
	int r = pf_value_unusable_locked(v, err);

	if (r < 0)
		return r;
	if (!v->err.code)
		return pf_err_set(err, -EIO, "%s", text);
	return pf_err_recall(&v->err, err);
}

/* Send REQ, LEN bytes; the answer has REPLY_MIN bytes at least. */
static int send(struct transfer *t, void *req, size_t len,
		void (*done)(struct pf_call *, int, const struct pf_err *, const void *,
			     size_t),
		uint32_t reply_min, struct pf_err *err)
{
	const struct pf_msg_head *head = req;

	t->call.done = done;
	t->call.reply_min = reply_min;
	t->call.transfers = head->op != PF_OP_RECEIVE; /* that waits for another member */
	t->call.bytes = t->value->len;
	return pf_instance_call(t->instance, &t->call, req, len, NULL, 0, err);
}

/* T took too long, so the worker was ended: *WHY says that, and what is to be done; it was a copy TO
 * or "from" the device. */
static void explain_overrun(const struct transfer *t, const char *to, const char *advice,
			    struct pf_err *why)
{
	const struct pf_value *v = t->value;

	pf_err_set(why, -EIO,
		   "plugin %s did not copy the array's %" PRIu64 " bytes %s %s:%" PRId64
		   " within %" PRIu64
		   " s (--transfer-timeout), and its process was ended; %s",
		   pf_worker_name(v->worker), v->len, to, pf_worker_name(v->worker),
		   pf_worker_description(v->worker)->devices[v->device].id,
		   pf_instance_transfer_s(t->instance, v->len), advice);
}

/* --- to host memory ---------------------------------------------------------------------- */

static void download_end(struct transfer *t, int code, const struct pf_err *err,
			 uint64_t off)
{
	struct pf_value *v = t->value;
	struct pf_device_meter *meter = meter_of(v);
	struct pf_err why = PF_ERR_INIT;

	if (meter)
		pf_meter_transfer(&meter->from, pf_outcome_of(code), v->len,
				  pf_seconds_since(CLOCK_MONOTONIC, &t->start));
	if (code < 0 && t->call.overran) {
		explain_overrun(t, "from", "if only the device had it, make it again",
				&why);
		err = &why;
	}
	pf_lock(&v->lock);
	v->fetching = false;
	if (code < 0) {
		pf_err_keep(&v->err, err);
	} else {
		/* v->fetching kept other threads from making a host copy. */
		pf_value_set_pool_locked(v, t->instance, off, true);
		pf_reclaimable_touch(v);
	}
	end_unlock(t);
}

static void download_done(struct pf_call *call, int code, const struct pf_err *err,
			  const void *reply, size_t len)
{
	struct transfer *t = pf_container_of(call, struct transfer, call);
	const struct pf_rep_block *rep = reply;
	struct pf_err wrong = PF_ERR_INIT;

	(void)len;
	if (code == 0 && (rep->len != t->value->len ||
			  !pf_instance_array(t->instance, rep->off, rep->len))) {
		code = pf_err_set(&wrong, -EPROTO,
				  "the worker sent %llu bytes, expected %llu",
				  (unsigned long long)rep->len,
				  (unsigned long long)t->value->len);
		err = &wrong;
	}
	download_end(t, code, err, code < 0 ? 0 : rep->off);
}

/* Read V's bytes from disk; a fetch and the transfer may both do it. */
static int read_backing(struct pf_value *v, struct pf_err *err)
{
	PF_CLEANUP(pf_backing_unrefp) struct pf_backing *backing = NULL;
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *bytes = NULL;
	int r;

	pf_lock(&v->lock);
	if (v->backing)
		backing = pf_backing_ref(v->backing);
	pf_unlock(&v->lock);
	if (!backing)
		return 0;
	r = pf_bytes_new(pf_worker_arena(v->worker), v->account, v->len, &bytes, err);
	if (r == 0)
		r = backing->read(backing, pf_bytes_at(bytes, 0), v->len, err);
	if (r < 0)
		return r;
	PF_LOCK_SCOPE(&v->lock);
	if (!v->bytes) {
		v->bytes = pf_steal(&bytes);
		v->bytes_off = 0;
		pf_value_save_locked(v);
	}
	pf_backing_unref(pf_steal(&v->backing));
	return 0;
}

static bool is_on_disk(struct pf_value *v)
{
	PF_LOCK_SCOPE(&v->lock);
	return v->backing && !pf_value_host_locked(v);
}

static void fetch_from_disk(struct pf_background *background)
{
	struct transfer *t = pf_container_of(background, struct transfer, copying);
	struct pf_err err = PF_ERR_INIT;
	int r = read_backing(t->value, &err);

	pf_lock(&t->value->lock);
	t->value->fetching = false;
	if (r < 0)
		pf_err_keep(&t->value->err, &err);
	end_unlock(t);
}

/* Whose host copy is V's: with a reference, or NULL for V's own. */
static struct pf_value *source_of(struct pf_value *v)
{
	PF_LOCK_SCOPE(&v->lock);
	return v->source && !pf_value_host_locked(v) ? pf_value_ref(v->source) : NULL;
}

int pf_value_fetch(struct pf_value *v, struct pf_wait *waiter, struct pf_err *err)
{
	PF_CLEANUP(pf_value_unrefp) struct pf_value *source = source_of(v);
	struct pf_req_id req = { .head.op = PF_OP_BUFFER_READ };
	uint64_t room = pf_pool_bytes(v->len);
	struct pf_err why = PF_ERR_INIT;
	struct transfer *t = NULL;
	bool on_disk = false;
	int r;

	if (source)
		return pf_value_fetch(source, waiter, err);
	pf_lock(&v->lock);
	pf_value_forget_dead_locked(v);
	/* Readers may still see bytes that the device has refused. */
	r = v->state != PF_VALUE_DONATED && pf_value_host_locked(v)
		    ? 1
		    : pf_value_unusable_locked(v, err);
	if (r == 0)
		r = begin_locked(v, v->fetching || v->state == PF_VALUE_TRANSFERRING,
				 waiter, &t, err);
	if (t) {
		v->fetching = true;
		on_disk = v->backing != NULL;
	}
	if (t && !on_disk) {
		t->instance = pf_instance_ref(v->instance);
		req.id = v->id;
	}
	pf_unlock(&v->lock);
	if (!t)
		return r;
	if (on_disk) {
		t->copying.run = fetch_from_disk;
		pf_background_run(&t->copying);
		return 0;
	}
	r = pf_memory_charge(pf_worker_arena(v->worker), t->account, room, &why);
	if (r == 0) {
		t->charged = room;
		r = send(t, &req, sizeof(req), download_done, sizeof(struct pf_rep_block),
			 &why);
	}
	if (r < 0)
		download_end(t, r, &why, 0);
	return 0;
}

int pf_value_fetched(struct pf_value *v, struct pf_err *err)
{
	PF_CLEANUP(pf_value_unrefp) struct pf_value *source = source_of(v);

	if (source)
		return pf_value_fetched(source, err);
	PF_LOCK_SCOPE(&v->lock);
	if (v->state != PF_VALUE_DONATED && pf_value_host_locked(v))
		return 1;
	return missing_locked(v, "its bytes did not come", err);
}

/* --- to the device ----------------------------------------------------------------------- */

static void upload_step(struct transfer *t);

static void upload_wake(struct pf_wait *waiter)
{
	upload_step(pf_container_of(waiter, struct transfer, waiter));
}

static void upload_on_thread(struct pf_background *background)
{
	upload_step(pf_container_of(background, struct transfer, copying));
}

/* The worker died, perhaps of another request: is its next instance to be tried? */
static bool is_tried_again(struct transfer *t, int code, const struct pf_err *err)
{
	return code == -EIO && err->pjrt_code < 0 && !t->call.overran && t->instance &&
	       ++t->tries < TRIES;
}

/* The device has T's value as MADE says (NULL: the upload failed, as ERR says), and reads
 * it from ALIAS_OFF of the arena or from memory of its own. */
static void upload_end(struct transfer *t, int code, const struct pf_err *err,
		       const struct pf_out *made, uint64_t alias_off)
{
	struct pf_value *v = t->value;
	struct pf_device_meter *meter = meter_of(v);
	struct pf_err why = PF_ERR_INIT;

	if (code < 0 && is_tried_again(t, code, err)) {
		t->stage = UPLOAD_INSTANCE;
		upload_step(t);
		return;
	}
	if (meter)
		pf_meter_transfer(&meter->to, pf_outcome_of(code), v->len,
				  pf_seconds_since(CLOCK_MONOTONIC, &t->start));
	if (code < 0 && t->call.overran) {
		explain_overrun(
			t, "to",
			"it is sent again when it is used, unless only a device had it",
			&why);
		t->later = true;
	} else if (code < 0) {
		why = *err;
	}
	pf_lock(&v->lock);
	if (code < 0) {
		pf_stage_blame(PF_STAGE_UPLOADING, &why);
		pf_err_keep(&v->err, &why);
		v->state = t->later ? PF_VALUE_READY : PF_VALUE_ERROR;
	} else {
		pf_value_drop_device_locked(v);
		pf_value_set_device_locked(v, t->instance, t->id);
		v->blank = false;
		v->alias_off = alias_off;
		v->on_device_bytes = made->on_device_bytes;
		v->state = PF_VALUE_READY;
		pf_err_keep(&v->err, NULL);
		if (made->where == PF_WHERE_POOL && v->len && !pf_value_host_locked(v))
			pf_value_set_pool_locked(v, t->instance, made->off, false);
		v->own = alias_off == PF_NO_OFFSET
				 ? pf_value_space(pf_value_place(v), v->len)
				 : 0;
	}
	end_unlock(t);
}

/* Need V's bytes, which are in the arena, not be copied for a device?  The plugin copies those that are not
 * aligned, or that it packs; the worker those that are in another order. */
static bool is_usable_in_place(const struct pf_value *v)
{
	return pf_bytes_offset(v->bytes, v->bytes_off) % PF_ALIGNMENT == 0 &&
	       pf_dtype_bits(v->dtype) >= 8 && pf_value_is_row_major(v);
}

/* Would a plugin that uses the host's bytes in place use V's? */
static bool suits_device(const struct pf_value *v)
{
	return v->len && v->memory == PF_DEFAULT_MEMORY && is_usable_in_place(v);
}

/* The device has the array that was sent. */
static void sent_done(struct pf_call *call, int code, const struct pf_err *err,
		      const void *reply, size_t len)
{
	struct transfer *t = pf_container_of(call, struct transfer, call);
	const struct pf_rep_buffer *rep = reply;
	struct pf_out made = { .where = PF_WHERE_DEVICE };

	(void)len;
	if (code == 0)
		made.on_device_bytes = rep->on_device_bytes;
	if (suits_device(t->value))
		pf_instance_note_in_place(t->instance, t->value->device, t->value->dtype,
					  code == 0 && rep->alias_off != PF_NO_OFFSET);
	upload_end(t, code, err, &made, code == 0 ? rep->alias_off : PF_NO_OFFSET);
}

/* The device made the array: of another one there, or without bytes. */
static void made_done(struct pf_call *call, int code, const struct pf_err *err,
		      const void *reply, size_t len)
{
	struct transfer *t = pf_container_of(call, struct transfer, call);
	const struct pf_rep_array *rep = reply;
	struct pf_err wrong = PF_ERR_INIT;
	struct pf_value *v = t->value;

	(void)len;
	if (code == -EOPNOTSUPP && !t->by_host && v->source) {
		t->by_host = true;
		t->stage = UPLOAD_INSTANCE;
		upload_step(t);
		return;
	}
	if (code == 0 &&
	    (rep->out.len != v->len || rep->out.dtype != (uint32_t)v->dtype ||
	     (rep->out.where == PF_WHERE_POOL &&
	      !pf_instance_array(t->instance, rep->out.off, v->len)))) {
		pf_instance_free_id(t->instance, PF_OP_BUFFER_FREE, t->id);
		code = pf_err_set(
			&wrong, -EPROTO,
			"the worker made %llu bytes of type %u, expected %llu of %s",
			(unsigned long long)rep->out.len, rep->out.dtype,
			(unsigned long long)v->len, pf_dtype_name(v->dtype));
		err = &wrong;
	}
	upload_end(t, code, err, code < 0 ? NULL : &rep->out, PF_NO_OFFSET);
}

/* --- the stages of an upload ------------------------------------------------------------- */

/*
 * Each function is what one stage does.  1: t->stage is the next one.  0: T was sent, or waits for
 * something, and another thread may have continued and freed it by now.  -errno: the upload failed.
 * So a function sets the stage that follows a wait before another thread can end that.
 */

/* Take the worker's instance, in which the array has a number of its own. */
static int take_instance(struct transfer *t, struct pf_err *err)
{
	struct pf_value *v = t->value;
	struct pf_instance *instance;
	int r;

	pf_instance_unref(pf_steal(&t->instance));
	r = pf_worker_await(v->worker, &t->waiter, &instance, err);
	if (r == 0)
		return 0;
	t->instance = instance;
	t->later = r < 0; /* it can be transferred later */
	t->id = v->from ? v->from->id : pf_worker_id(v->worker);
	t->stage = UPLOAD_RESERVE;
	return r;
}

/* The source's handle, or 0 if the device uses its bytes in place: those are shared. */
static uint64_t handle_to_copy(const struct transfer *t)
{
	struct pf_value *source = t->value->source;

	if (!source || t->by_host || source->worker != t->value->worker)
		return 0;
	PF_LOCK_SCOPE(&source->lock);
	/* A plugin copies between two places; some (API 0.106) make row-major copies. */
	if ((source->device == t->value->device && source->memory == t->value->memory) ||
	    !pf_value_is_row_major(source) || !pf_value_is_row_major(t->value))
		return 0;
	return source->instance == t->instance && source->alias_off == PF_NO_OFFSET
		       ? source->id
		       : 0;
}

/* Reserve the device's memory of the account for the array. */
static int reserve(struct transfer *t, struct pf_err *err)
{
	struct pf_value *v = t->value;
	int r = t->reserved ? 0
			    : pf_account_charge(t->account, pf_value_device_memory(v),
						v->len, err);

	t->later = r < 0;
	t->reserved = r == 0;
	t->source = handle_to_copy(t);
	t->stage = t->source || v->blank ? UPLOAD_MAKE : UPLOAD_FETCH;
	return r < 0 ? r : 1;
}

/* Charge the device's copy before it is made. */
static int charge(struct transfer *t, struct pf_err *err)
{
	struct pf_value *v = t->value;
	uint64_t room = pf_value_space(pf_value_place(v), v->len);
	int r;

	if (t->charged || !room)
		return 0;
	r = pf_memory_charge(pf_worker_arena(v->worker), t->account, room, err);
	t->later = r < 0;
	t->charged = r < 0 ? 0 : room;
	return r;
}

/* The request OP for an array as T's value, of the bytes at OFF of the arena. */
static struct pf_req_buffer request_of(const struct transfer *t, enum pf_op op,
				       uint64_t off)
{
	const struct pf_value *v = t->value;
	struct pf_req_buffer req = { .head.op = op,
				     .off = off,
				     .id = t->id,
				     .len = v->len,
				     .dtype = v->dtype,
				     .device = v->device,
				     .memory = v->memory,
				     .rank = v->shape.rank };
	const struct pf_layout layout = pf_value_layout(v);

	memcpy(req.dims, v->shape.dims, v->shape.rank * sizeof(req.dims[0]));
	memcpy(req.minor_to_major, &layout, sizeof(req.minor_to_major));
	return req;
}

/* Have the device make the array: of another one there, of what another process sends, or with
 * whatever lies in its memory. */
static int send_make(struct transfer *t, struct pf_err *err)
{
	const struct pf_value *v = t->value;
	union {
		struct pf_req_copy copy;
		struct pf_req_buffer blank;
		struct pf_req_receive receive;
	} req;
	size_t len;
	int r = charge(t, err);

	if (r < 0)
		return r;
	if (t->source) {
		req.copy = (struct pf_req_copy){ .head.op = PF_OP_BUFFER_COPY,
						 .source = t->source,
						 .id = t->id,
						 .device = v->device,
						 .memory = v->memory };
		len = sizeof(req.copy);
	} else if (v->from) {
		req.receive = (struct pf_req_receive){ request_of(t, PF_OP_RECEIVE, 0),
						       v->from->side };
		len = sizeof(req.receive);
	} else {
		req.blank = request_of(t, PF_OP_BUFFER_MAKE, 0);
		len = sizeof(req.blank);
	}
	return send(t, &req, len, made_done, sizeof(struct pf_rep_array), err);
}

/* Fetch the bytes of what it is a copy of, unless it has some itself. */
static int fetch(struct transfer *t, struct pf_err *err)
{
	PF_CLEANUP(pf_value_unrefp) struct pf_value *source = source_of(t->value);

	t->stage = source ? UPLOAD_FETCHED : UPLOAD_THREAD;
	return source ? pf_value_fetch(source, &t->waiter, err) : 1;
}

static int check_fetched(struct transfer *t, struct pf_err *err)
{
	t->stage = UPLOAD_THREAD;
	return pf_value_fetched(t->value->source, err);
}

/* V's bytes in ARENA from *OFF on, or those of what it is a copy of, for the same account, with a
 * reference; NULL: they are elsewhere.  While V is being transferred no thread drops them. */
static struct pf_bytes *bytes_in_arena(struct pf_value *v, const struct pf_arena *arena,
				       uint64_t *off)
{
	struct pf_bytes *bytes = NULL;
	struct pf_value *source;

	pf_lock(&v->lock);
	source = v->source;
	*off = v->bytes_off;
	if (v->bytes && v->bytes->arena == arena)
		bytes = pf_bytes_ref(v->bytes);
	pf_unlock(&v->lock);
	return bytes || !source || source->account != v->account
		       ? bytes
		       : bytes_in_arena(source, arena, off);
}

/* This thread may be the one that takes the worker's answers or the kernel's requests, so
 * another one reads bytes from disk, and makes large copies. */
static int choose_thread(struct transfer *t)
{
	struct pf_value *v = t->value;
	uint64_t off;
	PF_CLEANUP(pf_bytes_unrefp)
	struct pf_bytes *there = bytes_in_arena(v, pf_worker_arena(v->worker), &off);

	t->stage = UPLOAD_SEND;
	if (there || (v->len < MUCH && !is_on_disk(v)))
		return 1;
	t->copying.run = upload_on_thread;
	pf_background_run(&t->copying);
	return 0;
}

/* Copy bytes that are elsewhere into the arena, from which the device reads. */
static int into_arena(struct pf_value *v, struct pf_err *err)
{
	struct pf_arena *arena = pf_worker_arena(v->worker);
	uint64_t off = 0;
	struct pf_bytes *bytes = bytes_in_arena(v, arena, &off);
	bool copied = !bytes;

	if (copied) {
		const void *src = pf_value_host(v);
		int r;

		if (!src)
			return pf_err_set(err, -EIO, "its bytes are gone");
		r = pf_bytes_new(arena, v->account, v->len, &bytes, err);
		if (r < 0)
			return r;
		memcpy(pf_bytes_at(bytes, 0), src, v->len);
		off = 0;
	}
	PF_LOCK_SCOPE(&v->lock);
	if (v->bytes) {
		pf_bytes_unref(bytes);
		return 0;
	}
	v->bytes = bytes;
	v->bytes_off = off;
	v->bytes_again = copied; /* a user's bytes are never dropped */
	pf_value_save_locked(v);
	return 0;
}

static int send_bytes(struct transfer *t, struct pf_err *err)
{
	struct pf_value *v = t->value;
	int r = is_on_disk(v) ? read_backing(v, err) : 0;
	struct pf_req_buffer req;

	/* Another use reads them again, once the disk or the memory limit allows that. */
	t->later = r < 0;
	if (r == 0)
		r = into_arena(v, err);
	if (r < 0)
		return r;
	if (!is_usable_in_place(v))
		r = charge(t, err);
	if (r < 0)
		return r;
	req = request_of(t, PF_OP_BUFFER_CREATE, pf_bytes_offset(v->bytes, v->bytes_off));
	return send(t, &req, sizeof(req), sent_done, sizeof(struct pf_rep_buffer), err);
}

/* Continue T from its stage until it waits, was sent, or has failed. */
static void upload_step(struct transfer *t)
{
	struct pf_err err = PF_ERR_INIT;
	int r = 1;

	while (r > 0)
		switch (t->stage) {
		case UPLOAD_INSTANCE:
			r = take_instance(t, &err);
			break;
		case UPLOAD_RESERVE:
			r = reserve(t, &err);
			break;
		case UPLOAD_MAKE:
			r = send_make(t, &err);
			break;
		case UPLOAD_FETCH:
			r = fetch(t, &err);
			break;
		case UPLOAD_FETCHED:
			r = check_fetched(t, &err);
			break;
		case UPLOAD_THREAD:
			r = choose_thread(t);
			break;
		case UPLOAD_SEND:
			r = send_bytes(t, &err);
			break;
		}
	if (r < 0)
		upload_end(t, r, &err, NULL, PF_NO_OFFSET);
}

static int on_device_locked(struct pf_value *v, struct pf_err *err)
{
	int r;

	pf_value_forget_dead_locked(v);
	r = pf_value_unusable_locked(v, err);
	if (r == 0 && v->instance && v->state != PF_VALUE_TRANSFERRING)
		return 1;
	return r;
}

int pf_value_on_device(struct pf_value *v, struct pf_err *err)
{
	PF_LOCK_SCOPE(&v->lock);
	return on_device_locked(v, err);
}

int pf_value_transfer(struct pf_value *v, struct pf_wait *waiter, struct pf_err *err)
{
	struct transfer *t = NULL;
	int r;

	pf_lock(&v->lock);
	r = on_device_locked(v, err);
	if (r == 0)
		r = begin_locked(v, v->state == PF_VALUE_TRANSFERRING, waiter, &t, err);
	if (t)
		v->state = PF_VALUE_TRANSFERRING;
	pf_unlock(&v->lock);
	if (!t)
		return r;
	t->waiter.wake = upload_wake;
	t->stage = UPLOAD_INSTANCE;
	upload_step(t);
	return 0;
}

bool pf_value_transfer_is_slow(struct pf_value *v)
{
	PF_LOCK_SCOPE(&v->lock);
	return v->source && v->source->worker != v->worker;
}

/* Are V's bytes where its device is to use them, which nothing is to refuse?  The plugin has refused none of
 * this type of late, or it would be asked now. */
static bool is_in_place_locked(const struct pf_value *v)
{
	PF_CLEANUP(pf_instance_unrefp) struct pf_instance *instance = NULL;

	if (v->source || !v->bytes || v->bytes->arena != pf_worker_arena(v->worker) ||
	    !suits_device(v) ||
	    pf_account_is_limited(v->account, pf_value_device_memory(v)))
		return false;
	instance = pf_worker_instance(v->worker, NULL);
	return instance && pf_instance_serves(instance) &&
	       pf_instance_uses_in_place(instance, v->device, v->dtype);
}

bool pf_value_defer(struct pf_value *v)
{
	PF_LOCK_SCOPE(&v->lock);
	if (v->state != PF_VALUE_READY)
		return false;
	if ((v->bytes || v->backing) && pf_worker_is_idle(v->worker))
		return true;
	if (v->instance || !is_in_place_locked(v))
		return false;
	v->alias_off = pf_bytes_offset(v->bytes, v->bytes_off);
	v->on_device_bytes = v->len;
	return true;
}

int pf_value_placed(struct pf_value *v, struct pf_err *err)
{
	PF_LOCK_SCOPE(&v->lock);
	if (v->instance && pf_value_unusable_locked(v, NULL) == 0)
		return 1;
	return missing_locked(v, "the device's copy is gone again", err);
}

/* --- transfers that take long ------------------------------------------------------------- */

static void note_slow(void *arg, struct pf_call *call, unsigned seconds)
{
	struct pf_slow_transfer *ret = arg;
	const struct transfer *t = pf_container_of(call, struct transfer, call);

	ret->value = pf_value_ref(t->value);
	ret->to_device = call->done != download_done;
	ret->seconds = seconds;
	ret->limit_s = pf_instance_transfer_s(t->instance, call->bytes);
}

bool pf_value_slowest(struct pf_worker *worker, struct pf_slow_transfer *ret)
{
	PF_CLEANUP(pf_instance_unrefp)
	struct pf_instance *instance = pf_worker_instance(worker, NULL);

	*ret = (struct pf_slow_transfer){ 0 };
	if (instance)
		pf_instance_slowest_transfer(instance, note_slow, ret);
	return ret->value;
}

bool pf_value_comes_from(struct pf_value *v, const struct pf_value *other)
{
	PF_CLEANUP(pf_value_unrefp) struct pf_value *source = NULL;

	if (v == other)
		return true;
	pf_lock(&v->lock);
	if (v->source)
		source = pf_value_ref(v->source);
	pf_unlock(&v->lock);
	return source && pf_value_comes_from(source, other);
}
