/* SPDX-License-Identifier: Apache-2.0 */
/* Options that a plugin's client is created with: JSON, or words of the command line. */
#ifndef PJRTFS_FORMATS_CREATE_OPTIONS_H
#define PJRTFS_FORMATS_CREATE_OPTIONS_H

#include <json-c/json.h>

#include "pjrtfs/base/err.h"

enum {
	PF_CREATE_NAME_MAX = 255,    /* bytes of an option's name */
	PF_CREATE_TEXT_MAX = 65536,  /* bytes of a string */
	PF_CREATE_LIST_MAX = 65536,  /* integers of a list */
	PF_CREATE_OPTIONS_MAX = 256, /* options of a plugin */
};

/*
 * Can option NAME have VALUE?  A string, an integer of 64 bits, a boolean, a double that a
 * float can hold, or a list of integers; and for options that are known to make plugins abort
 * or hang, what they take.  Others are the plugin's to judge.
 * 0; -EINVAL: the sentence says what was expected and what was found.
 */
int pf_create_option_check(const char *name, struct json_object *value,
			   struct pf_err *err);

/*
 * Read TEXT, "KEY=VALUE" or "KEY:TYPE=VALUE" with TYPE int64, string, float, bool or
 * int64_list (as in "1,2"), and check it.  Without a type the value tells: true and false are
 * booleans, digits an integer, several with commas a list, a number with a point or an
 * exponent a float; an option that is known has its type; all else is a string.
 *
 * ret_name   the key, the caller's; ret_value: its value, the caller's
 * -EINVAL as above, or no such text; -ENOMEM.
 */
int pf_create_option_parse(const char *text, char **ret_name,
			   struct json_object **ret_value, struct pf_err *err);

#endif
