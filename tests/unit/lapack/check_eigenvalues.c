/* SPDX-License-Identifier: Apache-2.0 */
/* Eigenvalues and similar matrices: the vectors and values give the matrix again. */
#include "lapack_fixture.h"

enum { N = 5, BATCH = 2 };

/* Make the matrices of A, of N rows, Hermitian. */
static void make_hermitian(struct array *a)
{
	for (int64_t b = 0; b < a->n / (N * N); b++)
		for (int i = 0; i < N; i++)
			for (int j = 0; j <= i; j++) {
				number x = get(a, at(N, N, b, i, j));

				put(a, at(N, N, b, i, j), i == j ? creal(x) : x);
				put(a, at(N, N, b, j, i), i == j ? creal(x) : conj(x));
			}
}

/* The sum of the VALUES is the trace of A. */
static void check_trace(const number *values, struct matrix a, double eps)
{
	number sum = 0;

	for (int j = 0; j < N; j++)
		sum += values[j] - a.v[j * (N + 1)];
	check_near(sum, 0, 100 * eps);
}

/* With vectors and without, of both triangles. */
TEST_TIMES(eigenvalues_of_symmetric_matrices, 4 * 4)
{
	const struct lapack_type *t = &types[_i / 4];
	int vectors = _i & 1;
	struct call *c = call_new(t, BATCH, "T55 mode=%c uplo=%c > T55 R5 I",
				  vectors ? 'V' : 'N', _i & 2 ? 'U' : 'L');

	make_hermitian(&c->in[0]);
	ck_assert(call_lapack(c, t, "syevd", "heevd"));
	for (int b = 0; b < BATCH; b++) {
		const struct matrix m = matrix_was(&c->in[0], N, N, b);
		const struct matrix x = matrix_at(&c->out[0], N, N, b);
		number values[N];

		ck_assert_int_eq((int)get(&c->out[2], b), 0);
		for (int j = 0; j < N; j++) {
			values[j] = get(&c->out[1], b * N + j);
			ck_assert(j == 0 || creal(values[j]) >= creal(values[j - 1]));
		}
		check_trace(values, m, t->eps);
		if (vectors) {
			check_unitary(x, t->eps);
			check_equal(times(m, x), scaled(x, values), t->eps);
		}
	}
	call_free(c);
}

/* The results of a call for eigenvalues of general matrices; W's real and imaginary part. */
static number eigenvalue(const struct call *c, const struct lapack_type *t, int first,
			 int64_t i)
{
	if (is_complex_type(t))
		return get(&c->out[first], i);
	return CMPLX(creal(get(&c->out[first], i)), creal(get(&c->out[first + 1], i)));
}

static struct call *geev_call(const struct lapack_type *t, const char *modes)
{
	return call_new(t, BATCH, "T55 compute_left=%c compute_right=%c > %s C55 C55 I",
			modes[0], modes[1], is_complex_type(t) ? "T5" : "T5 T5");
}

/* A V = V W, with W on the diagonal. */
static void check_vectors(struct matrix a, struct matrix v, const number *values,
			  double eps)
{
	check_equal(times(a, v), scaled(v, values), eps);
	for (int j = 0; j < N; j++) {
		double norm = 0;

		for (int i = 0; i < N; i++)
			norm += creal(v.v[j * N + i] * conj(v.v[j * N + i]));
		check_near(norm, 1, 30 * eps);
	}
}

TEST_TIMES(eigenvalues_of_general_matrices, 4 * 4)
{
	static const char *const modes[] = { "NN", "VN", "NV", "VV" };
	const struct lapack_type *t = &types[_i / 4];
	const char *mode = modes[_i % 4];
	struct call *c = geev_call(t, mode);
	int first = is_complex_type(t) ? 1 : 2, pairs = 0;

	ck_assert(call_lapack(c, t, "geev", "geev"));
	for (int b = 0; b < BATCH; b++) {
		const struct matrix a = matrix_was(&c->in[0], N, N, b);
		const struct matrix l = matrix_at(&c->out[first], N, N, b);
		const struct matrix r = matrix_at(&c->out[first + 1], N, N, b);
		number values[N], conjugates[N];

		ck_assert_int_eq((int)get(&c->out[first + 2], b), 0);
		for (int j = 0; j < N; j++) {
			values[j] = eigenvalue(c, t, 0, b * N + j);
			conjugates[j] = conj(values[j]);
			pairs += cimag(values[j]) != 0;
		}
		check_trace(values, a, t->eps);
		if (mode[0] == 'V')
			check_vectors(flip(a, 1), l, conjugates, t->eps);
		else
			ck_assert(l.v[0] == 0 && l.v[N * N - 1] == 0);
		if (mode[1] == 'V')
			check_vectors(a, r, values, t->eps);
		else
			ck_assert(r.v[0] == 0 && r.v[N * N - 1] == 0);
	}
	ck_assert_int_gt(pairs, 0);
	call_free(c);
}

/* LAPACK might not return: it is not called for such a matrix, and for the others it is. */
TEST_EACH(eigenvalues_of_what_is_not_finite, types)
{
	static const double bad[] = { NAN, INFINITY, -INFINITY };
	const struct lapack_type *t = &types[_i];
	int info = is_complex_type(t) ? 3 : 4;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct call *c = geev_call(t, "VV");

		put(&c->in[0], 7, is_complex_type(t) ? CMPLX(0, bad[i]) : bad[i]);
		ck_assert(call_lapack(c, t, "geev", "geev"));
		ck_assert_int_eq((int)get(&c->out[info], 0), -4);
		ck_assert_int_eq((int)get(&c->out[info], 1), 0);
		for (int j = 0; j < N; j++)
			ck_assert(get(&c->out[0], j) == 0 && get(&c->out[0], N + j) != 0);
		call_free(c);
	}
}

