/* SPDX-License-Identifier: Apache-2.0 */
/* The options: setters, printers, and the table with the text of --help. */
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"
#include "pjrtfs/plugin_options.h"

enum { MAX_SECONDS = 7 * 24 * 3600, MAX_FUSE = 64, MAX_FLAGS = 256 };

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
		return pf_err_set(err, -ENOMEM, "no memory for the options");
	w->n++;
	return 0;
}

void words_clear(struct words *w)
{
	while (w->n)
		free(w->at[--w->n]);
	free(w->at);
	w->at = NULL;
}

static void *at_off(struct options *o, const struct option_row *row)
{
	return (char *)o + row->off;
}

static int read_number(const struct option_row *row, const char *text, unsigned *ret,
		       struct pf_err *err)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (!isdigit((unsigned char)*text) || *end || n < row->min || n > row->max)
		return pf_err_set(err, -EINVAL,
				  "expected a number from %u to %u, found %.80s",
				  row->min, row->max, text);
	*ret = (unsigned)n;
	return 0;
}

const char *options_name_end(const char *word)
{
	const char *end = word + strcspn(word, "=/");

	return *end == '=' ? end : NULL;
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
	const struct group *group = getgrnam(text);
	char *end;
	unsigned long gid = strtoul(text, &end, 10);

	(void)row;
	if (group)
		gid = group->gr_gid;
	else if (*text < '0' || *text > '9' || *end || gid >= UINT32_MAX)
		return pf_err_set(err, -EINVAL,
				  "expected a group's name or number, found %s", text);
	o->has_group = true;
	o->group = (gid_t)gid;
	return 0;
}

static void dump_group(const struct options *o, const struct option_row *row,
		       struct json_object *out)
{
	if (o->has_group)
		pf_json_add_int(out, row->name, o->group);
}

static int set_memory_limit(struct options *o, const struct option_row *row,
			    const char *text, struct pf_err *err)
{
	uint64_t n;

	(void)row;
	if (pf_size_parse(text, &n, NULL) < 0 || n < 1 << 20 || n == UINT64_MAX)
		return pf_err_set(err, -EINVAL,
				  "expected a size from 1M on, as in 4G, "
				  "found %s",
				  text);
	o->memory_limit = n;
	return 0;
}

/* --- the cache ------------------------------------------------------------------------------ */

/* PATH, which need not exist, below BASE (NULL: below the working directory) if it is relative;
 * the caller's.  NULL: no memory, or no directory. */
static char *absolute(const char *base, const char *path)
{
	char cwd[PATH_MAX], *text;

	if (*path == '/')
		return strdup(path);
	if (!base && !getcwd(cwd, sizeof(cwd)))
		return NULL;
	return asprintf(&text, "%s/%s", base ? base : cwd, path) < 0 ? NULL : text;
}

char *options_cache_dir(const struct options *o)
{
	const char *own = getenv("PJRTFS_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME");
	pf_autofree char *home = NULL;

	if (o->cache_dir || (own && *own))
		return absolute(NULL, o->cache_dir ? o->cache_dir : own);
	if (xdg && *xdg == '/')
		return absolute(xdg, "pjrtfs");
	home = pf_home_dir();
	return home ? absolute(home, ".cache/pjrtfs") : NULL;
}

static void dump_cache_dir(const struct options *o, const struct option_row *row,
			   struct json_object *out)
{
	pf_autofree char *dir = o->cache_dir ? absolute(NULL, o->cache_dir) : NULL;

	if (dir)
		pf_json_add_string(out, row->name, dir);
}

/* --- which plugins --------------------------------------------------------------------------- */

const struct words *options_plugin_words(const struct options *o)
{
	return &o->plugin_words[o->source || o->plugin_words[1].n];
}

/* Add WORD to the configuration's list, at ROW's OFF, or to the command line's, which
 * follows it. */
static int set_place(struct options *o, const struct option_row *row, const char *word,
		     struct pf_err *err)
{
	struct words *words = at_off(o, row);

