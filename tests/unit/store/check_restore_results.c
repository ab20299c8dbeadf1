/* SPDX-License-Identifier: Apache-2.0 */
/* Results of an earlier life, which lie in the pool of a worker that ended with it. */
#include "values_fixture.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pjrtfs/restore.h"
#include "pjrtfs/state.h"

enum { OFF = 1 << 20, LEN = 24 };

static struct pf_location place;
static struct pf_restore *restore;
static struct pf_buffer *buffer;
static struct pf_value *value; /* borrowed from the buffer */
static uint64_t id;

/* --- a keeper ------------------------------------------------------------------------- */

static struct pf_kept pool = { .fd = -1 };
static char pool_name[32];
static bool forgotten;

static void keep(const char *name, int fd)
{
	if (strncmp(name, "pool.", 5) || pool.fd >= 0)
		return;
	snprintf(pool_name, sizeof(pool_name), "%s", name);
	pool = (struct pf_kept){ pool_name, dup(fd) };
}

static void forget(const char *name)
{
	if (!strcmp(name, pool_name))
		forgotten = true;
}

/* --- lives ---------------------------------------------------------------------------- */

static void find_worker(void)
{
	start_worker(faulty_plugin());
	place = (struct pf_location){ arena, worker, 0, "test:0" };
}

static void begin(void)
{
	pool.fd = -1;
	ok(pf_state_open(-1, &err));
	pf_shm_set_keeper(keep, forget);
	open_arena();
	pf_arena_keep(arena);
	find_worker();
}

/* A buffer with a result that is WHERE says. */
static void make(enum pf_where where)
{
	PF_CLEANUP(pf_instance_unrefp)
	struct pf_instance *on = pf_worker_instance(worker, NULL);
	struct pf_shape shape = { .rank = 2, .dims = { 2, 3 } };
	struct pf_out out = { .where = where, .dtype = PF_DTYPE_F32, .len = LEN };

	if (where == PF_WHERE_POOL) {
		out.off = OFF;
		ck_assert_int_eq(pwrite(pool.fd, counts, LEN, OFF), LEN);
	}
	value = pf_value_of_result(&shape, worker, 0, on, 77, NULL, 0, &out, counts);
	ck_assert_ptr_nonnull(value);
	buffer = pf_buffer_of_value(&place, value, "prog");
	pf_value_unref(value);
}

/* End this life as a death does, and begin the next one. */
static void next_life(void)
{
	struct pf_kept kept[] = { { "fuse", -1 }, pool, { "arena", -1 } };
	struct pf_instance *on = pf_worker_instance(worker, NULL);
	int state = dup(pf_state_fd());

	kept[2].fd = dup(pf_arena_own_fd(arena));
	/* The worker's threads end first, but its pool does not: the journal has it. */
	pf_worker_stop(worker);
	pf_state_close();
	pf_shm_set_keeper(NULL, NULL);
	id = buffer->id;
	pf_buffer_unref(pf_steal(&buffer));
	pf_instance_unref(on);
	close_values();
	pf_shm_set_keeper(keep, forget);
	ok(pf_state_open(state, &err));
	ok(pf_restore_begin(kept, 3, FIXTURE_LIMIT, &arena, &restore, &err));
	close(kept[2].fd);
	find_worker();
}

static const struct pf_location *find_place(const void *arg, const char *device)
{
	(void)arg;
	ck_assert_str_eq(device, "test:0");
	return &place;
}

static void restart(void)
{
	next_life();
	ok(pf_buffer_restore(restore, id, find_place, NULL, &buffer, &err));
	pf_restore_end(restore);
	value = buffer->value;
	ck_assert_ptr_nonnull(value);
}

static void end(void)
{
	pf_buffer_unref(pf_steal(&buffer));
	close_values();
	pf_state_close();
	close(pool.fd);
	pf_shm_set_keeper(NULL, NULL);
}

static void check_ready(void)
{
	ck_assert_str_eq(pf_buffer_state_name(buffer), "ready");
	ck_assert_mem_eq(pf_value_host(value), counts, LEN);
	ck_assert_str_eq(pf_buffer_maker(buffer), "prog");
}

static void check_lost(void)
{
	ck_assert_str_eq(pf_buffer_state_name(buffer), "lost");
	ck_assert_int_eq(pf_value_transfer(value, NULL, &err), -EIO);
	ck_assert_str_eq(err.text,
			 "its only copy was lost when the worker of plugin test died");
}

/* --- tests ---------------------------------------------------------------------------- */

TEST(a_result_in_the_pool_is_read)
{
	make(PF_WHERE_POOL);
	for (int i = 0; i < 2; i++) {
		restart();
		check_ready();
		ck_assert_uint_eq(used(), 4096);
		ck_assert(!forgotten);
	}
	pf_buffer_unref(pf_steal(&buffer));
	ck_assert(forgotten);
	ck_assert_uint_eq(used(), 0);
}

/* It is transferred like a user's array, to a worker of another life. */
TEST(a_result_is_used_again)
{
	make(PF_WHERE_POOL);
	restart();
	place_value(value);
	check_ready();
}

TEST(a_small_result_is_read)
{
	make(PF_WHERE_INLINE);
	restart();
	check_ready();
	ck_assert_uint_eq(used(), 0);
	ck_assert(forgotten); /* the pool has no result */
}

