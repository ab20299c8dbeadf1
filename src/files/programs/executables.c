/* SPDX-License-Identifier: Apache-2.0 */
/* executables/NAME/: a compiled program. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/json.h"
#include "pjrtfs/plugin_options.h"

/* --- serialized, optimized.hlo.pb, optimized.mlir: what a plugin makes of the program at each open --- */

static const struct pf_kind serialized, optimized_mlir;

/* What optimized.mlir has where optimized.hlo.pb has the program, so that it is valid, and programs that
 * read all files meet no error. */
static const char elsewhere[] =
	"// The plugin gives the optimized program as HLO: see optimized.hlo.pb\n";

/*
 * The bytes of one open: a program for programs/ of a mount of the same plugin, or the program
 * after the compiler's optimizations.  They may be as large as the program's constants, so no
 * longer than that are they kept.
 */
struct image {
	struct pf_bytes *file;       /* owned reference, or NULL */
	struct pf_optimized *module; /* owned, or NULL */
	const void *data;            /* of the one that there is; NULL: nothing */
	uint64_t len;
};

static void image_free(struct image *image)
{
	if (!image)
		return;
	pf_bytes_unref(image->file);
	pf_optimized_free(image->module);
	free(image);
}

static bool gives_hlo(struct pf_executable *x)
{
	bool mlir;

	return pf_executable_optimized_len(x, &mlir) && !mlir;
}

static int make_image(struct pf_open *of, struct pf_err *err)
{
	struct pf_executable *x = program_of(of->node)->x;
	struct image *image = calloc(1, sizeof(*image));
	const bool mlir = of->node->kind == &optimized_mlir;
	int r = 0;

	if (!image)
		return -ENOMEM;
	if (of->node->kind == &serialized) {
		r = pf_executable_serialize(x,
					    files_account(fs_of(of->node), of->cred.uid),
					    &image->file, &image->len, err);
	} else if (mlir && gives_hlo(x)) {
		image->data = elsewhere;
		image->len = strlen(elsewhere);
	} else {
		r = pf_executable_optimized(x, of->cred.uid, mlir, &image->module, err);
	}
	if (r < 0) {
		image_free(image);
		return r;
	}
	if (image->file)
		image->data = pf_bytes_at(image->file, 0);
	if (image->module) {
		image->data = image->module->bytes;
		image->len = image->module->len;
	}
	of->state = image;
	return 0;
}

static void image_prepare(struct pf_open *of, struct pf_reply *reply)
{
	files_open_slowly(of, reply, make_image);
}

static void image_read(struct pf_open *of, size_t len, uint64_t off,
		       struct pf_reply *reply)
{
	const struct image *image = of->state;

	/* It was opened in an earlier life of the daemon, and its bytes are still made. */
	if (!image)
		pf_reply_code(reply, -EIO);
	else
		files_reply_part(reply, image->data, image->len, len, off);
}

static void image_release(struct pf_open *of)
{
	image_free(of->state);
}

static void image_getattr(struct pf_node *node, struct stat *st)
{
	struct pf_executable *x = program_of(node)->x;
	uint64_t len;
	bool mlir;

	if (node->kind == &serialized) {
		st->st_size = (off_t)pf_executable_serialized_len(x);
		return;
	}
	len = pf_executable_optimized_len(x, &mlir);
	if (mlir != (node->kind == &optimized_mlir))
		len = len && !mlir ? strlen(elsewhere) : 0;
	st->st_size = (off_t)len;
}

#define IMAGE(file)                                                                      \
	{                                                                                \
		.name = file, .mode = S_IFREG | 0444, .prepare = image_prepare,          \
		.read = image_read, .release = image_release, .getattr = image_getattr,  \
		.free = program_node_free                                                \
	}

static const struct pf_kind serialized = IMAGE("serialized");
static const struct pf_kind optimized = IMAGE("optimized.hlo.pb");
static const struct pf_kind optimized_mlir = IMAGE("optimized.mlir");

/* --- compiles that a request waits for ----------------------------------------------- */

struct compile_wait {
	struct pf_wait waiter;
	struct pf_executable *x; /* owned reference */
	struct pf_reply *reply;  /* owned */
};

static void compile_wake(struct pf_wait *waiter)
{
	struct compile_wait *w = pf_container_of(waiter, struct compile_wait, waiter);

	struct pf_err err = PF_ERR_INIT;
	int r = pf_executable_result(w->x, &err);

	pf_reply_fail(w->reply, r, &err);
	pf_executable_unref(w->x);
	free(w);
}

