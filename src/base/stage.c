/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "pjrtfs/stage.h"

const char *pf_stage_word(enum pf_stage stage)
{
	static const char *const words[] = {
		[PF_STAGE_NONE] = "",           [PF_STAGE_UPLOADING] = "uploading",
		[PF_STAGE_WAITING] = "waiting", [PF_STAGE_RUNNING] = "running",
		[PF_STAGE_LOADING] = "loading", [PF_STAGE_COMPILING] = "compiling",
		[PF_STAGE_SAVING] = "saving",
	};

	return words[stage];
}

void pf_stage_blame(enum pf_stage stage, struct pf_err *err)
{
	bool ended =
		err->code == -EIO || err->code == -ETIMEDOUT || err->code == -ECANCELED;

	if (stage != PF_STAGE_NONE && ended && err->pjrt_code < 0)
		pf_err_wrap(err, err->code, "while %s", pf_stage_word(stage));
}
