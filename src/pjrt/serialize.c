/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled programs as bytes, and back. */
#include <errno.h>

#include "pjrtfs/pjrt/api.h"
#include "pjrtfs/pjrt/executable.h"

int pj_executable_serialize(const struct pj_executable *x, struct pj_serialized *ret,
			    struct pf_err *err)
{
	PJRT_Executable_Serialize_Args args = { PJ_SIZE(PJRT_Executable_Serialize_Args),
						.executable = x->unloaded };
	int r;

	if (x->was_loaded)
		return pf_err_set(
			err, -EINVAL,
			"the program was loaded, not compiled: it is serialized "
			"already");
	r = PJ_CALL(x->client->plugin, err, PJRT_Executable_Serialize, &args);
	if (r < 0)
		return r;
	*ret = (struct pj_serialized){ .bytes = args.serialized_bytes,
				       .len = args.serialized_bytes_size,
				       .handle = args.serialized_executable,
				       .deleter = args.serialized_executable_deleter };
	if (ret->bytes && ret->len)
		return 0;
	pj_serialized_release(ret);
	return pf_err_set(err, -EOPNOTSUPP, "the plugin serialized a program to nothing");
}

void pj_serialized_release(struct pj_serialized *serialized)
{
	if (serialized->handle && serialized->deleter)
		serialized->deleter(serialized->handle);
	*serialized = (struct pj_serialized){ 0 };
}

int pj_executable_load(const struct pj_client *client, const void *bytes, size_t len,
		       struct pj_executable **ret, struct pf_err *err)
{
	PJRT_Executable_DeserializeAndLoad_Args args = {
		PJ_SIZE(PJRT_Executable_DeserializeAndLoad_Args),
		.client = client->handle,
		.serialized_executable = bytes,
		.serialized_executable_size = len,
	};
	int r = PJ_CALL(client->plugin, err, PJRT_Executable_DeserializeAndLoad, &args);

	if (r == 0)
		r = pj_executable_adopt(client, args.loaded_executable, ret, err);
	if (r == 0)
		(*ret)->was_loaded = true;
	return r;
}
