/* SPDX-License-Identifier: Apache-2.0 */
/* The places where pjrtfs searches plugins, and their order. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"

/* --- places ------------------------------------------------------------------------------ */

/* Note about PLACE, unless it has a note; WRONG: the note is about an error. */
__attribute__((__format__(__printf__, 4, 5))) static void place_note(
	struct pf_discovery *d, int place, bool wrong, const char *fmt, ...)
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

/* Add a place; its number, or -1: no memory, or there are too many. */
static int place_add(struct pf_discovery *d, const char *source, const char *where)
{
	/* The last place holds the note that there were more. */
	bool full = d->n_places + 1 >= PF_DISCOVER_PLACES;
	struct pf_search_place *p = &d->places[d->n_places];

	if (d->n_places == PF_DISCOVER_PLACES)
		return -1;
	p->source = full ? "places" : source;
	p->where = strdup(full ? "" : where);
	d->no_memory |= !p->where;
	d->n_places++;
	if (full)
		place_note(d, PF_DISCOVER_PLACES - 1, true,
			   "there are more than %d; the others are not looked at",
			   PF_DISCOVER_PLACES - 1);
	return full || !p->where ? -1 : (int)d->n_places - 1;
}

/* --- files ------------------------------------------------------------------------------- */

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_ino == y.st_ino &&
	       x.st_dev == y.st_dev;
}

/* The paths that the pattern TAIL matches below DIR, whose own characters have no special
 * meaning.  The caller calls globfree in any case. */
static void glob_below(const char *dir, const char *tail, glob_t *ret)
{
	char pattern[3 * PATH_MAX], *at = pattern;

	*ret = (glob_t){ .gl_pathc = 0 };
	if (strlen(dir) >= PATH_MAX || strlen(tail) >= PATH_MAX)
		return;
	for (; *dir; dir++) {
		if (strchr("*?[]{},\\", *dir))
			*at++ = '\\';
		*at++ = *dir;
	}
	strcpy(at, tail);
	if (glob(pattern, GLOB_BRACE, NULL, ret))
		ret->gl_pathc = 0;
}

/* Why PATH cannot be a plugin, as far as its inode and its first bytes show; NULL: it can. */
static char *refusal(const char *path)
{
	static const char *const kinds[] = {
		[S_IFDIR >> 12] = "a directory",
		[S_IFIFO >> 12] = "a FIFO",
		[S_IFSOCK >> 12] = "a socket",
		[S_IFBLK >> 12] = "a block device",
		[S_IFCHR >> 12] = "a character device",
	};
	pf_autoclose int fd = -1;
	char magic[4] = "", *why = NULL;
	struct stat st;

	if (stat(path, &st))
		return strdup(strerror(errno));
	if (!S_ISREG(st.st_mode))
		return asprintf(&why, "expected a shared library, found %s",
				kinds[(st.st_mode & S_IFMT) >> 12]) < 0
			       ? NULL
			       : why;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return strdup(strerror(errno));
	if (read(fd, magic, sizeof(magic)) != sizeof(magic) ||
	    memcmp(magic, "\177ELF", sizeof(magic)) != 0)
		return strdup("expected a shared library, found no ELF header");
	return NULL;
}

/*
 * Set the Python package of F, whose PATH lies below the site-packages directory SITE: the one
 * called as PATH's directory, of which pip keeps SITE/PACKAGE-VERSION.dist-info.
 */
static void find_package(struct pf_plugin_file *f, const char *path, const char *site)
{
	const char *at = path + strlen(site) + 1, *slash = strchr(at, '/');
	char tail[PATH_MAX], *dash;
	glob_t infos;

	if (slash &&
	    (!strncmp(at, "jax_plugins/", 12) || !strncmp(at, "xla_plugins/", 12))) {
		at = slash + 1;
		slash = strchr(at, '/');
	}
	if (!slash)
		return;
	snprintf(tail, sizeof(tail), "/%.*s-[0-9]*.dist-info", (int)(slash - at), at);
	glob_below(site, tail, &infos);
	if (infos.gl_pathc) {
		at = strrchr(infos.gl_pathv[0], '/') + 1;
		snprintf(f->package, sizeof(f->package), "%.*s",
			 (int)(strlen(at) - strlen(".dist-info")), at);
		dash = strrchr(f->package, '-');
		if (dash) {
			*dash = ' ';
			if (!*f->version)
				snprintf(f->version, sizeof(f->version), "%s", dash + 1);
		}
	}
	globfree(&infos);
}

