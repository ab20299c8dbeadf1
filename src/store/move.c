/* SPDX-License-Identifier: Apache-2.0 */
/* Where a buffer lives: sharing another's value, and going elsewhere. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "content.h"

int pf_place_memory(const struct pf_place *place, const char *kind, unsigned *ret,
		    struct pf_err *err)
{
	const struct pf_device_desc *d =
		&pf_worker_description(place->worker)->devices[place->device];
	pf_autobuf struct pf_buf has = PF_BUF_INIT;

	for (unsigned i = 0; i < d->n_memories; i++) {
		if (!strcmp(d->memories[i].kind, kind)) {
			*ret = i == d->default_memory ? UINT32_MAX : i;
			return 0;
		}
		pf_buf_printf(&has, "%s%s", i ? ", " : "", d->memories[i].kind);
	}
	return pf_err_set(err, -EINVAL, "device %s has no memory %.64s (it has %s)",
			  place->device_name, kind, has.data ? has.data : "none");
}

unsigned pf_buffer_memory(struct pf_buffer *b)
{
	PF_LOCK_SCOPE(&b->lock);
	return b->memory;
}

void pf_buffer_set_memory(struct pf_buffer *b, unsigned memory)
{
	PF_LOCK_SCOPE(&b->lock);
	b->memory = memory;
}

/* VALUE itself if it lives at PLACE, else a copy to live there; a reference. */
static struct pf_value *value_at(struct pf_value *value, const struct pf_place *place,
				 unsigned memory)
{
	if (value->worker == place->worker && value->device == place->device &&
	    value->memory == memory)
		return pf_value_ref(value);
	return pf_value_copy(value, place->worker, place->device, memory);
}

/* The bytes of VIEW, or none, are the content of FORMAT from now on. */
static void take_content_locked(struct pf_buffer *b, const struct pf_view *view,
				enum pf_format format)
{
	pf_bytes_unref(pf_steal(&b->content));
	b->text.at = PF_TEXT_UNCHECKED;
	b->content = view->content ? pf_bytes_ref(view->content) : NULL;
	b->size = view->content ? view->size : 0;
	(void)pf_content_head(b, format, false, NULL);
	b->refused = false;
}

bool pf_buffer_take_content(struct pf_buffer *b, const struct pf_view *view)
{
	struct pf_value *gone;

	if (!view->content || view->content_off)
		return false;
	pf_lock(&b->lock);
	gone = pf_buffer_let_go_locked(b);
	take_content_locked(b, view, b->format);
	b->state = PF_BUFFER_INCOMPLETE;
	pf_unlock(&b->lock);
	pf_value_unref(gone);
	return true;
}

bool pf_buffer_take(struct pf_buffer *b, const struct pf_view *view,
		    enum pf_format format, struct pf_value **ret)
{
	const struct pf_place *place = b->place;
	struct pf_value *v = NULL, *gone;

	if (view->array && pf_value_state(view->array, NULL) != PF_VALUE_DONATED)
		v = value_at(view->array, place, b->memory);
	if (!v)
		return false;
	pf_lock(&b->lock);
	gone = pf_buffer_let_go_locked(b);
	take_content_locked(b, view, format);
	b->declared = v->dtype;
	b->declared_shape = v->shape;
	b->shaped = true;
	b->state = PF_BUFFER_VALUE;
	snprintf(b->made_by, sizeof(b->made_by), "copy");
	clock_gettime(CLOCK_REALTIME, &b->made);
	pf_buffer_hold_locked(b, pf_value_ref(v));
	pf_unlock(&b->lock);
	pf_value_unref(gone);
	*ret = v;
	return true;
}

int pf_buffer_move(struct pf_buffer *b, const struct pf_place *place, unsigned memory,
		   struct pf_value **ret, struct pf_err *err)
{
	struct pf_value *v = NULL, *gone = NULL;

	*ret = NULL;
	pf_lock(&b->lock);
	if (b->value) {
		v = value_at(b->value, place, memory);
		if (!v) {
			pf_unlock(&b->lock);
			return pf_err_set(err, -ENOMEM, "no memory for a value");
		}
		gone = pf_buffer_let_go_locked(b);
		pf_buffer_hold_locked(b, pf_value_ref(v));
	}
	b->place = place;
	b->memory = memory;
	pf_unlock(&b->lock);
	pf_value_unref(gone);
	*ret = v;
	return 0;
}
