/* SPDX-License-Identifier: Apache-2.0 */
/* Where plugins are looked for, and in which order. */
#include "internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/base/home.h"

static void add_named(struct pf_discovery *d, const char *source,
		      const struct pf_named *named, unsigned n)
{
	int place = place_add(d, source, "");

	if (!n)
		place_note(d, place, false, "names none");
	for (unsigned i = 0; i < n; i++)
		file_add(d, place, named[i].name, "", named[i].path, "");
}

static void look_in_dirs(struct pf_discovery *d, const struct pf_discover_config *c)
{
	for (unsigned i = 0; i < c->n_dirs; i++)
		look_in_dir(d, place_add(d, "--plugin-dir", c->dirs[i]), c->dirs[i],
			    LOOK_ANY | LOOK_BELOW | LOOK_MUST_BE, "");
}

/* NAME:PATH,NAME:PATH, as JAX reads it. */
static void look_in_jax_list(struct pf_discovery *d, const struct pf_discover_config *c)
{
	const char *list = getenv("PJRT_NAMES_AND_LIBRARY_PATHS");
	int place = place_add(d, "$PJRT_NAMES_AND_LIBRARY_PATHS", "");
	pf_autofree char *copy = strdup(list ? list : "");
	char *at = list && *list ? copy : NULL, *word;

	(void)c;
	if (!list || !*list)
		place_note(d, place, false, list ? "empty" : "not set");
	if (!copy)
		d->no_memory = true;
	while ((word = strsep(&at, ","))) {
		char *colon = strchr(word, ':');

		if (colon)
			*colon = '\0';
		if (colon && colon[1] && pf_plugin_name_valid(word))
			file_add(d, place, word, "", colon + 1, "");
		else
			place_note(d, place, true, "expected NAME:PATH, found '%s%s%s'",
				   word, colon ? ":" : "", colon ? colon + 1 : "");
	}
}

static void look_in_own_path(struct pf_discovery *d, const struct pf_discover_config *c)
{
	(void)c;
	look_in_list(d, "$PJRTFS_PLUGIN_PATH", getenv("PJRTFS_PLUGIN_PATH"),
		     LOOK_ANY | LOOK_BELOW);
}

static void look_in_paths(struct pf_discovery *d, const struct pf_discover_config *c)
{
	(void)c;
	look_in_list(d, "$PJRT_PLUGIN_LIBRARY_PATH", getenv("PJRT_PLUGIN_LIBRARY_PATH"),
		     LOOK_BELOW | LOOK_MUST_BE);
	look_in_list(d, "$PJRT_PLUGIN_PATH", getenv("PJRT_PLUGIN_PATH"),
		     LOOK_BELOW | LOOK_MUST_BE);
}

static void look_in_own_dir(struct pf_discovery *d, const struct pf_discover_config *c)
{
	if (c->own_dir)
		look_in_dir(d, place_add(d, "pjrtfs's own directory", c->own_dir),
			    c->own_dir, LOOK_ANY | LOOK_BELOW, "");
}

/* Where go-xla and gopjrt install plugins. */
static void look_in_go(struct pf_discovery *d, const struct pf_discover_config *c)
{
	static const char *const dirs[] = { "/.local/lib/go-xla",
					    "/.local/lib/gomlx/pjrt",
					    "/usr/local/lib/go-xla",
					    "/usr/local/lib/gomlx/pjrt" };
	pf_autofree char *home = pf_home_dir();
	char path[PATH_MAX];

	for (unsigned i = 0; i < 4; i++) {
		const char *before = i < 2 ? home : c->root ? c->root : "";

		if (!before || snprintf(path, sizeof(path), "%s%s", before, dirs[i]) >=
				       (int)sizeof(path))
			continue;
		look_in_dir(d, place_add(d, "GoMLX", path), path, LOOK_BELOW, "");
	}
}

