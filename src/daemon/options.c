/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"

enum { MAX_SECONDS = 7 * 24 * 3600, MAX_JOBS = 32 };

int option_number(const char *what, const char *value, unsigned max, unsigned *ret,
		  struct pf_err *err)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(value, &end, 10);
	if (!isdigit((unsigned char)*value) || *end || errno || n < 1 || n > max)
		return pf_err_set(err, -EINVAL,
				  "%s: expected a number from 1 to %u, found %s", what,
				  max, value);
	*ret = (unsigned)n;
	return 0;
}

int cache_options_take(struct cache_options *o, const char *name, const char *value,
		       struct pf_err *err)
{
	int r;

	if (!strcmp(name, "off")) {
		o->off = true;
		return 0;
	}
	if (!strcmp(name, "size")) {
		r = pf_size_parse(value, &o->size, err);
		return r < 0 ? pf_err_wrap(err, r, "cache size") : 0;
	}
	if (!strcmp(name, "jobs"))
		return option_number("compile jobs", value, MAX_JOBS, &o->jobs, err);
	if (!strcmp(name, "timeout"))
		return option_number("compile timeout in seconds", value, MAX_SECONDS,
				     &o->timeout_s, err);
	if (!*value)
		return pf_err_set(err, -EINVAL, "cache directory: expected a path");
	free(o->dir);
	o->dir = strdup(value);
	return o->dir ? 0 : pf_err_set(err, -ENOMEM, "no memory");
}

/* DIR, below BASE. */
static char *below(const char *base, const char *dir)
{
	char *path;

	return asprintf(&path, "%s/%s", base, dir) < 0 ? NULL : path;
}

char *cache_options_dir(const struct cache_options *o)
{
	const char *own = getenv("PJRTFS_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME");
	const char *dir = o->dir;
	pf_autofree char *home = NULL;
	char cwd[PATH_MAX];

	if (!dir && own && *own)
		dir = own;
	if (dir && *dir == '/')
		return strdup(dir);
	if (dir)
		return getcwd(cwd, sizeof(cwd)) ? below(cwd, dir) : NULL;
	if (xdg && *xdg == '/')
		return below(xdg, "pjrtfs");
	home = pf_home_dir();
	return home ? below(home, ".cache/pjrtfs") : NULL;
}

int memory_limit_parse(const char *text, uint64_t *ret, struct pf_err *err)
{
	static const char units[] = "KMGT";
	char *end;
	uint64_t n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || errno)
		goto bad;
	if (*end) {
		const char *unit = strchr(units, toupper((unsigned char)*end));
		unsigned shift;

		if (!unit)
			goto bad;
		shift = 10 * (unsigned)(unit - units + 1);
		if (n > UINT64_MAX >> shift)
			goto bad;
		n <<= shift;
		end++;
		if (!strcmp(end, "iB") || !strcmp(end, "B"))
			end = "";
	}
	if (*end || n < 1 << 20 || n > UINT64_C(1) << 60)
		goto bad;
	*ret = n;
	return 0;
bad:
	return pf_err_set(err, -EINVAL,
			  "memory limit: expected a size from 1M on, as in 4G, found "
			  "%s",
			  text);
}

/* The number in file PATH; UINT64_MAX if there is none ("max"). */
static uint64_t read_number(const char *path)
{
	char text[32] = "";
	uint64_t n = UINT64_MAX;
	FILE *f = fopen(path, "re");

	if (!f)
		return n;
	if (fgets(text, sizeof(text), f) && isdigit((unsigned char)*text))
		n = strtoull(text, NULL, 10);
	fclose(f);
	return n;
}

/* The tightest limit in the files NAME of DIR and of the directories above it, down to its
 * first TOP bytes. */
static uint64_t tightest(char *dir, size_t top, const char *name)
{
	uint64_t best = UINT64_MAX;

	for (;;) {
		pf_autofree char *path = NULL;
		uint64_t n;
		char *slash;

		if (asprintf(&path, "%s/%s", dir, name) < 0)
			return best;
		n = read_number(path);
		best = n < best ? n : best;
		slash = strrchr(dir, '/');
		if (!slash || (size_t)(slash - dir) < top)
			return best;
		*slash = '\0';
	}
}

