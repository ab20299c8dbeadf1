#include "compile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pjrtfs/base/json.h"
#include "pjrtfs/formats/options.h"

enum { FIRST_ROOM = 65536 };

struct pf_loaded *pf_loaded_ref(struct pf_loaded *loaded)
{
	atomic_fetch_add(&loaded->refs, 1);
	return loaded;
}

void pf_loaded_unref(struct pf_loaded *l)
{
	if (!l || atomic_fetch_sub(&l->refs, 1) != 1)
		return;
	pf_life_free_id(l->life, PF_OP_EXECUTABLE_FREE, l->id);
	pf_life_unref(l->life);
	pf_bytes_unref(l->program);
	pf_signature_free(l->signature);
	json_object_put(l->info);
	free(l->devices);
	free(l);
}

struct pf_executable *pf_executable_new(struct pf_worker *worker, struct pf_arena *arena,
					struct pf_probe *probe)
{
	struct pf_executable *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	atomic_init(&x->refs, 1);
	if (pthread_mutex_init(&x->lock, NULL))
		abort();
	x->worker = worker;
	x->arena = arena;
	x->probe = probe;
	return x;
}

struct pf_executable *pf_executable_ref(struct pf_executable *executable)
{
	atomic_fetch_add(&executable->refs, 1);
	return executable;
}

void pf_executable_unref(struct pf_executable *x)
{
	if (!x || atomic_fetch_sub(&x->refs, 1) != 1)
		return;
	pf_bytes_unref(x->program);
	pf_loaded_unref(x->loaded);
	pf_executable_meter_free(x->meter);
	free(x->options);
	pthread_mutex_destroy(&x->lock);
	free(x);
}

void pf_executable_name(struct pf_executable *x, uint64_t subject)
{
	struct pf_metrics *metrics = pf_watch_metrics(pf_worker_watch(x->worker));

	x->subject = subject;
	if (x->meter)
		pf_executable_meter_name(x->meter, subject);
	else if (subject)
		x->meter = pf_metrics_executable(metrics, subject);
}

/* --- the source ---------------------------------------------------------------------- */

static int room_locked(struct pf_executable *x, uint64_t end, struct pf_err *err)
{
	return pf_bytes_room(&x->program, x->arena, x->program_len, end, 0, FIRST_ROOM,
			     err);
}

ssize_t pf_executable_write(struct pf_executable *x, const void *src, size_t len,
			    uint64_t off, struct pf_err *err)
{
	uint64_t end;
	int r;

	if (__builtin_add_overflow(off, len, &end) || end > INT64_MAX)
		return pf_err_set(err, -EFBIG,
				  "a write ends beyond the largest file offset");
	PF_LOCK_SCOPE(&x->lock);
	r = room_locked(x, end, err);
	if (r < 0)
		return r;
	pf_bytes_zero(x->program, x->program_len, off);
	memcpy(pf_bytes_at(x->program, off), src, len);
	if (end > x->program_len)
		x->program_len = end;
	return (ssize_t)len;
}

int pf_executable_truncate(struct pf_executable *x, uint64_t size, struct pf_err *err)
{
	struct pf_waiter *waiters = NULL;
	struct pf_loaded *gone = NULL;
	int r = 0;

	pf_lock(&x->lock);
	if (size > x->program_len) {
		r = room_locked(x, size, err);
		if (r == 0)
			pf_bytes_zero(x->program, x->program_len, size);
	}
	if (r == 0)
		x->program_len = size;
	if (size == 0) {
		pf_bytes_unref(pf_steal(&x->program));
		waiters = pf_executable_supersede(x, PF_EXECUTABLE_EMPTY, &gone);
		pf_err_set(&x->err, -ECANCELED, "the source was emptied");
	}
	pf_unlock(&x->lock);
	pf_wake_all(waiters);
	pf_loaded_unref(gone);
	return r;
}

void pf_executable_unload(struct pf_executable *x)
{
	struct pf_waiter *waiters;
	struct pf_loaded *gone;

	pf_lock(&x->lock);
	waiters = pf_executable_supersede(x, PF_EXECUTABLE_EMPTY, &gone);
	pf_err_set(&x->err, -ECANCELED, "the program was removed");
	pf_unlock(&x->lock);
	pf_wake_all(waiters);
	pf_loaded_unref(gone);
}

struct pf_bytes *pf_executable_source(struct pf_executable *x, uint64_t *ret_len)
{
	PF_LOCK_SCOPE(&x->lock);
	*ret_len = x->program_len;
	return x->program ? pf_bytes_ref(x->program) : NULL;
}

