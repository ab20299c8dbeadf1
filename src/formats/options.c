/* Compile options: JSON in, CompileOptionsProto out. */
#include "pjrtfs/formats/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "compile_options.pb-c.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* The messages under construction, and the arrays that they point to. */
struct maker {
	Pjrtfs__Options__CompileOptions top;
	Pjrtfs__Options__BuildOptions build;
	Pjrtfs__Options__DeviceAssignment devices;
	struct json_object *assignment; /* borrowed; NULL if not given */
	Pjrtfs__Options__DeviceAssignment__Partition *partitions;      /* owned */
	Pjrtfs__Options__DeviceAssignment__Partition **partition_ptrs; /* owned */
	int64_t *device_ids;                                           /* owned */
	Pjrtfs__Options__CompileOptions__OverrideEntry *entries;       /* owned */
	Pjrtfs__Options__CompileOptions__OverrideEntry **entry_ptrs;   /* owned */
	Pjrtfs__Options__Override *overrides;                          /* owned */
	struct pf_err *err;
};

static void maker_release(struct maker *mk)
{
	free(mk->partitions);
	free(mk->partition_ptrs);
	free(mk->device_ids);
	free(mk->entries);
	free(mk->entry_ptrs);
	free(mk->overrides);
	free(mk->build.allow_spmd_sharding_propagation_to_parameters);
	free(mk->build.allow_spmd_sharding_propagation_to_output);
}

static int no_memory(struct maker *mk)
{
	return pf_err_set(mk->err, -ENOMEM, "no memory for the compile options");
}

static int refuse(struct maker *mk, const char *key, const char *want,
		  struct json_object *found)
{
	const char *text = json_object_to_json_string(found);

	return pf_err_set(mk->err, -EINVAL, "option %s: expected %s, found %.80s", key,
			  want, text ? text : "something else");
}

/* An integer that an int64_t holds: json-c cuts off what is beyond. */
static bool get_int(struct json_object *value, int64_t *ret)
{
	if (!json_object_is_type(value, json_type_int))
		return false;
	*ret = json_object_get_int64(value);
	return *ret != INT64_MAX || json_object_get_uint64(value) == INT64_MAX;
}

static int set_bool(struct maker *mk, const char *key, struct json_object *value,
		    protobuf_c_boolean *has, protobuf_c_boolean *ret)
{
	if (!json_object_is_type(value, json_type_boolean))
		return refuse(mk, key, "true or false", value);
	/* What is false is not written, as proto3 does. */
	*ret = *has = json_object_get_boolean(value);
	return 0;
}

static int set_num_replicas(struct maker *mk, const char *key, struct json_object *value)
{
	int64_t n;

	if (!get_int(value, &n) || n < 1 || n > INT32_MAX)
		return refuse(mk, key, "an integer of 1 or more", value);
	mk->build.num_replicas = n;
	mk->build.has_num_replicas = true;
	return 0;
}

static int set_num_partitions(struct maker *mk, const char *key,
			      struct json_object *value)
{
	int64_t n;

	if (!get_int(value, &n) || n < 1 || n > INT32_MAX)
		return refuse(mk, key, "an integer of 1 or more", value);
	mk->build.num_partitions = n;
	mk->build.has_num_partitions = true;
	return 0;
}

static int set_device_assignment(struct maker *mk, const char *key,
				 struct json_object *value)
{
	if (!value)
		return refuse(mk, key, "lists of device ids", value);
	/* It can be read once the numbers of replicas and partitions are known. */
	mk->assignment = value;
	return 0;
}

static int set_spmd(struct maker *mk, const char *key, struct json_object *value)
{
	return set_bool(mk, key, value, &mk->build.has_use_spmd_partitioning,
			&mk->build.use_spmd_partitioning);
}

static int set_auto_spmd(struct maker *mk, const char *key, struct json_object *value)
{
	return set_bool(mk, key, value, &mk->build.has_use_auto_spmd_partitioning,
			&mk->build.use_auto_spmd_partitioning);
}

static int set_shardy(struct maker *mk, const char *key, struct json_object *value)
{
	return set_bool(mk, key, value, &mk->build.has_use_shardy_partitioner,
			&mk->build.use_shardy_partitioner);
}

