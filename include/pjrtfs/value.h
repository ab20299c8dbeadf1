/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values: arrays that never change, on a device, in host memory, or both.
 *
 * A value is made of a user's bytes, which pf_value_transfer brings to its device, or by an
 * execution, whose results pf_value_fetch brings to host memory.  When a worker dies, the copies
 * that it held are made again from the other ones; a value without any copy left is lost.
 */
#ifndef PJRTFS_VALUE_H
#define PJRTFS_VALUE_H

#include <stdatomic.h>

#include "pjrtfs/array.h"
#include "pjrtfs/base.h"
#include "pjrtfs/bytes.h"
#include "pjrtfs/engine.h"
#include "pjrtfs/quota.h"
#include "pjrtfs/sharding.h"
#include "pjrtfs/wait.h"

/* What an array is. */
struct pf_array_type {
	enum pf_dtype dtype;
	const struct pf_shape *shape; /* borrowed */
	uint64_t len;                 /* host bytes: dense, sub-byte types one per byte */
};

/* Where an array is to live. */
struct pf_place {
	struct pf_worker *worker; /* borrowed */
	unsigned device;          /* index of the worker's device */
	unsigned memory; /* index of the device's; PF_DEFAULT_MEMORY, PF_ANY_MEMORY */
};

/* For functions that say so: where the array is, if it is on the device, else the default memory. */
enum { PF_ANY_MEMORY = PF_DEFAULT_MEMORY - 1 };

/* Where the bytes of an array lie, on disk, until they are used.  Counted. */
struct pf_backing {
	_Atomic unsigned refs;
	/* Read all LEN bytes to DST.  Blocks.  -errno: why not; it may be tried again. */
	int (*read)(struct pf_backing *backing, void *dst, uint64_t len,
		    struct pf_err *err);
	/* The last reference is gone.  Does not block; any lock may be held. */
	void (*free)(struct pf_backing *backing);
};

struct pf_backing *pf_backing_ref(struct pf_backing *backing);
void pf_backing_unref(struct pf_backing *backing); /* NULL is allowed */
PF_DEFINE_CLEANUP(struct pf_backing *, pf_backing_unref)

/* The other side of a transfer between two members of a group. */
struct pf_peer {
	struct pf_req_peer side;
	uint64_t id; /* the transfer's: pf_worker_id of this side's worker */
};

enum pf_value_state {
	PF_VALUE_READY,        /* usable; the device's copy may have to be made again */
	PF_VALUE_TRANSFERRING, /* on its way to the device */
	PF_VALUE_DONATED,      /* an execution consumed it */
	PF_VALUE_LOST,         /* its only copy died with a worker */
	PF_VALUE_ERROR,        /* the device refused it */
};

/* Its fields are the store's. */
struct pf_value;

/* What VALUE is, and where it lives, which never change: they take no lock.  The shape is borrowed as
 * long as VALUE is. */
struct pf_array_type pf_value_type(const struct pf_value *value);
struct pf_place pf_value_place(const struct pf_value *value);

/* The device's copy of VALUE, which no other thread has yet, is to have LAYOUT. */
void pf_value_set_layout(struct pf_value *value, const struct pf_layout *layout);

/* A value of the host bytes at OFF of BYTES (a reference is taken; bytes in another arena than
 * the worker's are copied), which are frozen from now on, to live at PLACE.  NULL: no memory. */
struct pf_value *pf_value_of_bytes(const struct pf_array_type *type,
				   struct pf_bytes *bytes, uint64_t off,
				   struct pf_place place);

/* Charge ACCOUNT for VALUE's copies from now on, even beyond the maxima. */
void pf_value_charge_to(struct pf_value *value, struct pf_account *account);

/* A value whose bytes are read from BACKING (a reference is taken) when they are first used. */
struct pf_value *pf_value_of_backing(const struct pf_array_type *type,
				     struct pf_backing *backing, struct pf_place place);

/* The host memory that an array of LEN bytes takes at PLACE; 0: the device has its own. */
uint64_t pf_value_space(struct pf_place place, uint64_t len);

/* The bytes that are charged for its device's copy. */
uint64_t pf_value_own(struct pf_value *value);

/* The bytes charged for FROM's device copy, whose memory a result took: the caller's, and TO's,
 * now. */
uint64_t pf_value_take_charge(struct pf_value *from, struct pf_account *to);

/*
 * The array that an execution on INSTANCE made under ID on DEVICE, where OUT says; MESSAGE is the
 * reply that OUT lies in, of which inline bytes are copied.  OWN bytes, which are charged to the
 * worker's arena and ACCOUNT, and ID become the value's.  NULL: no memory, both stay the caller's.
 */
