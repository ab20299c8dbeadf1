/* Read what commands ask: run lines and JSON objects. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

int names_add(struct names *names, const char *str, size_t len)
{
	char **at = realloc(names->at, (names->n + 1) * sizeof(*at));

	if (!at)
		return -ENOMEM;
	names->at = at;
	at[names->n] = strndup(str, len);
	if (!at[names->n])
		return -ENOMEM;
	names->n++;
	return 0;
}

void names_release(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->at[i]);
	free(names->at);
	memset(names, 0, sizeof(*names));
}

void request_release(struct request *request)
{
	names_release(&request->inputs);
	names_release(&request->outputs);
	names_release(&request->donate);
	json_object_put(request->id);
	request->id = NULL;
}

/* --- run lines --------------------------------------------------------------------------- */

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

/* "donate=x": an option of the run. */
static int run_option(const char *word, struct request *request, struct pf_err *err)
{
	const char *value = strchr(word, '=') + 1;

	if (!strncmp(word, "donate=", 7))
		return names_add(&request->donate, value, strlen(value));
	return pf_err_set(err, -EINVAL,
			  "%s: the options of run are donate=NAME; quote a name "
			  "that has a =",
			  word);
}

int files_parse_run(const char *line, struct request *request, struct pf_err *err)
{
	pf_autobuf struct pf_buf word = PF_BUF_INIT;
	bool arrow = false, quoted;
	int r;

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
			r = run_option(w, request, err);
		else
			r = names_add(arrow ? &request->outputs : &request->inputs, w,
				      word.len);
		if (r < 0)
			return r;
	}
	if (r == 0 && !arrow)
		r = pf_err_set(err, -EINVAL,
			       "expected inputs, '->' and outputs, as in "
			       "'x y -> z', found no '->'");
	return r;
}

/* --- JSON --------------------------------------------------------------------------------- */

static const char *type_name(struct json_object *o)
{
	return o ? json_type_to_name(json_object_get_type(o)) : "null";
}

static int parse_names(struct json_object *o, const char *key, struct names *names,
		       struct pf_err *err)
{
	struct json_object *list;

	if (!json_object_object_get_ex(o, key, &list))
		return 0;
	if (!json_object_is_type(list, json_type_array))
		return pf_err_set(err, -EINVAL,
				  "\"%s\": expected a list of names, found %s", key,
				  type_name(list));
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *name = json_object_array_get_idx(list, i);
		int r;

		if (!json_object_is_type(name, json_type_string))
			return pf_err_set(err, -EINVAL,
					  "\"%s\": expected a list of names, "
					  "element %zu is %s",
					  key, i, type_name(name));
		if (strlen(json_object_get_string(name)) !=
		    (size_t)json_object_get_string_len(name))
			return pf_err_set(err, -EINVAL,
					  "\"%s\": element %zu contains a NUL character",
					  key, i);
		r = names_add(names, json_object_get_string(name),
			      (size_t)json_object_get_string_len(name));
		if (r < 0)
			return r;
	}
	return 0;
}

int files_parse_request(struct json_object *o, const char *const *allowed,
			struct request *request, struct pf_err *err)
{
	struct json_object *id;
	int r;

	request->json = true;
	if (!request->id && json_object_object_get_ex(o, "id", &id))
		request->id = json_object_get(id);
	json_object_object_foreach(o, key, value) {
		size_t i = 0;

		(void)value;
		while (allowed[i] && strcmp(allowed[i], key))
			i++;
		if (!allowed[i])
			return pf_err_set(err, -EINVAL, "unknown key \"%s\"", key);
	}
	r = parse_names(o, "inputs", &request->inputs, err);
	if (r == 0)
		r = parse_names(o, "outputs", &request->outputs, err);
	if (r == 0)
		r = parse_names(o, "donate", &request->donate, err);
	return r;
}
