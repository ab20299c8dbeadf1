/* SPDX-License-Identifier: Apache-2.0 */
/* The options: setters, printers, and the table with the text of --help. */
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/discover.h"
#include "pjrtfs/json.h"
#include "pjrtfs/plugin_options.h"
#include "pjrtfs/quota_word.h"

enum { MAX_SECONDS = 7 * 24 * 3600, MAX_FUSE = 64, MAX_FLAGS = 256, MAX_QUOTAS = 4096 };

/* --- words and numbers ---------------------------------------------------------------------- */

int words_add(struct words *w, const char *word, unsigned max, const char *what,
	      struct pf_err *err)
{
	char **at = w->n < max ? reallocarray(w->at, w->n + 2, sizeof(*at)) : NULL;

	if (w->n == max)
		return pf_err_set(err, -EINVAL, "more than %u %s", max, what);
	if (at) {
		w->at = at;
		at[w->n] = strdup(word);
		at[w->n + 1] = NULL;
	}
	if (!at || !at[w->n])
		return no_memory(err);
	w->n++;
	return 0;
}

bool words_has(const struct words *w, const char *word)
{
	for (unsigned i = 0; i < w->n; i++)
		if (!strcmp(w->at[i], word))
			return true;
	return false;
}

void words_remove(struct words *w, const char *word)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < w->n; i++)
		if (strcmp(w->at[i], word))
			w->at[kept++] = w->at[i];
		else
			free(w->at[i]);
	w->n = kept;
	if (w->at)
		w->at[kept] = NULL;
}

void words_clear(struct words *w)
{
	while (w->n)
		free(w->at[--w->n]);
	free(w->at);
	w->at = NULL;
}

static void *at_off(const struct options *o, const struct option_row *row)
{
	return (char *)(uintptr_t)o + row->off;
}

const char *options_name_end(const char *word)
{
	const char *end = word + strcspn(word, "=/");

	return *end == '=' ? end : NULL;
}

char *options_plugin_name(const char *word)
{
	const char *end = options_name_end(word);

	return end                 ? strndup(word, (size_t)(end - word))
	       : strchr(word, '/') ? pf_plugin_name_of(word)
				   : strdup(word);
}

/* --- the mount ------------------------------------------------------------------------------ */

/* Is WORD of -o for mount(8), systemd or the kernel's VFS?  libfuse does not know these. */
static bool is_for_mount(const char *word)
{
	static const char *const words[] = {
		"defaults",   "auto",     "noauto",     "user",        "nouser",
		"users",      "nousers",  "owner",      "group",       "_netdev",
		"nofail",     "relatime", "norelatime", "strictatime", "nostrictatime",
		"nodiratime", "diratime", "lazytime",   "nolazytime",  "loud",
		"silent",     "iversion", "noiversion", NULL,
	};
	static const char *const beginnings[] = { "x-",       "comment=", "user=",
						  "uhelper=", "helper=",  NULL };

	for (const char *const *w = words; *w; w++)
		if (!strcmp(*w, word))
			return true;
	for (const char *const *b = beginnings; *b; b++)
		if (!strncmp(word, *b, strlen(*b)))
			return true;
	return false;
}

static int set_mount_option(struct options *o, const struct option_row *row,
			    const char *word, struct pf_err *err)
{
	(void)row;
	if (!*word || is_for_mount(word))
		return 0;
	if (!strcmp(word, "remount"))
		return pf_err_set(
			err, -EINVAL,
			"remount: a mount's options cannot be changed; unmount it, "
			"and mount it with the others");
	if (strchr(word, ','))
		return pf_err_set(err, -EINVAL, "expected one, found %.80s with a comma",
				  word);
	return words_add(&o->fuse, word, MAX_FUSE, "mount options", err);
}

static int set_mode(struct options *o, const struct option_row *row, const char *text,
		    struct pf_err *err)
{
	char *end;
	unsigned long mode = strtoul(text, &end, 8);

	(void)row;
	if (*text < '0' || *text > '7' || *end || mode > 07777 ||
	    (mode & S_IRWXU) != S_IRWXU)
		return pf_err_set(err, -EINVAL,
				  "expected an octal mode with all rights for the "
				  "owner, as in 1777 or 2775, found %s",
				  text);
	o->mode = (mode_t)mode;
	return 0;
}

static void dump_mode(const struct options *o, const struct option_row *row,
		      struct json_object *out)
{
	char mode[16];

	snprintf(mode, sizeof(mode), "%04o", (unsigned)o->mode);
	if (o->mode)
		pf_json_add_string(out, row->name, mode);
}

static int set_group(struct options *o, const struct option_row *row, const char *text,
		     struct pf_err *err)
{
	const struct group *group;
	char *end;
	unsigned long gid;

	(void)row;
	/* The processes of a plugin's group meet in a store; no group of users has such a name. */
	if (strstr(text, "://"))
		return group_take_url(o, text, err);
	group = getgrnam(text);
	gid = strtoul(text, &end, 10);
	if (group)
		gid = group->gr_gid;
	else if (*text < '0' || *text > '9' || *end || gid >= UINT32_MAX)
		return pf_err_set(err, -EINVAL,
				  "expected a group's name or number, found %s", text);
	o->has_group = true;
	o->group = (gid_t)gid;
	return 0;
}

/* The group of users, else the store: a configuration has one of them; the other one is an option. */
static void dump_group(const struct options *o, const struct option_row *row,
		       struct json_object *out)
{
	if (o->has_group)
		pf_json_add_int(out, row->name, o->group);
	else if (o->group_url)
		pf_json_add_string(out, row->name, o->group_url);
}

/* --- the cache ------------------------------------------------------------------------------ */

