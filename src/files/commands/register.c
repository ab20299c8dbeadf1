/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The op "register": an FFI library more.  It is tried in a process of its own; then the workers of
 * its plugins are replaced by instances that load it, each when no call is under way there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "pjrtfs/json.h"
#include "pjrtfs/library.h"

enum {
	FETCH_S = 60,       /* for arrays that only a device has */
	REPLACE_MS = 10000, /* for what is under way on a worker */
};

struct registration {
	struct task *task;
	struct json_object *command; /* owned; SPEC borrows from it */
	struct pf_library_spec spec;
};

static void registration_free(struct registration *reg)
{
	if (!reg)
		return;
	json_object_put(reg->command);
	free(reg);
}
PF_DEFINE_CLEANUP(struct registration *, registration_free)

/* --- the workers ---------------------------------------------------------------------------- */

/* Does W load the libraries of PLUGIN (NULL: all)? */
static bool is_for(const char *plugin, const struct pf_worker *w)
{
	return !plugin || !strcmp(plugin, pf_worker_name(w));
}

/* Nothing may be lost with the present instances. */
static int fetch(struct pf_fs *fs, const char *plugin, struct pf_err *err)
{
	unsigned lost = 0;

	for (unsigned i = 0; i < fs->n_workers; i++)
		if (is_for(plugin, fs->workers[i]))
			lost += pf_fs_fetch(fs, fs->workers[i], FETCH_S);
	if (!lost)
		return 0;
	return pf_err_set(
		err, -EBUSY,
		"%u arrays are only on their devices, and would be lost when the "
		"plugin loads the library: copying them to host memory failed",
		lost);
}

/* Members of a group are not replaced: that would end the group. */
static int refuse_groups(const struct pf_fs *fs, const char *plugin, struct pf_err *err)
{
	for (unsigned i = 0; i < fs->n_workers; i++)
		if (is_for(plugin, fs->workers[i]) && pf_worker_in_group(fs->workers[i]))
			return pf_err_set(err, -EOPNOTSUPP,
					  "plugin %s is in a group, whose processes are "
					  "not replaced: expected --ffi-library when "
					  "each of them is mounted",
					  pf_worker_name(fs->workers[i]));
	return 0;
}

/* Has the present or the latest instance of W loaded L? */
static bool has(struct pf_worker *w, const struct pf_library *l)
{
	PF_CLEANUP(pf_custom_calls_unrefp)
	struct pf_custom_calls *calls = pf_worker_custom_calls(w);

	for (unsigned i = 0; calls && i < calls->n_libraries; i++)
		if (calls->libraries[i] == l)
			return true;
	return false;
}

/* Wait for an instance of W with L, or until one could not be started. */
static void await(struct pf_worker *w, const struct pf_library *l)
{
	struct pf_sleeper s;

	pf_sleeper_init(&s);
	while (!has(w, l) && !pf_worker_is_idle(w)) {
		/* It may have been started just before the library was added. */
		pf_worker_replace(w, REPLACE_MS);
		if (pf_worker_wait(w, &s.waiter))
			pf_sleeper_wait(&s);
		if (!has(w, l) && (pf_worker_state(w) == PF_WORKER_RESTARTING ||
				   pf_worker_state(w) == PF_WORKER_AWAY ||
				   pf_worker_state(w) == PF_WORKER_FAILED))
			break;
	}
	pf_sleeper_release(&s);
}

/* Call FN for the workers that are to load L, also those of isolated users. */
static void each_worker(struct pf_fs *fs, const struct pf_library *l,
			void (*fn)(struct pf_worker *w, const struct pf_library *l))
{
	for (unsigned i = 0; i < fs->n_workers; i++) {
		if (!is_for(l->plugin, fs->workers[i]))
			continue;
		fn(fs->workers[i], l);
		for (const struct home *home = files_next_home(fs, NULL); home;
		     home = files_next_home(fs, home))
			fn(home->workers[i], l);
	}
}

static void replace(struct pf_worker *w, const struct pf_library *l)
{
	(void)l;
	pf_worker_replace(w, REPLACE_MS);
}

/* --- the command ---------------------------------------------------------------------------- */

static int run(struct registration *reg, const struct pf_library **ret,
	       struct pf_err *err)
{
	struct pf_fs *fs = reg->task->fs;
	const struct pf_plugin_ops *ops = fs->config.plugins;
	int r = fetch(fs, reg->spec.plugin, err);

