/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler: users round robin, queues, slots held for long, front and alone, dequeueing, listing. */
#include "pjrtfs/scheduler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pjrtfs/base.h"
#include "unit.h"

static struct pf_sched *sched;

/* The names of granted requests, in order.  The timer's thread grants some. */
static pthread_mutex_t order_lock = PTHREAD_MUTEX_INITIALIZER;
static char order[64];
static _Atomic unsigned n_granted;

struct one {
	struct pf_sched_request request;
	char name;
};

static struct one all[128]; /* by name */

static void note(struct pf_sched_request *request)
{
	const struct one *one = pf_container_of(request, struct one, request);

	PF_LOCK_SCOPE(&order_lock);
	order[atomic_load(&n_granted)] = one->name;
	atomic_fetch_add(&n_granted, 1);
}

static void open_config(const struct pf_sched_config *config)
{
	sched = pf_sched_new(config);
	ck_assert_ptr_nonnull(sched);
	memset(order, 0, sizeof(order));
	atomic_store(&n_granted, 0);
}

static void close_sched(void)
{
	pf_sched_free(sched);
}

static const struct pf_sched_config one_slot = {
	.n_queues = 1, .slots = 1, .max_held = 40, .long_ms = 60000
};

static const unsigned queues[] = { 0, 1 };

/*
 * Acquire NAME for USER; what is granted at once is noted, too.  HOW: '<' front; '^' prompt; '*' front and
 * alone; '+' of both queues, '|' of the second one; else of the first.
 */
static void take(char name, uid_t user, char how)
{
	struct one *one = &all[(int)name];

	*one = (struct one){ .request = { .user = user,
					  .queues = queues + (how == '|'),
					  .n_queues = how == '+' ? 2 : 1,
					  .front = how == '<' || how == '*',
					  .prompt = how == '^',
					  .alone = how == '*',
					  .work.subject = (uint64_t)name,
					  .granted = note },
			     .name = name };
	if (pf_sched_acquire(sched, &one->request))
		note(&one->request);
}

static void end(char name)
{
	pf_sched_release(sched, &all[(int)name].request);
}

/* Are the requests that were granted so far those of NAMES? */
static bool granted(const char *names)
{
	PF_LOCK_SCOPE(&order_lock);
	return !strcmp(order, names);
}

/* Wait for N grants; the timer's thread makes some. */
static void wait_for(size_t n)
{
	while (atomic_load(&n_granted) < n)
		usleep(1000);
}

/*
 * The words of a script: a1, and perhaps a sign: user 1 takes a; -a: a is released; /a: a
 * leaves its queue; !a: it cannot; a@2: a's position; =abc: what was granted so far; ~abc: what
 * is granted soon; ?a: a waits for the host; ;a: no longer; . a slot becomes one that is held for long;
 * #0ab|cd: the list of queue 0: a and b hold slots (?a: and a has none of another queue yet), c and d wait.
 */
