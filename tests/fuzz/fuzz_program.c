/* SPDX-License-Identifier: Apache-2.0 */
/* Program files: any bytes in every format, and any name. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The program with a main without tokens: it has the facts that a check of it finds. */
static void check_tokens(struct pf_program_facts *facts, const uint8_t *data, size_t size)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT, head = PF_BUF_INIT;
	struct pf_program_facts again;
	size_t start = facts->main, end;

	if (!pf_program_drop_tokens(facts, data, size, &head, &end))
		return;
	assert(start <= end && end <= size);
	pf_buf_append(&text, data, start);
	pf_buf_append(&text, head.data, head.len);
	pf_buf_append(&text, data + end, size - end);
	assert(facts->len == text.len && !facts->tokens);
	if (pf_program_check(PF_PROGRAM_MLIR, text.data, text.len, &again, NULL) == 0)
		assert(again.arguments == facts->arguments && again.main == facts->main);
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
			if (facts.tokens)
				check_tokens(&facts, data, size);
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
