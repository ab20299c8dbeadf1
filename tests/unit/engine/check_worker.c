/* SPDX-License-Identifier: Apache-2.0 */
/* Workers as the daemon sees them: started, called, killed, started again, stopped. */
#include "engine_fixture.h"

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
	ck_assert_int_eq(pf_worker_state(worker), PF_WORKER_READY);
	pf_worker_pid(worker, &pid, &restarts);
	ck_assert_uint_eq(restarts, 0);
	ck_assert_int_eq(getpgid(pid), pid); /* Ctrl-C at the daemon is not for it */
	stop_worker();
	ck_assert_int_lt(kill(pid, 0), 0);
}

TEST(a_killed_worker_is_restarted)
{
	struct pf_instance *old, *instance;
	unsigned restarts;
	struct stat st;
	uint64_t id;
	pid_t pid;

	start_worker(faulty_plugin());
	old = pf_worker_instance(worker, NULL);
	ck_assert_int_eq(stat(faulty_plugin(), &st), 0);
	pid = worker_pid();
	id = pf_worker_id(worker);
	for (unsigned i = 1; i <= 3; i++) {
		replace_worker();
		ck_assert(!pf_instance_alive(old));
		ck_assert_int_ne(worker_pid(), pid);
		pf_worker_pid(worker, &pid, &restarts);
		ck_assert_uint_eq(restarts, i);
		ck_assert_int_eq(pf_worker_state(worker), PF_WORKER_READY);
		ck_assert_uint_gt(pf_worker_id(worker), id);
		instance = pf_worker_instance(worker, NULL);
		ck_assert_uint_eq(pf_instance_plugin(instance)->st_ino, st.st_ino);
		ck_assert_int_eq(pf_instance_plugin(instance)->st_size, st.st_size);
		pf_instance_unref(instance);
	}
	pf_instance_unref(old);
	stop_worker();
}

/* --- calls under way ------------------------------------------------------------------- */

/* CompileOptionsProto: executable_build_options { num_replicas: 1 num_partitions: 1 }. */
static const char one_device[] = { 0x1a, 0x04, 0x20, 0x01, 0x28, 0x01 };

static struct pf_instance *first;
static struct pf_extent program;

/* Have the first instance compile the program. */
static void start_compile(struct question *q)
{
	struct pf_req_compile req = { .head.op = PF_OP_COMPILE,
				      .id = pf_worker_id(worker),
				      .program_off = program.off,
				      .program_len = 6,
				      .format = "mlir",
				      .options_len = sizeof(one_device) };

	memcpy(pf_arena_at(arena, program.off), "module", 6);
	ck_assert_int_eq(pf_instance_call(first,
					  question_init(q, sizeof(struct pf_rep_compile)),
					  &req, sizeof(req), one_device,
					  sizeof(one_device), NULL),
			 0);
}

/* Start the plugin that does as FAULT says, and compile. */
static void begin(const char *fault, struct question *q)
{
	setenv("PJRTFS_FAULTY", fault, 1);
	start_worker(faulty_plugin());
	first = pf_worker_instance(worker, NULL);
	ck_assert_int_eq(pf_arena_alloc(arena, 4096, &program, NULL), 0);
	start_compile(q);
}

static void end(void)
{
	pf_instance_unref(first);
	stop_worker();
	pf_arena_give(arena, &program);
}

static const struct {
	const char *fault; /* of compile */
	bool kill;
	const char *why;
} deaths[] = {
	{ "compile=hang:it hangs", true,
	  "the worker of plugin test died of signal 9 (Killed); it printed last: it hangs" },
	{ "compile=abort:Check failed: 1 == 2", false,
	  "the worker of plugin test died of signal 6 (Aborted); it printed last: Check failed: "
	  "1 == 2" },
	{ "compile=segv", false, "died of signal 11 (Segmentation fault)" },
	{ "compile=exit:42", false, "exited with status 42" },
};

TEST_EACH(running_calls_fail_with_the_stderr_tail, deaths)
{
	struct pf_req_id req = { .head.op = PF_OP_BUFFER_READ, .id = 1 };
	struct question q, late;

	begin(deaths[_i].fault, &q);
	if (deaths[_i].kill) {
		await_print("it hangs");
		ck_assert_int_eq(event_count(&q.answered), 0);
		kill_worker();
	}
	event_wait(&q.answered);
	ck_assert_uint_eq(pf_instance_lost(first, PF_OP_COMPILE), 1);
	ck_assert_uint_eq(pf_instance_lost(first, PF_OP_LOAD), 0);
	ck_assert_int_eq(q.code, -EIO);
	ck_assert_int_eq(q.err.pjrt_code, -1);
	ck_assert_ptr_nonnull(strstr(q.err.text, deaths[_i].why));
	ck_assert_str_eq(strstr(q.err.text, deaths[_i].why), deaths[_i].why);
	ck_assert_int_eq(pf_instance_call(first, question_init(&late, 0), &req,
					  sizeof(req), NULL, 0, NULL),
			 -EIO);
	end();
	ck_assert_int_eq(event_count(&q.answered), 1);
}

