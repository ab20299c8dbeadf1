/* SPDX-License-Identifier: Apache-2.0 */
/* Compile options: which plugin, and which of its devices. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options_maker.h"

int pf_options_set_assignment(struct pf_options_maker *mk, const char *key,
			      struct json_object *value)
{
	if (!value)
		return pf_options_refuse(mk, key, "lists of device ids", value);
	/* It can be read once the numbers of replicas and partitions are known. */
	mk->assignment = value;
	return 0;
}

void pf_options_shape(const struct pf_options_maker *mk, int64_t *replicas,
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

int pf_options_set_device(struct pf_options_maker *mk, const char *key,
			  struct json_object *value)
{
	size_t len;

	if (json_object_is_type(value, json_type_string)) {
		if (split_device(json_object_get_string(value), &len, &mk->device))
			return 0;
	} else if (pf_options_int(value, &mk->device) && mk->device >= 0) {
		return 0;
	}
	return pf_options_refuse(mk, key, "a device's id, or its name, as \"cpu:1\"",
				 value);
}

/* The caller has asked pf_options_plugin: TARGET is what it wanted. */
int pf_options_set_plugin(struct pf_options_maker *mk, const char *key,
			  struct json_object *value)
{
	if (json_object_is_type(value, json_type_string))
		return 0;
	return pf_options_refuse(mk, key, "a plugin's name", value);
}

static int id_compare(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The transpose: JSON has a list a replica, the proto a list a partition. */
static int read_device_ids(struct pf_options_maker *mk)
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
		return pf_options_refuse(mk, key, want, mk->assignment);
	for (size_t i = 0; i < replicas; i++) {
		row = json_object_array_get_idx(mk->assignment, i);
		if (!json_object_is_type(row, json_type_array) ||
		    json_object_array_length(row) != partitions)
			return pf_options_refuse(mk, key, want, mk->assignment);
		for (size_t j = 0; j < partitions; j++) {
			int64_t *device = &mk->device_ids[j * replicas + i];

			id = json_object_array_get_idx(row, j);
			if (!pf_options_int(id, device) || *device < 0)
				return pf_options_refuse(mk, key,
							 "device ids of 0 or more", id);
		}
	}
	return 0;
}

static int check_unique(struct pf_options_maker *mk, size_t n)
{
	int64_t *sorted = malloc(n * sizeof(*sorted));
	int r = 0;

	if (!sorted)
		return pf_options_no_memory(mk);
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

static int allocate_assignment(struct pf_options_maker *mk)
{
	size_t replicas = (size_t)mk->build.num_replicas;
	size_t partitions = (size_t)mk->build.num_partitions;

	mk->partitions = calloc(partitions, sizeof(*mk->partitions));
	mk->partition_ptrs = calloc(partitions, sizeof(*mk->partition_ptrs));
	mk->device_ids = calloc(replicas * partitions, sizeof(*mk->device_ids));
	if (!mk->partitions || !mk->partition_ptrs || !mk->device_ids)
		return pf_options_no_memory(mk);
	return 0;
}

static void fill_assignment(struct pf_options_maker *mk)
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

static int check_ids(struct pf_options_maker *mk, const char *key, size_t n)
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

/* Where everything goes: a device, an assignment, or nothing, which is up to the plugin. */
int pf_options_assign(struct pf_options_maker *mk)
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
		return 0; /* pf_options_encode tells why */
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
