/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests on their way from the tree back to the kernel, and the files that it has open.
 *
 * A request that is answered at once costs no more than its memory.  For one that waits, libfuse
 * calls on_interrupt when the caller is woken, with req's own lock held, perhaps while another
 * thread answers.  To unset on_interrupt waits for such a call, so that none comes
 * later; only an answer that is given within the call (see calling) must not try that.
 */
#include <assert.h>
#include <errno.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/param.h>

#include "internal.h"
#include "pjrtfs/state.h"

/* The request whose on_interrupt, or pf_fuse_request_wait, this thread is in. */
static __thread struct pf_fuse_request *calling, *hooking;

enum {
	LOOK_MS = 20,      /* from a wake-up to the first look for another one, */
	LOOK_MAX_MS = 320, /* and between two looks: a caller may be stopped for long */
};

static void look_again(struct pf_timer *timer);

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

/* --- open files by their handles ----------------------------------------------------- */

static pf_open_slot *slot_of(const struct pf_mount *mount, uint64_t handle)
{
	uint64_t i = handle - 1;
	pf_open_slot *block =
		i / HANDLES < BLOCKS ? atomic_load(&mount->blocks[i / HANDLES]) : NULL;

	return block ? &block[i % HANDLES] : NULL;
}

/* The slot of HANDLE, which is made if it is missing.  -ENFILE: all are in use; -ENOMEM. */
static int make_slot_locked(struct pf_mount *mount, uint64_t handle, pf_open_slot **ret)
{
	uint64_t block = (handle - 1) / HANDLES;
	pf_open_slot *made;

	if (block >= BLOCKS)
		return -ENFILE;
	if (!atomic_load(&mount->blocks[block])) {
		made = calloc(HANDLES, sizeof(*made));
		if (!made)
			return -ENOMEM;
		atomic_store(&mount->blocks[block], made);
	}
	*ret = slot_of(mount, handle);
	return 0;
}

static uint64_t take_handle_locked(struct pf_mount *mount)
{
	struct pf_buf *unused = &mount->unused;
	uint64_t handle;

	if (!unused->len)
		return ++mount->n_handles;
	unused->len -= sizeof(handle);
	memcpy(&handle, unused->data + unused->len, sizeof(handle));
	return handle;
}

/* Without memory for it a handle is not given again. */
static void give_handle_locked(struct pf_mount *mount, uint64_t handle)
{
	pf_buf_append(&mount->unused, &handle, sizeof(handle));
	mount->unused.failed = false;
}

int pf_opened(struct pf_mount *mount, struct pf_open *of)
{
	pf_open_slot *slot;
	uint64_t handle;
	int r;

	pf_lock(&mount->lock);
	handle = take_handle_locked(mount);
	r = make_slot_locked(mount, handle, &slot);
	if (r < 0) {
		give_handle_locked(mount, handle);
		pf_unlock(&mount->lock);
		return r;
	}
	/* Whoever finds the file by its number sees it whole. */
	of->handle = handle;
	of->unique = pf_state_current();
	atomic_store(slot, of);
	pf_unlock(&mount->lock);
	pf_vfs_keep_open(of);
	return 0;
}

struct pf_open *pf_handle_open(const struct pf_mount *mount, uint64_t handle)
{
	pf_open_slot *slot = handle ? slot_of(mount, handle) : NULL;

	return slot ? atomic_load(slot) : NULL;
}

/* The open file after that of handle *POS, which becomes its own; NULL: it was the last one. */
static struct pf_open *next_open(const struct pf_mount *mount, uint64_t *pos)
{
	struct pf_open *of = NULL;

	while (!of && *pos < mount->n_handles)
		of = pf_handle_open(mount, ++*pos);
	return of;
}

void pf_closed(struct pf_mount *mount, struct pf_open *of)
{
	uint64_t handle = of->handle;

	pf_lock(&mount->lock);
	atomic_store(slot_of(mount, handle), NULL);
	pf_unlock(&mount->lock);
	/* The journal loses the handle before another file can have it. */
	pf_vfs_release(of);
	PF_LOCK_SCOPE(&mount->lock);
	give_handle_locked(mount, handle);
}

void pf_close_all(struct pf_mount *mount)
{
	struct pf_open *of;
	uint64_t pos = 0;

	while ((of = next_open(mount, &pos)))
		pf_vfs_release(of);
	for (unsigned i = 0; i < BLOCKS; i++)
		free(atomic_load(&mount->blocks[i]));
	pf_buf_release(&mount->unused);
}

/* A notification makes the kernel send POLL again. */
static void wake_poll_locked(struct pf_mount *mount, struct pf_open *of)
{
	struct {
		struct fuse_out_header head;
		struct fuse_notify_poll_wakeup_out out;
	} message = { .head = { .len = sizeof(message), .error = FUSE_NOTIFY_POLL },
		      .out = { .kh = of->poll_handle } };

	if (of->polled)
		pf_send_raw(mount, &message, sizeof(message));
	of->polled = false;
}

