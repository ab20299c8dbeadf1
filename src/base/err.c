/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: an errno, a sentence of clean UTF-8, the names of errnos and of PJRT's codes. */
#define _GNU_SOURCE 1
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/base.h"

/* --- UTF-8 ---------------------------------------------------------------------------- */

size_t pf_utf8_char(const char *str, size_t len, uint32_t *ret)
{
	const unsigned char *s = (const unsigned char *)str;
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c = s[0];
	size_t n, i;

	if (c < 0x80)
		n = 1;
	else if (c >= 0xc2 && c < 0xe0)
		n = 2, c &= 0x1f;
	else if (c >= 0xe0 && c < 0xf0)
		n = 3, c &= 0x0f;
	else if (c >= 0xf0 && c < 0xf5)
		n = 4, c &= 0x07;
	else
		return 0;
	if (n > len)
		return 0;
	for (i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*ret = c;
	return n;
}

bool pf_utf8_valid(const char *str, size_t len)
{
	uint32_t c;

	for (size_t at = 0, n; at < len; at += n) {
		n = pf_utf8_char(str + at, len - at, &c);
		if (!n)
			return false;
	}
	return true;
}

/* --- sentences ------------------------------------------------------------------------ */

/* Characters that end a line or move a terminal's cursor: C0, DEL, C1, and Unicode's own. */
static bool is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029;
}

/* Keep newlines if LINES. */
static size_t clean(char *text, size_t len, bool lines)
{
	size_t in = 0, out = 0;

	while (in < len) {
		uint32_t c = 0;
		size_t n = pf_utf8_char(text + in, len - in, &c);

		if (n == 0) {
			text[out++] = '?';
			in++;
		} else if (is_control(c) && !(lines && c == '\n')) {
			text[out++] = ' ';
			in += n;
		} else {
			memmove(text + out, text + in, n);
			out += n;
			in += n;
		}
	}
	return out;
}

size_t pf_err_clean(char *text, size_t len)
{
	return clean(text, len, false);
}

/* Drop a character that the end of the buffer cut in two, which would become a '?'. */
static size_t whole_chars(const char *text, size_t len)
{
	size_t i = len;
	uint32_t c;

	while (i > 0 && len - i < 4 && ((unsigned char)text[i - 1] & 0xc0) == 0x80)
		i--;
	return i > 0 && !pf_utf8_char(text + i - 1, len - i + 1, &c) ? i - 1 : len;
}

/* Make LEN bytes of TEXT, which has PF_ERR_TEXT, a pf_err's text; its length is returned. */
static size_t finish(char *text, size_t len, bool lines)
{
	len = clean(text, len, lines);
	while (len && (text[len - 1] == '\n' || text[len - 1] == ' '))
		len--; /* often a newline at the end */
	text[len] = '\0';
	return len;
}

/* Print into TEXT of PF_ERR_TEXT bytes; the result is clean, its length is returned. */
static size_t __attribute__((__format__(__printf__, 2, 0)))
print_clean(char *text, const char *fmt, va_list ap)
{
	int r = vsnprintf(text, PF_ERR_TEXT, fmt, ap);
	size_t len;

	/* No memory for a long field: an empty text still has its code. */
	if (r < 0)
		r = 0;
	len = (size_t)r;
	if (len >= PF_ERR_TEXT)
		len = whole_chars(text, PF_ERR_TEXT - 1);
	return finish(text, len, false);
}

int pf_err_set(struct pf_err *err, int code, const char *fmt, ...)
{
	char text[PF_ERR_TEXT];
	va_list ap;

	assert(code < 0);
	if (!err)
		return code;
	/* Not straight into err: the arguments may point to its old text. */
	va_start(ap, fmt);
	size_t len = print_clean(text, fmt, ap);
	va_end(ap);
	err->code = code;
	err->pjrt_code = -1;
	err->payloads[0] = '\0';
	memcpy(err->text, text, len + 1);
	return code;
}

int pf_err_set_lines(struct pf_err *err, int code, const char *text, size_t len)
{
	assert(code < 0);
	if (!err)
		return code;
	if (len >= PF_ERR_TEXT)
		len = whole_chars(text, PF_ERR_TEXT - 1);
	err->code = code;
	err->pjrt_code = -1;
	err->payloads[0] = '\0';
	if (len)
		memcpy(err->text, text, len);
	finish(err->text, len, true);
	return code;
}

int pf_err_wrap(struct pf_err *err, int code, const char *fmt, ...)
{
	char text[PF_ERR_TEXT];
	va_list ap;

	assert(code < 0);
	if (!err)
		return code;
	va_start(ap, fmt);
	size_t len = print_clean(text, fmt, ap);
	va_end(ap);
	len += (size_t)snprintf(text + len, sizeof(text) - len, ": %s", err->text);
	if (len >= sizeof(text))
		len = whole_chars(text, sizeof(text) - 1);
	memcpy(err->text, text, len);
	err->text[len] = '\0';
	err->code = code;
	return code;
}

/* --- kept by an object ------------------------------------------------------------------ */

