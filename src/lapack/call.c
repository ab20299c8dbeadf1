/* SPDX-License-Identifier: Apache-2.0 */
/* One call of any routine: its arguments, its workspace, the loop over the batch. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

static const size_t sizes[N_TYPES] = { 4, 8, 8, 16 };
static const size_t real_sizes[N_TYPES] = { 4, 8, 4, 8 };
static const int32_t dtypes[N_TYPES] = { PJRTFS_FFI_F32, PJRTFS_FFI_F64, PJRTFS_FFI_C64,
					 PJRTFS_FFI_C128 };

/* An array of this size cannot exist; sums of a few squares of smaller numbers fit int64_t. */
static const int64_t too_large = (int64_t)1 << 59;

size_t lapack_size(const struct call *c)
{
	return sizes[c->type];
}

enum type lapack_type(int32_t dtype)
{
	for (int i = 0; i < N_TYPES; i++)
		if (dtypes[i] == dtype)
			return (enum type)i;
	return F32;
}

static const char *dtype_name(int32_t dtype)
{
	static const char *const names[] = { "invalid", "pred", "s8",    "s16", "s32",
					     "s64",     "u8",   "u16",   "u32", "u64",
					     "f16",     "f32",  "f64",   NULL,  NULL,
					     "c64",     "bf16", "token", "c128" };

	if (dtype >= 0 && (size_t)dtype < sizeof(names) / sizeof(*names) && names[dtype])
		return names[dtype];
	return "other";
}

struct pjrtfs_ffi_error *lapack_fail(struct pjrtfs_ffi_frame *frame, const char *target,
				     enum pjrtfs_ffi_code code, const char *fmt, ...)
{
	char text[1024];
	int n = snprintf(text, sizeof(text), "%s: ", target);
	va_list args;

	va_start(args, fmt);
	vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, args);
	va_end(args);
	return pjrtfs_ffi_fail(frame, code, text);
}

static void __attribute__((__format__(__printf__, 3, 4)))
append(char *text, size_t size, const char *fmt, ...)
{
	size_t len = strlen(text);
	va_list args;

	va_start(args, fmt);
	vsnprintf(text + len, size - len, fmt, args);
	va_end(args);
}

void lapack_print_shape(char *text, size_t size, int32_t dtype, int64_t rank,
			const int64_t *dims)
{
	snprintf(text, size, "%s[", dtype_name(dtype));
	for (int64_t i = 0; i < rank && i < 16; i++)
		append(text, size, "%s%lld", i ? "," : "", (long long)dims[i]);
	append(text, size, "]");
}

static int32_t dtype_of(const struct call *c, const struct param *p)
{
	switch (p->type) {
	case 'I':
		return PJRTFS_FFI_S32;
	case 'R':
		return dtypes[c->type % C64];
	case 'C':
		return dtypes[c->type % C64 + C64];
	default:
		return dtypes[c->type];
	}
}

static size_t size_of(const struct call *c, const struct param *p)
{
	switch (p->type) {
	case 'I':
		return sizeof(int32_t);
	case 'R':
		return real_sizes[c->type];
	case 'C':
		return 2 * real_sizes[c->type];
	default:
		return sizes[c->type];
	}
}

/* What P must be, as far as it is known: f32[…,4,n]. */
static void print_expected(const struct call *c, const struct param *p, char *text,
			   size_t size)
{
	const char *comma = "";

	snprintf(text, size, "%s[", dtype_name(dtype_of(c, p)));
	if (c->batch_rank < 0) {
		append(text, size, "…");
		comma = ",";
	}
	for (int64_t i = 0; i < c->batch_rank && i < 16; i++, comma = ",")
		append(text, size, "%s%lld", comma, (long long)c->batch_dims[i]);
	for (const char *d = p->dims; *d; d++, comma = ",") {
		if (*DIM(*d) >= 0)
			append(text, size, "%s%d", comma, *DIM(*d));
		else
			append(text, size, "%s%c", comma, *d);
	}
	append(text, size, "]");
}

