/* SPDX-License-Identifier: Apache-2.0 */
/* Where plugins are looked for, and in which order. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"

/* The small files that tell where to look. */

int read_text(const char *path, size_t max, struct pf_buf *out)
{
	pf_autoclose int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	size_t done = 0;
	ssize_t n;
	char *at;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if ((uint64_t)st.st_size > max)
		return -EFBIG;
	at = pf_buf_reserve(out, (size_t)st.st_size + 1);
	if (!at)
		return -ENOMEM;
	/* It may grow or shrink meanwhile: what there is of its size counts. */
	while (done < (size_t)st.st_size &&
	       (n = read(fd, at + done, (size_t)st.st_size - done)) > 0)
		done += (size_t)n;
	at[done] = '\0';
	out->len += done;
	return 0;
}

static char *trim(char *s)
{
	char *end;

	while (isspace((unsigned char)*s))
		s++;
	for (end = s + strlen(s); end > s && isspace((unsigned char)end[-1]); end--)
		;
	*end = '\0';
	return s;
}

/* --- ld.so.conf -------------------------------------------------------------------------- */

struct ldconf {
	const char *root;
	void (*each)(void *arg, const char *dir);
	void *arg;
	unsigned n_files, depth;
};

static int ldconf_file(struct ldconf *l, const char *path);

/* "include PATTERN...", relative to the directory of the file AT. */
static void ldconf_include(struct ldconf *l, const char *at, char *patterns)
{
	const char *slash = strrchr(at, '/');
	char *save = NULL, whole[PATH_MAX];

	for (char *word = strtok_r(patterns, " \t", &save); word;
	     word = strtok_r(NULL, " \t", &save)) {
		glob_t g = { 0 };
		int n = *word == '/'
				? snprintf(whole, sizeof(whole), "%s%s", l->root, word)
				: snprintf(whole, sizeof(whole), "%.*s/%s",
					   slash ? (int)(slash - at) : 1,
					   slash ? at : ".", word);

		if (n < (int)sizeof(whole) && glob(whole, 0, NULL, &g) == 0)
			for (size_t i = 0; i < g.gl_pathc; i++)
				(void)ldconf_file(l, g.gl_pathv[i]);
		globfree(&g);
	}
}

static void ldconf_line(struct ldconf *l, const char *at, char *line)
{
	char dir[PATH_MAX];

	line[strcspn(line, "#")] = '\0';
	line = trim(line);
	if (!strncmp(line, "include", 7) && isspace((unsigned char)line[7])) {
		ldconf_include(l, at, line + 8);
		return;
	}
	if (!strncmp(line, "hwcap", 5) && isspace((unsigned char)line[5]))
		return;
	/* Old files have "=libc5" behind a directory. */
	line[strcspn(line, "=")] = '\0';
	line = trim(line);
	if (*line == '/' &&
	    snprintf(dir, sizeof(dir), "%s%s", l->root, line) < (int)sizeof(dir))
		l->each(l->arg, dir);
}

static int ldconf_file(struct ldconf *l, const char *path)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	char *at;
	int r;

	if (l->depth == MAX_LDCONF_DEPTH || l->n_files == MAX_LDCONF_FILES)
		return -ELOOP;
	l->n_files++;
	r = read_text(path, MAX_TEXT, &text);
	if (r < 0)
		return r;
	l->depth++;
	for (at = text.data; at && *at;) {
		char *line = strsep(&at, "\n");

		ldconf_line(l, path, line);
	}
	l->depth--;
	return 0;
}

int ldconf_read(const char *path, const char *root,
		void (*each)(void *arg, const char *dir), void *arg)
{
	struct ldconf l = { .root = root, .each = each, .arg = arg };

	return ldconf_file(&l, path);
}

/* --- INI files: pyvenv.cfg, entry_points.txt --------------------------------------------- */

