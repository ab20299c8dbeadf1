/* SPDX-License-Identifier: Apache-2.0 */
/* Values, and the model of the names of a client. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "soak.h"

enum { TEXT_MOST = 4096 /* elements of what is read or written as text */ };

/* Bytes of a file, with the header and a zero byte. */
static char bytes[HEAD + MOST * 4 + 16];

/* --- values ------------------------------------------------------------------------- */

size_t value_size(const struct value *v)
{
	return (size_t)v->n * (v->type == 'b' ? 1 : 4);
}

static uint32_t element(const struct value *v, uint32_t i)
{
	return v->base + i * v->step;
}

void value_fill(const struct value *v, void *to)
{
	uint8_t *b = to;
	uint32_t *w = to;
	float *f = to;

	for (uint32_t i = 0; i < v->n; i++) {
		if (v->type == 'b')
			b[i] = (uint8_t)element(v, i);
		else if (v->type == 'i')
			w[i] = element(v, i);
		else
			f[i] = (float)(int32_t)element(v, i);
	}
}

bool value_is(const struct value *v, const void *data, size_t len)
{
	static char want[MOST * 4];

	if (len != value_size(v))
		return false;
	value_fill(v, want);
	return memcmp(data, want, len) == 0;
}

struct value value_random(char type, uint32_t n)
{
	/* Each element of an F32, and the sums of some, are exact. */
	uint32_t most = type == 'f' ? 1000 : 1u << 31;

	return (struct value){ type, n, below(most), below(type == 'f' ? 100 : most) };
}

struct value value_sum(const struct value *a, const struct value *b)
{
	return (struct value){ a->type, a->n, a->base + b->base, a->step + b->step };
}

void value_npy(const struct value *v, char *to)
{
	const char *descr = v->type == 'b' ? "|u1" : v->type == 'i' ? "<i4" : "<f4";
	int n;

	memset(to, ' ', HEAD);
	memcpy(to, "\x93NUMPY\x01\x00\x76\x00", 10);
	n = snprintf(to + 10, HEAD - 10,
		     "{'descr': '%s', 'fortran_order': False, 'shape': (%u,), }", descr,
		     v->n);
	to[10 + n] = ' ';
	to[HEAD - 1] = '\n';
	value_fill(v, to + HEAD);
}

/* The file NAME.EXT of the value, in a buffer of this process; *LEN: its bytes. */
static const void *value_file(const struct value *v, const char *ext, size_t *len)
{
	*len = value_size(v);
	if (!strcmp(ext, "txt")) {
		*len = 0;
		for (uint32_t i = 0; i < v->n; i++)
			*len += (size_t)sprintf(bytes + *len, "%d%c",
						(int32_t)element(v, i),
						i + 1 < v->n ? ' ' : '\n');
	} else if (!strcmp(ext, "npy")) {
		*len += HEAD;
		value_npy(v, bytes);
	} else {
		value_fill(v, bytes);
	}
	return bytes;
}

/* Is the text that of the value? */
static bool is_text(const struct value *v, const char *text)
{
	char *end;

	for (uint32_t i = 0; i < v->n; i++, text = end) {
		uint32_t number = (uint32_t)strtol(text, &end, 10), want = element(v, i);

		if (end == text || number != (v->type == 'b' ? (uint8_t)want : want))
			return false;
	}
	return text[strspn(text, "\n")] == '\0';
}

/* Is the file of LEN bytes, a view with EXT, that of the value? */
static bool is_file(const struct value *v, const char *ext, const char *data, size_t len)
{
	size_t head;

	if (!strcmp(ext, "txt"))
		return is_text(v, data);
	if (strcmp(ext, "npy"))
		return value_is(v, data, len);
	if (len < 10 || memcmp(data, "\x93NUMPY\x01", 7))
		return false;
	head = 10 + (size_t)((uint8_t)data[8] | (uint8_t)data[9] << 8);
	return head <= len && value_is(v, data + head, len - head);
}

