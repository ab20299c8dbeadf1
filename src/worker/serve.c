/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that take requests from the ring and answer them.
 *
 * A plugin may run a program inside the call that starts it, perhaps for ever, so one thread is
 * always left to take the next request: the last idle thread that gets busy starts another, up to
 * a limit.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/wait.h"

enum {
	MIN_THREADS = 4,
	THREADS = 96, /* at most, for compiles and transfers, and, */
	THREADS_OF_DEVICE =
		40,       /* for each device, as many as the daemon's scheduler grants */
	STACK = 16 << 20, /* compilers recurse */
	SPIN_US = 100,    /* before a thread sleeps; requests back to back come sooner */
	ALIGNMENT = 64,
	SETTLE_MS = 60000,
};

#define REQ(request) sizeof(struct pf_req_##request)
#define REP(reply) sizeof(struct pf_rep_##reply)

/* The plugin has freed what earlier requests free; the pipe has what it printed before. */
static int handle_settle(struct pf_work *work, struct pf_err *err)
{
	(void)work;
	if (!pf_turns_await(SETTLE_MS))
		return pf_err_set(err, -ETIMEDOUT,
				  "the plugin has not freed a program within %d s",
				  SETTLE_MS / 1000);
	(void)fflush(stdout);
	return 0;
}

/* A handler gets no message of another size. */
static const struct {
	pf_handler *handle;
	const char *name;
	size_t size, reply_size;       /* of the two structs, in bytes */
	enum pf_object_kind named;     /* of the object whose id follows the head */
	enum { MORE = 1, SILENT } how; /* bytes may follow it; no reply but an error */
} handlers[PF_OP_COUNT] = {
	[PF_OP_COMPILE] = { pf_handle_compile, "compile", REQ(compile), REP(compile),
			    PF_NO_OBJECT, MORE },
	[PF_OP_EXECUTE] = { pf_handle_execute, "execute", REQ(execute), REP(execute),
			    PF_NO_OBJECT, MORE },
	[PF_OP_BUFFER_CREATE] = { pf_handle_buffer_create, "create", REQ(buffer),
				  REP(buffer) },
	[PF_OP_BUFFER_MAKE] = { pf_handle_buffer_make, "create", REQ(buffer),
				REP(array) },
	[PF_OP_BUFFER_COPY] = { pf_handle_buffer_copy, "copy", REQ(copy), REP(array),
				PF_OBJECT_BUFFER },
	[PF_OP_BUFFER_READ] = { pf_handle_buffer_read, "read", REQ(id), REP(block),
				PF_OBJECT_BUFFER },
	[PF_OP_BUFFER_FREE] = { pf_handle_free, "free", REQ(id), .how = SILENT },
	[PF_OP_EXECUTABLE_FREE] = { pf_handle_free, "free", REQ(id), .how = SILENT },
	[PF_OP_BLOCK_FREE] = { pf_handle_free, "free", REQ(id), .how = SILENT },
	[PF_OP_OPTIMIZED] = { pf_handle_optimized, "optimized program", REQ(id),
			      REP(optimized), PF_OBJECT_EXECUTABLE },
	[PF_OP_SERIALIZE] = { pf_handle_serialize, "serialize", REQ(id), REP(block),
			      PF_OBJECT_EXECUTABLE },
	[PF_OP_LOAD] = { pf_handle_load, "load", REQ(load), REP(load), PF_NO_OBJECT,
			 MORE },
	[PF_OP_TOPOLOGY] = { pf_handle_topology, "topology", REQ(id), REP(block),
			     PF_NO_OBJECT, MORE },
	[PF_OP_CALLBACK_ANSWER] = { pf_handle_callback_answer, "callback", REQ(answer),
				    REP(head), PF_NO_OBJECT, MORE },
	[PF_OP_GROUP] = { pf_handle_group, "group", REQ(id), REP(block) },
	[PF_OP_SEND] = { pf_handle_send, "send", REQ(send), REP(head) },
	[PF_OP_RECEIVE] = { pf_handle_receive, "receive", REQ(receive), REP(array) },
	[PF_OP_SETTLE] = { handle_settle, "settle", REQ(id), REP(head) },
	[PF_OP_MEMORY_STATS] = { pf_handle_memory_stats, "memory stats", REQ(id),
				 REP(block) },
	[PF_OP_CLEAR_STATS] = { pf_handle_clear_stats, "memory stats", REQ(id),
				REP(head) },
};

