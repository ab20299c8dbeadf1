/* SPDX-License-Identifier: Apache-2.0 */
/* Create options: words with and without types, what can be none, what plugins die of. */
#include "formats_fixture.h"
#include "pjrtfs/plugin_options.h"

/* The option's name and its value, in JSON. */
static const struct {
	const char *text, *want;
} good[] = {
	/* The value determines the type. */
	{ "k=4", "k 4" },
	{ "k=-7", "k -7" },
	{ "k=9223372036854775807", "k 9223372036854775807" },
	{ "k=true", "k true" },
	{ "k=false", "k false" },
	{ "k=0.5", "k 0.5" },
	{ "k=-2.5e-1", "k -0.25" },
	{ "k=1,2", "k [1,2]" },
	{ "k=-1,2,3", "k [-1,2,3]" },
	{ "k=", "k \"\"" },
	{ "k=True", "k \"True\"" },
	{ "k=a=b", "k \"a=b\"" },
	{ "k=a:b", "k \"a:b\"" },
	{ "k=1,", "k \"1,\"" },
	{ "k=1,x", "k \"1,x\"" },
	{ "k=,1", "k \",1\"" },
	{ "k= 4", "k \" 4\"" },
	{ "k=4 ", "k \"4 \"" },
	{ "k=0x10", "k \"0x10\"" },
	{ "k=1.2.3", "k \"1.2.3\"" },
	{ "k=e", "k \"e\"" },
	{ "k=-", "k \"-\"" },
	{ "k=nan", "k \"nan\"" },
	{ "k=99999999999999999999", "k \"99999999999999999999\"" },
	/* Or it is said. */
	{ "k:int64=4", "k 4" },
	{ "k:string=4", "k \"4\"" },
	{ "k:string=", "k \"\"" },
	{ "k:float=4", "k 4.0" },
	{ "k:bool=true", "k true" },
	{ "k:int64_list=4", "k [4]" },
	{ "k:int64_list=", "k []" },
	{ "a:b:string=x", "a:b \"x\"" },
	{ "cpu_device_count=1", "cpu_device_count 1" },
	{ "cpu_device_count:int64=1024", "cpu_device_count 1024" },
};

TEST_EACH(a_good_option_is_accepted, good)
{
	struct pf_err err = PF_ERR_INIT;
	struct json_object *value = NULL;
	pf_autofree char *name = NULL;
	char found[128];

	check_result(pf_create_option_parse(good[_i].text, &name, &value, &err), 0, &err,
		     NULL);
	snprintf(found, sizeof(found), "%s %s", name, pf_json_text(value));
	ck_assert_str_eq(found, good[_i].want);
	json_object_put(value);
}

#define OF_1024 "cpu_device_count: expected an integer from 1 to 1024, found "

static const struct {
	const char *text, *why;
} bad[] = {
	{ "", "expected KEY=VALUE or KEY:TYPE=VALUE, found" },
	{ "k", "expected KEY=VALUE or KEY:TYPE=VALUE, found k" },
	{ "=4", "expected KEY=VALUE or KEY:TYPE=VALUE, found =4" },
	{ ":int64=4", "option : expected a name of 1 to 255 bytes" },
	{ "k:int=4", "the type int64, string, float, bool or int64_list, found int" },
	{ "k:=4", "option k: expected the type" },
	{ "k:int64=x", "option k: expected an integer of 64 bits, found x" },
	{ "k:int64=", "option k: expected an integer of 64 bits, found" },
	{ "k:int64=9223372036854775808", "option k: expected an integer of 64 bits" },
	{ "k:int64=1,2", "option k: expected an integer of 64 bits, found 1,2" },
	{ "k:bool=1", "option k: expected true or false, found 1" },
	{ "k:float=x", "option k: expected a number, found x" },
	{ "k:float=1e39", "option k: expected a number that a float can hold, found" },
	{ "k:float=1e999", "option k: expected a number that a float can hold, found" },
	{ "k:int64_list=1,,2", "option k: expected integers of 64 bits with commas" },
	{ "k:int64_list=1,", "option k: expected integers of 64 bits with commas" },
	{ "k:int64_list=a", "option k: expected integers of 64 bits with commas" },
	/* Values with which plugins abort or never start. */
	{ "cpu_device_count=0", OF_1024 "0" },
	{ "cpu_device_count=1025", OF_1024 "1025" },
	{ "cpu_device_count=1,2", OF_1024 "the string \"1,2\"" },
	{ "cpu_device_count:string=4", OF_1024 "the string \"4\"" },
	{ "cpu_device_count:float=4", OF_1024 "the double 4" },
	{ "cpu_device_count:int64_list=4", OF_1024 "the list [4]" },
	{ "cpu_device_count=99999999999999999999", OF_1024 },
};

TEST_EACH(a_bad_option_is_refused, bad)
{
	struct pf_err err = PF_ERR_INIT;
	struct json_object *value = NULL;
	char *name = NULL;

	check_result(pf_create_option_parse(bad[_i].text, &name, &value, &err), -EINVAL,
		     &err, bad[_i].why);
	ck_assert_ptr_null(name);
	ck_assert_ptr_null(value);
}

