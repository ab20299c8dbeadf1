/* SPDX-License-Identifier: Apache-2.0 */
/* Executables: sources, options, and superseded compiles. */
#include "values_fixture.h"

static void check_state(const char *state)
{
	ck_assert_str_eq(pf_executable_state_name(pf_executable_state(x)), state);
}

/* --- compiling ----------------------------------------------------------------------- */

TEST_ON_PLUGINS(a_source_becomes_a_runnable_program)
{
	pf_autobuf struct pf_buf signature = PF_BUF_INIT, info = PF_BUF_INIT;
	struct json_object *o;
	struct pf_loaded *l;

	start_worker(plugins[_i]);
	x = executable_of(add_program);
	check_state("empty");
	pf_executable_signature(x, &signature);
	ck_assert_str_eq(signature.data, "{}\n");
	ck_assert_int_eq(pf_executable_load(x, 0, NULL, &l, &err), -ENOENT);
	ck_assert_str_eq(err.text,
			 "its file in programs/ is empty, or was not closed yet");
	compile_it(x);
	check_state("ready");
	l = pf_executable_loaded(x);
	ck_assert_ptr_nonnull(l);
	ck_assert_uint_eq(l->signature->n_inputs, 2);
	ck_assert_uint_eq(l->signature->n_outputs, 1);
	ck_assert_uint_eq(l->n_devices, 1);
	pf_loaded_unref(l);
	pf_buf_consume(&signature, signature.len);
	pf_executable_signature(x, &signature);
	ck_assert_ptr_nonnull(strstr(signature.data, "\"inputs\":["));
	o = pf_executable_json(x);
	pf_json_print_line(o, &info);
	json_object_put(o);
	ck_assert_ptr_nonnull(strstr(info.data, "\"state\":\"ready\""));
	ck_assert_ptr_eq(strchr(info.data, '\n'), info.data + info.len - 1);
}

static const struct {
	const char *source;
	enum pf_program_format format;
	int want; /* 1: nothing to do; 2: some error */
	const char *state;
} sources[] = {
	{ "", PF_PROGRAM_MLIR, 1, "empty" },
	{ add_program, PF_PROGRAM_NONE, 1, "empty" },
	{ "module {", PF_PROGRAM_MLIR, 2, "failed" },
	{ add_program, PF_PROGRAM_MLIRBC, -EINVAL, "failed" },
	{ "ML\xefRxxxx", PF_PROGRAM_MLIR, -EINVAL, "failed" },
	{ "garbage", PF_PROGRAM_HLO, 2, "failed" },
};

TEST_EACH(a_file_without_a_program_fails, sources)
{
	struct pf_loaded *l = NULL;
	int r;

	start_worker(plugins[0]);
	x = executable_of(sources[_i].source);
	pf_executable_set_format(x, sources[_i].format);
	r = try_compile(x);
	if (sources[_i].want == 2)
		ck_assert_int_lt(r, 0);
	else
		ck_assert_int_eq(r, sources[_i].want);
	check_state(sources[_i].state);
	if (r < 0) {
		struct pf_err again = PF_ERR_INIT;

		ck_assert_int_eq(pf_executable_result(x, &again), r);
		ck_assert_str_eq(again.text, err.text);
		ck_assert_int_eq(pf_executable_load(x, 0, NULL, &l, &again), r);
		ck_assert_int_eq(strncmp(again.text, "it did not compile: ", 20), 0);
	}
	rewrite(add_program);
	pf_executable_set_format(x, PF_PROGRAM_MLIR);
	compile_it(x);
}

TEST(a_failed_source_leaves_the_program_before)
{
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *before = NULL;
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *l = NULL;
	struct pf_err why = PF_ERR_INIT;
	int r;

	start_worker(plugins[0]);
	x = compiled(add_program);
	before = pf_executable_known(x);
	rewrite("module {");
	check_state("ready");
	r = try_compile(x);
	ck_assert_int_lt(r, 0);
	check_state("ready");
	ck_assert_int_eq(pf_executable_result(x, &why), r);
	ck_assert_int_eq(pf_executable_load(x, 0, NULL, &l, &err), 1);
	ck_assert_ptr_eq(l, before);
	rewrite(add_program);
	compile_it(x);
}

