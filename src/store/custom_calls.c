/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which custom calls a program makes, and which of them no library provides.
 *
 * A program that is compiled already (.pjrtexe), and bytecode that pf_program_calls does not
 * understand, are searched for names that libraries and jaxlib have; such a name may be no call, so
 * only their plugin refuses these programs.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"
#include "pjrtfs/program.h"

enum { PJRT_NOT_FOUND = 5 /* PJRT_Error_Code */ };

/* --- targets that only a library can provide ------------------------------------------------- */

/* Routines of LAPACK, as jaxlib's targets contain them. */
static const struct {
	const char *routine, *what;
} routines[] = {
	{ "potrf", "LAPACK: Cholesky" },
	{ "getrf", "LAPACK: LU" },
	{ "trsm", "LAPACK: triangular solve" },
	{ "geqrf", "LAPACK: QR" },
	{ "geqp3", "LAPACK: QR with pivots" },
	{ "orgqr", "LAPACK: Q of QR" },
	{ "ungqr", "LAPACK: Q of QR" },
	{ "ormqr", "LAPACK: product with Q of QR" },
	{ "unmqr", "LAPACK: product with Q of QR" },
	{ "gesdd", "LAPACK: singular values" },
	{ "gesvd", "LAPACK: singular values" },
	{ "syevd", "LAPACK: eigenvalues of a symmetric matrix" },
	{ "heevd", "LAPACK: eigenvalues of a Hermitian matrix" },
	{ "geev", "LAPACK: eigenvalues" },
	{ "gees", "LAPACK: Schur form" },
	{ "gehrd", "LAPACK: Hessenberg form" },
	{ "sytrd", "LAPACK: tridiagonal form" },
	{ "hetrd", "LAPACK: tridiagonal form" },
	{ "gtsv", "LAPACK: tridiagonal solve" },
};

static const struct {
	const char *target, *what;
} others[] = {
	{ "xla_ffi_python_cpu_callback", "a host callback of JAX" },
	{ "xla_ffi_partitioned_python_cpu_callback", "a host callback of JAX" },
	{ "pjrtfs_callback", "a host callback" },
	{ "tridiagonal_solve_perturbed_ffi", "LAPACK: tridiagonal solve" },
	{ "cpu_csr_sparse_dense_ffi", "a sparse product of JAX" },
};

/* Are the LEN bytes at P the word WORD? */
static bool is_word(const char *p, size_t len, const char *word)
{
	return strlen(word) == len && !memcmp(p, word, len);
}

/* The purpose of the LEN bytes of TARGET; NULL: not known, perhaps the plugin's own. */
static const char *family_of(const char *target, size_t len)
{
	static const char before[] = "lapack_", after[] = "_ffi";
	const size_t b = sizeof(before) - 1, a = sizeof(after) - 1;

	for (size_t i = 0; i < PF_ARRAY_SIZE(others); i++)
		if (is_word(target, len, others[i].target))
			return others[i].what;
	if (len <= b + 1 + a || memcmp(target, before, b) != 0 ||
	    memcmp(target + len - a, after, a) != 0 || !memchr("sdcz", target[b], 4))
		return NULL;
	for (size_t i = 0; i < PF_ARRAY_SIZE(routines); i++)
		if (is_word(target + b + 1, len - b - 1 - a, routines[i].routine))
			return routines[i].what;
	return NULL;
}

/* Is TARGET one of jax-cuda13-plugin's? */
static bool is_of_cuda(const char *target)
{
	static const char *const begins[] = { "cusolver_", "cusparse_", "cudnn_", "cu_" };

	for (size_t i = 0; i < PF_ARRAY_SIZE(begins); i++)
		if (!strncmp(target, begins[i], strlen(begins[i])))
			return true;
	return false;
}

/* Calls that frameworks write for other devices or for their own process; the names begin so. */
static const struct {
	const char *begin, *what;
} foreign[] = {
	{ "__gpu$xla.gpu.triton", "is a Pallas kernel for GPUs: pallas_call(..., "
				  "interpret=True) is for every device" },
	{ "mosaic_gpu_", "is a Pallas kernel for GPUs: pallas_call(..., interpret=True) "
			 "is for every device" },
	{ "tpu_custom_call", "is a Pallas kernel for TPUs: pallas_call(..., "
			     "interpret=True) is for every device" },
	{ "shape_assertion",
	  "checks symbolic sizes: export the function with numbers for them" },
	{ "stablehlo.dynamic_",
	  "has sizes that the program computes: export the function with numbers for "
	  "its symbolic sizes" },
	{ "stablehlo.uniform_",
	  "is for tools that know quantized types, and plugins know none: "
	  "export the model before it is quantized, or with integers" },
	{ "tf.call_tf_function",
	  "is a function that TensorFlow's process has: jax2tf.call_tf without "
	  "call_tf_graph=True puts what it computes into the program" },
};

