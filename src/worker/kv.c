/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key-value store of a group: Redis or Valkey, through libhiredis.
 *
 * A value that is given once is a list with one element: BLMOVE from the list to itself waits until
 * there is one and changes nothing, so no process polls.  A process's own key is a string.  All keys
 * expire, so a process that is killed leaves none.
 */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <netdb.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>

#include "kv.h"
#include "kv_tls.h"

enum {
	CONNECT_MS = 2000,
	ANSWER_MS = 3000, /* beyond which a server that does not answer is asked anew */
	SLICE_MS = 1000,  /* of one waiting command */
	PAUSE_MS = 100,   /* between attempts */
	MAX_ADDRESSES = 8,
	MAX_WORDS = 8,
};

/* Only where the key has no value: 1; 0: it has one. */
static const char put_script[] =
	"if redis.call('exists',KEYS[1])==1 then return 0 end "
	"redis.call('rpush',KEYS[1],ARGV[1]) redis.call('pexpire',KEYS[1],ARGV[2]) "
	"return 1";

/* Make the value last, and give it anew if it is gone. */
static const char prolong_script[] =
	"if redis.call('pexpire',KEYS[1],ARGV[2])==0 then "
	"redis.call('rpush',KEYS[1],ARGV[1]) redis.call('pexpire',KEYS[1],ARGV[2]) end "
	"return 1";

/* Unless another's value is there, whose first ARGV[3] bytes differ: it is returned. */
static const char hold_script[] =
	"local v=redis.call('get',KEYS[1]) local n=tonumber(ARGV[3]) "
	"if v and string.sub(v,1,n)~=string.sub(ARGV[1],1,n) then return v end "
	"redis.call('set',KEYS[1],ARGV[1],'px',ARGV[2]) return false";

struct link {
	redisContext *context; /* owned */
	SSL *tls;              /* owned; NULL: without TLS */
	bool answered;         /* the server has, on this connection */
	SLIST_ENTRY(link) entry;
};

struct pf_kv {
	char *name; /* owned, as are the next five: "redis n0:6379", for sentences */
	char *host, *user, *password, *prefix;
	SSL_CTX *tls; /* NULL: without TLS */
	int port;
	char addresses[MAX_ADDRESSES][NI_MAXHOST];
	unsigned n_addresses;
	pthread_mutex_t lock;    /* rank 3; protects idle */
	SLIST_HEAD(, link) idle; /* owned: connections that no thread uses */
};

/* One command: its words, and how long the server may take for it. */
struct command {
	const char *words[MAX_WORDS];
	size_t lens[MAX_WORDS];
	int n;
	int answer_ms;
};

static void word(struct command *c, const char *text, size_t len)
{
	c->words[c->n] = text;
	c->lens[c->n++] = len;
}

static void words(struct command *c, int n, ...)
{
	va_list ap;

	va_start(ap, n);
	for (int i = 0; i < n; i++) {
		const char *text = va_arg(ap, const char *);

		word(c, text, strlen(text));
	}
	va_end(ap);
}

/* Wait PAUSE_MS; false, at once: END (CLOCK_MONOTONIC, ms) comes before. */
static bool may_try_again(int64_t end)
{
	const struct timespec t = { .tv_nsec = PAUSE_MS * 1000000 };

	if (pf_now_ms() + PAUSE_MS > end)
		return false;
	nanosleep(&t, NULL);
	return true;
}

static struct timeval time_of(int ms)
{
	return (struct timeval){ ms / 1000, ms % 1000 * 1000 };
}

/* --- connections --------------------------------------------------------------------- */

static void link_free(struct link *link)
{
	SSL_free(link->tls);
	redisFree(link->context);
	free(link);
}

/* A server without an answer that does not just hang: is it one for TLS? */
static int explain_silence(const struct pf_kv *kv, redisContext *c, struct pf_err *err)
{
	bool hangs = c->err == REDIS_ERR_IO && errno == EAGAIN;

	pf_err_set(err, -EAGAIN, "%s: %s", kv->name, c->errstr);
	if (hangs || redisReconnect(c) || !pf_tls_is_spoken(c->fd))
		return -EAGAIN;
	return pf_err_set(err, -EPROTO,
			  "%s: it speaks TLS: expected --group rediss://, or the port "
			  "without TLS",
			  kv->name);
}

/* hiredis limits each recv(2): a server that sends a byte just before each limit, or without end,
 * would be waited for without end.  As redisCommandArgv, with a limit of MS for all. */
