/* SPDX-License-Identifier: Apache-2.0 */
/* Singular values: the vectors and values give the matrix again. */
#include "lapack_fixture.h"

static const struct shape {
	int m, n;
} shapes[] = { { 4, 4 }, { 7, 3 }, { 3, 7 }, { 1, 1 }, { 9, 1 }, { 1, 5 } };

enum { BATCH = 2 };

/* The K values at S, and what they must be of the matrix A. */
static void take_values(const struct array *s, int k, int b, struct matrix a, double eps,
			number *values)
{
	number trace = 0, squares = 0;

	for (int i = 0; i < k; i++) {
		values[i] = get(s, b * k + i);
		ck_assert(creal(values[i]) >= 0);
		ck_assert(i == 0 || creal(values[i]) <= creal(values[i - 1]));
		squares += values[i] * values[i];
	}
	for (int i = 0; i < a.m * a.n; i++)
		trace += a.v[i] * conj(a.v[i]);
	check_near(squares, trace, 100 * eps);
}

static void check_svd(const struct lapack_type *t, const char *routine,
		      const struct shape *shape, char mode, int aliased)
{
	int m = shape->m, n = shape->n, k = m < n ? m : n;
	int columns = mode == 'S' ? k : m, rows = mode == 'S' ? k : n;
	struct call *c = call_new(t, BATCH, "T%d%d mode=%c > T%d%d R%d T%d%d T%d%d I", m,
				  n, mode, m, n, k, m, columns, rows, n);

	if (aliased)
		alias(c, 1, 0);
	ck_assert_msg(call_lapack(c, t, routine, routine), "%s", the_error.text);
	for (int b = 0; b < BATCH; b++) {
		const struct matrix want = matrix_was(&c->in[0], m, n, b);
		const struct matrix left = matrix_at(&c->out[2], m, columns, b);
		const struct matrix right = matrix_at(&c->out[3], rows, n, b);
		number values[SIDE];

		ck_assert_int_eq((int)get(&c->out[4], b), 0);
		take_values(&c->out[1], k, b, want, t->eps, values);
		if (mode == 'N') {
			for (int i = 0; i < m * columns; i++)
				ck_assert(left.v[i] == 0);
			for (int i = 0; i < rows * n; i++)
				ck_assert(right.v[i] == 0);
			continue;
		}
		check_unitary(left, t->eps);
		check_unitary(flip(right, 1), t->eps);
		check_equal(times(scaled(first_columns(left, k), values),
				  flip(first_columns(flip(right, 1), k), 1)),
			    want, t->eps);
	}
	call_free(c);
}

TEST_EACH(singular_values, types)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
		for (const char *mode = "ASN"; *mode; mode++) {
			check_svd(&types[_i], "gesdd", &shapes[i], *mode, 0);
			check_svd(&types[_i], "gesvd", &shapes[i], *mode, 0);
		}
}

/* A program may alias any result with the operand: it is copied before another is cleared. */
TEST_EACH(singular_values_where_the_matrix_was, types)
{
	check_svd(&types[_i], "gesdd", &shapes[0], 'A', 1);
}

/* LAPACK gives up: nothing of what the memory held before comes out. */
TEST_EACH(singular_values_of_nan, types)
{
	const struct lapack_type *t = &types[_i];
	struct call *c = call_new(t, -1, "T33 mode=A > T33 R3 T33 T33 I");

	put(&c->in[0], 4, NAN);
	ck_assert(call_lapack(c, t, "gesdd", "gesdd"));
	ck_assert_int_ne((int)get(&c->out[4], 0), 0);
	for (int i = 1; i < 4; i++)
		for (int64_t j = 0; j < c->out[i].n; j++) {
			number x = get(&c->out[i], j);

			ck_assert(x == 0 || isnan(creal(x)));
		}
	call_free(c);
}
