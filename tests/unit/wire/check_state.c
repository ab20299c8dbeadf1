/* SPDX-License-Identifier: Apache-2.0 */
/* The journal: what a new life finds in it. */
#include "pjrtfs/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

static void put(enum pf_state_type type, uint64_t id, const char *text)
{
	pf_state_put(type, id, text, strlen(text) + 1, NULL, 0);
}

static const char *get(enum pf_state_type type, uint64_t id)
{
	size_t len;
	const char *text = pf_state_get(type, id, &len);

	if (text)
		ck_assert_uint_eq(len, strlen(text) + 1);
	return text;
}

/* End this life and begin the next one; -errno of pf_state_open. */
static int restart(void)
{
	struct pf_err err = PF_ERR_INIT;
	int fd = dup(pf_state_fd()), r;

	ck_assert_int_ge(fd, 0);
	pf_state_close();
	r = pf_state_open(fd, &err);
	if (r < 0)
		close(fd);
	return r;
}

/* The same, which must succeed. */
static void next_life(void)
{
	ck_assert_int_eq(restart(), 0);
}

static void begin(void)
{
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(pf_state_open(-1, &err) == 0, "%s", err.text);
}

TEST(without_a_journal_nothing_is_kept)
{
	pf_state_close();
	put(PF_STATE_NODE, 1, "x");
	ck_assert_ptr_null(get(PF_STATE_NODE, 1));
	ck_assert_int_eq(pf_state_fd(), -1);
	ck_assert(!pf_state_on());
}

TEST(a_later_record_replaces_an_earlier_one)
{
	put(PF_STATE_NODE, 7, "first");
	put(PF_STATE_NODE, 7, "second, which is longer");
	put(PF_STATE_BUFFER, 7, "of another type");
	ck_assert_str_eq(get(PF_STATE_NODE, 7), "second, which is longer");
	next_life();
	ck_assert_str_eq(get(PF_STATE_NODE, 7), "second, which is longer");
	ck_assert_str_eq(get(PF_STATE_BUFFER, 7), "of another type");
	ck_assert_ptr_null(get(PF_STATE_VALUE, 7));
}

TEST(both_parts_of_a_record_are_kept)
{
	size_t len;
	const char *text;

	pf_state_put(PF_STATE_OPEN, 3, "ab", 2, "cd", 3);
	next_life();
	text = pf_state_get(PF_STATE_OPEN, 3, &len);
	ck_assert_uint_eq(len, 5);
	ck_assert_str_eq(text, "abcd");
	ck_assert_uint_eq((uintptr_t)text % 8, 0);
}

TEST(lists_are_ascending)
{
	static const uint64_t ids[] = { 900, 5, 77, 1 };
	uint64_t *list;
	size_t n;

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		put(PF_STATE_USER, ids[i], "user");
	put(PF_STATE_NODE, 6, "node");
	list = pf_state_list(PF_STATE_USER, &n);
	ck_assert_uint_eq(n, 4);
	ck_assert(list[0] == 1 && list[1] == 5 && list[2] == 77 && list[3] == 900);
	free(list);
}

static void check_all_but_thirds(uint64_t n)
{
	for (uint64_t i = 1; i <= n; i++) {
		const char *text = get(PF_STATE_NODE, i);
		char want[32];

		snprintf(want, sizeof(want), "%u", (unsigned)i);
		if (i % 3 == 0)
			ck_assert_ptr_null(text);
		else
			ck_assert_str_eq(text, want);
	}
}

/* Each object is found among many, also when others have gone. */
TEST(objects_are_found_among_many)
{
	enum { N = 100000 };
	uint64_t *list;
	char text[32];
	size_t n;

	for (uint64_t i = 1; i <= N; i++) {
		snprintf(text, sizeof(text), "%u", (unsigned)i);
		put(PF_STATE_NODE, i, text);
	}
	for (uint64_t i = 3; i <= N; i += 3)
		pf_state_drop(PF_STATE_NODE, i);
	pf_state_drop(PF_STATE_NODE, N + 1); /* there is none */
	check_all_but_thirds(N);
	list = pf_state_list(PF_STATE_NODE, &n);
	ck_assert_uint_eq(n, N - N / 3);
	free(list);
	next_life();
	check_all_but_thirds(N);
}

