/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member of a group.
 *
 * Keys: member:N is the text "IDENTITY STATE BEAT PID HOST" of process N: STATE is here until it has seen
 * all others, then ready, and at last ended.  kv:IDENTITY:KEY is a value of
 * the plugin, and ended:IDENTITY why the group has ended, in which process 0 has this IDENTITY: a group
 * that is started anew finds no values of the one before.  A member is gone when its
 * text has not changed for the configured time; time in which this process could not ask the store does
 * not count.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "kv.h"
#include "pjrtfs/json.h"

enum {
	IDENTITY = 16,   /* hexadecimal digits */
	TEXT = 256,      /* of a member, and more */
	HOST = 65,       /* HOST_NAME_MAX and a NUL */
	GATHER_MS = 200, /* between rounds until all are there */
	REPORT_MS = 10000,
	PREFIX_LEN = 3 + IDENTITY + 1, /* "kv:IDENTITY:" */
};

enum state { MISSING, CONNECTED, LOST, ENDED };

static const char *const state_names[] = { "missing", "connected", "lost", "ended" };

struct member {
	enum state state;
	bool ready;      /* it has seen all of them */
	char text[TEXT]; /* as it was last */
	int64_t seen_ms; /* when it changed */
	char identity[IDENTITY + 1], host[HOST];
	int pid;
};

/* A value that this process has put, and prolongs. */
struct value {
	SLIST_ENTRY(value) entry;
	char *key, *bytes; /* owned */
	size_t key_len, len;
};

static struct group {
	const struct pf_kv_calls *calls; /* of kv */
	struct pf_kv *kv;                /* owned; NULL: not in a group */
	char *name, *store;
	unsigned me, n;
	int timeout_ms, lost_ms;
	char identity[IDENTITY + 1];
	char host[HOST];
	int64_t round_ms; /* when the store was last asked all; the thread's, as the next two */
	int64_t forgiven_ms; /* of the time since then, what counts for no member */
	int64_t reported_ms; /* that members are missing */

	pthread_mutex_t
		holding; /* rank 2; held to write this process's key; protects beat */
	uint64_t beat;
	pthread_mutex_t lock; /* rank 3; protects the fields below */
	pthread_cond_t changed;
	struct member *members;     /* owned; n */
	SLIST_HEAD(, value) values; /* owned */
	bool complete;              /* all were there at once, */
	char epoch[IDENTITY +
		   1];     /* process 0 with this identity; constant from then on */
	bool begun;        /* each of them has seen that, so one may leave */
	bool leaves;       /* in order */
	struct pf_err why; /* the group has ended; code 0: it has not */
	const struct pj_client *client;
} group = { .holding = PTHREAD_MUTEX_INITIALIZER,
	    .lock = PTHREAD_MUTEX_INITIALIZER,
	    .changed = PTHREAD_COND_INITIALIZER };

/* --- sentences ----------------------------------------------------------------------- */

/* Append "processes 2, 3 of 4": those that are not there. */
static void name_missing_locked(struct pf_buf *out)
{
	unsigned n = 0;

	for (unsigned i = 0; i < group.n; i++)
		n += group.members[i].state != CONNECTED;
	pf_buf_puts(out, n == 1 ? "process" : "processes");
	for (unsigned i = 0, k = 0; i < group.n; i++)
		if (group.members[i].state != CONNECTED)
			pf_buf_printf(out, "%s %u", k++ ? "," : "", i);
	pf_buf_printf(out, " of %u", group.n);
}

static int end_locked(const char *sentence)
{
	if (!group.why.code)
		pf_err_set(&group.why, -ECONNABORTED, "%s", sentence);
	pthread_cond_broadcast(&group.changed);
	return group.why.code;
}

/* --- the plugin's keys --------------------------------------------------------------- */

static char *kv_key(const char *key, size_t len, size_t *ret_len)
{
	char *full = malloc(len + PREFIX_LEN + 1);

	if (!full)
		return NULL;
	snprintf(full, PREFIX_LEN + 1, "kv:%s:", group.epoch);
	memcpy(full + PREFIX_LEN, key, len);
	full[PREFIX_LEN + len] = '\0';
	*ret_len = PREFIX_LEN + len;
	return full;
}

