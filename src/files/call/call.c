/* SPDX-License-Identifier: Apache-2.0 */
/*
 * executables/NAME/call: inputs in, outputs out, on one descriptor.
 *
 * write(2) returns when the worker has been asked, or earlier; read(2) waits for what it
 * answers.  So the execution hides behind the way of the requests, and nothing is said of its
 * failure before a read.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"

enum { SLOW_TURN = 1 << 20 }; /* bytes to be turned on a thread of their own */

/* A write that waits. */
struct writer {
	struct call *call;      /* borrowed: the reply holds the open file */
	struct pf_reply *reply; /* one reference */
	size_t len;
	char data[];
};

static void call_unref(struct call *c)
{
	if (!c || atomic_fetch_sub(&c->refs, 1) != 1)
		return;
	call_tally_close(&c->tally);
	call_inputs_release(&c->in);
	call_outputs_release(&c->out);
	pf_life_unref(c->life);
	pthread_mutex_destroy(&c->lock);
	pf_node_unref(c->node);
	unit_unref(c->unit);
	free(c);
}

static struct call *call_ref(struct call *c)
{
	atomic_fetch_add(&c->refs, 1);
	return c;
}

/* --- failures ------------------------------------------------------------------------- */

int call_fail_locked(struct call *c, const struct pf_err *why)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;

	c->err = *why;
	call_tell_failed(&c->tally, &c->err);
	if (c->in.loaded)
		call_inputs_drop(&c->in);
	pf_ctl_error_line(&text, &c->err);
	pf_buf_puts(&text, "\n");
	call_outputs_say(&c->out, &text);
	c->state = CALL_FAILED;
	pf_node_ready(c->node);
	return c->err.code;
}

/* --- running -------------------------------------------------------------------------- */

/* It has ended, or just did: nobody need look for it later. */
static void stop_waiting(struct call *c)
{
	if (pf_timer_disarm(fs_of(c->node)->timers, &c->abandon))
		call_unref(c);
}

static void call_done(struct pf_invocation *v, int code, const struct pf_err *why)
{
	struct call *c = v->user;
	struct pf_err err = PF_ERR_INIT;

	pf_lock(&c->lock);
	atomic_store(&c->running, NULL);
	if (atomic_load(&c->left))
		stop_waiting(c);
	if (code == 0) {
		call_tally_add(&c->tally, v);
		code = call_outputs_fill(&c->out, c->in.loaded, v);
	} else {
		call_tell_run_failed(&c->tally, v, why);
		pf_invocation_free(v);
	}
	if (code < 0 && !why)
		pf_err_set(&err, code, "no memory for the outputs");
	if (code < 0) {
		call_fail_locked(c, why ? why : &err);
	} else {
		call_inputs_drop(&c->in);
		c->state = CALL_GIVING;
		pf_node_ready(c->node);
	}
	atomic_store(&c->done, true);
	call_serve_locked(c);
	pf_unlock(&c->lock);
	call_unref(c);
}

/* The inputs are whole. */
static struct pf_invocation *prepare_locked(struct call *c)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_invocation *v =
		pf_invocation_new(c->unit->x, c->in.loaded, c->in.bytes, c->in.offs);

	if (!v) {
		pf_err_set(&err, -ENOMEM, "no memory for a call");
		call_fail_locked(c, &err);
		return NULL;
	}
	v->user = call_ref(c);
	v->uid = c->tally.uid;
	v->done = call_done;
	pf_life_unref(c->life);
	c->life = pf_life_ref(c->in.loaded->life);
	atomic_store(&c->done, false);
	c->state = CALL_RUNNING;
	atomic_store(&c->running, v);
	return v;
}

static void *turn_and_run(void *arg)
{
	struct pf_invocation *v = arg;
	struct call *c = v->user;

	call_inputs_turn(&c->in); /* ours until it has run */
	pf_invocation_start(v);
	return NULL;
}

static void run(struct call *c, struct pf_invocation *v)
{
	if (call_inputs_to_turn(&c->in) < SLOW_TURN || !files_on_thread(turn_and_run, v))
		turn_and_run(v);
}

