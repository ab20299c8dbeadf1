/* SPDX-License-Identifier: Apache-2.0 */
/* The programs that clients execute, and clients that compile. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "soak.h"

/* One whose results fit in a reply, one of two pages, one that has pages of its own. */
const uint32_t program_sizes[SIZES] = { 16, 2048, 16384, MOST };

/* In these texts, $ stands for the number of elements. */
static const char add[] = "func.func @main(%x: tensor<$xi32>, %y: tensor<$xi32>) -> "
			  "tensor<$xi32> {\n"
			  "  %0 = stablehlo.add %x, %y : tensor<$xi32>\n"
			  "  return %0 : tensor<$xi32>\n}\n";
static const char next[] =
	"func.func @main(%x: tensor<$xi32> {tf.aliasing_output = 0 : i32}) -> tensor<$xi32> {\n"
	"  %c = stablehlo.constant dense<1> : tensor<$xi32>\n"
	"  %0 = stablehlo.add %x, %c : tensor<$xi32>\n"
	"  return %0 : tensor<$xi32>\n}\n";
/* Each device adds its part to itself. */
static const char twice[] =
	"module @twice attributes {mhlo.num_partitions = 4 : i32} {\n"
	"func.func @main(%x: tensor<$xi32> {mhlo.sharding = \"{devices=[4]0,1,2,3}\"})\n"
	"    -> (tensor<$xi32> {mhlo.sharding = \"{devices=[4]0,1,2,3}\"}) {\n"
	"  %0 = stablehlo.add %x, %x : tensor<$xi32>\n"
	"  return %0 : tensor<$xi32>\n}}\n";
/* Here it is what is added. */
static const char plus[] = "func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {\n"
			   "  %c = stablehlo.constant dense<$> : tensor<4xi32>\n"
			   "  %0 = stablehlo.add %x, %c : tensor<4xi32>\n"
			   "  return %0 : tensor<4xi32>\n}\n";
/* The host answers, and the program adds its input. */
static const char asks[] =
	"func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {\n"
	"  %0 = stablehlo.custom_call @pjrtfs_callback(%x) {api_version = 4 : i32,\n"
	"    backend_config = {index = 0 : ui64}} : (tensor<4xi32>) -> tensor<4xi32>\n"
	"  %1 = stablehlo.add %0, %x : tensor<4xi32>\n"
	"  return %1 : tensor<4xi32>\n}\n";
/* Here it makes the name new; the faulty plugin ends its process when it reads the first one. */
static const char aborts[] =
	"func.func @soak_abort$(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
	"  return %x : tensor<2x3xf32>\n}\n";
static const char works[] =
	"func.func @works$(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
	"  return %x : tensor<2x3xf32>\n}\n";
/* As many steps as the input says, none of which can be left out. */
static const char count[] =
	"func.func @main(%n: tensor<i32>) -> (tensor<i32>, tensor<i32>) {\n"
	"  %zero = stablehlo.constant dense<0> : tensor<i32>\n"
	"  %one = stablehlo.constant dense<1> : tensor<i32>\n"
	"  %factor = stablehlo.constant dense<1664525> : tensor<i32>\n"
	"  %0:2 = stablehlo.while(%i = %zero, %s = %n) : tensor<i32>, tensor<i32>\n"
	"    cond {\n"
	"      %1 = stablehlo.compare NE, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
	"      stablehlo.return %1 : tensor<i1>\n"
	"    } do {\n"
	"      %1 = stablehlo.add %i, %one : tensor<i32>\n"
	"      %2 = stablehlo.multiply %s, %factor : tensor<i32>\n"
	"      %3 = stablehlo.xor %2, %i : tensor<i32>\n"
	"      stablehlo.return %1, %3 : tensor<i32>, tensor<i32>\n"
	"    }\n"
	"  return %0#0, %0#1 : tensor<i32>, tensor<i32>\n}\n";

/* The text with the number in place of each $. */
static const char *filled(const char *text, uint32_t number)
{
	static char to[2048];
	size_t at = 0;

	for (; *text; text++) {
		if (*text == '$')
			at += (size_t)sprintf(to + at, "%u", number);
		else
			to[at++] = *text;
	}
	to[at] = '\0';
	return to;
}

/* Write a program; its compile ends before.  0 or an errno. */
static int compile(const char *path, const char *text)
{
	return write_file(path, O_CREAT | O_TRUNC, text, strlen(text), strlen(text));
}

static void make(const char *name, const char *text)
{
	const char *path = path_of("programs/%s.mlir", name);
	char why[LINE];
	int err = compile(path, text);

	if (!err)
		return;
	read_file("error", why, sizeof(why));
	fprintf(stderr, "soak: %s: %s: %s\n", path, strerror(err), why);
	exit(1);
}

void programs_make(void)
{
	make("count", count);
	for (unsigned i = 0; i < SIZES; i++) {
		uint32_t n = program_sizes[i];

		make(path_of("add%u", n), filled(add, n));
		make(path_of("next%u", n), filled(next, n));
		make(path_of("twice%u", n), filled(twice, n));
	}
}

/* --- clients that compile ----------------------------------------------------------- */

