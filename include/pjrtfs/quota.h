/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas: what each user has of a mount, and may have at most.
 *
 * A user has one account, which counts resources: each has a current amount and a maximum.  The
 * caller charges an account before it spends, and discharges it when the object is gone.  The
 * account of a file's owner is charged for the file, that of a task's user for what the task does.
 *
 * Any thread may call these functions.  Those that make or list accounts, or save a record, take a
 * lock of rank 8, and that of the journal (state.h); the others take no lock.  Only a charge that
 * finds the maximum of memory reached may take longer: it calls RECLAIM (pf_quotas_set_reclaim).
 */
#ifndef PJRTFS_QUOTA_H
#define PJRTFS_QUOTA_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "pjrtfs/base.h"
#include "pjrtfs/engine.h"
#include "pjrtfs/quota_word.h"
#include "pjrtfs/shm.h"

/* One resource of one account.  current may exceed max: max was lowered, or what exists already
 * was charged. */
struct pf_limit {
	struct pf_account *account; /* borrowed: whose */
	_Atomic uint64_t current, max;
	_Atomic bool changed; /* max was set while the mount served */
};

/* Lives as long as its quotas.  In functions that charge, NULL is an account without limits. */
struct pf_account {
	struct pf_quotas *quotas; /* borrowed */
	uid_t uid;
	_Atomic bool set; /* the owner of the mount has set a maximum */
	/* Owned: words of the journal about devices that the mount does not have now. */
	struct pf_buf absent;
	/* By resource: those of the mount, then those of each device. */
	struct pf_limit limits[];
};

/*
 * The quotas of a mount of OWNER with the devices of N WORKERS (borrowed; they outlive the quotas).
 * Each of WORDS (NULL-terminated; or NULL) sets a maximum, as quota_word.h says; without UID that of
 * all users but root and OWNER that have none of their own.  Of two words for the same maximum the
 * later one counts.
 *
 * Maxima that an earlier life of the daemon changed, and the seconds of compiles, come from the
 * journal (pf_account_save).
 *
 * *RET is the caller's: pf_quotas_free, when no account is charged.  -EINVAL, -ENOMEM; -ENODEV:
 * the mount has no such device.
 */
int pf_quotas_new(uid_t owner, struct pf_worker *const *workers, unsigned n,
		  const char *const *words, struct pf_quotas **ret, struct pf_err *err);
void pf_quotas_free(struct pf_quotas *quotas); /* NULL is allowed */

/* When ACCOUNT has no memory left, RECLAIM frees at least NEED bytes of copies that can be made
 * again, if there are so many, and returns how many it freed.  Call it before there are accounts. */
void pf_quotas_set_reclaim(struct pf_quotas *quotas,
			   uint64_t (*reclaim)(struct pf_account *account,
					       uint64_t need));

/* The account of UID, which is made at the first call; NULL: no memory.  Takes a lock of rank 8 for
 * some nanoseconds. */
struct pf_account *pf_account_of(struct pf_quotas *quotas, uid_t uid);

/* The same; NULL: it was not made yet. */
struct pf_account *pf_account_find(struct pf_quotas *quotas, uid_t uid);

/* All accounts, N of them, in an array that the caller frees.  NULL: no memory. */
struct pf_account **pf_accounts(struct pf_quotas *quotas, size_t *n);

/* Is anything charged, or a maximum set? */
bool pf_account_in_use(const struct pf_account *account);

/* List ACCOUNT from now on, even if nothing is charged. */
void pf_account_list(struct pf_account *account);

/* Write the journal's record of ACCOUNT (NULL is allowed): the maxima that were changed, and the
 * seconds of compiles. */
void pf_account_save(struct pf_account *account);

/* The number of resources of an account; the name of one ("memory", "cpu:0/memory"), borrowed, or
 * NULL: its device cannot be addressed. */
unsigned pf_quota_resources(const struct pf_quotas *quotas);
const char *pf_quota_name(const struct pf_quotas *quotas, unsigned resource);

#define PF_NOT_COUNTED UINT_MAX /* a resource for which nothing is charged */

/* The resource WHAT of device INDEX of WORKER, or of the worker that WORKER is like, for the
 * functions below; PF_NOT_COUNTED: the quotas do not have that, or ACCOUNT is NULL. */
unsigned pf_account_device(const struct pf_account *account,
			   const struct pf_worker *worker, unsigned index,
			   enum pf_device_resource what);

/* The value of LIMIT's current or max in the unit of its file; PF_NO_LIMIT: none. */
uint64_t pf_limit_current(const struct pf_limit *limit);
uint64_t pf_limit_max(const struct pf_limit *limit);

/* Set LIMIT's maximum to TEXT: a number, or "max", and perhaps a newline; a restarted daemon has it,
 * too.  -EINVAL, -ENOMEM. */
int pf_limit_set(struct pf_limit *limit, const char *text, struct pf_err *err);

/*
 * Charge N of RESOURCE: 0, or -EDQUOT, with a sentence that names the file of the maximum, and
 * nothing is charged.  One atomic operation while there is room; may call RECLAIM else.
 */
int pf_account_charge(struct pf_account *account, unsigned resource, uint64_t n,
		      struct pf_err *err);

/* Has RESOURCE of ACCOUNT a maximum, so that a charge may be refused? */
bool pf_account_is_limited(struct pf_account *account, unsigned resource);

/* The same for what exists already, even beyond the maximum. */
void pf_account_force(struct pf_account *account, unsigned resource, uint64_t n);

/* Undo a charge of N. */
void pf_account_discharge(struct pf_account *account, unsigned resource, uint64_t n);

/* Charge TO instead of FROM for N, even beyond the maximum. */
void pf_account_move(struct pf_account *from, struct pf_account *to, unsigned resource,
		     uint64_t n);

/*
 * Host memory: of ACCOUNT and of ARENA, whose limit is the mount's.  -EDQUOT: the account's
 * maximum; -ENOSPC: the arena's.  These take no lock while there is room.
 */
int pf_memory_charge(struct pf_arena *arena, struct pf_account *account, uint64_t bytes,
		     struct pf_err *err);
void pf_memory_force(struct pf_arena *arena, struct pf_account *account, uint64_t bytes);
void pf_memory_discharge(struct pf_arena *arena, struct pf_account *account,
			 uint64_t bytes);

/* Files, and what they take of the heap. */
struct pf_file_charge {
	unsigned resource; /* of which it is one, or PF_NOT_COUNTED */
	uint32_t heap;     /* bytes */
	struct pf_arena *arena;
	/* Borrowed; NULL: not charged, or discharged. */
	struct pf_account *_Atomic account;
};

/* Charge ACCOUNT for a file of RESOURCE (PF_RESOURCES: a directory) with HEAP bytes; with FORCED even beyond the maxima.
 * -EDQUOT, -ENOSPC: nothing is charged. */
int pf_file_charge(struct pf_file_charge *charge, struct pf_arena *arena,
		   struct pf_account *account, enum pf_resource resource, uint64_t heap,
		   bool forced, struct pf_err *err);

/* Charge TO for it instead, even beyond TO's maxima, if it is charged at all. */
void pf_file_charge_move(struct pf_file_charge *charge, struct pf_account *to);

/* Undo the charge; the second call has no effect. */
void pf_file_discharge(struct pf_file_charge *charge);

#endif