/* What the call of TARGET is, and what to do instead; NULL: not known. */
static const char *foreign_of(const char *target)
{
	for (size_t i = 0; i < PF_ARRAY_SIZE(foreign); i++)
		if (!strncmp(target, foreign[i].begin, strlen(foreign[i].begin)))
			return foreign[i].what;
	return NULL;
}

/* --- the calls of a program ------------------------------------------------------------------ */

/* A search in a program. */
struct scan {
	const struct pf_custom_calls *calls; /* that its worker has */
	struct json_object *called;  /* owned: from target to the name of its library */
	struct json_object *missing; /* owned: from target to null */
	uint64_t libraries; /* the bit I: it calls a handler of calls->libraries[I] */
};

/* The program calls, or has the name of, the LEN bytes of TARGET. */
static void note(void *arg, const char *target, size_t len)
{
	struct scan *s = arg;
	const struct pf_custom_call *call = pf_custom_calls_find(s->calls, target, len);
	char name[256];

	if (len >= sizeof(name) || (!call && !family_of(target, len)))
		return;
	memcpy(name, target, len);
	name[len] = '\0';
	if (!call) {
		if (!json_object_object_get_ex(s->missing, name, NULL))
			json_object_object_add(s->missing, name, NULL);
		return;
	}
	for (unsigned i = 0; i < s->calls->n_libraries; i++)
		if (s->calls->libraries[i] == call->library)
			s->libraries |= UINT64_C(1) << i;
	if (!json_object_object_get_ex(s->called, name, NULL))
		pf_json_add_string(s->called, name, pf_custom_call_library(call));
}

static bool is_of_word(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("_$.-", c));
}

/* In bytecode a NUL ends each name; in a proto a byte with its length precedes it. */
static void scan_bytes(struct scan *s, const char *start, size_t size)
{
	const char *end = start + size;
	bool begins[256] = { false };

	for (size_t i = 0; s->calls && i < s->calls->n; i++)
		begins[(unsigned char)s->calls->calls[i].target[0]] = true;
	begins['l'] = begins['x'] = begins['p'] = begins['t'] = begins['c'] = true;
	for (const char *p = start; p < end; p++) {
		size_t len = 0;

		if (!begins[(unsigned char)*p])
			continue;
		while (p + len < end && is_of_word(p[len]))
			len++;
		if (p == start || !is_of_word(p[-1]) || (unsigned char)p[-1] == len)
			note(s, p, len);
	}
}

/* Does P have a custom call at all? */
static bool has_calls(const void *p, size_t len)
{
	return memmem(p, len, "custom_call", 11) || memmem(p, len, "custom-call", 11);
}

/* --- sentences ------------------------------------------------------------------------------- */

/* Why programs cannot call TARGET of CALLS, though a library has it; or NULL. */
static const char *note_of(const struct pf_custom_calls *calls, const char *target)
{
	for (size_t i = 0; calls && i < calls->n; i++)
		if (calls->calls[i].note && !strcmp(calls->calls[i].target, target))
			return calls->calls[i].note;
	return NULL;
}

/* Why pjrtfs's own library cannot work; "": the plugin has none; NULL: it works. */
static const char *why_no_lapack(const struct pf_custom_calls *calls)
{
	for (unsigned i = 0; calls && i < calls->n_libraries; i++)
		if (calls->libraries[i]->builtin)
			return calls->why[i];
	return "";
}

/* C's program calls TARGET, which its plugin and the libraries CALLS lack.  -EOPNOTSUPP. */
static int refuse(const struct compile *c, const struct pf_custom_calls *calls,
		  const char *target, struct pf_err *err)
{
	const char *lapack = why_no_lapack(calls), *note = note_of(calls, target);
	const char *family = family_of(target, strlen(target));
	const char *other = foreign_of(target);
	char what[64] = "";

	if (family)
		snprintf(what, sizeof(what), " (%s)", family);
	if (note)
		return pf_err_set(err, -EOPNOTSUPP,
				  "the program calls %s%s, which plugin %s does not take "
				  "from an FFI library: %s",
				  target, what, pf_worker_name(c->plan.worker), note);
	if (family && lapack && !strncmp(family, "LAPACK", 6))
		return pf_err_set(err, -EOPNOTSUPP,
				  "the program calls %s%s, which no FFI library "
				  "provides: %s",
				  target, what,
				  *lapack ? lapack
					  : "pjrtfs was started with --no-lapack, or "
					    "without its library");
	if (is_of_cuda(target))
		return pf_err_set(
			err, -EOPNOTSUPP,
			"the program calls %s, which JAX has for CUDA and no FFI library "
			"provides: pjrtfs-fetch-plugins cuda brings it, for another plugin "
			"see pjrtfs-ffi(5), LINEAR ALGEBRA FOR CUDA",
			target);
	/* XLA's own marker of a memory, which its compiler removes. */
	if (!strcmp(target, "annotate_device_placement"))
		return pf_err_set(
			err, -EOPNOTSUPP,
			"the program calls %s, which marks the memory of an array and "
			"is XLA's own: plugin %s is too old for it, try a newer one",
			target, pf_worker_name(c->plan.worker));
	if (other)
		return pf_err_set(err, -EOPNOTSUPP, "the program calls %s, which %s",
				  target, other);
	return pf_err_set(
		err, -EOPNOTSUPP,
		"the program calls %s%s, which no FFI library provides: name "
		"one that does with --ffi-library, or with the command register "
		"(plugins/%s/custom_calls lists what there is)",
		target, what, pf_worker_name(c->plan.worker));
}

