/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executables: compiled programs, and the sources they are made of.
 *
 * A source that is committed compiles; until it has, the executable is compiling.  If that fails,
 * the executable is failed, or, if an earlier source was compiled, goes on with that.
 */
#ifndef PJRTFS_EXECUTABLE_H
#define PJRTFS_EXECUTABLE_H

#include <stdint.h>
#include <sys/types.h>

#include "pjrtfs/base.h"
#include "pjrtfs/cache.h"
#include "pjrtfs/engine.h"
#include "pjrtfs/program.h"
#include "pjrtfs/quota.h"
#include "pjrtfs/scheduler.h"
#include "pjrtfs/value.h"

struct pf_compiler;
struct pf_timers;

/*
 * The compiler: runs compiles on threads of its own, a number at a time and fairly between users
 * (scheduler.h), and knows the cache that may save them.
 */

struct pf_compiler_config {
	struct pf_cache *cache; /* borrowed, outlives it; NULL: no cache */
	unsigned jobs;          /* compiles at a time; 0: one for each processor */
	unsigned timeout_s;     /* seconds that one may take; 0: no limit */
	/* Default compile options of all programs: a JSON object, copied; NULL: none. */
	const char *options;
	uid_t owner; /* of the mount: may run programs again that ended a worker */
};

/* ret   on success, the caller's; pf_compiler_free.  -ENOMEM. */
int pf_compiler_new(const struct pf_compiler_config *config, struct pf_compiler **ret,
		    struct pf_err *err);

/*
 * Start to identify WORKER's plugin for the cache, so that the first compile does not wait until
 * 250 MB have been read.  Does not block.
 */
void pf_compiler_warm(struct pf_compiler *compiler, struct pf_worker *worker);

/* The compiles that run or wait, as pf_sched_list has them; work.worker is the plugin's shared one.
 * Those without a subject are not compiles of programs. */
size_t pf_compiler_list(struct pf_compiler *compiler, struct pf_sched_entry *entries,
			size_t max);

/* Wait until compiled programs are in the cache, at most MS milliseconds. */
void pf_compiler_finish(struct pf_compiler *compiler, unsigned ms);

/*
 * End the threads.  The workers have been stopped, so queued compiles fail, and later ones fail
 * at once.  Blocks until the last queued one has failed.  NULL is allowed.
 */
void pf_compiler_stop(struct pf_compiler *compiler);

/* Stop and free COMPILER, to which nothing refers any more.  NULL is allowed. */
void pf_compiler_free(struct pf_compiler *compiler);

/*
 * Topologies that users give (struct pf_options, "topology"), by name.
 */

/* NAME is the topology of the LEN bytes at BYTES, which do not change any more, or, if that is NULL,
 * none.  -ENOMEM.  Does not block. */
int pf_topology_set(struct pf_compiler *compiler, const char *name,
		    struct pf_bytes *bytes, uint64_t len, struct pf_err *err);

/* What a plugin said of a topology: from its worker, so it may be anything.  All zeros is empty. */
struct pf_topology_facts {
	const char *plugin;  /* that took it; borrowed: its worker's name */
	struct pf_buf bytes; /* owned: of one that it made, at most PF_WIRE_TOPOLOGY */
	struct pf_buf text;  /* owned: as PF_TOPOLOGY_TEXT */
};

void pf_topology_facts_release(struct pf_topology_facts *facts);

/*
 * Does the plugin of one of the N WORKERS read the LEN bytes at BYTES, for USER, as a topology?  A
 * USER whose bytes ended a worker is the culprit.
 * -EOPNOTSUPP: none of them reads topologies; else why the last one refused it.  Blocks.
 */
int pf_topology_check(struct pf_compiler *compiler, struct pf_worker *const *workers,
		      unsigned n, uid_t user, const void *bytes, size_t len,
		      struct pf_topology_facts *ret, struct pf_err *err);

/*
 * The same of a topology that the plugin called PLUGIN, or if that is NULL the first that does,
 * makes of REQUEST, a text as PF_TOPOLOGY_CREATE has it.  -EINVAL: also if there is no such plugin.
 */
int pf_topology_create(struct pf_compiler *compiler, struct pf_worker *const *workers,
		       unsigned n, const char *plugin, uid_t user, const char *request,
		       struct pf_topology_facts *ret, struct pf_err *err);

