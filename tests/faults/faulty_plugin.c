/*
 * A PJRT plugin that computes nothing and fails on demand.
 *
 * It serves every program as f(x: f32[2,3], y: f32[2,3]) -> f32[2,3] of zeros, on two
 * devices of host memory, each with memories "device" and "pinned_host".  Buffers keep
 * their bytes; zero-copy uploads alias the host's memory where it is 64-byte aligned, as
 * XLA's CPU plugins do; uninitialized ones hold bytes a5.
 *
 *   cc -shared -fPIC -pthread -I$INCLUDE -o faulty_plugin.so faulty_plugin.c
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
 *   download     PJRT_Buffer_ToHostBuffer and CopyRawToHost; as long as it has a fault,
 *                the calls that tell a buffer's address say UNIMPLEMENTED
 *   pointer      the calls that tell a buffer's address
 *   copy         PJRT_Buffer_CopyToDevice and CopyToMemory.  Within one device the daemon
 *                takes INVALID_ARGUMENT for the refusal that the API allows, and copies
 *                through the host
 *   uninitialized  PJRT_Client_CreateUninitializedBuffer
 *   stats        PJRT_Device_MemoryStats (UNIMPLEMENTED when left alone)
 *   serialize    PJRT_Executable_Serialize (UNIMPLEMENTED when left alone, so that no cache
 *                hides a fault of compile; serialize=works)
 *   load         PJRT_Executable_DeserializeAndLoad
 *   event        every event that is made
 *   api          GetPjrtApi
 *   open         the library's constructor: dlopen(3)
 *
 * fault                       what happens
 *   error:CODE[:text]         an error; CODE without PJRT_Error_Code_: INTERNAL
 *   enospc-at:N               RESOURCE_EXHAUSTED at the op's Nth call, counted from 1
 *                             over all calls of this process
 *   hang[:text]               text on standard error; the call never returns; event=hang:
 *                             never ready
 *   slow:MS                   the call takes that long; event=slow is late-event
 *   abort[:text]              text on standard error, then abort()
 *   segv                      SIGSEGV
 *   exit[:status]             exit(), with 1 unless told
 *   late-event:MS             (execute, upload, download, copy, uninitialized, event)
 *                             ready that much later
 *   event-error:CODE[:text]   (the same) the event carries an error; event=error too
 *   print:N[:text]            N lines "text 1", "text 2" ... on standard error; goes on
 *   babble                    from now on prints for ever, as fast as it can; goes on
 *   none                      nothing
 *   held                      the call goes on when the op has this fault no more
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
 *
 * A zero-copy upload has no fault of its event: that one means "given back", and stays
 * unready until the buffer is destroyed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "pjrt_c_api.h"

enum { MAX_RANK = 16, SPEC_LEN = 4096, TEXT_LEN = 256, ALIGNMENT = 64 };
enum { N_DEVICES = 2, N_MEMORIES = 2 /* of each */ };

const PJRT_Api *GetPjrtApi(void);

/* ---- errors ------------------------------------------------------------------------ */

struct PJRT_Error {
	PJRT_Error_Code code;
	char text[TEXT_LEN];
};

static const char *const code_names[] = {
	"OK",
	"CANCELLED",
	"UNKNOWN",
	"INVALID_ARGUMENT",
	"DEADLINE_EXCEEDED",
	"NOT_FOUND",
	"ALREADY_EXISTS",
	"PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED",
	"FAILED_PRECONDITION",
	"ABORTED",
	"OUT_OF_RANGE",
	"UNIMPLEMENTED",
	"INTERNAL",
	"UNAVAILABLE",
	"DATA_LOSS",
	"UNAUTHENTICATED",
};

/* A new error.  Lack of memory ends the process: nothing here is worth saving. */
__attribute__((__format__(__printf__, 2, 3))) static PJRT_Error *error_new(
	PJRT_Error_Code code, const char *fmt, ...)
{
	PJRT_Error *e = malloc(sizeof(*e));
	va_list ap;

	if (!e)
		abort();
	e->code = code;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	return e;
}

/* The code of a name that ends at a colon or at the end; UNKNOWN where there is none. */
static PJRT_Error_Code code_of(const char *name)
{
	size_t len = strcspn(name, ":");

	for (size_t i = 1; i < sizeof(code_names) / sizeof(code_names[0]); i++)
		if (strlen(code_names[i]) == len &&
		    !strncasecmp(code_names[i], name, len))
			return (PJRT_Error_Code)i;
	return PJRT_Error_Code_UNKNOWN;
}

static void error_destroy(PJRT_Error_Destroy_Args *args)
{
	free(args->error);
}

static void error_message(PJRT_Error_Message_Args *args)
{
	args->message = args->error->text;
	args->message_size = strlen(args->error->text);
}

static PJRT_Error *error_get_code(PJRT_Error_GetCode_Args *args)
{
	args->code = args->error->code;
	return NULL;
}

/* ---- faults ------------------------------------------------------------------------ */

enum op {
	INIT,
	CLIENT,
	COMPILE,
	EXECUTE,
	UPLOAD,
	DOWNLOAD,
	POINTER,
	COPY,
	UNINITIALIZED,
	STATS,
	EVENT,
	API,
	SERIALIZE,
	LOAD,
	OPEN,
	N_OPS
};

static const char *const op_names[N_OPS] = {
	"init",     "client",  "compile",   "execute",       "upload",
	"download", "pointer", "copy",      "uninitialized", "stats",
	"event",    "api",     "serialize", "load",          "open",
};
static atomic_long calls[N_OPS];

/* The PJRT_Program that a thread compiles.  No _Thread_local: the leak checker falls over
 * those of libraries that were opened. */
static pthread_key_t compiling;

static void __attribute__((__constructor__)) make_key(void)
{
	if (pthread_key_create(&compiling, NULL))
		abort();
}

/* FAULT, or what of it is left after an "nth:N:"; NULL: it is not about this call. */
static const char *nth(const char *fault, enum op op)
{
	char *end;

	if (strncmp(fault, "nth:", strlen("nth:")))
		return fault;
	if (strtol(fault + strlen("nth:"), &end, 10) != atomic_load(&calls[op]))
		return NULL;
	return end + (*end == ':');
}

/* FAULT, or what of it is left after a "when:WORD:"; NULL: it is not about this program. */
static const char *when(const char *fault)
{
	const char *word = fault + strlen("when:"), *end;
	const PJRT_Program *program = pthread_getspecific(compiling);

	if (strncmp(fault, "when:", strlen("when:")))
		return fault;
	end = strchr(word, ':');
	if (!end || !program ||
	    !memmem(program->code, program->code_size, word, (size_t)(end - word)))
		return NULL;
	return end + 1;
}