static int get(void *arg, const char *key, size_t len, int timeout_ms, struct pf_buf *ret,
	       struct pf_err *err)
{
	size_t full_len = 0;
	pf_autofree char *full = kv_key(key, len, &full_len);

	(void)arg;
	if (!full)
		return pf_err_set(err, -ENOMEM, "no memory for a key");
	return group.calls->get(group.kv, full, full_len,
				timeout_ms > group.timeout_ms ? group.timeout_ms
							      : timeout_ms,
				ret, err);
}

int pf_group_get(const char *key, int timeout_ms, struct pf_buf *ret, struct pf_err *err)
{
	return group.kv ? get(NULL, key, strlen(key), timeout_ms, ret, err)
			: pf_err_set(err, -EPROTO, "there is no group");
}

int pf_group_put(const char *key, const char *text, bool wait, struct pf_err *err)
{
	size_t len = 0;
	pf_autofree char *full = group.kv ? kv_key(key, strlen(key), &len) : NULL;

	if (!full)
		return pf_err_set(err, group.kv ? -ENOMEM : -EPROTO,
				  group.kv ? "no memory for a key" : "there is no group");
	return group.calls->put(group.kv, full, len, text, strlen(text),
				(unsigned)group.lost_ms, wait ? group.timeout_ms : 0,
				err);
}

void pf_group_drop(const char *key)
{
	size_t len = 0;
	pf_autofree char *full = group.kv ? kv_key(key, strlen(key), &len) : NULL;

	if (full)
		group.calls->drop(group.kv, full, len);
}

static void value_free(struct value *v)
{
	if (!v)
		return;
	free(v->key);
	free(v->bytes);
	free(v);
}

static int put(void *arg, const char *key, size_t len, const char *bytes,
	       size_t bytes_len, struct pf_err *err)
{
	struct value *v = calloc(1, sizeof(*v));
	int r;

	(void)arg;
	if (v) {
		v->key = kv_key(key, len, &v->key_len);
		v->bytes = malloc(bytes_len + 1);
		v->len = bytes_len;
	}
	if (!v || !v->key || !v->bytes) {
		value_free(v);
		return pf_err_set(err, -ENOMEM, "no memory for a value");
	}
	memcpy(v->bytes, bytes, bytes_len);
	r = group.calls->put(group.kv, v->key, v->key_len, bytes, bytes_len,
			     (unsigned)group.lost_ms, group.timeout_ms, err);
	if (r < 0) {
		value_free(v);
		return r;
	}
	PF_LOCK_SCOPE(&group.lock);
	SLIST_INSERT_HEAD(&group.values, v, entry);
	return 0;
}

static const struct pj_store store = { .get = get, .put = put };

static struct value *first_value(void)
{
	PF_LOCK_SCOPE(&group.lock);
	return SLIST_FIRST(&group.values);
}

/* Values are only added, at the front. */
static int prolong_values(struct pf_err *err)
{
	int r = 0;

	for (const struct value *v = first_value(); v && r == 0; v = SLIST_NEXT(v, entry))
		r = group.calls->prolong(group.kv, v->key, v->key_len, v->bytes, v->len,
					 (unsigned)group.lost_ms, err);
	return r;
}

/* --- members ------------------------------------------------------------------------- */

static void key_of(char dst[static 32], unsigned number)
{
	snprintf(dst, 32, "member:%u", number);
}

/* Read TEXT into M, which is not trusted; false: it is not a member's. */
static bool read_member(struct member *m, const char *text, enum state *state)
{
	char word[16];
	int pid;

	if (sscanf(text, "%16s %15s %*u %d %64s", m->identity, word, &pid, m->host) !=
		    4 ||
	    strlen(m->identity) != IDENTITY)
		return false;
	m->pid = pid;
	m->ready = strcmp(word, "here") != 0;
	*state = strcmp(word, "ended") ? CONNECTED : ENDED;
	return true;
}

