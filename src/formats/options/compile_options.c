/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "compile_options.pb-c.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"
#include "pjrtfs/plugin_options.h"

/* The messages under construction, and the arrays that they point to. */
struct maker {
	Pjrtfs__Options__CompileOptions top;
	Pjrtfs__Options__BuildOptions build;
	Pjrtfs__Options__DeviceAssignment devices;
	const struct pf_options_target *target;
	struct json_object *options;    /* borrowed; may be NULL */
	struct json_object *assignment; /* borrowed; NULL if not given */
	int64_t device;                 /* that "device" names, or -1 */
	Pjrtfs__Options__DeviceAssignment__Partition *partitions;      /* owned */
	Pjrtfs__Options__DeviceAssignment__Partition **partition_ptrs; /* owned */
	int64_t *device_ids;                                           /* owned */
	Pjrtfs__Options__CompileOptions__OverrideEntry *entries;       /* owned */
	Pjrtfs__Options__CompileOptions__OverrideEntry **entry_ptrs;   /* owned */
	Pjrtfs__Options__Override *overrides;                          /* owned */
	struct pf_err *err;
};

/*
 * Flags of XLA that a program may be compiled with by users who do not own the mount.
 * XLA has some 400, and each version others; some name files to write, directories,
 * commands, or other flags.  So this lists the allowed flags: they change only numbers or
 * speed.
 */

static const char *const for_all[] = {
	"xla_allow_excess_precision",
	"xla_backend_optimization_level",
	"xla_cpu_enable_concurrency_optimized_scheduler",
	"xla_cpu_enable_fast_math",
	"xla_cpu_enable_fast_min_max",
	"xla_cpu_fast_math_honor_division",
	"xla_cpu_fast_math_honor_functions",
	"xla_cpu_fast_math_honor_infs",
	"xla_cpu_fast_math_honor_nans",
	"xla_cpu_max_isa",
	"xla_cpu_multi_thread_eigen",
	"xla_cpu_optimize_for_size",
	"xla_cpu_parallel_codegen_split_count",
	"xla_cpu_prefer_vector_width",
	"xla_enable_fast_math",
	"xla_gpu_autotune_level",
	"xla_gpu_deterministic_ops",
	"xla_gpu_enable_cublaslt",
	"xla_gpu_enable_cudnn_fmha",
	"xla_gpu_enable_fast_min_max",
	"xla_gpu_enable_latency_hiding_scheduler",
	"xla_gpu_enable_triton_gemm",
	"xla_gpu_enable_while_loop_double_buffering",
	"xla_gpu_exclude_nondeterministic_ops",
	"xla_gpu_ftz",
};

static bool is_listed(const char *flag, const char *const *more)
{
	for (size_t i = 0; i < PF_ARRAY_SIZE(for_all); i++)
		if (!strcmp(flag, for_all[i]))
			return true;
	for (; more && *more; more++)
		if (!strcmp(flag, *more))
			return true;
	return false;
}

/* A word or a number: nothing that could be a path or a list. */
static bool is_plain(struct json_object *value)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789_";
	const char *text;

	if (!json_object_is_type(value, json_type_string))
		return true; /* an unknown type is refused with the other options */
	text = json_object_get_string(value);
	return strspn(text, plain) == (size_t)json_object_get_string_len(value);
}

int pf_options_check_flags(struct json_object *options, const char *const *more,
			   struct pf_err *err)
{
	struct json_object *flags;

	if (!json_object_is_type(options, json_type_object) ||
	    !json_object_object_get_ex(options, "env_option_overrides", &flags) ||
	    !json_object_is_type(flags, json_type_object))
		return 0;
	json_object_object_foreach(flags, flag, value) {
		if (!is_listed(flag, more))
			return pf_err_set(
				err, -EPERM,
				"option env_option_overrides.%.80s: only the mount's owner "
				"may set this flag; others may set those that change "
				"numbers or speed, and those of --flags-for-all",
				flag);
		if (!is_plain(value))
			return pf_err_set(
				err, -EPERM,
				"option env_option_overrides.%.80s: expected a number, true, "
				"false or a word of letters, digits and underscores, found "
				"%.80s, which only the mount's owner may set",
				flag, json_object_to_json_string(value));
	}
	return 0;
}

/* Compile options: those of one program and those of the whole mount. */

static const char flags_key[] = "env_option_overrides";

