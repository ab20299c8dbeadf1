/* Execute a program on named buffers, and put its results under names. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "pjrtfs/base/json.h"

/* --- replies -------------------------------------------------------------------------------- */

void files_answer(struct pf_command *command, int code, struct json_object *o)
{
	const char *text = pf_json_text(o);

	pf_command_done(command, code, text, strlen(text));
	json_object_put(o);
}

void files_fail(struct pf_command *command, const struct request *request,
		const struct pf_err *err)
{
	struct json_object *o, *e;

	if (request && !request->json) {
		pf_autobuf struct pf_buf line = PF_BUF_INIT;

		pf_buf_printf(&line, "error: %s: %s", pf_errno_name(err->code),
			      err->text);
		pf_command_done(command, err->code, line.data ? line.data : "error",
				line.len);
		return;
	}
	o = json_object_new_object();
	e = json_object_new_object();
	json_object_object_add(o, "ok", json_object_new_boolean(false));
	pf_json_add_string(e, "errno", pf_errno_name(err->code));
	pf_json_add_string(e, "code", pf_pjrt_code_name(err->pjrt_code, err->code));
	pf_json_add_string(e, "message", err->text);
	json_object_object_add(o, "error", e);
	if (request && request->id)
		json_object_object_add(o, "id", json_object_get(request->id));
	files_answer(command, err->code, o);
}

/* --- one execution ---------------------------------------------------------------------------- */

struct job {
	struct pf_command *command;
	struct request request; /* owned */
	const struct device *device;
	size_t n_targets;
	struct target *targets;     /* owned: where each output goes */
	struct pf_buffer **buffers; /* owned references: of the inputs, as many as them */
};

static void job_free(struct job *job)
{
	if (!job)
		return;
	for (size_t i = 0; i < job->n_targets; i++)
		files_target_release(&job->targets[i]);
	free(job->targets);
	for (size_t i = 0; job->buffers && i < job->request.inputs.n; i++)
		pf_buffer_unref(job->buffers[i]);
	free(job->buffers);
	request_release(&job->request);
	free(job);
}

static void succeed_json(struct job *job, const struct pf_execution *e)
{
	struct json_object *o = json_object_new_object();
	struct json_object *outs = json_object_new_array();

	json_object_object_add(o, "ok", json_object_new_boolean(true));
	for (size_t i = 0; i < e->n_outs; i++) {
		struct json_object *out = json_object_new_object();
		struct json_object *dims = json_object_new_array();

		pf_json_add_string(out, "name", job->request.outputs.at[i]);
		pf_json_add_string(out, "dtype", pf_dtype_name(e->outs[i]->dtype));
		for (unsigned d = 0; d < e->outs[i]->shape.rank; d++)
			json_object_array_add(dims, json_object_new_int64(
							    e->outs[i]->shape.dims[d]));
		json_object_object_add(out, "shape", dims);
		pf_json_add_string(out, "device", job->device->name);
		json_object_array_add(outs, out);
	}
	json_object_object_add(o, "outputs", outs);
	pf_json_add_seconds(o, "seconds", e->seconds);
	pf_json_add_seconds(o, "device_seconds", e->device_seconds);
	if (job->request.id)
		json_object_object_add(o, "id", json_object_get(job->request.id));
	files_answer(job->command, 0, o);
}

static void succeed(struct job *job, const struct pf_execution *e)
{
	pf_autobuf struct pf_buf line = PF_BUF_INIT;
	char shape[128];

	if (job->request.json) {
		succeed_json(job, e);
		return;
	}
	pf_buf_puts(&line, "ok:");
	for (size_t i = 0; i < e->n_outs; i++)
		pf_buf_printf(&line, " %s %s%s", job->request.outputs.at[i],
			      pf_shape_str(shape, sizeof(shape), e->outs[i]->dtype,
					   &e->outs[i]->shape),
			      i + 1 < e->n_outs ? "," : "");
	pf_buf_printf(&line, " on %s in %.6f s", job->device->name, e->seconds);
	pf_command_done(job->command, 0, line.data ? line.data : "ok", line.len);
}

/* Give every result its name. */
static int publish(struct job *job, struct pf_execution *e, struct pf_err *err)
{
	int r = 0;

	for (size_t i = 0; i < e->n_outs && r == 0; i++) {
		PF_CLEANUP(pf_buffer_unrefp)
		struct pf_buffer *b =
			pf_buffer_of_value(&job->device->place, e->outs[i], e->name);

		if (!b)
			r = pf_err_set(err, -ENOMEM, "no memory for output %zu", i);
		else
			r = files_put_buffer(&job->targets[i], b, PF_FORMAT_NPY,
					     &job->command->of->cred, false, err);
	}
	return r;
}

static void execution_done(struct pf_execution *e, int code, const struct pf_err *why)
{
	struct job *job = e->user;
	struct pf_err err = PF_ERR_INIT;
	bool consumed = code == 0;

	if (code < 0)
		err = *why;
	else
		code = publish(job, e, &err);
	for (size_t i = 0; i < e->n_args; i++)
		if (consumed && e->donate[i])
			pf_buffer_forget_donated(job->buffers[i], e->args[i]);
	if (code < 0)
		files_fail(job->command, &job->request, &err);
	else
		succeed(job, e);
	job_free(job);
	pf_execution_free(e);
}

/* Nobody waits for it any more: what has not begun need not begin. */
static bool is_cancelled(struct pf_execution *e)
{
	struct job *job = e->user;

	return pf_command_cancelled(job->command);
}

/* --- what the names mean ----------------------------------------------------------------------- */

static bool is_donated(const struct job *job, const char *name)
{
	for (size_t d = 0; d < job->request.donate.n; d++)
		if (!strcmp(job->request.donate.at[d], name))
			return true;
	return false;
}