void ini_each(char *text, const char *section,
	      void (*each)(void *arg, const char *key, const char *value), void *arg)
{
	bool inside = !*section;

	while (text && *text) {
		char *line = strsep(&text, "\n"), *equals;

		/* A line that goes on another one begins with a blank: nobody needs those. */
		if (isspace((unsigned char)*line) || *line == '#' || *line == ';')
			continue;
		line = trim(line);
		if (*line == '[') {
			line[strcspn(line, "]")] = '\0';
			inside = !strcmp(trim(line + 1), section);
			continue;
		}
		equals = strchr(line, '=');
		if (!inside || !equals)
			continue;
		*equals = '\0';
		each(arg, trim(line), trim(equals + 1));
	}
}

/* The places that were looked at, and the files that were found. */

/* Add a place; its number, or -1: no memory, or there are too many. */
static int place_add(struct pf_discovery *d, const char *source, const char *where)
{
	struct pf_search_place *p;

	if (d->n_places == PF_DISCOVER_PLACES)
		return -1;
	if (d->n_places + 1 == PF_DISCOVER_PLACES) {
		/* The last one says that there were more. */
		source = "places";
		where = "";
	}
	p = &d->places[d->n_places];
	p->source = source;
	p->where = strdup(where);
	if (!p->where) {
		d->no_memory = true;
		return -1;
	}
	d->n_places++;
	if (d->n_places < PF_DISCOVER_PLACES)
		return (int)d->n_places - 1;
	place_note(d, PF_DISCOVER_PLACES - 1, true,
		   "there are more than %d; the others are not looked at",
		   PF_DISCOVER_PLACES - 1);
	return -1;
}

void place_note(struct pf_discovery *d, int place, bool wrong, const char *fmt, ...)
{
	struct pf_search_place *p;
	va_list ap;

	if (place < 0 || d->places[place].note)
		return;
	p = &d->places[place];
	va_start(ap, fmt);
	if (vasprintf(&p->note, fmt, ap) < 0) {
		p->note = NULL;
		d->no_memory = true;
	}
	va_end(ap);
	p->wrong = wrong;
}

/* --- files ------------------------------------------------------------------------------- */

static const char *kind_of(mode_t mode)
{
	return S_ISDIR(mode)    ? "a directory"
	       : S_ISFIFO(mode) ? "a FIFO"
	       : S_ISSOCK(mode) ? "a socket"
	       : S_ISBLK(mode)  ? "a block device"
				: "a character device";
}

/* Why PATH can be no plugin, as far as that shows from outside; NULL: nothing.  ST is set
 * where there is such a file. */
static char *refusal(const char *path, struct stat *st)
{
	pf_autoclose int fd = -1;
	char magic[4] = "";
	char *why = NULL;
	int r = 0;

	memset(st, 0, sizeof(*st));
	if (stat(path, st))
		return strdup(strerror(errno));
	if (!S_ISREG(st->st_mode)) {
		r = asprintf(&why, "expected a shared library, found %s",
			     kind_of(st->st_mode));
		return r < 0 ? NULL : why;
	}
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return strdup(strerror(errno));
	if (read(fd, magic, sizeof(magic)) != sizeof(magic) ||
	    memcmp(magic, "\177ELF", sizeof(magic)) != 0)
		return strdup("it is no shared library: it does not begin as one");
	return NULL;
}

/* Is the file that ST tells of there already, as NAME? */
static bool is_known(const struct pf_discovery *d, const char *name,
		     const struct stat *st)
{
	struct stat other;

	for (unsigned i = 0; i < d->n_files; i++)
		if (!strcmp(d->files[i].name, name) &&
		    stat(d->files[i].path, &other) == 0 && other.st_ino == st->st_ino &&
		    other.st_dev == st->st_dev)
			return true;
	return false;
}

static char *absolute(const char *path)
{
	pf_autofree char *cwd = NULL;
	char *whole = NULL;

	if (*path == '/')
		return strdup(path);
	cwd = getcwd(NULL, 0);
	if (!cwd || asprintf(&whole, "%s/%s", strcmp(cwd, "/") ? cwd : "", path) < 0)
		return NULL;
	return whole;
}

/*
 * Add the file PATH, called NAME, to PLACE; a file that is known by this name already, in
 * whatever place, is not added.  VERSION, PACKAGE: may be "".
 */
