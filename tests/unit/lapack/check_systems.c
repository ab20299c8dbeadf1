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
	struct call *c =
		call_new(t, BATCH, "T55 T%d%d diag=%c side=%c trans_x=%c uplo=%c > T%d%d",
			 m, n, unit ? 'U' : 'N', left ? 'L' : 'R', "NTC"[trans],
			 lower ? 'L' : 'U', m, n);

	for (int i = 0; i < BATCH * M; i++)
		put(&c->in[0], at(M, M, i / M, i % M, i % M), 3);
	ck_assert(call_lapack(c, t, "trsm", "trsm"));
	for (int i = 0; i < BATCH; i++) {
		const struct matrix all = matrix_was(&c->in[0], M, M, i);
		const struct matrix solution = matrix_at(&c->out[0], m, n, i);
		struct matrix f = triangle(all, lower, unit);

		if (trans)
			f = flip(f, trans == 2);
		check_equal(left ? times(f, solution) : times(solution, f),
			    matrix_was(&c->in[1], m, n, i), t->eps * 10);
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

/* A call for N equations with RESULTS. */
static struct call *tridiagonal_call(const struct lapack_type *t, int n,
				     const char *results)
{
	struct call *c = call_new(t, BATCH, "T%d T%d T%d T%d3 > %s", n, n, n, n, results);

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
	char results[32];
	struct call *c;

	snprintf(results, sizeof(results), "T%d T%d T%d T%d3 I", n, n, n, n);
	c = tridiagonal_call(t, n, results);
	/* The second one is singular. */
	for (int i = 0; i < n; i++)
		put(&c->in[1], n + i, 0);
	if (n > 1)
		put(&c->in[2], n, 0);
	ck_assert(call_lapack(c, t, "gtsv", "gtsv"));
	ck_assert_int_eq((int)get(&c->out[4], 0), 0);
	ck_assert_int_ne((int)get(&c->out[4], 1), 0);
	check_solution(c, t, &c->out[3], n, 0);
	call_free(c);
}

TEST_TIMES(perturbed_tridiagonal_systems, 16)
{
	const struct lapack_type *t = &types[_i / 4];
	int n = orders[_i % 4];
	char results[8];
	struct call *c;

	snprintf(results, sizeof(results), "T%d3", n);
	c = tridiagonal_call(t, n, results);
	ck_assert(call_target(c, "tridiagonal_solve_perturbed_ffi"));
	for (int b = 0; b < BATCH; b++)
		check_solution(c, t, &c->out[0], n, b);
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
	struct call *c = call_new(t, -1, "T6 T6 T6 T61 > T61");
	struct array *x = &c->out[0];

	for (int j = 0; j < n; j++) {
		put(&c->in[0], j, -1);
		put(&c->in[1], j, j % (n - 1) ? 2 : 1);
		put(&c->in[2], j, -1);
		put(&c->in[3], j, j);
	}
	ck_assert(call_target(c, "tridiagonal_solve_perturbed_ffi"));
	ck_assert(cabs(get(x, 0)) > 1 / t->eps);
	for (int j = 0; j < n; j++)
		check_near(get(x, j) / get(x, 0), 1, 100 * t->eps);
	call_free(c);

	/* Nothing but zeros: LAPACK's smallest pivot. */
	c = call_new(t, -1, "T1 T1 T1 T11 > T11");
	for (int i = 0; i < 4; i++)
		put(&c->in[i], 0, i == 3);
	ck_assert(call_target(c, "tridiagonal_solve_perturbed_ffi"));
	x = &c->out[0];
	ck_assert(isfinite(creal(get(x, 0))) && cabs(get(x, 0)) > 1 / t->eps);
	call_free(c);
}

static const double extremes[] = { NAN, INFINITY, 1e-45, 5e-324, 1e38, 1e308, 0 };

/* Systems without a solution end, too. */
TEST_TIMES(perturbed_systems_of_extreme_numbers_end, 7 * 7)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct call *c = call_new(&types[i], -1, "T2 T2 T2 T21 > T21");

		for (int k = 0; k < 4; k++) {
			put(&c->in[k], k == 3, extremes[_i / 7]);
			put(&c->in[k], k != 3, extremes[_i % 7]);
		}
		ck_assert(call_target(c, "tridiagonal_solve_perturbed_ffi"));
		call_free(c);
	}
}

/* The type of values, as R or C of one of the types, that of indices, the columns of the operand. */
static const struct sparse_case {
	char value, index;
	int type;
	const char *q; /* "": it is a vector */
} sparse_cases[] = {
	{ 'I', 'I', 0, "" }, { 'L', 'L', 0, "2" }, { 'R', 'I', 0, "2" },
	{ 'R', 'L', 1, "" }, { 'C', 'L', 0, "3" }, { 'C', 'I', 1, "1" },
	{ 'C', 'L', 1, "" },
};

/*
 * 3 x 4: row 0 has 2 in column 1 and 3 in column 3, row 1 nothing, row 2 4 in column 0; and a
 * value behind the last row.
 */
static const int sparse_rows[] = { 0, 2, 2, 3 }, sparse_columns[] = { 1, 3, 0, 99 };

static struct call *sparse_call(const struct sparse_case *s)
{
	struct call *c =
		call_new(&types[s->type], -1, "%c4 %c4 %c4 %c4%s > %c3%s", s->value,
			 s->index, s->index, s->value, s->q, s->value, s->q);

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
	int q = *s->q ? *s->q - '0' : 1;

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
		check_refusal(call_target(c, "cpu_csr_sparse_dense_ffi"),
			      PJRTFS_FFI_INVALID_ARGUMENT, b->text);
		call_free(c);
	}
}
