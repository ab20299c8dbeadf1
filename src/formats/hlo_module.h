/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the parts of a HloModuleProto that hlo.c unpacks; used by it only. */
#ifndef PJRTFS_SRC_FORMATS_HLO_MODULE_H
#define PJRTFS_SRC_FORMATS_HLO_MODULE_H

#include <stdbool.h>

#include "pjrtfs/base/err.h"
#include "pjrtfs/formats/hlo.h"
#include "protowire.h"

/* All slices point into the module's bytes; p is NULL for what it does not have. */
struct pf_hlo_module {
	struct pf_slice all;
	struct pf_slice name;
	struct pf_slice entry_name;
	int64_t entry_id;
	struct pf_slice program_shape;      /* pjrtfs.hlo.ProgramShape */
	struct pf_slice input_output_alias; /* pjrtfs.hlo.InputOutputAlias */
	struct pf_slice buffer_donor;       /* pjrtfs.hlo.BufferDonor */
};

/*
 * Find the parts of the module in PROTO, or with WITH_CONFIG of the one in its field 1.
 * 0, or -EINVAL if these are no such protos.  Copies nothing.
 */
int pf_hlo_module_find(struct pf_slice proto, bool with_config, struct pf_hlo_module *ret,
		       struct pf_err *err);

/*
 * What the entry computation's parameters are called by the framework that made the
 * program (metadata.op_name): NAMES[i] for the parameter of number i < N; left alone for
 * those that have no name.  0, or -EINVAL.
 */
int pf_hlo_module_names(const struct pf_hlo_module *module, struct pf_slice *names,
			size_t n, struct pf_err *err);

/*
 * Tell SIG's arguments and results how the partitioner split them, as far as the module says
 * so and that can be said of arrays of their rank; what is malformed counts as unsaid.
 * 0 or -ENOMEM.  hlo_tiles.c's.
 */
int pf_hlo_module_tiles(const struct pf_hlo_module *module, struct pf_signature *sig);

#endif
