/* SPDX-License-Identifier: Apache-2.0 */
/* Control files with late answers: waits, interrupts, several threads. */
#include <unistd.h>

#include "ctl_fixture.h"

TEST(a_write_and_a_read_wait)
{
	struct pf_open *of = open_file("later", O_RDWR);
	struct answer w, r1, r2;

	pf_vfs_write(of, "a\nb\n", 4, 0, answer_begin(&w));
	ck_assert(!answer_is_sent(&w));
	ck_assert_str_eq(running->text, "a");
	pf_vfs_read(of, 100, 0, answer_begin(&r1));
	pf_vfs_read(of, 100, 0, answer_begin(&r2));
	ck_assert(!answer_is_sent(&r1));
	finish(0, "A");
	ck_assert_int_eq(answer_take(&r1), 2);
	ck_assert(!answer_is_sent(&w) && !answer_is_sent(&r2));
	ck_assert_str_eq(running->text, "b");
	finish(-EIO, "B");
	ck_assert_int_eq(answer_take(&w), 4);
	ck_assert_int_eq(answer_wait(&r2), 2);
	ck_assert_str_eq(r2.data.data, "B\n");
	answer_end(&r2);
	pf_vfs_release(of);
}

TEST(nonblocking_reads_do_not_wait)
{
	struct pf_open *of = open_file("later", O_RDWR | O_NONBLOCK);
	struct answer w, r;

	pf_vfs_write(of, "a\n", 2, 0, answer_begin(&w));
	pf_vfs_read(of, 100, 0, answer_begin(&r));
	ck_assert_int_eq(answer_take(&r), -EAGAIN);
	finish(0, "A");
	ck_assert_int_eq(answer_take(&w), 2);
	expect_line(of, "A");
	pf_vfs_release(of);
}

/* Like a front end, keep a reference while interrupts are possible. */
static struct pf_reply *begin_held(struct answer *a)
{
	return pf_reply_ref(answer_begin(a));
}

static void interrupt(struct answer *a)
{
	pf_reply_interrupt(&a->reply);
	pf_reply_unref(&a->reply);
}

/* Begin the write of TEXT anew, by the thread PID. */
static void write_as(struct pf_open *of, pid_t pid, const char *text, struct answer *w)
{
	struct pf_reply *reply = begin_held(w);

	reply->pid = pid;
	pf_vfs_write(of, text, strlen(text), 0, reply);
}

static void expect_interrupted(struct answer *w, ssize_t count)
{
	interrupt(w);
	ck_assert_int_eq(answer_take(w), count);
}

/* The count is of the commands that are done: a caller that writes the rest runs each once. */
TEST(an_interrupted_write_drops_commands_that_have_not_begun)
{
	struct pf_open *of = open_file("later", O_RDWR);
	struct answer w, r;

	write_as(of, 1, "z\na\nb\nc", &w);
	finish(0, "Z");
	expect_interrupted(&w, 2);
	ck_assert(!running->cancelled);
	expect_line(of, "Z");
	pf_vfs_read(of, 100, 0, answer_begin(&r));
	ck_assert(!answer_is_sent(&r));
	finish(0, "A");
	ck_assert_int_eq(answer_take(&r), 2);
	ck_assert_ptr_null(running);
	ck_assert_int_eq(ran, 2);

	/* The session continues, without the c of the interrupted write. */
	write_as(of, 1, "d\n", &w);
	ck_assert_str_eq(running->text, "d");
	finish(0, "D");
	pf_reply_unref(&w.reply);
	ck_assert_int_eq(answer_take(&w), 2);
	pf_vfs_release(of);
}

/* Of a JSON command, too, the newline is done with it: a caller that counts bytes of commands finds whole
 * ones. */
TEST(an_interrupted_write_ends_behind_a_newline)
{
	struct pf_open *of = open_file("later.json", O_RDWR);
	struct answer w;

	write_as(of, 1, "{} \n{}\n", &w);
	finish(0, "A");
	expect_interrupted(&w, 4);
	finish(0, "B");
	pf_vfs_release(of);
}

static const struct {
	bool before; /* the command ends before it is written again */
	int flags, code;
} repeated[] = {
	{ false, O_RDWR, 0 },      { true, O_RDWR, 0 },      { false, O_WRONLY, 0 },
	{ false, O_WRONLY, -EIO }, { true, O_WRONLY, -EIO },
};

/* A command that is written again after EINTR is waited for, and does not run twice. */
TEST_EACH(an_interrupted_write_can_be_repeated, repeated)
{
	struct pf_open *of = open_file("later", repeated[_i].flags);
	int want = repeated[_i].code ? repeated[_i].code : 4;
	struct answer w;

	pf_vfs_write(of, "a", 1, 0, answer_begin(&w));
	ck_assert_int_eq(answer_take(&w), 1);
	write_as(of, 1, "b\nc\n", &w);
	expect_interrupted(&w, -EINTR);
	if (!repeated[_i].before) {
		write_as(of, 1, "b\nc\n", &w);
		expect_interrupted(&w, -EINTR);
		write_as(of, 1, "b\nc\n", &w);
		ck_assert(!answer_is_sent(&w));
	}
	finish(repeated[_i].code, "A");
	if (repeated[_i].before)
		write_as(of, 1, "b\nc\n", &w);
	if (!repeated[_i].code) {
		ck_assert_str_eq(running->text, "c");
		finish(0, "C");
	}
	pf_reply_unref(&w.reply);
	ck_assert_int_eq(answer_take(&w), want);
	ck_assert_int_eq(ran, repeated[_i].code ? 1 : 2);
	pf_vfs_release(of);
}

