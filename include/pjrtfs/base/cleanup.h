/* SPDX-License-Identifier: Apache-2.0 */
/* Destroy locals at the end of their block; hold locks for a block. */
#ifndef PJRTFS_BASE_CLEANUP_H
#define PJRTFS_BASE_CLEANUP_H

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define PF_CLEANUP(fn) __attribute__((__cleanup__(fn)))

/* Define FUNCp(), which destroys *P with FUNC; FUNC must accept NULL. */
#define PF_DEFINE_CLEANUP(type, func)                                                    \
	static inline void func##p(type *p)                                              \
	{                                                                                \
		func(*p);                                                                \
		*p = NULL;                                                               \
	}

/*
 * Move ownership out of a guarded variable: the value is returned and the
 * guard is left with NULL, so that it no longer frees it.
 */
#define pf_steal(pp)                                                                     \
	({                                                                               \
		__typeof__(*(pp)) pf_stolen_ = *(pp);                                    \
		*(pp) = NULL;                                                            \
		pf_stolen_;                                                              \
	})

/* The struct that MEMBER, at address PTR, is a member of. */
#define pf_container_of(ptr, type, member)                                               \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void pf_freep(void *p)
{
	free(*(void **)p);
}

static inline void pf_closep(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
}

/* A lock that cannot be taken or given back means corrupt memory: abort. */
static inline void pf_lock(pthread_mutex_t *mutex)
{
	if (pthread_mutex_lock(mutex))
		abort();
}

static inline void pf_unlock(pthread_mutex_t *mutex)
{
	if (pthread_mutex_unlock(mutex))
		abort();
}

static inline void pf_unlockp(pthread_mutex_t **mutex)
{
	pf_unlock(*mutex);
}

#define pf_autofree PF_CLEANUP(pf_freep)   /* must be initialised (NULL) */
#define pf_autoclose PF_CLEANUP(pf_closep) /* must be initialised (-1)   */

/* Hold MUTEX until the end of the enclosing block. */
#define PF_LOCK_SCOPE(mutex)                                                             \
	PF_CLEANUP(pf_unlockp)                                                           \
	__attribute__((__unused__)) pthread_mutex_t *pf_scope_lock_ =                    \
		(pf_lock(mutex), (mutex))

#endif
