/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random use of buffers, by lives that end at any moment: all that was done is there in the next
 * life, byte for byte.
 */
#include "restore_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum {
	SLOTS = 24,
	LIVES = 200,      /* that are killed */
	OPS = 100,        /* of a life that ends by itself */
	OWN_LIVES = 30,   /* so many of those */
	LONGEST = 30000,  /* bytes of most buffers, */
	LARGE = 1 << 20,  /* and of few */
	KILLED_US = 6000, /* a life lasts at most so long */
};

/* The expected buffer in a slot.  In memory that the lives share. */
struct slot {
	uint64_t id; /* 0: none */
	uint64_t seed, len;
	bool committed;
	bool sized; /* a copy: its length is declared */
	bool busy;  /* an operation had begun, and not ended */
};

static struct slot *model;
static struct pf_buffer *buffers[SLOTS];
static uint64_t state_of_random;

static uint64_t number(uint64_t limit)
{
	state_of_random = state_of_random * UINT64_C(6364136223846793005) +
			  UINT64_C(1442695040888963407);
	return (state_of_random >> 24) % limit;
}

static char byte_at(uint64_t seed, uint64_t i)
{
	return (char)((seed + i) * 0x9e3779b9 >> 7);
}

/* --- operations ----------------------------------------------------------------------- */

/* Write the first LEN bytes of SEED in pieces, after what is there. */
static void fill(struct pf_buffer *b, uint64_t seed, uint64_t len)
{
	static char piece[1 << 16];

	for (uint64_t off = 0; off < len;) {
		uint64_t n = 1 + number(len > LONGEST ? sizeof(piece) : 6000);

		if (n > len - off)
			n = len - off;
		for (uint64_t i = 0; i < n; i++)
			piece[i] = byte_at(seed, off + i);
		ck_assert_int_eq(pf_buffer_write(b, piece, n, off, &err), (ssize_t)n);
		off += n;
	}
}

static void commit_it(struct pf_buffer *b)
{
	struct pf_value *v;

	ok(pf_buffer_commit(b, false, &v, &err));
	pf_value_unref(v);
}

/* Overwrite or empty what is there first, or have a new one; commit most of them. */
static void write_one(unsigned k)
{
	struct slot *s = &model[k];
	uint64_t seed = number(1 << 20);
	uint64_t len = 1 + number(number(16) ? LONGEST : LARGE);

	if (!buffers[k]) {
		buffers[k] = pf_buffer_new(&place, PF_DEFAULT_MEMORY, PF_FORMAT_RAW);
		s->id = buffers[k]->id;
	}
	if (s->sized)
		len = s->len;
	if (number(2) || len < s->len)
		ok(pf_buffer_truncate(buffers[k], 0, &err));
	fill(buffers[k], seed, len);
	s->seed = seed;
	s->len = len;
	s->committed = number(4);
	if (s->committed)
		commit_it(buffers[k]);
}

static void remove_one(unsigned k)
{
	pf_buffer_unref(pf_steal(&buffers[k]));
	model[k] = (struct slot){ .busy = true };
}

static void shorten(unsigned k)
{
	uint64_t len = 1 + number(model[k].len);

	ok(pf_buffer_truncate(buffers[k], len, &err));
	model[k].len = len;
	model[k].committed = true;
	commit_it(buffers[k]);
}

/* Slot K becomes a copy of FROM, which shares its bytes. */
static void copy_one(unsigned k, unsigned from)
{
	struct pf_snapshot snapshot;
	struct pf_value *v;

	if (!buffers[k]) {
		buffers[k] = pf_buffer_new(&place, PF_DEFAULT_MEMORY, PF_FORMAT_RAW);
		model[k].id = buffers[k]->id;
	}
	ok(pf_snapshot_open(buffers[from], PF_FORMAT_RAW, "x", &snapshot, &err));
	ck_assert(pf_buffer_take(buffers[k], &snapshot, &v));
	pf_value_unref(v);
	pf_snapshot_release(&snapshot);
	model[k].seed = model[from].seed;
	model[k].len = model[from].len;
	model[k].committed = model[k].sized = true;
}

