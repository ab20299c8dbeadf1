/* SPDX-License-Identifier: Apache-2.0 */
/* Values, executables and executions for tests of the store, on top of engine_fixture.h. */
#ifndef PJRTFS_TESTS_UNIT_STORE_FIXTURE_H
#define PJRTFS_TESTS_UNIT_STORE_FIXTURE_H

#include "engine_fixture.h"

#include "pjrtfs/execution.h"

static const char add_program[] =
	"module @add {\n"
	"  func.func public @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>)\n"
	"      -> tensor<2x3xf32> {\n"
	"    %0 = stablehlo.add %x, %y : tensor<2x3xf32>\n"
	"    return %0 : tensor<2x3xf32>\n"
	"  }\n"
	"}\n";

static const float ones[6] = { 1, 1, 1, 1, 1, 1 };
static const float counts[6] = { 1, 2, 3, 4, 5, 6 };

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

static inline void let_go(void)
{
	ck_assert_int_eq(unlink(fault_file), 0);
}

/* A value of an array of DTYPE with LEN bytes from SRC, in the arena. */
static inline struct pf_value *value_of(enum pf_dtype dtype, const struct pf_shape *shape,
					const void *src, size_t len, unsigned device)
{
	struct pf_bytes *bytes;
	struct pf_value *v;
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(pf_bytes_new(arena, NULL, len, &bytes, &err) == 0, "%s", err.text);
	memcpy(pf_bytes_at(bytes, 0), src, len);
	v = pf_value_of_bytes(dtype, shape, len, bytes, 0, worker, device, UINT32_MAX);
	pf_bytes_unref(bytes);
	ck_assert_ptr_nonnull(v);
	return v;
}

/* F32[2,3] on the first device. */
static inline struct pf_value *matrix(const float *src)
{
	struct pf_shape shape = { .rank = 2, .dims = { 2, 3 } };

	return value_of(PF_DTYPE_F32, &shape, src, 24, 0);
}

/* Bring V to its device and wait; 1 or why not. */
static inline int place_value(struct pf_value *v, struct pf_err *err)
{
	struct event placed;
	int r = pf_value_transfer(v, event_init(&placed), err);

	if (r)
		return r;
	event_wait(&placed);
	return pf_value_placed(v, err);
}

/* The same to host memory. */
static inline int fetch_value(struct pf_value *v, struct pf_err *err)
{
	struct event fetched;
	int r = pf_value_fetch(v, event_init(&fetched), err);

	if (r)
		return r;
	event_wait(&fetched);
	return pf_value_fetched(v, err);
}

/* Compile what X has and wait; 0 or why not. */
static inline int compile_it(struct pf_executable *x, struct pf_err *err)
{
	struct event compiled;
	int r = pf_executable_compile(x, event_init(&compiled), err);

	if (r)
		return r;
	event_wait(&compiled);
	return pf_executable_result(x, err);
}

static struct pf_compiler *compiler;
static struct pf_cache *cache; /* tests that want one open it first */

static inline struct pf_compiler *the_compiler(void)
{
	struct pf_compiler_config config = { .cache = cache };

	if (!compiler)
		ck_assert_int_eq(pf_compiler_new(&config, &compiler, NULL), 0);
	return compiler;
}

/* The workers go first, then what compiles on them, then the memory. */
static inline void close_store(void)
{
	if (compiler)
		pf_compiler_finish(compiler, 5000);
	stop_worker();
	pf_compiler_free(compiler);
	compiler = NULL;
	close_arena();
}

/* A new executable with the source TEXT; not compiled. */
static inline struct pf_executable *executable_of(const char *text)
{
	struct pf_executable *x = pf_executable_new(&worker, 1, arena, the_compiler());
	struct pf_err err = PF_ERR_INIT;

	ck_assert_ptr_nonnull(x);
	pf_executable_set_format(x, PF_PROGRAM_MLIR);
	ck_assert_msg(pf_executable_write(x, text, strlen(text), 0, &err) ==
			      (ssize_t)strlen(text),
		      "%s", err.text);
	return x;
}

static inline struct pf_executable *compiled(const char *text)
{
	struct pf_executable *x = executable_of(text);
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(compile_it(x, &err) == 0, "%s", err.text);
	return x;
}

/* An execution and its end. */
struct named_exec {
	struct pf_execution *e;
	struct event ended;
	int code;
	struct pf_err err;
};

static inline void run_done(struct pf_execution *e, int code, const struct pf_err *err)
{
	struct named_exec *run = e->user;

	run->code = code;
	if (code < 0)
		run->err = *err;
	event_fire(&run->ended);
}

/* Prepare X with N arguments, called a, b, ..., and OUTS results. */
static inline struct pf_execution *run_init(struct named_exec *run,
					    struct pf_executable *x,
					    struct pf_value **args, size_t n, size_t outs)
{
	static const char *const names[] = { "a", "b", "c", "d" };

	memset(run, 0, sizeof(*run));
	event_init(&run->ended);
	run->e = pf_execution_new(x, n, 1);
	ck_assert_ptr_nonnull(run->e);
	run->e->name = strdup("prog");
	for (size_t i = 0; i < n; i++) {
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

#endif
