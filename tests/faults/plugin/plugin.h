/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A PJRT plugin that computes nothing and fails on demand.
 *
 * With the create options node_id and num_nodes it meets other processes (group.c).
 *
 * It serves every program as f(x: f32[2,3], y: f32[2,3]) -> f32[2,3] of zeros, on two
 * devices of host memory, each with memories "device" and "pinned_host".  Buffers keep
 * their bytes; zero-copy uploads alias the host's memory where it is 64-byte aligned, as
 * XLA's CPU plugins do; uninitialized ones hold bytes a5.
 *
 *   cc -shared -fPIC -fvisibility=hidden -pthread -D_GNU_SOURCE -I$INCLUDE \
 *      -o faulty_plugin.so *.c
 *
 * Faults are a list "op=fault[:arg]", separated by commas or newlines, in
 *
 *   PJRTFS_FAULTY        the environment, read when it is needed
 *   PJRTFS_FAULTY_FILE   the path of a file, read again at every call; as long as the
 *                        file exists it alone counts, so a test can change its mind
 *
 * Of each op the first entry counts; an arg holds no comma and no newline.
 *
 * op             what fails
 *   init         PJRT_Plugin_Initialize
 *   client       PJRT_Client_Create
 *   compile      PJRT_Client_Compile
 *   execute      PJRT_LoadedExecutable_Execute
 *   upload       PJRT_Client_BufferFromHostBuffer
 *   download     PJRT_Buffer_ToHostBuffer; as long as it has a fault,
 *                the calls that tell a buffer's address say UNIMPLEMENTED
 *   pointer      the calls that tell a buffer's address
 *   copy         PJRT_Buffer_CopyToDevice and CopyToMemory.  Within one device the daemon
 *                takes INVALID_ARGUMENT for the refusal that the API allows, and copies
 *                through the host
 *   stats        PJRT_Device_MemoryStats (UNIMPLEMENTED when left alone; with stats=works the
 *                peak is 4096 bytes, and 1024 once it was cleared; with stats=works:N the limit
 *                is N bytes)
 *   facts        nothing by itself; PJRT_Executable_GetCostAnalysis and _GetCompiledMemoryStats are
 *                UNIMPLEMENTED; with facts=peak:N a program needs N bytes, with facts=sizes:N its
 *                arguments do, and all that can be unknown otherwise is
 *   attributes   nothing by itself; with attributes=limit:N a device has N bytes
 *   serialize    PJRT_Executable_Serialize (UNIMPLEMENTED when left alone, so that no cache
 *                hides a fault of compile; serialize=works)
 *   load         PJRT_Executable_DeserializeAndLoad
 *   topologies   PJRT_TopologyDescription_Create (when left alone, UNIMPLEMENTED without a client, else it
 *                makes "two", as with topologies=two; with =any one by any name, with =named not by an
 *                empty one, with =hang never)
 *   optimized    PJRT_Executable_OptimizedProgram, whose faults are other formats
 *   api          GetPjrtApi
 *   open         the library's constructor: dlopen(3)
 *   send         PJRT_Transfers_PJRT_Client_CrossHostSendBuffers
 *   receive      PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers
 *   destroy      PJRT_LoadedExecutable_Destroy, which cannot fail
 *   abi          PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable
 *   memory       nothing by itself
 *   pin          PJRT_Client_DmaMap, which aborts if memory is pinned twice
 *   unpin        PJRT_Client_DmaUnmap, which aborts during a download there, or if the bytes of the last one have
 *                changed: the memory was given back
 *
 * fault                       what happens
 *   error:CODE[:text]         an error; CODE without PJRT_Error_Code_: INTERNAL; \n in the
 *                             text is a newline.  It has payloads if it says so; if it says that
 *                             it tells none, asking for them is an error, of which to ask for
 *                             them aborts
 *   enospc-at:N               RESOURCE_EXHAUSTED at the op's Nth call, counted from 1
 *                             over all calls of this process
 *   hang[:text]               text on standard error; the call never returns
 *   slow:MS                   the call takes that long
 *   abort[:text]              text on standard error, then abort()
 *   segv                      SIGSEGV
 *   exit[:status]             exit(), with 1 unless told
 *   event-error:CODE[:text]   (execute, upload, download, copy) the event carries an error
 *   print:N[:text]            N lines "text 1", "text 2" ... on standard error; goes on
 *   attempts:DIR              makes a thread that tries what the system lets it do, with the
 *                             files in DIR; attempts: has it do so, and waits; goes on
 *   paths:FILE                prints what the system lets it do (read, write, run; list,
 *                             make) with each path in FILE; goes on
 *   search:SEED               prints how often the 64 bytes SEED, SEED + 7, SEED + 14 ... (mod
 *                             256) lie within a page of this process's memory; goes on
 *   needs-socket              fails if it cannot have a socket
 *   damage                    overwrites the ring of replies, without a sandbox; never returns
 *   babble                    from now on prints for ever, as fast as it can; goes on
 *   store                     (client) prints what the store of a group can do; goes on
 *   none                      nothing
 *   held[:WORD]               the call goes on when the op has this fault no more, with the fault
 *                             that it has then, unless that holds calls, too.  The line WORD is
 *                             appended to PJRTFS_FAULTY_FILE.reached for each call that is
 *                             held
 *   held-event[:WORD]         (execute, upload, download, copy) the same
 *                             of the event: it is not ready, and then perhaps an event-error
 *   late:MS:fault             that fault, so much later
 *   nth:N:fault               that fault at the op's Nth call only, counted from 1; else
 *                             the op's next entry counts
 *   when:WORD:fault           (compile) that fault if the program holds the word; else the
 *                             op's next entry counts
 *
 * and only with api:
 *   short[:N]                 an old plugin: a table of N functions, or up to
 *                             PJRT_Compile; what follows its end cannot be read
 *   major                     speaks PJRT 99
 *   null                      GetPjrtApi returns NULL
 *   empty                     the whole table, but every function is NULL
 *   extension:N               its extension for transfers has N bytes
 *   abi[:N]                   it has an extension for the versions of its builds, too, of N bytes
 *
 * and only with optimized:
 *   mlir                      the program is a text in format "mlir"
 *   other                     it is in format "other"
 *   missing                   UNIMPLEMENTED
 *
 * and only with abi:
 *   long                      the version of a program has 4097 bytes
 *   other                     the version of a program is one that the plugin cannot read
 *   nothing                   it gives no version
 *
 * and only with memory:
 *   own                       the memories "device" are not the host's: Buffer_IsOnCpu says so, and a
 *                             zero-copy upload is a copy, whose event becomes ready when the
 *                             buffer is destroyed, all the same
 *   kept                      so are uploads to every memory, but they are the host's
 *
 * With PJRTFS_FAULTY_CALLS in the environment, "PJRT_Client_Compile=fault", too, for any function of
 * calls.h, where the fault is one of
 *
 *   error:CODE[:text], abort, segv, exit, hang, held[:WORD]   as above
 *   nothing                   succeeds without doing anything: results stay NULL
 *   short[:N]                 does not write the last field, or N bytes, of its arguments
 *   event-error:CODE[:text]   as above, of the event that it gives
 *   late-event:MS             that event is ready so much later
 *   no-event                  gives no event of the work that it has done
 *   no-list                   does nothing, but says that its list has one element
 *   missing                   when the plugin is loaded: its table has NULL there
 *   alive                     an error that says how many objects there are
 *
 * A zero-copy upload has no fault of its event: that one means "given back", and stays
 * unready until the buffer is destroyed.
 */
