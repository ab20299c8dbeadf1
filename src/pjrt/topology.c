/* SPDX-License-Identifier: Apache-2.0 */
/* Topologies: which devices a program may be compiled for, also where there are none. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/json.h"

/* How the bytes of a topology begin that its plugin could not read again, by PJRT_TopologyDescription_Deserialize, which
 * API 0.69 lacks: what it was made of follows, and what it was, {"name", "options", "kinds"}, and the plugin makes it
 * anew. */
static const char made_of[] = "pjrtfs makes this topology of ";

int pj_topology_of(const struct pj_client *client, struct pj_topology *ret,
		   struct pf_err *err)
{
	PJ_ARGS(Client_TopologyDescription, args, .client = client->handle);
	int r = PJ_CALL(client->plugin, err, Client_TopologyDescription, &args);

	*ret = (struct pj_topology){ .plugin = client->plugin };
	if (r == 0)
		r = pj_given(args.topology, "PJRT_Client_TopologyDescription", err);
	if (r == 0)
		ret->handle = args.topology;
	return r;
}

/* PLUGIN cannot read topologies: say what it can do. */
static int cannot_read(const struct pj_plugin *plugin, struct pf_err *err)
{
	struct pf_err why = PF_ERR_INIT;
	int r = pj_missing(plugin, "PJRT_TopologyDescription_Deserialize", &why);

	return pf_err_set(err, r,
			  "%s; a newer plugin has it, and this one makes the topology if "
			  "its name is written to topologies/NAME.txt",
			  why.text);
}

/* Note what T is made of, if its plugin cannot read it again. */
static int note_source(struct pj_topology *t, const char *name,
		       struct json_object *options, struct pf_err *err)
{
	struct json_object *o;

	if (t->plugin->api.PJRT_TopologyDescription_Deserialize)
		return 0;
	o = json_object_new_object();
	pf_json_add_string(o, "name", name);
	if (options)
		pf_json_add_copy(o, "options", options);
	/* A name may stand for what this machine has; and the bytes are in keys of the cache. */
	pf_json_add(o, "kinds", pj_topology_kinds(t));
	t->source = pf_json_complete(o) ? pf_json_text_copy(o) : NULL;
	json_object_put(o);
	return t->source ? 0 : pf_err_set(err, -ENOMEM, "no memory for a topology");
}

int pj_topology_create(const struct pj_plugin *plugin, const char *name,
		       struct json_object *options, struct pj_topology *ret,
		       struct pf_err *err)
{
	PJ_ARGS(TopologyDescription_Create, args, .topology_name = name,
		.topology_name_size = strlen(name));
	struct pj_values values;
	int r = pj_values_init(&values, options, err);

	*ret = (struct pj_topology){ .plugin = plugin, .owned = true };
	if (r < 0)
		return r;
	args.create_options = values.items;
	args.num_options = values.n;
	r = PJ_CALL(plugin, err, TopologyDescription_Create, &args);
	pj_values_release(&values);
	if (r == 0)
		r = pj_given(args.topology, "PJRT_TopologyDescription_Create", err);
	if (r < 0)
		return r;
	ret->handle = args.topology;
	r = note_source(ret, name, options, err);
	if (r < 0)
		pj_topology_release(ret);
	return r;
}

/* Is T what it was, by the text O, which made it again? */
static int check_kinds(const struct pj_topology *t, struct json_object *o,
		       struct pf_err *err)
{
	struct json_object *was = pf_json_get(o, "kinds", json_type_array),
			   *is = pj_topology_kinds(t);
	int r = 0;

	if (!json_object_equal(was, is))
		r = pf_err_set(
			err, -EINVAL,
			"the plugin makes another topology of the name \"%s\" than "
			"it was, expected %.200s, found %.200s: write the name to "
			"topologies/NAME.txt again",
			pf_json_get_string(o, "name"), pf_json_text(was),
			pf_json_text(is));
	json_object_put(is);
	return r;
}

/* Make the topology of the LEN bytes at TEXT, a note_source. */
static int make_again(const struct pj_plugin *plugin, const char *text, size_t len,
		      struct pj_topology *ret, struct pf_err *err)
{
	struct json_object *o;
	int r = pf_json_parse(text, len, &o, err);

	*ret = (struct pj_topology){ 0 };
	if (r == 0)
		r = pj_topology_create(plugin, pf_json_get_string(o, "name"),
				       pf_json_get(o, "options", json_type_object), ret,
				       err);
	if (r == 0) {
		r = check_kinds(ret, o, err);
		if (r < 0)
			pj_topology_release(ret);
	}
	json_object_put(o);
	return r;
}

int pj_topology_read(const struct pj_plugin *plugin, const void *bytes, size_t len,
		     struct pj_topology *ret, struct pf_err *err)
{
	PJ_ARGS(TopologyDescription_Deserialize, args, .serialized_topology = bytes,
		.serialized_topology_size = len);
	const size_t n = sizeof(made_of) - 1;
	int r;

	if (len > n && !memcmp(bytes, made_of, n))
		return make_again(plugin, (const char *)bytes + n, len - n, ret, err);
	*ret = (struct pj_topology){ .plugin = plugin, .owned = true };
	if (!plugin->api.PJRT_TopologyDescription_Deserialize)
		return cannot_read(plugin, err);
	r = PJ_CALL(plugin, err, TopologyDescription_Deserialize, &args);
	if (r == 0)
		r = pj_given(args.topology, "PJRT_TopologyDescription_Deserialize", err);
	if (r == 0)
		ret->handle = args.topology;
	return r;
}

