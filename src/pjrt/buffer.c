/* Buffers: from host memory, to host memory, and where they lie. */
#include "pjrtfs/pjrt/buffer.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "pjrtfs/pjrt/api.h"

static bool on_cpu(const struct pj_plugin *plugin, PJRT_Buffer *buffer)
{
	PJRT_Buffer_IsOnCpu_Args args = { PJ_SIZE(PJRT_Buffer_IsOnCpu_Args),
					  .buffer = buffer };

	return PJ_CALL(plugin, NULL, PJRT_Buffer_IsOnCpu, &args) == 0 && args.is_on_cpu;
}

const void *pj_buffer_address(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer)
{
	PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args opaque = {
		PJ_SIZE(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args), .buffer = buffer
	};
	PJRT_Buffer_UnsafePointer_Args unsafe = { PJ_SIZE(PJRT_Buffer_UnsafePointer_Args),
						  .buffer = buffer };

	if (!on_cpu(plugin, buffer))
		return NULL;
	if (PJ_CALL(plugin, NULL, PJRT_Buffer_OpaqueDeviceMemoryDataPointer, &opaque) ==
	    0)
		return opaque.device_memory_ptr;
	if (PJ_CALL(plugin, NULL, PJRT_Buffer_UnsafePointer, &unsafe) == 0)
		return (const void *)unsafe.buffer_pointer;
	return NULL;
}

void pj_buffer_destroy(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer)
{
	PJRT_Buffer_Destroy_Args args = { PJ_SIZE(PJRT_Buffer_Destroy_Args),
					  .buffer = buffer };

	if (buffer)
		(void)PJ_CALL(plugin, NULL, PJRT_Buffer_Destroy, &args);
}

int pj_buffer_await(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer,
		    struct pf_err *err)
{
	PJRT_Buffer_ReadyEvent_Args args = { PJ_SIZE(PJRT_Buffer_ReadyEvent_Args),
					     .buffer = buffer };
	int r = PJ_CALL(plugin, err, PJRT_Buffer_ReadyEvent, &args);

	return r < 0 ? r : pj_event_await(plugin, args.event, err);
}

uint64_t pj_buffer_device_bytes(const struct pj_plugin *plugin,
				struct PJRT_Buffer *buffer)
{
	PJRT_Buffer_OnDeviceSizeInBytes_Args args = {
		PJ_SIZE(PJRT_Buffer_OnDeviceSizeInBytes_Args), .buffer = buffer
	};

	if (PJ_CALL(plugin, NULL, PJRT_Buffer_OnDeviceSizeInBytes, &args) < 0)
		return 0;
	return args.on_device_size_in_bytes;
}

/* Plugins abort on what this refuses. */
static int check_source(const struct pj_client *client, const struct pj_place *place,
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
	if (!place->device->addressable)
		return pf_err_set(err, -EINVAL, "device %d belongs to another process",
				  place->device->id);
	return 0;
}

/*
 * Wait for the new buffer.  DONE, which is ours to destroy, fires when the plugin no
 * longer needs the host bytes: for a copy soon, for an alias not before the buffer's end.
 */
static int settle(const struct pj_client *client, PJRT_Buffer *buffer, PJRT_Event *done,
		  const void *src, uint64_t len, const void **alias, struct pf_err *err)
{
	const struct pj_plugin *plugin = client->plugin;
	const char *at = pj_buffer_address(plugin, buffer);
	bool inside = at >= (const char *)src && at < (const char *)src + len;
	int r;

	*alias = inside ? at : NULL;
	if (!at && on_cpu(plugin, buffer)) {
		/* It may be an alias or not: take it for one, and do not wait. */
		*alias = src;
		inside = true;
	}
	if (inside)
		pj_event_drop(plugin, done);
	r = inside ? 0 : pj_event_await(plugin, done, err);
	if (r == 0)
		r = pj_buffer_await(plugin, buffer, err);
	return r;
}

