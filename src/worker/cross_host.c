/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays to and from other members of the group.
 *
 * A plugin cannot give up a transfer whose other side never comes, moves the bytes of an array of another
 * type, and on some platforms pairs transfers by their order alone.  So the two members meet in the
 * group's store before either calls its plugin:
 *
 *     receiver                    store                      sender
 *     offers "ID TYPE"            transfer/FROM/TO/KEY       awaits it
 *     awaits it                   .../claim/ID               puts its own type
 *     puts it                     .../accept/ID              awaits it
 *     awaits it, if FROM > TO     .../start/ID               puts it
 *
 * The receiver withdraws an offer by claiming it itself.  A device takes part in one transfer at a time;
 * the side with the lower device takes that first, so no circle of transfers waits for itself.  A side
 * that waits puts its last text again if the store has lost it; all of them expire.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#include "internal.h"

enum {
	SLICE_MS = 200, /* after which a cancel is noticed */
	MOST = 64,      /* at a time; each has a thread */
	KEY = 128,
	WHAT = PF_SHAPE_TEXT,
	OFFER = 24 + WHAT,
};

#define YES "yes" /* the text of keys that say no more */

struct transfer {
	LIST_ENTRY(transfer) entry;
	uint64_t id; /* the daemon's, in the request */
	bool begun, cancelled;
	bool moves; /* its device is taken for it */
	/* Its thread's, and of all once it has begun: */
	bool sends;
	int64_t device;   /* this process's */
	int64_t peer;     /* the other one, */
	uint32_t process; /* of this member */
	char name[KEY - 48];
	char what[WHAT]; /* type and shape */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* rank 3; protects: */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static LIST_HEAD(, transfer) transfers; /* owned */

/* --- all of them --------------------------------------------------------------------- */

static struct transfer *find_locked(uint64_t id)
{
	struct transfer *t;

	LIST_FOREACH(t, &transfers, entry)
		if (t->id == id)
			return t;
	return NULL;
}

void pf_cross_host_expect(uint64_t id)
{
	struct transfer *t = calloc(1, sizeof(*t));

	if (!t)
		return;
	t->id = id;
	PF_LOCK_SCOPE(&lock);
	LIST_INSERT_HEAD(&transfers, t, entry);
}

void pf_cross_host_cancel(uint64_t id)
{
	struct transfer *t;

	PF_LOCK_SCOPE(&lock);
	t = find_locked(id);
	if (t)
		t->cancelled = true;
}

static bool is_cancelled(const struct transfer *t)
{
	PF_LOCK_SCOPE(&lock);
	return t->cancelled;
}

/* Another transfer of the same side and name as T, which has not begun. */
static struct transfer *find_same_locked(const struct transfer *t)
{
	struct transfer *other;

	LIST_FOREACH(other, &transfers, entry)
		if (other->begun && other->sends == t->sends &&
		    !strcmp(other->name, t->name))
			return other;
	return NULL;
}

/* Begin T, which is described. */
static int begin(struct transfer *t, struct pf_err *err)
{
	const struct transfer *same, *other;
	unsigned n = 0;

	PF_LOCK_SCOPE(&lock);
	while ((same = find_same_locked(t))) {
		if (!same->cancelled)
			return pf_err_set(err, -EBUSY,
					  "another transfer between these devices has "
					  "the same key");
		pthread_cond_wait(&changed, &lock); /* it is about to end */
	}
	LIST_FOREACH(other, &transfers, entry)
		n += other->begun;
	if (n >= MOST)
		return pf_err_set(err, -EBUSY, "%d transfers are under way", MOST);
	t->begun = true;
	return 0;
}

/* Forget the transfer ID. */
static void end(uint64_t id)
{
	struct transfer *t;

	PF_LOCK_SCOPE(&lock);
	t = find_locked(id);
	if (!t)
		return;
	LIST_REMOVE(t, entry);
	free(t);
	pthread_cond_broadcast(&changed);
}

/* --- devices ------------------------------------------------------------------------- */

static bool is_taken_locked(int64_t device)
{
	const struct transfer *t;

	LIST_FOREACH(t, &transfers, entry)
		if (t->moves && t->device == device)
			return true;
	return false;
}

static void take_device(struct transfer *t)
{
	PF_LOCK_SCOPE(&lock);
	while (is_taken_locked(t->device))
		pthread_cond_wait(&changed, &lock);
	t->moves = true;
}

static void give_device(struct transfer *t)
{
	PF_LOCK_SCOPE(&lock);
	t->moves = false;
	pthread_cond_broadcast(&changed);
}

/* --- meeting ------------------------------------------------------------------------- */

static const char *key_of(char dst[static KEY], const struct transfer *t,
			  const char *part, uint64_t id)
{
	snprintf(dst, KEY, "%s/%s/%" PRIu64, t->name, part, id);
	return dst;
}

/*
 * Wait for the text of KEY, in *RET.  Meanwhile OWN (NULL: none) has the TEXT of this side.  -ECANCELED
 * only if MAY_CANCEL; -ECONNABORTED: the other member has ended.
 */
static int await(const struct transfer *t, const char *key, const char *own,
		 const char *text, bool may_cancel, struct pf_buf *ret,
		 struct pf_err *err)
{
	int r;

