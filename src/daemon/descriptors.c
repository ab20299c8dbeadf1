/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file descriptor store: what must outlive the daemon, held by the process that starts it,
 * which is systemd (sd_pid_notify_with_fds(3), sd_listen_fds(3)) or holder.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"

enum { FIRST_FD = 3, BARRIER_MS = 5000 };

static struct {
	int sock; /* to the holder, or -1 */
	unsigned watchdog_ms;
	unsigned n;
	struct {
		char name[DESCRIPTOR_NAME];
		int fd; /* -1: taken */
	} got[MAX_DESCRIPTORS];
} store = { .sock = -1 };

/* The address of $NOTIFY_SOCKET: a path, or an abstract name after "@". */
static int connect_to(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t len = strlen(name);
	int fd;

	if ((*name != '/' && *name != '@') || len >= sizeof(address.sun_path))
		return -EINVAL;
	memcpy(address.sun_path, name, len);
	if (*name == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address,
			       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)))
		pf_closep(&fd);
	return fd;
}

/* Note the N descriptors that this process was started with, whose NAMES a colon separates. */
static void note_descriptors(unsigned n, const char *names)
{
	pf_autofree char *copy = strdup(names);
	char *at = copy;

	for (unsigned i = 0; copy && i < n && i < MAX_DESCRIPTORS; i++) {
		const char *name = strsep(&at, ":");

		(void)fcntl(FIRST_FD + (int)i, F_SETFD, FD_CLOEXEC);
		snprintf(store.got[i].name, sizeof(store.got[i].name), "%s",
			 name ? name : "");
		store.got[i].fd = FIRST_FD + (int)i;
		store.n = i + 1;
	}
}

/* $WATCHDOG_USEC of the process $WATCHDOG_PID. */
static unsigned read_watchdog(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	unsigned long long ms = usec ? strtoull(usec, NULL, 10) / 1000 : 0;

	if (pid && strtol(pid, NULL, 10) != getpid())
		return 0;
	return ms < UINT_MAX ? (unsigned)ms : 0;
}

bool descriptors_begin(void)
{
	const char *notify = getenv("NOTIFY_SOCKET"), *pid = getenv("LISTEN_PID");
	const char *n = getenv("LISTEN_FDS"), *names = getenv("LISTEN_FDNAMES");

	if (notify)
		store.sock = connect_to(notify);
	if (pid && n && names && strtol(pid, NULL, 10) == getpid())
		note_descriptors((unsigned)strtoul(n, NULL, 10), names);
	store.watchdog_ms = read_watchdog();
	/* Workers do not get them. */
	unsetenv("NOTIFY_SOCKET");
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	unsetenv("WATCHDOG_PID");
	unsetenv("WATCHDOG_USEC");
	return store.sock >= 0;
}

int descriptors_take(const char *name)
{
	for (unsigned i = 0; i < store.n; i++)
		if (store.got[i].fd >= 0 && !strcmp(store.got[i].name, name)) {
			int fd = store.got[i].fd;

			store.got[i].fd = -1;
			return fd;
		}
	return -1;
}

unsigned descriptors_list(struct pf_kept ret[MAX_DESCRIPTORS])
{
	unsigned n = 0;

	for (unsigned i = 0; i < store.n; i++)
		if (store.got[i].fd >= 0)
			ret[n++] = (struct pf_kept){ store.got[i].name, store.got[i].fd };
	return n;
}

void descriptors_close(void)
{
	for (unsigned i = 0; i < store.n; i++)
		pf_closep(&store.got[i].fd);
}

/* Send TEXT and, unless it is -1, FD. */
static int send_text(const char *text, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr head;
	} control = { .bytes = "" };
	struct iovec part = { .iov_base = (char *)(uintptr_t)text,
			      .iov_len = strlen(text) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	if (store.sock < 0)
		return -ENOTCONN;
	if (fd >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	}
	return sendmsg(store.sock, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

void descriptors_store(const char *name, int fd)
{
	char text[DESCRIPTOR_NAME + 64];

	snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s\nFDPOLL=0", name);
	(void)send_text(text, fd);
}

void descriptors_remove(const char *name)
{
	char text[DESCRIPTOR_NAME + 64];

	snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	(void)send_text(text, -1);
}

/* The holder closes the end of the pipe when it has read all messages before. */
void descriptors_wait(void)
{
	struct pollfd p = { .events = 0 };
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return;
	if (send_text("BARRIER=1", ends[1]) == 0) {
		pf_closep(&ends[1]);
		p.fd = ends[0];
		(void)poll(&p, 1, BARRIER_MS);
	}
	pf_closep(&ends[0]);
	pf_closep(&ends[1]);
}

void descriptors_ready(void)
{
	char text[64];

	descriptors_wait();
	snprintf(text, sizeof(text), "READY=1\nMAINPID=%d", (int)getpid());
	(void)send_text(text, -1);
}

void descriptors_notify(const char *text)
{
	(void)send_text(text, -1);
}

unsigned descriptors_watchdog_ms(void)
{
	return store.watchdog_ms;
}

void descriptors_forget(void)
{
	for (unsigned i = 0; i < store.n; i++)
		descriptors_remove(store.got[i].name);
	descriptors_close();
	descriptors_wait();
}