/* Read the list of faults that is in force. */
static void read_spec(char spec[static SPEC_LEN])
{
	const char *path = getenv("PJRTFS_FAULTY_FILE");
	const char *env = getenv("PJRTFS_FAULTY");
	FILE *f = path ? fopen(path, "re") : NULL;

	if (f) {
		spec[fread(spec, 1, SPEC_LEN - 1, f)] = '\0';
		fclose(f);
	} else {
		snprintf(spec, SPEC_LEN, "%s", env ? env : "");
	}
}

/* Find the fault of OP: "error:INTERNAL:text".  False when it has none. */
static bool find_fault(enum op op, char fault[static TEXT_LEN])
{
	size_t name_len = strlen(op_names[op]);
	char spec[SPEC_LEN], *save = NULL;

	read_spec(spec);
	for (char *s = strtok_r(spec, ",\n", &save); s;
	     s = strtok_r(NULL, ",\n", &save)) {
		s += strspn(s, " \t");
		if (strncmp(s, op_names[op], name_len) || s[name_len] != '=')
			continue;
		s = (char *)(uintptr_t)nth(s + name_len + 1, op);
		if (!s || !when(s))
			continue;
		snprintf(fault, TEXT_LEN, "%s", when(s));
		return strcmp(fault, "none") != 0;
	}
	return false;
}

/* The argument of FAULT when it is NAME or NAME:argument, else NULL. */
static const char *fault_arg(const char *fault, const char *name)
{
	size_t len = strlen(name);

	if (strncmp(fault, name, len) || (fault[len] && fault[len] != ':'))
		return NULL;
	return fault[len] ? fault + len + 1 : fault + len;
}

static void sleep_ms(long ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	while (nanosleep(&t, &t))
		;
}

/* An error from "CODE" or "CODE:text". */
static PJRT_Error *error_from(const char *arg, enum op op)
{
	const char *colon = strchr(arg, ':');

	if (colon)
		return error_new(code_of(arg), "%s", colon + 1);
	return error_new(code_of(arg), "faulty: %s fails as it was told", op_names[op]);
}

/* The faults that end the process. */
static void die(const char *fault)
{
	const char *arg;

	if ((arg = fault_arg(fault, "abort"))) {
		fprintf(stderr, "%s\n", *arg ? arg : "faulty: aborting as told");
		fflush(stderr);
		abort();
	}
	if (fault_arg(fault, "segv")) {
		signal(SIGSEGV, SIG_DFL);
		raise(SIGSEGV);
	}
	if ((arg = fault_arg(fault, "exit")))
		exit(*arg ? atoi(arg) : 1);
}

static bool is_nth(const char *arg, long call)
{
	return call == strtol(arg, NULL, 10);
}

static void print_lines(const char *arg)
{
	const char *colon = strchr(arg, ':');

	for (long i = 1; i <= strtol(arg, NULL, 10); i++)
		fprintf(stderr, "%s %ld\n", colon ? colon + 1 : "faulty: line", i);
}

static void *babble(void *arg)
{
	static const char text[] =
		"babble, babble, babble, babble, babble, babble, bab\n";
	char many[64 * (sizeof(text) - 1)];

	(void)arg;
	for (size_t i = 0; i < sizeof(many); i++)
		many[i] = text[i % (sizeof(text) - 1)];
	while (write(2, many, sizeof(many)) > 0)
		;
	return NULL;
}

/* The faults that only make a noise. */
static void make_noise(const char *fault)
{
	static atomic_flag babbles = ATOMIC_FLAG_INIT;
	pthread_t thread;
	const char *arg;

	if ((arg = fault_arg(fault, "print")))
		print_lines(arg);
	if (fault_arg(fault, "babble") && !atomic_flag_test_and_set(&babbles) &&
	    pthread_create(&thread, NULL, babble, NULL) == 0)
		pthread_detach(thread);
}

/* Do to a call of OP what was asked for.  NULL: the call goes on. */
static PJRT_Error *inject(enum op op)
{
	long call = atomic_fetch_add(&calls[op], 1) + 1;
	char fault[TEXT_LEN];
	const char *arg;

	if (!find_fault(op, fault))
		return NULL;
	if ((arg = fault_arg(fault, "late"))) {
		sleep_ms(strtol(arg, NULL, 10));
		arg += strcspn(arg, ":");
		memmove(fault, arg + (*arg == ':'), strlen(arg + (*arg == ':')) + 1);
	}
	while (fault_arg(fault, "held")) {
		sleep_ms(10);
		if (!find_fault(op, fault))
			return NULL;
	}
	die(fault);
	make_noise(fault);
	if ((arg = fault_arg(fault, "hang"))) {
		if (*arg)
			fprintf(stderr, "%s\n", arg);
		for (;;)
			pause();
	}
	if ((arg = fault_arg(fault, "slow")))
		sleep_ms(strtol(arg, NULL, 10));
	if ((arg = fault_arg(fault, "enospc-at")) && is_nth(arg, call))
		return error_new(PJRT_Error_Code_RESOURCE_EXHAUSTED,
				 "faulty: out of memory at call %ld of %s", call,
				 op_names[op]);
	if ((arg = fault_arg(fault, "error")))
		return error_from(arg, op);
	return NULL;
}

static void __attribute__((__constructor__)) opened(void)
{
	free(inject(OPEN)); /* nobody would read an error */
}

/* ---- events ------------------------------------------------------------------------ */

struct callback {
	struct callback *next;
	PJRT_Event_OnReadyCallback function;
	void *arg;
};

struct PJRT_Event {
	pthread_mutex_t lock; /* protects the fields below */
	pthread_cond_t changed;
	int refs;
	bool ready;
	bool has_error;
	PJRT_Error error;
	struct callback *callbacks;
};

static PJRT_Error *copy_error(const PJRT_Event *event)
{
	if (!event->has_error)
		return NULL;
	return error_new(event->error.code, "%s", event->error.text);
}

static void event_unref(PJRT_Event *event)
{
	int left;

	if (!event)
		return;
	pthread_mutex_lock(&event->lock);
	left = --event->refs;
	pthread_mutex_unlock(&event->lock);
	if (left)
		return;
	while (event->callbacks) {
		struct callback *next = event->callbacks->next;

		free(event->callbacks);
		event->callbacks = next;
	}
	pthread_cond_destroy(&event->changed);
	pthread_mutex_destroy(&event->lock);
	free(event);
}

static void event_ref(PJRT_Event *event)
{
	pthread_mutex_lock(&event->lock);
	event->refs++;
	pthread_mutex_unlock(&event->lock);
}

/* Make it ready and call who waits, without the lock.  The caller holds a reference. */
static void event_fire(PJRT_Event *event)
{
	struct callback *list;

	pthread_mutex_lock(&event->lock);
	event->ready = true;
	list = event->callbacks;
	event->callbacks = NULL;
	pthread_cond_broadcast(&event->changed);
	pthread_mutex_unlock(&event->lock);
	while (list) {
		struct callback *next = list->next;

		list->function(copy_error(event), list->arg);
		free(list);
		list = next;
	}
}

