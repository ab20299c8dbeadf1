/* SPDX-License-Identifier: Apache-2.0 */
/* Events: ready at once, late, never, or with an error. */
#include <pthread.h>
#include <stdlib.h>

#include "plugin.h"

struct PJRT_Event {
	pthread_mutex_t lock; /* protects the fields below */
	pthread_cond_t changed;
	int refs;
	bool ready;
	bool has_error;
	PJRT_Error error;
};

static PJRT_Error *copy_error(const PJRT_Event *event)
{
	if (!event->has_error)
		return NULL;
	return error_new(event->error.code, "%s", event->error.text);
}

void event_unref(PJRT_Event *event)
{
	int left;

	if (!event)
		return;
	pthread_mutex_lock(&event->lock);
	left = --event->refs;
	pthread_mutex_unlock(&event->lock);
	if (left)
		return;
	pthread_cond_destroy(&event->changed);
	pthread_mutex_destroy(&event->lock);
	count_thing(EVENTS, -1);
	free(event);
}

void event_ref(PJRT_Event *event)
{
	pthread_mutex_lock(&event->lock);
	event->refs++;
	pthread_mutex_unlock(&event->lock);
}

void event_fire(PJRT_Event *event)
{
	pthread_mutex_lock(&event->lock);
	event->ready = true;
	pthread_cond_broadcast(&event->changed);
	pthread_mutex_unlock(&event->lock);
}

struct late {
	PJRT_Event *event;
	long ms;
};

static void *late_thread(void *arg)
{
	struct late *late = arg;

	sleep_ms(late->ms);
	event_fire(late->event);
	event_unref(late->event);
	free(late);
	return NULL;
}

static void fire_later(PJRT_Event *event, long ms)
{
	struct late *late = malloc(sizeof(*late));
	pthread_t thread;

	if (!late)
		abort();
	late->event = event;
	late->ms = ms;
	event_ref(event);
	if (pthread_create(&thread, NULL, late_thread, late))
		abort();
	pthread_detach(thread);
}

PJRT_Event *event_late(long ms)
{
	PJRT_Event *event = event_alloc();

	fire_later(event, ms);
	return event;
}

void event_carry(PJRT_Event *event, PJRT_Error *e)
{
	if (!e)
		return;
	event->has_error = true;
	event->error = *e;
	count_thing(ERRORS, -1);
	free(e);
}

/* When OP's entry makes its event ready: ms to wait, -1 never, 0 at once. */
static long event_fault(PJRT_Event *event, enum op op)
{
	char fault[TEXT_LEN];
	const char *arg;

	if (!find_fault(op, fault))
		return 0;
	if ((arg = fault_arg(fault, "event-error")))
		event_carry(event, error_from(arg, op));
	if ((arg = fault_arg(fault, "late-event")))
		return strtol(arg, NULL, 10);
	if (op != EVENT)
		return 0;
	die(fault);
	if ((arg = fault_arg(fault, "error")))
		event_carry(event, error_from(arg, op));
	if ((arg = fault_arg(fault, "enospc-at")) && is_last_call(arg, op))
		event_carry(event, error_new(PJRT_Error_Code_RESOURCE_EXHAUSTED,
					     "faulty: out of memory at event %s", arg));
	if ((arg = fault_arg(fault, "slow")))
		return strtol(arg, NULL, 10);
	return fault_arg(fault, "hang") ? -1 : 0;
}

PJRT_Event *event_alloc(void)
{
	PJRT_Event *event = calloc(1, sizeof(*event));

	if (!event)
		abort();
	pthread_mutex_init(&event->lock, NULL);
	pthread_cond_init(&event->changed, NULL);
	event->refs = 1;
	count_thing(EVENTS, 1);
	return event;
}

PJRT_Event *event_new(enum op op, PJRT_Error *why)
{
	PJRT_Event *event = event_alloc();
	long of_op, of_all;

	count_call(EVENT);
	event_carry(event, why);
	of_all = event_fault(event, EVENT);
	of_op = event_fault(event, op);
	if (of_all > 0 || of_op > 0)
		fire_later(event, of_all > of_op ? of_all : of_op);
	else if (of_all == 0)
		event_fire(event);
	return event;
}

PJRT_Error *event_destroy(PJRT_Event_Destroy_Args *args)
{
	event_unref(args->event);
	return NULL;
}

PJRT_Error *event_await(PJRT_Event_Await_Args *args)
{
	pthread_mutex_lock(&args->event->lock);
	while (!args->event->ready)
		pthread_cond_wait(&args->event->changed, &args->event->lock);
	pthread_mutex_unlock(&args->event->lock);
	return copy_error(args->event);
}
