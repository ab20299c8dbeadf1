/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled programs. */
#ifndef PJRTFS_PJRT_EXECUTABLE_H
#define PJRTFS_PJRT_EXECUTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json-c/json.h>

#include "pjrtfs/base/buf.h"
#include "pjrtfs/formats/dtype.h"
#include "pjrtfs/formats/shape.h"
#include "pjrtfs/pjrt/buffer.h"
#include "pjrtfs/pjrt/client.h"

struct PJRT_LoadedExecutable;
struct PJRT_Executable;
struct PJRT_Event;
struct PJRT_SerializedExecutable;
struct pj_first;

/* What one result of a program is. */
struct pj_result {
	enum pf_dtype dtype; /* TOKEN has no shape and no bytes */
	struct pf_shape shape;
	uint64_t len; /* host bytes */
};

/* A compiled program.  Immutable once made, so any thread may read it. */
struct pj_executable {
	const struct pj_client *client;       /* borrowed; outlives it */
	struct PJRT_LoadedExecutable *loaded; /* owned */
	struct PJRT_Executable *unloaded; /* owned; the same, for questions about it */
	size_t n_results;
	struct pj_result *results; /* owned; NULL: the plugin does not tell beforehand */
	size_t num_replicas, num_partitions;
	/* What executions get before their arguments: pj_executable_set_first.  NULL: nothing. */
	struct pj_first *first; /* owned */
	bool was_loaded;        /* from bytes, by pj_executable_load */
};

/* A program to compile. */
struct pj_source {
	const void *code; /* not kept */
	size_t len;
	const char *format; /* NUL-terminated: "mlir", "hlo" */
	const void
		*options; /* a serialized CompileOptionsProto that says how many replicas
			      * and partitions there are; plugins abort without */
	size_t options_len;
};

/*
 * Compile SOURCE.
 *
 * ret   on success, the caller's; pj_executable_free
 * Errors: the compiler's, with its sentence.  Blocks, for minutes perhaps, and needs a
 * deep stack (8 MiB and more).
 * PJRT: PJRT_Client_Compile, PJRT_LoadedExecutable_GetExecutable.
 */
int pj_executable_compile(const struct pj_client *client, const struct pj_source *source,
			  struct pj_executable **ret, struct pf_err *err);

/*
 * From now on every execution of EXECUTABLE gets VALUE, an S32, before the arguments of struct
 * pj_run, whose number and indexes count those only.  Makes a buffer on each of its devices, or, of
 * a program for any device, of the client's.  Once, before EXECUTABLE is shared.
 * -ENOMEM, the plugin's errors.  Blocks.
 * PJRT: PJRT_LoadedExecutable_AddressableDevices, PJRT_Client_BufferFromHostBuffer.
 */
int pj_executable_set_first(struct pj_executable *executable, int32_t value,
			    struct pf_err *err);

/* A serialized program: native code that only this plugin, on such a host, can load. */
struct pj_serialized {
	const void *bytes; /* borrowed from handle */
	size_t len;
	struct PJRT_SerializedExecutable *handle; /* owned */
	void (*deleter)(
		struct PJRT_SerializedExecutable *handle); /* the plugin's, or NULL */
};

/*
 * Serialize EXECUTABLE into *RET; pj_serialized_release.  It must have been compiled here:
 * what XLA's CPU plugins serialize of a loaded one loads, but does not run.  -EINVAL: it was
 * loaded; -EOPNOTSUPP: the plugin cannot; else its error.  Blocks.  PJRT: PJRT_Executable_Serialize.
 */
int pj_executable_serialize(const struct pj_executable *executable,
			    struct pj_serialized *ret, struct pf_err *err);
void pj_serialized_release(struct pj_serialized *serialized);

/*
 * Load the LEN bytes at BYTES, which are not kept.  They run: they must be what this very
 * plugin serialized, byte for byte.
 * ret   on success, the caller's; pj_executable_free
 * Errors: the plugin's.  Blocks.  PJRT: PJRT_Executable_DeserializeAndLoad.
 */
int pj_executable_load(const struct pj_client *client, const void *bytes, size_t len,
		       struct pj_executable **ret, struct pf_err *err);

