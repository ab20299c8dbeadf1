/* SPDX-License-Identifier: Apache-2.0 */
/* The memory limit of control groups, in invented trees of files. */
#include "daemon/internal.h"

#include "work_dir.h"

#define V2 "29 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1                                                                               \
	"31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"                     \
	"32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"                    \
	"35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
#define GIVEN(mounted)                                                                   \
	"35 31 0:32 " mounted " /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"

static const struct {
	const char *mounts, *groups;
	struct {
		const char *path, *text;
	} files[3];
	uint64_t limit;
} cases[] = {
	/* the limit of its own group, of a group above it, and none */
	{ V2, "0::/a/b\n", { { "/a/b/memory.max", "4096\n" } }, 4096 },
	{ V2,
	  "0::/a/b\n",
	  { { "/a/b/memory.max", "8192\n" }, { "/a/memory.max", "4096\n" } },
	  4096 },
	{ V2, "0::/a/b\n", { { "/a/b/memory.max", "max\n" } }, UINT64_MAX },
	{ V2, "0::/\n", { { "/memory.max", "4096\n" } }, 4096 },
	{ V2, "0::/a\n", { { "/b/memory.max", "4096\n" } }, UINT64_MAX },
	{ V1,
	  "4:cpu:/x\n3:memory:/a/b\n0::/\n",
	  { { "/memory/a/b/memory.limit_in_bytes", "734003200\n" },
	    { "/memory/memory.limit_in_bytes", "9223372036854771712\n" } },
	  734003200 },
	{ V1,
	  "3:cpuacct,memory:/a/b\n",
	  { { "/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n" },
	    { "/memory/a/memory.limit_in_bytes", "4096\n" } },
	  4096 },
	/* a container that sees only its own group, and one whose group is its root */
	{ GIVEN("/docker/f00"),
	  "3:memory:/docker/f00/in\n",
	  { { "/memory/in/memory.limit_in_bytes", "8192\n" },
	    { "/memory/memory.limit_in_bytes", "4096\n" } },
	  4096 },
	{ GIVEN("/docker/f00"),
	  "3:memory:/docker/f00\n",
	  { { "/memory/memory.limit_in_bytes", "4096\n" } },
	  4096 },
	/* no hierarchy is mounted, or no group is known */
	{ "", "0::/a\n", { { "/a/memory.max", "4096\n" } }, UINT64_MAX },
	{ V2, "", { { "/a/memory.max", "4096\n" } }, UINT64_MAX },
	{ "nonsense\n- -\n" V2, ":\n0::/a\n", { { "/a/memory.max", "4096\n" } }, 4096 },
};

TEST_EACH(the_smallest_cgroup_limit_applies, cases)
{
	char path[256];

	put_file("proc/self/mountinfo", cases[_i].mounts);
	put_file("proc/self/cgroup", cases[_i].groups);
	for (size_t k = 0; k < 3 && cases[_i].files[k].path; k++) {
		snprintf(path, sizeof(path), "sys/fs/cgroup%s", cases[_i].files[k].path);
		put_file(path, cases[_i].files[k].text);
	}
	ck_assert_uint_eq(memory_limit_cgroup(work_dir), cases[_i].limit);
}

TEST(without_proc_no_limit_is_found)
{
	ck_assert_uint_eq(memory_limit_cgroup(work_dir), UINT64_MAX);
}

UNIT_FIXTURE(work_dir_begin, work_dir_end)
