/* SPDX-License-Identifier: Apache-2.0 */
/* Program files: extensions, refusals, and facts read from programs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/base.h"
#include "pjrtfs/program.h"
#include "unit.h"

static const struct {
	const char *name;
	enum pf_program_format format;
	size_t stem_len;
} names[] = {
	{ "add.mlir", PF_PROGRAM_MLIR, 3 },
	{ "add.mlirbc", PF_PROGRAM_MLIRBC, 3 },
	{ "add.hlo.pb", PF_PROGRAM_HLO, 3 },
	{ "a.b.mlir", PF_PROGRAM_MLIR, 3 },
	{ "f.jax_exported", PF_PROGRAM_JAX, 1 },
	{ "f.pjrtexe", PF_PROGRAM_NATIVE, 1 },
	{ ".jax_exported", PF_PROGRAM_NONE, 13 },
	{ ".x.mlir", PF_PROGRAM_MLIR, 2 },
	{ "a.mlir.mlir", PF_PROGRAM_MLIR, 6 },
	{ ".mlir", PF_PROGRAM_NONE, 5 },
	{ ".mlirbc", PF_PROGRAM_NONE, 7 },
	{ ".hlo.pb", PF_PROGRAM_NONE, 7 },
	{ "mlir", PF_PROGRAM_NONE, 4 },
	{ "add", PF_PROGRAM_NONE, 3 },
	{ "add.MLIR", PF_PROGRAM_NONE, 8 },
	{ "add.mlir~", PF_PROGRAM_NONE, 9 },
	{ "add.mlir.part", PF_PROGRAM_NONE, 13 },
	{ "add.pb", PF_PROGRAM_NONE, 6 },
	{ "", PF_PROGRAM_NONE, 0 },
};

START_TEST(extensions)
{
	size_t stem_len = 999;

	ck_assert_int_eq(pf_program_format_of(names[_i].name, &stem_len),
			 names[_i].format);
	ck_assert_uint_eq(stem_len, names[_i].stem_len);
	ck_assert_int_eq(pf_program_format_of(names[_i].name, NULL), names[_i].format);
	if (names[_i].format != PF_PROGRAM_NONE)
		ck_assert_str_eq(names[_i].name + stem_len,
				 pf_program_extension(names[_i].format));
}
END_TEST

START_TEST(every_format_has_an_extension)
{
	ck_assert_ptr_null(pf_program_extension(PF_PROGRAM_NONE));
	for (int format = PF_PROGRAM_MLIR; format <= PF_PROGRAM_NATIVE; format++)
		ck_assert_ptr_nonnull(
			pf_program_extension((enum pf_program_format)format));
	ck_assert_ptr_null(pf_program_extension(PF_PROGRAM_NATIVE + 1));
}
END_TEST

#define T(text) (text), sizeof(text) - 1

static const struct {
	enum pf_program_format format;
	const char *bytes;
	size_t len;
	const char *says; /* NULL: it is accepted */
} contents[] = {
	{ PF_PROGRAM_MLIR, T("module {}"), NULL },
	{ PF_PROGRAM_MLIR, T("\n  module {}\n"), NULL },
	{ PF_PROGRAM_MLIR, T("#loc1 = loc(\"x\")\nmodule {}"), NULL },
	{ PF_PROGRAM_MLIR, T("// a comment\n\"builtin.module\"() ({}) : () -> ()"),
	  NULL },
	{ PF_PROGRAM_MLIR, T("!t = tensor<2xf32>"), NULL },
	{ PF_PROGRAM_MLIR, T("// \xff is not UTF-8\nmodule {}"), NULL },
	{ PF_PROGRAM_MLIR, T("garbage"), NULL }, /* the compiler's sentence is better */
	{ PF_PROGRAM_MLIR, T(""), "empty" },
	{ PF_PROGRAM_MLIR, T(" \n\t "), "empty" },
	{ PF_PROGRAM_MLIR, T("ML\xefR\x01"), "name it .mlirbc" },
	{ PF_PROGRAM_MLIR, T("\x0a\x05jit_f\x12\x00"), ".hlo.pb" },
	{ PF_PROGRAM_MLIR, T("module\0{}"), "zero byte at 6" },
	{ PF_PROGRAM_MLIR, T("\x1f\x8b\x08"), "gunzip" },
	{ PF_PROGRAM_MLIR, T("PK\x03\x04"), "zip" },
	{ PF_PROGRAM_MLIR, T("\x93NUMPY\x01"), "buffers/" },
	{ PF_PROGRAM_MLIR, T("\177ELF\x02"), "binary for a processor" },
	{ PF_PROGRAM_MLIR, T("#!/usr/bin/env python3\n"), "Python" },
	{ PF_PROGRAM_MLIR, T("\n\nimport jax\n"), "Python" },
	{ PF_PROGRAM_MLIR, T("from jax import numpy\n"), "Python" },
	{ PF_PROGRAM_MLIR, T("def f(x):\n"), "Python" },
	{ PF_PROGRAM_MLIR, T("\"\"\"A docstring\"\"\"\n"), "Python" },
	{ PF_PROGRAM_MLIR, T("HloModule jit_f\n"), "HLO text" },

	{ PF_PROGRAM_MLIR, T("BZh9"), "bunzip2" },
	{ PF_PROGRAM_MLIR,
	  T("\xfd"
	    "7zXZ\0"),
	  "unxz" },
	{ PF_PROGRAM_MLIR, T("\x28\xb5\x2f\xfd"), "unzstd" },

	/* Dialects that no plugin knows: only in the position of an operation. */
	{ PF_PROGRAM_MLIR, T("module {\n %0 = torch.aten.add %a : !torch.x\n}"),
	  "line 2: expected StableHLO, found torch.aten.add" },
	{ PF_PROGRAM_MLIR, T("%0:2, %1 = tosa.add %a, %b"), "dialect tosa" },
	{ PF_PROGRAM_MLIR, T("%0\n=\n\"tf.AddV2\"(%a)"), "line 3: " },
	{ PF_PROGRAM_MLIR, T("  \"onnx.Return\"(%a)"), "ONNX-MLIR" },
	{ PF_PROGRAM_MLIR, T("%0 = stablehlo.add %a, %b"), NULL },
	{ PF_PROGRAM_MLIR, T("%0 = mydialect.add %a, %b"), NULL }, /* some plugin may */
	{ PF_PROGRAM_MLIR, T("%0 = torch"), NULL },
	{ PF_PROGRAM_MLIR, T("%0 = torchx.add"), NULL },
	{ PF_PROGRAM_MLIR, T("// %0 = torch.add\n"), NULL },
	{ PF_PROGRAM_MLIR, T("{a = \"%0 = torch.add\"}"), NULL },
	{ PF_PROGRAM_MLIR, T("#loc1 = loc(\"tf.AddV2\"(#loc))"), NULL },
	{ PF_PROGRAM_MLIR, T("f(%x: i1 {tf.aliasing_output = 0 : i32})"), NULL },
	{ PF_PROGRAM_MLIR, T("module attributes {tf.versions = 1} {"), NULL },
	{ PF_PROGRAM_MLIR, T("stablehlo.while(%i = %c) cond {"), NULL },

	{ PF_PROGRAM_MLIR,
	  T("f(%n: tensor<i32> {jax.global_constant = \"_platform_index\"})"),
	  "lowered for several" },
	{ PF_PROGRAM_MLIR, T("{jax.global_constant=\"_platform_index\"}"), "platforms=" },
	{ PF_PROGRAM_MLIR, T("{jax.global_constant = \"_platform_inde"), NULL },
	{ PF_PROGRAM_MLIR, T("{jax.global_constant = "), NULL },
	{ PF_PROGRAM_MLIR, T("{jax.global_constant = \"n\"} \"_platform_index\""), NULL },
	{ PF_PROGRAM_MLIR, T("loc(\"_platform_index\")"), NULL },
	{ PF_PROGRAM_MLIR, T("// jax.global_constant = \"_platform_index\""), NULL },

	{ PF_PROGRAM_MLIRBC, T("ML\xefR"), NULL },
	{ PF_PROGRAM_MLIRBC, T("ML\xefR\x01\x02"), NULL },
	{ PF_PROGRAM_MLIRBC, T(""), "empty" },
	{ PF_PROGRAM_MLIRBC, T("ML\xef"), "expected MLIR bytecode" },
	{ PF_PROGRAM_MLIRBC, T("module {}"), "text is .mlir" },
	{ PF_PROGRAM_MLIRBC, T("\x1f\x8b\x08"), "gunzip" },
	{ PF_PROGRAM_MLIRBC, T("import jax"), "Python" },

	{ PF_PROGRAM_HLO, T("\x0a\x05jit_f\x30\x07"), NULL },
	{ PF_PROGRAM_HLO, T("\x0a\x09HloModule"), NULL }, /* a module of that name */
	{ PF_PROGRAM_HLO, T("\x0a\x07import "), NULL },
	{ PF_PROGRAM_HLO, T("\x0a\x00"), NULL },
	{ PF_PROGRAM_HLO, T(""), "empty" },
	{ PF_PROGRAM_HLO, T("\x0a\x05jit_"), "truncated" },
	{ PF_PROGRAM_HLO, T("\x0a\x05jit_f\x30"), "at byte 7 of 8" },
	{ PF_PROGRAM_HLO, T("module {}"), "text is .mlir" },
	{ PF_PROGRAM_HLO, T("ML\xefR\x01"), "name it .mlirbc" },
	{ PF_PROGRAM_HLO, T("HloModule jit_f\n"), "HLO text" },
	{ PF_PROGRAM_HLO, T("PK\x03\x04"), "zip" },
	{ PF_PROGRAM_HLO, T("\x1f\x8b\x08"), "gunzip" },

	{ PF_PROGRAM_JAX, T(""), "empty" },
	{ PF_PROGRAM_JAX, T("x"), "expected what jax.export writes" },
	{ PF_PROGRAM_JAX, T("\x04\0\0\0\0\0\0\0"), "expected what jax.export writes" },
	{ PF_PROGRAM_JAX, T("\xff\xff\xff\xff\xff\xff\xff\xff"),
	  "expected what jax.export writes" },
	{ PF_PROGRAM_JAX, T("ML\xefR\x01"), "name it .mlirbc" },
	{ PF_PROGRAM_JAX, T("module {}"), "expected what jax.export writes" },
	{ PF_PROGRAM_NATIVE, T(""), "empty" },
	{ PF_PROGRAM_NATIVE, T("pjrtfs"), "expected a compiled program" },
	{ PF_PROGRAM_NATIVE, T("\177ELF\x02"), "binary for a processor" },

	{ PF_PROGRAM_NONE, T(""), NULL },
	{ PF_PROGRAM_NONE, T("PK\x03\x04"), NULL },
};

