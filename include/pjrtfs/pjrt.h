/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_PJRT_H
#define PJRTFS_PJRT_H

#include <json-c/json.h>
#include <pjrt_c_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/array.h"
#include "pjrtfs/base.h"
#include "pjrtfs/ffi.h"

struct pj_client;
struct pj_first;
struct pj_plugin;

/*
 * A plugin: a shared object that implements PJRT's C API, loaded into this process.
 *
 * Plugins implement different versions of the API.  A function that a plugin's table lacks makes
 * the call that needs it fail with -EOPNOTSUPP and a sentence that names the function.
 */

/*
 * Load the plugin at PATH (one with a slash is not searched for) and initialize it: *RET, the
 * caller's, pj_plugin_free.
 * -ENOENT, -EACCES: no such file, or not readable.  -ENOEXEC: the file is not a shared object,
 * lacks libraries or a needed function, or speaks a version that this build cannot speak.  Else
 * what PJRT_Plugin_Initialize failed with.  Blocks.  The file is never unloaded: plugins crash at
 * exit when they are.
 * PJRT: GetPjrtApi, PJRT_Plugin_Initialize.
 */
int pj_plugin_load(const char *path, struct pj_plugin **ret, struct pf_err *err);

/*
 * The same for a table that is in memory already.  API is read once and not kept; its
 * functions are borrowed until the process ends.  NULL is refused as a plugin's mistake.
 */
int pj_plugin_adopt(const struct PJRT_Api *api, struct pj_plugin **ret,
		    struct pf_err *err);

/* Forget the plugin; the file stays loaded.  PLUGIN may be NULL. */
void pj_plugin_free(struct pj_plugin *plugin);
PF_DEFINE_CLEANUP(struct pj_plugin *, pj_plugin_free)

/* The API version that the plugin speaks: 0 and 81 for 0.81. */
void pj_plugin_version(const struct pj_plugin *plugin, int *major, int *minor);

/* The plugin's attributes as a JSON object, the caller's: xla_version, stablehlo_current_version…
 * PJRT: PJRT_Plugin_Attributes. */
int pj_plugin_attributes(const struct pj_plugin *plugin, struct json_object **ret,
			 struct pf_err *err);

/*
 * The plugin's extensions as JSON objects {"name": "FFI", or "Extension99" for one without a known
 * name, "type", "size": of the plugin's struct in bytes, "functions": {"PJRT_FFI_UserData_Add": is
 * it there}}, in the plugin's order; a function without a known name is "function 3".  The
 * caller's; NULL: no memory.
 */
struct json_object *pj_plugin_extensions(const struct pj_plugin *plugin);

/*
 * The contents of the plugin's function table as a JSON object: table_size in bytes, in_table
 * (functions that it has room for), known (to this build), present (of those), missing
 * (their names).  The caller's; NULL: no memory.
 */
struct json_object *pj_plugin_functions(const struct pj_plugin *plugin);

/*
 * Have PLUGIN's programs call HANDLER for custom calls of TARGET on PLATFORM (NULL: "Host"); TRAITS
 * as in struct pjrtfs_ffi_target.  Call it before the client is made or after, from one thread at a
 * time; a process registers with one plugin only.  TARGET is copied; HANDLER stays for ever.
 * -EOPNOTSUPP: the plugin takes no handlers, or none of the version that this one speaks.  -EINVAL:
 * the handler does not answer the question for its version.  Success does not mean that the plugin
 * took it: a second handler of a name is ignored.
 * PJRT: PJRT_FFI_Register_Handler.
 */
int pj_ffi_register(const struct pj_plugin *plugin, const char *target,
		    pjrtfs_ffi_handler handler, const char *platform, uint32_t traits,
		    struct pf_err *err);

/*
 * What an execution gives to the handlers that it calls.  pj_context_set_up comes once in a process,
 * before any pj_context_new.  -EOPNOTSUPP: the plugin has no functions for that.
 * PJRT: PJRT_FFI_TypeID_Register.
 */
int pj_context_set_up(const struct pj_plugin *plugin, struct pf_err *err);

