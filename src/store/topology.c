/* SPDX-License-Identifier: Apache-2.0 */
/* Topologies: what plugins say of them, and those that programs can be compiled for by name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/executable.h"

enum {
	READ_S = 1,   /* of a file; a later read gets an answer that takes longer */
	CHECK_S = 10, /* one of thousands of devices is read in milliseconds */
};

/* What a user gives: bytes, or with what PF_TOPOLOGY_CREATE the text of a request. */
struct given {
	struct pf_compiler *compiler;
	uid_t user;
	unsigned what; /* that the worker gives for it */
	const void *bytes;
	size_t len;
};

struct pf_topology {
	LIST_ENTRY(pf_topology) entry;
	char *name;             /* owned */
	struct pf_bytes *bytes; /* owned reference: they do not change */
	uint32_t len;
};

/* --- by name ------------------------------------------------------------------------------ */

/* The one called NAME, of LEN bytes, or NULL. */
static struct pf_topology *find_locked(struct pf_compiler *c, const char *name,
				       size_t len)
{
	struct pf_topology *t;

	LIST_FOREACH(t, &c->topologies, entry)
		if (strlen(t->name) == len && !memcmp(t->name, name, len))
			return t;
	return NULL;
}

static void topology_free(struct pf_topology *t)
{
	if (!t)
		return;
	pf_bytes_unref(t->bytes);
	free(t->name);
	free(t);
}

int pf_topology_set(struct pf_compiler *c, const char *name, struct pf_bytes *bytes,
		    uint64_t len, struct pf_err *err)
{
	struct pf_topology *t = bytes ? calloc(1, sizeof(*t)) : NULL, *old;

	if (t)
		t->name = strdup(name);
	if (bytes && (!t || !t->name)) {
		free(t);
		return pf_err_set(err, -ENOMEM, "no memory for a topology");
	}
	if (t) {
		t->bytes = pf_bytes_ref(bytes);
		t->len = (uint32_t)len;
	}
	pf_lock(&c->lock);
	old = find_locked(c, name, strlen(name));
	if (old)
		LIST_REMOVE(old, entry);
	if (t)
		LIST_INSERT_HEAD(&c->topologies, t, entry);
	pf_unlock(&c->lock);
	topology_free(old);
	return 0;
}

void pf_topologies_free(struct pf_compiler *c)
{
	struct pf_topology *t;

	while ((t = LIST_FIRST(&c->topologies))) {
		LIST_REMOVE(t, entry);
		topology_free(t);
	}
}

int pf_topology_append(struct pf_bytes *bytes, uint32_t len, struct pf_plan *plan,
		       struct pf_err *err)
{
	pf_buf_append(&plan->options, pf_bytes_at(bytes, 0), len);
	plan->topology = pf_bytes_ref(bytes);
	plan->topology_len = len;
	return plan->options.failed
		       ? pf_err_set(err, -ENOMEM, "no memory for the options")
		       : 0;
}

int pf_topology_append_named(struct pf_compiler *c, const char *name, size_t len,
			     struct pf_plan *plan, struct pf_err *err)
{
	const struct pf_topology *t;

	PF_LOCK_SCOPE(&c->lock);
	t = find_locked(c, name, len);
	if (!t)
		return pf_err_set(
			err, -EINVAL,
			"option topology: there is no topologies/%.*s.pb, or no "
			"plugin took it",
			len < 80 ? (int)len : 80, name);
	return pf_topology_append(t->bytes, t->len, plan, err);
}

/* --- what plugins say --------------------------------------------------------------------- */

int pf_topology_of(struct pf_worker *worker, unsigned what, struct pf_buf *out,
		   struct pf_err *err)
{
	PF_CLEANUP(pf_instance_unrefp)
	struct pf_instance *instance = pf_worker_instance(worker, err);
	struct pf_sync_call call = { .instance = instance,
				     .timeout_s = READ_S,
				     .keeps = true };

	return !instance ? -EIO : pf_sync_ask(&call, PF_OP_TOPOLOGY, what, out, err);
}

/* WORKER's instance, a reference, which is started for this if a user's own worker has none; NULL:
 * *ERR. */
static struct pf_instance *await_instance(struct pf_worker *worker, struct pf_err *err)
{
	struct pf_instance *instance = NULL;
	struct pf_sleeper s;

	pf_sleeper_init(&s);
	while (pf_worker_await(worker, &s.waiter, &instance, err) == 0)
		pf_sleeper_wait(&s);
	pf_sleeper_release(&s);
	return instance;
}

/* Did INSTANCE die of its PF_OP_TOPOLOGY?  Beside other calls that is not known. */
static bool died_of_it(struct pf_instance *instance)
{
	return !pf_instance_alive(instance) && !pf_instance_was_stopped(instance) &&
	       pf_instance_lost(instance, PF_OP_TOPOLOGY) == 1 &&
	       !pf_instance_lost(instance, PF_OP_COMPILE) &&
	       !pf_instance_lost(instance, PF_OP_LOAD);
}

