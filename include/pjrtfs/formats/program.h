/* SPDX-License-Identifier: Apache-2.0 */
/* Program files: what their bytes are and tell, before a compiler sees them. */
#ifndef PJRTFS_FORMATS_PROGRAM_H
#define PJRTFS_FORMATS_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/base/err.h"
#include "pjrtfs/formats/hlo.h"

enum pf_program_format {
	PF_PROGRAM_NONE,   /* no listed extension: a scratch file */
	PF_PROGRAM_MLIR,   /* .mlir   StableHLO text */
	PF_PROGRAM_MLIRBC, /* .mlirbc MLIR bytecode or portable artifact */
	PF_PROGRAM_HLO,    /* .hlo.pb a serialized HloModuleProto */
	PF_PROGRAM_JAX,    /* .jax_exported what jax.export serializes */
	PF_PROGRAM_NATIVE, /* .pjrtexe what a plugin compiled, in our container */
};

enum { PF_PROGRAM_PLATFORMS = 64 }; /* bytes of their names, with NUL */

/* What a program tells without a compiler. */
struct pf_program_facts {
	size_t off, len;      /* the bytes for the plugin: all, or what the file wraps */
	int64_t num_replicas; /* the module's mhlo.num_replicas; 0: it has none */
	int64_t num_partitions; /* mhlo.num_partitions, likewise */
	bool shardy;            /* its shardings are for the Shardy partitioner */
	/* Major, minor, patch of the StableHLO that a portable artifact is written in; all 0:
	 * it is none, or does not tell. */
	unsigned stablehlo[3];
	size_t arguments; /* of text: where main's arguments begin, in bytes; 0: not known */
	/* Its first argument is the position of the platform in platforms: JAX passes that, and the
	 * caller of the function knows nothing of it. */
	bool takes_platform;
	char platforms[PF_PROGRAM_PLATFORMS]; /* "cpu cuda": what it is for; "": any */
};

/*
 * The format that file name NAME's extension stands for; *STEM_LEN (if not NULL) becomes
 * the bytes before the extension.  A name that is nothing but an extension has none.
 */
enum pf_program_format pf_program_format_of(const char *name, size_t *stem_len);

/* The extension of FORMAT (".mlir"; static); NULL: there is no such format, or it has none. */
const char *pf_program_extension(enum pf_program_format format);

/* The format's PJRT_Program.format: "mlir" or "hlo" ("mlir" for what no compiler reads).
 * Static. */
const char *pf_program_pjrt_format(enum pf_program_format format);

/*
 * Refuse what cannot be of that format before a plugin sees it, and read what a program
 * tells of itself.
 *
 * Refused: an empty file, MLIR bytecode in .mlir and text in .mlirbc, a gzip, zip or Python
 * file, an operation in text of a dialect that no plugin knows, brackets in text nested
 * deeper than 512 (plugins overflow their stack on those), an export of JAX that has no
 * fixed shapes, a module by itself that JAX made for several platforms, which it does not
 * name, a text whose main has no fixed shapes, that has quantized types or a constant without its
 * numbers.  A HloModuleProtoWithConfig, which plugins write but do not read, is taken
 * for the module in it.
 *
 * ret   filled on success
 * 0, or -EINVAL with a sentence that says what was expected, what was found, and what would
 * be right.  Goes through all of a text once; does not block.
 */
int pf_program_check(enum pf_program_format format, const void *bytes, size_t len,
		     struct pf_program_facts *ret, struct pf_err *err);

/*
 * Inputs of SIGNATURE, which a compiler made of the LEN bytes that FACTS tell of, and that no framework
 * has named, get the names that a text has for them: %x is "x".  -ENOMEM.
 */
int pf_program_name_inputs(const struct pf_program_facts *facts, const void *bytes,
			   size_t len, struct pf_signature *signature);

/*
 * May a program with FACTS run on PLATFORM ("cpu")?  The position of that in facts->platforms, 0 if
 * these are none; -EINVAL: it was exported for others.
 */
int pf_program_check_platform(const struct pf_program_facts *facts, const char *platform,
			      struct pf_err *err);

#endif
