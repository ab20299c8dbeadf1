/* SPDX-License-Identifier: Apache-2.0 */
#include "pjrtfs/cache/key.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

#include "internal.h"

/* Raised when an entry means something else than before: old ones are not found then. */
enum { FORMAT = 3 };

static bool add(EVP_MD_CTX *sha, const void *data, uint64_t len)
{
	uint8_t prefix[8];

	pf_cache_put64(prefix, len);
	return EVP_DigestUpdate(sha, prefix, sizeof(prefix)) &&
	       EVP_DigestUpdate(sha, data, len);
}

static bool add_text(EVP_MD_CTX *sha, const char *text)
{
	return add(sha, text, strlen(text));
}

static bool add_number(EVP_MD_CTX *sha, uint64_t n)
{
	uint8_t bytes[8];

	pf_cache_put64(bytes, n);
	return add(sha, bytes, sizeof(bytes));
}

static bool add_all(EVP_MD_CTX *sha, const struct pf_cache_inputs *in)
{
	return add_text(sha, "pjrtfs compilation cache") && add_number(sha, FORMAT) &&
	       add_text(sha, in->format) && add(sha, in->program, in->program_len) &&
	       add_number(sha, in->part_off) && add_number(sha, in->part_len) &&
	       add(sha, in->options, in->options_len) && add_text(sha, in->platform) &&
	       add_text(sha, in->platform_version) &&
	       add_number(sha, (uint64_t)in->api_major) &&
	       add_number(sha, (uint64_t)in->api_minor) &&
	       add(sha, in->plugin, sizeof(in->plugin)) && add_text(sha, in->devices) &&
	       add_text(sha, in->host) && add_text(sha, in->environment) &&
	       add_text(sha, in->create) &&
	       /* Last, and only where there is one: all others keep their keys. */
	       (!in->platform_number || add_number(sha, in->platform_number));
}

int pf_cache_key_make(const struct pf_cache_inputs *inputs, struct pf_cache_key *ret,
		      struct pf_err *err)
{
	EVP_MD_CTX *sha = EVP_MD_CTX_new();
	bool ok = sha && EVP_DigestInit_ex(sha, EVP_sha256(), NULL) &&
		  add_all(sha, inputs) && EVP_DigestFinal_ex(sha, ret->bytes, NULL);

	EVP_MD_CTX_free(sha);
	return ok ? 0 : pf_err_set(err, -ENOMEM, "no memory for a SHA-256");
}

static const char digits[] = "0123456789abcdef";

void pf_cache_hex(const uint8_t *bytes, size_t n, char *dst)
{
	for (size_t i = 0; i < n; i++) {
		dst[2 * i] = digits[bytes[i] >> 4];
		dst[2 * i + 1] = digits[bytes[i] & 15];
	}
	dst[2 * n] = '\0';
}

bool pf_cache_unhex(const char *text, size_t n, uint8_t *dst)
{
	for (size_t i = 0; i < 2 * n; i++) {
		const char *digit = text[i] ? strchr(digits, text[i]) : NULL;

		if (!digit)
			return false;
		dst[i / 2] = (uint8_t)(dst[i / 2] << 4 | (digit - digits));
	}
	return true;
}

void pf_cache_key_text(const struct pf_cache_key *key, char dst[PF_CACHE_KEY_TEXT])
{
	pf_cache_hex(key->bytes, sizeof(key->bytes), dst);
}

bool pf_cache_key_parse(const char *text, struct pf_cache_key *ret)
{
	return strlen(text) == PF_CACHE_KEY_TEXT - 1 &&
	       pf_cache_unhex(text, sizeof(ret->bytes), ret->bytes);
}
