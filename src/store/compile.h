/* SPDX-License-Identifier: Apache-2.0 */
/* What executable.c, compile.c, cached.c and loaded.c share.  Private to the store. */
#ifndef PJRTFS_STORE_COMPILE_H
#define PJRTFS_STORE_COMPILE_H

#include "compiler.h"
#include "pjrtfs/store/executable.h"

/* What options.json asks for. */
struct pf_plan {
	struct pf_buf options;    /* owned: a serialized CompileOptionsProto */
	struct pf_worker *worker; /* borrowed: of the plugin that compiles */
	/* N: the worker passes N - 1 before all arguments, the platform's position among the
	 * program's; 0: the program takes no such argument */
	uint32_t platform;
};

/* A compile, from the moment that it is asked for. */
struct compile {
	struct pf_compile_job job; /* in the compiler's queue, or run by it */
	struct pf_waiter waiter;   /* for the worker's next life */
	struct pf_executable *x;   /* owned reference */
	struct pf_life *life;      /* owned reference: the one it is tried on, or NULL */
	struct pf_bytes *program;  /* owned reference; as it was when the compile began */
	uint64_t len;
	struct pf_program_facts facts; /* of it: also what of it the plugin reads */
	char format[PF_WIRE_FORMAT];
	bool native;         /* the program is compiled already */
	struct pf_plan plan; /* owned: the options, and who compiles */
	unsigned generation;
	uint64_t id; /* in that life */
	struct timespec start;
	struct pf_err err; /* why its plugin does not compile it */
	struct pf_told_compile told;

	struct pf_cache_key key;
	bool can_be_kept;    /* the key says all: the cache may be used */
	bool not_from_cache; /* the entry that there was killed the worker */
	bool suspected;      /* it ran when the worker died, among others */
	bool sent;           /* the worker was asked for it */
	struct pf_claim
		*claim; /* owned: nobody else compiles the same meanwhile; or NULL */
};

/*
 * A compile under way, or its result, means nothing any more: the state becomes STATE.  The
 * caller holds the lock; outside it, it wakes the waiters that are returned and drops *GONE.
 */
struct pf_waiter *pf_executable_supersede(struct pf_executable *x,
					  enum pf_executable_state state,
					  struct pf_loaded **gone);

/*
 * Read options.json's TEXT (NULL: the defaults) for a program with FACTS (NULL: not known
 * yet).  -EINVAL; *RET then holds nothing.
 */
int pf_executable_plan(const struct pf_executable *x, const char *text,
		       const struct pf_program_facts *facts, struct pf_plan *ret,
		       struct pf_err *err);

/* --- compile_end.c -------------------------------------------------------------------- */

void pf_compile_free(struct compile *c);

/* C ended, and with it those that wanted the same: publish what it gave, unless a newer source
 * has begun meanwhile.  LOADED stays the caller's. */
void pf_compile_settle(struct compile *c, struct pf_loaded *loaded, enum pf_cache_use use,
		       const struct pf_err *err);

/* It failed, for ever; C is freed. */
void pf_compile_fail(struct compile *c, const struct pf_err *err);

/* C's plugin refused it, for the reason C->err: if the program is of a newer StableHLO than the
 * plugin, say so before the reason, and which plugin of the mount is new enough. */
void pf_compile_compare_versions(struct compile *c);

/* Tell the watch of a compile that ended after SECONDS: with ERR, or NULL. */
void pf_compile_tell(struct pf_worker *worker, struct pf_told_compile *told,
		     const struct pf_err *err, double seconds, enum pf_cache_use use);

/* Why a compile of X means nothing any more. */
void pf_compile_superseded_locked(const struct pf_executable *x, struct pf_err *ret);

/* --- loaded.c ------------------------------------------------------------------------- */

/* A new executable of C, with one reference; NULL: no memory. */
struct pf_loaded *pf_loaded_new(struct compile *c);

/* Does a living worker have it?  Then it was used just now. */
bool pf_loaded_use(struct pf_loaded *loaded);

/*
 * What L is: INFO is taken over (NULL: the worker told nothing), HLO (NULL: it told none) is
 * read.  -EPROTO, -EOPNOTSUPP, -EINVAL: it cannot be used.
 */
int pf_loaded_describe(struct compile *c, struct pf_loaded *l, struct json_object *info,
		       const void *hlo, uint64_t hlo_len, bool hlo_with_config,
		       struct pf_err *err);

/* --- cached.c ------------------------------------------------------------------------- */

/* Make C's key.  -ENOMEM.  Blocks: reads the plugin's file the first time. */
int pf_compile_key(struct compile *c, struct pf_err *err);

/*
 * Look C up.  1: *RET; 0: it is not there; -errno: the worker died of it, or just then, and
 * it must be compiled on the next life.  Blocks.
 */
int pf_compile_from_cache(struct compile *c, struct pf_loaded **ret, struct pf_err *err);

/*
 * Have the worker load the parts that H tells of, which lie at AT of BODY, as C's program: 1
 * and *RET; 0: it cannot, ERR tells why; -errno: it died.  Blocks.
 */
int pf_compile_load(struct compile *c, const struct pf_cache_header *h,
		    struct pf_bytes *body, uint64_t at, struct pf_loaded **ret,
		    struct pf_err *err);

/* What stands with the code of L: what listings show, what cannot be asked of a loaded
 * program, and for which plugin it is.  The caller's. */
struct json_object *pf_native_describe(struct pf_compiler *compiler,
				       const struct pf_loaded *l, bool with_config);

/*
 * What machine code depends on, of the plugin that LIFE of WORKER has loaded, its devices and
 * this host, as a text: equal for those that can load each other's.  Blocks: reads the
 * plugin's file the first time.  -ESTALE: the file has changed since; -ENOMEM, -errno.
 */
int pf_native_identity(struct pf_compiler *compiler, const struct pf_worker *worker,
		       const struct pf_life *life, char ret[PF_CACHE_KEY_TEXT],
		       struct pf_err *err);

/*
 * The worker died and C failed, as ERR says: true if C was not asked for, or was one of several,
 * and is tried once more in the next life; C may be gone by then.  False: C is the culprit, which
 * is noted.
 */
bool pf_compile_again(struct compile *c, const struct pf_err *err);

/* Keep L, which C just compiled and REP tells of.  Blocks. */
void pf_compile_to_cache(struct compile *c, struct pf_loaded *l,
			 const struct pf_rep_compile *rep);

/* --- native.c ------------------------------------------------------------------------- */

/*
 * Load C's program, which is compiled already: 0 and *RET.  -EINVAL: it is damaged, or for
 * another plugin, host or set of devices; the plugin's refusal; -EIO: the worker died of it.
 * Blocks.
 */
int pf_compile_native(struct compile *c, struct pf_loaded **ret, struct pf_err *err);

#endif
