/* SPDX-License-Identifier: Apache-2.0 */
/* The error that a test's calls may set. */
#ifndef PJRTFS_TESTS_UNIT_ERR_FIXTURE_H
#define PJRTFS_TESTS_UNIT_ERR_FIXTURE_H

#include "pjrtfs/base.h"

#include "unit.h"

static struct pf_err err;

/* The call that gave R has succeeded. */
#define ok(r) ck_assert_msg((r) == 0, "%s", err.text)

#endif
