/* SPDX-License-Identifier: Apache-2.0 */
/* What users say of a topology that a plugin is to make, and what is told of one. */
#ifndef PJRTFS_TOPOLOGY_REQUEST_H
#define PJRTFS_TOPOLOGY_REQUEST_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#include "pjrtfs/base.h"

/* Bytes of a file at most. */
enum {
	PF_TOPOLOGY_LINE = 4096, /* NAME.txt */
	PF_TOPOLOGY_JSON =
		2
		<< 20, /* what a plugin says of a topology, at most 1 MiB, and the rest */
};

/* A topology that a plugin is asked to make. */
struct pf_topology_request {
	struct json_object
		*json;      /* owned: {"plugin", "name", "options"} as the user has it */
	const char *plugin; /* borrowed from that; NULL: any */
	char *text;         /* owned: for pf_topology_create */
};

/*
 * Read the LEN bytes at TEXT: JSON, or a line that is the name.  What pf_topology_describe adds may be
 * there, and is ignored.  A value of "target_config" that is a word becomes the text of that target's
 * file.  -EINVAL: the sentence says what was expected and what was found; -errno: a target's file cannot
 * be read; -ENOMEM.
 */
int pf_topology_request_parse(bool is_json, const char *text, size_t len,
			      struct pf_topology_request *ret, struct pf_err *err);

/* REQUEST may be all zeros. */
void pf_topology_request_release(struct pf_topology_request *request);

/*
 * Append what NAME.json says of a topology, a line, to OUT: what PLUGIN said in the LEN bytes at TEXT, and
 * REQUEST, if it made the topology of one (else NULL).  -EPROTO: TEXT is no JSON; -ENOMEM.
 */
int pf_topology_describe(const struct pf_topology_request *request, const char *plugin,
			 const char *text, size_t len, struct pf_buf *out,
			 struct pf_err *err);

#endif
