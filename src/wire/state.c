/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pjrtfs/shm.h"
#include "pjrtfs/state.h"
#include "state_index.h"

enum {
	RECENT = 256,   /* requests that changed names */
	SUSPECTS = 64,  /* requests that may have killed a life */
	AT_WORK = 64,   /* threads that serve requests */
	TALKS = 16384,  /* open files that have a state of their own */
	HEAD = 1 << 16, /* bytes before the first half */
	GONE = 1 << 15, /* in a record's type: the object is gone */
	TYPE_BITS = PF_STATE_KIND_BITS,
};

/* Of a conversation: a request that begins it waits for the next life, or (MIXED) several do, which may
 * come again in another order. */
enum { IDLE, BUSY, POSTPONED, MIXED };

#define MAGIC UINT64_C(0x31656c6179656b70)
#define HALF (UINT64_C(1) << 32)  /* bytes; most of them holes */
#define SLACK (UINT64_C(1) << 20) /* superseded bytes below which no compaction pays */
#define KEPT SLACK /* bytes of a half whose pages stay, as new ones cost page faults */
#define TOTAL (HEAD + 2 * HALF)

/* The begin of the memfd. */
struct head {
	uint64_t magic;
	uint32_t layout;
	_Atomic uint32_t
		active; /* the half that counts; UINT32_MAX: the journal has ended */
	_Atomic uint64_t tail[2]; /* bytes of each half that are complete */
	_Atomic uint64_t counters[PF_STATE_COUNTERS];
	_Atomic uint64_t at_work[AT_WORK];
	struct pf_state_work works[AT_WORK]; /* of these */
	struct suspect {
		uint64_t unique;
		uint64_t deaths;
	} suspects[SUSPECTS];
	uint64_t next_suspect;
	_Atomic uint8_t talks[TALKS]; /* by handle */
};

/* Before each payload, which is padded to 8 bytes. */
struct record {
	uint32_t len;
	uint16_t type;
	uint16_t version; /* of the payload */
	uint64_t id;
	uint64_t unique; /* the request that it was written for, or 0 */
};

/* What messages call the object of a record, and the version of its payload. */
static const struct {
	const char *name;
	uint16_t version;
} types[PF_STATE_TYPES + 1] = {
	[PF_STATE_SESSION] = { "session", 1 },
	[PF_STATE_NODE] = { "node", 2 },
	[PF_STATE_OBJECT] = { "file", 1 }, /* one for all kinds */
	[PF_STATE_OPEN] = { "open file", 2 },
	[PF_STATE_BYTES] = { "bytes", 1 },
	[PF_STATE_VALUE] = { "value", 1 },
	[PF_STATE_BUFFER] = { "buffer", 1 },
	[PF_STATE_POOL] = { "pool", 1 },
	[PF_STATE_ARENA] = { "arena", 1 },
	[PF_STATE_USER] = { "user", 1 },
	[PF_STATE_EXECUTABLE] = { "executable", 1 },
	[PF_STATE_PLUGIN] = { "plugin", 1 },
	[PF_STATE_LIBRARY] = { "FFI library", 1 },
	[PF_STATE_KEPT] = { "kept file", 1 },
	/* 0, as recent inodes had this number when it was PF_STATE_TYPES. */
	[PF_STATE_CLIENT] = { "plugin with a client", 0 },
};

bool pf_state_is_open;

static struct state {
	int fd; /* owned */
	struct head *head;
	pthread_mutex_t lock; /* rank 10; protects the fields below, and the halves */
	struct pf_state_index index; /* of the active half */
	uint64_t live;               /* bytes of the records in index */
	bool restored;               /* no reader has a record */
	uint64_t recent[RECENT];
	unsigned n_recent;
	_Atomic unsigned n_threads;         /* that have a place in at_work */
	struct pf_state_work left[AT_WORK]; /* by the life before */
	unsigned n_left;
} state = { .fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER };

static _Atomic uint64_t own_counters[PF_STATE_COUNTERS];

static _Thread_local uint64_t current;
static _Thread_local bool current_again;
static _Thread_local unsigned place; /* in at_work, + 1; 0: none yet */

