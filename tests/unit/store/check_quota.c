/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts: the user that each charge falls on, refusals before anything is spent, and races. */
#include "buffer_fixture.h"

#include <stdio.h>
#include <unistd.h>

#include "pjrtfs/quota.h"
#include "pjrtfs/state.h"

enum { OWNER = 7, A = 1001, B = 1002 };

static struct pf_quotas *quotas;

static void open_quotas(const char *const *words)
{
	pf_quotas_free(pf_steal(&quotas));
	ok(pf_quotas_new(OWNER, NULL, 0, words, &quotas, &err));
}

static uint64_t has(uid_t uid, enum pf_resource what)
{
	return pf_account_of(quotas, uid)->limits[what].current;
}

static uint64_t max_of(uid_t uid, enum pf_resource what)
{
	return pf_limit_max(&pf_account_of(quotas, uid)->limits[what]);
}

static struct pf_account *limited(uid_t uid, enum pf_resource what, const char *max)
{
	struct pf_account *a = pf_account_of(quotas, uid);

	ok(pf_limit_set(&a->limits[what], max, &err));
	return a;
}

static void set_up(void)
{
	open_arena();
	open_quotas(NULL);
}

static void tear_down(void)
{
	close_arena();
	pf_quotas_free(pf_steal(&quotas));
}

UNIT_FIXTURE(set_up, tear_down)

static void refused_for(int r, int code, const char *why)
{
	ck_assert_int_eq(r, code);
	ck_assert_msg(strstr(err.text, why) != NULL, "%s", err.text);
}

static const struct {
	const char *word, *wrong;
} words[] = {
	{ "memory=1G", NULL },
	{ "1001:buffers=5", NULL },
	{ "compile_seconds=max", NULL },
	{ "memory", "expected [UID:]RESOURCE=MAX" },
	{ "=5", "expected [UID:]RESOURCE=MAX" },
	{ "symbols=5", "expected [UID:]RESOURCE=MAX" },
	{ "bob:memory=5", "expected [UID:]RESOURCE=MAX" },
	{ "cpu:0/jobs=5", "expected [UID:]RESOURCE=MAX" },
	{ "/memory=5", "expected [UID:]RESOURCE=MAX" },
	{ "memory=", "expected a number of bytes" },
	{ "jobs=-1", "expected a number of jobs" },
	{ "executions=lots", "expected a number of executions" },
	{ "4294967295:jobs=1", "the number of a user" },
	{ "99999999999999999999:jobs=1", "the number of a user" },
	{ "nowhere:0/memory=5", "the mount has no such device" },
};

TEST_EACH(words_are_checked, words)
{
	const char *const list[] = { words[_i].word, NULL };
	struct pf_quotas *q = NULL;
	int r = pf_quotas_new(OWNER, NULL, 0, list, &q, &err);

	ck_assert_msg((r == 0) == !words[_i].wrong, "%s: %s", words[_i].word, err.text);
	ck_assert(!words[_i].wrong || strstr(err.text, words[_i].wrong));
	pf_quotas_free(q);
}

TEST(own_words_come_before_those_for_all)
{
	static const char *const list[] = { "1001:memory=5", "memory=7", "jobs=3",
					    "jobs=4",        "7:jobs=9", NULL };

	open_quotas(list);
	ck_assert_uint_eq(max_of(A, PF_MEMORY), 5);
	ck_assert_uint_eq(max_of(B, PF_MEMORY), 7);
	ck_assert_uint_eq(max_of(A, PF_JOBS), 4);
	ck_assert_uint_eq(max_of(OWNER, PF_MEMORY), PF_NO_LIMIT);
	ck_assert_uint_eq(max_of(OWNER, PF_JOBS), 9);
	ck_assert_ptr_eq(pf_account_find(quotas, A), pf_account_of(quotas, A));
	ck_assert_ptr_null(pf_account_find(quotas, 5555));
	ck_assert(pf_account_in_use(pf_account_of(quotas, A)));
	ck_assert(!pf_account_in_use(pf_account_of(quotas, B)));
}

