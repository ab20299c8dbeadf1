/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: the texts that are read, and those that are printed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pjrtfs/json.h"
#include "unit.h"

static struct json_object *object;

static void setup(void)
{
	object = json_object_new_object();
}

static void teardown(void)
{
	json_object_put(object);
}

static const struct {
	double seconds;
	const char *text;
} durations[] = {
	{ 0, "0.000000000" },
	{ 1e-9, "0.000000001" },
	{ 4.9e-10, "0.000000000" },
	{ 5.1e-10, "0.000000001" },
	{ 0.999999999, "0.999999999" },
	{ 0.9999999996, "1.000000000" },
	{ 12345.6789, "12345.678900000" },
	{ 1e6 + 0.1, "1000000.100000000" },
	{ 999999999, "999999999.000000000" },
	{ 1e300, "1000000000.000000000" },
	{ -0.001, "0.000000000" },
};

TEST_EACH(seconds_have_nine_decimals, durations)
{
	char want[64];

	pf_json_add_seconds(object, "s", durations[_i].seconds);
	snprintf(want, sizeof(want), "{\"s\":%s}", durations[_i].text);
	ck_assert_str_eq(pf_json_text(object), want);
}

TEST(times_keep_their_nanoseconds)
{
	static const struct timespec time = { 1782044000, 7 };

	pf_json_add_time(object, "t", &time);
	ck_assert_str_eq(pf_json_text(object), "{\"t\":1782044000.000000007}");
}

static const struct {
	const char *text, *wide; /* NULL: it is fine */
} objects[] = {
	{ "{}", NULL },
	{ "{\"a\":18446744073709551615}", NULL },
	{ "{\"a\":18446744073709551616}",
	  "byte 6: expected an integer of at most 64 bits, found \"18446" },
	{ "{\"a\":-9223372036854775808}", NULL },
	{ "{\"a\":-9223372036854775809}", "64 bits, found \"-9223" },
	{ "{\"a\":[1,{\"b\":99999999999999999999}]}", "64 bits, found \"99999" },
	{ "{\"a\":1111111111222222222233333333334444444444}", "64 bits, found \"11111" },
	{ "{\"a\":99999999999999999999.5}", NULL },
	{ "{\"a\":99999999999999999999e2}", NULL },
	{ "{\"a\":0.12345678901234567890123}", NULL },
	{ "{\"a\":\"99999999999999999999\"}", NULL },
	{ "{\"a\":\"\\\"99999999999999999999\"}", NULL },
	{ "{\"99999999999999999999\":1}", NULL },
	{ " \t{\"a\":1}\r\n", NULL },
	{ "[1]", "byte 1: expected a JSON object, found \"[1]\"" },
	{ "3", "byte 1: expected a JSON object, found \"3\"" },
	{ "", "byte 1: expected a JSON object, found its end" },
	{ "{\"a\":", "byte 6: expected a value, found its end" },
	{ "{\"a\" 1}", "byte 6: expected a colon, found \"1}\"" },
	/* Texts that json-c's own parser accepts. */
	{ "{} x", "nothing behind the JSON object, found \"x\"" },
	{ "{}{}", "nothing behind the JSON object, found \"{}\"" },
	{ "{\"a\":1,\"a\":1}", "byte 8: the key \"a\" is given twice" },
	{ "{\"a\":[{\"b\":1,\"\\u0062\":1}]}", "twice" },
	{ "{'a':1}", "byte 2: expected a key in double quotes" },
	{ "{\"a\":NaN}", "byte 6: expected a value, found \"NaN}\"" },
	{ "{\"a\":\"\xff\"}", "byte 7: expected UTF-8 in a string" },
	{ "{\"a\":\"b\nc\"}", "no control character in a string" },
	{ "{\"a\":\"\\ud83d\"}", "a pair of surrogates" },
	{ "{\"a\":01}", "expected ',' or '}', found \"1}\"" },
	{ "{\"a\":1,}", "byte 8: expected a key in double quotes" },
	{ "{\"a\":+1}", "byte 6: expected a value" },
	{ "{a:1}", "byte 2: expected a key in double quotes" },
	{ "{\"a\":\"\\x\"}", "an escape" },
	{ "{\"a\":\"\\u0000\"}", "no NUL in a string" },
	{ "{\"a\":-}", "byte 6: expected a number, found \"-}\"" },
	{ "{\"a\":1.}", "a number" },
	{ "{\"a\":1e+}", "a number" },
	{ "{\"a\":tru}", "byte 6: expected a value, found \"tru}\"" },
};

