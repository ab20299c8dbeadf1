/*
 * What a buffer's content means: how long it will be, whether it is whole, which array it
 * is.  Private to the store; the caller holds the buffer's lock.
 */
#ifndef PJRTFS_STORE_CONTENT_H
#define PJRTFS_STORE_CONTENT_H

#include "pjrtfs/store/buffer.h"

/* Take VALUE (a reference is given) as BUFFER's, and give it back: both count its holders. */
void pf_buffer_hold_locked(struct pf_buffer *buffer, struct pf_value *value);
struct pf_value *pf_buffer_let_go_locked(struct pf_buffer *buffer);

/* How many bytes the whole content will have, if that is known. */
bool pf_content_expected(const struct pf_buffer *buffer, uint64_t *ret);

/* Does the content, as it is, look like a whole array of FORMAT?  0, or -EINVAL, why not. */
int pf_content_check(const struct pf_buffer *buffer, enum pf_format format,
		     struct pf_err *err);

/* As far as its length tells, is it whole? */
bool pf_content_is_whole(const struct pf_buffer *buffer);

/*
 * A new value of the content, with one reference; NULL and *ERR if it is none.  The value
 * shares the content's bytes where it can, else they are converted.
 */
struct pf_value *pf_content_value(struct pf_buffer *buffer, struct pf_err *err);

#endif