/* A thread that restores reads a record while others replace records of 64 MiB. */
TEST(records_stay_where_they_are_until_all_is_restored)
{
	static char text[1 << 20];
	const char *before;

	put(PF_STATE_NODE, 1, "stays");
	before = get(PF_STATE_NODE, 1);
	for (unsigned i = 0; i < 64; i++) {
		text[0] = (char)i;
		pf_state_put(PF_STATE_OBJECT, 2, text, sizeof(text), NULL, 0);
	}
	ck_assert_str_eq(before, "stays");
}

TEST(what_comes_back_as_it_was_is_not_written_again)
{
	const char *before;

	put(PF_STATE_NODE, 1, "same");
	next_life();
	before = get(PF_STATE_NODE, 1);
	put(PF_STATE_NODE, 1, "same");
	ck_assert_ptr_eq(get(PF_STATE_NODE, 1), before);
	pf_state_put(PF_STATE_NODE, 1, "sa", 2, "me", 3);
	ck_assert_ptr_eq(get(PF_STATE_NODE, 1), before);
	put(PF_STATE_NODE, 1, "else");
	ck_assert_str_eq(get(PF_STATE_NODE, 1), "else");
	next_life();
	ck_assert_str_eq(get(PF_STATE_NODE, 1), "else");
}

TEST(a_list_has_the_numbers_of_one_type)
{
	uint64_t *list;
	size_t n;

	for (uint64_t i = 1; i <= 1000; i++)
		put(i % 2 ? PF_STATE_NODE : PF_STATE_VALUE, i, "x");
	put(PF_STATE_VALUE, 1, "x");
	list = pf_state_list(PF_STATE_NODE, &n);
	ck_assert_uint_eq(n, 500);
	for (size_t i = 0; i < n; i++)
		ck_assert_uint_eq(list[i], 2 * i + 1);
	free(list);
}

/* More than the journal's room, were it not compacted. */
TEST(superseded_records_make_room)
{
	static char text[1 << 20];
	size_t len;

	pf_state_restored();
	put(PF_STATE_NODE, 1, "stays");
	memset(text, 'x', sizeof(text));
	for (unsigned i = 0; i < 5000; i++) {
		text[0] = (char)('a' + i % 26);
		pf_state_put(PF_STATE_OBJECT, 2 + i % 3, text, sizeof(text), NULL, 0);
	}
	next_life();
	ck_assert_str_eq(get(PF_STATE_NODE, 1), "stays");
	for (unsigned i = 4997; i < 5000; i++) {
		const char *now = pf_state_get(PF_STATE_OBJECT, 2 + i % 3, &len);

		ck_assert_uint_eq(len, sizeof(text));
		ck_assert_int_eq(now[0], 'a' + (int)(i % 26));
		ck_assert_int_eq(now[len - 1], 'x');
	}
}

/* A life that dies between two records of one change leaves neither: the end moves once. */
TEST(changes_are_one)
{
	const struct pf_state_change changes[] = {
		{ .type = PF_STATE_NODE, .id = 1 },
		{ .type = PF_STATE_NODE, .id = 2, .data = "new", .len = 4 },
	};

	put(PF_STATE_NODE, 1, "old");
	pf_state_write(changes, 2);
	ck_assert_ptr_null(get(PF_STATE_NODE, 1));
	next_life();
	ck_assert_ptr_null(get(PF_STATE_NODE, 1));
	ck_assert_str_eq(get(PF_STATE_NODE, 2), "new");
}

TEST(counters_go_on)
{
	atomic_fetch_add(pf_state_counter(PF_STATE_COUNT_INO), 41);
	next_life();
	ck_assert_uint_eq(atomic_fetch_add(pf_state_counter(PF_STATE_COUNT_INO), 1), 41);
}

