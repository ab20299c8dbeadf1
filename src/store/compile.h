/* What executable.c and compile.c share.  Private to the store. */
#ifndef PJRTFS_STORE_COMPILE_H
#define PJRTFS_STORE_COMPILE_H

#include "pjrtfs/store/executable.h"

/*
 * A compile under way, or its result, means nothing any more: the state becomes STATE.  The
 * caller holds the lock; outside it, it wakes the waiters that are returned and drops *GONE.
 */
struct pf_waiter *pf_executable_supersede(struct pf_executable *x,
					  enum pf_executable_state state,
					  struct pf_loaded **gone);

/* What options.json asks for. */
struct pf_plan {
	struct pf_buf options;    /* owned: a serialized CompileOptionsProto */
	struct pf_worker *worker; /* borrowed: of the plugin that compiles */
};

/*
 * Read options.json's TEXT (NULL: the defaults) for a program with FACTS (NULL: not known
 * yet).  -EINVAL; *RET then holds nothing.
 */
int pf_executable_plan(const struct pf_executable *x, const char *text,
		       const struct pf_program_facts *facts, struct pf_plan *ret,
		       struct pf_err *err);

/* Seconds since START, a CLOCK_REALTIME time. */
double pf_seconds_since(const struct timespec *start);

#endif