	do {
		if (may_cancel && is_cancelled(t))
			return pf_err_set(err, -ECANCELED,
					  "cancelled before the other process came");
		if (pf_group_has_ended(t->process))
			return pf_err_set(err, -ECONNABORTED,
					  "process %u of the group has ended",
					  t->process);
		if (own)
			(void)pf_group_put(own, text, false, NULL);
		ret->len = 0;
		r = pf_group_get(key, SLICE_MS, ret, err);
	} while (r == -ETIMEDOUT || r == -EIO || (may_cancel && is_cancelled(t)));
	if (r == 0 && (ret->failed || !ret->len))
		return pf_err_set(err, -EIO, "the group's store has no text for %s", key);
	return r;
}

/* The other side moves THEIRS, which is not trusted. */
static int compare(const struct transfer *t, char *theirs, struct pf_err *err)
{
	if (!strcmp(theirs, t->what))
		return 0;
	pf_err_clean(theirs, strlen(theirs));
	return pf_err_set(err, -EINVAL, "device %" PRId64 " %s %.100s, not %s", t->peer,
			  t->sends ? "receives" : "sends", theirs, t->what);
}

static int meet_sender(struct transfer *t, struct pf_err *err)
{
	pf_autobuf struct pf_buf theirs = PF_BUF_INIT, start = PF_BUF_INIT;
	char claim[KEY], accept[KEY], key[KEY], offer[OFFER];
	int r;

	key_of(claim, t, "claim", t->id);
	key_of(accept, t, "accept", t->id);
	snprintf(offer, sizeof(offer), "%" PRIu64 " %s", t->id, t->what);
	r = await(t, claim, t->name, offer, true, &theirs, err);
	/* The sender may have claimed it meanwhile. */
	if (r == -ECANCELED && pf_group_put(claim, YES, true, NULL) == -EEXIST)
		r = await(t, claim, NULL, NULL, false, &theirs, err);
	pf_group_drop(t->name);
	if (r == 0)
		r = compare(t, theirs.data, err);
	if (r < 0)
		return r;
	take_device(t);
	if (t->peer < t->device)
		return pf_group_put(accept, YES, true, err);
	return await(t, key_of(key, t, "start", t->id), accept, YES, false, &start, err);
}

/* Claim an offer, whose number is in *ID; take the device before, if that is the lower one. */
static int claim_offer(struct transfer *t, uint64_t *id, struct pf_err *err)
{
	const struct timespec slice = { .tv_nsec = SLICE_MS * 1000000 };

	for (;;) {
		pf_autobuf struct pf_buf offer = PF_BUF_INIT;
		char key[KEY], *what;
		int r = await(t, t->name, NULL, NULL, true, &offer, err);

		if (r < 0)
			return r;
		*id = strtoull(offer.data, &what, 10);
		what += *what == ' ';
		if (t->device < t->peer)
			take_device(t);
		r = pf_group_put(key_of(key, t, "claim", *id), t->what, true, err);
		if (r != -EEXIST)
			return r < 0 ? r : compare(t, what, err);
		/* It was withdrawn, and is about to go. */
		give_device(t);
		nanosleep(&slice, NULL);
	}
}

static int meet_receiver(struct transfer *t, struct pf_err *err)
{
	pf_autobuf struct pf_buf accept = PF_BUF_INIT;
	char claim[KEY], key[KEY];
	uint64_t id = 0;
	int r = claim_offer(t, &id, err);

	if (r == 0)
		r = await(t, key_of(key, t, "accept", id), key_of(claim, t, "claim", id),
			  t->what, false, &accept, err);
	if (r < 0 || t->device < t->peer)
		return r;
	take_device(t);
	return pf_group_put(key_of(key, t, "start", id), YES, true, err);
}

/* --- requests ------------------------------------------------------------------------ */

/* Begin the transfer ID between DEVICE and PEER, of an array of DTYPE and SHAPE: *RET, until end. */
static int begin_as(const struct pf_work *work, uint64_t id, bool sends,
		    const struct pj_device *device, const struct pf_req_peer *peer,
		    enum pf_dtype dtype, const struct pf_shape *shape,
		    struct transfer **ret, struct pf_err *err)
{
	struct transfer *t;
	int r = pj_cross_host_check(work->server->plugin, err);

