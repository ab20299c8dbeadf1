/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker may ask of the system.  Programs that users write can make plugins do what
 * they should not: read files (MLIR's locations name some), write them (flags), and, where a
 * plugin has a bug, run code.  So the worker gives up its rights in three steps: enter, before
 * the plugin is loaded; loaded, before its client is made; tighten, before the first request.
 */
#ifndef PJRTFS_WORKER_SANDBOX_H
#define PJRTFS_WORKER_SANDBOX_H

#include <json-c/json.h>
#include <stdbool.h>
#include <sys/types.h>

#include "pjrtfs/base/err.h"

enum pf_sandbox_mode {
	PF_SANDBOX_STRICT, /* for plugins that compute on the processor, and need no more */
	PF_SANDBOX_DEVICE, /* for drivers: their devices, files and programs of their own */
	PF_SANDBOX_OFF,
};

struct pf_sandbox {
	enum pf_sandbox_mode mode;
	struct json_object *read, *write; /* borrowed lists of absolute paths, or NULL */
	uid_t uid;    /* that root's worker becomes; 0: it stays root */
	int landlock; /* enter's: the kernel's ABI; 0: it has none */
	bool seccomp; /* enter's: calls are filtered */
};

/*
 * Read SETTINGS: {"sandbox": "strict", "device" or "off", "sandbox_read", "sandbox_write":
 * lists of paths, "sandbox_uid"}, each of which may be missing; NULL: strict.  What RET has of it
 * is borrowed.  A build with sanitizers is always off: they read /proc, and make processes.
 * -EPROTO: it is nothing that a daemon of this build sends.
 */
int pf_sandbox_parse(struct json_object *settings, struct pf_sandbox *ret,
		     struct pf_err *err);

/*
 * Enter SANDBOX, as the only thread of the process, before PLUGIN (a path) is loaded: any file
 * can be read still, but none written, and no process made.  What the kernel does not offer is
 * left out; -ENOSYS where paths of the settings need Landlock.  -ENOENT, ...: one of them cannot
 * be opened; what the kernel refuses else is an error, too.
 */
int pf_sandbox_enter(struct pf_sandbox *sandbox, const char *plugin, struct pf_err *err);

/*
 * The plugin is loaded, and the process has one thread yet: in a strict sandbox no file can be
 * opened from here on but those that tell of processors and memory, and the settings'.
 * Landlock's rules are a thread's and its children's, so threads made earlier escape them.
 */
int pf_sandbox_loaded(const struct pf_sandbox *sandbox, struct pf_err *err);

/* The client exists and the daemon has its description: give up, in all threads, what only the
 * start needed. */
int pf_sandbox_tighten(const struct pf_sandbox *sandbox, struct pf_err *err);

/* {"mode", "landlock", "seccomp"}: what is in force.  The caller's; NULL: no memory. */
struct json_object *pf_sandbox_json(const struct pf_sandbox *sandbox);

#endif
