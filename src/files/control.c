/* control: JSON commands. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

static int get_string(struct json_object *o, const char *key, const char **ret,
		      struct pf_err *err)
{
	struct json_object *v;

	if (!json_object_object_get_ex(o, key, &v))
		return pf_err_set(err, -EINVAL, "\"%s\" is missing", key);
	if (!json_object_is_type(v, json_type_string))
		return pf_err_set(err, -EINVAL, "\"%s\": expected a string, found %s",
				  key,
				  v ? json_type_to_name(json_object_get_type(v))
				    : "null");
	*ret = json_object_get_string(v);
	if (strlen(*ret) != (size_t)json_object_get_string_len(v))
		return pf_err_set(err, -EINVAL, "\"%s\" contains a NUL character", key);
	return 0;
}

static struct json_object *new_reply(const struct request *request)
{
	struct json_object *reply = json_object_new_object();

	json_object_object_add(reply, "ok", json_object_new_boolean(true));
	if (request->id)
		json_object_object_add(reply, "id", json_object_get(request->id));
	return reply;
}

/* The device that "device" names, or the default one. */
static int get_device(struct pf_fs *fs, struct json_object *o, const struct device **ret,
		      struct pf_err *err)
{
	const char *name;
	int r;

	*ret = &fs->devices[0];
	if (!json_object_object_get_ex(o, "device", NULL))
		return 0;
	r = get_string(o, "device", &name, err);
	if (r < 0)
		return r;
	*ret = files_find_device(fs, name, strlen(name));
	return *ret ? 0
		    : pf_err_set(err, -ENODEV, "\"device\": there is no device %s", name);
}

/* --- execute ---------------------------------------------------------------------------------- */

static int op_execute(struct pf_fs *fs, struct json_object *o, struct pf_command *command,
		      struct request *request, struct pf_err *err)
{
	static const char *const allowed[] = { "op",      "executable", "inputs",
					       "outputs", "donate",     "id",
					       NULL };
	const char *name;
	struct unit *unit;
	int r = files_parse_request(o, allowed, request, err);

	if (r == 0)
		r = get_string(o, "executable", &name, err);
	if (r == 0)
		r = files_find_unit(fs, name, &command->of->cred, &unit, err);
	if (r < 0)
		return r;
	files_execute(unit, name, request, command);
	unit_unref(unit);
	return 0;
}

/* --- create ----------------------------------------------------------------------------------- */

static int get_shape(struct json_object *o, struct pf_shape *ret, struct pf_err *err)
{
	struct json_object *v;

	memset(ret, 0, sizeof(*ret));
	if (!json_object_object_get_ex(o, "shape", &v))
		return pf_err_set(err, -EINVAL, "\"shape\" is missing");
	if (!json_object_is_type(v, json_type_array))
		return pf_err_set(err, -EINVAL, "\"shape\": expected a list of extents");
	if (json_object_array_length(v) > PF_MAX_RANK)
		return pf_err_set(err, -EINVAL, "\"shape\": more than %d extents",
				  PF_MAX_RANK);
	for (size_t i = 0; i < json_object_array_length(v); i++) {
		struct json_object *d = json_object_array_get_idx(v, i);

		if (!json_object_is_type(d, json_type_int) ||
		    json_object_get_int64(d) < 0)
			return pf_err_set(err, -EINVAL,
					  "\"shape\": extent %zu: expected a number "
					  "from 0 on, found %s",
					  i, json_object_to_json_string(d));
		ret->dims[ret->rank++] = json_object_get_int64(d);
	}
	return 0;
}

static int get_dtype(struct json_object *o, enum pf_dtype *ret, struct pf_err *err)
{
	const char *name;
	int r = get_string(o, "dtype", &name, err);

	if (r < 0)
		return r;
	*ret = pf_dtype_parse(name, strlen(name));
	if (*ret == PF_DTYPE_INVALID)
		return pf_err_set(err, -EINVAL, "\"dtype\": there is no element type %s",
				  name);
	return 0;
}

static int op_create(struct pf_fs *fs, struct json_object *o, struct pf_command *command,
		     struct request *request, struct pf_err *err)
{
	static const char *const allowed[] = { "op",     "buffer", "dtype", "shape",
					       "device", "id",     NULL };
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
	PF_CLEANUP(files_target_release) struct target target = { 0 };
	const struct device *device;
	struct json_object *reply;
	struct pf_shape shape;
	enum pf_dtype dtype = PF_DTYPE_INVALID;
	const char *name;
	int r = files_parse_request(o, allowed, request, err);

	if (r == 0)
		r = get_string(o, "buffer", &name, err);
	if (r == 0)
		r = get_dtype(o, &dtype, err);
	if (r == 0)
		r = get_shape(o, &shape, err);
	if (r == 0)
		r = get_device(fs, o, &device, err);
	if (r == 0)
		r = files_find_target(fs, device, name, &command->of->cred, &target, err);
	if (r < 0)
		return r;
	buffer = pf_buffer_new(&device->place, PF_FORMAT_RAW);
	if (!buffer)
		return pf_err_set(err, -ENOMEM, "no memory for a buffer");
	r = pf_buffer_declare(buffer, dtype, &shape, err);
	if (r == 0)
		r = files_put_buffer(&target, buffer, PF_FORMAT_RAW, &command->of->cred,
				     true, err);
	if (r < 0)
		return r;
	reply = new_reply(request);
	json_object_object_add(reply, "buffer", json_object_new_string(name));
	files_answer(command, 0, reply);
	return 0;
}

