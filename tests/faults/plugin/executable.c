/* SPDX-License-Identifier: Apache-2.0 */
/* Programs, which all behave alike, their executables, and executions. */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

/*
 * The result of PJRT_Executable_OptimizedProgram: a HloModuleProtoWithConfig whose module,
 * written by hand, holds the name, the entry computation with its two named parameters, and
 * the host program shape.  F32 is 11 in xla_data.proto, the layouts are row-major.
 */
/* ShapeProto, 12 bytes: element_type 11; dimensions 2, 3; layout minor_to_major 1, 0 */
#define SHAPE "\x10\x0b\x1a\x02\x02\x03\x2a\x04\x0a\x02\x01\x00"
/* ProgramShapeProto, 48 bytes: parameters, result, parameter_names */
#define PROGRAM_SHAPE                                                                    \
	"\x0a\x0c" SHAPE "\x0a\x0c" SHAPE "\x12\x0c" SHAPE "\x1a\x01x\x1a\x01y"
/* HloInstructionProto, 38 bytes: name, opcode, shape, metadata.op_name, number, id */
#define PARAMETER(name, number, id)                                                      \
	"\x0a\x01" name "\x12\x09parameter\x1a\x0c" SHAPE "\x3a\x03\x12\x01" name        \
	"\x48" number "\x98\x02" id
/* HloInstructionProto, 30 bytes: name, opcode, shape, id, operand_ids */
#define ROOT                                                                             \
	"\x0a\x01z\x12\x03"                                                              \
	"add\x1a\x0c" SHAPE "\x98\x02\x03\xa2\x02\x02\x01\x02"
/* HloComputationProto, 172 bytes: name, instructions, program_shape, id, root_id */
#define COMPUTATION                                                                      \
	"\x0a\x04main"                                                                   \
	"\x12\x26" PARAMETER("x", "\x00", "\x01") "\x12\x26" PARAMETER(                  \
		"y", "\x01", "\x02") "\x12\x1e" ROOT "\x22\x30" PROGRAM_SHAPE            \
				     "\x28\x01\x30\x03"
/* HloModuleProto: name, entry_computation_name, computations, host_program_shape, id,
 * entry_computation_id */
#define MODULE                                                                           \
	"\x0a\x06"                                                                       \
	"faulty\x12\x04main\x1a\xac\x01" COMPUTATION "\x22\x30" PROGRAM_SHAPE            \
	"\x28\x01\x30\x01"

static const char module_with_config[] = "\x0a\xf3\x01" MODULE;

/* The lengths that are written into the bytes above. */
_Static_assert(sizeof(PROGRAM_SHAPE) - 1 == 0x30, "PROGRAM_SHAPE");
_Static_assert(sizeof(PARAMETER("x", "\x00", "\x01")) - 1 == 0x26, "PARAMETER");
_Static_assert(sizeof(ROOT) - 1 == 0x1e, "ROOT");
_Static_assert(sizeof(COMPUTATION) - 1 == 0xac, "COMPUTATION");
_Static_assert(sizeof(module_with_config) - 1 - 3 == 0xf3, "MODULE");

/* The type of both arguments and of the result of every program. */
static const int64_t result_dims[2] = { 2, 3 };
static const PJRT_Buffer_Type result_type = PJRT_Buffer_Type_F32;

struct PJRT_Executable {
	bool everywhere; /* on all nodes */
};

struct PJRT_LoadedExecutable {
	bool everywhere;
};

/* One of either kind: they have the same members. */
static void *executable_new(bool everywhere)
{
	PJRT_Executable *executable = malloc(sizeof(*executable));

	if (!executable)
		abort();
	executable->everywhere = everywhere;
	count_thing(EXECUTABLES, 1);
	return executable;
}

PJRT_Error *faulty_Client_Compile(PJRT_Client_Compile_Args *args)
{
	PJRT_Error *e = inject_compile(args->program);

	if (e)
		return e;
	if (!args->program->code_size)
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "faulty: no program");
	args->executable = executable_new(
		nodes > 1 && memmem(args->program->code, args->program->code_size,
				    "everywhere", strlen("everywhere")));
	return NULL;
}

PJRT_Error *faulty_Compile(PJRT_Compile_Args *args)
{
	PJRT_Error *e = inject_compile(args->program);

	if (!e)
		args->executable = executable_new(false);
	return e;
}

static const char serialized[] = "what the faulty plugin compiled",
		  serialized_everywhere[] = "what it compiled for all nodes";

static void serialized_deleter(PJRT_SerializedExecutable *executable)
{
	(void)executable; /* the bytes are static */
}

