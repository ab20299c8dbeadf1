/* SPDX-License-Identifier: Apache-2.0 */
/* What runs now: devices/NAME/N/queue, and plugins/NAME/queue for compiles. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "internal.h"
#include "pjrtfs/executable.h"
#include "pjrtfs/scheduler.h"

enum { MAX_LINES = 1000 };

bool files_may_see(struct pf_node *node, struct pf_node *top, const struct pf_cred *cred)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *at = pf_node_ref(node);
	bool may = pf_node_may(node, cred, R_OK);

	while (may && at && at != top) {
		struct pf_node *parent = pf_node_parent(at);

		pf_node_unref(at);
		at = parent;
		may = at && pf_node_may(at, cred, X_OK);
	}
	return may;
}

/* Append the name of the executable of E, as far as CRED may see it; of one that was removed, its user
 * may. */
static void print_name(struct pf_fs *fs, const struct pf_sched_entry *e,
		       const struct pf_cred *cred, struct pf_buf *out)
{
	uint64_t subject = e->work.subject;
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *node = subject ? pf_tree_by_ino(fs->tree, subject) : NULL;
	bool own = !cred->uid || cred->uid == e->user;
	size_t before = out->len;

	if (node && files_may_see(node, fs->executables, cred))
		pf_node_path(node, fs->executables, out);
	if (out->len == before)
		pf_buf_puts(out, own && *e->work.name ? e->work.name : "-");
}

/* Append a line for each of the N ENTRIES as CRED sees them. */
static void print(struct pf_fs *fs, const struct pf_sched_entry *entries, size_t n,
		  const struct pf_cred *cred, struct pf_buf *out)
{
	int64_t now = pf_now_ms();

	for (size_t i = 0; i < n; i++) {
		const struct pf_sched_entry *e = &entries[i];
		int64_t ms = now > e->since ? now - e->since : 0;

		pf_buf_printf(out, "%u %s %" PRId64 ".%03d %u %" PRIu64 "/%" PRIu64 " ",
			      e->user, pf_stage_word(e->stage), ms / 1000,
			      (int)(ms % 1000), e->position, e->work.done, e->work.of);
		print_name(fs, e, cred, out);
		pf_buf_puts(out, "\n");
	}
}

/* Append what is on D, which is one user's own, or the mount's. */
static void print_device(const struct device *d, struct pf_sched_entry *entries,
			 const struct pf_cred *cred, struct pf_buf *out)
{
	size_t n =
		pf_sched_list(pf_worker_sched(d->worker), d->index, entries, MAX_LINES);

	print(d->fs, entries, n, cred, out);
}

void files_count_executions(const struct device *d, unsigned *ret_running,
			    unsigned *ret_queued)
{
	pf_sched_count(pf_worker_sched(d->worker), d->index, ret_running, ret_queued);
	for (const struct home *home = files_next_home(d->fs, NULL); home;
	     home = files_next_home(d->fs, home)) {
		const struct device *own = files_device_in(home, d);
		unsigned running, queued;

		pf_sched_count(pf_worker_sched(own->worker), own->index, &running,
			       &queued);
		*ret_running += running;
		*ret_queued += queued;
	}
}

static void print_compiles(struct pf_fs *fs, const struct pf_worker *worker,
			   struct pf_sched_entry *entries, const struct pf_cred *cred,
			   struct pf_buf *out)
{
	size_t n = pf_compiler_list(fs->config.compiler, entries, MAX_LINES), kept = 0;

	for (size_t i = 0; i < n; i++)
		if (entries[i].work.worker == worker)
			entries[kept++] = entries[i];
	print(fs, entries, kept, cred, out);
}

/* The executions that no client awaits come to light after so long; in ms. */
static int64_t left_ms(const struct pf_fs *fs)
{
	enum { MINUTE = 60000, PART = 60 };

	return fs->config.abandoned_ms ? MIN(fs->config.abandoned_ms / PART, MINUTE)
				       : MINUTE;
}

/* As files_print_left, for one device. */
static bool print_left(const struct device *d, struct pf_sched_entry *entries,
		       const struct pf_cred *cred, struct pf_buf *out)
{
	size_t n =
		pf_sched_list(pf_worker_sched(d->worker), d->index, entries, MAX_LINES);
	int64_t now = pf_now_ms();

	for (size_t i = 0; i < n; i++) {
		const struct pf_sched_entry *e = &entries[i];

		if (!e->work.left || now - e->work.left < left_ms(d->fs))
			continue;
		pf_buf_printf(out, "executable ");
		print_name(d->fs, e, cred, out);
		pf_buf_printf(out,
			      ": no client has waited for %" PRId64
			      " s for an execution of user %u, which runs on %s; ",
			      (now - e->work.left) / 1000, e->user, d->name);
		if (d->fs->config.abandoned_ms)
			pf_buf_printf(out,
				      "after %" PRIu64
				      " s (--abandoned-timeout) the process of plugin %s "
				      "ends\n",
				      d->fs->config.abandoned_ms / 1000,
				      pf_worker_name(d->worker));
		else
			pf_buf_printf(out, "to end it, kill the process plugins/%s/pid\n",
				      pf_worker_name(d->worker));
		return true;
	}
	return false;
}

int files_print_left(struct pf_fs *fs, const struct pf_cred *cred, struct pf_buf *out)
{
	pf_autofree struct pf_sched_entry *entries = calloc(MAX_LINES, sizeof(*entries));
	bool found = false;

	if (!entries)
		return -ENOMEM;
	for (unsigned i = 0; i < fs->n_devices && !found; i++) {
		const struct device *d = &fs->devices[i];

		found = print_left(d, entries, cred, out);
		for (const struct home *home = files_next_home(fs, NULL); home;
		     home = files_next_home(fs, home))
			found = found ||
				print_left(files_device_in(home, d), entries, cred, out);
	}
	return found;
}

static int queue_show(struct pf_node *node, const struct pf_cred *cred,
		      struct pf_buf *out, struct pf_err *err)
{
	struct pf_fs *fs = fs_of(node);
	pf_autofree struct pf_sched_entry *entries = calloc(MAX_LINES, sizeof(*entries));

	if (!entries)
		return pf_err_set(err, -ENOMEM, "no memory for the text");
	if (node->kind == &kind_compiles) {
		print_compiles(fs, node->object, entries, cred, out);
		return 0;
	}
	print_device(node->object, entries, cred, out);
	for (const struct home *home = files_next_home(fs, NULL); home;
	     home = files_next_home(fs, home))
		print_device(files_device_in(home, node->object), entries, cred, out);
	return 0;
}

const struct pf_kind kind_queue = { .name = "queue",
				    .mode = S_IFREG | 0444,
				    .show_as = queue_show };
const struct pf_kind kind_compiles = { .name = "queue",
				       .mode = S_IFREG | 0444,
				       .show_as = queue_show };
