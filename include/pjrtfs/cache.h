/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compilation cache: a directory of entries that several daemons may share.
 *
 *   entries/KEY   an entry each (pf_cache_header); its mtime is when it was last used
 *   tmp/          entries that are being written, then renamed
 *   lock          flock(2)ed while names or counts change; readers take no lock
 *   stats         the counts of all daemons
 *   plugins       SHA-256 of plugins' files
 *
 * Entries are native code: one is read only if it and the directory belong to the caller
 * or to root, no other user may write to them, and every byte is as it was written.
 *
 * Functions are safe from any thread and block for disk I/O; the caller holds no lock but that of
 * names.
 */
#ifndef PJRTFS_CACHE_H
#define PJRTFS_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "pjrtfs/base.h"

struct pf_cache;

/*
 * The keys: SHA-256 over everything that the result of a compile depends on.
 *
 * Each field is preceded by its length, so that no two lists of fields are the same bytes.
 * A plugin's own fingerprint of a program is not part of it: different plugins give the same
 * one, and compute garbage from each other's executables.
 */

enum {
	PF_SHA256 = 32,         /* bytes of a SHA-256 */
	PF_CACHE_KEY_TEXT = 65, /* characters of a key, NUL included */
};

struct pf_cache_key {
	uint8_t bytes[PF_SHA256];
};

/* The inputs of a compile.  All is borrowed during the call; strings end with NUL. */
struct pf_cache_inputs {
	const char *format;  /* the program's: "mlir" */
	const void *program; /* program_len bytes */
	uint64_t program_len;
	uint64_t part_off, part_len; /* the part of it that is compiled */
	const void *options;         /* options_len bytes, the same for equal options */
	size_t options_len;
	const char *platform, *platform_version;
	int api_major, api_minor;
	uint8_t plugin[PF_SHA256]; /* of the plugin's file */
	unsigned platform_number;  /* the worker's number of the platform; 0: none */
	const char *devices;       /* the client's devices in order, with their kinds */
	const char *host;          /* pf_cache_host's text */
	const char *environment;   /* pf_cache_environment's text */
	const char *create;        /* the client's create options: JSON, keys sorted */
	const void *
		libraries; /* SHA-256 of the FFI libraries that the program calls, one after
				* another: libraries_len bytes */
	size_t libraries_len;
};

/* Make INPUTS' key in *RET.  -ENOMEM.  Blocks: a second for some GB of program. */
int pf_cache_key_make(const struct pf_cache_inputs *inputs, struct pf_cache_key *ret,
		      struct pf_err *err);

/* The key as 64 lower-case hexadecimal digits. */
void pf_cache_key_text(const struct pf_cache_key *key, char dst[PF_CACHE_KEY_TEXT]);

/* Read such a text into *RET.  False: it is not a key. */
bool pf_cache_key_parse(const char *text, struct pf_cache_key *ret);

/*
 * Append the facts of this host that machine code depends on: model and features of the first
 * processor in the file CPUINFO (/proc/cpuinfo), the architecture, and the number of processors
 * that this process may use, for which compilers split loops.  A file that cannot be read adds
 * nothing.
 */
void pf_cache_host(const char *cpuinfo, struct pf_buf *out);

/*
 * Append the variables of ENV (as environ(7)) that compilers read, sorted, one a line:
 * those whose names begin with XLA_, TF_XLA_, LIBTPU_, TPU_, CUDA_, NVIDIA_, ROCM_, HIP_,
 * HSA_, NEURON_, LLVM_ or MLIR_.  Where XLA_FLAGS names a file, its content follows (at most
 * 1 MiB).
 */
void pf_cache_environment(char *const *env, struct pf_buf *out);

/*
 * One entry of the compilation cache: a header of 256 bytes, then its parts one after
 * another.  Numbers are little-endian.
 *
 *   0  "pjrtfs\r\n"       8 bytes
 *   8  format              8
 *  16  key                32
 *  48  SHA-256 of parts   32
 *  80  lengths of parts    3 × 8
 * 104  made               8    nanoseconds since the epoch
 * 112  zeros             104
 * 216  SHA-256 of the bytes before   32
 * 248  uses               8    changed in place, so outside of all checks
 */

enum {
	PF_CACHE_HEADER = 256,        /* bytes of the header */
	PF_CACHE_USES_AT = 248,       /* offset of the number of uses */
	PF_CACHE_META_MAX = 16 << 20, /* bytes of the part with the description */
};

