/* SPDX-License-Identifier: Apache-2.0 */
/* Executables: their source and their options. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"
#include "pjrtfs/plugin_options.h"

/* --- options and defaults --------------------------------------------------------------- */

/* TEXT as an object, or NULL for a blank one; -EINVAL: it is not a JSON object. */
static int parse_options(const char *text, struct json_object **ret, struct pf_err *err)
{
	int r;

	*ret = NULL;
	if (!text || !text[strspn(text, " \t\r\n")])
		return 0;
	r = pf_json_parse(text, strlen(text), ret, err);
	return r < 0 ? pf_err_wrap(err, r, "compile options") : 0;
}

/* Add the mount's defaults to *O, which may be NULL, for the keys that it lacks. */
static int add_defaults(const struct pf_executable *x, struct json_object **o,
			struct pf_err *err)
{
	/* Parsed each time: threads may not share json-c's objects. */
	const char *text = x->compiler->options;
	struct json_object *defaults, *merged;

	if (!text)
		return 0;
	if (pf_json_parse(text, strlen(text), &defaults, NULL) < 0)
		defaults = NULL;
	merged = defaults ? pf_options_merge(*o, defaults) : NULL;
	json_object_put(defaults);
	if (!merged)
		return pf_err_set(err, -ENOMEM, "no memory for the options");
	json_object_put(*o);
	*o = merged;
	return 0;
}

/* The plugin that the options O name, else the default. */
static int find_worker(const struct pf_executable *x, struct json_object *o,
		       struct pf_worker **ret, struct pf_err *err)
{
	const char *name;
	size_t len;
	int r = pf_options_plugin(o, &name, &len, err);

	if (r < 0)
		return r;
	*ret = x->workers[0];
	if (!name)
		return 0;
	for (unsigned i = 0; i < x->n_workers; i++) {
		*ret = x->workers[i];
		if (strlen(pf_worker_name(*ret)) == len &&
		    memcmp(pf_worker_name(*ret), name, len) == 0)
			return 0;
	}
	return pf_err_set(err, -EINVAL, "options: there is no plugin %.*s in this mount",
			  len < 80 ? (int)len : 80, name);
}

/* The plugin of programs whose options do not name one. */
static struct pf_worker *default_worker(const struct pf_executable *x)
{
	struct pf_worker *worker = x->workers[0];
	struct json_object *o = NULL;

	if (add_defaults(x, &o, NULL) < 0 || find_worker(x, o, &worker, NULL) < 0)
		worker = x->workers[0]; /* the compile says why */
	json_object_put(o);
	return worker;
}

struct pf_executable *pf_executable_new(const struct pf_executable_config *config,
					uid_t user)
{
	struct pf_executable *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	atomic_init(&x->refs, 1);
	if (pthread_mutex_init(&x->lock, NULL))
		abort();
	if (pthread_mutex_init(&x->callbacks.lock, NULL))
		abort();
	TAILQ_INIT(&x->callbacks.asked);
	TAILQ_INIT(&x->callbacks.hosts);
	x->workers = config->workers;
	x->n_workers = config->n_workers;
	pf_arena_hold(config->arena);
	x->arena = config->arena;
	x->compiler = config->compiler;
	x->timers = config->timers;
	x->user = user;
	x->worker = default_worker(x);
	x->id = pf_object_number();
	return x;
}

static void drop_options_locked(struct pf_executable *x)
{
	free(pf_steal(&x->options));
	pf_memory_discharge(x->arena, x->account, x->options_len);
	x->options_len = 0;
}

void pf_executable_drop_served_locked(struct pf_executable *x)
{
	pf_bytes_unref(pf_steal(&x->served.program));
	free(pf_steal(&x->served.settings));
	x->served.len = 0;
}

static void executable_free(struct pf_executable *x)
{
	if (x->id)
		pf_state_drop(PF_STATE_EXECUTABLE, x->id);
	pf_bytes_unref(x->program);
	pf_bytes_unref(x->topology);
	pf_executable_drop_served_locked(x);
	pf_loaded_unref(x->loaded);
	json_object_put(x->calls);
	pf_executable_meter_free(x->meter);
	drop_options_locked(x);
	pthread_mutex_destroy(&x->callbacks.lock);
	pthread_mutex_destroy(&x->lock);
	pf_arena_let_go(x->arena);
	free(x);
}

