/* SPDX-License-Identifier: Apache-2.0 */
/* Execute a program, once or repeatedly with its own results as arguments. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"

enum {
	INLINE_ALIGN = 64,
	INLINE_TOTAL = 64 << 10, /* bytes of one reply that results may take */
	FEW = 4096,              /* bytes of lists that need no malloc */
	SERIES_NS = 10000000, /* no run begins later: other users wait for the device */
	SHORT_NS = 1000000,   /* a shorter run is hidden behind the start of the next */
};

/* One run of the program.  Run N of an execution is runs[N % PF_WIRE_GENERATIONS]. */
struct run {
	struct PJRT_Buffer **results; /* owned once the run has begun, or NULL pointers */
	struct PJRT_Event **events;   /* one a device */
	uint64_t begun_ns;
};

struct execution {
	struct pf_server *server;
	const struct pf_req_execute *q;
	uint32_t repeat;
	size_t n_args, n_outs; /* on all devices */
	/* The message's lists. */
	const uint64_t *argument_ids, *result_ids;
	const char *lent; /* the next one that is described */
	const uint32_t *carry;
	const uint8_t *donate;
	const uint8_t *layouts; /* NULL: all results are row-major */

	const struct pj_executable *program; /* borrowed */
	struct pf_caller caller;
	struct PJRT_ExecuteContext *context; /* owned; with caller, or NULL */
	struct pf_object **objects;          /* references: n_objects arguments */
	size_t n_objects;
	struct PJRT_Buffer **arguments; /* borrowed: of the next run */
	int64_t *kept;                  /* indexes of those that it must not consume */
	size_t n_kept;
	struct run runs[PF_WIRE_GENERATIONS];
	uint32_t tried, begun, good; /* runs */
	uint64_t first_ns, ready_ns; /* when the first began, and the last ended */
	uint64_t run_ns;             /* that the last took */
	struct pf_object *
		*results; /* n_results references: what the last good run made */
	size_t n_results;
	void *many; /* owned: the room of all lists, if FEW is too little */
	_Alignas(8) char few[FEW];
};

/* --- the request -------------------------------------------------------------------- */

/*
 * How many bytes the LEFT bytes at AT give to struct pf_arg and its extents, for each argument
 * without a buffer.  -EPROTO.
 */
static ssize_t lent_bytes(const struct execution *x, const char *at, size_t left,
			  struct pf_err *err)
{
	size_t used = 0;

	for (size_t i = 0; i < x->n_args; i++) {
		struct pf_arg arg = { .rank = PF_WIRE_MAX_RANK + 1 };

		if (x->argument_ids[i])
			continue;
		if (left - used >= sizeof(arg))
			memcpy(&arg, at + used, sizeof(arg));
		used += sizeof(arg) + arg.rank * sizeof(int64_t) +
			(arg.laid_out ? PF_WIRE_MAX_RANK : 0);
		if (arg.rank > PF_WIRE_MAX_RANK || used > left || x->q->n_devices != 1)
			return pf_err_set(err, -EPROTO,
					  "execute: argument %zu is not described", i);
	}
	return (ssize_t)used;
}

/* X's lists are WORK's message's from then on.  -EPROTO. */
static int read_request(struct execution *x, const struct pf_work *work,
			struct pf_err *err)
{
	const struct pf_req_execute *q = work->message;
	const uint32_t n_devices = work->server->client->n_devices;
	uint64_t n_args, n_outs, bytes = 0;
	ssize_t lent = 0;

