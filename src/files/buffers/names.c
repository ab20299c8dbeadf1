/* SPDX-License-Identifier: Apache-2.0 */
/* The names of buffers: which are valid, and what they lead to in a directory. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/json.h"

/* --- files of other formats --------------------------------------------------------- */

#define PROGRAM "it is called as a program: those go to programs/"
#define NUMBERS "lines of numbers, without a line of names, are called .txt"
#define IMAGE                                                                            \
	"decode it first: python3 -c 'import numpy,sys; from PIL import Image; "         \
	"numpy.save(sys.argv[2], numpy.asarray(Image.open(sys.argv[1])))' IMAGE X.npy"

/* Files of other formats: the program in Python that converts one, which the manual and the
 * mount's README show, too, and the extension of what it makes; or what to do instead. */
static const struct {
	const char *ext, *python, *to, *instead;
} foreign[] = {
	{ ".npz",
	  "import numpy,sys; [numpy.save(k, v) for k, v in "
	  "numpy.load(sys.argv[1]).items()]",
	  "", NULL },
	{ ".pt",
	  "import torch,sys; from safetensors.torch import save_file; "
	  "save_file(torch.load(sys.argv[1], map_location=lambda s, _: s), sys.argv[2])",
	  ".safetensors", NULL },
	{ ".gguf",
	  "import gguf,numpy,sys; [numpy.save(t.name, t.data) for t in "
	  "gguf.GGUFReader(sys.argv[1]).tensors]",
	  "", NULL },
	{ ".onnx",
	  "import onnx,numpy,sys; from onnx.numpy_helper import to_array; "
	  "[numpy.save(t.name, to_array(t)) for t in "
	  "onnx.load(sys.argv[1]).graph.initializer]",
	  "", NULL },
	{ ".mlir", NULL, "", PROGRAM },
	{ ".mlirbc", NULL, "", PROGRAM },
	{ ".hlo.pb", NULL, "", PROGRAM },
	{ ".jax_exported", NULL, "", PROGRAM },
	{ ".pjrtexe", NULL, "", PROGRAM },
	{ ".stablehlo", NULL, "", "StableHLO goes to programs/, as .mlir or .mlirbc" },
	{ ".csv", NULL, "", NUMBERS },
	{ ".tsv", NULL, "", NUMBERS },
	{ ".png", NULL, "", IMAGE },
	{ ".jpg", NULL, "", IMAGE },
	{ ".jpeg", NULL, "", IMAGE },
};

enum { N_FOREIGN = sizeof(foreign) / sizeof(foreign[0]) };

static bool ends_in(const char *name, size_t len, const char *ext)
{
	size_t n = strlen(ext);

	return len >= n && !memcmp(name + len - n, ext, n);
}

/* Append the line that converts the file called STEM (LEN bytes) and foreign[I].ext. */
static void print_conversion(int i, const char *stem, int len, struct pf_buf *out)
{
	pf_buf_printf(out, "python3 -c '%s' %.*s%s", foreign[i].python, len, stem,
		      foreign[i].ext);
	if (*foreign[i].to)
		pf_buf_printf(out, " %.*s%s", len, stem, foreign[i].to);
}

int buffers_check_foreign(const char *name, struct pf_err *err)
{
	pf_autobuf struct pf_buf line = PF_BUF_INIT;
	size_t len = strlen(name);
	int i = 0;

	while (i < N_FOREIGN && !ends_in(name, len, foreign[i].ext))
		i++;
	if (i == N_FOREIGN)
		return 0;
	if (foreign[i].instead)
		return pf_err_set(err, -EINVAL,
				  "%s: expected an array, which is called .npy, .txt, "
				  ".raw or .safetensors, found %s: %s",
				  name, foreign[i].ext, foreign[i].instead);
	print_conversion(i, name, (int)(len - strlen(foreign[i].ext)), &line);
	return pf_err_set(err, -EINVAL,
			  "%s files are not read; files of their arrays are made by: %s",
			  foreign[i].ext, line.data ? line.data : "python3");
}

void buffers_print_foreign(struct pf_buf *out)
{
	for (int i = 0; i < N_FOREIGN && foreign[i].python; i++) {
		pf_buf_puts(out, "  ");
		print_conversion(i, "NAME", 4, out);
		pf_buf_puts(out, "\n");
	}
}

/* --- names in a directory ----------------------------------------------------------- */

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

int buffers_check_stem(const char *name, size_t len, struct pf_err *err)
{
	static const char *const never[] = { ".npy",  ".raw",         ".txt",
					     ".json", ".safetensors", ".sharding" };

	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		if (ends_in(name, len, never[i]))
			return pf_err_set(err, -EINVAL,
					  "%s: the name before the extension must "
					  "not end in %s",
					  name, never[i]);
	return 0;
}

struct pf_node *buffers_find_stem(struct pf_node *dir, const char *stem, size_t len)
{
	const char *extensions[PF_FORMAT_JSON - PF_FORMAT_NPY + 1];
	size_t n = 0;

	for (unsigned f = PF_FORMAT_NPY; f < PF_FORMAT_JSON; f++)
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
	int r = buffers_check_foreign(name, err);

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
