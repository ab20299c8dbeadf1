/* SPDX-License-Identifier: Apache-2.0 */
/* Values: on the device, in host memory, donated, lost; and their state after a death. */
#include "instance_fixture.h"
#include "values_fixture.h"

static void close_all(void)
{
	pf_instance_unref(pf_steal(&instance));
	close_values();
}

/* What EXECUTABLE, which is dropped, makes of A and B; only the worker has its bytes. */
static struct pf_value *made_by(struct pf_executable *executable, const float *a,
				const float *b)
{
	struct pf_value *args[] = { matrix(a), matrix(b) };
	struct pf_value *out = result_of(executable, args, 2);

	pf_executable_unref(executable);
	return out;
}

static struct pf_value *sum_of(const float *a, const float *b)
{
	return made_by(compiled(add_program), a, b);
}

enum { LARGE = 524288 };

/* A result too large to come with its reply. */
static struct pf_value *large_result(void)
{
	return made_by(compiled_count(LARGE), ones, ones);
}

/* --- to the device ------------------------------------------------------------------- */

/* The handle that an execution on INSTANCE_OF_IT would get, or 0. */
static uint64_t id_on(struct pf_value *value, struct pf_instance *instance_of_it)
{
	uint64_t id = pf_value_use(value, instance_of_it);

	if (id)
		pf_value_unpin(value);
	return id;
}

TEST_ON_PLUGINS(a_value_is_uploaded_to_its_device)
{
	start_worker(plugins[_i]);
	v = matrix(counts);
	instance = pf_worker_instance(worker, NULL);
	ck_assert_uint_eq(id_on(v, instance), 0);
	place_value(v);
	ck_assert_uint_ne(id_on(v, instance), 0);
	ck_assert_int_eq(pf_value_transfer(v, NULL, &err), 1); /* it is there */
	ck_assert_int_eq(pf_value_state(v, NULL), PF_VALUE_READY);
	ck_assert_mem_eq(pf_value_host(v), counts, 24);
	ck_assert_int_eq(pf_value_fetch(v, NULL, &err), 1);
}

TEST(many_callers_wait_for_one_upload)
{
	struct event placed[10];

	start_held("upload=held");
	v = matrix(counts);
	for (int i = 0; i < 10; i++)
		ok(pf_value_transfer(v, event_init(&placed[i]), &err));
	ck_assert_int_eq(pf_value_state(v, NULL), PF_VALUE_TRANSFERRING);
	let_go();
	for (int i = 0; i < 10; i++)
		event_wait(&placed[i]);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(event_count(&placed[i]), 1);
	ck_assert_int_eq(pf_value_placed(v, &err), 1);
}

TEST(a_refused_upload_is_not_retried)
{
	start_faulty("upload=enospc-at:1");
	v = matrix(counts);
	ck_assert_int_eq(try_place(v), -ENOSPC);
	ck_assert_int_eq(pf_value_state(v, &err), PF_VALUE_ERROR);
	ck_assert_int_eq(err.code, -ENOSPC);
	ck_assert_int_eq(try_place(v), -ENOSPC);
	ck_assert_int_eq(pf_value_fetch(v, NULL, &err), 1); /* readers see the bytes */
}

/* After one death the upload is retried; after two the bytes may be the cause. */
TEST_TIMES(an_upload_is_retried_after_one_death, 2)
{
	struct event placed;

	start_faulty("upload=hang:it hangs");
	v = matrix(counts);
	ok(pf_value_transfer(v, event_init(&placed), &err));
	await_print("it hangs");
	ck_assert_int_eq(event_count(&placed), 0);
	if (!_i)
		setenv("PJRTFS_FAULTY", "upload=none", 1);
	replace_worker();
	if (_i) {
		ck_assert(!event_within(&placed, 1)); /* real time: it waits for ever */
		ck_assert_int_eq(pf_value_state(v, NULL), PF_VALUE_TRANSFERRING);
		setenv("PJRTFS_FAULTY", "upload=none", 1);
		replace_worker();
	}
	event_wait(&placed);
	ck_assert_int_eq(event_count(&placed), 1);
	ck_assert_int_eq(pf_value_placed(v, &err), _i ? -EIO : 1);
	if (_i) {
		ck_assert_ptr_nonnull(
			strstr(err.text,
			       "while uploading: the worker of plugin test died"));
		ck_assert_int_eq(pf_value_state(v, NULL), PF_VALUE_ERROR);
		ck_assert_mem_eq(pf_value_host(v), counts, 24);
		return;
	}
	ck_assert_int_eq(pf_value_state(v, NULL), PF_VALUE_READY);
	instance = pf_worker_instance(worker, NULL);
	ck_assert_uint_ne(id_on(v, instance), 0);
}