enum { SLOTS = 4, KNOWN = 16 /* programs that are compiled again and again */ };

/* The programs of this client: programs/cI/pJ.mlir adds so much; absent: none is there. */
static struct {
	bool there;
	uint32_t plus;
} slots[SLOTS];

static const char *slot_path(unsigned i, const char *file)
{
	return file ? path_of("executables/c%u/p%u/%s", me->index, i, file)
		    : path_of("programs/c%u/p%u.mlir", me->index, i);
}

/* A successor does not know which programs a killed client left: it removes them. */
void compile_begin(void)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		slots[i].there = false;
		if (unlink(slot_path(i, NULL)) && errno != ENOENT && errno != ENOTCONN)
			wrong("%s: %s", slot_path(i, NULL), strerror(errno));
	}
}

/* It could not be compiled: its files say so. */
static void slot_failed(unsigned i, int err)
{
	char state[64] = "", why[LINE] = "";

	read_file(slot_path(i, "state"), state, sizeof(state));
	read_file(slot_path(i, "error"), why, sizeof(why));
	if (!strcmp(state, "ready\n"))
		wrong("%s, and its state is %s", strerror(err), state);
	if (!strcmp(state, "failed\n") && !why[0])
		wrong("it has failed, and does not say why");
	op_failed(err, NULL);
	slots[i].there = false;
	unlink(slot_path(i, NULL));
}

static void slot_compile(unsigned i)
{
	uint32_t number = one_in(2) ? below(KNOWN) : 1000 + (uint32_t)++all->names;
	int err;

	op_begin(OP_COMPILE, "compile %s, plus %u", slot_path(i, NULL), number);
	slots[i].there = false;
	err = compile(slot_path(i, NULL), filled(plus, number));
	if (err) {
		slot_failed(i, err);
		return;
	}
	slots[i].there = true;
	slots[i].plus = number;
	op_ok();
}

/* The file reads back as it was written, and the program adds what it says. */
static void slot_use(unsigned i)
{
	char text[2048];
	struct value x = value_random('i', 4), sum = x;
	char data[2 * HEAD], state[64] = "";
	int fd, err = 0;

	op_begin(OP_CALL, "%s", slot_path(i, "call"));
	if (read_file(slot_path(i, NULL), text, sizeof(text)) < 0 ||
	    strcmp(text, filled(plus, slots[i].plus)))
		wrong("%s does not read back", slot_path(i, NULL));
	fd = talk_open(slot_path(i, "call"));
	value_npy(&x, data);
	sum.base += slots[i].plus;
	if (fd < 0 || write(fd, data, HEAD + 16) < 0 || read(fd, data, HEAD + 16) < 0)
		err = errno;
	else if (!value_is(&sum, data + HEAD, 16))
		wrong("the program that adds %u adds something else", slots[i].plus);
	talk_close(&fd);
	if (op_ended(err, NULL))
		return;
	/* It fails for good if the worker died while it was compiled again. */
	read_file(slot_path(i, "state"), state, sizeof(state));
	if (!strcmp(state, "failed\n")) {
		slots[i].there = false;
		unlink(slot_path(i, NULL));
	}
}

/* A program that has mistakes is refused, and its files say why. */
static void broken_step(void)
{
	static const char *const texts[] = {
		"func.func @main() -> tensor<i32> {\n  return %0 : tensor<i32>\n}\n",
		("func.func @main(%x: tensor<4xi32>) -> tensor<4xf32> {\n"
		 "  %0 = stablehlo.add %x, %x : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n"),
		"not a program\n",
	};
	const char *path = path_of("programs/c%u/broken.mlir", me->index);
	char why[LINE] = "";
	int err;

	op_begin(OP_BROKEN, "%s", path);
	err = compile(path, texts[below(3)]);
	read_file("error", why, sizeof(why));
	if (err == EINVAL && !op_lacks(why))
		op_ok();
	else if (err == EINVAL || !err)
		wrong("%s: '%s'", strerror(err), why);
	else
		op_failed(err, why);
	unlink(path);
}

void compile_step(void)
{
	unsigned i = below(SLOTS), to = below(SLOTS);

	if (one_in(8)) {
		broken_step();
	} else if (!slots[i].there || one_in(4)) {
		slot_compile(i);
	} else if (one_in(8) && i != to) {
		op_begin(OP_RENAME, "%s to %s", slot_path(i, NULL), slot_path(to, NULL));
		if (!op_ended(rename(slot_path(i, NULL), slot_path(to, NULL)) ? errno : 0,
			      NULL))
			return;
		slots[to] = slots[i];
		slots[i].there = false;
	} else {
		slot_use(i);
	}
	pause_ms(below(100)); /* the others want processors, too */
}

/* --- a plugin that aborts ----------------------------------------------------------- */

