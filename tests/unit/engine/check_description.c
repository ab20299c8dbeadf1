/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's description is read as if an enemy had written it. */
#include "engine/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pjrtfs/base.h"
#include "unit.h"

static const char good[] =
	"{\"ok\":true,\"api_version\":[0,112],\"platform\":\"cpu\",\"platform_version\":\"1\","
	"\"attributes\":{\"xla_version\":2},\"extensions\":[{\"type\":3}],\"devices\":["
	"{\"id\":5,\"local_hardware_id\":1,\"process_index\":2,\"addressable\":true,"
	"\"kind\":\"k\",\"description\":\"d\",\"attributes\":{\"a\":1},\"default_memory\":1,"
	"\"memories\":[{\"id\":7,\"kind\":\"pinned_host\",\"description\":\"m0\"},"
	"{\"id\":8,\"kind\":\"device\",\"description\":\"m1\"}]},{\"id\":6}]}";

TEST(a_description_is_understood)
{
	struct pf_description d;
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(pf_description_parse(good, strlen(good), &d, &err) == 0, "%s",
		      err.text);
	ck_assert_int_eq(d.api_major, 0);
	ck_assert_int_eq(d.api_minor, 112);
	ck_assert_str_eq(d.platform, "cpu");
	ck_assert_str_eq(d.platform_version, "1");
	ck_assert_ptr_nonnull(d.attributes);
	ck_assert_ptr_nonnull(d.extensions);
	ck_assert_uint_eq(d.n_devices, 2);
	ck_assert_int_eq(d.devices[0].id, 5);
	ck_assert_int_eq(d.devices[0].local_hardware_id, 1);
	ck_assert_int_eq(d.devices[0].process_index, 2);
	ck_assert(d.devices[0].addressable);
	ck_assert_str_eq(d.devices[0].kind, "k");
	ck_assert_str_eq(d.devices[0].description, "d");
	ck_assert_ptr_nonnull(d.devices[0].attributes);
	ck_assert_uint_eq(d.devices[0].default_memory, 1);
	ck_assert_uint_eq(d.devices[0].n_memories, 2);
	ck_assert_int_eq(d.devices[0].memories[1].id, 8);
	ck_assert_str_eq(d.devices[0].memories[0].kind, "pinned_host");
	ck_assert_str_eq(d.devices[0].memories[1].description, "m1");
	/* Members that are missing. */
	ck_assert_int_eq(d.devices[1].local_hardware_id, -1);
	ck_assert(!d.devices[1].addressable);
	ck_assert_str_eq(d.devices[1].kind, "");
	ck_assert_ptr_null(d.devices[1].attributes);
	ck_assert_uint_eq(d.devices[1].n_memories, 0);
	pf_description_release(&d);
	ck_assert_ptr_null(d.json);
	pf_description_release(&d);
}

/* Every truncation is refused, and no byte is read beyond its end. */
TEST(a_truncated_description_is_refused)
{
	for (size_t len = 0; len < strlen(good); len++) {
		struct pf_description d = { 0 };
		struct pf_err err = PF_ERR_INIT;
		char *cut = malloc(len ? len : 1);

		memcpy(cut, good, len);
		ck_assert_int_eq(pf_description_parse(cut, len, &d, &err), -EPROTO);
		ck_assert_str_eq(err.text, "the worker's answer is not a JSON object");
		free(cut);
	}
}

#define NO_OBJECT "the worker's answer is not a JSON object"
#define NO_PARTS "the worker's description lacks a version or devices"
#define NO_WHY "the worker failed to start and did not say why"
#define V "\"api_version\":[0,1]"
#define FAILED(members) "{\"ok\":false" members "}"
#define DEVICES(list) "{\"ok\":true," V ",\"devices\":" list "}"

static const struct {
	const char *text;
	int code;
	const char *why;
} refused[] = {
	{ "", -EPROTO, NO_OBJECT },
	{ " ", -EPROTO, NO_OBJECT },
	{ "null", -EPROTO, NO_OBJECT },
	{ "[]", -EPROTO, NO_OBJECT },
	{ "\"{}\"", -EPROTO, NO_OBJECT },
	{ "{ok:true}", -EPROTO, NO_OBJECT },
	{ "\xff\xfe{}", -EPROTO, NO_OBJECT },
	/* It failed, and says so. */
	{ "{}", -EIO, NO_WHY },
	{ FAILED(""), -EIO, NO_WHY },
	{ "{\"ok\":null}", -EIO, NO_WHY },
	{ FAILED(",\"error\":\"\""), -EIO, NO_WHY },
	{ FAILED(",\"error\":7"), -EIO, NO_WHY },
	{ FAILED(",\"error\":\"why\",\"errno\":-8"), -ENOEXEC, "why" },
	{ FAILED(",\"error\":\"why\",\"errno\":8"), -EIO, "why" },
	{ FAILED(",\"error\":\"why\",\"errno\":0"), -EIO, "why" },
	{ FAILED(",\"error\":\"why\",\"errno\":-4096"), -EIO, "why" },
	{ FAILED(",\"error\":\"why\",\"errno\":-9223372036854775808"), -EIO, "why" },
	{ FAILED(",\"error\":\"why\",\"errno\":\"-8\""), -EIO, "why" },
	{ FAILED(",\"error\":\"two\\nlines\\u0001\""), -EIO, "two lines" },
	{ "{\"ok\":0,\"error\":\"%s%n\"}", -EIO, "%s%n" },
	/* Parts that are missing or of another type. */
	{ "{\"ok\":true}", -EPROTO, NO_PARTS },
	{ "{\"ok\":true,\"devices\":[]}", -EPROTO, NO_PARTS },
	{ "{\"ok\":true," V "}", -EPROTO, NO_PARTS },
	{ DEVICES("{}"), -EPROTO, NO_PARTS },
	{ DEVICES("null"), -EPROTO, NO_PARTS },
	{ "{\"ok\":true,\"api_version\":[0],\"devices\":[]}", -EPROTO, NO_PARTS },
	{ "{\"ok\":true,\"api_version\":[0,1,2],\"devices\":[]}", -EPROTO, NO_PARTS },
	{ "{\"ok\":true,\"api_version\":\"0.1\",\"devices\":[]}", -EPROTO, NO_PARTS },
	{ DEVICES("[{\"memories\":[{}],\"default_memory\":1}]"), -EPROTO,
	  "the worker described a device with 1 memories, default 1" },
	{ DEVICES("[{\"memories\":[{}],\"default_memory\":-1}]"), -EPROTO,
	  "the worker described a device with 1 memories, default 4294967295" },
	{ DEVICES("[{},{\"memories\":[{},{}],\"default_memory\":9}]"), -EPROTO,
	  "the worker described a device with 2 memories, default 9" },
};

