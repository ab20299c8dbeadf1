/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of toys behind a real mount: mappings, attributes by name, invalidated caches, poll(2). */
#define FUSE_USE_VERSION 314
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "pjrtfs/fuse.h"
#include "pjrtfs/kind.h"
#include "pjrtfs/stream.h"
#include "pjrtfs/tree.h"
#include "pjrtfs/vfs.h"
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

static void teardown(void)
{
	pf_mount_stop(mount);
	pthread_join(server, NULL);
	mount_end();
}

/* --- the process that uses the mount: this one has to answer its requests ------------ */

enum { PATIENCE_S = 20 };

static int open_in(const char *name, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", point, name);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		_exit(100);
	return fd;
}

static pid_t other;              /* 0 in itself */
static int from_other, to_other; /* pipes between the two processes */

/* Let another process use the mount, by FN. */
static void start(void (*fn)(void))
{
	int there[2], back[2], in, out;

	ck_assert_int_eq(pipe(there), 0);
	ck_assert_int_eq(pipe(back), 0);
	other = fork();
	if (other == 0) {
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
		from_other = in;
		to_other = out;
		fn();
		_exit(0);
	}
	close(there[0]);
	close(back[1]);
	to_other = there[1];
	from_other = back[0];
}

static void step(void)
{
	if (write(to_other, "", 1) != 1)
		_exit(102);
}

/* The status with which the other process ends. */
static int end(void)
{
	int status;

	ck_assert_int_eq(waitpid(other, &status, 0), other);
	return status;
}

static void await(void)
{
	char c;

	if (read(from_other, &c, 1) == 1)
		return;
	if (!other)
		_exit(103);
	ck_abort_msg("the other process ended with status 0x%x", end());
}

static void expect(bool ok, int code)
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

/* --- the toys ------------------------------------------------------------------------ */

enum { SIZE = 3 * 4096 + 100 };

static char content[SIZE];                               /* of the file */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of content */
static _Atomic int flushes, fsyncs;
static _Atomic bool parking;       /* reads wait for ever */
static struct pf_reply *parked[8]; /* the kernel requests an unread page again */
static _Atomic unsigned n_parked;

static void file_read(struct pf_open *of, size_t len, uint64_t off,
		      struct pf_reply *reply)
{
	size_t left = off < SIZE ? SIZE - off : 0;

	(void)of;
	PF_LOCK_SCOPE(&lock);
	if (parking && n_parked < ARRAY_SIZE(parked))
		parked[n_parked++] = reply;
	else
		pf_reply_data(reply, content + off, left < len ? left : len);
}

static ssize_t file_write(struct pf_open *of, const void *src, size_t len, uint64_t off,
			  struct pf_err *err)
{
	(void)of;
	PF_LOCK_SCOPE(&lock);
	if (off >= SIZE || len > SIZE - off)
		return pf_err_set(err, -EFBIG, "too much");
	memcpy(content + off, src, len);
	return (ssize_t)len;
}

static void file_commit(struct pf_open *of, enum pf_commit why, struct pf_reply *reply)
{
	(void)of;
	atomic_fetch_add(why == PF_COMMIT_FLUSH ? &flushes : &fsyncs, 1);
	pf_reply_code(reply, 0);
}

static void file_getattr(struct pf_node *node, struct stat *st)
{
	(void)node;
	st->st_size = SIZE;
}

static ssize_t file_copy(struct pf_open *of, uint64_t off, struct pf_open *from,
			 uint64_t from_off, size_t len, struct pf_err *err)
{
	(void)of;
	(void)from;
	(void)err;
	PF_LOCK_SCOPE(&lock);
	memmove(content + off, content + from_off, len);
	return (ssize_t)len;
}

static int file_get_xattr(struct pf_node *node, const char *name, struct pf_buf *out,
			  struct pf_err *err)
{
	(void)node;
	if (strcmp(name, "user.dtype"))
		return pf_err_set(err, -ENODATA, "no %s", name);
	pf_buf_puts(out, "F32");
	return 0;
}

static int file_list_xattr(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)node;
	(void)err;
	pf_buf_append(out, "user.dtype", sizeof("user.dtype"));
	return 0;
}

