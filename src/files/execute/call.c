/* SPDX-License-Identifier: Apache-2.0 */
/*
 * executables/NAME/call: inputs in, outputs out, on one descriptor, as .npy files; call.raw: the same
 * without headers.
 *
 * write(2) returns once the request is sent to the worker, or earlier; read(2) waits for
 * the answer.  So the execution overlaps with the requests of the caller, and a read
 * reports its failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "files/internal.h"
#include "internal.h"
#include "pjrtfs/stream.h"

/* A write that waits for the program. */
struct writer {
	struct pf_parked parked;
	char data[]; /* the write's bytes */
};

/*
 * Calls that ended well and that no event has reported yet.  An event for each would
 * displace all others, and cost as much as the call, so one is sent each second and one
 * at the end.
 */
struct tally {
	uint64_t n;
	double seconds, device_seconds; /* sums */
	struct timespec began;          /* the first, CLOCK_MONOTONIC */
	struct pf_worker *worker;       /* borrowed: where they ran, */
	unsigned device;                /* and on which of its devices */
};

/* The state of a call. */
enum call_state {
	CALL_TAKING,  /* inputs; idle if none has begun */
	CALL_LOADING, /* a write waits for the program to be compiled */
	CALL_RUNNING,
	CALL_GIVING,     /* outputs are being read */
	CALL_FAILED,     /* the next read fails with the errno, */
	CALL_EXPLAINING, /* and the next ones why */
};

/* One open file. */
struct call {
	_Atomic unsigned refs;   /* the open file's, and those of operations under way */
	struct program *program; /* owned reference */
	struct pf_node *node;    /* owned reference: for pf_node_ready */
	struct pf_cred cred;     /* the caller's */

	struct pf_stream stream; /* its lock protects the fields below */
	enum call_state state;
	struct pf_loaded *loaded; /* owned reference: what in is for; NULL: none yet */
	char *line;               /* owned: of this call's own binding, or NULL */
	uint64_t rebindings;      /* of the program, when bound was made */
	struct bound bound;       /* inputs that are not written */
	struct arrays_in in;
	struct array_heads out_heads;
	struct arrays_out out;
	struct pf_err err;       /* what failed */
	struct writer *writer;   /* parked until the program is compiled, or NULL */
	struct pf_wait wait;     /* the writer's, for the program */
	_Atomic bool done;       /* the execution has ended; spinning takes no lock */
	struct pf_buf name;      /* the program's, when the file was opened */
	struct pf_timer abandon; /* armed when the file is closed while it runs */
	bool closed;             /* ABANDON was armed */
	struct pf_execution *running; /* borrowed: in CALL_RUNNING */
	struct tally tally;
};

static struct call *call_of(struct pf_stream *stream)
{
	return pf_container_of(stream, struct call, stream);
}

/* --- reports: an event a second, and one for each call that fails --------------------- */

/* Report N calls on DEVICE of WORKER as REPORT says, or one that failed.  Takes the name
 * lock, as the functions below. */
static void report(const struct call *c, uint64_t n, struct pf_worker *worker,
		   unsigned device, struct pf_report_execution report)
{
	pf_autobuf struct pf_buf name = PF_BUF_INIT;

	files_program_name(c->program, &name);
	report.executable = name.data ? name.data : "";
	report.user = c->cred.uid;
	report.devices = &device;
	report.n_devices = 1;
	pf_report_calls(c->program->fs->config.telemetry, pf_worker_meter(worker), n,
			&report);
}

static void report_tally(struct call *c)
{
	struct tally *t = &c->tally;

	if (t->n)
		report(c, t->n, t->worker, t->device,
		       (struct pf_report_execution){ .seconds = t->seconds,
						     .device_seconds =
							     t->device_seconds });
	*t = (struct tally){ .n = 0 };
}

