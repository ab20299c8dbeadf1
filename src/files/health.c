/* SPDX-License-Identifier: Apache-2.0 */
/* health: what does not work. */
#include <errno.h>

#include "internal.h"

int files_troubles(struct pf_fs *fs, const struct pf_cred *cred, struct pf_buf *out)
{
	struct pf_err why = PF_ERR_INIT;
	int r;

	if (fs->state_dir)
		pf_state_dir_health(fs->state_dir, out);
	for (unsigned i = 0; i < fs->n_workers; i++) {
		enum pf_worker_state state = pf_worker_state(fs->workers[i]);

		if (pf_worker_check_away(fs->workers[i], &why) < 0)
			pf_buf_printf(out, "%s\n", why.text);
		else if (!pf_worker_state_is_well(state))
			pf_buf_printf(out, "plugin %s %s %s\n",
				      pf_worker_name(fs->workers[i]),
				      state == PF_WORKER_FAILED ? "has" : "is",
				      pf_worker_state_name(state));
	}
	for (unsigned i = 0; i < fs->config.n_failed; i++)
		pf_buf_printf(out, "plugin %s has failed\n", fs->config.failed[i].name);
	r = files_print_left(fs, cred, out);
	files_print_slow(fs, cred, out);
	if (fs->config.cache && pf_cache_failing(fs->config.cache, &why) < 0)
		pf_buf_printf(out, "cache %s: %s; programs are compiled but not kept\n",
			      pf_cache_dir(fs->config.cache), why.text);
	return r < 0 ? r : 0;
}

static int health_show(struct pf_node *node, const struct pf_cred *cred,
		       struct pf_buf *out, struct pf_err *err)
{
	int r = files_troubles(fs_of(node), cred, out);

	if (r < 0)
		return pf_err_set(err, r, "no memory for the text");
	if (!out->len)
		pf_buf_puts(out, "ok\n");
	return 0;
}

const struct pf_kind kind_health = { .name = "health",
				     .mode = S_IFREG | 0444,
				     .show_as = health_show };
