/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of an earlier life of the daemon: a process makes some of each kind and is killed; this
 * one takes over its journal and its arena, and must show the same.
 */
#include "vfs_driver.h"

#include <inttypes.h>

#include "files/buffers/internal.h"
#include "files/jobs/jobs.h"
#include "files/programs/internal.h"
#include "lives_fixture.h"
#include "pjrtfs/json.h"
#include "sharding_text.h"

static const struct pf_cred user = { .uid = USER, .gid = USER };

static bool renames; /* the first life only makes files in the midst of renames */

/* --- what there is ------------------------------------------------------------------- */

static uint64_t ino_of(const char *path)
{
	char part[PF_NAME_MAX + 1];
	uint64_t ino = 1;
	struct stat st;
	int len;

	for (; *path; path += path[len] ? len + 1 : len) {
		len = (int)strcspn(path, "/");
		snprintf(part, sizeof(part), "%.*s", len, path);
		ck_assert_msg(pf_vfs_lookup(fs->tree, ino, part, &st) == 0, "%s", path);
		ino = st.st_ino;
	}
	return ino;
}

static void print_bytes(uint64_t ino, struct pf_buf *out)
{
	struct pf_open *of;
	struct answer a;
	int r = open_by(fs->tree, ino, O_RDONLY, &god, &of);

	if (r < 0) {
		pf_buf_printf(out, " cannot be opened: %d", r);
		return;
	}
	pf_vfs_read(of, 1 << 16, 0, answer_begin(&a));
	pf_buf_printf(out, " %zd bytes", answer_wait(&a));
	pf_buf_printf(out, " %" PRIx64,
		      pf_hash(a.data.data ? a.data.data : "", a.data.len));
	answer_end(&a);
	pf_vfs_release(of);
}

/* Append what there is below the directory DIR: names, numbers, attributes, bytes. */
static void print(uint64_t dir, int depth, struct pf_buf *out)
{
	static const char *const own[] = { "info.json", "run",       "call",
					   "cancel",    "cost.json", "optimized.hlo.pb",
					   "serialized" };
	struct pf_listing *listing;

	ck_assert_int_eq(pf_vfs_list(fs->tree, dir, &listing), 0);
	for (size_t i = 2; i < listing->n; i++) {
		const struct pf_listing_entry *e = &listing->entries[i];
		bool is_own = false;
		struct stat st;

		for (size_t k = 0; k < ARRAY_SIZE(own); k++)
			is_own = is_own || !strcmp(own[k], e->name);
		ck_assert_int_eq(pf_vfs_getattr(fs->tree, e->ino, &user, NULL, &st), 0);
		pf_buf_printf(out, "%*s%s %" PRIu64 " %o %u %u %u %" PRIu64, depth, "",
			      e->name, e->ino, st.st_mode, (unsigned)st.st_nlink,
			      st.st_uid, st.st_gid, e->position);
		pf_buf_printf(out, " %lld.%09ld", (long long)st.st_mtim.tv_sec,
			      st.st_mtim.tv_nsec);
		if (S_ISREG(st.st_mode) && !is_own)
			print_bytes(e->ino, out);
		pf_buf_puts(out, "\n");
		if (S_ISDIR(st.st_mode))
			print(e->ino, depth + 2, out);
	}
	pf_listing_free(listing);
}

static void executables_ready(void *arg, struct pf_node *node, struct program *program)
{
	(void)node;
	while (pf_executable_state(program->x) == PF_EXECUTABLE_COMPILING) {
		usleep(1000);
		ck_assert_int_lt(++*(int *)arg, PATIENCE_S * 1000);
	}
}

