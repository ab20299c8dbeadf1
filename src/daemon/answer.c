/* SPDX-License-Identifier: Apache-2.0 */
/* The options that mount nothing: --help, --dump-config, --list-plugins, --check-plugin, --status,
 * --estimate */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/engine.h"
#include "pjrtfs/json.h"

enum { MAX_THREADS = 4 };

/* LIBRARIES and PRINTED may be NULL. */
static int inspect(const struct pf_candidate *p, unsigned timeout_s, bool run,
		   struct pf_libraries *libraries, struct pf_buf *printed,
		   struct json_object **ret, struct pf_err *err)
{
	struct pf_worker_config config;
	int r = plugin_choice_config(p, &config, err);

	*ret = NULL;
	config.libraries = libraries;
	config.printed = printed;
	plugin_choice_timeout(&config, timeout_s);
	return r < 0 ? r : pf_inspect(&config, run, ret, err);
}

static int minor_of(struct json_object *facts)
{
	struct json_object *v = json_object_object_get(facts, "api_version");

	if (!json_object_is_type(v, json_type_array) || json_object_array_length(v) != 2)
		return -1;
	return json_object_get_int(json_object_array_get_idx(v, 1));
}

int answer_minor(void *arg, const char *path)
{
	const struct pf_candidate p = { .name = (char *)(uintptr_t) "plugin",
					.path = (char *)(uintptr_t)path };
	struct json_object *facts;
	int minor = inspect(&p, 0, false, NULL, NULL, &facts, NULL) < 0 ? -1
									: minor_of(facts);

	(void)arg;
	json_object_put(facts);
	return minor;
}

/* "0.81" as FACTS have it, in DST. */
static const char *version_text(struct json_object *facts, char dst[32])
{
	struct json_object *v = json_object_object_get(facts, "api_version");

	snprintf(dst, 32, "%d.%d", json_object_get_int(json_object_array_get_idx(v, 0)),
		 minor_of(facts));
	return dst;
}

/* --- printing ------------------------------------------------------------------------------ */

/* Print all of OUT, or nothing.  STATUS, or 1 if that fails. */
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

static int print_json(struct json_object *o, int status)
{
	pf_autobuf struct pf_buf out = PF_BUF_INIT;

	pf_buf_printf(&out, "%s\n",
		      json_object_to_json_string_ext(
			      o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
					 JSON_C_TO_STRING_NOSLASHESCAPE));
	return print(&out, status);
}

/* Add the last lines of PRINTED, by a plugin that did not start, to O, if there are any. */
static void add_printed(struct json_object *o, struct pf_buf *printed)
{
	struct json_object *lines = json_object_new_array();
	size_t at = printed->len;

	for (unsigned n = 0; at > 0 && n < PF_PLUGIN_LOG_BURST; n++) {
		char *newline = memrchr(printed->data, '\n', at - 1);

		at = newline ? (size_t)(newline - printed->data) + 1 : 0;
	}
	while (at < printed->len) {
		char *line = printed->data + at;
		size_t len = strcspn(line, "\n");

		at += len + 1;
		pf_json_append(lines,
			       json_object_new_string_len(line,
							  (int)pf_err_clean(line, len)));
	}
	if (printed->len)
		pf_json_add(o, "printed", lines);
	else
		json_object_put(lines);
}

/* --- --list-plugins ------------------------------------------------------------------------ */

struct list {
	const struct options *options;
	struct pf_discovery *d;     /* owned */
	struct json_object **facts; /* owned, of each file; NULL: it cannot be used */
	struct pf_err *errors;      /* of each file */
	struct pf_buf *printed;     /* by each file's plugin, if that did not start */
	atomic_uint next;           /* file to look at */
};

static void look_at(struct list *l, unsigned i, const struct pf_candidate *p)
{
	const struct options *o = l->options;

	if (inspect(p, o->timeout_s, o->check, NULL, &l->printed[i], &l->facts[i],
		    &l->errors[i]) < 0)
		json_object_put(pf_steal(&l->facts[i]));
}

