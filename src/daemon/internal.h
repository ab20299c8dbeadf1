/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the daemon.  Each file calls only those before it: memory_limit, settings, group, options,
 * config, cmdline, plugin_choice, plugins, libraries, status, answer; descriptors, manager, holder; command;
 * main.
 */
#ifndef PJRTFS_DAEMON_INTERNAL_H
#define PJRTFS_DAEMON_INTERNAL_H

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "pjrtfs/base.h"
#include "pjrtfs/discover.h"
#include "pjrtfs/engine.h"
#include "pjrtfs/library.h"

/* --- settings.c: the settings of plugins, and the default compile options ------------------ */

enum {
	MAX_PLUGINS = 16,        /* that are loaded */
	MAX_SETTINGS = 64,       /* plugins with settings */
	MAX_VARIABLES = 256,     /* of a plugin's environment */
	MAX_VARIABLE = 64 << 10, /* bytes of one */
	MAX_LOG_LEVEL = 4,
};
#define NO_LOG_LEVEL UINT_MAX /* none is set */
#define SETTINGS_COUNT "cpu_device_count"

/* Exit statuses; --run has some more (command.c). */
enum {
	EXIT_OK,
	EXIT_FAILED,
	EXIT_USAGE,      /* of options, plugins or a mount point that cannot be used */
	EXIT_AGAIN = 75, /* of a daemon that its holder is to start again */
	EXIT_NOT_MOUNTED = 125, /* with --run: the command has not started */
};

/* -ENOMEM. */
static inline int no_memory(struct pf_err *err)
{
	return pf_err_set(err, -ENOMEM, "no memory for the options");
}

/*
 * Where a setting comes from: a later source overrides an earlier one.  Where "all plugins" and one plugin
 * compete, a value has the source beside it (the fields ..._at); lists whose order counts have a place for each
 * source (plugin_dirs, ffi_libraries of struct options); all others are simply replaced (REPLACES, own_plugins).
 */
enum settings_source { FROM_SYSTEM_FILE = 1, FROM_USER_FILE, FROM_COMMAND_LINE };

/* The settings of one plugin, or of all of them. */
struct plugin_settings {
	char *name;                  /* owned; NULL: all plugins' */
	char *path;                  /* owned; NULL: discovery finds it */
	struct json_object *options; /* owned: create options by name */
	struct json_object *env;     /* owned: variables, to a string or null */
	struct json_object *sandbox; /* owned: as in struct pf_worker_config */
	unsigned log_level;
	bool compile_only; /* its client is not created */
	/* The last source of any setting; of cpu_device_count, log_level, the sandbox's mode. */
	enum settings_source set_at, count_at, log_at, sandbox_at;
};

struct settings {
	enum settings_source source; /* the current one */
	unsigned devices;            /* of the default plugin; 0: not set */
	enum settings_source devices_at;
	struct plugin_settings all; /* log_level and sandbox of all plugins */
	struct plugin_settings plugins[MAX_SETTINGS];
	unsigned n_plugins;
	struct json_object *compile_options; /* owned, or NULL */
};

/* A plugin to load; the strings and objects are owned by the holder of the struct. */
struct pf_candidate {
	char *name;
	char *path;
	struct json_object *options; /* create options, or NULL */
	struct json_object *env;     /* as in struct pf_worker_config, or NULL */
	struct json_object *sandbox; /* likewise */
	struct json_object *group;   /* likewise: group_settle's */
	bool compile_only;           /* no client is created */
	char *refused;               /* why it cannot be loaded: no such file; or NULL */
	char *note; /* what its vendor's plugins need and pjrtfs set, or NULL */
	char *found; /* the plugin's name, where NAME is that of a kind ("cuda"); or NULL */
};

struct options;

/* Nothing is set.  Release frees it; more than once is allowed. */
void settings_init(struct settings *s);
void settings_release(struct settings *s);

/* Free what P owns. */
void candidate_release(struct pf_candidate *p);

/* The plugin NAME of those that O loads, borrowed, or NULL. */
struct pf_candidate *candidate_find(const struct options *o, const char *name);

/* The settings of plugin NAME, or NULL; borrowed. */
const struct plugin_settings *settings_find(const struct settings *s, const char *name);

