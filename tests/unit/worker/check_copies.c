/* SPDX-License-Identifier: Apache-2.0 */
/* pjrtfs-worker copies buffers and creates new ones, in every memory; tests/faults/calls.sh and
 * calls-end.sh have those that fail. */
#include "worker_driver.h"

enum {
	N = 1 << 20, /* floats of a large array, which the pool takes */
	LARGE = N * 4,
	AT = 2 << 20, /* where it lies in the arena */
	HERE = 11,    /* its id */
};

static const struct pf_out *array(void)
{
	return &((const struct pf_rep_array *)reply)->out;
}

/* The index of device D's memory of KIND. */
static uint32_t memory_of(unsigned device, const char *kind)
{
	struct json_object *memories = json_object_object_get(
		json_object_array_get_idx(json_object_object_get(d.description,
								 "devices"),
					  device),
		"memories");

	for (size_t i = 0; i < json_object_array_length(memories); i++) {
		struct json_object *memory = json_object_array_get_idx(memories, i);

		if (!strcmp(json_object_get_string(
				    json_object_object_get(memory, "kind")),
			    kind))
			return (uint32_t)i;
	}
	ck_abort_msg("there is no memory %s", kind);
	return 0;
}

static int copy(uint64_t source, uint64_t id, uint32_t device, uint32_t memory)
{
	struct pf_req_copy q = {
		.source = source, .id = id, .device = device, .memory = memory
	};

	return ask(PF_OP_BUFFER_COPY, &q, sizeof(q));
}

/* Ask for a buffer of N elements of DTYPE, LEN bytes; off is nonsense. */
static int make(uint64_t id, int dtype, int64_t n, uint64_t len)
{
	struct pf_req_buffer q = buffer_request(id, UINT64_MAX, len, dtype);

	q.rank = 1;
	q.dims[0] = n;
	return ask(PF_OP_BUFFER_MAKE, &q, sizeof(q));
}

/* The LEN bytes of buffer ID, in a block of the pool; the reply is overwritten. */
static const char *read_back(uint64_t id, uint64_t len)
{
	struct pf_req_id q = { .id = id };
	const struct pf_rep_block *block = (struct pf_rep_block *)reply;

	ck_assert_msg(ask(PF_OP_BUFFER_READ, &q, sizeof(q)) == 0, "%s", complaint());
	ck_assert_uint_eq(block->len, len);
	return d.pool + block->off;
}

/* The bytes of the large array ID that the reply describes: sanitizers need a copy. */
static const char *large_bytes(uint64_t id)
{
	const struct pf_out out = *array();

	ck_assert_uint_eq(out.len, LARGE);
	ck_assert_uint_ge(out.on_device_bytes, LARGE);
#ifndef PF_SANITIZE
	ck_assert_uint_eq(out.where, PF_WHERE_POOL);
	return d.pool + out.off;
#endif
	ck_assert_uint_eq(out.where, PF_WHERE_DEVICE);
	return read_back(id, LARGE);
}

/* Start with a large array of numbers, HERE. */
static void start_with_array(const char *path)
{
	start(path);
	for (int i = 0; i < N; i++)
		((float *)(d.arena + AT))[i] = (float)i;
	create_floats(HERE, AT, N);
}

/* The first index where NUMBERS are not those of start_with_array, or -1. */
static int first_wrong(const float *numbers)
{
	for (int i = 0; i < N; i++)
		if (numbers[i] != (float)i)
			return i;
	return -1;
}

/* Place I of an array is on device I % 2, in its memory of kinds[I / 2]; NULL: the default. */
static const char *const kinds[] = { NULL, "device", "pinned_host", "unpinned_host" };

enum { PLACES = 2 * ARRAY_SIZE(kinds) };

static uint32_t memory_at(unsigned i)
{
	return kinds[i / 2] ? memory_of(i % 2, kinds[i / 2]) : UINT32_MAX;
}

/* A copy has its own bytes, which stay when the source and the user's bytes go. */
TEST_ON_PLUGINS(copies_survive_their_sources)
{

	start_with_array(plugins[_i]);
	for (unsigned i = 0; i < PLACES; i++) {
		const uint64_t source = i ? 100 + i - 1 : HERE, id = 100 + i;
		const char *bytes;

		ck_assert_msg(copy(source, id, i % 2, memory_at(i)) == 0, "%s",
			      complaint());
		ck_assert_uint_eq(array()->dtype, PF_DTYPE_F32);
		bytes = large_bytes(id);
		post_id(PF_OP_BUFFER_FREE, source);
		if (i == 0) {
			memset(d.arena + AT, 0, LARGE);
			continue;
		}
		ck_assert_int_eq(copy(source, 99, 0, UINT32_MAX), -ENOENT);
		ck_assert_int_eq(first_wrong((const float *)bytes), -1);
	}
	stop_ok();
}

/* Types that are packed where they lie: the daemon could not read them in the pool. */
TEST_ON_PLUGINS(packed_arrays_are_read_by_the_plugin_only)
{
	static const char zeros[LARGE], bits[] = { 1, 0, 1, 1, 0, 0, 1 };
	struct pf_req_buffer q = buffer_request(100, 8192, sizeof(bits), PF_DTYPE_U4);

	start(plugins[_i]);
	memcpy(d.arena + 8192, bits, sizeof(bits));
	q.rank = 1;
	q.dims[0] = sizeof(bits);
	ck_assert_int_eq(ask(PF_OP_BUFFER_CREATE, &q, sizeof(q)), 0);
	ck_assert_msg(copy(q.id, 200, 1, 0) == 0, "%s", complaint());
	ck_assert_uint_eq(array()->where, PF_WHERE_DEVICE);
	ck_assert_uint_lt(array()->on_device_bytes, sizeof(bits));
	ck_assert_mem_eq(read_back(200, sizeof(bits)), bits, sizeof(bits));
	ck_assert_int_eq(make(300, PF_DTYPE_U4, LARGE, LARGE), 0);
	ck_assert_uint_eq(array()->where, PF_WHERE_DEVICE);
	ck_assert_mem_eq(read_back(300, LARGE), zeros, LARGE);
	stop_ok();
}

TEST_ON_PLUGINS(created_arrays_are_zeros)
{
	static const char zeros[LARGE];
	struct pf_req_buffer q = buffer_request(50, 0, 0, PF_DTYPE_F32);

	start(plugins[_i]);
	for (uint64_t id = 100; id < 104; id++) {
		ck_assert_msg(make(id, PF_DTYPE_F32, N, LARGE) == 0, "%s", complaint());
		ck_assert_uint_eq(array()->dtype, PF_DTYPE_F32);
		ck_assert_mem_eq(large_bytes(id), zeros, LARGE);
		post_id(PF_OP_BUFFER_FREE, id);
	}
	/* In another device's memory; three dimensions, one of them 0. */
	q.device = 1;
	q.memory = memory_of(1, "pinned_host");
	q.rank = 3;
	q.dims[0] = q.dims[2] = 5;
	ck_assert_msg(ask(PF_OP_BUFFER_MAKE, &q, sizeof(q)) == 0, "%s", complaint());
	ck_assert_uint_eq(array()->where, PF_WHERE_INLINE);
	ck_assert_uint_eq(array()->off, 0);
	ck_assert_uint_eq(array()->len, 0);
	ck_assert_int_eq(copy(50, 60, 0, UINT32_MAX), 0);
	ck_assert_uint_eq(array()->where, PF_WHERE_INLINE);
	ck_assert_uint_eq(array()->len, 0);
	stop_ok();
}