static struct pjrtfs_ffi_error *wrong(const struct call *c, const struct param *p,
				      const struct pjrtfs_ffi_buffer *b, const char *what,
				      int64_t i)
{
	char expected[256], found[256];
	bool large = false;

	for (int64_t j = 0; j < b->rank; j++)
		large |= b->dims[j] > INT32_MAX;
	print_expected(c, p, expected, sizeof(expected));
	lapack_print_shape(found, sizeof(found), b->dtype, b->rank, b->dims);
	return lapack_fail(c->frame, c->target, PJRTFS_FFI_INVALID_ARGUMENT,
			   "%s %lld (%s): expected %s, found %s%s", what, (long long)i,
			   p->name, expected, found,
			   large ? "; LAPACK counts to 2147483647" : "");
}

/* The number of elements of DIMS; negative if there cannot be so many of SIZE bytes. */
static int64_t elements(const int64_t *dims, int64_t rank, size_t size)
{
	int64_t n = (int64_t)size;
	bool empty = false;

	for (int64_t i = 0; i < rank; i++) {
		if (dims[i] < 0)
			return -1;
		if (dims[i] == 0)
			empty = true;
		else if (__builtin_mul_overflow(n, dims[i], &n) || n > too_large)
			return -1;
	}
	return empty ? 0 : n / (int64_t)size;
}

/* Whether B has the batch's dimensions, and then those of P; unknown letters are defined if DEFINE. */
static bool fits(struct call *c, const struct param *p, const struct pjrtfs_ffi_buffer *b,
		 bool define)
{
	int64_t rank = (int64_t)strlen(p->dims);

	if (b->dtype != dtype_of(c, p) || b->rank != c->batch_rank + rank ||
	    elements(b->dims, b->rank, size_of(c, p)) < 0)
		return false;
	for (int64_t i = 0; i < c->batch_rank; i++)
		if (b->dims[i] != c->batch_dims[i])
			return false;
	for (int64_t i = 0; i < rank; i++) {
		int64_t n = b->dims[c->batch_rank + i];
		int32_t *known = DIM(p->dims[i]);

		if (n > INT32_MAX)
			return false;
		if (*known < 0 && define)
			*known = (int32_t)n;
		if (*known != n)
			return false;
	}
	return true;
}

/* Check the N buffers of THEM against PARAMS. */
static struct pjrtfs_ffi_error *take(struct call *c, const char *what,
				     const struct pjrtfs_ffi_buffers *them,
				     const struct param *params, int max,
				     struct array *arrays)
{
	bool results = params == c->routine->results;
	int64_t n = 0;

	while (n < max && params[n].name)
		n++;
	if (them->n != n)
		return lapack_fail(c->frame, c->target, PJRTFS_FFI_INVALID_ARGUMENT,
				   "expected %lld %ss, found %lld", (long long)n, what,
				   (long long)them->n);
	for (int64_t i = 0; i < n; i++) {
		const struct pjrtfs_ffi_buffer *b = them->buffers[i];
		const struct param *p = &params[i];
		struct param shape = *p;
		int64_t rank = (int64_t)strlen(p->dims);

		if (them->types[i] != 1)
			return lapack_fail(c->frame, c->target,
					   PJRTFS_FFI_INVALID_ARGUMENT,
					   "%s %lld (%s) is not a buffer", what,
					   (long long)i, p->name);
		if (c->batch_rank < 0 && b->rank >= rank) {
			c->batch_rank = b->rank - rank;
			c->batch_dims = b->dims;
			c->batch = elements(b->dims, c->batch_rank, 1);
		}
		if (results && c->unused & 1U << i) {
			*DIM('y') = *DIM('z') = -1;
			shape.dims = "yz";
		}
		if (c->batch_rank < 0 || c->batch < 0 ||
		    !fits(c, &shape, b, !results || shape.dims != p->dims))
			return wrong(c, &shape, b, what, i);
		arrays[i].size = elements(b->dims, b->rank, 1) * (int64_t)size_of(c, p);
		arrays[i].step = elements(b->dims + c->batch_rank, rank, 1) *
				 (int64_t)size_of(c, p);
		arrays[i].data = b->data;
		if (!b->data && arrays[i].size)
			return lapack_fail(c->frame, c->target,
					   PJRTFS_FFI_INVALID_ARGUMENT,
					   "%s %lld (%s) has no memory", what,
					   (long long)i, p->name);
	}
	return NULL;
}

