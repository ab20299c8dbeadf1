/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/shm.h"
#include "pjrtfs/wire.h"

enum {
	MAX_CALLS = 65536,   /* under way at once */
	MAX_LATE = 64 << 20, /* bytes of frees that wait for room in the ring */
	LATE_MS = 10,        /* how often they are tried again */
	ROUSE_MS = 1000,     /* how long a lost wake-up can delay a request or a reply */
};

struct pf_life {
	_Atomic unsigned refs;
	uint64_t number;           /* no other life of the daemon has it */
	char *name;                /* owned; the plugin's */
	struct pf_channel channel; /* rings */
	const uint8_t *pool;       /* owned mapping of pool_size bytes */
	uint64_t pool_size;
	pthread_t thread;     /* takes replies */
	int broken_fd;        /* borrowed; an eventfd: the worker damaged the rings */
	struct pf_tail *tail; /* borrowed, until it is dead */
	_Atomic bool broken;
	_Atomic bool stopped; /* the daemon itself is about to end it */
	_Atomic bool damaged; /* its pool lost a page */
	_Atomic bool silent;  /* somebody gave up waiting, and nothing came since */
	bool joined;          /* the ender's own */
	struct stat plugin;   /* st_ino 0: not known */
	char **env;           /* owned; NULL: not known yet */
	unsigned n_devices;
	_Atomic int (
		*alive)[PF_ALIVE_KINDS]; /* owned: of each device, and of the plugin */

	pthread_mutex_t lock; /* rank 8; protects the fields below */
	struct pf_map calls;  /* tag to struct pf_call */
	uint64_t last_tag;
	uint64_t last_mark; /* of the latest call */
	struct pf_buf late; /* whole messages that found the ring full */
	size_t late_sent;   /* bytes of them that were sent meanwhile */
	bool dead;
	struct pf_err why;          /* once dead */
	unsigned lost[PF_OP_COUNT]; /* calls that the death ended */
};

/* No more calls; the first reason that is given counts. */
static void refuse_more(struct pf_life *life, const struct pf_err *why)
{
	pf_lock(&life->lock);
	if (!life->dead)
		life->why = *why;
	life->dead = true;
	pf_unlock(&life->lock);
	pf_ring_close(&life->channel.request);
	pf_ring_close(&life->channel.reply);
}

