/* SPDX-License-Identifier: Apache-2.0 */
/* Names of plugins, by the names of their files. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* BEFORE and AFTER the name, or a name for just that; the first form that matches counts. */
static const struct form {
	const char *before, *after;
	unsigned how; /* only with this LOOK_ bit */
	const char
		*name; /* "": the directory's; NULL: what is between BEFORE and AFTER */
} forms[] = {
	{ "libtpu", "", 0, "tpu" },
	{ "pjrt_plugin", "", 0, "" },
	{ "libpjrt_plugin", "", 0, "" },
	{ "pjrt_c_api_", "_plugin", 0, NULL }, /* XLA's; JAX's, go-xla's with a version */
	{ "libpjrt_c_api_", "_plugin", 0, NULL },
	{ "pjrt_plugin_", "", 0, NULL }, /* IREE, Intel, Tenstorrent */
	{ "libpjrt_plugin_", "", 0, NULL },
	{ "pjrt-plugin-", "", 0, NULL },
	{ "pjrt_", "_plugin", 0, NULL },
	{ "libpjrt_", "", 0, NULL },
	{ "", "_pjrt", 0, NULL },             /* XLA's wheels */
	{ "lib", "pjrt", 0, NULL },           /* libneuronpjrt.so */
	{ "", "_plugin", LOOK_PLUGIN, NULL }, /* JAX's wheels for GPUs */
};

/* Length of NAME without ".so" and what follows it; 0: shared libraries have other names. */
static size_t stem_of(const char *name, const char **after)
{
	const char *so = strstr(name, ".so"), *next;

	while (so && (next = strstr(so + 1, ".so")))
		so = next;
	if (!so || so == name)
		return 0;
	*after = so + 3;
	for (const char *p = *after; *p; p++)
		if (*p != '.' && !isdigit((unsigned char)*p))
			return 0;
	return **after == '\0' || **after == '.' ? (size_t)(so - name) : 0;
}

/* The offset in TEXT of a version at its end: "-1.2", "-v1.2", "_v1.2"; LEN: none. */
static size_t cut_version(const char *text, size_t len,
			  char version[static PF_PLUGIN_VERSION])
{
	size_t from = len, cut;

	while (from && (isdigit((unsigned char)text[from - 1]) || text[from - 1] == '.'))
		from--;
	cut = from;
	if (from == len || text[from] == '.')
		return len;
	if (cut && text[cut - 1] == 'v' && cut > 1 && strchr("-_", text[cut - 2]))
		cut -= 2;
	else if (cut && text[cut - 1] == '-')
		cut -= 1;
	else
		return len;
	if (!cut || len - from >= PF_PLUGIN_VERSION)
		return len;
	memcpy(version, text + from, len - from);
	version[len - from] = '\0';
	return cut;
}

void name_clean(const char *text, size_t len, char name[static PF_PLUGIN_NAME])
{
	size_t n = 0;

	for (size_t i = 0; i < len && n + 1 < PF_PLUGIN_NAME; i++) {
		char c = text[i];

		if (!isalnum((unsigned char)c) && !strchr("._-", c))
			c = '_';
		name[n] = n == 0 && c == '.' ? '_' : c;
		n++;
	}
	name[n] = '\0';
}

/* The form of the LEN bytes at STEM, or NULL. */
static const struct form *find_form(const char *stem, size_t len, unsigned how)
{
	for (const struct form *f = forms; f < forms + PF_ARRAY_SIZE(forms); f++) {
		size_t b = strlen(f->before), a = strlen(f->after);

		if ((f->how & how) == f->how && (f->name ? len == a + b : len > a + b) &&
		    !strncmp(stem, f->before, b) && !strncmp(stem + len - a, f->after, a))
			return f;
	}
	return NULL;
}

static bool name_of_file(const char *file, unsigned how, char name[static PF_PLUGIN_NAME],
			 char version[static PF_PLUGIN_VERSION])
{
	const struct form *form;
	const char *after = "";
	size_t stem = stem_of(file, &after), len;

	*name = *version = '\0';
	if (!stem)
		return false;
	len = cut_version(file, stem, version);
	if (!*version && *after == '.' && strlen(after + 1) < PF_PLUGIN_VERSION)
		strcpy(version, after + 1);
	form = find_form(file, len, how);
	if (form && form->name) {
		strcpy(name, form->name);
		return true;
	}
	if (form) {
		file += strlen(form->before);
		len -= strlen(form->before) + strlen(form->after);
		if (!*version)
			len = cut_version(file, len, version);
	} else if (how & LOOK_ANY) {
		*version = '\0'; /* all of "cpu-0.106" is the name */
		len = stem;
	} else {
		return false;
	}
	name_clean(file, len, name);
	return *name;
}

bool name_of_jax_package(const char *path, char name[static PF_PLUGIN_NAME])
{
	static const char group[] = "/jax_plugins/";
	const char *at = strstr(path, group), *end;

	at = at ? at + strlen(group) : NULL;
	end = at ? strchr(at, '/') : NULL;
	if (!end)
		return false;
	name_clean(at, (size_t)(end - at), name);
	return *name;
}

bool name_of_jax_library(const char *path, char name[static PF_PLUGIN_NAME],
			 char version[static PF_PLUGIN_VERSION])
{
	const char *slash = strrchr(path, '/');

	if (!slash || !name_of_file(slash + 1, LOOK_ANY, name, version) ||
	    !name_of_jax_package(path, name))
		return false;
	if (!strncmp(name, "lib", 3) && name[3])
		memmove(name, name + 3, strlen(name + 3) + 1);
	return true;
}

int pf_plugin_name_check(const char *name, struct pf_err *err)
{
	size_t len = 0;

	while (isalnum((unsigned char)name[len]) ||
	       (name[len] && strchr("._-", name[len])))
		len++;
	if (len && len < PF_PLUGIN_NAME && *name != '.' && !name[len])
		return 0;
	return pf_err_set(
		err, -EINVAL,
		"plugin name %.80s: expected up to 32 letters, digits, '.', '_' and "
		"'-', the first of them not '.'",
		name);
}

bool name_of_path(const char *path, unsigned how, char name[static PF_PLUGIN_NAME],
		  char version[static PF_PLUGIN_VERSION])
{
	const char *slash = strrchr(path, '/'), *dir = slash;

	if (!name_of_file(slash ? slash + 1 : path, how, name, version))
		return false;
	if (how & LOOK_PLUGIN)
		(void)name_of_jax_package(path, name);
	if (!*name && slash && slash > path) {
		while (dir > path && dir[-1] != '/')
			dir--;
		name_clean(dir, (size_t)(slash - dir), name);
	}
	if (!*name)
		strcpy(name, "pjrt_plugin");
	return true;
}

void name_of_any_path(const char *path, char name[static PF_PLUGIN_NAME],
		      char version[static PF_PLUGIN_VERSION])
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;

	if (!name_of_path(path, LOOK_ANY, name, version))
		name_clean(base, strlen(base), name);
}

char *pf_plugin_name_of(const char *path)
{
	char name[PF_PLUGIN_NAME], version[PF_PLUGIN_VERSION];

	name_of_any_path(path, name, version);
	return strdup(name);
}