static bool has(struct json_object *o, const char *key)
{
	return json_object_object_get_ex(o, key, NULL);
}

/* Do the options OWN replace the default KEY? */
static bool is_replaced(struct json_object *own, const char *key)
{
	static const char *const places[] = { "plugin", "device", "device_assignment" };
	bool placed = false, place = false;

	if (has(own, key))
		return true;
	for (size_t i = 0; i < PF_ARRAY_SIZE(places); i++) {
		placed |= has(own, places[i]);
		place |= !strcmp(key, places[i]);
	}
	if (!strcmp(key, "num_replicas") || !strcmp(key, "num_partitions"))
		return has(own, "device_assignment");
	return placed && place;
}

/* Add to O the members of DEFAULTS that OWN lacks or does not replace. */
static bool add(struct json_object *o, struct json_object *own,
		struct json_object *defaults)
{
	json_object_object_foreach(defaults, key, value) {
		struct json_object *copy;

		if (is_replaced(own, key))
			continue;
		copy = pf_json_copy(value);
		if ((value && !copy) || json_object_object_add(o, key, copy)) {
			json_object_put(copy);
			return false;
		}
	}
	return true;
}

struct json_object *pf_options_merge(struct json_object *own,
				     struct json_object *defaults)
{
	struct json_object *o = own ? pf_json_copy(own) : json_object_new_object();
	struct json_object *flags, *more;
	bool ok = o && add(o, o, defaults);

	if (ok && json_object_object_get_ex(o, flags_key, &flags) &&
	    json_object_is_type(flags, json_type_object) &&
	    json_object_object_get_ex(defaults, flags_key, &more))
		ok = add(flags, flags, more);
	if (ok)
		return o;
	json_object_put(o);
	return NULL;
}

/* Compile options: JSON in, CompileOptionsProto out. */

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
	free(mk->build.auto_spmd_partitioning_mesh_shape);
	free(mk->build.auto_spmd_partitioning_mesh_ids);
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

/* json-c returns the nearest int64_t for greater integers. */
static bool get_int(struct json_object *value, int64_t *ret)
{
	if (!json_object_is_type(value, json_type_int))
		return false;
	*ret = json_object_get_int64(value);
	return *ret != INT64_MAX || json_object_get_uint64(value) == INT64_MAX;
}

/* How option KEY becomes a field of the messages, whose places in struct maker these are. */
struct setter {
	const char *key;
	int (*set)(struct maker *mk, const struct setter *s, struct json_object *value);
	size_t at;  /* the value, or the list */
	size_t has; /* whether there is one, or how many */
	int64_t least, most;
};

static void *field(struct maker *mk, size_t at)
{
	return (char *)mk + at;
}

static int set_bool(struct maker *mk, const struct setter *s, struct json_object *value)
{
	protobuf_c_boolean *has = field(mk, s->has), *ret = field(mk, s->at);

	if (!json_object_is_type(value, json_type_boolean))
		return refuse(mk, s->key, "true or false", value);
	/* proto3 does not write false. */
	*ret = *has = json_object_get_boolean(value);
	return 0;
}

static int set_int(struct maker *mk, const struct setter *s, struct json_object *value)
{
	protobuf_c_boolean *has = field(mk, s->has);
	int64_t *ret = field(mk, s->at), n;

	if (!get_int(value, &n) || n < s->least || n > s->most)
		return refuse(mk, s->key,
			      s->least ? "an integer of 1 or more"
				       : "an integer of 0 or more",
			      value);
	*ret = n;
	*has = n != 0;
	return 0;
}

static int set_bools(struct maker *mk, const struct setter *s, struct json_object *value)
{
	size_t *n = field(mk, s->has), len;
	protobuf_c_boolean **ret = field(mk, s->at);

	if (!json_object_is_type(value, json_type_array))
		return refuse(mk, s->key, "a list of true and false", value);
	len = json_object_array_length(value);
	if (len == 0)
		return 0;
	*ret = calloc(len, sizeof(**ret));
	if (!*ret)
		return no_memory(mk);
	for (size_t i = 0; i < len; i++) {
		struct json_object *member = json_object_array_get_idx(value, i);

		if (!json_object_is_type(member, json_type_boolean))
			return refuse(mk, s->key, "a list of true and false", value);
		(*ret)[i] = json_object_get_boolean(member);
	}
	*n = len;
	return 0;
}