	pf_lock(&lock);
	*ret = t = find_locked(id);
	pf_unlock(&lock);
	if (r < 0 || !t)
		return r < 0 ? r : pf_err_set(err, -ENOMEM, "no memory for a transfer");
	t->sends = sends;
	t->device = device->id;
	t->peer = peer->device;
	t->process = peer->process;
	snprintf(t->name, sizeof(t->name), "transfer/%" PRId64 "/%" PRId64 "/%" PRIu64,
		 sends ? t->device : t->peer, sends ? t->peer : t->device, peer->key);
	pf_shape_str(t->what, sizeof(t->what), dtype, shape);
	return begin(t, err);
}

static int send(struct pf_work *work, struct pf_err *err)
{
	const struct pf_req_send *q = work->message;
	const struct pj_client *client = work->server->client;
	struct transfer *t;
	enum pf_dtype dtype;
	struct pf_shape shape;
	uint64_t len;
	int r = pf_objects_get(&work->server->objects, &q->buffer, 1, PF_OBJECT_BUFFER,
			       &work->named, err);

	if (r == 0 && q->device >= client->n_devices)
		r = pf_err_set(err, -EPROTO, "there is no device %u", q->device);
	if (r == 0)
		r = pj_buffer_type(client->plugin, work->named->buffer, &dtype, &shape,
				   &len, err);
	if (r == 0)
		r = begin_as(work, q->id, true, &client->devices[q->device], &q->peer,
			     dtype, &shape, &t, err);
	if (r == 0)
		r = meet_receiver(t, err);
	return r < 0 ? r
		     : pj_cross_host_send(client, work->named->buffer, q->peer.device,
					  (int64_t)q->peer.key, err);
}

int pf_handle_send(struct pf_work *work, struct pf_err *err)
{
	const struct pf_req_send *q = work->message;
	int r = send(work, err);

	end(q->id);
	return r;
}

static int receive(struct pf_work *work, struct pf_err *err)
{
	const struct pf_req_receive *q = work->message;
	const struct pj_client *client = work->server->client;
	enum pf_dtype dtype = (enum pf_dtype)q->buffer.dtype;
	struct PJRT_Buffer *buffer = NULL;
	struct transfer *t;
	struct pf_layout layout;
	struct pf_shape shape;
	struct pj_place place;
	int r = pf_server_check_new(work, &place, &shape, &layout, err);

	if (r == 0)
		r = pj_buffer_check(client, &place, q->buffer.len, (int)dtype, &shape,
				    err);
	if (r == 0)
		r = begin_as(work, q->buffer.id, false, place.device, &q->peer, dtype,
			     &shape, &t, err);
	if (r == 0)
		r = meet_sender(t, err);
	if (r == 0)
		r = pj_cross_host_receive(client, &place, q->peer.device,
					  (int64_t)q->peer.key, q->buffer.len, (int)dtype,
					  &shape, &buffer, err);
	return r < 0 ? r
		     : pf_server_answer_array(work, q->buffer.id, buffer, dtype,
					      q->buffer.len, &layout, err);
}

int pf_handle_receive(struct pf_work *work, struct pf_err *err)
{
	const struct pf_req_receive *q = work->message;
	int r = receive(work, err);

	end(q->buffer.id);
	return r;
}