int pj_buffer_from_host(const struct pj_client *client, const struct pj_place *place,
			const void *src, uint64_t len, int dtype,
			const struct pf_shape *shape, struct PJRT_Buffer **ret,
			const void **alias, struct pf_err *err)
{
	PJRT_Client_BufferFromHostBuffer_Args args = {
		PJ_SIZE(PJRT_Client_BufferFromHostBuffer_Args),
		.client = client->handle,
		.data = src,
		.type = (PJRT_Buffer_Type)dtype,
		.dims = shape->dims,
		.num_dims = shape->rank,
		.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableZeroCopy,
		.device = place->device->handle,
		.memory = place->memory ? place->memory->handle : NULL,
	};
	int r = check_source(client, place, len, dtype, shape, err);

	if (r == 0)
		r = PJ_CALL(client->plugin, err, PJRT_Client_BufferFromHostBuffer, &args);
	if (r == 0 && len == 0) {
		/* Nothing to copy, nothing to alias; whether DONE ever fires is not said. */
		*alias = NULL;
		pj_event_drop(client->plugin, args.done_with_host_buffer);
		r = pj_buffer_await(client->plugin, args.buffer, err);
	} else if (r == 0) {
		r = settle(client, args.buffer, args.done_with_host_buffer, src, len,
			   alias, err);
	}
	if (r < 0) {
		pj_buffer_destroy(client->plugin, args.buffer);
		return r;
	}
	*ret = args.buffer;
	return 0;
}

int pj_buffer_type(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer,
		   enum pf_dtype *dtype, uint64_t *len, struct pf_err *err)
{
	PJRT_Buffer_ElementType_Args type = { PJ_SIZE(PJRT_Buffer_ElementType_Args),
					      .buffer = buffer };
	PJRT_Buffer_Dimensions_Args dims = { PJ_SIZE(PJRT_Buffer_Dimensions_Args),
					     .buffer = buffer };
	struct pf_shape shape;
	int r = PJ_CALL(plugin, err, PJRT_Buffer_ElementType, &type);

	if (r < 0)
		return r;
	*dtype = (enum pf_dtype)type.type;
	*len = 0;
	if (type.type == PJRT_Buffer_Type_TOKEN)
		return 0;
	if (!pf_dtype_valid((int)type.type))
		return pf_err_set(err, -EOPNOTSUPP,
				  "element type %d is unknown to this build",
				  (int)type.type);
	r = PJ_CALL(plugin, err, PJRT_Buffer_Dimensions, &dims);
	if (r < 0)
		return r;
	if (dims.num_dims > PF_MAX_RANK)
		return pf_err_set(err, -EOPNOTSUPP, "rank %zu is more than %d",
				  dims.num_dims, PF_MAX_RANK);
	shape.rank = (unsigned)dims.num_dims;
	if (dims.num_dims)
		memcpy(shape.dims, dims.dims, dims.num_dims * sizeof(shape.dims[0]));
	return pf_shape_bytes(&shape, *dtype, len, err);
}

int pj_buffer_read(const struct pj_plugin *plugin, struct PJRT_Buffer *buffer,
		   enum pf_dtype dtype, void *dst, uint64_t len, struct pf_err *err)
{
	PJRT_Buffer_ToHostBuffer_Args args = { PJ_SIZE(PJRT_Buffer_ToHostBuffer_Args),
					       .src = buffer, .dst = dst,
					       .dst_size = len };
	int r;

	if (dtype == PF_DTYPE_TOKEN) /* plugins abort */
		return pf_err_set(err, -EINVAL, "a token has no value");
	if (len == 0)
		return 0;
	/* Packed on the device, one element a byte on the host: only the plugin unpacks. */
	if (pf_dtype_bits(dtype) >= 8) {
		const void *at = pj_buffer_address(plugin, buffer);

		if (at && pj_buffer_device_bytes(plugin, buffer) >= len) {
			memcpy(dst, at, len);
			return 0;
		}
	}
	r = PJ_CALL(plugin, err, PJRT_Buffer_ToHostBuffer, &args);
	return r < 0 ? r : pj_event_await(plugin, args.event, err);
}
