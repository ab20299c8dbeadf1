/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/discover.h"
#include "pjrtfs/json.h"
#include "pjrtfs/plugin_options.h"

/* Compile options that every program of the mount has unless it says otherwise. */

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

static const char count_key[] = "cpu_device_count";

void settings_init(struct settings *s)
{
	memset(s, 0, sizeof(*s));
	s->log_level = -1;
	s->abandoned_s = ABANDONED;
}

void settings_release(struct settings *s)
{
	for (unsigned i = 0; i < s->n_defs; i++) {
		free(s->defs[i].name);
		free(s->defs[i].path);
		free(s->defs[i].refused);
		free(s->defs[i].refused_key);
		json_object_put(s->defs[i].options);
		json_object_put(s->defs[i].env);
		json_object_put(s->defs[i].sandbox);
	}
	for (unsigned i = 0; i < s->n_chosen; i++)
		free(s->chosen[i]);
	for (unsigned i = 0; i < s->n_dirs; i++)
		free(s->dirs[i]);
	while (s->n_flags)
		free(s->flags_for_all[--s->n_flags]);
	json_object_put(s->compile_options);
	json_object_put(s->sandbox);
	settings_init(s);
}

static int no_memory(struct pf_err *err)
{
	return pf_err_set(err, -ENOMEM, "no memory for the options");
}

/* --- plugins ------------------------------------------------------------------------------ */

static const struct plugin_def *find_def(const struct settings *s, const char *name)
{
	for (unsigned i = 0; i < s->n_defs; i++)
		if (!strcmp(s->defs[i].name, name))
			return &s->defs[i];
	return NULL;
}

struct plugin_def *settings_def(struct settings *s, const char *name, struct pf_err *err)
{
	const struct plugin_def *found = find_def(s, name);
	struct plugin_def *def;

	if (found) {
		def = &s->defs[found - s->defs];
		def->layer = s->layer;
		return def;
	}
	if (!pf_plugin_name_valid(name)) {
		pf_err_set(err, -EINVAL,
			   "plugin name %.80s: expected up to 32 letters, digits, '.', "
			   "'_', '-'",
			   name);
		return NULL;
	}
	if (s->n_defs == MAX_DEFS) {
		pf_err_set(err, -EINVAL, "options for more than %d plugins", MAX_DEFS);
		return NULL;
	}
	def = &s->defs[s->n_defs];
	*def = (struct plugin_def){ .name = strdup(name),
				    .options = json_object_new_object(),
				    .env = json_object_new_object(),
				    .log_level = -1,
				    .layer = s->layer };
	s->n_defs++;
	if (def->name && def->options && def->env)
		return def;
	no_memory(err);
	return NULL;
}

/* Put a copy of VALUE, or null, under KEY of O. */
static int put(struct json_object *o, const char *key, struct json_object *value,
	       struct pf_err *err)
{
	struct json_object *copy = pf_json_copy(value);

	if ((value && !copy) || json_object_object_add(o, key, copy)) {
		json_object_put(copy);
		return no_memory(err);
	}
	return 0;
}

int settings_option(struct settings *s, struct plugin_def *def, const char *key,
		    struct json_object *value, struct pf_err *err)
{
	int r = pf_create_option_check(key, value, err);

	if (r == 0 && !json_object_object_get_ex(def->options, key, NULL) &&
	    json_object_object_length(def->options) >= PF_CREATE_OPTIONS_MAX)
		r = pf_err_set(err, -EINVAL, "option %s: plugin %s has %d others already",
			       key, def->name, PF_CREATE_OPTIONS_MAX);
	if (r == 0)
		r = put(def->options, key, value, err);
	if (r < 0)
		return r;
	if (!strcmp(key, count_key))
		def->count_layer = s->layer;
	if (def->refused_key && !strcmp(def->refused_key, key)) {
		free(pf_steal(&def->refused_key));
		free(pf_steal(&def->refused));
	}
	return 0;
}

int settings_refuse(struct settings *s, struct plugin_def *def, const char *key,
		    const char *why)
{
	if (!strcmp(key, count_key))
		def->count_layer = s->layer;
	if (def->refused)
		return 0; /* the first reason is enough */
	def->refused = strdup(why);
	def->refused_key = strdup(key);
	return def->refused && def->refused_key ? 0 : -ENOMEM;
}