int pj_topology_check(const struct pj_plugin *plugin, bool asked, struct pf_err *err)
{
	struct pj_topology t = { 0 };
	int r;

	if (!plugin->api.PJRT_TopologyDescription_Create)
		return pj_missing(plugin, "PJRT_TopologyDescription_Create", err);
	if (!plugin->api.PJRT_Compile)
		return pj_missing(plugin, "PJRT_Compile", err);
	r = asked ? pj_topology_create(plugin, "", NULL, &t, err) : 0;
	pj_topology_release(&t);
	/* Any other refusal is about the name: there are others. */
	return r == -EOPNOTSUPP ? r : 0;
}

void pj_topology_release(struct pj_topology *t)
{
	PJ_ARGS(TopologyDescription_Destroy, args, .topology = t->handle);

	if (t->owned && t->handle)
		(void)PJ_CALL(t->plugin, NULL, TopologyDescription_Destroy, &args);
	free(t->source);
	*t = (struct pj_topology){ 0 };
}

int pj_topology_serialize(const struct pj_topology *t, struct pf_buf *out,
			  struct pf_err *err)
{
	PJ_ARGS(TopologyDescription_Serialize, args, .topology = t->handle);
	int r;

	if (t->source) {
		pf_buf_printf(out, "%s%s", made_of, t->source);
		return out->failed ? pf_err_set(err, -ENOMEM, "no memory for a topology")
				   : 0;
	}
	r = PJ_CALL(t->plugin, err, TopologyDescription_Serialize, &args);
	if (r < 0)
		return r;
	if (args.serialized_bytes)
		pf_buf_append(out, args.serialized_bytes, args.serialized_bytes_size);
	if (args.serialized_topology && args.serialized_topology_deleter)
		args.serialized_topology_deleter(args.serialized_topology);
	if (out->failed)
		return pf_err_set(err, -ENOMEM, "no memory for a topology");
	return out->len ? 0
			: pf_err_set(err, -EOPNOTSUPP,
				     "the plugin serialized a topology to nothing");
}

static struct json_object *devices_json(const struct pj_topology *t)
{
	PJ_ARGS(TopologyDescription_GetDeviceDescriptions, args, .topology = t->handle);
	struct json_object *list = json_object_new_array();

	(void)PJ_CALL(t->plugin, NULL, TopologyDescription_GetDeviceDescriptions, &args);
	for (size_t i = 0; list && args.descriptions && i < args.num_descriptions; i++)
		if (args.descriptions[i])
			json_object_array_add(list,
					      pj_description_json(t->plugin,
								  args.descriptions[i]));
	return list;
}

/* The object for devices of KIND with LIMIT in KINDS, which is made if there is none. */
static struct json_object *find_kind(struct json_object *kinds, const char *kind,
				     struct json_object *limit)
{
	struct json_object *o;

	for (size_t i = 0; i < json_object_array_length(kinds); i++) {
		o = json_object_array_get_idx(kinds, i);
		if (!strcmp(pf_json_get_string(o, "kind"), kind) &&
		    json_object_equal(json_object_object_get(o, "memory_limit_bytes"),
				      limit))
			return o;
	}
	o = json_object_new_object();
	pf_json_add_string(o, "kind", kind);
	pf_json_add_copy(o, "memory_limit_bytes", limit);
	pf_json_append(kinds, o);
	return o;
}

struct json_object *pj_topology_kinds(const struct pj_topology *t)
{
	struct json_object *devices = devices_json(t), *kinds = json_object_new_array();

	for (size_t i = 0; devices && kinds && i < json_object_array_length(devices);
	     i++) {
		struct json_object *d = json_object_array_get_idx(devices, i);
		struct json_object *attributes =
			pf_json_get(d, "attributes", json_type_object);
		struct json_object *limit =
			pf_json_get(attributes, "device_memory_bytes_limit",
				    json_type_int);
		struct json_object *kind =
			find_kind(kinds, pf_json_get_string(d, "kind"), limit);
		struct json_object *n = pf_json_get(kind, "devices", json_type_int);

		pf_json_add_int(kind, "devices", json_object_get_int64(n) + 1);
	}
	json_object_put(devices);
	return kinds;
}

struct json_object *pj_topology_platform(const struct pj_topology *t)
{
	PJ_ARGS(TopologyDescription_PlatformName, name, .topology = t->handle);
	PJ_ARGS(TopologyDescription_PlatformVersion, version, .topology = t->handle);
	struct json_object *o = json_object_new_object();

	(void)PJ_CALL(t->plugin, NULL, TopologyDescription_PlatformName, &name);
	(void)PJ_CALL(t->plugin, NULL, TopologyDescription_PlatformVersion, &version);
	json_object_object_add(o, "platform",
			       pj_string_json(name.platform_name,
					      name.platform_name_size));
	json_object_object_add(o, "platform_version",
			       pj_string_json(version.platform_version,
					      version.platform_version_size));
	return o;
}

struct json_object *pj_topology_json(const struct pj_topology *t)
{
	PJ_ARGS(TopologyDescription_Attributes, attributes, .topology = t->handle);
	PJ_NEWER_ARGS(TopologyDescription_Fingerprint, print, .topology = t->handle);
	struct json_object *o = pj_topology_platform(t);
	char digits[17];

	(void)PJ_CALL(t->plugin, NULL, TopologyDescription_Attributes, &attributes);
	if (PJ_CALL_NEWER(t->plugin, NULL, TopologyDescription_Fingerprint, &print) ==
	    0) {
		/* Not a number, as most readers of JSON round those. */
		snprintf(digits, sizeof(digits), "%016" PRIx64, print.fingerprint);
		pf_json_add_string(o, "fingerprint", digits);
	}
	json_object_object_add(o, "attributes",
			       pj_values_json(attributes.attributes,
					      attributes.num_attributes));
	json_object_object_add(o, "devices", devices_json(t));
	return o;
}
