/* SPDX-License-Identifier: Apache-2.0 */
/* FFI libraries: from options to open files. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/files.h"
#include "pjrtfs/json.h"
#include "pjrtfs/state.h"

static const char lapack[] = "libpjrtfs-lapack.so";

/* The library that O, of the options or of the journal, describes; it borrows from O. */
static struct pf_library_spec spec_of(struct json_object *o)
{
	struct pf_library_spec spec = { .path = pf_json_get_string(o, "path") };
	struct json_object *field;

	json_object_object_get_ex(o, "targets", &spec.targets);
	if (json_object_object_get_ex(o, "platform", &field))
		spec.platform = json_object_get_string(field);
	if (json_object_object_get_ex(o, "traits", &field))
		spec.traits = (uint32_t)json_object_get_int64(field);
	if (json_object_object_get_ex(o, "plugin", &field))
		spec.plugin = json_object_get_string(field);
	if (json_object_object_get_ex(o, "sha256", &field))
		spec.sha256 = json_object_get_string(field);
	return spec;
}

/* Is the file PATH a list of libraries? */
static bool is_list(const char *path)
{
	static const char suffix[] = ".json";
	size_t len = strlen(path);

	return len > strlen(suffix) && !strcmp(path + len - strlen(suffix), suffix);
}

/* Read the library of SPEC, if its plugin is loaded. */
static int open_library(const struct pf_library_spec *spec, const struct options *options,
			struct pf_libraries *libs, struct pf_err *err)
{
	if (!spec->plugin || candidate_find(options, spec->plugin))
		return pf_libraries_add(libs, spec, NULL, err);
	/* The libraries of other plugins are not checked with one. */
	return options->check_plugin || options->estimate
		       ? 0
		       : pf_err_set(
				 err, -EINVAL,
				 "FFI library %s is for plugin %s, which is not loaded",
				 spec->path, spec->plugin);
}

/* Read the libraries that FILE lists. */
static int open_list(const char *file, const char *plugin, const struct options *options,
		     struct pf_libraries *libs, struct pf_err *err)
{
	struct json_object *list;
	int r = config_read_libraries(file, plugin, &list, err);

	for (size_t i = 0; r == 0 && list && i < json_object_array_length(list); i++) {
		struct pf_library_spec spec = spec_of(json_object_array_get_idx(list, i));

		r = open_library(&spec, options, libs, err);
		if (r < 0)
			pf_err_wrap(err, r, "%s", file);
	}
	json_object_put(list);
	return r;
}

/* Read what O of the options names, a library or a list. */
static int open_one(struct json_object *o, const struct options *options,
		    struct pf_libraries *libs, struct pf_err *err)
{
	struct pf_library_spec spec = spec_of(o);

	return is_list(spec.path) ? open_list(spec.path, spec.plugin, options, libs, err)
				  : open_library(&spec, options, libs, err);
}

/* Read the libraries that the files of plugins bring, in PLUGIN.so.ffi.json.  Nobody has named them: the mount does
 * without those that cannot be read. */
static void open_brought(const struct options *o, struct pf_libraries *libs)
{
	for (unsigned i = 0; i < o->n_plugins; i++) {
		const struct pf_candidate *p = &o->plugins[i];
		struct pf_err why = PF_ERR_INIT;
		char file[PATH_MAX];

		if (p->refused || snprintf(file, sizeof(file), "%s.ffi.json", p->path) >=
					  (int)sizeof(file))
			continue;
		if (access(file, F_OK) == 0 &&
		    open_list(file, p->name, o, libs, &why) < 0)
			pf_log(PF_LOG_WARNING, "plugin %s has fewer custom calls: %s",
			       p->name, why.text);
	}
}

/* --- the journal: those that were registered, as in the options, and "sha256" ---------------- */

static uint64_t last_record;

/* Note L, for the daemons that follow. */
static int note(const struct pf_library *l, struct pf_err *err)
{
	struct json_object *o = pf_library_json(l);
	char hex[2 * PF_LIBRARY_SHA256 + 1];
	pf_autofree char *text = NULL;

	if (l->plugin)
		pf_json_add_string(o, "plugin", l->plugin);
	pf_json_add_string(o, "sha256", pf_hex(l->sha256, PF_LIBRARY_SHA256, hex));
	text = pf_json_text_copy(o);
	json_object_put(o);
	if (!text)
		return pf_err_set(err, -ENOMEM, "no memory for an FFI library");
	pf_state_put(PF_STATE_LIBRARY, ++last_record, text, strlen(text), NULL, 0);
	return 0;
}

/* Read the library RECORD again.  Other bytes than then were not tried: they might end the plugin. */
static int open_noted(struct json_object *record, struct pf_libraries *libs,
		      struct pf_err *err)
{
	struct pf_library_spec spec = spec_of(record);

	if (pf_libraries_find(libs, spec.path, spec.plugin))
		return pf_err_set(err, -EEXIST, "FFI library %s: the options name it",
				  spec.path);
	return pf_libraries_add(libs, &spec, NULL, err);
}

