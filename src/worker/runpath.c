/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a plugin has the dynamic linker search: DT_RPATH and DT_RUNPATH of its file.  Anyone may have made
 * that file: each number in it may be wrong, and is only used to read less than its limit.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox.h"

enum { MAX_SEGMENTS = 128, MAX_ENTRIES = 1024, MAX_TEXT = 16384 };

struct elf {
	int fd;
	Elf64_Phdr segments[MAX_SEGMENTS];
	size_t n_segments;
	Elf64_Dyn entries[MAX_ENTRIES];
	size_t n_entries;
};

/* Read LEN bytes at OFFSET.  False: the file does not have them. */
static bool get(const struct elf *e, void *dst, size_t len, uint64_t offset)
{
	return offset <= INT64_MAX &&
	       pread(e->fd, dst, len, (off_t)offset) == (ssize_t)len;
}

static bool read_segments(struct elf *e)
{
	Elf64_Ehdr head;

	if (!get(e, &head, sizeof(head), 0) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_ident[EI_DATA] != ELFDATA2LSB ||
	    head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum > MAX_SEGMENTS)
		return false;
	e->n_segments = head.e_phnum;
	return get(e, e->segments, e->n_segments * sizeof(Elf64_Phdr), head.e_phoff);
}

static bool read_entries(struct elf *e)
{
	for (size_t i = 0; i < e->n_segments; i++) {
		const Elf64_Phdr *p = &e->segments[i];

		if (p->p_type != PT_DYNAMIC)
			continue;
		e->n_entries = p->p_filesz / sizeof(Elf64_Dyn);
		return e->n_entries <= MAX_ENTRIES &&
		       get(e, e->entries, e->n_entries * sizeof(Elf64_Dyn), p->p_offset);
	}
	return false;
}

/* The value of the first entry TAG, in *RET. */
static bool find_entry(const struct elf *e, Elf64_Sxword tag, uint64_t *ret)
{
	for (size_t i = 0; i < e->n_entries && e->entries[i].d_tag != DT_NULL; i++)
		if (e->entries[i].d_tag == tag) {
			*ret = e->entries[i].d_un.d_val;
			return true;
		}
	return false;
}

/* Where the file has what is at ADDRESS in memory: *RET. */
static bool find_offset(const struct elf *e, uint64_t address, uint64_t *ret)
{
	for (size_t i = 0; i < e->n_segments; i++) {
		const Elf64_Phdr *p = &e->segments[i];

		if (p->p_type == PT_LOAD && address >= p->p_vaddr &&
		    address - p->p_vaddr < p->p_filesz) {
			*ret = p->p_offset + (address - p->p_vaddr);
			return true;
		}
	}
	return false;
}

/* Read the string of the entry TAG; "": it has none, or too long a one. */
static void read_text(const struct elf *e, Elf64_Sxword tag, char text[static MAX_TEXT])
{
	uint64_t table, string, offset;
	ssize_t n = 0;

	*text = '\0';
	if (find_entry(e, DT_STRTAB, &table) && find_entry(e, tag, &string) &&
	    string <= UINT64_MAX - table && find_offset(e, table + string, &offset) &&
	    offset <= INT64_MAX)
		n = pread(e->fd, text, MAX_TEXT, (off_t)offset);
	if (n <= 0 || !memchr(text, '\0', (size_t)n))
		*text = '\0';
}

char *pf_runpath(const char *plugin)
{
	pf_autofree struct elf *e = calloc(1, sizeof(*e));
	pf_autoclose int fd = open(plugin, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *text = malloc(MAX_TEXT);
	struct stat st;

	if (text)
		*text = '\0';
	if (!e || !text || fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return text;
	e->fd = fd;
	if (!read_segments(e) || !read_entries(e))
		return text;
	read_text(e, DT_RUNPATH, text); /* which has the linker ignore DT_RPATH */
	if (!*text)
		read_text(e, DT_RPATH, text);
	return text;
}
