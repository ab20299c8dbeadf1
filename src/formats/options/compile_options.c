/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"
#include "pjrtfs/plugin_options.h"

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
	NULL,
};

/* Is WORD in LIST, which NULL ends? */
static bool is_listed(const char *word, const char *const *list)
{
	for (; list && *list; list++)
		if (!strcmp(word, *list))
			return true;
	return false;
}

static bool has(struct json_object *o, const char *key)
{
	return json_object_object_get_ex(o, key, NULL);
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
	/* Flags by number, in messages of each version's own; what makes compilers abort. */
	static const char *const owners[] = { "debug_options", "comp_envs",
					      "run_backend_only", NULL };
	struct json_object *flags;

	if (!json_object_is_type(options, json_type_object))
		return 0;
	for (const char *const *key = owners; *key; key++)
		if (has(options, *key))
			return pf_err_set(err, -EPERM,
					  "option %s: only the mount's owner may set it; "
					  "others leave it out, and set flags by name in "
					  "env_option_overrides",
					  *key);
	if (!json_object_object_get_ex(options, "env_option_overrides", &flags) ||
	    !json_object_is_type(flags, json_type_object))
		return 0;
	json_object_object_foreach(flags, flag, value) {
		if (!is_listed(flag, for_all) && !is_listed(flag, more))
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

/* Do the options OWN replace the default KEY? */
static bool is_replaced(struct json_object *own, const char *key)
{
	static const char *const places[] = { "plugin", "device", "device_assignment",
					      NULL };
	static const char *const counts[] = { "num_replicas", "num_partitions", NULL };
	bool assigned = has(own, "device_assignment");

	if (is_listed(key, places) &&
	    (assigned || has(own, "plugin") || has(own, "device")))
		return true;
	return has(own, key) || (assigned && is_listed(key, counts));
}

/* Add to O the members of DEFAULTS that OWN lacks or does not replace. */
static void add(struct json_object *o, struct json_object *own,
		struct json_object *defaults)
{
	json_object_object_foreach(defaults, key, value)
		if (!is_replaced(own, key))
			pf_json_add_copy(o, key, value);
}

struct json_object *pf_options_merge(struct json_object *own,
				     struct json_object *defaults)
{
	struct json_object *o = own ? pf_json_copy(own) : json_object_new_object();
	struct json_object *own_flags = pf_json_get(own, flags_key, json_type_object);
	struct json_object *more = pf_json_get(defaults, flags_key, json_type_object);

	add(o, own, defaults);
	if (own_flags && more) {
		struct json_object *flags = pf_json_copy(own_flags);

		add(flags, own_flags, more);
		pf_json_add(o, flags_key, flags);
	}
	if (pf_json_complete(o))
		return o;
	json_object_put(o);
	return NULL;
}

/* Compile options: JSON in, CompileOptionsProto out. */

/* The options, with the defaults that depend on the program, and their target. */
struct maker {
	struct json_object *options; /* owned */
	const struct pf_options_target *target;
	int64_t replicas, partitions;
	Pjrtfs__Options__CompileOptions *proto; /* owned, or NULL */
	struct pf_err *err;
};

static void maker_release(struct maker *mk)
{
	json_object_put(mk->options);
	pf_options_proto_free(mk->proto);
}

static int no_memory(struct maker *mk)
{
	return pf_err_set(mk->err, -ENOMEM, "no memory for the compile options");
}

static int refuse(struct maker *mk, const char *key, const char *want,
		  struct json_object *found)
{
	return pf_options_refuse(key, want, found, mk->err);
}

static int check_id(struct maker *mk, const char *key, int64_t id)
{
	const struct pf_options_target *target = mk->target;

	for (unsigned i = 0; target->device_ids; i++) {
		if (i == target->n_devices)
			return pf_err_set(mk->err, -EINVAL,
					  "option %s: plugin %s has no device %" PRId64,
					  key, target->plugin, id);
		if (target->device_ids[i] == id)
			break;
	}
	return 0;
}

/* The ids of VALUE, a list for each replica, in the order of the proto: by partition. */
static int read_device_ids(struct maker *mk, const char *key, struct json_object *value,
			   int64_t *ids)
{
	size_t replicas = (size_t)mk->replicas, partitions = (size_t)mk->partitions;
	bool fits = json_object_is_type(value, json_type_array) &&
		    json_object_array_length(value) == replicas;
	char want[96];

	for (size_t i = 0; fits && i < replicas; i++) {
		struct json_object *row = json_object_array_get_idx(value, i);

		fits = json_object_is_type(row, json_type_array) &&
		       json_object_array_length(row) == partitions;
		for (size_t j = 0; fits && j < partitions; j++) {
			struct json_object *id = json_object_array_get_idx(row, j);

			if (!pf_json_get_int(id, &ids[j * replicas + i]) ||
			    ids[j * replicas + i] < 0)
				return refuse(mk, key, "device ids of 0 or more", id);
		}
	}
	snprintf(want, sizeof(want), "%zu lists (one a replica) of %zu device ids",
		 replicas, partitions);
	return fits ? 0 : refuse(mk, key, want, value);
}

/* An assignment of the IDS, in the order of the proto.  NULL: no memory. */
static Pjrtfs__Options__DeviceAssignment *new_assignment(const struct maker *mk,
							 const int64_t *ids)
{
	size_t replicas = (size_t)mk->replicas, size = replicas * sizeof(*ids);
	Pjrtfs__Options__DeviceAssignment *d = calloc(1, sizeof(*d));
	bool ok = d;

	if (!d)
		return NULL;
	pjrtfs__options__device_assignment__init(d);
	d->has_replica_count = d->has_computation_count = 1;
	d->replica_count = (int32_t)mk->replicas;
	d->computation_count = (int32_t)mk->partitions;
	d->computation_devices =
		calloc((size_t)mk->partitions, sizeof(*d->computation_devices));
	ok = d->computation_devices;
	for (int64_t i = 0; ok && i < mk->partitions; i++) {
		Pjrtfs__Options__DeviceAssignment__Partition *part =
			calloc(1, sizeof(*part));

		ok = part;
		if (!ok)
			break;
		pjrtfs__options__device_assignment__partition__init(part);
		d->computation_devices[d->n_computation_devices++] = part;
		part->replica_device_ids = malloc(size);
		ok = part->replica_device_ids;
		if (ok) {
			part->n_replica_device_ids = replicas;
			memcpy(part->replica_device_ids, ids + (size_t)i * replicas,
			       size);
		}
	}
	if (ok)
		return d;
	pjrtfs__options__device_assignment__free_unpacked(d, NULL);
	return NULL;
}

static int set_assignment(struct maker *mk, struct json_object *value)
{
	static const char key[] = "device_assignment";
	size_t n = (size_t)mk->replicas * (size_t)mk->partitions;
	pf_autofree int64_t *ids = calloc(n, sizeof(*ids));
	int r = ids ? read_device_ids(mk, key, value, ids) : no_memory(mk);

	for (size_t i = 0; r == 0 && i < n; i++) {
		r = check_id(mk, key, ids[i]);
		for (size_t k = 0; r == 0 && k < i; k++)
			if (ids[k] == ids[i])
				r = pf_err_set(mk->err, -EINVAL,
					       "option %s: device %" PRId64
					       " is given twice",
					       key, ids[i]);
	}
	if (r < 0)
		return r;
	mk->proto->executable_build_options->device_assignment = new_assignment(mk, ids);
	return mk->proto->executable_build_options->device_assignment ? 0 : no_memory(mk);
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

/* The option KEY; if it is not set, the length of LIST, else the program's own number, else 1. */
static int read_count(struct maker *mk, const char *key, struct json_object *list,
		      int64_t of_program, int64_t *ret)
{
	struct json_object *value;
	bool given = json_object_object_get_ex(mk->options, key, &value);

	if (given && (!pf_json_get_int(value, ret) || *ret < 1 || *ret > INT32_MAX))
		return refuse(mk, key, "an integer of 1 or more", value);
	if (given)
		return 0;
	*ret = of_program;
	if (json_object_is_type(list, json_type_array) && json_object_array_length(list))
		*ret = (int64_t)json_object_array_length(list);
	*ret = *ret < 1 ? 1 : *ret < INT32_MAX ? *ret : INT32_MAX;
	return 0;
}

/* The program is for N devices. */
static int too_few_devices(struct maker *mk, int64_t n)
{
	char more[48] = "";

	if (n <= mk->target->max_devices)
		snprintf(more, sizeof(more), ": mount with --devices %" PRId64, n);
	return pf_err_set(mk->err, -EINVAL,
			  "%" PRId64 " replica%s of %" PRId64 " partition%s need %" PRId64
			  " devices, found %u%s",
			  mk->replicas, mk->replicas == 1 ? "" : "s", mk->partitions,
			  mk->partitions == 1 ? "" : "s", n, mk->target->n_devices, more);
}

/* Take the numbers of replicas and partitions, and check that there are devices for all of them. */
static int read_counts(struct maker *mk)
{
	const struct pf_options_target *target = mk->target;
	struct json_object *assignment, *first = NULL;
	int64_t n;
	int r;

	json_object_object_get_ex(mk->options, "device_assignment", &assignment);
	if (json_object_is_type(assignment, json_type_array))
		first = json_object_array_get_idx(assignment, 0);
	r = read_count(mk, "num_replicas", assignment, target->num_replicas,
		       &mk->replicas);
	if (r == 0)
		r = read_count(mk, "num_partitions", first, target->num_partitions,
			       &mk->partitions);
	if (r < 0)
		return r;
	/* Both fit an int32_t, so the product fits. */
	n = mk->replicas * mk->partitions;
	return n > target->n_devices && !target->elsewhere ? too_few_devices(mk, n) : 0;
}

/* Make "device" the assignment of its one device.  The caller chose the target by
 * pf_options_plugin: only the type of "plugin" is checked here. */
static int read_place(struct maker *mk)
{
	bool assigned = has(mk->options, "device_assignment"), given;
	struct json_object *value, *portable;
	int64_t id = -1;
	size_t len;

	if (json_object_object_get_ex(mk->options, "plugin", &value) &&
	    !json_object_is_type(value, json_type_string))
		return refuse(mk, "plugin", "a plugin's name", value);
	if (json_object_object_get_ex(mk->options, "topology", &value) &&
	    (!json_object_is_type(value, json_type_string) ||
	     !json_object_get_string_len(value)))
		return refuse(mk, "topology",
			      "the name of a file in topologies/, without .pb", value);
	if (pf_options_check_names(mk->options, mk->err) < 0)
		return -EINVAL;
	given = json_object_object_get_ex(mk->options, "device", &value);
	if (given && !(json_object_is_type(value, json_type_string)
			       ? split_device(json_object_get_string(value), &len, &id)
			       : pf_json_get_int(value, &id) && id >= 0))
		return refuse(mk, "device", "a device's id, or its name, as \"cpu:1\"",
			      value);
	if (json_object_object_get_ex(mk->options, "compile_portable_executable",
				      &portable) &&
	    json_object_get_boolean(portable) && (given || assigned))
		return pf_err_set(mk->err, -EINVAL,
				  "option %s: expected none, since what "
				  "compile_portable_executable makes is for any device",
				  assigned ? "device_assignment" : "device");
	if (!given)
		return 0;
	if (assigned || mk->replicas * mk->partitions > 1)
		return pf_err_set(
			mk->err, -EINVAL,
			"option device: expected a program for one device, "
			"found %s: device_assignment tells where each part goes",
			assigned ? "device_assignment, too" : "one for several");
	value = json_object_new_array();
	pf_json_append(value, json_object_new_int64(id));
	portable = json_object_new_array();
	pf_json_append(portable, value);
	pf_json_add(mk->options, "device_assignment", portable);
	return check_id(mk, "device", id);
}

static int write_all(struct maker *mk, struct pf_buf *ret)
{
	/* They are no fields, or set before the others. */
	static const char *const done[] = {
		"num_replicas", "num_partitions", "plugin", "device",
		"topology",     "input_names",    NULL
	};
	Pjrtfs__Options__BuildOptions *build;
	size_t len;
	char *room;

	mk->proto = pf_options_proto_new();
	if (!mk->proto)
		return no_memory(mk);
	build = mk->proto->executable_build_options;
	build->has_num_replicas = build->has_num_partitions = 1;
	build->num_replicas = mk->replicas;
	build->num_partitions = mk->partitions;
	json_object_object_foreach(mk->options, key, value) {
		int r = 0;

		if (!strcmp(key, "device_assignment"))
			r = set_assignment(mk, value);
		else if (!is_listed(key, done))
			r = pf_options_field_set(mk->proto, key, value, mk->err);
		if (r < 0)
			return r;
	}
	len = pjrtfs__options__compile_options__get_packed_size(mk->proto);
	room = pf_buf_reserve(ret, len);
	if (!room)
		return no_memory(mk);
	pjrtfs__options__compile_options__pack(mk->proto, (uint8_t *)room);
	ret->len += len;
	return 0;
}

int pf_options_encode(struct json_object *options, const struct pf_options_target *target,
		      struct pf_buf *ret, struct pf_err *err)
{
	PF_CLEANUP(maker_release) struct maker mk = { .target = target, .err = err };
	int r;

	if (options && !json_object_is_type(options, json_type_object))
		return pf_err_set(err, -EINVAL,
				  "options: expected a JSON object, found %.80s",
				  json_object_to_json_string(options));
	mk.options = options ? pf_json_copy(options) : json_object_new_object();
	if (!mk.options)
		return no_memory(&mk);
	json_object_object_foreach(mk.options, key, value) {
		(void)value;
		r = pf_options_check_key(key, err);
		if (r < 0)
			return r;
	}
	r = read_counts(&mk);
	r = r < 0 ? r : read_place(&mk);
	if (r < 0)
		return r;
	/* Plugins support no other way, such as one program for each partition. */
	if (mk.partitions > 1 && !has(mk.options, "use_spmd_partitioning"))
		pf_json_add(mk.options, "use_spmd_partitioning",
			    json_object_new_boolean(true));
	if (mk.partitions > 1 && target->shardy &&
	    !has(mk.options, "use_shardy_partitioner"))
		pf_json_add(mk.options, "use_shardy_partitioner",
			    json_object_new_boolean(true));
	return pf_json_complete(mk.options) ? write_all(&mk, ret) : no_memory(&mk);
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

const char *pf_options_topology(struct json_object *options, size_t *len)
{
	struct json_object *name = NULL;

	if (!json_object_object_get_ex(options, "topology", &name) ||
	    !json_object_is_type(name, json_type_string))
		return NULL;
	*len = (size_t)json_object_get_string_len(name);
	return *len ? json_object_get_string(name) : NULL;
}
