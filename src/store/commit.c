/* SPDX-License-Identifier: Apache-2.0 */
/* What a buffer's bytes become: a value, several, or a sentence. */
#include <stdio.h>
#include <time.h>

#include "content.h"

/* What there is after an attempt to make a value of the content: R, as pf_content_value. */
static void committed_locked(struct pf_buffer *b, struct pf_value *v, int r,
			     const struct pf_err *why)
{
	if (r < 0) {
		b->err = *why;
		pf_buffer_set_state_locked(b, b->refused || pf_content_is_whole(b)
						      ? PF_BUFFER_ERROR
						      : PF_BUFFER_INCOMPLETE);
		return;
	}
	if (v)
		pf_buffer_hold_locked(b, pf_value_ref(v));
	pf_buffer_set_state_locked(b, v ? PF_BUFFER_VALUE : PF_BUFFER_TENSORS);
	clock_gettime(CLOCK_REALTIME, &b->made);
	snprintf(b->made_by, sizeof(b->made_by), "upload");
}

int pf_buffer_commit(struct pf_buffer *b, bool partial_ok, struct pf_value **ret,
		     struct pf_err *err)
{
	struct pf_err why = PF_ERR_INIT;
	struct pf_value *v = NULL, *gone;
	int r;

	*ret = NULL;
	pf_lock(&b->lock);
	if (b->format == PF_FORMAT_NONE || (partial_ok && !pf_content_is_whole(b))) {
		pf_unlock(&b->lock);
		return 1;
	}
	gone = pf_buffer_let_go_locked(b);
	if (b->refused)
		why = b->err;
	r = b->refused ? why.code : pf_content_value(b, &v, &why);
	committed_locked(b, v, r, &why);
	pf_unlock(&b->lock);
	pf_value_unref(gone);
	if (r < 0 && err)
		*err = why;
	*ret = v;
	return r > 0 ? 2 : r;
}

void pf_buffer_refuse(struct pf_buffer *b, const struct pf_err *err)
{
	PF_LOCK_SCOPE(&b->lock);
	b->err = *err;
	pf_buffer_set_state_locked(b, PF_BUFFER_ERROR);
}

void pf_buffer_committed(struct pf_buffer *b, struct pf_value *value, int code,
			 const struct pf_err *err)
{
	struct pf_value *gone = NULL;

	if (code >= 0)
		return;
	pf_lock(&b->lock);
	/* A worker's death is not the bytes' fault: the value is placed when it is used. */
	if (b->value == value && pf_value_state(value, NULL) == PF_VALUE_ERROR) {
		gone = pf_buffer_let_go_locked(b);
		b->err = *err;
		pf_buffer_set_state_locked(b, PF_BUFFER_ERROR);
	}
	pf_unlock(&b->lock);
	pf_value_unref(gone);
}

void pf_buffer_forget_donated(struct pf_buffer *b, struct pf_value *value)
{
	struct pf_value *gone = NULL;
	bool donated;

	pf_lock(&b->lock);
	donated = b->value == value;
	if (donated) {
		pf_bytes_unref(pf_steal(&b->content));
		b->size = 0;
		b->header_len = 0;
		if (pf_value_state(value, NULL) != PF_VALUE_DONATED) {
			gone = pf_buffer_let_go_locked(b);
			pf_buffer_set_state_locked(b, PF_BUFFER_DONATED);
		}
	}
	pf_unlock(&b->lock);
	pf_value_unref(gone);
	if (donated)
		pf_tell(pf_worker_watch(pf_buffer_place(b)->worker), b->subject,
			"buffer.donated");
}

void pf_buffer_discard(struct pf_buffer *b)
{
	struct pf_value *gone;

	pf_lock(&b->lock);
	pf_bytes_unref(pf_steal(&b->content));
	gone = pf_buffer_let_go_locked(b);
	b->size = 0;
	b->header_len = 0;
	pf_buffer_set_state_locked(b, PF_BUFFER_EMPTY);
	pf_unlock(&b->lock);
	pf_value_unref(gone);
}

bool pf_buffer_commit_is_slow(struct pf_buffer *b)
{
	PF_LOCK_SCOPE(&b->lock);
	if (b->size <= (64 << 10))
		return false;
	return b->format == PF_FORMAT_TXT || b->format == PF_FORMAT_SAFETENSORS ||
	       (b->format == PF_FORMAT_NPY && b->header_len && b->npy.fortran_order);
}