static uint64_t key_of(uint32_t type, uint64_t id)
{
	return id << TYPE_BITS | type;
}

static uint64_t size_of(uint32_t len)
{
	return sizeof(struct record) + ((uint64_t)len + 7) / 8 * 8;
}

static char *half_at(unsigned half)
{
	return (char *)state.head + HEAD + half * HALF;
}

static uint64_t key_of_record(const void *record)
{
	const struct record *r = record;

	return key_of(r->type, r->id);
}

/* An empty index of HALF. */
static struct pf_state_index index_of(unsigned half)
{
	return (struct pf_state_index){ .half = half_at(half), .key = key_of_record };
}

/* --- writing ------------------------------------------------------------------------ */

/* A restarted daemon will not find the journal's end, and mounts anew. */
static void give_up_locked(const char *why)
{
	if (atomic_exchange(&state.head->active, UINT32_MAX) != UINT32_MAX)
		pf_log(PF_LOG_WARNING,
		       "if the daemon is restarted now, it mounts anew, without files: %s",
		       why);
	pf_state_is_open = false;
}

static void note_recent_locked(uint64_t unique)
{
	if (unique)
		state.recent[state.n_recent++ % RECENT] = unique;
}

/* Make the index name the record R, at offset OFF of the active half. */
static int index_locked(struct pf_state_index *index, const struct record *r,
			uint64_t off)
{
	uint32_t type = r->type & ~GONE;
	uint64_t key = key_of(type, r->id);
	const void *found = NULL;
	const struct record *old;
	int code = 0;

	if (r->type & GONE) {
		found = pf_state_index_get(index, key);
		pf_state_index_remove(index, key);
	} else {
		code = pf_state_index_put(index, key, off, &found);
	}
	if (code < 0)
		return code;
	old = found;
	if (old)
		state.live -= size_of(old->len);
	if (!(r->type & GONE))
		state.live += size_of(r->len);
	return 0;
}

/* Copy RECORD and its payload behind *TAIL of HALF. */
static void copy_record(unsigned half, uint64_t *tail, const struct record *record)
{
	memcpy(half_at(half) + *tail, record, size_of(record->len));
	*tail += size_of(record->len);
}

/* Give the pages of HALF back, but for those of the next bytes that it gets. */
static void empty_locked(unsigned half)
{
	uint64_t used = atomic_load(&state.head->tail[half]);

	if (used > KEPT)
		(void)fallocate(state.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				(off_t)(HEAD + half * HALF + KEPT), (off_t)(used - KEPT));
}

/* Write what the index names into the other half, which becomes the active one: in the same order, as
 * the records of a file lie side by side. */
static int compact_locked(void)
{
	unsigned from = state.head->active, to = !from;
	struct pf_state_index index = index_of(to);
	uint64_t end = atomic_load(&state.head->tail[from]), tail = 0;
	const struct record *r;
	const void *old;

	for (uint64_t at = 0; at < end; at += size_of(r->len)) {
		uint64_t key, off = tail;

		r = (const void *)(half_at(from) + at);
		key = key_of_record(r);
		if ((r->type & GONE) || pf_state_index_get(&state.index, key) != r)
			continue;
		copy_record(to, &tail, r);
		if (pf_state_index_put(&index, key, off, &old) < 0) {
			pf_state_index_release(&index);
			return -ENOMEM;
		}
	}
	for (unsigned i = 0; i < RECENT; i++) {
		const struct record recent = {
			.type = PF_STATE_TYPES | GONE,
			.unique = state.recent[(state.n_recent + i) % RECENT],
		};

		if (recent.unique)
			copy_record(to, &tail, &recent);
	}
	atomic_store(&state.head->tail[to], tail);
	atomic_store(&state.head->active, to);
	pf_state_index_release(&state.index);
	state.index = index;
	empty_locked(from);
	return 0;
}

