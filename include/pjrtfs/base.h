/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_BASE_H
#define PJRTFS_BASE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Destroy locals at the end of their block; hold locks for a block. */

#define PF_CLEANUP(fn) __attribute__((__cleanup__(fn)))

/* Define FUNCp(), which destroys *P with FUNC; FUNC must accept NULL. */
#define PF_DEFINE_CLEANUP(type, func)                                                    \
	static inline void func##p(type *p)                                              \
	{                                                                                \
		func(*p);                                                                \
		*p = NULL;                                                               \
	}

/*
 * Define NAME_ref and NAME_unref of TYPE, whose field refs, _Atomic, counts the references.  Without the
 * last one the object goes to DESTROY.  NAME_unref accepts NULL.
 */
#define PF_DEFINE_REF(type, name, destroy)                                               \
	type *name##_ref(type *object)                                                   \
	{                                                                                \
		atomic_fetch_add(&object->refs, 1);                                      \
		return object;                                                           \
	}                                                                                \
                                                                                         \
	void name##_unref(type *object)                                                  \
	{                                                                                \
		if (object && atomic_fetch_sub(&object->refs, 1) == 1)                   \
			destroy(object);                                                 \
	}

/* Move ownership out of a guarded variable, which becomes NULL: its value. */
#define pf_steal(pp)                                                                     \
	({                                                                               \
		__typeof__(*(pp)) pf_stolen_ = *(pp);                                    \
		*(pp) = NULL;                                                            \
		pf_stolen_;                                                              \
	})

#define PF_ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* The struct that MEMBER, at address PTR, is a member of. */
#define pf_container_of(ptr, type, member)                                               \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void pf_freep(void *p)
{
	free(*(void **)p);
}

