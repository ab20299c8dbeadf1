/* SPDX-License-Identifier: Apache-2.0 */
/* Memory spaces that a device can address. */
#include "pjrtfs/pjrt/memory.h"

#include <errno.h>
#include <stdlib.h>

#include "pjrtfs/pjrt/api.h"

int pj_memory_init(struct pj_memory *ret, const struct pj_plugin *plugin,
		   struct PJRT_Memory *handle, struct pf_err *err)
{
	PJRT_Memory_Id_Args id = { PJ_SIZE(PJRT_Memory_Id_Args), .memory = handle };
	PJRT_Memory_Kind_Args kind = { PJ_SIZE(PJRT_Memory_Kind_Args), .memory = handle };
	PJRT_Memory_Kind_Id_Args kind_id = { PJ_SIZE(PJRT_Memory_Kind_Id_Args),
					     .memory = handle };
	PJRT_Memory_ToString_Args text = { PJ_SIZE(PJRT_Memory_ToString_Args),
					   .memory = handle };

	/* Only descriptions: what a plugin lacks stays empty. */
	*ret = (struct pj_memory){ .handle = handle, .id = -1, .kind_id = -1 };
	if (PJ_CALL(plugin, NULL, PJRT_Memory_Id, &id) == 0)
		ret->id = id.id;
	if (PJ_CALL(plugin, NULL, PJRT_Memory_Kind_Id, &kind_id) == 0)
		ret->kind_id = kind_id.kind_id;
	if (PJ_CALL(plugin, NULL, PJRT_Memory_Kind, &kind) < 0)
		kind.kind_size = 0;
	if (PJ_CALL(plugin, NULL, PJRT_Memory_ToString, &text) < 0)
		text.to_string_size = 0;
	ret->kind = pj_string_copy(kind.kind, kind.kind_size);
	ret->description = pj_string_copy(text.to_string, text.to_string_size);
	if (ret->kind && ret->description)
		return 0;
	pj_memory_release(ret);
	return pf_err_set(err, -ENOMEM, "no memory to describe a device's memory");
}

void pj_memory_release(struct pj_memory *memory)
{
	free(memory->kind);
	free(memory->description);
	*memory = (struct pj_memory){ 0 };
}
