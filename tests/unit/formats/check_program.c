/* SPDX-License-Identifier: Apache-2.0 */
/* Program files: extensions, refusals, facts, names of parameters. */
#include "formats_fixture.h"
#include "pjrtfs/program.h"

static const struct {
	const char *name;
	enum pf_program_format format;
	size_t stem_len;
} names[] = {
	{ "add.mlir", PF_PROGRAM_MLIR, 3 },
	{ "add.mlirbc", PF_PROGRAM_MLIRBC, 3 },
	{ "add.hlo.pb", PF_PROGRAM_HLO, 3 },
	{ "f.jax_exported", PF_PROGRAM_JAX, 1 },
	{ "f.pjrtexe", PF_PROGRAM_NATIVE, 1 },
	{ "a.mlir.mlir", PF_PROGRAM_MLIR, 6 },
	{ ".mlir", PF_PROGRAM_NONE, 5 },
	{ "add", PF_PROGRAM_NONE, 3 },
	{ "add.MLIR", PF_PROGRAM_NONE, 8 },
	{ "add.mlir~", PF_PROGRAM_NONE, 9 },
	{ "", PF_PROGRAM_NONE, 0 },
};

TEST_EACH(extensions, names)
{
	size_t stem_len = 999;

	ck_assert_int_eq(pf_program_format_of(names[_i].name, &stem_len),
			 names[_i].format);
	ck_assert_uint_eq(stem_len, names[_i].stem_len);
	ck_assert_int_eq(pf_program_format_of(names[_i].name, NULL), names[_i].format);
	if (names[_i].format != PF_PROGRAM_NONE)
		ck_assert_str_eq(names[_i].name + stem_len,
				 pf_program_extension(names[_i].format));
	else
		ck_assert_ptr_null(pf_program_extension(names[_i].format));
}

#define T(text) (text), sizeof(text) - 1

static const struct {
	enum pf_program_format format;
	const char *bytes;
	size_t len;
	const char *says; /* NULL: it is accepted */
} contents[] = {
	{ PF_PROGRAM_MLIR, T("#loc1 = loc(\"x\")\nmodule {}"), NULL },
	{ PF_PROGRAM_MLIR, T("// a comment\n\"builtin.module\"() ({}) : () -> ()"),
	  NULL },
	{ PF_PROGRAM_MLIR, T(">"), NULL },       /* nothing is before it */
	{ PF_PROGRAM_MLIR, T("garbage"), NULL }, /* the compiler's sentence is better */
	{ PF_PROGRAM_MLIR, T(""), "empty" },
	{ PF_PROGRAM_MLIR, T(" \n\t "), "empty" },
	{ PF_PROGRAM_MLIR, T("ML\xefR\x01"), "name it .mlirbc" },
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
	{ PF_PROGRAM_MLIR, T("\xfd\067zXZ\0"), "unxz" },
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

	/* Nothing feeds a device. */
	{ PF_PROGRAM_MLIR, T("\n%0:2 = \"stablehlo.infeed\"(%t)"),
	  "line 2: expected arrays that are inputs and results, found an infeed" },
	{ PF_PROGRAM_MLIR, T("  \"stablehlo.outfeed\"(%x, %t)"),
	  "line 1: expected arrays" },
	{ PF_PROGRAM_MLIR, T("{a = \"stablehlo.infeed\"}"), NULL },
	{ PF_PROGRAM_MLIR, T("func.func private @infeed()"), NULL },

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
	{ PF_PROGRAM_MLIRBC, T(""), "empty" },
	{ PF_PROGRAM_MLIRBC, T("ML\xef"), "expected MLIR bytecode" },
	{ PF_PROGRAM_MLIRBC, T("module {}"), "text is .mlir" },

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

	{ PF_PROGRAM_JAX, T(""), "empty" },
	{ PF_PROGRAM_JAX, T("x"), "expected what jax.export writes" },
	{ PF_PROGRAM_JAX, T("\x04\0\0\0\0\0\0\0"), "expected what jax.export writes" },
	{ PF_PROGRAM_JAX, T("\xff\xff\xff\xff\xff\xff\xff\xff"),
	  "expected what jax.export writes" },
	{ PF_PROGRAM_JAX, T("ML\xefR\x01"), "name it .mlirbc" },
	{ PF_PROGRAM_NATIVE, T(""), "empty" },
	{ PF_PROGRAM_NATIVE, T("pjrtfs"), "expected a compiled program" },

	{ PF_PROGRAM_NONE, T(""), NULL },
};

