/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock decides which files (sandbox_files.c), seccomp which calls (sandbox_calls.c).  Neither
 * suffices alone: Landlock knows no chmod(2), no sockets, no signals, and truncate(2) only since Linux
 * 6.2; seccomp does not see what a path names.
 */
#include <errno.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pjrtfs/base.h"
#include "pjrtfs/json.h"
#include "sandbox.h"

static const char *const mode_names[] = {
	[PF_SANDBOX_STRICT] = "strict",
	[PF_SANDBOX_DEVICE] = "device",
	[PF_SANDBOX_OFF] = "off",
};

enum { N_MODES = PF_ARRAY_SIZE(mode_names) };

static struct json_object *list_of(struct json_object *settings, const char *key)
{
	struct json_object *list = pf_json_get(settings, key, json_type_array);

	return list && json_object_array_length(list) ? list : NULL;
}

int pf_sandbox_parse(struct json_object *settings, struct pf_sandbox *ret,
		     struct pf_err *err)
{
	struct json_object *mode = NULL, *uid = NULL;
	unsigned i = PF_SANDBOX_STRICT;

	if (json_object_object_get_ex(settings, "sandbox", &mode))
		for (i = 0; i < N_MODES; i++)
			if (!strcmp(json_object_get_string(mode), mode_names[i]))
				break;
	if (i == N_MODES)
		return pf_err_set(err, -EPROTO, "there is no sandbox %.80s",
				  json_object_get_string(mode));
	*ret = (struct pf_sandbox){ .mode = (enum pf_sandbox_mode)i,
				    .read = list_of(settings, "sandbox_read"),
				    .write = list_of(settings, "sandbox_write"),
				    .devices = list_of(settings, "devices"),
				    .driver_read = list_of(settings, "driver_read"),
				    .driver_write = list_of(settings, "driver_write") };
	if (json_object_object_get_ex(settings, "sandbox_uid", &uid))
		ret->uid = (uid_t)json_object_get_int64(uid);
#ifdef PF_SANITIZE
	ret->mode = PF_SANDBOX_OFF;
#endif
	return 0;
}

struct json_object *pf_sandbox_json(const struct pf_sandbox *s)
{
	struct json_object *o = json_object_new_object();

	pf_json_add_string(o, "mode", mode_names[s->mode]);
	pf_json_add_int(o, "landlock", s->landlock);
	json_object_object_add(o, "seccomp", json_object_new_boolean(s->seccomp));
	return o;
}

/* --- user, capabilities, limits ----------------------------------------------------- */

/*
 * Become user UID, which owns no file: uid 0 without capabilities still owns root's.
 * Changing the user clears PR_SET_PDEATHSIG, so it is set again.
 */
static int leave_root(uid_t uid, struct pf_err *err)
{
	pid_t parent = getppid();

	if (geteuid() || !uid)
		return 0;
	if (syscall(SYS_setgroups, 0, NULL) || syscall(SYS_setresgid, uid, uid, uid) ||
	    syscall(SYS_setresuid, uid, uid, uid))
		return pf_err_set(err, -errno, "become user %u: %s", uid,
				  strerror(errno));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	return 0;
}

/*
 * Drop all capabilities, but CAP_DAC_READ_SEARCH if KEEP_READING: root's plugin and its libraries
 * may lie in directories of other users.
 */
static void drop_capabilities(bool keep_reading)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct have[2] = { { 0 } }, left[2] = { { 0 } };

	if (syscall(SYS_capget, &head, have) == 0 && keep_reading)
		left[0].effective = left[0].permitted =
			have[0].effective & (1U << CAP_DAC_READ_SEARCH);
	for (int i = 0; i < 64; i++)
		(void)prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	(void)syscall(SYS_capset, &head, left);
}

static void limit(int what, rlim_t most)
{
	struct rlimit l;

	if (getrlimit(what, &l) || l.rlim_max < most)
		return;
	l.rlim_cur = l.rlim_max = most;
	(void)setrlimit(what, &l);
}

static void set_limits(const struct pf_sandbox *s)
{
	limit(RLIMIT_CORE, 0);
	if (s->mode == PF_SANDBOX_STRICT) {
		/* Each thread of a plugin that waits for the group's store has a connection. */
		limit(RLIMIT_NOFILE, s->network ? 1024 : 64);
		limit(RLIMIT_MSGQUEUE, 0);
	}
	if (s->mode == PF_SANDBOX_STRICT && !s->write) {
		signal(SIGXFSZ, SIG_IGN); /* write(2) fails with EFBIG instead */
		limit(RLIMIT_FSIZE, 0);
	}
	umask(077);
	/* No ptrace(2) and no /proc/PID/mem for other processes of this user, no core dump. */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* Does the list of directories LD_LIBRARY_PATH have one below the current directory? */
static bool searches_here(void)
{
	const char *at = getenv("LD_LIBRARY_PATH");

	for (; at && *at; at = strchrnul(at, ':'), at += *at == ':')
		if (*at != '/' && *at != ':')
			return true;
	return false;
}

/* Leave the user's directory: drivers open the current one, so it is one in which they may do so. */
static void leave_directory(const struct pf_sandbox *s)
{
	if (s->mode != PF_SANDBOX_DEVICE || chdir("/dev/shm"))
		(void)!chdir("/");
}

/* --- the three steps ---------------------------------------------------------------- */

int pf_sandbox_enter(struct pf_sandbox *s, const char *plugin, struct pf_err *err)
{
	long abi;
	int r;

	pf_oom_score_add(1); /* before leave_root, after which /proc/self is root's */
	if (s->mode == PF_SANDBOX_OFF)
		return 0;
	abi = syscall(SYS_landlock_create_ruleset, NULL, 0,
		      LANDLOCK_CREATE_RULESET_VERSION);
	s->landlock = abi > 0 ? (int)abi : 0;
	if (!s->landlock && (s->read || s->write))
		return pf_err_set(
			err, -ENOSYS,
			"%s needs a kernel with Landlock, which this one is not",
			s->read ? "sandbox_read" : "sandbox_write");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return pf_err_set(err, -errno, "no_new_privs: %s", strerror(errno));
	r = leave_root(s->uid, err);
	if (r < 0)
		return r;
	drop_capabilities(true);
	set_limits(s);
	if (s->mode == PF_SANDBOX_DEVICE)
		setenv("TMPDIR", "/dev/shm", 0); /* where it may write */
	r = pf_sandbox_restrict_files(s, plugin, err);
	if (s->mode == PF_SANDBOX_DEVICE && *plugin == '/' && !searches_here())
		leave_directory(s);
	return r < 0 ? r : pf_sandbox_restrict_calls(s, &s->seccomp, err);
}

int pf_sandbox_loaded(const struct pf_sandbox *s, struct pf_err *err)
{
	if (s->mode == PF_SANDBOX_OFF)
		return 0;
	drop_capabilities(false);
	/* The paths of the plugin and its libraries may be relative, so at last here. */
	leave_directory(s);
	return pf_sandbox_restrict_files(s, NULL, err);
}

int pf_sandbox_tighten(const struct pf_sandbox *s, struct pf_err *err)
{
	return s->mode == PF_SANDBOX_STRICT ? pf_sandbox_revoke_calls(s, err) : 0;
}