TEST(stopping_ends_running_calls)
{
	static struct question q[40];
	struct pf_err err = PF_ERR_INIT;
	struct event waiting;

	begin("compile=hang", &q[0]);
	for (unsigned i = 1; i < ARRAY_SIZE(q); i++)
		start_compile(&q[i]);
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
	end();
}

/* --- another instance takes over ------------------------------------------------------ */

TEST(a_replacement_waits_for_calls_under_way)
{
	char faults[] = "/tmp/pjrtfs-faults.XXXXXX"; /* held until it is gone */
	int fd = mkstemp(faults);
	struct pf_instance *instance = NULL;
	struct question q;
	struct event next;
	unsigned restarts;
	pid_t pid;

	ck_assert_int_gt(dprintf(fd, "compile=held"), 0);
	setenv("PJRTFS_FAULTY_FILE", faults, 1);
	begin("", &q);
	unsetenv("PJRTFS_FAULTY_FILE");
	pf_worker_replace(worker, 600000);
	pf_worker_replace(worker, 0); /* the first one counts */
	/* It serves who does not wait; the others get the next one. */
	ck_assert(pf_instance_alive(first));
	ck_assert(!pf_instance_serves(first));
	ck_assert_int_eq(pf_worker_await(worker, event_init(&next), &instance, NULL), 0);
	ck_assert_ptr_null(instance);
	ck_assert_int_eq(event_count(&q.answered), 0);
	ck_assert_int_eq(unlink(faults), 0);
	close(fd);
	event_wait(&next);
	ck_assert_int_eq(event_count(&q.answered), 1);
	ck_assert_msg(q.code == 0, "%s", q.err.text);
	ck_assert(!pf_instance_alive(first));
	ck_assert(!pf_instance_was_stopped(first));
	instance = pf_worker_instance(worker, NULL);
	ck_assert_ptr_nonnull(instance);
	ck_assert(pf_instance_serves(instance));
	pf_worker_pid(worker, &pid, &restarts);
	ck_assert_uint_eq(restarts, 1);
	pf_instance_unref(instance);
	end();
}

TEST(a_replacement_ends_calls_that_take_too_long)
{
	struct question q;

	begin("compile=hang", &q);
	pf_worker_replace(worker, 1);
	event_wait(&q.answered);
	ck_assert_int_eq(q.code, -EIO);
	ck_assert_ptr_nonnull(strstr(q.err.text, "did not end in time"));
	ck_assert(pf_instance_was_stopped(first));
	pf_instance_unref(next_instance(first));
	end();
}

/* --- between two instances ------------------------------------------------------------- */

static void kill_and_notice(void)
{
	kill_worker();
	while (pf_worker_state(worker) == PF_WORKER_READY)
		usleep(1000);
}

/* pf_worker_await either gives an instance or wakes the waiter for the next one. */
TEST(a_caller_gets_an_instance_or_a_wait)
{
	struct event next;
	struct pf_instance *instance, *before = NULL;
	int waits = 0;

	start_worker(faulty_plugin());
	for (int i = 0; i < 3; i++) {
		kill_worker();
		for (;;) {
			int r = pf_worker_await(worker, event_init(&next), &instance,
						NULL);

			ck_assert_int_ge(r, 0);
			ck_assert_int_eq(instance != NULL, r);
			if (instance && instance != before)
				break;
			pf_instance_unref(instance);
			if (r == 0)
				event_wait(&next);
			else
				usleep(100); /* its death is not noticed yet */
			waits += r == 0;
		}
		pf_instance_unref(before);
		before = instance;
	}
	ck_assert_int_gt(waits, 0);
	pf_instance_unref(before);
	pf_worker_stop(worker);
	ck_assert_int_eq(pf_worker_await(worker, event_init(&next), &instance, NULL),
			 -EIO);
	stop_worker();
}

TEST(a_failed_start_and_a_stop_wake_the_waiters)
{
	struct event waiting;
	struct pf_err err = PF_ERR_INIT;

	start_worker(faulty_plugin());
	ck_assert(!pf_worker_wait(worker, event_init(&waiting)));
	setenv("PJRTFS_FAULTY", "client=error:INTERNAL:not today", 1);
	kill_and_notice();
	ck_assert_ptr_null(pf_worker_instance(worker, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "(it is being started again)"));
	/* The delay before each next start grows. */
	for (int i = 0; i < 2; i++) {
		ck_assert(pf_worker_wait(worker, event_init(&waiting)));
		event_wait(&waiting);
	}
	pf_worker_instance(worker, &err);
	ck_assert_msg(strstr(err.text, "not today") != NULL, "%s", err.text);
	ck_assert(pf_worker_wait(worker, event_init(&waiting)));
	pf_worker_stop(worker);
	ck_assert_int_eq(event_count(&waiting), 1);
	stop_worker();
}

/* A plugin that hangs while it is loaded again delays no unmount. */
TEST(stopping_ends_a_restart)
{
	struct event waiting;

	start_worker(faulty_plugin());
	setenv("PJRTFS_FAULTY", "client=hang:it hangs", 1);
	kill_and_notice();
	ck_assert(pf_worker_wait(worker, event_init(&waiting)));
	await_print("it hangs");
	pf_worker_stop(worker);
	ck_assert_int_eq(event_count(&waiting), 1);
	stop_worker();
}

UNIT_FIXTURE(open_arena, close_arena)
