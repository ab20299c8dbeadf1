/* SPDX-License-Identifier: Apache-2.0 */
/* What plugins' words mean for a user: the cause, and the next step. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <string.h>

#include "pjrtfs/base.h"

#define ROCM_IS_MISSING                                                                  \
	" is missing: install ROCm, or name its directory (/opt/rocm/lib) in "           \
	"LD_LIBRARY_PATH"

/* Words in a plugin's error, or in a line that it prints.  The first row that fits counts. */
static const struct cause {
	const char *said;  /* by the plugin, or by the dynamic linker */
	const char *means; /* the cause, and what to do */
} causes[] = {
	{ "No jellyfish device found",
	  "there is no TPU on this machine (a container needs /dev/accel* or /dev/vfio)" },
	{ "cuInit: UNKNOWN ERROR (303)",
	  "no NVIDIA driver (libcuda.so.1) here: install it; a container needs "
	  "\"docker run --gpus all\"" },
	{ "cuInit: UNKNOWN ERROR (100)", "no NVIDIA GPU here: nvidia-smi lists them" },
	{ "CUDA_ERROR_NO_DEVICE", "no NVIDIA GPU here: nvidia-smi lists them" },
	{ "No visible GPU devices",
	  "there is no GPU here, or no driver for it (NVIDIA's is libcuda.so.1)" },
	{ "No chips detected",
	  "there is no Tenstorrent card on this machine (a container needs "
	  "/dev/tenstorrent)" },
	{ "tt-metal runtime",
	  "Tenstorrent's library unpacks programs as it is loaded: that needs --sandbox "
	  "off" },
	{ "invalid ELF header",
	  "expected a shared library, found no ELF header: name the plugin's .so" },
	{ "file too short",
	  "expected a shared library, found a part of one: copy it again" },
	{ "cannot read file data: Is a directory",
	  "expected a shared library, found a directory: name the plugin's .so in it" },
	{ "Unexpected option name passed to PJRT_Client_Create",
	  "the plugin has no create option of this name: its documentation lists those that "
	  "it has (cpu_device_count is one of XLA's for CPUs)" },
	{ "No PTX compilation provider is available",
	  "ptxas is missing: pip install nvidia-cuda-nvcc beside the plugin, for CUDA 12 "
	  "nvidia-cuda-nvcc-cu12" },
	{ "libdevice not found",
	  "libdevice is missing: pip install nvidia-nvvm beside the plugin, for CUDA 12 "
	  "nvidia-cuda-nvcc-cu12" },
	/* The plugin looks where it was built, so pip's directory must be named. */
	{ "libcupti.so.13: cannot open",
	  "libcupti.so.13 is missing: pip install nvidia-cuda-cupti, and name its directory "
	  "(site-packages/nvidia/cu13/lib) in LD_LIBRARY_PATH" },
	{ "libcupti.so.12: cannot open",
	  "libcupti.so.12 is missing: pip install nvidia-cuda-cupti-cu12, and name its "
	  "directory (site-packages/nvidia/cuda_cupti/lib) in LD_LIBRARY_PATH" },
	{ "librccl.so.1: cannot open", "librccl.so.1" ROCM_IS_MISSING },
	{ "librocprofiler-sdk.so.1: cannot open",
	  "librocprofiler-sdk.so.1" ROCM_IS_MISSING },
	{ "libmpi.so.12: cannot open",
	  "libmpi.so.12 is missing: pip install impi-rt beside the plugin" },
	{ "libumf.so.0: cannot open",
	  "libumf.so.0 is missing: pip install 'dpcpp-cpp-rt<2026' 'mkl-dpcpp<2026' beside "
	  "the plugin" },
	{ "libmkl_core.so.2: cannot open",
	  "libmkl_core.so.2 is missing: pip install 'mkl-dpcpp<2026' beside the plugin" },
	{ "libze_loader.so.1: cannot open",
	  "libze_loader.so.1 is missing: install Intel's driver of its GPUs (Debian's "
	  "libze1)" },
	{ "libccl.so.1: cannot open",
	  "libccl.so.1 is missing: pip install oneccl, and name its directory (the "
	  "environment's lib) in LD_LIBRARY_PATH" },
};

/* TEXT behind the cause that it begins with, if it does. */
static const char *behind_cause(const char *text)
{
	for (size_t i = 0; i < PF_ARRAY_SIZE(causes); i++) {
		size_t len = strlen(causes[i].means);

		if (!strncmp(text, causes[i].means, len) && !strncmp(text + len, ": ", 2))
			return text + len + 2;
	}
	return text;
}

bool pf_err_explain(struct pf_err *err, const char *words, size_t len)
{
	const struct cause *c = causes, *end = causes + PF_ARRAY_SIZE(causes);
	const char *rest;

	while (c < end && !memmem(words, len, c->said, strlen(c->said)))
		c++;
	if (c == end)
		return false;
	rest = behind_cause(err->text);
	memmove(err->text, rest, strlen(rest) + 1);
	pf_err_wrap(err, err->code, "%s", c->means);
	return true;
}

void pf_err_blame_sandbox(struct pf_err *err)
{
	struct pf_err was = *err;

	if (!strstr(was.text, strerror(EACCES)) && !strstr(was.text, strerror(EPERM)))
		return;
	pf_err_set(err, was.code,
		   "%s; the sandbox may forbid it: --sandbox off would tell, "
		   "--sandbox-read and --sandbox-write allow more",
		   was.text);
	err->pjrt_code = was.pjrt_code;
}