/*
 * A context for executions (struct pj_run), *RET, the caller's: their handlers get DATA from
 * pj_context_data.  It must live until the executions have ended.
 * PJRT: PJRT_ExecuteContext_Create, PJRT_FFI_UserData_Add.
 */
int pj_context_new(const struct pj_plugin *plugin, void *data,
		   struct PJRT_ExecuteContext **ret, struct pf_err *err);
void pj_context_free(const struct pj_plugin *plugin, struct PJRT_ExecuteContext *context);

/* The data of the execution that calls a handler with FRAME; NULL: it has none. */
void *pj_context_data(const struct pjrtfs_ffi_frame *frame);

/* A client's devices. */

/* A device.  Immutable; what is not a number is borrowed from the client. */
struct pj_device {
	struct PJRT_Device *handle;
	struct PJRT_DeviceDescription *description;
	int id;
	bool addressable;                    /* this process may use it */
	struct PJRT_Memory *const *memories; /* n_memories that it can address */
	size_t n_memories;
	int default_memory; /* an index into memories, or -1 */
	/* What uploads have shown of each memory, and last of the default one of a device that lists
	 * none: buffer.c's, the only part that changes. */
	_Atomic uint8_t *shown;
};

/*
 * The plugin's description of DEVICE: {"id", "kind", "local_hardware_id", "process_index",
 * "addressable", "description", "debug", "attributes", "default_memory": index or null, "memories":
 * [{"id", "kind": "device" or "pinned_host", "kind_id", "description"}]}; a fact that it lacks is
 * -1 or "".  The caller's.
 * PJRT: PJRT_Device_LocalHardwareId, PJRT_DeviceDescription_*, PJRT_Memory_*.
 */
struct json_object *pj_device_json(const struct pj_plugin *plugin,
				   const struct pj_device *device);

/*
 * The allocator's statistics as a JSON object, the caller's, with the fields that are known:
 * bytes_in_use, peak_bytes_in_use, num_allocs, …  -EOPNOTSUPP: the plugin keeps none.
 * PJRT: PJRT_Device_MemoryStats.
 */
int pj_device_memory_stats(const struct pj_plugin *plugin, const struct pj_device *device,
			   struct json_object **ret, struct pf_err *err);

/*
 * Have the allocator's peaks and counts begin anew.  -EOPNOTSUPP: the plugin cannot.
 * PJRT: PJRT_Device_ClearMemoryStats.
 */
int pj_device_clear_memory_stats(const struct pj_plugin *plugin,
				 const struct pj_device *device, struct pf_err *err);

/* A plugin's client: the devices that this process works with.  Immutable once made, so any thread
 * may read it. */
struct pj_client {
	const struct pj_plugin *plugin; /* borrowed; outlives the client */
	struct PJRT_Client *handle;     /* owned */
	int process_index;
	char *platform;            /* owned: "cpu" */
	char *platform_version;    /* owned */
	struct pj_device *devices; /* owned, n_devices of them: all, addressable or not */
	size_t n_devices;
	char *why_none; /* owned: pj_client_none's; NULL: there is a handle */
};

/*
 * A store of keys and values, bytes each, that the processes of a group share, and through which their
 * plugins find each other.  Any thread may call these, several at a time.
 */
struct pj_store {
	/* Append the value of KEY (LEN bytes) to RET, waiting up to TIMEOUT_MS until it has one;
	 * 0: look once.  -ETIMEDOUT, or with 0 -ENOENT: it has none; -EACCES; -EIO: the store cannot
	 * be reached. */
	int (*get)(void *arg, const char *key, size_t len, int timeout_ms,
		   struct pf_buf *ret, struct pf_err *err);
	/* Give KEY its value, once for all.  -EEXIST: it has one; -EACCES; -EIO. */
	int (*put)(void *arg, const char *key, size_t len, const char *value,
		   size_t value_len, struct pf_err *err);
	void *arg;
};

/*
 * Create a client of PLUGIN, *RET, the caller's, with the create options in the JSON object OPTIONS
 * (NULL: none), each a string, integer, bool, double or list of integers.  STORE (NULL: none) is
 * borrowed, and outlives the client: the plugin may use it at any time.
 * -EINVAL: an option of another type, or one that is known to make plugins abort; else what
 * PJRT_Client_Create failed with.  Blocks (may take seconds).
 * PJRT: PJRT_Client_Create, PJRT_Client_Devices.
 */
