/* SPDX-License-Identifier: Apache-2.0 */
/* The lock and the counts, which all daemons of a directory share. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "internal.h"

enum {
	RECORD = 256,       /* bytes of the counts' file */
	COUNT_WAIT_MS = 20, /* counting waits no longer for others */
};

/* --- the lock -------------------------------------------------------------------------- */

bool pf_cache_lock(struct pf_cache *cache, unsigned ms)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	/* Never wait in flock(2): a daemon that was stopped would stop all others. */
	for (unsigned i = 0;; i++) {
		pf_lock(&cache->lock);
		if (cache->lock_fd < 0 || !flock(cache->lock_fd, LOCK_EX | LOCK_NB))
			return true;
		pf_unlock(&cache->lock);
		if (i >= ms)
			return false;
		nanosleep(&pause, NULL);
	}
}

void pf_cache_unlock(struct pf_cache *cache)
{
	if (cache->lock_fd >= 0)
		(void)flock(cache->lock_fd, LOCK_UN);
	pf_unlock(&cache->lock);
}

/* --- counts ---------------------------------------------------------------------------- */

static const char record_form[] =
	"pjrtfs cache: hits %" SCNu64 " misses %" SCNu64 " evictions %" SCNu64
	" damaged %" SCNu64 " bytes %" SCNu64 " entries %" SCNu64;

/* What cannot be read counts as nothing; the next sweep counts the entries anew. */
static void read_record(struct pf_cache *cache, struct pf_cache_stats *ret)
{
	char text[RECORD + 1] = "";
	struct pf_cache_stats s = { 0 };

	memset(ret, 0, sizeof(*ret));
	if (pread(cache->stats_fd, text, RECORD, 0) > 0 &&
	    sscanf(text, record_form, &s.hits, &s.misses, &s.evictions, &s.damaged,
		   &s.bytes, &s.entries) == 6)
		*ret = s;
}

static void write_record(struct pf_cache *cache, const struct pf_cache_stats *s)
{
	char text[RECORD + 1];
	int n = snprintf(text, sizeof(text),
			 "pjrtfs cache: hits %" PRIu64 " misses %" PRIu64
			 " evictions %" PRIu64 " damaged %" PRIu64 " bytes %" PRIu64
			 " entries %" PRIu64 " ",
			 s->hits, s->misses, s->evictions, s->damaged, s->bytes,
			 s->entries);

	memset(text + n, ' ', sizeof(text) - 1 - (size_t)n);
	text[RECORD - 1] = '\n';
	/* Counts are not worth an error. */
	if (pwrite(cache->stats_fd, text, RECORD, 0) != RECORD)
		return;
}

/* Add, where taking away too much leaves nothing: another's crash may have lost a count. */
static uint64_t plus(uint64_t a, uint64_t b)
{
	uint64_t sum = a + b;

	return (int64_t)b < 0 && sum > a ? 0 : sum;
}

static void add_to(struct pf_cache_stats *s, const struct pf_cache_stats *add)
{
	s->hits += add->hits;
	s->misses += add->misses;
	s->evictions += add->evictions;
	s->damaged += add->damaged;
	s->bytes = plus(s->bytes, add->bytes);
	s->entries = plus(s->entries, add->entries);
}

void pf_cache_count_locked(struct pf_cache *cache, const struct pf_cache_stats *add)
{
	struct pf_cache_stats s;

	cache->pending.hits += add->hits;
	cache->pending.misses += add->misses;
	cache->pending.evictions += add->evictions;
	cache->pending.damaged += add->damaged;
	cache->pending.bytes += add->bytes;
	cache->pending.entries += add->entries;
	if (cache->lock_fd < 0)
		return;
	read_record(cache, &s);
	add_to(&s, &cache->pending);
	memset(&cache->pending, 0, sizeof(cache->pending));
	write_record(cache, &s);
}

void pf_cache_recount_locked(struct pf_cache *cache, uint64_t bytes, uint64_t entries)
{
	struct pf_cache_stats s;

	read_record(cache, &s);
	s.bytes = bytes;
	s.entries = entries;
	cache->pending.bytes = cache->pending.entries = 0;
	add_to(&s, &cache->pending);
	memset(&cache->pending, 0, sizeof(cache->pending));
	write_record(cache, &s);
}

void pf_cache_count_later(struct pf_cache *cache, const struct pf_cache_stats *add)
{
	PF_LOCK_SCOPE(&cache->lock);
	cache->pending.hits += add->hits;
	cache->pending.misses += add->misses;
	cache->pending.evictions += add->evictions;
	cache->pending.damaged += add->damaged;
	cache->pending.bytes += add->bytes;
	cache->pending.entries += add->entries;
}

static void count(struct pf_cache *cache, const struct pf_cache_stats *add)
{
	if (pf_cache_lock(cache, COUNT_WAIT_MS)) {
		pf_cache_count_locked(cache, add);
		pf_cache_unlock(cache);
	} else {
		pf_cache_count_later(cache, add);
	}
}

void pf_cache_flush_counts(struct pf_cache *cache)
{
	static const struct pf_cache_stats nothing;

	if (cache->lock_fd < 0 || !pf_cache_lock(cache, PF_CACHE_WAIT_MS))
		return;
	pf_cache_count_locked(cache, &nothing);
	pf_cache_unlock(cache);
}

uint64_t pf_cache_bytes_locked(struct pf_cache *cache)
{
	struct pf_cache_stats s;

	read_record(cache, &s);
	return s.bytes;
}

void pf_cache_read_stats(struct pf_cache *cache, struct pf_cache_stats *ret)
{
	read_record(cache, ret);
	PF_LOCK_SCOPE(&cache->lock);
	add_to(ret, &cache->pending);
}

void pf_cache_shared(struct pf_cache *cache)
{
	count(cache, &(struct pf_cache_stats){ .hits = 1 });
}

void pf_cache_miss(struct pf_cache *cache)
{
	count(cache, &(struct pf_cache_stats){ .misses = 1 });
}

/* One use more in the entry's own header.  Locked, so that none is lost. */
static void count_use_locked(struct pf_cache *cache, const char *name)
{
	uint8_t uses[8];
	pf_autoclose int fd = openat(cache->entries, name,
				     O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0 || pread(fd, uses, sizeof(uses), PF_CACHE_USES_AT) != sizeof(uses))
		return;
	pf_cache_put64(uses, pf_cache_get64(uses) + 1);
	(void)!pwrite(fd, uses, sizeof(uses), PF_CACHE_USES_AT);
	(void)futimens(fd, NULL);
}

void pf_cache_hit(struct pf_cache *cache, const struct pf_cache_found *found)
{
	static const struct pf_cache_stats hit = { .hits = 1 };
	char name[PF_CACHE_KEY_TEXT];

	if (!pf_cache_lock(cache, COUNT_WAIT_MS)) {
		(void)futimens(found->fd, NULL);
		pf_cache_count_later(cache, &hit);
		return;
	}
	pf_cache_key_text(&found->header.key, name);
	if (cache->lock_fd >= 0)
		count_use_locked(cache, name);
	pf_cache_count_locked(cache, &hit);
	pf_cache_unlock(cache);
}
