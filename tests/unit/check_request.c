/* What run lines and JSON commands ask for. */
#include "files/files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

/* The names, each in brackets. */
static const char *shown(const struct names *names)
{
	static char text[4][1024];
	static int which;
	char *t = text[which++ % 4];

	*t = '\0';
	for (size_t i = 0; i < names->n; i++)
		snprintf(t + strlen(t), 1024 - strlen(t), "[%s]", names->at[i]);
	return t;
}

static const struct {
	const char *line, *inputs, *outputs, *donate;
} lines[] = {
	{ "->", "", "", "" },
	{ " -> ", "", "", "" },
	{ "x -> y", "[x]", "[y]", "" },
	{ "x y -> z", "[x][y]", "[z]", "" },
	{ "  x\ty   ->\tz  w ", "[x][y]", "[z][w]", "" },
	{ "-> z", "", "[z]", "" },
	{ "x ->", "[x]", "", "" },
	{ "x -> y donate=x", "[x]", "[y]", "[x]" },
	{ "donate=x x -> y", "[x]", "[y]", "[x]" },
	{ "x y donate=x -> z donate=y", "[x][y]", "[z]", "[x][y]" },
	{ "donate= x -> y", "[x]", "[y]", "[]" },
	{ "donate=a=b x -> y", "[x]", "[y]", "[a=b]" },
	{ "ns/x cpu:1/y.npy -> a/b/c", "[ns/x][cpu:1/y.npy]", "[a/b/c]", "" },
	{ "\"a b\" -> \"c d\"", "[a b]", "[c d]", "" },
	{ "\"->\" -> \"->\"", "[->]", "[->]", "" },
	{ "\"a=b\" -> y", "[a=b]", "[y]", "" },
	{ "\"donate=x\" -> y", "[donate=x]", "[y]", "" },
	{ "\"\" -> y", "[]", "[y]", "" },
	{ "a\"b c\"d -> y", "[ab cd]", "[y]", "" },
	{ "\"a\\\"b\" -> \"c\\\\d\"", "[a\"b]", "[c\\d]", "" },
	{ "a\\b -> y", "[a\\b]", "[y]", "" },
	{ "-->  -> <-", "[-->]", "[<-]", "" },
	{ "x->y -> z", "[x->y]", "[z]", "" },
	{ "\xc3\xa9 -> \xf0\x9f\x98\x80", "[\xc3\xa9]", "[\xf0\x9f\x98\x80]", "" },
	{ "x x -> y y", "[x][x]", "[y][y]", "" },
};

START_TEST(a_run_line_is_understood)
{
	struct request r = { .json = false };
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(files_parse_run(lines[_i].line, &r, &err) == 0, "%s", err.text);
	ck_assert_str_eq(shown(&r.inputs), lines[_i].inputs);
	ck_assert_str_eq(shown(&r.outputs), lines[_i].outputs);
	ck_assert_str_eq(shown(&r.donate), lines[_i].donate);
	ck_assert(!r.json);
	request_release(&r);
	ck_assert_uint_eq(r.inputs.n, 0);
	request_release(&r);
}
END_TEST

static const char no_arrow[] =
	"expected inputs, '->' and outputs, as in 'x y -> z', found no '->'";

static const struct {
	const char *line, *why;
} bad_lines[] = {
	{ "", no_arrow },
	{ "   ", no_arrow },
	{ "x y", no_arrow },
	{ "x \"->\" y", no_arrow },
	{ "x->y", no_arrow },
	{ "x -> y -> z", "expected one '->', as in 'x y -> z', found two" },
	{ "-> ->", "expected one '->', as in 'x y -> z', found two" },
	{ "\"x -> y", "a name's closing quote is missing" },
	{ "x -> \"", "a name's closing quote is missing" },
	{ "x -> \"y\\\"", "a name's closing quote is missing" },
	{ "x -> \"y\\", "a name's closing quote is missing" },
	{ "x -> y wait=1",
	  "wait=1: the options of run are donate=NAME; quote a name that has a =" },
	{ "a=b -> y",
	  "a=b: the options of run are donate=NAME; quote a name that has a =" },
	{ "=-> x", "=->: the options of run are donate=NAME; quote a name that has a =" },
	{ "Donate=x -> y",
	  "Donate=x: the options of run are donate=NAME; quote a name that has a =" },
};

START_TEST(a_bad_run_line_is_refused)
{
	struct request r = { .json = false };
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(files_parse_run(bad_lines[_i].line, &r, &err), -EINVAL);
	ck_assert_str_eq(err.text, bad_lines[_i].why);
	request_release(&r);
}
END_TEST

START_TEST(a_line_may_have_many_names)
{
	struct pf_buf line = PF_BUF_INIT;
	struct request r = { .json = false };
	struct pf_err err = PF_ERR_INIT;

	for (int i = 0; i < 5000; i++)
		pf_buf_printf(&line, "buffer_%d ", i);
	pf_buf_puts(&line, "->");
	for (int i = 0; i < 5000; i++)
		pf_buf_printf(&line, " \"%d\"", i);
	ck_assert_int_eq(files_parse_run(line.data, &r, &err), 0);
	ck_assert_uint_eq(r.inputs.n, 5000);
	ck_assert_str_eq(r.inputs.at[4999], "buffer_4999");
	ck_assert_uint_eq(r.outputs.n, 5000);
	ck_assert_str_eq(r.outputs.at[4999], "4999");
	request_release(&r);
	pf_buf_release(&line);
}
END_TEST

