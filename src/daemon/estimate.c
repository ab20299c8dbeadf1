/* SPDX-License-Identifier: Apache-2.0 */
/* --estimate: what a program costs on devices of a topology, without a mount. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/bytes.h"
#include "pjrtfs/engine.h"
#include "pjrtfs/executable.h"
#include "pjrtfs/json.h"
#include "pjrtfs/program.h"
#include "pjrtfs/topology_request.h"

#define POOL_SIZE (UINT64_C(32) << 30)

/* Plugins take any name; options name the topology by this one. */
static const char topology[] = "estimate";

struct estimate {
	const struct options *options;
	/* What --estimate names: a topology's bytes, or what a plugin is to make. */
	struct pf_buf bytes;                /* owned; empty: the latter */
	struct pf_topology_request request; /* owned */
	enum pf_program_format format;
	struct pf_buf program; /* owned */
	struct pf_arena *arena;
	struct pf_libraries *libraries;
	struct pf_compiler *compiler;
	struct pf_worker *worker; /* of the plugin that is tried; or NULL */
	struct pf_topology_facts facts;
};

/* --- files --------------------------------------------------------------------------------- */

/* Append the file PATH, of MAX bytes at most, to RET. */
static int read_file(const char *path, size_t max, struct pf_buf *ret, struct pf_err *err)
{
	pf_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : pf_read_all(fd, max + 1, ret);

	if (r < 0)
		return pf_err_set(err, r, "%s: %s", path, strerror(-r));
	return ret->len <= max ? 0
			       : pf_err_set(err, -EFBIG,
					    "%s: expected at most %zu bytes, found more",
					    path, max);
}

/* The bytes that a topology's file PATH, called as in topologies/, has at most; 0: PATH is a topology's name. */
static size_t max_of_file(const char *path)
{
	static const struct {
		const char *extension;
		size_t max;
	} files[] = {
		{ ".pb", PF_WIRE_TOPOLOGY },
		{ ".txt", PF_TOPOLOGY_LINE },
		{ ".json", PF_TOPOLOGY_JSON },
	};
	const char *extension = strrchr(path, '.');

	for (size_t i = 0; extension && i < PF_ARRAY_SIZE(files); i++)
		if (!strcmp(extension, files[i].extension))
			return files[i].max;
	return 0;
}

/* Read what --estimate names: a file, or the topology itself. */
static int read_topology(struct estimate *e, struct pf_err *err)
{
	const char *word = e->options->estimate, *extension = strrchr(word, '.');
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	size_t max = max_of_file(word);
	int r;

	if (!max)
		return pf_topology_request_parse(false, word, strlen(word), &e->request,
						 err);
	r = read_file(word, max, &text, err);
	if (r < 0)
		return r;
	if (!text.len)
		return pf_err_set(err, -EINVAL,
				  "%s: expected a topology, found an empty file", word);
	if (!strcmp(extension, ".pb")) {
		e->bytes = text;
		text = (struct pf_buf)PF_BUF_INIT;
		return 0;
	}
	r = pf_topology_request_parse(!strcmp(extension, ".json"), text.data, text.len,
				      &e->request, err);
	return r < 0 ? pf_err_wrap(err, r, "%s", word) : 0;
}

static int read_program(struct estimate *e, struct pf_err *err)
{
	const char *path = e->options->program, *slash = strrchr(path, '/');

	e->format = pf_program_format_of(slash ? slash + 1 : path, NULL);
	if (e->format == PF_PROGRAM_NONE || e->format == PF_PROGRAM_NATIVE)
		return pf_err_set(
			err, -EINVAL,
			"%s: expected a program, a file .mlir, .mlirbc, .hlo.pb "
			"or .jax_exported",
			path);
	return read_file(path, SIZE_MAX - 1, &e->program, err);
}

/* --- the compile --------------------------------------------------------------------------- */

static int await(struct pf_executable *x, struct pf_err *err)
{
	struct pf_sleeper s;
	int r;

	pf_sleeper_init(&s);
	r = pf_executable_compile(x, &s.waiter, err);
	if (r == 0)
		pf_sleeper_wait(&s);
	pf_sleeper_release(&s);
	return r < 0 ? r : pf_executable_result(x, err);
}

