/* SPDX-License-Identifier: Apache-2.0 */
/* Entries: put, found, checked, evicted, counted. */
#include "cache_fixture.h"

TEST(a_stored_entry_is_found)
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

/* Every byte of an entry but its count of uses is checked. */
TEST(a_changed_byte_is_detected)
{
	static const off_t lengths[] = { PF_CACHE_HEADER + 56, PF_CACHE_HEADER + 58, 10 };
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
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		ck_assert_int_eq(put(7, 50), 0);
		ck_assert_int_eq(truncate(path, lengths[i]), 0);
		ck_assert_int_eq(get(7, 50), 0);
	}
	ck_assert_uint_eq(stats().entries, 0);
}

/* The least recently used go first, and only as many as must. */
TEST(the_least_recently_used_go_first)
{
	struct pf_cache_stats s;

	reopen(10000);
	for (unsigned n = 0; n < 4; n++) {
		ck_assert_int_eq(put(n, 1800), 0);
		usleep(20000); /* real time: files' times tell which was used last */
	}
	ck_assert_int_eq(get(0, 1800), 1);
	usleep(20000); /* real time: the same */
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

TEST(removals_are_reported)
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

TEST(entries_are_described_listed_and_removed)
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
	ck_assert_int_eq(pf_cache_list(cache, &keys, &n), 0);
	ck_assert_uint_eq(n, 3);
	free(keys);
	ck_assert_int_eq(pf_cache_clear(cache, NULL), 0);
	ck_assert_uint_eq(stats().evictions, 4);
	ck_assert_uint_eq(stats().entries + stats().bytes, 0);
}

/* An entry that a plugin could not load is removed, unless it was replaced meanwhile. */
TEST(what_does_not_load_is_removed_unless_replaced)
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

UNIT_FIXTURE(setup, teardown)
