/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An FFI library that fails on demand.  When it is loaded, by the variable FFI_FAULT: "crash" and
 * "exit" in its constructor, "why" (it cannot work), "threads" (likewise; it says how many a LAPACK
 * starts), "unsaid" (and does not say why), "many" (1000 targets more), "size" (a list of another
 * size), "null" (a handler is missing), "name" (a target's name is not printable).  When it is called, by the attribute "how".
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pjrtfs/ffi.h"

enum { MANY = 1000 };

static int is(const char *fault)
{
	const char *have = getenv("FFI_FAULT");

	return have && !strcmp(have, fault);
}

static __attribute__((constructor)) void begin(void)
{
	if (is("crash"))
		raise(SIGSEGV);
	if (is("exit"))
		exit(3);
}

/* Copy the operand; "how": the code to fail with; -1: crash; -2: never return; -3: exit. */
static struct pjrtfs_ffi_error *test_fault(struct pjrtfs_ffi_frame *frame)
{
	const int32_t *how;

	if (pjrtfs_ffi_asked(frame))
		return NULL;
	how = pjrtfs_ffi_scalar(frame, "how", PJRTFS_FFI_S32);
	if (!how)
		return pjrtfs_ffi_fail(frame, PJRTFS_FFI_INVALID_ARGUMENT, "no how");
	if (*how == -1)
		abort();
	while (*how == -2)
		pause();
	if (*how == -3)
		_exit(5);
	if (*how > 0)
		return pjrtfs_ffi_fail(frame, (enum pjrtfs_ffi_code) * how,
				       "the handler says no");
	memcpy(frame->results.buffers[0]->data, frame->operands.buffers[0]->data,
	       4 * sizeof(float));
	return NULL;
}

static struct pjrtfs_ffi_error *test_newer(struct pjrtfs_ffi_frame *frame)
{
	if (pjrtfs_ffi_asked(frame))
		((struct pjrtfs_ffi_metadata_query *)frame->extensions)
			->metadata->version.minor++;
	return NULL;
}

static struct pjrtfs_ffi_target target[MANY + 2] = {
	{ "test_fault", test_fault, NULL, 0 },
	{ "test_newer", test_newer, "Host", 0 },
};
static struct pjrtfs_ffi_targets targets = { sizeof(targets), 2, target };

const struct pjrtfs_ffi_targets *pjrtfs_ffi_library(const char **why)
{
	static char names[MANY][16], threads[128];
	const char *openblas = getenv("OPENBLAS_NUM_THREADS");
	const char *openmp = getenv("OMP_NUM_THREADS");

	snprintf(threads, sizeof(threads), "OpenBLAS %s, OpenMP %s",
		 openblas ? openblas : "any", openmp ? openmp : "any");
	if (is("why"))
		*why = "it needs a library that is not there";
	if (is("threads"))
		*why = threads;
	if (is("why") || is("threads") || is("unsaid"))
		return NULL;
	for (; is("many") && targets.n < MANY + 2; targets.n++) {
		char *name = names[targets.n - 2];

		snprintf(name, sizeof(names[0]), "many_%zu", targets.n - 2);
		target[targets.n] =
			(struct pjrtfs_ffi_target){ name, test_fault, NULL, 0 };
	}
	if (is("size"))
		targets.struct_size++;
	if (is("null"))
		target[1].handler = NULL;
	if (is("name"))
		target[1].name = "a\tb";
	return &targets;
}
