/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays whose bytes lie elsewhere until they are used. */
#include <pthread.h>

#include "store_fixture.h"

static struct pf_err err;
static struct pf_value *v;

/* A file, as it were. */
static struct file {
	struct pf_backing base;
	_Atomic unsigned reads, frees;
	_Atomic int failing; /* -errno of the next reads */
} file;

static int file_read(struct pf_backing *base, void *dst, uint64_t len, struct pf_err *why)
{
	(void)base;
	file.reads++;
	if (file.failing)
		return pf_err_set(why, file.failing, "the disk fails");
	ck_assert_uint_eq(len, 24);
	memcpy(dst, counts, len);
	return 0;
}

static void file_free(struct pf_backing *base)
{
	(void)base;
	file.frees++;
}

static uint64_t used(void)
{
	uint64_t n, limit;

	pf_arena_usage(arena, &n, &limit);
	return n;
}

static void open_all(void)
{
	struct pf_shape shape = { .rank = 2, .dims = { 2, 3 } };

	open_arena();
	err = (struct pf_err)PF_ERR_INIT;
	file = (struct file){ .base = { 1, file_read, file_free } };
	start_worker(faulty_plugin());
	v = pf_value_of_backing(PF_DTYPE_F32, &shape, 24, &file.base, worker, 0,
				UINT32_MAX);
	pf_backing_unref(&file.base);
	ck_assert_uint_eq(file.frees, 0);
}

static void close_all(void)
{
	pf_value_unref(pf_steal(&v));
	ck_assert_uint_eq(file.frees, 1);
	close_store();
}

TEST(bytes_are_read_by_the_first_reader)
{
	uint64_t before = used();

	ck_assert_ptr_null(pf_value_host(v));
	ck_assert_int_eq(pf_value_state(v, NULL), PF_VALUE_READY);
	ck_assert_uint_eq(file.reads, 0);
	ck_assert_msg(fetch_value(v, &err) == 1, "%s", err.text);
	ck_assert_int_eq(memcmp(pf_value_host(v), counts, 24), 0);
	ck_assert_uint_gt(used(), before);
	ck_assert_int_eq(fetch_value(v, &err), 1);
	ck_assert_msg(place_value(v, &err) == 1, "%s", err.text);
	ck_assert_uint_eq(file.reads, 1);
	ck_assert_uint_eq(file.frees, 1);
}

TEST(bytes_are_read_by_the_first_execution)
{
	ck_assert_msg(place_value(v, &err) == 1, "%s", err.text);
	ck_assert_int_eq(memcmp(pf_value_host(v), counts, 24), 0);
	replace_worker();
	ck_assert_msg(place_value(v, &err) == 1, "%s", err.text);
	ck_assert_uint_eq(file.reads, 1);
}

TEST(a_copy_reads_them_too)
{
	struct pf_value *copy = pf_value_at(v, worker, 1, PF_ANY_MEMORY);

	ck_assert_msg(place_value(copy, &err) == 1, "%s", err.text);
	ck_assert_uint_eq(file.reads, 1);
	pf_value_unref(copy);
}

TEST(a_failing_disk_fails_the_use_and_not_the_next)
{
	file.failing = -EIO;
	ck_assert_int_eq(fetch_value(v, &err), -EIO);
	ck_assert_str_eq(err.text, "the disk fails");
	file.failing = -ENOSPC;
	ck_assert_int_eq(place_value(v, &err), -ENOSPC);
	ck_assert_int_eq(pf_value_state(v, NULL), PF_VALUE_READY);
	replace_worker();
	ck_assert_int_eq(pf_value_state(v, NULL), PF_VALUE_READY);
	file.failing = 0;
	ck_assert_msg(place_value(v, &err) == 1, "%s", err.text);
	ck_assert_int_eq(memcmp(pf_value_host(v), counts, 24), 0);
}

static void *fetch_main(void *arg)
{
	struct pf_err why = PF_ERR_INIT;

	(void)arg;
	return fetch_value(v, &why) == 1 ? NULL : v;
}

TEST_TIMES(readers_and_executions_at_once, 20)
{
	pthread_t threads[4];
	void *wrong;

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, fetch_main, NULL);
	ck_assert_msg(place_value(v, &err) == 1, "%s", err.text);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &wrong);
		ck_assert_ptr_null(wrong);
	}
	ck_assert_int_eq(memcmp(pf_value_host(v), counts, 24), 0);
}

UNIT_FIXTURE(open_all, close_all)
