/* SPDX-License-Identifier: Apache-2.0 */
/* The directory: rights, a disk that refuses, other processes, plugins' digests. */
#include <glob.h>
#include <sys/file.h>

#include "cache_fixture.h"

/* A file that other users can write would run their code. */
TEST(foreign_entries_are_not_read)
{
	char path[256], other[256];

	path_of(1, path);
	path_of(2, other);
	ck_assert_int_eq(put(1, 10), 0);
	ck_assert_int_eq(chmod(path, 0620), 0);
	ck_assert_int_eq(get(1, 10), 0);
	ck_assert_int_ne(access(path, F_OK), 0);
	ck_assert_int_eq(put(1, 10), 0);
	if (geteuid() == 0) {
		ck_assert_int_eq(chown(path, 12345, 12345), 0);
		ck_assert_int_eq(get(1, 10), 0);
		ck_assert_int_eq(put(1, 10), 0);
	}
	/* under another's name, and by a link */
	ck_assert_int_eq(rename(path, other), 0);
	ck_assert_int_eq(get(2, 10), 0);
	ck_assert_int_eq(put(1, 10), 0);
	ck_assert_int_eq(symlink(path, other), 0);
	ck_assert_int_eq(get(2, 10), 0);
	ck_assert_int_eq(get(1, 10), 1);
	ck_assert_int_eq(mkdir(other, 0700), 0);
	ck_assert_int_eq(get(2, 10), 0);
	ck_assert_uint_ge(stats().damaged, 3);
}

TEST(foreign_directories_are_refused)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_cache *was = cache;

	ck_assert_int_eq(chmod(dir, 0770), 0);
	ck_assert_int_eq(try_open(1, &err), -EPERM);
	ck_assert_ptr_nonnull(strstr(err.text, "0770"));
	ck_assert_int_eq(chmod(dir, 0755), 0);
	if (geteuid() == 0) {
		ck_assert_int_eq(chown(dir, 12345, 12345), 0);
		ck_assert_int_eq(try_open(1, &err), -EPERM);
		ck_assert_ptr_nonnull(strstr(err.text, "12345"));
		ck_assert_int_eq(chown(dir, 0, 0), 0);
	}
	snprintf(dir, sizeof(dir), "/dev/null/x");
	ck_assert_int_eq(try_open(1, &err), -ENOTDIR);
	cache = was;
}

/* Give the file or directory NAME of the cache MODE. */
static void change_mode(const char *name, mode_t mode)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	ck_assert_int_eq(chmod(path, mode), 0);
}

/* Hits and no more; as another user, since root may write anywhere. */
TEST(a_read_only_directory_gives_hits)
{
	struct pf_cache_key key = key_of(1);
	struct pf_err err = PF_ERR_INIT;
	char path[256];
	struct pf_cache_stats s;

	ck_assert_int_eq(put(1, 10), 0);
	ck_assert_int_eq(chmod(work_dir, 0755), 0);
	change_mode("..", 0755);
	change_mode("entries", 0555);
	change_mode("tmp", 0555);
	change_mode(".", 0555);
	path_of(1, path);
	ck_assert_int_eq(chmod(path, 0444), 0);
	if (geteuid() == 0)
		ck_assert_int_eq(seteuid(12345), 0);
	reopen(1000000);
	ck_assert_int_eq(get(1, 10), 1);
	pf_cache_miss(cache);
	ck_assert_int_eq(put(2, 10), -EROFS);
	ck_assert_int_eq(put(2, 10), -EROFS);
	ck_assert_int_eq(warnings, 1);
	ck_assert_int_eq(pf_cache_failing(cache, NULL), 0);
	ck_assert_int_eq(pf_cache_remove(cache, &key, &err), -EROFS);
	ck_assert_int_eq(pf_cache_clear(cache, &err), -EROFS);
	s = stats();
	ck_assert(!s.writable);
	ck_assert_uint_eq(s.hits, 1);
	ck_assert_uint_eq(s.misses, 1);
	ck_assert_uint_eq(s.entries, 1);
	ck_assert_int_eq(seteuid(getuid()), 0);
	change_mode(".", 0700);
	change_mode("entries", 0700);
	change_mode("tmp", 0700);
}

/* Is the last write remembered as CODE, with a sentence that names the entry and ends in WHY? */
static void expect_failing(int code, const char *why)
{
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(pf_cache_failing(cache, &err), code);
	ck_assert_int_eq(err.code, code);
	if (!code)
		return;
	ck_assert_msg(strncmp(err.text, "write entry ", 12) == 0, "%s", err.text);
	ck_assert_msg(strstr(err.text, why) != NULL, "%s", err.text);
}