	memset(x, 0, offsetof(struct execution, few));
	x->server = work->server;
	n_args = (uint64_t)q->n_args * q->n_devices;
	n_outs = (uint64_t)q->n_outs * q->n_devices;
	if (q->n_devices >= 1 && q->n_devices <= PF_WIRE_MAX_ARGS &&
	    n_args <= PF_WIRE_MAX_ARGS && n_outs <= PF_WIRE_MAX_ARGS)
		bytes = pf_execute_bytes(n_args, n_outs, q->n_devices);
	if (bytes && q->flags & PF_EXECUTE_LAYS_OUT)
		bytes += (uint64_t)q->n_outs * PF_WIRE_MAX_RANK;
	if (!bytes || work->len < bytes)
		return pf_err_set(err, -EPROTO, "execute: a message of %zu bytes",
				  work->len);
	if (q->lent_device >= n_devices ||
	    (q->device != UINT32_MAX && (q->device >= n_devices || q->n_devices != 1)))
		return pf_err_set(err, -EPROTO, "execute: there is no device %u",
				  q->device);
	x->q = q;
	x->repeat = q->repeat ? q->repeat : 1;
	x->n_args = n_args;
	x->n_outs = n_outs;
	x->argument_ids = (const uint64_t *)(q + 1);
	x->result_ids = x->argument_ids + n_args;
	x->lent = (const char *)(x->result_ids + n_outs);
	lent = lent_bytes(x, x->lent, work->len - bytes, err);
	if (lent < 0)
		return (int)lent;
	if ((uint64_t)lent != work->len - bytes)
		return pf_err_set(err, -EPROTO, "execute: a message of %zu bytes",
				  work->len);
	x->carry = (const uint32_t *)(const void *)(x->lent + lent);
	x->donate = (const uint8_t *)(x->carry + n_args);
	if (q->flags & PF_EXECUTE_LAYS_OUT)
		x->layouts = x->donate + q->n_args;
	for (size_t i = 0; i < n_args; i++)
		if (x->carry[i] != PF_NO_CARRY && x->carry[i] >= q->n_outs)
			return pf_err_set(err, -EPROTO,
					  "execute: a result that there is not is "
					  "carried over");
	return 0;
}

/* The next N elements of *ROOM, all of which have eight bytes. */
static void *cut(char **room, size_t n)
{
	char *at = *room;

	*room += n * 8;
	return at;
}

/* Room for the lists. */
static int make_room(struct execution *x, struct pf_err *err)
{
	size_t n_runs = x->repeat > 1 ? PF_WIRE_GENERATIONS : 1;
	size_t n = 2 * x->n_args + x->q->n_args + x->n_outs +
		   n_runs * (x->n_outs + x->q->n_devices);
	char *room = x->few;

	if (n * 8 > FEW)
		room = x->many = malloc(n * 8);
	if (!room)
		return pf_err_set(err, -ENOMEM, "no memory for %zu arguments and results",
				  x->n_args + x->n_outs);
	memset(room, 0, n * 8);
	x->objects = cut(&room, x->n_args);
	x->results = cut(&room, x->n_outs);
	x->arguments = cut(&room, x->n_args);
	x->kept = cut(&room, x->q->n_args);
	for (size_t i = 0; i < n_runs; i++) {
		x->runs[i].results = cut(&room, x->n_outs);
		x->runs[i].events = cut(&room, x->q->n_devices);
	}
	return 0;
}

/* Make the buffer of the lent argument I, which x->lent describes, in place. */
static int lend(struct execution *x, size_t i, struct pf_err *err)
{
	const struct pj_client *client = x->server->client;
	struct pj_place where = { .device = &client->devices[x->q->lent_device] };
	struct PJRT_Buffer *buffer;
	struct pf_layout layout;
	struct pf_shape shape;
	struct pf_arg arg;
	const void *bytes;
	int r;

	memcpy(&arg, x->lent, sizeof(arg));
	shape.rank = arg.rank;
	memcpy(shape.dims, x->lent + sizeof(arg), arg.rank * sizeof(shape.dims[0]));
	x->lent += sizeof(arg) + arg.rank * sizeof(shape.dims[0]);
	if (arg.laid_out) {
		memcpy(&layout, x->lent, sizeof(layout));
		x->lent += sizeof(layout);
	}
	bytes = pf_server_arena(x->server, arg.off, arg.len);
	if (!bytes)
		return pf_err_set(err, -EPROTO, "execute: bytes outside the arena");
	if (arg.laid_out)
		r = pj_buffer_lay_out(client, &where, bytes, arg.len, (int)arg.dtype,
				      &shape, &layout, &buffer, err);
	else
		r = pj_buffer_zero_copy(client, &where, bytes, arg.len, (int)arg.dtype,
					&shape, &buffer, err);
	if (r < 0)
		return pf_err_wrap(err, r, "input %zu", i);
	x->objects[i] =
		pf_object_new(&(struct pf_object){ .kind = PF_OBJECT_BUFFER,
						   .plugin = x->server->plugin,
						   .buffer = buffer,
						   .dtype = (enum pf_dtype)arg.dtype,
						   .len = arg.len });
	return x->objects[i] ? 0 : pf_err_set(err, -ENOMEM, "no memory for a buffer");
}

