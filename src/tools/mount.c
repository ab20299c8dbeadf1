/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a mount, as any program uses them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* Open the file that FMT and WORDS name below MOUNT, whose path goes to PATH. */
static int open_file(char path[PATH_MAX], int flags, struct pf_err *err,
		     const char *mount, const char *fmt, va_list words)
{
	int n = snprintf(path, PATH_MAX, "%s/", mount), fd;

	if (n < PATH_MAX)
		n += vsnprintf(path + n, PATH_MAX - (size_t)n, fmt, words);
	if (n >= PATH_MAX)
		return pf_err_set(err, -ENAMETOOLONG, "the path %s... is too long", path);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? pf_err_set(err, -errno, "open %s: %s", path, strerror(errno))
		      : fd;
}

int tool_read(struct pf_buf *text, struct pf_err *err, const char *mount, const char *fmt,
	      ...)
{
	char path[PATH_MAX];
	va_list words;
	pf_autoclose int fd = -1;
	int r;

	va_start(words, fmt);
	fd = open_file(path, O_RDONLY, err, mount, fmt, words);
	va_end(words);
	if (fd < 0)
		return fd;
	r = pf_read_all(fd, SIZE_MAX, text);
	return r < 0 ? pf_err_set(err, r, "read %s: %s", path, strerror(-r)) : 0;
}

int tool_write(const char *text, struct pf_err *err, const char *mount, const char *fmt,
	       ...)
{
	char path[PATH_MAX];
	va_list words;
	pf_autoclose int fd = -1;

	va_start(words, fmt);
	fd = open_file(path, O_WRONLY, err, mount, fmt, words);
	va_end(words);
	if (fd < 0)
		return fd;
	if (write(fd, text, strlen(text)) < 0)
		return tool_refused(mount, errno, path, err);
	return 0;
}

int tool_refused(const char *mount, int code, const char *what, struct pf_err *err)
{
	pf_autobuf struct pf_buf said = PF_BUF_INIT;

	if (tool_read(&said, NULL, mount, "error") == 0 && said.len > 1)
		return pf_err_set(err, -code, "%.*s", (int)said.len - 1, said.data);
	return pf_err_set(err, -code, "%s: %s", what, strerror(code));
}

int tool_check_mount(const char *mount, struct pf_err *err)
{
	pf_autobuf struct pf_buf version = PF_BUF_INIT;
	int r = tool_read(&version, err, mount, "version");

	if (r == -ENOENT || r == -ENOTDIR)
		return pf_err_set(err, r, "%s is not a mount of pjrtfs", mount);
	return r;
}

int tool_fail(const struct pf_err *err)
{
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, err->text);
	return 1;
}

int tool_usage(const char *what, const char *word)
{
	fprintf(stderr, "%s: %s%s; see %s --help\n", program_invocation_short_name, what,
		word, program_invocation_short_name);
	return 2;
}
