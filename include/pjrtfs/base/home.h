/* SPDX-License-Identifier: Apache-2.0 */
/* The user's home directory. */
#ifndef PJRTFS_BASE_HOME_H
#define PJRTFS_BASE_HOME_H

/*
 * The home directory of the effective user, an absolute path: $HOME, unless it is not set, or
 * another user owns that directory (mount(8) keeps none, so mount.fuse3(8) sets root's); then
 * that of passwd(5), if it has one.  The caller frees it; NULL: there is none, or no memory.
 * Does not block, but for the user database.  Not safe beside other users of getpwuid(3).
 */
char *pf_home_dir(void);

#endif
