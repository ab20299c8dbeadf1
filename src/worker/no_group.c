/* SPDX-License-Identifier: Apache-2.0 */
/* A build without libhiredis has no group. */
#include <errno.h>
#include <stddef.h>

#include "internal.h"

int pf_group_open(struct json_object *settings, struct pf_err *err)
{
	return settings ? pf_err_set(err, -EOPNOTSUPP,
				     "this pjrtfs was built without libhiredis, which "
				     "groups need")
			: 0;
}

int pf_group_join(const struct pj_store **ret, struct pf_err *err)
{
	(void)err;
	*ret = NULL;
	return 0;
}

int pf_group_made(const struct pj_client *client, struct pf_err *err)
{
	(void)client;
	(void)err;
	return 0;
}

void pf_group_leave(void)
{
}

void pf_group_explain(struct pf_err *err)
{
	(void)err;
}

/* No process calls the next four: transfers need a group. */
static int no_group(struct pf_err *err)
{
	return pf_err_set(err, -EOPNOTSUPP, "there is no group");
}

int pf_group_put(const char *key, const char *text, bool wait, struct pf_err *err)
{
	(void)key;
	(void)text;
	(void)wait;
	return no_group(err);
}

int pf_group_get(const char *key, int timeout_ms, struct pf_buf *ret, struct pf_err *err)
{
	(void)key;
	(void)timeout_ms;
	(void)ret;
	return no_group(err);
}

void pf_group_drop(const char *key)
{
	(void)key;
}

bool pf_group_has_ended(unsigned number)
{
	(void)number;
	return true;
}

struct json_object *pf_group_json(void)
{
	return NULL;
}
