/* SPDX-License-Identifier: Apache-2.0 */
/* A file of XLA's flags, a DebugOptions message: as text, NAME: VALUE, or serialized. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/json.h"
#include "pjrtfs/plugin_options.h"

/* A text and the place in it. */
struct reader {
	const char *p, *end;
	unsigned line;
	struct pf_err *err;
};

/* No serialized DebugOptions is one: the numbers of its fields have bytes beyond ASCII. */
static bool is_text(const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isprint((unsigned char)bytes[i]) && !strchr("\t\n\r", bytes[i]))
			return false;
	return !len || !memchr(bytes, '\0', len);
}

static int bad(struct reader *rd, const char *want)
{
	size_t n = 0;

	while (n < 40 && rd->p + n < rd->end && rd->p[n] != '\n')
		n++;
	return pf_err_set(rd->err, -EINVAL, "line %u: expected %s, found %s%.*s",
			  rd->line, want, n ? "" : "the end of the line", (int)n, rd->p);
}

/* Step over blanks, comments and what may stand between fields. */
static void skip(struct reader *rd, const char *blanks)
{
	for (; rd->p < rd->end && (strchr(blanks, *rd->p) || *rd->p == '#'); rd->p++) {
		if (*rd->p == '#')
			while (rd->p + 1 < rd->end && rd->p[1] != '\n')
				rd->p++;
		rd->line += *rd->p == '\n';
	}
}

/* The letters, digits and more that a name or a number has. */
static size_t word_length(const struct reader *rd, const char *more)
{
	size_t n = 0;

	while (rd->p + n < rd->end &&
	       (isalnum((unsigned char)rd->p[n]) || strchr(more, rd->p[n])))
		n++;
	return n;
}

static int read_quoted(struct reader *rd, struct json_object **ret)
{
	static const char escapes[] = "n\nt\tr\r\\\\\"\"''";
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	const char quote = *rd->p++, *escape;

	for (; rd->p < rd->end && *rd->p != quote && *rd->p != '\n'; rd->p++) {
		if (*rd->p != '\\') {
			pf_buf_append(&text, rd->p, 1);
			continue;
		}
		escape = rd->p + 1 < rd->end ? strchr(escapes, rd->p[1]) : NULL;
		if (!escape)
			return bad(rd, "\\n, \\t, \\r or an escaped quote or backslash");
		pf_buf_append(&text, escape + ((escape - escapes) % 2 ? 0 : 1), 1);
		rd->p++;
	}
	if (rd->p == rd->end || *rd->p != quote)
		return bad(rd, "a closing quote");
	rd->p++;
	*ret = text.failed ? NULL : json_object_new_string(text.data ? text.data : "");
	return 0;
}

/* A boolean, a number, or a word, which names a number of an enum. */
static int read_word(struct reader *rd, struct json_object **ret)
{
	size_t n = word_length(rd, "_+-.");
	pf_autofree char *word = strndup(rd->p, n);
	char *end;
	int64_t i;
	double d;

	if (!word)
		return 0; /* the caller finds no value */
	if (!n)
		return bad(rd, "a number, true, false, a word or a string; a list or a "
			       "message can be set with a serialized DebugOptions");
	errno = 0;
	i = strtoll(word, &end, 0);
	if (!*end && !errno) {
		*ret = json_object_new_int64(i);
	} else if (isdigit((unsigned char)*word) || strchr("+-.", *word)) {
		d = strtod(word, &end);
		if (*end)
			return bad(rd, "a number");
		*ret = json_object_new_double(d);
	} else if (!strcmp(word, "true") || !strcmp(word, "false")) {
		*ret = json_object_new_boolean(*word == 't');
	} else {
		*ret = json_object_new_string(word);
	}
	rd->p += n;
	return 0;
}

static int read_flag(struct reader *rd, struct json_object *flags)
{
	size_t n = word_length(rd, "_");
	pf_autofree char *name = strndup(rd->p, n);
	struct json_object *value = NULL;
	int r;

	if (!n)
		return bad(rd, "the name of a flag");
	if (name && json_object_object_get_ex(flags, name, NULL))
		return pf_err_set(rd->err, -EINVAL, "line %u: flag %s is set twice",
				  rd->line, name);
	rd->p += n;
	skip(rd, " \t");
	if (rd->p == rd->end || *rd->p != ':')
		return bad(rd, "a colon behind the name of a flag");
	rd->p++;
	skip(rd, " \t");
	r = rd->p < rd->end && strchr("\"'", *rd->p) ? read_quoted(rd, &value)
						     : read_word(rd, &value);
	if (r == 0 && (!name || !value))
		r = pf_err_set(rd->err, -ENOMEM, "no memory for the flags");
	if (r == 0)
		pf_json_add(flags, name, value);
	return r;
}

int pf_options_debug(const char *bytes, size_t len, struct json_object **ret,
		     struct pf_err *err)
{
	struct reader rd = { .p = bytes, .end = bytes + len, .line = 1, .err = err };
	struct json_object *o = json_object_new_object(), *value = NULL;
	const char *key = "env_option_overrides";
	Pjrtfs__Options__Unread *message;
	int r = 0;

	if (is_text(bytes, len)) {
		value = json_object_new_object();
		for (skip(&rd, " \t\r\n,;"); r == 0 && rd.p < rd.end;
		     skip(&rd, " \t\r\n,;"))
			r = read_flag(&rd, value);
	} else {
		key = "debug_options";
		message = pjrtfs__options__unread__unpack(NULL, len,
							  (const uint8_t *)bytes);
		if (message)
			value = pf_options_base64(bytes, len);
		else
			r = pf_err_set(err, -EINVAL,
				       "expected a DebugOptions, as text or serialized, "
				       "found something else");
		pjrtfs__options__unread__free_unpacked(message, NULL);
	}
	pf_json_add(o, key, value);
	if (r == 0 && !pf_json_complete(o))
		r = pf_err_set(err, -ENOMEM, "no memory for the flags");
	if (r == 0)
		*ret = o;
	else
		json_object_put(o);
	return r;
}
