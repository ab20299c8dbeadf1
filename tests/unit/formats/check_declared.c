/* SPDX-License-Identifier: Apache-2.0 */
/* The signature that a program itself declares: the types of its main. */
#include "hlo_proto.h"

/* What LEN bytes of a program of FORMAT declare; NULL and *ERR: nothing. */
static struct pf_signature *declared(enum pf_program_format format, const void *bytes,
				     size_t len, struct pf_err *err)
{
	pf_autofree char *copy = exact_copy(bytes, len);
	struct pf_signature *sig = NULL;
	struct pf_program_facts facts;

	if (pf_program_check(format, copy, len, &facts, err) == 0)
		(void)pf_program_declared(&facts, copy, len, "name", &sig, err);
	return sig;
}

/* The text of SIG, which is freed. */
static char *text_of(struct pf_signature *sig)
{
	struct json_object *o = pf_signature_json(sig, "cpu", "device");
	char *text = strdup(pf_json_text(o));

	json_object_put(o);
	pf_signature_free(sig);
	return text;
}

/* The same for a file of tests/data/jax. */
static char *file_declares(enum pf_program_format format, const char *name)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;
	size_t len;
	char *bytes = jax_file(name, &len);

	sig = declared(format, bytes, len, &err);
	free(bytes);
	ck_assert_msg(sig != NULL, "%s: %s", name, err.text);
	return text_of(sig);
}

/* "F32[2,3]", with "+" if it is donated, and the number of the result that gets its memory. */
static void print(const struct pf_param *p, struct pf_buf *out)
{
	char shape[PF_SHAPE_TEXT];

	ck_assert(pf_layout_is_row_major(&p->layout) && !p->tiles && !p->named);
	pf_buf_printf(out, "%s%s", out->len ? " " : "",
		      pf_shape_str(shape, sizeof(shape), p->dtype, &p->shape));
	if (p->donated)
		pf_buf_puts(out, "+");
	if (p->alias_output >= 0)
		pf_buf_printf(out, "%d", p->alias_output);
}

static void check_params(const struct pf_signature *sig, const char *want)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;

	for (size_t i = 0; i < sig->n_inputs; i++)
		print(&sig->inputs[i], &text);
	pf_buf_puts(&text, text.len ? " ->" : "->");
	for (size_t i = 0; i < sig->n_outputs; i++)
		print(&sig->outputs[i], &text);
	ck_assert_str_eq(text.data, want);
	ck_assert_str_eq(sig->name, "name");
	ck_assert_uint_eq(sig->n_callbacks, 0);
}

static const struct {
	const char *text, *want;
} understood[] = {
	{ "func.func @main(%x: tensor<2x3xf32>, %y: tensor<i1>) -> tensor<0x4xbf16> {}",
	  "F32[2,3] PRED[] -> BF16[0,4]" },
	{ "func.func public @main() -> () attributes {a = \"tensor<2xf32>\"} {}", "->" },
	{ "func @main(%x: tensor<complex<f32>> loc(\"x\")) -> (tensor<2xf8E4M3FN> {a = 1})"
	  " {}",
	  "C64[] -> F8E4M3FN[2]" },
	/* What JAX writes of donated arguments; names in other attributes and strings are none. */
	{ "func.func @main(%a: tensor<i8> {tf.aliasing_output = 1 : i32}, "
	  "%b: tensor<i8> {jax.buffer_donor = true}, "
	  "%c: tensor<i8> {jax.buffer_donor = false, a = {jax.buffer_donor = true}}, "
	  "%d: tensor<i8> {a = \"tf.aliasing_output = 0\"}, "
	  "%e: tensor<i8> {tf.aliasing_output = 2 : i32}) -> (tensor<i8>, tensor<i8>) {}",
	  "S8[]+1 S8[]+ S8[] S8[] S8[] -> S8[] S8[]" },
	/* Another function is not main, nor is a call of it. */
	{ "func.func private @f(%x: i1) {} func.func @main(%x: tensor<1xui64>) {}",
	  "U64[1] ->" },
};

TEST_EACH(types_in_text, understood)
{
	struct pf_err err = PF_ERR_INIT;
	const char *text = understood[_i].text;
	struct pf_signature *sig = declared(PF_PROGRAM_MLIR, text, strlen(text), &err);

	ck_assert_msg(sig != NULL, "%s", err.text);
	check_params(sig, understood[_i].want);
	pf_signature_free(sig);
	for (size_t len = 0; len < strlen(text); len++)
		pf_signature_free(declared(PF_PROGRAM_MLIR, text, len, NULL));
}

