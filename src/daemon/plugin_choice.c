/* SPDX-License-Identifier: Apache-2.0 */
/* Which plugins are loaded: from the words of the command line to files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"

int (*plugin_choice_minor_of)(void *arg, const char *path);

/* Where to look, for the plugin called UNTIL or all of them (NULL). */
static struct pf_discover_config places(const struct plugin_words *w, bool own_only,
					const char *until)
{
	return (struct pf_discover_config){
		.dirs = w->dirs,
		.n_dirs = w->n_dirs,
		.configured = w->configured,
		.n_configured = w->n_configured,
		.configured_dirs = w->configured_dirs,
		.n_configured_dirs = w->n_configured_dirs,
		.own_dir = PLUGINDIR,
		.own_only = own_only,
		.until = until,
	};
}

/*
 * The plugin that somebody who asked for NAME may mean: one whose name has NAME in it.  Plugins
 * that were found, but were not looked for, or are called otherwise.  NULL: none.
 */
static const struct pf_plugin_file *similar(const struct pf_discovery *d,
					    const char *name)
{
	for (unsigned i = 0; i < d->n_files; i++)
		if (!d->files[i].refused && strstr(d->files[i].name, name))
			return &d->files[i];
	return NULL;
}

/* Append to the LEN bytes at TEXT what can be done about a plugin NAME that is not found. */
static void add_advice(const struct plugin_words *w, const char *name, char *text,
		       size_t len)
{
	struct pf_discover_config config = places(w, false, NULL);
	PF_CLEANUP(pf_discovery_freep) struct pf_discovery *d = NULL;
	const struct pf_plugin_file *f =
		pf_discover(&config, &d, NULL) == 0 ? similar(d, name) : NULL;

	if (f)
		snprintf(text, len, "; %s was found in %s %s: pjrtfs %s MOUNTPOINT",
			 f->name, d->places[f->place].source, d->places[f->place].where,
			 f->name);
	else if (!strcmp(name, "cpu"))
		snprintf(text, len,
			 "; \"pip install xla-cpu-pjrt\" brings one: pjrtfs xla_cpu "
			 "MOUNTPOINT");
	else
		snprintf(text, len, "; pjrtfs --list-plugins shows which there are");
}

static int not_found(const struct plugin_words *w, bool own_only, const char *name,
		     struct pf_err *err)
{
	char dirs[512] = "", advice[512] = "";

	for (unsigned i = 0; i < w->n_dirs; i++)
		snprintf(dirs + strlen(dirs), sizeof(dirs) - strlen(dirs), "%s, ",
			 w->dirs[i]);
	add_advice(w, name, advice, sizeof(advice));
	return pf_err_set(err, -ENOENT,
			  "not found: looked for %s/pjrt_plugin.so and "
			  "%s.so in %s$PJRTFS_PLUGIN_PATH and %s%s%s",
			  name, name, dirs, PLUGINDIR,
			  own_only ? "" : ", and where other programs have theirs",
			  advice);
}

/* The file of the plugin called NAME, the caller's. */
static int find_by_name(const struct plugin_words *w, bool own_only, const char *name,
			char **ret, struct pf_err *err)
{
	struct pf_discover_config config = places(w, own_only, name);
	PF_CLEANUP(pf_discovery_freep) struct pf_discovery *d = NULL;
	const struct pf_plugin_file *f;
	int r = pf_discover(&config, &d, err);

	if (r < 0)
		return r;
	f = pf_discovery_pick(d, name, plugin_choice_minor_of, NULL);
	*ret = f ? realpath(f->path, NULL) : NULL;
	if (*ret)
		return 0;
	if (!f)
		f = pf_discovery_refused(d, name);
	if (!f)
		return not_found(w, own_only, name, err);
	return pf_err_set(err, -ENOENT, "%s: %s", f->path,
			  f->refused ? f->refused : strerror(errno));
}

/* The '=' of WORD if it is NAME=PATH (a path may hold one, too), or NULL. */
static const char *name_end(const char *word)
{
	const char *equals = strchr(word, '='), *slash = strchr(word, '/');

	return equals && (!slash || equals < slash) ? equals : NULL;
}

/*
 * WORD is NAME, PATH or NAME=PATH; OWN_ONLY: a NAME is one of pjrtfs's own places.  A plugin
 * whose file is not there is refused, which is no error yet.
 */
