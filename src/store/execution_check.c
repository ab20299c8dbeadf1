/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of an execution against the signature of its program. */
#include <errno.h>
#include <stdio.h>

#include "internal.h"

unsigned pf_execution_device(const struct pf_execution *e, size_t row)
{
	if (e->loaded->n_devices)
		return e->loaded->devices[row];
	if (e->device != UINT32_MAX)
		return e->device;
	for (size_t i = 0; i < e->n_args; i++)
		if (e->args[i].value)
			return e->args[i].value->device;
	return 0;
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

static long long device_id(const struct pf_worker *worker, unsigned device)
{
	return (long long)pf_worker_description(worker)->devices[device].id;
}

static int check_arg(const struct pf_execution *e, size_t i, struct pf_err *err)
{
	size_t in_row = e->n_args / e->n_rows;
	const struct pf_param *want = &e->loaded->signature->inputs[i % in_row];
	const struct pf_value *have = e->args[i].value;
	unsigned device = pf_execution_device(e, i / in_row);
	char a[128], b[128], advice[256], called[192];

	arg_called(e, i, called, sizeof(called));
	if (have->dtype != want->dtype ||
	    !pf_shape_equal_but_ones(&have->shape, &want->shape))
		return pf_err_set(err, -EINVAL, "%s: %s is %s, the program wants %s%s",
				  called, e->args[i].name,
				  pf_shape_str(a, sizeof(a), have->dtype, &have->shape),
				  pf_shape_str(b, sizeof(b), want->dtype, &want->shape),
				  pf_param_advice(advice, sizeof(advice), want,
						  have->dtype, &have->shape,
						  e->args[i].untyped));
	if (have->worker == e->loaded->worker && have->device == device)
		return 0;
	return pf_err_set(err, -EINVAL,
			  "%s: %s is on device %s:%lld, the program runs on %s:%lld%s",
			  called, e->args[i].name, pf_worker_name(have->worker),
			  device_id(have->worker, have->device),
			  pf_worker_name(e->loaded->worker),
			  device_id(e->loaded->worker, device),
			  have->worker == e->loaded->worker
				  ? ""
				  : ": copy it there, or say \"move\": true");
}

/* The devices of all rows wait for each other, so a missing row would make them hang. */
static int check_rows(const struct pf_execution *e, struct pf_err *err)
{
	size_t rows = e->loaded->n_devices ? e->loaded->n_devices : 1;

	if (e->n_rows == rows)
		return 0;
	return pf_err_set(
		err, -EINVAL,
		"the program runs on %zu device%s, %zu row%s of inputs %s given", rows,
		plural(rows), e->n_rows, plural(e->n_rows),
		e->n_rows == 1 ? "was" : "were");
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

/*
 * Arguments in another layout than the program takes, or with other extents of 1, become copies,
 * which go with E.  A result in another layout than the argument that it replaces becomes one
 * between two runs.
 */
static int lay_out_args(struct pf_execution *e, struct pf_err *err)
{
	const struct pf_signature *s = e->loaded->signature;

	for (size_t i = 0; i < e->n_args; i++) {
		struct pf_exec_arg *arg = &e->args[i];
		const struct pf_param *in = &s->inputs[i % s->n_inputs];
		struct pf_layout layout;
		struct pf_value *copy;

		if (!arg->value)
			continue;
		if (arg->carry != PF_NO_CARRY &&
		    !pf_layout_equal(&s->outputs[arg->carry].layout, &in->layout))
			e->repeat = 1;
		layout = pf_value_layout(arg->value);
		if (pf_layout_equal(&layout, &in->layout) &&
		    pf_shape_equal(&arg->value->shape, &in->shape))
			continue;
		copy = pf_value_laid_out(arg->value, &in->shape, &in->layout);
		if (!copy)
			return pf_err_set(err, -ENOMEM, "no memory for an argument");
		copy->account = e->account; /* no other thread has it yet */
		pf_value_unref(arg->value);
		arg->value = copy;
	}
	return 0;
}

int pf_execution_check(struct pf_execution *e, struct pf_err *err)
{
	int r = check_rows(e, err);

	if (r == 0 && !e->lent)
		r = pf_execution_check_counts(e->loaded, e->n_args / e->n_rows,
					      e->want_outs, err);
	for (size_t i = 0; i < e->n_args && r == 0; i++)
		r = e->args[i].value ? check_arg(e, i, err) : 0;
	return r < 0 ? r : lay_out_args(e, err);
}

int pf_execution_name_arg(const struct pf_execution *e, size_t i, int code,
			  struct pf_err *err)
{
	char called[192];

	return pf_err_wrap(err, code, "%s: %s", arg_called(e, i, called, sizeof(called)),
			   e->args[i].name);
}
