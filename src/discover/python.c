/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins in Python's packages, found without running Python. */
#include "internal.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pjrtfs/base/home.h"

/* Packages that hold nothing but plugins, and the groups of entry points called as they. */
static const char *const groups[] = { "jax_plugins", "xla_plugins" };

enum { N_GROUPS = sizeof(groups) / sizeof(groups[0]), MAX_SITES = 64 };

/* Those of one site-packages. */
struct site {
	struct pf_discovery *d;
	int place;
	const char *dir;
	unsigned n_packages;
	char package[128]; /* whose files are looked at: "xla_cpu_pjrt 0.0.1" */
	const char *version;
	const char *group;
};

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), n = strlen(end);

	return len > n && !strcmp(text + len - n, end);
}

static bool is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* --- what wheels' lists of files tell ---------------------------------------------------- */

/* A line of RECORD: PATH,HASH,SIZE. */
static void record_line(struct site *s, char *line)
{
	char name[PF_PLUGIN_NAME], version[MAX_VERSION], path[PATH_MAX];
	unsigned how = LOOK_NAMES;
	const char *base;

	if (*line == '"')
		*strchrnul(++line, '"') = '\0';
	else
		line[strcspn(line, ",\r")] = '\0';
	if (!strstr(line, ".so") || *line == '/' || strstr(line, "..") ||
	    snprintf(path, sizeof(path), "%s/%s", s->dir, line) >= (int)sizeof(path))
		return;
	for (unsigned i = 0; i < N_GROUPS; i++)
		if (!strncmp(line, groups[i], strlen(groups[i])))
			how = LOOK_PLUGIN;
	base = strrchr(path, '/') + 1;
	if (!name_of_file(base, how, name, version))
		return;
	if (!*name) {
		pf_autofree char *by_dir = pf_plugin_name_of(path);

		snprintf(name, sizeof(name), "%s", by_dir ? by_dir : "pjrt_plugin");
	}
	(void)name_of_jax_package(path, name);
	file_add(s->d, s->place, name, *version ? version : s->version, path, s->package);
}

static void read_record(struct site *s, const char *info)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	char path[PATH_MAX], *at;

	if (snprintf(path, sizeof(path), "%s/%s/RECORD", s->dir, info) >=
		    (int)sizeof(path) ||
	    read_text(path, MAX_RECORD, &text) < 0)
		return;
	/* Most have none, and are long. */
	if (!text.data || (!strstr(text.data, "pjrt") && !strstr(text.data, "_plugin") &&
			   !strstr(text.data, "libtpu")))
		return;
	for (at = text.data; at && *at;)
		record_line(s, strsep(&at, "\n"));
}

/* --- entry points ------------------------------------------------------------------------- */

/* KEY = package.module:function [extra]: look in the package's directory. */
static void entry_point(void *arg, const char *key, const char *value)
{
	struct site *s = arg;
	size_t len = strcspn(value, ": \t[");
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/%.*s", s->dir, (int)len, value);

	(void)key;
	if (!len || n >= (int)sizeof(path))
		return;
	for (char *p = path + strlen(s->dir) + 1; *p; p++) {
		if (*p == '.')
			*p = '/';
		else if (!isalnum((unsigned char)*p) && *p != '_')
			return;
	}
	if (!is_dir(path)) {
		/* A module is a file of its package. */
		char *slash = strrchr(path, '/');

		if (slash == path + strlen(s->dir))
			return;
		*slash = '\0';
	}
	look_in_dir(s->d, s->place, path, LOOK_PLUGIN, s->package);
}

static void read_entry_points(struct site *s, const char *info)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s/entry_points.txt", s->dir, info) >=
	    (int)sizeof(path))
		return;
	for (unsigned i = 0; i < N_GROUPS; i++) {
		pf_autobuf struct pf_buf text = PF_BUF_INIT;

		if (read_text(path, MAX_TEXT, &text) == 0)
			ini_each(text.data, groups[i], entry_point, s);
	}
}

static bool look_at_info(void *arg, const char *entry, int type)
{
	struct site *s = arg;
	char *dash;

	(void)type;
	if (!ends_with(entry, ".dist-info"))
		return true;
	snprintf(s->package, sizeof(s->package), "%.*s",
		 (int)(strlen(entry) - strlen(".dist-info")), entry);
	dash = strrchr(s->package, '-');
	if (dash)
		*dash = ' ';
	s->version = dash && strlen(dash + 1) < MAX_VERSION ? dash + 1 : "";
	read_record(s, entry);
	read_entry_points(s, entry);
	*s->package = '\0';
	return ++s->n_packages < MAX_PACKAGES && !s->d->no_memory;
}

