/* SPDX-License-Identifier: Apache-2.0 */
/* The root, and its smallest files: version, pid, error. */
#include <unistd.h>

#include "files/commands/command.h"
#include "internal.h"
#include "pjrtfs/vfs.h"

PF_FIELD(version, "version", "%s", PACKAGE_VERSION);
PF_FIELD(pid, "pid", "%d", (int)getpid());

/* --- error: why the last call failed ------------------------------------------------ */

/* The last refusal, of this user and login session. */
static int error_show(struct pf_node *node, const struct pf_cred *cred,
		      struct pf_buf *out, struct pf_err *err)
{
	(void)err;
	pf_vfs_refusal(node->tree, cred, out);
	return 0;
}

/* It is as old as the call, which the last one that failed need not be: of what the kernel refuses, pjrtfs
 * hears nothing. */
static void error_getattr(struct pf_node *node, const struct pf_cred *cred,
			  struct pf_open *of, struct stat *st)
{
	(void)of;
	if (pf_vfs_refused_at(node->tree, cred, &st->st_mtim))
		st->st_ctim = st->st_mtim;
}

static const struct pf_kind error = { .name = "error",
				      .mode = S_IFREG | 0444,
				      .show_as = error_show,
				      .getattr_as = error_getattr };

const struct pf_kind kind_root = {
	.mode = S_IFDIR | 0755,
	.children =
		(const struct pf_kind *const[]){ &kind_readme, &version, &pid,
						 &kind_health, &kind_restarts,
						 &kind_last_death, &error, &kind_control,
						 &kind_metrics, &kind_trace, NULL },
	.instead = "programs go to programs/, arrays to buffers/; run and call are in "
		   "executables/NAME/",
};
