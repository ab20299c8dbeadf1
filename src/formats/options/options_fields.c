/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of XLA's compile options: JSON values by name.  The schema is compile_options.proto. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "internal.h"
#include "pjrtfs/json.h"
#include "pjrtfs/plugin_options.h"

static const ProtobufCMessageDescriptor *const top =
	&pjrtfs__options__compile_options__descriptor;
static const ProtobufCMessageDescriptor *const build =
	&pjrtfs__options__build_options__descriptor;

/* Integers have from 0 to 2^63-1, but for these. */
static const struct {
	const char *key;
	int64_t min, max;
} ranges[] = {
	/* Plugins abort on a device below -1, and truncate these to 32 bits. */
	{ "device_ordinal", -1, INT32_MAX },  { "process_index", 0, INT32_MAX },
	{ "process_count", 0, INT32_MAX },    { "slice_size", 0, INT32_MAX },
	{ "profile_version", -1, INT64_MAX },
};

/* Keys that stand for no field of their own, for the list of keys. */
static const char *const more_keys[] = { "plugin", "device", "topology", "input_names",
					 NULL };

static const char shape_text[] = "\"F32[2,3]{0,1}\"";

Pjrtfs__Options__CompileOptions *pf_options_proto_new(void)
{
	Pjrtfs__Options__CompileOptions *proto = malloc(sizeof(*proto));
	Pjrtfs__Options__BuildOptions *options = malloc(sizeof(*options));

	if (!proto || !options) {
		free(proto);
		free(options);
		return NULL;
	}
	pjrtfs__options__compile_options__init(proto);
	pjrtfs__options__build_options__init(options);
	proto->executable_build_options = options;
	return proto;
}

void pf_options_proto_free(Pjrtfs__Options__CompileOptions *proto)
{
	pjrtfs__options__compile_options__free_unpacked(proto, NULL);
}

int pf_options_refuse(const char *key, const char *want, struct json_object *found,
		      struct pf_err *err)
{
	const char *text = json_object_to_json_string(found);

	return pf_err_set(err, -EINVAL, "option %s: expected %s, found %.80s", key, want,
			  text ? text : "something else");
}

static int no_memory(struct pf_err *err)
{
	return pf_err_set(err, -ENOMEM, "no memory for the compile options");
}

/* Is FIELD one that JSON has no key for, as its parts have theirs? */
static bool is_part(const ProtobufCFieldDescriptor *field)
{
	return field->descriptor == build;
}

static void list_keys(const ProtobufCMessageDescriptor *message,
		      struct pf_similar *similar, struct pf_buf *list)
{
	for (unsigned i = 0; i < message->n_fields; i++) {
		if (is_part(&message->fields[i]))
			continue;
		pf_similar_try(similar, message->fields[i].name);
		pf_buf_printf(list, ", %s", message->fields[i].name);
	}
}

/* The field of M called KEY; NULL: JSON has no such key. */
static const ProtobufCFieldDescriptor *find(const ProtobufCMessageDescriptor *m,
					    const char *key)
{
	const ProtobufCFieldDescriptor *f =
		protobuf_c_message_descriptor_get_field_by_name(m, key);

	return f && !is_part(f) ? f : NULL;
}

int pf_options_check_key(const char *key, struct pf_err *err)
{
	pf_autobuf struct pf_buf list = PF_BUF_INIT;
	struct pf_similar similar = { .word = key };
	char hint[PF_SIMILAR_TEXT];

	if (find(build, key) || find(top, key))
		return 0;
	for (const char *const *more = more_keys; *more; more++) {
		if (!strcmp(*more, key))
			return 0;
		pf_buf_printf(&list, ", %s", *more);
	}
	pf_similar_try_all(&similar, more_keys);
	list_keys(build, &similar, &list);
	list_keys(top, &similar, &list);
	if (similar.best)
		return pf_err_set(err, -EINVAL, "unknown option \"%.80s\"%s", key,
				  pf_similar_hint(&similar, hint));
	return pf_err_set(err, -EINVAL, "unknown option \"%.80s\": expected one of %s",
			  key, list.data ? list.data + 2 : "those in the manual");
}

/* --- base64 (RFC 4648) ---------------------------------------------------------------- */

static const char digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

struct json_object *pf_options_base64(const void *src, size_t len)
{
	pf_autofree char *text = malloc(len / 3 * 4 + 5);

