/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the handlers of libpjrtfs-lapack.so as a plugin makes them.  Each buffer lies between two
 * guards, and operands are compared with what they were: Fortran code is not instrumented.
 */
#ifndef PJRTFS_TESTS_UNIT_LAPACK_FIXTURE_H
#define PJRTFS_TESTS_UNIT_LAPACK_FIXTURE_H

#include <complex.h>
#include <ctype.h>
#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pjrtfs/ffi.h"

#include "unit.h"

typedef double complex number;

enum { GUARD = 256, SLOTS = 16, RANK = 5 };

/* The types of targets: s, d, c, z. */
static const struct lapack_type {
	char letter;
	int32_t dtype, real_dtype, complex_dtype;
	double eps;
} types[] = {
	{ 's', PJRTFS_FFI_F32, PJRTFS_FFI_F32, PJRTFS_FFI_C64, 1e-5 },
	{ 'd', PJRTFS_FFI_F64, PJRTFS_FFI_F64, PJRTFS_FFI_C128, 1e-13 },
	{ 'c', PJRTFS_FFI_C64, PJRTFS_FFI_F32, PJRTFS_FFI_C64, 1e-5 },
	{ 'z', PJRTFS_FFI_C128, PJRTFS_FFI_F64, PJRTFS_FFI_C128, 1e-13 },
};

static inline int is_complex_type(const struct lapack_type *t)
{
	return t->dtype == t->complex_dtype;
}

/* What elements are: of PART bytes are their floats, which is 0 for integers. */
static const struct kind {
	int32_t dtype;
	size_t size, part;
} kinds[] = {
	{ PJRTFS_FFI_S32, 4, 0 },
	{ PJRTFS_FFI_S64, 8, 0 },
	{ PJRTFS_FFI_F32, 4, sizeof(float) },
	{ PJRTFS_FFI_F64, 8, sizeof(double) },
	{ PJRTFS_FFI_C64, 8, sizeof(float) },
	{ PJRTFS_FFI_C128, 16, sizeof(double) },
};

/* A buffer and its guards. */
struct array {
	const struct kind *kind;
	struct pjrtfs_ffi_buffer buffer;
	int64_t dims[RANK];
	int64_t n; /* elements */
	size_t bytes;
	char *memory, *before; /* all of it; its copy before the call */
};

struct call {
	struct array in[SLOTS], out[SLOTS];
	struct pjrtfs_ffi_buffer *in_list[SLOTS], *out_list[SLOTS];
	int32_t in_types[SLOTS], out_types[SLOTS];
	struct pjrtfs_ffi_text names[SLOTS], *name_list[SLOTS];
	struct pjrtfs_ffi_scalar scalars[SLOTS];
	void *values[SLOTS];
	int32_t value_types[SLOTS], numbers[SLOTS];
	struct pjrtfs_ffi_api api;
	struct pjrtfs_ffi_frame frame;
	char text[128]; /* what it is made of */
};

/* The last error that a handler made. */
static struct pjrtfs_ffi_error {
	int code;
	char text[1200];
} the_error;

static inline struct pjrtfs_ffi_error *error_create(struct pjrtfs_ffi_error_args *args)
{
	the_error.code = args->code;
	snprintf(the_error.text, sizeof(the_error.text), "%s", args->message);
	return &the_error;
}

static const struct pjrtfs_ffi_targets *targets;
static const char *why_no_targets = "";

/* Once for all tests: that takes longer than most of them. */
static inline const char *load_lapack(void)
{
	const struct pjrtfs_ffi_targets *(*library)(const char **why);
	void *so, *symbol;

	setenv("OPENBLAS_NUM_THREADS", "1", 0);
	so = dlopen("./libpjrtfs-lapack.so", RTLD_NOW | RTLD_LOCAL);
	symbol = so ? dlsym(so, "pjrtfs_ffi_library") : NULL;
	if (symbol) {
		memcpy(&library, &symbol, sizeof(library));
		targets = library(&why_no_targets);
	} else {
		why_no_targets = dlerror();
	}
	return NULL; /* without them the tests fail */
}

UNIT_NEEDS(load_lapack)

static inline const struct pjrtfs_ffi_targets *lapack_library(void)
{
	ck_assert_msg(targets != NULL, "%s", why_no_targets);
	return targets;
}

