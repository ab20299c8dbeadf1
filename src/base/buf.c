/* SPDX-License-Identifier: Apache-2.0 */
/* A byte string that grows, and bytes as hex digits. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/base.h"

char *pf_buf_reserve(struct pf_buf *buf, size_t len)
{
	if (buf->failed)
		return NULL;
	/* cap counts the NUL: room for len bytes more means cap > len + buf->len. */
	if (buf->cap - buf->len <= len || !buf->data) {
		size_t need, cap;
		char *data;

		if (__builtin_add_overflow(buf->len, len, &need) ||
		    __builtin_add_overflow(need, 1, &need) || need > PTRDIFF_MAX) {
			buf->failed = true;
			return NULL;
		}
		cap = buf->cap < 64 ? 64 : buf->cap;
		while (cap < need)
			cap = cap > PTRDIFF_MAX / 2 ? need : cap * 2;
		data = realloc(buf->data, cap);
		if (!data && cap > need)
			data = realloc(buf->data, cap = need);
		if (!data) {
			buf->failed = true;
			return NULL;
		}
		buf->data = data;
		buf->cap = cap;
	}
	buf->data[buf->len] = '\0';
	buf->data[buf->len + len] = '\0';
	return buf->data + buf->len;
}

void pf_buf_append(struct pf_buf *buf, const void *src, size_t len)
{
	char *dst = pf_buf_reserve(buf, len);

	if (!dst)
		return;
	if (len)
		memcpy(dst, src, len);
	buf->len += len;
}

void pf_buf_puts(struct pf_buf *buf, const char *str)
{
	if (str)
		pf_buf_append(buf, str, strlen(str));
	else
		buf->failed = true;
}

void pf_buf_printf(struct pf_buf *buf, const char *fmt, ...)
{
	size_t room = 128; /* for most */
	va_list ap;
	char *dst;
	int r;

	while ((dst = pf_buf_reserve(buf, room))) {
		va_start(ap, fmt);
		r = vsnprintf(dst, room + 1, fmt, ap);
		va_end(ap);
		if (r >= 0 && (size_t)r <= room) {
			buf->len += (size_t)r;
			return;
		}
		*dst = '\0';
		if (r < 0)
			buf->failed = true;
		room = (size_t)r;
	}
}

void pf_buf_clean(struct pf_buf *buf, size_t from)
{
	if (buf->failed || from >= buf->len)
		return;
	buf->len = from + pf_err_clean(buf->data + from, buf->len - from);
	buf->data[buf->len] = '\0';
}

void pf_buf_consume(struct pf_buf *buf, size_t len)
{
	if (len > buf->len)
		len = buf->len;
	if (len == 0)
		return;
	buf->len -= len;
	memmove(buf->data, buf->data + len, buf->len + 1);
}

void pf_buf_release(struct pf_buf *buf)
{
	if (!buf)
		return;
	free(buf->data);
	*buf = (struct pf_buf)PF_BUF_INIT;
}

static const char digits[] = "0123456789abcdef";

const char *pf_hex(const uint8_t *bytes, size_t n, char *dst)
{
	for (size_t i = 0; i < n; i++) {
		dst[2 * i] = digits[bytes[i] >> 4];
		dst[2 * i + 1] = digits[bytes[i] & 15];
	}
	dst[2 * n] = '\0';
	return dst;
}

bool pf_unhex(const char *text, size_t n, uint8_t *dst)
{
	for (size_t i = 0; i < 2 * n; i++) {
		const char *digit = text[i] ? strchr(digits, text[i]) : NULL;

		if (!digit)
			return false;
		dst[i / 2] = (uint8_t)(dst[i / 2] << 4 | (digit - digits));
	}
	return true;
}
