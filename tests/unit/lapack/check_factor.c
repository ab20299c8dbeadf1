/* SPDX-License-Identifier: Apache-2.0 */
/* Factorizations: the factors, multiplied, are the matrix again. */
#include "lapack_fixture.h"

/* Rows and columns, and the batch. */
static const struct shape {
	int m, n, batch;
} shapes[] = { { 5, 5, 1 }, { 7, 3, 2 }, { 3, 7, 2 },
	       { 1, 1, 3 }, { 6, 1, 1 }, { 1, 6, 2 } };

/* For each of them and of the types. */
#define TEST_SHAPES(name) TEST_TIMES(name, 4 * (int)ARRAY_SIZE(shapes))

enum { N = 5, BATCH = 3 };

/* Make the random matrices of N rows positive definite. */
static void make_definite(struct array *a)
{
	for (int64_t b = 0; b < a->n / (N * N); b++) {
		const struct matrix g = matrix_at(a, N, N, b);
		const struct matrix p = times(g, flip(g, 1));

		for (int i = 0; i < N * N; i++)
			put(a, b * N * N + i, p.v[i] + (i % (N + 1) == 0));
	}
}

/* Upper and lower triangles, the result in a memory of its own and in the operand's. */
TEST_TIMES(cholesky, 4 * 4)
{
	const struct lapack_type *t = &types[_i / 4];
	int upper = _i & 1, aliased = _i >> 1 & 1;
	struct call *c = call_new(t, BATCH, "T55 uplo=%c > T55 I", upper ? 'U' : 'L');

	make_definite(&c->in[0]);
	put(&c->in[0], at(N, N, 1, 3, 3), -100);
	if (aliased)
		alias(c, 0, 0);
	ck_assert(call_lapack(c, t, "potrf", "potrf"));
	for (int b = 0; b < BATCH; b++) {
		const struct matrix all = matrix_at(&c->out[0], N, N, b);
		const struct matrix f = triangle(all, !upper, 0), g = flip(f, 1);
		const struct matrix want = matrix_was(&c->in[0], N, N, b);

		ck_assert_int_eq((int)get(&c->out[1], b), b == 1 ? 4 : 0);
		if (b != 1)
			check_equal(upper ? times(g, f) : times(f, g), want, t->eps);
		/* The other triangle is as it was. */
		ck_assert(all.v[upper ? 1 : N] == want.v[upper ? 1 : N]);
	}
	call_free(c);
}

/* The upper triangle of matrix B of A, with the diagonal. */
static struct matrix upper(const struct array *a, int m, int n, int64_t b)
{
	const struct matrix all = matrix_at(a, m, n, b);
	struct matrix r = { .m = m < n ? m : n, .n = n };

	for (int i = 0; i < r.m; i++)
		for (int j = i; j < n; j++)
			r.v[j * r.m + i] = all.v[j * m + i];
	return r;
}

TEST_SHAPES(lu_factors)
{
	const struct lapack_type *t = &types[_i % 4];
	const struct shape *s = &shapes[_i / 4];
	int m = s->m, n = s->n, k = m < n ? m : n;
	struct call *c = call_new(t, s->batch, "T1%d%d > T1%d%d I1%d I1", m, n, m, n, k);

	ck_assert(call_lapack(c, t, "getrf", "getrf"));
	for (int b = 0; b < s->batch; b++) {
		const struct matrix all = matrix_at(&c->out[0], m, n, b);
		const struct matrix l = triangle(first_columns(all, k), 1, 1);
		struct matrix want = matrix_was(&c->in[0], m, n, b);

		ck_assert_int_eq((int)get(&c->out[2], b), 0);
		for (int i = 0; i < k; i++) {
			int p = (int)get(&c->out[1], b * k + i) - 1;

			ck_assert(p >= i && p < m);
			for (int j = 0; j < n; j++) {
				number x = want.v[j * m + i];

				want.v[j * m + i] = want.v[j * m + p];
				want.v[j * m + p] = x;
			}
		}
		check_equal(times(l, upper(&c->out[0], m, n, b)), want, t->eps);
	}
	call_free(c);
}

TEST_EACH(lu_of_a_singular_matrix_says_where, types)
{
	const struct lapack_type *t = &types[_i];
	struct call *c = call_new(t, -1, "T33 > T33 I3 I");

	for (int i = 0; i < 9; i++)
		put(&c->in[0], i, i == 0 || i == 4 ? 1 : 0);
	ck_assert(call_lapack(c, t, "getrf", "getrf"));
	ck_assert_int_eq((int)get(&c->out[2], 0), 3);
	call_free(c);
}

