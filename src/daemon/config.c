/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: JSON objects whose keys are the names of options. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"

enum { MAX_STEPS = 4 /* plugins[0].options.KEY */ };

/* A step from a value to its member KEY, or if that is NULL to its item of number INDEX. */
struct step {
	const char *key;
	size_t index;
};

/* A file that is being read. */
struct taking {
	struct options *o;
	const char *file; /* for messages */
	const char *text;
	size_t len;
	struct pf_err *err;
	struct step path
		[MAX_STEPS]; /* to the value that is taken; an error leaves it there */
	unsigned n_steps;
	const struct option_row *row;   /* that is set */
	struct plugin_settings *plugin; /* whose settings are taken; NULL: all plugins' */
};

/* Take VALUE, the member KEY of an object (NULL: an item of a list). */
typedef int taker(struct taking *k, const char *key, struct json_object *value);

/* --- places --------------------------------------------------------------------------------- */

/* Put "FILE:LINE:COLUMN" and PATH before the sentence of the error R, which is about byte OFF;
 * columns are characters.  Returns R. */
static int locate_byte(const struct taking *k, size_t off, const char *path, int r)
{
	unsigned line = 1, column = 1;

	for (size_t i = 0; i < off && i < k->len; i++) {
		column = k->text[i] == '\n' ? 1 : column + ((k->text[i] & 0xc0) != 0x80);
		line += k->text[i] == '\n';
	}
	return pf_err_wrap(k->err, r, "%s:%u:%u%s", k->file, line, column, path);
}

/* Go STEP into the value at RD's place, whose text is valid: RD steps to the member's value.
 * The offset where the member begins. */
static size_t go(struct pf_json_reader *rd, const struct step *step)
{
	bool first = true;
	size_t start = 0;

	(void)pf_json_expect(rd, step->key ? '{' : '[', "");
	for (size_t i = 0; pf_json_next(rd, step->key ? '}' : ']', &first) > 0; i++) {
		pf_autobuf struct pf_buf key = PF_BUF_INIT;
		struct json_object *skipped;

		start = (size_t)(rd->p - rd->start);
		if (step->key && pf_json_string(rd, &key, "") == 0)
			(void)pf_json_expect(rd, ':', "");
		if (step->key ? !strcmp(key.data, step->key) : i == step->index)
			break;
		(void)pf_json_value(rd, &skipped);
		json_object_put(skipped);
	}
	return start;
}

/* Put "FILE:LINE:COLUMN: plugins[0].name: " before the sentence of the error R, which is about
 * the path.  Returns R. */
static int locate(const struct taking *k, int r)
{
	struct pf_json_reader rd = { k->text, k->text, k->text + k->len, SIZE_MAX, NULL };
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	size_t off = 0;

	for (unsigned i = 0; i < k->n_steps; i++) {
		const struct step *step = &k->path[i];

		off = go(&rd, step);
		if (step->key)
			pf_buf_printf(&path, "%s%.80s", i ? "." : ": ", step->key);
		else
			pf_buf_printf(&path, "[%zu]", step->index);
	}
	return locate_byte(k, off, path.data ? path.data : "", r);
}

/* WANT was expected, FOUND was found.  -EINVAL. */
static int refuse(const struct taking *k, const char *want, struct json_object *found)
{
	return pf_err_set(k->err, -EINVAL, "expected %s, found %.80s", want,
			  pf_json_text(found));
}

/* --- values --------------------------------------------------------------------------------- */

/* The JSON types of each type of option, and what a sentence calls them. */
static const struct {
	unsigned types;
	const char *want;
} forms[] = {
	[OPTION_FLAG] = { 1 << json_type_boolean, "true or false" },
	[OPTION_NUMBER] = { 1 << json_type_int, "an integer" },
	[OPTION_SIZE] = { 1 << json_type_int | 1 << json_type_string,
			  "bytes: a number, or a string as \"4G\"" },
	[OPTION_TEXT] = { 1 << json_type_int | 1 << json_type_string,
			  "a string or an integer" },
	[OPTION_CHOICE] = { 1 << json_type_string, "a string" },
	[OPTION_WORD] = { 1 << json_type_string, "a string" },
	[OPTION_PATH] = { 1 << json_type_string, "an absolute path" },
};

/* The text of VALUE for an option of TYPE, borrowed: not empty, no NUL, and a path is absolute,
 * as a file has no working directory.  NULL: it has another form, which *ERR says; WANT was
 * expected (NULL: what TYPE needs). */
