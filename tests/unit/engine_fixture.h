/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers, calls and waiters for tests of the engine and the store.  The program is
 * $PJRTFS_WORKER or ./pjrtfs-worker; the plugin that fails on demand is
 * $PJRTFS_FAULTY_PLUGIN or tests/faults/faulty_plugin.so.
 */
#ifndef PJRTFS_TESTS_UNIT_ENGINE_FIXTURE_H
#define PJRTFS_TESTS_UNIT_ENGINE_FIXTURE_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "plugins.h"

#include "pjrtfs/base.h"
#include "pjrtfs/engine.h"

#define FIXTURE_LIMIT (UINT64_C(1) << 30)
#define FIXTURE_POOL (UINT64_C(4) << 30)

/* --- waiting ------------------------------------------------------------------------- */

/* Something that happens once or not at all, on any thread. */
struct event {
	struct pf_wait waiter;
	pthread_mutex_t lock; /* protects fired */
	pthread_cond_t changed;
	int fired; /* how often */
};

static inline void event_fire(struct event *e)
{
	pf_lock(&e->lock);
	e->fired++;
	pthread_cond_broadcast(&e->changed);
	pf_unlock(&e->lock);
}

static inline void event_wake(struct pf_wait *waiter)
{
	event_fire(pf_container_of(waiter, struct event, waiter));
}

static inline struct pf_wait *event_init(struct event *e)
{
	memset(e, 0, sizeof(*e));
	e->waiter.wake = event_wake;
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->changed, NULL);
	return &e->waiter;
}

/* Wait until it has happened; false: it did not within SECONDS. */
static inline bool event_within(struct event *e, int seconds)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += seconds;
	PF_LOCK_SCOPE(&e->lock);
	while (!e->fired)
		if (pthread_cond_timedwait(&e->changed, &e->lock, &end))
			return false;
	return true;
}

static inline void event_wait(struct event *e)
{
	ck_assert_msg(event_within(e, 60), "what was waited for did not happen");
}

static inline int event_count(struct event *e)
{
	PF_LOCK_SCOPE(&e->lock);
	return e->fired;
}

/* --- calls --------------------------------------------------------------------------- */

/* A call and its answer. */
struct question {
	struct pf_call call;
	struct event answered;
	_Atomic bool done;
	int code;
	struct pf_err err;
	size_t len;
	_Alignas(64) char reply[8192]; /* the beginning of it */
};

static inline void question_done(struct pf_call *call, int code, const struct pf_err *err,
				 const void *reply, size_t len)
{
	struct question *q = pf_container_of(call, struct question, call);

	q->code = code;
	if (code < 0)
		q->err = *err;
	q->len = len;
	if (len)
		memcpy(q->reply, reply, len < sizeof(q->reply) ? len : sizeof(q->reply));
	atomic_store(&q->done, true);
	event_fire(&q->answered);
}

static inline struct pf_call *question_init(struct question *q, size_t reply_min)
{
	memset(q, 0, offsetof(struct question, reply));
	event_init(&q->answered);
	q->call.done = question_done;
	q->call.reply_min = reply_min;
	return &q->call;
}

/* --- workers ------------------------------------------------------------------------- */

static struct pf_arena *arena;
static struct pf_worker *worker;

static inline void open_arena(void)
{
	struct pf_err err = PF_ERR_INIT;

	unsetenv("PJRTFS_FAULTY"); /* without fork, tests share the environment */
	ck_assert_msg(pf_arena_new(FIXTURE_LIMIT, &arena, &err) == 0, "%s", err.text);
}

/* All that was taken must have been given back, or is just being. */
static inline void close_arena(void)
{
	uint64_t used, limit;

	pf_arena_usage(arena, &used, &limit);
	for (int ms = 0; used && ms < 5000; ms++) {
		usleep(1000);
		pf_arena_usage(arena, &used, &limit);
	}
	ck_assert_uint_eq(used, 0);
	pf_arena_free(arena);
	arena = NULL;
}

/* Start PROGRAM with PLUGIN in the arena; 0 or why not. */
static inline int try_worker(const char *program, const char *plugin, const char *name,
			     struct pf_err *err)
{
	struct json_object *options = json_tokener_parse("{\"cpu_device_count\":2}");
	/* The plugin reads that file. */
	struct json_object *sandbox =
		getenv("PJRTFS_FAULTY_FILE") ? json_tokener_parse("{\"sandbox\":\"off\"}")
					     : NULL;
	struct pf_worker_config config = { .name = name,
					   .path = plugin,
					   .program = program,
					   .options = options,
					   .sandbox = sandbox,
					   .arena = arena,
					   .pool_size = FIXTURE_POOL };
	int r = pf_worker_new(&config, &worker, err);

	json_object_put(sandbox);
	json_object_put(options);
	return r;
}

static inline void start_worker(const char *plugin)
{
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(try_worker(worker_program(), plugin, "test", &err) == 0, "%s",
		      err.text);
}

/* Wait until the plugin has printed TEXT. */
static inline void await_print(const char *text)
{
	char log[8192] = "";

	while (!strstr(log, text)) {
		struct pf_lines_reader reader = { 0 };
		size_t n = pf_plugin_log_read(pf_worker_plugin_log(worker), &reader, 0,
					      log, sizeof(log) - 1);

		log[n] = '\0';
		usleep(1000);
	}
}

static inline void stop_worker(void)
{
	pf_worker_free(worker);
	worker = NULL;
}

static inline pid_t worker_pid(void)
{
	unsigned restarts;
	pid_t pid;

	pf_worker_pid(worker, &pid, &restarts);
	return pid;
}

/* Kill it, if it is there. */
static inline void kill_worker(void)
{
	pid_t pid = worker_pid();

	if (pid > 0)
		kill(pid, SIGKILL);
}

/* Wait for an instance other than OLD (which may be NULL); a reference. */
static inline struct pf_instance *next_instance(struct pf_instance *old)
{
	for (int i = 0; i < 6000; i++) {
		struct pf_instance *instance = pf_worker_instance(worker, NULL);

		if (instance && instance != old)
			return instance;
		pf_instance_unref(instance);
		usleep(10000);
	}
	ck_abort_msg("the worker was not started again");
	return NULL;
}

/* Kill it and wait until it has been started again. */
static inline void replace_worker(void)
{
	PF_CLEANUP(pf_instance_unrefp)
	struct pf_instance *old = pf_worker_instance(worker, NULL);

	ck_assert_ptr_nonnull(old);
	kill_worker();
	pf_instance_unref(next_instance(old));
}

#endif
