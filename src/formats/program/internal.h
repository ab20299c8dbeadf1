/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PJRTFS_FORMATS_PROGRAM_INTERNAL_H
#define PJRTFS_FORMATS_PROGRAM_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pjrtfs/base.h"
#include "pjrtfs/program.h"

/* Borrowed bytes.  Bytecode is read from a struct pf_span (bytecode.h), which gets shorter; the bytes of a
 * struct pf_shared_bytes can change meanwhile. */
struct pf_slice {
	const uint8_t *p;
	size_t len;
};

static inline bool pf_slice_is(struct pf_slice slice, const char *text)
{
	return slice.len == strlen(text) && !memcmp(slice.p, text, slice.len);
}

/* Arguments or results; limits the memory that malformed programs cost. */
enum { PF_MAX_PARAMS = 65536 };

/* Walking a serialized protocol buffer in place.  (proto.c) */

enum pf_wire_type {
	PF_WIRE_VARINT = 0,
	PF_WIRE_FIXED64 = 1,
	PF_WIRE_BYTES = 2, /* also strings, messages and packed numbers */
	PF_WIRE_FIXED32 = 5,
};

struct pf_field {
	uint32_t number;
	enum pf_wire_type type;
	uint64_t value;        /* of a varint */
	struct pf_slice bytes; /* borrowed; of all but a varint */
};

/*
 * Take the next field off the start of *REST.  Returns 1; 0 at the end; -EINVAL: not a
 * field (*REST then starts at what is wrong): a field number of 0, a group or an unknown
 * wire type, a varint of more than 64 bits, more bytes than are left.
 */
int pf_proto_next(struct pf_slice *rest, struct pf_field *ret);

/* Step over fields up to the next one NUMBER that holds bytes, which become *RET.  Returns as above. */
int pf_proto_next_bytes(struct pf_slice *rest, uint32_t number, struct pf_slice *ret);

/* Take one number off the start of *REST, a packed field's bytes.  0; -EINVAL: no number is left. */
int pf_proto_varint(struct pf_slice *rest, uint64_t *ret);

/*
 * Walk to the end of *REST; *RET is the last field NUMBER that holds bytes, p is NULL if
 * no field does.  0; -EINVAL as above.
 */
int pf_proto_find(struct pf_slice *rest, uint32_t number, struct pf_slice *ret);

/* Append the number N, or FIELD with its bytes. */
void pf_proto_put_varint(struct pf_buf *out, uint64_t n);
void pf_proto_put(struct pf_buf *out, const struct pf_field *field);

/* A field to be found: its bytes, or its number. */
struct pf_wanted {
	uint32_t number;
	struct pf_slice *bytes;
	uint64_t *value;
};

/* Walk to the end of *REST and set the last one of each of the N fields WANTED that is there.
 * 0; -EINVAL as above. */
int pf_proto_find_all(struct pf_slice *rest, const struct pf_wanted *wanted, size_t n);

/* The parts of a HloModuleProto that are unpacked.  (hlo.c, skeleton.c, callbacks.c) */

/* xla.PrimitiveType: all but arrays. */
enum {
	PF_XLA_TUPLE = 13,
	PF_XLA_OPAQUE = 14,
	PF_XLA_TOKEN = 17,
};

/* All slices point into the module's bytes, which are the caller's own; p is NULL for parts that it lacks. */
struct pf_hlo_module {
	struct pf_slice all;
	struct pf_slice name;
	struct pf_slice entry_name;
	uint64_t entry_id;
	struct pf_slice program_shape;      /* pjrtfs.hlo.ProgramShape */
	struct pf_slice input_output_alias; /* pjrtfs.hlo.InputOutputAlias */
	struct pf_slice buffer_donor;       /* pjrtfs.hlo.BufferDonor */
};

/* What a program has that no plugin can execute, or takes. */
struct pf_program_found {
	bool symbolic_types; /* of bytecode: some type has a symbolic dimension */
	bool dynamic_while; /* a "while" whose only value has a dynamic dimension: XLA aborts on that */
	bool feed; /* an infeed or an outfeed */
};

/* Set in *FOUND what PROTO, a HloModuleProto, has of these, up to where it is malformed. */
void pf_hlo_look(struct pf_slice proto, struct pf_program_found *found);

/* Find the parts of the module in PROTO.  0, or -EINVAL: PROTO is something else.  Copies nothing. */
int pf_hlo_module_find(struct pf_slice proto, struct pf_hlo_module *ret,
		       struct pf_err *err);

/* Is PROTO, a computation, MODULE's entry?  It steps over instructions without looking into them.
 * 0, or -EINVAL: it is none. */
int pf_hlo_is_entry(const struct pf_hlo_module *module, struct pf_slice proto, bool *ret);

