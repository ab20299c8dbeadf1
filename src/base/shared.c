/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "pjrtfs/base.h"

struct pf_shared_bytes pf_shared_part(struct pf_shared_bytes all, uint64_t off,
				      uint64_t len)
{
	if (!all.shared || off > all.len || len > all.len - off)
		return PF_SHARED_NONE;
	return pf_shared_of((const char *)all.shared + off, len);
}

int pf_shared_copy(struct pf_shared_bytes bytes, const char *what, uint64_t limit,
		   struct pf_buf *ret, struct pf_err *err)
{
	if (!bytes.shared)
		return pf_err_set(err, -EPROTO,
				  "%s lies outside the memory that the worker shares",
				  what);
	if (bytes.len > limit)
		return pf_err_set(err, -EPROTO, "%s has %llu bytes: at most %llu", what,
				  (unsigned long long)bytes.len,
				  (unsigned long long)limit);
	/* The copy is made here, once: no compiler can read the bytes again in its place. */
	pf_buf_append(ret, bytes.shared, bytes.len);
	return ret->failed ? pf_err_set(err, -ENOMEM, "no memory for %s", what) : 0;
}