int pj_client_new(const struct pj_plugin *plugin, struct json_object *options,
		  const struct pj_store *store, struct pj_client **ret,
		  struct pf_err *err);

/*
 * In place of a client that PLUGIN does not make, or is not to make, for the reason WHY: one without a
 * device, for which pj_executable_compile_for alone works.  *RET, the caller's.  -ENOMEM.
 */
int pj_client_none(const struct pj_plugin *plugin, const char *why,
		   struct pj_client **ret, struct pf_err *err);

/* A process of a group, as a plugin is to see it. */
struct pj_process {
	int number;
	uint64_t incarnation; /* another one each time the process starts */
	const char *error;    /* why it is gone; NULL: it is there */
};

/* Give the plugin the state of the group's N PROCESSES: the plugin ends communication with those that are
 * gone.  -EOPNOTSUPP: the plugin is older.  PJRT: PJRT_Client_UpdateGlobalProcessInfo. */
int pj_client_update_processes(const struct pj_client *client,
			       const struct pj_process *processes, size_t n,
			       struct pf_err *err);

/*
 * Pin the LEN bytes at AT, for CLIENT's devices to read and write them where they lie; whole pages, of
 * which none is pinned.  Unpin what was pinned at AT, which no transfer uses.  -EOPNOTSUPP: the plugin
 * pins no memory; others: the plugin's.  Both block, for as long as copying LEN bytes takes or longer.
 * PJRT: PJRT_Client_DmaMap, PJRT_Client_DmaUnmap.
 */
int pj_client_pin(const struct pj_client *client, void *at, size_t len,
		  struct pf_err *err);
int pj_client_unpin(const struct pj_client *client, void *at, struct pf_err *err);

/* Destroy the client; its buffers and executables must be gone.  CLIENT may be NULL. */
void pj_client_free(struct pj_client *client);
PF_DEFINE_CLEANUP(struct pj_client *, pj_client_free)

/*
 * Topologies: devices, of this process or elsewhere, that programs are compiled for.
 */

struct pj_topology {
	const struct pj_plugin *plugin; /* borrowed */
	struct PJRT_TopologyDescription *handle;
	bool owned; /* the handle is this struct's; else the client's */
	char *source; /* owned: what it was made of, if the plugin cannot read it again; else NULL */
};

/* That of CLIENT's devices, which outlives *RET.  -EOPNOTSUPP and others: the plugin has none.
 * PJRT: PJRT_Client_TopologyDescription. */
int pj_topology_of(const struct pj_client *client, struct pj_topology *ret,
		   struct pf_err *err);

/* The one that the LEN BYTES are, which are not kept: *RET, to be released.  -EOPNOTSUPP: the plugin
 * cannot; else its refusal.  A plugin that cannot read makes one of pj_topology_create anew.  Blocks.  PJRT:
 * PJRT_TopologyDescription_Deserialize. */
int pj_topology_read(const struct pj_plugin *plugin, const void *bytes, size_t len,
		     struct pj_topology *ret, struct pf_err *err);

/*
 * The topology that PLUGIN calls NAME, made with OPTIONS, create options as pj_client_new has them:
 * *RET, the caller's to release, also after a failure.  -EOPNOTSUPP: the plugin makes none; else its
 * refusal.  Blocks.  PJRT: PJRT_TopologyDescription_Create.
 */
int pj_topology_create(const struct pj_plugin *plugin, const char *name,
		       struct json_object *options, struct pj_topology *ret,
		       struct pf_err *err);

/*
 * Can PLUGIN compile for topologies, though it has no client?  -EOPNOTSUPP: it lacks a function for that,
 * or, if it is ASKED for the topology without a name, which may look for devices, implements none.
 * PJRT: PJRT_TopologyDescription_Create.
 */
int pj_topology_check(const struct pj_plugin *plugin, bool asked, struct pf_err *err);

/* TOPOLOGY may be all zeros, and is afterwards. */
void pj_topology_release(struct pj_topology *topology);