TEST_EACH(nonsense_is_refused, refused)
{
	struct pf_description d = { 0 };
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(pf_description_parse(refused[_i].text, strlen(refused[_i].text),
					      &d, &err),
			 refused[_i].code);
	ck_assert_int_eq(err.code, refused[_i].code);
	ck_assert_str_eq(err.text, refused[_i].why);
}

/* Odd, but harmless: values of a wrong kind count as missing. */
static const char *const odd[] = {
	DEVICES("[]"),
	DEVICES("[null]"),
	DEVICES("[7,\"x\",[],{}]"),
	DEVICES("[{\"memories\":null}]"),
	DEVICES("[{\"memories\":\"none\",\"id\":\"five\"}]"),
	DEVICES("[{\"memories\":[null,7],\"default_memory\":1}]"),
	DEVICES("[{\"kind\":{},\"description\":[],\"attributes\":1}]"),
	"{\"ok\":true,\"api_version\":[\"x\",null],\"devices\":[],\"platform\":3}",
	("{\"ok\":true,\"api_version\":[-1,1e99],\"devices\":[],\"attributes\":[],"
	 "\"extensions\":{}}"),
};

TEST_EACH(odd_values_count_as_missing, odd)
{
	struct pf_description d = { 0 };
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(pf_description_parse(odd[_i], strlen(odd[_i]), &d, &err) == 0, "%s",
		      err.text);
	ck_assert_ptr_nonnull(d.platform);
	for (unsigned i = 0; i < d.n_devices; i++) {
		const struct pf_device_desc *v = &d.devices[i];

		ck_assert_ptr_nonnull(v->kind);
		ck_assert_ptr_nonnull(v->description);
		for (unsigned j = 0; j < v->n_memories; j++)
			ck_assert_ptr_nonnull(v->memories[j].kind);
	}
	pf_description_release(&d);
}

/* "[X,X,...]" N times. */
static void repeat(struct pf_buf *text, const char *what, unsigned n)
{
	pf_buf_puts(text, "[");
	for (unsigned i = 0; i < n; i++)
		pf_buf_printf(text, "%s%s", i ? "," : "", what);
	pf_buf_puts(text, "]");
}

static const struct {
	unsigned devices, memories;
	int want;
} amounts[] = {
	{ 4096, 0, 0 },
	{ 4097, 0, -EPROTO },
	{ 1, 64, 0 },
	{ 1, 65, -EPROTO },
};

TEST_EACH(there_are_limits, amounts)
{
	pf_autobuf struct pf_buf memories = PF_BUF_INIT, device = PF_BUF_INIT,
				 text = PF_BUF_INIT;
	struct pf_description d = { 0 };
	struct pf_err err = PF_ERR_INIT;

	repeat(&memories, "{}", amounts[_i].memories);
	pf_buf_printf(&device, "{\"memories\":%s}", memories.data);
	pf_buf_puts(&text, "{\"ok\":true," V ",\"devices\":");
	repeat(&text, device.data, amounts[_i].devices);
	pf_buf_puts(&text, "}");
	ck_assert_int_eq(pf_description_parse(text.data, text.len, &d, &err),
			 amounts[_i].want);
	if (amounts[_i].want == 0) {
		ck_assert_uint_eq(d.n_devices, amounts[_i].devices);
		ck_assert_uint_eq(d.devices[0].n_memories, amounts[_i].memories);
	}
	pf_description_release(&d);
}

TEST(a_deep_nest_is_refused)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_description d = { 0 };
	struct pf_err err = PF_ERR_INIT;

	for (int i = 0; i < 100000; i++)
		pf_buf_puts(&text, "{\"a\":");
	ck_assert_int_eq(pf_description_parse(text.data, text.len, &d, &err), -EPROTO);
}

/* Each bit of each byte of a good one changes: the parser does not crash. */
TEST(damaged_descriptions_are_read_safely)
{
	char text[sizeof(good)];

	for (size_t bit = 0; bit < 8 * strlen(good); bit++) {
		struct pf_description d = { 0 };
		struct pf_err err = PF_ERR_INIT;

		memcpy(text, good, sizeof(good));
		text[bit / 8] ^= (char)(1 << bit % 8);
		if (pf_description_parse(text, strlen(good), &d, &err) < 0)
			ck_assert_int_lt(err.code, 0);
		else
			pf_description_release(&d);
	}
}