TEST_EACH(checks_contents, contents)
{
	size_t len = contents[_i].len;
	pf_autofree char *copy = exact_copy(contents[_i].bytes, len);
	struct pf_program_facts facts;
	struct pf_err err = PF_ERR_INIT;

	check_result(pf_program_check(contents[_i].format, copy, len, &facts, &err),
		     contents[_i].says ? -EINVAL : 0, &err, contents[_i].says);
}

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

TEST_EACH(nesting, nests)
{
	for (int n = 512; n <= 513; n++) {
		pf_autobuf struct pf_buf buf = PF_BUF_INIT;
		struct pf_program_facts facts;
		struct pf_err err = PF_ERR_INIT;

		put(&buf, nests[_i].before, 1);
		put(&buf, nests[_i].open, n);
		put(&buf, nests[_i].after, 1);
		check_result(pf_program_check(PF_PROGRAM_MLIR, buf.data, buf.len, &facts,
					      &err),
			     nests[_i].deep && n > 512 ? -EINVAL : 0, &err,
			     "nested deeper than 512");
	}
}

TEST(nesting_errors_name_the_line)
{
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;
	struct pf_program_facts facts;
	struct pf_err err = PF_ERR_INIT;

	put(&buf, "module {\n", 1);
	put(&buf, "\"stablehlo.if\"(%p) ({\n", 1000);
	/* One for the module, two for each line behind its own. */
	check_result(pf_program_check(PF_PROGRAM_MLIR, buf.data, buf.len, &facts, &err),
		     -EINVAL, &err, "line 257:");
	/* Syntax of real programs. */
	pf_buf_release(&buf);
	put(&buf, "\"stablehlo.if\"(%p) ({\n", 200);
	put(&buf, "}) : (tensor<i1>) -> ()\n", 200);
	ck_assert_int_eq(pf_program_check(PF_PROGRAM_MLIR, buf.data, buf.len, &facts,
					  NULL),
			 0);
}

/* --- leaves of directories -------------------------------------------------------------------- */

enum { MOST_NAMES = 12 };

/* The names that a list has, between semicolons, in LIST, a copy; returns how many. */
static size_t split_names(char *list, char **ret)
{
	size_t n = 0;

	for (char *at = strtok(list, ";"); at; at = strtok(NULL, ";"))
		ret[n++] = at;
	return n;
}

#define TWELVE(before, after)                                                            \
	before "0" after ";" before "1" after ";" before "2" after ";" before "3" after  \
	       ";" before "4" after ";" before "5" after ";" before "6" after ";" before \
	       "7" after ";" before "8" after ";" before "9" after ";" before "10" after \
	       ";" before "11" after
#define LAYERS TWELVE("params['layers'][", "]['w']")

/* Each leaf stands in the place of its parameter. */
static const struct {
	const char *params, *leaves;
	int want; /* 1: by name; 0: not */
} matched[] = {
	/* JAX's list of layers, as files, tensors and keys are called. */
	{ LAYERS, TWELVE("layers/", "/w"), 1 },
	{ LAYERS, TWELVE("layers.", ".w"), 1 },
	{ LAYERS, TWELVE("params.layers.", ".w"), 1 },
	{ LAYERS, TWELVE("layers[", "].w"), 1 },
	{ LAYERS, TWELVE("['layers'][", "]['w']"), 1 },
	{ LAYERS, TWELVE("layers.0", ".w"), 1 },
	{ LAYERS, TWELVE("layers_", "_w"), 0 },
	{ LAYERS, TWELVE("model.layers.", ".w"), 0 },
	/* Keys with signs in them, indexes, and what JAX does not write. */
	{ "opt[0].mu['a/b'][\"it's\"]", "opt/0/mu/a/b/it's", 1 },
	{ "p['a\\\\b']['\\'\"c']", "p/a\\b/'\"c", 1 },
	{ "p['a\\\\b'];p['a\\'c']", "a\\b;a'c", 1 },
	{ "s[<flat index 3>].x", "s/3/x", 1 },
	{ "s[<flat index 03>];s[<flat index 10>]", "3;10", 1 },
	{ "['a']", "a", 1 },
	{ "p['a", "q/a", 0 },
	{ "p['a\\", "p['a\\", 1 },
	{ "p[<flat index >];p[<flat index 3", "p/<flat index >;p/<flat index 3", 1 },
	/* Keys that are names of tensors; shards of a model. */
	{ TWELVE("states['", ".weight']"), TWELVE("", ".weight"), 1 },
	{ TWELVE("states['", ".weight']"), TWELVE("model-1-of-2/", ".weight"), 1 },
	{ TWELVE("states['", ".weight']"), TWELVE("model-of-2/", ".weight"), 0 },
	/* Flax nnx, equinox, linen, haiku. */
	{ TWELVE("s['layers'][", "]['kernel'].value"), TWELVE("layers.", ".kernel"), 1 },
	{ TWELVE("s.layers[", "].kernel"), TWELVE("layers/", ".kernel.value"), 1 },
	{ "m.norm.weight;m.norm.bias", "norm.weight;norm.bias", 1 },
	{ "v['params']['Dense_10']['bias'];v['params']['Dense_2']['bias']",
	  "Dense_10.bias;Dense_2.bias", 1 },
	{ "p['mlp/~/linear_1']['w'];p['mlp/~/linear']['w']",
	  "mlp/~/linear_1/w;mlp/~/linear/w", 1 },
	/* A last "value" can be a name like others. */
	{ "p['query'];p['key'];p['value']", "query;key;value", 1 },
	/* Names that are not the parameters'. */
	{ "s['0.running_mean'];s['0.running_var'];s['0.weight']",
	  "0.running_zz;0.running_aa;0.weight", 0 },
	{ "x;y", "a;b", 0 },
	{ "x", "y", 0 },
	{ "p['a'];p['b']", "a;a", 0 },
	{ "states[0];states[1]", "l1.bias;l1.weight", 0 },
	/* Names that tell inputs no better than their places do. */
	{ TWELVE("arg", ""), TWELVE("layers.", ".w"), 0 },
	{ "p0.2;p1.3", "l1.bias;l1.weight", 0 },
	{ "XLA_Args;XLA_Args", "l1.bias;l1.weight", 0 },
	{ "p['a.b'];p['a']['b']", "a.b;a/b", 0 },
	{ "p['01'];p['1']", "0;1", 0 },
	/* But where leaves have them. */
	{ "arg0;arg1", "arg0;arg1", 1 },
};

