/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flags of XLA that a program may be compiled with by users who do not own the mount.  XLA has
 * some 400, and each version others; some name files to write, directories, commands, or other
 * flags.  So it is a list of what is allowed: what changes numbers or speed and no more.
 */
#include <errno.h>
#include <string.h>

#include "pjrtfs/formats/options.h"

static const char *const for_all[] = {
	"xla_allow_excess_precision",
	"xla_backend_optimization_level",
	"xla_cpu_enable_concurrency_optimized_scheduler",
	"xla_cpu_enable_fast_math",
	"xla_cpu_enable_fast_min_max",
	"xla_cpu_fast_math_honor_division",
	"xla_cpu_fast_math_honor_functions",
	"xla_cpu_fast_math_honor_infs",
	"xla_cpu_fast_math_honor_nans",
	"xla_cpu_max_isa",
	"xla_cpu_multi_thread_eigen",
	"xla_cpu_optimize_for_size",
	"xla_cpu_parallel_codegen_split_count",
	"xla_cpu_prefer_vector_width",
	"xla_enable_fast_math",
	"xla_gpu_autotune_level",
	"xla_gpu_deterministic_ops",
	"xla_gpu_enable_cublaslt",
	"xla_gpu_enable_cudnn_fmha",
	"xla_gpu_enable_fast_min_max",
	"xla_gpu_enable_latency_hiding_scheduler",
	"xla_gpu_enable_triton_gemm",
	"xla_gpu_enable_while_loop_double_buffering",
	"xla_gpu_exclude_nondeterministic_ops",
	"xla_gpu_ftz",
};

static bool is_listed(const char *flag, const char *const *more)
{
	for (size_t i = 0; i < sizeof(for_all) / sizeof(*for_all); i++)
		if (!strcmp(flag, for_all[i]))
			return true;
	for (; more && *more; more++)
		if (!strcmp(flag, *more))
			return true;
	return false;
}

/* A word or a number: nothing that could be a path or a list. */
static bool is_plain(struct json_object *value)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789_";
	const char *text;

	if (!json_object_is_type(value, json_type_string))
		return true; /* a type that is none is refused with the other options */
	text = json_object_get_string(value);
	return strspn(text, plain) == (size_t)json_object_get_string_len(value);
}

int pf_options_check_flags(struct json_object *options, const char *const *more,
			   struct pf_err *err)
{
	struct json_object *flags;

	if (!json_object_is_type(options, json_type_object) ||
	    !json_object_object_get_ex(options, "env_option_overrides", &flags) ||
	    !json_object_is_type(flags, json_type_object))
		return 0;
	json_object_object_foreach(flags, flag, value) {
		if (!is_listed(flag, more))
			return pf_err_set(
				err, -EPERM,
				"option env_option_overrides.%.80s: only the mount's owner "
				"may set this flag; others may set those that change "
				"numbers or speed, and those of --flags-for-all",
				flag);
		if (!is_plain(value))
			return pf_err_set(
				err, -EPERM,
				"option env_option_overrides.%.80s: expected a number, true, "
				"false or a word of letters, digits and underscores, found "
				"%.80s, which only the mount's owner may set",
				flag, json_object_to_json_string(value));
	}
	return 0;
}
