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

static const char flags_key[] = "env_option_overrides", count_key[] = "cpu_device_count";

static int no_memory(struct pf_err *err)
{
	return pf_err_set(err, -ENOMEM, "no memory for the options");
}

/* Put a copy of VALUE, or null, under KEY of *O, which is made if it is NULL. */
static int put(struct json_object **o, const char *key, struct json_object *value,
	       struct pf_err *err)
{
	struct json_object *copy = pf_json_copy(value);

	if (!*o)
		*o = json_object_new_object();
	if (*o && (copy || !value) && json_object_object_add(*o, key, copy) == 0)
		return 0;
	json_object_put(copy);
	return no_memory(err);
}

/* A copy of O, or an empty object; NULL: no memory. */
static struct json_object *copy_of(struct json_object *o)
{
	return o ? pf_json_copy(o) : json_object_new_object();
}

/* --- default compile options ---------------------------------------------------------------- */

/* Would a plugin with any number of devices take O? */
static int check_compile_options(struct json_object *o, struct pf_err *err)
{
	const struct pf_options_target target = { .plugin = "", .n_devices = INT_MAX };
	pf_autobuf struct pf_buf bytes = PF_BUF_INIT;
	const char *plugin;
	size_t len;
	int r = pf_options_plugin(o, &plugin, &len, err);

	return r < 0 ? r : pf_options_encode(o, &target, &bytes, err);
}

static int set_compile_option(struct settings *s, const char *key,
			      struct json_object *value, struct pf_err *err)
{
	struct json_object *alone = NULL;
	int r = put(&alone, key, value, err);

	if (r == 0)
		r = check_compile_options(alone, err);
	if (r == 0)
		r = put(&s->compile_options, key, value, err);
	json_object_put(alone);
	return r;
}

int settings_compile_option(struct settings *s, bool flag, const char *key,
			    struct json_object *value, struct pf_err *err)
{
	struct json_object *flags = NULL, *more;
	int r = 0;

	if (!flag && (strcmp(key, flags_key) != 0 ||
		      !json_object_is_type(value, json_type_object)))
		return set_compile_option(s, key, value, err);
	json_object_object_get_ex(s->compile_options, flags_key, &flags);
	more = copy_of(flags);
	if (flag) {
		r = put(&more, key, value, err);
	} else {
		json_object_object_foreach(value, name, setting)
			r = r < 0 ? r : put(&more, name, setting, err);
	}
	if (r == 0)
		r = set_compile_option(s, flags_key, more, err);
	json_object_put(more);
	return r;
}

int settings_check_compile_options(const struct settings *s, struct pf_err *err)
{
	int r = s->compile_options ? check_compile_options(s->compile_options, err) : 0;

	return r < 0 ? pf_err_wrap(err, r, "default compile options") : 0;
}

/* --- plugins -------------------------------------------------------------------------------- */

void settings_init(struct settings *s)
{
	*s = (struct settings){ .all.log_level = -1 };
}

static void release(struct plugin_settings *p)
{
	free(p->name);
	free(p->path);
	json_object_put(p->options);
	json_object_put(p->env);
	json_object_put(p->sandbox);
}

void settings_release(struct settings *s)
{
	release(&s->all);
	for (unsigned i = 0; i < s->n_plugins; i++)
		release(&s->plugins[i]);
	json_object_put(s->compile_options);
	settings_init(s);
}

const struct plugin_settings *settings_find(const struct settings *s, const char *name)
{
	for (unsigned i = 0; i < s->n_plugins; i++)
		if (!strcmp(s->plugins[i].name, name))
			return &s->plugins[i];
	return NULL;
}

struct plugin_settings *settings_of(struct settings *s, const char *name,
				    struct pf_err *err)
{
	const struct plugin_settings *found = settings_find(s, name);
	struct plugin_settings *p =
		&s->plugins[found ? found - s->plugins : (ptrdiff_t)s->n_plugins];

