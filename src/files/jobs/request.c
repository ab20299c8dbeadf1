/* SPDX-License-Identifier: Apache-2.0 */
/* Parse commands: run lines and JSON objects. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs.h"
#include "pjrtfs/base.h"

const struct names *rows_at(const struct rows *rows, size_t i)
{
	static const struct names none;

	return rows->at ? &rows->at[rows->n ? i : 0] : &none;
}

static int rows_alloc(struct rows *rows, size_t n)
{
	rows->at = calloc(n ? n : 1, sizeof(*rows->at));
	return rows->at ? 0 : -ENOMEM;
}

static void rows_release(struct rows *rows)
{
	for (size_t i = 0; rows->at && i < (rows->n ? rows->n : 1); i++)
		names_release(&rows->at[i]);
	free(rows->at);
	memset(rows, 0, sizeof(*rows));
}

void exec_spec_release(struct exec_spec *spec)
{
	rows_release(&spec->inputs);
	rows_release(&spec->outputs);
	names_release(&spec->params);
	names_release(&spec->donate);
	free(spec->donate_at);
	free(spec->device);
	memset(spec, 0, sizeof(*spec));
}

/* --- run lines ---------------------------------------------------------------------- */

/* The next word of *AT, unquoted, into WORD: 1; 0 at the end; -EINVAL. */
static int next_word(const char **at, struct pf_buf *word, bool *quoted,
		     struct pf_err *err)
{
	const char *p = *at;

	while (isspace((unsigned char)*p))
		p++;
	pf_buf_consume(word, word->len);
	*quoted = false;
	if (!*p)
		return 0;
	while (*p && !isspace((unsigned char)*p)) {
		if (*p != '"') {
			pf_buf_append(word, p++, 1);
			continue;
		}
		*quoted = true;
		for (p++; *p && *p != '"'; p++) {
			if (*p == '\\' && p[1])
				p++;
			pf_buf_append(word, p, 1);
		}
		if (!*p)
			return pf_err_set(err, -EINVAL,
					  "a name's closing quote is missing");
		p++;
	}
	*at = p;
	return word->failed ? -ENOMEM : 1;
}

/* Read TEXT, a number from 1 to MAX, which is an option's in WORD. */
static int word_number(const char *word, const char *text, uint64_t max, uint64_t *ret,
		       struct pf_err *err)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || *ret < 1 || *ret > max)
		return pf_err_set(err, -EINVAL,
				  "%s: expected a number from 1 to %" PRIu64, word, max);
	return 0;
}

static int unknown_option(const char *word, struct pf_err *err)
{
	static const char *const known[] = { "donate", "device", "repeat", "timeout_ms",
					     NULL };
	char hint[PF_SIMILAR_TEXT];
	pf_autofree char *key = strndup(word, (size_t)(strchr(word, '=') - word));
	struct pf_similar similar = { .word = key ? key : "" };

	pf_similar_try_all(&similar, known);
	return pf_err_set(err, -EINVAL,
			  "%s%s: the options of run are donate=NAME, device=NAME, "
			  "repeat=N, timeout_ms=N, move, positional and async, and "
			  "INPUT=NAME before the arrow gives an input; quote a name "
			  "that is like an option",
			  word, pf_similar_hint(&similar, hint));
}

/* Add the input NAME, of PARAM, or "": it has the next place.  -ENOMEM. */
static int add_input(struct exec_spec *spec, const char *param, size_t param_len,
		     const char *name)
{
	struct names *inputs = spec->inputs.at;
	int r = 0;

	while (param_len && r == 0 && spec->params.n < inputs->n)
		r = names_add(&spec->params, "", 0);
	if (r == 0 && (param_len || spec->params.n))
		r = names_add(&spec->params, param, param_len);
	return r < 0 ? r : names_add(inputs, name, strlen(name));
}

/* Is WORD what people write for an arrow, in other signs, or without blanks around it? */
static bool is_like_arrow(const char *word)
{
	return strstr(word, "->") || strstr(word, "=>") || strstr(word, "\u2192") ||
	       !strcmp(word, ">");
}

/* The first word of LINE, which could be read, that may be meant as the arrow, in WORD; NULL: none is. */
static const char *find_like_arrow(const char *line, struct pf_buf *word)
{
	bool quoted;

	while (next_word(&line, word, &quoted, NULL) > 0)
		if (!quoted && word->data && is_like_arrow(word->data))
			return word->data;
	return NULL;
}

