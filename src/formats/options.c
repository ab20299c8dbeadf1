/* SPDX-License-Identifier: Apache-2.0 */
/* Compile options: JSON in, CompileOptionsProto out. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "options_maker.h"
#include "pjrtfs/base/similar.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static void maker_release(struct pf_options_maker *mk)
{
	free(mk->partitions);
	free(mk->partition_ptrs);
	free(mk->device_ids);
	free(mk->entries);
	free(mk->entry_ptrs);
	free(mk->overrides);
	free(mk->build.allow_spmd_sharding_propagation_to_parameters);
	free(mk->build.allow_spmd_sharding_propagation_to_output);
	free(mk->build.auto_spmd_partitioning_mesh_shape);
	free(mk->build.auto_spmd_partitioning_mesh_ids);
}

int pf_options_no_memory(struct pf_options_maker *mk)
{
	return pf_err_set(mk->err, -ENOMEM, "no memory for the compile options");
}

int pf_options_refuse(struct pf_options_maker *mk, const char *key, const char *want,
		      struct json_object *found)
{
	const char *text = json_object_to_json_string(found);

	return pf_err_set(mk->err, -EINVAL, "option %s: expected %s, found %.80s", key,
			  want, text ? text : "something else");
}

/* json-c cuts off what is beyond. */
bool pf_options_int(struct json_object *value, int64_t *ret)
{
	if (!json_object_is_type(value, json_type_int))
		return false;
	*ret = json_object_get_int64(value);
	return *ret != INT64_MAX || json_object_get_uint64(value) == INT64_MAX;
}

static int set_bool(struct pf_options_maker *mk, const char *key,
		    struct json_object *value, protobuf_c_boolean *has,
		    protobuf_c_boolean *ret)
{
	if (!json_object_is_type(value, json_type_boolean))
		return pf_options_refuse(mk, key, "true or false", value);
	/* What is false is not written, as proto3 does. */
	*ret = *has = json_object_get_boolean(value);
	return 0;
}

static int set_num_replicas(struct pf_options_maker *mk, const char *key,
			    struct json_object *value)
{
	int64_t n;

	if (!pf_options_int(value, &n) || n < 1 || n > INT32_MAX)
		return pf_options_refuse(mk, key, "an integer of 1 or more", value);
	mk->build.num_replicas = n;
	mk->build.has_num_replicas = true;
	return 0;
}

static int set_num_partitions(struct pf_options_maker *mk, const char *key,
			      struct json_object *value)
{
	int64_t n;

	if (!pf_options_int(value, &n) || n < 1 || n > INT32_MAX)
		return pf_options_refuse(mk, key, "an integer of 1 or more", value);
	mk->build.num_partitions = n;
	mk->build.has_num_partitions = true;
	return 0;
}

static int set_spmd(struct pf_options_maker *mk, const char *key,
		    struct json_object *value)
{
	mk->no_spmd = json_object_is_type(value, json_type_boolean) &&
		      !json_object_get_boolean(value);
	return set_bool(mk, key, value, &mk->build.has_use_spmd_partitioning,
			&mk->build.use_spmd_partitioning);
}

static int set_auto_spmd(struct pf_options_maker *mk, const char *key,
			 struct json_object *value)
{
	return set_bool(mk, key, value, &mk->build.has_use_auto_spmd_partitioning,
			&mk->build.use_auto_spmd_partitioning);
}

static int set_shardy(struct pf_options_maker *mk, const char *key,
		      struct json_object *value)
{
	mk->has_shardy = true;
	return set_bool(mk, key, value, &mk->build.has_use_shardy_partitioner,
			&mk->build.use_shardy_partitioner);
}

static int set_portable(struct pf_options_maker *mk, const char *key,
			struct json_object *value)
{
	return set_bool(mk, key, value, &mk->top.has_compile_portable_executable,
			&mk->top.compile_portable_executable);
}

static int set_bools(struct pf_options_maker *mk, const char *key,
		     struct json_object *value, size_t *ret_n, protobuf_c_boolean **ret)
{
	size_t n;

	if (!json_object_is_type(value, json_type_array))
		return pf_options_refuse(mk, key, "a list of true and false", value);
	n = json_object_array_length(value);
	if (n == 0)
		return 0;
	*ret = calloc(n, sizeof(**ret));
	if (!*ret)
		return pf_options_no_memory(mk);
	for (size_t i = 0; i < n; i++) {
		struct json_object *member = json_object_array_get_idx(value, i);

		if (!json_object_is_type(member, json_type_boolean))
			return pf_options_refuse(mk, key, "a list of true and false",
						 value);
		(*ret)[i] = json_object_get_boolean(member);
	}
	*ret_n = n;
	return 0;
}

