/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resources that quotas limit, and how the configuration sets a maximum: [UID:]RESOURCE=MAX.
 *
 * RESOURCE is "memory" or another resource of the whole mount, or "cpu:0/memory": DEVICE/memory or
 * DEVICE/executions.  MAX is a number, with K, M, G or T for powers of 1024, or "max".
 */
#ifndef PJRTFS_QUOTA_WORD_H
#define PJRTFS_QUOTA_WORD_H

#include <stdint.h>
#include <sys/types.h>

#include "pjrtfs/base.h"

/* Resources of the whole mount. */
enum pf_resource {
	PF_MEMORY,     /* bytes of host memory: arrays, programs, and the heap of files */
	PF_BUFFERS,    /* files in buffers/ */
	PF_PROGRAMS,   /* files in programs/, and executables without one */
	PF_JOBS,       /* jobs that have not ended */
	PF_EXECUTIONS, /* executions that have not ended, those that wait included */
	PF_COMPILE_MS, /* milliseconds that compiles have taken; "compile_seconds" */
	PF_RESOURCES
};

/* Resources of one device: pf_account_device. */
enum pf_device_resource {
	PF_DEVICE_MEMORY,     /* bytes of the arrays that are on it */
	PF_DEVICE_EXECUTIONS, /* executions that have not ended, and run on it */
	PF_DEVICE_RESOURCES
};

#define PF_NO_LIMIT UINT64_MAX

/* The words for a resource in files and messages. */
struct pf_resource_words {
	const char *name; /* of its files, "memory" */
	const char *unit; /* of several, "bytes" */
	uint64_t scale;   /* so much is counted for one of them */
};

extern const struct pf_resource_words pf_resource_words[PF_RESOURCES];

/* The resource of the whole mount that has the same name and unit. */
extern const enum pf_resource pf_device_resource_kind[PF_DEVICE_RESOURCES];

struct pf_quota_word {
	bool has_uid;
	uid_t uid;
	char name[128]; /* RESOURCE */
	uint64_t max;   /* as it is counted; PF_NO_LIMIT */
};

/* Read WORD into *RET.  -EINVAL.  Does not block. */
int pf_quota_word_parse(const char *word, struct pf_quota_word *ret, struct pf_err *err);

/* Read TEXT, the MAX of a RESOURCE, into *RET, as it is counted.  -EINVAL.  Does not block. */
int pf_quota_max_parse(const char *text, enum pf_resource resource, uint64_t *ret,
		       struct pf_err *err);

/* Append N, in the unit of a resource's files, or "max", and a newline. */
void pf_quota_max_print(uint64_t n, struct pf_buf *out);

#endif
