/* SPDX-License-Identifier: Apache-2.0 */
#include "name_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int names_add(struct names *names, const char *str, size_t len)
{
	char **at = realloc(names->at, (names->n + 1) * sizeof(*at));

	if (!at)
		return -ENOMEM;
	names->at = at;
	at[names->n] = strndup(str, len);
	if (!at[names->n])
		return -ENOMEM;
	names->n++;
	return 0;
}

void names_release(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->at[i]);
	free(names->at);
	memset(names, 0, sizeof(*names));
}
