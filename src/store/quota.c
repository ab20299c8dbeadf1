/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts of users, their maxima, and what is charged to them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/quota.h"
#include "pjrtfs/state.h"

enum { MAX_JOBS = 10000 }; /* unless another maximum is set */

/* The resources of a worker's devices begin at FIRST. */
struct place {
	const struct pf_worker *worker;
	unsigned first;
};

struct pf_quotas {
	uid_t owner;
	unsigned n;           /* resources of an account */
	char **names;         /* owned: of each; NULL: the device cannot be addressed */
	uint64_t *defaults;   /* owned: maxima; set before there are accounts */
	struct place *places; /* owned */
	unsigned n_places;
	uint64_t (*reclaim)(struct pf_account *account, uint64_t need);

	pthread_mutex_t lock;   /* rank 8; protects the field below */
	struct pf_map accounts; /* owned values, by user + 1 */
};

/* --- the resources ------------------------------------------------------------------------ */

/* The kind of RESOURCE. */
static enum pf_resource kind_of(unsigned resource)
{
	return resource < PF_RESOURCES
		       ? (enum pf_resource)resource
		       : pf_device_resource_kind[(resource - PF_RESOURCES) %
						 PF_DEVICE_RESOURCES];
}

unsigned pf_quota_resources(const struct pf_quotas *q)
{
	return q->n;
}

const char *pf_quota_name(const struct pf_quotas *q, unsigned resource)
{
	return q->names[resource];
}

/* The resource with this NAME; q->n: the mount has none. */
static unsigned find_resource(const struct pf_quotas *q, const char *name)
{
	unsigned i = 0;

	while (i < q->n && (!q->names[i] || strcmp(q->names[i], name)))
		i++;
	return i;
}

unsigned pf_account_device(const struct pf_account *a, const struct pf_worker *worker,
			   unsigned index, enum pf_device_resource what)
{
	const struct pf_quotas *q = a ? a->quotas : NULL;

	for (unsigned i = 0; q && i < q->n_places; i++)
		if (q->places[i].worker == pf_worker_shared(worker))
			return q->places[i].first + index * PF_DEVICE_RESOURCES + what;
	return PF_NOT_COUNTED;
}