	if (r == 0)
		r = ops->add_library(ops->arg, &reg->spec, ret, err);
	if (r == 0 && files_add_library(fs, *ret) < 0)
		r = pf_err_set(err, -ENOMEM, "no memory for ffi/%s", (*ret)->name);
	if (r < 0)
		return r;
	each_worker(fs, *ret, replace);
	each_worker(fs, *ret, await);
	for (unsigned i = 0; i < fs->n_workers; i++)
		if (is_for(reg->spec.plugin, fs->workers[i]) &&
		    !has(fs->workers[i], *ret))
			return pf_err_set(
				err, -EIO,
				"the library is registered, but plugin %s has not "
				"started with it: plugins/%s/error says why",
				pf_worker_name(fs->workers[i]),
				pf_worker_name(fs->workers[i]));
	return 0;
}

static void *register_main(void *arg)
{
	PF_CLEANUP(registration_freep) struct registration *reg = arg;
	const struct pf_library *library = NULL;
	struct pf_err err = PF_ERR_INIT;

	if (run(reg, &library, &err) < 0) {
		pf_err_wrap(&err, err.code, "register");
		task_fail(reg->task, &err);
	} else {
		struct json_object *reply = reply_new();

		pf_json_add_string(reply, "library", library->name);
		task_done(reg->task, NULL, reply);
	}
	files_changed();
	return NULL;
}

static int take_targets(struct json_object *o, struct json_object **ret,
			struct pf_err *err)
{
	const char *symbol;

	if (!json_object_object_get_ex(o, "targets", ret))
		return 0;
	if (!json_object_is_type(*ret, json_type_object))
		return pf_err_set(err, -EINVAL,
				  "\"targets\": expected an object of targets and their "
				  "symbols, found %.64s",
				  pf_json_text(*ret));
	json_object_object_foreach(*ret, target, value) {
		(void)value;
		if (command_string(*ret, target, &symbol, err) < 0)
			return pf_err_wrap(err, err->code, "\"targets\"");
	}
	return 0;
}

/* Read O, which REG copies. */
static int parse(struct registration *reg, struct json_object *o, struct pf_err *err)
{
	struct pf_library_spec *spec = &reg->spec;
	uint64_t traits = 0;
	const struct command_key keys[] = {
		{ "library", .string = &spec->path },
		{ "plugin", .string = &spec->plugin, .optional = true },
		{ "platform", .string = &spec->platform, .optional = true },
		{ "sha256", .string = &spec->sha256, .optional = true },
		{ "traits", .number = &traits, .max = UINT32_MAX },
		{ .key = "targets" },
		{ 0 },
	};
	int r;

	reg->command = pf_json_copy(o);
	if (!reg->command)
		return pf_err_set(err, -ENOMEM, "no memory for a command");
	r = command_parse(reg->task->fs, reg->command, keys, err);
	if (r == 0)
		r = take_targets(reg->command, &spec->targets, err);
	spec->traits = (uint32_t)traits;
	if (r == 0 && *spec->path != '/')
		r = pf_err_set(err, -EINVAL,
			       "\"library\": expected an absolute path, found %s",
			       spec->path);
	return r;
}

int op_register(struct task *task, struct json_object *o, struct pf_err *err)
{
	PF_CLEANUP(registration_freep)
	struct registration *reg = calloc(1, sizeof(*reg));
	const struct pf_fs *fs = task->fs;
	int r;

	if (!reg)
		return pf_err_set(err, -ENOMEM, "no memory for a command");
	reg->task = task;
	r = parse(reg, o, err);
	if (r < 0)
		return r;
	if (!files_owns_mount(fs, task->cred.uid))
		return pf_err_set(err, -EPERM,
				  "an FFI library is native code: only the mount's owner "
				  "may register one");
	if (!fs->config.plugins)
		return pf_err_set(err, -EOPNOTSUPP,
				  "this mount's libraries do not change");
	r = refuse_groups(fs, reg->spec.plugin, err);
	if (r < 0)
		return r;
	if (!files_change(register_main, reg))
		return pf_err_set(err, -EAGAIN, "no thread could be created");
	reg = NULL;
	return 0;
}
