/* SPDX-License-Identifier: Apache-2.0 */
/* FFI libraries: their files, and the list of them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/elf.h"
#include "pjrtfs/json.h"
#include "pjrtfs/library.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

enum { NAME = 200 /* bytes of a library's name */ };

/* Libraries are only added, so the first n of them can be read at any time. */
struct pf_libraries {
	struct pf_library
		*at[PF_LIBRARIES_MAX]; /* owned, unless they are another list's */
	_Atomic unsigned n;
	bool borrows;
};

void pf_library_free(struct pf_library *l)
{
	if (!l)
		return;
	pf_closep(&l->fd);
	json_object_put(l->targets);
	free(l->name);
	free(l->path);
	free(l->plugin);
	free(l->platform);
	free(l);
}

struct pf_libraries *pf_libraries_new(void)
{
	return calloc(1, sizeof(struct pf_libraries));
}

void pf_libraries_free(struct pf_libraries *libs)
{
	if (!libs)
		return;
	for (unsigned i = 0; i < libs->n && !libs->borrows; i++)
		pf_library_free(libs->at[i]);
	free(libs);
}

/* --- the file ------------------------------------------------------------------------------ */

/* May the file that ST is about be loaded?  It is code that runs as this process's user. */
static int check_file(const struct stat *st, struct pf_err *err)
{
	if (!S_ISREG(st->st_mode))
		return pf_err_set(err, -EINVAL, "expected a regular file, found a %s",
				  S_ISDIR(st->st_mode)    ? "directory"
				  : S_ISFIFO(st->st_mode) ? "FIFO"
							  : "special file");
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return pf_err_set(err, -EPERM,
				  "it is code to run: expected root or user %u for its "
				  "owner, found user %u",
				  (unsigned)geteuid(), (unsigned)st->st_uid);
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return pf_err_set(err, -EPERM,
				  "it is code to run: expected that only its owner may "
				  "write to it, found mode %04o; chmod go-w mends that",
				  (unsigned)st->st_mode & 07777);
	return 0;
}

/* A new memfd called NAME; where the system refuses those that could be executed, one that cannot
 * be: a library is only mapped. */
static int new_memfd(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	return fd < 0 && errno == EINVAL
		       ? memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)
		       : fd;
}