enum pf_cache_part {
	PF_CACHE_META, /* JSON: facts of the program, also for listings */
	PF_CACHE_HLO,  /* the optimized program; may have no bytes */
	PF_CACHE_CODE, /* the plugin's machine code */
	PF_CACHE_PARTS
};

struct pf_cache_header {
	struct pf_cache_key key;
	uint8_t sha[PF_SHA256];       /* of all parts */
	uint64_t len[PF_CACHE_PARTS]; /* bytes */
	uint64_t made_ns;             /* since the epoch */
	uint64_t uses;
};

/* Bytes of all parts. */
uint64_t pf_cache_body_len(const struct pf_cache_header *header);

/* Write HEADER, with its own SHA-256. */
int pf_cache_header_write(const struct pf_cache_header *header,
			  uint8_t dst[PF_CACHE_HEADER], struct pf_err *err);

/*
 * Read the LEN bytes at SRC, the start of a file of FILE_LEN bytes.  -EBADMSG: not a header
 * of this format, a byte of it is wrong, or the file has another length than it says.
 */
int pf_cache_header_read(const uint8_t *src, size_t len, uint64_t file_len,
			 struct pf_cache_header *ret, struct pf_err *err);

/* Have the parts at BODY (pf_cache_body_len bytes) HEADER's SHA-256?  0; -EBADMSG; -ENOMEM. */
int pf_cache_body_check(const struct pf_cache_header *header, const void *body,
			struct pf_err *err);

/* Set HEADER's sha for the parts at BODY, whose lengths it has.  -ENOMEM. */
int pf_cache_body_sign(struct pf_cache_header *header, const void *body,
		       struct pf_err *err);

struct pf_cache_config {
	const char *dir; /* copied; made, with its parents and mode 0700, if missing */
	uint64_t max;    /* bytes of all entries; UINT64_MAX: no limit */
	/* Make, change and remove nothing, also where that is allowed.  The directory may then belong to
	 * another user, whose entries are used as the caller's own. */
	bool read_only;
	/* Called with a sentence when entries cannot be written any more and when they can
	 * again, on any thread.  May be NULL. */
	void (*warn)(void *arg, const char *text);
	void *arg;
};

/*
 * Open the directory, and evict entries beyond the maximum.
 * ret   on success, the caller's; pf_cache_close
 * -EPERM: it belongs to another user, or others may write to it; -ENOTDIR; -errno.  A directory
 * that can be read but not written is used as it is.  -ENOENT: read_only, and the directory is missing.
 */
int pf_cache_open(const struct pf_cache_config *config, struct pf_cache **ret,
		  struct pf_err *err);
void pf_cache_close(struct pf_cache *cache); /* NULL is allowed */

/*
 * Call FN(ARG) for each entry that this process removes from now on: KEY in hexadecimal, BYTES of
 * its file, DAMAGED: for its content, else evicted.  On any thread; FN must not block, and takes
 * no lock below rank 9.  Call this before other threads use CACHE.
 */
void pf_cache_on_gone(struct pf_cache *cache,
		      void (*fn)(void *arg, const char *key, uint64_t bytes,
				 bool damaged),
		      void *arg);

/* The directory's path, borrowed. */
const char *pf_cache_dir(const struct pf_cache *cache);

/* --- entries ------------------------------------------------------------------------ */

/* An entry that was found: an open file, so that it can be read even after its eviction. */
struct pf_cache_found {
	int fd; /* owned */
	struct stat st;
	struct pf_cache_header header;
};

/* Close FOUND's file; again is allowed. */
void pf_cache_found_release(struct pf_cache_found *found);

/*
 * Look for KEY.  1: *RET is an entry whose header is good.  0: no such entry; a damaged
 * one, or one that others may write to, has been counted, and removed if possible.  Counts no miss.
 */
int pf_cache_find(struct pf_cache *cache, const struct pf_cache_key *key,
		  struct pf_cache_found *ret);

/*
 * Read FOUND's parts (pf_cache_body_len bytes) to DST and check them there.  0; -EBADMSG:
 * damaged, as with pf_cache_find; -errno: it cannot be read.
 */
int pf_cache_read(struct pf_cache *cache, const struct pf_cache_found *found, void *dst,
		  struct pf_err *err);

/*
 * Count a hit; and, unless FOUND is NULL (a compile took part in an equal one), a use of FOUND at
 * this time.  Waits at most 20 ms for another process.
 */
