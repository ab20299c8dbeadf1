/* SPDX-License-Identifier: Apache-2.0 */
/*
 * executables/NAME/bind: inputs that a user binds to names, so that calls take the others only.
 *
 * A line says for each input a name or "*".  It is kept as it was written: what its words mean
 * depends on the program, which may be compiled later, and on the names at the time of each call.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static bool is_star(const char *word)
{
	return word[0] == '*' && !word[1];
}

/* --- lines ------------------------------------------------------------------------------ */

/* Options are those of an execution, which a binding is not. */
static int check_options(const struct exec_spec *spec, struct pf_err *err)
{
	if (!spec->donate.n && !spec->device && !spec->move && !spec->repeat &&
	    !spec->async && !spec->timeout_ms)
		return 0;
	return pf_err_set(err, -EINVAL,
			  "expected inputs, '->' and outputs, as in 'params * -> *', "
			  "found an option of run");
}

/* Results of a call have no names. */
static int check_outputs(const struct names *outputs, struct pf_err *err)
{
	for (size_t i = 0; i < outputs->n; i++)
		if (!is_star(outputs->at[i]))
			return pf_err_set(err, -EINVAL,
					  "output %zu: expected '*', found %s: a call "
					  "gives all outputs",
					  i, outputs->at[i]);
	return 0;
}

/* Split LINE into SPEC, which the caller releases, also after an error; an arrow may be missing:
 * *ALL, there are as many outputs as the program gives.  -EINVAL, -ENOMEM. */
static int parse(const char *line, struct exec_spec *spec, bool *all, struct pf_err *err)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	int r;

	*all = !strstr(line, "->");
	pf_buf_printf(&text, "%s%s", line, *all ? " ->" : "");
	if (text.failed)
		return pf_err_set(err, -ENOMEM, "no memory for a binding");
	r = exec_spec_parse_line(text.data, spec, err);
	if (r == 0)
		r = check_options(spec, err);
	return r < 0 ? r : check_outputs(spec->outputs.at, err);
}

/* --- what is bound of a program's inputs ------------------------------------------------ */

/* List a name for each input of LOADED in ROW, as the words of SPEC say. */
static int list(const struct exec_spec *spec, bool all, const struct pf_loaded *loaded,
		const struct pf_cred *cred, struct row *row, struct pf_err *err)
{
	const struct pf_signature *s = pf_loaded_facts(loaded).signature;
	size_t n_out = all ? s->n_outputs : spec->outputs.at->n;
	int r = run_list_inputs(s, row, spec->inputs.at, &spec->params, spec->positional,
				true, cred, err);

	if (r == -ENOMEM)
		return pf_err_set(err, r, "no memory for names");
	return r < 0 ? r : pf_execution_check_counts(loaded, row->inputs.n, n_out, err);
}

int bound_make(struct bound *b, const char *line, const struct program *program,
	       const struct pf_loaded *loaded, const struct pf_cred *cred,
	       struct pf_err *err)
{
	const struct pf_loaded_facts is = pf_loaded_facts(loaded);
	struct exec_spec spec = { .repeat = 0 };
	struct row row = { .device = NULL };
	bool all;
	int r = parse(line, &spec, &all, err);

	row.device = r == 0 ? run_device(program, &is, 0, err) : NULL;
	if (r == 0)
		r = row.device ? list(&spec, all, loaded, cred, &row, err) : -ENODEV;
	exec_spec_release(&spec);
	free(row.words);
	b->device = row.device;
	b->inputs = row.inputs;
	b->params = calloc(is.signature->n_inputs + 1, sizeof(*b->params));
	if (r == 0 && !b->params)
		r = pf_err_set(err, -ENOMEM, "no memory for a binding");
	for (size_t i = 0; i < is.signature->n_inputs && r == 0; i++)
		if (is_star(b->inputs.at[i]))
			b->params[b->n++] = is.signature->inputs[i];
	if (r < 0)
		bound_release(b);
	return r < 0 ? pf_err_wrap(err, r, "bind %s", line) : 0;
}

int bound_find(const struct bound *b, struct pf_execution *e, const struct pf_cred *cred,
	       struct pf_account *account, struct pf_err *err)
{
	int r = 0;

	for (size_t i = 0; i < b->inputs.n && r == 0; i++) {
		PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;
		struct pf_exec_arg *arg = &e->args[i];

		if (is_star(b->inputs.at[i]))
			continue;
		arg->name = b->inputs.at[i];
		r = files_find_value(b->device, arg->name, cred, R_OK, &buffer,
				     &arg->value, err);
		if (r == 0)
			r = run_move(&arg->value, b->device, false, account, err);
		if (r < 0)
			pf_err_wrap(err, r, "bound input %zu", i);
	}
	return r;
}

void bound_release(struct bound *b)
{
	names_release(&b->inputs);
	free(b->params);
	*b = (struct bound){ .n = 0 };
}

/* --- the file --------------------------------------------------------------------------- */

int bind_check(struct program *program, const char *line, const struct pf_cred *cred,
	       struct pf_err *err)
{
	PF_CLEANUP(pf_loaded_unrefp)
	struct pf_loaded *loaded = pf_executable_loaded(program->x);
	struct exec_spec spec = { .repeat = 0 };
	struct pf_execution *e = NULL;
	struct bound b = { .n = 0 };
	bool all;
	int r;

	if (!loaded) {
		r = parse(line, &spec, &all, err);
		exec_spec_release(&spec);
		return r;
	}
	r = bound_make(&b, line, program, loaded, cred, err);
	if (r == 0 && !(e = pf_execution_new(program->x, b.inputs.n, 1)))
		r = pf_err_set(err, -ENOMEM, "no memory for a binding");
	if (r == 0)
		r = bound_find(&b, e, cred, NULL, err);
	pf_execution_free(e);
	bound_release(&b);
	return r;
}

static int bind_show(struct pf_node *node, const struct pf_cred *cred, struct pf_buf *out,
		     struct pf_err *err)
{
	(void)err;
	program_binding(node->object, cred->uid, out);
	if (out->len)
		pf_buf_puts(out, "\n");
	return 0;
}

static ssize_t bind_write(struct pf_open *of, const void *src, size_t len, uint64_t off,
			  struct pf_err *err)
{
	struct program *program = of->node->object;
	pf_autofree char *line = strndup(src, len);
	size_t n = line ? strcspn(line, "\n") : 0;
	int r = 0;

	if (!line)
		return pf_err_set(err, -ENOMEM, "no memory for a binding");
	if (off || n + 1 < len)
		return pf_err_set(err, -EINVAL, "a binding is one line, in one write");
	line[n] = '\0';
	if (!files_program_may(program, &of->cred, R_OK))
		return pf_err_set(err, -EACCES, "permission denied");
	if (!line[strspn(line, " \t")])
		n = 0;
	else
		r = bind_check(program, line, &of->cred, err);
	if (r == 0)
		r = program_bind(program, of->cred.uid, line, n, err);
	return r < 0 ? r : (ssize_t)len;
}

/* A shell's ">" truncates in vain: until the new line is there, the old one counts. */
static int bind_truncate(struct pf_node *node, struct pf_open *of, uint64_t size,
			 const struct pf_cred *cred, struct pf_err *err)
{
	(void)node;
	(void)of;
	(void)size;
	(void)cred;
	(void)err;
	return 0;
}

const struct pf_kind kind_bind = {
	.name = "bind",
	.mode = S_IFREG | 0666,
	.max_write = BIND_MAX,
	.show_as = bind_show,
	.write = bind_write,
	.truncate = bind_truncate,
	.free = program_node_free,
};
