/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages between daemon and worker: fixed structs in host byte order (both ends
 * are one build), followed where noted by arrays or text.  Every message starts with its
 * head; a request's tag comes back in its reply.
 *
 * The daemon picks the ids of executables and buffers (never 0, never reused), so that a
 * later request can name what an earlier one makes.  The worker runs requests on several
 * threads: who needs an order waits for the reply.
 *
 * Memory: users' bytes are named by their offset in the arena; the worker's by their
 * offset in its pool.  Offsets and lengths are in bytes.
 */
#ifndef PJRTFS_WIRE_MESSAGE_H
#define PJRTFS_WIRE_MESSAGE_H

#include <stdint.h>

#include "pjrtfs/wire/ring.h"

#define PF_NO_OFFSET UINT64_MAX

enum {
	PF_WIRE_VERSION = 9,   /* in the set-up text; both ends must be of one build */
	PF_WIRE_MAX_RANK = 32, /* extents in a message */
	PF_WIRE_MAX_ARGS =
		4096, /* arguments, and results, of one execution, on all devices */
	PF_WIRE_INLINE = 4096, /* results of up to so many bytes come with the reply */
	PF_WIRE_MAX_PLATFORMS = 64,
	PF_WIRE_FORMAT = 16, /* bytes of PJRT_Program.format, NUL included */
};

enum pf_op {
	PF_OP_COMPILE = 1,     /* struct pf_req_compile    -> pf_rep_compile          */
	PF_OP_EXECUTE,         /* struct pf_req_execute    -> pf_rep_execute          */
	PF_OP_BUFFER_CREATE,   /* struct pf_req_buffer     -> pf_rep_buffer           */
	PF_OP_BUFFER_READ,     /* struct pf_req_id         -> pf_rep_block            */
	PF_OP_MEMORY_STATS,    /* struct pf_req_id (device)-> pf_rep_block: JSON text */
	PF_OP_BUFFER_FREE,     /* struct pf_req_id         -> no reply                */
	PF_OP_EXECUTABLE_FREE, /* struct pf_req_id         -> no reply                */
	PF_OP_BLOCK_FREE,      /* struct pf_req_id (offset in the pool) -> no reply   */
	PF_OP_BUFFER_COPY,     /* struct pf_req_copy       -> pf_rep_array            */
	PF_OP_BUFFER_MAKE,     /* struct pf_req_buffer     -> pf_rep_array            */
	PF_OP_OPTIMIZED,       /* struct pf_req_id (executable) -> pf_rep_optimized   */
	PF_OP_SERIALIZE,       /* struct pf_req_id         -> pf_rep_block            */
	PF_OP_LOAD,            /* struct pf_req_load       -> pf_rep_load             */
	PF_OP_CALL,            /* struct pf_req_call       -> pf_rep_execute          */
	PF_OP_COUNT
};

struct pf_msg_head {
	uint32_t op;  /* enum pf_op; a reply repeats its request's */
	uint32_t len; /* of the whole message, head included */
	uint64_t tag; /* the daemon's, opaque to the worker */
};

/* Every reply starts so.  code < 0: a sentence follows (to len, no NUL), nothing else. */
struct pf_rep_head {
	struct pf_msg_head head;
	int32_t code;      /* 0 or -errno */
	int32_t pjrt_code; /* PJRT_Error_Code, -1 if the error is not the plugin's */
};

/* Free or read something by id. */
struct pf_req_id {
	struct pf_msg_head head;
	uint64_t id;
};

/*
 * Compile PROGRAM bytes in the arena; OPTIONS_LEN bytes of CompileOptionsProto follow.
 * PLATFORM N, at most PF_WIRE_MAX_PLATFORMS: in every execution of the program N - 1, an S32, goes
 * before the arguments that are named.  0: nothing does.
 */
struct pf_req_compile {
	struct pf_msg_head head;
	uint64_t id;                       /* the new executable's */
	uint64_t program_off, program_len; /* in the arena */
	char format[PF_WIRE_FORMAT];       /* NUL-terminated: "mlir" or "hlo" */
	uint32_t options_len;
	uint32_t platform;
};

/*
 * What is known of the new executable, in two blocks of the pool that the daemon frees:
 * INFO: a JSON object {"name", "num_replicas", "num_partitions", "num_outputs",
 * "fingerprint", "generated_code_size", "cost", "memory", "devices": [addressable device
 * ids in launch order], "device_assignment": [[ids]], "output_memory_kinds": ["device"], "output_types": [PJRT_Buffer_Type numbers], "output_dims":
 * [[...]]}; what the plugin does not offer is {"unavailable": sentence}.
 * HLO: the optimized program, in format "hlo" or "hlo_with_config" (hlo_with_config 1);
 * hlo_off is PF_NO_OFFSET if the plugin does not give it, hlo_error says why in INFO's
 * "optimized_program": {"unavailable": sentence}.
 */
struct pf_rep_compile {
	struct pf_rep_head rep;
	uint64_t info_off, info_len;
	uint64_t hlo_off, hlo_len;
	uint32_t hlo_with_config;
	uint32_t pad;
};

/* The optimized program again, in a block of the pool that the daemon frees. */
struct pf_rep_optimized {
	struct pf_rep_head rep;
	uint64_t off, len;
	uint32_t with_config; /* as hlo_with_config above */
	uint32_t pad;
};

/*
 * Load what PF_OP_SERIALIZE gave, LEN bytes at OFF in the arena, as executable ID.  It is
 * native code: the daemon has made sure that this very plugin wrote it, on such a host.
 * PLATFORM is as in struct pf_req_compile.
 */
struct pf_req_load {
	struct pf_msg_head head;
	uint64_t id; /* the new executable's */
	uint64_t off, len;
	uint32_t platform;
	uint32_t pad;
};

