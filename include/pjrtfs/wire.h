/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_WIRE_H
#define PJRTFS_WIRE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pjrtfs/base.h"

/*
 * A one-way queue of messages in memory that two processes share.  Any number of threads on one
 * side post, any number on the other take.  The other process is not trusted: every index and
 * length read from shared memory is checked, and a message is copied out before it is parsed.
 *
 * A taker spins a little (it yields the processor every few rounds, or it would starve the other
 * side on a small machine), then sleeps on a futex in the shared memory; a poster makes a system
 * call only if a taker sleeps and none spins.
 */

enum {
	PF_RING_BYTES = 1 << 20,     /* payload of one ring; a power of two */
	PF_RING_MESSAGE = 256 << 10, /* the largest message */
};

struct pf_ring_shared; /* the part in shared memory */

/* One process's end of a ring. */
struct pf_ring {
	struct pf_ring_shared *shared; /* borrowed; lives as long as the mapping */
	pthread_mutex_t lock;          /* rank 9; one poster or one taker at a time */
};

/* Bytes of shared memory that one ring takes. */
size_t pf_ring_footprint(void);

/*
 * Attach to the ring at MEMORY (pf_ring_footprint() bytes, 64-byte aligned, zeroed when
 * new: all zeros is an empty ring).
 */
void pf_ring_init(struct pf_ring *ring, void *memory);

/* Detach; the shared memory stays. */
void pf_ring_release(struct pf_ring *ring);

/*
 * Append one message made of HEAD and, if TAIL_LEN is not 0, TAIL, and wake one taker.
 * Does not block.  0; -EAGAIN the ring is full; -EMSGSIZE more than PF_RING_MESSAGE;
 * -EPIPE the ring is closed; -EPROTO the other side wrote invalid indexes.
 */
int pf_ring_post(struct pf_ring *ring, const void *head, size_t head_len,
		 const void *tail, size_t tail_len);

/* The same without waking a taker: for several messages, before a pf_ring_wake. */
int pf_ring_post_nowake(struct pf_ring *ring, const void *head, size_t head_len,
			const void *tail, size_t tail_len);

/*
 * Move the oldest message into DST, of CAP >= PF_RING_MESSAGE bytes.  Does not block.
 * Its length; -EAGAIN the ring is empty; -EPIPE it is closed and empty; -EPROTO invalid
 * indexes or lengths: the ring must not be used again.
 */
ssize_t pf_ring_take(struct pf_ring *ring, void *dst, size_t cap);

/* True if a message waits or the ring is closed.  A hint: another thread may take it. */
bool pf_ring_pending(const struct pf_ring *ring);

/*
 * Wait until pf_ring_pending(): spin for SPIN_US microseconds (one thread of a side at a
 * time; others sleep at once), then, if TIMEOUT_MS is not 0, sleep for at most so many
 * milliseconds (-1: without a limit).  Returns pf_ring_pending(): false also before that time,
 * if another thread took the message, or a post of one that was taken already ends the sleep.
 */
bool pf_ring_wait(struct pf_ring *ring, unsigned spin_us, int timeout_ms);

/* Wake one sleeping taker if a message waits: called by a taker that leaves messages in the ring,
 * and after pf_ring_post_nowake. */
void pf_ring_wake(struct pf_ring *ring);

/* The same even if no taker is marked as asleep: for a poster whose wake-up may be lost because the
 * other process overwrote the mark.  One system call if a message waits; does not block. */
void pf_ring_rouse(struct pf_ring *ring);

/* No more messages: waiters on both sides wake, posts fail.  Posted messages can be taken. */
void pf_ring_close(struct pf_ring *ring);

/*
 * The messages between daemon and worker: fixed structs in host byte order (both ends
 * are one build), followed where noted by arrays or text.  Every message starts with its
 * head; a request's tag comes back in its reply.
 *
 * The daemon picks the ids of executables and buffers (never 0, never reused), so that a
 * later request can name what an earlier one makes.  The worker runs requests on several
 * threads: if the order of two requests matters, the daemon awaits the first one's reply.
 *
 * Memory: users' bytes are named by their offset in the arena; the worker's by their
 * offset in its pool.  Offsets and lengths are in bytes.
 */

#define PF_NO_OFFSET UINT64_MAX
#define PF_DEFAULT_MEMORY UINT32_MAX /* of a device, in place of the index of one */

