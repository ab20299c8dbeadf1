/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "bytecode.h"
#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/program.h"

/*
 * Custom calls of StableHLO 1.18 for plugins of an older one.
 *
 * There a custom call has another name, since it has one property more, "result_tilings", the last one
 * by its name.  JAX never sets it, so that without it the call is the older one.
 */

static const unsigned tilings_since[3] = { 1, 18, 0 };

bool pf_stablehlo_older(const unsigned a[3], const unsigned b[3])
{
	for (size_t i = 0; i < 3; i++)
		if (a[i] != b[i])
			return a[i] < b[i];
	return false;
}

/* Is entry INDEX an array of VHLO without elements? */
static bool is_empty_array(const struct pf_bytecode_marks *m, uint64_t index)
{
	struct pf_bytecode_entry entry = pf_bytecode_find(m->f, index);
	uint64_t code = take_number(&entry.bytes), n = take_number(&entry.bytes);

	return !entry.bytes.bad && !entry.text && index < m->f->n_attributes &&
	       entry.dialect < m->n_dialects && m->dialects[entry.dialect] == VHLO &&
	       code == VHLO_ARRAY && n == 0;
}

/* Drop the tilings of every call, all of which have the same one: none. */
static bool edit_properties(struct pf_bytecode_editor *e,
			    const struct pf_bytecode_marks *m)
{
	struct pf_span b = m->f->section[SECTION_PROPERTIES];
	uint64_t tilings = UINT64_MAX;

	(void)take_number(&b);
	for (uint64_t i = 0; i < m->n_properties; i++) {
		pf_autobuf struct pf_buf new = PF_BUF_INIT;
		const uint8_t *start = b.p, *last = NULL;
		struct pf_span numbers = take_bytes(&b, take_number(&b));
		struct pf_span part = numbers;
		uint64_t number = 0;

		if (!(m->properties[i] & OF_CALL_V2))
			continue;
		while (!part.bad && part.p < part.end) {
			last = part.p;
			number = take_number(&part);
		}
		if (tilings == UINT64_MAX && is_empty_array(m, number))
			tilings = number;
		if (m->properties[i] != OF_CALL_V2 || !last || part.bad ||
		    number != tilings)
			return false;
		pf_bytecode_put(&new, (uint64_t)(last - numbers.p));
		pf_buf_append(&new, numbers.p, (size_t)(last - numbers.p));
		pf_bytecode_edit(e, start, (size_t)(numbers.end - start), &new);
	}
	return tilings != UINT64_MAX;
}

/* The operation's name, which is as long as the older one. */
static void edit_name(struct pf_bytecode_editor *e, const struct pf_bytecode_marks *m)
{
	char older[] = "1";
	struct pf_span lengths = m->f->section[SECTION_STRINGS];
	const uint8_t *text = lengths.end;

	(void)take_number(&lengths);
	for (uint64_t i = m->n_strings; i-- > 0;) {
		text -= take_number(&lengths);
		e->bad |= m->strings[i] == CALL_V2 && m->targets[i];
		if (m->strings[i] == CALL_V2)
			pf_bytecode_edit(e, text + strlen("custom_call_v"), 1,
					 &(struct pf_buf){ .data = older, .len = 1 });
	}
}

bool pf_program_older_calls(struct pf_program_facts *facts, const void *bytes, size_t len,
			    const unsigned stablehlo[3], struct pf_program_edits *edits)
{
	PF_CLEANUP(pf_bytecode_marks_release) struct pf_bytecode_marks m = { 0 };
	struct pf_bytecode f;
	struct pf_bytecode_editor e = { .f = &f, .whole = bytes, .to = edits };

	/* Only a portable artifact has a version. */
	if (pf_stablehlo_older(facts->stablehlo, tilings_since) ||
	    !pf_stablehlo_older(stablehlo, tilings_since) ||
	    !pf_bytecode_open(e.whole + facts->off, facts->len, &f, NULL) ||
	    !pf_bytecode_mark(&m, &f) || !pf_bytecode_mark_calls(&m) ||
	    !edit_properties(&e, &m))
		return edits->list.failed;
	edit_name(&e, &m);
	return pf_bytecode_edit_end(&e, facts, len);
}