/* Append TOPOLOGY as bytes for pj_topology_read.  -EOPNOTSUPP: the plugin cannot, or makes nothing
 * of it; else its refusal; -ENOMEM.
 * PJRT: PJRT_TopologyDescription_Serialize. */
int pj_topology_serialize(const struct pj_topology *topology, struct pf_buf *out,
			  struct pf_err *err);

/* {"platform", "platform_version", "fingerprint": 16 hexadecimal digits, "attributes", "devices":
 * [pj_description_json]}, the caller's; what the plugin does not say is empty, and no fingerprint.  PJRT: PJRT_TopologyDescription_*. */
struct json_object *pj_topology_json(const struct pj_topology *topology);

/* Its platform and platform_version alone. */
struct json_object *pj_topology_platform(const struct pj_topology *topology);

/* The kinds of TOPOLOGY's devices: [{"kind", "devices": how many, "memory_limit_bytes": an integer, or
 * null if the plugin does not tell}], the caller's.  PJRT: PJRT_DeviceDescription_Attributes. */
struct json_object *pj_topology_kinds(const struct pj_topology *topology);

/*
 * Arrays on a device.
 *
 * A buffer is the plugin's own handle: these functions are on the path of every execution,
 * and keep nothing beside it.  No two threads destroy and use one buffer at once; all else
 * is safe from any thread.
 */

/* The device and the memory of a new buffer. */
struct pj_place {
	const struct pj_device *device;
	struct PJRT_Memory *memory; /* one of the device's, or NULL: its default */
};

/* Refuse arrays that plugins abort on, as pj_buffer_from_host does. */
int pj_buffer_check(const struct pj_client *client, const struct pj_place *place,
		    uint64_t len, int dtype, const struct pf_shape *shape,
		    struct pf_err *err);

/*
 * Make a buffer of host memory, without copying where the plugin can.
 *
 * src      LEN bytes: dense, row-major, host byte order, sub-byte types one per byte.  Not
 *          NULL, even if LEN is 0.  They must not change while the buffer lives
 * ret      on success, the caller's; pj_buffer_destroy
 * alias    on success, where in SRC's bytes the buffer lies, or NULL: it is a copy
 * Waits until the buffer is ready and, if it is a copy, until the plugin no longer reads
 * SRC.
 * -EINVAL: the type, a negative extent, LEN does not fit the shape, or a device that is
 * not addressable; -EOVERFLOW: too many elements; -EOPNOTSUPP: the plugin is older than
 * the type; -ENOSPC and others: the plugin's.
 * PJRT: PJRT_Client_BufferFromHostBuffer, kImmutableZeroCopy where the memory uses host memory in
 * place, else kImmutableUntilTransferCompletes.
 */
int pj_buffer_from_host(const struct pj_client *client, const struct pj_place *place,
			const void *src, uint64_t len, int dtype,
			const struct pf_shape *shape, struct PJRT_Buffer **ret,
			const void **alias, struct pf_err *err);

/*
 * As pj_buffer_from_host, but the elements of the new buffer have LAYOUT, not row-major order.  The
 * buffer is a copy; the plugin takes it for a row-major one, which no plugin's execution checks.
 * -EINVAL also if LAYOUT is not one of SHAPE; -ENOMEM: no memory for another copy of the elements.
 */
int pj_buffer_lay_out(const struct pj_client *client, const struct pj_place *place,
		      const void *src, uint64_t len, int dtype,
		      const struct pf_shape *shape, const struct pf_layout *layout,
		      struct PJRT_Buffer **ret, struct pf_err *err);

/*
 * As pj_buffer_from_host, but does not wait: SRC must stay unchanged until the buffer was
 * destroyed and an execution that used it has ended.  For arguments of one execution.
 */
int pj_buffer_zero_copy(const struct pj_client *client, const struct pj_place *place,
			const void *src, uint64_t len, int dtype,
			const struct pf_shape *shape, struct PJRT_Buffer **ret,
			struct pf_err *err);

/*
 * Make a buffer for an array of LEN host bytes: *RET, the caller's.  Its elements are zero if this
 * process can write them (pj_buffer_address), else whatever the device's memory held.  Waits until
 * the buffer is ready.
 * Errors as pj_buffer_from_host; -EOPNOTSUPP also if the plugin has no such function.
 * PJRT: PJRT_Client_CreateUninitializedBuffer.
 */
