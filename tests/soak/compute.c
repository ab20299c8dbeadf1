/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that execute: run, call, control, batches, repetitions. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "soak.h"

/* Of the things, those that are written as .npy. */
static const unsigned npy_things[] = { 0, 1, 4, 5 };

/* One for a result; NULL: faults prevent it. */
static struct thing *output(void)
{
	struct thing *z = thing(npy_things[2 + below(2)]);

	return thing_settled(z) ? z : NULL;
}

/* An addition of things of a random size of the programs, and its result. */
struct addition {
	unsigned size;
	struct thing *x, *y, *z;
	struct value sum;
};

static bool choose(struct addition *a)
{
	a->size = program_sizes[below(SIZES)];
	a->x = thing(npy_things[0]);
	a->y = thing(npy_things[1]);
	if (!thing_need(a->x, 'i', a->size) || !thing_need(a->y, 'i', a->size))
		return false;
	a->z = output();
	a->sum = value_sum(&a->x->may[0], &a->y->may[0]);
	return a->z;
}

/* --- run ---------------------------------------------------------------------------- */

void run_step(void)
{
	char line[4 * NAME];
	struct addition a;
	const char *path;
	int fd, err;

	if (!choose(&a))
		return;
	path = path_of("executables/add%u/run", a.size);
	snprintf(line, sizeof(line), "%s %s -> %s\n", a.x->name, a.y->name, a.z->name);
	op_begin(OP_RUN, "%s: %.80s", path, line);
	thing_may(a.z, &a.sum);
	if (one_in(2)) {
		thing_given(a.z, &a.sum, write_text(path, line), NULL);
		return;
	}
	if (one_in(8))
		interrupt_in(1 + below(2000));
	fd = talk_open(path);
	err = fd < 0 ? errno : talk(fd, "%s", line);
	thing_given(a.z, &a.sum, err, fd < 0 ? NULL : reply);
	talk_close(&fd);
}

/* --- call --------------------------------------------------------------------------- */

static char in[2 * (HEAD + MOST * 4)], out[HEAD + MOST * 4];
static int calls[SIZES] = { -1, -1, -1, -1 };
static uint64_t used[SIZES]; /* when the last operation on each ended */

/* A call that failed says so once more, as a line; then it works again.  After a restart of the
 * daemon it does not, until the file is opened again. */
static void call_failed(unsigned i, int err)
{
	ssize_t n = -1;

	for (int tries = 0; tries < 3 && n < 0; tries++)
		n = read(calls[i], reply, sizeof(reply) - 1);
	reply[n > 0 ? n : 0] = '\0';
	op_failed(err, reply);
	if (n < 0)
		talk_close(&calls[i]);
}

/* Write the inputs in pieces: 0 or an errno. */
static int call_write(int fd, size_t len)
{
	size_t piece = one_in(2) ? len : len / 16 + 1 + below((uint32_t)len);
	ssize_t n;

	for (size_t at = 0; at < len; at += (size_t)n) {
		n = write(fd, in + at, len - at < piece ? len - at : piece);
		if (n < 0 && errno != EINTR)
			return errno;
		if (n <= 0)
			n = 0;
	}
	return 0;
}

/* Read the output, of LEN bytes: 0 or an errno. */
static int call_read(int fd, size_t len)
{
	struct pollfd wait = { fd, POLLIN, 0 };
	size_t at = 0;
	ssize_t n = 0;

	if (one_in(2))
		poll(&wait, 1, -1);
	while (at < len) {
		n = read(fd, out + at, len - at);
		if (n < 0 && errno == EINTR) {
			me->interrupted++;
			continue;
		}
		if (n <= 0)
			break;
		at += (size_t)n;
	}
	if (n < 0)
		return errno;
	if (at < len)
		wrong("%zu of %zu bytes", at, len);
	return 0;
}

void call_step(void)
{
	unsigned i = below(SIZES), size = program_sizes[i];
	struct value x = value_random('i', size), y = value_random('i', size);
	struct value sum = value_sum(&x, &y);
	size_t len = HEAD + value_size(&x);
	const char *path = path_of("executables/add%u/call", size);
	int err;

	op_begin(OP_CALL, "%s", path);
	if (calls[i] < 0)
		calls[i] = talk_open(path);
	if (calls[i] < 0) {
		op_failed(errno, NULL);
		return;
	}
	if (used[i]) /* a daemon that died since has left it unusable */
		op_since(used[i]);
	value_npy(&x, in);
	value_npy(&y, in + len);
	if (one_in(16))
		interrupt_in(1 + below(1000));
	err = call_write(calls[i], 2 * len);
	if (!err)
		err = call_read(calls[i], len);
	if (err) {
		call_failed(i, err);
	} else {
		if (!value_is(&sum, out + HEAD, len - HEAD))
			wrong("a wrong sum of %u elements", size);
		op_ok();
	}
	if (one_in(200))
		talk_close(&calls[i]);
	used[i] = calls[i] < 0 ? 0 : now_ns();
}