static const char *text_of(const struct taking *k, struct json_object *value,
			   enum option_type type, const char *want)
{
	bool is = forms[type].types >> json_object_get_type(value) & 1;
	const char *text = is ? json_object_get_string(value) : "";

	if (*text && (type != OPTION_PATH || *text == '/'))
		return text;
	refuse(k, want ? want : forms[type].want, value);
	return NULL;
}

/* Take each member of the object, or item of the list, VALUE. */
static int take_each(struct taking *k, struct json_object *value, taker *take)
{
	struct step *step = &k->path[k->n_steps++];
	int r = 0;

	if (json_object_is_type(value, json_type_array)) {
		for (size_t i = 0; i < json_object_array_length(value) && r == 0; i++) {
			*step = (struct step){ .index = i };
			r = take(k, NULL, json_object_array_get_idx(value, i));
		}
	} else {
		json_object_object_foreach(value, key, member) {
			if (r < 0)
				break;
			*step = (struct step){ .key = key };
			r = take(k, key, member);
		}
	}
	k->n_steps -= r == 0;
	return r;
}

static int take_members(struct taking *k, struct json_object *value, taker *take)
{
	return json_object_is_type(value, json_type_object)
		       ? take_each(k, value, take)
		       : refuse(k, "an object", value);
}

/* Set the row to VALUE; with a plugin for that alone, which the rows of the sandbox can. */
static int take_value(struct taking *k, const char *key, struct json_object *value)
{
	const char *text = text_of(k, value, k->row->type, NULL);

	(void)key;
	if (!text)
		return -EINVAL;
	return k->plugin ? settings_sandbox(&k->o->settings, k->plugin, k->row->name,
					    text, k->err)
			 : options_set(k->o, k->row, text, k->err);
}

/* Set the row to VALUE, or to the items of that list. */
static int take_values(struct taking *k, struct json_object *value)
{
	bool list =
		k->row->where & IS_LIST && json_object_is_type(value, json_type_array);

	return list ? take_each(k, value, take_value) : take_value(k, NULL, value);
}

static int take_flag(struct taking *k, const char *key, struct json_object *value)
{
	return settings_compile_option(&k->o->settings, true, key, value, k->err);
}

static int take_compile_option(struct taking *k, const char *key,
			       struct json_object *value)
{
	if (!strcmp(key, "env_option_overrides"))
		return take_members(k, value, take_flag);
	return settings_compile_option(&k->o->settings, false, key, value, k->err);
}

/* --- plugins -------------------------------------------------------------------------------- */

static int take_create_option(struct taking *k, const char *key,
			      struct json_object *value)
{
	return settings_option(&k->o->settings, k->plugin, key, value, k->err);
}

static int take_variable(struct taking *k, const char *key, struct json_object *value)
{
	return settings_variable(k->plugin, key, value, k->err);
}

static int take_plugin_path(const struct taking *k, struct json_object *value)
{
	const char *path = text_of(k, value, OPTION_PATH, NULL);

	if (!path)
		return -EINVAL;
	free(k->plugin->path);
	k->plugin->path = strdup(path);
	return k->plugin->path ? 0 : no_memory(k->err);
}

static int take_log_level(const struct taking *k, struct json_object *value)
{
	int level = json_object_is_type(value, json_type_int) ? json_object_get_int(value)
							      : -1;

	if (level < 0 || level > MAX_LOG_LEVEL)
		return refuse(k, "an integer from 0 to 4", value);
	k->plugin->log_level = (unsigned)level;
	k->plugin->log_at = k->o->settings.source;
	return 0;
}

static int take_plugin_key(struct taking *k, const char *key, struct json_object *value)
{
	k->row = options_find(key, strlen(key), IN_CONFIG);
	if (!strcmp(key, "name"))
		return 0;
	if (!strcmp(key, "path"))
		return take_plugin_path(k, value);
	if (!strcmp(key, "options"))
		return take_members(k, value, take_create_option);
	if (!strcmp(key, "env"))
		return take_members(k, value, take_variable);
	if (!strcmp(key, "log_level"))
		return take_log_level(k, value);
	if (k->row && k->row->where & OF_PLUGIN)
		return take_values(k, value);
	return pf_err_set(k->err, -EINVAL,
			  "expected name, path, options, env, log_level, sandbox, "
			  "sandbox_read, sandbox_write or sandbox_uid, found the "
			  "key \"%.80s\"",
			  key);
}

