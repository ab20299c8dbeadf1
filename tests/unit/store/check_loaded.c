/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled programs: what keeps and what drops them, their HLO, and the worker's death. */
#include "values_fixture.h"

/* The loaded program, without waiting; a reference. */
static struct pf_loaded *load(void)
{
	struct pf_loaded *l = NULL;
	struct event ready;

	for (int i = 0; i < 3; i++) {
		int r = pf_executable_load(x, 0, event_init(&ready), &l, &err);

		ck_assert_msg(r >= 0, "%s", err.text);
		if (r == 1)
			break;
		event_wait(&ready);
	}
	ck_assert_ptr_nonnull(l);
	return l;
}

/* --- what keeps and what drops them ---------------------------------------------------- */

TEST(a_run_keeps_its_program)
{
	struct pf_loaded *l;

	start_faulty("");
	x = compiled(add_program);
	l = load();
	rewrite(add_program);
	compile_it(x);
	pf_executable_unref(pf_steal(&x));
	ck_assert_uint_eq(l->signature->n_inputs, 2);
	pf_loaded_unref(l);
}

enum { MANY = 12, LIMIT = 4 }; /* programs; those that a worker may hold */

static void check_held(void)
{
	ck_assert_uint_le(pf_worker_alive(worker, PF_ALIVE_EXECUTABLES, PF_NO_DEVICE),
			  LIMIT);
}

/* Beyond the limit the worker drops what was used longest ago, and gets it back when it is used;
 * what is in use it keeps. */
TEST(a_worker_holds_a_limited_number_of_programs)
{
	struct pf_executable *many[MANY];
	struct pf_loaded *first = NULL;
	char text[512];

	start_worker(plugins[0]);
	pf_loaded_limit(LIMIT);
	for (int i = 0; i < MANY; i++) {
		/* Equal programs at one time would be one to the worker. */
		ck_assert_int_lt(snprintf(text, sizeof(text), "%s// %d\n", add_program,
					  i),
				 (int)sizeof(text));
		many[i] = compiled(text);
		if (i == 0)
			first = pf_executable_loaded(many[0]);
		check_held();
	}
	ck_assert_ptr_nonnull(first);
	for (int i = 0; i < MANY; i++) {
		struct pf_loaded *l = pf_executable_loaded(many[i]);

		ck_assert(l || (i != 0 && i != MANY - 1));
		ck_assert(!l || i != 1);
		pf_loaded_unref(l);
		ck_assert_int_eq(pf_executable_state(many[i]), PF_EXECUTABLE_READY);
	}
	for (int i = 0; i < MANY; i++) {
		struct pf_value *args[] = { matrix(counts), matrix(ones) };

		pf_value_unref(result_of(many[i], args, 2));
		check_held();
	}
	pf_loaded_unref(first);
	for (int i = 0; i < MANY; i++)
		pf_executable_unref(many[i]);
	/* A thread may still drop the reference that it computed with. */
	for (int ms = 0;
	     ms < 10000 && pf_worker_alive(worker, PF_ALIVE_EXECUTABLES, PF_NO_DEVICE);
	     ms++)
		usleep(1000);
	ck_assert_uint_eq(pf_worker_alive(worker, PF_ALIVE_EXECUTABLES, PF_NO_DEVICE), 0);
	pf_loaded_limit(0);
}

/* --- the optimized program ------------------------------------------------------------- */

static struct pf_optimized *optimized(void)
{
	struct pf_optimized *o;
	bool mlir;

	ok(pf_executable_optimized(x, 0, false, &o, &err));
	ck_assert_uint_eq(o ? o->len : 0, pf_executable_optimized_len(x, &mlir));
	ck_assert(!mlir);
	return o;
}

