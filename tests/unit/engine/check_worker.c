/* SPDX-License-Identifier: Apache-2.0 */
/* Workers as the daemon sees them: started, called, killed, started again, stopped. */
#include "engine_fixture.h"
#include "pjrtfs/array.h"

/* CompileOptionsProto: executable_build_options { num_replicas: 1 num_partitions: 1 }. */
static const char one_device[] = { 0x1a, 0x04, 0x20, 0x01, 0x28, 0x01 };

static const char add_scalars[] =
	"module @add {\n"
	"  func.func public @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {\n"
	"    %0 = stablehlo.add %a, %b : tensor<f32>\n"
	"    return %0 : tensor<f32>\n"
	"  }\n"
	"}\n";

/* --- starting ------------------------------------------------------------------------ */

static const struct {
	const char *program; /* NULL: the worker */
	const char *plugin;  /* NULL: the faulty one */
	const char *fault;
	int code;
	const char *why; /* in the sentence */
} starts[] = {
	{ "./no-such-worker", NULL, "", -ENOENT, "start ./no-such-worker: No such file" },
	{ "/dev/null", NULL, "", -EACCES, "start /dev/null: Permission denied" },
	{ "/bin/false", NULL, "", -EIO,
	  "the worker of plugin test exited with status 1" },
	{ "/bin/true", NULL, "", -EIO, "the worker of plugin test exited with status 0" },
	{ NULL, "/no/such/plugin.so", "", -ENOENT,
	  "/no/such/plugin.so: No such file or directory" },
	{ NULL, "/bin/sh", "", -ENOEXEC, "/bin/sh" },
	{ NULL, "libm.so.6", "", -ENOEXEC,
	  "libm.so.6: not a PJRT plugin: it has no function GetPjrtApi" },
	{ NULL, NULL, "api=null", -ENOEXEC, "the plugin's GetPjrtApi returned NULL" },
	{ NULL, NULL, "api=major", -ENOEXEC, "the plugin speaks PJRT 99." },
	{ NULL, NULL, "api=empty", -ENOEXEC,
	  "the plugin has no PJRT_Error_Destroy, which nothing works without" },
	{ NULL, NULL, "init=error:INTERNAL:bad init", -EIO, "bad init" },
	{ NULL, NULL, "init=exit:0", -EIO, "exited with status 0" },
	{ NULL, NULL, "client=error:RESOURCE_EXHAUSTED:full", -ENOSPC, "full" },
	{ NULL, NULL, "client=error:INVALID_ARGUMENT:what", -EINVAL, "what" },
	{ NULL, NULL, "client=abort:F0000 last words", -EIO,
	  "died of signal 6 (Aborted); it printed last: F0000 last words" },
	{ NULL, NULL, "client=exit:3", -EIO, "exited with status 3" },
};

TEST_EACH(a_start_that_fails_says_why, starts)
{
	struct pf_err err = PF_ERR_INIT;

	setenv("PJRTFS_FAULTY", starts[_i].fault, 1);
	ck_assert_int_eq(try_worker(starts[_i].program ? starts[_i].program
						       : worker_program(),
				    starts[_i].plugin ? starts[_i].plugin
						      : faulty_plugin(),
				    "test", &err),
			 starts[_i].code);
	ck_assert_int_eq(err.code, starts[_i].code);
	ck_assert_msg(strstr(err.text, starts[_i].why) != NULL, "%s", err.text);
	ck_assert_ptr_null(worker);
}

TEST_ON_PLUGINS(a_worker_describes_its_plugin)
{
	const struct pf_description *d;
	unsigned restarts;
	pid_t pid;

	start_worker(plugins[_i]);
	d = pf_worker_description(worker);
	ck_assert_str_eq(d->platform, "cpu");
	ck_assert_uint_eq(d->n_devices, 2);
	ck_assert_uint_gt(d->devices[0].n_memories, 0);
	ck_assert_str_eq(pf_worker_name(worker), "test");
	ck_assert_str_eq(pf_worker_path(worker), plugins[_i]);
	ck_assert_ptr_eq(pf_worker_arena(worker), arena);
	ck_assert_int_eq(pf_worker_state(worker), PF_WORKER_READY);
	ck_assert_str_eq(pf_worker_state_name(PF_WORKER_READY), "ready");
	pf_worker_pid(worker, &pid, &restarts);
	ck_assert_int_gt(pid, 0);
	ck_assert_uint_eq(restarts, 0);
	ck_assert_int_eq(kill(pid, 0), 0);
	ck_assert_int_eq(getpgid(pid), pid); /* Ctrl-C at the daemon is not for it */
	stop_worker();
	ck_assert_int_lt(kill(pid, 0), 0);
}