/* Count E, which succeeded. */
static void count(struct call *c, const struct pf_execution *e)
{
	struct pf_worker *worker = pf_loaded_facts(e->loaded).worker;
	struct tally *t = &c->tally;
	time_t s;

	/* The options may name another plugin by now. */
	if (t->worker != worker || t->device != e->first_device)
		report_tally(c);
	if (!t->n)
		*t = (struct tally){ .began = e->start,
				     .worker = worker,
				     .device = e->first_device };
	t->n++;
	t->seconds += e->seconds;
	t->device_seconds += e->device_seconds;
	s = e->start.tv_sec - t->began.tv_sec;
	if (s > 1 || (s == 1 && e->start.tv_nsec >= t->began.tv_nsec))
		report_tally(c);
}

static void call_unref(struct call *c)
{
	if (!c || atomic_fetch_sub(&c->refs, 1) != 1)
		return;
	report_tally(c);
	arrays_in_release(&c->in);
	array_heads_release(&c->out_heads);
	bound_release(&c->bound);
	free(c->line);
	pf_buf_release(&c->name);
	pf_loaded_unref(c->loaded);
	arrays_out_release(&c->out);
	pf_stream_release(&c->stream);
	pf_node_unref(c->node);
	program_unref(c->program);
	free(c);
}

static struct call *call_ref(struct call *c)
{
	atomic_fetch_add(&c->refs, 1);
	return c;
}

/* --- failures ------------------------------------------------------------------------- */

/* Fail the call for the reason WHY, and report that.  Returns -errno. */
static int call_fail_locked(struct call *c, const struct pf_err *why)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	pf_autobuf struct pf_buf name = PF_BUF_INIT;
	pf_autobuf struct pf_buf file = PF_BUF_INIT;

	files_program_name(c->program, &name);
	pf_buf_printf(&file, "executables/%s/%s", name.data ? name.data : "",
		      c->node->kind->name);
	c->err = *why;
	pf_err_wrap(&c->err, why->code, "%s", name.data ? name.data : "");
	files_report_failed(c->program->fs, file.data ? file.data : "", c->cred.uid, NULL,
			    &c->err);
	arrays_in_drop(&c->in);
	pf_control_error_line(&text, &c->err);
	pf_buf_puts(&text, "\n");
	arrays_out_say(&c->out, &text);
	c->state = CALL_FAILED;
	pf_node_ready(c->node);
	return c->err.code;
}

/* --- running -------------------------------------------------------------------------- */

static void execution_drop(void *e)
{
	pf_execution_free(e);
}

/* Make the results of E (taken), which ran on the inputs, the bytes to be read.  -ENOMEM. */
static int give_locked(struct call *c, struct pf_execution *e)
{
	size_t len = c->out_heads.text.len;
	int r;

	for (size_t i = 0; i < e->n_outs; i++)
		len += e->outs[i].transient ? e->outs[i].len : 0;
	r = arrays_out_begin(&c->out, 2 * e->n_outs + 1, len);
	c->out.kept = e;
	c->out.drop = execution_drop;
	for (size_t i = 0; i < e->n_outs && r == 0; i++) {
		const struct pf_exec_result *result = &e->outs[i];

		arrays_out_array(&c->out, c->in.raw ? NULL : &c->out_heads, i,
				 result->data, result->len, result->transient);
	}
	return r;
}

static void call_done(struct pf_execution *e, int code, const struct pf_err *why)
{
	struct call *c = e->user;
	struct pf_err err = PF_ERR_INIT;

	pf_lock(&c->stream.lock);
	c->running = NULL;
	if (c->closed && pf_timer_disarm(fs_of(c->node)->timers, &c->abandon))
		call_unref(c);
	if (code < 0) {
		err = *why;
		report_tally(c); /* in the order in which they ended */
		report(c, 1, pf_loaded_facts(e->loaded).worker, e->first_device,
		       (struct pf_report_execution){ .seconds = e->seconds, .err = why });
		pf_execution_free(e);
	} else {
		count(c, e);
		code = give_locked(c, e);
		if (code < 0)
			pf_err_set(&err, code, "no memory for the outputs");
	}
	if (code < 0) {
		call_fail_locked(c, &err);
	} else {
		arrays_in_drop(&c->in);
		c->state = CALL_GIVING;
		pf_node_ready(c->node);
	}
	atomic_store(&c->done, true);
	pf_stream_serve_locked(&c->stream);
	pf_unlock(&c->stream.lock);
	call_unref(c);
}

