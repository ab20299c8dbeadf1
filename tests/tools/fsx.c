/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations on a file, and the same ones on a file in tmpfs as reference: results,
 * sizes, the bytes that are read, and now and then all bytes are compared.  The first
 * difference ends the run and prints the last operations.
 *
 *     fsx [options] FILE          FILE is made; with --keep it is there already
 *
 * A seed determines a run: the same seed, size and options repeat it.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	LAST = 50,       /* operations that a failure prints */
	LINE = 160,      /* bytes of each */
	WHOLE = 200,     /* all bytes are compared after so many operations */
	NAMED = 4,       /* the file is looked up by name after so many */
	PAGE = 4096,     /* what mappings begin at */
	STEP_MAX = 65536 /* bytes that one operation reads or writes */
};

/* The file under test and its model in tmpfs. */
enum { OURS, MODEL, SIDES };

/* A file that has two sides. */
struct twin {
	char path[SIDES][PATH_MAX];
	char other[PATH_MAX]; /* the name that ours is renamed to, and back from */
	bool renamed;         /* path and other are exchanged */
	int fd[SIDES];
	off_t size;
};

static struct {
	uint64_t seed, random;
	unsigned long operations, done;
	off_t max;  /* no file grows beyond */
	off_t keep; /* >= 0: the size and this many bytes at the start are fixed */
	bool mmap, fallocate, copy, rename;
	char dir[PATH_MAX]; /* of the models */
	struct twin file, peer;
	char said[LAST][LINE];
} run = {
	.seed = 1,
	.operations = 10000,
	.max = 262144,
	.keep = -1,
	.mmap = true,
	.fallocate = true,
	.copy = true,
	.rename = true,
};

static unsigned char bytes[SIDES][1 << 20]; /* what was read, or is to be written */

/* --- telling --------------------------------------------------------------------------- */

static void remove_models(void)
{
	if (!run.dir[0])
		return;
	unlink(run.file.path[MODEL]);
	unlink(run.peer.path[MODEL]);
	rmdir(run.dir);
}

__attribute__((__noreturn__, __format__(__printf__, 1, 2))) static void differ(
	const char *fmt, ...)
{
	unsigned long first = run.done > LAST ? run.done - LAST : 0;
	va_list ap;

	for (unsigned long i = first; i < run.done; i++)
		printf("%6lu %s\n", i + 1, run.said[i % LAST]);
	printf("DIFFERENT: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\nseed %llu, operation %lu of %lu, %s\n", (unsigned long long)run.seed,
	       run.done, run.operations, run.file.path[OURS]);
	remove_models();
	exit(1);
}

/* The environment failed, not the file under test. */
__attribute__((__noreturn__)) static void broken(const char *what)
{
	fprintf(stderr, "fsx: %s: %s\n", what, strerror(errno));
	remove_models();
	exit(2);
}

/* Note what is done next. */
__attribute__((__format__(__printf__, 1, 2))) static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(run.said[run.done++ % LAST], LINE, fmt, ap);
	va_end(ap);
}

static void say_more(const char *what)
{
	char *line = run.said[(run.done - 1) % LAST];
	size_t len = strlen(line);

	snprintf(line + len, LINE - len, "%s", what);
}

/* --- chance ---------------------------------------------------------------------------- */

