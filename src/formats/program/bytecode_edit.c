/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "bytecode.h"
#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/program.h"

/* Writing MLIR bytecode as edits of a file: what is not edited keeps its bytes. */

enum {
	ALIGNMENT_BYTE = 0xcb,
};

void pf_bytecode_put(struct pf_buf *out, uint64_t n)
{
	unsigned more = 0;
	uint8_t bytes[9];

	while (more < 8 && n >> (7 * (more + 1)))
		more++;
	bytes[0] = 0;
	if (more == 8) {
		memcpy(bytes + 1, &n, 8);
	} else {
		n = (n << 1 | 1) << more;
		memcpy(bytes, &n, more + 1);
	}
	pf_buf_append(out, bytes, more + 1);
}

void pf_bytecode_edit(struct pf_bytecode_editor *e, const uint8_t *at, size_t drop,
		      const struct pf_buf *new)
{
	struct pf_program_edit one = { .at = (size_t)(at - e->whole),
				       .drop = drop,
				       .from = e->to->bytes.len,
				       .len = new->len };

	pf_buf_append(&e->to->bytes, new->data, new->len);
	pf_buf_append(&e->to->list, &one, sizeof(one));
	e->to->list.failed |= new->failed;
}

void pf_bytecode_put_byte(struct pf_buf *out, unsigned byte)
{
	const uint8_t b = (uint8_t)byte;

	pf_buf_append(out, &b, 1);
}

size_t pf_bytecode_growth(const struct pf_bytecode_editor *e, const uint8_t *from,
			  const uint8_t *to)
{
	const struct pf_program_edit *all = (const void *)e->to->list.data;
	size_t n = e->to->list.len / sizeof(*all), ret = 0;

	for (size_t i = 0; i < n; i++)
		if (all[i].at >= (size_t)(from - e->whole) &&
		    all[i].at <= (size_t)(to - e->whole))
			ret += all[i].len - all[i].drop;
	return ret;
}

/* The lengths of sections, and the bytes that align them. */
static void edit_sections(struct pf_bytecode_editor *e)
{
	struct pf_span rest = e->f->sections;
	size_t moved = 0;

	while (rest.p < rest.end && !e->to->list.failed) {
		pf_autobuf struct pf_buf head = PF_BUF_INIT;
		struct pf_span old = rest;
		uint64_t id;
		struct pf_span part = pf_bytecode_section(&rest, e->f->start, &id);
		size_t more, align = 1, at, drop;

		e->bad |= part.bad;
		if (e->bad)
			return;
		more = pf_bytecode_growth(e, part.p, part.end);
		at = (size_t)(old.p - e->f->start) + moved;
		drop = (size_t)(part.p - old.p);
		pf_bytecode_put_byte(&head, *old.p);
		pf_bytecode_put(&head, (size_t)(part.end - part.p) + more);
		if (take_byte(&old) & SECTION_ALIGNED) {
			(void)take_number(&old);
			align = take_number(&old);
			pf_bytecode_put(&head, align);
		}
		while (align && (at + head.len) % align && !head.failed)
			pf_bytecode_put_byte(&head, ALIGNMENT_BYTE);
		moved += head.len - drop + more;
		pf_bytecode_edit(e, part.p - drop, drop, &head);
	}
}

static int by_place(const void *a, const void *b)
{
	const struct pf_program_edit *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return (x->from > y->from) - (x->from < y->from);
}

/* Bring the edits into order.  False: two of them are of the same bytes. */
static bool sort_edits(struct pf_bytecode_editor *e)
{
	struct pf_program_edit *all = (void *)e->to->list.data;
	size_t n = e->to->list.len / sizeof(*all);

	qsort(all, n, sizeof(*all), by_place);
	for (size_t i = 1; i < n; i++)
		if (all[i].at < all[i - 1].at + all[i - 1].drop)
			return false;
	return true;
}

/* Only the module is left, which has LEN bytes, of ALL bytes of the file. */
static void edit_wrapper(struct pf_bytecode_editor *e, size_t len, size_t all)
{
	const uint8_t *end = e->f->start + len;

	pf_bytecode_edit(e, e->whole, (size_t)(e->f->start - e->whole),
			 &(struct pf_buf){ 0 });
	pf_bytecode_edit(e, end, all - (size_t)(end - e->whole), &(struct pf_buf){ 0 });
}

bool pf_bytecode_edit_end(struct pf_bytecode_editor *e, struct pf_program_facts *facts,
			  size_t len)
{
	edit_sections(e);
	edit_wrapper(e, facts->len, len);
	if (e->bad || e->to->list.failed || !sort_edits(e))
		return !e->bad && e->to->list.failed;
	facts->len = len + pf_bytecode_growth(e, e->whole, e->whole + len);
	facts->off = 0;
	return true;
}
