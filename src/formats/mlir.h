/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what MLIR tells of itself without a compiler; used by program.c only. */
#ifndef PJRTFS_SRC_FORMATS_MLIR_H
#define PJRTFS_SRC_FORMATS_MLIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/base/err.h"
#include "protowire.h"

/* What a module's attributes say; 0: nothing. */
struct pf_mlir_facts {
	unsigned stablehlo[3];  /* of a portable artifact: the version it is written in */
	int64_t num_replicas;   /* mhlo.num_replicas */
	int64_t num_partitions; /* mhlo.num_partitions */
	bool shardy;            /* it has shardings of Shardy's, the newer partitioner */
	bool symbolic; /* of bytecode: JAX exported it for shapes that are not fixed */
	bool takes_platform; /* an argument of main is the number of the platform: JAX's */
	size_t arguments;    /* of text: bytes up to main's first argument; 0: no main */
};

enum { PF_MLIR_MAX_NESTING = 512 };

/*
 * Go once through LEN bytes of MLIR TEXT: strings and comments are stepped over, all else
 * is taken as it is, since only a compiler knows the grammar of every dialect.
 *
 * -EINVAL with a sentence that begins with the line: brackets nested deeper than
 * PF_MLIR_MAX_NESTING (plugins overflow their stack on those); an operation of a dialect
 * that people have programs in, but no plugin knows; an argument or a result of main without
 * a fixed shape; a quantized type; a constant that was left out when the text was printed.
 */
int pf_mlir_text(const char *text, size_t len, struct pf_mlir_facts *ret,
		 struct pf_err *err);

/*
 * The names of the values that are main's arguments, without their "%", in N slices of TEXT; AT is
 * the "arguments" that pf_mlir_text found.  Returns how many there are, which may be more.
 */
size_t pf_mlir_arguments(const char *text, size_t len, size_t at, struct pf_slice *names,
			 size_t n);

/*
 * The same facts from LEN bytes of MLIR bytecode, which a portable artifact is, too.  What
 * is malformed, or larger than any module needs, tells nothing: the plugin says it better.
 * Source: mlir/docs/BytecodeFormat.md, mlir/lib/IR/BuiltinDialectBytecode.td.
 */
void pf_mlir_bytecode(const void *bytes, size_t len, struct pf_mlir_facts *ret);

#endif