/* Choose the plugin of the word VALUE: NAME, /PATH or NAME=/PATH. */
static int take_plugin_word(struct taking *k, struct json_object *value)
{
	static const char want[] = "a plugin's name, absolute path or NAME=PATH";
	const char *word = text_of(k, value, OPTION_WORD, want);
	char name[PF_PLUGIN_NAME + 1]; /* longer than one may be */
	size_t len;
	int r;

	if (!word)
		return -EINVAL;
	len = strcspn(word, "=/");
	snprintf(name, sizeof(name), "%.*s", (int)len, word);
	if (strchr(word, ',') || (word[len] == '=' && word[len + 1] != '/') ||
	    (word[len] == '/' && len))
		return refuse(k, want, value);
	r = *word == '/' ? 0 : pf_plugin_name_check(name, k->err);
	return r < 0 ? r : options_set(k->o, k->row, word, k->err);
}

/* Choose the plugin VALUE: a word, or an object with its name and settings. */
static int take_plugin(struct taking *k, const char *key, struct json_object *value)
{
	const struct option_row *row = k->row;
	struct json_object *name = NULL;
	const char *text;
	int r;

	(void)key;
	if (json_object_is_type(value, json_type_string))
		return take_plugin_word(k, value);
	if (!json_object_is_type(value, json_type_object))
		return refuse(k, "a plugin: a string, or an object with a name", value);
	if (!json_object_object_get_ex(value, "name", &name))
		return refuse(k, "an object with a name", value);
	k->path[k->n_steps++] = (struct step){ .key = "name" };
	text = text_of(k, name, OPTION_WORD, "a plugin's name");
	r = text ? settings_of(&k->o->settings, text, &k->plugin, k->err) : -EINVAL;
	if (r < 0)
		return r;
	k->n_steps--;
	r = options_set(k->o, row, text, k->err);
	if (r == 0)
		r = take_each(k, value, take_plugin_key);
	k->plugin = NULL;
	k->row = row;
	return r;
}

/* --- FFI libraries -------------------------------------------------------------------------- */

/* Check the target KEY, whose VALUE is the name of its handler's symbol, or its address. */
static int check_symbol(struct taking *k, const char *key, struct json_object *value)
{
	(void)key;
	return text_of(k, value, OPTION_WORD, "a symbol of the library") ? 0 : -EINVAL;
}

static int check_library_key(struct taking *k, const char *key, struct json_object *value)
{
	/* In a file of libraries, which has no options, it may be relative to that. */
	if (!strcmp(key, "path"))
		return text_of(k, value, k->o ? OPTION_PATH : OPTION_WORD, NULL)
			       ? 0
			       : -EINVAL;
	if (!strcmp(key, "plugin") || !strcmp(key, "platform") || !strcmp(key, "sha256"))
		return text_of(k, value, OPTION_WORD, NULL) ? 0 : -EINVAL;
	if (!strcmp(key, "targets"))
		return take_members(k, value, check_symbol);
	if (!strcmp(key, "traits"))
		return json_object_is_type(value, json_type_int) &&
				       json_object_get_int64(value) >= 0 &&
				       json_object_get_int64(value) <= UINT32_MAX
			       ? 0
			       : refuse(k, "a number of 32 bits", value);
	return pf_err_set(k->err, -EINVAL,
			  "expected path, plugin, targets, sha256, platform or traits, "
			  "found the key \"%.80s\"",
			  key);
}

/* Take the library VALUE: its path, or an object with that. */
static int take_library(struct taking *k, const char *key, struct json_object *value)
{
	struct json_object *path = NULL;
	int r;

	(void)key;
	if (json_object_is_type(value, json_type_string))
		return text_of(k, value, OPTION_PATH, NULL)
			       ? libraries_take_word(k->o, json_object_get_string(value),
						     k->err)
			       : -EINVAL;
	if (!json_object_object_get_ex(value, "path", &path))
		return refuse(k, "an absolute path, or an object with a path", value);
	r = take_each(k, value, check_library_key);
	return r < 0 ? r : libraries_take(k->o, value, k->err);
}

/* --- the whole ------------------------------------------------------------------------------ */

static int take_row(struct taking *k, struct json_object *value)
{
	int r;

	if (k->row->where & REPLACES)
		words_clear((struct words *)((char *)k->o + k->row->off));
	if (k->row->type == OPTION_PLUGINS)
		r = json_object_is_type(value, json_type_array)
			    ? take_each(k, value, take_plugin)
			    : take_plugin(k, NULL, value);
	else if (k->row->type == OPTION_FFI_LIBRARIES)
		r = json_object_is_type(value, json_type_array)
			    ? take_each(k, value, take_library)
			    : refuse(k, "a list of libraries", value);
	else if (k->row->type == OPTION_COMPILE_OPTIONS)
		r = take_members(k, value, take_compile_option);
	else if (k->row->type == OPTION_DEBUG_OPTIONS)
		r = take_members(k, value, take_flag);
	else
		r = take_values(k, value);
	/* Each compile option may be valid while their combination is not. */
	return r < 0 ? r : settings_check_compile_options(&k->o->settings, k->err);
}