static int set_ints(struct maker *mk, const struct setter *s, struct json_object *value)
{
	size_t *n = field(mk, s->has), len;
	int64_t **ret = field(mk, s->at);

	if (!json_object_is_type(value, json_type_array))
		return refuse(mk, s->key, "a list of integers", value);
	len = json_object_array_length(value);
	if (len == 0)
		return 0;
	*ret = calloc(len, sizeof(**ret));
	if (!*ret)
		return no_memory(mk);
	for (size_t i = 0; i < len; i++)
		if (!get_int(json_object_array_get_idx(value, i), &(*ret)[i]) ||
		    (*ret)[i] < 0)
			return refuse(mk, s->key, "a list of integers of 0 or more",
				      value);
	*n = len;
	return 0;
}

static int set_precision(struct maker *mk, const struct setter *s,
			 struct json_object *value)
{
	/* By number: xla.PrecisionConfig.Precision. */
	static const char *const names[] = { "default", "high", "highest" };

	if (json_object_is_type(value, json_type_string))
		for (size_t i = 0; i < PF_ARRAY_SIZE(names); i++)
			if (strcasecmp(json_object_get_string(value), names[i]) == 0) {
				mk->top.matrix_unit_operand_precision = (int32_t)i;
				mk->top.has_matrix_unit_operand_precision = i != 0;
				return 0;
			}
	return refuse(mk, s->key, "\"default\", \"high\" or \"highest\"", value);
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

static int set_overrides(struct maker *mk, const struct setter *s,
			 struct json_object *value)
{
	size_t n, i = 0;
	int r;