TEST(after_the_end_no_value_is_uploaded)
{
	start_worker(faulty_plugin());
	v = matrix(counts);
	pf_worker_stop(worker);
	ck_assert_int_eq(try_place(v), -EIO);
	ck_assert_msg(strstr(err.text, "(it is not started again)") != NULL, "%s",
		      err.text);
}

/* --- from the device ----------------------------------------------------------------- */

TEST_ON_PLUGINS(results_can_be_read)
{
	struct pf_value *large;
	const float *sum;

	start_worker(plugins[_i]);
	v = sum_of(counts, ones);
	sum = fetch_value(v);
	for (int i = 0; i < 6; i++)
		ck_assert_float_eq(sum[i], counts[i] + 1);
	large = large_result();
	check_count(fetch_value(large), LARGE);
	pf_value_unref(large);
}

/* Results in host memory are kept, whether inline, in the pool or fetched. */
TEST(results_in_host_memory_survive_a_death)
{
	struct pf_value *large;

	start_worker(plugins[0]);
	v = sum_of(counts, counts);
	large = large_result();
	fetch_value(large);
	replace_worker();
	check_count(pf_value_host(large), LARGE);
	ck_assert_int_eq(pf_value_state(large, NULL), PF_VALUE_READY);
	place_value(large);
	check_count(pf_value_host(large), LARGE);
	ck_assert_int_eq(((const float *)pf_value_host(v))[5] == 12, 1);
	place_value(v);
	pf_value_unref(large);
}

/* The result ID of an execution on INSTANCE, described by OUT in REPLY. */
static struct pf_value *kept(const struct pf_shape *shape, const struct pf_out *out,
			     const void *reply, struct pf_instance *on, uint64_t id)
{
	struct pf_value *value =
		pf_value_of_result(shape, worker, 0, on, id, NULL, 0, out, reply);

	ck_assert_ptr_nonnull(value);
	ck_assert_uint_eq(id_on(value, on), id);
	return value;
}

/* A value that is on the device only, as an execution describes its output. */
static struct pf_value *device_only(void)
{
	struct pf_shape shape = { .rank = 2, .dims = { 2, 3 } };
	struct pf_out out = { .where = PF_WHERE_DEVICE,
			      .dtype = PF_DTYPE_F32,
			      .len = 24 };

	return kept(&shape, &out, NULL, instance, pf_worker_id(worker));
}

TEST(a_device_only_copy_is_lost_with_its_worker)
{
	start_worker(faulty_plugin());
	instance = pf_worker_instance(worker, NULL);
	v = device_only();
	ck_assert_ptr_null(pf_value_host(v));
	ck_assert_int_eq(pf_value_state(v, NULL), PF_VALUE_READY);
	ck_assert_uint_ne(id_on(v, instance), 0);
	pf_instance_unref(pf_steal(&instance));
	replace_worker();
	ck_assert_int_eq(pf_value_state(v, NULL), PF_VALUE_LOST);
	ck_assert_int_eq(pf_value_transfer(v, NULL, &err), -EIO);
	ck_assert_str_eq(err.text,
			 "its only copy was lost when the worker of plugin test died");
	ck_assert_int_eq(pf_value_fetch(v, NULL, &err), -EIO);
	ck_assert_str_eq(pf_value_state_name(PF_VALUE_LOST), "lost");
}

/* The worker does not know the id: the fetch fails with its sentence, again and again. */
TEST(a_fetch_may_fail)
{
	start_worker(faulty_plugin());
	instance = pf_worker_instance(worker, NULL);
	v = device_only();
	ck_assert_int_eq(try_fetch(v, &err), -ENOENT);
	ck_assert_int_eq(try_fetch(v, &err), -ENOENT);
	ck_assert_int_eq(pf_value_state(v, NULL), PF_VALUE_READY);
}