/* The row of KEY, or NULL; "plugins" is another name of "plugin". */
static const struct option_row *find_row(const char *key)
{
	return options_find(key, !strcmp(key, "plugins") ? strlen("plugin") : strlen(key),
			    IN_CONFIG);
}

static int check_key(struct taking *k, const char *key, struct json_object *value)
{
	struct pf_similar similar = { .word = key };
	pf_autobuf struct pf_buf names = PF_BUF_INIT;
	char hint[PF_SIMILAR_TEXT];

	(void)value;
	if (find_row(key))
		return 0;
	for (const struct option_row *row = option_rows; row->name; row++) {
		if (!(row->where & IN_CONFIG))
			continue;
		pf_similar_try(&similar, row->name);
		pf_buf_printf(&names, "%s%s", names.len ? ", " : "", row->name);
	}
	if (similar.best)
		return pf_err_set(k->err, -EINVAL, "unknown key%s",
				  pf_similar_hint(&similar, hint));
	return pf_err_set(k->err, -EINVAL, "unknown key; expected one of %s",
			  names.data ? names.data : "");
}

/* Take the members of JSON in the order of the options, whatever that of the file is. */
static int take_rows(struct taking *k, struct json_object *json)
{
	int r = 0;

	for (const struct option_row *row = option_rows; row->name; row++) {
		bool taken = false;

		json_object_object_foreach(json, key, value) {
			if (r < 0 || find_row(key) != row)
				continue;
			k->path[0] = (struct step){ .key = key };
			k->n_steps = 1;
			k->row = row;
			r = taken ? pf_err_set(k->err, -EINVAL, "it is given twice")
				  : take_row(k, value);
			taken = true;
		}
	}
	return r;
}

int config_take(struct options *o, const char *file, const char *text, size_t len,
		struct pf_err *err)
{
	struct taking k = { .o = o, .file = file, .text = text, .len = len, .err = err };
	struct pf_json_reader rd = { text, text, text + len, SIZE_MAX, NULL };
	struct json_object *json;
	size_t off;
	int r;

	if (len > PF_CONFIG_MAX)
		return pf_err_set(err, -EINVAL, "%s: expected at most %d bytes", file,
				  PF_CONFIG_MAX);
	/* Blanks alone set nothing. */
	if (pf_json_expect(&rd, '{', "") < 0 && rd.p == rd.end)
		return 0;
	r = pf_json_parse_at(text, len, &json, &off, err);
	if (r < 0)
		return locate_byte(&k, off, "", r);
	r = take_each(&k, json, check_key);
	if (r == 0)
		r = take_rows(&k, json);
	if (r < 0)
		r = locate(&k, r);
	json_object_put(json);
	return r;
}

/* --- files ---------------------------------------------------------------------------------- */

#ifndef SYSTEM_CONFIG /* tests have another */
#define SYSTEM_CONFIG "/etc/pjrtfs.json"
#endif

/* May the file that ST is about be taken?  A configuration names NAMED, "plugins", which are code that
 * runs as the user. */
static int check_owner(const struct stat *st, const char *file, const char *named,
		       struct pf_err *err)
{
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return pf_err_set(err, -EPERM,
				  "the configuration %s can name %s to run: expected "
				  "root or user %u for its owner, found user %u",
				  file, named, (unsigned)geteuid(), (unsigned)st->st_uid);
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return pf_err_set(err, -EPERM,
				  "the configuration %s can name %s to run: expected "
				  "that only its owner may write to it, found mode %04o; "
				  "chmod go-w mends that",
				  file, named, (unsigned)st->st_mode & 07777);
	return 0;
}

/* Append what FILE has, PF_CONFIG_MAX bytes and perhaps one more, to OUT; *ST is about it.
 * -errno. */
static int read_all(const char *file, struct stat *st, struct pf_buf *out)
{
	pf_autoclose int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0 || fstat(fd, st))
		return -errno;
	return pf_read_all(fd, PF_CONFIG_MAX + 1, out);
}

