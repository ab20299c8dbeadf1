/* SPDX-License-Identifier: Apache-2.0 */
/* Invocations of real programs and their hosts, which are this test. */
#include "store_fixture.h"

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

static void join(struct host *h, struct pf_executable *x)
{
	memset(h, 0, sizeof(*h));
	event_init(&h->given);
	event_init(&h->ended);
	event_init(&h->freed);
	h->host.ops = &ops;
	h->host.executable = x;
	pf_callback_host_join(&h->host);
}

/* The host leaves, if it has not LEFT, and is freed. */
static void part(struct host *h, bool left)
{
	if (!left)
		pf_callback_host_leave(&h->host);
	pf_callback_host_unref(&h->host);
	event_wait(&h->freed);
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
static int give(struct host *h, struct pf_err *err)
{
	struct pf_bytes *bytes;
	uint64_t off;
	int r;

	ck_assert_int_eq(pf_bytes_new(arena, NULL, sizeof(ones), &bytes, err), 0);
	memcpy(pf_bytes_at(bytes, 0), ones, sizeof(ones));
	off = pf_bytes_offset(bytes, 0);
	r = pf_callback_host_answer(&h->host, &off, bytes, err);
	pf_bytes_unref(bytes);
	return r;
}

static struct pf_executable *open_all(const char *plugin, const char *text)
{
	struct pf_executable *x;

	open_arena();
	start_worker(plugin);
	timers = pf_timers_new();
	ck_assert_ptr_nonnull(timers);
	x = compiled(text);
	x->timers = timers;
	return x;
}

static void close_all(struct pf_executable *x)
{
	ck_assert_int_eq(x->callbacks.n_asked, 0);
	ck_assert(!x->callbacks.armed);
	pf_executable_unref(x);
	close_store();
	pf_timers_free(timers);
}

static void start(struct named_exec *run, struct pf_executable *x)
{
	struct pf_value *v = matrix(counts);

	pf_execution_start(run_init(run, x, &v, 1, 1), false);
	pf_value_unref(v);
}

/* RUN has ended; its result is WANT, or it has failed with CODE. */
static void ends(struct named_exec *run, const float *want, int code)
{
	struct pf_err err = PF_ERR_INIT;

	event_wait(&run->ended);
	if (want) {
		ck_assert_msg(run->code == 0, "%s", run->err.text);
		ck_assert_int_ge(fetch_value(run->e->outs[0].value, &err), 0);
		ck_assert_mem_eq(pf_value_host(run->e->outs[0].value), want,
				 sizeof(counts));
	} else {
		ck_assert_int_lt(run->code, 0);
		ck_assert_int_eq(run->err.pjrt_code, code);
	}
	pf_execution_free(run->e);
}

TEST_ON_PLUGINS(a_host_answers)
{
	struct pf_executable *x = open_all(plugins[_i], asks);
	struct pf_err err = PF_ERR_INIT;
	struct named_exec run;
	struct host h;

	join(&h, x);
	ck_assert_ptr_null(pf_callback_host_take(&h.host));
	ck_assert(!pf_callback_host_ready(&h.host));
	for (int i = 0; i < 3; i++) {
		start(&run, x);
		take(&h);
		ck_assert_int_eq(give(&h, &err), 0);
		ends(&run, ones, 0);
		ck_assert_int_eq(give(&h, &err), -EIO); /* it has nothing to answer */
	}
	part(&h, false);
	close_all(x);
}
END_TEST

TEST_ON_PLUGINS(a_host_fails)
{
	struct pf_executable *x = open_all(plugins[_i], asks);
	struct pf_err err = PF_ERR_INIT;
	struct named_exec run;
	struct host h;

	join(&h, x);
	start(&run, x);
	take(&h);
	ck_assert_int_eq(pf_callback_host_fail(&h.host, PF_PJRT_OUT_OF_RANGE, "no more",
					       &err),
			 0);
	event_wait(&run.ended);
	ck_assert_ptr_nonnull(strstr(run.err.text, "no more"));
	ends(&run, NULL, PF_PJRT_OUT_OF_RANGE);
	part(&h, false);
	close_all(x);
}
END_TEST

/* What a host has not begun goes to another one; what it has begun fails. */
TEST_ON_PLUGINS(hosts_leave)
{
	struct pf_executable *x = open_all(plugins[_i], asks);
	struct pf_err err = PF_ERR_INIT;
	struct named_exec run;
	struct host a, b;

	join(&a, x);
	join(&b, x);
	ck_assert_ptr_null(pf_callback_host_take(&a.host));
	ck_assert_ptr_null(pf_callback_host_take(&b.host));
	start(&run, x);
	event_wait(&a.given); /* it waited first */
	ck_assert_int_eq(event_count(&b.given), 0);
	pf_callback_host_leave(&a.host);
	event_wait(&b.given);
	take(&b);
	ck_assert_int_eq(give(&b, &err), 0);
	ends(&run, ones, 0);
	part(&a, true);

	start(&run, x);
	take(&b);
	pf_callback_host_leave(&b.host);
	ends(&run, NULL, PF_PJRT_ABORTED);
	part(&b, true);
	close_all(x);
}
END_TEST

/* The same of one that does not wait any more. */
TEST_ON_PLUGINS(hosts_stop)
{
	struct pf_executable *x = open_all(plugins[_i], asks);
	struct pf_err err = PF_ERR_INIT;
	struct pf_callback_host *next;
	struct named_exec run;
	struct host a, b;

	join(&a, x);
	join(&b, x);
	ck_assert_ptr_null(pf_callback_host_take(&a.host));
	ck_assert_ptr_null(pf_callback_host_stop(&a.host));
	ck_assert_ptr_null(pf_callback_host_take(&b.host));
	start(&run, x);
	event_wait(&b.given);
	ck_assert_int_eq(event_count(&a.given), 0);
	ck_assert(!pf_callback_host_ready(&a.host));
	ck_assert_ptr_null(pf_callback_host_take(&a.host)); /* waits again */
	next = pf_callback_host_stop(&b.host);
	ck_assert_ptr_eq(next, &a.host);
	pf_callback_host_notify(next);
	event_wait(&a.given);
	take(&a);
	ck_assert_ptr_null(pf_callback_host_stop(&a.host)); /* it has begun */
	ck_assert_int_eq(give(&a, &err), 0);
	ends(&run, ones, 0);
	part(&a, false);
	part(&b, false);
	close_all(x);
}
END_TEST

TEST_ON_PLUGINS(executions_are_cancelled)
{
	struct pf_executable *x = open_all(plugins[_i], asks);
	struct pf_err err = PF_ERR_INIT;
	const struct pf_invocation *i;
	struct named_exec run, other;
	struct host h;

	join(&h, x);
	start(&run, x);
	start(&other, x);
	i = take(&h);
	/* The host has that of either; the other one waits. */
	pf_execution_cancel_calls(run.e);
	ends(&run, NULL, PF_PJRT_CANCELLED);
	if (event_count(&h.ended)) {
		ck_assert_ptr_eq(h.had, i);
		ck_assert_ptr_nonnull(strstr(h.why, "cancelled"));
		ck_assert_int_eq(give(&h, &err), -EIO);
		take(&h);
	}
	ck_assert_int_eq(give(&h, &err), 0);
	ends(&other, ones, 0);

	/* before it has called */
	start(&run, x);
	pf_execution_cancel_calls(run.e);
	ends(&run, NULL, PF_PJRT_CANCELLED);
	part(&h, false);
	close_all(x);
}
END_TEST

TEST_ON_PLUGINS(the_worker_dies)
{
	struct pf_executable *x = open_all(plugins[_i], asks);
	struct pf_err err = PF_ERR_INIT;
	struct named_exec run;
	struct host h;

	join(&h, x);
	start(&run, x);
	take(&h);
	kill_worker();
	ends(&run, NULL, -1);
	event_wait(&h.ended);
	ck_assert_int_eq(give(&h, &err), -EIO);
	start(&run, x);
	take(&h);
	ck_assert_int_eq(give(&h, &err), 0);
	ends(&run, ones, 0);
	part(&h, false);
	close_all(x);
}
END_TEST

TEST_ON_PLUGINS(nobody_is_there)
{
	struct pf_executable *x = open_all(plugins[_i], asks);
	struct pf_err err = PF_ERR_INIT;
	struct named_exec run;
	struct host h;

	start(&run, x);
	ends(&run, NULL, PF_PJRT_FAILED_PRECONDITION);
	/* a host that comes within the grace */
	start(&run, x);
	usleep(100000); /* real time: PF_CALLBACK_GRACE_MS is 5 s */
	join(&h, x);
	take(&h);
	ck_assert_int_eq(give(&h, &err), 0);
	ends(&run, ones, 0);
	part(&h, false);
	close_all(x);
}
END_TEST

/* Without results and without an order, the program does not wait for a host, unless there is one. */
TEST_ON_PLUGINS(prints_end_without_a_host)
{
	struct pf_executable *x = open_all(plugins[_i], tells);
	struct pf_err err = PF_ERR_INIT;
	struct named_exec run;
	struct host h;

	start(&run, x);
	ends(&run, counts, 0);
	join(&h, x);
	start(&run, x);
	ck_assert_uint_eq(take(&h)->n_results, 0);
	ck_assert_int_eq(event_count(&run.ended), 0);
	ck_assert_int_eq(pf_callback_host_answer(&h.host, NULL, NULL, &err), 0);
	ends(&run, counts, 0);
	part(&h, false);
	close_all(x);
}
END_TEST