static struct pjrtfs_ffi_error *take_attrs(struct call *c)
{
	const struct attr *a = c->routine->attrs;

	for (int i = 0; i < MAX_ATTRS && a[i].name; i++) {
		enum pjrtfs_ffi_dtype dtype = a[i].letters ? PJRTFS_FFI_U8 : a[i].dtype;
		const void *value = pjrtfs_ffi_scalar(c->frame, a[i].name, dtype);
		char letter;

		if (!value)
			return lapack_fail(c->frame, c->target,
					   PJRTFS_FFI_INVALID_ARGUMENT,
					   "the attribute %s : %s is missing", a[i].name,
					   dtype_name(dtype));
		if (dtype == PJRTFS_FFI_S32)
			memcpy(&c->numbers[i], value, sizeof(int32_t));
		else if (dtype == PJRTFS_FFI_PRED)
			c->numbers[i] = *(const uint8_t *)value != 0;
		if (!a[i].letters)
			continue;
		letter = *(const char *)value;
		c->letters[i] = letter;
		if (letter && strchr(a[i].letters, letter))
			continue;
		if (letter && a[i].unsupported && strchr(a[i].unsupported, letter))
			return lapack_fail(c->frame, c->target, PJRTFS_FFI_UNIMPLEMENTED,
					   "the attribute %s: %c is not implemented, "
					   "only one of %s",
					   a[i].name, letter, a[i].letters);
		return lapack_fail(c->frame, c->target, PJRTFS_FFI_INVALID_ARGUMENT,
				   "the attribute %s: expected one of the letters %s, "
				   "found %d",
				   a[i].name, a[i].letters, *(const uint8_t *)value);
	}
	return NULL;
}

static struct pjrtfs_ffi_error *take_arguments(struct call *c)
{
	const struct routine *r = c->routine;
	struct pjrtfs_ffi_error *e = take_attrs(c);

	if (!e)
		e = take(c, "operand", &c->frame->operands, r->operands, MAX_OPERANDS,
			 c->in);
	if (e)
		return e;
	*DIM('k') = *DIM('m') < *DIM('n') ? *DIM('m') : *DIM('n');
	*DIM('e') = *DIM('n') > 0 ? *DIM('n') - 1 : 0;
	if (r->check)
		r->check(c);
	if (c->why[0])
		return lapack_fail(c->frame, c->target, PJRTFS_FFI_INVALID_ARGUMENT, "%s",
				   c->why);
	return take(c, "result", &c->frame->results, r->results, MAX_RESULTS, c->out);
}

/* The copies are first: zeros must not destroy an operand that the program aliases in its own way. */
static void fill_results(struct call *c)
{
	const struct param *p = c->routine->results;
	int n = (int)c->frame->results.n;

	for (int i = 0; i < n; i++)
		if (p[i].from && c->out[i].size && OUT(i) != IN(p[i].from - 1))
			memcpy(OUT(i), IN(p[i].from - 1), (size_t)c->out[i].size);
	for (int i = 0; i < n; i++)
		if (!p[i].from && c->out[i].size)
			memset(OUT(i), 0, (size_t)c->out[i].size);
}

/*
 * Let LAPACK say how much WORK makes it fast: it answers in the first element.  A float cannot hold
 * each number from 2^24 on, and may have been rounded down.
 */