/* Append WHAT (PF_TOPOLOGY_TEXT, PF_TOPOLOGY_BYTES) of the topology of WORKER's devices.
 * -EOPNOTSUPP and others: the plugin's refusal; -EIO: WORKER is not ready.  Blocks. */
int pf_topology_of(struct pf_worker *worker, unsigned what, struct pf_buf *out,
		   struct pf_err *err);

enum pf_executable_state {
	PF_EXECUTABLE_EMPTY,
	PF_EXECUTABLE_COMPILING,
	PF_EXECUTABLE_READY,
	PF_EXECUTABLE_FAILED,
	PF_EXECUTABLE_COMPILED, /* ready, but for a topology: it cannot run here */
};

/* A compiled program; counted, so that an execution keeps the program it runs.  It never changes, so
 * the functions of it take no lock; its fields are the store's. */
struct pf_loaded;

/* Add a reference; drop one.  The last one frees the worker's executable. */
struct pf_loaded *pf_loaded_ref(struct pf_loaded *loaded);
void pf_loaded_unref(struct pf_loaded *loaded); /* NULL is allowed */
PF_DEFINE_CLEANUP(struct pf_loaded *, pf_loaded_unref)

/* What a compiled program is; all of it is borrowed as long as the program is.  All zeros: there is
 * none. */
struct pf_loaded_facts {
	struct pf_worker *worker;     /* of the plugin that compiled it */
	struct pf_instance *instance; /* the one that has it; NULL: it is a file */
	const struct pf_signature *signature; /* of the arguments that callers pass */
	unsigned n_devices;                   /* that it runs on at once; 0: any one */
	const unsigned *devices; /* their indexes at the worker, in launch order */
	int64_t partitions;      /* 0: the plugin does not say */
};

/* LOADED may be NULL. */
struct pf_loaded_facts pf_loaded_facts(const struct pf_loaded *loaded);

/*
 * Let a worker hold at most N programs from now on: when another is loaded, the worker drops idle
 * ones that were used longest ago; their next use loads them again.  0, the default: as many as
 * the number of mappings that the kernel allows a process, vm.max_map_count, has room for.
 */
void pf_loaded_limit(unsigned n);

/* What an executable works with; all of it is borrowed. */
struct pf_executable_config {
	struct pf_worker *const *workers; /* the first is the default */
	unsigned n_workers;
	struct pf_arena *arena;
	struct pf_compiler *compiler;
	struct pf_timers *timers; /* of its callbacks */
};

/* Its fields are the store's. */
struct pf_executable;

/* An empty executable, which USER compiles.  One reference.  NULL: no memory. */
struct pf_executable *pf_executable_new(const struct pf_executable_config *config,
					uid_t user);

/* Add a reference; drop one. */
struct pf_executable *pf_executable_ref(struct pf_executable *executable);
void pf_executable_unref(struct pf_executable *executable); /* NULL is allowed */
PF_DEFINE_CLEANUP(struct pf_executable *, pf_executable_unref)

/* Its number in the journal (0: there is no journal), and the user who compiles it, which never
 * change. */
uint64_t pf_executable_number(const struct pf_executable *executable);
uid_t pf_executable_user(const struct pf_executable *executable);

/* Its name in events and metrics is SUBJECT from now on; 0: it has none.  One thread at a time. */
void pf_executable_name(struct pf_executable *executable, uint64_t subject);

/* Has it such a name at this moment?  Takes no lock. */
bool pf_executable_is_named(const struct pf_executable *executable);

/*
 * Write LEN bytes at OFF to the source.  -ENOSPC, -EFBIG.  Returns LEN.  The program that was
 * compiled before runs until the new source is compiled.
 */
ssize_t pf_executable_write(struct pf_executable *executable, const void *src, size_t len,
			    uint64_t off, struct pf_err *err);

/* Set the source's size; 0 also ends a compile.  What was compiled goes on; if nothing was, and the
 * size is 0, the state is empty. */
int pf_executable_truncate(struct pf_executable *executable, uint64_t size,
			   struct pf_err *err);

/* Drop the compiled program, or the compile under way: the state is empty; the source stays.  Returns
 * the executions that wait for it, which the caller wakes when it holds no lock. */
__attribute__((__warn_unused_result__)) struct pf_wait *pf_executable_unload(
	struct pf_executable *executable);

