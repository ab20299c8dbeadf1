/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: made of host memory or of other buffers, read, and their addresses. */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* 1: yes, 0: no, -errno: the plugin does not say. */
static int on_cpu(const struct pj_plugin *plugin, PJRT_Buffer *buffer)
{
	PJ_ARGS(Buffer_IsOnCpu, args, .buffer = buffer);
	int r = PJ_CALL(plugin, NULL, Buffer_IsOnCpu, &args);

	return r < 0 ? r : args.is_on_cpu;
}

/* The address of BUFFER, which is in host memory; NULL: the plugin does not say. */
static const void *host_address(const struct pj_plugin *plugin, PJRT_Buffer *buffer)
{
	PJ_ARGS(Buffer_OpaqueDeviceMemoryDataPointer, opaque, .buffer = buffer);
	PJ_ARGS(Buffer_UnsafePointer, unsafe, .buffer = buffer);

	if (PJ_CALL(plugin, NULL, Buffer_OpaqueDeviceMemoryDataPointer, &opaque) == 0)
		return opaque.device_memory_ptr;
	if (PJ_CALL(plugin, NULL, Buffer_UnsafePointer, &unsafe) == 0)
		return (const void *)unsafe.buffer_pointer;
	return NULL;
}

const void *pj_buffer_address(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer)
{
	return on_cpu(plugin, buffer) == 1 ? host_address(plugin, buffer) : NULL;
}

bool pj_buffer_is_elsewhere(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer)
{
	return on_cpu(plugin, buffer) == 0;
}

void pj_buffer_destroy(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer)
{
	PJ_ARGS(Buffer_Destroy, args, .buffer = buffer);

	if (buffer)
		(void)PJ_CALL(plugin, NULL, Buffer_Destroy, &args);
}

int pj_buffer_await(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer,
		    struct pf_err *err)
{
	PJ_ARGS(Buffer_ReadyEvent, args, .buffer = buffer);
	int r = PJ_CALL(plugin, err, Buffer_ReadyEvent, &args);

	return r < 0 ? r
		     : pj_event_await(plugin, args.event, "PJRT_Buffer_ReadyEvent", err);
}

int pj_buffer_made(const struct pj_plugin *plugin, struct PJRT_Buffer *made,
		   struct PJRT_Buffer **ret, struct pf_err *err)
{
	int r = pj_buffer_await(plugin, made, err);

	if (r < 0)
		pj_buffer_destroy(plugin, made);
	else
		*ret = made;
	return r;
}

uint64_t pj_buffer_device_bytes(const struct pj_plugin *plugin,
				struct PJRT_Buffer *buffer)
{
	PJ_ARGS(Buffer_OnDeviceSizeInBytes, args, .buffer = buffer);

	if (PJ_CALL(plugin, NULL, Buffer_OnDeviceSizeInBytes, &args) < 0)
		return 0;
	return args.on_device_size_in_bytes;
}

uint32_t pj_buffer_memory(const struct pj_client *client, struct PJRT_Buffer *buffer)
{
	PJ_ARGS(Buffer_Memory, args, .buffer = buffer);

	if (PJ_CALL(client->plugin, NULL, Buffer_Memory, &args) < 0 || !args.memory)
		return UINT32_MAX;
	for (size_t i = 0; i < client->n_devices; i++)
		for (size_t m = 0; m < client->devices[i].n_memories; m++)
			if (client->devices[i].memories[m] == args.memory)
				return (int)m == client->devices[i].default_memory
					       ? UINT32_MAX
					       : (uint32_t)m;
	return UINT32_MAX;
}

static int check_place(const struct pj_place *place, struct pf_err *err)
{
	if (place->device->addressable)
		return 0;
	return pf_err_set(err, -EINVAL, "device %d belongs to another process",
			  place->device->id);
}