enum {
	PF_HEARTBEAT_MS = 1000,
	PF_WIRE_VERSION = 21,  /* in the set-up text; both ends must be of one build */
	PF_WIRE_MAX_RANK = 32, /* extents in a message */
	PF_WIRE_MAX_ARGS =
		4096, /* arguments, and results, of one execution, on all devices */
	PF_WIRE_INLINE = 4096, /* results of up to so many bytes come with the reply */
	PF_WIRE_MAX_PLATFORMS = 64,
	PF_WIRE_MAX_ABI = 4096,     /* bytes of the version of a program's build */
	PF_WIRE_LIBRARIES = 32,     /* FFI libraries of one worker */
	PF_WIRE_MAX_DEVICES = 1024, /* of one program */
	PF_WIRE_FORMAT = 16,        /* bytes of PJRT_Program.format, NUL included */
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
	PF_OP_TOPOLOGY,        /* struct pf_req_id         -> pf_rep_block            */
	PF_OP_CALLBACK,        /* no request: the worker sends struct pf_msg_callback */
	PF_OP_CALLBACK_ANSWER, /* struct pf_req_answer     -> pf_rep_head alone       */
	PF_OP_GROUP,           /* struct pf_req_id (0)     -> pf_rep_block: JSON text */
	PF_OP_SEND,            /* struct pf_req_send       -> pf_rep_head alone       */
	PF_OP_RECEIVE,         /* struct pf_req_receive    -> pf_rep_array            */
	PF_OP_SETTLE,          /* struct pf_req_id (0)     -> pf_rep_head alone       */
	PF_OP_CLEAR_STATS,     /* struct pf_req_id (device)-> pf_rep_head alone       */
	PF_OP_COUNT
};

struct pf_msg_head {
	uint32_t op;  /* enum pf_op; a reply repeats its request's */
	uint32_t len; /* of the whole message, head included */
	uint64_t tag; /* the daemon's, opaque to the worker */
};

/* Every reply starts so.  code < 0: a sentence follows, and, after a NUL, pf_err.payloads, if there are
 * any; nothing else. */
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
 * Compile PROGRAM_LEN bytes in the arena; OPTIONS_LEN bytes of CompileOptionsProto follow, and
 * TOPOLOGY_LEN bytes of a topology: if there are any, the program is compiled for that, and can be
 * serialized, but not executed.
 * PLATFORM N, at most PF_WIRE_MAX_PLATFORMS: every execution of the program gets N - 1, an S32,
 * before the arguments that its request names.  0: nothing.
 */
struct pf_req_compile {
	struct pf_msg_head head;
	uint64_t id;                       /* the new executable's */
	uint64_t program_off, program_len; /* in the arena */
	char format[PF_WIRE_FORMAT];       /* NUL-terminated: "mlir" or "hlo" */
	uint32_t options_len, topology_len;
	uint32_t platform;
	uint32_t pad;
};

/* How a plugin gives its optimized program. */
enum pf_optimized_format {
	PF_OPTIMIZED_HLO,
	PF_OPTIMIZED_HLO_WITH_CONFIG,
	PF_OPTIMIZED_MLIR, /* as text or bytecode */
	PF_OPTIMIZED_NONE, /* it never does, or not in a format that is known */
};

/*
 * The new executable's facts, in two blocks of the pool that the daemon frees:
 * INFO: a JSON object {"name", "num_replicas", "num_partitions", "num_outputs",
 * "fingerprint", "generated_code_size", "cost", "memory", "devices": [addressable device
 * ids in launch order], "device_assignment": [[ids]], "input_memory_kinds": ["device"],
 * with that of the platform, "output_memory_kinds": ["device"],
 * "output_types": [PJRT_Buffer_Type numbers], "output_dims": [[...]]}; a fact that the
 * plugin does not offer is {"unavailable": sentence}.
 * HLO: the optimized program, in hlo_format; hlo_off is PF_NO_OFFSET if the plugin does not give
 * it, and INFO's "optimized_program" says why: {"unavailable": sentence}.
 */
struct pf_rep_compile {
	struct pf_rep_head rep;
	uint64_t info_off, info_len;
	uint64_t hlo_off, hlo_len;
	uint32_t hlo_format; /* enum pf_optimized_format */
	uint32_t pad;
};

/* The optimized program again, in a block of the pool that the daemon frees. */
struct pf_rep_optimized {
	struct pf_rep_head rep;
	uint64_t off, len;
	uint32_t format; /* as hlo_format above */
	uint32_t pad;
};