/* A program's callbacks find X by its context, without which they would crash. */
static int make_context(struct execution *x, struct pf_err *err)
{
	x->caller = (struct pf_caller){ x->server, x->q->head.tag };
	return x->server->callbacks.on
		       ? pj_context_new(x->server->plugin, &x->caller, &x->context, err)
		       : 0;
}

static int find_objects(struct execution *x, struct pf_work *work, struct pf_err *err)
{
	struct pf_objects *objects = &x->server->objects;
	int r = pf_objects_get(objects, &x->q->executable, 1, PF_OBJECT_EXECUTABLE,
			       &work->named, err);

	if (r < 0)
		return r;
	x->program = work->named->executable;
	if (x->program->n_results != x->q->n_outs)
		return pf_err_set(err, -EPROTO,
				  "the program has %zu results, %u were named",
				  x->program->n_results, x->q->n_outs);
	while (x->n_objects < x->n_args) {
		size_t i = x->n_objects, n = 1;

		while (x->argument_ids[i] && i + n < x->n_args && x->argument_ids[i + n])
			n++;
		r = x->argument_ids[i]
			    ? pf_objects_get(objects, x->argument_ids + i, n,
					     PF_OBJECT_BUFFER, x->objects + i, err)
			    : lend(x, i, err);
		if (r < 0)
			return r;
		x->n_objects += n;
	}
	for (size_t i = 0; i < x->n_args; i++)
		x->arguments[i] = x->objects[i]->buffer;
	return 0;
}

/* --- runs --------------------------------------------------------------------------- */

static struct run *run_at(struct execution *x, uint32_t n)
{
	return &x->runs[n % PF_WIRE_GENERATIONS];
}

static void destroy_results(struct execution *x, uint32_t n)
{
	struct run *run = run_at(x, n);

	for (size_t i = 0; i < x->n_outs; i++)
		pj_buffer_destroy(x->server->plugin, pf_steal(&run->results[i]));
}

/* Results of the run that began last take the places of arguments. */
static void carry_results(struct execution *x)
{
	struct PJRT_Buffer **results = run_at(x, x->begun - 1)->results;

	for (size_t i = 0; i < x->n_args; i++)
		if (x->carry[i] != PF_NO_CARRY)
			x->arguments[i] =
				results[i / x->q->n_args * x->q->n_outs + x->carry[i]];
}

/* List the arguments whose donate byte lacks BIT. */
static void list_kept(struct execution *x, uint8_t bit)
{
	x->n_kept = 0;
	for (uint32_t i = 0; i < x->q->n_args; i++)
		if (!(x->donate[i] & bit))
			x->kept[x->n_kept++] = i;
}

/* Begin the next run: its results exist from then on, and may be arguments. */
static int begin_run(struct execution *x, struct pf_err *err)
{
	const struct pj_client *client = x->server->client;
	struct run *run = run_at(x, x->begun);
	struct pj_run args = {
		.device = x->q->device == UINT32_MAX ? NULL
						     : &client->devices[x->q->device],
		.n_devices = x->q->n_devices,
		.arguments = x->arguments,
		.n_arguments = x->q->n_args,
		.kept = x->kept,
		.launch_id = x->q->launch_id,
		.context = x->context,
	};
	int r;

	if (x->begun)
		carry_results(x);
	if (x->begun < 2)
		list_kept(x, x->begun ? PF_DONATE_LATER : PF_DONATE_FIRST);
	args.n_kept = x->n_kept;
	x->tried = x->begun + 1;
	run->begun_ns = pf_now_ns();
	r = pj_executable_start(x->program, &args, run->results, run->events, err);
	/* Nobody looks at the results of a run that did not begin, where the plugin may have left anything. */
	if (r == 0)
		x->begun++;
	return r;
}

/* Wait for the oldest run under way.  It is good, or X's state is that of the one before. */
static int await_run(struct execution *x, struct pf_err *err)
{
	struct run *run = run_at(x, x->good);
	int r = pj_executable_await(x->program, x->q->n_devices, run->events, err);
	uint64_t now = pf_now_ns();

	if (r < 0)
		return r;
	x->run_ns = now - (run->begun_ns > x->ready_ns ? run->begun_ns : x->ready_ns);
	x->ready_ns = now;
	if (x->good)
		destroy_results(x, x->good - 1);
	x->good++;
	return 0;
}

/*
 * Run the program until it has run often enough, it fails, or others have waited for long.
 * While a run is under way the next one begins, if the last was short: so the time that an
 * accelerator takes to start and to signal its end does not add up.
 */
