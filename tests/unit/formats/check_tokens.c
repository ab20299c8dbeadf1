/* SPDX-License-Identifier: Apache-2.0 */
/* Programs whose main takes and returns tokens. */
#include "formats_fixture.h"
#include "pjrtfs/program.h"

#define TOKEN "!stablehlo.token"
#define CALLED "main_with_tokens_0"
#define CREATED "%" CALLED "_token"

/* LEN BYTES of FORMAT without tokens, to be freed; NULL: they stay as they are.  *FACTS become those of
 * the result. */
static char *without_tokens(enum pf_program_format format, const char *bytes, size_t len,
			    struct pf_program_facts *facts)
{
	PF_CLEANUP(pf_program_edits_release) struct pf_program_edits edits = { 0 };
	pf_autofree char *copy = exact_copy(bytes, len);
	char *ret = NULL;

	if (pf_program_check(format, copy, len, facts, NULL) == 0 && facts->tokens &&
	    pf_program_drop_tokens(facts, copy, len, &edits)) {
		ck_assert(!pf_program_edits_failed(&edits));
		ret = calloc(1, facts->len + 1);
		pf_program_edit(&edits, copy, len, ret);
	}
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
	char *have = without_tokens(PF_PROGRAM_MLIR, text, strlen(text), &facts);

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
		free(without_tokens(PF_PROGRAM_MLIR, text, len, &facts));
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

	ck_assert_ptr_null(
		without_tokens(PF_PROGRAM_MLIR, kept[_i], strlen(kept[_i]), &facts));
}

/* A name must be found in a few tries. */
TEST(many_names_that_are_taken)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_program_facts facts;

	pf_buf_puts(&text, "func.func @main(%x: " TOKEN ") {} //");
	for (int i = 0; i < 16; i++)
		pf_buf_printf(&text, " main_with_tokens_%d", i);
	ck_assert_ptr_null(without_tokens(PF_PROGRAM_MLIR, text.data, text.len, &facts));
}

/* A declaration of the greatest length, and of one byte more. */
TEST_TIMES(a_long_declaration, 2)
{
	static const char head[] = "func.func @main(%x: " TOKEN ") attributes {a = \"",
			  tail[] = "\"} {}";
	size_t limit = (1 << 24) - strlen(head) - strlen("\"} "), n = limit + (size_t)_i;
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_program_facts facts;
	char *have;

	pf_buf_puts(&text, head);
	memset(pf_buf_reserve(&text, n), 'a', n);
	text.len += n;
	pf_buf_puts(&text, tail);
	have = without_tokens(PF_PROGRAM_MLIR, text.data, text.len, &facts);
	ck_assert_int_eq(have != NULL, _i == 0);
	free(have);
}

static const struct {
	const char *name;
	enum pf_program_format format;
	const char *target; /* of a call */
} bytecode[] = {
	{ "donated-ordered.mlirbc", PF_PROGRAM_MLIRBC, "xla_ffi_python_cpu_callback" },
	{ "ordered.jax_exported", PF_PROGRAM_JAX, NULL },
};

static void note(void *arg, const char *target, size_t len)
{
	pf_buf_append(arg, target, len);
}

/* PROGRAM, the result of without_tokens, is understood once more: it has the FACTS, and no tokens are
 * left. */
static void check_program(const char *program, const struct pf_program_facts *facts)
{
	struct pf_program_facts again;

	ck_assert_int_eq(pf_program_check(PF_PROGRAM_MLIRBC, program, facts->len, &again,
					  NULL),
			 0);
	ck_assert(!facts->tokens);
	ck_assert_uint_eq(facts->off, 0);
	ck_assert_uint_eq(again.len, facts->len);
	ck_assert_int_eq(again.num_partitions, facts->num_partitions);
	ck_assert_mem_eq(again.stablehlo, facts->stablehlo, sizeof(again.stablehlo));
	ck_assert_ptr_null(
		without_tokens(PF_PROGRAM_MLIRBC, program, facts->len, &again));
}