char *options_user_path(const char *variable, const char *dir, const char *name)
{
	const char *xdg = getenv(variable);
	bool own = xdg && *xdg == '/';
	pf_autofree char *home = own ? NULL : pf_home_dir();
	char *path;

	if (!own && !home)
		return NULL;
	if (asprintf(&path, "%s/%s%s%s", own ? xdg : home, own ? "" : dir, own ? "" : "/",
		     name) < 0)
		return NULL;
	return path;
}

char *options_log_file(const struct options *o)
{
	pf_autofree char *name = NULL;

	if (o->log_file)
		return pf_absolute_path(o->log_file);
	if (access("/dev/log", W_OK) == 0 ||
	    asprintf(&name, "pjrtfs%s.log", o->mountpoint) < 0)
		return NULL;
	for (char *at = name; *at; at++)
		if (*at == '/')
			*at = '-';
	name[strlen("pjrtfs")] = '/';
	return options_user_path("XDG_STATE_HOME", ".local/state", name);
}

char *options_cache_dir(const struct options *o)
{
	const char *said = o->cache_dir ? o->cache_dir : getenv("PJRTFS_CACHE_DIR");

	if (said && *said)
		return pf_absolute_path(said);
	return options_user_path("XDG_CACHE_HOME", ".cache", "pjrtfs");
}

/* --- which plugins --------------------------------------------------------------------------- */

/* Those of the command line replace the configuration's. */
static int set_plugin(struct options *o, const struct option_row *row, const char *word,
		      struct pf_err *err)
{
	pf_autofree char *name = options_plugin_name(word);

	(void)row;
	if (o->settings.source == FROM_COMMAND_LINE && !o->own_plugins)
		words_clear(&o->plugin_words);
	o->own_plugins = o->settings.source == FROM_COMMAND_LINE;
	for (unsigned i = 0; i < o->plugin_words.n; i++) {
		pf_autofree char *other = options_plugin_name(o->plugin_words.at[i]);

		if (name && other && !strcmp(name, other))
			return pf_err_set(err, -EINVAL,
					  "two plugins are called %s: name one "
					  "with --plugin NAME=PATH",
					  name);
	}
	return words_add(&o->plugin_words, word, MAX_PLUGINS, "plugins", err);
}

static int set_plugin_dir(struct options *o, const struct option_row *row,
			  const char *word, struct pf_err *err)
{
	(void)row;
	return words_add(&o->plugin_dirs[o->settings.source == FROM_COMMAND_LINE], word,
			 MAX_PLUGINS, "plugin directories", err);
}

/* Those of the command line come first. */
static void dump_plugin_dirs(const struct options *o, const struct option_row *row,
			     struct json_object *out)
{
	struct json_object *list = json_object_new_array();

	for (int k = 1; k >= 0; k--)
		for (unsigned i = 0; i < o->plugin_dirs[k].n; i++) {
			pf_autofree char *path =
				pf_absolute_path(o->plugin_dirs[k].at[i]);

			if (path)
				json_object_array_add(list, json_object_new_string(path));
		}
	json_object_object_add(out, row->name, list);
}

/* OUT[KEY] is a copy of VALUE, unless that is empty. */
static void add_copy(struct json_object *out, const char *key, struct json_object *value)
{
	if (value && json_object_object_length(value))
		json_object_object_add(out, key, pf_json_copy(value));
}

/* Add WORD, NAME, PATH or NAME=PATH, to LIST, with the settings of that plugin which no later
 * option for all overrides. */
static void dump_plugin(const struct settings *s, const char *word,
			struct json_object *list)
{
	const char *end = options_name_end(word), *own = end ? end + 1 : NULL;
	pf_autofree char *name = strndup(word, end ? (size_t)(end - word) : strlen(word));
	const struct plugin_settings *p = name ? settings_find(s, name) : NULL;
	const char *at = own ? own : strchr(word, '/') ? word : p ? p->path : NULL;
	pf_autofree char *path = at ? pf_absolute_path(at) : NULL;
	bool is_default = !json_object_array_length(list);
	struct json_object *o, *options = NULL;

	if (at == word) {
		json_object_array_add(list, json_object_new_string(path ? path : word));
		return;
	}
	o = json_object_new_object();
	json_object_array_add(list, o);
	pf_json_add_string(o, "name", name ? name : "");
	if (path)
		pf_json_add_string(o, "path", path);
	if (!p)
		return;
	add_copy(o, "options", p->options);
	if (is_default && p->count_at < s->devices_at &&
	    json_object_object_get_ex(o, "options", &options))
		json_object_object_del(options, SETTINGS_COUNT);
	add_copy(o, "env", p->env);
	if (p->sandbox) {
		json_object_object_foreach(p->sandbox, key, value)
			if (strcmp(key, "sandbox") || p->sandbox_at >= s->all.sandbox_at)
				json_object_object_add(o, key, pf_json_copy(value));
	}
	if (p->log_level != NO_LOG_LEVEL && p->log_at >= s->all.log_at)
		pf_json_add_int(o, "log_level", p->log_level);
}

static void dump_plugins(const struct options *o, const struct option_row *row,
			 struct json_object *out)
{
	const struct words *words = &o->plugin_words;
	struct json_object *list = json_object_new_array();

	(void)row;
	for (unsigned i = 0; i < words->n; i++)
		dump_plugin(&o->settings, words->at[i], list);
	if (!words->n)
		dump_plugin(&o->settings, "cpu", list);
	json_object_object_add(out, "plugins", list);
}

/* --- FFI libraries --------------------------------------------------------------------------- */

static int set_ffi_library(struct options *o, const struct option_row *row,
			   const char *word, struct pf_err *err)
{
	(void)row;
	return libraries_take_word(o, word, err);
}

static void dump_ffi_libraries(const struct options *o, const struct option_row *row,
			       struct json_object *out)
{
	struct json_object *list = libraries_list(o);