TEST(a_refusal_names_the_file_and_charges_nothing)
{
	struct pf_account *a = limited(A, PF_MEMORY, "8192\n");
	struct pf_bytes *bytes = NULL, *more = NULL;

	ok(pf_bytes_new(arena, a, 8000, &bytes, &err));
	ck_assert_uint_eq(has(A, PF_MEMORY), 8192); /* what the extent takes */
	refused_for(pf_bytes_new(arena, a, 1, &more, &err), -EDQUOT,
		    "user 1001 has 8192 of 8192 bytes and wants 256 more: "
		    "users/1001/memory.max");
	ck_assert_uint_eq(used(), 8192);
	ck_assert_uint_eq(has(A, PF_MEMORY), 8192);
	/* The mount's own limit is another error, and is not charged either. */
	ok(pf_limit_set(&a->limits[PF_MEMORY], "max", &err));
	refused_for(pf_bytes_new(arena, a, LIMIT, &more, &err), -ENOSPC, "memory limit");
	ck_assert_uint_eq(has(A, PF_MEMORY), 8192);
	pf_bytes_unref(bytes);
	ck_assert_uint_eq(has(A, PF_MEMORY), 0);
}

TEST(a_file_grows_to_the_maximum_and_no_further)
{
	struct pf_account *a = limited(A, PF_MEMORY, "1M");
	static char data[65536];
	struct pf_bytes *bytes = NULL;
	uint64_t size = 0;
	int r;

	do
		r = pf_bytes_write(&bytes, arena, a, &size, data, sizeof(data), size, 0,
				   &err);
	while (r == 0);
	refused_for(r, -EDQUOT, "users/1001/memory.max");
	ck_assert_uint_ge(size, 1 << 19); /* as a copy may have to lie beside it */
	ck_assert_uint_le(has(A, PF_MEMORY), 1 << 20);
	ck_assert_uint_eq(has(A, PF_MEMORY), used());
	pf_bytes_trim(bytes, 100);
	ck_assert_uint_eq(has(A, PF_MEMORY), used());
	ck_assert_uint_le(used(), 4096);
	pf_bytes_unref(bytes);
	ck_assert_uint_eq(has(A, PF_MEMORY), 0);
}

/* A buffer of user UID with LEN bytes. */
static struct pf_buffer *make_for(uid_t uid, size_t len)
{
	struct pf_buffer *b = pf_buffer_new(&place, PF_DEFAULT_MEMORY, PF_FORMAT_RAW);
	pf_autofree char *data = calloc(1, len);
	struct pf_value *v = NULL;

	ok(pf_buffer_charge(b, pf_account_of(quotas, uid), false, &err));
	ck_assert_int_eq(pf_buffer_write(b, data, len, 0, &err), (int)len);
	ok(pf_buffer_commit(b, false, &v, &err));
	pf_value_unref(v);
	return b;
}

TEST(chown_moves_all_that_is_charged)
{
	struct pf_buffer *b = make_for(A, 100000);
	uint64_t all = used();

	ck_assert_uint_ge(all, 100000 + PF_BUFFER_HEAP);
	ck_assert_uint_eq(has(A, PF_MEMORY), all);
	ck_assert_uint_eq(has(A, PF_BUFFERS), 1);
	limited(B, PF_MEMORY, "1"); /* it is there already */
	pf_buffer_charge_to(b, pf_account_of(quotas, B));
	ck_assert_uint_eq(has(A, PF_MEMORY), 0);
	ck_assert_uint_eq(has(A, PF_BUFFERS), 0);
	ck_assert_uint_eq(has(B, PF_MEMORY), all);
	ck_assert_uint_eq(has(B, PF_BUFFERS), 1);
	pf_buffer_discard(b);
	ck_assert_uint_eq(has(B, PF_MEMORY), 0);
	ck_assert_uint_eq(has(B, PF_BUFFERS), 0);
	/* An object that has lost its name is not charged again. */
	pf_buffer_charge_to(b, pf_account_of(quotas, A));
	ck_assert_uint_eq(has(A, PF_BUFFERS), 0);
	pf_buffer_unref(b);
}

/* Does a copy for user UID of what A has take memory of its own? */
static bool copy_takes_memory(uid_t uid)
{
	struct pf_buffer *from = make_for(A, 100000);
	struct pf_buffer *to = pf_buffer_new(&place, PF_DEFAULT_MEMORY, PF_FORMAT_RAW);
	struct pf_snapshot snapshot;
	struct pf_value *v = NULL;
	bool shares;

	pf_buffer_charge_to(to, pf_account_of(quotas, uid));
	ok(pf_snapshot_open(from, PF_FORMAT_RAW, "", &snapshot, &err));
	shares = pf_buffer_take(to, &snapshot, &v);
	pf_snapshot_release(&snapshot);
	pf_value_unref(v);
	pf_buffer_unref(to);
	pf_buffer_unref(from);
	return !shares;
}

TEST(users_share_no_bytes)
{
	ck_assert(!copy_takes_memory(A));
	ck_assert(copy_takes_memory(B));
}