/* The store has TEXT ("": nothing) for member NUMBER, at the time NOW. */
static int saw_locked(unsigned number, const char *text, int64_t now)
{
	struct member *m = &group.members[number];
	char before[IDENTITY + 1], sentence[TEXT * 2];
	enum state state;

	snprintf(before, sizeof(before), "%s", m->identity);
	if (*text && strcmp(text, m->text) != 0 && read_member(m, text, &state)) {
		snprintf(m->text, sizeof(m->text), "%s", text);
		m->seen_ms = now;
		/* The first answer may be the key of a process that has died; the next beat
		 * shows that it lives. */
		if (number == group.me || !strcmp(before, m->identity))
			m->state = state;
		else
			m->state = MISSING;
		if (!group.complete || !strcmp(before, m->identity))
			return 0;
		snprintf(sentence, sizeof(sentence),
			 "process %u of %u (%s) was started anew: the group has ended",
			 number, group.n, m->host);
		return end_locked(sentence);
	}
	if (m->state != CONNECTED || now - m->seen_ms <= group.lost_ms)
		return 0;
	if (!group.complete) {
		m->state = MISSING;
		return 0;
	}
	m->state = LOST;
	snprintf(sentence, sizeof(sentence),
		 "process %u of %u (%s) is gone since %" PRId64 " s: the group has ended",
		 number, group.n, m->host, (now - m->seen_ms) / 1000);
	return end_locked(sentence);
}

static bool leaves(void)
{
	PF_LOCK_SCOPE(&group.lock);
	return group.leaves;
}

/* The state of this process, as the others read it. */
static const char *own_state(void)
{
	PF_LOCK_SCOPE(&group.lock);
	return group.leaves ? "ended" : group.complete ? "ready" : "here";
}

/* Keep this process's own key. */
static int hold(struct pf_err *err)
{
	pf_autobuf struct pf_buf other = PF_BUF_INIT;
	struct member there = { 0 };
	enum state unused;
	char key[32], text[TEXT];
	int r;

	key_of(key, group.me);
	pf_lock(&group.holding);
	snprintf(text, sizeof(text), "%s %s %" PRIu64 " %d %s", group.identity,
		 own_state(), ++group.beat, (int)getpid(), group.host);
	r = group.calls->hold(group.kv, key, text, IDENTITY, (unsigned)group.lost_ms,
			      &other, err);
	pf_unlock(&group.holding);
	if (r == -EEXIST && other.data && read_member(&there, other.data, &unused))
		pf_err_set(err, r, "process %u of group %s runs already on %s, pid %d",
			   group.me, group.name, there.host, there.pid);
	PF_LOCK_SCOPE(&group.lock);
	if (r == 0)
		(void)saw_locked(group.me, text, pf_now_ms());
	return r;
}

static int look_at_others(struct pf_err *err)
{
	for (unsigned i = 0; i < group.n; i++) {
		pf_autobuf struct pf_buf text = PF_BUF_INIT;
		char key[32];
		int r;

		if (i == group.me)
			continue;
		key_of(key, i);
		r = group.calls->look(group.kv, key, &text, err);
		if (r < 0)
			return r;
		PF_LOCK_SCOPE(&group.lock);
		if (saw_locked(i, text.data ? text.data : "", pf_now_ms()) < 0)
			return 0;
	}
	return 0;
}

/* Has another member said why the group has ended? */
static int look_for_end(struct pf_err *err)
{
	pf_autobuf struct pf_buf sentence = PF_BUF_INIT;
	char key[32];
	int r;

	snprintf(key, sizeof(key), "ended:%s", group.epoch);
	r = group.calls->look(group.kv, key, &sentence, err);
	if (r < 0 || !sentence.len)
		return r;
	pf_err_clean(sentence.data, sentence.len);
	PF_LOCK_SCOPE(&group.lock);
	(void)end_locked(sentence.data);
	return 0;
}