static void print_all(struct pf_buf *out)
{
	static const char *const directories[] = { "programs", "executables", "buffers",
						   "devices/test/1/buffers", "jobs" };
	static const char *const views[] = { "x.txt", "t.npy", "two.safetensors",
					     "one.raw" };
	int ms = 0;

	if (renames)
		return;
	files_each_executable(fs, executables_ready, &ms);
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
		pf_buf_printf(out, "%s %" PRIu64 "\n", directories[i],
			      ino_of(directories[i]));
		print(ino_of(directories[i]), 2, out);
	}
	for (size_t i = 0; i < ARRAY_SIZE(views); i++) {
		char path[64];

		snprintf(path, sizeof(path), "buffers/%s", views[i]);
		pf_buf_puts(out, views[i]);
		print_bytes(ino_of(path), out);
		pf_buf_puts(out, "\n");
	}
	ck_assert(!out->failed);
}

/* --- the first life ------------------------------------------------------------------ */

static struct pf_open *create(const char *dir, const char *name, mode_t mode)
{
	struct pf_open *of;
	struct stat st;

	ck_assert_int_eq(pf_vfs_create(fs->tree, ino_of(dir), name, mode, O_RDWR, &user,
				       &st, &of),
			 0);
	return of;
}

/* Make the file NAME in DIR of the LEN bytes at DATA. */
static void put(const char *dir, const char *name, const void *data, size_t len)
{
	struct pf_open *of = create(dir, name, 0640);

	ck_assert_int_eq(write_by(pf_vfs_write, of, data, len, 0), (ssize_t)len);
	(void)flush(of); /* some are refused */
	pf_vfs_release(of);
}

static void put_text(const char *dir, const char *name, const char *text)
{
	put(dir, name, text, strlen(text));
}

static void make_directory(const char *dir, const char *name)
{
	struct stat st;

	ck_assert_int_eq(pf_vfs_mkdir(fs->tree, ino_of(dir), name, 0710, &user, &st), 0);
}

static void put_tensors(const char *name, const char *header)
{
	uint64_t len = strlen(header);
	struct pf_buf file = PF_BUF_INIT;

	pf_buf_append(&file, &len, sizeof(len));
	pf_buf_puts(&file, header);
	pf_buf_append(&file, counts, 16);
	put("buffers", name, file.data, file.len);
	pf_buf_release(&file);
}

static void make_buffers(void)
{
	struct stat st = {
		.st_mode = 0604, .st_uid = 7, .st_gid = 8, .st_mtim.tv_sec = 9
	};
	struct pf_buf npy = PF_BUF_INIT;
	const struct pf_shape shape = { .rank = 2, .dims = { 2, 3 } };

	pf_npy_print(&npy, PF_DTYPE_F32, &shape);
	pf_buf_append(&npy, counts, sizeof(counts));
	make_directory("buffers", "ns");
	make_directory("buffers/ns", "deep");
	put("buffers", "x.npy", npy.data, npy.len);
	put("buffers/ns/deep", "x.npy", npy.data, npy.len);
	put("devices/test/1/buffers", "x.npy", npy.data, npy.len);
	put("buffers", "half.npy", npy.data, npy.len - 1);
	put("buffers", "scratch", npy.data, 20);
	put("buffers", "r.raw", counts, sizeof(counts));
	put_text("buffers", "t.txt", "1 2 3\n4 5 6\n");
	put_tensors("one.safetensors",
		    "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}");
	put_tensors("two.safetensors",
		    "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
		    "\"l/b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}");
	ck_assert_int_eq(pf_vfs_set_xattr(fs->tree, ino_of("buffers/r.raw"),
					  "user.pjrtfs.dtype", "S32", 3, 0, &user),
			 0);
	ck_assert_int_eq(pf_vfs_rename(fs->tree, ino_of("buffers"), "scratch",
				       ino_of("buffers/ns"), "moved", 0, &user),
			 0);
	ck_assert_int_eq(pf_vfs_setattr(fs->tree, ino_of("buffers/x.npy"), &st,
					PF_SET_MODE | PF_SET_UID | PF_SET_GID |
						PF_SET_MTIME,
					NULL, &god, &st),
			 0);
	pf_buf_release(&npy);
}