#ifndef PJRTFS_TESTS_FAULTS_PLUGIN_H
#define PJRTFS_TESTS_FAULTS_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../../src/pjrt/newer.h"
#include "pjrt_c_api.h"

enum { MAX_RANK = 16, TEXT_LEN = 256, ALIGNMENT = 64 };
enum {
	N_DEVICES = 2 /* of each node */,
	N_MEMORIES = 2 /* of each device */,
	MAX_NODES = 8
};

/* ---- error.c ----------------------------------------------------------------------- */

struct PJRT_Error {
	PJRT_Error_Code code;
	char text[TEXT_LEN];
};

/* A new error.  Lack of memory ends the process: nothing here is worth saving. */
__attribute__((__format__(__printf__, 2, 3))) PJRT_Error *error_new(PJRT_Error_Code code,
								    const char *fmt, ...);

/* Free it, unless it is NULL. */
void error_free(PJRT_Error *e);

/* The code of a name that ends at a colon or at the end; UNKNOWN if no code matches. */
PJRT_Error_Code code_of(const char *name);

/* ---- fault.c ----------------------------------------------------------------------- */

enum op {
	INIT,
	CLIENT,
	COMPILE,
	EXECUTE,
	UPLOAD,
	DOWNLOAD,
	POINTER,
	COPY,
	STATS,
	EVENT,
	API,
	SERIALIZE,
	LOAD,
	OPEN,
	SEND,
	RECEIVE,
	DESTROY,
	ABI,
	MEMORY,
	PIN,
	UNPIN,
	N_OPS
};

