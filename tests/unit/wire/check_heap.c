/* SPDX-License-Identifier: Apache-2.0 */
/* The heap: no granule is given out twice or lost, and free neighbours merge. */
#include "pjrtfs/heap.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "random.h"
#include "unit.h"

#define MIB (UINT64_C(1) << 20)

enum { SHIFT = 8 }; /* of the small granules */

#define SMALL (2 * MIB) /* the parts' bytes */
#define LARGE (64 * MIB)
#define SMALL_MAX (MIB / 2)

static struct pf_heap heap;
static int file;

static void open_heap_with(const uint64_t *keep, const uint64_t *keep_idle)
{
	const struct pf_heap_rules rules = {
		.small_shift = SHIFT,
		.small_size = SMALL,
		.small_max = SMALL_MAX,
		.keep = { keep[0], keep[1] },
		.keep_idle = { keep_idle[0], keep_idle[1] },
	};
	struct pf_err err = PF_ERR_INIT;
	void *base;

	file = memfd_create("heap", MFD_CLOEXEC);
	ck_assert_int_ge(file, 0);
	ck_assert_int_eq(ftruncate(file, SMALL + LARGE), 0);
	base = mmap(NULL, SMALL + LARGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	ck_assert_ptr_ne(base, MAP_FAILED);
	ck_assert_msg(pf_heap_init(&heap, file, base, SMALL + LARGE, &rules, &err) == 0,
		      "%s", err.text);
}

static void open_heap(void)
{
	const uint64_t all[] = { SMALL, LARGE };

	open_heap_with(all, all);
}

static void close_heap(void)
{
	pf_heap_release(&heap);
	munmap(heap.base, SMALL + LARGE);
	close(file);
}

static struct pf_extent take(uint64_t len)
{
	struct pf_extent e = { 0 };
	bool cold;

	ck_assert(pf_heap_take(&heap, len, false, &e, &cold));
	return e;
}

static void give(uint64_t off, bool warm)
{
	ck_assert(pf_heap_give(&heap, off, false, warm));
}

static uint64_t resident(void)
{
	struct stat st;

	ck_assert_int_eq(fstat(file, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

/* Everything is free: all granules can be taken, and then each part in one piece. */
static void check_empty(void)
{
	static struct pf_extent e[SMALL >> SHIFT];
	struct pf_extent all = take(LARGE);

	for (unsigned i = 0; i < ARRAY_SIZE(e); i++) {
		e[i] = take(1);
		ck_assert_uint_lt(e[i].off, SMALL);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(e); i++)
		give(e[i].off, false);
	for (unsigned i = 0; i < SMALL / SMALL_MAX; i++)
		ck_assert_uint_lt(take(SMALL_MAX).off, SMALL);
	for (uint64_t at = 0; at < SMALL; at += SMALL_MAX)
		give(at, false);
	give(all.off, false);
	ck_assert_uint_eq(resident(), 0);
}

static const struct {
	uint64_t len, takes, from;
} lengths[] = {
	{ 0, 256, 0 },
	{ 1, 256, 0 },
	{ 256, 256, 0 },
	{ 257, 512, 0 },
	{ SMALL_MAX - 1, SMALL_MAX, 0 },
	{ SMALL_MAX, SMALL_MAX, 0 },
	{ SMALL_MAX + 1, 2 * MIB, SMALL },
	{ 2 * MIB + 1, 4 * MIB, SMALL },
	{ LARGE, LARGE, SMALL },
};

TEST_EACH(each_length_is_rounded_to_its_part, lengths)
{
	struct pf_extent e = take(lengths[_i].len);

	ck_assert_uint_eq(e.off, lengths[_i].from);
	ck_assert_uint_eq(e.len, lengths[_i].takes);
	ck_assert_uint_eq(pf_heap_round(&heap, lengths[_i].len), lengths[_i].takes);
	ck_assert_uint_eq(pf_heap_length(&heap, e.off), lengths[_i].takes);
	give(e.off, true);
	ck_assert_uint_eq(pf_heap_length(&heap, e.off), 0);
	check_empty();
}

TEST(no_extent_lies_beyond_the_end)
{
	struct pf_extent e;
	bool cold;

	ck_assert(!pf_heap_take(&heap, LARGE + 1, false, &e, &cold));
	ck_assert(!pf_heap_take(&heap, UINT64_MAX, false, &e, &cold));
	ck_assert(!pf_heap_give(&heap, SMALL + LARGE, false, true));
	ck_assert(!pf_heap_give(&heap, UINT64_MAX, false, true));
	ck_assert_uint_eq(pf_heap_length(&heap, SMALL + LARGE), 0);
	ck_assert_uint_eq(pf_heap_length(&heap, UINT64_C(1) << 60), 0);
	check_empty();
}

/* Only where an extent begins, and with its mark. */
TEST(only_extents_are_freed)
{
	struct pf_extent e, other;
	bool cold;

	ck_assert(pf_heap_take(&heap, 600, true, &e, &cold));
	other = take(600);
	for (uint64_t at = 0; at < other.off + other.len + 600; at += 100) {
		ck_assert(!pf_heap_give(&heap, at, at == other.off, true));
		ck_assert_uint_eq(pf_heap_length(&heap, at) > 0,
				  at == e.off || at == other.off);
	}
	ck_assert(pf_heap_give(&heap, e.off, true, true));
	ck_assert(!pf_heap_give(&heap, e.off, true, true));
	give(other.off, true);
	ck_assert(!pf_heap_give(&heap, other.off, false, true));
	check_empty();
}

TEST(a_full_front_part_does_not_end_the_search)
{
	struct pf_extent more;

	for (uint64_t at = 0; at < SMALL; at += SMALL_MAX)
		ck_assert_uint_eq(take(SMALL_MAX).off, at);
	more = take(1);
	ck_assert_uint_eq(more.off, SMALL);
	ck_assert_uint_eq(more.len, 2 * MIB);
	for (uint64_t at = 0; at <= SMALL; at += SMALL_MAX)
		give(at, true);
	check_empty();
}

TEST(warm_pages_are_taken_first_and_can_be_cooled)
{
	struct pf_extent a = take(8 * MIB), b = take(8 * MIB), c;
	bool cold = true;

	memset(heap.base + a.off, 1, a.len);
	ck_assert_uint_ge(resident(), 8 * MIB);
	give(a.off, true);
	/* It is too short for this, and fits that. */
	ck_assert(pf_heap_take(&heap, 10 * MIB, false, &c, &cold));
	ck_assert(cold);
	give(c.off, false);
	ck_assert(pf_heap_take(&heap, 4 * MIB, false, &c, &cold));
	ck_assert(!cold);
	ck_assert_uint_eq(c.off, a.off);
	give(c.off, false);
	ck_assert_uint_le(resident(), 4 * MIB);
	pf_heap_trim(&heap);
	ck_assert_uint_eq(resident(), 0);
	ck_assert(pf_heap_take(&heap, 8 * MIB, false, &a, &cold));
	ck_assert(cold);
	give(a.off, true);
	give(b.off, true);
	/* Warm and cold together have the room. */
	a = take(LARGE);
	give(a.off, false);
	check_empty();
}

TEST(an_extent_grows_into_free_granules_behind_it)
{
	struct pf_extent a = take(1000), b = take(1000), large = take(2 * MIB);

	ck_assert(!pf_heap_extend(&heap, &a, 1025));
	ck_assert(pf_heap_extend(&heap, &b, 5000));
	ck_assert_uint_eq(b.len, 5120);
	ck_assert_uint_eq(pf_heap_length(&heap, b.off), 5120);
	ck_assert(!pf_heap_extend(&heap, &b, SMALL_MAX + 1));
	ck_assert(pf_heap_extend(&heap, &large, LARGE));
	ck_assert(!pf_heap_extend(&heap, &large, LARGE + 1));
	ck_assert_uint_eq(large.len, LARGE);
	give(b.off, true);
	ck_assert(pf_heap_extend(&heap, &a, 1025));
	ck_assert_uint_eq(a.len, 1280);
	give(a.off, true);
	give(large.off, true);
	check_empty();
}

/* The bytes that stay resident, at most MOST, after some time. */
static void check_resident(uint64_t most)
{
	for (int i = 0; i < 1000 && resident() > most; i++)
		usleep(20000);
	ck_assert_uint_le(resident(), most);
}

TEST(excess_warm_pages_are_released)
{
	struct pf_extent a, b;

	close_heap();
	open_heap_with((const uint64_t[]){ SMALL, 8 * MIB },
		       (const uint64_t[]){ SMALL, 8 * MIB });
	a = take(30 * MIB);
	b = take(20 * MIB);
	memset(heap.base + a.off, 1, a.len);
	memset(heap.base + b.off, 2, b.len);
	pf_heap_shrink(&heap, &a, 10 * MIB);
	check_resident(38 * MIB);
	give(b.off, true);
	check_resident(18 * MIB);
	ck_assert_uint_eq(heap.base[a.off + a.len - 1], 1);
	give(a.off, true);
	check_resident(8 * MIB);
	check_empty();
}

/* Pages of small extents go, too, but not those of which a part is in use. */
TEST(idle_pages_are_released)
{
	static struct pf_extent small[SMALL / 1024];
	struct pf_extent large;

	close_heap();
	open_heap_with((const uint64_t[]){ SMALL, LARGE }, (const uint64_t[]){ 0, 0 });
	large = take(30 * MIB);
	memset(heap.base + large.off, 1, large.len);
	for (unsigned i = 0; i < ARRAY_SIZE(small); i++) {
		small[i] = take(1024);
		memset(heap.base + small[i].off, (int)i, 1024);
	}
	for (unsigned i = 1; i < ARRAY_SIZE(small); i++)
		if (i % 128)
			give(small[i].off, true);
	give(large.off, true);
	check_resident(ARRAY_SIZE(small) / 128 * 8192);
	for (unsigned i = 0; i < ARRAY_SIZE(small); i += 128) {
		ck_assert_uint_eq(heap.base[small[i].off], (uint8_t)i);
		ck_assert_uint_eq(heap.base[small[i].off + 1023], (uint8_t)i);
		give(small[i].off, true);
	}
	check_resident(0);
	check_empty();
}

TEST(pages_are_faulted_in_ahead)
{
	struct pf_extent a = take(32 * MIB);

	pf_heap_populate(&heap, a.off + 8 * MIB, a.len - 8 * MIB);
	for (int i = 0; i < 1000 && resident() < 24 * MIB; i++)
		usleep(10000);
	ck_assert_uint_eq(resident(), 24 * MIB);
	give(a.off, true);
	check_empty();
}

/* --- everything at random, against a model ----------------------------------------------- */

enum { EXTENTS = 200 };

static void check_apart(const struct pf_extent *all, const struct pf_extent *e)
{
	ck_assert_uint_le(e->off + e->len, SMALL + LARGE);
	for (int i = 0; i < EXTENTS; i++)
		if (&all[i] != e && all[i].len && all[i].off < e->off + e->len &&
		    e->off < all[i].off + all[i].len)
			ck_abort_msg("%llu bytes at %llu were given out twice",
				     (unsigned long long)e->len,
				     (unsigned long long)e->off);
}

static void random_step(struct pf_extent *all, uint64_t *seed)
{
	struct pf_extent *e = &all[next(seed, EXTENTS)];
	uint64_t len = next(seed, next(seed, 8) ? 20000 : 8 * MIB);
	bool cold;

	if (!e->len) {
		if (!pf_heap_take(&heap, len, false, e, &cold))
			return;
		ck_assert_uint_ge(e->len, len);
	} else if (next(seed, 4) == 0) {
		if (pf_heap_extend(&heap, e, e->len + len))
			ck_assert_uint_ge(e->len, len);
	} else if (next(seed, 4) == 0) {
		pf_heap_shrink(&heap, e, len);
	} else {
		give(e->off, next(seed, 2));
		e->len = 0;
		return;
	}
	ck_assert_uint_eq(pf_heap_length(&heap, e->off), e->len);
	check_apart(all, e);
}

TEST_TIMES(random_use_keeps_order, 5)
{
	static struct pf_extent all[EXTENTS];
	uint64_t seed = (uint64_t)_i + 1;

	memset(all, 0, sizeof(all));
	for (int i = 0; i < 20000; i++)
		random_step(all, &seed);
	for (int i = 0; i < EXTENTS; i++)
		if (all[i].len)
			give(all[i].off, true);
	check_empty();
}

UNIT_FIXTURE(open_heap, close_heap)
