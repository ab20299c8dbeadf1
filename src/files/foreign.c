/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other formats that users may mistake for arrays or programs. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "internal.h"

#define ARRAY "it holds an array: those go to buffers/"
#define ARRAYS "it holds arrays: those go to buffers/"
#define PROGRAM "it is called as a program: those go to programs/"
#define NUMBERS "lines of numbers, without a line of names, are called .txt"
#define IMAGE                                                                            \
	"decode it first: python3 -c 'import numpy,sys; from PIL import Image; "         \
	"numpy.save(sys.argv[2], numpy.asarray(Image.open(sys.argv[1])))' IMAGE X.npy"
#define LIKE_JAX                                                                         \
	"export the model as StableHLO where it was made (jax.export, "                  \
	"torch_xla.stablehlo)"
#define BYTECODE "StableHLO as bytecode is called .mlirbc"
#define PICKLE                                                                           \
	"a pickle is a program of Python, and none is run here: load it where it was "   \
	"made, and write its arrays as .npy or .safetensors"
#define OF_TORCH_XLA                                                                     \
	"one of torch_xla names a program's inputs, and becomes input_names in "         \
	"options.json: import_torch_xla.py of the documentation's examples takes the "   \
	"whole directory that torch_xla saved"
/* Of a state_dict, or of a checkpoint that has one; tensors that share memory become copies. */
#define LOAD_TORCH                                                                       \
	"import torch,sys; from safetensors.torch import save_file; "                    \
	"d = torch.load(sys.argv[1], map_location=lambda s, _: s, weights_only=True); "  \
	"d = d.get(\"state_dict\") or d.get(\"model\") or d; "                           \
	"save_file({k: v.clone().contiguous() for k, v in d.items()}, sys.argv[2])"

/*
 * By extension: what to do instead of writing such a file to buffers/, and to programs/; NULL: it may be
 * written there.  buffers/ also refuses files that a program in Python converts, or one of its
 * MODULEs, which the mount's README shows, too; TO is the extension of what it makes, if it takes a name for
 * that.
 */
static const struct foreign {
	const char *ext, *buffers, *programs, *python, *module, *to;
} foreign[] = {
	{ ".npy", .programs = ARRAY },
	{ ".raw", .programs = ARRAY },
	{ ".safetensors", .programs = ARRAYS },
	{ ".txt",
	  .programs = "arrays go to buffers/, and StableHLO as text is called .mlir" },
	{ ".mlir", .buffers = PROGRAM },
	{ ".mlirbc", .buffers = PROGRAM },
	{ ".hlo.pb", .buffers = PROGRAM },
	{ ".jax_exported", .buffers = PROGRAM },
	{ ".pjrtexe", .buffers = PROGRAM },
	{ ".stablehlo", .buffers = "StableHLO goes to programs/, as .mlir or .mlirbc",
	  .programs = "StableHLO is called .mlir as text, .mlirbc as bytecode" },
	{ ".npz", .module = "zipfile -e", .to = "", .programs = ARRAYS },
	{ ".pt", .python = LOAD_TORCH, .to = ".safetensors", .programs = LIKE_JAX },
	{ ".pth", .python = LOAD_TORCH, .to = ".safetensors", .programs = LIKE_JAX },
	{
		".gguf",
		.python = "import gguf,numpy,sys; [numpy.save(t.name, t.data) for t in "
			  "gguf.GGUFReader(sys.argv[1]).tensors]",
	},
	{ ".onnx",
	  .python = "import onnx,numpy,sys; from onnx.numpy_helper import to_array; "
		    "[numpy.save(t.name, to_array(t)) for t in "
		    "onnx.load(sys.argv[1]).graph.initializer]",
	  .programs = LIKE_JAX },
	{ ".pkl", .buffers = PICKLE, .programs = LIKE_JAX },
	{ ".pickle", .buffers = PICKLE, .programs = LIKE_JAX },
	{ ".meta", .buffers = OF_TORCH_XLA, .programs = OF_TORCH_XLA },
	{ ".csv", .buffers = NUMBERS },
	{ ".tsv", .buffers = NUMBERS },
	{ ".png", .buffers = IMAGE },
	{ ".jpg", .buffers = IMAGE },
	{ ".jpeg", .buffers = IMAGE },
	{ ".hlo", .programs = "plugins do not read HLO as text: write a serialized "
			      "HloModuleProto, as .hlo.pb, or StableHLO, as .mlir" },
	{ ".pb", .programs = "a serialized HloModuleProto is called .hlo.pb" },
	{ ".py", .programs = "write what jax.jit(f).lower(x).as_text() gives, as .mlir" },
	{ ".tflite", .programs = LIKE_JAX },
	{ ".pt2", .programs = LIKE_JAX },
	{ ".keras", .programs = LIKE_JAX },
	{ ".h5", .programs = LIKE_JAX },
	{ ".bytecode", .programs = BYTECODE },
	{ ".bc", .programs = BYTECODE },
	{ ".vhlo", .programs = BYTECODE },
};