bool settings_is_plugin_word(const char *text)
{
	size_t len = strcspn(text, "=/");
	pf_autofree char *name = strndup(text, len);

	if (!name || strchr(text, ','))
		return false;
	if (text[len] == '=')
		return pf_plugin_name_valid(name) && text[len + 1] == '/';
	return text[len] ? len == 0 : pf_plugin_name_valid(name);
}

int settings_check_refused(const struct settings *s, struct pf_err *err)
{
	for (unsigned i = 0; i < s->n_defs; i++)
		if (s->defs[i].refused)
			return pf_err_set(err, -EINVAL, "%s", s->defs[i].refused);
	return 0;
}

int settings_variable(struct settings *s, struct plugin_def *def, const char *key,
		      struct json_object *value, struct pf_err *err)
{
	(void)s;
	if (!*key || strchr(key, '='))
		return pf_err_set(err, -EINVAL,
				  "variable %.80s: expected a name without '='", key);
	if (value && (!json_object_is_type(value, json_type_string) ||
		      strlen(json_object_get_string(value)) !=
			      (size_t)json_object_get_string_len(value)))
		return pf_err_set(err, -EINVAL,
				  "variable %.80s: expected a string, or null for none, "
				  "found %.80s",
				  key, pf_json_text(value));
	if (strlen(key) + (value ? strlen(json_object_get_string(value)) : 0) >
	    MAX_VARIABLE)
		return pf_err_set(err, -EINVAL,
				  "variable %.80s: expected at most %d bytes", key,
				  MAX_VARIABLE);
	if (!json_object_object_get_ex(def->env, key, NULL) &&
	    json_object_object_length(def->env) >= MAX_VARIABLES)
		return pf_err_set(err, -EINVAL,
				  "variable %.80s: plugin %s has %d others already", key,
				  def->name, MAX_VARIABLES);
	return put(def->env, key, value, err);
}

/* --- words -------------------------------------------------------------------------------- */

/* The plugin before the colon of WORD, and what follows it in *REST. */
static struct plugin_def *split(struct settings *s, const char *word, const char *form,
				const char **rest, struct pf_err *err)
{
	const char *colon = strchr(word, ':'), *equals = strchr(word, '=');
	pf_autofree char *name = colon ? strndup(word, (size_t)(colon - word)) : NULL;

	if (!colon || !equals || equals < colon) {
		pf_err_set(err, -EINVAL, "expected %s, found %.80s", form, word);
		return NULL;
	}
	if (!name) {
		no_memory(err);
		return NULL;
	}
	*rest = colon + 1;
	return settings_def(s, name, err);
}

int settings_take_option(struct settings *s, const char *word, struct pf_err *err)
{
	struct json_object *value = NULL;
	pf_autofree char *key = NULL;
	struct plugin_def *def;
	const char *rest;
	int r = -EINVAL;

	def = split(s, word, "NAME:KEY=VALUE", &rest, err);
	if (def)
		r = pf_create_option_parse(rest, &key, &value, err);
	else if (err)
		r = err->code;
	if (r == 0)
		r = settings_option(s, def, key, value, err);
	json_object_put(value);
	return r < 0 ? pf_err_wrap(err, r, "plugin option") : 0;
}

int settings_take_env(struct settings *s, const char *word, struct pf_err *err)
{
	pf_autofree char *key = NULL;
	struct json_object *value;
	struct plugin_def *def;
	const char *rest, *equals;
	int r;

	def = split(s, word, "NAME:KEY=VALUE", &rest, err);
	if (!def)
		return pf_err_wrap(err, err ? err->code : -EINVAL, "plugin environment");
	equals = strchr(rest, '=');
	key = strndup(rest, (size_t)(equals - rest));
	value = json_object_new_string(equals + 1);
	r = key && value ? settings_variable(s, def, key, value, err) : no_memory(err);
	json_object_put(value);
	return r < 0 ? pf_err_wrap(err, r, "plugin environment") : 0;
}

static int take_number(const char *what, const char *word, int least, int most, int *ret,
		       struct pf_err *err)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(word, &end, 10);
	if (!isdigit((unsigned char)*word) || *end || errno || n < least || n > most)
		return pf_err_set(err, -EINVAL,
				  "%s: expected a number from %d to %d, found %.80s",
				  what, least, most, word);
	*ret = (int)n;
	return 0;
}

int settings_take_devices(struct settings *s, const char *word, struct pf_err *err)
{
	int n, r = take_number("devices", word, 1, MAX_DEVICES, &n, err);

	if (r < 0)
		return r;
	s->devices = (unsigned)n;
	s->devices_layer = s->layer;
	return 0;
}

