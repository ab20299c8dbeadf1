/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: any text; what is taken can be printed and taken again. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/internal.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static int take(const char *text, size_t len, struct options *o, struct pf_err *err)
{
	struct pf_config_text t = { .file = "f", .text = text, .len = len };
	int r;

	memset(o, 0, sizeof(*o));
	settings_init(&o->settings);
	o->settings.layer = 1;
	o->memory_limit = 1 << 20;
	r = pf_config_text_parse(&t, err);
	if (r == 0)
		r = config_take(o, &t, err);
	pf_config_text_release(&t);
	return r;
}

static void release(struct options *o)
{
	options_forget_fuse(o);
	settings_release(&o->settings);
	free(o->cache.dir);
}

static char *print(const struct options *o)
{
	const struct plugin_words none = { .n_said = 0 };
	struct json_object *json;
	char *text;

	if (config_dump(o, NULL, &none, &json, NULL) < 0)
		abort();
	text = strdup(json_object_to_json_string(json));
	json_object_put(json);
	return text;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct pf_err err = PF_ERR_INIT;
	struct options o;
	int r = take((const char *)data, size, &o, &err);

	assert(r == 0 ? err.code == 0 || o.settings.n_defs > 0 : err.code == r);
	/* Every sentence names the file, most of them the place. */
	assert(r == 0 || !strncmp(err.text, "f:", 2));
	if (r == 0 && settings_check_refused(&o.settings, NULL) == 0) {
		char *text = print(&o), *again;

		release(&o);
		r = take(text, strlen(text), &o, &err);
		if (r < 0)
			abort();
		again = print(&o);
		assert(!strcmp(text, again));
		free(text);
		free(again);
	}
	release(&o);
	return 0;
}
