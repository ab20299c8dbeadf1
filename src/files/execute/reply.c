/* SPDX-License-Identifier: Apache-2.0 */
/* What an execution answers. */
#include "internal.h"
#include "pjrtfs/base/json.h"

static struct json_object *describe(const char *name, const struct pf_value *v,
				    const struct device *device)
{
	struct json_object *o = json_object_new_object();

	pf_json_add_string(o, "name", name);
	pf_json_add_string(o, "dtype", pf_dtype_name(v->dtype));
	json_object_object_add(o, "shape", pf_shape_json(&v->shape));
	pf_json_add_string(o, "device", device->name);
	return o;
}

static struct json_object *describe_row(const struct run *run,
					const struct pf_execution *e, size_t row)
{
	struct json_object *list = json_object_new_array();
	const struct row *at = &run->rows[row];

	for (size_t i = 0; i < run->n_out; i++)
		json_object_array_add(list, describe(at->outputs.at[i],
						     e->outs[row * run->n_out + i],
						     at->device));
	return list;
}

struct json_object *run_reply(const struct run *run, const struct pf_execution *e)
{
	struct json_object *o = reply_new(), *rows;

	if (run->n_rows == 1) {
		json_object_object_add(o, "outputs", describe_row(run, e, 0));
	} else {
		rows = json_object_new_array();
		for (size_t i = 0; i < run->n_rows; i++)
			json_object_array_add(rows, describe_row(run, e, i));
		json_object_object_add(o, "outputs", rows);
	}
	if (run->request.repeat > 1)
		pf_json_add_int(o, "repeat", (int64_t)run->request.repeat);
	pf_json_add_seconds(o, "seconds", run->seconds);
	pf_json_add_seconds(o, "device_seconds", run->device_seconds);
	pf_json_add_seconds(o, "transfer_seconds", run->transfer_seconds);
	pf_json_add_seconds(o, "queue_seconds", run->queue_seconds);
	return o;
}

/* --- for people --------------------------------------------------------------------------- */

static const char *string_of(struct json_object *o, const char *key)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v) ? json_object_get_string(v) : "";
}

static void print_outputs(struct json_object *list, struct pf_buf *out)
{
	size_t n = json_object_array_length(list);
	const char *device = "";

	for (size_t i = 0; i < n; i++) {
		struct json_object *o = json_object_array_get_idx(list, i), *shape;

		json_object_object_get_ex(o, "shape", &shape);
		pf_buf_printf(out, " %s %s%s%s", string_of(o, "name"),
			      string_of(o, "dtype"), pf_json_text(shape),
			      i + 1 < n ? "," : "");
		device = string_of(o, "device");
	}
	if (n)
		pf_buf_printf(out, " on %s", device);
}

static void print_success(struct json_object *reply, struct pf_buf *out)
{
	struct json_object *outputs, *first, *seconds, *job;

	pf_buf_puts(out, "ok:");
	if (json_object_object_get_ex(reply, "job", &job))
		pf_buf_printf(out, " job %s", json_object_get_string(job));
	if (!json_object_object_get_ex(reply, "outputs", &outputs))
		return;
	first = json_object_array_get_idx(outputs, 0);
	if (json_object_is_type(first, json_type_array)) {
		size_t n = json_object_array_length(outputs);

		for (size_t i = 0; i < n; i++) {
			print_outputs(json_object_array_get_idx(outputs, i), out);
			pf_buf_puts(out, i + 1 < n ? ";" : "");
		}
	} else {
		print_outputs(outputs, out);
	}
	if (json_object_object_get_ex(reply, "seconds", &seconds))
		pf_buf_printf(out, " in %.6f s", json_object_get_double(seconds));
}

void reply_print(struct json_object *reply, struct pf_buf *out)
{
	size_t start = out->len;
	struct json_object *ok, *e;

	if (json_object_object_get_ex(reply, "ok", &ok) && json_object_get_boolean(ok)) {
		print_success(reply, out);
		return;
	}
	if (!json_object_object_get_ex(reply, "error", &e))
		return;
	pf_buf_printf(out, "error: %s: %s", string_of(e, "errno"),
		      string_of(e, "message"));
	if (!out->failed) /* a reply is one line, a message may be several */
		out->len = start + pf_err_clean(out->data + start, out->len - start);
}
