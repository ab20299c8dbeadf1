/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_DAEMON_INTERNAL_H
#define PJRTFS_DAEMON_INTERNAL_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "pjrtfs/base.h"
#include "pjrtfs/discover.h"
#include "pjrtfs/plugin_options.h"

/* The text of a configuration file: a JSON object; errors name its file, line and column. */

enum { PF_CONFIG_MAX = 1 << 20 }; /* bytes of a text */

/* A text and what it says. */
struct pf_config_text {
	const char *file; /* borrowed; for sentences */
	const char *text; /* borrowed; len bytes */
	size_t len;
	struct json_object *json; /* owned: an object */
};

/* A place in it: the key, or if that is NULL the item of number index, of what is at UP;
 * NULL is the whole. */
struct pf_config_at {
	const struct pf_config_at *up;
	const char *key;
	size_t index;
};

/*
 * Read T's text into T->json; blanks alone are an empty object.  -EINVAL: it is no JSON object
 * (RFC 8259), gives a key twice in an object, is not UTF-8 or longer than PF_CONFIG_MAX:
 * "FILE:LINE:COLUMN: what was expected, what was found"; columns are characters.  -ENOMEM.
 * Release in any case.
 */
int pf_config_text_parse(struct pf_config_text *t, struct pf_err *err);
void pf_config_text_release(struct pf_config_text *t);

/* Record CODE and "FILE:LINE:COLUMN: plugins[0].name: " before the text; AT's key, or item, is
 * in T.  Returns CODE. */
int pf_config_text_error(const struct pf_config_text *t, const struct pf_config_at *at,
			 struct pf_err *err, int code, const char *fmt, ...)
	__attribute__((__format__(__printf__, 5, 6)));

/* That AT should be WANT, and is FOUND (borrowed; NULL: null).  Returns -EINVAL. */
int pf_config_text_refuse(const struct pf_config_text *t, const struct pf_config_at *at,
			  const char *want, struct json_object *found,
			  struct pf_err *err);

/* What the command line says of the cache and of compiles. */

struct cache_options {
	char *dir; /* owned: --cache-dir; NULL: the default */
	uint64_t size;
	bool off;
	unsigned jobs;      /* 0: one for each processor */
	unsigned timeout_s; /* 0: none */
};

/*
 * Take NAME ("dir", "size", "off", "jobs", "timeout") with VALUE (NULL for off).  -EINVAL: a
 * value that is none.
 */
int cache_options_take(struct cache_options *o, const char *name, const char *value,
		       struct pf_err *err);

/*
 * The directory to use, the caller's: DIR, made absolute; else $PJRTFS_CACHE_DIR, else
 * pjrtfs in $XDG_CACHE_HOME, else .cache/pjrtfs in the user's home.  NULL: no memory, or no
 * home.
 */
char *cache_options_dir(const struct cache_options *o);

/* VALUE, a number from 1 to MAX, into *RET.  0; -EINVAL with a sentence about WHAT. */
int option_number(const char *what, const char *value, unsigned max, unsigned *ret,
		  struct pf_err *err);

/* How much host memory arrays may take. */

/* Bytes from TEXT, as in "4G" (K, M, G, T, with or without iB); -EINVAL below 1M. */
int memory_limit_parse(const char *text, uint64_t *ret, struct pf_err *err);

/*
 * The tightest memory limit of this process's control group and of those above it, in bytes,
 * as far as they are mounted: memory.max of cgroup v2, and memory.limit_in_bytes of v1.
 * UINT64_MAX: there is none.  ROOT stands before /proc and the mount points: "", but in tests.
 */
uint64_t memory_limit_cgroup(const char *root);

/* 80 % of RAM or of the control group's limit, whichever is less. */
uint64_t memory_limit_default(void);

/*
 * What the configuration and the command line say of plugins and compiles, before plugins are
 * looked for.  Both come in layers, and a later one overrides: each says first which it is.
 */

enum {
	MAX_PLUGINS = 16,
	MAX_DEFS = 64, /* plugins of which something is said */
	MAX_DEVICES = PF_OPTIONS_MAX_DEVICES,
	MAX_LOG_LEVEL = 4,
	MAX_ABANDONED = 7 * 24 * 3600, /* seconds */
	ABANDONED = 3600,              /* unless told otherwise */
	MAX_FLAGS = 256,               /* that all may set */
	MAX_VARIABLES = 256,           /* of a plugin's environment */
	MAX_VARIABLE = 65536,          /* bytes of one */
	LAYER_COMMAND_LINE = 100,      /* after every file */
};

