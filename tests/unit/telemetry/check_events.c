/* SPDX-License-Identifier: Apache-2.0 */
/* Events: one line of JSON each, in the order of their times, to whom they belong. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pjrtfs/base.h"
#include "quoted.h"
#include "sleeping.h"
#include "telemetry/internal.h"

enum { OWNER = 1000, KEPT = 2 * PF_LINES_CHUNK };

static struct pf_telemetry *events;

static void setup(void)
{
	events = pf_telemetry_new(OWNER, KEPT, KEPT);
	ck_assert_ptr_nonnull(events);
}

static void teardown(void)
{
	pf_telemetry_free(events);
}

/* All that UID sees, and how many lines. */
static char *see(uid_t uid, size_t *ret_lines)
{
	static char text[4 * KEPT];
	struct pf_lines_reader r = { 0 };
	size_t n = pf_events_read(events, uid, &r, 0, text, sizeof(text) - 1);

	text[n] = '\0';
	*ret_lines = 0;
	for (const char *p = text; (p = strchr(p, '\n')); p++)
		++*ret_lines;
	pf_lines_reader_release(&r);
	return text;
}

static void say(const char *name, uid_t user, const char *object)
{
	struct pf_event e;

	pf_event_begin(&e, events, name, user, "%s", object);
	pf_event_send(&e);
}

/* The next line of *TEXT as an object, which the caller puts. */
static struct json_object *next_object(char **text)
{
	char *end = strchr(*text, '\n');
	struct json_object *o;

	ck_assert_ptr_nonnull(end);
	*end = '\0';
	o = json_tokener_parse(*text);
	ck_assert_msg(json_object_is_type(o, json_type_object), "no object: %s", *text);
	*text = end + 1;
	return o;
}

static const char *field(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;

	ck_assert_msg(json_object_object_get_ex(o, key, &v), "no %s", key);
	return json_object_get_string(v);
}

TEST(fields)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_event event;
	struct timespec before, after;
	const char *text;
	double time;
	size_t n;
	int at;

	clock_gettime(CLOCK_REALTIME, &before);
	pf_err_set(&err, -EINVAL, "bad \"op\" of C:\\x: \xc3\xa9");
	pf_event_begin(&event, events, "program.failed", 7, "executables/%s", "a\"b\\c");
	pf_event_str(&event, "plugin", "cpu");
	pf_event_str(&event, "none", NULL);
	pf_event_int(&event, "bytes", INT64_MIN);
	pf_event_int(&event, "zero", 0);
	pf_event_seconds(&event, "seconds", 12.000034);
	pf_event_json(&event, "id", "[1,{\"x\":null}]");
	pf_event_error(&event, &err);
	pf_event_send(&event);
	clock_gettime(CLOCK_REALTIME, &after);
	text = see(7, &n);
	ck_assert_uint_eq(n, 1);
	ck_assert_int_eq(sscanf(text, "{\"time\":%lf,%n", &time, &at), 1);
	ck_assert_double_ge(time, (double)before.tv_sec);
	ck_assert_double_le(time, (double)after.tv_sec + 1);
	ck_assert_str_eq(
		text + at,
		quoted("'event':'program.failed','user':7,'object':'executables/a\\'b\\\\c',"
		       "'plugin':'cpu','bytes':-9223372036854775808,'zero':0,"
		       "'seconds':12.000034000,'id':[1,{'x':null}],'error':{'errno':'EINVAL',"
		       "'code':'INVALID_ARGUMENT','message':"
		       "'bad \\'op\\' of C:\\\\x: \xc3\xa9'}}\n"));
}

/* Too long a value is truncated, and the line is still JSON. */
TEST_TIMES(long_values_are_cut, 2)
{
	static char huge[4 * PF_LINE_MAX];
	struct pf_err err = PF_ERR_INIT;
	struct json_object *o;
	struct pf_event event;
	char *text;
	size_t n;

	for (n = 0; n + 3 < sizeof(huge); n += 2)
		memcpy(huge + n, _i ? "\xc3\xa9" : "\\\x01", 2);
	huge[n] = '\0';
	memset(err.text, '"', sizeof(err.text) - 1);
	err.code = -EIO;
	pf_event_begin(&event, events, "buffer.ready", 7, "%s", huge);
	pf_event_str(&event, "more", huge);
	pf_event_json(&event, "id", huge);
	pf_event_int(&event, "bytes", 1);
	pf_event_error(&event, &err);
	pf_event_send(&event);
	text = see(7, &n);
	ck_assert_uint_eq(n, 1);
	o = next_object(&text);
	ck_assert_str_eq(field(o, "event"), "buffer.ready");
	ck_assert_uint_gt(strlen(field(o, "object")), 1000);
	ck_assert(!json_object_object_get_ex(o, "id", NULL));
	json_object_put(o);
}

