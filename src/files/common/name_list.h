/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of words or names. */
#ifndef PJRTFS_FILES_COMMON_NAME_LIST_H
#define PJRTFS_FILES_COMMON_NAME_LIST_H

#include <stddef.h>

/* A list of words or names.  All zeros is an empty one. */
struct names {
	size_t n;
	char **at; /* owned strings in an owned array */
};

int names_add(struct names *names, const char *str, size_t len);
void names_release(struct names *names);

#endif
