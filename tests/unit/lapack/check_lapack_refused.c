/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of every target that differ in one thing from a good one, calls of empty matrices; shapes that
 * do not match, sizes that LAPACK cannot count, memory that there is not.
 */
#include <sys/resource.h>

#include "lapack_fixture.h"

/* Calls of matrices, for a batch. */
static const struct good {
	const char *for_real, *for_complex;
	const char *call;
} goods[] = {
	{ "potrf", "potrf", "T33 uplo=L > T33 I" },
	{ "getrf", "getrf", "T43 > T43 I3 I" },
	{ "trsm", "trsm", "T44 T43 diag=N side=L trans_x=N uplo=L > T43" },
	{ "geqrf", "geqrf", "T43 > T43 T3" },
	{ "geqp3", "geqp3", "T43 I3 > T43 I3 T3" },
	{ "orgqr", "ungqr", "T43 T3 > T43" },
	{ "ormqr", "unmqr", "T44 T4 T42 left?1 transpose?0 > T42" },
	{ "gesdd", "gesdd", "T43 mode=A > T43 R3 T44 T33 I" },
	{ "gesvd", "gesvd", "T43 mode=S > T43 R3 T43 T33 I" },
	{ "syevd", "heevd", "T33 mode=V uplo=L > T33 R3 I" },
	{ "geev", NULL, "T33 compute_left=V compute_right=V > T3 T3 C33 C33 I" },
	{ NULL, "geev", "T33 compute_left=V compute_right=V > T3 T33 T33 I" },
	{ "gees", NULL, "T33 mode=V sort=N > T33 T33 T3 T3 I I" },
	{ NULL, "gees", "T33 mode=V sort=N > T33 T33 T3 I I" },
	{ "gehrd", "gehrd", "T33 high#3 low#1 > T33 T2 I" },
	{ "sytrd", "hetrd", "T33 uplo=L > T33 R3 R2 T2 I" },
	{ "gtsv", "gtsv", "T3 T3 T3 T32 > T3 T3 T3 T32 I" },
	{ "", "", "T3 T3 T3 T32 > T32" },
};

static struct call *good_call(const struct good *g, const struct lapack_type *t)
{
	return call_new(t, 2, "%s", g->call);
}

/* A call of BATCH matrices without elements. */
static struct call *empty_call(const struct good *g, const struct lapack_type *t,
			       int batch)
{
	char text[128];

	snprintf(text, sizeof(text), "%s", g->call);
	for (char *p = text; *p; p++)
		if (isdigit((unsigned char)*p) && p[-1] != '#' && p[-1] != '?')
			*p = '0';
	return call_new(t, batch, "%s", text);
}

static int call_good(struct call *c, const struct good *g, const struct lapack_type *t)
{
	if (g->for_real && !*g->for_real)
		return call_target(c, "tridiagonal_solve_perturbed_ffi");
	return call_lapack(c, t, g->for_real, g->for_complex);
}

static int exists(const struct good *g, const struct lapack_type *t)
{
	return (is_complex_type(t) ? g->for_complex : g->for_real) != NULL;
}

TEST_TIMES(good_calls, 4 * (int)ARRAY_SIZE(goods))
{
	const struct good *g = &goods[_i / 4];
	const struct lapack_type *t = &types[_i % 4];

	for (int size = 0; size < 4 && exists(g, t); size++) {
		struct call *c = size == 0   ? good_call(g, t)
				 : size == 1 ? call_new(t, 0, "%s", g->call)
					     : empty_call(g, t, size == 2 ? 2 : 0);

		ck_assert_msg(call_good(c, g, t), "%s", the_error.text);
		call_free(c);
	}
}

/* Make change number CHANGE to the buffers of C; its name, or NULL behind the last one. */
static const char *change_buffer(struct call *c, int change)
{
	enum {
		DTYPE,
		NO_RANK,
		NEGATIVE,
		HUGE,
		MEMORY,
		KIND,
		DIM_1,
		DIM_2,
		DIM_3,
		N_CHANGES
	};
	int64_t n_in = c->frame.operands.n, n = n_in + c->frame.results.n;
	int64_t i = change / N_CHANGES;
	struct array *a = i < n_in ? &c->in[i] : &c->out[i - n_in];
	int32_t *kind = i < n_in ? &c->in_types[i] : &c->out_types[i - n_in];

	if (i == n && change % N_CHANGES == 0) {
		c->frame.operands.n--;
		return "an operand less";
	}
	if (i == n && change % N_CHANGES == 1) {
		c->frame.results.n--;
		return "a result less";
	}
	if (i >= n)
		return NULL;
	switch (change % N_CHANGES) {
	case DTYPE:
		a->buffer.dtype = PJRTFS_FFI_F16;
		return "dtype";
	case NO_RANK:
		a->buffer.rank--;
		return "rank";
	case NEGATIVE:
		a->dims[a->buffer.rank - 1] = -1;
		return "negative";
	case HUGE:
		a->dims[a->buffer.rank - 1] = (int64_t)1 << 40;
		return "huge";
	case MEMORY:
		a->buffer.data = NULL;
		return "no memory";
	case KIND:
		*kind = 2;
		return "no buffer";
	default:
		a->dims[(change % N_CHANGES - DIM_1) % a->buffer.rank]++;
		return "dimension";
	}
}

