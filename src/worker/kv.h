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
	const char *host; /* a name or an address; resolved once, by pf_kv_open */
	int port;
	const char *user, *password; /* "": none */
	bool tls;
	const char *ca, *cert, *key; /* files, for TLS; "": the system's; none */
	const char *prefix;          /* of all keys */
	int timeout_ms;              /* for the server to be there */
};

/* Reach the server, and log in: *RET, which lives as long as the process.  -EIO: it was not there in
 * time; -EPROTO: it speaks TLS, and this process does not, or the other way round; -EINVAL: a file for
 * TLS has not what it is for. */
int pf_kv_open(const struct pf_kv_config *config, struct pf_kv **ret, struct pf_err *err);

/* Append the value of KEY, LEN bytes, to RET: wait for it up to TIMEOUT_MS, -ETIMEDOUT; with 0 look
 * once, -ENOENT.  -EIO: the server was away until then. */
int pf_kv_get(struct pf_kv *kv, const char *key, size_t len, int timeout_ms,
	      struct pf_buf *ret, struct pf_err *err);

/* Give KEY a value that expires after TTL_MS.  -EEXIST: it has one; -EIO: the server was away for
 * TIMEOUT_MS. */
int pf_kv_put(struct pf_kv *kv, const char *key, size_t len, const char *value,
	      size_t value_len, unsigned ttl_ms, int timeout_ms, struct pf_err *err);

/* Have the value of KEY last for another TTL_MS, or put it again.  -EAGAIN: the server is away. */
int pf_kv_prolong(struct pf_kv *kv, const char *key, size_t len, const char *value,
		  size_t value_len, unsigned ttl_ms, struct pf_err *err);

/* Have KEY, a name of this process, for TTL_MS, with the text VALUE.  Its first IDENTITY bytes say
 * whose it is: -EEXIST if it is another's, whose value is appended to OTHER.  -EAGAIN. */
int pf_kv_hold(struct pf_kv *kv, const char *key, const char *value, size_t identity,
	       unsigned ttl_ms, struct pf_buf *other, struct pf_err *err);

/* Append the text of a KEY that pf_kv_hold made to RET; nothing if it is missing.  -EAGAIN. */
int pf_kv_look(struct pf_kv *kv, const char *key, struct pf_buf *ret, struct pf_err *err);

/* Remove KEY, if the server can be reached. */
void pf_kv_drop(struct pf_kv *kv, const char *key, size_t len);

#endif
