/* SPDX-License-Identifier: Apache-2.0 */
/* The arena: after any takes and gives, extents do not overlap and bytes are kept. */
#include "pjrtfs/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

static struct pf_arena *arena;

static void open_arena(uint64_t limit)
{
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(pf_arena_new(limit, &arena, &err) == 0, "%s", err.text);
}

static uint64_t used(void)
{
	uint64_t n, limit;

	pf_arena_usage(arena, &n, &limit);
	return n;
}

static void close_arena(void)
{
	ck_assert_uint_eq(used(), 0);
	pf_arena_free(arena);
	arena = NULL;
}

static uint64_t next(uint64_t *seed, uint64_t limit)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*seed >> 20) % limit;
}

/* --- one extent ---------------------------------------------------------------------- */

/* The memory charged for an extent of LEN bytes. */
static const struct {
	uint64_t len, takes;
} sizes[] = {
	{ 0, 256 },
	{ 1, 256 },
	{ 255, 256 },
	{ 256, 256 },
	{ 257, 512 },
	{ 512, 512 },
	{ 513, 768 },
	{ 1000, 1024 },
	{ 4096, 4096 },
	{ 4097, 4352 },
	{ 65536, 65536 },
	{ 300000, 300032 },
	{ 524288, 524288 },
	{ 524289, 2 * MIB },
	{ MIB, 2 * MIB },
	{ MIB + 1, 2 * MIB },
	{ 2 * MIB, 2 * MIB },
	{ 2 * MIB + 1, 4 * MIB },
	{ 63 * MIB, 64 * MIB },
};

START_TEST(an_extent_is_charged_its_rounded_size)
{
	struct pf_extent e = { 0 };
	struct pf_err err = PF_ERR_INIT;
	uint64_t limit;

	open_arena(GIB);
	ck_assert_int_eq(pf_arena_alloc(arena, sizes[_i].len, &e, &err), 0);
	ck_assert_uint_eq(e.len, sizes[_i].takes);
	ck_assert_uint_eq(e.off % (sizes[_i].len >= MIB ? 2 * MIB : 64), 0);
	ck_assert_uint_le(e.off + e.len, pf_arena_size(arena));
	pf_arena_usage(arena, &limit, &limit);
	ck_assert_uint_eq(limit, GIB);
	ck_assert_uint_eq(used(), sizes[_i].takes);
	memset(pf_arena_at(arena, e.off), 0xff, e.len);
	pf_arena_give(arena, &e);
	ck_assert_uint_eq(e.len, 0);
	pf_arena_give(arena, &e); /* nothing to give */
	close_arena();
}
END_TEST

START_TEST(offsets_are_places_in_the_file)
{
	struct pf_extent e;
	struct stat st;
	char text[6] = "";

	open_arena(GIB);
	ck_assert_int_eq(pf_arena_alloc(arena, 6, &e, NULL), 0);
	memcpy(pf_arena_at(arena, e.off), "hello", 6);
	ck_assert_int_eq(pread(pf_arena_fd(arena), text, 6, (off_t)e.off), 6);
	ck_assert_str_eq(text, "hello");
	ck_assert_int_eq(fstat(pf_arena_fd(arena), &st), 0);
	ck_assert_uint_eq((uint64_t)st.st_size, pf_arena_size(arena));
	pf_arena_give(arena, &e);
	close_arena();
}
END_TEST

/* A worker's descriptor reads, and cannot be made to write. */
START_TEST(a_worker_only_reads_the_arena)
{
	int seals, fd;
	struct stat st;
	void *p;

	open_arena(GIB);
	fd = pf_arena_fd(arena);
	ck_assert_int_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	ck_assert_ptr_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
			 MAP_FAILED);
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(p, MAP_FAILED);
	ck_assert_int_lt(mprotect(p, 4096, PROT_READ | PROT_WRITE), 0);
	ck_assert_int_eq(errno, EACCES);
	munmap(p, 4096);
	ck_assert_int_lt(pwrite(fd, "x", 1, 0), 0);
	ck_assert_int_lt(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				   4096),
			 0);
	ck_assert_int_lt(ftruncate(fd, 0), 0);
	seals = fcntl(fd, F_GET_SEALS);
	ck_assert_int_eq(seals, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	/* Nobody but root with its capabilities can open it again for writing. */
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0400);
	close_arena();
}
END_TEST

