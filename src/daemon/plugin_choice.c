/* SPDX-License-Identifier: Apache-2.0 */
/* From the words of the command line and the configuration to plugins' files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"

/* Where to look for the plugins of some options. */
struct search {
	struct pf_discover_config
		config; /* config.until: the name of the plugin to find */
	struct pf_named named[MAX_SETTINGS];
	plugin_minor_of *minor_of;
};

static void search_init(struct search *s, const struct options *o,
			plugin_minor_of *minor_of)
{
	const struct words *dirs = o->plugin_dirs;

	*s = (struct search){
		.config = { .dirs = (const char *const *)dirs[1].at,
			    .n_dirs = dirs[1].n,
			    .configured = s->named,
			    .configured_dirs = (const char *const *)dirs[0].at,
			    .n_configured_dirs = dirs[0].n,
			    .own_dir = PLUGINDIR },
		.minor_of = minor_of,
	};
	for (unsigned i = 0; i < o->settings.n_plugins; i++) {
		const struct plugin_settings *p = &o->settings.plugins[i];

		if (p->path)
			s->named[s->config.n_configured++] =
				(struct pf_named){ p->name, p->path };
	}
}

/* The first plugin whose name contains NAME, which the user may mean; NULL: none. */
static const struct pf_plugin_file *similar(const struct pf_discovery *d,
					    const char *name)
{
	for (unsigned i = 0; i < d->n_files; i++)
		if (!d->files[i].refused && strstr(d->files[i].name, name))
			return &d->files[i];
	return NULL;
}

/* Print advice about the plugin NAME, which was not found, into the LEN bytes at TEXT. */
static void add_advice(const struct search *s, const char *name, char *text, size_t len)
{
	struct pf_discover_config config = s->config;
	PF_CLEANUP(pf_discovery_freep) struct pf_discovery *d = NULL;
	const struct pf_plugin_file *f = NULL;

	config.own_only = false;
	config.until = NULL;
	if (pf_discover(&config, &d, NULL) == 0)
		f = similar(d, name);
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

static int not_found(const struct search *s, const char *name, struct pf_err *err)
{
	const struct pf_discover_config *c = &s->config;
	char dirs[512] = "", advice[512] = "";

	for (unsigned i = 0; i < c->n_dirs; i++)
		snprintf(dirs + strlen(dirs), sizeof(dirs) - strlen(dirs), "%s, ",
			 c->dirs[i]);
	add_advice(s, name, advice, sizeof(advice));
	return pf_err_set(err, -ENOENT,
			  "not found: looked for %s/pjrt_plugin.so and "
			  "%s.so in %s$PJRTFS_PLUGIN_PATH and %s%s%s",
			  name, name, dirs, PLUGINDIR,
			  c->own_only ? "" : ", and where other programs have theirs",
			  advice);
}

/* The file of the plugin called NAME, the caller's. */
static int find_by_name(struct search *s, const char *name, char **ret,
			struct pf_err *err)
{
	PF_CLEANUP(pf_discovery_freep) struct pf_discovery *d = NULL;
	const struct pf_plugin_file *f;
	int r;

	s->config.until = name;
	r = pf_discover(&s->config, &d, err);
	if (r < 0)
		return r;
	f = pf_discovery_pick(d, name, s->minor_of, NULL);
	*ret = f ? realpath(f->path, NULL) : NULL;
	if (*ret)
		return 0;
	if (!f)
		f = pf_discovery_refused(d, name);
	if (!f)
		return not_found(s, name, err);
	return pf_err_set(err, -ENOENT, "%s: %s", f->path,
			  f->refused ? f->refused : strerror(errno));
}

/* Add the plugin that WORD means to O's: NAME, PATH or NAME=PATH.  A plugin whose file does not
 * exist is refused; need_one decides whether that is an error. */
static int add_plugin(struct search *s, struct options *o, const char *word,
		      struct pf_err *err)
{
	struct pf_candidate *p = &o->plugins[o->n_plugins];
	const char *equals = options_name_end(word);
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
			r = find_by_name(s, word, &p->path, &why);
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

/* Does the file of any plugin exist?  0; -ENOENT. */
static int need_one(const struct options *o, struct pf_err *err)
{
	for (unsigned i = 0; i < o->n_plugins; i++)
		if (!o->plugins[i].refused)
			return 0;
	return pf_err_set(err, -ENOENT, "plugin %s: %s", o->plugins[0].name,
			  o->plugins[0].refused);
}

static int add_source(struct search *s, struct options *o, struct pf_err *err)
{
	pf_autofree char *copy = strdup(o->source);
	char *at = copy, *word;
	int r = 0;

	if (!copy)
		return pf_err_set(err, -ENOMEM, "no memory");
	while (r == 0 && (word = strsep(&at, ",")))
		r = *word ? add_plugin(s, o, word, err)
			  : pf_err_set(err, -EINVAL, "SOURCE %s has an empty name",
				       o->source);
	return r;
}

/* --- the interface ----------------------------------------------------------------------- */

int plugin_choice(struct options *o, plugin_minor_of *minor_of, struct pf_err *err)
{
	const struct words *words = options_plugin_words(o);
	struct search s;
	int r = 0;

	search_init(&s, o, minor_of);
	if (o->check_plugin) {
		r = add_plugin(&s, o, o->check_plugin, err);
	} else {
		if (o->source)
			r = add_source(&s, o, err);
		for (unsigned i = 0; i < words->n && r == 0; i++)
			r = add_plugin(&s, o, words->at[i], err);
		s.config.own_only = true;
		if (r == 0 && !o->n_plugins)
			r = add_plugin(&s, o, "cpu", err);
	}
	if (r == 0)
		r = need_one(o, err);
	if (r == 0)
		r = settings_check_names(&o->settings, o->plugins, o->n_plugins, err);
	if (r == 0)
		r = settings_attach(&o->settings, o->plugins, o->n_plugins, true, err);
	return r;
}

int plugin_choice_list(const struct options *o, struct pf_discovery **ret,
		       struct pf_err *err)
{
	const struct words *words = options_plugin_words(o);
	struct search s;

	search_init(&s, o, NULL);
	s.config.words = (const char *const *)words->at;
	s.config.n_words = words->n;
	return pf_discover(&s.config, ret, err);
}
