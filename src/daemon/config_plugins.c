/* SPDX-License-Identifier: Apache-2.0 */
/* What a configuration file says of plugins. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config_taking.h"

/* What is wrong with an option or a variable keeps its plugin from being started, no other. */
static int blame(struct taking *k, struct plugin_def *def, const struct pf_config_at *at,
		 const char *key, int r)
{
	if (r == -EINVAL) {
		taking_at_fault(k, at, r);
		r = settings_refuse(&k->o->settings, def, key, k->err->text);
	}
	return r;
}

typedef int take_entry(struct settings *s, struct plugin_def *def, const char *key,
		       struct json_object *value, struct pf_err *err);

static int take_entries(struct taking *k, struct plugin_def *def,
			const struct pf_config_at *at, struct json_object *value,
			take_entry *take)
{
	int r = 0;

	if (!json_object_is_type(value, json_type_object))
		return taking_refuse(k, at, "an object", value);
	json_object_object_foreach(value, key, entry) {
		const struct pf_config_at place = { .up = at, .key = key };

		if (r == 0)
			r = take(&k->o->settings, def, key, entry, k->err);
		r = blame(k, def, &place, key, r);
	}
	return r;
}

static int take_level(struct taking *k, struct plugin_def *def,
		      const struct pf_config_at *at, struct json_object *value)
{
	if (!json_object_is_type(value, json_type_int) ||
	    json_object_get_int64(value) < 0 ||
	    json_object_get_int64(value) > MAX_LOG_LEVEL)
		return taking_refuse(k, at, "an integer from 0 to 4", value);
	def->log_level = json_object_get_int(value);
	def->log_layer = k->o->settings.layer;
	return 0;
}

static int take_plugin_path(struct taking *k, struct plugin_def *def,
			    const struct pf_config_at *at, struct json_object *value)
{
	const char *path = taking_path(k, at, value);

	if (!path)
		return -EINVAL;
	free(def->path);
	def->path = strdup(path);
	return def->path ? 0 : pf_err_set(k->err, -ENOMEM, "no memory for a path");
}

static int take_plugin_key(struct taking *k, struct plugin_def *def,
			   const struct pf_config_at *at, struct json_object *value)
{
	if (!strcmp(at->key, "name"))
		return 0;
	if (!strcmp(at->key, "path"))
		return take_plugin_path(k, def, at, value);
	if (!strcmp(at->key, "options"))
		return take_entries(k, def, at, value, settings_option);
	if (!strcmp(at->key, "env"))
		return take_entries(k, def, at, value, settings_variable);
	if (!strcmp(at->key, "log_level"))
		return take_level(k, def, at, value);
	if (!strcmp(at->key, "sandbox") || !strcmp(at->key, "sandbox_read") ||
	    !strcmp(at->key, "sandbox_write") || !strcmp(at->key, "sandbox_uid"))
		return taking_at_fault(k, at,
				       settings_sandbox(&k->o->settings, def, at->key,
							value, k->err));
	return pf_config_text_error(
		k->t, at, k->err, -EINVAL,
		"expected name, path, options, env, log_level, sandbox, "
		"sandbox_read, sandbox_write or sandbox_uid, found the key "
		"\"%.80s\"",
		at->key);
}

static int take_plugin_word(struct taking *k, const struct pf_config_at *at,
			    struct json_object *value)
{
	static const char want[] = "a plugin's name, absolute path or NAME=PATH";
	struct settings *s = &k->o->settings;
	const char *text = taking_string(k, at, value, want);

	if (!text)
		return -EINVAL;
	if (!settings_is_plugin_word(text))
		return taking_refuse(k, at, want, value);
	return taking_keep(k, at, s->chosen, &s->n_chosen, text);
}

static int take_plugin(struct taking *k, const struct pf_config_at *at,
		       struct json_object *value)
{
	const struct pf_config_at name_at = { .up = at, .key = "name" };
	struct settings *s = &k->o->settings;
	struct json_object *name = NULL;
	struct plugin_def *def;
	const char *text;
	int r;

	if (json_object_is_type(value, json_type_string))
		return take_plugin_word(k, at, value);
	if (!json_object_is_type(value, json_type_object))
		return taking_refuse(k, at,
				     "a plugin: a string, or an object with a name",
				     value);
	if (!json_object_object_get_ex(value, "name", &name))
		return taking_refuse(k, at, "an object with a name", value);
	text = taking_string(k, &name_at, name, "a plugin's name");
	if (!text)
		return -EINVAL;
	def = settings_def(s, text, k->err);
	if (!def)
		return taking_at_fault(k, &name_at, k->err->code);
	r = taking_keep(k, at, s->chosen, &s->n_chosen, text);
	json_object_object_foreach(value, key, entry) {
		const struct pf_config_at place = { .up = at, .key = key };

		if (r == 0)
			r = take_plugin_key(k, def, &place, entry);
	}
	return r;
}

/* The length of the name that WORD (NAME, NAME=PATH or a path) gives a plugin; 0: none. */
static size_t named_by(const char *word)
{
	size_t len = strcspn(word, "=/");

	return word[len] == '/' ? 0 : len;
}

/* No two of a list may have one name: the last of them is at AT. */
static int check_last_name(struct taking *k, const struct pf_config_at *at)
{
	const struct settings *s = &k->o->settings;
	const char *last = s->chosen[s->n_chosen - 1];
	size_t len = named_by(last);

	for (unsigned i = 0; len && i + 1 < s->n_chosen; i++)
		if (named_by(s->chosen[i]) == len && !memcmp(s->chosen[i], last, len))
			return pf_config_text_error(k->t, at, k->err, -EINVAL,
						    "a second plugin is called %.*s",
						    (int)len, last);
	return 0;
}

/* Which plugins are loaded is what the last file says; what is said of each adds up. */
int taking_plugins(struct taking *k, enum key_id id, const struct pf_config_at *at,
		   struct json_object *value)
{
	struct settings *s = &k->o->settings;
	int r = 0;

	(void)id;
	while (s->n_chosen)
		free(s->chosen[--s->n_chosen]);
	if (!json_object_is_type(value, json_type_array))
		return take_plugin(k, at, value);
	for (size_t i = 0; i < json_object_array_length(value) && r == 0; i++) {
		const struct pf_config_at item = { .up = at, .index = i };

		r = take_plugin(k, &item, json_object_array_get_idx(value, i));
		if (r == 0)
			r = check_last_name(k, &item);
	}
	return r;
}