/* Time in which the store could not be asked, or this process did not run, does not count. */
static void forgive_locked(int64_t now, int period_ms)
{
	int64_t late = now - group.round_ms - 2 * period_ms - group.forgiven_ms;

	if (!group.round_ms || late <= 0)
		return;
	for (unsigned i = 0; i < group.n; i++)
		group.members[i].seen_ms += late;
	group.forgiven_ms += late;
}

static void judge_locked(void)
{
	bool all = true, ready = true;

	for (unsigned i = 0; i < group.n; i++) {
		all = all && group.members[i].state == CONNECTED;
		ready = ready && group.members[i].ready;
	}
	if (all && !group.complete) {
		snprintf(group.epoch, sizeof(group.epoch), "%s",
			 group.members[0].identity);
		group.complete = true;
	} else if (group.complete && ready && !group.begun) {
		group.begun = true;
		pthread_cond_broadcast(&group.changed);
	}
}

/* One round of the thread.  -EAGAIN: the store is away; else the group has ended. */
static int ask_all(int period_ms, struct pf_err *err)
{
	bool complete;
	int r;

	pf_lock(&group.lock);
	forgive_locked(pf_now_ms(), period_ms);
	complete = group.complete;
	pf_unlock(&group.lock);
	r = hold(err);
	if (r == 0)
		r = prolong_values(err);
	if (r == 0 && complete)
		r = look_for_end(err);
	if (r == 0)
		r = look_at_others(err);
	if (r < 0)
		return r;
	group.round_ms = pf_now_ms();
	group.forgiven_ms = 0;
	PF_LOCK_SCOPE(&group.lock);
	judge_locked();
	return group.why.code;
}

/* --- the end ------------------------------------------------------------------------- */

/* Give the plugin the state of all members, so that what waits for one that is gone fails. */
static void inform_plugin(const struct pj_client *client)
{
	pf_autofree struct pj_process *list = calloc(group.n, sizeof(*list));

	if (!list)
		return;
	for (unsigned i = 0; i < group.n; i++) {
		const struct member *m = &group.members[i];

		list[i].number = (int)i;
		list[i].incarnation = strtoull(m->identity, NULL, 16);
		if (m->state == LOST)
			list[i].error = group.why.text;
	}
	(void)pj_client_update_processes(client, list, group.n, NULL);
}

static void drop_values(void)
{
	for (const struct value *v = first_value(); v; v = SLIST_NEXT(v, entry))
		group.calls->drop(group.kv, v->key, v->key_len);
}

/* Leave the number free, and say why to the others. */
static void say_why(void)
{
	char key[32];

	key_of(key, group.me);
	group.calls->drop(group.kv, key, strlen(key));
	drop_values();
	if (!group.complete)
		return;
	snprintf(key, sizeof(key), "ended:%s", group.epoch);
	(void)group.calls->hold(group.kv, key, group.why.text, strlen(group.why.text),
				2 * (unsigned)group.lost_ms, NULL, NULL);
}

/* The group has ended: so does this process, and the daemon learns why. */
static void __attribute__((__noreturn__)) end(void)
{
	const struct timespec second = { .tv_sec = 1 };
	const struct pj_client *client;

	pf_lock(&group.lock);
	client = group.client;
	pf_unlock(&group.lock);
	say_why();
	if (client)
		inform_plugin(client);
	(void)pf_server_fail(&group.why);
	nanosleep(&second, NULL); /* the daemon ends this process */
	_exit(1);
}

/* --- the thread ---------------------------------------------------------------------- */

static void report_missing(void)
{
	pf_autobuf struct pf_buf names = PF_BUF_INIT;
	int64_t now = pf_now_ms();

	if (now - group.reported_ms < REPORT_MS)
		return;
	if (group.reported_ms) {
		pf_lock(&group.lock);
		name_missing_locked(&names);
		pf_unlock(&group.lock);
		fprintf(stderr, "pjrtfs-worker: group %s waits for %s\n", group.name,
			names.data);
	}
	group.reported_ms = now;
}

