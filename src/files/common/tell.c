/* SPDX-License-Identifier: Apache-2.0 */
#include "tell.h"

void files_tell_begin(struct pf_event *e, const char *event, struct pf_node *node)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct pf_attr attr;

	pf_node_path(node, NULL, &path);
	pf_node_attr(node, &attr);
	pf_event_begin(e, event, attr.uid, path.data ? path.data : "");
}

void files_tell(struct pf_node *node, const char *event)
{
	struct pf_event e;

	files_tell_begin(&e, event, node);
	pf_event_add(pf_watch_events(fs_of(node)->watch), &e);
}

void files_tell_moved(struct pf_node *node, const char *event, const char *from)
{
	struct pf_event e;

	files_tell_begin(&e, event, node);
	pf_event_str(&e, "from", from);
	pf_event_add(pf_watch_events(fs_of(node)->watch), &e);
}

void files_tell_failed(struct pf_fs *fs, const char *file, uid_t uid, const char *id,
		       const struct pf_err *err)
{
	struct pf_event e;

	pf_event_begin(&e, "command.failed", uid, file);
	pf_event_json(&e, "id", id);
	pf_event_error(&e, err);
	pf_event_add(pf_watch_events(fs->watch), &e);
}
