/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon made here: buffers and executables by id.
 *
 * Buffers and executables are numbered apart: both may have an object 7.
 *
 * Objects are counted: the table has one reference, every request that uses an object
 * another, so that an object may be freed while it is in use and goes with its last user.
 */
#ifndef PJRTFS_WORKER_OBJECTS_H
#define PJRTFS_WORKER_OBJECTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/base/map.h"
#include "pjrtfs/pjrt/buffer.h"
#include "pjrtfs/pjrt/executable.h"

enum pf_object_kind { PF_OBJECT_BUFFER, PF_OBJECT_EXECUTABLE, PF_OBJECT_KINDS };

struct pf_object {
	enum pf_object_kind kind;
	atomic_uint refs;
	const struct pj_plugin *plugin; /* borrowed */
	/* A buffer. */
	struct PJRT_Buffer *buffer; /* owned */
	enum pf_dtype dtype;
	uint64_t len; /* host bytes */
	/* An executable. */
	struct pj_executable *executable; /* owned */
};

struct pf_objects {
	pthread_mutex_t lock; /* rank 3; protects maps */
	struct pf_map
		maps[PF_OBJECT_KINDS]; /* id to struct pf_object, one reference each */
};

void pf_objects_init(struct pf_objects *objects);

/* Drop the table's references.  No other thread may use OBJECTS. */
void pf_objects_release(struct pf_objects *objects);

/*
 * A new object with one reference, the caller's.  The handle is given: it is destroyed
 * with the object, and also if there is no memory for one (NULL is returned).
 */
struct pf_object *pf_object_buffer(const struct pj_plugin *plugin,
				   struct PJRT_Buffer *buffer, enum pf_dtype dtype,
				   uint64_t len);
struct pf_object *pf_object_executable(const struct pj_plugin *plugin,
				       struct pj_executable *executable);

/* Drop a reference; the last one destroys.  OBJECT may be NULL. */
void pf_object_unref(struct pf_object *object);
PF_DEFINE_CLEANUP(struct pf_object *, pf_object_unref)

/*
 * Put N objects of one kind into the table under IDS, all or none; the table takes a reference of its
 * own on each.  -EPROTO: an id is 0 or in use; -ENOMEM.
 */
int pf_objects_put(struct pf_objects *objects, const uint64_t *ids,
		   struct pf_object *const *put, size_t n, struct pf_err *err);

/*
 * The N objects of KIND under IDS, each with a reference that becomes the caller's; all or
 * none.  -ENOENT: one does not exist; the sentence tells its id.
 */
int pf_objects_get(struct pf_objects *objects, const uint64_t *ids, size_t n,
		   enum pf_object_kind kind, struct pf_object **ret, struct pf_err *err);

/* Take the object of KIND under ID out of the table, if there is one. */
void pf_objects_remove(struct pf_objects *objects, uint64_t id, enum pf_object_kind kind);

#endif