/* A directory that may not be written to any more is remembered until it may again. */
TEST(a_failed_write_stores_no_entry)
{
	ck_assert_int_eq(pf_cache_set_max(cache, 1000, NULL), 0);
	expect_failing(0, NULL);
	ck_assert_int_eq(put(1, 10), 0);
	expect_failing(0, NULL);
	change_mode("tmp", 0500);
	if (geteuid() == 0)
		ck_assert_int_eq(seteuid(12345), 0);
	ck_assert_int_eq(put(2, 10), -EACCES);
	expect_failing(-EACCES, ": Permission denied");
	ck_assert_int_eq(put(3, 10), -EACCES);
	ck_assert_int_eq(warnings, 1);
	/* An entry that is too large is not a failure of the disk. */
	ck_assert_int_eq(put(4, 2000), -EFBIG);
	expect_failing(-EACCES, ": Permission denied");
	ck_assert_int_eq(warnings, 1);
	ck_assert_int_eq(seteuid(getuid()), 0);
	change_mode("tmp", 0700);
	ck_assert_int_eq(put(2, 10), 0);
	expect_failing(0, NULL);
	ck_assert_int_eq(warnings, 2);
	ck_assert_int_eq(put(3, 10), 0);
	ck_assert_int_eq(warnings, 2);
}

/* The temporary file of a writer that lives stays, however old it is; that of a dead one goes. */
TEST(temporary_files_have_a_living_writer)
{
	static const struct timespec long_ago[2] = { { 0 } };
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/tmp/writer", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(flock(fd, LOCK_EX), 0);
	ck_assert_int_eq(futimens(fd, long_ago), 0);
	reopen(UINT64_MAX);
	ck_assert_int_eq(access(path, F_OK), 0);
	close(fd);
	reopen(UINT64_MAX);
	ck_assert_int_ne(access(path, F_OK), 0);
}

/* A daemon that was stopped while it had the lock does not block other daemons. */
TEST(a_held_lock_blocks_changes_but_not_reads)
{
	struct pf_cache_key key = key_of(1);
	struct pf_err err = PF_ERR_INIT;
	char path[128];
	glob_t left;
	int fd;

	ck_assert_int_eq(put(1, 10), 0);
	snprintf(path, sizeof(path), "%s/lock", dir);
	fd = open(path, O_RDWR);
	ck_assert_int_eq(flock(fd, LOCK_EX), 0);
	ck_assert_int_eq(get(1, 10), 1);
	pf_cache_miss(cache);
	ck_assert_uint_eq(stats().hits, 1);
	ck_assert_uint_eq(stats().misses, 1);
	ck_assert_uint_eq(stats().entries, 1);
	ck_assert_int_eq(put(2, 10), -EBUSY);
	snprintf(path, sizeof(path), "%s/tmp/*", dir);
	ck_assert_int_eq(glob(path, 0, NULL, &left), GLOB_NOMATCH);
	ck_assert_int_eq(warnings, 1);
	expect_failing(0, NULL);
	ck_assert_int_eq(pf_cache_remove(cache, &key, &err), -EBUSY);
	close(fd);
	ck_assert_int_eq(put(2, 10), 0);
	reopen(UINT64_MAX);
	ck_assert_uint_eq(stats().hits, 1);
	ck_assert_uint_eq(stats().misses, 1);
	ck_assert_uint_eq(stats().entries, 2);
}

/* Other daemons, or a user, may remove the directory while this one uses it. */
TEST(a_removed_directory_is_made_again)
{
	ck_assert_int_eq(put(1, 10), 0);
	for (int i = 0; i < 2; i++) {
		remove_tree(dir);
		ck_assert_int_eq(get(1, 10), 0);
		ck_assert_int_eq(put(1, 10), 0);
		ck_assert_int_eq(get(1, 10), 1);
	}
	expect_failing(0, NULL);
	ck_assert_int_eq(warnings, 0);
}

TEST(a_plugin_is_hashed_once)
{
	/* of "abc", as in FIPS 180-2 */
	static const uint8_t abc[] = { 0xba, 0x78, 0x16, 0xbf };
	uint8_t sha[PF_SHA256] = { 0 }, again[PF_SHA256] = { 0 };
	struct stat st, newer;
	const char *path = "plugin.so";

	put_file(path, "abc");
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(pf_cache_file_digest(cache, path, &st, sha, NULL), 0);
	ck_assert_mem_eq(sha, abc, sizeof(abc));
	/* This daemon and others remember the digest: the file need not exist any more. */
	ck_assert_int_eq(rename(path, dir), -1);
	unlink(path);
	ck_assert_int_eq(pf_cache_file_digest(cache, path, &st, again, NULL), 0);
	ck_assert_mem_eq(sha, again, PF_SHA256);
	reopen(UINT64_MAX);
	memset(again, 0, sizeof(again));
	ck_assert_int_eq(pf_cache_file_digest(cache, path, &st, again, NULL), 0);
	ck_assert_mem_eq(sha, again, PF_SHA256);
	/* A file that has changed since is not hashed. */
	put_file(path, "abd");
	ck_assert_int_eq(stat(path, &newer), 0);
	ck_assert_int_eq(pf_cache_file_digest(cache, path, &newer, again, NULL), 0);
	ck_assert_mem_ne(sha, again, PF_SHA256);
	newer.st_size++;
	ck_assert_int_eq(pf_cache_file_digest(cache, path, &newer, again, NULL), -ESTALE);
	/* A memory that is damaged only costs time. */
	ck_assert_int_eq(truncate("a/b/plugins", 30), 0);
	reopen(UINT64_MAX);
	ck_assert_int_eq(stat(path, &newer), 0);
	ck_assert_int_eq(pf_cache_file_digest(cache, path, &newer, again, NULL), 0);
}

UNIT_FIXTURE(setup, teardown)
