/* SPDX-License-Identifier: Apache-2.0 */
/* A client of pjrtfs-bench: it writes zeros to `call.raw`, or has `control` execute the program on
 * buffers and reads the results. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

enum {
	PIECE = 1 << 20,
	/* The first read of a call waits for the execution; it takes no more than a page, so that
	 * the reads behind it are the download. */
	FIRST_READ = 4096,
};

struct client {
	struct bench *b; /* borrowed */
	long n;
	int fd;         /* `call.raw` or `control`; -1: not open */
	size_t in, out; /* bytes of an execution */
	bool sized;     /* in and out are known */
	bool newline;   /* the program takes no bytes: a newline starts it */
	struct pf_buf zeros, bytes, command, reply;
	struct json_object *outputs; /* owned; where control put the results */
};

struct client *client_new(struct bench *b, long n)
{
	struct client *c = calloc(1, sizeof(*c));

	if (c) {
		c->b = b;
		c->n = n;
		c->fd = -1;
	}
	return c;
}

void client_pause(struct client *c)
{
	pf_closep(&c->fd);
}

void client_bytes(const struct client *c, size_t *ret_in, size_t *ret_out)
{
	*ret_in = c->in;
	*ret_out = c->out;
}

static double seconds_since(uint64_t start)
{
	return (double)(pf_now_ns() - start) / 1e9;
}

static int open_rw(struct client *c, const char *fmt, const char *name,
		   struct pf_err *err)
{
	char path[PATH_MAX], file[PATH_MAX];

	if (c->fd >= 0)
		return 0;
	if (snprintf(file, sizeof(file), fmt, name) >= (int)sizeof(file) ||
	    snprintf(path, sizeof(path), "%s/%s", c->b->mount, file) >= (int)sizeof(path))
		return pf_err_set(err, -ENAMETOOLONG, "the name of %s is too long",
				  c->b->program);
	c->fd = open(path, O_RDWR | O_CLOEXEC);
	return c->fd < 0 ? tool_refused(c->b->mount, errno, path, err) : 0;
}

/* The message of a reply in JSON, or the mount's, if it has none. */
static int refused(struct client *c, int code, const char *text, size_t len,
		   struct pf_err *err)
{
	struct json_object *reply = NULL, *error;

	if (len && pf_json_parse(text, len, &reply, NULL) == 0 &&
	    json_object_object_get_ex(reply, "error", &error))
		pf_err_set(err, -code, "%s", pf_json_get_string(error, "message"));
	else
		tool_refused(c->b->mount, code, c->b->program, err);
	json_object_put(reply);
	return -code;
}

/* --- calls ------------------------------------------------------------------------------- */

/* A call failed: the read that follows tells why. */
static int call_failed(struct client *c, struct pf_err *err)
{
	int code = errno;
	char text[8192];
	ssize_t n;

	(void)!read(c->fd, text, sizeof(text));
	n = read(c->fd, text, sizeof(text));
	return refused(c, code, text, n > 0 ? (size_t)n : 0, err);
}

/* Write the inputs, whose size is the first short write's until it is known.  0, or -1 and errno. */
static int call_write(struct client *c)
{
	size_t done = 0, piece;
	ssize_t n;

	if (c->newline)
		return write(c->fd, "\n", 1) < 0 ? -1 : 0;
	do {
		piece = c->sized && c->in - done < PIECE ? c->in - done : PIECE;
		n = write(c->fd, c->zeros.data, piece);
		if (n < 0 && !c->sized && errno == EBUSY && done)
			break; /* the last write was the last of the inputs */
		if (n < 0 && errno != EINTR)
			return -1;
		done += n > 0 ? (size_t)n : 0;
	} while (c->sized ? done < c->in : n < 0 || n == PIECE);
	c->in = done;
	return 0;
}

/* Read the outputs; *RET_FIRST is when the first bytes came.  0, or -1 and errno. */
static int call_read(struct client *c, uint64_t *ret_first)
{
	size_t done = 0;
	ssize_t n;

	do {
		n = read(c->fd, c->bytes.data, done ? PIECE : FIRST_READ);
		if (n < 0 && errno != EINTR)
			return -1;
		if (!done)
			*ret_first = pf_now_ns();
		done += n > 0 ? (size_t)n : 0;
	} while (n < 0 || (c->sized ? done < c->out : n > 0));
	c->out = done;
	return 0;
}

static int call_run(struct client *c, struct times *t, struct pf_err *err)
{
	uint64_t start, written, first = 0;

	if (open_rw(c, "executables/%s/call.raw", c->b->program, err) < 0)
		return err->code;
	start = pf_now_ns();
	if (call_write(c) < 0) {
		/* A program that takes no bytes refuses the first of them. */
		if (errno != EINVAL || c->sized || c->newline)
			return call_failed(c, err);
		c->newline = true;
		client_pause(c);
		return call_run(c, t, err);
	}
	written = pf_now_ns();
	if (call_read(c, &first) < 0)
		return call_failed(c, err);
	c->sized = true;
	t->of[TOTAL] = seconds_since(start);
	t->of[UPLOAD] = (double)(written - start) / 1e9;
	t->of[WAIT] = (double)(first - written) / 1e9;
	if (c->out > FIRST_READ)
		t->of[DOWNLOAD] = seconds_since(first);
	return 0;
}

/* --- commands ---------------------------------------------------------------------------- */

