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

/* A file that is being read. */
struct taking {
	struct options *o;
	const char *file; /* for messages */
	const char *text;
	size_t len;
	struct pf_err *err;
};

/* A place in it: the key, or if that is NULL the item of number INDEX, of the value at UP; NULL
 * is the whole text. */
struct place {
	const struct place *up;
	const char *key;
	size_t index;
};

/* --- places --------------------------------------------------------------------------------- */

/* Put "FILE:LINE:COLUMN: PATH: " before the sentence if R is an error about byte OFF; columns are
 * characters.  Returns R. */
static int locate_byte(const struct taking *k, size_t off, const char *path, int r)
{
	unsigned line = 1, column = 1;

	for (size_t i = 0; i < off && i < k->len; i++) {
		column = k->text[i] == '\n' ? 1 : column + ((k->text[i] & 0xc0) != 0x80);
		line += k->text[i] == '\n';
	}
	return r < 0 ? pf_err_wrap(k->err, r, "%s:%u:%u%s%s", k->file, line, column,
				   *path ? ": " : "", path)
		     : r;
}

/* The walkers below are for text that parse has accepted. */

static size_t skip_blanks(const struct taking *k, size_t i)
{
	while (i < k->len && k->text[i] && strchr(" \t\r\n", k->text[i]))
		i++;
	return i;
}

/* Behind the value, or the key, that begins at I. */
static size_t skip_value(const struct taking *k, size_t i)
{
	unsigned depth = 0;
	bool quoted = false;

	do {
		char c = k->text[i++];

		if (quoted && c == '\\')
			i++;
		else if (c == '"')
			quoted = !quoted;
		else if (!quoted && (c == '{' || c == '['))
			depth++;
		else if (!quoted && (c == '}' || c == ']'))
			depth--;
	} while (i < k->len && (quoted || depth || !strchr(":,]} \t\r\n", k->text[i])));
	return i;
}

/* Is the string from I to END, with its quotes, KEY? */
static bool is_key(const struct taking *k, size_t i, size_t end, const char *key)
{
	pf_autofree char *copy = strndup(k->text + i, end - i);
	struct json_object *string = copy ? json_tokener_parse(copy) : NULL;
	bool is = string && !strcmp(json_object_get_string(string), key);

	json_object_put(string);
	return is;
}

/* Where AT, which is in the text, begins; its value (of an item: the item) begins at *VALUE.  The
 * path of AT is appended to PATH. */
static size_t find(const struct taking *k, const struct place *at, size_t *value,
		   struct pf_buf *path)
{
	size_t i = skip_blanks(k, 0);

	if (!at)
		return *value = i;
	find(k, at->up, &i, path);
	if (at->key)
		pf_buf_printf(path, "%s%.80s", at->up ? "." : "", at->key);
	else
		pf_buf_printf(path, "[%zu]", at->index);
	i = skip_blanks(k, i + 1);
	for (size_t n = 0; i < k->len; n++) {
		size_t start = i;
		bool is = n == at->index;

		if (at->key) {
			i = skip_value(k, i);
			is = is_key(k, start, i, at->key);
			i = skip_blanks(k, skip_blanks(k, i) + 1); /* the colon */
		}
		*value = i;
		if (is)
			return start;
		i = skip_blanks(k, skip_value(k, i));
		i = skip_blanks(k, i + 1); /* the comma */
	}
	return i;
}

/* Put "FILE:LINE:COLUMN: plugins[0].name: " before the sentence if R is an error about AT.
 * Returns R. */
static int locate(const struct taking *k, const struct place *at, int r)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	size_t start, value;

	if (r >= 0)
		return r;
	start = find(k, at, &value, &path);
	return locate_byte(k, start, path.data ? path.data : "", r);
}

/* WANT was expected at AT, FOUND was found.  -EINVAL. */
static int refuse(const struct taking *k, const struct place *at, const char *want,
		  struct json_object *found)
{
	const char *text =
		json_object_to_json_string_ext(found,
					       JSON_C_TO_STRING_PLAIN |
						       JSON_C_TO_STRING_NOSLASHESCAPE);

	return locate(k, at,
		      pf_err_set(k->err, -EINVAL, "expected %s, found %.80s", want,
				 text));
}

