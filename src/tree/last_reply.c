/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last reply of a control file to each user and login session, so that
 * `echo ... > run; cat run` works.  The list begins with the one that was used last.
 */
#include <string.h>

#include "internal.h"

struct pf_last_reply {
	struct pf_last_reply *next;
	uid_t uid;
	pid_t sid;
	char *line; /* owned; with its newline */
	size_t len;
};

/* The reply for CRED, moved to the front.  If none exists and MAKE: a new one, or the one that was
 * used least recently. */
static struct pf_last_reply *find_locked(struct pf_node *node, const struct pf_cred *cred,
					 bool make)
{
	struct pf_last_reply **at = &node->priv->last_replies, *r;

	for (unsigned n = 1; (r = *at); at = &r->next, n++)
		if ((r->uid == cred->uid && r->sid == cred->sid) ||
		    (make && n == PF_CONTROL_LAST_REPLIES))
			break;
	if (r)
		*at = r->next;
	else if (make)
		r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->uid = cred->uid;
	r->sid = cred->sid;
	r->next = node->priv->last_replies;
	node->priv->last_replies = r;
	return r;
}

void pf_last_reply_save(struct pf_node *node, const struct pf_cred *cred,
			const char *line, size_t len)
{
	pf_autofree char *text = NULL;
	struct pf_last_reply *r;
	char *before;

	if (cred->sid == PF_SID_UNKNOWN)
		return;
	text = malloc(len + 1);
	if (!text)
		return;
	memcpy(text, line, len);
	text[len] = '\n';
	PF_LOCK_SCOPE(&node->tree->lock);
	r = find_locked(node, cred, true);
	if (!r)
		return;
	before = r->line;
	r->line = text;
	r->len = len + 1;
	text = before; /* freed without the lock */
}

void pf_last_reply_get(struct pf_node *node, const struct pf_cred *cred,
		       struct pf_buf *out)
{
	struct pf_last_reply *r;

	if (cred->sid == PF_SID_UNKNOWN)
		return;
	PF_LOCK_SCOPE(&node->tree->lock);
	r = find_locked(node, cred, false);
	if (r)
		pf_buf_append(out, r->line, r->len);
}

void pf_last_replies_free(struct pf_last_reply *first)
{
	struct pf_last_reply *r;

	while ((r = first)) {
		first = r->next;
		free(r->line);
		free(r);
	}
}
