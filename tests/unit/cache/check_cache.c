/* SPDX-License-Identifier: Apache-2.0 */
/* The cache's directory: entries put, found, checked, evicted; counts; plugins' digests. */
#include "pjrtfs/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "unit.h"

static char top[64], dir[80];
static struct pf_cache *cache;
static int warnings;

static void warn(void *arg, const char *text)
{
	(void)arg;
	ck_assert_ptr_nonnull(strstr(text, dir));
	warnings++;
}

static int try_open(uint64_t max, struct pf_err *err)
{
	struct pf_cache_config config = { .dir = dir, .max = max, .warn = warn };

	return pf_cache_open(&config, &cache, err);
}

static void open_cache(uint64_t max)
{
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(try_open(max, &err) == 0, "%s", err.text);
}

static void setup(void)
{
	strcpy(top, "/tmp/pjrtfs-cache-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	snprintf(dir, sizeof(dir), "%s/a/b", top);
	warnings = 0;
	open_cache(UINT64_MAX);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static void teardown(void)
{
	pf_cache_close(cache);
	cache = NULL;
	nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void reopen(uint64_t max)
{
	pf_cache_close(cache);
	open_cache(max);
}

static struct pf_cache_key key_of(unsigned n)
{
	struct pf_cache_key key = { .bytes = { 0xaa, 0, (uint8_t)n } };

	return key;
}

/* Entry N: a description, no HLO, LEN bytes of code. */
static int put(unsigned n, size_t len)
{
	struct pf_cache_key key = key_of(n);
	pf_autofree char *code = malloc(len + 1);
	char meta[32];
	struct pf_cache_piece parts[PF_CACHE_PARTS] = { { meta, 0 },
							{ NULL, 0 },
							{ code, len } };

	snprintf(meta, sizeof(meta), "{\"n\":%u}", n);
	parts[0].len = strlen(meta);
	memset(code, (int)n, len);
	return pf_cache_put(cache, &key, parts);
}

/* 1: entry N exists and has LEN bytes of code; else 0 or -errno. */
static int get(unsigned n, size_t len)
{
	struct pf_cache_key key = key_of(n);
	struct pf_cache_found found;
	pf_autofree char *body = NULL;
	int r;

	if (!pf_cache_find(cache, &key, &found))
		return 0;
	body = malloc(pf_cache_body_len(&found.header) + 1);
	r = pf_cache_read(cache, &found, body, NULL);
	if (r == 0) {
		ck_assert_uint_eq(found.header.len[PF_CACHE_CODE], len);
		for (size_t i = 0; i < len; i++)
			if ((uint8_t)body[found.header.len[PF_CACHE_META] + i] != n)
				ck_abort_msg("byte %zu is another", i);
		pf_cache_hit(cache, &found);
	}
	pf_cache_found_release(&found);
	return r < 0 ? r : 1;
}

static void path_of(unsigned n, char dst[256])
{
	struct pf_cache_key key = key_of(n);
	char name[PF_CACHE_KEY_TEXT];

	pf_cache_key_text(&key, name);
	snprintf(dst, 256, "%s/entries/%s", dir, name);
}

static struct pf_cache_stats stats(void)
{
	struct pf_cache_stats s;

	pf_cache_stats(cache, &s);
	return s;
}

START_TEST(a_stored_entry_is_found)
{
	struct pf_cache_stats s;
	struct stat st;

	ck_assert_int_eq(get(1, 100), 0);
	pf_cache_miss(cache);
	ck_assert_int_eq(put(1, 100), 0);
	ck_assert_int_eq(put(2, 0), 0);
	ck_assert_int_eq(put(3, 1000000), 0);
	ck_assert_int_eq(get(1, 100), 1);
	ck_assert_int_eq(get(2, 0), 1);
	ck_assert_int_eq(get(3, 1000000), 1);
	ck_assert_int_eq(put(1, 200), 0); /* in its place */
	ck_assert_int_eq(get(1, 200), 1);
	reopen(UINT64_MAX);
	ck_assert_int_eq(get(3, 1000000), 1);
	s = stats();
	ck_assert_uint_eq(s.hits, 5);
	ck_assert_uint_eq(s.misses, 1);
	ck_assert_uint_eq(s.entries, 3);
	ck_assert_uint_eq(s.bytes, 3 * PF_CACHE_HEADER + 3 * 7 + 200 + 1000000);
	ck_assert_uint_eq(s.evictions + s.damaged, 0);
	ck_assert(s.writable);
	ck_assert_int_eq(stat(dir, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0700);
}
END_TEST

/* Every byte of an entry but its count of uses is checked. */
START_TEST(a_changed_byte_is_detected)
{
	char path[256];
	unsigned n = 0;

	path_of(7, path);
	for (off_t at = 0; at < PF_CACHE_HEADER + 7 + 50; at++) {
		uint8_t byte;
		int fd;

		if (at >= PF_CACHE_USES_AT && at < PF_CACHE_HEADER)
			continue;
		ck_assert_int_eq(put(7, 50), 0);
		fd = open(path, O_RDWR);
		ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
		byte ^= (uint8_t)(1 << at % 8);
		ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
		close(fd);
		ck_assert_msg(get(7, 50) != 1, "byte %d is not checked", (int)at);
		ck_assert_int_ne(access(path, F_OK), 0);
		ck_assert_uint_eq(stats().damaged, ++n);
	}
	ck_assert_int_eq(put(7, 50), 0);
	ck_assert_int_eq(truncate(path, PF_CACHE_HEADER + 56), 0);
	ck_assert_int_eq(get(7, 50), 0);
	ck_assert_int_eq(put(7, 50), 0);
	ck_assert_int_eq(truncate(path, PF_CACHE_HEADER + 58), 0);
	ck_assert_int_eq(get(7, 50), 0);
	ck_assert_int_eq(put(7, 50), 0);
	ck_assert_int_eq(truncate(path, 10), 0);
	ck_assert_int_eq(get(7, 50), 0);
	ck_assert_uint_eq(stats().entries, 0);
}
END_TEST

/* A file that other users can write would run their code. */
START_TEST(foreign_entries_are_not_read)
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
END_TEST

START_TEST(foreign_directories_are_refused)
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
END_TEST

/* The least recently used go first, and only as many as must. */
START_TEST(lru)
{
	struct pf_cache_stats s;

	reopen(10000);
	for (unsigned n = 0; n < 4; n++) {
		ck_assert_int_eq(put(n, 1800), 0);
		usleep(20000);
	}
	ck_assert_int_eq(get(0, 1800), 1);
	usleep(20000);
	ck_assert_int_eq(put(5, 1800), 0);
	s = stats();
	ck_assert_uint_le(s.bytes, 10000);
	ck_assert_uint_eq(s.evictions, 1);
	ck_assert_int_eq(get(1, 1800), 0);
	ck_assert_int_eq(get(0, 1800), 1);
	ck_assert_int_eq(get(3, 1800), 1);
	ck_assert_int_eq(get(5, 1800), 1);
	ck_assert_int_eq(put(6, 20000), -EFBIG);
	ck_assert_int_eq(pf_cache_set_max(cache, 2 * 2063, NULL), 0);
	ck_assert_uint_eq(pf_cache_max(cache), 2 * 2063);
	ck_assert_uint_eq(stats().entries, 2);
	ck_assert_int_eq(get(3, 1800), 1);
	ck_assert_int_eq(get(5, 1800), 1);
	reopen(2300);
	ck_assert_uint_eq(stats().entries, 1);
	ck_assert_int_eq(warnings, 0);
}
END_TEST

struct gone {
	unsigned evicted, damaged;
	uint64_t bytes;
	char key[PF_CACHE_KEY_TEXT]; /* of the last one */
};

static void count_gone(void *arg, const char *key, uint64_t bytes, bool damaged)
{
	struct gone *g = arg;

	*(damaged ? &g->damaged : &g->evicted) += 1;
	g->bytes += bytes;
	snprintf(g->key, sizeof(g->key), "%s", key);
}

START_TEST(removals_are_reported)
{
	struct pf_cache_key one = key_of(1);
	struct pf_cache_found found;
	struct gone gone = { 0 };
	char name[PF_CACHE_KEY_TEXT];
	uint64_t before;

	reopen(10000);
	pf_cache_on_gone(cache, count_gone, &gone);
	for (unsigned n = 0; n < 4; n++)
		ck_assert_int_eq(put(n, 1800), 0);
	ck_assert_uint_eq(gone.evicted + gone.damaged, 0);
	ck_assert_int_eq(pf_cache_remove(cache, &one, NULL), 0);
	pf_cache_key_text(&one, name);
	ck_assert_uint_eq(gone.evicted, 1);
	ck_assert_str_eq(gone.key, name);
	ck_assert_int_eq(pf_cache_remove(cache, &one, NULL), -ENOENT);
	ck_assert_uint_eq(gone.evicted, 1);
	before = stats().bytes;
	for (unsigned n = 4; n < 7; n++)
		ck_assert_int_eq(put(n, 1800), 0);
	ck_assert_uint_eq(gone.evicted, stats().evictions);
	ck_assert_uint_ge(gone.evicted, 2);
	ck_assert_int_eq(pf_cache_clear(cache, NULL), 0);
	ck_assert_uint_eq(gone.evicted, 7);
	ck_assert_uint_eq(gone.bytes, before / 3 * 7);
	ck_assert_int_eq(put(1, 10), 0);
	ck_assert_int_eq(pf_cache_find(cache, &one, &found), 1);
	pf_cache_reject(cache, &found);
	pf_cache_reject(cache, &found); /* it is already removed */
	pf_cache_found_release(&found);
	ck_assert_uint_eq(gone.damaged, 1);
}
END_TEST

START_TEST(remove_clear_list)
{
	struct pf_cache_key one = key_of(1), none = key_of(9), *keys;
	pf_autobuf struct pf_buf meta = PF_BUF_INIT;
	struct pf_cache_header header;
	struct stat st;
	size_t n;

	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(put(i, 10), 0);
	ck_assert_int_eq(get(1, 10), 1);
	ck_assert_int_eq(get(1, 10), 1);
	ck_assert_int_eq(pf_cache_describe(cache, &one, &header, &st, &meta, NULL), 0);
	ck_assert_uint_eq(header.uses, 2);
	ck_assert_str_eq(meta.data, "{\"n\":1}");
	ck_assert_int_eq(pf_cache_describe(cache, &none, &header, &st, &meta, NULL),
			 -ENOENT);
	ck_assert(pf_cache_has(cache, &one, NULL));
	ck_assert_int_eq(pf_cache_remove(cache, &one, NULL), 0);
	ck_assert(!pf_cache_has(cache, &one, NULL));
	ck_assert_int_eq(pf_cache_remove(cache, &one, NULL), -ENOENT);
	ck_assert_int_eq(pf_cache_list(cache, &keys, &n), 0);
	ck_assert_uint_eq(n, 3);
	free(keys);
	ck_assert_int_eq(pf_cache_clear(cache, NULL), 0);
	ck_assert_int_eq(pf_cache_list(cache, &keys, &n), 0);
	ck_assert_uint_eq(n, 0);
	free(keys);
	ck_assert_uint_eq(stats().evictions, 4);
	ck_assert_uint_eq(stats().entries + stats().bytes, 0);
}
END_TEST

/* An entry that a plugin could not load is removed, unless it was replaced meanwhile. */
START_TEST(reject)
{
	struct pf_cache_key key = key_of(1);
	struct pf_cache_found found;

	ck_assert_int_eq(put(1, 10), 0);
	ck_assert_int_eq(pf_cache_find(cache, &key, &found), 1);
	ck_assert_int_eq(put(1, 20), 0);
	pf_cache_reject(cache, &found);
	pf_cache_found_release(&found);
	ck_assert_int_eq(get(1, 20), 1);
	ck_assert_int_eq(pf_cache_find(cache, &key, &found), 1);
	pf_cache_reject(cache, &found);
	pf_cache_found_release(&found);
	ck_assert_int_eq(get(1, 20), 0);
	ck_assert_uint_eq(stats().damaged, 1);
}
END_TEST

/* Hits and no more; as another user, since root may write anywhere. */
START_TEST(read_only)
{
	struct pf_cache_key key = key_of(1);
	struct pf_err err = PF_ERR_INIT;
	char path[256];
	struct pf_cache_stats s;

	ck_assert_int_eq(put(1, 10), 0);
	ck_assert_int_eq(chmod(top, 0755), 0);
	snprintf(path, sizeof(path), "%s/a", top);
	ck_assert_int_eq(chmod(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/entries", dir);
	ck_assert_int_eq(chmod(path, 0555), 0);
	snprintf(path, sizeof(path), "%s/tmp", dir);
	ck_assert_int_eq(chmod(path, 0555), 0);
	ck_assert_int_eq(chmod(dir, 0555), 0);
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
	chmod(dir, 0700);
	snprintf(path, sizeof(path), "%s/entries", dir);
	chmod(path, 0700);
	snprintf(path, sizeof(path), "%s/tmp", dir);
	chmod(path, 0700);
}
END_TEST

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
START_TEST(a_failed_write_stores_no_entry)
{
	char path[128];

	ck_assert_int_eq(pf_cache_set_max(cache, 1000, NULL), 0);
	expect_failing(0, NULL);
	ck_assert_int_eq(put(1, 10), 0);
	expect_failing(0, NULL);
	snprintf(path, sizeof(path), "%s/tmp", dir);
	ck_assert_int_eq(chmod(path, 0500), 0);
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
	ck_assert_int_eq(chmod(path, 0700), 0);
	ck_assert_int_eq(put(2, 10), 0);
	expect_failing(0, NULL);
	ck_assert_int_eq(warnings, 2);
	ck_assert_int_eq(put(3, 10), 0);
	ck_assert_int_eq(warnings, 2);
}
END_TEST

/* A daemon that was stopped while it had the lock does not block other daemons. */
START_TEST(a_held_lock_blocks_changes_but_not_reads)
{
	struct pf_cache_key key = key_of(1);
	struct pf_err err = PF_ERR_INIT;
	char path[128];
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
END_TEST

START_TEST(a_plugin_is_hashed_once)
{
	/* of "abc", as in FIPS 180-2 */
	static const uint8_t abc[] = { 0xba, 0x78, 0x16, 0xbf };
	uint8_t sha[PF_SHA256] = { 0 }, again[PF_SHA256] = { 0 };
	struct stat st, newer;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/plugin.so", top);
	f = fopen(path, "w");
	fputs("abc", f);
	fclose(f);
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
	f = fopen(path, "w");
	fputs("abd", f);
	fclose(f);
	ck_assert_int_eq(stat(path, &newer), 0);
	ck_assert_int_eq(pf_cache_file_digest(cache, path, &newer, again, NULL), 0);
	ck_assert_mem_ne(sha, again, PF_SHA256);
	newer.st_size++;
	ck_assert_int_eq(pf_cache_file_digest(cache, path, &newer, again, NULL), -ESTALE);
	/* A memory that is damaged only costs time. */
	snprintf(path, sizeof(path), "%s/plugins", dir);
	ck_assert_int_eq(truncate(path, 30), 0);
	reopen(UINT64_MAX);
	snprintf(path, sizeof(path), "%s/plugin.so", top);
	ck_assert_int_eq(stat(path, &newer), 0);
	ck_assert_int_eq(pf_cache_file_digest(cache, path, &newer, again, NULL), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cache");
	TCase *tc = tcase_create("core");

	tcase_set_timeout(tc, 30);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, a_stored_entry_is_found);
	tcase_add_test(tc, a_changed_byte_is_detected);
	tcase_add_test(tc, foreign_entries_are_not_read);
	tcase_add_test(tc, foreign_directories_are_refused);
	tcase_add_test(tc, lru);
	tcase_add_test(tc, removals_are_reported);
	tcase_add_test(tc, remove_clear_list);
	tcase_add_test(tc, reject);
	tcase_add_test(tc, read_only);
	tcase_add_test(tc, a_failed_write_stores_no_entry);
	tcase_add_test(tc, a_held_lock_blocks_changes_but_not_reads);
	tcase_add_test(tc, a_plugin_is_hashed_once);
	suite_add_tcase(suite, tc);
	return unit_run(suite);
}