/* The same for attributes. */
static const char *change_attr(struct call *c, int change)
{
	int64_t i = change / 3;

	if (i >= c->frame.attrs.n)
		return NULL;
	switch (change % 3) {
	case 0:
		c->names[i].len--;
		return "attribute missing";
	case 1:
		c->scalars[i].dtype = PJRTFS_FFI_F32;
		return "attribute's dtype";
	default:
		if (c->scalars[i].dtype == PJRTFS_FFI_PRED)
			c->value_types[i] = PJRTFS_FFI_ATTR_ARRAY;
		else
			c->numbers[i] = c->scalars[i].dtype == PJRTFS_FFI_S32 ? 9 : 'x';
		return "attribute's value";
	}
}

TEST_TIMES(bad_calls, 4 * (int)ARRAY_SIZE(goods))
{
	const struct good *g = &goods[_i / 4];
	const struct lapack_type *t = &types[_i % 4];
	int round = 0, seen = 0;

	while (round < 2 && exists(g, t)) {
		struct call *c = good_call(g, t);
		const char *what = round ? change_attr(c, seen) : change_buffer(c, seen);

		seen++;
		if (!what) {
			round++;
			seen = 0;
		} else {
			ck_assert_msg(!call_good(c, g, t), "%s %d of %s was accepted",
				      what, seen,
				      g->for_real ? g->for_real : g->for_complex);
			ck_assert_int_eq(the_error.code, PJRTFS_FFI_INVALID_ARGUMENT);
			ck_assert_ptr_nonnull(strstr(the_error.text, "_ffi: "));
		}
		call_free(c);
	}
}

static const struct sentence {
	const char *routine;
	int change, of_attr;
	const char *text;
} sentences[] = {
	{ "potrf", 6, 0,
	  "lapack_dpotrf_ffi: result 0 (l): expected f64[3,3,3], found f64[2,3,3]" },
	{ "potrf", 7, 0,
	  "lapack_dpotrf_ffi: operand 0 (a): expected f64[2,4,4], found f64[2,4,3]" },
	{ "potrf", 0, 0,
	  "lapack_dpotrf_ffi: operand 0 (a): expected f64[2,n,n], found f16[2,3,3]" },
	{ "potrf", 3, 0, "found f64[2,3,1099511627776]; LAPACK counts to 2147483647" },
	{ "geqrf", 3, 0,
	  "operand 0 (a): expected f64[2,4,n], found f64[2,4,1099511627776]" },
	{ "potrf", 4, 0, "lapack_dpotrf_ffi: operand 0 (a) has no memory" },
	{ "potrf", 5, 0, "lapack_dpotrf_ffi: operand 0 (a) is not a buffer" },
	{ "potrf", 27, 0, "lapack_dpotrf_ffi: expected 1 operands, found 0" },
	{ "potrf", 0, 1, "lapack_dpotrf_ffi: the attribute uplo : u8 is missing" },
	{ "potrf", 2, 1,
	  "the attribute uplo: expected one of the letters LU, found 120" },
	{ "trsm", 7, 0, "operand 0 (a)" },
	{ "gehrd", 5, 1, "expected 1 <= low <= high <= 3, found low 9 and high 3" },
};

TEST_EACH(sentences_say_what_is_wrong, sentences)
{
	const struct sentence *s = &sentences[_i];
	const struct good *g = goods;
	struct call *c;

	while (!g->for_real || strcmp(g->for_real, s->routine))
		g++;
	c = good_call(g, &types[1]);
	if (s->of_attr)
		change_attr(c, s->change);
	else
		change_buffer(c, s->change);
	check_refusal(call_good(c, g, &types[1]), PJRTFS_FFI_INVALID_ARGUMENT, s->text);
	call_free(c);
}