/* Add the file PATH, called NAME (NULL: as its path says), to PLACE; borrowed from D.  NULL: a
 * place has it by this name already, or there are too many files. */
static struct pf_plugin_file *file_add(struct pf_discovery *d, int place,
				       const char *name, const char *version,
				       const char *path)
{
	struct pf_plugin_file f = { .place = (unsigned)place };

	if (place < 0)
		return NULL;
	if (d->n_files == PF_DISCOVER_FILES) {
		place_note(d, place, true,
			   "there are more than %d plugins; the others are left out",
			   PF_DISCOVER_FILES);
		return NULL;
	}
	name_of_any_path(path, f.name, f.version);
	if (name) {
		snprintf(f.name, sizeof(f.name), "%s", name);
		snprintf(f.version, sizeof(f.version), "%s", version);
	}
	for (unsigned i = 0; i < d->n_files; i++)
		if (!strcmp(d->files[i].name, f.name) &&
		    same_file(d->files[i].path, path))
			return NULL;
	f.refused = refusal(path);
	f.path = pf_absolute_path(path);
	d->no_memory |= !f.path;
	d->files[d->n_files] = f;
	return &d->files[d->n_files++];
}

void pf_discovery_free(struct pf_discovery *d)
{
	if (!d)
		return;
	for (unsigned i = 0; i < d->n_files; i++) {
		free(d->files[i].path);
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

/* --- directories ------------------------------------------------------------------------- */

/* A directory to look at. */
struct look {
	struct pf_discovery *d;
	int place;
	const char *dir;
	unsigned how;
	const char *site; /* the site-packages directory that it lies in, or NULL */
};

/* Is the file PATH, in L's directory, a plugin's: by its name, or by what it exports? */
static bool is_plugin(const struct look *l, const char *path,
		      char name[static PF_PLUGIN_NAME],
		      char version[static PF_PLUGIN_VERSION])
{
	return name_of_path(path, l->how, name, version) ||
	       (l->how & LOOK_SYMBOL && name_of_jax_library(path, name, version) &&
		library_exports(path, "GetPjrtApi"));
}

/* Look at ENTRY of L's directory, of the d_type TYPE. */
static void look_at(const struct look *l, const char *entry, int type)
{
	char name[PF_PLUGIN_NAME], version[PF_PLUGIN_VERSION], path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/%s/pjrt_plugin.so", l->dir, entry);
	struct pf_plugin_file *f;
	struct stat st;

	if (n >= (int)sizeof(path))
		return;
	if (l->how & LOOK_BELOW &&
	    (type == DT_DIR || type == DT_LNK || type == DT_UNKNOWN) &&
	    lstat(path, &st) == 0) {
		name_clean(entry, strlen(entry), name);
		file_add(l->d, l->place, name, "", path);
	}
	path[n - (int)strlen("/pjrt_plugin.so")] = '\0';
	/* A directory may be called foo.so. */
	if (type == DT_DIR || !is_plugin(l, path, name, version))
		return;
	f = file_add(l->d, l->place, name, version, path);
	if (f && l->site)
		find_package(f, path, l->site);
}

/* Add the plugins in L's directory to its place. */
static void look_in_dir(const struct look *l)
{
	DIR *handle = l->place < 0 ? NULL : opendir(l->dir);
	bool whole = l->place >= 0 && !strcmp(l->dir, l->d->places[l->place].where);
	const char *of = whole ? "" : l->dir, *colon = whole ? "" : ": ";
	int error = handle ? 0 : errno;
	struct dirent *e;
	unsigned n = 0;

	while (handle && !l->d->no_memory) {
		errno = 0;
		e = readdir(handle);
		error = errno;
		if (!e)
			break;
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (n++ == PF_DISCOVER_ENTRIES) {
			place_note(l->d, l->place, true,
				   "%s%smore than %d files; the others are not looked at",
				   of, colon, PF_DISCOVER_ENTRIES);
			break;
		}
		look_at(l, e->d_name, e->d_type);
	}
	if ((error == ENOENT || error == ENOTDIR) && !(l->how & LOOK_MUST_BE))
		place_note(l->d, l->place, false, "%s%snot there", of, colon);
	else if (error)
		place_note(l->d, l->place, true, "%s%s%s", of, colon, strerror(error));
	if (handle)
		closedir(handle);
}

/* --- the searches ------------------------------------------------------------------------ */

enum {
	OWN = 1 << 8, /* only pjrtfs looks there */
	PJRTFS = OWN | LOOK_ANY | LOOK_BELOW,
	MUST = LOOK_MUST_BE,
};

/* A search under way. */
struct searching {
	struct pf_discovery *d;
	const struct pf_discover_config *config;
	const struct search *search; /* the row that is searched */
};

/* Places to search. */
struct search {
	const char *source;
	/* "$NAME": a variable's value, "~/DIR": in the home directory, "/DIR": below the root;
	 * NULL: SOURCE is that */
	const char *where;
	/* Search WHERE, a string of the caller's that may change; not called if it is empty. */
	void (*look)(const struct searching *s, char *where);
	unsigned how;
	size_t list; /* the offset of a list in the config, which is searched instead */
	const char *name; /* of the plugin, if WHERE is a file; look_at_named's */
};

static void look_in_place(const struct searching *s, char *dir)
{
	look_in_dir(&(struct look){ .d = s->d,
				    .place = place_add(s->d, s->search->source, dir),
				    .dir = dir,
				    .how = s->search->how });
}

/* The list of the row in the config, or NULL. */
static char *const *list_of(const struct searching *s)
{
	return *(char *const *const *)((const char *)s->config + s->search->list);
}

static void look_in_dirs(const struct searching *s, char *where)
{
	(void)where;
	for (char *const *dir = list_of(s); dir && *dir; dir++)
		look_in_place(s, *dir);
}

/* Add the files that words name.  A NAME alone says nothing about a place. */
static void add_words(const struct searching *s, char *where)
{
	int place = place_add(s->d, s->search->source, "");
	char name[PF_PLUGIN_NAME];
	bool none = true;

	(void)where;
	for (char *const *word = list_of(s); word && *word; word++) {
		int len = (int)strcspn(*word, "=/");
		bool named = (*word)[len] == '=';

		if (!(*word)[len])
			continue;
		snprintf(name, sizeof(name), "%.*s", len, *word);
		file_add(s->d, place, named ? name : NULL, "",
			 *word + (named ? len + 1 : 0));
		none = false;
	}
	if (none)
		place_note(s->d, place, false, "names none");
}

/* Look in each directory of LIST, which colons separate, and add each of its files. */
static void look_in_list(const struct searching *s, char *list)
{
	struct stat st;
	char *word;

	while ((word = strsep(&list, ":"))) {
		if (!*word)
			continue;
		if (stat(word, &st) || S_ISDIR(st.st_mode))
			look_in_place(s, word);
		else
			file_add(s->d, place_add(s->d, s->search->source, word), NULL, "",
				 word);
	}
}

/* Look at the file WHERE, which is called as the row says, or in the directory WHERE. */
static void look_at_named(const struct searching *s, char *where)
{
	struct stat st;

	if (stat(where, &st) == 0 && S_ISDIR(st.st_mode))
		look_in_place(s, where);
	else
		file_add(s->d, place_add(s->d, s->search->source, where), s->search->name,
			 "", where);
}

/* NAME:PATH,NAME:PATH, as JAX reads it. */
static void add_pairs(const struct searching *s, char *list)
{
	int place = place_add(s->d, s->search->source, "");
	char *word;

	while ((word = strsep(&list, ","))) {
		char *colon = strchr(word, ':');

		if (colon)
			*colon = '\0';
		if (colon && colon[1] && pf_plugin_name_check(word, NULL) == 0)
			file_add(s->d, place, word, "", colon + 1);
		else
			place_note(s->d, place, true,
				   "expected NAME:PATH, found '%s%s%s'", word,
				   colon ? ":" : "", colon ? colon + 1 : "");
	}
}

/* Look in the directories that the ld.so.conf(5) files matching PATTERN name.  The root precedes
 * each path in them. */
static void look_in_linker_dirs(const struct searching *s, char *pattern)
{
	const char *root = s->config->root ? s->config->root : "";
	char *line = NULL, dir[PATH_MAX];
	glob_t files = { 0 };
	size_t cap = 0;

	(void)glob(pattern, GLOB_NOCHECK, NULL, &files);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		FILE *f = fopen(files.gl_pathv[i], "re");

		if (!f)
			place_note(s->d, place_add(s->d, s->search->source, ""),
				   errno != ENOENT, "%s", strerror(errno));
		while (f && getline(&line, &cap, f) > 0) {
			char *word = line + strspn(line, " \t"), *end;

			/* Old files have "=libc5" behind a directory. */
			end = word + strcspn(word, "#=\r\n");
			while (end > word && isblank((unsigned char)end[-1]))
				end--;
			*end = '\0';
			if (*word == '/' && snprintf(dir, sizeof(dir), "%s%s", root,
						     word) < (int)sizeof(dir))
				look_in_place(s, dir);
		}
		if (f)
			fclose(f);
	}
	free(line);
	globfree(&files);
}

/* Look in the packages of the site-packages directory SITE, unless it was a place before. */
static void look_in_site(const struct searching *s, const char *site)
{
	static const struct {
		const char *dirs;
		unsigned how;
	} packages[] = {
		/* these hold nothing but plugins */
		{ "/{jax,xla}_plugins/[!_]*/", LOOK_PLUGIN | LOOK_SYMBOL },
		{ "/[!_]*/", LOOK_NAMES },
		{ "/iree/_pjrt_libs/*/", LOOK_NAMES },
	};
	struct look l = { .d = s->d, .site = site };
	glob_t dirs;

	for (unsigned i = 0; i < s->d->n_places; i++)
		if (s->d->places[i].is_site && same_file(s->d->places[i].where, site))
			return;
	l.place = place_add(s->d, s->search->source, site);
	if (l.place < 0)
		return;
	s->d->places[l.place].is_site = true;
	for (size_t i = 0; i < PF_ARRAY_SIZE(packages); i++) {
		glob_below(site, packages[i].dirs, &dirs);
		l.how = packages[i].how;
		for (size_t k = 0; k < dirs.gl_pathc; k++) {
			dirs.gl_pathv[k][strlen(dirs.gl_pathv[k]) - 1] = '\0';
			l.dir = dirs.gl_pathv[k];
			look_in_dir(&l);
		}
		globfree(&dirs);
	}
}

/* Look in the packages of each Python in PREFIX. */
static void look_in_python(const struct searching *s, char *prefix)
{
	glob_t sites;

	glob_below(prefix, "/lib{,64}/python3*/{site,dist}-packages/", &sites);
	for (size_t i = 0; i < sites.gl_pathc; i++) {
		sites.gl_pathv[i][strlen(sites.gl_pathv[i]) - 1] = '\0';
		look_in_site(s, sites.gl_pathv[i]);
	}
	if (!sites.gl_pathc)
		place_note(s->d, place_add(s->d, s->search->source, prefix), false,
			   "no Python's packages are there");
	globfree(&sites);
}

#define LIST(field) offsetof(struct pf_discover_config, field)

/* In the order of pjrtfs-plugins(7).  Earlier places have precedence. */
static const struct search searches[] = {
	{ "--plugin", NULL, add_words, LOOK_NAMES, LIST(words) },
	{ "--plugin-dir", NULL, look_in_dirs, PJRTFS | MUST, LIST(dirs) },
	{ "the configuration file", NULL, add_words, OWN, LIST(configured) },
	{ "the configuration's plugin_dir", NULL, look_in_dirs, PJRTFS | MUST,
	  LIST(configured_dirs) },
	{ "$PJRTFS_PLUGIN_PATH", NULL, look_in_list, .how = PJRTFS },
	{ "$PJRT_NAMES_AND_LIBRARY_PATHS", NULL, add_pairs, .how = LOOK_NAMES },
	{ "$PJRT_PLUGIN_LIBRARY_PATH", NULL, look_in_list, .how = LOOK_BELOW | MUST },
	{ "$PJRT_PLUGIN_PATH", NULL, look_in_list, .how = LOOK_BELOW | MUST },
	{ "$TPU_LIBRARY_PATH", NULL, look_at_named, .name = "tpu" },
	{ "$PJRT_PLUGIN_TPU_LIB", NULL, look_at_named, .name = "tpu" },
	{ "$PJRT_PLUGIN_CUDA_13_LIB", NULL, look_at_named, .name = "cuda13" },
	{ "$PJRT_PLUGIN_CUDA_12_LIB", NULL, look_at_named, .name = "cuda12" },
	{ "$PJRT_PLUGIN_ROCM_7_LIB", NULL, look_at_named, .name = "rocm7" },
	{ "$PJRT_PLUGIN_NEURON_LIB", NULL, look_at_named, .name = "neuron" },
	{ "$PJRT_PLUGIN_METAL_LIB", NULL, look_at_named, .name = "metal" },
	{ "the user's directory", "~/.local/lib/pjrtfs/plugins", look_in_place,
	  .how = PJRTFS },
	{ "pjrtfs's own directory", "own", look_in_place, .how = PJRTFS },
	{ "GoMLX", "~/.local/lib/go-xla", look_in_place, .how = LOOK_BELOW },
	{ "GoMLX", "~/.local/lib/gomlx/pjrt", look_in_place, .how = LOOK_BELOW },
	{ "GoMLX", "/usr/local/lib/go-xla", look_in_place, .how = LOOK_BELOW },
	{ "GoMLX", "/usr/local/lib/gomlx/pjrt", look_in_place, .how = LOOK_BELOW },
	{ "$LD_LIBRARY_PATH", NULL, look_in_list, .how = LOOK_NAMES },
	{ "/etc/ld.so.conf", NULL, look_in_linker_dirs, .how = LOOK_NAMES },
	{ "/etc/ld.so.conf", "/etc/ld.so.conf.d/*.conf", look_in_linker_dirs,
	  .how = LOOK_NAMES },
	{ "AWS Neuron", "/opt/aws/neuron/lib", look_in_place, .how = LOOK_NAMES },
	{ "$VIRTUAL_ENV", NULL, look_in_python, .how = LOOK_NAMES },
	{ "$CONDA_PREFIX", NULL, look_in_python, .how = LOOK_NAMES },
	{ "python3 on $PATH", "python3", look_in_python, .how = LOOK_NAMES },
	{ "the user's Python packages", "~/.local", look_in_python, .how = LOOK_NAMES },
	{ "the system's Python", "/usr/local", look_in_python, .how = LOOK_NAMES },
	{ "the system's Python", "/usr", look_in_python, .how = LOOK_NAMES },
};

/* The prefix of the first python3 on $PATH: its virtual environment, or where the
 * interpreter itself was installed.  The caller frees it; NULL: not found. */
static char *find_python(void)
{
	pf_autofree char *list = strdup(getenv("PATH") ? getenv("PATH") : "");
	char *at = list, *dir;

	while ((dir = strsep(&at, ":"))) {
		char python[PATH_MAX], venv[PATH_MAX];
		pf_autofree char *whole = NULL;

		snprintf(python, sizeof(python), "%s/python3", dir);
		snprintf(venv, sizeof(venv), "%s/../pyvenv.cfg", dir);
		if (*dir != '/' || access(python, X_OK))
			continue;
		whole = access(venv, F_OK) ? realpath(python, NULL) : strdup(python);
		return whole ? strdup(dirname(dirname(whole))) : NULL;
	}
	return NULL;
}

/* Where S looks, the caller's; NULL: nowhere. */
static char *find_where(const struct search *s, const struct pf_discover_config *c)
{
	const char *where = s->where ? s->where : s->source, *before = NULL;
	pf_autofree char *home = NULL;
	char *path;

	if (*where == '$')
		before = getenv(where + 1);
	else if (!strcmp(where, "own"))
		before = c->own_dir;
	else if (*where == '~')
		before = home = pf_home_dir();
	else if (*where == '/')
		before = c->root ? c->root : "";
	else if (!strcmp(where, "python3"))
		return find_python();
	return before && asprintf(&path, "%s%s", before, strchrnul(where, '/')) >= 0
		       ? path
		       : NULL;
}

static void look(const struct searching *s)
{
	pf_autofree char *where = find_where(s->search, s->config);
	bool has_list = s->search->look == add_words || s->search->look == look_in_dirs;

	if (has_list || (where && *where))
		s->search->look(s, where);
	else
		place_note(s->d, place_add(s->d, s->search->source, ""), false,
			   where                       ? "empty"
			   : *s->search->source == '$' ? "not set"
						       : "there is none");
}

/* By place, then by name, not in the order of readdir(3). */
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
		d->no_memory = !d->places || !d->files;
	}
	for (size_t i = 0; d && !d->no_memory && i < PF_ARRAY_SIZE(searches); i++) {
		const struct pf_plugin_file *f = NULL;

		if (c->own_only && !(searches[i].how & OWN))
			continue;
		look(&(struct searching){ d, c, &searches[i] });
		if (c->until && !d->no_memory)
			f = pf_discovery_pick(d, c->until, NULL, NULL);
		if (f && !f->refused)
			break;
	}
	if (!d || d->no_memory)
		return pf_err_set(err, -ENOMEM, "no memory to look for plugins");
	qsort(d->files, d->n_files, sizeof(*d->files), by_place);
	*ret = pf_steal(&d);
	return 0;
}