struct late {
	PJRT_Event *event;
	long ms;
};

static void *late_thread(void *arg)
{
	struct late *late = arg;

	sleep_ms(late->ms);
	event_fire(late->event);
	event_unref(late->event);
	free(late);
	return NULL;
}

static void fire_later(PJRT_Event *event, long ms)
{
	struct late *late = malloc(sizeof(*late));
	pthread_t thread;

	if (!late)
		abort();
	late->event = event;
	late->ms = ms;
	event_ref(event);
	if (pthread_create(&thread, NULL, late_thread, late))
		abort();
	pthread_detach(thread);
}

/* Take over E, which is what the event will carry; NULL changes nothing. */
static void event_carry(PJRT_Event *event, PJRT_Error *e)
{
	if (!e)
		return;
	event->has_error = true;
	event->error = *e;
	free(e);
}

/* What OP's entry says about its event.  Returns ms to wait, -1 never, 0 at once. */
static long event_fault(PJRT_Event *event, enum op op)
{
	char fault[TEXT_LEN];
	const char *arg;

	if (!find_fault(op, fault))
		return 0;
	if ((arg = fault_arg(fault, "event-error")))
		event_carry(event, error_from(arg, op));
	if ((arg = fault_arg(fault, "late-event")))
		return strtol(arg, NULL, 10);
	if (op != EVENT)
		return 0;
	die(fault);
	if ((arg = fault_arg(fault, "error")))
		event_carry(event, error_from(arg, op));
	if ((arg = fault_arg(fault, "enospc-at")) && is_nth(arg, atomic_load(&calls[op])))
		event_carry(event, error_new(PJRT_Error_Code_RESOURCE_EXHAUSTED,
					     "faulty: out of memory at event %s", arg));
	if ((arg = fault_arg(fault, "slow")))
		return strtol(arg, NULL, 10);
	return fault_arg(fault, "hang") ? -1 : 0;
}

/* A new event with one reference, not ready. */
static PJRT_Event *event_alloc(void)
{
	PJRT_Event *event = calloc(1, sizeof(*event));

	if (!event)
		abort();
	pthread_mutex_init(&event->lock, NULL);
	pthread_cond_init(&event->changed, NULL);
	event->refs = 1;
	return event;
}

/*
 * The event of a call of OP, whose work is done: ready, unless a fault makes it late.
 * WHY, which may be NULL, is taken over: the error that the work ended with.
 */
static PJRT_Event *event_new(enum op op, PJRT_Error *why)
{
	PJRT_Event *event = event_alloc();
	long of_op, of_all;

	atomic_fetch_add(&calls[EVENT], 1);
	event_carry(event, why);
	of_all = event_fault(event, EVENT);
	of_op = event_fault(event, op);
	if (of_all > 0 || of_op > 0)
		fire_later(event, of_all > of_op ? of_all : of_op);
	else if (of_all == 0)
		event_fire(event);
	return event;
}

static PJRT_Error *event_destroy(PJRT_Event_Destroy_Args *args)
{
	event_unref(args->event);
	return NULL;
}

static PJRT_Error *event_is_ready(PJRT_Event_IsReady_Args *args)
{
	pthread_mutex_lock(&args->event->lock);
	args->is_ready = args->event->ready;
	pthread_mutex_unlock(&args->event->lock);
	return NULL;
}

static PJRT_Error *event_error(PJRT_Event_Error_Args *args)
{
	return copy_error(args->event);
}

static PJRT_Error *event_await(PJRT_Event_Await_Args *args)
{
	pthread_mutex_lock(&args->event->lock);
	while (!args->event->ready)
		pthread_cond_wait(&args->event->changed, &args->event->lock);
	pthread_mutex_unlock(&args->event->lock);
	return copy_error(args->event);
}

static PJRT_Error *event_on_ready(PJRT_Event_OnReady_Args *args)
{
	struct callback *c = malloc(sizeof(*c));
	PJRT_Event *event = args->event;
	bool ready;

	if (!c)
		abort();
	c->function = args->callback;
	c->arg = args->user_arg;
	pthread_mutex_lock(&event->lock);
	ready = event->ready;
	if (!ready) {
		c->next = event->callbacks;
		event->callbacks = c;
	}
	pthread_mutex_unlock(&event->lock);
	if (ready) {
		free(c);
		args->callback(copy_error(event), args->user_arg);
	}
	return NULL;
}

/* ---- plugin, client, devices, memories --------------------------------------------- */

struct PJRT_Client {
	int unused;
};
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

static PJRT_Client the_client;
static PJRT_Device device_0 = { { 0, "faulty:0" },
				{ 0, 0, "device" },
				{ 1, 0, "pinned_host" } };
static PJRT_Device device_1 = { { 1, "faulty:1" },
				{ 2, 1, "device" },
				{ 3, 1, "pinned_host" } };
static PJRT_Device *const devices[N_DEVICES] = { &device_0, &device_1 };
static PJRT_Memory *const memories[N_MEMORIES * N_DEVICES] = {
	&device_0.memory, &device_0.pinned, &device_1.memory, &device_1.pinned
};

/* Give a string literal through two output fields. */
#define GIVE_TEXT(args, field, literal)                                                  \
	do {                                                                             \
		(args)->field = (literal);                                               \
		(args)->field##_size = strlen((args)->field);                            \
	} while (0)

static PJRT_Error *plugin_initialize(PJRT_Plugin_Initialize_Args *args)
{
	(void)args;
	return inject(INIT);
}

static PJRT_Error *plugin_attributes(PJRT_Plugin_Attributes_Args *args)
{
	static const int64_t current[] = { 1, 13, 3 }, minimum[] = { 0, 9, 0 };
	static const PJRT_NamedValue list[] = {
		{ .struct_size = PJRT_NamedValue_STRUCT_SIZE,
		  .name = "stablehlo_current_version",
		  .name_size = sizeof("stablehlo_current_version") - 1,
		  .type = PJRT_NamedValue_kInt64List,
		  .int64_array_value = current,
		  .value_size = 3 },
		{ .struct_size = PJRT_NamedValue_STRUCT_SIZE,
		  .name = "stablehlo_minimum_version",
		  .name_size = sizeof("stablehlo_minimum_version") - 1,
		  .type = PJRT_NamedValue_kInt64List,
		  .int64_array_value = minimum,
		  .value_size = 3 },
	};

	args->attributes = list;
	args->num_attributes = sizeof(list) / sizeof(list[0]);
	return NULL;
}

static PJRT_Error *client_create(PJRT_Client_Create_Args *args)
{
	PJRT_Error *e = inject(CLIENT);

	if (!e)
		args->client = &the_client;
	return e;
}

static PJRT_Error *client_destroy(PJRT_Client_Destroy_Args *args)
{
	(void)args;
	return NULL;
}