void files_compile(struct pf_executable *x, struct pf_reply *reply)
{
	struct compile_wait *w = calloc(1, sizeof(*w));
	struct pf_err err = PF_ERR_INIT;
	int r;

	if (!w) {
		pf_reply_code(reply, -ENOMEM);
		return;
	}
	w->waiter.wake = compile_wake;
	w->x = pf_executable_ref(x);
	w->reply = reply;
	r = pf_executable_compile(x, &w->waiter, &err);
	if (r == 0)
		return;
	pf_reply_fail(reply, r < 0 ? r : 0, &err);
	pf_executable_unref(w->x);
	free(w);
}

/* --- text --------------------------------------------------------------------------- */

/* Is there a program that runs, or could elsewhere?  A result then is that of a later source. */
static bool is_compiled(enum pf_executable_state state)
{
	return state == PF_EXECUTABLE_READY || state == PF_EXECUTABLE_COMPILED;
}

static int state_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	struct pf_executable *x = program_of(node)->x;
	enum pf_executable_state state = pf_executable_state(x);
	struct pf_err why = PF_ERR_INIT;

	(void)err;
	pf_buf_puts(out, pf_executable_state_name(state));
	if (is_compiled(state) && pf_executable_result(x, &why) < 0)
		pf_buf_printf(out, ", update failed: %.*s",
			      (int)pf_err_clean(why.text, strlen(why.text)), why.text);
	pf_buf_puts(out, "\n");
	return 0;
}

static int error_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	struct pf_executable *x = program_of(node)->x;
	enum pf_executable_state state = pf_executable_state(x);
	uint64_t len = pf_executable_uncommitted(x);
	pf_autobuf struct pf_buf name = PF_BUF_INIT;
	struct pf_err why = PF_ERR_INIT, write_err, options_err;

	(void)err;
	files_program_name(program_of(node), &name);
	if ((state == PF_EXECUTABLE_FAILED || is_compiled(state)) &&
	    pf_executable_result(x, &why) < 0)
		pf_buf_printf(out, "compile %s: %s\n", name.data, why.text);
	if (why.code && is_compiled(state))
		pf_buf_printf(out, "%s runs what was compiled before\n", name.data);
	if (len)
		pf_buf_printf(out,
			      "program of %s: %" PRIu64 " bytes were written, and it was "
			      "not closed: its writer is at it still, or was killed\n",
			      name.data, len);
	pf_executable_refusals(x, &write_err, &options_err);
	if (write_err.code)
		pf_buf_printf(out, "program of %s: %s\n", name.data, write_err.text);
	if (options_err.code)
		pf_buf_printf(out, "options of %s: %s\n", name.data, options_err.text);
	return 0;
}

/* The kind ID of a file of one line of JSON, which PRINT appends to out for the executable x. */
#define JSON_OF(id, file, print)                                                         \
	static int id##_show(struct pf_node *node, struct pf_buf *out,                   \
			     struct pf_err *err)                                         \
	{                                                                                \
		struct pf_executable *x = program_of(node)->x;                           \
                                                                                         \
		(void)err;                                                               \
		print;                                                                   \
		return 0;                                                                \
	}                                                                                \
	FILES_TEXT(id, file, id##_show, program_node_free)

JSON_OF(signature, "signature.json", pf_executable_signature(x, out));
PF_FIELD_JSON_OF(info, "info.json", pf_executable_json(program_of(node)->x),
		 program_node_free);
JSON_OF(cost, "cost.json", pf_executable_fact(x, "cost", out));
JSON_OF(memory, "memory.json", pf_executable_fact(x, "memory", out));

static int estimate_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	struct json_object *o = pf_executable_estimate(program_of(node)->x);

	(void)err;
	pf_json_print_line(o, out);
	json_object_put(o);
	return 0;
}

/* A device's limit is its plugin's to tell. */
static const struct pf_kind estimate = { .name = "estimate.json",
					 .mode = S_IFREG | 0444,
					 .show = estimate_show,
					 .blocks = true,
					 .free = program_node_free };

static int program_readlink(struct pf_node *node, struct pf_buf *out)
{
	struct pf_fs *fs = fs_of(node);
	struct program *program = program_of(node);
	pf_autobuf struct pf_buf path = PF_BUF_INIT;

	pf_tree_lock_names(node->tree);
	if (program->node)
		pf_node_path(program->node, fs->programs, &path);
	pf_tree_unlock_names(node->tree);
	pf_buf_puts(out, "../../");
	for (size_t i = 0; i < path.len; i++)
		if (path.data[i] == '/')
			pf_buf_puts(out, "../");
	pf_buf_printf(out, "programs/%s", path.data ? path.data : "");
	return 0;
}