	if (!found && !pf_plugin_name_valid(name)) {
		pf_err_set(err, -EINVAL,
			   "plugin name %.80s: expected up to 32 letters, digits, '.', "
			   "'_', '-'",
			   name);
		return NULL;
	}
	if (!found && s->n_plugins == MAX_SETTINGS) {
		pf_err_set(err, -EINVAL, "options for more than %d plugins",
			   MAX_SETTINGS);
		return NULL;
	}
	if (!found) {
		*p = (struct plugin_settings){ .name = strdup(name), .log_level = -1 };
		if (!p->name) {
			no_memory(err);
			return NULL;
		}
		s->n_plugins++;
	}
	p->set_at = s->source;
	return p;
}

int settings_option(struct settings *s, struct plugin_settings *p, const char *key,
		    struct json_object *value, struct pf_err *err)
{
	int r = pf_create_option_check(key, value, err);

	if (r == 0 && p->options && !json_object_object_get_ex(p->options, key, NULL) &&
	    json_object_object_length(p->options) >= PF_CREATE_OPTIONS_MAX)
		r = pf_err_set(err, -EINVAL, "option %s: plugin %s has %d others already",
			       key, p->name, PF_CREATE_OPTIONS_MAX);
	if (r == 0)
		r = put(&p->options, key, value, err);
	if (r == 0 && !strcmp(key, count_key))
		p->count_at = s->source;
	return r;
}

int settings_variable(struct plugin_settings *p, const char *key,
		      struct json_object *value, struct pf_err *err)
{
	const char *text = value ? json_object_get_string(value) : "";

	if (!*key || strchr(key, '='))
		return pf_err_set(err, -EINVAL,
				  "variable %.80s: expected a name without '='", key);
	if (value && (!json_object_is_type(value, json_type_string) ||
		      strlen(text) != (size_t)json_object_get_string_len(value)))
		return pf_err_set(err, -EINVAL,
				  "variable %.80s: expected a string, or null for none, "
				  "found %.80s",
				  key, pf_json_text(value));
	if (strlen(key) + strlen(text) > MAX_VARIABLE)
		return pf_err_set(err, -EINVAL,
				  "variable %.80s: expected at most %d bytes", key,
				  MAX_VARIABLE);
	if (p->env && !json_object_object_get_ex(p->env, key, NULL) &&
	    json_object_object_length(p->env) >= MAX_VARIABLES)
		return pf_err_set(err, -EINVAL,
				  "variable %.80s: plugin %s has %d others already", key,
				  p->name, MAX_VARIABLES);
	return put(&p->env, key, value, err);
}

void settings_log_level(struct settings *s, struct plugin_settings *p, int level)
{
	p->log_level = level;
	p->log_at = s->source;
}

/* Add a copy of PATH to the list KEY of *O. */
static int add_path(struct json_object **o, const char *key, struct json_object *path,
		    struct pf_err *err)
{
	struct json_object *list = NULL, *copy;

	if (!*o)
		*o = json_object_new_object();
	if (*o && !json_object_object_get_ex(*o, key, &list)) {
		list = json_object_new_array();
		json_object_object_add(*o, key, list);
	}
	copy = list ? pf_json_copy(path) : NULL;
	if (copy && json_object_array_add(list, copy) == 0)
		return 0;
	json_object_put(copy);
	return no_memory(err);
}

int settings_sandbox(struct settings *s, struct plugin_settings *p, const char *key,
		     const char *text, struct pf_err *err)
{
	bool mode = !strcmp(key, "sandbox"), uid = !strcmp(key, "sandbox_uid");
	struct json_object *value;
	unsigned long user;
	char *end;
	int r;

	user = strtoul(text, &end, 10);
	if (mode && strcmp(text, "strict") && strcmp(text, "device") &&
	    strcmp(text, "off"))
		return pf_err_set(err, -EINVAL,
				  "expected strict, device or off, found \"%.80s\"",
				  text);
	if (uid &&
	    (!isdigit((unsigned char)*text) || *end || !user || user >= UINT32_MAX))
		return pf_err_set(err, -EINVAL,
				  "expected the number of a user other than root, "
				  "found %.80s",
				  text);
	if (!mode && !uid && *text != '/')
		return pf_err_set(err, -EINVAL,
				  "expected an absolute path, found \"%.80s\"", text);
	value = uid ? json_object_new_int64((int64_t)user) : json_object_new_string(text);
	if (mode)
		p->sandbox_at = s->source;
	if (mode || uid)
		r = value ? put(&p->sandbox, key, value, err) : no_memory(err);
	else
		r = add_path(&p->sandbox, key, value, err);
	json_object_put(value);
	return r;
}

