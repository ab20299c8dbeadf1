/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins, clients and programs for tests of the PJRT layer. */
#ifndef PJRTFS_TESTS_UNIT_PJRT_FIXTURE_H
#define PJRTFS_TESTS_UNIT_PJRT_FIXTURE_H

#include <dlfcn.h>
#include <string.h>

#include "plugins.h"

#include "pjrtfs/pjrt.h"

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

#endif