/* --- what lies in packages ----------------------------------------------------------------- */

/* In jax_plugins/ and xla_plugins/. */
static bool look_at_plugin(void *arg, const char *entry, int type)
{
	struct site *s = arg;
	char path[PATH_MAX];

	if (type == DT_REG || *entry == '_' ||
	    snprintf(path, sizeof(path), "%s/%s/%s", s->dir, s->group, entry) >=
		    (int)sizeof(path))
		return true;
	if (is_dir(path))
		look_in_dir(s->d, s->place, path, LOOK_PLUGIN, "");
	return !s->d->no_memory;
}

/* In any other package. */
static bool look_at_package(void *arg, const char *entry, int type)
{
	struct site *s = arg;
	char path[PATH_MAX];

	if (type == DT_REG || *entry == '_' || strchr(entry, '.') ||
	    snprintf(path, sizeof(path), "%s/%s", s->dir, entry) >= (int)sizeof(path))
		return true;
	if (is_dir(path))
		look_in_dir(s->d, s->place, path, LOOK_NAMES, "");
	return ++s->n_packages < MAX_PACKAGES && !s->d->no_memory;
}

void look_in_site(struct pf_discovery *d, const char *source, const char *dir)
{
	struct site s = { .d = d, .dir = dir, .version = "" };
	int r;

	s.place = place_add(d, source, dir);
	if (s.place < 0)
		return;
	r = each_entry(dir, look_at_info, &s);
	if (r < 0)
		place_note(d, s.place, true, "%s", strerror(-r));
	for (unsigned i = 0; i < N_GROUPS; i++) {
		char path[PATH_MAX];

		s.group = groups[i];
		if (snprintf(path, sizeof(path), "%s/%s", dir, groups[i]) <
		    (int)sizeof(path))
			(void)each_entry(path, look_at_plugin, &s);
	}
	s.n_packages = 0;
	(void)each_entry(dir, look_at_package, &s);
	if (s.n_packages == MAX_PACKAGES)
		place_note(d, s.place, true,
			   "more than %d packages; the others are not looked at",
			   MAX_PACKAGES);
}

/* --- which Pythons there are ---------------------------------------------------------------- */

struct pythons {
	struct pf_discovery *d;
	const char *source;
	struct {
		dev_t dev;
		ino_t ino;
	} seen[MAX_SITES];
	unsigned n_seen, found; /* found: in this prefix */
	const char *lib;        /* the directory that holds python3.11 */
};

static void try_site(struct pythons *p, const char *python, const char *kind)
{
	char path[PATH_MAX];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s/%s/%s", p->lib, python, kind) >=
		    (int)sizeof(path) ||
	    stat(path, &st) || !S_ISDIR(st.st_mode))
		return;
	p->found++;
	for (unsigned i = 0; i < p->n_seen; i++)
		if (p->seen[i].dev == st.st_dev && p->seen[i].ino == st.st_ino)
			return;
	if (p->n_seen == MAX_SITES)
		return;
	p->seen[p->n_seen].dev = st.st_dev;
	p->seen[p->n_seen++].ino = st.st_ino;
	look_in_site(p->d, p->source, path);
}

static bool look_at_python(void *arg, const char *entry, int type)
{
	struct pythons *p = arg;

	(void)type;
	if (!strncmp(entry, "python3", strlen("python3"))) {
		try_site(p, entry, "site-packages");
		try_site(p, entry, "dist-packages");
	}
	return !p->d->no_memory;
}

/* What pyvenv.cfg tells. */
struct venv {
	char home[PATH_MAX]; /* where the python is that it was made with */
	bool system;         /* that one's packages count, too */
};

static void venv_key(void *arg, const char *key, const char *value)
{
	struct venv *v = arg;

	if (!strcasecmp(key, "home"))
		snprintf(v->home, sizeof(v->home), "%s", value);
	else if (!strcasecmp(key, "include-system-site-packages"))
		v->system = !strcasecmp(value, "true");
}

/* False: PREFIX is no virtual environment. */
static bool read_venv(const char *prefix, struct venv *v)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	char path[PATH_MAX];

	memset(v, 0, sizeof(*v));
	if (snprintf(path, sizeof(path), "%s/pyvenv.cfg", prefix) >= (int)sizeof(path) ||
	    read_text(path, MAX_TEXT, &text) < 0)
		return false;
	ini_each(text.data, "", venv_key, v);
	return true;
}

