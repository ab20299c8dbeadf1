/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks: one answer each, timeouts, waits; jobs: their states, limits and rights. */
#include "files/jobs/jobs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pjrtfs/json.h"
#include "unit.h"

enum { TOO_LONG_MS = 20000, OWNER = 1000, USER = 1001, OTHER = 1002 };

static const struct pf_kind kind_top = { .mode = S_IFDIR | 0755 };
static struct pf_fs *fs;
static _Atomic int n_freed;

/* A task that keeps its answer.  It lives until the test has ended. */
struct toy {
	struct task task;
	bool cancelled;
	_Atomic int answers;
	int code;
	char text[512]; /* of the answer */
};

static struct toy *toy_of(struct task *task)
{
	return pf_container_of(task, struct toy, task);
}

static bool toy_cancelled(struct task *task)
{
	return toy_of(task)->cancelled;
}

static void toy_answer(struct task *task, const struct pf_err *err,
		       struct json_object *reply)
{
	struct toy *toy = toy_of(task);

	toy->code = err ? err->code : 0;
	snprintf(toy->text, sizeof(toy->text), "%s", pf_json_text(reply));
	json_object_put(reply);
	toy->answers++;
}

static void toy_free(struct task *task)
{
	(void)task;
	n_freed++;
}

static const struct task_ops toy_ops = { .cancelled = toy_cancelled,
					 .answer = toy_answer,
					 .free = toy_free };

/* A new task of user UID in *TOY. */
static struct task *make(struct toy *toy, uid_t uid)
{
	const struct pf_cred cred = { .uid = uid, .gid = uid };

	memset(toy, 0, sizeof(*toy));
	task_init(&toy->task, &toy_ops, pf_tree_root(fs->tree), &cred);
	return &toy->task;
}

static void expect_answer(struct toy *toy, int code, const char *part)
{
	for (int ms = 0; !toy->answers && ms < TOO_LONG_MS; ms++)
		usleep(1000);
	ck_assert_int_eq(toy->answers, 1);
	ck_assert_int_eq(toy->code, code);
	ck_assert_msg(strstr(toy->text, part) != NULL, "no %s in %s", part, toy->text);
}

/* Timers may hold the last references. */
static void expect_freed(int n)
{
	for (int ms = 0; n_freed < n && ms < TOO_LONG_MS; ms++)
		usleep(1000);
	ck_assert_int_eq(n_freed, n);
}

static void set_up(void)
{
	n_freed = 0;
	fs = calloc(1, sizeof(*fs));
	fs->config.uid = OWNER;
	fs->config.telemetry = pf_telemetry_new(OWNER, 0, 0);
	fs->timers = pf_timers_new();
	ck_assert_int_eq(pf_arena_new(UINT64_C(1) << 30, &fs->config.arena, NULL), 0);
	ck_assert_int_eq(pf_quotas_new(OWNER, NULL, 0, NULL, &fs->quotas, NULL), 0);
	fs->tree = pf_tree_new(&kind_top, fs, OWNER, OWNER);
	ck_assert_int_eq(files_add_jobs(fs), 0);
}

static void tear_down(void)
{
	pf_timers_free(fs->timers);
	files_free_jobs(fs);
	pf_tree_free(fs->tree);
	pf_quotas_free(fs->quotas);
	pf_arena_free(fs->config.arena);
	pf_telemetry_free(fs->config.telemetry);
	free(fs);
}

/* --- tasks ------------------------------------------------------------------------------ */

TEST(a_task_is_answered_once)
{
	struct toy toy, early;
	struct task *task = make(&toy, USER);
	struct json_object *o = json_tokener_parse("{\"id\":[7]}");

	ck_assert_int_eq(task_set_id(task, o, NULL), 0);
	json_object_put(o);
	ck_assert_int_eq(task_set_timeout(task, 5, "it goes on", NULL), 0);
	expect_answer(&toy, -ETIMEDOUT, "it did not end within 5 ms; it goes on");
	ck_assert_ptr_nonnull(strstr(toy.text, "\"id\":[7]"));
	ck_assert(task_answered(task) && task_cancelled(task));
	task_done(task, NULL, reply_new());
	ck_assert_int_eq(toy.answers, 1);
	/* One that ends in time disarms its timer, which has a reference. */
	task = make(&early, USER);
	ck_assert_int_eq(task_set_timeout(task, TOO_LONG_MS, "", NULL), 0);
	task_done(task, NULL, reply_new());
	expect_answer(&early, 0, "{\"ok\":true}");
	expect_freed(2);
}

