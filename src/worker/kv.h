/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_WORKER_KV_H
#define PJRTFS_WORKER_KV_H

#include <stdbool.h>
#include <stddef.h>

#include "pjrtfs/base.h"

/*
 * The key-value store of a group.  Every function may be called by any thread, and blocks while the
 * server is asked; keys are those of this group, whose names precede them in the server.
 * -EACCES: the server refuses the login or the key, or TLS refuses one of both sides; -ENOMEM.
 */

struct pf_kv;

struct pf_kv_config {
	const char *host; /* a name or an address; resolved once, by open */
	int port;
	const char *user, *password; /* "": none */
	bool tls;
	const char *ca, *cert, *key; /* files, for TLS; "": the system's; none */
	const char *prefix;          /* of all keys */
	int timeout_ms;              /* for the server to be there */
};

/* What pjrtfs-redis.so has: a library of its own, so that only a worker in a group needs libhiredis and
 * libssl. */
struct pf_kv_calls {
	/* Reach the server, and log in: *RET, which lives as long as the process.  -EIO: it was not there in
	 * time; -EPROTO: it speaks TLS, and this process does not, or the other way round; -EINVAL: a file for
	 * TLS has not what it is for. */
	int (*open)(const struct pf_kv_config *config, struct pf_kv **ret,
		    struct pf_err *err);

	/* Append the value of KEY, LEN bytes, to RET: wait for it up to TIMEOUT_MS, -ETIMEDOUT; with 0 look
	 * once, -ENOENT.  -EIO: the server was away until then. */
	int (*get)(struct pf_kv *kv, const char *key, size_t len, int timeout_ms,
		   struct pf_buf *ret, struct pf_err *err);

	/* Give KEY a value that expires after TTL_MS.  -EEXIST: it has one; -EIO: the server was away for
	 * TIMEOUT_MS. */
	int (*put)(struct pf_kv *kv, const char *key, size_t len, const char *value,
		   size_t value_len, unsigned ttl_ms, int timeout_ms, struct pf_err *err);

	/* Have the value of KEY last for another TTL_MS, or put it again.  -EAGAIN: the server is away. */
	int (*prolong)(struct pf_kv *kv, const char *key, size_t len, const char *value,
		       size_t value_len, unsigned ttl_ms, struct pf_err *err);

	/* Have KEY, a name of this process, for TTL_MS, with the text VALUE.  Its first IDENTITY bytes say
	 * whose it is: -EEXIST if it is another's, whose value is appended to OTHER.  -EAGAIN. */
	int (*hold)(struct pf_kv *kv, const char *key, const char *value, size_t identity,
		    unsigned ttl_ms, struct pf_buf *other, struct pf_err *err);

	/* Append the text of a KEY that hold made to RET; nothing if it is missing.  -EAGAIN. */
	int (*look)(struct pf_kv *kv, const char *key, struct pf_buf *ret,
		    struct pf_err *err);

	/* Remove KEY, if the server can be reached. */
	void (*drop)(struct pf_kv *kv, const char *key, size_t len);
};

/* The table of pjrtfs-redis.so. */
extern const struct pf_kv_calls pf_kv_redis;

/* Load pjrtfs-redis.so, before the sandbox is entered.  -EOPNOTSUPP: this pjrtfs was built without it, or a library that it
 * needs is missing. */
int pf_kv_load(const struct pf_kv_calls **ret, struct pf_err *err);

#endif
