/* SPDX-License-Identifier: Apache-2.0 */
/* A compiler and its end, a program and numbers for it, on top of engine_fixture.h. */
#ifndef PJRTFS_TESTS_UNIT_STORE_FIXTURE_H
#define PJRTFS_TESTS_UNIT_STORE_FIXTURE_H

#include "engine_fixture.h"

#include "pjrtfs/execution.h"

static const char add_program[] =
	"module @add {\n"
	"  func.func public @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>)\n"
	"      -> tensor<2x3xf32> {\n"
	"    %0 = stablehlo.add %x, %y : tensor<2x3xf32>\n"
	"    return %0 : tensor<2x3xf32>\n"
	"  }\n"
	"}\n";

static const float ones[6] = { 1, 1, 1, 1, 1, 1 };
static const float counts[6] = { 1, 2, 3, 4, 5, 6 };

static struct pf_compiler *compiler;
static struct pf_cache *cache; /* tests that want one open it first */

static inline struct pf_compiler *the_compiler(void)
{
	struct pf_compiler_config config = { .cache = cache };

	if (!compiler)
		ck_assert_int_eq(pf_compiler_new(&config, &compiler, NULL), 0);
	return compiler;
}

/* The workers go first, then what compiles on them, then the memory. */
static inline void close_store(void)
{
	if (compiler)
		pf_compiler_finish(compiler, 5000);
	stop_worker();
	pf_compiler_free(compiler);
	compiler = NULL;
	close_arena();
}

#endif
