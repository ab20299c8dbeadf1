/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "pjrtfs/base.h"

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