static redisReply *ask_plain(redisContext *c, int n, const char **words,
			     const size_t *lens, int ms)
{
	int64_t end = pf_now_ms() + ms, left;
	void *reply = NULL;
	int done = 0;

	if (redisAppendCommandArgv(c, n, words, lens))
		return NULL;
	while (!reply && (left = end - pf_now_ms()) > 0) {
		if (redisSetTimeout(c, time_of((int)left)) ||
		    (!done && redisBufferWrite(c, &done)) ||
		    (done && redisBufferRead(c)) || redisGetReplyFromReader(c, &reply))
			return NULL;
		if (pf_kv_is_too_long(c))
			break;
	}
	if (!reply) {
		c->err = REDIS_ERR_OTHER;
		snprintf(c->errstr, sizeof(c->errstr), "%s",
			 pf_kv_is_too_long(c) ? "its answer is too long"
					      : "its answer does not end");
	}
	return reply;
}

/* The server's answer, *RET, to be freed, to N WORDS of LENS bytes (NULL: they end with a NUL). */
static int exchange(const struct pf_kv *kv, struct link *link, int n, const char **words,
		    const size_t *lens, int ms, redisReply **ret, struct pf_err *err)
{
	int r = 0;

	if (link->tls) {
		r = pf_tls_ask(link->tls, link->context, n, words, lens, ms, ret, err);
		/* A server refuses a client at once; later, only this connection is broken. */
		if (r == -EACCES && link->answered)
			r = -EAGAIN;
		if (r < 0)
			return pf_err_wrap(err, r, "%s", kv->name);
	} else {
		*ret = ask_plain(link->context, n, words, lens, ms);
		if (!*ret && !link->answered)
			return explain_silence(kv, link->context, err);
		if (!*ret)
			return pf_err_set(err, -EAGAIN, "%s: %s", kv->name,
					  link->context->errstr);
	}
	link->answered = true;
	return 0;
}

/* The error of a REPLY, -errno; 0: it is none.  A server that loads its data, or has lost its
 * master, is as good as one that is not there: -EAGAIN. */
static int reply_error(const struct pf_kv *kv, const redisReply *reply,
		       struct pf_err *err)
{
	static const char *const soon[] = { "LOADING", "MASTERDOWN", "READONLY", "BUSY",
					    "TRYAGAIN" };
	static const char *const denied[] = { "WRONGPASS", "NOAUTH", "NOPERM" };

	if (reply->type != REDIS_REPLY_ERROR)
		return 0;
	for (size_t i = 0; i < PF_ARRAY_SIZE(soon); i++)
		if (!strncmp(reply->str, soon[i], strlen(soon[i])))
			return pf_err_set(err, -EAGAIN, "%s: %s", kv->name, reply->str);
	for (size_t i = 0; i < PF_ARRAY_SIZE(denied); i++)
		if (!strncmp(reply->str, denied[i], strlen(denied[i])))
			return pf_err_set(err, -EACCES, "%s: %s", kv->name, reply->str);
	return pf_err_set(err, -EIO, "%s: %s", kv->name, reply->str);
}

static int log_in(const struct pf_kv *kv, struct link *link, struct pf_err *err)
{
	const char *words[] = { "AUTH", kv->user, kv->password };
	int n = 3, r;
	redisReply *reply;

	if (!*kv->password)
		return 0;
	if (!*kv->user) {
		words[1] = kv->password;
		n = 2;
	}
	r = exchange(kv, link, n, words, NULL, ANSWER_MS, &reply, err);
	if (r < 0)
		return r;
	r = reply_error(kv, reply, err);
	/* One without a password is allowed: the network may protect it. */
	if (r < 0 && strstr(reply->str, "without any password"))
		r = 0;
	freeReplyObject(reply);
	return r;
}

/* Does the server that hangs in a handshake of TLS answer without it? */
static bool is_plain(redisContext *c)
{
	redisReply *reply = NULL;
	bool answers;

	if (!redisReconnect(c) && !redisSetTimeout(c, time_of(PROBE_MS)))
		reply = redisCommand(c, "PING");
	answers = reply;
	freeReplyObject(reply);
	return answers;
}

/* Shake hands on LINK, which is connected. */
static int secure(const struct pf_kv *kv, struct link *link, struct pf_err *err)
{
	int r = pf_tls_connect(kv->tls, kv->host, link->context->fd, ANSWER_MS,
			       &link->tls, err);

	if (r == -EPROTO || (r == -ETIMEDOUT && is_plain(link->context)))
		return pf_err_set(err, -EPROTO,
				  "%s: it does not speak TLS: expected --group redis://, "
				  "or the port with TLS",
				  kv->name);
	return r < 0 ? pf_err_wrap(err, r == -ETIMEDOUT ? -EAGAIN : r, "%s", kv->name)
		     : 0;
}