static void command(struct pf_command *command)
{
	pf_command_done(command, NULL, "done", 4);
}

static _Atomic bool ready;
static _Atomic unsigned polls; /* requests of the kernel, each before its caller sleeps */

static int state_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)node;
	(void)err;
	pf_buf_puts(out, ready ? "done\n" : "running\n");
	return 0;
}

static short state_poll(struct pf_open *of)
{
	(void)of;
	polls++;
	return ready ? POLLIN : 0;
}

static const struct pf_kind state = {
	.name = "state", .mode = S_IFREG | 0444, .show = state_show, .poll = state_poll
};
static const struct pf_kind plain = { .name = "plain",
				      .mode = S_IFREG | 0444,
				      .show = state_show };
static const struct pf_kind file = {
	.name = "file",
	.mode = S_IFREG | 0666,
	.read = file_read,
	.write = file_write,
	.commit = file_commit,
	.getattr = file_getattr,
	.copy = file_copy,
	.get_xattr = file_get_xattr,
	.list_xattr = file_list_xattr,
};
static const struct pf_kind control = {
	.name = "control", .mode = S_IFREG | 0666, PF_CONTROL, .command = command
};
static const struct pf_kind dir = { .name = "dir", .mode = S_IFDIR | 0755 };
static const struct pf_kind root = {
	.mode = S_IFDIR | 0755,
	.children = (const struct pf_kind *const[]){ &file, &control, &dir, &state,
						     &plain, NULL },
};

static void setup(void)
{
	memset(content, 'a', SIZE);
	flushes = fsyncs = 0;
	parking = ready = false;
	polls = 0;
	ck_assert_int_eq(mount_begin(&root), 0);
	ck_assert_int_eq(pthread_create(&server, NULL, serve, NULL), 0);
}

static char *map_file(int flags, int *fd)
{
	char *p;

	*fd = open_in("file", flags);
	p = mmap(NULL, SIZE, flags == O_RDWR ? PROT_READ | PROT_WRITE : PROT_READ,
		 MAP_SHARED, *fd, 0);
	if (p == MAP_FAILED)
		_exit(101);
	return p;
}

static void write_mapped(void)
{
	int fd;
	char *p = map_file(O_RDWR, &fd);

	expect(p[SIZE - 1] == 'a', 1);
	p[0] = 'b';
	expect(msync(p, SIZE, MS_SYNC) == 0, 2);
	step();
	await();
	close(fd);
	p[SIZE - 1] = 'c';
	expect(munmap(p, SIZE) == 0, 3);
}

/* Files that are read directly can be mapped since Linux 6.6. */
static bool has_mappings(void)
{
	struct utsname system;
	int major = 0, minor = 0;

	uname(&system);
	return sscanf(system.release, "%d.%d", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 6));
}

TEST(a_mapping_writes_the_file)
{
	if (!has_mappings())
		return;
	start(write_mapped);
	await();
	pf_lock(&lock);
	ck_assert_int_eq(content[0], 'b');
	ck_assert_int_eq(fsyncs, 1);
	ck_assert_int_eq(flushes, 0);
	pf_unlock(&lock);
	step();
	ck_assert_int_eq(end(), 0);
	/* RELEASE is sent before munmap returns, and answered soon. */
	for (int i = 0; i < PATIENCE_S * 100 && flushes < 2; i++)
		usleep(10000);
	pf_lock(&lock);
	ck_assert_int_eq(content[SIZE - 1], 'c');
	ck_assert_int_eq(content[4096], 'a');
	ck_assert_int_eq(flushes, 2); /* close and what came after it */
	pf_unlock(&lock);
}

static void watch(void)
{
	int fd;
	const volatile char *p = map_file(O_RDONLY, &fd);

	expect(p[0] == 'a', 1);
	step();
	await();
	while (p[0] != 'z')
		usleep(1000);
}

TEST(a_mapping_shows_changes_of_the_file)
{
	struct pf_node *node = pf_dir_lookup(pf_tree_root(tree), "file");

	if (!has_mappings())
		return;
	start(watch);
	await();
	pf_lock(&lock);
	content[0] = 'z';
	pf_unlock(&lock);
	pf_node_changed(node, true);
	pf_node_changed(node, false);
	step();
	ck_assert_int_eq(end(), 0);
	pf_node_unref(node);
}

