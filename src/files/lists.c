/* SPDX-License-Identifier: Apache-2.0 */
/* Lists that users write: names; the extents of a shape. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

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

int files_parse_shape(struct json_object *v, struct pf_shape *ret, struct pf_err *err)
{
	memset(ret, 0, sizeof(*ret));
	if (!json_object_is_type(v, json_type_array))
		return pf_err_set(err, -EINVAL, "expected a list of extents");
	if (json_object_array_length(v) > PF_MAX_RANK)
		return pf_err_set(err, -EINVAL, "more than %d extents", PF_MAX_RANK);
	for (size_t i = 0; i < json_object_array_length(v); i++) {
		struct json_object *d = json_object_array_get_idx(v, i);

		if (!json_object_is_type(d, json_type_int) ||
		    json_object_get_int64(d) < 0)
			return pf_err_set(err, -EINVAL,
					  "extent %zu: expected a number from 0 on, "
					  "found %s",
					  i, json_object_to_json_string(d));
		ret->dims[ret->rank++] = json_object_get_int64(d);
	}
	return 0;
}