/*
 * Append a HloModuleProto to *RET that has of PROTO, a module or with WITH_CONFIG one in its field
 * 1, what this library reads: the module's own fields, the entry's parameters, and the computations
 * with callbacks.  Reads each byte of PROTO at most once.
 *
 * 0; -EINVAL: PROTO is something else, or that is more than 64 MiB; -ENOMEM.
 */
int pf_hlo_skeleton(struct pf_shared_bytes proto, bool with_config, struct pf_buf *ret,
		    struct pf_err *err);

/*
 * Find the names that the framework gave to the entry computation's parameters
 * (metadata.op_name): NAMES[i] for parameter i < N, unchanged if it has no name.  0, or -EINVAL.
 */
int pf_hlo_module_names(const struct pf_hlo_module *module, struct pf_slice *names,
			size_t n, struct pf_err *err);

/* Fields of HloModuleProtoWithConfig, HloModuleProto, HloComputationProto, HloInstructionProto:
 * xla/service/hlo.proto. */
enum {
	PF_CONFIG_MODULE = 1,

	PF_MODULE_NAME = 1,
	PF_MODULE_ENTRY_NAME = 2,
	PF_MODULE_COMPUTATIONS = 3,
	PF_MODULE_PROGRAM_SHAPE = 4, /* host_program_shape */
	PF_MODULE_ENTRY_ID = 6,
	PF_MODULE_SCHEDULE = 7,
	PF_MODULE_ALIASES = 8, /* input_output_alias */
	PF_MODULE_OUTPUT_SHARDING = 12,
	PF_MODULE_PARAMETER_SHARDINGS = 14,
	PF_MODULE_DONORS = 18, /* buffer_donor */

	PF_COMPUTATION_NAME = 1,
	PF_COMPUTATION_INSTRUCTIONS = 2,
	PF_COMPUTATION_ID = 5,

	PF_INSTRUCTION_OPCODE = 2,
	PF_INSTRUCTION_SHAPE = 3,
	PF_INSTRUCTION_METADATA = 7,
	PF_INSTRUCTION_PARAMETER_NUMBER = 9,
	PF_INSTRUCTION_TARGET = 28,
	PF_INSTRUCTION_ID = 35,
	PF_INSTRUCTION_OPERANDS = 36,
	PF_INSTRUCTION_BACKEND_CONFIG = 43,
	PF_INSTRUCTION_SIDE_EFFECT = 65,
};

/* The name of the callback's target, static, if an instruction with this OPCODE and TARGET is one;
 * else NULL. */
const char *pf_callback_target(struct pf_slice opcode, struct pf_slice target);

struct Pjrtfs__Hlo__Shape;

/*
 * Fill PARAM's dtype, shape, layout and memory_space from SHAPE.  NULL, or why it cannot be an
 * argument or a result ("is a tuple: …"; static).
 */
const char *pf_hlo_array(const struct Pjrtfs__Hlo__Shape *shape, struct pf_param *param);

/*
 * Set the tiles of SIG's arguments and results, as far as the module has them and arrays of
 * that rank can be split so; a malformed sharding is ignored.  0 or -ENOMEM.  (signature_tiles.c)
 */
int pf_hlo_module_tiles(const struct pf_hlo_module *module, struct pf_signature *sig);

/*
 * Set SIG's callbacks to those that MODULE calls.  -EINVAL: as for pf_signature_parse; -ENOMEM.
 * SIG owns what it has got even then.
 */
int pf_hlo_module_callbacks(const struct pf_hlo_module *module, struct pf_signature *sig,
			    struct pf_err *err);

/* Free what CALLBACK owns. */
void pf_callback_release(struct pf_callback_sig *callback);

/*
 * Find the module in LEN bytes of a serialized jax.export.Exported.  Copies no bytes.
 * -EINVAL: it is none, its parts lie outside, or an argument has no fixed shape.  (exported.c)
 * Source: jax/_src/export/serialization.fbs; flatbuffers.dev/internals.
 */
int pf_exported_find(const void *bytes, size_t len, struct pf_program_facts *ret,
		     struct pf_err *err);

/* The next step after symbolic dimensions. */
#define PF_GIVE_NUMBERS                                                                  \
	"export the function with numbers for its symbolic dimensions, as "              \
	"import_torch.py and import_jax.py of the documentation's examples do"

/* Facts in MLIR that need no compiler.  (mlir.c, and bytecode*.c for bytecode) */

enum { PF_MLIR_MAX_NESTING = 512 };

/*
 * Go once through LEN bytes of MLIR TEXT: strings and comments are stepped over, all else
 * is taken as it is, since only a compiler knows the grammar of every dialect.  Adds the facts
 * that it finds to *RET, in which they are zeros.
 *
 * -EINVAL with a sentence that begins with the line: brackets nested deeper than
 * PF_MLIR_MAX_NESTING (plugins overflow their stack on those); an operation of a dialect
 * in which people have programs, but which no plugin knows; an argument or a result of
 * main without a fixed shape; a "while" whose only value has none; an infeed or an outfeed; a quantized type; a constant
 * that was left out when the text was printed.
 */