void pf_err_keep(struct pf_kept_err *kept, const struct pf_err *err)
{
	char *text = err && err->code ? strdup(err->text) : NULL;

	free(kept->text);
	*kept = (struct pf_kept_err){ .text = text };
	if (err && err->code) {
		kept->code = err->code;
		kept->pjrt_code = err->pjrt_code;
	}
}

int pf_err_recall(const struct pf_kept_err *kept, struct pf_err *ret)
{
	if (!ret)
		return kept->code;
	*ret = (struct pf_err)PF_ERR_INIT;
	if (!kept->code)
		return 0;
	pf_err_set_lines(ret, kept->code, kept->text ? kept->text : "",
			 kept->text ? strlen(kept->text) : 0);
	if (!kept->text)
		pf_err_set(ret, kept->code, "%s", strerrordesc_np(-kept->code));
	ret->pjrt_code = kept->pjrt_code;
	return kept->code;
}

/* --- names ---------------------------------------------------------------------------- */

const char *pf_errno_name(int code)
{
	const char *name = strerrorname_np(code < 0 ? -code : code);

	return name && code ? name : "EIO";
}

/*
 * PJRT's codes, by number.  Several share an errno: pf_pjrt_code_name returns INTERNAL
 * for EIO and PERMISSION_DENIED for EACCES.
 */
static const struct {
	const char *name;
	int err;
} pjrt_codes[] = {
	[PF_PJRT_OK] = { "OK", 0 },
	[PF_PJRT_CANCELLED] = { "CANCELLED", ECANCELED },
	[PF_PJRT_UNKNOWN] = { "UNKNOWN", 0 },
	[PF_PJRT_INVALID_ARGUMENT] = { "INVALID_ARGUMENT", EINVAL },
	[PF_PJRT_DEADLINE_EXCEEDED] = { "DEADLINE_EXCEEDED", ETIMEDOUT },
	[PF_PJRT_NOT_FOUND] = { "NOT_FOUND", ENOENT },
	[PF_PJRT_ALREADY_EXISTS] = { "ALREADY_EXISTS", EEXIST },
	[PF_PJRT_PERMISSION_DENIED] = { "PERMISSION_DENIED", EACCES },
	[PF_PJRT_RESOURCE_EXHAUSTED] = { "RESOURCE_EXHAUSTED", ENOSPC },
	[PF_PJRT_FAILED_PRECONDITION] = { "FAILED_PRECONDITION", EBUSY },
	[PF_PJRT_ABORTED] = { "ABORTED", ECONNABORTED },
	[PF_PJRT_OUT_OF_RANGE] = { "OUT_OF_RANGE", ERANGE },
	[PF_PJRT_UNIMPLEMENTED] = { "UNIMPLEMENTED", EOPNOTSUPP },
	[PF_PJRT_INTERNAL] = { "INTERNAL", EIO },
	[PF_PJRT_UNAVAILABLE] = { "UNAVAILABLE", ENODEV },
	[PF_PJRT_DATA_LOSS] = { "DATA_LOSS", 0 },
	[PF_PJRT_UNAUTHENTICATED] = { "UNAUTHENTICATED", 0 },
};

/* Errnos that no PJRT code maps onto, and the code that describes each best. */
static const struct {
	int err, pjrt_code;
} nearest[] = {
	{ EOVERFLOW, PF_PJRT_OUT_OF_RANGE },
	{ EFBIG, PF_PJRT_OUT_OF_RANGE },
	{ ENAMETOOLONG, PF_PJRT_INVALID_ARGUMENT },
	{ E2BIG, PF_PJRT_INVALID_ARGUMENT },
	{ EISDIR, PF_PJRT_INVALID_ARGUMENT },
	{ ENOTDIR, PF_PJRT_INVALID_ARGUMENT },
	{ EILSEQ, PF_PJRT_INVALID_ARGUMENT },
	{ EPERM, PF_PJRT_PERMISSION_DENIED },
	{ ENOMEM, PF_PJRT_RESOURCE_EXHAUSTED },
	{ ENOTEMPTY, PF_PJRT_FAILED_PRECONDITION },
	{ EINTR, PF_PJRT_CANCELLED },
	{ ENOEXEC, PF_PJRT_INVALID_ARGUMENT },
	{ ENODATA, PF_PJRT_NOT_FOUND },
	{ EPROTO, PF_PJRT_INTERNAL },
};

const char *pf_pjrt_code_name(int pjrt_code, int code)
{
	int err = code < 0 ? -code : code;

	if (pjrt_code >= 0)
		return (size_t)pjrt_code < PF_ARRAY_SIZE(pjrt_codes)
			       ? pjrt_codes[pjrt_code].name
			       : "UNKNOWN";
	for (size_t i = 1; err && i < PF_ARRAY_SIZE(pjrt_codes); i++)
		if (pjrt_codes[i].err == err)
			return pjrt_codes[i].name;
	for (size_t i = 0; i < PF_ARRAY_SIZE(nearest); i++)
		if (nearest[i].err == err)
			return pjrt_codes[nearest[i].pjrt_code].name;
	return "UNKNOWN";
}

int pf_pjrt_code_parse(const char *name)
{
	for (size_t i = 0; i < PF_ARRAY_SIZE(pjrt_codes); i++)
		if (!strcmp(pjrt_codes[i].name, name))
			return (int)i;
	return -1;
}