PF_DEFINE_REF(struct pf_executable, pf_executable, executable_free)

uint64_t pf_executable_number(const struct pf_executable *x)
{
	return x->id;
}

uid_t pf_executable_user(const struct pf_executable *x)
{
	return x->user;
}

bool pf_executable_is_named(const struct pf_executable *x)
{
	return x->subject;
}

void pf_executable_name(struct pf_executable *x, uint64_t subject)
{
	struct pf_telemetry *telemetry = pf_worker_telemetry(x->worker);

	x->subject = subject;
	if (x->meter)
		pf_executable_meter_name(x->meter, subject);
	else if (subject)
		x->meter = pf_metrics_executable(telemetry, subject);
}

/* --- its compiled program ---------------------------------------------------------------- */

struct pf_wait *pf_executable_supersede(struct pf_executable *x,
					enum pf_executable_state state, bool keep,
					struct pf_loaded **gone)
{
	*gone = NULL;
	if (!keep) {
		*gone = pf_steal(&x->loaded);
		json_object_put(pf_steal(&x->calls));
	}
	x->generation++;
	x->awaited = false;
	x->state = x->loaded && state != PF_EXECUTABLE_COMPILING ? PF_EXECUTABLE_READY
								 : state;
	return pf_steal(&x->waiters);
}

/* The same for the reason WHY; the lock is held on entry. */
__attribute__((__warn_unused_result__)) static struct pf_wait *supersede_unlock(
	struct pf_executable *x, enum pf_executable_state state, bool keep,
	const char *why)
{
	struct pf_loaded *gone;
	struct pf_wait *waiters = pf_executable_supersede(x, state, keep, &gone);

	pf_err_set(&x->err, -ECANCELED, "%s", why);
	pf_executable_save_locked(x);
	pf_unlock(&x->lock);
	pf_loaded_unref(gone);
	return waiters;
}

bool pf_executable_abandon(struct pf_executable *x)
{
	bool begun;

	pf_lock(&x->lock);
	if (x->state != PF_EXECUTABLE_COMPILING) {
		pf_unlock(&x->lock);
		return false;
	}
	begun = x->job && !pf_sched_position(x->compiler->sched, &x->job->slot);
	pf_wake_all(supersede_unlock(x, PF_EXECUTABLE_FAILED, true,
				     "its compile was cancelled"));
	return begun;
}

struct pf_loaded *pf_executable_serving(const struct pf_executable *x)
{
	bool serves = x->state == PF_EXECUTABLE_READY ||
		      (x->state == PF_EXECUTABLE_COMPILING && x->awaited);

	return serves ? x->loaded : NULL;
}

struct pf_loaded *pf_executable_known(struct pf_executable *x)
{
	struct pf_loaded *l;

	PF_LOCK_SCOPE(&x->lock);
	l = pf_executable_serving(x);
	return l ? pf_loaded_ref(l) : NULL;
}

struct pf_loaded *pf_executable_loaded(struct pf_executable *x)
{
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *l = pf_executable_known(x);

	return l && !l->for_topology && pf_loaded_use(l) ? pf_steal(&l) : NULL;
}

/* --- the source ---------------------------------------------------------------------- */

ssize_t pf_executable_write(struct pf_executable *x, const void *src, size_t len,
			    uint64_t off, struct pf_err *err)
{
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *held = NULL;
	int r;

	PF_CHANGE_SCOPE(executable, x);
	x->write_err = (struct pf_err)PF_ERR_INIT;
	held = pf_bytes_hold(x->program, x->arena); /* until the journal has the copy */
	r = pf_bytes_write(&x->program, x->arena, x->account, &x->program_len, src, len,
			   off, 0, &x->write_err);
	x->changed = true;
	if (r < 0 && err)
		*err = x->write_err;
	return r < 0 ? r : (ssize_t)len;
}