static int set_portable(struct maker *mk, const char *key, struct json_object *value)
{
	return set_bool(mk, key, value, &mk->top.has_compile_portable_executable,
			&mk->top.compile_portable_executable);
}

static int set_bools(struct maker *mk, const char *key, struct json_object *value,
		     size_t *ret_n, protobuf_c_boolean **ret)
{
	size_t n;

	if (!json_object_is_type(value, json_type_array))
		return refuse(mk, key, "a list of true and false", value);
	n = json_object_array_length(value);
	if (n == 0)
		return 0;
	*ret = calloc(n, sizeof(**ret));
	if (!*ret)
		return no_memory(mk);
	for (size_t i = 0; i < n; i++) {
		struct json_object *member = json_object_array_get_idx(value, i);

		if (!json_object_is_type(member, json_type_boolean))
			return refuse(mk, key, "a list of true and false", value);
		(*ret)[i] = json_object_get_boolean(member);
	}
	*ret_n = n;
	return 0;
}

static int set_to_parameters(struct maker *mk, const char *key, struct json_object *value)
{
	return set_bools(mk, key, value,
			 &mk->build.n_allow_spmd_sharding_propagation_to_parameters,
			 &mk->build.allow_spmd_sharding_propagation_to_parameters);
}

static int set_to_output(struct maker *mk, const char *key, struct json_object *value)
{
	return set_bools(mk, key, value,
			 &mk->build.n_allow_spmd_sharding_propagation_to_output,
			 &mk->build.allow_spmd_sharding_propagation_to_output);
}

static int set_profile_version(struct maker *mk, const char *key,
			       struct json_object *value)
{
	int64_t n;

	if (!get_int(value, &n) || n < 0)
		return refuse(mk, key, "an integer of 0 or more", value);
	mk->top.profile_version = n;
	mk->top.has_profile_version = n != 0;
	return 0;
}

static int set_precision(struct maker *mk, const char *key, struct json_object *value)
{
	/* By number: xla.PrecisionConfig.Precision. */
	static const char *const names[] = { "default", "high", "highest" };

	if (json_object_is_type(value, json_type_string))
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (strcasecmp(json_object_get_string(value), names[i]) == 0) {
				mk->top.matrix_unit_operand_precision = (int32_t)i;
				mk->top.has_matrix_unit_operand_precision = i != 0;
				return 0;
			}
	return refuse(mk, key, "\"default\", \"high\" or \"highest\"", value);
}

static int set_override(struct maker *mk, const char *key, struct json_object *value,
			Pjrtfs__Options__Override *o)
{
	char name[160] = "env_option_overrides.";

	strncat(name, key, sizeof(name) - strlen(name) - 1);
	pjrtfs__options__override__init(o);
	switch (json_object_get_type(value)) {
	case json_type_boolean:
		o->value_case = PJRTFS__OPTIONS__OVERRIDE__VALUE_BOOL_FIELD;
		o->bool_field = json_object_get_boolean(value);
		return 0;
	case json_type_int:
		o->value_case = PJRTFS__OPTIONS__OVERRIDE__VALUE_INT_FIELD;
		if (get_int(value, &o->int_field))
			return 0;
		return refuse(mk, name, "an integer of 64 bits", value);
	case json_type_double:
		o->value_case = PJRTFS__OPTIONS__OVERRIDE__VALUE_DOUBLE_FIELD;
		o->double_field = json_object_get_double(value);
		if (isfinite(o->double_field))
			return 0;
		break;
	case json_type_string:
		o->value_case = PJRTFS__OPTIONS__OVERRIDE__VALUE_STRING_FIELD;
		/* Borrowed for as long as the JSON object lives; only packed from. */
		o->string_field = (char *)(uintptr_t)json_object_get_string(value);
		if (strlen(o->string_field) == (size_t)json_object_get_string_len(value))
			return 0;
		break;
	default:
		break;
	}
	return refuse(mk, name, "a string, true, false or a number", value);
}

