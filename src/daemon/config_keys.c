/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a configuration file, and what each one says. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_taking.h"
#include "memory_limit.h"
#include "pjrtfs/base/json.h"
#include "pjrtfs/base/similar.h"

int taking_at_fault(struct taking *k, const struct pf_config_at *at, int r)
{
	char text[PF_ERR_TEXT];

	if (r >= 0 || !k->err)
		return r;
	snprintf(text, sizeof(text), "%s", k->err->text);
	return pf_config_text_error(k->t, at, k->err, r, "%s", text);
}

int taking_refuse(struct taking *k, const struct pf_config_at *at, const char *want,
		  struct json_object *found)
{
	return pf_config_text_refuse(k->t, at, want, found, k->err);
}

/* --- one value -------------------------------------------------------------------------------- */

static int take_flag(struct taking *k, enum key_id id, const struct pf_config_at *at,
		     struct json_object *value)
{
	bool on = json_object_get_boolean(value);

	if (!json_object_is_type(value, json_type_boolean))
		return taking_refuse(k, at, "true or false", value);
	if (id == KEY_FOREGROUND)
		k->o->foreground = on;
	else if (id == KEY_DEBUG)
		k->o->debug = on;
	else if (id == KEY_ALLOW_NATIVE)
		k->o->allow_native = on;
	else
		k->o->cache.off = on;
	return 0;
}

static int take_size(struct taking *k, enum key_id id, const struct pf_config_at *at,
		     struct json_object *value)
{
	const char *text;
	int r;

	if (!json_object_is_type(value, json_type_string) &&
	    !json_object_is_type(value, json_type_int))
		return taking_refuse(k, at, "bytes: a number, or a string as \"4G\"",
				     value);
	text = json_object_get_string(value);
	if (id == KEY_MEMORY_LIMIT)
		r = memory_limit_parse(text, &k->o->memory_limit, k->err);
	else
		r = cache_options_take(&k->o->cache, "size", text, k->err);
	return taking_at_fault(k, at, r);
}

static int take_number(struct taking *k, enum key_id id, const struct pf_config_at *at,
		       struct json_object *value)
{
	const char *text;
	int r;

	if (!json_object_is_type(value, json_type_int))
		return taking_refuse(k, at, "an integer", value);
	text = json_object_get_string(value);
	if (id == KEY_DEVICES)
		r = settings_take_devices(&k->o->settings, text, k->err);
	else if (id == KEY_ABANDONED_TIMEOUT)
		r = settings_take_abandoned(&k->o->settings, text, k->err);
	else if (id == KEY_PLUGIN_LOG_LEVEL)
		r = settings_take_log_level(&k->o->settings, text, k->err);
	else
		r = cache_options_take(&k->o->cache,
				       id == KEY_COMPILE_JOBS ? "jobs" : "timeout", text,
				       k->err);
	return taking_at_fault(k, at, r);
}

/* In octal, whether it is a string or not; and a group, by name or number. */
static int take_rights(struct taking *k, enum key_id id, const struct pf_config_at *at,
		       struct json_object *value)
{
	const char *text = json_object_get_string(value);

	if (!json_object_is_type(value, json_type_string) &&
	    !json_object_is_type(value, json_type_int))
		return taking_refuse(k, at,
				     id == KEY_MODE ? "an octal mode as \"1777\""
						    : "a group's name or number",
				     value);
	return taking_at_fault(k, at,
			       id == KEY_MODE ? options_take_mode(k->o, text, k->err)
					      : options_take_group(k->o, text, k->err));
}

const char *taking_string(struct taking *k, const struct pf_config_at *at,
			  struct json_object *value, const char *want)
{
	const char *text = json_object_is_type(value, json_type_string)
				   ? json_object_get_string(value)
				   : "";

	if (*text && strlen(text) == (size_t)json_object_get_string_len(value))
		return text;
	taking_refuse(k, at, want, value);
	return NULL;
}

const char *taking_path(struct taking *k, const struct pf_config_at *at,
			struct json_object *value)
{
	const char *text = taking_string(k, at, value, "an absolute path");

	if (!text || *text == '/')
		return text;
	taking_refuse(k, at, "an absolute path", value);
	return NULL;
}

/* --- lists of strings --------------------------------------------------------------------------- */

int taking_keep(struct taking *k, const struct pf_config_at *at, char **list, unsigned *n,
		const char *word)
{
	if (*n == MAX_PLUGINS)
		return pf_config_text_error(k->t, at, k->err, -EINVAL,
					    "expected at most %d, found more",
					    MAX_PLUGINS);
	list[*n] = strdup(word);
	if (!list[*n])
		return pf_err_set(k->err, -ENOMEM, "no memory for the configuration");
	++*n;
	return 0;
}