enum { STEPS = 200 };

static void look(void)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "%s/dir", point);
	for (unsigned i = 0; i < STEPS; i++) {
		expect(stat(path, &st) == 0, 1);
		expect(st.st_nlink == 2 + i, 2);
		step();
		await();
	}
}

static void link_dir(struct pf_node *in, int number)
{
	struct pf_node *node = pf_node_new(tree, &dir, NULL, (mode_t)-1, NULL);
	char name[16];

	snprintf(name, sizeof(name), "%d", number);
	ck_assert_int_eq(pf_dir_link(in, name, node, true), 0);
	pf_node_unref(node);
}

/* However long the kernel keeps them, a directory's attributes are never old. */
TEST(a_listing_has_exactly_the_linked_names)
{
	struct pf_node *in = pf_dir_lookup(pf_tree_root(tree), "dir");

	start(look);
	for (int i = 0; i < STEPS; i++) {
		await();
		link_dir(in, i);
		step();
	}
	ck_assert_int_eq(end(), 0);
	pf_node_unref(in);
}

static void fault(void)
{
	int fd;
	const volatile char *p = map_file(O_RDONLY, &fd);

	step();
	expect(p[0] == 'a', 1);
}

/* A page is being read for ever, the kernel waits for it to drop it, and all must end. */
TEST(stopping_waits_for_no_page)
{
	struct pf_node *node = pf_dir_lookup(pf_tree_root(tree), "file");
	bool waits = false;
	if (!has_mappings())
		return;
	parking = true;
	start(fault);
	await();
	while (!waits) {
		usleep(1000);
		PF_LOCK_SCOPE(&lock);
		waits = n_parked > 0;
	}
	pf_node_changed(node, true);
	pf_node_unref(node);
	usleep(20000); /* real time: the kernel is being told by now, or not yet */
	pf_mount_stop(mount);
	pthread_join(server, NULL);
	while (n_parked)
		pf_reply_code(parked[--n_parked], -EIO);
	/* No process answers its last FLUSH: it ends with the connection. */
	pf_mount_free(mount);
	ck_assert_int_eq(WTERMSIG(end()), SIGBUS);
	pf_tree_free(tree);
	setup(); /* for teardown */
}

static void touch_control(void)
{
	int fd = open_in("control", O_RDWR);
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), reply[8];

	expect(p != MAP_FAILED, 1);
	expect(write(fd, "x\n", 2) == 2, 2);
	expect(read(fd, reply, 8) == 5 && !memcmp(reply, "done\n", 5), 3);
	p[0] = 'x'; /* that page does not exist */
}

TEST(a_control_file_has_no_pages)
{
	if (!has_mappings())
		return;
	start(touch_control);
	ck_assert_int_eq(WTERMSIG(end()), SIGBUS);
}

static void copy_part(void)
{
	off_t from = 0, to = 100;
	int fd = open_in("file", O_RDWR);

	expect(pwrite(fd, "copied", 6, 0) == 6, 1);
	expect(copy_file_range(fd, &from, fd, &to, 6, 0) == 6, 2);
	expect(posix_fallocate(fd, 0, 1) != ENOSYS, 3);
}

TEST(copies)
{
	start(copy_part);
	ck_assert_int_eq(end(), 0);
	PF_LOCK_SCOPE(&lock);
	ck_assert_mem_eq(content + 100, "copieda", 7);
}

static void use_xattrs(void)
{
	int fd = open_in("file", O_RDWR);
	char value[32];

	expect(fgetxattr(fd, "user.dtype", NULL, 0) == 3, 1);
	expect(fgetxattr(fd, "user.dtype", value, 2) < 0 && errno == ERANGE, 2);
	expect(fgetxattr(fd, "user.dtype", value, 3) == 3 && !memcmp(value, "F32", 3), 3);
	expect(fgetxattr(fd, "user.none", value, 3) < 0 && errno == ENODATA, 4);
	expect(flistxattr(fd, NULL, 0) == sizeof("user.dtype"), 5);
	expect(flistxattr(fd, value, 2) < 0 && errno == ERANGE, 6);
	expect(flistxattr(fd, value, sizeof(value)) == sizeof("user.dtype"), 7);
	expect(fsetxattr(fd, "user.dtype", "", 0, 0) < 0 && errno == EOPNOTSUPP, 8);
	expect(fremovexattr(fd, "user.dtype") < 0 && errno == EPERM, 9);
	expect(fremovexattr(fd, "user.none") < 0 && errno == ENODATA, 10);
	fd = open_in("dir", O_RDONLY);
	expect(flistxattr(fd, value, sizeof(value)) == 0, 11);
}