/*
 * Load the reply of PF_OP_SERIALIZE, LEN bytes at OFF in the arena, as executable ID.  It is
 * native code: the daemon has checked that this very plugin wrote it, on such a host.
 * PLATFORM is as in struct pf_req_compile.  If another build of the plugin wrote it, up to
 * PF_WIRE_MAX_ABI bytes follow, the version of its build: -ENOEXEC if the plugin does not run that.
 */
struct pf_req_load {
	struct pf_msg_head head;
	uint64_t id; /* the new executable's */
	uint64_t off, len;
	uint32_t platform;
	uint32_t wants_options; /* 1: they are not known */
};

/*
 * The daemon has the facts since the program was compiled; three of them are here as a check.
 * The optimized program comes again, a block as in pf_rep_compile: the plugin numbers modules
 * anew when it loads them, so that its size may differ.  OPTIONS, a block, too: the CompileOptionsProto
 * with which it was compiled, if the request wants it and the plugin gives it.  N_DEVICES int64_t follow: the ids of its
 * devices, in launch order, which a program that was compiled for a topology got when it was loaded.
 */
struct pf_rep_load {
	struct pf_rep_head rep;
	uint64_t n_results, num_replicas, num_partitions;
	uint64_t hlo_off, hlo_len;
	uint64_t options_off, options_len; /* PF_NO_OFFSET: none */
	uint32_t hlo_format;
	uint32_t n_devices; /* at most PF_WIRE_MAX_DEVICES */
};

/*
 * Make a buffer of bytes in the arena, zero copy (kImmutableZeroCopy) if possible; or, with
 * PF_OP_BUFFER_MAKE, one without contents, which ignores off.
 */
struct pf_req_buffer {
	struct pf_msg_head head;
	uint64_t id;       /* the new buffer's */
	uint64_t off, len; /* in the arena; stays unchanged while the buffer lives */
	uint32_t dtype;    /* enum pf_dtype = PJRT_Buffer_Type */
	uint32_t device;   /* index into the description's devices */
	uint32_t memory;   /* index into the device's memories, or PF_DEFAULT_MEMORY */
	uint32_t rank;
	int64_t dims[PF_WIRE_MAX_RANK];
	/* The order in the device's memory (struct pf_layout), not in the arena; zeros: row-major.
	 * PF_OP_BUFFER_READ gives row-major bytes all the same. */
	uint8_t minor_to_major[PF_WIRE_MAX_RANK];
};

struct pf_rep_buffer {
	struct pf_rep_head rep;
	uint64_t alias_off; /* where in the arena the device copy lies, or
			     * PF_NO_OFFSET: the plugin made a copy */
	uint64_t on_device_bytes;
};

/*
 * PF_OP_TOPOLOGY: what to give of a topology: of the bytes that follow the request, or, without any,
 * of the plugin's devices.  The id of its struct pf_req_id.
 */
enum {
	PF_TOPOLOGY_TEXT,  /* a JSON object, pj_topology_json */
	PF_TOPOLOGY_BYTES, /* as the plugin serializes it */
	/* The bytes of one that the plugin makes; a JSON text follows: {"name", "options"}, the latter
	 * an object as create options are. */
	PF_TOPOLOGY_CREATE,
};

enum {
	PF_WIRE_TOPOLOGY = 128 << 10,         /* bytes of a topology at most */
	PF_WIRE_TOPOLOGY_REQUEST = 192 << 10, /* of a text for PF_TOPOLOGY_CREATE */
};

/* May a worker serve without a client of its plugin?  A number in the set-up text, "client".  It compiles
 * for topologies then, and refuses the other requests: -EOPNOTSUPP. */
enum pf_client_need {
	PF_CLIENT_REQUIRED,
	PF_CLIENT_OPTIONAL, /* if the plugin makes none, but topologies */
	PF_CLIENT_NONE,     /* none is created, because of the text's "why" */
};

/* A block of the pool that the daemon frees with PF_OP_BLOCK_FREE. */
struct pf_rep_block {
	struct pf_rep_head rep;
	uint64_t off, len;
};

enum {
	PF_DONATE_FIRST = 1 << 0, /* bits of donate: by the first run, */
	PF_DONATE_LATER = 1 << 1, /* by the runs after it, which get a result instead */
	PF_WIRE_GENERATIONS = 3,  /* runs whose results exist at a time */
	PF_EXECUTE_TAKE =
		1 << 0, /* in flags: the results' bytes are wanted, not buffers */
	PF_EXECUTE_LAYS_OUT = 1 << 1, /* in flags: layouts follow */
};

