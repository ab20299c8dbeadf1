/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/engine.h"
#include "pjrtfs/json.h"

enum { TIMEOUT_S = 60, MAX_THREADS = 4 };

static int inspect(const struct pf_candidate *p, unsigned timeout_s, bool run,
		   struct json_object **ret, struct pf_err *err)
{
	char program[PATH_MAX];
	struct pf_inspect_config config = {
		.name = p->name,
		.path = p->path,
		.program = program,
		.options = p->options,
		.env = p->env,
		.sandbox = p->sandbox,
		.timeout_ms = (int)(timeout_s ? timeout_s : TIMEOUT_S) * 1000,
		.run = run,
	};

	*ret = NULL;
	if (p->refused)
		return pf_err_set(err, -EINVAL, "%s", p->refused);
	pf_worker_program(program, sizeof(program));
	return pf_inspect(&config, ret, err);
}

static struct json_object *get(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;

	return json_object_object_get_ex(o, key, &v) ? v : NULL;
}

/* A string of O; "" if it is none. */
static const char *text_of(struct json_object *o, const char *key)
{
	struct json_object *v = get(o, key);

	return json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "";
}

static int minor_of(struct json_object *facts)
{
	struct json_object *v = get(facts, "api_version");

	if (!json_object_is_type(v, json_type_array) || json_object_array_length(v) != 2)
		return -1;
	return json_object_get_int(json_object_array_get_idx(v, 1));
}

int plugin_report_minor(void *arg, const char *path)
{
	const struct pf_candidate p = { .name = (char *)(uintptr_t) "plugin",
					.path = (char *)(uintptr_t)path };
	struct json_object *facts;
	int minor = inspect(&p, 0, false, &facts, NULL) < 0 ? -1 : minor_of(facts);

	(void)arg;
	json_object_put(facts);
	return minor;
}

/* --- printing ------------------------------------------------------------------------------ */

/* Append TEXT, which is a plugin's or a file's name, so that no terminal minds it. */
static void add_clean(struct pf_buf *out, const char *text)
{
	size_t start = out->len;

	pf_buf_puts(out, text);
	if (!out->failed)
		out->len = start + pf_err_clean(out->data + start, out->len - start);
}

static void add_line(struct pf_buf *out, const char *what, const char *text)
{
	pf_buf_printf(out, "    %-9s ", what);
	add_clean(out, text);
	pf_buf_puts(out, "\n");
}

/* "0.81", the caller's. */
static const char *version_text(struct json_object *facts, char *dst, size_t len)
{
	struct json_object *v = get(facts, "api_version");

	snprintf(dst, len, "%d.%d", json_object_get_int(json_object_array_get_idx(v, 0)),
		 minor_of(facts));
	return dst;
}

/* Everything at once, so that it is whole or not there. */
static int print(struct pf_buf *out, int status)
{
	if (out->failed) {
		pf_log(PF_LOG_ERROR, "no memory");
		return 1;
	}
	if (fwrite(out->data, 1, out->len, stdout) == out->len && fflush(stdout) == 0)
		return status;
	pf_log(PF_LOG_ERROR, "standard output cannot be written to");
	return 1;
}

static void add_json(struct pf_buf *out, struct json_object *o)
{
	pf_buf_puts(out, json_object_to_json_string_ext(
				 o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
					    JSON_C_TO_STRING_NOSLASHESCAPE));
	pf_buf_puts(out, "\n");
}

/* --- --list-plugins ------------------------------------------------------------------------ */

struct list {
	const struct options *options;
	const struct pf_discovery *d;
	struct json_object **facts; /* owned, of each file; NULL: it cannot be used */
	struct pf_err *errors;      /* of each file */
	atomic_uint next;           /* file to look at */
};

static void *list_main(void *arg)
{
	struct list *l = arg;
	unsigned i;

	while ((i = atomic_fetch_add(&l->next, 1)) < l->d->n_files) {
		const struct pf_plugin_file *f = &l->d->files[i];
		struct pf_candidate p = { .name = (char *)f->name, .path = f->path };

		if (f->refused)
			pf_err_set(&l->errors[i], -1, "%s", f->refused);
		else if (settings_attach(&l->options->settings, &p, 1, false,
					 &l->errors[i]) == 0)
			(void)inspect(&p, l->options->timeout_s, false, &l->facts[i],
				      &l->errors[i]);
		json_object_put(p.options);
		json_object_put(p.env);
		json_object_put(p.sandbox);
		free(p.refused);
	}
	return NULL;
}

