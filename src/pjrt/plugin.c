/* SPDX-License-Identifier: Apache-2.0 */
/* Loading plugins, and adapting to those of another version. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/array.h"
#include "pjrtfs/elf.h"

enum { OLDEST_MINOR = 57 /* which rearranged the function table */ };

#define SAME(name) ((int)PF_DTYPE_##name == (int)PJRT_Buffer_Type_##name)
_Static_assert(SAME(INVALID) && SAME(PRED) && SAME(S8) && SAME(S16) && SAME(S32) &&
		       SAME(S64) && SAME(U8) && SAME(U16) && SAME(U32) && SAME(U64) &&
		       SAME(F16) && SAME(F32) && SAME(F64) && SAME(BF16) && SAME(C64) &&
		       SAME(C128) && SAME(F8E5M2) && SAME(F8E4M3FN) &&
		       SAME(F8E4M3B11FNUZ) && SAME(F8E5M2FNUZ) && SAME(F8E4M3FNUZ) &&
		       SAME(S4) && SAME(U4) && SAME(TOKEN) && SAME(S2) && SAME(U2) &&
		       SAME(F8E4M3) && SAME(F8E3M4) && SAME(F8E8M0FNU) && SAME(F4E2M1FN),
	       "element types must have PJRT's numbers");

/* Copy what THEIRS has of the SIZE bytes at OFF to DST; an older plugin leaves NULLs there. */
static void copy_table(void *dst, const PJRT_Api *theirs, size_t off, size_t size)
{
	size_t has = theirs->struct_size > off ? theirs->struct_size - off : 0;

	memset(dst, 0, size);
	memcpy(dst, (const char *)theirs + off, has < size ? has : size);
}

/* Copy the plugin's function table, as far as this build knows it. */
static int adopt_api(struct pj_plugin *plugin, const PJRT_Api *theirs, struct pf_err *err)
{
	const PJRT_Api_Version *version = &theirs->pjrt_api_version;
	const char *lacks;

	if (theirs->struct_size < offsetof(PJRT_Api, PJRT_Error_Destroy))
		return pf_err_set(err, -ENOEXEC,
				  "not a PJRT plugin: its function table has %zu bytes",
				  theirs->struct_size);
	if (version->major_version != PJRT_API_MAJOR)
		return pf_err_set(err, -ENOEXEC,
				  "the plugin speaks PJRT %d.%d, this build speaks %d.%d",
				  version->major_version, version->minor_version,
				  PJRT_API_MAJOR, PJRT_API_MINOR);
	if (version->minor_version < OLDEST_MINOR)
		return pf_err_set(
			err, -ENOEXEC,
			"the plugin speaks PJRT %d.%d, this build needs %d.%d or newer",
			version->major_version, version->minor_version, PJRT_API_MAJOR,
			OLDEST_MINOR);
	copy_table(&plugin->api, theirs, 0, sizeof(plugin->api));
	copy_table(&plugin->newer, theirs, PJ_NEWER_OFF, sizeof(plugin->newer));
	lacks = pj_table_lacks(plugin);
	if (lacks)
		return pf_err_set(
			err, -ENOEXEC,
			"the plugin has no %s, which nothing works without: it "
			"speaks PJRT %d.%d and its function table has %zu bytes",
			lacks, version->major_version, version->minor_version,
			theirs->struct_size);
	return 0;
}

int pj_plugin_adopt(const struct PJRT_Api *api, struct pj_plugin **ret,
		    struct pf_err *err)
{
	PJ_ARGS(Plugin_Initialize, args);
	PF_CLEANUP(pj_plugin_freep) struct pj_plugin *plugin = NULL;
	int r;

	if (!api)
		return pf_err_set(err, -ENOEXEC, "the plugin's GetPjrtApi returned NULL");
	plugin = calloc(1, sizeof(*plugin));
	if (!plugin)
		return pf_err_set(err, -ENOMEM, "no memory for a plugin");
	r = adopt_api(plugin, api, err);
	if (r < 0)
		return r;
	r = PJ_CALL(plugin, err, Plugin_Initialize, &args);
	if (r < 0)
		return pf_err_wrap(err, r, "initialize the plugin");
	*ret = pf_steal(&plugin);
	return 0;
}

static int cannot_load(const char *why, struct pf_err *err)
{
	pf_err_set(err, -ENOEXEC, "cannot load the plugin: %s", why);
	if (err && !pf_err_explain(err, why, strlen(why)) &&
	    strstr(why, "cannot open shared object file"))
		pf_err_set(err, -ENOEXEC,
			   "%s: install what has this library, or name its directory in "
			   "LD_LIBRARY_PATH",
			   err->text);
	return -ENOEXEC;
}

/* A PATH without a slash is the linker's to find. */
static int check_file(const char *path, struct pf_err *err)
{
	pf_autoclose int fd = -1;
	int r;

	if (!strchr(path, '/'))
		return 0;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return pf_err_set(err, -errno, "%s: %s", path, strerror(errno));
	r = pf_elf_check(fd, err);
	return r < 0 ? pf_err_wrap(err, r, "cannot load the plugin: %s", path) : 0;
}

int pj_plugin_load(const char *path, struct pj_plugin **ret, struct pf_err *err)
{
	const PJRT_Api *(*get_api)(void);
	void *object;
	int r = check_file(path, err);

	if (r < 0)
		return r;
	object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!object)
		return cannot_load(dlerror(), err);
	*(void **)&get_api = dlsym(object, "GetPjrtApi");
	if (!get_api)
		return pf_err_set(err, -ENOEXEC,
				  "%s: not a PJRT plugin: it has no function GetPjrtApi",
				  path);
	r = pj_plugin_adopt(get_api(), ret, err);
	return r < 0 ? pf_err_wrap(err, r, "%s", path) : 0;
}

void pj_plugin_free(struct pj_plugin *plugin)
{
	free(plugin);
}

void pj_plugin_version(const struct pj_plugin *plugin, int *major, int *minor)
{
	*major = plugin->api.pjrt_api_version.major_version;
	*minor = plugin->api.pjrt_api_version.minor_version;
}

const PJRT_Extension_Base *pj_find_extension(const struct pj_plugin *plugin,
					     PJRT_Extension_Type type, size_t size)
{
	const PJRT_Extension_Base *e = plugin->api.extension_start;

	for (int i = 0; e && i < PJ_MAX_EXTENSIONS; i++, e = e->next)
		if (e->type == type)
			return e->struct_size < size ? NULL : e;
	return NULL;
}

int pj_plugin_attributes(const struct pj_plugin *plugin, struct json_object **ret,
			 struct pf_err *err)
{
	PJ_ARGS(Plugin_Attributes, args);
	int r = PJ_CALL(plugin, err, Plugin_Attributes, &args);

	if (r < 0)
		return r;
	*ret = pj_values_json(args.attributes, args.num_attributes);
	return *ret ? 0
		    : pf_err_set(err, -ENOMEM, "no memory for the plugin's attributes");
}

int pj_plugin_check_dtype(const struct pj_plugin *plugin, int dtype, struct pf_err *err)
{
	const PJRT_Api_Version *version = &plugin->api.pjrt_api_version;

	if (!pf_dtype_valid(dtype))
		return pf_err_set(err, -EINVAL, "no arrays have element type %d", dtype);
	return pf_dtype_check((enum pf_dtype)dtype, version->major_version,
			      version->minor_version, err);
}