/* A plugin that may be started; all is owned by whoever has the struct, unless said there. */
struct pf_candidate {
	char *name;
	char *path;
	struct json_object *options; /* create options, or NULL */
	struct json_object *env;     /* as in struct pf_worker_config, or NULL */
	struct json_object *sandbox; /* likewise */
	char *refused;               /* why it must not be started; NULL: it may be */
};

/* What is said of the plugin NAME. */
struct plugin_def {
	char *name;                  /* owned */
	char *path;                  /* owned; NULL: it is looked for */
	struct json_object *options; /* owned: create options by name */
	struct json_object *env;     /* owned: variables, to a string or null */
	struct json_object *sandbox; /* owned: settings of its sandbox, or NULL */
	unsigned sandbox_layer;      /* that set its mode */
	int log_level;               /* -1: none said */
	unsigned layer;              /* that spoke of it last */
	unsigned count_layer;        /* that spoke of cpu_device_count; 0: none */
	unsigned log_layer;          /* that set log_level */
	char *refused;     /* owned: why it cannot be started, for one of its options */
	char *refused_key; /* owned: which */
};

struct settings {
	unsigned layer; /* the one that is speaking: 1, 2, ..., LAYER_COMMAND_LINE */
	struct plugin_def defs[MAX_DEFS];
	unsigned n_defs;
	char *chosen
		[MAX_PLUGINS]; /* owned: "NAME" or "NAME=PATH", of the configuration */
	unsigned n_chosen;
	char *dirs[MAX_PLUGINS]; /* owned: the configuration's plugin_dir */
	unsigned n_dirs;
	unsigned devices, devices_layer; /* 0: not said */
	int log_level;                   /* of all plugins; -1: not said */
	unsigned log_layer;
	struct json_object *compile_options; /* owned, or NULL */
	struct json_object *sandbox;         /* owned: of all plugins, or NULL */
	unsigned sandbox_layer;
	unsigned abandoned_s;               /* 0: never */
	char *flags_for_all[MAX_FLAGS + 1]; /* owned; NULL-terminated */
	unsigned n_flags;
};

void settings_init(struct settings *s);
void settings_release(struct settings *s);

/* What is said of plugin NAME, made if it is the first time; borrowed.  NULL with *err set:
 * no name for a plugin, or too many. */
struct plugin_def *settings_def(struct settings *s, const char *name, struct pf_err *err);

/*
 * Give DEF the create option KEY (VALUE is borrowed), or the variable KEY (VALUE: a string, or
 * null for none).  -EINVAL: it cannot be, and nothing is set.
 */
int settings_option(struct settings *s, struct plugin_def *def, const char *key,
		    struct json_object *value, struct pf_err *err);
int settings_variable(struct settings *s, struct plugin_def *def, const char *key,
		      struct json_object *value, struct pf_err *err);

/* DEF cannot be started, for its option KEY and the reason WHY; until KEY is set to something
 * that can be. */
int settings_refuse(struct settings *s, struct plugin_def *def, const char *key,
		    const char *why);

/*
 * What is said of the sandbox of DEF's process, NULL: of all: KEY is sandbox (a VALUE of strict,
 * device or off), sandbox_read or sandbox_write (an absolute path, or a list of them, which are
 * added), or sandbox_uid (an integer).  -EINVAL.
 */
int settings_sandbox(struct settings *s, struct plugin_def *def, const char *key,
		     struct json_object *value, struct pf_err *err);

/*
 * The words of --plugin-option (NAME:KEY[:TYPE]=VALUE), --plugin-env (NAME:KEY=VALUE),
 * --devices, --plugin-log-level, --compile-option (KEY=VALUE), --flags-for-all (FLAG).  -EINVAL.
 */
int settings_take_option(struct settings *s, const char *word, struct pf_err *err);
int settings_take_env(struct settings *s, const char *word, struct pf_err *err);
int settings_take_abandoned(struct settings *s, const char *word, struct pf_err *err);
int settings_take_devices(struct settings *s, const char *word, struct pf_err *err);
int settings_take_log_level(struct settings *s, const char *word, struct pf_err *err);
int settings_take_compile_option(struct settings *s, const char *word,
				 struct pf_err *err);

/* The words of --sandbox, --sandbox-read, --sandbox-write and --sandbox-uid, each [NAME:]VALUE.
 * -EINVAL. */
