/* SPDX-License-Identifier: Apache-2.0 */
/* The run path of a plugin's file, whatever its maker has written into it. */
#include <fcntl.h>
#include <unistd.h>

#include "elf_fixture.h"
#include "work_dir.h"
#include "worker/sandbox.h"

/* A shared library as far as its dynamic section. */
struct library {
	ElfW(Ehdr) head;
	ElfW(Phdr) segments[2];
	ElfW(Dyn) entries[4];
	char strings[64];
};

static const struct library good = {
	ELF_HEAD(struct library),
	.entries = { { DT_STRTAB, { ELF_AT(struct library, strings) } },
		     { DT_RPATH, { 1 } },
		     { DT_RUNPATH, { 8 } } },
	.strings = "\0/rpath\0/run:$ORIGIN",
};

/* The run path of L, or of its first LEN bytes alone, is WANT. */
static void check_part(const struct library *l, size_t len, const char *want)
{
	int fd = open("library", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	char *text;

	ck_assert_int_eq(write(fd, l, len), (ssize_t)len);
	close(fd);
	text = pf_runpath("library");
	ck_assert_str_eq(text, want);
	free(text);
}

static void check(const struct library *l, const char *want)
{
	check_part(l, sizeof(*l), want);
}

TEST(run_path_precedes_rpath)
{
	struct library l = good;

	check(&l, "/run:$ORIGIN");
	l.entries[2].d_tag = DT_DEBUG;
	check(&l, "/rpath");
	l.entries[1].d_tag = DT_NULL; /* the end */
	l.entries[2].d_tag = DT_RUNPATH;
	check(&l, "");
}

TEST(wrong_numbers_name_nothing)
{
	static const uint64_t wrong[] = { 1 << 20, INT64_MAX, UINT64_MAX };
	struct library l;

	for (size_t i = 0; i < PF_ARRAY_SIZE(wrong); i++) {
		uint64_t *const places[] = {
			&l.head.e_phoff,          &l.segments[1].p_offset,
			&l.segments[1].p_filesz,  &l.entries[0].d_un.d_val,
			&l.entries[2].d_un.d_val, &l.segments[0].p_vaddr,
			&l.segments[0].p_offset,
		};

		for (size_t k = 0; k < PF_ARRAY_SIZE(places); k++) {
			l = good;
			l.entries[1].d_tag = DT_DEBUG;
			check(&l, "/run:$ORIGIN");
			*places[k] = wrong[i];
			check(&l, "");
		}
	}
	l = good;
	l.head.e_phnum = UINT16_MAX;
	check(&l, "");
	l = good;
	l.head.e_phentsize = 1;
	check(&l, "");
	l = good;
	memset(l.strings, 'x', sizeof(l.strings)); /* no end */
	check(&l, "");
}

TEST(what_is_no_whole_library_names_nothing)
{
	char *text;

	for (size_t len = 0; len < offsetof(struct library, strings); len++)
		check_part(&good, len, "");
	ck_assert_int_eq(mkfifo("fifo", 0600), 0);
	text = pf_runpath("fifo");
	ck_assert_str_eq(text, "");
	free(text);
	text = pf_runpath("missing");
	ck_assert_str_eq(text, "");
	free(text);
}

UNIT_FIXTURE(work_dir_begin, work_dir_end)
