/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of jobs, of files with several tensors, and of arrays on several devices. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "soak.h"

/* --- jobs --------------------------------------------------------------------------- */

/* The second result of the program count. */
static uint32_t counted(uint32_t n)
{
	uint32_t s = n;

	for (uint32_t i = 0; i < n; i++)
		s = (s * 1664525) ^ i;
	return s;
}

/* A scalar N for the program; false: faults prevent it. */
static bool make_input(struct thing *x, uint32_t n)
{
	struct value v = { 'i', 1, n, 0 };

	if (!thing_settled(x))
		return false;
	if (thing_there(x))
		thing_remove(x);
	return thing_certain(x) &&
	       thing_command(OP_CONTROL, x, &v,
			     "{\"op\":\"create\",\"buffer\":\"%s\",\"dtype\":\"S32\","
			     "\"shape\":[],\"fill\":%u}",
			     x->name, n) &&
	       thing_there(x);
}

/* Cancel the job by a command or by its file. */
static void cancel(long job)
{
	int err;

	pause_ms(below(5));
	op_begin(OP_CANCEL, "cancel job %ld", job);
	if (one_in(2)) {
		err = talk(control, "{\"op\":\"cancel\",\"job\":%ld}\n", job);
	} else {
		err = write_text(path_of("jobs/%ld/cancel", job), "1\n");
		if (err)
			read_file("error", reply, sizeof(reply));
	}
	/* It may have ended. */
	op_ended(err == EBUSY || err == EINVAL || err == ENOENT ? 0 : err, reply);
}

/* The state of a job that has ended must be one that its files show, too. */
static void job_ended(long job, uint64_t began, bool cancelled, struct thing *out[2],
		      const struct value is[2])
{
	bool done = strstr(reply, "\"state\":\"done\"");

	op_since(began);
	if (done) {
		thing_is(out[0], &is[0]);
		thing_is(out[1], &is[1]);
		op_ok();
	} else if (strstr(reply, "\"state\":\"cancelled\"")) {
		if (!cancelled)
			wrong("job %ld was cancelled, by nobody: %s", job, reply);
		op_ok();
	} else if (strstr(reply, "\"state\":\"failed\"")) {
		op_failed(reply_errno(), reply);
	} else {
		wrong("job %ld: %s", job, reply);
	}
	if (thing_check(out[0]) && thing_check(out[1]) && done &&
	    !(thing_there(out[0]) && thing_there(out[1])))
		wrong("job %ld has one of its two results", job);
}

void jobs_step(void)
{
	uint32_t n = below(one_in(4) ? 1000000 : 1000);
	struct value is[2] = { { 'i', 1, n, 0 }, { 'i', 1, counted(n), 0 } };
	struct thing *x = thing(0), *out[2] = { thing(4), thing(5) };
	uint64_t began = now_ns();
	bool cancelled = one_in(4);
	long job;
	int err;

	if (!make_input(x, n))
		return;
	for (int i = 0; i < 2; i++)
		if (!thing_settled(out[i]))
			return;
	op_begin(OP_JOB, "count %u -> %s %s", n, out[0]->name, out[1]->name);
	thing_may(out[0], &is[0]);
	thing_may(out[1], &is[1]);
	err = talk(control,
		   "{\"op\":\"execute\",\"executable\":\"count\",\"inputs\":[\"%s\"],"
		   "\"outputs\":[\"%s\",\"%s\"],\"async\":true}\n",
		   x->name, out[0]->name, out[1]->name);
	job = reply_number("job");
	if (err || job < 0) {
		op_failed(err ? err : EPROTO, reply);
		return;
	}
	if (cancelled)
		cancel(job);
	op_begin(OP_JOB, "wait for job %ld, count %u", job, n);
	err = talk(control, "{\"op\":\"wait\",\"job\":%ld}\n", job);
	if (err && !strstr(reply, "\"state\":")) {
		op_since(began);
		op_failed(err, reply);
		thing_leave(out[0]); /* the job goes on */
		thing_leave(out[1]);
		return;
	}
	job_ended(job, began, cancelled, out, is);
}

/* --- files of several tensors ------------------------------------------------------- */

enum { TENSORS = 3, TENSOR = 1000 };

static char model[4096 + TENSORS * TENSOR * 4];

/* A .safetensors file of three tensors, in two directories. */
static size_t make_model(const struct value v[TENSORS])
{
	char *head = model + 8;
	uint64_t len = (uint64_t)sprintf(
		head,
		"{\"a\":{\"dtype\":\"I32\",\"shape\":[%u],\"data_offsets\":[0,%u]},"
		"\"b/c\":{\"dtype\":\"I32\",\"shape\":[%u],\"data_offsets\":[%u,%u]},"
		"\"b/d\":{\"dtype\":\"F32\",\"shape\":[%u],\"data_offsets\":[%u,%u]}}",
		TENSOR, TENSOR * 4, TENSOR, TENSOR * 4, TENSOR * 8, TENSOR, TENSOR * 8,
		TENSOR * 12);

	while (len % 8)
		head[len++] = ' ';
	memcpy(model, &len, 8);
	for (int i = 0; i < TENSORS; i++)
		value_fill(&v[i], head + len + i * TENSOR * 4);
	return 8 + (size_t)len + TENSORS * TENSOR * 4;
}