/* --- calls --------------------------------------------------------------------------- */

static int ask(struct pf_instance *instance, struct question *q, size_t reply_min,
	       void *req, size_t len, const void *tail, size_t tail_len)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_call *call = question_init(q, reply_min);

	return pf_instance_call(instance, call, req, len, tail, tail_len, &err);
}

static void start_compile(struct pf_instance *instance, struct question *q,
			  const struct pf_extent *program)
{
	struct pf_req_compile req = { .head.op = PF_OP_COMPILE,
				      .id = pf_worker_id(worker),
				      .program_off = program->off,
				      .program_len = strlen(add_scalars),
				      .format = "mlir",
				      .options_len = sizeof(one_device) };

	memcpy(pf_arena_at(arena, program->off), add_scalars, strlen(add_scalars));
	ck_assert_int_eq(ask(instance, q, sizeof(struct pf_rep_compile), &req,
			     sizeof(req), one_device, sizeof(one_device)),
			 0);
}

static struct pf_extent extent(uint64_t len)
{
	struct pf_extent e;

	ck_assert_int_eq(pf_arena_alloc(arena, len, &e, NULL), 0);
	return e;
}

static uint64_t upload(struct pf_instance *instance, struct question *q, uint64_t off,
		       float number)
{
	struct pf_req_buffer req = { .head.op = PF_OP_BUFFER_CREATE,
				     .id = pf_worker_id(worker),
				     .off = off,
				     .len = sizeof(number),
				     .dtype = PF_DTYPE_F32,
				     .memory = UINT32_MAX };

	*(float *)pf_arena_at(arena, off) = number;
	ck_assert_int_eq(ask(instance, q, sizeof(struct pf_rep_buffer), &req, sizeof(req),
			     NULL, 0),
			 0);
	event_wait(&q->answered);
	ck_assert_msg(q->code == 0, "%s", q->err.text);
	return req.id;
}

/* Compile, upload, execute on INSTANCE; the sum. */
static float add_on(struct pf_instance *instance, float x, float y)
{
	struct pf_req_execute req = {
		.head.op = PF_OP_EXECUTE,
		.device = UINT32_MAX,
		.n_args = 2,
		.n_outs = 1,
		.n_devices = 1,
	};
	struct pf_extent program = extent(strlen(add_scalars)), a = extent(4),
			 b = extent(4);
	struct question q;
	const struct pf_out *out = (void *)(q.reply + sizeof(struct pf_rep_execute));
	struct {
		uint64_t ids[3];
		uint32_t carry[2];
		uint8_t donate[2];
	} tail = { .donate = { 0 } };
	float sum;

	start_compile(instance, &q, &program);
	event_wait(&q.answered);
	ck_assert_msg(q.code == 0, "%s", q.err.text);
	pf_instance_free_block(instance, ((struct pf_rep_compile *)q.reply)->info_off);
	req.executable = pf_worker_id(worker) - 1;
	tail.ids[0] = upload(instance, &q, a.off, x);
	tail.ids[1] = upload(instance, &q, b.off, y);
	tail.ids[2] = pf_worker_id(worker);
	ck_assert_int_eq(ask(instance, &q, sizeof(struct pf_rep_execute) + sizeof(*out),
			     &req, sizeof(req), &tail,
			     pf_execute_bytes(2, 1, 1) - sizeof(req)),
			 0);
	pf_instance_spin(instance, &q.done, 100000);
	event_wait(&q.answered);
	ck_assert_msg(q.code == 0, "%s", q.err.text);
	ck_assert_uint_eq(out->where, PF_WHERE_INLINE);
	memcpy(&sum, q.reply + out->off, sizeof(sum));
	for (int i = 0; i < 3; i++)
		pf_instance_free_id(instance, PF_OP_BUFFER_FREE, tail.ids[i]);
	pf_instance_free_id(instance, PF_OP_EXECUTABLE_FREE, req.executable);
	pf_arena_give(arena, &program);
	pf_arena_give(arena, &a);
	pf_arena_give(arena, &b);
	return sum;
}

