/* SPDX-License-Identifier: Apache-2.0 */
/* The ops "create" and "copy". */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "files/jobs/jobs.h"
#include "pjrtfs/array_files.h"
#include "pjrtfs/json.h"

/*
 * The key "layout" of command O for an array of SHAPE: 1 and *RET; 0: it is not there.  -EINVAL.
 */
static int get_layout(struct json_object *o, const struct pf_shape *shape,
		      struct pf_layout *ret, struct pf_err *err)
{
	struct json_object *list;
	struct pf_shape dims;

	if (!json_object_object_get_ex(o, "layout", &list))
		return 0;
	if (files_parse_shape(list, &dims, NULL) < 0 ||
	    pf_layout_make(shape, dims.dims, dims.rank, ret) < 0)
		return pf_err_set(
			err, -EINVAL,
			"\"layout\": expected the %u dimensions, from 0 on, the "
			"fastest varying one first, found %.64s",
			shape->rank, json_object_to_json_string(list));
	return 1;
}

/* --- a value becomes a buffer ------------------------------------------------------- */

/* An array that is sent to its device and then named. */
struct creation {
	struct pf_wait transferred;
	struct task_wait
		wait; /* for another member of the group, if that sends the array */
	struct task *task;
	const char *op;           /* static */
	struct pf_buffer *buffer; /* owned reference */
	struct pf_value *value;   /* owned reference */
	struct target target;     /* owned */
};

static void succeed(struct task *task, const char *buffer)
{
	struct json_object *reply = reply_new();

	pf_json_add_string(reply, "buffer", buffer);
	task_done(task, NULL, reply);
}

static void creation_end(struct creation *c, int r, struct pf_err *err)
{
	bool excl = !strcmp(c->op, "create"); /* the name must be free */

	if (pf_value_from(c->value))
		task_wait_end(c->task);
	if (r >= 0 && task_answered(c->task))
		r = pf_err_set(err, -ECANCELED, "nobody waits for it any more");
	if (r >= 0)
		r = files_put_buffer(&c->target, c->buffer, PF_FORMAT_NPY, &c->task->cred,
				     excl, err);
	if (r < 0) {
		pf_err_wrap(err, r, "%s", c->op);
		task_fail(c->task, err);
	} else {
		succeed(c->task, c->target.name);
	}
	files_target_release(&c->target);
	pf_buffer_unref(c->buffer);
	pf_value_unref(c->value);
	free(c);
}

static void creation_wake(struct pf_wait *transferred)
{
	struct creation *c = pf_container_of(transferred, struct creation, transferred);
	struct pf_err err = PF_ERR_INIT;
	int r = pf_value_placed(c->value, &err);

	creation_end(c, r, &err);
}

/* The worker's answer ends it. */
static bool creation_leave(struct task_wait *wait)
{
	struct creation *c = pf_container_of(wait, struct creation, wait);

	pf_peer_cancel(pf_value_place(c->value).worker, pf_value_from(c->value));
	return false;
}

int command_device(const struct task *task, const struct target *target,
		   const struct device **ret, struct pf_err *err)
{
	const struct home *home;
	int r = files_home(task->fs, task->cred.uid, &home, err);

	if (r == 0)
		*ret = files_device_in(home, files_device_of(target->dir));
	return r;
}

int command_memory(const struct task *task, const struct target *target, const char *kind,
		   unsigned *ret, struct pf_err *err)
{
	PF_CLEANUP(command_leave_devicep) const struct device *device = NULL;
	int r;

	if (!kind)
		return 0;
	r = command_device(task, target, &device, err);
	return r < 0 ? r : pf_location_memory(&device->location, kind, ret, err);
}

int command_put_value(struct task *task, const char *op, struct pf_value *value,
		      struct target *target, struct pf_err *err)
{
	struct creation *c = calloc(1, sizeof(*c));
	int r;

