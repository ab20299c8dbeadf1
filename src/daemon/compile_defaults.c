/* SPDX-License-Identifier: Apache-2.0 */
/* Compile options that every program of the mount has unless it says otherwise. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/base/cleanup.h"
#include "pjrtfs/base/json.h"
#include "pjrtfs/formats/options.h"
#include "settings.h"

static const char flags_key[] = "env_option_overrides";

/* Would a plugin with any number of devices take O? */
static int check(struct json_object *o, struct pf_err *err)
{
	const struct pf_options_target target = { .plugin = "", .n_devices = INT_MAX };
	pf_autobuf struct pf_buf bytes = PF_BUF_INIT;
	const char *plugin;
	size_t len;
	int r = pf_options_plugin(o, &plugin, &len, err);

	return r < 0 ? r : pf_options_encode(o, &target, &bytes, err);
}

/* O[KEY] is VALUE, which is borrowed; -EINVAL: it cannot be, even alone. */
static int put_checked(struct json_object *o, const char *key, struct json_object *value,
		       struct pf_err *err)
{
	struct json_object *copy = pf_json_copy(value);
	int r;

	if ((value && !copy) || json_object_object_add(o, key, copy)) {
		json_object_put(copy);
		return pf_err_set(err, -ENOMEM, "no memory for the options");
	}
	r = check(o, err);
	if (r < 0)
		json_object_object_del(o, key);
	return r;
}

static int set(struct settings *s, const char *key, struct json_object *value,
	       struct pf_err *err)
{
	struct json_object *alone = json_object_new_object();
	int r;

	if (!s->compile_options)
		s->compile_options = json_object_new_object();
	if (!alone || !s->compile_options) {
		json_object_put(alone);
		return pf_err_set(err, -ENOMEM, "no memory for the options");
	}
	r = put_checked(alone, key, value, err);
	if (r == 0 &&
	    json_object_object_add(s->compile_options, key, pf_json_copy(value)))
		r = pf_err_set(err, -ENOMEM, "no memory for the options");
	json_object_put(alone);
	return r;
}

int settings_debug_option(struct settings *s, const char *key, struct json_object *value,
			  struct pf_err *err)
{
	struct json_object *flags = NULL, *copy;
	int r;

	json_object_object_get_ex(s->compile_options, flags_key, &flags);
	copy = flags ? pf_json_copy(flags) : json_object_new_object();
	if (!copy || json_object_object_add(copy, key, pf_json_copy(value))) {
		json_object_put(copy);
		return pf_err_set(err, -ENOMEM, "no memory for the options");
	}
	r = set(s, flags_key, copy, err);
	json_object_put(copy);
	return r;
}

int settings_compile_option(struct settings *s, const char *key,
			    struct json_object *value, struct pf_err *err)
{
	int r = 0;

	if (strcmp(key, flags_key) != 0 || !json_object_is_type(value, json_type_object))
		return set(s, key, value, err);
	json_object_object_foreach(value, flag, setting) {
		if (r == 0)
			r = settings_debug_option(s, flag, setting, err);
	}
	return r;
}

/* VALUE of a word: JSON if it is some, else a string. */
static struct json_object *read_value(const char *text)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *value = NULL;

	if (tokener) {
		json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
		value = json_tokener_parse_ex(tokener, text, (int)strlen(text) + 1);
		if (json_tokener_get_error(tokener) != json_tokener_success)
			value = NULL;
	}
	json_tokener_free(tokener);
	return value ? value : json_object_new_string(text);
}

int settings_take_compile_option(struct settings *s, const char *word, struct pf_err *err)
{
	const char *equals = strchr(word, '=');
	pf_autofree char *key = equals ? strndup(word, (size_t)(equals - word)) : NULL;
	struct json_object *value;
	size_t len = strlen(flags_key);
	int r;

	if (!equals || equals == word || strlen(word) > 65536)
		return pf_err_set(err, -EINVAL,
				  "compile option: expected KEY=VALUE, or "
				  "env_option_overrides.FLAG=VALUE, found %.80s",
				  word);
	value = key ? read_value(equals + 1) : NULL;
	if (!value)
		return pf_err_set(err, -ENOMEM, "no memory for the options");
	if (!strncmp(key, flags_key, len) && key[len] == '.')
		r = settings_debug_option(s, key + len + 1, value, err);
	else
		r = settings_compile_option(s, key, value, err);
	json_object_put(value);
	return r < 0 ? pf_err_wrap(err, r, "compile option") : 0;
}

int settings_check_compile_options(const struct settings *s, struct pf_err *err)
{
	int r = s->compile_options ? check(s->compile_options, err) : 0;

	return r < 0 ? pf_err_wrap(err, r, "default compile options") : 0;
}