/* Have INSTANCE, of WORKER, give what GIVEN wants, and append it. */
static int ask(const struct given *given, struct pf_worker *worker,
	       struct pf_instance *instance, struct pf_buf *out, struct pf_err *err)
{
	struct pf_compiler *c = given->compiler;
	struct pf_sync_call call = {
		.instance = instance,
		.tail = given->bytes,
		.tail_len = given->len,
		.timeout_s =
			c->timeout_s && c->timeout_s < CHECK_S ? c->timeout_s : CHECK_S,
		.n_given_up = &c->n_given_up,
	};
	int r = pf_compiler_check_given_up(c, pf_worker_name(worker), err);

	return r < 0 ? r : pf_sync_ask(&call, PF_OP_TOPOLOGY, given->what, out, err);
}

/* May the user of GIVEN have WORKER's plugin take it, and does it?  OUT: what the plugin gives. */
static int try(const struct given *given, struct pf_worker *worker, struct pf_buf *out,
	       struct pf_err *err)
{
	PF_CLEANUP(pf_instance_unrefp)
	struct pf_instance *instance = await_instance(worker, err);
	struct pf_quarantine *quarantine = given->compiler->quarantine;
	bool creates = given->what == PF_TOPOLOGY_CREATE;
	struct pf_cache_inputs in = { .format = creates ? "topology name" : "topology",
				      .platform = "",
				      .platform_version = "",
				      .devices = "",
				      .host = "",
				      .environment = "",
				      .create = pf_worker_name(worker),
				      .program = given->bytes,
				      .program_len = given->len,
				      .part_len = given->len };
	struct pf_cache_key key;
	int r = instance ? pf_cache_key_make(&in, &key, err) : err->code;

	if (r == 0)
		r = pf_quarantine_check(quarantine, PF_SUSPECT_COMPILE, &key, given->user,
					err);
	if (r < 0)
		return r;
	r = ask(given, worker, instance, out, err);
	if (r < 0 && err->pjrt_code < 0 && died_of_it(instance))
		pf_quarantine_add(quarantine, PF_SUSPECT_COMPILE, &key, given->user, err);
	return r;
}

/* Have WORKER's plugin make what REQUEST names, and read the bytes of that. */
static int create(const struct given *request, struct pf_worker *worker,
		  struct pf_topology_facts *ret, struct pf_err *err)
{
	struct given made = *request;
	int r = try(request, worker, &ret->bytes, err);

	if (r == 0 && ret->bytes.len > PF_WIRE_TOPOLOGY)
		r = pf_err_set(err, -EFBIG,
			       "expected a topology of at most %d bytes, found %zu",
			       PF_WIRE_TOPOLOGY, ret->bytes.len);
	if (r < 0)
		return r;
	made.what = PF_TOPOLOGY_TEXT;
	made.bytes = ret->bytes.data;
	made.len = ret->bytes.len;
	return try(&made, worker, &ret->text, err);
}

/* Have the plugins of the N WORKERS take GIVEN, the first one first, until one DOES so ("reads"). */
static int take(const struct given *given, struct pf_worker *const *workers, unsigned n,
		const char *does, struct pf_topology_facts *ret, struct pf_err *err)
{
	pf_autobuf struct pf_buf why = PF_BUF_INIT;
	int code = -EOPNOTSUPP;

	for (unsigned i = 0; i < n; i++) {
		struct pf_err one = PF_ERR_INIT;
		int r;

		pf_topology_facts_release(ret);
		ret->plugin = pf_worker_name(workers[i]);
		r = given->what == PF_TOPOLOGY_CREATE
			    ? create(given, workers[i], ret, &one)
			    : try(given, workers[i], &ret->text, &one);
		if (r == 0)
			return 0;
		pf_buf_printf(&why, "%s%s: %s", i ? "; " : "", ret->plugin, one.text);
		/* NOT_FOUND: the plugin has no compiler for topologies of its platform. */
		if (r != -EOPNOTSUPP && r != -ENOENT)
			code = r;
	}
	return pf_err_set(err, code, "expected a topology that a plugin %s: %s", does,
			  why.failed || !why.data ? "no memory" : why.data);
}

int pf_topology_check(struct pf_compiler *c, struct pf_worker *const *workers, unsigned n,
		      uid_t user, const void *bytes, size_t len,
		      struct pf_topology_facts *ret, struct pf_err *err)
{
	const struct given given = { c, user, PF_TOPOLOGY_TEXT, bytes, len };

	return take(&given, workers, n, "reads", ret, err);
}

int pf_topology_create(struct pf_compiler *c, struct pf_worker *const *workers,
		       unsigned n, const char *plugin, uid_t user, const char *request,
		       struct pf_topology_facts *ret, struct pf_err *err)
{
	const struct given given = { c, user, PF_TOPOLOGY_CREATE, request,
				     strlen(request) };

	if (given.len > PF_WIRE_TOPOLOGY_REQUEST)
		return pf_err_set(
			err, -EINVAL,
			"expected a name and options of at most %d bytes, found "
			"%zu",
			PF_WIRE_TOPOLOGY_REQUEST, given.len);
	for (unsigned i = 0; plugin && i < n; i++)
		if (!strcmp(pf_worker_name(workers[i]), plugin))
			return take(&given, workers + i, 1, "makes", ret, err);
	if (plugin)
		return pf_err_set(err, -EINVAL, "there is no plugin %.80s in this mount",
				  plugin);
	return take(&given, workers, n, "makes", ret, err);
}

void pf_topology_facts_release(struct pf_topology_facts *facts)
{
	pf_buf_release(&facts->bytes);
	pf_buf_release(&facts->text);
}
