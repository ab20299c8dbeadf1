/* SPDX-License-Identifier: Apache-2.0 */
/* The group of a build without libhiredis: there is none. */
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

void pf_group_made(const struct pj_client *client)
{
	(void)client;
}

void pf_group_leave(void)
{
}

struct json_object *pf_group_json(void)
{
	return NULL;
}