int pj_buffer_check(const struct pj_client *client, const struct pj_place *place,
		    uint64_t len, int dtype, const struct pf_shape *shape,
		    struct pf_err *err)
{
	uint64_t want;
	int r = pj_plugin_check_dtype(client->plugin, dtype, err);

	if (r < 0)
		return r;
	if (shape->rank > PF_MAX_RANK)
		return pf_err_set(err, -EINVAL, "rank %u, at most %d is possible",
				  shape->rank, PF_MAX_RANK);
	for (unsigned i = 0; i < shape->rank; i++)
		if (shape->dims[i] < 0)
			return pf_err_set(err, -EINVAL, "extent %u is %" PRId64, i,
					  shape->dims[i]);
	r = pf_shape_bytes(shape, (enum pf_dtype)dtype, &want, err);
	if (r < 0)
		return r;
	if (want != len)
		return pf_err_set(err, -EINVAL,
				  "the array takes %" PRIu64 " bytes, %" PRIu64
				  " were given",
				  want, len);
	return check_place(place, err);
}

/*
 * What uploads have shown of a memory.  A plugin may keep the host's bytes of a zero copy until the
 * buffer's end, even if it has copied them: so only where it uses them in place is one asked for.
 */
enum { NOT_KNOWN, IN_PLACE, COPIES };

enum { ALIGNMENT = 64 }; /* of bytes that every such plugin uses in place */

#define A_COPY PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes

static _Atomic uint8_t *shown_of(const struct pj_place *place)
{
	const struct pj_device *device = place->device;
	size_t at = device->default_memory < 0 ? device->n_memories
					       : (size_t)device->default_memory;

	for (size_t m = 0; place->memory && m < device->n_memories; m++)
		if (device->memories[m] == place->memory)
			at = m;
	return &device->shown[at];
}

/* What an upload whose bytes stay as long as the buffer is to ask for. */
static PJRT_HostBufferSemantics semantics_at(const struct pj_place *place)
{
	return atomic_load(shown_of(place)) == COPIES
		       ? A_COPY
		       : PJRT_HostBufferSemantics_kImmutableZeroCopy;
}

/* Does a plugin that uses any bytes in place use those at SRC, of elements of DTYPE?  It packs those of
 * less than a byte. */
static bool suits_all(const void *src, int dtype)
{
	return (uintptr_t)src % ALIGNMENT == 0 &&
	       pf_dtype_bits((enum pf_dtype)dtype) >= 8;
}

/*
 * Where in SRC's LEN bytes the new BUFFER, of elements of DTYPE, lies, or NULL: it is a copy.  SHOWN
 * becomes what that shows of its memory.
 */
static const void *find_alias(const struct pj_plugin *plugin, PJRT_Buffer *buffer,
			      const void *src, uint64_t len, int dtype,
			      _Atomic uint8_t *shown)
{
	int on_host = on_cpu(plugin, buffer);
	const char *at = on_host == 1 ? host_address(plugin, buffer) : NULL;

	if (at >= (const char *)src && at < (const char *)src + len) {
		atomic_store(shown, IN_PLACE);
		return at;
	}
	/* It is not known whether it is an alias: treat it as one, and do not wait. */
	if (!at && on_host != 0)
		return src;
	if (on_host == 0 || (atomic_load(shown) == NOT_KNOWN && suits_all(src, dtype)))
		atomic_store(shown, COPIES);
	return NULL;
}

/*
 * Wait for the new buffer, which is destroyed on failure.  DONE, which is ours to destroy, fires when
 * the plugin no longer needs the host bytes: for a copy soon, for an alias not before the buffer's
 * end.  It may never fire for an EMPTY buffer, which has none.
 */
