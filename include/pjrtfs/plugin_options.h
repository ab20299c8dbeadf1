/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_PLUGIN_OPTIONS_H
#define PJRTFS_PLUGIN_OPTIONS_H

#include <json-c/json.h>

#include "pjrtfs/base.h"
#include "pjrtfs/program.h"

/* Compile options: JSON from users, CompileOptionsProto for plugins. */

enum { PF_OPTIONS_MAX_DEVICES = 1024 /* that --devices can request */ };

/* The program and the devices that options are for. */
struct pf_options_target {
	const char *plugin;        /* its name */
	unsigned n_devices;        /* replicas x partitions must not exceed it */
	unsigned max_devices;      /* how many --devices could make of them; 0: none */
	const int64_t *device_ids; /* n_devices of them; NULL: any id is one */
	/* The program's own counts, which are the defaults.  0: it has none, which is 1. */
	int64_t num_replicas, num_partitions;
	bool shardy;    /* use_shardy_partitioner where there are several partitions */
	bool elsewhere; /* the devices are not known: any number of them, any id */
};

/*
 * Encode JSON compile options as a serialized CompileOptionsProto.
 *
 * options   an object, or NULL for the defaults.  Its keys are the names of the fields of
 *           CompileOptionsProto and of its executable_build_options, as
 *           compile_options.proto has them: booleans, integers (from 0, but -1 of
 *           device_ordinal and profile_version), efforts (numbers from -1 to 1), words for
 *           numbers of enums, lists, and messages in base64.  Further ones, and fields whose
 *           values differ: num_replicas, num_partitions (>= 1), device (an id, or
 *           "PLUGIN:ID": all of a program for one device goes there), device_assignment
 *           (replicas lists of partitions device ids, which also say how many there are),
 *           use_spmd_partitioning (the default is true if there are several partitions),
 *           use_shardy_partitioner (likewise, if TARGET is for that), argument_layouts (a
 *           list of shapes, "F32[2,3]{0,1}"), result_layout (a shape, or a list for a
 *           tuple), env_option_overrides (an object: flag name to string, bool, integer or
 *           double), plugin (TARGET's), topology (a name; the caller chose TARGET by
 *           pf_options_topology)
 * ret       the bytes are appended; deterministic for equal options
 *
 * Always writes num_replicas and num_partitions: plugins abort without them.
 * Errors: EINVAL an unknown key or a wrong type or value: the sentence names the key,
 * what was expected and what was found; ENOMEM.
 * Source: xla/pjrt/proto/compile_options.proto.
 */
int pf_options_encode(struct json_object *options, const struct pf_options_target *target,
		      struct pf_buf *ret, struct pf_err *err);

/*
 * The reverse: PROTO, a serialized CompileOptionsProto of LEN bytes, as JSON options: *RET, the
 * caller's.  pf_options_encode checks the values and fields' values that are their defaults are
 * left out, but for use_spmd_partitioning and use_shardy_partitioner of several partitions, whose
 * defaults differ.  Blocks not.
 * -EINVAL: not such a message, a field that pf_options_encode does not know, or a value that JSON
 * cannot say, as a layout with tiles; -ENOMEM.
 */
int pf_options_decode(const void *proto, size_t len, struct json_object **ret,
		      struct pf_err *err);

/*
 * XLA's flags in BYTES, a DebugOptions as text ("xla_cpu_enable_fast_math: false", one field a
 * line, with comments after "#") or serialized, as JSON options in *RET, the caller's: with
 * env_option_overrides, or with debug_options.  -EINVAL: neither, or text with a list, a message or
 * a flag that is set twice; -ENOMEM.
 */
int pf_options_debug(const char *bytes, size_t len, struct json_object **ret,
		     struct pf_err *err);

/*
 * May a user who does not own the mount have programs compiled with OPTIONS (JSON or NULL)?
 * debug_options, comp_envs and run_backend_only must not be there.  Flags in env_option_overrides must be known to change numbers or speed only, or be among
 * MORE (names, NULL-terminated; may be NULL), and their values be plain words or numbers.
 * 0, also for what pf_options_encode refuses; -EPERM: the sentence names the flag.
 */
int pf_options_check_flags(struct json_object *options, const char *const *more,
			   struct pf_err *err);

/*
 * Name the inputs of S, which is not shared yet, as "input_names" of OPTIONS says; without it nothing
 * changes.  -EINVAL: there are more or fewer inputs, or the names do not tell them apart; -ENOMEM.
 */
int pf_options_name_inputs(struct json_object *options, struct pf_signature *s,
			   struct pf_err *err);

/*
 * The plugin that OPTIONS (an object, or NULL) name, by "plugin", or by "device" as in
 * "cpu:1": LEN bytes at *RET, borrowed from OPTIONS; NULL: none.  0; -EINVAL: no names,
 * or two that differ.
 */
int pf_options_plugin(struct json_object *options, const char **ret, size_t *len,
		      struct pf_err *err);

/* The topology that OPTIONS (an object, or NULL) name: LEN bytes, borrowed; NULL: none. */
const char *pf_options_topology(struct json_object *options, size_t *len);

/*
 * The options of OWN (an object or NULL), and of DEFAULTS (an object) those that OWN lacks;
 * neither is changed, nothing is shared.  Flags of env_option_overrides are merged one by one.
 * Options that place a program are taken as a whole: if OWN has plugin, device or
 * device_assignment, those of DEFAULTS are dropped; if it has device_assignment, so are their
 * num_replicas and num_partitions.  The caller's; NULL: no memory.
 */
struct json_object *pf_options_merge(struct json_object *own,
				     struct json_object *defaults);

/*
 * A serialized DeviceAssignmentProto as options name it: a list for each replica, of the
 * device id of each partition.  *RET is the caller's.  -EINVAL: PROTO is not one;
 * -ENOMEM.
 */
int pf_options_assignment_json(const void *proto, size_t len, struct json_object **ret,
			       struct pf_err *err);

/* Options that a plugin's client is created with: JSON, or words of the command line. */

enum {
	PF_CREATE_NAME_MAX = 255,    /* bytes of an option's name */
	PF_CREATE_TEXT_MAX = 65536,  /* bytes of a string */
	PF_CREATE_LIST_MAX = 65536,  /* integers of a list */
	PF_CREATE_OPTIONS_MAX = 256, /* options of a plugin */
};

/*
 * Can option NAME have VALUE?  A string, an integer of 64 bits, a boolean, a double that a
 * float can hold, or a list of integers; and for options that are known to make plugins abort
 * or hang, a value that they take.  The plugin judges the others.
 * 0; -EINVAL: the sentence says what was expected and what was found.
 */
int pf_create_option_check(const char *name, struct json_object *value,
			   struct pf_err *err);

/*
 * Read TEXT, "KEY=VALUE" or "KEY:TYPE=VALUE" with TYPE int64, string, float, bool or
 * int64_list (as in "1,2"), and check it.  Without a type, the value decides: true and false are
 * booleans, digits an integer, several with commas a list, a number with a point or an
 * exponent a float; an option that is known has its type; all else is a string.
 *
 * ret_name   the key, the caller's; ret_value: its value, the caller's
 * -EINVAL as above, or no such text; -ENOMEM.
 */
int pf_create_option_parse(const char *text, char **ret_name,
			   struct json_object **ret_value, struct pf_err *err);

#endif
