/* SPDX-License-Identifier: Apache-2.0 */
/* A cache entry's header: what is taken has lengths that fit, and is what would be written. */
#include <assert.h>
#include <openssl/evp.h>
#include <string.h>

#include "pjrtfs/cache.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	uint8_t bytes[PF_CACHE_HEADER] = { 0 }, again[PF_CACHE_HEADER];
	struct pf_cache_header header;
	struct pf_err err = PF_ERR_INIT;
	struct pf_cache_key key;
	char text[PF_CACHE_KEY_TEXT];
	uint64_t file_len = size;
	int r = pf_cache_header_read(data, size, file_len, &header, &err);

	assert(r == err.code);
	/* No input has the right SHA-256 by chance: put it there, and pick a length. */
	if (size >= PF_CACHE_HEADER + 8) {
		memcpy(bytes, data, PF_CACHE_HEADER);
		memcpy(&file_len, data + PF_CACHE_HEADER, 8);
		EVP_Digest(bytes, 216, bytes + 216, NULL, EVP_sha256(), NULL);
		r = pf_cache_header_read(bytes, PF_CACHE_HEADER, file_len, &header, NULL);
	}
	if (r == 0) {
		assert(pf_cache_body_len(&header) + PF_CACHE_HEADER == file_len);
		assert(header.len[PF_CACHE_META] <= PF_CACHE_META_MAX);
		assert(pf_cache_header_write(&header, again, NULL) == 0);
		assert(!memcmp(again, bytes, 112) || size < PF_CACHE_HEADER + 8);
		pf_cache_key_text(&header.key, text);
		assert(pf_cache_key_parse(text, &key));
		assert(!memcmp(&key, &header.key, sizeof(key)));
	}
	return 0;
}