START_TEST(checks_contents)
{
	struct pf_program_facts facts;
	struct pf_err err = PF_ERR_INIT;
	char *copy = malloc(contents[_i].len + 1);
	int r;

	/* A copy without a byte more, for the sanitizers. */
	memcpy(copy, contents[_i].bytes, contents[_i].len);
	copy = realloc(copy, contents[_i].len ? contents[_i].len : 1);
	r = pf_program_check(contents[_i].format, copy, contents[_i].len, &facts, &err);
	free(copy);
	if (contents[_i].says) {
		ck_assert_int_eq(r, -EINVAL);
		ck_assert_msg(strstr(err.text, contents[_i].says) != NULL, "%s",
			      err.text);
	} else {
		ck_assert_msg(r == 0, "%s", err.text);
	}
}
END_TEST

static void put(struct pf_buf *buf, const char *text, int times)
{
	for (int i = 0; i < times; i++)
		pf_buf_puts(buf, text);
}

/* BEFORE 513 or 512 times OPEN: is that deep? */
static const struct {
	const char *before, *open, *after;
	bool deep;
} nests[] = {
	{ "", "(", "", true },
	{ "", "[", "", true },
	{ "", "{", "", true },
	{ "", "<", "", true },
	{ "\"s\" // c\n", "(\n", "", true },
	{ "\"\\\" ", "(", "\"", false }, /* in a string */
	{ "\"\\\\\"", "(", "", true },   /* behind one that ends with a \ */
	{ "// ", "(", "\n", false },     /* in a comment */
	{ "// \n", "(", "", true },      /* behind it */
	{ "/", "(", "", true },
	{ "\"unterminated\n", "(", "", true }, /* ends with its line */
	{ "-> >= > ) ] }", "(", "", true },    /* surplus closing ones */
	{ "", "()", "", false },
	{ "", "tensor<2xf32> ", "", false },
	{ "", "(i32) -> ", "", false },
	{ "", "{ [ ( < > ) ] }", "", false },
};

