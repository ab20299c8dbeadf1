/* SPDX-License-Identifier: Apache-2.0 */
/* Where a plugin has the dynamic linker search: DT_RPATH and DT_RUNPATH of its file. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/elf.h"
#include "sandbox.h"

enum { MAX_TEXT = 16384 };

/* Read the string of the entry TAG; "": it has none, or too long a one. */
static void read_text(const struct pf_elf *e, int64_t tag, char text[static MAX_TEXT])
{
	uint64_t table, string;
	size_t n = 0;

	if (pf_elf_entry(e, DT_STRTAB, &table) && pf_elf_entry(e, tag, &string) &&
	    string <= UINT64_MAX - table)
		n = pf_elf_read(e, table + string, text, MAX_TEXT);
	if (!memchr(text, '\0', n))
		*text = '\0';
}

char *pf_runpath(const char *plugin)
{
	char *text = malloc(MAX_TEXT);
	struct pf_elf *e;

	if (!text)
		return NULL;
	*text = '\0';
	e = pf_elf_open(plugin);
	if (!e)
		return text;
	read_text(e, DT_RUNPATH, text); /* which has the linker ignore DT_RPATH */
	if (!*text)
		read_text(e, DT_RPATH, text);
	pf_elf_close(e);
	return text;
}