static const struct {
	const char *title;
	struct pf_sched_config config;
	const char *words;
} scripts[] = {
	{ "users are served round robin",
	  { .slots = 1, .max_held = 40, .long_ms = 60000 },
	  "a1 b1 c1 d1 x2 y2 m3 =a a@0 b@1 x@2 m@3 c@4 y@5 d@6 #0a|bxmcyd -a =ab #0b|xmcyd -b =abx -x =abxm "
	  "-m =abxmc -c =abxmcy -y =abxmcyd -d z1 =abxmcydz" },
	{ "requests beyond the slots wait",
	  { .slots = 3, .max_held = 40, .long_ms = 60000 },
	  "a0 b1 c0 d1 e0 f1 =abc -b =abcd -a -c =abcdef" },
	/* The first of a user, one between, the last one; one that was granted cannot. */
	{ "a request that leaves is not granted",
	  { .slots = 1, .max_held = 40, .long_ms = 60000 },
	  "a1 b1 c1 d1 e1 f2 g2 h2 !a /b !b /d /h -b =a c@1 e@3 g@4 b1 "
	  "-a -c -f -e -g =acfegb -b" },
	{ "the only request of a user leaves",
	  { .slots = 1, .max_held = 40, .long_ms = 60000 },
	  "a1 c2 d3 e4 /d -a -c =ace" },
	/* They keep user 2 waiting no longer, but c of user 1, which was queued before; until
	 * both of user 2's slots have been held for long, too. */
	{ "a slot held for long counts against its user",
	  { .slots = 2, .max_held = 40, .long_ms = 50 },
	  "a1 b1 c1 x2 =ab ~abx y2 ~abxy c@1 . . =abxy -b ~abxyc" },
	{ "a slot that waits for the host counts against nobody",
	  { .slots = 1, .max_held = 8, .long_ms = 60000 },
	  "a1 b1 c2 =a ?a =ab -b =abc d1 ?a ;a =abc ;a -c =abc -a =abcd -d ;d" },
	{ "at most half of the slots wait so",
	  { .slots = 1, .max_held = 4, .long_ms = 60000 },
	  "a1 b1 c1 d1 ?a =ab ?b =abc ?c =abc -a =abcd -b -c -d" },
	{ "front requests precede all others",
	  { .slots = 1, .max_held = 40, .long_ms = 60000 },
	  "a1 b1 c1 x2 F1< G1< F@1 G@2 b@3 x@4 c@5 #0a|FGbxc -a -F -G -b -x -c =aFGbxc" },
	{ "prompt requests have turns of their own",
	  { .slots = 1, .max_held = 40, .long_ms = 60000 },
	  "a1 b1 p1^ x2 c1 q1^ b@1 p@2 x@3 c@4 q@5 -a -b -p -x -c =abpxcq" },
	/* S waits for a and b, and all others for S. */
	{ "an alone request blocks all others",
	  { .slots = 3, .max_held = 40, .long_ms = 60000 },
	  "a1 b1 S1* T1* c1 -a =ab -b =abS -S =abST d2 -T =abSTcd" },
	/* Each waits until the one before has held its slot for long; S does not wait for those,
	 * but all others wait for S, however long it holds its slot. */
	{ "long requests may count against nobody",
	  { .slots = 1, .max_held = 3, .long_ms = 30, .long_is_free = true },
	  "a1 b1 c1 d1 =a ~abc . =abc -b ~abcd -a S1* ~abcdS -c e2 . =abcdS -S =abcdSe" },
	/* B holds the slot of the first queue while it waits for the second, and gives it back
	 * when it leaves. */
	{ "several queues at once",
	  { .n_queues = 2, .slots = 1, .max_held = 40, .long_ms = 60000 },
	  "a1 B1+ c1| =ac #0a|B #1c| -a d2 =ac B@1 #0?B|d #1c|B -c =acB #0B|d #1B| -B "
	  "=acBd e1| -d B1+ f1 =acBde /B -B =acBdef" },
};

/* The list of the queue WORD[1], as scripts have it, in RET; the positions are those of the requests. */
static void list(const char *word, char *ret)
{
	struct pf_sched_entry entries[64];
	size_t n = pf_sched_list(sched, (unsigned)(word[1] - '0'), entries, 64);
	unsigned position = 0;

	*ret++ = '#';
	*ret++ = word[1];
	for (size_t i = 0; i < n; i++) {
		const struct one *one = &all[entries[i].work.subject];

		ck_assert_uint_eq(entries[i].user, one->request.user);
		if (entries[i].position) {
			if (!position++)
				*ret++ = '|';
			ck_assert_uint_eq(entries[i].position, position);
			ck_assert_uint_eq(pf_sched_position(sched, &one->request),
					  position);
		} else {
			ck_assert_uint_eq(position, 0);
			if (!entries[i].runs)
				*ret++ = '?';
		}
		*ret++ = one->name;
	}
	if (!position)
		*ret++ = '|';
	*ret = '\0';
}

