/* SPDX-License-Identifier: Apache-2.0 */
/* What options.c and options_devices.c share. */
#ifndef PJRTFS_SRC_FORMATS_OPTIONS_MAKER_H
#define PJRTFS_SRC_FORMATS_OPTIONS_MAKER_H

#include "compile_options.pb-c.h"
#include "pjrtfs/formats/options.h"

/* The messages under construction, and the arrays that they point to. */
struct pf_options_maker {
	Pjrtfs__Options__CompileOptions top;
	Pjrtfs__Options__BuildOptions build;
	Pjrtfs__Options__DeviceAssignment devices;
	const struct pf_options_target *target;
	struct json_object *assignment; /* borrowed; NULL if not given */
	int64_t device;                 /* that "device" names, or -1 */
	bool has_shardy;                /* use_shardy_partitioner is given */
	bool no_spmd; /* use_spmd_partitioning is false, and not for lack of it */
	Pjrtfs__Options__DeviceAssignment__Partition *partitions;      /* owned */
	Pjrtfs__Options__DeviceAssignment__Partition **partition_ptrs; /* owned */
	int64_t *device_ids;                                           /* owned */
	Pjrtfs__Options__CompileOptions__OverrideEntry *entries;       /* owned */
	Pjrtfs__Options__CompileOptions__OverrideEntry **entry_ptrs;   /* owned */
	Pjrtfs__Options__Override *overrides;                          /* owned */
	struct pf_err *err;
};

/* -ENOMEM, with its sentence. */
int pf_options_no_memory(struct pf_options_maker *mk);

/* -EINVAL: option KEY wants WANT ("true or false"), and FOUND is something else. */
int pf_options_refuse(struct pf_options_maker *mk, const char *key, const char *want,
		      struct json_object *found);

/* The integer VALUE in *RET; false if it is none that an int64_t holds. */
bool pf_options_int(struct json_object *value, int64_t *ret);

/* What the keys device_assignment, device and plugin set. */
int pf_options_set_assignment(struct pf_options_maker *mk, const char *key,
			      struct json_object *value);
int pf_options_set_device(struct pf_options_maker *mk, const char *key,
			  struct json_object *value);
int pf_options_set_plugin(struct pf_options_maker *mk, const char *key,
			  struct json_object *value);

/* How many replicas and partitions a device_assignment has; 0: there is none. */
void pf_options_shape(const struct pf_options_maker *mk, int64_t *replicas,
		      int64_t *partitions);

/* Fill in the assignment, if there is one; replicas and partitions are known. */
int pf_options_assign(struct pf_options_maker *mk);

#endif
