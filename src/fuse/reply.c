/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests on their way from the tree back to the kernel.
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
	struct pf_mount *mount = r->mount;

	PF_LOCK_SCOPE(&mount->lock);
	if (r->prev)
		r->prev->next = r->next;
	else
		mount->parked = r->next;
	if (r->next)
		r->next->prev = r->prev;
}

static void park(struct pf_fuse_request *r)
{
	struct pf_mount *mount = r->mount;

	PF_LOCK_SCOPE(&mount->lock);
	r->prev = NULL;
	r->next = mount->parked;
	if (r->next)
		r->next->prev = r;
	mount->parked = r;
}

int pf_opened(struct pf_mount *mount, struct pf_open *of)
{
	PF_LOCK_SCOPE(&mount->lock);
	return pf_map_put(&mount->opens, (uint64_t)(uintptr_t)of, of);
}

void pf_closed(struct pf_mount *mount, struct pf_open *of)
{
	pf_lock(&mount->lock);
	pf_map_remove(&mount->opens, (uint64_t)(uintptr_t)of);
	pf_unlock(&mount->lock);
	pf_polled_drop(mount, of);
	pf_vfs_release(of);
}

void pf_close_all(struct pf_mount *mount)
{
	struct pf_open *of;
	size_t pos = 0;

	pf_polled_drop(mount, NULL);
	while ((of = pf_map_next(&mount->opens, &pos)))
		pf_vfs_release(of);
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
	pf_reply_init(&r->reply, &request_ops);
	r->reply.uid = fuse_req_ctx(req)->uid;
	r->reply.pid = fuse_req_ctx(req)->pid;
	if (pthread_mutex_init(&r->lock, NULL))
		abort();
	r->req = req;
	r->mount = fuse_req_userdata(req);
	r->kind = kind;
	r->of = NULL;
	r->sent = r->hooked = r->late = false;
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
		r = mount->parked;
		if (r)
			pf_reply_ref(&r->reply);
		pf_unlock(&mount->lock);
		if (!r)
			return;
		pf_reply_disconnect(&r->reply);
		/* Another thread may be answering it at this moment. */
		while (pf_reply_gone(&r->reply)) {
			bool listed = false;

			pf_lock(&mount->lock);
			for (struct pf_fuse_request *p = mount->parked; p; p = p->next)
				listed |= p == r;
			pf_unlock(&mount->lock);
			if (!listed)
				break;
			sched_yield();
		}
		pf_reply_unref(&r->reply);
	}
}