TEST_ON_PLUGINS(a_worker_computes)
{
	struct pf_instance *instance;

	start_worker(plugins[_i]);
	instance = pf_worker_instance(worker, NULL);
	ck_assert_float_eq(add_on(instance, 2, 3), 5);
	ck_assert_float_eq(add_on(instance, -1, 0.5f), -0.5f);
	pf_instance_unref(instance);
	stop_worker();
}

TEST(a_killed_worker_is_restarted)
{
	struct pf_instance *old, *instance;
	unsigned restarts;
	struct stat st;
	uint64_t id;
	pid_t pid;

	start_worker(plugins[0]);
	old = pf_worker_instance(worker, NULL);
	pid = worker_pid();
	id = pf_worker_id(worker);
	for (int i = 1; i <= 3; i++) {
		replace_worker();
		ck_assert(!pf_instance_alive(old));
		ck_assert_int_ne(worker_pid(), pid);
		pf_worker_pid(worker, &pid, &restarts);
		ck_assert_uint_eq(restarts, (unsigned)i);
		ck_assert_int_eq(pf_worker_state(worker), PF_WORKER_READY);
		ck_assert_uint_gt(pf_worker_id(worker), id);
		instance = pf_worker_instance(worker, NULL);
		ck_assert_ptr_nonnull(pf_instance_plugin(instance));
		ck_assert_int_eq(stat(plugins[0], &st), 0);
		ck_assert_uint_eq(pf_instance_plugin(instance)->st_ino, st.st_ino);
		ck_assert_int_eq(pf_instance_plugin(instance)->st_size, st.st_size);
		ck_assert_float_eq(add_on(instance, (float)i, 1), (float)i + 1);
		pf_instance_unref(instance);
	}
	pf_instance_unref(old);
	stop_worker();
}

/* --- the worker's death -------------------------------------------------------------- */

static const struct {
	const char *fault; /* of compile */
	bool kill;
	const char *why;
} deaths[] = {
	{ "compile=hang", true, "the worker of plugin test died of signal 9 (Killed)" },
	{ "compile=abort:Check failed: 1 == 2", false,
	  "the worker of plugin test died of signal 6 (Aborted); it printed last: Check failed: "
	  "1 == 2" },
	{ "compile=segv", false, "died of signal 11 (Segmentation fault)" },
	{ "compile=exit:42", false, "exited with status 42" },
};

TEST_EACH(running_calls_fail_with_the_stderr_tail, deaths)
{
	struct question q, late;
	struct pf_req_id req = { .head.op = PF_OP_BUFFER_READ, .id = 1 };
	struct pf_extent program;
	struct pf_instance *instance;

	setenv("PJRTFS_FAULTY", deaths[_i].fault, 1);
	start_worker(faulty_plugin());
	instance = pf_worker_instance(worker, NULL);
	program = extent(4096);
	start_compile(instance, &q, &program);
	if (deaths[_i].kill) {
		ck_assert(!event_within(&q.answered, 1));
		kill_worker();
	}
	event_wait(&q.answered);
	ck_assert_uint_eq(pf_instance_lost(instance, PF_OP_COMPILE), 1);
	ck_assert_uint_eq(pf_instance_lost(instance, PF_OP_LOAD), 0);
	ck_assert_int_eq(q.code, -EIO);
	ck_assert_int_eq(q.err.pjrt_code, -1);
	ck_assert_ptr_nonnull(strstr(q.err.text, deaths[_i].why));
	ck_assert_str_eq(strstr(q.err.text, deaths[_i].why), deaths[_i].why);
	ck_assert_int_eq(ask(instance, &late, 0, &req, sizeof(req), NULL, 0), -EIO);
	pf_instance_unref(instance);
	stop_worker();
	ck_assert_int_eq(event_count(&q.answered), 1);
	pf_arena_give(arena, &program);
}

/* --- another instance takes over ------------------------------------------------------ */

