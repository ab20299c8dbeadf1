/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: an errno, a sentence, and the names of errnos and of PJRT's codes. */
#define _GNU_SOURCE 1
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "pjrtfs/base.h"

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
	size_t i = len, tail = 0;

	while (i > 0 && tail < 4 && ((unsigned char)text[i - 1] & 0xc0) == 0x80) {
		i--;
		tail++;
	}
	if (i == 0)
		return len;
	unsigned char c = (unsigned char)text[i - 1];
	size_t need = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;

	return tail < need ? i - 1 : len;
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
	size_t old = strnlen(err->text, PF_ERR_TEXT - 1);
	size_t room = PF_ERR_TEXT - 1 - len;

	if (room < 2) {
		old = 0;
	} else {
		memcpy(text + len, ": ", 2);
		len += 2;
		room -= 2;
		if (old > room)
			old = whole_chars(err->text, room);
	}
	memcpy(text + len, err->text, old);
	text[len + old] = '\0';
	memcpy(err->text, text, len + old + 1);
	err->code = code;
	return code;
}

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
	[0] = { "OK", 0 },
	[1] = { "CANCELLED", ECANCELED },
	[2] = { "UNKNOWN", 0 },
	[3] = { "INVALID_ARGUMENT", EINVAL },
	[4] = { "DEADLINE_EXCEEDED", ETIMEDOUT },
	[5] = { "NOT_FOUND", ENOENT },
	[6] = { "ALREADY_EXISTS", EEXIST },
	[7] = { "PERMISSION_DENIED", EACCES },
	[8] = { "RESOURCE_EXHAUSTED", ENOSPC },
	[9] = { "FAILED_PRECONDITION", EBUSY },
	[10] = { "ABORTED", ECONNABORTED },
	[11] = { "OUT_OF_RANGE", ERANGE },
	[12] = { "UNIMPLEMENTED", EOPNOTSUPP },
	[13] = { "INTERNAL", EIO },
	[14] = { "UNAVAILABLE", ENODEV },
	[15] = { "DATA_LOSS", 0 },
	[16] = { "UNAUTHENTICATED", 0 },
};

/* Errnos that no PJRT code maps onto, and the code that describes each best. */
static const struct {
	int err, pjrt_code;
} nearest[] = {
	{ EOVERFLOW, 11 }, { EFBIG, 11 },    { ENAMETOOLONG, 3 }, { E2BIG, 3 },
	{ EISDIR, 3 },     { ENOTDIR, 3 },   { EILSEQ, 3 },       { EPERM, 7 },
	{ ENOMEM, 8 },     { ENOTEMPTY, 9 }, { EINTR, 1 },        { ENOEXEC, 3 },
	{ ENODATA, 5 },    { EPROTO, 13 },
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
