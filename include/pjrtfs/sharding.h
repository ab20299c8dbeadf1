/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shardings: how one array is split over several devices.
 *
 * The model is JAX's NamedSharding: a mesh, whose axes have names and sizes, and for each
 * dimension of the array the axes that divide it.  Over the axes that divide nothing the
 * array is replicated.  Position i of the mesh, counted row by row (the last axis varies
 * fastest), is device i of the list.
 *
 * struct pf_sharding_words  what a user says; pf_sharding_read makes a pf_sharding of it
 * struct pf_sharding        a mesh, what its axes divide, and the devices
 * struct pf_tiling          what XLA says; pf_tiles_of makes pf_tiles of it
 * struct pf_tiles           which tile each partition of a program has, which knows no names and no
 *                           devices; pf_sharding_of_tiles makes a pf_sharding of them
 * struct pf_block           where in the array the part of one position lies (pf_sharding_part)
 */
#ifndef PJRTFS_SHARDING_H
#define PJRTFS_SHARDING_H

#include <json-c/json.h>
#include <stdint.h>

#include "pjrtfs/array.h"
#include "pjrtfs/base.h"

/* How XLA's partitioner splits an argument or a result over a program's partitions. */

/*
 * An array of RANK dimensions is cut into counts[d] equal tiles along dimension d; partition
 * p has tile of[p], counted row by row.  Where nothing is cut, of is NULL and n may be 0:
 * every partition, however many there are, has the whole array.
 */
struct pf_tiles {
	unsigned rank;
	unsigned n; /* partitions */
	unsigned counts[PF_MAX_RANK];
	uint16_t *of; /* owned, n of them, or NULL */
};

/* The same as XLA's OpSharding has it.  The arrays are borrowed. */
struct pf_tiling {
	/* The tiles along each dimension of the array, and behind them N_COPIES counts of
	 * replicas, which multiply. */
	size_t n_counts, n_copies;
	const int64_t *counts;
	/* The partitions in the order of the tiles; or, with N_RESHAPE, the numbers from 0 on,
	 * as an array of these dimensions, which are then permuted. */
	size_t n_order, n_reshape;
	const int64_t *order, *reshape;
	const int32_t *permutation;
};

/* The tiles of an array of RANK dimensions that TILING has, in *RET, whose OF the caller frees.
 * -EINVAL: another rank, or TILING has not each partition once; -E2BIG: more than PF_MAX_SHARDS
 * partitions; -ENOMEM.  Does not block. */
int pf_tiles_of(const struct pf_tiling *tiling, unsigned rank, struct pf_tiles *ret,
		struct pf_err *err);

void pf_tiles_free(struct pf_tiles *tiles); /* NULL is allowed */

/* Where along each dimension the tile of PARTITION is, in AT, in tiles. */
void pf_tiles_at(const struct pf_tiles *tiles, unsigned partition,
		 unsigned at[PF_MAX_RANK]);

/* Does every partition have the same part of an array in A as in B? */
bool pf_tiles_equal(const struct pf_tiles *a, const struct pf_tiles *b);

/* How many different tiles there are. */
unsigned pf_tiles_count(const struct pf_tiles *tiles);

enum {
	PF_MAX_AXES = 8,
	PF_MAX_SHARDS = 1024,  /* devices of one mesh */
	PF_AXIS_NAME_MAX = 63, /* bytes */
};

struct pf_axis {
	char name[PF_AXIS_NAME_MAX + 1];
	unsigned size; /* at least 1 */
};

/* Which part of an array each device has. */
struct pf_sharding {
	unsigned n_axes;
	struct pf_axis axes[PF_MAX_AXES]; /* the slowest varying first */
	unsigned rank;                    /* of the array */
	/* The axes that divide each dimension, the slowest varying first. */
	uint8_t n_by[PF_MAX_RANK];
	uint8_t by[PF_MAX_RANK][PF_MAX_AXES];
	unsigned n;     /* the product of the axes' sizes */
	char **devices; /* owned: n owned names ("cpu:0"), or NULL: not known yet */
};

/* Free what SHARDING owns; all zeros is allowed. */
void pf_sharding_release(struct pf_sharding *sharding);

/*
 * Read a sharding of an array of RANK dimensions: MESH is an object of sizes by axis, SPEC a
 * list with, for each dimension, an axis' name, a list of names, or null; dimensions that it
 * does not reach are whole.  DEVICES is a list of names, or NULL, which leaves them NULL.
 * *RET is set in any case, and the caller's on success.
 *
 * Errors: -EINVAL another type of JSON than these, no axis, one twice, one that the mesh
 * does not have, more entries than dimensions, another number of devices than the mesh
 * has, one device twice; -E2BIG more than PF_MAX_AXES axes or PF_MAX_SHARDS devices;
 * -ENAMETOOLONG; -ENOMEM.  No function here blocks.
 */
int pf_sharding_parse(struct json_object *mesh, struct json_object *spec,
		      struct json_object *devices, unsigned rank, struct pf_sharding *ret,
		      struct pf_err *err);

/* The names of devices, by the numbers that texts of shardings give them. */
struct pf_device_names {
	unsigned n;
	char **at;   /* owned: n owned names */
	bool chosen; /* by a user for one sharding, which has as many devices */
};

void pf_device_names_release(struct pf_device_names *names); /* all zeros is allowed */

/* Read LIST, of names.  -EINVAL: no list, or one name twice; -E2BIG: more than PF_MAX_SHARDS;
 * -ENOMEM.  *RET is set in any case, and the caller's on success. */
