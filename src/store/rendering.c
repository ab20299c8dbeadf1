/* SPDX-License-Identifier: Apache-2.0 */
/* Text of a large array, printed as far as it is read. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/array_files.h"
#include "pjrtfs/buffer.h"

enum {
	PIECE = 4096,    /* elements printed at once: well below a millisecond */
	AHEAD = 8 << 20, /* bytes printed beyond the furthest read */
};

struct pf_rendering {
	_Atomic unsigned refs;
	struct pf_value *value; /* owned reference */
	/* The printing thread's, while there is one. */
	struct pf_text_place location;
	bool pinned;
	pthread_mutex_t lock;   /* rank 5; protects the fields below */
	pthread_cond_t stopped; /* running is false */
	struct pf_buf text;     /* only the printing thread appends */
	bool running;           /* there is a thread that prints */
	bool begun;             /* it is this: */
	pthread_t thread;
	bool done, failed; /* nothing more will be printed: all was; for lack of memory */
	bool closed;       /* nobody will read any more */
	bool left;         /* and the thread is to free this */
	uint64_t wanted;   /* the end of the furthest read */
	struct pf_wait *waiters;
};

struct pf_rendering *pf_rendering_new(struct pf_value *value)
{
	struct pf_rendering *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->refs = 1;
	if (pthread_mutex_init(&r->lock, NULL) || pthread_cond_init(&r->stopped, NULL))
		abort();
	r->value = pf_value_ref(value);
	pf_value_pin(value);
	r->pinned = true;
	return r;
}

struct pf_rendering *pf_rendering_ref(struct pf_rendering *r)
{
	r->refs++;
	return r;
}

static void rendering_free(struct pf_rendering *r)
{
	if (r->pinned)
		pf_value_unpin(r->value);
	pf_value_unref(r->value);
	pf_buf_release(&r->text);
	pthread_cond_destroy(&r->stopped);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

void pf_rendering_unref(struct pf_rendering *r)
{
	if (!r || --r->refs)
		return;
	pf_lock(&r->lock);
	r->closed = true;
	r->left = r->begun && pthread_equal(r->thread, pthread_self());
	if (r->left) {
		pf_unlock(&r->lock);
		return;
	}
	while (r->running)
		pthread_cond_wait(&r->stopped, &r->lock);
	pf_unlock(&r->lock);
	rendering_free(r);
}

/* Take those who wait for no more than there is off the list. */
static struct pf_wait *served_locked(struct pf_rendering *r)
{
	struct pf_wait **at = &r->waiters, *served = NULL, *waiter;

	while ((waiter = *at)) {
		if (!r->done && !r->failed &&
		    pf_container_of(waiter, struct pf_more, waiter)->end > r->text.len) {
			at = &waiter->next;
			continue;
		}
		*at = waiter->next;
		waiter->next = served;
		served = waiter;
	}
	return served;
}

static bool must_print_locked(const struct pf_rendering *r, uint64_t ahead)
{
	return !r->done && !r->failed && !r->closed && r->text.len < r->wanted + ahead;
}

static void print_piece(struct pf_rendering *r, struct pf_buf *piece)
{
	struct pf_value *v = r->value;
	struct pf_wait *served;
	bool more;

	piece->len = 0;
	more = pf_text_print_some(piece, v->dtype, &v->shape, pf_value_host(v),
				  &r->location, PIECE);
	/* The reader that has seen the end finds its place by stat(2), too. */
	if (!more && !piece->failed) {
		pf_lock(&v->lock);
		v->text_len = r->text.len + piece->len;
		pf_unlock(&v->lock);
		pf_value_unpin(v);
		r->pinned = false;
	}
	pf_lock(&r->lock);
	pf_buf_append(&r->text, piece->data, piece->len);
	r->failed = piece->failed || r->text.failed;
	r->done = !more && !r->failed;
	served = served_locked(r);
	pf_unlock(&r->lock);
	pf_wake_all(served);
}

static void *print_main(void *arg)
{
	pf_autobuf struct pf_buf piece = PF_BUF_INIT;
	struct pf_rendering *r = arg;
	bool left;

	pf_lock(&r->lock);
	r->thread = pthread_self();
	r->begun = true;
	while (must_print_locked(r, AHEAD)) {
		pf_unlock(&r->lock);
		print_piece(r, &piece);
		pf_lock(&r->lock);
	}
	r->begun = r->running = false;
	left = r->left;
	pthread_cond_signal(&r->stopped);
	pf_unlock(&r->lock);
	if (left)
		rendering_free(r);
	return NULL;
}

static void print(struct pf_rendering *r)
{
	pthread_attr_t attr;
	pthread_t thread;
	bool behind;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	behind = pthread_create(&thread, &attr, print_main, r) == 0;
	pthread_attr_destroy(&attr);
	if (!behind)
		print_main(r);
}

int pf_rendering_await(struct pf_rendering *r, uint64_t end, struct pf_more *more)
{
	bool start;
	int ret = 0;

	pf_lock(&r->lock);
	if (r->done || end <= r->text.len)
		ret = 1;
	else if (r->failed)
		ret = -ENOMEM;
	if (r->wanted < end)
		r->wanted = end;
	if (ret == 0 && more) {
		more->end = end;
		pf_wait_add(&r->waiters, &more->waiter);
	}
	start = !r->running && must_print_locked(r, AHEAD / 2);
	r->running |= start;
	pf_unlock(&r->lock);
	if (start)
		print(r);
	return ret;
}

void pf_rendering_read(struct pf_rendering *r, uint64_t len, uint64_t off,
		       void (*read)(void *arg, const void *data, size_t len), void *arg)
{
	pf_autofree char *copy = NULL;
	char few[512];
	void *data;

	pf_lock(&r->lock);
	if (off >= r->text.len)
		len = 0;
	else if (len > r->text.len - off)
		len = r->text.len - off;
	if (r->done) {
		/* It stays where it is. */
		data = r->text.data + (len ? off : 0);
	} else {
		/* As long as it grows it may move. */
		copy = malloc(len ? len : 1);
		data = copy ? copy : few;
		if (!copy && len > sizeof(few))
			len = sizeof(few);
		if (len)
			memcpy(data, r->text.data + off, len);
	}
	pf_unlock(&r->lock);
	read(arg, len ? data : "", len);
}

bool pf_rendering_done(struct pf_rendering *r, uint64_t *size)
{
	PF_LOCK_SCOPE(&r->lock);
	*size = r->text.len;
	return r->done;
}
