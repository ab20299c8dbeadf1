/* SPDX-License-Identifier: Apache-2.0 */
/* The places that were looked at, and the files that were found. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int place_add(struct pf_discovery *d, const char *source, const char *where)
{
	struct pf_place *p;

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
	struct pf_place *p;
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

void file_add(struct pf_discovery *d, int place, const char *name, const char *version,
	      const char *path, const char *package)
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