	if (list && json_object_array_length(list))
		json_object_object_add(out, row->name, list);
	else
		json_object_put(list);
}

/* --- the settings of plugins ----------------------------------------------------------------- */

/* The settings of the plugin before the colon of WORD, which is NAME:KEY=VALUE; *REST follows
 * it. */
static int split(struct settings *s, const char *word, struct plugin_settings **ret,
		 const char **rest, struct pf_err *err)
{
	size_t len = strcspn(word, ":=");
	pf_autofree char *name = strndup(word, len);

	if (!name)
		return no_memory(err);
	if (word[len] != ':' || !strchr(word, '='))
		return pf_err_set(err, -EINVAL, "expected NAME:KEY=VALUE, found %.80s",
				  word);
	*rest = word + len + 1;
	return settings_of(s, name, ret, err);
}

static int set_plugin_option(struct options *o, const struct option_row *row,
			     const char *word, struct pf_err *err)
{
	struct json_object *value = NULL;
	pf_autofree char *key = NULL;
	struct plugin_settings *p;
	const char *rest;
	int r = split(&o->settings, word, &p, &rest, err);

	(void)row;
	if (r == 0)
		r = pf_create_option_parse(rest, &key, &value, err);
	if (r == 0)
		r = settings_option(&o->settings, p, key, value, err);
	json_object_put(value);
	return r;
}

static int set_plugin_env(struct options *o, const struct option_row *row,
			  const char *word, struct pf_err *err)
{
	struct plugin_settings *p;
	struct json_object *value;
	const char *rest;
	int r = split(&o->settings, word, &p, &rest, err);

	(void)row;
	if (r < 0)
		return r;
	pf_autofree char *key = strndup(rest, strcspn(rest, "="));

	value = json_object_new_string(rest + strcspn(rest, "=") + 1);
	r = key && value ? settings_variable(p, key, value, err) : no_memory(err);
	json_object_put(value);
	return r;
}

static int set_compile_only(struct options *o, const struct option_row *row,
			    const char *word, struct pf_err *err)
{
	struct plugin_settings *p;
	int r = settings_of(&o->settings, word, &p, err);

	(void)row;
	if (r == 0)
		p->compile_only = true;
	return r;
}

static void dump_compile_only(const struct options *o, const struct option_row *row,
			      struct json_object *out)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < o->settings.n_plugins; i++)
		if (o->settings.plugins[i].compile_only)
			json_object_array_add(list, json_object_new_string(
							    o->settings.plugins[i].name));
	if (json_object_array_length(list))
		json_object_object_add(out, row->name, list);
	else
		json_object_put(list);
}

/* WORD is [NAME:]VALUE; without NAME it is for all plugins.  A path may hold colons. */
static int set_sandbox(struct options *o, const struct option_row *row, const char *word,
		       struct pf_err *err)
{
	size_t len = strcspn(word, ":/");
	struct plugin_settings *p = &o->settings.all;
	pf_autofree char *name = strndup(word, len);
	int r = name ? 0 : no_memory(err);

	if (r == 0 && word[len] == ':') {
		r = settings_of(&o->settings, name, &p, err);
		word += len + 1;
	}
	return r < 0 ? r : settings_sandbox(&o->settings, p, row->name, word, err);
}

static void dump_sandbox(const struct options *o, const struct option_row *row,
			 struct json_object *out)
{
	struct json_object *value = NULL;

	if (json_object_object_get_ex(o->settings.all.sandbox, row->name, &value))
		json_object_object_add(out, row->name, pf_json_copy(value));
}

/* --- compile options -------------------------------------------------------------------------- */

/* TEXT as a JSON value, the caller's; a string if TEXT is not valid JSON. */
static struct json_object *read_value(const char *text)
{
	struct pf_json_reader rd = { text, text, text + strlen(text), SIZE_MAX, NULL };
	struct json_object *value = NULL;

	if (pf_json_value(&rd, &value) == 0 && value && rd.p == rd.end)
		return value;
	json_object_put(value);
	return json_object_new_string(text);
}

static int set_compile_option(struct options *o, const struct option_row *row,
			      const char *word, struct pf_err *err)
{
	static const char flag[] = "env_option_overrides.";
	const char *equals = strchr(word, '=');
	pf_autofree char *key = equals ? strndup(word, (size_t)(equals - word)) : NULL;
	struct json_object *value = key ? read_value(equals + 1) : NULL;
	bool is_flag = key && !strncmp(key, flag, strlen(flag));
	int r;

	(void)row;
	if (!equals || equals == word || strlen(word) > 65536)
		r = pf_err_set(err, -EINVAL,
			       "expected KEY=VALUE, or env_option_overrides.FLAG=VALUE, "
			       "found %.80s",
			       word);
	else if (!value)
		r = no_memory(err);
	else
		r = settings_compile_option(&o->settings, is_flag,
					    is_flag ? key + strlen(flag) : key, value,
					    err);
	json_object_put(value);
	return r;
}

static void dump_compile_options(const struct options *o, const struct option_row *row,
				 struct json_object *out)
{
	add_copy(out, row->name, o->settings.compile_options);
}

static int set_flag_for_all(struct options *o, const struct option_row *row,
			    const char *word, struct pf_err *err)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789_";

	(void)row;
	if (!*word || word[strspn(word, plain)])
		return pf_err_set(err, -EINVAL,
				  "expected the name of a flag, lower-case "
				  "letters, digits and underscores, found '%.80s'",
				  word);
	if (words_has(&o->flags_for_all, word))
		return 0;
	return words_add(&o->flags_for_all, word, MAX_FLAGS, "flags for all", err);
}

/* A later word for the same maximum replaces the earlier one. */
static int set_quota(struct options *o, const struct option_row *row, const char *word,
		     struct pf_err *err)
{
	size_t key = strcspn(word, "=") + 1;
	struct pf_quota_word parsed;
	int r = pf_quota_word_parse(word, &parsed, err);

