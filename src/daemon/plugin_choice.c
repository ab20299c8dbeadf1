/* SPDX-License-Identifier: Apache-2.0 */
/* From the words of the command line and the configuration to plugins' files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/engine.h"

enum { TIMEOUT_S = 60 }; /* of --timeout, if it is not given */

/* Where to look for the plugins of some options. */
struct search {
	struct pf_discover_config config;
	struct words configured; /* NAME=PATH, of the configuration */
	plugin_minor_of *minor_of;
};

/* The caller clears S's words, also after an error. */
static int search_init(struct search *s, const struct options *o,
		       plugin_minor_of *minor_of, struct pf_err *err)
{
	const struct words *dirs = o->plugin_dirs;
	int r = 0;

	*s = (struct search){
		.config = { .dirs = (const char *const *)dirs[1].at,
			    .configured_dirs = (const char *const *)dirs[0].at,
			    .own_dir = PLUGINDIR },
		.minor_of = minor_of,
	};
	for (unsigned i = 0; i < o->settings.n_plugins && r == 0; i++) {
		const struct plugin_settings *p = &o->settings.plugins[i];
		pf_autobuf struct pf_buf word = PF_BUF_INIT;

		if (!p->path)
			continue;
		pf_buf_printf(&word, "%s=%s", p->name, p->path);
		r = word.failed ? pf_err_set(err, -ENOMEM, "no memory for a path")
				: words_add(&s->configured, word.data, MAX_SETTINGS,
					    "plugins with a path", err);
	}
	s->config.configured = (const char *const *)s->configured.at;
	return r;
}

/* A kind of plugins, which go by NAME here and in JAX, whatever the number in their own names is. */
static const struct kind {
	const char *name;
	const char *other; /* what its devices are also called, or NULL */
	bool gpu; /* "gpu" means it, too, and plugins are called NAME, NAME13 or xla_NAME13 */
	const char *install; /* advice where none is found */
} kinds[] = {
	{ "cpu", NULL, false, "\"pjrtfs-fetch-plugins cpu\" brings one" },
	{ "tpu", NULL, false, "for a TPU, \"pip install libtpu\" in a venv brings one" },
	{ "cuda", "nvidia", true,
	  "for an NVIDIA GPU, \"pip install 'jax[cuda13]'\" in a venv brings one" },
	{ "rocm", "amd", true,
	  "for an AMD GPU, \"pip install jax-rocm7-pjrt\" in a venv brings one, beside ROCm" },
	{ "oneapi", "xpu", true,
	  "for an Intel GPU, \"pip install jax-oneapi-pjrt\" in a venv brings one" },
};

static bool is_of_kind(const struct kind *kind, const char *name)
{
	return !strcmp(kind->name, name) || (kind->other && !strcmp(kind->other, name)) ||
	       (kind->gpu && !strcmp("gpu", name));
}

/* The version in the name of a plugin of KIND: 13 in "xla_cuda13", 0 in "xla_oneapi"; -1: NAME is no such
 * plugin's. */
static int version_of(const struct kind *kind, const char *name)
{
	const char *at = strncmp(name, "xla_", 4) ? name : name + 4;
	size_t len = strlen(kind->name);
	int version;

	if (!kind->gpu || strncmp(at, kind->name, len) != 0)
		return -1;
	at += len;
	version = atoi(at);
	if (at[strspn(at, "0123456789")])
		return -1;
	/* jax-rocm60-pjrt is for ROCm 6.0, jax-rocm7-pjrt for ROCm 7. */
	return version < 40 ? version : version / 10;
}

/* The name of the newest plugin that D has of KIND; NULL: none. */
static const char *newest_of(const struct pf_discovery *d, const struct kind *kind)
{
	const char *best = NULL;
	int newest = -1;

	for (unsigned i = 0; i < d->n_files; i++) {
		const struct pf_plugin_file *f = &d->files[i];
		int version = f->refused ? -1 : version_of(kind, f->name);

		if (version <= newest)
			continue;
		newest = version;
		best = f->name;
	}
	return best;
}

/* The same of the kind NAME, of the first such kind that there is. */
static const char *newest_of_kind(const struct pf_discovery *d, const char *name)
{
	const char *best = NULL;

	for (size_t k = 0; k < PF_ARRAY_SIZE(kinds) && !best; k++)
		if (is_of_kind(&kinds[k], name))
			best = newest_of(d, &kinds[k]);
	return best;
}

/* The package that brings a plugin of the kind NAME; nothing if no kind has this name. */
static void add_install(const char *name, struct pf_buf *out)
{
	for (size_t k = 0; k < PF_ARRAY_SIZE(kinds); k++)
		if (is_of_kind(&kinds[k], name))
			pf_buf_printf(out, "; %s", kinds[k].install);
}

