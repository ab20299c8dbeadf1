/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that take a configuration's keys share. */
#ifndef PJRTFS_DAEMON_CONFIG_TAKING_H
#define PJRTFS_DAEMON_CONFIG_TAKING_H

#include "config.h"

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

/* What R and the sentence say is AT.  Returns R. */
int taking_at_fault(struct taking *k, const struct pf_config_at *at, int r);

/* WANT was expected AT, FOUND was found.  -EINVAL. */
int taking_refuse(struct taking *k, const struct pf_config_at *at, const char *want,
		  struct json_object *found);

/* A string without NUL, of one byte or more; borrowed.  NULL: WANT was expected. */
const char *taking_string(struct taking *k, const struct pf_config_at *at,
			  struct json_object *value, const char *want);

/* An absolute path, as above: nobody can tell what another would be relative to. */
const char *taking_path(struct taking *k, const struct pf_config_at *at,
			struct json_object *value);

/* Add a copy of WORD to LIST, which has *N of MAX_PLUGINS.  -EINVAL, -ENOMEM. */
int taking_keep(struct taking *k, const struct pf_config_at *at, char **list, unsigned *n,
		const char *word);

/* The keys "plugin" and "plugins" (config_plugins.c). */
int taking_plugins(struct taking *k, enum key_id id, const struct pf_config_at *at,
		   struct json_object *value);

#endif
