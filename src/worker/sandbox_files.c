/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox's files: Landlock. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pjrtfs/base.h"
#include "sandbox.h"

/* Rights and scopes that came after the headers which this may be built with. */
#define ABI_1 ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)
#define REFER (1ULL << 13)     /* ABI 2 */
#define TRUNCATE (1ULL << 14)  /* ABI 3 */
#define IOCTL_DEV (1ULL << 15) /* ABI 5 */

#define READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define EXECUTE LANDLOCK_ACCESS_FS_EXECUTE
#define WRITE                                                                            \
	(READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |            \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |                  \
	 LANDLOCK_ACCESS_FS_REMOVE_DIR | REFER | TRUNCATE)
#define OF_FILES                                                                         \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | EXECUTE |        \
	 TRUNCATE | IOCTL_DEV)

/* A process can have several sets of rules; all of them must allow. */
struct rules {
	int fd;
	uint64_t handled; /* LANDLOCK_ACCESS_FS_… that the kernel knows */
};

/* A set that forbids all that the kernel can forbid.  0 or -errno. */
static int begin_rules(struct rules *r, int abi, bool network, struct pf_err *err)
{
	struct {
		uint64_t fs, net, scoped;
	} attr = { .fs = ABI_1 };
	size_t len = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;

	if (abi >= 2)
		attr.fs |= REFER;
	if (abi >= 3)
		attr.fs |= TRUNCATE;
	if (abi >= 4 && !network)
		attr.net = 3; /* bind and connect of TCP */
	if (abi >= 5)
		attr.fs |= IOCTL_DEV;
	if (abi >= 6)
		attr.scoped = 3; /* abstract sockets, and signals to other processes */
	r->handled = attr.fs;
	r->fd = (int)syscall(SYS_landlock_create_ruleset, &attr, len, 0);
	if (r->fd < 0)
		return pf_err_set(err, -errno, "Landlock: %s", strerror(errno));
	return 0;
}

/* Allow ACCESS to PATH and what is beneath.  0, or -errno: it cannot be opened. */
static int allow(const struct rules *r, const char *path, uint64_t access)
{
	struct landlock_path_beneath_attr rule = { .allowed_access =
							   access & r->handled };
	pf_autoclose int fd = open(path, O_PATH | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode))
		rule.allowed_access &= OF_FILES;
	rule.parent_fd = fd;
	if (syscall(SYS_landlock_add_rule, r->fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0))
		return -errno;
	return 0;
}

/* The same for those of N PATHS that exist. */
static void allow_present(const struct rules *r, const char *const *paths, size_t n,
			  uint64_t access)
{
	for (size_t i = 0; i < n; i++)
		(void)allow(r, paths[i], access);
}

/* The same for the files that match the patterns of LIST. */
static void allow_matching(const struct rules *r, struct json_object *list,
			   uint64_t access)
{
	size_t n = list ? json_object_array_length(list) : 0;

	for (size_t i = 0; i < n; i++) {
		glob_t found;

		if (glob(json_object_get_string(json_object_array_get_idx(list, i)), 0,
			 NULL, &found))
			found.gl_pathc = 0;
		allow_present(r, (const char *const *)found.gl_pathv, found.gl_pathc,
			      access);
		globfree(&found);
	}
}

/* The same for each path of LIST, the setting KEY; a path that does not exist is an error. */
static int allow_list(const struct rules *r, const char *key, struct json_object *list,
		      uint64_t access, struct pf_err *err)
{
	size_t n = list ? json_object_array_length(list) : 0;

	for (size_t i = 0; i < n; i++) {
		const char *path =
			json_object_get_string(json_object_array_get_idx(list, i));
		int code = allow(r, path, access);

		if (code < 0)
			return pf_err_set(err, code, "%s %s: %s", key, path,
					  strerror(-code));
	}
	return 0;
}

/*
 * Add the rules for the settings' paths, READ for those of sandbox_read, and enforce R, which is
 * closed, on this thread and on those that it will start.
 */
static int enforce(struct rules *r, const struct pf_sandbox *s, uint64_t read,
		   struct pf_err *err)
{
	int code = allow_list(r, "sandbox_read", s->read, read, err);

	if (code == 0)
		code = allow_list(r, "sandbox_write", s->write, WRITE, err);
	if (code == 0 && syscall(SYS_landlock_restrict_self, r->fd, 0))
		code = pf_err_set(err, -errno, "Landlock: %s", strerror(errno));
	close(r->fd);
	return code;
}

static const char *const driver_files[] = {
	"/usr",  "/lib", "/lib64",           "/bin",           "/opt",
	"/proc", "/sys", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom",
};

static void allow_devices(const struct rules *r, const struct pf_sandbox *s)
{
	uint64_t access = READ | LANDLOCK_ACCESS_FS_WRITE_FILE | IOCTL_DEV;

	(void)allow(r, "/dev/null", access);
	if (s->network) /* which it is a way to */
		(void)allow(r, "/dev/infiniband", access);
	allow_matching(r, s->devices, access);
	allow_matching(r, s->driver_read, READ);
	allow_matching(r, s->driver_write, WRITE);
	/* Drivers find their devices in the list of names. */
	(void)allow(r, "/dev", LANDLOCK_ACCESS_FS_READ_DIR);
	(void)allow(r, "/dev/shm", WRITE | LANDLOCK_ACCESS_FS_MAKE_SOCK);
}

/*
 * CUDA gives its threads names, through /proc, and does not start if it cannot.  Landlock knows a
 * directory by its inode, and /proc keeps that one only while a descriptor is open: it is not closed.
 */
