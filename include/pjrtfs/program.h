/* SPDX-License-Identifier: Apache-2.0 */
/* Program files: their formats, and the facts in them that need no compiler. */
#ifndef PJRTFS_PROGRAM_H
#define PJRTFS_PROGRAM_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/array.h"
#include "pjrtfs/base.h"
#include "pjrtfs/sharding.h"

/* Signatures of compiled programs, read from XLA's HLO protos. */

/* One argument or one result of a program, as one device sees it. */
struct pf_param {
	char *name; /* owned; never NULL: "x", "params['w']", or "0" where it has none */
	bool named; /* inputs: by the framework or the text that the program is */
	bool in_text; /* … by the text */
	enum pf_dtype dtype;
	struct pf_shape shape;
	struct pf_layout layout; /* on the device */
	bool donated;            /* inputs: may be donated (aliased or a buffer donor) */
	int64_t memory_space; /* XLA's number: 0 the device's default one, 5 the host's */
	int alias_output;     /* inputs: the output it aliases, or -1 */
	/* Owned: which part of a larger array each partition has; NULL: not known. */
	struct pf_tiles *tiles;
};

/*
 * How an array of DTYPE and SHAPE, which came as UNTYPED says, becomes one that WANT takes, as the end
 * of a sentence: ": x.astype(\"float32\")", or "" where no change of type and shape does it.  Printed
 * to DST of LEN bytes; returns DST.
 */
const char *pf_param_advice(char *dst, size_t len, const struct pf_param *want,
			    enum pf_dtype dtype, const struct pf_shape *shape,
			    enum pf_untyped untyped);

/* A callback: what the program asks its host by custom calls with one index. */
struct pf_callback_sig {
	uint64_t index; /* the calls' attribute "index" */
	char *target;   /* owned; of the custom calls */
	bool ordered;   /* the calls take or give a token */
	bool side_effect;
	size_t n_inputs, n_outputs; /* without tokens */
	/* Owned; only dtype and shape are set: hosts see row-major arrays without a name. */
	struct pf_param *inputs, *outputs;
};

