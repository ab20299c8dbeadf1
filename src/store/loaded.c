/* SPDX-License-Identifier: Apache-2.0 */
/* What one compile gave, or the cache. */
#include <errno.h>
#include <stdio.h>
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

/* --- what workers have ------------------------------------------------------------------- */

enum {
	MAPPINGS = 6,         /* that a program takes: XLA's smallest take three */
	MAX_MAPPINGS = 65530, /* of a process, where the kernel does not tell */
	AT_ONCE = 16,         /* this part of the limit is unloaded at once */
};

static struct {
	pthread_mutex_t lock; /* rank 5; protects the list */
	struct pf_loaded *first;
	_Atomic uint64_t
		loads; /* so many since the start: the time that used is told in */
	_Atomic unsigned limit; /* of each worker; 0: not known yet */
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

static unsigned default_limit(void)
{
	FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned n;

	if (!f || fscanf(f, "%u", &n) != 1 || n < MAPPINGS)
		n = MAX_MAPPINGS;
	if (f)
		fclose(f);
	return n / MAPPINGS;
}

void pf_loaded_limit(unsigned n)
{
	atomic_store(&all.limit, n ? n : default_limit());
}

static unsigned limit(void)
{
	if (!atomic_load(&all.limit))
		pf_loaded_limit(0);
	return atomic_load(&all.limit);
}

bool pf_loaded_use(struct pf_loaded *l)
{
	uint64_t now = atomic_load_explicit(&all.loads, memory_order_relaxed);

	if (atomic_load_explicit(&l->used, memory_order_relaxed) != now)
		atomic_store_explicit(&l->used, now, memory_order_relaxed);
	/* The caller's reference came first: see unload_locked. */
	return !atomic_load(&l->unloaded) && pf_life_alive(l->life);
}

/* Have the worker drop L, unless somebody uses it. */
static bool unload_locked(struct pf_loaded *l)
{
	atomic_store(&l->unloaded, true);
	/* Who takes a reference from now on sees that, who had one before is seen here. */
	if (atomic_load(&l->refs) > 1) {
		atomic_store(&l->unloaded, false);
		return false;
	}
	count(l, -1);
	pf_life_free_id(l->life, PF_OP_EXECUTABLE_FREE, l->id);
	return true;
}

static void unlink_locked(struct pf_loaded *l)
{
	if (l->prev)
		l->prev->next = l->next;
	else if (all.first == l)
		all.first = l->next;
	if (l->next)
		l->next->prev = l->prev;
	l->prev = l->next = NULL;
}

static int by_use(const void *a, const void *b)
{
	const struct pf_loaded *const *x = a, *const *y = b;
	uint64_t m = atomic_load(&(*x)->used), n = atomic_load(&(*y)->used);

	return (m > n) - (m < n);
}

/* Unload N of LIFE's, which has HAS, those that were used longest ago; but never L. */
static void unload_oldest_locked(const struct pf_loaded *l, size_t has, size_t n)
{
	pf_autofree struct pf_loaded **list = calloc(has, sizeof(struct pf_loaded *));
	size_t at = 0;

	for (struct pf_loaded *o = all.first; list && o && at < has; o = o->next)
		if (o->life == l->life && o != l)
			list[at++] = o;
	if (!list)
		return; /* the next one that is loaded tries again */
	qsort(list, at, sizeof(*list), by_use);
	for (size_t i = 0; i < at && n; i++) {
		if (unload_locked(list[i])) {
			unlink_locked(list[i]);
			n--;
		}
	}
}

/* A worker has L now, and others as well as there is room. */
static void loaded_add(struct pf_loaded *l)
{
	unsigned has;

	count(l, 1);
	PF_LOCK_SCOPE(&all.lock);
	atomic_store(&l->used, atomic_fetch_add(&all.loads, 1) + 1);
	has = pf_worker_alive(l->worker, PF_ALIVE_EXECUTABLES, PF_NO_DEVICE);
	l->next = all.first;
	if (l->next)
		l->next->prev = l;
	all.first = l;
	if (has > limit())
		unload_oldest_locked(l, has, has - limit() + limit() / AT_ONCE);
}

static void loaded_remove(struct pf_loaded *l)
{
	PF_LOCK_SCOPE(&all.lock);
	unlink_locked(l);
}

/* --- one -------------------------------------------------------------------------------- */

struct pf_loaded *pf_loaded_ref(struct pf_loaded *loaded)
{
	atomic_fetch_add(&loaded->refs, 1);
	return loaded;
}

void pf_loaded_unref(struct pf_loaded *l)
{
	if (!l || atomic_fetch_sub(&l->refs, 1) != 1)
		return;
	loaded_remove(l);
	if (l->counted)
		count(l, -1);
	if (!atomic_load(&l->unloaded))
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
	l->platform = c->plan.platform;
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
	if (r == 0 && l->platform)
		r = pf_signature_drop_platform(l->signature, err);
	if (r == 0 && pf_program_name_inputs(&c->facts, pf_bytes_at(c->program, 0),
					     c->len, l->signature) < 0)
		r = pf_err_set(err, -ENOMEM, "no memory for the program's signature");
	if (r == 0)
		r = pf_hlo_unwrap(hlo, hlo_len, hlo_with_config, &off, &len, err);
	l->hlo_len = len;
	if (r == 0)
		r = check_layouts(l->signature, err);
	if (r == 0)
		r = find_devices(l, err);
	if (r == 0)
		loaded_add(l);
	return r;
}
