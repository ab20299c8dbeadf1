/* SPDX-License-Identifier: Apache-2.0 */
/* Optimized programs in memory that another process changes while they are read. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "pjrtfs/program.h"
#include "unit.h"

enum { DIMS = 6000, PARSES = 2000 };

/* A module whose program shape has one argument, with the DIMS bytes at DIMS_AT of packed dimensions. */
static uint8_t module[DIMS + 64];
static size_t module_len, dims_at;
static atomic_bool over;

static size_t put_length(uint8_t *to, size_t n)
{
	to[0] = (uint8_t)(n | 0x80);
	to[1] = (uint8_t)(n >> 7);
	return 2;
}

static void make_module(void)
{
	size_t shape = 2 + 1 + 2 + DIMS, program = 1 + 2 + shape, n = 0;

	module[n++] = 4 << 3 | 2; /* host_program_shape */
	n += put_length(module + n, program);
	module[n++] = 1 << 3 | 2; /* parameters */
	n += put_length(module + n, shape);
	module[n++] = 2 << 3; /* element_type: F32 */
	module[n++] = 11;
	module[n++] = 3 << 3 | 2; /* dimensions */
	n += put_length(module + n, DIMS);
	dims_at = n;
	module_len = n + DIMS;
}

/* The dimensions become DIMS numbers of one byte, and a tenth as many of ten, by turns. */
static void *change(void *arg)
{
	volatile uint8_t *dims = module + dims_at;

	(void)arg;
	while (!over)
		for (int many = 0; many < 2; many++)
			for (unsigned i = 0; i < DIMS; i++)
				dims[i] = many || i % 10 == 9 ? 1 : 0x80;
	return NULL;
}

TEST(a_program_that_changes_while_it_is_read_is_refused)
{
	struct pf_signature *sig = NULL;
	pthread_t thread;

	make_module();
	ck_assert_int_eq(pthread_create(&thread, NULL, change, NULL), 0);
	for (int i = 0; i < PARSES; i++) {
		struct pf_err err = PF_ERR_INIT;

		ck_assert_int_eq(pf_signature_parse(pf_shared_of(module, module_len),
						    false, &sig, &err),
				 -EINVAL);
		ck_assert_msg(strstr(err.text, "more than 32 dimensions") != NULL ||
				      strstr(err.text, "malformed") != NULL,
			      "%s", err.text);
	}
	over = true;
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
