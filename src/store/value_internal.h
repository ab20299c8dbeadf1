/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a value share.  Private to src/store. */
#ifndef PJRTFS_STORE_VALUE_INTERNAL_H
#define PJRTFS_STORE_VALUE_INTERNAL_H

#include "pjrtfs/store/value.h"

/* The host copy of VALUE's own, or NULL. */
const void *pf_value_host_locked(const struct pf_value *value);

/* Why a value cannot be used at all; 0 if it can. */
int pf_value_unusable_locked(const struct pf_value *value, struct pf_err *err);

/* A copy that died with its worker is none. */
void pf_value_forget_dead_locked(struct pf_value *value);

/* It is on its device, as buffer ID of LIFE. */
void pf_value_set_device_locked(struct pf_value *value, struct pf_life *life,
				uint64_t id);

/* Let go of the copies on the device, and in host memory. */
void pf_value_drop_device_locked(struct pf_value *value);
void pf_value_drop_host_locked(struct pf_value *value);

/*
 * Its host bytes lie at OFF of LIFE's pool from now on; BLOCK: in a block that is to be freed,
 * and can be fetched again.
 */
void pf_value_set_pool_locked(struct pf_value *value, struct pf_life *life, uint64_t off,
			      bool block);

/* What LEN bytes take in a pool (see worker/pool.h). */
uint64_t pf_pool_bytes(uint64_t len);

/* Its device's copy takes OWN bytes of the host's memory; CHARGED more were charged. */
void pf_value_charged_locked(struct pf_value *value, uint64_t own, uint64_t charged);

/* Discharge what was charged for copies that are not there, or charge what they take beyond
 * the limit. */
void pf_value_settle_charge_locked(struct pf_value *value);

/*
 * If VALUE is on its device and nobody reads what it was copied from, take that out, for the
 * caller to let go of (pf_value_release_source) without the lock; else NULL.
 */
struct pf_value *pf_value_take_source_locked(struct pf_value *value);
void pf_value_release_source(struct pf_value *source); /* NULL is allowed */

/* VALUE's host copy was used or made just now: if it can be made again it is a spare, the
 * last one to be dropped.  Under the value's lock or not. */
void pf_spare_touch(struct pf_value *value);

/* VALUE is going. */
void pf_spare_forget(struct pf_value *value);

/* Drop VALUE's host copy if it can be made again; the bytes that were given up, or 0. */
uint64_t pf_value_drop_spare(struct pf_value *value);

#endif
