/* SPDX-License-Identifier: Apache-2.0 */
/* poll(2) on a file behind a real mount; tests/tools/events.py has select(2) and epoll(7). */
#define FUSE_USE_VERSION 314
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mount_fixture.h"
#include "pjrtfs/vfs.h"

static _Atomic bool done;
static _Atomic unsigned polls; /* requests of the kernel, each before its caller sleeps */

static int state_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)node;
	(void)err;
	pf_buf_puts(out, done ? "done\n" : "running\n");
	return 0;
}

static short state_poll(struct pf_open *of)
{
	(void)of;
	polls++;
	return done ? POLLIN : 0;
}

static const struct pf_kind state = {
	.name = "state", .mode = S_IFREG | 0444, .show = state_show, .poll = state_poll
};
static const struct pf_kind plain = { .name = "plain",
				      .mode = S_IFREG | 0444,
				      .show = state_show };
static const struct pf_kind root = {
	.mode = S_IFDIR | 0755,
	.children = (const struct pf_kind *const[]){ &state, &plain, NULL },
};

static void setup(void)
{
	done = false;
	polls = 0;
	mount_setup(&root);
}

/* Wait up to MS (-1: for ever) for FD to be readable: how many are. */
static int by_poll(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms);
}

/* Another process uses the mount: this one has to answer its requests. */
static void use(int go)
{
	int fd = open_in("state", O_RDONLY), other = open_in("plain", O_RDONLY),
	    twin = dup(fd);
	char text[16] = "";

	alarm(PATIENCE_S);
	expect(fd >= 0 && other >= 0, 1);
	expect(pread(fd, text, sizeof(text), 0) == 8 && !strcmp(text, "running\n"), 2);
	expect(by_poll(other, 0) == 1, 3);
	expect(by_poll(fd, 0) == 0, 4);
	expect(by_poll(fd, 50) == 0, 5);
	expect(write(go, "", 1) == 1 && read(go, text, 1) == 1, 6);
	expect(by_poll(fd, -1) == 1, 7);
	expect(by_poll(twin, 0) == 1, 8);
	memset(text, 0, sizeof(text));
	expect(pread(fd, text, sizeof(text), 0) == 5 && !strcmp(text, "done\n"), 9);
	_exit(0);
}

/* Wait for another poll than the first N. */
static void await_poll(unsigned n)
{
	while (polls <= n)
		usleep(1000);
}

/* Let the other process go on to its poll without end. */
static void await_sleep(int go)
{
	unsigned n;
	char c;

	ck_assert_int_eq(read(go, &c, 1), 1);
	n = polls;
	ck_assert_int_eq(write(go, "", 1), 1);
	await_poll(n);
}

TEST(an_event_wakes_a_polling_process)
{
	struct pf_node *node = pf_dir_lookup(pf_tree_root(tree), "state");
	int go[2], status;
	unsigned n;
	pid_t pid;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, go), 0);
	pid = fork();
	if (pid == 0)
		use(go[1]);
	await_sleep(go[0]);
	n = polls;
	pf_node_ready(node); /* wakes the process without an event: it polls again */
	await_poll(n);
	done = true;
	pf_node_ready(node);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	pf_node_unref(node);
}

/* A caller that sleeps when the mount ends: no leak, no crash. */
TEST(unmounting_wakes_a_polling_process)
{
	int go[2];
	pid_t pid;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, go), 0);
	pid = fork();
	if (pid == 0) {
		char c;
		int fd;

		/* The mount ends when no process has its device open: close it here, too. */
		dup2(go[1], 1);
		close_range(3, ~0U, 0);
		alarm(PATIENCE_S);
		fd = open_in("state", O_RDONLY);
		by_poll(fd, 0);
		if (write(1, "", 1) == 1 && read(1, &c, 1) == 1)
			by_poll(fd, -1);
		_exit(0);
	}
	await_sleep(go[0]);
	mount_teardown();
	waitpid(pid, NULL, 0);
	setup(); /* what the fixture takes down */
}

UNIT_FIXTURE(setup, mount_teardown)
