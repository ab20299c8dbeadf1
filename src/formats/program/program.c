/* SPDX-License-Identifier: Apache-2.0 */
/* Program files: their formats, and the facts in them. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/program.h"

static const struct {
	const char *extension;
	enum pf_program_format format;
} extensions[] = {
	{ ".mlir", PF_PROGRAM_MLIR },      { ".mlirbc", PF_PROGRAM_MLIRBC },
	{ ".hlo.pb", PF_PROGRAM_HLO },     { ".jax_exported", PF_PROGRAM_JAX },
	{ ".pjrtexe", PF_PROGRAM_NATIVE },
};

enum pf_program_format pf_program_format_of(const char *name, size_t *stem_len)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < PF_ARRAY_SIZE(extensions); i++) {
		size_t n = strlen(extensions[i].extension);

		if (len > n && strcmp(name + len - n, extensions[i].extension) == 0) {
			if (stem_len)
				*stem_len = len - n;
			return extensions[i].format;
		}
	}
	if (stem_len)
		*stem_len = len;
	return PF_PROGRAM_NONE;
}

const char *pf_program_extension(enum pf_program_format format)
{
	for (size_t i = 0; i < PF_ARRAY_SIZE(extensions); i++)
		if (extensions[i].format == format)
			return extensions[i].extension;
	return NULL;
}

static bool starts(const char *p, size_t len, const char *with, size_t with_len)
{
	return len >= with_len && memcmp(p, with, with_len) == 0;
}

#define STARTS(p, len, literal) starts(p, len, literal, sizeof(literal) - 1)

static bool is_bytecode(const char *p, size_t len)
{
	return STARTS(p, len, "ML\xefR");
}

static const char *skip_blanks(const char *p, const char *end)
{
	while (p < end && memchr(" \t\n\r\f\v", *p, 6))
		p++;
	return p;
}

/* The beginnings of files that users mistake for programs, and the remedy for each. */
static const struct {
	const char *magic;
	size_t len;
	const char *what;
} magics[] = {
#define MAGIC(bytes, what)                                                               \
	{                                                                                \
		bytes, sizeof(bytes) - 1, what                                           \
	}
	MAGIC("\x1f\x8b", "a gzip file; gunzip it first"),
	MAGIC("BZh", "a bzip2 file; bunzip2 it first"),
	MAGIC("\xfd"
	      "7zXZ",
	      "an xz file; unxz it first"),
	MAGIC("\x28\xb5\x2f\xfd", "a zstd file; unzstd it first"),
	MAGIC("PK\x03\x04",
	      "a zip file; unzip it first (a .keras or .pt2 archive must be "
	      "exported to StableHLO)"),
	MAGIC("\x93NUMPY", "a .npy array; arrays go to buffers/"),
	MAGIC("\177ELF", "a binary for a processor; write the program itself"),
#undef MAGIC
};

/* The same for text. */
static const char *foreign_text(const char *p, size_t len)
{
	const char *end = p + len;

	p = skip_blanks(p, end);
	len = (size_t)(end - p);
	/* A line of MLIR may start with '#' and a letter, which Python's comments are. */
	if (STARTS(p, len, "#!") || STARTS(p, len, "import ") ||
	    STARTS(p, len, "from ") || STARTS(p, len, "def ") || STARTS(p, len, "\"\"\""))
		return "a Python program; write what jax.jit(f).lower(x).as_text() gives";
	if (STARTS(p, len, "HloModule"))
		return "HLO text; plugins read only a serialized HloModuleProto "
		       "(.hlo.pb) or StableHLO";
	return NULL;
}

/* The name of a format that users mistake for a program, and a remedy; NULL: none is
 * known. */
static const char *foreign(enum pf_program_format format, const char *p, size_t len)
{
	for (size_t i = 0; i < PF_ARRAY_SIZE(magics); i++)
		if (starts(p, len, magics[i].magic, magics[i].len))
			return magics[i].what;
	/* A module's proto begins with the byte of a newline, then comes its name. */
	if (format == PF_PROGRAM_HLO && STARTS(p, len, "\n"))
		return NULL;
	return foreign_text(p, len);
}