/* --- writing -------------------------------------------------------------------------- */

/* Take a write's bytes: how many, or -errno; *RET is what to run then. */
static ssize_t take_locked(struct call *c, const char *src, size_t len,
			   struct pf_invocation **ret)
{
	struct pf_err err = PF_ERR_INIT;
	ssize_t n = call_inputs_take(&c->in, src, len, &err);

	*ret = NULL;
	c->state = CALL_TAKING;
	if (n < 0)
		return call_fail_locked(c, &err);
	if (c->in.whole && !(*ret = prepare_locked(c)))
		return c->err.code;
	return n;
}

/* The program is there, or cannot be (LOADED NULL, and *ERR): go on with who waits for it. */
static void writer_end(struct call *c, struct pf_loaded *loaded, struct pf_err *err)
{
	struct pf_invocation *v = NULL;
	struct writer *w;
	ssize_t n;

	pf_lock(&c->lock);
	w = pf_steal(&c->writer);
	c->state = CALL_TAKING;
	pf_node_ready(c->node);
	/* One who was interrupted frees itself. */
	if (w && !pf_reply_claim(w->reply))
		w = NULL;
	if (w && loaded && call_inputs_begin(&c->in, loaded, err) < 0)
		loaded = NULL;
	if (w) {
		n = loaded ? take_locked(c, w->data, w->len, &v)
			   : call_fail_locked(c, err);
		pf_reply_why(w->reply, &c->err);
		pf_reply_send(w->reply, n < 0 ? (int)n : 0, NULL, n < 0 ? 0 : (size_t)n);
		free(w);
	}
	call_serve_locked(c);
	pf_unlock(&c->lock);
	if (v)
		run(c, v);
	call_unref(c);
}

static void load(struct call *c)
{
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *loaded = NULL;
	struct pf_err err = PF_ERR_INIT;

	/* At 0 it may have gone on already, elsewhere. */
	if (pf_executable_load(c->unit->x, &c->waiter, &loaded, &err) != 0)
		writer_end(c, loaded, &err);
}

static void load_wake(struct pf_waiter *waiter)
{
	load(pf_container_of(waiter, struct call, waiter));
}

static void interrupt_write(void *arg)
{
	struct writer *w = arg;
	struct call *c = w->call;
	struct pf_reply *reply = w->reply;

	pf_lock(&c->lock);
	if (c->writer == w)
		c->writer = NULL;
	pf_unlock(&c->lock);
	free(w);
	pf_reply_unref(reply);
}

/* The write waits: keep what it brings.  0, or -errno: it does not. */
static int wait_locked(struct call *c, const void *src, size_t len,
		       struct pf_reply *reply)
{
	struct writer *w = malloc(sizeof(*w) + len);

	if (!w)
		return -ENOMEM;
	w->call = c;
	w->reply = reply;
	w->len = len;
	memcpy(w->data, src, len);
	if (!pf_reply_park(reply, interrupt_write, w)) {
		free(w);
		return -EINTR;
	}
	c->writer = w;
	c->waiter.wake = load_wake;
	c->state = CALL_LOADING;
	call_ref(c);
	return 0;
}

/* Inputs begin to come.  1: take them; 0: wait for the program; -errno. */
static int begin_locked(struct call *c, const struct pf_cred *cred, struct pf_err *err)
{
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *loaded = NULL;
	int r;

	if (!files_unit_may(c->unit, cred, R_OK))
		return pf_err_set(err, -EACCES, "permission denied");
	loaded = pf_executable_loaded(c->unit->x);
	if (!loaded)
		return 0;
	r = call_inputs_begin(&c->in, loaded, err);
	return r < 0 ? r : 1;
}

static void call_send(struct pf_open *of, const void *src, size_t len,
		      struct pf_reply *reply)
{
	struct call *c = of->state;
	struct pf_invocation *v = NULL;
	struct pf_err err = PF_ERR_INIT;
	bool waits = false;
	ssize_t n = 1;

