#include "options.h"
#include "memory_limit.h"
#include "plugin_choice.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_CACHE (UINT64_C(2) << 30) /* bytes */

const char options_help[] =
	"usage: pjrtfs [SOURCE] MOUNTPOINT [options]\n"
	"\n"
	"Mount accelerators as files.  SOURCE names the PJRT plugins to load, by name or by\n"
	"path, separated by commas; the first one's first device is the default.  Without\n"
	"SOURCE: cpu.\n"
	"\n"
	"  -f                       stay in the foreground\n"
	"  -d                       log every request (implies -f)\n"
	"  -o OPTION[,OPTION...]    mount options: allow_other, ro, auto_unmount, ...; those\n"
	"                           meant for mount(8) are ignored; those with a value below\n"
	"                           also as plugin=, plugin_dir=, memory_limit=, ...\n"
	"  --plugin [NAME=]PATH     load this plugin; may be repeated; without SOURCE instead of\n"
	"                           the default, else too.  A bare NAME is looked for\n"
	"  --plugin-dir DIR         look for plugins in DIR first: DIR/NAME/pjrt_plugin.so or\n"
	"                           DIR/NAME.so; may be repeated\n"
	"  --memory-limit SIZE      bytes of host memory for arrays (K, M, G, T; default 80 %\n"
	"                           of the smaller of RAM and the cgroup's limit)\n"
	"  --allow-native           whoever may write programs may also load compiled ones\n"
	"                           (.pjrtexe), which are native code; else only the owner\n"
	"  --cache-dir DIR          keep compiled programs in DIR (default $PJRTFS_CACHE_DIR,\n"
	"                           $XDG_CACHE_HOME/pjrtfs or ~/.cache/pjrtfs)\n"
	"  --cache-size SIZE        at most so many bytes of them (default 2G), or max\n"
	"  --no-cache               keep none\n"
	"  --compile-jobs N         compile N programs at a time (default: the processors)\n"
	"  --compile-timeout S      give a compile up after S seconds\n"
	"  --list-plugins           show every plugin that is found, and where it was found\n"
	"  --check-plugin NAME|PATH load a plugin, show what it can do, run a program on it\n"
	"  --json                   the same as JSON\n"
	"  --timeout S              wait S seconds for each plugin (default 60)\n"
	"  -V, --version            print the version\n"
	"  -h, --help               print this\n"
	"\n"
	"The mount ends with: fusermount3 -u MOUNTPOINT\n"
	"The manual: pjrtfs(1), and pjrtfs(5) for the files.\n";

/* What the command line said, before plugins are looked for. */
struct words {
	struct plugin_words plugins;
	const char *positional[3];
	unsigned n_positional;
};

/* --- -o ------------------------------------------------------------------------------------ */

