/* SPDX-License-Identifier: Apache-2.0 */
/* Compile options: those of one program and those of the whole mount. */
#include <string.h>

#include "pjrtfs/base/json.h"
#include "pjrtfs/formats/options.h"

static const char flags_key[] = "env_option_overrides";

static bool has(struct json_object *o, const char *key)
{
	return json_object_object_get_ex(o, key, NULL);
}

/* Does what OWN says take the place of the default KEY? */
static bool is_replaced(struct json_object *own, const char *key)
{
	static const char *const places[] = { "plugin", "device", "device_assignment" };
	bool placed = false, place = false;

	if (has(own, key))
		return true;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		placed |= has(own, places[i]);
		place |= !strcmp(key, places[i]);
	}
	if (!strcmp(key, "num_replicas") || !strcmp(key, "num_partitions"))
		return has(own, "device_assignment");
	return placed && place;
}

/* Add to O what of DEFAULTS the object OWN does not say. */
static bool add(struct json_object *o, struct json_object *own,
		struct json_object *defaults)
{
	json_object_object_foreach(defaults, key, value) {
		struct json_object *copy;

		if (is_replaced(own, key))
			continue;
		copy = pf_json_copy(value);
		if ((value && !copy) || json_object_object_add(o, key, copy)) {
			json_object_put(copy);
			return false;
		}
	}
	return true;
}

struct json_object *pf_options_merge(struct json_object *own,
				     struct json_object *defaults)
{
	struct json_object *o = own ? pf_json_copy(own) : json_object_new_object();
	struct json_object *flags, *more;
	bool ok = o && add(o, o, defaults);

	if (ok && json_object_object_get_ex(o, flags_key, &flags) &&
	    json_object_is_type(flags, json_type_object) &&
	    json_object_object_get_ex(defaults, flags_key, &more))
		ok = add(flags, flags, more);
	if (ok)
		return o;
	json_object_put(o);
	return NULL;
}
