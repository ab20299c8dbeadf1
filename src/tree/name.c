/* Which names are allowed. */
#include <errno.h>
#include <string.h>

#include "internal.h"

/* Bytes of the character at S, of LEN bytes; 0 if it is none (RFC 3629). */
static size_t utf8_len(const unsigned char *s, size_t len)
{
	unsigned char lo = 0x80, hi = 0xbf;
	size_t n;

	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (n > len)
		return 0;
	if (s[0] == 0xe0)
		lo = 0xa0; /* overlong */
	else if (s[0] == 0xed)
		hi = 0x9f; /* surrogates */
	else if (s[0] == 0xf0)
		lo = 0x90;
	else if (s[0] == 0xf4)
		hi = 0x8f; /* beyond U+10FFFF */
	if (s[1] < lo || s[1] > hi)
		return 0;
	for (size_t i = 2; i < n; i++)
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	return n;
}

bool pf_utf8_valid(const char *str, size_t len)
{
	const unsigned char *s = (const unsigned char *)str;

	while (len) {
		size_t n = utf8_len(s, len);

		if (!n)
			return false;
		s += n;
		len -= n;
	}
	return true;
}

int pf_name_check(const char *name, struct pf_err *err)
{
	size_t len = strlen(name);

	if (len > PF_NAME_MAX)
		return pf_err_set(err, -ENAMETOOLONG,
				  "a name of %zu bytes, at most %d are allowed", len,
				  PF_NAME_MAX);
	if (!len)
		return pf_err_set(err, -EINVAL, "an empty name");
	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return pf_err_set(err, -EINVAL, "\"%s\" is no name for a file", name);
	for (const char *p = name; *p; p++) {
		if (*p == '/')
			return pf_err_set(err, -EINVAL, "a slash in the name \"%s\"",
					  name);
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return pf_err_set(err, -EINVAL,
					  "a control character in the name \"%s\"", name);
	}
	if (!pf_utf8_valid(name, len))
		return pf_err_set(err, -EILSEQ, "the name \"%s\" is not UTF-8", name);
	return 0;
}
