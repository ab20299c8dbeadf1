/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of custom calls: registering them with a plugin, and what an execution gives to them. */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/ffi.h"

/* Before this version a handler was registered with other arguments, and nothing says which. */
enum { OLDEST_MINOR = 81 };

/* xla/pjrt/c/pjrt_c_api_ffi_extension.h */
struct register_args {
	size_t struct_size;
	const char *target;
	size_t target_len;
	void *handler;
	const char *platform;
	size_t platform_len;
	int traits;
};

/* Newer plugins read information about the type, and no deleter of the data; older ones read it the
 * other way round.  Each accepts a longer struct than it reads. */
struct type_args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	const char *name;
	size_t name_len;
	int64_t type; /* 0: the plugin chooses a number */
	const void *info;
};

struct data_args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	PJRT_ExecuteContext *context;
	int64_t type;
	void *data;
	void (*deleter)(void *data);
};

struct ffi_extension {
	PJRT_Extension_Base base;
	PJRT_Error *(*register_type)(struct type_args *args);
	PJRT_Error *(*add_data)(struct data_args *args);
	PJRT_Error *(*register_handler)(struct register_args *args);
};

/* The plugin's functions for handlers, from the first query; a process loads one plugin. */
static const struct pjrtfs_ffi_api *the_api;

static struct pjrtfs_ffi_error *probe(struct pjrtfs_ffi_frame *frame)
{
	the_api = frame->api;
	(void)pjrtfs_ffi_asked(frame);
	return NULL;
}

/* -EOPNOTSUPP. */
static int find_extension(const struct pj_plugin *plugin,
			  const struct ffi_extension **ret, struct pf_err *err)
{
	*ret = (const struct ffi_extension *)pj_find_extension(plugin,
							       PJRT_Extension_Type_FFI,
							       sizeof(**ret));
	if (!*ret || !(*ret)->register_handler)
		return pf_err_set(
			err, -EOPNOTSUPP,
			"the plugin takes no handlers of custom calls: it has no "
			"FFI extension");
	if (plugin->api.pjrt_api_version.minor_version < OLDEST_MINOR)
		return pf_err_set(
			err, -EOPNOTSUPP,
			"the plugin speaks PJRT 0.%d, whose FFI extension this build "
			"does not know: it needs 0.%d or newer",
			plugin->api.pjrt_api_version.minor_version, OLDEST_MINOR);
	return 0;
}

static int register_handler(const struct pj_plugin *plugin, const char *target,
			    pjrtfs_ffi_handler handler, const char *platform,
			    uint32_t traits, struct pf_err *err)
{
	struct register_args args = {
		.struct_size = offsetof(struct register_args, traits) + sizeof(int),
		.target = target,
		.target_len = strlen(target),
		.platform = platform,
		.platform_len = strlen(platform),
		.traits = (int)traits
	};
	const struct ffi_extension *ffi;
	int r = find_extension(plugin, &ffi, err);

	if (r < 0)
		return r;
	memcpy(&args.handler, &handler, sizeof(handler));
	return pj_check(plugin, ffi->register_handler(&args), err);
}

/* XLA drops a handler of a version that it does not know, without a word. */
static int check_version(pjrtfs_ffi_handler handler, struct pf_err *err)
{
	const struct pjrtfs_ffi_version *plugins = &the_api->version;
	struct pjrtfs_ffi_metadata metadata = {
		.struct_size = offsetof(struct pjrtfs_ffi_metadata, traits) +
			       sizeof(metadata.traits),
		.version = { .struct_size = offsetof(struct pjrtfs_ffi_version, minor) +
					    sizeof(metadata.version.minor) }
	};
	struct pjrtfs_ffi_metadata_query query = {
		.base = { .struct_size = sizeof(query), .type = 1 }, .metadata = &metadata
	};
	struct pjrtfs_ffi_frame frame = {
		.struct_size = sizeof(frame),
		.extensions = &query.base,
		.api = the_api,
		.stage = PJRTFS_FFI_EXECUTE,
		.operands = { .struct_size = sizeof(frame.operands) },
		.results = { .struct_size = sizeof(frame.results) },
		.attrs = { .struct_size = sizeof(frame.attrs) }
	};
	const struct pjrtfs_ffi_version *its = &metadata.version;

	if (handler(&frame))
		return pf_err_set(err, -EINVAL,
				  "the handler fails when it is asked for its version");
	if (its->major == 0 && its->minor == 0)
		return pf_err_set(err, -EINVAL,
				  "the handler does not answer when it is asked for its "
				  "version");
	if (its->major != plugins->major || its->minor > plugins->minor)
		return pf_err_set(
			err, -EOPNOTSUPP,
			"the handler speaks version %d.%d of XLA's FFI, the plugin "
			"%d.%d",
			its->major, its->minor, plugins->major, plugins->minor);
	return 0;
}