/* A write of another thread does not count as a repetition, nor does another command, nor the one after next. */
TEST(what_is_no_repetition_runs)
{
	struct pf_open *of = open_file("later", O_WRONLY);
	struct answer w;
	static const struct {
		pid_t pid;
		const char *text;
	} writes[] = { { 2, "a\n" }, { 1, "b\n" }, { 1, "a\n" } };

	write_as(of, 1, "a\n", &w);
	expect_interrupted(&w, -EINTR);
	finish(0, "A");
	for (unsigned i = 0; i < ARRAY_SIZE(writes); i++) {
		write_as(of, writes[i].pid, writes[i].text, &w);
		finish(0, "A");
		pf_reply_unref(&w.reply);
		ck_assert_int_eq(answer_take(&w), 2);
	}
	ck_assert_int_eq(ran, 4);
	pf_vfs_release(of);
}

TEST(an_interrupted_read_loses_no_reply)
{
	struct pf_open *of = open_file("later", O_RDWR);
	struct answer w, r1, r2;

	pf_vfs_write(of, "a\n", 2, 0, answer_begin(&w));
	pf_vfs_read(of, 100, 0, begin_held(&r1));
	pf_vfs_read(of, 100, 0, answer_begin(&r2));
	interrupt(&r1);
	ck_assert_int_eq(answer_take(&r1), -EINTR);
	finish(0, "A");
	ck_assert_int_eq(answer_take(&r2), 2);
	ck_assert_int_eq(answer_take(&w), 2);
	pf_vfs_release(of);
}

TEST(a_request_interrupted_on_arrival_runs_no_command)
{
	struct pf_open *of = open_file("later", O_RDWR);
	struct answer w;
	struct pf_reply *reply = begin_held(&w);

	pf_reply_interrupt(reply);
	pf_vfs_write(of, "a\n", 2, 0, reply);
	pf_reply_unref(reply);
	ck_assert_int_eq(answer_take(&w), -EINTR);
	ck_assert_int_eq(ran, 0);
	pf_vfs_release(of);
}

TEST(a_closed_control_is_freed_after_its_last_command)
{
	struct pf_open *of = open_file("later", O_WRONLY);
	struct answer w;

	pf_vfs_write(of, "a\nb\n", 4, 0, begin_held(&w));
	interrupt(&w);
	ck_assert_int_eq(answer_take(&w), -EINTR);
	ck_assert(!running->cancelled);
	pf_vfs_release(of);
	ck_assert(running->cancelled);
	finish(0, "A");
	ck_assert_int_eq(ran, 1);
	expect_last("later", 1, 1, "A\n");
}

TEST(two_writers_of_one_open_are_serialized)
{
	struct pf_open *of = open_file("later", O_WRONLY);
	struct answer w1, w2;

	pf_vfs_write(of, "a\n", 2, 0, answer_begin(&w1));
	pf_vfs_write(of, "b\n", 2, 0, answer_begin(&w2));
	ck_assert_str_eq(running->text, "a");
	finish(-EIO, "A");
	ck_assert_int_eq(answer_take(&w1), -EIO);
	ck_assert_int_eq(answer_take(&w2), -EIO);
	ck_assert_int_eq(ran, 1);
	pf_vfs_release(of);
}

enum { STRESS = 500 };
static struct pf_open *shared;

/* Write, like most programs, what an interrupted write has not taken: each command runs once. */
static void write_all(struct pf_open *of, unsigned *seed)
{
	static const char text[] = "a\nb\nc\n";
	size_t done = 0;
	struct answer w;

	while (done < sizeof(text) - 1) {
		write_as(of, (pid_t)pthread_self(), text + done, &w);
		if (rand_r(seed) % 4 == 0)
			interrupt(&w);
		else
			pf_reply_unref(&w.reply);
		ck_assert(answer_wait(&w) > 0 || w.code == -EINTR);
		if (w.code == 0)
			done += (size_t)answer_wait(&w);
		ck_assert_int_eq(w.sent, 1);
		answer_end(&w);
	}
}

/* Some use a session that is shared, some their own; some writes and reads are interrupted. */
static void *stress(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < STRESS; i++) {
		struct pf_open *of =
			rand_r(&seed) % 2 ? shared : open_file("aside", O_RDWR);
		struct answer r;

		write_all(of, &seed);
		pf_vfs_read(of, 100, 0, begin_held(&r));
		if (rand_r(&seed) % 4 == 0)
			interrupt(&r);
		else
			pf_reply_unref(&r.reply);
		ck_assert(answer_wait(&r) <= 2);
		ck_assert_int_eq(r.sent, 1);
		answer_end(&r);
		if (of != shared)
			pf_vfs_release(of);
	}
	return NULL;
}

TEST(many_threads_use_one_control)
{
	pthread_t threads[4];

	shared = open_file("aside", O_RDWR);
	for (uintptr_t i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, stress,
						(void *)(i + 1)),
				 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	pf_vfs_release(shared);
	/* Commands of interrupted writes may be under way still; teardown counts nodes only. */
	while (__atomic_load_n(&under_way, __ATOMIC_SEQ_CST))
		usleep(1000);
	ck_assert_int_eq(__atomic_load_n(&ran, __ATOMIC_SEQ_CST), 4 * STRESS * 3);
}

UNIT_FIXTURE(setup, teardown)
