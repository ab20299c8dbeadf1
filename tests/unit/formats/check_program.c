/* SPDX-License-Identifier: Apache-2.0 */
/* Program files: extensions, refusals, names of parameters. */
#include <errno.h>
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
}

TEST(every_format_has_an_extension)
{
	ck_assert_ptr_null(pf_program_extension(PF_PROGRAM_NONE));
	for (int format = PF_PROGRAM_MLIR; format <= PF_PROGRAM_NATIVE; format++)
		ck_assert_ptr_nonnull(
			pf_program_extension((enum pf_program_format)format));
	ck_assert_ptr_null(pf_program_extension(PF_PROGRAM_NATIVE + 1));
}

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

TEST_EACH(checks_contents, contents)
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

TEST(nesting_errors_name_the_line)
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

/* Names of parameters, as JAX writes them, as paths. */
static const struct {
	const char *name, *path;
} paths[] = {
	{ "x", "x" },
	{ "params['w']", "params/w" },
	{ "p['10'][10].mu", "p/10/10/mu" },
	{ "opt[0].mu['a/b'][\"it's\"]", "opt/0/mu/a/b/it's" },
	{ "p['a\\\\b']['\\'\"']", "p/a\\b/'\"" },
	{ "s[<flat index 3>].x", "s/3/x" },
	{ "x.1", "x/1" },
	{ "['a']", "/a" },
	/* Names that JAX does not write are not changed. */
	{ "p['a", "p['a" },
	{ "p['a'", "p['a'" },
	{ "p['a\\", "p['a\\" },
	{ "p['a\\n']", "p['a\\n']" },
	{ "p[", "p[" },
	{ "p[]", "p[]" },
	{ "p[1", "p[1" },
	{ "p[<flat index >]", "p[<flat index >]" },
	{ "p[<flat index 3", "p[<flat index 3" },
	{ "", "" },
};

TEST_EACH(paths_of_parameters, paths)
{
	char *path = pf_param_path(paths[_i].name);

	ck_assert_str_eq(path, paths[_i].path);
	free(path);
}
