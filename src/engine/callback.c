/* SPDX-License-Identifier: Apache-2.0 */
/* Invocations: as workers describe them, checked before anything uses them, and their answers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Read the type of an array from *AT, which ends before END, and move *AT behind it. */
static int parse_type(const char **at, const char *end, struct pf_callback_type *type,
		      struct pf_callback_array *ret)
{
	uint64_t bytes;

	if ((size_t)(end - *at) < sizeof(*type))
		return -EPROTO;
	memcpy(type, *at, sizeof(*type));
	*at += sizeof(*type);
	if (type->rank > PF_MAX_RANK ||
	    (size_t)(end - *at) < type->rank * sizeof(ret->shape.dims[0]))
		return -EPROTO;
	ret->shape.rank = type->rank;
	memcpy(ret->shape.dims, *at, type->rank * sizeof(ret->shape.dims[0]));
	*at += type->rank * sizeof(ret->shape.dims[0]);
	for (unsigned i = 0; i < type->rank; i++)
		if (ret->shape.dims[i] < 0)
			return -EPROTO;
	if (type->dtype >= PF_DTYPE_COUNT || !pf_dtype_valid((int)type->dtype) ||
	    pf_dtype_bits((enum pf_dtype)type->dtype) < 8 ||
	    pf_shape_bytes(&ret->shape, (enum pf_dtype)type->dtype, &bytes, NULL) < 0 ||
	    bytes != type->len)
		return -EPROTO;
	ret->dtype = (enum pf_dtype)type->dtype;
	ret->len = bytes;
	return 0;
}

/* Read the arrays of INVOCATION, which follow M; BLOCK has the arguments' bytes. */
static int parse_arrays(struct pf_invocation *invocation, const struct pf_msg_callback *m,
			const char *at, const char *end, const uint8_t *block)
{
	for (uint32_t i = 0; i < m->n_args + m->n_results; i++) {
		struct pf_callback_array *array = &invocation->args[i];
		struct pf_callback_type type;
		int r = parse_type(&at, end, &type, array);

		if (r < 0)
			return r;
		if (i >= m->n_args)
			continue;
		if (type.off % PF_CALLBACK_ALIGN || type.off > m->len ||
		    type.len > m->len - type.off)
			return -EPROTO;
		array->data = block + type.off;
	}
	return at == end ? 0 : -EPROTO;
}

/*
 * Read the LEN bytes of MESSAGE, a struct pf_msg_callback of the worker of INSTANCE, which is not
 * trusted: *RET, without a reference to INSTANCE, whose pool has the arguments; the caller frees its
 * args.  -EPROTO; -ENOMEM: it has no arrays.
 */
static int parse(struct pf_instance *instance, const void *message, size_t len,
		 struct pf_invocation *ret)
{
	const char *at = message;
	const uint8_t *block = NULL;
	struct pf_msg_callback m;
	int r;

	if (len < sizeof(m))
		return -EPROTO;
	memcpy(&m, message, sizeof(m));
	if (m.head.len != len || m.n_args > PF_CALLBACK_ARRAYS ||
	    m.n_results > PF_CALLBACK_ARRAYS)
		return -EPROTO;
	if (m.n_args == 0)
		m.off = PF_NO_OFFSET;
	else if (m.off % PF_CALLBACK_ALIGN ||
		 !(block = pf_instance_array(instance, m.off, m.len)))
		return -EPROTO;
	*ret = (struct pf_invocation){
		.number = m.number,
		.tag = m.head.tag,
		.index = m.index,
		.block = m.off,
		.n_args = m.n_args,
		.n_results = m.n_results,
		.ordered = m.ordered != 0,
		.args = calloc((size_t)m.n_args + m.n_results + 1, sizeof(*ret->args)),
	};
	if (!ret->args)
		return -ENOMEM;
	ret->results = ret->args + m.n_args;
	r = parse_arrays(ret, &m, at + sizeof(m), at + len, block);
	if (r < 0)
		free(ret->args);
	return r;
}

/* INVOCATION is over: Q, its answer, goes to the worker with TAIL. */
static void settle_locked(const struct pf_invocation *invocation, struct pf_req_answer *q,
			  const void *tail, size_t tail_len)
{
	struct pf_instance *instance = invocation->instance;
	struct pf_call *call = pf_map_get(&instance->calls, invocation->tag);
	const struct pf_req_id block = { .head = { .op = PF_OP_BLOCK_FREE,
						   .len = sizeof(block) },
					 .id = invocation->block };

	if (call)
		call->n_asked--;
	if (invocation->block != PF_NO_OFFSET)
		(void)pf_instance_post_locked(instance, &block, sizeof(block), NULL, 0);
	q->head.op = PF_OP_CALLBACK_ANSWER;
	q->head.len = (uint32_t)(sizeof(*q) + tail_len);
	q->number = invocation->number;
	/* Without it the worker would wait for ever. */
	if (pf_instance_post_locked(instance, q, sizeof(*q), tail, tail_len) < 0)
		pf_instance_break_locked(instance);
}

