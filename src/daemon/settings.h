/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the configuration and the command line say of plugins and compiles, before plugins are
 * looked for.  Both come in layers, and a later one overrides: each says first which it is.
 */
#ifndef PJRTFS_SETTINGS_H
#define PJRTFS_SETTINGS_H

#include <json-c/json.h>
#include <stdbool.h>

#include "pjrtfs/base/err.h"
#include "pjrtfs/formats/options.h"

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

#endif
