/* SPDX-License-Identifier: Apache-2.0 */
/* Functions and structs that only the files of the store share. */
#ifndef PJRTFS_STORE_INTERNAL_H
#define PJRTFS_STORE_INTERNAL_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <time.h>

#include "pjrtfs/array_files.h"
#include "pjrtfs/base.h"
#include "pjrtfs/buffer.h"
#include "pjrtfs/cache.h"
#include "pjrtfs/callback_host.h"
#include "pjrtfs/engine.h"
#include "pjrtfs/executable.h"
#include "pjrtfs/execution.h"
#include "pjrtfs/library.h"
#include "pjrtfs/restore.h"
#include "pjrtfs/scheduler.h"
#include "pjrtfs/snapshot.h"
#include "pjrtfs/state.h"
#include "pjrtfs/value.h"

struct pf_flight;
struct pf_quarantine;

/* pf_bytes_unref for struct pf_sync_call. */
static inline void pf_bytes_drop(void *bytes)
{
	pf_bytes_unref(bytes);
}

/* --- record.c: the journal, which restore.c reads ---------------------------------------- */

/* The number of a new object in the journal; 0: this process has no journal. */
static inline uint64_t pf_object_number(void)
{
	return pf_state_on() ? pf_state_next(PF_STATE_COUNT_OBJECT) : 0;
}

/* The payload of PF_STATE_BYTES. */
struct pf_bytes_record {
	struct pf_extent extent;
	uint64_t start;
	uint64_t arena; /* pf_arena_number */
};

/* The record of the bytes with number ID.  NULL: -ENOENT, -EPROTO. */
const struct pf_bytes_record *pf_bytes_load(uint64_t id, struct pf_err *err);

/* Where the host bytes are that a restarted daemon finds. */
enum pf_where_kept {
	PF_KEPT_NOWHERE,
	PF_KEPT_IN_ARENA, /* at off of the bytes with number id */
	PF_KEPT_IN_POOL,  /* at off of the pool of the instance with number id */
	PF_KEPT_INLINE,   /* behind the record */
};

/* The payload of PF_STATE_VALUE, without the extents beyond the rank. */
struct pf_value_record {
	uint64_t len;
	uint64_t id, off; /* see enum pf_where_kept */
	uint64_t on_device_bytes;
	uint32_t where;
	uint32_t dtype;
	uint32_t memory;
	uint32_t state; /* PF_VALUE_READY, _DONATED or _LOST */
	uint32_t blank;
	uint32_t rank;
	struct pf_layout layout;
	int64_t dims[PF_MAX_RANK];
};

/* The payload of PF_STATE_BUFFER: this, without the extents beyond the rank, and err's text. */
struct pf_buffer_record {
	uint64_t content, value; /* numbers; 0: none */
	uint64_t size;
	int64_t made_s;
	int32_t made_ns;
	uint32_t memory;
	uint32_t declared, former;
	int32_t err_code, err_pjrt_code;
	uint8_t format, state, shaped, refused;
	uint8_t line_refused;
	uint8_t rank;
	char device[64];  /* location->device_name */
	char made_by[64]; /* cut */
	int64_t dims[PF_MAX_RANK];
};

/* The length of RECORD, a value's or a buffer's, without the extents beyond its rank. */
#define PF_RECORD_LEN(record)                                                            \
	(offsetof(__typeof__(record), dims) + (record).rank * sizeof((record).dims[0]))

/* The payload of PF_STATE_EXECUTABLE; the texts of options, of three errors, and of the options of
 * served follow, each with its NUL. */
struct pf_executable_record {
	uint64_t program; /* the number of its bytes; 0: none */
	uint64_t program_len;
	uint64_t topology; /* likewise */
	uint64_t served;   /* likewise: what runs, if it is not the program */
	uint64_t served_len;
	uint32_t topology_len;
	uint32_t user;
	int32_t err, write_err, options_err; /* their codes */
	int32_t pjrt_code;                   /* of err */
	uint8_t format, state;
	uint8_t changed;     /* written since the last compile began */
	uint8_t has_options; /* else they are the defaults */
	uint8_t has_served_options;
};

/* Write the object's record; a value's only if buffers have it. */
void pf_value_save_locked(struct pf_value *value);
void pf_buffer_save_locked(struct pf_buffer *buffer);
void pf_executable_save_locked(struct pf_executable *x);

/*
 * Hold the lock of OBJECT (a value, buffer or executable: TYPE) until the end of the enclosing block,
 * which changes it: the journal has the change before another thread can see it.
 */