/* Look at all files, some at a time. */
static void look_at_all(struct list *l)
{
	pthread_t threads[MAX_THREADS];
	unsigned n = 0;

	while (n < MAX_THREADS && n + 1 < l->d->n_files &&
	       pthread_create(&threads[n], NULL, list_main, l) == 0)
		n++;
	list_main(l);
	while (n)
		pthread_join(threads[--n], NULL);
}

/* What plugin_report_minor would say. */
static int known_minor(void *arg, const char *path)
{
	const struct list *l = arg;

	for (unsigned i = 0; i < l->d->n_files; i++)
		if (!strcmp(l->d->files[i].path, path))
			return l->facts[i] ? minor_of(l->facts[i]) : -1;
	return -1;
}

/* Does the name mean this file?  Else an earlier one is meant, or a newer one of its place. */
static bool is_meant(struct list *l, const struct pf_plugin_file *f)
{
	return pf_discovery_pick(l->d, f->name, known_minor, l) == f;
}

static void add_file(struct list *l, unsigned i, struct pf_buf *out)
{
	const struct pf_plugin_file *f = &l->d->files[i];
	const struct pf_search_place *place = &l->d->places[f->place];
	struct json_object *devices = get(l->facts[i], "devices");
	char text[PATH_MAX + 256];

	add_clean(out, f->name);
	pf_buf_puts(out, "\n");
	add_line(out, "path", f->path);
	snprintf(text, sizeof(text), "%s%s%s", place->source, *place->where ? " " : "",
		 place->where);
	add_line(out, "from", text);
	if (*f->package)
		add_line(out, "package", f->package);
	else if (*f->version)
		add_line(out, "version", f->version);
	if (!l->facts[i]) {
		add_line(out, "refused", l->errors[i].text);
		return;
	}
	add_line(out, "API", version_text(l->facts[i], text, sizeof(text)));
	snprintf(text, sizeof(text), "%s, %zu devices", text_of(l->facts[i], "platform"),
		 json_object_array_length(devices));
	add_line(out, "platform", text);
	if (!is_meant(l, f))
		add_line(out, "note", "another one is meant by this name: give the path");
}

static void add_places(struct list *l, struct pf_buf *out)
{
	pf_buf_puts(out, "looked in\n");
	for (unsigned i = 0; i < l->d->n_places; i++) {
		const struct pf_search_place *p = &l->d->places[i];
		unsigned n = 0;

		for (unsigned k = 0; k < l->d->n_files; k++)
			n += l->d->files[k].place == i;
		pf_buf_printf(out, "    %s%s", p->source, *p->where ? " " : "");
		add_clean(out, p->where);
		if (n || !p->note)
			pf_buf_printf(out, ": %u", n);
		if (p->note) {
			pf_buf_puts(out, n ? ", " : ": ");
			add_clean(out, p->note);
		}
		pf_buf_puts(out, "\n");
	}
}

static struct json_object *file_json(struct list *l, unsigned i)
{
	const struct pf_plugin_file *f = &l->d->files[i];
	const struct pf_search_place *place = &l->d->places[f->place];
	struct json_object *o = json_object_new_object();
	char version[32];

	pf_json_add_string(o, "name", f->name);
	pf_json_add_string(o, "path", f->path);
	pf_json_add_string(o, "source", place->source);
	pf_json_add_string(o, "place", place->where);
	pf_json_add_string(o, "package", f->package);
	pf_json_add_string(o, "version", f->version);
	json_object_object_add(o, "ok", json_object_new_boolean(l->facts[i] != NULL));
	if (!l->facts[i]) {
		pf_json_add_string(o, "error", l->errors[i].text);
		return o;
	}
	pf_json_add_string(o, "api_version",
			   version_text(l->facts[i], version, sizeof(version)));
	pf_json_add_string(o, "platform", text_of(l->facts[i], "platform"));
	pf_json_add_int(o, "devices",
			(int64_t)json_object_array_length(get(l->facts[i], "devices")));
	json_object_object_add(o, "meant", json_object_new_boolean(is_meant(l, f)));
	return o;
}

