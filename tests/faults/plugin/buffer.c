/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: their bytes, and what is known of them. */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

static size_t type_size(PJRT_Buffer_Type type)
{
	switch (type) {
	case PJRT_Buffer_Type_S16:
	case PJRT_Buffer_Type_U16:
	case PJRT_Buffer_Type_F16:
	case PJRT_Buffer_Type_BF16:
		return 2;
	case PJRT_Buffer_Type_S32:
	case PJRT_Buffer_Type_U32:
	case PJRT_Buffer_Type_F32:
		return 4;
	case PJRT_Buffer_Type_S64:
	case PJRT_Buffer_Type_U64:
	case PJRT_Buffer_Type_F64:
	case PJRT_Buffer_Type_C64:
		return 8;
	case PJRT_Buffer_Type_C128:
		return 16;
	default:
		return 1;
	}
}

PJRT_Error *buffer_bare(PJRT_Memory *memory, PJRT_Buffer_Type type, const int64_t *dims,
			size_t rank, PJRT_Buffer **ret)
{
	PJRT_Buffer *b = calloc(1, sizeof(*b));

	if (!b)
		abort();
	b->made_by = EVENT;
	b->device = devices[memory->device];
	b->memory = memory;
	b->type = type;
	b->rank = rank;
	b->size = type_size(type);
	for (size_t i = 0; i < rank; i++) {
		if (rank > MAX_RANK || dims[i] < 0 ||
		    __builtin_mul_overflow(b->size, (size_t)dims[i], &b->size)) {
			free(b);
			return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
					 "faulty: bad shape");
		}
		b->dims[i] = dims[i];
		b->minor_to_major[i] = (int64_t)(rank - 1 - i);
	}
	count_thing(BUFFERS, 1);
	*ret = b;
	return NULL;
}

void buffer_drop_data(PJRT_Buffer *b)
{
	if (!b->borrowed)
		free(b->data);
	b->data = NULL;
	if (b->borrowing) {
		event_fire(b->borrowing);
		event_unref(b->borrowing);
		b->borrowing = NULL;
	}
	b->deleted = true;
}

void buffer_free(PJRT_Buffer *b)
{
	if (!b)
		return;
	buffer_drop_data(b);
	event_unref(b->arrival);
	count_thing(BUFFERS, -1);
	free(b);
}

PJRT_Error *buffer_new(PJRT_Memory *memory, PJRT_Buffer_Type type, const int64_t *dims,
		       size_t rank, PJRT_Buffer **ret)
{
	PJRT_Error *e = buffer_bare(memory, type, dims, rank, ret);
	size_t size;

	if (e)
		return e;
	size = ((*ret)->size + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
	(*ret)->data = aligned_alloc(ALIGNMENT, size);
	if (!(*ret)->data) {
		buffer_free(*ret);
		return error_new(PJRT_Error_Code_RESOURCE_EXHAUSTED,
				 "faulty: no %zu bytes", size);
	}
	memset((*ret)->data, 0, size);
	return NULL;
}

PJRT_Error *check_live(const PJRT_Buffer *b)
{
	if (!b->deleted)
		return NULL;
	return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
			 "faulty: the buffer is deleted");
}

GIVE(Buffer_Destroy, buffer_free(args->buffer))
GIVE(Buffer_ElementType, args->type = args->buffer->type)
GIVE(Buffer_Dimensions, args->dims = args->buffer->dims,
     args->num_dims = args->buffer->rank)
GIVE(Buffer_OnDeviceSizeInBytes, args->on_device_size_in_bytes = args->buffer->size)
GIVE(Buffer_Memory, args->memory = args->buffer->memory)
GIVE(Buffer_Device, args->device = args->buffer->device)
GIVE(Buffer_IsOnCpu, args->is_on_cpu = !is_own(args->buffer->memory))

PJRT_Error *faulty_Buffer_ReadyEvent(PJRT_Buffer_ReadyEvent_Args *args)
{
	PJRT_Error *e = check_live(args->buffer);

	if (!e && args->buffer->arrival) {
		args->event = args->buffer->arrival;
		event_ref(args->event);
	} else if (!e) {
		args->event = event_new(args->buffer->made_by, NULL);
	}
	return e;
}
