/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin that is another one, $REAL_PLUGIN, but gives no HLO: PJRT_Executable_OptimizedProgram gives a
 * program in format $OPTIMIZED_FORMAT, or, without that, is missing.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt_c_api.h"

static const char *format;

static PJRT_Error *optimized(PJRT_Executable_OptimizedProgram_Args *args)
{
	static const char text[] = "module @optimized {}\n";

	args->program->format = format;
	args->program->format_size = strlen(format);
	if (args->program->code)
		memcpy(args->program->code, text, strlen(text));
	args->program->code_size = strlen(text);
	return NULL;
}

__attribute__((visibility("default"))) const PJRT_Api *GetPjrtApi(void);

const PJRT_Api *GetPjrtApi(void)
{
	const char *path = getenv("REAL_PLUGIN");
	void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	const PJRT_Api *(*get)(void) = NULL;
	const PJRT_Api *real;
	PJRT_Api *api;

	if (library)
		*(void **)&get = dlsym(library, "GetPjrtApi");
	real = get ? get() : NULL;
	/* It may be newer, and longer, than this header. */
	api = real ? malloc(real->struct_size) : NULL;
	if (!api) {
		fprintf(stderr, "REAL_PLUGIN: %s\n", path ? dlerror() : "is not set");
		return NULL;
	}
	memcpy(api, real, real->struct_size);
	format = getenv("OPTIMIZED_FORMAT");
	api->PJRT_Executable_OptimizedProgram = format ? optimized : NULL;
	return api;
}