static void file_add(struct pf_discovery *d, int place, const char *name,
		     const char *version, const char *path, const char *package)
{
	struct pf_plugin_file *f;
	struct stat st;
	char *why;

	if (place < 0)
		return;
	if (d->n_files == PF_DISCOVER_FILES) {
		place_note(d, place, true,
			   "there are more than %d plugins; the others are left out",
			   PF_DISCOVER_FILES);
		return;
	}
	why = refusal(path, &st);
	if (st.st_ino && is_known(d, name, &st)) {
		free(why);
		return;
	}
	f = &d->files[d->n_files];
	f->name = strdup(name);
	f->path = absolute(path);
	f->version = strdup(version);
	f->package = strdup(package);
	f->refused = why;
	f->place = (unsigned)place;
	d->n_files++; /* pf_discovery_free frees what there is of it */
	if (!f->name || !f->path || !f->version || !f->package)
		d->no_memory = true;
}

void pf_discovery_free(struct pf_discovery *d)
{
	if (!d)
		return;
	for (unsigned i = 0; i < d->n_files; i++) {
		free(d->files[i].name);
		free(d->files[i].path);
		free(d->files[i].version);
		free(d->files[i].package);
		free(d->files[i].refused);
	}
	for (unsigned i = 0; i < d->n_places; i++) {
		free(d->places[i].where);
		free(d->places[i].note);
	}
	free(d->files);
	free(d->places);
	free(d);
}

/* --- choosing ---------------------------------------------------------------------------- */

static bool is_called(const struct pf_plugin_file *f, const char *name)
{
	const char *slash = strrchr(f->path, '/');
	const char *base = slash ? slash + 1 : f->path;
	size_t len = strlen(name);
	char own[PF_PLUGIN_NAME], version[MAX_VERSION];

	return !strcmp(f->name, name) ||
	       (!strncmp(base, name, len) && !strcmp(base + len, ".so")) ||
	       /* called as a package: what the file's name tells means it, too */
	       (name_of_jax_package(f->path, own) && !strcmp(f->name, own) &&
		name_of_file(base, LOOK_PLUGIN, own, version) && !strcmp(own, name));
}

/* In a directory of its own goes before; then the alphabet decides, so that it is always the
 * same. */
static int by_path(const struct pf_plugin_file *a, const struct pf_plugin_file *b)
{
	bool own_a = strstr(a->path, "/pjrt_plugin.so"),
	     own_b = strstr(b->path, "/pjrt_plugin.so");

	return own_a != own_b ? own_a - own_b : strcmp(b->path, a->path);
}

static bool is_newer(const struct pf_plugin_file *a, const struct pf_plugin_file *b,
		     int (*minor_of)(void *arg, const char *path), void *arg)
{
	int by_api = minor_of ? minor_of(arg, a->path) - minor_of(arg, b->path) : 0;
	int by_version = by_api ? by_api : version_compare(a->version, b->version);

	return (by_version ? by_version : by_path(a, b)) > 0;
}

const struct pf_plugin_file *pf_discovery_pick(
	const struct pf_discovery *d, const char *name,
	int (*minor_of)(void *arg, const char *path), void *arg)
{
	const struct pf_plugin_file *best = NULL;

	for (unsigned i = 0; i < d->n_files; i++) {
		const struct pf_plugin_file *f = &d->files[i];

		if (f->refused || !is_called(f, name) || (best && f->place > best->place))
			continue;
		if (!best || f->place < best->place || is_newer(f, best, minor_of, arg))
			best = f;
	}
	return best;
}

const struct pf_plugin_file *pf_discovery_refused(const struct pf_discovery *d,
						  const char *name)
{
	for (unsigned i = 0; i < d->n_files; i++)
		if (d->files[i].refused && is_called(&d->files[i], name))
			return &d->files[i];
	return NULL;
}

/* Looking at directories. */

/*
 * Call EACH for the names in DIR, but "." and "..", with d_type, until it returns false.  0,
 * or -errno (E2BIG: there are more than PF_DISCOVER_ENTRIES).
 */