	if (!text)
		return NULL;
	return json_object_new_string_len(text, EVP_EncodeBlock((unsigned char *)text,
								src, (int)len));
}

/* Read the LEN characters at TEXT, which is padded, to RET, which has room.  False: it is not such
 * text. */
static bool read_base64(const char *text, size_t len, ProtobufCBinaryData *ret)
{
	size_t n = strspn(text, digits), pad = len - n;

	if (len % 4 || n > len || pad > 2 || strspn(text + n, "=") != pad)
		return false;
	ret->len = len / 4 * 3 - pad;
	return !len ||
	       EVP_DecodeBlock(ret->data, (const unsigned char *)text, (int)len) >= 0;
}

/* --- one value ------------------------------------------------------------------------ */

static bool is_shape(const ProtobufCFieldDescriptor *field)
{
	return !strcmp(field->name, "argument_layouts") ||
	       !strcmp(field->name, "result_layout");
}

static void find_range(const char *key, int64_t *min, int64_t *max)
{
	*min = 0;
	*max = INT64_MAX;
	for (size_t i = 0; i < PF_ARRAY_SIZE(ranges); i++)
		if (!strcmp(ranges[i].key, key)) {
			*min = ranges[i].min;
			*max = ranges[i].max;
		}
}

/* Append what a value of FIELD, or one of its list, is. */
static void print_want(const ProtobufCFieldDescriptor *field, struct pf_buf *out)
{
	const bool list = field->label == PROTOBUF_C_LABEL_REPEATED;
	const ProtobufCEnumDescriptor *words = field->descriptor;
	int64_t min, max;

	switch (field->type) {
	case PROTOBUF_C_TYPE_BOOL:
		pf_buf_puts(out, list ? "true and false" : "true or false");
		break;
	case PROTOBUF_C_TYPE_INT64:
		find_range(field->name, &min, &max);
		pf_buf_printf(out,
			      max < INT64_MAX ? "%s from %" PRId64 " to %" PRId64
					      : "%s of %" PRId64 " or more",
			      list ? "integers" : "an integer", min, max);
		break;
	case PROTOBUF_C_TYPE_FLOAT:
		pf_buf_puts(out, "a number from -1 to 1");
		break;
	case PROTOBUF_C_TYPE_ENUM:
		for (unsigned i = 0; i < words->n_values; i++)
			pf_buf_printf(out, "%s\"%s\"",
				      !i                         ? ""
				      : i + 1 == words->n_values ? " or "
								 : ", ",
				      words->values[i].name);
		break;
	case PROTOBUF_C_TYPE_STRING:
		pf_buf_puts(out, "a string");
		break;
	default:
		if (!is_shape(field))
			pf_buf_puts(out, "a message in base64");
		else
			pf_buf_printf(out,
				      list ? "shapes, as %s"
					   : "a shape, as %s, or a list of them",
				      shape_text);
	}
}

/* Reading VALUE as one of FIELD has failed with R. */
static int refuse(const ProtobufCFieldDescriptor *field, struct json_object *value, int r,
		  struct pf_err *err)
{
	pf_autobuf struct pf_buf want = PF_BUF_INIT;

	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		pf_buf_puts(&want, "a list of ");
	print_want(field, &want);
	return r == -ENOMEM || want.failed
		       ? no_memory(err)
		       : pf_options_refuse(field->name, want.data, value, err);
}

/* The values of fields: a variant for each type that the schema uses. */
union value {
	protobuf_c_boolean boolean;
	int64_t integer;
	float number;
	int word;
	char *text;
	ProtobufCBinaryData bytes;
};

static size_t size_of(const ProtobufCFieldDescriptor *field)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_BOOL:
		return sizeof(protobuf_c_boolean);
	case PROTOBUF_C_TYPE_INT64:
		return sizeof(int64_t);
	case PROTOBUF_C_TYPE_FLOAT:
		return sizeof(float);
	case PROTOBUF_C_TYPE_ENUM:
		return sizeof(int);
	case PROTOBUF_C_TYPE_STRING:
		return sizeof(char *);
	default:
		return sizeof(ProtobufCBinaryData);
	}
}

