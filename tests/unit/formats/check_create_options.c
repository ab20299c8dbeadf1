/* SPDX-License-Identifier: Apache-2.0 */
/* Create options: words with and without types, what can be none, what plugins die of. */
#include "pjrtfs/plugin_options.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

static const struct {
	const char *text, *name, *json;
} good[] = {
	/* The value determines the type. */
	{ "k=4", "k", "4" },
	{ "k=-7", "k", "-7" },
	{ "k=9223372036854775807", "k", "9223372036854775807" },
	{ "k=true", "k", "true" },
	{ "k=false", "k", "false" },
	{ "k=0.5", "k", "0.5" },
	{ "k=1e3", "k", "1000.0" },
	{ "k=-2.5e-1", "k", "-0.25" },
	{ "k=1,2", "k", "[1,2]" },
	{ "k=-1,2,3", "k", "[-1,2,3]" },
	{ "k=", "k", "\"\"" },
	{ "k=text", "k", "\"text\"" },
	{ "k=True", "k", "\"True\"" },
	{ "k=a=b", "k", "\"a=b\"" },
	{ "k=a:b", "k", "\"a:b\"" },
	{ "k=1,", "k", "\"1,\"" },
	{ "k=1,x", "k", "\"1,x\"" },
	{ "k=,1", "k", "\",1\"" },
	{ "k= 4", "k", "\" 4\"" },
	{ "k=4 ", "k", "\"4 \"" },
	{ "k=0x10", "k", "\"0x10\"" },
	{ "k=1.2.3", "k", "\"1.2.3\"" },
	{ "k=2026-01-02", "k", "\"2026-01-02\"" },
	{ "k=e", "k", "\"e\"" },
	{ "k=-", "k", "\"-\"" },
	{ "k=nan", "k", "\"nan\"" },
	{ "k=inf", "k", "\"inf\"" },
	{ "k=99999999999999999999", "k", "\"99999999999999999999\"" },
	/* Or it is said. */
	{ "k:int64=4", "k", "4" },
	{ "k:string=4", "k", "\"4\"" },
	{ "k:string=true", "k", "\"true\"" },
	{ "k:string=", "k", "\"\"" },
	{ "k:float=4", "k", "4.0" },
	{ "k:float=.5", "k", "0.5" },
	{ "k:bool=true", "k", "true" },
	{ "k:int64_list=4", "k", "[4]" },
	{ "k:int64_list=", "k", "[]" },
	{ "k:int64_list=1,2,3", "k", "[1,2,3]" },
	{ "a:b:string=x", "a:b", "\"x\"" },
	{ "cpu_device_count=1", "cpu_device_count", "1" },
	{ "cpu_device_count=1024", "cpu_device_count", "1024" },
	{ "cpu_device_count:int64=4", "cpu_device_count", "4" },
};

TEST_EACH(a_good_option_is_accepted, good)
{
	struct pf_err err = PF_ERR_INIT;
	struct json_object *value = NULL;
	char *name = NULL;

	ck_assert_msg(pf_create_option_parse(good[_i].text, &name, &value, &err) == 0,
		      "%s", err.text);
	ck_assert_str_eq(name, good[_i].name);
	ck_assert_str_eq(json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN),
			 good[_i].json);
	free(name);
	json_object_put(value);
}

static const struct {
	const char *text, *why;
} bad[] = {
	{ "", "expected KEY=VALUE or KEY:TYPE=VALUE, found" },
	{ "k", "expected KEY=VALUE or KEY:TYPE=VALUE, found k" },
	{ "=4", "expected KEY=VALUE or KEY:TYPE=VALUE, found =4" },
	{ ":int64=4", "option : expected a name of 1 to 255 bytes" },
	{ "k:int=4",
	  "option k: expected the type int64, string, float, bool or int64_list, found int" },
	{ "k:=4", "option k: expected the type" },
	{ "k:int64=x", "option k: expected an integer of 64 bits, found x" },
	{ "k:int64=", "option k: expected an integer of 64 bits, found" },
	{ "k:int64=4.0", "option k: expected an integer of 64 bits, found 4.0" },
	{ "k:int64=9223372036854775808", "option k: expected an integer of 64 bits" },
	{ "k:int64=1,2", "option k: expected an integer of 64 bits, found 1,2" },
	{ "k:bool=1", "option k: expected true or false, found 1" },
	{ "k:float=x", "option k: expected a number, found x" },
	{ "k:float=1e39", "option k: expected a number that a float can hold, found" },
	{ "k:float=1e999", "option k: expected a number that a float can hold, found" },
	{ "k=1e39", "option k: expected a number that a float can hold, found" },
	{ "k:int64_list=1,,2", "option k: expected integers of 64 bits with commas" },
	{ "k:int64_list=1,", "option k: expected integers of 64 bits with commas" },
	{ "k:int64_list=a", "option k: expected integers of 64 bits with commas" },
	/* Values with which plugins abort or never start. */
	{ "cpu_device_count=0",
	  "option cpu_device_count: expected an integer from 1 to 1024, found 0" },
	{ "cpu_device_count=-1", "expected an integer from 1 to 1024, found -1" },
	{ "cpu_device_count=1025", "expected an integer from 1 to 1024, found 1025" },
	{ "cpu_device_count=four",
	  "expected an integer from 1 to 1024, found the string \"four\"" },
	{ "cpu_device_count=1,2",
	  "expected an integer from 1 to 1024, found the string \"1,2\"" },
	{ "cpu_device_count=true", "expected an integer from 1 to 1024, found" },
	{ "cpu_device_count:string=4",
	  "expected an integer from 1 to 1024, found the string \"4\"" },
	{ "cpu_device_count:float=4", "found the double 4" },
	{ "cpu_device_count:int64_list=4", "found the list [4]" },
	{ "cpu_device_count=99999999999999999999", "expected an integer from 1 to 1024" },
};