/* The store has not answered, as ERR says.  True: for so long that the group has ended. */
static bool is_away(const struct pf_err *err, int64_t since)
{
	char sentence[PF_ERR_TEXT];
	int64_t ms = pf_now_ms() - since;

	if (ms < group.timeout_ms)
		return false;
	snprintf(sentence, sizeof(sentence),
		 "the group's store has been away for %" PRId64
		 " s, so the group has ended: %.200s",
		 ms / 1000, err->text);
	PF_LOCK_SCOPE(&group.lock);
	(void)end_locked(sentence);
	return true;
}

static void *keep(void *unused)
{
	int64_t began = pf_now_ms();

	(void)unused;
	for (;;) {
		struct pf_err err = PF_ERR_INIT;
		int ms = group.lost_ms / 5;
		struct timespec t;
		int r;

		pf_lock(&group.lock);
		if (!group.begun && ms > GATHER_MS)
			ms = GATHER_MS;
		pf_unlock(&group.lock);
		if (leaves())
			return NULL;
		r = ask_all(ms, &err);
		if (r == -EAGAIN &&
		    is_away(&err, group.round_ms ? group.round_ms : began))
			end();
		if (r < 0 && r != -EAGAIN && r != -ENOMEM) {
			pf_lock(&group.lock);
			(void)end_locked(err.text);
			pf_unlock(&group.lock);
			end();
		}
		if (!group.begun)
			report_missing();
		t = (struct timespec){ ms / 1000, ms % 1000 * 1000000 };
		nanosleep(&t, NULL);
	}
}

/* --- the interface ------------------------------------------------------------------- */

static unsigned number_of(struct json_object *o, const char *key)
{
	return (unsigned)json_object_get_int64(json_object_object_get(o, key));
}

static struct pf_kv_config config_of(struct json_object *settings)
{
	return (struct pf_kv_config){
		.host = pf_json_get_string(settings, "host"),
		.port = (int)number_of(settings, "port"),
		.user = pf_json_get_string(settings, "user"),
		.password = pf_json_get_string(settings, "password"),
		.prefix = pf_json_get_string(settings, "prefix"),
		.tls = json_object_get_boolean(json_object_object_get(settings, "tls")),
		.ca = pf_json_get_string(settings, "ca"),
		.cert = pf_json_get_string(settings, "cert"),
		.key = pf_json_get_string(settings, "key"),
		.timeout_ms = (int)number_of(settings, "timeout") * 1000,
	};
}

static int open_store(const struct pf_kv_config *config, struct pf_err *err)
{
	int r = pf_kv_load(&group.calls, err);

	if (r < 0)
		return r;
	return group.calls->open(config, &group.kv, err) < 0
		       ? pf_err_wrap(err, err->code, "the group's store")
		       : 0;
}

int pf_group_open(struct json_object *settings, struct pf_err *err)
{
	const struct pf_kv_config config = config_of(settings);
	const char *name = pf_json_get_string(settings, "name");
	const char *url = pf_json_get_string(settings, "store");
	uint64_t random;

	if (!settings)
		return 0;
	group.me = number_of(settings, "process");
	group.n = number_of(settings, "processes");
	group.timeout_ms = config.timeout_ms;
	group.lost_ms = (int)number_of(settings, "lost") * 1000;
	if (!*config.host || !*config.prefix || !*name || !*url || group.me >= group.n)
		return pf_err_set(err, -EPROTO, "the set-up text lacks parts of a group");
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return pf_err_set(err, -errno, "getrandom: %s", strerror(errno));
	snprintf(group.identity, sizeof(group.identity), "%016" PRIx64, random);
	if (gethostname(group.host, sizeof(group.host) - 1) || !*group.host)
		snprintf(group.host, sizeof(group.host), "?");
	group.name = strdup(name);
	group.store = strdup(url);
	group.members = calloc(group.n, sizeof(*group.members));
	if (!group.name || !group.store || !group.members)
		return pf_err_set(err, -ENOMEM, "no memory for a group");
	return open_store(&config, err);
}

/* Take this process's number.  A process that has died holds it until its key expires; one that lives
 * changes its key. */
