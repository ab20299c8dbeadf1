/*
 * Values: arrays that never change, on a device, in host memory, or both.
 *
 * A value is made of a user's bytes (and goes to its device when asked to) or by an
 * execution (and comes to host memory when asked to).  What of it is gone with a dead
 * worker is made again from the rest; a value of which nothing is left is lost.
 */
#ifndef PJRTFS_STORE_VALUE_H
#define PJRTFS_STORE_VALUE_H

#include "pjrtfs/base/waiter.h"
#include "pjrtfs/engine/worker.h"
#include "pjrtfs/formats/shape.h"
#include "pjrtfs/store/bytes.h"

enum pf_value_state {
	PF_VALUE_READY,        /* usable; the device's copy may have to be made again */
	PF_VALUE_TRANSFERRING, /* on its way to the device */
	PF_VALUE_DONATED,      /* an execution consumed it */
	PF_VALUE_LOST,         /* its only copy died with a worker */
	PF_VALUE_ERROR,        /* the device refused it */
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
	void *small;               /* owned: a result that came with the reply */
	struct pf_life *pool_life; /* owned reference: in that life's pool at pool_off */
	uint64_t pool_off;
	bool pool_block; /* a block that must be freed, not the buffer's own memory */
	/* The device's copy. */
	struct pf_life *life; /* owned reference; the life that id belongs to */
	uint64_t id;
	uint64_t alias_off; /* where in the arena the device reads, or PF_NO_OFFSET */
	uint64_t on_device_bytes;
	enum pf_value_state state;
	struct pf_err err; /* why an upload or a fetch failed last */
	bool placing, fetching;
	bool consumed; /* by an execution: freed when nobody has it pinned */
	unsigned pins; /* readers of an output's memory: it must not be donated */
	struct pf_waiter *waiters; /* for placing or fetching to end */
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
 * A value that an execution made on LIFE under ID, as OUT describes; MESSAGE is the reply OUT
 * lies in (inline bytes are copied).  One reference; NULL: no memory; the caller frees ID.
 */
struct pf_value *pf_value_of_output(enum pf_dtype dtype, const struct pf_shape *shape,
				    const struct pf_out *out, const void *message,
				    struct pf_worker *worker, unsigned device,
				    struct pf_life *life, uint64_t id);

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
int pf_value_place(struct pf_value *value, struct pf_waiter *waiter, struct pf_err *err);

/* After a wake-up: 1 it is there; else -errno, why not. */
int pf_value_placed(struct pf_value *value, struct pf_err *err);

/* The same for host memory: see that the bytes can be read, by pf_value_host. */
int pf_value_fetch(struct pf_value *value, struct pf_waiter *waiter, struct pf_err *err);
int pf_value_fetched(struct pf_value *value, struct pf_err *err);

/*
 * The host bytes (len of them), or NULL if they are not in host memory.  Valid and unchanged
 * as long as the caller holds a reference to VALUE, and pins it if it may be donated.
 */
const void *pf_value_host(struct pf_value *value);

/* The handle for an execution, if it is on LIFE: else 0. */
uint64_t pf_value_id_on(struct pf_value *value, struct pf_life *life);

/* While a value is pinned, its host bytes stay even if it is donated. */
void pf_value_pin(struct pf_value *value);
void pf_value_unpin(struct pf_value *value);

/*
 * An execution shall consume it: from now on nobody else can use it.  True if the plugin may
 * take its memory; false if a reader holds that, so that the plugin must copy.
 */
bool pf_value_donate(struct pf_value *value);

/* The execution has ended: CONSUMED, or failed, and the value is what it was. */
void pf_value_donated(struct pf_value *value, bool consumed);

enum pf_value_state pf_value_state(struct pf_value *value, struct pf_err *ret_why);
const char *pf_value_state_name(enum pf_value_state state);

#endif