/* Has NAME the extension of F, in small or large letters? */
static bool is_one(const struct foreign *f, const char *name)
{
	size_t len = strlen(name), n = strlen(f->ext);

	return len > n && !strcasecmp(name + len - n, f->ext);
}

static bool is_converted(const struct foreign *f)
{
	return f->python || f->module;
}

/* Append the line that converts the file NAME, without F's extension LEN bytes, to OUT. */
static void print_conversion(const struct foreign *f, const char *name, int len,
			     struct pf_buf *out)
{
	if (f->module)
		pf_buf_printf(out, "python3 -m %s", f->module);
	else
		pf_buf_printf(out, "python3 -c '%s'", f->python);
	pf_buf_printf(out, " %s", name);
	if (f->to)
		pf_buf_printf(out, " %.*s%s", len, name, f->to);
}

int files_check_case(const char *name, bool program, struct pf_err *err)
{
	char small[PF_NAME_MAX + 1] = "";
	enum pf_format format;
	size_t stem;
	bool known;

	for (size_t i = 0; name[i] && i < PF_NAME_MAX; i++)
		small[i] = (char)tolower((unsigned char)name[i]);
	if (program) {
		known = pf_program_format_of(small, &stem) != PF_PROGRAM_NONE;
	} else {
		format = pf_format_of(small, &stem);
		known = format != PF_FORMAT_NONE && format != PF_FORMAT_JSON;
	}
	if (!known || !strcmp(name + stem, small + stem))
		return 0;
	return pf_err_set(err, -EINVAL,
			  "%s: expected an extension in small letters, found %s: call it "
			  "%.*s%s",
			  name, name + stem, (int)stem, name, small + stem);
}

int files_foreign_to_buffers(const char *name, struct pf_err *err)
{
	pf_autobuf struct pf_buf line = PF_BUF_INIT;
	const struct foreign *f = foreign, *end = f + PF_ARRAY_SIZE(foreign);
	int r = files_check_case(name, false, err);

	if (r < 0)
		return r;
	while (f < end && !((f->buffers || is_converted(f)) && is_one(f, name)))
		f++;
	if (f == end)
		return 0;
	if (f->buffers)
		return pf_err_set(
			err, -EINVAL,
			"%s: expected an array, which is called " FILES_ARRAY_NAMES
			", found %s: %s",
			name, f->ext, f->buffers);
	print_conversion(f, name, (int)(strlen(name) - strlen(f->ext)), &line);
	return pf_err_set(err, -EINVAL,
			  "%s files are not read; files of their arrays are made by: %s",
			  f->ext, line.data ? line.data : "python3");
}

int files_foreign_to_programs(const char *name, struct pf_err *err)
{
	const struct foreign *f = foreign, *end = f + PF_ARRAY_SIZE(foreign);
	int r = files_check_case(name, true, err);

	if (r < 0)
		return r;
	while (f < end && !(f->programs && is_one(f, name)))
		f++;
	if (f == end)
		return 0;
	return pf_err_set(err, -EINVAL,
			  "%s: expected a program, which is called .mlir, .mlirbc, "
			  ".hlo.pb, .jax_exported or .pjrtexe, found %s: %s",
			  name, f->ext, f->programs);
}

void files_print_conversions(struct pf_buf *out)
{
	char name[32];

	for (size_t i = 0; i < PF_ARRAY_SIZE(foreign); i++) {
		if (!is_converted(&foreign[i]))
			continue;
		snprintf(name, sizeof(name), "NAME%s", foreign[i].ext);
		pf_buf_puts(out, "  ");
		print_conversion(&foreign[i], name, 4, out);
		pf_buf_puts(out, "\n");
	}
}