static PJRT_Error *client_platform_name(PJRT_Client_PlatformName_Args *args)
{
	GIVE_TEXT(args, platform_name, "faulty");
	return NULL;
}

static PJRT_Error *client_platform_version(PJRT_Client_PlatformVersion_Args *args)
{
	GIVE_TEXT(args, platform_version, "faulty 1");
	return NULL;
}

static PJRT_Error *client_process_index(PJRT_Client_ProcessIndex_Args *args)
{
	args->process_index = 0;
	return NULL;
}

static PJRT_Error *client_devices(PJRT_Client_Devices_Args *args)
{
	args->devices = devices;
	args->num_devices = N_DEVICES;
	return NULL;
}

static PJRT_Error *client_addressable_devices(PJRT_Client_AddressableDevices_Args *args)
{
	args->addressable_devices = devices;
	args->num_addressable_devices = N_DEVICES;
	return NULL;
}

static PJRT_Error *no_device(int id)
{
	return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "faulty: no device %d", id);
}

static PJRT_Error *client_lookup_device(PJRT_Client_LookupDevice_Args *args)
{
	if (args->id < 0 || args->id >= N_DEVICES)
		return no_device(args->id);
	args->device = devices[args->id];
	return NULL;
}

static PJRT_Error *client_lookup_addressable_device(
	PJRT_Client_LookupAddressableDevice_Args *args)
{
	if (args->local_hardware_id < 0 || args->local_hardware_id >= N_DEVICES)
		return no_device(args->local_hardware_id);
	args->addressable_device = devices[args->local_hardware_id];
	return NULL;
}

static PJRT_Error *client_addressable_memories(PJRT_Client_AddressableMemories_Args *args)
{
	args->addressable_memories = memories;
	args->num_addressable_memories = N_MEMORIES * N_DEVICES;
	return NULL;
}

static PJRT_Error *client_default_device_assignment(
	PJRT_Client_DefaultDeviceAssignment_Args *args)
{
	int n = args->num_replicas * args->num_partitions;

	if (n < 1 || n > N_DEVICES || args->default_assignment_size < (size_t)n)
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				 "faulty: no assignment of %d devices", n);
	for (int i = 0; i < n; i++)
		args->default_assignment[i] = i;
	return NULL;
}

static PJRT_Error *description_id(PJRT_DeviceDescription_Id_Args *args)
{
	args->id = args->device_description->id;
	return NULL;
}

static PJRT_Error *description_process_index(
	PJRT_DeviceDescription_ProcessIndex_Args *args)
{
	args->process_index = 0;
	return NULL;
}

static PJRT_Error *description_attributes(PJRT_DeviceDescription_Attributes_Args *args)
{
	args->attributes = NULL;
	args->num_attributes = 0;
	return NULL;
}

static PJRT_Error *description_kind(PJRT_DeviceDescription_Kind_Args *args)
{
	GIVE_TEXT(args, device_kind, "faulty");
	return NULL;
}

static PJRT_Error *description_debug_string(PJRT_DeviceDescription_DebugString_Args *args)
{
	GIVE_TEXT(args, debug_string, args->device_description->text);
	return NULL;
}

static PJRT_Error *description_to_string(PJRT_DeviceDescription_ToString_Args *args)
{
	GIVE_TEXT(args, to_string, args->device_description->text);
	return NULL;
}

static PJRT_Error *device_get_description(PJRT_Device_GetDescription_Args *args)
{
	args->device_description = &args->device->description;
	return NULL;
}

static PJRT_Error *device_is_addressable(PJRT_Device_IsAddressable_Args *args)
{
	args->is_addressable = true;
	return NULL;
}

static PJRT_Error *device_local_hardware_id(PJRT_Device_LocalHardwareId_Args *args)
{
	args->local_hardware_id = args->device->description.id;
	return NULL;
}

static PJRT_Error *device_addressable_memories(PJRT_Device_AddressableMemories_Args *args)
{
	args->memories = &memories[args->device->description.id * N_MEMORIES];
	args->num_memories = N_MEMORIES;
	return NULL;
}

static PJRT_Error *device_default_memory(PJRT_Device_DefaultMemory_Args *args)
{
	args->memory = &args->device->memory;
	return NULL;
}

static PJRT_Error *device_memory_stats(PJRT_Device_MemoryStats_Args *args)
{
	PJRT_Error *e = inject(STATS);

	(void)args;
	return e ? e
		 : error_new(PJRT_Error_Code_UNIMPLEMENTED,
			     "faulty: MemoryStats is not implemented");
}

static PJRT_Error *memory_id(PJRT_Memory_Id_Args *args)
{
	args->id = args->memory->id;
	return NULL;
}

static PJRT_Error *memory_kind(PJRT_Memory_Kind_Args *args)
{
	GIVE_TEXT(args, kind, args->memory->kind);
	return NULL;
}

static PJRT_Error *memory_kind_id(PJRT_Memory_Kind_Id_Args *args)
{
	args->kind_id = 1 + args->memory->id % N_MEMORIES;
	return NULL;
}

static PJRT_Error *memory_debug_string(PJRT_Memory_DebugString_Args *args)
{
	GIVE_TEXT(args, debug_string, "faulty memory");
	return NULL;
}

static PJRT_Error *memory_to_string(PJRT_Memory_ToString_Args *args)
{
	GIVE_TEXT(args, to_string, "faulty memory");
	return NULL;
}

static PJRT_Error *memory_addressable_by_devices(
	PJRT_Memory_AddressableByDevices_Args *args)
{
	args->devices = &devices[args->memory->device];
	args->num_devices = 1;
	return NULL;
}

/* ---- programs ---------------------------------------------------------------------- */

/*
 * What PJRT_Executable_OptimizedProgram gives: a HloModuleProtoWithConfig whose module,
 * by hand, holds the name, the entry computation with its two named parameters, and the
 * host program shape.  F32 is 11 in xla_data.proto, the layouts are row-major.
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

static const int64_t result_dims[] = { 2, 3 };
static const PJRT_Buffer_Type result_type = PJRT_Buffer_Type_F32;

struct PJRT_Executable {
	int unused;
};
struct PJRT_LoadedExecutable {
	bool deleted;
	PJRT_Executable executable;
};

static PJRT_Error *client_compile(PJRT_Client_Compile_Args *args)
{
	PJRT_Error *e;

	pthread_setspecific(compiling, args->program);
	e = inject(COMPILE);
	pthread_setspecific(compiling, NULL);
	if (e)
		return e;
	if (!args->program->code_size)
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "faulty: no program");
	args->executable = calloc(1, sizeof(*args->executable));
	return args->executable ? NULL
				: error_new(PJRT_Error_Code_RESOURCE_EXHAUSTED,
					    "faulty: no memory");
}

static const char serialized[] = "what the faulty plugin compiled";

static void serialized_deleter(PJRT_SerializedExecutable *executable)
{
	(void)executable; /* the bytes are static */
}