struct pause {
	struct task_wait wait;
	bool on_list;
	_Atomic int cancelled;
};

static bool pause_leave(struct task_wait *wait)
{
	struct pause *p = pf_container_of(wait, struct pause, wait);
	bool was = p->on_list;

	p->on_list = false;
	return was;
}

static void pause_cancelled(struct task_wait *wait)
{
	pf_container_of(wait, struct pause, wait)->cancelled++;
}

static void begin(struct pause *p, struct task *task)
{
	*p = (struct pause){ { task, pause_leave, pause_cancelled, "another goes on" },
			     true,
			     0 };
	task_wait_begin(&p->wait);
}

TEST(a_timeout_ends_a_wait)
{
	struct toy toy;
	struct task *task = make(&toy, USER);
	struct pause pause;

	begin(&pause, task);
	ck_assert_int_eq(task_set_timeout(task, 5, "late", NULL), 0);
	expect_answer(&toy, -ETIMEDOUT, "within 5 ms; another goes on");
	for (int ms = 0; !pause.cancelled && ms < TOO_LONG_MS; ms++)
		usleep(1000);
	ck_assert_int_eq(pause.cancelled, 1);
	task_done(task, NULL, reply_new());
	expect_freed(1);
}

/* The task may be cancelled between its last check and its wait, or while it is being woken. */
TEST(a_cancelled_task_does_not_wait)
{
	struct toy whole, step;
	struct task *task = make(&whole, USER), *part = make(&step, USER);
	struct pause pause;

	part->whole = task_ref(task);
	begin(&pause, part);
	task_wait_check(part);
	ck_assert_int_eq(pause.cancelled, 0);
	step.cancelled = true;
	task_wait_check(part);
	ck_assert_int_eq(pause.cancelled, 1);
	/* The whole is unqueued with its step, unless that is being woken. */
	begin(&pause, part);
	pause.on_list = false;
	task_leave_queue(task);
	ck_assert_int_eq(pause.cancelled, 0);
	pause.on_list = true;
	task_leave_queue(task);
	ck_assert_int_eq(pause.cancelled, 1);
	begin(&pause, part);
	task_wait_end(part);
	task_leave_queue(task);
	ck_assert_int_eq(pause.cancelled, 0);
	task_done(part, NULL, reply_new());
	task_done(task, NULL, reply_new());
	ck_assert_int_eq(n_freed, 2);
}

/* --- jobs ------------------------------------------------------------------------------- */

static int keep(struct task *job, void *arg, struct pf_err *err)
{
	(void)err;
	*(struct task **)arg = job;
	return 0;
}

/* Start job NUMBER of UID, whose task is returned. */
static struct task *start(uid_t uid, unsigned number)
{
	struct task *job = NULL;
	char part[32];
	struct toy toy;

	snprintf(part, sizeof(part), "\"job\":%u}", number);
	ck_assert_int_eq(job_start(make(&toy, uid), "{}", keep, &job, NULL), 0);
	expect_answer(&toy, 0, part);
	return job;
}

/* Does jobs/JOB/FILE begin with TEXT?  NULL: it does not exist. */
static void expect_file(const char *job, const char *file, const char *text)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *jobs = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	pf_autobuf struct pf_buf out = PF_BUF_INIT;

	jobs = pf_dir_lookup(pf_tree_root(fs->tree), "jobs");
	dir = pf_dir_lookup(jobs, job);
	ck_assert_int_eq(dir != NULL, text != NULL);
	if (!text)
		return;
	node = pf_dir_lookup(dir, file);
	ck_assert_int_eq(node->kind->show(node, &out, NULL), 0);
	ck_assert_msg(strncmp(out.data, text, strlen(text)) == 0, "%s: %s", file,
		      out.data);
}

static int command(command_op *op, struct task *task, const char *text,
		   struct pf_err *err)
{
	struct json_object *o = json_tokener_parse(text);
	int r = op(task, o, err);

	json_object_put(o);
	return r;
}