PJRT_Error *faulty_Executable_Serialize(PJRT_Executable_Serialize_Args *args)
{
	char fault[TEXT_LEN];
	PJRT_Error *e = inject(SERIALIZE);

	if (e)
		return e;
	if (!find_fault(SERIALIZE, fault))
		return error_new(PJRT_Error_Code_UNIMPLEMENTED,
				 "faulty: PJRT_Executable_Serialize is not implemented");
	args->serialized_bytes = serialized;
	args->serialized_bytes_size = sizeof(serialized);
	if (args->executable->everywhere) {
		args->serialized_bytes = serialized_everywhere;
		args->serialized_bytes_size = sizeof(serialized_everywhere);
	}
	args->serialized_executable = NULL;
	args->serialized_executable_deleter = serialized_deleter;
	return NULL;
}

PJRT_Error *faulty_Executable_DeserializeAndLoad(
	PJRT_Executable_DeserializeAndLoad_Args *args)
{
	bool everywhere =
		args->serialized_executable_size == sizeof(serialized_everywhere) &&
		memcmp(args->serialized_executable, serialized_everywhere,
		       sizeof(serialized_everywhere)) == 0;
	PJRT_Error *e = inject(LOAD);

	if (e)
		return e;
	if (!everywhere &&
	    (args->serialized_executable_size != sizeof(serialized) ||
	     memcmp(args->serialized_executable, serialized, sizeof(serialized))))
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				 "faulty: that was not compiled here");
	args->loaded_executable = executable_new(everywhere);
	return NULL;
}

GIVE(LoadedExecutable_Destroy, (void)inject(DESTROY), count_thing(EXECUTABLES, -1),
     free(args->executable))

GIVE(LoadedExecutable_GetExecutable,
     args->executable = executable_new(args->loaded_executable->everywhere))

GIVE(LoadedExecutable_AddressableDevices, args->addressable_devices = local_devices(),
     args->num_addressable_devices = 1)

static void assignment_deleter(PJRT_DeviceAssignmentSerialized *assignment)
{
	free(assignment);
}

PJRT_Error *faulty_LoadedExecutable_GetDeviceAssignment(
	PJRT_LoadedExecutable_GetDeviceAssignment_Args *args)
{
	bool everywhere = args->executable->everywhere;
	size_t n = everywhere ? (size_t)nodes : 1;
	/* DeviceAssignmentProto: N replicas of 1 computation, on the devices that follow */
	const char head[] = { 8, (char)n, 16, 1, 26, (char)(n + 2), 10, (char)n };
	char *bytes = malloc(sizeof(head) + n);

	if (!bytes)
		abort();
	memcpy(bytes, head, sizeof(head));
	for (size_t i = 0; i < n; i++)
		bytes[sizeof(head) + i] =
			(char)((everywhere ? i : (size_t)node) * N_DEVICES);
	args->serialized_bytes = bytes;
	args->serialized_bytes_size = sizeof(head) + n;
	args->serialized_device_assignment = (PJRT_DeviceAssignmentSerialized *)bytes;
	args->serialized_device_assignment_deleter = assignment_deleter;
	return NULL;
}

GIVE(Executable_Destroy, count_thing(EXECUTABLES, -1), free(args->executable))
GIVE(Executable_Name, TEXT(executable_name, "faulty"))
GIVE(Executable_NumReplicas,
     args->num_replicas = args->executable->everywhere ? (size_t)nodes : 1)
GIVE(Executable_NumPartitions, args->num_partitions = 1)
GIVE(Executable_NumOutputs, args->num_outputs = 1)
GIVE(Executable_SizeOfGeneratedCodeInBytes, args->size_in_bytes = 0)
GIVE(Executable_Fingerprint, TEXT(executable_fingerprint, "f\001\376"))

PJRT_Error *faulty_Executable_OutputElementTypes(
	PJRT_Executable_OutputElementTypes_Args *args)
{
	static PJRT_Buffer_Type types[] = { PJRT_Buffer_Type_F32 };

	args->output_types = types;
	args->num_output_types = 1;
	return NULL;
}

PJRT_Error *faulty_Executable_OutputDimensions(
	PJRT_Executable_OutputDimensions_Args *args)
{
	static const size_t ranks[] = { 2 };

	args->num_outputs = 1;
	args->dims = result_dims;
	args->dim_sizes = ranks;
	return NULL;
}

PJRT_Error *faulty_Executable_ParameterMemoryKinds(
	struct pj_Executable_ParameterMemoryKinds_Args *args)
{
	static const char *const kinds[] = { "device", "pinned_host" };
	static const size_t sizes[] = { sizeof("device") - 1, sizeof("pinned_host") - 1 };

	args->num_parameters = 2;
	args->memory_kinds = kinds;
	args->memory_kind_sizes = sizes;
	return NULL;
}

/* CompileOptionsProto: executable_build_options { num_replicas: 1 num_partitions: 1 } */
GIVE_NEWER(Executable_GetCompileOptions,
	   args->serialized_bytes = "\x1a\x04\x20\x01\x28\x01",
	   args->serialized_bytes_size = 6)