void pf_executable_set_format(struct pf_executable *x, enum pf_program_format format)
{
	PF_LOCK_SCOPE(&x->lock);
	x->format = format;
}

/* --- options -------------------------------------------------------------------------- */

/* TEXT as an object, or NULL for none; -EINVAL what is no JSON object. */
static int parse_options(const char *text, struct json_object **ret, struct pf_err *err)
{
	enum json_tokener_error why;

	*ret = NULL;
	if (!text || !text[strspn(text, " \t\r\n")])
		return 0;
	*ret = json_tokener_parse_verbose(text, &why);
	if (why == json_tokener_success && json_object_is_type(*ret, json_type_object))
		return 0;
	json_object_put(*ret);
	*ret = NULL;
	return pf_err_set(err, -EINVAL, "compile options: expected a JSON object: %s",
			  why == json_tokener_success ? "found something else"
						      : json_tokener_error_desc(why));
}

int pf_executable_encode(struct pf_executable *x, const char *text, struct pf_buf *ret,
			 struct pf_err *err)
{
	const struct pf_description *d = pf_worker_description(x->worker);
	struct json_object *o;
	int r = parse_options(text, &o, err);

	if (r == 0)
		r = pf_options_encode(o, (int)d->n_devices, ret, err);
	json_object_put(o);
	return r;
}

int pf_executable_check_options(struct pf_executable *x, const char *text, size_t len,
				struct pf_err *err)
{
	pf_autobuf struct pf_buf encoded = PF_BUF_INIT;
	pf_autofree char *copy = strndup(text, len);
	struct pf_err why = PF_ERR_INIT;

	if (!copy)
		return pf_err_set(err, -ENOMEM, "no memory for the options");
	if (pf_executable_encode(x, copy, &encoded, &why) < 0 && err)
		*err = why;
	PF_LOCK_SCOPE(&x->lock);
	x->options_err = why;
	return why.code;
}

void pf_executable_refuse_options(struct pf_executable *x, const struct pf_err *err)
{
	PF_LOCK_SCOPE(&x->lock);
	x->options_err = *err;
}

int pf_executable_set_options(struct pf_executable *x, const char *text, size_t len,
			      struct pf_err *err)
{
	pf_autofree char *copy = text ? strndup(text, len) : NULL;
	int r = text ? pf_executable_check_options(x, text, len, err) : 0;

	if (r < 0)
		return r;
	if (text && !copy)
		return pf_err_set(err, -ENOMEM, "no memory for the options");
	pf_lock(&x->lock);
	free(x->options);
	x->options = pf_steal(&copy);
	x->options_err = (struct pf_err)PF_ERR_INIT;
	pf_unlock(&x->lock);
	return 0;
}

/* --- what is known -------------------------------------------------------------------- */

enum pf_executable_state pf_executable_state(struct pf_executable *x)
{
	PF_LOCK_SCOPE(&x->lock);
	return x->state;
}

const char *pf_executable_state_name(enum pf_executable_state state)
{
	static const char *const names[] = {
		[PF_EXECUTABLE_EMPTY] = "empty",
		[PF_EXECUTABLE_COMPILING] = "compiling",
		[PF_EXECUTABLE_READY] = "ready",
		[PF_EXECUTABLE_FAILED] = "failed",
	};

	return names[state];
}

void pf_executable_signature(struct pf_executable *x, struct pf_buf *out)
{
	struct json_object *o = NULL;

	PF_LOCK_SCOPE(&x->lock);
	if (x->loaded)
		o = pf_signature_json(x->loaded->signature,
				      pf_worker_description(x->worker)->platform);
	if (!o)
		o = json_object_new_object();
	pf_json_print_line(o, out);
	json_object_put(o);
}

void pf_executable_info(struct pf_executable *x, struct pf_buf *out)
{
	struct json_object *o = json_object_new_object();

	PF_LOCK_SCOPE(&x->lock);
	pf_json_add_string(o, "state", pf_executable_state_name(x->state));
	pf_json_add_string(o, "plugin", pf_worker_name(x->worker));
	pf_json_add_int(o, "program_bytes", (int64_t)x->program_len);
	if (x->state == PF_EXECUTABLE_COMPILING)
		pf_json_add_seconds(o, "compiling_seconds",
				    pf_seconds_since(&x->started));
	if (x->loaded) {
		pf_json_add_seconds(o, "compile_seconds", x->loaded->compile_seconds);
		json_object_object_foreach(x->loaded->info, key, value)
			json_object_object_add(o, key, json_object_get(value));
	}
	pf_json_print_line(o, out);
	json_object_put(o);
}
