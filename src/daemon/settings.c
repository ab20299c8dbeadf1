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

static const char flags_key[] = "env_option_overrides";

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

	if (flag) {
		json_object_object_get_ex(s->compile_options, flags_key, &flags);
		more = copy_of(flags);
		r = put(&more, key, value, err);
		r = r < 0 ? r : set_compile_option(s, flags_key, more, err);
		json_object_put(more);
		return r;
	}
	if (strcmp(key, flags_key) != 0 || !json_object_is_type(value, json_type_object))
		return set_compile_option(s, key, value, err);
	json_object_object_foreach(value, name, setting)
		r = r < 0 ? r : settings_compile_option(s, true, name, setting, err);
	return r;
}

int settings_debug_options(struct settings *s, const struct pf_buf *bytes,
			   struct pf_err *err)
{
	struct json_object *flags, *all;
	int r = pf_options_debug(bytes->data, bytes->len, &flags, err);

	if (r < 0)
		return r;
	all = pf_options_merge(s->compile_options, flags);
	json_object_put(flags);
	if (!all)
		return no_memory(err);
	json_object_put(s->compile_options);
	s->compile_options = all;
	return 0;
}

int settings_check_compile_options(const struct settings *s, struct pf_err *err)
{
	int r = s->compile_options ? check_compile_options(s->compile_options, err) : 0;

	return r < 0 ? pf_err_wrap(err, r, "default compile options") : 0;
}

/* --- plugins -------------------------------------------------------------------------------- */