TEST_EACH(leaves_by_name, matched)
{
	pf_autofree char *params = strdup(matched[_i].params);
	pf_autofree char *leaves = strdup(matched[_i].leaves);
	char *of_params[MOST_NAMES], *of_leaves[MOST_NAMES], *reversed[MOST_NAMES];
	struct pf_param inputs[MOST_NAMES] = { 0 };
	struct pf_signature s = { .inputs = inputs };
	size_t n = split_names(leaves, of_leaves), leaf[MOST_NAMES];

	s.n_inputs = split_names(params, of_params);
	ck_assert_uint_eq(s.n_inputs, n);
	for (size_t i = 0; i < n; i++) {
		inputs[i] = (struct pf_param){ .name = of_params[i], .named = true };
		reversed[n - 1 - i] = of_leaves[i];
	}
	ck_assert_int_eq(pf_params_match(&s, 0, reversed, 0, n, leaf), matched[_i].want);
	for (size_t i = 0; i < n && matched[_i].want == 1; i++)
		ck_assert_uint_eq(leaf[i], n - 1 - i);
}

/* --- facts, which are read without a compiler ------------------------------------------------- */

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
	size_t len = strlen(attributes[_i].text);
	pf_autofree char *copy = exact_copy(attributes[_i].text, len);
	struct pf_program_facts facts;

	ck_assert_int_eq(pf_program_check(PF_PROGRAM_MLIR, copy, len, &facts, NULL), 0);
	ck_assert_int_eq(facts.num_replicas, attributes[_i].replicas);
	ck_assert_int_eq(facts.num_partitions, attributes[_i].partitions);
	ck_assert_int_eq(facts.shardy, attributes[_i].shardy);
	ck_assert_uint_eq(facts.off, 0);
	ck_assert_uint_eq(facts.len, len);
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
	size_t len = producers[_i].len;
	pf_autofree char *copy = exact_copy(producers[_i].bytes, len);
	struct pf_program_facts facts;

	ck_assert_int_eq(pf_program_check(PF_PROGRAM_MLIRBC, copy, len, &facts, NULL), 0);
	ck_assert_mem_eq(facts.stablehlo, producers[_i].version, sizeof(facts.stablehlo));
}

/* Programs that JAX wrote. */
static const struct {
	const char *name;
	int64_t replicas, partitions;
	const char *platforms;
	bool shardy, takes_platform;
} files[] = {
	{ "two-replicas.mlirbc", 2, 1, "", false, false },
	{ "two-partitions.mlirbc", 1, 2, "", true, false },
	{ "f.jax_exported", 1, 1, "cpu", false, false },
	{ "sharded.jax_exported", 1, 2, "cpu", true, false },
	{ "tpu.jax_exported", 1, 1, "tpu cuda", false, true },
	{ "platforms.jax_exported", 1, 1, "cuda tpu cpu", false, true },
	{ "platforms-sharded.jax_exported", 1, 2, "cuda tpu cpu", true, true },
};