/* The same in *RET, to change them: they are made if there are none.  -EINVAL: no plugin may have
 * this NAME, or MAX_SETTINGS plugins have settings; -ENOMEM. */
int settings_of(struct settings *s, const char *name, struct plugin_settings **ret,
		struct pf_err *err);

/* Set the create option KEY of P, or the variable KEY (VALUE: a string, or NULL to remove it from
 * the environment).  VALUE is borrowed.  -EINVAL: it is not valid, and nothing is set; -ENOMEM. */
int settings_option(struct settings *s, struct plugin_settings *p, const char *key,
		    struct json_object *value, struct pf_err *err);
int settings_variable(struct plugin_settings *p, const char *key,
		      struct json_object *value, struct pf_err *err);

/* Set KEY of P's sandbox to TEXT: sandbox to strict, device or off; sandbox_uid to a user's
 * number.  For sandbox_read and sandbox_write TEXT is an absolute path, which is added.
 * -EINVAL. */
int settings_sandbox(struct settings *s, struct plugin_settings *p, const char *key,
		     const char *text, struct pf_err *err);

/* Set the default compile option KEY, or with FLAG the flag KEY of env_option_overrides.  VALUE is
 * borrowed.  -EINVAL, -ENOMEM. */
int settings_compile_option(struct settings *s, bool flag, const char *key,
			    struct json_object *value, struct pf_err *err);

/* Take XLA's flags in BYTES, a file's, as defaults that the other default compile options precede.
 * -EINVAL, -ENOMEM. */
int settings_debug_options(struct settings *s, const struct pf_buf *bytes,
			   struct pf_err *err);

/* Can the default compile options be used together?  0; -EINVAL. */
int settings_check_compile_options(const struct settings *s, struct pf_err *err);

/* Give C, whose name is set, its settings; the default plugin has --devices.  -ENOMEM. */
int settings_attach(const struct settings *s, struct pf_candidate *c, bool is_default,
		    struct pf_err *err);

/* The user gives C, which has its settings, other create options.  -ENOMEM. */
int settings_replace_options(struct pf_candidate *c, struct json_object *options,
			     struct pf_err *err);

/* --- vendors.c ----------------------------------------------------------------------------- */

/* Set what plugins of C's vendor need and the user has not set: variables, create options, the
 * sandbox's mode; C's note says so.  -ENOMEM. */
int vendors_set(struct pf_candidate *c, struct pf_err *err);

/* Add the files of its vendor's drivers to C's sandbox; of an unknown vendor those of all. */
void vendors_add_files(struct pf_candidate *c);

/* --- memory_limit.c ------------------------------------------------------------------------ */

/* The tightest memory limit of this process's control group and of those above it, in bytes, as
 * far as they are mounted: memory.max of cgroup v2, memory.limit_in_bytes of v1.  UINT64_MAX: no
 * limit.  ROOT precedes /proc and the mount points: "" except in tests. */
uint64_t memory_limit_cgroup(const char *root);

/* Bytes of RAM. */
uint64_t memory_limit_ram(void);

/* 80 % of RAM or of the control group's limit, whichever is less. */
uint64_t memory_limit_default(void);

/* --- options.c: every option, one row each ------------------------------------------------- */

/* A list of words; all zeros is empty. */
struct words {
	char **at; /* owned strings, NULL-terminated; NULL if there has been none */
	unsigned n;
};

