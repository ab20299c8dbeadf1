/* Compiling: from a committed source to something that runs. */
#include "compile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double pf_seconds_since(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (double)(now.tv_sec - start->tv_sec) +
	       (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

struct pf_waiter *pf_executable_supersede(struct pf_executable *x,
					  enum pf_executable_state state,
					  struct pf_loaded **gone)
{
	x->generation++;
	x->state = state;
	*gone = pf_steal(&x->loaded);
	return pf_wait_take(&x->waiters);
}

struct compile {
	struct pf_call call;
	struct pf_waiter waiter;  /* for the worker's next life */
	struct pf_executable *x;  /* owned reference */
	struct pf_life *life;     /* owned reference */
	struct pf_bytes *program; /* owned reference; as it was when the compile began */
	uint64_t len;
	char format[PF_WIRE_FORMAT];
	struct pf_buf options;
	unsigned generation;
	uint64_t id;
	struct timespec start;
	struct pf_question question; /* to other plugins, if this one cannot read it */
	struct pf_err err;           /* why it cannot */
	struct pf_told_compile told;
};

static void compile_free(struct compile *c)
{
	pf_executable_unref(c->x);
	pf_life_unref(c->life);
	pf_bytes_unref(c->program);
	pf_buf_release(&c->options);
	free(c);
}

static void tell_compiled(struct pf_executable *x, struct pf_told_compile *told,
			  const struct pf_err *err, double seconds)
{
	pf_tell_compiled(pf_worker_watch(x->worker), pf_worker_meter(x->worker), told,
			 err, seconds, NULL);
}

/* The compile ended: publish it, unless a newer source has begun meanwhile. */
static void compile_end(struct compile *c, struct pf_loaded *loaded,
			const struct pf_err *err)
{
	struct pf_executable *x = c->x;
	struct pf_waiter *waiters = NULL;
	struct pf_loaded *gone = loaded;
	struct pf_err superseded = PF_ERR_INIT;

	pf_lock(&x->lock);
	if (c->generation != x->generation) {
		pf_err_set(&superseded, -ECANCELED, "a newer source took its place");
		err = &superseded;
	} else {
		gone = x->loaded;
		x->loaded = loaded;
		x->state = loaded ? PF_EXECUTABLE_READY : PF_EXECUTABLE_FAILED;
		x->err = err ? *err : (struct pf_err)PF_ERR_INIT;
		waiters = pf_wait_take(&x->waiters);
	}
	pf_unlock(&x->lock);
	/* Before who waits for it, so that the event is there when a cp(1) returns. */
	tell_compiled(x, &c->told, err, pf_seconds_since(&c->start));
	pf_wake_all(waiters);
	pf_loaded_unref(gone);
	compile_free(c);
}

static int parse_info(const char *text, size_t len, struct json_object **ret,
		      struct pf_err *err)
{
	struct json_tokener *tok = json_tokener_new();

	*ret = tok ? json_tokener_parse_ex(tok, text, (int)len) : NULL;
	json_tokener_free(tok);
	if (json_object_is_type(*ret, json_type_object))
		return 0;
	return pf_err_set(err, -EPROTO, "the worker told nothing of the program");
}

/* Which of the worker's devices it runs on, from the ids in INFO. */
static int find_devices(struct pf_executable *x, struct pf_loaded *l, struct pf_err *err)
{
	const struct pf_description *d = pf_worker_description(x->worker);
	struct json_object *ids;
	size_t n = 0;

	if (json_object_object_get_ex(l->info, "devices", &ids) &&
	    json_object_is_type(ids, json_type_array))
		n = json_object_array_length(ids);
	l->devices = calloc(n ? n : 1, sizeof(*l->devices));
	if (!l->devices || n > d->n_devices)
		return pf_err_set(err, -EPROTO, "the worker named %zu devices of %u", n,
				  d->n_devices);
	for (size_t i = 0; i < n; i++) {
		int64_t id = json_object_get_int64(json_object_array_get_idx(ids, i));
		unsigned at = 0;

		while (at < d->n_devices && d->devices[at].id != id)
			at++;
		if (at == d->n_devices)
			return pf_err_set(err, -EPROTO,
					  "the worker named an unknown device");
		l->devices[i] = at;
	}
	l->n_devices = (unsigned)n;
	return 0;
}

/* Arrays that the plugin lays out otherwise would silently hold other numbers. */
static int check_layouts(const struct pf_signature *s, struct pf_err *err)
{
	for (int out = 0; out < 2; out++) {
		const struct pf_param *p = out ? s->outputs : s->inputs;
		size_t n = out ? s->n_outputs : s->n_inputs;

		for (size_t i = 0; i < n; i++)
			if (!p[i].row_major)
				return pf_err_set(
					err, -EOPNOTSUPP,
					"%s %zu (%s) has a layout "
					"that is not row-major, which is not supported: "
					"remove mhlo.layout_mode from the program",
					out ? "output" : "input", i, p[i].name);
	}
	return 0;
}

/* Read what the worker told of the new executable. */
static int read_reply(struct compile *c, const struct pf_rep_compile *rep,
		      struct pf_loaded *l, struct pf_err *err)
{
	const char *info = pf_life_pool(c->life, rep->info_off, rep->info_len);
	const void *hlo = rep->hlo_off == PF_NO_OFFSET
				  ? NULL
				  : pf_life_pool(c->life, rep->hlo_off, rep->hlo_len);
	int r;

	if (!info)
		return pf_err_set(err, -EPROTO,
				  "the worker's answer lies outside its pool");
	r = parse_info(info, rep->info_len, &l->info, err);
	if (r < 0)
		return r;
	if (!hlo)
		return pf_err_set(err, -EOPNOTSUPP,
				  "plugin %s does not tell what the program's "
				  "arguments are",
				  pf_worker_name(c->x->worker));
	r = pf_signature_parse(hlo, rep->hlo_len, rep->hlo_with_config, &l->signature,
			       err);
	if (r == 0)
		r = check_layouts(l->signature, err);
	if (r == 0)
		r = find_devices(c->x, l, err);
	return r;
}

/* Is it what a plugin says that is too old for a program? */
static bool may_be_too_old(const struct pf_err *err)
{
	static const char *const signs[] = { "Failed to parse",   "incompatib",
					     "bytecode",          "version",
					     "unknown attribute", "deserialize" };

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (err->pjrt_code >= 0 && strcasestr(err->text, signs[i]))
			return true;
	return false;
}

static void others_answered(struct pf_question *question, const char *who, int minor)
{
	struct compile *c = pf_container_of(question, struct compile, question);
	int pjrt_code = c->err.pjrt_code;

	if (who) {
		pf_err_wrap(
			&c->err, c->err.code,
			"plugin %s (API 0.%d) cannot read this "
			"program, but plugin %s (API 0.%d) can: mount it instead (pjrtfs %s MOUNTPOINT)",
			pf_worker_name(c->x->worker),
			pf_worker_description(c->x->worker)->api_minor, who, minor, who);
		c->err.pjrt_code = pjrt_code;
	}
	compile_end(c, NULL, &c->err);
}

/* Does another plugin know better?  False: nobody was asked. */
static bool ask_others(struct compile *c)
{
	struct pf_question *q = &c->question;

	if (!may_be_too_old(&c->err))
		return false;
	q->request.program_off = pf_bytes_offset(c->program, 0);
	q->request.program_len = c->len;
	memcpy(q->request.format, c->format, sizeof(q->request.format));
	q->options = c->options.data;
	q->options_len = c->options.len;
	q->api_minor = pf_worker_description(c->x->worker)->api_minor;
	q->done = others_answered;
	return pf_probe_ask(c->x->probe, q);
}

static void compile_done(struct pf_call *call, int code, const struct pf_err *err,
			 const void *reply, size_t len)
{
	struct compile *c = pf_container_of(call, struct compile, call);
	const struct pf_rep_compile *rep = reply;
	struct pf_err why = PF_ERR_INIT;
	struct pf_loaded *l;

	(void)len;
	if (code < 0) {
		c->err = *err;
		if (!ask_others(c))
			compile_end(c, NULL, &c->err);
		return;
	}
	l = calloc(1, sizeof(*l));
	if (!l) {
		pf_err_set(&why, -ENOMEM, "no memory for an executable");
		pf_life_free_id(c->life, PF_OP_EXECUTABLE_FREE, c->id);
	} else {
		atomic_init(&l->refs, 1);
		l->life = pf_life_ref(c->life);
		l->program = pf_bytes_ref(c->program);
		l->program_len = c->len;
		l->id = c->id;
		l->compile_seconds = pf_seconds_since(&c->start);
		code = read_reply(c, rep, l, &why);
	}
	pf_life_free_block(c->life, rep->info_off);
	if (rep->hlo_off != PF_NO_OFFSET)
		pf_life_free_block(c->life, rep->hlo_off);
	if (code < 0)
		pf_loaded_unref(pf_steal(&l));
	compile_end(c, l, l ? NULL : &why);
}

static void compile_send(struct compile *c)
{
	struct pf_req_compile req = { .head.op = PF_OP_COMPILE };
	struct pf_err err = PF_ERR_INIT;
	int r = -EIO;

	pf_tell_compiling(pf_worker_watch(c->x->worker), &c->told);
	c->life = pf_worker_life(c->x->worker, &err);
	if (c->life) {
		c->id = req.id = pf_worker_id(c->x->worker);
		req.program_off = pf_bytes_offset(c->program, 0);
		req.program_len = c->len;
		req.options_len = (uint32_t)c->options.len;
		memcpy(req.format, c->format, sizeof(req.format));
		c->call.done = compile_done;
		c->call.reply_min = sizeof(struct pf_rep_compile);
		r = pf_life_call(c->life, &c->call, &req, sizeof(req), c->options.data,
				 c->options.len, &err);
	}
	if (r < 0)
		compile_end(c, NULL, &err);
}

static void compile_wake(struct pf_waiter *waiter)
{
	compile_send(pf_container_of(waiter, struct compile, waiter));
}

/* Prepare a compile of LEN bytes of PROGRAM; NULL and *err if it is refused here. */
static struct compile *prepare_locked(struct pf_executable *x, struct pf_bytes *program,
				      uint64_t len, struct pf_err *err)
{
	struct compile *c = calloc(1, sizeof(*c));

	if (!c) {
		pf_err_set(err, -ENOMEM, "no memory for a compile");
		return NULL;
	}
	c->waiter.wake = compile_wake;
	c->x = pf_executable_ref(x);
	if (pf_program_check(x->format, pf_bytes_at(program, 0), len, err) < 0 ||
	    pf_executable_encode(x, x->options, &c->options, err) < 0) {
		compile_free(c);
		return NULL;
	}
	c->program = pf_bytes_ref(program);
	c->len = len;
	snprintf(c->format, sizeof(c->format), "%s", pf_program_pjrt_format(x->format));
	c->generation = x->generation;
	c->start = x->started;
	return c;
}

/* Compile LEN bytes of PROGRAM; as pf_executable_compile.  The lock is held on entry. */
static int compile_unlock(struct pf_executable *x, struct pf_bytes *program, uint64_t len,
			  struct pf_waiter *waiter, struct pf_err *err)
{
	struct pf_err why = PF_ERR_INIT;
	struct pf_waiter *waiters;
	struct pf_loaded *gone;
	struct pf_told_compile told;
	struct compile *c;

	waiters = pf_executable_supersede(x, PF_EXECUTABLE_COMPILING, &gone);
	pf_err_set(&x->err, -ECANCELED, "a newer source took its place");
	clock_gettime(CLOCK_REALTIME, &x->started);
	c = prepare_locked(x, program, len, &why);
	if (!c) {
		x->state = PF_EXECUTABLE_FAILED;
		x->err = why;
	} else if (waiter) {
		pf_wait_add(&x->waiters, waiter);
	}
	pf_unlock(&x->lock);
	pf_tell_queued(pf_worker_watch(x->worker), x->subject, len,
		       pf_worker_name(x->worker), c ? &c->told : &told);
	pf_wake_all(waiters);
	pf_loaded_unref(gone);
	if (!c) {
		tell_compiled(x, &told, &why, 0);
		if (err)
			*err = why;
		return why.code;
	}
	if (!pf_worker_wait(x->worker, &c->waiter))
		compile_send(c);
	return 0;
}

int pf_executable_compile(struct pf_executable *x, struct pf_waiter *waiter,
			  struct pf_err *err)
{
	bool empty;

	pf_lock(&x->lock);
	empty = x->format == PF_PROGRAM_NONE || !x->program_len;
	if (!empty)
		return compile_unlock(x, x->program, x->program_len, waiter, err);
	pf_unlock(&x->lock);
	pf_executable_unload(x);
	return 1;
}

int pf_executable_result(struct pf_executable *x, struct pf_err *err)
{
	PF_LOCK_SCOPE(&x->lock);
	switch (x->state) {
	case PF_EXECUTABLE_READY:
		return 0;
	case PF_EXECUTABLE_COMPILING:
		return pf_err_set(err, -EINPROGRESS, "it is being compiled");
	default:
		if (err)
			*err = x->err;
		return x->err.code;
	}
}

int pf_executable_load(struct pf_executable *x, struct pf_waiter *waiter,
		       struct pf_loaded **ret, struct pf_err *err)
{
	int r;

	pf_lock(&x->lock);
	switch (x->state) {
	case PF_EXECUTABLE_READY:
		/* What a writer has not closed yet is not compiled on this occasion. */
		if (!pf_life_alive(x->loaded->life) && x->format != PF_PROGRAM_NONE)
			return compile_unlock(x, x->loaded->program,
					      x->loaded->program_len, waiter, err);
		*ret = pf_loaded_ref(x->loaded);
		r = 1;
		break;
	case PF_EXECUTABLE_COMPILING:
		pf_wait_add(&x->waiters, waiter);
		r = 0;
		break;
	case PF_EXECUTABLE_FAILED:
		r = pf_err_set(err, x->err.code, "it did not compile: %s", x->err.text);
		break;
	default:
		r = pf_err_set(err, -ENOENT, "it has no program yet");
		break;
	}
	pf_unlock(&x->lock);
	return r;
}