	return words_add(words + (o->settings.source == FROM_COMMAND_LINE), word,
			 MAX_PLUGINS, "plugins, or places to look for them", err);
}

static void dump_plugin_dirs(const struct options *o, const struct option_row *row,
			     struct json_object *out)
{
	struct json_object *list = json_object_new_array();

	for (int k = 1; k >= 0; k--)
		for (unsigned i = 0; i < o->plugin_dirs[k].n; i++) {
			pf_autofree char *path = absolute(NULL, o->plugin_dirs[k].at[i]);

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

/* Add WORD, NAME, PATH or NAME=PATH, to LIST, with the plugin's settings. */
static void dump_plugin(const struct settings *s, const char *word,
			struct json_object *list)
{
	const char *end = options_name_end(word), *own = end ? end + 1 : NULL;
	pf_autofree char *name = strndup(word, end ? (size_t)(end - word) : strlen(word));
	const struct plugin_settings *p = name ? settings_find(s, name) : NULL;
	const char *at = own ? own : strchr(word, '/') ? word : p ? p->path : NULL;
	pf_autofree char *path = at ? absolute(NULL, at) : NULL;
	struct json_object *o;

	if (at == word) {
		json_object_array_add(list, json_object_new_string(path ? path : word));
		return;
	}
	o = json_object_new_object();
	pf_json_add_string(o, "name", name ? name : "");
	if (path)
		pf_json_add_string(o, "path", path);
	if (p) {
		add_copy(o, "options", p->options);
		add_copy(o, "env", p->env);
	}
	if (p && p->sandbox) {
		json_object_object_foreach(p->sandbox, key, value)
			json_object_object_add(o, key, pf_json_copy(value));
	}
	if (p && p->log_level >= 0 && p->log_at >= s->all.log_at)
		pf_json_add_int(o, "log_level", p->log_level);
	json_object_array_add(list, o);
}

static void dump_plugins(const struct options *o, const struct option_row *row,
			 struct json_object *out)
{
	const struct words *words = options_plugin_words(o);
	pf_autofree char *source = o->source ? strdup(o->source) : NULL;
	struct json_object *list = json_object_new_array();
	char *at = source, *word;

	(void)row;
	while ((word = strsep(&at, ",")))
		dump_plugin(&o->settings, word, list);
	for (unsigned i = 0; i < words->n; i++)
		dump_plugin(&o->settings, words->at[i], list);
	if (!json_object_array_length(list))
		dump_plugin(&o->settings, "cpu", list);
	json_object_object_add(out, "plugins", list);
}

/* --- the settings of plugins ----------------------------------------------------------------- */

/* The settings of the plugin before the colon of WORD, which is NAME:KEY=VALUE; *REST follows
 * it.  NULL with *ERR set. */
static struct plugin_settings *split(struct settings *s, const char *word,
				     const char **rest, struct pf_err *err)
{
	size_t len = strcspn(word, ":=");
	pf_autofree char *name = strndup(word, len);

	if (name && word[len] == ':' && strchr(word, '=')) {
		*rest = word + len + 1;
		return settings_of(s, name, err);
	}
	pf_err_set(err, name ? -EINVAL : -ENOMEM, "expected NAME:KEY=VALUE, found %.80s",
		   word);
	return NULL;
}

static int set_plugin_option(struct options *o, const struct option_row *row,
			     const char *word, struct pf_err *err)
{
	struct json_object *value = NULL;
	pf_autofree char *key = NULL;
	const char *rest;
	struct plugin_settings *p = split(&o->settings, word, &rest, err);
	int r = p ? pf_create_option_parse(rest, &key, &value, err) : -EINVAL;

	(void)row;
	if (r == 0)
		r = settings_option(&o->settings, p, key, value, err);
	json_object_put(value);
	return r;
}

static int set_plugin_env(struct options *o, const struct option_row *row,
			  const char *word, struct pf_err *err)
{
	struct json_object *value = NULL;
	pf_autofree char *key = NULL;
	const char *rest, *equals;
	struct plugin_settings *p = split(&o->settings, word, &rest, err);
	int r = -EINVAL;

	(void)row;
	if (p) {
		equals = strchr(rest, '=');
		key = strndup(rest, (size_t)(equals - rest));
		value = json_object_new_string(equals + 1);
		r = key && value ? settings_variable(p, key, value, err)
				 : pf_err_set(err, -ENOMEM, "no memory");
	}
	json_object_put(value);
	return r;
}

static int set_devices(struct options *o, const struct option_row *row, const char *text,
		       struct pf_err *err)
{
	struct json_object *value;
	unsigned n;
	int r = read_number(row, text, &n, err);

	if (r < 0)
		return r;
	value = json_object_new_int64(n);
	r = settings_option(&o->settings, &o->settings.all, "cpu_device_count", value,
			    err);
	json_object_put(value);
	return r;
}

static void dump_devices(const struct options *o, const struct option_row *row,
			 struct json_object *out)
{
	struct json_object *count = NULL;

	if (json_object_object_get_ex(o->settings.all.options, "cpu_device_count",
				      &count))
		json_object_object_add(out, row->name, pf_json_copy(count));
}

static int set_log_level(struct options *o, const struct option_row *row,
			 const char *text, struct pf_err *err)
{
	unsigned n;
	int r = read_number(row, text, &n, err);

	if (r == 0)
		settings_log_level(&o->settings, &o->settings.all, (int)n);
	return r;
}

static void dump_log_level(const struct options *o, const struct option_row *row,
			   struct json_object *out)
{
	if (o->settings.all.log_level >= 0)
		pf_json_add_int(out, row->name, o->settings.all.log_level);
}

/* WORD is [NAME:]VALUE; without NAME it is for all plugins.  A path may hold colons. */
static int set_sandbox(struct options *o, const struct option_row *row, const char *word,
		       struct pf_err *err)
{
	size_t len = strcspn(word, ":/");
	struct plugin_settings *p = &o->settings.all;

	if (word[len] == ':') {
		pf_autofree char *name = strndup(word, len);

		p = name ? settings_of(&o->settings, name, err) : NULL;
		word += len + 1;
	}
	return p ? settings_sandbox(&o->settings, p, row->name, word, err) : -EINVAL;
}

static void dump_sandbox(const struct options *o, const struct option_row *row,
			 struct json_object *out)
{
	struct json_object *value = NULL;

	if (json_object_object_get_ex(o->settings.all.sandbox, row->name, &value))
		json_object_object_add(out, row->name, pf_json_copy(value));
}

/* --- compile options -------------------------------------------------------------------------- */

/* TEXT as a JSON value, which the caller frees; a string if TEXT is not valid JSON. */
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
		r = pf_err_set(err, -ENOMEM, "no memory for the options");
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
	for (unsigned i = 0; i < o->flags_for_all.n; i++)
		if (!strcmp(o->flags_for_all.at[i], word))
			return 0;
	return words_add(&o->flags_for_all, word, MAX_FLAGS, "flags for all", err);
}

static void add_words(struct json_object *out, const char *key, const struct words *w)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < w->n; i++)
		json_object_array_add(list, json_object_new_string(w->at[i]));
	json_object_object_add(out, key, list);
}

