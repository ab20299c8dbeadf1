/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "pjrtfs/base.h"
#include "pjrtfs/wait.h"

struct detached {
	void *(*fn)(void *arg);
	void *arg;
};

/* A turn lasts from the thread's answer to its end: the rest belongs to the answered operation. */
static void *run_detached(void *arg)
{
	struct detached d = *(struct detached *)arg;

	free(arg);
	pf_turn_may_linger();
	d.fn(d.arg);
	pf_turn_no_more();
	return NULL;
}

int pf_thread_start(pthread_t *ret, void *(*fn)(void *arg), void *arg)
{
	struct detached *d = NULL;
	pthread_attr_t attr;
	pthread_t thread;
	cpu_set_t cpus;
	int r = pthread_attr_init(&attr);

	if (r)
		return -r;
	if (!ret) {
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		d = malloc(sizeof(*d));
		if (!d) {
			pthread_attr_destroy(&attr);
			return -ENOMEM;
		}
		*d = (struct detached){ fn, arg };
	}
	/* With more processors than the set has bits, the caller's are inherited: pf_follow, which
	 * changes those of a thread, does nothing then. */
	if (!sched_getaffinity(getpid(), sizeof(cpus), &cpus))
		pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
	r = pthread_create(ret ? ret : &thread, &attr, d ? run_detached : fn,
			   d ? d : arg);
	if (r)
		free(d);
	pthread_attr_destroy(&attr);
	return -r;
}
