/* SPDX-License-Identifier: Apache-2.0 */
/* Compile options: any JSON; the same options are the same bytes. */
#include <assert.h>
#include <string.h>

#include "pjrtfs/plugin_options.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	pf_autobuf struct pf_buf a = PF_BUF_INIT, b = PF_BUF_INIT;
	struct json_tokener *tokener = json_tokener_new();
	struct pf_err err = PF_ERR_INIT;
	const struct pf_options_target target = { .plugin = "cpu", .n_devices = 64 };
	struct json_object *options;
	const char *name;
	size_t len;
	int r;

	if (!tokener)
		return 0;
	options = json_tokener_parse_ex(tokener, (const char *)data, (int)size);
	if (options && pf_options_plugin(options, &name, &len, NULL) == 0)
		assert(!name || strlen(name) >= len);
	if (options) {
		r = pf_options_encode(options, &target, &a, &err);
		assert(r == err.code);
		assert(r < 0 ? a.len == 0 : a.len >= 6);
		assert(pf_options_encode(options, &target, &b, &err) == r);
		assert(a.len == b.len && (!a.len || memcmp(a.data, b.data, a.len) == 0));
	}
	json_object_put(options);
	options = NULL;
	if (pf_options_assignment_json(data, size, &options, NULL) == 0)
		assert(json_object_is_type(options, json_type_array));
	json_object_put(options);
	json_tokener_free(tokener);
	return 0;
}