/* Compile the program for the topology that the worker's plugin has made. */
static int compile(struct estimate *e, struct json_object **ret, struct pf_err *err)
{
	const struct pf_executable_config config = { .workers = &e->worker,
						     .n_workers = 1,
						     .arena = e->arena,
						     .compiler = e->compiler };
	PF_CLEANUP(pf_executable_unrefp)
	struct pf_executable *x = pf_executable_new(&config, getuid());
	char options[64];
	ssize_t n;
	int r;

	if (!x)
		return no_memory(err);
	snprintf(options, sizeof(options), "{\"topology\":\"%s\"}", topology);
	pf_executable_set_format(x, e->format);
	n = pf_executable_write(x, e->program.data, e->program.len, 0, err);
	r = n < 0 ? (int)n
		  : pf_executable_set_options(x, options, strlen(options), false, err);
	if (r == 0)
		r = await(x, err);
	if (r < 0)
		return pf_err_wrap(err, r, "plugin %s: compile %s",
				   pf_worker_name(e->worker), e->options->program);
	*ret = pf_executable_estimate(x);
	return *ret ? 0 : no_memory(err);
}

/* --- the plugin ---------------------------------------------------------------------------- */

static int start_worker(struct estimate *e, const struct pf_candidate *p,
			struct pf_err *err)
{
	const struct options *o = e->options;
	struct pf_worker_config config;
	int r = plugin_choice_config(p, &config, err);

	config.client = PF_CLIENT_NONE; /* the devices here are left alone */
	config.arena = e->arena;
	config.libraries = e->libraries;
	config.pool_size = POOL_SIZE;
	plugin_choice_timeout(&config, o->timeout_s);
	if (r == 0)
		r = pf_worker_new(&config, &e->worker, err);
	return r < 0 ? pf_err_wrap(err, r, "plugin %s", p->name) : 0;
}

/* Have P's plugin make the topology, or read its bytes. */
static int make_topology(struct estimate *e, const struct pf_candidate *p,
			 struct pf_err *err)
{
	PF_CLEANUP(pf_bytes_unrefp) struct pf_bytes *bytes = NULL;
	const struct pf_buf *from = e->bytes.len ? &e->bytes : &e->facts.bytes;
	int r = start_worker(e, p, err);

	if (r == 0 && e->bytes.len)
		r = pf_topology_check(e->compiler, &e->worker, 1, getuid(), e->bytes.data,
				      e->bytes.len, &e->facts, err);
	else if (r == 0)
		r = pf_topology_create(e->compiler, &e->worker, 1, NULL, getuid(),
				       e->request.text, &e->facts, err);
	if (r == 0)
		r = pf_bytes_new(e->arena, NULL, from->len, &bytes, err);
	if (r < 0)
		return r;
	memcpy(pf_bytes_at(bytes, 0), from->data, from->len);
	return pf_topology_set(e->compiler, topology, bytes, from->len, err);
}

/* The worker's plugin is not the one. */
static void drop_worker(struct estimate *e)
{
	pf_topology_facts_release(&e->facts);
	if (e->worker)
		pf_worker_stop(e->worker);
	pf_worker_free(pf_steal(&e->worker));
}

/* None of the plugins is the one that the topology's file names. */
static int refuse_plugin(const struct estimate *e, struct pf_err *err)
{
	const struct options *o = e->options;
	pf_autobuf struct pf_buf names = PF_BUF_INIT;

	for (unsigned i = 0; i < o->n_plugins; i++)
		pf_buf_printf(&names, "%s%s", i ? ", " : "", o->plugins[i].name);
	return pf_err_set(
		err, -EINVAL,
		"%s: there is no plugin %s here (there are: %s): name it on the "
		"command line, as --plugin %s=PATH, or leave \"plugin\" out",
		o->estimate, e->request.plugin, names.failed ? "" : names.data,
		e->request.plugin);
}

/* Estimate on the first plugin that makes the topology, or on the one that its file names; if none does, the
 * reasons are logged, but for that of the one that the file names. */
static int try_all(struct estimate *e, struct json_object **ret, struct pf_err *err)
{
	const struct options *o = e->options;
	const char *only = e->request.plugin;
	struct pf_err why[MAX_PLUGINS];
	unsigned n = 0;

	for (unsigned i = 0; i < o->n_plugins; i++) {
		if (only && strcmp(o->plugins[i].name, only) != 0)
			continue;
		why[n] = (struct pf_err)PF_ERR_INIT;
		if (make_topology(e, &o->plugins[i], &why[n++]) == 0)
			return compile(e, ret, err);
		drop_worker(e);
	}
	if (!n)
		return refuse_plugin(e, err);
	*err = why[n - 1];
	if (only)
		return err->code;
	for (unsigned i = 0; i < n; i++)
		pf_log(PF_LOG_ERROR, "%s", why[i].text);
	return pf_err_set(err, err->code,
			  "no plugin here makes the topology %s: \"pjrtfs-fetch-plugins "
			  "tpu\" brings one for TPUs, \"pjrtfs-fetch-plugins cuda\" one "
			  "for NVIDIA's GPUs",
			  o->estimate);
}