/* The object that the text is, in *RET, the caller's; blanks alone are an empty one. */
static int parse(const struct taking *k, struct json_object **ret)
{
	size_t off;
	int r;

	if (k->len > PF_CONFIG_MAX)
		return pf_err_set(k->err, -EINVAL, "%s: expected at most %d bytes",
				  k->file, PF_CONFIG_MAX);
	if (skip_blanks(k, 0) == k->len)
		return pf_json_parse("{}", 2, ret, k->err);
	r = pf_json_parse_at(k->text, k->len, ret, &off, k->err);
	return locate_byte(k, off, "", r);
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
	[OPTION_WORD] = { 1 << json_type_string, "a string" },
	[OPTION_PATH] = { 1 << json_type_string, "an absolute path" },
};

/* The text of VALUE for an option of TYPE, borrowed: not empty, no NUL, and a path is absolute,
 * as a file has no working directory.  NULL: it has another form, which *ERR says; WANT was
 * expected (NULL: what TYPE needs). */
static const char *text_of(const struct taking *k, const struct place *at,
			   struct json_object *value, enum option_type type,
			   const char *want)
{
	bool is = forms[type].types >> json_object_get_type(value) & 1;
	const char *text = is ? json_object_get_string(value) : "";
	bool cut = json_object_is_type(value, json_type_string) &&
		   strlen(text) != (size_t)json_object_get_string_len(value);

	if (*text && !cut && (type != OPTION_PATH || *text == '/'))
		return text;
	refuse(k, at, want ? want : forms[type].want, value);
	return NULL;
}

/* Set ROW to VALUE or to the items of that list; with P for this plugin alone, which the rows of
 * the sandbox can. */
static int take_value(const struct taking *k, const struct place *at,
		      const struct option_row *row, struct plugin_settings *p,
		      struct json_object *value)
{
	bool list = row->where & IS_LIST && json_object_is_type(value, json_type_array);
	size_t n = list ? json_object_array_length(value) : 1;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		const struct place item = { .up = at, .index = i };
		const struct place *place = list ? &item : at;
		struct json_object *one =
			list ? json_object_array_get_idx(value, i) : value;
		const char *text = text_of(k, place, one, row->type, NULL);

		if (!text)
			return -EINVAL;
		r = p ? settings_sandbox(&k->o->settings, p, row->name, text, k->err)
		      : options_set(k->o, row, text, k->err);
		r = locate(k, place, r);
	}
	return r;
}

enum entries { CREATE_OPTIONS, VARIABLES, COMPILE_OPTIONS, FLAGS };

/* Set each key of the object VALUE: P's create options or variables, or the default compile
 * options or their flags. */
static int take_entries(const struct taking *k, const struct place *at,
			enum entries which, struct plugin_settings *p,
			struct json_object *value)
{
	struct settings *s = &k->o->settings;
	int r = 0;

	if (!json_object_is_type(value, json_type_object))
		return refuse(k, at, "an object", value);
	json_object_object_foreach(value, key, entry) {
		const struct place place = { .up = at, .key = key };

		if (r < 0)
			break;
		if (which == COMPILE_OPTIONS && !strcmp(key, "env_option_overrides")) {
			r = take_entries(k, &place, FLAGS, NULL, entry);
			continue;
		}
		if (which == CREATE_OPTIONS)
			r = settings_option(s, p, key, entry, k->err);
		else if (which == VARIABLES)
			r = settings_variable(p, key, entry, k->err);
		else
			r = settings_compile_option(s, which == FLAGS, key, entry,
						    k->err);
		r = locate(k, &place, r);
	}
	return r;
}

/* --- plugins -------------------------------------------------------------------------------- */

static int take_plugin_key(const struct taking *k, const struct place *at,
			   struct plugin_settings *p, struct json_object *value)
{
	const struct option_row *row = options_find(at->key, strlen(at->key), IN_CONFIG);
	const char *path;

	if (!strcmp(at->key, "name"))
		return 0;
	if (!strcmp(at->key, "path")) {
		path = text_of(k, at, value, OPTION_PATH, NULL);
		if (!path)
			return -EINVAL;
		free(p->path);
		p->path = strdup(path);
		return p->path ? 0 : pf_err_set(k->err, -ENOMEM, "no memory for a path");
	}
	if (!strcmp(at->key, "options"))
		return take_entries(k, at, CREATE_OPTIONS, p, value);
	if (!strcmp(at->key, "env"))
		return take_entries(k, at, VARIABLES, p, value);
	if (!strcmp(at->key, "log_level")) {
		int level = json_object_is_type(value, json_type_int)
				    ? json_object_get_int(value)
				    : -1;

		if (level < 0 || level > MAX_LOG_LEVEL)
			return refuse(k, at, "an integer from 0 to 4", value);
		settings_log_level(&k->o->settings, p, level);
		return 0;
	}
	if (row && !strncmp(row->name, "sandbox", strlen("sandbox")))
		return take_value(k, at, row, p, value);
	return locate(k, at,
		      pf_err_set(k->err, -EINVAL,
				 "expected name, path, options, env, log_level, sandbox, "
				 "sandbox_read, sandbox_write or sandbox_uid, found the "
				 "key \"%.80s\"",
				 at->key));
}