START_TEST(nesting)
{
	for (int n = 512; n <= 513; n++) {
		pf_autobuf struct pf_buf buf = PF_BUF_INIT;
		struct pf_program_facts facts;
		struct pf_err err = PF_ERR_INIT;
		int r;

		put(&buf, nests[_i].before, 1);
		put(&buf, nests[_i].open, n);
		put(&buf, nests[_i].after, 1);
		r = pf_program_check(PF_PROGRAM_MLIR, buf.data, buf.len, &facts, &err);
		if (nests[_i].deep && n > 512) {
			ck_assert_int_eq(r, -EINVAL);
			ck_assert_ptr_nonnull(strstr(err.text, "nested deeper than 512"));
		} else {
			ck_assert_msg(r == 0, "%s", err.text);
		}
	}
}
END_TEST

START_TEST(nesting_errors_name_the_line)
{
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;
	struct pf_program_facts facts;
	struct pf_err err = PF_ERR_INIT;

	put(&buf, "module {\n", 1);
	put(&buf, "\"stablehlo.if\"(%p) ({\n", 1000);
	ck_assert_int_eq(pf_program_check(PF_PROGRAM_MLIR, buf.data, buf.len, &facts,
					  &err),
			 -EINVAL);
	/* One for the module, two for each line behind its own. */
	ck_assert_ptr_eq(strstr(err.text, "line 257:"), err.text);
	/* Syntax of real programs. */
	pf_buf_release(&buf);
	put(&buf, "\"stablehlo.if\"(%p) ({\n", 200);
	put(&buf, "}) : (tensor<i1>) -> ()\n", 200);
	ck_assert_int_eq(pf_program_check(PF_PROGRAM_MLIR, buf.data, buf.len, &facts,
					  &err),
			 0);
}
END_TEST