	(void)row;
	for (unsigned i = 0; i < o->quotas.n && r == 0; i++) {
		char *copy;

		if (strncmp(o->quotas.at[i], word, key) != 0)
			continue;
		copy = strdup(word);
		if (!copy)
			return no_memory(err);
		free(o->quotas.at[i]);
		o->quotas.at[i] = copy;
		return 0;
	}
	return r < 0 ? r : words_add(&o->quotas, word, MAX_QUOTAS, "quotas", err);
}

static void dump_words(const struct options *o, const struct option_row *row,
		       struct json_object *out)
{
	const struct words *words = at_off(o, row);
	struct json_object *list;

	/* An empty list can replace the one of an earlier file. */
	if (!words->n && !(row->where & REPLACES))
		return;
	list = json_object_new_array();
	for (unsigned i = 0; i < words->n; i++)
		json_object_array_add(list, json_object_new_string(words->at[i]));
	json_object_object_add(out, row->name, list);
}

/* --- the table ------------------------------------------------------------------------------ */

static const char *const log_formats[] = { [PF_LOG_AUTOMATIC] = "",
					   [PF_LOG_TEXT] = "text",
					   [PF_LOG_JOURNAL] = "journal",
					   [PF_LOG_JSON] = "json",
					   NULL };
static const char *const isolations[] = { "none", "user", NULL };

#define AT(field) .off = offsetof(struct options, field)
#define SOURCE(field) .source_off = offsetof(struct options, field)