static uint64_t random64(void)
{
	uint64_t x = run.random += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* A number below N, which is not 0. */
static off_t below(off_t n)
{
	return (off_t)(random64() % (uint64_t)n);
}

static bool one_in(off_t n)
{
	return below(n) == 0;
}

/* A length of 1 to MAX: often small, often whole pages; 0 if MAX is 0. */
static off_t some_length(off_t max)
{
	off_t n;

	if (max <= 0)
		return 0;
	if (max > STEP_MAX)
		max = STEP_MAX;
	switch (below(4)) {
	case 0:
		n = 1 + below(16);
		break;
	case 1:
		n = PAGE * (1 + below(8));
		break;
	default:
		n = 1 + below(max);
	}
	return n < max ? n : max;
}

/* A place from LOW to HIGH: often a multiple of a page, often at the end of the file. */
static off_t some_place(const struct twin *t, off_t low, off_t high)
{
	off_t at = low + below(high - low + 1);

	switch (below(6)) {
	case 0:
	case 1:
		at -= at % PAGE;
		break;
	case 2:
		at = t->size - below(3) + 1;
		break;
	}
	return at < low ? low : at > high ? high : at;
}

/* The first byte that may change. */
static off_t lowest(void)
{
	return run.keep > 0 ? run.keep : 0;
}

/* Where a file may end. */
static off_t highest(const struct twin *t)
{
	return run.keep < 0 ? run.max : t->size;
}

/* Fill the first LEN bytes of what is to be written; what wrote them can be seen. */
static void some_bytes(off_t len)
{
	uint64_t x = random64();
	bool zeros = one_in(16);

	for (off_t i = 0; i < len; i++) {
		if (i % 8 == 0)
			x = x * 6364136223846793005u + 1442695040888963407u;
		bytes[OURS][i] = zeros ? 0 : (unsigned char)(x >> (8 * (i % 8)));
	}
}

/* --- comparing ------------------------------------------------------------------------- */

/* A call's result, and errno if it failed. */
struct result {
	long long value;
	int error;
};

static struct result returned(long long value)
{
	return (struct result){ .value = value, .error = value < 0 ? errno : 0 };
}

static void same_result(const char *what, const struct result got[SIDES])
{
	if (got[OURS].value == got[MODEL].value && got[OURS].error == got[MODEL].error)
		return;
	differ("%s returned %lld (%s), tmpfs %lld (%s)", what, got[OURS].value,
	       strerror(got[OURS].error), got[MODEL].value, strerror(got[MODEL].error));
}

/* The LEN bytes that were read from OFF on. */
static void same_bytes(const char *what, const unsigned char *got,
		       const unsigned char *want, off_t len, off_t off)
{
	off_t i = 0, n = 0;

	if (memcmp(got, want, (size_t)len) == 0)
		return;
	while (got[i] == want[i])
		i++;
	for (off_t k = i; k < len; k++)
		n += got[k] != want[k];
	printf("at %lld, have and want:", (long long)(off + i));
	for (off_t k = i; k < len && k < i + 16; k++)
		printf(" %02x/%02x", got[k], want[k]);
	putchar('\n');
	differ("%s: byte %lld of %lld, and %lld bytes in all", what, (long long)(off + i),
	       (long long)(off + len), (long long)n);
}

static void read_both(const char *what, const int fd[SIDES], off_t len, off_t off)
{
	struct result got[SIDES];

	for (int s = 0; s < SIDES; s++)
		got[s] = returned(pread(fd[s], bytes[s], (size_t)len, off));
	same_result(what, got);
	if (got[OURS].value > 0)
		same_bytes(what, bytes[OURS], bytes[MODEL], got[OURS].value, off);
}

/* Sizes, by descriptor and at times by name, and that the two are one file. */
static void same_sizes(struct twin *t)
{
	struct stat by_fd[SIDES], by_name;

	for (int s = 0; s < SIDES; s++)
		if (fstat(t->fd[s], &by_fd[s]) < 0)
			differ("fstat: %s", strerror(errno));
	if (by_fd[OURS].st_size != by_fd[MODEL].st_size)
		differ("fstat: size %lld, tmpfs %lld", (long long)by_fd[OURS].st_size,
		       (long long)by_fd[MODEL].st_size);
	t->size = by_fd[MODEL].st_size;
	if (run.done % NAMED)
		return;
	if (stat(t->path[OURS], &by_name) < 0)
		differ("stat: %s", strerror(errno));
	if (by_name.st_size != by_fd[OURS].st_size)
		differ("stat: size %lld, fstat %lld", (long long)by_name.st_size,
		       (long long)by_fd[OURS].st_size);
	if (by_name.st_ino != by_fd[OURS].st_ino)
		differ("stat: inode %llu, fstat %llu", (unsigned long long)by_name.st_ino,
		       (unsigned long long)by_fd[OURS].st_ino);
	if (by_name.st_nlink != 1)
		differ("stat: %u links", (unsigned)by_name.st_nlink);
}

static void same_whole(const char *what, const int fd[SIDES])
{
	read_both(what, fd, sizeof(bytes[0]), 0);
}

/* All bytes as a mapping shows them. */
static void same_mapped(const struct twin *t)
{
	unsigned char *at;

	if (!t->size)
		return;
	at = mmap(NULL, (size_t)t->size, PROT_READ, MAP_SHARED, t->fd[OURS], 0);
	if (at == MAP_FAILED)
		differ("mmap: %s", strerror(errno));
	if (pread(t->fd[MODEL], bytes[MODEL], (size_t)t->size, 0) != t->size)
		broken("reading the model");
	same_bytes("mmap", at, bytes[MODEL], t->size, 0);
	if (munmap(at, (size_t)t->size) < 0)
		differ("munmap: %s", strerror(errno));
}

/* --- opening and closing --------------------------------------------------------------- */

static void open_both(struct twin *t, int flags)
{
	struct result got[SIDES];

	for (int s = 0; s < SIDES; s++) {
		t->fd[s] = open(t->path[s], flags | O_CLOEXEC, 0644);
		got[s] = returned(t->fd[s] < 0 ? -1 : 0);
	}
	same_result("open", got);
	if (got[OURS].value < 0)
		differ("open: %s", strerror(got[OURS].error));
}

static void close_both(const int fd[SIDES])
{
	struct result got[SIDES];

	for (int s = 0; s < SIDES; s++)
		got[s] = returned(close(fd[s]));
	same_result("close", got);
}

/* --- operations ------------------------------------------------------------------------ */

static void do_read(struct twin *t)
{
	off_t off = some_place(t, 0, t->size + PAGE), len = some_length(STEP_MAX);

	say("pread(%#llx, %#llx)", (long long)len, (long long)off);
	read_both("pread", t->fd, len, off);
}

static void write_both(const char *what, const int fd[SIDES], off_t len, off_t off)
{
	struct result got[SIDES];

	some_bytes(len);
	for (int s = 0; s < SIDES; s++)
		got[s] = returned(off < 0 ? write(fd[s], bytes[OURS], (size_t)len)
					  : pwrite(fd[s], bytes[OURS], (size_t)len, off));
	same_result(what, got);
}

static void do_write(struct twin *t)
{
	off_t end = highest(t), off, len;

	if (end <= lowest())
		return;
	off = some_place(t, lowest(), end - 1);
	/* Most writes are into the file, few make a hole. */
	if (off > t->size && !one_in(4))
		off = lowest() + below(t->size - lowest() + 1);
	len = some_length(end - off);
	say("pwrite(%#llx, %#llx)", (long long)len, (long long)off);
	if (len)
		write_both("pwrite", t->fd, len, off);
}

/* By another descriptor, which appends. */
static void do_append(struct twin *t)
{
	off_t len = some_length(run.max - t->size);
	int fd[SIDES];

	say("append(%#llx) at %#llx", (long long)len, (long long)t->size);
	if (len <= 0)
		return;
	for (int s = 0; s < SIDES; s++) {
		fd[s] = open(t->path[s], O_WRONLY | O_APPEND | O_CLOEXEC);
		if (fd[s] < 0)
			differ("open to append: %s", strerror(errno));
	}
	write_both("append", fd, len, -1);
	close_both(fd);
}

static void do_truncate(struct twin *t)
{
	off_t size = one_in(16) ? 0 : some_place(t, 0, run.max);
	bool by_name = one_in(2);
	struct result got[SIDES];

	say("%s(%#llx) from %#llx", by_name ? "truncate" : "ftruncate", (long long)size,
	    (long long)t->size);
	for (int s = 0; s < SIDES; s++)
		got[s] = returned(by_name ? truncate(t->path[s], size)
					  : ftruncate(t->fd[s], size));
	same_result("truncate", got);
}

static void do_fallocate(struct twin *t)
{
	static const struct {
		int mode;
		const char *name;
	} modes[] = {
		{ 0, "0" },
		{ FALLOC_FL_KEEP_SIZE, "KEEP_SIZE" },
		{ FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, "PUNCH_HOLE" },
	};
	int m = (int)below(3);
	off_t end = m == 0 ? highest(t) : run.max;
	struct result got[SIDES];
	off_t off, len;

	if (end <= lowest())
		return;
	off = some_place(t, lowest(), end - 1);
	len = some_length(end - off);
	say("fallocate(%s, %#llx, %#llx)", modes[m].name, (long long)off, (long long)len);
	for (int s = 0; s < SIDES; s++)
		got[s] = returned(fallocate(t->fd[s], modes[m].mode, off, len));
	same_result("fallocate", got);
}

static void all_zero(const char *what, off_t from, off_t to)
{
	for (off_t i = from; i < to; i++)
		if (bytes[MODEL][i])
			differ("%s calls byte %#llx a hole, which is %02x", what,
			       (long long)i, bytes[MODEL][i]);
}

/* Data and holes may be anywhere, but a hole reads as zeros. */
static void do_seek(struct twin *t)
{
	bool data = one_in(2);
	off_t off = some_place(t, 0, t->size + 1), at, size = t->size;
	const char *name = data ? "SEEK_DATA" : "SEEK_HOLE";

	say("lseek(%s, %#llx)", name, (long long)off);
	if (pread(t->fd[MODEL], bytes[MODEL], (size_t)size, 0) != size)
		broken("reading the model");
	if (lseek(t->fd[OURS], 0, SEEK_END) != size)
		differ("SEEK_END is not the size");
	at = lseek(t->fd[OURS], off, data ? SEEK_DATA : SEEK_HOLE);
	if (at < 0) {
		if (errno != ENXIO || (off < size && !data))
			differ("%s: %s", name, strerror(errno));
		all_zero(name, off, size);
	} else if (off >= size) {
		differ("%s beyond the end found %#llx", name, (long long)at);
	} else if (at < off || at > size || (data && at == size)) {
		differ("%s found %#llx in a file of %#llx", name, (long long)at,
		       (long long)size);
	} else if (data) {
		all_zero(name, off, at);
	} else {
		all_zero(name, at, at < size ? at + 1 : at);
	}
}

static void do_sync(struct twin *t)
{
	bool data = one_in(2);
	struct result got[SIDES];

	say(data ? "fdatasync" : "fsync");
	for (int s = 0; s < SIDES; s++)
		got[s] = returned(data ? fdatasync(t->fd[s]) : fsync(t->fd[s]));
	same_result("fsync", got);
}

static void do_reopen(struct twin *t)
{
	say("close, open");
	close_both(t->fd);
	open_both(t, O_RDWR);
}

static void do_empty(struct twin *t)
{
	bool first = one_in(2);

	say(first ? "open(O_TRUNC)" : "close, open(O_TRUNC)");
	if (first) {
		int old[SIDES] = { t->fd[OURS], t->fd[MODEL] };

		open_both(t, O_RDWR | O_TRUNC);
		close_both(old);
	} else {
		close_both(t->fd);
		open_both(t, O_RDWR | O_TRUNC);
	}
}

/* A new open reads the written bytes, though no descriptor was closed. */
static void do_look(struct twin *t)
{
	int fd[SIDES];

	say("open(O_RDONLY), read, close");
	for (int s = 0; s < SIDES; s++) {
		fd[s] = open(t->path[s], O_RDONLY | O_CLOEXEC);
		if (fd[s] < 0)
			differ("open to read: %s", strerror(errno));
	}
	same_whole("another reader", fd);
	close_both(fd);
}

static void do_dup(struct twin *t)
{
	int fd[SIDES];

	say("dup, close");
	for (int s = 0; s < SIDES; s++) {
		fd[s] = dup(t->fd[s]);
		if (fd[s] < 0)
			broken("dup");
	}
	close_both(fd);
}

static void do_mapped_read(struct twin *t)
{
	off_t off, len;
	int flags = one_in(2) ? MAP_SHARED : MAP_PRIVATE;
	unsigned char *at;

	if (!t->size)
		return;
	off = below(t->size);
	off -= off % PAGE;
	len = some_length(t->size - off);
	say("mmap(%s, %#llx, %#llx), read", flags == MAP_SHARED ? "SHARED" : "PRIVATE",
	    (long long)len, (long long)off);
	at = mmap(NULL, (size_t)len, PROT_READ, flags, t->fd[OURS], off);
	if (at == MAP_FAILED)
		differ("mmap: %s", strerror(errno));
	if (pread(t->fd[MODEL], bytes[MODEL], (size_t)len, off) != len)
		broken("reading the model");
	same_bytes("mapped", at, bytes[MODEL], len, off);
	munmap(at, (size_t)len);
}

/* Write into a mapping; other operations before munmap(2) must not affect it. */
static void do_mapped_write(struct twin *t)
{
	off_t base, off, len;
	unsigned char *at;

	if (t->size <= lowest())
		return;
	off = lowest() + below(t->size - lowest());
	len = some_length(t->size - off);
	base = off - off % PAGE;
	say("mmap(%#llx, %#llx), write", (long long)len, (long long)off);
	at = mmap(NULL, (size_t)(off - base + len), PROT_READ | PROT_WRITE, MAP_SHARED,
		  t->fd[OURS], base);
	if (at == MAP_FAILED)
		differ("mmap: %s", strerror(errno));
	some_bytes(len);
	memcpy(at + (off - base), bytes[OURS], (size_t)len);
	if (pwrite(t->fd[MODEL], bytes[OURS], (size_t)len, off) != len)
		broken("writing the model");
	switch (below(5)) {
	case 0:
		say_more(", msync");
		if (msync(at, (size_t)(off - base + len), MS_SYNC) < 0)
			differ("msync: %s", strerror(errno));
		break;
	case 1:
		say_more(", close, open");
		close_both(t->fd);
		open_both(t, O_RDWR);
		break;
	case 2:
		say_more(", fsync");
		if (fsync(t->fd[OURS]) < 0)
			differ("fsync: %s", strerror(errno));
		break;
	case 3:
		say_more(", pwrite");
		len = some_length(len);
		write_both("pwrite while mapped", t->fd, len, off);
		same_bytes("mapped after pwrite", at + (off - base), bytes[OURS], len,
			   off);
		break;
	}
	if (munmap(at, (size_t)(off - base + len)) < 0)
		differ("munmap: %s", strerror(errno));
}

static struct result copy_range(int in, off_t from, int out, off_t to, off_t len)
{
	long long total = 0;

	while (len > 0) {
		ssize_t n = copy_file_range(in, &from, out, &to, (size_t)len, 0);

		if (n < 0)
			return returned(-1);
		if (n == 0)
			break;
		total += n;
		len -= n;
	}
	return returned(total);
}

static void do_copy(struct twin *t)
{
	struct twin *in = t, *out = t;
	struct result got[SIDES];
	off_t from, to, len;

	if (run.keep < 0 && !one_in(3)) {
		if (one_in(2))
			in = &run.peer;
		else
			out = &run.peer;
	}
	if (highest(out) <= lowest())
		return;
	from = some_place(in, 0, in->size);
	to = some_place(out, lowest(), highest(out) - 1);
	len = some_length(highest(out) - to);
	/* A file that grows by what is copied from it would be copied in tiny steps. */
	if (len > in->size - from && (in == out || !one_in(8)))
		len = in->size - from;
	say("copy_file_range(%s %#llx, %s %#llx, %#llx)", in == t ? "file" : "peer",
	    (long long)from, out == t ? "file" : "peer", (long long)to, (long long)len);
	for (int s = 0; s < SIDES; s++)
		got[s] = copy_range(in->fd[s], from, out->fd[s], to, len);
	same_result("copy_file_range", got);
	if (out == &run.peer) {
		same_sizes(out);
		same_whole("the peer", out->fd);
	}
}

static void do_rename(struct twin *t)
{
	char name[PATH_MAX];

	say("rename");
	if (rename(t->path[OURS], t->other) < 0)
		differ("rename: %s", strerror(errno));
	if (access(t->path[OURS], F_OK) == 0)
		differ("rename left the old name");
	strcpy(name, t->path[OURS]);
	strcpy(t->path[OURS], t->other);
	strcpy(t->other, name);
	t->renamed = !t->renamed;
}

/* Remove the name, or give it to another file; open descriptors keep the file. */
static void do_replace(struct twin *t)
{
	bool over = run.rename && one_in(2);
	struct stat st;

	say(over ? "rename peer over it" : "unlink, open(O_CREAT | O_EXCL)");
	for (int s = 0; s < SIDES; s++)
		if (over ? rename(run.peer.path[s], t->path[s]) : unlink(t->path[s]))
			differ("replace: %s", strerror(errno));
	same_whole("the file that was replaced", t->fd);
	if (fstat(t->fd[OURS], &st) < 0 || st.st_nlink != 0)
		differ("a file without a name has %u links", (unsigned)st.st_nlink);
	if (one_in(2))
		write_both("write without a name", t->fd, some_length(PAGE), 0);
	close_both(t->fd);
	open_both(t, over ? O_RDWR : O_RDWR | O_CREAT | O_EXCL);
	if (over) {
		close_both(run.peer.fd);
		open_both(&run.peer, O_RDWR | O_CREAT | O_EXCL);
		run.peer.size = 0;
	}
}

static const bool always = true;

static const struct operation {
	void (*run)(struct twin *t);
	unsigned weight;
	const bool *wanted;
	bool resizes; /* the file, or makes it anew */
} operations[] = {
	{ do_read, 20, &always, false },
	{ do_write, 24, &always, false },
	{ do_append, 4, &always, true },
	{ do_truncate, 8, &always, true },
	{ do_fallocate, 6, &run.fallocate, false },
	{ do_seek, 4, &always, false },
	{ do_sync, 3, &always, false },
	{ do_reopen, 4, &always, false },
	{ do_empty, 1, &always, true },
	{ do_look, 4, &always, false },
	{ do_dup, 2, &always, false },
	{ do_mapped_read, 6, &run.mmap, false },
	{ do_mapped_write, 8, &run.mmap, false },
	{ do_copy, 6, &run.copy, false },
	{ do_rename, 1, &run.rename, false },
	{ do_replace, 1, &always, true },
};

static const struct operation *some_operation(void)
{
	const size_t n = sizeof(operations) / sizeof(operations[0]);

	for (;;) {
		const struct operation *op = NULL;
		off_t at, total = 0;

		for (size_t i = 0; i < n; i++)
			total += operations[i].weight;
		at = below(total);
		for (size_t i = 0; i < n && !op; i++) {
			if (at < operations[i].weight)
				op = &operations[i];
			at -= operations[i].weight;
		}
		if (*op->wanted && !(op->resizes && run.keep >= 0))
			return op;
	}
}

/* --- the run --------------------------------------------------------------------------- */

static void name_twin(struct twin *t, const char *path, const char *prefix,
		      const char *model)
{
	const char *base = strrchr(path, '/');
	int dir;

	base = base ? base + 1 : path;
	dir = (int)(base - path);
	snprintf(t->path[OURS], PATH_MAX, "%.*s%s%s", dir, path, prefix, base);
	snprintf(t->other, PATH_MAX, "%.*sother-%s%s", dir, path, prefix, base);
	if (snprintf(t->path[MODEL], PATH_MAX, "%s/%s", run.dir, model) >= PATH_MAX)
		broken("the model's path");
}

/* The model of a file that is there. */
static void take_over(struct twin *t)
{
	struct stat st;
	ssize_t n;

	t->fd[OURS] = open(t->path[OURS], O_RDWR | O_CLOEXEC);
	t->fd[MODEL] = open(t->path[MODEL], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (t->fd[OURS] < 0 || t->fd[MODEL] < 0 || fstat(t->fd[OURS], &st) < 0)
		broken(t->path[OURS]);
	if (st.st_size > (off_t)sizeof(bytes[0]) || st.st_size < run.keep) {
		errno = EFBIG;
		broken(t->path[OURS]);
	}
	n = pread(t->fd[OURS], bytes[OURS], sizeof(bytes[0]), 0);
	if (n != st.st_size || write(t->fd[MODEL], bytes[OURS], (size_t)n) != n)
		broken("copying to the model");
	run.max = st.st_size;
}

static void begin(const char *path)
{
	name_twin(&run.file, path, "", "file");
	name_twin(&run.peer, path, "peer-", "peer");
	if (run.keep >= 0) {
		take_over(&run.file);
	} else {
		open_both(&run.file, O_RDWR | O_CREAT | O_EXCL);
		open_both(&run.peer, O_RDWR | O_CREAT | O_EXCL);
	}
	same_sizes(&run.file);
}

/* The end: what is on the device at last is what the model is. */
static void end(void)
{
	if (run.file.renamed)
		do_rename(&run.file);
	do_reopen(&run.file);
	same_whole("the end", run.file.fd);
	close_both(run.file.fd);
	if (run.keep < 0) {
		close_both(run.peer.fd);
		if (unlink(run.peer.path[OURS]) < 0)
			differ("unlink: %s", strerror(errno));
	}
}

__attribute__((__noreturn__)) static void usage(void)
{
	fputs("usage: fsx [options] FILE\n"
	      "  --ops N         operations (10000)\n"
	      "  --seed N        1\n"
	      "  --size BYTES    no file grows beyond (262144)\n"
	      "  --keep BYTES    FILE is there; its size and first BYTES stay\n"
	      "  --model DIR     where models are made (/dev/shm)\n"
	      "  --no-mmap --no-fallocate --no-copy --no-rename\n",
	      stderr);
	exit(2);
}

static long long number(const char *text, long long max)
{
	char *stop;
	long long n;

	errno = 0;
	n = strtoll(text, &stop, 0);
	if (errno || stop == text || *stop || n < 0 || n > max)
		usage();
	return n;
}

static const char *options(int argc, char **argv)
{
	static const struct option known[] = {
		{ "ops", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 's' },
		{ "size", required_argument, NULL, 'l' },
		{ "keep", required_argument, NULL, 'k' },
		{ "model", required_argument, NULL, 'm' },
		{ "no-mmap", no_argument, NULL, 'M' },
		{ "no-fallocate", no_argument, NULL, 'F' },
		{ "no-copy", no_argument, NULL, 'C' },
		{ "no-rename", no_argument, NULL, 'R' },
		{ NULL, 0, NULL, 0 },
	};
	const char *model = "/dev/shm";
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'n':
			run.operations = (unsigned long)number(optarg, LONG_MAX);
			break;
		case 's':
			run.seed = (uint64_t)number(optarg, LLONG_MAX);
			break;
		case 'l':
			run.max = (off_t)number(optarg, sizeof(bytes[0]));
			break;
		case 'k':
			run.keep = (off_t)number(optarg, sizeof(bytes[0]));
			break;
		case 'm':
			model = optarg;
			break;
		case 'M':
			run.mmap = false;
			break;
		case 'F':
			run.fallocate = false;
			break;
		case 'C':
			run.copy = false;
			break;
		case 'R':
			run.rename = false;
			break;
		default:
			usage();
		}
	}
	if (optind != argc - 1 || strlen(argv[optind]) > PATH_MAX - 32 || !run.max)
		usage();
	snprintf(run.dir, sizeof(run.dir), "%s/fsx.XXXXXX", model);
	return argv[optind];
}

int main(int argc, char **argv)
{
	const char *path = options(argc, argv);
	struct timespec t0, t1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%s: %lu operations, seed %llu\n", path, run.operations,
	       (unsigned long long)run.seed);
	if (!mkdtemp(run.dir)) {
		char dir[PATH_MAX];

		strcpy(dir, run.dir);
		run.dir[0] = '\0';
		broken(dir);
	}
	run.random = run.seed;
	clock_gettime(CLOCK_MONOTONIC, &t0);
	begin(path);
	while (run.done < run.operations) {
		some_operation()->run(&run.file);
		same_sizes(&run.file);
		if (run.done % WHOLE == 0) {
			same_whole("all bytes", run.file.fd);
			if (run.mmap)
				same_mapped(&run.file);
		}
	}
	end();
	clock_gettime(CLOCK_MONOTONIC, &t1);
	printf("the same, after %.1f s\n",
	       (double)(t1.tv_sec - t0.tv_sec) +
		       1e-9 * (double)(t1.tv_nsec - t0.tv_nsec));
	remove_models();
	return 0;
}