/* --- superseding --------------------------------------------------------------------- */

/* Wait until no compile runs or waits. */
static void compiles_end(void)
{
	struct pf_sched_entry entry;

	while (pf_compiler_list(compiler, &entry, 1))
		usleep(1000);
}

/* Begin a compile, which goes on until let_go. */
static void begin_compile(struct event *ended)
{
	start_held("compile=held");
	x = executable_of(add_program);
	ok(pf_executable_compile(x, ended ? event_init(ended) : NULL, &err));
}

/* Executions wait for a compile whose own client waits no more. */
TEST(the_program_before_runs_while_a_request_waits_for_a_compile)
{
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *l = NULL;
	struct event unawaited, awaited;

	start_held("");
	x = compiled(add_program);
	set_faults("compile=held");
	ok(pf_executable_compile(x, NULL, &err));
	ck_assert_int_eq(pf_executable_load(x, 0, event_init(&unawaited), &l, &err), 0);
	ok(pf_executable_compile(x, event_init(&awaited), &err));
	ck_assert(event_within(&unawaited, 0));
	ck_assert_int_eq(pf_executable_load(x, 0, NULL, &l, &err), 1);
	let_go();
	event_wait(&awaited);
	compiles_end();
}

TEST(the_newest_source_is_compiled)
{
	struct event first, second;

	begin_compile(&first);
	ck_assert_int_eq(pf_executable_result(x, &err), -EINPROGRESS);
	check_state("compiling");
	ok(pf_executable_compile(x, event_init(&second), &err));
	ck_assert(event_within(&first, 0)); /* woken by the second, not by its end */
	check_state("compiling");
	let_go();
	event_wait(&second);
	ok(pf_executable_result(x, &err));
	compiles_end();
	ck_assert_int_eq(event_count(&first), 1);
	ck_assert_int_eq(event_count(&second), 1);
	check_state("ready");
}

TEST(emptying_ends_a_compile)
{
	struct event ended;

	begin_compile(&ended);
	ok(pf_executable_truncate(x, 0, &err));
	event_wait(&ended);
	check_state("empty");
	ck_assert_int_eq(pf_executable_result(x, &err), -ECANCELED);
	let_go();
	compiles_end();
	check_state("empty");
}

TEST(a_compile_can_be_abandoned)
{
	struct event ended, again;

	start_held("compile=held");
	x = executable_of(add_program);
	ck_assert(!pf_executable_abandon(x)); /* nothing is compiled yet */
	check_state("empty");
	ok(pf_executable_compile(x, event_init(&ended), &err));
	pf_executable_abandon(x);
	ck_assert(event_within(&ended, 0));
	check_state("failed");
	ck_assert_int_eq(pf_executable_result(x, &err), -ECANCELED);
	ck_assert_str_eq(err.text, "its compile was cancelled");
	ck_assert(!pf_executable_abandon(x));
	let_go();
	/* The source is there still. */
	ok(pf_executable_compile(x, event_init(&again), &err));
	event_wait(&again);
	check_state("ready");
	ck_assert(!pf_executable_abandon(x));
	check_state("ready");
	ck_assert_int_eq(event_count(&ended), 1);
}

TEST(unloading_leaves_the_source)
{
	struct pf_loaded *l;
	uint64_t len;

	start_faulty("");
	x = compiled(add_program);
	pf_wake_all(pf_executable_unload(x));
	check_state("empty");
	ck_assert_int_eq(pf_executable_load(x, 0, NULL, &l, &err), -ENOENT);
	pf_bytes_unref(pf_executable_source(x, &len));
	ck_assert_uint_eq(len, strlen(add_program));
}

TEST(a_compile_outlives_its_executable)
{
	begin_compile(NULL);
	pf_executable_unref(pf_steal(&x));
	let_go();
	compiles_end();
}

/* --- the source ---------------------------------------------------------------------- */

