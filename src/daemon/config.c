/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"

static const char blanks[] = " \t\r\n";

/* --- places ------------------------------------------------------------------------------- */

/* Which line and column byte OFF is in, both from 1 on. */
static void locate(const struct pf_config_text *t, size_t off, unsigned *line,
		   unsigned *column)
{
	*line = *column = 1;
	for (size_t i = 0; i < off && i < t->len; i++) {
		if (t->text[i] == '\n') {
			++*line;
			*column = 1;
		} else if (((unsigned char)t->text[i] & 0xc0) != 0x80) {
			++*column;
		}
	}
}

__attribute__((__format__(__printf__, 4, 5))) static int error_at(
	const struct pf_config_text *t, size_t off, struct pf_err *err, const char *fmt,
	...)
{
	unsigned line, column;
	char text[PF_ERR_TEXT];
	va_list args;

	locate(t, off, &line, &column);
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return pf_err_set(err, -EINVAL, "%s:%u:%u: %s", t->file, line, column, text);
}

/* The walkers below are for text that the scanner has found good. */

static size_t skip_blanks(const struct pf_config_text *t, size_t i)
{
	while (i < t->len && strchr(blanks, t->text[i]))
		i++;
	return i;
}

static size_t skip_string(const struct pf_config_text *t, size_t i)
{
	for (i++; i < t->len && t->text[i] != '"'; i++)
		if (t->text[i] == '\\')
			i++;
	return i < t->len ? i + 1 : t->len;
}

static size_t skip_value(const struct pf_config_text *t, size_t i)
{
	unsigned depth = 0;

	while (i < t->len) {
		char c = t->text[i];

		if (c == '"') {
			i = skip_string(t, i);
			if (!depth)
				return i;
			continue;
		}
		if (!depth && strchr(",]} \t\r\n", c))
			return i;
		if (c == '{' || c == '[')
			depth++;
		if ((c == '}' || c == ']') && !--depth)
			return i + 1;
		i++;
	}
	return i;
}

/* Is the string from I to END, with its quotes, KEY? */
static bool is_key(const struct pf_config_text *t, size_t i, size_t end, const char *key)
{
	pf_autofree char *copy = strndup(t->text + i, end - i);
	struct json_object *string = copy ? json_tokener_parse(copy) : NULL;
	bool is = string && !strcmp(json_object_get_string(string), key);

	json_object_put(string);
	return is;
}

/* Where AT begins: its key in *KEY (an item: the item), its value in *VALUE. */
static bool find(const struct pf_config_text *t, const struct pf_config_at *at,
		 size_t *key, size_t *value)
{
	size_t i, n = 0;

	if (!at) {
		*key = *value = skip_blanks(t, 0);
		return true;
	}
	if (!find(t, at->up, key, value))
		return false;
	i = skip_blanks(t, *value + 1);
	for (; i < t->len && t->text[i] != '}' && t->text[i] != ']'; n++) {
		size_t start = i;
		bool is = n == at->index;

		if (at->key) {
			i = skip_string(t, i);
			is = is_key(t, start, i, at->key);
			i = skip_blanks(t, skip_blanks(t, i) + 1); /* the colon */
		}
		if (is) {
			*key = start;
			*value = i;
			return true;
		}
		i = skip_blanks(t, skip_value(t, i));
		if (i < t->len && t->text[i] == ',')
			i = skip_blanks(t, i + 1);
	}
	return false;
}

static void print_path(const struct pf_config_at *at, struct pf_buf *out)
{
	if (!at)
		return;
	print_path(at->up, out);
	if (at->key)
		pf_buf_printf(out, "%s%.80s", at->up ? "." : "", at->key);
	else
		pf_buf_printf(out, "[%zu]", at->index);
}