/* FOUND: the word that may be meant as the arrow; NULL: none. */
static int no_arrow(const char *found, struct pf_err *err)
{
	if (!found)
		return pf_err_set(err, -EINVAL,
				  "expected inputs, '->' and outputs, as in "
				  "'x y -> z', found no '->'");
	return pf_err_set(err, -EINVAL,
			  "expected inputs, '->' between blanks, and outputs, as in "
			  "'x y -> z', found %s",
			  found);
}

/* "donate=x": an option of the run; or, in front of the ARROW, an input of a name. */
static int run_option(const char *word, bool arrow, struct exec_spec *spec,
		      struct pf_err *err)
{
	const char *value = strchr(word, '=') + 1;

	if (!strncmp(word, "donate=", 7))
		return names_add(&spec->donate, value, strlen(value));
	if (!strncmp(word, "device=", 7)) {
		free(spec->device);
		spec->device = strdup(value);
		return spec->device ? 0 : -ENOMEM;
	}
	if (!strncmp(word, "repeat=", 7))
		return word_number(word, value, EXEC_MAX_REPEAT, &spec->repeat, err);
	if (!strncmp(word, "timeout_ms=", 11))
		return word_number(word, value, EXEC_MAX_TIMEOUT, &spec->timeout_ms, err);
	if (!arrow && value == word + 1)
		return no_arrow(word, err);
	if (arrow || value == word + 1 || !*value)
		return unknown_option(word, err);
	return add_input(spec, word, (size_t)(value - word) - 1, value);
}

int exec_spec_parse_line(const char *line, struct exec_spec *spec, struct pf_err *err)
{
	pf_autobuf struct pf_buf word = PF_BUF_INIT;
	const char *whole = line;
	bool arrow = false, quoted;
	int r;

	if (rows_alloc(&spec->inputs, 1) < 0 || rows_alloc(&spec->outputs, 1) < 0)
		return pf_err_set(err, -ENOMEM, "no memory for a command");
	while ((r = next_word(&line, &word, &quoted, err)) > 0) {
		const char *w = word.data ? word.data : "";

		if (!quoted && !strcmp(w, "->")) {
			if (arrow)
				return pf_err_set(err, -EINVAL,
						  "expected one '->', as in "
						  "'x y -> z', found two");
			arrow = true;
			continue;
		}
		if (!quoted && strchr(w, '='))
			r = run_option(w, arrow, spec, err);
		else if (!quoted && !strcmp(w, "async"))
			spec->async = true;
		else if (!quoted && !strcmp(w, "move"))
			spec->move = true;
		else if (!quoted && !strcmp(w, "positional"))
			spec->positional = true;
		else if (arrow)
			r = names_add(spec->outputs.at, w, word.len);
		else
			r = add_input(spec, "", 0, w);
		if (r < 0)
			return r;
	}
	if (r == 0 && !arrow)
		r = no_arrow(find_like_arrow(whole, &word), err);
	return r;
}

/* --- JSON --------------------------------------------------------------------------- */

static const char *type_name(struct json_object *o)
{
	return o ? json_type_to_name(json_object_get_type(o)) : "null";
}

static int check_string(struct json_object *v, struct pf_err *err)
{
	if (!json_object_is_type(v, json_type_string))
		return pf_err_set(err, -EINVAL, "expected a string, found %s",
				  type_name(v));
	if (strlen(json_object_get_string(v)) != (size_t)json_object_get_string_len(v))
		return pf_err_set(err, -EINVAL, "it contains a NUL character");
	return 0;
}

int command_string(struct json_object *o, const char *key, const char **ret,
		   struct pf_err *err)
{
	struct json_object *v;
	int r;

	if (!json_object_object_get_ex(o, key, &v))
		return pf_err_set(err, -EINVAL, "\"%s\" is missing", key);
	r = check_string(v, err);
	if (r < 0)
		return pf_err_wrap(err, r, "\"%s\"", key);
	*ret = json_object_get_string(v);
	return 0;
}

int command_number(struct json_object *o, const char *key, uint64_t min, uint64_t max,
		   uint64_t *ret, struct pf_err *err)
{
	struct json_object *v;
	int64_t n;

	if (!json_object_object_get_ex(o, key, &v))
		return 0;
	n = json_object_is_type(v, json_type_int) ? json_object_get_int64(v) : -1;
	if (n < 0 || (uint64_t)n < min || (uint64_t)n > max)
		return pf_err_set(err, -EINVAL,
				  "\"%s\": expected a whole number from %" PRIu64
				  " to %" PRIu64 ", found %.64s",
				  key, min, max, json_object_to_json_string(v));
	*ret = (uint64_t)n;
	return 0;
}