/* Destroy it; executions under way still finish.  EXECUTABLE may be NULL. */
void pj_executable_free(struct pj_executable *executable);
PF_DEFINE_CLEANUP(struct pj_executable *, pj_executable_free)

/* One execution, on all the devices that the program is for at once. */
struct pj_run {
	const struct pj_device *device; /* where one for any device shall run; NULL: the
					 * devices it was compiled for */
	/* Replicas times partitions, in the order of the executable's devices; 0 is 1. */
	size_t n_devices;
	struct PJRT_Buffer *const *arguments; /* n_arguments of the first device, then of
					       * the second ... */
	size_t n_arguments;                   /* of each device */
	const int64_t *kept; /* the indexes of arguments that must not be donated */
	size_t n_kept;
};

enum { PJ_MAX_DEVICES = 1024 }; /* of one execution */

/*
 * Begin an execution.
 *
 * results  room for n_devices times n_results buffers, ordered as the arguments; on success
 *          each is the caller's, to be an argument of others or destroyed at any time; it
 *          may be read once the execution has been awaited
 * done     room for n_devices events, which pj_executable_await takes
 * Errors: the plugin's; -EINVAL if the program is for another number of devices.  A plugin
 * checks arguments' number and size in bytes, but not their type and shape.
 * Blocks as long as the plugin likes: some execute here; of one that gives no events the
 * results are awaited.
 * PJRT: PJRT_LoadedExecutable_Execute.
 */
int pj_executable_start(const struct pj_executable *executable, const struct pj_run *run,
			struct PJRT_Buffer **results, struct PJRT_Event **done,
			struct pf_err *err);

/*
 * Wait until what pj_executable_start began on N devices is done, well or not: nothing runs
 * there any more.  The events in DONE are taken.  Errors: the plugin's, the first one.
 * Blocks; a program that never ends holds the thread for ever.  PJRT: PJRT_Event_Await.
 */
int pj_executable_await(const struct pj_executable *executable, size_t n,
			struct PJRT_Event **done, struct pf_err *err);

/*
 * Both of them, on one device: on success the results are the caller's and ready, on failure
 * there are none.
 */
int pj_executable_run(const struct pj_executable *executable, const struct pj_run *run,
		      struct PJRT_Buffer **results, struct pf_err *err);

/*
 * The size of the optimized program in *LEN and its format in *WITH_CONFIG: a
 * HloModuleProto, or a HloModuleProtoWithConfig.  -EOPNOTSUPP: not given, or in another
 * format.  PJRT: PJRT_Executable_OptimizedProgram.
 */
int pj_executable_optimized_size(const struct pj_executable *executable, size_t *len,
				 bool *with_config, struct pf_err *err);

/* Write those LEN bytes to DST. */
int pj_executable_optimized(const struct pj_executable *executable, void *dst, size_t len,
			    struct pf_err *err);

/*
 * Facts about a program as JSON, each the caller's; where the plugin has none, its error.
 * name, fingerprint: strings; code_size: bytes; cost: an object of the compiler's
 * estimates; memory: an object of sizes in bytes; devices: the ids of the addressable
 * devices in launch order; memory_kinds: a list of the results'.  What a plugin that is
 * older than a figure does not write is left out of memory.
 * PJRT: PJRT_Executable_Name, _Fingerprint, _SizeOfGeneratedCodeInBytes,
 * _GetCostAnalysis, _GetCompiledMemoryStats, _OutputMemoryKinds, PJRT_LoadedExecutable_AddressableDevices.
 */
typedef int pj_executable_fact(const struct pj_executable *executable,
			       struct json_object **ret, struct pf_err *err);
pj_executable_fact pj_executable_name;
pj_executable_fact pj_executable_fingerprint;
pj_executable_fact pj_executable_code_size;
pj_executable_fact pj_executable_cost;
pj_executable_fact pj_executable_memory;
pj_executable_fact pj_executable_devices;
pj_executable_fact pj_executable_memory_kinds;

/*
 * Append the serialized DeviceAssignmentProto: which device has which replica and partition.
 * -EOPNOTSUPP: the plugin does not tell.  PJRT: PJRT_LoadedExecutable_GetDeviceAssignment.
 */
int pj_executable_assignment(const struct pj_executable *executable, struct pf_buf *out,
			     struct pf_err *err);

#endif