static int set_to_parameters(struct pf_options_maker *mk, const char *key,
			     struct json_object *value)
{
	return set_bools(mk, key, value,
			 &mk->build.n_allow_spmd_sharding_propagation_to_parameters,
			 &mk->build.allow_spmd_sharding_propagation_to_parameters);
}

static int set_to_output(struct pf_options_maker *mk, const char *key,
			 struct json_object *value)
{
	return set_bools(mk, key, value,
			 &mk->build.n_allow_spmd_sharding_propagation_to_output,
			 &mk->build.allow_spmd_sharding_propagation_to_output);
}

static int set_ints(struct pf_options_maker *mk, const char *key,
		    struct json_object *value, size_t *ret_n, int64_t **ret)
{
	size_t n;

	if (!json_object_is_type(value, json_type_array))
		return pf_options_refuse(mk, key, "a list of integers", value);
	n = json_object_array_length(value);
	if (n == 0)
		return 0;
	*ret = calloc(n, sizeof(**ret));
	if (!*ret)
		return pf_options_no_memory(mk);
	for (size_t i = 0; i < n; i++)
		if (!pf_options_int(json_object_array_get_idx(value, i), &(*ret)[i]) ||
		    (*ret)[i] < 0)
			return pf_options_refuse(mk, key,
						 "a list of integers of 0 or more",
						 value);
	*ret_n = n;
	return 0;
}

static int set_mesh_shape(struct pf_options_maker *mk, const char *key,
			  struct json_object *value)
{
	return set_ints(mk, key, value, &mk->build.n_auto_spmd_partitioning_mesh_shape,
			&mk->build.auto_spmd_partitioning_mesh_shape);
}

static int set_mesh_ids(struct pf_options_maker *mk, const char *key,
			struct json_object *value)
{
	return set_ints(mk, key, value, &mk->build.n_auto_spmd_partitioning_mesh_ids,
			&mk->build.auto_spmd_partitioning_mesh_ids);
}

static int set_profile_version(struct pf_options_maker *mk, const char *key,
			       struct json_object *value)
{
	int64_t n;

	if (!pf_options_int(value, &n) || n < 0)
		return pf_options_refuse(mk, key, "an integer of 0 or more", value);
	mk->top.profile_version = n;
	mk->top.has_profile_version = n != 0;
	return 0;
}

static int set_precision(struct pf_options_maker *mk, const char *key,
			 struct json_object *value)
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
	return pf_options_refuse(mk, key, "\"default\", \"high\" or \"highest\"", value);
}

static int set_override(struct pf_options_maker *mk, const char *key,
			struct json_object *value, Pjrtfs__Options__Override *o)
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
		if (pf_options_int(value, &o->int_field))
			return 0;
		return pf_options_refuse(mk, name, "an integer of 64 bits", value);
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
	return pf_options_refuse(mk, name, "a string, true, false or a number", value);
}

static int entry_compare(const void *a, const void *b)
{
	const Pjrtfs__Options__CompileOptions__OverrideEntry *const *x = a, *const *y = b;

	return strcmp((*x)->key, (*y)->key);
}

static int set_overrides(struct pf_options_maker *mk, const char *key,
			 struct json_object *value)
{
	size_t n, i = 0;
	int r;

	if (!json_object_is_type(value, json_type_object))
		return pf_options_refuse(mk, key, "an object", value);
	n = (size_t)json_object_object_length(value);
	if (n == 0)
		return 0;
	mk->entries = calloc(n, sizeof(*mk->entries));
	mk->entry_ptrs = calloc(n, sizeof(*mk->entry_ptrs));
	mk->overrides = calloc(n, sizeof(*mk->overrides));
	if (!mk->entries || !mk->entry_ptrs || !mk->overrides)
		return pf_options_no_memory(mk);
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
	int (*set)(struct pf_options_maker *mk, const char *key,
		   struct json_object *value);
} setters[] = {
	{ "num_replicas", set_num_replicas },
	{ "num_partitions", set_num_partitions },
	{ "plugin", pf_options_set_plugin },
	{ "device", pf_options_set_device },
	{ "device_assignment", pf_options_set_assignment },
	{ "use_spmd_partitioning", set_spmd },
	{ "use_shardy_partitioner", set_shardy },
	{ "use_auto_spmd_partitioning", set_auto_spmd },
	{ "auto_spmd_partitioning_mesh_shape", set_mesh_shape },
	{ "auto_spmd_partitioning_mesh_ids", set_mesh_ids },
	{ "compile_portable_executable", set_portable },
	{ "allow_spmd_sharding_propagation_to_parameters", set_to_parameters },
	{ "allow_spmd_sharding_propagation_to_output", set_to_output },
	{ "profile_version", set_profile_version },
	{ "matrix_unit_operand_precision", set_precision },
	{ "env_option_overrides", set_overrides },
};

