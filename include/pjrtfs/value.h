/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values: arrays that never change, on a device, in host memory, or both.
 *
 * A value is made of a user's bytes (and goes to its device when asked to) or by an
 * execution (and comes to host memory when asked to).  What of it is gone with a dead
 * worker is made again from the rest; a value of which nothing is left is lost.
 */
#ifndef PJRTFS_VALUE_H
#define PJRTFS_VALUE_H

#include <stdatomic.h>

#include "pjrtfs/array.h"
#include "pjrtfs/base.h"
#include "pjrtfs/engine.h"
#include "pjrtfs/sharding.h"
#include "pjrtfs/shm.h"
#include "pjrtfs/wait.h"

/* Bytes: plugins use arrays in place that begin at a multiple of this. */
enum { PF_ALIGNMENT = 64 };

/* Users' bytes: counted pieces of the arena. */

/*
 * Bytes in the arena.  Whoever made them may write to them; once they are part of a value
 * they are frozen by agreement: nobody writes to them while a plugin may read them.
 */
struct pf_bytes {
	_Atomic unsigned refs;
	struct pf_arena *arena;  /* borrowed */
	struct pf_extent extent; /* owned */
	uint64_t start; /* where in the extent the first byte lies: see pf_bytes_align */
};

/* Room for CAP bytes, undefined contents, with one reference.  -ENOSPC, -ENOMEM. */
int pf_bytes_new(struct pf_arena *arena, uint64_t cap, struct pf_bytes **ret,
		 struct pf_err *err);

/* One reference more, and one less; the last one gives the extent back. */
struct pf_bytes *pf_bytes_ref(struct pf_bytes *bytes);
void pf_bytes_unref(struct pf_bytes *bytes); /* NULL is allowed */
PF_DEFINE_CLEANUP(struct pf_bytes *, pf_bytes_unref)

/* Their address in this process. */
static inline void *pf_bytes_at(const struct pf_bytes *bytes, uint64_t off)
{
	return pf_arena_at(bytes->arena, bytes->extent.off + bytes->start + off);
}

/* Their offset in the arena, as the worker knows it. */
static inline uint64_t pf_bytes_offset(const struct pf_bytes *bytes, uint64_t off)
{
	return bytes->extent.off + bytes->start + off;
}

/*
 * See that byte AT of *BYTES, of which SIZE bytes are kept, has an address that is a multiple
 * of 64, as plugins want it to use arrays in place.  Moves the bytes; nobody else may hold
 * them.  -ENOSPC, -ENOMEM: *BYTES is as it was.
 */
int pf_bytes_align(struct pf_bytes *bytes, uint64_t at, uint64_t size,
		   struct pf_err *err);

/*
 * Make room for CAP bytes in *BYTES, of which the first KEEP are kept.  Where nobody else
 * holds them they grow in place if they can; else *BYTES becomes a copy, and the others
 * keep the old ones.  UNSHARE forces the copy where somebody else holds them.
 * -ENOSPC, -ENOMEM: *BYTES is as it was.
 */
int pf_bytes_reserve(struct pf_bytes **bytes, uint64_t cap, uint64_t keep, bool unshare,
		     struct pf_err *err);

/*
 * Make room in *BYTES (NULL: none yet, taken from ARENA) for a write that ends at END, of
 * which SIZE bytes are kept; nobody else's bytes are written to.  WANT, if larger, is how
 * many there will be; where that is not known (0) room grows in steps of twice what there
 * was, if there is so much, from FIRST on.  -ENOSPC, -ENOMEM: *BYTES is as it was.
 */
int pf_bytes_room(struct pf_bytes **bytes, struct pf_arena *arena, uint64_t size,
		  uint64_t end, uint64_t want, uint64_t first, struct pf_err *err);

/*
 * Write LEN bytes of SRC at OFF of *BYTES, of which *SIZE are kept, and set *SIZE: a hole becomes
 * zeros.  Room as for pf_bytes_room.  -EFBIG; -ENOSPC, -ENOMEM: nothing has changed.
 */
int pf_bytes_write(struct pf_bytes **bytes, struct pf_arena *arena, uint64_t *size,
		   const void *src, size_t len, uint64_t off, uint64_t want,
		   uint64_t first, struct pf_err *err);

/* Zero the bytes from FROM to TO, if there are any: a file's hole. */
void pf_bytes_zero(struct pf_bytes *bytes, uint64_t from, uint64_t to);

enum pf_value_state {
	PF_VALUE_READY,        /* usable; the device's copy may have to be made again */
	PF_VALUE_TRANSFERRING, /* on its way to the device */
	PF_VALUE_DONATED,      /* an execution consumed it */
	PF_VALUE_LOST,         /* its only copy died with a worker */
	PF_VALUE_ERROR,        /* the device refused it */
};