static int each_entry(const char *dir,
		      bool (*each)(void *arg, const char *name, int type), void *arg)
{
	DIR *handle = opendir(dir);
	struct dirent *e;
	unsigned n = 0;
	int r = 0;

	if (!handle)
		return -errno;
	while (r == 0 && (errno = 0, e = readdir(handle))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (++n > PF_DISCOVER_ENTRIES)
			r = -E2BIG;
		else if (!each(arg, e->d_name, e->d_type))
			break;
	}
	if (!e && errno)
		r = -errno;
	closedir(handle);
	return r;
}

struct look {
	struct pf_discovery *d;
	int place;
	const char *dir;
	unsigned how;
	const char *package;
};

/* DIR/ENTRY may be the directory of a pjrt_plugin.so. */
static void look_below(const struct look *l, const char *entry, int type)
{
	char path[PATH_MAX], name[PF_PLUGIN_NAME];
	struct stat st;

	if (type != DT_DIR && type != DT_LNK && type != DT_UNKNOWN)
		return;
	if (snprintf(path, sizeof(path), "%s/%s/pjrt_plugin.so", l->dir, entry) >=
	    (int)sizeof(path))
		return;
	if (lstat(path, &st))
		return;
	name_clean(entry, strlen(entry), name);
	file_add(l->d, l->place, name, "", path, l->package);
}

static bool look_at(void *arg, const char *entry, int type)
{
	const struct look *l = arg;
	char name[PF_PLUGIN_NAME], version[MAX_VERSION], path[PATH_MAX];

	if (l->d->no_memory)
		return false;
	if (l->how & LOOK_BELOW)
		look_below(l, entry, type);
	if (!name_of_file(entry, l->how, name, version))
		return true;
	/* Directories are not: foo.so/ is nobody's plugin. */
	if (type == DT_DIR ||
	    snprintf(path, sizeof(path), "%s/%s", l->dir, entry) >= (int)sizeof(path))
		return true;
	if (l->how & LOOK_PLUGIN)
		(void)name_of_jax_package(path, name);
	if (*name) {
		file_add(l->d, l->place, name, version, path, l->package);
	} else {
		pf_autofree char *by_dir = pf_plugin_name_of(path);

		file_add(l->d, l->place, by_dir ? by_dir : "pjrt_plugin", version, path,
			 l->package);
	}
	return true;
}

/* Add what lies in DIR to PLACE.  PACKAGE as in file_add. */
static void look_in_dir(struct pf_discovery *d, int place, const char *dir, unsigned how,
			const char *package)
{
	struct look l = {
		.d = d, .place = place, .dir = dir, .how = how, .package = package
	};
	int r = place < 0 ? 0 : each_entry(dir, look_at, &l);
	bool whole = place >= 0 && !strcmp(dir, d->places[place].where);
	const char *of = whole ? "" : dir, *colon = whole ? "" : ": ";

	if (r == -E2BIG)
		place_note(d, place, true,
			   "%s%smore than %d files; the others are not looked at", of,
			   colon, PF_DISCOVER_ENTRIES);
	else if ((r == -ENOENT || r == -ENOTDIR) && !(how & LOOK_MUST_BE))
		place_note(d, place, false, "%s%snot there", of, colon);
	else if (r < 0)
		place_note(d, place, true, "%s%s%s", of, colon, strerror(-r));
}

/* Add a place for each directory or file of LIST, which has colons between them. */
static void look_in_list(struct pf_discovery *d, const char *source, const char *list,
			 unsigned how)
{
	if (!list || !*list) {
		place_note(d, place_add(d, source, ""), false,
			   list ? "empty" : "not set");
		return;
	}
	while (*list) {
		size_t len = strcspn(list, ":");
		pf_autofree char *word = strndup(list, len);
		struct stat st;

		list += len + (list[len] == ':');
		if (!word) {
			d->no_memory = true;
			return;
		}
		if (!*word)
			continue;
		if (stat(word, &st) == 0 && !S_ISDIR(st.st_mode)) {
			pf_autofree char *name = pf_plugin_name_of(word);
			char told[PF_PLUGIN_NAME], version[MAX_VERSION] = "";
			const char *slash = strrchr(word, '/');

			(void)name_of_file(slash ? slash + 1 : word, 0, told, version);
			file_add(d, place_add(d, source, word), name ? name : "", version,
				 word, "");
		} else {
			look_in_dir(d, place_add(d, source, word), word, how, "");
		}
	}
}

