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

/* Have INSTANCE give WHAT of the LEN bytes at BYTES, or of its own topology, and append it. */
static int ask(struct pf_instance *instance, unsigned what, const void *bytes, size_t len,
	       struct pf_buf *out, struct pf_err *err)
{
	struct pf_sync_call call = { .instance = instance,
				     .tail = bytes,
				     .tail_len = len,
				     .timeout_s = bytes ? CHECK_S : READ_S,
				     .keeps = !bytes };

	return pf_sync_ask(&call, PF_OP_TOPOLOGY, what, out, err);
}

int pf_topology_of(struct pf_worker *worker, unsigned what, struct pf_buf *out,
		   struct pf_err *err)
{
	PF_CLEANUP(pf_instance_unrefp)
	struct pf_instance *instance = pf_worker_instance(worker, err);

	return instance ? ask(instance, what, NULL, 0, out, err) : -EIO;
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

/* May USER have WORKER's plugin read the LEN bytes at BYTES, and does it take them? */
static int try(struct pf_compiler *c, struct pf_worker *worker, uid_t user,
	       const void *bytes, size_t len, struct pf_err *err)
{
	PF_CLEANUP(pf_instance_unrefp)
	struct pf_instance *instance = await_instance(worker, err);
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_cache_inputs in = { .format = "topology",
				      .platform = "",
				      .platform_version = "",
				      .devices = "",
				      .host = "",
				      .environment = "",
				      .create = pf_worker_name(worker),
				      .program = bytes,
				      .program_len = len,
				      .part_len = len };
	struct pf_cache_key key;
	int r = instance ? pf_cache_key_make(&in, &key, err) : err->code;

	if (r == 0)
		r = pf_quarantine_check(c->quarantine, PF_SUSPECT_COMPILE, &key, user,
					err);
	if (r < 0)
		return r;
	r = ask(instance, PF_TOPOLOGY_TEXT, bytes, len, &text, err);
	if (r < 0 && err->pjrt_code < 0 && died_of_it(instance))
		pf_quarantine_add(c->quarantine, PF_SUSPECT_COMPILE, &key, user, err);
	return r;
}

int pf_topology_check(struct pf_compiler *c, struct pf_worker *const *workers, unsigned n,
		      uid_t user, const void *bytes, size_t len, struct pf_err *err)
{
	pf_autobuf struct pf_buf why = PF_BUF_INIT;
	int code = -EOPNOTSUPP;

	for (unsigned i = 0; i < n; i++) {
		struct pf_err one = PF_ERR_INIT;
		int r = try(c, workers[i], user, bytes, len, &one);

		if (r == 0)
			return 0;
		pf_buf_printf(&why, "%s%s: %s", i ? "; " : "", pf_worker_name(workers[i]),
			      one.text);
		/* NOT_FOUND: the plugin has no compiler for topologies of its platform. */
		if (r != -EOPNOTSUPP && r != -ENOENT)
			code = r;
	}
	return pf_err_set(err, code, "expected a topology that a plugin reads: %s",
			  why.failed || !why.data ? "no memory" : why.data);
}
