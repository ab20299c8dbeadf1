/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing of run lines and JSON commands. */
#include "files/jobs/jobs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "quoted.h"
#include "unit.h"

static struct exec_spec r;
static struct pf_err err;

static void set_up(void)
{
	r = (struct exec_spec){ .repeat = 0 };
	err = (struct pf_err)PF_ERR_INIT;
}

static void tear_down(void)
{
	exec_spec_release(&r);
}

static void parse_line(const char *line)
{
	exec_spec_release(&r);
	ck_assert_msg(exec_spec_parse_line(line, &r, &err) == 0, "%s", err.text);
}

/* Parse TEXT, with ' for ".  The request holds what it needs of the object. */
static int parse_json(const char *text)
{
	struct json_object *o = json_tokener_parse(quoted(text));
	int code;

	exec_spec_release(&r);
	code = exec_spec_parse(o, true, &r, &err);
	json_object_put(o);
	return code;
}

static void take_json(const char *text)
{
	ck_assert_msg(parse_json(text) == 0, "%s", err.text);
}

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

TEST_EACH(a_run_line_is_parsed, lines)
{
	parse_line(lines[_i].line);
	ck_assert_str_eq(shown(rows_at(&r.inputs, 0)), lines[_i].inputs);
	ck_assert_str_eq(shown(rows_at(&r.outputs, 0)), lines[_i].outputs);
	ck_assert_str_eq(shown(&r.donate), lines[_i].donate);
	exec_spec_release(&r);
	ck_assert_ptr_null(r.inputs.at);
}

#define OPTIONS                                                                           \
	"the options of run are donate=NAME, device=NAME, repeat=N, timeout_ms=N, move, " \
	"positional and async, and INPUT=NAME before the arrow gives an input; quote a "  \
	"name that is like an option"

#define NO_ARROW                                                                         \
	"expected inputs, '->' between blanks, and outputs, as in 'x y -> z', found "

static const char no_arrow[] =
	"expected inputs, '->' and outputs, as in 'x y -> z', found no '->'";

static const struct {
	const char *line, *why;
} bad_lines[] = {
	{ "", no_arrow },
	{ "   ", no_arrow },
	{ "x y", no_arrow },
	{ "x \"->\" y", no_arrow },
	{ "x->y", NO_ARROW "x->y" },
	{ "x => y", NO_ARROW "=>" },
	{ "x=>y", NO_ARROW "x=>y" },
	{ "x \u2192 y", NO_ARROW "\u2192" },
	{ "x \"=>\" y", no_arrow },
	{ "x -> y -> z", "expected one '->', as in 'x y -> z', found two" },
	{ "-> ->", "expected one '->', as in 'x y -> z', found two" },
	{ "\"x -> y", "a name's closing quote is missing" },
	{ "x -> \"", "a name's closing quote is missing" },
	{ "x -> \"y\\\"", "a name's closing quote is missing" },
	{ "x -> \"y\\", "a name's closing quote is missing" },
	{ "x -> y repat=2", "repat=2 (did you mean \"repeat\"?): " OPTIONS },
	{ "x -> y wait=1", "wait=1: " OPTIONS },
	{ "a= -> y", "a=: " OPTIONS },
	{ "=-> x", NO_ARROW "=->" },
	{ "x -> y =z", "=z: " OPTIONS },
	{ "x -> Donate=x y", "Donate=x (did you mean \"donate\"?): " OPTIONS },
	{ "x -> y repeat=0", "repeat=0: expected a number from 1 to 1000000000" },
	{ "x -> y repeat=1000000001",
	  "repeat=1000000001: expected a number from 1 to 1000000000" },
	{ "x -> y repeat=1e12", "repeat=1e12: expected a number from 1 to 1000000000" },
	{ "x -> y repeat=", "repeat=: expected a number from 1 to 1000000000" },
	{ "x -> y timeout_ms=-1",
	  "timeout_ms=-1: expected a number from 1 to 1000000000" },
};

TEST_EACH(a_bad_run_line_is_refused, bad_lines)
{
	ck_assert_int_eq(exec_spec_parse_line(bad_lines[_i].line, &r, &err), -EINVAL);
	ck_assert_str_eq(err.text, bad_lines[_i].why);
}

