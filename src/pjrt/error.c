/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins' errors become errno and a sentence. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/json.h"

/* The one place where PJRT codes become errno.  Codes not listed: EIO. */
static const int errno_of[] = {
	[PJRT_Error_Code_CANCELLED] = ECANCELED,
	[PJRT_Error_Code_INVALID_ARGUMENT] = EINVAL,
	[PJRT_Error_Code_DEADLINE_EXCEEDED] = ETIMEDOUT,
	[PJRT_Error_Code_NOT_FOUND] = ENOENT,
	[PJRT_Error_Code_ALREADY_EXISTS] = EEXIST,
	[PJRT_Error_Code_PERMISSION_DENIED] = EACCES,
	[PJRT_Error_Code_RESOURCE_EXHAUSTED] = ENOSPC,
	[PJRT_Error_Code_FAILED_PRECONDITION] = EBUSY,
	[PJRT_Error_Code_ABORTED] = ECONNABORTED,
	[PJRT_Error_Code_OUT_OF_RANGE] = ERANGE,
	[PJRT_Error_Code_UNIMPLEMENTED] = EOPNOTSUPP,
	[PJRT_Error_Code_UNAVAILABLE] = ENODEV,
	[PJRT_Error_Code_UNAUTHENTICATED] = EACCES,
};

/* Bytes of one name or value that are kept. */
enum { MAX_PAYLOAD = PF_ERR_PAYLOADS / 2 };

static char *payload_copy(const char *text, size_t len)
{
	return pj_string_copy(text, len < MAX_PAYLOAD ? len : MAX_PAYLOAD);
}

/* Add a payload to the object ARG, unless that would not fit into a pf_err. */
static void add_payload(const char *key, size_t key_size, const char *value,
			size_t value_size, void *arg)
{
	struct json_object *o = arg;
	pf_autofree char *name = payload_copy(key, key_size);
	pf_autofree char *text = payload_copy(value, value_size);
	const char *all;

	if (!name || !text || json_object_object_get_ex(o, name, NULL))
		return;
	pf_json_add_string(o, name, text);
	all = pf_json_text(o);
	if (!all || strlen(all) >= PF_ERR_PAYLOADS)
		json_object_object_del(o, name);
}

/* Give ERR, which E was copied to, E's payloads, too. */
static void take_payloads(const struct pj_plugin *plugin, const PJRT_Error *e,
			  struct pf_err *err)
{
	struct json_object *o = json_object_new_object();
	PJ_NEWER_ARGS(Error_ForEachPayload, args, .error = e, .visitor = add_payload,
		      .user_arg = o);
	PJ_ARGS(Error_Destroy, destroy);
	const char *all;

	if (!o)
		return;
	/* A plugin without payloads says so by an error, whose own are therefore not asked for. */
	destroy.error = plugin->newer.Error_ForEachPayload(&args);
	if (destroy.error)
		plugin->api.PJRT_Error_Destroy(&destroy);
	else if (json_object_object_length(o) && (all = pf_json_text(o)))
		pf_json_read_payloads(err, all, strlen(all));
	json_object_put(o);
}

int pj_check(const struct pj_plugin *plugin, PJRT_Error *e, struct pf_err *err)
{
	PJ_ARGS(Error_GetCode, code, .error = e);
	PJ_ARGS(Error_Message, msg, .error = e);
	PJ_ARGS(Error_Destroy, destroy, .error = e);
	int r = EIO;

	if (!e)
		return 0;

	code.code = PJRT_Error_Code_UNKNOWN;
	plugin->api.PJRT_Error_Message(&msg); /* the text is owned by e */
	if (plugin->api.PJRT_Error_GetCode(&code) == NULL &&
	    (size_t)code.code < PF_ARRAY_SIZE(errno_of) && errno_of[code.code])
		r = errno_of[code.code];
	pf_err_set_lines(err, -r, msg.message, msg.message ? msg.message_size : 0);
	if (err) {
		err->pjrt_code = (int)code.code;
		if (plugin->newer.Error_ForEachPayload)
			take_payloads(plugin, e, err);
	}
	plugin->api.PJRT_Error_Destroy(&destroy);
	return -r;
}

/*
 * MLIR says "-:3:10: error: ..." for a line and a column of the program, and XLA adds after any mistake
 * that the plugin may be too old: say so only of what the plugin does not know.
 */
static void simplify(struct pf_err *err)
{
	static const char may_be_old[] =
		"<unknown>:0: error: Failed to parse using StableHLO ";
	const char *old = strstr(err->text, may_be_old);
	size_t before = old ? (size_t)(old - err->text) : 0;
	bool unknown = memmem(err->text, before, "unknown", 7) ||
		       memmem(err->text, before, "unregistered", 12);
	pf_autobuf struct pf_buf out = PF_BUF_INIT;
	const char *at = err->text, *end;
	unsigned line, column;

	for (; *at; at = *end ? end + 1 : end) {
		int n = 0;

		end = at + strcspn(at, "\n");
		if (at == old && !unknown)
			continue;
		pf_buf_puts(&out, out.len ? "\n" : "");
		if (at == old) {
			at += strlen(may_be_old);
			pf_buf_printf(
				&out,
				"it is misspelt, or newer than the plugin, which has "
				"StableHLO %.*s: check it, or try a newer plugin",
				(int)strcspn(at, ",\n"), at);
			continue;
		}
		if (sscanf(at, "-:%u:%u: %n", &line, &column, &n) == 2 && n && line) {
			pf_buf_printf(&out, "line %u, column %u: ", line, column);
			at += n;
			at += strncmp(at, "error: ", 7) ? 0 : 7;
		}
		pf_buf_append(&out, at, (size_t)(end - at));
	}
	if (!out.failed && out.len)
		pf_err_set_lines(err, err->code, out.data, out.len);
}

