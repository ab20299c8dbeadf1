/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned memory.  Each mistake that would let a device write to memory of others ends the process. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin.h"

enum { MAX_PINS = 64 };

/* Memory that is pinned, and the last download to it. */
static struct pin {
	const char *at;
	size_t size;       /* 0: none is here */
	PJRT_Event *event; /* a reference: its end; or NULL */
	const char *to;
	size_t len;
	unsigned long sum; /* of its bytes */
} pins[MAX_PINS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects pins */

static void mistake(const char *what)
{
	fprintf(stderr, "faulty: %s\n", what);
	abort();
}

static unsigned long sum_of(const char *at, size_t len)
{
	unsigned long sum = 5381;

	for (size_t i = 0; i < len; i++)
		sum = sum * 33 + (unsigned char)at[i];
	return sum;
}

/* The first of the pins that has one of the LEN bytes at AT, or NULL. */
static struct pin *find(const char *at, size_t len)
{
	for (int i = 0; i < MAX_PINS; i++)
		if (pins[i].size && at < pins[i].at + pins[i].size &&
		    pins[i].at < at + len)
			return &pins[i];
	return NULL;
}

static bool is_busy(const struct pin *pin)
{
	return pin->event && !event_is_ready(pin->event);
}

void dma_download(const void *at, size_t len, PJRT_Event *event)
{
	const char *to = at;
	struct pin *pin;

	pthread_mutex_lock(&lock);
	pin = find(to, len);
	if (pin && (to < pin->at || to + len > pin->at + pin->size))
		mistake("a part of a download's memory is pinned");
	if (pin && is_busy(pin))
		mistake("two downloads go to the same pinned memory");
	if (pin) {
		event_unref(pin->event);
		event_ref(event);
		*pin = (struct pin){
			pin->at, pin->size, event, to, len, sum_of(to, len)
		};
	}
	pthread_mutex_unlock(&lock);
}

PJRT_Error *faulty_Client_DmaMap(PJRT_Client_DmaMap_Args *args)
{
	PJRT_Error *e = inject(PIN);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int i = 0;

	if (e)
		return e;
	if ((uintptr_t)args->data % page || args->size % page || !args->size)
		mistake("memory to be pinned is not of whole pages");
	pthread_mutex_lock(&lock);
	if (find(args->data, args->size))
		mistake("memory is pinned twice");
	while (i < MAX_PINS && pins[i].size)
		i++;
	if (i == MAX_PINS)
		mistake("too much memory is pinned");
	pins[i] = (struct pin){ .at = args->data, .size = args->size };
	count_thing(PINS, 1);
	pthread_mutex_unlock(&lock);
	return NULL;
}

PJRT_Error *faulty_Client_DmaUnmap(PJRT_Client_DmaUnmap_Args *args)
{
	PJRT_Error *e = inject(UNPIN);
	struct pin *pin;

	if (e)
		return e;
	pthread_mutex_lock(&lock);
	pin = find(args->data, 1);
	if (!pin || pin->at != args->data)
		mistake("memory is unpinned that is not pinned");
	if (is_busy(pin))
		mistake("memory is unpinned during a download");
	if (pin->event && sum_of(pin->to, pin->len) != pin->sum)
		mistake("pinned memory was given back");
	event_unref(pin->event);
	*pin = (struct pin){ 0 };
	count_thing(PINS, -1);
	pthread_mutex_unlock(&lock);
	return NULL;
}
