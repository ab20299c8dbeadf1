/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a file from being loaded, as its headers show it. */
#include <errno.h>

#include "elf_fixture.h"
#include "err_fixture.h"
#include "pjrtfs/elf.h"
#include "work_dir.h"

/* A shared library with a table of sections at its end, which no linker needs. */
static struct library {
	ElfW(Ehdr) head;
	ElfW(Phdr) segments[2];
	ElfW(Dyn) entries[4];
	ElfW(Shdr) sections[2];
} lib;

enum { NEEDED = offsetof(struct library, sections) };

static const struct library good = { ELF_HEAD(struct library) };

extern const ElfW(Ehdr) __ehdr_start __attribute__((__visibility__("hidden")));

static void set_up(void)
{
	work_dir_begin();
	lib = good;
	lib.head.e_machine = __ehdr_start.e_machine;
	lib.head.e_type = ET_DYN;
	lib.head.e_shoff = NEEDED;
	lib.head.e_shnum = 2;
	lib.head.e_shentsize = sizeof(lib.sections[0]);
	lib.segments[0].p_filesz = NEEDED;
}

/* Check the first LEN bytes of the library. */
static int check(size_t len)
{
	int fd = open("lib.so", O_CREAT | O_TRUNC | O_RDWR, 0600), r;

	ck_assert_int_eq(write(fd, &lib, len), (ssize_t)len);
	r = pf_elf_check(fd, &err);
	close(fd);
	return r;
}

static void refused(size_t len, const char *said)
{
	ck_assert_int_eq(check(len), -ENOEXEC);
	ck_assert_msg(strstr(err.text, said), "%s", err.text);
}

TEST(a_file_that_is_cut_short_is_refused)
{
	char want[64];

	ok(check(sizeof(lib)));
	ok(check(NEEDED));
	for (size_t len = SELFMAG; len < NEEDED; len++)
		refused(len, "it is cut short: ");
	snprintf(want, sizeof(want), "%d bytes of %zu: ", NEEDED - 1, sizeof(lib));
	refused(NEEDED - 1, want);
	refused(SELFMAG - 1, "found no ELF header in its 3 bytes");
}

TEST(a_file_for_another_machine_is_refused)
{
	lib.head.e_machine =
		__ehdr_start.e_machine == EM_AARCH64 ? EM_X86_64 : EM_AARCH64;
	refused(sizeof(lib), lib.head.e_machine == EM_AARCH64
				     ? "another (aarch64, 64 bits)"
				     : "another (x86-64, 64 bits)");
	lib.head.e_machine = __builtin_bswap16(EM_S390);
	lib.head.e_ident[EI_DATA] ^= ELFDATA2LSB ^ ELFDATA2MSB;
	refused(sizeof(lib), "another (s390, 64 bits)");
}

TEST(other_files_are_no_libraries)
{
	int fd = open(".", O_RDONLY | O_DIRECTORY);

	ck_assert_int_eq(pf_elf_check(fd, &err), -EISDIR);
	close(fd);
	lib.head.e_type = ET_REL;
	refused(sizeof(lib), "found an object file: link it with -shared");
	lib.head.e_type = ET_EXEC;
	refused(sizeof(lib), "found a program");
	lib.head.e_ident[0] = 'E';
	refused(sizeof(lib), "found no ELF header");
}

static void check_it(void)
{
	(void)check(sizeof(lib));
}

/* What its numbers overflow is the linker's to refuse. */
TEST(numbers_are_not_trusted)
{
	elf_each_byte_wrong(&lib, sizeof(lib), check_it);
	lib.segments[0].p_offset = UINT64_MAX;
	ok(check(sizeof(lib)));
}

UNIT_FIXTURE(set_up, work_dir_end)