static inline struct call *call_empty(void)
{
	struct call *c = calloc(1, sizeof(*c));

	ck_assert_ptr_nonnull(c);
	c->api.struct_size = sizeof(c->api);
	c->api.version.minor = 2;
	c->api.error_create = error_create;
	c->frame.struct_size = sizeof(c->frame);
	c->frame.api = &c->api;
	c->frame.stage = PJRTFS_FFI_EXECUTE;
	c->frame.operands.types = c->in_types;
	c->frame.results.types = c->out_types;
	c->frame.operands.buffers = c->in_list;
	c->frame.results.buffers = c->out_list;
	c->frame.attrs.names = c->name_list;
	c->frame.attrs.types = c->value_types;
	c->frame.attrs.values = c->values;
	for (int i = 0; i < SLOTS; i++)
		c->in_types[i] = c->out_types[i] = 1;
	return c;
}

/* An element of an array. */
union element {
	float f[2];
	double d[2];
	int32_t s32;
	int64_t s64;
};

/* Element I in DATA, which is A's. */
static inline number value_at(const struct array *a, const char *data, int64_t i)
{
	union element e = { .d = { 0 } };

	memcpy(&e, data + (size_t)i * a->kind->size, a->kind->size);
	if (a->kind->part == sizeof(float))
		return CMPLX(e.f[0], e.f[1]);
	if (a->kind->part == sizeof(double))
		return CMPLX(e.d[0], e.d[1]);
	return a->kind->size == 8 ? (double)e.s64 : e.s32;
}

static inline number get(const struct array *a, int64_t i)
{
	return value_at(a, a->buffer.data, i);
}

/* The same of an operand, before the call. */
static inline number was(const struct array *a, int64_t i)
{
	return value_at(a, a->before, i);
}

/* The element in row I and column J of matrix B of A, whose matrices have M rows, N columns. */
static inline int64_t at(int64_t m, int64_t n, int64_t b, int64_t i, int64_t j)
{
	return b * m * n + j * m + i;
}

static inline void put(struct array *a, int64_t i, number z)
{
	union element e;

	if (a->kind->part == sizeof(float)) {
		e.f[0] = (float)creal(z);
		e.f[1] = (float)cimag(z);
	} else if (a->kind->part == sizeof(double)) {
		e.d[0] = creal(z);
		e.d[1] = cimag(z);
	} else if (a->kind->size == 8) {
		e.s64 = (int64_t)creal(z);
	} else {
		e.s32 = (int32_t)creal(z);
	}
	memcpy((char *)a->buffer.data + (size_t)i * a->kind->size, &e, a->kind->size);
}

/* Numbers between -1 and 1, always the same ones. */
static inline void put_random(struct array *a)
{
	static unsigned state = 7;

	for (int64_t i = 0; i < a->n; i++) {
		double part[2];

		for (int j = 0; j < 2; j++) {
			state = state * 1664525 + 1013904223;
			part[j] = (state >> 8) / (double)(1 << 23) - 1;
		}
		put(a, i, CMPLX(part[0], part[1]));
	}
}

static inline int32_t dtype_of(const struct lapack_type *t, char type)
{
	switch (type) {
	case 'I':
		return PJRTFS_FFI_S32;
	case 'L':
		return PJRTFS_FFI_S64;
	case 'R':
		return t->real_dtype;
	case 'C':
		return t->complex_dtype;
	default:
		return t->dtype;
	}
}

static inline void array_init(struct array *a, int32_t dtype, int batch,
			      const char *digits)
{
	int rank = 0;

	a->n = 1;
	if (batch >= 0)
		a->dims[rank++] = batch;
	for (; isdigit((unsigned char)*digits); digits++)
		a->dims[rank++] = *digits - '0';
	for (int i = 0; i < rank; i++)
		a->n *= a->dims[i];
	for (a->kind = kinds; a->kind->dtype != dtype;)
		a->kind++;
	a->bytes = (size_t)a->n * a->kind->size;
	a->memory = aligned_alloc(64, (a->bytes + 2 * GUARD + 63) & ~(size_t)63);
	ck_assert_ptr_nonnull(a->memory);
	memset(a->memory, 0xa5, a->bytes + 2 * GUARD);
	a->buffer =
		(struct pjrtfs_ffi_buffer){ .struct_size = sizeof(a->buffer),
					    .dtype = dtype,
					    .data = a->bytes ? a->memory + GUARD : NULL,
					    .rank = rank,
					    .dims = a->dims };
}

