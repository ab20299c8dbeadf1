/* SPDX-License-Identifier: Apache-2.0 */
/* Events: what a plugin signals when asynchronous work is done. */
#include "pjrtfs/pjrt/api.h"

void pj_event_drop(const struct pj_plugin *plugin, PJRT_Event *event)
{
	PJRT_Event_Destroy_Args args = { PJ_SIZE(PJRT_Event_Destroy_Args),
					 .event = event };

	if (event)
		(void)PJ_CALL(plugin, NULL, PJRT_Event_Destroy, &args);
}

int pj_event_await(const struct pj_plugin *plugin, PJRT_Event *event, struct pf_err *err)
{
	PJRT_Event_Await_Args args = { PJ_SIZE(PJRT_Event_Await_Args), .event = event };
	int r;

	if (!event)
		return 0;
	r = PJ_CALL(plugin, err, PJRT_Event_Await, &args);
	pj_event_drop(plugin, event);
	return r;
}