static inline void pf_closep(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

/* A lock that cannot be taken or given back means corrupt memory: abort. */
static inline void pf_lock(pthread_mutex_t *mutex)
{
	if (pthread_mutex_lock(mutex))
		abort();
}

static inline void pf_unlock(pthread_mutex_t *mutex)
{
	if (pthread_mutex_unlock(mutex))
		abort();
}

static inline void pf_unlockp(pthread_mutex_t **mutex)
{
	pf_unlock(*mutex);
}

#define pf_autofree PF_CLEANUP(pf_freep)   /* must be initialised (NULL) */
#define pf_autoclose PF_CLEANUP(pf_closep) /* must be initialised (-1)   */

/* Hold MUTEX until the end of the enclosing block. */
#define PF_LOCK_SCOPE(mutex)                                                             \
	PF_CLEANUP(pf_unlockp)                                                           \
	__attribute__((__unused__)) pthread_mutex_t *pf_scope_lock_ =                    \
		(pf_lock(mutex), (mutex))

enum {
	PF_ERR_TEXT = 1024,    /* bytes, NUL included */
	PF_ERR_PAYLOADS = 512, /* likewise */
};

/*
 * Why an operation failed: an errno and a sentence.  It owns nothing and is never freed; setting
 * it cannot fail.  A failing function returns -errno, sets code to that value, and the text.  A
 * succeeding function does not change it.  It may be NULL.
 */
struct pf_err {
	int code;               /* -errno, 0 = no error recorded        */
	int pjrt_code;          /* PJRT_Error_Code, -1 = not from PJRT  */
	char text[PF_ERR_TEXT]; /* valid UTF-8, one line but for pf_err_set_lines */
	/* What a plugin adds: a JSON object of strings on one line, or "". */
	char payloads[PF_ERR_PAYLOADS];
};

#define PF_ERR_INIT                                                                      \
	{                                                                                \
		.pjrt_code = -1                                                          \
	}

/* Record CODE (< 0) and the text, no payloads, and return CODE.  Line breaks and control characters become
 * spaces, bytes that are not UTF-8 become '?'; what does not fit is cut.  Does not block. */
int pf_err_set(struct pf_err *err, int code, const char *fmt, ...)
	__attribute__((__format__(__printf__, 3, 4)));

/* The same with a plugin's message, the LEN bytes at TEXT, which are not err's.  Its newlines
 * stay, but for those at the end. */
int pf_err_set_lines(struct pf_err *err, int code, const char *text, size_t len);

/* Prefix the text with what the caller was doing: "compile add: <text>"; payloads stay.  Returns
 * CODE.  A text that becomes too long loses its end. */
int pf_err_wrap(struct pf_err *err, int code, const char *fmt, ...)
	__attribute__((__format__(__printf__, 3, 4)));

/* If the LEN bytes at WORDS, of ERR's own text or of what the plugin printed, have words of a plugin or
 * of the dynamic linker whose cause is known (cause.c): prefix ERR's text with the cause and the next
 * step, instead of those that it has.  False: they have none. */
bool pf_err_explain(struct pf_err *err, const char *words, size_t len);

/* ERR is about a plugin in a sandbox: if it failed for want of a right, add that this may be why. */
void pf_err_blame_sandbox(struct pf_err *err);

/* An error that an object keeps, with no more memory than its text needs.  All zeros: none. */
struct pf_kept_err {
	int code;
	int pjrt_code;
	char *text; /* owned; NULL: none, or no memory for it */
};

/* Keep a copy of ERR (NULL, or code 0: none) in place of what KEPT had.  Frees, without an ERR. */
void pf_err_keep(struct pf_kept_err *kept, const struct pf_err *err);

/* Copy what is KEPT to *RET (NULL is allowed): its text, or the errno's words if no memory
 * was left for that.  Returns its code; 0: it has none, and *RET has no code either. */
int pf_err_recall(const struct pf_kept_err *kept, struct pf_err *ret);

/* Make the LEN bytes at TEXT one line of valid UTF-8, in place; newlines become spaces, too.
 * Returns the new length, which is never greater.  Writes no NUL. */
size_t pf_err_clean(char *text, size_t len);

/* "EINVAL" for EINVAL or -EINVAL; "EIO" for an errno that has no name.  Static. */
const char *pf_errno_name(int code);

/* PJRT_Error_Code, which are absl::StatusCode's. */
enum pf_pjrt_code {
	PF_PJRT_OK,
	PF_PJRT_CANCELLED,
	PF_PJRT_UNKNOWN,
	PF_PJRT_INVALID_ARGUMENT,
	PF_PJRT_DEADLINE_EXCEEDED,
	PF_PJRT_NOT_FOUND,
	PF_PJRT_ALREADY_EXISTS,
	PF_PJRT_PERMISSION_DENIED,
	PF_PJRT_RESOURCE_EXHAUSTED,
	PF_PJRT_FAILED_PRECONDITION,
	PF_PJRT_ABORTED,
	PF_PJRT_OUT_OF_RANGE,
	PF_PJRT_UNIMPLEMENTED,
	PF_PJRT_INTERNAL,
	PF_PJRT_UNAVAILABLE,
	PF_PJRT_DATA_LOSS,
	PF_PJRT_UNAUTHENTICATED,
};

/* The name of the PJRT_Error_Code PJRT_CODE, "INVALID_ARGUMENT", or, where that is -1, of the
 * code that maps onto the errno CODE (negative or positive); "UNKNOWN" if none does.  Static. */
const char *pf_pjrt_code_name(int pjrt_code, int code);

/* The code that NAME, "INVALID_ARGUMENT", names; -1: none. */
int pf_pjrt_code_parse(const char *name);

/*
 * A byte string that grows: data is NULL or holds len bytes and a NUL after them.  An append that
 * finds no memory sets failed and changes nothing else; later appends do nothing, so a writer may
 * check failed once, at the end.  Not safe for use by two threads.
 */
struct pf_buf {
	char *data; /* owned; freed by pf_buf_release */
	size_t len; /* bytes used, without the NUL */
	size_t cap; /* bytes allocated */
	bool failed;
};

#define PF_BUF_INIT                                                                      \
	{                                                                                \
		0                                                                        \
	}

/* Append LEN bytes from SRC. */
void pf_buf_append(struct pf_buf *buf, const void *src, size_t len);

/* Append the NUL-terminated STR; with NULL, for lack of memory, BUF has failed. */
void pf_buf_puts(struct pf_buf *buf, const char *str);

/* Append as printf(3) does. */
void pf_buf_printf(struct pf_buf *buf, const char *fmt, ...)
	__attribute__((__format__(__printf__, 2, 3)));

/* Make room for LEN more bytes; returns where they go, or NULL (failed is set).  len does not
 * change: the caller adds what it wrote, and where that is less than LEN, a NUL. */
char *pf_buf_reserve(struct pf_buf *buf, size_t len);

/* Remove the first LEN bytes (at most all). */
void pf_buf_consume(struct pf_buf *buf, size_t len);

/* Make the bytes from FROM on, such as a name that a user chose, one line of valid UTF-8: pf_err_clean. */
void pf_buf_clean(struct pf_buf *buf, size_t from);

/* Free the contents and start anew.  BUF may be NULL. */
void pf_buf_release(struct pf_buf *buf);

#define pf_autobuf PF_CLEANUP(pf_buf_release)

/* Print N bytes as 2 N hex digits and a NUL into DST, which is returned. */
const char *pf_hex(const uint8_t *bytes, size_t n, char *dst);

/* Read N bytes into DST from the 2 N hex digits that TEXT begins with, as pf_hex prints them; false: it does
 * not. */
bool pf_unhex(const char *text, size_t n, uint8_t *dst);

/*
 * Bytes that another process, which is not trusted, can change at any moment, also between two reads
 * of the same byte.  They can only be copied: what looks at them looks at a copy of its own.
 */
struct pf_shared_bytes {
	const void *shared; /* borrowed; NULL: there are none */
	uint64_t len;
};

#define PF_SHARED_NONE ((struct pf_shared_bytes){ NULL, 0 })

static inline struct pf_shared_bytes pf_shared_of(const void *shared, uint64_t len)
{
	return (struct pf_shared_bytes){ shared, len };
}

/*
 * Append a copy of BYTES to *RET.  WHAT names them in errors ("the worker's description of the
 * program").
 *
 * 0; -EPROTO: there are none, or more than LIMIT, of which none is touched; -ENOMEM.
 */
int pf_shared_copy(struct pf_shared_bytes bytes, const char *what, uint64_t limit,
		   struct pf_buf *ret, struct pf_err *err);

/* Clocks and durations.  Nothing here blocks; each costs some 20 ns. */

/* By CLOCK_MONOTONIC (clock_gettime(2)): nanoseconds, milliseconds. */
static inline uint64_t pf_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline int64_t pf_now_ms(void)
{
	return (int64_t)(pf_now_ns() / 1000000u);
}

/* Seconds from FROM to TO; negative if TO is earlier. */
static inline double pf_seconds_between(const struct timespec *from,
					const struct timespec *to)
{
	return (double)(to->tv_sec - from->tv_sec) +
	       (double)(to->tv_nsec - from->tv_nsec) / 1e9;
}

/* Seconds since START, a time of CLOCK. */
static inline double pf_seconds_since(clockid_t clock, const struct timespec *start)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return pf_seconds_between(start, &now);
}