TEST(a_line_may_have_many_names)
{
	struct pf_buf line = PF_BUF_INIT;

	for (int i = 0; i < 5000; i++)
		pf_buf_printf(&line, "buffer_%d ", i);
	pf_buf_puts(&line, "->");
	for (int i = 0; i < 5000; i++)
		pf_buf_printf(&line, " \"%d\"", i);
	parse_line(line.data);
	ck_assert_uint_eq(r.inputs.at->n, 5000);
	ck_assert_str_eq(r.inputs.at->at[4999], "buffer_4999");
	ck_assert_uint_eq(r.outputs.at->n, 5000);
	ck_assert_str_eq(r.outputs.at->at[4999], "4999");
	pf_buf_release(&line);
}

TEST(a_line_has_options)
{
	parse_line(
		"device=cpu:1 x move -> y async repeat=12 timeout_ms=500 device=cpu:2");
	ck_assert_str_eq(shown(r.inputs.at), "[x]");
	ck_assert_str_eq(shown(r.outputs.at), "[y]");
	ck_assert_str_eq(r.device, "cpu:2");
	ck_assert(r.move && r.async);
	ck_assert_uint_eq(r.repeat, 12);
	ck_assert_uint_eq(r.timeout_ms, 500);
	parse_line("\"async\" -> \"move\"");
	ck_assert(!r.move && !r.async);
	ck_assert_str_eq(shown(r.inputs.at), "[async]");
}

/* --- JSON ---------------------------------------------------------------------------- */

static const struct {
	const char *text, *inputs, *outputs, *donate;
} objects[] = {
	{ "{}", "", "", "" },
	{ "{'op':'execute','executable':7,'id':null}", "", "", "" },
	{ "{'inputs':[],'outputs':[]}", "", "", "" },
	{ "{'inputs':['x','y'],'outputs':['z'],'donate':['x']}", "[x][y]", "[z]", "[x]" },
	{ "{'inputs':['a b','->','donate=x','']}", "[a b][->][donate=x][]", "", "" },
	{ "{'inputs':['\\u00e9']}", "[\xc3\xa9]", "", "" },
	{ "{'inputs':{'p1':'y','p0':'x'}}", "[y][x]", "", "" },
};

TEST_EACH(a_json_request_is_understood, objects)
{
	take_json(objects[_i].text);
	ck_assert_uint_eq(r.inputs.n, 0);
	ck_assert_str_eq(shown(r.inputs.at), objects[_i].inputs);
	ck_assert_str_eq(shown(r.outputs.at), objects[_i].outputs);
	ck_assert_str_eq(shown(&r.donate), objects[_i].donate);
}

TEST(json_may_have_rows_and_options)
{
	take_json(
		"{'inputs':[['x','y'],['v'],[]],'outputs':[[]],'device':'cpu:1','move':true,"
		"'positional':true,'async':false,'repeat':3,'timeout_ms':9,'launch_id':2147483647}");
	ck_assert_uint_eq(r.inputs.n, 3);
	ck_assert_str_eq(shown(rows_at(&r.inputs, 0)), "[x][y]");
	ck_assert_str_eq(shown(rows_at(&r.inputs, 1)), "[v]");
	ck_assert_str_eq(shown(rows_at(&r.inputs, 2)), "");
	ck_assert_uint_eq(r.outputs.n, 1);
	ck_assert_str_eq(r.device, "cpu:1");
	ck_assert(r.move && r.positional && !r.async);
	ck_assert_uint_eq(r.repeat, 3);
	ck_assert_uint_eq(r.timeout_ms, 9);
	ck_assert_uint_eq(r.launch_id, INT32_MAX);
}

TEST(json_may_donate_by_number)
{
	take_json("{'donate':[2,'x',4294967295]}");
	ck_assert_str_eq(shown(&r.donate), "[x]");
	ck_assert_uint_eq(r.n_donate_at, 2);
	ck_assert_uint_eq(r.donate_at[0], 2);
	ck_assert_uint_eq(r.donate_at[1], UINT32_MAX);
	take_json("{'donate':[true,false,true]}");
	ck_assert_uint_eq(r.n_donate_at, 2);
	ck_assert_uint_eq(r.donate_at[1], 2);
	ck_assert(!r.donate_all);

	take_json("{'donate':true}");
	ck_assert(r.donate_all && !r.donate.n && !r.n_donate_at);
}

