/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers and executables by id. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "internal.h"
#include "pjrtfs/base.h"

void pf_objects_init(struct pf_objects *objects)
{
	*objects = (struct pf_objects){ 0 };
	if (pthread_mutex_init(&objects->lock, NULL))
		abort();
}

static void destroy(const struct pf_object *object)
{
	pj_buffer_destroy(object->plugin, object->buffer);
	pj_executable_free(object->executable);
}

struct pf_object *pf_object_new(const struct pf_object *with)
{
	struct pf_object *object = malloc(sizeof(*object));

	if (!object) {
		destroy(with);
		return NULL;
	}
	*object = *with;
	atomic_init(&object->refs, 1);
	return object;
}

static void object_free(struct pf_object *object)
{
	destroy(object);
	free(object);
}

PF_DEFINE_REF(struct pf_object, pf_object, object_free)

int pf_objects_put(struct pf_objects *objects, const uint64_t *ids,
		   struct pf_object *const *put, size_t n, struct pf_err *err)
{
	struct pf_map *map = n ? &objects->maps[put[0]->kind] : NULL;
	size_t done = 0;
	int r = 0;

	PF_LOCK_SCOPE(&objects->lock);
	for (; r == 0 && done < n; done++) {
		if (!ids[done] || pf_map_get(map, ids[done])) {
			r = pf_err_set(err, -EPROTO, "id %" PRIu64 " is 0 or in use",
				       ids[done]);
			break;
		}
		r = pf_map_put(map, ids[done], put[done]);
		if (r < 0) {
			pf_err_set(err, r, "no memory for an object");
			break;
		}
		pf_object_ref(put[done]);
	}
	if (r == 0)
		return 0;
	while (done > 0) {
		/* The caller keeps its reference: nothing is destroyed under the lock. */
		pf_map_remove(map, ids[--done]);
		atomic_fetch_sub(&put[done]->refs, 1);
	}
	return r;
}

int pf_objects_get(struct pf_objects *objects, const uint64_t *ids, size_t n,
		   enum pf_object_kind kind, struct pf_object **ret, struct pf_err *err)
{
	size_t got;

	pf_lock(&objects->lock);
	for (got = 0; got < n; got++) {
		ret[got] = ids[got] ? pf_map_get(&objects->maps[kind], ids[got]) : NULL;
		if (!ret[got])
			break;
		pf_object_ref(ret[got]);
	}
	pf_unlock(&objects->lock);
	if (got == n)
		return 0;
	for (size_t i = 0; i < got; i++)
		pf_object_unref(ret[i]);
	return pf_err_set(err, -ENOENT, "the worker has no %s %" PRIu64,
			  kind == PF_OBJECT_BUFFER ? "buffer" : "executable", ids[got]);
}

void pf_objects_remove(struct pf_objects *objects, uint64_t id, enum pf_object_kind kind)
{
	struct pf_object *object;

	if (!id)
		return;
	pf_lock(&objects->lock);
	object = pf_map_remove(&objects->maps[kind], id);
	pf_unlock(&objects->lock);
	pf_object_unref(object); /* slow: not under the lock */
}
