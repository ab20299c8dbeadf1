/* SPDX-License-Identifier: Apache-2.0 */
/* What time it is, and how much has passed.  Nothing here blocks; each costs some 20 ns. */
#ifndef PJRTFS_BASE_CLOCK_H
#define PJRTFS_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* By the clock that never goes back, CLOCK_MONOTONIC (clock_gettime(2)): nanoseconds,
 * milliseconds. */
static inline uint64_t pf_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline int64_t pf_now_ms(void)
{
	return (int64_t)(pf_now_ns() / 1000000u);
}

/* Seconds from FROM to TO; negative if TO is earlier. */
static inline double pf_seconds_between(const struct timespec *from,
					const struct timespec *to)
{
	return (double)(to->tv_sec - from->tv_sec) +
	       (double)(to->tv_nsec - from->tv_nsec) / 1e9;
}

/* Seconds since START, a time of CLOCK. */
static inline double pf_seconds_since(clockid_t clock, const struct timespec *start)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return pf_seconds_between(start, &now);
}

/* The time on CLOCK in MS milliseconds: what pthread_cond_timedwait(3) takes. */
static inline struct timespec pf_time_in(clockid_t clock, uint64_t ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_sec += (time_t)(ms / 1000);
	t.tv_nsec += (long)(ms % 1000) * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

#endif
