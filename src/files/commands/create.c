/* SPDX-License-Identifier: Apache-2.0 */
/* The ops "create" and "copy": arrays that a command declares, makes of nothing, or of others. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "files/jobs/jobs.h"
#include "pjrtfs/array_files.h"
#include "pjrtfs/json.h"

static int get_shape(struct json_object *o, struct pf_shape *ret, struct pf_err *err)
{
	struct json_object *v;
	int r;

	if (!json_object_object_get_ex(o, "shape", &v))
		return pf_err_set(err, -EINVAL, "\"shape\" is missing");
	r = files_parse_shape(v, ret, err);
	return r < 0 ? pf_err_wrap(err, r, "\"shape\"") : 0;
}

static int get_dtype(struct json_object *o, enum pf_dtype *ret, struct pf_err *err)
{
	const char *name;
	int r = command_string(o, "dtype", &name, err);

	if (r < 0)
		return r;
	*ret = pf_dtype_parse(name, strlen(name));
	if (*ret == PF_DTYPE_INVALID)
		return pf_err_set(err, -EINVAL, "\"dtype\": there is no element type %s",
				  name);
	return 0;
}

/* Wait for a made buffer to be on its device, then give it its name. */
struct creation {
	struct pf_wait waiter;
	struct task *task;
	const char *op;            /* static */
	bool excl;                 /* the name must be free */
	struct pf_buffer *buffer;  /* owned reference */
	struct pf_value *value;    /* owned reference */
	struct target target;      /* owned */
	struct json_object *reply; /* owned */
};

static void creation_end(struct creation *c, int r, struct pf_err *err)
{
	if (r >= 0 && task_answered(c->task))
		r = pf_err_set(err, -ECANCELED, "nobody waits for it any more");
	if (r >= 0)
		r = files_put_buffer(&c->target, c->buffer, PF_FORMAT_NPY, &c->task->cred,
				     c->excl, err);
	if (r < 0) {
		pf_err_wrap(err, r, "%s", c->op);
		task_fail(c->task, err);
	} else {
		task_done(c->task, 0, pf_steal(&c->reply));
	}
	json_object_put(c->reply);
	files_target_release(&c->target);
	pf_buffer_unref(c->buffer);
	pf_value_unref(c->value);
	free(c);
}

static void creation_wake(struct pf_wait *waiter)
{
	struct creation *c = pf_container_of(waiter, struct creation, waiter);
	struct pf_err err = PF_ERR_INIT;
	int r = pf_value_placed(c->value, &err);

	creation_end(c, r, &err);
}

/* The bytes of the number V as an element of DTYPE, in OUT. */
static int get_element(struct json_object *v, enum pf_dtype dtype, struct pf_buf *out,
		       struct pf_err *err)
{
	const char *text = json_object_is_type(v, json_type_boolean)
				   ? (json_object_get_boolean(v) ? "1" : "0")
				   : json_object_get_string(v);
	struct pf_shape shape;
	int r;

	if (!json_object_is_type(v, json_type_int) &&
	    !json_object_is_type(v, json_type_double) &&
	    !json_object_is_type(v, json_type_boolean) &&
	    !json_object_is_type(v, json_type_string))
		return pf_err_set(err, -EINVAL, "\"fill\": expected a number");
	r = pf_text_parse(text, strlen(text), dtype, &shape, out, err);
	if (r == 0 && out->len != pf_dtype_size(dtype))
		r = pf_err_set(err, -EINVAL, "expected one number, found %.64s", text);
	return r < 0 ? pf_err_wrap(err, r, "\"fill\"") : 0;
}

/* What "fill" and "uninitialized" ask for, as a value in *RET; NULL: neither. */
static int make_value(struct json_object *o, struct pf_buffer *buffer,
		      enum pf_dtype dtype, const struct pf_shape *shape,
		      struct pf_value **ret, struct pf_err *err)
{
	const struct pf_location *location = pf_buffer_location(buffer);
	pf_autobuf struct pf_buf element = PF_BUF_INIT;
	struct json_object *fill, *blank;
	bool fills = json_object_object_get_ex(o, "fill", &fill);
	uint64_t len;
	int r;

	*ret = NULL;
	if (json_object_object_get_ex(o, "uninitialized", &blank)) {
		if (!json_object_is_type(blank, json_type_boolean))
			return pf_err_set(err, -EINVAL,
					  "\"uninitialized\": expected true or false");
		if (json_object_get_boolean(blank)) {
			if (fills)
				return pf_err_set(err, -EINVAL,
						  "\"fill\" and \"uninitialized\" "
						  "exclude each other");
			r = pf_shape_bytes(shape, dtype, &len, err);
			if (r < 0)
				return r;
			*ret = pf_value_blank(dtype, shape, len, location->worker,
					      location->device, pf_buffer_memory(buffer));
			return *ret ? 0 : pf_err_set(err, -ENOMEM, "no memory");
		}
	}
	if (!fills)
		return 0;
	r = get_element(fill, dtype, &element, err);
	if (r == 0)
		r = pf_buffer_fill(buffer, element.data, err);
	return r < 0 ? r : pf_buffer_commit(buffer, false, ret, err);
}

int command_put_value(struct task *task, const char *op, unsigned memory,
		      struct pf_value *value, struct target *target,
		      struct json_object *reply, struct pf_err *err)
{
	struct creation *c = calloc(1, sizeof(*c));
	int r;