static int read_text(struct json_object *value, char **ret)
{
	const char *text = json_object_get_string(value);

	if (!json_object_is_type(value, json_type_string) ||
	    strlen(text) != (size_t)json_object_get_string_len(value))
		return -EINVAL;
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

static int read_bytes(struct json_object *value, ProtobufCBinaryData *ret)
{
	size_t len = (size_t)json_object_get_string_len(value);

	if (!json_object_is_type(value, json_type_string))
		return -EINVAL;
	ret->data = malloc(len + 1);
	if (!ret->data)
		return -ENOMEM;
	if (read_base64(json_object_get_string(value), len, ret))
		return 0;
	free(pf_steal(&ret->data));
	return -EINVAL;
}

/* The number of the word that VALUE is. */
static int read_word(const ProtobufCEnumDescriptor *words, struct json_object *value,
		     int *ret)
{
	if (!json_object_is_type(value, json_type_string))
		return -EINVAL;
	for (unsigned i = 0; i < words->n_values; i++)
		if (!strcasecmp(words->values[i].name, json_object_get_string(value))) {
			*ret = words->values[i].value;
			return 0;
		}
	return -EINVAL;
}

/* Read VALUE as one of FIELD.  0, -EINVAL, -ENOMEM. */
static int read_value(const ProtobufCFieldDescriptor *field, struct json_object *value,
		      union value *ret)
{
	int64_t min, max;
	double d;

	switch (field->type) {
	case PROTOBUF_C_TYPE_BOOL:
		ret->boolean = json_object_get_boolean(value);
		return json_object_is_type(value, json_type_boolean) ? 0 : -EINVAL;
	case PROTOBUF_C_TYPE_INT64:
		find_range(field->name, &min, &max);
		return pf_json_get_int(value, &ret->integer) && ret->integer >= min &&
				       ret->integer <= max
			       ? 0
			       : -EINVAL;
	case PROTOBUF_C_TYPE_FLOAT:
		d = json_object_get_double(value);
		ret->number = d == 0 ? 0 : (float)d;
		return (json_object_is_type(value, json_type_double) ||
			json_object_is_type(value, json_type_int)) &&
				       d >= -1 && d <= 1
			       ? 0
			       : -EINVAL;
	case PROTOBUF_C_TYPE_ENUM:
		return read_word(field->descriptor, value, &ret->word);
	case PROTOBUF_C_TYPE_STRING:
		return read_text(value, &ret->text);
	default:
		return is_shape(field) ? pf_layout_encode(value, &ret->bytes)
				       : read_bytes(value, &ret->bytes);
	}
}

/* --- flags ---------------------------------------------------------------------------- */

/* Set also false and 0: which of the fields is there says the type. */
static int set_override(Pjrtfs__Options__CompileOptions__Override *o, const char *flag,
			struct json_object *value, struct pf_err *err)
{
	char name[160] = "env_option_overrides.";
	int r = -EINVAL;

	strncat(name, flag, sizeof(name) - strlen(name) - 1);
	switch (json_object_get_type(value)) {
	case json_type_boolean:
		o->has_bool_field = 1;
		o->bool_field = json_object_get_boolean(value);
		return 0;
	case json_type_int:
		o->has_int_field = 1;
		if (pf_json_get_int(value, &o->int_field))
			return 0;
		return pf_options_refuse(name, "an integer of 64 bits", value, err);
	case json_type_double:
		o->has_double_field = 1;
		o->double_field = json_object_get_double(value);
		r = isfinite(o->double_field) ? 0 : -EINVAL;
		break;
	case json_type_string:
		r = read_text(value, &o->string_field);
		break;
	default:
		break;
	}
	if (r == -ENOMEM)
		return no_memory(err);
	return r ? pf_options_refuse(name, "a string, true, false or a number", value,
				     err)
		 : 0;
}

/* A flag called NAME without a value; NULL: no memory. */
static Pjrtfs__Options__CompileOptions__Flag *new_flag(const char *name)
{
	Pjrtfs__Options__CompileOptions__Flag *flag = malloc(sizeof(*flag));
	Pjrtfs__Options__CompileOptions__Override *value = malloc(sizeof(*value));
	char *key = strdup(name);

	if (!flag || !value || !key) {
		free(flag);
		free(value);
		free(key);
		return NULL;
	}
	pjrtfs__options__compile_options__flag__init(flag);
	pjrtfs__options__compile_options__override__init(value);
	flag->key = key;
	flag->value = value;
	return flag;
}

static int set_flags(Pjrtfs__Options__CompileOptions *proto, struct json_object *value,
		     struct pf_err *err)
{
	struct json_object *sorted;
	size_t n;
	int r = 0;

	if (!json_object_is_type(value, json_type_object))
		return pf_options_refuse("env_option_overrides", "an object", value, err);
	n = (size_t)json_object_object_length(value);
	proto->env_option_overrides = calloc(n + 1, sizeof(*proto->env_option_overrides));
	/* Equal options are equal bytes: cache keys hash them. */
	sorted = pf_json_sorted(value);
	if (!sorted || !proto->env_option_overrides) {
		json_object_put(sorted);
		return no_memory(err);
	}
	json_object_object_foreach(sorted, name, setting) {
		Pjrtfs__Options__CompileOptions__Flag *flag = r ? NULL : new_flag(name);

		if (r)
			break;
		if (flag)
			proto->env_option_overrides[proto->n_env_option_overrides++] =
				flag;
		r = flag ? set_override(flag->value, name, setting, err) : no_memory(err);
	}
	json_object_put(sorted);
	return r;
}

/* --- fields --------------------------------------------------------------------------- */

static int set_list(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
		    struct json_object *value, struct pf_err *err)
{
	size_t *n = (void *)((char *)message + field->quantifier_offset);
	char **list = (void *)((char *)message + field->offset);
	size_t size = size_of(field), n_values;

	if (!json_object_is_type(value, json_type_array))
		return refuse(field, value, -EINVAL, err);
	n_values = json_object_array_length(value);
	*list = calloc(n_values + 1, size);
	if (!*list)
		return no_memory(err);
	for (size_t i = 0; i < n_values; i++, ++*n) {
		union value one = { .bytes = { 0 } };
		int r = read_value(field, json_object_array_get_idx(value, i), &one);

		if (r < 0)
			return refuse(field, value, r, err);
		memcpy(*list + i * size, &one, size);
	}
	return 0;
}

/* Does V say no more than a field that is not there? */
static bool is_default(const ProtobufCFieldDescriptor *field, const union value *v)
{
	static const union value zero = { .bytes = { 0 } };

	if (field->type == PROTOBUF_C_TYPE_STRING)
		return !*v->text;
	if (field->type == PROTOBUF_C_TYPE_BYTES)
		return !v->bytes.len;
	return !memcmp(v, &zero, size_of(field));
}

int pf_options_field_set(Pjrtfs__Options__CompileOptions *proto, const char *key,
			 struct json_object *value, struct pf_err *err)
{
	ProtobufCMessage *message = &proto->executable_build_options->base;
	const ProtobufCFieldDescriptor *field = find(build, key);
	union value one = { .bytes = { 0 } };
	int r;

	if (!field) {
		field = find(top, key);
		message = &proto->base;
	}
	assert(field);
	if (!strcmp(key, "env_option_overrides"))
		return set_flags(proto, value, err);
	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		return set_list(message, field, value, err);
	r = read_value(field, value, &one);
	if (r < 0)
		return refuse(field, value, r, err);
	if (is_default(field, &one)) {
		free(field->type == PROTOBUF_C_TYPE_STRING  ? one.text
		     : field->type == PROTOBUF_C_TYPE_BYTES ? (void *)one.bytes.data
							    : NULL);
		return 0;
	}
	memcpy((char *)message + field->offset, &one, size_of(field));
	if (field->type != PROTOBUF_C_TYPE_STRING)
		*(protobuf_c_boolean *)(void *)((char *)message +
						field->quantifier_offset) = 1;
	return 0;
}

/* --- messages ------------------------------------------------------------------------- */

/* Refuse a message with fields that the schema does not have. */
static int check_known(const ProtobufCMessage *message, const char *name,
		       struct pf_err *err)
{
	if (!message->n_unknown_fields)
		return 0;
	return pf_err_set(err, -EINVAL,
			  "field %" PRIu32 " of %s is newer than this pjrtfs, or is "
			  "not of its type",
			  message->unknown_fields[0].tag, name);
}

/* Add FLAG to FLAGS. */
static int flag_json(const Pjrtfs__Options__CompileOptions__Flag *flag,
		     struct json_object *flags, struct pf_err *err)
{
	const Pjrtfs__Options__CompileOptions__Override *o = flag->value;
	const char *name = flag->key ? flag->key : "", *want = NULL;
	struct json_object *value;
	int r = check_known(&flag->base, "a flag", err);

	if (r == 0 && o)
		r = check_known(&o->base, "OptionOverrideProto", err);
	if (r < 0)
		return r;
	if (!o || !!o->string_field + o->has_bool_field + o->has_int_field +
				  o->has_double_field !=
			  1)
		want = "one value";
	else if (o->has_double_field && !isfinite(o->double_field))
		want = "a finite number";
	if (want)
		return pf_err_set(err, -EINVAL,
				  "option env_option_overrides.%.80s: expected %s", name,
				  want);
	value = o->string_field     ? json_object_new_string(o->string_field)
		: o->has_bool_field ? json_object_new_boolean(o->bool_field)
		: o->has_int_field  ? json_object_new_int64(o->int_field)
				    : json_object_new_double(o->double_field);
	pf_json_add(flags, name, value);
	return 0;
}

static int flags_json(Pjrtfs__Options__CompileOptions__Flag *const *flags, size_t n,
		      struct json_object **ret, struct pf_err *err)
{
	int r = 0;

	*ret = json_object_new_object();
	for (size_t i = 0; r == 0 && i < n; i++)
		r = flag_json(flags[i], *ret, err);
	return r;
}

/* The value at AT as JSON.  NULL: it has none that pf_options_field_set would take, or no memory. */
static struct json_object *value_json(const ProtobufCFieldDescriptor *field,
				      const void *at)
{
	const ProtobufCEnumValue *word;
	union value v;

	memcpy(&v, at, size_of(field));
	switch (field->type) {
	case PROTOBUF_C_TYPE_BOOL:
		return json_object_new_boolean(v.boolean);
	case PROTOBUF_C_TYPE_INT64:
		return json_object_new_int64(v.integer);
	case PROTOBUF_C_TYPE_FLOAT:
		return isfinite(v.number) ? json_object_new_double((double)v.number)
					  : NULL;
	case PROTOBUF_C_TYPE_ENUM:
		word = protobuf_c_enum_descriptor_get_value(field->descriptor, v.word);
		return word ? json_object_new_string(word->name) : NULL;
	case PROTOBUF_C_TYPE_STRING:
		return json_object_new_string(v.text);
	default:
		return is_shape(field) ? pf_layout_decode(&v.bytes)
				       : pf_options_base64(v.bytes.data, v.bytes.len);
	}
}

static int bad_value(const ProtobufCFieldDescriptor *field, struct pf_err *err)
{
	pf_autobuf struct pf_buf want = PF_BUF_INIT;

	print_want(field, &want);
	return pf_err_set(err, -EINVAL,
			  "option %s: expected %s, found a value that JSON does not "
			  "have here",
			  field->name, want.data ? want.data : "another value");
}

/* The transpose again: row REPLICA of the lists that the proto has for each partition. */
static struct json_object *replica_json(const Pjrtfs__Options__DeviceAssignment *proto,
					size_t replica)
{
	struct json_object *row = json_object_new_array();

	for (size_t j = 0; row && j < proto->n_computation_devices; j++)
		pf_json_append(row, json_object_new_int64(
					    proto->computation_devices[j]
						    ->replica_device_ids[replica]));
	return row;
}

static int assignment_json(const Pjrtfs__Options__DeviceAssignment *d,
			   struct json_object **ret, struct pf_err *err)
{
	struct json_object *list = json_object_new_array();
	size_t n = 0;
	int r = 0;

	if (d->n_computation_devices)
		n = d->computation_devices[0]->n_replica_device_ids;
	for (size_t j = 0; j < d->n_computation_devices; j++)
		if (d->computation_devices[j]->n_replica_device_ids != n)
			r = pf_err_set(err, -EINVAL,
				       "expected a DeviceAssignmentProto, found lists of "
				       "several lengths");
	for (size_t i = 0; r == 0 && i < n; i++)
		pf_json_append(list, replica_json(d, i));
	if (r == 0 && !pf_json_complete(list))
		r = pf_err_set(err, -ENOMEM, "no memory for an assignment");
	if (r == 0)
		*ret = list;
	else
		json_object_put(list);
	return r;
}

int pf_options_assignment_json(const void *proto, size_t len, struct json_object **ret,
			       struct pf_err *err)
{
	Pjrtfs__Options__DeviceAssignment *d =
		pjrtfs__options__device_assignment__unpack(NULL, len, proto);
	int r;

	if (!d)
		return pf_err_set(err, -EINVAL,
				  "expected a DeviceAssignmentProto, found something "
				  "else");
	r = assignment_json(d, ret, err);
	pjrtfs__options__device_assignment__free_unpacked(d, NULL);
	return r;
}

/* The N values at AT of FIELD, a list, in *RET, also on failure. */
static int list_json(const ProtobufCFieldDescriptor *field, const char *at, size_t n,
		     struct json_object **ret, struct pf_err *err)
{
	if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		return flags_json((const void *)at, n, ret, err);
	*ret = json_object_new_array();
	for (size_t i = 0; i < n; i++) {
		struct json_object *value = value_json(field, at + i * size_of(field));

		if (!value)
			return bad_value(field, err);
		pf_json_append(*ret, value);
	}
	return 0;
}

/* FIELD of MESSAGE in *RET; NULL: it is not there, or says no more than that. */
static int field_json(const ProtobufCMessage *message,
		      const ProtobufCFieldDescriptor *field, struct json_object **ret,
		      struct pf_err *err)
{
	const void *at = (const char *)message + field->offset, *pointer;
	union value one = { .bytes = { 0 } };
	size_t n;

	*ret = NULL;
	if (field->label == PROTOBUF_C_LABEL_REPEATED) {
		memcpy(&pointer, at, sizeof(pointer));
		memcpy(&n, (const char *)message + field->quantifier_offset, sizeof(n));
		return n ? list_json(field, pointer, n, ret, err) : 0;
	}
	if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
		memcpy(&pointer, at, sizeof(pointer));
		return pointer ? assignment_json(pointer, ret, err) : 0;
	}
	memcpy(&one, at, size_of(field));
	if ((field->type == PROTOBUF_C_TYPE_STRING && !one.text) ||
	    is_default(field, &one))
		return 0;
	*ret = value_json(field, at);
	return *ret ? 0 : bad_value(field, err);
}

