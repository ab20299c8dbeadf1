/* SPDX-License-Identifier: Apache-2.0 */
/* A file system on the plugin that fails on demand.  Static: each test has its own. */
#ifndef PJRTFS_TESTS_UNIT_FS_FIXTURE_H
#define PJRTFS_TESTS_UNIT_FS_FIXTURE_H

#include "files/internal.h"
#include "pjrtfs/restore.h"
#include "store_fixture.h"

enum { OWNER = 1000, USER = 1001 };

static struct pf_fs *fs;
static const char *state_dir; /* of the next one, or NULL */
static struct pf_telemetry *telemetry;

/* Make it, with what RESTORE has of an earlier life; NULL: of none. */
static inline void open_fs(struct pf_restore *restore)
{
	struct pf_fs_config config = { .arena = arena,
				       .workers = &worker,
				       .n_workers = 1,
				       .uid = OWNER,
				       .gid = OWNER,
				       .shared_mode = 01777,
				       .shared_gid = OWNER,
				       .state_dir = state_dir };
	struct pf_err err = PF_ERR_INIT;

	start_worker(faulty_plugin());
	config.compiler = the_compiler();
	config.telemetry = telemetry = pf_telemetry_new(OWNER, 0, 0);
	ck_assert_msg(pf_fs_new(&config, &fs, &err) == 0, "%s", err.text);
	if (restore)
		ck_assert_msg(pf_fs_restore(fs, restore, &err) == 0, "%s", err.text);
	pf_restore_end(restore);
}

static inline void close_fs(void)
{
	pf_worker_stop(worker);
	pf_compiler_stop(compiler);
	pf_fs_free(fs);
	close_store();
	pf_telemetry_free(telemetry);
}

#endif