/* Make room for SIZE more bytes. */
static int room_locked(uint64_t size)
{
	uint64_t used = atomic_load(&state.head->tail[state.head->active]);

	if (used + size <= HALF && (!state.restored || used <= 4 * state.live + SLACK))
		return 0;
	/* Threads that restore have pointers to records. */
	if (!state.restored)
		return -ENOSPC;
	if (compact_locked() < 0 && used + size > HALF)
		return -ENOMEM;
	used = atomic_load(&state.head->tail[state.head->active]);
	return used + size <= HALF ? 0 : -ENOSPC;
}

/* Append the record of C at *TAIL, and move that. */
static int append_locked(uint64_t *tail, const struct pf_state_change *c)
{
	char *at = half_at(state.head->active) + *tail;
	struct record *r = (void *)at;
	uint64_t off = *tail;

	*r = (struct record){ .len = (uint32_t)(c->len + c->tail_len),
			      .type = (uint16_t)(c->type | (c->data ? 0 : GONE)),
			      .version = types[c->type].version,
			      .id = c->id,
			      .unique = current };
	at += sizeof(*r);
	if (c->len)
		memcpy(at, c->data, c->len);
	if (c->tail_len)
		memcpy(at + c->len, c->tail, c->tail_len);
	*tail += size_of(r->len);
	return index_locked(&state.index, r, off);
}

/* Has R, a record, what C puts? */
static bool equals(const struct record *r, const struct pf_state_change *c)
{
	const char *data = (const void *)(r + 1);

	return r->len == c->len + c->tail_len && !memcmp(data, c->data, c->len) &&
	       (!c->tail_len || !memcmp(data + c->len, c->tail, c->tail_len));
}

/* Does C change anything?  To drop what has no record does not, nor what objects write that come back as
 * they were. */
static bool matters_locked(const struct pf_state_change *c)
{
	const struct record *r;

	if (c->data && state.restored)
		return true;
	r = pf_state_index_get(&state.index, key_of(c->type, c->id));
	return c->data ? !r || !equals(r, c) : r != NULL;
}

void pf_state_write(const struct pf_state_change *changes, unsigned n)
{
	uint64_t size = 0, tail;
	bool names = false;
	int r;

	if (!pf_state_on())
		return;
	for (unsigned i = 0; i < n; i++)
		size += size_of((uint32_t)(changes[i].len + changes[i].tail_len));
	PF_LOCK_SCOPE(&state.lock);
	if (atomic_load(&state.head->active) == UINT32_MAX) /* it has ended */
		return;
	r = room_locked(size);
	tail = atomic_load(&state.head->tail[state.head->active]);
	for (unsigned i = 0; r == 0 && i < n; i++) {
		if (matters_locked(&changes[i]))
			r = append_locked(&tail, &changes[i]);
		names = names || changes[i].type == PF_STATE_NODE;
	}
	if (r < 0) {
		give_up_locked(strerror(-r));
		return;
	}
	if (names)
		note_recent_locked(current);
	/* Now the records count. */
	atomic_store(&state.head->tail[state.head->active], tail);
}

/* --- reading ------------------------------------------------------------------------ */

const void *pf_state_get(enum pf_state_type type, uint64_t id, size_t *len)
{
	const struct record *r;

	if (!pf_state_on())
		return NULL;
	PF_LOCK_SCOPE(&state.lock);
	r = pf_state_index_get(&state.index, key_of(type, id));
	if (!r)
		return NULL;
	*len = r->len;
	return r + 1;
}

void *pf_state_damaged(enum pf_state_type type, uint64_t id, struct pf_err *err)
{
	pf_err_set(err, -EPROTO, "the record of %s %" PRIu64 " is damaged",
		   types[type].name, id);
	return NULL;
}

const void *pf_state_load(enum pf_state_type type, uint64_t id, size_t len, size_t *tail,
			  struct pf_err *err)
{
	size_t all = 0;
	const void *record = pf_state_get(type, id, &all);

	if (!record) {
		pf_err_set(err, -ENOENT, "no %s %" PRIu64 " in the journal",
			   types[type].name, id);
		return NULL;
	}
	if (all < len || (all > len && !tail))
		return pf_state_damaged(type, id, err);
	if (tail)
		*tail = all - len;
	return record;
}