static int read_file(struct options *o, const char *file, bool must, struct pf_err *err)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct stat st;
	int r = read_all(file, &st, &text);

	/* A file that the user may not read is skipped. */
	if (!must && (r == -ENOENT || r == -ENOTDIR || r == -EACCES))
		return 0;
	if (r < 0)
		return pf_err_set(err, r, "read the configuration %s: %s", file,
				  strerror(-r));
	/* An empty file names no plugins: anyone may write to it, as to /dev/null. */
	r = text.len ? check_owner(&st, file, "plugins", err) : 0;
	return r < 0 ? r : config_take(o, file, text.data, text.len, err);
}

/* Make the path of LIBRARY, an object of FILE, absolute: it may be relative to FILE.  It is for PLUGIN, if that is
 * not NULL. */
static void settle(struct json_object *library, const char *file, const char *plugin)
{
	const char *path = pf_json_get_string(library, "path");
	pf_autobuf struct pf_buf whole = PF_BUF_INIT;

	if (*path && *path != '/') {
		pf_buf_printf(&whole, "%.*s%s", (int)(strrchr(file, '/') + 1 - file),
			      file, path);
		pf_json_add_string(library, "path", whole.data);
	}
	if (plugin)
		pf_json_add_string(library, "plugin", plugin);
}

/* Check VALUE, one of a list of libraries in a file of their own. */
static int check_listed(struct taking *k, const char *key, struct json_object *value)
{
	(void)key;
	return json_object_object_get_ex(value, "path", NULL)
		       ? take_each(k, value, check_library_key)
		       : refuse(k, "an object with a path", value);
}

/* Check the member KEY of such a file: a list of libraries is all that there is. */
static int check_list(struct taking *k, const char *key, struct json_object *value)
{
	if (strcmp(key, "ffi_libraries") != 0)
		return pf_err_set(k->err, -EINVAL,
				  "expected the key ffi_libraries alone");
	return json_object_is_type(value, json_type_array)
		       ? take_each(k, value, check_listed)
		       : refuse(k, "a list of libraries", value);
}

int config_read_libraries(const char *file, const char *plugin, struct json_object **ret,
			  struct pf_err *err)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct taking k = { .file = file, .err = err };
	struct json_object *json = NULL;
	struct stat st;
	size_t off;
	int r = read_all(file, &st, &text);

	*ret = NULL;
	if (r < 0)
		return pf_err_set(err, r, "read the FFI libraries of %s: %s", file,
				  strerror(-r));
	r = check_owner(&st, file, "libraries", err);
	if (r == 0 && text.len > PF_CONFIG_MAX)
		r = pf_err_set(err, -EINVAL, "%s: expected at most %d bytes", file,
			       PF_CONFIG_MAX);
	if (r < 0)
		return r;
	k.text = text.data ? text.data : "";
	k.len = text.len;
	r = pf_json_parse_at(k.text, k.len, &json, &off, err);
	if (r < 0)
		return locate_byte(&k, off, "", r);
	r = take_each(&k, json, check_list);
	if (r < 0)
		r = locate(&k, r);
	*ret = json_object_get(json_object_object_get(json, "ffi_libraries"));
	for (size_t i = 0; r == 0 && *ret && i < json_object_array_length(*ret); i++)
		settle(json_object_array_get_idx(*ret, i), file, plugin);
	json_object_put(json);
	return r;
}

int config_read_debug_options(struct options *o, struct pf_err *err)
{
	const char *file =
		o->xla_debug_options ? o->xla_debug_options : getenv("XLA_DEBUG_OPTIONS");
	pf_autobuf struct pf_buf bytes = PF_BUF_INIT;
	struct stat st;
	int r;

	if (!file || !*file)
		return 0;
	r = read_all(file, &st, &bytes);
	if (r < 0)
		pf_err_set(err, r, "%s", strerror(-r));
	else if (bytes.len > PF_CONFIG_MAX)
		r = pf_err_set(err, -E2BIG, "expected at most %d bytes", PF_CONFIG_MAX);
	else
		r = settings_debug_options(&o->settings, &bytes, err);
	return r < 0 ? pf_err_wrap(err, r, "XLA's debug options %s", file) : 0;
}

int config_read(struct options *o, const char *file, struct pf_err *err)
{
	pf_autofree char *own =
		options_user_path("XDG_CONFIG_HOME", ".config", "pjrtfs.json");
	int r;

	o->settings.source = FROM_SYSTEM_FILE;
	if (file)
		return read_file(o, file, true, err);
	r = read_file(o, SYSTEM_CONFIG, false, err);
	o->settings.source = FROM_USER_FILE;
	if (r == 0 && own)
		r = read_file(o, own, false, err);
	return r;
}
