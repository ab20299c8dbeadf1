/* SPDX-License-Identifier: Apache-2.0 */
/* An instance, with the test as its worker, which holds both ends. */
#ifndef PJRTFS_TESTS_UNIT_INSTANCE_FIXTURE_H
#define PJRTFS_TESTS_UNIT_INSTANCE_FIXTURE_H

#include "engine/internal.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "engine_fixture.h"
#include "pjrtfs/wire.h"

enum { POOL = 1 << 20 };

static struct pf_instance *instance;
static struct pf_channel peer; /* the worker's end */
static char *pool;
static struct pf_plugin_log plugin_log; /* what the worker prints */
static struct pf_worker_limits limits;
static int pool_file, broken;
static char message[PF_RING_MESSAGE];

typedef void done_fn(struct pf_call *call, int code, const struct pf_err *err,
		     const void *reply, size_t len);

static inline void open_instance(void)
{
	int channel = pf_channel_create(NULL), fd = memfd_create("pool", MFD_CLOEXEC);
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(pf_plugin_log_init(&plugin_log, "test"), 0);
	plugin_log.quiet = true;
	broken = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ck_assert_int_eq(ftruncate(fd, POOL), 0);
	ck_assert_msg(pf_instance_new("test", channel, fd, POOL, broken, &limits,
				      &plugin_log, &instance, &err) == 0,
		      "%s", err.text);
	ck_assert_int_eq(pf_channel_map(&peer, channel, &err), 0);
	pool = mmap(NULL, POOL, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(pool, MAP_FAILED);
	close(channel);
	pool_file = fd;
}

static inline void end_instance(void)
{
	struct pf_err why = PF_ERR_INIT;

	pf_err_set(&why, -EIO, "it is over");
	pf_instance_end(instance, &why, &why);
}

static inline void close_instance(void)
{
	end_instance();
	pf_instance_unref(instance);
	pf_plugin_log_release(&plugin_log);
	pf_channel_release(&peer);
	munmap(pool, POOL);
	close(pool_file);
	close(broken);
}

/* The answer goes to DONE; NULL: to Q. */
static inline int ask_for(struct question *q, uint64_t id, done_fn *done,
			  struct pf_err *err)
{
	struct pf_req_id req = { .head.op = PF_OP_BUFFER_READ, .id = id };

	question_init(q, sizeof(struct pf_rep_block));
	if (done)
		q->call.done = done;
	return pf_instance_call(instance, &q->call, &req, sizeof(req), NULL, 0, err);
}

static inline int ask_id(struct question *q, uint64_t id, struct pf_err *err)
{
	return ask_for(q, id, NULL, err);
}

static inline void ask(struct question *q, uint64_t id)
{
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(ask_id(q, id, &err) == 0, "%s", err.text);
}

/* The next request, as the worker takes it, in message; its length. */
static inline size_t take_request(void)
{
	ssize_t n;

	while ((n = pf_ring_take(&peer.request, message, sizeof(message))) == -EAGAIN)
		pf_ring_wait(&peer.request, 50, -1);
	ck_assert_int_gt(n, 0);
	ck_assert_uint_eq(((struct pf_msg_head *)message)->len, (uint32_t)n);
	return (size_t)n;
}

/* Ask for DONE, and take the request; its tag. */
static inline uint64_t ask_and_take_for(struct question *q, uint64_t id, done_fn *done)
{
	ck_assert_int_eq(ask_for(q, id, done, NULL), 0);
	take_request();
	return ((struct pf_msg_head *)message)->tag;
}

static inline uint64_t ask_and_take(struct question *q, uint64_t id)
{
	return ask_and_take_for(q, id, NULL);
}

static inline void post_reply(const void *reply, size_t len)
{
	int r;

	while ((r = pf_ring_post(&peer.reply, reply, len, NULL, 0)) == -EAGAIN)
		sched_yield();
	ck_assert_int_eq(r, 0);
}

static inline struct pf_rep_block block_reply(uint64_t tag)
{
	return (struct pf_rep_block){
		.rep = { .head = { PF_OP_BUFFER_READ, sizeof(struct pf_rep_block), tag },
			 .pjrt_code = -1 },
		.off = 4096,
		.len = 5,
	};
}

static inline void answer_rightly(uint64_t tag)
{
	struct pf_rep_block rep = block_reply(tag);

	post_reply(&rep, sizeof(rep));
}

#endif