/* --- the plugins that are loaded ------------------------------------------------------------ */

/* P is NULL for a plugin without settings of its own. */

static struct json_object *options_of(const struct settings *s,
				      const struct plugin_settings *p, bool is_default)
{
	struct json_object *o = copy_of(p ? p->options : NULL), *count = NULL;

	/* --devices is the default plugin's; of one source the plugin's own option counts. */
	if (o && is_default && (!p || p->count_at < s->all.count_at) &&
	    json_object_object_get_ex(s->all.options, count_key, &count))
		json_object_object_add(o, count_key, pf_json_copy(count));
	return o;
}

static struct json_object *env_of(const struct settings *s,
				  const struct plugin_settings *p)
{
	static const char variable[] = "TF_CPP_MIN_LOG_LEVEL";
	struct json_object *o = copy_of(p ? p->env : NULL);
	bool own = p && p->log_level >= 0 && p->log_at >= s->all.log_at;
	int level = own ? p->log_level : s->all.log_level;
	char text[12];

	if (!o || level < 0 || json_object_object_get_ex(o, variable, NULL))
		return o;
	snprintf(text, sizeof(text), "%d", level);
	json_object_object_add(o, variable, json_object_new_string(text));
	return o;
}

/* Lists of paths add up. */
static struct json_object *sandbox_of(const struct settings *s,
				      const struct plugin_settings *p)
{
	struct json_object *o = copy_of(s->all.sandbox);
	int r = o ? 0 : -ENOMEM;

	if (!p || !p->sandbox || r < 0)
		return o;
	json_object_object_foreach(p->sandbox, key, value) {
		bool list = json_object_is_type(value, json_type_array);

		for (size_t i = 0; list && r == 0 && i < json_object_array_length(value);
		     i++)
			r = add_path(&o, key, json_object_array_get_idx(value, i), NULL);
		if (r == 0 && !list &&
		    (strcmp(key, "sandbox") != 0 || p->sandbox_at >= s->all.sandbox_at))
			r = put(&o, key, value, NULL);
	}
	if (r == 0)
		return o;
	json_object_put(o);
	return NULL;
}

void candidate_release(struct pf_candidate *p)
{
	free(p->name);
	free(p->path);
	free(p->refused);
	json_object_put(p->options);
	json_object_put(p->env);
	json_object_put(p->sandbox);
}

int settings_attach(const struct settings *s, struct pf_candidate *plugins, unsigned n,
		    bool first_is_default, struct pf_err *err)
{
	for (unsigned i = 0; i < n; i++) {
		const struct plugin_settings *p = settings_find(s, plugins[i].name);

		plugins[i].options = options_of(s, p, first_is_default && i == 0);
		plugins[i].env = env_of(s, p);
		plugins[i].sandbox = sandbox_of(s, p);
		if (!plugins[i].options || !plugins[i].env || !plugins[i].sandbox)
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
	for (unsigned i = 0; i < s->n_plugins; i++) {
		unsigned k = 0;

		while (k < n && strcmp(plugins[k].name, s->plugins[i].name) != 0)
			k++;
		if (k == n && s->plugins[i].set_at == FROM_COMMAND_LINE)
			return pf_err_set(err, -EINVAL,
					  "options for plugin %s, which is not loaded: "
					  "expected one of %s",
					  s->plugins[i].name, names);
	}
	return 0;
}