TEST_ON_PLUGINS(the_optimized_program_is_what_was_compiled)
{
	struct pf_program_facts facts;
	struct pf_signature *signature;
	struct pf_optimized *a, *b;

	start_worker(plugins[_i]);
	x = compiled(add_program);
	a = optimized();
	b = optimized();
	ck_assert_uint_eq(b->len, a->len);
	ck_assert_mem_eq(b->bytes, a->bytes, a->len);
	/* A module alone: it can be compiled as it is. */
	ok(pf_program_check(PF_PROGRAM_HLO, a->bytes, a->len, &facts, &err));
	ck_assert_uint_eq(facts.off, 0);
	ok(pf_signature_parse(pf_shared_of(a->bytes, a->len), false, &signature, &err));
	ck_assert_uint_eq(signature->n_inputs, 2);
	pf_signature_free(signature);
	pf_optimized_free(a);
	/* The program outlives the executable and the worker. */
	pf_executable_unref(pf_steal(&x));
	kill_worker();
	ck_assert_int_eq(((const char *)b->bytes)[0], 0x0a);
	pf_optimized_free(b);
	pf_optimized_free(NULL);
}

TEST(without_a_compile_no_optimized_program_exists)
{
	start_worker(plugins[0]);
	x = executable_of("module {");
	ck_assert_ptr_null(optimized());
	ck_assert_int_lt(try_compile(x), 0);
	ck_assert_ptr_null(optimized());
}

/* --- the worker's death -------------------------------------------------------------- */

TEST(a_death_causes_another_compile)
{
	struct pf_loaded *old, *l;
	struct pf_optimized *o;

	start_worker(plugins[0]);
	x = compiled(add_program);
	old = load();
	replace_worker();
	l = load();
	ck_assert_ptr_ne(l, old);
	ck_assert(pf_instance_alive(l->instance));
	ck_assert(!pf_instance_alive(old->instance));
	pf_loaded_unref(l);
	pf_loaded_unref(old);
	replace_worker();
	o = optimized();
	ck_assert_ptr_nonnull(o);
	pf_optimized_free(o);
}

TEST(a_compile_that_kills_the_worker_says_so)
{
	start_faulty("compile=abort:Check failed: no");
	x = executable_of(add_program);
	ck_assert_int_eq(try_compile(x), -EIO);
	ck_assert_ptr_nonnull(strstr(err.text, "died of signal 6"));
	ck_assert_ptr_nonnull(strstr(err.text, "Check failed: no"));
	ck_assert_int_eq(pf_executable_state(x), PF_EXECUTABLE_FAILED);
	setenv("PJRTFS_FAULTY", "", 1);
	pf_instance_unref(next_instance(NULL));
	replace_worker(); /* the first one may have begun with the fault */
	compile_it(x);
}

TEST(a_compile_waits_for_the_next_instance)
{
	struct pf_instance *instance;

	start_faulty("");
	x = executable_of(add_program);
	replace_worker();
	kill_worker();
	while ((instance = pf_worker_instance(worker, NULL))) {
		pf_instance_unref(instance);
		usleep(100);
	}
	compile_it(x);
}

TEST(without_a_worker_no_program_compiles)
{
	start_faulty("");
	x = executable_of(add_program);
	pf_worker_stop(worker);
	ck_assert_int_eq(try_compile(x), -EIO);
	ck_assert_int_eq(pf_executable_state(x), PF_EXECUTABLE_FAILED);
}

/* A restart does not compile a source that is not committed. */
TEST(a_death_commits_nothing)
{
	start_worker(plugins[0]);
	x = compiled(add_program);
	ck_assert_int_eq(pf_executable_write(x, "module { half a", 15, 0, &err), 15);
	pf_loaded_unref(load());
	replace_worker();
	pf_loaded_unref(load());
}

/* A name without an extension holds no program: load must not say that there is one. */
TEST(a_scratch_file_does_not_load_after_a_death)
{
	struct pf_loaded *l = NULL;
	struct event ready;

	start_faulty("");
	x = compiled(add_program);
	pf_executable_set_format(x, PF_PROGRAM_NONE);
	replace_worker();
	ck_assert(pf_executable_load(x, 0, event_init(&ready), &l, &err) != 1 || l);
	pf_loaded_unref(l);
}

UNIT_FIXTURE(open_values, close_values)
