/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests on their way from the tree back to the kernel, and the files that it has open.
 *
 * A request that is answered at once costs no more than its memory.  For one that waits, libfuse
 * calls on_interrupt when the caller is interrupted, with req's own lock held, perhaps while
 * another thread answers.  To unset on_interrupt waits for such a call, so that none comes
 * later; only an answer that is given within the call (see calling) must not try that.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "internal.h"

/* The request whose on_interrupt, or pf_fuse_request_wait, this thread is in. */
static __thread struct pf_fuse_request *calling, *hooking;

static void unpark(struct pf_fuse_request *r)
{
	PF_LOCK_SCOPE(&r->mount->lock);
	LIST_REMOVE(r, parked);
}

static void park(struct pf_fuse_request *r)
{
	PF_LOCK_SCOPE(&r->mount->lock);
	LIST_INSERT_HEAD(&r->mount->parked, r, parked);
}

int pf_opened(struct pf_mount *mount, struct pf_open *of)
{
	PF_LOCK_SCOPE(&mount->lock);
	return pf_map_put(&mount->opens, (uint64_t)(uintptr_t)of, of);
}

/*
 * To notify a handle makes the kernel send POLL again.  The kernel has one handle for each open
 * file, so the newest one serves for all callers.
 */
static void drop_handle(struct pf_open *of)
{
	if (of->polled)
		fuse_pollhandle_destroy(pf_steal(&of->polled));
}

void pf_polled(struct pf_mount *mount, struct pf_open *of, struct fuse_pollhandle *ph)
{
	PF_LOCK_SCOPE(&mount->lock);
	drop_handle(of);
	of->polled = ph;
}

void pf_polled_wake(struct pf_mount *mount, uint64_t ino)
{
	struct pf_open *of;
	size_t pos = 0;

	PF_LOCK_SCOPE(&mount->lock);
	while ((of = pf_map_next(&mount->opens, &pos)))
		if (of->polled && of->node->ino == ino) {
			fuse_lowlevel_notify_poll(of->polled);
			drop_handle(of);
		}
}

void pf_closed(struct pf_mount *mount, struct pf_open *of)
{
	pf_lock(&mount->lock);
	pf_map_remove(&mount->opens, (uint64_t)(uintptr_t)of);
	drop_handle(of);
	pf_unlock(&mount->lock);
	pf_vfs_release(of);
}

void pf_close_all(struct pf_mount *mount)
{
	struct pf_open *of;
	size_t pos = 0;

	while ((of = pf_map_next(&mount->opens, &pos))) {
		drop_handle(of);
		pf_vfs_release(of);
	}
	pf_map_release(&mount->opens);
}

/* If the caller was interrupted, the kernel drops the answer and never releases the file. */
static void send_open(struct pf_fuse_request *r)
{
	if (pf_opened(r->mount, r->of) < 0) {
		fuse_reply_err(r->req, ENOMEM);
		pf_vfs_release(r->of);
		return;
	}
	r->fi.fh = (uint64_t)(uintptr_t)r->of;
	if (fuse_reply_open(r->req, &r->fi) == -ENOENT)
		pf_closed(r->mount, r->of);
}

static void request_send(struct pf_reply *reply, int code, const void *data, size_t len)
{
	struct pf_fuse_request *r = pf_container_of(reply, struct pf_fuse_request, reply);
	bool hooked = true;

	/* Within on_interrupt the thread that parks the request may still hold its lock, but does
	 * not look at it any more; to take it would be the wrong order of locks. */
	if (calling != r) {
		pf_lock(&r->lock);
		r->sent = true;
		hooked = r->hooked;
		pf_unlock(&r->lock);
	}
	if (hooked)
		unpark(r);
	if (hooked && calling != r)
		fuse_req_interrupt_func(r->req, NULL, NULL);

	if (code < 0 || r->kind == PF_FUSE_REQUEST_CODE)
		fuse_reply_err(r->req, -code);
	else if (r->kind == PF_FUSE_REQUEST_OPEN)
		send_open(r);
	else if (r->kind == PF_FUSE_REQUEST_READ)
		fuse_reply_buf(r->req, data, len);
	else
		fuse_reply_write(r->req, len);
	if (hooked)
		pf_reply_unref(reply);
}

static void request_free(struct pf_reply *reply)
{
	struct pf_fuse_request *r = pf_container_of(reply, struct pf_fuse_request, reply);

	pthread_mutex_destroy(&r->lock);
	free(r);
}

static const struct pf_reply_ops request_ops = {
	.send = request_send,
	.free = request_free,
};

struct pf_fuse_request *pf_fuse_request_new(fuse_req_t req,
					    enum pf_fuse_request_kind kind)
{
	struct pf_fuse_request *r = malloc(sizeof(*r));

	if (!r) {
		fuse_reply_err(req, ENOMEM);
		return NULL;
	}
	*r = (struct pf_fuse_request){ .req = req,
				       .mount = fuse_req_userdata(req),
				       .kind = kind,
				       .lock = PTHREAD_MUTEX_INITIALIZER };
	pf_reply_init(&r->reply, &request_ops);
	r->reply.uid = fuse_req_ctx(req)->uid;
	r->reply.pid = fuse_req_ctx(req)->pid;
	pf_reply_ref(&r->reply);
	return r;
}

static void on_interrupt(fuse_req_t req, void *arg)
{
	struct pf_fuse_request *r = arg;

	(void)req;
	if (hooking == r) {
		r->late = true;
		return;
	}
	pf_reply_ref(&r->reply);
	calling = r;
	pf_reply_interrupt(&r->reply);
	calling = NULL;
	pf_reply_unref(&r->reply);
}

void pf_fuse_request_wait(struct pf_fuse_request *r)
{
	bool late = false;

	if (!pf_reply_gone(&r->reply)) {
		pf_lock(&r->lock);
		if (!r->sent) {
			r->hooked = true;
			pf_reply_ref(&r->reply);
			park(r);
			hooking = r;
			fuse_req_interrupt_func(r->req, on_interrupt, r);
			hooking = NULL;
			late = r->late;
		}
		pf_unlock(&r->lock);
	}
	if (late)
		pf_reply_interrupt(&r->reply);
	pf_reply_unref(&r->reply);
}

void pf_fuse_requests_disconnect(struct pf_mount *mount)
{
	struct pf_fuse_request *r;

	for (;;) {
		pf_lock(&mount->lock);
		r = LIST_FIRST(&mount->parked);
		if (r)
			pf_reply_ref(&r->reply);
		pf_unlock(&mount->lock);
		if (!r)
			return;
		pf_reply_disconnect(&r->reply);
		pf_reply_unref(&r->reply);
		sched_yield(); /* another thread may be answering it at this moment */
	}
}