/* Q FORM Q^H is the matrix WANT. */
static void check_similar(struct matrix q, struct matrix form, struct matrix want,
			  double eps)
{
	check_unitary(q, eps);
	check_equal(times(times(q, form), flip(q, 1)), want, eps);
}

TEST_TIMES(schur_forms, 2 * 4)
{
	const struct lapack_type *t = &types[_i / 2];
	int info = is_complex_type(t) ? 4 : 5, vectors = _i & 1;
	struct call *c =
		call_new(t, BATCH, "T55 mode=%c sort=N > T55 T55 %s I I",
			 vectors ? 'V' : 'N', is_complex_type(t) ? "T5" : "T5 T5");

	ck_assert(call_lapack(c, t, "gees", "gees"));
	for (int b = 0; b < BATCH; b++) {
		const struct matrix want = matrix_was(&c->in[0], N, N, b);
		const struct matrix form = matrix_at(&c->out[0], N, N, b);
		const struct matrix q = matrix_at(&c->out[1], N, N, b);
		number values[N];

		ck_assert_int_eq((int)get(&c->out[info], b), 0);
		ck_assert_int_eq((int)get(&c->out[info - 1], b), 0);
		for (int j = 0; j < N; j++) {
			values[j] = eigenvalue(c, t, 2, b * N + j);
			for (int i = j + 2; i < N; i++)
				ck_assert(form.v[j * N + i] == 0);
		}
		check_trace(values, want, t->eps);
		if (vectors)
			check_similar(q, form, want, t->eps);
		else
			ck_assert(q.v[0] == 0 && q.v[N * N - 1] == 0);
	}
	call_free(c);
}

/* The product of the reflectors FIRST … LAST - 1, which are under A's first lower diagonal. */
static struct matrix reflectors(const struct array *a, const struct array *tau, int64_t b,
				int first, int last)
{
	struct matrix q = identity(N);

	for (int k = first; k < last; k++) {
		struct matrix v = { .m = N, .n = 1 }, h;
		number factor = get(tau, b * (N - 1) + k);

		v.v[k + 1] = 1;
		for (int i = k + 2; i <= last; i++)
			v.v[i] = get(a, at(N, N, b, i, k));
		h = times(v, flip(v, 1));
		for (int i = 0; i < N * N; i++)
			h.v[i] = (i % (N + 1) == 0) - factor * h.v[i];
		q = times(q, h);
	}
	return q;
}

static const int ranges[][2] = { { 1, N }, { 2, 4 }, { 3, 3 } };

TEST_TIMES(hessenberg_forms, 4 * (int)ARRAY_SIZE(ranges))
{
	const struct lapack_type *t = &types[_i % 4];
	int low = ranges[_i / 4][0], high = ranges[_i / 4][1];
	struct call *c = call_new(t, BATCH, "T55 high#%d low#%d > T55 T4 I", high, low);
	struct array *a = &c->in[0];

	/* Outside the range the matrix must be triangular. */
	for (int64_t j = 0; j < a->n; j++) {
		int64_t row = j % N, column = j / N % N;

		if (row > column && (column < low - 1 || row >= high))
			put(a, j, 0);
	}
	ck_assert(call_lapack(c, t, "gehrd", "gehrd"));
	for (int b = 0; b < BATCH; b++) {
		const struct matrix q =
			reflectors(&c->out[0], &c->out[1], b, low - 1, high - 1);
		struct matrix form = matrix_at(&c->out[0], N, N, b);

		ck_assert_int_eq((int)get(&c->out[2], b), 0);
		for (int j = 0; j < N * N; j++)
			if (j % N > j / N + 1)
				form.v[j] = 0;
		check_similar(q, form, matrix_was(a, N, N, b), t->eps);
	}
	call_free(c);
}

TEST_TIMES(tridiagonal_forms, 2 * 4)
{
	const struct lapack_type *t = &types[_i / 2];
	int upper = _i & 1;
	struct call *c =
		call_new(t, BATCH, "T55 uplo=%c > T55 R5 R4 T4 I", upper ? 'U' : 'L');

	make_hermitian(&c->in[0]);
	ck_assert(call_lapack(c, t, "sytrd", "hetrd"));
	for (int b = 0; b < BATCH; b++) {
		const struct matrix want = matrix_was(&c->in[0], N, N, b);
		struct matrix form = { .m = N, .n = N };
		number squares = 0;

		ck_assert_int_eq((int)get(&c->out[4], b), 0);
		for (int i = 0; i < N; i++) {
			form.v[i * (N + 1)] = get(&c->out[1], b * N + i);
			if (i + 1 < N)
				form.v[i * N + i + 1] = form.v[(i + 1) * N + i] =
					get(&c->out[2], b * (N - 1) + i);
		}
		for (int i = 0; i < N * N; i++)
			squares += form.v[i] * form.v[i] - want.v[i] * conj(want.v[i]);
		check_near(squares, 0, 100 * t->eps);
		if (!upper)
			check_similar(reflectors(&c->out[0], &c->out[3], b, 0, N - 1),
				      form, want, t->eps);
	}
	call_free(c);
}