static void look_in_prefix(struct pythons *p, const char *source, const char *prefix)
{
	static const char *const libs[] = { "lib", "lib64" };
	char path[PATH_MAX];
	struct venv v;

	p->source = source;
	p->found = 0;
	for (unsigned i = 0; i < 2; i++) {
		if (snprintf(path, sizeof(path), "%s/%s", prefix, libs[i]) >=
		    (int)sizeof(path))
			return;
		p->lib = path;
		(void)each_entry(path, look_at_python, p);
	}
	if (!p->found)
		place_note(p->d, place_add(p->d, source, prefix), false,
			   "no Python's packages are there");
	if (read_venv(prefix, &v) && v.system && *v.home == '/') {
		char *slash = strrchr(v.home, '/');

		if (slash > v.home && !strcmp(slash, "/bin")) {
			*slash = '\0';
			/* Not by way of this function: one leads to no other. */
			for (unsigned i = 0; i < 2; i++) {
				snprintf(path, sizeof(path), "%.*s/%s", PATH_MAX - 8,
					 v.home, libs[i]);
				(void)each_entry(path, look_at_python, p);
			}
		}
	}
}

static void look_in_variable(struct pythons *p, const char *source, const char *variable)
{
	const char *prefix = getenv(variable);

	if (prefix && *prefix)
		look_in_prefix(p, source, prefix);
	else
		place_note(p->d, place_add(p->d, source, ""), false, "not set");
}

/* The version that pyenv's shims in ROOT/shims stand for. */
static bool pyenv_prefix(const char *root, char *prefix, size_t size)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	const char *version = getenv("PYENV_VERSION");
	char path[PATH_MAX];

	if (!version || !*version) {
		snprintf(path, sizeof(path), "%.*s/version", PATH_MAX - 10, root);
		if (read_text(path, MAX_TEXT, &text) < 0 || !text.data)
			return false;
		version = text.data;
	}
	if (snprintf(prefix, size, "%s/versions/%.*s", root,
		     (int)strcspn(version, ": \t\r\n"), version) >= (int)size)
		return false;
	return version[0] && is_dir(prefix);
}

/* The prefix of the interpreter DIR/python3. */
static bool prefix_of(const char *dir, char *prefix, size_t size)
{
	char path[PATH_MAX], whole[PATH_MAX];
	struct venv v;
	char *slash;

	if (snprintf(path, sizeof(path), "%s/python3", dir) >= (int)sizeof(path) ||
	    access(path, X_OK) || is_dir(path))
		return false;
	snprintf(prefix, size, "%s", dir);
	slash = strrchr(prefix, '/');
	if (!slash || slash == prefix)
		return false;
	*slash = '\0';
	if (read_venv(prefix, &v))
		return true;
	if (!strcmp(slash + 1, "shims")) {
		char root[PATH_MAX];

		snprintf(root, sizeof(root), "%s", prefix);
		return pyenv_prefix(root, prefix, size);
	}
	if (!realpath(path, whole))
		return false;
	for (int i = 0; i < 2; i++) {
		slash = strrchr(whole, '/');
		if (!slash || slash == whole)
			return false;
		*slash = '\0';
	}
	return snprintf(prefix, size, "%s", whole) < (int)size;
}

static void look_on_path(struct pythons *p)
{
	const char *list = getenv("PATH");
	char prefix[PATH_MAX];

	while (list && *list) {
		size_t len = strcspn(list, ":");
		pf_autofree char *dir = strndup(list, len);

		list += len + (list[len] == ':');
		while (dir && len > 1 && dir[len - 1] == '/')
			dir[--len] = '\0';
		if (dir && *dir == '/' && prefix_of(dir, prefix, sizeof(prefix))) {
			look_in_prefix(p, "python3 on $PATH", prefix);
			return;
		}
	}
	place_note(p->d, place_add(p->d, "python3 on $PATH", ""), false, "there is none");
}

void look_in_python(struct pf_discovery *d, const char *root)
{
	static const char *const prefixes[] = { "/usr/local", "/usr" };
	struct pythons p = { .d = d };
	pf_autofree char *home = pf_home_dir();
	char path[PATH_MAX];

	look_in_variable(&p, "$VIRTUAL_ENV", "VIRTUAL_ENV");
	look_in_variable(&p, "$CONDA_PREFIX", "CONDA_PREFIX");
	look_on_path(&p);
	if (home && snprintf(path, sizeof(path), "%s/.local", home) < (int)sizeof(path))
		look_in_prefix(&p, "the user's Python packages", path);
	for (unsigned i = 0; i < 2; i++)
		if (snprintf(path, sizeof(path), "%s%s", root, prefixes[i]) <
		    (int)sizeof(path))
			look_in_prefix(&p, "the system's Python", path);
}