/* The inputs are complete: make the execution; NULL: the call has failed. */
static struct pf_execution *prepare_locked(struct call *c)
{
	struct pf_err err = PF_ERR_INIT;
	const struct pf_signature *s = pf_loaded_facts(c->loaded).signature;
	struct pf_execution *e = pf_execution_new(c->program->x, s->n_inputs, 1);
	int r = e ? bound_find(&c->bound, e, &c->cred, c->in.account, &err)
		  : pf_err_set(&err, -ENOMEM, "no memory for a call");

	if (r < 0) {
		pf_execution_free(e);
		call_fail_locked(c, &err);
		return NULL;
	}
	pf_execution_lend(e, c->loaded, c->in.bytes, c->in.offs);
	pf_execution_describe(e, c->name.data ? c->name.data : "", 0, 0, 0);
	e->user = call_ref(c);
	e->uid = c->cred.uid;
	e->account = c->in.account;
	e->done = call_done;
	atomic_store(&c->done, false);
	c->state = CALL_RUNNING;
	c->running = e;
	return e;
}

static void *transpose_and_run(void *arg)
{
	struct pf_execution *e = arg;
	struct call *c = e->user;

	arrays_in_transpose(&c->in); /* no other thread uses them until it has run */
	pf_execution_start(e, false);
	return NULL;
}

static void run(struct call *c, struct pf_execution *e)
{
	if (!arrays_in_is_slow(&c->in) || pf_thread_start(NULL, transpose_and_run, e))
		transpose_and_run(e);
}

/* --- writing -------------------------------------------------------------------------- */

/* Take a write's bytes: how many, or -errno; *RET is what to run then. */
static ssize_t take_locked(struct call *c, const char *src, size_t len,
			   struct pf_execution **ret)
{
	struct pf_err err = PF_ERR_INIT;
	ssize_t n = arrays_in_take(&c->in, src, len, &err);

	*ret = NULL;
	c->state = CALL_TAKING;
	if (n < 0)
		return call_fail_locked(c, &err);
	if (c->in.whole && !(*ret = prepare_locked(c)))
		return c->err.code;
	return n;
}

/* Find out which of LOADED's inputs are bound.  *PARAMS (*N) are the others. */
static int bind_locked(struct call *c, const struct pf_loaded *loaded,
		       const struct pf_param **params, size_t *n, struct pf_err *err)
{
	const struct pf_signature *s = pf_loaded_facts(loaded).signature;
	pf_autobuf struct pf_buf line = PF_BUF_INIT;
	int r = 0;

	bound_release(&c->bound);
	*params = s->inputs;
	*n = s->n_inputs;
	if (c->line)
		pf_buf_puts(&line, c->line);
	else
		program_binding(c->program, c->cred.uid, &line);
	if (line.failed)
		return pf_err_set(err, -ENOMEM, "no memory for a binding");
	if (!line.len || !line.data[strspn(line.data, " \t")])
		return 0;
	r = bound_make(&c->bound, line.data, c->program, loaded, &c->cred, err);
	*params = c->bound.params;
	*n = c->bound.n;
	return r;
}

/* The next inputs are LOADED's.  -EOPNOTSUPP, -E2BIG: it is not callable; -ENOMEM, -EOVERFLOW; -errno
 * of bound_make. */
static int set_program_locked(struct call *c, struct pf_loaded *loaded,
			      struct pf_err *err)
{
	uint64_t rebindings = atomic_load(&c->program->rebindings);
	const struct pf_signature *s = pf_loaded_facts(loaded).signature;
	const struct pf_param *params;
	size_t n;
	int r;

	if (c->loaded == loaded && c->rebindings == rebindings)
		return 0;
	arrays_in_release(&c->in);
	pf_loaded_unref(pf_steal(&c->loaded));
	r = bind_locked(c, loaded, &params, &n, err);
	if (r == 0)
		r = pf_execution_check_lent(loaded, params, n, err);
	if (r == 0)
		r = array_heads_print(&c->out_heads, s->outputs, s->n_outputs, err);
	if (r == 0)
		r = arrays_in_begin(&c->in, c->program->home->arena, params, n, err);
	if (r == 0) {
		c->loaded = pf_loaded_ref(loaded);
		c->rebindings = rebindings;
	}
	return r;
}

