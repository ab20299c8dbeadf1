/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays whose bytes lie elsewhere until they are used. */
#include <pthread.h>

#include "values_fixture.h"

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

static void open_all(void)
{
	struct pf_shape shape = { .rank = 2, .dims = { 2, 3 } };

	open_values();
	file = (struct file){ .base = { 1, file_read, file_free } };
	start_worker(faulty_plugin());
	v = pf_value_of_backing(&(struct pf_array_type){ PF_DTYPE_F32, &shape, 24 },
				&file.base,
				(struct pf_place){ worker, 0, PF_DEFAULT_MEMORY });
	pf_backing_unref(&file.base);
	ck_assert_uint_eq(file.frees, 0);
}

static void close_all(void)
{
	pf_value_unref(pf_steal(&v));
	ck_assert_uint_eq(file.frees, 1);
	close_values();
}

TEST(bytes_are_read_by_the_first_reader)
{
	uint64_t before = used();

	ck_assert_ptr_null(pf_value_host(v));
	ck_assert_int_eq(pf_value_state(v, NULL), PF_VALUE_READY);
	ck_assert_uint_eq(file.reads, 0);
	fetch_value(v);
	ck_assert_mem_eq(pf_value_host(v), counts, 24);
	ck_assert_uint_gt(used(), before);
	fetch_value(v);
	place_value(v);
	ck_assert_uint_eq(file.reads, 1);
	ck_assert_uint_eq(file.frees, 1);
}

TEST(bytes_are_read_by_the_first_execution)
{
	place_value(v);
	ck_assert_mem_eq(pf_value_host(v), counts, 24);
	replace_worker();
	place_value(v);
	ck_assert_uint_eq(file.reads, 1);
}

TEST(a_copy_reads_them_too)
{
	struct pf_value *copy =
		pf_value_at(v, (struct pf_place){ worker, 1, PF_ANY_MEMORY }, NULL);

	place_value(copy);
	ck_assert_uint_eq(file.reads, 1);
	pf_value_unref(copy);
}

TEST(a_failing_disk_fails_the_use_and_not_the_next)
{
	file.failing = -EIO;
	ck_assert_int_eq(try_fetch(v, &err), -EIO);
	ck_assert_str_eq(err.text, "the disk fails");
	file.failing = -ENOSPC;
	ck_assert_int_eq(try_place(v), -ENOSPC);
	ck_assert_int_eq(pf_value_state(v, NULL), PF_VALUE_READY);
	replace_worker();
	ck_assert_int_eq(pf_value_state(v, NULL), PF_VALUE_READY);
	file.failing = 0;
	place_value(v);
	ck_assert_mem_eq(pf_value_host(v), counts, 24);
}

static void *fetch_main(void *arg)
{
	struct pf_err why = PF_ERR_INIT;

	(void)arg;
	return try_fetch(v, &why) == 1 ? NULL : v;
}

TEST_TIMES(readers_and_executions_at_once, 20)
{
	pthread_t threads[4];
	void *wrong;

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, fetch_main, NULL);
	place_value(v);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &wrong);
		ck_assert_ptr_null(wrong);
	}
	ck_assert_mem_eq(pf_value_host(v), counts, 24);
}

UNIT_FIXTURE(open_all, close_all)
