/* SPDX-License-Identifier: Apache-2.0 */
/* Which array's transfer takes long, for health. */
#include <inttypes.h>
#include <stdlib.h>

#include "internal.h"

/* The buffer below DIR, with a reference, whose array VALUE is, or a copy of it; NULL: none is.
 * PF_DEPTH_MAX limits the recursion. */
static struct pf_node *find_below(struct pf_node *dir, struct pf_value *value)
{
	struct pf_node **list = pf_dir_list(dir), *found = NULL;

	for (struct pf_node **n = list; n && *n; n++) {
		PF_CLEANUP(pf_node_unrefp) struct pf_node *node = *n;
		PF_CLEANUP(pf_value_unrefp) struct pf_value *has = NULL;

		if (found)
			continue;
		if (buffers_is_directory(node))
			found = find_below(node, value);
		else if (is_buffer(node) &&
			 pf_buffer_value(buffer_of(node), &has, NULL) == 0 &&
			 pf_value_comes_from(value, has))
			found = pf_node_ref(node);
	}
	free(list);
	return found;
}

/* Append the name of the buffer that VALUE is of, as far as CRED may see it, else "-". */
static void print_name(struct pf_fs *fs, struct pf_value *value,
		       const struct pf_cred *cred, struct pf_buf *out)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	struct pf_node *top = NULL;

	for (unsigned i = 0; i < fs->n_devices && !node; i++) {
		top = fs->devices[i].buffers;
		node = find_below(top, value);
	}
	if (node && files_may_see(node, top, cred))
		pf_node_path(node, NULL, out);
	else
		pf_buf_puts(out, "buffer -");
}

/* As files_print_slow, for one device.  True: there is one. */
static bool print_slow(const struct device *d, const struct pf_cred *cred,
		       struct pf_buf *out)
{
	struct pf_slow_transfer slow;
	bool here = pf_value_slowest(d->worker, &slow) &&
		    pf_value_place(slow.value).device == d->index;

	if (here) {
		print_name(d->fs, slow.value, cred, out);
		pf_buf_printf(out, ": its transfer %s %s has taken %u s; ",
			      slow.to_device ? "to" : "from", d->name, slow.seconds);
		if (slow.limit_s)
			pf_buf_printf(out,
				      "after %" PRIu64 " s (--transfer-timeout) the "
				      "process of plugin %s ends\n",
				      slow.limit_s, pf_worker_name(d->worker));
		else
			pf_buf_printf(out, "to end it, kill the process plugins/%s/pid\n",
				      pf_worker_name(d->worker));
	}
	pf_value_unref(slow.value);
	return here;
}

void files_print_slow(struct pf_fs *fs, const struct pf_cred *cred, struct pf_buf *out)
{
	bool found = false;

	for (unsigned i = 0; i < fs->n_devices && !found; i++) {
		const struct device *d = &fs->devices[i];

		found = print_slow(d, cred, out);
		for (const struct home *home = files_next_home(fs, NULL); home;
		     home = files_next_home(fs, home))
			found = found || print_slow(files_device_in(home, d), cred, out);
	}
}
