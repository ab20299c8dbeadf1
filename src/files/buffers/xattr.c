/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a buffer as extended attributes, and setting dtype, shape and memory. */
#include <errno.h>
#include <string.h>
#include <sys/xattr.h>

#include "entry.h"

#define PREFIX "user.pjrtfs."

/* One attribute of x.json's object, by its key. */
static const struct {
	const char *name;
	bool settable;
} attributes[] = {
	{ "dtype", true },
	{ "shape", true },
	{ "layout", false },
	{ "device", false },
	{ "memory", true },
	{ "bytes", false },
	{ "on_device_bytes", false },
	{ "state", false },
	{ "id", false },
};

enum { N_ATTRIBUTES = sizeof(attributes) / sizeof(attributes[0]), MAX_VALUE = 4096 };

static int find(const char *name)
{
	size_t len = strlen(PREFIX);

	if (strncmp(name, PREFIX, len))
		return -1;
	for (int i = 0; i < N_ATTRIBUTES; i++)
		if (!strcmp(attributes[i].name, name + len))
			return i;
	return -1;
}

/* x.json's object. */
static struct json_object *describe(struct pf_node *node)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_buffer *b = buffer_of(node);
	struct json_object *o;

	pf_buffer_describe(b, "", &text);
	o = text.failed || !text.data ? NULL : json_tokener_parse(text.data);
	/* The buffer's own number: as long as it lives no other has it. */
	if (o)
		json_object_object_add(o, "id",
				       json_object_new_int64(
					       (int64_t)facet_of(node)->entry->id));
	return o;
}

static bool print_value(struct json_object *o, int i, struct pf_buf *out)
{
	struct json_object *v;

	if (!json_object_object_get_ex(o, attributes[i].name, &v))
		return false;
	pf_buf_puts(out,
		    json_object_is_type(v, json_type_string)
			    ? json_object_get_string(v)
			    : json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN));
	return true;
}

int buffer_get_xattr(struct pf_node *node, const char *name, struct pf_buf *out,
		     struct pf_err *err)
{
	struct json_object *o;
	int i = find(name);
	bool found;

	if (i < 0)
		return pf_err_set(err, -ENODATA, "there is no attribute %.64s", name);
	o = describe(node);
	if (!o)
		return pf_err_set(err, -ENOMEM, "no memory for attributes");
	found = print_value(o, i, out);
	json_object_put(o);
	return found ? 0
		     : pf_err_set(err, -ENODATA, "it has no %s yet", attributes[i].name);
}

int buffer_list_xattr(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	struct json_object *o = describe(node);

	if (!o)
		return pf_err_set(err, -ENOMEM, "no memory for attributes");
	for (int i = 0; i < N_ATTRIBUTES; i++) {
		if (!json_object_object_get_ex(o, attributes[i].name, NULL))
			continue;
		pf_buf_puts(out, PREFIX);
		pf_buf_append(out, attributes[i].name, strlen(attributes[i].name) + 1);
	}
	json_object_put(o);
	return 0;
}

/* "[2,3]" or "2,3"; "" and "[]" are a scalar's. */
static int parse_shape(const char *text, struct pf_shape *ret, struct pf_err *err)
{
	pf_autobuf struct pf_buf list = PF_BUF_INIT;
	struct json_object *o;
	int r;

	pf_buf_printf(&list, *text == '[' ? "%s" : "[%s]", text);
	o = list.failed ? NULL : json_tokener_parse(list.data);
	r = o ? files_parse_shape(o, ret, err)
	      : pf_err_set(err, -EINVAL, "expected extents as in 2,3, found %.64s", text);
	json_object_put(o);
	return r;
}

static int set_memory(struct pf_buffer *b, const char *kind, struct pf_err *err)
{
	PF_CLEANUP(pf_value_unrefp) struct pf_value *value = NULL;
	const struct pf_place *place = pf_buffer_place(b);
	unsigned memory;
	int r = pf_place_memory(place, kind, &memory, err);

	if (r == 0 && memory != pf_buffer_memory(b))
		r = pf_buffer_move(b, place, memory, &value, err);
	if (r == 0 && value)
		buffer_place_start(b, value, true, NULL);
	return r;
}

static int set(struct pf_node *node, const char *key, const char *text,
	       struct pf_err *err)
{
	struct pf_buffer *b = buffer_of(node);
	struct pf_shape shape;
	enum pf_dtype dtype;
	int r;

	if (!strcmp(key, "memory"))
		return set_memory(b, text, err);
	if (!strcmp(key, "dtype")) {
		dtype = pf_dtype_parse(text, strlen(text));
		if (dtype == PF_DTYPE_INVALID)
			return pf_err_set(err, -EINVAL, "there is no element type %.64s",
					  text);
		r = pf_worker_takes(pf_buffer_place(b)->worker, dtype, err);
		if (r == 0)
			r = pf_buffer_set_dtype(b, dtype, err);
	} else {
		r = parse_shape(text, &shape, err);
		if (r == 0)
			r = pf_buffer_set_shape(b, &shape, err);
	}
	if (r > 0) {
		buffer_commit_start(node, true, NULL);
		entry_changed(node);
	}
	return r < 0 ? r : 0;
}

int buffer_set_xattr(struct pf_node *node, const char *name, const void *value,
		     size_t len, int flags, struct pf_err *err)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT, now = PF_BUF_INIT;
	int i = find(name);

	if (i < 0)
		return pf_err_set(err, -EOPNOTSUPP, "there is no attribute %.64s", name);
	if (len > MAX_VALUE || memchr(value, 0, len))
		return pf_err_set(err, -EINVAL, "%s: no such value", name);
	pf_buf_append(&text, value, len);
	if (text.failed)
		return -ENOMEM;
	if ((flags & XATTR_CREATE) && buffer_get_xattr(node, name, &now, NULL) == 0)
		return -EEXIST;
	/* What is so already may be set again. */
	now.len = 0;
	if (buffer_get_xattr(node, name, &now, NULL) == 0 && now.len == len &&
	    !memcmp(now.data, value, len))
		return 0;
	/* Copies bring along what the original was told to be. */
	if (!attributes[i].settable)
		return 0;
	return set(node, attributes[i].name, text.data ? text.data : "", err);
}

/* They follow from what the buffer is: rsync(1), which removes those that its source has not,
 * need not know that. */
int buffer_remove_xattr(struct pf_node *node, const char *name, struct pf_err *err)
{
	(void)node;
	(void)name;
	(void)err;
	return 0;
}
