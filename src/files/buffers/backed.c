/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers whose bytes are in files: those of the state directory that can be read when they are used. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/snapshot.h"

/* Does the file of B begin as a reader of VALUE as FORMAT would see it, and have its size? */
static bool reads_as_file(struct backed *b, const struct pf_value *value,
			  enum pf_format format, const char *stem)
{
	pf_autobuf struct pf_buf head = PF_BUF_INIT, begin = PF_BUF_INIT;
	char *at;

	if (format == PF_FORMAT_TXT || format == PF_FORMAT_NONE ||
	    pf_dtype_bits(b->dtype) < 8)
		return false;
	pf_snapshot_head(&head, value, format, stem);
	b->skip = head.len;
	if (head.failed || head.len + pf_value_type(value).len != b->size)
		return false;
	at = pf_buf_reserve(&begin, head.len + 1);
	return at && pread(b->fd, at, head.len, 0) == (ssize_t)head.len &&
	       (!head.len || !memcmp(at, head.data, head.len));
}

static int backed_value(struct device *device, struct backed *b, struct pf_value **ret,
			struct pf_err *err)
{
	const struct pf_location *location = &device->location;
	struct pf_array_type type = { .dtype = b->dtype, .shape = &b->shape };
	unsigned memory = PF_DEFAULT_MEMORY;
	int r = pf_worker_takes(location->worker, b->dtype, err);

	if (r == 0)
		r = pf_shape_bytes(&b->shape, b->dtype, &type.len, err);
	if (r == 0 && b->memory)
		r = pf_location_memory(location, b->memory, &memory, err);
	if (r < 0)
		return r;
	*ret = pf_value_of_backing(&type, b->backing,
				   pf_location_place(location, memory));
	return *ret ? 0 : pf_err_set(err, -ENOMEM, "no memory for an array");
}

int files_link_backed(struct pf_node *dir, const char *name, struct backed *b,
		      mode_t perm, const struct pf_cred *cred, struct pf_node **ret,
		      struct pf_err *err)
{
	PF_CLEANUP(pf_value_unrefp) struct pf_value *value = NULL;
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *viewed = NULL;
	struct device *device = files_device_of(dir);
	char stem[PF_NAME_MAX + 1];
	enum pf_format format;
	size_t len;
	int r = buffers_check_name(dir, name, &format, err);

	if (r < 0)
		return r;
	pf_format_of(name, &len);
	snprintf(stem, sizeof(stem), "%.*s", (int)len, name);
	viewed = buffers_find_viewed(dir, name, format, len);
	if (viewed)
		return pf_err_set(err, -EEXIST, "%s: there is a buffer %s", name, stem);
	r = backed_value(device, b, &value, err);
	if (r < 0)
		return r;
	if (!reads_as_file(b, value, format, stem))
		return pf_err_set(err, -EINVAL, "%s must be read at once", name);
	buffer = pf_buffer_of_value(&device->location, value, "state-dir");
	if (buffer) {
		pf_buffer_set_format(buffer, format);
		r = pf_buffer_charge(buffer, files_account(fs_of(dir), cred->uid), true,
				     err);
	}
	if (r < 0)
		return r;
	if (buffer)
		node = inode_new(dir->tree, buffer, format, perm, cred);
	if (!node)
		return pf_err_set(err, -ENOMEM, "no memory for %s", name);
	r = pf_dir_link(dir, name, node, false);
	if (r == 0)
		*ret = pf_steal(&node);
	return r;
}