static void do_something(void)
{
	unsigned k = (unsigned)number(SLOTS), from = (unsigned)number(SLOTS);

	model[k].busy = true;
	switch (number(5)) {
	case 0:
		if (buffers[k])
			remove_one(k);
		break;
	case 1:
		if (buffers[k] && !model[k].sized)
			shorten(k);
		break;
	case 2:
		if (from != k && buffers[from] && model[from].committed)
			copy_one(k, from);
		break;
	default:
		write_one(k);
	}
	model[k].busy = false;
}

/* --- lives ---------------------------------------------------------------------------- */

static void check_slot(const struct slot *s, struct pf_buffer *b)
{
	ck_assert_uint_eq(b->size, s->len);
	ck_assert_str_eq(pf_buffer_state_name(b), s->committed ? "ready" : "incomplete");
	for (int of_value = 0; of_value < (s->committed ? 2 : 1); of_value++) {
		const char *at =
			of_value ? pf_value_host(b->value) : pf_bytes_at(b->content, 0);

		for (uint64_t i = 0; i < s->len; i++)
			if (at[i] != byte_at(s->seed, i))
				ck_abort_msg("byte %llu of %llu is another",
					     (unsigned long long)i,
					     (unsigned long long)s->len);
	}
}

/* Find all buffers again, and compare those that were not busy. */
static void find_all(void)
{
	for (unsigned k = 0; k < SLOTS; k++) {
		struct slot *s = &model[k];
		int r = s->id ? pf_buffer_restore(restore, s->id, find_place, NULL,
						  &buffers[k], &err)
			      : -ENOENT;

		ck_assert_msg(r == 0 || (r == -ENOENT && (s->busy || !s->id)),
			      "slot %u: %s", k, err.text);
		if (r == 0 && !s->busy)
			check_slot(s, buffers[k]);
		if (r < 0)
			*s = (struct slot){ 0 };
	}
	end_restore();
	for (unsigned k = 0; k < SLOTS; k++)
		if (model[k].busy) {
			if (buffers[k])
				remove_one(k);
			model[k].busy = false;
		}
}

static void forget_all(void)
{
	for (unsigned k = 0; k < SLOTS; k++)
		pf_buffer_unref(pf_steal(&buffers[k]));
}

static void share_model(void)
{
	model = mmap(NULL, SLOTS * sizeof(*model), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(model, MAP_FAILED);
}

TEST_TIMES(random_use_goes_on_after_restarts, 4)
{
	uint64_t before;

	state_of_random = (uint64_t)_i + 1;
	share_model();
	begin();
	for (int life = 0; life < OWN_LIVES; life++) {
		for (int i = 0; i < OPS; i++)
			do_something();
		before = used();
		next_life(forget_all);
		find_all();
		ck_assert_uint_eq(used(), before);
	}
	forget_all();
	end_life();
}

#ifndef __SANITIZE_THREAD__ /* which supports no threads after fork(2) */
static int state_fd, arena_fd;

/* One life in this process, which does not end by itself unless it is the LAST. */
static void live(bool last)
{
	const struct pf_kept kept = { "arena", arena_fd };

	ok(pf_state_open(dup(state_fd), &err));
	ok(pf_restore_begin(&kept, 1, LIMIT, &arena, &restore, &err));
	place.arena = arena;
	find_all();
	while (!last)
		do_something();
	forget_all();
	end_life();
}

/* Each assertion appends to a file that Check reads in the end.  A process that is killed may write
 * a part of that only, so a life writes to /dev/null; if an assertion fails, it exits with 1. */
static void leave_check(void)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	for (int fd = STDERR_FILENO + 1; fd < 64; fd++)
		if (fd != state_fd && fd != arena_fd)
			dup2(null, fd);
}

/* Another process lives until it is killed; it does not return. */
static void live_and_die(int life)
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		state_of_random = (uint64_t)life;
		leave_check();
		live(false);
	}
	usleep((useconds_t)number(KILLED_US)); /* real time: it is killed at any moment */
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFSIGNALED(status), "life %d exited with status %d", life,
		      WEXITSTATUS(status));
}

TEST(what_was_done_before_a_kill_is_there)
{
	share_model();
	begin();
	state_fd = dup(pf_state_fd());
	arena_fd = dup(pf_arena_own_fd(arena));
	/* No thread is left when this forks. */
	pf_state_close();
	pf_arena_free(arena);
	for (int life = 1; life <= LIVES; life++)
		live_and_die(life);
	live(true);
	close(state_fd);
	close(arena_fd);
}
#endif