/* --- JSON ---------------------------------------------------------------------------- */

static const char *const allowed[] = { "op", "inputs", "outputs", "donate", "id", NULL };

static const struct {
	const char *text, *inputs, *outputs, *donate, *id;
} objects[] = {
	{ "{}", "", "", "", NULL },
	{ "{\"op\":\"execute\"}", "", "", "", NULL },
	{ "{\"inputs\":[],\"outputs\":[]}", "", "", "", NULL },
	{ "{\"inputs\":[\"x\",\"y\"],\"outputs\":[\"z\"],\"donate\":[\"x\"]}", "[x][y]",
	  "[z]", "[x]", NULL },
	{ "{\"inputs\":[\"a b\",\"->\",\"donate=x\",\"\"]}", "[a b][->][donate=x][]", "",
	  "", NULL },
	{ "{\"id\":7}", "", "", "", "7" },
	{ "{\"id\":\"x\",\"inputs\":[\"\\u00e9\"]}", "[\xc3\xa9]", "", "", "\"x\"" },
	{ "{\"id\":{\"a\":[1,null]}}", "", "", "", "{\"a\":[1,null]}" },
	{ "{\"id\":null}", "", "", "", NULL },
};

START_TEST(a_json_request_is_understood)
{
	struct json_object *o = json_tokener_parse(objects[_i].text);
	struct request r = { .json = false };
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(files_parse_request(o, allowed, &r, &err) == 0, "%s", err.text);
	json_object_put(o); /* the request holds what it needs */
	ck_assert(r.json);
	ck_assert_str_eq(shown(&r.inputs), objects[_i].inputs);
	ck_assert_str_eq(shown(&r.outputs), objects[_i].outputs);
	ck_assert_str_eq(shown(&r.donate), objects[_i].donate);
	if (objects[_i].id)
		ck_assert_str_eq(json_object_to_json_string_ext(r.id,
								JSON_C_TO_STRING_PLAIN),
				 objects[_i].id);
	else
		ck_assert_ptr_null(r.id);
	request_release(&r);
	ck_assert_ptr_null(r.id);
}
END_TEST

static const struct {
	const char *text, *why; /* NULL: whatever it says */
} bad_objects[] = {
	{ "{\"input\":[]}", "unknown key \"input\"" },
	{ "{\"inputs\":[],\"Outputs\":[]}", "unknown key \"Outputs\"" },
	{ "{\"\":1}", "unknown key \"\"" },
	{ "{\"inputs\":\"x\"}", "\"inputs\": expected a list of names, found string" },
	{ "{\"inputs\":null}", "\"inputs\": expected a list of names, found null" },
	{ "{\"outputs\":{}}", "\"outputs\": expected a list of names, found object" },
	{ "{\"donate\":true}", "\"donate\": expected a list of names, found boolean" },
	{ "{\"inputs\":[\"x\",7]}",
	  "\"inputs\": expected a list of names, element 1 is int" },
	{ "{\"outputs\":[null]}",
	  "\"outputs\": expected a list of names, element 0 is null" },
	{ "{\"donate\":[[\"x\"]]}",
	  "\"donate\": expected a list of names, element 0 is array" },
	{ "{\"inputs\":[1.5]}",
	  "\"inputs\": expected a list of names, element 0 is double" },
	/* A name that would be cut at its NUL is another name. */
	{ "{\"inputs\":[\"x\\u0000y\"]}", NULL },
};

START_TEST(a_bad_json_request_is_refused)
{
	struct json_object *o = json_tokener_parse(bad_objects[_i].text);
	struct request r = { .json = false };
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(files_parse_request(o, allowed, &r, &err), -EINVAL);
	ck_assert(r.json); /* the refusal is JSON, too */
	if (bad_objects[_i].why)
		ck_assert_str_eq(err.text, bad_objects[_i].why);
	request_release(&r);
	json_object_put(o);
}
END_TEST

/* The reply to a refused request still carries its id, wherever that stands. */
static const char *const with_id[] = {
	"{\"id\":5,\"inputs\":7}",
	"{\"inputs\":7,\"id\":5}",
	"{\"id\":5,\"wrong\":1}",
	"{\"wrong\":1,\"id\":5}",
};

START_TEST(a_refused_request_keeps_its_id)
{
	struct json_object *o = json_tokener_parse(with_id[_i]);
	struct request r = { .json = false };
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(files_parse_request(o, allowed, &r, &err), -EINVAL);
	ck_assert_int_eq(json_object_get_int(r.id), 5);
	request_release(&r);
	json_object_put(o);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("request");
	TCase *tc = tcase_create("core");

	unit_add_cases(tc, a_run_line_is_understood, lines);
	unit_add_cases(tc, a_bad_run_line_is_refused, bad_lines);
	tcase_add_test(tc, a_line_may_have_many_names);
	unit_add_cases(tc, a_json_request_is_understood, objects);
	unit_add_cases(tc, a_bad_json_request_is_refused, bad_objects);
	unit_add_cases(tc, a_refused_request_keeps_its_id, with_id);
	suite_add_tcase(s, tc);
	return unit_run(s);
}
