/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that open files hold for their users: texts, halves of commands, replies. */
#include <errno.h>
#include <stdint.h>

#include "internal.h"

/* No key is 0. */
static uint64_t key_of(const struct pf_open *of)
{
	return (uint64_t)of->cred.uid + 1;
}

void pf_open_hold(struct pf_open *of, size_t bytes)
{
	struct pf_tree *tree = of->node->tree;
	uintptr_t all;

	if (bytes == of->held)
		return;
	PF_LOCK_SCOPE(&tree->lock);
	all = (uintptr_t)pf_map_get(&tree->held, key_of(of)) - of->held + bytes;
	if (!all)
		pf_map_remove(&tree->held, key_of(of));
	/* Without memory for it the old number is what is given back. */
	else if (pf_map_put(&tree->held, key_of(of), (void *)all) < 0)
		return;
	of->held = bytes;
}

int pf_open_may_hold(const struct pf_open *of, struct pf_err *err)
{
	struct pf_tree *tree = of->node->tree;

	/* A restart opens files in another order, and must lose none. */
	if (of->reopened && !of->held)
		return 0;
	PF_LOCK_SCOPE(&tree->lock);
	if ((uintptr_t)pf_map_get(&tree->held, key_of(of)) <= PF_OPEN_MAX_HELD)
		return 0;
	return pf_err_set(err, -ENOBUFS,
			  "the open files of user %u hold more than %d MiB of texts, "
			  "commands and replies: close some",
			  (unsigned)of->cred.uid, PF_OPEN_MAX_HELD >> 20);
}
