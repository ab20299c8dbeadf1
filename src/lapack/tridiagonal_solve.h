/* SPDX-License-Identifier: Apache-2.0 */
/* Included by tridiagonal.c once for each type: T, its real type R, and the functions' names. */

/* Eliminate what is below A, also in B; rows are swapped as xLAGTF does.  U and V are above A. */
static void NAME(eliminate)(int64_t n, int64_t q, const T *dl, T *a, T *u, T *v, T *b)
{
	R scale = fabs(a[0]) + fabs(u[0]);

	for (int64_t k = 0; k < n - 1; k++) {
		T below = dl[k + 1], mult;
		R next_scale = fabs(below) + fabs(a[k + 1]) + fabs(u[k + 1]);
		R pivot = a[k] == 0 ? 0 : fabs(a[k]) / scale;

		if (below == 0) {
			scale = next_scale;
		} else if (fabs(below) / next_scale <= pivot) {
			mult = below / a[k];
			a[k + 1] -= mult * u[k];
			for (T *y = b + k; y < b + n * q; y += n)
				y[1] -= mult * y[0];
			scale = next_scale;
		} else {
			T next = a[k + 1];

			mult = a[k] / below;
			a[k] = below;
			a[k + 1] = u[k] - mult * next;
			u[k] = next;
			v[k] = u[k + 1];
			u[k + 1] = -mult * v[k];
			for (T *y = b + k; y < b + n * q; y += n) {
				T upper = y[0];

				y[0] = y[1];
				y[1] = upper - mult * y[0];
			}
		}
	}
}

/* X / A; A grows by TOLERANCE, which is doubled, until the quotient does not overflow. */
static T NAME(divide)(T x, T a, R tolerance)
{
	T more = a == 0 ? tolerance : a / fabs(a) * tolerance;

	while (fabs(a) < 1) {
		bool overflows = fabs(a) < TINY ? a == 0 || fabs(x) * TINY > fabs(a)
						: fabs(x) > fabs(a) / TINY;

		if (!overflows) {
			if (fabs(a) >= TINY)
				break;
			return x / TINY / (a / TINY);
		}
		a += more;
		more *= 2;
	}
	return x / a;
}

/*
 * Solve a tridiagonal system whose matrix may be singular, as LAPACK's xLAGTF and xLAGTS (job -1) do.
 * The first number BELOW the diagonal and the last one ABOVE it are unused.  RHS has Q columns of N
 * numbers and becomes the solution.  WORK has room for 3 N.
 */
static void NAME(solve)(int64_t n, int64_t q, const void *below, const void *diagonal,
			const void *above, void *rhs, void *work)
{
	const T *d = diagonal, *du = above;
	T *a = work, *u = a + n, *v = u + n, *b = rhs;
	R size = 0, tolerance;

	for (int64_t i = 0; i < n; i++) {
		a[i] = d[i];
		u[i] = i + 1 < n ? du[i] : 0;
		v[i] = 0;
	}
	NAME(eliminate)(n, q, below, a, u, v, b);
	for (const T *x = a; x < a + 3 * n; x++)
		if (fabs(*x) > size)
			size = fabs(*x);
	tolerance = size * EPS > 0 ? size * EPS : EPS;
	for (T *y = b; y < b + n * q; y += n) {
		for (int64_t i = n - 1; i >= 0; i--) {
			T x = y[i];

			if (i + 1 < n)
				x -= u[i] * y[i + 1];
			if (i + 2 < n)
				x -= v[i] * y[i + 2];
			y[i] = NAME(divide)(x, a[i], tolerance);
		}
	}
}

#undef T
#undef R
#undef NAME