static const struct {
	const char *text, *says;
} refused[] = {
	{ "func.func @main(%x: tensor<2xf32>, %y: !my.type) {}",
	  "expected an array of a fixed shape and a known element type as main's "
	  "argument 1, found !my.type: give main such types" },
	{ "func.func @main() -> tensor<*xf32> {}", "result 0, found tensor<*xf32>:" },
	{ "func.func @main(%x: !alias) {}", "argument 0, found !alias:" },
	{ "func.func @main(%x: tuple<tensor<f32>>) {}", "found tuple<tensor<f32>>:" },
	{ "func.func @main(%x: !stablehlo.token) {}", "found !stablehlo.token:" },
	{ "func.func @main(%x: tensor<2xindex>) {}", "found tensor<2xindex>:" },
	{ "func.func @main(%x: tensor<2xf32, #e<1>>) {}", "found tensor<2xf32, #e<1>>:" },
	{ "func.func @main(%x: tensor<xf32>) {}", "found tensor<xf32>:" },
	{ "func.func @main(%x: tensor<>) {}", "found tensor<>:" },
	{ "func.func @main(%x: tensor<9223372036854775808xf32>) {}", "found tensor<9" },
	{ "func.func @main(%x: tensor<4611686018427387904xf64>) {}", "found tensor<4" },
	{ "func.func @main(%x: tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x"
	  "1x1x1x1x1xi1>) {}",
	  "found tensor<1x1x" },
	{ "func.func @main(tensor<f32>)",
	  "expected a declaration of main*found another" },
	{ "func.func @other(%x: tensor<f32>) {}",
	  "expected a function main*found none*.mlir" },
};

TEST_EACH(types_that_are_refused, refused)
{
	struct pf_err err = PF_ERR_INIT;
	const char *text = refused[_i].text;
	struct pf_signature *sig = declared(PF_PROGRAM_MLIR, text, strlen(text), &err);

	ck_assert_ptr_null(sig);
	check_result(err.code, -EINVAL, &err, refused[_i].says);
}

/* No program has as many. */
TEST(too_many_arguments)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;

	pf_buf_puts(&text, "func.func @main(%x: tensor<i1>");
	for (int i = 0; i < 65536; i++)
		pf_buf_puts(&text, ", %x: tensor<i1>");
	pf_buf_puts(&text, ") {}");
	ck_assert_ptr_null(declared(PF_PROGRAM_MLIR, text.data, text.len, &err));
	check_result(err.code, -EINVAL, &err, "65537 arguments: at most 65536");
}

/* An argument of each element type, in three forms. */
TEST(types_in_bytecode)
{
	char *text = file_declares(PF_PROGRAM_MLIR, "types.mlir");
	char *bytecode = file_declares(PF_PROGRAM_MLIRBC, "types.mlirbc");
	char *portable = file_declares(PF_PROGRAM_MLIRBC, "types-portable.mlirbc");

	ck_assert_str_eq(bytecode, text);
	ck_assert_str_eq(portable, text);
	free(text);
	free(bytecode);
	free(portable);
}

static const struct {
	const char *name, *want;
	enum pf_program_format format;
} files[] = {
	{ "types.mlirbc",
	  "PRED[0,2] S2[1,2] S4[2,2] S8[3,2]+ S16[4,2] S32[5,2]+2 S64[6,2] U2[7,2] "
	  "U4[8,2] U8[9,2] U16[10,2] U32[11,2] U64[12,2] BF16[13,2] F16[14,2] F32[15,2] "
	  "F64[16,2] C64[17,2] C128[18,2] F8E5M2[19,2] F8E4M3FN[20,2] "
	  "F8E4M3B11FNUZ[21,2] F8E5M2FNUZ[22,2] F8E4M3FNUZ[23,2] F8E4M3[24,2] "
	  "F8E3M4[25,2] F8E8M0FNU[26,2] F4E2M1FN[27,2] -> F32[] PRED[7] S32[5,2]",
	  PF_PROGRAM_MLIRBC },
	{ "types-old.mlirbc", "F8E5M2[2] F8E4M3FN[] F32[3] -> F8E5M2[2]",
	  PF_PROGRAM_MLIRBC },
	{ "f.jax_exported", "F32[2,3] F32[2,3] -> F32[2,3]", PF_PROGRAM_JAX },
	/* The first argument is the platform's number. */
	{ "platforms-donated.jax_exported", "S32[] F32[2,3]+0 F32[2,3] -> F32[2,3] F32[]",
	  PF_PROGRAM_JAX },
	{ "qr-1.18.jax_exported", "F32[6,4] -> F32[6,4] F32[4,4]", PF_PROGRAM_JAX },
	{ "calls.mlirbc", "F32[4,4] -> F32[4,4]", PF_PROGRAM_MLIRBC },
};