static int set_option(struct pf_options_maker *mk, const char *key,
		      struct json_object *value)
{
	struct pf_similar similar = { .word = key };
	char hint[PF_SIMILAR_TEXT];

	for (size_t i = 0; i < ARRAY_SIZE(setters); i++) {
		if (strcmp(setters[i].key, key) == 0)
			return setters[i].set(mk, key, value);
		pf_similar_try(&similar, setters[i].key);
	}
	return pf_err_set(
		mk->err, -EINVAL,
		"unknown option \"%.80s\"%s: expected num_replicas, num_partitions, "
		"device_assignment or another of those in the manual",
		key, pf_similar_hint(&similar, hint));
}

static int64_t default_count(int64_t of_program)
{
	if (of_program < 1)
		return 1;
	return of_program < INT32_MAX ? of_program : INT32_MAX;
}

/* The program is for N devices. */
static int too_few_devices(struct pf_options_maker *mk, int64_t n)
{
	int64_t replicas = mk->build.num_replicas, partitions = mk->build.num_partitions;
	char more[48] = "";

	if (n <= mk->target->max_devices)
		snprintf(more, sizeof(more), ": mount with --devices %" PRId64, n);
	return pf_err_set(mk->err, -EINVAL,
			  "%" PRId64 " replica%s of %" PRId64 " partition%s need %" PRId64
			  " devices, found %u%s",
			  replicas, replicas == 1 ? "" : "s", partitions,
			  partitions == 1 ? "" : "s", n, mk->target->n_devices, more);
}

/*
 * Replicas and partitions are what an assignment has, else what the program tells, else 1,
 * and there are devices for all of them.
 */
static int check_counts(struct pf_options_maker *mk)
{
	const struct pf_options_target *target = mk->target;
	Pjrtfs__Options__BuildOptions *build = &mk->build;
	int64_t n, rows, columns;

	pf_options_shape(mk, &rows, &columns);
	if (!build->has_num_replicas)
		build->num_replicas = default_count(rows ? rows : target->num_replicas);
	if (!build->has_num_partitions)
		build->num_partitions =
			default_count(columns ? columns : target->num_partitions);
	build->has_num_replicas = build->has_num_partitions = true;
	/* Both fit an int32_t, so the product fits. */
	n = build->num_replicas * build->num_partitions;
	if (n > target->n_devices)
		return too_few_devices(mk, n);
	/* The other way, a program a partition, is none that plugins have. */
	if (build->num_partitions > 1 && !mk->no_spmd)
		build->has_use_spmd_partitioning = build->use_spmd_partitioning = true;
	if (build->num_partitions > 1 && target->shardy && !mk->has_shardy)
		build->has_use_shardy_partitioner = build->use_shardy_partitioner = true;
	if (mk->top.compile_portable_executable && (mk->device >= 0 || mk->assignment))
		return pf_err_set(mk->err, -EINVAL,
				  "option %s: expected none, since what "
				  "compile_portable_executable makes is for any device",
				  mk->assignment ? "device_assignment" : "device");
	if (mk->device >= 0 && (mk->assignment || n > 1))
		return pf_err_set(
			mk->err, -EINVAL,
			"option device: expected a program for one device, "
			"found %s: device_assignment tells where each part goes",
			mk->assignment ? "device_assignment, too" : "one for several");
	return 0;
}

static int pack(struct pf_options_maker *mk, struct pf_buf *ret)
{
	uint8_t *dst;

	mk->top.executable_build_options = &mk->build;
	dst = (uint8_t *)pf_buf_reserve(ret,
					pjrtfs__options__compile_options__get_packed_size(
						&mk->top));
	if (!dst)
		return pf_options_no_memory(mk);
	ret->len += pjrtfs__options__compile_options__pack(&mk->top, dst);
	return 0;
}

int pf_options_encode(struct json_object *options, const struct pf_options_target *target,
		      struct pf_buf *ret, struct pf_err *err)
{
	PF_CLEANUP(maker_release)
	struct pf_options_maker mk = {
		.top = PJRTFS__OPTIONS__COMPILE_OPTIONS__INIT,
		.build = PJRTFS__OPTIONS__BUILD_OPTIONS__INIT,
		.devices = PJRTFS__OPTIONS__DEVICE_ASSIGNMENT__INIT,
		.target = target,
		.device = -1,
		.err = err,
	};
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
	r = check_counts(&mk);
	if (r == 0)
		r = pf_options_assign(&mk);
	return r < 0 ? r : pack(&mk, ret);
}
