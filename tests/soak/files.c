/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of files: arrays in all formats, mappings, attributes, listings, facts. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "soak.h"

static char bytes[MOST * 4 + 16];

/* --- files -------------------------------------------------------------------------- */

static struct value new_value(const struct thing *t)
{
	uint32_t most = !strcmp(t->ext, "txt") ? 3000 : one_in(20) ? MOST : 5000;
	char type = *t->ext == 'r' ? 'b' : *t->ext == 't' ? 'f' : 'i';

	return value_random(type, 1 + below(most));
}

static void rename_thing(struct thing *from, struct thing *to)
{
	struct value v = from->may[0];

	op_begin(OP_RENAME, "%s to %s", thing_path(from, from->ext),
		 thing_path(to, to->ext));
	thing_may(to, &v);
	thing_may(from, NULL);
	if (!op_ended(rename(thing_path(from, from->ext), thing_path(to, to->ext)) ? errno
										   : 0,
		      NULL))
		return;
	thing_is(to, &v);
	to->renamed = from->renamed;
	thing_is(from, NULL);
}

/* A process that has a file open reads the old value when a rename has replaced it. */
static void held_step(struct thing *t)
{
	struct value old = t->may[0], v = new_value(t);
	int fd = open(thing_path(t, "raw"), O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0) {
		thing_check(t);
		return;
	}
	thing_put(t, &v, true);
	op_begin(OP_HELD, "the old %s", t->name);
	n = pread(fd, bytes, sizeof(bytes), 0);
	if (n >= 0 && !value_is(&old, bytes, (size_t)n))
		wrong("an open file changed with its name");
	op_ended(n < 0 ? errno : 0, NULL);
	close(fd);
}

void files_step(void)
{
	struct thing *t = thing(below(THINGS)), *to = thing(below(THINGS));
	struct value v = new_value(t);

	if (!thing_certain(t)) {
		thing_check(t);
		return;
	}
	switch (thing_there(t) ? below(10) : 0) {
	case 0:
	case 1:
		if (one_in(16))
			interrupt_in(1 + below(2000));
		thing_put(t, &v, false);
		break;
	case 2:
	case 3:
		thing_put(t, &v, true);
		break;
	case 4:
		thing_remove(t);
		break;
	case 5:
		if (to != t && thing_certain(to) && !strcmp(t->ext, to->ext))
			rename_thing(t, to);
		break;
	case 6:
		held_step(t);
		break;
	default:
		thing_check(t);
	}
}

/* --- mappings ----------------------------------------------------------------------- */

static sigjmp_buf no_page;

static void on_sigbus(int signal)
{
	(void)signal;
	siglongjmp(no_page, 1);
}

void mmap_begin(void)
{
	struct sigaction act = { .sa_handler = on_sigbus, .sa_flags = SA_NODEFER };

	sigaction(SIGBUS, &act, NULL);
}

