/* SPDX-License-Identifier: Apache-2.0 */
/* Values, executables and executions for tests of the store. */
#ifndef PJRTFS_TESTS_UNIT_VALUES_FIXTURE_H
#define PJRTFS_TESTS_UNIT_VALUES_FIXTURE_H

#include "store_fixture.h"

#include "store/internal.h"

#include "err_fixture.h"

/* What most tests need one of; close_values drops both. */
static struct pf_executable *x;
static struct pf_value *v;

static inline void open_values(void)
{
	open_arena();
	err = (struct pf_err)PF_ERR_INIT;
}

static inline void close_values(void)
{
	pf_value_unref(pf_steal(&v));
	pf_executable_unref(pf_steal(&x));
	close_store();
}

static inline uint64_t used(void)
{
	uint64_t n, limit;

	pf_arena_usage(arena, &n, &limit);
	return n;
}

/* Start the plugin of tests/faults/plugin, which fails as FAULT says. */
static inline void start_faulty(const char *fault)
{
	setenv("PJRTFS_FAULTY", fault, 1);
	start_worker(faulty_plugin());
}

static char fault_file[] = "/tmp/check_faults.XXXXXX";

/* The same, but only until let_go: "compile=held" holds compiles. */
static inline void start_held(const char *fault)
{
	int fd;

	strcpy(fault_file, "/tmp/check_faults.XXXXXX");
	fd = mkstemp(fault_file);
	ck_assert_int_eq(write(fd, fault, strlen(fault)), (ssize_t)strlen(fault));
	close(fd);
	setenv("PJRTFS_FAULTY_FILE", fault_file, 1);
	start_worker(faulty_plugin());
	unsetenv("PJRTFS_FAULTY_FILE");
}

/* It fails as FAULT says from now on. */
static inline void set_faults(const char *fault)
{
	FILE *f = fopen(fault_file, "w");

	ck_assert_ptr_nonnull(f);
	fputs(fault, f);
	fclose(f);
}

static inline void let_go(void)
{
	ck_assert_int_eq(unlink(fault_file), 0);
}

/* A value of an array of DTYPE with LEN bytes from SRC, in the arena. */
static inline struct pf_value *value_of(enum pf_dtype dtype, const struct pf_shape *shape,
					const void *src, size_t len, unsigned device)
{
	struct pf_bytes *bytes;
	struct pf_value *value;

	ok(pf_bytes_new(arena, NULL, len, &bytes, &err));
	memcpy(pf_bytes_at(bytes, 0), src, len);
	value = pf_value_of_bytes(&(struct pf_array_type){ dtype, shape, len }, bytes, 0,
				  (struct pf_place){ worker, device, PF_DEFAULT_MEMORY });
	pf_bytes_unref(bytes);
	ck_assert_ptr_nonnull(value);
	return value;
}

/* F32[2,3] on the first device. */
static inline struct pf_value *matrix(const float *src)
{
	struct pf_shape shape = { .rank = 2, .dims = { 2, 3 } };

	return value_of(PF_DTYPE_F32, &shape, src, 24, 0);
}

/* Bring VALUE to its device and wait; 1 or, in err, why not. */
static inline int try_place(struct pf_value *value)
{
	struct event placed;
	int r = pf_value_transfer(value, event_init(&placed), &err);

	if (r)
		return r;
	event_wait(&placed);
	return pf_value_placed(value, &err);
}

static inline void place_value(struct pf_value *value)
{
	ck_assert_msg(try_place(value) == 1, "%s", err.text);
}

/* The same to host memory. */
static inline int try_fetch(struct pf_value *value, struct pf_err *why)
{
	struct event fetched;
	int r = pf_value_fetch(value, event_init(&fetched), why);

	if (r)
		return r;
	event_wait(&fetched);
	return pf_value_fetched(value, why);
}

static inline const void *fetch_value(struct pf_value *value)
{
	ck_assert_msg(try_fetch(value, &err) == 1, "%s", err.text);
	return pf_value_host(value);
}

/* Compile what EXECUTABLE has and wait; 0 or, in err, why not. */
static inline int try_compile(struct pf_executable *executable)
{
	struct event compiled;
	int r = pf_executable_compile(executable, event_init(&compiled), &err);

	if (r)
		return r;
	event_wait(&compiled);
	return pf_executable_result(executable, &err);
}

