/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of every target that differ in one thing from a good one, and calls of empty matrices. */
#include "lapack_fixture.h"

/* An attribute: a letter if it has no DTYPE. */
struct given {
	const char *name;
	int value, dtype;
};

/*
 * A good call.  Buffers have a type (T, R, C as in src/lapack/internal.h, I for s32) and the
 * dimensions of the matrix, a digit each; a batch of two comes before them.
 */
static const struct good {
	const char *for_real, *for_complex;
	const char *in, *out;
	struct given given[4];
} goods[] = {
	{ "potrf", "potrf", "T33", "T33 I", { { "uplo", 'L', 0 } } },
	{ "getrf", "getrf", "T43", "T43 I3 I", { { 0 } } },
	{ "trsm",
	  "trsm",
	  "T44 T43",
	  "T43",
	  { { "diag", 'N', 0 },
	    { "side", 'L', 0 },
	    { "trans_x", 'N', 0 },
	    { "uplo", 'L', 0 } } },
	{ "geqrf", "geqrf", "T43", "T43 T3", { { 0 } } },
	{ "geqp3", "geqp3", "T43 I3", "T43 I3 T3", { { 0 } } },
	{ "orgqr", "ungqr", "T43 T3", "T43", { { 0 } } },
	{ "ormqr",
	  "unmqr",
	  "T44 T4 T42",
	  "T42",
	  { { "left", 1, PJRTFS_FFI_PRED }, { "transpose", 0, PJRTFS_FFI_PRED } } },
	{ "gesdd", "gesdd", "T43", "T43 R3 T44 T33 I", { { "mode", 'A', 0 } } },
	{ "gesvd", "gesvd", "T43", "T43 R3 T43 T33 I", { { "mode", 'S', 0 } } },
	{ "syevd",
	  "heevd",
	  "T33",
	  "T33 R3 I",
	  { { "mode", 'V', 0 }, { "uplo", 'L', 0 } } },
	{ "geev",
	  NULL,
	  "T33",
	  "T3 T3 C33 C33 I",
	  { { "compute_left", 'V', 0 }, { "compute_right", 'V', 0 } } },
	{ NULL,
	  "geev",
	  "T33",
	  "T3 T33 T33 I",
	  { { "compute_left", 'V', 0 }, { "compute_right", 'V', 0 } } },
	{ "gees",
	  NULL,
	  "T33",
	  "T33 T33 T3 T3 I I",
	  { { "mode", 'V', 0 }, { "sort", 'N', 0 } } },
	{ NULL,
	  "gees",
	  "T33",
	  "T33 T33 T3 I I",
	  { { "mode", 'V', 0 }, { "sort", 'N', 0 } } },
	{ "gehrd",
	  "gehrd",
	  "T33",
	  "T33 T2 I",
	  { { "high", 3, PJRTFS_FFI_S32 }, { "low", 1, PJRTFS_FFI_S32 } } },
	{ "sytrd", "hetrd", "T33", "T33 R3 R2 T2 I", { { "uplo", 'L', 0 } } },
	{ "gtsv", "gtsv", "T3 T3 T3 T32", "T3 T3 T3 T32 I", { { 0 } } },
	{ "", "", "T3 T3 T3 T32", "T32", { { 0 } } },
};

/* How many of the batch, and whether the matrices are empty. */
struct size {
	int batch, empty;
};

static const struct size two = { 2, 0 };

static int32_t dtype_of(const struct lapack_type *t, char type)
{
	switch (type) {
	case 'I':
		return PJRTFS_FFI_S32;
	case 'R':
		return t->real_dtype;
	case 'C':
		return t->complex_dtype;
	default:
		return t->dtype;
	}
}

/* Add the buffers of LIST. */
static void add(struct call *c, struct array *(*how)(struct call *, int32_t, int, ...),
		const struct lapack_type *t, const char *list, struct size size)
{
	for (; *list; list += strspn(list, " ")) {
		int rank = (int)strcspn(list, " ");
		int rows = rank > 1 && !size.empty ? list[1] - '0' : 0;
		int columns = rank > 2 && !size.empty ? list[2] - '0' : 0;

		put_random(how(c, dtype_of(t, *list), rank, size.batch, rows, columns));
		list += rank;
	}
}

static struct call *good_call(const struct good *g, const struct lapack_type *t,
			      struct size size)
{
	struct call *c = call_new();

	add(c, operand, t, g->in, size);
	add(c, result, t, g->out, size);
	for (int i = 0; i < 4 && g->given[i].name; i++)
		attribute(c, g->given[i].name,
			  g->given[i].dtype ? g->given[i].dtype : PJRTFS_FFI_U8,
			  g->given[i].value);
	return c;
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

TEST_EACH(good_calls, goods)
{
	static const struct size sizes[] = { { 2, 0 }, { 2, 1 }, { 0, 0 }, { 0, 1 } };
	const struct good *g = &goods[_i];

	for (size_t i = 0; i < 4 * ARRAY_SIZE(sizes); i++) {
		const struct lapack_type *t = &types[i % 4];
		struct call *c;

		if (!exists(g, t))
			continue;
		c = good_call(g, t, sizes[i / 4]);
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
		struct call *c = good_call(g, t, two);
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
	c = good_call(g, &types[1], two);
	if (s->of_attr)
		change_attr(c, s->change);
	else
		change_buffer(c, s->change);
	ck_assert(!call_good(c, g, &types[1]));
	ck_assert_msg(strstr(the_error.text, s->text) != NULL, "%s", the_error.text);
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
		c = good_call(g, &types[0], two);
		c->numbers[!strcmp(g->for_real, "gees")] = svd ? 'O' : 'S';
		ck_assert(!call_good(c, g, &types[0]));
		ck_assert_int_eq(the_error.code, PJRTFS_FFI_UNIMPLEMENTED);
		call_free(c);
	}
}

/* At registration the plugin asks each handler for its version. */
TEST(handlers_answer_the_plugins_version)
{
	const struct pjrtfs_ffi_targets *all = lapack_library();

	ck_assert_uint_eq(all->n, 62);
	for (size_t i = 0; i < all->n; i++) {
		struct call *c = call_new();
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