TEST_EACH(a_bad_option_is_refused, bad)
{
	struct pf_err err = PF_ERR_INIT;
	struct json_object *value = NULL;
	char *name = NULL;

	ck_assert_int_eq(pf_create_option_parse(bad[_i].text, &name, &value, &err),
			 -EINVAL);
	ck_assert_int_eq(err.code, -EINVAL);
	ck_assert_msg(strstr(err.text, bad[_i].why) != NULL, "'%s' instead of '%s'",
		      err.text, bad[_i].why);
	ck_assert_ptr_null(name);
	ck_assert_ptr_null(value);
}

static const struct {
	const char *json;
	bool good;
} values[] = {
	{ "\"x\"", true },
	{ "1", true },
	{ "true", true },
	{ "0.5", true },
	{ "3.4e38", true },
	{ "[]", true },
	{ "[1,-2]", true },
	{ "null", false },
	{ "{}", false },
	{ "[1,\"2\"]", false },
	{ "[1.5]", false },
	{ "[[1]]", false },
	{ "[null]", false },
	{ "3.5e38", false },
	{ "9223372036854775808", false },
	{ "99999999999999999999999", false },
	{ "-9223372036854775808", true },
	{ "[9223372036854775808]", false },
};

TEST_EACH(values_are_checked, values)
{
	struct json_object *value = json_tokener_parse(values[_i].json);
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(pf_create_option_check("k", value, &err),
			 values[_i].good ? 0 : -EINVAL);
	if (!values[_i].good)
		ck_assert_int_eq(strncmp(err.text, "option k: expected ", 19), 0);
	json_object_put(value);
}

TEST(there_are_limits)
{
	char name[PF_CREATE_NAME_MAX + 2], *text = malloc(PF_CREATE_TEXT_MAX + 2);
	struct json_object *value, *list = json_object_new_array();

	memset(name, 'n', sizeof(name));
	name[PF_CREATE_NAME_MAX] = '\0';
	value = json_object_new_int(1);
	ck_assert_int_eq(pf_create_option_check(name, value, NULL), 0);
	name[PF_CREATE_NAME_MAX] = 'n';
	name[PF_CREATE_NAME_MAX + 1] = '\0';
	ck_assert_int_eq(pf_create_option_check(name, value, NULL), -EINVAL);
	ck_assert_int_eq(pf_create_option_check("", value, NULL), -EINVAL);
	json_object_put(value);
	memset(text, 't', PF_CREATE_TEXT_MAX + 1);
	value = json_object_new_string_len(text, PF_CREATE_TEXT_MAX);
	ck_assert_int_eq(pf_create_option_check("k", value, NULL), 0);
	json_object_put(value);
	value = json_object_new_string_len(text, PF_CREATE_TEXT_MAX + 1);
	ck_assert_int_eq(pf_create_option_check("k", value, NULL), -EINVAL);
	json_object_put(value);
	value = json_object_new_string_len("a\0b", 3);
	ck_assert_int_eq(pf_create_option_check("k", value, NULL), -EINVAL);
	json_object_put(value);
	for (int i = 0; i <= PF_CREATE_LIST_MAX; i++)
		json_object_array_add(list, json_object_new_int(i));
	ck_assert_int_eq(pf_create_option_check("k", list, NULL), -EINVAL);
	json_object_array_del_idx(list, 0, 1);
	ck_assert_int_eq(pf_create_option_check("k", list, NULL), 0);
	json_object_put(list);
	free(text);
}
