/* SPDX-License-Identifier: Apache-2.0 */
/* Systems of equations, triangular and tridiagonal, and products with sparse matrices. */
#include "lapack_fixture.h"

enum { M = 5, Q = 3, BATCH = 2 };

/* All modes: 2 diagonals x 2 sides x 3 transpositions x 2 triangles. */
TEST_TIMES(triangular, 24 * 4)
{
	const struct lapack_type *t = &types[_i / 24];
	int unit = _i & 1, left = _i >> 1 & 1, lower = _i >> 2 & 1, trans = _i % 24 / 8;
	int m = left ? M : Q, n = left ? Q : M;
	struct call *c = call_new();
	struct array *a = operand(c, t->dtype, 3, BATCH, M, M);
	struct array *b = operand(c, t->dtype, 3, BATCH, m, n);
	struct array *x = result(c, t->dtype, 3, BATCH, m, n);

	put_random(a);
	put_random(b);
	for (int i = 0; i < BATCH * M; i++)
		put(a, at(M, M, i / M, i % M, i % M), 3);
	letter(c, "diag", unit ? 'U' : 'N');
	letter(c, "side", left ? 'L' : 'R');
	letter(c, "trans_x", "NTC"[trans]);
	letter(c, "uplo", lower ? 'L' : 'U');
	ck_assert(call_lapack(c, t, "trsm", "trsm"));
	for (int i = 0; i < BATCH; i++) {
		const struct matrix all = matrix_was(a, M, M, i);
		const struct matrix solution = matrix_at(x, m, n, i);
		struct matrix f = triangle(all, lower, unit);

		if (trans)
			f = flip(f, trans == 2);
		check_equal(left ? times(f, solution) : times(solution, f),
			    matrix_was(b, m, n, i), t->eps * 10);
	}
	call_free(c);
}

/* The tridiagonal matrix of the three operands, batch member B. */
static struct matrix tridiagonal(const struct call *c, int n, int b)
{
	struct matrix r = { .m = n, .n = n };

	for (int i = 0; i < n; i++) {
		r.v[i * n + i] = was(&c->in[1], b * n + i);
		if (i > 0)
			r.v[(i - 1) * n + i] = was(&c->in[0], b * n + i);
		if (i + 1 < n)
			r.v[(i + 1) * n + i] = was(&c->in[2], b * n + i);
	}
	return r;
}

static void check_solution(const struct call *c, const struct lapack_type *t,
			   const struct array *x, int n, int b)
{
	check_equal(times(tridiagonal(c, n, b), matrix_at(x, n, Q, b)),
		    matrix_was(&c->in[3], n, Q, b), t->eps * 100);
}

static struct call *tridiagonal_call(const struct lapack_type *t, int n)
{
	struct call *c = call_new();

	for (int i = 0; i < 3; i++)
		put_random(operand(c, t->dtype, 2, BATCH, n));
	put_random(operand(c, t->dtype, 3, BATCH, n, Q));
	/* Nobody reads the two ends. */
	for (int b = 0; b < BATCH; b++) {
		put(&c->in[0], b * n, NAN);
		put(&c->in[2], b * n + n - 1, NAN);
	}
	return c;
}

static const int orders[] = { 1, 2, 3, 9 };

TEST_TIMES(tridiagonal_systems, 16)
{
	const struct lapack_type *t = &types[_i / 4];
	int n = orders[_i % 4];
	struct call *c = tridiagonal_call(t, n);
	struct array *x, *info;

	for (int i = 0; i < 3; i++)
		result(c, t->dtype, 2, BATCH, n);
	x = result(c, t->dtype, 3, BATCH, n, Q);
	info = result(c, PJRTFS_FFI_S32, 1, BATCH);
	/* The second one is singular. */
	for (int i = 0; i < n; i++)
		put(&c->in[1], n + i, 0);
	if (n > 1)
		put(&c->in[2], n, 0);
	ck_assert(call_lapack(c, t, "gtsv", "gtsv"));
	ck_assert_int_eq((int)get(info, 0), 0);
	ck_assert_int_ne((int)get(info, 1), 0);
	check_solution(c, t, x, n, 0);
	call_free(c);
}

TEST_TIMES(perturbed_tridiagonal_systems, 16)
{
	const struct lapack_type *t = &types[_i / 4];
	int n = orders[_i % 4];
	struct call *c = tridiagonal_call(t, n);
	struct array *x = result(c, t->dtype, 3, BATCH, n, Q);

	ck_assert(call_target(c, "tridiagonal_solve_perturbed_ffi"));
	for (int b = 0; b < BATCH; b++)
		check_solution(c, t, x, n, b);
	call_free(c);
}

/*
 * The matrix of the second difference with free ends has the constants as null space: the
 * solution is finite, and almost constant as it is huge.
 */
