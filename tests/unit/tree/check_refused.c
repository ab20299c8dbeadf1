/* SPDX-License-Identifier: Apache-2.0 */
/* The sentence of the last refused call, for each user and session, in a tree of toys. */
#include "pjrtfs/stream.h"
#include "vfs_toys.h"

static struct pf_cred user(uid_t uid, pid_t sid)
{
	return (struct pf_cred){ .uid = uid, .sid = sid };
}

static const char *why(const struct pf_cred *cred)
{
	static char line[2048];
	pf_autobuf struct pf_buf out = PF_BUF_INIT;

	pf_vfs_refusal(tree, cred, &out);
	snprintf(line, sizeof(line), "%s", out.data ? out.data : "");
	return line;
}

static void expect_why(const struct pf_cred *cred, const char *want)
{
	ck_assert_str_eq(why(cred), want);
}

TEST(without_refusals_error_is_empty)
{
	struct pf_cred cred = user(7, 1);
	struct stat st;

	expect_why(&cred, "");
	ck_assert_int_eq(pf_vfs_lookup(tree, d, "nothing", &st), -ENOENT);
	ck_assert_int_eq(pf_vfs_mkdir(tree, d, "made", 0755, &cred, &st), 0);
	expect_why(&cred, "");
}

/* Another session's counts until the own one has had a refusal. */
TEST(a_refusal_has_its_time)
{
	struct pf_cred cred = user(7, 1), other = user(7, 2), stranger = user(8, 1);
	struct timespec began, first, at;
	struct stat st;

	clock_gettime(CLOCK_REALTIME, &began);
	ck_assert(!pf_vfs_refused_at(tree, &cred, &at));
	ck_assert_int_eq(pf_vfs_mkdir(tree, 1, "x", 0755, &other, &st), -EPERM);
	ck_assert(pf_vfs_refused_at(tree, &cred, &first));
	ck_assert(pf_seconds_between(&began, &first) >= 0);
	ck_assert(!pf_vfs_refused_at(tree, &stranger, &at));
	ck_assert_int_eq(pf_vfs_mkdir(tree, 1, "y", 0755, &cred, &st), -EPERM);
	ck_assert(pf_vfs_refused_at(tree, &cred, &at));
	ck_assert(pf_seconds_between(&first, &at) > 0);
	ck_assert(pf_vfs_refused_at(tree, &other, &at));
	ck_assert(pf_seconds_between(&first, &at) == 0);
}

TEST(names)
{
	struct pf_cred cred = user(7, 1);
	struct pf_open *of;
	struct stat st;

	ck_assert_int_eq(pf_vfs_mkdir(tree, 1, "x", 0755, &cred, &st), -EPERM);
	expect_why(&cred, "mkdir x: pjrtfs alone makes and removes names here\n");
	ck_assert_int_eq(pf_vfs_mkdir(tree, d, "sub", 0755, &cred, &st), 0);
	ck_assert_int_eq(pf_vfs_mkdir(tree, st.st_ino, "sub", 0755, &cred, &st), 0);
	ck_assert_int_eq(pf_vfs_remove(tree, d, "sub", true, &cred), -ENOTEMPTY);
	expect_why(&cred, "rmdir dir/sub: Directory not empty\n");
	ck_assert_int_eq(pf_vfs_remove(tree, d, "a.view", false, &cred), -EPERM);
	expect_why(&cred, "unlink dir/a.view: a view\n");
	ck_assert_int_eq(pf_vfs_rename(tree, d, "sub", d, "b\n", 0, &cred), -EINVAL);
	expect_why(&cred, "rename dir/sub: a control character in the name \"b \"\n");
	ck_assert_int_eq(pf_vfs_create(tree, 1, "y", 0644, O_WRONLY, &cred, &st, &of),
			 -EPERM);
	expect_why(&cred, "create y: pjrtfs alone makes and removes names here\n");
	ck_assert_int_eq(pf_vfs_not_made(tree, d, "l", &cred, "links"), -EPERM);
	expect_why(&cred, "make dir/l: there are no links here: copy the file\n");
	ck_assert_int_eq(pf_vfs_set_xattr(tree, look(1, "text").st_ino, "user.x", "", 0,
					  0, &cred),
			 -EOPNOTSUPP);
	expect_why(&cred, "setxattr text: it has no attributes to set\n");
	/* cp -p tries these. */
	pf_vfs_set_xattr(tree, d, "system.posix_acl_access", "", 0, 0, &cred);
	expect_why(&cred, "setxattr text: it has no attributes to set\n");
}

static struct pf_reply *asked_by(struct answer *a, const struct pf_cred *cred)
{
	struct pf_reply *reply = answer_begin(a);