const struct option_row option_rows[] = {
	{ "foreground", 'f', OPTION_FLAG, IN_COMMAND_LINE | IN_CONFIG, NULL,
	  "stay in the foreground", AT(foreground) },
	{ "debug", 'd', OPTION_FLAG, IN_COMMAND_LINE | IN_CONFIG, NULL,
	  "log every request (implies -f)", AT(debug) },
	{ "log_format", 0, OPTION_CHOICE, EVERYWHERE, "FORMAT",
	  "of messages on standard error: text, json or journal; by\n"
	  "default journal if they go to journald, else text",
	  AT(log_format), .words = log_formats },
	{ "log_file", 0, OPTION_PATH, EVERYWHERE, "FILE",
	  "messages of a mount in the background go to FILE (default:\n"
	  "to syslog, else to a file in ~/.local/state/pjrtfs)",
	  AT(log_file) },
	{ "keep", 0, OPTION_FLAG, EVERYWHERE, NULL,
	  "have a process hold the mount while the daemon is\n"
	  "restarted (the default in the background)",
	  AT(keep) },
	{ "no_keep", 0, OPTION_FLAG, EVERYWHERE, NULL, "have none", AT(no_keep) },
	{ "mount_options", 'o', OPTION_WORD, IN_CONFIG | IS_LIST | REPLACES,
	  "OPTION[,OPTION...]",
	  "mount options: allow_other, ro, auto_unmount, ...; those\n"
	  "meant for mount(8) are ignored; those with a value below\n"
	  "also as plugin=, plugin_dir=, memory_limit=, ...",
	  AT(fuse), .set = set_mount_option, .dump = dump_words },
	{ "plugin", 0, OPTION_PLUGINS, EVERYWHERE | REPLACES, "[NAME=]PATH",
	  "load this plugin; may be repeated; without SOURCE instead of\n"
	  "the default, else too.  A bare NAME is looked for",
	  AT(plugin_words), .set = set_plugin, .dump = dump_plugins },
	{ "plugin_dir", 0, OPTION_PATH, EVERYWHERE | IS_LIST | REPLACES, "DIR",
	  "look for plugins in DIR first: DIR/NAME/pjrt_plugin.so or\n"
	  "DIR/NAME.so; may be repeated",
	  AT(plugin_dirs), .set = set_plugin_dir, .dump = dump_plugin_dirs },
	{ "plugin_option", 0, OPTION_WORD, EVERYWHERE | IS_LIST, "NAME:KEY=VALUE",
	  "create plugin NAME's client with this option; with a type:\n"
	  "NAME:KEY:int64=4 (string, float, bool, int64_list)",
	  .set = set_plugin_option },
	{ "plugin_env", 0, OPTION_WORD, EVERYWHERE | IS_LIST, "NAME:KEY=VALUE",
	  "set a variable for plugin NAME alone, as XLA_FLAGS", .set = set_plugin_env },
	{ "compile_only", 0, OPTION_WORD, EVERYWHERE | IS_LIST, "NAME",
	  "plugin NAME compiles for topologies, and leaves its devices\n"
	  "alone; may be repeated",
	  .set = set_compile_only, .dump = dump_compile_only },
	{ "plugin_log_level", 0, OPTION_NUMBER, EVERYWHERE, "N",
	  "plugins print from level N on: 0 all, 3 only fatal errors",
	  AT(settings.all.log_level), 0, MAX_LOG_LEVEL, NO_LOG_LEVEL,
	  SOURCE(settings.all.log_at) },
	{ "ffi_library", 0, OPTION_WORD, IN_COMMAND_LINE | IN_MOUNT,
	  "[NAME:]PATH[:TARGET=SYMBOL,...]",
	  "programs on plugin NAME, or all, can call the handlers of\n"
	  "this library, or those symbols of one that lists none, or\n"
	  "what a .json file lists; may be repeated",
	  .set = set_ffi_library },
	{ .name = "ffi_libraries",
	  .type = OPTION_FFI_LIBRARIES,
	  .where = IN_CONFIG,
	  .dump = dump_ffi_libraries },
	{ "no_lapack", 0, OPTION_FLAG, EVERYWHERE, NULL,
	  "leave out pjrtfs's own library, LAPACK for linear algebra", AT(no_lapack) },
	{ "devices", 0, OPTION_NUMBER, EVERYWHERE, "N",
	  "devices of the default plugin, if it is for CPUs (XLA: 4)",
	  AT(settings.devices), 1, PF_OPTIONS_MAX_DEVICES, SOURCE(settings.devices_at) },
	{ "compile_options", 0, OPTION_COMPILE_OPTIONS, IN_CONFIG,
	  .dump = dump_compile_options },
	{ .name = "debug_options", .type = OPTION_DEBUG_OPTIONS, .where = IN_CONFIG },
	{ "compile_option", 0, OPTION_WORD, EVERYWHERE | IS_LIST, "KEY=VALUE",
	  "what programs are compiled with by default", .set = set_compile_option },
	{ "xla_debug_options", 0, OPTION_PATH, EVERYWHERE, "FILE",
	  "XLA's flags for all programs: a DebugOptions, as text or\n"
	  "serialized (default $XLA_DEBUG_OPTIONS)",
	  AT(xla_debug_options) },
	{ "sandbox", 0, OPTION_WORD, EVERYWHERE | OF_PLUGIN, "[NAME:]MODE",
	  "what plugin NAME's process may do: strict (the default),\n"
	  "device (drivers of accelerators) or off",
	  .set = set_sandbox, .dump = dump_sandbox },
	{ "sandbox_read", 0, OPTION_WORD, EVERYWHERE | OF_PLUGIN | IS_LIST, "[NAME:]PATH",
	  "what else it may read; may be repeated", .set = set_sandbox,
	  .dump = dump_sandbox },
	{ "sandbox_write", 0, OPTION_WORD, EVERYWHERE | OF_PLUGIN | IS_LIST,
	  "[NAME:]PATH", "what else it may write; may be repeated", .set = set_sandbox,
	  .dump = dump_sandbox },
	{ "sandbox_uid", 0, OPTION_TEXT, EVERYWHERE | OF_PLUGIN, "[NAME:]UID",
	  "the user that it becomes, if root mounts", .set = set_sandbox,
	  .dump = dump_sandbox },
	{ "flags_for_all", 0, OPTION_WORD, EVERYWHERE | IS_LIST, "FLAG",
	  "a flag of XLA that users who do not own the mount may set,\n"
	  "too; may be repeated",
	  AT(flags_for_all), .set = set_flag_for_all, .dump = dump_words },
	{ "memory_limit", 0, OPTION_SIZE, EVERYWHERE, "SIZE",
	  "bytes of host memory for arrays (K, M, G, T; default 80 %\n"
	  "of the smaller of RAM and the cgroup's limit)",
	  AT(memory_limit), .min = 1 << 20 },
	{ "quota", 0, OPTION_WORD, EVERYWHERE | IS_LIST, "[UID:]RESOURCE=MAX",
	  "what user UID, or each user, may have at most: of memory,\n"
	  "buffers, programs, jobs, executions, compile_seconds,\n"
	  "DEVICE/memory or DEVICE/executions; may be repeated",
	  AT(quotas), .set = set_quota, .dump = dump_words },
	{ "mode", 0, OPTION_TEXT, EVERYWHERE, "MODE",
	  "of programs/, buffers/, ...: 1777 lets all users work there", .set = set_mode,
	  .dump = dump_mode },
	{ "group", 0, OPTION_TEXT, EVERYWHERE | IN_ENVIRONMENT, "GROUP|URL",
	  "their group, by name or number; alone: mode 2775.  A URL,\n"
	  "redis://HOST[:PORT], with TLS rediss://, is the store through\n"
	  "which plugins on several machines make a client together\n"
	  "(default $PJRTFS_GROUP)",
	  .set = set_group, .dump = dump_group },
	{ "group_secret", 0, OPTION_PATH, EVERYWHERE | IN_ENVIRONMENT, "FILE",
	  "[USER:]PASSWORD of the store, in a file that only its owner\n"
	  "can read (default $PJRTFS_GROUP_PASSWORD)",
	  AT(group_secret) },
	{ "group_ca", 0, OPTION_PATH, EVERYWHERE | IN_ENVIRONMENT, "FILE",
	  "the certificates, in PEM, that the store's must come from\n"
	  "(default: the system's)",
	  AT(group_ca) },
	{ "group_cert", 0, OPTION_PATH, EVERYWHERE | IN_ENVIRONMENT, "FILE",
	  "this client's own certificate, in PEM, for a store that asks\n"
	  "for one",
	  AT(group_cert) },
	{ "group_key", 0, OPTION_PATH, EVERYWHERE | IN_ENVIRONMENT, "FILE",
	  "its private key, in a file that only its owner can read", AT(group_key) },
	{ "group_name", 0, OPTION_WORD, EVERYWHERE | IN_ENVIRONMENT, "NAME",
	  "the group's name in the store (default: the launcher's)", AT(group_name) },
	{ "group_process", 0, OPTION_WORD, EVERYWHERE | IN_ENVIRONMENT, "[I]/N",
	  "this is process I of N, from 0 on (default: the launcher's)",
	  AT(group_process) },
	{ "group_plugin", 0, OPTION_WORD, EVERYWHERE | IN_ENVIRONMENT, "NAME",
	  "the plugin whose client it is (default: the first)", AT(group_plugin) },
	{ "group_timeout", 0, OPTION_NUMBER, EVERYWHERE | IN_ENVIRONMENT, "S",
	  "wait S seconds for the store and the others (default 300)",
	  AT(group_timeout_s), 1, MAX_SECONDS, 300 },
	{ "group_lost", 0, OPTION_NUMBER, EVERYWHERE | IN_ENVIRONMENT, "S",
	  "a process is gone after S seconds without a sign (default 30)",
	  AT(group_lost_s), 1, 3600, 30 },
	{ "allow_native", 0, OPTION_FLAG, EVERYWHERE, NULL,
	  "whoever may write programs may also load compiled ones\n"
	  "(.pjrtexe), which are native code; else only the owner",
	  AT(allow_native) },
	{ "cache_dir", 0, OPTION_PATH, EVERYWHERE, "DIR",
	  "keep compiled programs in DIR (default $PJRTFS_CACHE_DIR,\n"
	  "$XDG_CACHE_HOME/pjrtfs or ~/.cache/pjrtfs)",
	  AT(cache_dir) },
	{ "cache_size", 0, OPTION_SIZE, EVERYWHERE, "SIZE",
	  "at most so many bytes of them (default 2G), or max", AT(cache_size) },
	{ "cache_readonly", 0, OPTION_FLAG, EVERYWHERE, NULL,
	  "use those that are there, which the directory's owner made;\n"
	  "write, evict and remove none",
	  AT(cache_readonly) },
	{ "no_cache", 0, OPTION_FLAG, EVERYWHERE, NULL, "keep none", AT(no_cache) },
	{ "state_dir", 0, OPTION_PATH, EVERYWHERE, "DIR",
	  "keep programs and buffers in DIR, too, for the next mount; not\n"
	  "with --isolate user",
	  AT(state_dir) },
	{ "compile_jobs", 0, OPTION_NUMBER, EVERYWHERE, "N",
	  "compile N programs at a time (default: the processors)", AT(compile_jobs), 1,
	  32 },
	{ "compile_timeout", 0, OPTION_NUMBER, EVERYWHERE, "S",
	  "give a compile up after S seconds", AT(compile_timeout_s), 1, MAX_SECONDS },
	{ "execute_timeout", 0, OPTION_NUMBER, EVERYWHERE, "S",
	  "end an execution that takes longer than S seconds, with its\n"
	  "worker",
	  AT(execute_timeout_s), 1, MAX_SECONDS },
	{ "transfer_timeout", 0, OPTION_NUMBER, EVERYWHERE, "S",
	  "end the process of a plugin that copies one array for longer\n"
	  "than S seconds and one for each 8 MiB, and start it again\n"
	  "(default 3600; 0: never)",
	  AT(transfer_timeout_s), 0, MAX_SECONDS, 3600 },
	{ "start_timeout", 0, OPTION_NUMBER, EVERYWHERE, "S",
	  "wait S seconds for a plugin to start (default 120)", AT(start_timeout_s), 1,
	  MAX_SECONDS, 120 },
	{ "worker_timeout", 0, OPTION_NUMBER, EVERYWHERE, "S",
	  "end the process of a plugin that gives no heartbeat for S\n"
	  "seconds, and start it again (default 60; 0: never)",
	  AT(worker_timeout_s), 0, MAX_SECONDS, 60 },
	{ "isolate", 0, OPTION_CHOICE, EVERYWHERE, "MODE",
	  "user: each user but the mount's owner has a process of each\n"
	  "plugin, and memory, of their own; none (default): all share",
	  AT(isolate), .words = isolations },
	{ "isolate_idle", 0, OPTION_NUMBER, EVERYWHERE, "S",
	  "end a user's own process after S seconds without work\n"
	  "(default 600)",
	  AT(isolate_idle_s), 1, MAX_SECONDS, 600 },
	{ "isolate_max", 0, OPTION_NUMBER, EVERYWHERE, "N",
	  "at most N users have a process of a plugin at a time\n"
	  "(default 64)",
	  AT(isolate_max), 1, 256, 64 },
	{ "abandoned_timeout", 0, OPTION_NUMBER, EVERYWHERE, "S",
	  "end executions of other users that no client has waited for\n"
	  "in S seconds, with their worker (default 3600; 0: never)",
	  AT(abandoned_s), 0, MAX_SECONDS, 3600 },
	{ "run", 0, OPTION_WORD, IN_COMMAND_LINE | IS_LAST, "COMMAND [ARG...]",
	  "mount for COMMAND only, which finds the mount at\n"
	  "$PJRTFS_MOUNT; the last option",
	  AT(run) },
	{ "config", 0, OPTION_PATH, IN_COMMAND_LINE | IN_MOUNT | IS_EARLY, "FILE",
	  "read the configuration FILE, and no other (default:\n"
	  "/etc/pjrtfs.json, then ~/.config/pjrtfs.json)",
	  AT(config) },
	{ "dump_config", 0, OPTION_FLAG, IN_COMMAND_LINE, NULL,
	  "print the configuration in force as such a file", AT(dump_config) },
	{ "list_plugins", 0, OPTION_FLAG, IN_COMMAND_LINE, NULL,
	  "show every plugin that is found, and where it was found", AT(list_plugins) },
	{ "check", 0, OPTION_FLAG, IN_COMMAND_LINE, NULL,
	  "run a program on each plugin of that list, too", AT(check) },
	{ "check_plugin", 0, OPTION_WORD, IN_COMMAND_LINE, "NAME|PATH",
	  "load a plugin, show what it can do, run a program on it", AT(check_plugin) },
	{ "estimate", 0, OPTION_WORD, IN_COMMAND_LINE, "TOPOLOGY",
	  "show what the program, which is the last word, costs on devices\n"
	  "that need not be here, as v5e:2x2, or a file as h100.json",
	  AT(estimate) },
	{ "status", 0, OPTION_WORD, IN_COMMAND_LINE, "MOUNT",
	  "show how a mount is; exit status 0: well, 1: not well,\n"
	  "2: no mount, or no answer",
	  AT(status) },
	{ "json", 0, OPTION_FLAG, IN_COMMAND_LINE, NULL,
	  "show the list of plugins, the estimate, or the status, as JSON", AT(json) },
	{ "timeout", 0, OPTION_NUMBER, IN_COMMAND_LINE, "S",
	  "wait S seconds for each plugin (default 60), or a mount (5)", AT(timeout_s), 1,
	  3600 },
	{ "version", 'V', OPTION_FLAG, IN_COMMAND_LINE | IS_EARLY, NULL,
	  "print the version", AT(version) },
	{ "help", 'h', OPTION_FLAG, IN_COMMAND_LINE | IS_EARLY, NULL, "print this",
	  AT(help) },
	{ NULL },
};

