/* SPDX-License-Identifier: Apache-2.0 */
/* The key of a compile in the cache, and what compiled code depends on where it is loaded. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/cache.h"
#include "pjrtfs/executable.h"
#include "pjrtfs/json.h"

/* D's devices, in their order, as programs are by default compiled for the first; with LOCAL, what differs
 * between the processes of a group, too. */
static void list_devices(const struct pf_description *d, bool local, struct pf_buf *ret)
{
	for (unsigned i = 0; i < d->n_devices; i++) {
		const struct pf_device_desc *device = &d->devices[i];

		pf_buf_printf(ret, "%" PRId64 " %" PRId64 " ", device->id,
			      device->process_index);
		if (local)
			pf_buf_printf(ret, "%" PRId64 " ", device->local_hardware_id);
		pf_buf_printf(ret, "%s\n", device->kind);
	}
}

/*
 * Set *RET to the inputs of keys that depend on WORKER's plugin, its devices and this
 * host, but not on a process.  DEVICES holds the text of the devices.  -ENOMEM.
 */
static int plugin_inputs(const struct pf_compiler *compiler,
			 const struct pf_worker *worker, struct pf_buf *devices,
			 struct pf_cache_inputs *ret, struct pf_err *err)
{
	const struct pf_description *d = pf_worker_description(worker);

	list_devices(d, true, devices);
	if (devices->failed)
		return pf_err_set(err, -ENOMEM, "no memory for a cache key");
	*ret = (struct pf_cache_inputs){
		.format = "native",
		.platform = d->platform,
		.platform_version = d->platform_version,
		.api_major = d->api_major,
		.api_minor = d->api_minor,
		.devices = devices->data ? devices->data : "",
		.host = compiler->host.data,
		.environment = "",
		.create = "",
	};
	return 0;
}

/* Set RET to the SHA-256 of the plugin's file that INSTANCE of WORKER has loaded.  Blocks: reads the file
 * the first time.  -ESTALE: the file has changed since; -ENOMEM, -errno. */
static int build_of(struct pf_compiler *compiler, const struct pf_worker *worker,
		    const struct pf_instance *instance, uint8_t ret[PF_SHA256],
		    struct pf_err *err)
{
	const struct stat *st = pf_instance_plugin(instance);

	if (!st)
		return pf_err_set(err, -EIO, "the file of plugin %s is not known",
				  pf_worker_name(worker));
	return pf_cache_file_digest(compiler->cache, pf_worker_path(worker), st, ret,
				    err);
}

/* The digest of the plugin that INSTANCE of WORKER has loaded.  False: its file is not
 * known, and RET holds the instance's number instead. */
static bool identify_plugin(struct pf_compiler *compiler, const struct pf_worker *worker,
			    const struct pf_instance *instance, uint8_t ret[PF_SHA256])
{
	uint64_t number = pf_instance_number(instance);

	if (compiler->cache && build_of(compiler, worker, instance, ret, NULL) == 0)
		return true;
	memset(ret, 0, PF_SHA256);
	memcpy(ret, &number, sizeof(number));
	return false;
}

struct warming {
	struct pf_compile_job job;
	struct pf_compiler *compiler; /* borrowed */
	struct pf_worker *worker;     /* borrowed */
};

static void warm(struct pf_compile_job *job)
{
	struct warming *w = pf_container_of(job, struct warming, job);
	pf_autobuf struct pf_buf environment = PF_BUF_INIT;
	struct pf_instance *instance = pf_worker_instance(w->worker, NULL);
	uint8_t sha[PF_SHA256];

	if (instance) {
		pf_compiler_environment(w->compiler, w->worker, instance, &environment);
		(void)identify_plugin(w->compiler, w->worker, instance, sha);
	}
	pf_instance_unref(instance);
	free(w);
}

void pf_compiler_warm(struct pf_compiler *compiler, struct pf_worker *worker)
{
	struct pf_cache *cache = compiler->cache;
	struct warming *w = cache ? calloc(1, sizeof(*w)) : NULL;

	if (!w)
		return;
	w->job.run = warm;
	w->compiler = compiler;
	w->worker = worker;
	pf_compiler_add(compiler, &w->job, true);
}

int pf_compile_identity(struct pf_compiler *compiler, const struct pf_worker *worker,
			const struct pf_instance *instance, bool any_build,
			char ret[PF_CACHE_KEY_TEXT], struct pf_err *err)
{
	pf_autobuf struct pf_buf devices = PF_BUF_INIT;
	struct pf_cache_inputs in;
	struct pf_cache_key key;
	int r = plugin_inputs(compiler, worker, &devices, &in, err);

	if (any_build) {
		in.format = "native, any build";
		in.platform_version = "";
		in.api_major = in.api_minor = 0;
	} else if (r == 0) {
		r = build_of(compiler, worker, instance, in.plugin, err);
	}
	if (r == 0)
		r = pf_cache_key_make(&in, &key, err);
	if (r == 0)
		pf_cache_key_text(&key, ret);
	return r;
}

/* Is PLATFORM, of a topology, a CPU's?  One without a name may be. */
static bool is_cpu(const char *platform)
{
	return !*platform || strcasestr(platform, "cpu");
}

