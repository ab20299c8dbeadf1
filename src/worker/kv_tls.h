/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS between the worker and the store of its group.  Sentences do not name the server: the caller does.
 * -EAGAIN: the server is away; any other error is one that waiting does not mend.
 */
#ifndef PJRTFS_WORKER_KV_TLS_H
#define PJRTFS_WORKER_KV_TLS_H

#include <hiredis/hiredis.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

#include "kv.h"

enum { PROBE_MS = 1000 }; /* for the answer of a server that may be of the other kind */

/* Read the files of CONFIG, before the sandbox is entered: *RET, to be given to SSL_CTX_free.  -EINVAL: a
 * file has not what it is for; -ENOMEM. */
int pf_tls_new(const struct pf_kv_config *config, SSL_CTX **ret, struct pf_err *err);

/* Shake hands with HOST on the connected socket FD, borrowed for as long as *RET, to be given to SSL_free,
 * lives; it blocks no longer.  -EACCES: HOST's certificate is refused, or HOST refuses this process;
 * -EPROTO: it does not speak TLS; -ETIMEDOUT: it does not answer within TIMEOUT_MS. */
int pf_tls_connect(SSL_CTX *tls, const char *host, int fd, int timeout_ms, SSL **ret,
		   struct pf_err *err);

/* Has C got more of an answer than any that is right has? */
static inline bool pf_kv_is_too_long(const redisContext *c)
{
	return c->reader->len > 64 << 20;
}

/* redisCommandArgv on TLS, with the parser of C: send N WORDS of LENS bytes (NULL: they end with a NUL), and wait for the
 * answer, *RET, to be freed.  -EAGAIN: that takes longer than TIMEOUT_MS, or more than 64 MiB; -EACCES as above. */
int pf_tls_ask(SSL *tls, const redisContext *c, int n, const char **words,
	       const size_t *lens, int timeout_ms, redisReply **ret, struct pf_err *err);

/* Does the server at the connected socket FD, which has got nothing yet, speak TLS? */
bool pf_tls_is_spoken(int fd);

#endif
