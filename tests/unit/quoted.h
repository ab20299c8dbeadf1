/* SPDX-License-Identifier: Apache-2.0 */
/* JSON in the texts of tests, without a backslash before each quote. */
#ifndef PJRTFS_TESTS_UNIT_QUOTED_H
#define PJRTFS_TESTS_UNIT_QUOTED_H

#include <stdlib.h>
#include <string.h>

/* TEXT with " in place of each '; it stays as it is until the fifth call from now. */
static inline char *quoted(const char *text)
{
	static char *kept[4];
	static unsigned calls;
	char **at = &kept[calls++ % 4];

	free(*at);
	*at = strdup(text);
	for (char *c = *at; (c = strchr(c, '\''));)
		*c = '"';
	return *at;
}

#endif