static const struct {
	uint64_t off, len;
} lies[] = { { 4096, 23 }, { 4096, 25 }, { POOL, 24 }, { UINT64_MAX - 8, 24 } };

TEST_EACH(bytes_that_the_worker_cannot_have_sent_are_refused, lies)
{
	struct pf_rep_block reply;
	struct event fetched;

	start_worker(faulty_plugin());
	open_instance();
	v = device_only();
	ok(pf_value_fetch(v, event_init(&fetched), &err));
	take_request();
	reply = block_reply(((struct pf_msg_head *)message)->tag);
	reply.off = lies[_i].off;
	reply.len = lies[_i].len;
	post_reply(&reply, sizeof(reply));
	event_wait(&fetched);
	ck_assert_int_eq(pf_value_fetched(v, &err), -EPROTO);
	ck_assert_ptr_null(pf_value_host(v));
	pf_value_unref(pf_steal(&v));
	close_instance();
	instance = NULL;
}

TEST(small_results_are_in_the_reply)
{
	struct pf_shape shape = { .rank = 0 };
	struct pf_out out = { .where = PF_WHERE_INLINE, .len = 4, .off = 8 };
	char reply[] = "01234567abcd";

	start_worker(faulty_plugin());
	instance = pf_worker_instance(worker, NULL);
	v = kept(&shape, &out, reply, instance, 77);
	memset(reply, 'x', sizeof(reply));
	ck_assert_mem_eq(pf_value_host(v), "abcd", 4);
	ck_assert_uint_eq(id_on(v, instance), 77);
	pf_instance_unref(pf_steal(&instance));
	replace_worker();
	ck_assert_mem_eq(pf_value_host(v), "abcd", 4);
	ck_assert_int_eq(pf_value_state(v, NULL), PF_VALUE_READY);
}

/* --- donation ------------------------------------------------------------------------ */

TEST(a_donated_value_cannot_be_read)
{
	start_worker(faulty_plugin());
	v = matrix(counts);
	place_value(v);
	ck_assert_uint_ne(pf_value_use(v, v->instance), 0);
	ck_assert_int_eq(pf_value_donate(v), PF_DONATION_TAKEN);
	ck_assert_uint_eq(pf_value_use(v, v->instance), 0);
	ck_assert_int_eq(pf_value_donate(v), PF_DONATION_REFUSED);
	ck_assert_int_eq(pf_value_state(v, NULL), PF_VALUE_DONATED);
	ck_assert_int_eq(pf_value_transfer(v, NULL, &err), -EBUSY);
	ck_assert_str_eq(err.text,
			 "its value is donated to an execution that has not ended");
	/* The execution fails: it is what it was. */
	pf_value_donated(v, false);
	ck_assert_int_eq(pf_value_state(v, NULL), PF_VALUE_READY);
	ck_assert_int_eq(pf_value_transfer(v, NULL, &err), 1);
	ck_assert_int_eq(pf_value_donate(v), PF_DONATION_TAKEN);
	pf_value_replaces(v, true);
	pf_value_donated(v, true);
	pf_value_unpin(v);
	ck_assert_ptr_null(pf_value_host(v));
	/* A result is in use until it has its name; without a name it is freed. */
	ck_assert_int_eq(pf_value_fetch(v, NULL, &err), -EBUSY);
	pf_value_replaces(v, false);
	ck_assert_int_eq(pf_value_fetch(v, NULL, &err), -EINVAL);
	ck_assert_str_eq(err.text, "its value was donated to an execution and is gone");
}

/* --- threads ------------------------------------------------------------------------- */

static void *use_main(void *arg)
{
	(void)arg;
	for (int i = 0; i < 100; i++) {
		struct pf_err why = PF_ERR_INIT;

		pf_value_ref(v);
		pf_value_pin(v);
		try_place(v);
		if (!pf_value_host(v))
			return v;
		pf_value_state(v, &why);
		pf_value_unpin(v);
		pf_value_unref(v);
	}
	return NULL;
}

TEST(threads_share_values_while_workers_die)
{
	pthread_t threads[4];
	void *wrong;

	start_worker(faulty_plugin());
	v = matrix(counts);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, use_main, NULL);
	replace_worker();
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &wrong);
		ck_assert_ptr_null(wrong);
	}
	place_value(v);
}

UNIT_FIXTURE(open_values, close_all)
