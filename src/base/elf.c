/* SPDX-License-Identifier: Apache-2.0 */
/* What a shared library's file says to the dynamic linker. */
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>

#include "pjrtfs/base.h"
#include "pjrtfs/elf.h"

enum { MAX_SEGMENTS = 128, MAX_ENTRIES = 1024 };

struct pf_elf {
	int fd;
	uint16_t machine;
	ElfW(Phdr) segments[MAX_SEGMENTS];
	size_t n_segments;
	ElfW(Dyn) entries[MAX_ENTRIES];
	size_t n_entries;
};

/* This program's own header, which the linker names. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((__visibility__("hidden")));

/* Read LEN bytes at OFFSET.  False: the file does not have them. */
static bool get(const struct pf_elf *e, void *dst, size_t len, uint64_t offset)
{
	return offset <= INT64_MAX - len &&
	       pf_read_at(e->fd, dst, len, offset) == (ssize_t)len;
}

static bool read_segments(struct pf_elf *e)
{
	ElfW(Ehdr) head;

	/* The word size and the byte order are among the first bytes. */
	if (!get(e, &head, sizeof(head), 0) ||
	    memcmp(head.e_ident, __ehdr_start.e_ident, EI_VERSION) != 0 ||
	    head.e_phentsize != sizeof(e->segments[0]) || head.e_phnum > MAX_SEGMENTS)
		return false;
	e->machine = head.e_machine;
	e->n_segments = head.e_phnum;
	return get(e, e->segments, e->n_segments * sizeof(e->segments[0]), head.e_phoff);
}

static bool read_entries(struct pf_elf *e)
{
	for (size_t i = 0; i < e->n_segments; i++) {
		const ElfW(Phdr) *p = &e->segments[i];

		if (p->p_type != PT_DYNAMIC)
			continue;
		e->n_entries = p->p_filesz / sizeof(e->entries[0]);
		return e->n_entries <= MAX_ENTRIES &&
		       get(e, e->entries, e->n_entries * sizeof(e->entries[0]),
			   p->p_offset);
	}
	return false;
}

struct pf_elf *pf_elf_open(const char *path)
{
	struct pf_elf *e = calloc(1, sizeof(*e));
	struct stat st;

	if (!e)
		return NULL;
	e->fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (e->fd < 0 || fstat(e->fd, &st) || !S_ISREG(st.st_mode) || !read_segments(e) ||
	    !read_entries(e)) {
		pf_elf_close(e);
		return NULL;
	}
	return e;
}

void pf_elf_close(struct pf_elf *elf)
{
	if (elf)
		pf_closep(&elf->fd);
	free(elf);
}

bool pf_elf_is_native(const struct pf_elf *elf)
{
	return elf->machine == __ehdr_start.e_machine;
}

bool pf_elf_entry(const struct pf_elf *elf, int64_t tag, uint64_t *ret)
{
	for (size_t i = 0; i < elf->n_entries && elf->entries[i].d_tag != DT_NULL; i++)
		if (elf->entries[i].d_tag == tag) {
			*ret = elf->entries[i].d_un.d_val;
			return true;
		}
	return false;
}

/* Where the file has what is at ADDRESS in memory: *RET. */
static bool find_offset(const struct pf_elf *e, uint64_t address, uint64_t *ret)
{
	for (size_t i = 0; i < e->n_segments; i++) {
		const ElfW(Phdr) *p = &e->segments[i];

		if (p->p_type == PT_LOAD && address >= p->p_vaddr &&
		    address - p->p_vaddr < p->p_filesz) {
			*ret = p->p_offset + (address - p->p_vaddr);
			return true;
		}
	}
	return false;
}

size_t pf_elf_read(const struct pf_elf *elf, uint64_t address, void *dst, size_t len)
{
	uint64_t offset;
	ssize_t n;

	if (!find_offset(elf, address, &offset) || offset > INT64_MAX - len)
		return 0;
	n = pf_read_at(elf->fd, dst, len, offset);
	return n < 0 ? 0 : (size_t)n;
}
