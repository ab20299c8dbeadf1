/* SPDX-License-Identifier: Apache-2.0 */
/* A cache in a new directory, and entries that are known by a number. */
#ifndef CACHE_FIXTURE_H
#define CACHE_FIXTURE_H

#include "pjrtfs/cache.h"

#include <errno.h>
#include <fcntl.h>

#include "work_dir.h"

static char dir[80]; /* in work_dir */
static struct pf_cache *cache;
static int warnings;

static inline void warn(void *arg, const char *text)
{
	(void)arg;
	ck_assert_ptr_nonnull(strstr(text, dir));
	warnings++;
}

static inline int try_open(uint64_t max, struct pf_err *err)
{
	struct pf_cache_config config = { .dir = dir, .max = max, .warn = warn };

	return pf_cache_open(&config, &cache, err);
}

static inline void open_cache(uint64_t max)
{
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(try_open(max, &err) == 0, "%s", err.text);
}

static inline void setup(void)
{
	work_dir_begin();
	snprintf(dir, sizeof(dir), "%s/a/b", work_dir);
	warnings = 0;
	open_cache(UINT64_MAX);
}

static inline void teardown(void)
{
	pf_cache_close(cache);
	cache = NULL;
	work_dir_end();
}

static inline void reopen(uint64_t max)
{
	pf_cache_close(cache);
	open_cache(max);
}

static inline struct pf_cache_key key_of(unsigned n)
{
	struct pf_cache_key key = { .bytes = { 0xaa, 0, (uint8_t)n } };

	return key;
}

/* Entry N: a description, no HLO, LEN bytes of code. */
static inline int put(unsigned n, size_t len)
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
static inline int get(unsigned n, size_t len)
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

static inline void path_of(unsigned n, char dst[256])
{
	struct pf_cache_key key = key_of(n);
	char name[PF_CACHE_KEY_TEXT];

	pf_cache_key_text(&key, name);
	snprintf(dst, 256, "%s/entries/%s", dir, name);
}

static inline struct pf_cache_stats stats(void)
{
	struct pf_cache_stats s;

	pf_cache_stats(cache, &s);
	return s;
}

#endif