static int begin(struct estimate *e, struct pf_err *err)
{
	const struct options *o = e->options;
	struct json_object *defaults = o->settings.compile_options;
	const struct pf_compiler_config config = {
		.owner = getuid(),
		.timeout_s = o->compile_timeout_s,
		.options = defaults ? pf_json_text(defaults) : NULL,
	};
	int r = pf_arena_new(o->memory_limit, &e->arena, err);

	if (r == 0)
		r = libraries_open(o, &e->libraries, err);
	return r < 0 ? r : pf_compiler_new(&config, &e->compiler, err);
}

static void end(struct estimate *e)
{
	/* The worker reads the arena, and what the compiler does calls the worker. */
	if (e->worker)
		pf_worker_stop(e->worker);
	pf_compiler_free(e->compiler);
	drop_worker(e);
	pf_libraries_free(e->libraries);
	pf_arena_free(e->arena);
	pf_buf_release(&e->program);
	pf_buf_release(&e->bytes);
	pf_topology_request_release(&e->request);
}

int estimate_make(const struct options *o, struct json_object **ret, struct pf_err *err)
{
	struct estimate e = { .options = o };
	int r = read_program(&e, err);

	*ret = NULL;
	if (r == 0)
		r = read_topology(&e, err);
	if (r == 0)
		r = begin(&e, err);
	if (r == 0)
		r = try_all(&e, ret, err);
	if (r == 0) {
		pf_json_add_string(*ret, "topology", o->estimate);
		pf_json_add_string(*ret, "program", o->program);
	}
	end(&e);
	return r;
}

/* --- the text ------------------------------------------------------------------------------ */

/* The number that O has under KEY; -1: it is not known. */
static double number_of(struct json_object *o, const char *key)
{
	struct json_object *v = json_object_object_get(o, key);

	return v ? json_object_get_double(v) : -1;
}

/* Append NUMBER, which is not negative, with UNIT: 1.11 GFLOP. */
static void add_scaled(struct pf_buf *out, double number, const char *unit)
{
	static const char *const prefixes[] = { "", "k", "M", "G", "T", "P", "E" };
	size_t i = 0;

	while (number >= 999.5 && i + 1 < PF_ARRAY_SIZE(prefixes)) {
		number /= 1000;
		i++;
	}
	pf_buf_printf(out, "%.3g %s%s", number, prefixes[i], unit);
}

static void add_known(struct pf_buf *out, struct json_object *o, const char *key,
		      const char *unit)
{
	double number = number_of(o, key);

	if (number < 0)
		pf_buf_puts(out, "not known");
	else
		add_scaled(out, number, unit);
}

static void add_seconds(struct pf_buf *out, struct json_object *o)
{
	double seconds = number_of(o, "optimal_seconds");

	if (seconds < 0)
		pf_buf_puts(out, "not known");
	else if (seconds < 1e-3)
		pf_buf_printf(out, "%.3g us", seconds * 1e6);
	else if (seconds < 1)
		pf_buf_printf(out, "%.3g ms", seconds * 1e3);
	else
		pf_buf_printf(out, "%.3g s", seconds);
}

static const char *fits_text(struct json_object *device)
{
	struct json_object *fits = json_object_object_get(device, "fits");

	if (!fits)
		return "whether it fits is not known";
	return json_object_get_boolean(fits) ? "it fits" : "it does not fit";
}

/* Append a line for each kind of device. */
static void add_devices(struct pf_buf *out, struct json_object *devices)
{
	for (size_t i = 0; i < json_object_array_length(devices); i++) {
		struct json_object *d = json_object_array_get_idx(devices, i);
		size_t start = out->len;

		pf_buf_printf(out, "device   %lld x %s: ",
			      (long long)json_object_get_int64(
				      json_object_object_get(d, "devices")),
			      pf_json_get_string(d, "kind"));
		add_known(out, d, "memory_limit_bytes", "B");
		pf_buf_printf(out, " of memory each, %s", fits_text(d));
		pf_buf_clean(out, start);
		pf_buf_puts(out, "\n");
	}
}

void estimate_print(struct json_object *o, struct pf_buf *out)
{
	add_devices(out, json_object_object_get(o, "devices"));
	pf_buf_puts(out, "memory   ");
	add_known(out, o, "memory_bytes", "B");
	pf_buf_puts(out, "\ntime     ");
	add_seconds(out, o);
	pf_buf_puts(out, "\nwork     ");
	add_known(out, o, "flops", "FLOP");
	pf_buf_puts(out, ", memory traffic ");
	add_known(out, o, "bytes_accessed", "B");
	pf_buf_printf(
		out,
		"\nprogram  optimized.hlo.pb and serialized of executables/NAME, in a "
		"mount of plugin %s\n",
		pf_json_get_string(o, "plugin"));
}
