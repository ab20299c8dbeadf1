/* SPDX-License-Identifier: Apache-2.0 */
/* Names of buffers: which are valid, what names in commands stand for, which refusals are kept. */
#include "files_fixture.h"

/* --- new names ---------------------------------------------------------------------- */

static const struct {
	const char *name;
	bool directory;
	int code;
	const char *why;
} made[] = {
	{ "new.npy", false, 0, NULL },
	{ "new.npy~", false, 0, NULL },
	{ "ns.part", false, 0, NULL },
	{ "new", true, 0, NULL },
	{ "scratch.d", true, 0, NULL },
	{ "ns.npy", false, -EEXIST, "ns.npy: there is a directory ns" },
	{ "x", true, -EEXIST, "x: there is a buffer of that name" },
	{ "a.npy.txt", false, -EINVAL,
	  "a.npy.txt: the name before the extension must not end in .npy" },
	{ "a.sharding.npy", false, -EINVAL,
	  "a.sharding.npy: the name before the extension must not end in .sharding" },
	{ "a.raw", true, -EINVAL,
	  "a.raw: the name before the extension must not end in .raw" },
	{ "a.json", false, 0, NULL },
	{ "x.json", false, -EINVAL,
	  "x.json: there is a buffer of that name, and .json is what is known of it" },
	{ "a.mlir", false, -EINVAL,
	  "a.mlir: expected an array, which is called .npy, .txt, .raw or .safetensors, "
	  "found .mlir: it is called as a program: those go to programs/" },
	{ "a.mlirbc", false, -EINVAL, NULL },
	{ "a.hlo.pb", false, -EINVAL, NULL },
	{ "a.jax_exported", false, -EINVAL, NULL },
	{ "a.pjrtexe", false, -EINVAL, NULL },
	{ "a.stablehlo", false, -EINVAL, NULL },
	{ "a.csv", false, -EINVAL, NULL },
	{ "a.tsv", false, -EINVAL, NULL },
	{ "a.png", false, -EINVAL, NULL },
	{ "a.jpg", false, -EINVAL, NULL },
	{ "a.jpeg", false, -EINVAL, NULL },
	{ "a.gguf", false, -EINVAL, NULL },
	{ "a.onnx", false, -EINVAL, NULL },
	{ "a.npz", false, -EINVAL,
	  ".npz files are not read; files of their arrays are made by: python3 -m zipfile "
	  "-e a.npz a" },
	{ "a.pt", false, -EINVAL,
	  ".pt files are not read; files of their arrays are made by: python3 -c 'import "
	  "torch,sys; from safetensors.torch import save_file; d = "
	  "torch.load(sys.argv[1], map_location=lambda s, _: s, weights_only=True); d = "
	  "d.get(\"state_dict\") or d.get(\"model\") or d; save_file({k: "
	  "v.clone().contiguous() for k, v in d.items()}, sys.argv[2])' a.pt "
	  "a.safetensors" },
};

TEST_EACH(a_new_name_is_valid_or_refused, made)
{
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(make(devices[0].buffers, made[_i].name, made[_i].directory,
			      &err),
			 made[_i].code);
	if (made[_i].why)
		ck_assert_str_eq(err.text, made[_i].why);
}

/* --- names in commands -------------------------------------------------------------- */

static const struct {
	const char *name, *found;
	int code;
	const char *why;
} named[] = {
	{ "x", "x.npy", 0, NULL },
	{ "x.npy", "x.npy", 0, NULL },
	{ "x.txt", "x.npy", 0, NULL },
	{ "ns/y", "y.txt", 0, NULL },
	{ "cpu:1/z.npy", "z.raw", 0, NULL },
	{ "none", NULL, -ENOENT, "there is no buffer none" },
	{ "X.txt", NULL, -ENOENT, "there is no buffer X.txt (did you mean \"x\"?)" },
	{ "cpu:1/Z", NULL, -ENOENT,
	  "there is no buffer cpu:1/Z (did you mean \"cpu:1/z\"?)" },
	{ "scrtach", NULL, -ENOENT, "there is no buffer scrtach" },
	{ "*", NULL, -ENOENT,
	  "there is no buffer *: each input has a name here; * is for bind, whose calls "
	  "bring the input" },
	{ "scratch", NULL, -ENOENT,
	  "scratch is a file, and no array, which is called .npy, .txt, .raw or "
	  ".safetensors" },
	{ "x,y", NULL, -ENOENT,
	  "there is no buffer \"x,y\": names are separated by blanks, not by commas" },
	{ "ns", NULL, -EISDIR, "ns is a directory, not a buffer" },
	{ "x.json", NULL, -EINVAL,
	  "x.json is what is known of a buffer, whose name is x" },
	{ "cpu:9/x", NULL, -ENODEV,
	  "cpu:9/x: there is no device cpu:9; there are cpu:0 and cpu:1" },
	{ "x/y", NULL, -ENOENT, "there is no directory x in buffers/" },
	{ "ns//y", NULL, -ENOENT, "there is no directory  in buffers/" },
	{ "/x", NULL, -ENOENT, "/x: expected a name below buffers/, found a path" },
	{ "/m/buffers/ns/y", NULL, -ENOENT,
	  "/m/buffers/ns/y: expected a name below buffers/, found a path: write ns/y" },
	{ "buffers/x.npy", NULL, -ENOENT,
	  "buffers/x.npy: expected a name below buffers/, found a path: write x.npy" },
	{ "../../buffers/x.npy", NULL, -ENOENT,
	  "../../buffers/x.npy: expected a name below buffers/, found a path: write "
	  "x.npy" },
	{ "devices/cpu/1/buffers/z", NULL, -ENOENT,
	  "devices/cpu/1/buffers/z: expected a name below buffers/, found a path: write "
	  "cpu:1/z" },
};