void settings_init(struct settings *s)
{
	*s = (struct settings){ .all.log_level = NO_LOG_LEVEL };
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

int settings_of(struct settings *s, const char *name, struct plugin_settings **ret,
		struct pf_err *err)
{
	const struct plugin_settings *found = settings_find(s, name);
	struct plugin_settings *p =
		&s->plugins[found ? found - s->plugins : (ptrdiff_t)s->n_plugins];
	int r = pf_plugin_name_check(name, err);

	if (r < 0)
		return r;
	if (!found && s->n_plugins == MAX_SETTINGS)
		return pf_err_set(err, -EINVAL, "options for more than %d plugins",
				  MAX_SETTINGS);
	if (!found) {
		*p = (struct plugin_settings){ .name = strdup(name),
					       .log_level = NO_LOG_LEVEL };
		if (!p->name)
			return no_memory(err);
		s->n_plugins++;
	}
	p->set_at = s->source;
	*ret = p;
	return 0;
}

/* Put VALUE under KEY of *O, which has up to MAX of what P can have: WHAT. */
static int add(struct json_object **o, const struct plugin_settings *p, int max,
	       const char *what, const char *key, struct json_object *value,
	       struct pf_err *err)
{
	if (*o && !json_object_object_get_ex(*o, key, NULL) &&
	    json_object_object_length(*o) >= max)
		return pf_err_set(err, -EINVAL,
				  "%s %.80s: plugin %s has %d others already", what, key,
				  p->name, max);
	return put(o, key, value, err);
}

int settings_option(struct settings *s, struct plugin_settings *p, const char *key,
		    struct json_object *value, struct pf_err *err)
{
	int r = pf_create_option_check(key, value, err);

	if (r == 0)
		r = add(&p->options, p, PF_CREATE_OPTIONS_MAX, "option", key, value, err);
	if (r == 0 && !strcmp(key, SETTINGS_COUNT))
		p->count_at = s->source;
	return r;
}

int settings_variable(struct plugin_settings *p, const char *key,
		      struct json_object *value, struct pf_err *err)
{
	if (!*key || strchr(key, '='))
		return pf_err_set(err, -EINVAL,
				  "variable %.80s: expected a name without '='", key);
	if (value && !json_object_is_type(value, json_type_string))
		return pf_err_set(err, -EINVAL,
				  "variable %.80s: expected a string, or null for none, "
				  "found %.80s",
				  key, pf_json_text(value));
	if (strlen(key) + (size_t)json_object_get_string_len(value) > MAX_VARIABLE)
		return pf_err_set(err, -EINVAL,
				  "variable %.80s: expected at most %d bytes", key,
				  MAX_VARIABLE);
	return add(&p->env, p, MAX_VARIABLES, "variable", key, value, err);
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
	const char *want = NULL;
	char *end;
	unsigned long user = strtoul(text, &end, 10);
	int r;

	if (mode && strcmp(text, "strict") && strcmp(text, "device") &&
	    strcmp(text, "off"))
		want = "strict, device or off";
	else if (uid &&
		 (!isdigit((unsigned char)*text) || *end || !user || user >= UINT32_MAX))
		want = "the number of a user other than root";
	else if (!mode && !uid && *text != '/')
		want = "an absolute path";
	if (want)
		return pf_err_set(err, -EINVAL, "expected %s, found \"%.80s\"", want,
				  text);
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
	struct json_object *o = copy_of(p ? p->options : NULL);

	/* --devices is the default plugin's; of one source the plugin's own option counts. */
	if (o && is_default && s->devices && (!p || p->count_at < s->devices_at))
		pf_json_add_int(o, SETTINGS_COUNT, s->devices);
	return o;
}

static struct json_object *env_of(const struct settings *s,
				  const struct plugin_settings *p)
{
	static const char variable[] = "TF_CPP_MIN_LOG_LEVEL";
	struct json_object *o = copy_of(p ? p->env : NULL);
	bool own = p && p->log_level != NO_LOG_LEVEL && p->log_at >= s->all.log_at;
	unsigned level = own ? p->log_level : s->all.log_level;
	char text[12];

	snprintf(text, sizeof(text), "%u", level);
	if (o && level != NO_LOG_LEVEL && !json_object_object_get_ex(o, variable, NULL))
		pf_json_add_string(o, variable, text);
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
	free(p->note);
	free(p->found);
	json_object_put(p->options);
	json_object_put(p->env);
	json_object_put(p->sandbox);
	json_object_put(p->group);
}

struct pf_candidate *candidate_find(const struct options *o, const char *name)
{
	for (unsigned i = 0; i < o->n_plugins; i++)
		if (!strcmp(o->plugins[i].name, name))
			return (struct pf_candidate *)(uintptr_t)&o->plugins[i];
	return NULL;
}

int settings_attach(const struct settings *s, struct pf_candidate *c, bool is_default,
		    struct pf_err *err)
{
	const struct plugin_settings *p = settings_find(s, c->name);

	c->options = options_of(s, p, is_default);
	c->env = env_of(s, p);
	c->sandbox = sandbox_of(s, p);
	if (!c->options || !c->env || !c->sandbox)
		return no_memory(err);
	c->compile_only = p && p->compile_only;
	vendors_add_files(c);
	return vendors_set(c, err);
}

int settings_replace_options(struct pf_candidate *c, struct json_object *options,
			     struct pf_err *err)
{
	json_object_put(c->options);
	c->options = pf_json_copy(options);
	return c->options ? vendors_set(c, err) : no_memory(err);
}

/* --- FFI libraries ----------------------------------------------------------------- */

int libraries_take(struct options *o, struct json_object *library, struct pf_err *err)
{
	struct json_object **list = &o->ffi_libraries[o->settings.source];
	struct json_object *copy = pf_json_copy(library);

	if (*list && json_object_array_length(*list) >= PF_LIBRARIES_MAX) {
		json_object_put(copy);
		return pf_err_set(err, -EINVAL, "more than %d FFI libraries",
				  PF_LIBRARIES_MAX);
	}
	if (!*list)
		*list = json_object_new_array();
	if (*list && copy && json_object_array_add(*list, copy) == 0)
		return 0;
	json_object_put(copy);
	return no_memory(err);
}

/* What follows the path in WORD, TARGET=SYMBOL[,TARGET=SYMBOL...], or NULL.  A path may have ':' and '=': a map
 * has no '/'. */
static const char *find_map(const char *word)
{
	const char *colon = strrchr(word, ':'), *equals = strrchr(word, '=');

	return colon && equals > colon && !strchr(colon, '/') ? colon + 1 : NULL;
}

/* Make *RET, the caller's, of MAP. */
static int read_map(const char *map, struct json_object **ret, struct pf_err *err)
{
	*ret = json_object_new_object();
	for (const char *at = map; *ret;) {
		size_t len = strcspn(at, ","), n = strcspn(at, "=");
		pf_autofree char *target = n < len ? strndup(at, n) : NULL;
		pf_autofree char *symbol =
			n < len ? strndup(at + n + 1, len - n - 1) : NULL;

		if (!n || n + 1 >= len)
			return pf_err_set(err, -EINVAL,
					  "expected TARGET=SYMBOL, found \"%.*s\"",
					  len < 80 ? (int)len : 80, at);
		if (!target || !symbol)
			break;
		if (json_object_object_get_ex(*ret, target, NULL))
			return pf_err_set(err, -EINVAL, "target %.80s is there twice",
					  target);
		pf_json_add_string(*ret, target, symbol);
		if (!at[len])
			return 0;
		at += len + 1;
	}
	return no_memory(err);
}

int libraries_take_word(struct options *o, const char *word, struct pf_err *err)
{
	const char *map = find_map(word);
	pf_autofree char *before =
		map ? strndup(word, (size_t)(map - 1 - word)) : strdup(word);
	size_t len = before ? strcspn(before, ":/") : 0;
	bool named = before && before[len] == ':';
	const char *file = before ? before + (named ? len + 1 : 0) : "";
	pf_autofree char *plugin = before ? strndup(before, len) : NULL;
	pf_autofree char *path = pf_absolute_path(file);
	struct json_object *library = json_object_new_object(), *targets = NULL;
	int r = plugin && path ? 0 : pf_err_set(err, -ENOMEM, "no memory for a path");

	if (r == 0 && !*file)
		r = pf_err_set(err, -EINVAL,
			       "expected [PLUGIN:]PATH[:TARGET=SYMBOL,...], found "
			       "\"%.80s\"",
			       word);
	if (r == 0 && named)
		r = pf_plugin_name_check(plugin, err);
	if (r == 0 && map)
		r = read_map(map, &targets, err);
	if (r == 0) {
		pf_json_add_string(library, "path", path);
		if (named)
			pf_json_add_string(library, "plugin", plugin);
		if (targets)
			pf_json_add_copy(library, "targets", targets);
		r = libraries_take(o, library, err);
	}
	json_object_put(targets);
	json_object_put(library);
	return r;
}

struct json_object *libraries_list(const struct options *o)
{
	struct json_object *list = json_object_new_array();

	for (int source = FROM_COMMAND_LINE; source >= 0; source--) {
		struct json_object *some = o->ffi_libraries[source];

		for (size_t i = 0; some && i < json_object_array_length(some); i++)
			pf_json_append(list,
				       pf_json_copy(json_object_array_get_idx(some, i)));
	}
	return list;
}
