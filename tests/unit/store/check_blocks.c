/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of values: copied from the bytes or shared with them, uploaded, and joined again. */
#include "pjrtfs/value.h"
#include "store_fixture.h"

enum { ROWS = 64, COLUMNS = 32, ELEMENTS = ROWS * COLUMNS };

static struct pf_err err;
static float numbers[ELEMENTS];

static void open_all(void)
{
	open_arena();
	err = (struct pf_err)PF_ERR_INIT;
	for (int i = 0; i < ELEMENTS; i++)
		numbers[i] = (float)i;
}

static struct pf_value *whole(void)
{
	struct pf_shape shape = { .rank = 2, .dims = { ROWS, COLUMNS } };

	return value_of(PF_DTYPE_F32, &shape, numbers, sizeof(numbers), 0);
}

static struct pf_block block(int64_t row, int64_t column, int64_t rows, int64_t columns)
{
	return (struct pf_block){ .whole = { 2, { ROWS, COLUMNS } },
				  .part = { 2, { rows, columns } },
				  .start = { row, column } };
}

static uint64_t used(void)
{
	uint64_t bytes, limit;

	pf_arena_usage(arena, &bytes, &limit);
	return bytes;
}

static void check(struct pf_value *v, const struct pf_block *b)
{
	const float *host = pf_value_host(v);

	ck_assert(pf_shape_equal(&v->shape, &b->part));
	ck_assert_int_eq(v->dtype, PF_DTYPE_F32);
	ck_assert_uint_eq(v->len,
			  (uint64_t)b->part.dims[0] * (uint64_t)b->part.dims[1] * 4);
	for (int64_t r = 0; r < b->part.dims[0]; r++)
		for (int64_t c = 0; c < b->part.dims[1]; c++)
			ck_assert_float_eq(host[r * b->part.dims[1] + c],
					   (float)((b->start[0] + r) * COLUMNS +
						   b->start[1] + c));
}

static const struct {
	int64_t row, column, rows, columns;
	bool shared;
} parts[] = {
	{ 0, 0, ROWS, COLUMNS, true }, { 0, 0, 32, COLUMNS, true },
	{ 32, 0, 32, COLUMNS, true },  { 63, 0, 1, COLUMNS, true },
	{ 0, 0, 0, COLUMNS, true }, /* nothing */
	{ 1, 16, 1, 16, true },     /* a piece of a row, at 192 bytes */
	{ 1, 8, 1, 8, false },      /* at 160 bytes: no plugin takes it there */
	{ 0, 16, ROWS, 16, false },    { 3, 5, 7, 11, false },
};

TEST_EACH(split_into_parts, parts)
{
	struct pf_block b =
		block(parts[_i].row, parts[_i].column, parts[_i].rows, parts[_i].columns);
	struct pf_value *v, *part;
	uint64_t before;

	start_worker(plugins[0]);
	v = whole();
	before = used();
	pf_value_pin(v);
	ck_assert_uint_eq(pf_value_cut_copies(v, &b, NULL),
			  parts[_i].shared
				  ? 0
				  : (uint64_t)(parts[_i].rows * parts[_i].columns) * 4);
	ck_assert_msg(pf_value_cut(v, &b, worker, 1, PF_ANY_MEMORY, NULL, &part, &err) ==
			      0,
		      "%s", err.text);
	ck_assert_int_eq(used() == before, parts[_i].shared);
	ck_assert_uint_eq(part->device, 1);
	check(part, &b);
	/* The part outlives the whole, and is on its device. */
	pf_value_unpin(v);
	pf_value_unref(v);
	ck_assert_msg(place_value(part, &err) == 1, "%s", err.text);
	check(part, &b);
	pf_value_unref(part);
}

TEST(parts_are_joined)
{
	struct pf_value *v, *part[4], *again;
	struct pf_block blocks[4], all = block(0, 0, ROWS, COLUMNS);
	uint64_t before;

	start_worker(plugins[0]);
	v = whole();
	for (int i = 0; i < 4; i++) {
		blocks[i] = block(i / 2 * 32, i % 2 * 16, 32, 16);
		ck_assert_int_eq(pf_value_cut(v, &blocks[i], worker, (unsigned)i % 2,
					      PF_ANY_MEMORY, NULL, &part[i], &err),
				 0);
	}
	pf_value_unref(v);
	before = used();
	ck_assert_msg(pf_value_join(part, blocks, 4, &all, worker, 1, PF_ANY_MEMORY, NULL,
				    &again, &err) == 0,
		      "%s", err.text);
	ck_assert_uint_ge(used() - before, sizeof(numbers));
	check(again, &all);
	ck_assert_uint_eq(again->device, 1);
	ck_assert_msg(place_value(again, &err) == 1, "%s", err.text);
	for (int i = 0; i < 4; i++)
		pf_value_unref(part[i]);
	check(again, &all);
	pf_value_unref(again);
}

/* A block across the borders of the parts: no byte of the others is copied. */
TEST(parts_give_a_block)
{
	struct pf_block blocks[4], into = block(31, 7, 2, 11);
	struct pf_value *v, *part[4], *again;
	uint64_t before;

	start_worker(plugins[0]);
	v = whole();
	for (int i = 0; i < 4; i++) {
		blocks[i] = block(i / 2 * 32, i % 2 * 16, 32, 16);
		ck_assert_int_eq(pf_value_cut(v, &blocks[i], worker, 0, PF_ANY_MEMORY,
					      NULL, &part[i], &err),
				 0);
	}
	pf_value_unref(v);
	before = used();
	ck_assert_msg(pf_value_join(part, blocks, 4, &into, worker, 1, PF_ANY_MEMORY,
				    NULL, &again, &err) == 0,
		      "%s", err.text);
	ck_assert_uint_le(used() - before, 4096);
	check(again, &into);
	for (int i = 0; i < 4; i++)
		pf_value_unref(part[i]);
	ck_assert_msg(place_value(again, &err) == 1, "%s", err.text);
	check(again, &into);
	pf_value_unref(again);
}

/* No room: no memory is charged. */
TEST(without_room_no_part_is_made)
{
	struct pf_shape shape = { .rank = 2, .dims = { 2, INT64_C(1) << 40 } };
	struct pf_block b = { .whole = shape, .part = { 2, { 2, INT64_C(1) << 39 } } };
	struct pf_block all = { .whole = shape, .part = shape };
	struct pf_value *v, *ret = NULL;
	uint64_t before;

	start_worker(plugins[0]);
	v = whole();
	before = used();
	ck_assert_int_eq(pf_value_join(&v, &b, 1, &all, worker, 0, PF_ANY_MEMORY, NULL,
				       &ret, &err),
			 -ENOSPC);
	ck_assert_ptr_null(ret);
	ck_assert_uint_eq(used(), before);
	pf_value_unref(v);
}

UNIT_FIXTURE(open_all, close_store)
