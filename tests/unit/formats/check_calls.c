/* SPDX-License-Identifier: Apache-2.0 */
/* The targets of a program's custom calls, and names that are none. */
#include "formats/program/bytecode.h"
#include "hlo_proto.h"

static void note(void *arg, const char *target, size_t len)
{
	struct pf_buf *found = arg;

	pf_buf_append(found, " ", 1);
	pf_buf_append(found, target, len);
}

/* The targets of LEN BYTES, each with a blank before it, in *RET; are these all? */
static bool calls(enum pf_program_format format, const void *bytes, size_t len,
		  struct pf_buf *ret)
{
	const struct pf_call_visitor visitor = { note, ret };
	bool all = pf_program_calls(format, bytes, len, &visitor);

	pf_buf_append(ret, "", 1);
	return all;
}

static const struct {
	const char *name;
	enum pf_program_format format;
	const char *want;
} files[] = {
	{ "calls.mlirbc", PF_PROGRAM_MLIRBC,
	  " Sharding lapack_spotrf_ffi lapack_sgeqrf_ffi" },
	{ "names.mlirbc", PF_PROGRAM_MLIRBC, " Sharding" },
	{ "cholesky.jax_exported", PF_PROGRAM_JAX, " lapack_spotrf_ffi" },
	{ "qr-1.18.jax_exported", PF_PROGRAM_JAX,
	  " lapack_sorgqr_ffi lapack_sgeqrf_ffi" },
	{ "platforms.jax_exported", PF_PROGRAM_JAX, "" },
	{ "two-partitions.mlirbc", PF_PROGRAM_MLIRBC, " xla.sdy.FuncResultSharding" },
	{ "two-replicas.mlirbc", PF_PROGRAM_MLIRBC, "" },
};

TEST_EACH(bytecode_has_targets, files)
{
	pf_autobuf struct pf_buf found = PF_BUF_INIT;
	struct pf_program_facts facts;
	size_t len;
	char *bytes = jax_file(files[_i].name, &len);

	ck_assert_int_eq(pf_program_check(files[_i].format, bytes, len, &facts, NULL), 0);
	ck_assert(calls(files[_i].format, bytes + facts.off, facts.len, &found));
	ck_assert_str_eq(found.data, files[_i].want);
	free(bytes);
}

/* Bytecode that is cut has the same targets, because it needs no later section, or is not
 * understood; with a byte changed, nothing beyond it is read. */
TEST_EACH(damaged_bytecode_is_read_within_its_bounds, files)
{
	struct pf_program_facts facts;
	size_t len;
	char *bytes = jax_file(files[_i].name, &len);

	ck_assert_int_eq(pf_program_check(files[_i].format, bytes, len, &facts, NULL), 0);
	for (size_t i = 0; i < facts.len; i++) {
		pf_autobuf struct pf_buf of_part = PF_BUF_INIT;
		char *part = exact_copy(bytes + facts.off, i);

		if (calls(PF_PROGRAM_MLIRBC, part, i, &of_part))
			ck_assert_str_eq(of_part.data, files[_i].want);
		free(part);
		for (int change = 0; change < 3; change++) {
			pf_autobuf struct pf_buf of_changed = PF_BUF_INIT;

			part = exact_copy(bytes + facts.off, facts.len);
			part[i] ^= (char)(1 << (3 * change));
			calls(PF_PROGRAM_MLIRBC, part, facts.len, &of_changed);
			free(part);
		}
	}
	free(bytes);
}

static const struct {
	int n;
	bool all;
} depths[] = { { 1, true },
	       { PF_MLIR_MAX_NESTING, true },
	       { PF_MLIR_MAX_NESTING + 1, false } };

/* The stack does not hold regions within regions without end. */
TEST_EACH(nested_regions_have_a_limit, depths)
{
	/* A block of one operation, which has one region, of one block without values. */
	static const char level[] = { 5, 1, OP_HAS_REGIONS, 1, 5, 3, 1 };
	PF_CLEANUP(pf_bytecode_marks_release) struct pf_bytecode_marks marks = { 0 };
	pf_autobuf struct pf_buf ir = PF_BUF_INIT;
	struct pf_bytecode f;
	size_t len;
	char *bytes = jax_file("calls.mlirbc", &len);

	for (int i = 0; i < depths[_i].n; i++)
		pf_buf_append(&ir, level, sizeof(level));
	pf_buf_append(&ir, "\1", 1); /* a block without operations */
	ck_assert(pf_bytecode_open(bytes, len, &f, NULL) && pf_bytecode_mark(&marks, &f));
	f.section[SECTION_IR] =
		(struct pf_span){ (const uint8_t *)ir.data,
				  (const uint8_t *)ir.data + ir.len, false };
	ck_assert_int_eq(pf_bytecode_mark_calls(&marks), depths[_i].all);
	free(bytes);
}

