/* SPDX-License-Identifier: Apache-2.0 */
/* FFI libraries: their names and order, and what a worker says of their handlers;
 * tests/integration/ffi-register.sh has those that cannot be called. */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>

#include "work_dir.h"

#include "engine/internal.h"
#include "pjrtfs/json.h"
#include "pjrtfs/library.h"

static struct pf_libraries *libs;

static void open_libraries(void)
{
	work_dir_make();
	libs = pf_libraries_new();
}

static void close_libraries(void)
{
	pf_libraries_free(libs);
	remove_tree(work_dir);
}

UNIT_FIXTURE(open_libraries, close_libraries)

/* The path of a library called NAME in work_dir: the head of this program, which is all that is read, without
 * segments. */
static const char *library(const char *name)
{
	static char path[64];
	ElfW(Ehdr) head;
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;

	snprintf(path, sizeof(path), "%s/%s", work_dir, name);
	to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	ck_assert_int_eq(read(from, &head, sizeof(head)), sizeof(head));
	head.e_phnum = 0;
	ck_assert_int_eq(write(to, &head, sizeof(head)), sizeof(head));
	close(from);
	close(to);
	return path;
}

static const struct pf_library *add(const char *path, const char *plugin, bool builtin)
{
	const struct pf_library_spec spec = { .path = path,
					      .plugin = plugin,
					      .builtin = builtin };
	const struct pf_library *ret = NULL;
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(pf_libraries_add(libs, &spec, &ret, &err) == 0, "%s", err.text);
	return ret;
}

TEST(names_are_those_of_files_and_unique)
{
	static const char *const files[][2] = {
		{ "a.so", "a" },    { "liba.so.3.2", "liba" }, { "plain", "plain" },
		{ ".so", ".so" },   { "b\tc.so", "b c" },      { "a.so", "a-2" },
		{ "a.so.1", "a-3" }
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		ck_assert_str_eq(add(library(files[i][0]), NULL, false)->name,
				 files[i][1]);
}

TEST(each_plugin_has_its_own_and_pjrtfs_is_last)
{
	const struct pf_library *of[PF_LIBRARIES_MAX];

	add(library("lapack.so"), NULL, true);
	add(library("all.so"), NULL, false);
	add(library("gpu.so"), "gpu", false);
	ck_assert_uint_eq(pf_libraries_of(libs, "cpu", of), 2);
	ck_assert_str_eq(of[0]->name, "all");
	ck_assert_str_eq(of[1]->name, "lapack");
	ck_assert_uint_eq(pf_libraries_of(libs, "gpu", of), 3);
	ck_assert_str_eq(of[1]->name, "gpu");
	ck_assert_uint_eq(pf_libraries_of(libs, NULL, of), 3);
	ck_assert_uint_eq(pf_libraries_of(NULL, NULL, of), 0);
}

/* The copy stays as it was read, whatever happens to the file. */
TEST(the_copy_cannot_change)
{
	const char *path = library("sealed.so");
	const struct pf_library *l = add(path, NULL, false);
	struct stat st, copy;

	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(fstat(l->fd, &copy), 0);
	ck_assert_int_eq(st.st_size, copy.st_size);
	ck_assert_int_lt(write(l->fd, "x", 1), 0);
	ck_assert_int_ne(ftruncate(l->fd, 0), 0);
	ck_assert_ptr_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, l->fd, 0),
			 MAP_FAILED);
}

/* --- what a worker says ------------------------------------------------------------ */

static int read_calls(const char *text, struct pf_custom_calls **ret, struct pf_err *err)
{
	const struct pf_library *of[PF_LIBRARIES_MAX];
	unsigned n = pf_libraries_of(libs, NULL, of);
	struct json_object *json = NULL;
	int r;

	ck_assert_int_eq(pf_json_parse(text, strlen(text), &json, NULL), 0);
	r = pf_custom_calls_new(json, of, n, ret, err);
	json_object_put(json);
	return r;
}

