/* SPDX-License-Identifier: Apache-2.0 */
/* The rights to programs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/json.h"
#include "pjrtfs/plugin_options.h"

bool files_program_may(struct program *program, const struct pf_cred *cred, int want)
{
	struct pf_node *node;

	PF_NAMES_SCOPE(program->fs->tree);
	node = program->node ? program->node : program->executable;
	return !node || pf_node_may(node, cred, want);
}

bool files_program_may_answer(struct program *program, const struct pf_cred *cred)
{
	struct pf_attr attr;

	PF_NAMES_SCOPE(program->fs->tree);
	if (program->node)
		return pf_node_may(program->node, cred, W_OK);
	if (!program->executable)
		return false;
	pf_node_attr(program->executable, &attr);
	return cred->uid == 0 || cred->uid == attr.uid;
}

int files_may_set(struct pf_fs *fs, uid_t uid, const char *options, struct pf_err *err)
{
	struct json_object *o = NULL;
	int r;

	if (!options || files_owns_mount(fs, uid))
		return 0;
	if (pf_json_parse(options, strlen(options), &o, NULL) < 0)
		return 0; /* pf_executable_set_options refuses them */
	r = pf_options_check_flags(o, fs->config.flags_for_all, err);
	json_object_put(o);
	return r;
}

int files_may_compile(struct program *program, uid_t uid, struct pf_err *err)
{
	pf_autofree char *options = program_options(program);
	struct pf_err why = PF_ERR_INIT;

	if (files_may_set(program->fs, uid, options, &why) == 0)
		return 0;
	pf_executable_refuse_options(program->x, &why);
	return pf_err_set(err, why.code, "its options.json: %s", why.text);
}

int files_may_load(struct pf_fs *fs, uid_t uid, struct pf_err *err)
{
	if (fs->config.allow_native || files_owns_mount(fs, uid))
		return 0;
	return pf_err_set(err, -EPERM,
			  "a compiled program is native code: only the mount's owner may "
			  "load it, unless pjrtfs was started with --allow-native");
}
