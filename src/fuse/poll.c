/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poll(2), select(2) and epoll(7).
 *
 * A POLL request has a handle if its caller is going to sleep; to notify that handle makes the
 * kernel send POLL again.  The kernel has one handle for each open file, so the newest one
 * serves for all callers.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "internal.h"

/* A caller sleeps until OF is ready. */
struct pf_polled {
	struct pf_polled *next;
	struct fuse_pollhandle *ph; /* owned */
	struct pf_open *of;         /* borrowed: dropped before OF is released */
	uint64_t ino;
};

static void polled_free(struct pf_polled *p)
{
	fuse_pollhandle_destroy(p->ph);
	free(p);
}

/* Take the handles of OF, or of INO if OF is NULL, or all if INO is 0 too, off the list. */
static struct pf_polled *take(struct pf_mount *mount, struct pf_open *of, uint64_t ino)
{
	struct pf_polled **at = &mount->polled, *p, *taken = NULL;

	PF_LOCK_SCOPE(&mount->lock);
	while ((p = *at)) {
		if ((of && p->of != of) || (ino && p->ino != ino)) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		p->next = taken;
		taken = p;
	}
	return taken;
}

void pf_polled_drop(struct pf_mount *mount, struct pf_open *of)
{
	struct pf_polled *p, *next;

	for (p = take(mount, of, 0); p; p = next) {
		next = p->next;
		polled_free(p);
	}
}

void pf_polled_wake(struct pf_mount *mount, uint64_t ino)
{
	struct pf_polled *p, *next;

	for (p = take(mount, NULL, ino); p; p = next) {
		next = p->next;
		fuse_lowlevel_notify_poll(p->ph);
		polled_free(p);
	}
}

static int remember(struct pf_mount *mount, struct pf_open *of,
		    struct fuse_pollhandle *ph)
{
	struct pf_polled *p = malloc(sizeof(*p));

	if (!p)
		return -ENOMEM;
	pf_polled_drop(mount, of);
	p->ph = ph;
	p->of = of;
	p->ino = of->node->ino;
	PF_LOCK_SCOPE(&mount->lock);
	p->next = mount->polled;
	mount->polled = p;
	return 0;
}

void pf_fuse_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
		  struct fuse_pollhandle *ph)
{
	struct pf_open *of = (struct pf_open *)(uintptr_t)fi->fh;
	unsigned mask;

	(void)ino;
	if (ph && remember(fuse_req_userdata(req), of, ph) < 0) {
		fuse_pollhandle_destroy(ph);
		fuse_reply_err(req, ENOMEM);
		return;
	}
	mask = (unsigned)pf_vfs_poll(of);
	mask |= mask & POLLIN ? POLLRDNORM : 0;
	mask |= mask & POLLOUT ? POLLWRNORM : 0;
	fuse_reply_poll(req, mask);
}
