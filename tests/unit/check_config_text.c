/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration texts: JSON or a sentence with a line and a column. */
#include "daemon/config.c"

#include "unit.h"

static int parse_len(const char *text, size_t len, struct json_object **ret,
		     struct pf_err *err)
{
	const struct taking k = { .file = "f", .text = text, .len = len, .err = err };

	*ret = NULL;
	return parse(&k, ret);
}

static const struct {
	const char *text, *json;
} good[] = {
	{ "", "{}" },
	{ " \n\t\r\n", "{}" },
	{ "{}", "{}" },
	{ "\n {} \n", "{}" },
	{ "{\"a\":{\"b\":[1,-2.5e3,true,false,null,\"\\u00e9\\n\"]}}",
	  "{\"a\":{\"b\":[1,-2.5e3,true,false,null,\"é\\n\"]}}" },
	{ "{\"a\":{\"x\":1},\"b\":{\"x\":1}}", "{\"a\":{\"x\":1},\"b\":{\"x\":1}}" },
};

START_TEST(a_good_text_is_read)
{
	struct pf_err err = PF_ERR_INIT;
	struct json_object *json;
	int r = parse_len(good[_i].text, strlen(good[_i].text), &json, &err);

	ck_assert_msg(r == 0, "%s", err.text);
	ck_assert_str_eq(json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN),
			 good[_i].json);
	json_object_put(json);
}
END_TEST

static const struct {
	const char *text, *why;
} bad[] = {
	{ "x", "f:1:1: expected a JSON object, found \"x\"" },
	{ "[]", "f:1:1: expected a JSON object, found \"[]\"" },
	{ "{", "f:1:2: expected a key in double quotes, found its end" },
	{ "{\n\"a\": 1", "f:2:7: expected ',' or '}', found its end" },
	{ "{} x", "f:1:4: expected nothing behind the JSON object, found \"x\"" },
	{ "{}{}", "f:1:3: expected nothing behind the JSON object, found \"{}\"" },
	{ "{\n  \"a\" 1}", "f:2:7: expected a colon, found \"1}\"" },
	{ "{\n\n  \"a\":,\n}", "f:3:7: expected a value, found \", }\"" },
	{ "{\"a\":1,}", "f:1:8: expected a key in double quotes, found \"}\"" },
	{ "{\"a\":[1,]}", "f:1:9: expected a value, found \"]}\"" },
	{ "{a:1}", "f:1:2: expected a key in double quotes, found \"a:1}\"" },
	{ "{\"a\":'b'}", "f:1:6: expected a value, found \"'b'}\"" },
	{ "{\"a\":nul}", "f:1:6: expected a value, found \"nul}\"" },
	{ "{\"a\":NaN}", "f:1:6: expected a value, found \"NaN}\"" },
	{ "{\"a\":01}", "f:1:7: expected ',' or '}', found \"1}\"" },
	{ "{\"a\":1 // b\n}", "f:1:8: expected ',' or '}', found \"// b }\"" },
	{ "{\"a\":\"b\n\"}", "f:1:8: expected no control character in a string, found" },
	{ "{\"a\":\"\\x\"}", "f:1:7: expected an escape sequence, found \"\\x\"}\"" },
	{ "{\"a\":\"\\u0000\"}", "f:1:7: expected no NUL in a string" },
	{ "{\n\"é\": \"éé\", x", "f:2:12: expected a key in double quotes, found \"x\"" },
	{ "{\"a\":\"\xff\"}", "f:1:7: expected UTF-8 in a string, found" },
	{ "{\"a\":\"\xc3\"}", "f:1:7: expected UTF-8 in a string, found" },
	{ "{\"a\":1,\n \"a\":2}", "f:2:2: the key \"a\" is given twice" },
	{ "{\"a\":1,\n\"b\":2,\n \"\\u0061\":2}", "f:3:2: the key \"a\" is given twice" },
	{ "{\"x\":{\"a\":1,\"b\":[{\"c\":1,\n\"c\":2}]}}",
	  "f:2:1: the key \"c\" is given twice" },
	{ "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\n"
	  "\"c\":1}",
	  "f:2:1: the key \"c\" is given twice" },
};

START_TEST(a_bad_text_is_refused)
{
	struct pf_err err = PF_ERR_INIT;
	struct json_object *json;

	ck_assert_int_eq(parse_len(bad[_i].text, strlen(bad[_i].text), &json, &err),
			 -EINVAL);
	ck_assert_int_eq(err.code, -EINVAL);
	ck_assert_msg(strncmp(err.text, bad[_i].why, strlen(bad[_i].why)) == 0,
		      "'%s' instead of '%s'", err.text, bad[_i].why);
	ck_assert_ptr_null(json);
}
END_TEST

