/* SPDX-License-Identifier: Apache-2.0 */
/* ffi/LIBRARY/: the FFI libraries, and plugins/NAME/custom_calls. */
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/library.h"

static const struct pf_library *library_of(struct pf_node *node)
{
	return node->object;
}

static int sha256_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	char hex[2 * PF_LIBRARY_SHA256 + 1];

	(void)err;
	pf_buf_printf(out, "%s\n",
		      pf_hex(library_of(node)->sha256, PF_LIBRARY_SHA256, hex));
	return 0;
}

/* Print CALL, and why programs on WORKER cannot call it. */
static void print_call(const struct pf_custom_call *call, struct pf_worker *worker,
		       const struct pf_fs *fs, struct pf_buf *out)
{
	pf_buf_puts(out, call->target);
	if (call->note)
		pf_buf_printf(out, "\t%s", call->note);
	if (call->note && fs->n_workers > 1)
		pf_buf_printf(out, " (plugin %s)", pf_worker_name(worker));
	pf_buf_puts(out, "\n");
}

/* Has an earlier worker of FS than WORKER printed CALL, without a note? */
static bool is_printed(const struct pf_fs *fs, unsigned worker,
		       const struct pf_custom_call *call)
{
	for (unsigned i = 0; i < worker; i++) {
		PF_CLEANUP(pf_custom_calls_unrefp)
		struct pf_custom_calls *calls = pf_worker_custom_calls(fs->workers[i]);
		const struct pf_custom_call *other =
			pf_custom_calls_find(calls, call->target, strlen(call->target));

		if (other && other->library == call->library)
			return true;
	}
	return false;
}

static int targets_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	struct pf_fs *fs = fs_of(node);

	(void)err;
	for (unsigned w = 0; w < fs->n_workers; w++) {
		PF_CLEANUP(pf_custom_calls_unrefp)
		struct pf_custom_calls *calls = pf_worker_custom_calls(fs->workers[w]);

		for (size_t i = 0; calls && i < calls->n; i++) {
			const struct pf_custom_call *call = &calls->calls[i];

			if (call->library == library_of(node) &&
			    (call->note || !is_printed(fs, w, call)))
				print_call(call, fs->workers[w], fs, out);
		}
	}
	return 0;
}

static int error_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	struct pf_fs *fs = fs_of(node);

	(void)err;
	for (unsigned w = 0; w < fs->n_workers; w++) {
		PF_CLEANUP(pf_custom_calls_unrefp)
		struct pf_custom_calls *calls = pf_worker_custom_calls(fs->workers[w]);

		for (unsigned i = 0; calls && i < calls->n_libraries; i++)
			if (calls->libraries[i] == library_of(node) && calls->why[i])
				pf_buf_printf(out, "plugin %s: %s\n",
					      pf_worker_name(fs->workers[w]),
					      calls->why[i]);
	}
	return 0;
}

PF_FIELD(path, "path", "%s", library_of(node)->path);
FILES_TEXT(sha256, "sha256", sha256_show, NULL);
FILES_TEXT(targets, "targets", targets_show, NULL);
FILES_TEXT(error, "error", error_show, NULL);

static const struct pf_kind kind_library = {
	.mode = S_IFDIR | 0555,
	.children =
		(const struct pf_kind *const[]){ &path, &sha256, &targets, &error, NULL },
};

static const struct pf_kind kind_ffi = { .mode = S_IFDIR | 0555 };

int files_add_library(struct pf_fs *fs, const struct pf_library *l)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *dir = pf_dir_lookup(pf_tree_root(fs->tree), "ffi");

	return files_link(dir, l->name, &kind_library, (void *)(uintptr_t)l, NULL);
}

int files_add_ffi(struct pf_fs *fs)
{
	const struct pf_library *libraries[PF_LIBRARIES_MAX];
	unsigned n = pf_libraries_of(fs->config.libraries, NULL, libraries);
	int r = files_link(pf_tree_root(fs->tree), "ffi", &kind_ffi, NULL, NULL);

	for (unsigned i = 0; i < n && r == 0; i++)
		r = files_add_library(fs, libraries[i]);
	return r;
}

/* --- plugins/NAME/custom_calls ------------------------------------------------------------- */

static int custom_calls_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	PF_CLEANUP(pf_custom_calls_unrefp)
	struct pf_custom_calls *calls = pf_worker_custom_calls(node->object);

	(void)err;
	for (size_t i = 0; calls && i < calls->n; i++)
		if (!calls->calls[i].note)
			pf_buf_printf(out, "%s\t%s\n", calls->calls[i].target,
				      pf_custom_call_library(&calls->calls[i]));
	return 0;
}

const struct pf_kind kind_custom_calls = { .name = "custom_calls",
					   .mode = S_IFREG | 0444,
					   .show = custom_calls_show };
