/* SPDX-License-Identifier: Apache-2.0 */
/* The arena: sizes, the limit, growing and shrinking, users and threads. */
#include "arena_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- one extent ---------------------------------------------------------------------- */

/* The memory charged for an extent of LEN bytes; check_heap has the borders. */
static const struct {
	uint64_t len, takes;
} sizes[] = {
	{ 0, 256 },
	{ 300000, 300032 },
	{ 524288, 524288 },
	{ 63 * MIB, 64 * MIB },
};

TEST_EACH(an_extent_is_charged_its_rounded_size, sizes)
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

TEST(offsets_are_places_in_the_file)
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
	pf_arena_free(NULL);
}

/* A worker's descriptor reads, and cannot be made to write. */
TEST(a_worker_only_reads_the_arena)
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

TEST_EACH(the_limit_is_kept_to_the_byte, limits)
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
		 "bytes are in use (--memory-limit)",
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

TEST(growing_beyond_the_limit_changes_nothing)
{
	struct pf_extent e, before;
	struct pf_err err = PF_ERR_INIT;

	open_arena(8 * MIB);
	ck_assert_int_eq(pf_arena_alloc(arena, 6 * MIB, &e, NULL), 0);
	memset(pf_arena_at(arena, e.off), 'x', 6 * MIB);
	before = e;
	ck_assert_int_eq(pf_arena_grow(arena, &e, 8 * MIB + 1, 6 * MIB, NULL, &err),
			 -ENOSPC);
	ck_assert_int_eq(err.code, -ENOSPC);
	ck_assert_uint_eq(e.off, before.off);
	ck_assert_uint_eq(e.len, before.len);
	ck_assert_int_eq(pf_arena_grow(arena, &e, UINT64_MAX, 0, NULL, &err), -ENOSPC);
	ck_assert_uint_eq(used(), 6 * MIB);
	/* The end of the arena is free: it grows where it is, up to the limit. */
	ck_assert_int_eq(pf_arena_grow(arena, &e, 8 * MIB, 6 * MIB, NULL, &err), 0);
	ck_assert_uint_eq(e.off, before.off);
	ck_assert_uint_eq(used(), 8 * MIB);
	pf_arena_give(arena, &e);
	close_arena();
}

/* It can only grow by moving, for which the limit has no room. */
TEST(an_extent_that_cannot_move_stays)
{
	struct pf_extent e, behind;

	open_arena(8 * MIB);
	ck_assert_int_eq(pf_arena_alloc(arena, 4 * MIB, &e, NULL), 0);
	ck_assert_int_eq(pf_arena_alloc(arena, 2 * MIB, &behind, NULL), 0);
	ck_assert_int_eq(pf_arena_grow(arena, &e, 6 * MIB, 4 * MIB, NULL, NULL), -ENOSPC);
	ck_assert_uint_eq(e.len, 4 * MIB);
	ck_assert_uint_eq(used(), 6 * MIB);
	pf_arena_give(arena, &e);
	pf_arena_give(arena, &behind);
	close_arena();
}

/* --- growing and shrinking ----------------------------------------------------------- */

static const struct {
	uint64_t from, to;
} growths[] = {
	{ 1, 2 },          { 256, 70000 },        { 524288, 524289 },
	{ 100, 20 * MIB }, { 3 * MIB, 33 * MIB }, { 10, 5 },
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
TEST_EACH(growing_keeps_the_bytes, growths)
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
		ck_assert_int_eq(pf_arena_grow(arena, &e, to, from, NULL, NULL), 0);
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

static const struct {
	uint64_t len, to, left;
} shrinks[] = {
	{ 64 * MIB, 3 * MIB, 4 * MIB },  { 64 * MIB, 4 * MIB, 4 * MIB },
	{ 64 * MIB, 0, 2 * MIB },        { 64 * MIB, 1, 2 * MIB },
	{ 2 * MIB, 1, 2 * MIB },         { 1000, 1, 256 },
	{ 4 * MIB, 100 * MIB, 4 * MIB }, { 4 * MIB, UINT64_MAX, 4 * MIB },
};

TEST_EACH(shrinking_gives_the_end_back, shrinks)
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

/* --- arenas of users ------------------------------------------------------------------ */

TEST(arenas_of_users_share_the_limit_and_no_bytes)
{
	struct pf_arena *other, *stranger;
	struct pf_err err = PF_ERR_INIT;
	struct pf_extent mine, theirs;
	uint64_t n, limit;

	open_arena(64 * MIB);
	ck_assert_int_eq(pf_arena_new(64 * MIB, &stranger, &err), 0);
	ck_assert_int_eq(pf_arena_new_for(arena, 1001, &other, &err), 0);
	ck_assert_uint_eq(pf_arena_number(arena), 0);
	ck_assert_uint_eq(pf_arena_number(other), 1002);
	ck_assert(pf_arena_share_limit(arena, other));
	ck_assert(!pf_arena_share_limit(arena, stranger));
	ck_assert_uint_eq(pf_arena_size(other), pf_arena_size(arena));
	ck_assert_int_eq(pf_arena_alloc(arena, 40 * MIB, &mine, &err), 0);
	ck_assert_int_eq(pf_arena_alloc(other, 40 * MIB, &theirs, &err), -ENOSPC);
	ck_assert_msg(strstr(err.text, "41943040 of the memory limit's 67108864 bytes") !=
			      NULL,
		      "%s", err.text);
	ck_assert_int_eq(pf_arena_alloc(other, 20 * MIB, &theirs, &err), 0);
	ck_assert_int_eq(pf_arena_charge(arena, 5 * MIB, &err), -ENOSPC);
	pf_arena_usage(other, &n, &limit);
	ck_assert_uint_eq(n, 60 * MIB);
	ck_assert_uint_eq(limit, 64 * MIB);
	ck_assert_uint_eq(used(), 60 * MIB);
	memset(pf_arena_at(arena, mine.off), 1, mine.len);
	memset(pf_arena_at(other, theirs.off), 2, theirs.len);
	ck_assert_int_eq(*(char *)pf_arena_at(arena, mine.off), 1);
	pf_arena_give(other, &theirs);
	pf_arena_free(other);
	ck_assert_uint_eq(used(), 40 * MIB);
	pf_arena_give(arena, &mine);
	pf_arena_free(stranger);
	close_arena();
}

TEST(who_lives_in_the_arena_of_a_user_holds_it)
{
	struct pf_arena *other;

	open_arena(64 * MIB);
	ck_assert_int_eq(pf_arena_new_for(arena, 1001, &other, NULL), 0);
	ck_assert(!pf_arena_is_held(other));
	pf_arena_hold(other);
	pf_arena_hold(other);
	pf_arena_let_go(other);
	ck_assert(pf_arena_is_held(other));
	pf_arena_let_go(other);
	ck_assert(!pf_arena_is_held(other));
	pf_arena_hold(NULL);
	pf_arena_let_go(NULL);
	ck_assert(pf_arena_is_held(arena)); /* the mount's stays */
	pf_arena_free(other);
	close_arena();
}

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
				pf_arena_grow(arena, x, len, 8, NULL, NULL);
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

TEST(threads_share_it)
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
