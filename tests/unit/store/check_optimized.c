/* SPDX-License-Identifier: Apache-2.0 */
/* The optimized program: as compiled, also after a death, and absent without a compile. */
#include "pjrtfs/executable.h"
#include "store_fixture.h"

static struct pf_err err;

static void open_all(void)
{
	open_arena();
	err = (struct pf_err)PF_ERR_INIT;
}

static void close_all(void)
{
	stop_worker();
	close_arena();
}

TEST_ON_PLUGINS(the_optimized_program_is_what_was_compiled)
{
	struct pf_program_facts facts;
	struct pf_signature *signature;
	struct pf_executable *x;
	struct pf_optimized *a, *b;

	start_worker(plugins[_i]);
	x = compiled(add_program);
	ck_assert_int_eq(pf_executable_optimized(x, 0, &a, &err), 0);
	ck_assert_int_eq(pf_executable_optimized(x, 0, &b, &err), 0);
	ck_assert_uint_eq(a->len, pf_executable_optimized_len(x));
	ck_assert_uint_eq(b->len, a->len);
	ck_assert_mem_eq(b->bytes, a->bytes, a->len);
	/* A module alone: it can be compiled as it is. */
	ck_assert_int_eq(pf_program_check(PF_PROGRAM_HLO, a->bytes, a->len, &facts, &err),
			 0);
	ck_assert_uint_eq(facts.off, 0);
	ck_assert_msg(pf_signature_parse(a->bytes, a->len, false, &signature, &err) == 0,
		      "%s", err.text);
	ck_assert_uint_eq(signature->n_inputs, 2);
	pf_signature_free(signature);
	pf_optimized_free(a);
	/* The program outlives the executable and the worker. */
	pf_executable_unref(x);
	kill_worker();
	ck_assert_int_eq(((const char *)b->bytes)[0], 0x0a);
	pf_optimized_free(b);
	pf_optimized_free(NULL);
}

TEST(without_a_compile_no_optimized_program_exists)
{
	struct pf_executable *x;
	struct pf_optimized *o;

	start_worker(plugins[0]);
	x = executable_of("module {");
	ck_assert_int_eq(pf_executable_optimized(x, 0, &o, &err), 0);
	ck_assert_ptr_null(o);
	ck_assert_int_lt(compile_it(x, &err), 0);
	ck_assert_int_eq(pf_executable_optimized(x, 0, &o, &err), 0);
	ck_assert_ptr_null(o);
	ck_assert_uint_eq(pf_executable_optimized_len(x), 0);
	pf_executable_unref(x);
}

TEST(after_a_death_the_program_is_compiled_again)
{
	struct pf_executable *x;
	struct pf_optimized *o;

	start_worker(plugins[0]);
	x = compiled(add_program);
	replace_worker();
	ck_assert_msg(pf_executable_optimized(x, 0, &o, &err) == 0, "%s", err.text);
	ck_assert_ptr_nonnull(o);
	ck_assert_uint_eq(o->len, pf_executable_optimized_len(x));
	pf_optimized_free(o);
	pf_executable_unref(x);
}

UNIT_FIXTURE(open_all, close_all)