static void make_sharding(void)
{
	struct sharded sh = { .dtype = PF_DTYPE_F32,
			      .shard = { .rank = 2, .dims = { 2, 3 } },
			      .whole = { .rank = 2, .dims = { 4, 3 } },
			      .known = true };

	ck_assert_int_eq(parse_sharding("{'x':2}", "['x']", "['test:0','test:1']", 2,
					&sh.s, NULL),
			 0);
	pf_tree_lock_names(fs->tree);
	ck_assert_int_eq(files_put_sharding_locked(fs, "x", &user, &sh, NULL), 0);
	pf_tree_unlock_names(fs->tree);
}

static void make_programs(void)
{
	make_directory("programs", "dir");
	make_directory("programs", "empty");
	put_text("programs", "add.mlir", add_program);
	put_text("programs/dir", "add.mlir", add_program);
	put_text("programs", "bad.mlirbc", "no program");
	put_text("programs", "scratch", add_program);
	put_text("executables/dir/add", "options.json", "{}");
}

/* --- jobs: one that ends, and one that does not --------------------------------------- */

static void task_end(struct task *task, const struct pf_err *err,
		     struct json_object *reply)
{
	(void)task;
	(void)err;
	json_object_put(reply);
}

static bool never(struct task *task)
{
	(void)task;
	return false;
}

static void keep(struct task *task)
{
	(void)task;
}

static const struct task_ops ops = { .cancelled = never,
				     .answer = task_end,
				     .free = keep };

static int run_once(struct task *task, void *arg, struct pf_err *err)
{
	(void)arg;
	(void)err;
	task_done(task, NULL, reply_new());
	return 0;
}

static int run_on(struct task *task, void *arg, struct pf_err *err)
{
	(void)arg;
	(void)err;
	task_began(task);
	return 0;
}

static void make_jobs(void)
{
	static struct task tasks[2];

	for (int i = 0; i < 2; i++) {
		task_init(&tasks[i], &ops, pf_tree_root(fs->tree), &user);
		ck_assert_int_eq(job_start(&tasks[i], "{\"op\":\"x\"}",
					   i ? run_on : run_once, NULL, NULL),
				 0);
	}
}

/* --- what a rename across formats leaves if the daemon is killed meanwhile --------------- */

/* Give buffers/NAME the formats that it has in the midst of a rename: its view's, and its own, which
 * were FROM. */
static void be_in_rename(const char *name, enum pf_format view, enum pf_format from,
			 enum pf_format buffer)
{
	PF_CLEANUP(pf_node_unrefp)
	struct pf_node *dir = pf_tree_by_ino(fs->tree, ino_of("buffers"));
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = pf_dir_lookup(dir, name);

	view_of(node)->format = view;
	view_save(node);
	pf_buffer_set_format(buffer_of(node), from);
	pf_buffer_set_format(buffer_of(node), buffer);
}

static void make_renames(void)
{
	struct pf_open *of;

	put_text("buffers", "array.txt", "1 2 3\n");
	be_in_rename("array.txt", PF_FORMAT_TXT, PF_FORMAT_NONE, PF_FORMAT_TXT);
	put_text("buffers", "named.txt", "1 2 3\n");
	be_in_rename("named.txt", PF_FORMAT_NONE, PF_FORMAT_TXT, PF_FORMAT_NONE);
	put_text("buffers", "scratch", "1 2 3\n");
	be_in_rename("scratch", PF_FORMAT_TXT, PF_FORMAT_NONE, PF_FORMAT_TXT);
	/* close(2) has returned, and the kernel's RELEASE has not come. */
	of = create("buffers", "closed.txt", 0640);
	of->handle = 1;
	pf_vfs_keep_open(of);
	ck_assert_int_eq(write_by(pf_vfs_write, of, "1 2 3\n", 6, 0), 6);
	ck_assert_int_eq(flush(of), 0);
	be_in_rename("closed.txt", PF_FORMAT_NONE, PF_FORMAT_TXT, PF_FORMAT_NONE);
}

