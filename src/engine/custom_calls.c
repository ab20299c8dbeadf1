/* SPDX-License-Identifier: Apache-2.0 */
/* Custom calls: what a worker says of the handlers that it has registered. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"
#include "pjrtfs/library.h"

static int by_target(const void *a, const void *b)
{
	const struct pf_custom_call *x = a, *y = b;
	int r = strcmp(x->target, y->target);

	/* What programs can call precedes what is shadowed. */
	return r ? r : (x->note != NULL) - (y->note != NULL);
}

/* Take the handler ITEM, [TARGET, INDEX of its library or -1, NOTE or null]. */
static int take_call(struct pf_custom_calls *c, struct json_object *item,
		     struct pf_err *err)
{
	struct pf_custom_call *call = &c->calls[c->n];
	struct json_object *field[3] = { NULL };
	int64_t i = -2;

	for (size_t k = 0; k < 3 && json_object_is_type(item, json_type_array) &&
			   k < json_object_array_length(item);
	     k++)
		field[k] = json_object_array_get_idx(item, k);
	if (json_object_is_type(field[1], json_type_int))
		i = json_object_get_int64(field[1]);
	if (!json_object_is_type(field[0], json_type_string) || i < -1 ||
	    i >= (int64_t)c->n_libraries ||
	    (field[2] && !json_object_is_type(field[2], json_type_string)))
		return pf_err_set(err, -EPROTO,
				  "the worker described a custom call as %.80s",
				  pf_json_text(item));
	call->target = json_object_get_string(field[0]);
	call->library = i < 0 ? NULL : c->libraries[i];
	call->note = field[2] ? json_object_get_string(field[2]) : NULL;
	c->n++;
	return 0;
}

int pf_custom_calls_new(struct json_object *description,
			const struct pf_library *const *libraries, unsigned n,
			struct pf_custom_calls **ret, struct pf_err *err)
{
	PF_CLEANUP(pf_custom_calls_unrefp) struct pf_custom_calls *c = NULL;
	struct json_object *json = json_object_new_object();
	struct json_object *list =
		pf_json_get(description, "custom_calls", json_type_array);
	struct json_object *whys = pf_json_get(description, "libraries", json_type_array);
	size_t len = list ? json_object_array_length(list) : 0;
	int r = 0;

	/* Copies, because other threads read the description. */
	if (whys)
		pf_json_add(json, "libraries", whys = pf_json_copy(whys));
	if (list)
		pf_json_add(json, "custom_calls", list = pf_json_copy(list));
	c = pf_json_complete(json) ? calloc(1, sizeof(*c) + len * sizeof(c->calls[0]))
				   : NULL;
	if (!c) {
		json_object_put(json);
		return pf_err_set(err, -ENOMEM, "no memory for custom calls");
	}
	atomic_init(&c->refs, 1);
	c->json = json;
	for (unsigned i = 0; i < n; i++) {
		struct json_object *why =
			whys ? json_object_array_get_idx(whys, i) : NULL;

		c->libraries[i] = libraries[i];
		if (json_object_is_type(why, json_type_string))
			c->why[i] = json_object_get_string(why);
	}
	c->n_libraries = n;
	for (size_t i = 0; i < len && r == 0; i++)
		r = take_call(c, json_object_array_get_idx(list, i), err);
	if (r < 0)
		return r;
	qsort(c->calls, c->n, sizeof(c->calls[0]), by_target);
	*ret = pf_steal(&c);
	return 0;
}

static void custom_calls_free(struct pf_custom_calls *c)
{
	json_object_put(c->json);
	free(c);
}

PF_DEFINE_REF(struct pf_custom_calls, pf_custom_calls, custom_calls_free)

const struct pf_custom_call *pf_custom_calls_find(const struct pf_custom_calls *c,
						  const char *target, size_t len)
{
	size_t low = 0, high = c ? c->n : 0;

	while (low < high) {
		size_t at = low + (high - low) / 2;

		if (strncmp(c->calls[at].target, target, len) < 0)
			low = at + 1;
		else
			high = at;
	}
	return c && low < c->n && !strncmp(c->calls[low].target, target, len) &&
			       !c->calls[low].target[len] && !c->calls[low].note
		       ? &c->calls[low]
		       : NULL;
}

int pf_custom_calls_check(const struct pf_custom_calls *c, const struct pf_library *l,
			  struct pf_err *err)
{
	for (unsigned i = 0; i < c->n_libraries; i++)
		if (c->libraries[i] == l && c->why[i])
			return pf_err_set(err, -EOPNOTSUPP, "FFI library %s: %s", l->path,
					  c->why[i]);
	for (size_t i = 0; i < c->n; i++) {
		const struct pf_custom_call *call = &c->calls[i];
		bool taken = pf_custom_calls_find(c, call->target, strlen(call->target));

		if (call->library == l && call->note)
			return pf_err_set(err, taken ? -EEXIST : -EOPNOTSUPP,
					  "FFI library %s: custom call %s: %s", l->path,
					  call->target, call->note);
	}
	return 0;
}

const char *pf_custom_call_library(const struct pf_custom_call *call)
{
	return call->library ? call->library->name : "pjrtfs";
}
