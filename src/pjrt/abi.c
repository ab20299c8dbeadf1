/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this build of a plugin runs what another one has compiled. */
#include "abi.h"

#include <errno.h>

#include "internal.h"

/* PLUGIN's extension, if that has all that is called here: one rule for both questions, since who cannot
 * read a version has no use for its bytes. */
static const struct pj_abi_extension *find_extension(const struct pj_plugin *plugin,
						     struct pf_err *err)
{
	const struct pj_abi_extension *e = (const void *)
		pj_find_extension(plugin, (PJRT_Extension_Type)PJ_EXTENSION_ABI_VERSION,
				  sizeof(*e));

	if (e && e->runtime && e->executable && e->runtime_destroy &&
	    e->executable_is_compatible && e->executable_destroy &&
	    e->executable_to_proto && e->executable_from_proto)
		return e;
	pf_err_set(err, -EOPNOTSUPP,
		   "the plugin does not tell which builds of it are compatible: it has "
		   "no AbiVersion extension");
	return NULL;
}

static void destroy_executable(const struct pj_plugin *plugin,
			       const struct pj_abi_extension *e,
			       struct pj_executable_abi *version)
{
	struct pj_abi_executable_destroy_args args = { sizeof(args), version };

	if (version)
		(void)pj_check(plugin, e->executable_destroy(&args), NULL);
}

static void destroy_runtime(const struct pj_plugin *plugin,
			    const struct pj_abi_extension *e,
			    struct pj_runtime_abi *version)
{
	struct pj_abi_runtime_destroy_args args = { sizeof(args), version };

	if (version)
		(void)pj_check(plugin, e->runtime_destroy(&args), NULL);
}

/* The bytes of VERSION as hexadecimal digits.  NULL: there are none, or too many. */
static struct json_object *to_hex(const struct pj_plugin *plugin,
				  const struct pj_abi_extension *e,
				  const struct pj_executable_abi *version,
				  struct pf_err *err)
{
	struct pj_abi_to_proto_args args = { .struct_size = sizeof(args),
					     .version = version };
	struct json_object *text = NULL;
	char hex[2 * PJ_MAX_ABI + 1];

	if (pj_check(plugin, e->executable_to_proto(&args), err) < 0)
		return NULL;
	if (args.bytes && args.len && args.len <= PJ_MAX_ABI)
		text = json_object_new_string(
			pf_hex((const uint8_t *)args.bytes, args.len, hex));
	else
		pf_err_set(err, -EIO, "the plugin's ABI version has %zu bytes", args.len);
	if (args.holder && args.deleter)
		args.deleter(args.holder);
	return text;
}

struct json_object *pj_executable_abi(const struct pj_executable *x, struct pf_err *err)
{
	const struct pj_plugin *plugin = x->client->plugin;
	const struct pj_abi_extension *e = find_extension(plugin, err);
	struct pj_abi_executable_args args = { sizeof(args), x->unloaded, NULL };
	struct json_object *text = NULL;

	if (!e || pj_check(plugin, e->executable(&args), err) < 0)
		return NULL;
	if (pj_given(args.version, "PJRT_Executable_GetAbiVersion", err) == 0)
		text = to_hex(plugin, e, args.version, err);
	destroy_executable(plugin, e, args.version);
	return text;
}

/* Does CLIENT run programs of VERSION? */
static int is_compatible(const struct pj_client *client, const struct pj_abi_extension *e,
			 const struct pj_executable_abi *version, struct pf_err *err)
{
	struct pj_abi_runtime_args own = { sizeof(own), client->handle, NULL };
	struct pj_abi_compatible_args args = { .struct_size = sizeof(args),
					       .executable = version };
	int r = pj_check(client->plugin, e->runtime(&own), err);

	if (r < 0)
		return r;
	r = pj_given(own.version, "PJRT_Client_RuntimeAbiVersion", err);
	args.version = own.version;
	if (r == 0)
		r = pj_check(client->plugin, e->executable_is_compatible(&args), err);
	destroy_runtime(client->plugin, e, own.version);
	return r;
}

int pj_abi_check(const struct pj_client *client, const void *bytes, size_t len,
		 struct pf_err *err)
{
	const struct pj_abi_extension *e = find_extension(client->plugin, err);
	struct pj_abi_from_proto_args args = { sizeof(args), bytes, len, NULL };
	int r;

	if (!e)
		return -EOPNOTSUPP;
	r = pj_check(client->plugin, e->executable_from_proto(&args), err);
	if (r < 0)
		return r;
	r = pj_given(args.version, "PJRT_ExecutableAbiVersion_FromProto", err);
	if (r == 0)
		r = is_compatible(client, e, args.version, err);
	destroy_executable(client->plugin, e, args.version);
	return r;
}
