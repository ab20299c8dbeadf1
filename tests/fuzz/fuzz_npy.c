/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .npy headers.  An accepted header is consistent, every prefix of it is refused or "not
 * yet", and printing it keeps its meaning.
 */
#include <assert.h>
#include <string.h>

#include "pjrtfs/array_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print_again(const struct pf_npy *npy)
{
	pf_autobuf struct pf_buf buf = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct pf_npy again;

	pf_npy_print(&buf, npy->dtype, &npy->shape);
	assert(pf_npy_parse(buf.data, buf.len, &again, &err) == 1);
	/* numpy.load refuses a name of F8E5M2: its bytes are printed as bytes. */
	if (npy->dtype == PF_DTYPE_F8E5M2)
		assert(again.dtype == PF_DTYPE_INVALID && again.void_size == 1);
	else
		assert(again.dtype == npy->dtype);
	assert(again.data_len == npy->data_len);
	assert(pf_shape_equal(&again.shape, &npy->shape));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_npy npy;
	int r = pf_npy_parse(data, size, &npy, &err);

	assert(r == 1 || r == err.code);
	if (r != 1)
		return 0;
	assert(npy.header_len <= size && npy.header_len <= PF_NPY_MAX_HEADER);
	assert(npy.data_len <= UINT64_C(1) << 62);
	assert((npy.dtype == PF_DTYPE_INVALID) == (npy.void_size != 0));
	if (npy.dtype != PF_DTYPE_INVALID)
		print_again(&npy);
	if (size < 512)
		for (size_t i = 0; i < npy.header_len; i++)
			assert(pf_npy_parse(data, i, &npy, &err) == 0);
	return 0;
}
