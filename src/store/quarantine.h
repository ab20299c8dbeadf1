/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that ended a worker, and whose they were.  Private to the store.
 *
 * When a worker dies, a compile or an execution that was the only suspect is its culprit.  The
 * pair of program and user is refused for 10 s, twice as long after each further death, up to
 * 10 min, so that one user's program does not end everybody's worker again and again.  The mount's
 * owner is never refused; whatever the owner asks for is no longer refused to others either.  A
 * user who had 5 culprits within 60 s waits 1 s before the next compile, twice as long after each
 * further culprit, up to 30 s.
 */
#ifndef PJRTFS_STORE_QUARANTINE_H
#define PJRTFS_STORE_QUARANTINE_H

#include <stdint.h>
#include <sys/types.h>

#include "pjrtfs/base/err.h"
#include "pjrtfs/cache/key.h"
#include "pjrtfs/store/executable.h"

struct pf_quarantine;

/* What is refused: a program may end the worker when it is compiled, or only when it runs. */
enum pf_suspect { PF_SUSPECT_COMPILE, PF_SUSPECT_EXECUTION };

/*
 * OWNER: the user of the mount; NOW_MS: a clock that never goes back, in milliseconds.  NULL: no
 * memory.  Every function may be called from any thread; none blocks.
 */
struct pf_quarantine *pf_quarantine_new(uid_t owner, int64_t (*now_ms)(void));
void pf_quarantine_free(struct pf_quarantine *quarantine); /* NULL is allowed */

/* KEY of USER ended a worker, as WHY says.  Without memory for it nothing is refused. */
void pf_quarantine_add(struct pf_quarantine *quarantine, enum pf_suspect what,
		       const struct pf_cache_key *key, uid_t user,
		       const struct pf_err *why);

/* May WHAT be done with KEY for USER?  0; -EIO: not yet, with the sentence of the death and the
 * seconds that are left.  Costs some nanoseconds as long as nothing is refused to anybody. */
int pf_quarantine_check(struct pf_quarantine *quarantine, enum pf_suspect what,
			const struct pf_cache_key *key, uid_t user, struct pf_err *err);

/* Until when USER's compiles wait, by the clock; 0: they need not. */
int64_t pf_quarantine_waits_until(struct pf_quarantine *quarantine, uid_t user);

/* --- executions ----------------------------------------------------------------------- */

/* USER's execution of LOADED was under way when LIFE ended, as WHY says: if it was the only one,
 * and nothing was being compiled, it is the culprit. */
void pf_quarantine_add_execution(const struct pf_executable *executable,
				 const struct pf_loaded *loaded, struct pf_life *life,
				 uid_t user, const struct pf_err *why);

/* As pf_quarantine_check, for an execution of LOADED. */
int pf_quarantine_check_execution(const struct pf_executable *executable,
				  const struct pf_loaded *loaded, uid_t user,
				  struct pf_err *err);

#endif