static int take_word(struct taking *k, enum key_id id, const struct pf_config_at *at,
		     struct json_object *value)
{
	struct settings *s = &k->o->settings;
	bool path = id == KEY_PLUGIN_DIR || id == KEY_CACHE_DIR;
	const char *text = path ? taking_path(k, at, value)
				: taking_string(k, at, value, "a string");

	if (!text)
		return -EINVAL;
	switch (id) {
	case KEY_PLUGIN_DIR:
		return taking_keep(k, at, s->dirs, &s->n_dirs, text);
	case KEY_CACHE_DIR:
		return taking_at_fault(k, at,
				       cache_options_take(&k->o->cache, "dir", text,
							  k->err));
	case KEY_MOUNT_OPTIONS:
		return taking_at_fault(k, at, options_add_fuse(k->o, text, k->err));
	case KEY_PLUGIN_OPTION:
		return taking_at_fault(k, at, settings_take_option(s, text, k->err));
	case KEY_PLUGIN_ENV:
		return taking_at_fault(k, at, settings_take_env(s, text, k->err));
	case KEY_FLAGS_FOR_ALL:
		return taking_at_fault(k, at,
				       settings_take_flag_for_all(s, text, k->err));
	default:
		return taking_at_fault(k, at,
				       settings_take_compile_option(s, text, k->err));
	}
}

/* A list replaces what an earlier file says, where it does not add to it by name. */
static void forget(struct options *o, enum key_id id)
{
	struct settings *s = &o->settings;

	if (id == KEY_PLUGIN_DIR)
		while (s->n_dirs)
			free(s->dirs[--s->n_dirs]);
	if (id == KEY_MOUNT_OPTIONS)
		options_forget_fuse(o);
}

static int take_words(struct taking *k, enum key_id id, const struct pf_config_at *at,
		      struct json_object *value)
{
	int r = 0;

	forget(k->o, id);
	if (!json_object_is_type(value, json_type_array))
		return take_word(k, id, at, value);
	for (size_t i = 0; i < json_object_array_length(value) && r == 0; i++) {
		const struct pf_config_at item = { .up = at, .index = i };

		r = take_word(k, id, &item, json_object_array_get_idx(value, i));
	}
	return r;
}

/* Its key is what is set. */
static int take_sandbox(struct taking *k, enum key_id id, const struct pf_config_at *at,
			struct json_object *value)
{
	static const char *const names[] = { "sandbox", "sandbox_read", "sandbox_write",
					     "sandbox_uid" };

	return taking_at_fault(k, at,
			       settings_sandbox(&k->o->settings, NULL,
						names[id - KEY_SANDBOX], value, k->err));
}

/* --- compile options ------------------------------------------------------------------------------ */

static int take_flags(struct taking *k, enum key_id id, const struct pf_config_at *at,
		      struct json_object *value)
{
	int r = 0;

	(void)id;
	if (!json_object_is_type(value, json_type_object))
		return taking_refuse(k, at, "an object", value);
	json_object_object_foreach(value, key, entry) {
		const struct pf_config_at place = { .up = at, .key = key };

		if (r == 0)
			r = taking_at_fault(k, &place,
					    settings_debug_option(&k->o->settings, key,
								  entry, k->err));
	}
	return r;
}

static int take_compile_options(struct taking *k, enum key_id id,
				const struct pf_config_at *at, struct json_object *value)
{
	struct settings *s = &k->o->settings;
	int r = 0;

	if (!json_object_is_type(value, json_type_object))
		return taking_refuse(k, at, "an object", value);
	json_object_object_foreach(value, key, entry) {
		const struct pf_config_at place = { .up = at, .key = key };

		if (r < 0)
			break;
		if (!strcmp(key, "env_option_overrides"))
			r = take_flags(k, id, &place, entry);
		else
			r = taking_at_fault(k, &place,
					    settings_compile_option(s, key, entry,
								    k->err));
	}
	return r;
}

/* --- all ------------------------------------------------------------------------------------------ */