static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
		if (!strncmp(list, word, len) && (!list[len] || list[len] == ','))
			return true;
	return false;
}

/* Our group in the hierarchy of cgroup v2, or in that of v1's memory controller: in GROUP, of
 * PATH_MAX bytes.  False: there is none. */
static bool find_group(const char *root, bool v2, char *group)
{
	pf_autofree char *path = NULL;
	pf_autofree char *line = NULL;
	bool found = false;
	size_t cap = 0;
	FILE *f = NULL;

	if (asprintf(&path, "%s/proc/self/cgroup", root) >= 0)
		f = fopen(path, "re");
	while (f && !found && getline(&line, &cap, f) > 0) {
		/* ID:CONTROLLER,...:PATH */
		char *controllers = strchr(line, ':'), *at;

		at = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!at)
			continue;
		*at++ = '\0';
		at[strcspn(at, "\n")] = '\0';
		found = v2 ? !controllers[1] : has_word(controllers + 1, "memory");
		if (found)
			snprintf(group, PATH_MAX, "%s", at);
	}
	if (f)
		fclose(f);
	return found;
}

/* The limit of a hierarchy that is mounted AT, from its group MOUNTED on. */
static uint64_t hierarchy_limit(const char *root, bool v2, const char *mounted,
				const char *at)
{
	pf_autofree char *dir = NULL;
	char group[PATH_MAX];
	const char *below = group;
	size_t len = strlen(mounted);

	if (!find_group(root, v2, group))
		return UINT64_MAX;
	/* A container may have no more of the hierarchy than its own group. */
	if (len > 1 && !strncmp(group, mounted, len) &&
	    (group[len] == '/' || !group[len]))
		below += len;
	if (asprintf(&dir, "%s%s%s", root, at, strcmp(below, "/") ? below : "") < 0)
		return UINT64_MAX;
	return tightest(dir, strlen(root) + strlen(at),
			v2 ? "memory.max" : "memory.limit_in_bytes");
}

uint64_t memory_limit_cgroup(const char *root)
{
	pf_autofree char *path = NULL;
	pf_autofree char *line = NULL;
	uint64_t best = UINT64_MAX, n;
	size_t cap = 0;
	FILE *f = NULL;

	if (asprintf(&path, "%s/proc/self/mountinfo", root) >= 0)
		f = fopen(path, "re");
	while (f && getline(&line, &cap, f) > 0) {
		char mounted[PATH_MAX], at[PATH_MAX], type[32], options[256];
		const char *rest = strstr(line, " - ");
		bool v2;

		if (!rest || strlen(line) >= PATH_MAX ||
		    sscanf(line, "%*s %*s %*s %s %s", mounted, at) != 2 ||
		    sscanf(rest, " - %31s %*s %255s", type, options) != 2)
			continue;
		v2 = !strcmp(type, "cgroup2");
		if (!v2 && (strcmp(type, "cgroup") || !has_word(options, "memory")))
			continue;
		n = hierarchy_limit(root, v2, mounted, at);
		best = n < best ? n : best;
	}
	if (f)
		fclose(f);
	return best;
}

