/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a shared library export a function?  Looked up as the dynamic linker does, in the hash table of
 * its dynamic symbols (DT_GNU_HASH), without loading it.  Whoever wrote the file chose all its offsets
 * and numbers, and may change it meanwhile: each is used for one read, of a fixed size.
 */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

enum {
	MAX_SECTIONS = 4096,
	MAX_CHAIN = 1024, /* symbols with one hash bucket; linkers make chains of a few */
	MAX_SYMBOL = 64,  /* bytes of the function's name, with its NUL */
};

/* The sections that a lookup needs. */
struct library {
	int fd;
	ElfW(Shdr) hash, symbols, names;
};

/* The head of the section .gnu.hash; after it come the words of a filter, the buckets, the chains. */
struct hash_head {
	uint32_t n_buckets, first_symbol, n_filter, shift;
};

static bool read_at(int fd, uint64_t at, void *dst, size_t len)
{
	return at <= INT64_MAX - len && pread(fd, dst, len, (off_t)at) == (ssize_t)len;
}

/* This program's own header, which the linker names. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((__visibility__("hidden")));

/* Is HEAD that of a library of this machine? */
static bool is_of_machine(const ElfW(Ehdr) * head)
{
	return !memcmp(head->e_ident, __ehdr_start.e_ident, EI_VERSION) &&
	       head->e_machine == __ehdr_start.e_machine &&
	       head->e_shentsize == sizeof(ElfW(Shdr)) && head->e_shnum <= MAX_SECTIONS;
}

static bool read_section(int fd, const ElfW(Ehdr) * head, unsigned i, ElfW(Shdr) * ret)
{
	return i < head->e_shnum &&
	       read_at(fd, head->e_shoff + i * sizeof(*ret), ret, sizeof(*ret));
}

static bool find_sections(struct library *l)
{
	ElfW(Ehdr) head;
	unsigned i = 0;

	if (!read_at(l->fd, 0, &head, sizeof(head)) || !is_of_machine(&head))
		return false;
	do {
		if (!read_section(l->fd, &head, i++, &l->hash))
			return false;
	} while (l->hash.sh_type != SHT_GNU_HASH);
	return read_section(l->fd, &head, l->hash.sh_link, &l->symbols) &&
	       read_section(l->fd, &head, l->symbols.sh_link, &l->names);
}

/* Is symbol INDEX of L defined there, and called NAME? */
static bool is_symbol(const struct library *l, uint32_t index, const char *name)
{
	size_t len = strlen(name) + 1;
	char found[MAX_SYMBOL];
	ElfW(Sym) symbol;

	return read_at(l->fd, l->symbols.sh_offset + index * sizeof(symbol), &symbol,
		       sizeof(symbol)) &&
	       symbol.st_shndx != SHN_UNDEF && len <= sizeof(found) &&
	       read_at(l->fd, l->names.sh_offset + symbol.st_name, found, len) &&
	       !memcmp(found, name, len);
}

static uint32_t hash_of(const char *name)
{
	uint32_t h = 5381;

	while (*name)
		h = h * 33 + (unsigned char)*name++;
	return h;
}

static bool look_up(const struct library *l, const char *name)
{
	uint32_t wanted = hash_of(name), index, hash = 0;
	struct hash_head head;
	uint64_t buckets, chains;

	if (!read_at(l->fd, l->hash.sh_offset, &head, sizeof(head)) || !head.n_buckets)
		return false;
	buckets = l->hash.sh_offset + sizeof(head) +
		  head.n_filter * (uint64_t)sizeof(ElfW(Addr));
	chains = buckets + head.n_buckets * (uint64_t)sizeof(index);
	if (!read_at(l->fd, buckets + wanted % head.n_buckets * sizeof(index), &index,
		     sizeof(index)) ||
	    index < head.first_symbol)
		return false;
	/* The last hash of a chain is odd, the others are even. */
	for (unsigned n = 0; n < MAX_CHAIN && !(hash & 1); n++, index++) {
		if (!read_at(l->fd, chains + (index - head.first_symbol) * sizeof(hash),
			     &hash, sizeof(hash)))
			return false;
		if ((hash | 1) == (wanted | 1) && is_symbol(l, index, name))
			return true;
	}
	return false;
}

bool library_exports(const char *path, const char *name)
{
	pf_autoclose int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct library l = { .fd = fd };
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       find_sections(&l) && look_up(&l, name);
}