TEST(handlers_are_found)
{
	struct pf_custom_calls *c = NULL;

	add(library("one.so"), NULL, false);
	ck_assert_int_eq(read_calls("{\"libraries\":[\"not here\"],\"custom_calls\":["
				    "[\"ab\",0],[\"abc\",-1],[\"b\",0,\"shadowed by c\"],"
				    "[\"a\",0,\"note\"],[\"a\",-1]]}",
				    &c, NULL),
			 0);
	ck_assert_uint_eq(c->n, 5);
	ck_assert_str_eq(c->why[0], "not here");
	ck_assert_str_eq(pf_custom_call_library(pf_custom_calls_find(c, "ab", 2)), "one");
	ck_assert_str_eq(pf_custom_call_library(pf_custom_calls_find(c, "abc", 3)),
			 "pjrtfs");
	ck_assert_str_eq(pf_custom_call_library(pf_custom_calls_find(c, "ab", 1)),
			 "pjrtfs");
	ck_assert_ptr_null(pf_custom_calls_find(c, "b", 1));
	ck_assert_ptr_null(pf_custom_calls_find(c, "abcd", 4));
	ck_assert_ptr_null(pf_custom_calls_find(c, "", 0));
	ck_assert_ptr_null(pf_custom_calls_find(NULL, "a", 1));
	pf_custom_calls_unref(c);
}

TEST(a_trial_has_one_more)
{
	struct pf_libraries *with;
	const struct pf_library_spec spec = { .path = library("a.so"), .plugin = "cpu" };
	const struct pf_library *of[PF_LIBRARIES_MAX];
	struct pf_library *l;
	struct pf_err err = PF_ERR_INIT;

	add(spec.path, "gpu", false);
	ck_assert_ptr_null(pf_libraries_find(libs, spec.path, "cpu"));
	ck_assert_ptr_nonnull(pf_libraries_find(libs, spec.path, "gpu"));
	ck_assert_ptr_nonnull(pf_libraries_find(libs, spec.path, NULL));
	ck_assert_int_eq(pf_library_read(libs, &spec, &l, &err), 0);
	ck_assert_str_eq(l->name, "a-2");
	ck_assert_int_eq(pf_libraries_with(libs, l, &with, &err), 0);
	ck_assert_uint_eq(pf_libraries_of(with, NULL, of), 2);
	ck_assert_ptr_eq(of[1], l);
	pf_libraries_free(with);
	ck_assert_uint_eq(pf_libraries_of(libs, NULL, of), 1);
	ck_assert_int_eq(pf_libraries_take(libs, l, &err), 0);
	ck_assert_ptr_eq(pf_libraries_find(libs, spec.path, "cpu"), l);
	while (pf_libraries_of(libs, NULL, of) < PF_LIBRARIES_MAX)
		add(spec.path, NULL, false);
	ck_assert_int_eq(pf_library_read(libs, &spec, &l, &err), 0);
	ck_assert_int_eq(pf_libraries_with(libs, l, &with, &err), -E2BIG);
	pf_libraries_free(with);
	ck_assert_int_eq(pf_libraries_take(libs, l, &err), -E2BIG);
	ck_assert_int_eq(pf_libraries_add(libs, &spec, NULL, &err), -E2BIG);
	pf_library_free(l);
}

/* The worker is not trusted. */
static const char *const lies[] = {
	"[\"a\",1]",
	"[\"a\",-2]",
	"[\"a\"]",
	"[]",
	"{}",
	"7",
	"null",
	"[3,0]",
	"[\"a\",\"0\"]",
	"[\"a\",0,7]",
	"[\"a\",9223372036854775807]",
};

TEST_EACH(lies_are_refused, lies)
{
	struct pf_custom_calls *c = NULL;
	struct pf_err err = PF_ERR_INIT;
	char text[128];

	add(library("one.so"), NULL, false);
	snprintf(text, sizeof(text), "{\"custom_calls\":[%s]}", lies[_i]);
	ck_assert_int_eq(read_calls(text, &c, &err), -EPROTO);
}
