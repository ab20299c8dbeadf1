/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <string.h>

#include "bench.h"
#include "direct.h"

static const PJRT_Api *api;
static PJRT_Client *client;
static PJRT_Device *device;

/* End if ERROR is one. */
static void check(const char *what, PJRT_Error *error)
{
	PJRT_Error_Message_Args args = { PJRT_Error_Message_Args_STRUCT_SIZE,
					 .error = error };

	if (!error)
		return;
	api->PJRT_Error_Message(&args);
	bench_die("%s: %.*s", what, (int)args.message_size, args.message);
}

#define CALL(fn, args) check(#fn, api->fn(args))

static void await(PJRT_Event *event)
{
	PJRT_Event_Await_Args wait = { PJRT_Event_Await_Args_STRUCT_SIZE,
				       .event = event };
	PJRT_Event_Destroy_Args destroy = { PJRT_Event_Destroy_Args_STRUCT_SIZE,
					    .event = event };

	CALL(PJRT_Event_Await, &wait);
	CALL(PJRT_Event_Destroy, &destroy);
}

void direct_open(const char *plugin)
{
	PJRT_Plugin_Initialize_Args init = {
		.struct_size = PJRT_Plugin_Initialize_Args_STRUCT_SIZE
	};
	PJRT_Client_Create_Args create = { .struct_size =
						   PJRT_Client_Create_Args_STRUCT_SIZE };
	PJRT_Client_AddressableDevices_Args devices = {
		.struct_size = PJRT_Client_AddressableDevices_Args_STRUCT_SIZE
	};
	void *so = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
	const PJRT_Api *(*get)(void) =
		so ? (const PJRT_Api *(*)(void))dlsym(so, "GetPjrtApi") : NULL;

	if (!get)
		bench_die("%s: %s", plugin, dlerror());
	api = get();
	CALL(PJRT_Plugin_Initialize, &init);
	CALL(PJRT_Client_Create, &create);
	client = devices.client = create.client;
	CALL(PJRT_Client_AddressableDevices, &devices);
	device = devices.addressable_devices[0];
}

PJRT_LoadedExecutable *direct_compile(const char *mlir)
{
	/* executable_build_options { num_replicas: 1 num_partitions: 1 } */
	static const char options[] = { 0x1a, 0x04, 0x20, 0x01, 0x28, 0x01 };
	PJRT_Program program = { PJRT_Program_STRUCT_SIZE,
				 .code = (char *)(uintptr_t)mlir,
				 .code_size = strlen(mlir), .format = "mlir",
				 .format_size = 4 };
	PJRT_Client_Compile_Args args = { PJRT_Client_Compile_Args_STRUCT_SIZE,
					  .client = client, .program = &program,
					  .compile_options = options,
					  .compile_options_size = sizeof(options) };

	CALL(PJRT_Client_Compile, &args);
	return args.executable;
}

PJRT_Buffer *direct_upload(const float *data, uint64_t n, bool copy)
{
	int64_t dims[1] = { (int64_t)n };
	PJRT_Client_BufferFromHostBuffer_Args args = {
		PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE,
		.client = client,
		.data = data,
		.type = PJRT_Buffer_Type_F32,
		.dims = dims,
		.num_dims = n ? 1 : 0,
		.host_buffer_semantics =
			copy ? PJRT_HostBufferSemantics_kImmutableOnlyDuringCall
			     : PJRT_HostBufferSemantics_kImmutableZeroCopy,
		.device = device,
	};
	PJRT_Buffer_ReadyEvent_Args ready = {
		.struct_size = PJRT_Buffer_ReadyEvent_Args_STRUCT_SIZE
	};
	PJRT_Event_Destroy_Args destroy = { .struct_size =
						    PJRT_Event_Destroy_Args_STRUCT_SIZE };

	CALL(PJRT_Client_BufferFromHostBuffer, &args);
	ready.buffer = args.buffer;
	CALL(PJRT_Buffer_ReadyEvent, &ready);
	await(ready.event);
	destroy.event = args.done_with_host_buffer;
	if (copy)
		await(args.done_with_host_buffer);
	else
		CALL(PJRT_Event_Destroy, &destroy);
	return args.buffer;
}

PJRT_Buffer *direct_execute(PJRT_LoadedExecutable *executable,
			    PJRT_Buffer *const *arguments, size_t n)
{
	PJRT_ExecuteOptions options = { .struct_size = PJRT_ExecuteOptions_STRUCT_SIZE };
	PJRT_Buffer *result = NULL, **results = &result;
	PJRT_Event *done = NULL;
	PJRT_LoadedExecutable_Execute_Args args = {
		PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE,
		.executable = executable,
		.options = &options,
		.argument_lists = &arguments,
		.num_devices = 1,
		.num_args = n,
		.output_lists = &results,
		.device_complete_events = &done,
	};

	CALL(PJRT_LoadedExecutable_Execute, &args);
	await(done);
	return result;
}

const float *direct_pointer(PJRT_Buffer *buffer)
{
	PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args args = {
		PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args_STRUCT_SIZE,
		.buffer = buffer
	};

	CALL(PJRT_Buffer_OpaqueDeviceMemoryDataPointer, &args);
	return args.device_memory_ptr;
}

void direct_read(PJRT_Buffer *buffer, void *dst, size_t len)
{
	PJRT_Buffer_ToHostBuffer_Args args = { PJRT_Buffer_ToHostBuffer_Args_STRUCT_SIZE,
					       .src = buffer, .dst = dst,
					       .dst_size = len };

	CALL(PJRT_Buffer_ToHostBuffer, &args);
	await(args.event);
}

void direct_free(PJRT_Buffer *buffer)
{
	PJRT_Buffer_Destroy_Args args = { PJRT_Buffer_Destroy_Args_STRUCT_SIZE,
					  .buffer = buffer };

	CALL(PJRT_Buffer_Destroy, &args);
}
