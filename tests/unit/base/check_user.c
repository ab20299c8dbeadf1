/* SPDX-License-Identifier: Apache-2.0 */
/* What users write: sizes, words that are nearly right, paths; and their home. */
#include <errno.h>
#include <pwd.h>

#include "pjrtfs/base.h"
#include "work_dir.h"

/* --- sizes --------------------------------------------------------------------------------- */

static const struct {
	const char *text;
	uint64_t bytes;
} good[] = {
	{ "0", 0 },
	{ "1", 1 },
	{ "2147483648", UINT64_C(2147483648) },
	{ "1K", 1024 },
	{ "1k", 1024 },
	{ "3M", 3 << 20 },
	{ "2G", UINT64_C(2) << 30 },
	{ "2GiB", UINT64_C(2) << 30 },
	{ "2gb", UINT64_C(2) << 30 },
	{ "1T", UINT64_C(1) << 40 },
	{ "1048576T", UINT64_C(1) << 60 },
	{ "1152921504606846976", UINT64_C(1) << 60 },
	{ "max", UINT64_MAX },
};

TEST_EACH(good_sizes, good)
{
	uint64_t n = 7;

	ck_assert_int_eq(pf_size_parse(good[_i].text, &n, NULL), 0);
	ck_assert_uint_eq(n, good[_i].bytes);
}

static const char *const bad[] = { "",
				   "x",
				   "-1",
				   "+1",
				   " 1",
				   "1 ",
				   "1X",
				   "1KK",
				   "1Ki",
				   "1.5G",
				   "0x10",
				   "MAX",
				   "maxi",
				   "1048577T",
				   "1152921504606846977",
				   "99999999999999999999",
				   "G",
				   "1iB" };

TEST_EACH(bad_sizes, bad)
{
	struct pf_err err = PF_ERR_INIT;
	uint64_t n = 7;

	ck_assert_msg(pf_size_parse(bad[_i], &n, &err) == -EINVAL, "'%s'", bad[_i]);
	ck_assert_uint_eq(n, 7);
	ck_assert_str_ne(err.text, "");
}

/* --- words --------------------------------------------------------------------------------- */

static const char *const known[] = { "executable", "inputs",   "outputs",
				     "donate",     "device",   "memory_limit",
				     "op",         "no_cache", "a",
				     NULL };

static const struct {
	const char *word, *meant; /* NULL: none */
} words[] = {
	{ "exec", "executable" },       /* a beginning */
	{ "executalbe", "executable" }, /* swapped */
	{ "input", "inputs" },
	{ "inptus", "inputs" },
	{ "output", "outputs" },
	{ "outputss", "outputs" },
	{ "devise", "device" },
	{ "Device", "device" },
	{ "memory-limits", "memory_limit" },
	{ "memory_limt", "memory_limit" },
	{ "no-cahce", "no_cache" },
	{ "de", NULL }, /* the beginning of several, and too short to decide */
	{ "", NULL },
	{ "x", NULL },
	{ "oq", NULL }, /* one of two letters */
	{ "aa", "a" },  /* a letter twice */
	{ "ab", NULL },
	{ "iterations", NULL },
	{ "steps", NULL },
	{ "a word that is far longer than any of the keys that there are in any file",
	  NULL },
};

TEST_EACH(finds_similar_words, words)
{
	struct pf_similar s = { .word = words[_i].word };
	char text[PF_SIMILAR_TEXT], want[PF_SIMILAR_TEXT] = "";

	pf_similar_try_all(&s, known);
	if (!words[_i].meant) {
		ck_assert_msg(!s.best, "%s: %s", s.word, s.best);
	} else {
		ck_assert_msg(s.best && !strcmp(s.best, words[_i].meant), "%s: %s",
			      s.word, s.best ? s.best : "nothing");
		snprintf(want, sizeof(want), " (did you mean \"%s\"?)", words[_i].meant);
	}
	ck_assert_str_eq(pf_similar_hint(&s, text), want);
}

/* The most similar word, in any order of the list. */
TEST(takes_the_most_similar_word)
{
	static const char *const forth[] = { "outputs", "output", NULL };
	static const char *const back[] = { "output", "outputs", NULL };
	struct pf_similar a = { .word = "outputss" }, b = { .word = "outputss" };

	pf_similar_try_all(&a, forth);
	pf_similar_try_all(&b, back);
	ck_assert_str_eq(a.best, "outputs");
	ck_assert_str_eq(b.best, "outputs");
	ck_assert_uint_eq(a.distance, 1);
}

/* The table of distances has room for words of 64 letters. */
TEST(a_longer_known_word_is_not_compared)
{
	char word[66] = "";
	struct pf_similar s = { .word = word };

	memset(word, 'w', 64);
	pf_similar_try(&s, word);
	ck_assert_ptr_eq(s.best, word);
	word[64] = 'w';
	s.best = NULL;
	pf_similar_try(&s, word);
	ck_assert_ptr_null(s.best);
}

/* --- paths --------------------------------------------------------------------------------- */

TEST(a_relative_path_is_below_the_working_directory)
{
	char *relative, *absolute;

	ck_assert_int_eq(chdir("/usr"), 0);
	relative = pf_absolute_path("a/../b");
	absolute = pf_absolute_path("/c/d");
	ck_assert_str_eq(relative, "/usr/a/../b");
	ck_assert_str_eq(absolute, "/c/d");
	free(relative);
	free(absolute);
}

static void expect(const char *said, const char *want)
{
	char *home;

	if (said)
		setenv("HOME", said, 1);
	else
		unsetenv("HOME");
	home = pf_home_dir();
	ck_assert_pstr_eq(home, want);
	free(home);
}

TEST(the_environment_names_the_home)
{
	expect(work_dir, work_dir);
	expect("/nonexistent", "/nonexistent");
}

TEST(another_users_home_is_from_the_user_database)
{
	const struct passwd *user = getpwuid(geteuid());
	char *home = user ? strdup(user->pw_dir) : NULL;

	expect(NULL, home);
	expect("", home);
	expect("relative", home);
	/* Another user's: root can create one, other users have "/". */
	if (geteuid() == 0)
		ck_assert_int_eq(chown(work_dir, 12345, 12345), 0);
	expect(geteuid() == 0 ? work_dir : "/", home);
	if (geteuid() == 0)
		ck_assert_int_eq(chown(work_dir, 0, 0), 0);
	free(home);
}

TEST(a_user_without_a_name_is_a_number)
{
	char name[PF_USER_NAME];

	ck_assert_str_eq(pf_user_name(0, name), "root");
	ck_assert_str_eq(pf_user_name(4000000000, name), "4000000000");
}

UNIT_FIXTURE(work_dir_begin, work_dir_end)
