/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two lives of a file system: a process makes files and is killed, and the test takes over its
 * journal and its memory.  Static: each test has its own.
 */
#ifndef PJRTFS_TESTS_UNIT_LIVES_FIXTURE_H
#define PJRTFS_TESTS_UNIT_LIVES_FIXTURE_H

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>

#include "fs_fixture.h"
#include "pjrtfs/shm.h"
#include "pjrtfs/state.h"

enum { PATIENCE_S = 60 };

/* The test's: make files; and print what there is. */
static void make_all(void);
static void print_all(struct pf_buf *out);

/* --- two lives ------------------------------------------------------------------------ */

/* A message of the first life to the second one; the output of print_all follows it. */
struct message {
	int state;
	unsigned n; /* of kept */
	struct {
		char name[64];
		int fd;
	} kept[8];
	size_t len;
};

static struct message message;

static inline void keep_shm(const char *name, int fd)
{
	unsigned i = message.n++;

	ck_assert_uint_lt(i, ARRAY_SIZE(message.kept));
	snprintf(message.kept[i].name, sizeof(message.kept[i].name), "%s", name);
	message.kept[i].fd = dup(fd);
}

/* A pool that is empty may be kept for longer. */
static inline void forget_shm(const char *name)
{
	(void)name;
}

static inline void first_life(int out)
{
	struct pf_buf text = PF_BUF_INIT;

	ck_assert_int_eq(pf_state_open(-1, NULL), 0);
	pf_shm_set_keeper(keep_shm, forget_shm);
	open_arena();
	pf_arena_keep(arena);
	open_fs(NULL);
	make_all();
	print_all(&text);
	message.state = pf_state_fd();
	message.len = text.len;
	if (write(out, &message, sizeof(message)) != sizeof(message) ||
	    write(out, text.data, text.len) != (ssize_t)text.len)
		_exit(1);
	pause();
}

static inline int take_fd(pid_t pid, int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static inline void read_all(int in, void *to, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = read(in, (char *)to + at, len - at);

		ck_assert_msg(n > 0, "the first life has failed");
		at += (size_t)n;
	}
}

/* The second life, of what the first has left; what that had printed is in BEFORE. */
static inline void begin_second_life(struct pf_buf *before)
{
	struct pf_restore *restore;
	struct pf_err err = PF_ERR_INIT;
	struct pf_kept kept[ARRAY_SIZE(message.kept)];
	int ends[2], state;
	char *text;
	pid_t pid;

	ck_assert_int_eq(pipe(ends), 0);
	pid = fork();
	if (!pid)
		first_life(ends[1]);
	close(ends[1]);
	read_all(ends[0], &message, sizeof(message));
	text = malloc(message.len);
	read_all(ends[0], text, message.len);
	pf_buf_append(before, text, message.len);
	free(text);
	close(ends[0]);
	state = take_fd(pid, message.state);
	for (unsigned n = 0; n < message.n; n++)
		kept[n] = (struct pf_kept){ message.kept[n].name,
					    take_fd(pid, message.kept[n].fd) };
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ck_assert_int_eq(pf_state_open(state, &err), 0);
	ck_assert_msg(pf_restore_begin(kept, message.n, FIXTURE_LIMIT, &arena, &restore,
				       &err) == 0,
		      "%s", err.text);
	for (unsigned n = 0; n < message.n; n++)
		close(kept[n].fd);
	open_fs(restore);
}

static inline void end_second_life(void)
{
	close_fs();
	pf_state_close();
}

#endif