/* --- choosing ---------------------------------------------------------------------------- */

/* Does NAME mean F?  NAME may be F's name, its file's name without ".so" or, if F is
 * named after its package, the name that its file alone would give. */
static bool is_called(const struct pf_plugin_file *f, const char *name)
{
	const char *base = strrchr(f->path, '/') + 1;
	size_t len = strlen(name);
	char own[PF_PLUGIN_NAME], version[PF_PLUGIN_VERSION];

	return !strcmp(f->name, name) ||
	       (!strncmp(base, name, len) && !strcmp(base + len, ".so")) ||
	       (name_of_jax_package(f->path, own) && !strcmp(f->name, own) &&
		name_of_path(base, LOOK_PLUGIN, own, version) && !strcmp(own, name));
}

/* Is A newer than B: by API, else by version?  Of equals a pjrt_plugin.so in a directory
 * of its own is newer, else alphabetical order decides, so that the choice is always the
 * same. */
static bool is_newer(const struct pf_plugin_file *a, const struct pf_plugin_file *b,
		     int (*minor_of)(void *arg, const char *path), void *arg)
{
	int by = minor_of ? minor_of(arg, a->path) - minor_of(arg, b->path) : 0;

	if (!by)
		by = strverscmp(a->version, b->version);
	if (!by)
		by = !!strstr(a->path, "/pjrt_plugin.so") -
		     !!strstr(b->path, "/pjrt_plugin.so");
	return (by ? by : strcmp(b->path, a->path)) > 0;
}

const struct pf_plugin_file *pf_discovery_pick(
	const struct pf_discovery *d, const char *name,
	int (*minor_of)(void *arg, const char *path), void *arg)
{
	const struct pf_plugin_file *best = NULL;

	for (unsigned i = 0; i < d->n_files; i++) {
		const struct pf_plugin_file *f = &d->files[i];

		if (!is_called(f, name) || (best && f->refused))
			continue;
		if (!best || best->refused || f->place < best->place ||
		    (f->place == best->place && is_newer(f, best, minor_of, arg)))
			best = f;
	}
	return best;
}