int pj_buffer_uninitialized(const struct pj_client *client, const struct pj_place *place,
			    uint64_t len, int dtype, const struct pf_shape *shape,
			    struct PJRT_Buffer **ret, struct pf_err *err);

/*
 * Copy SOURCE, which is ready, to PLACE, which may be where it is.  *RET, the caller's, shares
 * nothing with SOURCE.  Waits until the copy is ready.  Where the plugin refuses to copy within
 * one device, the array goes through this process's memory.
 * -EINVAL: a token, a buffer that was donated, or a device that is not addressable;
 * -EOPNOTSUPP: the plugin has no such function; others: the plugin's.
 * PJRT: PJRT_Buffer_CopyToDevice to a device's default memory, else
 * PJRT_Buffer_CopyToMemory.
 */
int pj_buffer_copy(const struct pj_client *client, const struct pj_place *place,
		   struct PJRT_Buffer *source, struct PJRT_Buffer **ret,
		   struct pf_err *err);

/* 0 if PLUGIN can move arrays to and from other processes, else -EOPNOTSUPP. */
int pj_cross_host_check(const struct pj_plugin *plugin, struct pf_err *err);

/*
 * Send BUFFER, which is ready, to the device TO (its id) of another process, which receives it under
 * KEY.  Waits until it has been sent: for ever, if the other process does not receive it.
 * -EOPNOTSUPP: pj_cross_host_check; others: the plugin's.
 * PJRT: PJRT_Transfers_PJRT_Client_CrossHostSendBuffers.
 */
int pj_cross_host_send(const struct pj_client *client, struct PJRT_Buffer *buffer,
		       int64_t to, int64_t key, struct pf_err *err);

/*
 * Receive in *RET, the caller's, an array of LEN host bytes that the device FROM (its id) of another
 * process sends under KEY, in the default memory of PLACE's device.  Waits until it is there.
 * Errors as pj_cross_host_send and pj_buffer_from_host.
 * PJRT: PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers.
 */
int pj_cross_host_receive(const struct pj_client *client, const struct pj_place *place,
			  int64_t from, int64_t key, uint64_t len, int dtype,
			  const struct pf_shape *shape, struct PJRT_Buffer **ret,
			  struct pf_err *err);

/* Destroy BUFFER, which may be NULL.  Pending executions that use it still finish. */
void pj_buffer_destroy(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer);

/*
 * The address of BUFFER's bytes if this process can read them there, else NULL (also if
 * it was donated).  Valid while the buffer lives and is not donated.
 * PJRT: PJRT_Buffer_IsOnCpu, PJRT_Buffer_OpaqueDeviceMemoryDataPointer or _UnsafePointer.
 */
const void *pj_buffer_address(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer);

/* True if the plugin says that BUFFER's bytes are not in host memory.  PJRT: PJRT_Buffer_IsOnCpu. */
bool pj_buffer_is_elsewhere(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer);

/* BUFFER's memory: its index in the memories of a device of CLIENT; UINT32_MAX: it is that device's default
 * one, or the plugin does not say.
 * PJRT: PJRT_Buffer_Memory. */
uint32_t pj_buffer_memory(const struct pj_client *client, struct PJRT_Buffer *buffer);

/* Bytes that BUFFER takes on its device; 0 if the plugin does not say. */
uint64_t pj_buffer_device_bytes(const struct pj_plugin *plugin,
				struct PJRT_Buffer *buffer);

/*
 * BUFFER's element type, shape and host bytes.  TOKEN has no shape and 0 bytes.  -EOPNOTSUPP: a
 * type that this build does not know, or more than PF_MAX_RANK extents; -EOVERFLOW; -EIO: the
 * plugin gives no extents.
 * PJRT: PJRT_Buffer_ElementType, PJRT_Buffer_Dimensions.
 */
int pj_buffer_type(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer,
		   enum pf_dtype *dtype, struct pf_shape *shape, uint64_t *len,
		   struct pf_err *err);