int pf_executable_truncate(struct pf_executable *x, uint64_t size, struct pf_err *err)
{
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *held = NULL;
	int r = 0;

	pf_lock(&x->lock);
	x->changed = true;
	if (size == 0) {
		held = pf_steal(&x->program); /* until the journal does not name it */
		x->program_len = 0;
		x->write_err.code = 0;
		pf_wake_all(pf_executable_is_empty_unlock(x));
		return 0;
	}
	held = pf_bytes_hold(x->program, x->arena);
	if (size > x->program_len)
		r = pf_bytes_write(&x->program, x->arena, x->account, &x->program_len,
				   NULL, 0, size, 0, err);
	else
		x->program_len = size;
	pf_executable_save_locked(x);
	pf_unlock(&x->lock);
	return r;
}

void pf_executable_charge_to(struct pf_executable *x, struct pf_account *account)
{
	PF_LOCK_SCOPE(&x->lock);
	pf_account_move(x->account, account, PF_MEMORY, x->options_len);
	x->account = account;
	pf_bytes_charge_to(x->program, account);
	if (x->loaded) {
		pf_bytes_charge_to(x->loaded->program, account);
		pf_bytes_charge_to(x->loaded->file, account);
	}
	pf_bytes_charge_to(x->served.program, account);
}

struct pf_wait *pf_executable_is_empty_unlock(struct pf_executable *x)
{
	return supersede_unlock(x, PF_EXECUTABLE_EMPTY, true, "its file is empty");
}

struct pf_wait *pf_executable_unload(struct pf_executable *x)
{
	pf_lock(&x->lock);
	pf_executable_drop_served_locked(x);
	return supersede_unlock(x, PF_EXECUTABLE_EMPTY, false, "the program was removed");
}

bool pf_executable_succeed(struct pf_executable *to, struct pf_executable *from)
{
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *l = NULL;
	struct json_object *calls;
	bool taken;

	pf_lock(&from->lock);
	l = from->loaded ? pf_loaded_ref(from->loaded) : NULL;
	calls = l && from->calls ? pf_json_copy(from->calls) : NULL;
	pf_unlock(&from->lock);
	if (!l)
		return false;
	pf_lock(&to->lock);
	taken = !to->loaded;
	if (taken) {
		pf_bytes_charge_to(l->program, to->account);
		pf_bytes_charge_to(l->file, to->account);
		to->loaded = pf_steal(&l);
		to->calls = pf_steal(&calls);
		to->cache_use = NULL;
		if (to->state == PF_EXECUTABLE_EMPTY)
			to->state = PF_EXECUTABLE_READY;
		pf_executable_save_locked(to);
	}
	pf_unlock(&to->lock);
	json_object_put(calls);
	return taken;
}

void pf_executable_discard(struct pf_executable *x)
{
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *held = NULL;

	PF_CHANGE_SCOPE(executable, x);
	held = pf_steal(&x->program); /* until the journal does not name it */
	x->program_len = 0;
	drop_options_locked(x);
}

int pf_executable_no_source(struct pf_err *err)
{
	return pf_err_set(err, -ENOENT,
			  "its file in programs/ is empty, or was not closed yet");
}

struct pf_bytes *pf_executable_source(struct pf_executable *x, uint64_t *ret_len)
{
	PF_LOCK_SCOPE(&x->lock);
	*ret_len = x->program_len;
	return x->program ? pf_bytes_ref(x->program) : NULL;
}

struct pf_bytes *pf_executable_kept_source(struct pf_executable *x, uint64_t *ret_len)
{
	PF_LOCK_SCOPE(&x->lock);
	*ret_len = x->program_len;
	return x->program && !x->changed ? pf_bytes_ref(x->program) : NULL;
}

uint64_t pf_executable_uncommitted(struct pf_executable *x)
{
	PF_LOCK_SCOPE(&x->lock);
	/* A compile under way, or that failed, has an error of its own. */
	if (!x->changed || x->format == PF_PROGRAM_NONE ||
	    (x->state != PF_EXECUTABLE_EMPTY && x->state != PF_EXECUTABLE_READY))
		return 0;
	return x->program_len;
}

void pf_executable_keep_source(struct pf_executable *x, const struct pf_bytes *source)
{
	PF_CHANGE_SCOPE(executable, x);
	if (x->program == source)
		x->changed = false;
}

