/* SPDX-License-Identifier: Apache-2.0 */
/* The arrays of a .safetensors file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "content.h"

/* Frozen bytes: who writes to the buffer meanwhile gets a copy of them. */
static struct pf_bytes *hold_content(struct pf_buffer *b, uint64_t *size)
{
	PF_LOCK_SCOPE(&b->lock);
	*size = b->size;
	return b->content ? pf_bytes_ref(b->content) : NULL;
}

static int make_values(const struct pf_place *place, unsigned memory,
		       struct pf_bytes *bytes, struct pf_tensors *tensors,
		       struct pf_err *err)
{
	const struct pf_safetensors *head = &tensors->head;

	tensors->values = calloc(head->n ? head->n : 1, sizeof(struct pf_value *));
	if (!tensors->values)
		return pf_err_set(err, -ENOMEM, "no memory for %zu arrays", head->n);
	for (size_t i = 0; i < head->n; i++) {
		int r = pf_content_tensor(place, memory, &head->tensors[i], bytes,
					  head->header_len, &tensors->values[i], err);

		if (r < 0)
			return r;
		tensors->n++;
	}
	return 0;
}

int pf_buffer_tensors(struct pf_buffer *b, const struct pf_place *place,
		      struct pf_tensors *ret, struct pf_err *err)
{
	unsigned memory = place == pf_buffer_place(b) ? pf_buffer_memory(b) : UINT32_MAX;
	uint64_t size = 0;
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *bytes = hold_content(b, &size);
	int r;

	memset(ret, 0, sizeof(*ret));
	if (!bytes)
		return pf_err_set(err, -EINVAL, "an empty file is no array");
	r = pf_safetensors_parse(pf_bytes_at(bytes, 0), size, &ret->head, err);
	if (r == 0)
		r = pf_err_set(err, -EINVAL,
			       "%llu bytes are no whole .safetensors header",
			       (unsigned long long)size);
	if (r > 0 && size != ret->head.header_len + ret->head.data_len)
		r = pf_err_set(err, -EINVAL,
			       "what the header lists takes %llu bytes, %llu came",
			       (unsigned long long)ret->head.data_len,
			       (unsigned long long)(size - ret->head.header_len));
	if (r > 0)
		r = make_values(place, memory, bytes, ret, err);
	if (r < 0)
		pf_tensors_release(ret);
	return r;
}

void pf_tensors_release(struct pf_tensors *tensors)
{
	for (size_t i = 0; i < tensors->n; i++)
		pf_value_unref(tensors->values[i]);
	free(tensors->values);
	pf_safetensors_release(&tensors->head);
	memset(tensors, 0, sizeof(*tensors));
}

bool pf_buffer_is_tensors(struct pf_buffer *b)
{
	PF_LOCK_SCOPE(&b->lock);
	return b->state == PF_BUFFER_TENSORS;
}
