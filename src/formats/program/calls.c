/* SPDX-License-Identifier: Apache-2.0 */
/* The targets of a program's custom calls, in text and in a HloModuleProto. */
#include <ctype.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/program.h"

struct scan {
	const char *p, *end; /* what is left of a text */
	const struct pf_call_visitor *found;
};

static bool is_of_word(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("_$.-", c));
}

static size_t word_len(const char *p, const char *end)
{
	size_t len = 0;

	while (p + len < end && is_of_word(p[len]))
		len++;
	return len;
}

/* Step over a string; its bytes between the quotes, with escapes as they are. */
static void take_string(struct scan *s, const char **ret, size_t *len)
{
	*ret = ++s->p;
	while (s->p < s->end && *s->p != '"' && *s->p != '\n')
		s->p += *s->p == '\\' && s->p + 1 < s->end ? 2 : 1;
	*len = (size_t)(s->p - *ret);
	s->p += s->p < s->end;
}

/* Step over C, with blanks around it.  False: there is another character. */
static bool take(struct scan *s, char c)
{
	while (s->p < s->end && memchr(" \t\r\n", *s->p, 4))
		s->p++;
	if (s->p == s->end || *s->p != c)
		return false;
	s->p++;
	while (s->p < s->end && memchr(" \t\r\n", *s->p, 4))
		s->p++;
	return true;
}

/* Behind custom_call: @target; behind call_target_name: = "target", perhaps in #vhlo.string_v1<…>. */
static void take_target(struct scan *s, bool symbol)
{
	static const char vhlo[] = "#vhlo.string_v1<";
	const char *target = s->p;
	size_t len = sizeof(vhlo) - 1;

	if (!take(s, symbol ? '@' : '='))
		return;
	if (!symbol && (size_t)(s->end - s->p) > len && !memcmp(s->p, vhlo, len))
		s->p += len;
	target = s->p;
	if (s->p < s->end && *s->p == '"') {
		take_string(s, &target, &len);
	} else {
		len = symbol ? word_len(s->p, s->end) : 0;
		s->p += len;
	}
	s->found->found(s->found->arg, target, len);
}

/* Does the word of LEN bytes at P end with custom_call? */
static bool is_custom_call(const char *p, size_t len)
{
	static const char op[] = "custom_call";
	const size_t n = sizeof(op) - 1;

	return len >= n && !memcmp(p + len - n, op, n) &&
	       (len == n || p[len - n - 1] == '.');
}

static void scan_text(struct scan *s)
{
	static const char name[] = "call_target_name";

	while (s->p < s->end) {
		const char *p = s->p;
		size_t len = word_len(p, s->end);

		if (len) {
			s->p += len;
			if (is_custom_call(p, len))
				take_target(s, true);
			else if (len == sizeof(name) - 1 && !memcmp(p, name, len))
				take_target(s, false);
		} else if (*p == '"') {
			take_string(s, &p, &len);
		} else if (*p == '/' && s->end - p > 1 && p[1] == '/') {
			p = memchr(p, '\n', (size_t)(s->end - p));
			s->p = p ? p : s->end;
		} else {
			s->p++;
		}
	}
}

/* --- a proto --------------------------------------------------------------------------------- */

static bool read_instruction(struct pf_slice proto, const struct pf_call_visitor *found)
{
	struct pf_slice opcode = { 0 }, target = { 0 };
	const struct pf_wanted wanted[] = {
		{ PF_INSTRUCTION_OPCODE, &opcode, NULL },
		{ PF_INSTRUCTION_TARGET, &target, NULL },
	};

	if (pf_proto_find_all(&proto, wanted, PF_ARRAY_SIZE(wanted)) < 0)
		return false;
	if (target.p && pf_slice_is(opcode, "custom-call"))
		found->found(found->arg, (const char *)target.p, target.len);
	return true;
}

static bool read_computation(struct pf_slice proto, const struct pf_call_visitor *found)
{
	struct pf_slice part;
	int r;

	while ((r = pf_proto_next_bytes(&proto, PF_COMPUTATION_INSTRUCTIONS, &part)) > 0)
		if (!read_instruction(part, found))
			return false;
	return r == 0;
}

static bool read_module(struct pf_slice proto, const struct pf_call_visitor *found)
{
	struct pf_slice part;
	int r;

	while ((r = pf_proto_next_bytes(&proto, PF_MODULE_COMPUTATIONS, &part)) > 0)
		if (!read_computation(part, found))
			return false;
	return r == 0;
}

bool pf_program_calls(enum pf_program_format format, const void *bytes, size_t len,
		      const struct pf_call_visitor *found)
{
	struct scan s = { bytes, (const char *)bytes + len, found };

	switch (format) {
	case PF_PROGRAM_MLIR:
		scan_text(&s);
		return true;
	case PF_PROGRAM_MLIRBC:
	case PF_PROGRAM_JAX:
		return pf_mlir_bytecode_calls(bytes, len, found);
	case PF_PROGRAM_HLO:
		return read_module((struct pf_slice){ bytes, len }, found);
	default:
		return false;
	}
}