static void make_all(void)
{
	if (renames) {
		make_renames();
		return;
	}
	make_buffers();
	make_sharding();
	make_programs();
	make_jobs();
}

/* --- what is checked ------------------------------------------------------------------- */

static char *content(const char *path)
{
	struct pf_open *of;
	struct answer a;
	char *text;

	ck_assert_int_eq(open_by(fs->tree, ino_of(path), O_RDONLY, &god, &of), 0);
	pf_vfs_read(of, 1 << 16, 0, answer_begin(&a));
	answer_wait(&a);
	text = strndup(a.data.data ? a.data.data : "", a.data.len);
	answer_end(&a);
	pf_vfs_release(of);
	return text;
}

static void expect_line(const char *path, const char *part)
{
	char *text = content(path);

	ck_assert_msg(strstr(text, part) != NULL, "%s: no %s in %s", path, part, text);
	free(text);
}

/* Take out the lines of job 2, whose state the restart changes. */
static void without_job(struct pf_buf *text)
{
	char *at = strstr(text->data, "\n  2 ");

	ck_assert_ptr_nonnull(at);
	at[1] = '\0';
}

static void expect_same(const char *before, const char *after)
{
	while (*before || *after) {
		int n = (int)strcspn(before, "\n"), m = (int)strcspn(after, "\n");

		ck_assert_msg(n == m && !memcmp(before, after, (size_t)n),
			      "before: %.*s\nafter: %.*s", n, before, m, after);
		before += n + (before[n] != '\0');
		after += m + (after[m] != '\0');
	}
}

TEST(a_restarted_daemon_shows_the_same_files)
{
	struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
	static struct task task;
	char *views;

	begin_second_life(&before);
	print_all(&after);
	views = strstr(after.data, "\nx.txt");
	expect_same(strstr(before.data, "\nx.txt"), views);
	without_job(&before);
	without_job(&after);
	expect_same(before.data, after.data);
	expect_line("jobs/1/state", "done");
	expect_line("jobs/2/state", "failed");
	expect_line("jobs/2/result.json", "the daemon was restarted while it ran");
	expect_line("executables/add/state", "ready");
	expect_line("executables/bad/state", "failed");
	task_init(&task, &ops, pf_tree_root(fs->tree), &user);
	ck_assert_int_eq(job_start(&task, "{}", run_once, NULL, NULL), 0);
	expect_line("jobs/3/state", "done");
	pf_buf_release(&before);
	pf_buf_release(&after);
	end_second_life();
}

static void expect_soon(const char *path, const char *want)
{
	char *text = content(path);

	for (int ms = 0; strcmp(text, want) != 0 && ms < PATIENCE_S * 1000; ms++) {
		free(text);
		usleep(1000);
		text = content(path);
	}
	ck_assert_str_eq(text, want);
	free(text);
}

TEST(what_a_kill_leaves_of_a_rename_becomes_what_its_name_says)
{
	struct pf_buf before = PF_BUF_INIT;
	struct stat st;

	renames = true;
	begin_second_life(&before);
	expect_soon("buffers/array.txt", "1 2 3\n");
	expect_line("buffers/array.json", "\"shape\":[3]");
	expect_soon("buffers/named.txt", "1 2 3\n");
	expect_line("buffers/named.json", "\"shape\":[3]");
	expect_soon("buffers/closed.txt", "1 2 3\n");
	expect_line("buffers/closed.json", "\"shape\":[3]");
	expect_soon("buffers/scratch", "1 2 3\n");
	ck_assert_int_eq(pf_vfs_lookup(fs->tree, ino_of("buffers"), "scratch.json", &st),
			 -ENOENT);
	pf_buf_release(&before);
	end_second_life();
}