TEST_EACH(a_name_means_a_buffer, named)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = NULL;
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	struct pf_err err = PF_ERR_INIT;
	char name[PF_NAME_MAX + 1];

	ck_assert_int_eq(buffers_find_listed(&devices[0], named[_i].name, &owner, &dir,
					     &node, &err),
			 named[_i].code);
	if (named[_i].why)
		ck_assert_str_eq(err.text, named[_i].why);
	if (!named[_i].found)
		return;
	pf_node_name(node, name);
	ck_assert_str_eq(name, named[_i].found);
}

/* May the other user do WANT to ns/y?  0, or -errno and a sentence in ERR. */
static int others_right(int want, struct pf_err *err)
{
	PF_CLEANUP(pf_buffer_unrefp) struct pf_buffer *buffer = NULL;

	return files_find_buffer(&devices[0], "ns/y", &other, want, &buffer, err);
}

TEST(rights_decide)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *ns = pf_dir_lookup(devices[0].buffers, "ns");
	struct pf_err err = PF_ERR_INIT;
	struct target target = { 0 };
	struct names names = { 0 };
	struct pf_attr attr;

	ck_assert_int_eq(others_right(R_OK, &err), 0);
	ck_assert_int_eq(others_right(W_OK, &err), -EACCES);
	ck_assert_str_eq(err.text, "buffer ns/y: permission denied");
	ck_assert_int_eq(files_find_target(&devices[0], "new", &other, &target, &err),
			 -EACCES);
	pf_node_attr(ns, &attr);
	attr.mode = S_IFDIR | 0700;
	pf_node_set_attr(ns, &attr);
	ck_assert_int_eq(others_right(R_OK, &err), -EACCES);
	ck_assert_str_eq(err.text, "directory ns may not be searched");
	ck_assert_int_eq(files_expand(&devices[0], "ns", &other, &names, NULL, &err),
			 -EACCES);
	ck_assert_str_eq(err.text, "directory ns may not be listed");
	names_release(&names);
}

static const struct {
	const char *name;
	int code;
	const char *why;
} targets[] = {
	{ "x", 0, NULL },
	{ "new", 0, NULL },
	{ "new.txt", 0, NULL },
	{ "cpu:1/new", 0, NULL },
	{ "ns", -EEXIST, "ns: there is a directory ns" },
	{ "a.npy.npy", -EINVAL,
	  "a.npy.npy: the name before the extension must not end in .npy" },
	{ "ns/a.npz", -EINVAL,
	  "ns/a.npz: files of that format are neither written nor read" },
	{ "a.json", -EINVAL, "a.json is what is known of a buffer, whose name is a" },
	{ "", -EINVAL, NULL },
	{ "..", -EINVAL, NULL },
};

TEST_EACH(a_result_has_a_place, targets)
{
	struct pf_err err = PF_ERR_INIT;
	struct target target = { 0 };

	ck_assert_int_eq(files_find_target(&devices[0], targets[_i].name, &owner, &target,
					   &err),
			 targets[_i].code);
	if (targets[_i].why)
		ck_assert_str_eq(err.text, targets[_i].why);
	files_target_release(&target);
}

TEST(a_stem_leaves_room_for_the_extension)
{
	struct target target = { 0 };
	char name[PF_NAME_MAX + 1] = "";

	memset(name, 'n', PF_NAME_MAX - 4);
	ck_assert_int_eq(files_find_target(&devices[0], name, &owner, &target, NULL), 0);
	files_target_release(&target);
	name[PF_NAME_MAX - 4] = 'n';
	ck_assert_int_eq(files_find_target(&devices[0], name, &owner, &target, NULL),
			 -ENAMETOOLONG);
}

static const struct {
	const char *name;
	int expansion;
	const char *leaves; /* separated by blanks */
} expanded[] = {
	{ "x", FILES_ITSELF, "x" },
	{ "none", FILES_ITSELF, "none" },
	{ "ns", FILES_LEAVES, "ns/b ns/y" },
	{ "ns//", FILES_LEAVES, "ns/b ns/y" },
	{ "rows", FILES_LEAVES, "rows/01 rows/9 rows/10" },
	{ "cpu:1/", FILES_LEAVES, "cpu:1/z" },
};

