/* SPDX-License-Identifier: Apache-2.0 */
/* The signature that a program declares: the types of its main. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/program.h"

static int no_memory(struct pf_err *err)
{
	return pf_err_set(err, -ENOMEM, "no memory for the program's signature");
}

static char *number_name(size_t i)
{
	char text[24];

	snprintf(text, sizeof(text), "%zu", i);
	return strdup(text);
}

/* Give the arrays numbers as names; an alias of a result that is not there is none. */
static int complete(struct pf_signature *sig, const char *name, struct pf_err *err)
{
	char *copy = strdup(name);

	if (!copy)
		return no_memory(err);
	copy[pf_err_clean(copy, strlen(copy))] = '\0';
	sig->name = copy;
	for (size_t i = 0; i < sig->n_inputs; i++) {
		struct pf_param *in = &sig->inputs[i];

		in->name = number_name(i);
		if (!in->name)
			return no_memory(err);
		if (in->alias_output >= 0 && (size_t)in->alias_output >= sig->n_outputs)
			in->alias_output = -1;
		in->donated = in->donated || in->alias_output >= 0;
	}
	for (size_t i = 0; i < sig->n_outputs; i++)
		if (!(sig->outputs[i].name = number_name(i)))
			return no_memory(err);
	return 0;
}

int pf_program_declared(const struct pf_program_facts *facts, const void *bytes,
			size_t len, const char *name, struct pf_signature **ret,
			struct pf_err *err)
{
	const char *program = (const char *)bytes + facts->off;
	struct pf_signature *sig = calloc(1, sizeof(*sig));
	int r;

	if (!sig)
		return no_memory(err);
	if (facts->arguments)
		r = pf_mlir_declared(facts, bytes, len, sig, err);
	else
		r = pf_mlir_bytecode_declared(program, facts->len, sig, err);
	if (r == 0)
		r = complete(sig, name, err);
	if (r < 0)
		pf_signature_free(sig);
	else
		*ret = sig;
	return r;
}
