/* Compile options: JSON for people, CompileOptionsProto for plugins. */
#ifndef PJRTFS_FORMATS_OPTIONS_H
#define PJRTFS_FORMATS_OPTIONS_H

#include <json-c/json.h>

#include "pjrtfs/base/buf.h"
#include "pjrtfs/base/err.h"

/*
 * Encode JSON compile options as a serialized CompileOptionsProto.
 *
 * options   an object, or NULL for the defaults (1 replica, 1 partition).  Keys:
 *           num_replicas, num_partitions (>= 1), device_assignment (replicas lists of
 *           partitions device ids), use_spmd_partitioning, use_shardy_partitioner,
 *           use_auto_spmd_partitioning, compile_portable_executable,
 *           allow_spmd_sharding_propagation_to_parameters, ..._to_output (list of
 *           bool), profile_version, matrix_unit_operand_precision,
 *           env_option_overrides (an object: flag name to string, bool, integer or
 *           double)
 * n_devices how many devices there are: replicas x partitions must not exceed it
 * ret       the bytes are appended; deterministic for equal options
 *
 * Always writes num_replicas and num_partitions: plugins abort without them.
 * Errors: EINVAL an unknown key or a wrong type or value: the sentence names the key,
 * what was expected and what was found; ENOMEM.
 * Source: xla/pjrt/proto/compile_options.proto.
 */
int pf_options_encode(struct json_object *options, int n_devices, struct pf_buf *ret,
		      struct pf_err *err);

#endif