	pf_lock(&c->lock);
	if (c->state == CALL_FAILED || c->state == CALL_TELLING)
		n = c->err.code;
	else if (c->state != CALL_TAKING)
		n = -EBUSY;
	else if (!call_inputs_begun(&c->in))
		n = begin_locked(c, &of->cred, &err);
	if (n < 0 && err.code)
		n = call_fail_locked(c, &err);
	if (n == 0) {
		n = wait_locked(c, src, len, reply);
		waits = n == 0;
	} else if (n > 0) {
		n = take_locked(c, src, len, &v);
	}
	if (n < 0 && (c->state == CALL_FAILED || c->state == CALL_TELLING))
		err = c->err;
	else if (n == -EBUSY)
		pf_err_set(&err, -EBUSY,
			   "the results of the call before are not read yet");
	pf_unlock(&c->lock);
	if (v)
		run(c, v);
	if (waits)
		load(c);
	else if (n < 0)
		pf_reply_fail(reply, (int)n, &err);
	else
		pf_reply_count(reply, (size_t)n);
}

/* --- the file ------------------------------------------------------------------------- */

/* Who only reads finds nothing; who only writes would never learn how it ended. */
static int call_open(struct pf_open *of, struct pf_err *err)
{
	struct unit *unit = of->node->object;
	struct call *c;

	if (!pf_open_writes(of))
		return 0;
	if (!pf_open_reads(of))
		return pf_err_set(
			err, -EINVAL,
			"a call is written and read on one descriptor: open it to "
			"read and write, as 1<> does");
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	if (pthread_mutex_init(&c->lock, NULL))
		abort();
	atomic_init(&c->refs, 1);
	c->unit = unit_ref(unit);
	c->node = pf_node_ref(of->node);
	c->tally.unit = unit;
	c->tally.uid = of->cred.uid;
	of->state = c;
	return 0;
}

/* Results, or why there are none, can be read; inputs can be written. */
static short call_poll(struct pf_open *of)
{
	struct call *c = of->state;

	if (!c)
		return POLLIN;
	PF_LOCK_SCOPE(&c->lock);
	if (call_must_wait(c))
		return 0;
	return c->state == CALL_TAKING ? POLLOUT : POLLIN;
}

static void abandoned(struct pf_timer *timer)
{
	struct call *c = pf_container_of(timer, struct call, abandon);
	pf_autobuf struct pf_buf name = PF_BUF_INIT;
	struct pf_worker *worker = NULL;
	struct pf_invocation *v;

	files_unit_name(c->unit, &name);
	pf_lock(&c->lock);
	v = atomic_load(&c->running);
	if (v && pf_turns_has(pf_worker_turns(v->loaded->worker), &v->turn))
		worker = v->loaded->worker;
	pf_unlock(&c->lock);
	if (worker)
		files_abandon(fs_of(c->node), worker, name.data ? name.data : "",
			      c->tally.uid, NULL);
	call_unref(c);
}

/*
 * Nobody will read what runs.  The answer to a read may be what lets go of the file: under the
 * lock.
 */
static void call_release(struct pf_open *of)
{
	struct call *c = of->state;
	struct pf_fs *fs = fs_of(of->node);

	if (c && atomic_load(&c->running) && files_may_abandon(fs, c->tally.uid)) {
		c->abandon.fire = abandoned;
		call_ref(c);
		atomic_store(&c->left, true);
		if (pf_timer_arm(fs->timers, &c->abandon, fs->abandoned_ms) < 0)
			call_unref(c);
		else if (!atomic_load(&c->running))
			stop_waiting(c);
	}
	call_unref(c);
}

static void call_free(struct pf_node *node)
{
	unit_unref(node->object);
}

const struct pf_kind kind_call = {
	.name = "call",
	.mode = S_IFREG | 0666,
	.open = call_open,
	.release = call_release,
	.read = call_read,
	.send = call_send,
	.poll = call_poll,
	.free = call_free,
};
