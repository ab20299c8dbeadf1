/* SPDX-License-Identifier: Apache-2.0 */
/* Events: ready at once, late, never, or with an error. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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

bool event_is_ready(PJRT_Event *event)
{
	bool ready;

	pthread_mutex_lock(&event->lock);
	ready = event->ready;
	pthread_mutex_unlock(&event->lock);
	return ready;
}

struct late {
	PJRT_Event *event;
	long ms; /* or, if negative, the fault that holds the event */
	enum op op;
	long call;
	char fault[TEXT_LEN];
};

static void *late_thread(void *arg)
{
	struct late *late = arg;
	const char *why;

	if (late->ms >= 0)
		sleep_ms(late->ms);
	else if (hold(late->op, late->call, late->fault) &&
		 (why = fault_arg(late->fault, "event-error")))
		event_carry(late->event, error_from(why, late->op));
	event_fire(late->event);
	event_unref(late->event);
	free(late);
	return NULL;
}

/* LATE, which is copied, says when. */
static void fire_later(const struct late *late)
{
	struct late *copy = malloc(sizeof(*copy));
	pthread_t thread;

	if (!copy)
		abort();
	*copy = *late;
	event_ref(copy->event);
	if (pthread_create(&thread, NULL, late_thread, copy))
		abort();
	pthread_detach(thread);
}

PJRT_Event *event_late(long ms)
{
	struct late late = { .event = event_alloc(), .ms = ms };

	fire_later(&late);
	return late.event;
}

void event_carry(PJRT_Event *event, PJRT_Error *e)
{
	if (!e)
		return;
	event->has_error = true;
	event->error = *e;
	error_free(e);
}

/* Apply OP's entry to the event of LATE.  Is it ready later? */
static bool event_fault(struct late *late, enum op op)
{
	const char *arg;

	if (!find_fault(op, late->fault))
		return false;
	if ((arg = fault_arg(late->fault, "event-error")))
		event_carry(late->event, error_from(arg, op));
	late->ms = -1;
	late->op = op;
	late->call = last_call(op);
	return fault_arg(late->fault, "held-event");
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
	struct late late = { .event = event_alloc() };

	event_carry(late.event, why);
	if (event_fault(&late, op))
		fire_later(&late);
	else
		event_fire(late.event);
	return late.event;
}

GIVE(Event_Destroy, event_unref(args->event))

PJRT_Error *faulty_Event_Await(PJRT_Event_Await_Args *args)
{
	pthread_mutex_lock(&args->event->lock);
	while (!args->event->ready)
		pthread_cond_wait(&args->event->changed, &args->event->lock);
	pthread_mutex_unlock(&args->event->lock);
	return copy_error(args->event);
}
