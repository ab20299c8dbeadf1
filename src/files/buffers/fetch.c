/* SPDX-License-Identifier: Apache-2.0 */
/* Fetch the arrays that only a device has, before its worker ends. */
#include <semaphore.h>
#include <stdlib.h>

#include "internal.h"
#include "pjrtfs/files.h"

struct fetch {
	struct pf_wait waiter;
	sem_t done;
	int64_t until; /* CLOCK_MONOTONIC, ms */
	unsigned lost; /* arrays that could not be fetched */
};

static void wake(struct pf_wait *waiter)
{
	sem_post(&pf_container_of(waiter, struct fetch, waiter)->done);
}

/* Wait for a fetch of VALUE.  It ends at the latest when its worker does. */
static void await(struct fetch *f, struct pf_value *value)
{
	int64_t left = f->until - pf_now_ms();
	struct timespec end = pf_time_in(CLOCK_MONOTONIC, left > 0 ? (uint64_t)left : 0);

	if (sem_clockwait(&f->done, CLOCK_MONOTONIC, &end) == 0)
		return;
	pf_worker_restart(pf_value_place(value).worker);
	while (sem_wait(&f->done))
		;
}

static void fetch_buffer(struct fetch *f, struct pf_buffer *buffer)
{
	PF_CLEANUP(pf_value_unrefp) struct pf_value *value = NULL;

	if (pf_buffer_value(buffer, &value, NULL) < 0 ||
	    pf_value_state(value, NULL) == PF_VALUE_LOST)
		return;
	if (pf_now_ms() < f->until && pf_value_fetch(value, &f->waiter, NULL) == 0)
		await(f, value);
	f->lost += !pf_value_host(value);
}

/* PF_DEPTH_MAX limits the recursion. */
static void fetch_below(struct fetch *f, struct pf_node *dir)
{
	struct pf_node **list = pf_dir_list(dir);

	for (struct pf_node **n = list; n && *n; n++) {
		if (buffers_is_directory(*n))
			fetch_below(f, *n);
		else if (is_buffer(*n))
			fetch_buffer(f, buffer_of(*n));
		pf_node_unref(*n);
	}
	free(list);
}

unsigned pf_fs_fetch(struct pf_fs *fs, const struct pf_worker *worker, unsigned seconds)
{
	struct fetch f = { .waiter = { .wake = wake },
			   .until = pf_now_ms() + (int64_t)seconds * 1000 };

	if (sem_init(&f.done, 0, 0))
		abort();
	for (unsigned i = 0; i < fs->n_devices; i++)
		if (!worker || fs->devices[i].worker == worker)
			fetch_below(&f, fs->devices[i].buffers);
	sem_destroy(&f.done);
	return f.lost;
}
