/* SPDX-License-Identifier: Apache-2.0 */
/* Reading JSON (RFC 8259) token by token. */
#include "reader.h"

#include <errno.h>
#include <string.h>

#include "pjrtfs/base/utf8.h"

int pf_reader_bad(struct pf_reader *rd, const char *want)
{
	size_t left = (size_t)(rd->end - rd->p);

	if (left == 0)
		return pf_err_set(rd->err, -EINVAL, "expected %s, found its end", want);
	/* The bytes are anything at all: pf_err_set makes them fit to print. */
	return pf_err_set(rd->err, -EINVAL, "expected %s, found \"%.*s\" at byte %zu",
			  want, left < 16 ? (int)left : 16, rd->p,
			  (size_t)(rd->p - rd->start) + rd->offset);
}

static void skip_space(struct pf_reader *rd)
{
	while (rd->p < rd->end && *rd->p && strchr(" \t\r\n", *rd->p))
		rd->p++;
}

int pf_reader_expect(struct pf_reader *rd, char c, const char *want)
{
	skip_space(rd);
	if (rd->p == rd->end || *rd->p != c)
		return pf_reader_bad(rd, want);
	rd->p++;
	return 0;
}

int pf_reader_next(struct pf_reader *rd, char close, bool *first)
{
	int r;

	skip_space(rd);
	if (rd->p < rd->end && *rd->p == close) {
		rd->p++;
		return 0;
	}
	if (!*first) {
		r = pf_reader_expect(rd, ',', close == '}' ? "',' or '}'" : "',' or ']'");
		if (r < 0)
			return r;
	}
	*first = false;
	return 1;
}

static size_t put_utf8(char *dst, uint32_t c)
{
	static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		dst[i] = (char)(0x80 | (c & 0x3f));
	dst[0] = (char)(lead[n] | c);
	return n;
}

/* Four digits at the reader's place, which is behind "\u". */
static int read_hex(struct pf_reader *rd, uint32_t *ret)
{
	uint32_t c = 0;

	for (int i = 0; i < 4; i++, rd->p++) {
		char d = rd->p < rd->end ? *rd->p : '\0';

		if (d >= '0' && d <= '9')
			c = c << 4 | (uint32_t)(d - '0');
		else if ((d | 32) >= 'a' && (d | 32) <= 'f')
			c = c << 4 | (uint32_t)((d | 32) - 'a' + 10);
		else
			return pf_reader_bad(rd, "four hexadecimal digits");
	}
	*ret = c;
	return 0;
}

/* "\uXXXX", or two of them that are one character, at the reader's place. */
static int read_code(struct pf_reader *rd, uint32_t *ret)
{
	const char *start = rd->p;
	uint32_t c = 0, low = 0;
	int r;

	rd->p += 2;
	r = read_hex(rd, &c);
	if (r < 0)
		return r;
	if (c >= 0xd800 && c < 0xdc00 && rd->end - rd->p >= 2 && rd->p[0] == '\\' &&
	    rd->p[1] == 'u') {
		rd->p += 2;
		r = read_hex(rd, &low);
		if (r < 0)
			return r;
		if (low >= 0xdc00 && low < 0xe000)
			c = 0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff);
	}
	if (c == 0 || (c >= 0xd800 && c < 0xe000)) {
		rd->p = start;
		return pf_reader_bad(rd,
				     c ? "a pair of surrogates" : "no NUL in a string");
	}
	*ret = c;
	return 0;
}

static int read_escape(struct pf_reader *rd, struct pf_buf *out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at;
	char text[4];
	uint32_t c = 0;
	int r;

	if (rd->end - rd->p < 2 || !rd->p[1])
		return pf_reader_bad(rd, "an escape sequence");
	at = strchr(from, rd->p[1]);
	if (at) {
		rd->p += 2;
		c = (unsigned char)to[at - from];
	} else if (rd->p[1] == 'u') {
		r = read_code(rd, &c);
		if (r < 0)
			return r;
	} else {
		return pf_reader_bad(rd, "an escape sequence");
	}
	if (out)
		pf_buf_append(out, text, put_utf8(text, c));
	return 0;
}

/* Step over characters that stand for themselves. */
static void skip_plain(struct pf_reader *rd)
{
	uint32_t c;

	while (rd->p < rd->end) {
		size_t n = 1;

		if ((unsigned char)*rd->p >= 0x80)
			n = pf_utf8_char(rd->p, (size_t)(rd->end - rd->p), &c);
		else if ((unsigned char)*rd->p < 0x20 || *rd->p == '"' || *rd->p == '\\')
			n = 0;
		if (n == 0)
			return;
		rd->p += n;
	}
}

int pf_reader_string(struct pf_reader *rd, struct pf_buf *out, const char *want)
{
	int r = pf_reader_expect(rd, '"', want);

	while (r == 0) {
		const char *run = rd->p;

		skip_plain(rd);
		if (out)
			pf_buf_append(out, run, (size_t)(rd->p - run));
		if (out && out->failed)
			return pf_err_set(rd->err, -ENOMEM, "no memory for a string");
		if (rd->p == rd->end)
			return pf_reader_bad(rd, "the end of a string");
		if (*rd->p == '"') {
			rd->p++;
			return 0;
		}
		if (*rd->p == '\\')
			r = read_escape(rd, out);
		else if ((unsigned char)*rd->p < 0x20)
			return pf_reader_bad(rd, "no control character in a string");
		else
			return pf_reader_bad(rd, "UTF-8 in a string");
	}
	return r;
}

int pf_reader_number(struct pf_reader *rd, int64_t *ret, const char *want)
{
	const char *start;
	int64_t n = 0;

	skip_space(rd);
	start = rd->p;
	for (; rd->p < rd->end && *rd->p >= '0' && *rd->p <= '9'; rd->p++)
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, *rd->p - '0', &n))
			return pf_err_set(
				rd->err, -EOVERFLOW,
				"expected %s, found one beyond 2^63-1 at byte %zu", want,
				(size_t)(start - rd->start) + rd->offset);
	if (rd->p == start)
		return pf_reader_bad(rd, want);
	/* A digit more, "1.0" and "1e3" are numbers of JSON, but none of these. */
	if ((*start == '0' && rd->p - start > 1) ||
	    (rd->p < rd->end && *rd->p && strchr(".eE", *rd->p))) {
		rd->p = start;
		return pf_reader_bad(rd, want);
	}
	*ret = n;
	return 0;
}