	if (c)
		c->buffer = pf_buffer_of_value(&files_device_of(target->dir)->location,
					       value, op);
	if (!c || !c->buffer) {
		free(c);
		return pf_err_set(err, -ENOMEM, "no memory for a buffer");
	}
	c->op = op;
	c->task = task;
	c->value = pf_value_ref(value);
	c->target = *target;
	memset(target, 0, sizeof(*target));
	c->transferred.wake = creation_wake;
	if (pf_value_from(value)) {
		c->wait = (struct task_wait){ .task = task_ref(task),
					      .leave = creation_leave };
		task_wait_begin(&c->wait);
	}
	r = pf_value_transfer(value, &c->transferred, err);
	if (r != 0)
		creation_end(c, r, err);
	if (pf_value_from(value)) {
		task_wait_check(task);
		task_unref(task);
	}
	return 0;
}

/* --- create ------------------------------------------------------------------------- */

/* The array that a command declares. */
struct declared {
	const char *dtype, *memory; /* memory NULL: the device's default */
	bool uninitialized;
	struct json_object *shape, *fill; /* borrowed */
	bool fills;
};

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
	r = text ? pf_text_parse(text, strlen(text), dtype, &shape, out, err)
		 : pf_err_set(err, -ENOMEM, "no memory for a number");
	if (r == 0 && out->len != pf_dtype_size(dtype))
		r = pf_err_set(err, -EINVAL, "expected one number, found %.64s", text);
	return r < 0 ? pf_err_wrap(err, r, "\"fill\"") : 0;
}

/* Make the array that D declares, in *RET; NULL: BUFFER stays empty. */
static int make_value(const struct declared *d, struct pf_buffer *buffer,
		      struct pf_value **ret, struct pf_err *err)
{
	pf_autobuf struct pf_buf element = PF_BUF_INIT;
	struct pf_buffer_facts facts;
	uint64_t len;
	int r;

	if (d->uninitialized && d->fills)
		return pf_err_set(err, -EINVAL,
				  "\"fill\" and \"uninitialized\" exclude each other");
	if (!d->uninitialized && !d->fills)
		return 0;
	pf_buffer_facts(buffer, &facts);
	if (d->fills) {
		r = get_element(d->fill, facts.dtype, &element, err);
		if (r == 0)
			r = pf_buffer_fill(buffer, element.data, err);
		return r < 0 ? r : pf_buffer_commit(buffer, false, ret, err);
	}
	r = pf_shape_bytes(&facts.shape, facts.dtype, &len, err);
	if (r < 0)
		return r;
	*ret = pf_value_blank(&(struct pf_array_type){ facts.dtype, &facts.shape, len },
			      pf_location_place(facts.location, facts.memory));
	if (!*ret)
		return pf_err_set(err, -ENOMEM, "no memory");
	pf_value_charge_to(*ret, pf_buffer_account(buffer));
	return 0;
}

int command_type(const char *dtype, struct json_object *shape, struct pf_worker *worker,
		 enum pf_dtype *ret, struct pf_shape *ret_shape, struct pf_err *err)
{
	int r;

	*ret = pf_dtype_parse(dtype, strlen(dtype));
	if (*ret == PF_DTYPE_INVALID)
		return pf_err_set(err, -EINVAL, "\"dtype\": there is no element type %s",
				  dtype);
	if (!shape)
		return pf_err_set(err, -EINVAL, "\"shape\" is missing");
	r = files_parse_shape(shape, ret_shape, err);
	return r < 0 ? pf_err_wrap(err, r, "\"shape\"")
		     : pf_worker_takes(worker, *ret, err);
}

/* Make an empty buffer of ACCOUNT on DEVICE as D declares it. */
static int declare(const struct declared *d, const struct device *device,
		   struct pf_account *account, struct pf_buffer **ret, struct pf_err *err)
{
	unsigned memory = PF_DEFAULT_MEMORY;
	enum pf_dtype dtype;
	struct pf_shape shape;
	int r = files_check_device(device, err);

