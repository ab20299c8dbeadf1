/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/fuse.h"
#include "pjrtfs/json.h"

#define DEFAULT_CACHE (UINT64_C(2) << 30) /* bytes */

/* What the command line said, before plugins are looked for. */
struct words {
	struct plugin_words plugins;
	const char *positional[3];
	unsigned n_positional;
};

/* --- -o ------------------------------------------------------------------------------------ */

static const char config_word[] = "config=";

static int add_to(const char **list, unsigned *n, const char *word, struct pf_err *err)
{
	if (*n == MAX_PLUGINS)
		return pf_err_set(err, -EINVAL,
				  "more than %d plugins, or places to look for them",
				  MAX_PLUGINS);
	list[(*n)++] = word;
	return 0;
}

/* What is said of the cache and of compiles: words of -o, and long options in this order. */
static const struct {
	const char *word; /* of -o, with its '=' if it takes a value */
	const char *name; /* cache_options_take's */
} cache_words[] = {
	{ "cache_dir=", "dir" },
	{ "cache_size=", "size" },
	{ "no_cache", "off" },
	{ "compile_jobs=", "jobs" },
	{ "compile_timeout=", "timeout" },
};

/* What is said of plugins and compile options, likewise. */
static const struct {
	const char *word;
	int (*take)(struct settings *s, const char *value, struct pf_err *err);
} settings_words[] = {
	{ "plugin_option=", settings_take_option },
	{ "plugin_env=", settings_take_env },
	{ "plugin_log_level=", settings_take_log_level },
	{ "devices=", settings_take_devices },
	{ "compile_option=", settings_take_compile_option },
	{ "flags_for_all=", settings_take_flag_for_all },
	{ "sandbox=", settings_take_sandbox },
	{ "sandbox_read=", settings_take_sandbox_read },
	{ "sandbox_write=", settings_take_sandbox_write },
	{ "sandbox_uid=", settings_take_sandbox_uid },
	{ "abandoned_timeout=", settings_take_abandoned },
};

enum { N_SETTINGS_WORDS = sizeof(settings_words) / sizeof(settings_words[0]) };

enum { N_CACHE_WORDS = sizeof(cache_words) / sizeof(cache_words[0]) };

/* Which of them WORD is; N_CACHE_WORDS: none. */
static unsigned cache_word_of(const char *word)
{
	unsigned i = 0;

	for (; i < N_CACHE_WORDS; i++) {
		size_t len = strlen(cache_words[i].word);

		if (!strncmp(word, cache_words[i].word, len) &&
		    (cache_words[i].word[len - 1] == '=' || !word[len]))
			break;
	}
	return i;
}

static int add_word(struct options *o, struct words *w, const char *word,
		    struct pf_err *err)
{
	unsigned i = cache_word_of(word);

	if (i < N_CACHE_WORDS)
		return cache_options_take(&o->cache, cache_words[i].name,
					  word + strlen(cache_words[i].word), err);
	if (!strncmp(word, "plugin=", 7))
		return add_to(w->plugins.said, &w->plugins.n_said, word + 7, err);
	if (!strncmp(word, "plugin_dir=", 11))
		return add_to(w->plugins.dirs, &w->plugins.n_dirs, word + 11, err);
	if (!strncmp(word, "memory_limit=", 13))
		return memory_limit_parse(word + 13, &o->memory_limit, err);
	if (!strncmp(word, "mode=", 5))
		return options_take_mode(o, word + 5, err);
	if (!strncmp(word, "group=", 6))
		return options_take_group(o, word + 6, err);
	for (i = 0; i < N_SETTINGS_WORDS; i++) {
		size_t len = strlen(settings_words[i].word);

		if (!strncmp(word, settings_words[i].word, len))
			return settings_words[i].take(&o->settings, word + len, err);
	}
	if (!strncmp(word, config_word, strlen(config_word)))
		return 0; /* it was read before */
	if (strcmp(word, "allow_native") != 0)
		return options_add_fuse(o, word, err);
	o->allow_native = true;
	return 0;
}

/* Cut LIST in place; the words live as long as argv. */
static int add_words(struct options *o, struct words *w, char *list, struct pf_err *err)
{
	char *word;
	int r = 0;

	while (r == 0 && (word = strsep(&list, ",")))
		r = add_word(o, w, word, err);
	return r;
}

/* --- everything ---------------------------------------------------------------------------- */

