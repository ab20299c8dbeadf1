/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages on their way to the kernel.
 *
 * libfuse 3.14 does not know the capabilities that came after it, so what it answers to
 * INIT is completed here.
 */
#include <errno.h>
#include <linux/fuse.h>
#include <sys/uio.h>

#include "internal.h"

#ifndef FUSE_DIRECT_IO_ALLOW_MMAP
#define FUSE_DIRECT_IO_ALLOW_MMAP (UINT64_C(1) << 36)
#endif

void pf_fuse_init_seen(struct pf_mount *mount, const struct fuse_buf *buf)
{
	const struct fuse_in_header *in = buf->mem;
	const struct fuse_init_in *init = (const void *)(in + 1);

	if (in->opcode != FUSE_INIT)
		return;
	mount->init = in->unique;
	mount->offered = 0;
	if (buf->size < sizeof(*in) + sizeof(*init))
		return;
	mount->offered = init->flags;
	if (init->flags & FUSE_INIT_EXT)
		mount->offered |= (uint64_t)init->flags2 << 32;
}

/* Files may be mapped, though they are read and written directly; PARALLEL_DIROPS is asked
 * for by op_init, and forgotten by libfuse. */
static void complete_init(const struct pf_mount *mount, struct fuse_init_out *out)
{
	uint64_t flags =
		mount->offered & (FUSE_DIRECT_IO_ALLOW_MMAP | FUSE_PARALLEL_DIROPS);

	if (flags >> 32)
		flags |= FUSE_INIT_EXT;
	out->flags |= (uint32_t)flags;
	out->flags2 |= (uint32_t)(flags >> 32);
}

static ssize_t send_message(int fd, struct iovec *iov, int count, void *userdata)
{
	const struct pf_mount *mount = userdata;
	const struct fuse_out_header *out = iov[0].iov_base;

	if (out->unique == mount->init && count > 1 && out->error == 0 &&
	    iov[1].iov_len >= sizeof(struct fuse_init_out))
		complete_init(mount, iov[1].iov_base);
	return writev(fd, iov, count);
}

static ssize_t receive_message(int fd, void *buf, size_t len, void *userdata)
{
	(void)userdata;
	return read(fd, buf, len);
}

int pf_fuse_use_device(struct fuse_session *session)
{
	static const struct fuse_custom_io io = { .writev = send_message,
						  .read = receive_message };

	return fuse_session_custom_io(session, &io, fuse_session_fd(session));
}