TEST(json_may_name_parameters)
{
	take_json("{'inputs':{'p1':'y','p0':'x'}}");
	ck_assert_str_eq(shown(&r.params), "[p1][p0]");
}

TEST(words_may_name_inputs)
{
	parse_line("x w=y z -> a");
	ck_assert_str_eq(shown(rows_at(&r.inputs, 0)), "[x][y][z]");
	ck_assert_str_eq(shown(&r.params), "[][w][]");
	parse_line("x donate=y -> a");
	ck_assert_uint_eq(r.params.n, 0);
}

#define KEYS                                                                             \
	": expected one of executable, inputs, outputs, donate, device, move, "          \
	"positional, repeat, launch_id, op, id, async, timeout_ms"

#define DONATED "expected an input's name, its number from 0 on, true or false, found "

static const struct {
	const char *text, *why; /* NULL: any message */
} bad_objects[] = {
	{ "{'input':[]}", "unknown key \"input\" (did you mean \"inputs\"?)" KEYS },
	{ "{'inputs':[],'Outputs':[]}",
	  "unknown key \"Outputs\" (did you mean \"outputs\"?)" KEYS },
	{ "{'':1}", "unknown key \"\"" KEYS },
	{ "{'exec':'add'}", "unknown key \"exec\" (did you mean \"executable\"?)" KEYS },
	{ "{'inputs':'x'}", "\"inputs\": expected a list of names, found string" },
	{ "{'inputs':null}", "\"inputs\": expected a list of names, found null" },
	{ "{'outputs':{}}", "\"outputs\": expected a list of names, found object" },
	{ "{'donate':'x'}",
	  "\"donate\": expected true, or a list of inputs by name or number, found string" },
	{ "{'donate':null}", NULL },
	{ "{'donate':['x',-1]}", "\"donate\", element 1: " DONATED "-1" },
	{ "{'donate':[4294967296]}", "\"donate\", element 0: " DONATED "4294967296" },
	{ "{'donate':[1.5]}", "\"donate\", element 0: " DONATED "1.5" },
	{ "{'inputs':['x',7]}", "\"inputs\", element 1: expected a string, found int" },
	{ "{'outputs':[null]}", "\"outputs\", element 0: expected a string, found null" },
	{ "{'donate':[['x']]}", "\"donate\", element 0: " DONATED "[ \"x\" ]" },
	{ "{'inputs':[['x'],7]}",
	  "\"inputs\", row 1: expected a list of names, found int" },
	{ "{'inputs':[['x'],[7]]}",
	  "\"inputs\", row 1, element 0: expected a string, found int" },
	{ "{'inputs':['x',['y']]}",
	  "\"inputs\", element 1: expected a string, found array" },
	{ "{'inputs':{'p':7}}", "\"inputs\", element 0: expected a string, found int" },
	{ "{'repeat':0}",
	  "\"repeat\": expected a whole number from 1 to 1000000000, found 0" },
	{ "{'repeat':1000000000000}",
	  "\"repeat\": expected a whole number from 1 to 1000000000, found "
	  "1000000000000" },
	{ "{'repeat':1.5}",
	  "\"repeat\": expected a whole number from 1 to 1000000000, found 1.5" },
	{ "{'launch_id':2147483648}",
	  "\"launch_id\": expected a whole number from 0 to 2147483647, found "
	  "2147483648" },
	{ "{'launch_id':-1}",
	  "\"launch_id\": expected a whole number from 0 to 2147483647, found -1" },
	{ "{'move':1}", "\"move\": expected true or false, found int" },
	{ "{'device':1}", "\"device\": expected a string, found int" },
	/* A name truncated at its NUL would be another name. */
	{ "{'inputs':['x\\u0000y']}", NULL },
};

TEST_EACH(a_bad_json_request_is_refused, bad_objects)
{
	ck_assert_int_eq(parse_json(bad_objects[_i].text), -EINVAL);
	if (bad_objects[_i].why)
		ck_assert_str_eq(err.text, bad_objects[_i].why);
}

UNIT_FIXTURE(set_up, tear_down)