/* May WORD be "NAME", "/PATH" or "NAME=/PATH"? */
static bool is_plugin_word(const char *word)
{
	size_t len = strcspn(word, "=/");
	pf_autofree char *name = strndup(word, len);

	if (!name || strchr(word, ',') || (len && !pf_plugin_name_valid(name)))
		return false;
	return word[len] == '=' ? len && word[len + 1] == '/' : !word[len] == !!len;
}

/* Choose the plugin VALUE: a word, or an object with its name and settings. */
static int take_plugin(const struct taking *k, const struct place *at,
		       const struct option_row *row, struct json_object *value)
{
	static const char want[] = "a plugin's name, absolute path or NAME=PATH";
	const struct place name_at = { .up = at, .key = "name" };
	struct plugin_settings *p;
	struct json_object *name = NULL;
	const char *text;
	int r;

	if (json_object_is_type(value, json_type_string)) {
		text = text_of(k, at, value, OPTION_WORD, want);
		if (!text || !is_plugin_word(text))
			return refuse(k, at, want, value);
		return locate(k, at, options_set(k->o, row, text, k->err));
	}
	if (!json_object_is_type(value, json_type_object))
		return refuse(k, at, "a plugin: a string, or an object with a name",
			      value);
	if (!json_object_object_get_ex(value, "name", &name))
		return refuse(k, at, "an object with a name", value);
	text = text_of(k, &name_at, name, OPTION_WORD, "a plugin's name");
	if (!text)
		return -EINVAL;
	p = settings_of(&k->o->settings, text, k->err);
	if (!p)
		return locate(k, &name_at, k->err->code);
	r = locate(k, at, options_set(k->o, row, text, k->err));
	json_object_object_foreach(value, key, entry) {
		const struct place place = { .up = at, .key = key };

		r = r < 0 ? r : take_plugin_key(k, &place, p, entry);
	}
	return r;
}

/* No two plugins of the list may have one name: the last of them is at AT. */
static int check_last_name(const struct taking *k, const struct place *at)
{
	const struct words *w = &k->o->plugin_words[0];
	const char *last = w->at[w->n - 1];
	size_t len = strcspn(last, "=/");

	for (unsigned i = 0; last[len] != '/' && i + 1 < w->n; i++)
		if (strcspn(w->at[i], "=/") == len && !memcmp(w->at[i], last, len))
			return locate(k, at,
				      pf_err_set(k->err, -EINVAL,
						 "a second plugin is called %.*s",
						 (int)len, last));
	return 0;
}

static int take_plugins(const struct taking *k, const struct place *at,
			const struct option_row *row, struct json_object *value)
{
	int r = 0;

	if (!json_object_is_type(value, json_type_array))
		return take_plugin(k, at, row, value);
	for (size_t i = 0; i < json_object_array_length(value) && r == 0; i++) {
		const struct place item = { .up = at, .index = i };

		r = take_plugin(k, &item, row, json_object_array_get_idx(value, i));
		if (r == 0)
			r = check_last_name(k, &item);
	}
	return r;
}

/* --- the whole ------------------------------------------------------------------------------ */

static int take_row(const struct taking *k, const char *key, const struct option_row *row,
		    struct json_object *value)
{
	const struct place at = { .key = key };
	int r;

	if (row->where & REPLACES)
		words_clear((struct words *)((char *)k->o + row->off));
	if (row->type == OPTION_PLUGINS)
		r = take_plugins(k, &at, row, value);
	else if (row->type == OPTION_COMPILE_OPTIONS)
		r = take_entries(k, &at, COMPILE_OPTIONS, NULL, value);
	else if (row->type == OPTION_DEBUG_OPTIONS)
		r = take_entries(k, &at, FLAGS, NULL, value);
	else
		r = take_value(k, &at, row, NULL, value);
	/* Each compile option may be valid while their combination is not. */
	if (r == 0)
		r = locate(k, &at,
			   settings_check_compile_options(&k->o->settings, k->err));
	return r;
}

