/* SPDX-License-Identifier: Apache-2.0 */
/* Programs whose main takes and returns tokens. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/program.h"
#include "unit.h"

#define TOKEN "!stablehlo.token"
#define CALLED "main_with_tokens_0"
#define CREATED "%" CALLED "_token"

/* TEXT without tokens, to be freed; NULL: it stays as it is.  *FACTS become those of the result. */
static char *without_tokens(const char *text, size_t len, struct pf_program_facts *facts)
{
	pf_autobuf struct pf_buf head = PF_BUF_INIT;
	char *copy = malloc(len + 1), *ret = NULL;
	size_t end, start;

	memcpy(copy, text, len);
	if (pf_program_check(PF_PROGRAM_MLIR, copy, len, facts, NULL) == 0 &&
	    facts->tokens) {
		start = facts->main;
		if (pf_program_drop_tokens(facts, copy, len, &head, &end)) {
			ck_assert(start <= end && end <= len);
			ck_assert_uint_eq(facts->len, start + head.len + len - end);
			ret = malloc(facts->len + 1);
			memcpy(ret, copy, start);
			memcpy(ret + start, head.data, head.len);
			memcpy(ret + start + head.len, copy + end, len - end);
			ret[facts->len] = '\0';
		}
	}
	free(copy);
	return ret;
}

static const struct {
	const char *text, *want;
} rewritten[] = {
	/* As JAX writes it. */
	{ "module @jit_f {\n"
	  "  func.func public @main(%arg0: " TOKEN " {jax.token = true}, %arg1: "
	  "tensor<3xf32>) -> (" TOKEN " {jax.token = true}, tensor<3xf32> "
	  "{jax.result_info = \"result[0]\"}) {\n"
	  "    return %arg0, %arg1 : " TOKEN ", tensor<3xf32>\n  }\n}",
	  "module @jit_f {\n"
	  "  func.func public @main(%arg1: tensor<3xf32>) -> (tensor<3xf32> "
	  "{jax.result_info = \"result[0]\"})  { " CREATED
	  " = stablehlo.create_token : " TOKEN " %" CALLED ":2 = func.call @" CALLED
	  "(" CREATED ", %arg1) : (" TOKEN ", tensor<3xf32>) -> (" TOKEN
	  ", tensor<3xf32>) func.return %" CALLED "#1 : tensor<3xf32> } "
	  "func.func private @" CALLED "(%arg0: " TOKEN
	  ", %arg1: tensor<3xf32>) -> (" TOKEN ", tensor<3xf32>) {\n"
	  "    return %arg0, %arg1 : " TOKEN ", tensor<3xf32>\n  }\n}" },
	/* Several tokens; the number of an aliased result; strings, comments and locations. */
	{ "func @main ( // (\n %a : " TOKEN " , %b: tensor<2xi8, #e<[\"x\", 1]>> "
	  "{a = \"})tf.aliasing_output = 3\", tf.aliasing_output = 3 : i32} loc(\"(\"),\n"
	  "%c: " TOKEN " loc(unknown)) -> (" TOKEN ", i1, " TOKEN
	  ", tuple<i1, (i1, i2) -> i8>) attributes {b = {c = \"}\"}} // {\n{}",
	  "func.func public @main(%b: tensor<2xi8, #e<[\"x\", 1]>> "
	  "{a = \"})tf.aliasing_output = 3\", tf.aliasing_output = 1 : i32} loc(\"(\")) "
	  "-> (i1, tuple<i1, (i1, i2) -> i8>) attributes {b = {c = \"}\"}} { " CREATED
	  " = stablehlo.create_token : " TOKEN " %" CALLED ":4 = func.call @" CALLED
	  "(" CREATED ", %b, " CREATED ") : (" TOKEN
	  ", tensor<2xi8, #e<[\"x\", 1]>>, " TOKEN ") -> (" TOKEN ", i1, " TOKEN
	  ", tuple<i1, (i1, i2) -> i8>) func.return %" CALLED "#1, %" CALLED
	  "#3 : i1, tuple<i1, (i1, i2) -> i8> } func.func private @" CALLED "(%a: " TOKEN
	  ", %b: tensor<2xi8, #e<[\"x\", 1]>>, %c: " TOKEN ") -> (" TOKEN ", i1, " TOKEN
	  ", tuple<i1, (i1, i2) -> i8>) {}" },
	/* Nothing else; no brackets; a name that is taken. */
	{ "func.func @main(%x: " TOKEN ") -> " TOKEN " { return } // " CALLED,
	  "func.func public @main() -> ()  { %main_with_tokens_1_token = "
	  "stablehlo.create_token : " TOKEN " %main_with_tokens_1:1 = func.call "
	  "@main_with_tokens_1(%main_with_tokens_1_token) : (" TOKEN ") -> (" TOKEN
	  ") func.return } func.func private @main_with_tokens_1(%x: " TOKEN
	  ") -> (" TOKEN ") { return } // " CALLED },
	{ "func.func @main(%x: " TOKEN ") {}",
	  "func.func public @main() -> ()  { " CREATED
	  " = stablehlo.create_token : " TOKEN " func.call @" CALLED "(" CREATED
	  ") : (" TOKEN ") -> () func.return } func.func private @" CALLED "(%x: " TOKEN
	  ") -> () {}" },
	{ "func.func @main() -> " TOKEN " attributes {} {}",
	  "func.func public @main() -> () attributes {} { %" CALLED
	  ":1 = func.call @" CALLED "() : () -> (" TOKEN
	  ") func.return } func.func private @" CALLED "() -> (" TOKEN ") {}" },
};