uint64_t memory_limit_default(void)
{
	uint64_t ram =
		(uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t cgroup = memory_limit_cgroup("");

	return (ram < cgroup ? ram : cgroup) / 10 * 8;
}

/* The text of --help. */

const char options_help[] =
	"usage: pjrtfs [SOURCE] MOUNTPOINT [options]\n"
	"\n"
	"Mount accelerators as files.  SOURCE names the PJRT plugins to load, by name or by\n"
	"path, separated by commas; the first one's first device is the default.  Without\n"
	"SOURCE: cpu.\n"
	"\n"
	"  -f, --foreground         stay in the foreground\n"
	"  -d, --debug              log every request (implies -f)\n"
	"  -o OPTION[,OPTION...]    mount options: allow_other, ro, auto_unmount, ...; those\n"
	"                           meant for mount(8) are ignored; those with a value below\n"
	"                           also as plugin=, plugin_dir=, memory_limit=, ...\n"
	"  --plugin [NAME=]PATH     load this plugin; may be repeated; without SOURCE instead of\n"
	"                           the default, else too.  A bare NAME is looked for\n"
	"  --plugin-dir DIR         look for plugins in DIR first: DIR/NAME/pjrt_plugin.so or\n"
	"                           DIR/NAME.so; may be repeated\n"
	"  --config FILE            read the configuration FILE, and no other (default:\n"
	"                           /etc/pjrtfs.json, then ~/.config/pjrtfs.json)\n"
	"  --dump-config            print the configuration in force as such a file\n"
	"  --plugin-option NAME:KEY=VALUE\n"
	"                           create plugin NAME's client with this option; with a type:\n"
	"                           NAME:KEY:int64=4 (string, float, bool, int64_list)\n"
	"  --plugin-env NAME:KEY=VALUE\n"
	"                           set a variable for plugin NAME alone, as XLA_FLAGS\n"
	"  --plugin-log-level N     plugins print from level N on: 0 all, 3 only fatal errors\n"
	"  --devices N              devices of the default plugin, if it is for CPUs (XLA: 4)\n"
	"  --compile-option KEY=VALUE\n"
	"                           what programs are compiled with by default\n"
	"  --sandbox [NAME:]MODE    what plugin NAME's process may do: strict (the default),\n"
	"                           device (drivers of accelerators) or off\n"
	"  --sandbox-read [NAME:]PATH, --sandbox-write [NAME:]PATH\n"
	"                           what it may read, or write, besides; may be repeated\n"
	"  --sandbox-uid [NAME:]UID the user that it becomes, if root mounts\n"
	"  --flags-for-all FLAG     a flag of XLA that users who do not own the mount may set,\n"
	"                           too; may be repeated\n"
	"  --memory-limit SIZE      bytes of host memory for arrays (K, M, G, T; default 80 %\n"
	"                           of the smaller of RAM and the cgroup's limit)\n"
	"  --mode MODE              of programs/, buffers/, ...: 1777 lets all users work there\n"
	"  --group GROUP            their group, by name or number; alone: mode 2775\n"
	"  --allow-native           whoever may write programs may also load compiled ones\n"
	"                           (.pjrtexe), which are native code; else only the owner\n"
	"  --cache-dir DIR          keep compiled programs in DIR (default $PJRTFS_CACHE_DIR,\n"
	"                           $XDG_CACHE_HOME/pjrtfs or ~/.cache/pjrtfs)\n"
	"  --cache-size SIZE        at most so many bytes of them (default 2G), or max\n"
	"  --no-cache               keep none\n"
	"  --compile-jobs N         compile N programs at a time (default: the processors)\n"
	"  --compile-timeout S      give a compile up after S seconds\n"
	"  --abandoned-timeout S    end executions of users who do not own the mount that nobody\n"
	"                           has waited for for S seconds, with their worker (default\n"
	"                           3600; 0: never)\n"
	"  --list-plugins           show every plugin that is found, and where it was found\n"
	"  --check-plugin NAME|PATH load a plugin, show what it can do, run a program on it\n"
	"  --json                   the same as JSON\n"
	"  --timeout S              wait S seconds for each plugin (default 60)\n"
	"  -V, --version            print the version\n"
	"  -h, --help               print this\n"
	"\n"
	"The mount ends with: fusermount3 -u MOUNTPOINT\n"
	"The manual: pjrtfs(1), and pjrtfs(5) for the files.\n";

/* Words of -o that others than pjrtfs understand. */

/* Is WORD of -o for mount(8), systemd or the kernel's VFS?  libfuse does not know these. */
static bool options_for_mount(const char *word)
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

int options_add_fuse(struct options *o, const char *word, struct pf_err *err)
{
	if (!*word || options_for_mount(word))
		return 0;
	if (!strcmp(word, "remount"))
		return pf_err_set(
			err, -EINVAL,
			"remount: a mount's options cannot be changed; unmount it, "
			"and mount it with the others");
	if (strchr(word, ','))
		return pf_err_set(err, -EINVAL,
				  "mount option: expected one, found %.80s with a comma",
				  word);
	if (o->n_fuse == MAX_WORDS)
		return pf_err_set(err, -EINVAL, "more than %d mount options", MAX_WORDS);
	o->fuse[o->n_fuse] = strdup(word);
	if (!o->fuse[o->n_fuse])
		return pf_err_set(err, -ENOMEM, "no memory for the options");
	o->n_fuse++;
	return 0;
}

void options_forget_fuse(struct options *o)
{
	while (o->n_fuse) {
		free((char *)(uintptr_t)o->fuse[--o->n_fuse]);
		o->fuse[o->n_fuse] = NULL;
	}
}

int options_take_mode(struct options *o, const char *value, struct pf_err *err)
{
	char *end;
	unsigned long mode = strtoul(value, &end, 8);

	if (*value < '0' || *value > '7' || *end || mode > 07777 ||
	    (mode & S_IRWXU) != S_IRWXU)
		return pf_err_set(err, -EINVAL,
				  "mode: expected an octal mode with all rights for the "
				  "owner, as in 1777 or 2775, found %s",
				  value);
	o->mode = (mode_t)mode;
	return 0;
}

int options_take_group(struct options *o, const char *value, struct pf_err *err)
{
	const struct group *group = getgrnam(value);
	char *end;
	unsigned long gid = strtoul(value, &end, 10);

	if (group)
		gid = group->gr_gid;
	else if (*value < '0' || *value > '9' || *end || gid >= UINT32_MAX)
		return pf_err_set(err, -EINVAL,
				  "group: expected a group's name or number, found %s",
				  value);
	o->has_group = true;
	o->group = (gid_t)gid;
	return 0;
}

/* The effective configuration, as a file that says the same. */

/* PATH, which need not exist, made absolute; the caller's. */
static char *absolute(const char *path)
{
	char cwd[PATH_MAX], *text;

	if (*path == '/')
		return strdup(path);
	if (!getcwd(cwd, sizeof(cwd)))
		return NULL;
	return asprintf(&text, "%s/%s", cwd, path) < 0 ? NULL : text;
}

static void add_bool(struct json_object *o, const char *key, bool value)
{
	json_object_object_add(o, key, json_object_new_boolean(value));
}

static void add_string(struct json_object *list, const char *text)
{
	json_object_array_add(list, json_object_new_string(text));
}

/* O[KEY] is a copy of VALUE, unless that is empty. */
static void add_copy(struct json_object *o, const char *key, struct json_object *value)
{
	if (value && json_object_object_length(value))
		json_object_object_add(o, key, pf_json_copy(value));
}

/* O gets a copy of each key of MORE, which may be NULL. */
static void add_keys(struct json_object *o, struct json_object *more)
{
	if (!more)
		return;
	json_object_object_foreach(more, key, value)
		json_object_object_add(o, key, pf_json_copy(value));
}

static const struct plugin_def *find_def(const struct settings *s, const char *name)
{
	for (unsigned i = 0; i < s->n_defs; i++)
		if (!strcmp(s->defs[i].name, name))
			return &s->defs[i];
	return NULL;
}

/* What plugin NAME is loaded with; PATH: NULL if it is looked for. */
static struct json_object *plugin_json(const struct settings *s, const char *name,
				       const char *path)
{
	const struct plugin_def *def = find_def(s, name);
	struct json_object *o = json_object_new_object();

	pf_json_add_string(o, "name", name);
	if (!path && def)
		path = def->path;
	if (path)
		pf_json_add_string(o, "path", path);
	if (!def)
		return o;
	add_copy(o, "options", def->options);
	add_copy(o, "env", def->env);
	add_keys(o, def->sandbox);
	if (def->log_level >= 0 && def->log_layer >= s->log_layer)
		pf_json_add_int(o, "log_level", def->log_level);
	return o;
}

/* WORD: NAME, PATH or NAME=PATH. */
static void add_plugin(struct json_object *list, const struct settings *s,
		       const char *word)
{
	const char *equals = strchr(word, '='), *slash = strchr(word, '/');
	pf_autofree char *name = NULL, *path = NULL;

	if (equals && (!slash || equals < slash)) {
		name = strndup(word, (size_t)(equals - word));
		path = absolute(equals + 1);
		if (name && path)
			json_object_array_add(list, plugin_json(s, name, path));
	} else if (slash) {
		path = absolute(word);
		if (path)
			add_string(list, path);
	} else {
		json_object_array_add(list, plugin_json(s, word, NULL));
	}
}

static struct json_object *plugins_json(const struct settings *s, const char *source,
					const struct plugin_words *w)
{
	struct json_object *list = json_object_new_array();
	pf_autofree char *copy = source ? strdup(source) : NULL;
	char *at = copy, *word;

	while (at && (word = strsep(&at, ",")))
		add_plugin(list, s, word);
	for (unsigned i = 0; i < w->n_said; i++)
		add_plugin(list, s, w->said[i]);
	if (!source && !w->n_said)
		for (unsigned i = 0; i < s->n_chosen; i++)
			add_plugin(list, s, s->chosen[i]);
	if (!json_object_array_length(list))
		add_plugin(list, s, "cpu");
	return list;
}

static struct json_object *dirs_json(const struct settings *s,
				     const struct plugin_words *w)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < w->n_dirs; i++) {
		pf_autofree char *path = absolute(w->dirs[i]);

		if (path)
			add_string(list, path);
	}
	for (unsigned i = 0; i < s->n_dirs; i++)
		add_string(list, s->dirs[i]);
	return list;
}