	if (r == 0)
		r = command_type(d->dtype, d->shape, device->worker, &dtype, &shape, err);
	if (r == 0 && d->memory)
		r = pf_location_memory(&device->location, d->memory, &memory, err);
	if (r < 0)
		return r;
	*ret = pf_buffer_new(&device->location, memory, PF_FORMAT_RAW);
	if (!*ret)
		return pf_err_set(err, -ENOMEM, "no memory for a buffer");
	pf_buffer_charge_to(*ret, account);
	return pf_buffer_declare(*ret, dtype, &shape, err);
}

/* Check that the name is free before an array is made on a device. */
static int check_free(const struct target *target, struct pf_err *err)
{
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *old = files_target_buffer(target);

	return old ? pf_err_set(err, -EEXIST, "there is a buffer %s already",
				target->name)
		   : 0;
}

/* Give VALUE, which is new, the layout that O names; NULL: the buffer stays empty. */
static int lay_out_new(struct json_object *o, struct pf_value *value, struct pf_err *err)
{
	struct pf_layout layout;
	int r;

	if (!value && json_object_object_get_ex(o, "layout", NULL))
		return pf_err_set(err, -EINVAL,
				  "\"layout\" needs \"fill\" or \"uninitialized\": what "
				  "files write is row-major");
	r = value ? get_layout(o, pf_value_type(value).shape, &layout, err) : 0;
	if (r > 0)
		pf_value_set_layout(value, &layout);
	return r < 0 ? r : 0;
}

enum {
	FILL_SLOW = 16 << 20
}; /* bytes: a thread fills more, so that no other request waits */

struct filling {
	struct task *task;
	struct json_object *o;    /* owned: a copy of the command */
	struct pf_buffer *buffer; /* owned reference */
	struct target target;     /* owned */
};

static void filling_free(struct filling *f)
{
	json_object_put(f->o);
	pf_buffer_unref(f->buffer);
	files_target_release(&f->target);
	free(f);
}

static void *fill(void *arg)
{
	struct filling *f = arg;
	struct declared d = { .fills = true };
	struct pf_err err = PF_ERR_INIT;
	PF_CLEANUP(pf_value_unrefp) struct pf_value *value = NULL;
	int r;

	json_object_object_get_ex(f->o, "fill", &d.fill);
	r = make_value(&d, f->buffer, &value, &err);
	if (r == 0)
		r = lay_out_new(f->o, value, &err);
	if (r == 0)
		r = command_put_value(f->task, "create", value, &f->target, &err);
	if (r < 0) {
		pf_err_wrap(&err, r, "create");
		task_fail(f->task, &err);
	}
	filling_free(f);
	return NULL;
}

/* Have a thread fill BUFFER and give it the name TARGET (taken) for TASK.  False: no thread. */
static bool fill_on_thread(struct task *task, struct json_object *o,
			   struct pf_buffer *buffer, struct target *target)
{
	struct filling *f = calloc(1, sizeof(*f));

	if (!f)
		return false;
	*f = (struct filling){ task, pf_json_copy(o), pf_buffer_ref(buffer), *target };
	if (f->o && pf_thread_start(NULL, fill, f) == 0) {
		memset(target, 0, sizeof(*target));
		return true;
	}
	memset(&f->target, 0, sizeof(f->target));
	filling_free(f);
	return false;
}

static bool is_slow(const struct declared *d, struct pf_buffer *buffer)
{
	struct pf_buffer_facts facts;
	uint64_t len;

	pf_buffer_facts(buffer, &facts);
	return d->fills && !d->uninitialized &&
	       pf_shape_bytes(&facts.shape, facts.dtype, &len, NULL) == 0 &&
	       len > FILL_SLOW;
}

