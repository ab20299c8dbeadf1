/* Which plugins are loaded: from the words of the command line to files. */
#include "plugin_choice.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pjrtfs/base/cleanup.h"

/* A name for the plugin at PATH: its directory's if the file is called pjrt_plugin.so. */
static char *name_of_path(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path, *end = strstr(base, ".so");
	char *name;

	if (!strcmp(base, "pjrt_plugin.so") && slash && slash > path) {
		end = slash;
		for (base = slash; base > path && base[-1] != '/'; base--)
			;
	}
	name = strndup(base, end && end > base ? (size_t)(end - base) : strlen(base));
	for (char *p = name; p && *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
			*p = '_';
	return name;
}

static bool valid_name(const char *name)
{
	if (!*name || *name == '.' || strlen(name) > 32)
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr("._-", *name))
			return false;
	return true;
}

static bool is_file(const char *path)
{
	return access(path, R_OK) == 0;
}

static char *look_in(const char *dir, size_t len, const char *name)
{
	static const char *const forms[] = { "%.*s/%s/pjrt_plugin.so", "%.*s/%s.so" };
	char path[PATH_MAX];

	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), forms[i], (int)len, dir, name);
		if (is_file(path))
			return realpath(path, NULL);
	}
	return NULL;
}

/* The file of the plugin called NAME, in --plugin-dir's, $PJRTFS_PLUGIN_PATH's and the
 * built-in directory; NULL if none. */
static char *find_by_name(const struct plugin_words *w, const char *name)
{
	const char *path = getenv("PJRTFS_PLUGIN_PATH");
	char *found = NULL;

	for (unsigned i = 0; i < w->n_dirs && !found; i++)
		found = look_in(w->dirs[i], strlen(w->dirs[i]), name);
	while (path && *path && !found) {
		size_t len = strcspn(path, ":");

		if (len)
			found = look_in(path, len, name);
		path += len + (path[len] == ':');
	}
	return found ? found : look_in(PLUGINDIR, strlen(PLUGINDIR), name);
}

/* Note the plugin NAME in DIR, unless it is known already. */
static void note_found(struct options *o, const char *dir, size_t len, const char *name)
{
	struct pf_candidate *f = &o->found[o->n_found];
	char *path = valid_name(name) ? look_in(dir, len, name) : NULL;

	for (unsigned i = 0; path && i < o->n_plugins + o->n_found; i++)
		if (!strcmp(path, i < o->n_plugins ? o->plugins[i].path
						   : o->found[i - o->n_plugins].path)) {
			free(path);
			return;
		}
	if (!path || o->n_found == MAX_PLUGINS) {
		free(path);
		return;
	}
	f->path = path;
	f->name = strdup(name);
	if (f->name)
		o->n_found++;
	else
		free(path);
}

/* What else lies in DIR. */
static void look_around(struct options *o, const char *dir, size_t len)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "%.*s", (int)len, dir);
	d = opendir(path);
	while (d && (e = readdir(d)))
		note_found(o, dir, len, e->d_name);
	if (d)
		closedir(d);
}

static void find_others(struct options *o, const struct plugin_words *w)
{
	const char *path = getenv("PJRTFS_PLUGIN_PATH");

	for (unsigned i = 0; i < w->n_dirs; i++)
		look_around(o, w->dirs[i], strlen(w->dirs[i]));
	while (path && *path) {
		size_t len = strcspn(path, ":");

		look_around(o, path, len);
		path += len + (path[len] == ':');
	}
	look_around(o, PLUGINDIR, strlen(PLUGINDIR));
}

static int not_found(const struct plugin_words *w, const char *name, struct pf_err *err)
{
	char dirs[512] = "";

	for (unsigned i = 0; i < w->n_dirs; i++)
		snprintf(dirs + strlen(dirs), sizeof(dirs) - strlen(dirs), "%s, ",
			 w->dirs[i]);
	return pf_err_set(err, -ENOENT,
			  "there is no plugin %s: looked for %s/pjrt_plugin.so and "
			  "%s.so in %s$PJRTFS_PLUGIN_PATH and %s",
			  name, name, name, dirs, PLUGINDIR);
}

/* WORD is NAME, PATH or NAME=PATH. */
static int add_plugin(struct options *o, const struct plugin_words *w, const char *word,
		      struct pf_err *err)
{
	struct pf_candidate *p = &o->plugins[o->n_plugins];
	const char *equals = strchr(word, '='), *slash = strchr(word, '/');

	if (o->n_plugins == MAX_PLUGINS)
		return pf_err_set(err, -EINVAL, "more than %d plugins", MAX_PLUGINS);
	if (equals && (!slash || equals < slash)) {
		p->name = strndup(word, (size_t)(equals - word));
		p->path = realpath(equals + 1, NULL);
		word = equals + 1;
	} else if (slash) {
		p->name = name_of_path(word);
		p->path = realpath(word, NULL);
	} else {
		p->name = strdup(word);
		p->path = valid_name(word) ? find_by_name(w, word) : NULL;
	}
	o->n_plugins++;
	if (!p->path && !slash && !equals && valid_name(word))
		return not_found(w, word, err);
	if (p->name && !valid_name(p->name))
		return pf_err_set(err, -EINVAL,
				  "plugin name %s: expected up to 32 letters, "
				  "digits, '.', '_', '-'",
				  p->name);
	if (!p->path || !p->name)
		return pf_err_set(err, -errno, "plugin %s: %s", word, strerror(errno));
	for (unsigned i = 0; i + 1 < o->n_plugins; i++)
		if (!strcmp(o->plugins[i].name, p->name))
			return pf_err_set(err, -EINVAL,
					  "two plugins are called %s: name one "
					  "with --plugin NAME=PATH",
					  p->name);
	return 0;
}

static int add_source(struct options *o, const struct plugin_words *w, const char *source,
		      struct pf_err *err)
{
	pf_autofree char *copy = strdup(source);
	char *at = copy, *word;
	int r = 0;

	if (!copy)
		return pf_err_set(err, -ENOMEM, "no memory");
	while (r == 0 && (word = strsep(&at, ",")))
		r = *word ? add_plugin(o, w, word, err)
			  : pf_err_set(err, -EINVAL, "SOURCE %s has an empty name",
				       source);
	return r;
}

int plugin_choice(struct options *o, const struct plugin_words *w, const char *source,
		  struct pf_err *err)
{
	int r = 0;

	if (source || !w->n_said)
		r = add_source(o, w, source ? source : "cpu", err);
	for (unsigned i = 0; i < w->n_said && r == 0; i++)
		r = add_plugin(o, w, w->said[i], err);
	if (r < 0)
		return r;
	find_others(o, w);
	o->source = strdup(source ? source : o->plugins[0].name);
	return o->source ? 0 : -ENOMEM;
}