/* Free the source, which has neither name nor open file; what was compiled of it stays. */
void pf_executable_discard(struct pf_executable *executable);

/* Charge ACCOUNT for its source and its compiles from now on, even beyond the maxima. */
void pf_executable_charge_to(struct pf_executable *executable,
			     struct pf_account *account);

/* Say in ERR that an executable has no source to be compiled.  Returns -ENOENT. */
int pf_executable_no_source(struct pf_err *err);

/* The source, for readers: a reference, or NULL when it is empty. */
struct pf_bytes *pf_executable_source(struct pf_executable *executable,
				      uint64_t *ret_len);

/* The same of a source that is as it shall be (pf_executable_keep_source); NULL also if it has changed
 * since. */
struct pf_bytes *pf_executable_kept_source(struct pf_executable *executable,
					   uint64_t *ret_len);

/* The bytes of a program that was written and not committed; 0: it was. */
uint64_t pf_executable_uncommitted(struct pf_executable *executable);

/* The present source, if that is still SOURCE (NULL: none), is as it shall be: changed is false. */
void pf_executable_keep_source(struct pf_executable *executable,
			       const struct pf_bytes *source);

/*
 * FROM's name becomes TO's: until TO's source is compiled, or if it is not, TO runs what FROM ran.
 * Both have the same workers.  False: TO has a program of its own, or FROM has none.
 */
bool pf_executable_succeed(struct pf_executable *to, struct pf_executable *from);

/*
 * Give TO the source that FROM was compiled of, or would be, and its format; executables of one
 * account share the bytes.  -ENOENT: FROM has none; -EDQUOT, -ENOSPC, -ENOMEM.
 */
int pf_executable_copy_source(struct pf_executable *to, struct pf_executable *from,
			      struct pf_err *err);

/* The source is a program of FORMAT from now on (PF_PROGRAM_NONE: a scratch file). */
void pf_executable_set_format(struct pf_executable *executable,
			      enum pf_program_format format);
enum pf_program_format pf_executable_format(struct pf_executable *executable);

/* The text that was written as options is not JSON: keep ERR in options_err. */
void pf_executable_refuse_options(struct pf_executable *executable,
				  const struct pf_err *err);

/* Append options.json's text; nothing: the defaults. */
void pf_executable_options(struct pf_executable *executable, struct pf_buf *out);

/* Why the last write to the source, and the options that were written last, were refused; with code 0:
 * they were not. */
void pf_executable_refusals(struct pf_executable *executable, struct pf_err *ret_write,
			    struct pf_err *ret_options);

/*
 * Set options.json's text, LEN bytes of TEXT; NULL: the defaults.  ONLY_CHECK: do not set it.  0;
 * -EINVAL: they are not valid, for a reason that is also kept in options_err.
 */
int pf_executable_set_options(struct pf_executable *executable, const char *text,
			      size_t len, bool only_check, struct pf_err *err);

/*
 * Compile the source.  0: a thread of the compiler does; WAITER is woken at the end, and
 * pf_executable_result says how; until then, executions get what was compiled before.  If WAITER is
 * NULL, they wait.  -EINVAL: the source is refused at once; the state is failed, or ready with what
 * was compiled before.  1: the source is empty, and so is the state, if nothing was compiled.  Does not
 * block.
 */
int pf_executable_compile(struct pf_executable *executable, struct pf_wait *waiter,
			  struct pf_err *err);

/* In a restarted daemon: compile the source again, or what ran in place of it. */
void pf_executable_resume(struct pf_executable *executable);

/* 0, or why the last compile failed (-EINPROGRESS while it runs). */
int pf_executable_result(struct pf_executable *executable, struct pf_err *err);

/*
 * The compiled program, for USER.  1: *RET (a reference), on a living worker.  0: it is being
 * compiled; WAITER is woken, then call again.  If no worker has a program that was ready, it is
 * loaded or compiled again for USER: without the wait of users whose programs ended workers; if it
 * ends the worker, USER is the culprit.  -errno: ENOENT empty; the compile's failure; EIO: it is
 * refused to USER as a culprit, and stays ready for others; EOPNOTSUPP: it is for a topology.
 */
int pf_executable_load(struct pf_executable *executable, uid_t user,
		       struct pf_wait *waiter, struct pf_loaded **ret,
		       struct pf_err *err);

