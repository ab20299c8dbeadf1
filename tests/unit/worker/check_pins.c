/* SPDX-License-Identifier: Apache-2.0 */
/* pjrtfs-worker pins what it downloads into, for the next downloads; tests/faults/pins.sh has it in a mount. */
#define POOL_SIZE (UINT64_C(512) << 20) /* of which 16 MiB may be pinned */
#include "worker_driver.h"

enum { LEN = 4 << 20, HERE = 11 };

/* Start a worker whose device has an array in memory of its own; with more FAULTS. */
static void start_with_array(const char *faults)
{
	struct pf_req_buffer q = buffer_request(HERE, 0, LEN, PF_DTYPE_U8);
	char all[256];

	snprintf(all, sizeof(all), "memory=own,PJRT_Device_MemoryStats=alive,%s", faults);
	setenv("PJRTFS_FAULTY", all, 1);
	setenv("PJRTFS_FAULTY_CALLS", "yes", 1);
	start(faulty_plugin());
	q.rank = 1;
	q.dims[0] = LEN;
	ck_assert_msg(ask(PF_OP_BUFFER_MAKE, &q, sizeof(q)) == 0, "%s", complaint());
}

/* Download it into the block *OFF. */
static int download(uint64_t *off)
{
	struct pf_req_id q = { .id = HERE };
	int r = ask(PF_OP_BUFFER_READ, &q, sizeof(q));

	*off = ((struct pf_rep_block *)reply)->off;
	return r;
}

static uint64_t must_download(void)
{
	static char all[LEN];
	uint64_t off;

	ck_assert_msg(download(&off) == 0, "%s", complaint());
	memset(all, 0xa5, LEN);
	ck_assert_mem_eq(d.pool + off, all, LEN);
	return off;
}

/* How many blocks are pinned. */
static int pinned(void)
{
	struct pf_req_id q = { .id = 0 };
	const char *at;
	int n = -1;

	ck_assert_int_eq(ask(PF_OP_MEMORY_STATS, &q, sizeof(q)), -EOPNOTSUPP);
	at = strstr(complaint(), "errors, ");
	ck_assert_ptr_nonnull(at);
	ck_assert_int_eq(sscanf(at, "errors, %d pins", &n), 1);
	return n;
}

TEST(pinned_memory_grows_to_its_limit_and_shrinks)
{
	uint64_t off[5];

	start_with_array("");
	for (int i = 0; i < 5; i++) {
		off[i] = must_download();
		ck_assert_int_eq(pinned(), i < 4 ? i + 1 : 4);
	}
	for (int i = 0; i < 5; i++)
		post_id(PF_OP_BLOCK_FREE, off[i]);
	while (pinned() > 0)
		usleep(10000);
	(void)must_download();
	ck_assert_int_eq(pinned(), 1);
	stop_ok();
}

/* If they take longer than it stays pinned, it is pinned anew, and that is one, too. */
TEST(downloads_take_pinned_memory_again)
{
	start_with_array("");
	for (int i = 0; i < 10; i++) {
		post_id(PF_OP_BLOCK_FREE, must_download());
		ck_assert_int_eq(pinned(), 1);
	}
	stop_ok();
}

TEST(memory_of_a_failed_download_is_unpinned_too)
{
	uint64_t off;

	start_with_array("download=nth:1:event-error:INTERNAL:no bus");
	ck_assert_int_eq(download(&off), -EIO);
	ck_assert_str_eq(complaint(), "no bus");
	while (pinned() > 0)
		usleep(10000);
	stop_ok();
}

TEST(nothing_is_pinned_after_a_failure)
{
	start_with_array("pin=nth:2:error:INTERNAL:no more");
	for (int i = 0; i < 4; i++) {
		(void)must_download();
		ck_assert_int_eq(pinned(), 1);
	}
	stop_ok();
}

TEST(small_arrays_and_those_in_host_memory_are_not_pinned)
{
	struct pf_req_buffer q = buffer_request(12, 0, 4096, PF_DTYPE_U8);
	struct pf_req_id read = { .id = 12 };

	start_with_array("pointer=error:UNIMPLEMENTED");
	q.rank = 1;
	q.dims[0] = 4096;
	ck_assert_int_eq(ask(PF_OP_BUFFER_MAKE, &q, sizeof(q)), 0);
	ck_assert_int_eq(ask(PF_OP_BUFFER_READ, &read, sizeof(read)), 0);
	q = buffer_request(13, 0, LEN, PF_DTYPE_U8);
	q.memory = 1;
	q.rank = 1;
	q.dims[0] = LEN;
	ck_assert_int_eq(ask(PF_OP_BUFFER_MAKE, &q, sizeof(q)), 0);
	read.id = 13;
	ck_assert_int_eq(ask(PF_OP_BUFFER_READ, &read, sizeof(read)), 0);
	ck_assert_int_eq(pinned(), 0);
	stop_ok();
}