/* Have the watcher end the process, unless it does so already. */
static void break_locked(struct pf_life *life)
{
	uint64_t one = 1;

	if (life->dead || atomic_exchange(&life->broken, true))
		return;
	if (write(life->broken_fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

/*
 * The worker wrote nonsense into a ring, or closed one: requests and replies pass no more.
 * Takes no caller's call: the reply thread, which wakes, fails those under way.
 */
static void give_up(struct pf_life *life)
{
	struct pf_err why = PF_ERR_INIT;

	pf_err_set(
		&why, -EIO,
		"the worker of plugin %s damaged its rings of requests and replies; it "
		"is ended and started again",
		life->name);
	pf_lock(&life->lock);
	break_locked(life);
	pf_unlock(&life->lock);
	refuse_more(life, &why);
}

/* --- answers ------------------------------------------------------------------------ */

/* Where a thread puts the message it takes; freed when the thread ends. */
static pthread_key_t message_key;
static pthread_once_t message_once = PTHREAD_ONCE_INIT;

static void make_message_key(void)
{
	if (pthread_key_create(&message_key, free))
		abort();
}

static void *message_buffer(void)
{
	void *p;

	pthread_once(&message_once, make_message_key);
	p = pthread_getspecific(message_key);
	if (!p) {
		p = malloc(PF_RING_MESSAGE);
		if (p)
			pthread_setspecific(message_key, p);
	}
	return p;
}

static struct pf_call *take_call(struct pf_life *life, uint64_t tag)
{
	struct pf_call *call = NULL;

	pf_lock(&life->lock);
	if (tag)
		call = pf_map_remove(&life->calls, tag);
	pf_unlock(&life->lock);
	return call;
}

/* The plugin's own failure, as the worker told it. */
static int reply_error(const struct pf_rep_head *rep, size_t len, struct pf_err *err)
{
	int code = rep->code > -4096 ? rep->code : -EIO;

	pf_err_set_lines(err, code, (const char *)(rep + 1), len - sizeof(*rep));
	err->pjrt_code = rep->pjrt_code;
	return code;
}

/*
 * The life whose answer this thread gives just now.  What that frees is sent quietly, and the
 * worker is woken once: waking it each time takes longer than all the rest.
 */
static _Thread_local struct answering {
	struct pf_life *life;
	bool freed;
} answering;

static void give(struct pf_life *life, struct pf_call *call, int code,
		 const struct pf_err *err, const void *message, size_t len)
{
	struct answering before = answering; /* who settles may do so while it answers */

	answering = (struct answering){ .life = life };
	call->done(call, code, err, message, len);
	if (answering.freed)
		pf_ring_nudge(&life->channel.request);
	answering = before;
}

static void dispatch(struct pf_life *life, const void *message, size_t len)
{
	const struct pf_rep_head *rep = message;
	struct pf_err err = PF_ERR_INIT;
	struct pf_call *call;

	if (atomic_load_explicit(&life->silent, memory_order_relaxed))
		atomic_store(&life->silent, false);
	/* Without a tag no call can be found, and the one that was answered would wait for
	 * ever. */
	if (len < sizeof(rep->head)) {
		give_up(life);
		return;
	}
	/* Any other nonsense fails only the call that it answers. */
	call = take_call(life, rep->head.tag);
	if (!call)
		return;
	if (len < sizeof(*rep) || rep->head.len != len)
		give(life, call,
		     pf_err_set(&err, -EPROTO,
				"the worker of plugin %s answered with %zu bytes, whose "
				"head says %u",
				life->name, len, rep->head.len),
		     &err, NULL, 0);
	else if (rep->code < 0)
		give(life, call, reply_error(rep, len, &err), &err, NULL, 0);
	else if (rep->head.op != call->op || len < call->reply_min)
		give(life, call,
		     pf_err_set(&err, -EPROTO,
				"the worker of plugin %s answered "
				"with a message that is not of that request",
				life->name),
		     &err, NULL, 0);
	else
		give(life, call, 0, NULL, message, len);
}

/* Take one answer.  False: there is none, or there can be none any more. */
static bool take_one(struct pf_life *life)
{
	void *message = message_buffer();
	ssize_t n;

	if (!message)
		return false;
	n = pf_ring_take(&life->channel.reply, message, PF_RING_MESSAGE);
	if (n == -EPROTO || n == -EPIPE)
		give_up(life);
	if (n < 0)
		return false;
	pf_ring_nudge(&life->channel.reply);
	dispatch(life, message, (size_t)n);
	return true;
}

void pf_life_settle(struct pf_life *life, const _Atomic bool *done, unsigned us)
{
	uint64_t now = pf_now_ns(), end = now + us * UINT64_C(1000);

	/* Who is being given an answer still reads it, where the next one would lie. */
	if (answering.life)
		return;
	while (!atomic_load(done) && now < end) {
		/* Time is up, another thread spins already, or it was faster. */
		if (!pf_ring_wait(&life->channel.reply, (unsigned)((end - now) / 1000),
				  0) ||
		    !take_one(life))
			return;
		now = pf_now_ns();
	}
}

/* --- questions ------------------------------------------------------------------------ */

static bool is_damage(int r)
{
	return r == -EPROTO || r == -EPIPE;
}

static void send_late_locked(struct pf_life *life)
{
	while (life->late_sent < life->late.len) {
		const struct pf_msg_head *head =
			(const void *)(life->late.data + life->late_sent);
		int r = pf_ring_post(&life->channel.request, head, head->len, NULL, 0);

		if (r == -EAGAIN)
			return;
		if (is_damage(r))
			break_locked(life);
		life->late_sent += head->len;
	}
	pf_buf_consume(&life->late, life->late_sent);
	life->late_sent = 0;
}

/* Answer what is under way: WHY and, if QUOTE, what was printed since each began. */
static void fail_calls(struct pf_life *life, const struct pf_err *why, bool quote)
{
	uint64_t since = 1,
		 until = 0; /* marks that give the same words as the last one */
	struct pf_err quoted = *why;
	struct pf_map calls;
	struct pf_call *call;
	size_t pos = 0;

	pf_lock(&life->lock);
	calls = life->calls;
	memset(&life->calls, 0, sizeof(life->calls));
	while ((call = pf_map_next(&calls, &pos)))
		life->lost[call->op < PF_OP_COUNT ? call->op : 0]++;
	pf_unlock(&life->lock);
	pos = 0;
	while ((call = pf_map_next(&calls, &pos))) {
		if (quote && (call->mark < since || call->mark > until)) {
			quoted = *why;
			since = call->mark;
			until = pf_tail_quote(life->tail, since, PF_TAIL_ANY, &quoted);
		}
		call->done(call, quoted.code, &quoted, NULL, 0);
	}
	pf_map_release(&calls);
}

static void *reply_main(void *arg)
{
	struct pf_life *life = arg;
	bool dead = false, late = false;

	while (!dead) {
		/* A worker that wrote over the marks of a ring's sleepers loses wake-ups. */
		if (!pf_ring_wait(&life->channel.reply, 0, late ? LATE_MS : ROUSE_MS))
			pf_ring_rouse(&life->channel.request);
		while (take_one(life))
			;
		pf_lock(&life->lock);
		dead = life->dead;
		send_late_locked(life);
		late = life->late.len > 0;
		pf_unlock(&life->lock);
	}
	if (atomic_load(&life->broken))
		fail_calls(life, &life->why, false); /* why stays, once dead */
	return NULL;
}

static int dead_error(const struct pf_life *life, struct pf_err *err)
{
	return pf_err_set(err, -EIO, "%s", life->why.text);
}

static int call_held(struct pf_life *life, struct pf_call *call, void *request,
		     size_t len, const void *tail, size_t tail_len, struct pf_err *err)
{
	struct pf_msg_head *head = request;
	int r;

	head->len = (uint32_t)(len + tail_len);
	call->op = head->op;
	pf_lock(&life->lock);
	if (life->dead) {
		r = dead_error(life, err);
		pf_unlock(&life->lock);
		return r;
	}
	call->tag = head->tag = ++life->last_tag;
	call->mark = life->last_mark = pf_tail_mark(life->tail);
	if (life->calls.used >= MAX_CALLS)
		r = -EAGAIN;
	else
		r = pf_map_put(&life->calls, call->tag, call);
	pf_unlock(&life->lock);
	if (r == 0) {
		r = pf_ring_post(&life->channel.request, request, len, tail, tail_len);
		if (r == 0)
			return 0;
		/* If the life ended meanwhile, the call has been answered already. */
		if (!take_call(life, head->tag))
			return 0;
	}
	if (is_damage(r)) {
		give_up(life);
		return dead_error(life, err);
	}
	if (r == -EAGAIN)
		return pf_err_set(err, -EBUSY, "too much is under way on plugin %s",
				  life->name);
	return pf_err_set(err, r == -EMSGSIZE ? -E2BIG : r,
			  "ask the worker of plugin %s: %s", life->name, strerror(-r));
}

int pf_life_call(struct pf_life *life, struct pf_call *call, void *request, size_t len,
		 const void *tail, size_t tail_len, struct pf_err *err)
{
	int r;

	/* Who is answered may let go of it while the worker is still being woken here. */
	pf_life_ref(life);
	r = call_held(life, call, request, len, tail, tail_len, err);
	pf_life_unref(life);
	return r;
}

static void post_free(struct pf_life *life, enum pf_op op, uint64_t id)
{
	struct pf_req_id req = { .head = { .op = op, .len = sizeof(req) }, .id = id };
	bool quiet = answering.life == life;
	int r = -EAGAIN;

	PF_LOCK_SCOPE(&life->lock);
	if (life->dead)
		return;
	if (!life->late.len)
		r = (quiet ? pf_ring_post_quiet : pf_ring_post)(&life->channel.request,
								&req, sizeof(req), NULL,
								0);
	answering.freed = answering.freed || (quiet && r == 0);
	if (is_damage(r))
		break_locked(life);
	if (r != -EAGAIN)
		return;
	if (life->late.len < MAX_LATE)
		pf_buf_append(&life->late, &req, sizeof(req));
}

void pf_life_free_block(struct pf_life *life, uint64_t off)
{
	post_free(life, PF_OP_BLOCK_FREE, off);
}

void pf_life_free_id(struct pf_life *life, enum pf_op op, uint64_t id)
{
	post_free(life, op, id);
}

uint64_t pf_life_number(const struct pf_life *life)
{
	return life->number;
}

const void *pf_life_pool(const struct pf_life *life, uint64_t off, uint64_t len)
{
	if (off > life->pool_size || len > life->pool_size - off)
		return NULL;
	return life->pool + off;
}

bool pf_life_alive(struct pf_life *life)
{
	PF_LOCK_SCOPE(&life->lock);
	return !life->dead;
}

bool pf_life_silent(const struct pf_life *life)
{
	return atomic_load(&life->silent);
}

void pf_life_set_silent(struct pf_life *life)
{
	atomic_store(&life->silent, true);
}

bool pf_life_damaged(const struct pf_life *life)
{
	return atomic_load_explicit(&life->damaged, memory_order_relaxed);
}

const char *pf_life_unfit(const struct pf_life *life)
{
	if (atomic_load(&life->broken))
		return "FATAL: it damaged its rings of requests and replies\n";
	if (atomic_load(&life->damaged))
		return "FATAL: memory that it shares with the daemon could not be read\n";
	return NULL;
}

void pf_life_stop(struct pf_life *life)
{
	atomic_store(&life->stopped, true);
}

bool pf_life_was_stopped(const struct pf_life *life)
{
	return atomic_load(&life->stopped);
}

bool pf_life_is_broken(const struct pf_life *life)
{
	return atomic_load(&life->broken);
}

const struct stat *pf_life_plugin(const struct pf_life *life)
{
	return life->plugin.st_ino ? &life->plugin : NULL;
}

void pf_life_set_environ(struct pf_life *life, char **env)
{
	life->env = env;
}

char *const *pf_life_environ(const struct pf_life *life)
{
	return life->env;
}

void pf_life_set_plugin(struct pf_life *life, const struct stat *st)
{
	life->plugin = *st;
}

int pf_life_set_devices(struct pf_life *life, unsigned n)
{
	life->alive = calloc(n + 1, sizeof(*life->alive));
	life->n_devices = n;
	return life->alive ? 0 : -ENOMEM;
}

static _Atomic int *counter(const struct pf_life *life, enum pf_alive what,
			    unsigned device)
{
	if (!life->alive || (device >= life->n_devices && device != PF_NO_DEVICE))
		return NULL;
	return &life->alive[device == PF_NO_DEVICE ? life->n_devices : device][what];
}

void pf_life_count(struct pf_life *life, enum pf_alive what, unsigned device, int change)
{
	_Atomic int *n = counter(life, what, device);

	if (n)
		atomic_fetch_add_explicit(n, change, memory_order_relaxed);
}

unsigned pf_life_alive_on(const struct pf_life *life, enum pf_alive what, unsigned device)
{
	_Atomic int *n = counter(life, what, device);
	int count = n ? atomic_load_explicit(n, memory_order_relaxed) : 0;

	return count > 0 ? (unsigned)count : 0;
}

unsigned pf_life_lost(struct pf_life *life, enum pf_op op)
{
	PF_LOCK_SCOPE(&life->lock);
	return life->lost[op];
}

/* --- birth and death ------------------------------------------------------------------ */

int pf_life_new(const char *name, int channel_fd, int pool_fd, uint64_t pool_size,
		int broken_fd, struct pf_tail *tail, struct pf_life **ret,
		struct pf_err *err)
{
	static _Atomic uint64_t lives;
	struct pf_life *life = calloc(1, sizeof(*life));
	void *pool;
	int r;

	if (!life || !(life->name = strdup(name))) {
		free(life);
		return pf_err_set(err, -ENOMEM, "no memory for a worker");
	}
	pool = mmap(NULL, pool_size, PROT_READ, MAP_SHARED | MAP_NORESERVE, pool_fd, 0);
	if (pool == MAP_FAILED) {
		r = pf_err_set(err, -errno, "map the pool: %s", strerror(errno));
		goto fail;
	}
	life->number = atomic_fetch_add(&lives, 1) + 1;
	life->broken_fd = broken_fd;
	life->tail = tail;
	life->last_mark = pf_tail_mark(tail);
	life->pool = pool;
	life->pool_size = pool_size;
	pf_guard_add(pool, pool_size, &life->damaged, broken_fd);
	r = pf_channel_map(&life->channel, channel_fd, err);
	if (r < 0)
		goto fail;
	if (pthread_mutex_init(&life->lock, NULL))
		abort();
	atomic_init(&life->refs, 1);
	if (pthread_create(&life->thread, NULL, reply_main, life)) {
		r = pf_err_set(err, -EAGAIN, "no thread for a worker's replies");
		goto fail;
	}
	*ret = life;
	return 0;
fail:
	pf_channel_release(&life->channel);
	if (life->pool) {
		pf_guard_remove(life->pool);
		munmap((void *)(uintptr_t)life->pool, pool_size);
	}
	free(life->name);
	free(life);
	return r;
}

void pf_life_quote(struct pf_life *life, struct pf_err *why)
{
	enum pf_tail_lines lines = PF_TAIL_FATAL;
	struct pf_call *call;
	uint64_t mark;
	size_t pos = 0;

	pf_lock(&life->lock);
	mark = life->last_mark;
	while ((call = pf_map_next(&life->calls, &pos))) {
		lines = PF_TAIL_ANY;
		if (call->mark < mark)
			mark = call->mark;
	}
	pf_unlock(&life->lock);
	pf_tail_quote(life->tail, mark, lines, why);
}

void pf_life_end(struct pf_life *life, const struct pf_err *why,
		 const struct pf_err *quoted)
{
	refuse_more(life, quoted);
	if (life->joined)
		return;
	life->joined = true;
	pthread_join(life->thread, NULL);
	fail_calls(life, why, true);
}

struct pf_life *pf_life_ref(struct pf_life *life)
{
	atomic_fetch_add(&life->refs, 1);
	return life;
}

void pf_life_unref(struct pf_life *life)
{
	if (!life || atomic_fetch_sub(&life->refs, 1) != 1)
		return;
	pf_channel_release(&life->channel);
	pf_guard_remove(life->pool);
	munmap((void *)(uintptr_t)life->pool, life->pool_size);
	pf_map_release(&life->calls);
	pf_buf_release(&life->late);
	pf_process_environ_free(life->env);
	free(life->alive);
	pthread_mutex_destroy(&life->lock);
	free(life->name);
	free(life);
}
