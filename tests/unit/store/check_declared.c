/* SPDX-License-Identifier: Apache-2.0 */
/* The signature of a program whose plugin gives no HLO: what a worker may say of it. */
#include "store/internal.h"

#include "pjrtfs/json.h"
#include "quoted.h"
#include "values_fixture.h"

#define MAIN "func.func @main(%x: tensor<4xi8>) -> (tensor<4xi8>, tensor<2xf32>) {}"
#define COUNTS "'num_outputs':2,'num_partitions':1,"
#define TYPES "'output_types':[2,13],'output_dims':[[4],[2]]"

/* The signature of MAIN, as INFO, with ' for ", describes what the worker compiled; or NULL. */
static struct pf_signature *declared(const char *info)
{
	const char *text = quoted(info);
	struct compile c = { .plan.worker = worker, .format = "mlir" };
	struct pf_signature *sig = NULL;
	struct json_object *facts;
	int r;

	ck_assert_int_eq(pf_bytes_new(arena, NULL, strlen(MAIN), &c.module, NULL), 0);
	memcpy(pf_bytes_at(c.module, 0), MAIN, strlen(MAIN));
	ck_assert_int_eq(pf_program_check(PF_PROGRAM_MLIR, MAIN, strlen(MAIN), &c.facts,
					  NULL),
			 0);
	ck_assert_int_eq(pf_json_parse(text, strlen(text), &facts, NULL), 0);
	err = (struct pf_err)PF_ERR_INIT;
	r = pf_compile_declared(&c, facts, &sig, &err);
	ck_assert_int_eq(r, err.code);
	ck_assert((sig != NULL) == (r == 0));
	json_object_put(facts);
	pf_bytes_unref(c.module);
	return sig;
}

static const struct {
	const char *info;
	enum pf_dtype second; /* of the results: 2 elements of this */
	const char *name;
} taken[] = {
	{ "{" COUNTS TYPES ",'name':'f'}", PF_DTYPE_BF16, "f" },
	{ "{" COUNTS "'output_types':{'unavailable':''},'output_dims':[[4],[2]]}",
	  PF_DTYPE_F32, "main" },
	{ "{" COUNTS "'name':{'unavailable':''}}", PF_DTYPE_F32, "main" },
};

TEST_EACH(what_a_worker_tells_of_results, taken)
{
	struct pf_signature *sig;

	start_faulty("");
	sig = declared(taken[_i].info);
	ck_assert_msg(sig != NULL, "%s", err.text);
	ck_assert_str_eq(sig->name, taken[_i].name);
	ck_assert_uint_eq(sig->n_inputs, 1);
	ck_assert_int_eq(sig->inputs[0].dtype, PF_DTYPE_S8);
	ck_assert_uint_eq(sig->n_outputs, 2);
	ck_assert_int_eq(sig->outputs[1].dtype, taken[_i].second);
	ck_assert_int_eq(sig->outputs[1].shape.dims[0], 2);
	pf_signature_free(sig);
}

static const struct {
	const char *info;
	int code;
	const char *says;
} refused[] = {
	{ "{}", -EOPNOTSUPP, "gives 0 results, the program's main 2" },
	{ "{'num_outputs':3," TYPES "}", -EOPNOTSUPP, "gives 3 results" },
	{ "{'num_outputs':'2'," TYPES "}", -EOPNOTSUPP, "gives 0 results" },
	{ "{'num_outputs':2,'num_partitions':2," TYPES "}", -EOPNOTSUPP,
	  "for one partition" },
	{ "{" COUNTS "'output_types':[2],'output_dims':[[4],[2]]}", -EPROTO,
	  "the types of 1 results and the shapes of 2, of 2" },
	{ "{" COUNTS "'output_types':[2,11],'output_dims':[[4]]}", -EPROTO,
	  "the shapes of 1, of 2" },
	{ "{" COUNTS "'output_types':[2,99],'output_dims':[[4],[2]]}", -EPROTO,
	  "a type of result 1" },
	{ "{" COUNTS "'output_types':[-1,11],'output_dims':[[4],[2]]}", -EPROTO,
	  "a type of result 0" },
	{ "{" COUNTS "'output_types':[23,11],'output_dims':[[4],[2]]}", -EPROTO,
	  "a type of result 0" }, /* a token */
	{ "{" COUNTS "'output_types':['S8',11],'output_dims':[[4],[2]]}", -EPROTO,
	  "a type of result 0" },
	{ "{" COUNTS "'output_types':[2,11],'output_dims':[[4],2]}", -EPROTO,
	  "a type of result 1" },
	{ "{" COUNTS "'output_types':[2,11],'output_dims':[[4],[-2]]}", -EPROTO,
	  "a type of result 1" },
	{ "{" COUNTS "'output_types':[2,11],'output_dims':[[4],['2']]}", -EPROTO,
	  "a type of result 1" },
	{ "{" COUNTS "'output_types':[2,11],'output_dims':[[4],"
	  "[4611686018427387904,4]]}",
	  -EPROTO, "a type of result 1" },
	{ "{" COUNTS "'output_types':[2,11],'output_dims':[[4],"
	  "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]]}",
	  -EPROTO, "a type of result 1" },
};

TEST_EACH(what_no_worker_may_tell, refused)
{
	start_faulty("");
	ck_assert_ptr_null(declared(refused[_i].info));
	ck_assert_msg(err.code == refused[_i].code && strstr(err.text, refused[_i].says),
		      "%d: %s", err.code, err.text);
}

UNIT_FIXTURE(open_values, close_values)