TEST_EACH(values_that_json_cannot_hold_are_refused, objects)
{
	struct pf_err err = PF_ERR_INIT;
	struct json_object *o;
	int r = pf_json_parse(objects[_i].text, strlen(objects[_i].text), &o, &err);

	if (!objects[_i].wide) {
		ck_assert_int_eq(r, 0);
		json_object_put(o);
		return;
	}
	ck_assert_int_eq(r, -EINVAL);
	ck_assert_ptr_null(o);
	ck_assert_msg(strstr(err.text, objects[_i].wide) != NULL, "%s", err.text);
}

TEST(values_follow_each_other)
{
	static const char text[] = " {\"a\":[1,null]} , null\"b\"x";
	struct pf_json_reader rd = { text, text, text + strlen(text), 1, NULL };
	struct json_object *o;

	ck_assert_int_eq(pf_json_value(&rd, &o), 0);
	ck_assert_str_eq(pf_json_text(o), "{\"a\":[1,null]}");
	json_object_put(o);
	ck_assert_int_eq(pf_json_expect(&rd, ',', "a comma"), 0);
	ck_assert_int_eq(pf_json_value(&rd, &o), 0);
	ck_assert_ptr_null(o);
	ck_assert_int_eq(pf_json_value(&rd, &o), 0);
	ck_assert_str_eq(json_object_get_string(o), "b");
	json_object_put(o);
	ck_assert_int_eq(pf_json_value(&rd, &o), -EINVAL);
	ck_assert_ptr_null(o);
	ck_assert_str_eq(rd.p, "x");
}

TEST(copies_share_nothing)
{
	struct json_object *copy, *sorted;

	pf_json_add_string(object, "b", "a/\"\xc3\xa9");
	pf_json_add_int(object, "a", -7);
	json_object_object_add(object, "", NULL);
	copy = pf_json_copy(object);
	sorted = pf_json_sorted(object);
	json_object_object_del(object, "a");
	ck_assert_str_eq(pf_json_text(object), "{\"b\":\"a/\\\"\xc3\xa9\",\"\":null}");
	ck_assert_str_eq(pf_json_text(copy),
			 "{\"b\":\"a/\\\"\xc3\xa9\",\"a\":-7,\"\":null}");
	ck_assert_str_eq(pf_json_text(sorted),
			 "{\"\":null,\"a\":-7,\"b\":\"a/\\\"\xc3\xa9\"}");
	json_object_put(copy);
	json_object_put(sorted);
}

TEST(what_lacks_a_part_has_no_text)
{
	struct json_object *list = json_object_new_array();
	struct pf_buf out = PF_BUF_INIT;

	pf_json_append_null(list);
	pf_json_add_copy(object, "null", NULL);
	ck_assert_str_eq(pf_json_text(list), "[null]");
	ck_assert_str_eq(pf_json_text(object), "{\"null\":null}");
	pf_json_append(list, NULL); /* there was no memory for it */
	ck_assert(!pf_json_complete(list) && !pf_json_text(list));
	ck_assert(!pf_json_copy(list));
	pf_json_add(object, "list", list);
	ck_assert(!pf_json_complete(object) && !pf_json_text_copy(object));
	pf_json_print_line(object, &out);
	ck_assert(out.failed);
	pf_json_add(NULL, "x", json_object_new_int64(1)); /* frees it */
	pf_json_append(NULL, NULL);
	ck_assert(!pf_json_complete(NULL));
	pf_buf_release(&out);
}

