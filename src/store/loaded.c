/* SPDX-License-Identifier: Apache-2.0 */
/* What one compile gave, or the cache. */
#include <errno.h>
#include <stdlib.h>

#include "pjrtfs/base/clock.h"
#include "compile.h"

/* One that is for any device is on all of them. */
static void count(struct pf_loaded *l, int change)
{
	unsigned n =
		l->n_devices ? l->n_devices : pf_worker_description(l->worker)->n_devices;

	pf_life_count(l->life, PF_ALIVE_EXECUTABLES, PF_NO_DEVICE, change);
	for (unsigned i = 0; i < n; i++)
		pf_life_count(l->life, PF_ALIVE_EXECUTABLES,
			      l->n_devices ? l->devices[i] : i, change);
	l->counted = change > 0;
}

struct pf_loaded *pf_loaded_ref(struct pf_loaded *loaded)
{
	atomic_fetch_add(&loaded->refs, 1);
	return loaded;
}

void pf_loaded_unref(struct pf_loaded *l)
{
	if (!l || atomic_fetch_sub(&l->refs, 1) != 1)
		return;
	if (l->counted)
		count(l, -1);
	pf_life_free_id(l->life, PF_OP_EXECUTABLE_FREE, l->id);
	pf_life_unref(l->life);
	pf_bytes_unref(l->program);
	pf_signature_free(l->signature);
	json_object_put(l->info);
	free(l->devices);
	free(l);
}

/* Which of the worker's devices it runs on, from the ids in INFO. */
static int find_devices(struct pf_loaded *l, struct pf_err *err)
{
	const struct pf_description *d = pf_worker_description(l->worker);
	struct json_object *ids;
	size_t n = 0;

	if (json_object_object_get_ex(l->info, "devices", &ids) &&
	    json_object_is_type(ids, json_type_array))
		n = json_object_array_length(ids);
	l->devices = calloc(n ? n : 1, sizeof(*l->devices));
	if (!l->devices || n > d->n_devices)
		return pf_err_set(err, -EPROTO, "the worker named %zu devices of %u", n,
				  d->n_devices);
	for (size_t i = 0; i < n; i++) {
		int64_t id = json_object_get_int64(json_object_array_get_idx(ids, i));
		unsigned at = 0;

		while (at < d->n_devices && d->devices[at].id != id)
			at++;
		if (at == d->n_devices)
			return pf_err_set(err, -EPROTO,
					  "the worker named an unknown device");
		l->devices[i] = at;
	}
	l->n_devices = (unsigned)n;
	return 0;
}

/* Arrays that the plugin lays out otherwise would silently hold other numbers. */
static int check_layouts(const struct pf_signature *s, struct pf_err *err)
{
	for (int out = 0; out < 2; out++) {
		const struct pf_param *p = out ? s->outputs : s->inputs;
		size_t n = out ? s->n_outputs : s->n_inputs;

		for (size_t i = 0; i < n; i++)
			if (!p[i].row_major)
				return pf_err_set(
					err, -EOPNOTSUPP,
					"%s %zu (%s) has a layout "
					"that is not row-major, which is not supported: "
					"remove mhlo.layout_mode from the program",
					out ? "output" : "input", i, p[i].name);
	}
	return 0;
}

struct pf_loaded *pf_loaded_new(struct compile *c)
{
	struct pf_loaded *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	atomic_init(&l->refs, 1);
	l->worker = c->plan.worker;
	l->life = pf_life_ref(c->life);
	l->program = pf_bytes_ref(c->program);
	l->program_len = c->len;
	l->id = c->id;
	l->native = c->native;
	l->kept = !c->native && c->can_be_kept;
	l->key = c->key;
	l->compile_seconds = pf_seconds_since(CLOCK_REALTIME, &c->start);
	return l;
}

int pf_loaded_describe(struct compile *c, struct pf_loaded *l, struct json_object *info,
		       const void *hlo, uint64_t hlo_len, bool hlo_with_config,
		       struct pf_err *err)
{
	size_t off, len = 0;
	int r;

	l->info = info;
	if (!json_object_is_type(info, json_type_object))
		return pf_err_set(err, -EPROTO, "the worker told nothing of the program");
	if (!hlo)
		return pf_err_set(err, -EOPNOTSUPP,
				  "plugin %s does not tell what the program's "
				  "arguments are",
				  pf_worker_name(c->plan.worker));
	r = pf_signature_parse(hlo, hlo_len, hlo_with_config, &l->signature, err);
	if (r == 0)
		r = pf_hlo_unwrap(hlo, hlo_len, hlo_with_config, &off, &len, err);
	l->hlo_len = len;
	if (r == 0)
		r = check_layouts(l->signature, err);
	if (r == 0)
		r = find_devices(l, err);
	if (r == 0)
		count(l, 1);
	return r;
}
