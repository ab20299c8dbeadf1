/* SPDX-License-Identifier: Apache-2.0 */
/* What a shared library's file says to the dynamic linker. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
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

/* --- can it be loaded? ----------------------------------------------------------------------- */

/* What a file is for: "x86-64, 64 bits". */
static void print_machine(unsigned machine, const unsigned char *ident, char text[64])
{
	static const struct {
		unsigned machine;
		const char *name;
	} machines[] = {
		{ EM_X86_64, "x86-64" }, { EM_AARCH64, "aarch64" }, { EM_386, "i386" },
		{ EM_ARM, "arm" },       { EM_RISCV, "riscv" },     { EM_PPC64, "ppc64" },
		{ EM_S390, "s390" },
	};
	int bits = ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;

	snprintf(text, 64, "ELF machine %u, %d bits", machine, bits);
	for (size_t i = 0; i < PF_ARRAY_SIZE(machines); i++)
		if (machines[i].machine == machine)
			snprintf(text, 64, "%s, %d bits", machines[i].name, bits);
}

static int check_kind(const ElfW(Ehdr) * head, struct pf_err *err)
{
	const ElfW(Ehdr) *own = &__ehdr_start;
	unsigned machine = head->e_machine;
	char want[64], found[64];

	if (memcmp(head->e_ident, own->e_ident, EI_VERSION) != 0 ||
	    machine != own->e_machine) {
		if (head->e_ident[EI_DATA] != own->e_ident[EI_DATA])
			machine = __builtin_bswap16(head->e_machine);
		print_machine(own->e_machine, own->e_ident, want);
		print_machine(machine, head->e_ident, found);
		return pf_err_set(
			err, -ENOEXEC,
			"expected a shared library for this machine (%s), found "
			"one for another (%s)",
			want, found);
	}
	if (head->e_type == ET_DYN)
		return 0;
	return pf_err_set(err, -ENOEXEC, "expected a shared library, found %s",
			  head->e_type == ET_REL ? "an object file: link it with -shared"
			  : head->e_type == ET_EXEC ? "a program"
						    : "an ELF file of another type");
}

/* How many bytes the linker will need of the file FD, which HEAD begins; 0: it will find that wrong. */
static uint64_t bytes_needed(int fd, const ElfW(Ehdr) * head)
{
	uint64_t n = head->e_phnum, end, ret;
	ElfW(Phdr) segment;

	if (head->e_phentsize != sizeof(segment) ||
	    __builtin_add_overflow(head->e_phoff, n * sizeof(segment), &ret))
		return 0;
	for (uint64_t i = 0; i < n; i++) {
		if (pf_read_at(fd, &segment, sizeof(segment),
			       head->e_phoff + i * sizeof(segment)) != sizeof(segment))
			return ret;
		if (segment.p_type != PT_LOAD)
			continue;
		if (__builtin_add_overflow(segment.p_offset, segment.p_filesz, &end))
			return 0;
		ret = end > ret ? end : ret;
	}
	return ret;
}

int pf_elf_check(int fd, struct pf_err *err)
{
	uint64_t size, want = sizeof(ElfW(Ehdr)), sections;
	ElfW(Ehdr) head = { 0 };
	struct stat st;
	ssize_t n;
	int r;

	if (fstat(fd, &st))
		return pf_err_set(err, -errno, "%s", strerror(errno));
	if (S_ISDIR(st.st_mode))
		return pf_err_set(
			err, -EISDIR,
			"expected a shared library, found a directory: name the "
			".so in it");
	n = pf_read_at(fd, &head, sizeof(head), 0);
	if (n < 0)
		return pf_err_set(err, (int)n, "%s", strerror((int)-n));
	size = (uint64_t)st.st_size;
	if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
		return pf_err_set(err, -ENOEXEC,
				  "expected a shared library, found no ELF header in its "
				  "%" PRIu64 " bytes: name the .so",
				  size);
	if (size >= want) {
		r = check_kind(&head, err);
		if (r < 0)
			return r;
		want = bytes_needed(fd, &head);
	}
	if (size >= want)
		return 0;
	/* The table of sections is the end of what linkers write. */
	sections = head.e_shoff + head.e_shnum * (uint64_t)head.e_shentsize;
	return pf_err_set(err, -ENOEXEC,
			  "it is cut short: %" PRIu64 " bytes of %" PRIu64
			  ": download or copy it again",
			  size, sections > want ? sections : want);
}
