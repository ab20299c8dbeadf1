/* SPDX-License-Identifier: Apache-2.0 */
/* The object of a directory in buffers/. */
#include <stdlib.h>

#include "internal.h"
#include "pjrtfs/state.h"

struct pf_node *buffer_dir_new(struct pf_tree *tree, struct device *device, mode_t perm,
			       const struct pf_cred *cred)
{
	struct buffer_dir *object = calloc(1, sizeof(*object));
	struct pf_node *dir = NULL;

	if (object) {
		object->device = device;
		dir = pf_node_new(tree, &kind_buffers, object, perm, cred);
	}
	if (!dir)
		free(object);
	return dir;
}

enum { DIRECTORY_HEAP = 1024 }; /* bytes that a directory takes */

int buffer_dir_charge(struct pf_node *dir, uid_t uid, bool forced, struct pf_err *err)
{
	const struct pf_fs *fs = fs_of(dir);

	return pf_file_charge(&dir_of(dir)->charge, fs->config.arena,
			      files_account(fs, uid), PF_RESOURCES, DIRECTORY_HEAP,
			      forced, err);
}

/* The payload of PF_STATE_OBJECT is the number of the file whose tensors it shows, or 0. */
void buffer_dir_save(const struct pf_node *dir)
{
	const struct buffer_dir *object = dir->object;
	const uint64_t file = object->file ? object->file->ino : 0;

	pf_state_put(PF_STATE_OBJECT, dir->ino, &file, sizeof(file), NULL, 0);
}

uint64_t buffer_dir_saved_file(uint64_t ino)
{
	const uint64_t *file =
		pf_state_load(PF_STATE_OBJECT, ino, sizeof(*file), NULL, NULL);

	return file ? *file : 0;
}

void buffer_dir_free(struct pf_node *dir)
{
	pf_file_discharge(&dir_of(dir)->charge);
	pf_node_unref(dir_of(dir)->file);
	free(dir->object);
}