	if (!json_object_is_type(value, json_type_object))
		return refuse(mk, s->key, "an object", value);
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

static int set_assignment(struct maker *mk, const struct setter *s,
			  struct json_object *value)
{
	if (!value)
		return refuse(mk, s->key, "lists of device ids", value);
	/* It can be read once the numbers of replicas and partitions are known. */
	mk->assignment = value;
	return 0;
}

/* "cpu:1" in *NAME_LEN bytes before the colon, and an id. */
static bool split_device(const char *text, size_t *name_len, int64_t *id)
{
	const char *colon = strrchr(text, ':');
	char *end;

	if (!colon || colon == text || colon[1] < '0' || colon[1] > '9')
		return false;
	errno = 0;
	*name_len = (size_t)(colon - text);
	*id = strtoll(colon + 1, &end, 10);
	return !*end && !errno;
}

static int set_device(struct maker *mk, const struct setter *s, struct json_object *value)
{
	size_t len;

	if (json_object_is_type(value, json_type_string)) {
		if (split_device(json_object_get_string(value), &len, &mk->device))
			return 0;
	} else if (get_int(value, &mk->device) && mk->device >= 0) {
		return 0;
	}
	return refuse(mk, s->key, "a device's id, or its name, as \"cpu:1\"", value);
}

/* The caller chose TARGET by pf_options_plugin: only the type is checked here. */
static int set_plugin(struct maker *mk, const struct setter *s, struct json_object *value)
{
	if (json_object_is_type(value, json_type_string))
		return 0;
	return refuse(mk, s->key, "a plugin's name", value);
}

#define FIELD(message, name)                                                             \
	.at = offsetof(struct maker, message.name),                                      \
	.has = offsetof(struct maker, message.has_##name)
#define LIST(name)                                                                       \
	.at = offsetof(struct maker, build.name),                                        \
	.has = offsetof(struct maker, build.n_##name)

static const struct setter setters[] = {
	{ "num_replicas", set_int, FIELD(build, num_replicas), 1, INT32_MAX },
	{ "num_partitions", set_int, FIELD(build, num_partitions), 1, INT32_MAX },
	{ "plugin", .set = set_plugin },
	{ "device", .set = set_device },
	{ "device_assignment", .set = set_assignment },
	{ "use_spmd_partitioning", set_bool, FIELD(build, use_spmd_partitioning) },
	{ "use_shardy_partitioner", set_bool, FIELD(build, use_shardy_partitioner) },
	{ "use_auto_spmd_partitioning", set_bool,
	  FIELD(build, use_auto_spmd_partitioning) },
	{ "auto_spmd_partitioning_mesh_shape", set_ints,
	  LIST(auto_spmd_partitioning_mesh_shape) },
	{ "auto_spmd_partitioning_mesh_ids", set_ints,
	  LIST(auto_spmd_partitioning_mesh_ids) },
	{ "compile_portable_executable", set_bool,
	  FIELD(top, compile_portable_executable) },
	{ "allow_spmd_sharding_propagation_to_parameters", set_bools,
	  LIST(allow_spmd_sharding_propagation_to_parameters) },
	{ "allow_spmd_sharding_propagation_to_output", set_bools,
	  LIST(allow_spmd_sharding_propagation_to_output) },
	{ "profile_version", set_int, FIELD(top, profile_version), 0, INT64_MAX },
	{ "matrix_unit_operand_precision", .set = set_precision },
	{ "env_option_overrides", .set = set_overrides },
};

static int set_option(struct maker *mk, const char *key, struct json_object *value)
{
	struct pf_similar similar = { .word = key };
	char hint[PF_SIMILAR_TEXT];

	for (size_t i = 0; i < PF_ARRAY_SIZE(setters); i++) {
		if (strcmp(setters[i].key, key) == 0)
			return setters[i].set(mk, &setters[i], value);
		pf_similar_try(&similar, setters[i].key);
	}
	return pf_err_set(
		mk->err, -EINVAL,
		"unknown option \"%.80s\"%s: expected num_replicas, num_partitions, "
		"device_assignment or another of those in the manual",
		key, pf_similar_hint(&similar, hint));
}

static void assignment_shape(const struct maker *mk, int64_t *replicas,
			     int64_t *partitions)
{
	struct json_object *row;

	*replicas = *partitions = 0;
	if (!json_object_is_type(mk->assignment, json_type_array))
		return;
	*replicas = (int64_t)json_object_array_length(mk->assignment);
	row = json_object_array_get_idx(mk->assignment, 0);
	if (json_object_is_type(row, json_type_array))
		*partitions = (int64_t)json_object_array_length(row);
}

static int64_t default_count(int64_t of_program)
{
	if (of_program < 1)
		return 1;
	return of_program < INT32_MAX ? of_program : INT32_MAX;
}

/* The program is for N devices. */
static int too_few_devices(struct maker *mk, int64_t n)
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
 * Take the numbers of replicas and partitions from the assignment, else from the program, else 1,
 * and check that there are devices for all of them.
 */
static int check_counts(struct maker *mk)
{
	const struct pf_options_target *target = mk->target;
	Pjrtfs__Options__BuildOptions *build = &mk->build;
	int64_t n, rows, columns;

	assignment_shape(mk, &rows, &columns);
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
	/* Plugins support no other way, such as one program for each partition. */
	if (build->num_partitions > 1 && !has(mk->options, "use_spmd_partitioning"))
		build->has_use_spmd_partitioning = build->use_spmd_partitioning = true;
	if (build->num_partitions > 1 && target->shardy &&
	    !has(mk->options, "use_shardy_partitioner"))
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

static int id_compare(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The transpose: JSON has a list a replica, the proto a list a partition. */
static int read_device_ids(struct maker *mk)
{
	static const char key[] = "device_assignment";
	size_t replicas = (size_t)mk->build.num_replicas;
	size_t partitions = (size_t)mk->build.num_partitions;
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

static int allocate_assignment(struct maker *mk)
{
	size_t replicas = (size_t)mk->build.num_replicas;
	size_t partitions = (size_t)mk->build.num_partitions;

	mk->partitions = calloc(partitions, sizeof(*mk->partitions));
	mk->partition_ptrs = calloc(partitions, sizeof(*mk->partition_ptrs));
	mk->device_ids = calloc(replicas * partitions, sizeof(*mk->device_ids));
	if (!mk->partitions || !mk->partition_ptrs || !mk->device_ids)
		return no_memory(mk);
	return 0;
}

static void fill_assignment(struct maker *mk)
{
	size_t replicas = (size_t)mk->build.num_replicas;
	size_t partitions = (size_t)mk->build.num_partitions;

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
}

static int check_ids(struct maker *mk, const char *key, size_t n)
{
	const struct pf_options_target *target = mk->target;

	for (size_t i = 0; target->device_ids && i < n; i++) {
		unsigned k = 0;

		while (k < target->n_devices &&
		       target->device_ids[k] != mk->device_ids[i])
			k++;
		if (k == target->n_devices)
			return pf_err_set(mk->err, -EINVAL,
					  "option %s: plugin %s has no device %" PRId64,
					  key, target->plugin, mk->device_ids[i]);
	}
	return 0;
}

/* Place the program: on a device, by an assignment, or where the plugin likes. */
static int assign(struct maker *mk)
{
	size_t n = (size_t)(mk->build.num_replicas * mk->build.num_partitions);
	int r = 0;

	if (!mk->assignment && mk->device < 0)
		return 0;
	r = allocate_assignment(mk);
	if (r == 0 && mk->assignment)
		r = read_device_ids(mk);
	else if (r == 0)
		mk->device_ids[0] = mk->device;
	if (r == 0)
		r = check_unique(mk, n);
	if (r == 0)
		r = check_ids(mk, mk->assignment ? "device_assignment" : "device", n);
	if (r == 0)
		fill_assignment(mk);
	return r;
}

static int pack(struct maker *mk, struct pf_buf *ret)
{
	uint8_t *dst;

	mk->top.executable_build_options = &mk->build;
	dst = (uint8_t *)pf_buf_reserve(ret,
					pjrtfs__options__compile_options__get_packed_size(
						&mk->top));
	if (!dst)
		return no_memory(mk);
	ret->len += pjrtfs__options__compile_options__pack(&mk->top, dst);
	return 0;
}

int pf_options_encode(struct json_object *options, const struct pf_options_target *target,
		      struct pf_buf *ret, struct pf_err *err)
{
	PF_CLEANUP(maker_release)
	struct maker mk = {
		.top = PJRTFS__OPTIONS__COMPILE_OPTIONS__INIT,
		.build = PJRTFS__OPTIONS__BUILD_OPTIONS__INIT,
		.devices = PJRTFS__OPTIONS__DEVICE_ASSIGNMENT__INIT,
		.target = target,
		.options = options,
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
		r = assign(&mk);
	return r < 0 ? r : pack(&mk, ret);
}

int pf_options_plugin(struct json_object *options, const char **ret, size_t *len,
		      struct pf_err *err)
{
	struct json_object *plugin = NULL, *device = NULL;
	const char *text;
	int64_t id;
	size_t n;

	*ret = NULL;
	*len = 0;
	json_object_object_get_ex(options, "plugin", &plugin);
	json_object_object_get_ex(options, "device", &device);
	if (json_object_is_type(plugin, json_type_string)) {
		*ret = json_object_get_string(plugin);
		*len = (size_t)json_object_get_string_len(plugin);
	}
	if (!json_object_is_type(device, json_type_string))
		return 0;
	text = json_object_get_string(device);
	if (!split_device(text, &n, &id))
		return 0; /* pf_options_encode says why */
	if (*ret && (n != *len || memcmp(*ret, text, n) != 0))
		return pf_err_set(err, -EINVAL,
				  "option device: %.80s is not a device of plugin %.80s",
				  text, *ret);
	*ret = text;
	*len = n;
	return 0;
}

/* The transpose again: row REPLICA of the lists that the proto has for each partition. */
static struct json_object *replica_json(const Pjrtfs__Options__DeviceAssignment *proto,
					size_t replica)
{
	struct json_object *row = json_object_new_array();

	for (size_t j = 0; row && j < proto->n_computation_devices; j++)
		json_object_array_add(row,
				      json_object_new_int64(
					      proto->computation_devices[j]
						      ->replica_device_ids[replica]));
	return row;
}

int pf_options_assignment_json(const void *proto, size_t len, struct json_object **ret,
			       struct pf_err *err)
{
	Pjrtfs__Options__DeviceAssignment *d =
		pjrtfs__options__device_assignment__unpack(NULL, len, proto);
	struct json_object *list = d ? json_object_new_array() : NULL;
	size_t n = 0;
	int r = 0;

	if (d && d->n_computation_devices)
		n = d->computation_devices[0]->n_replica_device_ids;
	for (size_t j = 0; d && j < d->n_computation_devices; j++)
		if (d->computation_devices[j]->n_replica_device_ids != n)
			r = -EINVAL;
	if (!d || r < 0)
		r = pf_err_set(err, -EINVAL,
			       "expected a DeviceAssignmentProto, found something else");
	else if (!list)
		r = pf_err_set(err, -ENOMEM, "no memory for an assignment");
	for (size_t i = 0; r == 0 && i < n; i++)
		json_object_array_add(list, replica_json(d, i));
	if (d)
		pjrtfs__options__device_assignment__free_unpacked(d, NULL);
	if (r == 0)
		*ret = list;
	else
		json_object_put(list);
	return r;
}
