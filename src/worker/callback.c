/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callbacks: programs call the host.  The handler of such a custom call sends the arguments to the
 * daemon and waits, on the plugin's thread, for the answer, which another thread takes.
 */
#include <errno.h>
#include <inttypes.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/ffi.h"

/* An invocation whose handler waits. */
struct waiting {
	const struct pjrtfs_ffi_frame *frame;
	sem_t answered;
	int code; /* of enum pf_pjrt_code, with TEXT */
	char text[PF_ERR_TEXT];
};

static uint64_t aligned(uint64_t len)
{
	return (len + PF_CALLBACK_ALIGN - 1) / PF_CALLBACK_ALIGN * PF_CALLBACK_ALIGN;
}

/* --- arrays -------------------------------------------------------------------------- */

/* The type of BUFFER in *RET, and its shape.  0: it is a token.  -EOPNOTSUPP, -EOVERFLOW. */
static int describe(const struct pjrtfs_ffi_buffer *buffer, struct pf_callback_type *ret,
		    struct pf_shape *shape, struct pf_err *err)
{
	enum pf_dtype dtype = pf_dtype_from_xla(buffer->dtype);
	int r;

	if (dtype == PF_DTYPE_TOKEN)
		return 0;
	if (!pf_dtype_valid((int)dtype) || pf_dtype_bits(dtype) < 8)
		return pf_err_set(err, -EOPNOTSUPP,
				  "a callback cannot have arrays of type %s (XLA's %d)",
				  pf_dtype_name(dtype), (int)buffer->dtype);
	if (buffer->rank > PF_WIRE_MAX_RANK)
		return pf_err_set(err, -EOPNOTSUPP,
				  "a callback has an array of %" PRId64
				  " dimensions; at most %d can be sent",
				  buffer->rank, PF_WIRE_MAX_RANK);
	shape->rank = (unsigned)buffer->rank;
	for (unsigned i = 0; i < shape->rank; i++)
		shape->dims[i] = buffer->dims[i];
	*ret = (struct pf_callback_type){ .dtype = dtype, .rank = shape->rank };
	r = pf_shape_bytes(shape, dtype, &ret->len, err);
	return r < 0 ? r : 1;
}

/* The next array of BUFFERS that is not a token, at *I, which moves behind it.  0: none is left. */
static int next_array(const struct pjrtfs_ffi_buffers *buffers, int64_t *i,
		      struct pf_callback_type *type, struct pf_shape *shape,
		      struct pf_err *err)
{
	int r = 0;

	while (r == 0 && *i < buffers->n)
		r = describe(buffers->buffers[(*i)++], type, shape, err);
	return r;
}

/* Append the types of BUFFERS to OUT, *N of them; their bytes, one after another, take *LEN. */
static int append_types(struct pf_buf *out, const struct pjrtfs_ffi_buffers *buffers,
			uint32_t *n, uint64_t *len, struct pf_err *err)
{
	struct pf_callback_type type;
	struct pf_shape shape;
	int64_t i = 0;
	int r;

	while ((r = next_array(buffers, &i, &type, &shape, err)) > 0) {
		type.off = *len;
		*len += aligned(type.len);
		++*n;
		pf_buf_append(out, &type, sizeof(type));
		pf_buf_append(out, shape.dims, shape.rank * sizeof(shape.dims[0]));
	}
	return r;
}

/* Copy the bytes of BUFFERS into the block at OFF, as append_types has placed them. */
static void copy_arguments(const struct pjrtfs_ffi_buffers *buffers, uint64_t off)
{
	struct pf_callback_type type;
	struct pf_shape shape;

	for (int64_t i = 0; next_array(buffers, &i, &type, &shape, NULL) > 0;
	     off += aligned(type.len))
		if (type.len)
			memcpy(pf_pool_at(off), buffers->buffers[i - 1]->data, type.len);
}

/* Copy the results at the N OFFS of the arena into BUFFERS. */
static int take_results(const struct pf_server *server,
			const struct pjrtfs_ffi_buffers *buffers, const uint64_t *offs,
			size_t n, struct pf_err *err)
{
	struct pf_callback_type type;
	struct pf_shape shape;
	int64_t i = 0;
	size_t k = 0;

	for (; next_array(buffers, &i, &type, &shape, NULL) > 0; k++) {
		const void *bytes =
			k < n ? pf_server_arena(server, offs[k], type.len) : NULL;

		if (!bytes)
			return pf_err_set(err, -EPROTO,
					  "result %zu of a callback is outside the arena",
					  k);
		if (type.len)
			memcpy(buffers->buffers[i - 1]->data, bytes, type.len);
	}
	return k == n ? 0
		      : pf_err_set(err, -EPROTO, "a callback with %zu results got %zu", k,
				   n);
}

/* --- asking -------------------------------------------------------------------------- */

/* Make the message of an invocation in OUT, and its block. */
static int make_message(const struct pjrtfs_ffi_frame *frame, struct pf_buf *out,
			struct pf_msg_callback *m, struct pf_err *err)
{
	uint64_t unused = 0;
	int r;