/* The text of CALLED and, unless it is NULL, MISSING for info.json. */
static struct json_object *facts_of(struct json_object *called,
				    struct json_object *missing)
{
	struct json_object *o = json_object_new_object();
	struct json_object *calls = json_object_new_array();
	struct json_object *lacks = json_object_new_array();

	json_object_object_foreach(called, target, library) {
		struct json_object *call = json_object_new_object();

		pf_json_add_string(call, "target", target);
		pf_json_add_copy(call, "library", library);
		pf_json_append(calls, call);
	}
	json_object_object_foreach(missing, lack, nothing) {
		(void)nothing;
		pf_json_append(lacks, json_object_new_string(lack));
	}
	pf_json_add(o, "custom_calls", calls);
	pf_json_add(o, "missing", lacks);
	return o;
}

static int no_memory(struct pf_err *err)
{
	return pf_err_set(err, -ENOMEM, "no memory for the program's calls");
}

/* --- the interface --------------------------------------------------------------------------- */

int pf_compile_find_calls(struct compile *c, struct pf_err *err)
{
	PF_CLEANUP(pf_custom_calls_unrefp)
	struct pf_custom_calls *calls = pf_worker_custom_calls(c->plan.worker);
	const char *program = pf_bytes_at(c->module, c->facts.off);
	size_t len = c->facts.len;
	struct scan s = { .calls = calls,
			  .called = json_object_new_object(),
			  .missing = json_object_new_object() };
	const struct pf_call_visitor found = { note, &s };
	int r = s.called && s.missing ? 0 : no_memory(err);
	bool lacks = false;

	if (r == 0 && has_calls(program, len)) {
		bool all = pf_program_calls(c->x->format, program, len, &found);

		lacks = json_object_object_length(s.missing) > 0;
		if (!all)
			scan_bytes(&s, program, len);
	}
	c->libraries_len = 0;
	for (unsigned i = 0; calls && i < calls->n_libraries; i++)
		if (s.libraries >> i & 1) {
			memcpy(c->libraries + c->libraries_len,
			       calls->libraries[i]->sha256, PF_LIBRARY_SHA256);
			c->libraries_len += PF_LIBRARY_SHA256;
		}
	json_object_put(c->calls);
	c->calls = r == 0 ? facts_of(s.called, s.missing) : NULL;
	if (r == 0 && !pf_json_complete(c->calls))
		r = no_memory(err);
	if (lacks && r == 0) {
		json_object_object_foreach(s.missing, target, nothing) {
			(void)nothing;
			r = r < 0 ? r : refuse(c, calls, target, err);
		}
	}
	json_object_put(s.called);
	json_object_put(s.missing);
	return r;
}

/* The target that the plugin's sentence TEXT names, in DST; "": none. */
static void named_target(const char *text, char dst[256])
{
	static const char *const before[] = { "No FFI handler registered for ",
					      "custom call to " };

	*dst = '\0';
	for (size_t i = 0; i < PF_ARRAY_SIZE(before) && !*dst; i++) {
		const char *at = strstr(text, before[i]);

		if (at)
			snprintf(dst, 256, "%.*s",
				 (int)strcspn(at + strlen(before[i]), " \n"),
				 at + strlen(before[i]));
	}
}

void pf_compile_explain(struct compile *c, struct pf_err *err)
{
	PF_CLEANUP(pf_custom_calls_unrefp) struct pf_custom_calls *calls = NULL;
	struct json_object *missing = NULL;
	int pjrt_code = err->pjrt_code;
	char target[256];

	if (pjrt_code != PJRT_NOT_FOUND)
		return;
	named_target(err->text, target);
	if (!*target)
		return;
	calls = pf_worker_custom_calls(c->plan.worker);
	refuse(c, calls, target, err);
	err->pjrt_code = pjrt_code;
	json_object_object_get_ex(c->calls, "missing", &missing);
	for (size_t i = 0; missing && i < json_object_array_length(missing); i++)
		if (!strcmp(json_object_get_string(json_object_array_get_idx(missing, i)),
			    target))
			return;
	pf_json_append(missing, json_object_new_string(target));
}

bool pf_compile_lacks_handler(const struct pf_err *err)
{
	return err->pjrt_code == PJRT_NOT_FOUND;
}