/* Plugins in Python's packages, found without running Python. */

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

/* Add the packages in SITE, a site-packages directory. */
static void look_in_site(struct pf_discovery *d, const char *source, const char *dir)
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

/* Add places for the packages of every Python there is. */
static void look_in_python(struct pf_discovery *d, const char *root)
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

static void add_named(struct pf_discovery *d, const char *source,
		      const struct pf_named *named, unsigned n)
{
	int place = place_add(d, source, "");

	if (!n)
		place_note(d, place, false, "names none");
	for (unsigned i = 0; i < n; i++)
		file_add(d, place, named[i].name, "", named[i].path, "");
}

static void look_in_dirs(struct pf_discovery *d, const struct pf_discover_config *c)
{
	for (unsigned i = 0; i < c->n_dirs; i++)
		look_in_dir(d, place_add(d, "--plugin-dir", c->dirs[i]), c->dirs[i],
			    LOOK_ANY | LOOK_BELOW | LOOK_MUST_BE, "");
}

/* NAME:PATH,NAME:PATH, as JAX reads it. */
static void look_in_jax_list(struct pf_discovery *d, const struct pf_discover_config *c)
{
	const char *list = getenv("PJRT_NAMES_AND_LIBRARY_PATHS");
	int place = place_add(d, "$PJRT_NAMES_AND_LIBRARY_PATHS", "");
	pf_autofree char *copy = strdup(list ? list : "");
	char *at = list && *list ? copy : NULL, *word;

	(void)c;
	if (!list || !*list)
		place_note(d, place, false, list ? "empty" : "not set");
	if (!copy)
		d->no_memory = true;
	while ((word = strsep(&at, ","))) {
		char *colon = strchr(word, ':');

		if (colon)
			*colon = '\0';
		if (colon && colon[1] && pf_plugin_name_valid(word))
			file_add(d, place, word, "", colon + 1, "");
		else
			place_note(d, place, true, "expected NAME:PATH, found '%s%s%s'",
				   word, colon ? ":" : "", colon ? colon + 1 : "");
	}
}

static void look_in_own_path(struct pf_discovery *d, const struct pf_discover_config *c)
{
	(void)c;
	look_in_list(d, "$PJRTFS_PLUGIN_PATH", getenv("PJRTFS_PLUGIN_PATH"),
		     LOOK_ANY | LOOK_BELOW);
}

static void look_in_paths(struct pf_discovery *d, const struct pf_discover_config *c)
{
	(void)c;
	look_in_list(d, "$PJRT_PLUGIN_LIBRARY_PATH", getenv("PJRT_PLUGIN_LIBRARY_PATH"),
		     LOOK_BELOW | LOOK_MUST_BE);
	look_in_list(d, "$PJRT_PLUGIN_PATH", getenv("PJRT_PLUGIN_PATH"),
		     LOOK_BELOW | LOOK_MUST_BE);
}

static void look_in_own_dir(struct pf_discovery *d, const struct pf_discover_config *c)
{
	if (c->own_dir)
		look_in_dir(d, place_add(d, "pjrtfs's own directory", c->own_dir),
			    c->own_dir, LOOK_ANY | LOOK_BELOW, "");
}

/* Where go-xla and gopjrt install plugins. */
static void look_in_go(struct pf_discovery *d, const struct pf_discover_config *c)
{
	static const char *const dirs[] = { "/.local/lib/go-xla",
					    "/.local/lib/gomlx/pjrt",
					    "/usr/local/lib/go-xla",
					    "/usr/local/lib/gomlx/pjrt" };
	pf_autofree char *home = pf_home_dir();
	char path[PATH_MAX];

	for (unsigned i = 0; i < 4; i++) {
		const char *before = i < 2 ? home : c->root ? c->root : "";

		if (!before || snprintf(path, sizeof(path), "%s%s", before, dirs[i]) >=
				       (int)sizeof(path))
			continue;
		look_in_dir(d, place_add(d, "GoMLX", path), path, LOOK_BELOW, "");
	}
}