/* --- facts read from programs -------------------------------------------------------- */

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

START_TEST(attributes_are_read_from_text)
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
END_TEST

/* A file of tests/data/jax, without a byte more. */
static char *file(const char *name, size_t *len)
{
	const char *srcdir = getenv("srcdir");
	char path[512], *bytes;
	FILE *f;

	snprintf(path, sizeof(path), "%s/tests/data/jax/%s", srcdir ? srcdir : ".", name);
	f = fopen(path, "rb");
	ck_assert_msg(f != NULL, "%s", path);
	fseek(f, 0, SEEK_END);
	*len = (size_t)ftell(f);
	rewind(f);
	bytes = malloc(*len);
	ck_assert_uint_eq(fread(bytes, 1, *len, f), *len);
	fclose(f);
	return bytes;
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

START_TEST(the_version_is_read_from_bytecode)
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
END_TEST

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

START_TEST(files_report_their_format)
{
	struct pf_program_facts facts;
	struct pf_err err = PF_ERR_INIT;
	size_t len;
	char *bytes = file(files[_i].name, &len);
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
END_TEST

/* The module in an export for several platforms does not name them. */
START_TEST(a_module_for_several_platforms_is_refused)
{
	struct pf_program_facts facts, module;
	struct pf_err err = PF_ERR_INIT;
	size_t len;
	char *bytes = file(files[_i].name, &len);

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
END_TEST

/* Cut anywhere, or with any byte changed, it is read or refused, and no byte beyond. */
START_TEST(damaged_files_are_read_within_their_bounds)
{
	size_t len;
	char *bytes = file(files[_i].name, &len);

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
END_TEST

static const struct {
	const char *for_, *platform;
	int position;
} platforms[] = {
	{ "", "cpu", 0 },          { "cpu", "cpu", 0 },   { "tpu cpu", "cpu", 1 },
	{ "cpu tpu", "cpu", 0 },   { "cpu", "CPU", 0 },   { "cuda tpu cpu", "cpu", 2 },
	{ "tpu", "cpu", -1 },      { "cpux", "cpu", -1 }, { "cpu", "cpux", -1 },
	{ "tpu cuda", "cpu", -1 },
};

START_TEST(exports_are_for_platforms)
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
END_TEST

/* A module with a computation, alone and as plugins write it with its configuration. */
START_TEST(a_module_with_its_configuration_is_unwrapped)
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
END_TEST

int main(void)
{
	Suite *s = suite_create("program");
	TCase *tc = tcase_create("core");

	unit_add_cases(tc, extensions, names);
	unit_add_cases(tc, checks_contents, contents);
	unit_add_cases(tc, nesting, nests);
	tcase_add_test(tc, nesting_errors_name_the_line);
	tcase_add_test(tc, every_format_has_an_extension);
	unit_add_cases(tc, attributes_are_read_from_text, attributes);
	unit_add_cases(tc, files_report_their_format, files);
	unit_add_cases(tc, a_module_for_several_platforms_is_refused, files);
	unit_add_cases(tc, damaged_files_are_read_within_their_bounds, files);
	unit_add_cases(tc, exports_are_for_platforms, platforms);
	tcase_add_test(tc, a_module_with_its_configuration_is_unwrapped);
	unit_add_cases(tc, the_version_is_read_from_bytecode, producers);
	suite_add_tcase(s, tc);
	return unit_run(s);
}
