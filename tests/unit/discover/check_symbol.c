/* SPDX-License-Identifier: Apache-2.0 */
/* What a shared library exports, read from its file: a library's whole, cut, and with each byte changed. */
#include <fcntl.h>

#include "discover/internal.h"
#include "elf_fixture.h"
#include "work_dir.h"

static const char names[] = "\0GetPjrtApi\0needed\0other";
enum { API = 1, NEEDED = 12, OTHER = 19 }; /* where they begin */

/* As a linker writes it: one bucket, whose chain has two symbols; another one is only needed. */
static const struct library {
	ElfW(Ehdr) head;
	ElfW(Phdr) segments[2];
	ElfW(Dyn) entries[4];
	ElfW(Sym) symbols[4];
	uint32_t hash_head[4];
	ElfW(Addr) filter[1];
	uint32_t bucket, chain[2];
	char names[sizeof(names)];
} good = {
	ELF_HEAD(struct library),
	.entries = { { DT_GNU_HASH, { ELF_AT(struct library, hash_head) } },
		     { DT_SYMTAB, { ELF_AT(struct library, symbols) } },
		     { DT_STRTAB, { ELF_AT(struct library, names) } } },
	.symbols = { { 0 },
		     { .st_name = NEEDED, .st_shndx = SHN_UNDEF },
		     { .st_name = OTHER, .st_shndx = 1 },
		     { .st_name = API, .st_shndx = 1 } },
	.hash_head = { 1, 2, 1, 6 },
	.bucket = 2,
};

static struct library lib;

extern const ElfW(Ehdr) __ehdr_start __attribute__((__visibility__("hidden")));

static uint32_t hash_of(const char *name)
{
	uint32_t h = 5381;

	while (*name)
		h = h * 33 + (unsigned char)*name++;
	return h;
}

static void set_up(void)
{
	work_dir_begin();
	lib = good;
	lib.head.e_machine = __ehdr_start.e_machine;
	lib.chain[0] = hash_of("other") & ~1u;
	lib.chain[1] = hash_of("GetPjrtApi") | 1;
	memcpy(lib.names, names, sizeof(names));
}

/* Do the first LEN bytes of the library export NAME? */
static bool exports(size_t len, const char *name)
{
	int fd = open("lib.so", O_CREAT | O_TRUNC | O_WRONLY, 0600);

	ck_assert_int_eq(write(fd, &lib, len), (ssize_t)len);
	close(fd);
	return library_exports("lib.so", name);
}

TEST(what_a_library_defines_is_found)
{
	ck_assert(exports(sizeof(lib), "GetPjrtApi"));
	ck_assert(exports(sizeof(lib), "other"));
	ck_assert(!exports(sizeof(lib), "needed"));
	ck_assert(!exports(sizeof(lib), "GetPjrtApis"));
	ck_assert(!exports(sizeof(lib), "Get"));
	lib.symbols[3].st_shndx = SHN_UNDEF;
	ck_assert(!exports(sizeof(lib), "GetPjrtApi"));
}

/* Of another machine, class or format. */
TEST(other_files_export_nothing)
{
	lib.head.e_machine++;
	ck_assert(!exports(sizeof(lib), "GetPjrtApi"));
	lib.head.e_machine--;
	lib.head.e_ident[EI_CLASS] ^= 3;
	ck_assert(!exports(sizeof(lib), "GetPjrtApi"));
	ck_assert(!library_exports("missing", "GetPjrtApi"));
	ck_assert(!library_exports(".", "GetPjrtApi"));
	ck_assert_int_eq(mkfifo("fifo", 0600), 0);
	ck_assert(!library_exports("fifo", "GetPjrtApi"));
}

TEST(a_library_that_is_cut_exports_nothing)
{
	for (size_t len = 0; len < offsetof(struct library, names) + NEEDED; len++)
		ck_assert_msg(!exports(len, "GetPjrtApi"), "%zu bytes", len);
}

static void look_for_it(void)
{
	(void)exports(sizeof(lib), "GetPjrtApi");
}

/* Each byte in turn is another one: the end is reached, whatever is found. */
TEST(numbers_of_a_library_are_not_trusted)
{
	elf_each_byte_wrong(&lib, sizeof(lib), look_for_it);
	lib.hash_head[0] = 0;
	ck_assert(!exports(sizeof(lib), "GetPjrtApi"));
}

/* A chain that never ends: as long as the file, which is a hole of a gigabyte. */
TEST(a_chain_without_an_end_is_left)
{
	lib.chain[1] &= ~1u;
	memset(lib.names, 0, sizeof(lib.names));
	ck_assert(!exports(sizeof(lib), "none"));
	ck_assert_int_eq(truncate("lib.so", 1 << 30), 0);
	ck_assert(!library_exports("lib.so", "none"));
}

UNIT_FIXTURE(set_up, work_dir_end)