	reply->uid = cred->uid;
	reply->pid = cred->pid;
	return reply;
}

/* A failure that is answered later is kept for the session of the calling thread. */
TEST(open_files)
{
	struct pf_cred cred = { .uid = 7, .pid = getpid(), .sid = PF_SID_UNKNOWN };
	struct pf_open *of = create_as("f", O_RDWR, &cred), *none = NULL;
	struct answer a;

	pf_vfs_write(of, "!", 1, 0, asked_by(&a, &cred));
	ck_assert_int_eq(answer_take(&a), -EINVAL);
	expect_why(&cred, "write dir/f: no exclamations\n");
	pf_vfs_write(of, "long", 4, 58, asked_by(&a, &cred));
	ck_assert_int_eq(answer_take(&a), -EFBIG);
	expect_why(&cred, "write dir/f: it holds 60 bytes at most\n");
	ck_assert_int_eq(write_by(pf_vfs_write, of, "bad", 3, 0), 3);
	pf_vfs_flush(of, getpid(), asked_by(&a, &cred));
	ck_assert_int_eq(answer_take(&a), -EINVAL);
	expect_why(&cred, "close dir/f: Invalid argument\n");
	pf_vfs_release(of);

	word[0] = '\0';
	pf_vfs_open(tree, look(1, "text").st_ino, O_RDONLY, &cred, &none,
		    asked_by(&a, &cred));
	ck_assert_int_eq(answer_take(&a), -ENODATA);
	expect_why(&cred, "open text: text has no word\n");
	ck_assert_int_eq(try_open(look(1, "text").st_ino, O_WRONLY, &cred, &none),
			 -EACCES);
	expect_why(&cred, "open text: it can only be read\n");
}

TEST(a_failed_preparation_is_reported)
{
	struct pf_cred cred = { .uid = 7, .pid = getpid(), .sid = PF_SID_UNKNOWN };
	struct pf_err err = PF_ERR_INIT;
	struct pf_open *none = NULL;
	struct answer a;

	pf_vfs_open(tree, look(1, "prepared").st_ino, O_RDONLY, &cred, &none,
		    asked_by(&a, &cred));
	pf_err_set(&err, -EIO, "there was none to be had");
	pf_reply_fail(waiting, -EIO, &err);
	ck_assert_int_eq(answer_take(&a), -EIO);
	expect_why(&cred, "open prepared: there was none to be had\n");
}

TEST(each_user_sees_their_own_refusal)
{
	struct pf_cred a = user(7, 1), b = user(7, 2), c = user(8, 1), unknown = a;
	struct stat st;

	unknown.sid = PF_SID_UNKNOWN;
	ck_assert_int_eq(pf_vfs_mkdir(tree, 1, "a", 0755, &a, &st), -EPERM);
	expect_why(&b,
		   "mkdir a: pjrtfs alone makes and removes names here (another login "
		   "session of yours, 0 s ago)\n");
	expect_why(&c, "");
	ck_assert_int_eq(pf_vfs_mkdir(tree, 1, "b", 0755, &b, &st), -EPERM);
	ck_assert_int_eq(pf_vfs_mkdir(tree, 1, "u", 0755, &unknown, &st), -EPERM);
	ck_assert_ptr_eq(strstr(why(&unknown), "mkdir b: "), why(&unknown));
	ck_assert_ptr_eq(strstr(why(&a), "mkdir a: "), why(&a));
	ck_assert_ptr_eq(strstr(why(&b), "mkdir b: "), why(&b));
	/* Others' make theirs be forgotten, in the end: memory is bounded. */
	for (int i = 0; i < PF_CONTROL_LAST_REPLIES; i++) {
		struct pf_cred other = user(9, 100 + i);

		ck_assert_int_eq(pf_vfs_mkdir(tree, 1, "o", 0755, &other, &st), -EPERM);
	}
	expect_why(&a, "");
}

/* A path may be truncated, the reason never. */
TEST(long_paths)
{
	struct pf_cred cred = user(7, 1);
	char name[PF_NAME_MAX + 1];
	uint64_t at = d;
	struct stat st;

	memset(name, 'n', sizeof(name) - 1);
	name[PF_NAME_MAX] = '\0';
	for (int i = 0; i < 10; i++) {
		ck_assert_int_eq(pf_vfs_mkdir(tree, at, name, 0755, &cred, &st), 0);
		at = st.st_ino;
	}
	ck_assert_int_eq(pf_vfs_rename(tree, at, "x", at, "\1", 0, &cred), -EINVAL);
	ck_assert_ptr_nonnull(strstr(why(&cred), "nnn/x: a control character"));
	ck_assert_uint_lt(strlen(why(&cred)), 500);
}

UNIT_FIXTURE(setup, teardown)