TEST_EACH(files_of_jax, files)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *sig;
	size_t len;
	char *bytes = jax_file(files[_i].name, &len);

	sig = declared(files[_i].format, bytes, len, &err);
	ck_assert_msg(sig != NULL, "%s", err.text);
	check_params(sig, files[_i].want);
	pf_signature_free(sig);
	free(bytes);
}

/* Nothing beyond the bytes is read. */
TEST_EACH(damaged_files, files)
{
	size_t len;
	char *bytes = jax_file(files[_i].name, &len);

	for (size_t i = 0; i < len; i++) {
		char before = bytes[i];

		bytes[i] ^= (char)(1 << i % 8);
		pf_signature_free(declared(files[_i].format, bytes, len, NULL));
		bytes[i] = (char)0xff;
		pf_signature_free(declared(files[_i].format, bytes, len, NULL));
		bytes[i] = before;
		pf_signature_free(declared(files[_i].format, bytes, i, NULL));
	}
	free(bytes);
}

static void check_written(const struct pf_signature *sig, bool platform, const char *want)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_signature *again;

	pf_signature_module(sig, platform, &module);
	ck_assert(!module.failed);
	ck_assert_msg(pf_signature_parse(pf_shared_of(module.data, module.len), false,
					 &again, &err) == 0,
		      "%s", err.text);
	check_params(again, want);
	pf_signature_free(again);
}

/* A module that is made of a signature has it. */
TEST_EACH(a_module_of_a_signature, files)
{
	struct pf_signature *sig;
	size_t len;
	char *bytes = jax_file(files[_i].name, &len);

	sig = declared(files[_i].format, bytes, len, NULL);
	check_written(sig, false, files[_i].want);
	pf_signature_free(sig);
	free(bytes);
}

/* One whose first argument is the platform's number: callers do not pass that. */
TEST(a_module_of_several_platforms)
{
	static const char want[] = "S32[] F32[2,3]+0 F32[2,3] -> F32[2,3] F32[]";
	struct pf_signature *sig;
	size_t len;
	char *bytes = jax_file("platforms-donated.jax_exported", &len);

	sig = declared(PF_PROGRAM_JAX, bytes, len, NULL);
	check_params(sig, want);
	ck_assert_int_eq(pf_signature_drop_platform(sig, NULL), 0);
	check_params(sig, want + strlen("S32[] "));
	check_written(sig, true, want);
	pf_signature_free(sig);
	free(bytes);
}

/* It also has layouts and memories, which only modules have. */
TEST(a_module_of_a_module)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT, again = PF_BUF_INIT;
	struct pf_signature *sig;
	char *before;

	put_string(&module, 1, "name");
	put_program_shape(&module, "F32[2,3]{0,1} S4[8]{0}", "(F32[3,2]{0,1},PRED)");
	sig = signature(&module);
	sig->inputs[1].memory_space = 5;
	pf_signature_module(sig, false, &again);
	before = text_of(sig);
	sig = signature(&again);
	ck_assert(sig->lays_out);
	check_json(pf_signature_json(sig, "cpu", "device"), before);
	pf_signature_free(sig);
	free(before);
}

/* Bytecode of a version without properties. */
TEST(an_old_version)
{
	struct pf_err err = PF_ERR_INIT;
	size_t len;
	char *bytes = jax_file("ordered-old.mlirbc", &len);

	ck_assert_ptr_null(declared(PF_PROGRAM_MLIRBC, bytes, len, &err));
	check_result(err.code, -EINVAL, &err,
		     "expected a function main*found none*.mlir");
	free(bytes);
}