static const struct {
	const char *text, *kept;
} payloads[] = {
	{ "{\"a\": \"b\"}", "{\"a\":\"b\"}" },
	{ "{}", "{}" },
	{ "{\"a\":1}", "" },
	{ "{\"a\":{}}", "" },
	{ "{\"a\":\"b\"", "" },
	{ "{\"a\":\"\xff\"}", "" },
	{ "[\"a\"]", "" },
	{ "", "" },
};

TEST_EACH(payloads_are_an_object_of_strings, payloads)
{
	const char *text = payloads[_i].text;
	struct pf_err err = PF_ERR_INIT;

	pf_err_set(&err, -EIO, "it failed");
	pf_json_read_payloads(&err, text, strlen(text));
	ck_assert_str_eq(err.payloads, payloads[_i].kept);
	pf_err_wrap(&err, -EIO, "run it");
	ck_assert_str_eq(err.payloads, payloads[_i].kept);
	pf_err_set(&err, -EIO, "another");
	ck_assert_str_eq(err.payloads, "");
}

/* As long as fits, and a byte longer. */
TEST(payloads_that_fit_are_kept)
{
	char text[PF_ERR_PAYLOADS + 2], line[2048];
	struct pf_json_out out = { line, line + sizeof(line), false };
	struct pf_err err = PF_ERR_INIT;

	for (size_t len = PF_ERR_PAYLOADS - 1; len <= PF_ERR_PAYLOADS; len++) {
		snprintf(text, sizeof(text), "{\"a\":\"%0*d\"}", (int)len - 8, 1);
		ck_assert_uint_eq(strlen(text), len);
		pf_err_set(&err, -EIO, "it failed");
		pf_json_read_payloads(&err, text, len);
		ck_assert_uint_eq(strlen(err.payloads), len < PF_ERR_PAYLOADS ? len : 0);
	}
	pf_json_read_payloads(&err, "{\"a\":\"b\"}", 9);
	pf_json_put_error(&out, &err);
	*out.at = '\0';
	ck_assert_str_eq(line, "{\"errno\":\"EIO\",\"code\":\"INTERNAL\",\"payloads\":"
			       "{\"a\":\"b\"},\"message\":\"it failed\"}");
}

TEST(an_object_in_two_pieces_ends_where_it_ends)
{
	static const char text[] =
		"{\"a}\\\"\": [-1, {\"b\": null}], \"c\": \"]\"}{\"d\"";
	const size_t end = (size_t)(strrchr(text, '{') - text);
	size_t first, second = 0;

	for (size_t cut = 1; cut < sizeof(text); cut++) {
		struct pf_json_scan s = { 0 };

		ck_assert(pf_json_scan(&s, text, cut, &first));
		ck_assert_uint_eq(first, cut < end ? cut : end);
		ck_assert_int_eq(s.depth == 0, first == end);
		if (first == end)
			continue;
		ck_assert(pf_json_scan(&s, text + cut, sizeof(text) - 1 - cut, &second));
		ck_assert_uint_eq(cut + second, end);
		ck_assert_uint_eq(s.depth, 0);
	}
}

static const struct {
	const char *text;
	size_t at;
} no_objects[] = {
	{ "x", 0 },        { "[1]", 0 },        { "{1", 1 },
	{ "{\"a\" 1", 5 }, { "{\"a\":1]", 6 },  { "{\"a\nb\"", 3 },
	{ "{,", 1 },       { "{\"a\":1:,", 7 }, { "{\"a\":(", 5 },
};

TEST_EACH(what_becomes_no_object_is_seen_at_once, no_objects)
{
	struct pf_json_scan s = { 0 };
	size_t n;

	ck_assert(
		!pf_json_scan(&s, no_objects[_i].text, strlen(no_objects[_i].text), &n));
	ck_assert_uint_eq(n, no_objects[_i].at);
}

UNIT_FIXTURE(setup, teardown)