_Static_assert(PF_ARRAY_SIZE(option_rows) <= OPTION_ROWS,
	       "getopt's tables have room for all");

/* --- all options ------------------------------------------------------------------------------ */

void options_init(struct options *o)
{
	*o = (struct options){ .memory_limit = memory_limit_default(),
			       .cache_size = UINT64_C(2) << 30 };
	settings_init(&o->settings);
	for (const struct option_row *row = option_rows; row->name; row++)
		if (row->usual)
			*(unsigned *)at_off(o, row) = row->usual;
}

const struct option_row *options_find(const char *name, size_t len, unsigned where)
{
	for (const struct option_row *row = option_rows; row->name; row++) {
		size_t i = 0;

		while (i < len && (name[i] == row->name[i] ||
				   (name[i] == '-' && row->name[i] == '_')))
			i++;
		if (i == len && !row->name[i] && row->where & where)
			return row;
	}
	return NULL;
}

const char *options_similar(const char *word, unsigned where, char hint[PF_SIMILAR_TEXT])
{
	/* fuse(8)'s, and mount(8)'s that it takes */
	static const char *const others[] = {
		"allow_other", "allow_root", "auto_unmount", "default_permissions",
		"fsname",      "subtype",    "max_read",     "noauto",
		"nofail",      "noexec",     "nosuid",       "nodev",
		"noatime",     NULL
	};
	pf_autofree char *name = strndup(word, strcspn(word, "="));
	struct pf_similar similar = { .word = name };

	*hint = '\0';
	if (!name)
		return hint;
	for (const struct option_row *row = option_rows; row->name; row++)
		if (row->where & where)
			pf_similar_try(&similar, row->name);
	if (where & IN_MOUNT)
		pf_similar_try_all(&similar, others);
	return similar.best && !strcmp(similar.best, name)
		       ? hint
		       : pf_similar_hint(&similar, hint);
}