/* The attribute in TEXT: NAME_LEN bytes, what it is, and its value. */
static inline void add_attribute(struct call *c, const char *text, size_t name_len)
{
	int64_t i = c->frame.attrs.n++;
	char kind = text[name_len], value = text[name_len + 1];

	c->names[i] = (struct pjrtfs_ffi_text){ text, name_len };
	c->name_list[i] = &c->names[i];
	c->numbers[i] = kind == '=' ? value : value - '0';
	c->scalars[i].dtype = kind == '='   ? PJRTFS_FFI_U8
			      : kind == '#' ? PJRTFS_FFI_S32
					    : PJRTFS_FFI_PRED;
	c->scalars[i].value = &c->numbers[i];
	c->values[i] = &c->scalars[i];
	c->value_types[i] = PJRTFS_FFI_ATTR_SCALAR;
}

/*
 * The call that the words of C's text describe: operands, ">", results.  A buffer has a type (T, R, C
 * as in src/lapack/internal.h, I for s32, L for s64) and a digit for each dimension of a matrix; BATCH
 * comes before them, unless it is negative.  An attribute is a letter, name=V, a number, name#3, or a
 * truth, name?1.
 */
static inline void call_fill(struct call *c, const struct lapack_type *t, int batch)
{
	struct pjrtfs_ffi_buffers *list = &c->frame.operands;
	struct array *arrays = c->in;

	for (const char *p = c->text; *p; p += strcspn(p, " "), p += *p == ' ') {
		size_t len = strcspn(p, " "), name_len = strcspn(p, "=#?");
		struct array *a = &arrays[list->n];

		if (*p == '>') {
			list = &c->frame.results;
			arrays = c->out;
		} else if (name_len < len) {
			add_attribute(c, p, name_len);
		} else {
			array_init(a, dtype_of(t, *p), batch, p + 1);
			list->buffers[list->n++] = &a->buffer;
			if (arrays == c->in)
				put_random(a);
		}
	}
}

/* A call of FMT's text; its operands are random. */
static inline struct call *__attribute__((__format__(__printf__, 3, 4)))
call_new(const struct lapack_type *t, int batch, const char *fmt, ...)
{
	struct call *c = call_empty();
	va_list args;

	va_start(args, fmt);
	vsnprintf(c->text, sizeof(c->text), fmt, args);
	va_end(args);
	call_fill(c, t, batch);
	return c;
}

/* The program aliases result I with operand J. */
static inline void alias(struct call *c, int i, int j)
{
	c->out[i].buffer.data = c->in[j].buffer.data;
}

static inline void check_guards(const struct array *a)
{
	int wrong = 0; /* one assertion: Check writes to a file at each */

	for (size_t i = 0; i < GUARD; i++)
		wrong |= (a->memory[i] ^ a->memory[GUARD + a->bytes + i]) |
			 (a->memory[i] ^ (char)0xa5);
	ck_assert_int_eq(wrong, 0);
}

/* Call TARGET; false: it made the_error. */
static inline int call_target(struct call *c, const char *target)
{
	const struct pjrtfs_ffi_targets *all = lapack_library();
	struct pjrtfs_ffi_error *e = NULL;
	size_t i = 0;

	while (i < all->n && strcmp(all->targets[i].name, target))
		i++;
	ck_assert_msg(i < all->n, "no target %s", target);
	for (int64_t j = 0; j < c->frame.operands.n; j++) {
		c->in[j].before = malloc(c->in[j].bytes + 1);
		ck_assert_ptr_nonnull(c->in[j].before);
		memcpy(c->in[j].before, c->in[j].memory + GUARD, c->in[j].bytes);
	}
	the_error.code = 0;
	the_error.text[0] = '\0';
	e = all->targets[i].handler(&c->frame);
	ck_assert(e == NULL || e == &the_error);
	for (int64_t j = 0; j < c->frame.operands.n; j++) {
		int aliased = 0;

		for (int64_t k = 0; k < c->frame.results.n; k++)
			aliased |= c->out[k].buffer.data == c->in[j].buffer.data;
		check_guards(&c->in[j]);
		if (!aliased)
			ck_assert_mem_eq(c->in[j].before, c->in[j].memory + GUARD,
					 c->in[j].bytes);
	}
	for (int64_t j = 0; j < c->frame.results.n; j++)
		check_guards(&c->out[j]);
	return e == NULL;
}

