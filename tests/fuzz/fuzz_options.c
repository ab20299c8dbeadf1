/* Compile options: any JSON; the same options are the same bytes. */
#include <assert.h>
#include <string.h>

#include "pjrtfs/formats/options.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	pf_autobuf struct pf_buf a = PF_BUF_INIT, b = PF_BUF_INIT;
	struct json_tokener *tokener = json_tokener_new();
	struct pf_err err = PF_ERR_INIT;
	struct json_object *options;
	int r;

	if (!tokener)
		return 0;
	options = json_tokener_parse_ex(tokener, (const char *)data, (int)size);
	if (options) {
		r = pf_options_encode(options, 64, &a, &err);
		assert(r == err.code);
		assert(r < 0 ? a.len == 0 : a.len >= 6);
		assert(pf_options_encode(options, 64, &b, &err) == r);
		assert(a.len == b.len && (!a.len || memcmp(a.data, b.data, a.len) == 0));
	}
	json_object_put(options);
	json_tokener_free(tokener);
	return 0;
}