void faulty_step(void)
{
	bool abort = one_in(3);
	/* The name is new: the executable of the last one may be under way. */
	unsigned long number = ++all->names;
	const char *name = path_of("c%u/%c%lu", me->index, abort ? 'a' : 'w', number);
	const char *path = path_of("programs/%s.mlir", name);
	char why[LINE] = "";
	int err;

	op_begin(abort ? OP_ABORT : OP_COMPILE, "%s", path);
	err = write_file(path, O_CREAT, "", 0, 1);
	if (!err)
		err = write_text(path_of("executables/%s/options.json", name),
				 "{\"plugin\":\"faulty\"}\n");
	if (!err)
		err = compile(path, filled(abort ? aborts : works, (uint32_t)number));
	if (abort && err == EIO) {
		read_file("error", why, sizeof(why));
		if (op_lacks(why))
			wrong("a program ended the worker, and there is no sentence");
		op_ok();
	} else if (abort && !err) {
		wrong("a program that ends the worker was compiled");
	} else {
		op_ended(err, NULL);
	}
	unlink(path);
}

/* --- a program that calls its host ---------------------------------------------------- */

static int host = -1; /* the file of its callback */

static const char *host_path(const char *file)
{
	return path_of("executables/c%u/host/%s", me->index, file);
}

static const char *host_program(void)
{
	return path_of("programs/c%u/host.mlir", me->index);
}

void host_begin(void)
{
	char state[64];

	op_begin(OP_COMPILE, "%s", host_program());
	for (int err = 0; read_file(host_path("state"), state, sizeof(state)) < 0 ||
			  strcmp(state, "ready\n") != 0;) {
		err = compile(host_program(), asks);
		if (err)
			op_failed(err, NULL);
	}
	op_ok();
}

/* Wait for a request, on a new descriptor if the daemon was restarted since the last one, unless
 * the call CALL ends before (0); or -errno: the request has ended. */
static ssize_t host_read(int call, char *text, size_t size)
{
	for (bool again = false;; again = true) {
		struct pollfd polled[2] = { { host, POLLIN, 0 }, { call, POLLIN, 0 } };
		ssize_t n;

		while (poll(polled, 2, -1) < 0)
			;
		if (polled[1].revents)
			return 0;
		n = read(host, text, size);
		if (n >= 0 || again || !was_there(DAEMON, 1))
			return n < 0 ? -errno : n;
		talk_close(&host);
		host = talk_open(host_path("callbacks/0.txt"));
		if (host < 0)
			return -errno;
	}
}

/* Answer X + NUMBER, an error, or nothing, as HOW says, to what the program asks, unless the call
 * CALL ends before.  0, or an errno: the request has ended. */
static int host_answer(int call, const struct value *x, uint32_t number, unsigned how)
{
	char text[LINE], *at = text;
	int32_t v[4];
	ssize_t n;

	n = host_read(call, text, sizeof(text) - 1);
	if (n <= 0)
		return (int)-n;
	text[n] = '\0';
	for (unsigned i = 0; i < 4; i++)
		v[i] = (int32_t)strtol(at, &at, 10);
	if (*at != '\n' || !value_is(x, v, sizeof(v)))
		wrong("the program asks for '%s'", text);
	if (how == 0) {
		talk_close(&host);
		return 0;
	}
	for (unsigned i = 0; i < 4; i++)
		v[i] = (int32_t)((uint32_t)v[i] + number);
	n = how == 1
		    ? snprintf(
			      text, sizeof(text),
			      "{\"error\":{\"code\":\"ABORTED\",\"message\":\"soak\"}}\n")
		    : snprintf(text, sizeof(text), "%d %d %d %d\n", v[0], v[1], v[2],
			       v[3]);
	if (write(host, text, (size_t)n) == n)
		return 0;
	n = errno;
	talk_close(&host); /* the request waits for another answer, if memory was short */
	return (int)n;
}

void host_step(void)
{
	struct value x = value_random('i', 4), want = x;
	unsigned how = below(16);
	char data[HEAD + 16];
	uint32_t number = below(1000);
	int call, err = 0;

	op_begin(OP_CALLBACK, "%s", host_path("call"));
	value_npy(&x, data);
	want.base = 2 * x.base + number;
	want.step = 2 * x.step;
	call = talk_open(host_path("call"));
	if (host < 0)
		host = talk_open(host_path("callbacks/0.txt"));
	if (host < 0 && errno == ENOENT && was_there(DAEMON, me->began)) {
		/* A restarted daemon compiles the program first. */
		talk_close(&call);
		host_begin();
		return;
	}
	if (call < 0 || host < 0 || write(call, data, sizeof(data)) < 0) {
		err = errno;
	} else {
		int ended = host_answer(call, &x, number, how);

		if (read(call, data, sizeof(data)) < 0)
			err = ended == ENOSPC ? ended : errno;
		if (how < 2 && err == ECONNABORTED)
			err = 0;
		else if (!err && (how < 2 || ended || !value_is(&want, data + HEAD, 16)))
			wrong("the program did not get the host's answer: %s",
			      strerror(ended));
	}
	op_ended(err, NULL);
	talk_close(&call);
	if (err) { /* a restarted daemon does not know it */
		talk_close(&host);
		host_begin();
	}
	pause_ms(below(20));
}

void host_end(void)
{
	talk_close(&host);
	if (unlink(host_program()))
		wrong("%s: %s", host_program(), strerror(errno));
}