	pf_buf_append(out, m, sizeof(*m));
	r = append_types(out, &frame->operands, &m->n_args, &m->len, err);
	if (r == 0)
		r = append_types(out, &frame->results, &m->n_results, &unused, err);
	if (r < 0)
		return r;
	if (out->failed)
		return pf_err_set(err, -ENOMEM, "no memory for a callback");
	if (out->len > PF_RING_MESSAGE)
		return pf_err_set(err, -E2BIG,
				  "a callback has too many arrays: %u arguments and %u "
				  "results",
				  m->n_args, m->n_results);
	m->ordered = m->n_args < frame->operands.n || m->n_results < frame->results.n;
	m->head = (struct pf_msg_head){ .op = PF_OP_CALLBACK,
					.len = (uint32_t)out->len,
					.tag = m->head.tag };
	if (m->n_args)
		r = pf_pool_block(m->len, &m->off, err);
	if (r == 0 && m->n_args)
		copy_arguments(&frame->operands, m->off);
	return r;
}

/* Ask the daemon, and wait for its answer. */
static int ask(const struct pf_caller *caller, struct waiting *w, uint64_t index,
	       struct pf_err *err)
{
	struct pf_callbacks *callbacks = &caller->server->callbacks;
	struct pf_msg_callback m = { .head.tag = caller->tag,
				     .index = index,
				     .off = PF_NO_OFFSET };
	pf_autobuf struct pf_buf message = PF_BUF_INIT;
	int r = make_message(w->frame, &message, &m, err);

	if (r < 0)
		return r;
	pf_lock(&callbacks->lock);
	m.number = ++callbacks->last;
	r = pf_map_put(&callbacks->waiting, m.number, w);
	pf_unlock(&callbacks->lock);
	if (r < 0) {
		pf_pool_block_free(m.off);
		return pf_err_set(err, r, "no memory for a callback");
	}
	memcpy(message.data, &m, sizeof(m));
	pf_server_post(caller->server, message.data, message.len);
	while (sem_wait(&w->answered))
		;
	return 0;
}

/* The handler of all targets. */
static struct pjrtfs_ffi_error *call_host(struct pjrtfs_ffi_frame *frame)
{
	struct waiting w = { .frame = frame };
	struct pf_err err = PF_ERR_INIT;
	const struct pf_caller *caller;
	const uint64_t *index;

	if (pjrtfs_ffi_asked(frame))
		return NULL;
	caller = pj_context_data(frame);
	index = pjrtfs_ffi_scalar(frame, "index", PJRTFS_FFI_U64);
	if (!caller || !index)
		return pjrtfs_ffi_fail(frame, PJRTFS_FFI_INVALID_ARGUMENT,
				       "a callback lacks its attribute index, of type "
				       "ui64");
	if (sem_init(&w.answered, 0, 0))
		return pjrtfs_ffi_fail(frame, PJRTFS_FFI_INTERNAL, "no semaphore");
	if (ask(caller, &w, *index, &err) < 0) {
		w.code = pf_pjrt_code_parse(pf_pjrt_code_name(-1, err.code));
		snprintf(w.text, sizeof(w.text), "%s", err.text);
	}
	sem_destroy(&w.answered);
	return w.code ? pjrtfs_ffi_fail(frame, (enum pjrtfs_ffi_code)w.code, w.text)
		      : NULL;
}

/* --- the answer ---------------------------------------------------------------------- */

int pf_handle_callback_answer(struct pf_work *work, struct pf_err *err)
{
	struct pf_callbacks *callbacks = &work->server->callbacks;
	const struct pf_req_answer *q = work->message;
	size_t more = work->len - sizeof(*q);
	struct waiting *w = NULL;
	int r = 0;

	pf_lock(&callbacks->lock);
	if (q->number)
		w = pf_map_remove(&callbacks->waiting, q->number);
	pf_unlock(&callbacks->lock);
	if (!w)
		return pf_err_set(err, -EPROTO, "no callback %" PRIu64 " waits",
				  q->number);
	if (q->pjrt_code) {
		w->code = q->pjrt_code;
		snprintf(w->text, sizeof(w->text), "%.*s", (int)more,
			 (const char *)(q + 1));
	} else {
		r = more / sizeof(uint64_t) >= q->n_results
			    ? take_results(work->server, &w->frame->results,
					   (const uint64_t *)(q + 1), q->n_results, err)
			    : pf_err_set(err, -EPROTO,
					 "a callback's answer lacks results");
		w->code = r < 0 ? PF_PJRT_INTERNAL : PF_PJRT_OK;
		if (r < 0)
			snprintf(w->text, sizeof(w->text), "%s", err->text);
	}
	sem_post(&w->answered);
	return r;
}

void pf_callbacks_set_up(struct pf_server *server)
{
	static const char *const targets[] = { "xla_ffi_python_cpu_callback",
					       "xla_ffi_partitioned_python_cpu_callback",
					       "pjrtfs_callback" };
	struct pf_callbacks *callbacks = &server->callbacks;

	if (pthread_mutex_init(&callbacks->lock, NULL))
		abort();
	/* XLA's lookup of a context that an execution lacks crashes. */
	callbacks->on = pj_context_set_up(server->plugin, NULL) == 0;
	for (size_t i = 0; callbacks->on && i < PF_ARRAY_SIZE(targets); i++)
		pf_ffi_add(server->plugin,
			   &(struct pjrtfs_ffi_target){ .name = targets[i],
							.handler = call_host });
}