/*
 * Copy BUFFER, which is ready, of element type DTYPE and LEN host bytes (pj_buffer_type),
 * to DST, in the order of its device layout; sub-byte types one per byte, whose high bits
 * repeat the sign of those that have one.  Blocks.
 * PJRT: PJRT_Buffer_ToHostBuffer where the bytes cannot be read at their address.
 */
int pj_buffer_read(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer,
		   enum pf_dtype dtype, void *dst, uint64_t len, struct pf_err *err);

/* The same in row-major order, of a buffer with LAYOUT.  -EINVAL, -ENOMEM. */
int pj_buffer_read_row_major(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer,
			     enum pf_dtype dtype, const struct pf_layout *layout,
			     void *dst, uint64_t len, struct pf_err *err);

/* The type of one result of a program. */
struct pj_result {
	enum pf_dtype dtype; /* TOKEN has no shape and no bytes */
	struct pf_shape shape;
	uint64_t len; /* host bytes */
};

/* A compiled program.  Immutable once made, so any thread may read it. */
struct pj_executable {
	const struct pj_client *client;       /* borrowed; outlives it */
	struct PJRT_LoadedExecutable *loaded; /* owned; NULL: compiled for a topology */
	struct PJRT_Executable *unloaded; /* owned; the same, for questions about it */
	struct pj_topology topology;      /* owned; that one, or all zeros */
	size_t n_results;
	struct pj_result
		*results; /* owned; NULL: the plugin gives types only of buffers */
	size_t num_replicas, num_partitions;
	size_t n_rows; /* devices of this process that an execution runs on */
	/* The argument that executions get before their own: pj_executable_set_first, or NULL. */
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
 * Compile SOURCE: *RET, the caller's, pj_executable_free.  Errors: the compiler's, with its
 * sentence.  Blocks, for minutes perhaps, and needs a deep stack (8 MiB and more).
 * PJRT: PJRT_Client_Compile, PJRT_LoadedExecutable_GetExecutable.
 */
int pj_executable_compile(const struct pj_client *client, const struct pj_source *source,
			  struct pj_executable **ret, struct pf_err *err);

/*
 * The same for TOPOLOGY, which is given on success, instead of CLIENT's devices: the program cannot
 * be executed, but serialized.  -EOPNOTSUPP also if the plugin has no such function.
 * PJRT: PJRT_Compile.
 */
int pj_executable_compile_for(const struct pj_client *client,
			      struct pj_topology *topology,
			      const struct pj_source *source, struct pj_executable **ret,
			      struct pf_err *err);

/*
 * From now on every execution of EXECUTABLE gets VALUE, an S32, before the arguments of struct
 * pj_run, whose number and indexes count those only.  Makes a buffer on each of its devices, or, of
 * a program for any device, of the client's.  Once, before EXECUTABLE is shared.
 * -ENOMEM, the plugin's errors.  Blocks.
 * PJRT: PJRT_LoadedExecutable_AddressableDevices, PJRT_Client_BufferFromHostBuffer.
 */
int pj_executable_set_first(struct pj_executable *executable, int32_t value,
			    struct pf_err *err);

/*
 * Append EXECUTABLE to OUT, serialized: native code that only this plugin, on such a host, can
 * load.  It must have been compiled here: a loaded one that XLA's CPU plugins serialize again
 * loads, but does not run.
 * -EINVAL: it was loaded; -EOPNOTSUPP: the plugin cannot; else its error.  Blocks.  PJRT:
 * PJRT_Executable_Serialize.
 */
int pj_executable_serialize(const struct pj_executable *executable, struct pf_buf *out,
			    struct pf_err *err);

/*
 * Load the LEN bytes at BYTES, which are not kept: *RET, the caller's.  They are native code:
 * they must be, byte for byte, as this very plugin serialized them.  Errors: the plugin's.
 * Blocks.  PJRT: PJRT_Executable_DeserializeAndLoad.
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
	int32_t launch_id; /* by which plugins compare launches on several hosts; 0: none */
	struct PJRT_ExecuteContext *context; /* borrowed until it has ended; or NULL */
};

enum { PJ_MAX_DEVICES = 1024 }; /* of one execution */