/* As pf_invocation_fail, but INVOCATION stays. */
static void refuse(const struct pf_invocation *invocation, int code, const char *text)
{
	struct pf_req_answer q = { .pjrt_code = code };
	char tail[PF_ERR_TEXT] = "";

	snprintf(tail, sizeof(tail), "%s", text);
	PF_LOCK_SCOPE(&invocation->instance->lock);
	if (!invocation->instance->dead)
		settle_locked(invocation, &q, tail, (strlen(tail) + 8) / 8 * 8);
}

static void invocation_free(struct pf_invocation *invocation)
{
	pf_instance_unref(invocation->instance);
	free(invocation->args);
	free(invocation);
}

void pf_invocation_fail(struct pf_invocation *invocation, int code, const char *text)
{
	refuse(invocation, code, text);
	invocation_free(invocation);
}

static void answered(struct pf_call *call, int code, const struct pf_err *err,
		     const void *reply, size_t len)
{
	struct pf_invocation *invocation =
		pf_container_of(call, struct pf_invocation, answer);

	(void)code, (void)err, (void)reply, (void)len;
	invocation->drop(invocation->kept);
	invocation_free(invocation);
}

int pf_invocation_answer(struct pf_invocation *invocation, const uint64_t *offs,
			 void *kept, void (*drop)(void *kept))
{
	PF_CLEANUP(pf_instance_unrefp)
	struct pf_instance *instance = pf_instance_ref(invocation->instance);
	struct pf_req_answer q = { .n_results = invocation->n_results };
	int r;

	invocation->kept = kept;
	invocation->drop = drop;
	invocation->answer.done = answered;
	invocation->answer.reply_min = sizeof(struct pf_rep_head);
	pf_lock(&instance->lock);
	r = pf_instance_add_call_locked(instance, &invocation->answer,
					PF_OP_CALLBACK_ANSWER);
	if (r == 0) {
		q.head.tag = invocation->answer.tag;
		settle_locked(invocation, &q, offs, q.n_results * sizeof(*offs));
	}
	pf_unlock(&instance->lock);
	if (r == 0) /* the invocation is freed, or will be */
		return 0;
	if (r == -ENOMEM)
		refuse(invocation, PF_PJRT_RESOURCE_EXHAUSTED,
		       "no memory for the answer of a callback");
	answered(&invocation->answer, r, NULL, NULL, 0);
	return r;
}

/* Refuse PARSED, whose execution has ended or, if not, cannot be answered; INVOCATION NULL: no memory. */
static void refuse_unanswered(struct pf_invocation *parsed, bool ended,
			      const void *invocation)
{
	if (ended)
		refuse(parsed, PF_PJRT_FAILED_PRECONDITION,
		       "the execution that calls the host has ended");
	else if (invocation)
		refuse(parsed, PF_PJRT_FAILED_PRECONDITION,
		       "nothing answers the callbacks of this execution");
	else
		refuse(parsed, PF_PJRT_RESOURCE_EXHAUSTED, "no memory for a callback");
}

bool pf_invocation_ask(struct pf_instance *instance, const void *message, size_t len)
{
	struct pf_invocation parsed, *invocation;
	void (*asked)(void *held, struct pf_invocation *invocation) = NULL;
	struct pf_call *call = NULL;
	void *held = NULL;
	bool other = false;
	int r = parse(instance, message, len, &parsed);

	if (r == -EPROTO)
		return false;
	parsed.instance = instance;
	invocation = r == 0 ? malloc(sizeof(*invocation)) : NULL;
	pf_lock(&instance->lock);
	if (parsed.tag)
		call = pf_map_get(&instance->calls, parsed.tag);
	other = call && call->op != PF_OP_EXECUTE;
	if (call && !other) {
		call->n_asked++;
		asked = call->asked;
		if (invocation && call->hold)
			held = call->hold(call);
	}
	pf_unlock(&instance->lock);
	if (held) {
		*invocation = parsed;
		pf_instance_ref(instance);
		asked(held, invocation);
		return true;
	}
	/* Also if the execution has ended: a thread of the plugin waits for the answer. */
	if (!other)
		refuse_unanswered(&parsed, !call, invocation);
	free(parsed.args);
	free(invocation);
	return !other;
}