/* The digest of this host, as a text. */
static int host_digest(const struct pf_compiler *compiler, char ret[PF_CACHE_KEY_TEXT],
		       struct pf_err *err)
{
	const struct pf_cache_inputs in = { .format = "host",
					    .platform = "",
					    .platform_version = "",
					    .devices = "",
					    .host = compiler->host.data,
					    .environment = "",
					    .create = "" };
	struct pf_cache_key key;
	int r = pf_cache_key_make(&in, &key, err);

	if (r == 0)
		pf_cache_key_text(&key, ret);
	return r;
}

int pf_compile_origin(struct pf_compiler *compiler, const struct pf_worker *worker,
		      const struct pf_instance *instance, const char *platform,
		      struct pf_origin *ret, struct pf_err *err)
{
	uint8_t sha[PF_SHA256];
	int r = build_of(compiler, worker, instance, sha, err);

	*ret = (struct pf_origin){ .host = "" };
	if (r < 0)
		return r;
	pf_hex(sha, sizeof(sha), ret->build);
	return is_cpu(platform) ? host_digest(compiler, ret->host, err) : 0;
}

/* The create options of WORKER without those that tell a member of its group from the others; the
 * caller's.  NULL: no memory. */
static struct json_object *group_options(const struct pf_worker *worker)
{
	const char *text = pf_worker_options(worker);
	struct json_object *o = NULL;

	if (pf_json_parse(text, strlen(text), &o, NULL) < 0)
		return NULL;
	json_object_object_del(o, "node_id");
	json_object_object_del(o, "visible_devices");
	return o;
}

/* Append the lines of TEXT, the environment, but those that give a member its devices, as Slurm's
 * CUDA_VISIBLE_DEVICES. */
static void group_environment(const char *text, struct pf_buf *ret)
{
	while (*text) {
		size_t len = strcspn(text, "\n");
		const char *visible = memmem(text, strcspn(text, "=\n"), "_VISIBLE_", 9);

		if (!visible)
			pf_buf_printf(ret, "%.*s\n", (int)len, text);
		text += len + (text[len] == '\n');
	}
}

/* Make the key that C has in all members of the group, of what IN has and they share.  If process 0 has
 * put an entry there, and only then, it is known that C is for devices of several. */
static int make_group_key(struct compile *c, struct pf_cache_inputs in,
			  struct pf_err *err)
{
	const struct pf_description *d = pf_worker_description(c->plan.worker);
	struct json_object *shared = group_options(c->plan.worker);
	struct pf_cache *cache = c->x->compiler->cache;
	pf_autobuf struct pf_buf devices = PF_BUF_INIT, environment = PF_BUF_INIT;
	int r;

	list_devices(d, false, &devices);
	group_environment(in.environment, &environment);
	in.create = shared ? pf_json_text(shared) : NULL;
	if (!in.create || devices.failed || environment.failed) {
		json_object_put(shared);
		return pf_err_set(err, -ENOMEM, "no memory for a cache key");
	}
	in.devices = devices.data ? devices.data : "";
	in.environment = environment.data ? environment.data : "";
	r = pf_cache_key_make(&in, &c->group_key, err);
	json_object_put(shared);
	c->from_group = r == 0 && cache && pf_cache_has(cache, &c->group_key, NULL);
	return r;
}

/* A compile for a topology asks no client.  On which host it was done counts for a CPU's alone, which the
 * entry tells: see can_stand. */
static void forget_client(struct pf_cache_inputs *in)
{
	in->platform = in->platform_version = in->devices = in->host = in->create = "";
}

int pf_compile_key(struct compile *c, struct pf_err *err)
{
	pf_autobuf struct pf_buf devices = PF_BUF_INIT, environment = PF_BUF_INIT;
	char format[PF_WIRE_FORMAT + 24];
	struct pf_compiler *compiler = c->x->compiler;
	struct pf_worker *worker = c->plan.worker;
	struct pf_cache_inputs in;
	int r = plugin_inputs(compiler, worker, &devices, &in, err);

	if (r < 0)
		return r;
	in.format = c->format;
	in.create = pf_worker_options(worker);
	if (c->plan.topology_len) { /* where the options end, and the topology begins */
		snprintf(format, sizeof(format), "%s, topology %u", c->format,
			 c->plan.topology_len);
		in.format = format;
		forget_client(&in);
	}
	in.program = pf_bytes_at(c->program, 0);
	in.program_len = c->len;
	in.part_off = c->facts.off;
	in.part_len = c->facts.len;
	in.platform_number = c->plan.platform;
	in.options = c->plan.options.data;
	in.options_len = c->plan.options.len;
	in.libraries = c->libraries;
	in.libraries_len = c->libraries_len;
	pf_compiler_environment(compiler, worker, c->instance, &environment);
	if (environment.failed)
		return pf_err_set(err, -ENOMEM, "no memory for a cache key");
	in.environment = environment.data ? environment.data : "";
	c->can_be_kept = identify_plugin(compiler, worker, c->instance, in.plugin);
	if (!pf_worker_in_group(worker) || c->plan.topology_len)
		return pf_cache_key_make(&in, &c->key, err);
	r = make_group_key(c, in, err);
	if (r < 0)
		return r;
	if (c->from_group) {
		c->key = c->group_key;
		return 0;
	}
	/* The group's key stands for the program, which need not be read twice. */
	in.program = c->group_key.bytes;
	in.program_len = sizeof(c->group_key.bytes);
	return pf_cache_key_make(&in, &c->key, err);
}
