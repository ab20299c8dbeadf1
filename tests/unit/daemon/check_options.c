/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options: sizes, the cache and its directory, modes; the text of --help. */
#undef PLUGINDIR
#define PLUGINDIR "/nowhere/built-in" /* of all files that include options_fixture.h */
#include "daemon/cmdline.c"
#include "daemon/plugin_choice.c"

#include "options_fixture.h"

#include <pwd.h>

static const struct {
	const char *text;
	uint64_t bytes; /* 0: refused */
} memory[] = {
	/* check_user.c has the forms of sizes */
	{ "1048576", 1 << 20 }, { "4g", 4ull << 30 }, { "", 0 },    { "1048575", 0 },
	{ "1023K", 0 },         { "4X", 0 },          { "max", 0 },
};

TEST_EACH(sizes_are_understood, memory)
{
	static const char *const forms[] = { "m --memory-limit=%s",
					     "m -o memory_limit=%s" };
	char line[100], why[200];

	for (unsigned i = 0; i < 2; i++) {
		snprintf(line, sizeof(line), forms[i], memory[_i].text);
		if (memory[_i].bytes) {
			ck_assert_msg(parse(line) == 0, "%s", err.text);
			ck_assert_uint_eq(o.memory_limit, memory[_i].bytes);
		} else {
			snprintf(why, sizeof(why),
				 "memory limit: expected a size from 1M on, as "
				 "in 4G, found %s",
				 memory[_i].text);
			ck_assert_int_eq(parse(line), -EINVAL);
			/* Trailing spaces are removed from sentences. */
			ck_assert_int_eq(strncmp(err.text, why,
						 strlen(why) - !*memory[_i].text),
					 0);
		}
	}
}

static const struct {
	const char *line;
	const char *dir; /* NULL: none said */
	uint64_t size;
	bool off;
	bool fixed;
	unsigned jobs, timeout_s;
} caches[] = {
	{ "m", NULL, UINT64_C(2) << 30, false, false, 0, 0 },
	{ "m --cache-dir d --cache-size 5M", "d", 5 << 20, false, false, 0, 0 },
	{ "m --cache-size=max --no-cache", NULL, UINT64_MAX, true, false, 0, 0 },
	{ "m --compile-jobs 7 --compile-timeout 90", NULL, UINT64_C(2) << 30, false,
	  false, 7, 90 },
	{ "m -o cache_dir=/a/b,cache_size=0,no_cache,compile_jobs=32,compile_timeout=1",
	  "/a/b", 0, true, false, 32, 1 },
	{ "m --cache-dir a --cache-dir b", "b", UINT64_C(2) << 30, false, false, 0, 0 },
	{ "m --cache-readonly", NULL, UINT64_C(2) << 30, false, true, 0, 0 },
	{ "m -o cache_readonly", NULL, UINT64_C(2) << 30, false, true, 0, 0 },
};

TEST_EACH(cache_options_are_understood, caches)
{
	ck_assert_msg(parse(caches[_i].line) == 0, "%s", err.text);
	if (caches[_i].dir)
		ck_assert_str_eq(o.cache_dir, caches[_i].dir);
	else
		ck_assert_ptr_null(o.cache_dir);
	ck_assert_uint_eq(o.cache_size, caches[_i].size);
	ck_assert_int_eq(o.no_cache, caches[_i].off);
	ck_assert_int_eq(o.cache_readonly, caches[_i].fixed);
	ck_assert_uint_eq(o.compile_jobs, caches[_i].jobs);
	ck_assert_uint_eq(o.compile_timeout_s, caches[_i].timeout_s);
	ck_assert_uint_eq(o.fuse.n, 0);
}

static void check_dir(const char *said, const char *want)
{
	const struct options only = { .cache_dir = (char *)(uintptr_t)said };
	char *path = options_cache_dir(&only);

	ck_assert_ptr_nonnull(path);
	ck_assert_str_eq(path, want);
	free(path);
}

TEST(the_cache_directory_is_chosen)
{
	char want[PATH_MAX];

	setenv("HOME", "/home/h", 1);
	setenv("XDG_CACHE_HOME", "/x", 1);
	setenv("PJRTFS_CACHE_DIR", "/p", 1);
	check_dir("/said", "/said");
	snprintf(want, sizeof(want), "%s/said", work_dir);
	check_dir("said", want);
	check_dir(NULL, "/p");
	setenv("PJRTFS_CACHE_DIR", "", 1);
	check_dir(NULL, "/x/pjrtfs");
	setenv("XDG_CACHE_HOME", "relative", 1);
	check_dir(NULL, "/home/h/.cache/pjrtfs");
	unsetenv("XDG_CACHE_HOME");
	unsetenv("PJRTFS_CACHE_DIR");
	check_dir(NULL, "/home/h/.cache/pjrtfs");
	unsetenv("HOME");
	if (getpwuid(getuid())) {
		snprintf(want, sizeof(want), "%s/.cache/pjrtfs",
			 getpwuid(getuid())->pw_dir);
		check_dir(NULL, want);
	}
}

static const struct {
	const char *line;
	unsigned mode, group;
} shared[] = {
	{ "m", 0, 0 },
	{ "m --mode 1777", 01777, 0 },
	{ "m -o allow_other,mode=2775,group=1234", 02775, 1234 },
	{ "m --mode=755 --group 7", 0755, 7 },
	{ "m --group 7 --mode 700 -o mode=1777,group=8", 01777, 8 },
};

TEST_EACH(directories_are_shared, shared)
{
	ck_assert_msg(parse(shared[_i].line) == 0, "%s", err.text);
	ck_assert_uint_eq(o.mode, shared[_i].mode);
	ck_assert_int_eq(o.has_group, shared[_i].group != 0);
	ck_assert_uint_eq(o.group, shared[_i].group);
}

/* Every option of the command line is in the help, and its lines fit a terminal. */
TEST(the_help_is_complete)
{
	pf_autobuf struct pf_buf help = PF_BUF_INIT;
	struct reading g = { .early = true };
	const char *line;

	options_help(&help);
	make_tables(&g);
	for (const struct option *option = g.rows; option->name; option++)
		ck_assert_msg(strstr(help.data, option->name) != NULL, "%s",
			      option->name);
	for (line = help.data; *line; line += strcspn(line, "\n") + 1)
		ck_assert_uint_le(strcspn(line, "\n"), 90);
	ck_assert_ptr_nonnull(
		strstr(help.data,
		       "\n  -f, --foreground         stay in the foreground\n"));
	ck_assert_ptr_nonnull(strstr(help.data, "\n  --plugin-option NAME:KEY=VALUE\n"
						"                           create"));
}

UNIT_FIXTURE(make_files, remove_files)