static void add_list_json(struct list *l, struct pf_buf *out)
{
	struct json_object *o = json_object_new_object(),
			   *plugins = json_object_new_array(),
			   *places = json_object_new_array();

	for (unsigned i = 0; i < l->d->n_files; i++)
		json_object_array_add(plugins, file_json(l, i));
	for (unsigned i = 0; i < l->d->n_places; i++) {
		const struct pf_search_place *p = &l->d->places[i];
		struct json_object *place = json_object_new_object();

		pf_json_add_string(place, "source", p->source);
		pf_json_add_string(place, "place", p->where);
		json_object_object_add(place, "ok", json_object_new_boolean(!p->wrong));
		if (p->note)
			pf_json_add_string(place, "note", p->note);
		json_object_array_add(places, place);
	}
	json_object_object_add(o, "plugins", plugins);
	json_object_object_add(o, "places", places);
	add_json(out, o);
	json_object_put(o);
}

/* What went wrong, a line each, for those who do not read the list. */
static int complain(const struct list *l)
{
	int status = 0;

	for (unsigned i = 0; i < l->d->n_files; i++) {
		if (l->facts[i])
			continue;
		pf_log(PF_LOG_WARNING, "plugin %s: %s: %s", l->d->files[i].name,
		       l->d->files[i].path, l->errors[i].text);
		status = 1;
	}
	for (unsigned i = 0; i < l->d->n_places; i++) {
		const struct pf_search_place *p = &l->d->places[i];

		if (!p->wrong)
			continue;
		pf_log(PF_LOG_WARNING, "%s%s%s: %s", p->source, *p->where ? " " : "",
		       p->where, p->note);
		status = 1;
	}
	if (!l->d->n_files) {
		pf_log(PF_LOG_WARNING, "there is no plugin");
		status = 1;
	}
	return status;
}

int plugin_report_list(const struct options *options)
{
	struct list l = { .options = options, .d = options->discovery };
	pf_autobuf struct pf_buf out = PF_BUF_INIT;
	int status;

	l.facts = calloc(l.d->n_files + 1, sizeof(struct json_object *));
	l.errors = calloc(l.d->n_files + 1, sizeof(struct pf_err));
	if (!l.facts || !l.errors) {
		pf_log(PF_LOG_ERROR, "no memory");
		status = 1;
	} else {
		look_at_all(&l);
		if (options->json)
			add_list_json(&l, &out);
		for (unsigned i = 0; i < l.d->n_files && !options->json; i++)
			add_file(&l, i, &out);
		if (!options->json)
			add_places(&l, &out);
		status = print(&out, 0);
		status |= complain(&l);
	}
	for (unsigned i = 0; l.facts && i < l.d->n_files; i++)
		json_object_put(l.facts[i]);
	free(l.facts);
	free(l.errors);
	return status;
}

/* --- --check-plugin ------------------------------------------------------------------------ */

static void add_extension(struct json_object *e, struct pf_buf *out)
{
	struct json_object *functions = get(e, "functions");

	pf_buf_puts(out, "    ");
	add_clean(out, text_of(e, "name"));
	pf_buf_puts(out, "\n");
	if (!functions)
		return;
	json_object_object_foreach(functions, name, there) {
		pf_buf_puts(out, "        ");
		add_clean(out, name);
		pf_buf_puts(out, json_object_get_boolean(there) ? "\n" : ": missing\n");
	}
}

