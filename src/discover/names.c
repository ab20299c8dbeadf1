/* SPDX-License-Identifier: Apache-2.0 */
/* Names of plugins, by the names of their files. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* BEFORE and AFTER the name; the first form that matches counts. */
static const struct {
	const char *before, *after;
	unsigned how; /* only with this LOOK_ bit */
} forms[] = {
	{ "pjrt_c_api_", "_plugin", 0 }, /* XLA's targets; JAX, go-xla with a version */
	{ "libpjrt_c_api_", "_plugin", 0 }, /* the same */
	{ "pjrt_plugin_", "", 0 },          /* IREE, Intel, Tenstorrent */
	{ "libpjrt_plugin_", "", 0 },
	{ "pjrt-plugin-", "", 0 },
	{ "pjrt_", "_plugin", 0 },
	{ "libpjrt_", "", 0 },
	{ "", "_pjrt", 0 },             /* XLA's wheels */
	{ "lib", "pjrt", 0 },           /* libneuronpjrt.so */
	{ "", "_plugin", LOOK_PLUGIN }, /* JAX's wheels for GPUs */
	{ "", "", LOOK_ANY },
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

/* The NAME in the LEN bytes at STEM, by their form; false: no form matches. */
static bool find_form(const char *stem, size_t len, unsigned how, const char **name,
		      size_t *name_len)
{
	for (size_t i = 0; i < PF_ARRAY_SIZE(forms); i++) {
		size_t b = strlen(forms[i].before), a = strlen(forms[i].after);

		if ((forms[i].how & how) != forms[i].how || len <= a + b ||
		    strncmp(stem, forms[i].before, b) != 0 ||
		    strncmp(stem + len - a, forms[i].after, a) != 0)
			continue;
		*name = stem + b;
		*name_len = len - a - b;
		return true;
	}
	return false;
}

static bool name_of_file(const char *file, unsigned how, char name[static PF_PLUGIN_NAME],
			 char version[static PF_PLUGIN_VERSION])
{
	const char *after = "", *inner = file;
	size_t stem = stem_of(file, &after), len, inner_len = 0;

	*name = *version = '\0';
	if (!stem)
		return false;
	len = cut_version(file, stem, version);
	if (!*version && *after == '.' && strlen(after + 1) < PF_PLUGIN_VERSION)
		strcpy(version, after + 1);
	if (len == strlen("libtpu") && !strncmp(file, "libtpu", len)) {
		strcpy(name, "tpu");
		return true;
	}
	if ((len == strlen("pjrt_plugin") && !strncmp(file, "pjrt_plugin", len)) ||
	    (len == strlen("libpjrt_plugin") && !strncmp(file, "libpjrt_plugin", len)))
		return true;
	if (how & LOOK_ANY && !find_form(file, len, 0, &inner, &inner_len)) {
		/* No known form: all of "cpu-0.106" is the name. */
		*version = '\0';
		name_clean(file, stem, name);
		return true;
	}
	if (!inner_len && !find_form(file, len, how, &inner, &inner_len))
		return false;
	if (!*version)
		inner_len = cut_version(inner, inner_len, version);
	name_clean(inner, inner_len, name);
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