#define PF_NO_CARRY UINT32_MAX

/*
 * Execute on n_devices devices at once, in the order of the executable's.  These follow:
 *
 *     uint64_t arguments[]  buffers: n_args of the first device, of the second ...; 0: the next
 *                           of those that are lent, for one device only
 *     uint64_t results[]    ids of new buffers: n_outs of the first device, of the second ...
 *     struct pf_arg lent[]  one for each argument that is 0, each with its extents and layout
 *     uint32_t carry[]      of each argument: which result of the same device replaces it in
 *                           the next run, or PF_NO_CARRY
 *     uint8_t donate[]      n_args: which runs may consume the argument, on every device
 *     uint8_t layouts[]     with PF_EXECUTE_LAYS_OUT: n_outs times PF_WIRE_MAX_RANK, of each
 *                           result on every device, as in struct pf_req_buffer
 *
 * The worker runs the program until that was done repeat times, a run failed, or no other
 * one may begin because the first began 10 ms ago.  It keeps no result of the runs before
 * the last good one.
 */
struct pf_req_execute {
	struct pf_msg_head head;
	uint64_t executable;
	uint32_t device;         /* index, for one device; UINT32_MAX: as compiled */
	uint32_t n_args, n_outs; /* of each device */
	uint32_t n_devices;      /* at least 1 */
	uint32_t repeat;         /* 0 is 1 */
	uint32_t flags;          /* PF_EXECUTE_TAKE, PF_EXECUTE_LAYS_OUT */
	uint32_t lent_device;    /* index: where lent arguments are used */
	int32_t launch_id;       /* as in PJRT_ExecuteOptions */
};

/* A lent argument: bytes in the arena, which stay unchanged until the answer. */
struct pf_arg {
	uint64_t off, len;
	uint32_t dtype;    /* as in struct pf_req_buffer */
	uint16_t rank;     /* so many int64_t extents follow */
	uint16_t laid_out; /* 1: then uint8_t minor_to_major[PF_WIRE_MAX_RANK] */
};

/* The bytes of a request but for what is lent, and layouts: of N_ARGS and N_OUTS on all N_DEVICES. */
static inline uint64_t pf_execute_bytes(uint64_t n_args, uint64_t n_outs,
					uint64_t n_devices)
{
	return sizeof(struct pf_req_execute) + (n_args + n_outs) * sizeof(uint64_t) +
	       n_args * sizeof(uint32_t) + n_args / n_devices;
}

/*
 * n_outs struct pf_out follow, of all devices, ordered as their ids: the results of the
 * last good run, all of them ready.  Then come the inline results' bytes, each at its off
 * from the start of this struct, and last the sentence why the next run failed, of
 * why_len bytes.  If the first run fails the whole reply is a failure.  With
 * PF_EXECUTE_TAKE no result is PF_WHERE_DEVICE, and only those that are PF_WHERE_POOL
 * have a buffer.
 */
struct pf_rep_execute {
	struct pf_rep_head rep;
	uint64_t
		device_ns; /* from the call into the plugin until the results are ready: of
			     * all good runs */
	uint32_t runs;     /* that were good: at least 1 */
	uint32_t n_outs;
	int32_t why; /* 0, or -errno: the run after those failed */
	int32_t why_pjrt_code;
	uint32_t why_len;
	uint32_t pad;
};

enum pf_where {
	PF_WHERE_DEVICE, /* only on the device: read it with PF_OP_BUFFER_READ */
	PF_WHERE_INLINE, /* in the message, at off */
	PF_WHERE_POOL,   /* the plugin's own memory, at off in the pool; stays unchanged
			  * until the buffer is freed or donated */
	PF_WHERE_BLOCK, /* a copy in a block of the pool, at off, which the daemon frees */
};

struct pf_out {
	uint32_t where;    /* enum pf_where */
	uint32_t dtype;    /* as the plugin has it */
	uint64_t off, len; /* host bytes: dense, row-major, sub-byte types one per byte */
	uint64_t on_device_bytes;
	uint32_t
		memory; /* of a result: an index as in pf_device_desc, or PF_DEFAULT_MEMORY */
	uint32_t unused;
};

/*
 * A program that PF_OP_EXECUTE runs, whose tag this message has, calls the host (a callback), and
 * waits for PF_OP_CALLBACK_ANSWER.  n_args struct pf_callback_type follow, and n_results, each with
 * its extents.  The arguments lie in a block of the pool, which the daemon frees.  Operands and
 * results that are tokens are left out.
 */
