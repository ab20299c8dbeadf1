/* SPDX-License-Identifier: Apache-2.0 */
#include "pjrtfs/base.h"

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