/* --- the limit ----------------------------------------------------------------------- */

static const struct {
	uint64_t limit, len, fits; /* how many of LEN bytes the limit allows */
	const char *takes;         /* what one of them takes, if that is more */
} limits[] = {
	{ 4 * MIB, 2 * MIB, 2, "" },
	{ 4 * MIB, 2 * MIB + 1, 1, ", which take 4194304" },
	{ 6 * MIB - 1, 2 * MIB, 2, "" },
	{ 2 * MIB - 1, MIB, 0, ", which take 2097152" },
	{ MIB, 256, 4096, "" },
	{ MIB, 300, 2048, ", which take 512" },
	{ 1000, 256, 3, "" },
	{ 64 * MIB, 64 * MIB, 1, "" },
	{ 64 * MIB, UINT64_MAX, 0, "" },
	{ 64 * MIB, UINT64_MAX - 255, 0, "" },
	{ 64 * MIB, UINT64_C(1) << 63, 0, "" },
	{ 64 * MIB, UINT64_C(1) << 43, 0, "" },
	{ 0, 1, 0, ", which take 256" },
};

START_TEST(the_limit_is_kept_to_the_byte)
{
	static struct pf_extent e[5000];
	struct pf_err err = PF_ERR_INIT;
	char want[200];
	uint64_t n = 0;

	open_arena(limits[_i].limit);
	while (n < ARRAY_SIZE(e) && !pf_arena_alloc(arena, limits[_i].len, &e[n], &err))
		n++;
	ck_assert_uint_eq(n, limits[_i].fits);
	ck_assert_int_eq(err.code, -ENOSPC);
	snprintf(want, sizeof(want),
		 "no room for %llu bytes%s: %llu of the memory limit's %llu "
		 "bytes are in use",
		 (unsigned long long)limits[_i].len, limits[_i].takes,
		 (unsigned long long)used(), (unsigned long long)limits[_i].limit);
	ck_assert_str_eq(err.text, want);
	if (n) {
		pf_arena_give(arena, &e[0]);
		ck_assert_int_eq(pf_arena_alloc(arena, limits[_i].len, &e[0], &err), 0);
	}
	while (n)
		pf_arena_give(arena, &e[--n]);
	close_arena();
}
END_TEST

START_TEST(growing_beyond_the_limit_changes_nothing)
{
	struct pf_extent e, before;
	struct pf_err err = PF_ERR_INIT;

	open_arena(8 * MIB);
	ck_assert_int_eq(pf_arena_alloc(arena, 6 * MIB, &e, NULL), 0);
	memset(pf_arena_at(arena, e.off), 'x', 6 * MIB);
	before = e;
	ck_assert_int_eq(pf_arena_grow(arena, &e, 8 * MIB + 1, 6 * MIB, &err), -ENOSPC);
	ck_assert_int_eq(err.code, -ENOSPC);
	ck_assert_uint_eq(e.off, before.off);
	ck_assert_uint_eq(e.len, before.len);
	ck_assert_int_eq(pf_arena_grow(arena, &e, UINT64_MAX, 0, &err), -ENOSPC);
	ck_assert_uint_eq(used(), 6 * MIB);
	/* The end of the arena is free: it grows where it is, up to the limit. */
	ck_assert_int_eq(pf_arena_grow(arena, &e, 8 * MIB, 6 * MIB, &err), 0);
	ck_assert_uint_eq(e.off, before.off);
	ck_assert_uint_eq(used(), 8 * MIB);
	pf_arena_give(arena, &e);
	close_arena();
}
END_TEST

/* --- growing and shrinking ----------------------------------------------------------- */

static const struct {
	uint64_t from, to;
} growths[] = {
	{ 1, 2 },
	{ 1, 257 },
	{ 256, 70000 },
	{ 5000, 524288 },
	{ 524288, 524289 },
	{ 100, 20 * MIB },
	{ 2 * MIB, 2 * MIB + 1 },
	{ 3 * MIB, 33 * MIB },
	{ 10, 5 },
	{ 5 * MIB, MIB },
};

static void stamp(const struct pf_extent *e, uint64_t len)
{
	unsigned char *p = pf_arena_at(arena, e->off);

	for (uint64_t i = 0; i < len; i++)
		p[i] = (unsigned char)(i * 31 + i / 255);
}

