/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: JSON, whose keys are the names of options. */
#ifndef PJRTFS_CONFIG_H
#define PJRTFS_CONFIG_H

#include "plugin_choice.h"
#include "pjrtfs/formats/config.h"

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

#endif