/* A module by itself names no platforms. */
static int check_platform(const struct pf_program_facts *facts, struct pf_err *err)
{
	if (!facts->takes_platform)
		return 0;
	return pf_err_set(
		err, -EINVAL,
		"expected a program for one platform, found one that JAX lowered for "
		"several: its argument \"_platform_index\" is the platform's position in a "
		"list that is not in the file; write what jax.export's serialize() gives "
		"(.jax_exported), or export it for one platform "
		"(jax.export.export(f, platforms=[\"cpu\"]))");
}

/* FORMAT is what was expected. */
static int refuse_bytecode(const char *format, struct pf_err *err)
{
	return pf_err_set(err, -EINVAL,
			  "expected %s, found MLIR bytecode: name it .mlirbc", format);
}

static int check_text(const char *p, size_t len, struct pf_program_facts *ret,
		      struct pf_err *err)
{
	const char *nul = memchr(p, '\0', len);
	int r;

	if (is_bytecode(p, len))
		return refuse_bytecode("StableHLO text", err);
	if (nul)
		return pf_err_set(
			err, -EINVAL,
			"expected StableHLO text, found a zero byte at %zu: MLIR "
			"bytecode is .mlirbc, a HloModuleProto .hlo.pb, what jax.export "
			"serializes .jax_exported",
			(size_t)(nul - p));
	r = pf_mlir_text(p, len, ret, err);
	return r < 0 ? r : check_platform(ret, err);
}

/* A program that no plugin can execute is refused for what was FOUND in it. */
static int refuse_found(const struct pf_program_found *found, struct pf_err *err)
{
	if (found->feed)
		return pf_mlir_feed(0, err);
	return found->dynamic_while ? pf_mlir_dynamic_while(0, err) : 0;
}

static int check_bytecode(const char *p, size_t len, struct pf_program_facts *ret,
			  struct pf_err *err)
{
	struct pf_program_found found = { false };
	bool symbolic;

	if (!is_bytecode(p, len))
		return pf_err_set(
			err, -EINVAL,
			"expected MLIR bytecode, which begins with \"ML\xefR\": "
			"StableHLO text is .mlir, a HloModuleProto .hlo.pb, what "
			"jax.export serializes .jax_exported");
	symbolic = pf_mlir_bytecode(p, len, ret, &found);
	if (symbolic || (found.symbolic_types && pf_mlir_bytecode_symbolic(p, len)))
		return pf_err_set(
			err, -EINVAL,
			"expected fixed shapes, found symbolic dimensions: " PF_GIVE_NUMBERS);
	return refuse_found(&found, err);
}

static int check_module(struct pf_slice module, struct pf_program_facts *ret,
			struct pf_err *err)
{
	struct pf_program_found found = { false };
	struct pf_slice rest = module, schedule;

	ret->scheduled =
		pf_proto_find(&rest, PF_MODULE_SCHEDULE, &schedule) == 0 && schedule.p;
	pf_hlo_look(module, &found);
	return refuse_found(&found, err);
}

/*
 * Is it a sequence of fields?  Plugins write a HloModuleProtoWithConfig, whose field 1 is
 * a module, which has computations; field 1 of a HloModuleProto is its name, which has
 * none.
 */
static int check_hlo(const char *p, size_t len, struct pf_program_facts *ret,
		     struct pf_err *err)
{
	struct pf_slice rest = { (const uint8_t *)p, len }, all = rest;
	struct pf_slice computations, module, inner;

	if (is_bytecode(p, len))
		return refuse_bytecode("a HloModuleProto", err);
	if (pf_proto_find(&rest, PF_MODULE_COMPUTATIONS, &computations) < 0)
		return pf_err_set(
			err, -EINVAL,
			"expected a serialized HloModuleProto, found something else "
			"or a truncated one (at byte %zu of %zu): StableHLO text is "
			".mlir",
			(size_t)(rest.p - (const uint8_t *)p), len);
	rest = all;
	if (computations.p || pf_proto_find(&rest, PF_CONFIG_MODULE, &module) < 0 ||
	    !module.p)
		return check_module(all, ret, err);
	rest = module;
	if (pf_proto_find(&rest, PF_MODULE_COMPUTATIONS, &inner) < 0 || !inner.p)
		return 0;
	ret->off = (size_t)(module.p - (const uint8_t *)p);
	ret->len = module.len;
	return check_module(module, ret, err);
}

static int check_jax(const char *p, size_t len, struct pf_program_facts *ret,
		     struct pf_err *err)
{
	int r;