static int link_open(const struct pf_kv *kv, struct link *link, const char *address,
		     struct pf_err *err)
{
	redisContext *c = link->context =
		redisConnectWithTimeout(address, kv->port, time_of(CONNECT_MS));
	int r = 0;

	if (!c)
		return pf_err_set(err, -ENOMEM, "no memory for a connection");
	if (c->err)
		return pf_err_set(err, -EAGAIN, "%s: %s", kv->name, c->errstr);
	if (kv->tls)
		r = secure(kv, link, err);
	return r < 0 ? r : log_in(kv, link, err);
}

/* -EAGAIN: the server cannot be reached now; -EACCES, -EPROTO. */
static int link_new(struct pf_kv *kv, struct link **ret, struct pf_err *err)
{
	int r = -EAGAIN;

	for (unsigned i = 0; i < kv->n_addresses && r == -EAGAIN; i++) {
		struct link *link = calloc(1, sizeof(*link));

		if (!link)
			return pf_err_set(err, -ENOMEM, "no memory for a connection");
		r = link_open(kv, link, kv->addresses[i], err);
		if (r < 0)
			link_free(link);
		else
			*ret = link;
	}
	return r;
}

static struct link *take_idle(struct pf_kv *kv)
{
	struct link *link;

	PF_LOCK_SCOPE(&kv->lock);
	link = SLIST_FIRST(&kv->idle);
	if (link)
		SLIST_REMOVE_HEAD(&kv->idle, entry);
	return link;
}

static void give_idle(struct pf_kv *kv, struct link *link)
{
	PF_LOCK_SCOPE(&kv->lock);
	SLIST_INSERT_HEAD(&kv->idle, link, entry);
}

static void drop_idle(struct pf_kv *kv)
{
	struct link *link;

	while ((link = take_idle(kv)))
		link_free(link);
}

/* The server's answer to COMMAND in *RET, to be freed.  -EAGAIN: it cannot be reached now, or did not
 * answer. */
static int ask_once(struct pf_kv *kv, const struct command *command, redisReply **ret,
		    struct pf_err *err)
{
	struct link *link = take_idle(kv);
	redisReply *reply;
	int r = link ? 0 : link_new(kv, &link, err);

	if (r < 0)
		return r;
	r = exchange(kv, link, command->n, (const char **)(uintptr_t)command->words,
		     command->lens, ANSWER_MS + command->answer_ms, &reply, err);
	if (r < 0) {
		/* A server that was started anew has closed the others, too. */
		link_free(link);
		drop_idle(kv);
		return r;
	}
	give_idle(kv, link);
	r = reply_error(kv, reply, err);
	if (r < 0)
		freeReplyObject(reply);
	else
		*ret = reply;
	return r;
}

/* The error of the last attempt, -EAGAIN, is one for the caller. */
static int was_away(struct pf_err *err)
{
	if (err)
		err->code = -EIO;
	return -EIO;
}

/* The same, again and again until END (CLOCK_MONOTONIC, ms); then -EIO.  *AGAIN: it was asked more
 * than once, and may have obeyed before. */
static int ask(struct pf_kv *kv, const struct command *command, int64_t end,
	       redisReply **ret, bool *again, struct pf_err *err)
{
	for (*again = false;; *again = true) {
		int r = ask_once(kv, command, ret, err);

		if (r != -EAGAIN)
			return r;
		if (!may_try_again(end))
			return was_away(err);
	}
}

/* --- names --------------------------------------------------------------------------- */

/* PREFIX:KEY, *LEN bytes, the caller's; NULL: no memory. */
static char *full_key(const struct pf_kv *kv, const char *key, size_t key_len,
		      size_t *len)
{
	size_t prefix_len = strlen(kv->prefix);
	char *full = malloc(prefix_len + key_len + 1);

	if (!full)
		return NULL;
	memcpy(full, kv->prefix, prefix_len);
	memcpy(full + prefix_len, key, key_len);
	full[prefix_len + key_len] = '\0';
	*len = prefix_len + key_len;
	return full;
}

/* Have COMMAND run SCRIPT for the key FULL. */
static void eval(struct command *command, const char *script, const char *full,
		 size_t len)
{
	words(command, 3, "EVAL", script, "1");
	word(command, full, len);
}

static int no_key(struct pf_err *err)
{
	return pf_err_set(err, -ENOMEM, "no memory for a key of the store");
}

