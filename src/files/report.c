/* SPDX-License-Identifier: Apache-2.0 */
/* Events of files, and of commands that failed. */
#include <errno.h>
#include <inttypes.h>

#include "internal.h"

void files_event_begin(struct pf_event *e, const char *event, struct pf_node *node)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct pf_attr attr;

	pf_node_path(node, NULL, &path);
	pf_node_attr(node, &attr);
	pf_event_begin(e, fs_of(node)->config.telemetry, event, attr.uid, "%s",
		       path.data ? path.data : "");
}

void files_report(struct pf_node *node, const char *event, const char *from)
{
	struct pf_event e;

	files_event_begin(&e, event, node);
	pf_event_str(&e, "from", from);
	pf_event_send(&e);
}

void files_report_failed(struct pf_fs *fs, const char *file, uid_t uid, const char *id,
			 const struct pf_err *err)
{
	struct pf_event e;

	pf_event_begin(&e, fs->config.telemetry, "command.failed", uid, "%s", file);
	pf_event_json(&e, "id", id);
	pf_event_error(&e, err);
	pf_event_send(&e);
}

void files_abandon(const struct pf_fs *fs, struct pf_worker *worker,
		   const char *executable, uid_t user, const char *id)
{
	struct pf_err why = PF_ERR_INIT;

	pf_err_set(&why, -ECANCELED,
		   "nobody has waited for it for %" PRIu64
		   " s: the worker of plugin %s is ended",
		   fs->config.abandoned_ms / 1000, pf_worker_name(worker));
	pf_report_abandoned(fs->config.telemetry, executable, user, id, &why);
	pf_worker_restart(worker);
}