int pf_executable_copy_source(struct pf_executable *to, struct pf_executable *from,
			      struct pf_err *err)
{
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *bytes = NULL;
	enum pf_program_format format;
	struct pf_bytes *own;
	uint64_t len = 0, off = 0;
	int r;

	pf_lock(&from->lock);
	format = from->format;
	/* A source that is not closed yet is not committed. */
	if (from->state == PF_EXECUTABLE_READY) {
		bytes = pf_bytes_ref(from->loaded->program);
		len = from->loaded->program_len;
	} else if (from->program) {
		bytes = pf_bytes_ref(from->program);
		len = from->program_len;
	}
	pf_unlock(&from->lock);
	if (!bytes || format == PF_PROGRAM_NONE)
		return pf_executable_no_source(err);
	r = pf_bytes_in(bytes, to->arena, to->account, &off, len, &own, err);
	if (r < 0)
		return r;
	pf_bytes_unref(pf_steal(&bytes));
	PF_CHANGE_SCOPE(executable, to);
	bytes = to->program; /* until the journal does not name it */
	to->program = own;
	to->program_len = len;
	to->format = format;
	return 0;
}

void pf_executable_set_format(struct pf_executable *x, enum pf_program_format format)
{
	PF_CHANGE_SCOPE(executable, x);
	x->format = format;
}

enum pf_program_format pf_executable_format(struct pf_executable *x)
{
	PF_LOCK_SCOPE(&x->lock);
	return x->format;
}

/* --- options -------------------------------------------------------------------------- */

/* ERR says that a plugin has no device: add what to do.  Its code. */
static int add_topology_hint(struct pf_err *err)
{
	struct pf_err was = *err;

	return pf_err_set(err, was.code,
			  "%s; the program's options.json can name a topology, as "
			  "{\"topology\":\"v5e\"}",
			  was.text);
}

/* Encode O for the plugin of RET->worker. */
static int encode(const struct pf_executable *x, struct json_object *o,
		  const struct pf_program_facts *facts, struct pf_plan *ret,
		  struct pf_err *err)
{
	const struct pf_description *d = pf_worker_description(ret->worker);
	pf_autofree int64_t *ids = calloc(d->n_devices + 1, sizeof(*ids));
	struct pf_options_target target = { .plugin = pf_worker_name(ret->worker),
					    .n_devices = d->n_devices,
					    .device_ids = ids };
	size_t len;
	const char *topology = pf_options_topology(o, &len);
	int r;

	if (!ids)
		return pf_err_set(err, -ENOMEM, "no memory for the options");
	for (unsigned i = 0; i < d->n_devices; i++)
		ids[i] = d->devices[i].id;
	/* --devices is XLA's CPU plugin's number, if that is the default plugin. */
	if (topology) {
		target.elsewhere = true;
		target.device_ids = NULL;
	}
	r = topology ? 0 : pf_worker_has_client(ret->worker, err);
	if (r < 0)
		return add_topology_hint(err);
	if (ret->worker == x->workers[0] && !strcmp(d->platform, "cpu"))
		target.max_devices = PF_OPTIONS_MAX_DEVICES;
	if (facts) {
		target.num_replicas = facts->num_replicas;
		target.num_partitions = facts->num_partitions;
		target.shardy = facts->shardy;
		/* Without a client the platform is not known, and the compiler refuses others. */
		if (!d->compiler)
			r = pf_program_check_platform(facts, d->platform, err);
		if (r < 0)
			return r;
		/* The topology's is known when the plugin has read it: find_platform. */
		ret->platform = facts->takes_platform && !topology ? (uint32_t)r + 1 : 0;
	}
	r = pf_options_encode(o, &target, &ret->options, err);
	if (r < 0 || !topology)
		return r;
	/* It may be gone, or another one by now. */
	if (x->resumed && x->topology_len)
		return pf_topology_append(x->topology, x->topology_len, ret, err);
	return pf_topology_append_named(x->compiler, topology, len, ret, err);
}