static PJRT_Error *executable_serialize(PJRT_Executable_Serialize_Args *args)
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
	args->serialized_executable = NULL;
	args->serialized_executable_deleter = serialized_deleter;
	return NULL;
}

static PJRT_Error *deserialize(PJRT_Executable_DeserializeAndLoad_Args *args)
{
	PJRT_Error *e = inject(LOAD);

	if (e)
		return e;
	if (args->serialized_executable_size != sizeof(serialized) ||
	    memcmp(args->serialized_executable, serialized, sizeof(serialized)))
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				 "faulty: that was not compiled here");
	args->loaded_executable = calloc(1, sizeof(*args->loaded_executable));
	return args->loaded_executable ? NULL
				       : error_new(PJRT_Error_Code_RESOURCE_EXHAUSTED,
						   "faulty: no memory");
}

static PJRT_Error *loaded_destroy(PJRT_LoadedExecutable_Destroy_Args *args)
{
	free(args->executable);
	return NULL;
}

static PJRT_Error *loaded_get_executable(PJRT_LoadedExecutable_GetExecutable_Args *args)
{
	args->executable = calloc(1, sizeof(*args->executable));
	if (!args->executable)
		abort();
	return NULL;
}

static PJRT_Error *loaded_addressable_devices(
	PJRT_LoadedExecutable_AddressableDevices_Args *args)
{
	args->addressable_devices = devices;
	args->num_addressable_devices = 1;
	return NULL;
}

static PJRT_Error *loaded_delete(PJRT_LoadedExecutable_Delete_Args *args)
{
	args->executable->deleted = true;
	return NULL;
}

static PJRT_Error *loaded_is_deleted(PJRT_LoadedExecutable_IsDeleted_Args *args)
{
	args->is_deleted = args->executable->deleted;
	return NULL;
}

static void assignment_deleter(PJRT_DeviceAssignmentSerialized *assignment)
{
	(void)assignment; /* the bytes are static */
}

static PJRT_Error *loaded_get_device_assignment(
	PJRT_LoadedExecutable_GetDeviceAssignment_Args *args)
{
	/* DeviceAssignmentProto: 1 replica, 1 computation, on device 0 */
	static const char bytes[] = "\x08\x01\x10\x01\x1a\x03\x0a\x01\x00";

	args->serialized_bytes = bytes;
	args->serialized_bytes_size = sizeof(bytes) - 1;
	args->serialized_device_assignment = NULL;
	args->serialized_device_assignment_deleter = assignment_deleter;
	return NULL;
}

static PJRT_Error *executable_destroy(PJRT_Executable_Destroy_Args *args)
{
	free(args->executable);
	return NULL;
}

static PJRT_Error *executable_name(PJRT_Executable_Name_Args *args)
{
	GIVE_TEXT(args, executable_name, "faulty");
	return NULL;
}

static PJRT_Error *executable_num_replicas(PJRT_Executable_NumReplicas_Args *args)
{
	args->num_replicas = 1;
	return NULL;
}

static PJRT_Error *executable_num_partitions(PJRT_Executable_NumPartitions_Args *args)
{
	args->num_partitions = 1;
	return NULL;
}

static PJRT_Error *executable_num_outputs(PJRT_Executable_NumOutputs_Args *args)
{
	args->num_outputs = 1;
	return NULL;
}

static PJRT_Error *executable_code_size(
	PJRT_Executable_SizeOfGeneratedCodeInBytes_Args *args)
{
	args->size_in_bytes = 0;
	return NULL;
}

static PJRT_Error *executable_fingerprint(PJRT_Executable_Fingerprint_Args *args)
{
	GIVE_TEXT(args, executable_fingerprint, "faulty");
	return NULL;
}

static PJRT_Error *executable_output_types(PJRT_Executable_OutputElementTypes_Args *args)
{
	static PJRT_Buffer_Type types[1];

	types[0] = result_type;
	args->output_types = types;
	args->num_output_types = 1;
	return NULL;
}

static PJRT_Error *executable_output_dims(PJRT_Executable_OutputDimensions_Args *args)
{
	static const size_t ranks[] = { 2 };

	args->num_outputs = 1;
	args->dims = result_dims;
	args->dim_sizes = ranks;
	return NULL;
}

static PJRT_Error *executable_optimized_program(
	PJRT_Executable_OptimizedProgram_Args *args)
{
	static const char format[] = "hlo_with_config";
	size_t size = sizeof(module_with_config) - 1;

	args->program->format = format;
	args->program->format_size = sizeof(format) - 1;
	if (args->program->code && args->program->code_size < size)
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				 "faulty: the program has %zu bytes", size);
	if (args->program->code)
		memcpy(args->program->code, module_with_config, size);
	args->program->code_size = size;
	return NULL;
}

/* ---- buffers ----------------------------------------------------------------------- */

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
	bool deleted;
};

static size_t type_size(PJRT_Buffer_Type type)
{
	switch (type) {
	case PJRT_Buffer_Type_S16:
	case PJRT_Buffer_Type_U16:
	case PJRT_Buffer_Type_F16:
	case PJRT_Buffer_Type_BF16:
		return 2;
	case PJRT_Buffer_Type_S32:
	case PJRT_Buffer_Type_U32:
	case PJRT_Buffer_Type_F32:
		return 4;
	case PJRT_Buffer_Type_S64:
	case PJRT_Buffer_Type_U64:
	case PJRT_Buffer_Type_F64:
	case PJRT_Buffer_Type_C64:
		return 8;
	case PJRT_Buffer_Type_C128:
		return 16;
	default:
		return 1;
	}
}

/* A buffer without data.  NULL: more extents than we keep, or a size that overflows. */
static PJRT_Buffer *buffer_alloc(PJRT_Memory *memory, PJRT_Buffer_Type type,
				 const int64_t *dims, size_t rank)
{
	PJRT_Buffer *b = calloc(1, sizeof(*b));

	if (!b)
		abort();
	b->made_by = EVENT;
	b->device = devices[memory->device];
	b->memory = memory;
	b->type = type;
	b->rank = rank;
	b->size = type_size(type);
	for (size_t i = 0; i < rank; i++) {
		if (rank > MAX_RANK || dims[i] < 0 ||
		    __builtin_mul_overflow(b->size, (size_t)dims[i], &b->size)) {
			free(b);
			return NULL;
		}
		b->dims[i] = dims[i];
		b->minor_to_major[i] = (int64_t)(rank - 1 - i);
	}
	return b;
}

/* Memory of the buffer's own, zeros. */
static PJRT_Error *buffer_fill(PJRT_Buffer *b)
{
	size_t size = (b->size + ALIGNMENT) / ALIGNMENT * ALIGNMENT;

	b->data = aligned_alloc(ALIGNMENT, size);
	if (!b->data)
		return error_new(PJRT_Error_Code_RESOURCE_EXHAUSTED,
				 "faulty: no %zu bytes", size);
	memset(b->data, 0, size);
	return NULL;
}