static void check_stamp(const struct pf_extent *e, uint64_t len)
{
	const unsigned char *p = pf_arena_at(arena, e->off);

	for (uint64_t i = 0; i < len; i++)
		if (p[i] != (unsigned char)(i * 31 + i / 255))
			ck_abort_msg("byte %llu was not kept", (unsigned long long)i);
}

/* With something right behind it, an extent must move. */
START_TEST(growing_keeps_the_bytes)
{
	uint64_t from = growths[_i].from, to = growths[_i].to;

	for (int blocked = 0; blocked < 2; blocked++) {
		struct pf_extent e, behind = { 0 };

		open_arena(GIB);
		ck_assert_int_eq(pf_arena_alloc(arena, from, &e, NULL), 0);
		if (blocked)
			ck_assert_int_eq(pf_arena_alloc(arena, from, &behind, NULL), 0);
		memset(pf_arena_at(arena, behind.off), 0xee, behind.len);
		stamp(&e, from);
		ck_assert_int_eq(pf_arena_grow(arena, &e, to, from, NULL), 0);
		ck_assert_uint_ge(e.len, to);
		ck_assert_uint_eq(e.off % (e.len >= MIB ? 2 * MIB : 64), 0);
		check_stamp(&e, from);
		ck_assert_uint_eq(used(), e.len + behind.len);
		memset(pf_arena_at(arena, e.off), 0, e.len);
		for (uint64_t i = 0; i < behind.len; i += 97)
			ck_assert_uint_eq(((unsigned char *)pf_arena_at(arena,
									behind.off))[i],
					  0xee);
		pf_arena_give(arena, &e);
		pf_arena_give(arena, &behind);
		close_arena();
	}
}
END_TEST

static const struct {
	uint64_t len, to, left;
} shrinks[] = {
	{ 64 * MIB, 3 * MIB, 4 * MIB },  { 64 * MIB, 4 * MIB, 4 * MIB },
	{ 64 * MIB, 0, 2 * MIB },        { 64 * MIB, 1, 2 * MIB },
	{ 2 * MIB, 1, 2 * MIB },         { 1000, 1, 256 },
	{ 4 * MIB, 100 * MIB, 4 * MIB }, { 4 * MIB, UINT64_MAX, 4 * MIB },
};

START_TEST(shrinking_gives_the_end_back)
{
	uint64_t keep =
		shrinks[_i].to < shrinks[_i].len ? shrinks[_i].to : shrinks[_i].len;
	struct pf_extent e;

	open_arena(GIB);
	ck_assert_int_eq(pf_arena_alloc(arena, shrinks[_i].len, &e, NULL), 0);
	stamp(&e, keep);
	pf_arena_shrink(arena, &e, shrinks[_i].to);
	ck_assert_uint_eq(e.len, shrinks[_i].left);
	ck_assert_uint_eq(used(), shrinks[_i].left);
	check_stamp(&e, keep);
	pf_arena_give(arena, &e);
	close_arena();
}
END_TEST

/* --- everything at random, with marks at both ends ------------------------------------- */

enum { SLOTS = 64, STEPS = 20000 };

struct slot {
	struct pf_extent e;
	uint64_t mark;
};

static uint64_t random_length(uint64_t *seed)
{
	switch (next(seed, 8)) {
	case 0:
		return next(seed, 24 * MIB);
	case 1:
		return next(seed, 3 * MIB);
	case 2:
		return (UINT64_C(1) << next(seed, 24)) + next(seed, 3) - 1;
	default:
		return next(seed, 20000);
	}
}

static uint64_t *first_of(const struct slot *s)
{
	return pf_arena_at(arena, s->e.off);
}

static uint64_t *last_of(const struct slot *s)
{
	return pf_arena_at(arena, s->e.off + s->e.len - 8);
}