TEST(states_of_a_job)
{
	struct task *job = start(USER, 1);
	struct toy before, after;
	struct pf_err err = PF_ERR_INIT;

	expect_file("1", "state", "queued\n");
	expect_file("1", "request.json", "{}\n");
	task_began(job);
	expect_file("1", "state", "running\n");
	ck_assert_int_eq(command(op_wait, make(&before, USER), "{\"job\":1}", NULL), 0);
	ck_assert_int_eq(before.answers, 0);
	task_done(job, NULL, reply_new());
	expect_answer(&before, 0, "\"state\":\"done\"");
	ck_assert_int_eq(command(op_wait, make(&after, OWNER), "{\"job\":1}", NULL), 0);
	expect_answer(&after, 0, "\"result\":{\"ok\":true}");
	expect_file("1", "result.json", "{\"job\":1,\"state\":\"done\",\"user\":1001,");
	pf_err_set(&err, -EINVAL, "wrong");
	task_fail(start(USER, 2), &err);
	expect_file("2", "state", "failed\n");
	pf_err_set(&err, -ECANCELED, "enough");
	task_fail(start(USER, 3), &err);
	expect_file("3", "state", "cancelled\n");
}

TEST(commands_about_jobs_are_checked)
{
	static const struct {
		const char *text;
		int r;
		const char *sentence;
	} bad[] = {
		{ "{}", -EINVAL, "\"job\" is missing" },
		{ "{\"job\":0}", -EINVAL, "expected a whole number from 1" },
		{ "{\"job\":1,\"jobs\":1}", -EINVAL, "unknown key \"jobs\"" },
		{ "{\"job\":2}", -ENOENT, "there is no job 2" },
		{ "{\"job\":1}", -EACCES, "job 1 is another user's" },
	};
	struct task *job = start(USER, 1), *task;
	struct pf_err err = PF_ERR_INIT;
	struct toy toy;

	task = make(&toy, OTHER);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		ck_assert_int_eq(command(op_wait, task, bad[i].text, &err), bad[i].r);
		ck_assert_msg(strstr(err.text, bad[i].sentence) != NULL, "%s", err.text);
		ck_assert_int_eq(command(op_cancel, task, bad[i].text, &err), bad[i].r);
	}
	ck_assert_int_eq(command(op_wait, task, "{\"job\":1,\"force\":true}", &err),
			 -EINVAL);
	ck_assert_int_eq(command(op_wait, job, "{\"job\":1}", &err), -EDEADLK);
	ck_assert_str_eq(err.text, "job 1 would wait for itself");
	task_done(task, NULL, reply_new());
	task_done(job, NULL, reply_new());
}

TEST(jobs_that_wait_for_each_other)
{
	struct task *first = start(USER, 1), *second = start(USER, 2);
	struct pf_err err = PF_ERR_INIT;
	struct toy toy;

	ck_assert_int_eq(command(op_wait, first, "{\"job\":2}", NULL), 0);
	ck_assert_int_eq(command(op_wait, second, "{\"job\":1}", &err), -EDEADLK);
	ck_assert_str_eq(err.text, "job 2 would wait for itself, by way of others");
	/* A cancel ends the wait, and then the other may wait. */
	ck_assert_int_eq(command(op_cancel, make(&toy, USER), "{\"job\":1}", NULL), 0);
	expect_answer(&toy, 0, "\"state\":\"cancelled\"");
	expect_file("1", "state", "cancelled\n");
	ck_assert_int_eq(command(op_wait, second, "{\"job\":1}", NULL), 0);
	expect_file("2", "state", "done\n");
}

TEST(numbers_of_jobs_are_limited)
{
	enum { MAX_OPEN = 10000, MAX_ENDED = 1000 };
	static struct task *jobs[MAX_OPEN];
	struct pf_err err = PF_ERR_INIT;
	struct task *job;
	struct toy toy;

	for (unsigned i = 0; i < MAX_OPEN; i++)
		jobs[i] = start(USER, i + 1);
	ck_assert_int_eq(job_start(make(&toy, USER), "{}", keep, &job, &err), -EDQUOT);
	ck_assert_msg(strstr(err.text, "10000 of 10000 jobs") != NULL, "%s", err.text);
	ck_assert_int_eq(toy.answers, 0); /* it is the caller's to answer */
	task_done(&toy.task, NULL, reply_new());
	task_done(start(OTHER, MAX_OPEN + 1), 0, reply_new());
	for (unsigned i = 0; i < MAX_ENDED; i++)
		task_done(jobs[i], NULL, reply_new());
	expect_file("10001", "state", NULL); /* the oldest is forgotten */
	expect_file("1", "state", "done\n");
	task_done(start(USER, MAX_OPEN + 2), 0, reply_new());
	expect_file("1", "state", NULL);
	for (unsigned i = MAX_ENDED; i < MAX_OPEN; i++)
		task_done(jobs[i], NULL, reply_new());
}

UNIT_FIXTURE(set_up, tear_down)

/* The numbers of jobs are those of a process. */
UNIT_FORKS