struct options {
	bool foreground, debug, help, version, dump_config;
	enum pf_log_format log_format;
	bool list_plugins, check, json;
	char *check_plugin;          /* owned: --check-plugin's, or NULL */
	char *status;                /* owned: --status's, or NULL */
	char *estimate;              /* owned: --estimate's topology, or NULL */
	char *program;               /* owned: --estimate's PROGRAM, or NULL */
	unsigned timeout_s;          /* for one plugin, with these; 0: the default */
	char *config;                /* owned: --config's, or NULL */
	char *source;                /* owned: SOURCE, or NULL */
	char *mountpoint;            /* owned: MOUNTPOINT; NULL: none is needed */
	char **run;                  /* borrowed: --run's words; NULL: none */
	struct words fuse;           /* words of -o for FUSE */
	struct words plugin_words;   /* NAME, PATH or NAME=PATH */
	bool own_plugins;            /* these are of the command line */
	struct words plugin_dirs[2]; /* of the configuration; of the command line */
	mode_t mode;    /* of directories in which users create names; 0: not set */
	bool has_group; /* group is their group */
	gid_t group;
	/* The group of a plugin's processes; the strings are owned, or NULL. */
	char *group_url;    /* redis[s]://HOST[:PORT], without a password */
	char *group_secret; /* a path */
	char *group_ca, *group_cert, *group_key; /* paths, for TLS */
	char *group_password;                    /* [USER:]PASSWORD, of the environment */
	char *group_name, *group_process, *group_plugin;
	unsigned group_timeout_s, group_lost_s;
	uint64_t memory_limit; /* bytes */
	bool allow_native;     /* every user may load compiled programs */
	bool keep, no_keep;    /* neither: in the background */
	bool cache_readonly, no_cache;
	char *xla_debug_options; /* owned; NULL: $XLA_DEBUG_OPTIONS */
	char *cache_dir;         /* owned; NULL: the default */
	char *state_dir;         /* owned; NULL: none */
	char *log_file;          /* owned; NULL: not set */
	uint64_t cache_size;
	unsigned compile_jobs;       /* 0: one for each processor */
	unsigned compile_timeout_s;  /* 0: none */
	unsigned execute_timeout_s;  /* 0: none */
	unsigned transfer_timeout_s; /* 0: none */
	unsigned start_timeout_s;    /* of a plugin */
	unsigned worker_timeout_s;   /* 0: none */
	unsigned abandoned_s;        /* 0: never */
	unsigned isolate;            /* 1: each user has workers of their own, */
	unsigned isolate_idle_s;     /* which end after so long without work; */
	unsigned isolate_max;        /* so many users have a process at a time */
	struct words flags_for_all;
	struct words quotas; /* as quota_word.h has them */
	/* Owned lists, or NULL, by their source: as "ffi_libraries" of the configuration. */
	struct json_object *ffi_libraries[FROM_COMMAND_LINE + 1];
	bool no_lapack;
	struct settings settings;

	/* plugin_choice's */
	struct pf_candidate plugins[MAX_PLUGINS]; /* to load; absolute paths */
	unsigned n_plugins;
};

enum option_type {
	OPTION_FLAG,   /* true or false; on the command line without an argument */
	OPTION_NUMBER, /* an integer */
	OPTION_SIZE,   /* an integer or a string, as "4G" */
	OPTION_CHOICE, /* one of some strings */
	OPTION_TEXT,   /* a string or an integer */
	OPTION_WORD,   /* a string */
	OPTION_PATH,   /* a string; in a configuration an absolute path */
	/* objects of the configuration */
	OPTION_PLUGINS,
	OPTION_COMPILE_OPTIONS,
	OPTION_DEBUG_OPTIONS,
	OPTION_FFI_LIBRARIES,
};

enum {
	IN_COMMAND_LINE = 1, /* --NAME, with hyphens */
	IN_MOUNT = 2,        /* a word of -o */
	IN_CONFIG = 4,       /* a key of the configuration */
	EVERYWHERE = 7,
	IS_LIST = 8,          /* may be repeated; a list in the configuration */
	REPLACES = 16,        /* a later configuration file replaces the words at OFF */
	IS_EARLY = 32,        /* is read before the configuration */
	IS_LAST = 64,         /* all words from its argument on are its own */
	IN_ENVIRONMENT = 128, /* PJRTFS_NAME, if it is nowhere else */
	OF_PLUGIN = 256,      /* in a configuration also a key of a plugin */
};

/* An option. */
struct option_row {
	const char *name; /* with underscores */
	char letter;      /* on the command line, or 0 */
	enum option_type type;
	unsigned where;
	const char *argument, *help; /* for --help */
	/* The field of struct options: of a flag a bool, of a number or choice an unsigned, of a size
	 * a uint64_t, of a text, word or path an owned string, with REPLACES a struct words. */
	size_t off;
	unsigned min, max,
		usual;     /* of a number; of a size: its minimum, max is refused */
	size_t source_off; /* of a number: a field that gets its source; 0: none */
	/* Of a choice, NULL-terminated: the first one, which may be "", is the default. */
	const char *const *words;
	/* Set the option to TEXT; NULL: store it at OFF.  -EINVAL, -ENOMEM. */
	int (*set)(struct options *o, const struct option_row *row, const char *text,
		   struct pf_err *err);
	/* Add it to the object OUT; NULL: what is at OFF. */
	void (*dump)(const struct options *o, const struct option_row *row,
		     struct json_object *out);
};