int command_bool(struct json_object *o, const char *key, bool *ret, struct pf_err *err)
{
	struct json_object *v;

	if (!json_object_object_get_ex(o, key, &v))
		return 0;
	if (!json_object_is_type(v, json_type_boolean))
		return pf_err_set(err, -EINVAL,
				  "\"%s\": expected true or false, found %s", key,
				  type_name(v));
	*ret = json_object_get_boolean(v);
	return 0;
}

static int find_device(struct pf_fs *fs, struct json_object *o, const char *key,
		       const struct device **ret, struct pf_err *err)
{
	const char *name;
	int r;

	*ret = &fs->devices[0];
	if (!json_object_object_get_ex(o, key, NULL))
		return 0;
	r = command_string(o, key, &name, err);
	if (r < 0)
		return r;
	*ret = files_find_device(fs, name, strlen(name), err);
	return *ret ? 0 : pf_err_wrap(err, -ENODEV, "\"%s\"", key);
}

/* Key I of those that a command may have: KEYS and the common ones; or NULL. */
static const char *known_key(size_t i, const struct command_key *keys)
{
	static const char *const always[] = { "op", "id", "async", "timeout_ms", NULL };
	size_t n = 0;

	while (keys[n].key)
		n++;
	return i < n ? keys[i].key : always[i - n];
}

static int check_key(const char *word, const struct command_key *keys, struct pf_err *err)
{
	struct pf_similar similar = { .word = word };
	pf_autobuf struct pf_buf list = PF_BUF_INIT;
	char hint[PF_SIMILAR_TEXT];
	const char *known;

	for (size_t i = 0; (known = known_key(i, keys)); i++)
		if (!strcmp(known, word))
			return 0;
	for (size_t i = 0; (known = known_key(i, keys)); i++) {
		pf_similar_try(&similar, known);
		pf_buf_printf(&list, "%s%s", i ? ", " : "", known);
	}
	return pf_err_set(err, -EINVAL, "unknown key \"%.64s\"%s: expected one of %s",
			  word, pf_similar_hint(&similar, hint),
			  list.data ? list.data : "");
}

static int add_name(struct json_object *name, struct names *names, const char *where,
		    size_t i, struct pf_err *err)
{
	int r = check_string(name, err);

	if (r == 0)
		r = names_add(names, json_object_get_string(name),
			      (size_t)json_object_get_string_len(name));
	return r < 0 ? pf_err_wrap(err, r, "%s, element %zu", where, i) : 0;
}

static int parse_list(struct json_object *list, struct names *names, const char *where,
		      struct pf_err *err)
{
	if (!json_object_is_type(list, json_type_array))
		return pf_err_set(err, -EINVAL, "%s: expected a list of names, found %s",
				  where, type_name(list));
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		int r = add_name(json_object_array_get_idx(list, i), names, where, i,
				 err);

		if (r < 0)
			return r;
	}
	return 0;
}

/* Element I of "donate": an input's name or number, or whether input I is one. */
static int parse_donated(struct json_object *e, size_t i, struct exec_spec *spec,
			 struct pf_err *err)
{
	int64_t at = (int64_t)i;

	switch (json_object_get_type(e)) {
	case json_type_string:
		return add_name(e, &spec->donate, "\"donate\"", i, err);
	case json_type_boolean:
		if (!json_object_get_boolean(e))
			return 0;
		break;
	case json_type_int:
		at = json_object_get_int64(e);
		if (at >= 0 && at <= UINT32_MAX)
			break;
		/* fall through */
	default:
		return pf_err_set(
			err, -EINVAL,
			"\"donate\", element %zu: expected an input's name, its "
			"number from 0 on, true or false, found %.64s",
			i, json_object_to_json_string(e));
	}
	spec->donate_at[spec->n_donate_at++] = (uint32_t)at;
	return 0;
}

/* true, or a list. */
static int parse_donate(struct json_object *o, struct exec_spec *spec, struct pf_err *err)
{
	struct json_object *v;
	size_t n;
	int r = 0;

	if (!json_object_object_get_ex(o, "donate", &v))
		return 0;
	if (json_object_is_type(v, json_type_boolean)) {
		spec->donate_all = json_object_get_boolean(v);
		return 0;
	}
	if (!json_object_is_type(v, json_type_array))
		return pf_err_set(
			err, -EINVAL,
			"\"donate\": expected true, or a list of inputs by name "
			"or number, found %s",
			type_name(v));
	n = json_object_array_length(v);
	spec->donate_at = calloc(n + 1, sizeof(*spec->donate_at));
	if (!spec->donate_at)
		return -ENOMEM;
	for (size_t i = 0; i < n && r == 0; i++)
		r = parse_donated(json_object_array_get_idx(v, i), i, spec, err);
	return r;
}

