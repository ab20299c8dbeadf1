/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that take requests from the ring and answer them.
 *
 * A plugin may run a program inside the call that starts it, for ever perhaps, so there is
 * always one thread left to take the next request: the last idle one that gets busy
 * starts another, up to a limit.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"

enum {
	MIN_THREADS = 4,
	THREADS = 96,           /* for compiles, long ones too, and transfers; and */
	THREADS_OF_DEVICE = 40, /* as many as the daemon has under way on each */
	STACK = 16 << 20,       /* compilers recurse */
	SPIN_US = 100, /* before a thread sleeps; a call back to back comes sooner */
	ALIGNMENT = 64,
};

static const struct {
	pf_handler *handle;
	bool silent; /* has no reply but an error */
} handlers[PF_OP_COUNT] = {
	[PF_OP_COMPILE] = { pf_handle_compile, false },
	[PF_OP_EXECUTE] = { pf_handle_execute, false },
	[PF_OP_BUFFER_CREATE] = { pf_handle_buffer_create, false },
	[PF_OP_BUFFER_READ] = { pf_handle_buffer_read, false },
	[PF_OP_MEMORY_STATS] = { pf_handle_memory_stats, false },
	[PF_OP_BUFFER_FREE] = { pf_handle_free, true },
	[PF_OP_EXECUTABLE_FREE] = { pf_handle_free, true },
	[PF_OP_BLOCK_FREE] = { pf_handle_free, true },
	[PF_OP_BUFFER_COPY] = { pf_handle_buffer_copy, false },
	[PF_OP_BUFFER_MAKE] = { pf_handle_buffer_make, false },
	[PF_OP_OPTIMIZED] = { pf_handle_optimized, false },
	[PF_OP_SERIALIZE] = { pf_handle_serialize, false },
	[PF_OP_LOAD] = { pf_handle_load, false },
	[PF_OP_CALL] = { pf_handle_call, false },
};

static void __attribute__((__noreturn__)) give_up(const char *why)
{
	fprintf(stderr, "pjrtfs-worker: %s\n", why);
	_exit(1);
}

/* The daemon takes replies without waiting for anything, so a full ring is soon not. */
static void post(struct pf_worker *worker, const void *reply, size_t len)
{
	const struct timespec pause = { .tv_nsec = 100000 };
	int r;

	while ((r = pf_ring_post(&worker->channel.reply, reply, len, NULL, 0)) == -EAGAIN)
		nanosleep(&pause, NULL);
	if (r == -EPIPE)
		_exit(0);
	if (r < 0)
		give_up("the channel to the daemon is damaged");
}

static void reply_head(struct pf_work *request, int code, int pjrt_code)
{
	struct pf_msg_head asked = { 0 };
	struct pf_rep_head *rep = (struct pf_rep_head *)request->reply;

	memcpy(&asked, request->message,
	       request->len < sizeof(asked) ? request->len : sizeof(asked));
	rep->head = asked;
	rep->head.len = (uint32_t)request->reply_len;
	rep->code = code;
	rep->pjrt_code = pjrt_code;
}

static void reply_error(struct pf_work *request, const struct pf_err *err)
{
	size_t len = strlen(err->text);

	memcpy(request->reply + sizeof(struct pf_rep_head), err->text, len);
	request->reply_len = sizeof(struct pf_rep_head) + len;
	reply_head(request, err->code, err->pjrt_code);
	post(request->worker, request->reply, request->reply_len);
}

static void answer(struct pf_work *request)
{
	const struct pf_msg_head *head = request->message;
	struct pf_err err = PF_ERR_INIT;
	int r;

	request->reply_len = 0;
	if (request->len < sizeof(*head) || head->len != request->len)
		r = pf_err_set(&err, -EPROTO,
			       "a message of %zu bytes with a wrong length",
			       request->len);
	else if (head->op >= PF_OP_COUNT || !handlers[head->op].handle)
		r = pf_err_set(&err, -EPROTO, "there is no request %u", head->op);
	else
		r = handlers[head->op].handle(request, &err);
	if (r < 0) {
		reply_error(request, &err);
	} else if (!handlers[head->op].silent) {
		reply_head(request, 0, -1);
		post(request->worker, request->reply, request->reply_len);
	}
}

static int start_thread(struct pf_worker *worker);

/* This thread gets busy; see to it that one is left for the next request. */
static void get_busy(struct pf_worker *worker)
{
	if (atomic_fetch_sub(&worker->idle, 1) != 1)
		return;
	if (atomic_load(&worker->threads) < worker->max_threads)
		(void)start_thread(worker); /* failing, those there are must do */
}

/*
 * Take a request that is worth a thread of its own; its length, or as pf_ring_take says.
 *
 * Freeing buffers and blocks is quick, and is done here, in the order the daemon asked for
 * it: so what was freed before an execution is there for the execution's results.
 */
static ssize_t take(struct pf_work *request, void *message)
{
	struct pf_worker *worker = request->worker;
	const struct pf_msg_head *head = message;
	ssize_t n;

	PF_LOCK_SCOPE(&worker->take);
	do {
		n = pf_ring_take(&worker->channel.request, message, PF_RING_MESSAGE);
		request->len = n < 0 ? 0 : (size_t)n;
		if (request->len < sizeof(*head) ||
		    (head->op != PF_OP_BUFFER_FREE && head->op != PF_OP_BLOCK_FREE))
			break;
		answer(request);
	} while (true);
	return n;
}

static void *serve(void *arg)
{
	struct pf_worker *worker = arg;
	struct pf_ring *ring = &worker->channel.request;
	char *buffers = aligned_alloc(ALIGNMENT, 2 * PF_RING_MESSAGE);
	struct pf_work request = { .worker = worker, .message = buffers };

	if (!buffers)
		give_up("no memory for a thread");
	request.reply = buffers + PF_RING_MESSAGE;
	for (;;) {
		ssize_t n = take(&request, buffers);

		if (n == -EAGAIN) {
			pf_ring_wait(ring, SPIN_US, -1);
			continue;
		}
		if (n == -EPIPE)
			_exit(0);
		if (n < 0)
			give_up("the channel from the daemon is damaged");
		get_busy(worker);
		pf_ring_wake(ring);
		answer(&request);
		atomic_fetch_add(&worker->idle, 1);
	}
	return NULL;
}

static int start_thread(struct pf_worker *worker)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	atomic_fetch_add(&worker->threads, 1);
	atomic_fetch_add(&worker->idle, 1);
	r = pthread_attr_init(&attr);
	if (r == 0) {
		(void)pthread_attr_setstacksize(&attr, STACK);
		(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		r = pthread_create(&thread, &attr, serve, worker);
		pthread_attr_destroy(&attr);
	}
	if (r) {
		atomic_fetch_sub(&worker->idle, 1);
		atomic_fetch_sub(&worker->threads, 1);
	}
	return -r;
}

int pf_worker_serve(struct pf_worker *worker, unsigned threads, struct pf_err *err)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (pthread_mutex_init(&worker->take, NULL))
		abort();
	if (!threads)
		threads = cores + 2 > MIN_THREADS ? (unsigned)cores + 2 : MIN_THREADS;
	worker->max_threads =
		THREADS + THREADS_OF_DEVICE * (unsigned)worker->client->n_devices;
	if (threads > worker->max_threads)
		threads = worker->max_threads;
	for (unsigned i = 0; i < threads; i++) {
		int r = start_thread(worker);

		if (r < 0)
			return pf_err_set(err, r, "start a thread: %s", strerror(-r));
	}
	for (;;)
		pause();
}
