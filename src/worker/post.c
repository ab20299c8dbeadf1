/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to the daemon. */
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

void pf_worker_give_up(const char *why)
{
	fprintf(stderr, "pjrtfs-worker: %s\n", why);
	_exit(1);
}

void pf_worker_post(struct pf_worker *worker, const void *message, size_t len)
{
	const struct timespec pause = { .tv_nsec = 100000 };
	int r;

	while ((r = pf_ring_post(&worker->channel.reply, message, len, NULL, 0)) ==
	       -EAGAIN)
		nanosleep(&pause, NULL);
	if (r == -EPIPE)
		_exit(0);
	if (r < 0)
		pf_worker_give_up("the channel to the daemon is damaged");
}