/* A list of names, or a list of such lists. */
static int parse_rows(struct json_object *o, const char *key, struct rows *rows,
		      struct pf_err *err)
{
	struct json_object *list = NULL;
	bool there = json_object_object_get_ex(o, key, &list);
	bool several;
	char where[48];
	size_t n = 1;
	int r = 0;

	several =
		json_object_is_type(list, json_type_array) &&
		json_object_is_type(json_object_array_get_idx(list, 0), json_type_array);
	if (several)
		n = json_object_array_length(list);
	if (n > EXEC_MAX_ROWS)
		return pf_err_set(err, -EINVAL, "\"%s\": more than %d rows", key,
				  EXEC_MAX_ROWS);
	if (rows_alloc(rows, n) < 0)
		return pf_err_set(err, -ENOMEM, "no memory for a command");
	if (!there)
		return 0;
	snprintf(where, sizeof(where), "\"%s\"", key);
	if (!several)
		return parse_list(list, rows->at, where, err);
	rows->n = n;
	for (size_t i = 0; i < n && r == 0; i++) {
		snprintf(where, sizeof(where), "\"%s\", row %zu", key, i);
		r = parse_list(json_object_array_get_idx(list, i), &rows->at[i], where,
			       err);
	}
	return r;
}

/* {"parameter": "buffer"} */
static int parse_by_name(struct json_object *inputs, struct exec_spec *spec,
			 struct pf_err *err)
{
	int r = rows_alloc(&spec->inputs, 1);

	json_object_object_foreach(inputs, param, name) {
		if (r == 0 && !*param)
			r = pf_err_set(err, -EINVAL,
				       "\"inputs\": expected a parameter's name, found "
				       "\"\"");
		if (r == 0)
			r = names_add(&spec->params, param, strlen(param));
		if (r == 0)
			r = add_name(name, spec->inputs.at, "\"inputs\"",
				     spec->inputs.at->n, err);
	}
	return r;
}

static int read_key(struct pf_fs *fs, struct json_object *o,
		    const struct command_key *key, struct pf_err *err)
{
	bool there = json_object_object_get_ex(o, key->key, NULL);

	if (key->string && (there || !key->optional))
		return command_string(o, key->key, key->string, err);
	if (key->number)
		return command_number(o, key->key, key->min, key->max, key->number, err);
	if (key->flag)
		return command_bool(o, key->key, key->flag, err);
	return key->device ? find_device(fs, o, key->key, key->device, err) : 0;
}

int command_parse(struct pf_fs *fs, struct json_object *o, const struct command_key *keys,
		  struct pf_err *err)
{
	int r = 0;

	json_object_object_foreach(o, key, value) {
		(void)value;
		r = check_key(key, keys, err);
		if (r < 0)
			return r;
	}
	for (; keys->key && r == 0; keys++)
		r = read_key(fs, o, keys, err);
	return r;
}

int exec_spec_parse(struct json_object *o, bool executable, struct exec_spec *spec,
		    struct pf_err *err)
{
	const char *device = NULL;
	const struct command_key keys[] = {
		{ .key = "executable" },
		{ .key = "inputs" },
		{ .key = "outputs" },
		{ .key = "donate" },
		{ "device", .string = &device, .optional = true },
		{ "move", .flag = &spec->move },
		{ "positional", .flag = &spec->positional },
		{ "repeat", .number = &spec->repeat, .min = 1, .max = EXEC_MAX_REPEAT },
		{ "launch_id", .number = &spec->launch_id, .max = INT32_MAX },
		{ 0 },
	};
	struct json_object *inputs;
	int r = command_parse(NULL, o, executable ? keys : keys + 1, err);

	if (r == 0 && json_object_object_get_ex(o, "inputs", &inputs) &&
	    json_object_is_type(inputs, json_type_object))
		r = parse_by_name(inputs, spec, err);
	else if (r == 0)
		r = parse_rows(o, "inputs", &spec->inputs, err);
	if (r == 0)
		r = parse_rows(o, "outputs", &spec->outputs, err);
	if (r == 0)
		r = parse_donate(o, spec, err);
	if (r == 0 && device && !(spec->device = strdup(device)))
		r = -ENOMEM;
	if (r == 0)
		r = command_bool(o, "async", &spec->async, err);
	if (r == 0)
		r = command_number(o, "timeout_ms", 1, EXEC_MAX_TIMEOUT,
				   &spec->timeout_ms, err);
	return r;
}