#define PF_CHANGE_SCOPE(type, object)                                                    \
	PF_CLEANUP(pf_##type##_end_change)                                               \
	__attribute__((__unused__)) struct pf_##type *change_scope_ =                    \
		(pf_lock(&(object)->lock), (object))

/* Save *OBJECT and release its lock, which the caller holds. */
void pf_value_end_change(struct pf_value **value);
void pf_buffer_end_change(struct pf_buffer **buffer);
void pf_executable_end_change(struct pf_executable **x);

/* --- restore_memory.c ------------------------------------------------------------------- */

/* The objects that were made anew, by number, with one reference to each. */
struct pf_restore {
	struct pf_map bytes, values, buffers, pools;
	struct pf_map executables; /* RESTORE itself for each */
};

/* Take over the arenas of KEPT, with the bytes in them: those of users after that of the mount, ARENA.
 * -EPROTO, -ENOMEM. */
int pf_restore_arenas(struct pf_restore *restore, const struct pf_kept *kept, size_t n,
		      uint64_t limit, struct pf_arena **arena, struct pf_err *err);

/* Take over the pools of KEPT.  -EPROTO, -ENOMEM. */
int pf_restore_pools(struct pf_restore *restore, const struct pf_kept *kept, size_t n,
		     struct pf_err *err);

/* The bytes that had number ID, with a reference; NULL: there are none. */
struct pf_bytes *pf_restore_find_bytes(const struct pf_restore *restore, uint64_t id);

/* --- buffer.c --------------------------------------------------------------------------- */

enum pf_buffer_state {
	PF_BUFFER_EMPTY,      /* no bytes yet */
	PF_BUFFER_INCOMPLETE, /* bytes that are not a whole array, or not closed yet */
	PF_BUFFER_SCRATCH,    /* a file without a listed extension */
	PF_BUFFER_VALUE,      /* see the value's own state */
	PF_BUFFER_TENSORS,    /* a whole file of several arrays: pf_buffer_tensors */
	PF_BUFFER_DONATED, /* an execution consumed it, though others share its value */
	PF_BUFFER_ERROR,   /* the bytes were refused */
};

enum { PF_BUFFER_HEAP = 2048 }; /* bytes that a file in buffers/ takes beside its array */

struct pf_buffer {
	_Atomic unsigned refs;
	unsigned n_writers;         /* how often writer is open; lock protects it */
	struct pf_file_charge file; /* of the file that has it */
	const struct pf_location *_Atomic location; /* borrowed; the directory's */
	_Atomic uint64_t subject;                   /* its name in events; 0: none */
	uint64_t id; /* in the journal, which has a record of it; 0: no record */

	pthread_mutex_t lock; /* rank 3; protects the fields below */
	enum pf_format format : 4;
	enum pf_buffer_state state : 4;
	/* Types raw bytes and text; set by a create command, or from a former value.  PF_DTYPE_INVALID:
	 * none. */
	enum pf_dtype declared : 8;
	enum pf_dtype former : 8; /* of the value before: types a .npy without a type */
	bool refused : 1; /* the last write failed, as err says: closing commits nothing */
	bool line_refused : 1; /* and so does any write: a line was wrong */
	unsigned memory;       /* index of the device's memory, or PF_DEFAULT_MEMORY */
	uint32_t tensors;      /* arrays in a file of several */
	/* Of a .npy or .safetensors: bytes before the data; 0: not known yet. */
	uint32_t header_len;
	const void *writer; /* the view that is open for writing, if one is */
	struct pf_shape *declared_shape; /* owned, see pf_shape_dup; NULL: none */
	/* Owned: of a .txt that is written from its beginning; NULL: lines are not checked. */
	struct pf_text_check *text;
	struct pf_account *account; /* borrowed: charged for its bytes; or NULL */
	struct pf_bytes *content;   /* owned reference, or NULL: no bytes, or an output */
	uint64_t size;              /* bytes of the content */
	uint64_t data_len;          /* if header_len is known: bytes of the data */
	struct pf_value *value; /* owned reference, counted among its holders, or NULL */
	struct pf_kept_err err;
	struct timespec made;
	char *made_by; /* owned: "copy", or the executable's name; NULL: "upload" */
};

/* As pf_buffer_maker, also for a caller that holds its lock. */
static inline const char *pf_buffer_made_by(const struct pf_buffer *buffer)
{
	return buffer->made_by ? buffer->made_by : "upload";
}

/* A buffer without a record in the journal, at LOCATION, with one reference.  NULL: no memory. */
struct pf_buffer *pf_buffer_without_record(const struct pf_location *location);

/* The lines that come are not checked, before the file is whole or written from its beginning again.
 * The caller holds its lock. */
void pf_buffer_skip_lines_locked(struct pf_buffer *buffer);

/* Set what its raw bytes and text mean.  The caller holds its lock.  -ENOMEM. */
int pf_buffer_declare_locked(struct pf_buffer *buffer, enum pf_dtype dtype,
			     const struct pf_shape *shape, struct pf_err *err);

/* --- content.c: the length and the meaning of a buffer's content ----------------------- */

/* A whole content as an array. */
struct pf_meaning {
	enum pf_dtype dtype;
	struct pf_shape shape;
	struct pf_bytes *bytes; /* owned reference */
	uint64_t off, len;
};

/* What makes a format differ from others.  The caller of its functions holds the buffer's lock. */
struct pf_format_class {
	const char *extension; /* with its dot */
	/* Its files begin with a header: look at FILE's, as pf_content_head.  NULL: they do not. */
	int (*head)(struct pf_buffer *buffer, const char *file, bool long_too,
		    struct pf_err *err);
	/* The array that a whole content is.  NULL: it is none, or not always one. */
	int (*meaning)(struct pf_buffer *buffer, struct pf_meaning *ret,
		       struct pf_err *err);
	bool is_text;   /* numbers in lines */
	bool is_packed; /* several elements of less than a byte are in one */
};

extern const struct pf_format_class pf_formats[PF_FORMAT_COUNT];

/* The caller of these functions holds the buffer's lock. */

/* The header of a .npy as read; of header_len 0: nothing. */
struct pf_npy pf_content_npy(const struct pf_buffer *buffer);

/*
 * Look at the header of the content, as FORMAT has it: 1 and b->header_len, data_len (and
 * npy) are set; 0: it is not whole yet, or FORMAT has none; -errno: it is not such a header,
 * and header_len is 0.  A long header of many tensors is parsed only with LONG_TOO.
 */
int pf_content_head(struct pf_buffer *buffer, enum pf_format format, bool long_too,
		    struct pf_err *err);

#define PF_SIZE_UNKNOWN UINT64_MAX

/* The size of the whole content in bytes, or PF_SIZE_UNKNOWN. */
uint64_t pf_content_expected(const struct pf_buffer *buffer);

/* How messages call the array that a content of FORMAT has the size of, perhaps in DST. */
const char *pf_content_what(const struct pf_buffer *buffer, enum pf_format format,
			    char *dst, size_t cap);

/* Does the content, as it is, look like a whole array of FORMAT?  0, or -EINVAL, why not. */
int pf_content_check(struct pf_buffer *buffer, enum pf_format format, struct pf_err *err);

/* Is the content that of a declared array without elements: no bytes, or no numbers? */
bool pf_content_is_nothing(const struct pf_buffer *buffer);

/* Is it whole, by its length? */
bool pf_content_is_whole(struct pf_buffer *buffer);

/*
 * 0: a new value of the content in *RET, with one reference.  1: it is whole, but holds
 * no array or several; their number is in b->tensors.  -errno: it is not an array.  The
 * value shares the content's bytes if it can, else they are converted.
 */
int pf_content_value(struct pf_buffer *buffer, struct pf_value **ret, struct pf_err *err);

/* --- value.c --------------------------------------------------------------------------- */

/*
 * The copies that a value has, and what they can be made of:
 *
 *	made by               it begins with
 *	pf_value_of_bytes     bytes
 *	pf_value_of_backing   backing, until the first fetch or transfer: then bytes
 *	pf_value_of_result    the device's copy; and small, the pool, or no host copy
 *	pf_value_at, _for,    source, until the device has a copy; and a host copy, where the source
 *	  _laid_out             has bytes or small that it can have, too
 *	pf_value_blank        blank, until the device has a copy
 *	pf_value_received     the same, and from
 *	a restarted daemon    bytes, small, the pool or blank, as its record says; or it is lost
 *
 * An upload adds the device's copy, and bytes if there were none in its worker's arena; a fetch adds a
 * block of the pool.  A host copy that can be made again of the device's (bytes_again, pool_block) is
 * dropped when memory is short; the device's dies with its instance.
 *
 *	state          host copy          source, backing, blank    device's copy
 *	READY          maybe              maybe                     maybe; but one of the three
 *	TRANSFERRING   as before          stay until the end        not yet
 *	DONATED        as before          as before                 yes; once it is consumed, and not
 *	                                                            pinned any more, nothing is left
 *	LOST           none (readers may have a damaged pool's pinned)
 *	ERROR          stays for readers  stay, unused              no
 *
 * bytes_again is only with bytes, pool_block with pool_instance, alias_off with bytes and the device's
 * copy, fetching with that or with backing; consumed, replaced and taken are only in DONATED; from is
 * used as long as blank is set.  A source is pinned, so that its bytes are there until it is dropped.
 */
struct pf_value {
	_Atomic unsigned refs;
	/* Never change: */
	enum pf_dtype dtype;
	uint64_t len; /* host bytes: dense, row-major, sub-byte types one per byte */
	struct pf_worker *worker; /* borrowed */
	unsigned device;          /* index of the worker's device */
	unsigned memory;          /* index of the device's memory, or PF_DEFAULT_MEMORY */

	pthread_mutex_t lock; /* rank 4; protects the fields below */
	/* Borrowed: charged for its copies; or NULL. */
	struct pf_account *_Atomic account; /* changes with the lock */
	/* Host copies: any of three, or none. */
	struct pf_bytes *bytes; /* owned reference: a user's bytes, from bytes_off on */
	uint64_t bytes_off;
	void *small;                       /* owned: a result that came with the reply */
	struct pf_instance *pool_instance; /* owned reference: at pool_off of its pool */
	uint64_t pool_off;
	uint64_t own;     /* bytes of host memory that the device's copy takes */
	uint64_t charged; /* bytes charged to the arena for that and for the pool */
	/* The value it is a copy of: owned reference, pinned, until the device has a copy. */
	struct pf_value *source;
	struct pf_source_place *source_place; /* owned: of a copy; or NULL */
	/* Owned reference, or NULL: a fetch or the transfer reads the bytes there. */
	struct pf_backing *backing;
	struct pf_peer *from; /* owned: with blank, its bytes come from there; or NULL */
	/* The device's copy. */
	struct pf_instance *instance; /* owned reference: the one that has id */
	uint64_t id;
	uint64_t alias_off; /* where in the arena the device reads, or PF_NO_OFFSET */
	uint64_t on_device_bytes;
	struct pf_kept_err err; /* why an upload or a fetch failed last */
	enum pf_value_state state : 8;
	bool pool_block : 1; /* a block that must be freed, not the device copy's memory */
	bool bytes_again : 1; /* bytes were copied for an upload, and can be dropped */
	bool blank : 1;       /* to be made on the device, without bytes */
	bool fetching : 1;
	bool consumed : 1; /* by an execution: freed when it is not pinned any more */
	bool replaced : 1; /* by a result of the execution that consumes it, soon */
	bool taken : 1; /* donated, and a plugin may overwrite its memory in the pool */
	bool listed;    /* among those whose host copies can be dropped: value.c's */
	unsigned pins;  /* readers and executions that use its memory, which stays */
	_Atomic unsigned holders; /* buffers that have it: see PF_DONATION_SHARED */
	uint64_t state_id;        /* in the journal; 0: it was not there yet */
	uint64_t text_len;        /* bytes of its text; 0 until it was rendered */
	TAILQ_ENTRY(pf_value) reclaimable; /* if it is listed */
	struct pf_wait *waiters;           /* for a transfer to end */

	/* Never changes; last: only the extents of its rank are there, and behind them as many bytes of the
	 * layout of the device's copy, which changes before others have the value. */
	struct pf_shape shape;
};

/* For the journal: the bytes of a value's source are at OFF of these bytes, or of the pool of this
 * instance; both 0: elsewhere. */
struct pf_source_place {
	uint64_t bytes, pool, off;
};

/* The first of VALUE's layout, behind the extents. */
static inline uint8_t *pf_value_minor_to_major(const struct pf_value *value)
{
	return (uint8_t *)(uintptr_t)(value->shape.dims + value->shape.rank);
}

/* The layout of VALUE's copy on the device, and whether it is row-major. */
static inline struct pf_layout pf_value_layout(const struct pf_value *value)
{
	struct pf_layout layout = { 0 };

	memcpy(layout.minor_to_major, pf_value_minor_to_major(value), value->shape.rank);
	return layout;
}

static inline bool pf_value_is_row_major(const struct pf_value *value)
{
	const struct pf_layout layout = pf_value_layout(value);

	return pf_layout_is_row_major(&layout);
}

/* A value without any copy yet.  NULL: no memory. */
struct pf_value *pf_value_new(const struct pf_array_type *type, struct pf_place place);

/* A copy of VALUE where that lives, but of SHAPE, with as many elements, in LAYOUT there, which the
 * transfer makes of host bytes.  A reference; NULL: no memory. */
struct pf_value *pf_value_laid_out(struct pf_value *value, const struct pf_shape *shape,
				   const struct pf_layout *layout);

/* VALUE's own host copy, or NULL. */
const void *pf_value_host_locked(const struct pf_value *value);

/* Why a value cannot be used at all; 0 if it can. */
int pf_value_unusable_locked(const struct pf_value *value, struct pf_err *err);

/* Drop a copy that was lost with its worker; without another copy the value is lost. */
void pf_value_forget_dead_locked(struct pf_value *value);

/* The resource of VALUE's account that counts the memory of its device. */
unsigned pf_value_device_memory(const struct pf_value *value);

/* Note that VALUE is on its device, as buffer ID of INSTANCE. */
void pf_value_set_device_locked(struct pf_value *value, struct pf_instance *instance,
				uint64_t id);

/* Drop the copy on the device. */
void pf_value_drop_device_locked(struct pf_value *value);

/* Note that VALUE's host bytes are at OFF of INSTANCE's pool; BLOCK: in a block that the
 * value frees, whose bytes can be fetched again. */
void pf_value_set_pool_locked(struct pf_value *value, struct pf_instance *instance,
			      uint64_t off, bool block);

/* The bytes that LEN bytes take in a pool (see src/worker/internal.h). */
uint64_t pf_pool_bytes(uint64_t len);

/* The device's copy takes OWN bytes of host memory; the caller has charged CHARGED more. */
void pf_value_charged_locked(struct pf_value *value, uint64_t own, uint64_t charged);

/* Discharge the bytes of copies that are gone; charge those of new copies, beyond the limit. */
void pf_value_recharge_locked(struct pf_value *value);

/*
 * If VALUE is on its device and not pinned, take out the value it is a copy of, which the caller
 * passes to pf_value_release_source without the lock; else NULL.
 */
struct pf_value *pf_value_take_source_locked(struct pf_value *value);
void pf_value_release_source(struct pf_value *source); /* NULL is allowed */

/* Note that VALUE's reclaimable host copy was made or used just now: it becomes the last
 * one to be reclaimed.  With or without the value's lock. */
void pf_reclaimable_touch(struct pf_value *value);

/* Rank 6; protects the store's global state: the lists of reclaimable host copies and
 * loaded programs, the quarantine, the count of threads that pf_background_run
 * started. */
extern pthread_mutex_t pf_store_lock;

/* --- transfer.c ------------------------------------------------------------------------ */

/* Work that would delay other requests by milliseconds. */
struct pf_background {
	/* May free BACKGROUND. */
	void (*run)(struct pf_background *background);
};

/*
 * Run BACKGROUND on a thread of its own, which pf_values_finish awaits, or on the
 * caller's thread if none can be created.  The caller holds no lock.
 */
void pf_background_run(struct pf_background *background);

/* --- compiler.c -------------------------------------------------------------- */

/*
 * The compiler: threads that run compiles in the order of a scheduler, and what all compiles of
 * the mount share.
 */

enum {
	PF_COMPILER_THREADS = 56, /* a worker has threads for as many compiles */
	PF_MAX_GIVEN_UP = 16,     /* calls that timed out; each has one of these */
};

struct pf_environment;

STAILQ_HEAD(pf_compile_jobs, pf_compile_job);

struct pf_compiler {
	struct pf_cache *cache; /* borrowed, or NULL */
	unsigned timeout_s;     /* of one compile; 0: no limit */
	char *options;          /* owned: default compile options as JSON, or NULL */
	struct pf_buf host;     /* the part of keys that depends on the host */
	struct pf_quarantine *quarantine; /* owned */
	struct pf_sched *sched;           /* owned; one queue */
	_Atomic unsigned n_given_up;      /* timed-out compiles that workers still run */
	_Atomic bool stop;                /* threads end when no job is left */

	pthread_mutex_t lock; /* rank 4; protects the fields below */
	pthread_cond_t changed;
	unsigned n_jobs;              /* added, and not run to their end yet */
	struct pf_compile_jobs ready; /* the granted ones, in order */
	unsigned n_ready;
	unsigned n_threads, n_idle;
	pthread_t threads[PF_COMPILER_THREADS];
	bool stopped;                   /* the threads have ended */
	unsigned n_puts;                /* entries that are being put into the cache */
	LIST_HEAD(, pf_flight) flights; /* owned */
	struct pf_environment *environments; /* owned; one a worker */
	LIST_HEAD(, pf_topology) topologies; /* owned */
};

/* May PLUGIN's worker get another call that n_given_up counts?  0 or -EBUSY. */
static inline int pf_compiler_check_given_up(const struct pf_compiler *c,
					     const char *plugin, struct pf_err *err)
{
	if (atomic_load(&c->n_given_up) < PF_MAX_GIVEN_UP)
		return 0;
	return pf_err_set(
		err, -EBUSY,
		"plugin %s still compiles %d programs that were given up: end its "
		"worker (kill process plugins/%s/pid) to be rid of them",
		plugin, PF_MAX_GIVEN_UP, plugin);
}

/* Something to compile, embedded in the struct of compile.c, which sets run, slot.user,
 * slot.prompt and slot.alone. */
struct pf_compile_job {
	/* On a thread of the compiler, which may block; may free the job, or add it again. */
	void (*run)(struct pf_compile_job *job);
	struct pf_sched_request slot;
	struct pf_compiler *compiler; /* borrowed, once added */
	/* Of the compiler's ready ones, or of a flight's. */
	STAILQ_ENTRY(pf_compile_job) entry;
};

/*
 * Run JOB when the scheduler grants it a slot, at the FRONT or in the order of its user's.  After
 * pf_compiler_stop it runs, and fails, before this returns; else this does not block.
 */
void pf_compiler_add(struct pf_compiler *compiler, struct pf_compile_job *job,
		     bool front);

/* JOB, which runs, has come to STAGE. */
void pf_compiler_set_stage(const struct pf_compile_job *job, enum pf_stage stage);

/* pf_compiler_finish waits for puts that have begun and not ended. */
void pf_compiler_begin_put(struct pf_compiler *compiler);
void pf_compiler_end_put(struct pf_compiler *compiler);

/*
 * Append the part of keys that depends on the environment of WORKER's INSTANCE.  The
 * first call for INSTANCE fixes it, because a plugin reads its environment once.  May
 * block for a file that XLA_FLAGS names.
 */
void pf_compiler_environment(struct pf_compiler *compiler, const struct pf_worker *worker,
			     const struct pf_instance *instance, struct pf_buf *out);

/* A flight: one compile for all concurrent jobs with the same key, and the same names for the inputs. */

enum pf_flight_role { PF_LEADER, PF_FOLLOWER, PF_HIT };

/*
 * JOB wants KEY on WORKER (the same plugin may have several workers), and NAMES, borrowed until the flight
 * is dropped, or NULL.  PF_LEADER: JOB compiles;
 * *RET is its flight, to be finished and dropped.  PF_FOLLOWER: the flight has JOB until its
 * leader finishes.  PF_HIT: *RET_LOADED is the leader's result, a reference.  -ENOMEM.
 */
int pf_flight_join(struct pf_compiler *compiler, const struct pf_cache_key *key,
		   const struct pf_worker *worker, const char *names,
		   struct pf_compile_job *job, struct pf_flight **ret,
		   struct pf_loaded **ret_loaded);

/* The leader made LOADED (NULL: it failed).  Its followers, now the caller's, are added to FOLLOWERS. */
void pf_flight_finish(struct pf_compiler *compiler, struct pf_flight *flight,
		      struct pf_loaded *loaded, struct pf_compile_jobs *followers);

/* Free a finished FLIGHT: the next job with its key leads another one. */
void pf_flight_drop(struct pf_compiler *compiler, struct pf_flight *flight);

/* --- topology.c ------------------------------------------------------------------------ */

/* Free the list of all topologies. */
void pf_topologies_free(struct pf_compiler *compiler);

struct pf_plan;

/* PLAN is for the topology of LEN BYTES, or for the one called NAME, of LEN bytes.  -EINVAL: no such
 * topology; -ENOMEM. */
int pf_topology_append(struct pf_bytes *bytes, uint32_t len, struct pf_plan *plan,
		       struct pf_err *err);
int pf_topology_append_named(struct pf_compiler *compiler, const char *name, size_t len,
			     struct pf_plan *plan, struct pf_err *err);

/* --- executable.c ---------------------------------------------------------------------- */

/* The callbacks of an executable, which embeds this. */
struct pf_callback_queue {
	pthread_mutex_t lock;         /* rank 4; protects the fields below */
	TAILQ_HEAD(, pf_asked) asked; /* owned, in the order in which they came */
	unsigned n_asked;
	/* Those that wait, in the order in which they began to, are after one another. */
	TAILQ_HEAD(, pf_callback_host) hosts;
	struct pf_timer timer; /* for the first invocation that will fail, */
	int64_t due_ms;        /* at that time (pf_now_ms), while */
	bool armed;            /* which holds a reference on the executable */
};

/* A source as it was compiled. */
struct pf_compiled_source {
	struct pf_bytes *program; /* NULL: none */
	uint64_t len;
	char *settings; /* options.json's text, or NULL: the defaults */
};

struct pf_executable {
	_Atomic unsigned refs;
	/* Borrowed, as in struct pf_executable_config. */
	struct pf_worker *const *workers;
	unsigned n_workers;
	struct pf_arena *arena;
	struct pf_compiler *compiler;
	struct pf_timers *timers;
	uid_t user;               /* the one that compiles it */
	_Atomic uint64_t subject; /* its name in events; 0: none */
	struct pf_callback_queue callbacks;
	uint64_t id; /* in the journal, which has a record of it; 0: no record */
	struct pf_executable_meter *_Atomic meter; /* owned, or NULL */

	pthread_mutex_t lock; /* rank 3; protects the fields below */
	/* Borrowed: charged for the source and its compiles; or NULL. */
	struct pf_account *_Atomic account; /* changes with the lock */
	struct pf_bytes *program;           /* owned reference: the source as written */
	uint64_t program_len;
	bool changed;              /* since the last compile of it began */
	struct pf_bytes *topology; /* owned reference: of the last compile, or NULL */
	uint32_t topology_len;
	/* Owned: what ran in an earlier daemon, in place of the source; until something is compiled. */
	struct pf_compiled_source served;
	bool serves; /* that is compiled now, and not the source */
	bool resumed; /* an earlier daemon compiled it, for TOPOLOGY, and this one has not yet */
	enum pf_program_format format;
	char *options;            /* owned: options.json's text, or NULL: the defaults, */
	uint64_t options_len;     /* and its bytes, which are charged to the account */
	struct pf_worker *worker; /* borrowed: of the plugin that the options name */
	struct pf_err options_err; /* why the options written last were refused */
	struct pf_err write_err;   /* why the last write to the source was refused */
	unsigned generation;       /* +1 for each compile and each dropped source */
	enum pf_executable_state state;
	bool awaited; /* a request waits for the compile under way: executions need not */
	struct pf_loaded
		*loaded; /* owned reference, or NULL: of the source that compiled last */
	/* Was loaded's compile saved by the cache, or by the same compile of another program?  "hit",
	 * "miss"; NULL: nothing was compiled.  Static. */
	const char *cache_use;
	struct json_object
		*calls; /* owned: what info.json says of custom calls; or NULL */
	struct pf_compile_job *job; /* the compile under way, borrowed, or NULL */
	struct pf_err err; /* what "error" shows; if it is ready: of a later source */
	struct timespec started; /* the compile under way, or the last one */
	struct pf_wait *waiters; /* for the state to leave compiling */
};

/* The meaning of options.json. */
struct pf_plan {
	/* Owned: a serialized CompileOptionsProto, and topology_len bytes of a topology. */
	struct pf_buf options;
	struct pf_bytes *topology; /* owned reference: where those are from; or NULL */
	uint32_t topology_len;
	char *names; /* owned: "input_names" of the options as text; or NULL */
	struct pf_worker *worker; /* borrowed: of the plugin that compiles */
	/* N: the worker passes N - 1 before all arguments, the platform's position among the
	 * program's; 0: the program takes no such argument */
	uint32_t platform;
};

/* A compile, from its request on. */
struct compile {
	struct pf_compile_job
		job;             /* in the compiler's queue, or run by it; slot.user: the
				    * user who caused it, and is blamed */
	struct pf_wait waiter;   /* for the worker's next instance */
	struct pf_executable *x; /* owned reference */
	struct pf_instance *instance; /* owned reference: the compiling one, or NULL */
	struct pf_bytes *program; /* owned reference; as it was when the compile began */
	uint64_t len;
	/* Owned reference: the bytes that the plugin reads; those of the program, or a copy without
	 * the tokens of its main. */
	struct pf_bytes *module;
	struct pf_program_facts facts; /* of these, with the part that the plugin reads */
	char format[PF_WIRE_FORMAT];
	bool native;         /* the program is compiled already */
	char *settings;      /* owned: the options' text, or NULL: the defaults */
	struct pf_plan plan; /* owned */
	bool reloads;        /* what was compiled before is lost: it is this program */
	/* Owned reference: if it reloads, what no worker has any more.  X has it again, and another
	 * execution tries again, if the plugin is AWAY (pf_worker_check_away).  Or NULL. */
	struct pf_loaded *lost;
	bool away;
	struct pf_err later; /* if it reloads: why a later source was refused */
	unsigned generation;
	uint64_t id; /* in that instance */
	struct timespec start;
	struct pf_err err; /* the plugin's refusal */
	struct pf_report_compile report;

	/* Owned: what another build of the plugin has compiled has its version, which the plugin judges;
	 * else empty. */
	struct pf_buf abi;
	/* Owned: {"custom_calls", "missing"} of info.json; or NULL. */
	struct json_object *calls;
	/* The SHA-256 of each library that the program calls. */
	uint8_t libraries[PF_LIBRARIES_MAX * PF_LIBRARY_SHA256];
	size_t libraries_len; /* bytes of them */
	struct pf_cache_key key;
	/* Of a member of a group: the key of programs for devices of several members, which all find
	 * under it what process 0 has put there. */
	struct pf_cache_key group_key;
	bool from_group;          /* there is such an entry: key is group_key */
	bool can_be_kept;         /* the key is complete: the cache may be used */
	bool not_from_cache;      /* the worker died of the cache's entry */
	bool suspected;           /* it ran when the worker died, among others */
	bool sent;                /* the worker has its request */
	struct pf_flight *flight; /* owned: it is the leader's; or NULL */
};

/*
 * Drop the result of the compile under way when it ends, and, unless KEEP, that of the last one.  The
 * state becomes STATE, or, if no compile begins and something is kept, ready.  The caller holds the
 * lock, and after releasing it wakes the returned waiters and drops *GONE.
 */
struct pf_wait *pf_executable_supersede(struct pf_executable *x,
					enum pf_executable_state state, bool keep,
					struct pf_loaded **gone);

/*
 * Read options.json's TEXT (NULL: the defaults) for a program with FACTS (NULL: not known
 * yet).  -EINVAL; *RET then holds nothing.
 */
int pf_executable_plan(const struct pf_executable *x, const char *text,
		       const struct pf_program_facts *facts, struct pf_plan *ret,
		       struct pf_err *err);
void pf_plan_release(struct pf_plan *plan);

/* X's source is empty: as pf_executable_supersede, what was compiled is kept.  The lock is held on
 * entry; returns the waiters. */
__attribute__((__warn_unused_result__)) struct pf_wait *pf_executable_is_empty_unlock(
	struct pf_executable *x);

/* Free X's source of an earlier daemon, after the journal has X without it. */
void pf_executable_drop_served_locked(struct pf_executable *x);

/* As pf_executable_state.  The caller holds the lock. */
enum pf_executable_state pf_executable_state_locked(const struct pf_executable *x);

/* The program that executions get now, borrowed; NULL: none, or they wait.  The caller holds the lock. */
struct pf_loaded *pf_executable_serving(const struct pf_executable *x);

/* --- loaded.c -------------------------------------------------------------------------- */

struct pf_loaded {
	_Atomic unsigned refs;
	struct pf_worker *worker; /* borrowed: of the plugin that compiled it */
	struct pf_instance
		*instance; /* owned reference: the one that has id; NULL: it is a file */
	uint64_t id;
	struct pf_bytes *program; /* owned reference: its source, frozen */
	uint64_t program_len;
	struct pf_signature *signature; /* owned; of the arguments that callers pass */
	uint32_t platform; /* as in struct pf_req_compile: passed before those; or 0 */
	/* How the plugin gives the optimized program, and its bytes. */
	enum pf_optimized_format optimized;
	uint64_t optimized_len;
	struct json_object *info; /* owned: the worker's INFO */
	struct pf_buf
		options; /* owned: a CompileOptionsProto, what it was compiled with */
	unsigned n_devices;
	unsigned *devices;  /* owned: the worker's device indexes in launch order */
	unsigned *queues;   /* within devices: the same in ascending order */
	int64_t partitions; /* 0: INFO does not say */
	double compile_seconds;
	bool counted;          /* in the meters of loaded programs */
	_Atomic bool unloaded; /* the worker has dropped it, to have room for others */
	_Atomic uint64_t used; /* time of the last use, in loads of any since the start */
	LIST_ENTRY(pf_loaded) entry; /* if it is counted, among all that workers have */
	bool native;                 /* it was not compiled here */
	bool wide;         /* it runs on devices of other processes of the group, too */
	bool for_topology; /* it runs on no device here: it can only be serialized */
	bool kept;         /* the cache has it under key, unless it was evicted */
	char *settings; /* owned: options.json's text of its compile; NULL: the defaults */
	struct pf_cache_key key;
	/* Owned reference: the cache had it, for a topology, and no worker has it: "serialized", with the
	 * optimized module in it.  Or NULL. */
	struct pf_bytes *file;
	uint64_t file_len;
	struct pf_shared_bytes module; /* within file */
};

/* A new compiled program of C, with one reference; NULL: no memory. */
struct pf_loaded *pf_loaded_new(struct compile *c);

/* The name of LOADED's platform, that of the plugin's client or of the topology; "": the plugin does not tell. */
const char *pf_loaded_platform(const struct pf_loaded *loaded);

/* Does a living worker have it?  If so, note that it was used just now. */
bool pf_loaded_use(struct pf_loaded *loaded);

/* Is that HLO, which tells a program's signature? */
static inline bool pf_is_hlo(enum pf_optimized_format format)
{
	return format == PF_OPTIMIZED_HLO || format == PF_OPTIMIZED_HLO_WITH_CONFIG;
}

/*
 * Describe L by the worker's INFO (given; or NULL) and the OPTIMIZED program (or none), whose plugin
 * gives it in FORMAT.  -EPROTO, -EOPNOTSUPP, -EINVAL: the program cannot be used.
 */
int pf_loaded_describe(struct compile *c, struct pf_loaded *l, struct json_object *info,
		       struct pf_shared_bytes optimized, enum pf_optimized_format format,
		       struct pf_err *err);

/* --- declared.c ------------------------------------------------------------------------ */

/*
 * The signature of what C compiled, whose plugin gives no HLO, by the program itself and the worker's
 * INFO, an object; the caller's.  -EOPNOTSUPP: it cannot be known; -EPROTO, -ENOMEM.
 */
int pf_compile_declared(const struct compile *c, struct json_object *info,
			struct pf_signature **ret, struct pf_err *err);

/* --- custom_calls.c -------------------------------------------------------------------- */

/* Set C's calls and libraries to the custom calls that its program makes.  -EOPNOTSUPP: it certainly
 * calls what no library provides; -ENOMEM.  Reads all of the program. */
int pf_compile_find_calls(struct compile *c, struct pf_err *err);

/* If the plugin refused C's program, as ERR says, because it calls what no library provides: say
 * which, and what to do. */
void pf_compile_explain(struct compile *c, struct pf_err *err);

/* Did the plugin refuse a program for that reason? */
bool pf_compile_lacks_handler(const struct pf_err *err);

/* --- compile_key.c --------------------------------------------------------------------- */

/* Make C's key.  -ENOMEM.  Blocks: reads the plugin's file the first time. */
int pf_compile_key(struct compile *c, struct pf_err *err);

/*
 * The identity of the plugin that INSTANCE of WORKER has loaded, of its devices and this host, as a text:
 * where it is equal, plugins can load each other's machine code.  ANY_BUILD: that without the build of
 * the plugin, which says whether it is compatible.  Blocks: reads the plugin's file the first time.
 * -ESTALE: the file has changed since; -ENOMEM, -errno.
 */
int pf_compile_identity(struct pf_compiler *compiler, const struct pf_worker *worker,
			const struct pf_instance *instance, bool any_build,
			char ret[PF_CACHE_KEY_TEXT], struct pf_err *err);

/*
 * What a program that was compiled for a topology depends on: the build of the plugin, and, if that has
 * compiled it for a CPU, the processor of this host, whose features compilers look up.  The topology
 * names the devices, and the plugin that loads the program compares them.
 */
struct pf_origin {
	char build[PF_CACHE_KEY_TEXT];
	char host[PF_CACHE_KEY_TEXT]; /* empty: any */
};

/* The origin of what INSTANCE of WORKER compiles for a topology of PLATFORM.  As pf_compile_identity. */
int pf_compile_origin(struct pf_compiler *compiler, const struct pf_worker *worker,
		      const struct pf_instance *instance, const char *platform,
		      struct pf_origin *ret, struct pf_err *err);

/* --- compile_cache.c ------------------------------------------------------------------- */

/* Parse LEN bytes of TEXT, the facts that a worker or a file has, into *RET, which the caller puts:
 * NULL if they are not JSON.  0, or -ENOMEM. */
int pf_compile_facts(const char *text, uint64_t len, struct json_object **ret,
		     struct pf_err *err);

/*
 * Look C up in the cache.  1: in *RET; 0: not found; -errno: the worker died during the
 * load, and C must be compiled on the next instance.  Blocks.
 */
int pf_compile_from_cache(struct compile *c, struct pf_loaded **ret, struct pf_err *err);

/* Put L, which C just compiled and REP describes, into the cache.  Blocks. */
void pf_compile_to_cache(struct compile *c, struct pf_loaded *l,
			 const struct pf_rep_compile *rep);

/*
 * Send OP for L to its worker, as pf_sync_call, on behalf of a user who only reads a file:
 * -ETIMEDOUT, at once if the last such call timed out too; if it KEEPS, the next such call has the answer.
 * Blocks.
 */
int pf_loaded_ask(const struct pf_loaded *l, enum pf_op op, unsigned timeout_s,
		  bool keeps, void *reply, size_t len, struct pf_err *err);

/* The worker says that its answer is where its pool has no bytes.  -EPROTO. */
int pf_answer_is_outside(struct pf_err *err);

/*
 * Load C's program, which is compiled already: 1 and *RET.  -EINVAL: it is damaged, or
 * for another plugin, host or set of devices; the plugin's refusal; -EIO: the worker died
 * during the load.  Blocks.
 */
int pf_compile_native(struct compile *c, struct pf_loaded **ret, struct pf_err *err);

/* --- execution_check.c ----------------------------------------------------------------- */

/* The index of the worker's device that ROW of E, which is loaded, runs on. */
unsigned pf_execution_device(const struct pf_execution *e, size_t row);

/* Check the rows and arguments of E, which is loaded, against the signature of its program, and
 * give each argument the layout that it takes.  0, -EINVAL, -ENOMEM.  Does not block. */
int pf_execution_check(struct pf_execution *e, struct pf_err *err);

/* Name argument I in ERR, whose code is CODE.  Returns CODE. */
int pf_execution_name_arg(const struct pf_execution *e, size_t i, int code,
			  struct pf_err *err);

/* --- callback.c ------------------------------------------------------------------------ */

/* What E calls goes to the hosts of its executable.  Before it is sent. */
void pf_callbacks_serve(struct pf_execution *e);

/* --- quarantine.c ---------------------------------------------------------------------- */

/*
 * Programs that ended a worker, and their users.
 *
 * When a worker dies, a compile or an execution that was the only suspect is its culprit.
 * The pair of program and user is refused for 10 s, twice as long after each further
 * death, up to 10 min, so that one user's program does not end the worker of all users
 * again and again.  The mount's owner is never refused; a program that the owner uses is
 * no longer refused to other users either.  A user who had 5 culprits within 60 s waits 1
 * s before the next compile, twice as long after each further culprit, up to 30 s.
 *
 * A program that was ready and is loaded again after a death does not wait, as its owner's wait
 * would be that of all its users.  This is not a way around the wait: the program became ready by
 * a compile, and once it has ended a worker it is failed.
 */

/* A program may end the worker when it is compiled, or only when it runs. */
enum pf_suspect { PF_SUSPECT_COMPILE, PF_SUSPECT_EXECUTION };

/*
 * OWNER: the user of the mount; NOW_MS: a clock that never goes back, in milliseconds.  The
 * caller frees it with free(3).  NULL: no memory.  Every function may be called from any thread;
 * none blocks.
 */
struct pf_quarantine *pf_quarantine_new(uid_t owner, int64_t (*now_ms)(void));

/* KEY of USER ended a worker, as WHY says.  Without memory for it nothing is refused. */
void pf_quarantine_add(struct pf_quarantine *quarantine, enum pf_suspect what,
		       const struct pf_cache_key *key, uid_t user,
		       const struct pf_err *why);

/* May KEY be compiled or executed (WHAT) for USER?  0; -EIO: not yet, with the sentence
 * of the death and the seconds that are left.  Takes some nanoseconds while the
 * quarantine is empty. */
int pf_quarantine_check(struct pf_quarantine *quarantine, enum pf_suspect what,
			const struct pf_cache_key *key, uid_t user, struct pf_err *err);

/* The time, by the clock, until which USER's compiles wait: 0, or in the past, if they need not. */
int64_t pf_quarantine_waits_until(struct pf_quarantine *quarantine, uid_t user);

#endif
