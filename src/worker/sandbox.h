/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_WORKER_SANDBOX_H
#define PJRTFS_WORKER_SANDBOX_H

#include <json-c/json.h>
#include <stdbool.h>
#include <sys/types.h>

#include "pjrtfs/base.h"

/*
 * The sandbox: the files and system calls that a worker may use.  Programs that users write can
 * make a plugin read files (MLIR's locations name some), write them (flags), and, if it has a bug,
 * run code.  So the worker gives up its rights in three steps: enter, before the plugin is loaded;
 * loaded, before its client is made; tighten, before the first request.
 */

enum pf_sandbox_mode {
	PF_SANDBOX_STRICT, /* for plugins that compute on the processor, and need no more */
	PF_SANDBOX_DEVICE, /* for drivers: their devices, files and programs of their own */
	PF_SANDBOX_OFF,
};

struct pf_sandbox {
	enum pf_sandbox_mode mode;
	struct json_object *read, *write; /* borrowed lists of absolute paths, or NULL */
	/* Borrowed lists of patterns, or NULL, for the mode device: files that drivers read, write and
	 * control; that they read; directories in which they make files. */
	struct json_object *devices, *driver_read, *driver_write;
	uid_t uid;    /* the user that root's worker becomes; 0: it stays root */
	bool network; /* it may use the network, as a member of a group */
	int landlock; /* set by enter: the ABI of the kernel's Landlock; 0: it has none */
	bool seccomp; /* set by enter: system calls are filtered */
};

/*
 * Read SETTINGS: {"sandbox": "strict", "device" or "off", "sandbox_read", "sandbox_write": lists of
 * paths, "sandbox_uid", "devices", "driver_read", "driver_write"}, each of which may be missing;
 * NULL: strict.  RET borrows the lists.  A build with sanitizers is always off: they read /proc,
 * and make processes.  -EPROTO.
 */
int pf_sandbox_parse(struct json_object *settings, struct pf_sandbox *ret,
		     struct pf_err *err);

/*
 * Enter SANDBOX, as the only thread of the process, before PLUGIN (a path) is loaded: any file
 * can still be read, but none written, and no process made.  Without Landlock or seccomp in the
 * kernel, the other one alone is used; -ENOSYS if the settings have paths, which need Landlock.
 * -ENOENT, ...: one of the paths cannot be opened; -errno of a refused system call.
 */
int pf_sandbox_enter(struct pf_sandbox *sandbox, const char *plugin, struct pf_err *err);

/*
 * Called when the plugin is loaded, while the process has one thread, because Landlock's rules hold
 * for a thread and those that it starts later: from then on a strict sandbox opens no file but
 * /dev/urandom, those about processors and memory, and the settings'.
 */
int pf_sandbox_loaded(const struct pf_sandbox *sandbox, struct pf_err *err);

/* Called when the daemon has the client's description: all threads give up the calls that only the
 * start needed. */
int pf_sandbox_tighten(const struct pf_sandbox *sandbox, struct pf_err *err);

/* The sandbox in force: {"mode", "landlock", "seccomp"}.  The caller's; NULL: no memory. */
struct json_object *pf_sandbox_json(const struct pf_sandbox *sandbox);

/* --- for the files of the sandbox --------------------------------------------------- */

/*
 * The rules while PLUGIN is loaded: no file can be written.  With PLUGIN NULL those once it is: in
 * a strict sandbox few files can be read.
 */
int pf_sandbox_restrict_files(const struct pf_sandbox *sandbox, const char *plugin,
			      struct pf_err *err);

/* The directories of DT_RUNPATH, else of DT_RPATH, of the file PLUGIN, a colon between them; "": it names none, or
 * is no shared library.  The caller's; NULL: no memory. */
char *pf_runpath(const char *plugin);

/* Allow only the calls that the plugin may make.  *FILTERED: false if the kernel has no seccomp. */
int pf_sandbox_restrict_calls(const struct pf_sandbox *sandbox, bool *filtered,
			      struct pf_err *err);

/* Refuse those that only the set-up needed. */
int pf_sandbox_revoke_calls(const struct pf_sandbox *sandbox, struct pf_err *err);

#endif