TEST(requests_that_changed_names_are_known)
{
	pf_state_request(1000, false);
	put(PF_STATE_NODE, 1, "x");
	pf_state_request(1002, false);
	put(PF_STATE_VALUE, 1, "not a name");
	pf_state_request(0, false);
	next_life();
	ck_assert(pf_state_was_done(1000));
	ck_assert(!pf_state_was_done(1002));
	ck_assert(!pf_state_was_done(0));
	/* A later life still knows. */
	for (unsigned i = 0; i < 100; i++) {
		static char big[1 << 18];

		pf_state_put(PF_STATE_OBJECT, 5, big, sizeof(big), NULL, 0);
	}
	next_life();
	ck_assert(pf_state_was_done(1000));
}

TEST(conversations_end_and_the_next_life_begins_others)
{
	_Atomic bool ends = false;

	ck_assert(pf_state_begin(1, &ends));
	ck_assert(pf_state_any_busy());
	ends = true;
	ck_assert(pf_state_begin(1, &ends));
	ck_assert(!pf_state_begin(2, &ends));
	for (int i = 0; i < 3; i++)
		ck_assert(!pf_state_begin(3, &ends)); /* several requests */
	pf_state_set_busy(1, false);
	ck_assert(!pf_state_any_busy());
	ck_assert(pf_state_begin(0, &ends)); /* the journal does not know it */
	next_life();
	ck_assert(!pf_state_was_postponed(1) && !pf_state_was_busy(1));
	ck_assert(!pf_state_was_busy(2) && pf_state_was_postponed(2));
	ck_assert(!pf_state_was_postponed(2));
	ck_assert(
		!pf_state_begin(2,
				&ends)); /* this life ends before it has begun it, too */
	next_life();
	ck_assert(!pf_state_was_busy(2) && pf_state_was_postponed(2));
	ck_assert(pf_state_was_busy(3) && !pf_state_was_postponed(3));
	pf_state_close();
	ck_assert(pf_state_begin(1, &ends) && !pf_state_any_busy());
}

TEST(a_request_at_work_is_a_suspect)
{
	pf_state_request(500, false);
	ck_assert_uint_eq(pf_state_deaths(500), 0);
	next_life();
	ck_assert_uint_eq(pf_state_deaths(500), 1);
	pf_state_request(500, false);
	next_life();
	ck_assert_uint_eq(pf_state_deaths(500), 2);
	pf_state_request(0, false);
	next_life();
	ck_assert_uint_eq(pf_state_deaths(500), 2);
}

/* Where the journal has a magic number and its version, and the first record, after 64 KiB, its type
 * and version. */
static const size_t of_versions[] = { 0, 8, (1 << 16) + 4, (1 << 16) + 6 };

TEST_EACH(another_version_is_refused, of_versions)
{
	unsigned char *p;

	put(PF_STATE_USER, 1, "x");
	p = mmap(NULL, 1 << 17, PROT_READ | PROT_WRITE, MAP_SHARED, pf_state_fd(), 0);
	ck_assert_ptr_ne(p, MAP_FAILED);
	p[of_versions[_i]] += 20;
	ck_assert_int_eq(restart(), -EPROTO);
	ck_assert(!pf_state_on());
}

TEST(a_record_is_as_long_as_its_struct)
{
	struct pf_err err = PF_ERR_INIT;
	size_t tail;

	put(PF_STATE_USER, 1, "1234567"); /* and a NUL */
	ck_assert(pf_state_load(PF_STATE_USER, 1, 8, NULL, &err));
	ck_assert(pf_state_load(PF_STATE_USER, 1, 5, &tail, &err) && tail == 3);
	ck_assert(!pf_state_load(PF_STATE_USER, 1, 5, NULL, &err));
	ck_assert_str_eq(err.text, "the record of user 1 is damaged");
	ck_assert(!pf_state_load(PF_STATE_USER, 1, 9, &tail, NULL));
	ck_assert(!pf_state_load(PF_STATE_USER, 2, 8, NULL, &err) && err.code == -ENOENT);
}

TEST(texts_end_within_their_record)
{
	const char *t[3];

	ck_assert(pf_state_texts("a\0\0b", 5, t, 3));
	ck_assert(!strcmp(t[0], "a") && !strcmp(t[1], "") && !strcmp(t[2], "b"));
	ck_assert(!pf_state_texts("a\0\0b", 4, t, 3));
	ck_assert(!pf_state_texts("", 0, t, 1));
}

UNIT_FIXTURE(begin, pf_state_close)