/* The mount goes on without a library that cannot be read again. */
static void restore(struct pf_libraries *libs)
{
	size_t n = 0, len;
	pf_autofree uint64_t *ids = pf_state_list(PF_STATE_LIBRARY, &n);

	for (size_t i = 0; i < n; i++) {
		const char *text = pf_state_get(PF_STATE_LIBRARY, ids[i], &len);
		struct json_object *record = NULL;
		struct pf_err err = PF_ERR_INIT;

		last_record = ids[i];
		if (pf_json_parse(text, len, &record, &err) == 0)
			(void)open_noted(record, libs, &err);
		json_object_put(record);
		if (!err.code)
			continue;
		pf_log(PF_LOG_WARNING, "it was registered, and is no more: %s", err.text);
		pf_state_drop(PF_STATE_LIBRARY, ids[i]);
	}
}

/* --- the interface -------------------------------------------------------------------------- */

int libraries_open(const struct options *o, struct pf_libraries **ret, struct pf_err *err)
{
	struct json_object *list = libraries_list(o);
	char path[PATH_MAX];
	const struct pf_library_spec builtin = { .path = path, .builtin = true };
	struct pf_err why = PF_ERR_INIT;
	int r = 0;

	*ret = pf_libraries_new();
	if (!*ret || !pf_json_complete(list))
		r = pf_err_set(err, -ENOMEM, "no memory for FFI libraries");
	for (size_t i = 0; r == 0 && i < json_object_array_length(list); i++)
		r = open_one(json_object_array_get_idx(list, i), o, *ret, err);
	json_object_put(list);
	if (r == 0)
		open_brought(o, *ret);
	if (r == 0)
		restore(*ret);
	if (r < 0 || o->no_lapack)
		return r;
	pf_library_builtin(lapack, path, sizeof(path));
	if (access(path, F_OK) == 0 && pf_libraries_add(*ret, &builtin, NULL, &why) < 0)
		pf_log(PF_LOG_WARNING, "no LAPACK: %s", why.text);
	return 0;
}

/* Have each of the plugins that run and L is for load it, with those that there are. */
static int try(const struct served *s, struct pf_library *l, struct pf_err *err)
{
	struct pf_libraries *with;
	int r = pf_libraries_with(s->fs->libraries, l, &with, err);
	unsigned n_tried = 0;

	for (unsigned i = 0; i < s->fs->n_workers && r == 0; i++) {
		const char *name = pf_worker_name(s->fs->workers[i]);
		struct pf_worker_config config;

		if (l->plugin && strcmp(l->plugin, name) != 0)
			continue;
		n_tried++;
		r = plugin_choice_config(candidate_find(s->options, name), &config, err);
		config.libraries = with;
		plugin_choice_start_timeout(&config, s->options);
		if (r == 0)
			r = pf_inspect_library(&config, l, err);
		if (r < 0)
			pf_err_wrap(err, r, "plugin %s", name);
	}
	if (r == 0 && !n_tried)
		r = pf_err_set(err, -ENODEV,
			       "FFI library %s is for plugin %s, which does not run",
			       l->path, l->plugin);
	pf_libraries_free(with);
	plugins_tried();
	return r;
}

int libraries_register(void *arg, const struct pf_library_spec *spec,
		       const struct pf_library **ret, struct pf_err *err)
{
	const struct served *s = arg;
	struct pf_libraries *libs = s->fs->libraries;
	static pthread_mutex_t one =
		PTHREAD_MUTEX_INITIALIZER; /* rank 0; a registration */
	PF_CLEANUP(pf_library_freep) struct pf_library *l = NULL;
	const struct pf_library *old;
	int r;

	PF_LOCK_SCOPE(&one);
	r = pf_library_read(libs, spec, &l, err);
	if (r < 0)
		return r;
	old = pf_libraries_find(libs, spec->path, spec->plugin);
	if (old)
		return pf_err_set(err, -EEXIST, "FFI library %s is here, as ffi/%s%s",
				  old->path, old->name,
				  memcmp(old->sha256, l->sha256, PF_LIBRARY_SHA256) != 0
					  ? "; the file has changed since: a new mount "
					    "reads it anew"
					  : "");
	r = try(s, l, err);
	if (r == 0)
		r = note(l, err);
	if (r == 0)
		r = pf_libraries_take(libs, l, err);
	if (r < 0)
		return r;
	*ret = pf_steal(&l);
	pf_log(PF_LOG_INFO, "FFI library %s is registered", spec->path);
	return 0;
}

void libraries_report(struct pf_worker *worker)
{
	PF_CLEANUP(pf_custom_calls_unrefp)
	struct pf_custom_calls *calls = pf_worker_custom_calls(worker);

	for (unsigned i = 0; calls && i < calls->n_libraries; i++)
		if (calls->why[i])
			pf_log(PF_LOG_WARNING, "plugin %s: FFI library %s: %s",
			       pf_worker_name(worker), calls->libraries[i]->name,
			       calls->why[i]);
	for (size_t i = 0; calls && i < calls->n; i++)
		if (calls->calls[i].note && calls->calls[i].library &&
		    !calls->calls[i].library->builtin)
			pf_log(PF_LOG_WARNING, "plugin %s: custom call %s of %s: %s",
			       pf_worker_name(worker), calls->calls[i].target,
			       pf_custom_call_library(&calls->calls[i]),
			       calls->calls[i].note);
}