enum {
	OPT_PLUGIN = 256,
	OPT_PLUGIN_DIR,
	OPT_MEMORY_LIMIT,
	OPT_MODE,
	OPT_GROUP,
	OPT_ALLOW_NATIVE,
	OPT_LIST_PLUGINS,
	OPT_CHECK_PLUGIN,
	OPT_JSON,
	OPT_TIMEOUT,
	OPT_CONFIG,
	OPT_DUMP_CONFIG,
	OPT_SETTINGS = 300, /* and others */
	OPT_CACHE = 320,    /* and others */
};

/* Options that ask about plugins instead of mounting. */
static int take_question(int c, struct options *o, struct pf_err *err)
{
	if (c == OPT_LIST_PLUGINS)
		o->list_plugins = true;
	else if (c == OPT_JSON)
		o->json = true;
	else if (c == OPT_TIMEOUT)
		return option_number("timeout in seconds", optarg, 3600, &o->timeout_s,
				     err);
	else {
		free(o->check_plugin);
		o->check_plugin = strdup(optarg);
	}
	return 0;
}

/* What was asked is about plugins: find them. */
static int find_out(struct options *o, const struct words *w, struct pf_err *err)
{
	if (o->list_plugins && o->check_plugin)
		return pf_err_set(err, -EINVAL,
				  "expected --list-plugins or --check-plugin, not both");
	if (w->n_positional)
		return pf_err_set(err, -EINVAL,
				  "expected no word beside %s, found '%s'; see --help",
				  o->list_plugins ? "--list-plugins" : "--check-plugin's",
				  w->positional[0]);
	if (o->list_plugins)
		return plugin_choice_list(o, &w->plugins, err);
	return plugin_choice_one(o, &w->plugins, o->check_plugin, err);
}

static int take_option(int c, struct options *o, struct words *w, char **argv,
		       struct pf_err *err)
{
	switch (c) {
	case 'f':
		o->foreground = true;
		return 0;
	case 'd':
		o->debug = o->foreground = true;
		return 0;
	case 'o':
		return add_words(o, w, optarg, err);
	case 'h':
		o->help = true;
		return 0;
	case 'V':
		o->version = true;
		return 0;
	case OPT_PLUGIN:
		return add_to(w->plugins.said, &w->plugins.n_said, optarg, err);
	case OPT_PLUGIN_DIR:
		return add_to(w->plugins.dirs, &w->plugins.n_dirs, optarg, err);
	case OPT_MEMORY_LIMIT:
		return memory_limit_parse(optarg, &o->memory_limit, err);
	case OPT_MODE:
		return options_take_mode(o, optarg, err);
	case OPT_GROUP:
		return options_take_group(o, optarg, err);
	case OPT_ALLOW_NATIVE:
		o->allow_native = true;
		return 0;
	case OPT_LIST_PLUGINS:
	case OPT_CHECK_PLUGIN:
	case OPT_JSON:
	case OPT_TIMEOUT:
		return take_question(c, o, err);
	case OPT_CONFIG: /* it was read before */
	case OPT_DUMP_CONFIG:
		return 0;
	case 1: /* a word that is no option */
		if (w->n_positional == 3)
			return 0;
		w->positional[w->n_positional++] = optarg;
		return 0;
	case ':':
		return pf_err_set(err, -EINVAL, "%s needs an argument", argv[optind - 1]);
	default:
		if (c >= OPT_CACHE && c < OPT_CACHE + N_CACHE_WORDS)
			return cache_options_take(&o->cache,
						  cache_words[c - OPT_CACHE].name, optarg,
						  err);
		if (c >= OPT_SETTINGS && c < OPT_SETTINGS + N_SETTINGS_WORDS)
			return settings_words[c - OPT_SETTINGS].take(&o->settings, optarg,
								     err);
		if (optopt && optopt < 256)
			return pf_err_set(err, -EINVAL,
					  "there is no option -%c; see --help", optopt);
		return pf_err_set(err, -EINVAL, "there is no option %s; see --help",
				  argv[optind - 1]);
	}
}