/* --- the model ---------------------------------------------------------------------- */

static void set_name(struct thing *t)
{
	static const char exts[][8] = { "npy", "npy", "raw", "txt" };
	unsigned i = (unsigned)(t - me->things);

	snprintf(t->name, sizeof(t->name), "c%u/n%u.%u", me->index, i, t->generation);
	memcpy(t->ext, exts[i % 4], sizeof(t->ext));
}

struct thing *thing(unsigned i)
{
	struct thing *t = &me->things[i];

	if (!t->name[0]) {
		t->absent = true;
		set_name(t);
	}
	return t;
}

void thing_leave(struct thing *t)
{
	t->generation++;
	thing_is(t, NULL);
	set_name(t);
}

void thing_may(struct thing *t, const struct value *v)
{
	if (!v) {
		t->absent = true;
		return;
	}
	if (t->n == MAYBE) /* what is old is settled before that */
		memmove(t->may, t->may + 1, (MAYBE - 1) * sizeof(t->may[0]));
	else
		t->n++;
	t->may[t->n - 1] = *v;
}

void thing_is(struct thing *t, const struct value *v)
{
	if (v)
		t->may[0] = *v;
	t->n = v ? 1 : 0;
	t->absent = !v;
	t->partial = false;
	t->repeat = 0;
}

bool thing_certain(const struct thing *t)
{
	return !t->partial && t->n + t->absent == 1;
}

bool thing_settled(struct thing *t)
{
	return thing_certain(t) || thing_check(t);
}

bool thing_there(const struct thing *t)
{
	return t->n == 1 && !t->absent && !t->partial;
}

const char *thing_path(const struct thing *t, const char *ext)
{
	return path_of("buffers/%s.%s", t->name, ext);
}

/* Its state, as NAME.json has it, or "". */
static const char *json_state(const struct thing *t)
{
	static char text[LINE];
	char *at;

	if (read_file(thing_path(t, "json"), text, sizeof(text)) < 0)
		return "";
	at = strstr(text, "\"state\":\"");
	if (!at)
		return "";
	at += 9;
	at[strcspn(at, "\"")] = '\0';
	return at;
}

/*
 * A thing without an array says so: one that was cut off, one that was lost, one for which
 * the memory limit left no room when a rename had committed it.  It is removed.
 */
static bool settle_partial(struct thing *t, int err)
{
	const char *state = json_state(t);
	bool lost = err == EIO && !strcmp(state, "lost") &&
		    (was_there(WORKER, 1) || was_there(DAEMON, 1));
	bool partial = t->partial ||
		       (err == ENODATA && t->renamed && was_there(MEMORY, t->renamed));

	if (!lost && (!partial || !*state || !strcmp(state, "ready") ||
		      !strcmp(state, "transferring")))
		return false;
	me->lost += lost;
	if (unlink(thing_path(t, t->ext)) && errno != ENOENT &&
	    unlink(thing_path(t, "npy")) && errno != ENOENT)
		return false;
	thing_is(t, NULL);
	return true;
}

/* Which value has it?  False: none that it may have. */
static bool which(const struct thing *t, const char *ext, size_t len, struct value *v)
{
	uint32_t first;

	for (unsigned i = 0; i < t->n; i++) {
		*v = t->may[i];
		if (t->repeat && !strcmp(ext, "raw") && len >= sizeof(first)) {
			memcpy(&first, bytes, sizeof(first));
			if (first - v->base <= t->repeat)
				v->base = first;
		}
		if (is_file(v, ext, bytes, len))
			return true;
	}
	return false;
}

/* Can it be read as text?  An element has at most eleven characters and a separator. */
static bool is_short(const struct thing *t)
{
	for (unsigned i = 0; i < t->n; i++)
		if (t->may[i].n > TEXT_MOST)
			return false;
	return true;
}