/* The orthogonal factor, M x COLUMNS, from the reflectors in QR's first columns and TAU. */
static struct matrix make_q(const struct lapack_type *t, const struct array *qr,
			    const struct array *tau, int m, int columns, int k, int64_t b)
{
	struct call *c = call_new(t, -1, "T%d%d T%d > T%d%d", m, columns, k, m, columns);
	struct matrix r;

	for (int i = 0; i < m * columns; i++)
		put(&c->in[0], i,
		    i < m * k ? get(qr, b * (qr->n / (tau->n / k)) + i) : 0);
	for (int i = 0; i < k; i++)
		put(&c->in[1], i, get(tau, b * k + i));
	ck_assert(call_lapack(c, t, "orgqr", "ungqr"));
	r = matrix_at(&c->out[0], m, columns, 0);
	call_free(c);
	check_unitary(r, t->eps);
	return r;
}

TEST_SHAPES(qr_factors)
{
	const struct lapack_type *t = &types[_i % 4];
	const struct shape *s = &shapes[_i / 4];
	int m = s->m, n = s->n, k = m < n ? m : n;
	struct call *c = call_new(t, s->batch, "T%d%d > T%d%d T%d", m, n, m, n, k);
	const struct array *out = &c->out[0], *tau = &c->out[1];

	ck_assert(call_lapack(c, t, "geqrf", "geqrf"));
	for (int b = 0; b < s->batch; b++) {
		const struct matrix q = make_q(t, out, tau, m, k, k, b);

		check_equal(times(q, upper(out, m, n, b)), matrix_was(&c->in[0], m, n, b),
			    t->eps);
		if (m > n) /* as many columns as rows, from fewer reflectors */
			make_q(t, out, tau, m, m, k, b);
	}
	call_free(c);
}

/* Q without reflectors is the identity. */
TEST_EACH(q_of_nothing, types)
{
	const struct lapack_type *t = &types[_i];
	struct call *c = call_new(t, -1, "T43 T0 > T43");

	ck_assert(call_lapack(c, t, "orgqr", "ungqr"));
	for (int i = 0; i < 12; i++)
		check_near(get(&c->out[0], i), i % 5 == 0, 0);
	call_free(c);
}

TEST_SHAPES(qr_with_pivots)
{
	const struct lapack_type *t = &types[_i % 4];
	const struct shape *s = &shapes[_i / 4];
	int m = s->m, n = s->n, k = m < n ? m : n;
	struct call *c =
		call_new(t, s->batch, "T%d%d I%d > T%d%d I%d T%d", m, n, n, m, n, n, k);
	const struct array *out = &c->out[0], *jpvt = &c->out[1];

	/* The last column comes first. */
	for (int i = 0; i < s->batch * n; i++)
		put(&c->in[1], i, i % n == n - 1);
	ck_assert(call_lapack(c, t, "geqp3", "geqp3"));
	for (int b = 0; b < s->batch; b++) {
		const struct matrix q = make_q(t, out, &c->out[2], m, k, k, b);
		const struct matrix all = matrix_was(&c->in[0], m, n, b);
		struct matrix want = { .m = m, .n = n };

		ck_assert_int_eq((int)get(jpvt, b * n), n);
		for (int j = 0; j < n; j++)
			memcpy(want.v + j * m,
			       all.v + ((int)get(jpvt, b * n + j) - 1) * m,
			       (size_t)m * sizeof(number));
		check_equal(times(q, upper(out, m, n, b)), want, t->eps);
	}
	call_free(c);
}

/* Q times a matrix, by each side, is what the explicit Q gives. */
TEST_TIMES(products_with_q, 4 * 4)
{
	const struct lapack_type *t = &types[_i / 4];
	const int m = 5, k = 3, left = _i & 1, transpose = _i >> 1 & 1;
	int rows = left ? m : 4, columns = left ? 4 : m;
	struct call *f = call_new(t, -1, "T53 > T53 T3");
	struct call *c = call_new(t, -1, "T53 T3 T%d%d left?%d transpose?%d > T%d%d",
				  rows, columns, left, transpose, rows, columns);
	struct matrix q, want;

	ck_assert(call_lapack(f, t, "geqrf", "geqrf"));
	for (int i = 0; i < 2; i++)
		memcpy(c->in[i].buffer.data, f->out[i].buffer.data, f->out[i].bytes);
	ck_assert(call_lapack(c, t, "ormqr", "unmqr"));
	q = make_q(t, &f->out[0], &f->out[1], m, m, k, 0);
	if (transpose)
		q = flip(q, 1);
	want = matrix_was(&c->in[2], rows, columns, 0);
	check_equal(matrix_at(&c->out[0], rows, columns, 0),
		    left ? times(q, want) : times(want, q), t->eps);
	call_free(f);
	call_free(c);
}