static void step(struct slot *s, uint64_t *seed, uint64_t limit)
{
	uint64_t len = random_length(seed), before = used();
	struct pf_extent old = s->e;
	int what = (int)next(seed, 4), r = 0;

	if (old.len)
		ck_assert(*first_of(s) == s->mark && *last_of(s) == s->mark);
	if (!old.len) {
		r = pf_arena_alloc(arena, len, &s->e, NULL);
		ck_assert(r == 0 || (r == -ENOSPC && before + len * 2 + 2 * MIB > limit));
		s->mark = next(seed, UINT64_MAX);
	} else if (what == 0) {
		r = pf_arena_grow(arena, &s->e, len, old.len, NULL);
		ck_assert(r == 0 ? s->e.len >= len
				 : r == -ENOSPC && s->e.off == old.off &&
					   s->e.len == old.len);
		ck_assert_uint_eq(*first_of(s), s->mark);
	} else if (what == 1) {
		pf_arena_shrink(arena, &s->e, len);
		ck_assert_uint_eq(*first_of(s), s->mark);
	} else {
		pf_arena_give(arena, &s->e);
	}
	if (s->e.len)
		*first_of(s) = *last_of(s) = s->mark;
	ck_assert_uint_eq(used(), before - old.len + s->e.len);
	ck_assert_uint_le(used(), limit);
}

static const struct {
	uint64_t seed, limit;
} runs[] = { { 1, GIB }, { 2, 64 * MIB }, { 3, 8 * MIB }, { 4, 200 * MIB } };

START_TEST(random_use_keeps_order)
{
	static struct slot slots[SLOTS];
	uint64_t seed = runs[_i].seed;

	memset(slots, 0, sizeof(slots));
	open_arena(runs[_i].limit);
	for (int i = 0; i < STEPS; i++)
		step(&slots[next(&seed, SLOTS)], &seed, runs[_i].limit);
	for (int i = 0; i < SLOTS; i++)
		pf_arena_give(arena, &slots[i].e);
	close_arena();
}
END_TEST

/* --- threads ------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 3000 };

struct user {
	pthread_t thread;
	uint64_t seed;
	unsigned wrong;
};

static void *use_main(void *arg)
{
	struct user *u = arg;
	struct pf_extent e[16] = { { 0 } };

	for (int i = 0; i < ROUNDS; i++) {
		struct pf_extent *x = &e[next(&u->seed, 16)];
		uint64_t len = next(&u->seed, next(&u->seed, 10) ? 30000 : 6 * MIB), *p;

		if (x->len) {
			p = pf_arena_at(arena, x->off);
			u->wrong += *p != x->off;
			if (next(&u->seed, 2)) {
				pf_arena_grow(arena, x, len, 8, NULL);
				*(uint64_t *)pf_arena_at(arena, x->off) = x->off;
			} else {
				pf_arena_give(arena, x);
			}
		} else if (pf_arena_alloc(arena, len, x, NULL) == 0) {
			*(uint64_t *)pf_arena_at(arena, x->off) = x->off;
		}
	}
	for (int i = 0; i < 16; i++)
		pf_arena_give(arena, &e[i]);
	return NULL;
}

START_TEST(threads_share_it)
{
	struct user users[THREADS];

	open_arena(256 * MIB);
	for (unsigned i = 0; i < THREADS; i++) {
		users[i] = (struct user){ .seed = i + 1 };
		pthread_create(&users[i].thread, NULL, use_main, &users[i]);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(users[i].thread, NULL);
		ck_assert_uint_eq(users[i].wrong, 0);
	}
	close_arena();
}
END_TEST

START_TEST(freeing_null_does_nothing)
{
	pf_arena_free(NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("arena");
	TCase *tc = tcase_create("core"), *slow = tcase_create("stress");

	unit_add_cases(tc, an_extent_is_charged_its_rounded_size, sizes);
	tcase_add_test(tc, offsets_are_places_in_the_file);
	tcase_add_test(tc, a_worker_only_reads_the_arena);
	unit_add_cases(tc, the_limit_is_kept_to_the_byte, limits);
	tcase_add_test(tc, growing_beyond_the_limit_changes_nothing);
	unit_add_cases(tc, growing_keeps_the_bytes, growths);
	unit_add_cases(tc, shrinking_gives_the_end_back, shrinks);
	tcase_add_test(tc, freeing_null_does_nothing);
	tcase_set_timeout(tc, 30);
	suite_add_tcase(s, tc);
	tcase_set_timeout(slow, 60);
	unit_add_cases(slow, random_use_keeps_order, runs);
	tcase_add_test(slow, threads_share_it);
	suite_add_tcase(s, slow);
	return unit_run(s);
}
