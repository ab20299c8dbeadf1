/* SPDX-License-Identifier: Apache-2.0 */
#include "pjrtfs/formats/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/base/buf.h"
#include "pjrtfs/base/scan.h"
#include "pjrtfs/base/utf8.h"

static const char blanks[] = " \t\r\n";

/* --- places ------------------------------------------------------------------------------- */

/* Which line and column byte OFF is in, both from 1 on. */
static void locate(const struct pf_config_text *t, size_t off, unsigned *line,
		   unsigned *column)
{
	*line = *column = 1;
	for (size_t i = 0; i < off && i < t->len; i++) {
		if (t->text[i] == '\n') {
			++*line;
			*column = 1;
		} else if (((unsigned char)t->text[i] & 0xc0) != 0x80) {
			++*column;
		}
	}
}

__attribute__((__format__(__printf__, 4, 5))) static int error_at(
	const struct pf_config_text *t, size_t off, struct pf_err *err, const char *fmt,
	...)
{
	unsigned line, column;
	char text[PF_ERR_TEXT];
	va_list args;

	locate(t, off, &line, &column);
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return pf_err_set(err, -EINVAL, "%s:%u:%u: %s", t->file, line, column, text);
}

/* The walkers below are for text that the scanner has found good. */

static size_t skip_blanks(const struct pf_config_text *t, size_t i)
{
	while (i < t->len && strchr(blanks, t->text[i]))
		i++;
	return i;
}

static size_t skip_string(const struct pf_config_text *t, size_t i)
{
	for (i++; i < t->len && t->text[i] != '"'; i++)
		if (t->text[i] == '\\')
			i++;
	return i < t->len ? i + 1 : t->len;
}

static size_t skip_value(const struct pf_config_text *t, size_t i)
{
	unsigned depth = 0;

	while (i < t->len) {
		char c = t->text[i];

		if (c == '"') {
			i = skip_string(t, i);
			if (!depth)
				return i;
			continue;
		}
		if (!depth && strchr(",]} \t\r\n", c))
			return i;
		if (c == '{' || c == '[')
			depth++;
		if ((c == '}' || c == ']') && !--depth)
			return i + 1;
		i++;
	}
	return i;
}

/* Is the string from I to END, with its quotes, KEY? */
static bool is_key(const struct pf_config_text *t, size_t i, size_t end, const char *key)
{
	pf_autofree char *copy = strndup(t->text + i, end - i);
	struct json_object *string = copy ? json_tokener_parse(copy) : NULL;
	bool is = string && !strcmp(json_object_get_string(string), key);

	json_object_put(string);
	return is;
}

/* Where AT begins: its key in *KEY (an item: the item), its value in *VALUE. */
static bool find(const struct pf_config_text *t, const struct pf_config_at *at,
		 size_t *key, size_t *value)
{
	size_t i, n = 0;

	if (!at) {
		*key = *value = skip_blanks(t, 0);
		return true;
	}
	if (!find(t, at->up, key, value))
		return false;
	i = skip_blanks(t, *value + 1);
	for (; i < t->len && t->text[i] != '}' && t->text[i] != ']'; n++) {
		size_t start = i;
		bool is = n == at->index;

		if (at->key) {
			i = skip_string(t, i);
			is = is_key(t, start, i, at->key);
			i = skip_blanks(t, skip_blanks(t, i) + 1); /* the colon */
		}
		if (is) {
			*key = start;
			*value = i;
			return true;
		}
		i = skip_blanks(t, skip_value(t, i));
		if (i < t->len && t->text[i] == ',')
			i = skip_blanks(t, i + 1);
	}
	return false;
}

static void print_path(const struct pf_config_at *at, struct pf_buf *out)
{
	if (!at)
		return;
	print_path(at->up, out);
	if (at->key)
		pf_buf_printf(out, "%s%.80s", at->up ? "." : "", at->key);
	else
		pf_buf_printf(out, "[%zu]", at->index);
}

int pf_config_text_error(const struct pf_config_text *t, const struct pf_config_at *at,
			 struct pf_err *err, int code, const char *fmt, ...)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	char text[PF_ERR_TEXT];
	size_t key = 0, value;
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	print_path(at, &path);
	(void)find(t, at, &key, &value);
	(void)error_at(t, key, err, "%s%s%s", path.data ? path.data : "",
		       path.data ? ": " : "", text);
	if (err)
		err->code = code;
	return code;
}

