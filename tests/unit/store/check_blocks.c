/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of values: copied from the bytes or shared with them, uploaded, and joined again. */
#include "pjrtfs/value.h"
#include "values_fixture.h"

enum { ROWS = 64, COLUMNS = 32, ELEMENTS = ROWS * COLUMNS, PARTS = 4 };

static float numbers[ELEMENTS];

static void open_all(void)
{
	struct pf_shape shape = { .rank = 2, .dims = { ROWS, COLUMNS } };

	open_values();
	for (int i = 0; i < ELEMENTS; i++)
		numbers[i] = (float)i;
	start_worker(plugins[0]);
	v = value_of(PF_DTYPE_F32, &shape, numbers, sizeof(numbers), 0);
}

static struct pf_block block(int64_t row, int64_t column, int64_t rows, int64_t columns)
{
	return (struct pf_block){ .whole = { 2, { ROWS, COLUMNS } },
				  .part = { 2, { rows, columns } },
				  .start = { row, column } };
}

/* PART, on the second device, is B. */
static void check(struct pf_value *part, const struct pf_block *b)
{
	const float *host = pf_value_host(part);

	ck_assert_uint_eq(part->device, 1);
	ck_assert(pf_shape_equal(&part->shape, &b->part));
	ck_assert_int_eq(part->dtype, PF_DTYPE_F32);
	ck_assert_uint_eq(part->len,
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
} cuts[] = {
	{ 0, 0, ROWS, COLUMNS, true }, { 0, 0, 32, COLUMNS, true },
	{ 32, 0, 32, COLUMNS, true },  { 63, 0, 1, COLUMNS, true },
	{ 0, 0, 0, COLUMNS, true }, /* nothing */
	{ 1, 16, 1, 16, true },     /* a piece of a row, at 192 bytes */
	{ 1, 8, 1, 8, false },      /* at 160 bytes: no plugin takes it there */
	{ 0, 16, ROWS, 16, false },    { 3, 5, 7, 11, false },
};

TEST_EACH(a_value_is_cut_into_parts, cuts)
{
	struct pf_block b =
		block(cuts[_i].row, cuts[_i].column, cuts[_i].rows, cuts[_i].columns);
	uint64_t copied =
		cuts[_i].shared ? 0 : (uint64_t)(b.part.dims[0] * b.part.dims[1]) * 4;
	uint64_t before = used();
	struct pf_value *part;

	pf_value_pin(v);
	ck_assert_uint_eq(pf_value_cut_copies(v, &b, NULL), copied);
	ok(pf_value_cut(v, &b, ((struct pf_place){ worker, 1, PF_ANY_MEMORY }), NULL,
			&part, &err));
	ck_assert_int_eq(used() == before, cuts[_i].shared);
	check(part, &b);
	/* The part outlives the whole, and is on its device. */
	pf_value_unpin(v);
	pf_value_unref(pf_steal(&v));
	place_value(part);
	check(part, &b);
	pf_value_unref(part);
}

/* What parts give: all, and a block across their borders, for which no byte of others is copied. */
static const struct {
	int64_t row, column, rows, columns;
	uint64_t least, most; /* bytes that are taken */
} joins[] = {
	{ 0, 0, ROWS, COLUMNS, sizeof(numbers), UINT64_MAX },
	{ 31, 7, 2, 11, 0, 4096 },
};

TEST_EACH(parts_are_joined, joins)
{
	struct pf_block blocks[PARTS], into = block(joins[_i].row, joins[_i].column,
						    joins[_i].rows, joins[_i].columns);
	struct pf_value *part[PARTS], *again;
	uint64_t before;

	for (int i = 0; i < PARTS; i++) {
		blocks[i] = block(i / 2 * 32, i % 2 * 16, 32, 16);
		ok(pf_value_cut(v, &blocks[i],
				((struct pf_place){ worker, (unsigned)i % 2,
						    PF_ANY_MEMORY }),
				NULL, &part[i], &err));
	}
	pf_value_unref(pf_steal(&v));
	before = used();
	ok(pf_value_join(part, blocks, PARTS, &into,
			 ((struct pf_place){ worker, 1, PF_ANY_MEMORY }), NULL, &again,
			 &err));
	ck_assert_uint_ge(used() - before, joins[_i].least);
	ck_assert_uint_le(used() - before, joins[_i].most);
	check(again, &into);
	for (int i = 0; i < PARTS; i++)
		pf_value_unref(part[i]);
	place_value(again);
	check(again, &into);
	pf_value_unref(again);
}

/* No room: no memory is charged. */
TEST(without_room_no_part_is_made)
{
	struct pf_shape shape = { .rank = 2, .dims = { 2, INT64_C(1) << 40 } };
	struct pf_block b = { .whole = shape, .part = { 2, { 2, INT64_C(1) << 39 } } };
	struct pf_block all = { .whole = shape, .part = shape };
	struct pf_value *ret = NULL;
	uint64_t before = used();

	ck_assert_int_eq(pf_value_join(&v, &b, 1, &all,
				       ((struct pf_place){ worker, 0, PF_ANY_MEMORY }),
				       NULL, &ret, &err),
			 -ENOSPC);
	ck_assert_ptr_null(ret);
	ck_assert_uint_eq(used(), before);
}

UNIT_FIXTURE(open_all, close_values)
