/* SPDX-License-Identifier: Apache-2.0 */
/* The targets of a program's custom calls, and names that are none. */
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
