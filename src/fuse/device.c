/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection to the kernel: messages on their way, and what a restarted daemon needs of it.
 *
 * libfuse 3.14 does not know the kernel's later capabilities, so its answer to INIT is completed
 * here.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/state.h"

#ifndef FUSE_DIRECT_IO_ALLOW_MMAP
#define FUSE_DIRECT_IO_ALLOW_MMAP (UINT64_C(1) << 36)
#endif
enum { NOTIFY_RESEND = 7 };

void pf_device_note_init(struct pf_mount *mount, const struct fuse_buf *buf)
{
	const struct fuse_in_header *in = buf->mem;
	const struct fuse_init_in *init = (const void *)(in + 1);

	if (in->opcode != FUSE_INIT)
		return;
	mount->init_unique = in->unique;
	mount->offered = 0;
	if (!mount->init.mem && (mount->init.mem = malloc(buf->size))) {
		memcpy(mount->init.mem, buf->mem, buf->size);
		mount->init.size = buf->size;
	}
	if (buf->size < sizeof(*in) + sizeof(*init))
		return;
	mount->offered = init->flags;
	if (init->flags & FUSE_INIT_EXT)
		mount->offered |= (uint64_t)init->flags2 << 32;
}

enum { SESSION = 1 }; /* the only record of its type */

/* The payload of PF_STATE_SESSION: the INIT request follows. */
struct session_record {
	uint64_t dev;
	struct fuse_init_out answer;
};

/* The kernel has the answer to INIT; or, in a later life, it has had one: is this the same? */
static void answered_init(struct pf_mount *mount, const struct fuse_init_out *answer)
{
	size_t len;
	const struct session_record *before =
		pf_state_load(PF_STATE_SESSION, SESSION, sizeof(*before), &len, NULL);
	const struct session_record now = { .dev = mount->dev, .answer = *answer };

	if (mount->resumed)
		mount->differs =
			!before || memcmp(&before->answer, answer, sizeof(*answer)) != 0;
	else if (mount->init.mem)
		pf_state_put(PF_STATE_SESSION, SESSION, &now, sizeof(now),
			     mount->init.mem, mount->init.size);
}

/* DIRECT_IO_ALLOW_MMAP lets files be mapped though they are read and written directly; op_init
 * asks for PARALLEL_DIROPS, which libfuse drops.  The tree takes set-user-ID bits off files that are
 * written, and files have no capabilities: so the kernel need not ask for them before each write.  It still does at an open with
 * O_TRUNC. */
static void complete_init(const struct pf_mount *mount, struct fuse_init_out *out)
{
	uint64_t flags =
		mount->offered & (FUSE_DIRECT_IO_ALLOW_MMAP | FUSE_PARALLEL_DIROPS |
				  FUSE_HANDLE_KILLPRIV_V2);

	if (flags >> 32)
		flags |= FUSE_INIT_EXT;
	out->flags |= (uint32_t)flags;
	out->flags2 |= (uint32_t)(flags >> 32);
}

static ssize_t send_init(struct pf_mount *mount, struct iovec *iov, int count)
{
	const struct fuse_out_header *out = iov[0].iov_base;
	ssize_t n;

	complete_init(mount, iov[1].iov_base);
	n = mount->resumed ? (ssize_t)out->len : writev(mount->io_fd, iov, count);
	if (n > 0)
		answered_init(mount, iov[1].iov_base);
	return n;
}

/* While other threads send the last answers, the process must not end. */
static ssize_t send_message(int fd, struct iovec *iov, int count, void *userdata)
{
	struct pf_mount *mount = userdata;
	const struct fuse_out_header *out = iov[0].iov_base;
	ssize_t n;

	(void)fd;
	if (out->unique == mount->init_unique && out->unique && count > 1 &&
	    out->error == 0 && iov[1].iov_len >= sizeof(struct fuse_init_out))
		return send_init(mount, iov, count);
	atomic_fetch_add(&mount->sending, 1);
	if (atomic_load(&mount->frozen)) {
		atomic_fetch_sub(&mount->sending, 1);
		for (;;)
			pause();
	}
	n = writev(mount->io_fd, iov, count);
	atomic_fetch_sub(&mount->sending, 1);
	return n;
}

void pf_send_raw(const struct pf_mount *mount, const void *message, size_t len)
{
	(void)!write(mount->io_fd, message, len);
}

static ssize_t receive_message(int fd, void *buf, size_t len, void *userdata)
{
	struct pf_mount *mount = userdata;
	ssize_t n = read(mount->io_fd, buf, len);

	(void)fd;
	/* If the connection ends while the kernel hands a request over, read() says so. */
	if (n < 0 && errno == ECONNABORTED)
		errno = ENODEV;
	if (n < 0 && errno == ENODEV)
		atomic_store(&mount->unmounted, true);
	return n;
}

const struct fuse_custom_io pf_device_io = { .writev = send_message,
					     .read = receive_message };

void pf_device_freeze(struct pf_mount *mount)
{
	atomic_store(&mount->frozen, true);
	while (atomic_load(&mount->sending))
		poll(NULL, 0, 1);
}

/* --- a mount of an earlier life of the daemon ------------------------------------------- */

/*
 * The requests that a process has read and not answered when it dies come again, if the kernel can
 * send them again (6.9 and later).  Before, the kernel itself answers them (ECONNABORTED), if they
 * were read through a clone of the connection that no other process has: no caller waits for ever.
 */
void pf_device_clone(struct pf_mount *mount)
{
	uint32_t fd = (uint32_t)fuse_session_fd(mount->session);

	if (!pf_state_on() || (mount->offered & FUSE_HAS_RESEND) || mount->cloned >= 0)
		return;
	mount->cloned = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (mount->cloned >= 0 && ioctl(mount->cloned, FUSE_DEV_IOC_CLONE, &fd) == 0)
		mount->io_fd = mount->cloned;
}

void pf_device_ask_again(const struct pf_mount *mount)
{
	const struct fuse_out_header again = { .len = sizeof(again),
					       .error = NOTIFY_RESEND };

	if (mount->offered & FUSE_HAS_RESEND)
		pf_send_raw(mount, &again, sizeof(again));
}

static bool is_disconnected(int fd)
{
	struct pollfd p = { .fd = fd };

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP | POLLNVAL));
}

int pf_device_resume(struct pf_mount *mount, struct pf_err *err)
{
	pf_autofree void *request = NULL;
	struct fuse_buf buf = { 0 };
	const struct session_record *r =
		pf_state_load(PF_STATE_SESSION, SESSION, sizeof(*r), &buf.size, NULL);

	if (is_disconnected(mount->io_fd))
		return pf_err_set(err, -ENOTCONN, "it was unmounted meanwhile");
	if (!r || buf.size <= sizeof(struct fuse_in_header))
		return pf_err_set(err, -EPROTO, "it had not begun to serve");
	mount->dev = r->dev;
	buf.mem = request = malloc(buf.size);
	if (!request)
		return -ENOMEM;
	memcpy(request, r + 1, buf.size);
	pf_device_note_init(mount, &buf);
	fuse_session_process_buf(mount->session, &buf);
	return mount->differs ? pf_err_set(err, -EPROTO,
					   "the kernel was promised other capabilities")
			      : 0;
}