/* A program's signature.  Immutable once made. */
struct pf_signature {
	char *name; /* owned; the module's name */
	size_t n_inputs, n_outputs;
	struct pf_param *inputs;  /* owned, n_inputs of them */
	struct pf_param *outputs; /* owned, n_outputs; a tuple result flattened */
	bool lays_out;            /* an output is not row-major */
	bool names_given;         /* users named the inputs */
	size_t n_callbacks;
	struct pf_callback_sig
		*callbacks; /* owned, n_callbacks of them, in order of index */
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
 * spmd_output_sharding, where the partitioner left them.  A callback is a custom call of JAX's
 * targets of host callbacks, or of pjrtfs_callback; of several calls with one index the first
 * counts.
 *
 * Errors: EINVAL not a proto, no program shape, a tuple or token or bounded-dynamic
 * parameter (a sentence names it), an unknown element type, a callback without an index or
 * with an array that is not row-major, more than 256 callbacks; ENOMEM.  Does not block.
 * Source: xla/service/hlo.proto, xla/xla_data.proto.
 */
int pf_signature_parse(struct pf_shared_bytes proto, bool with_config,
		       struct pf_signature **ret, struct pf_err *err);

/*
 * The HloModuleProto in PROTO, which is one, or with WITH_CONFIG holds one: *RET is a part of PROTO.
 * -EINVAL: it holds none.
 */
int pf_hlo_unwrap(struct pf_shared_bytes proto, bool with_config,
		  struct pf_shared_bytes *ret, struct pf_err *err);

/*
 * Which of N paths (N at least 1), without SKIP bytes of each, is the name of which of the N inputs of
 * S from FIRST on?  Paths and names are compared as lists of segments, split at '.', '/', '\\', brackets
 * and quotes; a segment of digits is a number.  Names are taken without segments that all N begin with,
 * and, if they do not match otherwise, both sides without a last segment "value".
 *
 * leaf   N numbers: on 1, leaf[i] is the path of input FIRST + i
 *
 * 1: all are matched by name; 0: they are not, or two names are equal; -ENOMEM.  Does not block.
 * Source: jax.tree_util.keystr.
 */
int pf_params_match(const struct pf_signature *s, size_t first, char *const *paths,
		    size_t skip, size_t n, size_t *leaf);

/* Have the inputs of S names, of a framework, a text or a user, that tell them apart?  Numbers behind one word
 * ("arg0", "arg1") are none.  1 or 0; -ENOMEM. */
int pf_params_known(const struct pf_signature *s);

/* Have two inputs of S equal names, as pf_params_match compares them?  1: PAIR has their numbers; 0; -ENOMEM. */
int pf_params_equal(const struct pf_signature *s, size_t pair[2]);

/* A word of a line of inputs: an array, or those of a directory. */
struct pf_line_word {
	const char *word; /* borrowed: as the user wrote it */
	const char *
		param; /* borrowed: the input that it shall be, or those below; NULL: not said */
	char *const *paths; /* borrowed: of the arrays */
	size_t first,
		n;      /* the first array's number in the line, and how many there are */
	size_t skip;    /* bytes of the directory's name before each path's own */
	bool directory; /* of arrays that users named */
};

#define PF_NO_ARRAY SIZE_MAX

/*
 * Which arrays of N_WORDS words are the inputs of S?  Names are compared as pf_params_match does.  A
 * word with a PARAM, or, if users gave the names of S, one that is a name, is that input.  The leaves
 * of a directory are inputs below one prefix, that of the most of them, wherever these stand; those that
 * no input is called as do not count.  What is left are the inputs that are left, in their order.
 *
 * array_of   for each input the number of its array
 *
 * 0; -EINVAL: *ERR says which input has no array, or which word is none, has two places or
 * another one than its name; -ENOMEM.  Does not block.
 */
int pf_params_assign(const struct pf_signature *s, const struct pf_line_word *words,
		     size_t n_words, size_t *array_of, struct pf_err *err);

/*
 * Refuse N arrays for S in their order, if their NAMES are those of its inputs in another order.  0; -EINVAL,
 * -ENOMEM.  Does not block.
 */
int pf_params_check_order(const struct pf_signature *s, char *const *names, size_t n,
			  struct pf_err *err);

/*
 * Take the first input off SIGNATURE, which is not shared yet: it is the number of the
 * platform, which callers do not pass.  -EINVAL: it is not a scalar of S32.
 */
int pf_signature_drop_platform(struct pf_signature *signature, struct pf_err *err);

/* Name PARAM, an input that is not "named", NAME (LEN bytes; a copy is made).
 * -ENOMEM. */
int pf_param_name(struct pf_param *param, const char *name, size_t len);

/*
 * Append a HloModuleProto without instructions to OUT, from which pf_signature_parse reads SIGNATURE
 * again, but for names, tiles and callbacks; with PLATFORM as it was before
 * pf_signature_drop_platform.
 */
void pf_signature_module(const struct pf_signature *signature, bool platform,
			 struct pf_buf *out);

/* Free a signature; NULL is allowed. */
void pf_signature_free(struct pf_signature *signature);

/*
 * The signature as a JSON object with name, platform, inputs and outputs, as pjrtfs(5)
 * describes signature.json.  A layout is XLA's: the dimensions, the fastest varying one
 * first.  What is split has "sharding", as in struct pf_tiles.  An input that aliases an
 * output also has alias_output.  MEMORY is the kind of the devices' default memory
 * ("device").  "callbacks" is there if the program has any.  The caller puts it
 * (json_object_put).
 */
struct json_object *pf_signature_json(const struct pf_signature *signature,
				      const char *platform, const char *memory);

enum pf_program_format {
	PF_PROGRAM_NONE,   /* no listed extension: a scratch file */
	PF_PROGRAM_MLIR,   /* .mlir   StableHLO text */
	PF_PROGRAM_MLIRBC, /* .mlirbc MLIR bytecode or portable artifact */
	PF_PROGRAM_HLO,    /* .hlo.pb a serialized HloModuleProto */
	PF_PROGRAM_JAX,    /* .jax_exported jax.export's serialization */
	PF_PROGRAM_NATIVE, /* .pjrtexe a plugin's compiled program, in our container */
};

enum { PF_PROGRAM_PLATFORMS = 64 }; /* bytes of their names, with NUL */

/* Facts about a program that need no compiler. */
struct pf_program_facts {
	size_t off, len;      /* the bytes for the plugin: all, or what the file wraps */
	int64_t num_replicas; /* the module's mhlo.num_replicas; 0: it has none */
	int64_t num_partitions; /* mhlo.num_partitions, likewise */
	bool shardy;            /* its shardings are for the Shardy partitioner */
	bool scheduled; /* HLO that XLA has optimized: its operations have an order */
	/* Major, minor, patch of the StableHLO that a portable artifact is written in;
	 * all 0: it is not one, or has no version. */
	unsigned stablehlo[3];
	size_t arguments; /* of text: where main's arguments begin, in bytes; 0: not known */
	size_t main;      /* where its declaration begins, if arguments is not 0 */
	/* Of text: tokens (JAX's ordered effects) are among main's types; of bytecode: they are among
	 * the program's. */
	bool tokens;
	/* Its first argument is the position of the platform in platforms: JAX passes that, callers
	 * of the function do not. */
	bool takes_platform;
	char platforms
		[PF_PROGRAM_PLATFORMS]; /* "cpu cuda": those it was exported for; "": any */
};

/*
 * The format that file name NAME's extension stands for; *STEM_LEN (if not NULL) becomes
 * the bytes before the extension.  A name that is nothing but an extension has none.
 */
enum pf_program_format pf_program_format_of(const char *name, size_t *stem_len);

/* The extension of FORMAT (".mlir"; static); NULL: FORMAT has none. */
const char *pf_program_extension(enum pf_program_format format);

/*
 * Refuse files that cannot be of FORMAT before a plugin sees them, and read the facts of the
 * others.
 *
 * Refused: an empty file, MLIR bytecode in .mlir and text in .mlirbc, a gzip, zip or Python
 * file, an operation in text of a dialect that no plugin knows, brackets in text nested
 * deeper than 512 (plugins overflow their stack on those), an export of JAX that has no
 * fixed shapes, a "while" whose only value has a bounded dynamic dimension, a module by itself that JAX made for several platforms, which it does not
 * name, a text whose main has no fixed shapes, that has quantized types or a constant without its
 * numbers.  A HloModuleProtoWithConfig, which plugins write but do not read, is taken
 * for the module in it.
 *
 * ret   filled on success
 * 0, or -EINVAL with a sentence that says what was expected, what was found, and what
 * would be right.  Reads all of a text once; does not block.
 */
int pf_program_check(enum pf_program_format format, const void *bytes, size_t len,
		     struct pf_program_facts *ret, struct pf_err *err);

/* Other bytes for some of a program: DROP bytes at AT become LEN bytes. */
struct pf_program_edit {
	size_t at, drop, from, len; /* the new bytes stand at FROM of all */
};

/* Edits of a program.  All zeros: none. */
struct pf_program_edits {
	struct pf_buf list;  /* owned; of struct pf_program_edit, by their places */
	struct pf_buf bytes; /* owned */
};

/*
 * Take the tokens off the main of a program of LEN BYTES that has FACTS, among them tokens, since
 * plugins execute only programs of arrays.  EDITS, which are none, become those that give the
 * program another main, without tokens, which calls the program's under another name with a token
 * that it creates.  It has the names and attributes of the arguments and results; FACTS become
 * those of the program with the EDITS.  False: FACTS stay, and the EDITS are of no use, since main
 * has no tokens, has more than 16 MiB, or is not understood, or bytecode is of a version without
 * properties; pf_signature_parse then refuses the compiled program if it has tokens.  EDITS can fail
 * for lack of memory, of which they need some times the size of the declaration, and for bytecode
 * also of its tables.
 */
bool pf_program_drop_tokens(struct pf_program_facts *facts, const void *bytes, size_t len,
			    struct pf_program_edits *edits);

/* Is A, a version of StableHLO, older than B? */
bool pf_stablehlo_older(const unsigned a[3], const unsigned b[3]);

/*
 * Write the custom calls of a program of LEN BYTES that has FACTS, a portable artifact of StableHLO
 * 1.18 or newer, as they are in STABLEHLO, the plugin's version, if that is older.  EDITS, which are
 * none, become those that do; FACTS become those of the program with the EDITS.  False: FACTS stay,
 * and the EDITS are of no use, since that is not so, or a call has what an older one cannot have.
 * EDITS can fail for lack of memory.
 */
bool pf_program_older_calls(struct pf_program_facts *facts, const void *bytes, size_t len,
			    const unsigned stablehlo[3], struct pf_program_edits *edits);

/* Was there no memory for EDITS? */
bool pf_program_edits_failed(const struct pf_program_edits *edits);

/* Write LEN BYTES with EDITS, which have not failed, to RET, as many as the new facts have. */
void pf_program_edit(const struct pf_program_edits *edits, const void *bytes, size_t len,
		     void *ret);

void pf_program_edits_release(struct pf_program_edits *edits);

/* The function that gets each target of a custom call: LEN bytes, borrowed until it returns. */
struct pf_call_visitor {
	void (*found)(void *arg, const char *target, size_t len);
	void *arg;
};

/*
 * Give FOUND the targets of the custom calls in LEN bytes of FORMAT, the part of a program that its
 * facts name.  Each is a call's, and no string that merely occurs.  False: there may be more, since
 * the program is not understood, or compiled already (.pjrtexe).  Reads all of the program; does
 * not block.
 */
bool pf_program_calls(enum pf_program_format format, const void *bytes, size_t len,
		      const struct pf_call_visitor *found);

/*
 * The signature that a program of LEN bytes with FACTS, StableHLO as text or bytecode, declares: the
 * types of its main.  Arrays are row-major and without names, "tf.aliasing_output" and
 * "jax.buffer_donor" make an input donated, and there are no tiles and callbacks.
 *
 * name  the module's
 * ret   on success, the caller's; pf_signature_free
 * -EINVAL: main has other types than arrays of fixed shapes and known element types, as a sentence
 * says, or is not understood; -ENOMEM.  Does not block.
 */
int pf_program_declared(const struct pf_program_facts *facts, const void *bytes,
			size_t len, const char *name, struct pf_signature **ret,
			struct pf_err *err);

/*
 * Name the inputs of SIGNATURE that the framework left unnamed as the program's text does: %x is
 * "x"; they are "named" then.  SIGNATURE is of the program of LEN bytes that FACTS are of.  -ENOMEM.
 */
int pf_program_name_inputs(const struct pf_program_facts *facts, const void *bytes,
			   size_t len, struct pf_signature *signature);

/*
 * May a program with FACTS run on PLATFORM ("cpu")?  Its position in facts->platforms, 0
 * if that is empty; -EINVAL: it was exported for others.
 */
int pf_program_check_platform(const struct pf_program_facts *facts, const char *platform,
			      struct pf_err *err);

#endif