static int take_number(struct pf_err *err)
{
	int64_t end = pf_now_ms() + group.lost_ms + group.lost_ms / 2 + GATHER_MS;
	const struct timespec t = { .tv_nsec = GATHER_MS * 1000000 };
	char key[32];
	int r;

	key_of(key, group.me);
	while ((r = hold(err)) == -EEXIST && pf_now_ms() < end)
		nanosleep(&t, NULL);
	return r == -EAGAIN ? pf_err_wrap(err, -EIO, "the group's store") : r;
}

static int await_all(struct pf_err *err)
{
	int64_t began = pf_now_ms();
	struct timespec end = pf_time_in(CLOCK_MONOTONIC, (uint64_t)group.timeout_ms);

	PF_LOCK_SCOPE(&group.lock);
	while (!group.begun && !group.why.code)
		if (pthread_cond_clockwait(&group.changed, &group.lock, CLOCK_MONOTONIC,
					   &end))
			break;
	if (group.why.code) {
		*err = group.why;
		return err->code;
	}
	if (!group.begun) {
		pf_autobuf struct pf_buf names = PF_BUF_INIT;

		name_missing_locked(&names);
		return pf_err_set(err, -ETIMEDOUT, "group %s waited %" PRId64 " s for %s",
				  group.name, (pf_now_ms() - began) / 1000,
				  names.data ? names.data : "");
	}
	return 0;
}

int pf_group_join(const struct pj_store **ret, struct pf_err *err)
{
	pthread_t thread;
	int r;

	*ret = NULL;
	if (!group.kv)
		return 0;
	r = take_number(err);
	if (r < 0)
		return r;
	r = pthread_create(&thread, NULL, keep, NULL);
	if (r)
		return pf_err_set(err, -r, "start a thread: %s", strerror(r));
	pthread_detach(thread);
	r = await_all(err);
	if (r == 0)
		*ret = &store;
	return r;
}

int pf_group_made(const struct pj_client *client, struct pf_err *err)
{
	size_t own = 0;

	if (!group.kv)
		return 0;
	for (size_t i = 0; i < client->n_devices; i++)
		own += client->devices[i].addressable;
	if (group.n > 1 && own == client->n_devices)
		return pf_err_set(
			err, -EOPNOTSUPP,
			"the plugin makes no client of several processes: "
			"expected devices of all %u processes of the group, "
			"found only this one's %zu; mount it without --group, or "
			"another plugin",
			group.n, own);
	PF_LOCK_SCOPE(&group.lock);
	group.client = client;
	return 0;
}

void pf_group_explain(struct pf_err *err)
{
	PF_LOCK_SCOPE(&group.lock);
	if (group.why.code)
		*err = group.why;
}

bool pf_group_has_ended(unsigned number)
{
	PF_LOCK_SCOPE(&group.lock);
	return number < group.n && group.members[number].state == ENDED;
}

void pf_group_leave(void)
{
	if (!group.kv)
		return;
	pf_lock(&group.lock);
	group.leaves = true;
	pf_unlock(&group.lock);
	(void)hold(NULL);
	drop_values();
}

struct json_object *pf_group_json(void)
{
	struct json_object *o = json_object_new_object();
	struct json_object *list = json_object_new_array();
	int64_t now = pf_now_ms();

	PF_LOCK_SCOPE(&group.lock);
	pf_json_add_string(o, "group", group.name);
	pf_json_add_string(o, "store", group.store);
	pf_json_add_int(o, "process", group.me);
	for (unsigned i = 0; i < group.n; i++) {
		const struct member *m = &group.members[i];
		struct json_object *one = json_object_new_object();

		pf_json_add_int(one, "id", i);
		pf_json_add_string(one, "state", state_names[m->state]);
		if (*m->identity) {
			pf_json_add_string(one, "host", m->host);
			pf_json_add_int(one, "pid", m->pid);
			pf_json_add_seconds(one, "heartbeat_age",
					    (double)(now - m->seen_ms) / 1000);
		}
		pf_json_append(list, one);
	}
	pf_json_add(o, "processes", list);
	return o;
}
