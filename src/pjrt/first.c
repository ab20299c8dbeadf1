/* SPDX-License-Identifier: Apache-2.0 */
/* An argument that a program gets in every execution, before those that its callers name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct pj_first {
	int32_t value;   /* buffers may lie in it */
	bool any_device; /* the buffers are of the client's devices, not of the program's */
	size_t n;
	struct PJRT_Buffer *buffers[]; /* owned; NULL: no device of this process */
};

static int make_buffer(const struct pj_client *client, const struct pj_device *device,
		       const int32_t *value, struct PJRT_Buffer **ret, struct pf_err *err)
{
	static const struct pf_shape scalar = { .rank = 0 };
	const struct pj_place place = { .device = device };
	const void *alias;

	return pj_buffer_from_host(client, &place, value, sizeof(*value), PF_DTYPE_S32,
				   &scalar, ret, &alias, err);
}

int pj_executable_set_first(struct pj_executable *x, int32_t value, struct pf_err *err)
{
	const struct pj_client *client = x->client;
	PJRT_Device *const *devices = NULL;
	size_t own = pj_executable_find_devices(x, &devices, NULL),
	       n = own ? own : client->n_devices;
	int r = 0;

	x->first = calloc(1, sizeof(*x->first) + n * sizeof(x->first->buffers[0]));
	if (!x->first)
		return pf_err_set(err, -ENOMEM, "no memory for an executable");
	x->first->value = value;
	x->first->any_device = !own;
	x->first->n = n;
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct pj_device *device =
			own ? pj_client_device(client, devices[i]) : &client->devices[i];

		if (device && device->addressable)
			r = make_buffer(client, device, &x->first->value,
					&x->first->buffers[i], err);
	}
	return r < 0 ? pf_err_wrap(err, r, "the number of the platform") : 0;
}

void pj_first_free(struct pj_executable *x)
{
	if (!x->first)
		return;
	for (size_t i = 0; i < x->first->n; i++)
		pj_buffer_destroy(x->client->plugin, x->first->buffers[i]);
	free(x->first);
}

/* The buffer for device D of RUN; NULL: none. */
static struct PJRT_Buffer *buffer_for(const struct pj_executable *x,
				      const struct pj_run *run, size_t d)
{
	const struct pj_first *first = x->first;

	if (!run->device != !first->any_device)
		return NULL;
	if (run->device)
		d = (size_t)(run->device - x->client->devices);
	return d < first->n ? first->buffers[d] : NULL;
}

int pj_first_add(const struct pj_executable *x, size_t n_devices, struct pj_run *run,
		 void **room, struct pf_err *err)
{
	size_t n = run->n_arguments + 1;
	struct PJRT_Buffer **buffers =
		malloc(n_devices * n * sizeof(*buffers) + n * sizeof(*run->kept));
	int64_t *kept = (int64_t *)(buffers + n_devices * n);

	*room = buffers;
	if (!buffers)
		return pf_err_set(err, -ENOMEM, "no memory for an execution");
	for (size_t d = 0; d < n_devices; d++) {
		buffers[d * n] = buffer_for(x, run, d);
		if (!buffers[d * n])
			return pf_err_set(err, -EINVAL,
					  "the program has no number of the platform "
					  "for this device");
		if (n > 1)
			memcpy(buffers + d * n + 1, run->arguments + d * (n - 1),
			       (n - 1) * sizeof(*buffers));
	}
	kept[0] = 0;
	for (size_t i = 0; i < run->n_kept; i++)
		kept[i + 1] = run->kept[i] + 1;
	run->arguments = buffers;
	run->n_arguments = n;
	run->kept = kept;
	run->n_kept++;
	return 0;
}
