/* Program files: which format their bytes are in. */
#include "pjrtfs/formats/program.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "protowire.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

enum { MAX_NESTING = 512 };

static const struct {
	const char *extension;
	enum pf_program_format format;
} extensions[] = {
	{ ".mlir", PF_PROGRAM_MLIR },
	{ ".mlirbc", PF_PROGRAM_MLIRBC },
	{ ".hlo.pb", PF_PROGRAM_HLO },
};

enum pf_program_format pf_program_format_of(const char *name, size_t *stem_len)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < ARRAY_SIZE(extensions); i++) {
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

const char *pf_program_pjrt_format(enum pf_program_format format)
{
	return format == PF_PROGRAM_HLO ? "hlo" : "mlir";
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

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

static bool is_all_blank(const char *p, size_t len)
{
	while (len && is_blank(*p)) {
		p++;
		len--;
	}
	return len == 0;
}

/* What a file is that people take for a program, with what to do; NULL if none. */
static const char *foreign(enum pf_program_format format, const char *p, size_t len)
{
	if (STARTS(p, len, "\x1f\x8b"))
		return "a gzip file; gunzip it first";
	if (STARTS(p, len, "PK\x03\x04"))
		return "a zip file; unzip it first (a .keras or .pt2 archive must be "
		       "exported to StableHLO)";
	if (STARTS(p, len, "\x93NUMPY"))
		return "a .npy array; arrays go to buffers/";
	if (STARTS(p, len, "\177ELF"))
		return "a binary for a processor; write the program itself";
	/* A module's proto begins with the byte of a newline, then comes its name. */
	if (format == PF_PROGRAM_HLO && STARTS(p, len, "\n"))
		return NULL;
	while (len && is_blank(*p)) {
		p++;
		len--;
	}
	/* A line of MLIR may start with '#' and a letter, which Python's comments are. */
	if (STARTS(p, len, "#!") || STARTS(p, len, "import ") ||
	    STARTS(p, len, "from ") || STARTS(p, len, "def ") || STARTS(p, len, "\"\"\""))
		return "a Python program; write what jax.jit(f).lower(x).as_text() gives";
	if (STARTS(p, len, "HloModule"))
		return "HLO text; plugins read only a serialized HloModuleProto "
		       "(.hlo.pb) or StableHLO";
	return NULL;
}

/*
 * The deepest nesting of brackets, or MAX_NESTING + 1 once it is beyond; *LINE is where
 * that is reached.  Each kind is counted for itself, since an arrow or a comparison is
 * no bracket, and a surplus closing one counts as none: it would be a syntax error.
 */
static unsigned nesting(const char *p, size_t len, size_t *line)
{
	unsigned depth[4] = { 0 }, deepest = 0;
	bool in_string = false;

	*line = 1;
	for (size_t i = 0; i < len; i++) {
		static const char open[] = "([{<", close[] = ")]}>";
		const char *kind;

		if (p[i] == '\n') {
			/* Strings end at the end of the line at the latest. */
			in_string = false;
			++*line;
		} else if (in_string) {
			if (p[i] == '\\')
				i += i + 1 < len && p[i + 1] != '\n';
			else if (p[i] == '"')
				in_string = false;
		} else if (p[i] == '"') {
			in_string = true;
		} else if (p[i] == '/' && i + 1 < len && p[i + 1] == '/') {
			while (i + 1 < len && p[i + 1] != '\n')
				i++;
		} else if (p[i] == '>' && i && p[i - 1] == '-') {
			continue;
		} else if (p[i] && (kind = strchr(open, p[i]))) {
			unsigned sum = 0;

			depth[kind - open]++;
			for (size_t k = 0; k < ARRAY_SIZE(depth); k++)
				sum += depth[k];
			if (sum > deepest)
				deepest = sum;
			if (deepest > MAX_NESTING)
				return deepest;
		} else if (p[i] && (kind = strchr(close, p[i])) && depth[kind - close]) {
			depth[kind - close]--;
		}
	}
	return deepest;
}

static int check_text(const char *p, size_t len, struct pf_err *err)
{
	const char *nul = memchr(p, '\0', len);
	size_t line;

	if (is_bytecode(p, len))
		return pf_err_set(
			err, -EINVAL,
			"expected StableHLO text, found MLIR bytecode: name it .mlirbc");
	if (nul)
		return pf_err_set(
			err, -EINVAL,
			"expected StableHLO text, found a zero byte at %zu: MLIR "
			"bytecode is .mlirbc, a HloModuleProto .hlo.pb",
			(size_t)(nul - p));
	if (nesting(p, len, &line) > MAX_NESTING)
		return pf_err_set(err, -EINVAL,
				  "line %zu: brackets are nested deeper than %d: plugins "
				  "overflow their stack on that",
				  line, MAX_NESTING);
	return 0;
}

static int check_bytecode(const char *p, size_t len, struct pf_err *err)
{
	if (is_bytecode(p, len))
		return 0;
	return pf_err_set(
		err, -EINVAL,
		"expected MLIR bytecode, which begins with \"ML\\xefR\": StableHLO "
		"text is .mlir, a HloModuleProto .hlo.pb");
}

/* Is it a sequence of fields, of which the first ones are those of a module? */
static int check_hlo(const char *p, size_t len, struct pf_err *err)
{
	struct pf_slice rest = { (const uint8_t *)p, len };
	struct pf_field field;
	int r;

	if (is_bytecode(p, len))
		return pf_err_set(err, -EINVAL,
				  "expected a HloModuleProto, found MLIR bytecode: "
				  "name it .mlirbc");
	while ((r = pf_proto_next(&rest, &field)) > 0)
		;
	if (r < 0)
		return pf_err_set(
			err, -EINVAL,
			"expected a serialized HloModuleProto, found something else "
			"or a truncated one (at byte %zu of %zu): StableHLO text is "
			".mlir",
			(size_t)(rest.p - (const uint8_t *)p), len);
	return 0;
}

int pf_program_check(enum pf_program_format format, const void *bytes, size_t len,
		     struct pf_err *err)
{
	const char *p = bytes;
	const char *what;

	if (format == PF_PROGRAM_NONE)
		return 0;
	if (len == 0 || (format == PF_PROGRAM_MLIR && is_all_blank(p, len)))
		return pf_err_set(err, -EINVAL,
				  "expected a program, found an empty file");
	what = foreign(format, p, len);
	if (what)
		return pf_err_set(err, -EINVAL, "expected a program, found %s", what);
	switch (format) {
	case PF_PROGRAM_MLIR:
		return check_text(p, len, err);
	case PF_PROGRAM_MLIRBC:
		return check_bytecode(p, len, err);
	default:
		return check_hlo(p, len, err);
	}
}
