/* SPDX-License-Identifier: Apache-2.0 */
/* The two parts of a sandbox: files, which Landlock decides, and calls, which seccomp does. */
#ifndef PJRTFS_WORKER_SANDBOX_PARTS_H
#define PJRTFS_WORKER_SANDBOX_PARTS_H

#include "pjrtfs/worker/sandbox.h"

/* The ABI of the kernel's Landlock; 0: it has none. */
int sandbox_landlock(void);

/* Landlock's rules until, and since, the plugin is loaded.  0 or -errno. */
int sandbox_restrict_files(const struct pf_sandbox *s, const char *plugin,
			   struct pf_err *err);
int sandbox_close_files(const struct pf_sandbox *s, struct pf_err *err);

/* Filter calls; *FILTERED: the kernel can.  And take more away once all is set up. */
int sandbox_restrict_calls(const struct pf_sandbox *s, bool *filtered,
			   struct pf_err *err);
int sandbox_revoke_calls(const struct pf_sandbox *s, struct pf_err *err);

#endif