TEST_EACH(a_directory_stands_for_its_buffers, expanded)
{
	pf_autobuf struct pf_buf list = PF_BUF_INIT;
	struct names names = { 0 };

	ck_assert_int_eq(files_expand(&devices[0], expanded[_i].name, &owner, &names,
				      NULL, NULL),
			 expanded[_i].expansion);
	for (size_t i = 0; i < names.n; i++)
		pf_buf_printf(&list, "%s%s", i ? " " : "", names.at[i]);
	ck_assert_str_eq(list.data, expanded[_i].leaves);
	names_release(&names);
}

/* --- results ------------------------------------------------------------------------ */

/* Give a result of CRED the name TARGET; with EXCL only if no buffer has it. */
static int put(struct target *target, const struct pf_cred *cred, bool excl,
	       struct pf_err *err)
{
	PF_CLEANUP(pf_buffer_unrefp)
	struct pf_buffer *buffer =
		pf_buffer_new(&devices[0].location, PF_DEFAULT_MEMORY, PF_FORMAT_RAW);

	return files_put_buffer(target, buffer, PF_FORMAT_RAW, cred, excl, err);
}

TEST(a_result_has_the_owner_and_mode_of_what_it_replaces)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *x = pf_dir_lookup(devices[0].buffers, "x.npy");
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	struct pf_err err = PF_ERR_INIT;
	struct target target = { 0 };
	struct pf_attr attr;

	pf_node_attr(x, &attr);
	attr.mode = S_IFREG | 0666;
	pf_node_set_attr(x, &attr);
	ck_assert_int_eq(files_find_target(&devices[0], "x", &other, &target, &err), 0);
	ck_assert_int_eq(put(&target, &other, true, &err), -EEXIST);
	ck_assert_str_eq(err.text, "there is a buffer x already");
	ck_assert_int_eq(put(&target, &other, false, &err), 0);
	ck_assert_ptr_null(pf_dir_lookup(devices[0].buffers, "x.npy"));
	node = pf_dir_lookup(devices[0].buffers, "x.raw");
	pf_node_attr(node, &attr);
	ck_assert_uint_eq(attr.uid, owner.uid);
	ck_assert_uint_eq(attr.mode, S_IFREG | 0666);
	files_target_release(&target);
}

TEST(a_result_gets_no_name_in_a_directory_that_is_gone)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *gone = NULL;
	struct pf_node *dir = devices[0].buffers;
	struct pf_err err = PF_ERR_INIT;
	struct target target = { 0 };

	ck_assert_int_eq(make(dir, "gone", true, NULL), 0);
	ck_assert_int_eq(files_find_target(&devices[0], "gone/z", &owner, &target, &err),
			 0);
	gone = pf_dir_lookup(dir, "gone");
	pf_tree_lock_names(fs->tree);
	ck_assert_int_eq(files_check_target_locked(&target, &err), 0);
	ck_assert_int_eq(dir->kind->dir->rmdir(dir, gone, NULL), 0);
	ck_assert_int_eq(files_check_target_locked(&target, &err), -ENOENT);
	ck_assert_str_eq(err.text, "gone/z: its directory is gone");
	pf_tree_unlock_names(fs->tree);
	ck_assert_int_eq(put(&target, &owner, false, &err), -ENOENT);
	files_target_release(&target);
}

/* --- refusals ----------------------------------------------------------------------- */

/* Does STEM.json say why a name was refused? */
static bool remembered(const char *stem)
{
	struct pf_node *node;

	pf_tree_lock_names(fs->tree);
	node = buffers_refusal(devices[0].buffers, stem, strlen(stem));
	pf_tree_unlock_names(fs->tree);
	pf_node_unref(node);
	return node;
}

TEST(a_refusal_stays_until_there_is_a_buffer)
{
	struct pf_node *dir = devices[0].buffers;
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(make(dir, "r.npz", false, &err), -EINVAL);
	ck_assert(remembered("r"));
	ck_assert(!remembered("r.npz"));
	ck_assert_int_eq(make(dir, "r.part", false, &err), 0);
	ck_assert_int_eq(make(dir, "r", true, &err), 0);
	ck_assert(remembered("r"));
	ck_assert_int_eq(make(dir, "s.npz", false, &err), -EINVAL);
	ck_assert_int_eq(make(dir, "s", false, &err), 0);
	ck_assert(remembered("s"));
	ck_assert_int_eq(make(dir, "s.npy", false, &err), 0);
	ck_assert(!remembered("s"));
	/* x.json is about x */
	ck_assert_int_eq(make(dir, "x.npz", false, &err), -EINVAL);
	ck_assert(!remembered("x"));
	ck_assert_int_eq(make(dir, "x.json", false, &err), -EINVAL);
	ck_assert(!remembered("x"));
}

TEST(the_last_refusals_are_kept)
{
	struct pf_err err = PF_ERR_INIT;
	char name[32];

	for (unsigned i = 0; i <= FILES_REFUSALS; i++) {
		snprintf(name, sizeof(name), "r%u.npz", i);
		ck_assert_int_eq(make(devices[0].buffers, name, false, &err), -EINVAL);
	}
	ck_assert(!remembered("r0"));
	ck_assert(remembered("r1"));
	snprintf(name, sizeof(name), "r%u", FILES_REFUSALS);
	ck_assert(remembered(name));
}

UNIT_FIXTURE(set_up, tear_down)
