/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compilation cache's keys: SHA-256 over everything that decides what a compile gives.
 *
 * Each field is preceded by its length, so that no two lists of fields are the same bytes.
 * A plugin's own fingerprint of a program is no part of it: different plugins give the same
 * one, and compute garbage from each other's executables.
 */
#ifndef PJRTFS_CACHE_KEY_H
#define PJRTFS_CACHE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/base/buf.h"
#include "pjrtfs/base/err.h"

enum {
	PF_SHA256 = 32,         /* bytes of a SHA-256 */
	PF_CACHE_KEY_TEXT = 65, /* characters of a key, NUL included */
};

struct pf_cache_key {
	uint8_t bytes[PF_SHA256];
};

/* What a compile is made of.  All is borrowed during the call; strings end with NUL. */
struct pf_cache_inputs {
	const char *format;  /* the program's: "mlir" */
	const void *program; /* program_len bytes */
	uint64_t program_len;
	uint64_t part_off, part_len; /* what of it is compiled */
	const void *options;         /* options_len bytes, the same for equal options */
	size_t options_len;
	const char *platform, *platform_version;
	int api_major, api_minor;
	uint8_t plugin[PF_SHA256]; /* of the plugin's file */
	unsigned platform_number;  /* the worker's number of the platform; 0: none */
	const char *devices;       /* the client's devices in order, with their kinds */
	const char *host;          /* pf_cache_host's text */
	const char *environment;   /* pf_cache_environment's text */
	const char *create;        /* the client's create options: JSON, keys sorted */
};

/* Make INPUTS' key in *RET.  -ENOMEM.  Blocks: a second for some GB of program. */
int pf_cache_key_make(const struct pf_cache_inputs *inputs, struct pf_cache_key *ret,
		      struct pf_err *err);

/* The key as 64 lower-case hexadecimal digits. */
void pf_cache_key_text(const struct pf_cache_key *key, char dst[PF_CACHE_KEY_TEXT]);

/* Read such a text into *RET.  False: it is none. */
bool pf_cache_key_parse(const char *text, struct pf_cache_key *ret);

/*
 * Append what machine code depends on of this host: model and features of the first
 * processor in the file CPUINFO (/proc/cpuinfo), the architecture, and how many processors
 * this process may use, for which loops are cut.  A file that cannot be read adds nothing.
 */
void pf_cache_host(const char *cpuinfo, struct pf_buf *out);

/*
 * Append the variables of ENVIRON (as environ(7)) that compilers read, sorted, one a line:
 * those whose names begin with XLA_, TF_XLA_, LIBTPU_, TPU_, CUDA_, NVIDIA_, ROCM_, HIP_,
 * HSA_, NEURON_, LLVM_ or MLIR_.  Where XLA_FLAGS names a file, its content follows (at most
 * 1 MiB).
 */
void pf_cache_environment(char *const *environ, struct pf_buf *out);

#endif