struct pf_value *pf_value_of_result(const struct pf_shape *shape,
				    struct pf_worker *worker, unsigned device,
				    struct pf_instance *instance, uint64_t id,
				    struct pf_account *account, uint64_t own,
				    const struct pf_out *out, const void *message);

/*
 * VALUE, if it lives at PLACE (which may be another plugin's, in PF_ANY_MEMORY); else a copy that
 * does.  The transfer copies on the device if it can (PJRT_Buffer_CopyToDevice,
 * _CopyToMemory); host bytes are shared, never stored twice.  Until then VALUE's memory
 * stays, and readers get VALUE's bytes.  A copy is ACCOUNT's.  A reference; NULL: no memory.
 */
struct pf_value *pf_value_at(struct pf_value *value, struct pf_place place,
			     struct pf_account *account);

/*
 * The same for a file of ACCOUNT: VALUE itself only if that is charged for it, so that no user
 * pays for another.  The copy shares no bytes then.
 */
struct pf_value *pf_value_for(struct pf_value *value, struct pf_place place,
			      struct pf_account *account);

/* VALUE, if its device's copy has LAYOUT; else a copy in that layout where VALUE lives, which the transfer
 * makes of host bytes.  A reference; NULL: no memory. */
struct pf_value *pf_value_in_layout(struct pf_value *value,
				    const struct pf_layout *layout);

/* A value that the transfer makes on its device, with undefined contents (zeros in host memory).
 * NULL: no memory. */
struct pf_value *pf_value_blank(const struct pf_array_type *type, struct pf_place place);

/* A value whose bytes the transfer receives FROM a device of another member of the worker's group.
 * NULL: no memory. */
struct pf_value *pf_value_received(const struct pf_array_type *type,
				   struct pf_place place, const struct pf_peer *from);

/* Where VALUE is received from, borrowed; NULL: it is not. */
const struct pf_peer *pf_value_from(const struct pf_value *value);

/*
 * Send VALUE, which has been transferred, TO a device of another member.  0: it is pinned until the
 * caller unpins it, after CALL's done, which the caller has set.  -EBUSY: an execution consumes it;
 * others as pf_value_placed and pf_instance_call.
 */
int pf_value_send(struct pf_value *value, const struct pf_peer *to, struct pf_call *call,
		  struct pf_err *err);

/* Give up the transfer with PEER, unless the two members have met: it fails with -ECANCELED. */
void pf_peer_cancel(struct pf_worker *worker, const struct pf_peer *peer);

/*
 * Count one more, and one less, of the buffers that have VALUE.  The journal has a record of it
 * while there is one.
 */
void pf_value_hold(struct pf_value *value);
void pf_value_let_go(struct pf_value *value);

/* Add a reference; drop one.  The last one frees the device's memory and the host copies. */
struct pf_value *pf_value_ref(struct pf_value *value);
void pf_value_unref(struct pf_value *value); /* NULL is allowed */
PF_DEFINE_CLEANUP(struct pf_value *, pf_value_unref)

/* 1: VALUE is on its device.  0: pf_value_transfer is to bring it there.  -errno: it cannot be used. */
int pf_value_on_device(struct pf_value *value, struct pf_err *err);

/*
 * Bring VALUE to its device, on the worker's present instance.  1: it is there.  0: it is on its
 * way; WAITER is woken when the transfer has ended, and pf_value_placed says how.  -errno: it
 * cannot be transferred.  Does not block.
 */
int pf_value_transfer(struct pf_value *value, struct pf_wait *waiter, struct pf_err *err);

/* Is VALUE a copy of another worker's array, so that its transfer may copy bytes, which needs a thread of
 * its own? */
bool pf_value_transfer_is_slow(struct pf_value *value);

/* Leave the transfer of VALUE to its first use, if that may be: its bytes are there, and its worker has no process
 * now; or they are where its device will use them, as an earlier upload of its type has shown, and VALUE looks
 * as if it were on the device.  False: it is to be transferred now. */
bool pf_value_defer(struct pf_value *value);

/* After the wake-up: 1: the device has it; else -errno, why not. */
int pf_value_placed(struct pf_value *value, struct pf_err *err);

/* The same for host memory, for pf_value_host. */
int pf_value_fetch(struct pf_value *value, struct pf_wait *waiter, struct pf_err *err);
int pf_value_fetched(struct pf_value *value, struct pf_err *err);

/* A transfer that takes longer than one should. */
struct pf_slow_transfer {
	struct pf_value *value; /* owned reference */
	bool to_device;         /* else from there */
	unsigned seconds;       /* that it has taken so far */
	uint64_t limit_s;       /* the process is ended after so many; 0: never */
};