bool pf_state_texts(const void *tail, size_t len, const char *texts[], unsigned n)
{
	const char *at = tail, *end = at + len;

	for (unsigned i = 0; i < n; i++) {
		texts[i] = at;
		at = memchr(at, 0, (size_t)(end - at));
		if (!at)
			return false;
		at++;
	}
	return true;
}

void pf_state_restored(void)
{
	PF_LOCK_SCOPE(&state.lock);
	state.restored = true;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

uint64_t *pf_state_list(enum pf_state_type type, size_t *n)
{
	uint64_t *list;
	const struct record *r;
	size_t pos = 0;

	*n = 0;
	if (!pf_state_on())
		return NULL;
	PF_LOCK_SCOPE(&state.lock);
	list = malloc((state.index.used + 1) * sizeof(*list));
	if (!list)
		return NULL;
	while ((r = pf_state_index_next(&state.index, type, &pos)))
		list[(*n)++] = r->id;
	qsort(list, *n, sizeof(*list), compare);
	return list;
}

_Atomic uint64_t *pf_state_counter(enum pf_state_counter which)
{
	return state.head ? &state.head->counters[which] : &own_counters[which];
}

/* --- requests ----------------------------------------------------------------------- */

/* This thread gets a place in at_work. */
static void take_place(void)
{
	if (!place)
		place = 1 + atomic_fetch_add(&state.n_threads, 1) % AT_WORK;
}

void pf_state_request(uint64_t unique, bool again)
{
	current = unique;
	current_again = again;
	if (!pf_state_on())
		return;
	take_place();
	atomic_store_explicit(&state.head->at_work[place - 1], unique,
			      memory_order_relaxed);
}

void pf_state_describe(const struct pf_state_work *work)
{
	if (!pf_state_on())
		return;
	take_place();
	state.head->works[place - 1] = *work;
}

const struct pf_state_work *pf_state_left(unsigned *n)
{
	*n = state.n_left;
	return state.left;
}

uint64_t pf_state_current(void)
{
	return current;
}

bool pf_state_is_again(void)
{
	return current_again;
}

bool pf_state_was_done(uint64_t unique)
{
	PF_LOCK_SCOPE(&state.lock);
	for (unsigned i = 0; i < RECENT; i++)
		if (unique && state.recent[i] == unique)
			return true;
	return false;
}

static struct suspect *find_suspect(uint64_t unique)
{
	for (unsigned i = 0; i < SUSPECTS; i++)
		if (state.head->suspects[i].unique == unique)
			return &state.head->suspects[i];
	return NULL;
}

unsigned pf_state_deaths(uint64_t unique)
{
	const struct suspect *s = state.head ? find_suspect(unique) : NULL;

	return s ? (unsigned)s->deaths : 0;
}

void pf_state_set_busy(uint64_t handle, bool busy)
{
	if (pf_state_on())
		atomic_store_explicit(&state.head->talks[handle % TALKS],
				      busy ? BUSY : IDLE, memory_order_relaxed);
}

bool pf_state_was_busy(uint64_t handle)
{
	uint8_t talk =
		pf_state_on() ? atomic_load(&state.head->talks[handle % TALKS]) : IDLE;

	return talk == BUSY || talk == MIXED;
}

bool pf_state_any_busy(void)
{
	for (unsigned i = 0; pf_state_on() && i < TALKS; i++)
		if (atomic_load(&state.head->talks[i]) == BUSY)
			return true;
	return false;
}

bool pf_state_begin(uint64_t handle, const _Atomic bool *ends)
{
	_Atomic uint8_t *talk;
	uint8_t was;

	if (!pf_state_on() || !handle)
		return true;
	talk = &state.head->talks[handle % TALKS];
	/* Before ENDS is read: whoever sets it looks for what is busy afterwards. */
	was = atomic_exchange(talk, BUSY);
	if (was == BUSY || !atomic_load(ends))
		return true;
	atomic_store(talk, was == IDLE ? POSTPONED : MIXED);
	return false;
}

bool pf_state_was_postponed(uint64_t handle)
{
	uint8_t was = POSTPONED;

	return pf_state_on() &&
	       atomic_compare_exchange_strong(&state.head->talks[handle % TALKS], &was,
					      IDLE);
}

/* The life before has ended: count a death for each request that it worked on. */
static void count_deaths(void)
{
	struct head *h = state.head;

	for (unsigned i = 0; i < AT_WORK; i++) {
		uint64_t unique = atomic_exchange(&h->at_work[i], 0);
		struct suspect *s = unique ? find_suspect(unique) : NULL;

		if (unique && !s) {
			s = &h->suspects[h->next_suspect++ % SUSPECTS];
			*s = (struct suspect){ .unique = unique };
		}
		if (s)
			s->deaths++;
		if (unique) {
			state.left[state.n_left] = h->works[i];
			state.left[state.n_left++].name[sizeof(h->works[i].name) - 1] = 0;
		}
	}
}

/* --- begin and end ------------------------------------------------------------------ */

static int check_version(const struct record *r, struct pf_err *err)
{
	unsigned type = r->type & ~GONE;

	if (type > PF_STATE_TYPES)
		return pf_err_set(err, -EPROTO, "a record of the unknown type %u", type);
	if (r->version != types[type].version)
		return pf_err_set(err, -EPROTO,
				  "a record of %s: expected version %u, found %u",
				  types[type].name, types[type].version, r->version);
	return 0;
}

/* Read the active half into the index. */
static int replay(struct pf_err *err)
{
	unsigned half = state.head->active;
	uint64_t tail, off = 0;

	if (half > 1)
		return pf_err_set(err, -EPROTO, "the journal has ended before");
	tail = state.head->tail[half];
	state.index = index_of(half);
	while (off < tail) {
		const struct record *r = (const void *)(half_at(half) + off);

		if (tail - off < sizeof(*r) || tail - off < size_of(r->len))
			return pf_err_set(err, -EPROTO, "record at byte %" PRIu64, off);
		if (check_version(r, err) < 0)
			return -EPROTO;
		if ((r->type & ~GONE) == PF_STATE_NODE ||
		    r->type == (PF_STATE_TYPES | GONE))
			note_recent_locked(r->unique);
		if (index_locked(&state.index, r, off) < 0)
			return pf_err_set(err, -ENOMEM, "no memory");
		off += size_of(r->len);
	}
	return 0;
}

static int check(const struct head *h, struct pf_err *err)
{
	if (h->magic != MAGIC)
		return pf_err_set(err, -EPROTO, "expected a journal, found other bytes");
	if (h->layout != PF_STATE_LAYOUT)
		return pf_err_set(err, -EPROTO, "expected version %d, found %u",
				  PF_STATE_LAYOUT, h->layout);
	return 0;
}

int pf_state_open(int fd, struct pf_err *err)
{
	bool is_new = fd < 0;
	void *memory = NULL;
	int r = is_new ? fd = pf_shm_new("pjrtfs-state", TOTAL, err) : 0;

	_Static_assert(sizeof(struct head) <= HEAD, "the head is before the halves");
	_Static_assert(PF_STATE_TYPES < 1 << TYPE_BITS, "types fit keys");
	if (r >= 0)
		r = pf_shm_map(fd, TOTAL, PROT_READ | PROT_WRITE, &memory, err);
	if (r == 0) {
		state.head = memory;
		if (is_new)
			*state.head = (struct head){ .magic = MAGIC,
						     .layout = PF_STATE_LAYOUT };
		r = check(state.head, err);
	}
	if (r == 0)
		r = replay(err);
	if (r < 0) {
		if (is_new)
			pf_closep(&fd);
		pf_state_close();
		return pf_err_wrap(err, r, "the state of the mount");
	}
	count_deaths();
	state.fd = fd;
	pf_state_is_open = true;
	return 0;
}

int pf_state_fd(void)
{
	return state.fd;
}

void pf_state_close(void)
{
	pf_state_is_open = false;
	state.restored = false;
	pf_state_index_release(&state.index);
	state.live = 0;
	memset(state.recent, 0, sizeof(state.recent));
	state.n_recent = 0;
	state.n_left = 0;
	if (state.head)
		munmap(state.head, TOTAL);
	state.head = NULL;
	pf_closep(&state.fd);
}
