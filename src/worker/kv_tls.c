/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenSSL carries what hiredis formats and parses.  No thread and no other descriptor stands between them:
 * the first connection is older than the sandbox, whose files and user are those of the thread that enters it.
 */
#include "kv_tls.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* --- the files ----------------------------------------------------------------------- */

/* The key of a service has no pass phrase; OpenSSL would ask for it on the terminal. */
static int no_pass_phrase(char *buf, int size, int rwflag, void *unused)
{
	(void)buf;
	(void)size;
	(void)rwflag;
	(void)unused;
	return -1;
}

static int unusable(const char *what, const char *path, const char *expected,
		    struct pf_err *err)
{
	const char *why = ERR_reason_error_string(ERR_peek_error());

	return pf_err_set(err, -EINVAL, "group %s %s: expected %s: %s", what, path,
			  expected, why ? why : "OpenSSL cannot read it");
}

static int read_files(SSL_CTX *tls, const struct pf_kv_config *c, struct pf_err *err)
{
	if (!*c->ca)
		(void)SSL_CTX_set_default_verify_paths(tls);
	else if (!SSL_CTX_load_verify_locations(tls, c->ca, NULL))
		return unusable("ca", c->ca, "certificates in PEM", err);
	if (!*c->cert)
		return 0;
	if (SSL_CTX_use_certificate_chain_file(tls, c->cert) != 1)
		return unusable("cert", c->cert, "a certificate in PEM", err);
	/* This compares it with the certificate, too. */
	if (SSL_CTX_use_PrivateKey_file(tls, c->key, SSL_FILETYPE_PEM) != 1)
		return unusable("key", c->key,
				"the certificate's key in PEM, without a pass phrase",
				err);
	return 0;
}

int pf_tls_new(const struct pf_kv_config *config, SSL_CTX **ret, struct pf_err *err)
{
	SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
	int r;

	if (!tls || !SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION)) {
		SSL_CTX_free(tls);
		return pf_err_set(err, -ENOMEM, "no memory for TLS");
	}
	SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_default_passwd_cb(tls, no_pass_phrase);
#ifdef SSL_OP_IGNORE_UNEXPECTED_EOF
	/* A server that is killed is away, and none that violates the protocol: answers show
	 * where they end. */
	SSL_CTX_set_options(tls, SSL_OP_IGNORE_UNEXPECTED_EOF);
#endif
	ERR_clear_error();
	r = read_files(tls, config, err);
	if (r < 0)
		SSL_CTX_free(tls);
	else
		*ret = tls;
	return r;
}

/* --- connections --------------------------------------------------------------------- */

/* Why the call of TLS that returned R failed. */
static int explain(const SSL *tls, int r, int system, struct pf_err *err)
{
	unsigned long e = ERR_peek_error();
	const char *text = ERR_reason_error_string(e);
	long verified = SSL_get_verify_result(tls);
	int code = SSL_get_error(tls, r), reason = ERR_GET_REASON(e);

	if (verified != X509_V_OK)
		return pf_err_set(err, -EACCES, "TLS: its certificate is refused: %s",
				  X509_verify_cert_error_string(verified));
	if (code == SSL_ERROR_SSL && reason == SSL_R_WRONG_VERSION_NUMBER)
		return pf_err_set(err, -EPROTO, "TLS: it speaks something else");
	if (code == SSL_ERROR_SSL)
		return pf_err_set(err, -EACCES, "TLS: %s%s",
				  reason > SSL_AD_REASON_OFFSET ? "it has sent " : "",
				  text ? text : "OpenSSL failed");
	return pf_err_set(err, -EAGAIN, "TLS: %s",
			  code == SSL_ERROR_SYSCALL && system
				  ? strerror(system)
				  : "the server has closed the connection");
}

/* The call of TLS that returned R may be repeated: 0, once the socket is ready for it.  -ETIMEDOUT: that
 * takes longer than MS. */
static int await(const SSL *tls, int r, int64_t ms, struct pf_err *err)
{
	int system = errno, code = SSL_get_error(tls, r);
	struct pollfd p = { .fd = SSL_get_fd(tls),
			    .events = code == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN };

	if (code != SSL_ERROR_WANT_READ && code != SSL_ERROR_WANT_WRITE)
		return explain(tls, r, system, err);
	if (poll(&p, 1, ms > 0 ? (int)ms : 0) == 0)
		return pf_err_set(err, -ETIMEDOUT, "TLS: the server does not answer");
	return 0;
}

/* The certificate must be HOST's, a name or an address. */
static bool name_host(SSL *tls, const char *host)
{
	if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host))
		return true;
	return SSL_set1_host(tls, host) && SSL_set_tlsext_host_name(tls, host);
}

int pf_tls_connect(SSL_CTX *tls, const char *host, int fd, int timeout_ms, SSL **ret,
		   struct pf_err *err)
{
	int64_t end = pf_now_ms() + timeout_ms;
	SSL *ssl = SSL_new(tls);
	int r = 0, n;

	if (!ssl || !name_host(ssl, host) || !SSL_set_fd(ssl, fd) ||
	    fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK)) {
		SSL_free(ssl);
		return pf_err_set(err, -ENOMEM, "no memory for TLS");
	}
	ERR_clear_error();
	while (r == 0 && (n = SSL_connect(ssl)) != 1)
		r = await(ssl, n, end - pf_now_ms(), err);
	if (r < 0)
		SSL_free(ssl);
	else
		*ret = ssl;
	return r;
}

bool pf_tls_is_spoken(int fd)
{
	/* A record with a ServerHello, which no server expects: it answers with an alert. */
	static const char hello[] = { 22, 3, 1, 0, 4, 2, 0, 0, 0 };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char type;

	return send(fd, hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello) &&
	       poll(&p, 1, PROBE_MS) > 0 && recv(fd, &type, 1, MSG_DONTWAIT) == 1 &&
	       type == 21;
}

int pf_tls_ask(SSL *tls, const redisContext *c, int n, const char **words,
	       const size_t *lens, int timeout_ms, redisReply **ret, struct pf_err *err)
{
	char *text, part[16384];
	int len = redisFormatCommandArgv(&text, n, words, lens), r = 0, got;
	int64_t end = pf_now_ms() + timeout_ms;
	void *reply = NULL;

	if (len < 0)
		return pf_err_set(err, -ENOMEM, "no memory for a command");
	ERR_clear_error();
	while (r == 0 && (got = SSL_write(tls, text, len)) <= 0)
		r = await(tls, got, end - pf_now_ms(), err);
	redisFreeCommand(text);
	while (r == 0 && !reply) {
		got = SSL_read(tls, part, sizeof(part));
		if (got <= 0)
			r = await(tls, got, end - pf_now_ms(), err);
		else if (redisReaderFeed(c->reader, part, (size_t)got) ||
			 redisReaderGetReply(c->reader, &reply))
			r = pf_err_set(err, -EAGAIN, "%s", c->reader->errstr);
		else if (!reply && pf_kv_is_too_long(c))
			r = pf_err_set(err, -EAGAIN, "its answer is too long");
		else if (!reply && pf_now_ms() >= end)
			r = pf_err_set(err, -EAGAIN, "its answer does not end");
	}
	*ret = reply;
	return r == -ETIMEDOUT ? -EAGAIN : r;
}
