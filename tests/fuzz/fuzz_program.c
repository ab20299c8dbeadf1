/* SPDX-License-Identifier: Apache-2.0 */
/* Program files: any bytes in every format, and any name. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