/*
 * Begin an execution.
 *
 * results  room for n_devices times n_results buffers, ordered as the arguments; on success
 *          each is the caller's, to be an argument of others or destroyed at any time; it
 *          may be read once the execution has been awaited
 * done     room for n_devices events, which pj_executable_await takes
 * Errors: the plugin's; -EINVAL if the program is for another number of devices, or for a topology.  A plugin
 * checks arguments' number and size in bytes, but not their type and shape.
 * -EIO: the plugin gave no result, or no event.  Blocks as long as the plugin does: some execute
 * here.
 * PJRT: PJRT_LoadedExecutable_Execute.
 */
int pj_executable_start(const struct pj_executable *executable, const struct pj_run *run,
			struct PJRT_Buffer **results, struct PJRT_Event **done,
			struct pf_err *err);

/*
 * Wait until the execution that pj_executable_start began on N devices has ended, well or
 * not.  The events in DONE are taken.  Errors: the plugin's, the first one.  Blocks; a
 * program that never ends holds the thread for ever.  PJRT: PJRT_Event_Await.
 */
int pj_executable_await(const struct pj_executable *executable, size_t n,
			struct PJRT_Event **done, struct pf_err *err);

/* A HloModuleProto, a HloModuleProtoWithConfig, or MLIR, as text or bytecode. */
enum pj_format { PJ_FORMAT_HLO, PJ_FORMAT_HLO_WITH_CONFIG, PJ_FORMAT_MLIR };

/*
 * The size of the optimized program in *LEN and its FORMAT.  -EOPNOTSUPP: not given, or in another
 * format.  PJRT: PJRT_Executable_OptimizedProgram.
 */
int pj_executable_optimized_size(const struct pj_executable *executable, size_t *len,
				 enum pj_format *format, struct pf_err *err);

/* Write those LEN bytes to DST. */
int pj_executable_optimized(const struct pj_executable *executable, void *dst, size_t len,
			    struct pf_err *err);

/*
 * Append the options with which EXECUTABLE was compiled to OUT, a serialized CompileOptionsProto.
 * -EOPNOTSUPP: the plugin does not give them.  PJRT: PJRT_Executable_GetCompileOptions.
 */
int pj_executable_options(const struct pj_executable *executable, struct pf_buf *out,
			  struct pf_err *err);

/*
 * 0: CLIENT's plugin says that it runs programs whose pj_executable_abi has these LEN BYTES, of wherever.
 * Else it does not, and *ERR says why.  PJRT: PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable.
 */
int pj_abi_check(const struct pj_client *client, const void *bytes, size_t len,
		 struct pf_err *err);

enum {
	PJ_MAX_ABI = 4096
}; /* bytes of such a version; a plugin with longer ones has none */

/*
 * Facts about a program as JSON, each the caller's.  NULL: the plugin has none, and *ERR says why;
 * or, with *ERR as it was, no memory.
 * name, fingerprint: strings; code_size: bytes; cost: an object of the compiler's estimates;
 * memory: an object of sizes in bytes, without those that an older plugin does not write;
 * devices: the ids of the addressable devices in launch order; assignment: which device has which
 * replica and partition (pf_options_assignment_json); memory_kinds: a list of the results',
 * parameter_memory_kinds of the parameters'; abi: a version for pj_abi_check, as hexadecimal digits.
 * PJRT: PJRT_Executable_Name, _Fingerprint, _SizeOfGeneratedCodeInBytes, _GetCostAnalysis,
 * _GetCompiledMemoryStats, _OutputMemoryKinds, _ParameterMemoryKinds, PJRT_LoadedExecutable_AddressableDevices,
 * _GetDeviceAssignment.
 */
typedef struct json_object *pj_executable_fact(const struct pj_executable *executable,
					       struct pf_err *err);
pj_executable_fact pj_executable_name;
pj_executable_fact pj_executable_fingerprint;
pj_executable_fact pj_executable_code_size;
pj_executable_fact pj_executable_cost;
pj_executable_fact pj_executable_memory;
pj_executable_fact pj_executable_devices;
pj_executable_fact pj_executable_assignment;
pj_executable_fact pj_executable_memory_kinds;
pj_executable_fact pj_executable_parameter_memory_kinds;
pj_executable_fact pj_executable_abi;

#endif