/* For mount(8), systemd or the kernel's VFS; libfuse does not know them. */
static bool is_for_mount(const char *word)
{
	static const char *const words[] = {
		"defaults",   "auto",     "noauto",     "user",        "nouser",
		"users",      "nousers",  "owner",      "group",       "_netdev",
		"nofail",     "relatime", "norelatime", "strictatime", "nostrictatime",
		"nodiratime", "diratime", "lazytime",   "nolazytime",  "loud",
		"silent",     "iversion", "noiversion",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(words[i], word))
			return true;
	return !strncmp(word, "x-", 2) || !strncmp(word, "comment=", 8) ||
	       !strncmp(word, "user=", 5) || !strncmp(word, "uhelper=", 8) ||
	       !strncmp(word, "helper=", 7);
}

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

	if (!*word || is_for_mount(word))
		return 0;
	if (i < N_CACHE_WORDS)
		return cache_options_take(&o->cache, cache_words[i].name,
					  word + strlen(cache_words[i].word), err);
	if (!strncmp(word, "plugin=", 7))
		return add_to(w->plugins.said, &w->plugins.n_said, word + 7, err);
	if (!strncmp(word, "plugin_dir=", 11))
		return add_to(w->plugins.dirs, &w->plugins.n_dirs, word + 11, err);
	if (!strncmp(word, "memory_limit=", 13))
		return memory_limit_parse(word + 13, &o->memory_limit, err);
	if (!strcmp(word, "allow_native"))
		o->allow_native = true;
	else if (o->n_fuse < MAX_WORDS)
		o->fuse[o->n_fuse++] = strdup(word);
	else
		return pf_err_set(err, -EINVAL, "more than %d mount options", MAX_WORDS);
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
	OPT_ALLOW_NATIVE,
	OPT_LIST_PLUGINS,
	OPT_CHECK_PLUGIN,
	OPT_JSON,
	OPT_TIMEOUT,
	OPT_CACHE /* and others */
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
	case OPT_ALLOW_NATIVE:
		o->allow_native = true;
		return 0;
	case OPT_LIST_PLUGINS:
	case OPT_CHECK_PLUGIN:
	case OPT_JSON:
	case OPT_TIMEOUT:
		return take_question(c, o, err);
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
		if (optopt && optopt < 256)
			return pf_err_set(err, -EINVAL,
					  "there is no option -%c; see --help", optopt);
		return pf_err_set(err, -EINVAL, "there is no option %s; see --help",
				  argv[optind - 1]);
	}
}

int options_parse(int argc, char **argv, struct options *ret, struct pf_err *err)
{
	static const struct option long_options[] = {
		{ "plugin", required_argument, NULL, OPT_PLUGIN },
		{ "plugin-dir", required_argument, NULL, OPT_PLUGIN_DIR },
		{ "memory-limit", required_argument, NULL, OPT_MEMORY_LIMIT },
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
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	struct words w = { .n_positional = 0 };
	int c, r = 0;

	memset(ret, 0, sizeof(*ret));
	ret->memory_limit = memory_limit_default();
	ret->cache.size = DEFAULT_CACHE;
	opterr = 0;
	while (r == 0 &&
	       (c = getopt_long(argc, argv, "-:fdo:hV", long_options, NULL)) != -1)
		r = take_option(c, ret, &w, argv, err);
	while (r == 0 && optind < argc && w.n_positional < 3)
		w.positional[w.n_positional++] = argv[optind++]; /* after "--" */
	if (r < 0 || ret->help || ret->version)
		return r;
	if (ret->list_plugins || ret->check_plugin)
		return find_out(ret, &w, err);
	if (ret->json || ret->timeout_s)
		return pf_err_set(err, -EINVAL,
				  "%s is for --list-plugins and --check-plugin",
				  ret->json ? "--json" : "--timeout");
	if (w.n_positional < 1 || w.n_positional > 2)
		return pf_err_set(
			err, -EINVAL,
			w.n_positional
				? "expected [SOURCE] MOUNTPOINT, and no third word '%s'; see --help"
				: "expected [SOURCE] MOUNTPOINT; see --help",
			w.positional[2]);
	r = plugin_choice(ret, &w.plugins, w.n_positional == 2 ? w.positional[0] : NULL,
			  err);
	if (r < 0)
		return r;
	ret->mountpoint = realpath(w.positional[w.n_positional - 1], NULL);
	if (!ret->mountpoint)
		return pf_err_set(err, -errno, "mount point %s: %s",
				  w.positional[w.n_positional - 1], strerror(errno));
	return 0;
}

void options_release(struct options *o)
{
	for (unsigned i = 0; i < o->n_plugins; i++) {
		free(o->plugins[i].name);
		free(o->plugins[i].path);
	}
	for (unsigned i = 0; i < o->n_found; i++) {
		free(o->found[i].name);
		free(o->found[i].path);
	}
	for (unsigned i = 0; i < o->n_fuse; i++)
		free((char *)(uintptr_t)o->fuse[i]);
	free(o->check_plugin);
	pf_discovery_free(o->discovery);
	free(o->mountpoint);
	free(o->source);
	free(o->cache.dir);
	memset(o, 0, sizeof(*o));
}