TEST_EACH(files_report_their_format, files)
{
	enum pf_program_format format = pf_program_format_of(files[_i].name, NULL);
	struct pf_program_facts facts, module;
	struct pf_err err = PF_ERR_INIT;
	size_t len;
	pf_autofree char *bytes = jax_file(files[_i].name, &len);

	check_result(pf_program_check(format, bytes, len, &facts, &err), 0, &err, NULL);
	ck_assert_int_eq(facts.num_replicas, files[_i].replicas);
	ck_assert_int_eq(facts.num_partitions, files[_i].partitions);
	ck_assert_int_eq(facts.shardy, files[_i].shardy);
	ck_assert_int_eq(facts.takes_platform, files[_i].takes_platform);
	ck_assert_str_eq(facts.platforms, files[_i].platforms);
	ck_assert_mem_eq(bytes + facts.off, "ML\xefR", 4);
	ck_assert_uint_eq(facts.len == len, facts.off == 0);
	/* The module in an export for several platforms does not name them. */
	check_result(pf_program_check(PF_PROGRAM_MLIRBC, bytes + facts.off, facts.len,
				      &module, &err),
		     files[_i].takes_platform ? -EINVAL : 0, &err, "lowered for several");
}

static const struct {
	const char *name;
	enum pf_program_format format;
	const char *says;
} other_files[] = {
	{ "symbolic.jax_exported", PF_PROGRAM_JAX, "found dimension 0" },
	{ "f.jax_exported", PF_PROGRAM_MLIR, ".jax_exported" },
	{ "f.jax_exported", PF_PROGRAM_MLIRBC, ".jax_exported" },
};

TEST_EACH(files_of_another_format_are_refused, other_files)
{
	struct pf_program_facts facts;
	struct pf_err err = PF_ERR_INIT;
	size_t len;
	pf_autofree char *bytes = jax_file(other_files[_i].name, &len);

	check_result(pf_program_check(other_files[_i].format, bytes, len, &facts, &err),
		     -EINVAL, &err, other_files[_i].says);
}

/* The module in an export, behind its length. */
TEST(a_module_of_symbolic_dimensions_is_refused)
{
	struct pf_program_facts facts;
	struct pf_err err = PF_ERR_INIT;
	uint32_t n;
	size_t len;
	pf_autofree char *bytes = jax_file("symbolic.jax_exported", &len);
	char *module = memmem(bytes, len, "ML\xefR", 4);

	ck_assert_ptr_nonnull(module);
	memcpy(&n, module - sizeof(n), sizeof(n));
	check_result(pf_program_check(PF_PROGRAM_MLIRBC, module, n, &facts, &err),
		     -EINVAL, &err, "found symbolic dimensions");
}

/* BYTES are read or refused, and what is read is within them. */
static void check_damaged(enum pf_program_format format, const char *bytes, size_t len)
{
	struct pf_program_facts facts;
	int r = pf_program_check(format, bytes, len, &facts, NULL);

	ck_assert(r == 0 || r == -EINVAL);
	if (r == 0)
		ck_assert(facts.off <= len && facts.len <= len - facts.off &&
			  facts.num_replicas >= 0 && facts.num_partitions >= 0);
}

/* Cut anywhere, or with any byte changed, and no byte beyond. */
TEST_EACH(damaged_files_are_read_within_their_bounds, files)
{
	enum pf_program_format format = pf_program_format_of(files[_i].name, NULL);
	size_t len;
	pf_autofree char *bytes = jax_file(files[_i].name, &len);

	for (size_t cut = 1; cut < len; cut++) {
		pf_autofree char *part = exact_copy(bytes, cut);

		part[cut / 2] ^= (char)(1 << cut % 8);
		check_damaged(format, part, cut);
	}
	for (size_t i = 0; i < 8 * len; i++) {
		bytes[i / 8] ^= (char)(1 << i % 8);
		check_damaged(format, bytes, len);
		bytes[i / 8] ^= (char)(1 << i % 8);
	}
}

static const struct {
	const char *for_, *platform;
	int position;
} platforms[] = {
	{ "", "cpu", 0 },      { "cpu", "CPU", 0 },   { "cuda tpu cpu", "cpu", 2 },
	{ "cpux", "cpu", -1 }, { "cpu", "cpux", -1 }, { "tpu cuda", "cpu", -1 },
};

TEST_EACH(exports_are_for_platforms, platforms)
{
	struct pf_program_facts facts = { 0 };
	struct pf_err err = PF_ERR_INIT;
	int position = platforms[_i].position;

	strcpy(facts.platforms, platforms[_i].for_);
	check_result(pf_program_check_platform(&facts, platforms[_i].platform, &err),
		     position < 0 ? -EINVAL : position, &err, "platforms=[\"cpu");
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
