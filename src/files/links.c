/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of the fixed part of the tree. */
#include <errno.h>

#include "internal.h"

static int link_as(bool fixed, struct pf_node *dir, const char *name,
		   const struct pf_kind *kind, void *object, struct pf_node **ret)
{
	struct pf_node *node = pf_node_new(dir->tree, kind, object, (mode_t)-1, NULL);
	int r;

	if (!node)
		return -ENOMEM;
	r = fixed ? pf_dir_link_fixed(dir, name, node)
		  : pf_dir_link(dir, name, node, false);
	if (r == 0 && ret)
		*ret = node;
	else
		pf_node_unref(node);
	return r;
}

int files_link(struct pf_node *dir, const char *name, const struct pf_kind *kind,
	       void *object, struct pf_node **ret)
{
	return link_as(true, dir, name, kind, object, ret);
}

int files_link_plugin(struct pf_node *dir, const char *name, const struct pf_kind *kind,
		      void *object, struct pf_node **ret)
{
	const struct pf_plugin_ops *ops = fs_of(dir)->config.plugins;
	bool may_go = ops && ops->can_change && ops->is_added(name);

	return link_as(!may_go, dir, name, kind, object, ret);
}
