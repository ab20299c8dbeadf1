/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes into buffers, out of them, and from one to another. */
#include <string.h>

#include "plugin.h"

PJRT_Error *faulty_Client_BufferFromHostBuffer(
	PJRT_Client_BufferFromHostBuffer_Args *args)
{
	PJRT_Error *e = inject(UPLOAD);
	PJRT_Memory *memory = memory_of(args->device, args->memory);
	bool zero_copy = args->host_buffer_semantics >=
			 PJRT_HostBufferSemantics_kImmutableZeroCopy;
	bool copies = copies_uploads(memory);
	bool borrows = zero_copy && !copies && (uintptr_t)args->data % ALIGNMENT == 0;
	PJRT_Buffer *b;

	if (!e)
		e = (borrows ? buffer_bare : buffer_new)(memory, args->type, args->dims,
							 args->num_dims, &b);
	if (e)
		return e;
	if (borrows) {
		b->data = (char *)(uintptr_t)args->data;
		b->borrowed = true;
	} else {
		memcpy(b->data, args->data, b->size);
	}
	if (borrows || (zero_copy && copies)) {
		b->borrowing = event_alloc();
		event_ref(b->borrowing);
		args->done_with_host_buffer = b->borrowing;
	} else {
		args->done_with_host_buffer = event_new(UPLOAD, NULL);
	}
	args->buffer = b;
	return NULL;
}

/* Copy LEN bytes from OFFSET; what is out of range becomes the event's error. */
static PJRT_Event *copy_out(const PJRT_Buffer *b, void *dst, size_t offset, size_t len)
{
	PJRT_Error *why = NULL;
	PJRT_Event *event;

	if (offset > b->size || len > b->size - offset)
		why = error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				"faulty: %zu bytes at %zu of %zu", len, offset, b->size);
	else if (len)
		memcpy(dst, b->data + offset, len);
	event = event_new(DOWNLOAD, why);
	dma_download(dst, len, event);
	return event;
}

PJRT_Error *faulty_Buffer_ToHostBuffer(PJRT_Buffer_ToHostBuffer_Args *args)
{
	PJRT_Error *e = check_live(args->src);

	if (e)
		return e;
	if (!args->dst) {
		args->dst_size = args->src->size;
		return NULL;
	}
	e = inject(DOWNLOAD);
	if (!e && args->dst_size < args->src->size)
		args->event = event_new(DOWNLOAD,
					error_new(PJRT_Error_Code_INVALID_ARGUMENT,
						  "faulty: %zu bytes are too few for %zu",
						  args->dst_size, args->src->size));
	else if (!e)
		args->event = copy_out(args->src, args->dst, 0, args->src->size);
	return e;
}

/* Does the buffer have an address that a caller may get? */
static PJRT_Error *check_pointer(const PJRT_Buffer *b)
{
	char fault[TEXT_LEN];
	PJRT_Error *e = inject(POINTER);

	if (e)
		return e;
	if (find_fault(DOWNLOAD, fault))
		return error_new(PJRT_Error_Code_UNIMPLEMENTED,
				 "faulty: addresses are not told");
	return check_live(b);
}

PJRT_Error *faulty_Buffer_UnsafePointer(PJRT_Buffer_UnsafePointer_Args *args)
{
	PJRT_Error *e = check_pointer(args->buffer);

	if (!e)
		args->buffer_pointer = (uintptr_t)args->buffer->data;
	return e;
}

PJRT_Error *faulty_Buffer_OpaqueDeviceMemoryDataPointer(
	PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args *args)
{
	PJRT_Error *e = check_pointer(args->buffer);

	if (!e)
		args->device_memory_ptr = args->buffer->data;
	return e;
}

static PJRT_Error *copy_buffer(const PJRT_Buffer *src, PJRT_Memory *memory,
			       PJRT_Buffer **ret)
{
	PJRT_Error *e = check_live(src);

	if (!e)
		e = inject(COPY);
	if (!e)
		e = buffer_new(memory, src->type, src->dims, src->rank, ret);
	if (e)
		return e;
	(*ret)->made_by = COPY;
	memcpy((*ret)->data, src->data, src->size);
	return NULL;
}

PJRT_Error *faulty_Buffer_CopyToDevice(PJRT_Buffer_CopyToDevice_Args *args)
{
	return copy_buffer(args->buffer, &args->dst_device->memory, &args->dst_buffer);
}

PJRT_Error *faulty_Buffer_CopyToMemory(PJRT_Buffer_CopyToMemory_Args *args)
{
	return copy_buffer(args->buffer, args->dst_memory, &args->dst_buffer);
}

PJRT_Error *faulty_Client_CreateUninitializedBuffer(
	PJRT_Client_CreateUninitializedBuffer_Args *args)
{
	PJRT_Error *e = buffer_new(memory_of(args->device, args->memory),
				   args->shape_element_type, args->shape_dims,
				   args->shape_num_dims, &args->buffer);

	if (e)
		return e;
	memset(args->buffer->data, 0xa5, args->buffer->size);
	return NULL;
}
