/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.json: the events that its reader sees, as spans on a time line, which Perfetto and Chrome
 * show.  It is made when it is opened, so that it costs nothing before.
 *
 * A span on a track of Perfetto may not begin within another and end after it.  So spans of one user
 * on one device that overlap get tracks of their own, lanes.  Times are whole microseconds: Perfetto
 * rounds fractions of a time since 1970 to 256 ns, and drops a span that then ends after the one around it.
 *
 * https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event
 * Format)
 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/json.h"
#include "pjrtfs/telemetry.h"

enum { LANES = 1024, READ = 256 << 10 };

/* One of the tracks of a user on a device. */
struct lane {
	int64_t process;
	int64_t user;
	unsigned number;
	int64_t end; /* of its last span */
};

/* A trace while it is made.  Times are microseconds since 1970. */
struct trace {
	struct pf_buf *out;            /* borrowed */
	bool comma;                    /* another event follows a first one */
	struct json_object *processes; /* owned: the numbers of devices, by name */
	struct json_object
		*compiles; /* owned: the last event of each that goes on, by object */
	struct lane lanes[LANES];
	size_t n_lanes;
};

/* Print EVENT, which is given; only its keys ph, pid and tid are missing. */
static void put(struct trace *t, const char *phase, int64_t process, int64_t lane,
		struct json_object *event)
{
	const char *text;

	pf_json_add_string(event, "ph", phase);
	pf_json_add_int(event, "pid", process);
	pf_json_add_int(event, "tid", lane);
	pf_buf_puts(t->out, t->comma ? ",\n" : "\n");
	text = pf_json_text(event);
	pf_buf_puts(t->out, text ? text : "{}");
	t->out->failed |= !text;
	t->comma = true;
	json_object_put(event);
}

static void put_name(struct trace *t, const char *what, int64_t process, int64_t lane,
		     const char *name)
{
	struct json_object *event = json_object_new_object();
	struct json_object *args = json_object_new_object();

	pf_json_add_string(args, "name", name);
	pf_json_add_string(event, "name", what);
	pf_json_add(event, "args", args);
	put(t, "M", process, lane, event);
}

/* The number of the process that stands for NAME, a device or a plugin. */
static int64_t process_of(struct trace *t, const char *name)
{
	struct json_object *known = json_object_object_get(t->processes, name);
	int64_t number = json_object_object_length(t->processes) + 1;

	if (known)
		return json_object_get_int64(known);
	pf_json_add_int(t->processes, name, number);
	put_name(t, "process_name", number, 0, name);
	return number;
}

/* The first lane of USER in PROCESS that is free from START on, in use up to END; 0: there are too
 * many. */
static size_t lane_of(struct trace *t, int64_t process, int64_t user, int64_t start,
		      int64_t end)
{
	unsigned number = 1;
	char name[64];
	size_t i;

	for (i = 0; i < t->n_lanes; i++) {
		struct lane *l = &t->lanes[i];

		if (l->process != process || l->user != user)
			continue;
		if (l->end <= start) {
			l->end = end;
			return i + 1;
		}
		number++;
	}
	if (i == LANES)
		return 0;
	t->lanes[t->n_lanes++] = (struct lane){ process, user, number, end };
	snprintf(name, sizeof(name),
		 number > 1 ? "user %" PRId64 " (%u)" : "user %" PRId64, user, number);
	put_name(t, "thread_name", process, (int64_t)i + 1, name);
	return i + 1;
}

/* What lasted from START to END, in a lane. */
static void put_span(struct trace *t, const char *category, const char *name,
		     int64_t process, size_t lane, int64_t start, int64_t end,
		     struct json_object *args)
{
	struct json_object *event = json_object_new_object();

	pf_json_add_string(event, "name", name);
	pf_json_add_string(event, "cat", category);
	pf_json_add_int(event, "ts", start);
	pf_json_add_int(event, "dur", end > start ? end - start : 0);
	if (args)
		pf_json_add_copy(event, "args", args);
	put(t, "X", process, (int64_t)lane, event);
}

static double number(struct json_object *event, const char *key)
{
	return json_object_get_double(json_object_object_get(event, key));
}

/* The time SECONDS before that of EVENT. */
static int64_t before(struct json_object *event, double seconds)
{
	return (int64_t)((number(event, "time") - seconds) * 1e6);
}

/* "executables/add": "add". */
static const char *name_of(struct json_object *event)
{
	const char *object = pf_json_get_string(event, "object");
	const char *slash = strchr(object, '/');

	return slash ? slash + 1 : object;
}

/* EVENT, which says at its end how long something has lasted, on the track of DEVICE, from EARLIEST on. */
static void add_span(struct trace *t, const char *category, const char *device,
		     struct json_object *event, int64_t earliest)
{
	double left = number(event, "seconds"), moved = number(event, "transfer_seconds");
	int64_t end = before(event, 0);
	int64_t begun = before(event, left), start = begun > earliest ? begun : earliest;
	int64_t loaded = before(event, left - moved);
	int64_t granted = before(event, left - moved - number(event, "queue_seconds"));
	int64_t ran = before(event, number(event, "device_seconds"));
	int64_t process = process_of(t, device);
	size_t lane = lane_of(t, process, (int64_t)number(event, "user"), start, end);