int settings_take_sandbox(struct settings *s, const char *word, struct pf_err *err);
int settings_take_sandbox_read(struct settings *s, const char *word, struct pf_err *err);
int settings_take_sandbox_write(struct settings *s, const char *word, struct pf_err *err);
int settings_take_sandbox_uid(struct settings *s, const char *word, struct pf_err *err);

int settings_take_flag_for_all(struct settings *s, const char *word, struct pf_err *err);

/* Set the default compile option KEY, or the flag KEY of env_option_overrides; VALUE is
 * borrowed.  -EINVAL: it is none. */
int settings_compile_option(struct settings *s, const char *key,
			    struct json_object *value, struct pf_err *err);
int settings_debug_option(struct settings *s, const char *key, struct json_object *value,
			  struct pf_err *err);

/* Can the default compile options be used together?  0; -EINVAL. */
int settings_check_compile_options(const struct settings *s, struct pf_err *err);

/* Is TEXT "NAME", "/PATH" or "NAME=/PATH", with a name that a plugin may have? */
bool settings_is_plugin_word(const char *text);

/* May each plugin of which something is said be started?  0; -EINVAL with the first reason. */
int settings_check_refused(const struct settings *s, struct pf_err *err);

/*
 * Give each of N plugins, of which the FIRST_IS_DEFAULT, what is said of it.  -ENOMEM.
 */
int settings_attach(const struct settings *s, struct pf_candidate *plugins, unsigned n,
		    bool first_is_default, struct pf_err *err);

/* Is each plugin that the command line speaks of among N PLUGINS?  0; -EINVAL. */
int settings_check_names(const struct settings *s, const struct pf_candidate *plugins,
			 unsigned n, struct pf_err *err);

/* The command line, and the configuration that goes before it. */

enum { MAX_WORDS = 64 };

struct options {
	bool foreground;
	bool debug;
	bool help, version;
	bool list_plugins, json;
	char *check_plugin;             /* owned: what --check-plugin names, or NULL */
	unsigned timeout_s;             /* for one plugin, with these two */
	struct pf_discovery *discovery; /* owned: every plugin, with list_plugins */
	char *mountpoint;               /* owned, absolute; or /dev/fd/N */
	char *source;                   /* owned: what df and mount show */
	unsigned n_plugins;
	struct pf_candidate plugins[MAX_PLUGINS]; /* to load; owned, absolute paths */
	const char
		*fuse[MAX_WORDS + 1]; /* owned strings; -o's for FUSE, NULL-terminated */
	unsigned n_fuse;
	mode_t mode;    /* of directories where users make things; 0: nobody said it */
	bool has_group; /* group is their group */
	gid_t group;
	uint64_t memory_limit; /* bytes */
	bool allow_native;     /* anybody may load compiled programs */
	struct cache_options cache;
	struct settings settings;
	char *in_force; /* owned: what differs from the defaults, as JSON; NULL: not known */
	struct json_object *dump; /* owned: --dump-config's, to be printed; or NULL */
};

/*
 * Read the command line and find the plugins.  0; -EINVAL with a sentence for what is wrong
 * with it or with the configuration; -ENOENT: none of the plugins is found (the sentence says
 * where was looked); where others are, such a plugin is refused.  With help or version set nothing else is checked, with dump no plugin
 * was looked for.  With list_plugins there is a discovery, and with check_plugin
 * the plugin is plugins[0]; there is no mount point then.
 */
int options_parse(int argc, char **argv, struct options *ret, struct pf_err *err);

void options_release(struct options *options);

/* Remember WORD of -o for FUSE, unless it is for others: it is copied.  -EINVAL: too many, or
 * with a comma. */
int options_add_fuse(struct options *o, const char *word, struct pf_err *err);
void options_forget_fuse(struct options *o);

/* --mode and --group: VALUE is an octal mode, and a group's name or number.  0; -EINVAL with a
 * sentence. */
int options_take_mode(struct options *o, const char *value, struct pf_err *err);
int options_take_group(struct options *o, const char *value, struct pf_err *err);

/* The text of --help. */
extern const char options_help[];

/* Which plugins are loaded: from the words of the command line to files. */