static void play(const char *word, const char *title)
{
	bool right = true;

	if (*word == '-') {
		end(word[1]);
	} else if (*word == '/' || *word == '!') {
		right = pf_sched_dequeue(sched, &all[(int)word[1]].request) ==
			(*word == '/');
	} else if (*word == '?' || *word == ';') {
		pf_sched_wait(sched, &all[(int)word[1]].request, *word == '?' ? 1 : -1);
	} else if (*word == '.') {
		usleep(60000); /* real time: long_ms */
	} else if (*word == '=' || *word == '~') {
		if (*word == '~')
			wait_for(strlen(word + 1));
		right = granted(word + 1);
	} else if (*word == '#') {
		char found[128];

		list(word, found);
		ck_assert_msg(!strcmp(word, found), "%s, at %s: the list is %s", title,
			      word, found);
	} else if (word[1] == '@') {
		right = pf_sched_position(sched, &all[(int)*word].request) ==
			(unsigned)(word[2] - '0');
	} else {
		take(*word, (uid_t)(word[1] - '0'), word[2]);
	}
	if (!right)
		ck_abort_msg("%s, at %s: %s was granted", title, word, order);
}

TEST_EACH(requests_are_granted_in_order, scripts)
{
	struct pf_sched_config config = scripts[_i].config;
	char words[256], *save = NULL;

	if (!config.n_queues)
		config.n_queues = 1;
	open_config(&config);
	snprintf(words, sizeof(words), "%s", scripts[_i].words);
	for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		play(w, scripts[_i].title);
	}
}

/* Of more requests than fit, the first ones; times are those of the slot, of the queue, or of the first
 * part of a longer work. */
TEST(a_list_has_the_first_requests)
{
	struct pf_sched_entry entries[4];
	int64_t before = pf_now_ms();

	open_config(&one_slot);
	for (char i = 'a'; i < 'z'; i++)
		take(i, (uid_t)i % 3, 0);
	ck_assert_uint_eq(pf_sched_list(sched, 0, entries, 4), 4);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_uint_eq(entries[i].work.subject, 'a' + i);
		ck_assert_uint_eq(entries[i].position, i);
		ck_assert_int_eq(entries[i].runs, i == 0);
		ck_assert_int_ge(entries[i].since, before);
		ck_assert_int_le(entries[i].since, pf_now_ms());
	}
	ck_assert_uint_eq(pf_sched_list(sched, 0, entries, 0), 0);
	all['b'].request.work.began = 7;
	all['b'].request.work.done = 3;
	all['b'].request.work.of = 9;
	end('a');
	ck_assert_uint_eq(pf_sched_list(sched, 0, entries, 1), 1);
	ck_assert_int_eq(entries[0].since, 7);
	ck_assert_uint_eq(entries[0].work.done, 3);
	ck_assert_uint_eq(entries[0].work.of, 9);
}

/* NAME is the one request that QUEUE lists, at STAGE; of STAGE PF_STAGE_NONE: it is not there. */
static void check_alone(unsigned queue, char name, enum pf_stage stage)
{
	struct pf_sched_entry entries[2];
	size_t n = pf_sched_list(sched, queue, entries, 2);

	ck_assert_uint_eq(n, stage != PF_STAGE_NONE);
	if (!n)
		return;
	ck_assert_uint_eq(entries[0].work.subject, (uint64_t)name);
	ck_assert_int_eq(entries[0].stage, stage);
	ck_assert_uint_eq(entries[0].position, 0);
	ck_assert_int_eq(pf_sched_stage(sched, &all[(int)name].request), stage);
}