static int entry_compare(const void *a, const void *b)
{
	const Pjrtfs__Options__CompileOptions__OverrideEntry *const *x = a, *const *y = b;

	return strcmp((*x)->key, (*y)->key);
}

static int set_overrides(struct maker *mk, const char *key, struct json_object *value)
{
	size_t n, i = 0;
	int r;

	if (!json_object_is_type(value, json_type_object))
		return refuse(mk, key, "an object", value);
	n = (size_t)json_object_object_length(value);
	if (n == 0)
		return 0;
	mk->entries = calloc(n, sizeof(*mk->entries));
	mk->entry_ptrs = calloc(n, sizeof(*mk->entry_ptrs));
	mk->overrides = calloc(n, sizeof(*mk->overrides));
	if (!mk->entries || !mk->entry_ptrs || !mk->overrides)
		return no_memory(mk);
	json_object_object_foreach(value, flag, setting) {
		Pjrtfs__Options__CompileOptions__OverrideEntry *entry = &mk->entries[i];

		r = set_override(mk, flag, setting, &mk->overrides[i]);
		if (r < 0)
			return r;
		pjrtfs__options__compile_options__override_entry__init(entry);
		entry->key = flag;
		entry->value = &mk->overrides[i];
		mk->entry_ptrs[i++] = entry;
	}
	/* Equal options are equal bytes: cache keys hash them. */
	qsort(mk->entry_ptrs, n, sizeof(*mk->entry_ptrs), entry_compare);
	mk->top.n_env_option_overrides = n;
	mk->top.env_option_overrides = mk->entry_ptrs;
	return 0;
}

static const struct {
	const char *key;
	int (*set)(struct maker *mk, const char *key, struct json_object *value);
} setters[] = {
	{ "num_replicas", set_num_replicas },
	{ "num_partitions", set_num_partitions },
	{ "device_assignment", set_device_assignment },
	{ "use_spmd_partitioning", set_spmd },
	{ "use_shardy_partitioner", set_shardy },
	{ "use_auto_spmd_partitioning", set_auto_spmd },
	{ "compile_portable_executable", set_portable },
	{ "allow_spmd_sharding_propagation_to_parameters", set_to_parameters },
	{ "allow_spmd_sharding_propagation_to_output", set_to_output },
	{ "profile_version", set_profile_version },
	{ "matrix_unit_operand_precision", set_precision },
	{ "env_option_overrides", set_overrides },
};

static int set_option(struct maker *mk, const char *key, struct json_object *value)
{
	for (size_t i = 0; i < ARRAY_SIZE(setters); i++)
		if (strcmp(setters[i].key, key) == 0)
			return setters[i].set(mk, key, value);
	return pf_err_set(
		mk->err, -EINVAL,
		"unknown option \"%.80s\": expected num_replicas, num_partitions, "
		"device_assignment or another of those in the manual",
		key);
}

static int id_compare(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The transpose: JSON has a list a replica, the proto a list a partition. */
static int read_device_ids(struct maker *mk, size_t replicas, size_t partitions)
{
	static const char key[] = "device_assignment";
	struct json_object *row, *id;
	char want[96];

	snprintf(want, sizeof(want), "%zu lists (one a replica) of %zu device ids",
		 replicas, partitions);
	if (!json_object_is_type(mk->assignment, json_type_array) ||
	    json_object_array_length(mk->assignment) != replicas)
		return refuse(mk, key, want, mk->assignment);
	for (size_t i = 0; i < replicas; i++) {
		row = json_object_array_get_idx(mk->assignment, i);
		if (!json_object_is_type(row, json_type_array) ||
		    json_object_array_length(row) != partitions)
			return refuse(mk, key, want, mk->assignment);
		for (size_t j = 0; j < partitions; j++) {
			int64_t *device = &mk->device_ids[j * replicas + i];

			id = json_object_array_get_idx(row, j);
			if (!get_int(id, device) || *device < 0)
				return refuse(mk, key, "device ids of 0 or more", id);
		}
	}
	return 0;
}

static int check_unique(struct maker *mk, size_t n)
{
	int64_t *sorted = malloc(n * sizeof(*sorted));
	int r = 0;

	if (!sorted)
		return no_memory(mk);
	memcpy(sorted, mk->device_ids, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), id_compare);
	for (size_t i = 1; i < n && r == 0; i++)
		if (sorted[i] == sorted[i - 1])
			r = pf_err_set(mk->err, -EINVAL,
				       "option device_assignment: device %" PRId64
				       " is given twice",
				       sorted[i]);
	free(sorted);
	return r;
}