int pf_config_text_error(const struct pf_config_text *t, const struct pf_config_at *at,
			 struct pf_err *err, int code, const char *fmt, ...)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	char text[PF_ERR_TEXT];
	size_t key = 0, value;
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	print_path(at, &path);
	(void)find(t, at, &key, &value);
	(void)error_at(t, key, err, "%s%s%s", path.data ? path.data : "",
		       path.data ? ": " : "", text);
	if (err)
		err->code = code;
	return code;
}

int pf_config_text_refuse(const struct pf_config_text *t, const struct pf_config_at *at,
			  const char *want, struct json_object *found, struct pf_err *err)
{
	return pf_config_text_error(
		t, at, err, -EINVAL, "expected %s, found %.80s", want,
		json_object_to_json_string_ext(found,
					       JSON_C_TO_STRING_PLAIN |
						       JSON_C_TO_STRING_NOSLASHESCAPE));
}

/* --- reading -------------------------------------------------------------------------------- */

/* The byte at I of the text as a sentence shows it. */
static const char *shown(const struct pf_config_text *t, size_t i, char dst[16])
{
	unsigned char c;

	if (i >= t->len)
		return "the end of the file";
	c = (unsigned char)t->text[i];
	if (c == '\n' || c == '\r')
		return "the end of the line";
	if (c >= 0x20 && c < 0x7f)
		snprintf(dst, 16, "%c", c);
	else
		snprintf(dst, 16, "the byte 0x%02x", c);
	return dst;
}

static int check_encoding(const struct pf_config_text *t, struct pf_err *err)
{
	uint32_t c;
	char byte[16];

	for (size_t i = 0, n; i < t->len; i += n) {
		n = pf_utf8_char(t->text + i, t->len - i, &c);
		if (!n || !c)
			return error_at(t, i, err, "expected UTF-8 text, found %s",
					shown(t, i, byte));
	}
	return 0;
}

int pf_config_text_parse(struct pf_config_text *t, struct pf_err *err)
{
	struct pf_err why = PF_ERR_INIT;
	size_t off;
	int r;

	t->json = NULL;
	if (t->len > PF_CONFIG_MAX)
		return pf_err_set(err, -EINVAL, "%s: expected at most %d bytes", t->file,
				  PF_CONFIG_MAX);
	r = check_encoding(t, err);
	if (r == 0 && skip_blanks(t, 0) == t->len) {
		t->json = json_object_new_object();
		return t->json ? 0 : pf_err_set(err, -ENOMEM, "no memory");
	}
	if (r == 0)
		r = pf_json_parse_at(t->text, t->len, &t->json, &off, &why);
	return why.code ? error_at(t, off, err, "%s", why.text) : r;
}

void pf_config_text_release(struct pf_config_text *t)
{
	json_object_put(t->json);
	t->json = NULL;
}

/* The keys of a configuration file, and what each one says. */

/* What R and the sentence say is AT.  Returns R. */
static int taking_at_fault(struct taking *k, const struct pf_config_at *at, int r)
{
	char text[PF_ERR_TEXT];

	if (r >= 0 || !k->err)
		return r;
	snprintf(text, sizeof(text), "%s", k->err->text);
	return pf_config_text_error(k->t, at, k->err, r, "%s", text);
}

/* WANT was expected AT, FOUND was found.  -EINVAL. */
static int taking_refuse(struct taking *k, const struct pf_config_at *at,
			 const char *want, struct json_object *found)
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