TEST(attributes_by_name)
{
	start(use_xattrs);
	ck_assert_int_eq(end(), 0);
}

enum { GONE = 256 /* names that the kernel drops at once */ };

static bool is_deleted(int fd)
{
	char path[64], target[128];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, target, sizeof(target) - 1);
	expect(n > 0, 1);
	target[n] = '\0';
	return strstr(target, " (deleted)") != NULL;
}

static void hold_names(void)
{
	char name[16];
	int fds[GONE + 1];

	for (int i = 0; i <= GONE; i++) {
		snprintf(name, sizeof(name), "dir/%d", i);
		fds[i] = open_in(name, O_PATH);
	}
	step();
	await();
	while (!is_deleted(fds[1]))
		usleep(1000);
	expect(!is_deleted(fds[0]), 2);
}

/* A process may work in a directory of a name that went away and came back. */
TEST(the_kernel_drops_names_that_are_gone_but_not_those_that_came_back)
{
	struct pf_node *in = pf_dir_lookup(pf_tree_root(tree), "dir"), *node;

	for (int i = 0; i <= GONE; i++)
		link_dir(in, i);
	start(hold_names);
	await();
	for (int i = 0; i <= GONE; i++) {
		char name[16];

		snprintf(name, sizeof(name), "%d", i);
		node = pf_dir_lookup(in, name);
		pf_dir_unlink(node);
		pf_node_unref(node);
		if (i == 0)
			link_dir(in, i);
	}
	step();
	ck_assert_int_eq(end(), 0);
	pf_node_unref(in);
}

/* Wait up to MS (-1: for ever) for FD to be readable: how many are. */
static int by_poll(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms);
}

static void poll_state(void)
{
	int fd = open_in("state", O_RDONLY), without = open_in("plain", O_RDONLY),
	    twin = dup(fd);
	char text[16] = "";

	expect(pread(fd, text, sizeof(text), 0) == 8 && !strcmp(text, "running\n"), 1);
	expect(by_poll(without, 0) == 1, 2);
	expect(by_poll(fd, 0) == 0, 3);
	expect(by_poll(fd, 50) == 0, 4);
	step();
	await();
	expect(by_poll(fd, -1) == 1, 5);
	expect(by_poll(twin, 0) == 1, 6);
	memset(text, 0, sizeof(text));
	expect(pread(fd, text, sizeof(text), 0) == 5 && !strcmp(text, "done\n"), 7);
}

/* Wait for another poll than the first N. */
static void await_poll(unsigned n)
{
	while (polls <= n)
		usleep(1000);
}

/* Let the other process go on to its poll without end. */
static void await_sleep(void)
{
	unsigned n;

	await();
	n = polls;
	step();
	await_poll(n);
}

/* tests/tools/events.py has select(2) and epoll(7), too. */
TEST(an_event_wakes_a_polling_process)
{
	struct pf_node *node = pf_dir_lookup(pf_tree_root(tree), "state");
	unsigned n;

	start(poll_state);
	await_sleep();
	n = polls;
	pf_node_ready(node); /* wakes the process without an event: it polls again */
	await_poll(n);
	ready = true;
	pf_node_ready(node);
	ck_assert_int_eq(end(), 0);
	pf_node_unref(node);
}

static void poll_on(void)
{
	int fd = open_in("state", O_RDONLY);

	by_poll(fd, 0);
	step();
	await();
	by_poll(fd, -1);
}

/* A caller that sleeps when the mount ends: no leak, no crash. */
TEST(unmounting_wakes_a_polling_process)
{
	start(poll_on);
	await_sleep();
	teardown();
	end();
	setup(); /* what the fixture takes down */
}

UNIT_FIXTURE(setup, teardown)