static void dump_flags_for_all(const struct options *o, const struct option_row *row,
			       struct json_object *out)
{
	if (o->flags_for_all.n)
		add_words(out, row->name, &o->flags_for_all);
}

static void dump_mount_options(const struct options *o, const struct option_row *row,
			       struct json_object *out)
{
	add_words(out, row->name, &o->fuse);
}

/* --- the table ------------------------------------------------------------------------------ */

#define AT(field) .off = offsetof(struct options, field)

const struct option_row option_rows[] = {
	{ "foreground", 'f', OPTION_FLAG, IN_COMMAND_LINE | IN_CONFIG, NULL,
	  "stay in the foreground", AT(foreground) },
	{ "debug", 'd', OPTION_FLAG, IN_COMMAND_LINE | IN_CONFIG, NULL,
	  "log every request (implies -f)", AT(debug) },
	{ "mount_options", 'o', OPTION_WORD, IN_CONFIG | IS_LIST | REPLACES,
	  "OPTION[,OPTION...]",
	  "mount options: allow_other, ro, auto_unmount, ...; those\n"
	  "meant for mount(8) are ignored; those with a value below\n"
	  "also as plugin=, plugin_dir=, memory_limit=, ...",
	  AT(fuse), .set = set_mount_option, .dump = dump_mount_options },
	{ "memory_limit", 0, OPTION_SIZE, EVERYWHERE, "SIZE",
	  "bytes of host memory for arrays (K, M, G, T; default 80 %\n"
	  "of the smaller of RAM and the cgroup's limit)",
	  AT(memory_limit), .set = set_memory_limit },
	{ "mode", 0, OPTION_TEXT, EVERYWHERE, "MODE",
	  "of programs/, buffers/, ...: 1777 lets all users work there", .set = set_mode,
	  .dump = dump_mode },
	{ "group", 0, OPTION_TEXT, EVERYWHERE, "GROUP",
	  "their group, by name or number; alone: mode 2775", .set = set_group,
	  .dump = dump_group },
	{ "allow_native", 0, OPTION_FLAG, EVERYWHERE, NULL,
	  "whoever may write programs may also load compiled ones\n"
	  "(.pjrtexe), which are native code; else only the owner",
	  AT(allow_native) },
	{ "cache_dir", 0, OPTION_PATH, EVERYWHERE, "DIR",
	  "keep compiled programs in DIR (default $PJRTFS_CACHE_DIR,\n"
	  "$XDG_CACHE_HOME/pjrtfs or ~/.cache/pjrtfs)",
	  AT(cache_dir), .dump = dump_cache_dir },
	{ "cache_size", 0, OPTION_SIZE, EVERYWHERE, "SIZE",
	  "at most so many bytes of them (default 2G), or max", AT(cache_size) },
	{ "no_cache", 0, OPTION_FLAG, EVERYWHERE, NULL, "keep none", AT(no_cache) },
	{ "compile_jobs", 0, OPTION_NUMBER, EVERYWHERE, "N",
	  "compile N programs at a time (default: the processors)", AT(compile_jobs), 1,
	  32 },
	{ "compile_timeout", 0, OPTION_NUMBER, EVERYWHERE, "S",
	  "give a compile up after S seconds", AT(compile_timeout_s), 1, MAX_SECONDS },
	{ "abandoned_timeout", 0, OPTION_NUMBER, EVERYWHERE, "S",
	  "end executions of other users that no client has waited for\n"
	  "in S seconds, with their worker (default 3600; 0: never)",
	  AT(abandoned_s), 0, MAX_SECONDS, 3600 },
	{ "devices", 0, OPTION_NUMBER, EVERYWHERE, "N",
	  "devices of the default plugin, if it is for CPUs (XLA: 4)", .min = 1,
	  .max = PF_OPTIONS_MAX_DEVICES, .set = set_devices, .dump = dump_devices },
	{ "plugin_log_level", 0, OPTION_NUMBER, EVERYWHERE, "N",
	  "plugins print from level N on: 0 all, 3 only fatal errors",
	  .max = MAX_LOG_LEVEL, .set = set_log_level, .dump = dump_log_level },
	{ "plugin_dir", 0, OPTION_PATH, EVERYWHERE | IS_LIST | REPLACES, "DIR",
	  "look for plugins in DIR first: DIR/NAME/pjrt_plugin.so or\n"
	  "DIR/NAME.so; may be repeated",
	  AT(plugin_dirs), .set = set_place, .dump = dump_plugin_dirs },
	{ "plugin", 0, OPTION_PLUGINS, EVERYWHERE | REPLACES, "[NAME=]PATH",
	  "load this plugin; may be repeated; without SOURCE instead of\n"
	  "the default, else too.  A bare NAME is looked for",
	  AT(plugin_words), .set = set_place, .dump = dump_plugins },
	{ "plugin_option", 0, OPTION_WORD, EVERYWHERE | IS_LIST, "NAME:KEY=VALUE",
	  "create plugin NAME's client with this option; with a type:\n"
	  "NAME:KEY:int64=4 (string, float, bool, int64_list)",
	  .set = set_plugin_option },
	{ "plugin_env", 0, OPTION_WORD, EVERYWHERE | IS_LIST, "NAME:KEY=VALUE",
	  "set a variable for plugin NAME alone, as XLA_FLAGS", .set = set_plugin_env },
	{ "sandbox", 0, OPTION_WORD, EVERYWHERE, "[NAME:]MODE",
	  "what plugin NAME's process may do: strict (the default),\n"
	  "device (drivers of accelerators) or off",
	  .set = set_sandbox, .dump = dump_sandbox },
	{ "sandbox_read", 0, OPTION_WORD, EVERYWHERE | IS_LIST, "[NAME:]PATH",
	  "what else it may read; may be repeated", .set = set_sandbox,
	  .dump = dump_sandbox },
	{ "sandbox_write", 0, OPTION_WORD, EVERYWHERE | IS_LIST, "[NAME:]PATH",
	  "what else it may write; may be repeated", .set = set_sandbox,
	  .dump = dump_sandbox },
	{ "sandbox_uid", 0, OPTION_TEXT, EVERYWHERE, "[NAME:]UID",
	  "the user that it becomes, if root mounts", .set = set_sandbox,
	  .dump = dump_sandbox },
	{ "compile_options", 0, OPTION_COMPILE_OPTIONS, IN_CONFIG,
	  .dump = dump_compile_options },
	{ .name = "debug_options", .type = OPTION_DEBUG_OPTIONS, .where = IN_CONFIG },
	{ "compile_option", 0, OPTION_WORD, EVERYWHERE | IS_LIST, "KEY=VALUE",
	  "what programs are compiled with by default", .set = set_compile_option },
	{ "flags_for_all", 0, OPTION_WORD, EVERYWHERE | IS_LIST, "FLAG",
	  "a flag of XLA that users who do not own the mount may set,\n"
	  "too; may be repeated",
	  .set = set_flag_for_all, .dump = dump_flags_for_all },
	{ "config", 0, OPTION_PATH, IN_COMMAND_LINE | IN_MOUNT | IS_EARLY, "FILE",
	  "read the configuration FILE, and no other (default:\n"
	  "/etc/pjrtfs.json, then ~/.config/pjrtfs.json)",
	  AT(config) },
	{ "dump_config", 0, OPTION_FLAG, IN_COMMAND_LINE, NULL,
	  "print the configuration in force as such a file", AT(dump_config) },
	{ "list_plugins", 0, OPTION_FLAG, IN_COMMAND_LINE, NULL,
	  "show every plugin that is found, and where it was found", AT(list_plugins) },
	{ "check_plugin", 0, OPTION_WORD, IN_COMMAND_LINE, "NAME|PATH",
	  "load a plugin, show what it can do, run a program on it", AT(check_plugin) },
	{ "json", 0, OPTION_FLAG, IN_COMMAND_LINE, NULL,
	  "show the list of plugins as JSON", AT(json) },
	{ "timeout", 0, OPTION_NUMBER, IN_COMMAND_LINE, "S",
	  "wait S seconds for each plugin (default 60)", AT(timeout_s), 1, 3600 },
	{ "version", 'V', OPTION_FLAG, IN_COMMAND_LINE | IS_EARLY, NULL,
	  "print the version", AT(version) },
	{ "help", 'h', OPTION_FLAG, IN_COMMAND_LINE | IS_EARLY, NULL, "print this",
	  AT(help) },
	{ NULL },
};

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