static void buffer_drop_data(PJRT_Buffer *b)
{
	if (!b->borrowed)
		free(b->data);
	b->data = NULL;
	if (b->borrowing) {
		event_fire(b->borrowing);
		event_unref(b->borrowing);
		b->borrowing = NULL;
	}
	b->deleted = true;
}

static void buffer_free(PJRT_Buffer *b)
{
	if (!b)
		return;
	buffer_drop_data(b);
	free(b);
}

/* An error when the buffer has no data any more. */
static PJRT_Error *check_live(const PJRT_Buffer *b)
{
	if (!b->deleted)
		return NULL;
	return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
			 "faulty: the buffer is deleted");
}

static PJRT_Memory *memory_of(PJRT_Device *device, PJRT_Memory *memory)
{
	if (memory)
		return memory;
	return device ? &device->memory : &device_0.memory;
}

static PJRT_Error *client_buffer_from_host(PJRT_Client_BufferFromHostBuffer_Args *args)
{
	PJRT_Error *e = inject(UPLOAD);
	PJRT_Buffer *b;
	bool zero_copy = args->host_buffer_semantics >=
			 PJRT_HostBufferSemantics_kImmutableZeroCopy;

	if (e)
		return e;
	b = buffer_alloc(memory_of(args->device, args->memory), args->type, args->dims,
			 args->num_dims);
	if (!b)
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "faulty: bad shape");
	if (zero_copy && (uintptr_t)args->data % ALIGNMENT == 0) {
		b->data = (char *)(uintptr_t)args->data;
		b->borrowed = true;
		b->borrowing = event_alloc();
		event_ref(b->borrowing);
		args->done_with_host_buffer = b->borrowing;
	} else {
		e = buffer_fill(b);
		if (e) {
			buffer_free(b);
			return e;
		}
		memcpy(b->data, args->data, b->size);
		args->done_with_host_buffer = event_new(UPLOAD, NULL);
	}
	args->buffer = b;
	return NULL;
}

static PJRT_Error *buffer_destroy(PJRT_Buffer_Destroy_Args *args)
{
	buffer_free(args->buffer);
	return NULL;
}

static PJRT_Error *buffer_delete(PJRT_Buffer_Delete_Args *args)
{
	buffer_drop_data(args->buffer);
	return NULL;
}

static PJRT_Error *buffer_is_deleted(PJRT_Buffer_IsDeleted_Args *args)
{
	args->is_deleted = args->buffer->deleted;
	return NULL;
}

static PJRT_Error *buffer_element_type(PJRT_Buffer_ElementType_Args *args)
{
	args->type = args->buffer->type;
	return NULL;
}

static PJRT_Error *buffer_dimensions(PJRT_Buffer_Dimensions_Args *args)
{
	args->dims = args->buffer->dims;
	args->num_dims = args->buffer->rank;
	return NULL;
}

static PJRT_Error *buffer_unpadded_dimensions(PJRT_Buffer_UnpaddedDimensions_Args *args)
{
	args->unpadded_dims = args->buffer->dims;
	args->num_dims = args->buffer->rank;
	return NULL;
}

static PJRT_Error *buffer_dynamic_dims(PJRT_Buffer_DynamicDimensionIndices_Args *args)
{
	args->dynamic_dim_indices = NULL;
	args->num_dynamic_dims = 0;
	return NULL;
}

static PJRT_Error *buffer_memory_layout(PJRT_Buffer_GetMemoryLayout_Args *args)
{
	args->layout = (PJRT_Buffer_MemoryLayout){
		.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE,
		.type = PJRT_Buffer_MemoryLayout_Type_Tiled,
		.tiled = { .struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE,
			   .minor_to_major = args->buffer->minor_to_major,
			   .minor_to_major_size = args->buffer->rank },
	};
	return NULL;
}

static PJRT_Error *buffer_on_device_size(PJRT_Buffer_OnDeviceSizeInBytes_Args *args)
{
	args->on_device_size_in_bytes = args->buffer->size;
	return NULL;
}

static PJRT_Error *buffer_device(PJRT_Buffer_Device_Args *args)
{
	args->device = args->buffer->device;
	return NULL;
}

static PJRT_Error *buffer_memory(PJRT_Buffer_Memory_Args *args)
{
	args->memory = args->buffer->memory;
	return NULL;
}

static PJRT_Error *buffer_is_on_cpu(PJRT_Buffer_IsOnCpu_Args *args)
{
	args->is_on_cpu = true;
	return NULL;
}

static PJRT_Error *buffer_ready_event(PJRT_Buffer_ReadyEvent_Args *args)
{
	PJRT_Error *e = check_live(args->buffer);

	if (!e)
		args->event = event_new(args->buffer->made_by, NULL);
	return e;
}

/* Copy LEN bytes from OFFSET; what is out of range becomes the event's error. */
static PJRT_Event *copy_out(const PJRT_Buffer *b, void *dst, size_t offset, size_t len)
{
	PJRT_Error *why = NULL;

	if (offset > b->size || len > b->size - offset)
		why = error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				"faulty: %zu bytes at %zu of %zu", len, offset, b->size);
	else if (len)
		memcpy(dst, b->data + offset, len);
	return event_new(DOWNLOAD, why);
}

static PJRT_Error *buffer_to_host(PJRT_Buffer_ToHostBuffer_Args *args)
{
	PJRT_Error *e = check_live(args->src);

	if (e)
		return e;
	if (!args->dst) {
		args->dst_size = args->src->size;
		return NULL;
	}
	e = inject(DOWNLOAD);
	if (!e && args->dst_size < args->src->size)
		args->event = event_new(DOWNLOAD,
					error_new(PJRT_Error_Code_INVALID_ARGUMENT,
						  "faulty: %zu bytes are too few for %zu",
						  args->dst_size, args->src->size));
	else if (!e)
		args->event = copy_out(args->src, args->dst, 0, args->src->size);
	return e;
}

static PJRT_Error *buffer_copy_raw_to_host(PJRT_Buffer_CopyRawToHost_Args *args)
{
	PJRT_Error *e = check_live(args->buffer);

	if (!e)
		e = inject(DOWNLOAD);
	if (!e)
		args->event = copy_out(args->buffer, args->dst, (size_t)args->offset,
				       (size_t)args->transfer_size);
	return e;
}

/* May the buffer's address be told? */
static PJRT_Error *check_pointer(const PJRT_Buffer *b)
{
	char fault[TEXT_LEN];
	PJRT_Error *e = inject(POINTER);

	if (e)
		return e;
	if (find_fault(DOWNLOAD, fault))
		return error_new(PJRT_Error_Code_UNIMPLEMENTED,
				 "faulty: addresses are not told");
	return check_live(b);
}