/* A string without NUL, of one byte or more; borrowed.  NULL: WANT was expected. */
static const char *taking_string(struct taking *k, const struct pf_config_at *at,
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

/* An absolute path, as above: nobody can tell what another would be relative to. */
static const char *taking_path(struct taking *k, const struct pf_config_at *at,
			       struct json_object *value)
{
	const char *text = taking_string(k, at, value, "an absolute path");

	if (!text || *text == '/')
		return text;
	taking_refuse(k, at, "an absolute path", value);
	return NULL;
}

/* --- lists of strings --------------------------------------------------------------------------- */

/* Add a copy of WORD to LIST, which has *N of MAX_PLUGINS.  -EINVAL, -ENOMEM. */
static int taking_keep(struct taking *k, const struct pf_config_at *at, char **list,
		       unsigned *n, const char *word)
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

/* What a configuration file says of plugins. */

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

#ifndef SYSTEM_CONFIG /* tests have another */
#define SYSTEM_CONFIG "/etc/pjrtfs.json"
#endif

/* All of FD, up to one byte more than may be. */
static int read_all(int fd, const char *file, struct pf_buf *out, struct pf_err *err)
{
	ssize_t n = 1;

	while (n > 0 && out->len <= PF_CONFIG_MAX) {
		char *dst = pf_buf_reserve(out, 65536);

		if (!dst)
			return pf_err_set(err, -ENOMEM, "no memory to read %s", file);
		n = read(fd, dst, 65536);
		if (n < 0 && errno != EINTR)
			return pf_err_set(err, -errno, "read the configuration %s: %s",
					  file, strerror(errno));
		dst[n > 0 ? n : 0] = '\0';
		out->len += n > 0 ? (size_t)n : 0;
		n = n < 0 ? 1 : n;
	}
	return 0;
}

/* A configuration names plugins, which are code that runs as the user. */
static int check_owner(int fd, const char *file, struct pf_err *err)
{
	struct stat st;

	if (fstat(fd, &st))
		return pf_err_set(err, -errno, "read the configuration %s: %s", file,
				  strerror(errno));
	if (S_ISDIR(st.st_mode))
		return pf_err_set(err, -EISDIR,
				  "read the configuration %s: expected a file, found a "
				  "directory",
				  file);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return pf_err_set(
			err, -EPERM,
			"the configuration %s can name plugins to run: expected "
			"root or user %u for its owner, found user %u",
			file, (unsigned)geteuid(), (unsigned)st.st_uid);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return pf_err_set(
			err, -EPERM,
			"the configuration %s can name plugins to run: expected "
			"that only its owner may write to it, found mode %04o; "
			"chmod go-w mends that",
			file, (unsigned)st.st_mode & 07777);
	return 0;
}

static int read_file(struct options *o, const char *file, bool must, struct pf_err *err)
{
	pf_autoclose int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_config_text t = { .file = file };
	int r;

	/* A file that the user may not read does not speak to that user. */
	if (fd < 0 && !must && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
		return 0;
	if (fd < 0)
		return pf_err_set(err, -errno, "read the configuration %s: %s", file,
				  strerror(errno));
	r = read_all(fd, file, &text, err);
	/* What is empty names nothing: /dev/null is everybody's. */
	if (text.len || r == -EISDIR)
		r = check_owner(fd, file, err);
	if (r < 0)
		return r;
	t.text = text.data ? text.data : "";
	t.len = text.len;
	r = pf_config_text_parse(&t, err);
	if (r == 0)
		r = config_take(o, &t, err);
	pf_config_text_release(&t);
	return r;
}

/* The user's file, the caller's; NULL: there is no home, or no memory. */
static char *user_file(void)
{
	const char *xdg = getenv("XDG_CONFIG_HOME");
	pf_autofree char *home = NULL;
	char *path;

	if (xdg && *xdg == '/')
		return asprintf(&path, "%s/pjrtfs.json", xdg) < 0 ? NULL : path;
	home = pf_home_dir();
	if (!home)
		return NULL;
	return asprintf(&path, "%s/.config/pjrtfs.json", home) < 0 ? NULL : path;
}

int config_read(struct options *o, const char *file, struct pf_err *err)
{
	pf_autofree char *own = file ? NULL : user_file();
	int r;

	o->settings.layer = 1;
	if (file)
		return read_file(o, file, true, err);
	r = read_file(o, SYSTEM_CONFIG, false, err);
	o->settings.layer = 2;
	if (r == 0 && own)
		r = read_file(o, own, false, err);
	return r;
}