PJRT_Error *faulty_Executable_OptimizedProgram(
	PJRT_Executable_OptimizedProgram_Args *args)
{
	static const char text[] = "module @faulty {}\n";
	const char *program = module_with_config, *format = "hlo_with_config";
	size_t size = sizeof(module_with_config) - 1;
	char fault[TEXT_LEN] = "";

	(void)find_named("optimized", fault);
	if (fault_arg(fault, "missing"))
		return error_new(PJRT_Error_Code_UNIMPLEMENTED,
				 "faulty: it has no optimized program");
	if (*fault) {
		format = fault_arg(fault, "mlir") ? "mlir" : "other";
		program = text;
		size = strlen(text);
	}
	args->program->format = format;
	args->program->format_size = strlen(format);
	if (args->program->code && args->program->code_size < size)
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				 "faulty: the program has %zu bytes", size);
	if (args->program->code)
		memcpy(args->program->code, program, size);
	args->program->code_size = size;
	return NULL;
}

/* --- executions --------------------------------------------------------------------- */

static bool is_argument(const PJRT_Buffer *b)
{
	return b->type == result_type && b->rank == 2 && b->dims[0] == result_dims[0] &&
	       b->dims[1] == result_dims[1];
}

/* An execution that fails and says "consumed" has consumed what was donated to it. */
static void consume(const PJRT_LoadedExecutable_Execute_Args *args)
{
	const PJRT_ExecuteOptions *o = args->options;

	for (size_t i = 0; i < args->num_args; i++) {
		bool kept = false;

		for (size_t k = 0; k < o->num_non_donatable_input_indices; k++)
			kept |= o->non_donatable_input_indices[k] == (int64_t)i;
		if (!kept)
			buffer_drop_data(args->argument_lists[0][i]);
	}
}

PJRT_Error *faulty_LoadedExecutable_Execute(PJRT_LoadedExecutable_Execute_Args *args)
{
	PJRT_Error *e = inject(EXECUTE);

	if (e) {
		args->output_lists[0][0] =
			(PJRT_Buffer *)args; /* nobody may look at it */
		if (strstr(e->text, "consumed"))
			consume(args);
		return e;
	}
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
	if (args->executable->everywhere && (e = await_nodes()))
		return e;
	e = buffer_new(memory_of(args->execute_device, NULL), result_type, result_dims, 2,
		       &args->output_lists[0][0]);
	if (e)
		return e;
	if (args->device_complete_events)
		args->device_complete_events[0] = event_new(EXECUTE, NULL);
	return NULL;
}

/* ---- what a program costs ---------------------------------------------------------- */

/* The bytes that a program needs as the fault "facts" says HOW: "peak" or "sizes"; -1: otherwise. */
static int64_t needs(const char *how)
{
	char fault[TEXT_LEN];
	const char *bytes = find_named("facts", fault) ? fault_arg(fault, how) : NULL;

	return bytes ? atoll(bytes) : -1;
}

PJRT_Error *faulty_Executable_GetCompiledMemoryStats(
	PJRT_Executable_GetCompiledMemoryStats_Args *args)
{
	int64_t peak = needs("peak"), sizes = needs("sizes");

	if (peak < 0 && sizes < 0)
		return error_new(PJRT_Error_Code_UNIMPLEMENTED,
				 "faulty: GetCompiledMemoryStats is not implemented");
	args->generated_code_size_in_bytes = 0;
	args->argument_size_in_bytes = peak < 0 ? sizes : 2 * peak;
	args->output_size_in_bytes = 0;
	args->alias_size_in_bytes = 0;
	args->temp_size_in_bytes = 0;
	args->peak_memory_in_bytes = peak < 0 ? 0 : peak;
	return NULL;
}

PJRT_Error *faulty_Executable_GetCostAnalysis(PJRT_Executable_GetCostAnalysis_Args *args)
{
#define COST(text, number)                                                               \
	{                                                                                \
		.struct_size = PJRT_NamedValue_STRUCT_SIZE, .name = (text),              \
		.name_size = sizeof(text) - 1, .type = PJRT_NamedValue_kFloat,           \
		.float_value = (number), .value_size = 1                                 \
	}
	static const PJRT_NamedValue known[] = { COST("flops", 6),
						 COST("bytes accessed", 72),
						 COST("optimal_seconds", 0.25) };
	static const PJRT_NamedValue unknown[] = { COST("flops", -1),
						   COST("optimal_seconds", 0) };
#undef COST
	bool all = needs("peak") >= 0;

	if (!all && needs("sizes") < 0)
		return error_new(PJRT_Error_Code_UNIMPLEMENTED,
				 "faulty: GetCostAnalysis is not implemented");
	args->properties = all ? known : unknown;
	args->num_properties = all ? 3 : 2;
	return NULL;
}