/* --- control ------------------------------------------------------------------------ */

/* A command that must fail with ERR, whatever the faults. */
static void ask_refused(int want, const char *command)
{
	int err;

	op_begin(OP_CONTROL, "%s", command);
	err = talk(control, "%s\n", command);
	if (err != want && err != EIO)
		wrong("%s instead of %s: %s", strerror(err), strerror(want), reply);
	op_ended(err == want ? 0 : err, reply);
}

static void do_execute(void)
{
	long id = (long)me->done[OP_CONTROL];
	struct addition a;

	if (!choose(&a))
		return;
	if (one_in(16))
		interrupt_in(1 + below(1000));
	if (thing_command(
		    OP_CONTROL, a.z, &a.sum,
		    "{\"op\":\"execute\",\"executable\":\"add%u\",\"inputs\":[\"%s\",\"%s\"],"
		    "\"outputs\":[\"%s\"],\"id\":%ld}",
		    a.size, a.x->name, a.y->name, a.z->name, id) &&
	    reply_number("id") != id)
		wrong("the reply has another id: %s", reply);
}

static void do_create(void)
{
	struct thing *z = output();
	struct value v = { 'i', 1 + below(5000), below(1000000), 0 };

	if (z && thing_there(z))
		thing_remove(z);
	if (z && thing_certain(z))
		thing_command(OP_CONTROL, z, &v,
			      "{\"op\":\"create\",\"buffer\":\"%s\",\"dtype\":\"S32\","
			      "\"shape\":[%u],\"fill\":%u}",
			      z->name, v.n, v.base);
}

static void do_copy(void)
{
	struct thing *x = thing(npy_things[0]), *z = output();

	if (z && thing_need(x, 'i', program_sizes[below(SIZES)]))
		thing_command(OP_COPY, z, &x->may[0],
			      "{\"op\":\"copy\",\"buffer\":\"%s\",\"as\":\"%s\"}",
			      x->name, z->name);
}

static void do_delete(void)
{
	struct thing *z = output();

	if (z && thing_there(z))
		thing_command(OP_UNLINK, z, NULL, "{\"op\":\"delete\",\"buffer\":\"%s\"}",
			      z->name);
}

void control_step(void)
{
	switch (below(10)) {
	case 0:
		do_create();
		break;
	case 1:
		do_copy();
		break;
	case 2:
		do_delete();
		break;
	case 3:
		ask_refused(ENOENT, "{\"op\":\"stat\",\"buffer\":\"c0/none\"}");
		break;
	case 4:
		ask_refused(EINVAL, one_in(2) ? "{\"op\":\"nothing\"}" : "no JSON");
		break;
	default:
		do_execute();
	}
}

/* --- batches and repetitions -------------------------------------------------------- */

static void do_batch(void)
{
	struct addition a;
	struct value v;

	if (!choose(&a))
		return;
	/* z = (x + y) + x, by a name that lasts as long as the batch */
	v = value_sum(&a.sum, &a.x->may[0]);
	thing_command(OP_BATCH, a.z, &v,
		      "{\"op\":\"batch\",\"steps\":["
		      "{\"op\":\"execute\",\"executable\":\"add%1$u\","
		      "\"inputs\":[\"%2$s\",\"%3$s\"],\"outputs\":[\"c%4$u/between\"]},"
		      "{\"op\":\"execute\",\"executable\":\"add%1$u\","
		      "\"inputs\":[\"c%4$u/between\",\"%2$s\"],\"outputs\":[\"%5$s\"]},"
		      "{\"op\":\"delete\",\"buffer\":\"c%4$u/between\"}]}",
		      a.size, a.x->name, a.y->name, me->index, a.z->name);
}

static void do_repeat(void)
{
	unsigned size = program_sizes[below(SIZES)], times = 1 + below(300);
	struct thing *x = thing(npy_things[2]);
	struct value v;

	if (!thing_need(x, 'i', size))
		return;
	v = x->may[0];
	v.base += times;
	x->repeat = times;
	thing_command(OP_REPEAT, x, &v,
		      "{\"op\":\"execute\",\"executable\":\"next%u\",\"inputs\":[\"%s\"],"
		      "\"outputs\":[\"%s\"],\"repeat\":%u}",
		      size, x->name, x->name, times);
}

void batch_step(void)
{
	if (one_in(2))
		do_batch();
	else
		do_repeat();
}