const char *options_spell(const struct option_row *row, char c, char dst[OPTION_NAME])
{
	snprintf(dst, OPTION_NAME, "%s", row->name);
	for (char *at = dst; (at = strchr(at, '_'));)
		*at = c;
	return dst;
}

/* Set *CHOSEN to the index of WORD among those of ROW. */
static int choose(const struct option_row *row, const char *word, unsigned *chosen,
		  struct pf_err *err)
{
	pf_autobuf struct pf_buf known = PF_BUF_INIT;

	for (unsigned i = 0; row->words[i]; i++) {
		const char * or = row->words[i + 1] ? ", " : " or ";

		if (!*row->words[i])
			continue;
		if (!strcmp(word, row->words[i])) {
			*chosen = i;
			return 0;
		}
		pf_buf_printf(&known, "%s%s", known.len ? or : "", row->words[i]);
	}
	return pf_err_set(err, -EINVAL, "expected %s, found %s",
			  known.data ? known.data : "", word);
}

/* Store TEXT at the place of ROW. */
static int store(struct options *o, const struct option_row *row, const char *text,
		 struct pf_err *err)
{
	void *at = at_off(o, row);
	unsigned long n;
	uint64_t size;
	char *end;

	switch (row->type) {
	case OPTION_FLAG:
		*(bool *)at = !text || !strcmp(text, "true");
		return 0;
	case OPTION_NUMBER:
		n = strtoul(text, &end, 10);
		if (!isdigit((unsigned char)*text) || *end || n < row->min ||
		    n > row->max)
			return pf_err_set(err, -EINVAL,
					  "expected a number from %u to %u, found %.80s",
					  row->min, row->max, text);
		*(unsigned *)at = (unsigned)n;
		if (row->source_off)
			*(enum settings_source *)((char *)o + row->source_off) =
				o->settings.source;
		return 0;
	case OPTION_SIZE:
		if (!row->min)
			return pf_size_parse(text, at, err);
		if (pf_size_parse(text, &size, NULL) == 0 && size >= row->min &&
		    size < UINT64_MAX) {
			*(uint64_t *)at = size;
			return 0;
		}
		return pf_err_set(err, -EINVAL,
				  "expected a size from %uM on, as in 4G, found %s",
				  row->min >> 20, text);
	case OPTION_CHOICE:
		return choose(row, text, at, err);
	default:
		if (!*text)
			return pf_err_set(err, -EINVAL, "expected a %s",
					  row->type == OPTION_PATH ? "path" : "name");
		free(*(char **)at);
		*(char **)at = strdup(text);
		return *(char **)at ? 0 : no_memory(err);
	}
}

int options_set(struct options *o, const struct option_row *row, const char *text,
		struct pf_err *err)
{
	int r = row->set ? row->set(o, row, text, err) : store(o, row, text, err);
	bool seconds = row->argument && !strcmp(row->argument, "S");
	char name[OPTION_NAME];

	return r < 0 ? pf_err_wrap(err, r, "%s%s", options_spell(row, ' ', name),
				   seconds ? " in seconds" : "")
		     : 0;
}

static bool is_usual(const struct options *o, const struct option_row *row)
{
	return *(const unsigned *)at_off(o, row) == row->usual;
}

/* Is the option of ROW, which the environment may have, set? */
static bool is_set(const struct options *o, const struct option_row *row)
{
	if (row->set)
		return o->group_url;
	return row->type == OPTION_NUMBER ? !is_usual(o, row)
					  : *(char *const *)at_off(o, row) != NULL;
}