int pf_mlir_text(const char *text, size_t len, struct pf_program_facts *ret,
		 struct pf_err *err);

/* Set *ERR: XLA aborts on a "while" that is in the program, in LINE of text; 0: it is not a text.  -EINVAL. */
int pf_mlir_dynamic_while(size_t line, struct pf_err *err);

/* The same of an operation that takes an array from the host, or gives it one, while the program runs. */
int pf_mlir_feed(size_t line, struct pf_err *err);

/*
 * The names of the values that are main's arguments, without their "%", in N slices of TEXT; AT is
 * the "arguments" that pf_mlir_text found.  Returns how many there are, which may be more.
 */
size_t pf_mlir_arguments(const char *text, size_t len, size_t at, struct pf_slice *names,
			 size_t n);

/*
 * The same facts from LEN bytes of MLIR bytecode, which a portable artifact is, too.  Bytecode
 * that is malformed, or larger than any module needs, has none: the plugin's error is better.
 * True: JAX exported it for shapes that are not fixed; other frameworks leave no word of that, but
 * perhaps symbolic types.  *FOUND stays as it is if the bytecode's version has no properties.
 * Source: mlir/docs/BytecodeFormat.md, mlir/lib/IR/BuiltinDialectBytecode.td.
 */
bool pf_mlir_bytecode(const void *bytes, size_t len, struct pf_program_facts *ret,
		      struct pf_program_found *found);

/* Has main, in LEN bytes of bytecode, an argument or a result with a symbolic dimension?  (bytecode_types.c) */
bool pf_mlir_bytecode_symbolic(const void *bytes, size_t len);

/*
 * As pf_program_calls, for LEN bytes of MLIR bytecode; each target is found once.  False: it is
 * malformed, of a version without properties, or has another kind of custom call, or no memory is
 * left; FOUND has got none then.
 */
bool pf_mlir_bytecode_calls(const void *bytes, size_t len,
			    const struct pf_call_visitor *found);

enum {
	PF_MLIR_FREE_NAME = 32, /* bytes of a name, with NUL */
	/* Bytes of main's declaration, or of its attributes and types; beyond them it keeps its tokens. */
	PF_MLIR_MAX_DECLARATION = 1 << 24,
};

/* A NAME that does not occur in TEXT.  False: there are many like it. */
bool pf_mlir_free_name(const char *text, size_t len, char name[PF_MLIR_FREE_NAME]);

/* As pf_program_drop_tokens, for text and for bytecode. */
bool pf_mlir_drop_tokens(struct pf_program_facts *facts, const void *bytes, size_t len,
			 struct pf_program_edits *edits);
bool pf_mlir_bytecode_drop_tokens(struct pf_program_facts *facts, const void *bytes,
				  size_t len, struct pf_program_edits *edits);

/* The signature that a program itself declares.  (declared_arrays.c, mlir.c, bytecode_types.c) */

/* Give SIG room for N inputs, or outputs, which are 0.  -EINVAL: more than any program has; -ENOMEM. */
int pf_declared_inputs(struct pf_signature *sig, size_t n, struct pf_err *err);
int pf_declared_outputs(struct pf_signature *sig, size_t n, struct pf_err *err);

/* Set *ERR: main's WHAT ("argument") number I is FOUND, which is not an array of a fixed shape.  -EINVAL. */
int pf_declared_refuse(const char *what, size_t i, struct pf_slice found,
		       struct pf_err *err);

/* Make PARAM's dtype and shape those of TYPE, a type in text.  False: it is not an array of a fixed
 * shape, or of an unknown element type. */
bool pf_declared_array(struct pf_slice type, struct pf_param *param);

/* Is that an array that can be? */
bool pf_declared_fits(const struct pf_param *param);

/*
 * Make SIG's inputs and outputs those of main, in a text that has FACTS, or in LEN bytes of bytecode,
 * without names.  -EINVAL: main is not understood, or has other types than arrays of fixed shapes;
 * -ENOMEM.  SIG owns what it has got even then.
 */
int pf_mlir_declared(const struct pf_program_facts *facts, const char *text, size_t len,
		     struct pf_signature *sig, struct pf_err *err);
int pf_mlir_bytecode_declared(const void *bytes, size_t len, struct pf_signature *sig,
			      struct pf_err *err);

/* The value of KEY in TEXT, a dictionary of attributes, if it is an unsigned number of 64 bits
 * ("{index = 0 : ui64}"). */
bool pf_mlir_ui64(const char *text, size_t len, const char *key, uint64_t *ret);

#endif
