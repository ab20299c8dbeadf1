/* SPDX-License-Identifier: Apache-2.0 */
/* Names of files that are no programs, but that users take for some. */
#include <errno.h>
#include <string.h>

#include "internal.h"

#define LIKE_JAX                                                                         \
	"export the model as StableHLO where it was made (jax.export, "                  \
	"torch_xla.stablehlo)"

static const struct {
	const char *ext, *instead;
} foreign[] = {
	{ ".npy", "it holds an array: those go to buffers/" },
	{ ".npz", "it holds arrays: those go to buffers/" },
	{ ".safetensors", "it holds arrays: those go to buffers/" },
	{ ".raw", "it holds an array: those go to buffers/" },
	{ ".txt", "arrays go to buffers/, and StableHLO as text is called .mlir" },
	{ ".stablehlo", "StableHLO is called .mlir as text, .mlirbc as bytecode" },
	{ ".hlo", "plugins do not read HLO as text: write a serialized "
		  "HloModuleProto, as .hlo.pb, or StableHLO, as .mlir" },
	{ ".pb", "a serialized HloModuleProto is called .hlo.pb" },
	{ ".py", "write what jax.jit(f).lower(x).as_text() gives, as .mlir" },
	{ ".onnx", LIKE_JAX },
	{ ".tflite", LIKE_JAX },
	{ ".pt", LIKE_JAX },
	{ ".pt2", LIKE_JAX },
	{ ".pth", LIKE_JAX },
};

int programs_check_foreign(const char *name, struct pf_err *err)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
		size_t n = strlen(foreign[i].ext);

		if (len > n && !strcmp(name + len - n, foreign[i].ext))
			return pf_err_set(
				err, -EINVAL,
				"%s: expected a program, which is called .mlir, "
				".mlirbc, .hlo.pb, .jax_exported or .pjrtexe, "
				"found %s: %s",
				name, foreign[i].ext, foreign[i].instead);
	}
	return 0;
}
