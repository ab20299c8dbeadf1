/* What an execution is given, checked against what its program takes.  Private to the store. */
#ifndef PJRTFS_STORE_EXECUTION_CHECK_H
#define PJRTFS_STORE_EXECUTION_CHECK_H

#include "pjrtfs/store/execution.h"

/* Which of the worker's devices ROW runs on; E is loaded. */
unsigned pf_execution_device(const struct pf_execution *e, size_t row);

/* Are there as many rows, arguments and results as the program has, of its types and shapes,
 * and where it runs?  0; -EINVAL. */
int pf_execution_check(const struct pf_execution *e, struct pf_err *err);

/* Put before the sentence which argument of E it is about.  Returns CODE. */
int pf_execution_name_arg(const struct pf_execution *e, size_t i, int code,
			  struct pf_err *err);

#endif