static void add_cache(struct json_object *o, const struct cache_options *cache)
{
	pf_autofree char *dir = cache->dir ? absolute(cache->dir) : NULL;

	if (dir)
		pf_json_add_string(o, "cache_dir", dir);
	if (cache->size == UINT64_MAX)
		pf_json_add_string(o, "cache_size", "max");
	else
		pf_json_add_int(o, "cache_size", (int64_t)cache->size);
	add_bool(o, "no_cache", cache->off);
	if (cache->jobs)
		pf_json_add_int(o, "compile_jobs", cache->jobs);
	if (cache->timeout_s)
		pf_json_add_int(o, "compile_timeout", cache->timeout_s);
}

int config_dump(const struct options *o, const char *source, const struct plugin_words *w,
		struct json_object **ret, struct pf_err *err)
{
	const struct settings *s = &o->settings;
	struct json_object *out = json_object_new_object();
	struct json_object *words = json_object_new_array();
	struct json_object *flags = json_object_new_array();
	int r = settings_check_refused(s, err);

	if (r == 0 && (!out || !words || !flags))
		r = pf_err_set(err, -ENOMEM, "no memory for the configuration");
	if (r < 0) {
		json_object_put(out);
		json_object_put(words);
		json_object_put(flags);
		return r;
	}

