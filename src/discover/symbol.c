/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a shared library export a function?  Looked up as the dynamic linker does, in the hash table of
 * its dynamic symbols (DT_GNU_HASH).
 */
#include <link.h>
#include <stdint.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/elf.h"

enum {
	MAX_CHAIN = 1024, /* symbols with one hash bucket; linkers make chains of a few */
	MAX_SYMBOL = 64,  /* bytes of the function's name, with its NUL */
};

/* Where the tables that a lookup needs would be in memory. */
struct library {
	const struct pf_elf *elf;
	uint64_t hash, symbols, names;
};

/* The head of the hash table; after it come the words of a filter, the buckets, the chains. */
struct hash_head {
	uint32_t n_buckets, first_symbol, n_filter, shift;
};

static bool get(const struct library *l, uint64_t address, void *dst, size_t len)
{
	return pf_elf_read(l->elf, address, dst, len) == len;
}

static bool find_tables(struct library *l)
{
	return pf_elf_entry(l->elf, DT_GNU_HASH, &l->hash) &&
	       pf_elf_entry(l->elf, DT_SYMTAB, &l->symbols) &&
	       pf_elf_entry(l->elf, DT_STRTAB, &l->names);
}

/* Is symbol INDEX of L defined there, and called NAME? */
static bool is_symbol(const struct library *l, uint32_t index, const char *name)
{
	size_t len = strlen(name) + 1;
	char found[MAX_SYMBOL];
	ElfW(Sym) symbol;

	return get(l, l->symbols + index * sizeof(symbol), &symbol, sizeof(symbol)) &&
	       symbol.st_shndx != SHN_UNDEF && len <= sizeof(found) &&
	       get(l, l->names + symbol.st_name, found, len) && !memcmp(found, name, len);
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

	if (!get(l, l->hash, &head, sizeof(head)) || !head.n_buckets)
		return false;
	buckets = l->hash + sizeof(head) + head.n_filter * (uint64_t)sizeof(ElfW(Addr));
	chains = buckets + head.n_buckets * (uint64_t)sizeof(index);
	if (!get(l, buckets + wanted % head.n_buckets * sizeof(index), &index,
		 sizeof(index)) ||
	    index < head.first_symbol)
		return false;
	/* The last hash of a chain is odd, the others are even. */
	for (unsigned n = 0; n < MAX_CHAIN && !(hash & 1); n++, index++) {
		if (!get(l, chains + (index - head.first_symbol) * sizeof(hash), &hash,
			 sizeof(hash)))
			return false;
		if ((hash | 1) == (wanted | 1) && is_symbol(l, index, name))
			return true;
	}
	return false;
}

bool library_exports(const char *path, const char *name)
{
	struct pf_elf *elf = pf_elf_open(path);
	struct library l = { .elf = elf };
	bool found;

	found = elf && pf_elf_is_native(elf) && find_tables(&l) && look_up(&l, name);
	pf_elf_close(elf);
	return found;
}
