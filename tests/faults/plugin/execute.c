/* SPDX-License-Identifier: Apache-2.0 */
/* Executions. */
#include "plugin.h"

static bool is_argument(const PJRT_Buffer *b)
{
	return b->type == result_type && b->rank == 2 && b->dims[0] == result_dims[0] &&
	       b->dims[1] == result_dims[1];
}

PJRT_Error *faulty_LoadedExecutable_Execute(PJRT_LoadedExecutable_Execute_Args *args)
{
	PJRT_Error *e = inject(EXECUTE);

	if (e)
		return e;
	if (args->options->launch_id == INT32_MAX)
		return error_new(PJRT_Error_Code_ABORTED, "faulty: launch %d",
				 args->options->launch_id);
	if (args->num_devices != 1 || args->num_args != 2)
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				 "faulty: %zu arguments on %zu devices, not 2 on 1",
				 args->num_args, args->num_devices);
	for (size_t i = 0; i < args->num_args; i++) {
		e = check_live(args->argument_lists[0][i]);
		if (!e && !is_argument(args->argument_lists[0][i]))
			e = error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				      "faulty: argument %zu is not f32[2,3]", i);
		if (e)
			return e;
	}
	if (is_everywhere(args->executable) && (e = await_nodes()))
		return e;
	e = buffer_new(memory_of(args->execute_device, NULL), result_type, result_dims, 2,
		       &args->output_lists[0][0]);
	if (e)
		return e;
	if (args->device_complete_events)
		args->device_complete_events[0] = event_new(EXECUTE, NULL);
	return NULL;
}
