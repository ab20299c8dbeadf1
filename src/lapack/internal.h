/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers of JAX's linear algebra over the system's LAPACK: what the files of this layer share.
 *
 * JAX's rule for the order in memory: the arrays of the largest rank are column-major in their last
 * two dimensions, batch dimensions come first.  So each matrix is as Fortran has it, and the next
 * one follows.  A handler calls a LAPACK routine once for each matrix of the batch.
 */
#ifndef PJRTFS_SRC_LAPACK_INTERNAL_H
#define PJRTFS_SRC_LAPACK_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/ffi.h"

/* The types for which LAPACK has its routines: s, d, c, z. */
enum type { F32, F64, C64, C128, N_TYPES };

enum { MAX_OPERANDS = 4, MAX_RESULTS = 6, MAX_ATTRS = 4 };

/* The pieces of a call's workspace: elements of T, of T's real type, of int32_t, and again of T. */
enum work { WORK, RWORK, IWORK, COPY, LEFT, RIGHT, N_WORK };

/*
 * A Fortran routine: all arguments are pointers; after them comes the length of each argument that
 * is a character, LEN.
 */
typedef void lapack_fn(const void *first, ...);
#define LEN ((size_t)1)

/* An operand or a result. */
struct param {
	const char *name;
	char type; /* T: the target's; R: T's real type; C: T's complex type; I: s32 */
	/*
	 * A letter for each dimension behind the batch's.  The first operand with a letter defines
	 * it; k is the smaller one of m and n, e is n - 1; y and z are call.c's, of results that
	 * nobody reads.
	 */
	const char *dims;
	/* A result begins as a copy of operand FROM - 1, which is often the same memory; 0: as zeros. */
	int from;
};

/* An attribute: one of LETTERS, as uint8_t; without LETTERS a number of DTYPE. */
struct attr {
	const char *name, *letters;
	const char *unsupported; /* letters that LAPACK knows and this library does not */
	enum pjrtfs_ffi_dtype dtype;
};

struct array {
	char *data;   /* of the current matrix */
	int64_t step; /* bytes to the next matrix's */
	int64_t size; /* of all, in bytes */
};

struct call {
	struct pjrtfs_ffi_frame *frame;
	const char *target;
	const struct routine *routine;
	lapack_fn *fn;
	enum type type;
	int64_t batch; /* matrices */
	int64_t batch_rank;
	const int64_t *batch_dims;
	int32_t dim[26]; /* by letter; -1: unknown */
	char letters
		[MAX_ATTRS]; /* of attributes that are letters, by index in the routine */
	int32_t numbers[MAX_ATTRS]; /* of the others */
	unsigned unused;            /* bit I: nobody reads result I; its shape is free */
	struct array in[MAX_OPERANDS], out[MAX_RESULTS];
	int64_t count[N_WORK]; /* elements that LAPACK needs at least */
	int32_t len[N_WORK];   /* elements that there are */
	void *work[N_WORK];
	int32_t info; /* of routines whose info JAX does not ask for */
	char why[512];
};

/* Of the call C, in functions that have one. */
#define DIM(letter) (&c->dim[(letter) - 'a'])
#define IN(i) (c->in[i].data)
#define OUT(i) (c->out[i].data)
#define LETTER(i) (&c->letters[i])

struct routine {
	struct attr attrs[MAX_ATTRS];
	struct param operands[MAX_OPERANDS], results[MAX_RESULTS];
	/* Check what the letters do not say, define other letters; or fill c->why.  NULL: nothing. */
	void (*check)(struct call *c);
	/* Fill c->count.  LAPACK says by itself how much of WORK it wants.  NULL: no workspace. */
	void (*needs)(struct call *c);
	/* Work on the current matrix; or, where c->len[WORK] is -1, have LAPACK say how much WORK it
	 * wants. */
	void (*run)(struct call *c);
};

extern const struct routine routine_potrf, routine_getrf, routine_trsm, routine_geqrf,
	routine_geqp3, routine_orgqr, routine_ormqr, routine_gehrd, routine_sytrd,
	routine_gtsv, routine_gesdd, routine_gesvd, routine_syevd, routine_geev_real,
	routine_geev_complex, routine_gees_real, routine_gees_complex;

static inline bool is_complex(const struct call *c)
{
	return c->type >= C64;
}

/* The bytes of an element of the call's type. */
size_t lapack_size(const struct call *c);

/* The type of elements of DTYPE; F32 if LAPACK has none for it. */
enum type lapack_type(int32_t dtype);

/*
 * Handle a call of TARGET: check it, copy operands, allocate the workspace once, and call
 * ROUTINE for each matrix with FN, LAPACK's routine for TYPE.  NULL, or the error for the plugin.
 */
struct pjrtfs_ffi_error *lapack_call(struct pjrtfs_ffi_frame *frame, const char *target,
				     const struct routine *routine, enum type type,
				     lapack_fn *fn);

/* Handlers that need no LAPACK. */
struct pjrtfs_ffi_error *lapack_tridiagonal(struct pjrtfs_ffi_frame *frame);
struct pjrtfs_ffi_error *lapack_sparse(struct pjrtfs_ffi_frame *frame);

/* Print DTYPE and the RANK numbers of DIMS to TEXT of SIZE bytes: f32[2,3]. */
void lapack_print_shape(char *text, size_t size, int32_t dtype, int64_t rank,
			const int64_t *dims);

/* An error of CODE with c->target before the message. */
struct pjrtfs_ffi_error *__attribute__((__format__(__printf__, 4, 5)))
lapack_fail(struct pjrtfs_ffi_frame *frame, const char *target, enum pjrtfs_ffi_code code,
	    const char *fmt, ...);

#endif