static int await_upload(const struct pj_plugin *plugin, PJRT_Buffer *buffer,
			PJRT_Event *done, bool alias, bool empty, struct pf_err *err)
{
	static const char function[] = "PJRT_Client_BufferFromHostBuffer";
	int r = 0;

	if (!alias && !empty)
		r = pj_event_await(plugin, pf_steal(&done), function, err);
	if (r == 0)
		r = pj_buffer_await(plugin, buffer, err);
	if (r < 0)
		pj_buffer_destroy(plugin, buffer);
	/* The caller gives the bytes to others after a failure: the plugin must be done with them. */
	if (r < 0 && alias)
		(void)pj_event_await(plugin, done, function, NULL);
	else
		pj_event_drop(plugin, done);
	return r;
}

static int from_host(const struct pj_client *client, const struct pj_place *place,
		     const void *src, int dtype, const struct pf_shape *shape,
		     PJRT_HostBufferSemantics semantics, PJRT_Buffer **ret,
		     PJRT_Event **done, struct pf_err *err)
{
	PJ_ARGS(Client_BufferFromHostBuffer, args, .client = client->handle, .data = src,
		.type = (PJRT_Buffer_Type)dtype, .dims = shape->dims,
		.num_dims = shape->rank, .host_buffer_semantics = semantics,
		.device = place->device->handle, .memory = place->memory);
	int r = PJ_CALL(client->plugin, err, Client_BufferFromHostBuffer, &args);

	if (r < 0)
		return r;
	r = pj_given(args.buffer, "PJRT_Client_BufferFromHostBuffer", err);
	if (r == 0)
		r = pj_given_event(args.done_with_host_buffer,
				   "PJRT_Client_BufferFromHostBuffer", err);
	if (r < 0) {
		pj_event_drop(client->plugin, args.done_with_host_buffer);
		pj_buffer_destroy(client->plugin, args.buffer);
		return r;
	}
	*ret = args.buffer;
	*done = args.done_with_host_buffer;
	return 0;
}

/*
 * Make *BUFFER, a zero copy that was none, once more, as a copy: of that one nothing would say when
 * SRC is not read any more but its end.
 */
static int copy_instead(const struct pj_client *client, const struct pj_place *place,
			const void *src, int dtype, const struct pf_shape *shape,
			PJRT_Buffer **buffer, PJRT_Event **done, struct pf_err *err)
{
	pj_buffer_destroy(client->plugin, *buffer);
	(void)pj_event_await(client->plugin, *done, "PJRT_Client_BufferFromHostBuffer",
			     NULL);
	return from_host(client, place, src, dtype, shape, A_COPY, buffer, done, err);
}

/*
 * Make a buffer of SRC, whose type and shape have been checked.  ALIAS as in
 * pj_buffer_from_host; NULL: SRC does not outlive the call, so the buffer is a copy.
 */
static int upload(const struct pj_client *client, const struct pj_place *place,
		  const void *src, uint64_t len, int dtype, const struct pf_shape *shape,
		  struct PJRT_Buffer **ret, const void **alias, struct pf_err *err)
{
	const struct pj_plugin *plugin = client->plugin;
	_Atomic uint8_t *shown = shown_of(place);
	PJRT_HostBufferSemantics semantics = alias ? semantics_at(place) : A_COPY;
	const void *at = NULL;
	PJRT_Buffer *buffer;
	PJRT_Event *done;
	int r = from_host(client, place, src, dtype, shape, semantics, &buffer, &done,
			  err);

	if (r < 0)
		return r;
	if (semantics != A_COPY && len) {
		at = find_alias(plugin, buffer, src, len, dtype, shown);
		if (!at && atomic_load(shown) != IN_PLACE)
			r = copy_instead(client, place, src, dtype, shape, &buffer, &done,
					 err);
	}
	if (r == 0)
		r = await_upload(plugin, buffer, done, at != NULL, len == 0, err);
	if (r < 0)
		return r;
	if (alias)
		*alias = at;
	*ret = buffer;
	return 0;
}

