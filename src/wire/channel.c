/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "pjrtfs/base.h"
#include "pjrtfs/shm.h"
#include "pjrtfs/wire.h"

enum { PACKET = 64 << 10, MAX_FDS = 40 };

static size_t channel_size(void)
{
	return 2 * pf_ring_footprint() + sizeof(_Atomic uint64_t);
}

int pf_channel_create(struct pf_err *err)
{
	return pf_shm_new("pjrtfs-channel", channel_size(), err);
}

int pf_channel_map(struct pf_channel *channel, int fd, struct pf_err *err)
{
	void *p;
	int r = pf_shm_map(fd, channel_size(), PROT_READ | PROT_WRITE, &p, err);

	if (r < 0)
		return r;
	channel->memory = p;
	pf_ring_init(&channel->request, p);
	pf_ring_init(&channel->reply, (char *)p + pf_ring_footprint());
	channel->beats = (void *)((char *)p + 2 * pf_ring_footprint());
	return 0;
}

void pf_channel_release(struct pf_channel *channel)
{
	if (!channel->memory)
		return;
	pf_ring_release(&channel->request);
	pf_ring_release(&channel->reply);
	munmap(channel->memory, channel_size());
	channel->memory = NULL;
}

static int gone(struct pf_err *err)
{
	return pf_err_set(err, -EPIPE, "the other process has gone");
}

static int send_packet(int sock, const void *data, size_t len, const int *fds, int n,
		       struct pf_err *err)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * MAX_FDS)];
	} control;
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t r;

	if (n > 0) {
		struct cmsghdr *c;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)n);
	}
	do
		r = sendmsg(sock, &msg, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	/* ECONNRESET: it ended before it read the packets before this one. */
	if (r < 0 && (errno == EPIPE || errno == ECONNRESET))
		return gone(err);
	if (r < 0)
		return pf_err_set(err, -errno, "send to the other process: %s",
				  strerror(errno));
	return 0;
}

int pf_channel_send(int sock, const char *text, size_t len, const int *fds, int n,
		    struct pf_err *err)
{
	uint64_t total = len;
	int r;

	if (n > MAX_FDS || len > PF_CHANNEL_MAX_TEXT)
		return pf_err_set(err, -EMSGSIZE,
				  "a set-up text of %zu bytes is too long", len);
	/* The first packet is the text's length; it carries the descriptors. */
	r = send_packet(sock, &total, sizeof(total), fds, n, err);
	for (size_t at = 0; r == 0 && at < len; at += PACKET)
		r = send_packet(sock, text + at, len - at < PACKET ? len - at : PACKET,
				NULL, 0, err);
	return r;
}

static int wait_readable(int sock, int timeout_ms, struct pf_err *err)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	int r;

	do
		r = poll(&p, 1, timeout_ms);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return pf_err_set(err, -errno, "poll: %s", strerror(errno));
	if (r == 0)
		return pf_err_set(err, -ETIMEDOUT,
				  "no answer from the other process in %d ms",
				  timeout_ms);
	return 0;
}

/* Keep the descriptors that came with MSG, at most N of them; close what is too many. */
static void take_fds(struct msghdr *msg, int *fds, int n)
{
	int got = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t count;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (got < n)
				fds[got++] = fd;
			else
				close(fd);
		}
	}
}

static ssize_t recv_packet(int sock, void *dst, size_t cap, int *fds, int n,
			   int timeout_ms, struct pf_err *err)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * MAX_FDS)];
	} control;
	struct iovec iov = { .iov_base = dst, .iov_len = cap };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	ssize_t r = wait_readable(sock, timeout_ms, err);

	if (r < 0)
		return r;
	do
		r = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (r < 0 && errno == EINTR);
	/* The other process ended before it read everything that this one sent. */
	if (r < 0 && errno == ECONNRESET)
		return gone(err);
	if (r < 0)
		return pf_err_set(err, -errno, "receive from the other process: %s",
				  strerror(errno));
	take_fds(&msg, fds, n);
	if (r == 0)
		return gone(err);
	if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return pf_err_set(err, -EPROTO,
				  "the other process sent too large a packet");
	return r;
}

int pf_channel_recv(int sock, struct pf_buf *text, int *fds, int n, int timeout_ms,
		    struct pf_err *err)
{
	uint64_t total = 0;
	ssize_t r;

	for (int i = 0; i < n; i++)
		fds[i] = -1;
	r = recv_packet(sock, &total, sizeof(total), fds, n, timeout_ms, err);
	if (r < 0)
		return (int)r;
	if (r != sizeof(total) || total > PF_CHANNEL_MAX_TEXT)
		return pf_err_set(err, -EPROTO,
				  "the other process announced a text of %" PRIu64
				  " bytes",
				  total);
	while (total) {
		char *dst = pf_buf_reserve(text, PACKET);

		if (!dst)
			return pf_err_set(err, -ENOMEM, "no memory for the set-up text");
		r = recv_packet(sock, dst, PACKET, NULL, 0, timeout_ms, err);
		if (r < 0)
			return (int)r;
		if ((uint64_t)r > total)
			return pf_err_set(err, -EPROTO,
					  "the other process sent more than "
					  "it announced");
		/* TIMEOUT_MS is for each packet: they are as few as the text needs. */
		if ((uint64_t)r != (total < PACKET ? total : PACKET))
			return pf_err_set(err, -EPROTO,
					  "the other process sent a packet of %zd bytes "
					  "while %" PRIu64 " are left",
					  r, total);
		text->len += (size_t)r;
		text->data[text->len] = '\0';
		total -= (uint64_t)r;
	}
	return 0;
}