/* Store TEXT at the place of ROW. */
static int store(struct options *o, const struct option_row *row, const char *text,
		 struct pf_err *err)
{
	void *at = at_off(o, row);

	switch (row->type) {
	case OPTION_FLAG:
		*(bool *)at = !text || !strcmp(text, "true");
		return 0;
	case OPTION_NUMBER:
		return read_number(row, text, at, err);
	case OPTION_SIZE:
		return pf_size_parse(text, at, err);
	default:
		if (!*text)
			return pf_err_set(err, -EINVAL, "expected a %s",
					  row->type == OPTION_PATH ? "path" : "name");
		free(*(char **)at);
		*(char **)at = strdup(text);
		return *(char **)at ? 0 : pf_err_set(err, -ENOMEM, "no memory");
	}
}

int options_set(struct options *o, const struct option_row *row, const char *text,
		struct pf_err *err)
{
	int r = row->set ? row->set(o, row, text, err) : store(o, row, text, err);
	bool seconds = row->argument && !strcmp(row->argument, "S");
	char name[64];

	if (r == 0)
		return 0;
	snprintf(name, sizeof(name), "%s", row->name);
	for (char *at = name; (at = strchr(at, '_'));)
		*at = ' ';
	return pf_err_wrap(err, r, "%s%s", name, seconds ? " in seconds" : "");
}

