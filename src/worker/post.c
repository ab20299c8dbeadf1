/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to the daemon. */
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

int pf_server_send(struct json_object *json, struct pf_err *err)
{
	size_t len = 0;
	const char *text =
		json ? json_object_to_json_string_length(json, JSON_C_TO_STRING_PLAIN,
							 &len)
		     : NULL;
	int r = text ? pf_channel_send(PF_CHANNEL_FD, text, len, NULL, 0, err)
		     : pf_err_set(err, -ENOMEM, "no memory for a description");

	json_object_put(json);
	return r;
}

int pf_server_fail(const struct pf_err *why)
{
	fprintf(stderr, "pjrtfs-worker: %s\n", why->text);
	(void)pf_server_send(pf_describe_failure(why), NULL);
	return 1;
}

void pf_server_give_up(const char *why)
{
	fprintf(stderr, "pjrtfs-worker: %s\n", why);
	_exit(1);
}

void pf_server_post(struct pf_server *server, const void *message, size_t len)
{
	const struct timespec pause = { .tv_nsec = 100000 };
	int r;

	while ((r = pf_ring_post(&server->channel.reply, message, len, NULL, 0)) ==
	       -EAGAIN)
		nanosleep(&pause, NULL);
	if (r == -EPIPE)
		_exit(0);
	if (r < 0)
		pf_server_give_up("the channel to the daemon is damaged");
}
