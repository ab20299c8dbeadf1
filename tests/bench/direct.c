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

/* Call FN with these arguments, or end; the arguments afterwards. */
#define CALL(fn, ...)                                                                    \
	({                                                                               \
		fn##_Args args = { .struct_size = fn##_Args_STRUCT_SIZE, __VA_ARGS__ };  \
		check(#fn, api->fn(&args));                                              \
		args;                                                                    \
	})

static void await(PJRT_Event *event)
{
	CALL(PJRT_Event_Await, .event = event);
	CALL(PJRT_Event_Destroy, .event = event);
}

void direct_open(const char *plugin)
{
	void *so = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
	const PJRT_Api *(*get)(void) =
		so ? (const PJRT_Api *(*)(void))dlsym(so, "GetPjrtApi") : NULL;

	if (!get)
		bench_die("%s: %s", plugin, dlerror());
	api = get();
	CALL(PJRT_Plugin_Initialize, .extension_start = NULL);
	client = CALL(PJRT_Client_Create, .extension_start = NULL).client;
	device = CALL(PJRT_Client_AddressableDevices, .client = client)
			 .addressable_devices[0];
}

PJRT_LoadedExecutable *direct_compile(const char *mlir)
{
	/* executable_build_options { num_replicas: 1 num_partitions: 1 } */
	static const char options[] = { 0x1a, 0x04, 0x20, 0x01, 0x28, 0x01 };
	PJRT_Program program = { PJRT_Program_STRUCT_SIZE,
				 .code = (char *)(uintptr_t)mlir,
				 .code_size = strlen(mlir), .format = "mlir",
				 .format_size = 4 };

	return CALL(PJRT_Client_Compile, .client = client, .program = &program,
		    .compile_options = options, .compile_options_size = sizeof(options))
		.executable;
}

PJRT_Buffer *direct_upload(const float *data, uint64_t n)
{
	int64_t dims[1] = { (int64_t)n };
	PJRT_Client_BufferFromHostBuffer_Args made =
		CALL(PJRT_Client_BufferFromHostBuffer, .client = client, .data = data,
		     .type = PJRT_Buffer_Type_F32, .dims = dims, .num_dims = n ? 1 : 0,
		     .host_buffer_semantics =
			     PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
		     .device = device);

	await(CALL(PJRT_Buffer_ReadyEvent, .buffer = made.buffer).event);
	await(made.done_with_host_buffer);
	return made.buffer;
}

PJRT_Buffer *direct_execute(PJRT_LoadedExecutable *executable,
			    PJRT_Buffer *const *arguments, size_t n)
{
	PJRT_ExecuteOptions options = { .struct_size = PJRT_ExecuteOptions_STRUCT_SIZE };
	PJRT_Buffer *result = NULL, **results = &result;
	PJRT_Event *done = NULL;

	CALL(PJRT_LoadedExecutable_Execute, .executable = executable, .options = &options,
	     .argument_lists = &arguments, .num_devices = 1, .num_args = n,
	     .output_lists = &results, .device_complete_events = &done);
	await(done);
	return result;
}

const float *direct_pointer(PJRT_Buffer *buffer)
{
	return CALL(PJRT_Buffer_OpaqueDeviceMemoryDataPointer, .buffer = buffer)
		.device_memory_ptr;
}

void direct_read(PJRT_Buffer *buffer, void *dst, size_t len)
{
	await(CALL(PJRT_Buffer_ToHostBuffer, .src = buffer, .dst = dst, .dst_size = len)
		      .event);
}

void direct_free(PJRT_Buffer *buffer)
{
	CALL(PJRT_Buffer_Destroy, .buffer = buffer);
}

float direct_add(PJRT_LoadedExecutable *executable, float x, float y)
{
	PJRT_Buffer *arguments[2] = { direct_upload(&x, 0), direct_upload(&y, 0) };
	PJRT_Buffer *z = direct_execute(executable, arguments, 2);
	float sum;

	direct_read(z, &sum, sizeof(sum));
	direct_free(z);
	direct_free(arguments[0]);
	direct_free(arguments[1]);
	return sum;
}