static const struct {
	const char *json;
	int want;
} values[] = {
	{ "3.4e38", 0 },
	{ "3.5e38", -EINVAL },
	{ "-9223372036854775808", 0 },
	{ "9223372036854775808", -EINVAL },
	{ "null", -EINVAL },
	{ "{}", -EINVAL },
	{ "[1,'2']", -EINVAL },
	{ "[1.5]", -EINVAL },
	{ "[null]", -EINVAL },
	{ "[9223372036854775808]", -EINVAL },
};

TEST_EACH(values_are_checked, values)
{
	struct json_object *value = json(values[_i].json);
	struct pf_err err = PF_ERR_INIT;

	check_result(pf_create_option_check("k", value, &err), values[_i].want, &err,
		     "option k: expected ");
	json_object_put(value);
}

/* LEN times x; the caller frees it. */
static char *name_of(size_t len)
{
	char *name = calloc(1, len + 1);

	memset(name, 'x', len);
	return name;
}

static int check_option(const char *name, struct json_object *value)
{
	int r = pf_create_option_check(name, value, NULL);

	json_object_put(value);
	return r;
}

/* The longest of all, and one more. */
TEST_TIMES(there_are_limits, 2)
{
	pf_autofree char *name = name_of(PF_CREATE_NAME_MAX + (size_t)_i);
	pf_autofree char *text = name_of(PF_CREATE_TEXT_MAX + (size_t)_i);
	struct json_object *list = json_object_new_array();
	int want = _i ? -EINVAL : 0;

	for (int i = 0; i < PF_CREATE_LIST_MAX + _i; i++)
		json_object_array_add(list, json_object_new_int(i));
	ck_assert_int_eq(check_option(name, json_object_new_int(1)), want);
	ck_assert_int_eq(check_option("k", json_object_new_string(text)), want);
	ck_assert_int_eq(check_option("k", list), want);
}

TEST(a_string_has_no_nul)
{
	ck_assert_int_eq(check_option("k", json_object_new_string_len("a\0b", 3)),
			 -EINVAL);
}

/* --- files of XLA's flags, as text and serialized ------------------------------------------- */

static const struct {
	const char *text, *json;
} flags[] = {
	{ "", "{'env_option_overrides':{}}" },
	{ " # nothing\n\r\n#", "{'env_option_overrides':{}}" },
	{ "xla_a: true", "{'env_option_overrides':{'xla_a':true}}" },
	{ "a:false,b : 0x10;c:-1 # d: 1\ne:WORD",
	  "{'env_option_overrides':{'a':false,'b':16,'c':-1,'e':'WORD'}}" },
	{ "a: 0.5 b: -1e3", "{'env_option_overrides':{'a':0.5,'b':-1000.0}}" },
	{ "a: \"x # y\" b: 'z' c: \"\" d: \"\\n\\\\\"",
	  "{'env_option_overrides':{'a':'x # y','b':'z','c':'','d':'\\n\\\\'}}" },
	{ "\xf8\x01\x03", "{'debug_options':'+AED'}" },
};

TEST_EACH(flags_are_read, flags)
{
	struct json_object *o = NULL;
	struct pf_err err = PF_ERR_INIT;

	check_result(pf_options_debug(flags[_i].text, strlen(flags[_i].text), &o, &err),
		     0, &err, NULL);
	check_json(o, flags[_i].json);
}

TEST(a_flag_has_an_escaped_quote)
{
	struct json_object *o = NULL, *value;

	ck_assert_int_eq(pf_options_debug("a: 'it\\'s'", 10, &o, NULL), 0);
	json_object_object_get_ex(o, "env_option_overrides", &value);
	ck_assert_str_eq(pf_json_text(value), "{\"a\":\"it's\"}");
	json_object_put(o);
}

static const struct {
	const char *text, *says;
} bad_flags[] = {
	{ "a", "line 1: expected a colon behind the name of a flag, found the end" },
	{ "a: 1\n{", "line 2: expected the name of a flag, found {" },
	{ "a 1", "expected a colon behind the name of a flag, found 1" },
	{ "a:\n1", "expected a number, true, false, a word or a string" },
	{ "a: [1]", "a serialized DebugOptions, found [1]" },
	{ "a: 1x", "line 1: expected a number, found 1x" },
	{ "a: \"x", "expected a closing quote, found the end of the line" },
	{ "a: \"x\ny\"", "line 1: expected a closing quote" },
	{ "a: \"\\x41\"", "an escaped quote or backslash, found \\x41" },
	{ "a: 1\n\na: 2", "line 3: flag a is set twice" },
	{ "\xf8", "expected a DebugOptions, as text or serialized" },
};

TEST_EACH(bad_flags_are_refused, bad_flags)
{
	const char *text = bad_flags[_i].text;
	struct json_object *o = NULL;
	struct pf_err err = PF_ERR_INIT;

	check_result(pf_options_debug(text, strlen(text), &o, &err), -EINVAL, &err,
		     bad_flags[_i].says);
	ck_assert_ptr_null(o);
}
