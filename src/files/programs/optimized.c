/* SPDX-License-Identifier: Apache-2.0 */
/*
 * executables/NAME/optimized.hlo.pb: the program as the compiler left it.
 *
 * It may be as large as the program's constants, so it is not kept: each opening has the
 * plugin write it into shared memory, and reads are served from there.
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"
#include "pjrtfs/store/optimized.h"

struct opening {
	struct pf_want_optimized want;
	struct pf_open *of;     /* borrowed: lives until REPLY is answered */
	struct pf_reply *reply; /* owned */
};

static void optimized_done(struct pf_want_optimized *want, int code,
			   struct pf_optimized *got, const struct pf_err *err)
{
	struct opening *o = pf_container_of(want, struct opening, want);

	o->of->state = got;
	pf_reply_fail(o->reply, code, err);
	free(o);
}

static void optimized_prepare(struct pf_open *of, struct pf_reply *reply)
{
	struct unit *unit = of->node->object;
	struct opening *o = calloc(1, sizeof(*o));

	if (!o) {
		pf_reply_code(reply, -ENOMEM);
		return;
	}
	o->want.done = optimized_done;
	o->of = of;
	o->reply = reply;
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
