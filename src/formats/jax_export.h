/* SPDX-License-Identifier: Apache-2.0 */
/* The container that jax.export writes; used by program.c only. */
#ifndef PJRTFS_SRC_FORMATS_JAX_EXPORT_H
#define PJRTFS_SRC_FORMATS_JAX_EXPORT_H

#include <stddef.h>

#include "pjrtfs/base/err.h"

enum { PF_JAX_PLATFORMS = 64 }; /* bytes of their names, with NUL */

/* What an Exported holds that matters here. */
struct pf_jax_exported {
	size_t off, len; /* its module, a portable artifact, in the file */
	char platforms[PF_JAX_PLATFORMS]; /* "cpu" or "cpu cuda": what it is for */
};

/*
 * Find the module in LEN bytes of a serialized jax.export.Exported.  Copies no bytes.
 * -EINVAL: it is none, its parts lie outside, or an argument has no fixed shape.
 * Source: jax/_src/export/serialization.fbs; flatbuffers.dev/internals.
 */
int pf_jax_export_find(const void *bytes, size_t len, struct pf_jax_exported *ret,
		       struct pf_err *err);

#endif