/* Writes change neither the bytes that are being compiled nor neighbouring bytes. */
TEST(writing_while_it_compiles_copies)
{
	static char padding[20000];
	struct event ended;
	struct pf_bytes *before, *near, *now;
	uint64_t len, now_len;

	start_held("compile=held");
	x = executable_of(add_program);
	memset(padding, ' ', sizeof(padding));
	ck_assert_int_eq(pf_executable_write(x, padding, sizeof(padding),
					     strlen(add_program), &err),
			 sizeof(padding));
	ok(pf_executable_compile(x, event_init(&ended), &err));
	before = pf_executable_source(x, &len);
	ok(pf_bytes_new(arena, NULL, 256, &near, &err));
	memset(pf_bytes_at(near, 0), 'n', 256);
	ck_assert_int_eq(pf_executable_write(x, "M", 1, 0, &err), 1);
	now = pf_executable_source(x, &now_len);
	ck_assert_ptr_ne(now, before);
	ck_assert_uint_eq(now_len, len);
	ck_assert_uint_ge(now->extent.len, len);
	ck_assert_int_eq(*(char *)pf_bytes_at(before, 0), 'm');
	ck_assert_int_eq(*(char *)pf_bytes_at(now, 0), 'M');
	ck_assert_mem_eq((char *)pf_bytes_at(before, 1), (char *)pf_bytes_at(now, 1),
			 len - 1);
	for (int i = 0; i < 256; i++)
		ck_assert_int_eq(*(char *)pf_bytes_at(near, (uint64_t)i), 'n');
	let_go();
	event_wait(&ended);
	pf_bytes_unref(near);
	pf_bytes_unref(before);
	pf_bytes_unref(now);
}

TEST(sources_may_come_in_pieces)
{
	size_t len = strlen(add_program);
	struct pf_bytes *source;
	uint64_t n;

	start_faulty("");
	x = executable_of("");
	for (size_t at = len; at-- > 0;)
		ck_assert_int_eq(pf_executable_write(x, add_program + at, 1, at, &err),
				 1);
	source = pf_executable_source(x, &n);
	ck_assert_uint_eq(n, len);
	ck_assert_mem_eq(pf_bytes_at(source, 0), add_program, len);
	pf_bytes_unref(source);
	ok(pf_executable_truncate(x, len + 100, &err));
	source = pf_executable_source(x, &n);
	for (uint64_t i = len; i < len + 100; i++)
		ck_assert_int_eq(*(char *)pf_bytes_at(source, i), 0);
	pf_bytes_unref(source);
	ok(pf_executable_truncate(x, len, &err));
	compile_it(x);
	ck_assert_int_eq(pf_executable_write(x, "x", 1, INT64_MAX, &err), -EFBIG);
	ck_assert_int_eq(pf_executable_write(x, "x", 1, FIXTURE_LIMIT * 2, &err),
			 -ENOSPC);
	ck_assert_int_eq(pf_executable_truncate(x, FIXTURE_LIMIT * 2, &err), -ENOSPC);
	check_state("ready");
}

/* --- options ------------------------------------------------------------------------- */

static const struct {
	const char *text;
	int want;
} options[] = {
	{ "", 0 },           { " \n", 0 },
	{ "{}", 0 },         { "[]", -EINVAL },
	{ "{", -EINVAL },    { "7", -EINVAL },
	{ "null", -EINVAL }, { "{\"no_such_option\":1}", -EINVAL },
};

TEST_EACH(options_are_checked, options)
{
	start_faulty("");
	x = executable_of(add_program);
	ck_assert_int_eq(pf_executable_set_options(x, options[_i].text,
						   strlen(options[_i].text), false, &err),
			 options[_i].want);
	ck_assert_int_eq(x->options_err.code, options[_i].want);
	compile_it(x);
	/* The defaults are always right. */
	ok(pf_executable_set_options(x, NULL, 0, false, &err));
	ck_assert_int_eq(x->options_err.code, 0);
}

UNIT_FIXTURE(open_values, close_values)
