/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a buffer's content means: how long it will be, whether it is whole, which array it
 * is.  Private to the store; the caller holds the buffer's lock.
 */
#ifndef PJRTFS_STORE_CONTENT_H
#define PJRTFS_STORE_CONTENT_H

#include "pjrtfs/store/buffer.h"

/* Of b->text.at: lines are not looked at before the file is whole, or written from its beginning
 * again; a line was refused, and so is what its writer adds, until the file is emptied. */
enum { PF_TEXT_UNCHECKED = UINT32_MAX, PF_TEXT_WRONG = UINT32_MAX - 1 };

/* Take VALUE (a reference is given) as BUFFER's, and give it back: both count its holders. */
void pf_buffer_hold_locked(struct pf_buffer *buffer, struct pf_value *value);
struct pf_value *pf_buffer_let_go_locked(struct pf_buffer *buffer);

/* Its state is STATE, unless it is a scratch file. */
void pf_buffer_set_state_locked(struct pf_buffer *buffer, enum pf_buffer_state state);

/*
 * Look at the header of the content, as FORMAT has it: 1 and b->header_len, data_len (and
 * npy) are set; 0: it is not whole yet, or FORMAT has none; -errno: it is no such header,
 * and header_len is 0.  A long header of many tensors is only looked at with LONG_TOO.
 */
int pf_content_head(struct pf_buffer *buffer, enum pf_format format, bool long_too,
		    struct pf_err *err);

/* How many bytes the whole content will have, if that is known. */
bool pf_content_expected(const struct pf_buffer *buffer, uint64_t *ret);

/* Does the content, as it is, look like a whole array of FORMAT?  0, or -EINVAL, why not. */
int pf_content_check(struct pf_buffer *buffer, enum pf_format format, struct pf_err *err);

/* Is the content all that there is of an array without elements, of a declared shape: no bytes,
 * or no numbers? */
bool pf_content_is_nothing(const struct pf_buffer *buffer);

/* As far as its length tells, is it whole? */
bool pf_content_is_whole(struct pf_buffer *buffer);

/*
 * A new value of the content in *RET, with one reference: 0.  1: it is whole, but no or
 * several arrays; their number is in b->tensors.  -errno: it is none.  The value shares the
 * content's bytes where it can, else they are converted.
 */
int pf_content_value(struct pf_buffer *buffer, struct pf_value **ret, struct pf_err *err);

/* The array of one TENSOR of a .safetensors file whose data begin at OFF of BYTES, for
 * PLACE: shares BYTES, or is unpacked.  -ENOSPC, -ENOMEM. */
int pf_content_tensor(const struct pf_place *place, unsigned memory,
		      const struct pf_tensor *tensor, struct pf_bytes *bytes,
		      uint64_t off, struct pf_value **ret, struct pf_err *err);

#endif