static void *list_main(void *arg)
{
	struct list *l = arg;
	unsigned i;

	while ((i = atomic_fetch_add(&l->next, 1)) < l->d->n_files) {
		const struct pf_plugin_file *f = &l->d->files[i];
		struct pf_candidate p = { .name = (char *)(uintptr_t)f->name,
					  .path = f->path };

		if (f->refused)
			pf_err_set(&l->errors[i], -1, "%s", f->refused);
		else if (settings_attach(&l->options->settings, &p, false,
					 &l->errors[i]) == 0)
			look_at(l, i, &p);
		p.name = p.path = NULL; /* discovery's */
		candidate_release(&p);
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

/* What answer_minor would return. */
static int known_minor(void *arg, const char *path)
{
	const struct list *l = arg;

	for (unsigned i = 0; i < l->d->n_files; i++)
		if (!strcmp(l->d->files[i].path, path))
			return l->facts[i] ? minor_of(l->facts[i]) : -1;
	return -1;
}

/* What FACTS say of the program that was tried becomes O's: "ok", or why there was none. */
static void add_program(struct json_object *o, struct json_object *facts)
{
	struct json_object *program = pf_json_get(facts, "program", json_type_object);
	const char *why = program ? pf_json_get_string(program, "unavailable") : "";

	pf_json_add_string(o, "program", *why ? why : "ok");
}

static struct json_object *file_json(struct list *l, unsigned i)
{
	const struct pf_plugin_file *f = &l->d->files[i];
	const struct pf_search_place *place = &l->d->places[f->place];
	/* Otherwise the name means an earlier file, or a newer one of the same place. */
	bool meant = pf_discovery_pick(l->d, f->name, known_minor, l) == f;
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
		add_printed(o, &l->printed[i]);
		return o;
	}
	pf_json_add_string(o, "api_version", version_text(l->facts[i], version));
	pf_json_add_string(o, "platform", pf_json_get_string(l->facts[i], "platform"));
	pf_json_add_int(o, "devices",
			(int64_t)json_object_array_length(
				json_object_object_get(l->facts[i], "devices")));
	if (*pf_json_get_string(l->facts[i], "compiler"))
		pf_json_add_string(o, "compiler",
				   pf_json_get_string(l->facts[i], "compiler"));
	if (l->options->check)
		add_program(o, l->facts[i]);
	json_object_object_add(o, "meant", json_object_new_boolean(meant));
	return o;
}

static struct json_object *place_json(const struct list *l, unsigned i)
{
	const struct pf_search_place *p = &l->d->places[i];
	struct json_object *o = json_object_new_object();
	int64_t n = 0;

	for (unsigned k = 0; k < l->d->n_files; k++)
		n += l->d->files[k].place == i;
	pf_json_add_string(o, "source", p->source);
	pf_json_add_string(o, "place", p->where);
	pf_json_add_int(o, "plugins", n);
	json_object_object_add(o, "ok", json_object_new_boolean(!p->wrong));
	if (p->note)
		pf_json_add_string(o, "note", p->note);
	return o;
}

static struct json_object *list_json(struct list *l)
{
	struct json_object *o = json_object_new_object(),
			   *plugins = json_object_new_array(),
			   *places = json_object_new_array();

	for (unsigned i = 0; i < l->d->n_files; i++)
		json_object_array_add(plugins, file_json(l, i));
	for (unsigned i = 0; i < l->d->n_places; i++)
		json_object_array_add(places, place_json(l, i));
	json_object_object_add(o, "plugins", plugins);
	json_object_object_add(o, "places", places);
	return o;
}

/* Print a line of the text; names of plugins and files cannot move the terminal's cursor. */
__attribute__((__format__(__printf__, 2, 3))) static void add_line(struct pf_buf *out,
								   const char *fmt, ...)
{
	size_t start = out->len;
	char text[2 * PATH_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	pf_buf_puts(out, text);
	pf_buf_clean(out, start);
	pf_buf_puts(out, "\n");
}

static void add_plugin(struct pf_buf *out, struct json_object *p)
{
	const char *place = pf_json_get_string(p, "place"),
		   *package = pf_json_get_string(p, "package"),
		   *compiler = pf_json_get_string(p, "compiler"),
		   *program = pf_json_get_string(p, "program");

	add_line(out, "%s", pf_json_get_string(p, "name"));
	add_line(out, "    path      %s", pf_json_get_string(p, "path"));
	add_line(out, "    from      %s%s%s", pf_json_get_string(p, "source"),
		 *place ? " " : "", place);
	if (*package)
		add_line(out, "    package   %s", package);
	else if (*pf_json_get_string(p, "version"))
		add_line(out, "    version   %s", pf_json_get_string(p, "version"));
	if (!json_object_get_boolean(json_object_object_get(p, "ok"))) {
		add_line(out, "    refused   %s", pf_json_get_string(p, "error"));
		return;
	}
	add_line(out, "    API       %s", pf_json_get_string(p, "api_version"));
	if (*compiler)
		add_line(out, "    platform  compiler: no device here (%s)", compiler);
	else
		add_line(out, "    platform  %s, %d devices",
			 pf_json_get_string(p, "platform"),
			 json_object_get_int(json_object_object_get(p, "devices")));
	if (*program && strcmp(program, "ok") != 0)
		add_line(out, "    program   was not compiled: %s", program);
	else if (*program)
		add_line(out, "    program   was compiled %s",
			 *compiler ? "for a topology" : "and executed");
	if (!json_object_get_boolean(json_object_object_get(p, "meant")))
		add_line(out, "    note      another one is meant by this name: give the "
			      "path");
}

static void add_place(struct pf_buf *out, struct json_object *p)
{
	const char *place = pf_json_get_string(p, "place"),
		   *note = pf_json_get_string(p, "note");
	int n = json_object_get_int(json_object_object_get(p, "plugins"));
	char count[16] = "";

	if (n || !*note)
		snprintf(count, sizeof(count), "%d%s", n, *note ? ", " : "");
	add_line(out, "    %s%s%s: %s%s", pf_json_get_string(p, "source"),
		 *place ? " " : "", place, count, note);
}

static int print_list(struct list *l)
{
	struct json_object *o = list_json(l),
			   *plugins = json_object_object_get(o, "plugins"),
			   *places = json_object_object_get(o, "places");
	pf_autobuf struct pf_buf out = PF_BUF_INIT;
	int status;

	if (l->options->json) {
		status = print_json(o, 0);
		json_object_put(o);
		return status;
	}
	for (size_t i = 0; i < json_object_array_length(plugins); i++)
		add_plugin(&out, json_object_array_get_idx(plugins, i));
	add_line(&out, "looked in");
	for (size_t i = 0; i < json_object_array_length(places); i++)
		add_place(&out, json_object_array_get_idx(places, i));
	json_object_put(o);
	return print(&out, 0);
}

/* Log each error, as the list may be redirected to a file.  The exit status. */
static int log_errors(const struct list *l)
{
	int status = l->d->n_files ? 0 : 1;

	if (status)
		pf_log(PF_LOG_WARNING, "no plugin was found");
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
	return status;
}

static int list_plugins(const struct options *options)
{
	struct list l = { .options = options };
	struct pf_err err = PF_ERR_INIT;
	int status = 1;

	if (plugin_choice_list(options, &l.d, &err) < 0) {
		pf_log(PF_LOG_ERROR, "%s", err.text);
		return 1;
	}
	l.facts = calloc(l.d->n_files + 1, sizeof(struct json_object *));
	l.errors = calloc(l.d->n_files + 1, sizeof(struct pf_err));
	l.printed = calloc(l.d->n_files + 1, sizeof(struct pf_buf));
	if (l.facts && l.errors && l.printed) {
		look_at_all(&l);
		status = print_list(&l) | log_errors(&l);
	} else {
		pf_log(PF_LOG_ERROR, "no memory");
	}
	for (unsigned i = 0; l.facts && i < l.d->n_files; i++)
		json_object_put(l.facts[i]);
	for (unsigned i = 0; l.printed && i < l.d->n_files; i++)
		pf_buf_release(&l.printed[i]);
	free(l.facts);
	free(l.errors);
	free(l.printed);
	pf_discovery_free(l.d);
	return status;
}

/* --- --check-plugin ------------------------------------------------------------------------ */

/* The worker describes custom calls as [target, number of the library, why not or null], and
 * libraries by the reason why one cannot work.  Name both in FACTS of the plugin NAME. */
static void name_libraries(struct json_object *facts, struct pf_libraries *libraries,
			   const char *name)
{
	struct json_object *calls = json_object_object_get(facts, "custom_calls"),
			   *whys = json_object_object_get(facts, "libraries"),
			   *good = json_object_new_object(),
			   *bad = json_object_new_object(),
			   *list = json_object_new_object();
	const struct pf_library *of[PF_LIBRARIES_MAX];
	unsigned n = pf_libraries_of(libraries, name, of);

	for (size_t i = 0; i < json_object_array_length(calls); i++) {
		struct json_object *call = json_object_array_get_idx(calls, i);
		int64_t library =
			json_object_get_int64(json_object_array_get_idx(call, 1));
		struct json_object *why = json_object_array_get_idx(call, 2);

		pf_json_add_string(why ? bad : good,
				   json_object_get_string(
					   json_object_array_get_idx(call, 0)),
				   why           ? json_object_get_string(why)
				   : library < 0 ? "pjrtfs"
						 : of[library]->name);
	}
	for (unsigned i = 0; i < n; i++) {
		struct json_object *why = json_object_array_get_idx(whys, i);

		pf_json_add_string(list, of[i]->path,
				   why ? json_object_get_string(why) : "ok");
	}
	pf_json_add(facts, "custom_calls", good);
	pf_json_add(facts, "refused_calls", bad);
	pf_json_add(facts, "libraries", list);
}

static int check_plugin(const struct options *options)
{
	const struct pf_candidate *p = &options->plugins[0];
	struct pf_libraries *libraries = NULL;
	struct json_object *facts = NULL, *o;
	pf_autobuf struct pf_buf printed = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	char version[32];
	int r = libraries_open(options, &libraries, &err), status;

	if (r == 0)
		r = inspect(p, options->timeout_s, true, libraries, &printed, &facts,
			    &err);
	o = facts ? facts : json_object_new_object();
	if (facts) {
		pf_json_add_string(o, "api_version", version_text(facts, version));
		name_libraries(facts, libraries, p->name);
	}
	pf_libraries_free(libraries);
	pf_json_add_string(o, "name", p->name);
	pf_json_add_string(o, "path", p->path);
	json_object_object_add(o, "ok", json_object_new_boolean(r == 0));
	if (r < 0)
		pf_json_add_string(o, "error", err.text);
	add_printed(o, &printed);
	status = print_json(o, r < 0 ? 1 : 0);
	if (r < 0)
		pf_log(PF_LOG_ERROR, "plugin %s: %s", p->name, err.text);
	else if (*pf_json_get_string(o, "compiler"))
		pf_log(PF_LOG_INFO, "plugin %s: compiler: no device here (%s)", p->name,
		       pf_json_get_string(o, "compiler"));
	json_object_put(o);
	return status;
}

/* --- --estimate ---------------------------------------------------------------------------- */

static int estimate(const struct options *o)
{
	pf_autobuf struct pf_buf out = PF_BUF_INIT;
	struct json_object *found;
	struct pf_err err = PF_ERR_INIT;
	int status;

	if (estimate_make(o, &found, &err) < 0) {
		pf_log(PF_LOG_ERROR, "%s", err.text);
		return EXIT_FAILED;
	}
	if (o->json) {
		status = print_json(found, EXIT_OK);
	} else {
		estimate_print(found, &out);
		status = print(&out, EXIT_OK);
	}
	json_object_put(found);
	return status;
}

/* --- all ------------------------------------------------------------------------------------ */

static int dump_config(const struct options *o)
{
	struct json_object *dump = options_dump(o);
	int status = print_json(dump, 0);

	json_object_put(dump);
	return status;
}

int answer(const struct options *o)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;

	if (o->list_plugins)
		return list_plugins(o);
	if (o->check_plugin)
		return check_plugin(o);
	if (o->status)
		return status_show(o->status, o->timeout_s, o->json);
	if (o->dump_config)
		return dump_config(o);
	if (o->estimate)
		return estimate(o);
	if (o->help)
		options_help(&text);
	else
		pf_buf_puts(&text, "pjrtfs " PACKAGE_VERSION "\n");
	return print(&text, EXIT_OK);
}
