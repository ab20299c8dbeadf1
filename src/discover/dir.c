/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at directories. */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int each_entry(const char *dir, bool (*each)(void *arg, const char *name, int type),
	       void *arg)
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

void look_in_dir(struct pf_discovery *d, int place, const char *dir, unsigned how,
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

void look_in_list(struct pf_discovery *d, const char *source, const char *list,
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