/* --- delete, stat ------------------------------------------------------------------------------ */

static int op_delete(struct pf_fs *fs, struct json_object *o, struct pf_command *command,
		     struct request *request, struct pf_err *err)
{
	static const char *const allowed[] = { "op", "buffer", "device", "id", NULL };
	const struct device *device;
	const char *name;
	int r = files_parse_request(o, allowed, request, err);

	if (r == 0)
		r = get_string(o, "buffer", &name, err);
	if (r == 0)
		r = get_device(fs, o, &device, err);
	if (r == 0)
		r = files_remove_buffer(fs, device, name, &command->of->cred, err);
	if (r == 0)
		files_answer(command, 0, new_reply(request));
	return r;
}

static int stat_buffer(struct pf_fs *fs, struct json_object *o,
		       const struct pf_cred *cred, struct pf_buf *text,
		       struct pf_err *err)
{
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
	const struct device *device;
	const char *name;
	int r = get_string(o, "buffer", &name, err);

	if (r == 0)
		r = get_device(fs, o, &device, err);
	if (r == 0)
		r = files_find_buffer(fs, device, name, cred, R_OK, &buffer, err);
	if (r == 0)
		pf_buffer_describe(buffer, name, text);
	return r;
}

static int stat_executable(struct pf_fs *fs, struct json_object *o,
			   const struct pf_cred *cred, struct pf_buf *text,
			   struct pf_err *err)
{
	struct unit *unit;
	const char *name;
	int r = get_string(o, "executable", &name, err);

	if (r == 0)
		r = files_find_unit(fs, name, cred, &unit, err);
	if (r == 0) {
		pf_executable_info(unit->x, text);
		unit_unref(unit);
	}
	return r;
}

static int op_stat(struct pf_fs *fs, struct json_object *o, struct pf_command *command,
		   struct request *request, struct pf_err *err)
{
	static const char *const allowed[] = { "op",     "buffer", "executable",
					       "device", "id",     NULL };
	bool executable = json_object_object_get_ex(o, "executable", NULL);
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct json_object *reply;
	int r = files_parse_request(o, allowed, request, err);

	if (r == 0 && executable && json_object_object_get_ex(o, "buffer", NULL))
		r = pf_err_set(err, -EINVAL,
			       "expected \"buffer\" or \"executable\", found both");
	if (r == 0)
		r = executable ? stat_executable(fs, o, &command->of->cred, &text, err)
			       : stat_buffer(fs, o, &command->of->cred, &text, err);
	if (r < 0)
		return r;
	reply = new_reply(request);
	json_object_object_add(reply, executable ? "executable" : "buffer",
			       json_tokener_parse(text.data ? text.data : "{}"));
	files_answer(command, 0, reply);
	return 0;
}

/* --- the file ------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	/* Answers COMMAND and returns 0, or returns -errno with *err filled. */
	int (*run)(struct pf_fs *fs, struct json_object *o, struct pf_command *command,
		   struct request *request, struct pf_err *err);
} ops[] = {
	{ "execute", op_execute },
	{ "create", op_create },
	{ "delete", op_delete },
	{ "stat", op_stat },
};

static int dispatch(struct pf_fs *fs, struct json_object *o, struct pf_command *command,
		    struct request *request, struct pf_err *err)
{
	const char *name;
	int r = get_string(o, "op", &name, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (strcmp(ops[i].name, name))
			continue;
		r = ops[i].run(fs, o, command, request, err);
		return r < 0 ? pf_err_wrap(err, r, "%s", name) : 0;
	}
	return pf_err_set(err, -EINVAL,
			  "\"op\": expected execute, create, delete or stat, found "
			  "\"%s\"",
			  name);
}

static void control_command(struct pf_command *command)
{
	struct json_object *o = json_tokener_parse(command->text);
	struct request request = { .json = true };
	struct pf_err err = PF_ERR_INIT;
	int r;

	if (json_object_is_type(o, json_type_object))
		r = dispatch(fs_of(command->of->node), o, command, &request, &err);
	else
		r = pf_err_set(&err, -EINVAL, "expected a JSON object");
	if (r < 0) {
		struct json_object *id;

		if (!request.id && json_object_is_type(o, json_type_object) &&
		    json_object_object_get_ex(o, "id", &id))
			request.id = json_object_get(id);
		files_fail(command, &request, &err);
	}
	request_release(&request);
	json_object_put(o);
}

const struct pf_kind kind_control = {
	.name = "control",
	.mode = S_IFREG | 0666,
	.json = true,
	.command = control_command,
};