static void add_device(struct json_object *d, struct pf_buf *out)
{
	struct json_object *memories = get(d, "memories"),
			   *first = get(d, "default_memory");
	size_t n = memories ? json_object_array_length(memories) : 0;

	pf_buf_printf(out, "    %lld: ", (long long)json_object_get_int64(get(d, "id")));
	add_clean(out, text_of(d, "kind"));
	pf_buf_puts(out, ", ");
	add_clean(out, text_of(d, "description"));
	pf_buf_puts(out, json_object_get_boolean(get(d, "addressable"))
				 ? ""
				 : ", another process's");
	for (size_t i = 0; i < n; i++) {
		pf_buf_puts(out, i ? ", " : "; memories ");
		add_clean(out, text_of(json_object_array_get_idx(memories, i), "kind"));
		if (first && (size_t)json_object_get_int(first) == i)
			pf_buf_puts(out, " (default)");
	}
	pf_buf_puts(out, "\n");
}

static void add_functions(struct json_object *f, struct pf_buf *out)
{
	struct json_object *missing = get(f, "missing");

	pf_buf_printf(out,
		      "functions: %d of the %d that this build knows; its table has %d\n",
		      json_object_get_int(get(f, "present")),
		      json_object_get_int(get(f, "known")),
		      json_object_get_int(get(f, "in_table")));
	for (size_t i = 0; missing && i < json_object_array_length(missing); i++) {
		pf_buf_puts(out, "    ");
		add_clean(out,
			  json_object_get_string(json_object_array_get_idx(missing, i)));
		pf_buf_puts(out, ": missing\n");
	}
}

static void add_list(const char *head, struct json_object *list,
		     void (*add)(struct json_object *o, struct pf_buf *out),
		     struct pf_buf *out)
{
	size_t n = list ? json_object_array_length(list) : 0;

	pf_buf_printf(out, "%s: %zu\n", head, n);
	for (size_t i = 0; i < n; i++)
		add(json_object_array_get_idx(list, i), out);
}

static void add_facts(struct json_object *facts, struct pf_buf *out)
{
	struct json_object *attributes = get(facts, "attributes"),
			   *program = get(facts, "program");
	char text[64];

	pf_buf_printf(out,
		      "API: %s\nplatform: ", version_text(facts, text, sizeof(text)));
	add_clean(out, text_of(facts, "platform"));
	pf_buf_puts(out, "\nplatform version: ");
	add_clean(out, text_of(facts, "platform_version"));
	pf_buf_puts(out, "\nattributes\n");
	if (attributes) {
		json_object_object_foreach(attributes, key, value) {
			pf_buf_puts(out, "    ");
			add_clean(out, key);
			pf_buf_puts(out, ": ");
			add_clean(out, pf_json_text(value));
			pf_buf_puts(out, "\n");
		}
	}
	add_functions(get(facts, "functions"), out);
	add_list("extensions", get(facts, "extension_details"), add_extension, out);
	add_list("devices", get(facts, "devices"), add_device, out);
	if (get(program, "result"))
		pf_buf_printf(
			out,
			"program: compiled in %.3f s, executed in %.6f s on device %d\n",
			json_object_get_double(get(program, "compile_seconds")),
			json_object_get_double(get(program, "execute_seconds")),
			json_object_get_int(get(program, "device")));
}

int plugin_report_check(const struct options *options)
{
	const struct pf_candidate *p = &options->plugins[0];
	pf_autobuf struct pf_buf out = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct json_object *facts, *o;
	char version[32];
	int r = inspect(p, options->timeout_s, true, &facts, &err);
	int status = r < 0 ? 1 : 0;

	if (options->json) {
		o = facts ? json_object_get(facts) : json_object_new_object();
		if (facts)
			pf_json_add_string(o, "api_version",
					   version_text(facts, version, sizeof(version)));
		pf_json_add_string(o, "name", p->name);
		pf_json_add_string(o, "path", p->path);
		json_object_object_add(o, "ok", json_object_new_boolean(r == 0));
		if (r < 0)
			pf_json_add_string(o, "error", err.text);
		add_json(&out, o);
		json_object_put(o);
	} else {
		pf_buf_puts(&out, "plugin: ");
		add_clean(&out, p->name);
		pf_buf_puts(&out, "\npath: ");
		add_clean(&out, p->path);
		pf_buf_puts(&out, "\n");
		if (facts)
			add_facts(facts, &out);
	}
	json_object_put(facts);
	if (r < 0)
		pf_log(PF_LOG_ERROR, "plugin %s: %s", p->name, err.text);
	return print(&out, status);
}
