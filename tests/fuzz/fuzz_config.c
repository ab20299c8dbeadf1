/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: any text; the options that it sets can be printed and set again. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/internal.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static int take(const char *text, size_t len, struct options *o, struct pf_err *err)
{
	memset(o, 0, sizeof(*o));
	settings_init(&o->settings);
	o->memory_limit = 1 << 20;
	o->start_timeout_s = o->isolate_idle_s = o->isolate_max = 1;
	o->group_timeout_s = o->group_lost_s = 1;
	return config_take(o, "f", text, len, err);
}

static char *print(const struct options *o)
{
	struct json_object *json = options_dump(o);
	char *text = strdup(json_object_to_json_string(json));

	json_object_put(json);
	return text;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct pf_err err = PF_ERR_INIT;
	struct options o;
	int r = take((const char *)data, size, &o, &err);
	char *text, *again;

	assert(err.code == r);
	/* Every sentence names the file, most of them the place. */
	assert(r == 0 || !strncmp(err.text, "f:", 2));
	if (r == 0) {
		text = print(&o);
		options_release(&o);
		r = take(text, strlen(text), &o, &err);
		if (r < 0)
			abort();
		again = print(&o);
		assert(!strcmp(text, again));
		free(text);
		free(again);
	}
	options_release(&o);
	return 0;
}
