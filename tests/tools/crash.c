/* SPDX-License-Identifier: Apache-2.0 */
/* For LD_PRELOAD: as long as the file $CRASH exists, pjrtfs ends as it looks for "dtype" in JSON, which
 * no daemon does when it starts. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct json_object;
typedef struct json_object *function(const struct json_object *object, const char *key);

function json_object_object_get;

struct json_object *json_object_object_get(const struct json_object *object,
					   const char *key)
{
	function *next = (function *)dlsym(RTLD_NEXT, "json_object_object_get");
	const char *file = getenv("CRASH");

	if (file && !strcmp(key, "dtype") &&
	    !strcmp(program_invocation_short_name, "pjrtfs") && access(file, F_OK) == 0)
		abort();
	return next(object, key);
}