	if (c)
		c->buffer = pf_buffer_of_value(&files_device_of(target->dir)->location,
					       value, op);
	if (!c || !c->buffer) {
		free(c);
		json_object_put(reply);
		return pf_err_set(err, -ENOMEM, "no memory for a buffer");
	}
	pf_buffer_set_memory(c->buffer, memory);
	c->op = op;
	c->excl = !strcmp(op, "create");
	c->task = task;
	c->value = pf_value_ref(value);
	c->target = *target;
	memset(target, 0, sizeof(*target));
	c->reply = reply;
	c->waiter.wake = creation_wake;
	r = pf_value_transfer(value, &c->waiter, err);
	if (r != 0)
		creation_end(c, r, err);
	return 0;
}

/* An empty buffer for DEVICE as the command declares it. */
static int declare(struct json_object *o, const struct device *device,
		   struct pf_shape *shape, enum pf_dtype *dtype, struct pf_buffer **ret,
		   struct pf_err *err)
{
	const char *kind;
	unsigned memory = UINT32_MAX;
	int r = get_dtype(o, dtype, err);

	if (r == 0)
		r = get_shape(o, shape, err);
	if (r == 0)
		r = pf_worker_takes(device->worker, *dtype, err);
	if (r == 0 && json_object_object_get_ex(o, "memory", NULL)) {
		r = command_string(o, "memory", &kind, err);
		if (r == 0)
			r = pf_location_memory(&device->location, kind, &memory, err);
	}
	if (r < 0)
		return r;
	*ret = pf_buffer_new(&device->location, PF_FORMAT_RAW);
	if (!*ret)
		return pf_err_set(err, -ENOMEM, "no memory for a buffer");
	pf_buffer_set_memory(*ret, memory);
	return pf_buffer_declare(*ret, *dtype, shape, err);
}

/* The name must be free: nothing is made on a device to find out that it is not. */
static int check_free(const struct target *target, struct pf_err *err)
{
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *old = files_target_buffer(target);

	return old ? pf_err_set(err, -EEXIST, "there is a buffer %s already",
				target->name)
		   : 0;
}

int op_create(struct task *task, struct json_object *o, struct pf_err *err)
{
	static const char *const allowed[] = { "buffer",        "dtype",
					       "shape",         "fill",
					       "uninitialized", "memory",
					       "device",        NULL };
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
	PF_CLEANUP(pf_value_unrefp) struct pf_value *value = NULL;
	PF_CLEANUP(files_target_release) struct target target = { 0 };
	struct pf_fs *fs = task->fs;
	const struct device *device;
	struct json_object *reply;
	struct pf_shape shape;
	enum pf_dtype dtype = PF_DTYPE_INVALID;
	const char *name;
	int r = command_check_keys(o, allowed, err);

	if (r == 0)
		r = command_string(o, "buffer", &name, err);
	if (r == 0)
		r = command_device(fs, o, &device, err);
	if (r == 0)
		r = files_find_target(fs, device, name, &task->cred, &target, err);
	if (r == 0)
		r = check_free(&target, err);
	if (r == 0) {
		/* The name may lead to another device. */
		device = files_device_of(target.dir);
		r = declare(o, device, &shape, &dtype, &buffer, err);
	}
	if (r == 0)
		r = make_value(o, buffer, dtype, &shape, &value, err);
	if (r == 0 && !value)
		r = files_put_buffer(&target, buffer, PF_FORMAT_RAW, &task->cred, true,
				     err);
	if (r < 0)
		return r;
	reply = reply_new();
	pf_json_add_string(reply, "buffer", name);
	if (value)
		return command_put_value(task, "create", pf_buffer_memory(buffer), value,
					 &target, reply, err);
	task_done(task, 0, reply);
	return 0;
}

/* VALUE itself if it lives at LOCATION, else a copy for there; with a reference, or NULL. */
static struct pf_value *value_at(struct pf_value *value,
				 const struct pf_location *location)
{
	if (value->worker == location->worker && value->device == location->device)
		return pf_value_ref(value);
	return pf_value_copy(value, location->worker, location->device, UINT32_MAX);
}

int op_copy(struct task *task, struct json_object *o, struct pf_err *err)
{
	static const char *const allowed[] = { "buffer", "as", "device", NULL };
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
	PF_CLEANUP(pf_value_unrefp) struct pf_value *value = NULL;
	PF_CLEANUP(pf_value_unrefp) struct pf_value *copy = NULL;
	PF_CLEANUP(files_target_release) struct target target = { 0 };
	const struct device *device;
	const char *name, *as;
	struct json_object *reply;
	int r = command_check_keys(o, allowed, err);

	if (r == 0)
		r = command_string(o, "buffer", &name, err);
	if (r == 0)
		r = command_string(o, "as", &as, err);
	if (r == 0)
		r = command_device(task->fs, o, &device, err);
	if (r == 0)
		r = files_find_value(task->fs, device, name, &task->cred, R_OK, &buffer,
				     &value, err);
	if (r == 0)
		r = files_find_target(task->fs, device, as, &task->cred, &target, err);
	if (r < 0)
		return r;
	target.perm = files_mode_of_buffer(task->fs, device, name, &task->cred);
	copy = value_at(value, &files_device_of(target.dir)->location);
	if (!copy)
		return pf_err_set(err, -ENOMEM, "no memory for a value");
	reply = reply_new();
	pf_json_add_string(reply, "buffer", as);
	return command_put_value(task, "copy", copy->memory, copy, &target, reply, err);
}