	add_bool(out, "foreground", o->foreground);
	add_bool(out, "debug", o->debug);
	for (unsigned i = 0; i < o->n_fuse; i++)
		add_string(words, o->fuse[i]);
	json_object_object_add(out, "mount_options", words);
	pf_json_add_int(out, "memory_limit", (int64_t)o->memory_limit);
	if (o->mode) {
		char mode[16];

		snprintf(mode, sizeof(mode), "%04o", (unsigned)o->mode);
		pf_json_add_string(out, "mode", mode);
	}
	if (o->has_group)
		pf_json_add_int(out, "group", o->group);
	add_bool(out, "allow_native", o->allow_native);
	add_cache(out, &o->cache);
	if (s->abandoned_s != ABANDONED)
		pf_json_add_int(out, "abandoned_timeout", (int64_t)s->abandoned_s);
	if (s->devices)
		pf_json_add_int(out, "devices", s->devices);
	if (s->log_level >= 0)
		pf_json_add_int(out, "plugin_log_level", s->log_level);
	json_object_object_add(out, "plugin_dir", dirs_json(s, w));
	json_object_object_add(out, "plugins", plugins_json(s, source, w));
	add_keys(out, s->sandbox);
	add_copy(out, "compile_options", s->compile_options);
	for (unsigned i = 0; i < s->n_flags; i++)
		add_string(flags, s->flags_for_all[i]);
	if (s->n_flags)
		json_object_object_add(out, "flags_for_all", flags);
	else
		json_object_put(flags);
	*ret = out;
	return 0;
}
