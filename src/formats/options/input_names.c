/* SPDX-License-Identifier: Apache-2.0 */
/* "input_names" in the options of a program: what its inputs are called. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/json.h"
#include "pjrtfs/plugin_options.h"

static const char key[] = "input_names";

enum { NAME_TOLD = 80 /* bytes of a name in a sentence */ };

/* The names in OPTIONS, borrowed; NULL: there are none. */
static struct json_object *names_of(struct json_object *options)
{
	struct json_object *names = NULL;

	json_object_object_get_ex(options, key, &names);
	return names;
}

static bool are_names(struct json_object *names)
{
	if (!json_object_is_type(names, json_type_array))
		return false;
	for (size_t i = 0; i < json_object_array_length(names); i++) {
		struct json_object *name = json_object_array_get_idx(names, i);

		if (!json_object_is_type(name, json_type_string) ||
		    !json_object_get_string_len(name))
			return false;
	}
	return true;
}

int pf_options_check_names(struct json_object *options, struct pf_err *err)
{
	struct json_object *names = names_of(options);

	return !names || are_names(names)
		       ? 0
		       : pf_options_refuse(key, "a list with a name for each input",
					   names, err);
}

int pf_options_name_inputs(struct json_object *options, struct pf_signature *s,
			   struct pf_err *err)
{
	struct json_object *names = names_of(options);
	size_t n, pair[2];
	int r;

	if (!names)
		return 0;
	n = json_object_array_length(names);
	if (n != s->n_inputs)
		return pf_err_set(
			err, -EINVAL,
			"option %s: expected %zu names, one for each input of the "
			"program, found %zu",
			key, s->n_inputs, n);
	for (size_t i = 0; i < n; i++) {
		const char *name =
			json_object_get_string(json_object_array_get_idx(names, i));

		s->inputs[i].named = false;
		if (!name || pf_param_name(&s->inputs[i], name, strlen(name)) < 0)
			return pf_err_set(err, -ENOMEM, "no memory for names");
		s->inputs[i].named = true;
	}
	s->names_given = true;
	r = pf_params_equal(s, pair);
	if (r == 1)
		return pf_err_set(
			err, -EINVAL,
			"option %s: expected names that tell the inputs apart, found "
			"input %zu (%.*s) and input %zu (%.*s), which are equal",
			key, pair[0], NAME_TOLD, s->inputs[pair[0]].name, pair[1],
			NAME_TOLD, s->inputs[pair[1]].name);
	return r < 0 ? pf_err_set(err, r, "no memory for names") : 0;
}