/* Add the fields of MESSAGE, which is called NAME, to O. */
static int add_fields(struct json_object *o, const ProtobufCMessage *message,
		      const char *name, struct pf_err *err)
{
	const ProtobufCMessageDescriptor *type = message->descriptor;
	int r = check_known(message, name, err);

	for (unsigned i = 0; r == 0 && i < type->n_fields; i++) {
		struct json_object *value;

		if (is_part(&type->fields[i]))
			continue;
		r = field_json(message, &type->fields[i], &value, err);
		if (value)
			pf_json_add(o, type->fields[i].name, value);
	}
	return r;
}

/* Where the proto's false is not JSON's default, say it. */
static void add_false(struct json_object *o, const Pjrtfs__Options__BuildOptions *options)
{
	if (options->num_partitions <= 1)
		return;
	if (!options->use_spmd_partitioning)
		pf_json_add(o, "use_spmd_partitioning", json_object_new_boolean(false));
	if (!options->use_shardy_partitioner)
		pf_json_add(o, "use_shardy_partitioner", json_object_new_boolean(false));
}

int pf_options_decode(const void *proto, size_t len, struct json_object **ret,
		      struct pf_err *err)
{
	Pjrtfs__Options__CompileOptions *options =
		pjrtfs__options__compile_options__unpack(NULL, len, proto);
	struct json_object *o = json_object_new_object();
	const Pjrtfs__Options__BuildOptions *building;
	int r = 0;

	if (!options) {
		json_object_put(o);
		return pf_err_set(err, -EINVAL,
				  "expected a serialized CompileOptionsProto, found %zu "
				  "bytes of something else",
				  len);
	}
	building = options->executable_build_options;
	if (building) {
		r = add_fields(o, &building->base, "ExecutableBuildOptionsProto", err);
		add_false(o, building);
	}
	if (r == 0)
		r = add_fields(o, &options->base, "CompileOptionsProto", err);
	if (r == 0 && !pf_json_complete(o))
		r = no_memory(err);
	pf_options_proto_free(options);
	if (r < 0)
		json_object_put(o);
	else
		*ret = o;
	return r;
}
