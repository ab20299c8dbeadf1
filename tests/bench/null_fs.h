/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that a FUSE file system can do: one directory, files whose bytes are in memory,
 * one thread.  The kernel keeps neither names nor attributes, so each operation is a request.
 * It compares pjrtfs with what the kernel and libfuse cost.
 */
#ifndef PJRTFS_TESTS_BENCH_NULL_FS_H
#define PJRTFS_TESTS_BENCH_NULL_FS_H

/*
 * Mount it at PATH, an empty folder, served by a child process; returns when it is mounted.
 * Undone when the calling process ends.  To be called once, after bench_mount.
 */
void null_fs_mount(const char *path);

/* Move the child to the processor that the caller runs on, as pjrtfs follows its client. */
void null_fs_follow(void);

#endif