static void look_in_ld_path(struct pf_discovery *d, const struct pf_discover_config *c)
{
	(void)c;
	look_in_list(d, "$LD_LIBRARY_PATH", getenv("LD_LIBRARY_PATH"), LOOK_NAMES);
}

static void ld_dir(void *arg, const char *dir)
{
	struct pf_discovery *d = arg;

	look_in_dir(d, place_add(d, "/etc/ld.so.conf", dir), dir, LOOK_NAMES, "");
}

static void look_in_ld_conf(struct pf_discovery *d, const struct pf_discover_config *c)
{
	const char *root = c->root ? c->root : "";
	char path[PATH_MAX];
	int r = -ENAMETOOLONG;

	if (snprintf(path, sizeof(path), "%s/etc/ld.so.conf", root) < (int)sizeof(path))
		r = ldconf_read(path, root, ld_dir, d);
	if (r < 0)
		place_note(d, place_add(d, "/etc/ld.so.conf", ""), r != -ENOENT, "%s",
			   strerror(-r));
}

static void look_in_neuron(struct pf_discovery *d, const struct pf_discover_config *c)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/opt/aws/neuron/lib",
		     c->root ? c->root : "") < (int)sizeof(path))
		look_in_dir(d, place_add(d, "AWS Neuron", path), path, LOOK_NAMES, "");
}

static void look_in_pythons(struct pf_discovery *d, const struct pf_discover_config *c)
{
	look_in_python(d, c->root ? c->root : "");
}

static void look_at_said(struct pf_discovery *d, const struct pf_discover_config *c)
{
	add_named(d, "--plugin", c->said, c->n_said);
}

static void look_at_configured(struct pf_discovery *d, const struct pf_discover_config *c)
{
	add_named(d, "the configuration file", c->configured, c->n_configured);
	for (unsigned i = 0; i < c->n_configured_dirs; i++)
		look_in_dir(d,
			    place_add(d, "the configuration's plugin_dir",
				      c->configured_dirs[i]),
			    c->configured_dirs[i], LOOK_ANY | LOOK_BELOW | LOOK_MUST_BE,
			    "");
}

/* The order of the manual. */
static const struct {
	void (*look)(struct pf_discovery *d, const struct pf_discover_config *c);
	bool own; /* a place that only pjrtfs looks at */
} steps[] = {
	{ look_at_said, false },      { look_in_dirs, true },
	{ look_at_configured, true }, { look_in_own_path, true },
	{ look_in_jax_list, false },  { look_in_paths, false },
	{ look_in_own_dir, true },    { look_in_go, false },
	{ look_in_ld_path, false },   { look_in_ld_conf, false },
	{ look_in_neuron, false },    { look_in_pythons, false },
};

/* By place, then by name, whatever order a directory has. */
static int by_place(const void *a, const void *b)
{
	const struct pf_plugin_file *x = a, *y = b;
	int by_name = strcmp(x->name, y->name);

	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return by_name ? by_name : strcmp(x->path, y->path);
}

int pf_discover(const struct pf_discover_config *c, struct pf_discovery **ret,
		struct pf_err *err)
{
	PF_CLEANUP(pf_discovery_freep) struct pf_discovery *d = calloc(1, sizeof(*d));

	if (d) {
		d->places = calloc(PF_DISCOVER_PLACES, sizeof(*d->places));
		d->files = calloc(PF_DISCOVER_FILES, sizeof(*d->files));
	}
	if (!d || !d->places || !d->files)
		return pf_err_set(err, -ENOMEM, "no memory to look for plugins");
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (c->own_only && !steps[i].own)
			continue;
		steps[i].look(d, c);
		if (d->no_memory)
			return pf_err_set(err, -ENOMEM, "no memory to look for plugins");
		if (c->until && pf_discovery_pick(d, c->until, NULL, NULL))
			break;
	}
	qsort(d->files, d->n_files, sizeof(*d->files), by_place);
	*ret = pf_steal(&d);
	return 0;
}