/* Find the fault of OP's last call: "error:INTERNAL:text".  False when it has none. */
bool find_fault(enum op op, char fault[static TEXT_LEN]);

long last_call(enum op op);

/* Tell the test that a call is held at WORD, unless it is empty. */
void tell_reached(const char *word);

/* Hold the CALLth call of OP as long as FAULT, "held:WORD", is its fault.  Is there another fault
 * then, in FAULT? */
bool hold(enum op op, long call, char fault[static TEXT_LEN]);

/* The same for the function NAME: "PJRT_Client_Compile". */
bool find_named(const char *name, char fault[static TEXT_LEN]);

/* The argument of FAULT when it is NAME or NAME:argument, else NULL. */
const char *fault_arg(const char *fault, const char *name);

/* Count a call of OP.  Returns which it is, from 1. */
long count_call(enum op op);

/* An error from "CODE" or "CODE:text". */
PJRT_Error *error_from(const char *arg, enum op op);

/* The faults that end the process. */
void die(const char *fault);
void attempts_prepare(const char *dir);
void attempts_make(void);
void attempts_at(const char *file);
void search_memory(unsigned seed);

void sleep_ms(long ms);

/* Apply OP's fault to a call.  NULL: the call continues. */
PJRT_Error *inject(enum op op);

/* The same to the compilation of PROGRAM, in which faults may look for words. */
PJRT_Error *inject_compile(const PJRT_Program *program);

/* ---- calls.c ----------------------------------------------------------------------- */

enum thing { BUFFERS, EVENTS, EXECUTABLES, TOPOLOGIES, ERRORS, PINS, N_THINGS };

/* N more, or fewer, of them are alive. */
void count_thing(enum thing thing, int n);

/* The plugin's table, whose newer functions the header may not know. */
union table {
	PJRT_Api api;
	struct {
		char older[PJ_NEWER_OFF];
		struct pj_newer newer;
	};
};

/* Have the functions of TABLE look for their faults first. */
void wrap_calls(union table *table);

/* ---- event.c ----------------------------------------------------------------------- */

/* A new event with one reference, not ready. */
PJRT_Event *event_alloc(void);

/* The same, which becomes ready after MS milliseconds. */
PJRT_Event *event_late(long ms);

/*
 * The event of a call of OP, whose work is done: ready, unless a fault makes it late.
 * WHY, which may be NULL, is taken over: the error that the work ended with.
 */
PJRT_Event *event_new(enum op op, PJRT_Error *why);

void event_ref(PJRT_Event *event);
void event_unref(PJRT_Event *event);

/* Make it ready.  The caller holds a reference. */
void event_fire(PJRT_Event *event);

/* Take over E, the event's error, before it is ready; NULL changes nothing. */
void event_carry(PJRT_Event *event, PJRT_Error *e);

bool event_is_ready(PJRT_Event *event);

/* ---- dma.c ------------------------------------------------------------------------- */

/* LEN bytes are downloaded to AT until EVENT.  Aborts if only a part of them is pinned, or another
 * download goes there. */
void dma_download(const void *at, size_t len, PJRT_Event *event);

/* ---- device.c ---------------------------------------------------------------------- */

struct PJRT_Memory {
	int id;
	int device;
	const char *kind;
};
struct PJRT_DeviceDescription {
	int id;
	char text[16];
};
struct PJRT_Device {
	PJRT_DeviceDescription description;
	PJRT_Memory memory, pinned;
};