static PJRT_Error *buffer_unsafe_pointer(PJRT_Buffer_UnsafePointer_Args *args)
{
	PJRT_Error *e = check_pointer(args->buffer);

	if (!e)
		args->buffer_pointer = (uintptr_t)args->buffer->data;
	return e;
}

static PJRT_Error *buffer_opaque_pointer(
	PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args *args)
{
	PJRT_Error *e = check_pointer(args->buffer);

	if (!e)
		args->device_memory_ptr = args->buffer->data;
	return e;
}

static PJRT_Error *buffer_increase_refs(
	PJRT_Buffer_IncreaseExternalReferenceCount_Args *args)
{
	(void)args;
	return NULL;
}

static PJRT_Error *buffer_decrease_refs(
	PJRT_Buffer_DecreaseExternalReferenceCount_Args *args)
{
	(void)args;
	return NULL;
}

static PJRT_Error *copy_buffer(const PJRT_Buffer *src, PJRT_Memory *memory,
			       PJRT_Buffer **ret)
{
	PJRT_Error *e = check_live(src);
	PJRT_Buffer *b;

	if (!e)
		e = inject(COPY);
	if (e)
		return e;
	b = buffer_alloc(memory, src->type, src->dims, src->rank);
	b->made_by = COPY;
	e = buffer_fill(b);
	if (e) {
		buffer_free(b);
		return e;
	}
	memcpy(b->data, src->data, src->size);
	*ret = b;
	return NULL;
}

static PJRT_Error *buffer_copy_to_device(PJRT_Buffer_CopyToDevice_Args *args)
{
	return copy_buffer(args->buffer, &args->dst_device->memory, &args->dst_buffer);
}

static PJRT_Error *buffer_copy_to_memory(PJRT_Buffer_CopyToMemory_Args *args)
{
	return copy_buffer(args->buffer, args->dst_memory, &args->dst_buffer);
}

static PJRT_Error *client_create_uninitialized(
	PJRT_Client_CreateUninitializedBuffer_Args *args)
{
	PJRT_Error *e = inject(UNINITIALIZED);
	PJRT_Buffer *b;

	if (e)
		return e;
	b = buffer_alloc(memory_of(args->device, args->memory), args->shape_element_type,
			 args->shape_dims, args->shape_num_dims);
	if (!b)
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT, "faulty: bad shape");
	b->made_by = UNINITIALIZED;
	e = buffer_fill(b);
	if (e) {
		buffer_free(b);
		return e;
	}
	memset(b->data, 0xa5, b->size);
	args->buffer = b;
	return NULL;
}

static bool is_argument(const PJRT_Buffer *b)
{
	return b->type == result_type && b->rank == 2 && b->dims[0] == result_dims[0] &&
	       b->dims[1] == result_dims[1];
}

static PJRT_Error *loaded_execute(PJRT_LoadedExecutable_Execute_Args *args)
{
	PJRT_Error *e = inject(EXECUTE);
	PJRT_Buffer *b;

	if (e)
		return e;
	if (args->num_devices != 1 || args->num_args != 2)
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				 "faulty: %zu arguments on %zu devices, not 2 on 1",
				 args->num_args, args->num_devices);
	for (size_t i = 0; i < args->num_args; i++) {
		e = check_live(args->argument_lists[0][i]);
		if (!e && !is_argument(args->argument_lists[0][i]))
			e = error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				      "faulty: argument %zu is no f32[2,3]", i);
		if (e)
			return e;
	}
	b = buffer_alloc(memory_of(args->execute_device, NULL), result_type, result_dims,
			 2);
	e = buffer_fill(b);
	if (e) {
		buffer_free(b);
		return e;
	}
	args->output_lists[0][0] = b;
	if (args->device_complete_events)
		args->device_complete_events[0] = event_new(EXECUTE, NULL);
	return NULL;
}

/* ---- the table --------------------------------------------------------------------- */