/* Every option, in the order of pjrtfs(1), --help, and a configuration that is taken or printed: a
 * more special option follows.  A row without a name ends the table. */
extern const struct option_row option_rows[];
enum { OPTION_ROWS = 80 }; /* as many as there may be */

/* The defaults.  Release frees them; more than once is allowed. */
void options_init(struct options *o);
void options_release(struct options *o);

/* The row of NAME (LEN bytes; hyphens count as underscores) among those in WHERE, or NULL. */
const struct option_row *options_find(const char *name, size_t len, unsigned where);

enum { OPTION_NAME = 32 };

/* Print which option of WHERE, or with IN_MOUNT of FUSE, WORD or WORD=VALUE may have meant to HINT, as
 * pf_similar_hint does; "" if WORD is one.  Returns HINT. */
const char *options_similar(const char *word, unsigned where, char hint[PF_SIMILAR_TEXT]);

/* The name of ROW with C for each underscore, in DST, which is returned. */
const char *options_spell(const struct option_row *row, char c, char dst[OPTION_NAME]);

/* Set the option of ROW to TEXT (a flag: "true", "false" or NULL for true).  -EINVAL, -ENOMEM. */
int options_set(struct options *o, const struct option_row *row, const char *text,
		struct pf_err *err);

/* Set the options that are IN_ENVIRONMENT, and that O does not have, to what it says: PJRTFS_GROUP,
 * PJRTFS_GROUP_NAME, ...  -EINVAL, -ENOMEM. */
int options_inherit(struct options *o, struct pf_err *err);

/* Add WORD to W: -EINVAL: "more than MAX WHAT"; -ENOMEM. */
int words_add(struct words *w, const char *word, unsigned max, const char *what,
	      struct pf_err *err);
bool words_has(const struct words *w, const char *word);
void words_remove(struct words *w, const char *word); /* each that is WORD */
void words_clear(struct words *w);

/* The '=' of WORD if it is NAME=PATH (a path may hold one, too), or NULL. */
const char *options_name_end(const char *word);

/* The name of the plugin WORD: NAME, PATH or NAME=PATH.  The caller's; NULL: no memory. */
char *options_plugin_name(const char *word);

/* The options as a configuration, the caller's; NULL: no memory. */
struct json_object *options_dump(const struct options *o);

/* The text of those that differ from the defaults, on one line, the caller's; NULL: no memory. */
char *options_changes(const struct options *o);

/* Append the text of --help. */
void options_help(struct pf_buf *out);

/* NAME in the directory that $VARIABLE names or, if that is not absolute, in DIR of the user's
 * home; the caller's.  NULL: no memory, or no home. */
char *options_user_path(const char *variable, const char *dir, const char *name);

/* The file that a mount in the background logs to, the caller's: --log-file, else, without a socket of
 * syslog, pjrtfs/MOUNTPOINT.log in $XDG_STATE_HOME (~/.local/state), with a dash for each slash.  NULL: to syslog; no
 * memory. */
char *options_log_file(const struct options *o);

/* The directory of the cache, the caller's: --cache-dir, else $PJRTFS_CACHE_DIR, else pjrtfs in
 * $XDG_CACHE_HOME (~/.cache).  NULL: no memory, or no home. */
char *options_cache_dir(const struct options *o);

/* --- FFI libraries: settings.c takes and lists them, libraries.c opens them -------------------- */

/*
 * Add LIBRARY to O's: {"path", "plugin", "targets", "sha256", "platform", "traits"}, all but the path
 * optional; or that of WORD, [PLUGIN:]PATH[:TARGET=SYMBOL,...].  Those of a later source precede others.  -EINVAL;
 * -ENOMEM.
 */
int libraries_take(struct options *o, struct json_object *library, struct pf_err *err);
int libraries_take_word(struct options *o, const char *word, struct pf_err *err);

/* O's, the first one's handlers first.  The caller's; NULL or incomplete: no memory. */
struct json_object *libraries_list(const struct options *o);