TEST(a_user_sees_only_their_own_events)
{
	size_t n;

	say("a", 7, "buffers/seven.npy");
	say("b", 8, "buffers/eight.npy");
	say("c", OWNER, "buffers/owner.npy");
	say("d", 0, "buffers/root.npy");
	ck_assert_ptr_nonnull(strstr(see(7, &n), "seven"));
	ck_assert_uint_eq(n, 1);
	ck_assert_ptr_nonnull(strstr(see(8, &n), "eight"));
	ck_assert_uint_eq(n, 1);
	see(OWNER, &n);
	ck_assert_uint_eq(n, 4);
	see(0, &n);
	ck_assert_uint_eq(n, 4);
	ck_assert_str_eq(see(9, &n), "");
	ck_assert_uint_eq(n, 0);
}

/* A user who fills their log loses no other user's events. */
TEST(each_user_has_a_log)
{
	uint64_t added, dropped;
	size_t n;
	char *text;

	say("first", 7, "buffers/seven.npy");
	for (unsigned i = 0; i < 50000; i++)
		say("noise", 8, "buffers/eight.npy");
	ck_assert_ptr_nonnull(strstr(see(7, &n), "seven"));
	ck_assert_uint_eq(n, 1);
	text = see(OWNER, &n);
	ck_assert_uint_gt(n, 100);
	for (bool first = true; *text; first = false) {
		struct json_object *o = next_object(&text);

		ck_assert_str_eq(field(o, "event"), first ? "events.dropped" : "noise");
		if (first)
			ck_assert_uint_eq((size_t)json_object_get_int64(
						  json_object_object_get(o, "lines")),
					  50001 - (n - 1));
		json_object_put(o);
	}
	pf_events_count(events, &added, &dropped);
	ck_assert_uint_eq(added, 50001);
	ck_assert_uint_eq(dropped, 50001 - (n - 1));
}

/* The number of logs is limited: that of the longest inactive user is dropped. */
TEST(many_users)
{
	size_t n;

	for (uid_t uid = 1; uid <= PF_EVENTS_USERS; uid++)
		say("a", 2000 + uid, "x");
	say("b", 2001, "x");
	say("a", 3000, "x");
	see(2001, &n);
	ck_assert_uint_eq(n, 2);
	see(2002, &n);
	ck_assert_uint_eq(n, 0);
	see(3000, &n);
	ck_assert_uint_eq(n, 1);
	see(OWNER, &n);
	ck_assert_uint_eq(n, PF_EVENTS_USERS + 2);
}

static void add_one(void *arg)
{
	++*(unsigned *)arg;
}

static void *add_many(void *arg)
{
	for (unsigned i = 0; i < 5000; i++)
		say("many", (uid_t)(uintptr_t)arg, "buffers/x.npy");
	return NULL;
}

/* Many readers and writers at once, for ThreadSanitizer. */
TEST(threads_add_and_read)
{
	pthread_t threads[4];
	uint64_t added, dropped;
	size_t n;

	for (uintptr_t i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, add_many,
						(void *)(7 + i % 2)),
				 0);
	for (unsigned i = 0; i < 100; i++)
		see(7, &n);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	pf_events_count(events, &added, &dropped);
	ck_assert_uint_eq(added, 4 * 5000);
}

static void *add_late(void *thread)
{
	*(_Atomic pid_t *)thread = gettid();
	say("late", 7, "x");
	return NULL;
}

/* The log is in the order of its times: an event that waits for the log has the later time. */
TEST(an_event_has_the_time_of_its_line)
{
	_Atomic pid_t waits = 0;
	struct json_object *o;
	struct timespec after;
	pthread_t thread;
	double time;
	char *text;
	size_t n;

	pf_lock(&events->lock);
	ck_assert_int_eq(pthread_create(&thread, NULL, add_late, &waits), 0);
	await_asleep(&waits);
	clock_gettime(CLOCK_REALTIME, &after);
	pf_unlock(&events->lock);
	pthread_join(thread, NULL);
	text = see(7, &n);
	o = next_object(&text);
	time = json_object_get_double(json_object_object_get(o, "time"));
	ck_assert_double_ge(time, (double)after.tv_sec + (double)after.tv_nsec * 1e-9);
	json_object_put(o);
}

TEST(adding_calls_the_listener)
{
	struct pf_lines_reader r = { 0 };
	struct timespec time;
	unsigned told = 0;
	const struct pf_telemetry_names names = { .added = add_one, .arg = &told };
	struct pf_event nowhere;
	char buf[512];
	size_t n;

	pf_telemetry_attach(events, &names);
	ck_assert(!pf_events_ready(events, 7, &r));
	ck_assert_uint_eq(pf_events_size(events, 7, &r, &time), 0);
	say("a", 7, "x");
	ck_assert_uint_eq(told, 1);
	ck_assert(pf_events_ready(events, 7, &r));
	ck_assert(!pf_events_ready(events, 8, &r));
	n = pf_events_read(events, 7, &r, 0, buf, sizeof(buf));
	ck_assert_uint_eq(pf_events_size(events, 7, NULL, &time), n);
	ck_assert_int_ge(time.tv_sec, 1600000000);
	ck_assert(!pf_events_ready(events, 7, &r));
	pf_lines_reader_release(&r);
	pf_event_begin(&nowhere, NULL, "a", 7, "x");
	pf_event_send(&nowhere);
	ck_assert_uint_eq(told, 1);
}

UNIT_FIXTURE(setup, teardown)
