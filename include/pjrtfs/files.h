/* SPDX-License-Identifier: Apache-2.0 */
/* The file system under the mount point, made of the store's objects. */
#ifndef PJRTFS_FILES_H
#define PJRTFS_FILES_H

#include "pjrtfs/engine.h"
#include "pjrtfs/executable.h"
#include "pjrtfs/kind.h"
#include "pjrtfs/telemetry.h"

struct pf_fs;
struct pf_library;
struct pf_library_spec;
struct pf_restore;

/* A plugin that could not be started. */
struct pf_failed_plugin {
	const char *name, *path;
	const char *options;   /* its create options, JSON */
	struct pf_buf printed; /* owned: what it printed */
	struct pf_err why;
};

/* The daemon's functions for plugins/ and ffi/.  They are called on any thread; those that may block say
 * so. */
struct pf_plugin_ops {
	void *arg;
	/* Append a JSON object with the plugins that were found.  Blocks. */
	int (*available)(void *arg, struct pf_buf *out, struct pf_err *err);

	/*
	 * Read the FFI library SPEC, see whether its plugins load it (pf_inspect_library), and add
	 * it: *RET, borrowed, which later instances load.  -EEXIST: the mount has it; -ENODEV: its
	 * plugin does not run; as pf_library_read, pf_inspect_library.  Blocks, for minutes perhaps.
	 */
	int (*add_library)(void *arg, const struct pf_library_spec *spec,
			   const struct pf_library **ret, struct pf_err *err);

	/* The following change the mount's plugins, if CAN_CHANGE. */
	bool can_change;
	/* May a plugin have NAME?  0; -EINVAL. */
	int (*check_name)(const char *name, struct pf_err *err);
	/*
	 * Start the plugin NAME of WORD, a path or the name of a plugin that is found, with the
	 * create OPTIONS (NULL: the mount's), to see whether it does: 0, its file in *RET_PATH and
	 * its description in *RET, the caller's.  Blocks, for minutes perhaps.
	 */
	int (*try)(void *arg, const char *name, const char *word,
		   struct json_object *options, char **ret_path, struct json_object **ret,
		   struct pf_err *err);
	/* From the next restart on NAME has OPTIONS and, unless PATH is NULL, is another plugin.
	 * -ENOSPC: there are too many. */
	int (*note)(const char *name, const char *path, struct json_object *options,
		    struct pf_err *err);
	/* Was NAME noted with a path?  From now on it is not. */
	bool (*is_added)(const char *name);
	void (*forget)(const char *name);
	/* Have another daemon take over, and answer REPLY (taken; or NULL) with success when this one
	 * reads no more requests.  Does not block. */
	void (*restart)(void *arg, struct pf_reply *reply);
};

/* The parts of a file system, which outlive it. */
/* Processes that have served this mount and died; planned restarts do not count. */
struct pf_deaths {
	unsigned n;
	int64_t last;  /* when the last one died: time(2) */
	char how[64];  /* "signal 11 (Segmentation fault)" */
	char at[1024]; /* what it answered then: "create programs/a.mlir", cut; or "" */
};

struct pf_fs_config {
	struct pf_arena *arena;
	struct pf_worker **workers; /* n_workers of them; the first is the default */
	unsigned n_workers;
	struct pf_libraries *libraries;        /* of the workers, for ffi/; NULL: none */
	const struct pf_failed_plugin *failed; /* n_failed of them; other names */
	unsigned n_failed;
	const struct pf_plugin_ops *plugins; /* NULL: plugins/ has no available.json */
	struct pf_compiler *compiler;
	struct pf_cache *cache; /* NULL: no cache, and no /cache */
	struct pf_telemetry *telemetry;
	/* Maxima of users, as pf_quotas_new takes them, copied; or NULL. */
	const char *const *quotas;
	struct pf_deaths deaths;
	const char *state_dir;  /* programs and buffers are kept there; NULL: nowhere */
	const char *mountpoint; /* absolute; for /README; NULL: not known */
	bool allow_native;      /* all users may load compiled programs */
	/* Each user but UID has an arena and workers of their own. */
	bool isolate;
	/* Milliseconds after which an execution of another user for which no process waits
	 * ends, with its worker; 0: never. */
	uint64_t abandoned_ms;
	/* Flags of XLA that all users may set, beside those known to be harmless: names,
	 * NULL-terminated; or NULL. */
	const char *const *flags_for_all;
	uid_t uid; /* the owner of files that no user made */
	gid_t gid;
	/* Permission bits and group of the directories in which users make files. */
	mode_t shared_mode;
	gid_t shared_gid;
};

/*
 * Make the tree: plugins, devices, programs, executables, buffers, control.
 * ret   on success, the caller's; pf_fs_free.  -ENOMEM; -ENODEV: no worker has a device.
 */
int pf_fs_new(const struct pf_fs_config *config, struct pf_fs **ret, struct pf_err *err);

/*
 * In a restarted daemon: make the nodes that users had made in earlier lives, with STORE's buffers
 * and executables, and begin to compile the programs.  Call it once, after pf_fs_new, before the
 * tree is served.  -EPROTO: the journal is damaged; -ENOMEM: FS is to be freed.
 */
int pf_fs_restore(struct pf_fs *fs, struct pf_restore *store, struct pf_err *err);

/* The process before has died: events and the log say so, and at which requests (pf_state_left), whose
 * opcodes OPERATION names.  Call it once, before the tree is served. */
void pf_fs_report_death(struct pf_fs *fs, const char *(*operation)(uint32_t opcode));

/* Open config.state_dir, if there is one: make nodes of what is there and not in the tree, and keep
 * changes from now on.  Call it once, before the tree is served.  -errno: it cannot be used. */
int pf_fs_keep(struct pf_fs *fs, struct pf_err *err);

/* No request comes any more: write what is not in the state directory yet, for at most MS
 * milliseconds or so.  Blocks.  NULL is allowed. */
void pf_fs_finish(struct pf_fs *fs, uint64_t ms);

/* Stop the workers that users of FS have of their own; calls under way fail.  Blocks.  NULL is
 * allowed. */
void pf_fs_stop(struct pf_fs *fs);

/*
 * Copy the arrays that only a device of WORKER (NULL: any) has to host memory, where they outlive
 * it and the daemon: within SECONDS and the memory limit.  Returns how many were left out.  Blocks;
 * requests are served meanwhile.
 */
unsigned pf_fs_fetch(struct pf_fs *fs, const struct pf_worker *worker, unsigned seconds);

/* Free FS.  No request may be under way; the workers still live.  NULL is allowed. */
void pf_fs_free(struct pf_fs *fs);

/* Its tree, borrowed: for a front end. */
struct pf_tree *pf_fs_tree(struct pf_fs *fs);

/* Does a thread change a plugin or add a library (struct pf_plugin_ops)?  It may take long, and uses the file system. */
bool pf_fs_is_changing(void);

#endif