/* Append advice about the plugin NAME, which was not found. */
static void add_advice(const struct search *s, const char *name, struct pf_buf *out)
{
	struct pf_discover_config config = s->config;
	PF_CLEANUP(pf_discovery_freep) struct pf_discovery *d = NULL;
	struct pf_similar similar = { .word = name };
	char hint[PF_SIMILAR_TEXT];
	size_t len = out->len;
	struct stat st;

	if (stat(name, &st) == 0 && S_ISREG(st.st_mode)) {
		pf_buf_printf(out, "; a path has a slash: ./%s", name);
		return;
	}
	config.own_only = false;
	config.until = NULL;
	(void)pf_discover(&config, &d, NULL);
	/* The user may mean the first one whose name contains NAME. */
	for (unsigned i = 0; d && i < d->n_files; i++) {
		const struct pf_plugin_file *f = &d->files[i];

		if (f->refused)
			continue;
		pf_similar_try(&similar, f->name);
		if (!strstr(f->name, name))
			continue;
		pf_buf_printf(out, "; %s was found in %s %s: pjrtfs %s MOUNTPOINT",
			      f->name, d->places[f->place].source,
			      d->places[f->place].where, f->name);
		return;
	}
	add_install(name, out);
	if (out->len == len)
		pf_buf_printf(out, "%s; pjrtfs --list-plugins shows which there are",
			      pf_similar_hint(&similar, hint));
}

static int not_found(const struct search *s, const char *name, struct pf_err *err)
{
	pf_autobuf struct pf_buf places = PF_BUF_INIT;

	for (const char *const *dir = s->config.dirs; dir && *dir; dir++)
		if (access(*dir, R_OK))
			pf_buf_printf(&places, "%s (%s), ", *dir, strerror(errno));
		else
			pf_buf_printf(&places, "%s, ", *dir);
	pf_buf_puts(&places, "$PJRTFS_PLUGIN_PATH and " PLUGINDIR);
	if (!s->config.own_only)
		pf_buf_puts(&places, ", and where other programs have theirs");
	add_advice(s, name, &places);
	return pf_err_set(err, -ENOENT,
			  "not found: looked for %s/pjrt_plugin.so and %s.so in %s", name,
			  name, places.failed ? "its places" : places.data);
}

/* Set P's path to the file of the plugin called NAME, and found if NAME is that of a kind. */
static int find_by_name(struct search *s, const char *name, struct pf_candidate *p,
			struct pf_err *err)
{
	PF_CLEANUP(pf_discovery_freep) struct pf_discovery *d = NULL;
	const struct pf_plugin_file *f;
	const char *newest;
	int r;

	s->config.until = name;
	r = pf_discover(&s->config, &d, err);
	if (r < 0)
		return r;
	f = pf_discovery_pick(d, name, s->minor_of, NULL);
	newest = f ? NULL : newest_of_kind(d, name);
	if (newest) {
		f = pf_discovery_pick(d, newest, s->minor_of, NULL);
		p->found = strdup(newest);
	}
	if (!f)
		return not_found(s, name, err);
	p->path = f->refused ? NULL : realpath(f->path, NULL);
	return p->path ? 0
		       : pf_err_set(err, -ENOENT, "%s: %s", f->path,
				    f->refused ? f->refused : strerror(errno));
}

/* Add the plugin that WORD means to O's: NAME, PATH or NAME=PATH.  A plugin whose file does not
 * exist is refused; need_one decides whether that is an error. */
static int add_plugin(struct search *s, struct options *o, const char *word,
		      struct pf_err *err)
{
	struct pf_candidate *p = &o->plugins[o->n_plugins++];
	const char *end = options_name_end(word);
	const char *path = end ? end + 1 : strchr(word, '/') ? word : NULL;
	struct pf_err why = PF_ERR_INIT;
	int r;

