/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a shared library's file, of the machine's word size and byte order, for a struct of all of it. */
#ifndef PJRTFS_TESTS_UNIT_ELF_FIXTURE_H
#define PJRTFS_TESTS_UNIT_ELF_FIXTURE_H

#include <link.h>
#include <stddef.h>

#include "unit.h"

enum { ELF_ADDRESS = 0x40000 }; /* where it would lie in memory */

/* Where FIELD of the struct TYPE would lie. */
#define ELF_AT(type, field) (ELF_ADDRESS + offsetof(type, field))

/* Of TYPE, which begins with these: ElfW(Ehdr) head; ElfW(Phdr) segments[2], all of it, and its entries;
 * ElfW(Dyn) entries[4]. */
#define ELF_HEAD(type)                                                                   \
	.head = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3,                       \
			       sizeof(ElfW(Addr)) == 8 ? ELFCLASS64 : ELFCLASS32,        \
			       __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__                 \
				       ? ELFDATA2LSB                                     \
				       : ELFDATA2MSB },                                  \
		  .e_phoff = offsetof(type, segments),                                   \
		  .e_phentsize = sizeof(ElfW(Phdr)),                                     \
		  .e_phnum = 2 },                                                        \
	.segments = {                                                                    \
		{ .p_type = PT_LOAD, .p_vaddr = ELF_ADDRESS, .p_filesz = sizeof(type) }, \
		{ .p_type = PT_DYNAMIC,                                                  \
		  .p_offset = offsetof(type, entries),                                   \
		  .p_filesz = 4 * sizeof(ElfW(Dyn)) }                                    \
	}

/* Call TRY with each of the LEN bytes at FILE being another one in turn. */
static inline void elf_each_byte_wrong(void *file, size_t len, void (*try)(void))
{
	static const unsigned char values[] = { 0, 1, 0x7f, 0x80, 0xff };
	unsigned char *bytes = file;

	for (size_t i = 0; i < len; i++) {
		unsigned char was = bytes[i];

		for (size_t k = 0; k < ARRAY_SIZE(values); k++) {
			bytes[i] = values[k];
			try();
		}
		bytes[i] = was;
	}
}

#endif
