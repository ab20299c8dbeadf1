/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a shared library's file, of the machine's word size and byte order, for a struct of all of it. */
#ifndef PJRTFS_TESTS_UNIT_ELF_FIXTURE_H
#define PJRTFS_TESTS_UNIT_ELF_FIXTURE_H

#include <link.h>
#include <stddef.h>

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

#endif