/* Call the target of a LAPACK routine of T, whose name begins with T's letter. */
static inline int call_lapack(struct call *c, const struct lapack_type *t,
			      const char *for_real, const char *for_complex)
{
	char target[64];

	snprintf(target, sizeof(target), "lapack_%c%s_ffi", t->letter,
		 is_complex_type(t) ? for_complex : for_real);
	return call_target(c, target);
}

static inline void call_free(struct call *c)
{
	for (int i = 0; i < SLOTS; i++) {
		free(c->in[i].memory);
		free(c->in[i].before);
		free(c->out[i].memory);
	}
	free(c);
}

static inline void check_near(number got, number want, double tolerance)
{
	ck_assert_msg(cabs(got - want) <= tolerance, "got %g%+gi, expected %g%+gi",
		      creal(got), cimag(got), creal(want), cimag(want));
}

/* A small matrix, by columns. */
enum { SIDE = 12 };
struct matrix {
	int m, n;
	number v[SIDE * SIDE];
};

/* Matrix B of M rows and N columns in DATA, which is A's. */
static inline struct matrix matrix_in(const struct array *a, const char *data, int m,
				      int n, int64_t b)
{
	struct matrix r = { .m = m, .n = n };

	for (int i = 0; i < m * n; i++)
		r.v[i] = value_at(a, data, b * m * n + i);
	return r;
}

static inline struct matrix matrix_at(const struct array *a, int m, int n, int64_t b)
{
	return matrix_in(a, a->buffer.data, m, n, b);
}

/* The same of an operand as it was before the call. */
static inline struct matrix matrix_was(const struct array *a, int m, int n, int64_t b)
{
	return matrix_in(a, a->before, m, n, b);
}

static inline struct matrix identity(int n)
{
	struct matrix r = { .m = n, .n = n };

	for (int i = 0; i < n; i++)
		r.v[i * (n + 1)] = 1;
	return r;
}

static inline struct matrix times(struct matrix a, struct matrix b)
{
	struct matrix r = { .m = a.m, .n = b.n };

	ck_assert_int_eq(a.n, b.m);
	for (int i = 0; i < a.m; i++)
		for (int j = 0; j < b.n; j++)
			for (int k = 0; k < a.n; k++)
				r.v[j * r.m + i] += a.v[k * a.m + i] * b.v[j * b.m + k];
	return r;
}

/* The transpose, of conjugates if CONJUGATE. */
static inline struct matrix flip(struct matrix a, int conjugate)
{
	struct matrix r = { .m = a.n, .n = a.m };

	for (int i = 0; i < a.m; i++)
		for (int j = 0; j < a.n; j++)
			r.v[i * r.m + j] =
				conjugate ? conj(a.v[j * a.m + i]) : a.v[j * a.m + i];
	return r;
}

/* A's first COLUMNS of its columns. */
static inline struct matrix first_columns(struct matrix a, int columns)
{
	a.n = columns;
	return a;
}

/* The triangle of A; its diagonal is 1 if UNIT. */
static inline struct matrix triangle(struct matrix a, int lower, int unit)
{
	for (int i = 0; i < a.m; i++)
		for (int j = 0; j < a.n; j++) {
			if (lower ? i < j : i > j)
				a.v[j * a.m + i] = 0;
			if (unit && i == j)
				a.v[j * a.m + i] = 1;
		}
	return a;
}

/* The columns of A, each multiplied by its number of S. */
static inline struct matrix scaled(struct matrix a, const number *s)
{
	for (int i = 0; i < a.m * a.n; i++)
		a.v[i] *= s[i / a.m];
	return a;
}

static inline void check_equal(struct matrix got, struct matrix want, double eps)
{
	ck_assert_int_eq(got.m, want.m);
	ck_assert_int_eq(got.n, want.n);
	for (int i = 0; i < want.m * want.n; i++)
		check_near(got.v[i], want.v[i], 30 * eps);
}

/* A's columns are orthonormal. */
static inline void check_unitary(struct matrix a, double eps)
{
	check_equal(times(flip(a, 1), a), identity(a.n), eps);
}

/* A call is refused with CODE and TEXT. */
static inline void check_refusal(int ok, int code, const char *text)
{
	ck_assert(!ok);
	ck_assert_int_eq(the_error.code, code);
	ck_assert_msg(strstr(the_error.text, text) != NULL, "%s", the_error.text);
}

#endif