	if (!lane)
		return;
	put_span(t, category, name_of(event), process, lane, start, end, event);
	if (loaded > start && loaded <= end)
		put_span(t, "upload", "upload", process, lane, start, loaded, NULL);
	if (granted > loaded && granted <= end)
		put_span(t, "queue", "queue", process, lane, loaded, granted, NULL);
	if (ran < end && ran >= granted)
		put_span(t, "execute", "execute", process, lane, ran, end, NULL);
}

static void add_execution(struct trace *t, const char *category,
			  struct json_object *event)
{
	struct json_object *list = json_object_object_get(event, "devices");
	size_t n = json_object_is_type(list, json_type_array)
			   ? json_object_array_length(list)
			   : 0;

	for (size_t i = 0; i < n; i++)
		add_span(t, category,
			 json_object_get_string(json_object_array_get_idx(list, i)),
			 event, 0);
}

/* A compile is queued, leaves the queue, or ends. */
static void add_compile(struct trace *t, const char *what, struct json_object *event)
{
	const char *object = pf_json_get_string(event, "object");
	struct json_object *last = json_object_object_get(t->compiles, object);
	bool waited = !strcmp(pf_json_get_string(last, "event"), "program.queued");
	int64_t now = before(event, 0), start = last ? before(last, 0) : 0;

	if (waited && strcmp(what, "queued") != 0) {
		int64_t process = process_of(t, pf_json_get_string(last, "plugin"));
		size_t lane =
			lane_of(t, process, (int64_t)number(event, "user"), start, now);

		if (lane)
			put_span(t, "queue", "queue", process, lane, start, now, last);
	}
	if (!strcmp(what, "queued") || (waited && !strcmp(what, "compiling"))) {
		pf_json_add_copy(t->compiles, object, event);
	} else if (strcmp(what, "compiling") != 0) {
		/* The seconds begin before the event that says so. */
		if (json_object_object_get(event, "seconds"))
			add_span(t, "compile", pf_json_get_string(event, "plugin"), event,
				 waited ? 0 : start);
		json_object_object_del(t->compiles, object);
	}
}

static void add(struct trace *t, struct json_object *event)
{
	const char *what = pf_json_get_string(event, "event");
	const char *kind = strchr(what, '.') ? strchr(what, '.') + 1 : "";

	if (!strncmp(what, "program.", 8))
		add_compile(t, kind, event);
	else if (!strncmp(what, "execution.", 10))
		add_execution(t, "execution", event);
	else if (!strcmp(what, "calls.finished"))
		add_execution(t, "calls", event);
	else if (!strcmp(what, "buffer.ready") &&
		 json_object_object_get(event, "seconds"))
		add_span(t, "upload", pf_json_get_string(event, "device"), event, 0);
	else if (!strcmp(what, "buffer.fetched"))
		add_span(t, "download", pf_json_get_string(event, "device"), event, 0);
}

static void add_lines(struct trace *t, const struct pf_buf *lines)
{
	for (const char *at = lines->data, *end; at; at = end ? end + 1 : NULL) {
		size_t left = lines->len - (size_t)(at - lines->data);
		struct json_object *event = NULL;
		int r;

		end = memchr(at, '\n', left);
		r = end ? pf_json_parse(at, (size_t)(end - at), &event, NULL) : -EINVAL;
		if (r == 0)
			add(t, event);
		t->out->failed |= r == -ENOMEM;
		json_object_put(event);
	}
}

/* All lines of events that USER sees. */
static void read_events(struct pf_telemetry *telemetry, uid_t user, struct pf_buf *out)
{
	struct pf_lines_reader reader = { 0 };
	size_t n = READ;

	while (n) {
		char *to = pf_buf_reserve(out, READ);

		n = to ? pf_events_read(telemetry, user, &reader, out->len, to, READ) : 0;
		out->len += n;
	}
	pf_lines_reader_release(&reader);
}

static int trace_show(struct pf_node *node, const struct pf_cred *cred,
		      struct pf_buf *out, struct pf_err *err)
{
	pf_autobuf struct pf_buf lines = PF_BUF_INIT;
	struct trace *t = calloc(1, sizeof(*t));

	if (!t)
		return pf_err_set(err, -ENOMEM, "no memory for the text");
	t->out = out;
	t->processes = json_object_new_object();
	t->compiles = json_object_new_object();
	read_events(fs_of(node)->config.telemetry, cred->uid, &lines);
	out->failed |= lines.failed || !t->processes || !t->compiles;
	pf_buf_puts(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
	if (!out->failed)
		add_lines(t, &lines);
	pf_buf_puts(out, "\n]}\n");
	json_object_put(t->processes);
	json_object_put(t->compiles);
	free(t);
	return 0;
}

const struct pf_kind kind_trace = { .name = "trace.json",
				    .mode = S_IFREG | 0444,
				    .show_as = trace_show,
				    .blocks = true };
