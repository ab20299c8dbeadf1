/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <unistd.h>

#include "pjrtfs/base.h"

int pf_thread_start(pthread_t *ret, void *(*fn)(void *arg), void *arg)
{
	pthread_attr_t attr;
	pthread_t detached;
	cpu_set_t cpus;
	int r = pthread_attr_init(&attr);

	if (r)
		return -r;
	if (!ret)
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	/* With more processors than the set has bits, the caller's are inherited: pf_follow, which
	 * changes those of a thread, does nothing then. */
	if (!sched_getaffinity(getpid(), sizeof(cpus), &cpus))
		pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
	r = pthread_create(ret ? ret : &detached, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	return -r;
}
