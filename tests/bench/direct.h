/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The baseline: PJRT's C API as a plain program uses it, in one process, without pjrtfs.
 * Any failure ends the program.
 */
#ifndef PJRTFS_TESTS_BENCH_DIRECT_H
#define PJRTFS_TESTS_BENCH_DIRECT_H

#include <stddef.h>
#include <stdint.h>

#include <pjrt_c_api.h>

/* Load the plugin and make a client; its first device is used. */
void direct_open(const char *plugin);

PJRT_LoadedExecutable *direct_compile(const char *mlir);

/* N floats (0: a scalar) copied to the device, ready, as a program does that lets go of DATA. */
PJRT_Buffer *direct_upload(const float *data, uint64_t n);

/* Execute on one device, and wait; the program has one result. */
PJRT_Buffer *direct_execute(PJRT_LoadedExecutable *executable, PJRT_Buffer *const *args,
			    size_t n);

/* Where the buffer lies, which this process can read. */
const float *direct_pointer(PJRT_Buffer *buffer);

/* Copy it out as the C API does. */
void direct_read(PJRT_Buffer *buffer, void *dst, size_t len);

void direct_free(PJRT_Buffer *buffer);

/* The sum of two scalars: upload, execute, read. */
float direct_add(PJRT_LoadedExecutable *executable, float x, float y);

#endif