static int fill_assignment(struct maker *mk)
{
	size_t replicas = (size_t)mk->build.num_replicas;
	size_t partitions = (size_t)mk->build.num_partitions;
	int r;

	mk->partitions = calloc(partitions, sizeof(*mk->partitions));
	mk->partition_ptrs = calloc(partitions, sizeof(*mk->partition_ptrs));
	mk->device_ids = calloc(replicas * partitions, sizeof(*mk->device_ids));
	if (!mk->partitions || !mk->partition_ptrs || !mk->device_ids)
		return no_memory(mk);
	r = read_device_ids(mk, replicas, partitions);
	if (r < 0)
		return r;
	r = check_unique(mk, replicas * partitions);
	if (r < 0)
		return r;
	for (size_t j = 0; j < partitions; j++) {
		pjrtfs__options__device_assignment__partition__init(&mk->partitions[j]);
		mk->partitions[j].n_replica_device_ids = replicas;
		mk->partitions[j].replica_device_ids = &mk->device_ids[j * replicas];
		mk->partition_ptrs[j] = &mk->partitions[j];
	}
	mk->devices.has_replica_count = true;
	mk->devices.replica_count = (int32_t)replicas;
	mk->devices.has_computation_count = true;
	mk->devices.computation_count = (int32_t)partitions;
	mk->devices.n_computation_devices = partitions;
	mk->devices.computation_devices = mk->partition_ptrs;
	mk->build.device_assignment = &mk->devices;
	return 0;
}

/* Replicas and partitions are 1 unless told otherwise, and there are devices for all. */
static int check_counts(struct maker *mk, int n_devices)
{
	Pjrtfs__Options__BuildOptions *build = &mk->build;

	if (!build->has_num_replicas)
		build->num_replicas = 1;
	if (!build->has_num_partitions)
		build->num_partitions = 1;
	build->has_num_replicas = build->has_num_partitions = true;
	/* Both fit an int32_t, so the product fits. */
	if (build->num_replicas * build->num_partitions > n_devices)
		return pf_err_set(mk->err, -EINVAL,
				  "options: %" PRId64 " replicas of %" PRId64
				  " partitions need %" PRId64 " devices, found %d",
				  build->num_replicas, build->num_partitions,
				  build->num_replicas * build->num_partitions, n_devices);
	return 0;
}

int pf_options_encode(struct json_object *options, int n_devices, struct pf_buf *ret,
		      struct pf_err *err)
{
	PF_CLEANUP(maker_release)
	struct maker mk = {
		.top = PJRTFS__OPTIONS__COMPILE_OPTIONS__INIT,
		.build = PJRTFS__OPTIONS__BUILD_OPTIONS__INIT,
		.devices = PJRTFS__OPTIONS__DEVICE_ASSIGNMENT__INIT,
		.err = err,
	};
	uint8_t *dst;
	size_t len;
	int r;

	if (options && !json_object_is_type(options, json_type_object))
		return pf_err_set(err, -EINVAL,
				  "options: expected a JSON object, found %.80s",
				  json_object_to_json_string(options));
	if (options) {
		json_object_object_foreach(options, key, value) {
			r = set_option(&mk, key, value);
			if (r < 0)
				return r;
		}
	}
	r = check_counts(&mk, n_devices);
	if (r < 0)
		return r;
	if (mk.assignment) {
		r = fill_assignment(&mk);
		if (r < 0)
			return r;
	}
	mk.top.executable_build_options = &mk.build;
	len = pjrtfs__options__compile_options__get_packed_size(&mk.top);
	dst = (uint8_t *)pf_buf_reserve(ret, len);
	if (!dst)
		return no_memory(&mk);
	ret->len += pjrtfs__options__compile_options__pack(&mk.top, dst);
	return 0;
}