/* --- options.json, options.pb -------------------------------------------------------- */

static const struct pf_kind options_pb;

static int options_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)err;
	pf_executable_options(program_of(node)->x, out);
	if (!out->len)
		pf_buf_puts(out, "{}\n");
	return 0;
}

/* Refuse a text that does not begin as a JSON object; *WHOLE: it is a complete one. */
static int scan_options(const struct pf_buf *text, bool *whole, struct pf_err *err)
{
	struct pf_err why = PF_ERR_INIT;
	struct json_object *o;
	size_t off;
	int r = pf_json_parse_at(text->data, text->len, &o, &off, &why);

	json_object_put(o);
	*whole = r == 0;
	if (r == 0 || (r == -EINVAL && off == text->len))
		return 0;
	return pf_err_set(err, r, "byte %zu: %s", off + 1, why.text);
}

/* May the opener of OF set the options TEXT? */
static int may_set(struct pf_open *of, const struct pf_buf *text, struct pf_err *err)
{
	struct program *program = program_of(of->node);
	int r = files_may_set(program->fs, of->cred.uid, text->data, err);

	if (r < 0)
		pf_executable_refuse_options(program->x, err);
	return r;
}

static int check_options(struct pf_open *of, const struct pf_buf *text,
			 struct pf_err *err)
{
	int r = pf_executable_set_options(program_of(of->node)->x, text->data, text->len,
					  true, err);

	return r < 0 ? r : may_set(of, text, err);
}

static ssize_t options_write(struct pf_open *of, const void *src, size_t len,
			     uint64_t off, struct pf_err *err)
{
	struct pf_executable *x = program_of(of->node)->x;
	struct pf_buf *text;
	bool whole;
	int r = files_written_add(of, src, len, off, err);

	if (r < 0)
		return r;
	text = of->state;
	/* A shell's echo checks write(2) only, not close(2): refuse a whole object here. */
	r = scan_options(text, &whole, err);
	if (r < 0)
		pf_executable_refuse_options(x, err);
	else if (whole)
		r = check_options(of, text, err);
	if (r < 0)
		text->len = off;
	return r < 0 ? r : (ssize_t)len;
}

/* Make TEXT, what was written to OF, the options; a message becomes JSON first. */
static int set_options(struct pf_open *of, const struct pf_buf *text, struct pf_err *err)
{
	struct program *program = program_of(of->node);
	struct pf_executable *x = program->x;
	pf_autobuf struct pf_buf json = PF_BUF_INIT;
	struct json_object *o = NULL;
	int r = 0;

	if (of->node->kind == &options_pb) {
		r = pf_options_decode(text->data, text->len, &o, err);
		/* jaxlib puts all flags of its process there, mostly the defaults. */
		if (r == 0 && !files_owns_mount(program->fs, of->cred.uid))
			json_object_object_del(o, "debug_options");
		if (r == 0)
			pf_json_print_line(o, &json);
		json_object_put(o);
		if (json.failed)
			r = pf_err_set(err, -ENOMEM, "no memory for the options");
		if (r < 0)
			pf_executable_refuse_options(x, err);
		text = &json;
	}
	if (r == 0)
		r = may_set(of, text, err);
	return r < 0 ? r
		     : pf_executable_set_options(x, text->data, text->len, false, err);
}

static void options_commit(struct pf_open *of, enum pf_commit why, struct pf_reply *reply)
{
	const struct pf_buf *text = of->state;
	struct pf_err err = PF_ERR_INIT;
	int r = 0;

	if (!text)
		r = pf_err_set(&err, -EIO,
			       "the daemon was restarted while they were written: write "
			       "them again");
	else if (why != PF_COMMIT_FSYNC)
		r = set_options(of, text, &err);
	if (r < 0 || why == PF_COMMIT_FSYNC)
		pf_reply_fail(reply, r, &err);
	else
		files_compile(program_of(of->node)->x, reply);
}

static int options_pb_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)err;
	pf_executable_given(program_of(node)->x, out);
	return 0;
}

static ssize_t options_pb_write(struct pf_open *of, const void *src, size_t len,
				uint64_t off, struct pf_err *err)
{
	int r = files_written_add(of, src, len, off, err);

	return r < 0 ? r : (ssize_t)len;
}

/* --- the directory ------------------------------------------------------------------ */