int settings_take_abandoned(struct settings *s, const char *word, struct pf_err *err)
{
	int n, r = take_number("abandoned timeout in seconds", word, 0, MAX_ABANDONED, &n,
			       err);

	if (r < 0)
		return r;
	s->abandoned_s = (unsigned)n;
	return 0;
}

int settings_take_log_level(struct settings *s, const char *word, struct pf_err *err)
{
	int n, r = take_number("plugin log level", word, 0, MAX_LOG_LEVEL, &n, err);

	if (r < 0)
		return r;
	s->log_level = n;
	s->log_layer = s->layer;
	return 0;
}

/* --- the sandbox ---------------------------------------------------------------------------- */

static const char mode_key[] = "sandbox", uid_key[] = "sandbox_uid";

static bool is_mode(const char *text)
{
	return !strcmp(text, "strict") || !strcmp(text, "device") || !strcmp(text, "off");
}

/* Add the path VALUE, or those in it, to the list KEY of O. */
static int add_paths(struct json_object *o, const char *key, struct json_object *value,
		     struct pf_err *err)
{
	bool one = !json_object_is_type(value, json_type_array);
	size_t n = one ? 1 : json_object_array_length(value);
	struct json_object *list = NULL;

	if (!json_object_object_get_ex(o, key, &list)) {
		list = json_object_new_array();
		if (!list || json_object_object_add(o, key, list))
			return no_memory(err);
	}
	for (size_t i = 0; i < n; i++) {
		struct json_object *path =
			one ? value : json_object_array_get_idx(value, i);
		const char *text = json_object_is_type(path, json_type_string)
					   ? json_object_get_string(path)
					   : "";

		if (*text != '/')
			return pf_err_set(err, -EINVAL,
					  "%s: expected an absolute path, found %.80s",
					  key, json_object_to_json_string(path));
		if (json_object_array_add(list, json_object_new_string(text)))
			return no_memory(err);
	}
	return 0;
}

int settings_sandbox(struct settings *s, struct plugin_def *def, const char *key,
		     struct json_object *value, struct pf_err *err)
{
	struct json_object **o = def ? &def->sandbox : &s->sandbox;

	if (!*o && !(*o = json_object_new_object()))
		return no_memory(err);
	if (!strcmp(key, mode_key)) {
		if (!json_object_is_type(value, json_type_string) ||
		    !is_mode(json_object_get_string(value)))
			return pf_err_set(err, -EINVAL,
					  "%s: expected strict, device or off, found "
					  "%.80s",
					  key, json_object_to_json_string(value));
		*(def ? &def->sandbox_layer : &s->sandbox_layer) = s->layer;
		return put(*o, key, value, err);
	}
	if (strcmp(key, uid_key) != 0)
		return add_paths(*o, key, value, err);
	if (!json_object_is_type(value, json_type_int) ||
	    json_object_get_int64(value) < 1 ||
	    json_object_get_int64(value) >= UINT32_MAX)
		return pf_err_set(err, -EINVAL,
				  "%s: expected the number of a user other than root, "
				  "found %.80s",
				  key, json_object_to_json_string(value));
	return put(*o, key, value, err);
}

/* WORD is [NAME:]VALUE; a path's colons are its own. */
static int take_sandbox(struct settings *s, const char *key, const char *word,
			struct pf_err *err)
{
	size_t len = strcspn(word, ":/");
	const char *text = word[len] == ':' ? word + len + 1 : word;
	bool is_uid = !strcmp(key, uid_key) && *text && !text[strspn(text, "0123456789")];
	struct json_object *value =
		is_uid ? json_tokener_parse(text) : json_object_new_string(text);
	struct plugin_def *def = NULL;
	int r = 0;

	if (word[len] == ':') {
		pf_autofree char *name = strndup(word, len);

		def = name ? settings_def(s, name, err) : NULL;
		r = def ? 0 : -EINVAL;
	}
	if (r == 0)
		r = settings_sandbox(s, def, key, value, err);
	json_object_put(value);
	return r;
}

int settings_take_sandbox(struct settings *s, const char *word, struct pf_err *err)
{
	return take_sandbox(s, mode_key, word, err);
}

int settings_take_sandbox_read(struct settings *s, const char *word, struct pf_err *err)
{
	return take_sandbox(s, "sandbox_read", word, err);
}

int settings_take_sandbox_write(struct settings *s, const char *word, struct pf_err *err)
{
	return take_sandbox(s, "sandbox_write", word, err);
}

