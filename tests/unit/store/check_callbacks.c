/* SPDX-License-Identifier: Apache-2.0 */
/* Invocations of real programs and their hosts, which are this test. */
#include "values_fixture.h"

#include "pjrtfs/callback_host.h"

#define PROGRAM(body)                                                                    \
	"func.func public @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n" body "}\n"
#define CALL(types)                                                                      \
	"stablehlo.custom_call @pjrtfs_callback(%x) {has_side_effect = true, "           \
	"api_version = 4 : i32, backend_config = {index = 0 : ui64}} : " types "\n"

/* The result is what the host makes of the argument. */
static const char asks[] = PROGRAM("  %0 = " CALL(
	"(tensor<2x3xf32>) -> tensor<2x3xf32>") "  return %0 : tensor<2x3xf32>\n");

/* The host has no results to give. */
static const char tells[] =
	PROGRAM("  " CALL("(tensor<2x3xf32>) -> ()") "  return %x : tensor<2x3xf32>\n");

static struct pf_timers *timers;

/* A host, and what happened to it. */
struct host {
	struct pf_callback_host host;
	struct event given, ended, freed;
	const struct pf_invocation *had; /* the one that ended */
	char why[256];
};

static struct named_exec run;
static struct host a, b;

static struct host *of(struct pf_callback_host *host)
{
	return pf_container_of(host, struct host, host);
}

static void host_given(struct pf_callback_host *host)
{
	event_fire(&of(host)->given);
}

static void host_ended(struct pf_callback_host *host,
		       const struct pf_invocation *invocation, const char *why)
{
	/* The arguments are there until this returns. */
	ck_assert_mem_eq(invocation->args[0].data, counts, sizeof(counts));
	of(host)->had = invocation;
	snprintf(of(host)->why, sizeof(of(host)->why), "%s", why);
	event_fire(&of(host)->ended);
}

static void host_ready(struct pf_callback_host *host)
{
	(void)host;
}

static void host_free(struct pf_callback_host *host)
{
	event_fire(&of(host)->freed);
}

static const struct pf_callback_host_ops ops = {
	.given = host_given, .ended = host_ended, .ready = host_ready, .free = host_free
};

static void join(struct host *h)
{
	memset(h, 0, sizeof(*h));
	event_init(&h->given);
	event_init(&h->ended);
	event_init(&h->freed);
	h->host.ops = &ops;
	h->host.executable = x;
	pf_callback_host_join(&h->host);
}

/* The host, which has left, is freed. */
static void drop(struct host *h)
{
	pf_callback_host_unref(&h->host);
	event_wait(&h->freed);
}

static void part(struct host *h)
{
	pf_callback_host_leave(&h->host);
	drop(h);
}

/* The host asks for an invocation, which it will wait for. */
static void wait_for_one(struct host *h)
{
	ck_assert_ptr_null(pf_callback_host_take(&h->host));
}

/* Wait for the host's invocation, and see it. */
static const struct pf_invocation *take(struct host *h)
{
	const struct pf_invocation *i;

	for (int ms = 0; !(i = pf_callback_host_take(&h->host)) && ms < 60000; ms++)
		usleep(1000);
	ck_assert_ptr_nonnull(i);
	ck_assert_uint_eq(i->n_args, 1);
	ck_assert_mem_eq(i->args[0].data, counts, sizeof(counts));
	pf_callback_host_begin(&h->host);
	return i;
}

/* Answer with ones. */
static int give(struct host *h)
{
	struct pf_bytes *bytes;
	uint64_t off;
	int r;

	ok(pf_bytes_new(arena, NULL, sizeof(ones), &bytes, &err));
	memcpy(pf_bytes_at(bytes, 0), ones, sizeof(ones));
	off = pf_bytes_offset(bytes, 0);
	r = pf_callback_host_answer(&h->host, &off, bytes, &err);
	pf_bytes_unref(bytes);
	return r;
}

static void open_all(void)
{
	open_values();
	timers = pf_timers_new();
	ck_assert_ptr_nonnull(timers);
}

static void close_all(void)
{
	ck_assert_int_eq(x->callbacks.n_asked, 0);
	ck_assert(!x->callbacks.armed);
	close_values();
	pf_timers_free(timers);
}

static void prepare(const char *plugin, const char *program)
{
	start_worker(plugin);
	x = compiled(program);
	x->timers = timers;
}

static void start(struct named_exec *r)
{
	struct pf_value *arg = matrix(counts);

	pf_execution_start(run_init(r, x, &arg, 1, 1), false);
	pf_value_unref(arg);
}

static void gives(struct named_exec *r, const float *want)
{
	event_wait(&r->ended);
	ck_assert_msg(r->code == 0, "%s", r->err.text);
	ck_assert_mem_eq(fetch_value(r->e->outs[0].value), want, sizeof(counts));
	pf_execution_free(r->e);
}

static void fails(struct named_exec *r, int pjrt_code)
{
	event_wait(&r->ended);
	ck_assert_int_lt(r->code, 0);
	ck_assert_int_eq(r->err.pjrt_code, pjrt_code);
	pf_execution_free(r->e);
}