/* A place in the ring of copies that can be dropped: src/store/value.c's. */
struct pf_reclaimable {
	struct pf_reclaimable *prev, *next; /* weak; NULL: not in it */
};

struct pf_value {
	_Atomic unsigned refs;
	/* What it is: never changes. */
	enum pf_dtype dtype;
	struct pf_shape shape;
	uint64_t len; /* host bytes: dense, row-major, sub-byte types one per byte */
	struct pf_worker *worker; /* borrowed */
	unsigned device;          /* index of the worker's device */
	unsigned memory; /* index of the device's memory, UINT32_MAX: its default */

	pthread_mutex_t lock; /* rank 4; protects the fields below */
	/* Host copies: any of three, or none. */
	struct pf_bytes *bytes; /* owned reference: a user's bytes, from bytes_off on */
	uint64_t bytes_off;
	void *small; /* owned: a result that came with the reply */
	struct pf_instance
		*pool_instance; /* owned reference: in that life's pool at pool_off */
	uint64_t pool_off;
	bool pool_block;  /* a block that must be freed, not the buffer's own memory */
	uint64_t own;     /* bytes of the host's memory that the device's copy takes */
	uint64_t charged; /* bytes that count as in use for that, and for the pool */
	bool bytes_again; /* bytes were copied out of the pool, and can be dropped */
	/* What it is a copy of: owned reference, pinned, until it has a copy of its own. */
	struct pf_value *source;
	bool blank; /* to be made on the device, of nothing */
	/* The device's copy. */
	struct pf_instance *instance; /* owned reference; the life that id belongs to */
	uint64_t id;
	uint64_t alias_off; /* where in the arena the device reads, or PF_NO_OFFSET */
	uint64_t on_device_bytes;
	enum pf_value_state state;
	struct pf_err err; /* why an upload or a fetch failed last */
	bool fetching;
	bool consumed; /* by an execution: freed when nobody has it pinned */
	bool replaced; /* by a result of the one that consumes it, soon */
	unsigned pins; /* who reads its memory, executions, too: it stays */
	_Atomic unsigned
		holders;   /* buffers that have it: donating one must leave the others */
	uint64_t text_len; /* of its text; 0 until it was rendered */
	struct pf_reclaimable reclaimable;
	struct pf_wait *waiters; /* for placing or fetching to end */
};

/*
 * A value of LEN host bytes at OFF of BYTES (a reference is taken), to live on DEVICE.  The
 * caller must not change the bytes any more.  One reference; NULL: no memory.
 */
struct pf_value *pf_value_of_bytes(enum pf_dtype dtype, const struct pf_shape *shape,
				   uint64_t len, struct pf_bytes *bytes, uint64_t off,
				   struct pf_worker *worker, unsigned device,
				   unsigned memory);

/*
 * What a copy of LEN host bytes on DEVICE of WORKER, in MEMORY, takes of the host's memory: 0
 * if the device has memory of its own.
 */
uint64_t pf_value_room(struct pf_worker *worker, unsigned device, unsigned memory,
		       uint64_t len);

/* What is charged for its device's copy, in bytes. */
uint64_t pf_value_own(struct pf_value *value);

/* An execution consumed FROM and made a result in its memory: what was charged for FROM's copy on
 * the device, in bytes, is the caller's to discharge from now on. */
uint64_t pf_value_take_charge(struct pf_value *from);

/*
 * What an execution on INSTANCE made under ID on DEVICE, where OUT says; MESSAGE is the reply that
 * OUT lies in, of which inline bytes are copied.  OWN bytes, which the caller has charged to the
 * worker's arena, become the value's to discharge, and ID its to free.  One reference; NULL: no
 * memory, and OWN and ID are the caller's.
 */
struct pf_value *pf_value_of_result(const struct pf_shape *shape,
				    struct pf_worker *worker, unsigned device,
				    struct pf_instance *instance, uint64_t id,
				    uint64_t own, const struct pf_out *out,
				    const void *message);

/*
 * A copy of VALUE to live on DEVICE of WORKER (which may be another plugin's), in MEMORY.
 * Placing it copies on the device where it can (PJRT_Buffer_CopyToDevice, _CopyToMemory);
 * host bytes are shared, never stored twice.  Until then VALUE's memory stays, and readers
 * get VALUE's bytes.  One reference; NULL: no memory.
 */
struct pf_value *pf_value_copy(struct pf_value *value, struct pf_worker *worker,
			       unsigned device, unsigned memory);

/* A value that is made on its device when it is placed, with whatever bytes the plugin leaves
 * there (zeros in host memory).  One reference; NULL: no memory. */
struct pf_value *pf_value_blank(enum pf_dtype dtype, const struct pf_shape *shape,
				uint64_t len, struct pf_worker *worker, unsigned device,
				unsigned memory);

/* One reference more, and one less. */
struct pf_value *pf_value_ref(struct pf_value *value);
void pf_value_unref(
	struct pf_value *value); /* NULL is allowed; frees the device memory */
