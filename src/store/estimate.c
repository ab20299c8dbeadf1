/* SPDX-License-Identifier: Apache-2.0 */
/* What a program costs: what its compiler estimates, and whether its devices have room for it. */
#include <math.h>
#include <stdint.h>

#include "internal.h"
#include "pjrtfs/json.h"

enum { STATS_S = 1 };

/* Add the number under KEY of FACTS to O as NAME if it is one that is known, above 0 or ZERO_TOO; else
 * null. */
static void add_number(struct json_object *o, const char *name, struct json_object *facts,
		       const char *key, bool zero_too)
{
	struct json_object *v = pf_json_get(facts, key, json_type_double);
	double number;

	if (!v)
		v = pf_json_get(facts, key, json_type_int);
	number = v ? json_object_get_double(v) : -1;
	if (!isfinite(number) || number < 0 || (number == 0 && !zero_too))
		v = NULL;
	pf_json_add_copy(o, name, v);
}

/* Add to O the bytes that a program of INFO needs in the memory of a device, and which of its facts that
 * is.  The object of the bytes, borrowed; NULL: not known. */
static struct json_object *add_memory(struct json_object *o, struct json_object *info)
{
	/* A plugin that does not know the peak may say 0. */
	static const char *const keys[] = { "peak_memory_in_bytes", "requirements" };
	struct json_object *memory = pf_json_get(info, "memory", json_type_object);

	for (size_t i = 0; i < PF_ARRAY_SIZE(keys); i++) {
		struct json_object *bytes = pf_json_get(memory, keys[i], json_type_int);

		if (!bytes || json_object_get_int64(bytes) <= 0)
			continue;
		pf_json_add_copy(o, "memory_bytes", bytes);
		pf_json_add_string(o, "memory_from", keys[i]);
		return bytes;
	}
	pf_json_add_copy(o, "memory_bytes", NULL);
	pf_json_add_copy(o, "memory_from", NULL);
	return NULL;
}

/* Add the bytes that programs may have on device INDEX of WORKER to O, or null: not known. */
static void add_limit(struct json_object *o, struct pf_worker *worker, unsigned index)
{
	const struct pf_device_desc *d = &pf_worker_description(worker)->devices[index];
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct json_object *stats = NULL, *limit = NULL;
	struct pf_err err = PF_ERR_INIT;

	if (d->addressable &&
	    pf_worker_ask(worker, PF_OP_MEMORY_STATS, index, STATS_S, &text, &err) == 0 &&
	    pf_json_parse(text.data, text.len, &stats, NULL) == 0)
		limit = pf_json_get(stats, "bytes_limit", json_type_int);
	if (!limit)
		limit = pf_json_get(d->attributes, "device_memory_bytes_limit",
				    json_type_int);
	pf_json_add_copy(o, "memory_limit_bytes", limit);
	json_object_put(stats);
}

/* The devices of the mount that L runs on. */
static struct json_object *devices_of(const struct pf_loaded *l)
{
	const struct pf_description *d = pf_worker_description(l->worker);
	unsigned n = l->n_devices ? l->n_devices : d->n_devices;
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < n; i++) {
		unsigned at = l->n_devices ? l->devices[i] : i;
		struct json_object *o = json_object_new_object();

		pf_json_add_string(o, "kind", d->devices[at].kind);
		pf_json_add_int(o, "id", d->devices[at].id);
		add_limit(o, l->worker, at);
		pf_json_add_int(o, "devices", 1);
		pf_json_append(list, o);
	}
	return list;
}

/* A fact that is true, false or not known. */
enum fits { FITS_NOT, FITS_UNKNOWN, FITS };

static void add_fits(struct json_object *o, enum fits fits)
{
	if (fits == FITS_UNKNOWN)
		pf_json_add_copy(o, "fits", NULL);
	else
		pf_json_add(o, "fits", json_object_new_boolean(fits == FITS));
}

/* Add to each of DEVICES whether it has room for BYTES (NULL: not known).  Have all? */
static enum fits compare(struct json_object *devices, struct json_object *bytes)
{
	size_t n = devices ? json_object_array_length(devices) : 0;
	enum fits all = n ? FITS : FITS_UNKNOWN;

	for (size_t i = 0; i < n; i++) {
		struct json_object *o = json_object_array_get_idx(devices, i);
		struct json_object *limit =
			pf_json_get(o, "memory_limit_bytes", json_type_int);
		enum fits one = FITS_UNKNOWN;

		if (bytes && limit)
			one = json_object_get_int64(bytes) <= json_object_get_int64(limit)
				      ? FITS
				      : FITS_NOT;
		add_fits(o, one);
		if (one < all)
			all = one;
	}
	return all;
}

/* The kinds of devices of the topology that L is for; NULL: no memory. */
static struct json_object *kinds_of(const struct pf_loaded *l)
{
	struct json_object *kinds =
		pf_json_get(l->info, "topology_devices", json_type_array);

	return kinds ? pf_json_copy(kinds) : json_object_new_array();
}

struct json_object *pf_executable_estimate(struct pf_executable *x)
{
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *l = pf_executable_known(x);
	struct json_object *o = json_object_new_object(), *cost, *devices, *bytes;

	if (!l)
		return o;
	cost = pf_json_get(l->info, "cost", json_type_object);
	devices = l->for_topology ? kinds_of(l) : devices_of(l);
	pf_json_add_string(o, "plugin", pf_worker_name(l->worker));
	pf_json_add(o, "for_topology", json_object_new_boolean(l->for_topology));
	/* Where XLA knows no speeds, it says 0 seconds; where it cannot count, a negative number. */
	add_number(o, "optimal_seconds", cost, "optimal_seconds", false);
	add_number(o, "flops", cost, "flops", true);
	add_number(o, "bytes_accessed", cost, "bytes accessed", true);
	bytes = add_memory(o, l->info);
	add_fits(o, compare(devices, bytes));
	pf_json_add(o, "devices", devices);
	return o;
}
