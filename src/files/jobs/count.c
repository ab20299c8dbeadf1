/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "job.h"

enum {
	MAX_OPEN = 10000, /* a user's that have not ended; more are EAGAIN */
	MAX_ALL = 100000, /* everybody's */
};

/* How many a user has. */
struct job_user {
	uid_t user;
	unsigned n;
	struct job_user *next;
};

int job_count(struct job_count *count, uid_t user, struct pf_err *err)
{
	struct job_user *u = count->users;

	if (count->n >= MAX_ALL)
		return pf_err_set(err, -EAGAIN, "%d jobs of all users are under way",
				  MAX_ALL);
	while (u && u->user != user)
		u = u->next;
	if (u && u->n >= MAX_OPEN)
		return pf_err_set(err, -EAGAIN, "%d jobs of this user are under way",
				  MAX_OPEN);
	if (!u) {
		u = malloc(sizeof(*u));
		if (!u)
			return pf_err_set(err, -ENOMEM, "no memory for a job");
		*u = (struct job_user){ .user = user, .next = count->users };
		count->users = u;
	}
	u->n++;
	count->n++;
	return 0;
}

void job_uncount(struct job_count *count, uid_t user)
{
	struct job_user **at = &count->users, *u;

	while ((*at)->user != user)
		at = &(*at)->next;
	u = *at;
	count->n--;
	if (--u->n)
		return;
	*at = u->next;
	free(u);
}

void job_count_release(struct job_count *count)
{
	struct job_user *u;

	while ((u = count->users)) {
		count->users = u->next;
		free(u);
	}
}
