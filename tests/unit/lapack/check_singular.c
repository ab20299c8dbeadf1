/* SPDX-License-Identifier: Apache-2.0 */
/* Singular values: the vectors and values give the matrix again. */
#include "lapack_fixture.h"

static const struct shape {
	int m, n;
} shapes[] = { { 4, 4 }, { 7, 3 }, { 3, 7 }, { 1, 1 }, { 12, 1 }, { 1, 5 } };

enum { BATCH = 2 };

static void check_svd(const struct lapack_type *t, const char *routine,
		      const struct shape *shape, char mode)
{
	int m = shape->m, n = shape->n, k = m < n ? m : n;
	int columns = mode == 'S' ? k : m, rows = mode == 'S' ? k : n;
	struct call *c = call_new();
	struct array *a = operand(c, t->dtype, 3, BATCH, m, n), *s, *u, *vt, *info;

	result(c, t->dtype, 3, BATCH, m, n);
	s = result(c, t->real_dtype, 2, BATCH, k);
	u = result(c, t->dtype, 3, BATCH, m, columns);
	vt = result(c, t->dtype, 3, BATCH, rows, n);
	info = result(c, PJRTFS_FFI_S32, 1, BATCH);
	put_random(a);
	letter(c, "mode", mode);
	ck_assert_msg(call_lapack(c, t, routine, routine), "%s", the_error.text);
	for (int b = 0; b < BATCH; b++) {
		const struct matrix want = matrix_was(a, m, n, b);
		const struct matrix left = matrix_at(u, m, columns, b);
		const struct matrix right = matrix_at(vt, rows, n, b);
		number values[SIDE], trace = 0, squares = 0;

		ck_assert_int_eq((int)get(info, b), 0);
		for (int i = 0; i < k; i++) {
			values[i] = get(s, b * k + i);
			ck_assert(creal(values[i]) >= 0);
			ck_assert(i == 0 || creal(values[i]) <= creal(values[i - 1]));
			squares += values[i] * values[i];
		}
		for (int i = 0; i < m * n; i++)
			trace += want.v[i] * conj(want.v[i]);
		check_near(squares, trace, 100 * t->eps);
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
			check_svd(&types[_i], "gesdd", &shapes[i], *mode);
			check_svd(&types[_i], "gesvd", &shapes[i], *mode);
		}
}

/* LAPACK gives up: nothing of what the memory held before comes out. */
TEST_EACH(singular_values_of_nan, types)
{
	const struct lapack_type *t = &types[_i];
	struct call *c = call_new();
	struct array *a = operand(c, t->dtype, 2, 3, 3), *info;

	result(c, t->dtype, 2, 3, 3);
	result(c, t->real_dtype, 1, 3);
	result(c, t->dtype, 2, 3, 3);
	result(c, t->dtype, 2, 3, 3);
	info = result(c, PJRTFS_FFI_S32, 0);
	put_random(a);
	put(a, 4, NAN);
	letter(c, "mode", 'A');
	ck_assert(call_lapack(c, t, "gesdd", "gesdd"));
	ck_assert_int_ne((int)get(info, 0), 0);
	for (int i = 1; i < 4; i++)
		for (int64_t j = 0; j < c->out[i].n; j++) {
			number x = get(&c->out[i], j);

			ck_assert(x == 0 || isnan(creal(x)));
		}
	call_free(c);
}