/* What is announced is listed with its first queue, and takes no slot. */
TEST(a_request_is_announced)
{
	struct pf_sched_config two = one_slot;
	struct pf_sched_request *a = &all['a'].request;
	unsigned held, queued;

	two.n_queues = 2;
	open_config(&two);
	*a = (struct pf_sched_request){
		.queues = queues,
		.n_queues = 2,
		.work = { .subject = 'a', .stage = PF_STAGE_RUNNING },
		.granted = note,
	};
	for (int i = 0; i < 2; i++) {
		pf_sched_announce(sched, a, PF_STAGE_UPLOADING);
		check_alone(0, 'a', PF_STAGE_UPLOADING);
		check_alone(1, 'a', PF_STAGE_NONE);
		pf_sched_count(sched, 0, &held, &queued);
		ck_assert_uint_eq(held + queued, 0);
		if (i == 0)
			pf_sched_release(sched, a); /* it never asks for its slots */
		else
			ck_assert(pf_sched_acquire(sched, a));
		check_alone(0, 'a', i ? PF_STAGE_RUNNING : PF_STAGE_NONE);
	}
	pf_sched_set_stage(sched, a, PF_STAGE_SAVING);
	check_alone(0, 'a', PF_STAGE_SAVING);
	check_alone(1, 'a', PF_STAGE_SAVING);
	end('a');
	pf_sched_set_stage(sched, a, PF_STAGE_SAVING); /* without effect */
	check_alone(0, 'a', PF_STAGE_NONE);
}

enum { SLOWLY_MS = 20 };

/* User 4 waits for ever, and the answer takes longer than a slot is held for long. */
static int64_t user_4_waits(void *arg, uid_t user)
{
	int64_t end = pf_now_ms() + SLOWLY_MS + 1;

	(void)arg;
	if (user != 4)
		return 0;
	while (pf_now_ms() < end)
		;
	return INT64_MAX;
}

/* B's slot becomes one that is held for long after c was found to wait, and before the timer is armed. */
TEST(time_that_passes_meanwhile_hides_no_slot)
{
	open_config(&(struct pf_sched_config){ .n_queues = 1,
					       .slots = 1,
					       .max_held = 4,
					       .long_ms = SLOWLY_MS,
					       .user_waits_until = user_4_waits });
	for (char i = 'a'; i <= 'd'; i++)
		take(i, (uid_t)(i - 'a' + 1), 0);
	wait_for(3); /* a, b and c, whoever hears of it first */
}

static _Atomic int64_t user_1_until;

static int64_t user_waits_until(void *arg, uid_t user)
{
	int64_t until = atomic_load(&user_1_until);

	ck_assert_ptr_eq(arg, &user_1_until);
	return user == 1 ? until : 0;
}

TEST(a_blocked_users_requests_wait)
{
	open_config(&(struct pf_sched_config){ .n_queues = 1,
					       .slots = 2,
					       .max_held = 2,
					       .long_ms = 60000,
					       .user_waits_until = user_waits_until,
					       .arg = &user_1_until });
	atomic_store(&user_1_until, INT64_MAX);
	take('a', 1, 0);
	take('x', 2, 0);
	take('F', 1, '<'); /* user 1's, too */
	ck_assert(granted("xF"));
	end('x');
	ck_assert(granted("xF"));
	play("a@1", "user 1 waits");
	end('F');
	take('p', 1, '^'); /* not user 1's waiting ones */
	ck_assert(granted("xFp"));
	atomic_store(&user_1_until, pf_now_ms() + 100); /* real time: it is a time */
	pf_sched_review(sched);
	wait_for(4);
	ck_assert(granted("xFpa"));
	ck_assert(pf_now_ms() >= atomic_load(&user_1_until));
	end('a');
	/* or no longer */
	atomic_store(&user_1_until, INT64_MAX);
	take('b', 1, 0);
	ck_assert(granted("xFpa"));
	atomic_store(&user_1_until, 0);
	pf_sched_review(sched);
	ck_assert(granted("xFpab"));
}

TEST(a_copy_is_released_in_place_of_its_request)
{
	struct pf_sched_request copy;

	open_config(&one_slot);
	take('a', 1, 0);
	copy = all['a'].request;
	take('a', 1, 0); /* the same request, acquired again */
	take('c', 1, 0);
	ck_assert(granted("a"));
	pf_sched_release(sched, &copy);
	ck_assert(granted("aa"));
}

