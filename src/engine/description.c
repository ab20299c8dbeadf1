/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/engine.h"

/* Limits, because the worker is not trusted. */
enum { MAX_DEVICES = 4096, MAX_MEMORIES = 64 };

/* Slots of a device. */
enum {
	SLOTS = 4, /* one runs, the next ones are ready */
	MAX_SLOTS = 32,
	MAX_HELD = 40, /* the worker has threads for them */
	LONG_MS = 500,
};

static int64_t int_of(struct json_object *o, const char *key, int64_t otherwise)
{
	struct json_object *v = pf_json_get(o, key, json_type_int);

	return v ? json_object_get_int64(v) : otherwise;
}

static bool bool_of(struct json_object *o, const char *key)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v) && json_object_get_boolean(v);
}

static int parse_device(struct json_object *o, struct pf_device_desc *d,
			struct pf_err *err)
{
	struct json_object *memories = pf_json_get(o, "memories", json_type_array);
	size_t n = memories ? json_object_array_length(memories) : 0;

	d->id = int_of(o, "id", -1);
	d->local_hardware_id = int_of(o, "local_hardware_id", -1);
	d->process_index = int_of(o, "process_index", 0);
	d->addressable = bool_of(o, "addressable");
	d->kind = pf_json_get_string(o, "kind");
	d->description = pf_json_get_string(o, "description");
	d->debug = pf_json_get_string(o, "debug");
	d->attributes = pf_json_get(o, "attributes", json_type_object);
	d->default_memory = (unsigned)int_of(o, "default_memory", 0);
	if (n > MAX_MEMORIES || (n && d->default_memory >= n))
		return pf_err_set(err, -EPROTO,
				  "the worker described a device with %zu "
				  "memories, default %u",
				  n, d->default_memory);
	d->memories = calloc(n ? n : 1, sizeof(*d->memories));
	if (!d->memories)
		return pf_err_set(err, -ENOMEM, "no memory for a device's description");
	d->n_memories = (unsigned)n;
	for (size_t i = 0; i < n; i++) {
		struct json_object *m = json_object_array_get_idx(memories, i);

		d->memories[i].id = int_of(m, "id", -1);
		d->memories[i].kind = pf_json_get_string(m, "kind");
		d->memories[i].description = pf_json_get_string(m, "description");
	}
	return 0;
}

/* The failure that the worker reports. */
static int failure(struct json_object *json, struct pf_err *err)
{
	int code = (int)int_of(json, "errno", -EIO);
	const char *why = pf_json_get_string(json, "error");

	return pf_err_set(err, code < 0 && code > -4096 ? code : -EIO, "%s",
			  *why ? why : "the worker failed to start and did not say why");
}

/* Read the description in D->json. */
static int parse(struct pf_description *d, struct pf_err *err)
{
	struct json_object *version, *devices;

	if (!json_object_is_type(d->json, json_type_object))
		return pf_err_set(err, -EPROTO,
				  "the worker's answer is not a JSON object");
	if (!bool_of(d->json, "ok"))
		return failure(d->json, err);
	version = pf_json_get(d->json, "api_version", json_type_array);
	devices = pf_json_get(d->json, "devices", json_type_array);
	if (!version || json_object_array_length(version) != 2 || !devices ||
	    json_object_array_length(devices) > MAX_DEVICES)
		return pf_err_set(err, -EPROTO,
				  "the worker's description lacks a version or devices");
	d->api_major = json_object_get_int(json_object_array_get_idx(version, 0));
	d->api_minor = json_object_get_int(json_object_array_get_idx(version, 1));
	d->platform = pf_json_get_string(d->json, "platform");
	d->platform_version = pf_json_get_string(d->json, "platform_version");
	d->attributes = pf_json_get(d->json, "attributes", json_type_object);
	d->extensions = pf_json_get(d->json, "extensions", json_type_array);
	d->compiler = json_object_get_string(
		pf_json_get(d->json, "compiler", json_type_string));
	if (d->compiler && json_object_array_length(devices))
		return pf_err_set(err, -EPROTO, "the worker has devices, but no client");
	d->devices = calloc(json_object_array_length(devices) + 1, sizeof(*d->devices));
	if (!d->devices)
		return pf_err_set(err, -ENOMEM, "no memory for a plugin's description");
	while (d->n_devices < json_object_array_length(devices)) {
		unsigned i = d->n_devices++;
		int r = parse_device(json_object_array_get_idx(devices, i),
				     &d->devices[i], err);

		if (r < 0)
			return r;
	}
	return 0;
}

int pf_description_parse(const char *text, size_t len, struct pf_description *ret,
			 struct pf_err *err)
{
	struct pf_description d = { 0 };
	int r;

	if (pf_json_parse(text, len, &d.json, NULL) == -ENOMEM)
		return pf_err_set(err, -ENOMEM, "no memory for a plugin's description");
	r = parse(&d, err);
	if (r < 0)
		pf_description_release(&d);
	else
		*ret = d;
	return r;
}

void pf_description_release(struct pf_description *d)
{
	for (unsigned i = 0; i < d->n_devices; i++)
		free(d->devices[i].memories);
	free(d->devices);
	json_object_put(d->json);
	memset(d, 0, sizeof(*d));
}

struct pf_plugin_meter *pf_description_meter(const struct pf_description *d,
					     struct pf_telemetry *telemetry,
					     const char *name)
{
	pf_autofree int64_t *ids = calloc(d->n_devices + 1, sizeof(*ids));

	for (unsigned i = 0; ids && i < d->n_devices; i++)
		ids[i] = d->devices[i].id;
	return ids ? pf_metrics_plugin(telemetry, name, d->n_devices, ids) : NULL;
}

/* Are the devices this host's processors? */
static bool runs_on_host(const struct pf_description *d)
{
	return d->platform && !strcmp(d->platform, "cpu");
}

bool pf_description_is_host(const struct pf_description *d, unsigned device,
			    unsigned memory)
{
	static const char host[] = "_host";
	const struct pf_device_desc *desc;
	size_t len;

	if (runs_on_host(d))
		return true;
	if (device >= d->n_devices)
		return false;
	desc = &d->devices[device];
	if (memory == PF_DEFAULT_MEMORY)
		memory = desc->default_memory;
	if (memory >= desc->n_memories)
		return false;
	len = strlen(desc->memories[memory].kind);
	return len >= sizeof(host) - 1 &&
	       !strcmp(desc->memories[memory].kind + len - (sizeof(host) - 1), host);
}

struct pf_sched *pf_description_sched(const struct pf_description *d)
{
	struct pf_sched_config config = {
		.n_queues = d->n_devices,
		.slots = SLOTS,
		.max_held = MAX_HELD,
		.long_ms = LONG_MS,
	};
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (runs_on_host(d) && cores > SLOTS)
		config.slots = cores < MAX_SLOTS ? (unsigned)cores : MAX_SLOTS;
	return pf_sched_new(&config);
}