static void allow_thread_names(const struct rules *r)
{
	static int kept = -1;

	if (kept < 0)
		kept = open("/proc/self/task", O_PATH | O_CLOEXEC);
	(void)allow(r, "/proc/self/task",
		    READ | LANDLOCK_ACCESS_FS_WRITE_FILE | TRUNCATE);
}

/* --- where a plugin's libraries lie --------------------------------------------------- */

/* Is PATH the directory DIR, or below it?  Both are real paths. */
static bool is_below(const char *path, const char *dir)
{
	size_t len = strcmp(dir, "/") ? strlen(dir) : 0;

	return !strncmp(path, dir, len) && (path[len] == '/' || !path[len]);
}

/* If PATH lies in a Python's packages, cut it to the directory of all of them. */
static bool cut_to_packages(char *path)
{
	static const char *const sites[] = { "/site-packages/", "/dist-packages/" };
	char *end = NULL;

	for (size_t i = 0; i < PF_ARRAY_SIZE(sites); i++) {
		char *site = strstr(path, sites[i]);

		if (site)
			end = site + strlen(sites[i]) - 1;
	}
	if (end)
		*end = '\0';
	return end;
}

/* Cut the directory of a Python's packages, /A/lib/python3.11/site-packages, to /A/lib. */
static bool cut_to_lib(char *packages)
{
	char *python;

	*strrchr(packages, '/') = '\0';
	python = strrchr(packages, '/');
	if (!python || strncmp(python, "/python", strlen("/python")) != 0)
		return false;
	*python = '\0';
	python = strrchr(packages, '/');
	return python && (!strcmp(python, "/lib") || !strcmp(python, "/lib64"));
}

/* Put the directory ITEM of the run path of PLUGIN, without symbolic links, into REAL. */
static bool find_item(const char *plugin, const char *item, char real[static PATH_MAX])
{
	static const char *const origins[] = { "$ORIGIN", "${ORIGIN}" };
	char path[PATH_MAX];
	int dir = (int)(strrchr(plugin, '/') - plugin);

	if (*item == '/')
		return realpath(item, real);
	for (size_t i = 0; i < PF_ARRAY_SIZE(origins); i++) {
		size_t len = strlen(origins[i]);

		if (!strncmp(item, origins[i], len) &&
		    snprintf(path, sizeof(path), "%.*s%s", dir, plugin, item + len) <
			    (int)sizeof(path))
			return realpath(path, real);
	}
	return false;
}

/* Allow those directories of PLUGIN's run path that are below LIB. */
static void allow_runpath(const struct rules *r, const char *plugin, const char *lib)
{
	pf_autofree char *text = pf_runpath(plugin);
	char real[PATH_MAX], *rest = text, *item;

	while ((item = strsep(&rest, ":")))
		if (find_item(plugin, item, real) && is_below(real, lib))
			(void)allow(r, real, READ | EXECUTE);
}

/* Is DIR the home directory, or above it? */
static bool has_home(const char *dir)
{
	pf_autofree char *home = pf_home_dir();
	char real[PATH_MAX];

	return home && realpath(home, real) && is_below(real, dir);
}

/*
 * A plugin that pip has installed gets all packages, where pip has put what it needs, and
 * what its run path names beside its Python's libraries; another one its own directory.  A run path
 * is the choice of who made the file, so it opens nothing else; nor does a plugin open the home
 * directory because it lies there.
 */
static void allow_beside(const struct rules *r, const char *plugin)
{
	char dir[PATH_MAX];

	if (!realpath(plugin, dir))
		return;
	if (cut_to_packages(dir)) {
		(void)allow(r, dir, READ | EXECUTE);
		if (cut_to_lib(dir))
			allow_runpath(r, plugin, dir);
		return;
	}
	*strrchr(dir, '/') = '\0';
	(void)allow(r, *dir && !has_home(dir) ? dir : plugin, READ | EXECUTE);
}

static void allow_libraries(const struct rules *r, const char *plugin)
{
	const char *list = getenv("LD_LIBRARY_PATH");
	pf_autofree char *copy = list ? strdup(list) : NULL;
	char *rest = copy, *path;

	while (rest && (path = strsep(&rest, ":")))
		if (*path)
			(void)allow(r, path, READ | EXECUTE);
	allow_beside(r, plugin);
}

/* --- the rules ------------------------------------------------------------------------ */

static const char *const strict_files[] = {
	"/dev/urandom", /* without it XLA's compiler aborts */
	"/proc/cpuinfo",
	"/proc/meminfo",
	"/proc/sys/vm/overcommit_memory",
	"/sys/devices/system/cpu",
	"/sys/devices/system/node",
};

int pf_sandbox_restrict_files(const struct pf_sandbox *s, const char *plugin,
			      struct pf_err *err)
{
	bool is_device = s->mode == PF_SANDBOX_DEVICE;
	struct rules r;
	int code;

	if (!s->landlock || (is_device && !plugin))
		return 0;
	code = begin_rules(&r, s->landlock, s->network, err);
	if (code < 0)
		return code;
	if (is_device) {
		/* A compiler may start programs (ptxas). */
		allow_present(&r, driver_files, PF_ARRAY_SIZE(driver_files),
			      READ | EXECUTE);
		allow_libraries(&r, plugin);
		allow_devices(&r, s);
		allow_thread_names(&r);
	} else if (plugin) {
		/* Libraries may lie anywhere. */
		(void)allow(&r, "/", READ);
	} else {
		allow_present(&r, strict_files, PF_ARRAY_SIZE(strict_files), READ);
	}
	return enforce(&r, s, plugin ? READ | EXECUTE : READ, err);
}
