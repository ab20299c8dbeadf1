/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stress a compilation cache as daemons do, and check that no entry is lost.
 *
 *     cache_stress fill DIR SEED          put entries until killed
 *     cache_stress mixed DIR SEED N MAX   N puts, hits, evictions; a maximum of MAX bytes;
 *                                         prints what was done: "puts 1 hits 2 …"
 *     cache_stress verify DIR             read whatever is there; prints how many; fails if
 *                                         one is bad
 *     cache_stress check DIR              read every entry; prints the counts; fails if one
 *                                         is bad, or the counts are not what is there
 *
 * An entry's bytes are made from its key, so that a wrong one is known.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/cache.h"

enum { KEYS = 96, MAX_LEN = 200000 };

static uint64_t state;

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static void __attribute__((__noreturn__)) fail(const char *what)
{
	fprintf(stderr, "cache_stress: %s\n", what);
	exit(1);
}

/* The parts of entry N, in a block that the caller frees. */
static char *make_parts(unsigned n, struct pf_cache_key *key,
			struct pf_cache_piece parts[PF_CACHE_PARTS])
{
	uint64_t x = 0x9e3779b97f4a7c15u * (n + 1);
	uint64_t len = next_random(&x) % MAX_LEN;
	char *bytes = malloc(MAX_LEN + 64);

	if (!bytes)
		fail("no memory");
	memset(key, 0, sizeof(*key));
	memcpy(key->bytes, &x, sizeof(x));
	key->bytes[31] = (uint8_t)n;
	for (uint64_t i = 0; i < len; i++)
		bytes[64 + i] = (char)next_random(&x);
	snprintf(bytes, 64, "{\"program\":\"%u\"}", n);
	parts[PF_CACHE_META] = (struct pf_cache_piece){ bytes, strlen(bytes) };
	parts[PF_CACHE_HLO] = (struct pf_cache_piece){ bytes + 64, len / 3 };
	parts[PF_CACHE_CODE] =
		(struct pf_cache_piece){ bytes + 64 + len / 3, len - len / 3 };
	return bytes;
}

static struct pf_cache *open_cache(const char *dir, uint64_t max)
{
	struct pf_cache_config config = { .dir = dir, .max = max };
	struct pf_err err = PF_ERR_INIT;
	struct pf_cache *cache;

	if (pf_cache_open(&config, &cache, &err) < 0)
		fail(err.text);
	return cache;
}

static void put(struct pf_cache *cache, unsigned n)
{
	struct pf_cache_piece parts[PF_CACHE_PARTS];
	struct pf_cache_key key;
	char *bytes = make_parts(n, &key, parts);

	if (pf_cache_put(cache, &key, parts) < 0)
		fail("an entry cannot be written");
	free(bytes);
}

/* The bytes of the entry, in a block that the caller frees; NULL: it is not there. */
static char *body_of(struct pf_cache *cache, const struct pf_cache_key *key,
		     struct pf_cache_found *found)
{
	struct pf_err err = PF_ERR_INIT;
	char *body;

	if (!pf_cache_find(cache, key, found))
		return NULL;
	body = malloc(pf_cache_body_len(&found->header) + 1);
	if (!body || pf_cache_read(cache, found, body, &err) < 0)
		fail(body ? err.text : "no memory");
	return body;
}

/* 1: entry N is there and right; 0: it is not there. */
static int get(struct pf_cache *cache, unsigned n, bool count)
{
	struct pf_cache_piece parts[PF_CACHE_PARTS];
	struct pf_cache_found found;
	struct pf_cache_key key;
	pf_autofree char *want = make_parts(n, &key, parts);
	pf_autofree char *got = body_of(cache, &key, &found);
	char *at = got;

	if (!got)
		return 0;
	for (int i = 0; i < PF_CACHE_PARTS; i++) {
		if (found.header.len[i] != parts[i].len ||
		    memcmp(at, parts[i].data, parts[i].len))
			fail("an entry holds what was not put there");
		at += parts[i].len;
	}
	if (count)
		pf_cache_hit(cache, &found);
	pf_cache_found_release(&found);
	return 1;
}

static void mixed(struct pf_cache *cache, unsigned n)
{
	unsigned puts = 0, hits = 0, misses = 0, removed = 0;

	for (unsigned i = 0; i < n; i++) {
		unsigned which = (unsigned)(next_random(&state) % KEYS);
		unsigned what = (unsigned)(next_random(&state) % 100);
		struct pf_cache_piece parts[PF_CACHE_PARTS];
		struct pf_cache_key key;

		if (what < 35) {
			put(cache, which);
			puts++;
		} else if (what < 97) {
			if (get(cache, which, true)) {
				hits++;
			} else {
				pf_cache_miss(cache);
				misses++;
			}
		} else {
			free(make_parts(which, &key, parts));
			removed += pf_cache_remove(cache, &key, NULL) == 0;
		}
	}
	printf("puts %u hits %u misses %u removed %u\n", puts, hits, misses, removed);
}

static void check(struct pf_cache *cache)
{
	struct pf_cache_stats before, s;
	struct pf_cache_key *keys;
	unsigned good = 0;
	size_t n;

	pf_cache_stats(cache, &before);
	for (unsigned i = 0; i < KEYS; i++)
		good += (unsigned)get(cache, i, false);
	if (pf_cache_list(cache, &keys, &n) < 0)
		fail("the entries cannot be listed");
	free(keys);
	pf_cache_stats(cache, &s);
	printf("good %u entries %" PRIu64 " bytes %" PRIu64 " hits %" PRIu64
	       " misses %" PRIu64 " evictions %" PRIu64 " damaged %" PRIu64 "\n",
	       good, s.entries, s.bytes, s.hits, s.misses, s.evictions, s.damaged);
	if (good != n || s.entries != n || s.damaged)
		fail("entries are bad, or counted wrongly");
}

static void verify(struct pf_cache *cache)
{
	struct pf_cache_key *keys;
	size_t n;

	if (pf_cache_list(cache, &keys, &n) < 0)
		fail("the entries cannot be listed");
	for (size_t i = 0; i < n; i++) {
		struct pf_cache_found found;
		pf_autofree char *body = body_of(cache, &keys[i], &found);

		if (!body)
			fail("an entry's header is bad");
		pf_cache_found_release(&found);
	}
	free(keys);
	printf("%zu\n", n);
}

int main(int argc, char **argv)
{
	uint64_t max = argc > 5 ? strtoull(argv[5], NULL, 10) : UINT64_MAX;
	struct pf_cache *cache;

	if (argc < 3)
		fail("usage: cache_stress fill|mixed|check|verify DIR [SEED [N MAX]]");
	state = argc > 3 ? strtoull(argv[3], NULL, 10) + 1 : 1;
	state *= 0x2545f4914f6cdd1du;
	cache = open_cache(argv[2], max);
	if (!strcmp(argv[1], "check"))
		check(cache);
	else if (!strcmp(argv[1], "verify"))
		verify(cache);
	else if (!strcmp(argv[1], "mixed") && argc > 4)
		mixed(cache, (unsigned)strtoul(argv[4], NULL, 10));
	else
		for (;;)
			put(cache, (unsigned)(next_random(&state) % KEYS));
	pf_cache_close(cache);
	return 0;
}