/* Read all of them, those that plugins bring, those that the journal has, and LAPACK unless O says otherwise, in *RET, the caller's, also after an error:
 * as pf_libraries_add; -EINVAL: one is for a plugin that is not loaded. */
int libraries_open(const struct options *o, struct pf_libraries **ret,
		   struct pf_err *err);

struct pf_fs_config;

/* What the functions of struct pf_plugin_ops, here and in plugins.c, have as ARG; borrowed. */
struct served {
	const struct options *options;
	const struct pf_fs_config *fs; /* its workers and libraries */
};

/* add_library of struct pf_plugin_ops: a restarted daemon has the library, too. */
int libraries_register(void *arg, const struct pf_library_spec *spec,
		       const struct pf_library **ret, struct pf_err *err);

/* Log which libraries and handlers WORKER, which has started, cannot use. */
void libraries_report(struct pf_worker *worker);

/* --- group.c: the processes, on several machines, that make one client ------------------------ */

/* Take URL, redis[s]://HOST[:PORT], as O's store.  -EINVAL: another scheme, a password. */
int group_take_url(struct options *o, const char *url, struct pf_err *err);

/* Take PJRTFS_GROUP_PASSWORD out of the environment, which workers and --run's command inherit, into O.
 * -ENOMEM. */
int group_take_password(struct options *o, struct pf_err *err);

/*
 * Read what of the group O does not say from the launcher's environment (Slurm, Open MPI, Kubernetes),
 * read the secret, and give the plugin of the group, which
 * plugin_choice has chosen, its group and create options.  Nothing without a store.  -EINVAL: parts are missing or wrong; -EPERM: others can read the secret;
 * -errno.
 */
int group_settle(struct options *o, struct pf_err *err);

/* --- config.c: configuration files --------------------------------------------------------- */

enum { PF_CONFIG_MAX = 1 << 20 }; /* bytes of a file */

/* Read the file of XLA's flags that O or XLA_DEBUG_OPTIONS names, if one does, as defaults of O.
 * -EINVAL, -E2BIG, -errno; blocks. */
int config_read_debug_options(struct options *o, struct pf_err *err);

/*
 * Read the configuration into O: FILE alone, which must exist; or if that is NULL
 * /etc/pjrtfs.json and then pjrtfs.json in $XDG_CONFIG_HOME (~/.config), if they exist and the
 * user may read them.  0; -errno with a sentence that names file, line and column: why it cannot
 * be read, -EPERM other users may change it, -EINVAL what is wrong in it.
 */
int config_read(struct options *o, const char *file, struct pf_err *err);

/* Take the configuration TEXT (LEN bytes) of FILE, which errors name.  -EINVAL, -ENOMEM. */
int config_take(struct options *o, const char *file, const char *text, size_t len,
		struct pf_err *err);

/*
 * Read the FFI libraries that FILE, of an absolute path, lists: an object with "ffi_libraries" as in the configuration, but paths
 * may be relative to FILE's.  *RET, the caller's, also after an error: the list, or NULL.  They are for PLUGIN, if that is not NULL.  As config_read.
 */
int config_read_libraries(const char *file, const char *plugin, struct json_object **ret,
			  struct pf_err *err);

/* --- cmdline.c ----------------------------------------------------------------------------- */

/*
 * Read the command line, after the configuration.  With help or version set nothing else is
 * checked.  -errno: what config_read fails with; -EINVAL.
 */
int cmdline_parse(int argc, char **argv, struct options *ret, struct pf_err *err);

/* Make O's mount point absolute, without symbolic links; /dev/fd/N stays.  -errno: it does not
 * exist. */
int cmdline_find_mountpoint(struct options *o, struct pf_err *err);

/* --- plugin_choice.c: from words to plugins' files ------------------------------------------ */

/* The API version 0.MINOR of the plugin at PATH, or -1: it is not known. */
typedef int plugin_minor_of(void *arg, const char *path);

/*
 * Find the plugins of O: those of SOURCE and --plugin, else the configuration's, else
 * cpu; with --check-plugin only that one; with --estimate, in place of cpu, all that there are.
 * They become O's plugins with their settings.
 * A plugin whose file does not exist is refused.  MINOR_OF is called if a place has
 * several of one name.  0; -EINVAL: a wrong name, settings of a plugin that is not
 * chosen; -ENOENT: no plugin exists, and the sentence says where pjrtfs looked; -ENOMEM.
 */
