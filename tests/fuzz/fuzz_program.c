/* SPDX-License-Identifier: Apache-2.0 */
/* Program files: any bytes in every format, and any name. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The program with a main without tokens: it has the facts that a check of it finds. */
static void check_tokens(enum pf_program_format format, struct pf_program_facts *facts,
			 const uint8_t *data, size_t size)
{
	PF_CLEANUP(pf_program_edits_release) struct pf_program_edits edits = { 0 };
	struct pf_program_facts again;
	char *program;

	if (!pf_program_drop_tokens(facts, data, size, &edits))
		return;
	assert(!pf_program_edits_failed(&edits) && !facts->tokens && !facts->off);
	program = malloc(facts->len);
	pf_program_edit(&edits, data, size, program);
	if (format == PF_PROGRAM_JAX)
		format = PF_PROGRAM_MLIRBC;
	if (pf_program_check(format, program, facts->len, &again, NULL) == 0)
		assert(again.arguments == facts->arguments && again.main == facts->main);
	assert(format != PF_PROGRAM_MLIRBC ||
	       (again.num_replicas == facts->num_replicas &&
		again.num_partitions == facts->num_partitions));
	/* What has been understood is understood once more, and its main has no tokens. */
	pf_program_edits_release(&edits);
	assert(format != PF_PROGRAM_MLIRBC ||
	       !pf_program_drop_tokens(&again, program, facts->len, &edits));
	free(program);
}

/* The program for a plugin of an old StableHLO: understood once more, it has nothing left to change. */
static void check_older_calls(struct pf_program_facts facts, const uint8_t *data,
			      size_t size)
{
	static const unsigned old[3] = { 0, 9, 0 };
	PF_CLEANUP(pf_program_edits_release) struct pf_program_edits edits = { 0 };
	struct pf_program_facts again;
	char *program;

	if (!pf_program_older_calls(&facts, data, size, old, &edits))
		return;
	assert(!pf_program_edits_failed(&edits) && !facts.off);
	program = malloc(facts.len);
	pf_program_edit(&edits, data, size, program);
	pf_program_edits_release(&edits);
	if (pf_program_check(PF_PROGRAM_MLIRBC, program, facts.len, &again, NULL) == 0)
		assert(!pf_program_older_calls(&again, program, facts.len, old, &edits));
	free(program);
}

struct part {
	const uint8_t *p;
	size_t len;
};

/* A target lies within the program. */
static void check_target(void *arg, const char *target, size_t len)
{
	const struct part *all = arg;

	assert((const uint8_t *)target >= all->p && len <= all->len);
	assert((size_t)((const uint8_t *)target - all->p) <= all->len - len);
}

static void check_calls(enum pf_program_format format, const uint8_t *p, size_t len)
{
	struct part all = { p, len };

	pf_program_calls(format, p, len, &(struct pf_call_visitor){ check_target, &all });
}

/* What main declares can be written as a module and read again. */
static void check_declared(const struct pf_program_facts *facts, const uint8_t *data,
			   size_t size)
{
	pf_autobuf struct pf_buf module = PF_BUF_INIT;
	struct pf_signature *sig, *again;
	struct pf_err err = PF_ERR_INIT;
	int r = pf_program_declared(facts, data, size, "name", &sig, &err);

	assert(r == err.code && (r == 0 || err.text[0]));
	if (r < 0)
		return;
	pf_signature_module(sig, false, &module);
	r = pf_signature_parse(pf_shared_of(module.data, module.len), false, &again,
			       NULL);
	assert(r == 0 && again->n_inputs == sig->n_inputs &&
	       again->n_outputs == sig->n_outputs);
	for (size_t i = 0; i < sig->n_inputs; i++) {
		const struct pf_param *a = &sig->inputs[i], *b = &again->inputs[i];

		assert(a->dtype == b->dtype && pf_shape_equal(&a->shape, &b->shape));
		assert(a->donated == b->donated && a->alias_output == b->alias_output);
	}
	pf_signature_free(sig);
	pf_signature_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *name = malloc(size + 1);
	size_t stem_len = SIZE_MAX;

	for (int format = PF_PROGRAM_NONE; format <= PF_PROGRAM_JAX; format++) {
		struct pf_program_facts facts;
		struct pf_err err = PF_ERR_INIT;
		int r = pf_program_check((enum pf_program_format)format, data, size,
					 &facts, &err);

		if (r == 0) {
			assert(facts.off <= size && facts.len <= size - facts.off);
			assert(facts.num_replicas >= 0 && facts.num_partitions >= 0);
			assert(strlen(facts.platforms) < sizeof(facts.platforms));
			pf_program_check_platform(&facts, "cpu", NULL);
			check_calls((enum pf_program_format)format, data + facts.off,
				    facts.len);
			check_older_calls(facts, data, size);
			check_declared(&facts, data, size);
			if (facts.tokens)
				check_tokens((enum pf_program_format)format, &facts, data,
					     size);
		}

		assert(r == err.code);
		assert(r == 0 || err.text[0]);
	}
	if (!name)
		return 0;
	memcpy(name, data, size);
	name[size] = '\0';
	if (pf_program_format_of(name, &stem_len) != PF_PROGRAM_NONE)
		assert(stem_len > 0 && name[stem_len] == '.');
	else
		assert(stem_len == strlen(name));
	free(name);
	return 0;
}