TEST(files_are_limited_in_number_and_by_their_heap)
{
	struct pf_account *a = limited(A, PF_BUFFERS, "1");
	struct pf_buffer *one = make_for(A, 1);
	struct pf_buffer *two = pf_buffer_new(&place, PF_DEFAULT_MEMORY, PF_FORMAT_RAW);

	refused_for(pf_buffer_charge(two, a, false, &err), -EDQUOT,
		    "user 1001 has 1 of 1 buffers: users/1001/buffers.max");
	ck_assert_uint_eq(has(A, PF_BUFFERS), 1);
	ok(pf_buffer_charge(two, a, true, &err)); /* it replaces one */
	pf_buffer_unref(one);
	ck_assert_uint_eq(has(A, PF_BUFFERS), 1);
	ck_assert_uint_eq(has(A, PF_MEMORY), PF_BUFFER_HEAP);
	limited(A, PF_BUFFERS, "max");
	limited(A, PF_MEMORY, "3000"); /* room for one */
	one = pf_buffer_new(&place, PF_DEFAULT_MEMORY, PF_FORMAT_RAW);
	refused_for(pf_buffer_charge(one, a, false, &err), -EDQUOT, "memory.max");
	ck_assert_uint_eq(has(A, PF_BUFFERS), 1);
	pf_buffer_unref(one);
	pf_buffer_unref(two);
}

enum { THREADS = 4, ROUNDS = 1000000 };

static _Atomic unsigned inside;

/* Have the one job that the account may have, again and again. */
static void *take_turns(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (pf_account_charge(arg, PF_JOBS, 1, NULL) < 0)
			continue;
		ck_assert_uint_eq(atomic_fetch_add(&inside, 1), 0);
		atomic_fetch_sub(&inside, 1);
		pf_account_discharge(arg, PF_JOBS, 1);
	}
	return NULL;
}

TEST(threads_get_no_more_than_the_maximum)
{
	struct pf_account *a = limited(A, PF_JOBS, "1");
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, take_turns, a), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(has(A, PF_JOBS), 0);
}

TEST(a_restarted_daemon_has_what_was_changed)
{
	static const char *const before[] = { "memory=5M", "1001:jobs=3", NULL };
	static const char *const after[] = { "memory=6M", "1001:jobs=4", NULL };
	struct pf_account *a;
	int fd;

	ok(pf_state_open(-1, &err));
	open_quotas(before);
	a = limited(A, PF_BUFFERS, "7");
	limited(B, PF_JOBS, "max");
	pf_account_force(a, PF_COMPILE_MS, 1500);
	pf_account_save(a);
	fd = dup(pf_state_fd());
	pf_state_close();
	ok(pf_state_open(fd, &err));
	open_quotas(after);
	a = pf_account_find(quotas, A);
	ck_assert_ptr_nonnull(a);
	ck_assert_uint_eq(max_of(A, PF_BUFFERS), 7);
	ck_assert_uint_eq(max_of(A, PF_JOBS), 4); /* the new configuration's */
	ck_assert_uint_eq(max_of(A, PF_MEMORY), 6 << 20);
	ck_assert_uint_eq(pf_limit_current(&a->limits[PF_COMPILE_MS]), 1);
	ck_assert_uint_eq(max_of(B, PF_JOBS), PF_NO_LIMIT);
	pf_state_close();
}

static _Atomic bool stop;

static void *change_owner(void *arg)
{
	while (!stop)
		for (uid_t uid = A; uid <= B; uid++)
			pf_buffer_charge_to(arg, pf_account_of(quotas, uid));
	return NULL;
}

TEST(chown_races_with_writes_and_removal)
{
	for (int round = 0; round < 100; round++) {
		struct pf_buffer *b = make_for(A, 1000);
		pthread_t threads[2];

		stop = false;
		for (int i = 0; i < 2; i++)
			pthread_create(&threads[i], NULL, change_owner, b);
		for (int i = 0; i < 20; i++) {
			struct pf_value *v = NULL;

			ck_assert_int_gt(pf_buffer_write(b, "x", 1, (unsigned)i * 997,
							 &err),
					 0);
			ok(pf_buffer_commit(b, false, &v, &err));
			pf_value_unref(v);
		}
		pf_buffer_discard(b);
		stop = true;
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
		pf_buffer_unref(b);
		ck_assert_uint_eq(has(A, PF_MEMORY) + has(B, PF_MEMORY), 0);
		ck_assert_uint_eq(has(A, PF_BUFFERS) + has(B, PF_BUFFERS), 0);
	}
}