	p->name = options_plugin_name(word);
	r = p->name ? pf_plugin_name_check(p->name, err) : -ENOMEM;
	if (r == -EINVAL)
		return r;
	if (r == 0 && !path)
		r = find_by_name(s, word, p, &why);
	else if (r == 0 && !(p->path = realpath(path, NULL)))
		pf_err_set(&why, -errno, "%s: %s", path, strerror(errno));
	if (why.code) {
		p->path = strdup(path ? path : "");
		p->refused = strdup(why.text);
	}
	if (r == -ENOMEM || !p->path || (why.code && !p->refused))
		return pf_err_set(err, -ENOMEM, "no memory for a plugin's name");
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

/* Is each plugin with settings from the command line among those that are loaded? */
static int check_names(const struct options *o, struct pf_err *err)
{
	pf_autobuf struct pf_buf names = PF_BUF_INIT;

	for (unsigned i = 0; i < o->n_plugins; i++)
		pf_buf_printf(&names, "%s%s", i ? ", " : "", o->plugins[i].name);
	for (unsigned i = 0; i < o->settings.n_plugins; i++) {
		const struct plugin_settings *p = &o->settings.plugins[i];

		if (p->set_at == FROM_COMMAND_LINE && !candidate_find(o, p->name))
			return pf_err_set(err, -EINVAL,
					  "options for plugin %s, which is not loaded: "
					  "expected one of %s",
					  p->name, names.data ? names.data : "");
	}
	return 0;
}

/* Add every plugin that there is to O's, as many as it has room for. */
static int add_all(struct search *s, struct options *o, struct pf_err *err)
{
	PF_CLEANUP(pf_discovery_freep) struct pf_discovery *d = NULL;
	int r = pf_discover(&s->config, &d, err);

	for (unsigned i = 0; r == 0 && i < d->n_files && o->n_plugins < MAX_PLUGINS;
	     i++) {
		const struct pf_plugin_file *f = &d->files[i];

		if (!f->refused && !candidate_find(o, f->name))
			r = add_plugin(s, o, f->name, err);
	}
	return r;
}

/* --- the interface ----------------------------------------------------------------------- */

int plugin_choice(struct options *o, plugin_minor_of *minor_of, struct pf_err *err)
{
	struct search s;
	int r = search_init(&s, o, minor_of, err);

	if (r == 0 && o->check_plugin)
		r = add_plugin(&s, o, o->check_plugin, err);
	for (unsigned i = 0; !o->check_plugin && i < o->plugin_words.n && r == 0; i++)
		r = add_plugin(&s, o, o->plugin_words.at[i], err);
	if (r == 0 && o->estimate && !o->n_plugins)
		r = add_all(&s, o, err);
	s.config.own_only = true;
	if (r == 0 && !o->n_plugins)
		r = add_plugin(&s, o, "cpu", err);
	if (r == 0)
		r = need_one(o, err);
	if (r == 0)
		r = check_names(o, err);
	for (unsigned i = 0; i < o->n_plugins && r == 0; i++)
		r = settings_attach(&o->settings, &o->plugins[i], i == 0, err);
	words_clear(&s.configured);
	return r;
}

void plugin_choice_warn(const struct options *o)
{
	static const char *const from[] = { "the configuration's plugin_dir",
					    "--plugin-dir" };

	for (size_t i = 0; i < PF_ARRAY_SIZE(from); i++) {
		const struct words *dirs = &o->plugin_dirs[i];

		for (unsigned k = 0; k < dirs->n; k++)
			if (access(dirs->at[k], R_OK))
				pf_log(PF_LOG_WARNING, "%s %s: %s: it has no plugin",
				       from[i], dirs->at[k], strerror(errno));
	}
}

int plugin_choice_list(const struct options *o, struct pf_discovery **ret,
		       struct pf_err *err)
{
	struct search s;
	int r = search_init(&s, o, NULL, err);

	s.config.words = (const char *const *)o->plugin_words.at;
	if (r == 0)
		r = pf_discover(&s.config, ret, err);
	words_clear(&s.configured);
	return r;
}

int plugin_choice_find(const struct options *o, const char *name, char **ret,
		       struct pf_err *err)
{
	struct pf_candidate found = { 0 };
	struct search s;
	int r = search_init(&s, o, NULL, err);

	if (r == 0)
		r = find_by_name(&s, name, &found, err);
	*ret = pf_steal(&found.path);
	candidate_release(&found);
	words_clear(&s.configured);
	return r;
}

int plugin_choice_config(const struct pf_candidate *p, struct pf_worker_config *ret,
			 struct pf_err *err)
{
	*ret = (struct pf_worker_config){ .name = p->name,
					  .path = p->path,
					  .options = p->options,
					  .env = p->env,
					  .sandbox = p->sandbox,
					  .note = p->note,
					  .group = p->group,
					  .client = p->compile_only
							    ? PF_CLIENT_NONE
							    : PF_CLIENT_OPTIONAL };
	return p->refused ? pf_err_set(err, -EINVAL, "%s", p->refused) : 0;
}

void plugin_choice_start_timeout(struct pf_worker_config *config, const struct options *o)
{
	config->start_timeout_ms = (int)o->start_timeout_s * 1000;
	config->start_option = "--start-timeout";
}

void plugin_choice_timeout(struct pf_worker_config *config, unsigned s)
{
	config->start_timeout_ms = (int)(s ? s : TIMEOUT_S) * 1000;
	config->start_option = "--timeout";
}