	if (is_bytecode(p, len))
		return refuse_bytecode("what jax.export serializes", err);
	r = pf_exported_find(p, len, ret, err);
	return r < 0 ? r : check_bytecode(p + ret->off, ret->len, ret, err);
}

/* pf_executable checks the contents of the container when it loads it. */
static int check_native(const char *p, size_t len, struct pf_err *err)
{
	if (STARTS(p, len, "pjrtfs\r\n"))
		return 0;
	return pf_err_set(err, -EINVAL,
			  "expected a compiled program, as executables/NAME/serialized "
			  "gives it, found something else");
}

int pf_program_check(enum pf_program_format format, const void *bytes, size_t len,
		     struct pf_program_facts *ret, struct pf_err *err)
{
	const char *p = bytes;
	const char *what;
	int r;

	*ret = (struct pf_program_facts){ .len = len };
	if (format == PF_PROGRAM_NONE)
		return 0;
	if (len == 0 || (format == PF_PROGRAM_MLIR && skip_blanks(p, p + len) == p + len))
		return pf_err_set(err, -EINVAL,
				  "expected a program, found an empty file");
	what = foreign(format, p, len);
	if (what)
		return pf_err_set(err, -EINVAL, "expected a program, found %s", what);
	switch (format) {
	case PF_PROGRAM_MLIR:
		return check_text(p, len, ret, err);
	case PF_PROGRAM_MLIRBC:
		r = check_bytecode(p, len, ret, err);
		return r < 0 ? r : check_platform(ret, err);
	case PF_PROGRAM_JAX:
		return check_jax(p, len, ret, err);
	case PF_PROGRAM_NATIVE:
		return check_native(p, len, err);
	default:
		return check_hlo(p, len, ret, err);
	}
}

int pf_program_check_platform(const struct pf_program_facts *facts, const char *platform,
			      struct pf_err *err)
{
	size_t n = strlen(platform);
	int position = 0;

	for (const char *at = facts->platforms; *at; at += strspn(at, " ")) {
		size_t len = strcspn(at, " ");

		if (len == n && strncasecmp(at, platform, n) == 0)
			return position;
		at += len;
		position++;
	}
	if (!facts->platforms[0])
		return 0;
	return pf_err_set(err, -EINVAL,
			  "the program was exported for %s, the plugin's platform is %s: "
			  "jax.export.export(f, platforms=[\"%s\"]) exports it for that",
			  facts->platforms, platform, platform);
}

bool pf_program_drop_tokens(struct pf_program_facts *facts, const void *bytes, size_t len,
			    struct pf_program_edits *edits)
{
	if (is_bytecode((const char *)bytes + facts->off, facts->len))
		return pf_mlir_bytecode_drop_tokens(facts, bytes, len, edits);
	return pf_mlir_drop_tokens(facts, bytes, len, edits);
}

bool pf_program_edits_failed(const struct pf_program_edits *edits)
{
	return edits->list.failed || edits->bytes.failed;
}

void pf_program_edits_release(struct pf_program_edits *edits)
{
	pf_buf_release(&edits->list);
	pf_buf_release(&edits->bytes);
}

void pf_program_edit(const struct pf_program_edits *edits, const void *bytes, size_t len,
		     void *ret)
{
	const struct pf_program_edit *e = (const void *)edits->list.data;
	size_t n = edits->list.len / sizeof(*e), at = 0;
	const char *src = bytes;
	char *dst = ret;

	for (size_t i = 0; i < n; i++) {
		memcpy(dst, src + at, e[i].at - at);
		dst += e[i].at - at;
		memcpy(dst, edits->bytes.data + e[i].from, e[i].len);
		dst += e[i].len;
		at = e[i].at + e[i].drop;
	}
	memcpy(dst, src + at, len - at);
}

int pf_program_name_inputs(const struct pf_program_facts *facts, const void *bytes,
			   size_t len, struct pf_signature *signature)
{
	size_t n = signature->n_inputs;
	pf_autofree struct pf_slice *names = calloc(n + 1, sizeof(*names));

	if (!names)
		return -ENOMEM;
	if (!facts->arguments ||
	    pf_mlir_arguments(bytes, len, facts->arguments, names, n) != n)
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (pf_param_name(&signature->inputs[i], (const char *)names[i].p,
				  names[i].len) < 0)
			return -ENOMEM;
		if (!signature->inputs[i].named)
			signature->inputs[i].named = signature->inputs[i].in_text = true;
	}
	return 0;
}