/* Those of all nodes, by their ids; N_DEVICES of them are this node's. */
extern PJRT_Device *devices[MAX_NODES * N_DEVICES];
PJRT_Device *const *local_devices(void);
void make_devices(void);

/* Is MEMORY one of the devices' own, and is what is uploaded to it copied?  As faults say. */
bool is_own(const PJRT_Memory *memory);
bool copies_uploads(const PJRT_Memory *memory);

/* MEMORY, else DEVICE's default, else that of the first device. */
PJRT_Memory *memory_of(PJRT_Device *device, PJRT_Memory *memory);

/* ---- group.c ----------------------------------------------------------------------- */

extern int node, nodes; /* this one's number, and how many there are */

/* Meet the other nodes, if the options that ARGS have say that there are some; makes the devices. */
PJRT_Error *group_join(const PJRT_Client_Create_Args *args);

/* The store that the nodes share: put once; wait for as long as all nodes are there.  VALUE is the
 * caller's. */
PJRT_Error *group_put(const char *key, const char *value, size_t len);
PJRT_Error *group_get(const char *key, char **value, size_t *len);

/* Wait until all nodes have called this as often. */
PJRT_Error *await_nodes(void);

/* ---- buffer.c ---------------------------------------------------------------------- */

struct PJRT_Buffer {
	enum op made_by; /* what its ready event is a fault of, or EVENT */
	PJRT_Device *device;
	PJRT_Memory *memory;
	PJRT_Buffer_Type type;
	size_t rank;
	int64_t dims[MAX_RANK];
	int64_t minor_to_major[MAX_RANK];
	size_t size; /* bytes */
	char *data;
	bool borrowed;         /* data is the host's, from a zero-copy upload */
	PJRT_Event *borrowing; /* owned; fires when data is given back */
	PJRT_Event *arrival;   /* owned; it is ready then; or NULL */
	bool deleted;
};

/* A buffer of zeros, in memory of its own.  An error: more extents than we keep, or a size that
 * overflows or that there is not. */
PJRT_Error *buffer_new(PJRT_Memory *memory, PJRT_Buffer_Type type, const int64_t *dims,
		       size_t rank, PJRT_Buffer **ret);

/* The same without data. */
PJRT_Error *buffer_bare(PJRT_Memory *memory, PJRT_Buffer_Type type, const int64_t *dims,
			size_t rank, PJRT_Buffer **ret);
void buffer_free(PJRT_Buffer *b);
void buffer_drop_data(PJRT_Buffer *b); /* no call may use B any more */

/* An error when the buffer has no data any more. */
PJRT_Error *check_live(const PJRT_Buffer *b);

/* ---- what the table names ---------------------------------------------------------- */

PJRT_Error_Destroy error_destroy;
PJRT_Error_Message error_message;
PJRT_Error_GetCode error_get_code;
PJRT_Error *error_for_each_payload(struct pj_Error_ForEachPayload_Args *args);

/* faulty_Client_Create and so on, each in the file of its noun. */
#define CALL(name, operation, effect, gives) PJRT_##name faulty_##name;
#define NEWER(name, operation, effect, gives)                                            \
	PJRT_Error *faulty_##name(struct pj_##name##_Args *args);
#include "calls.h"
#undef CALL
#undef NEWER

/* One of these, which only sets fields of its arguments and cannot fail. */
#define GIVE(name, ...) GIVE_BY(name, PJRT_##name##_Args, __VA_ARGS__)
#define GIVE_NEWER(name, ...) GIVE_BY(name, struct pj_##name##_Args, __VA_ARGS__)
#define GIVE_BY(name, type, ...)                                                         \
	PJRT_Error *faulty_##name(type *args)                                            \
	{                                                                                \
		__VA_ARGS__;                                                             \
		return NULL;                                                             \
	}

/* There, a text in two fields. */
#define TEXT(field, text) args->field = (text), args->field##_size = strlen(args->field)

extern struct pj_cross_host_extension cross_host_extension;
extern struct pj_abi_extension abi_extension;

#endif