TEST_EACH(a_main_of_bytecode_without_tokens, bytecode)
{
	pf_autobuf struct pf_buf targets = PF_BUF_INIT;
	const struct pf_call_visitor visitor = { note, &targets };
	struct pf_program_facts facts;
	size_t len;
	char *bytes = jax_file(bytecode[_i].name, &len);
	char *have = without_tokens(bytecode[_i].format, bytes, len, &facts);

	ck_assert_ptr_nonnull(have);
	ck_assert_int_eq(facts.num_partitions, 1);
	if (bytecode[_i].format == PF_PROGRAM_MLIRBC)
		check_program(have, &facts);
	ck_assert(pf_program_calls(PF_PROGRAM_MLIRBC, have, facts.len, &visitor));
	if (bytecode[_i].target)
		ck_assert_str_eq(targets.data, bytecode[_i].target);
	else
		ck_assert_uint_eq(targets.len, 0);
	ck_assert_ptr_nonnull(memmem(have, facts.len, CALLED, sizeof(CALLED)));
	free(have);
	free(bytes);
}

/* BYTES without tokens, if that is understood, are a program. */
static void check_damaged(enum pf_program_format format, const char *bytes, size_t len)
{
	struct pf_program_facts facts;
	char *have = without_tokens(format, bytes, len, &facts);

	if (have && format == PF_PROGRAM_MLIRBC)
		check_program(have, &facts);
	free(have);
}

/* Nothing beyond the bytes is read. */
TEST_EACH(damaged_bytecode, bytecode)
{
	enum pf_program_format format = bytecode[_i].format;
	struct pf_program_facts facts;
	size_t len;
	pf_autofree char *bytes = jax_file(bytecode[_i].name, &len);

	for (size_t i = 0; i < len; i++) {
		free(without_tokens(format, bytes, i, &facts));
		for (int bit = 0; bit < 8; bit++) {
			bytes[i] ^= (char)(1 << bit);
			check_damaged(format, bytes, len);
			bytes[i] ^= (char)(1 << bit);
		}
	}
}

/* MLIR writes lengths of sections as they are, and perhaps aligns what they hold. */
TEST(sections_stay_aligned)
{
	static const char head[] = { 0x07 | (char)0x80, 0x01, 64 << 1 | 1 };
	pf_autobuf struct pf_buf aligned = PF_BUF_INIT;
	struct pf_program_facts facts;
	size_t len, at;
	char *bytes = jax_file("donated-ordered.mlirbc", &len), *have, *empty;

	/* A section that the file lacks, of nothing, at its end: of another alignment. */
	pf_buf_append(&aligned, bytes, len);
	pf_buf_append(&aligned, head, sizeof(head));
	while (aligned.len % 64)
		pf_buf_append(&aligned, "\xcb", 1);
	have = without_tokens(PF_PROGRAM_MLIRBC, aligned.data, aligned.len, &facts);
	ck_assert_ptr_nonnull(have);
	check_program(have, &facts);
	ck_assert_uint_eq(facts.len % 64, 0);
	empty = memmem(have, facts.len, head, sizeof(head));
	ck_assert_ptr_nonnull(empty);
	for (at = (size_t)(empty - have) + sizeof(head); at < facts.len; at++)
		ck_assert_int_eq(have[at], (char)0xcb);
	free(have);
	free(bytes);
}

/* MLIR refuses a section that comes twice; many of them would each be looked at for each other. */
TEST(a_section_twice)
{
	pf_autobuf struct pf_buf twice = PF_BUF_INIT;
	struct pf_program_facts facts;
	size_t len;
	char *bytes = jax_file("donated-ordered.mlirbc", &len);

	pf_buf_append(&twice, bytes, len);
	pf_buf_append(&twice, "\x05\x01", 2);
	ck_assert_ptr_null(
		without_tokens(PF_PROGRAM_MLIRBC, twice.data, twice.len, &facts));
	free(bytes);
}

TEST(a_name_that_bytecode_has)
{
	struct pf_program_facts facts;
	size_t len;
	char *bytes = jax_file("donated-ordered.mlirbc", &len), *have;
	char *target = memmem(bytes, len, "xla_ffi_python_cpu_callback", 27);

	ck_assert_ptr_nonnull(target);
	memcpy(target, CALLED, strlen(CALLED));
	have = without_tokens(PF_PROGRAM_MLIRBC, bytes, len, &facts);
	ck_assert_ptr_nonnull(have);
	ck_assert_ptr_nonnull(memmem(have, facts.len, "main_with_tokens_1", 19));
	free(have);
	free(bytes);
}