int plugin_choice(struct options *o, plugin_minor_of *minor_of, struct pf_err *err);

/* Log which of the directories of O's options cannot be searched: no error, if its plugins are elsewhere. */
void plugin_choice_warn(const struct options *o);

/* Find every plugin there is; *RET is the caller's.  0 or -errno. */
int plugin_choice_list(const struct options *o, struct pf_discovery **ret,
		       struct pf_err *err);

/* The configuration of the worker of P, in *RET; it borrows from P.  -EINVAL: P is refused. */
int plugin_choice_config(const struct pf_candidate *p, struct pf_worker_config *ret,
			 struct pf_err *err);

/* How long CONFIG's plugin may take to start: in a mount, by O's --start-timeout; where nothing is mounted, the
 * S seconds of --timeout (0: 60). */
void plugin_choice_start_timeout(struct pf_worker_config *config,
				 const struct options *o);
void plugin_choice_timeout(struct pf_worker_config *config, unsigned s);

/* Find the file of the plugin called NAME, where O's plugins are looked for: *RET, the caller's.
 * -ENOENT: the sentence says where. */
int plugin_choice_find(const struct options *o, const char *name, char **ret,
		       struct pf_err *err);

/* --- plugins.c: plugins that change at run time ------------------------------------------- */

/* A trial is over: if the mount ends meanwhile, the process ends with this call. */
void plugins_tried(void);

/* Give O's plugins what the journal has noted of them, and add its own.  -ENOMEM, -EPROTO. */
int plugins_restore(struct options *o, struct pf_err *err);

/* Plugin NAME has a client in this mount: no later process may do without, unless the plugin is removed. */
void plugins_note_client(const char *name);
bool plugins_had_client(const char *name);

/* CONFIG's plugin may not do without a client if it had one. */
void plugins_require_client(struct pf_worker_config *config);

/* Functions of struct pf_plugin_ops. */
bool plugins_is_added(const char *name);
int plugins_note(const char *name, const char *path, struct json_object *options,
		 struct pf_err *err);
void plugins_forget(const char *name);
int plugins_try(void *arg, const char *name, const char *word,
		struct json_object *options, char **ret_path, struct json_object **ret,
		struct pf_err *err);
int plugins_available(void *arg, struct pf_buf *out, struct pf_err *err);

/* The mount ends: a plugin that is being tried is given up. */
void plugins_stop(void);

/* Free what was noted. */
void plugins_end(void);

/* --- descriptors.c: the file descriptor store ----------------------------------------------- */

/* The holder has each twice while it starts a daemon, and 1024 descriptors in all by default. */
enum {
	MAX_DESCRIPTORS = 480,
	MAX_POOLS = 200, /* 256 users may have arenas */
	DESCRIPTOR_NAME = 64
};

/*
 * Read the environment ($NOTIFY_SOCKET, $LISTEN_FDS, $LISTEN_PID, $LISTEN_FDNAMES) and remove it,
 * so that workers do not get it.  False: no process holds descriptors for this one.
 */
bool descriptors_begin(void);

/* The descriptor NAME that this process was started with, the caller's; -1: none has this name. */
int descriptors_take(const char *name);

/* Those that are left, borrowed, in RET; their number.  Close them. */
unsigned descriptors_list(struct pf_kept ret[MAX_DESCRIPTORS]);
void descriptors_close(void);

/* Have the holder keep FD, which stays the caller's, as NAME; or drop NAME.  Does not wait. */
void descriptors_store(const char *name, int fd);
void descriptors_remove(const char *name);

/* Wait until the holder has read all messages, at most 5 s. */
void descriptors_wait(void);

/* Drop all that this process was started with.  Waits for the holder, at most 5 s. */
void descriptors_forget(void);

/* The mount is served: wait until the holder has all descriptors, and notify it. */
void descriptors_ready(void);

/* Send TEXT, lines of sd_notify(3), to the holder or the service manager.  Does not wait. */
void descriptors_notify(const char *text);