/* --- many ------------------------------------------------------------------------------ */

static void release_at_once(struct pf_sched_request *request)
{
	atomic_fetch_add(&n_granted, 1);
	pf_sched_release(sched, request);
}

TEST(releases_within_granted_need_no_stack)
{
	enum { MANY = 200000 };
	struct pf_sched_request *many = calloc(MANY, sizeof(*many));

	ck_assert_ptr_nonnull(many);
	open_config(&one_slot);
	take('a', 1, 0);
	for (unsigned i = 0; i < MANY; i++) {
		many[i] = (struct pf_sched_request){ .user = i % 3,
						     .queues = queues,
						     .n_queues = 1,
						     .granted = release_at_once };
		ck_assert(!pf_sched_acquire(sched, &many[i]));
	}
	end('a');
	ck_assert_uint_eq(atomic_load(&n_granted), MANY + 1);
	free(many);
}

enum { THREADS = 12, ROUNDS = 2000, QUEUES = 4, SLOTS = 2 };

static _Atomic int running[QUEUES], most;

/* One thread's, at a time. */
struct worker {
	struct pf_sched_request request;
	unsigned queues[QUEUES];
	_Atomic bool begun;
	unsigned seed;
};

static void worker_begin(struct pf_sched_request *request)
{
	struct worker *w = pf_container_of(request, struct worker, request);

	atomic_store(&w->begun, true);
}

/* REQUEST, which runs, is in the list of its queue I, with no more than SLOTS that hold a slot. */
static void check_listed(const struct pf_sched_request *request, unsigned i)
{
	struct pf_sched_entry entries[THREADS];
	size_t n = pf_sched_list(sched, request->queues[i], entries, THREADS), held = 0;
	bool found = false;

	for (size_t k = 0; k < n; k++) {
		held += entries[k].position == 0;
		found = found || (entries[k].runs &&
				  entries[k].work.subject == request->work.subject);
	}
	ck_assert(found);
	ck_assert_uint_le(held, SLOTS);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned n = 0, mask = 1 + (unsigned)rand_r(&w->seed) % 15;

		for (unsigned d = 0; d < QUEUES; d++)
			if (mask & 1u << d)
				w->queues[n++] = d;
		w->request =
			(struct pf_sched_request){ .user = (uid_t)rand_r(&w->seed) % 3,
						   .queues = w->queues,
						   .n_queues = n,
						   .work.subject = (uint64_t)(uintptr_t)w,
						   .granted = worker_begin };
		atomic_store(&w->begun, false);
		if (!pf_sched_acquire(sched, &w->request)) {
			if (rand_r(&w->seed) % 8 == 0 &&
			    pf_sched_dequeue(sched, &w->request)) {
				pf_sched_release(sched, &w->request);
				continue;
			}
			while (!atomic_load(&w->begun))
				usleep(10);
		}
		for (unsigned i = 0; i < n; i++) {
			int now = atomic_fetch_add(&running[w->queues[i]], 1) + 1;

			if (now > atomic_load(&most))
				atomic_store(&most, now);
			check_listed(&w->request, i);
		}
		for (unsigned i = 0; i < n; i++)
			atomic_fetch_sub(&running[w->queues[i]], 1);
		pf_sched_release(sched, &w->request);
	}
	return NULL;
}

TEST(many_threads_and_queues)
{
	static struct worker workers[THREADS];
	pthread_t threads[THREADS];

	open_config(&(struct pf_sched_config){
		.n_queues = QUEUES, .slots = SLOTS, .max_held = 40, .long_ms = 60000 });
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].seed = i + 1;
		ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_int_le(atomic_load(&most), SLOTS);
	/* every slot is free again */
	for (unsigned i = 0; i < SLOTS; i++)
		take((char)('a' + i), 1, 0);
	ck_assert_uint_eq(atomic_load(&n_granted), SLOTS);
}

UNIT_FIXTURE(NULL, close_sched)
