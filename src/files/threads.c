/* SPDX-License-Identifier: Apache-2.0 */
/* Work that takes long, on threads of its own. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "internal.h"

/* Changes under way: their threads use the file system. */
static atomic_uint n_changes;

bool pf_fs_is_changing(void)
{
	return atomic_load(&n_changes);
}

bool files_change(void *(*fn)(void *arg), void *arg)
{
	atomic_fetch_add(&n_changes, 1);
	if (pf_thread_start(NULL, fn, arg) == 0)
		return true;
	files_changed();
	return false;
}

void files_changed(void)
{
	atomic_fetch_sub(&n_changes, 1);
}

struct slow_open {
	struct pf_open *of;     /* stays until REPLY is answered */
	struct pf_reply *reply; /* owned */
	int (*open)(struct pf_open *of, struct pf_err *err);
};

static void *open_on_thread(void *arg)
{
	struct slow_open *o = arg;
	struct pf_err err = PF_ERR_INIT;
	int r = o->open(o->of, &err);

	pf_reply_fail(o->reply, r, &err);
	free(o);
	return NULL;
}

void files_open_slowly(struct pf_open *of, struct pf_reply *reply,
		       int (*open)(struct pf_open *of, struct pf_err *err))
{
	struct pf_err err = PF_ERR_INIT;
	int r = pf_open_may_hold(of, &err);
	struct slow_open *o;

	if (r < 0) {
		pf_reply_fail(reply, r, &err);
		return;
	}
	o = malloc(sizeof(*o));
	if (o)
		*o = (struct slow_open){ .of = of, .reply = reply, .open = open };
	if (!o || pf_thread_start(NULL, open_on_thread, o)) {
		free(o);
		pf_reply_code(reply, -ENOMEM);
	}
}