static int run_all(struct execution *x, struct pf_err *err)
{
	struct pf_err late = PF_ERR_INIT;
	int r = 0;

	x->first_ns = x->ready_ns = pf_now_ns();
	for (;;) {
		uint32_t at_once = x->good && x->run_ns < SHORT_NS ? 2 : 1;

		while (r == 0 && x->begun < x->repeat && x->begun - x->good < at_once &&
		       x->ready_ns - x->first_ns < SERIES_NS)
			r = begin_run(x, err);
		if (x->begun == x->good)
			return r;
		if (await_run(x, &late) < 0) {
			*err = late;
			return late.code;
		}
	}
}

/* --- the answer --------------------------------------------------------------------- */

/* Make an object of result I.  On failure the buffer is gone. */
static struct pf_object *result_object(struct execution *x, size_t i, struct pf_err *err)
{
	const struct pj_result *known = x->program->results;
	struct PJRT_Buffer **buffer = &run_at(x, x->good - 1)->results[i];
	struct pf_object with = { .kind = PF_OBJECT_BUFFER, .plugin = x->server->plugin };
	struct pf_object *object;
	struct pf_shape shape;

	if (x->layouts)
		memcpy(&with.layout, x->layouts + i % x->q->n_outs * PF_WIRE_MAX_RANK,
		       sizeof(with.layout));
	if (known) {
		with.dtype = known[i % x->q->n_outs].dtype;
		with.len = known[i % x->q->n_outs].len;
	} else if (pj_buffer_type(with.plugin, *buffer, &with.dtype, &shape, &with.len,
				  err) < 0) {
		pf_err_wrap(err, err->code, "result %zu", i);
		return NULL;
	}
	with.buffer = pf_steal(buffer);
	object = pf_object_new(&with);
	if (!object)
		pf_err_set(err, -ENOMEM, "no memory for a result");
	return object;
}

/* Make objects of the results of the last good run, under the ids that the daemon chose. */
static int publish_results(struct execution *x, struct pf_err *err)
{
	for (; x->n_results < x->n_outs; x->n_results++) {
		x->results[x->n_results] = result_object(x, x->n_results, err);
		if (!x->results[x->n_results])
			return err->code;
	}
	if (x->q->flags & PF_EXECUTE_TAKE)
		return 0;
	return pf_objects_put(&x->server->objects, x->result_ids, x->results, x->n_outs,
			      err);
}

/* May the run after the last good one have consumed result I?  Then no function may use
 * its buffer. */
static bool may_be_consumed(const struct execution *x, size_t i)
{
	size_t row = i / x->q->n_outs * x->q->n_args;

	if (x->tried == x->good)
		return false;
	for (uint32_t k = 0; k < x->q->n_args; k++)
		if (x->carry[row + k] == i % x->q->n_outs &&
		    (x->donate[k] & PF_DONATE_LATER))
			return true;
	return false;
}

/* Copy a result into a block of the pool: the daemon can read it there, also when this process
 * has ended. */
static int copy_result(const struct pf_object *result, struct pf_out *out,
		       struct pf_err *err)
{
	uint64_t off;
	int r = pf_server_read(result, &off, err);

	if (r == 0) {
		out->where = PF_WHERE_BLOCK;
		out->off = off;
	}
	return r;
}

/* Write into REPLY, at *LEN, which then covers them, the bytes of a result. */
static int put_inline(const struct pf_object *result, char *reply, struct pf_out *out,
		      size_t *len, struct pf_err *err)
{
	size_t at = (*len + INLINE_ALIGN - 1) & ~(size_t)(INLINE_ALIGN - 1);
	int r = pf_server_copy_out(result, reply + at, err);

	if (r < 0)
		return r;
	memset(reply + *len, 0, at - *len);
	*out = (struct pf_out){
		.where = PF_WHERE_INLINE,
		.dtype = result->dtype,
		.off = at,
		.len = result->len,
		.on_device_bytes = pj_buffer_device_bytes(result->plugin, result->buffer),
	};
	*len = at + result->len;
	return 0;
}

/*
 * Write where result I is.  A small one's bytes go to the reply, whose length *LEN then
 * covers them, if that is at most LIMIT.
 */
