/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes that do not match, sizes that LAPACK cannot count, memory that there is not. */
#include <sys/resource.h>

#include "lapack_fixture.h"

static const struct shape {
	const char *routine;
	char side; /* of trsm, and whether ormqr has Q on the left; 0: neither */
	/* A digit for each dimension. */
	const char *in[3], *out;
	const char *text;
} shapes[] = {
	{ "trsm",
	  'R',
	  { "33", "34" },
	  "34",
	  "operand 0 (a) has 3 rows; for side R and a 3 x 4 operand 1 (b), it must have "
	  "4" },
	{ "orgqr", 0, { "34", "3" }, "34", "found 3 rows, 4 columns, 3 reflectors" },
	{ "orgqr", 0, { "42", "3" }, "42", "found 4 rows, 2 columns, 3 reflectors" },
	{ "ormqr",
	  'R',
	  { "42", "2", "43" },
	  "43",
	  "operand 0 (a) is 4 x 2; with Q on the right of a 4 x 3 operand 2 (c), it must "
	  "have 3 rows" },
	{ "ormqr", 'L', { "45", "5", "43" }, "43", "operand 0 (a) is 4 x 5" },
};

/* Shapes that agree in their letters, and not with each other. */
TEST_EACH(shapes_that_do_not_match, shapes)
{
	const struct shape *s = &shapes[_i];
	struct call *c = call_new();

	for (int i = 0; i < 3 && s->in[i]; i++)
		operand(c, PJRTFS_FFI_F32, (int)strlen(s->in[i]), s->in[i][0] - '0',
			s->in[i][1] - '0');
	result(c, PJRTFS_FFI_F32, 2, s->out[0] - '0', s->out[1] - '0');
	letter(c, "side", s->side);
	attribute(c, "left", PJRTFS_FFI_PRED, s->side == 'L');
	letter(c, "diag", 'N');
	letter(c, "trans_x", 'N');
	letter(c, "uplo", 'L');
	attribute(c, "transpose", PJRTFS_FFI_PRED, 0);
	ck_assert(!call_lapack(c, &types[0], s->routine, s->routine));
	ck_assert_int_eq(the_error.code, PJRTFS_FFI_INVALID_ARGUMENT);
	ck_assert_msg(strstr(the_error.text, s->text) != NULL, "%s", the_error.text);
	call_free(c);
}

static struct call *syevd_call(int n)
{
	struct call *c = call_new();

	operand(c, PJRTFS_FFI_F64, 2, n, n);
	result(c, PJRTFS_FFI_F64, 2, n, n);
	result(c, PJRTFS_FFI_F64, 1, n);
	result(c, PJRTFS_FFI_S32, 0);
	letter(c, "mode", 'V');
	letter(c, "uplo", 'L');
	return c;
}

/* 1 + 6 n + 2 n n does not fit the integers of LAPACK: nothing is read. */
TEST(workspaces_that_LAPACK_cannot_count_are_refused)
{
	struct call *c = syevd_call(3);

	for (int i = 0; i < 2; i++)
		c->in[0].dims[i] = c->out[0].dims[i] = 40000;
	c->out[1].dims[0] = 40000;
	ck_assert(!call_target(c, "lapack_dsyevd_ffi"));
	ck_assert_int_eq(the_error.code, PJRTFS_FFI_INVALID_ARGUMENT);
	ck_assert_ptr_nonnull(
		strstr(the_error.text, "a workspace of 3200240001 elements"));
	call_free(c);
}

#ifndef PF_SANITIZE
TEST(no_memory_for_the_workspace)
{
	struct call *c = syevd_call(2000);
	long pages = 0;
	struct rlimit limit, low;
	FILE *f;

	f = fopen("/proc/self/statm", "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%ld", &pages), 1);
	fclose(f);
	ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
	/* Operands are copied by the fixture; LAPACK wants 64 MB. */
	low = limit;
	low.rlim_cur = (rlim_t)pages * 4096 + ((rlim_t)80 << 20);
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &low), 0);
	ck_assert(!call_target(c, "lapack_dsyevd_ffi"));
	ck_assert_int_eq(the_error.code, PJRTFS_FFI_RESOURCE_EXHAUSTED);
	ck_assert_ptr_nonnull(strstr(the_error.text, "no memory for LAPACK's workspace"));
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	call_free(c);
}
#endif
