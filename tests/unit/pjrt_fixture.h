/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins, clients, programs, and buffers in each memory, for tests of the PJRT layer. */
#ifndef PJRTFS_TESTS_UNIT_PJRT_FIXTURE_H
#define PJRTFS_TESTS_UNIT_PJRT_FIXTURE_H

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "plugins.h"

#include "pjrt/internal.h"

/* CompileOptionsProto: executable_build_options { num_replicas: 1 num_partitions: 1 }. */
static const char one_device[] = { 0x1a, 0x04, 0x20, 0x01, 0x28, 0x01 };

static inline struct pj_plugin *load(const char *path)
{
	struct pj_plugin *plugin = NULL;
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(pj_plugin_load(path, &plugin, &err) == 0, "%s", err.text);
	return plugin;
}

/* The table that the plugin at PATH offers. */
static inline const PJRT_Api *table(const char *path)
{
	const PJRT_Api *(*get)(void);
	void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	ck_assert_msg(object != NULL, "%s", dlerror());
	*(void **)&get = dlsym(object, "GetPjrtApi");
	ck_assert_ptr_nonnull((void *)get);
	return get();
}

static inline struct pj_client *connect_client(const struct pj_plugin *plugin,
					       const char *options)
{
	struct json_object *json = json_tokener_parse(options);
	struct pj_client *client = NULL;
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(pj_client_new(plugin, json, NULL, &client, &err) == 0, "%s",
		      err.text);
	json_object_put(json);
	return client;
}

/* Compile TEXT; OPTIONS has the length of one_device. */
static inline struct pj_executable *compile(const struct pj_client *client,
					    const char *text, const char *options)
{
	const struct pj_source source = { text, strlen(text), "mlir", options,
					  sizeof(one_device) };
	struct pj_executable *x = NULL;
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(pj_executable_compile(client, &source, &x, &err) == 0, "%s",
		      err.text);
	return x;
}

/* Execute X as RUN says, on one device.  The results are the caller's and ready, or there are none. */
static inline int run_once(const struct pj_executable *x, const struct pj_run *run,
			   struct PJRT_Buffer **results, struct pf_err *err)
{
	struct PJRT_Event *done = NULL;
	int r = pj_executable_start(x, run, results, &done, err);

	return r < 0 ? r : pj_executable_await(x, 1, &done, err);
}

/* --- buffers ------------------------------------------------------------------------------ */

enum { SOME = 15, MANY = 4 << 20 }; /* bytes */

static const struct pf_shape three_by_five = { .rank = 2, .dims = { 3, 5 } };
static const struct pf_shape empty = { .rank = 2, .dims = { 0, 3 } };
static const struct pf_shape bytes_many = { .rank = 1, .dims = { MANY } };

/* A plugin and its client of two devices, the default of which is HERE. */
struct fixture {
	struct pj_plugin *plugin;
	struct pj_client *client;
	struct pj_place here;
};

/* The client of PLUGIN, which is given. */
static inline struct fixture begin_with(struct pj_plugin *plugin)
{
	struct fixture f = { .plugin = plugin };

	f.client = connect_client(f.plugin, "{\"cpu_device_count\":2}");
	ck_assert_uint_eq(f.client->n_devices, 2);
	f.here.device = &f.client->devices[0];
	return f;
}

static inline struct fixture begin(const char *path)
{
	return begin_with(load(path));
}

static inline void end(struct fixture *f)
{
	pj_client_free(f->client);
	pj_plugin_free(f->plugin);
}

/* Place I of all that there are: each device's default, then each of its memories. */
static inline bool nth_place(const struct pj_client *client, size_t i,
			     struct pj_place *ret)
{
	for (size_t d = 0; d < client->n_devices; d++) {
		const struct pj_device *device = &client->devices[d];

		if (i <= device->n_memories) {
			*ret = (struct pj_place){ device,
						  i ? device->memories[i - 1] : NULL };
			return true;
		}
		i -= device->n_memories + 1;
	}
	return false;
}

static inline struct PJRT_Buffer *upload(const struct fixture *f,
					 const struct pj_place *place, const void *bytes,
					 uint64_t len, int dtype,
					 const struct pf_shape *shape)
{
	struct PJRT_Buffer *buffer = NULL;
	struct pf_err err = PF_ERR_INIT;
	const void *alias;

	ck_assert_msg(pj_buffer_from_host(f->client, place, bytes, len, dtype, shape,
					  &buffer, &alias, &err) == 0,
		      "%s", err.text);
	return buffer;
}

static inline struct PJRT_Buffer *copy(const struct fixture *f,
				       const struct pj_place *place,
				       struct PJRT_Buffer *source)
{
	struct PJRT_Buffer *buffer = NULL;
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(pj_buffer_copy(f->client, place, source, &buffer, &err) == 0, "%s",
		      err.text);
	return buffer;
}

static inline struct PJRT_Buffer *uninitialized(const struct fixture *f,
						const struct pj_place *place,
						uint64_t len, int dtype,
						const struct pf_shape *shape)
{
	struct PJRT_Buffer *buffer = NULL;
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(pj_buffer_uninitialized(f->client, place, len, dtype, shape,
					      &buffer, &err) == 0,
		      "%s", err.text);
	return buffer;
}

/* BUFFER is an array of DTYPE and has the LEN bytes at WANT. */
static inline void check_holds(const struct fixture *f, struct PJRT_Buffer *buffer,
			       int dtype, const void *want, uint64_t len)
{
	struct pf_err err = PF_ERR_INIT;
	char *back = calloc(1, len + 1);
	struct pf_shape shape;
	enum pf_dtype type;
	uint64_t has;

	ck_assert_int_eq(pj_buffer_type(f->plugin, buffer, &type, &shape, &has, &err), 0);
	ck_assert_int_eq((int)type, dtype);
	ck_assert_uint_eq(has, len);
	ck_assert_msg(pj_buffer_read(f->plugin, buffer, type, back, len, &err) == 0, "%s",
		      err.text);
	ck_assert_mem_eq(back, want, len);
	free(back);
}

static inline bool lies_in(const struct fixture *f, struct PJRT_Buffer *buffer,
			   const struct pj_place *place)
{
	PJ_ARGS(Buffer_Memory, memory, .buffer = buffer);
	const struct pj_device *device = place->device;

	ck_assert_int_eq(PJ_CALL(f->plugin, NULL, Buffer_Memory, &memory), 0);
	return memory.memory ==
	       (place->memory ? place->memory : device->memories[device->default_memory]);
}

#endif