static void put_instruction(struct pf_buf *computation, const char *opcode,
			    const char *name, const char *target)
{
	pf_autobuf struct pf_buf message = PF_BUF_INIT;

	put_string(&message, 1, name);
	put_string(&message, 2, opcode);
	if (target)
		put_string(&message, 28, target);
	put_message(computation, 2, &message);
}

TEST(a_module_has_targets_in_all_its_computations)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT, computation = PF_BUF_INIT,
				 found = PF_BUF_INIT, of_part = PF_BUF_INIT;

	put_string(&module, 1, "lapack_sgetrf_ffi");
	put_instruction(&computation, "add", "lapack_sgesdd_ffi", NULL);
	put_instruction(&computation, "custom-call", "x", "lapack_spotrf_ffi");
	put_message(&module, 3, &computation);
	put_instruction(&computation, "custom-call", "lapack_sgtsv_ffi", "Sharding");
	/* Only a custom call has a target. */
	put_instruction(&computation, "constant", "c", "lapack_sgees_ffi");
	put_instruction(&computation, "custom-call", "lapack_sgehrd_ffi", NULL);
	put_message(&module, 3, &computation);
	ck_assert(calls(PF_PROGRAM_HLO, module.data, module.len, &found));
	ck_assert_str_eq(found.data, " lapack_spotrf_ffi Sharding");
	ck_assert(!calls(PF_PROGRAM_HLO, module.data, module.len - 1, &of_part));
	/* A compiled program is not understood at all. */
	ck_assert(!calls(PF_PROGRAM_NATIVE, "pjrtfs\r\n", 8, &of_part));
}

static const unsigned old[3] = { 1, 17, 9 }, new[3] = { 1, 18, 0 };

/* The LEN BYTES with custom calls of VERSION, to be freed; NULL: they stay as they are.  *FACTS become
 * those of the result. */
static char *older(enum pf_program_format format, const char *bytes, size_t len,
		   const unsigned version[3], struct pf_program_facts *facts)
{
	PF_CLEANUP(pf_program_edits_release) struct pf_program_edits edits = { 0 };
	char *ret = NULL;

	if (pf_program_check(format, bytes, len, facts, NULL) == 0 &&
	    pf_program_older_calls(facts, bytes, len, version, &edits)) {
		ck_assert(!pf_program_edits_failed(&edits));
		ret = calloc(1, facts->len + 1);
		pf_program_edit(&edits, bytes, len, ret);
	}
	return ret;
}

/* ALL, which older gave, is a program with nothing more to make older. */
static void check_older(const char *all, const struct pf_program_facts *facts)
{
	struct pf_program_facts again;

	ck_assert_uint_eq(facts->off, 0);
	ck_assert_ptr_null(older(PF_PROGRAM_MLIRBC, all, facts->len, old, &again));
	ck_assert_uint_eq(again.len, facts->len);
	ck_assert_mem_eq(again.stablehlo, facts->stablehlo, sizeof(again.stablehlo));
}

/* For a plugin of an older StableHLO, custom calls are its own: with another name, and without the
 * attribute that it does not know. */
TEST(custom_calls_of_an_older_version)
{
	static const char name[] = "custom_call_v1";
	pf_autobuf struct pf_buf found = PF_BUF_INIT;
	struct pf_program_facts facts;
	size_t len;
	pf_autofree char *bytes = jax_file("qr-1.18.jax_exported", &len), *have;

	ck_assert_ptr_null(older(PF_PROGRAM_JAX, bytes, len, new, &facts));
	have = older(PF_PROGRAM_JAX, bytes, len, old, &facts);
	ck_assert_ptr_nonnull(have);
	check_older(have, &facts);
	ck_assert_ptr_nonnull(memmem(have, facts.len, name, sizeof(name)));
	ck_assert(calls(PF_PROGRAM_MLIRBC, have, facts.len, &found));
	ck_assert_str_eq(found.data, " lapack_sorgqr_ffi lapack_sgeqrf_ffi");
}

/* Nothing beyond the bytes is read, and what is written is understood. */
TEST(damaged_calls_of_an_older_version)
{
	struct pf_program_facts facts, of_older;
	size_t len;
	pf_autofree char *bytes = jax_file("qr-1.18.jax_exported", &len);

	ck_assert_int_eq(pf_program_check(PF_PROGRAM_JAX, bytes, len, &facts, NULL), 0);
	for (size_t i = 0; i < facts.len; i++) {
		for (int bit = 0; bit < 8; bit++) {
			pf_autofree char *part = exact_copy(bytes + facts.off, facts.len);
			pf_autofree char *have = NULL;

			part[i] ^= (char)(1 << bit);
			have = older(PF_PROGRAM_MLIRBC, part, facts.len, old, &of_older);
			if (have)
				check_older(have, &of_older);
		}
	}
}