FILES_TEXT(state, "state", state_show, program_node_free);
FILES_TEXT(error, "error", error_show, program_node_free);
/* A shell's ">" truncates in vain: the options change at close. */
#define OPTIONS(file, print, take)                                                       \
	{                                                                                \
		.name = file, .mode = S_IFREG | 0644, .max_write = 1u << 20,             \
		.show = print, .write = take, .commit = options_commit,                  \
		.release = files_written_release, .free = program_node_free              \
	}
static const struct pf_kind options =
	OPTIONS("options.json", options_show, options_write);
static const struct pf_kind options_pb =
	OPTIONS("options.pb", options_pb_show, options_pb_write);
static const struct pf_kind program_link = { .name = "program",
					     .mode = S_IFLNK | 0777,
					     .readlink = program_readlink,
					     .free = program_node_free };

static const struct pf_kind *const children[] = {
	&program_link, /* first: kind_as begins with the next one */
	&state,          &error,      &signature, &options,       &options_pb,
	&info,           &cost,       &memory,    &estimate,      &optimized,
	&optimized_mlir, &kind_run,   &kind_call, &kind_call_raw, &kind_bind,
	&kind_callbacks, &serialized, NULL,
};

static const struct pf_kind kind_executable = {
	.mode = S_IFDIR | 0555,
	.children = children,
	.instead = "arrays go to buffers/, and an executable goes with its program: "
		   "remove that from programs/",
	.free = program_node_free,
};

/* The compile command made it with "as": it has no program. */
static const struct pf_kind kind_as = {
	.mode = S_IFDIR | 0555,
	.children = children + 1,
	.instead = "rmdir removes the whole executable, and nothing removes a part of it",
	.restored_as = RESTORED_AS,
	.free = program_node_free,
};

static void each_below(struct pf_node *dir,
		       void (*fn)(void *arg, struct pf_node *node,
				  struct program *program),
		       void *arg)
{
	struct pf_node **list = pf_dir_list(dir);

	for (struct pf_node **p = list; p && *p; p++) {
		if ((*p)->kind != &kind_executables)
			fn(arg, *p, program_of(*p));
		else
			each_below(*p, fn, arg);
		pf_node_unref(*p);
	}
	free(list);
}

void files_each_executable(struct pf_fs *fs,
			   void (*fn)(void *arg, struct pf_node *node,
				      struct program *program),
			   void *arg)
{
	each_below(fs->executables, fn, arg);
}

void files_drop_executable_locked(struct program *program)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;

	if (!program->executable)
		return;
	dir = pf_node_parent(program->executable);
	if (dir)
		files_report(program->executable, "executable.removed", NULL);
	pf_executable_name(program->x, 0);
	pf_dir_unlink(program->executable);
	pf_node_unref(pf_steal(&program->executable));
	/* The kernel may hold references on the directory's nodes for long. */
	pf_tree_wake_later(program->fs->tree, pf_executable_unload(program->x));
	if (!program->node)
		program_removed(program);
}

void files_drop_executable(struct program *program)
{
	PF_NAMES_SCOPE(program->fs->tree);
	files_drop_executable_locked(program);
}

static int executables_rmdir(struct pf_node *dir, struct pf_node *node,
			     struct pf_err *err)
{
	(void)dir;
	if (!files_is_as(node))
		return pf_err_set(err, -EPERM,
				  "it goes with its program: remove that from programs/");
	files_drop_executable_locked(program_of(node));
	return 0;
}

/* Bytes that a directory in programs/ and its mirror take. */
enum { DIRECTORY_HEAP = 2048 };

int files_mirror_new(struct pf_tree *tree, mode_t mode, const struct pf_cred *cred,
		     bool forced, struct pf_node **ret, struct pf_err *err)
{
	const struct pf_fs *fs = pf_tree_object(tree);
	struct pf_file_charge *charge = calloc(1, sizeof(*charge));
	int r = charge ? 0 : -ENOMEM;

	if (r == 0)
		r = pf_file_charge(charge, fs->config.arena, files_account(fs, cred->uid),
				   PF_RESOURCES, DIRECTORY_HEAP, forced, err);
	if (r == 0 &&
	    !(*ret = pf_node_new(tree, &kind_executables, charge, mode, cred))) {
		pf_file_discharge(charge);
		r = -ENOMEM;
	}
	if (r < 0)
		free(charge);
	return r;
}

void files_mirror_charge_to(struct pf_node *mirror, uid_t uid)
{
	if (mirror->object)
		pf_file_charge_move(mirror->object, files_account(fs_of(mirror), uid));
}