int pf_device_names_parse(struct json_object *list, struct pf_device_names *ret,
			  struct pf_err *err);

/* A sharding as a user says it: TEXT alone, TEXT of Shardy with MESH, or MESH and SPEC.  All is
 * borrowed. */
struct pf_sharding_words {
	struct json_object *mesh; /* sizes by axis, or Shardy's text of a mesh; or NULL */
	struct json_object *spec; /* as of pf_sharding_parse */
	/* "{devices=[2,1]<=[2]}" of XLA, "#sdy.sharding<@mesh, [{\"x\"}, {}]>" of Shardy, or
	 * NULL */
	const char *text;
	const struct pf_device_names *devices;
};

/*
 * Read a sharding of an array of RANK dimensions, as pf_sharding_parse.  What does not divide an
 * array evenly in a mesh is refused with a sentence: -EINVAL also for manual and unknown
 * shardings, those of another rank or of other devices than there are, parts of axes, and text
 * behind the end; -E2BIG: more devices than PF_MAX_SHARDS.
 */
int pf_sharding_read(const struct pf_sharding_words *words, unsigned rank,
		     struct pf_sharding *ret, struct pf_err *err);

/* Does AXIS divide any dimension? */
bool pf_sharding_divides(const struct pf_sharding *sharding, unsigned axis);

/* Give SHARDING copies of names of devices: position I has NAMES[OF[I]], or NAMES[I] if OF is NULL.
 * -ENOMEM: it has some of them. */
int pf_sharding_place(struct pf_sharding *sharding, char *const *names,
		      const unsigned *of);

/* A copy, with the devices, in *RET, the caller's.  -ENOMEM. */
int pf_sharding_copy(const struct pf_sharding *sharding, struct pf_sharding *ret);

/* Add "mesh", "spec", "replicated" (the axes that divide nothing) and "devices" to O. */
void pf_sharding_print(const struct pf_sharding *sharding, struct json_object *o);

/* Into how many parts dimension DIM is divided. */
unsigned pf_sharding_parts(const struct pf_sharding *sharding, unsigned dim);

/* Which part of each dimension position I of the mesh has, in AT. */
void pf_sharding_at(const struct pf_sharding *sharding, unsigned i,
		    unsigned at[PF_MAX_RANK]);

/* Which of the different blocks position I has, from 0 on, row by row; replicas have the
 * same one. */
unsigned pf_sharding_block(const struct pf_sharding *sharding, unsigned i);

/* The position of the device called NAME, or -1. */
int pf_sharding_find(const struct pf_sharding *sharding, const char *name);

/* The shape of each shard of an array of shape WHOLE, which has the sharding's rank.
 * -EINVAL: a dimension is not divisible; the sentence names it, its size and the axes. */
int pf_sharding_divide(const struct pf_sharding *sharding, const struct pf_shape *whole,
		       struct pf_shape *ret, struct pf_err *err);

/* The shape of the array whose shards have the shape SHARD.  -EOVERFLOW. */
int pf_sharding_multiply(const struct pf_sharding *sharding, const struct pf_shape *shard,
			 struct pf_shape *ret, struct pf_err *err);

/*
 * The sharding of an array that TILES describe, over N partitions on DEVICES (borrowed
 * names), in *RET, the caller's.  If LIKE (may be NULL) is of a mesh of the same devices
 * whose axes can express it, these are used; else axes are called "d0" after the
 * dimension that they divide, and "replicated".  -EINVAL: TILES are of another number of
 * partitions; -E2BIG: too many dimensions are divided; -ENOMEM.
 */
int pf_sharding_of_tiles(const struct pf_tiles *tiles, unsigned n, char *const *devices,
			 const struct pf_sharding *like, struct pf_sharding *ret,
			 struct pf_err *err);

/* Does SHARDING give each device the part that TILES do, where DEVICES[p] of N has partition p?
 * 0, also if TILES are of another number of partitions and so cannot be compared; or -EINVAL and
 * the first difference. */
int pf_sharding_agrees(const struct pf_sharding *sharding, const struct pf_tiles *tiles,
		       unsigned n, char *const *devices, struct pf_err *err);

/* A part of an array: extents, and where it starts in elements. */
struct pf_block {
	struct pf_shape whole, part;
	int64_t start[PF_MAX_RANK];
};

/* The part that position I of the mesh has of an array of shape WHOLE, which is divisible. */
void pf_sharding_part(const struct pf_sharding *sharding, const struct pf_shape *whole,
		      unsigned i, struct pf_block *ret);

/* Do its elements follow each other in the whole array's row-major order, from *FIRST on? */
bool pf_block_is_run(const struct pf_block *block, uint64_t *first);

/*
 * Copy what the blocks FROM and TO of one array have in common, from SRC, FROM's elements, to DST,
 * TO's; row-major, elements of SIZE bytes.  The two do not overlap.  Takes the copy's time.
 */
void pf_block_copy(const struct pf_block *from, const void *src,
		   const struct pf_block *to, void *dst, size_t size);

/* The same from the whole array: copy the block out of WHOLE into PART. */
void pf_block_cut(const struct pf_block *block, size_t size, const void *whole,
		  void *part);

/* Has B all that A has?  Has it any element of A? */
bool pf_block_within(const struct pf_block *a, const struct pf_block *b);
bool pf_block_meets(const struct pf_block *a, const struct pf_block *b);

#endif