static void reply_head(struct pf_work *work, int code, int pjrt_code)
{
	struct pf_msg_head asked = { 0 };
	struct pf_rep_head *rep = (struct pf_rep_head *)work->reply;

	memcpy(&asked, work->message,
	       work->len < sizeof(asked) ? work->len : sizeof(asked));
	rep->head = asked;
	rep->head.len = (uint32_t)work->reply_len;
	rep->code = code;
	rep->pjrt_code = pjrt_code;
}

static void reply_error(struct pf_work *work, const struct pf_err *err)
{
	size_t len = strlen(err->text);

	memcpy(work->reply + sizeof(struct pf_rep_head), err->text, len + 1);
	if (*err->payloads) {
		strcpy(work->reply + sizeof(struct pf_rep_head) + len + 1, err->payloads);
		len += 1 + strlen(err->payloads);
	}
	work->reply_len = sizeof(struct pf_rep_head) + len;
	reply_head(work, err->code, err->pjrt_code);
	pf_server_post(work->server, work->reply, work->reply_len);
}

/* Is WORK's request, of the right size, about devices, or arrays and programs on them? */
static bool needs_client(const struct pf_work *work)
{
	const struct pf_msg_head *head = work->message;

	switch (head->op) {
	case PF_OP_COMPILE:
		return !((const struct pf_req_compile *)work->message)->topology_len;
	case PF_OP_TOPOLOGY: /* what follows says which one; else the client's */
		return work->len == sizeof(struct pf_req_id);
	case PF_OP_OPTIMIZED:
	case PF_OP_SERIALIZE:
	case PF_OP_BUFFER_FREE:
	case PF_OP_EXECUTABLE_FREE:
	case PF_OP_BLOCK_FREE:
	case PF_OP_SETTLE:
		return false;
	default:
		return true;
	}
}

static int check_client(const struct pf_work *work, struct pf_err *err)
{
	const struct pf_server *server = work->server;

	if (!server->client->why_none || !needs_client(work))
		return 0;
	return pf_err_set(err, -EOPNOTSUPP,
			  "plugin %s only compiles for topologies: no device here (%s)",
			  server->name, server->client->why_none);
}

static int handle(struct pf_work *work, struct pf_err *err)
{
	const struct pf_msg_head *head = work->message;

	if (work->len < sizeof(*head) || head->len != work->len)
		return pf_err_set(err, -EPROTO,
				  "a message of %zu bytes with a wrong length",
				  work->len);
	if (head->op >= PF_OP_COUNT || !handlers[head->op].handle)
		return pf_err_set(err, -EPROTO, "there is no request %u", head->op);
	if (work->len < handlers[head->op].size ||
	    (work->len > handlers[head->op].size && handlers[head->op].how != MORE))
		return pf_err_set(err, -EPROTO, "%s: a message of %zu bytes",
				  handlers[head->op].name, work->len);
	if (check_client(work, err) < 0)
		return err->code;
	work->reply_len = handlers[head->op].reply_size;
	memset(work->reply, 0, work->reply_len);
	if (handlers[head->op].named &&
	    pf_objects_get(&work->server->objects, (const uint64_t *)(head + 1), 1,
			   handlers[head->op].named, &work->named, err) < 0)
		return err->code;
	return handlers[head->op].handle(work, err);
}

static void answer(struct pf_work *work)
{
	const struct pf_msg_head *head = work->message;
	struct pf_err err = PF_ERR_INIT;
	int r = handle(work, &err);

	pf_object_unref(pf_steal(&work->named));
	pf_object_unref(pf_steal(&work->made));
	if (r < 0) {
		pf_group_explain(&err);
		reply_error(work, &err);
	} else if (handlers[head->op].how != SILENT) {
		reply_head(work, 0, -1);
		pf_server_post(work->server, work->reply, work->reply_len);
	}
}

static int start_thread(struct pf_server *server);