int options_inherit(struct options *o, struct pf_err *err)
{
	for (const struct option_row *row = option_rows; row->name; row++) {
		char variable[OPTION_NAME + 8] = "PJRTFS_";
		const char *value;

		if (!(row->where & IN_ENVIRONMENT) || is_set(o, row))
			continue;
		for (const char *at = row->name; *at; at++)
			variable[strlen(variable)] = (char)toupper((unsigned char)*at);
		value = getenv(variable);
		if (value && *value && options_set(o, row, value, err) < 0)
			return pf_err_wrap(err, -EINVAL, "%s", variable);
	}
	return 0;
}

static void dump_row(const struct options *o, const struct option_row *row,
		     struct json_object *out)
{
	const void *at = at_off(o, row);
	pf_autofree char *path = NULL;

	if (row->dump) {
		row->dump(o, row, out);
	} else if (row->type == OPTION_FLAG) {
		json_object_object_add(out, row->name,
				       json_object_new_boolean(*(const bool *)at));
	} else if (row->type == OPTION_NUMBER) {
		if (!is_usual(o, row))
			pf_json_add_int(out, row->name, *(const unsigned *)at);
	} else if (row->type == OPTION_CHOICE) {
		if (*(const unsigned *)at)
			pf_json_add_string(out, row->name,
					   row->words[*(const unsigned *)at]);
	} else if (row->type == OPTION_SIZE) {
		if (*(const uint64_t *)at == UINT64_MAX)
			pf_json_add_string(out, row->name, "max");
		else
			pf_json_add_int(out, row->name, *(const int64_t *)at);
	} else if (row->type == OPTION_WORD && row->off && *(char *const *)at) {
		pf_json_add_string(out, row->name, *(char *const *)at);
	} else if (row->type == OPTION_PATH && *(char *const *)at) {
		path = pf_absolute_path(*(char *const *)at);
		if (path)
			pf_json_add_string(out, row->name, path);
	}
}

struct json_object *options_dump(const struct options *o)
{
	struct json_object *out = json_object_new_object();

	for (const struct option_row *row = option_rows; out && row->name; row++)
		if (row->where & IN_CONFIG)
			dump_row(o, row, out);
	return out;
}

char *options_changes(const struct options *o)
{
	struct json_object *all = options_dump(o), *usual, *value;
	struct options defaults;
	char *text = NULL;

	options_init(&defaults);
	usual = options_dump(&defaults);
	if (all && usual) {
		json_object_object_foreach(usual, key, was)
			if (json_object_object_get_ex(all, key, &value) &&
			    json_object_equal(value, was))
				json_object_object_del(all, key);
		text = strdup(pf_json_text(all));
	}
	json_object_put(all);
	json_object_put(usual);
	options_release(&defaults);
	return text;
}

enum { HELP_COLUMN = 27 };

/* The words of ROW, then from HELP_COLUMN on its lines. */
static void help_row(const struct option_row *row, struct pf_buf *out)
{
	bool word = row->where & IN_COMMAND_LINE;
	size_t start = out->len;
	char name[OPTION_NAME];

	pf_buf_puts(out, "  ");
	if (row->letter)
		pf_buf_printf(out, "-%c%s", row->letter, word ? ", " : "");
	if (word)
		pf_buf_printf(out, "--%s", options_spell(row, '-', name));
	if (row->argument)
		pf_buf_printf(out, " %s", row->argument);
	if (out->len - start >= HELP_COLUMN) {
		pf_buf_puts(out, "\n");
		start = out->len;
	}
	for (const char *at = row->help; *at; at += *at == '\n') {
		int len = (int)strcspn(at, "\n");

		pf_buf_printf(out, "%*s%.*s\n", HELP_COLUMN - (int)(out->len - start), "",
			      len, at);
		start = out->len;
		at += len;
	}
}

void options_help(struct pf_buf *out)
{
	pf_buf_puts(
		out,
		"usage: pjrtfs [SOURCE] MOUNTPOINT [options]\n"
		"       pjrtfs [SOURCE] [options] --run COMMAND [ARG...]\n"
		"       pjrtfs [SOURCE] PROGRAM --estimate TOPOLOGY [options]\n"
		"\n"
		"Mount accelerators as files.  SOURCE names the PJRT plugins to load, by "
		"name or by\n"
		"path, separated by commas; the first one's first device is the default.  "
		"Without\n"
		"SOURCE: cpu.\n"
		"\n");
	for (const struct option_row *row = option_rows; row->name; row++)
		if (row->help)
			help_row(row, out);
	pf_buf_puts(out, "\n"
			 "The mount ends with: fusermount3 -u MOUNTPOINT\n"
			 "The manual: pjrtfs(1), pjrtfs(5), man -k pjrtfs.\n");
}

/* Does store keep an owned string for ROW? */
static bool owns_text(const struct option_row *row)
{
	return !row->set && !(row->where & IS_LAST) &&
	       (row->type == OPTION_WORD || row->type == OPTION_PATH);
}

void options_release(struct options *o)
{
	for (const struct option_row *row = option_rows; row->name; row++)
		if (owns_text(row))
			free(*(char **)at_off(o, row));
	for (unsigned i = 0; i < o->n_plugins; i++)
		candidate_release(&o->plugins[i]);
	words_clear(&o->plugin_words);
	words_clear(&o->plugin_dirs[0]);
	words_clear(&o->plugin_dirs[1]);
	words_clear(&o->fuse);
	words_clear(&o->flags_for_all);
	words_clear(&o->quotas);
	for (size_t i = 0; i < PF_ARRAY_SIZE(o->ffi_libraries); i++)
		json_object_put(o->ffi_libraries[i]);
	settings_release(&o->settings);
	free(o->source);
	free(o->mountpoint);
	free(o->program);
	free(o->group_url);
	free(o->group_password);
	memset(o, 0, sizeof(*o));
}
