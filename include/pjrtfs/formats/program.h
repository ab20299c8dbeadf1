/* Program files: which format their bytes are in, before a compiler sees them. */
#ifndef PJRTFS_FORMATS_PROGRAM_H
#define PJRTFS_FORMATS_PROGRAM_H

#include <stddef.h>

#include "pjrtfs/base/err.h"

enum pf_program_format {
	PF_PROGRAM_NONE,   /* no listed extension: a scratch file */
	PF_PROGRAM_MLIR,   /* .mlir   StableHLO text */
	PF_PROGRAM_MLIRBC, /* .mlirbc MLIR bytecode or portable artifact */
	PF_PROGRAM_HLO,    /* .hlo.pb a serialized HloModuleProto */
};

/*
 * The format that file name NAME's extension stands for; *STEM_LEN (if not NULL) becomes
 * the bytes before the extension.  A name that is nothing but an extension has none.
 */
enum pf_program_format pf_program_format_of(const char *name, size_t *stem_len);

/* The format's PJRT_Program.format: "mlir" or "hlo".  Static. */
const char *pf_program_pjrt_format(enum pf_program_format format);

/*
 * Refuse what cannot be of that format before a plugin sees it: an empty file, MLIR
 * bytecode in .mlir and text in .mlirbc, a gzip, zip or Python file, brackets nested
 * deeper than 512 in text (plugins overflow their stack on those).  0, or -EINVAL with a
 * sentence that says what was expected, what was found, and what would be right.
 */
int pf_program_check(enum pf_program_format format, const void *bytes, size_t len,
		     struct pf_err *err);

#endif
