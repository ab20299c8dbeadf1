/* SPDX-License-Identifier: Apache-2.0 */
#include "pjrtfs/cache/entry.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <string.h>

#include "internal.h"

enum { FORMAT = 1, KEY_AT = 16, SHA_AT = 48, LEN_AT = 80, MADE_AT = 104, CHECK_AT = 216 };

static const char magic[8] = { 'p', 'j', 'r', 't', 'f', 's', '\r', '\n' };

void pf_cache_put64(uint8_t *dst, uint64_t n)
{
	for (int i = 0; i < 8; i++)
		dst[i] = (uint8_t)(n >> (8 * i));
}

uint64_t pf_cache_get64(const uint8_t *src)
{
	uint64_t n = 0;

	for (int i = 0; i < 8; i++)
		n |= (uint64_t)src[i] << (8 * i);
	return n;
}

uint64_t pf_cache_body_len(const struct pf_cache_header *header)
{
	uint64_t len = 0;

	for (int i = 0; i < PF_CACHE_PARTS; i++)
		len += header->len[i];
	return len;
}

static bool check_of(const uint8_t *src, uint8_t dst[PF_SHA256])
{
	return EVP_Digest(src, CHECK_AT, dst, NULL, EVP_sha256(), NULL) == 1;
}

int pf_cache_header_write(const struct pf_cache_header *header,
			  uint8_t dst[PF_CACHE_HEADER], struct pf_err *err)
{
	memset(dst, 0, PF_CACHE_HEADER);
	memcpy(dst, magic, sizeof(magic));
	pf_cache_put64(dst + sizeof(magic), FORMAT);
	memcpy(dst + KEY_AT, header->key.bytes, PF_SHA256);
	memcpy(dst + SHA_AT, header->sha, PF_SHA256);
	for (int i = 0; i < PF_CACHE_PARTS; i++)
		pf_cache_put64(dst + LEN_AT + 8 * i, header->len[i]);
	pf_cache_put64(dst + MADE_AT, header->made_ns);
	pf_cache_put64(dst + PF_CACHE_USES_AT, header->uses);
	if (!check_of(dst, dst + CHECK_AT))
		return pf_err_set(err, -ENOMEM, "no memory for a SHA-256");
	return 0;
}

static int read_lengths(const uint8_t *src, uint64_t file_len,
			struct pf_cache_header *ret, struct pf_err *err)
{
	uint64_t left = file_len - PF_CACHE_HEADER;

	for (int i = 0; i < PF_CACHE_PARTS; i++) {
		ret->len[i] = pf_cache_get64(src + LEN_AT + 8 * i);
		if (ret->len[i] > left)
			break;
		left -= ret->len[i];
		if (i + 1 == PF_CACHE_PARTS && left == 0 &&
		    ret->len[PF_CACHE_META] <= PF_CACHE_META_MAX)
			return 0;
	}
	return pf_err_set(err, -EBADMSG,
			  "its %" PRIu64 " bytes are not what its header says", file_len);
}

int pf_cache_header_read(const uint8_t *src, size_t len, uint64_t file_len,
			 struct pf_cache_header *ret, struct pf_err *err)
{
	uint8_t check[PF_SHA256];

	if (len < PF_CACHE_HEADER || file_len < PF_CACHE_HEADER)
		return pf_err_set(err, -EBADMSG, "it is shorter than a header");
	if (memcmp(src, magic, sizeof(magic)))
		return pf_err_set(err, -EBADMSG, "it does not begin as an entry does");
	if (pf_cache_get64(src + sizeof(magic)) != FORMAT)
		return pf_err_set(err, -EBADMSG,
				  "its format is %" PRIu64 ", this build's is %d",
				  pf_cache_get64(src + sizeof(magic)), FORMAT);
	if (!check_of(src, check))
		return pf_err_set(err, -ENOMEM, "no memory for a SHA-256");
	if (memcmp(check, src + CHECK_AT, sizeof(check)))
		return pf_err_set(err, -EBADMSG, "its header is damaged");
	memcpy(ret->key.bytes, src + KEY_AT, PF_SHA256);
	memcpy(ret->sha, src + SHA_AT, PF_SHA256);
	ret->made_ns = pf_cache_get64(src + MADE_AT);
	ret->uses = pf_cache_get64(src + PF_CACHE_USES_AT);
	return read_lengths(src, file_len, ret, err);
}

static int digest(const struct pf_cache_header *header, const void *body,
		  uint8_t ret[PF_SHA256], struct pf_err *err)
{
	if (EVP_Digest(body, pf_cache_body_len(header), ret, NULL, EVP_sha256(), NULL) ==
	    1)
		return 0;
	return pf_err_set(err, -ENOMEM, "no memory for a SHA-256");
}

int pf_cache_body_check(const struct pf_cache_header *header, const void *body,
			struct pf_err *err)
{
	uint8_t sha[PF_SHA256];
	int r = digest(header, body, sha, err);

	if (r == 0 && memcmp(sha, header->sha, sizeof(sha)))
		r = pf_err_set(err, -EBADMSG, "its SHA-256 is not that of its bytes");
	return r;
}

int pf_cache_body_sign(struct pf_cache_header *header, const void *body,
		       struct pf_err *err)
{
	return digest(header, body, header->sha, err);
}
