/* SPDX-License-Identifier: Apache-2.0 */
/*
 * executables/NAME/optimized.hlo.pb: the program as the compiler left it.
 *
 * It may be as large as the program's constants, so it is not kept: each opening has the
 * plugin write it into shared memory, and reads are served from there.
 */
#include <errno.h>
#include <stdlib.h>

#include "files/common/patience.h"
#include "internal.h"
#include "pjrtfs/store/optimized.h"

struct opening {
	struct pf_want_optimized want;
	struct patience patience;
	struct pf_life *life; /* owned reference: of the worker that is asked, or NULL */
	struct pf_open *of;   /* borrowed: lives until REPLY is answered */
	struct pf_reply *reply; /* owned */
};

static void opening_free(struct opening *o)
{
	pf_life_unref(o->life);
	free(o);
}

static void fail_silent(struct pf_reply *reply)
{
	struct pf_err err = PF_ERR_INIT;

	pf_err_set(&err, -ETIMEDOUT, "the plugin's worker does not answer");
	pf_reply_fail(reply, err.code, &err);
}

static void optimized_over(struct patience *p)
{
	struct opening *o = pf_container_of(p, struct opening, patience);

	pf_life_set_silent(o->life);
	fail_silent(o->reply);
	if (patience_last(p))
		opening_free(o);
}

static void optimized_done(struct pf_want_optimized *want, int code,
			   struct pf_optimized *got, const struct pf_err *err)
{
	struct opening *o = pf_container_of(want, struct opening, want);

	if (patience_end(&o->patience)) {
		o->of->state = got;
		pf_reply_fail(o->reply, code, err);
		opening_free(o);
		return;
	}
	pf_optimized_free(got);
	if (patience_last(&o->patience))
		opening_free(o);
}

/* How long the worker may take: the time for an answer, and for writing the program. */
static uint64_t patience_ms(struct unit *unit)
{
	return PATIENCE_MS + (pf_executable_optimized_len(unit->x) >> 26) * 1000;
}

static void optimized_prepare(struct pf_open *of, struct pf_reply *reply)
{
	struct unit *unit = of->node->object;
	PF_CLEANUP(pf_loaded_unrefp) struct pf_loaded *loaded = NULL;
	struct opening *o = calloc(1, sizeof(*o));

	if (!o) {
		pf_reply_code(reply, -ENOMEM);
		return;
	}
	o->want.done = optimized_done;
	o->of = of;
	o->reply = reply;
	/* A program that must be compiled again first takes the time that this takes. */
	loaded = pf_executable_loaded(unit->x);
	if (loaded && pf_life_alive(loaded->life))
		o->life = pf_life_ref(loaded->life);
	if (o->life && pf_life_silent(o->life)) {
		fail_silent(reply);
		opening_free(o);
		return;
	}
	o->patience.over = optimized_over;
	if (o->life)
		patience_begin(&o->patience, fs_of(of->node), patience_ms(unit));
	pf_executable_optimized(unit->x, &o->want);
}

static void optimized_read(struct pf_open *of, size_t len, uint64_t off,
			   struct pf_reply *reply)
{
	const struct pf_optimized *o = of->state;

	if (!o || off >= o->len)
		pf_reply_data(reply, NULL, 0);
	else
		pf_reply_data(reply, (const char *)o->bytes + off,
			      len < o->len - off ? len : o->len - off);
}

static void optimized_release(struct pf_open *of)
{
	pf_optimized_free(of->state);
}

static void optimized_getattr(struct pf_node *node, struct stat *st)
{
	struct unit *unit = node->object;

	st->st_size = (off_t)pf_executable_optimized_len(unit->x);
}

static void optimized_free(struct pf_node *node)
{
	unit_unref(node->object);
}

const struct pf_kind kind_optimized = {
	.name = "optimized.hlo.pb",
	.mode = S_IFREG | 0444,
	.prepare = optimized_prepare,
	.read = optimized_read,
	.release = optimized_release,
	.getattr = optimized_getattr,
	.free = optimized_free,
};
