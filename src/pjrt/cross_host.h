/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of XLA's extension for transfers between processes that pjrtfs calls: its second API, in the
 * layout of pjrt_c_api_cross_host_transfers_extension.h, versions 2 to 7.  Newer plugins accept the
 * shorter arguments.
 *
 * Ids of devices are int32_t in older plugins and int64_t in newer ones.  Each call here moves one
 * array, so an int64_t serves both on a little-endian machine.
 */
#ifndef PJRTFS_PJRT_CROSS_HOST_H
#define PJRTFS_PJRT_CROSS_HOST_H

#include <pjrt_c_api.h>
#include <stddef.h>
#include <stdint.h>

struct pj_send_args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	PJRT_Client *client;
	size_t n;
	PJRT_Buffer **buffers;
	const int64_t *to; /* devices of other processes */
	const int64_t *keys;
	PJRT_Event **events; /* out, the caller's: the array has been sent */
};

struct pj_receive_args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	PJRT_Client *client;
	size_t n;
	size_t *ranks;
	const int64_t **dims;
	PJRT_Buffer_Type *types;
	PJRT_Buffer_MemoryLayout **layouts; /* NULLs: the default */
	PJRT_Device *device;
	const int64_t *from; /* devices of other processes */
	const int64_t *keys;
	PJRT_Buffer **buffers; /* out, the caller's: ready when the array is there */
};

struct pj_cross_host_extension {
	PJRT_Extension_Base base;
	void *make_receive_buffers, *copy_to_remote_device; /* the first API's */
	PJRT_Error *(*receive)(struct pj_receive_args *args);
	PJRT_Error *(*send)(struct pj_send_args *args);
};

#endif