int op_create(struct task *task, struct json_object *o, struct pf_err *err)
{
	struct declared d = { .memory = NULL };
	const struct device *device;
	const char *name;
	const struct command_key keys[] = {
		{ "buffer", .string = &name },
		{ "dtype", .string = &d.dtype },
		{ .key = "shape" },
		{ .key = "fill" },
		{ "uninitialized", .flag = &d.uninitialized },
		{ "memory", .string = &d.memory, .optional = true },
		{ .key = "layout" },
		{ "device", .device = &device },
		{ 0 },
	};
	PF_CLEANUP(command_leave_devicep) const struct device *own = NULL;
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
	PF_CLEANUP(pf_value_unrefp) struct pf_value *value = NULL;
	PF_CLEANUP(files_target_release) struct target target = { 0 };
	int r = command_parse(task->fs, o, keys, err);

	d.fills = json_object_object_get_ex(o, "fill", &d.fill);
	json_object_object_get_ex(o, "shape", &d.shape);
	if (r == 0)
		r = files_find_target(device, name, &task->cred, &target, err);
	if (r == 0)
		r = check_free(&target, err);
	if (r == 0) /* the name may lead to another device than "device" */
		r = command_device(task, &target, &own, err);
	if (r == 0)
		r = declare(&d, own, files_account(task->fs, task->cred.uid), &buffer,
			    err);
	if (r == 0 && is_slow(&d, buffer) && fill_on_thread(task, o, buffer, &target))
		return 0;
	if (r == 0)
		r = make_value(&d, buffer, &value, err);
	if (r == 0)
		r = lay_out_new(o, value, err);
	if (r == 0 && value)
		return command_put_value(task, "create", value, &target, err);
	if (r == 0)
		r = files_put_buffer(&target, buffer, PF_FORMAT_RAW, &task->cred, true,
				     err);
	if (r == 0)
		succeed(task, name);
	return r;
}

/* --- copy --------------------------------------------------------------------------- */

/* Give *COPY of VALUE, which may be VALUE itself, the layout that O names. */
static int lay_out_copy(struct json_object *o, struct pf_value *value,
			struct pf_value **copy, struct pf_err *err)
{
	struct pf_layout layout;
	int r = get_layout(o, pf_value_type(value).shape, &layout, err);

	if (r <= 0)
		return r;
	if (*copy != value) {
		pf_value_set_layout(*copy, &layout);
		return 0;
	}
	pf_value_unref(*copy);
	*copy = pf_value_in_layout(value, &layout);
	return *copy ? 0 : pf_err_set(err, -ENOMEM, "no memory for a value");
}

int op_copy(struct task *task, struct json_object *o, struct pf_err *err)
{
	const struct device *device;
	const char *name, *as, *kind = NULL;
	unsigned memory = PF_ANY_MEMORY;
	const struct command_key keys[] = {
		{ "buffer", .string = &name },
		{ "as", .string = &as },
		{ "memory", .string = &kind, .optional = true },
		{ .key = "layout" },
		{ "device", .device = &device },
		{ 0 },
	};
	PF_CLEANUP(command_leave_devicep) const struct device *own = NULL;
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
	PF_CLEANUP(pf_value_unrefp) struct pf_value *value = NULL;
	PF_CLEANUP(pf_value_unrefp) struct pf_value *copy = NULL;
	PF_CLEANUP(files_target_release) struct target target = { 0 };
	int r = command_parse(task->fs, o, keys, err);

	if (r == 0)
		r = files_find_value(device, name, &task->cred, R_OK, &buffer, &value,
				     err);
	if (r == 0)
		r = files_find_target(device, as, &task->cred, &target, err);
	if (r < 0)
		return r;
	target.perm = files_mode_of_buffer(device, name, &task->cred);
	r = command_device(task, &target, &own, err);
	if (r == 0)
		r = command_memory(task, &target, kind, &memory, err);
	if (r < 0)
		return r;
	copy = pf_value_for(value, pf_location_place(&own->location, memory),
			    files_account(task->fs, task->cred.uid));
	if (!copy)
		return pf_err_set(err, -ENOMEM, "no memory for a value");
	r = lay_out_copy(o, value, &copy, err);
	if (r < 0)
		return r;
	return command_put_value(task, "copy", copy, &target, err);
}
