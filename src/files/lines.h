/* SPDX-License-Identifier: Apache-2.0 */
/* Files to which lines are appended, and which are read by offset: events, plugins/NAME/log. */
#ifndef PJRTFS_FILES_LINES_H
#define PJRTFS_FILES_LINES_H

#include "files/common/files.h"
#include "pjrtfs/watch/lines.h"

/* For a kind's open and release: of->state is a struct pf_lines_reader. */
int lines_open(struct pf_open *of, struct pf_err *err);
void lines_release(struct pf_open *of);

/* For its read: LINES copies at most LEN bytes at OFF to DST, and returns how many. */
void lines_read(struct pf_open *of, size_t len, uint64_t off, struct pf_reply *reply,
		size_t (*lines)(struct pf_open *of, uint64_t off, char *dst, size_t len));

/* For its getattr_as: SIZE bytes, the last line of TIME (tv_sec 0: there is none). */
void lines_stat(struct stat *st, uint64_t size, const struct timespec *time);

#endif
