/* SPDX-License-Identifier: Apache-2.0 */
/* What users see of daemons of the mount that have died. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/state.h"

/* An event of the mount's owner about WHAT. */
static void begin(struct pf_event *e, struct pf_fs *fs, const char *name, uid_t user,
		  const char *what)
{
	pf_event_begin(e, fs->config.telemetry, name, user, "%s", what);
	pf_event_str(e, "how", fs->config.deaths.how);
}

/* The path of what WORK was about, under the mount. */
static void put_path(struct pf_fs *fs, const struct pf_state_work *work,
		     struct pf_buf *path)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *node = pf_tree_by_ino(fs->tree, work->ino);

	if (node)
		pf_node_path(node, NULL, path);
	if (*work->name)
		pf_buf_printf(path, "%s%s", path->len ? "/" : "", work->name);
	if (!path->len)
		pf_buf_puts(path, ".");
	pf_buf_clean(path, 0);
}

void pf_fs_report_death(struct pf_fs *fs, const char *(*operation)(uint32_t opcode))
{
	struct pf_deaths *deaths = &fs->config.deaths;
	unsigned n;
	const struct pf_state_work *works = pf_state_left(&n);
	struct pf_event e;

	for (unsigned i = 0; i < n; i++) {
		pf_autobuf struct pf_buf path = PF_BUF_INIT;
		const char *name = operation(works[i].opcode);

		put_path(fs, &works[i], &path);
		if (path.failed)
			continue;
		if (!*deaths->at)
			snprintf(deaths->at, sizeof(deaths->at), "%s %s", name,
				 path.data);
		pf_log(PF_LOG_WARNING,
		       "the daemon died of %s while it answered: %s %s, of process %u of "
		       "user %u",
		       deaths->how, name, path.data, works[i].pid, works[i].user);
		begin(&e, fs, "daemon.died", works[i].user, path.data);
		pf_event_str(&e, "operation", name);
		pf_event_send(&e);
	}
	if (!n) {
		begin(&e, fs, "daemon.died", fs->config.uid, "pid");
		pf_event_send(&e);
	}
	begin(&e, fs, "daemon.restarted", fs->config.uid, "pid");
	pf_event_str(&e, "operation", *deaths->at ? deaths->at : NULL);
	pf_event_int(&e, "pid", getpid());
	pf_event_int(&e, "restarts", (int64_t)*pf_state_counter(PF_STATE_COUNT_LIFE));
	pf_event_send(&e);
}

static int last_death_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	const struct pf_deaths *deaths = &fs_of(node)->config.deaths;
	time_t last = (time_t)deaths->last;
	char date[32];
	struct tm tm;

	(void)err;
	if (!deaths->n || !gmtime_r(&last, &tm))
		return 0;
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &tm);
	pf_buf_printf(out, "%s %s%s%s\n", date, deaths->how, *deaths->at ? ", at: " : "",
		      deaths->at);
	return 0;
}

static int restarts_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)node;
	(void)err;
	pf_buf_printf(out, "%" PRIu64 "\n", *pf_state_counter(PF_STATE_COUNT_LIFE));
	return 0;
}

const struct pf_kind kind_restarts = { .name = "restarts",
				       .mode = S_IFREG | 0444,
				       .show = restarts_show };
const struct pf_kind kind_last_death = { .name = "last_death",
					 .mode = S_IFREG | 0444,
					 .show = last_death_show };