TEST(a_result_on_the_device_is_lost)
{
	make(PF_WHERE_DEVICE);
	restart();
	check_lost();
}

/* A pool without a record belongs to a worker that was ending. */
TEST(an_unknown_pool_is_forgotten)
{
	make(PF_WHERE_POOL);
	pf_state_drop(PF_STATE_POOL, strtoull(pool_name + 5, NULL, 10));
	restart();
	ck_assert(forgotten);
	check_lost();
}

TEST(no_instance_has_the_number_of_an_earlier_one)
{
	struct pf_instance *now;

	make(PF_WHERE_POOL);
	restart();
	now = pf_worker_instance(worker, NULL);
	ck_assert_uint_gt(pf_instance_number(now), strtoull(pool_name + 5, NULL, 10));
	pf_instance_unref(now);
}

/* --- donation ------------------------------------------------------------------------- */

/* A life ended while an execution had the value, or after that had ENDED. */
static const struct {
	unsigned pins;
	enum pf_donation donation;
	bool ended, consumed;
	const char *state;
} donations[] = {
	{ 1, PF_DONATION_TAKEN, false, false, "lost" }, /* the plugin may overwrite it */
	{ 2, PF_DONATION_COPIED, false, false, "ready" },
	{ 1, PF_DONATION_TAKEN, true, false, "ready" },
	{ 1, PF_DONATION_TAKEN, true, true, "donated" },
};

TEST_EACH(a_donated_result_is_what_is_left_of_it, donations)
{
	make(PF_WHERE_POOL);
	for (unsigned i = 0; i < donations[_i].pins; i++)
		pf_value_pin(value);
	ck_assert_int_eq(pf_value_donate(value), donations[_i].donation);
	if (donations[_i].ended) {
		pf_value_donated(value, donations[_i].consumed);
		pf_value_unpin(value);
	}
	restart();
	ck_assert_str_eq(pf_buffer_state_name(buffer), donations[_i].state);
	if (!strcmp(donations[_i].state, "ready"))
		check_ready();
	else
		ck_assert_int_lt(pf_value_transfer(value, NULL, &err), 0);
}

/* --- copies --------------------------------------------------------------------------- */

/* Until the other memory has it, a copy is what its source is. */
TEST(a_copy_under_way_has_the_bytes_of_its_source)
{
	struct pf_value *copy;

	make(PF_WHERE_POOL);
	ok(pf_buffer_move(buffer, &place, 0, &copy, &err));
	ck_assert_ptr_ne(copy, value);
	pf_value_unref(copy);
	restart();
	check_ready();
}

/* --- the pages of dead pools ------------------------------------------------------------ */

enum { LARGE = 1 << 20 };

static void fill(uint64_t off)
{
	static char bytes[LARGE];

	memset(bytes, 7, LARGE);
	ck_assert_int_eq(pwrite(pool.fd, bytes, LARGE, (off_t)off), LARGE);
}

/* A result at OFF of the present instance's pool. */
static struct pf_value *large(uint64_t off)
{
	PF_CLEANUP(pf_instance_unrefp)
	struct pf_instance *on = pf_worker_instance(worker, NULL);
	struct pf_shape shape = { .rank = 1, .dims = { LARGE } };
	struct pf_out out = {
		.where = PF_WHERE_POOL, .dtype = PF_DTYPE_S8, .len = LARGE, .off = off
	};
	struct pf_value *made;

	fill(off);
	made = pf_value_of_result(&shape, worker, 0, on, 77, NULL, 0, &out, NULL);
	ck_assert_ptr_nonnull(made);
	return made;
}

/* KiB of the pool that are in memory. */
static long resident(void)
{
	struct stat st;

	ck_assert_int_eq(fstat(pool.fd, &st), 0);
	return (long)st.st_blocks / 2;
}

TEST(dropped_results_return_pages_once_the_process_is_dead)
{
	struct pf_value *other, *one, *same, *early;
	long before;

	other = large(1 << 20);
	one = large((2 << 20) + 100); /* in 257 pages, with neighbours */
	same = large((2 << 20) + 100);
	early = large(4 << 20);
	before = resident();
	pf_value_unref(early); /* the process may have other bytes there */
	ck_assert_int_gt(resident(), before - LARGE / 2048); /* it has pages of its own */
	pf_worker_stop(worker);
	before = resident();
	pf_value_unref(one);
	ck_assert_int_eq(resident(), before);
	ck_assert_int_eq(((const char *)pf_value_host(same))[LARGE / 2], 7);
	pf_value_unref(same);
	ck_assert_int_eq(resident(), before - 255 * 4);
	ck_assert_int_eq(((const char *)pf_value_host(other))[LARGE - 1], 7);
	pf_value_unref(other);
	ck_assert_int_eq(resident(), before - 511 * 4);
}

TEST(so_do_results_of_an_earlier_life)
{
	long before;

	value = large(OFF);
	buffer = pf_buffer_of_value(&place, value, "prog");
	pf_value_unref(value);
	restart();
	fill(OFF); /* next_life has dropped the value */
	before = resident();
	pf_buffer_unref(pf_steal(&buffer));
	ck_assert_int_eq(resident(), before - LARGE / 1024);
}

UNIT_FIXTURE(begin, end)
