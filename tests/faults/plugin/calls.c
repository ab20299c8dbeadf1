/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of any function that pjrtfs calls, by its name. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin.h"

static atomic_long alive[N_THINGS];

void count_thing(enum thing thing, int n)
{
	atomic_fetch_add(&alive[thing], n);
}

/* Where the arguments of a call have what it gives; NULL: it gives no such thing. */
struct gives {
	PJRT_Event **event;
	size_t *length; /* of a list or a text */
};

/* The error of a call of NAME; *SKIP: the function itself is not called. */
static PJRT_Error *fault_of(const char *name, const struct gives *gives,
			    char fault[static TEXT_LEN], bool *skip)
{
	const char *arg;

	*skip = false;
	if (!find_named(name, fault)) {
		*fault = '\0';
		return NULL;
	}
	die(fault);
	if ((arg = fault_arg(fault, "hang"))) {
		fprintf(stderr, "%s\n", arg);
		for (;;)
			pause();
	}
	if ((arg = fault_arg(fault, "held"))) {
		char held[TEXT_LEN];

		memcpy(held, fault, TEXT_LEN);
		tell_reached(arg);
		while (find_named(name, fault) && !strcmp(fault, held))
			sleep_ms(10);
		*fault = '\0';
		return NULL;
	}
	*skip = fault_arg(fault, "nothing") || fault_arg(fault, "no-list");
	if (fault_arg(fault, "no-list") && gives->length)
		*gives->length = 1;
	if (fault_arg(fault, "alive"))
		return error_new(
			PJRT_Error_Code_UNIMPLEMENTED,
			"%ld buffers, %ld events, %ld executables, %ld topologies, "
			"%ld errors, %ld pins",
			atomic_load(&alive[BUFFERS]), atomic_load(&alive[EVENTS]),
			atomic_load(&alive[EXECUTABLES]), atomic_load(&alive[TOPOLOGIES]),
			atomic_load(&alive[ERRORS]), atomic_load(&alive[PINS]));
	arg = fault_arg(fault, "error");
	return arg ? error_from(arg, EVENT) : NULL;
}

/* An event of another kind takes the place of the one that the call gave. */
static void replace_event(PJRT_Event **event, const char *fault)
{
	PJRT_Event *other = NULL;
	const char *arg;

	if ((arg = fault_arg(fault, "event-error")))
		other = event_new(EVENT, error_from(arg, EVENT));
	else if ((arg = fault_arg(fault, "late-event")))
		other = event_late(strtol(arg, NULL, 10));
	else if (!fault_arg(fault, "no-event"))
		return;
	event_unref(*event);
	*event = other;
}

/* How many bytes at the end of the arguments FAULT's older plugin does not know. */
static size_t unknown(const char *fault)
{
	const char *arg = fault_arg(fault, "short");

	return !arg ? 0 : *arg ? strtoul(arg, NULL, 10) : sizeof(void *);
}

/* The implementations. */
static union table real;

#define EVENT(field) .event = &args->field
#define LIST(field) .length = &args->field
#define NEITHER .event = NULL
#define CALL(name, operation, effect, given)                                             \
	WRAP(name, PJRT_##name##_Args, real.api.PJRT_##name, given)
#define NEWER(name, operation, effect, given)                                            \
	WRAP(name, struct pj_##name##_Args, real.newer.name, given)
#define WRAP(name, type, function, given)                                                \
	static PJRT_Error *call_##name(type *args)                                       \
	{                                                                                \
		const struct gives gives = { given };                                    \
		type before = *args;                                                     \
		char fault[TEXT_LEN];                                                    \
		bool skip;                                                               \
		PJRT_Error *e = fault_of("PJRT_" #name, &gives, fault, &skip);           \
		size_t cut = unknown(fault);                                             \
                                                                                         \
		if (e || skip)                                                           \
			return e;                                                        \
		e = function(args);                                                      \
		memcpy((char *)(args + 1) - cut, (char *)(&before + 1) - cut, cut);      \
		if (!e && gives.event)                                                   \
			replace_event(gives.event, fault);                               \
		return e;                                                                \
	}
#include "calls.h"
#undef CALL
#undef NEWER
#undef EVENT
#undef LIST
#undef NEITHER

static bool is_missing(const char *name)
{
	char fault[TEXT_LEN];

	return find_named(name, fault) && fault_arg(fault, "missing");
}

void wrap_calls(union table *table)
{
	real = *table;
#define CALL(name, operation, effect, given)                                             \
	table->api.PJRT_##name = is_missing("PJRT_" #name) ? NULL : call_##name;
#define NEWER(name, operation, effect, given)                                            \
	table->newer.name = is_missing("PJRT_" #name) ? NULL : call_##name;
#include "calls.h"
#undef CALL
#undef NEWER
}