TEST(a_replacement_waits_for_calls_under_way)
{
	struct pf_instance *old, *instance = NULL;
	struct pf_extent program;
	struct question q;
	struct event next;
	unsigned restarts;
	pid_t pid;

	/* real time: a replacement that did not wait would end the call meanwhile */
	setenv("PJRTFS_FAULTY", "compile=late:1000", 1);
	start_worker(faulty_plugin());
	old = pf_worker_instance(worker, NULL);
	program = extent(4096);
	start_compile(old, &q, &program);
	pf_worker_replace(worker, 600000);
	pf_worker_replace(worker, 0); /* the first one counts */
	/* It serves who does not wait; the others get the next one. */
	ck_assert(pf_instance_alive(old));
	ck_assert(!pf_instance_serves(old));
	ck_assert_int_eq(pf_worker_await(worker, event_init(&next), &instance, NULL), 0);
	ck_assert_ptr_null(instance);
	event_wait(&next);
	ck_assert_int_eq(event_count(&q.answered), 1);
	ck_assert_msg(q.code == 0, "%s", q.err.text);
	ck_assert(!pf_instance_alive(old));
	ck_assert(!pf_instance_was_stopped(old));
	instance = pf_worker_instance(worker, NULL);
	ck_assert_ptr_nonnull(instance);
	ck_assert(pf_instance_serves(instance));
	pf_worker_pid(worker, &pid, &restarts);
	ck_assert_uint_eq(restarts, 1);
	pf_instance_unref(instance);
	pf_instance_unref(old);
	stop_worker();
	pf_arena_give(arena, &program);
}

TEST(a_replacement_ends_calls_that_take_too_long)
{
	struct pf_instance *old;
	struct pf_extent program;
	struct question q;

	setenv("PJRTFS_FAULTY", "compile=hang", 1);
	start_worker(faulty_plugin());
	old = pf_worker_instance(worker, NULL);
	program = extent(4096);
	start_compile(old, &q, &program);
	pf_worker_replace(worker, 1);
	event_wait(&q.answered);
	ck_assert_int_eq(q.code, -EIO);
	ck_assert_ptr_nonnull(strstr(q.err.text, "did not end in time"));
	ck_assert(pf_instance_was_stopped(old));
	pf_instance_unref(next_instance(old));
	pf_instance_unref(old);
	stop_worker();
	pf_arena_give(arena, &program);
}

TEST(callers_get_the_plugins_errors)
{
	struct question q;
	struct pf_extent program;
	struct pf_instance *instance;

	setenv("PJRTFS_FAULTY", "compile=error:UNIMPLEMENTED:no such op", 1);
	start_worker(faulty_plugin());
	instance = pf_worker_instance(worker, NULL);
	program = extent(4096);
	start_compile(instance, &q, &program);
	event_wait(&q.answered);
	ck_assert_int_eq(q.code, -EOPNOTSUPP);
	ck_assert_int_eq(q.err.pjrt_code, 12);
	ck_assert_ptr_nonnull(strstr(q.err.text, "no such op"));
	ck_assert(pf_instance_alive(instance));
	pf_instance_unref(instance);
	pf_arena_give(arena, &program);
	stop_worker();
}

TEST(stopping_ends_running_calls)
{
	static struct question q[40];
	struct pf_extent program;
	struct pf_err err = PF_ERR_INIT;
	struct pf_instance *instance;
	struct event waiting;

	setenv("PJRTFS_FAULTY", "compile=hang", 1);
	start_worker(faulty_plugin());
	instance = pf_worker_instance(worker, NULL);
	program = extent(4096);
	for (unsigned i = 0; i < ARRAY_SIZE(q); i++)
		start_compile(instance, &q[i], &program);
	pf_worker_stop(worker);
	pf_worker_stop(worker);
	for (unsigned i = 0; i < ARRAY_SIZE(q); i++) {
		ck_assert_int_eq(event_count(&q[i].answered), 1);
		ck_assert_int_eq(q[i].code, -EIO);
	}
	ck_assert_int_eq(pf_worker_state(worker), PF_WORKER_FAILED);
	ck_assert_ptr_null(pf_worker_instance(worker, &err));
	ck_assert_int_eq(err.code, -EIO);
	ck_assert_ptr_nonnull(strstr(err.text, "(it is not started again)"));
	ck_assert(!pf_worker_wait(worker, event_init(&waiting)));
	ck_assert_int_eq(worker_pid(), 0);
	pf_instance_unref(instance);
	stop_worker();
	pf_arena_give(arena, &program);
}

UNIT_FIXTURE(open_arena, close_arena)
