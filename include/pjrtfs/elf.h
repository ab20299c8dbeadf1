/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a shared library's file says to the dynamic linker, read without loading it.  Anyone may have made that
 * file, and may change it meanwhile: each number in it is only used for one read, of a size that the
 * reader has chosen.
 */
#ifndef PJRTFS_ELF_H
#define PJRTFS_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pf_elf;
struct pf_err;

/* Open the file PATH and read its segments and the entries of its dynamic section.  NULL: it is no
 * shared library of this machine's word size and byte order, or no memory.  Blocks for the disk. */
struct pf_elf *pf_elf_open(const char *path);

/* ELF may be NULL. */
void pf_elf_close(struct pf_elf *elf);

/* Was it made for processors as this one? */
bool pf_elf_is_native(const struct pf_elf *elf);

/* The value of the first entry TAG (DT_RUNPATH), in *RET.  False: there is none. */
bool pf_elf_entry(const struct pf_elf *elf, int64_t tag, uint64_t *ret);

/* Read at most LEN bytes that the library would have at ADDRESS, as an entry names it; how many:
 * fewer at the end of the file, 0 for an address that its segments do not have. */
size_t pf_elf_read(const struct pf_elf *elf, uint64_t address, void *dst, size_t len);

/*
 * Can the dynamic linker load the file FD, as far as its headers show?  It maps a file that is cut short
 * all the same, and the process is killed where it reads what is missing.
 *
 * 0; -ENOEXEC with a sentence: the file is no shared library, one for other processors, or cut short; or
 * an errno of reading it.  Blocks for the disk.
 */
int pf_elf_check(int fd, struct pf_err *err);

#endif
