/* SPDX-License-Identifier: Apache-2.0 */
/* Which files: Landlock.  A process can have several sets of rules; all of them must allow. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pjrtfs/base/cleanup.h"
#include "sandbox_parts.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

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

struct attr {
	uint64_t fs, net, scoped;
};

int sandbox_landlock(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0,
			   LANDLOCK_CREATE_RULESET_VERSION);

	return abi > 0 ? (int)abi : 0;
}

/* All that the kernel can forbid. */
static struct attr everything(int abi)
{
	struct attr a = { .fs = ABI_1 };

	if (abi >= 2)
		a.fs |= REFER;
	if (abi >= 3)
		a.fs |= TRUNCATE;
	if (abi >= 4)
		a.net = 3; /* bind and connect of TCP */
	if (abi >= 5)
		a.fs |= IOCTL_DEV;
	if (abi >= 6)
		a.scoped = 3; /* abstract sockets and signals of others */
	return a;
}

static int new_ruleset(int abi, uint64_t *handled, struct pf_err *err)
{
	struct attr a = everything(abi);
	size_t len = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
	int fd = (int)syscall(SYS_landlock_create_ruleset, &a, len, 0);

	*handled = a.fs;
	return fd >= 0 ? fd : pf_err_set(err, -errno, "Landlock: %s", strerror(errno));
}

static int restrict_self(int ruleset, struct pf_err *err)
{
	if (syscall(SYS_landlock_restrict_self, ruleset, 0))
		return pf_err_set(err, -errno, "Landlock: %s", strerror(errno));
	return 0;
}

/* A set of rules being made. */
struct rules {
	int fd;
	uint64_t handled;
};

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

/* Those of them that there are. */
static void allow_present(const struct rules *r, const char *const *paths, size_t n,
			  uint64_t access)
{
	for (size_t i = 0; i < n; i++)
		(void)allow(r, paths[i], access);
}

/* The owner's LIST, called KEY; each must be there. */
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

static int allow_settings(const struct rules *r, const struct pf_sandbox *s,
			  uint64_t read, struct pf_err *err)
{
	int code = allow_list(r, "sandbox_read", s->read, read, err);

	return code < 0 ? code : allow_list(r, "sandbox_write", s->write, WRITE, err);
}

/* --- of a driver ---------------------------------------------------------------------------- */

static const char *const driver_files[] = {
	"/usr",        "/lib",        "/lib64",           "/bin",           "/opt",
	"/proc",       "/sys",        "/etc/ld.so.cache", "/etc/localtime", "/etc/OpenCL",
	"/etc/vulkan", "/etc/nvidia", "/dev/urandom",
};
static const char *const driver_devices[] = {
	"/dev/nvidiactl",   "/dev/nvidia-uvm",     "/dev/nvidia-uvm-tools",
	"/dev/nvidia-caps", "/dev/nvidia-modeset", "/dev/kfd",
	"/dev/dri",         "/dev/accel",          "/dev/vfio",
	"/dev/null",
};

static void allow_devices(const struct rules *r)
{
	uint64_t access = READ | LANDLOCK_ACCESS_FS_WRITE_FILE | IOCTL_DEV;
	char path[32];

	allow_present(r, driver_devices, ARRAY_SIZE(driver_devices), access);
	for (int i = 0; i < 64; i++) {
		snprintf(path, sizeof(path), "/dev/nvidia%d", i);
		(void)allow(r, path, access);
	}
	(void)allow(r, "/dev/shm", WRITE | LANDLOCK_ACCESS_FS_MAKE_SOCK);
}

/* The directories of LD_LIBRARY_PATH, and PLUGIN's own. */
static void allow_libraries(const struct rules *r, const char *plugin)
{
	const char *list = getenv("LD_LIBRARY_PATH");
	pf_autofree char *copy = list ? strdup(list) : NULL;
	char real[PATH_MAX], *rest = copy, *path, *slash;

	while (rest && (path = strsep(&rest, ":")))
		if (*path)
			(void)allow(r, path, READ | EXECUTE);
	slash = realpath(plugin, real) ? strrchr(real, '/') : NULL;
	if (!slash || slash == real)
		return;
	*slash = '\0';
	(void)allow(r, real, READ | EXECUTE);
}

/* --- the two sets ----------------------------------------------------------------------------- */

int sandbox_restrict_files(const struct pf_sandbox *s, const char *plugin,
			   struct pf_err *err)
{
	struct rules r;
	int code = 0;

	if (!s->landlock)
		return 0;
	r.fd = new_ruleset(s->landlock, &r.handled, err);
	if (r.fd < 0)
		return r.fd;
	if (s->mode == PF_SANDBOX_DEVICE) {
		/* A compiler may start programs (ptxas). */
		allow_present(&r, driver_files, ARRAY_SIZE(driver_files), READ | EXECUTE);
		allow_libraries(&r, plugin);
		allow_devices(&r);
	} else {
		/* Libraries may lie anywhere. */
		(void)allow(&r, "/", READ);
	}
	code = allow_settings(&r, s, READ | EXECUTE, err);
	if (code == 0)
		code = restrict_self(r.fd, err);
	close(r.fd);
	return code;
}

static const char *const strict_files[] = {
	"/proc/cpuinfo",
	"/proc/meminfo",
	"/proc/sys/vm/overcommit_memory",
	"/sys/devices/system/cpu",
	"/sys/devices/system/node",
};

int sandbox_close_files(const struct pf_sandbox *s, struct pf_err *err)
{
	struct rules r;
	int code;

	if (!s->landlock || s->mode != PF_SANDBOX_STRICT)
		return 0;
	r.fd = new_ruleset(s->landlock, &r.handled, err);
	if (r.fd < 0)
		return r.fd;
	allow_present(&r, strict_files, ARRAY_SIZE(strict_files), READ);
	code = allow_settings(&r, s, READ, err);
	if (code == 0)
		code = restrict_self(r.fd, err);
	close(r.fd);
	return code;
}