int pf_config_text_refuse(const struct pf_config_text *t, const struct pf_config_at *at,
			  const char *want, struct json_object *found, struct pf_err *err)
{
	return pf_config_text_error(
		t, at, err, -EINVAL, "expected %s, found %.80s", want,
		json_object_to_json_string_ext(found,
					       JSON_C_TO_STRING_PLAIN |
						       JSON_C_TO_STRING_NOSLASHESCAPE));
}

/* --- reading -------------------------------------------------------------------------------- */

/* The byte at I of the text as a sentence shows it. */
static const char *shown(const struct pf_config_text *t, size_t i, char dst[16])
{
	unsigned char c;

	if (i >= t->len)
		return "the end of the file";
	c = (unsigned char)t->text[i];
	if (c == '\n' || c == '\r')
		return "the end of the line";
	if (c >= 0x20 && c < 0x7f)
		snprintf(dst, 16, "%c", c);
	else
		snprintf(dst, 16, "the byte 0x%02x", c);
	return dst;
}

static int check_encoding(const struct pf_config_text *t, struct pf_err *err)
{
	uint32_t c;
	char byte[16];

	for (size_t i = 0, n; i < t->len; i += n) {
		n = pf_utf8_char(t->text + i, t->len - i, &c);
		if (!n || !c)
			return error_at(t, i, err, "expected UTF-8 text, found %s",
					shown(t, i, byte));
	}
	return 0;
}

/* One object, and blanks after it. */
static int check_syntax(const struct pf_config_text *t, struct pf_err *err)
{
	struct pf_scan scan = { 0 };
	size_t used, i;
	char byte[16];
	enum pf_scan_result r = pf_scan_feed(&scan, t->text, t->len, &used);

	if (r == PF_SCAN_BAD)
		return error_at(t, used - 1, err, "expected %s, found %s", scan.want,
				shown(t, used - 1, byte));
	if (r == PF_SCAN_MORE)
		return error_at(t, t->len, err,
				"expected the rest of a JSON object, found the end of "
				"the file");
	i = skip_blanks(t, used);
	if (i < t->len)
		return error_at(t, i, err,
				"expected the end of the file after the object, found %s",
				shown(t, i, byte));
	return 0;
}

static int check_keys(const struct pf_config_text *t, struct pf_err *err)
{
	size_t off, len;
	int r = pf_scan_twice(t->text, t->len, &off, &len);

	if (r < 0)
		return pf_err_set(err, r, "no memory to read %s", t->file);
	if (r > 0)
		return error_at(t, off - 1, err, "the key \"%.*s\" is given twice",
				len < 100 ? (int)len : 100, t->text + off);
	return 0;
}

int pf_config_text_parse(struct pf_config_text *t, struct pf_err *err)
{
	struct json_tokener *tokener;
	int r;

	t->json = NULL;
	if (t->len > PF_CONFIG_MAX)
		return pf_err_set(err, -EINVAL, "%s: expected at most %d bytes", t->file,
				  PF_CONFIG_MAX);
	r = check_encoding(t, err);
	if (r == 0 && skip_blanks(t, 0) == t->len) {
		t->json = json_object_new_object();
		return t->json ? 0 : pf_err_set(err, -ENOMEM, "no memory");
	}
	if (r == 0)
		r = check_syntax(t, err);
	if (r == 0)
		r = check_keys(t, err);
	if (r < 0)
		return r;
	tokener = json_tokener_new_ex(PF_SCAN_DEPTH + 1);
	if (tokener)
		t->json = json_tokener_parse_ex(tokener, t->text, (int)t->len);
	if (!t->json)
		r = tokener ? error_at(t, json_tokener_get_parse_end(tokener), err,
				       "expected JSON: %s",
				       json_tokener_error_desc(
					       json_tokener_get_error(tokener)))
			    : pf_err_set(err, -ENOMEM, "no memory to read %s", t->file);
	json_tokener_free(tokener);
	return r;
}

void pf_config_text_release(struct pf_config_text *t)
{
	json_object_put(t->json);
	t->json = NULL;
}