/* The kernel has one number for each open file, which serves for all callers. */
void pf_polled(struct pf_mount *mount, struct pf_open *of, uint64_t handle)
{
	bool known;

	pf_lock(&mount->lock);
	known = of->poll_handle == handle;
	of->poll_handle = handle;
	of->polled = true;
	pf_unlock(&mount->lock);
	if (!known)
		pf_vfs_keep_open(of);
}

void pf_polled_wake(struct pf_mount *mount, uint64_t ino)
{
	struct pf_open *of;
	uint64_t pos = 0;

	PF_LOCK_SCOPE(&mount->lock);
	while ((of = next_open(mount, &pos)))
		if (of->node->ino == ino)
			wake_poll_locked(mount, of);
}

static int reopen(struct pf_mount *mount, uint64_t handle)
{
	struct pf_open *of = NULL;
	pf_open_slot *slot;
	int r;

	pf_lock(&mount->lock);
	r = make_slot_locked(mount, handle, &slot);
	while (r == 0 && mount->n_handles < handle) {
		if (++mount->n_handles < handle)
			give_handle_locked(mount, mount->n_handles);
	}
	/* Locks of the tree come first, and compiles may run. */
	pf_unlock(&mount->lock);
	/* The kernel's requests for a file that cannot be opened again are EIO. */
	if (r == 0 && pf_vfs_reopen(mount->tree, handle, &of) == 0)
		atomic_store(slot, of);
	return r;
}

int pf_reopen_all(struct pf_mount *mount)
{
	pf_autofree uint64_t *handles = NULL;
	struct pf_open *of;
	uint64_t pos = 0;
	size_t n;
	int r = 0;

	handles = pf_state_list(PF_STATE_OPEN, &n);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = reopen(mount, handles[i]);
	PF_LOCK_SCOPE(&mount->lock);
	while (r == 0 && (of = next_open(mount, &pos))) {
		of->polled = of->poll_handle != 0;
		wake_poll_locked(mount, of);
	}
	return r;
}

struct pf_open *pf_opened_before(struct pf_mount *mount)
{
	uint64_t unique = pf_state_current(), pos = 0;
	struct pf_open *of;

	if (!pf_state_is_again())
		return NULL;
	PF_LOCK_SCOPE(&mount->lock);
	while ((of = next_open(mount, &pos)) && of->unique != unique)
		;
	return of;
}

/* --- answers --------------------------------------------------------------------------- */

/* If the caller was interrupted, the kernel drops the answer and never releases the file. */
static void send_open(struct pf_fuse_request *r)
{
	int code = pf_opened(r->mount, r->of);

	if (code < 0) {
		fuse_reply_err(r->req, -code);
		pf_vfs_release(r->of);
		return;
	}
	r->fi.fh = r->of->handle;
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 11)
	/* To close what was only read commits nothing: one request less. */
	r->fi.noflush = !pf_open_writes(r->of) && !r->of->node->kind->flush;
#endif
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
	if (hooked && pf_timer_disarm(r->mount->timers, &r->look))
		pf_reply_unref(reply);

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
				       .look.fire = look_again,
				       .lock = PTHREAD_MUTEX_INITIALIZER };
	pf_reply_init(&r->reply, &request_ops);
	r->reply.uid = fuse_req_ctx(req)->uid;
	r->reply.pid = fuse_req_ctx(req)->pid;
	pf_reply_ref(&r->reply);
	return r;
}

/* Look at R's caller again, later each time.  False: that cannot be. */
static bool arm(struct pf_fuse_request *r)
{
	r->look_ms = MIN(MAX(2 * r->look_ms, LOOK_MS), LOOK_MAX_MS);
	pf_reply_ref(&r->reply);
	if (pf_timer_arm(r->mount->timers, &r->look, r->look_ms) == 0)
		return true;
	pf_reply_unref(&r->reply);
	return false;
}

/* The same, if R was not answered.  An answer to it waits for its on_interrupt. */
static bool look_later(struct pf_fuse_request *r)
{
	if (calling == r)
		return arm(r);
	PF_LOCK_SCOPE(&r->lock);
	return r->sent || arm(r);
}

/* R's caller was woken: answer, or wait on.  The kernel tells only of the first wake-up. */
static void look(struct pf_fuse_request *r)
{
	if (pf_caller_is_interrupted(r->reply.pid) || !look_later(r))
		pf_reply_interrupt(&r->reply);
}

static void look_again(struct pf_timer *timer)
{
	struct pf_fuse_request *r = pf_container_of(timer, struct pf_fuse_request, look);

	look(r);
	pf_reply_unref(&r->reply);
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
	look(r);
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
		look(r);
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
