/* SPDX-License-Identifier: Apache-2.0 */
/* The names of buffers: which are valid, and what they lead to in a directory. */
#include <errno.h>
#include <string.h>

#include "internal.h"

enum pf_format buffers_format_of(const char *name, size_t *stem_len)
{
	enum pf_format format = pf_format_of(name, stem_len);

	if (format != PF_FORMAT_JSON)
		return format;
	if (stem_len)
		*stem_len = strlen(name);
	return PF_FORMAT_NONE;
}

struct device *files_device_of(struct pf_node *dir)
{
	return dir_of(dir)->device;
}

size_t files_path_len(const char *name)
{
	size_t len = strlen(name);

	while (len > 1 && name[len - 1] == '/')
		len--;
	return len;
}

int buffers_check_stem(const char *name, size_t len, struct pf_err *err)
{
	static const char *const never[] = { ".npy",  ".raw",         ".txt",
					     ".json", ".safetensors", ".sharding" };

	for (size_t i = 0; i < PF_ARRAY_SIZE(never); i++) {
		size_t n = strlen(never[i]);

		if (len >= n && !memcmp(name + len - n, never[i], n))
			return pf_err_set(err, -EINVAL,
					  "%s: the name before the extension must "
					  "not end in %s",
					  name, never[i]);
	}
	return 0;
}

struct pf_node *buffers_find_stem(struct pf_node *dir, const char *stem, size_t len)
{
	const char *extensions[PF_FORMAT_JSON - PF_FORMAT_NPY + 1];
	size_t n = 0;

	for (unsigned f = PF_FORMAT_NPY; f < PF_FORMAT_JSON; f++)
		if (f != PF_FORMAT_TXT || !pf_stem_has_words(stem, len))
			extensions[n++] = pf_format_extension(f);
	extensions[n] = NULL;
	return pf_dir_lookup_stem(dir, stem, len, extensions);
}

struct pf_node *buffers_find_directory(struct pf_node *dir, const char *name, size_t len)
{
	char part[PF_NAME_MAX + 1];
	struct pf_node *node;

	if (!len || len > PF_NAME_MAX)
		return NULL;
	memcpy(part, name, len);
	part[len] = '\0';
	node = pf_dir_lookup(dir, part);
	if (node && !buffers_is_directory(node))
		pf_node_unref(pf_steal(&node));
	return node;
}

bool buffers_has_json(struct pf_node *dir, const char *stem, size_t len)
{
	const char *const json[] = { pf_format_extension(PF_FORMAT_JSON), NULL };
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *node = pf_dir_lookup_stem(dir, stem, len, json);

	return node;
}

int buffers_check_free(struct pf_node *dir, const char *name, size_t stem_len,
		       struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *taken = buffers_find_directory(dir, name, stem_len);

	if (taken)
		return pf_err_set(err, -EEXIST, "%s: there is a directory %.*s", name,
				  (int)stem_len, name);
	return buffers_has_json(dir, name, stem_len)
		       ? pf_err_set(
				 err, -EEXIST,
				 "%s: there is a file %.*s.json, which is what is known "
				 "of a buffer",
				 name, (int)stem_len, name)
		       : 0;
}

struct pf_node *buffers_find_viewed(struct pf_node *dir, const char *name,
				    enum pf_format format, size_t len)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *tensors = NULL;
	struct pf_node *node = NULL;

	if (format != PF_FORMAT_NONE)
		node = buffers_find_stem(dir, name, len);
	if (!node && (format == PF_FORMAT_SAFETENSORS || format == PF_FORMAT_JSON))
		tensors = buffers_find_directory(dir, name, len);
	return tensors && dir_of(tensors)->file ? pf_node_ref(dir_of(tensors)->file)
						: node;
}

int buffers_check_name(struct pf_node *dir, const char *name, enum pf_format *ret,
		       struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *viewed = NULL;
	size_t len;
	int r = files_foreign_to_buffers(name, err);

	if (r < 0)
		return r;
	*ret = pf_format_of(name, &len);
	if (*ret == PF_FORMAT_NONE)
		return 0;
	viewed = buffers_find_viewed(dir, name, *ret, len);
	r = buffers_check_stem(name, len, err);
	if (r == 0 && *ret == PF_FORMAT_JSON && viewed)
		r = pf_err_set(err, -EINVAL,
			       "%s: there is a buffer of that name, and .json is what is "
			       "known of it",
			       name);
	if (*ret == PF_FORMAT_JSON) {
		*ret = PF_FORMAT_NONE;
		return r;
	}
	return r < 0 || viewed ? r : buffers_check_free(dir, name, len, err);
}

int buffers_check_no_json(const char *name, struct pf_err *err)
{
	size_t len;

	if (pf_format_of(name, &len) != PF_FORMAT_JSON)
		return 0;
	return pf_err_set(err, -EINVAL,
			  "%s is what is known of a buffer, whose name is %.*s", name,
			  (int)len, name);
}