/* The row of KEY, or NULL; "plugins" is another name of "plugin". */
static const struct option_row *find_row(const char *key)
{
	return options_find(key, !strcmp(key, "plugins") ? strlen("plugin") : strlen(key),
			    IN_CONFIG);
}

static int refuse_key(const struct taking *k, const char *key)
{
	struct pf_similar similar = { .word = key };
	char names[PF_ERR_TEXT] = "", hint[PF_SIMILAR_TEXT];
	const char *comma = "";

	for (const struct option_row *row = option_rows; row->name; row++) {
		if (!(row->where & IN_CONFIG))
			continue;
		pf_similar_try(&similar, row->name);
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
			 comma, row->name);
		comma = ", ";
	}
	return locate(k, &(struct place){ .key = key },
		      pf_err_set(k->err, -EINVAL, "unknown key%s; expected one of %s",
				 pf_similar_hint(&similar, hint), names));
}

int config_take(struct options *o, const char *file, const char *text, size_t len,
		struct pf_err *err)
{
	struct pf_err own = PF_ERR_INIT;
	const struct taking k = {
		.o = o, .file = file, .text = text, .len = len, .err = err ? err : &own
	};
	struct json_object *json = NULL;
	int r = parse(&k, &json);

	if (r < 0)
		return r;
	json_object_object_foreach(json, name, ignored) {
		(void)ignored;
		if (r == 0 && !find_row(name))
			r = refuse_key(&k, name);
	}
	for (const struct option_row *row = option_rows; row->name; row++) {
		bool taken = false;

		json_object_object_foreach(json, key, value) {
			if (r < 0 || find_row(key) != row)
				continue;
			if (taken)
				pf_err_set(k.err, r = -EINVAL, "it is given twice");
			r = taken ? locate(&k, &(struct place){ .key = key }, r)
				  : take_row(&k, key, row, value);
			taken = true;
		}
	}
	json_object_put(json);
	return r;
}

/* --- files ---------------------------------------------------------------------------------- */

#ifndef SYSTEM_CONFIG /* tests have another */
#define SYSTEM_CONFIG "/etc/pjrtfs.json"
#endif

/* May the file that ST is about be taken?  A configuration names plugins, which are code that
 * runs as the user. */
static int check_owner(const struct stat *st, const char *file, struct pf_err *err)
{
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return pf_err_set(
			err, -EPERM,
			"the configuration %s can name plugins to run: expected "
			"root or user %u for its owner, found user %u",
			file, (unsigned)geteuid(), (unsigned)st->st_uid);
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return pf_err_set(
			err, -EPERM,
			"the configuration %s can name plugins to run: expected "
			"that only its owner may write to it, found mode %04o; "
			"chmod go-w mends that",
			file, (unsigned)st->st_mode & 07777);
	return 0;
}

static int read_file(struct options *o, const char *file, bool must, struct pf_err *err)
{
	pf_autoclose int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct stat st;
	ssize_t n = 1;
	char *dst;
	int r;

	/* A file that the user may not read is skipped. */
	if (fd < 0 && !must && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
		return 0;
	while (fd >= 0 && n > 0 && text.len <= PF_CONFIG_MAX) {
		dst = pf_buf_reserve(&text, 65536);
		if (!dst)
			return pf_err_set(err, -ENOMEM, "no memory to read %s", file);
		n = TEMP_FAILURE_RETRY(read(fd, dst, 65536));
		text.len += n > 0 ? (size_t)n : 0;
	}
	if (fd < 0 || n < 0 || fstat(fd, &st))
		return pf_err_set(err, -errno, "read the configuration %s: %s", file,
				  strerror(errno));
	/* An empty file names no plugins: anyone may write to it, as to /dev/null. */
	r = text.len ? check_owner(&st, file, err) : 0;
	return r < 0 ? r : config_take(o, file, text.data, text.len, err);
}

/* The path of the user's file, which the caller frees; NULL: no home, or no memory. */
static char *user_file(void)
{
	const char *xdg = getenv("XDG_CONFIG_HOME");
	bool own = xdg && *xdg == '/';
	pf_autofree char *home = own ? strdup(xdg) : pf_home_dir();
	char *path;

	if (!home || asprintf(&path, "%s%s/pjrtfs.json", home, own ? "" : "/.config") < 0)
		return NULL;
	return path;
}

int config_read(struct options *o, const char *file, struct pf_err *err)
{
	pf_autofree char *own = file ? NULL : user_file();
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
