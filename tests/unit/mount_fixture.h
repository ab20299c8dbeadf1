/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of toys behind a real mount.  Static: each test has its own. */
#ifndef PJRTFS_TESTS_UNIT_MOUNT_FIXTURE_H
#define PJRTFS_TESTS_UNIT_MOUNT_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pjrtfs/fuse.h"
#include "pjrtfs/kind.h"
#include "unit.h"

static char point[] = "/tmp/pjrtfs-check-XXXXXX"; /* the mount point */
static struct pf_tree *tree;
static struct pf_mount *mount;
static pthread_t server;

static void *serve(void *arg)
{
	(void)arg;
	pf_mount_run(mount, NULL);
	return NULL;
}

/* Mount a tree whose root is of KIND, not served yet.  pf_mount_new's result. */
static int mount_begin(const struct pf_kind *kind)
{
	struct pf_mount_config config = { .mountpoint = point,
					  .source = "toys",
					  .device = -1 };

	strcpy(point, "/tmp/pjrtfs-check-XXXXXX");
	if (!mkdtemp(point))
		return -errno;
	tree = pf_tree_new(kind, NULL, getuid(), getgid());
	config.tree = tree;
	return pf_mount_new(&config, &mount, NULL);
}

static void mount_end(void)
{
	pf_mount_free(mount);
	pf_tree_free(tree);
	rmdir(point);
}

static void mount_setup(const struct pf_kind *kind)
{
	ck_assert_int_eq(mount_begin(kind), 0);
	ck_assert_int_eq(pthread_create(&server, NULL, serve, NULL), 0);
}

static void mount_teardown(void)
{
	pf_mount_stop(mount);
	pthread_join(server, NULL);
	mount_end();
}

/* --- the process that uses the mount: this one has to answer its requests ------------ */

enum { PATIENCE_S = 20 };

static inline int open_in(const char *name, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", point, name);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		_exit(100);
	return fd;
}

/* Another process uses the mount: this one has to answer its requests. */
static inline pid_t start(void (*fn)(int go, int done), int *go, int *done)
{
	int there[2], back[2], in, out;
	pid_t pid;

	ck_assert_int_eq(pipe(there), 0);
	ck_assert_int_eq(pipe(back), 0);
	pid = fork();
	if (pid == 0) {
		alarm(PATIENCE_S);
		signal(SIGBUS, SIG_DFL); /* a sanitizer would report it, and exit */
		/* A process that has the connection open too would wait for itself at the end. */
		in = dup(there[0]);
		out = dup(back[1]);
		if (in < 0 || out < 0 || close_range(3, (unsigned)in - 1, 0) ||
		    (out > in + 1 &&
		     close_range((unsigned)in + 1, (unsigned)out - 1, 0)) ||
		    close_range((unsigned)out + 1, ~0U, 0))
			_exit(104);
		fn(in, out);
		_exit(0);
	}
	close(there[0]);
	close(back[1]);
	*go = there[1];
	*done = back[0];
	return pid;
}

static inline void step(int fd)
{
	if (write(fd, "", 1) != 1)
		_exit(102);
}

static inline void await(int fd)
{
	char c;

	if (read(fd, &c, 1) != 1)
		_exit(103);
}

static inline int end(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

/* The same in the process that answers: if the other one has ended, report its status. */
static inline void await_from(pid_t pid, int fd)
{
	char c;

	if (read(fd, &c, 1) != 1)
		ck_abort_msg("the other process ended with status 0x%x", end(pid));
}

static inline void expect(bool ok, int code)
{
	if (!ok)
		_exit(code);
}

static const char *why_not_mounted(void)
{
	static const struct pf_kind empty = { .mode = S_IFDIR | 0755 };
	int r = mount_begin(&empty);

	mount_end();
	return r < 0 ? "nothing can be mounted here" : NULL;
}

UNIT_NEEDS(why_not_mounted)

#endif