int pj_buffer_from_host(const struct pj_client *client, const struct pj_place *place,
			const void *src, uint64_t len, int dtype,
			const struct pf_shape *shape, struct PJRT_Buffer **ret,
			const void **alias, struct pf_err *err)
{
	int r = pj_buffer_check(client, place, len, dtype, shape, err);

	return r < 0 ? r : upload(client, place, src, len, dtype, shape, ret, alias, err);
}

int pj_buffer_zero_copy(const struct pj_client *client, const struct pj_place *place,
			const void *src, uint64_t len, int dtype,
			const struct pf_shape *shape, struct PJRT_Buffer **ret,
			struct pf_err *err)
{
	int r = pj_buffer_check(client, place, len, dtype, shape, err);
	PJRT_Event *done;

	if (r == 0)
		r = from_host(client, place, src, dtype, shape, semantics_at(place), ret,
			      &done, err);
	if (r == 0)
		pj_event_drop(client->plugin, done);
	return r;
}

static const struct pf_layout row_major;

static int check_layout(const struct pf_layout *layout, const struct pf_shape *shape,
			struct pf_err *err)
{
	return pf_layout_is_valid(layout, shape->rank)
		       ? 0
		       : pf_err_set(err, -EINVAL,
				    "the layout is no order of %u dimensions",
				    shape->rank);
}

static int copy_memory(void **ret, uint64_t len, struct pf_err *err)
{
	*ret = malloc(len ? len : 1);
	return *ret ? 0
		    : pf_err_set(err, -ENOMEM, "no memory for %" PRIu64 " bytes to copy",
				 len);
}

int pj_buffer_lay_out(const struct pj_client *client, const struct pj_place *place,
		      const void *src, uint64_t len, int dtype,
		      const struct pf_shape *shape, const struct pf_layout *layout,
		      struct PJRT_Buffer **ret, struct pf_err *err)
{
	pf_autofree void *bytes = NULL;
	int r = pj_buffer_check(client, place, len, dtype, shape, err);

	if (r == 0)
		r = check_layout(layout, shape, err);
	if (r == 0)
		r = copy_memory(&bytes, len, err);
	if (r < 0)
		return r;
	pf_layout_convert(shape, pf_dtype_size((enum pf_dtype)dtype), &row_major, src,
			  layout, bytes);
	return upload(client, place, bytes, len, dtype, shape, ret, NULL, err);
}

static struct PJRT_Memory *default_memory(const struct pj_device *device)
{
	return device->default_memory < 0 ? NULL
					  : device->memories[device->default_memory];
}

int pj_buffer_uninitialized(const struct pj_client *client, const struct pj_place *place,
			    uint64_t len, int dtype, const struct pf_shape *shape,
			    struct PJRT_Buffer **ret, struct pf_err *err)
{
	/* Plugins that get a device ignore the memory. */
	struct PJRT_Memory *memory =
		place->memory ? place->memory : default_memory(place->device);
	PJ_ARGS(Client_CreateUninitializedBuffer, args, .client = client->handle,
		.shape_dims = shape->dims, .shape_num_dims = shape->rank,
		.shape_element_type = (PJRT_Buffer_Type)dtype,
		.device = memory ? NULL : place->device->handle, .memory = memory);
	const struct pj_plugin *plugin = client->plugin;
	const void *at;
	int r = pj_buffer_check(client, place, len, dtype, shape, err);

	if (r == 0)
		r = PJ_CALL(plugin, err, Client_CreateUninitializedBuffer, &args);
	if (r == 0)
		r = pj_given(args.buffer, "PJRT_Client_CreateUninitializedBuffer", err);
	if (r == 0)
		r = pj_buffer_made(plugin, args.buffer, ret, err);
	if (r < 0)
		return r;
	at = pj_buffer_address(plugin, *ret);
	if (at) /* the memory may have been another user's: sub-byte types' padding, too */
		memset((void *)(uintptr_t)at, 0, pj_buffer_device_bytes(plugin, *ret));
	return 0;
}

