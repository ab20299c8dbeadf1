/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "internal.h"
#include "pjrtfs/cache.h"

/* The host and the environment, on which compiled programs depend. */

enum { MAX_FILE = 1 << 20 };

ssize_t pf_cache_read_at(int fd, void *dst, size_t len, uint64_t off)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = pread(fd, (char *)dst + got, len - got, (off_t)(off + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

void pf_cache_read_text(int fd, size_t max, struct pf_buf *out)
{
	char *dst = pf_buf_reserve(out, max);
	ssize_t n = dst ? pf_cache_read_at(fd, dst, max, 0) : 0;

	if (n > 0)
		out->len += (size_t)n;
	if (dst)
		out->data[out->len] = '\0';
}

/* Append what PATH holds; one that cannot be read adds nothing. */
static void read_file(const char *path, struct pf_buf *out)
{
	pf_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0)
		pf_cache_read_text(fd, MAX_FILE, out);
}

/* Is LINE of /proc/cpuinfo one on which machine code depends?  Not those of clocks and
 * the like, which change all the time.  Keys of x86, ARM, POWER, s390 and RISC-V. */
static bool tells_of_code(const char *line)
{
	static const char *const keys[] = {
		"vendor_id",   "cpu family",
		"model",       "model name",
		"stepping",    "flags",
		"Features",    "CPU implementer",
		"CPU variant", "CPU architecture",
		"CPU part",    "CPU revision",
		"cpu",         "isa",
		"uarch",       "features",
	};
	size_t len = strcspn(line, "\t:\n");

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (len == strlen(keys[i]) && !memcmp(line, keys[i], len))
			return true;
	return false;
}

void pf_cache_host(const char *cpuinfo, struct pf_buf *out)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct utsname machine;
	cpu_set_t cpus;

	read_file(cpuinfo, &text);
	/* An empty line ends those of the first processor. */
	for (const char *line = text.data; line && *line && *line != '\n';) {
		size_t len = strcspn(line, "\n");

		if (tells_of_code(line))
			pf_buf_printf(out, "%.*s\n", (int)len, line);
		line += len + (line[len] == '\n');
	}
	if (uname(&machine) == 0)
		pf_buf_printf(out, "%s\n", machine.machine);
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
		pf_buf_printf(out, "%d\n", CPU_COUNT(&cpus));
}

static bool is_read_by_compilers(const char *variable)
{
	static const char *const prefixes[] = { "XLA_",  "TF_XLA_", "LIBTPU_", "TPU_",
						"CUDA_", "NVIDIA_", "ROCM_",   "HIP_",
						"HSA_",  "NEURON_", "LLVM_",   "MLIR_" };

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(variable, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void pf_cache_environment(char *const *environ, struct pf_buf *out)
{
	pf_autofree char **list = NULL;
	size_t n = 0, used = 0;

	while (environ[n])
		n++;
	list = calloc(n + 1, sizeof(*list));
	if (!list) {
		out->failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (is_read_by_compilers(environ[i]))
			list[used++] = environ[i];
	qsort(list, used, sizeof(*list), compare);
	for (size_t i = 0; i < used; i++) {
		const char *flags = list[i] + strlen("XLA_FLAGS=");

		pf_buf_printf(out, "%s\n", list[i]);
		/* XLA reads a value that does not begin with a dash as a file's name. */
		if (!strncmp(list[i], "XLA_FLAGS=", 10) && *flags && *flags != '-')
			read_file(flags, out);
	}
}

/* Raised when the meaning of entries changes, so that old ones are not found. */
enum { KEY_FORMAT = 3 };

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
	return add_text(sha, "pjrtfs compilation cache") && add_number(sha, KEY_FORMAT) &&
	       add_text(sha, in->format) && add(sha, in->program, in->program_len) &&
	       add_number(sha, in->part_off) && add_number(sha, in->part_len) &&
	       add(sha, in->options, in->options_len) && add_text(sha, in->platform) &&
	       add_text(sha, in->platform_version) &&
	       add_number(sha, (uint64_t)in->api_major) &&
	       add_number(sha, (uint64_t)in->api_minor) &&
	       add(sha, in->plugin, sizeof(in->plugin)) && add_text(sha, in->devices) &&
	       add_text(sha, in->host) && add_text(sha, in->environment) &&
	       add_text(sha, in->create) &&
	       /* Last, and only if it is not 0: other programs keep their keys. */
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

enum {
	ENTRY_FORMAT = 1,
	KEY_AT = 16,
	SHA_AT = 48,
	LEN_AT = 80,
	MADE_AT = 104,
	CHECK_AT = 216
};

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
	pf_cache_put64(dst + sizeof(magic), ENTRY_FORMAT);
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
	if (pf_cache_get64(src + sizeof(magic)) != ENTRY_FORMAT)
		return pf_err_set(err, -EBADMSG,
				  "its format is %" PRIu64 ", this build's is %d",
				  pf_cache_get64(src + sizeof(magic)), ENTRY_FORMAT);
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