/* What was said of plugins; borrowed for as long as it is used. */
struct plugin_words {
	const char *said[MAX_PLUGINS]; /* --plugin's: NAME, PATH or NAME=PATH */
	unsigned n_said;
	const char *dirs[MAX_PLUGINS]; /* --plugin-dir's */
	unsigned n_dirs;
	struct pf_named configured[MAX_PLUGINS]; /* the configuration's */
	unsigned n_configured;
	const char *configured_dirs[MAX_PLUGINS];
	unsigned n_configured_dirs;
};

/*
 * SOURCE and --plugin's become OPTIONS' plugins, without any the default one, and what else
 * lies beside them is found.  A plugin whose file is not there is refused.  0; -EINVAL with a
 * sentence for what is said wrongly; -ENOENT: none of the plugins is there.
 */
int plugin_choice(struct options *options, const struct plugin_words *words,
		  const char *source, struct pf_err *err);

/* Find every plugin there is: OPTIONS' discovery.  0 or -errno. */
int plugin_choice_list(struct options *options, const struct plugin_words *words,
		       struct pf_err *err);

/* The plugin that WORD (NAME, PATH or NAME=PATH) means becomes OPTIONS' only one.  As
 * plugin_choice. */
int plugin_choice_one(struct options *options, const struct plugin_words *words,
		      const char *word, struct pf_err *err);

/*
 * Who tells the API version of the plugin at PATH (0.MINOR, -1: unknown) where several of one
 * name lie in one place; NULL, and at the start: nobody.
 */
extern int (*plugin_choice_minor_of)(void *arg, const char *path);

/* Configuration files: JSON, whose keys are the names of options. */

/*
 * Read the configuration into O: FILE alone, which must exist; or if that is NULL
 * /etc/pjrtfs.json and then pjrtfs.json in $XDG_CONFIG_HOME (~/.config), if they exist and can be read by the user.
 * 0; -errno with a sentence that names file, line and column: what cannot be read, -EPERM a
 * file that others may change, -EINVAL what is wrong in it.
 */
int config_read(struct options *o, const char *file, struct pf_err *err);

/* Take what the text T says.  -EINVAL as above. */
int config_take(struct options *o, struct pf_config_text *t, struct pf_err *err);

/*
 * The effective configuration, before plugins are looked for, as a configuration file: *RET is
 * the caller's.  SOURCE and WORDS are what the command line says of plugins.  -EINVAL: one
 * cannot be started, for its options; -ENOMEM.
 */
int config_dump(const struct options *o, const char *source,
		const struct plugin_words *words, struct json_object **ret,
		struct pf_err *err);

/* What the files that take a configuration's keys share. */

/* Who is taking what. */
struct taking {
	struct options *o;
	struct pf_config_text *t;
	struct pf_err *err;
};

enum key_id {
	KEY_FOREGROUND,
	KEY_DEBUG,
	KEY_ALLOW_NATIVE,
	KEY_NO_CACHE,
	KEY_MEMORY_LIMIT,
	KEY_CACHE_SIZE,
	KEY_CACHE_DIR,
	KEY_COMPILE_JOBS,
	KEY_COMPILE_TIMEOUT,
	KEY_DEVICES,
	KEY_ABANDONED_TIMEOUT,
	KEY_PLUGIN_LOG_LEVEL,
	KEY_PLUGIN_DIR,
	KEY_MOUNT_OPTIONS,
	KEY_PLUGIN_OPTION,
	KEY_PLUGIN_ENV,
	KEY_COMPILE_OPTION,
	KEY_FLAGS_FOR_ALL,
	KEY_MODE,
	KEY_GROUP,
	KEY_SANDBOX, /* and the three that begin like it */
};

/* The keys "plugin" and "plugins" (config_plugins.c). */
int taking_plugins(struct taking *k, enum key_id id, const struct pf_config_at *at,
		   struct json_object *value);

/* What is told of plugins on standard output: --list-plugins, --check-plugin. */

/*
 * Load each plugin of OPTIONS' discovery in a worker and print what it is, or why it cannot be
 * used, and where was looked; as JSON if OPTIONS say so.  The exit status: 0, or 1 if any
 * could not be used, a place not be read, or there is none.  Blocks, bounded by OPTIONS' timeout.
 */
int plugin_report_list(const struct options *options);

/* Load OPTIONS' only plugin, print all that it tells, and run a program on it.  0 or 1. */
int plugin_report_check(const struct options *options);

/* The API version of the plugin at PATH, which is loaded for that: 0.MINOR, or -1.  ARG means
 * nothing. */
int plugin_report_minor(void *arg, const char *path);

#endif
