/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of custom calls on real plugins. */
#include "pjrt_fixture.h"

#include "pjrtfs/ffi.h"

/* A program that calls TARGET with ATTRIBUTES. */
#define PROGRAM(target, attributes)                                                      \
	"func.func public @main(%a: tensor<2x2xf32>) -> tensor<2x2xf32> {\n"             \
	"  %0 = stablehlo.custom_call @" target "(%a) {has_side_effect = true, "         \
	"backend_config = {" attributes "}, api_version = 4 : i32}"                      \
	" : (tensor<2x2xf32>) -> tensor<2x2xf32>\n"                                      \
	"  return %0 : tensor<2x2xf32>\n"                                                \
	"}\n"

static _Alignas(64) float numbers[] = { 1, 2, 3, 4 };
static const struct pf_shape two_by_two = { .rank = 2, .dims = { 2, 2 } };

/* Multiply by the attribute factor; a negative number is an error. */
static struct pjrtfs_ffi_error *scale(struct pjrtfs_ffi_frame *frame)
{
	const struct pjrtfs_ffi_text *name;
	const float *factor, *in;
	float *out;

	if (pjrtfs_ffi_asked(frame))
		return NULL;
	factor = pjrtfs_ffi_scalar(frame, "factor", PJRTFS_FFI_F32);
	name = pjrtfs_ffi_attr(frame, "name", PJRTFS_FFI_ATTR_STRING);
	ck_assert_ptr_nonnull(factor);
	ck_assert_ptr_null(pjrtfs_ffi_scalar(frame, "factor", PJRTFS_FFI_F64));
	ck_assert_ptr_null(pjrtfs_ffi_scalar(frame, "fact", PJRTFS_FFI_F32));
	ck_assert_uint_eq(name->len, 5);
	ck_assert_int_eq(memcmp(name->data, "three", 5), 0);
	ck_assert_int_eq(frame->stage, PJRTFS_FFI_EXECUTE);
	ck_assert_int_eq(frame->operands.n, 1);
	ck_assert_int_eq(frame->results.n, 1);
	ck_assert_int_eq(frame->operands.buffers[0]->dtype, PJRTFS_FFI_F32);
	ck_assert_int_eq(frame->operands.buffers[0]->rank, 2);
	in = frame->operands.buffers[0]->data;
	out = frame->results.buffers[0]->data;
	if (in[0] < 0)
		return pjrtfs_ffi_fail(frame, PJRTFS_FFI_OUT_OF_RANGE, "below zero");
	for (int i = 0; i < 4; i++)
		out[i] = *factor * in[i];
	return NULL;
}

static struct pjrtfs_ffi_error *newer(struct pjrtfs_ffi_frame *frame)
{
	if (pjrtfs_ffi_asked(frame))
		((struct pjrtfs_ffi_metadata_query *)frame->extensions)
			->metadata->version.minor++;
	return NULL;
}

static struct pjrtfs_ffi_error *silent(struct pjrtfs_ffi_frame *frame)
{
	(void)frame;
	return NULL;
}

/* Run X on numbers, with CONTEXT or NULL; the results, or none if it failed as *ERR says. */
static bool run_on_numbers(const struct fixture *f, const struct pj_executable *x,
			   PJRT_ExecuteContext *context, float got[4], struct pf_err *err)
{
	struct PJRT_Buffer *in = upload(f, &f->here, numbers, sizeof(numbers),
					PF_DTYPE_F32, &two_by_two),
			   *out = NULL;
	const struct pj_run run = { .arguments = &in,
				    .n_arguments = 1,
				    .context = context };
	int r = run_once(x, &run, &out, err);

	if (r == 0) {
		ck_assert_int_eq(pj_buffer_read(f->plugin, out, PF_DTYPE_F32, got,
						sizeof(numbers), err),
				 0);
		pj_buffer_destroy(f->plugin, out);
	}
	pj_buffer_destroy(f->plugin, in);
	return r == 0;
}

TEST_ON_PLUGINS(handler_computes_and_fails)
{
	struct pj_plugin *plugin = load(plugins[_i]);
	struct pf_err err = PF_ERR_INIT;
	struct pj_executable *x;
	struct fixture f;
	float got[4];

	ck_assert_msg(pj_ffi_register(plugin, "test_scale", scale, NULL, 0, &err) == 0,
		      "%s", err.text);
	f = begin_with(plugin);
	x = compile(f.client,
		    PROGRAM("test_scale", "factor = 3.0 : f32, name = \"three\""),
		    one_device);
	ck_assert_msg(run_on_numbers(&f, x, NULL, got, &err), "%s", err.text);
	for (int i = 0; i < 4; i++)
		ck_assert(got[i] == 3 * numbers[i]);
	numbers[0] = -1;
	ck_assert(!run_on_numbers(&f, x, NULL, got, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "below zero"));
	pj_executable_free(x);
	end(&f);
}

