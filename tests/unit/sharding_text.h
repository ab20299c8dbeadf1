/* SPDX-License-Identifier: Apache-2.0 */
/* Shardings read from short texts. */
#ifndef PJRTFS_TESTS_UNIT_SHARDING_TEXT_H
#define PJRTFS_TESTS_UNIT_SHARDING_TEXT_H

#include "formats_fixture.h"
#include "pjrtfs/sharding.h"

static char *devices_of_p[] __attribute__((unused)) = { "p:0", "p:1", "p:2", "p:3",
							"p:4", "p:5", "p:6", "p:7" };

/* The sharding of an array of RANK dimensions, read from texts; ON, its devices, may be NULL. */
static inline int parse_sharding(const char *mesh, const char *spec, const char *on,
				 unsigned rank, struct pf_sharding *ret,
				 struct pf_err *err)
{
	struct json_object *m = json(mesh), *s = json(spec);
	struct json_object *d = json(on);
	int r = pf_sharding_parse(m, s, d, rank, ret, err);

	json_object_put(m);
	json_object_put(s);
	json_object_put(d);
	return r;
}

#endif