/* The program is loaded, or cannot be (LOADED is NULL, and *ERR says why): continue the
 * write that waits for it. */
static void writer_end(struct call *c, struct pf_loaded *loaded, struct pf_err *err)
{
	struct pf_execution *e = NULL;
	struct writer *w;
	ssize_t n;

	pf_lock(&c->stream.lock);
	w = pf_steal(&c->writer);
	c->state = CALL_TAKING;
	pf_node_ready(c->node);
	/* If the reply cannot be claimed, the interrupt frees W. */
	if (w && !pf_reply_claim(w->parked.reply))
		w = NULL;
	if (w && loaded && set_program_locked(c, loaded, err) < 0)
		loaded = NULL;
	if (w) {
		n = loaded ? take_locked(c, w->data, w->parked.len, &e)
			   : call_fail_locked(c, err);
		pf_reply_why(w->parked.reply, &c->err);
		pf_reply_send(w->parked.reply, n < 0 ? (int)n : 0, NULL,
			      n < 0 ? 0 : (size_t)n);
		free(w);
	}
	pf_stream_serve_locked(&c->stream);
	pf_unlock(&c->stream.lock);
	if (e)
		run(c, e);
	call_unref(c);
}

static void load(struct call *c)
{
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *loaded = NULL;
	struct pf_err err = PF_ERR_INIT;

	/* If it returns 0, load_wake may have run already on another thread. */
	if (pf_executable_load(c->program->x, c->cred.uid, &c->wait, &loaded, &err) != 0)
		writer_end(c, loaded, &err);
}

static void load_wake(struct pf_wait *wait)
{
	load(pf_container_of(wait, struct call, wait));
}

static void interrupted(struct pf_stream *stream, struct pf_parked *write)
{
	struct call *c = call_of(stream);

	if (c->writer && &c->writer->parked == write)
		c->writer = NULL;
}

/*
 * Park the write with a copy of its bytes until the program is there.  1: the caller has the
 * program loaded; 0: it is being loaded for a write that was interrupted, whose place this one
 * takes; -ENOMEM also if this one was interrupted.
 */
static int wait_locked(struct call *c, const void *src, size_t len,
		       struct pf_reply *reply)
{
	struct pf_parked *parked =
		pf_stream_park_write(&c->stream, sizeof(struct writer) + len, len, reply);

	if (!parked)
		return -ENOMEM;
	c->writer = pf_container_of(parked, struct writer, parked);
	memcpy(c->writer->data, src, len);
	if (c->state == CALL_LOADING)
		return 0;
	c->wait.wake = load_wake;
	c->state = CALL_LOADING;
	call_ref(c);
	return 1;
}

/* Begin a call's inputs.  1: take them; 0: wait for the program; -errno: it has failed. */
static int begin_locked(struct call *c)
{
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *loaded = NULL;
	struct pf_err err = PF_ERR_INIT;

	if (!files_program_may(c->program, &c->cred, R_OK)) {
		pf_err_set(&err, -EACCES, "permission denied");
		return call_fail_locked(c, &err);
	}
	loaded = pf_executable_loaded(c->program->x);
	if (!loaded)
		return 0;
	return set_program_locked(c, loaded, &err) < 0 ? call_fail_locked(c, &err) : 1;
}

/* Is a write of LEN bytes at SRC a binding of this call, and no .npy file? */
static bool is_binding(const struct call *c, const char *src, size_t len)
{
	return !c->in.raw && len > 4 && !memcmp(src, "bind", 4) &&
	       (src[4] == ' ' || src[4] == '\n');
}

/* Take the line at SRC, which holds for the calls on this descriptor from now on.  The bytes of it, or
 * -errno: the call has failed. */