/* Keep the names that the options O give the inputs. */
static int keep_names(struct json_object *o, struct pf_plan *ret, struct pf_err *err)
{
	struct json_object *names = json_object_new_object(), *list;

	json_object_object_get_ex(o, "input_names", &list);
	pf_json_add_copy(names, "input_names", list);
	ret->names = pf_json_text_copy(names);
	json_object_put(names);
	return ret->names ? 0 : pf_err_set(err, -ENOMEM, "no memory for names");
}

void pf_plan_release(struct pf_plan *plan)
{
	pf_buf_release(&plan->options);
	pf_bytes_unref(pf_steal(&plan->topology));
	free(pf_steal(&plan->names));
}

int pf_executable_plan(const struct pf_executable *x, const char *text,
		       const struct pf_program_facts *facts, struct pf_plan *ret,
		       struct pf_err *err)
{
	struct json_object *o;
	int r = parse_options(text, &o, err);

	*ret = (struct pf_plan){ .options = PF_BUF_INIT };
	if (r == 0)
		r = add_defaults(x, &o, err);
	if (r == 0)
		r = find_worker(x, o, &ret->worker, err);
	if (r == 0)
		r = encode(x, o, facts, ret, err);
	if (r == 0 && json_object_object_get_ex(o, "input_names", NULL))
		r = keep_names(o, ret, err);
	if (r < 0)
		pf_plan_release(ret);
	json_object_put(o);
	return r;
}

void pf_executable_refuse_options(struct pf_executable *x, const struct pf_err *err)
{
	PF_CHANGE_SCOPE(executable, x);
	x->options_err = *err;
}

int pf_executable_set_options(struct pf_executable *x, const char *text, size_t len,
			      bool only_check, struct pf_err *err)
{
	pf_autofree char *copy = text ? strndup(text, len) : NULL;
	struct pf_plan plan = { .worker = default_worker(x) };
	struct pf_err why = PF_ERR_INIT;
	int r;

	if (text && !copy)
		return pf_err_set(err, -ENOMEM, "no memory for the options");
	PF_CHANGE_SCOPE(executable, x);
	if (text && strlen(copy) < len)
		pf_err_set(&why, -EINVAL, "compile options: byte %zu is zero",
			   strlen(copy) + 1);
	else if (text)
		(void)pf_executable_plan(x, copy, NULL, &plan, &why);
	pf_plan_release(&plan);
	if (why.code < 0 && err)
		*err = why;
	x->options_err = why;
	r = why.code;
	if (r == 0 && copy && !only_check)
		r = pf_memory_charge(x->arena, x->account, len, err);
	if (r == 0 && !only_check) {
		drop_options_locked(x);
		x->options_len = copy ? len : 0;
		x->options = pf_steal(&copy);
		x->worker = plan.worker;
	}
	return r;
}

void pf_executable_options(struct pf_executable *x, struct pf_buf *out)
{
	PF_LOCK_SCOPE(&x->lock);
	if (x->options)
		pf_buf_puts(out, x->options);
}

void pf_executable_refusals(struct pf_executable *x, struct pf_err *ret_write,
			    struct pf_err *ret_options)
{
	PF_LOCK_SCOPE(&x->lock);
	*ret_write = x->write_err;
	*ret_options = x->options_err;
}

struct pf_worker *pf_executable_worker(struct pf_executable *x)
{
	PF_LOCK_SCOPE(&x->lock);
	return x->worker;
}

/* --- its state ------------------------------------------------------------------------ */

enum pf_executable_state pf_executable_state_locked(const struct pf_executable *x)
{
	return x->state == PF_EXECUTABLE_READY && x->loaded->for_topology
		       ? PF_EXECUTABLE_COMPILED
		       : x->state;
}

enum pf_executable_state pf_executable_state(struct pf_executable *x)
{
	PF_LOCK_SCOPE(&x->lock);
	return pf_executable_state_locked(x);
}

const char *pf_executable_state_name(enum pf_executable_state state)
{
	static const char *const names[] = {
		[PF_EXECUTABLE_EMPTY] = "empty",
		[PF_EXECUTABLE_COMPILING] = "compiling",
		[PF_EXECUTABLE_READY] = "ready",
		[PF_EXECUTABLE_FAILED] = "failed",
		[PF_EXECUTABLE_COMPILED] = "compiled",
	};

	return names[state];
}
