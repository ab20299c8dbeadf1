/* SPDX-License-Identifier: Apache-2.0 */
/* What a compiled program takes and gives, read from XLA's HLO protos. */
#ifndef PJRTFS_FORMATS_HLO_H
#define PJRTFS_FORMATS_HLO_H

#include <json-c/json.h>

#include "pjrtfs/base/err.h"
#include "pjrtfs/formats/dtype.h"
#include "pjrtfs/formats/shape.h"
#include "pjrtfs/formats/tiles.h"

/* One argument or one result of a program, as one device sees it. */
struct pf_param {
	char *name; /* owned; never NULL: "x", "params['w']", or "0" where it has none */
	char *path; /* inputs: owned; the name as pf_param_path writes it */
	bool named; /* inputs: by the framework that made the program */
	enum pf_dtype dtype;
	struct pf_shape shape;
	bool row_major; /* the device layout is the default, row-major one */
	unsigned minor_to_major[PF_MAX_RANK]; /* the layout; rank numbers */
	bool donated;         /* inputs: may be donated (aliased or a buffer donor) */
	int64_t memory_space; /* XLA's number: 0 the device's default one, 5 the host's */
	int alias_output;     /* inputs: the output it aliases, or -1 */
	/* Owned: which part of a larger array each partition has; NULL: it is not told. */
	struct pf_tiles *tiles;
};

/* A program's signature.  Immutable once made. */
struct pf_signature {
	char *name; /* owned; the module's name */
	size_t n_inputs, n_outputs;
	struct pf_param *inputs;  /* owned, n_inputs of them */
	struct pf_param *outputs; /* owned, n_outputs; a tuple result flattened */
};

/*
 * Read the signature out of an optimized program: PROTO is a serialized HloModuleProto,
 * or with WITH_CONFIG a HloModuleProtoWithConfig (what PJRT_Executable_OptimizedProgram
 * gives with format "hlo_with_config"), whose field 1 is one.
 *
 * ret   on success, the caller's; pf_signature_free
 * Types and layouts come from host_program_shape, aliases from input_output_alias and
 * buffer_donor, names from the entry computation's parameters' metadata.op_name, else
 * from the program shape's parameter_names, tiles from spmd_parameters_shardings and
 * spmd_output_sharding, where the partitioner left them.
 *
 * Errors: EINVAL not a proto, no program shape, a tuple or token or bounded-dynamic
 * parameter (a sentence names it), an unknown element type; ENOMEM.  Does not block.
 * Source: xla/service/hlo.proto, xla/xla_data.proto.
 */
int pf_signature_parse(const void *proto, size_t len, bool with_config,
		       struct pf_signature **ret, struct pf_err *err);

/*
 * Where the HloModuleProto is in PROTO, which is one, or with WITH_CONFIG holds one: *OFF and
 * *MODULE_LEN, in bytes.  -EINVAL: there is none.
 */
int pf_hlo_unwrap(const void *proto, size_t len, bool with_config, size_t *off,
		  size_t *module_len, struct pf_err *err);

/*
 * NAME, a parameter's as JAX writes the place of a leaf in its arguments, as a path:
 * "params['layers'][3].mu" becomes "params/layers/3/mu", so that it can be compared with a file's
 * below a directory.  A name that is written otherwise is its own path.  The caller frees it.
 * NULL: no memory.  Source: jax.tree_util.keystr.
 */
char *pf_param_path(const char *name);

/*
 * Take the first input off SIGNATURE, which nobody shares yet: it is the number of the platform, which
 * callers do not pass.  -EINVAL: it is no scalar of S32.
 */
int pf_signature_drop_platform(struct pf_signature *signature, struct pf_err *err);

/* Call PARAM, an input that is not "named", NAME (LEN bytes; a copy is made).  -ENOMEM. */
int pf_param_name(struct pf_param *param, const char *name, size_t len);

/* Free a signature; NULL is allowed. */
void pf_signature_free(struct pf_signature *signature);

/*
 * The signature as a JSON object with name, platform, inputs and outputs, as pjrtfs(5)
 * describes signature.json.  A layout is XLA's: the dimensions, the fastest varying one
 * first.  What is split has "sharding", as in struct pf_tiles.  An input that aliases an output also has alias_output.  MEMORY is
 * the kind of the devices' default memory ("device").  The caller puts it (json_object_put).  NULL: no memory.
 */
struct json_object *pf_signature_json(const struct pf_signature *signature,
				      const char *platform, const char *memory);

#endif
