/* SPDX-License-Identifier: Apache-2.0 */
/* Causes that are known: they stand before the words of the plugin. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pjrtfs/base.h"
#include "unit.h"

static struct pf_err err;

/* Explain ERR by WORDS. */
static bool explain(const char *words)
{
	return pf_err_explain(&err, words, strlen(words));
}

/* As plugins and the dynamic linker say it. */
static const struct {
	const char *words, *begin;
} known[] = {
	{ "TPU initialization failed: No jellyfish device found.",
	  "there is no TPU on this machine (" },
	{ "failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN "
	  "ERROR (303)",
	  "no NVIDIA driver (libcuda.so.1) here: install it; " },
	{ "No visible GPU devices.", "there is no GPU here, or no driver for it (" },
	{ "it printed last:   what():  failed to extract embedded tt-metal runtime archive",
	  "Tenstorrent's library unpacks programs as it is loaded: that needs --sandbox "
	  "off: it" },
	{ "libmpi.so.12: cannot open shared object file: No such file or directory",
	  "libmpi.so.12 is missing: pip install impi-rt beside the plugin: " },
	{ "/etc/passwd: invalid ELF header",
	  "expected a shared library, found no ELF header: name the plugin's .so: /etc" },
	{ "./half.so: file too short",
	  "expected a shared library, found a part of one: copy it again: ./half" },
	{ "./plugins: cannot read file data: Is a directory",
	  "expected a shared library, found a directory: name the plugin's .so in it: " },
	{ "Unexpected option name passed to PJRT_Client_Create: nosuch",
	  "the plugin has no create option of this name: its documentation lists those that "
	  "it has (cpu_device_count is one of XLA's for CPUs): Unexpected" },
	{ "No PTX compilation provider is available. Neither ptxas/nvlink nor nvjtlink",
	  "ptxas is missing: pip install nvidia-cuda-nvcc beside the plugin, " },
};

TEST_EACH(known_words_have_a_cause, known)
{
	pf_err_set(&err, -ENODEV, "%s", known[_i].words);
	ck_assert(explain(err.text));
	ck_assert_int_eq(err.code, -ENODEV);
	ck_assert_msg(!strncmp(err.text, known[_i].begin, strlen(known[_i].begin)), "%s",
		      err.text);
	ck_assert_str_eq(err.text + strlen(err.text) - strlen(known[_i].words),
			 known[_i].words);
}

TEST(other_words_stay)
{
	pf_err_set(&err, -EIO, "libmine.so.1: cannot open shared object file");
	ck_assert(!explain(err.text));
	ck_assert_str_eq(err.text, "libmine.so.1: cannot open shared object file");
}

/* What the plugin printed is more exact than its error. */
TEST(a_later_cause_replaces_the_first)
{
	char vague[PF_ERR_TEXT];

	pf_err_set(&err, -EBUSY, "No visible GPU devices.");
	ck_assert(explain(err.text));
	strcpy(vague, err.text);
	ck_assert(explain(vague));
	ck_assert_str_eq(err.text, vague);
	ck_assert(explain("cuInit: UNKNOWN ERROR (303)"));
	ck_assert_int_eq(strncmp(err.text, "no NVIDIA driver", 16), 0);
	ck_assert_ptr_null(strstr(err.text, "there is no GPU here"));
	ck_assert_ptr_nonnull(strstr(err.text, "\": No visible GPU devices."));
}
