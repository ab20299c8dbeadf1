/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
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

/* Append what PATH holds; one that cannot be read adds nothing. */
static void read_file(const char *path, struct pf_buf *out)
{
	pf_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0)
		(void)pf_read_all(fd, MAX_FILE, out);
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

void pf_cache_environment(char *const *env, struct pf_buf *out)
{
	pf_autofree char **list = NULL;
	size_t n = 0, used = 0;

	while (env[n])
		n++;
	list = calloc(n + 1, sizeof(*list));
	if (!list) {
		out->failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (is_read_by_compilers(env[i]))
			list[used++] = env[i];
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
	uint64_t prefix = htole64(len);

	return EVP_DigestUpdate(sha, &prefix, sizeof(prefix)) &&
	       EVP_DigestUpdate(sha, data, len);
}

static bool add_text(EVP_MD_CTX *sha, const char *text)
{
	return add(sha, text, strlen(text));
}

static bool add_number(EVP_MD_CTX *sha, uint64_t n)
{
	n = htole64(n);
	return add(sha, &n, sizeof(n));
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
	       /* Last, and only if they are not 0: other programs keep their keys. */
	       (!in->platform_number || add_number(sha, in->platform_number)) &&
	       (!in->libraries_len || add(sha, in->libraries, in->libraries_len));
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

void pf_cache_key_text(const struct pf_cache_key *key, char dst[PF_CACHE_KEY_TEXT])
{
	pf_hex(key->bytes, sizeof(key->bytes), dst);
}

bool pf_cache_key_parse(const char *text, struct pf_cache_key *ret)
{
	return strlen(text) == PF_CACHE_KEY_TEXT - 1 &&
	       pf_unhex(text, sizeof(ret->bytes), ret->bytes);
}

/* The header as it lies in the file; numbers are little-endian. */
struct file_header {
	char magic[8];
	uint64_t format;
	struct pf_cache_key key;
	uint8_t sha[PF_SHA256];
	uint64_t len[PF_CACHE_PARTS], made_ns;
	uint8_t zeros[104];
	uint8_t check[PF_SHA256]; /* of all that is before */
	uint64_t uses;
};

_Static_assert(sizeof(struct file_header) == PF_CACHE_HEADER, "a header has 256 bytes");
_Static_assert(offsetof(struct file_header, uses) == PF_CACHE_USES_AT, "uses are last");

enum { ENTRY_FORMAT = 1 };

static const char magic[8] = { 'p', 'j', 'r', 't', 'f', 's', '\r', '\n' };

uint64_t pf_cache_body_len(const struct pf_cache_header *header)
{
	uint64_t len = 0;

	for (int i = 0; i < PF_CACHE_PARTS; i++)
		len += header->len[i];
	return len;
}

/* DATA's SHA-256. */
static int digest(const void *data, size_t len, uint8_t ret[PF_SHA256],
		  struct pf_err *err)
{
	if (EVP_Digest(data, len, ret, NULL, EVP_sha256(), NULL) == 1)
		return 0;
	return pf_err_set(err, -ENOMEM, "no memory for a SHA-256");
}

int pf_cache_header_write(const struct pf_cache_header *header,
			  uint8_t dst[PF_CACHE_HEADER], struct pf_err *err)
{
	struct file_header h = {
		.format = htole64(ENTRY_FORMAT),
		.key = header->key,
		.made_ns = htole64(header->made_ns),
		.uses = htole64(header->uses),
	};
	int r;

	memcpy(h.magic, magic, sizeof(magic));
	memcpy(h.sha, header->sha, PF_SHA256);
	for (int i = 0; i < PF_CACHE_PARTS; i++)
		h.len[i] = htole64(header->len[i]);
	r = digest(&h, offsetof(struct file_header, check), h.check, err);
	memcpy(dst, &h, sizeof(h));
	return r;
}

static int read_lengths(const struct file_header *h, uint64_t file_len,
			struct pf_cache_header *ret, struct pf_err *err)
{
	uint64_t left = file_len - sizeof(*h);
	bool fits = true;

	for (int i = 0; i < PF_CACHE_PARTS; i++) {
		ret->len[i] = le64toh(h->len[i]);
		fits = fits && ret->len[i] <= left;
		left -= ret->len[i];
	}
	if (fits && left == 0 && ret->len[PF_CACHE_META] <= PF_CACHE_META_MAX)
		return 0;
	return pf_err_set(err, -EBADMSG,
			  "its %" PRIu64 " bytes are not what its header says", file_len);
}

int pf_cache_header_read(const uint8_t *src, size_t len, uint64_t file_len,
			 struct pf_cache_header *ret, struct pf_err *err)
{
	uint8_t check[PF_SHA256];
	struct file_header h;
	int r;

	if (len < sizeof(h) || file_len < sizeof(h))
		return pf_err_set(err, -EBADMSG, "it is shorter than a header");
	memcpy(&h, src, sizeof(h));
	if (memcmp(h.magic, magic, sizeof(magic)))
		return pf_err_set(err, -EBADMSG, "it does not begin as an entry does");
	if (le64toh(h.format) != ENTRY_FORMAT)
		return pf_err_set(err, -EBADMSG,
				  "its format is %" PRIu64 ", this build's is %d",
				  le64toh(h.format), ENTRY_FORMAT);
	r = digest(&h, offsetof(struct file_header, check), check, err);
	if (r < 0)
		return r;
	if (memcmp(check, h.check, sizeof(check)))
		return pf_err_set(err, -EBADMSG, "its header is damaged");
	ret->key = h.key;
	memcpy(ret->sha, h.sha, PF_SHA256);
	ret->made_ns = le64toh(h.made_ns);
	ret->uses = le64toh(h.uses);
	return read_lengths(&h, file_len, ret, err);
}

int pf_cache_body_check(const struct pf_cache_header *header, const void *body,
			struct pf_err *err)
{
	uint8_t sha[PF_SHA256];
	int r = digest(body, pf_cache_body_len(header), sha, err);

	if (r == 0 && memcmp(sha, header->sha, sizeof(sha)))
		r = pf_err_set(err, -EBADMSG, "its SHA-256 is not that of its bytes");
	return r;
}

int pf_cache_body_sign(struct pf_cache_header *header, const void *body,
		       struct pf_err *err)
{
	return digest(body, pf_cache_body_len(header), header->sha, err);
}