static bool tensor_check(const char *dir, const char *name, const struct value *v)
{
	const char *path = path_of("%s/%s.raw", dir, name);
	char data[TENSOR * 4 + 8];
	ssize_t n = read_file(path, data, sizeof(data));

	if (n < 0) {
		op_failed((int)-n, NULL);
		return false;
	}
	if (!value_is(v, data, (size_t)n))
		wrong("%s is not the tensor", path);
	return true;
}

/* Remove the directory of a model and what is in it. */
static void remove_model(const char *dir)
{
	static const char *const names[] = { ".safetensors", "/a.npy", "/b/c.npy",
					     "/b/d.npy",     "/a.raw", "/b/c.raw",
					     "/b/d.raw",     "/b" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *path = path_of("%s%s", dir, names[i]);

		if (unlink(path) && errno == EISDIR)
			rmdir(path);
	}
	rmdir(dir);
}

void checkpoints_step(void)
{
	static const char *const names[TENSORS] = { "a", "b/c", "b/d" };
	struct value v[TENSORS];
	char dir[2][80];
	const char *path;
	unsigned long name = ++all->names;
	unsigned at = 0;
	bool ok = true;
	size_t len;
	int err;

	for (int i = 0; i < TENSORS; i++)
		v[i] = value_random(i == 2 ? 'f' : 'i', TENSOR);
	snprintf(dir[0], sizeof(dir[0]), "buffers/c%u/m%lu", me->index, name);
	snprintf(dir[1], sizeof(dir[1]), "buffers/c%u/moved%lu", me->index, name);
	path = path_of("%s.safetensors", dir[0]);
	op_begin(OP_CHECKPOINT, "%s", path);
	len = make_model(v);
	err = write_file(path, O_CREAT, model, len, 1 + below((uint32_t)len));
	if (err) {
		op_failed(err, NULL);
		remove_model(dir[0]);
		return;
	}
	if (one_in(2)) {
		if (rename(dir[0], dir[1]))
			wrong("rename %s: %s", dir[0], strerror(errno));
		at = 1;
	}
	for (int i = 0; i < TENSORS && ok; i++)
		ok = tensor_check(dir[at], names[i], &v[i]);
	if (ok)
		op_ok();
	remove_model(dir[at]);
}

/* --- arrays on several devices ------------------------------------------------------ */

static const char *part_path(unsigned device, const char *name)
{
	return path_of("devices/%s/%u/buffers/c%u/%s", opt.plugin, device, me->index,
		       name);
}

/* Each part is on its device, and is what it should be. */
static void parts_check(const char *name, const struct value *whole)
{
	static char data[MOST + 8];
	struct value part = *whole;

	part.n /= DEVICES;
	for (unsigned i = 0; i < DEVICES; i++, part.base += part.n * part.step) {
		const char *path = part_path(i, name);
		ssize_t n;

		op_begin(OP_READ, "%s", path);
		n = read_file(path, data, sizeof(data));
		if (!op_ended(n < 0 ? (int)-n : 0, NULL))
			return;
		if (!value_is(&part, data, (size_t)n))
			wrong("it is not part %u of the array", i);
	}
}

void shards_end(void)
{
	for (unsigned i = 0; i < DEVICES; i++) {
		unlink(part_path(i, "ws.npy"));
		unlink(part_path(i, "ys.npy"));
	}
}

void shards_step(void)
{
	uint32_t size = program_sizes[below(SIZES)];
	struct thing *x = thing(0), *y = thing(4);
	struct value sum;
	unsigned c = me->index;

	if (!thing_need(x, 'i', size) || !thing_settled(y))
		return;
	sum = value_sum(&x->may[0], &x->may[0]);
	if (!thing_command(OP_SHARD, NULL, NULL,
			   "{\"op\":\"shard\",\"buffer\":\"%s\",\"as\":\"c%u/ws\","
			   "\"mesh\":{\"x\":4},\"spec\":[\"x\"]}",
			   x->name, c))
		return;
	parts_check("ws.raw", &x->may[0]);
	if (!thing_command(OP_SHARD, NULL, NULL,
			   "{\"op\":\"execute\",\"executable\":\"twice%u\","
			   "\"inputs\":[\"c%u/ws\"],\"outputs\":[\"c%u/ys\"]}",
			   size, c, c))
		return;
	parts_check("ys.raw", &sum);
	if (thing_command(OP_SHARD, y, &sum,
			  "{\"op\":\"gather\",\"buffer\":\"c%u/ys\",\"as\":\"%s\"}", c,
			  y->name))
		thing_check(y);
	if (one_in(4))
		shards_end();
}