static void look_in_ld_path(struct pf_discovery *d, const struct pf_discover_config *c)
{
	(void)c;
	look_in_list(d, "$LD_LIBRARY_PATH", getenv("LD_LIBRARY_PATH"), LOOK_NAMES);
}

static void ld_dir(void *arg, const char *dir)
{
	struct pf_discovery *d = arg;

	look_in_dir(d, place_add(d, "/etc/ld.so.conf", dir), dir, LOOK_NAMES, "");
}

static void look_in_ld_conf(struct pf_discovery *d, const struct pf_discover_config *c)
{
	const char *root = c->root ? c->root : "";
	char path[PATH_MAX];
	int r = -ENAMETOOLONG;

	if (snprintf(path, sizeof(path), "%s/etc/ld.so.conf", root) < (int)sizeof(path))
		r = ldconf_read(path, root, ld_dir, d);
	if (r < 0)
		place_note(d, place_add(d, "/etc/ld.so.conf", ""), r != -ENOENT, "%s",
			   strerror(-r));
}

static void look_in_neuron(struct pf_discovery *d, const struct pf_discover_config *c)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/opt/aws/neuron/lib",
		     c->root ? c->root : "") < (int)sizeof(path))
		look_in_dir(d, place_add(d, "AWS Neuron", path), path, LOOK_NAMES, "");
}

static void look_in_pythons(struct pf_discovery *d, const struct pf_discover_config *c)
{
	look_in_python(d, c->root ? c->root : "");
}

static void look_at_said(struct pf_discovery *d, const struct pf_discover_config *c)
{
	add_named(d, "--plugin", c->said, c->n_said);
}

static void look_at_configured(struct pf_discovery *d, const struct pf_discover_config *c)
{
	add_named(d, "the configuration file", c->configured, c->n_configured);
	for (unsigned i = 0; i < c->n_configured_dirs; i++)
		look_in_dir(d,
			    place_add(d, "the configuration's plugin_dir",
				      c->configured_dirs[i]),
			    c->configured_dirs[i], LOOK_ANY | LOOK_BELOW | LOOK_MUST_BE,
			    "");
}

/* The order of the manual. */
static const struct {
	void (*look)(struct pf_discovery *d, const struct pf_discover_config *c);
	bool own; /* a place that only pjrtfs looks at */
} steps[] = {
	{ look_at_said, false },      { look_in_dirs, true },
	{ look_at_configured, true }, { look_in_own_path, true },
	{ look_in_jax_list, false },  { look_in_paths, false },
	{ look_in_own_dir, true },    { look_in_go, false },
	{ look_in_ld_path, false },   { look_in_ld_conf, false },
	{ look_in_neuron, false },    { look_in_pythons, false },
};

/* By place, then by name, whatever order a directory has. */
static int by_place(const void *a, const void *b)
{
	const struct pf_plugin_file *x = a, *y = b;
	int by_name = strcmp(x->name, y->name);

	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return by_name ? by_name : strcmp(x->path, y->path);
}

int pf_discover(const struct pf_discover_config *c, struct pf_discovery **ret,
		struct pf_err *err)
{
	PF_CLEANUP(pf_discovery_freep) struct pf_discovery *d = calloc(1, sizeof(*d));

	if (d) {
		d->places = calloc(PF_DISCOVER_PLACES, sizeof(*d->places));
		d->files = calloc(PF_DISCOVER_FILES, sizeof(*d->files));
	}
	if (!d || !d->places || !d->files)
		return pf_err_set(err, -ENOMEM, "no memory to look for plugins");
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (c->own_only && !steps[i].own)
			continue;
		steps[i].look(d, c);
		if (d->no_memory)
			return pf_err_set(err, -ENOMEM, "no memory to look for plugins");
		if (c->until && pf_discovery_pick(d, c->until, NULL, NULL))
			break;
	}
	qsort(d->files, d->n_files, sizeof(*d->files), by_place);
	*ret = pf_steal(&d);
	return 0;
}
