/* SPDX-License-Identifier: Apache-2.0 */
/* Control files whose commands run at once, when the test says, or in another thread. */
#ifndef PJRTFS_TESTS_UNIT_CTL_FIXTURE_H
#define PJRTFS_TESTS_UNIT_CTL_FIXTURE_H

#include <stdio.h>

#include "pjrtfs/kind.h"
#include "pjrtfs/stream.h"
#include "pjrtfs/tree.h"
#include "pjrtfs/vfs.h"
#include "pjrtfs/wait.h"
#include "unit.h"
#include "vfs_driver.h"

static struct pf_tree *tree;
static int ran;

/* Answer COMMAND with CODE and LINE, which is also the sentence of a failure. */
static inline void done(struct pf_command *command, int code, const char *line)
{
	struct pf_err err = PF_ERR_INIT;

	if (code < 0)
		pf_err_set(&err, code, "%s", line);
	pf_command_done(command, code < 0 ? &err : NULL, line, strlen(line));
}

/* The command's own text is its reply; one that holds "fail" fails with ENOENT. */
static inline void run_now(struct pf_command *command)
{
	int code = strstr(command->text, "fail") ? -ENOENT : 0;

	/* No lock is held, so that a read can run meanwhile. */
	ck_assert_int_eq(pthread_mutex_trylock(&command->of->lock), 0);
	pthread_mutex_unlock(&command->of->lock);
	ran++;
	ck_assert_uint_eq(strlen(command->text), command->len);
	done(command, code, command->text);
}

/* Commands that the test finishes. */
static struct pf_command *running;

static inline void run_later(struct pf_command *command)
{
	ran++;
	ck_assert_ptr_null(running);
	running = command;
}

static inline void finish(int code, const char *line)
{
	struct pf_command *command = running;

	ck_assert_ptr_nonnull(command);
	running = NULL;
	done(command, code, line);
}

static const struct pf_kind json = { .name = "json",
				     .mode = S_IFREG | 0666,
				     PF_CONTROL,
				     .command = run_now,
				     .json = true };

static const struct pf_kind lines = {
	.name = "lines", .mode = S_IFREG | 0666, PF_CONTROL, .command = run_now
};
static const struct pf_kind later = {
	.name = "later", .mode = S_IFREG | 0666, PF_CONTROL, .command = run_later
};
static const struct pf_kind later_json = { .name = "later.json",
					   .mode = S_IFREG | 0666,
					   PF_CONTROL,
					   .command = run_later,
					   .json = true };
/* Commands that another thread finishes soon. */
static int under_way;

static inline void *finish_soon(void *arg)
{
	struct pf_command *command = arg;
	bool cancelled = command->cancelled;

	done(command, cancelled ? -ECANCELED : 0, command->text);
	__atomic_sub_fetch(&under_way, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static inline void run_aside(struct pf_command *command)
{
	pthread_attr_t attr;
	pthread_t thread;

	__atomic_add_fetch(&under_way, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&ran, 1, __ATOMIC_SEQ_CST);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, finish_soon, command))
		finish_soon(command);
	pthread_attr_destroy(&attr);
}

static const struct pf_kind aside = {
	.name = "aside", .mode = S_IFREG | 0666, PF_CONTROL, .command = run_aside
};
static const struct pf_kind root = {
	.mode = S_IFDIR | 0755,
	.children = (const struct pf_kind *const[]){ &json, &lines, &later, &later_json,
						     &aside, NULL },
};

static inline void setup(void)
{
	ran = 0;
	running = NULL;
	tree = pf_tree_new(&root, NULL, 0, 0);
	ck_assert_ptr_nonnull(tree);
}

static inline void teardown(void)
{
	ck_assert(pf_turns_await(60000)); /* a thread that has answered may hold a node */
	/* The root and the listed nodes remain: no open is left, no node leaks. */
	ck_assert_uint_eq(pf_tree_count(tree), 6);
	pf_tree_free(tree);
}

static inline struct pf_open *open_as(const char *name, int flags, uid_t uid, pid_t sid)
{
	struct pf_cred cred = { .uid = uid, .sid = sid };
	struct pf_open *of = NULL;

	ck_assert_int_eq(open_by(tree, look_in(tree, 1, name).st_ino, flags, &cred, &of),
			 0);
	ck_assert_ptr_nonnull(of);
	return of;
}

static inline struct pf_open *open_file(const char *name, int flags)
{
	return open_as(name, flags, 1, 1);
}

static inline void expect_read(struct pf_open *of, size_t len, const char *want)
{
	expect_read_by(pf_vfs_read, of, len, 0, want);
}

static inline void expect_line(struct pf_open *of, const char *want)
{
	char line[4096];

	snprintf(line, sizeof(line), "%s\n", want);
	expect_read(of, 65536, line);
}

static inline void expect_last(const char *name, uid_t uid, pid_t sid, const char *want)
{
	struct pf_open *of = open_as(name, O_RDONLY, uid, sid);

	expect_read(of, 4096, want);
	expect_read(of, 4096, "");
	pf_vfs_release(of);
}

#endif
