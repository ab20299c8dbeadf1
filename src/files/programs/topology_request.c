/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What users write to topologies/NAME.txt and NAME.json, what NAME.json says afterwards, and the files of
 * targets: descriptions of GPUs as XLA's GpuTargetConfigProto, in text.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/json.h"
#include "pjrtfs/plugin_options.h"
#include "pjrtfs/topology_request.h"

/* What a plugin says of a topology, pj_topology_json. */
static const char *const facts[] = { "platform",   "platform_version", "fingerprint",
				     "attributes", "devices",          NULL };
static const char target_extension[] = ".txtpb";

/* --- targets ------------------------------------------------------------------------ */

/* Is VALUE, of option NAME, the name of a target, and not the text of one? */
static bool names_target(const char *name, struct json_object *value)
{
	static const char in_names[] = "abcdefghijklmnopqrstuvwxyz"
				       "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	const char *text;

	if (strcmp(name, "target_config") != 0 ||
	    !json_object_is_type(value, json_type_string))
		return false;
	text = json_object_get_string(value);
	return *text && !text[strspn(text, in_names)];
}

/* Append the name of the target that FILE describes, if it is such a file. */
static void add_name(const char *file, struct pf_buf *names)
{
	size_t len = strlen(file), n = strlen(target_extension);

	if (len > n && !strcmp(file + len - n, target_extension))
		pf_buf_printf(names, "%s%.*s", names->len ? ", " : "", (int)(len - n),
			      file);
}

/* There is no target NAME in DIR: say which there are. */
static int refuse_target(const char *name, const char *dir, struct pf_err *err)
{
	pf_autobuf struct pf_buf names = PF_BUF_INIT;
	struct dirent **list = NULL;
	int n = scandir(dir, &list, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		add_name(list[i]->d_name, &names);
		free(list[i]);
	}
	free(list);
	return pf_err_set(
		err, -EINVAL,
		"option target_config: expected a target that %s has (%s), or the "
		"text of one, found %.80s",
		dir, names.len && !names.failed ? names.data : "none", name);
}

/* Append the text of the target NAME to RET. */
static int read_target(const char *name, struct pf_buf *ret, struct pf_err *err)
{
	char dir[PATH_MAX], path[PATH_MAX + PF_CREATE_NAME_MAX];
	pf_autoclose int fd = -1;
	int r;

	pf_find_installed("targets", PKGDATADIR, dir, sizeof(dir));
	snprintf(path, sizeof(path), "%s/%.200s%s", dir, name, target_extension);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return refuse_target(name, dir, err);
	r = fd < 0 ? -errno : pf_read_all(fd, PF_CREATE_TEXT_MAX, ret);
	if (r == 0 && (ret->failed || !pf_buf_reserve(ret, 1)))
		r = -ENOMEM;
	if (r < 0)
		return pf_err_set(err, r, "%s: %s", path, strerror(-r));
	ret->data[ret->len] = '\0';
	return 0;
}

/* --- what the user wrote ------------------------------------------------------------ */

/* The value under KEY of O, which must be of TYPE: *RET, borrowed, or NULL if there is none. */
static int member(struct json_object *o, const char *key, enum json_type type,
		  const char *want, struct json_object **ret, struct pf_err *err)
{
	*ret = NULL;
	if (!json_object_object_get_ex(o, key, ret) || json_object_is_type(*ret, type))
		return 0;
	return pf_err_set(err, -EINVAL, "\"%s\": expected %s, found %.80s", key, want,
			  pf_json_text(*ret));
}

static bool is_fact(const char *name)
{
	for (const char *const *fact = facts; *fact; fact++)
		if (!strcmp(name, *fact))
			return true;
	return false;
}

static int check_names(struct json_object *o, struct pf_err *err)
{
	json_object_object_foreach(o, name, value) {
		(void)value;
		if (strcmp(name, "plugin") != 0 && strcmp(name, "name") != 0 &&
		    strcmp(name, "options") != 0 && !is_fact(name))
			return pf_err_set(
				err, -EINVAL,
				"expected the members plugin, name and options, "
				"found \"%.80s\"",
				name);
	}
	return 0;
}

/* LEN bytes are a name. */
static int check_name(size_t len, struct pf_err *err)
{
	if (len <= PF_CREATE_NAME_MAX)
		return 0;
	return pf_err_set(err, -EINVAL,
			  "expected the name of a topology, of at most %d bytes, found "
			  "%zu",
			  PF_CREATE_NAME_MAX, len);
}

/* The options of OWN (or NULL) as the plugin gets them: *RET, the caller's. */
static int make_options(struct json_object *own, struct json_object **ret,
			struct pf_err *err)
{
	struct json_object *options = json_object_new_object();
	int r = 0;

	if (own && json_object_object_length(own) > PF_CREATE_OPTIONS_MAX)
		r = pf_err_set(err, -EINVAL, "expected at most %d options, found %d",
			       PF_CREATE_OPTIONS_MAX, json_object_object_length(own));
	json_object_object_foreach(own, name, value) {
		pf_autobuf struct pf_buf target = PF_BUF_INIT;

		if (r == 0)
			r = pf_create_option_check(name, value, err);
		if (r < 0)
			break;
		if (names_target(name, value))
			r = read_target(json_object_get_string(value), &target, err);
		if (r == 0 && target.len)
			pf_json_add_string(options, name, target.data);
		else if (r == 0)
			pf_json_add_copy(options, name, value);
	}
	if (r < 0)
		json_object_put(pf_steal(&options));
	*ret = options;
	return r;
}