/* Reading an array takes the right to read it; consuming it takes that to write, too. */
static int find_input(struct pf_fs *fs, const struct job *job, size_t i,
		      struct pf_execution *e, struct pf_err *err)
{
	const char *name = job->request.inputs.at[i];
	int want = is_donated(job, name) ? R_OK | W_OK : R_OK;
	int r = files_find_buffer(fs, job->device, name, &job->command->of->cred, want,
				  &job->buffers[i], err);

	if (r == 0)
		r = pf_buffer_value(job->buffers[i], &e->args[i], err);
	else
		return pf_err_wrap(err, r, "input %zu", i);
	if (r < 0)
		return pf_err_wrap(err, r, "input %zu: %s", i, name);
	e->arg_names[i] = strdup(name);
	return e->arg_names[i] ? 0 : pf_err_set(err, -ENOMEM, "no memory for a name");
}

/* Which inputs may be consumed: those that "donate" names. */
static int mark_donated(const struct job *job, struct pf_execution *e, struct pf_err *err)
{
	for (size_t d = 0; d < job->request.donate.n; d++) {
		const char *name = job->request.donate.at[d];
		bool found = false;

		for (size_t i = 0; i < e->n_args; i++)
			if (!strcmp(e->arg_names[i], name))
				e->donate[i] = found = true;
		if (!found)
			return pf_err_set(err, -EINVAL,
					  "donate: %s is no input of this "
					  "execution",
					  name);
	}
	/* The same array twice, once consumed: the other use would see it gone. */
	for (size_t i = 0; i < e->n_args; i++)
		for (size_t k = 0; e->donate[i] && k < e->n_args; k++)
			if (k != i && e->args[k] == e->args[i])
				return pf_err_set(err, -EINVAL,
						  "donate: %s is used twice",
						  e->arg_names[i]);
	return 0;
}

static int find_targets(struct pf_fs *fs, struct job *job, struct pf_err *err)
{
	const struct names *names = &job->request.outputs;

	job->targets = calloc(names->n + 1, sizeof(*job->targets));
	if (!job->targets)
		return pf_err_set(err, -ENOMEM, "no memory for the outputs' names");
	for (size_t i = 0; i < names->n; i++) {
		struct target *t = &job->targets[i];
		int r = files_find_target(fs, job->device, names->at[i],
					  &job->command->of->cred, t, err);

		if (r < 0)
			return pf_err_wrap(err, r, "output %zu", i);
		job->n_targets = i + 1;
		if (t->dir->object != &job->device->place)
			return pf_err_set(err, -EINVAL,
					  "output %zu: %s is on another device than "
					  "%s, where the program runs",
					  i, names->at[i], job->device->name);
		for (size_t k = 0; k < i; k++)
			if (job->targets[k].dir == t->dir &&
			    !strcmp(job->targets[k].stem, t->stem))
				return pf_err_set(err, -EINVAL,
						  "outputs %zu and %zu are both "
						  "called %s",
						  k, i, names->at[i]);
	}
	return 0;
}

/* The device an executable runs on decides where its names are looked for. */
static const struct device *device_of(struct unit *unit)
{
	struct pf_fs *fs = unit->fs;
	struct pf_executable *x = unit->x;
	const struct device *found = NULL;
	unsigned index = 0;

	pf_lock(&x->lock);
	if (x->loaded && x->loaded->n_devices)
		index = x->loaded->devices[0];
	pf_unlock(&x->lock);
	for (unsigned i = 0; i < fs->n_devices && !found; i++)
		if (fs->devices[i].worker == x->worker && fs->devices[i].index == index)
			found = &fs->devices[i];
	return found ? found : &fs->devices[0];
}

static struct pf_execution *make_execution(struct unit *unit, const char *name,
					   struct job *job, struct pf_err *err)
{
	struct pf_execution *e = pf_execution_new(job->request.inputs.n, 1);
	int r = e ? 0 : pf_err_set(err, -ENOMEM, "no memory for an execution");

	if (!e)
		return NULL;
	e->executable = pf_executable_ref(unit->x);
	e->name = strdup(name);
	e->want_outs = job->request.outputs.n;
	e->user = job;
	e->done = execution_done;
	e->cancelled = is_cancelled;
	job->buffers = calloc(e->n_args + 1, sizeof(struct pf_buffer *));
	if (!e->name || !job->buffers)
		r = pf_err_set(err, -ENOMEM, "no memory for an execution");
	/* What did not compile is told before what it would be given. */
	if (r == 0 && pf_executable_state(unit->x) == PF_EXECUTABLE_FAILED)
		r = pf_executable_load(unit->x, NULL, NULL, err);
	for (size_t i = 0; i < e->n_args && r == 0; i++)
		r = find_input(unit->fs, job, i, e, err);
	if (r == 0)
		r = mark_donated(job, e, err);
	if (r == 0)
		r = find_targets(unit->fs, job, err);
	if (r == 0)
		return e;
	pf_err_wrap(err, r, "%s", name);
	pf_execution_free(e);
	return NULL;
}

void files_execute(struct unit *unit, const char *name, struct request *request,
		   struct pf_command *command)
{
	struct pf_err err = PF_ERR_INIT;
	struct job *job = calloc(1, sizeof(*job));
	struct pf_execution *e;

	if (!job) {
		pf_err_set(&err, -ENOMEM, "no memory for a command");
		files_fail(command, request, &err);
		request_release(request);
		return;
	}
	job->request = *request;
	memset(request, 0, sizeof(*request));
	job->command = command;
	job->device = device_of(unit);
	e = make_execution(unit, name, job, &err);
	if (!e) {
		files_fail(command, &job->request, &err);
		job_free(job);
		return;
	}
	pf_execution_start(e, true);
}
