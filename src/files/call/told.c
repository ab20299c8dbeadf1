/* SPDX-License-Identifier: Apache-2.0 */
/* What calls tell: an event a second, and one for each that fails. */
#include "call.h"
#include "files/common/tell.h"

/* The executable's name, appended. */
static void print_name(const struct call_tally *t, struct pf_buf *name)
{
	struct pf_fs *fs = t->unit->fs;

	pf_tree_lock_names(fs->tree);
	if (t->unit->executable)
		pf_node_path(t->unit->executable, fs->executables, name);
	pf_tree_unlock_names(fs->tree);
	if (!name->len)
		pf_buf_puts(name, "(removed)");
}

/* Tell of N calls on DEVICE of WORKER as TOLD says, or of one that failed. */
static void tell(const struct call_tally *t, uint64_t n, struct pf_worker *worker,
		 unsigned device, struct pf_told_execution *told)
{
	pf_autobuf struct pf_buf name = PF_BUF_INIT;

	print_name(t, &name);
	told->executable = name.data ? name.data : "";
	told->user = t->uid;
	told->devices = &device;
	told->n_devices = 1;
	pf_tell_calls(t->unit->fs->watch, pf_worker_meter(worker), n, told);
}

static void tell_all(struct call_tally *t)
{
	struct pf_told_execution told = { .seconds = t->seconds,
					  .device_seconds = t->device_seconds };

	if (t->n)
		tell(t, t->n, t->worker, t->device, &told);
	t->n = 0;
	t->seconds = t->device_seconds = 0;
}

/* Has V begun a second or more after the first? */
static bool is_due(const struct call_tally *t, const struct pf_invocation *v)
{
	time_t s = v->start.tv_sec - t->began.tv_sec;

	return s > 1 || (s == 1 && v->start.tv_nsec >= t->began.tv_nsec);
}

void call_tally_add(struct call_tally *t, const struct pf_invocation *v)
{
	struct pf_worker *worker = v->loaded->worker;

	/* The options may name another plugin by now. */
	if (t->n && (t->worker != worker || t->device != v->device))
		tell_all(t);
	if (!t->n)
		t->began = v->start;
	t->worker = worker;
	t->device = v->device;
	t->n++;
	t->seconds += v->seconds;
	t->device_seconds += v->device_seconds;
	if (t->closed || is_due(t, v))
		tell_all(t);
}

void call_tally_close(struct call_tally *t)
{
	tell_all(t);
	t->closed = true;
}

void call_tell_run_failed(struct call_tally *t, const struct pf_invocation *v,
			  const struct pf_err *err)
{
	struct pf_told_execution told = { .seconds = v->seconds, .err = err };

	tell_all(t); /* in the order in which they ended */
	tell(t, 1, v->loaded->worker, v->device, &told);
}

void call_tell_failed(struct call_tally *t, struct pf_err *err)
{
	pf_autobuf struct pf_buf name = PF_BUF_INIT;
	pf_autobuf struct pf_buf file = PF_BUF_INIT;

	files_name_unit(t->unit, err);
	print_name(t, &name);
	pf_buf_printf(&file, "executables/%s/call", name.data ? name.data : "");
	files_tell_failed(t->unit->fs, file.data ? file.data : "", t->uid, NULL, err);
}