static void ask(struct call *c)
{
	_Alignas(16) char answers[N_WORK][16] = { { 0 } };
	double optimum;

	for (int i = 0; i < N_WORK; i++) {
		c->work[i] = answers[i];
		c->len[i] = -1;
	}
	c->routine->run(c);
	if (real_sizes[c->type] == sizeof(float)) {
		float f;

		memcpy(&f, answers[WORK], sizeof(f));
		optimum = f >= 0x1p24F ? nextafterf(f, INFINITY) : f;
	} else {
		memcpy(&optimum, answers[WORK], sizeof(optimum));
	}
	if (optimum > (double)c->count[WORK] && optimum <= INT32_MAX)
		c->count[WORK] = (int64_t)optimum;
}

/* All pieces in one allocation, which the caller frees: *ALL. */
static struct pjrtfs_ffi_error *allocate(struct call *c, char **all)
{
	const size_t size[N_WORK] = {
		[WORK] = sizes[c->type],   [RWORK] = real_sizes[c->type],
		[IWORK] = sizeof(int32_t), [COPY] = sizes[c->type],
		[LEFT] = sizes[c->type],   [RIGHT] = sizes[c->type]
	};
	size_t off[N_WORK], total = 0;

	for (int i = 0; i < N_WORK; i++)
		if (c->count[i] > INT32_MAX)
			return lapack_fail(
				c->frame, c->target, PJRTFS_FFI_INVALID_ARGUMENT,
				"the matrix is too large: LAPACK needs a workspace of "
				"%lld elements, and counts to %d",
				(long long)c->count[i], INT32_MAX);
	if (c->count[WORK])
		ask(c);
	for (int i = 0; i < N_WORK; i++) {
		off[i] = total;
		c->len[i] = (int32_t)c->count[i];
		total += ((size_t)c->count[i] * size[i] + 63) & ~(size_t)63;
	}
	/* As plugins allocate: a worker fails this instead of promising what the machine lacks. */
	*all = aligned_alloc(64, total + 64);
	if (!*all)
		return lapack_fail(c->frame, c->target, PJRTFS_FFI_RESOURCE_EXHAUSTED,
				   "no memory for LAPACK's workspace of %zu bytes",
				   total);
	for (int i = 0; i < N_WORK; i++)
		c->work[i] = *all + off[i];
	return NULL;
}

static void work_on_batch(struct call *c)
{
	int n_in = (int)c->frame->operands.n, n_out = (int)c->frame->results.n;

	for (int64_t i = 0; i < c->batch; i++) {
		c->routine->run(c);
		for (int j = 0; j < n_in; j++)
			c->in[j].data += c->in[j].step;
		for (int j = 0; j < n_out; j++)
			c->out[j].data += c->out[j].step;
	}
}

struct pjrtfs_ffi_error *lapack_call(struct pjrtfs_ffi_frame *frame, const char *target,
				     const struct routine *routine, enum type type,
				     lapack_fn *fn)
{
	struct call call = { .frame = frame,
			     .target = target,
			     .routine = routine,
			     .fn = fn,
			     .type = type,
			     .batch_rank = -1 },
		    *c = &call;
	struct pjrtfs_ffi_error *e;
	char *all = NULL;
	bool empty;

	if (pjrtfs_ffi_asked(frame))
		return NULL;
	memset(c->dim, 0xff, sizeof(c->dim));
	e = take_arguments(c);
	if (e)
		return e;
	/* The first result is the matrix: LAPACK has nothing to do if it is empty. */
	empty = c->batch == 0 || c->out[0].step == 0;
	if (routine->needs && !empty) {
		routine->needs(c);
		e = allocate(c, &all);
		if (e)
			return e;
	}
	fill_results(c);
	if (!empty)
		work_on_batch(c);
	free(all);
	if (c->info < 0)
		return lapack_fail(frame, target, PJRTFS_FFI_INTERNAL,
				   "LAPACK refuses its argument %d", -c->info);
	return NULL;
}