/* Make RET->text of NAME and the options OWN. */
static int make_text(const char *name, struct json_object *own,
		     struct pf_topology_request *ret, struct pf_err *err)
{
	struct json_object *wire = json_object_new_object(), *options = NULL;
	int r = own ? make_options(own, &options, err) : 0;

	pf_json_add_string(wire, "name", name);
	if (own)
		pf_json_add(wire, "options", options);
	if (r == 0) {
		/* The text of no object is "null". */
		if (pf_json_complete(wire) && pf_json_complete(ret->json))
			ret->text = pf_json_text_copy(wire);
		if (!ret->text)
			r = pf_err_set(err, -ENOMEM, "no memory for a topology");
	}
	json_object_put(wire);
	return r;
}

/* Read O, the user's, into RET, whose json gets what is no fact. */
static int read_json(struct json_object *o, struct pf_topology_request *ret,
		     struct pf_err *err)
{
	struct json_object *plugin, *name, *options;
	int r = check_names(o, err);

	if (r == 0)
		r = member(o, "plugin", json_type_string, "the name of a plugin", &plugin,
			   err);
	if (r == 0)
		r = member(o, "name", json_type_string, "the name of a topology", &name,
			   err);
	if (r == 0)
		r = member(o, "options", json_type_object, "an object", &options, err);
	if (r == 0 && !name)
		r = pf_err_set(
			err, -EINVAL,
			"expected the member \"name\", the name of a topology, which "
			"may be \"\"");
	if (r == 0)
		r = check_name((size_t)json_object_get_string_len(name), err);
	if (r < 0)
		return r;
	ret->json = json_object_new_object();
	if (plugin)
		pf_json_add_copy(ret->json, "plugin", plugin);
	pf_json_add_copy(ret->json, "name", name);
	if (options)
		pf_json_add_copy(ret->json, "options", options);
	if (plugin)
		ret->plugin = pf_json_get_string(ret->json, "plugin");
	return make_text(json_object_get_string(name), options, ret, err);
}

/* Read the LEN bytes at LINE, a name, into RET. */
static int read_line(const char *line, size_t len, struct pf_topology_request *ret,
		     struct pf_err *err)
{
	pf_autofree char *name = NULL;
	int r;

	if (len && line[len - 1] == '\n')
		len--;
	for (size_t i = 0; i < len; i++)
		if (line[i] < ' ' || line[i] > '~')
			return pf_err_set(err, -EINVAL,
					  "expected one line, the name of a topology, as "
					  "v5e:2x2, found the byte 0x%02x",
					  (unsigned char)line[i]);
	r = check_name(len, err);
	if (r < 0)
		return r;
	name = strndup(line, len);
	if (!name)
		return pf_err_set(err, -ENOMEM, "no memory for a topology");
	ret->json = json_object_new_object();
	pf_json_add_string(ret->json, "name", name);
	return make_text(name, NULL, ret, err);
}

int pf_topology_request_parse(bool is_json, const char *text, size_t len,
			      struct pf_topology_request *ret, struct pf_err *err)
{
	struct json_object *o;
	int r;

	*ret = (struct pf_topology_request){ 0 };
	if (!is_json)
		return read_line(text, len, ret, err);
	r = pf_json_parse(text, len, &o, err);
	if (r == 0)
		r = read_json(o, ret, err);
	json_object_put(o);
	return r;
}

void pf_topology_request_release(struct pf_topology_request *request)
{
	json_object_put(request->json);
	free(request->text);
	*request = (struct pf_topology_request){ 0 };
}

/* --- what NAME.json says ------------------------------------------------------------ */

int pf_topology_describe(const struct pf_topology_request *request, const char *plugin,
			 const char *text, size_t len, struct pf_buf *out,
			 struct pf_err *err)
{
	struct json_object *told, *ret = json_object_new_object(), *value;
	int r = pf_json_parse(text, len, &told, NULL);

	pf_json_add_string(ret, "plugin", plugin);
	if (request && json_object_object_get_ex(request->json, "name", &value))
		pf_json_add_copy(ret, "name", value);
	if (request && json_object_object_get_ex(request->json, "options", &value))
		pf_json_add_copy(ret, "options", value);
	for (const char *const *fact = facts; *fact && r == 0; fact++)
		if (json_object_object_get_ex(told, *fact, &value))
			pf_json_add_copy(ret, *fact, value);
	if (r == 0)
		pf_json_print_line(ret, out);
	if (r == -ENOMEM || out->failed)
		r = pf_err_set(err, -ENOMEM, "no memory for a topology");
	else if (r < 0)
		r = pf_err_set(
			err, -EPROTO,
			"the worker of plugin %s described a topology in a text that is "
			"not JSON",
			plugin);
	json_object_put(told);
	json_object_put(ret);
	return r;
}