/* What a compiler tells of programs that are well formed and that it does not take: what its user can do. */
static const struct {
	const char *told, *advice;
} refusals[] = {
	{ "!quant.uniform",
	  "expected types of numbers, found a quantized one, which plugins do not know: lower "
	  "it to integers (stablehlo-opt --stablehlo-legalize-quant-to-math)" },
	{ "can't be translated to XLA HLO",
	  "expected sizes that are numbers, found an operation that XLA lacks, or lacks for "
	  "sizes that the program computes: export it with numbers for its sizes" },
	{ "produced by: MLIR",
	  "expected bytecode that every version reads, found some of one version of "
	  "StableHLO: write what serialize_portable_artifact gives, or text (.mlir)" },
	{ "primitive_type_invalid",
	  "expected tensors of numbers, found a type that XLA lacks, such as a quantized "
	  "one, an index, or one of no rank: convert it to tensors before the export" },
	{ "sharding-remover",
	  "expected arrays of one partition, found a program that takes them apart: write "
	  "{\"num_partitions\": N} to its options.json" },
	{ "Custom call target",
	  "the program is for a compiler that knows this call: export it for this platform" },
	{ "is not supported by XLA:CPU",
	  "the program has an operation that compilers for other devices know: export it "
	  "for this platform, or with others in its place" },
};

/* Put pjrtfs's advice before what the compiler tells. */
static void advise(struct pf_err *err)
{
	/* XLA's own checks are no failures of a device. */
	int code = err->code == -EIO ? -EINVAL : err->code;

	for (size_t i = 0; i < PF_ARRAY_SIZE(refusals); i++)
		if (strstr(err->text, refusals[i].told)) {
			pf_err_wrap(err, code, "%s", refusals[i].advice);
			return;
		}
}

int pj_check_compile(const struct pj_plugin *plugin, PJRT_Error *e, struct pf_err *err)
{
	struct pf_err why = PF_ERR_INIT;
	int r = pj_check(plugin, e, &why);
	const struct pf_err told = why;

	/* MLIR's parser and verifier give no better code for what is wrong in a program. */
	if (r < 0 && told.pjrt_code == PJRT_Error_Code_UNKNOWN)
		r = why.code = -EINVAL;
	else if (r < 0 && told.pjrt_code == PJRT_Error_Code_NOT_FOUND)
		r = pf_err_wrap(&why, -EOPNOTSUPP,
				"the program calls a function that the plugin lacks");
	else if (r < 0 &&
		 told.pjrt_code == PJRT_Error_Code_UNAVAILABLE) /* a tool, as ptxas */
		r = why.code = -EOPNOTSUPP;
	if (r < 0) {
		simplify(&why);
		advise(&why);
		r = why.code;
		pf_err_explain(&why, why.text, strlen(why.text));
	}
	why.pjrt_code = told.pjrt_code;
	strcpy(why.payloads, told.payloads);
	if (r < 0 && err)
		*err = why;
	return r;
}

int pj_given(const void *handle, const char *function, struct pf_err *err)
{
	return handle ? 0
		      : pf_err_set(err, -EIO,
				   "the plugin's %s succeeded without a result",
				   function);
}

int pj_given_event(const PJRT_Event *event, const char *function, struct pf_err *err)
{
	return event ? 0
		     : pf_err_set(err, -EIO, "the plugin's %s succeeded without an event",
				  function);
}

int pj_given_list(const void *list, size_t n, const char *function, struct pf_err *err)
{
	return list || n == 0 ? 0
			      : pf_err_set(err, -EIO,
					   "the plugin's %s gave %zu elements without a "
					   "list",
					   function, n);
}

int pj_missing(const struct pj_plugin *plugin, const char *function, struct pf_err *err)
{
	return pf_err_set(err, -EOPNOTSUPP, "the plugin has no %s: it speaks PJRT %d.%d",
			  function, plugin->api.pjrt_api_version.major_version,
			  plugin->api.pjrt_api_version.minor_version);
}

/* Events: the plugin signals the end of asynchronous work. */

void pj_event_drop(const struct pj_plugin *plugin, PJRT_Event *event)
{
	PJ_ARGS(Event_Destroy, args, .event = event);

	if (event)
		(void)PJ_CALL(plugin, NULL, Event_Destroy, &args);
}

int pj_event_await(const struct pj_plugin *plugin, PJRT_Event *event,
		   const char *function, struct pf_err *err)
{
	PJ_ARGS(Event_Await, args, .event = event);
	int r = pj_given_event(event, function, err);

	if (r == 0)
		r = PJ_CALL(plugin, err, Event_Await, &args);
	pj_event_drop(plugin, event);
	return r;
}