int pj_buffer_type(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer,
		   enum pf_dtype *dtype, struct pf_shape *shape, uint64_t *len,
		   struct pf_err *err)
{
	PJ_ARGS(Buffer_ElementType, type, .buffer = buffer);
	PJ_ARGS(Buffer_Dimensions, dims, .buffer = buffer);
	int r = PJ_CALL(plugin, err, Buffer_ElementType, &type);

	if (r < 0)
		return r;
	*dtype = (enum pf_dtype)type.type;
	*len = 0;
	shape->rank = 0;
	if (type.type == PJRT_Buffer_Type_TOKEN)
		return 0;
	if (!pf_dtype_valid((int)type.type))
		return pf_err_set(err, -EOPNOTSUPP,
				  "element type %d is unknown to this build",
				  (int)type.type);
	r = PJ_CALL(plugin, err, Buffer_Dimensions, &dims);
	if (r == 0)
		r = pj_given_list(dims.dims, dims.num_dims, "PJRT_Buffer_Dimensions",
				  err);
	if (r < 0)
		return r;
	if (dims.num_dims > PF_MAX_RANK)
		return pf_err_set(err, -EOPNOTSUPP, "rank %zu is more than %d",
				  dims.num_dims, PF_MAX_RANK);
	shape->rank = (unsigned)dims.num_dims;
	if (dims.num_dims)
		memcpy(shape->dims, dims.dims, dims.num_dims * sizeof(shape->dims[0]));
	return pf_shape_bytes(shape, *dtype, len, err);
}

/* Plugins leave the bits above an element of less than a byte 0, also in negative ones. */
static void extend_sign(enum pf_dtype dtype, unsigned char *at, uint64_t n)
{
	unsigned bits = pf_dtype_bits(dtype), sign;

	if (bits >= 8 || pf_dtype_kind(dtype) != PF_KIND_SIGNED)
		return;
	sign = 1u << (bits - 1);
	for (uint64_t i = 0; i < n; i++)
		at[i] = (unsigned char)(((at[i] & (2 * sign - 1)) ^ sign) - sign);
}

/* Where BUFFER's elements can be read as they are on the host, or NULL. */
static const void *elements(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer,
			    enum pf_dtype dtype, uint64_t len)
{
	const void *at = NULL;

	/* Packed on the device, one element a byte on the host: only the plugin unpacks. */
	if (pf_dtype_bits(dtype) >= 8)
		at = pj_buffer_address(plugin, buffer);
	return at && pj_buffer_device_bytes(plugin, buffer) >= len ? at : NULL;
}

int pj_buffer_read(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer,
		   enum pf_dtype dtype, void *dst, uint64_t len, struct pf_err *err)
{
	PJ_ARGS(Buffer_ToHostBuffer, args, .src = buffer, .dst = dst, .dst_size = len);
	const void *at;
	int r;

	if (dtype == PF_DTYPE_TOKEN) /* plugins abort */
		return pf_err_set(err, -EINVAL, "a token has no value");
	if (len == 0)
		return 0;
	at = elements(plugin, buffer, dtype, len);
	if (at) {
		memcpy(dst, at, len);
		return 0;
	}
	r = PJ_CALL(plugin, err, Buffer_ToHostBuffer, &args);
	if (r == 0)
		r = pj_event_await(plugin, args.event, "PJRT_Buffer_ToHostBuffer", err);
	if (r == 0)
		extend_sign(dtype, dst, len);
	return r;
}

