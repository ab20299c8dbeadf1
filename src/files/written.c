/* SPDX-License-Identifier: Apache-2.0 */
/* Files whose bytes are collected until they are closed. */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

int files_written_add(struct pf_open *of, const void *src, size_t len, uint64_t off,
		      struct pf_err *err)
{
	struct pf_buf *text = of->state;
	int r;

	if (!text) {
		text = of->state = calloc(1, sizeof(*text));
		if (!text)
			return -ENOMEM;
	}
	if (off > text->len)
		return pf_err_set(err, -EINVAL, "it is written from the start");
	r = pf_open_may_hold(of, err);
	if (r < 0)
		return r;
	text->len = off;
	pf_buf_append(text, src, len);
	pf_open_hold(of, of->text.cap + text->cap);
	return text->failed ? -ENOMEM : 0;
}

void files_written_release(struct pf_open *of)
{
	if (of->state)
		pf_buf_release(of->state);
	free(of->state);
}
