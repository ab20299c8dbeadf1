/* SPDX-License-Identifier: Apache-2.0 */
/* Errors. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "plugin.h"

static const char *const code_names[] = {
	"OK",
	"CANCELLED",
	"UNKNOWN",
	"INVALID_ARGUMENT",
	"DEADLINE_EXCEEDED",
	"NOT_FOUND",
	"ALREADY_EXISTS",
	"PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED",
	"FAILED_PRECONDITION",
	"ABORTED",
	"OUT_OF_RANGE",
	"UNIMPLEMENTED",
	"INTERNAL",
	"UNAVAILABLE",
	"DATA_LOSS",
	"UNAUTHENTICATED",
};

PJRT_Error *error_new(PJRT_Error_Code code, const char *fmt, ...)
{
	PJRT_Error *e = malloc(sizeof(*e));
	va_list ap;

	if (!e)
		abort();
	count_thing(ERRORS, 1);
	e->code = code;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	return e;
}

PJRT_Error_Code code_of(const char *name)
{
	size_t len = strcspn(name, ":");

	for (size_t i = 1; i < sizeof(code_names) / sizeof(code_names[0]); i++)
		if (strlen(code_names[i]) == len &&
		    !strncasecmp(code_names[i], name, len))
			return (PJRT_Error_Code)i;
	return PJRT_Error_Code_UNKNOWN;
}

void error_free(PJRT_Error *e)
{
	if (e)
		count_thing(ERRORS, -1);
	free(e);
}

void error_destroy(PJRT_Error_Destroy_Args *args)
{
	error_free(args->error);
}

void error_message(PJRT_Error_Message_Args *args)
{
	args->message = args->error->text;
	args->message_size = strlen(args->error->text);
}

PJRT_Error *error_get_code(PJRT_Error_GetCode_Args *args)
{
	args->code = args->error->code;
	return NULL;
}

PJRT_Error *error_for_each_payload(struct pj_Error_ForEachPayload_Args *args)
{
	const char *text = args->error->text;
	char many[2000];

	if (strstr(text, "was asked"))
		abort();
	if (strstr(text, "tells no payloads"))
		return error_new(PJRT_Error_Code_UNIMPLEMENTED, "faulty: it was asked");
	if (!strstr(text, "payloads"))
		return NULL;
	memset(many, 'x', sizeof(many));
	args->visitor("kind", 4, "an \"odd\"\n\xff one", 14, args->user_arg);
	args->visitor(many, sizeof(many), many, sizeof(many), args->user_arg);
	args->visitor("empty", 5, NULL, 0, args->user_arg);
	for (int i = 0; i < 1000; i++) {
		int n = snprintf(many, sizeof(many), "%d", i);

		args->visitor(many, (size_t)n, "value", 5, args->user_arg);
	}
	return NULL;
}