/* The time on CLOCK in MS milliseconds: what pthread_cond_timedwait(3) takes. */
static inline struct timespec pf_time_in(clockid_t clock, uint64_t ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_sec += (time_t)(ms / 1000);
	t.tv_nsec += (long)(ms % 1000) * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

/*
 * Start a thread that calls FN(ARG), on the processors of the process's first thread: those of the
 * calling thread may be fewer for a time (fuse/follow.c), and pthread_create(3) would pass them on.
 * *RET: the thread, for pthread_join(3); NULL: it is detached.  0, or -EAGAIN or -ENOMEM.
 */
int pf_thread_start(pthread_t *ret, void *(*fn)(void *arg), void *arg);

/*
 * Add so many STEPS to this process's oom_score_adj (proc(5)), at most 1000: when memory runs short,
 * the kernel kills a worker before the daemon, and the daemon before its holder, unless the one
 * behind has a quarter of all memory more.  To lower it takes CAP_SYS_RESOURCE; without it, the
 * score stays.
 */
enum { PF_OOM_STEP = 250 };
void pf_oom_score_add(int steps);

/* Messages of the daemon and the worker for their operator. */

enum pf_log_level { PF_LOG_ERROR, PF_LOG_WARNING, PF_LOG_INFO, PF_LOG_DEBUG };

/* Send messages of LEVEL and more urgent ones to standard error, or, if TO_SYSLOG, to syslog(3).
 * Call before threads start. */
void pf_log_setup(enum pf_log_level level, bool to_syslog);

enum { PF_LOG_FILE_MAX = 4 << 20 }; /* bytes of a log file, which then begins anew */

/*
 * Standard error is a log file from now on, opened with O_APPEND, that other processes may write, too:
 * lines of text begin with the time and have the process's number.
 */
void pf_log_to_file(void);

/* How a line on standard error looks: after the program's name and the level; after the priority as
 * sd-daemon(3) has it; a JSON object.  Automatic is JOURNAL if standard error is a stream of journald, else TEXT. */
enum pf_log_format { PF_LOG_AUTOMATIC, PF_LOG_TEXT, PF_LOG_JOURNAL, PF_LOG_JSON };

/* Use that format; TEXT before the call.  Call before threads start. */
void pf_log_set_format(enum pf_log_format format);

/* The daemon calls this when it has mounted and, unless it stays in the foreground, has left
 * its user's terminal.  Any thread may. */
void pf_log_serve(void);

/* Has it?  Messages that may wait are logged only then: a user who mounts in the foreground sees
 * them, other users do not. */
bool pf_log_serves(void);

/* Would the writer of a line block because no process reads standard error? */
bool pf_log_would_block(void);

/* Log one line; FMT has no newline.  Safe from any thread.  HACKING.md names the few files that
 * log; all else returns a struct pf_err. */
void pf_log(enum pf_log_level level, const char *fmt, ...)
	__attribute__((__format__(__printf__, 2, 3)));

/*
 * A hash table from 64-bit numbers but 0 to pointers, which are not owned.  Not safe for use by
 * two threads: the lock is the caller's.  All zeros is an empty map.
 */
struct pf_map {
	struct pf_map_slot {
		uint64_t key;
		void *value;
	} * slots;   /* owned; a power of two of them */
	size_t cap;  /* number of slots */
	size_t used; /* keys in the map */
};

/* Free the table (not the values).  MAP may be NULL. */
void pf_map_release(struct pf_map *map);

/* Put VALUE (not NULL) under KEY, replacing what was there.  0 or -ENOMEM. */
int pf_map_put(struct pf_map *map, uint64_t key, void *value);

/* The next N keys that are put do not fail, if none is put in between.  0, or -ENOMEM. */
int pf_map_reserve(struct pf_map *map, size_t n);

/* The value under KEY, or NULL. */
void *pf_map_get(const struct pf_map *map, uint64_t key);

/* Take the value under KEY out of the map and return it, or NULL. */
void *pf_map_remove(struct pf_map *map, uint64_t key);

/* Iterate: *POS starts at 0; returns the next value in no particular order, or NULL at the end.
 * The map must not change meanwhile. */
void *pf_map_next(const struct pf_map *map, size_t *pos);

/* A 64-bit hash of LEN bytes (FNV-1a), never 0.  An attacker can make keys collide, so
 * use it only where collisions cost nothing but time. */
uint64_t pf_hash(const void *data, size_t len);

/* Sizes as users write them. */

/*
 * Bytes from TEXT: "2147483648", "2G", "512MiB" (K, M, G, T, of 1024; with or without B or
 * iB, in any case), or the word max: UINT64_MAX.  -EINVAL: something else, or more than 2^60.
 */
int pf_size_parse(const char *text, uint64_t *ret, struct pf_err *err);

/* UTF-8 (RFC 3629). */

/* The bytes of the well-formed character at the start of STR (LEN bytes, not 0), whose code point
 * becomes *RET; 0: it is not well formed.  Overlong forms, surrogates and numbers beyond
 * U+10FFFF are not well formed. */
size_t pf_utf8_char(const char *str, size_t len, uint32_t *ret);

/* Are LEN bytes of STR well formed? */
bool pf_utf8_valid(const char *str, size_t len);

/* Which of the known words a user may have meant by one that is not known. */

/* A search among known words; all zeros but WORD at its beginning. */
struct pf_similar {
	const char *word;  /* borrowed: the word that is not known */
	const char *best;  /* borrowed: the nearest word so far, or NULL: none is near */
	unsigned distance; /* of best: insertions, deletions, replacements, swaps */
};

/*
 * Compare with KNOWN, which is borrowed.  A known word is near if a third of the letters or
 * fewer differ (case, '-' and '_' do not count), or if it begins with the word (three letters
 * at least).  Does not block.
 */
void pf_similar_try(struct pf_similar *s, const char *known);

/* The same for each word of LIST, which NULL ends. */
void pf_similar_try_all(struct pf_similar *s, const char *const *list);

enum { PF_SIMILAR_TEXT = 96 };

/* Print " (did you mean \"best\"?)" into DST, or nothing if no word is near; returns DST. */
const char *pf_similar_hint(const struct pf_similar *s, char dst[PF_SIMILAR_TEXT]);

/*
 * Bytes of files.  Signals do not interrupt these functions.
 *
 * Read LEN bytes at OFF of FD, fewer at its end: how many, or -errno.
 */
ssize_t pf_read_at(int fd, void *dst, size_t len, uint64_t off);

/* Write LEN bytes at OFF of FD.  0 or -errno. */
int pf_write_at(int fd, const void *src, size_t len, uint64_t off);

/* Append what FD's file holds from here on, at most MAX bytes, to OUT.  0; -errno: OUT has what came before
 * the error. */
int pf_read_all(int fd, size_t max, struct pf_buf *out);

/* Read the file PATH, at most SIZE - 1 bytes, and put a NUL behind them.  False: it cannot be read,
 * and DST is "". */
bool pf_read_start(const char *path, char *dst, size_t size);

/* The path of NAME into DST (LEN bytes): beside this program, in a build tree, else in DIR. */
void pf_find_installed(const char *name, const char *dir, char *dst, size_t len);

/* Make the missing directories above PATH, which is not "", with mode 0700; PATH is as before at the
 * end.  Who then opens PATH itself learns whether they are there.  mkdir(2). */
void pf_make_parents(char *path);

/* PATH, which need not exist, below the working directory if it is relative.  The caller frees
 * it; NULL: no memory, or the working directory was removed. */
char *pf_absolute_path(const char *path);

/*
 * The home directory of the effective user, an absolute path: $HOME, unless it is not
 * set, or another user owns that directory (mount(8) keeps none, so mount.fuse3(8) sets
 * root's); then that of passwd(5), if it has one.  The caller frees it; NULL: the user
 * has none, or no memory.  Does not block, but for the user database.  Not safe while
 * another thread calls getpwuid(3).
 */
char *pf_home_dir(void);

enum { PF_USER_NAME = 16 };

/* The name of the user ID, or the number where there is no name, or one that is longer than DST; returns DST.
 * As pf_home_dir for blocking and threads. */
const char *pf_user_name(unsigned id, char dst[PF_USER_NAME]);

#endif
