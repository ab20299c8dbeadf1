/* SPDX-License-Identifier: Apache-2.0 */
/* What commands and run lines ask for. */
#ifndef PJRTFS_FILES_TASKS_REQUEST_H
#define PJRTFS_FILES_TASKS_REQUEST_H

#include "files/common/files.h"
#include "files/common/name_list.h"

/* Lists of names, one for each device; n 0: one list for all of them, at[0]. */
struct rows {
	size_t n;
	struct names *at; /* owned; at least one */
};

/* The names for row I. */
const struct names *rows_at(const struct rows *rows, size_t i);

/* What an execution is asked to do.  All zeros is nothing. */
struct request {
	struct rows inputs, outputs;
	struct names params; /* of inputs.at[0], if they were named by parameter */
	bool by_name;
	struct names donate;
	char *device;    /* owned, or NULL */
	bool move;       /* arrays that are elsewhere are copied */
	uint64_t repeat; /* times; 0 is 1 */
	bool async;
	uint64_t timeout_ms; /* 0: none */
};

enum {
	REQUEST_MAX_ROWS = 1024,
	REQUEST_MAX_REPEAT = 1000000000,
	REQUEST_MAX_TIMEOUT = 1000000000, /* ms: eleven days */
};

void request_release(struct request *request);

/* Split a run line "x y -> z donate=x" into REQUEST; -EINVAL. */
int request_parse_line(const char *line, struct request *request, struct pf_err *err);

/*
 * Read an execution's keys of a JSON command into REQUEST.  Keys that are neither these nor
 * in OTHERS (NULL-terminated) are refused.
 */
int request_parse(struct json_object *o, const char *const *others,
		  struct request *request, struct pf_err *err);

/* Refuse keys that are not in ALLOWED (NULL-terminated); "op", "id", "async" and "timeout_ms"
 * go with every command. */
int command_check_keys(struct json_object *o, const char *const *allowed,
		       struct pf_err *err);

/* The string under KEY; -EINVAL: it is missing, no string, or has a NUL character. */
int command_string(struct json_object *o, const char *key, const char **ret,
		   struct pf_err *err);

/* The whole number under KEY, from MIN to MAX; *RET stays if it is missing. */
int command_number(struct json_object *o, const char *key, uint64_t min, uint64_t max,
		   uint64_t *ret, struct pf_err *err);

/* True or false under KEY; *RET stays if it is missing. */
int command_bool(struct json_object *o, const char *key, bool *ret, struct pf_err *err);

/* The device that "device" names, or the default one. */
int command_device(struct pf_fs *fs, struct json_object *o, const struct device **ret,
		   struct pf_err *err);

#endif