/* Take WAITER off the waiters; false: it was woken, or will be. */
bool pf_executable_leave(struct pf_executable *executable, struct pf_wait *waiter);

/* The program that executions get now, if a living worker has it and can run it, with a reference;
 * else NULL. */
struct pf_loaded *pf_executable_loaded(struct pf_executable *executable);

/* The same also if no worker has it now; NULL: none was compiled. */
struct pf_loaded *pf_executable_known(struct pf_executable *executable);

/* The plugin that its options name, which compiles it; borrowed. */
struct pf_worker *pf_executable_worker(struct pf_executable *executable);

/* Cancel the compile under way: it fails with -ECANCELED.  True: it had begun, and the plugin
 * finishes it; false: it had not, or no compile is queued. */
bool pf_executable_abandon(struct pf_executable *executable);

/* The state at this moment, and its name ("ready"; static). */
enum pf_executable_state pf_executable_state(struct pf_executable *executable);
const char *pf_executable_state_name(enum pf_executable_state state);

/* Append the worker's info under KEY ("cost") as a line of JSON, perhaps an empty object. */
void pf_executable_fact(struct pf_executable *executable, const char *key,
			struct pf_buf *out);

/*
 * What the program costs on the devices that it is compiled for, as pjrtfs-topologies(7) describes estimate.json: an
 * object, empty if nothing is compiled; the caller's; NULL: no memory.  Asks the worker for the memory of
 * devices of this mount: blocks.
 */
struct json_object *pf_executable_estimate(struct pf_executable *executable);

/* Append the serialized CompileOptionsProto that the plugin compiled it with; nothing if it is not
 * ready, or was not compiled in this mount. */
void pf_executable_given(struct pf_executable *executable, struct pf_buf *out);

/* Append signature.json (an empty object if nothing is compiled): one line. */
void pf_executable_signature(struct pf_executable *executable, struct pf_buf *out);

/* info.json's object.  The caller's; without memory incomplete, or NULL. */
struct json_object *pf_executable_json(struct pf_executable *executable);

/*
 * EXECUTABLE as a file (.pjrtexe): an entry of the cache (cache.h), which holds the plugin's
 * machine code, the optimized program, and the identity of plugin, host and devices.
 * *RET is the caller's reference to its LEN bytes; NULL: it is not ready.  The cache may have it,
 * else the plugin serializes it.
 * -EOPNOTSUPP, the plugin's refusal; -EINVAL: it was loaded, and is gone from the cache;
 * -ENOSPC: no room for the bytes.  Blocks.
 */
int pf_executable_serialize(struct pf_executable *executable, struct pf_account *account,
			    struct pf_bytes **ret, uint64_t *len, struct pf_err *err);

/* The size of that file in bytes, if it is known without a call of the plugin; else 0. */
uint64_t pf_executable_serialized_len(struct pf_executable *executable);

/* The optimized program, a HloModuleProto or MLIR, which the plugin writes to the worker's pool. */
struct pf_optimized {
	const void *bytes; /* borrowed: as long as this lives */
	uint64_t len;
	struct pf_instance *instance; /* owned reference; NULL: */
	struct pf_bytes *file;        /* owned reference: it lies there */
	uint64_t block;               /* the instance's to free */
};

void pf_optimized_free(struct pf_optimized *optimized); /* NULL is allowed */

/* Its size in bytes, known since the compile; 0: nothing is compiled.  *MLIR, not HLO. */
uint64_t pf_executable_optimized_len(struct pf_executable *executable, bool *mlir);

/*
 * Have the plugin write the optimized program, as MLIR or HLO, for USER: 0 and *RET, which is NULL if nothing is
 * compiled; a program that is being compiled for the first time counts as not compiled.
 * If the plugin's process died since the compile, the program is loaded again first, as
 * pf_executable_load does.
 * -EOPNOTSUPP: the plugin gives the other of both, as the sentence says, or none.
 * -ETIMEDOUT: the process does not answer within a second and the time that writing
 * takes; the plugin's refusal; -EIO: it died; -ENOMEM.  Blocks.
 */
int pf_executable_optimized(struct pf_executable *executable, uid_t user, bool mlir,
			    struct pf_optimized **ret, struct pf_err *err);

#endif
