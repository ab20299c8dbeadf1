/* SPDX-License-Identifier: Apache-2.0 */
/* Tridiagonal systems that may be singular: LAPACK has no routine for complex ones. */
#include <float.h>
#include <tgmath.h>

#include "internal.h"

/* The unit roundoff and the smallest normal number of the real type R. */
#define EPS ((R)(sizeof(R) == sizeof(float) ? (double)FLT_EPSILON : DBL_EPSILON) / 2)
#define TINY ((R)(sizeof(R) == sizeof(float) ? (double)FLT_MIN : DBL_MIN))

#define T float
#define R float
#define NAME(function) function##_f32
#include "tridiagonal_solve.h"

#define T double
#define R double
#define NAME(function) function##_f64
#include "tridiagonal_solve.h"

#define T float complex
#define R float
#define NAME(function) function##_c64
#include "tridiagonal_solve.h"

#define T double complex
#define R double
#define NAME(function) function##_c128
#include "tridiagonal_solve.h"

static void need_tridiagonal(struct call *c)
{
	c->count[COPY] = 3 * (int64_t)*DIM('n');
}

static void run_tridiagonal(struct call *c)
{
	static void (*const solve[N_TYPES])(int64_t n, int64_t q, const void *dl,
					    const void *d, const void *du, void *b,
					    void *work) = { solve_f32, solve_f64,
							    solve_c64, solve_c128 };

	solve[c->type](*DIM('n'), *DIM('q'), IN(0), IN(1), IN(2), OUT(0), c->work[COPY]);
}

static const struct routine routine_tridiagonal = {
	.operands = { { "dl", 'T', "n" },
		      { "d", 'T', "n" },
		      { "du", 'T', "n" },
		      { "b", 'T', "nq" } },
	.results = { { "x", 'T', "nq", .from = 4 } },
	.needs = need_tridiagonal,
	.run = run_tridiagonal,
};

struct pjrtfs_ffi_error *lapack_tridiagonal(struct pjrtfs_ffi_frame *frame)
{
	const struct pjrtfs_ffi_buffers *in = &frame->operands;
	enum type type = F32;

	/* Another type is refused as not being f32. */
	if (in->n > 0 && in->types[0] == 1)
		type = lapack_type(in->buffers[0]->dtype);
	return lapack_call(frame, "tridiagonal_solve_perturbed_ffi", &routine_tridiagonal,
			   type, NULL);
}
