/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of plugins on standard output: --list-plugins, --check-plugin. */
#ifndef PJRTFS_PLUGIN_REPORT_H
#define PJRTFS_PLUGIN_REPORT_H

#include "options.h"

/*
 * Load each plugin of OPTIONS' discovery in a worker and print what it is, or why it cannot be
 * used, and where was looked; as JSON if OPTIONS say so.  The exit status: 0, or 1 if any
 * could not be used, a place not be read, or there is none.  Blocks, bounded by OPTIONS' timeout.
 */
int plugin_report_list(const struct options *options);

/* Load OPTIONS' only plugin, print all that it tells, and run a program on it.  0 or 1. */
int plugin_report_check(const struct options *options);

/* The API version of the plugin at PATH, which is loaded for that: 0.MINOR, or -1.  ARG means
 * nothing. */
int plugin_report_minor(void *arg, const char *path);

#endif
