/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots: the bytes of a buffer in one format, as one reader sees them. */
#ifndef PJRTFS_SNAPSHOT_H
#define PJRTFS_SNAPSHOT_H

#include "pjrtfs/buffer.h"
#include "pjrtfs/wait.h"

/* The bytes in one format at the moment of opening, for one reader: HEAD, then BODY. */
struct pf_snapshot {
	struct pf_buf head; /* owned: a header made for this snapshot, or rendered text */
	struct pf_bytes *content; /* owned reference: BODY is these bytes, or NULL */
	struct pf_value *array;   /* owned reference, or NULL: the array that it shows */
	bool pinned;              /* BODY is the array's host bytes, which are pinned */
	uint64_t size;            /* bytes of head and body */
	struct pf_buffer *live;   /* owned reference: a content still being written */
	/* Owned reference, or NULL: long text, which is rendered as far as it is read. */
	struct pf_rendering *text;
};

/* A reader that waits for long text.  The caller sets waiter.wake and keeps it until then. */
struct pf_more {
	struct pf_wait waiter;
	uint64_t end; /* the store's: bytes from the text's beginning on */
};

/*
 * Take a snapshot of BUFFER, as FORMAT; NAME is that of the array in a .safetensors file.
 * 0; -ENODATA: the buffer has no value that FORMAT can show; -errno: the value's bytes were not
 * fetched, see pf_snapshot_pin.  Text is rendered here, which takes time (pf_snapshot_is_slow).
 * Not for JSON: pf_buffer_json.
 */
int pf_snapshot_open(struct pf_buffer *buffer, enum pf_format format, const char *name,
		     struct pf_snapshot *ret, struct pf_err *err);

/* Append the header of a file of FORMAT that has VALUE's bytes after it; text has none. */
void pf_snapshot_head(struct pf_buf *head, const struct pf_value *value,
		      enum pf_format format, const char *name);

/*
 * The value whose host bytes a snapshot of BUFFER as FORMAT needs, with a reference, and
 * pinned, so that the bytes stay once they were fetched; NULL: it needs none, or the
 * buffer has none.
 */
struct pf_value *pf_snapshot_pin(struct pf_buffer *buffer, enum pf_format format);

/*
 * As pf_snapshot_open for long text, which is rendered as far as it is read, and not here.  1:
 * done.  0: it is not long text, or its bytes are not in host memory: call pf_snapshot_open.
 */
int pf_snapshot_begin(struct pf_buffer *buffer, enum pf_format format,
		      struct pf_snapshot *ret);

/* May LEN bytes at OFF be read?  1: yes.  0: they are being rendered, after which MORE (if not
 * NULL) is woken.  -ENOMEM. */
int pf_snapshot_await(struct pf_snapshot *snapshot, uint64_t len, uint64_t off,
		      struct pf_more *more);

/* Is SNAPSHOT's size known?  That of long text is once it is rendered to its end. */
bool pf_snapshot_is_sized(struct pf_snapshot *snapshot);

/* Copy SNAPSHOT, as of the same moment, to *RET.  -ENOMEM. */
int pf_snapshot_dup(const struct pf_snapshot *snapshot, struct pf_snapshot *ret);

/* Drop what SNAPSHOT holds; all zeros is allowed. */
void pf_snapshot_release(struct pf_snapshot *snapshot);

/*
 * Give READ(arg, data, len) the bytes of up to LEN at OFF: one call, maybe with fewer where
 * head and body meet (0: end).  The data is borrowed for the call's time.
 */
void pf_snapshot_read(struct pf_snapshot *snapshot, uint64_t len, uint64_t off,
		      void (*read)(void *arg, const void *data, size_t len), void *arg);

/* Does pf_snapshot_open take more than some milliseconds? */
bool pf_snapshot_is_slow(struct pf_buffer *buffer, enum pf_format format);

/*
 * The size that stat shows, in bytes.  NAME as for pf_snapshot_open.  Text of some thousand
 * elements whose bytes are in host memory is rendered for that, once; larger text has 0 until it
 * was read.
 */
uint64_t pf_snapshot_size(struct pf_buffer *buffer, enum pf_format format,
			  const char *name);

/* 0: pf_snapshot_size is the size.  Else the size is not known, and no larger than this. */
uint64_t pf_snapshot_bound(struct pf_buffer *buffer, enum pf_format format);

#endif