/* Fill the result with the number that the execution gives; -1: none. */
static struct pjrtfs_ffi_error *show_data(struct pjrtfs_ffi_frame *frame)
{
	const float *number;
	float *out;

	if (pjrtfs_ffi_asked(frame))
		return NULL;
	number = pj_context_data(frame);
	out = frame->results.buffers[0]->data;
	for (int i = 0; i < 4; i++)
		out[i] = number ? *number : -1;
	return NULL;
}

TEST_ON_PLUGINS(handlers_get_the_data_of_their_execution)
{
	struct pj_plugin *plugin = load(plugins[_i]);
	PJRT_ExecuteContext *context;
	struct pf_err err = PF_ERR_INIT;
	struct pj_executable *x;
	struct fixture f;
	float five = 5, six = 6, got[4], *given[] = { &five, &six, NULL };

	ck_assert_int_eq(pj_context_new(plugin, &five, &context, &err), -EOPNOTSUPP);
	ck_assert_msg(pj_context_set_up(plugin, &err) == 0, "%s", err.text);
	ck_assert_int_eq(pj_ffi_register(plugin, "test_data", show_data, NULL, 0, &err),
			 0);
	f = begin_with(plugin);
	x = compile(f.client, PROGRAM("test_data", ""), one_device);
	for (int i = 0; i < 3; i++) {
		ck_assert_msg(pj_context_new(plugin, given[i], &context, &err) == 0, "%s",
			      err.text);
		ck_assert_msg(run_on_numbers(&f, x, context, got, &err), "%s", err.text);
		pj_context_free(plugin, context);
		ck_assert(got[3] == (given[i] ? *given[i] : -1));
	}
	pj_executable_free(x);
	end(&f);
}

/* XLA would accept both, and ignore them. */
TEST_ON_PLUGINS(handlers_that_the_plugin_would_ignore_are_refused)
{
	struct pj_plugin *plugin = load(plugins[_i]);
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(pj_ffi_register(plugin, "test_new", newer, NULL, 0, &err),
			 -EOPNOTSUPP);
	ck_assert_ptr_nonnull(
		strstr(err.text, "custom call test_new: the handler speaks"));
	err = (struct pf_err)PF_ERR_INIT;
	ck_assert_int_eq(pj_ffi_register(plugin, "test_silent", silent, NULL, 0, &err),
			 -EINVAL);
	err = (struct pf_err)PF_ERR_INIT;
	pj_plugin_free(plugin);
}

TEST(plugins_without_the_extension_are_refused)
{
	struct pj_plugin *plugin = load(plugins[0]);
	struct pf_err err = PF_ERR_INIT;

	plugin->api.extension_start = NULL;
	ck_assert_int_eq(pj_ffi_register(plugin, "test", scale, NULL, 0, &err),
			 -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(err.text, "no FFI extension"));
	pj_plugin_free(plugin);
}

/* The faces must agree with xla/ffi/api/c_api.h; the numbers are those of LP64. */
TEST(structs_are_those_of_XLA)
{
	ck_assert_uint_eq(sizeof(struct pjrtfs_ffi_frame), 168);
	ck_assert_uint_eq(offsetof(struct pjrtfs_ffi_frame, operands), 40);
	ck_assert_uint_eq(offsetof(struct pjrtfs_ffi_frame, results), 80);
	ck_assert_uint_eq(offsetof(struct pjrtfs_ffi_frame, attrs), 120);
	ck_assert_uint_eq(sizeof(struct pjrtfs_ffi_buffer), 48);
	ck_assert_uint_eq(offsetof(struct pjrtfs_ffi_api, error_create), 48);
	ck_assert_uint_eq(offsetof(struct pjrtfs_ffi_metadata, version.minor), 28);
	ck_assert_uint_eq(offsetof(struct pjrtfs_ffi_metadata, traits), 32);
	ck_assert_uint_eq(offsetof(struct pjrtfs_ffi_metadata_query, metadata), 24);
}

/* Handlers are registered once for a process and a plugin. */
UNIT_FORKS
