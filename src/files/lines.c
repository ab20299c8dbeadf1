/* SPDX-License-Identifier: Apache-2.0 */
#include "lines.h"

#include <errno.h>
#include <stdlib.h>

/* A read copies no more at once: a buffer of that size is made for each. */
enum { AT_ONCE = 256 << 10 };

int lines_open(struct pf_open *of, struct pf_err *err)
{
	of->state = calloc(1, sizeof(struct pf_lines_reader));
	return of->state ? 0 : pf_err_set(err, -ENOMEM, "no memory");
}

void lines_release(struct pf_open *of)
{
	pf_lines_reader_release(of->state);
	free(of->state);
}

void lines_read(struct pf_open *of, size_t len, uint64_t off, struct pf_reply *reply,
		size_t (*lines)(struct pf_open *of, uint64_t off, char *dst, size_t len))
{
	pf_autofree char *text = NULL;

	if (len > AT_ONCE)
		len = AT_ONCE;
	text = malloc(len + 1);
	if (text)
		pf_reply_data(reply, text, lines(of, off, text, len));
	else
		pf_reply_code(reply, -ENOMEM);
}

void lines_stat(struct stat *st, uint64_t size, const struct timespec *time)
{
	st->st_size = (off_t)size;
	st->st_blocks = (st->st_size + 511) / 512;
	if (time->tv_sec)
		st->st_mtim = st->st_ctim = *time;
}
