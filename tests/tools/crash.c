/* SPDX-License-Identifier: Apache-2.0 */
/* For LD_PRELOAD: as long as the file $CRASH exists, pjrtfs ends as it looks for "dtype" in JSON, which
 * no daemon does when it starts; if the file $CRASH_READY exists, it removes that, and ends as it is
 * about to say that it serves. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	ssize_t (*next)(int fd, const struct msghdr *message, int flags);
	const char *file = getenv("CRASH_READY");
	const struct iovec *part = message->msg_iov;

	*(void **)&next = dlsym(RTLD_NEXT, "sendmsg");
	if (file && part->iov_len >= 7 && !memcmp(part->iov_base, "READY=1", 7) &&
	    unlink(file) == 0)
		abort();
	return next(fd, message, flags);
}