/* The command that executes the program on the buffers, and a newline. */
static int make_command(struct client *c, struct pf_err *err)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array(),
			   *outputs;
	char name[64];

	pf_json_add_string(o, "op", "execute");
	pf_json_add_string(o, "executable", c->b->program);
	for (unsigned i = 0; i < c->b->n_inputs; i++)
		pf_json_append(list, json_object_new_string(c->b->inputs[i]));
	pf_json_add(o, "inputs", list);
	list = json_object_new_array();
	if (!json_object_object_get_ex(c->b->signature, "outputs", &outputs))
		outputs = NULL;
	for (size_t i = 0; outputs && i < json_object_array_length(outputs); i++) {
		snprintf(name, sizeof(name), "pjrtfs-bench-%d-%ld-%zu", (int)getpid(),
			 c->n, i);
		pf_json_append(list, json_object_new_string(name));
	}
	pf_json_add(o, "outputs", list);
	pf_json_print_line(o, &c->command);
	json_object_put(o);
	return c->command.failed ? pf_err_set(err, -ENOMEM, "no memory for a command")
				 : 0;
}

/* Read a line, the reply. */
static int read_reply(struct client *c, struct pf_err *err)
{
	ssize_t n = 1;

	c->reply.len = 0;
	while (n && !(c->reply.len && c->reply.data[c->reply.len - 1] == '\n')) {
		char *to = pf_buf_reserve(&c->reply, PIECE);

		if (!to)
			return pf_err_set(err, -ENOMEM, "no memory for a reply");
		n = read(c->fd, to, PIECE);
		if (n < 0 && errno != EINTR)
			return pf_err_set(err, -errno, "read the reply of control: %s",
					  strerror(errno));
		c->reply.len += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* The path of the result O, an object of a reply. */
static bool result_path(struct client *c, struct json_object *o, const char *end,
			char *path)
{
	const char *device = pf_json_get_string(o, "device"), *id = strchr(device, ':');

	return id && snprintf(path, PATH_MAX, "%s/devices/%.*s/%s/buffers/%s%s",
			      c->b->mount, (int)(id - device), device, id + 1,
			      pf_json_get_string(o, "name"), end) < PATH_MAX;
}

/* Read the result at PATH. */
static int download(struct client *c, const char *path, struct pf_err *err)
{
	pf_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = 1;

	while (fd >= 0 && n) {
		n = read(fd, c->bytes.data, PIECE);
		if (n < 0 && errno != EINTR)
			break;
		c->out += n > 0 ? (size_t)n : 0;
	}
	return fd < 0 || n < 0 ? tool_refused(c->b->mount, errno, path, err) : 0;
}

/* Download, or remove, the results in O: an object, or a list of them or of lists. */
static int each_result(struct client *c, struct json_object *o, bool remove,
		       struct pf_err *err)
{
	char path[PATH_MAX];
	int r = 0;

	if (json_object_is_type(o, json_type_array)) {
		for (size_t i = 0; r == 0 && i < json_object_array_length(o); i++)
			r = each_result(c, json_object_array_get_idx(o, i), remove, err);
		return r;
	}
	if (!result_path(c, o, remove ? ".npy" : ".raw", path))
		return 0;
	if (!remove)
		return download(c, path, err);
	if (unlink(path) < 0 && errno != ENOENT)
		return tool_refused(c->b->mount, errno, path, err);
	return 0;
}

static double reply_seconds(struct json_object *reply, const char *key)
{
	struct json_object *o;

	return json_object_object_get_ex(reply, key, &o) ? json_object_get_double(o) : -1;
}

static int command_run(struct client *c, struct times *t, struct pf_err *err)
{
	struct json_object *reply = NULL, *o = NULL;
	uint64_t start, replied;
	int r;

	if (open_rw(c, "%s", "control", err) < 0 ||
	    (!c->command.len && make_command(c, err) < 0))
		return err->code;
	start = pf_now_ns();
	if (write(c->fd, c->command.data, c->command.len) < 0)
		return tool_refused(c->b->mount, errno, "control", err);
	r = read_reply(c, err);
	t->of[TOTAL] = seconds_since(start);
	if (r < 0)
		return r;
	if (pf_json_parse(c->reply.data, c->reply.len, &reply, err) < 0)
		return pf_err_wrap(err, -EPROTO, "the reply of control");
	if (!json_object_object_get_ex(reply, "outputs", &o)) {
		json_object_put(reply);
		return refused(c, EIO, c->reply.data, c->reply.len, err);
	}
	t->of[UPLOAD] = reply_seconds(reply, "transfer_seconds");
	t->of[QUEUE] = reply_seconds(reply, "queue_seconds");
	t->of[EXECUTE] = reply_seconds(reply, "device_seconds");
	json_object_put(c->outputs);
	c->outputs = json_object_get(o);
	json_object_put(reply);
	c->out = 0;
	replied = pf_now_ns();
	r = each_result(c, c->outputs, false, err);
	t->of[DOWNLOAD] = seconds_since(replied);
	t->of[TOTAL] += t->of[DOWNLOAD];
	return r;
}

int client_run(struct client *c, struct times *t, struct pf_err *err)
{
	*t = (struct times){ { -1, -1, -1, -1, -1, -1 } };
	if (!c->bytes.data) {
		char *zeros = pf_buf_reserve(&c->zeros, PIECE);

		if (!zeros || !pf_buf_reserve(&c->bytes, PIECE))
			return pf_err_set(err, -ENOMEM, "no memory for a client");
		memset(zeros, 0, PIECE);
	}
	return c->b->n_inputs ? command_run(c, t, err) : call_run(c, t, err);
}

void client_free(struct client *c)
{
	struct pf_err err = PF_ERR_INIT;

	if (!c)
		return;
	if (c->outputs && each_result(c, c->outputs, true, &err) < 0)
		fprintf(stderr, "pjrtfs-bench: remove a result: %s\n", err.text);
	json_object_put(c->outputs);
	client_pause(c);
	pf_buf_release(&c->zeros);
	pf_buf_release(&c->bytes);
	pf_buf_release(&c->command);
	pf_buf_release(&c->reply);
	free(c);
}
