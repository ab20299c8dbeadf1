/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a state directory, of which one cannot be opened, or for which memory is short. */
#include "vfs_driver.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "files/state_dir.h"
#include "fs_fixture.h"
#include "work_dir.h"

static const struct pf_cred user = { .uid = USER, .gid = USER };
static const char *_Atomic no_memory_for; /* a name; NULL: there is memory */
static int kept = -1;                     /* the state directory's buffers/ */

/* The program's own, instead of the C library's. */
char *strdup(const char *s)
{
	const char *refused = no_memory_for;
	size_t size = strlen(s) + 1;
	char *copy = refused && !strcmp(s, refused) ? NULL : malloc(size);

	return copy ? memcpy(copy, s, size) : NULL;
}

static void begin_mount(void)
{
	struct pf_err err = PF_ERR_INIT;

	open_arena();
	state_dir = work_dir;
	open_fs(NULL);
	ck_assert_msg(pf_fs_keep(fs, &err) == 0, "%s", err.text);
	kept = openat(fs->state_dir->fd, "buffers", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(kept, 0);
}

static void end_mount(void)
{
	close(kept);
	close_fs();
}

static uint64_t buffers(void)
{
	return fs->devices[0].buffers->ino;
}

static void put(const char *name, const char *text)
{
	struct pf_open *of;
	struct stat st;

	ck_assert_int_eq(pf_vfs_create(fs->tree, buffers(), name, 0644, O_RDWR, &user,
				       &st, &of),
			 0);
	ck_assert_int_eq(write_by(pf_vfs_write, of, text, strlen(text), 0),
			 (ssize_t)strlen(text));
	ck_assert_int_eq(flush(of), 0);
	pf_vfs_release(of);
	ck_assert_int_eq(pf_state_dir_settle(fs->state_dir, NULL), 0);
}

static bool is_kept(const char *name)
{
	struct stat st;

	return fstatat(kept, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* An array of an earlier mount, which no process has read, with a reference for the test. */
static struct pf_backing *backing_of(const char *name)
{
	uint64_t ino = look_in(fs->tree, buffers(), name).st_ino;
	struct kept *k;

	PF_LOCK_SCOPE(&fs->state_dir->names);
	k = pf_map_get(&fs->state_dir->by_ino, ino);
	ck_assert(k && k->backing);
	return pf_backing_ref(&k->backing->base);
}

/* While a process reads x, its name is removed, and its file cannot be opened for the reader. */
TEST(a_file_that_a_reader_needs_stays_until_it_can_be_opened)
{
	struct pf_err err = PF_ERR_INIT;
	struct pf_backing *backing;
	char got[4] = "";

	begin_mount();
	put("x.raw", "abc");
	end_mount();
	begin_mount();
	backing = backing_of("x.raw");
	ck_assert_int_eq(renameat(kept, "x.raw", kept, "../aside"), 0);
	ck_assert_int_eq(symlinkat("../aside", kept, "x.raw"), 0);
	ck_assert_int_eq(pf_vfs_remove(fs->tree, buffers(), "x.raw", false, &user), 0);
	ck_assert_int_eq(pf_state_dir_settle(fs->state_dir, &err), -EIO);
	ck_assert_msg(strstr(err.text, "open buffers/x.raw") != NULL, "%s", err.text);
	ck_assert(is_kept("x.raw"));

	ck_assert_int_eq(renameat(kept, "../aside", kept, "x.raw"), 0);
	pf_fs_finish(fs, 60000);
	ck_assert(!is_kept("x.raw"));
	ck_assert_msg(backing->read(backing, got, 3, &err) == 0, "%s", err.text);
	ck_assert_str_eq(got, "abc");
	pf_backing_unref(backing);
	end_mount();
}

TEST(a_name_without_memory_stays_until_there_is_some)
{
	struct pf_err err = PF_ERR_INIT;

	begin_mount();
	put("x.raw", "abc");
	pf_lock(&fs->state_dir->names); /* no file moves before memory is short */
	ck_assert_int_eq(pf_vfs_rename(fs->tree, buffers(), "x.raw", buffers(), "y.raw",
				       0, &user),
			 0);
	no_memory_for = "y.raw";
	pf_unlock(&fs->state_dir->names);
	ck_assert_int_eq(pf_state_dir_settle(fs->state_dir, &err), -EIO);
	ck_assert_msg(strstr(err.text, "rename buffers/x.raw") != NULL, "%s", err.text);
	ck_assert(is_kept("x.raw"));

	no_memory_for = NULL;
	pf_fs_finish(fs, 60000);
	ck_assert(!is_kept("x.raw"));
	ck_assert(is_kept("y.raw"));
	end_mount();
}

UNIT_FIXTURE(work_dir_make, work_dir_end)