static ssize_t take_line_locked(struct call *c, const char *src, size_t len)
{
	const char *newline = memchr(src, '\n', len < BIND_MAX ? len : BIND_MAX);
	struct pf_err err = PF_ERR_INIT;
	int r = 0;

	if (!newline) {
		pf_err_set(&err, -EINVAL,
			   "bind: expected a line of at most %d bytes, in one write",
			   BIND_MAX);
		return call_fail_locked(c, &err);
	}
	free(c->line);
	c->line = strndup(src + 4, (size_t)(newline - src - 4));
	pf_loaded_unref(pf_steal(&c->loaded));
	if (!c->line)
		r = pf_err_set(&err, -ENOMEM, "no memory for a binding");
	else if (c->line[strspn(c->line, " \t")])
		r = bind_check(c->program, c->line, &c->cred, &err);
	return r < 0 ? call_fail_locked(c, &err) : newline + 1 - src;
}

static void call_send(struct pf_open *of, const void *src, size_t len,
		      struct pf_reply *reply)
{
	struct call *c = of->state;
	struct pf_execution *e = NULL;
	struct pf_err err = PF_ERR_INIT;
	bool waits = false, binds = false;
	ssize_t n = 1;

	pf_lock(&c->stream.lock);
	if (!pf_open_begin(of)) { /* with the lock, as answer */
		pf_unlock(&c->stream.lock);
		return;
	}
	if (c->state == CALL_FAILED || c->state == CALL_EXPLAINING)
		n = c->err.code;
	else if (c->state == CALL_LOADING && !c->writer)
		n = 0;
	else if (c->state != CALL_TAKING)
		n = pf_err_set(&err, -EBUSY,
			       "the results of the call before are not read yet");
	else if (!arrays_in_begun(&c->in) && is_binding(c, src, len))
		binds = (n = take_line_locked(c, src, len)) > 0;
	else if (!arrays_in_begun(&c->in))
		n = begin_locked(c);
	if (binds) {
		pf_open_idle(of, true);
	} else if (n == 0) {
		n = wait_locked(c, src, len, reply);
		waits = n >= 0;
	} else if (n > 0) {
		n = take_locked(c, src, len, &e);
	}
	if (n < 0 && (c->state == CALL_FAILED || c->state == CALL_EXPLAINING))
		err = c->err;
	pf_unlock(&c->stream.lock);
	if (e)
		run(c, e);
	if (waits && n > 0)
		load(c);
	else if (n < 0)
		pf_reply_fail(reply, (int)n, &err);
	else if (!waits)
		pf_reply_count(reply, (size_t)n);
}

/* --- reading -------------------------------------------------------------------------- */

enum { SPIN_US = 50 };

static bool call_must_wait(const struct call *c)
{
	return c->state == CALL_RUNNING || c->state == CALL_LOADING;
}

static bool ready(struct pf_stream *stream)
{
	return !call_must_wait(call_of(stream));
}

static void answer(struct pf_stream *stream, size_t len, struct pf_reply *reply)
{
	struct call *c = call_of(stream);

	if (c->state == CALL_TAKING && arrays_in_begun(&c->in)) {
		struct pf_err err = PF_ERR_INIT;

		arrays_in_missing(&c->in, &err);
		call_fail_locked(c, &err);
	}
	if (c->state == CALL_FAILED) {
		c->state = CALL_EXPLAINING;
		pf_reply_why(reply, &c->err);
		pf_reply_send(reply, c->err.code, NULL, 0);
		return;
	}
	if (c->state == CALL_TAKING) {
		pf_open_idle(reply->held, true);
		pf_reply_send(reply, 0, "", 0);
		return;
	}
	/* Under the lock, so that no other thread refills that memory first. */
	arrays_out_answer(&c->out, len, reply);
	if (arrays_out_ended(&c->out)) {
		c->state = CALL_TAKING;
		pf_open_idle(reply->held, true);
		pf_node_ready(c->node);
	}
	pf_reply_unref(reply);
}

