/* SPDX-License-Identifier: Apache-2.0 */
/* Facts read from programs without a compiler. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats_fixture.h"
#include "pjrtfs/program.h"

#define T(text) (text), sizeof(text) - 1

static const struct {
	const char *text;
	int64_t replicas, partitions;
	bool shardy;
} attributes[] = {
	{ "module {}", 0, 0, false },
	{ "sdy.mesh @mesh = <[\"x\"=2]>", 0, 0, true },
	{ "f(%x: i1 {sdy.sharding = #sdy.sharding<@mesh, []>})", 0, 0, true },
	{ "mhlo.frontend_attributes = {xla.sdy.sharding = \"\"}", 0, 0, true },
	{ "\"sdy.mesh\" // sdy.mesh\nxsdy.mesh", 0, 0, false },
	{ "module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 4 : i32} {",
	  4, 2, false },
	{ "#loc = loc(unknown)\n// c\nmodule attributes{\n mhlo.num_replicas=3}", 3, 0,
	  false },
	{ "\"builtin.module\"() ({}) {mhlo.num_partitions = 12 : i64} : () -> ()", 0, 12,
	  false },
	{ "{mhlo.num_replicas = 2} {mhlo.num_replicas = 3}", 2, 0, false },
	{ "// mhlo.num_replicas = 2\n", 0, 0, false },
	{ "\"mhlo.num_replicas = 2\"", 0, 0, false },
	{ "xmhlo.num_replicas = 2 mhlo.num_replicass = 3", 0, 0, false },
	{ "mhlo.num_replicas", 0, 0, false },
	{ "mhlo.num_replicas =", 0, 0, false },
	{ "mhlo.num_replicas = -2", 0, 0, false },
	{ "mhlo.num_replicas = 99999999999999999999", 0, 0, false },
};

TEST_EACH(attributes_are_read_from_text, attributes)
{
	struct pf_program_facts facts;
	size_t len = strlen(attributes[_i].text);
	char *copy = malloc(len);

	memcpy(copy, attributes[_i].text, len);
	ck_assert_int_eq(pf_program_check(PF_PROGRAM_MLIR, copy, len, &facts, NULL), 0);
	ck_assert_int_eq(facts.num_replicas, attributes[_i].replicas);
	ck_assert_int_eq(facts.num_partitions, attributes[_i].partitions);
	ck_assert_int_eq(facts.shardy, attributes[_i].shardy);
	ck_assert_uint_eq(facts.off, 0);
	ck_assert_uint_eq(facts.len, len);
	free(copy);
}

#define MAGIC "ML\xefR\x0d"

static const struct {
	const char *bytes;
	size_t len;
	unsigned version[3];
} producers[] = {
	{ T(MAGIC "StableHLO_v1.15.0\0"), { 1, 15, 0 } },
	{ T(MAGIC "StableHLO_v0.9.12 and more\0"), { 0, 9, 12 } },
	{ T(MAGIC "StableHLO_v1.15.0"), { 0 } }, /* it has no end */
	{ T(MAGIC "StableHLO_v1.15\0"), { 0 } },
	{ T(MAGIC "StableHLO_vx.y.z\0"), { 0 } },
	{ T(MAGIC "MLIR23.0.0git\0"), { 0 } },
	{ T(MAGIC "\0"), { 0 } },
	{ T(MAGIC "StableHLO_v1.15.0"
		  "----------------------------------------------------------------\0"),
	  { 0 } },
};

TEST_EACH(the_version_is_read_from_bytecode, producers)
{
	struct pf_program_facts facts;
	char *copy = malloc(producers[_i].len);

	memcpy(copy, producers[_i].bytes, producers[_i].len);
	ck_assert_int_eq(pf_program_check(PF_PROGRAM_MLIRBC, copy, producers[_i].len,
					  &facts, NULL),
			 0);
	ck_assert_mem_eq(facts.stablehlo, producers[_i].version, sizeof(facts.stablehlo));
	free(copy);
}

static const struct {
	const char *name;
	enum pf_program_format format;
	int64_t replicas, partitions;
	const char *platforms, *says;
	bool shardy, takes_platform;
} files[] = {
	{ "two-replicas.mlirbc", PF_PROGRAM_MLIRBC, 2, 1, "", NULL, false, false },
	{ "two-partitions.mlirbc", PF_PROGRAM_MLIRBC, 1, 2, "", NULL, true, false },
	{ "f.jax_exported", PF_PROGRAM_JAX, 1, 1, "cpu", NULL, false, false },
	{ "sharded.jax_exported", PF_PROGRAM_JAX, 1, 2, "cpu", NULL, true, false },
	{ "tpu.jax_exported", PF_PROGRAM_JAX, 1, 1, "tpu cuda", NULL, false, true },
	{ "platforms.jax_exported", PF_PROGRAM_JAX, 1, 1, "cuda tpu cpu", NULL, false,
	  true },
	{ "platforms-donated.jax_exported", PF_PROGRAM_JAX, 1, 1, "cuda tpu cpu", NULL,
	  false, true },
	{ "platforms-sharded.jax_exported", PF_PROGRAM_JAX, 1, 2, "cuda tpu cpu", NULL,
	  true, true },
	{ "symbolic.jax_exported", PF_PROGRAM_JAX, 0, 0, NULL, "found dimension 0", false,
	  false },
	{ "f.jax_exported", PF_PROGRAM_MLIR, 0, 0, NULL, ".jax_exported", false, false },
	{ "f.jax_exported", PF_PROGRAM_MLIRBC, 0, 0, NULL, ".jax_exported", false,
	  false },
};

