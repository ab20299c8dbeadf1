/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that are refused, and why.
 *
 * cp(1) says "Invalid argument" and there is no file whose .json could tell more.  So the last
 * sentences are kept, and NAME.json in that directory tells it to who was refused, as long as
 * there is no buffer NAME.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"
#include "pjrtfs/base/json.h"

/* Files of formats that others have; the manual and the mount's README show the same lines. */
static const struct {
	const char *ext, *python, *to;
} foreign[] = {
	{ ".npz",
	  "import numpy,sys; [numpy.save(k, v) for k, v in "
	  "numpy.load(sys.argv[1]).items()]",
	  "" },
	{ ".pt",
	  "import torch,sys; from safetensors.torch import save_file; "
	  "save_file(torch.load(sys.argv[1], map_location=lambda s, _: s), sys.argv[2])",
	  ".safetensors" },
	{ ".gguf",
	  "import gguf,numpy,sys; [numpy.save(t.name, t.data) for t in "
	  "gguf.GGUFReader(sys.argv[1]).tensors]",
	  "" },
	{ ".onnx",
	  "import onnx,numpy,sys; from onnx.numpy_helper import to_array; "
	  "[numpy.save(t.name, to_array(t)) for t in "
	  "onnx.load(sys.argv[1]).graph.initializer]",
	  "" },
};

#define PROGRAM "it is called as a program: those go to programs/"
#define IMAGE                                                                            \
	"decode it first: python3 -c 'import numpy,sys; from PIL import Image; "         \
	"numpy.save(sys.argv[2], numpy.asarray(Image.open(sys.argv[1])))' IMAGE X.npy"

/* Files that hold no arrays, or hold them as numbers in text. */
static const struct {
	const char *ext, *instead;
} others[] = {
	{ ".mlir", PROGRAM },
	{ ".mlirbc", PROGRAM },
	{ ".hlo.pb", PROGRAM },
	{ ".jax_exported", PROGRAM },
	{ ".pjrtexe", PROGRAM },
	{ ".stablehlo", "StableHLO goes to programs/, as .mlir or .mlirbc" },
	{ ".csv", "lines of numbers, without a line of names, are called .txt" },
	{ ".tsv", "lines of numbers, without a line of names, are called .txt" },
	{ ".png", IMAGE },
	{ ".jpg", IMAGE },
	{ ".jpeg", IMAGE },
};

static bool ends_in(const char *name, size_t len, const char *ext)
{
	size_t n = strlen(ext);

	return len >= n && !strcmp(name + len - n, ext);
}

int buffers_check_foreign(const char *name, struct pf_err *err)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (ends_in(name, len, others[i].ext))
			return pf_err_set(err, -EINVAL,
					  "%s: expected an array, which is called .npy, "
					  ".txt, .raw or .safetensors, found %s: %s",
					  name, others[i].ext, others[i].instead);
	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
		size_t ext = strlen(foreign[i].ext);

		if (!ends_in(name, len, foreign[i].ext))
			continue;
		return pf_err_set(err, -EINVAL,
				  "%s files are not read; files of their arrays are made "
				  "by: python3 -c '%s' %s%s%.*s%s",
				  foreign[i].ext, foreign[i].python, name,
				  *foreign[i].to ? " " : "",
				  *foreign[i].to ? (int)(len - ext) : 0, name,
				  foreign[i].to);
	}
	return 0;
}

void buffers_print_foreign(struct pf_buf *out)
{
	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		pf_buf_printf(out, "  python3 -c '%s' NAME%s%s%s\n", foreign[i].python,
			      foreign[i].ext, *foreign[i].to ? " NAME" : "",
			      foreign[i].to);
}

/* The object of a node that tells. */
struct refusal {
	uint64_t dir; /* its number is never given again */
	char stem[PF_NAME_MAX + 1];
	char text[PF_ERR_TEXT];
};

static int refusal_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	const struct refusal *r = node->object;
	struct json_object *o = json_object_new_object();

	(void)err;
	pf_json_add_string(o, "name", r->stem);
	pf_json_add_string(o, "state", "error");
	pf_json_add_string(o, "error", r->text);
	pf_json_print_line(o, out);
	json_object_put(o);
	return 0;
}

static void refusal_free(struct pf_node *node)
{
	free(node->object);
}

static const struct pf_kind kind_refusal = { .mode = S_IFREG | 0400,
					     .show = refusal_show,
					     .free = refusal_free };

static struct pf_node **find(struct pf_fs *fs, struct pf_node *dir, const char *stem,
			     size_t len)
{
	for (unsigned i = 0; i < FILES_REFUSALS; i++) {
		const struct refusal *r =
			fs->refusals[i] ? fs->refusals[i]->object : NULL;

		if (r && r->dir == dir->ino && strlen(r->stem) == len &&
		    !memcmp(r->stem, stem, len))
			return &fs->refusals[i];
	}
	return NULL;
}

/* The length of NAME without its last extension, also one that is not ours. */
static size_t stem_length(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && dot > name ? (size_t)(dot - name) : strlen(name);
}

/* A name was taken: what was said of its stem is past. */
static void forget(struct pf_node *dir, const char *name)
{
	struct pf_node **slot = find(fs_of(dir), dir, name, stem_length(name));

	if (slot)
		pf_node_unref(pf_steal(slot));
}

static void remember(struct pf_node *dir, const char *name, const struct pf_cred *cred,
		     const struct pf_err *err)
{
	struct pf_fs *fs = fs_of(dir);
	size_t len = stem_length(name);
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *buffer = buffers_find_stem(dir, name, len);
	struct pf_node **slot = find(fs, dir, name, len);
	struct refusal *r;

	if (buffer) /* its .json tells about it */
		return;
	if (!slot)
		slot = &fs->refusals[fs->next_refusal++ % FILES_REFUSALS];
	pf_node_unref(pf_steal(slot));
	r = calloc(1, sizeof(*r));
	if (!r)
		return;
	r->dir = dir->ino;
	memcpy(r->stem, name, len);
	memcpy(r->text, err->text, sizeof(r->text));
	*slot = pf_node_new(dir->tree, &kind_refusal, r, (mode_t)-1, cred);
	if (!*slot)
		free(r);
}

int buffers_named(struct pf_node *dir, const char *name, const struct pf_cred *cred,
		  int r, const struct pf_err *err)
{
	/* To write to what tells of a buffer is another matter. */
	if (strlen(name) > PF_NAME_MAX || pf_format_of(name, NULL) == PF_FORMAT_JSON)
		return r;
	if (r == 0)
		forget(dir, name);
	else if (r == -EINVAL || r == -EEXIST || r == -EOPNOTSUPP)
		remember(dir, name, cred, err);
	return r;
}

struct pf_node *buffers_refusal(struct pf_node *dir, const char *stem, size_t len)
{
	struct pf_node **slot = find(fs_of(dir), dir, stem, len);

	return slot ? pf_node_ref(*slot) : NULL;
}