int settings_take_sandbox_uid(struct settings *s, const char *word, struct pf_err *err)
{
	return take_sandbox(s, uid_key, word, err);
}

/* What is said of all, then of DEF: it overrides, unless that was said later, and lists add up. */
static int sandbox_of(const struct settings *s, const struct plugin_def *def,
		      struct json_object **ret, struct pf_err *err)
{
	int r = 0;

	*ret = s->sandbox ? pf_json_copy(s->sandbox) : json_object_new_object();
	if (!*ret)
		return no_memory(err);
	if (!def || !def->sandbox)
		return 0;
	json_object_object_foreach(def->sandbox, key, value) {
		if (r < 0)
			break;
		if (json_object_is_type(value, json_type_array))
			r = add_paths(*ret, key, value, err);
		else if (strcmp(key, mode_key) != 0 ||
			 def->sandbox_layer >= s->sandbox_layer)
			r = put(*ret, key, value, err);
	}
	return r;
}

/* --- the plugins that there are ------------------------------------------------------------- */

static struct json_object *options_of(const struct settings *s,
				      const struct plugin_def *def, bool is_default)
{
	struct json_object *o =
		def ? pf_json_copy(def->options) : json_object_new_object();

	/* --devices is the default plugin's; what is said of the option itself is as good. */
	if (o && is_default && s->devices &&
	    (!def || def->count_layer < s->devices_layer))
		json_object_object_add(o, count_key, json_object_new_int64(s->devices));
	return o;
}

static struct json_object *env_of(const struct settings *s, const struct plugin_def *def)
{
	static const char variable[] = "TF_CPP_MIN_LOG_LEVEL";
	struct json_object *o = def ? pf_json_copy(def->env) : json_object_new_object();
	bool own = def && def->log_level >= 0 && def->log_layer >= s->log_layer;
	int level = own ? def->log_level : s->log_level;
	char text[12];

	if (!o || level < 0 || json_object_object_get_ex(o, variable, NULL))
		return o;
	snprintf(text, sizeof(text), "%d", level);
	json_object_object_add(o, variable, json_object_new_string(text));
	return o;
}

int settings_attach(const struct settings *s, struct pf_candidate *plugins, unsigned n,
		    bool first_is_default, struct pf_err *err)
{
	for (unsigned i = 0; i < n; i++) {
		const struct plugin_def *def = find_def(s, plugins[i].name);
		bool is_default = first_is_default && i == 0;

		plugins[i].options = options_of(s, def, is_default);
		plugins[i].env = env_of(s, def);
		if (!plugins[i].options || !plugins[i].env)
			return no_memory(err);
		if (sandbox_of(s, def, &plugins[i].sandbox, err) < 0)
			return -ENOMEM;
		/* --devices may have said it better. */
		if (!def || !def->refused || plugins[i].refused ||
		    (is_default && s->devices_layer > def->count_layer &&
		     !strcmp(def->refused_key, count_key)))
			continue;
		plugins[i].refused = strdup(def->refused);
		if (!plugins[i].refused)
			return no_memory(err);
	}
	return 0;
}

int settings_check_names(const struct settings *s, const struct pf_candidate *plugins,
			 unsigned n, struct pf_err *err)
{
	char names[256] = "";

	for (unsigned i = 0; i < n; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
			 i ? ", " : "", plugins[i].name);
	for (unsigned i = 0; i < s->n_defs; i++) {
		unsigned k = 0;

		while (k < n && strcmp(plugins[k].name, s->defs[i].name) != 0)
			k++;
		if (k == n && s->defs[i].layer == LAYER_COMMAND_LINE)
			return pf_err_set(err, -EINVAL,
					  "options for plugin %s, which is not loaded: "
					  "expected one of %s",
					  s->defs[i].name, names);
	}
	return 0;
}

int settings_take_flag_for_all(struct settings *s, const char *word, struct pf_err *err)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789_";

	if (!*word || word[strspn(word, plain)])
		return pf_err_set(
			err, -EINVAL,
			"flags for all: expected the name of a flag, lower-case "
			"letters, digits and underscores, found '%.80s'",
			word);
	for (unsigned i = 0; i < s->n_flags; i++)
		if (!strcmp(s->flags_for_all[i], word))
			return 0;
	if (s->n_flags == MAX_FLAGS)
		return pf_err_set(err, -EINVAL, "flags for all: more than %d", MAX_FLAGS);
	s->flags_for_all[s->n_flags] = strdup(word);
	return s->flags_for_all[s->n_flags++] ? 0 : no_memory(err);
}
