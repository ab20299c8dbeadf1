/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of nodes that count when they are freed.  Static: each test has its own. */
#ifndef PJRTFS_TESTS_UNIT_NODE_FIXTURE_H
#define PJRTFS_TESTS_UNIT_NODE_FIXTURE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "pjrtfs/kind.h"
#include "pjrtfs/tree.h"
#include "pjrtfs/wait.h"
#include "unit.h"

static atomic_int freed;

static inline void count_free(struct pf_node *node)
{
	(void)node;
	freed++;
}

static const struct pf_kind file = { .mode = S_IFREG | 0644, .free = count_free };
static const struct pf_kind dir = { .mode = S_IFDIR | 0755, .free = count_free };
static const struct pf_kind state = { .name = "state", .mode = S_IFREG | 0444 };
static const struct pf_kind sub = {
	.name = "sub",
	.mode = S_IFDIR | 0755,
	.children = (const struct pf_kind *const[]){ &state, NULL },
};
static const struct pf_kind object = {
	.mode = S_IFDIR | 0755,
	.free = count_free,
	.children = (const struct pf_kind *const[]){ &state, &sub, NULL },
};
static const struct pf_kind root = {
	.mode = S_IFDIR | 0755,
	.children = (const struct pf_kind *const[]){ &sub, NULL },
};

static struct pf_tree *tree;

static inline void setup(void)
{
	freed = 0;
	tree = pf_tree_new(&root, NULL, 10, 20);
	ck_assert_ptr_nonnull(tree);
}

static inline void teardown(void)
{
	ck_assert(pf_turns_await(60000)); /* a thread that has answered may hold a node */
	pf_tree_free(tree);
}

/* A node of KIND linked as NAME; the caller's reference is dropped. */
static inline struct pf_node *linked(struct pf_node *in, const char *name,
				     const struct pf_kind *kind)
{
	struct pf_node *node = pf_node_new(tree, kind, NULL, (mode_t)-1, NULL);

	ck_assert_ptr_nonnull(node);
	ck_assert_int_eq(pf_dir_link(in, name, node, false), 0);
	pf_node_unref(node);
	return node;
}

static inline bool has(struct pf_node *in, const char *name, struct pf_node *want)
{
	struct pf_node *node = pf_dir_lookup(in, name);

	pf_node_unref(node);
	return node == want;
}

#endif
