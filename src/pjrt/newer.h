/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that plugins newer than the pjrt_c_api.h of API 0.81 have at the end of their table, in
 * the order and with the arguments of API 0.115.  The names are the API's, with pj_ for PJRT_, so that
 * pjrtfs compiles with a newer header, too.
 */
#ifndef PJRTFS_PJRT_NEWER_H
#define PJRTFS_PJRT_NEWER_H

#include <pjrt_c_api.h>
#include <stddef.h>
#include <stdint.h>

struct pj_Executable_GetCompileOptions_Args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	PJRT_Executable *executable;
	const char *serialized_bytes; /* out: lives as long as what follows */
	size_t serialized_bytes_size;
	void *serialized_compile_options;
	void (*serialized_compile_options_deleter)(void *options);
};

struct pj_Error_ForEachPayload_Args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	const PJRT_Error *error;
	void (*visitor)(const char *key, size_t key_size, const char *value,
			size_t value_size, void *user_arg);
	void *user_arg;
};

struct pj_TopologyDescription_Fingerprint_Args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	PJRT_TopologyDescription *topology;
	uint64_t fingerprint; /* out */
};

struct pj_Executable_ParameterMemoryKinds_Args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	PJRT_Executable *executable;
	size_t num_parameters; /* out: of the lists, as long as the executable lives */
	const char *const *memory_kinds;
	const size_t *memory_kind_sizes;
};

struct pj_Device_ClearMemoryStats_Args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	PJRT_Device *device;
};

/* Newer fields of a function that the header of API 0.81 has, too. */
struct pj_Executable_GetCompiledMemoryStats_Args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	PJRT_Executable *executable;
	int64_t generated_code_size_in_bytes;
	int64_t argument_size_in_bytes;
	int64_t output_size_in_bytes;
	int64_t alias_size_in_bytes;
	int64_t temp_size_in_bytes;
	int64_t host_generated_code_size_in_bytes;
	int64_t host_argument_size_in_bytes;
	int64_t host_output_size_in_bytes;
	int64_t host_alias_size_in_bytes;
	int64_t host_temp_size_in_bytes;
	int64_t peak_memory_in_bytes;
	int64_t total_size_in_bytes;
	int64_t total_allocation_bytes;
	int64_t indefinite_allocations;
	int64_t peak_unpadded_heap_bytes;
};

_Static_assert(offsetof(struct pj_Executable_GetCompiledMemoryStats_Args,
			peak_memory_in_bytes) ==
		       offsetof(PJRT_Executable_GetCompiledMemoryStats_Args,
				peak_memory_in_bytes),
	       "the fields of the header are where they are here");

/* Those that pjrtfs does not call have no arguments here. */
struct pj_newer {
	void (*Client_CreateErrorBuffer)(void);
	void (*AsyncHostToDeviceTransferManager_TransferLiteral)(void);
	void (*Buffer_CopyRawToHostFuture)(void);
	void (*Device_PoisonExecution)(void);
	void (*Device_CreateAsyncTrackingEvent)(void);
	void (*AsyncTrackingEvent_Destroy)(void);
	PJRT_Error *(*Executable_GetCompileOptions)(
		struct pj_Executable_GetCompileOptions_Args *args);
	void (*Buffer_DonateWithControlDependency)(void);
	void (*Event_Create)(void);
	void (*Event_Set)(void);
	void (*Device_GetAttributes)(void);
	void (*Client_Load)(void);
	void (*LoadedExecutable_AddressableDeviceLogicalIds)(void);
	void (*Buffer_Bitcast)(void);
	PJRT_Error *(*Error_ForEachPayload)(struct pj_Error_ForEachPayload_Args *args);
	PJRT_Error *(*TopologyDescription_Fingerprint)(
		struct pj_TopologyDescription_Fingerprint_Args *args);
	PJRT_Error *(*Executable_ParameterMemoryKinds)(
		struct pj_Executable_ParameterMemoryKinds_Args *args);
	PJRT_Error *(*Device_ClearMemoryStats)(
		struct pj_Device_ClearMemoryStats_Args *args);
	void (*TopologyDescription_MakeCanonicalShapeForMemorySpace)(void);
	void (*TopologyDescription_GetMemorySpaceKindIds)(void);
};

/* Where they begin in a plugin's table, in bytes: behind the last function of API 0.81. */
enum {
	PJ_NEWER_OFF = offsetof(PJRT_Api, PJRT_LoadedExecutable_GetDeviceAssignment) +
		       sizeof(void (*)(void))
};

_Static_assert(PJ_NEWER_OFF == 984, "the table of API 0.81 has 984 bytes");
_Static_assert(PJ_NEWER_OFF + sizeof(struct pj_newer) == 1144,
	       "the table of API 0.115 has 1144 bytes");
_Static_assert(PJRT_API_MINOR > 81 || sizeof(PJRT_Api) == PJ_NEWER_OFF,
	       "the header of API 0.81 ends where the newer functions begin");

#endif