static int add_plugin(struct options *o, const struct plugin_words *w, bool own_only,
		      const char *word, struct pf_err *err)
{
	struct pf_candidate *p = &o->plugins[o->n_plugins];
	const char *equals = name_end(word);
	struct pf_err why = PF_ERR_INIT;
	int r = 0;

	if (o->n_plugins == MAX_PLUGINS)
		return pf_err_set(err, -EINVAL, "more than %d plugins", MAX_PLUGINS);
	o->n_plugins++;
	if (equals) {
		p->name = strndup(word, (size_t)(equals - word));
		p->path = realpath(equals + 1, NULL);
		word = equals + 1;
	} else if (strchr(word, '/')) {
		p->name = pf_plugin_name_of(word);
		p->path = realpath(word, NULL);
	} else {
		p->name = strdup(word);
		if (pf_plugin_name_valid(word))
			r = find_by_name(w, own_only, word, &p->path, &why);
	}
	if (!p->path && !why.code)
		pf_err_set(&why, -errno, "%s: %s", word, strerror(errno));
	if (p->name && !pf_plugin_name_valid(p->name))
		return pf_err_set(err, -EINVAL,
				  "plugin name %s: expected up to 32 letters, "
				  "digits, '.', '_', '-'",
				  p->name);
	if (!p->path) {
		p->path = strdup(strchr(word, '/') ? word : "");
		p->refused = strdup(why.text);
	}
	if (r == -ENOMEM || !p->name || !p->path || (why.code && !p->refused))
		return pf_err_set(err, -ENOMEM, "no memory for a plugin's name");
	for (unsigned i = 0; i + 1 < o->n_plugins; i++)
		if (!strcmp(o->plugins[i].name, p->name))
			return pf_err_set(err, -EINVAL,
					  "two plugins are called %s: name one "
					  "with --plugin NAME=PATH",
					  p->name);
	return 0;
}

/* If none of the plugins is there, that is an error. */
static int need_one(const struct options *o, struct pf_err *err)
{
	for (unsigned i = 0; i < o->n_plugins; i++)
		if (!o->plugins[i].refused)
			return 0;
	return pf_err_set(err, -ENOENT, "plugin %s: %s", o->plugins[0].name,
			  o->plugins[0].refused);
}

static int add_source(struct options *o, const struct plugin_words *w, const char *source,
		      struct pf_err *err)
{
	pf_autofree char *copy = strdup(source);
	char *at = copy, *word;
	int r = 0;

	if (!copy)
		return pf_err_set(err, -ENOMEM, "no memory");
	while (r == 0 && (word = strsep(&at, ",")))
		r = *word ? add_plugin(o, w, false, word, err)
			  : pf_err_set(err, -EINVAL, "SOURCE %s has an empty name",
				       source);
	return r;
}

/* --- the interface ----------------------------------------------------------------------- */

int plugin_choice(struct options *o, const struct plugin_words *w, const char *source,
		  struct pf_err *err)
{
	int r = 0;

	if (source)
		r = add_source(o, w, source, err);
	else if (!w->n_said)
		r = add_plugin(o, w, true, "cpu", err);
	for (unsigned i = 0; i < w->n_said && r == 0; i++)
		r = add_plugin(o, w, false, w->said[i], err);
	if (r == 0)
		r = need_one(o, err);
	if (r < 0)
		return r;
	o->source = strdup(source ? source : o->plugins[0].name);
	return o->source ? 0 : -ENOMEM;
}

int plugin_choice_one(struct options *o, const struct plugin_words *w, const char *word,
		      struct pf_err *err)
{
	int r = add_plugin(o, w, false, word, err);

	return r < 0 ? r : need_one(o, err);
}

int plugin_choice_list(struct options *o, const struct plugin_words *w,
		       struct pf_err *err)
{
	struct pf_discover_config config = places(w, false, NULL);
	struct pf_named said[MAX_PLUGINS];
	char *names[MAX_PLUGINS];
	unsigned n = 0;
	int r;

	for (unsigned i = 0; i < w->n_said; i++) {
		const char *word = w->said[i], *equals = name_end(word);

		if (!equals && !strchr(word, '/'))
			continue; /* it is listed where it lies */
		names[n] = equals ? strndup(word, (size_t)(equals - word))
				  : pf_plugin_name_of(word);
		said[n].name = names[n] ? names[n] : "";
		said[n++].path = equals ? equals + 1 : word;
	}
	config.said = said;
	config.n_said = n;
	r = pf_discover(&config, &o->discovery, err);
	while (n)
		free(names[--n]);
	return r;
}
