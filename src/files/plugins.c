/* plugins/NAME/: what is known of each plugin and its worker. */
#include "files.h"
#include "pjrtfs/base/json.h"

static struct pf_worker *worker_of(struct pf_node *node)
{
	return node->object;
}

static int path_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)err;
	pf_buf_printf(out, "%s\n", pf_worker_path(worker_of(node)));
	return 0;
}

static int api_version_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	const struct pf_description *d = pf_worker_description(worker_of(node));

	(void)err;
	pf_buf_printf(out, "%d.%d\n", d->api_major, d->api_minor);
	return 0;
}

static int platform_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)err;
	pf_buf_printf(out, "%s\n", pf_worker_description(worker_of(node))->platform);
	return 0;
}

static int platform_version_show(struct pf_node *node, struct pf_buf *out,
				 struct pf_err *err)
{
	(void)err;
	pf_buf_printf(out, "%s\n",
		      pf_worker_description(worker_of(node))->platform_version);
	return 0;
}

static int state_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)err;
	pf_buf_printf(out, "%s\n",
		      pf_worker_state_name(pf_worker_state(worker_of(node))));
	return 0;
}

static int pid_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	unsigned restarts;
	pid_t pid;

	(void)err;
	pf_worker_pid(worker_of(node), &pid, &restarts);
	pf_buf_printf(out, "%d\n", (int)pid);
	return 0;
}

static int restarts_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	unsigned restarts;
	pid_t pid;

	(void)err;
	pf_worker_pid(worker_of(node), &pid, &restarts);
	pf_buf_printf(out, "%u\n", restarts);
	return 0;
}

static int extensions_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	struct json_object *list = pf_worker_description(worker_of(node))->extensions;

	(void)err;
	for (size_t i = 0; list && i < json_object_array_length(list); i++)
		pf_buf_printf(out, "%s\n",
			      json_object_get_string(json_object_array_get_idx(list, i)));
	return 0;
}

static int attributes_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)err;
	pf_json_print_line(pf_worker_description(worker_of(node))->attributes, out);
	return 0;
}

/* The create options in force. */
static int options_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)err;
	pf_buf_printf(out, "%s\n", pf_worker_options(worker_of(node)));
	return 0;
}

static int error_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)err;
	pf_worker_error(worker_of(node), out);
	return 0;
}

static int log_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)err;
	pf_worker_log(worker_of(node), out);
	return 0;
}

FILES_TEXT(path, "path", path_show, NULL);
FILES_TEXT(api_version, "api_version", api_version_show, NULL);
FILES_TEXT(platform, "platform", platform_show, NULL);
FILES_TEXT(platform_version, "platform_version", platform_version_show, NULL);
FILES_TEXT(state, "state", state_show, NULL);
FILES_TEXT(restarts, "restarts", restarts_show, NULL);
FILES_TEXT(pid, "pid", pid_show, NULL);
FILES_TEXT(extensions, "extensions", extensions_show, NULL);
FILES_TEXT(attributes, "attributes.json", attributes_show, NULL);
FILES_TEXT(options, "options.json", options_show, NULL);
FILES_TEXT(error, "error", error_show, NULL);
FILES_TEXT(log_file, "log", log_show, NULL);

static const struct pf_kind kind_plugin = {
	.mode = S_IFDIR | 0555,
	.children =
		(const struct pf_kind *const[]){ &path, &api_version, &platform,
						 &platform_version, &state, &error,
						 &restarts, &pid, &extensions,
						 &attributes, &options, &log_file, NULL },
};

/* --- a plugin that could not be started ------------------------------------------------- */

static const struct pf_failed_plugin *failed_of(struct pf_node *node)
{
	return node->object;
}

static int failed_path_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)err;
	pf_buf_printf(out, "%s\n", failed_of(node)->path);
	return 0;
}

static int failed_state_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)node;
	(void)err;
	pf_buf_printf(out, "%s\n", pf_worker_state_name(PF_WORKER_FAILED));
	return 0;
}

static int failed_error_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)err;
	pf_buf_printf(out, "%s\n", failed_of(node)->why.text);
	return 0;
}

static int failed_options_show(struct pf_node *node, struct pf_buf *out,
			       struct pf_err *err)
{
	(void)err;
	pf_buf_printf(out, "%s\n", failed_of(node)->options);
	return 0;
}

FILES_TEXT(failed_path, "path", failed_path_show, NULL);
FILES_TEXT(failed_state, "state", failed_state_show, NULL);
FILES_TEXT(failed_error, "error", failed_error_show, NULL);
FILES_TEXT(failed_options, "options.json", failed_options_show, NULL);

static const struct pf_kind kind_failed_plugin = {
	.mode = S_IFDIR | 0555,
	.children =
		(const struct pf_kind *const[]){ &failed_path, &failed_state,
						 &failed_error, &failed_options, NULL },
};

const struct pf_kind kind_plugins = { .mode = S_IFDIR | 0555 };

int files_add_plugins(struct pf_fs *fs, struct pf_node *plugins)
{
	int r = 0;

	for (unsigned i = 0; i < fs->n_workers && r == 0; i++)
		r = files_link(plugins, pf_worker_name(fs->workers[i]), &kind_plugin,
			       fs->workers[i], NULL);
	for (unsigned i = 0; i < fs->n_failed && r == 0; i++)
		r = files_link(plugins, fs->failed[i].name, &kind_failed_plugin,
			       (void *)(uintptr_t)&fs->failed[i], NULL);
	return r;
}
