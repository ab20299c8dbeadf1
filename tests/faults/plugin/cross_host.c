/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays from one node to another, as NCCL moves them: a device works on one transfer after another, in
 * the order of the calls; the Nth send between two devices meets the Nth receive, whatever the keys and
 * the types say; and each side waits for the other for ever.
 */
#include "../../../src/pjrt/cross_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin.h"

enum { ALL = MAX_NODES * N_DEVICES };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects: */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned begun[ALL], ended[ALL]; /* of each device */
static unsigned met[ALL][ALL];          /* from one to the other */

struct move {
	PJRT_Buffer *buffer;
	PJRT_Event *event; /* a reference */
	int own, peer;
	bool sends;
	unsigned turn; /* of the own device */
};

/* Move all bytes of B; false: the other side is gone. */
static bool move_bytes(int fd, bool sends, PJRT_Buffer *b)
{
	size_t done = 0;
	char end = 0;

	while (done < b->size) {
		ssize_t n = sends ? send(fd, b->data + done, b->size - done, MSG_NOSIGNAL)
				  : read(fd, b->data + done, b->size - done);

		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return sends ? read(fd, &end, 1) == 1 : send(fd, &end, 1, MSG_NOSIGNAL) == 1;
}

/* Both sides meet at a port that KEY has. */
static PJRT_Error *meet(const struct move *m, const char *key, int *ret)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t at_len = sizeof(at);
	char port[16], *value;
	PJRT_Error *e;
	size_t len;

	*ret = s;
	if (s < 0)
		abort();
	if (!m->sends) {
		e = group_get(key, &value, &len);
		if (e)
			return e;
		at.sin_port = htons((uint16_t)atoi(value));
		free(value);
		return connect(s, (struct sockaddr *)&at, sizeof(at))
			       ? error_new(PJRT_Error_Code_UNAVAILABLE, "faulty: connect")
			       : NULL;
	}
	if (bind(s, (struct sockaddr *)&at, sizeof(at)) || listen(s, 1) ||
	    getsockname(s, (struct sockaddr *)&at, &at_len))
		abort();
	snprintf(port, sizeof(port), "%d", ntohs(at.sin_port));
	e = group_put(key, port, strlen(port));
	if (e)
		return e;
	*ret = accept4(s, NULL, NULL, SOCK_CLOEXEC);
	close(s);
	return *ret < 0 ? error_new(PJRT_Error_Code_UNAVAILABLE, "faulty: accept") : NULL;
}

static void *move_thread(void *arg)
{
	struct move *m = arg;
	int from = m->sends ? m->own : m->peer, to = m->sends ? m->peer : m->own, fd;
	char key[TEXT_LEN];
	PJRT_Error *e;

	pthread_mutex_lock(&lock);
	while (ended[m->own] != m->turn)
		pthread_cond_wait(&changed, &lock);
	snprintf(key, sizeof(key), "move/%d/%d/%u", from, to, met[from][to]++);
	pthread_mutex_unlock(&lock);
	e = meet(m, key, &fd);
	if (!e && !move_bytes(fd, m->sends, m->buffer))
		e = error_new(PJRT_Error_Code_UNAVAILABLE, "faulty: the bytes end early");
	close(fd);
	pthread_mutex_lock(&lock);
	ended[m->own]++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	event_carry(m->event, e);
	event_fire(m->event);
	event_unref(m->event);
	free(m);
	return NULL;
}

/* Begin to move B from or to PEER.  The event is the caller's. */
static PJRT_Error *move(PJRT_Buffer *b, int64_t peer, bool sends, PJRT_Event **ret)
{
	int own = b->device->description.id;
	struct move *m;
	pthread_t thread;

	if (peer < 0 || peer >= nodes * N_DEVICES || peer / N_DEVICES == own / N_DEVICES)
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				 "faulty: device %d is no other node's", (int)peer);
	m = calloc(1, sizeof(*m));
	if (!m)
		abort();
	*m = (struct move){ b, event_alloc(), own, (int)peer, sends, 0 };
	event_ref(m->event);
	*ret = m->event;
	pthread_mutex_lock(&lock);
	m->turn = begun[own]++;
	pthread_mutex_unlock(&lock);
	if (pthread_create(&thread, NULL, move_thread, m))
		abort();
	pthread_detach(thread);
	return NULL;
}

static PJRT_Error *cross_host_send(struct pj_send_args *args)
{
	PJRT_Error *e = inject(SEND);

	if (!e)
		e = check_live(args->buffers[0]);
	if (!e && (args->struct_size < sizeof(*args) || args->n != 1))
		e = error_new(PJRT_Error_Code_INVALID_ARGUMENT, "faulty: bad arguments");
	return e ? e : move(args->buffers[0], args->to[0], true, args->events);
}

static PJRT_Error *cross_host_receive(struct pj_receive_args *args)
{
	PJRT_Error *e = inject(RECEIVE);
	PJRT_Buffer *b;

	if (!e && (args->struct_size < sizeof(*args) || args->n != 1 || args->layouts[0]))
		e = error_new(PJRT_Error_Code_INVALID_ARGUMENT, "faulty: bad arguments");
	if (e)
		return e;
	e = buffer_new(&args->device->memory, args->types[0], args->dims[0],
		       args->ranks[0], &b);
	if (e)
		return e;
	e = move(b, args->from[0], false, &b->arrival);
	if (e)
		buffer_free(b);
	else
		args->buffers[0] = b;
	return e;
}

struct pj_cross_host_extension cross_host_extension = {
	.base = { .struct_size = sizeof(cross_host_extension),
		  .type = PJRT_Extension_Type_CrossHostTransfers },
	.receive = cross_host_receive,
	.send = cross_host_send,
};