/* The time after which the manager takes this process for hanging unless it sends WATCHDOG=1
 * ($WATCHDOG_USEC), in milliseconds; 0: never. */
unsigned descriptors_watchdog_ms(void);

/* --- manager.c: reports to a service manager -------------------------------------------------- */

/* All is borrowed until manager_end. */
struct manager_config {
	const char *mountpoint;
	struct pf_worker *const *workers;
	unsigned n_workers;
	const struct pf_failed_plugin *failed;
	unsigned n_failed;
	/* STATUS= and WATCHDOG=1, too.  Else this is a background process, which only sends READY=1
	 * and then makes a session of its own. */
	bool reports;
};

/*
 * Start a thread that sends READY=1 once FUSE has answered a request, then STATUS= with the plugins
 * and their devices whenever that changes, and WATCHDOG=1 as often as the manager wants and as long as
 * FUSE answers requests.  -EAGAIN.
 */
int manager_start(const struct manager_config *config, struct pf_err *err);

/* End it, if it was started.  The mount must have ended, or the thread may wait for an answer. */
void manager_end(void);

/* --- holder.c ------------------------------------------------------------------------------- */

#define HELD "PJRTFS_HELD" /* in the environment of a daemon that holder.c started */

/* The same: "COUNT SECONDS NEW HOW" of daemons that have died: how many, when the last one did (time(2)),
 * whether the present one takes its place (1, or 0), and how it died. */
#define DIED "PJRTFS_DIED"

/*
 * Start the program ARGV as the daemon of MOUNTPOINT, hold its descriptors, and start it again
 * until it ends by itself.  OUTER: descriptors_begin has found a service manager that holds the
 * descriptors, too; after SIGUSR2 it starts the next holder.  TOLD, if it is not -1, gets a byte when
 * the mount is first served, and this process leaves its terminal then.  Returns the exit status.
 */
int holder_run(char *const *argv, const char *mountpoint, bool outer, int told, int log);

/* Close the terminal; later messages are sent to syslog. */
void holder_leave_terminal(int log);

/* --- status.c: --status --------------------------------------------------------------------- */

/* Print how the mount MOUNTPOINT is, as text or as a line of JSON; reads its files for TIMEOUT_S seconds at
 * most (0: 5).  The exit status: 0 it is healthy, 1 its file health says otherwise, 2 it is not a mount, or
 * does not answer. */
int status_show(const char *mountpoint, unsigned timeout_s, bool json);

/* --- command.c ------------------------------------------------------------------------------ */

/*
 * Start --run's command of O, which waits, and the daemon that mounts for it, and wait for both.  Makes
 * O's mount point; the other processes are in a mount namespace of their own.  Call this before any
 * thread starts.  False in the daemon, which writes a byte to *READY, its own, when it has mounted,
 * ends at SIGRTMIN, ignores other signals, and calls command_end; else true, with the exit status in
 * *STATUS.  Blocks until both have ended.
 */
bool command_run(struct options *o, int *ready, int *status);

/* In the daemon: no plugin is left.  The command gets SIGTERM, later SIGKILL, and the exit status is
 * 124; the mount stays until the command has ended. */
void command_fail(void);

/* The daemon has unmounted. */
void command_end(void);

/* --- estimate.c ----------------------------------------------------------------------------- */

/*
 * Compile O's program for the topology that --estimate names, on the first of O's plugins that makes it:
 * *RET, the caller's, is as estimate.json, with "topology" and "program", what O says.  Leaves neither a process nor
 * a file behind.  Errors: the plugin's, whose name the sentence has; if there are several that make no
 * such topology, what all but the last one say is logged; EINVAL: no program; -errno: its file cannot be
 * read.  Blocks.
 */
int estimate_make(const struct options *o, struct json_object **ret, struct pf_err *err);

/* Append the lines that show ESTIMATE, which estimate_make made. */
void estimate_print(struct json_object *estimate, struct pf_buf *out);

/* --- answer.c ------------------------------------------------------------------------------- */

/*
 * Answer the options that mount nothing on standard output.  The exit status.
 * --list-plugins and --check-plugin block, at most O's timeout for each plugin; --estimate blocks.
 */
int answer(const struct options *o);

/* A plugin_minor_of that loads the plugin.  ARG is not used. */
int answer_minor(void *arg, const char *path);

#endif