/* Copy FROM to L's memfd, and its SHA-256 to L. */
static int copy_file(struct pf_library *l, int from, struct pf_err *err)
{
	pf_autofree char *piece = malloc(1 << 20);
	EVP_MD_CTX *sha = EVP_MD_CTX_new();
	size_t total = 0;
	ssize_t n = 1;
	int r = 0;

	if (!piece || !sha || !EVP_DigestInit_ex(sha, EVP_sha256(), NULL))
		r = pf_err_set(err, -ENOMEM, "no memory to read it");
	while (r == 0 && n > 0) {
		n = TEMP_FAILURE_RETRY(read(from, piece, 1 << 20));
		total += n > 0 ? (size_t)n : 0;
		if (n < 0 ||
		    (n > 0 && TEMP_FAILURE_RETRY(write(l->fd, piece, (size_t)n)) != n) ||
		    !EVP_DigestUpdate(sha, piece, n > 0 ? (size_t)n : 0))
			r = pf_err_set(err, errno ? -errno : -EIO, "%s",
				       strerror(errno ? errno : EIO));
		else if (total > PF_LIBRARY_BYTES)
			r = pf_err_set(err, -EFBIG, "expected a file of at most %d bytes",
				       PF_LIBRARY_BYTES);
	}
	if (r == 0 && !EVP_DigestFinal_ex(sha, l->sha256, NULL))
		r = pf_err_set(err, -ENOMEM, "no memory for a SHA-256");
	EVP_MD_CTX_free(sha);
	if (r == 0 && fcntl(l->fd, F_ADD_SEALS,
			    F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		r = pf_err_set(err, -errno, "seal its copy: %s", strerror(errno));
	return r;
}

static int read_library(struct pf_library *l, struct pf_err *err)
{
	pf_autoclose int fd = open(l->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st))
		return pf_err_set(err, -errno, "%s", strerror(errno));
	/* Its own library is trusted as pjrtfs-worker is. */
	r = l->builtin ? 0 : check_file(&st, err);
	if (r < 0)
		return r;
	l->fd = new_memfd(l->name);
	if (l->fd < 0)
		return pf_err_set(err, -errno, "no memory for its bytes: %s",
				  strerror(errno));
	errno = 0;
	r = copy_file(l, fd, err);
	return r < 0 ? r : pf_elf_check(l->fd, err);
}

/* Is L, which has been read, the file that SPEC means?  Addresses in another one are those of anything. */
static int check_sha256(const struct pf_library *l, const struct pf_library_spec *spec,
			struct pf_err *err)
{
	char hex[2 * PF_LIBRARY_SHA256 + 1];

	pf_hex(l->sha256, PF_LIBRARY_SHA256, hex);
	if (spec->sha256 && strcasecmp(hex, spec->sha256) != 0)
		return pf_err_set(err, -ESTALE,
				  "the file has changed: expected SHA-256 %.64s, which "
				  "stands beside its targets, found %s",
				  spec->sha256, hex);
	if (spec->sha256 || !spec->targets)
		return 0;
	json_object_object_foreach(spec->targets, target, place) {
		const char *at = json_object_get_string(place);

		if (*at == '+')
			return pf_err_set(
				err, -EINVAL,
				"target %.80s is at %.32s: expected \"sha256\" of "
				"the file that has it there, found none; that of "
				"this file is %s",
				target, at, hex);
	}
	return 0;
}

/* --- the list ------------------------------------------------------------------------------ */

/* Is there a library called NAME? */
static bool has(const struct pf_libraries *libs, const char *name)
{
	for (unsigned i = 0; i < libs->n; i++)
		if (!strcmp(libs->at[i]->name, name))
			return true;
	return false;
}

/* Call L after its file, without .so and what follows; a second one of a name has a number. */
static int give_name(const struct pf_libraries *libs, struct pf_library *l)
{
	const char *file = strrchr(l->path, '/');
	const char *end;
	char base[NAME], name[NAME + 16];
	size_t len;

	file = file ? file + 1 : l->path;
	end = strstr(file, ".so");
	len = end && end > file ? (size_t)(end - file) : strlen(file);
	snprintf(base, sizeof(base), "%.*s", (int)len, file);
	len = pf_err_clean(base, strlen(base));
	snprintf(name, sizeof(name), "%.*s", (int)len, base);
	for (unsigned i = 2; has(libs, name); i++)
		snprintf(name, sizeof(name), "%.*s-%u", (int)len, base, i);
	l->name = strdup(name);
	return l->name ? 0 : -ENOMEM;
}

int pf_library_read(struct pf_libraries *libs, const struct pf_library_spec *spec,
		    struct pf_library **ret, struct pf_err *err)
{
	PF_CLEANUP(pf_library_freep) struct pf_library *l = calloc(1, sizeof(*l));
	int r = l ? 0 : -ENOMEM;

	if (l) {
		l->fd = -1;
		l->traits = spec->traits;
		l->builtin = spec->builtin;
		l->path = strdup(spec->path);
		l->plugin = spec->plugin ? strdup(spec->plugin) : NULL;
		l->platform = spec->platform ? strdup(spec->platform) : NULL;
		l->targets = pf_json_copy(spec->targets);
		if (!l->path || !l->plugin != !spec->plugin ||
		    !l->platform != !spec->platform || !l->targets != !spec->targets)
			r = -ENOMEM;
	}
	if (r == 0)
		r = give_name(libs, l);
	if (r < 0)
		return pf_err_set(err, r, "no memory for an FFI library");
	r = read_library(l, err);
	if (r == 0)
		r = check_sha256(l, spec, err);
	if (r < 0)
		return pf_err_wrap(err, r, "FFI library %s", spec->path);
	*ret = pf_steal(&l);
	return 0;
}

int pf_libraries_take(struct pf_libraries *libs, struct pf_library *l, struct pf_err *err)
{
	unsigned n = atomic_load(&libs->n);

	if (n == PF_LIBRARIES_MAX)
		return pf_err_set(err, -E2BIG, "more than %d FFI libraries",
				  PF_LIBRARIES_MAX);
	libs->at[n] = l;
	atomic_store(&libs->n, n + 1);
	return 0;
}

int pf_libraries_add(struct pf_libraries *libs, const struct pf_library_spec *spec,
		     const struct pf_library **ret, struct pf_err *err)
{
	struct pf_library *l;
	int r = pf_library_read(libs, spec, &l, err);

	if (r < 0)
		return r;
	r = pf_libraries_take(libs, l, err);
	if (r < 0)
		pf_library_free(l);
	else if (ret)
		*ret = l;
	return r;
}

int pf_libraries_with(struct pf_libraries *libs, struct pf_library *l,
		      struct pf_libraries **ret, struct pf_err *err)
{
	struct pf_libraries *with = *ret = pf_libraries_new();

	if (!with)
		return pf_err_set(err, -ENOMEM, "no memory for an FFI library");
	with->borrows = true;
	with->n = libs->n;
	memcpy(with->at, libs->at, with->n * sizeof(with->at[0]));
	return pf_libraries_take(with, l, err);
}

const struct pf_library *pf_libraries_find(struct pf_libraries *libs, const char *path,
					   const char *plugin)
{
	for (unsigned i = 0; i < libs->n; i++) {
		const struct pf_library *l = libs->at[i];

		if (!strcmp(l->path, path) &&
		    (!plugin || !l->plugin || !strcmp(plugin, l->plugin)))
			return l;
	}
	return NULL;
}

unsigned pf_libraries_of(struct pf_libraries *libs, const char *plugin,
			 const struct pf_library *ret[PF_LIBRARIES_MAX])
{
	unsigned all = libs ? libs->n : 0, n = 0;

	for (int builtin = 0; builtin < 2; builtin++)
		for (unsigned i = 0; i < all; i++) {
			const struct pf_library *l = libs->at[i];

			if (l->builtin == builtin &&
			    (!plugin || !l->plugin || !strcmp(l->plugin, plugin)))
				ret[n++] = l;
		}
	return n;
}

void pf_library_builtin(const char *name, char *dst, size_t len)
{
	pf_find_installed(name, PKGLIBDIR, dst, len);
}

struct json_object *pf_library_json(const struct pf_library *l)
{
	struct json_object *o = json_object_new_object();

	pf_json_add_string(o, "path", l->path);
	if (l->targets)
		pf_json_add_copy(o, "targets", l->targets);
	if (l->platform)
		pf_json_add_string(o, "platform", l->platform);
	pf_json_add_int(o, "traits", l->traits);
	return o;
}

struct json_object *pf_libraries_json(const struct pf_library *const *libraries,
				      unsigned n)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < n; i++) {
		struct json_object *o = pf_library_json(libraries[i]);

		pf_json_add_string(o, "name", libraries[i]->name);
		pf_json_append(list, o);
	}
	return list;
}