#define STUB(name)                                                                       \
	static PJRT_Error *name##_stub(name##_Args *args)                                \
	{                                                                                \
		(void)args;                                                              \
		return error_new(PJRT_Error_Code_UNIMPLEMENTED,                          \
				 "faulty: " #name " is not implemented");                \
	}

STUB(PJRT_Executable_GetCostAnalysis)
STUB(PJRT_Executable_OutputMemoryKinds)
STUB(PJRT_Executable_GetCompiledMemoryStats)
STUB(PJRT_LoadedExecutable_Fingerprint)
STUB(PJRT_TopologyDescription_Create)
STUB(PJRT_Compile)
STUB(PJRT_Client_CreateViewOfDeviceBuffer)
STUB(PJRT_Client_TopologyDescription)
STUB(PJRT_ExecuteContext_Create)
STUB(PJRT_Client_CreateBuffersForAsyncHostToDevice)
STUB(PJRT_Client_DmaMap)
STUB(PJRT_Client_DmaUnmap)
STUB(PJRT_Client_CreateAliasBuffer)

/* Functions that nothing can reach without one of the stubs above are NULL. */
static PJRT_Api api = {
	.struct_size = PJRT_Api_STRUCT_SIZE,
	.pjrt_api_version = { .struct_size = PJRT_Api_Version_STRUCT_SIZE,
			      .major_version = PJRT_API_MAJOR,
			      .minor_version = PJRT_API_MINOR },
	.PJRT_Error_Destroy = error_destroy,
	.PJRT_Error_Message = error_message,
	.PJRT_Error_GetCode = error_get_code,
	.PJRT_Plugin_Initialize = plugin_initialize,
	.PJRT_Plugin_Attributes = plugin_attributes,
	.PJRT_Event_Destroy = event_destroy,
	.PJRT_Event_IsReady = event_is_ready,
	.PJRT_Event_Error = event_error,
	.PJRT_Event_Await = event_await,
	.PJRT_Event_OnReady = event_on_ready,
	.PJRT_Client_Create = client_create,
	.PJRT_Client_Destroy = client_destroy,
	.PJRT_Client_PlatformName = client_platform_name,
	.PJRT_Client_ProcessIndex = client_process_index,
	.PJRT_Client_PlatformVersion = client_platform_version,
	.PJRT_Client_Devices = client_devices,
	.PJRT_Client_AddressableDevices = client_addressable_devices,
	.PJRT_Client_LookupDevice = client_lookup_device,
	.PJRT_Client_LookupAddressableDevice = client_lookup_addressable_device,
	.PJRT_Client_AddressableMemories = client_addressable_memories,
	.PJRT_Client_Compile = client_compile,
	.PJRT_Client_DefaultDeviceAssignment = client_default_device_assignment,
	.PJRT_Client_BufferFromHostBuffer = client_buffer_from_host,
	.PJRT_DeviceDescription_Id = description_id,
	.PJRT_DeviceDescription_ProcessIndex = description_process_index,
	.PJRT_DeviceDescription_Attributes = description_attributes,
	.PJRT_DeviceDescription_Kind = description_kind,
	.PJRT_DeviceDescription_DebugString = description_debug_string,
	.PJRT_DeviceDescription_ToString = description_to_string,
	.PJRT_Device_GetDescription = device_get_description,
	.PJRT_Device_IsAddressable = device_is_addressable,
	.PJRT_Device_LocalHardwareId = device_local_hardware_id,
	.PJRT_Device_AddressableMemories = device_addressable_memories,
	.PJRT_Device_DefaultMemory = device_default_memory,
	.PJRT_Device_MemoryStats = device_memory_stats,
	.PJRT_Memory_Id = memory_id,
	.PJRT_Memory_Kind = memory_kind,
	.PJRT_Memory_DebugString = memory_debug_string,
	.PJRT_Memory_ToString = memory_to_string,
	.PJRT_Memory_AddressableByDevices = memory_addressable_by_devices,
	.PJRT_Executable_Destroy = executable_destroy,
	.PJRT_Executable_Name = executable_name,
	.PJRT_Executable_NumReplicas = executable_num_replicas,
	.PJRT_Executable_NumPartitions = executable_num_partitions,
	.PJRT_Executable_NumOutputs = executable_num_outputs,
	.PJRT_Executable_SizeOfGeneratedCodeInBytes = executable_code_size,
	.PJRT_Executable_GetCostAnalysis = PJRT_Executable_GetCostAnalysis_stub,
	.PJRT_Executable_OutputMemoryKinds = PJRT_Executable_OutputMemoryKinds_stub,
	.PJRT_Executable_OptimizedProgram = executable_optimized_program,
	.PJRT_Executable_Serialize = executable_serialize,
	.PJRT_LoadedExecutable_Destroy = loaded_destroy,
	.PJRT_LoadedExecutable_GetExecutable = loaded_get_executable,
	.PJRT_LoadedExecutable_AddressableDevices = loaded_addressable_devices,
	.PJRT_LoadedExecutable_Delete = loaded_delete,
	.PJRT_LoadedExecutable_IsDeleted = loaded_is_deleted,
	.PJRT_LoadedExecutable_Execute = loaded_execute,
	.PJRT_Executable_DeserializeAndLoad = deserialize,
	.PJRT_LoadedExecutable_Fingerprint = PJRT_LoadedExecutable_Fingerprint_stub,
	.PJRT_Buffer_Destroy = buffer_destroy,
	.PJRT_Buffer_ElementType = buffer_element_type,
	.PJRT_Buffer_Dimensions = buffer_dimensions,
	.PJRT_Buffer_UnpaddedDimensions = buffer_unpadded_dimensions,
	.PJRT_Buffer_DynamicDimensionIndices = buffer_dynamic_dims,
	.PJRT_Buffer_GetMemoryLayout = buffer_memory_layout,
	.PJRT_Buffer_OnDeviceSizeInBytes = buffer_on_device_size,
	.PJRT_Buffer_Device = buffer_device,
	.PJRT_Buffer_Memory = buffer_memory,
	.PJRT_Buffer_Delete = buffer_delete,
	.PJRT_Buffer_IsDeleted = buffer_is_deleted,
	.PJRT_Buffer_CopyToDevice = buffer_copy_to_device,
	.PJRT_Buffer_ToHostBuffer = buffer_to_host,
	.PJRT_Buffer_IsOnCpu = buffer_is_on_cpu,
	.PJRT_Buffer_ReadyEvent = buffer_ready_event,
	.PJRT_Buffer_UnsafePointer = buffer_unsafe_pointer,
	.PJRT_Buffer_IncreaseExternalReferenceCount = buffer_increase_refs,
	.PJRT_Buffer_DecreaseExternalReferenceCount = buffer_decrease_refs,
	.PJRT_Buffer_OpaqueDeviceMemoryDataPointer = buffer_opaque_pointer,
	.PJRT_TopologyDescription_Create = PJRT_TopologyDescription_Create_stub,
	.PJRT_Compile = PJRT_Compile_stub,
	.PJRT_Executable_OutputElementTypes = executable_output_types,
	.PJRT_Executable_OutputDimensions = executable_output_dims,
	.PJRT_Buffer_CopyToMemory = buffer_copy_to_memory,
	.PJRT_Client_CreateViewOfDeviceBuffer = PJRT_Client_CreateViewOfDeviceBuffer_stub,
	.PJRT_Executable_Fingerprint = executable_fingerprint,
	.PJRT_Client_TopologyDescription = PJRT_Client_TopologyDescription_stub,
	.PJRT_Executable_GetCompiledMemoryStats =
		PJRT_Executable_GetCompiledMemoryStats_stub,
	.PJRT_Memory_Kind_Id = memory_kind_id,
	.PJRT_ExecuteContext_Create = PJRT_ExecuteContext_Create_stub,
	.PJRT_Buffer_CopyRawToHost = buffer_copy_raw_to_host,
	.PJRT_Client_CreateBuffersForAsyncHostToDevice =
		PJRT_Client_CreateBuffersForAsyncHostToDevice_stub,
	.PJRT_Client_DmaMap = PJRT_Client_DmaMap_stub,
	.PJRT_Client_DmaUnmap = PJRT_Client_DmaUnmap_stub,
	.PJRT_Client_CreateUninitializedBuffer = client_create_uninitialized,
	.PJRT_Client_CreateAliasBuffer = PJRT_Client_CreateAliasBuffer_stub,
	.PJRT_LoadedExecutable_GetDeviceAssignment = loaded_get_device_assignment,
};

/* A table of SIZE bytes that ends where readable memory ends. */
static const PJRT_Api *short_table(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + page, page, PROT_NONE))
		abort();
	api.struct_size = size;
	return memcpy(p + page - size, &api, size);
}

/* How long the table is with N functions; more than there are: all of it. */
static size_t table_size(const char *n)
{
	size_t start = offsetof(PJRT_Api, PJRT_Error_Destroy);
	size_t size = start + strtoul(n, NULL, 10) * sizeof(void (*)(void));

	if (!*n)
		return offsetof(PJRT_Api, PJRT_Executable_OutputElementTypes);
	return size < sizeof(api) ? size : sizeof(api);
}

__attribute__((__visibility__("default"))) const PJRT_Api *GetPjrtApi(void)
{
	size_t start = offsetof(PJRT_Api, PJRT_Error_Destroy);
	char fault[TEXT_LEN];
	const char *arg;
	PJRT_Error *e = inject(API);

	free(e); /* there is no way to tell it */
	if (!find_fault(API, fault))
		return &api;
	if (fault_arg(fault, "null"))
		return NULL;
	if (fault_arg(fault, "major"))
		api.pjrt_api_version.major_version = 99;
	if (fault_arg(fault, "empty"))
		memset((char *)&api + start, 0, sizeof(api) - start);
	if ((arg = fault_arg(fault, "short")))
		return short_table(table_size(arg));
	return &api;
}