int pj_ffi_register(const struct pj_plugin *plugin, const char *target,
		    pjrtfs_ffi_handler handler, const char *platform, uint32_t traits,
		    struct pf_err *err)
{
	int r = 0;

	if (!platform)
		platform = "Host";
	if (!the_api)
		r = register_handler(plugin, "pjrtfs_version", probe, platform, 0, err);
	if (r == 0 && !the_api)
		r = pf_err_set(err, -EOPNOTSUPP,
			       "the plugin did not ask for the version of a handler for "
			       "platform %s",
			       platform);
	if (r == 0)
		r = check_version(handler, err);
	if (r == 0)
		r = register_handler(plugin, target, handler, platform, traits, err);
	return r < 0 ? pf_err_wrap(err, r, "custom call %s", target) : 0;
}

/* --- what an execution gives to handlers -------------------------------------------------- */

/* The functions of struct pjrtfs_ffi_api that follow those of the face (xla/ffi/api/c_api.h). */
struct get_data_args {
	size_t struct_size;
	struct pjrtfs_ffi_extension *extensions;
	void *context;
	int64_t *type;
	void *data; /* out */
};

struct destroy_args {
	size_t struct_size;
	struct pjrtfs_ffi_extension *extensions;
	struct pjrtfs_ffi_error *error;
};

struct more_api {
	struct pjrtfs_ffi_api first;
	void *error_message;
	void (*error_destroy)(struct destroy_args *args);
	void *handler_register, *stream_get, *type_register;
	struct pjrtfs_ffi_error *(*get_data)(struct get_data_args *args);
};

/* The type of the data of pj_context_new; 0: none yet.  A process loads one plugin. */
static int64_t the_type;

int pj_context_set_up(const struct pj_plugin *plugin, struct pf_err *err)
{
	static const char name[] = "pjrtfs_execution";
	static const void *const no_info[8];
	struct type_args args = { .struct_size = sizeof(args),
				  .name = name,
				  .name_len = sizeof(name) - 1,
				  .info = no_info };
	const struct ffi_extension *ffi;
	int r = find_extension(plugin, &ffi, err);

	if (r < 0 || the_type)
		return r;
	if (!ffi->register_type || !ffi->add_data)
		return pf_err_set(err, -EOPNOTSUPP,
				  "the plugin's FFI extension lacks the functions for "
				  "an execution's data");
	r = pj_check(plugin, ffi->register_type(&args), err);
	the_type = args.type;
	return r;
}

int pj_context_new(const struct pj_plugin *plugin, void *data,
		   struct PJRT_ExecuteContext **ret, struct pf_err *err)
{
	PJ_ARGS(ExecuteContext_Create, create);
	struct data_args add = { .struct_size = sizeof(add), .data = data };
	const struct ffi_extension *ffi;
	int r = find_extension(plugin, &ffi, err);

	if (r == 0 && !the_type)
		r = pf_err_set(err, -EOPNOTSUPP,
			       "the plugin gives handlers no data of an execution");
	if (r == 0)
		r = PJ_CALL(plugin, err, ExecuteContext_Create, &create);
	if (r == 0)
		r = pj_given(create.context, "PJRT_ExecuteContext_Create", err);
	if (r < 0)
		return r;
	add.context = create.context;
	add.type = the_type;
	r = pj_check(plugin, ffi->add_data(&add), err);
	if (r < 0)
		pj_context_free(plugin, create.context);
	else
		*ret = create.context;
	return r;
}

void pj_context_free(const struct pj_plugin *plugin, struct PJRT_ExecuteContext *context)
{
	PJ_ARGS(ExecuteContext_Destroy, args, .context = context);

	if (context)
		(void)PJ_CALL(plugin, NULL, ExecuteContext_Destroy, &args);
}

void *pj_context_data(const struct pjrtfs_ffi_frame *frame)
{
	const struct more_api *api = (const struct more_api *)frame->api;
	int64_t type = the_type;
	struct get_data_args args = { .struct_size = sizeof(args),
				      .context = frame->context,
				      .type = &type };
	struct destroy_args destroy = { .struct_size = sizeof(destroy) };

	if (!type || api->first.struct_size < sizeof(*api) || !api->get_data)
		return NULL;
	destroy.error = api->get_data(&args);
	if (!destroy.error)
		return args.data;
	api->error_destroy(&destroy);
	return NULL;
}