/* Most answers come within SPIN_US: taking them here saves waking a thread. */
static void spin(struct call *c)
{
	struct pf_instance *instance;

	pf_lock(&c->stream.lock);
	instance = c->state == CALL_RUNNING
			   ? pf_instance_ref(pf_loaded_facts(c->loaded).instance)
			   : NULL;
	pf_unlock(&c->stream.lock);
	if (instance)
		pf_instance_spin(instance, &c->done, SPIN_US);
	pf_instance_unref(instance);
}

static void call_read(struct pf_open *of, size_t len, uint64_t off,
		      struct pf_reply *reply)
{
	struct call *c = of->state;

	(void)off;
	if (!c) { /* opened read-only: empty */
		pf_reply_data(reply, NULL, 0);
		return;
	}
	if (len && !(of->flags & O_NONBLOCK))
		spin(c);
	pf_stream_read(&c->stream, of, len, reply);
}

static const struct pf_stream_ops call_stream_ops = { .ready = ready,
						      .answer = answer,
						      .interrupted = interrupted };

/* --- the file ------------------------------------------------------------------------- */

/* A descriptor that only reads is empty; one that only writes would never show the
 * result. */
static int call_open(struct pf_open *of, struct pf_err *err)
{
	struct program *program = of->node->object;
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
	pf_stream_init(&c->stream, &call_stream_ops);
	atomic_init(&c->refs, 1);
	c->program = program_ref(program);
	files_program_name(program, &c->name);
	c->node = pf_node_ref(of->node);
	c->cred = of->cred;
	c->in.account = files_account(fs_of(of->node), c->cred.uid);
	c->in.what = "input";
	c->in.raw = of->node->kind == &kind_call_raw;
	of->state = c;
	return 0;
}

/* Results, or why there are none, can be read; inputs can be written. */
static short call_poll(struct pf_open *of)
{
	struct call *c = of->state;

	if (!c)
		return POLLIN;
	PF_LOCK_SCOPE(&c->stream.lock);
	if (call_must_wait(c))
		return 0;
	return c->state == CALL_TAKING ? POLLOUT : POLLIN;
}

static void abandoned(struct pf_timer *timer)
{
	struct call *c = pf_container_of(timer, struct call, abandon);
	pf_autobuf struct pf_buf name = PF_BUF_INIT;
	struct pf_worker *worker = NULL;
	struct pf_execution *e;

	files_program_name(c->program, &name);
	pf_lock(&c->stream.lock);
	e = c->running;
	if (e && pf_execution_has_slot(e))
		worker = pf_loaded_facts(e->loaded).worker;
	pf_unlock(&c->stream.lock);
	if (worker)
		files_abandon(fs_of(c->node), worker, name.data ? name.data : "",
			      c->cred.uid, NULL);
	call_unref(c);
}

/* Have the worker end if C's execution goes on for too long. */
static void arm_abandon_locked(struct call *c)
{
	struct pf_fs *fs = fs_of(c->node);

	pf_execution_left(c->running);
	if (!fs->config.abandoned_ms)
		return;
	c->closed = true;
	c->abandon.fire = abandoned;
	call_ref(c);
	if (pf_timer_arm(fs->timers, &c->abandon, fs->config.abandoned_ms) < 0)
		call_unref(c);
}

/* No process will read the results of a call that still runs. */
static void call_closed(struct pf_open *of)
{
	struct call *c = of->state;
	struct pf_execution *e = NULL;

	if (!c)
		return;
	pf_lock(&c->stream.lock);
	if (c->running) {
		e = pf_execution_ref(c->running);
		arm_abandon_locked(c);
	}
	pf_unlock(&c->stream.lock);
	if (!e)
		return;
	pf_execution_cancel_calls(e);
	pf_execution_unref(e);
}

static void call_release(struct pf_open *of)
{
	call_unref(of->state);
}

#define CALL(file)                                                                       \
	{                                                                                \
		.name = file, .mode = S_IFREG | 0666, .open = call_open,                 \
		.closed = call_closed, .release = call_release, .read = call_read,       \
		.send = call_send, .poll = call_poll, .free = program_node_free          \
	}
const struct pf_kind kind_call = CALL("call");
const struct pf_kind kind_call_raw = CALL("call.raw");