struct pf_msg_callback {
	struct pf_msg_head head;
	uint64_t number;   /* of the invocation: never 0, never given twice */
	uint64_t index;    /* of the callback in its program */
	uint64_t off, len; /* the block; PF_NO_OFFSET: no arguments */
	uint32_t n_args, n_results;
	uint32_t ordered; /* 1: there were tokens */
	uint32_t pad;
};

enum { PF_CALLBACK_ALIGN = 64 }; /* of arguments in their block */

struct pf_callback_type {
	uint64_t off;   /* of an argument, from the block's start */
	uint64_t len;   /* host bytes: dense, row-major */
	uint32_t dtype; /* enum pf_dtype */
	uint32_t rank;  /* at most PF_WIRE_MAX_RANK; so many int64_t extents follow */
};

/*
 * Answer the invocation NUMBER.  pjrt_code 0: n_results uint64_t follow, the offsets of the results'
 * bytes in the arena, which stay unchanged until the reply.  Else the call fails with that code and
 * the text that follows.  No reply comes if head.tag is 0.
 */
struct pf_req_answer {
	struct pf_msg_head head;
	uint64_t number;
	int32_t pjrt_code;
	uint32_t n_results;
};

/* Copy a row-major buffer of this client to one of its devices, perhaps the same, and memories. */
struct pf_req_copy {
	struct pf_msg_head head;
	uint64_t source; /* a buffer's id; it may be freed once this is answered */
	uint64_t id;     /* the new buffer's */
	uint32_t device, memory; /* as in struct pf_req_buffer */
};

/* The other side of a transfer between two members of a group. */
struct pf_req_peer {
	uint64_t key;     /* the same on both sides */
	int64_t device;   /* its id */
	uint32_t process; /* of this member */
	uint32_t pad;
};

/*
 * Send BUFFER from the device with this index.  Until the two sides have met, PF_OP_BUFFER_FREE of the
 * ID (the daemon's, as of a new buffer) cancels the transfer, which fails with -ECANCELED.
 */
struct pf_req_send {
	struct pf_msg_head head;
	uint64_t id;
	uint64_t buffer;
	struct pf_req_peer peer;
	uint32_t device;
	uint32_t pad;
};

/* Receive a new buffer in the default memory, cancelled in the same way; off is ignored. */
struct pf_req_receive {
	struct pf_req_buffer buffer;
	struct pf_req_peer peer;
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

/*
 * The set-up connection between the daemon and one worker: a seqpacket socket.  The daemon sends
 * the set-up text and three memfds: the channel (two rings), the arena (the users' bytes: the
 * daemon writes, workers map read-only) and the pool (the worker writes, the daemon maps
 * read-only).
 */

enum {
	PF_CHANNEL_FD = 3,             /* the worker finds the socket here */
	PF_CHANNEL_MAX_TEXT = 64 << 20 /* bytes; a longer text is refused */
};

/* The shared mapping with the rings, in either process. */
struct pf_channel {
	void *memory;           /* owned mapping, or NULL */
	struct pf_ring request; /* daemon to worker */
	struct pf_ring reply;   /* worker to daemon */
	_Atomic uint64_t
		*beats; /* a thread of the worker counts here, each PF_HEARTBEAT_MS */
};

/* Make the channel's memfd (close-on-exec, sealed in size).  fd or -errno. */
int pf_channel_create(struct pf_err *err);

/* Map the channel behind FD (which stays the caller's).  0 or -errno. */
int pf_channel_map(struct pf_channel *channel, int fd, struct pf_err *err);

/* Unmap.  CHANNEL may be all zeros. */
void pf_channel_release(struct pf_channel *channel);

/*
 * Send a text of LEN bytes (in packets of at most 64 KiB) and, with the first packet, N
 * descriptors.  Blocks while the socket is full.  0; -EPIPE the other side has gone; -errno.
 */
int pf_channel_send(int sock, const char *text, size_t len, const int *fds, int n,
		    struct pf_err *err);

/*
 * Receive one text into TEXT and up to N descriptors into FDS (close-on-exec; -1 where
 * none came; the caller's).  Blocks; TIMEOUT_MS bounds the wait for each packet (-1: none).
 * 0; -EPIPE the other side has gone; -ETIMEDOUT; -EPROTO; -errno.
 */
int pf_channel_recv(int sock, struct pf_buf *text, int *fds, int n, int timeout_ms,
		    struct pf_err *err);

#endif