PF_DEFINE_CLEANUP(struct pf_value *, pf_value_unref)

/*
 * See that the device has it, on the worker's present life.
 * 1: it has.  0: it is on its way; WAITER is woken when that ended, and pf_value_placed
 * tells how.  -errno with *err: it cannot be.  Does not block.
 */
int pf_value_transfer(struct pf_value *value, struct pf_wait *waiter, struct pf_err *err);

/* Wait until no bytes are being copied for a value that is on its way.  The workers have been
 * stopped.  Blocks. */
void pf_values_settle(void);

/* After a wake-up: 1 it is there; else -errno, why not. */
int pf_value_placed(struct pf_value *value, struct pf_err *err);

/* The same for host memory: see that the bytes can be read, by pf_value_host. */
int pf_value_fetch(struct pf_value *value, struct pf_wait *waiter, struct pf_err *err);
int pf_value_fetched(struct pf_value *value, struct pf_err *err);

/*
 * The host bytes (len of them), or NULL if they are not in host memory.  Valid and unchanged
 * as long as the caller holds a reference to VALUE, and pins it if it may be donated.
 */
const void *pf_value_host(struct pf_value *value);

/* One segment of memory that holds it: what the memory limit counts. */
struct pf_segment {
	char id[64];    /* the same for all that share it: "arena:4096", "cpu:3:8192" */
	uint64_t bytes; /* of the memory limit */
};

/* The segments of VALUE's host copies (at most two) in RET; their number. */
unsigned pf_value_segments(struct pf_value *value, struct pf_segment ret[2]);

/* The segment of BYTES. */
void pf_bytes_segment(const struct pf_bytes *bytes, struct pf_segment *ret);

/* The handle for an execution, if it is on INSTANCE, and it is pinned; else 0. */
uint64_t pf_value_use(struct pf_value *value, struct pf_instance *instance);

/* While a value is pinned, its host bytes stay even if it is donated. */
void pf_value_pin(struct pf_value *value);
void pf_value_unpin(struct pf_value *value);

enum pf_donation {
	PF_DONATION_REFUSED, /* nobody can use it any more, or for now */
	PF_DONATION_SHARED, /* by several buffers, which go on using it: the plugin copies */
	PF_DONATION_COPIED, /* it is consumed; others are reading it: the plugin copies */
	PF_DONATION_TAKEN,  /* it is consumed, its memory is the plugin's */
};

/*
 * An execution, which has it pinned, shall consume it: COPIED or TAKEN, from now on nobody else
 * can use it.
 */
enum pf_donation pf_value_donate(struct pf_value *value);

/* The execution that has it COPIED or TAKEN has ended: CONSUMED, or failed, and the value is
 * what it was. */
void pf_value_donated(struct pf_value *value, bool consumed);

/* A result gets the name of it that is consumed, soon (REPLACED), or has: meanwhile it is not
 * gone, but in use. */
void pf_value_replaces(struct pf_value *value, bool replaced);

enum pf_value_state pf_value_state(struct pf_value *value, struct pf_err *ret_why);
const char *pf_value_state_name(enum pf_value_state state);

/* Parts of values: cutting one array into several, and joining several into one. */

/*
 * The part BLOCK of VALUE, as a value to live in the default memory of DEVICE of WORKER, in
 * *RET, with a reference.  VALUE's host bytes are there (pf_value_fetched) and pinned.  A
 * part whose bytes lie together, at an address that plugins can use in place, shares them,
 * and keeps all of VALUE's bytes as long as it lives; else they are copied once, which takes
 * the copy's time.  -ENOSPC, -ENOMEM; -EIO: the bytes are gone.
 */
int pf_value_cut(struct pf_value *value, const struct pf_block *block,
		 struct pf_worker *worker, unsigned device, struct pf_value **ret,
		 struct pf_err *err);

/* How many bytes that would copy. */
uint64_t pf_value_cut_copies(struct pf_value *value, const struct pf_block *block);

/*
 * Put the N PARTS together: PARTS[i] is BLOCKS[i] of the array, and all of it is in one of
 * them.  Their host bytes are there and pinned; they are copied once.  *RET, with a
 * reference, lives in the default memory of DEVICE of WORKER.  -ENOSPC, -ENOMEM, -EIO.
 */
int pf_value_join(struct pf_value *const *parts, const struct pf_block *blocks,
		  unsigned n, struct pf_worker *worker, unsigned device,
		  struct pf_value **ret, struct pf_err *err);

/* Memory that can be given up: host copies of results. */

/*
 * When ARENA's limit is reached, drop host copies of results that their device still has,
 * those used longest ago first; they are fetched again when they are read next.  Once, before
 * there are values.
 */
void pf_reclaim_attach(struct pf_arena *arena);

#endif