/* NUL bytes, which are no text, and more than may be. */
START_TEST(other_bytes_are_refused)
{
	struct pf_err err = PF_ERR_INIT;
	struct json_object *json;
	char *many = malloc(PF_CONFIG_MAX + 2);

	ck_assert_int_eq(parse_len("{\0}", 3, &json, &err), -EINVAL);
	ck_assert_str_eq(err.text,
			 "f:1:2: expected a key in double quotes, found a zero byte");
	memset(many, ' ', PF_CONFIG_MAX + 1);
	memcpy(many, "{}", 2);
	many[PF_CONFIG_MAX + 1] = '\0';
	ck_assert_int_eq(parse_len(many, PF_CONFIG_MAX + 1, &json, &err), -EINVAL);
	ck_assert_str_eq(err.text, "f: expected at most 1048576 bytes");
	many[PF_CONFIG_MAX] = '\0';
	ck_assert_int_eq(parse_len(many, PF_CONFIG_MAX, &json, &err), 0);
	json_object_put(json);
	free(many);
}
END_TEST

START_TEST(nesting_has_a_limit)
{
	char text[1024] = "{\"a\":";
	struct pf_err err = PF_ERR_INIT;
	struct json_object *json;

	for (int i = 0; i < 63; i++)
		strcat(text, "[");
	for (int i = 0; i < 63; i++)
		strcat(text, "]");
	strcat(text, "}");
	ck_assert_msg(parse_len(text, strlen(text), &json, &err) == 0, "%s", err.text);
	json_object_put(json);
	text[4] = '\0';
	strcat(text, ":");
	for (int i = 0; i < 64; i++)
		strcat(text, "[");
	ck_assert_int_eq(parse_len(text, strlen(text), &json, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "f:1:69: expected at most 64 brackets"));
}
END_TEST

/* Keys with braces, quotes and escapes in their way. */
static const char maze[] = "{\n"
			   " \"a{\": {\"b\": \"}\\\"]\", \"c\": [1, [2, \"]\"], {\"d\":\n"
			   "   4}]},\n"
			   " \"\\u0065\" : [ {} , { \"name\" :\"x\" } ,3] ,\"f\":-1.5e3}";

START_TEST(places_are_found)
{
	const struct place a = { .key = "a{" }, c = { .up = &a, .key = "c" };
	const struct place c1 = { .up = &c, .index = 1 };
	const struct place c11 = { .up = &c1, .index = 1 };
	const struct place c2 = { .up = &c, .index = 2 };
	const struct place d = { .up = &c2, .key = "d" };
	const struct place e = { .key = "e" }, e1 = { .up = &e, .index = 1 };
	const struct place name = { .up = &e1, .key = "name" };
	const struct place e2 = { .up = &e, .index = 2 }, f = { .key = "f" };
	const struct {
		const struct place *at;
		const char *want;
	} places[] = {
		{ NULL, "f:1:1: text" },
		{ &a, "f:2:2: a{: text" },
		{ &c, "f:2:22: a{.c: text" },
		{ &c1, "f:2:31: a{.c[1]: text" },
		{ &c11, "f:2:35: a{.c[1][1]: text" },
		{ &c2, "f:2:41: a{.c[2]: text" },
		{ &d, "f:2:42: a{.c[2].d: text" },
		{ &e, "f:4:2: e: text" },
		{ &e1, "f:4:20: e[1]: text" },
		{ &name, "f:4:22: e[1].name: text" },
		{ &e2, "f:4:37: e[2]: text" },
		{ &f, "f:4:41: f: text" },
	};
	struct pf_err err = PF_ERR_INIT;
	const struct taking k = {
		.file = "f", .text = maze, .len = strlen(maze), .err = &err
	};
	struct json_object *json;

	ck_assert_msg(parse(&k, &json) == 0, "%s", err.text);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		ck_assert_int_eq(fail_at(&k, places[i].at, -ENOENT, "text"), -ENOENT);
		ck_assert_int_eq(err.code, -ENOENT);
		ck_assert_str_eq(err.text, places[i].want);
	}
	ck_assert_int_eq(refuse(&k, &f, "a word", json), -EINVAL);
	ck_assert_ptr_nonnull(
		strstr(err.text, "f:4:41: f: expected a word, found {\"a{"));
	ck_assert_int_eq(refuse(&k, &f, "a word", NULL), -EINVAL);
	ck_assert_str_eq(err.text, "f:4:41: f: expected a word, found null");
	json_object_put(json);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("config_text");
	TCase *tc = tcase_create("core");

	unit_add_cases(tc, a_good_text_is_read, good);
	unit_add_cases(tc, a_bad_text_is_refused, bad);
	tcase_add_test(tc, other_bytes_are_refused);
	tcase_add_test(tc, nesting_has_a_limit);
	tcase_add_test(tc, places_are_found);
	suite_add_tcase(s, tc);
	return unit_run(s);
}
