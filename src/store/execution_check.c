/* SPDX-License-Identifier: Apache-2.0 */
/* What an execution is given, checked against what its program takes. */
#include "execution_internal.h"
#include "quarantine.h"

#include <errno.h>
#include <stdio.h>

unsigned pf_execution_device(const struct pf_execution *e, size_t row)
{
	if (e->loaded->n_devices)
		return e->loaded->devices[row];
	if (e->device != UINT32_MAX)
		return e->device;
	return e->n_args ? e->args[0]->device : 0;
}

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

/* How messages call argument I: "input 1 (y)", "row 2: input 1 (y)". */
static const char *arg_called(const struct pf_execution *e, size_t i, char *dst,
			      size_t cap)
{
	size_t in_row = e->n_args / e->n_rows;
	const struct pf_param *want = NULL;
	char row[32] = "";

	if (e->loaded && i % in_row < e->loaded->signature->n_inputs)
		want = &e->loaded->signature->inputs[i % in_row];
	if (e->n_rows > 1)
		snprintf(row, sizeof(row), "row %zu: ", i / in_row);
	if (want && *want->name)
		snprintf(dst, cap, "%sinput %zu (%s)", row, i % in_row, want->name);
	else
		snprintf(dst, cap, "%sinput %zu", row, i % in_row);
	return dst;
}

static int check_arg(const struct pf_execution *e, size_t i, struct pf_err *err)
{
	size_t in_row = e->n_args / e->n_rows;
	const struct pf_param *want = &e->loaded->signature->inputs[i % in_row];
	const struct pf_value *have = e->args[i];
	const struct pf_description *d = pf_worker_description(e->loaded->worker);
	unsigned device = pf_execution_device(e, i / in_row);
	char a[128], b[128], called[192];

	arg_called(e, i, called, sizeof(called));
	if (have->dtype != want->dtype || !pf_shape_equal(&have->shape, &want->shape))
		return pf_err_set(err, -EINVAL, "%s: %s is %s, the program wants %s",
				  called, e->arg_names[i],
				  pf_shape_str(a, sizeof(a), have->dtype, &have->shape),
				  pf_shape_str(b, sizeof(b), want->dtype, &want->shape));
	if (have->worker != e->loaded->worker) {
		const struct pf_description *its = pf_worker_description(have->worker);

		return pf_err_set(err, -EINVAL,
				  "%s: %s is on device %s:%lld, the program runs on "
				  "plugin %s: copy it there, or say \"move\": true",
				  called, e->arg_names[i], pf_worker_name(have->worker),
				  (long long)its->devices[have->device].id,
				  pf_worker_name(e->loaded->worker));
	}
	if (have->device != device)
		return pf_err_set(err, -EINVAL,
				  "%s: %s is on device %s:%lld, the program runs on "
				  "%s:%lld",
				  called, e->arg_names[i], pf_worker_name(have->worker),
				  (long long)d->devices[have->device].id,
				  pf_worker_name(have->worker),
				  (long long)d->devices[device].id);
	return 0;
}

/* A row that is missing would have the others wait for it. */
static int check_rows(const struct pf_execution *e, struct pf_err *err)
{
	size_t rows = e->loaded->n_devices ? e->loaded->n_devices : 1;

	if (e->n_rows == rows)
		return 0;
	if (rows == 1)
		return pf_err_set(err, -EINVAL,
				  "the program runs on one device, %zu rows of inputs or "
				  "outputs were given",
				  e->n_rows);
	return pf_err_set(err, -EINVAL,
			  "the program runs on %zu devices at once: its inputs and "
			  "outputs are lists of %zu rows, found %zu row%s",
			  rows, rows, e->n_rows, plural(e->n_rows));
}

int pf_execution_check_counts(const struct pf_loaded *loaded, size_t n_in, size_t n_out,
			      struct pf_err *err)
{
	const struct pf_signature *s = loaded->signature;

	if (n_in != s->n_inputs)
		return pf_err_set(err, -EINVAL,
				  "the program takes %zu input%s, %zu %s given",
				  s->n_inputs, plural(s->n_inputs), n_in,
				  n_in == 1 ? "was" : "were");
	if (n_out != s->n_outputs)
		return pf_err_set(err, -EINVAL,
				  "the program gives %zu output%s, %zu name%s given",
				  s->n_outputs, plural(s->n_outputs), n_out,
				  n_out == 1 ? " was" : "s were");
	return 0;
}

int pf_execution_check(const struct pf_execution *e, struct pf_err *err)
{
	int r = check_rows(e, err);

	if (r == 0)
		r = pf_execution_check_counts(e->loaded, e->n_args / e->n_rows,
					      e->want_outs, err);
	for (size_t i = 0; i < e->n_args && r == 0; i++)
		r = check_arg(e, i, err);
	if (r == 0)
		r = pf_quarantine_check_execution(e->executable, e->loaded, e->uid, err);
	return r;
}

int pf_execution_name_arg(const struct pf_execution *e, size_t i, int code,
			  struct pf_err *err)
{
	char called[192];

	return pf_err_wrap(err, code, "%s: %s", arg_called(e, i, called, sizeof(called)),
			   e->arg_names[i]);
}