void pf_cache_hit(struct pf_cache *cache, const struct pf_cache_found *found);

/* Count a miss, as pf_cache_hit a hit: pf_cache_find has none for this compile. */
void pf_cache_miss(struct pf_cache *cache);

/* The plugin could not load FOUND: remove it and count it as damaged. */
void pf_cache_reject(struct pf_cache *cache, const struct pf_cache_found *found);

/* One part of a new entry.  The bytes may change meanwhile: they are read once. */
struct pf_cache_piece {
	const void *data;
	uint64_t len;
};

/*
 * Write an entry under KEY, in place of one that is there, and evict the ones that were used
 * longest ago if the maximum is exceeded.  -EFBIG: larger than the maximum.  -errno: not written;
 * warn is called for the first such failure and for the first success after it.
 */
int pf_cache_put(struct pf_cache *cache, const struct pf_cache_key *key,
		 const struct pf_cache_piece parts[PF_CACHE_PARTS]);

/* Are entries never written, because the configuration says read_only? */
bool pf_cache_is_read_only(const struct pf_cache *cache);

/*
 * Could the last entry be written to the disk?  0: it was written, or none was put yet.
 * -errno: it was not, and ERR (may be NULL) says why: "write entry KEY: No space left on
 * device".  Entries that are too large, that wait in vain for another process's lock, or
 * for a directory that the caller may only read do not count.  Does not block.
 */
int pf_cache_failing(struct pf_cache *cache, struct pf_err *err);

/* How many entries could not be written since this process opened it. */
uint64_t pf_cache_write_errors(struct pf_cache *cache);

/* --- maintenance -------------------------------------------------------------------- */

/* Evict KEY.  -ENOENT; -EROFS, -errno. */
int pf_cache_remove(struct pf_cache *cache, const struct pf_cache_key *key,
		    struct pf_err *err);

/* Evict all entries.  -errno: some are left. */
int pf_cache_clear(struct pf_cache *cache, struct pf_err *err);

/* The maximum in bytes of all entries; UINT64_MAX: no limit.  Does not block. */
uint64_t pf_cache_max(struct pf_cache *cache);

/*
 * Set the maximum, and evict the entries that were used longest ago beyond it.  -EROFS: the
 * configuration says read_only.  -EBUSY: another process has the lock; -errno: an entry cannot be
 * removed; the maximum is set all the same.
 */
int pf_cache_set_max(struct pf_cache *cache, uint64_t max, struct pf_err *err);

struct pf_cache_stats {
	uint64_t hits, misses;   /* since the directory was made */
	uint64_t evictions;      /* entries removed for room or by users */
	uint64_t damaged;        /* entries removed for their content */
	uint64_t bytes, entries; /* at this moment */
	bool writable;           /* by this process */
};

/* Read the counts of all daemons into *RET; lists the entries of a directory that is read-only. */
void pf_cache_stats(struct pf_cache *cache, struct pf_cache_stats *ret);

/*
 * The keys of the entries, in no order; *RET is the caller's to free.  Entries of other processes
 * are among them.  0 or -errno.
 */
int pf_cache_list(struct pf_cache *cache, struct pf_cache_key **ret, size_t *n);

/* Is there an entry of KEY?  ST (may be NULL) describes its file. */
bool pf_cache_has(struct pf_cache *cache, const struct pf_cache_key *key,
		  struct stat *st);

/*
 * Describe KEY's entry: its header, its last use (mtime) and size in ST, and in META the bytes of
 * PF_CACHE_META, whose SHA-256 is not checked.  -ENOENT, -EBADMSG; nothing is removed.
 */
int pf_cache_describe(struct pf_cache *cache, const struct pf_cache_key *key,
		      struct pf_cache_header *ret, struct stat *st, struct pf_buf *meta,
		      struct pf_err *err);

/*
 * The SHA-256 of a plugin's file PATH, which was ST when it was loaded.  It is remembered by
 * device, inode, size, mtime and ctime, also for other daemons of the directory, so that a start
 * does not read 250 MB each time; CACHE may be NULL: nothing is remembered.  -ESTALE: the file has
 * changed since; -errno.  Blocks: seconds the first time.
 */
int pf_cache_file_digest(struct pf_cache *cache, const char *path, const struct stat *st,
			 uint8_t ret[PF_SHA256], struct pf_err *err);

#endif