static const char short_options[] = "-:fdo:hV";
static const struct option long_options[] = {
	{ "plugin", required_argument, NULL, OPT_PLUGIN },
	{ "plugin-dir", required_argument, NULL, OPT_PLUGIN_DIR },
	{ "plugin-option", required_argument, NULL, OPT_SETTINGS },
	{ "plugin-env", required_argument, NULL, OPT_SETTINGS + 1 },
	{ "plugin-log-level", required_argument, NULL, OPT_SETTINGS + 2 },
	{ "devices", required_argument, NULL, OPT_SETTINGS + 3 },
	{ "compile-option", required_argument, NULL, OPT_SETTINGS + 4 },
	{ "flags-for-all", required_argument, NULL, OPT_SETTINGS + 5 },
	{ "sandbox", required_argument, NULL, OPT_SETTINGS + 6 },
	{ "sandbox-read", required_argument, NULL, OPT_SETTINGS + 7 },
	{ "sandbox-write", required_argument, NULL, OPT_SETTINGS + 8 },
	{ "sandbox-uid", required_argument, NULL, OPT_SETTINGS + 9 },
	{ "abandoned-timeout", required_argument, NULL, OPT_SETTINGS + 10 },
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "dump-config", no_argument, NULL, OPT_DUMP_CONFIG },
	{ "memory-limit", required_argument, NULL, OPT_MEMORY_LIMIT },
	{ "mode", required_argument, NULL, OPT_MODE },
	{ "group", required_argument, NULL, OPT_GROUP },
	{ "cache-dir", required_argument, NULL, OPT_CACHE },
	{ "cache-size", required_argument, NULL, OPT_CACHE + 1 },
	{ "no-cache", no_argument, NULL, OPT_CACHE + 2 },
	{ "compile-jobs", required_argument, NULL, OPT_CACHE + 3 },
	{ "compile-timeout", required_argument, NULL, OPT_CACHE + 4 },
	{ "list-plugins", no_argument, NULL, OPT_LIST_PLUGINS },
	{ "check-plugin", required_argument, NULL, OPT_CHECK_PLUGIN },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "allow-native", no_argument, NULL, OPT_ALLOW_NATIVE },
	{ "foreground", no_argument, NULL, 'f' },
	{ "debug", no_argument, NULL, 'd' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

/* What must be known before the rest is read. */
struct ahead {
	char *config;     /* owned: --config's */
	bool dump, asked; /* --help or --version */
};

/* The value of the last word config= in the LIST of -o, the caller's; NULL: none. */
static char *find_config_word(const char *list)
{
	char *found = NULL;

	for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',') {
		size_t len = strlen(config_word);

		if (strncmp(at, config_word, len) != 0)
			continue;
		free(found);
		found = strndup(at + len, strcspn(at + len, ","));
	}
	return found;
}

static void look_ahead(int argc, char **argv, struct ahead *ret)
{
	int c;

	optind = 0; /* getopt(3) begins anew */
	while ((c = getopt_long(argc, argv, short_options, long_options, NULL)) != -1) {
		char *config = NULL;

		if (c == OPT_CONFIG)
			config = strdup(optarg);
		else if (c == 'o')
			config = find_config_word(optarg);
		ret->dump |= c == OPT_DUMP_CONFIG;
		ret->asked |= c == 'h' || c == 'V';
		if (config) {
			free(ret->config);
			ret->config = config;
		}
	}
	optind = 0;
}

/* The configuration, then the command line. */
static int read_all(int argc, char **argv, const struct ahead *ahead, struct options *o,
		    struct words *w, struct pf_err *err)
{
	int c, r = ahead->asked ? 0 : config_read(o, ahead->config, err);

	o->settings.layer = LAYER_COMMAND_LINE;
	while (r == 0 &&
	       (c = getopt_long(argc, argv, short_options, long_options, NULL)) != -1)
		r = take_option(c, o, w, argv, err);
	while (r == 0 && optind < argc && w->n_positional < 3)
		w->positional[w->n_positional++] = argv[optind++]; /* after "--" */
	if (r < 0 || o->help || o->version)
		return r;
	o->foreground |= o->debug;
	r = settings_check_compile_options(&o->settings, err);
	if (r < 0 || o->list_plugins || o->check_plugin)
		return r;
	if (o->json || o->timeout_s)
		return pf_err_set(err, -EINVAL,
				  "%s is for --list-plugins and --check-plugin",
				  o->json ? "--json" : "--timeout");
	if (w->n_positional > 2 || (w->n_positional < 1 && !ahead->dump))
		return pf_err_set(
			err, -EINVAL,
			w->n_positional
				? "expected [SOURCE] MOUNTPOINT, and no third word '%s'; see --help"
				: "expected [SOURCE] MOUNTPOINT; see --help",
			w->positional[2]);
	return 0;
}

/* The configuration's plugins, for those that look for some; the command line's choice goes
 * before its choice. */