int pj_buffer_read_row_major(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer,
			     enum pf_dtype dtype, const struct pf_layout *layout,
			     void *dst, uint64_t len, struct pf_err *err)
{
	const void *at = elements(plugin, buffer, dtype, len);
	pf_autofree void *bytes = NULL;
	struct pf_shape shape;
	enum pf_dtype has;
	uint64_t has_len;
	int r = pj_buffer_type(plugin, buffer, &has, &shape, &has_len, err);

	if (r == 0 && (has != dtype || has_len != len))
		r = pf_err_set(err, -EPROTO, "the plugin's buffer has another type");
	if (r == 0)
		r = check_layout(layout, &shape, err);
	if (r == 0 && !at)
		r = copy_memory(&bytes, len, err);
	if (r == 0 && !at)
		r = pj_buffer_read(plugin, buffer, dtype, bytes, len, err);
	if (r == 0)
		pf_layout_convert(&shape, pf_dtype_size(dtype), layout, at ? at : bytes,
				  &row_major, dst);
	return r;
}

static bool is_on(const struct pj_plugin *plugin, PJRT_Buffer *buffer,
		  const struct pj_device *device)
{
	PJ_ARGS(Buffer_Device, args, .buffer = buffer);

	return PJ_CALL(plugin, NULL, Buffer_Device, &args) == 0 &&
	       args.device == device->handle;
}

/* True if PLACE's memory is its device's default. */
static bool is_default(const struct pj_place *place)
{
	return !place->memory || place->memory == default_memory(place->device);
}

/* Let the plugin copy. */
static int copy_directly(const struct pj_plugin *plugin, const struct pj_place *place,
			 PJRT_Buffer *source, PJRT_Buffer **ret, struct pf_err *err)
{
	PJ_ARGS(Buffer_CopyToDevice, device, .buffer = source,
		.dst_device = place->device->handle);
	PJ_ARGS(Buffer_CopyToMemory, memory, .buffer = source);
	PJRT_Buffer *made;
	int r;

	if (is_default(place)) {
		r = PJ_CALL(plugin, err, Buffer_CopyToDevice, &device);
		made = device.dst_buffer;
	} else {
		memory.dst_memory = place->memory;
		r = PJ_CALL(plugin, err, Buffer_CopyToMemory, &memory);
		made = memory.dst_buffer;
	}
	if (r == 0)
		r = pj_given(made,
			     is_default(place) ? "PJRT_Buffer_CopyToDevice"
					       : "PJRT_Buffer_CopyToMemory",
			     err);
	return r < 0 ? r : pj_buffer_made(plugin, made, ret, err);
}

/* Copy the array to the host and make a new buffer of it. */
static int copy_through_host(const struct pj_client *client, const struct pj_place *place,
			     PJRT_Buffer *source, PJRT_Buffer **ret, struct pf_err *err)
{
	pf_autofree void *bytes = NULL;
	enum pf_dtype dtype;
	struct pf_shape shape;
	uint64_t len;
	int r = pj_buffer_type(client->plugin, source, &dtype, &shape, &len, err);

	if (r < 0)
		return r;
	r = copy_memory(&bytes, len, err);
	if (r < 0)
		return r;
	r = pj_buffer_read(client->plugin, source, dtype, bytes, len, err);
	if (r < 0)
		return r;
	return upload(client, place, bytes, len, (int)dtype, &shape, ret, NULL, err);
}

int pj_buffer_copy(const struct pj_client *client, const struct pj_place *place,
		   struct PJRT_Buffer *source, struct PJRT_Buffer **ret,
		   struct pf_err *err)
{
	const struct pj_plugin *plugin = client->plugin;
	PJ_ARGS(Buffer_ElementType, type, .buffer = source);
	struct pf_err refusal = PF_ERR_INIT;
	int r = check_place(place, err);

	if (r == 0)
		r = PJ_CALL(plugin, err, Buffer_ElementType, &type);
	if (r < 0)
		return r;
	if (type.type == PJRT_Buffer_Type_TOKEN)
		return pf_err_set(err, -EINVAL, "a token has no value");
	r = copy_directly(plugin, place, source, ret, &refusal);
	/* The API lets a plugin refuse to copy to where the array is already. */
	if (r == -EINVAL && is_on(plugin, source, place->device))
		return copy_through_host(client, place, source, ret, err);
	if (r < 0 && err)
		*err = refusal;
	return r;
}