/* Name the resources of the devices of the worker at PLACE. */
static int name_devices(struct pf_quotas *q, const struct place *place)
{
	const struct pf_description *d = pf_worker_description(place->worker);
	unsigned n = d->n_devices * PF_DEVICE_RESOURCES;

	for (unsigned i = 0; i < n; i++) {
		const struct pf_device_desc *device =
			&d->devices[i / PF_DEVICE_RESOURCES];
		unsigned resource = place->first + i;

		if (device->addressable &&
		    asprintf(&q->names[resource], "%s:%lld/%s",
			     pf_worker_name(place->worker), (long long)device->id,
			     pf_resource_words[kind_of(resource)].name) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int name_all(struct pf_quotas *q, struct pf_worker *const *workers, unsigned n)
{
	int r = 0;

	q->n = PF_RESOURCES;
	q->places = calloc(n + 1, sizeof(*q->places));
	for (unsigned i = 0; q->places && i < n; i++) {
		q->places[q->n_places++] = (struct place){ workers[i], q->n };
		q->n += pf_worker_description(workers[i])->n_devices *
			PF_DEVICE_RESOURCES;
	}
	q->names = calloc(q->n, sizeof(*q->names));
	q->defaults = malloc(q->n * sizeof(*q->defaults));
	if (!q->places || !q->names || !q->defaults)
		return -ENOMEM;
	for (unsigned i = 0; i < q->n; i++)
		q->defaults[i] = PF_NO_LIMIT;
	q->defaults[PF_JOBS] = MAX_JOBS;
	for (unsigned i = 0; i < PF_RESOURCES && r == 0; i++)
		r = (q->names[i] = strdup(pf_resource_words[i].name)) ? 0 : -ENOMEM;
	for (unsigned i = 0; i < n && r == 0; i++)
		r = name_devices(q, &q->places[i]);
	return r;
}

void pf_quotas_free(struct pf_quotas *q)
{
	struct pf_account *account;
	size_t pos = 0;

	if (!q)
		return;
	while ((account = pf_map_next(&q->accounts, &pos))) {
		pf_buf_release(&account->absent);
		free(account);
	}
	pf_map_release(&q->accounts);
	for (unsigned i = 0; q->names && i < q->n; i++)
		free(q->names[i]);
	free(q->names);
	free(q->defaults);
	free(q->places);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

void pf_quotas_set_reclaim(struct pf_quotas *q,
			   uint64_t (*reclaim)(struct pf_account *account, uint64_t need))
{
	q->reclaim = reclaim;
}

/* --- accounts ----------------------------------------------------------------------------- */

/* The defaults are for users to whom the mount does not belong. */
static struct pf_account *make(struct pf_quotas *q, uid_t uid)
{
	struct pf_account *a = calloc(1, sizeof(*a) + q->n * sizeof(a->limits[0]));
	bool limited = uid != 0 && uid != q->owner;

	if (!a)
		return NULL;
	a->quotas = q;
	a->uid = uid;
	for (unsigned i = 0; i < q->n; i++) {
		a->limits[i].account = a;
		atomic_init(&a->limits[i].max, limited ? q->defaults[i] : PF_NO_LIMIT);
	}
	if (!limited)
		a->limits[PF_JOBS].max = MAX_JOBS;
	return a;
}

struct pf_account *pf_account_of(struct pf_quotas *q, uid_t uid)
{
	uint64_t key = (uint64_t)uid + 1;
	struct pf_account *a;

	PF_LOCK_SCOPE(&q->lock);
	a = pf_map_get(&q->accounts, key);
	if (a)
		return a;
	a = make(q, uid);
	if (a && pf_map_put(&q->accounts, key, a) < 0)
		free(pf_steal(&a));
	return a;
}

struct pf_account *pf_account_find(struct pf_quotas *q, uid_t uid)
{
	PF_LOCK_SCOPE(&q->lock);
	return pf_map_get(&q->accounts, (uint64_t)uid + 1);
}

struct pf_account **pf_accounts(struct pf_quotas *q, size_t *n)
{
	struct pf_account **all, *a;
	size_t pos = 0;

	*n = 0;
	PF_LOCK_SCOPE(&q->lock);
	all = calloc(q->accounts.used + 1, sizeof(struct pf_account *));
	while (all && (a = pf_map_next(&q->accounts, &pos)))
		all[(*n)++] = a;
	return all;
}

bool pf_account_in_use(const struct pf_account *a)
{
	bool used = a->set;

	for (unsigned i = 0; i < a->quotas->n && !used; i++)
		used = a->limits[i].current != 0;
	return used;
}

/* --- the journal -------------------------------------------------------------------------- */

/*
 * The payload of PF_STATE_USER.  Words follow, as in the options ("1001:cpu:0/memory=4096"), each with
 * a newline: one for each maximum that was changed.  The next daemon may have other plugins, or
 * plugins with other devices, so it finds each maximum by its name.
 */
struct record {
	uint64_t compile_ms;
};

void pf_account_save(struct pf_account *a)
{
	pf_autobuf struct pf_buf words = PF_BUF_INIT;
	struct record record;

	if (!a || !pf_state_on())
		return;
	/* Of two threads the later one writes what both have changed. */
	PF_LOCK_SCOPE(&a->quotas->lock);
	record.compile_ms = a->limits[PF_COMPILE_MS].current;
	for (unsigned i = 0; i < a->quotas->n; i++) {
		if (!a->limits[i].changed)
			continue;
		pf_buf_printf(&words, "%u:%s=", a->uid, a->quotas->names[i]);
		pf_quota_max_print(pf_limit_max(&a->limits[i]), &words);
	}
	pf_buf_append(&words, a->absent.data, a->absent.len);
	if (!words.failed)
		pf_state_put(PF_STATE_USER, a->uid, &record, sizeof(record), words.data,
			     words.len);
}

void pf_account_list(struct pf_account *a)
{
	a->set = true;
	pf_account_save(a);
}

/* WORD is of A's record. */
static void restore_word(struct pf_account *a, const char *word)
{
	struct pf_quota_word w;
	unsigned i = a->quotas->n;

	if (pf_quota_word_parse(word, &w, NULL) == 0)
		i = find_resource(a->quotas, w.name);
	if (i == a->quotas->n) {
		pf_buf_printf(&a->absent, "%s\n", word);
		return;
	}
	a->limits[i].max = w.max;
	a->limits[i].changed = a->set = true;
}

/* Make the accounts that the journal has.  No other thread has Q yet. */
static void restore(struct pf_quotas *q)
{
	size_t n = 0, len;
	pf_autofree uint64_t *uids = pf_state_list(PF_STATE_USER, &n);

	for (size_t k = 0; uids && k < n; k++) {
		const struct record *record = pf_state_load(PF_STATE_USER, uids[k],
							    sizeof(*record), &len, NULL);
		struct pf_account *a = pf_account_of(q, (uid_t)uids[k]);
		pf_autofree char *words = NULL;

		if (!record || !a)
			continue;
		a->limits[PF_COMPILE_MS].current = record->compile_ms;
		words = strndup((const char *)(record + 1), len);
		for (char *save, *word = words ? strtok_r(words, "\n", &save) : NULL;
		     word; word = strtok_r(NULL, "\n", &save))
			restore_word(a, word);
	}
}

/* --- maxima ------------------------------------------------------------------------------- */

static unsigned resource_of(const struct pf_limit *limit)
{
	return (unsigned)(limit - limit->account->limits);
}

static const struct pf_resource_words *words_of(const struct pf_limit *limit)
{
	return &pf_resource_words[kind_of(resource_of(limit))];
}

uint64_t pf_limit_current(const struct pf_limit *limit)
{
	return limit->current / words_of(limit)->scale;
}

uint64_t pf_limit_max(const struct pf_limit *limit)
{
	uint64_t max = limit->max;

	return max == PF_NO_LIMIT ? max : max / words_of(limit)->scale;
}

int pf_limit_set(struct pf_limit *limit, const char *text, struct pf_err *err)
{
	size_t len = strcspn(text, "\n");
	pf_autofree char *line = strndup(text, len);
	uint64_t max = 0;
	int r = line ? 0 : pf_err_set(err, -ENOMEM, "no memory for a line");

	if (r == 0 && text[len] && text[len + 1])
		r = pf_err_set(err, -EINVAL, "expected one line");
	if (r == 0)
		r = pf_quota_max_parse(line, kind_of(resource_of(limit)), &max, err);
	if (r < 0)
		return r;
	limit->max = max;
	limit->changed = true;
	pf_account_list(limit->account);
	return 0;
}

/* Set the maximum of W, an account's or the default. */
static int set_word(struct pf_quotas *q, const struct pf_quota_word *w,
		    struct pf_err *err)
{
	struct pf_account *a;
	unsigned i = find_resource(q, w->name);

	if (i == q->n)
		return pf_err_set(err, -ENODEV, "quota %s: the mount has no such device",
				  w->name);
	if (!w->has_uid) {
		q->defaults[i] = w->max;
		return 0;
	}
	a = pf_account_of(q, w->uid);
	if (!a)
		return pf_err_set(err, -ENOMEM, "no memory for quotas");
	a->limits[i].max = w->max;
	a->set = true;
	return 0;
}

/* Set the words for all users, which accounts begin with, then those for one. */
static int set_words(struct pf_quotas *q, const char *const *words, struct pf_err *err)
{
	struct pf_quota_word w;
	int r = 0;

	for (int own = 0; own < 2; own++)
		for (const char *const *at = words; at && *at && r == 0; at++) {
			r = pf_quota_word_parse(*at, &w, err);
			if (r == 0 && w.has_uid == own)
				r = set_word(q, &w, err);
		}
	return r;
}

int pf_quotas_new(uid_t owner, struct pf_worker *const *workers, unsigned n,
		  const char *const *words, struct pf_quotas **ret, struct pf_err *err)
{
	struct pf_quotas *q = calloc(1, sizeof(*q));
	int r;

	if (!q)
		return pf_err_set(err, -ENOMEM, "no memory for quotas");
	if (pthread_mutex_init(&q->lock, NULL))
		abort();
	q->owner = owner;
	r = name_all(q, workers, n);
	r = r < 0 ? pf_err_set(err, r, "no memory for quotas") : set_words(q, words, err);
	if (r < 0) {
		pf_quotas_free(q);
		return r;
	}
	restore(q);
	*ret = q;
	return 0;
}

/* --- charges ------------------------------------------------------------------------------ */

static struct pf_limit *limit_of(struct pf_account *a, unsigned resource)
{
	return a && resource != PF_NOT_COUNTED ? &a->limits[resource] : NULL;
}

/* Charge N more, unless that is beyond the maximum. */
static bool try_charge(struct pf_limit *limit, uint64_t n)
{
	uint64_t had = atomic_load(&limit->current), max;

	do {
		max = atomic_load(&limit->max);
		if (had > max || n > max - had)
			return false;
	} while (!atomic_compare_exchange_weak(&limit->current, &had, had + n));
	return true;
}

static int refuse(const struct pf_limit *limit, uint64_t n, struct pf_err *err)
{
	const struct pf_account *a = limit->account;
	char more[64] = "";

	if (words_of(limit)->scale == 1 && n > 1)
		snprintf(more, sizeof(more), " and wants %" PRIu64 " more", n);
	return pf_err_set(err, -EDQUOT,
			  "user %u has %" PRIu64 " of %" PRIu64 " %s%s: users/%u/%s.max",
			  a->uid, pf_limit_current(limit), pf_limit_max(limit),
			  words_of(limit)->unit, more, a->uid,
			  a->quotas->names[resource_of(limit)]);
}

int pf_account_charge(struct pf_account *a, unsigned resource, uint64_t n,
		      struct pf_err *err)
{
	struct pf_limit *limit = limit_of(a, resource);

	while (limit && !try_charge(limit, n))
		if (resource != PF_MEMORY || !a->quotas->reclaim ||
		    n > atomic_load(&limit->max) || !a->quotas->reclaim(a, n))
			return refuse(limit, n, err);
	return 0;
}

bool pf_account_is_limited(struct pf_account *a, unsigned resource)
{
	const struct pf_limit *limit = limit_of(a, resource);

	return limit && atomic_load(&limit->max) != PF_NO_LIMIT;
}

void pf_account_force(struct pf_account *a, unsigned resource, uint64_t n)
{
	struct pf_limit *limit = limit_of(a, resource);

	if (limit)
		atomic_fetch_add(&limit->current, n);
}

void pf_account_discharge(struct pf_account *a, unsigned resource, uint64_t n)
{
	struct pf_limit *limit = limit_of(a, resource);

	if (limit)
		atomic_fetch_sub(&limit->current, n);
}

void pf_account_move(struct pf_account *from, struct pf_account *to, unsigned resource,
		     uint64_t n)
{
	if (from == to)
		return;
	pf_account_force(to, resource, n);
	pf_account_discharge(from, resource, n);
}

int pf_memory_charge(struct pf_arena *arena, struct pf_account *a, uint64_t bytes,
		     struct pf_err *err)
{
	int r = pf_account_charge(a, PF_MEMORY, bytes, err);

	if (r < 0)
		return r;
	r = pf_arena_charge(arena, bytes, err);
	if (r < 0)
		pf_account_discharge(a, PF_MEMORY, bytes);
	return r;
}

void pf_memory_force(struct pf_arena *arena, struct pf_account *a, uint64_t bytes)
{
	pf_account_force(a, PF_MEMORY, bytes);
	pf_arena_force(arena, bytes);
}

void pf_memory_discharge(struct pf_arena *arena, struct pf_account *a, uint64_t bytes)
{
	pf_arena_discharge(arena, bytes);
	pf_account_discharge(a, PF_MEMORY, bytes);
}

/* --- files -------------------------------------------------------------------------------- */

static void force_file(const struct pf_file_charge *charge, struct pf_account *a)
{
	pf_account_force(a, PF_MEMORY, charge->heap);
	pf_account_force(a, charge->resource, 1);
}

static void discharge_file(const struct pf_file_charge *charge, struct pf_account *a)
{
	pf_account_discharge(a, PF_MEMORY, charge->heap);
	pf_account_discharge(a, charge->resource, 1);
}

int pf_file_charge(struct pf_file_charge *charge, struct pf_arena *arena,
		   struct pf_account *a, enum pf_resource resource, uint64_t heap,
		   bool forced, struct pf_err *err)
{
	int r = 0;

	charge->resource = resource == PF_RESOURCES ? PF_NOT_COUNTED : resource;
	charge->arena = arena;
	charge->heap = heap;
	if (!a)
		return 0;
	if (forced) {
		force_file(charge, a);
		pf_arena_force(arena, heap);
	} else {
		r = pf_account_charge(a, charge->resource, 1, err);
		if (r < 0)
			return r;
		r = pf_memory_charge(arena, a, heap, err);
		if (r < 0)
			pf_account_discharge(a, charge->resource, 1);
	}
	if (r == 0)
		atomic_store(&charge->account, a);
	return r;
}

void pf_file_charge_move(struct pf_file_charge *charge, struct pf_account *to)
{
	struct pf_account *from = atomic_load(&charge->account);

	if (!to || !from || from == to)
		return;
	/* Before another thread can discharge it. */
	force_file(charge, to);
	while (from && !atomic_compare_exchange_weak(&charge->account, &from, to))
		;
	discharge_file(charge, from ? from : to);
}

void pf_file_discharge(struct pf_file_charge *charge)
{
	struct pf_account *a = atomic_exchange(&charge->account, NULL);

	if (!a)
		return;
	discharge_file(charge, a);
	pf_arena_discharge(charge->arena, charge->heap);
}