static inline void compile_it(struct pf_executable *executable)
{
	ck_assert_msg(try_compile(executable) == 0, "%s", err.text);
}

/* A new executable with the source TEXT; not compiled. */
static inline struct pf_executable *executable_of(const char *text)
{
	const struct pf_executable_config config = { .workers = &worker,
						     .n_workers = 1,
						     .arena = arena,
						     .compiler = the_compiler() };
	struct pf_executable *executable = pf_executable_new(&config, 0);

	ck_assert_ptr_nonnull(executable);
	pf_executable_set_format(executable, PF_PROGRAM_MLIR);
	ck_assert_msg(pf_executable_write(executable, text, strlen(text), 0, &err) ==
			      (ssize_t)strlen(text),
		      "%s", err.text);
	return executable;
}

static inline struct pf_executable *compiled(const char *text)
{
	struct pf_executable *executable = executable_of(text);

	compile_it(executable);
	return executable;
}

/* A program whose result is the numbers from 0 to N - 1. */
static inline struct pf_executable *compiled_count(int n)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "module @count {\n"
		 "  func.func public @main(%%x: tensor<2x3xf32>, %%y: tensor<2x3xf32>)\n"
		 "      -> tensor<%dxf32> {\n"
		 "    %%0 = stablehlo.iota dim = 0 : tensor<%dxf32>\n"
		 "    return %%0 : tensor<%dxf32>\n"
		 "  }\n"
		 "}\n",
		 n, n, n);
	return compiled(text);
}

static inline void check_count(const float *numbers, int n)
{
	int wrong = 0;

	for (int i = 0; i < n; i++)
		wrong += numbers[i] != (float)i;
	ck_assert_int_eq(wrong, 0);
}

/* TEXT becomes x's source, in place of what that was. */
static inline void rewrite(const char *text)
{
	ok(pf_executable_truncate(x, 0, &err));
	ck_assert_int_eq(pf_executable_write(x, text, strlen(text), 0, &err),
			 (ssize_t)strlen(text));
}

/* An execution and its end. */
struct named_exec {
	struct pf_execution *e;
	struct event ended;
	int code;
	struct pf_err err;
	float small[6]; /* of a result that is transient */
};

static inline void run_done(struct pf_execution *e, int code, const struct pf_err *why)
{
	struct named_exec *run = e->user;

	run->code = code;
	if (code < 0)
		run->err = *why;
	else if (e->n_outs && e->outs[0].transient &&
		 e->outs[0].len == sizeof(run->small))
		memcpy(run->small, e->outs[0].data, sizeof(run->small));
	event_fire(&run->ended);
}

/* Prepare EXECUTABLE with N arguments, called a, b, ... if there are ARGS, and OUTS results. */
static inline struct pf_execution *run_init(struct named_exec *run,
					    struct pf_executable *executable,
					    struct pf_value **args, size_t n, size_t outs)
{
	static const char *const names[] = { "a", "b", "c", "d" };

	memset(run, 0, sizeof(*run));
	event_init(&run->ended);
	run->e = pf_execution_new(executable, n, 1);
	ck_assert_ptr_nonnull(run->e);
	run->e->name = strdup("prog");
	for (size_t i = 0; args && i < n; i++) {
		run->e->args[i].value = pf_value_ref(args[i]);
		run->e->args[i].name = names[i];
	}
	run->e->want_outs = outs;
	run->e->user = run;
	run->e->done = run_done;
	return run->e;
}

static inline int run_it(struct named_exec *run)
{
	pf_execution_start(run->e, true);
	event_wait(&run->ended);
	ck_assert_int_eq(event_count(&run->ended), 1);
	return run->code;
}

/* The one result of EXECUTABLE for the N ARGS, which are dropped. */
static inline struct pf_value *result_of(struct pf_executable *executable,
					 struct pf_value **args, size_t n)
{
	struct pf_value *out;
	struct named_exec run;

	run_init(&run, executable, args, n, 1);
	ck_assert_msg(run_it(&run) == 0, "%s", run.err.text);
	ck_assert_uint_eq(run.e->n_outs, 1);
	out = pf_steal(&run.e->outs[0].value);
	pf_execution_free(run.e);
	for (size_t i = 0; i < n; i++)
		pf_value_unref(args[i]);
	return out;
}

#endif