/* --- the interface ------------------------------------------------------------------- */

static int resolve(struct pf_kv *kv, const char *host, struct pf_err *err)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *list = NULL;
	int r = getaddrinfo(host, NULL, &hints, &list);

	if (r)
		return pf_err_set(err, -EAGAIN, "%s: %s", kv->name, gai_strerror(r));
	for (struct addrinfo *a = list; a && kv->n_addresses < MAX_ADDRESSES;
	     a = a->ai_next)
		if (!getnameinfo(a->ai_addr, a->ai_addrlen,
				 kv->addresses[kv->n_addresses], NI_MAXHOST, NULL, 0,
				 NI_NUMERICHOST))
			kv->n_addresses++;
	freeaddrinfo(list);
	return kv->n_addresses
		       ? 0
		       : pf_err_set(err, -EAGAIN, "%s: it has no address", kv->name);
}

static struct pf_kv *kv_new(const struct pf_kv_config *config)
{
	struct pf_kv *kv = calloc(1, sizeof(*kv));

	if (!kv || pthread_mutex_init(&kv->lock, NULL)) {
		free(kv);
		return NULL;
	}
	kv->port = config->port;
	kv->host = strdup(config->host);
	kv->user = strdup(config->user);
	kv->password = strdup(config->password);
	kv->prefix = strdup(config->prefix);
	if (asprintf(&kv->name, "%s %s:%d", config->tls ? "rediss" : "redis",
		     config->host, config->port) < 0)
		kv->name = NULL;
	return kv;
}

static void kv_free(struct pf_kv *kv)
{
	if (!kv)
		return;
	drop_idle(kv);
	pthread_mutex_destroy(&kv->lock);
	SSL_CTX_free(kv->tls);
	free(kv->name);
	free(kv->host);
	free(kv->user);
	free(kv->password);
	free(kv->prefix);
	free(kv);
}

static int kv_open(const struct pf_kv_config *config, struct pf_kv **ret,
		   struct pf_err *err)
{
	int64_t end = pf_now_ms() + config->timeout_ms;
	struct pf_kv *kv = kv_new(config);
	struct link *link;
	int r = 0;

	if (!kv || !kv->name || !kv->host || !kv->prefix || !kv->user || !kv->password) {
		kv_free(kv);
		return pf_err_set(err, -ENOMEM, "no memory for a store");
	}
	if (config->tls && (r = pf_tls_new(config, &kv->tls, err)) < 0) {
		kv_free(kv);
		return r;
	}
	do {
		r = kv->n_addresses ? 0 : resolve(kv, config->host, err);
		if (r == 0)
			r = link_new(kv, &link, err);
	} while (r == -EAGAIN && may_try_again(end));
	if (r < 0) {
		kv_free(kv);
		return r == -EAGAIN ? was_away(err) : r;
	}
	give_idle(kv, link);
	*ret = kv;
	return 0;
}

static int kv_get(struct pf_kv *kv, const char *key, size_t len, int timeout_ms,
		  struct pf_buf *ret, struct pf_err *err)
{
	int64_t end = pf_now_ms() + timeout_ms, left;
	size_t full_len = 0;
	pf_autofree char *full = full_key(kv, key, len, &full_len);
	bool again, found = false;
	int r;

	if (!full)
		return no_key(err);
	do {
		struct command c = { .n = 0 };
		redisReply *reply;
		char seconds[32];

		left = end - pf_now_ms();
		c.answer_ms = left > SLICE_MS ? SLICE_MS : left > 1 ? (int)left : 1;
		snprintf(seconds, sizeof(seconds), "%d.%03d", c.answer_ms / 1000,
			 c.answer_ms % 1000);
		if (timeout_ms) {
			words(&c, 1, "BLMOVE");
			word(&c, full, full_len);
			word(&c, full, full_len);
			words(&c, 3, "LEFT", "LEFT", seconds);
		} else {
			words(&c, 1, "LINDEX");
			word(&c, full, full_len);
			words(&c, 1, "0");
		}
		r = ask(kv, &c, timeout_ms ? end : end + ANSWER_MS, &reply, &again, err);
		if (r < 0)
			return r;
		found = reply->type == REDIS_REPLY_STRING;
		if (found)
			pf_buf_append(ret, reply->str, (size_t)reply->len);
		freeReplyObject(reply);
	} while (!found && pf_now_ms() < end);
	if (found)
		return 0;
	return pf_err_set(err, timeout_ms ? -ETIMEDOUT : -ENOENT,
			  "%s has no value for %.*s%s", kv->name, (int)len, key,
			  timeout_ms ? " in time" : "");
}