/* In the order in which they are taken: what is more special comes later. */
static const struct {
	const char *name;
	enum key_id id;
	int (*take)(struct taking *k, enum key_id id, const struct pf_config_at *at,
		    struct json_object *value);
} keys[] = {
	{ "foreground", KEY_FOREGROUND, take_flag },
	{ "debug", KEY_DEBUG, take_flag },
	{ "mount_options", KEY_MOUNT_OPTIONS, take_words },
	{ "memory_limit", KEY_MEMORY_LIMIT, take_size },
	{ "mode", KEY_MODE, take_rights },
	{ "group", KEY_GROUP, take_rights },
	{ "allow_native", KEY_ALLOW_NATIVE, take_flag },
	{ "cache_dir", KEY_CACHE_DIR, take_word },
	{ "cache_size", KEY_CACHE_SIZE, take_size },
	{ "no_cache", KEY_NO_CACHE, take_flag },
	{ "compile_jobs", KEY_COMPILE_JOBS, take_number },
	{ "compile_timeout", KEY_COMPILE_TIMEOUT, take_number },
	{ "abandoned_timeout", KEY_ABANDONED_TIMEOUT, take_number },
	{ "devices", KEY_DEVICES, take_number },
	{ "plugin_dir", KEY_PLUGIN_DIR, take_words },
	{ "plugin_log_level", KEY_PLUGIN_LOG_LEVEL, take_number },
	{ "plugin", 0, taking_plugins },
	{ "plugins", 0, taking_plugins },
	{ "plugin_option", KEY_PLUGIN_OPTION, take_words },
	{ "plugin_env", KEY_PLUGIN_ENV, take_words },
	{ "compile_options", 0, take_compile_options },
	{ "debug_options", 0, take_flags },
	{ "compile_option", KEY_COMPILE_OPTION, take_words },
	{ "flags_for_all", KEY_FLAGS_FOR_ALL, take_words },
	{ "sandbox", KEY_SANDBOX, take_sandbox },
	{ "sandbox_read", KEY_SANDBOX + 1, take_sandbox },
	{ "sandbox_write", KEY_SANDBOX + 2, take_sandbox },
	{ "sandbox_uid", KEY_SANDBOX + 3, take_sandbox },
};

enum { N_KEYS = sizeof(keys) / sizeof(keys[0]) };

/* Options are written with hyphens or with underscores. */
static bool same_name(const char *key, const char *name)
{
	while (*key && (*key == *name || (*key == '-' && *name == '_'))) {
		key++;
		name++;
	}
	return !*key && !*name;
}

/* "plugin" and "plugins" are the same, as "no-cache" and "no_cache". */
static bool is_same(size_t i, size_t j)
{
	return i == j ||
	       (keys[i].take == taking_plugins && keys[j].take == taking_plugins);
}

static bool says_compile_options(size_t i)
{
	return keys[i].take == take_compile_options || keys[i].take == take_flags ||
	       keys[i].id == KEY_COMPILE_OPTION;
}

static int unknown(struct taking *k, const char *key)
{
	const struct pf_config_at at = { .key = key };
	struct pf_similar similar = { .word = key };
	char names[PF_ERR_TEXT] = "", hint[PF_SIMILAR_TEXT];

	for (size_t i = 0; i < N_KEYS; i++) {
		pf_similar_try(&similar, keys[i].name);
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
			 i ? ", " : "", keys[i].name);
	}
	return pf_config_text_error(k->t, &at, k->err, -EINVAL,
				    "there is no such key%s; expected one of %s",
				    pf_similar_hint(&similar, hint), names);
}

int config_take(struct options *o, struct pf_config_text *t, struct pf_err *err)
{
	struct pf_err own = PF_ERR_INIT;
	struct taking k = { .o = o, .t = t, .err = err ? err : &own };
	const char *found[N_KEYS] = { NULL };
	int r = 0;

	json_object_object_foreach(t->json, key, value) {
		const struct pf_config_at at = { .key = key };
		size_t i = 0;

		(void)value;
		while (i < N_KEYS && !same_name(key, keys[i].name))
			i++;
		if (i == N_KEYS)
			return unknown(&k, key);
		for (size_t j = 0; j < N_KEYS; j++)
			if (found[j] && is_same(i, j))
				return pf_config_text_error(t, &at, k.err, -EINVAL,
							    "it is given twice");
		found[i] = key;
	}
	for (size_t i = 0; i < N_KEYS && r == 0; i++) {
		const struct pf_config_at at = { .key = found[i] };
		struct json_object *said = NULL;

		if (!found[i])
			continue;
		json_object_object_get_ex(t->json, found[i], &said);
		r = keys[i].take(&k, keys[i].id, &at, said);
		/* Each may be right, and all of them together wrong. */
		if (r == 0 && says_compile_options(i))
			r = taking_at_fault(&k, &at,
					    settings_check_compile_options(&o->settings,
									   k.err));
	}
	return r;
}
