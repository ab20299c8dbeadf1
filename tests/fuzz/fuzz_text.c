/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays as text.  The first byte is the element type.  Text printed from accepted
 * elements reads as the same elements.
 */
#include <assert.h>
#include <string.h>

#include "pjrtfs/array_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	pf_autobuf struct pf_buf array = PF_BUF_INIT, text = PF_BUF_INIT,
				 again = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_shape shape, found;
	enum pf_dtype dtype;
	int64_t count = 0;
	int r;

	if (size < 1)
		return 0;
	dtype = (enum pf_dtype)(data[0] % PF_DTYPE_COUNT);
	r = pf_text_parse((const char *)data + 1, size - 1, dtype, &shape, &array, &err);
	assert(r == err.code);
	assert(r == 0 || array.len == 0);
	if (r < 0)
		return 0;
	assert(pf_shape_count(&shape, &count, NULL) == 0 && count > 0);
	assert(array.len == (uint64_t)count * pf_dtype_size(dtype));
	pf_text_print(&text, dtype, &shape, array.data);
	r = pf_text_parse(text.data, text.len, dtype, &found, &again, &err);
	assert(r == 0 && pf_shape_equal(&shape, &found) && again.len == array.len);
	/* A NaN may lose its sign; its text does not. */
	pf_buf_release(&array);
	pf_text_print(&array, dtype, &found, again.data);
	assert(array.len == text.len && memcmp(array.data, text.data, text.len) == 0);
	return 0;
}
