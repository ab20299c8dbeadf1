/* SPDX-License-Identifier: Apache-2.0 */
/* Names of parameters as paths in the argument that they are leaves of. */
#include <string.h>

#include "pjrtfs/base/buf.h"
#include "pjrtfs/formats/hlo.h"

/* The string literal at P, without its quotes and backslashes: *END is behind it.  False: it
 * has no end, or an escape that is no character of its own. */
static bool quoted(const char *p, struct pf_buf *out, const char **end)
{
	char quote = *p++;

	for (; *p && *p != quote; p++) {
		if (*p == '\\' && !(*++p && strchr("\\'\"", *p)))
			return false;
		pf_buf_append(out, p, 1);
	}
	*end = p + 1;
	return *p;
}

/* What stands in the brackets at P: a string, a number, or "<flat index 3>". */
static bool bracket(const char *p, struct pf_buf *out, const char **end)
{
	static const char flat[] = "<flat index ";
	size_t n;

	p++;
	if (*p == '\'' || *p == '"') {
		if (!quoted(p, out, &p) || *p != ']')
			return false;
		*end = p + 1;
		return true;
	}
	if (strncmp(p, flat, strlen(flat)) == 0) {
		p += strlen(flat);
		n = strspn(p, "0123456789");
		pf_buf_append(out, p, n);
		if (!n || strncmp(p + n, ">]", 2))
			return false;
		*end = p + n + 2;
		return true;
	}
	n = strcspn(p, "[]");
	pf_buf_append(out, p, n);
	*end = p + n + 1;
	return n && p[n] == ']';
}

static bool convert(const char *name, struct pf_buf *out)
{
	const char *p = name;
	size_t n = strcspn(p, "[.");

	pf_buf_append(out, p, n);
	for (p += n; *p;) {
		pf_buf_append(out, "/", 1);
		if (*p == '[') {
			if (!bracket(p, out, &p))
				return false;
			continue;
		}
		n = strcspn(++p, "[.");
		pf_buf_append(out, p, n);
		p += n;
	}
	return true;
}

char *pf_param_path(const char *name)
{
	pf_autobuf struct pf_buf out = PF_BUF_INIT;

	if (!convert(name, &out))
		return strdup(name);
	pf_buf_append(&out, "", 0);
	return out.failed ? NULL : strdup(out.data);
}