/* The one that WORKER's present instance has under way longest, in *RET.  False: none is slow. */
bool pf_value_slowest(struct pf_worker *worker, struct pf_slow_transfer *ret);

/* Is OTHER VALUE, or what VALUE is a copy of until its device has it? */
bool pf_value_comes_from(struct pf_value *value, const struct pf_value *other);

/* Wait until all threads of the store that copy or render arrays have ended.  The workers have
 * been stopped.  Blocks. */
void pf_values_finish(void);

/* The len host bytes, or NULL if they are not in host memory.  Valid as long as the caller has a
 * reference to VALUE, and pins it if it may be donated. */
const void *pf_value_host(struct pf_value *value);

/* A segment of memory that the memory limit counts. */
struct pf_segment {
	char id[96]; /* the same for all that share it: "arena 4096", "buffer 7 of cpu, instance 3" */
	uint64_t bytes; /* of the memory limit */
};

/* Write the segments of VALUE's copies (at most two) to RET; their number. */
unsigned pf_value_segments(struct pf_value *value, struct pf_segment ret[2]);

/* The segment of BYTES. */
void pf_bytes_segment(const struct pf_bytes *bytes, struct pf_segment *ret);

/* Pin VALUE for an execution on INSTANCE: its handle there, or 0: it is not there. */
uint64_t pf_value_use(struct pf_value *value, struct pf_instance *instance);

/* While a value is pinned, its host bytes stay even if it is donated. */
void pf_value_pin(struct pf_value *value);
void pf_value_unpin(struct pf_value *value);

enum pf_donation {
	PF_DONATION_REFUSED, /* the value is not ready, for now or for good */
	PF_DONATION_SHARED,  /* several buffers have it and keep it: the plugin copies */
	PF_DONATION_COPIED,  /* it is consumed, but being read: the plugin copies */
	PF_DONATION_TAKEN,   /* it is consumed, its memory is the plugin's */
};

/* Donate VALUE to an execution, which has pinned it.  After COPIED or TAKEN no other thread can
 * use it. */
enum pf_donation pf_value_donate(struct pf_value *value);

/*
 * The execution with the donation COPIED or TAKEN, which still pins VALUE, has ended: it CONSUMED
 * the value, or failed. After a failure the value is ready again; but if the worker died and the
 * only bytes are in its pool, they may have been overwritten, and the value is lost.
 */
void pf_value_donated(struct pf_value *value, bool consumed);

/* REPLACED: a result is about to take the name of the donated VALUE, which until then is in
 * use, not gone. */
void pf_value_replaces(struct pf_value *value, bool replaced);

/* The state at this moment, with *RET_WHY (may be NULL) for PF_VALUE_ERROR; and its name
 * ("ready"; static). */
enum pf_value_state pf_value_state(struct pf_value *value, struct pf_err *ret_why);
const char *pf_value_state_name(enum pf_value_state state);

/*
 * The part BLOCK of VALUE, as a value of ACCOUNT to live at PLACE (PF_ANY_MEMORY: in the default one),
 * in *RET, with a reference.  VALUE's host bytes are there (pf_value_fetched) and pinned.  A
 * part whose bytes lie together, at an address that plugins can use in place, and for which ACCOUNT
 * is charged, shares them, and keeps all of VALUE's bytes as long as it lives; else the caller waits
 * for one copy.  -EDQUOT, -ENOSPC, -ENOMEM; -EIO: the bytes are gone.
 */
int pf_value_cut(struct pf_value *value, const struct pf_block *block,
		 struct pf_place place, struct pf_account *account, struct pf_value **ret,
		 struct pf_err *err);

/* The number of bytes that pf_value_cut would copy. */
uint64_t pf_value_cut_copies(struct pf_value *value, const struct pf_block *block,
			     struct pf_account *account);

/*
 * Join the N PARTS: PARTS[i] is BLOCKS[i] of an array, and together they cover its block INTO.
 * Their host bytes are there and pinned; what INTO has of them is copied once.  *RET, INTO with a
 * reference, lives at PLACE (as for pf_value_cut), and is ACCOUNT's.
 * -EDQUOT, -ENOSPC, -ENOMEM; -EIO: the bytes are gone.
 */
int pf_value_join(struct pf_value *const *parts, const struct pf_block *blocks,
		  unsigned n, const struct pf_block *into, struct pf_place place,
		  struct pf_account *account, struct pf_value **ret, struct pf_err *err);

/*
 * When the limit of ARENA, or the maximum of an account, is reached, drop host copies of results
 * that their device still has, those used longest ago first; a reader fetches them again.  Call it
 * once, before there are values.  QUOTAS may be NULL.
 */
void pf_reclaim_attach(struct pf_arena *arena, struct pf_quotas *quotas);

#endif