/* Modes of LAPACK that JAX never uses. */
TEST(modes_that_are_not_implemented)
{
	for (size_t i = 0; i < ARRAY_SIZE(goods); i++) {
		const struct good *g = &goods[i];
		int svd = g->for_real && !strncmp(g->for_real, "ges", 3);
		struct call *c;

		if (!svd && !(g->for_real && !strcmp(g->for_real, "gees")))
			continue;
		c = good_call(g, &types[0]);
		c->numbers[!strcmp(g->for_real, "gees")] = svd ? 'O' : 'S';
		check_refusal(call_good(c, g, &types[0]), PJRTFS_FFI_UNIMPLEMENTED,
			      "is not implemented");
		call_free(c);
	}
}

/* At registration the plugin asks each handler for its version. */
TEST(handlers_answer_the_plugins_version)
{
	const struct pjrtfs_ffi_targets *all = lapack_library();

	ck_assert_uint_eq(all->n, 62);
	for (size_t i = 0; i < all->n; i++) {
		struct call *c = call_empty();
		struct pjrtfs_ffi_metadata metadata = { .struct_size = sizeof(metadata) };
		struct pjrtfs_ffi_metadata_query query = { { sizeof(query), 1, NULL },
							   &metadata };

		c->frame.extensions = &query.base;
		ck_assert_ptr_null(all->targets[i].handler(&c->frame));
		ck_assert_int_eq(metadata.version.minor, 2);
		for (size_t j = 0; j < i; j++)
			ck_assert_str_ne(all->targets[i].name, all->targets[j].name);
		call_free(c);
	}
}

/* --- shapes, sizes, memory ------------------------------------------------------------------- */

static const struct shape {
	const char *routine, *call, *text;
} shapes[] = {
	{ "trsm", "T33 T34 diag=N side=R trans_x=N uplo=L > T34",
	  "operand 0 (a) has 3 rows; for side R and a 3 x 4 operand 1 (b), it must have 4" },
	{ "orgqr", "T34 T3 > T34", "found 3 rows, 4 columns, 3 reflectors" },
	{ "orgqr", "T42 T3 > T42", "found 4 rows, 2 columns, 3 reflectors" },
	{ "ormqr", "T42 T2 T43 left?0 transpose?0 > T43",
	  "operand 0 (a) is 4 x 2; with Q on the right of a 4 x 3 operand 2 (c), it must "
	  "have 3 rows" },
	{ "ormqr", "T45 T5 T43 left?1 transpose?0 > T43", "operand 0 (a) is 4 x 5" },
};

/* Shapes that agree in their letters, and not with each other. */
TEST_EACH(shapes_that_do_not_match, shapes)
{
	const struct shape *s = &shapes[_i];
	struct call *c = call_new(&types[0], -1, "%s", s->call);

	check_refusal(call_lapack(c, &types[0], s->routine, s->routine),
		      PJRTFS_FFI_INVALID_ARGUMENT, s->text);
	call_free(c);
}

/* A call for N rows; of its memory, which is less, nothing is read. */
static struct call *large_call(int n)
{
	struct call *c = call_new(&types[1], -1, "T33 mode=V uplo=L > T33 R3 I");

	for (int i = 0; i < 2; i++)
		c->in[0].dims[i] = c->out[0].dims[i] = n;
	c->out[1].dims[0] = n;
	return c;
}

/* 1 + 6 n + 2 n n does not fit the integers of LAPACK. */
TEST(workspaces_that_LAPACK_cannot_count_are_refused)
{
	struct call *c = large_call(40000);

	check_refusal(call_target(c, "lapack_dsyevd_ffi"), PJRTFS_FFI_INVALID_ARGUMENT,
		      "a workspace of 3200240001 elements");
	call_free(c);
}

#ifndef PF_SANITIZE
TEST(no_memory_for_the_workspace)
{
	struct call *c = large_call(2000);
	long pages = 0;
	struct rlimit limit, low;
	FILE *f;

	f = fopen("/proc/self/statm", "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%ld", &pages), 1);
	fclose(f);
	ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
	/* LAPACK wants 64 MB. */
	low = limit;
	low.rlim_cur = (rlim_t)pages * 4096 + ((rlim_t)32 << 20);
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &low), 0);
	check_refusal(call_target(c, "lapack_dsyevd_ffi"), PJRTFS_FFI_RESOURCE_EXHAUSTED,
		      "no memory for LAPACK's workspace");
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	call_free(c);
}
#endif
