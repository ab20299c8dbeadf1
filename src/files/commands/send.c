/* SPDX-License-Identifier: Apache-2.0 */
/* The ops "send" and "receive": arrays to and from other members of the plugin's group. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "pjrtfs/json.h"

#define MAX_KEY (UINT64_C(1) << 53) /* JSON's numbers carry it, also as doubles */

/* The keys of both that name the other side. */
struct named {
	const char *device;
	uint64_t key;
};

/*
 * The other side of a transfer of WORKER's plugin that the command O names.  A key is all that a
 * receiver needs, so only one user moves arrays.
 */
static int find_peer(const struct task *task, struct json_object *o,
		     const struct named *named, struct pf_worker *worker,
		     struct pf_peer *ret, struct pf_err *err)
{
	const struct pf_fs *fs = task->fs;
	const struct pf_device_desc *desc;

	if (!files_owns_mount(fs, task->cred.uid))
		return pf_err_set(err, -EPERM,
				  "arrays of other processes of the group: only the "
				  "mount's owner may move them");
	if (!json_object_object_get_ex(o, "key", NULL))
		return pf_err_set(err, -EINVAL, "\"key\" is missing");
	if (!pf_worker_in_group(worker))
		return pf_err_set(err, -EOPNOTSUPP, "plugin %s is in no group",
				  pf_worker_name(worker));
	for (unsigned i = 0; i < fs->n_devices; i++)
		if (!strcmp(fs->devices[i].name, named->device))
			return pf_err_set(err, -EINVAL,
					  "device %s is this process's own: use copy",
					  named->device);
	for (unsigned i = 0; i < fs->n_remote; i++) {
		if (strcmp(fs->remote[i].name, named->device) != 0 ||
		    fs->remote[i].worker != worker)
			continue;
		desc = &pf_worker_description(worker)->devices[fs->remote[i].index];
		*ret = (struct pf_peer){
			.side = { .key = named->key,
				  .device = desc->id,
				  .process = (uint32_t)desc->process_index },
			.id = pf_worker_id(worker)
		};
		return 0;
	}
	return pf_err_set(err, -ENODEV,
			  "there is no device %.64s in another process of plugin %s's "
			  "group",
			  named->device, pf_worker_name(worker));
}

/* --- send --------------------------------------------------------------------------- */

/* An array that is brought to its device, and sent from there. */
struct sending {
	struct pf_wait placed;
	struct pf_call call;
	struct task_wait wait;  /* has the task */
	struct pf_value *value; /* owned reference */
	struct pf_peer to;
};

static void sending_end(struct sending *s, int r, const struct pf_err *why)
{
	struct pf_err err = why ? *why : (struct pf_err)PF_ERR_INIT;
	struct task *task = s->wait.task;

	task_wait_end(task);
	if (r < 0) {
		pf_err_wrap(&err, r, "send");
		task_fail(task, &err);
	} else {
		task_done(task, NULL, reply_new());
	}
	pf_value_unref(s->value);
	free(s);
}

static void sent(struct pf_call *call, int code, const struct pf_err *err,
		 const void *reply, size_t len)
{
	struct sending *s = pf_container_of(call, struct sending, call);

	(void)reply;
	(void)len;
	pf_value_unpin(s->value);
	sending_end(s, code, err);
}

/* The worker's answer ends it. */
static bool sending_leave(struct task_wait *wait)
{
	struct sending *s = pf_container_of(wait, struct sending, wait);

	pf_peer_cancel(pf_value_place(s->value).worker, &s->to);
	return false;
}

/* The value is on its device, or its transfer has failed. */
static void sending_begin(struct sending *s)
{
	struct task *task = task_ref(s->wait.task);
	struct pf_err err = PF_ERR_INIT;
	int r = task_cancelled(task)
			? pf_err_set(&err, -ECANCELED, "cancelled before it began")
			: pf_value_send(s->value, &s->to, &s->call, &err);

	if (r < 0)
		sending_end(s, r, &err);
	else
		task_wait_check(task);
	task_unref(task);
}

static void sending_wake(struct pf_wait *placed)
{
	sending_begin(pf_container_of(placed, struct sending, placed));
}

int op_send(struct task *task, struct json_object *o, struct pf_err *err)
{
	/* The order in which receivers expect the elements. */
	static const struct pf_layout row_major;
	const struct device *device;
	struct named named = { 0 };
	const char *name;
	const struct command_key keys[] = {
		{ "buffer", .string = &name },
		{ "to", .string = &named.device },
		{ "key", .number = &named.key, .max = MAX_KEY },
		{ "device", .device = &device },
		{ 0 },
	};
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
	PF_CLEANUP(pf_value_unrefp) struct pf_value *value = NULL;
	struct sending *s;
	struct pf_peer to;
	int r = command_parse(task->fs, o, keys, err);

	if (r == 0)
		r = files_find_value(device, name, &task->cred, R_OK, &buffer, &value,
				     err);
	if (r == 0)
		r = find_peer(task, o, &named, pf_value_place(value).worker, &to, err);
	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	if (s)
		s->value = pf_value_in_layout(value, &row_major);
	if (!s || !s->value) {
		free(s);
		return pf_err_set(err, -ENOMEM, "no memory for a transfer");
	}
	s->to = to;
	s->placed.wake = sending_wake;
	s->call.done = sent;
	s->wait = (struct task_wait){ .task = task, .leave = sending_leave };
	task_wait_begin(&s->wait);
	r = pf_value_transfer(s->value, &s->placed, err);
	if (r < 0)
		sending_end(s, r, err);
	else if (r > 0)
		sending_begin(s);
	return 0;
}

/* --- receive ------------------------------------------------------------------------ */

int op_receive(struct task *task, struct json_object *o, struct pf_err *err)
{
	struct json_object *extents = NULL;
	const struct device *device;
	struct named named = { 0 };
	const char *name, *word;
	const struct command_key keys[] = {
		{ "buffer", .string = &name },
		{ "dtype", .string = &word },
		{ .key = "shape" },
		{ "from", .string = &named.device },
		{ "key", .number = &named.key, .max = MAX_KEY },
		{ "device", .device = &device },
		{ 0 },
	};
	PF_CLEANUP(command_leave_devicep) const struct device *own = NULL;
	PF_CLEANUP(pf_value_unrefp) struct pf_value *value = NULL;
	PF_CLEANUP(files_target_release) struct target target = { 0 };
	struct pf_shape shape;
	enum pf_dtype dtype;
	struct pf_peer from;
	uint64_t len;
	int r = command_parse(task->fs, o, keys, err);

	if (r == 0)
		r = files_find_target(device, name, &task->cred, &target, err);
	if (r == 0) /* the name may lead to another device than "device" */
		r = command_device(task, &target, &own, err);
	json_object_object_get_ex(o, "shape", &extents);
	if (r == 0)
		r = command_type(word, extents, own->worker, &dtype, &shape, err);
	if (r == 0)
		r = pf_shape_bytes(&shape, dtype, &len, err);
	if (r == 0)
		r = find_peer(task, o, &named, own->worker, &from, err);
	if (r < 0)
		return r;
	value = pf_value_received(&(struct pf_array_type){ dtype, &shape, len },
				  pf_location_place(&own->location, PF_DEFAULT_MEMORY),
				  &from);
	if (!value)
		return pf_err_set(err, -ENOMEM, "no memory for a value");
	pf_value_charge_to(value, files_account(task->fs, task->cred.uid));
	return command_put_value(task, "receive", value, &target, err);
}
