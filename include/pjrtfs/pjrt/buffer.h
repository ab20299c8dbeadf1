/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays on a device.
 *
 * A buffer is the plugin's own handle: these functions are on the path of every execution,
 * and keep nothing beside it.  No two threads destroy and use one buffer at once; all else
 * is safe from any thread.
 */
#ifndef PJRTFS_PJRT_BUFFER_H
#define PJRTFS_PJRT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/base/err.h"
#include "pjrtfs/formats/dtype.h"
#include "pjrtfs/formats/shape.h"
#include "pjrtfs/pjrt/client.h"

struct PJRT_Buffer;

/* Where a new buffer goes. */
struct pj_place {
	const struct pj_device *device;
	const struct pj_memory *memory; /* one of the device's, or NULL: its default */
};

/*
 * Make a buffer of host memory, without copying where the plugin can.
 *
 * src      LEN bytes: dense, row-major, host byte order, sub-byte types one per byte.  Not
 *          NULL, even if LEN is 0.  They must not change while the buffer lives
 * ret      on success, the caller's; pj_buffer_destroy
 * alias    on success, where in SRC's bytes the buffer lies, or NULL: it is a copy
 *
 * Waits until the buffer is ready and, if it is a copy, until SRC is no longer needed.
 * -EINVAL: the type, a negative extent, LEN does not fit the shape, or a device that is
 * not addressable; -EOVERFLOW: too many elements; -EOPNOTSUPP: the plugin is older than
 * the type; -ENOSPC and others: the plugin's.
 * PJRT: PJRT_Client_BufferFromHostBuffer, kImmutableZeroCopy.
 */
int pj_buffer_from_host(const struct pj_client *client, const struct pj_place *place,
			const void *src, uint64_t len, int dtype,
			const struct pf_shape *shape, struct PJRT_Buffer **ret,
			const void **alias, struct pf_err *err);

/*
 * As pj_buffer_from_host, but does not wait: SRC must stay unchanged until the buffer was
 * destroyed and an execution that used it has ended.  For arguments of one execution.
 */
int pj_buffer_lend(const struct pj_client *client, const struct pj_place *place,
		   const void *src, uint64_t len, int dtype, const struct pf_shape *shape,
		   struct PJRT_Buffer **ret, struct pf_err *err);

/*
 * Make a buffer of LEN host bytes without host bytes.
 *
 * ret      on success, the caller's; pj_buffer_destroy
 *
 * Its elements are zero if this process can write them (pj_buffer_address), else whatever
 * the device's memory held.  Waits until the buffer is ready.
 * Errors as pj_buffer_from_host; -EOPNOTSUPP also if the plugin has no such function.
 * PJRT: PJRT_Client_CreateUninitializedBuffer.
 */
int pj_buffer_uninitialized(const struct pj_client *client, const struct pj_place *place,
			    uint64_t len, int dtype, const struct pf_shape *shape,
			    struct PJRT_Buffer **ret, struct pf_err *err);

/*
 * Copy SOURCE, which is ready, to PLACE, which may be where it is.
 *
 * ret      on success, the caller's; pj_buffer_destroy.  It shares nothing with SOURCE
 *
 * Waits until the copy is ready.  Where the plugin refuses to copy within one device, the
 * array goes through this process's memory.
 * -EINVAL: a token, a buffer that was donated, or a device that is not addressable;
 * -EOPNOTSUPP: the plugin has no such function; others: the plugin's.
 * PJRT: PJRT_Buffer_CopyToDevice to a device's default memory, else
 * PJRT_Buffer_CopyToMemory.
 */
int pj_buffer_copy(const struct pj_client *client, const struct pj_place *place,
		   struct PJRT_Buffer *source, struct PJRT_Buffer **ret,
		   struct pf_err *err);

/* Destroy BUFFER, which may be NULL.  Pending executions that use it still finish. */
void pj_buffer_destroy(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer);

/* Wait until BUFFER is ready.  0, or what made it fail.  PJRT: PJRT_Buffer_ReadyEvent. */
int pj_buffer_await(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer,
		    struct pf_err *err);

/*
 * The address of BUFFER's bytes if this process can read them there, else NULL (also if
 * it was donated).  Valid while the buffer lives and is not donated.
 * PJRT: PJRT_Buffer_IsOnCpu, PJRT_Buffer_OpaqueDeviceMemoryDataPointer or _UnsafePointer.
 */
const void *pj_buffer_address(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer);

/* Bytes that BUFFER takes on its device; 0 if the plugin does not tell. */
uint64_t pj_buffer_device_bytes(const struct pj_plugin *plugin,
				struct PJRT_Buffer *buffer);

/*
 * BUFFER's element type and its host bytes.  TOKEN has 0 bytes.  -EOPNOTSUPP: a type that
 * this build does not know; -EOVERFLOW.
 * PJRT: PJRT_Buffer_ElementType, PJRT_Buffer_Dimensions.
 */
int pj_buffer_type(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer,
		   enum pf_dtype *dtype, uint64_t *len, struct pf_err *err);

/*
 * Copy BUFFER, which is ready, of element type DTYPE and LEN host bytes (pj_buffer_type),
 * to DST, in the order of its device layout; sub-byte types one per byte, whose high bits
 * repeat the sign of those that have one.  Blocks.
 * PJRT: PJRT_Buffer_ToHostBuffer where the bytes cannot be read at their address.
 */
int pj_buffer_read(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer,
		   enum pf_dtype dtype, void *dst, uint64_t len, struct pf_err *err);

#endif
