/* SPDX-License-Identifier: Apache-2.0 */
/* Lists that grow. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

void *tool_append(void *list, unsigned *n, size_t size)
{
	void **items = list;

	if ((*n & (*n - 1)) == 0)
		*items = reallocarray(*items, *n ? *n * 2 : 1, size);
	if (!*items) {
		fprintf(stderr, "%s: no memory\n", program_invocation_short_name);
		exit(1);
	}
	return memset((char *)*items + size * (*n)++, 0, size);
}
