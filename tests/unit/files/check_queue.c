/* SPDX-License-Identifier: Apache-2.0 */
/* What users see of executions that run, wait or are left, and of plugins that do not work. */
#include "fs_fixture.h"

#include <stdio.h>

enum { SLOTS = 4, N = SLOTS + 3, OTHER = 1002 };

static const struct pf_cred god, owner = { .uid = OWNER }, user = { .uid = USER },
				 other = { .uid = OTHER };
static const struct pf_kind kind_secret = { .mode = S_IFREG | 0600 };
static const unsigned first_device;
static struct pf_sched_request requests[N];
static int n_requests;
static struct pf_node *secret; /* the owner's, in executables/ */

static void set_up(void)
{
	open_arena();
	open_fs(NULL);
	secret = pf_node_new(fs->tree, &kind_secret, NULL, (mode_t)-1, NULL);
	ck_assert_int_eq(pf_dir_link(fs->executables, "secret", secret, false), 0);
	n_requests = 0;
}

static void tear_down(void)
{
	struct pf_sched *sched = pf_worker_sched(worker);

	while (n_requests--) {
		pf_sched_dequeue(sched, &requests[n_requests]);
		pf_sched_release(sched, &requests[n_requests]);
	}
	pf_dir_unlink(secret);
	pf_node_unref(secret);
	close_fs();
}

static void granted(struct pf_sched_request *request)
{
	(void)request;
}

/* UID's execution of "add" on the first device, of which no client has waited for LEFT_S. */
static struct pf_sched_request *execute(uid_t uid, int left_s)
{
	struct pf_sched_request *r = &requests[n_requests++];

	*r = (struct pf_sched_request){
		.user = uid,
		.queues = &first_device,
		.n_queues = 1,
		.granted = granted,
		.work = { .done = 1, .of = 3, .stage = PF_STAGE_RUNNING, .name = "add" }
	};
	if (left_s)
		r->work.left = pf_now_ms() - left_s * 1000;
	return r;
}

static void start(struct pf_sched_request *r)
{
	pf_sched_acquire(pf_worker_sched(worker), r);
}

/* The text of PATH as CRED sees it. */
static void show(const char *path, const struct pf_cred *cred, struct pf_buf *out)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *at = pf_node_ref(pf_tree_root(fs->tree));
	char part[64];
	int n;

	for (; sscanf(path, "%63[^/]%n", part, &n) == 1; path += n + !!path[n]) {
		struct pf_node *next = pf_dir_lookup(at, part);

		pf_node_unref(at);
		at = next;
	}
	ck_assert_int_eq(at->kind->show_as(at, cred, out, NULL), 0);
}

/* The first device's queue as CRED sees it, without the third word of each line, a time. */
static void expect_queue(const struct pf_cred *cred, const char *want)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	pf_autobuf struct pf_buf lines = PF_BUF_INIT;
	char *save = NULL, state[16];
	unsigned uid;
	int n;

	show("devices/test/0/queue", cred, &text);
	for (char *line = strtok_r(text.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		ck_assert_int_eq(sscanf(line, "%u %15s %*f %n", &uid, state, &n), 2);
		pf_buf_printf(&lines, "%u %s %s\n", uid, state, line + n);
	}
	ck_assert_str_eq(lines.data ? lines.data : "", want);
}

TEST(users_take_turns_behind_those_that_run)
{
	unsigned running, queued;

	for (int i = 0; i < N; i++)
		start(execute(i == N - 1 ? OWNER : USER, 0));
	expect_queue(&user, "1001 running 0 1/3 add\n1001 running 0 1/3 add\n"
			    "1001 running 0 1/3 add\n1001 running 0 1/3 add\n"
			    "1001 waiting 1 1/3 add\n1000 waiting 2 1/3 -\n"
			    "1001 waiting 3 1/3 add\n");
	files_count_executions(&fs->devices[0], &running, &queued);
	ck_assert_uint_eq(running, SLOTS);
	ck_assert_uint_eq(queued, N - SLOTS);
}

/* Who sees which name of the user's execution of the owner's secret, called "add" when it began. */
static const struct {
	const struct pf_cred *cred;
	const char *line;
} names[] = {
	{ &god, "1001 running 0 1/3 secret\n" },
	{ &owner, "1001 running 0 1/3 secret\n" },
	{ &user, "1001 running 0 1/3 add\n" },
	{ &other, "1001 running 0 1/3 -\n" },
};

TEST_EACH(a_name_is_for_those_who_may_see_it, names)
{
	struct pf_sched_request *r = execute(USER, 0);

	r->work.subject = secret->ino;
	start(r);
	expect_queue(names[_i].cred, names[_i].line);
}

/* An execution that no client has waited for during LEFT_S (0: one waits), and --abandoned-timeout. */
static const struct {
	int left_s;
	uint64_t abandoned_ms;
	const struct pf_cred *cred;
	const char *name, *end; /* of the line; NULL: there is none */
} lefts[] = {
	{ 0, 0, &god, NULL, NULL },
	{ 20, 0, &god, NULL, NULL },
	{ 70, 0, &god, "add", "to end it, kill the process plugins/test/pid\n" },
	{ 70, 0, &user, "add", "to end it, kill the process plugins/test/pid\n" },
	{ 70, 0, &other, "-", "to end it, kill the process plugins/test/pid\n" },
	{ 20, 3000000, &god, NULL, NULL },
	{ 55, 3000000, &god, "add",
	  "after 3000 s (--abandoned-timeout) the process of plugin test ends\n" },
};

TEST_EACH(health_names_what_no_client_awaits, lefts)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	char want[256] = "ok\n";
	int s = 0;

	fs->config.abandoned_ms = lefts[_i].abandoned_ms;
	start(execute(USER, lefts[_i].left_s));
	show("health", lefts[_i].cred, &text);
	sscanf(text.data, "executable %*s no client has waited for %d s", &s);
	if (lefts[_i].end)
		snprintf(want, sizeof(want),
			 "executable %s: no client has waited for %d s for an execution "
			 "of user 1001, which runs on test:0; %s",
			 lefts[_i].name, s, lefts[_i].end);
	ck_assert_str_eq(text.data, want);
	ck_assert_int_ge(s, lefts[_i].end ? lefts[_i].left_s : 0);
}

TEST(health_names_plugins_that_do_not_work)
{
	static const struct pf_failed_plugin failed = { .name = "tpu" };
	pf_autobuf struct pf_buf text = PF_BUF_INIT;

	fs->config.failed = &failed;
	fs->config.n_failed = 1;
	pf_worker_stop(worker);
	show("health", &user, &text);
	ck_assert_str_eq(text.data, "plugin test has failed\nplugin tpu has failed\n");
}

UNIT_FIXTURE(set_up, tear_down)
