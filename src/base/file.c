/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of files. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pjrtfs/base.h"

enum { PIECE = 65536 };

ssize_t pf_read_at(int fd, void *dst, size_t len, uint64_t off)
{
	size_t done = 0;
	ssize_t n = 1;

	while (done < len && n) {
		n = pread(fd, (char *)dst + done, len - done, (off_t)(off + done));
		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)done;
}

int pf_write_at(int fd, const void *src, size_t len, uint64_t off)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pwrite(fd, (const char *)src + done, len - done,
				   (off_t)(off + done));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -EIO;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

int pf_read_all(int fd, size_t max, struct pf_buf *out)
{
	size_t piece;
	ssize_t n;

	do {
		piece = max < PIECE ? max : PIECE;
		if (!pf_buf_reserve(out, piece))
			return -ENOMEM;
		n = TEMP_FAILURE_RETRY(read(fd, out->data + out->len, piece));
		out->len += n > 0 ? (size_t)n : 0;
		out->data[out->len] = '\0';
		max -= n > 0 ? (size_t)n : 0;
	} while (n > 0 && max);
	return n < 0 ? -errno : 0;
}

bool pf_read_start(const char *path, char *dst, size_t size)
{
	pf_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : pf_read_at(fd, dst, size - 1, 0);

	dst[n < 0 ? 0 : n] = '\0';
	return n >= 0;
}

void pf_make_parents(char *path)
{
	for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		(void)mkdir(path, 0700);
		*p = '/';
	}
}

void pf_find_installed(const char *name, const char *dir, char *dst, size_t len)
{
	char self[PATH_MAX - 32];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash = n > 0 ? memrchr(self, '/', (size_t)n) : NULL;

	if (slash) {
		snprintf(dst, len, "%.*s/%s", (int)(slash - self), self, name);
		if (access(dst, R_OK) == 0)
			return;
	}
	snprintf(dst, len, "%s/%s", dir, name);
}