TEST_EACH(files_report_their_format, files)
{
	struct pf_program_facts facts;
	struct pf_err err = PF_ERR_INIT;
	size_t len;
	char *bytes = jax_file(files[_i].name, &len);
	int r = pf_program_check(files[_i].format, bytes, len, &facts, &err);

	if (files[_i].says) {
		ck_assert_int_eq(r, -EINVAL);
		ck_assert_msg(strstr(err.text, files[_i].says) != NULL, "%s", err.text);
	} else {
		ck_assert_msg(r == 0, "%s", err.text);
		ck_assert_int_eq(facts.num_replicas, files[_i].replicas);
		ck_assert_int_eq(facts.num_partitions, files[_i].partitions);
		ck_assert_int_eq(facts.shardy, files[_i].shardy);
		ck_assert_int_eq(facts.takes_platform, files[_i].takes_platform);
		ck_assert_str_eq(facts.platforms, files[_i].platforms);
		ck_assert_mem_eq(bytes + facts.off, "ML\xefR", 4);
		ck_assert_uint_eq(facts.len == len, facts.off == 0);
	}
	free(bytes);
}

/* The module in an export for several platforms does not name them. */
TEST_EACH(a_module_for_several_platforms_is_refused, files)
{
	struct pf_program_facts facts, module;
	struct pf_err err = PF_ERR_INIT;
	size_t len;
	char *bytes = jax_file(files[_i].name, &len);

	if (files[_i].format == PF_PROGRAM_JAX && !files[_i].says) {
		ck_assert_int_eq(pf_program_check(PF_PROGRAM_JAX, bytes, len, &facts,
						  NULL),
				 0);
		ck_assert_int_eq(pf_program_check(PF_PROGRAM_MLIRBC, bytes + facts.off,
						  facts.len, &module, &err),
				 files[_i].takes_platform ? -EINVAL : 0);
		if (files[_i].takes_platform)
			ck_assert_ptr_nonnull(strstr(err.text, "lowered for several"));
	}
	free(bytes);
}

/* Cut anywhere, or with any byte changed, it is read or refused, and no byte beyond. */
TEST_EACH(damaged_files_are_read_within_their_bounds, files)
{
	size_t len;
	char *bytes = jax_file(files[_i].name, &len);

	for (size_t cut = 1; cut < len; cut++) {
		struct pf_program_facts facts;
		char *part = malloc(cut);
		int r;

		memcpy(part, bytes, cut);
		part[cut / 2] ^= (char)(1 << cut % 8);
		r = pf_program_check(files[_i].format, part, cut, &facts, NULL);
		ck_assert(r == 0 || r == -EINVAL);
		if (r == 0)
			ck_assert(facts.off <= cut && facts.len <= cut - facts.off);
		free(part);
	}
	for (size_t i = 0; i < 8 * len; i++) {
		struct pf_program_facts facts;

		bytes[i / 8] ^= (char)(1 << i % 8);
		if (pf_program_check(files[_i].format, bytes, len, &facts, NULL) == 0)
			ck_assert(facts.off <= len && facts.len <= len - facts.off &&
				  facts.num_replicas >= 0 && facts.num_partitions >= 0);
		bytes[i / 8] ^= (char)(1 << i % 8);
	}
	free(bytes);
}

static const struct {
	const char *for_, *platform;
	int position;
} platforms[] = {
	{ "", "cpu", 0 },          { "cpu", "cpu", 0 },   { "tpu cpu", "cpu", 1 },
	{ "cpu tpu", "cpu", 0 },   { "cpu", "CPU", 0 },   { "cuda tpu cpu", "cpu", 2 },
	{ "tpu", "cpu", -1 },      { "cpux", "cpu", -1 }, { "cpu", "cpux", -1 },
	{ "tpu cuda", "cpu", -1 },
};

TEST_EACH(exports_are_for_platforms, platforms)
{
	struct pf_program_facts facts = { 0 };
	struct pf_err err = PF_ERR_INIT;
	int r;

	strcpy(facts.platforms, platforms[_i].for_);
	r = pf_program_check_platform(&facts, platforms[_i].platform, &err);
	ck_assert_int_eq(r,
			 platforms[_i].position < 0 ? -EINVAL : platforms[_i].position);
	if (r < 0)
		ck_assert_ptr_nonnull(strstr(err.text, "platforms=[\"cpu"));
}

/* A module with a computation, alone and as plugins write it with its configuration. */
TEST(a_module_with_its_configuration_is_unwrapped)
{
	static const char module[] = "\x0a\x01m\x1a\x03\x0a\x01"
				     "c";
	static const char wrapped[] = "\x0a\x08"
				      "\x0a\x01m\x1a\x03\x0a\x01"
				      "c"
				      "\x12\x02\x08\x01";
	struct pf_program_facts facts;

	ck_assert_int_eq(pf_program_check(PF_PROGRAM_HLO, T(module), &facts, NULL), 0);
	ck_assert_uint_eq(facts.off, 0);
	ck_assert_uint_eq(facts.len, sizeof(module) - 1);
	ck_assert_int_eq(pf_program_check(PF_PROGRAM_HLO, T(wrapped), &facts, NULL), 0);
	ck_assert_uint_eq(facts.off, 2);
	ck_assert_uint_eq(facts.len, sizeof(module) - 1);
}