static int locate_result(struct execution *x, size_t i, char *reply, struct pf_out *out,
			 size_t *len, size_t limit, struct pf_err *err)
{
	const struct pf_object *result = x->results[i];

	if (result->len && result->len <= PF_WIRE_INLINE &&
	    *len + INLINE_ALIGN - 1 + result->len <= limit)
		return put_inline(result, reply, out, len, err);
	pf_server_location(result, out);
	if (out->where == PF_WHERE_INLINE) {
		out->off = *len;
		return 0;
	}
	if (x->q->flags & PF_EXECUTE_TAKE) {
		if (out->where == PF_WHERE_POOL && result->len >= PF_POOL_LARGE)
			return pf_objects_put(&x->server->objects, &x->result_ids[i],
					      &x->results[i], 1, err);
		return copy_result(result, out, err);
	}
	/* A processor's memory is lost with this process, so copy it, if there is
	 * room. */
	if (out->where == PF_WHERE_DEVICE &&
	    strcmp(x->server->client->platform, "cpu") == 0)
		(void)copy_result(result, out, NULL);
	return 0;
}

/* The reply becomes an error: free the blocks of the first N results, and remove all
 * results. */
static void take_back(struct execution *x, const struct pf_out *outs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (outs[i].where == PF_WHERE_BLOCK)
			pf_pool_block_free(outs[i].off);
	for (size_t i = 0; i < x->n_outs; i++)
		pf_objects_remove(&x->server->objects, x->result_ids[i],
				  PF_OBJECT_BUFFER);
}

/* Write the reply: where the results are, and WHY the run after them failed, if one did. */
static int answer(struct execution *x, struct pf_work *work, const struct pf_err *why,
		  struct pf_err *err)
{
	struct pf_rep_execute *reply = (struct pf_rep_execute *)work->reply;
	struct pf_out *outs = (struct pf_out *)(reply + 1);
	size_t len = sizeof(*reply) + x->n_outs * sizeof(*outs),
	       limit = len + INLINE_TOTAL;
	size_t why_len = strlen(why->text);

	if (limit > PF_RING_MESSAGE - why_len)
		limit = PF_RING_MESSAGE - why_len;
	for (size_t i = 0; i < x->n_outs; i++) {
		bool consumed = may_be_consumed(x, i);
		int r = 0;

		if (consumed)
			outs[i] = (struct pf_out){ .where = PF_WHERE_DEVICE,
						   .dtype = x->results[i]->dtype,
						   .len = x->results[i]->len };
		else
			r = locate_result(x, i, work->reply, &outs[i], &len, limit, err);
		/* Of bytes that are taken, no array is left that has a memory. */
		outs[i].memory = consumed || r < 0 || (x->q->flags & PF_EXECUTE_TAKE)
					 ? UINT32_MAX
					 : pj_buffer_memory(x->server->client,
							    x->results[i]->buffer);
		if (r < 0) {
			take_back(x, outs, i);
			return pf_err_wrap(err, r, "result %zu", i);
		}
	}
	memcpy(work->reply + len, why->text, why_len);
	reply->device_ns = x->ready_ns - x->first_ns;
	reply->runs = x->good;
	reply->n_outs = (uint32_t)x->n_outs;
	reply->why = why->code;
	reply->why_pjrt_code = why->pjrt_code;
	reply->why_len = (uint32_t)why_len;
	work->reply_len = len + why_len;
	return 0;
}

/* Await the runs that were not awaited, and free everything. */
static void release(struct execution *x)
{
	for (uint32_t n = x->good; n < x->begun; n++) {
		(void)pj_executable_await(x->program, x->q->n_devices,
					  run_at(x, n)->events, NULL);
		destroy_results(x, n);
	}
	if (x->good)
		destroy_results(x, x->good - 1);
	pj_context_free(x->server->plugin, x->context);
	for (size_t i = 0; i < x->n_objects; i++)
		pf_object_unref(x->objects[i]);
	for (size_t i = 0; i < x->n_results; i++)
		pf_object_unref(x->results[i]);
	free(x->many);
}

int pf_handle_execute(struct pf_work *work, struct pf_err *err)
{
	struct pf_err why = PF_ERR_INIT;
	struct execution x;
	int r = read_request(&x, work, err);

	if (r == 0)
		r = make_room(&x, err);
	if (r == 0)
		r = find_objects(&x, work, err);
	if (r == 0)
		r = make_context(&x, err);
	if (r == 0 && run_all(&x, &why) < 0 && !x.good) {
		*err = why;
		r = why.code;
	}
	if (r == 0)
		r = publish_results(&x, err);
	if (r == 0)
		r = answer(&x, work, &why, err);
	release(&x);
	return r;
}