/* Write V, or compare, through a mapping: 0 or an errno. */
static int mapped(const char *path, const struct value *v, bool write)
{
	int fd = open(path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	size_t len = value_size(v);
	void *at;
	int err = 0;

	if (fd < 0)
		return errno;
	at = mmap(NULL, len, write ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd,
		  0);
	if (at == MAP_FAILED) {
		err = errno;
	} else if (sigsetjmp(no_page, 1)) {
		err = EIO;
	} else if (write) {
		value_fill(v, at);
		if (one_in(2) && msync(at, len, MS_SYNC))
			err = errno;
	} else if (!value_is(v, at, len)) {
		wrong("a mapping shows other bytes");
	}
	if (at != MAP_FAILED)
		munmap(at, len);
	if (close(fd) && !err)
		err = errno;
	return err;
}

void mmap_step(void)
{
	struct thing *t = thing(2 + 4 * below(2));
	bool write = one_in(2);
	struct value v;
	int err;

	if (!thing_settled(t))
		return;
	if (!thing_there(t)) {
		v = value_random('b', 1 + below(100000));
		thing_put(t, &v, false);
		return;
	}
	v = write ? value_random('b', t->may[0].n) : t->may[0];
	op_begin(OP_MMAP, "%s %s", write ? "write" : "read", thing_path(t, "raw"));
	if (write) {
		thing_may(t, &v);
		t->partial = true;
	}
	err = mapped(thing_path(t, "raw"), &v, write);
	if (err) {
		/* The kernel wrote the pages, not this user: the array has the sentence. */
		read_file(thing_path(t, "json"), bytes, sizeof(bytes));
		op_failed(err, strstr(bytes, "\"error\":\"") ? bytes : NULL);
		return;
	}
	thing_is(t, &v);
	op_ok();
	if (write)
		thing_check(t);
}

/* --- attributes --------------------------------------------------------------------- */

/* The type of the bytes is TYPE, the shape [N]: 0 or an errno. */
static int set_type(const char *path, const char *type, uint32_t n)
{
	char shape[16], is[32];
	ssize_t len;

	snprintf(shape, sizeof(shape), "%u", n);
	if (setxattr(path, "user.pjrtfs.dtype", type, strlen(type), 0) ||
	    setxattr(path, "user.pjrtfs.shape", shape, strlen(shape), 0))
		return errno;
	len = getxattr(path, "user.pjrtfs.dtype", is, sizeof(is));
	if (len < 0)
		return errno;
	if ((size_t)len != strlen(type) || memcmp(is, type, (size_t)len) != 0)
		wrong("the type is '%.*s' instead of '%s'", (int)len, is, type);
	return 0;
}

static int set_attributes(const char *path)
{
	static const mode_t modes[] = { 0600, 0640, 0644, 0666 };
	struct timespec times[2] = { { 1000 + (time_t)below(1000000), 0 }, { 0, 0 } };
	mode_t mode = modes[below(4)];
	struct stat st;

	times[1].tv_sec = times[0].tv_sec + 1;
	if (chmod(path, mode) || utimensat(AT_FDCWD, path, times, 0) || stat(path, &st))
		return errno;
	if ((st.st_mode & 07777) != mode || st.st_mtim.tv_sec != times[1].tv_sec ||
	    st.st_uid != me->uid)
		wrong("mode %o instead of %o, time %ld instead of %ld, owner %u",
		      st.st_mode & 07777, mode, (long)st.st_mtim.tv_sec,
		      (long)times[1].tv_sec, st.st_uid);
	return 0;
}

void attributes_step(void)
{
	struct thing *t = thing(2);
	const char *path;
	int err;

	if (!thing_need(t, 'b', 4096))
		return;
	path = thing_path(t, "raw");
	op_begin(OP_ATTR, "%s", path);
	err = set_attributes(path);
	if (!err)
		err = set_type(path, one_in(2) ? "S32" : "F32", 1024);
	if (!err)
		err = set_type(path, "U8", 4096);
	if (err) {
		op_failed(err, NULL);
		unlink(path); /* its type is not known */
		thing_leave(t);
		return;
	}
	op_ok();
	thing_check(t);
	if (one_in(10))
		thing_remove(t);
}

/* --- what belongs to others --------------------------------------------------------- */

/* Each of these must fail with EACCES or EPERM, whatever the faults. */
static int try_foreign(unsigned what)
{
	int fd;

	switch (what) {
	case 0:
		return write_file("buffers/c0/foreign.raw", O_CREAT, "x", 1, 1);
	case 1:
		return rename("buffers/secret.raw", "buffers/open.raw") ? errno : 0;
	case 2:
		return unlink("buffers/secret.raw") ? errno : 0;
	case 3:
		return write_file("buffers/secret.raw", 0, "x", 1, 1);
	case 4:
		return chmod("buffers/secret.raw", 0644) ? errno : 0;
	case 5:
		return (int)-read_file("plugins/cpu/log", bytes, sizeof(bytes));
	case 6:
		return write_text("executables/add16/options.json", "{}\n");
	default:
		fd = open("buffers/secret.raw", O_RDONLY | O_CLOEXEC);
		if (fd >= 0)
			close(fd);
		return fd < 0 ? errno : 0;
	}
}

void foreign_step(void)
{
	unsigned what = below(9);
	int err, fd;

	op_begin(OP_FOREIGN, "attempt %u on others' files", what);
	if (what < 8) {
		err = try_foreign(what);
	} else {
		fd = talk_open("control");
		err = fd < 0 ? errno
			     : talk(fd,
				    "{\"op\":\"copy\",\"buffer\":\"secret\",\"as\":\"c%u/s\"}\n",
				    me->index);
		talk_close(&fd);
	}
	if (err)
		op_ended(err == EACCES || err == EPERM ? 0 : err, NULL);
	else
		wrong("it succeeded");
	pause_ms(5);
}

/* --- listings, while another client renames ----------------------------------------- */

void lister_step(void)
{
	unsigned seen[STABLE] = { 0 }, i;
	struct dirent *entry;
	DIR *dir;

	op_begin(OP_LIST, "buffers/list");
	dir = opendir("buffers/list");
	if (!dir) {
		op_failed(errno, NULL);
		return;
	}
	errno = 0;
	while ((entry = readdir(dir)))
		if (sscanf(entry->d_name, "s%u.raw", &i) == 1 && i < STABLE)
			seen[i]++;
	if (op_ended(errno, NULL))
		for (i = 0; i < STABLE; i++)
			if (seen[i] != 1)
				wrong("s%u.raw is listed %u times", i, seen[i]);
	closedir(dir);
	pause_ms(below(5));
}

void renamer_step(void)
{
	unsigned i = below(16);
	const char *from = path_of("buffers/list/r%u.raw", i);
	const char *to = path_of("buffers/list/q%u.raw", i);
	int err;

	op_begin(OP_RENAME, "%s", from);
	err = rename(from, to) && rename(to, from) ? errno : 0;
	if (err == ENOENT)
		err = write_file(from, O_CREAT, "abc", 3, 3);
	op_ended(err, NULL);
	pause_ms(below(3));
}

/* --- facts and events --------------------------------------------------------------- */

void facts_step(void)
{
	/* The parts before and after the plugin's name, which few have not. */
	static const char *const files[][2] = {
		{ "README" },
		{ "version" },
		{ "pid" },
		{ "health" },
		{ "metrics.prom" },
		{ "plugins/", "/state" },
		{ "plugins/", "/restarts" },
		{ "plugins/", "/alive.json" },
		{ "plugins/", "/attributes.json" },
		{ "plugins/", "/log" },
		{ "devices/", "/0/memory_stats.json" },
		{ "devices/", "/1/executables" },
		{ "cache/stats.json" },
		{ "executables/add16/cost.json" },
		{ "executables/add16/signature.json" },
	};
	const char *const *file = files[below(sizeof(files) / sizeof(files[0]))];
	const char *path =
		file[1] ? path_of("%s%s%s", file[0], opt.plugin, file[1]) : file[0];
	struct statvfs fs;
	ssize_t n;

	op_begin(OP_FACT, "%s", path);
	n = read_file(path, bytes, sizeof(bytes));
	if (n < 0) {
		op_failed((int)-n, NULL);
		return;
	}
	if (n > 0 && bytes[n - 1] != '\n')
		wrong("the text does not end with a newline");
	if (statvfs(".", &fs))
		op_failed(errno, NULL);
	else if (fs.f_bfree > fs.f_blocks)
		wrong("df has %lu of %lu free", (unsigned long)fs.f_bfree,
		      (unsigned long)fs.f_blocks);
	else
		op_ok();
	pause_ms(below(5));
}

static int events = -1;

void events_begin(void)
{
	events = open("events", O_RDONLY | O_CLOEXEC);
	if (events < 0)
		wrong("events: %s", strerror(errno));
}

/* Each line is an object; a line can begin in one read and end in the next. */
static bool are_lines(const char *text, size_t len)
{
	static char before = '\n';

	for (size_t i = 0; i < len; before = text[i++])
		if ((before == '\n' && text[i] != '{') ||
		    (text[i] == '\n' && before != '}'))
			return false;
	return true;
}

void events_step(void)
{
	struct pollfd wait = { events, POLLIN, 0 };
	ssize_t n;

	op_begin(OP_EVENT, "events");
	n = poll(&wait, 1, 1000) < 0 ? -1 : read(events, bytes, sizeof(bytes));
	if (!op_ended(n < 0 ? errno : 0, NULL))
		return;
	if (!are_lines(bytes, (size_t)n))
		wrong("%zd bytes are not lines of objects", n);
	pause_ms(below(50));
}