static void dump_row(const struct options *o, const struct option_row *row,
		     struct json_object *out)
{
	const void *at = (const char *)o + row->off;
	uint64_t size;

	if (row->dump)
		row->dump(o, row, out);
	else if (row->type == OPTION_FLAG)
		json_object_object_add(out, row->name,
				       json_object_new_boolean(*(const bool *)at));
	else if (row->type == OPTION_NUMBER && *(const unsigned *)at != row->usual)
		pf_json_add_int(out, row->name, *(const unsigned *)at);
	if (row->type != OPTION_SIZE)
		return;
	size = *(const uint64_t *)at;
	if (size == UINT64_MAX)
		pf_json_add_string(out, row->name, "max");
	else
		pf_json_add_int(out, row->name, (int64_t)size);
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

void options_help(struct pf_buf *out)
{
	pf_buf_puts(
		out,
		"usage: pjrtfs [SOURCE] MOUNTPOINT [options]\n"
		"\n"
		"Mount accelerators as files.  SOURCE names the PJRT plugins to load, by "
		"name or by\n"
		"path, separated by commas; the first one's first device is the default.  "
		"Without\n"
		"SOURCE: cpu.\n"
		"\n");
	for (const struct option_row *row = option_rows; row->name; row++) {
		bool word = row->where & IN_COMMAND_LINE;
		size_t start = out->len, name;

		if (!row->help)
			continue;
		pf_buf_puts(out, "  ");
		if (row->letter)
			pf_buf_printf(out, "-%c%s", row->letter, word ? ", " : "");
		name = out->len;
		if (word)
			pf_buf_printf(out, "--%s", row->name);
		for (size_t i = name; i < out->len; i++)
			if (out->data[i] == '_')
				out->data[i] = '-';
		pf_buf_printf(out, "%s%s", row->argument ? " " : "",
			      row->argument ? row->argument : "");
		if (out->len - start >= HELP_COLUMN) {
			pf_buf_puts(out, "\n");
			start = out->len;
		}
		for (const char *at = row->help; at;) {
			int len = (int)strcspn(at, "\n");

			pf_buf_printf(out, "%*s%.*s\n",
				      HELP_COLUMN - (int)(out->len - start), "", len, at);
			at = at[len] ? at + len + 1 : NULL;
			start = out->len;
		}
	}
	pf_buf_puts(out, "\n"
			 "The mount ends with: fusermount3 -u MOUNTPOINT\n"
			 "The manual: pjrtfs(1), and pjrtfs(5) for the files.\n");
}

void options_release(struct options *o)
{
	for (unsigned i = 0; i < o->n_plugins; i++)
		candidate_release(&o->plugins[i]);
	for (unsigned i = 0; i < 2; i++) {
		words_clear(&o->plugin_words[i]);
		words_clear(&o->plugin_dirs[i]);
	}
	words_clear(&o->fuse);
	words_clear(&o->flags_for_all);
	settings_release(&o->settings);
	free(o->check_plugin);
	free(o->config);
	free(o->source);
	free(o->mountpoint);
	free(o->cache_dir);
	memset(o, 0, sizeof(*o));
}