/* This thread gets busy: if it was the last idle one, start another for the next request. */
static void get_busy(struct pf_server *server)
{
	if (atomic_fetch_sub(&server->idle, 1) != 1)
		return;
	/* If that fails, the existing threads go on. */
	if (atomic_load(&server->threads) < server->max_threads)
		(void)start_thread(server);
}

/* A transfer can be cancelled from the moment when its request was taken. */
static void note_transfer(const struct pf_work *work)
{
	const struct pf_req_id *q = work->message;

	if (q->head.op == PF_OP_BUFFER_FREE && work->len == sizeof(*q))
		pf_cross_host_cancel(q->id);
	else if ((q->head.op == PF_OP_SEND || q->head.op == PF_OP_RECEIVE) &&
		 work->len == handlers[q->head.op].size)
		pf_cross_host_expect(q->id);
}

static bool is_free(const struct pf_work *work)
{
	const struct pf_msg_head *head = work->message;

	return work->len >= sizeof(*head) && head->op == PF_OP_EXECUTABLE_FREE;
}

/*
 * Take a request that is worth a thread of its own; its length, or as pf_ring_take says.
 *
 * Freeing buffers and blocks is quick, and is done here, in the order of the daemon's
 * requests: so memory freed before an execution is free for the execution's results.
 */
static ssize_t take(struct pf_work *work, void *message)
{
	struct pf_server *server = work->server;
	const struct pf_msg_head *head = message;
	ssize_t n;

	PF_LOCK_SCOPE(&server->take);
	do {
		n = pf_ring_take(&server->channel.request, message, PF_RING_MESSAGE);
		work->len = n < 0 ? 0 : (size_t)n;
		if (work->len >= sizeof(*head))
			note_transfer(work);
		if (work->len < sizeof(*head) ||
		    (head->op != PF_OP_BUFFER_FREE && head->op != PF_OP_BLOCK_FREE))
			break;
		answer(work);
	} while (true);
	/* The plugin may take long for it, so it is done here; a later PF_OP_SETTLE awaits it. */
	if (is_free(work))
		pf_turn_enter();
	return n;
}

static void *serve(void *arg)
{
	struct pf_server *server = arg;
	struct pf_ring *ring = &server->channel.request;
	char *buffers = aligned_alloc(ALIGNMENT, 2 * PF_RING_MESSAGE);
	struct pf_work work = { .server = server, .message = buffers };

	if (!buffers)
		pf_server_give_up("no memory for a thread");
	work.reply = buffers + PF_RING_MESSAGE;
	for (;;) {
		ssize_t n = take(&work, buffers);

		if (n == -EAGAIN) {
			pf_ring_wait(ring, SPIN_US, -1);
			continue;
		}
		if (n == -EPIPE)
			_exit(0);
		if (n < 0)
			pf_server_give_up("the channel from the daemon is damaged");
		get_busy(server);
		pf_ring_wake(ring);
		answer(&work);
		if (is_free(&work))
			pf_turn_leave();
		atomic_fetch_add(&server->idle, 1);
	}
	return NULL;
}

static int start_thread(struct pf_server *server)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	atomic_fetch_add(&server->threads, 1);
	atomic_fetch_add(&server->idle, 1);
	r = pthread_attr_init(&attr);
	if (r == 0) {
		(void)pthread_attr_setstacksize(&attr, STACK);
		(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		r = pthread_create(&thread, &attr, serve, server);
		pthread_attr_destroy(&attr);
	}
	if (r) {
		atomic_fetch_sub(&server->idle, 1);
		atomic_fetch_sub(&server->threads, 1);
	}
	return -r;
}

int pf_server_run(struct pf_server *server, struct pf_err *err)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned threads = cores + 2 > MIN_THREADS ? (unsigned)cores + 2 : MIN_THREADS;

	if (pthread_mutex_init(&server->take, NULL))
		abort();
	server->max_threads =
		THREADS + THREADS_OF_DEVICE * (unsigned)server->client->n_devices;
	for (unsigned i = 0; i < threads && i < server->max_threads; i++) {
		int r = start_thread(server);

		if (r < 0)
			return pf_err_set(err, r, "start a thread: %s", strerror(-r));
	}
	for (;;)
		pause();
}