bool thing_check(struct thing *t)
{
	const char *ext = t->repeat || one_in(2)      ? "raw"
			  : !is_short(t) || one_in(2) ? "npy"
						      : "txt";
	struct value v;
	bool matches;
	ssize_t len;

	op_begin(OP_READ, "read %s", thing_path(t, ext));
	len = read_file(thing_path(t, ext), bytes, sizeof(bytes));
	if (len == -ENOENT && t->absent) {
		thing_is(t, NULL);
		op_ok();
		return true;
	}
	matches = len >= 0 && which(t, ext, (size_t)len, &v);
	/* A file can have all its bytes and no array, if the limit left no room for that. */
	if (matches && (!t->partial || !strcmp(json_state(t), "ready"))) {
		thing_is(t, &v);
		op_ok();
		return true;
	}
	if (settle_partial(t, len < 0 ? (int)-len : 0) || matches) {
		op_ok();
		return thing_certain(t);
	}
	if (len < 0) {
		op_failed((int)-len, NULL);
		return false;
	}
	wrong("%zd bytes, the first %02x %02x %02x %02x, are none of %u values that %s may have; "
	      "its state is '%s'",
	      len, (uint8_t)bytes[0], (uint8_t)bytes[1], (uint8_t)bytes[2],
	      (uint8_t)bytes[3], t->n, t->name, json_state(t));
	me->began = 0;
	thing_leave(t);
	return false;
}

bool thing_put(struct thing *t, const struct value *v, bool replace)
{
	const char *path = thing_path(t, t->ext), *to = path;
	size_t len, piece;
	const void *data = value_file(v, t->ext, &len);
	int err;

	piece = one_in(2) ? len : 1 + below((uint32_t)len);
	if (piece < len / 64)
		piece = len / 64;
	if (replace)
		to = thing_path(t, "part");
	op_begin(replace ? OP_REPLACE : OP_WRITE, "write %zu bytes to %s", len, to);
	thing_may(t, v);
	if (!replace)
		t->partial = true;
	err = write_file(to, O_CREAT | O_TRUNC, data, len, piece);
	if (!err && replace && rename(to, path))
		err = errno;
	if (err) {
		op_failed(err, NULL);
		if (err == EINTR) /* what began goes on, and ends later */
			thing_leave(t);
		return false;
	}
	thing_is(t, v);
	t->renamed = replace ? me->began : 0;
	op_ok();
	return true;
}

void thing_remove(struct thing *t)
{
	thing_may(t, NULL);
	op_begin(OP_UNLINK, "unlink %s", thing_path(t, t->ext));
	if (unlink(thing_path(t, t->ext))) {
		op_failed(errno, NULL);
		return;
	}
	thing_is(t, NULL);
	op_ok();
}

bool thing_given(struct thing *t, const struct value *v, int err, const char *sentence)
{
	if (!err)
		thing_is(t, v);
	if (!op_ended(err, sentence) || one_in(3))
		thing_check(t);
	return !err;
}

bool thing_command(enum op op, struct thing *t, const struct value *v, const char *fmt,
		   ...)
{
	char text[LINE];
	va_list ap;
	int err;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	op_begin(op, "%s", text);
	if (t)
		thing_may(t, v);
	err = talk(control, "%s\n", text);
	return t ? thing_given(t, v, err, reply) : op_ended(err, reply);
}

bool thing_need(struct thing *t, char type, uint32_t n)
{
	struct value v;

	if (!thing_settled(t))
		return false;
	if (thing_there(t) && t->may[0].type == type && t->may[0].n == n)
		return true;
	v = value_random(type, n);
	return thing_put(t, &v, false);
}

void things_end(void)
{
	for (unsigned i = 0; i < THINGS; i++) {
		struct thing *t = thing(i);

		for (int tries = 0; tries < 20 && !(thing_check(t) && thing_certain(t));
		     tries++)
			pause_ms(500);
		if (thing_there(t))
			thing_remove(t);
	}
}