TEST_EACH(a_main_without_tokens, rewritten)
{
	const char *text = rewritten[_i].text;
	struct pf_program_facts facts, again;
	char *have = without_tokens(text, strlen(text), &facts);

	ck_assert_ptr_nonnull(have);
	ck_assert_str_eq(have, rewritten[_i].want);
	/* The facts are those that a check of the result finds. */
	ck_assert_int_eq(pf_program_check(PF_PROGRAM_MLIR, have, facts.len, &again, NULL),
			 0);
	ck_assert_uint_eq(facts.arguments, again.arguments);
	ck_assert_uint_eq(facts.main, again.main);
	ck_assert(!facts.tokens);
	free(have);
}

TEST_EACH(truncated_anywhere, rewritten)
{
	const char *text = rewritten[_i].text;
	struct pf_program_facts facts;

	for (size_t len = 0; len < strlen(text); len++)
		free(without_tokens(text, len, &facts));
}

static const char *const kept[] = {
	"func.func @main(%x: i1) -> i1 {}",
	"func.func @other(%x: " TOKEN ") -> " TOKEN " {}",
	"func.func @main(%x: i1) -> i1 { %t = stablehlo.create_token : " TOKEN " }",
	"func.func @main(%x: i1 {a = \"" TOKEN "\"}) {} // " TOKEN,
	"call @main(%x) : (" TOKEN ") -> ()",
	"func.func @main(" TOKEN ")",
	"func.func @main(%x " TOKEN ") {}",
	"func.func @main(%x: " TOKEN ")",
	"func.func @main(%x: " TOKEN ") ->",
	"func.func @main(%x: " TOKEN ") -> {}",
	"func.func @main(%x: " TOKEN ") attributes {",
	"func.func @main(%x: " TOKEN ", , %y: i1) {}",
	"func.func @main(%x: " TOKEN ", %y:) {}",
};

TEST_EACH(programs_that_stay, kept)
{
	struct pf_program_facts facts;

	ck_assert_ptr_null(without_tokens(kept[_i], strlen(kept[_i]), &facts));
}

/* A name must be found in a few tries. */
TEST(many_names_that_are_taken)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_program_facts facts;

	pf_buf_puts(&text, "func.func @main(%x: " TOKEN ") {} //");
	for (int i = 0; i < 16; i++)
		pf_buf_printf(&text, " main_with_tokens_%d", i);
	ck_assert_ptr_null(without_tokens(text.data, text.len, &facts));
}