static int kv_put(struct pf_kv *kv, const char *key, size_t len, const char *value,
		  size_t value_len, unsigned ttl_ms, int timeout_ms, struct pf_err *err)
{
	size_t full_len = 0;
	pf_autofree char *full = full_key(kv, key, len, &full_len);
	pf_autobuf struct pf_buf there = PF_BUF_INIT;
	struct command c = { .n = 0 };
	redisReply *reply;
	char ttl[16];
	bool again, put;
	int r;

	if (!full)
		return no_key(err);
	snprintf(ttl, sizeof(ttl), "%u", ttl_ms);
	eval(&c, put_script, full, full_len);
	word(&c, value, value_len);
	words(&c, 1, ttl);
	r = ask(kv, &c, pf_now_ms() + timeout_ms, &reply, &again, err);
	if (r < 0)
		return r;
	put = reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
	freeReplyObject(reply);
	/* An attempt whose answer was lost may have put it. */
	if (!put && again && kv_get(kv, key, len, 0, &there, NULL) == 0)
		put = there.len == value_len && !memcmp(there.data, value, value_len);
	return put ? 0
		   : pf_err_set(err, -EEXIST, "%s has a value for %.*s already", kv->name,
				(int)len, key);
}

static int kv_prolong(struct pf_kv *kv, const char *key, size_t len, const char *value,
		      size_t value_len, unsigned ttl_ms, struct pf_err *err)
{
	size_t full_len = 0;
	pf_autofree char *full = full_key(kv, key, len, &full_len);
	struct command c = { .n = 0 };
	redisReply *reply;
	char ttl[16];
	int r;

	if (!full)
		return no_key(err);
	snprintf(ttl, sizeof(ttl), "%u", ttl_ms);
	eval(&c, prolong_script, full, full_len);
	word(&c, value, value_len);
	words(&c, 1, ttl);
	r = ask_once(kv, &c, &reply, err);
	if (r == 0)
		freeReplyObject(reply);
	return r;
}

static int kv_hold(struct pf_kv *kv, const char *key, const char *value, size_t identity,
		   unsigned ttl_ms, struct pf_buf *other, struct pf_err *err)
{
	size_t full_len = 0;
	pf_autofree char *full = full_key(kv, key, strlen(key), &full_len);
	struct command c = { .n = 0 };
	char ttl[16], same[16];
	redisReply *reply;
	int r;

	if (!full)
		return no_key(err);
	snprintf(ttl, sizeof(ttl), "%u", ttl_ms);
	snprintf(same, sizeof(same), "%zu", identity);
	eval(&c, hold_script, full, full_len);
	words(&c, 3, value, ttl, same);
	r = ask_once(kv, &c, &reply, err);
	if (r < 0)
		return r;
	if (reply->type == REDIS_REPLY_STRING) {
		if (other)
			pf_buf_append(other, reply->str, (size_t)reply->len);
		r = pf_err_set(err, -EEXIST, "%s: another process has %s", kv->name, key);
	}
	freeReplyObject(reply);
	return r;
}

static int kv_look(struct pf_kv *kv, const char *key, struct pf_buf *ret,
		   struct pf_err *err)
{
	size_t full_len = 0;
	pf_autofree char *full = full_key(kv, key, strlen(key), &full_len);
	struct command c = { .n = 0 };
	redisReply *reply;
	int r;

	if (!full)
		return no_key(err);
	words(&c, 1, "GET");
	word(&c, full, full_len);
	r = ask_once(kv, &c, &reply, err);
	if (r < 0)
		return r;
	if (reply->type == REDIS_REPLY_STRING)
		pf_buf_append(ret, reply->str, (size_t)reply->len);
	freeReplyObject(reply);
	return 0;
}

static void kv_drop(struct pf_kv *kv, const char *key, size_t len)
{
	size_t full_len = 0;
	pf_autofree char *full = full_key(kv, key, len, &full_len);
	struct command c = { .n = 0 };
	redisReply *reply;

	if (!full)
		return;
	words(&c, 1, "DEL");
	word(&c, full, full_len);
	if (ask_once(kv, &c, &reply, NULL) == 0)
		freeReplyObject(reply);
}

__attribute__((visibility("default"))) const struct pf_kv_calls pf_kv_redis = {
	.open = kv_open,
	.get = kv_get,
	.put = kv_put,
	.prolong = kv_prolong,
	.hold = kv_hold,
	.look = kv_look,
	.drop = kv_drop,
};
