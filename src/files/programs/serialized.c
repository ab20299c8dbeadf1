/* SPDX-License-Identifier: Apache-2.0 */
/*
 * executables/NAME/serialized: the compiled program, for programs/ of this mount or another
 * of the same plugin.  Each opening takes it from the cache, or has the plugin write it.
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"
#include "pjrtfs/store/native.h"

struct serialized {
	struct pf_bytes *bytes; /* owned reference, or NULL: nothing */
	uint64_t len;
};

struct opening {
	struct pf_open *of;     /* borrowed: lives until REPLY is answered */
	struct pf_reply *reply; /* owned */
};

static void *open_on_thread(void *arg)
{
	struct opening *o = arg;
	struct unit *unit = o->of->node->object;
	struct serialized *s = calloc(1, sizeof(*s));
	struct pf_err err = PF_ERR_INIT;
	int r = s ? pf_executable_serialize(unit->x, &s->bytes, &s->len, &err) : -ENOMEM;

	if (r < 0)
		free(s);
	else
		o->of->state = s;
	pf_reply_fail(o->reply, r, &err);
	free(o);
	return NULL;
}

static void serialized_prepare(struct pf_open *of, struct pf_reply *reply)
{
	struct opening *o = calloc(1, sizeof(*o));

	if (o) {
		o->of = of;
		o->reply = reply;
	}
	if (!o || !files_on_thread(open_on_thread, o)) {
		free(o);
		pf_reply_code(reply, -ENOMEM);
	}
}

static void serialized_read(struct pf_open *of, size_t len, uint64_t off,
			    struct pf_reply *reply)
{
	const struct serialized *s = of->state;

	if (!s || !s->bytes || off >= s->len)
		pf_reply_data(reply, NULL, 0);
	else
		pf_reply_data(reply, pf_bytes_at(s->bytes, off),
			      len < s->len - off ? len : s->len - off);
}

static void serialized_release(struct pf_open *of)
{
	struct serialized *s = of->state;

	if (s)
		pf_bytes_unref(s->bytes);
	free(s);
}

static void serialized_getattr(struct pf_node *node, struct stat *st)
{
	struct unit *unit = node->object;

	st->st_size = (off_t)pf_executable_serialized_len(unit->x);
}

static void serialized_free(struct pf_node *node)
{
	unit_unref(node->object);
}

const struct pf_kind kind_serialized = {
	.name = "serialized",
	.mode = S_IFREG | 0444,
	.prepare = serialized_prepare,
	.read = serialized_read,
	.release = serialized_release,
	.getattr = serialized_getattr,
	.free = serialized_free,
};