/* The host answers what it has: the program gives ones. */
static void answer(struct host *h)
{
	ck_assert_int_eq(give(h), 0);
	gives(&run, ones);
}

static void serve(struct host *h)
{
	take(h);
	answer(h);
}

TEST_ON_PLUGINS(a_host_answers)
{
	prepare(plugins[_i], asks);
	join(&a);
	wait_for_one(&a);
	ck_assert(!pf_callback_host_ready(&a.host));
	for (int i = 0; i < 3; i++) {
		start(&run);
		serve(&a);
		ck_assert_int_eq(give(&a), -EIO); /* it has nothing to answer */
	}
	part(&a);
}

TEST_ON_PLUGINS(a_host_fails)
{
	prepare(plugins[_i], asks);
	join(&a);
	start(&run);
	take(&a);
	ok(pf_callback_host_fail(&a.host, PF_PJRT_OUT_OF_RANGE, "no more", &err));
	event_wait(&run.ended);
	ck_assert_ptr_nonnull(strstr(run.err.text, "no more"));
	fails(&run, PF_PJRT_OUT_OF_RANGE);
	part(&a);
}

/* An invocation that a host has not begun goes to another one; one that it has begun fails. */
TEST_ON_PLUGINS(hosts_leave)
{
	prepare(plugins[_i], asks);
	join(&a);
	join(&b);
	wait_for_one(&a);
	wait_for_one(&b);
	start(&run);
	event_wait(&a.given); /* it waited first */
	ck_assert_int_eq(event_count(&b.given), 0);
	pf_callback_host_leave(&a.host);
	event_wait(&b.given);
	serve(&b);
	drop(&a);

	start(&run);
	take(&b);
	pf_callback_host_leave(&b.host);
	fails(&run, PF_PJRT_ABORTED);
	drop(&b);
}

/* The same of one that does not wait any more. */
TEST_ON_PLUGINS(hosts_stop)
{
	struct pf_callback_host *next;

	prepare(plugins[_i], asks);
	join(&a);
	join(&b);
	wait_for_one(&a);
	ck_assert_ptr_null(pf_callback_host_stop(&a.host));
	wait_for_one(&b);
	start(&run);
	event_wait(&b.given);
	ck_assert_int_eq(event_count(&a.given), 0);
	ck_assert(!pf_callback_host_ready(&a.host));
	wait_for_one(&a);
	next = pf_callback_host_stop(&b.host);
	ck_assert_ptr_eq(next, &a.host);
	pf_callback_host_notify(next);
	event_wait(&a.given);
	take(&a);
	ck_assert_ptr_null(pf_callback_host_stop(&a.host)); /* it has begun */
	answer(&a);
	part(&a);
	part(&b);
}

TEST_ON_PLUGINS(executions_are_cancelled)
{
	const struct pf_invocation *i;
	struct named_exec cancelled;

	prepare(plugins[_i], asks);
	join(&a);
	start(&cancelled);
	start(&run);
	i = take(&a);
	/* The host has that of either; the other one waits. */
	pf_execution_cancel_calls(cancelled.e);
	fails(&cancelled, PF_PJRT_CANCELLED);
	if (event_count(&a.ended)) {
		ck_assert_ptr_eq(a.had, i);
		ck_assert_ptr_nonnull(strstr(a.why, "cancelled"));
		ck_assert_int_eq(give(&a), -EIO);
		take(&a);
	}
	answer(&a);

	/* before it has called */
	start(&run);
	pf_execution_cancel_calls(run.e);
	fails(&run, PF_PJRT_CANCELLED);
	part(&a);
}

TEST_ON_PLUGINS(the_worker_dies)
{
	prepare(plugins[_i], asks);
	join(&a);
	start(&run);
	take(&a);
	kill_worker();
	fails(&run, -1);
	event_wait(&a.ended);
	ck_assert_int_eq(give(&a), -EIO);
	start(&run);
	serve(&a);
	part(&a);
}

TEST_ON_PLUGINS(nobody_is_there)
{
	prepare(plugins[_i], asks);
	start(&run);
	fails(&run, PF_PJRT_FAILED_PRECONDITION);
	/* a host that comes within the grace */
	start(&run);
	usleep(100000); /* real time: PF_CALLBACK_GRACE_MS is 5 s */
	join(&a);
	serve(&a);
	part(&a);
}

/* Without results and without an order, the program does not wait for a host, unless there is one. */
TEST_ON_PLUGINS(prints_end_without_a_host)
{
	prepare(plugins[_i], tells);
	start(&run);
	gives(&run, counts);
	join(&a);
	start(&run);
	ck_assert_uint_eq(take(&a)->n_results, 0);
	ck_assert_int_eq(event_count(&run.ended), 0);
	ok(pf_callback_host_answer(&a.host, NULL, NULL, &err));
	gives(&run, counts);
	part(&a);
}

UNIT_FIXTURE(open_all, close_all)
