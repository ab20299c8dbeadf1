/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pjrtfs/base/buf.h"
#include "pjrtfs/base/home.h"

#ifndef SYSTEM_CONFIG /* tests have another */
#define SYSTEM_CONFIG "/etc/pjrtfs.json"
#endif

/* All of FD, up to one byte more than may be. */
static int read_all(int fd, const char *file, struct pf_buf *out, struct pf_err *err)
{
	ssize_t n = 1;

	while (n > 0 && out->len <= PF_CONFIG_MAX) {
		char *dst = pf_buf_reserve(out, 65536);

		if (!dst)
			return pf_err_set(err, -ENOMEM, "no memory to read %s", file);
		n = read(fd, dst, 65536);
		if (n < 0 && errno != EINTR)
			return pf_err_set(err, -errno, "read the configuration %s: %s",
					  file, strerror(errno));
		dst[n > 0 ? n : 0] = '\0';
		out->len += n > 0 ? (size_t)n : 0;
		n = n < 0 ? 1 : n;
	}
	return 0;
}

/* A configuration names plugins, which are code that runs as the user. */
static int check_owner(int fd, const char *file, struct pf_err *err)
{
	struct stat st;

	if (fstat(fd, &st))
		return pf_err_set(err, -errno, "read the configuration %s: %s", file,
				  strerror(errno));
	if (S_ISDIR(st.st_mode))
		return pf_err_set(err, -EISDIR,
				  "read the configuration %s: expected a file, found a "
				  "directory",
				  file);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return pf_err_set(
			err, -EPERM,
			"the configuration %s can name plugins to run: expected "
			"root or user %u for its owner, found user %u",
			file, (unsigned)geteuid(), (unsigned)st.st_uid);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return pf_err_set(
			err, -EPERM,
			"the configuration %s can name plugins to run: expected "
			"that only its owner may write to it, found mode %04o; "
			"chmod go-w mends that",
			file, (unsigned)st.st_mode & 07777);
	return 0;
}

static int read_file(struct options *o, const char *file, bool must, struct pf_err *err)
{
	pf_autoclose int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_config_text t = { .file = file };
	int r;

	/* A file that the user may not read does not speak to that user. */
	if (fd < 0 && !must && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
		return 0;
	if (fd < 0)
		return pf_err_set(err, -errno, "read the configuration %s: %s", file,
				  strerror(errno));
	r = read_all(fd, file, &text, err);
	/* What is empty names nothing: /dev/null is everybody's. */
	if (text.len || r == -EISDIR)
		r = check_owner(fd, file, err);
	if (r < 0)
		return r;
	t.text = text.data ? text.data : "";
	t.len = text.len;
	r = pf_config_text_parse(&t, err);
	if (r == 0)
		r = config_take(o, &t, err);
	pf_config_text_release(&t);
	return r;
}

/* The user's file, the caller's; NULL: there is no home, or no memory. */
static char *user_file(void)
{
	const char *xdg = getenv("XDG_CONFIG_HOME");
	pf_autofree char *home = NULL;
	char *path;

	if (xdg && *xdg == '/')
		return asprintf(&path, "%s/pjrtfs.json", xdg) < 0 ? NULL : path;
	home = pf_home_dir();
	if (!home)
		return NULL;
	return asprintf(&path, "%s/.config/pjrtfs.json", home) < 0 ? NULL : path;
}

int config_read(struct options *o, const char *file, struct pf_err *err)
{
	pf_autofree char *own = file ? NULL : user_file();
	int r;

	o->settings.layer = 1;
	if (file)
		return read_file(o, file, true, err);
	r = read_file(o, SYSTEM_CONFIG, false, err);
	o->settings.layer = 2;
	if (r == 0 && own)
		r = read_file(o, own, false, err);
	return r;
}