static void add_configured(const struct settings *s, bool choose, struct words *w)
{
	struct plugin_words *p = &w->plugins;

	for (unsigned i = 0; i < s->n_defs && p->n_configured < MAX_PLUGINS; i++)
		if (s->defs[i].path)
			p->configured[p->n_configured++] =
				(struct pf_named){ s->defs[i].name, s->defs[i].path };
	for (unsigned i = 0; i < s->n_dirs; i++)
		p->configured_dirs[p->n_configured_dirs++] = s->dirs[i];
	for (unsigned i = 0; choose && !p->n_said && i < s->n_chosen; i++)
		p->said[i] = s->chosen[i];
	if (choose && !p->n_said)
		p->n_said = s->n_chosen;
}

static int attach(struct options *o, struct pf_err *err)
{
	const struct settings *s = &o->settings;
	int r = o->list_plugins ? 0 /* of any that there are */
				: settings_check_names(s, o->plugins, o->n_plugins, err);

	if (r == 0)
		r = settings_attach(s, o->plugins, o->n_plugins, true, err);
	return r;
}

/* WORD made absolute, without links, or /dev/fd/N as it is; the caller's.  NULL and errno: it cannot be. */
static char *find_mountpoint(const char *word)
{
	pf_autofree char *plain = strdup(word);
	size_t len = strlen(word);

	if (pf_mount_fd(word) >= 0)
		return pf_steal(&plain);
	/* With a slash behind it a mount whose daemon is gone cannot be named. */
	while (plain && len > 1 && plain[len - 1] == '/')
		plain[--len] = '\0';
	return plain ? realpath(plain, NULL) : NULL;
}

static void set_defaults(struct options *o)
{
	memset(o, 0, sizeof(*o));
	settings_init(&o->settings);
	o->memory_limit = memory_limit_default();
	o->cache.size = DEFAULT_CACHE;
}

/* What of O differs from the defaults, for the log: a configuration on one line.  NULL: some
 * plugin's options are refused, or there is no memory. */
static char *find_in_force(const struct options *o, const char *source,
			   const struct plugin_words *words)
{
	static const struct plugin_words none;
	struct json_object *all = NULL, *usual = NULL, *value;
	struct options defaults;
	char *text = NULL;

	set_defaults(&defaults);
	if (config_dump(&defaults, NULL, &none, &usual, NULL) == 0 &&
	    config_dump(o, source, words, &all, NULL) == 0) {
		json_object_object_foreach(usual, key, was) {
			if (json_object_object_get_ex(all, key, &value) &&
			    json_object_equal(value, was))
				json_object_object_del(all, key);
		}
		text = strdup(pf_json_text(all));
	}
	json_object_put(all);
	json_object_put(usual);
	options_release(&defaults);
	return text;
}

int options_parse(int argc, char **argv, struct options *ret, struct pf_err *err)
{
	struct words w = { .n_positional = 0 };
	struct ahead ahead = { NULL };
	const char *source, *mountpoint;
	int r;

	set_defaults(ret);
	opterr = 0;
	look_ahead(argc, argv, &ahead);
	r = read_all(argc, argv, &ahead, ret, &w, err);
	free(ahead.config);
	if (r < 0 || ret->help || ret->version)
		return r;
	source = w.n_positional == 2 ? w.positional[0] : NULL;
	if (ahead.dump)
		return config_dump(ret, source, &w.plugins, &ret->dump, err);
	ret->in_force = find_in_force(ret, source, &w.plugins);
	add_configured(&ret->settings, !source, &w);
	if (ret->list_plugins || ret->check_plugin) {
		r = find_out(ret, &w, err);
		return r < 0 ? r : attach(ret, err);
	}
	r = plugin_choice(ret, &w.plugins, source, err);
	if (r == 0)
		r = attach(ret, err);
	if (r < 0)
		return r;
	mountpoint = w.positional[w.n_positional - 1];
	ret->mountpoint = find_mountpoint(mountpoint);
	if (!ret->mountpoint)
		return pf_err_set(err, -errno, "mount point %s: %s", mountpoint,
				  strerror(errno));
	return 0;
}

static void release_plugin(struct pf_candidate *p)
{
	free(p->name);
	free(p->path);
	free(p->refused);
	json_object_put(p->options);
	json_object_put(p->env);
	json_object_put(p->sandbox);
}

void options_release(struct options *o)
{
	for (unsigned i = 0; i < o->n_plugins; i++)
		release_plugin(&o->plugins[i]);
	options_forget_fuse(o);
	settings_release(&o->settings);
	json_object_put(o->dump);
	free(o->check_plugin);
	pf_discovery_free(o->discovery);
	free(o->mountpoint);
	free(o->in_force);
	free(o->source);
	free(o->cache.dir);
	memset(o, 0, sizeof(*o));
}
