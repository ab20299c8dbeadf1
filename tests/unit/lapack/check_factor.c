/* SPDX-License-Identifier: Apache-2.0 */
/* Factorizations: the factors, multiplied, are the matrix again. */
#include "lapack_fixture.h"

/* Rows and columns, and the batch. */
static const struct shape {
	int m, n, batch;
} shapes[] = { { 5, 5, 1 }, { 7, 3, 2 }, { 3, 7, 2 },
	       { 1, 1, 3 }, { 6, 1, 1 }, { 1, 6, 2 } };

enum { N = 5, BATCH = 3 };

/* Positive definite matrices of N rows. */
static void put_definite(struct array *a)
{
	put_random(a);
	for (int64_t b = 0; b < a->n / (N * N); b++) {
		const struct matrix g = matrix_at(a, N, N, b);
		const struct matrix p = times(g, flip(g, 1));

		for (int i = 0; i < N * N; i++)
			put(a, b * N * N + i, p.v[i] + (i % (N + 1) == 0));
	}
}

TEST_EACH(cholesky, types)
{
	const struct lapack_type *t = &types[_i];

	for (int upper = 0; upper < 2; upper++) {
		for (int aliased = 0; aliased < 2; aliased++) {
			struct call *c = call_new();
			struct array *a = operand(c, t->dtype, 3, BATCH, N, N);
			struct array *l = result(c, t->dtype, 3, BATCH, N, N);
			struct array *info = result(c, PJRTFS_FFI_S32, 1, BATCH);

			letter(c, "uplo", upper ? 'U' : 'L');
			put_definite(a);
			put(a, at(N, N, 1, 3, 3), -100);
			if (aliased)
				alias(c, 0, 0);
			ck_assert(call_lapack(c, t, "potrf", "potrf"));
			for (int b = 0; b < BATCH; b++) {
				const struct matrix all = matrix_at(l, N, N, b);
				const struct matrix f = triangle(all, !upper, 0);
				const struct matrix g = flip(f, 1);
				const struct matrix want = matrix_was(a, N, N, b);

				ck_assert_int_eq((int)get(info, b), b == 1 ? 4 : 0);
				if (b != 1)
					check_equal(upper ? times(g, f) : times(f, g),
						    want, t->eps);
				/* The other triangle is as it was. */
				ck_assert(all.v[upper ? 1 : N] == want.v[upper ? 1 : N]);
			}
			call_free(c);
		}
	}
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

TEST_EACH(lu_factors, types)
{
	const struct lapack_type *t = &types[_i];

	for (size_t s = 0; s < ARRAY_SIZE(shapes); s++) {
		int m = shapes[s].m, n = shapes[s].n, k = m < n ? m : n;
		int batch = shapes[s].batch;
		struct call *c = call_new();
		struct array *a = operand(c, t->dtype, 4, batch, 1, m, n);
		struct array *lu = result(c, t->dtype, 4, batch, 1, m, n);
		struct array *ipiv = result(c, PJRTFS_FFI_S32, 3, batch, 1, k);
		struct array *info = result(c, PJRTFS_FFI_S32, 2, batch, 1);

		put_random(a);
		ck_assert(call_lapack(c, t, "getrf", "getrf"));
		for (int b = 0; b < batch; b++) {
			const struct matrix all = matrix_at(lu, m, n, b);
			const struct matrix l = triangle(first_columns(all, k), 1, 1);
			struct matrix want = matrix_was(a, m, n, b);

			ck_assert_int_eq((int)get(info, b), 0);
			for (int i = 0; i < k; i++) {
				int p = (int)get(ipiv, b * k + i) - 1;

				ck_assert(p >= i && p < m);
				for (int j = 0; j < n; j++) {
					number x = want.v[j * m + i];

					want.v[j * m + i] = want.v[j * m + p];
					want.v[j * m + p] = x;
				}
			}
			check_equal(times(l, upper(lu, m, n, b)), want, t->eps);
		}
		call_free(c);
	}
}

TEST_EACH(lu_of_a_singular_matrix_says_where, types)
{
	const struct lapack_type *t = &types[_i];
	struct call *c = call_new();
	struct array *a = operand(c, t->dtype, 2, 3, 3), *info;

	result(c, t->dtype, 2, 3, 3);
	result(c, PJRTFS_FFI_S32, 1, 3);
	info = result(c, PJRTFS_FFI_S32, 0);
	for (int i = 0; i < 9; i++)
		put(a, i, i == 0 || i == 4 ? 1 : 0);
	ck_assert(call_lapack(c, t, "getrf", "getrf"));
	ck_assert_int_eq((int)get(info, 0), 3);
	call_free(c);
}

/* The orthogonal factor, M x COLUMNS, from the reflectors in QR's first columns and TAU. */
static struct matrix make_q(const struct lapack_type *t, const struct array *qr,
			    const struct array *tau, int m, int columns, int k, int64_t b)
{
	struct call *c = call_new();
	struct array *a = operand(c, t->dtype, 2, m, columns);
	struct array *taus = operand(c, t->dtype, 1, k);
	struct array *q = result(c, t->dtype, 2, m, columns);
	struct matrix r;

	for (int i = 0; i < m * columns; i++)
		put(a, i, i < m * k ? get(qr, b * (qr->n / (tau->n / k)) + i) : 0);
	for (int i = 0; i < k; i++)
		put(taus, i, get(tau, b * k + i));
	ck_assert(call_lapack(c, t, "orgqr", "ungqr"));
	r = matrix_at(q, m, columns, 0);
	call_free(c);
	check_unitary(r, t->eps);
	return r;
}

TEST_EACH(qr_factors, types)
{
	const struct lapack_type *t = &types[_i];

	for (size_t s = 0; s < ARRAY_SIZE(shapes); s++) {
		int m = shapes[s].m, n = shapes[s].n, k = m < n ? m : n;
		int batch = shapes[s].batch;
		struct call *c = call_new();
		struct array *a = operand(c, t->dtype, 3, batch, m, n);
		struct array *out = result(c, t->dtype, 3, batch, m, n);
		struct array *tau = result(c, t->dtype, 2, batch, k);

		put_random(a);
		ck_assert(call_lapack(c, t, "geqrf", "geqrf"));
		for (int b = 0; b < batch; b++) {
			const struct matrix q = make_q(t, out, tau, m, k, k, b);

			check_equal(times(q, upper(out, m, n, b)), matrix_was(a, m, n, b),
				    t->eps);
			if (m > n) /* as many columns as rows, from fewer reflectors */
				make_q(t, out, tau, m, m, k, b);
		}
		call_free(c);
	}
}

/* Q without reflectors is the identity. */
TEST_EACH(q_of_nothing, types)
{
	const struct lapack_type *t = &types[_i];
	struct call *c = call_new();
	struct array *a = operand(c, t->dtype, 2, 4, 3), *q;

	operand(c, t->dtype, 1, 0);
	q = result(c, t->dtype, 2, 4, 3);
	put_random(a);
	ck_assert(call_lapack(c, t, "orgqr", "ungqr"));
	for (int i = 0; i < 12; i++)
		check_near(get(q, i), i % 5 == 0, 0);
	call_free(c);
}

TEST_EACH(qr_with_pivots, types)
{
	const struct lapack_type *t = &types[_i];

	for (size_t s = 0; s < ARRAY_SIZE(shapes); s++) {
		int m = shapes[s].m, n = shapes[s].n, k = m < n ? m : n;
		int batch = shapes[s].batch;
		struct call *c = call_new();
		struct array *a = operand(c, t->dtype, 3, batch, m, n);
		struct array *first = operand(c, PJRTFS_FFI_S32, 2, batch, n);
		struct array *out = result(c, t->dtype, 3, batch, m, n);
		struct array *jpvt = result(c, PJRTFS_FFI_S32, 2, batch, n);
		struct array *tau = result(c, t->dtype, 2, batch, k);

		put_random(a);
		/* The last column comes first. */
		for (int i = 0; i < batch * n; i++)
			put(first, i, i % n == n - 1);
		ck_assert(call_lapack(c, t, "geqp3", "geqp3"));
		for (int b = 0; b < batch; b++) {
			const struct matrix q = make_q(t, out, tau, m, k, k, b);
			const struct matrix all = matrix_was(a, m, n, b);
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
}

/* Q times a matrix, by each side, is what the explicit Q gives. */
TEST_EACH(products_with_q, types)
{
	const struct lapack_type *t = &types[_i];
	const int m = 5, k = 3, other = 4;

	for (int i = 0; i < 4; i++) {
		int left = i & 1, transpose = i >> 1;
		int rows = left ? m : other, columns = left ? other : m;
		struct call *f = call_new(), *c = call_new();
		struct array *a = operand(f, t->dtype, 2, m, k);
		struct array *qr = result(f, t->dtype, 2, m, k);
		struct array *tau = result(f, t->dtype, 1, k);
		struct array *reflectors = operand(c, t->dtype, 2, m, k);
		struct array *taus = operand(c, t->dtype, 1, k);
		struct array *x = operand(c, t->dtype, 2, rows, columns);
		struct array *y = result(c, t->dtype, 2, rows, columns);
		struct matrix q, want;

		put_random(a);
		put_random(x);
		ck_assert(call_lapack(f, t, "geqrf", "geqrf"));
		memcpy(reflectors->buffer.data, qr->buffer.data, qr->bytes);
		memcpy(taus->buffer.data, tau->buffer.data, tau->bytes);
		attribute(c, "left", PJRTFS_FFI_PRED, left);
		attribute(c, "transpose", PJRTFS_FFI_PRED, transpose);
		ck_assert(call_lapack(c, t, "ormqr", "unmqr"));
		q = make_q(t, qr, tau, m, m, k, 0);
		if (transpose)
			q = flip(q, 1);
		want = matrix_was(x, rows, columns, 0);
		check_equal(matrix_at(y, rows, columns, 0),
			    left ? times(q, want) : times(want, q), t->eps);
		call_free(f);
		call_free(c);
	}
}