TEST_EACH(singular_tridiagonal_systems, types)
{
	const struct lapack_type *t = &types[_i];
	const int n = 6;
	struct call *c = call_new();
	struct array *x;

	for (int i = 0; i < 3; i++) {
		operand(c, t->dtype, 1, n);
		for (int j = 0; j < n; j++)
			put(&c->in[i], j, i != 1 ? -1 : j % (n - 1) ? 2 : 1);
	}
	operand(c, t->dtype, 2, n, 1);
	for (int j = 0; j < n; j++)
		put(&c->in[3], j, j);
	x = result(c, t->dtype, 2, n, 1);
	ck_assert(call_target(c, "tridiagonal_solve_perturbed_ffi"));
	ck_assert(cabs(get(x, 0)) > 1 / t->eps);
	for (int j = 0; j < n; j++)
		check_near(get(x, j) / get(x, 0), 1, 100 * t->eps);
	call_free(c);

	/* Nothing but zeros: LAPACK's smallest pivot. */
	c = call_new();
	for (int i = 0; i < 3; i++) {
		operand(c, t->dtype, 1, 1);
		put(&c->in[i], 0, 0);
	}
	put(operand(c, t->dtype, 2, 1, 1), 0, 1);
	x = result(c, t->dtype, 2, 1, 1);
	ck_assert(call_target(c, "tridiagonal_solve_perturbed_ffi"));
	ck_assert(isfinite(creal(get(x, 0))) && cabs(get(x, 0)) > 1 / t->eps);
	call_free(c);
}

/* Systems without a solution end, too. */
TEST_EACH(perturbed_systems_of_extreme_numbers_end, types)
{
	static const double extremes[] = { NAN, INFINITY, 1e-45, 5e-324, 1e38, 1e308, 0 };
	const struct lapack_type *t = &types[_i];

	for (size_t i = 0; i < ARRAY_SIZE(extremes); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(extremes); j++) {
			struct call *c = call_new();

			for (int k = 0; k < 3; k++) {
				operand(c, t->dtype, 1, 2);
				put(&c->in[k], 0, extremes[i]);
				put(&c->in[k], 1, extremes[j]);
			}
			operand(c, t->dtype, 2, 2, 1);
			put(&c->in[3], 0, extremes[j]);
			put(&c->in[3], 1, extremes[i]);
			result(c, t->dtype, 2, 2, 1);
			ck_assert(call_target(c, "tridiagonal_solve_perturbed_ffi"));
			call_free(c);
		}
	}
}

static const struct sparse_case {
	int32_t value, index;
	int q; /* 0: a vector */
} sparse_cases[] = {
	{ PJRTFS_FFI_S32, PJRTFS_FFI_S32, 0 },  { PJRTFS_FFI_S64, PJRTFS_FFI_S64, 2 },
	{ PJRTFS_FFI_F32, PJRTFS_FFI_S32, 2 },  { PJRTFS_FFI_F64, PJRTFS_FFI_S64, 0 },
	{ PJRTFS_FFI_C64, PJRTFS_FFI_S64, 3 },  { PJRTFS_FFI_C128, PJRTFS_FFI_S32, 1 },
	{ PJRTFS_FFI_C128, PJRTFS_FFI_S64, 0 },
};

/*
 * 3 x 4: row 0 has 2 in column 1 and 3 in column 3, row 1 nothing, row 2 4 in column 0; and a
 * value behind the last row.
 */
static const int sparse_rows[] = { 0, 2, 2, 3 }, sparse_columns[] = { 1, 3, 0, 99 };

static struct call *sparse_call(const struct sparse_case *s)
{
	struct call *c = call_new();
	int rank = s->q ? 2 : 1;

	operand(c, s->value, 1, 4);
	operand(c, s->index, 1, 4);
	operand(c, s->index, 1, 4);
	operand(c, s->value, rank, 4, s->q);
	result(c, s->value, rank, 3, s->q);
	for (int i = 0; i < 4; i++) {
		put(&c->in[0], i, 2 + i);
		put(&c->in[1], i, sparse_rows[i]);
		put(&c->in[2], i, sparse_columns[i]);
	}
	for (int i = 0; i < c->in[3].n; i++)
		put(&c->in[3], i, CMPLX(i + 1, i));
	return c;
}

TEST_EACH(sparse_products, sparse_cases)
{
	const struct sparse_case *s = &sparse_cases[_i];
	struct call *c = sparse_call(s);
	int q = s->q ? s->q : 1;

	ck_assert_msg(call_target(c, "cpu_csr_sparse_dense_ffi"), "%s", the_error.text);
	for (int j = 0; j < q; j++) {
		const struct array *x = &c->in[3], *y = &c->out[0];

		check_near(get(y, j), 2 * get(x, q + j) + 3 * get(x, 3 * q + j), 0);
		check_near(get(y, q + j), 0, 0);
		check_near(get(y, 2 * q + j), 4 * get(x, j), 0);
	}
	call_free(c);
}

static const struct bad_index {
	int operand, at, value;
	const char *text;
} bad_indices[] = {
	{ 1, 0, -1, "row 0 begins at value -1" },
	{ 1, 1, 5, "row 0 has the values from 0 to 5 of 4" },
	{ 1, 2, 1, "row 1 has the values from 2 to 1 of 4" },
	{ 2, 2, 4, "value 2 is in column 4 of 4" },
	{ 2, 0, -1, "value 0 is in column -1 of 4" },
};

TEST_EACH(sparse_indices_are_checked, bad_indices)
{
	const struct bad_index *b = &bad_indices[_i];

	for (size_t i = 0; i < ARRAY_SIZE(sparse_cases); i++) {
		struct call *c = sparse_call(&sparse_cases[i]);

		put(&c->in[b->operand], b->at, b->value);
		ck_assert(!call_target(c, "cpu_csr_sparse_dense_ffi"));
		ck_assert_int_eq(the_error.code, PJRTFS_FFI_INVALID_ARGUMENT);
		ck_assert_ptr_nonnull(strstr(the_error.text, b->text));
		call_free(c);
	}
}