/*
 * What was told of it when it was compiled is not told again, but for a check, and but for
 * the optimized program, a block as in pf_rep_compile: modules are numbered anew when they
 * are loaded, so that its size may be another one.
 */
struct pf_rep_load {
	struct pf_rep_head rep;
	uint64_t n_results, num_replicas, num_partitions;
	uint64_t hlo_off, hlo_len;
	uint32_t hlo_with_config;
	uint32_t pad;
};

/*
 * Make a buffer: of bytes in the arena, zero copy (kImmutableZeroCopy) where possible;
 * or, with PF_OP_BUFFER_MAKE, of nothing: then off means nothing.
 */
struct pf_req_buffer {
	struct pf_msg_head head;
	uint64_t id;       /* the new buffer's */
	uint64_t off, len; /* in the arena; stays unchanged while the buffer lives */
	uint32_t dtype;    /* enum pf_dtype = PJRT_Buffer_Type */
	uint32_t device;   /* index into the description's devices */
	uint32_t memory;   /* index into the device's memories, UINT32_MAX: its default */
	uint32_t rank;
	int64_t dims[PF_WIRE_MAX_RANK];
};

struct pf_rep_buffer {
	struct pf_rep_head rep;
	uint64_t alias_off; /* where in the arena the device buffer lies, or
			     * PF_NO_OFFSET: the plugin made a copy */
	uint64_t on_device_bytes;
};

/* A block of the pool that the daemon frees with PF_OP_BLOCK_FREE. */
struct pf_rep_block {
	struct pf_rep_head rep;
	uint64_t off, len;
};

/*
 * Execute on n_devices devices at once, in the order of the executable's.  uint64_t ids
 * follow: n_args buffers of the first device, of the second ...; then n_outs new ones' of
 * each; then n_args bytes: 1 where the argument may be donated, on every device.
 *
 * Others may go along: each begins, with its head (unused), at the next multiple of eight
 * bytes.  They run one after the other, and none is awaited to begin the next: arguments may
 * be results of those before.  An argument that is donated is a result of the one just
 * before, unless it is the first one's: then nothing is gone if one before fails.
 */
struct pf_req_execute {
	struct pf_msg_head head;
	uint64_t executable;
	uint32_t device;         /* index, for one device; UINT32_MAX: as compiled */
	uint32_t n_args, n_outs; /* of each device */
	uint32_t n_devices;      /* at least 1 */
};

/* The bytes of an execution in a request: of N_ARGS and N_OUTS on all N_DEVICES. */
static inline uint64_t pf_execute_bytes(uint64_t n_args, uint64_t n_outs,
					uint64_t n_devices)
{
	return sizeof(struct pf_req_execute) + (n_args + n_outs) * sizeof(uint64_t) +
	       n_args / n_devices;
}

/*
 * n_outs struct pf_out follow, of all devices, ordered as their ids, then the inline results'
 * bytes, each at its off from the start of this struct.  Sent once every result is ready.
 *
 * What went along is answered in the same message, in the same order, up to the first that
 * failed: that has rep.code and a sentence behind this struct, to rep.head.len bytes.  (If
 * it is the first of all, the whole reply is a failure.)
 */
struct pf_rep_execute {
	struct pf_rep_head rep; /* of what went along, head has nothing but len */
	uint64_t device_ns;     /* from the call into the plugin, or from when the one
				 * before was ready, to the results' being ready */
	uint32_t n_outs;
	uint32_t next; /* bytes from here to the next one's answer; 0: none follows */
};

enum pf_where {
	PF_WHERE_DEVICE, /* only on the device: read it with PF_OP_BUFFER_READ */
	PF_WHERE_INLINE, /* in the message, at off */
	PF_WHERE_POOL,   /* the plugin's own memory, at off in the pool; stays unchanged
			  * until the buffer is freed or donated */
	PF_WHERE_BLOCK, /* a copy in a block of the pool, at off, which the daemon frees; of
			  * a call there is no buffer besides */
};

struct pf_out {
	uint32_t where;    /* enum pf_where */
	uint32_t dtype;    /* as the plugin has it */
	uint64_t off, len; /* host bytes: dense, row-major, sub-byte types one per byte */
	uint64_t on_device_bytes;
};

/* An argument of a call: bytes in the arena, which stay unchanged until the answer. */
struct pf_arg {
	uint64_t off, len;
	uint32_t dtype; /* as in struct pf_req_buffer */
	uint32_t rank;  /* so many int64_t extents follow */
};

/*
 * Execute on one device with arguments that nobody else uses, and results that nobody keeps.
 * n_outs uint64_t ids follow, for results that are PF_WHERE_POOL (others have no buffer),
 * then n_args struct pf_arg, each with its extents.  No result is PF_WHERE_DEVICE.
 */
struct pf_req_call {
	struct pf_msg_head head;
	uint64_t executable;
	uint32_t device; /* index: where it runs */
	uint32_t any; /* 1: it is a program for any device; 0: it was compiled for this */
	uint32_t n_args, n_outs;
};

/* Copy a buffer of this client to one of its devices, perhaps the same, and memories. */
struct pf_req_copy {
	struct pf_msg_head head;
	uint64_t source; /* a buffer's id; it may be freed once this is answered */
	uint64_t id;     /* the new buffer's */
	uint32_t device, memory; /* as in struct pf_req_buffer */
};

/*
 * The new buffer, which is ready.  Never PF_WHERE_INLINE, but if out.len is 0: then
 * out.off is 0, too.  One of PF_OP_BUFFER_MAKE holds zeros if the worker can write where
 * it lies, else whatever the device's memory held.
 */
struct pf_rep_array {
	struct pf_rep_head rep;
	struct pf_out out;
};

#endif
