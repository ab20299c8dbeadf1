/* SPDX-License-Identifier: Apache-2.0 */
/* The effective configuration, as a file that says the same. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "pjrtfs/base/cleanup.h"
#include "pjrtfs/base/json.h"

/* PATH, which need not exist, made absolute; the caller's. */
static char *absolute(const char *path)
{
	char cwd[PATH_MAX], *text;

	if (*path == '/')
		return strdup(path);
	if (!getcwd(cwd, sizeof(cwd)))
		return NULL;
	return asprintf(&text, "%s/%s", cwd, path) < 0 ? NULL : text;
}

static void add_bool(struct json_object *o, const char *key, bool value)
{
	json_object_object_add(o, key, json_object_new_boolean(value));
}

static void add_string(struct json_object *list, const char *text)
{
	json_object_array_add(list, json_object_new_string(text));
}

/* O[KEY] is a copy of VALUE, unless that is empty. */
static void add_copy(struct json_object *o, const char *key, struct json_object *value)
{
	if (value && json_object_object_length(value))
		json_object_object_add(o, key, pf_json_copy(value));
}

/* O gets a copy of each key of MORE, which may be NULL. */
static void add_keys(struct json_object *o, struct json_object *more)
{
	if (!more)
		return;
	json_object_object_foreach(more, key, value)
		json_object_object_add(o, key, pf_json_copy(value));
}

static const struct plugin_def *find_def(const struct settings *s, const char *name)
{
	for (unsigned i = 0; i < s->n_defs; i++)
		if (!strcmp(s->defs[i].name, name))
			return &s->defs[i];
	return NULL;
}

/* What plugin NAME is loaded with; PATH: NULL if it is looked for. */
static struct json_object *plugin_json(const struct settings *s, const char *name,
				       const char *path)
{
	const struct plugin_def *def = find_def(s, name);
	struct json_object *o = json_object_new_object();

	pf_json_add_string(o, "name", name);
	if (!path && def)
		path = def->path;
	if (path)
		pf_json_add_string(o, "path", path);
	if (!def)
		return o;
	add_copy(o, "options", def->options);
	add_copy(o, "env", def->env);
	add_keys(o, def->sandbox);
	if (def->log_level >= 0 && def->log_layer >= s->log_layer)
		pf_json_add_int(o, "log_level", def->log_level);
	return o;
}

/* WORD: NAME, PATH or NAME=PATH. */
static void add_plugin(struct json_object *list, const struct settings *s,
		       const char *word)
{
	const char *equals = strchr(word, '='), *slash = strchr(word, '/');
	pf_autofree char *name = NULL, *path = NULL;

	if (equals && (!slash || equals < slash)) {
		name = strndup(word, (size_t)(equals - word));
		path = absolute(equals + 1);
		if (name && path)
			json_object_array_add(list, plugin_json(s, name, path));
	} else if (slash) {
		path = absolute(word);
		if (path)
			add_string(list, path);
	} else {
		json_object_array_add(list, plugin_json(s, word, NULL));
	}
}

static struct json_object *plugins_json(const struct settings *s, const char *source,
					const struct plugin_words *w)
{
	struct json_object *list = json_object_new_array();
	pf_autofree char *copy = source ? strdup(source) : NULL;
	char *at = copy, *word;

	while (at && (word = strsep(&at, ",")))
		add_plugin(list, s, word);
	for (unsigned i = 0; i < w->n_said; i++)
		add_plugin(list, s, w->said[i]);
	if (!source && !w->n_said)
		for (unsigned i = 0; i < s->n_chosen; i++)
			add_plugin(list, s, s->chosen[i]);
	if (!json_object_array_length(list))
		add_plugin(list, s, "cpu");
	return list;
}

static struct json_object *dirs_json(const struct settings *s,
				     const struct plugin_words *w)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < w->n_dirs; i++) {
		pf_autofree char *path = absolute(w->dirs[i]);

		if (path)
			add_string(list, path);
	}
	for (unsigned i = 0; i < s->n_dirs; i++)
		add_string(list, s->dirs[i]);
	return list;
}

static void add_cache(struct json_object *o, const struct cache_options *cache)
{
	pf_autofree char *dir = cache->dir ? absolute(cache->dir) : NULL;

	if (dir)
		pf_json_add_string(o, "cache_dir", dir);
	if (cache->size == UINT64_MAX)
		pf_json_add_string(o, "cache_size", "max");
	else
		pf_json_add_int(o, "cache_size", (int64_t)cache->size);
	add_bool(o, "no_cache", cache->off);
	if (cache->jobs)
		pf_json_add_int(o, "compile_jobs", cache->jobs);
	if (cache->timeout_s)
		pf_json_add_int(o, "compile_timeout", cache->timeout_s);
}

int config_dump(const struct options *o, const char *source, const struct plugin_words *w,
		struct json_object **ret, struct pf_err *err)
{
	const struct settings *s = &o->settings;
	struct json_object *out = json_object_new_object();
	struct json_object *words = json_object_new_array();
	struct json_object *flags = json_object_new_array();
	int r = settings_check_refused(s, err);

	if (r == 0 && (!out || !words || !flags))
		r = pf_err_set(err, -ENOMEM, "no memory for the configuration");
	if (r < 0) {
		json_object_put(out);
		json_object_put(words);
		json_object_put(flags);
		return r;
	}

	add_bool(out, "foreground", o->foreground);
	add_bool(out, "debug", o->debug);
	for (unsigned i = 0; i < o->n_fuse; i++)
		add_string(words, o->fuse[i]);
	json_object_object_add(out, "mount_options", words);
	pf_json_add_int(out, "memory_limit", (int64_t)o->memory_limit);
	if (o->mode) {
		char mode[16];

		snprintf(mode, sizeof(mode), "%04o", (unsigned)o->mode);
		pf_json_add_string(out, "mode", mode);
	}
	if (o->has_group)
		pf_json_add_int(out, "group", o->group);
	add_bool(out, "allow_native", o->allow_native);
	add_cache(out, &o->cache);
	if (s->abandoned_s != ABANDONED)
		pf_json_add_int(out, "abandoned_timeout", (int64_t)s->abandoned_s);
	if (s->devices)
		pf_json_add_int(out, "devices", s->devices);
	if (s->log_level >= 0)
		pf_json_add_int(out, "plugin_log_level", s->log_level);
	json_object_object_add(out, "plugin_dir", dirs_json(s, w));
	json_object_object_add(out, "plugins", plugins_json(s, source, w));
	add_keys(out, s->sandbox);
	add_copy(out, "compile_options", s->compile_options);
	for (unsigned i = 0; i < s->n_flags; i++)
		add_string(flags, s->flags_for_all[i]);
	if (s->n_flags)
		json_object_object_add(out, "flags_for_all", flags);
	else
		json_object_put(flags);
	*ret = out;
	return 0;
}