static void mirror_free(struct pf_node *mirror)
{
	if (mirror->object)
		pf_file_discharge(mirror->object);
	free(mirror->object);
}

/* Directories here follow those of programs/: users remove only executables without one. */
static const struct pf_dir_ops executables_ops = { .rmdir = executables_rmdir };
const struct pf_kind kind_executables = {
	.mode = S_IFDIR | 0755,
	.dir = &executables_ops,
	.instead =
		"executables/ is made of programs/: programs are written and removed there",
	.free = mirror_free,
};

static mode_t mode_of_executable(mode_t mode)
{
	return (mode & 0444) | (mode & 0444) >> 2;
}

void files_follow_program(struct pf_node *of, struct pf_node *executable)
{
	struct pf_node **list = pf_dir_list(executable);
	struct pf_attr attr;

	pf_node_attr(of, &attr);
	pf_node_follow(executable, &attr, mode_of_executable(attr.mode));
	for (struct pf_node **n = list; n && *n; n++) {
		pf_node_follow(*n, &attr,
			       (*n)->kind->write && !((*n)->kind->mode & 0022)
				       ? attr.mode & 0666
				       : (*n)->kind->mode & 0777);
		pf_node_unref(*n);
	}
	free(list);
}

int files_add_executable(struct pf_node *dir, const char *stem, struct program *program,
			 mode_t perm, const struct pf_cred *cred, bool compiles,
			 struct pf_err *err)
{
	const struct pf_kind *kind = program->node ? &kind_executable : &kind_as;
	struct pf_node *node;
	unsigned n = 1; /* the directory; each child holds a reference of its own */
	int r;

	for (unsigned i = 0; kind->children[i]; i++)
		n++;
	program->made_as = !program->node;
	atomic_fetch_add(&program->refs, n);
	node = pf_node_new(dir->tree, kind, program, perm, cred);
	if (!node) {
		atomic_fetch_sub(&program->refs, n);
		return pf_err_set(err, -ENOMEM, "no memory for executable %s", stem);
	}
	if (program->node)
		files_follow_program(program->node, node);
	else
		program_save(node);
	r = pf_dir_check_depth(dir, node, err);
	if (r < 0) {
		pf_node_unref(node);
		return r;
	}
	program->executable = node;
	pf_executable_name(program->x, node->ino);
	/* A caller that finds it waits for the compile. */
	if (compiles)
		pf_executable_compile(program->x, NULL, NULL);
	r = pf_dir_link(dir, stem, node, true);
	if (r < 0)
		files_drop_executable_locked(program);
	return r;
}

/* May an executable be called STEM beside DIR? */
static int check_stem(struct pf_node *dir, const char *stem, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *program = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *taken = NULL;
	int r = pf_name_check(stem, err);

	if (r < 0)
		return r;
	if (pf_program_format_of(stem, NULL) != PF_PROGRAM_NONE)
		return pf_err_set(err, -EINVAL,
				  "expected a name without a program's extension");
	program = files_find_stem(dir, stem, strlen(stem));
	taken = pf_dir_lookup(files_mirror_of(dir), stem);
	if (program || taken)
		return pf_err_set(err, -EEXIST, "there is %s of that name",
				  program              ? "a program"
				  : files_is_as(taken) ? "an executable"
						       : "a directory");
	return 0;
}

/* R_OK on the program is the right to run its executables. */
static mode_t mode_of(struct program *source)
{
	struct pf_attr attr = { .mode = 0444 };

	if (source->node)
		pf_node_attr(source->node, &attr);
	return mode_of_executable(attr.mode);
}

int files_add_as(struct pf_fs *fs, const char *as, struct program *source,
		 struct program *made, const struct pf_cred *cred, struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	const char *stem = as;
	int r;

	PF_NAMES_SCOPE(fs->tree);
	r = files_find_program_dir(fs, &stem, cred, &dir);
	if (r == 0 && !pf_node_may(dir, cred, W_OK | X_OK))
		r = -EACCES;
	if (r == -ENOENT)
		pf_err_set(err, r, "there is no such directory in programs/");
	else if (r < 0)
		pf_err_set(err, r, "permission denied");
	if (r == 0)
		r = check_stem(dir, stem, err);
	if (r == 0)
		r = files_add_executable(files_mirror_of(dir), stem, made,
					 mode_of(source), cred, false, err);
	return r < 0 ? pf_err_wrap(err, r, "\"as\": %s", as) : 0;
}
